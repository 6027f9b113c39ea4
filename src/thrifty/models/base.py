"""What all bundled models share: checks of theta, seeded runs and tables of runs.

A model is a small frozen object. A run is a pure function of (theta, the run's generator); run i of
`simulate_many(thetas, seed)` owns the stream `SeedSequence(seed, spawn_key=(2, i))`, so that no result
depends on chunks, threads or order.

Cost comes in two kinds: the count of operations that the run did (events, contacts, draws), the same on
every machine; or the CPU seconds that it took here (`measured=True`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, DataError, PriorError, ThriftyError
from thrifty.priors import Uniform
from thrifty.proposals.draws import Draws
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Output, Prior, as_rows, freeze

NOISE, OBSERVATION = 2, 6  # stages of a seed: simulator noise, and the made-up observation


def make_run_stream(seed: int, stage: int, index: int) -> np.random.Generator:
    """Make the generator of one run: a function of (seed, stage, index) and of nothing else."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stage, index))))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Model(DisplayedSettings, ABC):
    """Abstract: prior, truth and settings, and how to run them.

    Attributes:
        prior: Where theta comes from; theta outside its bounds is refused.
        theta_true: The parameters (p,) behind `observed`.
        overhead: Operations added to every run's count. 0 counts the event loop alone; a simulator that
            also starts up, reads and writes has a narrower range of costs.
    """

    NAMES: ClassVar[tuple[str, ...]] = ()  # of the parameters, in order; () where any number of them is possible
    POSITIVE: ClassVar[tuple[str, ...]] = ()  # parameters that must not be zero: nobody would ever be removed
    LOW: ClassVar[float] = 0.0  # a parameter below this has no meaning: rates, shapes, powers
    prior: Prior
    theta_true: Array
    overhead: float = 0.0
    _nonzero: tuple[int, ...] = field(init=False, repr=False, default=())
    _boxed: bool = field(init=False, repr=False, default=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.overhead) and self.overhead >= 0):
            raise ConfigError(f"overhead must be a number >= 0, got {self.overhead}", code="bad-setting")
        self._check_prior()
        # what a run must still be asked, found once: a prior that stays above zero answers for itself
        asked = tuple(i for i in map(self.NAMES.index, self.POSITIVE) if not self.prior.bounds[0][i] > 0)
        object.__setattr__(self, "_nonzero", asked)
        object.__setattr__(self, "_boxed", isinstance(self.prior, Uniform))
        object.__setattr__(self, "theta_true", freeze(self.check(self.theta_true)))

    def _check_prior(self) -> None:
        expected = self.NAMES or self.prior.names
        if self.prior.dim != len(expected):
            raise PriorError(
                f"prior has {self.prior.dim} parameters, {type(self).__name__} takes {len(expected)}:"
                f" {', '.join(expected)}",
                code="wrong-prior",
            )
        if sorted(self.prior.names) == sorted(expected) and tuple(self.prior.names) != expected:
            raise PriorError(
                f"prior names {', '.join(self.prior.names)} are {type(self).__name__}'s in another order",
                code="wrong-prior",
                why="columns go by position",
                fix=f"order them {', '.join(expected)}",
            )
        low = self.prior.bounds[0]
        if (low < self.LOW).any():
            first = int(np.flatnonzero(low < self.LOW)[0])
            name = self.prior.names[first]
            raise PriorError(
                f"prior {name!r} reaches {low[first]:g}, but {type(self).__name__} needs it >= {self.LOW:g}",
                code="wrong-prior",
            )

    @property
    @abstractmethod
    def summary_names(self) -> tuple[str, ...]:
        """One name per statistic of a run."""

    @abstractmethod
    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        """Statistics and operations of one run at a checked theta (p,)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.prior.names

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.prior.dim

    def check(self, theta: npt.ArrayLike) -> Array:
        """Read one parameter vector (p,).

        Raises:
            DataError: bad-array wrong length, bad-array not finite.
            PriorError: outside-prior outside the prior's support.
        """
        try:
            vector = np.asarray(theta, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"theta is not a vector of numbers: {error}", code="bad-array") from None
        vector = vector.reshape(1) if vector.ndim == 0 else vector
        if vector.shape != (self.dim,):
            raise DataError(
                f"theta has shape {vector.shape}, {type(self).__name__} takes ({self.dim},): {', '.join(self.names)}",
                code="bad-array",
                fix="one vector per run; for many use simulate_many(thetas, seed)",
            )
        low, high = self.prior.bounds
        for name, value, least, most in zip(self.names, vector.tolist(), low.tolist(), high.tolist(), strict=True):
            if not (isfinite(value) and least <= value <= most):
                raise self._refusal(name, value, f"[{least:g}, {most:g}]")
        for i in self._nonzero:
            if not vector[i] > 0:
                raise PriorError(
                    f"{self.names[i]} = {vector[i]:g}; {type(self).__name__} needs it above 0", code="outside-prior"
                )
        if not self._boxed and not self.prior.log_prob(vector[None])[0] > -np.inf:
            raise PriorError(
                f"theta = {vector.tolist()} has zero prior density",
                code="outside-prior",
                fix="draw theta from model.prior",
            )
        return vector

    def _refusal(self, name: str, value: float, support: str) -> ThriftyError:
        model = type(self).__name__
        if not isfinite(value):
            return DataError(f"{name} = {value} is not a finite number ({model})", code="bad-array")
        return PriorError(
            f"{name} = {value:g} lies outside the support {support} of {model}'s prior",
            code="outside-prior",
            why="a run there has weight zero: its cost would be wasted",
            fix=f"draw theta from model.prior, or give {model}(prior=...) a wider one",
        )

    def run(self, theta: npt.ArrayLike, rng: np.random.Generator) -> Output:
        """Run once and count operations: what a campaign wants as a simulator.

        Example:
            >>> out = th.models.GaussianToy().run([0.5], np.random.default_rng(0))
            >>> out.x.round(3).tolist(), round(out.cost, 3)
            ([0.626], 1.649)
        """
        x, operations = self._run(self.check(theta), as_generator(rng))
        return Output(x, cost=operations + self.overhead)

    def simulate(self, theta: npt.ArrayLike, rng: np.random.Generator) -> Array:
        """Run once at theta (p,) and return the statistics (q,)."""
        return self._run(self.check(theta), as_generator(rng))[0]

    def simulate_many(
        self,
        thetas: npt.ArrayLike | Draws,
        seed: int,
        *,
        start: int = 0,
        workers: int = 1,
        measured: bool = False,
    ) -> Simulations:
        """Run every row of thetas (n, p); row i equals `simulate(thetas[i], rng)` on stream start + i.

        Args:
            thetas: Parameters, or Draws, whose weights are kept.
            seed: Seed of all runs; row i uses `SeedSequence(seed, spawn_key=(2, start + i))`.
            start: Index of the first row, so that chunks give what one call would.
            workers: Threads; the compiled loops run side by side.
            measured: Cost in CPU seconds of this machine instead of operations.
        """
        for label, value, least in (("workers", workers, 1), ("seed", seed, 0), ("start", start, 0)):
            check_whole(label, value, least)
        if isinstance(thetas, Draws) and thetas.names and thetas.names != self.names:
            raise DataError(
                f"draws of {', '.join(thetas.names)}, but {type(self).__name__} takes {', '.join(self.names)}",
                code="bad-name",
            )
        table = thetas.theta if isinstance(thetas, Draws) else as_rows(thetas, "thetas", dim=self.dim)
        table = np.array([self.check(row) for row in table]).reshape(-1, self.dim)
        x, cost = np.empty((len(table), len(self.summary_names))), np.empty(len(table))

        def fill(block: npt.NDArray[np.int64]) -> None:
            for i in block:
                rng = make_run_stream(seed, NOISE, start + int(i))
                begin = time.thread_time()
                x[i], operations = self._run(table[i], rng)
                cost[i] = time.thread_time() - begin if measured else operations + self.overhead

        if measured and len(table):  # the first call compiles or loads the loop: not this run's cost
            self._run(table[0], make_run_stream(seed, NOISE, start))
        if workers == 1:
            fill(np.arange(len(table)))
        else:
            with ThreadPoolExecutor(workers) as pool:  # many blocks, so that expensive rows do not fill one thread
                list(pool.map(fill, np.array_split(np.arange(len(table)), min(8 * workers, max(len(table), 1)))))
        return Simulations(
            theta=table,
            x=x,
            log_weights=thetas.log_weights if isinstance(thetas, Draws) else None,  # type: ignore[arg-type]
            cost=cost,
            index=start + np.arange(len(table)),
            names=self.names,
            x_names=self.summary_names,
            unit="s" if measured else "operations",
            proposal=thetas.proposal if isinstance(thetas, Draws) else None,
        )

    def observed(self, seed: int) -> Array:
        """Statistics (q,) of one run at `theta_true`, on a stream that no simulation shares."""
        check_whole("seed", seed, 0)
        return self._run(self.theta_true, make_run_stream(seed, OBSERVATION, 0))[0]


def check_whole(label: str, value: int, least: int) -> None:
    """Refuse what is not a whole number of at least `least`: a run without a seed, say, cannot be repeated."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{label} = {value!r}, expected a whole number of at least {least}", code="bad-setting")


def as_generator(rng: np.random.Generator | int) -> np.random.Generator:
    """Accept a Generator, or an integer seed at the outermost call; never an unseeded stream."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(rng)
    raise DataError(
        f"rng must be a numpy Generator, got {type(rng).__name__}: {rng!r}",
        code="bad-setting",
        why="a run must be repeatable",
        fix="pass np.random.default_rng(seed)",
    )
