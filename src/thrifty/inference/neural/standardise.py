"""The map between the user's numbers and a network's: bounds, weighted standardisation, constant statistics.

A network sees y = (z - centre) / scale in float32, z being theta without bounds; densities come back through
log |d y / d theta|. Where x is only a condition, each statistic is shown twice: standardised, and as its normal
score (its rank in the simulations, on the normal scale), which resolves what a few extreme runs would squeeze
together: +0.05 nat in half the epochs on epidemic runs. Where x is modelled, outputs with ties are seen as normal
scores of cells (`cells`), and positive outputs that span decades as asinh(x / s), a logarithm that is defined at every
observation: normals in x itself cannot follow the edge at 0 (+0.03 nat on epidemic runs). Numpy only, so that it can
be saved as plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from thrifty.errors import DataError
from thrifty.inference.archive import Arrays, Recipe, describe_levels, read_levels
from thrifty.inference.neural.cells import Cells
from thrifty.inference.neural.prepare import MIN_LOG_SCALE_RATIO, Rows
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, freeze
from thrifty.weights import normalise

Float32 = npt.NDArray[np.float32]
DECADE_SHARES = (0.01, 0.99)  # quantiles whose ratio is compared with MIN_LOG_SCALE_RATIO; the lower one is s
SCORE_KNOTS = 129  # values per statistic: steps of 0.8 %, finer than 5,000 runs can resolve in a posterior


@dataclass(frozen=True)
class Affine:
    """y = (value - centre) / scale, elementwise."""

    centre: Array
    scale: Array

    @classmethod
    def of(cls, values: Array, log_weights: Array) -> Affine:
        """Weighted mean and sd of values (n, d); a column without spread keeps scale 1."""
        weights = normalise(log_weights)
        centre = weights @ values
        scale = np.sqrt(weights @ (values - centre) ** 2)
        return cls(freeze(centre), freeze(np.where(scale > 0, scale, 1.0)))

    def forward(self, values: Array) -> Array:
        """Standardise."""
        return (values - self.centre) / self.scale

    def backward(self, y: Array) -> Array:
        """Undo it."""
        return self.centre + self.scale * y


@dataclass(frozen=True)
class Scores:
    """Normal scores: the standard normal quantile of each statistic's weighted distribution function.

    Attributes:
        knots: Increasing values (k, q) of each statistic.
        values: Their scores (k, q); linear in between, flat beyond the last.
    """

    knots: Array
    values: Array

    @classmethod
    def of(cls, x: Array, log_weights: Array) -> Scores:
        """Read off x (n, k)."""
        weights = normalise(log_weights)
        pairs = [_score_knots(column, weights) for column in x.T]
        return cls(freeze(np.stack([a for a, _ in pairs])), freeze(np.stack([b for _, b in pairs])))

    def forward(self, x: Array) -> Array:
        """Scores (n, k) of x (n, k)."""
        columns = zip(x.T, self.knots, self.values, strict=True)
        return np.stack([np.interp(column, a, b) for column, a, b in columns], axis=1)


def _score_knots(column: Array, weights: Array) -> tuple[Array, Array]:
    """At most SCORE_KNOTS values and their scores; ties share the middle of their step."""
    distinct, inverse = np.unique(column, return_inverse=True)
    mass = np.bincount(inverse, weights, minlength=len(distinct))
    upper = np.cumsum(mass)
    middle = np.clip(upper - mass / 2, 0.5 / len(column), 1 - 0.5 / len(column))
    chosen = np.searchsorted(middle, np.linspace(middle[0], middle[-1], SCORE_KNOTS))
    chosen = np.unique(np.minimum(chosen, len(distinct) - 1))
    chosen = np.pad(chosen, (0, SCORE_KNOTS - len(chosen)), mode="edge")
    return distinct[chosen], ndtri(middle[chosen])


@dataclass(frozen=True)
class Frame:
    """How theta (n, p) and x (n, *event) become a network's inputs.

    Attributes:
        box: The bounds that are transformed away; infinite ends where they are not.
        theta: Standardisation of the unbounded parameters.
        x: Standardisation of the flat statistics that vary, (k,).
        keep: Which of the flat statistics vary, (d,).
        event: Shape of one output.
        shaped: Give x its shape back (an embedding wants it) instead of a flat vector.
        scores: Normal scores shown beside the statistics, or None.
        cells: The cells of the statistics with ties, where x is modelled, or None.
        decades: s of the statistics (k,) that are seen as asinh(x / s); 0 elsewhere. None where x is not modelled.
    """

    box: BoxTransform
    theta: Affine
    x: Affine
    keep: npt.NDArray[np.bool_]
    event: tuple[int, ...]
    shaped: bool = False
    scores: Scores | None = None
    cells: Cells | None = None
    decades: Array | None = None

    def encode_theta(self, theta: Array) -> Float32:
        """Parameters as the network sees them."""
        return self.theta.forward(self.box.to_unconstrained(theta)).astype(np.float32)

    def encode_condition(self, theta: Array) -> Float32:
        """Parameters (n, p) as a network sees them that models x: each category is a number 0 or 1 of its own."""
        y = self.encode_theta(theta)
        if not any(self.box.levels):
            return y
        columns = zip(y.T, theta.T, self.box.levels, strict=True)
        parts = [
            (codes[:, None] == np.arange(len(level))).astype(np.float32) if level else column[:, None]
            for column, codes, level in columns
        ]
        return np.hstack(parts)

    @property
    def condition_size(self) -> int:
        """How many numbers `encode_condition` makes of one theta."""
        return sum(len(level) if level else 1 for level in self.box.levels or (None,) * self.box.dim)

    @property
    def states(self) -> tuple[int, ...]:
        """How many values each parameter (p,) has where theta is modelled; 0 for numbers. Empty where all are."""
        if not self.box.levels:
            return ()
        width = np.where(self.box.discrete, self.box.high - self.box.low + 1, 0)
        return tuple(int(count) for count in width)

    def decode_theta(self, y: npt.ArrayLike) -> Array:
        """Back to the user's parameters."""
        return self.box.to_bounded(self.theta.backward(np.asarray(y, dtype=np.float64)))

    def theta_slopes(self, theta: Array) -> Array:
        """D y / d theta (n, p) of each parameter."""
        return 1 / (self.box.slopes(self.box.to_unconstrained(theta)) * self.theta.scale)

    def log_volume(self, theta: Array) -> Array:
        """Log |d y / d theta| (n,)."""
        return self.box.log_jacobian_at(theta) - np.log(self.theta.scale).sum()

    def encode_x(self, x: Array) -> Float32:
        """Outputs (n, *event) as the network sees them: (n, inputs), or shaped (n, *event)."""
        kept = x.reshape(len(x), -1)[:, self.keep]
        flat = self.x.forward(_compress(kept, self.decades))
        if self.cells is not None:
            flat[:, self.cells.which] = self.cells.encode(kept[:, self.cells.which])
        if self.shaped:
            return flat.reshape(len(x), *self.event).astype(np.float32)
        if self.scores is not None:  # asinh: the identity near 0, a logarithm for the extremes that derail a network
            flat = np.hstack([np.arcsinh(flat), self.scores.forward(kept)])
        return flat.astype(np.float32)

    def log_x_volume(self, x: Array) -> Array:
        """Log |d y / d x| (n,), for densities over x (n, *event); of values in cells, for their probability."""
        volume = np.full(len(x), -float(np.log(self.x.scale).sum()))
        kept = x.reshape(len(x), -1)[:, self.keep]
        if self.decades is not None:
            bent = self.decades > 0
            volume -= np.log(np.hypot(kept[:, bent], self.decades[bent])).sum(1)
        if self.cells is None:
            return volume
        tied = self.cells.which
        return volume + float(np.log(self.x.scale[tied]).sum()) + self.cells.log_volume(kept[:, tied])

    @property
    def inputs(self) -> tuple[int, ...]:
        """Shape of one output as the network sees it."""
        return self.event if self.shaped else (len(self.x.centre) * (1 if self.scores is None else 2),)

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the frame."""
        arrays = {"box_low": self.box.low, "box_high": self.box.high, "keep": self.keep}
        arrays |= {"theta_centre": self.theta.centre, "theta_scale": self.theta.scale}
        arrays |= {"x_centre": self.x.centre, "x_scale": self.x.scale}
        if self.scores is not None:
            arrays |= {"knots": self.scores.knots, "scores": self.scores.values}
        arrays |= {} if self.cells is None else self.cells.to_arrays()
        arrays |= {} if self.decades is None else {"decades": self.decades}
        return {"event": list(self.event), "shaped": self.shaped} | describe_levels(self.box.levels), arrays

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, dim: int) -> Frame:
        """Rebuild the frame from what `to_parts` returned, after checking every shape and scale."""
        event, keep = tuple(int(n) for n in recipe["event"]), arrays["keep"]
        k = int(keep.sum())
        sizes = {"box_low": dim, "box_high": dim, "theta_centre": dim, "theta_scale": dim, "x_centre": k, "x_scale": k}
        shapes = {label: (size,) for label, size in sizes.items()} | {"keep": (int(np.prod(event)),)}
        if "knots" in arrays:
            shapes |= {"knots": (k, SCORE_KNOTS), "scores": (k, SCORE_KNOTS)}
        if "decades" in arrays:  # older files have none
            shapes |= {"decades": (k,)}
        for label, shape in shapes.items():
            values = arrays[label]
            bad = label.endswith(("centre", "scale", "decades")) and not np.isfinite(values).all()
            bad = bad or (label == "decades" and not (values >= 0).all())
            bad = bad or (label.endswith("scale") and not (values > 0).all())
            if bad or values.shape != shape or (label == "keep") != (values.dtype == np.bool_):
                raise DataError(f"frame {label} {values.shape} is not {shape} of valid numbers", code="bad-file")
        return cls(
            box=BoxTransform(arrays["box_low"], arrays["box_high"], read_levels(recipe, dim)),
            theta=Affine(arrays["theta_centre"], arrays["theta_scale"]),
            x=Affine(arrays["x_centre"], arrays["x_scale"]),
            keep=keep,
            event=event,
            shaped=bool(recipe["shaped"]),
            scores=Scores(arrays["knots"], arrays["scores"]) if "knots" in arrays else None,
            cells=Cells.from_arrays(arrays, k),
            decades=arrays.get("decades"),
        )


def measure_frame(
    rows: Rows,
    box: BoxTransform,
    *,
    shaped: bool = False,
    padded: bool = False,
    scores: bool = False,
    cells: bool = False,
    codes: bool = False,
) -> Frame:
    """Measure the frame of a table of pairs, with the weights as used in training; padded: see `SequenceEmbedding`.

    With `codes` discrete parameters are counted from 0, for a network that models them; `padded` series are those of
    `SequenceEmbedding`.
    """
    keep = np.ones_like(rows.keep) if shaped else rows.keep
    flat = rows.x.reshape(len(rows.x), -1)[:, keep]
    found = Cells.of(flat, rows.log_weights) if cells else None
    decades = _find_decades(flat, found) if cells else None
    theta = Affine.of(box.to_unconstrained(rows.theta), rows.log_weights)
    if codes and box.levels:
        theta = Affine(np.where(box.discrete, box.low, theta.centre), np.where(box.discrete, 1.0, theta.scale))
    return Frame(
        box=box,
        theta=theta,
        x=_measure_series(rows.x, rows.log_weights)
        if padded
        else Affine.of(_compress(flat, decades), rows.log_weights),
        keep=keep,
        event=tuple(rows.x.shape[1:]),
        shaped=shaped,
        scores=Scores.of(flat, rows.log_weights) if scores and not shaped else None,
        cells=found,
        decades=decades,
    )


def measure_spread(rows: Rows, *, padded: bool = False) -> Array:
    """Weighted sd (d,) of each flat statistic of pairs; 0 where it never varies, or only says where a series ends."""
    flat = rows.x.reshape(len(rows.x), -1)
    spread = np.where(rows.keep, Affine.of(flat, rows.log_weights).scale, 0.0)
    if padded:
        spread.reshape(rows.x.shape[1:])[:, -1] = 0.0
    return spread


def check_series(x: Array) -> None:
    """Refuse series x (n, t, c + 1) whose last column does not say where they end.

    Raises:
        DataError: bad-observation.
    """
    if x.ndim != 3 or not np.isin(x[..., -1], (0.0, 1.0)).all() or not (x[:, 0, -1] == 1).all():
        raise DataError(
            f"a series for th.SequenceEmbedding has the shape (t, c + 1) with 1 for points and 0 behind the end in its"
            f" last column; these outputs of shape {x.shape[1:]} have not",
            code="bad-observation",
            fix="let the simulator return th.SequenceEmbedding.pad(series, length), and pad the observation alike",
        )


def _measure_series(x: Array, log_weights: Array) -> Affine:
    """Standardise series x (n, t, c + 1) by mean and sd of all their points, and leave the last column as it is."""
    check_series(x)
    there = normalise(log_weights)[:, None] * x[..., -1]
    share = (there / there.sum())[..., None]
    centre = (share * x).sum((0, 1))
    scale = np.sqrt((share * (x - centre) ** 2).sum((0, 1)))
    centre[-1], scale[-1] = 0.0, 1.0
    t = x.shape[1]
    return Affine(freeze(np.tile(centre, t)), freeze(np.tile(np.where(scale > 0, scale, 1.0), t)))


def _find_decades(x: Array, cells: Cells | None) -> Array:
    """Return s (k,) of the positive columns of x (n, k) without ties that span decades; 0 for the others."""
    low, high = np.quantile(x, DECADE_SHARES, axis=0)
    wide = (x > 0).all(0) & (high > MIN_LOG_SCALE_RATIO * low)
    return freeze(np.where(wide if cells is None else wide & ~cells.which, low, 0.0))


def _compress(x: Array, decades: Array | None) -> Array:
    """Return x (n, k) with asinh(x / s) in the columns that span decades."""
    if decades is None or not decades.any():
        return x
    wide = decades > 0
    out = x.copy()
    out[:, wide] = np.arcsinh(x[:, wide] / decades[wide])
    return out
