"""What users bring (protocols) and what travels between the parts (two frozen tables).

    prior ─► proposal.sample ─► Draws(theta, log_weights)
                                  │ simulate
                                  ▼
                              Simulations(theta, x, cost, log_weights, status, index) ─► method.fit

Only `log_weights` crosses from the cost side to the inference side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, WeightError

if TYPE_CHECKING:  # pragma: no cover
    import os
    from typing import Self

    import arviz
    import pandas

    from thrifty.sbi_bridge import SbiTable

Array = npt.NDArray[np.float64]
Seed = int | None
Status = Literal["ok", "invalid", "error", "crashed", "timeout", "pending"]
STATUSES: tuple[Status, ...] = ("ok", "invalid", "error", "crashed", "timeout", "pending")


@runtime_checkable
class Prior(Protocol):
    """A distribution over parameters: sampled and evaluated row by row."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name per parameter."""
        ...

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        ...

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper end of the support, each (p,), infinite where there is none."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p) parameters."""
        ...

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Normalised log density (n,) of theta (n, p); -inf outside the support."""
        ...


class Cost(Protocol):
    """Expected cost of a run: any callable (n, p) -> (n,), positive and finite."""

    def __call__(self, theta: Array, /) -> Array:
        """Cost of each row."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """g: a positive non-decreasing function of cost, floor and cap inside."""

    def log(self, cost: Array) -> Array:
        """Log g(cost), elementwise."""
        ...

    def floored(self, low: float) -> Penalty:
        """The same penalty with a floor on cost, unless it has one."""
        ...

    @property
    def low(self) -> float | None:
        """Cost below which the penalty is flat."""
        ...


@runtime_checkable
class Weighting(Protocol):
    """Anything that knows the log weight of a parameter, up to one constant."""

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log of prior over proposal density at each row, up to a constant."""
        ...


