"""Draw posteriors: pairs of parameters, and marginals of several methods on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample
from thrifty.plots import style
from thrifty.plots.style import COLOURS, GREY
from thrifty.priors import as_prior
from thrifty.types import Array, Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = (0.5, 0.9)  # regions that hold half and nine tenths of the mass


def pairs(
    draws: npt.ArrayLike,
    *,
    log_weights: npt.ArrayLike | None = None,
    prior: Any = None,
    truth: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Draw a pair plot: marginals on the diagonal, 50 and 90 % regions below it.

    Args:
        draws: Posterior draws (n, p).
        log_weights: Of the draws (n,); used in densities and regions.
        prior: Drawn in grey on the diagonal, its bounds respected.
        truth: Parameters (p,) to mark.
        names: Of the parameters; by default the prior's.
    """
    sample = style.as_sample(draws, log_weights, "draws")
    dim = sample.points.shape[1]
    known = None if prior is None else as_prior(prior)
    names = style.parameter_names(names or (known.names if known else ()), dim)
    side = max(1.8 * dim, 3.2)
    figure, axes = style.make_figure(side, side, rows=dim, columns=dim)
    mark = _read_truth(truth, dim)
    ends = [_find_ends([sample], i, known, mark) for i in range(dim)]
    for i in range(dim):
        for j in range(dim):
            ax = axes[i, j]
            if j > i:
                ax.remove()
                continue
            if i == j:
                _draw_marginal(ax, sample, i, ends[i], known)
            else:
                _draw_regions(ax, sample, (j, i), (ends[j], ends[i]))
            if mark is not None:
                _mark_truth(ax, mark, j, None if i == j else i)
            ax.set_xlim(*ends[j])
            style.set_labels(ax, names[j] if i == dim - 1 else "", names[i] if j == 0 and i > 0 else "")
            if i < dim - 1:
                ax.set_xticklabels([])
            if j > 0 and i != j:
                ax.set_yticklabels([])
    _add_legend(figure, prior=known is not None, truth=mark is not None)
    return figure


