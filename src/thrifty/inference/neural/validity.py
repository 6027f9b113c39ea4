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


class ValidNet(nn.Module):
    """log P(valid | theta) for standardised parameters."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.net = build_mlp(features, (32, 32), 1)

    def logit(self, theta: Tensor) -> Tensor:
        """Log odds (b,)."""
        return self.net(theta)[:, 0]

    def log_prob(self, theta: Tensor) -> Tensor:
        """Log probability (b,) that a run at theta is valid."""
        return nn.functional.logsigmoid(self.logit(theta))


def fit_validity(simulations: Simulations, frame: Frame, *, seed: int) -> ValidNet:
    """Train the classifier on all runs that have begun."""
    with seed_torch(seed):
        net = ValidNet(frame.condition_size)
    known = simulations.status != "pending"  # a run that never began says nothing
    theta = torch.from_numpy(frame.encode_condition(simulations.theta[known]))
    valid = torch.from_numpy(simulations.ok[known].astype(np.float32))
    table = Table((theta, valid), np.ones(len(theta)), mark_held_out(simulations.index[known], 0.1))
    train(net, _loss, table=table, settings=Training(progress=False), seed=seed)
    return net


def load_validity(arrays: Mapping[str, np.ndarray], features: int) -> ValidNet:
    """Rebuild the classifier from the arrays that it was saved as."""
    with seed_torch(0):
        net = ValidNet(features)
    net.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return net.eval()


def _loss(net: ValidNet, rows: tuple[Tensor, ...], g: torch.Generator) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(net.logit(rows[0]), rows[1], reduction="none")
