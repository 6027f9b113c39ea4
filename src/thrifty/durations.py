"""Read durations as people write them: 90, "90 s", "40 min", "1.5 h", "2 d"."""

from __future__ import annotations

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
