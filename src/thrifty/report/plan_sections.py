"""Write the sections on pilot and plan: cost, trade-off, proposal, weights, where the cost went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thrifty import plots
from thrifty.campaign.plan import self_check
from thrifty.diagnostics import cost_check, weight_health
from thrifty.display import count_things
from thrifty.durations import format_amount, name_unit
from thrifty.plots.style import add_legend
from thrifty.report.content import Drawing, Grid, Section, as_label, clean
from thrifty.report.gather import Facts
from thrifty.report.inference_time import LEAST_SECONDS, sum_inference
from thrifty.report.results import Result
from thrifty.report.sequential_sections import (
    describe_proposal,
    describe_tradeoff,
    find_last_proposal,
)
from thrifty.runner.snapshot import Saved
from thrifty.tables.simulations import Simulations
from thrifty.tradeoff import Row, Tradeoff

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PILOT_POINTS = 400  # on the cost surface: more hide it
_NO_PRIOR = "The folder does not hold this prior as numbers: it is an object of the user."
_NOT_FROZEN = "Nothing is planned yet: this is the estimate from the pilot. A plan freezes it."


def cost_section(facts: Facts) -> Section:
    """Show the cost model over the prior, and predicted against measured cost."""
    if facts.model is None:
        if not facts.done.any():
            return Section(missing="No run has been timed yet.", command=facts.command("plan"))
        words = "Too few timed runs for a cost model."
        return Section([_describe_measured(facts)], missing=words, command=facts.command("plan"))
    harmless = "A wrong cost model saves less; it never biases the posterior."
    lead = [f"{clean(facts.model)}. {_describe_measured(facts)} {harmless}"]
    drawings, notes = [], [] if facts.frozen else [_NOT_FROZEN]
    if facts.known_prior is not None:
        pilot = np.flatnonzero(facts.pilot & np.isfinite(facts.cost) & (facts.cost > 0))
        shown = pilot[:MAX_PILOT_POINTS]
        if len(pilot) > MAX_PILOT_POINTS:
            notes.append(f"{MAX_PILOT_POINTS} of {len(pilot):,} pilot runs are drawn.")
        theta, cost = facts.table.theta[shown], facts.cost[shown] / facts.model_scale
        unit = as_label(facts.model.unit)
        surface = plots.cost_surface(
            facts.model, facts.known_prior, pilot=theta, seconds=cost, names=facts.labels, unit=unit
        )
        what = "Predicted cost over the two parameters that change it most"
        what += "; pilot runs coloured by measured cost" if len(shown) else ""
        drawings.append(Drawing(surface, "Cost of a run", what))
    else:
        notes.append(_NO_PRIOR)
    fresh = _select_planned(facts)
    if fresh is not None:
        check = cost_check(facts.model, fresh)
        which = (
            "Runs of the last proposal, which the model had not seen" if facts.sequential else "Runs after the pilot"
        )
        lead.append(f"{which}: {check.reason}.")
        what = f"Measured against predicted cost of {len(check.measured):,} runs, and their ratio along each parameter"
        drawings.append(Drawing(plots.cost_residuals(check), "Predicted and measured cost", what))
    else:
        notes.append("Predicted against measured cost is shown once 20 planned runs have finished.")
    return Section(lead, drawings, notes=notes)


def _describe_measured(facts: Facts) -> str:
    cost = facts.cost[np.isfinite(facts.cost) & (facts.cost > 0)]
    if not len(cost):
        return "No cost was measured."
    low, high = float(cost.min()), float(cost.max())
    return (
        f"Measured: {format_amount(low, facts.unit)} to {format_amount(high, facts.unit)} a run ({high / low:,.0f}×)"
        f" over {count_things(len(cost), 'run')}."
    )


def _select_planned(facts: Facts) -> Simulations | None:
    sims = facts.simulations
    if sims is None:
        return None
    keep = ~facts.pilot[facts.done] & np.isfinite(sims.cost) & (sims.cost > 0)
    if facts.sequential:  # its model was fitted to all runs before the last proposal
        keep &= find_last_proposal(facts)[facts.done]
    if keep.sum() < 20:
        return None
    plain = sims.reweighted(np.zeros(len(sims)))  # a comparison of costs; runs of an unfinished plan may have no weight
    return replace(plain[keep], cost=sims.cost[keep] / facts.model_scale, names=facts.labels)


def tradeoff_section(facts: Facts) -> Section:
    """Show the worth of each penalty, the upper bound, and what was chosen."""
    if facts.model is None:
        words = "The trade-off needs a cost model; it runs no simulation."
        return Section(missing=words, command=facts.command("plan"))
    if facts.trade is None:
        return Section(notes=[_NO_PRIOR])
    table, chosen = facts.trade
    if facts.sequential:
        return describe_tradeoff(facts, table, _describe_possible_saving(table))
    header, body = table.cells()
    word = "chosen" if facts.frozen else "default"
    marked = [[clean(cell) + (f" · {word}" if i == 0 and row is chosen else "") for i, cell in enumerate(line)]
              for row, line in zip(table, body, strict=True)]  # fmt: skip
    each, plain = (format_amount(value, clean(table.unit)) for value in (chosen.cost, table.prior_cost))
    how = "Chosen" if facts.frozen else "By default"
    lead = [
        f"{_describe_possible_saving(table)} A penalty makes runs cheaper, but each run counts less; the product of the"
        f" two is what a fixed budget buys. By the fitted cost, no penalty can raise it above the ceiling of"
        f" {table.ceiling:.2f}.",
        f"{how}: {clean(chosen.label)}. A run is expected to cost {each} instead of {plain} and counts as"
        f" {chosen.ess_fraction:.2f} runs: {chosen.saved_per_effective:.0%} saved per effective run.",
    ]
    what = (
        f"Gain against effective share for {len(table)} penalties with the ceiling {table.ceiling:.2f}, and effective"
        f" runs per unit of cost; {word}: {clean(chosen.label)}"
    )
    drawing = Drawing(_draw_chosen_tradeoff(table, chosen, word), "Trade-off between penalties", what)
    notes = [] if facts.frozen else [_NOT_FROZEN]
    return Section(lead, [drawing], [Grid(header, marked, mark=list(table).index(chosen))], notes)


def _draw_chosen_tradeoff(table: Tradeoff, chosen: Row, word: str) -> Figure:
    """Draw the trade-off with a ring around the chosen penalty."""
    figure = plots.tradeoff(table)
    left, right = figure.axes
    ring = {"ms": 13, "mfc": "none", "mew": 1.6, "color": "black"}
    left.plot(chosen.gain, chosen.ess_fraction, "o", label=word, **ring)
    add_legend(left, loc="upper right")
    place = list(table).index(chosen)
    right.annotate(
        word, (place, 0), (0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=8, rotation=90,
        color="white",
    )  # fmt: skip
    return figure


def _describe_possible_saving(table: Tradeoff) -> str:
    """State the largest possible saving."""
    varies, most = table.describe_range(), 1 - 1 / table.ceiling
    varies = varies[0].upper() + varies[1:]
    if not table.worthwhile:
        return f"{varies}: the best possible saving is {most:.1%}, so plain sampling is the default."
    saves = f"at most about {most:.0%} can be saved per effective run, by the square root of cost"
    measure = "The runs are the measure: they can save more or less, where the cost model is inexact."
    return f"{varies}: by the fitted cost, {saves}. {measure}"


def proposal_section(facts: Facts) -> Section:
    """Show the proposal against the prior, and the self-check."""
    if facts.part is None:
        words = "Nothing is planned beyond the pilot."
        return Section(missing=words, command=facts.command("run" if facts.done.any() else "plan"))
    if facts.known_prior is None:
        return Section(notes=[_NO_PRIOR])
    if facts.sequential:
        return describe_proposal(facts.parts[facts.part].kind)
    if facts.proposal is None:
        return Section(["Plain sampling was chosen: draws follow the prior and need no weights."])
    p_value = self_check(facts.proposal, seed=facts.settings.seed)
    lead = [
        "The proposal prefers cheap parameters; its weighted draws must follow the prior. The self-check"
        f" compares 50,000 weighted draws with the prior: p = {p_value:.2g} (a plan below 1e-6 is refused)."
    ]
    figure = plots.proposal(facts.proposal, n=8000)
    for ax, name in zip(figure.axes, facts.labels, strict=True):
        ax.set_xlabel(name, fontsize=9)
    what = f"Density of prior, proposal and weighted proposal for {', '.join(clean(name, 40) for name in facts.names)}"
    return Section(lead, [Drawing(figure, "Proposal, and weighted proposal, against the prior", what)])


def weights_section(facts: Facts, results: tuple[Result, ...]) -> Section:
    """Show the number of effective runs, over the prior and at the observation."""
    sims = facts.simulations
    if sims is None or not sims.ok.any():
        return Section(missing="No run has finished.", command=facts.command("run"))
    health = weight_health(sims)
    lead = [
        f"{len(sims):,} runs count as {health.ess:,.0f} ({health.ess_fraction:.0%}). The heaviest run holds"
        f" {health.largest:.1%} of all weight, the heaviest 1% hold {health.top_percent:.0%}; Pareto k"
        f" {health.pareto_k:.2f} (above 0.7 averages cannot be trusted"
        + ("" if health.max_share > 0.01 else f", unless weights are bounded, here at {health.max_share:.1g} of all")
        + ")."
    ]
    if facts.status.rounds:
        lead.append(
            "Most draws of rounds lie where the posterior is, so that they count as few over the whole prior. NLE and"
            " NRE are trained without weights; NPE, ABC and exports use them."
        )
    local = [c.get("reason", "") for r in results[-1:] for c in r.checks if c.get("name") == "local_ess"]
    lead += [f"At the observation: {clean(local[0], 300)}."] if local else []
    if np.ptp(sims.log_weights[np.isfinite(sims.log_weights)]) < 1e-9:
        return Section([*lead, "All weights are equal: these are draws from the prior."])
    what = f"Histogram of weights and cumulative share, heaviest first; ESS {health.ess:,.0f} of {len(sims):,}"
    return Section(lead, [Drawing(plots.weights(health), "Weights of the runs", what)])


def waterfall_section(facts: Facts, results: tuple[Result, ...]) -> Section:
    """Show the cost from plain sampling to what was spent: saving, failures, pilot, and inference in seconds."""
    saved = facts.status.saved
    main = facts.done & ~facts.pilot
    if saved is None or not main.any():
        words = "No planned run has finished: only the pilot has cost anything."
        return Section(missing=words, command=facts.command("run" if facts.done.any() else "plan"))
    runs = int(np.isfinite(np.where(facts.done, facts.charged, facts.table.predicted)).sum())
    steps = {f"{runs:,} plain runs": saved.plain, "saved": -saved.amount}  # as status, card and lead give them
    other = facts.status.spent - saved.spent
    if abs(other) > 1e-9 * saved.plain:  # the savings are those of the whole plan, at the last attempt of each run
        steps["not run yet" if facts.status.pending else "attempts run again"] = other
    parts = {
        "of which pilot": float(np.nansum(facts.charged[facts.done & facts.pilot])),
        "of which failed runs": float(np.nansum(facts.charged[main & ~facts.ok])),
    }
    seconds = sum_inference(facts, results)
    label = "inference" if len(results) == 1 else f"inference, {count_things(len(results), 'result')}"
    steps |= {label: seconds} if seconds >= LEAST_SECONDS and facts.unit == "s" else {}
    size, unit = _choose_scale(max(abs(value) for value in steps.values()), facts.unit)
    drawn = {name: value / size for name, value in steps.items()}
    figure = plots.waterfall(drawn, unit=as_label(unit), title="From plain sampling to what was spent")
    lead = _describe_spending(facts, saved, saved.plain / runs)
    notes = ["Runs are missing: these figures will change."] if facts.status.pending else []
    lines = [[name, format_amount(value, facts.unit)] for name, value in steps.items()]
    total = ["total", format_amount(sum(steps.values()), facts.unit)]
    within = [[name, format_amount(value, facts.unit)] for name, value in parts.items() if value]
    grid = Grid(["step", "cost"], [*lines, total, *within])
    words = "Cost waterfall: " + ", ".join(f"{name} {value}" for name, value in lines)
    return Section(lead, [Drawing(figure, "Cost waterfall", words, whole=True)], [grid], notes, beside=True)


def _describe_spending(facts: Facts, saved: Saved, each: float) -> list[str]:
    """Say what was spent, beside as many runs from the prior at `each`."""
    per = saved.spent / saved.effective
    pilot = bool(facts.pilot.any())
    lead = (
        f"Spent: {format_amount(saved.spent, facts.unit)}{', pilot included' if pilot else ''}. As many runs from the"
        f" prior would have cost about {format_amount(saved.plain, facts.unit)}:"
        f" {format_amount(saved.amount, facts.unit)} saved, {saved.share:.0%}."
    )
    if not facts.sequential:
        lead += (
            f" Per effective run: {format_amount(per, facts.unit)} against {format_amount(each, facts.unit)}"
            f" ({saved.per_effective:.0%} saved)."
        )
        lead += "".join(f" {words}" for words in facts.status.explain_surplus())
    included = "The cost of the pilot is included, and its runs are part of the weighted table."
    return [lead, included] if pilot else [lead]


def _choose_scale(largest: float, unit: str) -> tuple[float, str]:
    """Choose a factor and its unit that keep the numbers of a figure short."""
    unit = name_unit(unit)
    steps = (
        [(86400.0, "d"), (3600.0, "h"), (60.0, "min")]
        if unit == "s"
        else [(1e6, f"million {unit}"), (1e3, f"1000 {unit}")]
    )
    return next(((size, name) for size, name in steps if largest >= 2 * size), (1.0, unit))
