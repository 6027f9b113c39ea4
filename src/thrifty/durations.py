"""Read durations as people write them, 90, "90 s", "40 min", "1.5 h", "2 d", and write amounts for people."""

from __future__ import annotations

import math
import re

import numpy as np

from thrifty.errors import ConfigError

SECONDS_PER_UNIT = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
Duration = float | str
_TEXT = re.compile(r"\s*([-+0-9.eE]+|\S*?)\s*([A-Za-z€$][\w€$-]*)?\s*")


def split_amount(text: object) -> tuple[float, str] | None:
    """Split "40 min" into number and unit; None where it is no amount.

    Example:
        >>> split_amount("40 min"), split_amount("7"), split_amount("soon")
        ((40.0, 'min'), (7.0, ''), None)
    """
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    try:
        return float(match[1]), match[2] or ""  # type: ignore[index]
    except (TypeError, ValueError):
        return None


def read_seconds(value: object, label: str) -> float:
    """Read wall seconds from a number of seconds or a text such as "40 min".

    Raises:
        ConfigError: bad-amount, it is not a time above 0.

    Example:
        >>> read_seconds("40 min", "deadline"), read_seconds(90, "deadline")
        (2400.0, 90.0)
    """
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        amount, factor = float(value), 1.0
    else:
        amount, unit = split_amount(value) or (0.0, "")
        factor = SECONDS_PER_UNIT.get(unit.lower(), 0.0)
    if not 0 < amount * factor < np.inf:
        raise ConfigError(
            f"{label} {value!r} is not a time above 0", code="bad-amount", fix='seconds, or a text: "40 min", "12 h"'
        )
    return amount * factor


def format_amount(value: float | None, unit: str) -> str:
    """Write a cost for people: three figures, no powers of ten; seconds become milliseconds, minutes, hours or days.

    Reported costs without a unit of their own are called units.

    Example:
        >>> format_amount(5400, "s"), format_amount(147_321, "events"), format_amount(0.01234, "eur")
        ('1.5 h', '147,000 events', '0.0123 eur')
        >>> format_amount(1, "events"), format_amount(1880, "reported"), format_amount(0.0042, "s")
        ('1 event', '1,880 units', '4.2 ms')
    """
    if value is None:
        return "?"
    if unit not in ("s", "cpu-s"):
        number = _round_figures(value)
        return f"{number} {name_unit(unit, number)}"
    size, word = choose_unit(value, unit)
    return f"{value / size:.3g} {word}"


def choose_unit(value: float, unit: str) -> tuple[float, str]:
    """Choose the unit in which a cost is short, for a text or all numbers of an axis: its size, and its name.

    Example:
        >>> choose_unit(5400, "s"), choose_unit(0.0042, "s"), choose_unit(5400, "events")
        ((3600.0, 'h'), (0.001, 'ms'), (1.0, 'events'))
    """
    if unit not in ("s", "cpu-s"):
        return 1.0, name_unit(unit)
    for size, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(value) >= size:
            return size, word
    for most, size, word in ((1e-4, 1e-6, "µs"), (0.1, 1e-3, "ms")):
        if 0 < abs(value) < most:
            return size, word
    return 1.0, "s"


def format_kind(value: float | None, unit: str, kind: str) -> str:
    """Write a cost for people with its kind, where other kinds of seconds stand beside it ("" for none).

    Example:
        >>> format_kind(7.55, "s", "CPU time"), format_kind(12, "events", "")
        ('7.55 s of CPU time', '12 events')
    """
    return format_amount(value, unit) + (f" of {kind}" if kind else "")


def name_unit(unit: str, number: str = "") -> str:
    """Name a unit of cost for people, after the number 1 in the singular.

    Example:
        >>> name_unit("events", "1"), name_unit("events", "2"), name_unit("reported"), name_unit("gas", "1")
        ('event', 'events', 'units', 'gas')
    """
    word = "units" if unit == "reported" else unit
    is_plural = len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if number == "1" and is_plural else word


def _round_figures(value: float) -> str:
    """Write a number with three figures, and its thousands apart."""
    if value == 0 or not 1e-6 < abs(value) < 1e12:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(share: float) -> str:
    """Write a share in percent with two figures, without powers of ten.

    Example:
        >>> format_percent(1.0), format_percent(0.0437), format_percent(0.00123), format_percent(0.996)
        ('100%', '4.4%', '0.12%', '99.6%')
    """
    percent = 100 * share
    return f"{percent:.3g}%" if percent >= 10 else f"{percent:.2g}%"
