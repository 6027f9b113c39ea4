"""Sampling of an unnormalised posterior: emcee over all walkers at once, started from a prior resample.

    target(theta) ∝ prior(theta) · exp(log_likelihood(theta))

Three steps, each vectorised (large batches make a network cheap to evaluate):

1. prior draws are resampled by likelihood; where that would leave few distinct points (sharp likelihoods,
   many parameters) the power of the likelihood is raised in steps, each keeping half of the particles effective,
   with random-walk moves in between (adaptive tempering, Del Moral et al. 2006);
2. emcee (Foreman-Mackey et al. 2013) moves all walkers over z, the parameters without bounds (`BoxTransform`);
3. steps are added until the walkers' places no longer depend on their start, twice in a row, and the draws wanted are
   effective (`mcmc_checks`).

Many walkers and few steps: a thousand walkers that start from the posterior are nearly as many draws, and a network
evaluates a thousand rows in the time of a hundred. Draws are taken from all walkers alike: a thinned chain ordered by
step would use only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.errors import InferenceError, warn
from thrifty.inference.mcmc_checks import correlate_places, effective_size, family_size, nested_rhat
from thrifty.inference.posterior_draws import Sampled
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, Prior
from thrifty.weights import ess, resample_indices

LogDensity = Callable[[Array], Array]

START_DRAWS = 4_000  # from the prior, four for each walker: one network call; tempering where they are too few
DEFAULT_WALKERS = 1_000
STEPS_PER_CHECK = 10  # two parameters need 10 to 20 steps in all, ten parameters some hundreds
MAX_STEPS = 2_000  # 1,000 walkers x 2,000 steps: an hour-long likelihood should not hide in here
MAX_MEMORY = 0.5  # correlation of the walkers' places at both ends of a chain that is long enough to show a drift
MAX_MEMORY_STEPS = 200  # then the start is no longer waited for: walkers on separate peaks never forget it
TARGET_RHAT = 1.01  # Vehtari et al. 2021; steps are added until it is reached
MAX_RHAT, MIN_ESS = 1.05, 100.0  # warn beyond: the usual bound, and 100 effective draws per quantity


@dataclass(frozen=True, repr=False)
class Chains(Sampled):
    """Draws from all walkers, thinned evenly; `ess` is that of the whole chain.

    Attributes:
        steps: Steps of each walker that were kept.
        best: The point of highest density in the chain (p,).
    """

    steps: int
    best: Array

    @property
    def poor(self) -> bool:
        """True when the draws should not be trusted."""
        return bool(self.rhat.max() > MAX_RHAT or self.ess.min() < min(MIN_ESS, len(self.samples)))


def sample_posterior(
    log_likelihood: LogDensity,
    prior: Prior,
    n: int,
    *,
    rng: np.random.Generator,
    walkers: int | None = None,
    max_steps: int = MAX_STEPS,
    start: Array | None = None,
    quiet: bool = False,
) -> Chains:
    """Draw n from prior × likelihood.

    Args:
        log_likelihood: (k, p) -> (k,), up to a constant; -inf and NaN count as impossible.
        prior: Where to start, the support and the density.
        n: Draws wanted.
        rng: Source of all randomness.
        walkers: Number of walkers; by default 1,000 or 10 per parameter, whichever is more.
        max_steps: Limit on the steps of each walker.
        start: A point (p,) to start all walkers around, such as the maximum; by default a prior resample.
        quiet: No warning when the chains are poor.

    Raises:
        InferenceError: far-observation, no prior draw has positive density.

    Example:
        >>> prior = th.Uniform([0.0], [1.0])
        >>> chains = sample_posterior(lambda t: -0.5 * ((t[:, 0] - 0.2) / 0.1) ** 2, prior, 1000,
        ...                           rng=np.random.default_rng(0))
        >>> chains.samples.shape, bool(abs(chains.samples.mean() - 0.2) < 0.03), chains.poor
        ((1000, 1), True, False)
    """
    box = BoxTransform.of(prior)
    walkers = max(DEFAULT_WALKERS, 10 * prior.dim) if walkers is None else max(walkers, 2 * prior.dim + 2)
    walkers += walkers % 2

    target = _Target(
        likelihood=lambda z: _replace_nan(log_likelihood(box.to_bounded(z))),
        log_prior=lambda z: _replace_nan(prior.log_prob(box.to_bounded(z)) + box.log_jacobian(z)),
    )
    z = box.spread(box.to_unconstrained(prior.sample(max(START_DRAWS, 4 * walkers), rng)), rng)
    if start is None:
        first, family = _start_walkers(target, z, walkers, rng)
    else:  # tempered from a ball of a hundredth of the prior's spread: it may be far wider or narrower than the peak
        middle, spread = box.to_unconstrained(start[None]), 0.01 * z.std(0)

        def ball(z: Array) -> Array:
            return -0.5 * np.square((z - middle) / spread).sum(1)

        near = middle + spread * rng.standard_normal(z.shape)
        from_ball = _Target(lambda z: target.density(z) - ball(z), ball)
        first, family = _start_walkers(from_ball, near, walkers, rng)
    chain, log_density, acceptance = _run_walkers(target.density, first, family, want=n, max_steps=max_steps, rng=rng)
    chosen = rng.permutation(choose_evenly(len(chain), chain.shape[1], n))
    flat = chain.reshape(-1, prior.dim)
    height = log_density.reshape(-1) - box.log_jacobian(flat)
    chains = Chains(
        samples=box.to_bounded(flat[chosen]),
        acceptance=acceptance,
        local_ess=1.0,
        ess=np.minimum(effective_size(chain), family_size(chain, family)),
        rhat=nested_rhat(chain),
        steps=len(chain),
        best=box.to_bounded(flat[[int(np.argmax(height))]])[0],
    )
    if chains.poor and not quiet:
        warn(
            f"posterior sampling has not converged: effective sample size {chains.ess.min():.0f} for {n} draws,"
            f" R-hat {chains.rhat.max():.2f} (wanted below {MAX_RHAT}), acceptance {acceptance:.2f}."
            f" More steps (max_steps={4 * max_steps}) or walkers (walkers={2 * walkers}) may help"
        )
    return chains


def _replace_nan(values: Array) -> Array:
    return np.nan_to_num(np.asarray(values, dtype=np.float64), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)


class _Target(NamedTuple):
    """A density over z, the parameters without bounds: prior (or a start) times likelihood, each (k, p) -> (k,)."""

    likelihood: LogDensity
    log_prior: LogDensity

    def density(self, z: Array) -> Array:
        return self.log_prior(z) + self.likelihood(z)


class _Particles(NamedTuple):
    z: Array
    value: Array  # log likelihood
    base: Array  # log prior over z


def _start_walkers(
    target: _Target, z: Array, walkers: int, rng: np.random.Generator
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


def _move(particles: _Particles, power: float, unit: Array, target: _Target, rng: np.random.Generator) -> _Particles:
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


def _run_walkers(
    log_density: LogDensity,
    start: Array,
    family: npt.NDArray[np.intp],
    *,
    want: int,
    max_steps: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, float]:
    """Return the chain (steps, walkers, p) after a warm-up, its log density (steps, walkers) and the acceptance."""
    import emcee

    moves = [(emcee.moves.DEMove(), 0.7), (emcee.moves.StretchMove(), 0.3)]  # differential moves scale to 10 parameters
    walkers, p = start.shape
    sampler = emcee.EnsembleSampler(walkers, p, log_density, vectorize=True, moves=moves)
    sampler.random_state = np.random.RandomState(int(rng.integers(2**32))).get_state()
    patience, next_look, before = min(MAX_MEMORY_STEPS, max_steps), MAX_MEMORY_STEPS, 0.0
    state = sampler.run_mcmc(start, STEPS_PER_CHECK, skip_initial_state_check=True)
    while sampler.iteration < patience and correlate_places(start, np.asarray(sampler.get_chain())[-1]) > MAX_MEMORY:
        state = sampler.run_mcmc(state, STEPS_PER_CHECK, skip_initial_state_check=True)
    sampler.reset()
    least = -(-want // walkers)
    goal = max(2 * MIN_ESS, 0.5 * want)  # half as many effective draws as draws: se 1.4 times that of exact draws
    while True:
        done = sampler.iteration  # the checks cost as much as the chain is long: make fewer of them on a long one
        state = sampler.run_mcmc(state, max(STEPS_PER_CHECK, done // 8, least - done), skip_initial_state_check=True)
        chain, steps = np.asarray(sampler.get_chain()), sampler.iteration
        effective = min(effective_size(chain).min(), family_size(chain, family).min())
        mixed = steps >= patience or correlate_places(chain[0], chain[-1]) < MAX_MEMORY
        good = mixed and nested_rhat(chain).max() < TARGET_RHAT
        stuck = False
        if steps >= next_look:  # twice as many steps and no more effective draws: nothing is left to gain
            stuck, next_look, before = effective < 1.3 * before, 2 * steps, effective
        if (good and (effective >= goal or stuck)) or steps >= max_steps:
            return chain, np.asarray(sampler.get_log_prob()), float(np.mean(sampler.acceptance_fraction))


def choose_evenly(steps: int, walkers: int, n: int) -> npt.NDArray[np.int64]:
    """Choose rows (n,) of a flattened chain (steps * walkers), spread over all walkers alike and over the steps.

    Rows are spaced evenly by walker: spaced by step, the same few walkers would come every time.

    Example:
        >>> rows = choose_evenly(50, 100, 200)
        >>> np.unique(np.bincount(rows % 100)).tolist(), int((rows // 100).min()), int((rows // 100).max())
        ([2], 0, 49)
    """
    walker, step = np.divmod(np.linspace(0, steps * walkers - 1, n).round().astype(int), steps)
    return step * walkers + walker
