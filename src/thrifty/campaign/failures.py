"""Which parameters fail, P(finish | theta) learned from the runs of a campaign, and why runs failed.

For `on_timeout="weight"` and for the failure map. Weighting by 1/P repairs NPE and ABC when failure depends on theta
alone; where P is near zero nothing can be repaired, so P is floored and the reader is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from thrifty.costs.finish_model import FLOOR, FinishModel
from thrifty.display import Card, Displayed, count_things
from thrifty.errors import CampaignError, ConfigError, warn
from thrifty.runner.causes import Cause
from thrifty.store.read import known_shape
from thrifty.store.store import Store
from thrifty.store.sums import find_causes, read_messages
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


def finish_log_factor(theta: Array, late: npt.NDArray[np.bool_]) -> Array:
    """-log P(finish | theta) for finished runs, -inf for late ones (n,)."""
    if not late.any():
        return np.zeros(len(late))
    p = FinishModel.fit(theta, ~late)(theta)
    low = (p < FLOOR) & ~late
    if low.any() or (p < FLOOR).mean() > 0.001:
        warn(
            f"{100 * (p < FLOOR).mean():.1f}% of the draws finish with probability below {FLOOR:g}: weighting cannot"
            " bring back what almost never finishes; on_timeout='lazy' can",
            stacklevel=4,
        )
    return np.where(late, -np.inf, -np.log(np.maximum(p, FLOOR)))


def describe_where(theta: Array, failed: npt.NDArray[np.bool_], names: tuple[str, ...]) -> str:
    """Where failures are, in words: the one-parameter threshold that best separates them, or "".

    Example:
        >>> theta = np.linspace(0, 1, 100)[:, None]
        >>> describe_where(theta, theta[:, 0] > 0.8, ("beta",))
        'nearly all with beta > 0.81'
    """
    if not 3 <= failed.sum() < len(failed):
        return ""
    best, words = 0.0, ""
    for name, column in zip(names, theta.T, strict=True):
        for sign, label in ((1, ">"), (-1, "<")):
            edge = np.quantile(sign * column[failed], 0.05, method="lower")
            inside = sign * column >= edge
            enrichment = failed[inside].mean() - failed.mean()
            if enrichment > best and failed[inside].mean() > 2 * failed.mean():
                best, words = enrichment, f"nearly all with {name} {label} {sign * edge:.2g}"
    return words


@dataclass(frozen=True, repr=False)
class FailureMap(Displayed):
    """P(finish | theta), and the runs it was learned from. Pending runs say nothing and are left out.

    Attributes:
        theta: Parameters of the runs (n, p).
        finished: Whether each gave numbers (n,).
        model: Calling the map calls it: (m, p) -> (m,).
        names: Of the parameters.

    Example:
        >>> theta = np.linspace(0, 1, 400)[:, None]
        >>> status = np.where(theta[:, 0] < 0.7, "ok", "crashed")
        >>> sims = th.Simulations(theta=theta, x=theta, status=status, names=("beta",))
        >>> failures = FailureMap.of(sims)
        >>> failures([[0.1], [0.9]]).round(1).tolist()
        [1.0, 0.0]
        >>> print(failures)
        120 of 400 runs failed, nearly all with beta > 0.71
        finish:  beta 0 to 0.25  100%   0.25 to 0.5  100%   0.5 to 0.75  80%   0.75 to 1  0%
    """

    theta: Array
    finished: npt.NDArray[np.bool_]
    model: FinishModel
    names: tuple[str, ...]

    @classmethod
    def of(cls, sims: Simulations) -> FailureMap:
        """Learn from a table, of a campaign or made in memory."""
        done = sims.status != "pending"
        if not done.any():
            raise CampaignError("no run has finished yet", code="no-runs-yet", fix="c.pilot(200)")
        theta, finished = sims.theta[done], sims.status[done] == "ok"
        names = tuple(sims.names) or tuple(f"theta_{i + 1}" for i in range(theta.shape[1]))
        return cls(theta, finished, FinishModel.fit(theta, finished), names)

    def __call__(self, theta: npt.ArrayLike) -> Array:
        """P(finish | theta), (m, p) -> (m,)."""
        return self.model(theta)

    @property
    def failed(self) -> int:
        """Number of runs that failed."""
        return int((~self.finished).sum())

    def grid(self, *names: str, points: int = 60) -> tuple[list[Array], Array]:
        """P(finish) over one or two parameters, the others at their median.

        Args:
            names: One or two parameter names; by default those along which P(finish) changes most.
            points: Along each.

        Returns:
            The values along each parameter, and P of shape (points,) or (points, points), the first one's rows.
        """
        unknown = [name for name in names if name not in self.names]
        if unknown or len(names) > 2:
            raise ConfigError(f"grid{names}: expected one or two of {', '.join(self.names)}", code="bad-name")
        columns = [self.names.index(name) for name in names] or self.movers()
        axes = [np.linspace(self.theta[:, c].min(), self.theta[:, c].max(), points) for c in columns]
        mesh = np.meshgrid(*axes, indexing="ij")
        theta = np.tile(np.median(self.theta, axis=0), (mesh[0].size, 1))
        for column, values in zip(columns, mesh, strict=True):
            theta[:, column] = values.ravel()
        return axes, self(theta).reshape(mesh[0].shape)

    def movers(self) -> list[int]:
        """The (at most two) parameters along which P(finish) changes most over the runs, in their own order."""
        p = self(self.theta)
        spread = []
        for column in self.theta.T:
            bins = np.array_split(np.argsort(column, kind="stable"), min(10, len(column)))
            spread.append(np.var([p[b].mean() for b in bins]))
        return sorted(int(i) for i in np.argsort(-np.array(spread), kind="stable")[:2])

    def __str__(self) -> str:
        lines = [f"finish:  {name} " + "   ".join(cells) for name, cells in self._shares()]
        return "\n".join([self._head(), *lines])

    def _head(self) -> str:
        where = describe_where(self.theta, ~self.finished, self.names)
        return f"{self.failed:,} of {len(self.finished):,} runs failed{', ' + where if where else ''}"

    def _shares(self) -> list[tuple[str, list[str]]]:
        """Name and share of finished runs in each quarter, of the parameters that matter; none without a failure."""
        found = []
        for i in self.movers() if self.failed else []:
            edges = np.quantile(self.theta[:, i], [0, 0.25, 0.5, 0.75, 1])
            cells = []
            for low, high in pairwise(edges):
                inside = (self.theta[:, i] >= low) & (self.theta[:, i] <= high)
                cells.append(f"{low:.3g} to {high:.3g}  {100 * self.finished[inside].mean():.0f}%")
            found.append((self.names[i], cells))
        return found

    def _card(self) -> Card:
        header = ("share that finish", "lowest quarter", "second", "third", "highest")
        return Card(self._head(), header=header, rows=[[name, *cells] for name, cells in self._shares()])


@dataclass(frozen=True, repr=False)
class FailedRuns(Displayed):
    """Why runs failed; printing it lists the causes, the most common first.

    Attributes:
        causes: Each with its count, the index of one such run and the reason.
        messages: Index -> the whole message of each failed run.
    """

    causes: tuple[Cause, ...]
    messages: Mapping[int, str]

    def __len__(self) -> int:
        return sum(cause.count for cause in self.causes)

    def __str__(self) -> str:
        rows = [f"{cause.count:>6,}  {cause.text} (for example run {cause.index})" for cause in self.causes]
        return "\n".join([self._head(), *rows])

    def _head(self) -> str:
        return f"{count_things(len(self), 'run')} failed" + (
            ": failures().messages[INDEX] is the whole message" if self.causes else ""
        )

    def _card(self) -> Card:
        rows = [(f"{cause.count:,}", cause.text, str(cause.index)) for cause in self.causes]
        return Card(self._head(), header=("runs", "cause", "for example"), rows=rows)


def find_failed_runs(store: Store, shape: tuple[int, ...] | None) -> FailedRuns:
    """Read causes and messages of all failed runs; `shape` is that of outputs, where it is known."""
    text = ",".join(map(str, known_shape(store, shape)))
    return FailedRuns(tuple(find_causes(store, text)), read_messages(store, text))
