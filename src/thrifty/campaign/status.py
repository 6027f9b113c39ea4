"""The state of a campaign, read without its lock and without changing anything."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from thrifty.campaign.budget import Budget, explain_wall_time
from thrifty.campaign.kept_rounds import KeptRound
from thrifty.campaign.settings import CampaignSettings
from thrifty.display import Card, Displayed, count_things, format_share
from thrifty.durations import format_amount, format_kind, format_percent
from thrifty.runner.snapshot import Saved, Totals


@dataclass(frozen=True, repr=False)
class Status(Displayed):
    """The state of a campaign; printing it shows it in words.

    Attributes:
        state: "empty", "pilot done", "planned", "stopped or running", "complete".
        running: Whether a process drives the campaign now; None where the system does not say.
        planned, done, pending, failed: Numbers of runs.
        by_status: Runs per status.
        failed_mass: Share of prior mass whose runs failed.
        spent, left: Measured cost, and predicted cost of pending runs, in `unit`.
        elapsed: Wall seconds of all drivers so far.
        saved: What cost-awareness saves over all admitted runs, pending ones as predicted, with an interval.
        ess_fraction: Effective runs per run.
        not_admitted: Draws planned under a budget that was not large enough for them, or that has not begun.
        budget: The budget as it was written, or "".
        budget_left: What is left of the budget, in words; "" without a budget, or where it is not known.
        kind: Kind of seconds of `spent` and `left`, "CPU time" for one; "" where they are in another unit.
        most_saved: Largest share that can be saved per effective run, by the plan's cost model; None without a plan.
        rounds: What each round of `th.Rounds` did: its runs, the share of the prior that the posterior takes after it
            and how far the posterior moved, in its standard deviations (NaN: not measured yet).

    Example: see `th.Campaign`.
    """

    folder: str
    state: str
    planned: int
    done: int
    pending: int
    pilots: int
    failed: int
    by_status: dict[str, int]
    failed_mass: float
    spent: float
    left: float
    unit: str
    elapsed: float
    saved: Saved | None
    ess_fraction: float
    not_admitted: int
    deterministic: bool
    budget: str = ""
    notes: tuple[str, ...] = field(default=())
    rounds: tuple[KeptRound, ...] = ()
    budget_left: str = ""
    kind: str = ""
    most_saved: float | None = None
    running: bool | None = None

    @property
    def known_state(self) -> str:
        """The state, "stopped" or "running" where it is known which."""
        if self.state != "stopped or running" or self.running is None:
            return self.state
        return "running" if self.running else "stopped"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        head = f"{self.folder}: {self.known_state}, {self._runs_text()}"
        lines = [f"{label} {text}" for label, text in self._facts()]
        return "\n".join([head, *lines, *self._all_notes()])

    def _all_notes(self) -> tuple[str, ...]:
        wall = (explain_wall_time(self.kind),) if self.budget_is_wall else ()
        return (*self.notes, *self.explain_surplus(), *wall)

    def explain_surplus(self) -> tuple[str, ...]:
        """Say why more is saved than the plan gave as the maximum; nothing where it is not."""
        if self.saved is None or self.most_saved is None or self.rounds or not self._shows_savings:
            return ()
        if round(self.saved.per_effective, 2) <= round(self.most_saved, 2):
            return ()
        saved, most = (format_share(share) for share in (self.saved.per_effective, self.most_saved))
        return (
            f"{saved} per effective run is more than the {most} that the plan gives as the most: that is by the fitted"
            " cost and for many runs. The runs are the measure; the interval says how far they may be off.",
        )

    @property
    def _shows_savings(self) -> bool:
        """Whether draws were chosen by cost: a pilot alone saves nothing, although a limit may change its weights."""
        return self.saved is not None and self.ess_fraction < 0.999 and self.planned > self.pilots

    def _runs_text(self) -> str:
        if self.awaits_budget:
            done = f"{self.done:,} runs done{mention_pilots(self.pilots)}"
            return f"{done}, more are planned until the budget is used"
        return f"{self.done:,} of {self.planned:,} runs done{mention_pilots(self.pilots)}"

    @property
    def awaits_budget(self) -> bool:
        """Whether a budget was planned that has not admitted a run yet."""
        return self.state == "planned" and bool(self.budget) and self.not_admitted > 0

    def _spent_text(self) -> str:
        """Say what is spent and what is left, each number with its kind."""
        text = format_kind(self.spent, self.unit, self.kind)
        if self.budget_is_wall:
            text += f" in {format_amount(self.elapsed, 's')} of wall time"
        if self.pending or not self.budget:
            text += f", left about {format_kind(self.left, self.unit, self.kind)}"
        if not self.budget:
            return text
        wall = " of wall time" if self.budget_is_wall else ""
        left = f" ({self.budget_left} of it left)" if self.budget_left else ""
        return f"{text}, budget {self.budget.replace(' reported', ' units')}{wall}{left}"

    @property
    def budget_is_wall(self) -> bool:
        """Whether the budget is wall time from start to end, which is never what costs are measured in."""
        return bool(self.budget) and Budget.is_wall_time(self.budget)

    def _facts(self) -> list[tuple[str, str]]:
        unused = f"{self.not_admitted:,} of the draws that were fixed: the budget is used"
        facts = [
            *([("not run", unused)] if self.budget and self.not_admitted and self.state == "complete" else []),
            ("spent", self._spent_text()),
            ("failed", f"{count_things(self.failed, 'run')}, {format_percent(self.failed_mass)} of prior mass"),
        ]
        if self._shows_savings and self.saved is not None:
            low, high = (format_amount(end, self.unit) for end in (self.saved.low, self.saved.high))
            amount = f"{format_kind(self.saved.amount, self.unit, self.kind)} ({low} to {high})"
            # draws of rounds are placed for one observation: how they count over the prior says nothing of their worth
            each = "" if self.rounds else f"; per effective run {format_share(self.saved.per_effective)}"
            label = "will save about" if self.pending else "saved"  # runs that are missing count as predicted
            facts.append((label, f"{amount}, {format_share(self.saved.share)}{each}"))
        rounds = (describe_round(r.n, r.volume, r.moved, judged=r.judged) for r in self.rounds)
        return facts + [(f"round {number}:", words) for number, words in enumerate(rounds)]

    def _card(self) -> Card:
        facts = [("state", self.known_state), ("runs", self._runs_text()), *self._facts()]
        return Card(f"campaign {self.folder}", facts, notes=self._all_notes())


def mention_pilots(pilots: int) -> str:
    """Say in brackets how many of some runs are pilots; nothing where there is none.

    Example:
        >>> mention_pilots(40), mention_pilots(1), mention_pilots(0)
        (' (40 pilots)', ' (1 pilot)', '')
    """
    return f" ({count_things(pilots, 'pilot')})" if pilots else ""


def describe_round(n: int, volume: float, moved: float, cost: str = "", *, judged: bool = True) -> str:
    """Describe a round in one line: its runs, and the posterior after it where it was judged (NaN: not measured).

    Example:
        >>> describe_round(250, 0.0123, 0.5)
        '250 runs, posterior takes 1.2% of the prior, moved 0.50 sd'
    """
    runs = count_things(n, "run") + (f", {cost}" if cost else "")
    if not judged:
        return f"{runs}, no posterior yet"
    takes = "" if math.isnan(volume) else f", posterior takes {_format_percent(volume)} of the prior"
    return runs + takes + ("" if math.isnan(moved) else f", moved {moved:.2f} sd")


def _format_percent(share: float) -> str:
    """Write a share in percent, without powers of ten."""
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def make_status(
    folder: str,
    now: Totals,
    settings: CampaignSettings,
    *,
    elapsed: float,
    withdrawn: int,
    rounds: tuple[KeptRound, ...] = (),
    taken: float | None = None,
) -> Status:
    """Compute the figures of the rows that count; `taken` is what they took from the budget, if known."""
    limit = settings.limit
    saved = now.estimate_savings()
    return Status(
        folder=folder,
        state=_state(now.planned, now.done, settings.pilots, withdrawn, is_judged=all(one.judged for one in rounds)),
        planned=now.planned,
        done=now.done,
        pending=now.planned - now.done,
        pilots=settings.pilots,
        failed=now.failed,
        by_status=dict(sorted(now.by_status.items())),
        failed_mass=now.failed_mass,
        spent=now.spent,
        left=max(now.left, 0.0) if now.planned > now.done else 0.0,
        unit=settings.unit,
        elapsed=elapsed,
        saved=saved,
        ess_fraction=saved.effective / now.known if saved else 1.0,
        not_admitted=withdrawn,
        deterministic=settings.deterministic,
        budget=settings.budget or "",
        notes=settings.notes,
        rounds=rounds,
        budget_left="" if limit is None or taken is None else limit.words(max(limit.amount - taken, 0.0)),
        kind=settings.seconds_kind,
        most_saved=_find_most(settings.figures),
    )


def _find_most(figures: dict[str, dict[str, Any]]) -> float | None:
    """Find the largest saving per effective run that a plan of the folder gave as possible; None without one."""
    try:
        return max((1 - 1 / float(one["table"]["ceiling"]) for one in figures.values()), default=None)
    except (LookupError, TypeError, ValueError, ZeroDivisionError):  # figures of a damaged file
        return None


def _state(planned: int, done: int, pilots: int, withdrawn: int, *, is_judged: bool) -> str:
    if planned == 0:
        return "empty"
    if done < planned:
        return "planned" if done in (0, pilots) else "stopped or running"
    if not is_judged:  # the last round has runs, but no posterior yet
        return "stopped or running"
    if planned == pilots:
        return "planned" if withdrawn else "pilot done"
    return "complete"
