"""Continuous flows learned by flow matching (Lipman et al. 2023; for posteriors Dax et al. 2023).

    dy/dt = v(y, t, c),   y_0 ~ N(0, 1),   y_1 ~ q(y | c)
    loss(y, c) = mean over t, e of |v(y_t, t, c) - (y - (1 - s) e)|^2,     y_t = t y + (1 - (1 - s) t) e,    e ~ N(0, 1)

The loss is a regression: no Jacobian, any network. The minimiser of the weighted loss is the field whose flow ends in
the weighted distribution. Draws and densities integrate the field by Runge-Kutta steps of order 4, the density with
the exact divergence, one derivative for each parameter:

    log q(y_1) = log N(y_0; 0, 1) - integral of div v dt

`s` is a small width that every point keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from thrifty.inference.neural.modules.members import build_mlp
from thrifty.inference.neural.recipes import FlowMatching

LEAST_WIDTH = 1e-3  # s, in standardised parameters: far below any posterior that the head start leaves to the flow
ODE_STEPS = 30  # of order 4: log densities then differ from those of 120 steps by less than 0.01 nat
TIME_FREQUENCIES = 4  # sines and cosines of t
DRAWS_PER_ROW = 4  # of t and e in each step of training: the gradient is less noisy, the rows are read once
_LOG_2PI = math.log(2 * math.pi)
Field = Callable[[Tensor, Tensor], Tensor]  # y (b, p), t () -> dy/dt (b, p)


class FlowMatchingNet(nn.Module):
    """A field over y (b, p) given c (b, e), and the density that its flow makes of a standard normal."""

    is_field = True

    def __init__(self, recipe: FlowMatching, features: int, context: int) -> None:
        super().__init__()
        self.features = features
        first = features + context + 2 * TIME_FREQUENCIES
        self.net = build_mlp(first, recipe.hidden, features, recipe.activation)

    def field(self, y: Tensor, t: Tensor, c: Tensor) -> Tensor:
        """V (b, p) at y (b, p), times t (b,) or () and conditions c (b, e)."""
        angles = math.pi * t.expand(len(y))[:, None] * torch.arange(1, TIME_FREQUENCIES + 1, device=y.device)
        return self.net(torch.cat([y, c, angles.cos(), angles.sin()], -1))

    def loss(self, y: Tensor, c: Tensor, g: torch.Generator) -> Tensor:
        """Squared error (b,) of the field at random times of the way from noise to y."""
        total = torch.zeros(len(y), device=y.device)
        places = torch.arange(len(y), device=y.device)
        for _ in range(DRAWS_PER_ROW):
            order = torch.randperm(len(y), generator=g, device=g.device)  # every share of the time once a batch
            t = (places[order.to(y.device)] + torch.rand((), generator=g, device=g.device).to(y.device)) / len(y)
            noise = torch.randn(y.shape, generator=g, device=g.device).to(y.device)
            way = t[:, None] * y + (1 - (1 - LEAST_WIDTH) * t[:, None]) * noise
            total = total + (self.field(way, t, c) - (y - (1 - LEAST_WIDTH) * noise)).square().mean(-1)
        return total / DRAWS_PER_ROW

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,)."""
        noise, volume = integrate_back(lambda z, t: self.field(z, t, c), y, 1.0, 0.0)
        return -0.5 * (noise.square().sum(-1) + self.features * _LOG_2PI) + volume

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """One draw per row of c (b, e)."""
        noise = torch.randn(len(c), self.features, generator=g, device=g.device).to(c.device)
        return integrate(lambda z, t: self.field(z, t, c), noise, 0.0, 1.0)


class SbiFieldNet(nn.Module):
    """A vector field estimator of sbi (FMPE, NPSE): its loss, and its flow from noise at t_max to data at t_min."""

    is_field = True

    def __init__(self, estimator: Any, features: int) -> None:
        super().__init__()
        self.estimator, self.features = estimator, features

    @property
    def learns_score(self) -> bool:
        """True for NPSE, whose network is a score."""
        from sbi.neural_nets.estimators.score_estimator import ConditionalScoreEstimator

        return isinstance(self.estimator, ConditionalScoreEstimator)

    def loss(self, y: Tensor, c: Tensor, g: torch.Generator) -> Tensor:
        """The estimator's own loss (b,), on a stream of its own."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=g)))
            return self.estimator.loss(y, condition=c)

    def _field(self, c: Tensor) -> Field:
        return lambda z, t: self.estimator.ode_fn(z, c, t.expand(len(z)))

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,)."""
        low, high = float(self.estimator.t_min), float(self.estimator.t_max)
        noise, volume = integrate_back(self._field(c), y, low, high)
        scale = self.estimator.std_base.expand_as(noise)
        unit = (noise - self.estimator.mean_base) / scale
        return -0.5 * (unit.square().sum(-1) + self.features * _LOG_2PI) - scale.log().sum(-1) + volume

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """One draw per row of c (b, e)."""
        noise = torch.randn(len(c), self.features, generator=g)
        start = self.estimator.mean_base + self.estimator.std_base * noise
        return integrate(self._field(c), start, float(self.estimator.t_max), float(self.estimator.t_min))


def integrate(field: Field, y: Tensor, begin: float, end: float) -> Tensor:
    """Follow dy/dt = field(y, t) from y (b, p) at `begin` to `end`.

    Example:
        >>> end = integrate(lambda y, t: -2 * t * y, torch.ones(1, 1, dtype=torch.float64), 0.0, 1.0)
        >>> round(float(end), 5) == round(math.exp(-1), 5)
        True
    """
    times = torch.linspace(begin, end, ODE_STEPS + 1, dtype=y.dtype, device=y.device)
    for now, after in itertools.pairwise(times):
        h, middle = after - now, (now + after) / 2
        a = field(y, now)
        b = field(y + h / 2 * a, middle)
        c = field(y + h / 2 * b, middle)
        y = y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c, after))
    return y


def integrate_back(field: Field, y: Tensor, begin: float, end: float) -> tuple[Tensor, Tensor]:
    """Follow the field from y (b, p); return the end (b, p) and log |d end / d y| (b,), by the exact divergence.

    Example:
        >>> _, volume = integrate_back(lambda y, t: -2 * t * y, torch.ones(1, 3, dtype=torch.float64), 0.0, 1.0)
        >>> round(float(volume), 4)
        -3.0
    """
    p = y.shape[1]

    def joined(state: Tensor, t: Tensor) -> Tensor:
        with torch.enable_grad():
            place = state[:, :p].detach().requires_grad_()
            slope = field(place, t)
            parts = [torch.autograd.grad(slope[:, j].sum(), place, retain_graph=True)[0][:, j] for j in range(p)]
        return torch.cat([slope, torch.stack(parts, -1).sum(-1, keepdim=True)], -1).detach()

    state = integrate(joined, torch.cat([y, torch.zeros_like(y[:, :1])], -1), begin, end)
    return state[:, :p], state[:, p]
