"""Draw densities of posteriors: conditionals of pairs of parameters, and the directions that the data decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample
from thrifty.plots import style
from thrifty.plots.style import COLOURS
from thrifty.types import Array, Posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = 60  # points on each side of a pair: 3,600 densities, a network call
DRAWS = 1_000  # of the posterior: they give the ranges


def conditional_pairs(
    posterior: Posterior, x_o: npt.ArrayLike, *, at: npt.ArrayLike | None = None, seed: int = 0
) -> Figure:
    """Draw the posterior's density over each parameter and each pair, all others held at a point.

    Pairs that look independent in a pair plot of draws can be strongly tied once the others are known.

    Args:
        posterior: With `sample` and `log_prob`.
        x_o: The observation.
        at: Where the other parameters are held (p,); by default the draw of highest density.
        seed: Seed of the draws that give the ranges.

    Example: `th.plots.conditional_pairs(posterior, x_o)`.
    """
    draws = np.asarray(posterior.sample(DRAWS, x_o, seed=seed), dtype=np.float64)
    dim = draws.shape[1]
    point = _read_point(posterior, x_o, draws, at)
    sample = Sample(draws, np.full(len(draws), 1 / len(draws)))
    axes_of = [np.linspace(*style.find_range([sample], i), GRID) for i in range(dim)]
    names = style.parameter_names(getattr(posterior, "names", ()), dim)
    side = max(1.8 * dim, 3.2)
    figure, axes = style.make_figure(side, side, rows=dim, columns=dim)
    for i in range(dim):
        for j in range(dim):
            ax = axes[i, j]
            if j > i:
                ax.remove()
                continue
            density = evaluate_conditional(posterior, x_o, point, {k: axes_of[k] for k in {i, j}})
            if i == j:
                ax.plot(axes_of[i], density, color=COLOURS[0], lw=1.6)
                ax.set_yticks([])
            else:
                ax.pcolormesh(axes_of[j], axes_of[i], density.T if j < i else density, cmap="Blues", shading="auto")
                ax.axhline(float(point[i]), color="black", lw=0.6, ls=":")
            ax.axvline(float(point[j]), color="black", lw=0.6, ls=":")
            style.set_labels(ax, names[j] if i == dim - 1 else "", names[i] if j == 0 and i > 0 else "")
    return figure


def evaluate_conditional(posterior: Posterior, x_o: npt.ArrayLike, point: Array, free: dict[int, Array]) -> Array:
    """Evaluate the density over a grid of the free columns, in increasing order, scaled to a maximum of 1.

    Example:
        >>> class Gaussian:
        ...     def log_prob(self, theta, x_o):
        ...         return -0.5 * np.square(theta).sum(1)
        >>> evaluate_conditional(Gaussian(), [0.0], np.zeros(2), {1: np.array([0.0, 2.0])}).round(3).tolist()
        [1.0, 0.135]
    """
    columns = sorted(free)
    places = np.meshgrid(*(free[k] for k in columns), indexing="ij")
    rows = np.tile(point, (places[0].size, 1))
    for k, values in zip(columns, places, strict=True):
        rows[:, k] = values.ravel()
    values = np.nan_to_num(np.asarray(posterior.log_prob(rows, x_o)), nan=-np.inf)
    if values.max() == -np.inf:
        raise DataError("the posterior has no density here", code="bad-array", fix="pass at=, a point inside the prior")
    return np.exp(values - values.max()).reshape(places[0].shape)


def _read_point(posterior: Posterior, x_o: npt.ArrayLike, draws: Array, at: npt.ArrayLike | None) -> Array:
    if at is None:
        return draws[int(np.argmax(posterior.log_prob(draws, x_o)))]
    point = np.asarray(at, dtype=np.float64).ravel()
    if len(point) != draws.shape[1] or not np.isfinite(point).all():
        raise DataError(f"at must be {draws.shape[1]} finite numbers, got {point.tolist()}", code="bad-array")
    return point


def sensitivity(found: Any) -> Figure:
    """Draw the directions of the parameters that the data decide, from `posterior.sensitivity(x_o)`.

    Left: how strongly the log posterior changes along each direction (1: as the prior alone would). Right: what each
    direction is made of.

    Example: `th.plots.sensitivity(posterior.sensitivity(x_o))`.
    """
    values, rows = np.asarray(found.values), np.asarray(found.directions)
    dim = len(values)
    figure, axes = style.make_figure(6.4, 1.4 + 0.4 * dim, columns=2)
    bars, weights = axes[0]
    bars.barh(np.arange(dim), np.maximum(values, 1e-3), color=COLOURS[0], alpha=0.6)
    bars.set_xscale("log")
    low, high = bars.get_xlim()
    style.set_plain_ticks(bars.xaxis, high / low)
    bars.axvline(1.0, color="black", lw=0.8, ls=":")
    bars.set_yticks(np.arange(dim), [str(i + 1) for i in range(dim)])
    bars.invert_yaxis()
    style.set_labels(bars, "sensitivity (prior alone: 1)", "direction")
    image = weights.imshow(rows, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    weights.set_xticks(np.arange(dim), found.names, rotation=45, ha="right")
    weights.set_yticks([])
    figure.colorbar(image, ax=weights, shrink=0.8)
    return figure
