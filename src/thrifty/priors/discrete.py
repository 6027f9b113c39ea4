"""Priors over whole numbers and over categories. A category is a code, 0, 1, ..., with a label.

In tables, files and simulators a category is its code, a number like any other; the labels are shown in summaries and
plots. Probabilities take the place of densities: `log_prob` of a value that the prior cannot take is -inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.errors import PriorError
from thrifty.priors.families import Box, Named, as_generator, as_parameter_names
from thrifty.types import Array, Levels, as_rows, freeze, set_fields

MAX_WHOLE = 2**53  # beyond, not every whole number is a float


@dataclass(frozen=True, eq=False, repr=False)
class Integers(Box):
    """Independent whole numbers from low to high, both included, all equally probable.

    Example:
        >>> die = Integers(1, 6, names=["eyes"])
        >>> np.exp(die.log_prob([[6.0], [6.5], [7.0]])).round(4).tolist()
        [0.1667, 0.0, 0.0]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, *ends in zip(self.names, self.low.tolist(), self.high.tolist(), strict=True):
            if any(end != round(end) or abs(end) > MAX_WHOLE for end in ends):
                raise PriorError(
                    f"prior {name!r}: the ends of integers must be whole numbers, got {ends[0]:g} and {ends[1]:g}",
                    code="bad-prior",
                )

    @property
    def levels(self) -> Levels:
        """Whole numbers."""
        return ((),) * self.dim

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw (n, p)."""
        ends = self.low.astype(np.int64), self.high.astype(np.int64)
        return as_generator(rng, n).integers(*ends, (n, self.dim), endpoint=True).astype(np.float64)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Minus the log of the number of values; -inf elsewhere."""
        theta = as_rows(theta, dim=self.dim, names=self.names)
        inside = self._contains(theta) & (theta == np.round(theta)).all(1)
        return np.where(inside, -np.log(self.high - self.low + 1).sum(), -np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(Named):
    """One category of several, as its code 0, 1, ..., k - 1.

    Args:
        probabilities: Of each category (k,), above 0 and with sum 1.
        labels: One text for each category; "0", "1", ... when left out.
        names: Name of the parameter.

    Example:
        >>> model = Categorical([0.25, 0.75], labels=["gamma", "lognormal"], names=["model"])
        >>> model.sample(4, np.random.default_rng(0))[:, 0].tolist(), model.labels
        ([1.0, 1.0, 0.0, 0.0], ('gamma', 'lognormal'))
    """

    probabilities: Array
    labels: Sequence[str] | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = as_parameter_names(self.names, 1)
        try:
            shares = np.asarray(self.probabilities, dtype=np.float64)
        except (TypeError, ValueError):
            shares = np.empty(0)
        if shares.ndim != 1 or len(shares) < 2 or not (shares > 0).all() or not abs(shares.sum() - 1) < 1e-9:
            raise PriorError(
                f"prior {names[0]!r}: probabilities must be two or more numbers above 0 with sum 1,"
                f" got {self.probabilities!r:.80}",
                code="bad-prior",
                fix="divide them by their sum; leave out a category that cannot be",
            )
        labels = tuple(map(str, range(len(shares)) if self.labels is None else self.labels))
        if len(labels) != len(shares) or len(set(labels)) < len(labels) or not all(map(str.strip, labels)):
            raise PriorError(
                f"prior {names[0]!r}: {len(shares)} categories need as many different labels, got {labels!r:.80}",
                code="bad-prior",
            )
        set_fields(self, names=names, probabilities=freeze(shares / shares.sum()), labels=labels)

    def _describe(self) -> Iterable[str]:
        shares = zip(self.labels or (), self.probabilities, strict=True)
        return (", ".join(f"{label} {share:.3g}" for label, share in shares),)

    @property
    def levels(self) -> Levels:
        """The labels."""
        return (tuple(self.labels or ()),)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The first code and the last."""
        return np.zeros(1), np.full(1, len(self.probabilities) - 1.0)

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw codes (n, 1)."""
        places = np.searchsorted(np.cumsum(self.probabilities)[:-1], as_generator(rng, n).random(n), "right")
        return places.astype(np.float64)[:, None]

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Log probability of each code; -inf where there is none."""
        codes = as_rows(theta, dim=1, names=self.names)[:, 0]
        known = (codes >= 0) & (codes < len(self.probabilities)) & (codes == np.round(codes))
        log_share = np.log(self.probabilities)[np.where(known, codes, 0).astype(np.intp)]
        return np.where(known, log_share, -np.inf)
