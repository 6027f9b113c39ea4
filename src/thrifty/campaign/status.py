"""The state of a campaign, read without its lock and without changing anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from thrifty.campaign.settings import CampaignSettings
from thrifty.runner.progress import format_amount
from thrifty.runner.snapshot import Saved, Totals


@dataclass(frozen=True)
class Status:
    """The state of a campaign; printing it shows it in words.

    Attributes:
        state: "empty", "pilot done", "planned", "running or stopped", "complete".
        planned, done, pending, failed: Numbers of runs.
        by_status: Runs per status.
        failed_mass: Share of prior mass whose runs failed.
        spent, left: Measured cost, and predicted cost of pending runs, in `unit`.
        elapsed: Wall seconds of all drivers so far.
        saved: What cost-awareness saves over all admitted runs, pending ones as predicted, with an interval.
        ess_fraction: Effective runs per run.
        not_admitted: Draws planned under a budget that was not large enough for them.
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

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: {self.state}, {self.done:,} of {self.planned:,} runs done ({self.pilots:,} pilots)",
            f"spent {format_amount(self.spent, self.unit)}, left about {format_amount(self.left, self.unit)}"
            + (f", budget {self.budget}" if self.budget else ""),
            f"failed {self.failed:,} runs, {100 * self.failed_mass:.2g}% of prior mass",
        ]
        if self.saved is not None and self.ess_fraction < 0.999:
            lines.append(
                f"saved {format_amount(self.saved.amount, self.unit)}"
                f" ({format_amount(self.saved.low, self.unit)} to {format_amount(self.saved.high, self.unit)}),"
                f" {100 * self.saved.share:.0f}%; per effective run {100 * self.saved.per_effective:.0f}%"
            )
        return "\n".join([*lines, *self.notes])


def make_status(folder: str, now: Totals, settings: CampaignSettings, *, elapsed: float, withdrawn: int) -> Status:
    """Compute the figures of the rows that count."""
    saved = now.estimate_savings()
    return Status(
        folder=folder,
        state=_state(now.planned, now.done, settings.pilots, withdrawn),
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
    )


def _state(planned: int, done: int, pilots: int, withdrawn: int) -> str:
    if planned == 0:
        return "empty"
    if done < planned:
        return "stopped or running" if done else "planned"
    if planned == pilots:
        return "planned" if withdrawn else "pilot done"
    return "complete"
