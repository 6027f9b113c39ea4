"""Does the posterior use the data? Ranks of held-out parameters, regressed on x.

For a right posterior the rank u of theta_i among draws at x_i is uniform *whatever x_i is*. A posterior that ignores x
(the prior itself, or one that saw half of the statistics) has uniform ranks on average, and SBC, coverage and balls
around random points accept it; but its ranks go with what it ignored:

    f(u_i) = a + b . c(x_i) + error,     f = location sqrt(12) (u - 1/2)  or  width sqrt(180) ((u - 1/2)^2 - 1/12)

c are the leading components of x, as ranks among all runs, and the squares of the first. Weighted least squares; a Wald
test of b = 0, one per parameter and f, with heteroscedastic errors under weights. Beside it, for the telling statistic
among many that are noise, a test of what all of x foretells of f(u) by earlier runs (`foretelling`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.diagnostics.calibration import FEW
from thrifty.diagnostics.features import Components, foretold
from thrifty.diagnostics.replicates import Replicates, replicates_of
from thrifty.diagnostics.sbc import uniform_ranks
from thrifty.diagnostics.verdict import CARE, Trust, by_size, shown
from thrifty.metrics.ks import freedom
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior
from thrifty.weights import ecdf, normalise

_COMPONENTS, _SQUARED = 8, 3  # of x, and of them squared: where means and widths may go with x
_PER_TERM = 15.0  # effective runs per term of the regression, for errors that can be believed
_TOLD = 4  # terms that the effective runs must bear for one of them to be fitted on a quarter of the runs
_OWN_FIT = 0.2  # leverage from which a residual says little of its run: HC3 at rate 0.05 rejected 75 % instead of 5 %
_FLAT = 1e-8  # share of the largest eigenvalue below which a direction is rounding


@dataclass(frozen=True)
class DataUse:
    """How far ranks go with x.

    Attributes:
        names: Parameters (p,).
        shares: Share of the variance of f(u) explained by x, less what chance explains (2, p): location, width.
        p_values: Of "x explains nothing" (2, p).
        partner: The statistic that each rank goes with most (p,).
        ess: Effective number of pairs.
        name: The check.
    """

    names: tuple[str, ...]
    shares: Array
    p_values: Array
    partner: tuple[str, ...]
    ess: float
    name: str = "data_use"

    @property
    def p_value(self) -> float:
        """Over all parameters, location and width, by Bonferroni."""
        return float(min(1.0, self.p_values.size * self.p_values.min()))

    @property
    def effect(self) -> float:
        """Root of the largest share: about the shift, in posterior sd, that goes with one sd of x."""
        return float(np.sqrt(max(self.shares.max(), 0.0)))

    @property
    def verdict(self) -> Trust:
        """Shifts of an eighth and of a quarter of a standard deviation, as for calibration gaps."""
        verdict = by_size(self.p_value, self.effect, small=0.125, large=0.25)
        return "with care" if verdict == "trust" and self.ess < FEW else verdict

    @property
    def reason(self) -> str:
        """In words."""
        row, column = divmod(int(np.argmin(self.p_values)), self.p_values.shape[1])
        if self.verdict == "trust":
            return f"ranks do not go with x over {self.ess:.0f} effective runs ({shown(self.p_value)})"
        if self.p_value >= CARE:
            return f"only {self.ess:.0f} effective runs to calibrate on; {FEW:.0f} are needed"
        what = ("is not where x says", "is not as wide as x says")[row]
        return (
            f"the posterior of {self.names[column]} {what} (x explains {self.shares[row, column]:.0%} of its ranks,"
            f" most {self.partner[column]}; {shown(self.p_value)}): it does not use all of the data"
        )


def data_use(
    posterior: Posterior | Replicates,
    simulations: Simulations | None = None,
    *,
    pairs: int = 500,
    draws: int = 100,
    seed: int = 0,
) -> DataUse:
    """Weighted regression of SBC ranks on x; arguments as in `sbc`.

    Example:
        >>> class Prior:  # never looks at x
        ...     def sample(self, n, x_o, *, seed):
        ...         return np.random.default_rng(seed).normal(size=(n, 1))
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(400, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(400, 1)))
        >>> th.diagnostics.sbc(Prior(), runs).verdict, th.diagnostics.data_use(Prior(), runs).verdict
        ('trust', 'do not trust')
    """
    settings = {"pairs": pairs, "draws": draws, "density": False, "seed": seed}
    replicates = replicates_of(posterior, simulations, settings)
    rng = np.random.default_rng(seed)
    ranks = uniform_ranks(replicates.theta[:, None, :], replicates.draws, rng) - 0.5
    responses = (np.sqrt(12.0) * ranks, np.sqrt(180.0) * (ranks**2 - 1 / 12))
    weights = normalise(replicates.log_weights)
    told = [_told(replicates, response, rng) for response in responses]
    terms = _terms(replicates)
    found = [
        [_explained(terms, own[:, j : j + 1], column, weights) for j, column in enumerate(response.T)]
        for response, own in zip(responses, told, strict=True)
    ]
    shares, p_values = np.moveaxis(np.array(found), -1, 0)
    return DataUse(replicates.names, shares, p_values, _partners(replicates, ranks, weights), replicates.ess)


def _told(replicates: Replicates, response: Array, rng: np.random.Generator) -> Array:
    """What x foretells of each response (n, p); no columns where the effective runs bear no further term."""
    if replicates.ess < _TOLD * _PER_TERM:
        return np.empty((len(response), 0))
    return foretold(replicates.x, response, replicates.log_weights, rng)


def _terms(replicates: Replicates) -> Array:
    """Components of x and the squares of the first, as many as the effective runs bear (n, k)."""
    most = max(int(replicates.ess / _PER_TERM), 1)
    parts = Components.of(replicates.x, replicates.log_weights, min(_COMPONENTS, most))(replicates.x)
    if not parts.shape[1]:  # a constant x explains nothing
        return parts
    # as ranks: wild outputs, which often have the largest weights, get no more say than others
    levels = np.column_stack([ecdf(part, part, replicates.log_weights) for part in parts.T]) - 0.5
    return np.hstack([levels, levels[:, : min(_SQUARED, max(most - parts.shape[1], 0))] ** 2])


def _explained(terms: Array, told: Array, response: Array, weights: Array) -> tuple[float, float]:
    """Share explained by the terms and what was foretold, and p-value of "neither explains anything".

    What was foretold is made of earlier responses, so it is no regressor like the others: a sum over runs of foretold
    times found is a martingale, and its own squares are its variance. Two tests, by Bonferroni.
    """
    from scipy.stats import norm

    share, p_value = _wald(terms, response, weights)
    gains = weights * told[:, 0] * response if told.shape[1] else np.zeros(1)
    if not gains.any():
        return share, p_value
    ahead = float(norm.sf(gains.sum() / np.sqrt(gains @ gains)))
    together = _wald(np.column_stack([terms, told]), response, weights)[0]
    return max(share, together), min(1.0, 2 * min(p_value, ahead))


def _wald(terms: Array, response: Array, weights: Array) -> tuple[float, float]:
    """Adjusted share explained and p-value of "all slopes are zero"."""
    from scipy.stats import chi2, f

    k = terms.shape[1]
    if not k:
        return 0.0, 1.0
    design = np.column_stack([np.ones(len(terms)), terms])
    inverse = np.linalg.pinv((design * weights[:, None]).T @ design, rcond=_FLAT, hermitian=True)
    slopes = inverse @ (design.T @ (weights * response))
    residual = response - design @ slopes
    leverage = weights * np.einsum("ij,jk,ik->i", design, inverse, design)
    outer = residual / np.maximum(1 - leverage, 0.05)  # HC3
    # a run that fits itself (a rare value of a discrete x) leaves no residual; under uniform ranks its variance is one
    outer = np.where(leverage > _OWN_FIT, np.maximum(np.abs(outer), 1.0), outer)
    even = float(np.ptp(weights)) < _FLAT * float(weights.max())
    if even:  # nothing to estimate: uniform ranks have variance one, whatever x is
        outer = np.ones_like(outer)
    parts = (design * (weights * outer)[:, None]) @ inverse[:, 1:]  # what each run adds to the variance of the slopes
    root = np.linalg.pinv(parts.T @ parts, rcond=_FLAT, hermitian=True)
    rank = max(int(np.linalg.matrix_rank(parts.T @ parts, rtol=_FLAT, hermitian=True)), 1)
    dof = max(freedom(np.einsum("ij,jk,ik->i", parts, root, parts)) - k - 1, 1.0)
    statistic = float(slopes[1:] @ root @ slopes[1:]) / rank
    size = 1 / float(np.sum(weights**2))
    total = float(weights @ (response - weights @ response) ** 2)
    left = float(weights @ residual**2) * size / max(size - k - 1, 1.0)
    share = 1 - left / total if total > 0 else 0.0
    return share, float(chi2.sf(statistic * rank, rank) if even else f.sf(statistic, rank, dof))


def _partners(replicates: Replicates, ranks: Array, weights: Array) -> tuple[str, ...]:
    flat = replicates.x.reshape(len(replicates), -1)
    centred = flat - weights @ flat
    spread = np.sqrt(weights @ centred**2)
    together = np.abs((ranks * weights[:, None]).T @ centred) / np.where(spread > 0, spread, np.inf)
    names = replicates.x_names or tuple(f"statistic {i + 1}" for i in range(flat.shape[1]))
    return tuple(names[i] for i in together.argmax(axis=1))
