"""Between the user's numbers and a network's: bounds, weighted standardisation, constant statistics.

A network sees y = (z - centre) / scale in float32, z being theta without bounds; densities come back through
log |d y / d theta|. Numpy only, so that it can be saved as plain arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, frozen

Float32 = npt.NDArray[np.float32]


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
        return cls(frozen(centre), frozen(np.where(scale > 0, scale, 1.0)))

    def forward(self, values: Array) -> Array:
        """Standardise."""
        return (values - self.centre) / self.scale

    def backward(self, y: Array) -> Array:
        """Undo it."""
        return self.centre + self.scale * y


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
    """

    box: BoxTransform
    theta: Affine
    x: Affine
    keep: npt.NDArray[np.bool_]
    event: tuple[int, ...]
    shaped: bool = False

    def theta_in(self, theta: Array) -> Float32:
        """Parameters as the network sees them."""
        return self.theta.forward(self.box.to_unconstrained(theta)).astype(np.float32)

    def theta_out(self, y: npt.ArrayLike) -> Array:
        """Back to the user's parameters."""
        return self.box.to_bounded(self.theta.backward(np.asarray(y, dtype=np.float64)))

    def log_volume(self, theta: Array) -> Array:
        """Log |d y / d theta| (n,)."""
        return self.box.log_jacobian_at(theta) - np.log(self.theta.scale).sum()

    def x_in(self, x: Array) -> Float32:
        """Outputs (n, *event) as the network sees them: (n, k), or shaped (n, *event)."""
        flat = self.x.forward(x.reshape(len(x), -1)[:, self.keep]).astype(np.float32)
        return flat.reshape(len(x), *self.event) if self.shaped else flat

    @property
    def x_volume(self) -> float:
        """Log |d y / d x|, for densities over x."""
        return -float(np.log(self.x.scale).sum())

    @property
    def width(self) -> int:
        """Number of statistics the network sees."""
        return len(self.x.centre)


def measure_frame(
    theta: Array,
    x: Array,
    log_weights: Array,
    *,
    box: BoxTransform,
    keep: npt.NDArray[np.bool_],
    shaped: bool = False,
) -> Frame:
    """The frame of a table of pairs: theta (n, p), x (n, *event), weights as used in training."""
    keep = np.ones_like(keep) if shaped else keep
    return Frame(
        box=box,
        theta=Affine.of(box.to_unconstrained(theta), log_weights),
        x=Affine.of(x.reshape(len(x), -1)[:, keep], log_weights),
        keep=keep,
        event=tuple(x.shape[1:]),
        shaped=shaped,
    )


def free_box(dim: int) -> BoxTransform:
    """No bounds at all."""
    return BoxTransform(np.full(dim, -np.inf), np.full(dim, np.inf))