class Proposal(Weighting, Protocol):
    """A weighting that can also be sampled."""

    @property
    def prior(self) -> Prior:
        """The distribution that the weights restore."""
        ...

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n weighted parameters."""
        ...


class Simulator(Protocol):
    """`simulate(theta, rng) -> numbers`; `rng` may be left out or be `seed`."""

    def __call__(self, theta: Array, /, *args: Any) -> Any:
        """One run."""
        ...


class Posterior(Protocol):
    """What every method's `fit` returns."""

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int) -> Array:
        """Draw (n, p) from the posterior at x_o."""
        ...

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log posterior density (n,)."""
        ...


def rows(values: npt.ArrayLike, name: str = "theta", dim: int | None = None) -> Array:
    """Read values as a float table (n, p); a vector is one column, or one row of `dim` > 1.

    Example:
        >>> rows([1, 2, 3]).shape, rows([1, 2, 3], dim=3).shape
        ((3, 1), (1, 3))
    """
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not a table of numbers: {error}", code="D05", fix="pass an array (n, p)") from None
    if table.ndim == 0:
        table = table.reshape(1, 1)
    if table.ndim == 1:
        one_row = dim is not None and dim > 1 and table.shape[0] == dim
        table = table[None, :] if one_row else table[:, None]
    if table.ndim != 2 or (dim is not None and table.shape[1] != dim):
        expected = "(n, p)" if dim is None else f"(n, {dim})"
        raise DataError(
            f"{name} has shape {np.shape(values)}, expected {expected}",
            code="D06",
            fix="one row per run, one column per parameter",
        )
    return table


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """A read-only copy: tables never change under their owner."""
    copy = np.array(array, dtype=dtype)
    copy.setflags(write=False)
    return copy


def _checked_log_weights(log_weights: npt.ArrayLike | None, n: int) -> Array:
    if log_weights is None:
        return frozen(np.zeros(n))
    try:
        values = np.asarray(log_weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"log_weights are not numbers: {log_weights!r:.60}", code="W01") from None
    if values.shape != (n,):
        raise WeightError(
            f"log_weights has shape {values.shape}, expected ({n},)",
            code="W01",
            fix="one log weight per row of theta",
        )
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise WeightError(
            f"log_weights: {int(bad.sum())} of {n} values are NaN or +inf (first at row {row}: {values[row]})",
            code="W01",
            why="one such weight decides the whole posterior",
            fix="use the log_weights that came with the draws; -inf means weight zero",
        )
    if n and not np.isfinite(values).any():
        raise WeightError("log_weights are all -inf: every weight is zero", code="W01")
    return frozen(values)


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
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="D07")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "log_weights", _checked_log_weights(self.log_weights, len(theta)))
        object.__setattr__(self, "names", _checked_names(self.names, theta.shape[1], "names"))
        if self.component is not None:
            if np.shape(self.component) != (len(theta),):
                raise DataError(f"component has shape {np.shape(self.component)}, expected ({len(theta)},)", code="D06")
            object.__setattr__(self, "component", frozen(self.component, np.int64))

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.theta.shape[1]

    def __getitem__(self, which: slice | npt.NDArray[Any] | Sequence[int]) -> Self:
        if isinstance(which, int | np.integer):
            raise DataError(f"a table is sliced, not indexed by {which}", code="D24", fix=f"draws[{which}:{which} + 1]")
        component = None if self.component is None else self.component[which]
        return replace(self, theta=self.theta[which], log_weights=self.log_weights[which], component=component)


@dataclass(frozen=True, eq=False)
class Simulations:
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
        theta = frozen(rows(self.theta))
        try:
            x = np.asarray(self.x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"x is not a table of numbers: {error}", code="D05") from None
        n = len(theta)
        if not np.isfinite(theta).all():
            row = int(np.flatnonzero(~np.isfinite(theta).all(1))[0])
            raise DataError(f"theta is not finite at row {row}: {theta[row]}", code="D07")
        if not isinstance(self.m, int | np.integer) or isinstance(self.m, bool):
            raise DataError(f"m must be a whole number, got {self.m!r}", code="D08")
        x = x[:, None] if x.ndim == 1 and len(x) == n else x
        if x.ndim < 2 or len(x) != n:
            raise DataError(
                f"x has shape {x.shape}, but theta has {n} rows", code="D06", fix="one row of x per row of theta"
            )
        if self.m < 1 or (self.m > 1 and (x.ndim < 3 or x.shape[1] != self.m)):
            raise DataError(
                f"m = {self.m} realisations per theta, but x has shape {x.shape}",
                code="D08",
                fix="give x as (n, m, *event)",
            )
        finite = np.isfinite(x.reshape(n, -1)).all(1) if n else np.zeros(0, bool)
        status = np.where(finite, "ok", "invalid") if self.status is None else np.asarray(self.status, dtype=np.str_)
        unknown = set(status.tolist()) - set(STATUSES)
        if status.shape != (n,) or unknown:
            raise DataError(f"status must be ({n},) of {', '.join(STATUSES)}; got {sorted(unknown)}", code="D09")
        status = np.where((status == "ok") & ~finite, "invalid", status)
        cost = np.full(n, np.nan) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        index = np.arange(n) if self.index is None else np.asarray(self.index, dtype=np.int64)
        for label, column in (("cost", cost), ("index", index)):
            if column.shape != (n,):
                raise DataError(f"{label} has shape {column.shape}, expected ({n},)", code="D06")
        event = x.shape[2:] if self.m > 1 else x.shape[1:]
        names = _checked_names(self.names, theta.shape[1], "names")
        x_names = _checked_names(self.x_names, int(np.prod(event)), "x_names")
        for label, value in {
            "theta": theta,
            "x": frozen(x),
            "log_weights": _checked_log_weights(self.log_weights, n),
            "cost": frozen(cost),
            "status": frozen(status, np.str_),
            "index": frozen(index, np.int64),
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
                code="W02",
                why="they would be applied twice",
            )
        if weights is not None:
            log_weights = _log_of_weights(weights)
        if proposal is not None:
            log_weights = proposal.log_weight(rows(theta))
        return cls(
            theta=rows(theta),
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

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        theta: Sequence[str],
        x: Sequence[str] | None = None,
        weights: str | None = None,
        cost: str | None = None,
        proposal: Weighting | None = None,
    ) -> Simulations:
        """Runs from a CSV file with a header: see `thrifty.plain_files.from_csv`."""
        from thrifty.plain_files import from_csv

        return from_csv(path, theta=theta, x=x, weights=weights, cost=cost, proposal=proposal)

    @classmethod
    def from_npz(
        cls,
        path: str | os.PathLike[str],
        *,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
    ) -> Simulations:
        """Runs from an npz file with arrays `theta` and `x`: see `thrifty.plain_files.from_npz`."""
        from thrifty.plain_files import from_npz

        return from_npz(path, weights=weights, proposal=proposal)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame) -> Simulations:
        """The table that `to_pandas` wrote, bit for bit."""
        from thrifty.exchange import from_pandas

        return from_pandas(frame)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> Simulations:
        """The table that `to_parquet` wrote, bit for bit."""
        from thrifty.exchange import from_parquet

        return from_parquet(path)

    def to_pandas(self) -> pandas.DataFrame:
        """A flat DataFrame: parameters, outputs, `log_weight`, `cost`, `status`, `index`."""
        from thrifty.exchange import to_pandas

        return to_pandas(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write `to_pandas` as parquet."""
        from thrifty.exchange import to_parquet

        to_parquet(self, path)

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Write plain arrays, without pickle."""
        from thrifty.plain_files import to_npz

        to_npz(self, path)

    def to_dict(self) -> dict[str, Array]:
        """Arrays for BayesFlow, with `sample_weight` of mean 1."""
        from thrifty.exchange import to_dict

        return to_dict(self)

    def to_arviz(self) -> arviz.InferenceData:
        """ArviZ data with log weights."""
        from thrifty.exchange import to_arviz

        return to_arviz(self)

    def to_sbi(self) -> SbiTable:
        """theta, x and a proposal for sbi's NPE_C."""
        from thrifty.sbi_bridge import to_sbi

        return to_sbi(self)

    def columns(self) -> Mapping[str, Any]:
        """Field name to value, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _log_of_weights(weights: npt.ArrayLike) -> Array:
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"weights are not numbers: {weights!r:.60}", code="W01") from None
    if values.ndim != 1:
        raise WeightError(f"weights have shape {values.shape}, expected one per row of theta", code="W01")
    bad = ~(values >= 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "NaN" if np.isnan(values[row]) else "negative"
        raise WeightError(
            f"weights: {int(bad.sum())} of {values.size} values are negative or NaN"
            f" (first {kind} at row {row}: {values[row]:g})",
            code="W01",
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


def _checked_names(names: Sequence[str], count: int, label: str) -> tuple[str, ...]:
    if isinstance(names, str):
        names = (names,)
    names = tuple(str(name) for name in names)
    if len(set(names)) != len(names):
        raise DataError(f"{label} are used twice: {', '.join(names)}", code="D10")
    if names and len(names) != count:
        raise DataError(f"{len(names)} {label} for {count} columns: {', '.join(names)}", code="D10")
    return names
