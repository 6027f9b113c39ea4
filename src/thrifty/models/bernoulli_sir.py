"""Bernoulli SIR: an outbreak on a random graph, event by event (the paper's algorithm 4).

Each pair of N individuals is joined with probability theta_3. An infective infects each susceptible neighbour at rate
theta_1 and is removed at rate theta_2. So with L the number of infective-susceptible edges and i the number of
infectives, the next event comes after Exp(theta_1 L + theta_2 i); it is an infection with probability
theta_1 L / (theta_1 L + theta_2 i), of susceptible j in proportion to its infective neighbours (its pressure).

Pressures and L are kept up to date: an infection or a removal visits the susceptible neighbours of that individual and
nothing else. The susceptible is found by rejection: j uniform, accepted with probability pressure/i.

Against the published code: the graph is symmetric without self-loops, only susceptibles count in the rate, N = 1000.

Operations: random words for the graph (64 pairs each; about 7 per word), pressure updates and events, which is what
the loop spends its time on. In a full outbreak each edge carries one update, so cost grows with theta_3; theta_1
and theta_2 decide how often an outbreak dies out at once (then the graph is all there is to pay) and how
many removals still have susceptible neighbours to visit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from thrifty.errors import ConfigError, PriorError
from thrifty.models.base import Model
from thrifty.models.compiled import kernel, trailing_zeros
from thrifty.models.graph import bernoulli_graph
from thrifty.models.outbreak import check_settings, outbreak_names, outbreak_statistics
from thrifty.models.stream import Words, draw_start, next_exponential, next_uniform, seed_state
from thrifty.priors import Uniform
from thrifty.types import Array, Prior


@dataclass(frozen=True, eq=False, kw_only=True)
class BernoulliSIR(Model):
    """Infection rate beta, removal rate gamma, edge probability edge, all U(0.1, 1); N = 1000, 10 bins.

    Statistics: final size (the first case counted), time of the last removal, removals in each tenth of it.

    Example:
        >>> out = th.models.BernoulliSIR().run([0.5, 0.5, 0.5], np.random.default_rng(1))
        >>> out.x[:1].tolist(), bool(out.x[2:].sum() == out.x[0])
        ([1000.0], True)
    """

    POSITIVE: ClassVar[tuple[str, ...]] = ("gamma",)
    prior: Prior = field(default_factory=lambda: Uniform([0.1] * 3, [1.0] * 3, names=("beta", "gamma", "edge")))  # type: ignore[arg-type]
    theta_true: Array = (0.5, 0.5, 0.5)  # type: ignore[assignment]
    population: int = 1000
    bins: int = 10

    def __post_init__(self) -> None:
        check_settings(self.population, self.bins)
        if self.population > 20_000:
            raise ConfigError(
                f"population {self.population}: the graph alone would take {self.population**2 / 8e6:.0f} MB",
                code="bad-setting",
                fix="stay at or below 20,000",
            )
        super().__post_init__()
        if self.prior.bounds[1][2] > 1:
            raise PriorError(
                f"prior {self.names[2]!r} reaches {self.prior.bounds[1][2]:g}, but it is a probability",
                code="wrong-prior",
            )

    def _names(self) -> tuple[str, ...]:
        return ("beta", "gamma", "edge")

    @property
    def summary_names(self) -> tuple[str, ...]:
        """final_size, duration, removals_1 … removals_bins."""
        return outbreak_names(self.bins)

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        graph, drawn, start = bernoulli_graph(self.population, float(theta[2]), draw_start(rng))
        times, removals, updates = _outbreak(graph, self.population, theta[0], theta[1], start)
        return outbreak_statistics(times, removals, self.bins), drawn + updates + 2.0 * removals - 1.0


@kernel
def _outbreak(graph: Words, population: int, beta: float, gamma: float, start: Words) -> tuple[Array, int, int]:
    g = seed_state(start)
    one = np.uint64(1)
    times, pressure = np.empty(population), np.zeros(population, dtype=np.int32)
    everyone = np.arange(population)  # susceptibles first, then infectives, then the removed
    susceptible = np.zeros(graph.shape[1], dtype=np.uint64)
    for j in range(population):
        susceptible[j // 64] |= one << np.uint64(j % 64)
    s, infectives, removals, links, updates, t = population, 0, 0, 0, 0, 0.0
    chosen, sign = 0, 1  # the first case
    while True:
        person = everyone[chosen]
        if sign > 0:  # infected: the last place of the susceptibles becomes the first of the infectives
            s -= 1
            everyone[chosen], everyone[s] = everyone[s], person
            susceptible[person // 64] &= ~(one << np.uint64(person % 64))
            links -= pressure[person]
            infectives += 1
        else:  # removed: the last place of the infectives becomes the first of the removed
            infectives -= 1
            everyone[chosen], everyone[s + infectives] = everyone[s + infectives], person
            times[removals] = t
            removals += 1
        visits = 0
        for w in range(graph.shape[1]):
            neighbours = graph[person, w] & susceptible[w]
            while neighbours != 0:
                pressure[np.uint64(64 * w) + trailing_zeros(neighbours)] += sign
                neighbours &= neighbours - one  # its lowest bit is done
                visits += 1
        links += sign * visits
        updates += visits
        if infectives == 0:
            return times, removals, updates
        infection, removal = beta * links, gamma * infectives
        wait, g = next_exponential(g)
        t += wait / (infection + removal)
        u, g = next_uniform(g)
        if u * (infection + removal) < infection:
            sign = 1
            while True:  # about 1/theta_3 tries
                u, g = next_uniform(g)
                chosen = int(s * u)
                if (s * u - chosen) * infectives < pressure[everyone[chosen]]:
                    break
        else:
            u, g = next_uniform(g)
            sign, chosen = -1, s + int(infectives * u)
