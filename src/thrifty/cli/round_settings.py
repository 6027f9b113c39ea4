"""Find the settings that rounds do not take, in `thrifty.toml` and on the command line."""

from __future__ import annotations

from thrifty.cli.config_errors import Problems
from thrifty.cli.config_tables import METHODS, ROUND_METHODS, InferSettings, PlanSettings, RunSettings


def check_rounds(infer: InferSettings, plan: PlanSettings, run: RunSettings, problems: Problems) -> None:
    """Note the settings of a file that cannot be used in rounds, where it asks for rounds."""
    if infer.rounds is None:
        return
    for at, what, fix in find_conflicts(infer, plan, run):
        problems.add(what, at=at, code="conflicting-settings", fix=fix)


def find_conflicts(infer: InferSettings, plan: PlanSettings, run: RunSettings) -> list[tuple[str, str, str]]:
    """Find (place, what, fix) of each setting that rounds do not take; an unknown method is reported elsewhere."""
    found = []
    if infer.method in METHODS and infer.method not in ROUND_METHODS:
        fix = "method = " + ", ".join(f'"{name}"' for name in ROUND_METHODS[:-1]) + f' or "{ROUND_METHODS[-1]}"'
        found.append(("infer.method", f'method = "{infer.method}" cannot be used in rounds', fix))
    if plan.mixture:
        what = "mixture cannot be used in rounds: they choose where to draw themselves"
        found.append(("plan.mixture", what, "penalty = 0.5, or no rounds"))
    if run.time_limit is not None:
        what = "time_limit cannot be used in rounds: all runs of a round finish before the next one is drawn"
        found.append(("run.time_limit", what, "no time_limit, or no rounds"))
    if run.deadline:
        what = "deadline cannot be used in rounds"
        found.append(("run.deadline", what, 'budget = "40 min" under [plan]; stop and continue it at any time'))
    return found
