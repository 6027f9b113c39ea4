"""Between the user's numbers and a network's: bounds, weighted standardisation, constant statistics.

A network sees y = (z - centre) / scale in float32, z being theta without bounds; densities come back through
log |d y / d theta|. Where x is only a condition, each statistic is shown twice: standardised, and as its normal
score (its rank in the simulations, on the normal scale), which resolves what a few extreme runs would squeeze
together: +0.05 nat in half the epochs on epidemic runs. Numpy only, so that it can be saved as plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from thrifty.errors import DataError
from thrifty.inference.archive import Arrays, Recipe
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, freeze

Float32 = npt.NDArray[np.float32]
KNOTS = 129  # values per statistic: steps of 0.8 %, finer than 5,000 runs can tell apart in a posterior


@dataclass(frozen=True)
class Affine:
    """y = (value - centre) / scale, elementwise."""

    centre: Array
    scale: Array

    @classmethod
    def of(cls, values: Array, log_weights: Array) -> Affine:
        """Weighted mean and sd of values (n, d); a column without spread keeps scale 1."""
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
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
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        pairs = [_score_knots(column, weights) for column in x.T]
        return cls(freeze(np.stack([a for a, _ in pairs])), freeze(np.stack([b for _, b in pairs])))

    def forward(self, x: Array) -> Array:
        """Scores (n, k) of x (n, k)."""
        columns = zip(x.T, self.knots, self.values, strict=True)
        return np.stack([np.interp(column, a, b) for column, a, b in columns], axis=1)


def _score_knots(column: Array, weights: Array) -> tuple[Array, Array]:
    """At most KNOTS values and their scores; ties share the middle of their step."""
    distinct, inverse = np.unique(column, return_inverse=True)
    mass = np.bincount(inverse, weights, minlength=len(distinct))
    upper = np.cumsum(mass)
    middle = np.clip(upper - mass / 2, 0.5 / len(column), 1 - 0.5 / len(column))
    chosen = np.searchsorted(middle, np.linspace(middle[0], middle[-1], KNOTS))
    chosen = np.unique(np.minimum(chosen, len(distinct) - 1))
    chosen = np.pad(chosen, (0, KNOTS - len(chosen)), mode="edge")
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
    """

    box: BoxTransform
    theta: Affine
    x: Affine
    keep: npt.NDArray[np.bool_]
    event: tuple[int, ...]
    shaped: bool = False
    scores: Scores | None = None

    def encode_theta(self, theta: Array) -> Float32:
        """Parameters as the network sees them."""
        return self.theta.forward(self.box.to_unconstrained(theta)).astype(np.float32)

    def decode_theta(self, y: npt.ArrayLike) -> Array:
        """Back to the user's parameters."""
        return self.box.to_bounded(self.theta.backward(np.asarray(y, dtype=np.float64)))

    def log_volume(self, theta: Array) -> Array:
        """Log |d y / d theta| (n,)."""
        return self.box.log_jacobian_at(theta) - np.log(self.theta.scale).sum()

    def encode_x(self, x: Array) -> Float32:
        """Outputs (n, *event) as the network sees them: (n, inputs), or shaped (n, *event)."""
        kept = x.reshape(len(x), -1)[:, self.keep]
        flat = self.x.forward(kept)
        if self.shaped:
            return flat.reshape(len(x), *self.event).astype(np.float32)
        if self.scores is not None:  # asinh: the identity near 0, a logarithm for the extremes that derail a network
            flat = np.hstack([np.arcsinh(flat), self.scores.forward(kept)])
        return flat.astype(np.float32)

    @property
    def x_volume(self) -> float:
        """Log |d y / d x|, for densities over x."""
        return -float(np.log(self.x.scale).sum())

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
        return {"event": list(self.event), "shaped": self.shaped}, arrays

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, dim: int) -> Frame:
        """Rebuild the frame from what `to_parts` returned, after checking every shape."""
        event, keep = tuple(int(n) for n in recipe["event"]), arrays["keep"]
        if keep.dtype != np.bool_ or keep.shape != (int(np.prod(event)),):
            raise DataError(f"frame keep has type {keep.dtype} and shape {keep.shape}", code="bad-file")
        k = int(keep.sum())
        scores = Scores(arrays["knots"], arrays["scores"]) if "knots" in arrays else None
        if scores is not None and not scores.knots.shape == scores.values.shape == (k, KNOTS):
            raise DataError(f"normal scores have shape {scores.knots.shape}, expected {(k, KNOTS)}", code="bad-file")
        for label in ("box_low", "box_high"):
            _check_column(arrays, label, dim)
        return cls(
            box=BoxTransform(arrays["box_low"], arrays["box_high"]),
            theta=Affine(*(_check_column(arrays, f"theta_{label}", dim) for label in ("centre", "scale"))),
            x=Affine(*(_check_column(arrays, f"x_{label}", k) for label in ("centre", "scale"))),
            keep=keep,
            event=event,
            shaped=bool(recipe["shaped"]),
            scores=scores,
        )


def _check_column(arrays: Arrays, label: str, size: int) -> Array:
    """Return an array of the frame; centres and scales must be finite, scales positive."""
    values = arrays[label]
    if values.shape != (size,):
        raise DataError(f"frame {label} has shape {values.shape}, expected {(size,)}", code="bad-file")
    bounds = label.startswith("box")
    if not bounds and (not np.isfinite(values).all() or (label.endswith("scale") and not (values > 0).all())):
        raise DataError(f"frame {label} holds impossible numbers: {values.tolist()}"[:200], code="bad-file")
    return values


def measure_frame(
    theta: Array,
    x: Array,
    log_weights: Array,
    *,
    box: BoxTransform,
    keep: npt.NDArray[np.bool_],
    shaped: bool = False,
    scores: bool = False,
) -> Frame:
    """The frame of a table of pairs: theta (n, p), x (n, *event), weights as used in training."""
    keep = np.ones_like(keep) if shaped else keep
    flat = x.reshape(len(x), -1)[:, keep]
    return Frame(
        box=box,
        theta=Affine.of(box.to_unconstrained(theta), log_weights),
        x=Affine.of(flat, log_weights),
        keep=keep,
        event=tuple(x.shape[1:]),
        shaped=shaped,
        scores=Scores.of(flat, log_weights) if scores and not shaped else None,
    )
