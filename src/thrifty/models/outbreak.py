"""What the two SIR models in continuous time report: final size, duration, removals per bin."""

from __future__ import annotations

import numpy as np

from thrifty.errors import ConfigError
from thrifty.models.compiled import kernel
from thrifty.types import Array


def outbreak_names(bins: int) -> tuple[str, ...]:
    """Return names of the statistics, in order."""
    return ("final_size", "duration", *(f"removals_{b + 1}" for b in range(bins)))


@kernel
def outbreak_statistics(times: Array, removals: int, bins: int) -> Array:
    """Final size, duration T and removals in each of `bins` equal parts of [0, T].

    The last event of an outbreak is a removal, so T is the last of the removal times. Bins are open on the
    right but for the last, which holds T itself; so a first case that infects nobody is one removal in the
    last bin. If T is 0 (a waiting time may round to it), all removals are at T.
    """
    x = np.zeros(2 + bins)
    end = times[removals - 1]
    x[0], x[1] = removals, end
    for r in range(removals):
        place = bins - 1
        if times[r] < end:
            place = min(int(times[r] / end * bins), bins - 1)
        x[2 + place] += 1
    return x


def check_settings(population: int, bins: int) -> None:
    """At least one susceptible and one bin."""
    if not isinstance(population, int | np.integer) or population < 2:
        raise ConfigError(f"population must be a whole number >= 2, got {population!r}", code="bad-setting")
    if not isinstance(bins, int | np.integer) or bins < 1:
        raise ConfigError(f"bins must be a whole number >= 1, got {bins!r}", code="bad-setting")
