"""Test whether the posterior uses the data: regress ranks of held-out parameters on x.

For a correct posterior the rank u of theta_i among draws at x_i is uniform *whatever x_i is*. A posterior that ignores
x (the prior itself, or one that saw half of the statistics) has uniform ranks on average, and SBC, coverage and balls
around random points accept it; but its ranks are correlated with what it ignored:

    f(u_i) = a + b . c(x_i) + error,     f = location sqrt(12) (u - 1/2)  or  width sqrt(180) ((u - 1/2)^2 - 1/12)

Where the weight of any theta is known, u is a rank under the proposal (`sbc.compute_proposal_ranks`): it is uniform for
unweighted runs, so that 300 cost-aware runs count as 300 here and not as 110. Otherwise the runs are weighted.

c are the leading components of x, as ranks among all runs, and the squares of the first. Weighted least squares; a Wald
test of b = 0, one per parameter and f, with heteroscedastic errors under weights. A second test finds one informative
statistic among many that are noise: it predicts f(u) from all of x, each run by earlier runs (`features`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thrifty.diagnostics.arguments import statistic_names
from thrifty.diagnostics.calibration import MIN_EFFECTIVE_RUNS
from thrifty.diagnostics.features import Components, cross_fit_predictions
from thrifty.diagnostics.replicates import Replicates, as_replicates
from thrifty.diagnostics.sbc import compute_proposal_ranks, compute_ranks
from thrifty.diagnostics.verdict import CARE_P_VALUE, DisplayedCheck, Trust, format_p_value, judge_effect
from thrifty.metrics.ks import degrees_of_freedom
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior
from thrifty.weights import ecdf, ess, normalise

_MAX_COMPONENTS, _MAX_SQUARES = 8, 3  # of x, and of their squares: location and width may depend on either
_RUNS_PER_TERM = 15.0  # effective runs per term of the regression, for reliable standard errors
_MIN_TERMS_TO_PREDICT = 4  # the prediction is fitted on a quarter of the runs, so they must be enough for four terms
_HIGH_LEVERAGE = 0.2  # from here a residual says little about its run: HC3 at rate 0.05 rejected 75 % instead of 5 %
_ROUNDING_SHARE = 1e-8  # an eigenvalue below this share of the largest is rounding error


@dataclass(frozen=True, repr=False)
class DataUse(DisplayedCheck):
    """How strongly ranks depend on x.

    Attributes:
        names: Parameters (p,).
        shares: Share of the variance of f(u) explained by x, less what chance explains (2, p): location, width.
        p_values: Of "x explains nothing" (2, p).
        partner: The statistic most correlated with each rank (p,).
        ess: Effective number of pairs.
        weighted: Whether pairs have weights; without them, ranks are those under the proposal, or draws are plain.
        name: The check.
    """

    names: tuple[str, ...]
    shares: Array
    p_values: Array
    partner: tuple[str, ...]
    ess: float
    weighted: bool = True
    name: str = "data_use"

    @property
    def p_value(self) -> float:
        """The p-value over all parameters, location and width, by Bonferroni."""
        return float(min(1.0, self.p_values.size * self.p_values.min()))

    @property
    def effect(self) -> float:
        """The root of the largest share: about the shift, in posterior sd, per sd of x."""
        return float(np.sqrt(max(self.shares.max(), 0.0)))

    @property
    def verdict(self) -> Trust:
        """The verdict: limits are shifts of an eighth and a quarter of a standard deviation, as for calibration."""
        return self.judge(1)

    def judge(self, tests: int) -> Trust:
        """Return the verdict when this is one of several tests of the same question."""
        verdict = judge_effect(self.p_value, self.effect, small=0.125, large=0.25, tests=tests)
        return "with care" if verdict == "trust" and self.ess < MIN_EFFECTIVE_RUNS else verdict

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        row, column = divmod(int(np.argmin(self.p_values)), self.p_values.shape[1])
        if self.verdict == "trust":
            runs = "effective runs" if self.weighted else "runs"
            return f"ranks do not depend on x over {self.ess:.0f} {runs} ({format_p_value(self.p_value)})"
        if self.p_value >= CARE_P_VALUE:
            return f"only {self.ess:.0f} effective runs to calibrate on; {MIN_EFFECTIVE_RUNS:.0f} are needed"
        what = ("is not where x says", "is not as wide as x says")[row]
        return (
            f"the posterior of {self.names[column]} {what} (x explains {self.shares[row, column]:.0%} of its ranks,"
            f" most {self.partner[column]}; {format_p_value(self.p_value)}): it does not use all of the data"
        )


def data_use(
    posterior: Posterior | Replicates,
    simulations: Simulations | None = None,
    *,
    pairs: int = 500,
    draws: int = 100,
    seed: int = 0,
) -> DataUse:
    """Regress SBC ranks on x, with weights; arguments as in `sbc`.

    Example:
        >>> class Prior:  # never looks at x
        ...     def sample(self, n, x_o, *, seed):
        ...         return np.random.default_rng(seed).normal(size=(n, 1))
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(400, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(400, 1)))
        >>> th.diagnostics.sbc(Prior(), runs).verdict, data_use(Prior(), runs).verdict
        ('trust', 'do not trust')
    """
    replicates = as_replicates(posterior, simulations, pairs=pairs, draws=draws, seed=seed)
    rng = np.random.default_rng(seed)
    ranks = compute_proposal_ranks(replicates, rng)
    if ranks is None:
        ranks, replicates = compute_ranks(replicates.theta[:, None, :], replicates.draws, rng), _even_out(replicates)
    else:
        replicates = replace(replicates, log_weights=np.zeros(len(replicates)))
    ranks = ranks - 0.5
    responses = (np.sqrt(12.0) * ranks, np.sqrt(180.0) * (ranks**2 - 1 / 12))
    weights = normalise(replicates.log_weights)
    predictions = [_predict_responses(replicates, response, rng) for response in responses]
    terms = _terms(replicates)
    found = [
        [_test_share(terms, predicted[:, j : j + 1], column, weights) for j, column in enumerate(response.T)]
        for response, predicted in zip(responses, predictions, strict=True)
    ]
    shares, p_values = np.moveaxis(np.array(found), -1, 0)
    partner, weighted = _most_correlated(replicates, ranks, weights), bool(np.ptp(replicates.log_weights) > 0)
    return DataUse(replicates.names, shares, p_values, partner, replicates.ess, weighted)


def _even_out(replicates: Replicates) -> Replicates:
    """Divide the weights by what x predicts of them.

    Given x the ranks of a correct posterior are uniform, so any function of x may multiply the weights. Heavy weights
    mostly belong to unusual x; without that part more runs count (110 of 300 became 160 in the tests).
    """
    log_weights = replicates.log_weights
    if float(np.ptp(log_weights)) < _ROUNDING_SHARE:
        return replicates
    terms = _terms(replicates)
    design = np.column_stack([np.ones(len(terms)), terms])
    slopes = np.linalg.lstsq(design, log_weights, rcond=_ROUNDING_SHARE)[0]
    evened = log_weights - design @ slopes
    return replace(replicates, log_weights=evened) if ess(evened) > replicates.ess else replicates


def _predict_responses(replicates: Replicates, response: Array, rng: np.random.Generator) -> Array:
    """Predict each response (n, p) from x; no columns where the effective runs are too few for another term."""
    if replicates.ess < _MIN_TERMS_TO_PREDICT * _RUNS_PER_TERM:
        return np.empty((len(response), 0))
    return cross_fit_predictions(replicates.x, response, replicates.log_weights, rng)


def _terms(replicates: Replicates) -> Array:
    """Compute components of x and the squares of the first (n, k), as many as the effective runs allow."""
    most = max(int(replicates.ess / _RUNS_PER_TERM), 1)
    parts = Components.of(replicates.x, replicates.log_weights, min(_MAX_COMPONENTS, most))(replicates.x)
    if not parts.shape[1]:  # a constant x explains nothing
        return parts
    # as ranks: extreme outputs, which often have the largest weights, get no more influence than others
    levels = np.column_stack([ecdf(part, part, replicates.log_weights) for part in parts.T]) - 0.5
    return np.hstack([levels, levels[:, : min(_MAX_SQUARES, max(most - parts.shape[1], 0))] ** 2])


def _test_share(terms: Array, predicted: Array, response: Array, weights: Array) -> tuple[float, float]:
    """Compute the share explained by terms and prediction, and the p-value of "neither explains anything".

    A prediction is a function of earlier responses, so it is no ordinary regressor: the sum over runs of prediction
    times response is a martingale, and the sum of its squared terms is its variance. Two tests, by Bonferroni.
    """
    from scipy.stats import norm

    share, p_value = _wald(terms, response, weights)
    gains = weights * predicted[:, 0] * response if predicted.shape[1] else np.zeros(1)
    if not gains.any():
        return share, p_value
    martingale_p = float(norm.sf(gains.sum() / np.sqrt(gains @ gains)))
    together = _wald(np.column_stack([terms, predicted]), response, weights)[0]
    return max(share, together), min(1.0, 2 * min(p_value, martingale_p))


def _wald(terms: Array, response: Array, weights: Array) -> tuple[float, float]:
    """Compute the adjusted share explained and the p-value of "all slopes are zero"."""
    from scipy.stats import chi2, f

    k = terms.shape[1]
    if not k:
        return 0.0, 1.0
    design = np.column_stack([np.ones(len(terms)), terms])
    inverse = np.linalg.pinv((design * weights[:, None]).T @ design, rcond=_ROUNDING_SHARE, hermitian=True)
    slopes = inverse @ (design.T @ (weights * response))
    residual = response - design @ slopes
    leverage = weights * np.einsum("ij,jk,ik->i", design, inverse, design)
    outer = residual / np.maximum(1 - leverage, 0.05)  # HC3
    # a run that determines its own fit (a rare value of a discrete x) has no residual; uniform ranks have variance one
    outer = np.where(leverage > _HIGH_LEVERAGE, np.maximum(np.abs(outer), 1.0), outer)
    even = float(np.ptp(weights)) < _ROUNDING_SHARE * float(weights.max())
    if even:  # nothing to estimate: uniform ranks have variance one, whatever x is
        outer = np.ones_like(outer)
    parts = (design * (weights * outer)[:, None]) @ inverse[:, 1:]  # what each run adds to the variance of the slopes
    root = np.linalg.pinv(parts.T @ parts, rcond=_ROUNDING_SHARE, hermitian=True)
    rank = max(int(np.linalg.matrix_rank(parts.T @ parts, rtol=_ROUNDING_SHARE, hermitian=True)), 1)
    dof = max(degrees_of_freedom(np.einsum("ij,jk,ik->i", parts, root, parts)) - k - 1, 1.0)
    statistic = float(slopes[1:] @ root @ slopes[1:]) / rank
    size = 1 / float(np.sum(weights**2))
    total = float(weights @ (response - weights @ response) ** 2)
    left = float(weights @ residual**2) * size / max(size - k - 1, 1.0)
    share = 1 - left / total if total > 0 else 0.0
    return share, float(chi2.sf(statistic * rank, rank) if even else f.sf(statistic, rank, dof))


def _most_correlated(replicates: Replicates, ranks: Array, weights: Array) -> tuple[str, ...]:
    flat = replicates.x.reshape(len(replicates), -1)
    centred = flat - weights @ flat
    spread = np.sqrt(weights @ centred**2)
    together = np.abs((ranks * weights[:, None]).T @ centred) / np.where(spread > 0, spread, np.inf)
    names = statistic_names(replicates.x_names, flat.shape[1])
    return tuple(names[i] for i in together.argmax(axis=1))
