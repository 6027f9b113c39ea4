"""Sampling of an unnormalised posterior by many walkers, started from a prior resample.

    target(theta) ∝ prior(theta) · exp(log_likelihood(theta))

Three steps, each vectorised (large batches make a network cheap to evaluate):

1. prior draws are resampled by likelihood, in steps of its power where that would leave few distinct points
   (`starting`);
2. all walkers move over z, the parameters without bounds (`BoxTransform`): by emcee (`walkers`), or from five
   parameters on by NUTS (`nuts`) where the likelihood has a gradient;
3. steps are added until the walkers' places no longer depend on their start, twice in a row, and the draws wanted are
   effective (`mcmc_checks`).

Draws are taken from all walkers alike: a thinned chain ordered by step would use only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.errors import warn
from thrifty.inference.posterior_draws import Sampled, drop_nan
from thrifty.inference.sampling.mcmc_checks import effective_size, family_size, nested_rhat
from thrifty.inference.sampling.nuts import NutsWalkers
from thrifty.inference.sampling.starting import LogDensity, Target, start_walkers
from thrifty.inference.sampling.walkers import MIN_ESS, EmceeWalkers, Walkers, run_walkers
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, Prior

LogGradient = Callable[[Array], tuple[Array, Array]]  # theta (k, p) -> log likelihood (k,), its gradient (k, p)

START_DRAWS = 4_000  # from the prior, four for each walker: one network call; tempering where they are too few
EMCEE_WALKERS = 1_000
NUTS_WALKERS = 400  # each step of them is a new draw: more would only cost more
MAX_STEPS = 2_000  # 1,000 walkers x 2,000 steps: an hour-long likelihood should not hide in here
MAX_RHAT = 1.05  # warn beyond: the usual bound
MIN_NUTS_DIM = (
    5  # parameters: from here on NUTS needs half the seconds for an effective draw (`benchmarks/samplers.py`)
)
# Of trajectories; beyond, a part of the density is too narrow for the common step: Neal's funnel has more.
MAX_DIVERGENT_SHARE = 0.0005
# Of trajectories; beyond, walkers wait in front of a narrow part: the sd of a funnel's log width is a tenth too small.
MAX_STUCK_SHARE = 0.03
DIFFERENCE = 1e-3  # of the prior's spread: step of the differences that give the prior's gradient


@dataclass(frozen=True, repr=False)
class Chains(Sampled):
    """Draws from all walkers, thinned evenly; `ess` is that of the whole chain.

    Attributes:
        steps: Steps of each walker that were kept.
        best: The point of highest density in the chain (p,).
        sampler: "emcee" or "nuts".
        divergent: Share of NUTS trajectories that left the density: above 0.0005, a narrow part may be missed.
        stuck: Share of NUTS trajectories that hardly moved: above 0.03, a narrow part is entered too rarely.
    """

    steps: int
    best: Array
    sampler: str = "emcee"
    divergent: float = 0.0
    stuck: float = 0.0

    @property
    def poor(self) -> bool:
        """True when the draws should not be trusted."""
        few = self.ess.min() < min(MIN_ESS, len(self.samples))
        narrow = self.divergent > MAX_DIVERGENT_SHARE or self.stuck > MAX_STUCK_SHARE
        return bool(self.rhat.max() > MAX_RHAT or few or narrow)


def sample_posterior(
    log_likelihood: LogDensity,
    prior: Prior,
    n: int,
    *,
    rng: np.random.Generator,
    gradient: LogGradient | None = None,
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
        gradient: theta (k, p) -> log likelihood (k,) and its gradient (k, p): from five parameters on the walkers then
            move by NUTS.
        walkers: Number of walkers; by default 1,000 (400 of NUTS) or 10 per parameter, whichever is more.
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
    by_gradient = gradient if prior.dim >= MIN_NUTS_DIM and not box.levels else None  # whole numbers have no gradient
    usual = max(EMCEE_WALKERS if by_gradient is None else NUTS_WALKERS, 10 * prior.dim)
    walkers = usual if walkers is None else max(walkers, 2 * prior.dim + 2)
    walkers += walkers % 2

    target = Target(
        likelihood=lambda z: drop_nan(log_likelihood(box.to_bounded(z))),
        log_prior=lambda z: drop_nan(prior.log_prob(box.to_bounded(z)) + box.log_jacobian(z)),
    )
    z = box.spread(box.to_unconstrained(prior.sample(max(START_DRAWS, 4 * walkers), rng)), rng)
    first, family = _place_walkers(
        target, z, walkers, None if start is None else box.to_unconstrained(start[None]), rng
    )
    moved: Walkers = (
        EmceeWalkers(target.density, first, rng)
        if by_gradient is None
        else NutsWalkers(_differentiate(by_gradient, target, box, DIFFERENCE * z.std(0)), first, rng)
    )
    chain, log_density = run_walkers(moved, first, family, want=n, max_steps=max_steps)
    chosen = rng.permutation(choose_evenly(len(chain), chain.shape[1], n))
    flat = chain.reshape(-1, prior.dim)
    height = log_density.reshape(-1) - box.log_jacobian(flat)
    chains = Chains(
        samples=box.to_bounded(flat[chosen]),
        acceptance=moved.acceptance,
        local_ess=1.0,
        ess=np.minimum(effective_size(chain), family_size(chain, family)),
        rhat=nested_rhat(chain),
        names=tuple(prior.names),
        steps=len(chain),
        best=box.to_bounded(flat[[int(np.argmax(height))]])[0],
        sampler="nuts" if isinstance(moved, NutsWalkers) else "emcee",
        divergent=moved.divergences / chain[..., 0].size if isinstance(moved, NutsWalkers) else 0.0,
        stuck=moved.stuck / chain[..., 0].size if isinstance(moved, NutsWalkers) else 0.0,
    )
    if chains.poor and not quiet:
        _warn_poor(chains, max_steps, walkers)
    return chains


def _place_walkers(
    target: Target, z: Array, walkers: int, middle: Array | None, rng: np.random.Generator
) -> tuple[Array, npt.NDArray[np.intp]]:
    """Place the walkers from prior draws z (k, p), or from a ball around a point (1, p), and name their families."""
    if middle is None:
        return start_walkers(target, z, walkers, rng)
    spread = 0.01 * z.std(0)  # tempered from there: it may be far wider or narrower than the peak

    def ball(z: Array) -> Array:
        return -0.5 * np.square((z - middle) / spread).sum(1)

    near = middle + spread * rng.standard_normal(z.shape)
    return start_walkers(Target(lambda z: target.density(z) - ball(z), ball), near, walkers, rng)


def _differentiate(gradient: LogGradient, target: Target, box: BoxTransform, step: Array) -> LogGradient:
    """Return z (k, p) -> log density (k,) and its gradient (k, p) over z; the prior's by differences of `step` (p,)."""
    moves = np.concatenate([np.diag(step), -np.diag(step)])[:, None]  # (2 p, 1, p)

    def density(z: Array) -> tuple[Array, Array]:
        value, slope = gradient(box.to_bounded(z))
        around = target.log_prior((z + moves).reshape(-1, z.shape[1])).reshape(2, len(step), len(z))
        with np.errstate(invalid="ignore"):
            of_prior = (around[0] - around[1]).T / (2 * step)
        return drop_nan(value) + target.log_prior(z), slope * box.slopes(z) + np.nan_to_num(of_prior)

    return density


def _warn_poor(chains: Chains, max_steps: int, walkers: int) -> None:
    narrow = ""
    if chains.divergent > MAX_DIVERGENT_SHARE or chains.stuck > MAX_STUCK_SHARE:
        narrow = (
            f". {chains.divergent:.2%} of trajectories diverged and {chains.stuck:.0%} hardly moved: a part of the"
            " posterior is too narrow for the step, and has too few draws. Take the logarithm of the parameter that"
            " sets the width"
        )
    warn(
        f"posterior sampling has not converged: effective sample size {chains.ess.min():.0f} for"
        f" {len(chains.samples)} draws, R-hat {chains.rhat.max():.2f} (wanted below {MAX_RHAT}), acceptance"
        f" {chains.acceptance:.2f}{narrow}. More steps (max_steps={4 * max_steps}) or walkers"
        f" (walkers={2 * walkers}) may help",
        stacklevel=4,
    )


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
