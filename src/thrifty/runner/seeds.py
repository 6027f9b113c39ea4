"""Derive every random number of a campaign from (campaign seed, stage, index).

    stream = SeedSequence(entropy=seed, spawn_key=(stage, index))

The number of the attempt, the worker and the order of runs are not in the key, so a run that is
repeated after a crash gives the same answer, and the table does not depend on who computed it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

CANDIDATES, ACCEPT, NOISE, LAZY, TRAINING, SPLIT = range(6)
_MASK = (1 << 31) - 1


def make_stream(seed: int, stage: int, index: int) -> np.random.SeedSequence:
    """Return the seed sequence of one stage of one index.

    Example:
        >>> int(make_stream(7, NOISE, 3).generate_state(1)[0]) == int(make_stream(7, NOISE, 3).generate_state(1)[0])
        True
    """
    return np.random.SeedSequence(entropy=seed, spawn_key=(stage, index))


def flip_coin(seed: int, index: int) -> float:
    """Return the coin of an index for lazy time limits: one uniform number in [0, 1), fixed at planning."""
    return float(make_stream(seed, LAZY, index).generate_state(1, np.uint64)[0] >> np.uint64(11)) / (1 << 53)


@lru_cache(maxsize=64)
def _key(seed: int) -> int:
    return int(make_stream(seed, NOISE, 0).generate_state(1)[0])


def program_seed(seed: int, index: int) -> int:
    """Return a 31-bit seed for programs that take a number, different for each index below 2^31.

    A keyed bijection of the index (odd multiplications and shifts modulo 2^31), not a hash: random
    31-bit seeds would give about two clashes in 100,000 runs.

    Example:
        >>> len({program_seed(0, i) for i in range(1000)})
        1000
    """
    value = (index + _key(seed)) & _MASK
    for multiplier, shift in ((0x2545F491, 15), (0x5851F42D, 13)):
        value = (value * multiplier) & _MASK
        value ^= value >> shift
    return value
