"""Define what a problem of the benchmark is: prior, simulator, cost surface, observations and exact posterior draws.

A simulator is a deterministic function of (theta, u) with u uniform numbers of the run. Row i of `simulate_many(thetas,
seed, start)` reads its own words of one counter-based stream (Philox), so that the noise of run i is a function of
(seed, i) alone and a table of 50,000 runs is one vectorised call, without matrix products, whose last digits
depend on the number of rows. Costs have mean 1 under the prior: 50,000 prior runs cost about 50,000.

Observations lie in the cheap, middle and expensive part: theta is the prior draw, of 1,001 with a fixed seed, whose
expected cost is the 10 %, 50 % or 90 % quantile, and x_o one run there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from thrifty.proposals.draws import Draws
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Output

PLACES = {"cheap": 100, "middle": 500, "expensive": 900}  # rank of the expected cost among CANDIDATES prior draws
CANDIDATES = 1_001
TRUTH_SEED, OBSERVED_SEED = 18_001, 18_002  # of theta_true and of x_o; no run of a method is seeded with them
OBSERVED_TRIES = 300  # runs at theta_true, of which the first that is telling becomes x_o
WORDS_PER_BLOCK = 4  # 64-bit words that one step of Philox's counter gives


@dataclass(frozen=True)
class Problem:
    """A problem with a known posterior and a known cost surface.

    Attributes:
        name: Of its function.
        prior: Where theta comes from.
        words: Uniform numbers that one run takes.
        respond: (theta (n, p), u (n, words)) -> outputs (n, d).
        log_likelihood: (theta (n, p), x (n, d) or (d,)) -> exact log density (n,), without constants in theta; None
            where the reference rests on an emulator.
        cost: theta (n, p) -> expected cost (n,) of a run; the prior's mean is 1.
        draw_posterior: (x_o, n, rng) -> draws (n, p) of the exact posterior.
        narrow: Whether the posterior's volume is below 1e-3 of the prior's at every place.
        closed_form: Whether `draw_posterior` is exact up to rounding and takes a moment; else its draws are shipped.
        modes: Separate peaks of the posterior.
        charge: (theta, u) -> outputs (n, d) and the cost (n,) of each run, where runs at one theta differ in cost; None
            where each costs `cost(theta)`.
        is_telling: Output (d,) -> whether it serves as an observation, where some say very little: an outbreak that
            dies out at once. The posterior is exact whatever x_o is.
    """

    name: str
    prior: Any
    words: int
    respond: Callable[[Array, Array], Array]
    log_likelihood: Callable[[Array, Array], Array] | None
    cost: Callable[[Array], Array]
    draw_posterior: Callable[[Array, int, np.random.Generator], Array]
    narrow: bool
    closed_form: bool = True
    modes: int = 1
    unit: str = "prior runs"
    charge: Callable[[Array, Array], tuple[Array, Array]] | None = None
    is_telling: Callable[[Array], bool] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.prior.names

    def run_rows(self, theta: Array, u: Array) -> tuple[Array, Array]:
        """Run every row on its uniform numbers; outputs (n, d) and costs (n,)."""
        return (self.respond(theta, u), self.cost(theta)) if self.charge is None else self.charge(theta, u)

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        """Run every row of theta (n, p) on fresh noise; outputs (n, d)."""
        return self.respond(theta, np.maximum(rng.random((len(theta), self.words)), 2.0**-54))

    def simulate_many(self, thetas: Any, seed: int, *, start: int = 0, workers: int = 1) -> Simulations:
        """Run thetas (n, p) or `th.Draws`; the noise of row i is a function of (seed, start + i)."""
        del workers  # one vectorised call
        drawn = thetas if isinstance(thetas, Draws) else None
        theta = np.asarray(thetas, dtype=np.float64) if drawn is None else drawn.theta
        x, cost = self.run_rows(theta, make_uniforms(seed, start, len(theta), self.words))
        return Simulations(
            theta=theta,
            x=x,
            log_weights=None if drawn is None else drawn.log_weights,  # type: ignore[arg-type]
            cost=cost,
            index=start + np.arange(len(theta)),
            names=self.names,
            unit=self.unit,
            proposal=None if drawn is None else drawn.proposal,
        )

    def run(self, theta: Array, rng: np.random.Generator) -> Output:
        """Run once at theta (p,): what a campaign takes as a simulator."""
        row = np.asarray(theta, dtype=np.float64)[None]
        x, cost = self.run_rows(row, np.maximum(rng.random((1, self.words)), 2.0**-54))
        return Output(x[0], cost=float(cost[0]))

    @cached_property
    def observations(self) -> dict[str, tuple[Array, Array]]:
        """(theta_true (p,), x_o (d,)) by place: cheap, middle, expensive."""
        candidates = self.prior.sample(CANDIDATES, np.random.default_rng(TRUTH_SEED))
        order = np.argsort(self.cost(candidates))
        truths = candidates[[order[rank] for rank in PLACES.values()]]
        rng = np.random.default_rng(OBSERVED_SEED)
        tries = [self.simulate(truths, rng) for _ in range(1 if self.is_telling is None else OBSERVED_TRIES)]
        return {place: (truths[i], self._first_telling([x[i] for x in tries])) for i, place in enumerate(PLACES)}

    def _first_telling(self, outputs: list[Array]) -> Array:
        return next((x for x in outputs if self.is_telling is None or self.is_telling(x)), outputs[0])

    def x_o(self, place: str) -> Array:
        """The observation (d,) at a place."""
        return self.observations[place][1]


def make_uniforms(seed: int, start: int, n: int, words: int) -> Array:
    """Make uniform numbers (n, words) in (0, 1); row i is a function of (seed, start + i).

    Example:
        >>> bool((make_uniforms(3, 0, 10, 5)[7:] == make_uniforms(3, 7, 3, 5)).all())
        True
    """
    blocks = -(-words // WORDS_PER_BLOCK)
    stream = np.random.Philox(key=np.random.SeedSequence(seed, spawn_key=(2,)).generate_state(2, np.uint64))
    stream.advance(start * blocks)
    return np.maximum(np.random.Generator(stream).random((n, WORDS_PER_BLOCK * blocks))[:, :words], 2.0**-54)


def combine(theta: Array, design: Array) -> Array:
    """Form linear combinations (n, d) of theta (n, p), each row on its own."""
    return (theta[:, None, :] * design).sum(-1)


def normals(u: Array) -> Array:
    """Turn uniform numbers into standard normal ones."""
    return ndtri(u)
