"""Runs that fail: P(valid | theta), learned where a likelihood would otherwise be that of valid runs only.

p(x_o | theta) = p(x_o | theta, valid) · P(valid | theta)        for a valid x_o
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from thrifty.errors import ConfigError
from thrifty.inference.neural.prepare import failures, refuse_failures
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.training_settings import Training, held_out
from thrifty.tables.simulations import Simulations

Policy = Literal["refuse", "model"]


def check_failures(policy: str) -> None:
    """Refuse unknown policies."""
    if policy not in ("refuse", "model"):
        raise ConfigError(f'failures must be "refuse" or "model", got {policy!r}', code="bad-setting")


def fit_valid(
    simulations: Simulations, frame: Frame, *, method: str, policy: Policy, seed: int
) -> tuple[Any, tuple[str, ...]]:
    """The network for P(valid | theta), or None, and a note on what failed.

    Raises:
        QualityGateError: too-many-failures, under "refuse" and with more than 1 % of the prior mass failed.
    """
    sentence = failures(simulations)
    if not sentence:
        return None, ()
    if policy == "refuse":
        refuse_failures(simulations, method)
        return None, (sentence,)
    import torch

    from thrifty.inference.neural.networks import ValidNet
    from thrifty.inference.neural.torch_state import seeded
    from thrifty.inference.neural.training import Table, train

    with seeded(seed):
        net = ValidNet(simulations.dim)
    known = simulations.status != "pending"  # a run that never began says nothing
    theta = torch.from_numpy(frame.theta_in(simulations.theta[known]))
    valid = torch.from_numpy(simulations.ok[known].astype(np.float32))
    table = Table((theta, valid), np.ones(len(theta)), held_out(simulations.index[known], 0.1))
    train(net, _loss, table=table, settings=Training(progress=False), seed=seed)
    return net, (f"{sentence}; P(valid | theta) was learned and multiplied in",)


def _loss(net: Any, rows: tuple[Any, ...], g: Any) -> Any:
    import torch

    return torch.nn.functional.binary_cross_entropy_with_logits(net.logit(rows[0]), rows[1], reduction="none")
