"""`thrifty plan`: pilot, cost model, the quote; stops before spending, and may be repeated with other settings."""

from __future__ import annotations

from typing import Any

from thrifty.cli.options import Changed, Config, Folder, Json, Quiet, Workers


def plan(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    accept_changed_simulator: Changed = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Time a pilot and quote every penalty.

    Fits the cost, tests the weights, and commits nothing: change thrifty.toml and plan again.
    """
    from thrifty.campaign.quote import make_quote, quote_text, recommendation
    from thrifty.cli.output import Screen
    from thrifty.cli.project import begin, check_workers, configured, next_run, pilot

    screen = Screen(quiet, json)
    check_workers(workers)
    target = configured(folder, config)
    session = begin(target, screen, workers=workers, accept_changed=accept_changed_simulator)
    pilot(session)
    quote = make_quote(target.folder, target.settings, workers=session.run.workers)
    _told(screen, quote)
    screen.data(quote_text(quote))
    screen.say(recommendation(quote))
    screen.say(_total(quote))
    screen.result(_as_dict(quote))
    screen.next(next_run(target.folder))
    return 0


def _told(screen: Any, quote: Any) -> None:
    from thrifty.cli.output import figure

    p, unit = quote.pilot, quote.unit
    spread = f", each {figure(p.low, unit)} to {figure(p.high, unit)} ({p.high / p.low:,.0f}x)" if p.low > 0 else ""
    screen.step("pilot", f"{p.n} runs, {p.failed} failed, {figure(p.spent, unit)} in all{spread}")
    screen.step("cost", str(quote.fitted))
    plain = "plain draws need no weights" if quote.chosen.k == 0 else f"p = {quote.p_value:.2g}  ok"
    screen.step("self-test", f"weighted draws reproduce the prior: {plain}")
    screen.say()


def _total(quote: Any) -> str:
    from thrifty.cli.output import figure

    row, unit = quote.chosen, quote.unit
    runs = quote.runs(row)
    effective = f"{runs * row.ess_fraction:,.0f} effective"
    total, plain = figure(runs * row.cost, unit), figure(runs * quote.table.prior_cost, unit)
    budget = ""
    if quote.budget is not None:
        enough = f"pays for {runs:,} of {quote.n:,} runs" if quote.limited else "is enough"
        part = quote.pilot.taken / quote.budget.amount
        budget = f", budget {quote.budget.text} {enough} ({quote.pilot.payers} took {part:.0%})"
    return f"for {runs:,} runs ({effective}): {total} (plain {plain}) with {quote.workers} workers{budget}"


def _as_dict(quote: Any) -> dict[str, Any]:
    rows = [
        {
            "penalty": row.label, "k": row.k, "cost_per_run": row.cost, "saved": row.saved,
            "effective": row.ess_fraction, "cost_per_effective_run": row.cost_per_effective,
            "saved_per_effective": row.saved_per_effective, "runs": quote.runs(row),
            "total": quote.runs(row) * row.cost, "seconds": quote.seconds(row),
            "price": quote.money_of(row) if quote.price else None, "chosen": row is quote.chosen,
            "best": row is quote.table.best,
        }
        for row in quote.table
    ]  # fmt: skip
    return {
        "rows": rows, "unit": quote.unit, "ceiling": quote.table.ceiling, "self_check_p": quote.p_value,
        "cost_model_score": quote.fitted.score, "pilot_runs": quote.pilot.n, "pilot_failed": quote.pilot.failed,
        "pilot_cost": quote.pilot.spent, "worthwhile": quote.table.worthwhile, "limited_by_budget": quote.limited,
    }  # fmt: skip
