"""Cells for outputs that come in steps or pile up at values: without them a learned density can grow without end.

A value that many runs share is a point of positive probability. A density over x can be as high there as its network
allows: the training loss falls for ever, and the posterior with it. So each such value v is given a cell [l, r], and
the cell its share of probability:

    u = F(l) + (F(r) - F(l)) uniform,      z = ndtri(u),      P(v | theta) = integral of q(z | theta) over the cell

F is the distribution function of the simulations, straight between knots. Over z every cell has a width, and z is
normal over all runs. u is drawn again in each step of training; the density is read in the middle of the cell.

Lattice (counts, rounded numbers): every multiple of the step has a cell, seen or not. Other ties (logarithms of
counts, zero-inflated or clipped outputs): a cell for each tied value, half way to its neighbours. Numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from thrifty.errors import DataError
from thrifty.inference.archive import Arrays
from thrifty.inference.transforms import find_step, is_tied
from thrifty.types import Array, freeze
from thrifty.weights import normalise

MIN_ATOM_SHARE = 0.005  # of the weight on one value; it keeps its own knots, however many there are
CELL_KNOTS = 256  # places where F is known: steps of 0.05 in z, finer than 20,000 runs can tell
MAX_SCORE = 5.0  # beyond, u in single precision is 0 or 1: the middle of a cell is then taken in z
MAX_STEP_ERROR = 1e-6  # of a step: rounding of a number that lies on the lattice
MATCH = 1e-9  # of the spread: as far as a value may be from the tied value that it is


@dataclass(frozen=True)
class Cells:
    """The cells of some columns of x and the map to normal scores.

    Attributes:
        which: Which of the k columns have cells, (k,).
        step: Distance of the lattice (q,); 0 for other ties.
        knots: Places (q, CELL_KNOTS), increasing.
        scores: Normal scores of the knots (q, CELL_KNOTS), increasing.
        tied: Tied values (q, a) of columns without a lattice, increasing, padded with infinity.
        left, right: The ends of their cells (q, a).
    """

    which: npt.NDArray[np.bool_]
    step: Array
    knots: Array
    scores: Array
    tied: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, x: Array, log_weights: Array) -> Cells | None:
        """Find the columns of x (n, k) that need cells, and measure them; None where no column does."""
        which = np.array([is_tied(column) for column in x.T], dtype=np.bool_)
        if not which.any():
            return None
        weights = normalise(log_weights)
        columns = [_measure_column(column, weights) for column in x[:, which].T]
        widest = max(len(column[3]) for column in columns)
        step, knots, scores, tied, left, right = (
            freeze(np.array([_pad(np.atleast_1d(part), widest) if i > 2 else part for part in parts]))
            for i, parts in enumerate(zip(*columns, strict=True))
        )
        return cls(which, step, knots, scores, tied, left, right)

    def encode(self, x: Array) -> Array:
        """Return normal scores (n, q) of the columns x (n, q): of a cell its middle."""
        low, high = self._ends(x)
        with np.errstate(divide="ignore"):
            middle = ndtri((ndtr(low) + ndtr(high)) / 2)
        return np.where(np.maximum(np.abs(low), np.abs(high)) > MAX_SCORE, (low + high) / 2, middle)

    def probabilities(self, x: Array) -> tuple[Array, Array]:
        """Return F(l) and F(r) - F(l), each (n, q): u is drawn between them; the second is 0 outside of cells."""
        low, high = (ndtr(np.clip(end, -MAX_SCORE, MAX_SCORE)) for end in self._ends(x))
        return low, high - low

    def log_volume(self, x: Array) -> Array:
        """Return (n,) what turns a log density over z into log P(v | theta) in cells, and over x elsewhere."""
        low, high = self._ends(x)
        middle = self.encode(x)
        mass = np.where(high > low, ndtr(high) - ndtr(low), 1.0)
        of_cells = np.log(np.maximum(mass, 1e-300)) + 0.5 * middle**2 + 0.5 * np.log(2 * np.pi)
        return np.where(high > low, of_cells, np.log(self._slopes(x))).sum(1)

    def find_off_lattice(self, x: Array) -> npt.NDArray[np.bool_]:
        """Find which columns (q,) of x (n, q) have a value between two steps, which no run can give."""
        from_first = x - self.knots[:, 0] - self.step / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = from_first / self.step
        off = np.abs(steps - np.round(steps)) > MAX_STEP_ERROR
        return np.asarray(((self.step > 0) & off).any(0), dtype=np.bool_)

    def _ends(self, x: Array) -> tuple[Array, Array]:
        """Return the normal scores of the ends of the cells of x (n, q); equal outside of cells."""
        left, right = x.copy(), x.copy()
        for j, column in enumerate(x.T):
            if self.step[j] > 0:
                left[:, j], right[:, j] = column - self.step[j] / 2, column + self.step[j] / 2
                continue
            place = np.searchsorted(self.tied[j], column - MATCH * self._spread(j))
            place = np.minimum(place, len(self.tied[j]) - 1)
            same = np.abs(self.tied[j][place] - column) <= MATCH * self._spread(j)
            left[same, j], right[same, j] = self.left[j][place[same]], self.right[j][place[same]]
        return self._score(left), self._score(right)

    def _spread(self, j: int) -> float:
        return float(self.knots[j, -1] - self.knots[j, 0])

    def _score(self, x: Array) -> Array:
        """Map x (n, q) through the knots; beyond the last one as steep as over all of them."""
        out = np.empty_like(x)
        for j, (column, knots, scores) in enumerate(zip(x.T, self.knots, self.scores, strict=True)):
            beyond = np.minimum(column - knots[0], 0) + np.maximum(column - knots[-1], 0)
            out[:, j] = np.interp(column, knots, scores) + beyond * (scores[-1] - scores[0]) / self._spread(j)
        return out

    def _slopes(self, x: Array) -> Array:
        """Return d z / d x (n, q)."""
        h = 1e-4 * np.array([self._spread(j) for j in range(len(self.step))])
        return np.maximum((self._score(x + h) - self._score(x - h)) / (2 * h), 1e-300)

    def to_arrays(self) -> Arrays:
        """Return the plain arrays that rebuild the cells."""
        return {f"cells_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, k: int) -> Cells | None:
        """Rebuild the cells of k columns from what `to_arrays` returned, after checking shapes and order."""
        if "cells_which" not in arrays:
            return None
        cells = cls(**{field.name: arrays[f"cells_{field.name}"] for field in fields(cls)})
        q = int(cells.which.sum())
        good = cells.which.shape == (k,) and cells.which.dtype == np.bool_ and cells.step.shape == (q,)
        good = good and cells.knots.shape == cells.scores.shape == (q, CELL_KNOTS)
        good = good and cells.tied.shape == cells.left.shape == cells.right.shape and cells.tied.ndim == 2
        good = good and len(cells.tied) == q and bool((cells.step >= 0).all())
        if not good or not all((np.diff(part) >= 0).all() for part in (cells.knots, cells.scores)):
            raise DataError("the cells of the outputs are not increasing numbers", code="bad-file")
        return cells


def _measure_column(column: Array, weights: Array) -> tuple[float, Array, Array, Array, Array, Array]:
    """Return step, knots, scores, and tied values with the ends of their cells."""
    values, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    mass = np.asarray(np.bincount(inverse, weights, minlength=len(values)), dtype=np.float64)
    step = find_step(values)
    between = (values[1:] + values[:-1]) / 2
    left = np.concatenate([[2 * values[0] - between[0]], between])
    right = np.concatenate([between, [2 * values[-1] - between[-1]]])
    if step > 0:
        left, right = values - step / 2, values + step / 2
    knots, scores = _place_knots(left, right, mass, len(column))
    of_cells = (counts > 1) & (step == 0)
    return step, knots, scores, values[of_cells], left[of_cells], right[of_cells]


def _place_knots(left: Array, right: Array, mass: Array, n: int) -> tuple[Array, Array]:
    """Place CELL_KNOTS knots at ends of cells, evenly in z; the gap between two cells counts as half a run."""
    gap = np.concatenate([[0.0], np.where(left[1:] - right[:-1] > 0.25 * (right - left)[1:], 0.5 / n, 0.0)])
    ends = np.cumsum(mass + gap)
    places = np.column_stack([left, right]).ravel()
    shares = np.column_stack([ends - mass, ends]).ravel() / ends[-1]
    scores = ndtri(0.25 / n + (1 - 0.5 / n) * np.clip(shares, 0, 1))
    even = np.searchsorted(scores, np.linspace(scores[0], scores[-1], CELL_KNOTS // 2))
    heavy = np.flatnonzero(mass / ends[-1] >= MIN_ATOM_SHARE)[: CELL_KNOTS // 4]
    chosen = np.unique(np.concatenate([np.minimum(even, len(scores) - 1), 2 * heavy, 2 * heavy + 1]))
    if len(places) <= CELL_KNOTS:
        chosen = np.arange(len(places))
    chosen = np.pad(chosen, (0, CELL_KNOTS - len(chosen)), mode="edge")
    return np.maximum.accumulate(places[chosen]), np.maximum.accumulate(scores[chosen])  # rounding may cross two ends


def _pad(values: Array, length: int) -> Array:
    return np.concatenate([values, np.full(max(length, 1) - len(values), np.inf)])
