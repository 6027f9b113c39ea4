"""Posterior draws: pairs of parameters, and marginals of several methods on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample
from thrifty.plots.style import COLOURS, GREY, density, labels, new, parameter_names, span, weighted
from thrifty.priors import as_prior
from thrifty.types import Array

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
    """Pair plot: marginals on the diagonal, 50 and 90 % regions below it.

    Args:
        draws: Posterior draws (n, p).
        log_weights: Of the draws (n,); honoured in densities and regions.
        prior: Drawn in grey on the diagonal, its bounds respected.
        truth: Parameters (p,) to mark.
        names: Of the parameters; the prior's when left out.
    """
    sample = weighted(draws, log_weights, "draws")
    dim = sample.points.shape[1]
    known = None if prior is None else as_prior(prior)
    names = parameter_names(names or (known.names if known else ()), dim)
    side = max(1.8 * dim, 3.2)
    figure, axes = new(side, side, rows=dim, columns=dim)
    ends = [span([sample], i) for i in range(dim)]
    if known is not None:
        ends = [_within(end, known.bounds[0][i], known.bounds[1][i]) for i, end in enumerate(ends)]
    mark = _truth(truth, dim)
    ends = ends if mark is None else [_reaching(end, float(value)) for end, value in zip(ends, mark, strict=True)]
    for i in range(dim):
        for j in range(dim):
            ax = axes[i, j]
            if j > i:
                ax.remove()
                continue
            if i == j:
                _diagonal(ax, sample, i, ends[i], known)
            else:
                _region(ax, sample, (j, i), (ends[j], ends[i]))
            if mark is not None:
                _mark(ax, mark, j, None if i == j else i)
            ax.set_xlim(*ends[j])
            labels(ax, names[j] if i == dim - 1 else "", names[i] if j == 0 and i > 0 else "")
            if i < dim - 1:
                ax.set_xticklabels([])
            if j > 0 and i != j:
                ax.set_yticklabels([])
    _key(figure, prior=known is not None, truth=mark is not None)
    return figure


def marginals(
    methods: Mapping[str, npt.ArrayLike],
    *,
    log_weights: Mapping[str, npt.ArrayLike] | None = None,
    prior: Any = None,
    truth: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
) -> Figure:
    """Marginal densities of several methods, one axis per parameter.

    Args:
        methods: Label to draws (n, p).
        log_weights: Label to log weights (n,), for the methods that have them.
        prior: Drawn in grey.
        truth: Parameters (p,) to mark.
        names: Of the parameters.
    """
    given = dict(log_weights or {})
    unknown = [label for label in given if label not in methods]
    if unknown or not methods:
        raise DataError(
            f"log weights for {unknown[0]!r}, but the methods are {', '.join(methods)}"
            if unknown
            else "no method to draw",
            code="bad-name",
            why="a posterior without its weights is another posterior" if unknown else "",
            fix="give both the same label" if unknown else 'pass {"NPE": draws, ...}',
        )
    samples = {label: weighted(draws, given.get(label), label) for label, draws in methods.items()}
    dim = next(iter(samples.values())).points.shape[1]
    other = [label for label, s in samples.items() if s.points.shape[1] != dim]
    if other:
        raise DataError(
            f"{other[0]!r} has {samples[other[0]].points.shape[1]} parameters, others {dim}", code="bad-array"
        )
    mark = _truth(truth, dim)
    known = None if prior is None else as_prior(prior)
    names = parameter_names(names or (known.names if known else ()), dim)
    figure, axes = new(3.1 * dim + 0.6, 2.8, columns=dim)
    for i, ax in enumerate(axes[0]):
        ends = span(list(samples.values()), i)
        bounds = (-np.inf, np.inf) if known is None else (float(known.bounds[0][i]), float(known.bounds[1][i]))
        ends = _within(ends, *bounds)
        ends = ends if mark is None else _reaching(ends, float(mark[i]))
        grid = np.linspace(*ends, 300)
        if known is not None:
            _prior_curve(ax, known, i, ends)
        for (label, s), colour in zip(samples.items(), _cycle(len(samples)), strict=True):
            ax.plot(grid, density(s.points[:, i], s.weights, grid, bounds), color=colour, lw=1.6, label=label)
        if mark is not None:
            ax.axvline(float(mark[i]), color="black", lw=1, ls=(0, (4, 2)), label="truth")
        ax.set_xlim(*ends)
        ax.set_ylim(bottom=0)
        ax.set_yticks([])
        labels(ax, names[i], "density" if i == 0 else "")
    handles, texts = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper center", ncols=len(texts), frameon=False, fontsize=8)
    return figure


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def _within(ends: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    return max(ends[0], float(low)), min(ends[1], float(high))


def _truth(truth: npt.ArrayLike | None, dim: int) -> Array | None:
    if truth is None:
        return None
    try:
        values = np.asarray(truth, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError(f"truth is not a row of numbers: {truth!r:.60}", code="bad-array") from None
    if len(values) != dim or not np.isfinite(values).all():
        raise DataError(f"truth must be {dim} finite numbers, got {values.tolist()}", code="bad-array")
    return values


def _reaching(ends: tuple[float, float], value: float) -> tuple[float, float]:
    """Widened so that the truth can be seen: a posterior that misses it must be seen to."""
    if ends[0] <= value <= ends[1]:
        return ends
    low, high = min(ends[0], value), max(ends[1], value)
    margin = 0.04 * (high - low)
    return (low - margin, high) if value == low else (low, high + margin)


def _diagonal(ax: Axes, s: Sample, i: int, ends: tuple[float, float], prior: Any) -> None:
    grid = np.linspace(*ends, 300)
    bounds = (-np.inf, np.inf) if prior is None else (float(prior.bounds[0][i]), float(prior.bounds[1][i]))
    curve = density(s.points[:, i], s.weights, grid, bounds)
    if prior is not None:
        _prior_curve(ax, prior, i, ends)
    ax.plot(grid, curve, color=COLOURS[0], lw=1.6)
    ax.fill_between(grid, curve, color=COLOURS[0], alpha=0.15, lw=0)
    ax.set_ylim(0, 1.08 * float(curve.max()) or 1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _prior_curve(ax: Axes, prior: Any, i: int, ends: tuple[float, float]) -> None:
    values = np.asarray(prior.sample(20_000, np.random.default_rng(0)))[:, i]
    grid = np.linspace(*ends, 300)
    bounds = (float(prior.bounds[0][i]), float(prior.bounds[1][i]))
    curve = density(values, np.full(len(values), 1 / len(values)), grid, bounds, smooth=2.5)
    ax.plot(grid, curve, color=GREY, lw=1.2, label="prior")


def _region(ax: Axes, s: Sample, columns: tuple[int, int], ends: tuple[Any, Any]) -> None:
    """Filled regions of highest density from a smoothed weighted histogram."""
    from scipy.ndimage import gaussian_filter

    x, y = (s.points[:, c] for c in columns)
    counts, x_edges, y_edges = np.histogram2d(x, y, bins=90, range=list(ends), weights=s.weights)
    effective = 1 / np.sum(s.weights**2)
    smooth = gaussian_filter(counts, np.clip(90 * 0.25 * effective ** (-1 / 6), 1.5, 12), mode="nearest")
    cut = _cuts(smooth)
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in (x_edges, y_edges)]
    fill = [*cut, float(smooth.max()) * 1.01]
    if len(set(fill)) == len(fill):
        ax.contourf(*middles, smooth.T, levels=fill, colors=["#a9cce3", "#4f94c4"], antialiased=True)
    ax.set_ylim(*ends[1])


def _cuts(values: Array) -> list[float]:
    flat = np.sort(values.ravel())[::-1]
    steps = np.cumsum(flat) / flat.sum()
    return sorted(float(flat[np.searchsorted(steps, level)]) for level in _LEVELS)


def _mark(ax: Axes, truth: Array, j: int, i: int | None) -> None:
    dashes = {"color": "black", "lw": 0.9, "ls": (0, (4, 2))}
    ax.axvline(float(truth[j]), **dashes)  # type: ignore[arg-type]
    if i is not None:
        ax.axhline(float(truth[i]), **dashes)  # type: ignore[arg-type]


def _key(figure: Figure, *, prior: bool, truth: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=COLOURS[0], lw=1.6, label="posterior")]
    handles += [Patch(color="#4f94c4", label="50 %"), Patch(color="#a9cce3", label="90 %")]
    handles += [Line2D([], [], color=GREY, lw=1.2, label="prior")] if prior else []
    handles += [Line2D([], [], color="black", lw=0.9, ls=(0, (4, 2)), label="truth")] if truth else []
    columns = len(handles) if figure.get_figwidth() > 5 else 3  # five entries are wider than two small axes
    figure.legend(handles=handles, loc="outside upper right", ncols=columns, frameon=False, fontsize=8)
