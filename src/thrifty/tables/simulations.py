"""Runs with their weights: the one table that inference sees.

The ways of a table in and out: files and other tools. Each is one call into the module that does it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from thrifty.types import Array, Weighting

if TYPE_CHECKING:  # pragma: no cover
    import arviz
    import pandas

    from thrifty.tables.sbi_io import SbiTable

    pass


from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from thrifty.errors import DataError, WeightError
from thrifty.types import STATUSES, as_names, as_rows, freeze
from thrifty.weights import as_log_weights, to_log_weights

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self


class Travelling:
    """Reading and writing; `Simulations` is its only heir."""

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        theta: Sequence[str] | str,
        x: Sequence[str] | str | None = None,
        weights: str | None = None,
        cost: str | None = None,
        proposal: Weighting | None = None,
        m: int = 1,
    ) -> Simulations:
        """Runs from a CSV file with a header: see `thrifty.tables.csv_io.from_csv`."""
        from thrifty.tables.csv_io import from_csv

        return from_csv(path, theta=theta, x=x, weights=weights, cost=cost, proposal=proposal, m=m)

    @classmethod
    def from_npz(
        cls,
        path: str | os.PathLike[str],
        *,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
    ) -> Simulations:
        """Runs from an npz file with arrays `theta` and `x`: see `thrifty.tables.npz_io.from_npz`."""
        from thrifty.tables.npz_io import from_npz

        return from_npz(path, weights=weights, proposal=proposal)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame) -> Simulations:
        """The table that `to_pandas` wrote, bit for bit."""
        from thrifty.tables.pandas_io import from_pandas

        return from_pandas(frame)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> Simulations:
        """The table that `to_parquet` wrote, bit for bit."""
        from thrifty.tables.pandas_io import from_parquet

        return from_parquet(path)

    def to_pandas(self: Any) -> pandas.DataFrame:
        """A flat DataFrame: parameters, outputs, `log_weight`, `cost`, `status`, `index`."""
        from thrifty.tables.pandas_io import to_pandas

        return to_pandas(self)

    def to_parquet(self: Any, path: str | os.PathLike[str]) -> None:
        """Write `to_pandas` as parquet."""
        from thrifty.tables.pandas_io import to_parquet

        to_parquet(self, path)

    def to_npz(self: Any, path: str | os.PathLike[str]) -> None:
        """Write plain arrays, without pickle."""
        from thrifty.tables.npz_io import to_npz

        to_npz(self, path)

    def to_dict(self: Any) -> dict[str, Array]:
        """Arrays for BayesFlow, with `sample_weight` of mean 1."""
        from thrifty.tables.pandas_io import to_dict

        return to_dict(self)

    def to_arviz(self: Any) -> arviz.InferenceData:
        """ArviZ data with log weights."""
        from thrifty.tables.pandas_io import to_arviz

        return to_arviz(self)

    def to_sbi(self: Any) -> SbiTable:
        """theta, x and a proposal for sbi's NPE_C."""
        from thrifty.tables.sbi_io import to_sbi

        return to_sbi(self)


