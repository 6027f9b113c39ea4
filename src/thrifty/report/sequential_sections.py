"""Write what the page says of sequential methods: the section on rounds, and what differs from one plan.

Rounds: what each drew and cost, how the posterior shrank, and what was saved. In the other sections: a sequential
method has no chosen row of a trade-off table, no self-checked proposal, and a cost model that is fitted again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from thrifty import plots
from thrifty.campaign.kept_rounds import KeptRound
from thrifty.display import count_things
from thrifty.durations import format_amount
from thrifty.penalties import Constant, penalty_from_dict
from thrifty.plots.style import COLOURS, GREY, make_figure, set_labels, set_plain_ticks
from thrifty.report.content import Drawing, Grid, Section, as_label, clean
from thrifty.report.gather import Facts
from thrifty.tradeoff import Tradeoff
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOURCES = {
    "prior": "the prior",
    "cost_aware": "the whole prior: a region won nothing",
    "kernel": "posterior and prior",
    "truncated": "prior inside the posterior's region",
}
_HEADER = ("round", "drawn from", "runs", "cost", "cost per run", "posterior / prior volume", "moved")


def rounds_section(facts: Facts) -> Section:
    """Show the rounds in a table and a figure, and what they saved against runs from the prior."""
    rounds, unit = facts.status.rounds, facts.unit
    costs, done = _sum_costs(facts)
    body = [
        [str(number), _SOURCES.get(one.kind, clean(one.kind, 30)), f"{one.n:,}", format_amount(cost, unit),
         format_amount(cost / runs, unit) if runs else "–", _format_volume(one), _format_move(one)]
        for number, (one, cost, runs) in enumerate(zip(rounds, costs.tolist(), done.tolist(), strict=True))
    ]  # fmt: skip
    lead = [
        "Each round draws where the posterior of the round before lies, and avoids expensive runs. Round 0 is from the"
        f" prior{'; it contains the pilot' if facts.pilot.any() else ''}.",
        *_describe_saving(facts),
    ]
    notes = [
        "Volume: the share of the prior that the posterior takes (the largest, of several observations). Moved: the"
        " largest distance between the posteriors before and after the round in one parameter, in posterior standard"
        " deviations.",
    ]
    if facts.status.pending:
        notes.append("Runs of the last round are missing: its figures will change.")
    what = "; ".join(f"round {row[0]}: {row[2]} runs, {row[3]}, volume {row[5]}" for row in body)
    figure = _draw_rounds(rounds, costs, unit)
    return Section(lead, [Drawing(figure, "Posterior and cost by round", what)], [Grid(_HEADER, body, words=2)], notes)


def _sum_costs(facts: Facts) -> tuple[Array, Array]:
    """Return the cost of each round, and its finished runs."""
    rows = [facts.done & np.isin(facts.table.block, one.blocks) for one in facts.status.rounds]
    return np.array([np.nansum(facts.charged[row]) for row in rows]), np.array([row.sum() for row in rows])


def _format_volume(one: KeptRound) -> str:
    if not one.judged:
        return "not measured yet"
    return "–" if math.isnan(one.volume) else f"{one.volume:.2g}"


def _format_move(one: KeptRound) -> str:
    return "–" if math.isnan(one.moved) else f"{one.moved:.2f} sd"


def _describe_saving(facts: Facts) -> list[str]:
    """Say what the runs cost beside as many from the prior; from measured costs and the weights of the pool."""
    saved = facts.status.saved
    if saved is None:
        return []
    plain, spent = format_amount(saved.plain, facts.unit), format_amount(saved.spent, facts.unit)
    interval = f"{format_amount(saved.low, facts.unit)} to {format_amount(saved.high, facts.unit)}"
    compared = f"{saved.share:.0%} less" if saved.amount >= 0 else f"{-saved.share:.0%} more"
    return [
        f"All runs cost {spent}. As many runs from the prior would have cost about {plain}: {compared} (saved"
        f" {interval}, 95%). That compares equal numbers of runs. What rounds save in runs, since most of them lie"
        " where the posterior is, comes on top and is not measured here."
    ]


def _draw_rounds(rounds: tuple[KeptRound, ...], costs: Array, unit: str) -> Figure:
    """Draw the volume of the posterior after each round, and the cost of each round."""
    figure, axes = make_figure(7.4, 3.0, columns=2)
    left, right = axes[0]
    at = np.arange(len(rounds))
    volumes = np.array([one.volume for one in rounds])
    shown = np.isfinite(volumes) & (volumes > 0)
    left.axhline(1.0, color=GREY, lw=1, ls="--")
    if shown.any():
        left.plot(at[shown], volumes[shown], "o-", color=COLOURS[0], lw=1.6, ms=5)
        left.set_yscale("log")
        left.set_ylim(volumes[shown].min() / 2, 1.8)
        set_plain_ticks(left.yaxis, 1.8 / float(volumes[shown].min() / 2))
    set_labels(left, "after round", "posterior / prior volume", "Volume of the posterior (dashed: the prior)")
    right.bar(at, costs, color=COLOURS[0], width=0.62)
    for place, (one, cost) in enumerate(zip(rounds, costs, strict=True)):
        right.annotate(
            count_things(one.n, "run"), (place, cost), (0, 3), textcoords="offset points", ha="center", fontsize=8
        )  # fmt: skip
    right.set_ylim(0, 1.15 * max(float(costs.max()), 1e-300))
    set_labels(right, "round", f"cost [{as_label(unit)}]", "Cost of each round")
    for ax in (left, right):
        ax.set_xticks(at[:: max(len(at) // 10, 1)])
        ax.set_xlim(-0.5, len(at) - 0.5)
    return figure


def describe_tradeoff(facts: Facts, table: Tradeoff, possible: str) -> Section:
    """Show what one plan over the whole prior could save, beside the penalty that the draws were divided by."""
    header, body = table.cells()
    kind = "rounds" if facts.status.rounds else "generations"
    lead = [
        f"The draws of this folder were chosen in {kind}, {_describe_penalty(facts)}. {possible}",
        "The table is for comparison: it is what one plan over the whole prior could save.",
    ]
    what = f"Gain against effective share for {len(table)} penalties of one plan, with the ceiling {table.ceiling:.2f}"
    drawing = Drawing(plots.tradeoff(table), "Trade-off between penalties of one plan", what)
    return Section(lead, [drawing], [Grid(header, [[clean(cell) for cell in line] for line in body])])


def _describe_penalty(facts: Facts) -> str:
    """Say by which penalty the latest draws of a sequential method were divided."""
    recipe = {} if facts.part is None else facts.parts[facts.part].recipe
    if recipe.get("kind", "prior") == "prior":
        return "so far from the prior alone"
    penalty = penalty_from_dict(recipe["penalty"])
    return "without a penalty" if isinstance(penalty, Constant) else f"with the penalty {clean(penalty, 40)}"


def describe_proposal(kind: str) -> Section:
    """Say where the latest draws of a sequential method come from."""
    if kind == "prior":
        return Section(["So far all draws are from the prior: a sequential method begins with them."])
    known = {
        "kernel": "a mixture of kernels around parameters that agree with the observation, divided by the penalty",
        "cost_aware": "the whole prior, divided by the penalty: a region around the posterior won nothing",
        "truncated": "the prior, restricted to the region where the posterior lies, divided by the penalty",
    }
    words = known.get(kind, f"a generation of a sequential method ({clean(kind, 30)})")
    return Section([f"The latest draws are from {words}. They are weighted together with all other draws of the pool."])


def find_last_proposal(facts: Facts) -> np.ndarray:
    """Find the rows (n,) of the last proposal of a sequential method; none while that is the prior."""
    if facts.part is None or facts.parts[facts.part].kind == "prior":
        return np.zeros(len(facts.table), dtype=bool)
    recipe = facts.parts[facts.part].recipe
    return np.isin(facts.table.part, [number for number, part in facts.parts.items() if part.recipe == recipe])
