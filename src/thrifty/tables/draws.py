"""Parameters with weights, and what a simulator may return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.types import Array, Weighting, checked_log_weights, checked_names, frozen, rows

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self


@dataclass(frozen=True)
class Output:
    """What a simulator may return instead of numbers: its output and the cost that it counted itself.

    Attributes:
        x: Numbers, or an array of them.
        cost: Cost of this run in the simulator's own unit (events, euros, bytes); None leaves it to the clock.

    Example:
        >>> Output([1.0, 2.0], cost=17).cost
        17
    """

    x: Any
    cost: float | None = None


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
        theta = frozen(rows(self.theta))
        if not np.isfinite(theta).all():
            row = int(np.flatnonzero(~np.isfinite(theta).all(1))[0])
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="bad-array")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "log_weights", checked_log_weights(self.log_weights, len(theta)))
        object.__setattr__(self, "names", checked_names(self.names, theta.shape[1], "names"))
        if self.component is not None:
            if np.shape(self.component) != (len(theta),):
                raise DataError(
                    f"component has shape {np.shape(self.component)}, expected ({len(theta)},)", code="bad-array"
                )
            object.__setattr__(self, "component", frozen(self.component, np.int64))

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
