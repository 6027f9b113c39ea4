"""Write the numbers along an axis as short as they can be told apart, and break names that are too long for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

MAX_LINES = 3  # of a name


def format_ticks(values: Sequence[float]) -> list[str]:
    """Write numbers as short as they can be told apart.

    Example:
        >>> format_ticks([0, 20000, 40000]), format_ticks([0.0, 0.5, 1.0]), format_ticks([1000.01, 1000.02])
        (['0', '2e4', '4e4'], ['0', '0.5', '1'], ['1000.01', '1000.02'])
        >>> format_ticks([-1.0, -0.0])
        ['-1', '0']
    """
    values = [float(value) + 0.0 for value in values]  # not "-0", which matplotlib passes where a scale crosses zero
    for digits in range(1, 16):
        texts = [_format_short(value, digits) for value in values]
        if [float(text) for text in texts] == [float(f"{value:.12g}") for value in values]:
            return texts
    return [f"{value:g}" for value in values]


def format_log_ticks(values: Sequence[float], ends: tuple[float, float]) -> list[str]:
    """Write numbers of a logarithmic axis: plain where all between its ends are short, else all with powers of ten.

    Example:
        >>> format_log_ticks([0.05, 1, 2000], (0.05, 2000)), format_log_ticks([1e-6, 1, 20], (1e-6, 20))
        (['0.05', '1', '2,000'], ['1e-6', '1e0', '2e1'])
    """
    if ends[0] >= 1e-3 and ends[1] < 1e6:
        return [f"{value:,.0f}" if value >= 1000 else f"{value:g}" for value in values]
    parts = [f"{value:e}".split("e") for value in values]
    return [f"{float(mantissa):g}e{int(power)}" for mantissa, power in parts]


def _format_short(value: float, digits: int) -> str:
    plain = f"{value:.{digits}g}"
    if "e" not in plain:
        return plain
    mantissa, exponent = plain.split("e")
    power = int(exponent)
    written = np.format_float_positional(float(plain), trim="-")  # 100 rather than 1e2
    return written if -3 <= power <= 3 else f"{mantissa}e{power}"


def break_name(name: str, most: int) -> str:
    r"""Break a name into lines of at most `most` characters, after an underscore, a hyphen or a space.

    Example:
        >>> break_name("infection_rate_of_the_second_strain", 16), break_name("beta", 16), break_name("x" * 20, 8)
        ('infection_rate_\nof_the_second_\nstrain', 'beta', 'xxxxxxx…')
    """
    if len(name) <= most:
        return name
    lines = [""]
    for piece in re.split(r"(?<=[_\s-])", name):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    cut = len(lines) > MAX_LINES
    lines = [line.strip() for line in lines[:MAX_LINES]]
    if cut:
        lines[-1] += "…"
    return "\n".join(line if len(line) <= most else line[: most - 1] + "…" for line in lines)
