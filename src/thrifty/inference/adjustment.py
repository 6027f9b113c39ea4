"""Regression adjustment: move accepted parameters to where they would be if the simulation equalled x_o.

Over z, the parameters without bounds, fit by weighted least squares

    z_i = a + B (s_i - s_o) + residual_i,     weights  w_i · K(d_i / epsilon)

and replace z_i by z_i - B (s_i - s_o) (Beaumont, Zhang and Balding 2002). w restores the prior; K is flat for
"linear" and Epanechnikov, K(u) = 1 - u^2, for "local", and multiplies the posterior weight too. Working over z
keeps every adjusted parameter inside the prior's bounds. Whole numbers and categories stay as they are.

"auto", the default of ABC without a tolerance, is "local" where the accepted runs are enough for the statistics, and
"none" where they are not. It also undoes what a regression with few runs takes from the residuals: their spread is too
small by sqrt(1 - (d + 1)/n), so that 90 % intervals of 20 statistics and 240 runs held 79 %.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from thrifty.errors import InferenceError
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array
from thrifty.weights import normalise

Adjust = Literal["none", "linear", "local", "auto"]
ADJUSTMENTS: tuple[Adjust, ...] = ("none", "linear", "local", "auto")
MAX_BEYOND_SD = 0.5  # of the accepted runs: as far beyond them an observation still counts as one of theirs
RUNS_PER_SLOPE = 4.0  # effective accepted runs per statistic (and intercept) from which "auto" regresses


def epanechnikov(distance: Array, epsilon: float) -> Array:
    """Log of 1 - (d/epsilon)^2 (n,), -inf at and beyond epsilon; flat where epsilon is 0.

    Example:
        >>> np.exp(epanechnikov(np.array([0.0, 1.0, 2.0]), 2.0)).tolist()
        [1.0, 0.75, 0.0]
    """
    if epsilon == 0:
        return np.zeros(len(distance))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(1 - np.square(distance / epsilon), 0.0))


def adjust_parameters(
    theta: Array, offset: Array, log_weights: Array, box: BoxTransform, *, widen: bool = False
) -> Array:
    """Move parameters (n, p) along the weighted regression on the statistics' offsets s - s_o (n, d).

    Args:
        theta: Accepted parameters (n, p).
        offset: Statistics minus the observed ones (n, d), in units in which they are comparable.
        log_weights: Log of prior weight times kernel (n,).
        box: The bounds to respect.
        widen: Give the residuals the spread back that fitting d + 1 numbers took from them.

    Raises:
        InferenceError: too-few-runs, too few accepted runs to fit the regression.

    Example:
        >>> offset = np.array([[-1.0], [0.0], [1.0], [2.0]])
        >>> line = BoxTransform(np.array([-np.inf]), np.array([np.inf]))
        >>> adjust_parameters(3 + 2 * offset, offset, np.zeros(4), line).round(9).ravel().tolist()
        [3.0, 3.0, 3.0, 3.0]
    """
    weights = normalise(log_weights)
    effective = 1 / np.square(weights).sum()
    needed = offset.shape[1] + 2
    if effective < needed:
        raise InferenceError(
            f"{effective:.0f} effective accepted runs for a regression on {offset.shape[1]} statistics;"
            f" need at least {needed}",
            code="too-few-runs",
            fix='accept more (larger epsilon, quantile or n_accept) or use adjust="none"',
        )
    z = box.to_unconstrained(theta)
    fitted, residual = (np.where(box.discrete, 0.0, part) for part in regress(z, offset, weights))
    if widen:
        lost = offset.shape[1] + 1
        return box.to_bounded(z - fitted - residual + residual * np.sqrt(effective / max(effective - lost, 1.0)))
    return box.to_bounded(z - fitted)


def limit_extrapolation(offset: Array, log_weights: Array) -> tuple[Array, bool]:
    """Regress no further than the accepted runs reach, where x_o is far outside of them in a statistic.

    Beyond them nothing says that the line goes on: parameters would all be moved onto their bounds.

    Args:
        offset: Statistics minus the observed ones (n, d).
        log_weights: Log of prior weight times kernel (n,).

    Returns:
        Offsets (n, d) from x_o, or from the point nearest to it within half a standard deviation of the accepted
        range; and whether that point is another.

    Example:
        >>> limit_extrapolation(np.array([[-9.0], [-8.0]]), np.zeros(2))
        (array([[-1.25],
               [-0.25]]), True)
    """
    share = normalise(log_weights)
    margin = MAX_BEYOND_SD * np.sqrt(share @ np.square(offset - share @ offset))
    moved = np.clip(0.0, offset.min(0) - margin, offset.max(0) + margin)
    return offset - moved, bool(moved.any())


def regress(z: Array, offset: Array, weights: Array) -> tuple[Array, Array]:
    """Return the fitted part B (s - s_o) and the residual, each (n, p), of the weighted regression of z on s - s_o."""
    scaled = scale_columns(offset, weights)
    design, root = np.column_stack([np.ones(len(z)), scaled]), np.sqrt(weights)[:, None]
    slopes = np.linalg.lstsq(root * design, root * z, rcond=1e-10)[0]  # collinear statistics: shortest solution
    return scaled @ slopes[1:], z - design @ slopes


def has_enough_runs(effective: float, statistics: int) -> bool:
    """Whether "auto" regresses on this many statistics with this many effective accepted runs."""
    return effective >= RUNS_PER_SLOPE * (statistics + 1)


def scale_columns(offset: Array, weights: Array) -> Array:
    """Divide the columns of s - s_o (n, d) by their weighted spread, so that lstsq's rank cut-off has a meaning.

    A statistic that does not vary becomes 0: otherwise it would be a second intercept.

    Example:
        >>> scale_columns(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2)).tolist()
        [[1.0, 0.0], [3.0, 0.0]]
    """
    share = weights / weights.sum()
    spread = np.sqrt(share @ np.square(offset - share @ offset))
    still = spread <= 1e-9 * np.abs(offset).max(0)
    return np.where(still, 0.0, offset) / np.where(still, 1.0, spread)
