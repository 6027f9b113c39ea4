"""Make the live page of a campaign: what has run, what it cost, what failed, and how much the runs count.

The page is a frame that the browser loads once; every few seconds it asks for its content again. Content is made from
the status of the campaign, which reads no outputs, so that a campaign of a million runs can be watched.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from thrifty.campaign.campaign import Campaign
from thrifty.campaign.status import Status
from thrifty.display import count_things
from thrifty.durations import format_amount, format_kind
from thrifty.errors import ThriftyError
from thrifty.report.content import Drawing, clean
from thrifty.report.fill import fill_template, read_style
from thrifty.report.svg import render_picture

MAX_POINTS = 120  # of the curve of runs over time: one every few pixels
MIN_SPEED_SECONDS = 5.0  # of watching before a remaining time is estimated


@dataclass(frozen=True)
class Bar:
    """A share that grows: its name, what it says, and how much of it is done, 0 to 1."""

    label: str
    text: str
    share: float

    @property
    def percent(self) -> float:
        """Width of the bar, 0 to 100."""
        return round(100 * min(max(self.share, 0.0), 1.0), 1)


@dataclass
class LivePage:
    """The content of the live page of one run folder; `render` reads the folder and never changes it.

    Example:
        >>> import tempfile
        >>> def simulate(theta, rng):
        ...     return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     c = th.Campaign(folder + "/toy", simulate, th.Uniform(0, 4), seed=1, cost="reported", unit="events")
        ...     _ = c.pilot(12, engine=th.Inline(), progress="quiet")
        ...     "12 of 12 runs" in LivePage(c.folder).render("running")
        True
    """

    folder: Path
    clock: Callable[[], float] = time.monotonic
    seen: deque[tuple[float, int, float]] = field(default_factory=lambda: deque(maxlen=MAX_POINTS))
    _content: str = ""
    _cost: tuple[int, Markup | None] = (-1, None)  # number of pilots and plans that the drawing was made for

    def frame(self, token: str, nonce: str, every: float) -> str:
        """Make the page around the content; its script asks for the content with the token."""
        title = clean(self.folder.resolve().name or self.folder, 120)
        return fill_template("live.html", {
            "title": title, "token": token, "nonce": nonce, "milliseconds": round(1000 * every), "css": read_style(),
            "content": Markup(self._content),
        })  # fmt: skip

    def render(self, state: str) -> str:
        """Make the content: what the folder holds now. One that cannot be read keeps the last content, with a note."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the page shows failed mass and weights
                self._content = self._describe(state)
            return self._content
        except ThriftyError as error:
            note = f"The folder could not be read: {clean(error.what)}. The figures are of the last time it could."
            return Markup('<p class="missing">{}</p>').format(note) + Markup(self._content)

    def _describe(self, state: str) -> str:
        campaign = Campaign.open(self.folder)
        now = campaign.status()
        self.seen.append((self.clock(), now.done, now.spent))
        return fill_template("live_content.html", {
            "state": state, "when": time.strftime("%H:%M:%S"), "bars": _make_bars(campaign, now),
            "facts": [*_list_facts(now), *self._estimate_end(now)], "rounds": [clean(r) for r in _list_rounds(now)],
            "curve": _draw_curve(list(self.seen)), "cost": self._draw_cost(campaign, now),
            "notes": [clean(note) for note in now.notes],
        })  # fmt: skip

    def _estimate_end(self, now: Status) -> list[tuple[str, str]]:
        """Estimate the time left from the cost spent while the page was watched: runs differ in cost."""
        (began, _, before), (last, _, spent) = self.seen[0], self.seen[-1]
        if not now.pending or last - began < MIN_SPEED_SECONDS or spent <= before:
            return []
        left = now.left * (last - began) / (spent - before)
        return [("time left", f"about {format_amount(left, 's')}")]

    def _draw_cost(self, campaign: Campaign, now: Status) -> Markup | None:
        """Draw the cost model again where there are new pilots or there is a plan; None while there is none."""
        version = now.pilots + 1_000_000 * (now.planned > now.pilots)
        if now.done and self._cost[0] != version:
            try:
                figure = campaign.plot_cost()
                drawing = Drawing(figure, "Cost of a run", "Predicted cost over the prior, with the pilot runs", True)
                self._cost = version, render_picture(drawing, "cost").panels[0]
            except (ThriftyError, ArithmeticError, ValueError):  # too few pilots: drawn when there are more
                self._cost = version, None
        return self._cost[1]


def _make_bars(campaign: Campaign, now: Status) -> list[Bar]:
    """Make the bars: runs, predicted cost, and the budget where there is one."""
    share = now.done / now.planned if now.planned else 0.0
    pilots = f" ({count_things(now.pilots, 'pilot')})" if now.pilots else ""
    bars = [Bar("runs", f"{now.done:,} of {count_things(now.planned, 'run')}{pilots}", share)]
    total = now.spent + now.left
    spent, total_text = (format_kind(value, clean(now.unit, 20), now.kind) for value in (now.spent, total))
    text = f"{spent} of about {total_text}"
    bars.append(Bar("cost", text, now.spent / total if total > 0 else 0.0))
    with campaign.session.reading(check_draws=False) as opened:
        budget = opened.settings.read_budget(opened.settings.budget)
        used = 0.0 if budget is None else opened.store.spent(budget.of) * budget.per_unit
    if budget is not None:
        bars.append(Bar("budget", f"{budget.words(used)} of {clean(budget.describe(), 60)}", used / budget.amount))
    return bars


def _list_facts(now: Status) -> list[tuple[str, str]]:
    failed = f"{count_things(now.failed, 'run')}, {100 * now.failed_mass:.2g}% of prior mass"
    rest = {kind: count for kind, count in now.by_status.items() if kind not in ("ok", "pending")}
    kinds = ", ".join(f"{count:,} {clean(kind, 20)}" for kind, count in rest.items())
    facts = [("failed", failed + (f" ({kinds})" if kinds else ""))]
    if now.saved is not None:  # over all planned runs, those that have not run as predicted
        when = " when all have run" if now.pending else ""
        facts.append((f"effective runs{when}", f"{now.saved.effective:,.0f} ({now.ess_fraction:.0%} of the runs)"))
        if now.ess_fraction < 0.999:
            amount = format_amount(now.saved.amount, clean(now.unit, 20))
            facts.append((f"saved{when}", f"{amount} ({now.saved.share:.0%}) against plain sampling"))
    return facts


def _list_rounds(now: Status) -> list[str]:
    return [line for line in str(now).splitlines() if line.startswith("round ")]


def _draw_curve(seen: list[tuple[float, int, float]]) -> dict[str, Any] | None:
    """Return the points of the curve of finished runs while this page was open, in a box of 100 by 30."""
    if len(seen) < 2 or seen[-1][1] == seen[0][1]:
        return None
    (start, low, _), (end, high, _) = seen[0], seen[-1]
    points = [(100 * (t - start) / (end - start), 30 - 28 * (n - low) / (high - low)) for t, n, _ in seen]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    speed = 60 * (high - low) / (end - start)
    return {
        "line": line,
        "text": f"{low:,} to {high:,} runs in {format_amount(end - start, 's')}, {speed:,.0f} a minute",
    }
