"""A head start for narrow posteriors: place and width of theta as additive functions of x, taken out before the flow.

    y' = (y - m(c)) / s(c),      m(c) = b + sum_f h_f(c_f),      log s(c) = a + sum_f r_f(c_f),      h, r cubic splines

A posterior a thousandth of the prior wide asks a network for one part in a thousand, which it learns slowly; least
squares finds it at once. Used for a parameter only where held-out runs are explained to 99.5 %; elsewhere m = 0, s = 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.interpolate import BSpline
from torch import Tensor, nn

from thrifty.types import Array
from thrifty.weights import ess, weighted_median

MAX_PIECES = 32  # an edge of a logit needs that many; elsewhere fewer are less noisy
PIECES_TRIED = (4, 8, 16, 32)  # of the place; the width varies slowly and takes the fewest
SPLINE_DEGREE = 3
MAX_CONDITIONS = 30  # least squares with 30 × 35 unknowns takes a second
RUNS_PER_UNKNOWN = 10  # least squares then fits its own runs too well by at most 5 %
CV_FOLDS = 5  # of the fitted runs, to choose pieces and penalty: one split in two would choose by chance
# Share of variance: a posterior sd below 7 % of the prior's. Wider ones the network finds by itself, with less noise.
MIN_EXPLAINED = 0.995
MIN_HELD_OUT_ESS = 10  # effective held-out runs; with fewer, one heavy run can be "explained" by chance
MIN_FIRST_EXPLAINED = 0.9  # by the fewest pieces; below, more pieces do not reach 99.5 %
MAX_LOG_WIDTH_RATIO = 4.0  # of a width to the common one; beyond, it is an extrapolation
RIDGE_PENALTIES = (1e-8, 1e-5, 1e-2, 1.0)


class Additive(nn.Module):
    """b + sum_f h_f(c_f) as buffers saved with the network: cubics between knots, constant beyond the last."""

    knots: Tensor
    pieces: Tensor
    offset: Tensor

    def __init__(self, features: int, parameters: int) -> None:
        super().__init__()
        self.register_buffer("knots", torch.arange(MAX_PIECES + 1, dtype=torch.float32).repeat(features, 1))
        self.register_buffer("pieces", torch.zeros(features, MAX_PIECES, SPLINE_DEGREE + 1, parameters))
        self.register_buffer("offset", torch.zeros(parameters))

    def forward(self, c: Tensor) -> Tensor:
        """Values (b, p) at conditions c (b, f)."""
        t = torch.clamp(c.T, self.knots[:, :1], self.knots[:, -1:]).contiguous()
        left = (torch.searchsorted(self.knots, t, right=True) - 1).clamp(0, MAX_PIECES - 1)
        step = (t - self.knots.gather(1, left))[..., None]
        powers = self.pieces[torch.arange(len(t))[:, None], left].unbind(2)  # highest first, each (f, b, p)
        value = powers[0]
        for lower in powers[1:]:
            value = value * step + lower
        return self.offset + value.sum(0)


class Shift(nn.Module):
    """m(c) and log s(c)."""

    def __init__(self, features: int, parameters: int) -> None:
        super().__init__()
        self.place = Additive(features, parameters)
        self.width = Additive(features, parameters)

    def forward(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """M(c) and log s(c), each (b, p); of the conditions c (b, f or more) the first f are looked at."""
        c = c[:, : len(self.place.knots)]
        return self.place(c), self.width(c)


class _Rows(NamedTuple):
    """Which rows to fit, which to test on, and the weights (n,) of all."""

    fit: np.ndarray
    test: np.ndarray
    weights: Array


class _Curve(NamedTuple):
    """One fitted additive function.

    Attributes:
        knots: (f, k + 1).
        solution: Intercept and B-spline coefficients.
        values: At all rows (n,).
        unseen: The same, each row by a fit that left it out.
    """

    knots: Array
    solution: Array
    values: Array
    unseen: Array


def fit_shift(
    y: npt.ArrayLike, c: npt.ArrayLike, weights: Array, validates: np.ndarray
) -> tuple[npt.NDArray[np.bool_], Shift | None]:
    """Find the parameters (p,) of y (n, p) with narrow posteriors given conditions c (n, f), and fit their shift."""
    y, c = np.asarray(y, dtype=np.float64), np.asarray(c, dtype=np.float64)
    nothing = np.zeros(y.shape[1], bool), None
    rows = _Rows(~validates & (weights > 0), validates & (weights > 0), weights)
    enough = rows.fit.sum() // (RUNS_PER_UNKNOWN * c.shape[1]) - SPLINE_DEGREE if c.ndim == 2 else 0
    trials = [pieces for pieces in PIECES_TRIED if pieces <= enough]
    if (
        c.ndim != 2
        or c.shape[1] > MAX_CONDITIONS
        or not trials
        or _count_effective(weights[rows.test]) < MIN_HELD_OUT_ESS
    ):
        return nothing
    knots = _place_knots(c)
    first = {trials[0]: _make_design(c, _coarsen(knots, trials[0]))}
    promising = [
        _explained_share(column, _fit_best(column, first, knots, rows), rows) > MIN_FIRST_EXPLAINED for column in y.T
    ]
    if not any(promising):  # the common case, found in a twentieth of the time
        return nothing
    designs = {pieces: _make_design(c, _coarsen(knots, pieces)) for pieces in trials}
    columns = zip(promising, y.T, strict=True)
    pairs = [_fit_place_and_width(column, designs, knots, rows) if promise else None for promise, column in columns]
    narrow = np.array([pair is not None for pair in pairs])
    if not narrow.any():
        return nothing
    shift = Shift(c.shape[1], y.shape[1])
    for fitted in (shift.place, shift.width):
        fitted.knots.copy_(torch.from_numpy(knots))
    for j, pair in enumerate(pairs):
        if pair:
            _write_curve(shift.place, j, pair[0])
            _write_curve(shift.width, j, pair[1])
    return narrow, shift


def _fit_place_and_width(
    y: Array, designs: dict[int, Array], knots: Array, rows: _Rows
) -> tuple[_Curve, _Curve] | None:
    """Fit place, width, and the place again with runs weighted by precision; None where too little is explained."""
    place = _fit_best(y, designs, knots, rows)
    if _explained_share(y, place, rows) < MIN_EXPLAINED:
        return None
    coarse = {min(designs): designs[min(designs)]}
    for _ in range(2):
        width = _fit_width(y - place.unseen, coarse, knots, rows)
        precise = rows.weights * np.exp(-2 * width.values)
        place = _fit_best(y, designs, knots, rows._replace(weights=precise / precise.mean()))
    return place, _fit_width(y - place.unseen, coarse, knots, rows)


def _explained_share(y: Array, curve: _Curve, rows: _Rows) -> float:
    """Return the share of the held-out spread that a curve explains: by variance or by median, whichever is less.

    A few far runs can be all of the variance: for a heavy-tailed prior it says nothing about the rest.
    """
    left, weights = (y - curve.values)[rows.test], rows.weights[rows.test]
    spread = y[rows.test] - weighted_median(y[rows.test], weights)
    typical = weighted_median(np.abs(spread), weights)
    if typical == 0:  # half of the weight is on one value: the rest shows nothing
        return 0.0
    variance = np.average(left**2, weights=weights) / np.average(spread**2, weights=weights)
    middle = (weighted_median(np.abs(left), weights) / typical) ** 2
    return 1 - float(max(variance, middle))


def _count_effective(weights: Array) -> float:
    return ess(np.log(weights)) if len(weights) else 0.0


def _fit_width(residual: Array, coarse: dict[int, Array], knots: Array, rows: _Rows) -> _Curve:
    """Fit log s: a regression of log|residual|, or one common width where that predicts held-out sizes better."""
    fit, weights = rows.fit, rows.weights
    common = 0.5 * np.log(np.average(residual[fit] ** 2, weights=weights[fit]))
    size = np.log(np.maximum(np.abs(residual), 1e-3 * np.exp(common)))
    curve = _fit_best(size, coarse, knots, rows)
    log_width = np.clip(curve.values, common - MAX_LOG_WIDTH_RATIO, common + MAX_LOG_WIDTH_RATIO)
    level = 0.5 * np.log(np.average((residual / np.exp(log_width))[fit] ** 2, weights=weights[fit]))
    flat = np.full(len(residual), common)
    if _score(residual, flat, rows) <= _score(residual, log_width + level, rows):
        return curve._replace(solution=np.concatenate([[common], 0 * curve.solution[1:]]), values=flat)
    solution = np.concatenate([[curve.solution[0] + level], curve.solution[1:]])
    return curve._replace(solution=solution, values=log_width + level)


def _score(residual: Array, log_width: Array, rows: _Rows) -> float:
    """Return the mean negative log density of the held-out rows under normals of these widths, up to a constant."""
    each = log_width + 0.5 * (residual / np.exp(log_width)) ** 2
    return float(np.average(each[rows.test], weights=rows.weights[rows.test]))


def _fit_best(y: Array, designs: dict[int, Array], knots: Array, rows: _Rows) -> _Curve:
    """Fit least squares with the number of pieces and the penalty of least cross-validated error."""
    fit, weights = np.flatnonzero(rows.fit), rows.weights
    best: tuple[float, int, int, Array] | None = None
    for pieces, design in designs.items():
        unseen = np.empty((len(RIDGE_PENALTIES), len(fit)))
        for fold in range(CV_FOLDS):
            out = np.arange(len(fit)) % CV_FOLDS == fold
            inner = fit[~out]
            solutions = _solve_ridges(design[inner], y[inner], weights[inner])
            unseen[:, out] = [design[fit[out]] @ s[1:] + s[0] for s in solutions]
        errors = np.average((y[fit] - unseen) ** 2, axis=1, weights=weights[fit])
        chosen = int(np.argmin(errors))
        if best is None or errors[chosen] < best[0]:
            best = float(errors[chosen]), pieces, chosen, unseen[chosen]
    assert best is not None
    _, pieces, chosen, left_out = best
    design = designs[pieces]
    solution = _solve_ridges(design[fit], y[fit], weights[fit])[chosen]
    values = design @ solution[1:] + solution[0]
    unseen = values.copy()
    unseen[fit] = left_out
    return _Curve(_coarsen(knots, pieces), solution, values, unseen)


def _solve_ridges(design: Array, y: Array, weights: Array) -> list[Array]:
    """Return intercept and coefficients (1 + columns,) of weighted least squares under each small penalty."""
    share = weights / weights.sum()
    centre, middle = share @ design, share @ y
    centred = (design - centre) * np.sqrt(share)[:, None]
    gram, target = centred.T @ centred, centred.T @ ((y - middle) * np.sqrt(share))
    unit = np.trace(gram) / len(gram) * np.eye(len(gram))
    solutions = [np.linalg.solve(gram + ridge * unit, target) for ridge in RIDGE_PENALTIES]
    return [np.concatenate([[middle - centre @ s], s]) for s in solutions]


def _place_knots(c: Array) -> Array:
    """Place knots at quantiles (f, MAX_PIECES + 1) of each condition, strictly increasing: ties are moved apart."""
    knots = np.quantile(c, np.linspace(0, 1, MAX_PIECES + 1), axis=0).T
    step = 1e-4 * np.maximum(knots[:, -1:] - knots[:, :1], 1e-6)
    return np.maximum.accumulate(knots + step * np.arange(MAX_PIECES + 1), axis=1)


def _coarsen(knots: Array, pieces: int) -> Array:
    """Keep the knots that make so many pieces."""
    return knots[:, :: MAX_PIECES // pieces]


def _pad(own: Array) -> Array:
    return np.concatenate([np.repeat(own[0], SPLINE_DEGREE), own, np.repeat(own[-1], SPLINE_DEGREE)])


def _make_design(c: Array, knots: Array) -> Array:
    """Evaluate cubic B-splines (n, f * (pieces + 3)) of each condition."""
    inside = np.clip(c, knots[:, 0], knots[:, -1])
    parts = [
        BSpline.design_matrix(t, _pad(own), SPLINE_DEGREE).toarray() for t, own in zip(inside.T, knots, strict=True)
    ]
    return np.hstack(parts)


def _write_curve(target: Additive, parameter: int, curve: _Curve) -> None:
    """Write a curve as its Taylor coefficients at the left end of each of the finest pieces, highest power first."""
    coefficients = curve.solution[1:].reshape(len(curve.knots), -1)
    left = target.knots[:, :-1].double().numpy()
    for f, (own, values) in enumerate(zip(curve.knots, coefficients, strict=True)):
        spline = BSpline(_pad(own), values, SPLINE_DEGREE)
        taylor = [spline(left[f], nu=d) / math.factorial(d) for d in range(SPLINE_DEGREE, -1, -1)]
        target.pieces[f, :, :, parameter] = torch.from_numpy(np.stack(taylor, axis=1))
    target.offset[parameter] = float(curve.solution[0])
