"""The table of penalties that quote and plan show: what each costs, saves and is worth, with the best and the chosen.

Text is at most `MAX_TEXT_WIDTH` characters wide, so that a terminal does not wrap it; a notebook shows all columns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thrifty.display import align_columns, format_share
from thrifty.durations import format_amount
from thrifty.tradeoff import Row, Tradeoff

MAX_TEXT_WIDTH = 100  # characters: terminals of 100 columns are common
MAX_LABEL_WIDTH = 24  # of a penalty in text: functions of users have long names
POOR_PRODUCT = 0.9  # gain times effective share below which a penalty is worse than plain sampling, and not advised
MAX_SECONDS = 3.2e9  # a century: an end beyond it is not a date
_SECONDS_PER_DAY = 86_400.0
_DROPPED_FIRST = ("ends", "saved", "effective")  # columns that text can do without, where it would be too wide


@dataclass(frozen=True)
class Column:
    """A column that only some tables have: its heading, and its cell for a row."""

    heading: str
    write: Callable[[Row], str]


def list_penalties(
    table: Tradeoff, chosen: Row | None, columns: Sequence[Column] = (), *, unit: str, kind: str = ""
) -> tuple[list[str], list[list[str]]]:
    """Return header and body: one row per penalty; the last column names the best and the chosen one."""
    cost = f"cost/run ({kind})" if kind else "cost/run"
    effective = "valid, eff." if table.avoids_failures else "effective"
    header = ["penalty", cost, "saved", effective, "saved/eff. run", *(column.heading for column in columns), ""]
    body = []
    for row in table:
        shares = [format_share(one) for one in (row.saved, row.ess_fraction, row.saved_per_effective)]
        more = [column.write(row) for column in columns]
        body.append([row.label, format_amount(row.cost, unit), *shares, *more, _remark(table, row, row is chosen)])
    return header, body


def write_penalties(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Align the table as text; columns that say the least are left out where it would be too wide.

    Example:
        >>> print(write_penalties(["penalty", "saved", "ends", ""], [["k = 0.5", "45%", "12:30", "best " + "x" * 75]]))
        penalty  saved
        k = 0.5    45%  best xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    """
    rows = [list(header), *([_cut(line[0]), *line[1:]] for line in body)]
    for name in _DROPPED_FIRST:
        text = align_columns(rows[0], rows[1:])
        if max(map(len, text.splitlines())) <= MAX_TEXT_WIDTH:
            return text
        if name in rows[0]:
            at = rows[0].index(name)
            rows = [line[:at] + line[at + 1 :] for line in rows]
    return align_columns(rows[0], rows[1:])


def find_place(table: Tradeoff, row: Row | None) -> int | None:
    """Find where a row stands in its table."""
    return next((i for i, one in enumerate(table) if one is row), None)


def describe_self_test(p_value: float, threshold: float, *, is_plain: bool) -> str:
    """Say in words what the self-test found.

    Example:
        >>> describe_self_test(0.047, 1e-6, is_plain=False)
        'weighted draws reproduce the prior: yes (p = 0.047; a fault shows below 1e-6)'
    """
    what = "weighted draws reproduce the prior"
    if is_plain:
        return f"{what}: plain draws need no weights"
    answer, limit = "yes" if p_value > threshold else "no", f"{threshold:.0e}".replace("e-0", "e-")
    return f"{what}: {answer} (p = {p_value:.2g}; a fault shows below {limit})"


def write_end(now: float, seconds: float) -> str:
    """Write when some seconds from now are over: the time of day, with the weekday, or the date of a later week."""
    if math.isnan(seconds):
        return "unknown"
    if seconds > MAX_SECONDS:
        return "never"
    end, today = time.localtime(now + seconds), time.localtime(now)
    if end.tm_yday == today.tm_yday and end.tm_year == today.tm_year:
        return time.strftime("%H:%M", end)
    return time.strftime("%a %H:%M" if seconds < 6 * _SECONDS_PER_DAY else "%Y-%m-%d", end)


def _remark(table: Tradeoff, row: Row, is_chosen: bool) -> str:
    words = ["best"] if row is table.best and row.product > 1.01 else []
    words += ["not advised"] if row.product < POOR_PRODUCT else []
    return " ".join([", ".join(words), *(["<- chosen"] if is_chosen else [])]).strip()


def _cut(label: str) -> str:
    return label if len(label) <= MAX_LABEL_WIDTH else label[: MAX_LABEL_WIDTH - 1] + "…"