@dataclass(frozen=True, eq=False)
class Simulations(Travelling):
    """Parameters, outputs, costs and weights of a set of runs: all that inference sees.

    Attributes:
        theta: Parameters (n, p).
        x: Outputs (n, *event), or (n, m, *event) when `m` > 1; NaN where a run failed.
        log_weights: log prior/proposal (n,), up to one constant.
        cost: Measured cost of each run (n,), NaN where unknown.
        status: "ok" or how the run failed (n,).
        index: Plan index of each run (n,).
        m: Realisations per theta (the paper's m); each pair counts weight/m.
        names, x_names: Names of parameters and statistics, or empty.
        unit: Unit of cost.
        proposal: The weighting behind `log_weights`, where known.

    Example:
        >>> sims = Simulations.from_arrays(theta=[[1.0], [2.0]], x=[[0.1, 0.2], [0.3, np.nan]])
        >>> sims.status.tolist(), sims.failed_mass
        (['ok', 'invalid'], 0.5)
    """

    theta: Array
    x: Array
    log_weights: Array = None  # type: ignore[assignment]
    cost: Array = None  # type: ignore[assignment]
    status: npt.NDArray[np.str_] = None  # type: ignore[assignment]
    index: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    m: int = 1
    names: tuple[str, ...] = ()
    x_names: tuple[str, ...] = ()
    unit: str = "s"
    proposal: Weighting | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        theta = freeze(as_rows(self.theta))
        try:
            x = np.asarray(self.x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"x is not a table of numbers: {error}", code="bad-array") from None
        n = len(theta)
        if not np.isfinite(theta).all():
            row = int(np.flatnonzero(~np.isfinite(theta).all(1))[0])
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="bad-array")
        if not isinstance(self.m, int | np.integer) or isinstance(self.m, bool):
            raise DataError(f"m must be a whole number, got {self.m!r}", code="bad-setting")
        x = x[:, None] if x.ndim == 1 and len(x) == n else x
        if x.ndim < 2 or len(x) != n:
            raise DataError(
                f"x has shape {x.shape}, but theta has {n} rows", code="bad-array", fix="one row of x per row of theta"
            )
        if self.m < 1 or (self.m > 1 and (x.ndim < 3 or x.shape[1] != self.m)):
            raise DataError(
                f"m = {self.m} realisations per theta, but x has shape {x.shape}",
                code="bad-array",
                fix="give x as (n, m, *event)",
            )
        finite = np.isfinite(x.reshape(n, -1)).all(1) if n else np.zeros(0, bool)
        status = np.where(finite, "ok", "invalid") if self.status is None else np.asarray(self.status, dtype=np.str_)
        unknown = set(status.tolist()) - set(STATUSES)
        if status.shape != (n,) or unknown:
            raise DataError(f"status must be ({n},) of {', '.join(STATUSES)}; got {sorted(unknown)}", code="bad-array")
        status = np.where((status == "ok") & ~finite, "invalid", status)
        cost = np.full(n, np.nan) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        index = np.arange(n) if self.index is None else np.asarray(self.index, dtype=np.int64)
        for label, column in (("cost", cost), ("index", index)):
            if column.shape != (n,):
                raise DataError(f"{label} has shape {column.shape}, expected ({n},)", code="bad-array")
        event = x.shape[2:] if self.m > 1 else x.shape[1:]
        names = as_names(self.names, theta.shape[1], "names")
        x_names = as_names(self.x_names, int(np.prod(event)), "x_names")
        for label, value in {
            "theta": theta,
            "x": freeze(x),
            "log_weights": as_log_weights(self.log_weights, n),
            "cost": freeze(cost),
            "status": freeze(status, np.str_),
            "index": freeze(index, np.int64),
            "names": names,
            "x_names": x_names,
        }.items():
            object.__setattr__(self, label, value)

    @classmethod
    def from_arrays(
        cls,
        *,
        theta: npt.ArrayLike,
        x: npt.ArrayLike,
        log_weights: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
        cost: npt.ArrayLike | None = None,
        m: int = 1,
        names: Sequence[str] = (),
        x_names: Sequence[str] = (),
    ) -> Self:
        """A table from arrays made elsewhere; weights by value, or from a known proposal.

        Raises:
            WeightError: Weights given twice, negative, NaN or of the wrong length.
        """
        given = [v is not None for v in (log_weights, weights, proposal)]
        if sum(given) > 1:
            raise WeightError(
                "weights given twice: pass one of log_weights, weights, proposal",
                code="conflicting-settings",
                why="they would be applied twice",
            )
        if weights is not None:
            log_weights = to_log_weights(weights)
        if proposal is not None:
            log_weights = proposal.log_weight(as_rows(theta))
        return cls(
            theta=as_rows(theta),
            x=x,  # type: ignore[arg-type]
            log_weights=log_weights,  # type: ignore[arg-type]
            cost=cost,  # type: ignore[arg-type]
            m=m,
            names=tuple(names),
            x_names=tuple(x_names),
            proposal=proposal,
        )

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, which: slice | npt.NDArray[Any] | Sequence[int]) -> Self:
        per_row = ("theta", "x", "log_weights", "cost", "status", "index")
        return replace(self, **{label: getattr(self, label)[which] for label in per_row})

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.theta.shape[1]

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Which runs finished with finite output (n,)."""
        return self.status == "ok"

    @property
    def failed_mass(self) -> float:
        """Share of prior mass whose runs failed: sum of failed weights over sum of weights."""
        if not len(self):
            return 0.0
        weights = np.exp(self.log_weights - self.log_weights.max())
        return float(weights[~self.ok].sum() / weights.sum())

    def valid(self) -> Self:
        """Only the runs that finished with finite output."""
        return self if self.ok.all() else self[self.ok]

    def pairs(self) -> tuple[Array, Array, Array]:
        """(theta, x, log_weights) with one row per pair: each of the m counts weight/m."""
        if self.m == 1:
            return self.theta, self.x, self.log_weights
        x = self.x.reshape(len(self) * self.m, *self.x.shape[2:])
        return (
            np.repeat(self.theta, self.m, axis=0),
            x,
            np.repeat(self.log_weights - np.log(self.m), self.m),
        )

    def reweighted(self, log_weights: npt.ArrayLike, proposal: Weighting | None = None) -> Self:
        """The same runs under other weights."""
        return replace(self, log_weights=log_weights, proposal=proposal)  # type: ignore[arg-type]

    def columns(self) -> Mapping[str, Any]:
        """Field name to value, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
