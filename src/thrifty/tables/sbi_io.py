"""Simulations for sbi: tensors, and a proposal that NPE_C accepts.

sbi's NPE_C with its atomic loss needs to know that parameters came from a proposal, but never uses its density; it then
learns the posterior under *its* prior without weights. `to_sbi` returns that proposal: sampling resamples the table's
parameters without weights, and the density is normalised where thrifty's proposal knows its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thrifty.errors import import_extra
from thrifty.types import Array

if TYPE_CHECKING:
    import torch


class SbiTable(NamedTuple):
    """theta (n, p) and x (n, *event) as float32 tensors, and the proposal for `append_simulations`."""

    theta: torch.Tensor
    x: torch.Tensor
    proposal: Any


def to_sbi(theta: Array, x: Array, proposal: Any) -> SbiTable:
    """Make tensors and a proposal, for `NPE_C(prior).append_simulations(theta, x, proposal=proposal)`.

    Args:
        theta: Parameters (n, p) of valid runs with a weight.
        x: Their outputs (n, *event).
        proposal: thrifty's proposal, where known.
    """
    torch = import_extra("torch", "neural")
    tensors = [torch.as_tensor(np.array(table, dtype=np.float32)) for table in (theta, x)]
    return SbiTable(tensors[0], tensors[1], _make_proposal(np.array(theta), proposal))


def _make_proposal(theta: Array, proposal: Any) -> Any:
    torch = import_extra("torch", "neural")
    constraints = torch.distributions.constraints

    class TableProposal(torch.distributions.Distribution):
        """The distribution that the table's parameters came from."""

        def __init__(self) -> None:
            super().__init__(torch.Size(), torch.Size([theta.shape[1]]), validate_args=False)

        @property
        def support(self) -> Any:
            return constraints.independent(constraints.real, 1)

        @property
        def mean(self) -> torch.Tensor:
            return torch.as_tensor(theta.mean(0), dtype=torch.float32)

        @property
        def variance(self) -> torch.Tensor:
            return torch.as_tensor(theta.var(0), dtype=torch.float32)

        def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:  # noqa: B008
            count = int(np.prod(tuple(sample_shape), initial=1))
            rows = torch.randint(len(theta), (count,)).numpy()
            draws = torch.as_tensor(theta[rows], dtype=torch.float32)
            return draws.reshape(*tuple(sample_shape), theta.shape[1])

        def log_prob(self, value: torch.Tensor) -> torch.Tensor:
            if not hasattr(proposal, "log_prob"):
                raise NotImplementedError("the density of this table's proposal is not known")
            table = value.detach().cpu().numpy().astype(np.float64).reshape(-1, theta.shape[1])
            return torch.as_tensor(proposal.log_prob(table), dtype=torch.float32).reshape(value.shape[:-1])

    return TableProposal()
