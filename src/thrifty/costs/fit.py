"""Fit a cost model to timed runs: choose by held-out error, correct for expectation, freeze.

    log y_i = f(theta_i) + noise        f: polynomial or Gaussian process, chosen by held-out error
    E[y | theta] = scale * exp(f(theta))      the same f, moved on by gamma scoring, z = f + y/exp(f) - 1

The second step makes the model estimate the *expected* cost: exp of a mean of logs is too low, by a factor that
depends on theta when the noise does (an outbreak that dies out early is cheap). Nothing here can bias
inference: any frozen positive cost gives exact weights; a better one saves more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.costs.gaussian_process import GaussianProcess, GaussianProcessFit
from thrifty.costs.polynomial import Polynomial, PolynomialFit
from thrifty.costs.scaling import Scaling
from thrifty.display import Card, Displayed, count_things
from thrifty.durations import format_amount, name_unit
from thrifty.errors import CostError, warn
from thrifty.types import Array, Levels, as_rows, freeze, levels_of

FORMAT = 1
_OUTLIER_SDS = 4.0  # robust standard deviations of log cost beyond which a timing is pulled in before the final fit
_MAX_PULLS = 4  # rounds of pulling in; a few far timings inflate the first fit's noise
_MAX_EXTRAPOLATION_FACTOR = 10.0  # predictions stay within this factor of the costs seen: no polynomial runs away
FLAT_RATIO = 1.5  # of predicted costs, 95 % over 5 % quantile, below which less than 1 % can be saved
_FOLDS = 10
_SCORING_ROUNDS, _FOLD_SCORING_ROUNDS = 40, 10  # of gamma scoring, at half steps; a fold starts from the whole fit
_MAX_TOTAL_RATIO = 30.0  # and in the total: one timing of a thousand times its worth is the machine's, not the model's
_MAX_ROUND_RATIO = 10.0  # a run this many times its expectation counts no more than that in one round
_ROWS_AT_ONCE = 8192  # rows predicted at once, so that they stay in cache


Model = Polynomial | GaussianProcess
LogFit = PolynomialFit | GaussianProcessFit


@dataclass(frozen=True, repr=False)
class FittedCost(Displayed):
    """A frozen model of expected cost; call it with theta (n, p).

    Attributes:
        log_fit: The regression whose exponential is the expected cost.
        scale: Factor that makes held-out predictions add up to the costs measured.
        score: Held-out R-squared on log cost.
        bias: Held-out total of measured over predicted cost before that factor, minus one.
        coverage: Held-out share of timings within the 90 % band of the held-out residuals' normal law;
            well off 0.9 means noise far from log-normal.
        low, high: Predictions are kept within a factor of ten of the costs seen.
        n: Timings used.
        unit: Unit of cost.

    Example: see `th.fit_cost`.
    """

    log_fit: LogFit
    scale: float
    score: float
    bias: float
    coverage: float
    low: float
    high: float
    n: int
    unit: str = "s"
    noise: float = 0.0

    def __call__(self, theta: npt.ArrayLike) -> Array:
        """Expected cost of each row (n,), positive and finite."""
        theta = as_rows(theta, dim=self.log_fit.scaling.dim)
        out = np.empty(len(theta))
        for start in range(0, len(theta), _ROWS_AT_ONCE):
            part = theta[start : start + _ROWS_AT_ONCE]
            out[start : start + _ROWS_AT_ONCE] = self.log_fit(part)
        out += np.log(self.scale)
        return np.exp(np.clip(out, np.log(self.low), np.log(self.high), out=out), out=out)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers."""
        return {"format": FORMAT, "kind": "fitted_cost", **asdict(self, dict_factory=_to_plain)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON of plain numbers; `th.load_cost` reads it back exactly."""
        Path(path).write_text(json.dumps(self.to_dict()), encoding="utf-8")

    def __str__(self) -> str:
        return f"{self.log_fit}, explains {max(self.score, 0):.0%} of log cost out of sample ({self.n} timings)"

    def _card(self) -> Card:
        seen = self.low * _MAX_EXTRAPOLATION_FACTOR, self.high / _MAX_EXTRAPOLATION_FACTOR
        return Card(
            f"expected cost of a run in {name_unit(self.unit)}",
            [
                ("model", f"{self.log_fit} of log cost"),
                ("fitted to", count_things(self.n, "timing")),
                ("costs seen", " to ".join(format_amount(cost, self.unit) for cost in seen)),
                ("explains", f"{max(self.score, 0):.0%} of log cost out of sample"),
                ("90% band", f"holds {self.coverage:.0%} of held-out timings"),
            ],
        )


def fit_cost(
    theta: npt.ArrayLike,
    seconds: npt.ArrayLike | None = None,
    *,
    model: Literal["auto"] | Polynomial | GaussianProcess = "auto",
    unit: str = "s",
    prior: Any = None,
) -> FittedCost:
    """Learn the expected cost of a run from timings (paper, section 3.4; on the log scale).

    Args:
        theta: Parameters of the timed runs (n, p); repeated rows are repeated timings.
        seconds: Measured costs (n,), positive.
        model: "auto" chooses among polynomials of degree 1 to 3 and a Gaussian process by held-out error.
        unit: Unit of cost, for display.
        prior: Says which parameters are categories: the cost of each is then learned by itself. Without it all
            parameters are numbers.

    Raises:
        CostError: Costs that are not positive finite numbers (bad-cost), or too few of them (too-few-pilots).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(1, 5, (80, 1))
        >>> cost = th.fit_cost(theta, theta[:, 0] * rng.lognormal(0, 0.1, 80))
        >>> bool(cost.score > 0.9)
        True
    """
    from threadpoolctl import threadpool_limits

    theta, seconds = _check_timings(theta, seconds)
    levels = (None,) * theta.shape[1] if prior is None else levels_of(prior)
    if len(levels) != theta.shape[1]:
        raise CostError(f"theta has {theta.shape[1]} columns, the prior {len(levels)} parameters", code="wrong-prior")
    with threadpool_limits(1):  # matrices of a few hundred rows: a second thread on a busy core is 90 times slower
        cost = _fit(theta, seconds, model, unit, levels)
    _warn_if_poor(cost, theta, seconds)
    return cost


def _fit(theta: Array, seconds: Array, model: Any, unit: str, levels: Levels) -> FittedCost:
    log_cost = np.log(seconds)
    _, groups = np.unique(theta, axis=0, return_inverse=True)
    groups = groups.reshape(-1)
    if None not in levels:  # timings of a theta repeat: the others say what the one that is held out costs
        groups = np.arange(len(theta))
    categories = np.array([len(level or ()) for level in levels])
    scaling = Scaling.of(theta, categories if categories.any() else None)
    distinct = int(groups.max()) + 1
    needed = max(5, 2 * (theta.shape[1] + 1))
    if distinct < needed:
        raise CostError(
            f"{distinct} timed parameters for a cost over {theta.shape[1]}; need at least {needed}",
            code="too-few-pilots",
            fix=f"time {4 * needed} prior draws",
        )
    candidates = _list_candidates(model, distinct, len(scaling.centre))
    fits = [_fit_robustly(candidate, theta, log_cost, groups, scaling) for candidate in candidates]
    held_out = [
        _predict_held_out(theta, groups, lambda rows, f=fit, y=pulled: f.refitter(theta[rows])(y[rows]))
        for fit, pulled in fits
    ]
    errors = [float(np.mean((pulled - h) ** 2)) for (_, pulled), h in zip(fits, held_out, strict=True)]
    chosen = int(np.argmin(errors))
    (fit, _), predicted = fits[chosen], held_out[chosen]
    mean_fit = _move_to_mean(fit, theta, seconds, rounds=_SCORING_ROUNDS)
    move = partial(_move_to_mean, mean_fit, rounds=_FOLD_SCORING_ROUNDS)  # each fold starts from the whole fit
    expected = np.exp(_predict_held_out(theta, groups, lambda rows: move(theta[rows], seconds[rows])))
    total = float(np.minimum(seconds, _MAX_TOTAL_RATIO * expected).sum() / expected.sum())
    residual = log_cost - predicted
    spread = float(residual.std())
    return FittedCost(
        log_fit=mean_fit,
        scale=float(np.clip(total, 1 / 3, 3)),
        score=_score(log_cost, predicted),
        bias=total - 1,
        coverage=float(np.mean(np.abs(residual - residual.mean()) <= 1.6449 * spread)) if spread > 0 else 1.0,
        low=float(seconds.min() / _MAX_EXTRAPOLATION_FACTOR),
        high=float(seconds.max() * _MAX_EXTRAPOLATION_FACTOR),
        n=len(theta),
        unit=unit,
        noise=spread,
    )


def _check_timings(theta: npt.ArrayLike, seconds: npt.ArrayLike | None) -> tuple[Array, Array]:
    if seconds is None:
        is_table = hasattr(theta, "theta") and hasattr(theta, "cost")
        raise CostError(
            f"fit_cost needs parameters (n, p) and costs (n,) of the timed runs, got {type(theta).__name__} alone",
            code="bad-cost",
            fix="th.fit_cost(sims.theta, sims.cost)" if is_table else "th.fit_cost(theta, seconds)",
        )
    table = as_rows(theta)
    try:
        costs = np.asarray(seconds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CostError(f"costs are not numbers: {error}", code="bad-cost") from None
    costs = costs[:, 0] if costs.ndim == 2 and costs.shape[1] == 1 else costs
    if costs.shape != (len(table),):
        raise CostError(f"costs have shape {costs.shape} for {len(table)} rows of theta", code="bad-cost")
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(1))[0])
        raise CostError(f"theta is not finite at row {row}: {table[row].tolist()}", code="bad-array")
    bad = ~(np.isfinite(costs) & (costs > 0))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        finite = costs[np.isfinite(costs)]
        least = f"smallest {finite.min():g}" if finite.size else "none finite"
        raise CostError(
            f"cost must be positive, but {int(bad.sum())} of {len(costs)} values are not"
            f" ({least}; first {costs[i]:g} at row {i}, theta = {table[i].tolist()})",
            code="bad-cost",
            why="the logarithm of cost is modelled",
            fix="the clock is too coarse or the run failed: time several runs together, or drop failed ones",
        )
    return table, costs


def _list_candidates(model: Any, distinct: int, dim: int) -> list[Model]:
    if isinstance(model, Polynomial | GaussianProcess):
        return [model]
    if isinstance(model, type):
        raise CostError(f"model {model.__name__} is a class", code="bad-setting", fix=f"call it: th.{model.__name__}()")
    if not isinstance(model, str) or model != "auto":
        raise CostError(
            f'model must be "auto", th.Polynomial(degree) or th.GaussianProcess(), got {model!r}',
            code="bad-setting",
            fix="any other model is welcome as the cost itself: a callable (n, p) -> (n,)",
        )
    # a degree is tried when there are 1.5 timed parameters per coefficient, a process from 15 on
    degrees = [d for d in (1, 2, 3) if d == 1 or 1.5 * Polynomial(d).terms(dim) <= distinct]
    return [*(Polynomial(d) for d in degrees), *([GaussianProcess()] if distinct >= 15 else [])]


def _fit_robustly(
    model: Model, theta: Array, log_cost: Array, groups: npt.NDArray[np.intp], scaling: Scaling
) -> tuple[LogFit, Array]:
    """Fit, pull in timings far from the rest (a machine that slept), fit again; the pulled timings too."""
    pulled = log_cost
    fit = model.fit(theta, pulled, groups, scaling)
    for _ in range(_MAX_PULLS):
        predicted = fit(theta)
        residual = log_cost - predicted
        centre = np.median(residual)
        limit = _OUTLIER_SDS * max(1.4826 * float(np.median(np.abs(residual - centre))), 1e-3)
        inside = np.clip(residual, centre - limit, centre + limit)
        if np.allclose(predicted + inside, pulled, atol=1e-2):
            break
        pulled = predicted + inside
        fit = model.fit(theta, pulled, groups, scaling)
    return fit, pulled


def _predict_held_out(
    theta: Array, groups: npt.NDArray[np.intp], fit_rows: Callable[[npt.NDArray[np.bool_]], LogFit]
) -> Array:
    """Prediction of each row by a fit to the other folds (n,); all timings of one theta are held out together."""
    fold = np.random.default_rng(0).permutation(int(groups.max()) + 1) % _FOLDS
    out = np.empty(len(theta))
    for k in np.unique(fold):
        held = fold[groups] == k
        out[held] = fit_rows(~held)(theta[held])
    return out


def _move_to_mean(fit: LogFit, theta: Array, seconds: Array, *, rounds: int) -> LogFit:
    """Move a fit of log cost to the log of expected cost: gamma regression with a log link, by damped scoring."""
    f = fit(theta)
    f = f + np.log(np.mean(np.minimum(seconds * np.exp(-f), _MAX_ROUND_RATIO)))
    surprise = np.clip(seconds * np.exp(-f) - 1, -1, _MAX_ROUND_RATIO)
    refit = fit.refitter(theta, noise=float(surprise.var()))  # the dispersion: single far runs must not bend it
    for _ in range(rounds):
        fit = refit(f + surprise)
        f = f + 0.5 * (fit(theta) - f)
        surprise = np.clip(seconds * np.exp(-f) - 1, -1, _MAX_ROUND_RATIO)
    return fit


def _score(log_cost: Array, predicted: Array) -> float:
    total = float(np.sum((log_cost - log_cost.mean()) ** 2))
    return 1 - float(np.sum((log_cost - predicted) ** 2)) / total if total > 0 else 0.0


def _warn_if_poor(cost: FittedCost, theta: Array, seconds: Array) -> None:
    spread = seconds.max() / seconds.min()
    if cost.score < 0.3 and spread > 1.5:
        low, high = np.quantile(cost(theta), [0.05, 0.95])
        is_flat = high < FLAT_RATIO * low
        why = (
            f"by these {len(seconds)} runs, cost hardly varies with the parameters ({high / low:.2f}x); what varies is"
            " measured at any of them. Where less than 1% can be saved, draws are made from the prior, without weights"
            if is_flat
            else "Results stay unbiased, savings will be small"
        )
        fix = "nothing to do, unless you know that cost varies: then time more runs, or plan(cost=...)"
        warn(
            f"[poor-cost-fit] the cost model explains {max(cost.score, 0):.0%} of the variation of log cost (held out)."
            f" {why[0].upper()}{why[1:]}.\n"
            f"  fix: {fix if is_flat else 'time more runs, or give a known cost function'}",
            stacklevel=4,
        )


def _to_plain(items: list[tuple[str, Any]]) -> dict[str, Any]:
    known = ((label, value) for label, value in items if value is not None)
    return {label: value.tolist() if isinstance(value, np.ndarray) else value for label, value in known}


def _from_plain(kind: type[Any], data: dict[str, Any]) -> Any:
    values = {f.name: data[f.name] for f in fields(kind) if f.init and (f.name in data or f.default is MISSING)}
    arrays = {k: freeze(v, np.bool_ if k == "logged" else np.float64) for k, v in values.items() if isinstance(v, list)}
    return kind(**values | arrays)


def cost_from_dict(data: dict[str, Any]) -> FittedCost:
    """Rebuild the cost that `FittedCost.to_dict` wrote.

    Raises:
        CostError: bad-file, another format or damaged numbers.
    """
    try:
        if data["kind"] != "fitted_cost" or data["format"] > FORMAT:
            raise CostError(
                f"cost format {data.get('format')} of kind {data.get('kind')!r} is not known to this version",
                code="newer-version",
                fix="upgrade thrifty",
            )
        kinds = {"polynomial": PolynomialFit, "gaussian_process": GaussianProcessFit}
        found = data["log_fit"]
        fit = _from_plain(kinds[found["kind"]], {**found, "scaling": _from_plain(Scaling, found["scaling"])})
        cost: FittedCost = _from_plain(FittedCost, {**data, "log_fit": fit})
        if not (0 < cost.scale < np.inf and 0 < cost.low <= cost.high < np.inf):
            raise ValueError(f"scale {cost.scale!r}, range {cost.low!r} to {cost.high!r}")
        cost(np.zeros((1, fit.scaling.dim)))  # shapes fit together
        return cost
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CostError):
            raise
        raise CostError(f"not a saved cost model: {error!r}", code="bad-file") from None


def load_cost(path: str | os.PathLike[str]) -> FittedCost:
    """Read a cost model written by `FittedCost.save`; nothing in the file is executed.

    Example:
        >>> import tempfile
        >>> theta = np.random.default_rng(0).uniform(1, 5, (80, 1))
        >>> path = tempfile.mkdtemp() + "/cost.json"
        >>> th.fit_cost(theta, theta[:, 0]).save(path)
        >>> th.load_cost(path)([[2.0]]).round(2).tolist()
        [2.0]
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CostError(f"cannot read a cost model from {os.fspath(path)!r}: {error}", code="bad-file") from None
    if not isinstance(data, dict):
        raise CostError(f"{os.fspath(path)!r} is not a saved cost model", code="bad-file")
    return cost_from_dict(data)
