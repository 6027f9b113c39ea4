"""Chains of many walkers: how long they must be, and the walkers that emcee moves (Foreman-Mackey et al. 2013).

Many walkers and few steps: a thousand walkers that start from the posterior are nearly as many draws, and a network
evaluates a thousand rows in the time of a hundred.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from thrifty.inference.sampling.mcmc_checks import correlate_places, effective_size, family_size, nested_rhat
from thrifty.inference.sampling.starting import LogDensity
from thrifty.types import Array

STEPS_PER_CHECK = 10  # two parameters need 10 to 20 steps in all, ten parameters some hundreds by emcee
MAX_MEMORY = 0.5  # correlation of the walkers' places at both ends of a chain that is long enough to show a drift
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
    """Walkers moved by differences of each other: no gradients, and no settings to choose."""

    warm_up = STEPS_PER_CHECK
    settled = True  # there is nothing to adapt

    def __init__(self, log_density: LogDensity, start: Array, rng: np.random.Generator) -> None:
        import emcee

        moves = [(emcee.moves.DEMove(), 0.7), (emcee.moves.StretchMove(), 0.3)]  # differences scale to 10 parameters
        self._sampler = emcee.EnsembleSampler(len(start), start.shape[1], log_density, vectorize=True, moves=moves)
        self._sampler.random_state = np.random.RandomState(int(rng.integers(2**32))).get_state()
        self._state = start

    def advance(self, steps: int) -> None:
        """Move all walkers so many steps further."""
        self._state = self._sampler.run_mcmc(self._state, steps, skip_initial_state_check=True)

    def reset(self) -> None:
        """Forget the steps so far."""
        self._sampler.reset()

    @property
    def chain(self) -> Array:
        """Places (steps, walkers, p)."""
        return np.asarray(self._sampler.get_chain())

    @property
    def heights(self) -> Array:
        """Log densities (steps, walkers)."""
        return np.asarray(self._sampler.get_log_prob())

    @property
    def acceptance(self) -> float:
        """Share of accepted moves."""
        return float(np.mean(self._sampler.acceptance_fraction))


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
        walkers.settled and correlate_places(start, walkers.chain[-1]) <= MAX_MEMORY
    ):
        walkers.advance(STEPS_PER_CHECK)
    walkers.reset()
    least, steps = -(-want // len(start)), 0
    goal = max(2 * MIN_ESS, 0.5 * want)  # half as many effective draws as draws: se 1.4 times that of exact draws
    while True:  # the checks cost as much as the chain is long: make fewer of them on a long one
        walkers.advance(max(STEPS_PER_CHECK, steps // 8, least - steps))
        chain, steps = walkers.chain, len(walkers.chain)
        effective = min(effective_size(chain).min(), family_size(chain, family).min())
        mixed = steps >= patience or correlate_places(chain[0], chain[-1]) < MAX_MEMORY
        good = mixed and nested_rhat(chain).max() < TARGET_RHAT
        stuck = False
        if steps >= next_look:  # twice as many steps and no more effective draws: nothing is left to gain
            stuck, next_look, before = effective < 1.3 * before, 2 * steps, effective
        if (good and (effective >= goal or stuck)) or steps >= max_steps:
            return chain, walkers.heights
