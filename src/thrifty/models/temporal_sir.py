"""Temporal SIR: an outbreak in a closed, well-mixed population, event by event (the paper's algorithm 3).

With i infectives and s susceptibles of N, the next event comes after Exp(rate), rate = i (theta_1 s/N + theta_2),
and is an infection with probability theta_1 s / (theta_1 s + N theta_2), else a removal. The paper prints the
removal rate with the infectious period I; it is theta_2 times the *current* number of infectives i. Its published
code draws the waiting times from the inverse rate; here they have mean 1/rate, as the algorithm says.

Operations: events, 2 × final size − 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from thrifty.models.base import Model, check_whole
from thrifty.models.compiled import kernel
from thrifty.models.stream import Words, draw_start, next_exponential, next_uniform, seed_state
from thrifty.priors import Uniform
from thrifty.types import Array, Prior


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OutbreakModel(Model):
    """Abstract: an SIR model in continuous time, which reports final size, duration and removals per bin.

    Attributes:
        population: N, the first case counted.
        bins: Equal parts of the duration in which removals are counted.
    """

    POSITIVE: ClassVar[tuple[str, ...]] = ("gamma",)
    population: int = 1000
    bins: int = 10

    def __post_init__(self) -> None:
        check_whole("population", self.population, 2)
        check_whole("bins", self.bins, 1)
        super().__post_init__()

    @property
    def summary_names(self) -> tuple[str, ...]:
        """final_size, duration, removals_1 … removals_bins."""
        return ("final_size", "duration", *(f"removals_{b + 1}" for b in range(self.bins)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TemporalSIR(OutbreakModel):
    """Infection rate beta and removal rate gamma, both U(0.1, 1); N = 1000, 10 bins.

    Statistics: final size (the first case counted), time of the last removal, removals in each tenth of it.

    Example:
        >>> model = th.models.TemporalSIR()
        >>> out = model.run([0.9, 0.15], np.random.default_rng(3))
        >>> out.x.shape, bool(out.cost == 2 * out.x[0] - 1)
        ((12,), True)
    """

    NAMES: ClassVar[tuple[str, ...]] = ("beta", "gamma")
    prior: Prior = field(default_factory=lambda: Uniform([0.1, 0.1], [1.0, 1.0], names=TemporalSIR.NAMES))  # type: ignore[arg-type]
    theta_true: Array = (0.5, 0.5)  # type: ignore[assignment]

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        times, removals = _outbreak(theta[0], theta[1], self.population, draw_start(rng))
        return outbreak_statistics(times, removals, self.bins), 2.0 * removals - 1.0


@kernel
def _outbreak(beta: float, gamma: float, population: int, start: Words) -> tuple[Array, int]:
    g = seed_state(start)
    times = np.empty(population)
    infectives, susceptibles, removals, t = 1, population - 1, 0, 0.0
    while infectives > 0:
        infection = beta * susceptibles / population
        wait, g = next_exponential(g)
        t += wait / (infectives * (infection + gamma))
        u, g = next_uniform(g)
        if u * (infection + gamma) < infection:
            infectives += 1
            susceptibles -= 1
        else:
            infectives -= 1
            times[removals] = t
            removals += 1
    return times, removals


@kernel
def outbreak_statistics(times: Array, removals: int, bins: int) -> Array:
    """Final size, duration T and removals in each of `bins` equal parts of [0, T].

    The last event of an outbreak is a removal, so T is the last of the removal times. Bins are open on the
    right but for the last, which holds T itself; so a first case that infects nobody is one removal in the
    last bin. If T is 0 (a waiting time may round to it), all removals are at T.
    """
    x = np.zeros(2 + bins)
    end = times[removals - 1]
    x[0], x[1] = removals, end
    for r in range(removals):
        place = bins - 1
        if times[r] < end:
            place = min(int(times[r] / end * bins), bins - 1)
        x[2 + place] += 1
    return x