def marginals(
    methods: Mapping[str, npt.ArrayLike],
    *,
    log_weights: Mapping[str, npt.ArrayLike] | None = None,
    prior: Any = None,
    truth: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Draw the marginal densities of several methods, one axis per parameter.

    Args:
        methods: Label to draws (n, p).
        log_weights: Label to log weights (n,), for the methods that have them.
        prior: Drawn in grey.
        truth: Parameters (p,) to mark.
        names: Of the parameters.
    """
    samples = _read_methods(methods, log_weights or {})
    dim = next(iter(samples.values())).points.shape[1]
    mark = _read_truth(truth, dim)
    known = None if prior is None else as_prior(prior)
    names = style.parameter_names(names or (known.names if known else ()), dim)
    figure, axes = style.make_figure(3.1 * dim + 0.6, 2.8, columns=dim)
    for i, ax in enumerate(axes[0]):
        bounds, ends = _bounds_of(known, i), _find_ends(list(samples.values()), i, known, mark)
        grid = np.linspace(*ends, 300)
        if known is not None:
            _draw_prior(ax, known, i, ends)
        for k, (label, s) in enumerate(samples.items()):
            colour = COLOURS[k % len(COLOURS)]
            ax.plot(
                grid, style.estimate_density(s.points[:, i], s.weights, grid, bounds), color=colour, lw=1.6, label=label
            )
        if mark is not None:
            ax.axvline(float(mark[i]), color="black", lw=1, ls=(0, (4, 2)), label="truth")
        ax.set_xlim(*ends)
        ax.set_ylim(bottom=0)
        ax.set_yticks([])
        style.set_labels(ax, names[i], "density" if i == 0 else "")
    style.add_figure_legend(figure, axes[0][0].get_legend_handles_labels()[0])
    return figure


def _read_methods(methods: Mapping[str, npt.ArrayLike], log_weights: Mapping[str, npt.ArrayLike]) -> dict[str, Sample]:
    """Convert the draws of each method to a sample, all with one number of parameters."""
    if not methods:
        raise DataError("no method to draw", code="bad-name", fix='pass {"NPE": draws, ...}')
    for label in log_weights:
        if label not in methods:
            raise DataError(
                f"log weights for {label!r}, but the methods are {', '.join(methods)}",
                code="bad-name",
                why="a posterior without its weights is another posterior",
                fix="give both the same label",
            )
    samples = {label: style.as_sample(draws, log_weights.get(label), label) for label, draws in methods.items()}
    dim = next(iter(samples.values())).points.shape[1]
    for label, s in samples.items():
        if s.points.shape[1] != dim:
            raise DataError(f"{label!r} has {s.points.shape[1]} parameters, others {dim}", code="bad-array")
    return samples


def _bounds_of(prior: Prior | None, i: int) -> tuple[float, float]:
    return (-np.inf, np.inf) if prior is None else (float(prior.bounds[0][i]), float(prior.bounds[1][i]))


def _read_truth(truth: npt.ArrayLike | None, dim: int) -> Array | None:
    if truth is None:
        return None
    try:
        values = np.asarray(truth, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError(f"truth is not a row of numbers: {truth!r:.60}", code="bad-array") from None
    if len(values) != dim or not np.isfinite(values).all():
        raise DataError(f"truth must be {dim} finite numbers, got {values.tolist()}", code="bad-array")
    return values


def _find_ends(samples: Sequence[Sample], i: int, prior: Prior | None, truth: Array | None) -> tuple[float, float]:
    """Find the range of the draws inside the prior's bounds, wide enough to show the truth where they miss it."""
    low, high = style.find_range(samples, i)
    low, high = max(low, _bounds_of(prior, i)[0]), min(high, _bounds_of(prior, i)[1])
    if truth is None or low <= truth[i] <= high:
        return low, high
    value = float(truth[i])
    margin = 0.04 * (max(high, value) - min(low, value))
    return (value - margin, high) if value < low else (low, value + margin)


def _draw_marginal(ax: Axes, s: Sample, i: int, ends: tuple[float, float], prior: Prior | None) -> None:
    grid = np.linspace(*ends, 300)
    curve = style.estimate_density(s.points[:, i], s.weights, grid, _bounds_of(prior, i))
    if prior is not None:
        _draw_prior(ax, prior, i, ends)
    ax.plot(grid, curve, color=COLOURS[0], lw=1.6)
    ax.fill_between(grid, curve, color=COLOURS[0], alpha=0.15, lw=0)
    ax.set_ylim(0, 1.08 * float(curve.max()) or 1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _draw_prior(ax: Axes, prior: Prior, i: int, ends: tuple[float, float]) -> None:
    values = np.asarray(prior.sample(20_000, np.random.default_rng(0)))[:, i]
    grid = np.linspace(*ends, 300)
    curve = style.estimate_density(
        values, np.full(len(values), 1 / len(values)), grid, _bounds_of(prior, i), smooth=2.5
    )
    ax.plot(grid, curve, color=GREY, lw=1.2, label="prior")


def _draw_regions(ax: Axes, s: Sample, columns: tuple[int, int], ends: tuple[Any, Any]) -> None:
    """Draw regions of highest density from a smoothed weighted histogram."""
    from scipy.ndimage import gaussian_filter

    x, y = (s.points[:, c] for c in columns)
    counts, x_edges, y_edges = np.histogram2d(x, y, bins=90, range=list(ends), weights=s.weights)
    effective = 1 / np.sum(s.weights**2)
    smooth = gaussian_filter(counts, np.clip(90 * 0.25 * effective ** (-1 / 6), 1.5, 12), mode="nearest")
    cut = _find_levels(smooth)
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in (x_edges, y_edges)]
    fill = [*cut, float(smooth.max()) * 1.01]
    if len(set(fill)) == len(fill):
        ax.contourf(*middles, smooth.T, levels=fill, colors=["#a9cce3", "#4f94c4"], antialiased=True)
    ax.set_ylim(*ends[1])


def _find_levels(values: Array) -> list[float]:
    flat = np.sort(values.ravel())[::-1]
    steps = np.cumsum(flat) / flat.sum()
    return sorted(float(flat[np.searchsorted(steps, level)]) for level in _LEVELS)


def _mark_truth(ax: Axes, truth: Array, j: int, i: int | None) -> None:
    dashes = {"color": "black", "lw": 0.9, "ls": (0, (4, 2))}
    ax.axvline(float(truth[j]), **dashes)  # type: ignore[arg-type]
    if i is not None:
        ax.axhline(float(truth[i]), **dashes)  # type: ignore[arg-type]


def _add_legend(figure: Figure, *, prior: bool, truth: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=COLOURS[0], lw=1.6, label="posterior")]
    handles += [Patch(color="#4f94c4", label="50 %"), Patch(color="#a9cce3", label="90 %")]
    handles += [Line2D([], [], color=GREY, lw=1.2, label="prior")] if prior else []
    handles += [Line2D([], [], color="black", lw=0.9, ls=(0, (4, 2)), label="truth")] if truth else []
    columns = len(handles) if figure.get_figwidth() > 5 else 3  # five entries are wider than two small axes
    style.add_figure_legend(figure, handles, right=True, columns=columns)
