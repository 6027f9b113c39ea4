"""Runs with their weights: the one table that inference sees, and its ways to files and other tools."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import DataError, WeightError
from thrifty.named import align, list_names, order_observation, read_table
from thrifty.tables import csv_io, npz_io, pandas_io, sbi_io
from thrifty.tables.columns import PER_RUN, Columns
from thrifty.tables.run_summary import summarise_runs
from thrifty.tables.saved_proposal import check_agreement, restore_proposal
from thrifty.types import STATUSES, Array, Weighting, as_names, as_rows, freeze, set_fields
from thrifty.weights import as_log_weights, mass_of, to_log_weights

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self

    import arviz
    import pandas
    from matplotlib.figure import Figure

FINITE_BYTES = 2**24  # of outputs looked at together


@dataclass(frozen=True, eq=False, repr=False)
class Simulations(Displayed, Columns):
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
        messages: Index -> why the run failed, of runs made by `th.simulate`; in no file.

    Example:
        >>> sims = Simulations.from_arrays(theta=[[1.0], [2.0]], x=[[0.1, 0.2], [0.3, np.nan]])
        >>> sims.status.tolist(), sims.failed_mass
        (['ok', 'invalid'], 0.5)
    """

    log_weights: Array = None  # type: ignore[assignment]
    cost: Array = None  # type: ignore[assignment]
    status: npt.NDArray[np.str_] = None  # type: ignore[assignment]
    index: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    proposal: Weighting | None = field(default=None, repr=False, compare=False)
    messages: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        theta = freeze(as_rows(self.theta))
        try:
            x = self.x if isinstance(self.x, np.memmap) else np.asarray(self.x, dtype=np.float64)
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
        finite = _find_finite(x)
        status = np.where(finite, "ok", "invalid") if self.status is None else np.asarray(self.status, dtype=np.str_)
        if status.shape != (n,) or not sum((status == known for known in STATUSES), np.zeros(n, dtype=bool)).all():
            unknown = sorted(set(status.ravel().tolist()) - set(STATUSES))
            raise DataError(f"status must be ({n},) of {', '.join(STATUSES)}; got {unknown}", code="bad-array")
        if ((status == "ok") & ~finite).any():
            status = np.where((status == "ok") & ~finite, "invalid", status)
        cost = np.full(n, np.nan) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        index = np.arange(n) if self.index is None else np.asarray(self.index, dtype=np.int64)
        for label, column in (("cost", cost), ("index", index)):
            if column.shape != (n,):
                raise DataError(f"{label} has shape {column.shape}, expected ({n},)", code="bad-array")
        event = x.shape[2:] if self.m > 1 else x.shape[1:]
        set_fields(
            self,
            theta=theta,
            x=freeze(x),
            log_weights=as_log_weights(self.log_weights, n),
            cost=freeze(cost),
            status=freeze(status, np.str_),
            index=freeze(index, np.int64),
            names=as_names(self.names, theta.shape[1], "names"),
            x_names=as_names(self.x_names, int(np.prod(event)), "x_names"),
        )

    @classmethod
    def from_arrays(
        cls,
        *,
        theta: npt.ArrayLike | Mapping[str, Any],
        x: npt.ArrayLike | Mapping[str, Any],
        log_weights: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
        cost: npt.ArrayLike | None = None,
        m: int = 1,
        names: Sequence[str] = (),
        x_names: Sequence[str] = (),
    ) -> Self:
        """Make a table from arrays made elsewhere; weights by value, or from a known proposal.

        `theta` and `x` may bring names: a dictionary name -> column (n,), or a DataFrame with one row per run.

        Raises:
            WeightError: Weights given twice, negative, NaN or of the wrong length.
        """
        theta, own = read_table(theta, "theta")
        x, x_own = read_table(x, "x")
        columns: Any = {"theta": theta, "x": x, "log_weights": log_weights, "cost": cost, "m": m}
        columns |= {"names": tuple(names) or own, "x_names": tuple(x_names) or x_own}
        return cls._from_columns(Columns(**columns), weights=weights, proposal=proposal)

    @classmethod
    def _from_file(cls, columns: Columns, *, proposal: Weighting | None = None, prior: Any = None) -> Self:
        """Make a table of columns with weights, and of the proposal given or written beside them."""
        table = cls._from_columns(replace(columns, proposal=None))
        if proposal is None:
            restored = restore_proposal(columns.proposal, table.theta, table.log_weights, prior)
            return replace(table, proposal=restored)
        check_agreement(table.theta, table.log_weights, proposal)
        return replace(table, proposal=proposal)

    @classmethod
    def _from_columns(
        cls, columns: Columns, *, weights: npt.ArrayLike | None = None, proposal: Weighting | None = None
    ) -> Self:
        if sum(given is not None for given in (columns.log_weights, weights, proposal)) > 1:
            raise WeightError(
                "weights given twice: pass one of log_weights, weights, proposal",
                code="conflicting-settings",
                why="they would be applied twice",
            )
        theta = as_rows(columns.theta)
        log_weights = columns.log_weights
        if weights is not None:
            log_weights = to_log_weights(weights)
        if proposal is not None:
            log_weights = proposal.log_weight(theta)
        fields: dict[str, Any] = {**vars(columns), "theta": theta, "log_weights": log_weights, "proposal": proposal}
        return cls(**fields)

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
    ) -> Self:
        """Read runs from a CSV file with a header line.

        Args:
            path: The file.
            theta: Columns that are parameters.
            x: Columns that are outputs; all other numeric columns when left out.
            weights: Column of linear weights; a column `log_weight` is used without being named.
            cost: Column of measured costs; `cost` is used without being named, like `status` and `index`.
            proposal: A known proposal to compute the weights from.
            m: Realisations of each theta; the columns x are then those of the first, of the second, and so on.

        Raises:
            DataError: bad-file, with line and column of what is not a number, or a weight that would be forgotten.
            WeightError: conflicting-settings, weights both in the file and given.
        """
        columns = csv_io.from_csv(path, theta=theta, x=x, weights=weights, cost=cost, weighed=proposal is not None, m=m)
        return cls._from_columns(columns, proposal=proposal)

    @classmethod
    def from_npz(
        cls,
        path: str | os.PathLike[str],
        *,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
        prior: Any = None,
    ) -> Self:
        """Read `theta` and `x` (and `log_weights`, `cost`, `status`, `index` where present) from an npz file.

        Args:
            path: Written by `to_npz`, or by anyone with those names; never unpickled. The proposal comes with it.
            weights: Linear weights, where the file has none.
            proposal: A known proposal to compute them from, where the file has none; or the one that made the table,
                where it could not be written (its cost is a Python function). It must give the weights in the file.
            prior: The prior, where the file could not hold it: one that is not thrifty's own.
        """
        columns = npz_io.from_npz(path)
        if columns.log_weights is not None and weights is None:
            return cls._from_file(columns, proposal=proposal, prior=prior)
        return cls._from_columns(replace(columns, proposal=None), weights=weights, proposal=proposal)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame, *, proposal: Weighting | None = None, prior: Any = None) -> Self:
        """Read the table that `to_pandas` wrote, bit for bit; `proposal` and `prior` as in `from_npz`."""
        return cls._from_file(pandas_io.from_pandas(frame), proposal=proposal, prior=prior)

    @classmethod
    def from_parquet(
        cls, path: str | os.PathLike[str], *, proposal: Weighting | None = None, prior: Any = None
    ) -> Self:
        """Read the table that `to_parquet` wrote, bit for bit; `proposal` and `prior` as in `from_npz`."""
        return cls._from_file(pandas_io.from_parquet(path), proposal=proposal, prior=prior)

    def __len__(self) -> int:
        return len(self.theta)

    def _card(self) -> Card:
        return summarise_runs(self)

    def plot(self, *, x_o: Any = None, most: int = 4) -> Figure:
        """Draw the parameters of the runs, and each statistic and the cost against each parameter.

        Args:
            x_o: The observation, drawn as lines.
            most: Largest number of parameters, and of statistics, that are shown; the figure says what is left out.

        Returns:
            A matplotlib figure: a notebook shows it, `figure.savefig("runs.png")` writes it.
        """
        from thrifty.plots.run_plots import simulations

        event = self.x.shape[2:] if self.m > 1 else self.x.shape[1:]
        observed = None if x_o is None else order_observation(x_o, event, self.x_names)
        return simulations(self, x_o=observed, most=most)

    def __getitem__(self, which: slice | npt.NDArray[Any] | Sequence[int]) -> Self:
        _check_rows(which)
        return replace(self, **{label: getattr(self, label)[which] for label in PER_RUN})

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return self.theta.shape[1]

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Which runs finished with finite output (n,)."""
        return self.status == "ok"

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Which runs ended without finite output (n,); runs that are not finished have not failed."""
        return ~self.ok & (self.status != "pending")

    @property
    def failed_mass(self) -> float:
        """Share of prior mass whose runs failed: sum of failed weights over sum of weights of all runs that ended."""
        ended = self.status != "pending"
        return mass_of(self.failed[ended], self.log_weights[ended])

    def valid(self) -> Self:
        """Keep only the runs that finished with finite output."""
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

    def ordered(self, x_names: Sequence[str]) -> Self:
        """Return the same runs with their outputs in the order of these names; as they are where one has no names.

        Raises:
            DataError: bad-name, a name is missing or unknown.
        """
        if not x_names or not self.x_names or self.x_names == tuple(x_names):
            return self
        try:
            return replace(self, x=align(self.x, self.x_names, x_names), x_names=tuple(x_names))
        except ValueError as error:
            raise DataError(f"outputs {list_names(self.x_names)}: {error}", code="bad-name") from None

    def reweighted(self, log_weights: npt.ArrayLike, proposal: Weighting | None = None) -> Self:
        """Return the same runs with other weights."""
        return replace(self, log_weights=log_weights, proposal=proposal)  # type: ignore[arg-type]

    def columns(self) -> Mapping[str, Any]:
        """Return field name -> value, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a flat CSV file: parameters, outputs, `log_weight`, `cost`, `status`, `index`."""
        csv_io.to_csv(self, path)

    def to_npz(self, path: str | os.PathLike[str]) -> None:
        """Write plain arrays, without pickle, and the proposal as plain numbers where it has them."""
        npz_io.to_npz(self, path)

    def to_pandas(self) -> pandas.DataFrame:
        """Make a flat DataFrame: parameters, outputs, `log_weight`, `cost`, `status`, `index`."""
        return pandas_io.to_pandas(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write `to_pandas` as parquet."""
        pandas_io.to_parquet(self, path)

    def to_dict(self) -> dict[str, Array]:
        """Make arrays for BayesFlow, with `sample_weight` of mean 1; failed runs are left out."""
        return pandas_io.to_dict(require_valid(self)._to_pairs())

    def to_arviz(self) -> arviz.InferenceData:
        """Make ArviZ data with log weights; failed runs are left out.

        The group `prior` holds the draws as they were made. `log_weight` in `sample_stats_prior` belongs to them:
        resample by its exponential before they are shown as the prior.
        """
        return pandas_io.to_arviz(require_valid(self)._to_pairs())

    def to_sbi(self) -> sbi_io.SbiTable:
        """Make theta, x and a proposal for sbi's NPE_C, of the valid runs with a weight.

        Runs of weight zero lie outside the prior (after `th.reweight`): sbi's atomic loss divides by its density.

        Raises:
            DataError: too-few-runs, no valid run has a weight.
        """
        usable = self.ok & (self.log_weights > -np.inf)
        if not usable.any():
            raise DataError(
                f"none of the {len(self)} runs is valid and has a weight",
                code="too-few-runs",
                fix="run some under this prior",
            )
        theta, x, _ = self[usable].pairs()
        return sbi_io.to_sbi(theta, x, self.proposal)

    def _to_pairs(self) -> Columns:
        theta, x, log_weights = self.pairs()
        return Columns(theta, x, log_weights, names=self.names, x_names=self.x_names, proposal=self.proposal)


def _find_finite(x: Array) -> npt.NDArray[np.bool_]:
    """Return which outputs (n,) hold finite numbers only, in pieces: outputs may be larger than memory."""
    found = np.ones(len(x), dtype=bool)
    rows = max(FINITE_BYTES // max(8 * int(np.prod(x.shape[1:])), 1), 1)
    for at in range(0, len(x), rows):
        piece = x[at : at + rows]
        found[at : at + rows] = np.isfinite(piece.reshape(len(piece), -1)).all(1)
    return found


def require_valid(simulations: Simulations) -> Simulations:
    """Return the valid runs, of which there must be one."""
    runs = simulations.valid()
    if not len(runs):
        raise DataError(
            f"none of {len(simulations)} runs is valid",
            code="too-few-runs",
            fix="look at simulations.status: how did they fail?",
        )
    return runs


def table_hash(sims: Simulations) -> str:
    """Hash what a table says (index, theta, x, status, weights), not how long its runs took.

    Two campaigns with the same seed, prior, plan and simulator have the same hash, whatever interrupted them.

    Example:
        >>> sims = th.Simulations.from_arrays(theta=[[0.1], [0.2]], x=[[1.0], [2.0]])
        >>> th.table_hash(sims) == th.table_hash(sims[::-1][::-1])
        True
    """
    digest = hashlib.blake2b(digest_size=16)
    for column in (sims.index, sims.theta, sims.x, sims.log_weights):
        digest.update(repr((column.shape, column.dtype.str)).encode() + np.ascontiguousarray(column).tobytes())
    digest.update("\n".join(sims.status.tolist()).encode())
    return digest.hexdigest()


def _check_rows(which: Any) -> None:
    """Refuse a name or a number where rows are chosen."""
    if isinstance(which, str):
        raise DataError(
            f"simulations[{which!r}]: a table is indexed by rows, not by names",
            code="bad-array",
            fix=f"simulations.to_pandas()[{which!r}], or the arrays simulations.theta, .x, .cost",
        )
    if isinstance(which, int | np.integer) and not isinstance(which, bool | np.bool_):
        raise DataError(
            f"simulations[{which}]: a table is indexed by slices, masks and lists of rows",
            code="bad-array",
            fix=f"simulations[[{which}]] for a table of one run, simulations[:3], simulations[simulations.ok]",
        )
