"""Where walkers begin: prior draws resampled by likelihood, tempered where that would leave few distinct points.

The power of the likelihood is raised from 0 to 1 in steps, each keeping half of the particles effective, with
random-walk moves in between (adaptive tempering, Del Moral et al. 2006). Each walker keeps its family, the first
particle it descends from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.errors import InferenceError
from thrifty.types import Array
from thrifty.weights import ess, resample_indices

LogDensity = Callable[[Array], Array]


class Target(NamedTuple):
    """A density over z, the parameters without bounds: prior (or a start) times likelihood, each (k, p) -> (k,)."""

    likelihood: LogDensity
    log_prior: LogDensity

    def density(self, z: Array) -> Array:
        """Log density (k,) up to a constant."""
        return self.log_prior(z) + self.likelihood(z)


class _Particles(NamedTuple):
    z: Array
    value: Array  # log likelihood
    base: Array  # log prior over z


def start_walkers(
    target: Target, z: Array, walkers: int, rng: np.random.Generator
) -> tuple[Array, npt.NDArray[np.intp]]:
    """Place walkers by prior × likelihood^power, the power raised to 1 in steps; return them and their families."""
    particles = _Particles(z, target.likelihood(z), target.log_prior(z))
    if not (np.isfinite(particles.value) & np.isfinite(particles.base)).any():
        raise InferenceError(
            f"the likelihood is zero or NaN at all {len(z)} prior draws",
            code="far-observation",
            why="there is no point to start from",
            fix="check the observation; call log_prob at a parameter that should fit it",
        )
    power, family = 0.0, np.arange(len(z))
    for _ in range(400):  # each turn halves the effective particles: 1e-12 of ten parameters' prior takes as many
        step = _next_power(particles.value, power)
        keep = resample_indices((step - power) * particles.value, len(z), rng=rng)
        particles, power, family = _Particles(*(column[keep] for column in particles)), step, family[keep]
        if power == 1.0 and len(np.unique(keep)) >= 2 * walkers:
            break  # the plain resample was rich enough
        particles = _move(particles, power, z.std(0), target, rng)
        if power == 1.0:
            break
    chosen = rng.choice(len(z), walkers, replace=False)
    return particles.z[chosen], family[chosen]


def _next_power(value: Array, power: float) -> float:
    """Find the largest power, at most 1, that leaves half of the finite particles effective."""
    finite = value[np.isfinite(value)]
    low, high = power, 1.0
    if ess((high - low) * finite) >= 0.5 * len(finite):
        return high
    for _ in range(100):  # a posterior 1e-9 of the prior wide begins at a power of 1e-19
        middle = (low + high) / 2
        low, high = (middle, high) if ess((middle - power) * finite) >= 0.5 * len(finite) else (low, middle)
    return low if low > power else high


def _move(particles: _Particles, power: float, unit: Array, target: Target, rng: np.random.Generator) -> _Particles:
    """Move every particle by random-walk Metropolis with the particles' own covariance; unit: first spread (p,)."""
    z, value, base = particles
    p = z.shape[1]
    spread = np.atleast_2d(np.cov(z.T))
    if len(np.unique(z[:, 0])) <= p + 1:  # they span nothing: as far as one prior draw is from the next
        spread = np.diag(unit**2 * len(z) ** (-2 / p))
    root = np.linalg.cholesky(spread + np.diag(1e-9 * np.diag(spread) + 1e-30))
    scale = 2.38 / np.sqrt(p)  # Roberts, Gelman and Gilks 1997
    for _ in range(5):
        trial = z + scale * rng.standard_normal(z.shape) @ root.T
        trial_base, trial_value = target.log_prior(trial), target.likelihood(trial)
        with np.errstate(invalid="ignore"):
            gain = trial_base - base + power * (trial_value - value)
        accepted = np.log(rng.random(len(z))) < np.nan_to_num(gain, nan=-np.inf)
        z = np.where(accepted[:, None], trial, z)
        value, base = np.where(accepted, trial_value, value), np.where(accepted, trial_base, base)
        scale *= float(np.clip(accepted.mean() / 0.25, 0.5, 2.0))
    return _Particles(z, value, base)
