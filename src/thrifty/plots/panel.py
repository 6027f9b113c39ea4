"""What the panels of a figure of posteriors share: the draws by label, and range, bounds and name of each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample
from thrifty.plots import style
from thrifty.plots.drawn import Drawn, read_drawn
from thrifty.priors import as_prior
from thrifty.types import Array, Levels, Prior, levels_of

FEW_VALUES = 12  # of a discrete parameter: all are shown


@dataclass(frozen=True)
class Panel:
    """What the panels of one figure share: samples by label, and range, bounds and name of each parameter."""

    samples: dict[str, Sample]
    names: tuple[str, ...]
    prior: Prior | None
    truth: Array | None
    bounds: list[tuple[float, float]]
    ends: list[tuple[float, float]]
    levels: Levels = ()

    @classmethod
    def of(
        cls, sets: Mapping[str, Drawn], prior: Prior | None, truth: npt.ArrayLike | None, names: Sequence[str]
    ) -> Panel:
        """Find names, bounds and ranges of the parameters."""
        samples = {label: _merge_ties(drawn.sample) for label, drawn in sets.items()}
        dim = next(iter(samples.values())).points.shape[1]
        known = names or next((drawn.names for drawn in sets.values() if len(drawn.names) == dim), ())
        named = style.parameter_names(known or (prior.names if prior is not None else ()), dim)
        mark = _read_truth(truth, dim, named)
        bounds = [_bounds_of(prior, next(iter(sets.values())), i) for i in range(dim)]
        ends = [_find_ends(list(samples.values()), i, bounds[i], mark) for i in range(dim)]
        first = next(iter(sets.values()))
        levels = levels_of(prior) if prior is not None else first.levels or (None,) * dim
        for i, level in enumerate(levels):
            if level is not None:  # a bar, or a cell, around each value
                bounds[i] = bounds[i][0] - 0.5, bounds[i][1] + 0.5
                ends[i] = _find_cells(list(samples.values()), i, bounds[i])
        return cls(samples, named, prior, mark, bounds, ends, levels)

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return len(self.names)


def _merge_ties(sample: Sample) -> Sample:
    """Merge equal rows: draws of ABC repeat its accepted runs, and a density must not take them for new ones."""
    points, place = np.unique(sample.points, axis=0, return_inverse=True)
    weights = np.zeros(len(points))
    np.add.at(weights, place.ravel(), sample.weights)
    return Sample(points, weights)


def choose_prior(given: Any, drawn: Drawn) -> Prior | None:
    """Return the prior to draw: the given one, that of the posterior when none is given, None for False."""
    if given is None:
        return drawn.prior
    return None if given is False else as_prior(given)


def read_sets(
    methods: Mapping[str, Any],
    others: Mapping[str, Any],
    x_o: npt.ArrayLike | None,
    log_weights: Any,
    seed: int,
) -> dict[str, Drawn]:
    """Read the draws under each label, all with one number of parameters."""
    if not isinstance(methods, Mapping) or not isinstance(others, Mapping):
        raise DataError(
            f"expected labels with draws, got {type(others if isinstance(methods, Mapping) else methods).__name__}",
            code="bad-array",
            fix='pass a dictionary: {"NPE": posterior, ...}',
        )
    if not methods:
        raise DataError("no method to draw", code="bad-name", fix='pass {"NPE": draws, ...}')
    both = [label for label in others if label in methods]
    if both:
        raise DataError(f"two sets of draws are called {both[0]!r}", code="bad-name", fix="label= names the first")
    weights = log_weights if isinstance(log_weights, Mapping) else dict.fromkeys(methods, log_weights)
    for label in weights:
        if label not in methods:
            raise DataError(
                f"log weights for {label!r}, but the methods are {', '.join(methods)}",
                code="bad-name",
                why="a posterior without its weights is another posterior",
                fix="give both the same label",
            )
    given = {**methods, **others}
    sets = {k: read_drawn(v, x_o, log_weights=weights.get(k), seed=seed, name=k) for k, v in given.items()}
    dim = next(iter(sets.values())).sample.points.shape[1]
    for label, drawn in sets.items():
        if drawn.sample.points.shape[1] != dim:
            found = drawn.sample.points.shape[1]
            raise DataError(f"{label!r} has {found} parameters, others {dim}", code="bad-array")
    return sets


def _bounds_of(prior: Prior | None, drawn: Drawn, i: int) -> tuple[float, float]:
    low, high = prior.bounds if prior is not None else drawn.bounds or (None, None)
    if low is None or high is None:
        return -np.inf, np.inf
    return float(np.asarray(low)[i]), float(np.asarray(high)[i])


def _read_truth(truth: Any, dim: int, names: tuple[str, ...]) -> Array | None:
    if truth is None:
        return None
    if isinstance(truth, Mapping) and set(truth) == set(names):
        truth = [truth[name] for name in names]
    try:
        values = np.asarray(truth, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError(f"truth is not a row of numbers: {truth!r:.60}", code="bad-array") from None
    if len(values) != dim or not np.isfinite(values).all():
        raise DataError(f"truth must be {dim} finite numbers, got {values.tolist()}", code="bad-array")
    return values


def _find_cells(samples: Sequence[Sample], i: int, bounds: tuple[float, float]) -> tuple[float, float]:
    """Find the range of a discrete parameter: all of its values where there are few, else those drawn."""
    if bounds[1] - bounds[0] <= FEW_VALUES:
        return bounds
    low, high = style.find_range(samples, i)
    return max(np.floor(low) - 0.5, bounds[0]), min(np.ceil(high) + 0.5, bounds[1])


def _find_ends(
    samples: Sequence[Sample], i: int, bounds: tuple[float, float], truth: Array | None
) -> tuple[float, float]:
    """Find the range of the draws inside the bounds, wide enough to show the truth where they miss it."""
    low, high = style.find_range(samples, i)
    low, high = max(low, bounds[0]), min(high, bounds[1])
    if truth is None or low <= truth[i] <= high:
        return low, high
    value = float(truth[i])
    margin = 0.04 * (max(high, value) - min(low, value))
    return (value - margin, high) if value < low else (low, value + margin)
