"""Homogeneous SIR: who meets whom decides, time does not (the paper's algorithm 2).

Each infective is infectious for I ~ Gamma(k, k) (mean 1) and makes Poisson(theta I) contacts in that time, drawn
one by one; a contact meets a susceptible with probability s/N and infects it. The contacts of one infective are the
arrivals of a Poisson process before theta I, so their number needs no separate draw.

Operations: contacts plus infectives; about N z (theta + 1) in an outbreak that infects a share z.

Theory, for large N: an outbreak dies out early with probability q = (1 + theta (1 − q)/k)^(−k), 1/theta at k = 1;
otherwise a share z = 1 − exp(−theta z) is infected, normally distributed about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from thrifty.errors import ConfigError
from thrifty.models.base import Model, check_whole
from thrifty.models.compiled import kernel
from thrifty.models.stream import Words, draw_start, next_exponential, next_small_gamma, next_uniform, seed_state
from thrifty.priors import Uniform
from thrifty.types import Array, Prior


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HomogeneousSIR(Model):
    """Infection rate beta ~ U(1, 10), N = 10,000, k = 1, truth 5; the statistic is the final size.

    Attributes:
        population: N, the first case counted.
        k: Dispersion of the infectious period; 1 makes it exponential.

    Example:
        >>> out = th.models.HomogeneousSIR().run([5.0], np.random.default_rng(2))
        >>> bool(out.x[0] > 9800), bool(out.cost > 5 * out.x[0])  # beta = 5: 0.7 % escape a major outbreak
        (True, True)
    """

    NAMES: ClassVar[tuple[str, ...]] = ("beta",)
    prior: Prior = field(default_factory=lambda: Uniform([1.0], [10.0], names=HomogeneousSIR.NAMES))  # type: ignore[arg-type]
    theta_true: Array = 5.0  # type: ignore[assignment]
    population: int = 10_000
    k: float = 1.0

    def __post_init__(self) -> None:
        check_whole("population", self.population, 2)
        if not (np.isfinite(self.k) and self.k > 0):
            raise ConfigError(f"dispersion k must be a finite number > 0, got {self.k}", code="bad-setting")
        super().__post_init__()

    @property
    def summary_names(self) -> tuple[str, ...]:
        """final_size."""
        return ("final_size",)

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        size, contacts = _contacts(theta[0], float(self.k), self.population, draw_start(rng))
        return np.array([float(size)]), float(contacts + size)


@kernel
def _contacts(beta: float, k: float, population: int, start: Words) -> tuple[int, int]:
    g = seed_state(start)
    infectives, susceptibles, contacts = 1, population - 1, 0
    whole = int(k)
    while infectives > 0:
        period = 0.0
        for _ in range(whole):
            value, g = next_exponential(g)
            period += value
        if k > whole:
            value, _, g = next_small_gamma(k - whole, g)
            period += value
        end = beta * period / k
        arrival, g = next_exponential(g)
        while arrival < end:
            contacts += 1
            u, g = next_uniform(g)
            if u * population < susceptibles:
                susceptibles -= 1
                infectives += 1
            wait, g = next_exponential(g)
            arrival += wait
        infectives -= 1
    return population - susceptibles, contacts
