"""Neural likelihood estimation: learn q(x | theta), multiply by the prior, sample by emcee.

    minimise over q   - sum_i w_i log q(x_i | theta_i) / sum_i w_i

The likelihood does not depend on how theta was drawn, so that w = 1 is consistent for any proposal with full support,
and weights only add variance: unweighted is the default, `weighted=True` the paper's Ca-NLE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.inference.neural.likelihood_fit import FailurePolicy, LikelihoodMethod
from thrifty.inference.neural.prepare import Rows
from thrifty.inference.neural.recipes import MAF, AutoregressiveMixture, MixtureDensity
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.training_settings import MANY_OUTPUTS, Training
from thrifty.types import Array, Prior

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, repr=False)
class NLE(LikelihoodMethod):
    """Neural likelihood estimation.

    Args:
        prior: The prior; anything `as_prior` reads.
        network: `th.AutoregressiveMixture()`, `th.NSF()`, `th.MAF()`, `th.MixtureDensity()`, or an sbi density
            estimator.
        weighted: Use the importance weights in the loss (the paper's Ca-NLE); not needed.
        failures: "refuse" when more than 1 % of the prior mass failed, or "model" P(valid | theta) and multiply.
        training: Settings of the loop.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((400, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((400, 1)))
        >>> method = th.NLE(th.Normal(0.0, 1.0), network=th.MixtureDensity(2), training=th.Training(max_epochs=20))
        >>> method.fit(sims, seed=0).sample(100, [[1.0], [0.8]], seed=0).shape  # two independent observations
        (100, 1)
    """

    method = "nle"
    prior: Prior
    network: Any = field(default_factory=AutoregressiveMixture)
    weighted: bool = False
    failures: FailurePolicy = "refuse"
    training: Training = field(default_factory=Training)
    embedding = None  # x is what is modelled

    def _build(self, network: Any, rows: Rows, frame: Frame, weights: Array) -> tuple[Any, tuple[torch.Tensor, ...]]:
        import torch

        from thrifty.inference.neural.networks import build_density

        x, theta = torch.from_numpy(frame.encode_x(rows.x)), torch.from_numpy(frame.encode_condition(rows.theta))
        net = build_density(network, x, theta, context=theta.shape[1], likelihood=True)
        many = x.shape[1] > MANY_OUTPUTS and frame.cells is None
        net.by_output = many and isinstance(network, AutoregressiveMixture)
        if frame.cells is None:
            return net, (x, theta)
        tied = frame.cells.which
        ends = frame.cells.probabilities(rows.x.reshape(len(rows.x), -1)[:, frame.keep][:, tied])
        low, width = (torch.from_numpy(end.astype(np.float32)) for end in ends)
        columns = torch.from_numpy(np.flatnonzero(tied))
        return net, (x, theta, low, width, columns.expand(len(x), -1))

    def _notes(self, frame: Frame) -> tuple[str, ...]:
        if frame.cells is None or not isinstance(self.network, MAF | MixtureDensity):
            return ()
        tied, name = int(frame.cells.which.sum()), type(self.network).__name__
        return (
            f"{tied} outputs have ties (counts, zeros, rounding): the default network fits them better than {name}",
        )

    @staticmethod
    def _loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
        x = rows[0] if len(rows) == 2 else _draw_in_cells(rows, g)
        return -net.log_prob_parts(x, rows[1])


def _draw_in_cells(rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    """Return x (b, k) with a new place in its cell for each tied value."""
    import torch

    x, _, low, width, columns = rows
    drawn = torch.special.ndtri(low + width * torch.rand(low.shape, generator=g).to(low.device))
    x = x.clone()
    x[:, columns[0]] = torch.where(width > 0, drawn, x[:, columns[0]])
    return x
