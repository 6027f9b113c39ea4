"""Say on the command line why runs failed, with one of each kind to repeat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thrifty.display import count_things


def accept_failures(method: Any, max_failed: float) -> Any:
    """Return the method as it treats failures of which more than usual are allowed.

    NPE and ABC take the runs that finished. NLE and NRE would refuse them: they multiply by P(valid | theta) instead.
    """
    from thrifty.inference.checks import MAX_FAILED_MASS

    has_choice = getattr(method, "failures", None) == "refuse"
    return replace(method, failures="model") if has_choice and max_failed > MAX_FAILED_MASS else method


def describe_failures(campaign: Any) -> tuple[str, int | None]:
    """Describe the failed runs of a campaign in one line, "" if there is none, and return the index of one of them."""
    from thrifty.runner.causes import list_causes
    from thrifty.store.sums import common_shape, find_causes

    with campaign.session.reading(check_draws=False) as opened:
        causes = find_causes(opened.store, common_shape(opened.store))
    if not causes:
        return "", None
    first = causes[0].index
    example = f"(for example run {first}: thrifty replay {first})"
    runs = count_things(sum(cause.count for cause in causes), "run")
    return f"{runs} failed: {list_causes(causes)} {example}", first
