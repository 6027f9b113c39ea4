"""Few values of the discrete parameters: each is sampled by itself, as often as its evidence says.

    P(s | x_o) ∝ P(s) Z(s),      Z(s) = integral of p(theta | s) L(theta, s) over the other parameters

A sampler that moves between values that are far apart in the other parameters mixes slowly; a sum does not. With more
values than here, and with numbers that have no end, values are sampled like the other parameters
(`BoxTransform`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from thrifty.errors import InferenceError
from thrifty.inference.answers.evidence import LogEvidence, integrate_likelihood
from thrifty.inference.posterior_draws import drop_nan
from thrifty.inference.sampling.mcmc import MAX_STEPS, Chains, sample_posterior
from thrifty.priors import Independent
from thrifty.types import Array, Prior, find_discrete, levels_of
from thrifty.weights import normalise

MAX_SAMPLED_STATES = 16  # each takes a second of MCMC
MAX_LISTED_STATES = 100_000  # where nothing else is sampled: one evaluation each
MIN_SHARE = 1e-9  # of a state that is sampled at all

LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class States:
    """The values of the discrete parameters, with their prior probabilities, and the prior of the others.

    Attributes:
        prior: The whole prior.
        values: The discrete parameters of each state (s, d).
        log_shares: Log prior probability of each state (s,).
        rest: The prior of the other parameters, or None.
    """

    prior: Prior
    values: Array
    log_shares: Array
    rest: Prior | None

    @property
    def _discrete(self) -> Any:
        return find_discrete(levels_of(self.prior))

    def _fill(self, theta: Array, value: Array) -> Array:
        """Return rows (k, p) with the discrete parameters at a value (d,) and the others at theta (k, p - d)."""
        rows = np.empty((len(theta), self.prior.dim))
        rows[:, self._discrete], rows[:, ~self._discrete] = value, theta
        return rows

    def _evidences(self, log_likelihood: LogDensity, rng: np.random.Generator, quiet: bool) -> list[LogEvidence]:
        """Integrate the likelihood of each state."""
        if self.rest is None:
            return [LogEvidence(float(v), 0.0, np.inf) for v in drop_nan(log_likelihood(self.values))]
        found = []
        for value in self.values:
            try:
                one = integrate_likelihood(self._restrict(log_likelihood, value), self.rest, rng=rng, quiet=quiet)
            except InferenceError:  # the likelihood is zero at all prior draws of this state
                one = LogEvidence(-np.inf, 0.0, 0.0)
            found.append(one)
        return found

    def _restrict(self, log_likelihood: LogDensity, value: Array) -> LogDensity:
        return lambda theta: log_likelihood(self._fill(theta, value))

    def integrate(self, log_likelihood: LogDensity, *, rng: np.random.Generator, quiet: bool = False) -> LogEvidence:
        """Sum prior × likelihood over the states, and integrate it over the other parameters."""
        each = self._evidences(log_likelihood, rng, quiet)
        total = self.log_shares + [one.value for one in each]
        shares = self._normalise(total)
        se = float(np.sqrt(np.sum(np.square(shares * [one.se for one in each]))))
        return LogEvidence(float(np.logaddexp.reduce(total)), se, float(np.sum([one.ess for one in each])))

    def sample(
        self, log_likelihood: LogDensity, n: int, *, rng: np.random.Generator, max_steps: int = MAX_STEPS
    ) -> Chains:
        """Draw n from prior × likelihood: the states by their evidence, the other parameters by emcee in each.

        Example:
            >>> prior = th.Independent({"m": th.Categorical([0.5, 0.5]), "a": th.Normal(0, 1)})
            >>> def likelihood(t):
            ...     return -0.5 * (t[:, 1] - 3 * t[:, 0]) ** 2
            >>> draws = list_states(prior).sample(likelihood, 1000, rng=np.random.default_rng(0)).samples
            >>> exact = 1 / (1 + np.exp(-9 / 4))  # of m = 0
            >>> bool(abs((draws[:, 0] == 0).mean() - exact) < 0.05)
            True
        """
        each = self._evidences(log_likelihood, rng, quiet=True)
        shares = self._normalise(self.log_shares + [one.value for one in each])
        counts, error = rng.multinomial(n, shares), float(np.max(shares * [one.se for one in each]))
        chains = [
            (value, self._sample_state(log_likelihood, value, int(count), rng, max_steps))
            for value, count in zip(self.values, counts, strict=True)
            if count
        ]
        draws = [self._fill(chain.samples, value) for value, chain in chains]
        size = np.full(self.prior.dim, 1 / (1 / max(n, 1) + error**2))
        if self.rest is not None and chains:
            inner = [np.minimum(chain.ess, len(chain.samples)) for _, chain in chains]
            size[~self._discrete] = np.minimum(np.sum(inner, axis=0), size[~self._discrete])
        rhat = np.max([chain.rhat.max(initial=1.0) for _, chain in chains], initial=1.0)
        best = self._fill(chains[0][1].best[None], chains[0][0])[0] if chains else np.full(self.prior.dim, np.nan)
        return Chains(
            samples=rng.permutation(np.concatenate([np.empty((0, self.prior.dim)), *draws])),
            acceptance=float(np.mean([chain.acceptance for _, chain in chains])) if chains else 1.0,
            local_ess=1.0,
            ess=size,
            rhat=np.full(self.prior.dim, rhat),
            names=tuple(self.prior.names),
            steps=max((chain.steps for _, chain in chains), default=0),
            best=best,
        )

    def _normalise(self, total: Array) -> Array:
        if not np.isfinite(total).any():
            raise InferenceError(
                f"the likelihood is zero or NaN at all {len(total)} values of the discrete parameters",
                code="far-observation",
                fix="check the observation; call log_prob at a parameter that should fit it",
            )
        shares = normalise(total)
        return np.where(shares < MIN_SHARE, 0.0, shares) / shares[shares >= MIN_SHARE].sum()

    def _sample_state(
        self, log_likelihood: LogDensity, value: Array, count: int, rng: np.random.Generator, max_steps: int
    ) -> Chains:
        if self.rest is None:
            return Chains(np.empty((count, 0)), 1.0, 1.0, np.empty(0), np.empty(0), steps=0, best=np.empty(0))
        inner = self._restrict(log_likelihood, value)
        return sample_posterior(inner, self.rest, count, rng=rng, max_steps=max_steps)


def list_states(prior: Prior) -> States | None:
    """List the values of the discrete parameters of a prior; None where it has none, or too many.

    Example:
        >>> list_states(th.Integers([0, 0], [1, 2])).values.shape, list_states(th.Uniform(0, 1))
        ((6, 2), None)
    """
    discrete, (low, high) = find_discrete(levels_of(prior)), prior.bounds
    if not discrete.any() or (not discrete.all() and not isinstance(prior, Independent)):
        return None
    widths = high[discrete] - low[discrete] + 1
    if not np.prod(widths) <= (MAX_LISTED_STATES if discrete.all() else MAX_SAMPLED_STATES):
        return None
    ranges = [np.arange(a, b + 1) for a, b in zip(low[discrete], high[discrete], strict=True)]
    values = np.array(list(product(*ranges)), dtype=np.float64)
    if not isinstance(prior, Independent) or discrete.all():
        return States(prior, values, np.asarray(prior.log_prob(values)), None)
    names = zip(prior.names, discrete, strict=True)
    parts = {is_discrete: {} for is_discrete in (True, False)}
    for name, is_discrete in names:
        parts[bool(is_discrete)][name] = prior.marginals[name]
    return States(prior, values, Independent(parts[True]).log_prob(values), Independent(parts[False]))
