"""What is asked of a method or a posterior: a table to fit, a number of draws, a seed. No torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from thrifty.errors import ConfigError, DataError
from thrifty.types import Simulations


def check_fit(simulations: Any, seed: Any) -> None:
    """Refuse what is not a table of simulations, and a seed that cannot be repeated.

    Raises:
        DataError: bad-array, not a table.
        ConfigError: bad-setting, not a seed.
    """
    if not isinstance(simulations, Simulations):
        raise DataError(
            f"fit needs a table of simulations, got {type(simulations).__name__}",
            code="bad-array",
            fix="th.Simulations.from_arrays(theta=..., x=...), or campaign.simulations()",
        )
    check_seed(seed)


def check_draws(n: Any, seed: Any) -> None:
    """Refuse numbers of draws and seeds that are not whole numbers of at least 0.

    Raises:
        ConfigError: bad-setting, bad-setting.
    """
    if not _whole(n):
        raise ConfigError(f"n = {n!r} draws, expected a whole number of at least 0", code="bad-setting")
    check_seed(seed)


def check_seed(seed: Any) -> None:
    """Refuse an unseeded draw: it cannot be repeated.

    Raises:
        ConfigError: bad-setting.
    """
    if not _whole(seed):
        raise ConfigError(f"seed = {seed!r}, expected a whole number of at least 0", code="bad-setting")


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0
