"""Chains of many walkers: how long they must be, and the walkers that emcee moves (Foreman-Mackey et al. 2013).

Many walkers and few steps: a thousand walkers that start from the posterior are nearly as many draws, and a network
evaluates a thousand rows in the time of a hundred.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from thrifty.inference.sampling.mcmc_checks import correlate_places, effective_size, family_size, nested_rhat
from thrifty.inference.sampling.peaks import PEAK_MEMORY, PEAK_STEPS, Peaks, find_peaks
from thrifty.inference.sampling.starting import LogDensity
from thrifty.types import Array

STEPS_PER_CHECK = 10  # two parameters need 10 to 20 steps in all, ten parameters some hundreds by emcee
MAX_MEMORY = 0.5  # correlation of the walkers' places at both ends of a chain that is long enough to show a drift
MAX_PEAK_MEMORY = 0.1  # where they jump between peaks: the start gives each peak a wrong share, which must be forgotten
MAX_MEMORY_STEPS = 200  # then the start is no longer waited for: walkers on separate peaks never forget it
TARGET_RHAT = 1.01  # Vehtari et al. 2021; steps are added until it is reached
MIN_ESS = 100.0  # effective draws per quantity


class Walkers(Protocol):
    """Walkers that remember the steps since the last `reset`; until the first one they may adapt."""

    warm_up: int  # least number of steps before the first reset

    @property
    def settled(self) -> bool:
        """True when nothing is left to adapt."""
        ...

    @property
    def jumps(self) -> bool:
        """True when the walkers jump between separate peaks."""
        ...

    def advance(self, steps: int) -> None:
        """Move all walkers so many steps further."""
        ...

    def reset(self) -> None:
        """Forget the steps so far and stop adapting."""
        ...

    @property
    def chain(self) -> Array:
        """Places (steps, walkers, p)."""
        ...

    @property
    def heights(self) -> Array:
        """Log densities (steps, walkers)."""
        ...

    @property
    def acceptance(self) -> float:
        """Share of accepted moves."""
        ...


class EmceeWalkers:
    """Walkers moved by differences of each other: no gradients, and no settings to choose.

    Walkers that still remember their start after ten steps may sit on separate peaks: from then on every walker also
    tries one jump to another peak at each step (`peaks`).
    """

    warm_up = STEPS_PER_CHECK
    settled = True  # there is no step to adapt

    def __init__(self, log_density: LogDensity, start: Array, rng: np.random.Generator) -> None:
        import emcee

        moves = [(emcee.moves.DEMove(), 0.7), (emcee.moves.StretchMove(), 0.3)]  # differences scale to 10 parameters
        self._sampler = emcee.EnsembleSampler(len(start), start.shape[1], log_density, vectorize=True, moves=moves)
        self._sampler.random_state = np.random.RandomState(int(rng.integers(2**32))).get_state()
        self._density, self._rng, self._start, self._peaks = log_density, rng, start, None
        self._now, self._value, self._adapting = start, np.asarray(log_density(start), dtype=np.float64), True
        self._places: list[Array] = []
        self._values: list[Array] = []
        self._accepted: list[float] = []

    @property
    def jumps(self) -> bool:
        """True when the walkers jump between separate peaks."""
        return self._peaks is not None

    def advance(self, steps: int) -> None:
        """Move all walkers so many steps further."""
        for _ in range(steps):
            if self._adapting and len(self._places) in PEAK_STEPS:
                self._look_for_peaks()
            self._move()
            if self._peaks is not None:
                self._jump(self._peaks)
            self._places.append(self._now)
            self._values.append(self._value)

    def _look_for_peaks(self) -> None:
        if correlate_places(self._start, self._now) > PEAK_MEMORY:
            self._peaks = find_peaks(np.concatenate(self._places[-PEAK_STEPS[0] :]), self._rng)

    def _move(self) -> None:
        from emcee import State

        state = self._sampler.run_mcmc(
            State(self._now, log_prob=self._value), 1, skip_initial_state_check=True, store=False
        )
        assert state is not None
        before, self._now, self._value = self._now, np.array(state.coords), np.array(state.log_prob)
        self._accepted.append(float((self._now != before).any(1).mean()))

    def _jump(self, peaks: Peaks) -> None:
        """Offer every walker one place on another peak."""
        trial, log_volume = peaks.jump(self._now, self._rng)
        value = self._density(trial)
        with np.errstate(invalid="ignore"):
            gain = np.nan_to_num(value - self._value + log_volume, nan=-np.inf)
        taken = np.log(self._rng.random(len(trial))) < gain
        self._now, self._value = np.where(taken[:, None], trial, self._now), np.where(taken, value, self._value)

    def reset(self) -> None:
        """Forget the steps so far and stop adapting."""
        self._places, self._values, self._accepted, self._adapting = [], [], [], False

    @property
    def chain(self) -> Array:
        """Places (steps, walkers, p)."""
        return np.stack(self._places)

    @property
    def heights(self) -> Array:
        """Log densities (steps, walkers)."""
        return np.stack(self._values)

    @property
    def acceptance(self) -> float:
        """Share of accepted moves of emcee."""
        return float(np.mean(self._accepted))


def run_walkers(
    walkers: Walkers, start: Array, family: npt.NDArray[np.intp], *, want: int, max_steps: int
) -> tuple[Array, Array]:
    """Move walkers (w, p) until `want` draws can be taken; return their chain (steps, w, p) and heights (steps, w).

    A warm-up lasts until the walkers have adapted and their places no longer depend on their start; then steps are
    added until that holds for the chain itself, R-hat is small and the draws wanted are effective.
    """
    patience, next_look, before = min(MAX_MEMORY_STEPS, max_steps), MAX_MEMORY_STEPS, 0.0
    walkers.advance(walkers.warm_up)
    while len(walkers.chain) < patience and not (
        walkers.settled and correlate_places(start, walkers.chain[-1]) <= _allow_memory(walkers)
    ):
        walkers.advance(STEPS_PER_CHECK)
    walkers.reset()
    least, steps = -(-want // len(start)), 0
    goal = max(2 * MIN_ESS, 0.5 * want)  # half as many effective draws as draws: se 1.4 times that of exact draws
    while True:  # the checks cost as much as the chain is long: make fewer of them on a long one
        walkers.advance(max(STEPS_PER_CHECK, steps // 8, least - steps))
        chain, steps = walkers.chain, len(walkers.chain)
        effective = min(effective_size(chain).min(), family_size(chain, family).min())
        mixed = steps >= patience or correlate_places(chain[0], chain[-1]) < _allow_memory(walkers)
        good = mixed and nested_rhat(chain).max() < TARGET_RHAT
        stuck = False
        if steps >= next_look:  # twice as many steps and no more effective draws: nothing is left to gain
            stuck, next_look, before = effective < 1.3 * before, 2 * steps, effective
        if (good and (effective >= goal or stuck)) or steps >= max_steps:
            return chain, walkers.heights


def _allow_memory(walkers: Walkers) -> float:
    return MAX_PEAK_MEMORY if walkers.jumps else MAX_MEMORY
