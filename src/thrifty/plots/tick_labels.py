"""Write the numbers along an axis as short as they can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def format_ticks(values: Sequence[float]) -> list[str]:
    """Write numbers as short as they can be told apart.

    Example:
        >>> format_ticks([0, 20000, 40000]), format_ticks([0.0, 0.5, 1.0]), format_ticks([1000.01, 1000.02])
        (['0', '2e4', '4e4'], ['0', '0.5', '1'], ['1000.01', '1000.02'])
    """
    for digits in range(1, 16):
        texts = [_format_short(float(value), digits) for value in values]
        if [float(text) for text in texts] == [float(f"{value:.12g}") for value in values]:
            return texts
    return [f"{value:g}" for value in values]


def _format_short(value: float, digits: int) -> str:
    plain = f"{value:.{digits}g}"
    if "e" not in plain:
        return plain
    mantissa, exponent = plain.split("e")
    power = int(exponent)
    written = np.format_float_positional(float(plain), trim="-")  # 100 rather than 1e2
    return written if -3 <= power <= 3 else f"{mantissa}e{power}"
