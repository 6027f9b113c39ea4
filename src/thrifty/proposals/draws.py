"""Parameters with weights, and what makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.types import Array, Prior, Weighting, as_names, as_rows, freeze
from thrifty.weights import as_log_weights

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self


@dataclass(frozen=True, eq=False)
class Draws:
    """Parameters with the log weights that restore the prior.

    Attributes:
        theta: Parameters (n, p).
        log_weights: log prior/proposal (n,), up to one constant; zeros when left out.
        names: Parameter names, or empty.
        component: Which component of a mixture each draw came from (n,), or None.
        proposal: The weighting that made the draws, where known: `log_weight` at any theta.

    Example:
        >>> draws = Draws(theta=[[1.0], [2.0]], log_weights=[0.0, 0.7])
        >>> len(draws), draws.dim
        (2, 1)
    """

    theta: Array
    log_weights: Array = None  # type: ignore[assignment]
    names: tuple[str, ...] = ()
    component: npt.NDArray[np.int64] | None = None
    proposal: Weighting | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        theta = freeze(as_rows(self.theta))
        if not np.isfinite(theta).all():
            row = int(np.flatnonzero(~np.isfinite(theta).all(1))[0])
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="bad-array")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "log_weights", as_log_weights(self.log_weights, len(theta)))
        object.__setattr__(self, "names", as_names(self.names, theta.shape[1], "names"))
        if self.component is not None:
            if np.shape(self.component) != (len(theta),):
                raise DataError(
                    f"component has shape {np.shape(self.component)}, expected ({len(theta)},)", code="bad-array"
                )
            object.__setattr__(self, "component", freeze(self.component, np.int64))

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.theta.shape[1]

    def __getitem__(self, which: slice | npt.NDArray[Any] | Sequence[int]) -> Self:
        if isinstance(which, int | np.integer):
            raise DataError(
                f"a table is sliced, not indexed by {which}", code="bad-array", fix=f"draws[{which}:{which} + 1]"
            )
        component = None if self.component is None else self.component[which]
        return replace(self, theta=self.theta[which], log_weights=self.log_weights[which], component=component)


class Proposal(Weighting, Protocol):
    """A weighting that can also be sampled."""

    @property
    def prior(self) -> Prior:
        """The distribution that the weights restore."""
        ...

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n weighted parameters."""
        ...
