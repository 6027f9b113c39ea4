"""P(valid | theta): the probability that a run at theta does not fail, learned by a small classifier."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.inference.neural.modules.members import build_mlp
from thrifty.inference.neural.networks import seed_torch
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.training import Table, train
from thrifty.inference.neural.training_settings import Training, mark_held_out
from thrifty.tables.simulations import Simulations

PATIENCE = 60  # epochs: the loss is flat at first where few runs fail in a small region, and 12 ended there
MAX_NEAR = 3.0  # standard deviations of the middle half of the runs: beyond, the coarse scale tells places apart


class ValidNet(nn.Module):
    """log P(valid | theta) for standardised parameters; it sees them as they are, and on the scale of most runs.

    The runs of rounds lie around the posterior, and a region where runs fail that is a part of the posterior is far
    below the scale of the prior.

    Args:
        features: Number of parameters, as the network sees them.
        near: Centre and scale (p,) of the middle half of the runs; None for a network saved before it had them.
    """

    def __init__(self, features: int, near: tuple[Tensor, Tensor] | None) -> None:
        super().__init__()
        self.centre: Tensor
        self.scale: Tensor
        self.has_near = near is not None
        self.net = build_mlp(features * (1 + self.has_near), (32, 32), 1)
        if near is not None:
            self.register_buffer("centre", near[0])
            self.register_buffer("scale", near[1])

    def logit(self, theta: Tensor) -> Tensor:
        """Log odds (b,)."""
        if self.has_near:
            near = torch.clamp((theta - self.centre) / self.scale, -MAX_NEAR, MAX_NEAR)
            theta = torch.cat([theta, near], 1)
        return self.net(theta)[:, 0]

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log probability (b,) that a run at theta is valid."""
        return nn.functional.logsigmoid(self.logit(theta))


def fit_validity(simulations: Simulations, frame: Frame, *, seed: int) -> ValidNet:
    """Train the classifier on all runs that have begun."""
    known = simulations.status != "pending"  # a run that never began says nothing
    inputs = frame.encode_condition(simulations.theta[known])
    low, middle, high = np.quantile(inputs, (0.25, 0.5, 0.75), axis=0).astype(np.float32)
    scale = np.where(high > low, (high - low) / 1.35, 1.0).astype(np.float32)  # 1.35: of a normal distribution
    with seed_torch(seed):
        net = ValidNet(frame.condition_size, (torch.from_numpy(middle), torch.from_numpy(scale)))
    theta = torch.from_numpy(inputs)
    valid = torch.from_numpy(simulations.ok[known].astype(np.float32))
    table = Table((theta, valid), np.ones(len(theta)), mark_held_out(simulations.index[known], 0.1))
    train(net, _loss, table=table, settings=Training(progress=False, patience=PATIENCE), seed=seed)
    return net


def load_validity(arrays: Mapping[str, np.ndarray], features: int) -> ValidNet:
    """Rebuild the classifier from the arrays that it was saved as."""
    near = (torch.zeros(features), torch.ones(features)) if "centre" in arrays else None
    with seed_torch(0):
        net = ValidNet(features, near)
    net.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return net.eval()


def _loss(net: ValidNet, rows: tuple[Tensor, ...], g: torch.Generator) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(net.logit(rows[0]), rows[1], reduction="none")
