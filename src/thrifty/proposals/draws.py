"""Parameters with weights, and what makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, count_things, format_number
from thrifty.errors import DataError
from thrifty.named import read_table
from thrifty.types import Array, Prior, Weighting, as_names, as_rows, freeze, set_fields
from thrifty.weights import as_log_weights, ess

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self


@dataclass(frozen=True, eq=False, repr=False)
class Draws(Displayed):
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
        table, own = read_table(self.theta, "theta")
        theta = freeze(as_rows(table))
        if not np.isfinite(theta).all():
            row = int(np.flatnonzero(~np.isfinite(theta).all(1))[0])
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="bad-array")
        try:
            component = None if self.component is None else freeze(self.component, np.int64)
        except (TypeError, ValueError):
            raise DataError(f"component is no array of numbers: {self.component!r:.60}", code="bad-array") from None
        if component is not None and component.shape != (len(theta),):
            raise DataError(f"component has shape {component.shape}, expected ({len(theta)},)", code="bad-array")
        weights, names = (
            as_log_weights(self.log_weights, len(theta)),
            as_names(self.names or own, theta.shape[1], "names"),
        )
        set_fields(self, theta=theta, log_weights=weights, names=names, component=component)

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.theta.shape[1]

    def _card(self) -> Card:
        names = self.names or tuple(f"theta_{i + 1}" for i in range(self.dim))
        effective = ess(self.log_weights) if len(self) else 0.0
        columns = zip(names, self.theta.T, strict=True) if len(self) else ()
        rows = [(name, *map(format_number, np.quantile(values, [0, 0.5, 1]))) for name, values in columns]
        title = f"{count_things(len(self), 'weighted draw')} that count as {effective:,.0f}"
        return Card(title, header=("", "lowest", "median", "highest"), rows=rows)

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
