"""What a run costs, for whatever the user brought: a campaign, a model that counts operations, or a simulator."""

from __future__ import annotations

from typing import Any

from thrifty.errors import ConfigError
from thrifty.sequential.reported_runs import ReportedRuns
from thrifty.sequential.spending import Money, kind_for


def accounted(simulator: Any, budget: float | str | None, *, engine: Any, slots: int) -> tuple[Any, Money]:
    """The simulator, in memory made to tell its cost, and in what its cost is counted.

    In a campaign the campaign's own `cost`, `unit` and `price` count. In memory, `th.Output(cost=...)` counts where the
    simulator gives it and CPU seconds where not; a budget given in CPU or elapsed time asks for that. A model's
    `simulate_many` counts in its own unit.
    """
    from thrifty.campaign.campaign import Campaign

    if isinstance(simulator, Campaign):
        return simulator, _of_campaign(simulator, slots)
    if hasattr(simulator, "simulate_many"):
        unit = "operations"  # as the bundled models count; a runner of one's own may name another
        unit = str(getattr(simulator, "unit", unit))
        return simulator, Money("reported", unit=unit, slots=slots)
    kind = kind_for(budget)
    if kind == "reported":
        raise ConfigError(f"budget {budget!r} is not a time", code="bad-amount", fix='"2 cpu-h", "40 min" or a number')
    runs = ReportedRuns(simulator, engine, None if kind is None else ("cpu" if kind == "cpu" else "wall"))
    return runs, Money(kind or "", slots=slots)


def _of_campaign(campaign: Any, slots: int) -> Money:
    from thrifty.campaign.planner import cost_kind
    from thrifty.store.store import Store

    store = Store.open(campaign.folder, readonly=True)
    try:
        settings = store.settings()
    finally:
        store.close()
    kind, scale = cost_kind(settings, campaign.price)
    return Money(kind, scale, settings.get("unit") or "", campaign.price, slots)
