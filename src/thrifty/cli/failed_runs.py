"""Say on the command line why runs failed, with one of each kind to repeat."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from thrifty.display import count_things

MAX_CAUSES = 3  # that are listed
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")


def accept_failures(method: Any, max_failed: float) -> Any:
    """Return the method as it treats failures of which more than usual are allowed.

    NPE and ABC take the runs that finished. NLE and NRE would refuse them: they multiply by P(valid | theta) instead.
    """
    from thrifty.inference.checks import MAX_FAILED_MASS

    has_choice = getattr(method, "failures", None) == "refuse"
    return replace(method, failures="model") if has_choice and max_failed > MAX_FAILED_MASS else method


def describe_failures(campaign: Any) -> tuple[str, int | None]:
    """Describe the failed runs of a campaign in one line, "" if there is none, and return the index of one of them."""
    from thrifty.store.sums import common_shape

    with campaign.session.reading(check_draws=False) as opened:
        shape = common_shape(opened.store)
        rows = opened.store.query(
            "SELECT idx, status, shape, error FROM runs WHERE status != 'ok' OR shape != ? ORDER BY idx", shape
        )
    if not rows:
        return "", None
    groups: dict[str, list[tuple[int, str]]] = {}
    for index, status, found, error in rows:
        cause = _describe_cause(str(status), found, shape, str(error or ""))
        groups.setdefault(_NUMBER.sub("#", cause), []).append((int(index), cause))
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    first = ordered[0][0]
    listed = [f"{f'{len(group):,} ' if len(ordered) > 1 else ''}{group[0][1]}" for group in ordered[:MAX_CAUSES]]
    more = len(rows) - sum(len(group) for group in ordered[:MAX_CAUSES])
    causes = "; ".join([*listed, *([f"{more:,} others"] if more else [])])
    example = f"(for example run {first[0]}: thrifty replay {first[0]})"
    return f"{count_things(len(rows), 'run')} failed: {causes} {example}", first[0]


def _describe_cause(status: str, found: str | None, shape: str | None, error: str) -> str:
    """Return the last line of the error, or what else was wrong."""
    if status == "ok":
        return f"returned {_describe_shape(found)}, the others {_describe_shape(shape)}"
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    printable = "".join(letter for letter in (lines[-1] if lines else status) if letter.isprintable())
    return printable[:120]


def _describe_shape(text: str | None) -> str:
    """Write a shape of the store in words.

    Example:
        >>> _describe_shape("3"), _describe_shape("2,3")
        ('3 values', '2 x 3 values')
    """
    sizes = [size for size in (text or "").split(",") if size]
    return f"{' x '.join(sizes) or 1} value{'' if sizes in ([], ['1']) else 's'}"
