"""Limit the time of runs without bias: what happens to a run that passes its limit.

Dropping slow runs conditions the posterior on being fast. A limit therefore needs a policy:

- `lazy` (recommended): a coin per index, fixed at planning, lets a share a of the runs go without limit;
  those that pass the limit L and finish count 1/a times. With T the run's time,
      E[w f 1(T <= L)] + E[(w/a) f 1(T > L) 1(coin < a)] = E[w f],
  whatever the noise of T (after Prangle's lazy ABC, 2016). Limited runs that passed L have weight zero.
- `extend`: the same index and seed again with twice the limit, after the others, at most five times.
- `restrict`: the prior is declared to be restricted to parameters that finish; the table says no more than that.
- `weight`: finished runs count 1/P(finish | theta), learned; right only if time depends on theta alone.
- `stop`: the first time-out ends the campaign.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from thrifty.durations import Duration, read_seconds
from thrifty.errors import ConfigError
from thrifty.runner.seeds import flip_coin
from thrifty.types import Array

OnTimeout = Literal["lazy", "extend", "restrict", "weight", "stop"]
POLICIES: tuple[OnTimeout, ...] = get_args(OnTimeout)
LAZY_SHARE = (
    0.25  # a: one slow run in four is finished; 2.4 cost units against 3.5 without limit in theory.md's example
)
MAX_EXTENSIONS = 5  # doublings: a run 32 times the limit is a hang, not a slow run


@dataclass(frozen=True)
class TimeLimit:
    """A limit in seconds of wall time per run, and what to do with runs that pass it.

    Example:
        >>> limit = TimeLimit(60.0, "lazy")
        >>> [limit.seconds_for(seed=0, index=i) for i in range(6)]
        [60.0, 60.0, 60.0, None, 60.0, 60.0]
    """

    seconds: float
    on_timeout: OnTimeout
    share: float = LAZY_SHARE

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds < np.inf:
            raise ConfigError(
                f"time_limit must be a number of seconds above 0, got {self.seconds!r}", code="bad-setting"
            )
        if self.on_timeout not in POLICIES:
            got = "is not set" if self.on_timeout is None else f"= {self.on_timeout!r} is not known"
            raise ConfigError(
                f"time_limit = {self.seconds:g} s, but on_timeout {got}",
                code="conflicting-settings",
                why="dropping slow runs biases the posterior",
                fix=f"choose one of {', '.join(POLICIES)}; lazy is unbiased and needs no assumption",
            )
        if not 0 < self.share <= 1:
            raise ConfigError(f"the lazy share must lie in (0, 1], got {self.share}", code="bad-setting")

    def seconds_for(self, *, seed: int, index: int) -> float | None:
        """Return the limit of one index: None for the lazy share that runs to its end."""
        if self.on_timeout == "lazy" and flip_coin(seed, index) < self.share:
            return None
        return float(self.seconds)


def make_time_limit(time_limit: Duration | None, on_timeout: str | None) -> TimeLimit | None:
    """Return the limit a user asked for (60, "10 s", "5 min"), or None; one argument without the other is an error."""
    if time_limit is None:
        if on_timeout is not None:
            raise ConfigError(
                f"on_timeout = {on_timeout!r} without a time_limit",
                code="conflicting-settings",
                fix="give time_limit=...",
            )
        return None
    seconds = read_seconds(time_limit, "time_limit") if isinstance(time_limit, str) else time_limit
    return TimeLimit(seconds, on_timeout)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def read_policy(text: str) -> TimeLimit | None:
    """Return the limit under which a run was, from its text in the store; None where that is none of ours.

    Example:
        >>> read_policy('{"seconds": 60.0, "on_timeout": "stop", "share": 0.25}'), read_policy("[]")
        (TimeLimit(seconds=60.0, on_timeout='stop', share=0.25), None)
    """
    try:
        return TimeLimit(**json.loads(text))
    except (TypeError, ValueError, RecursionError, ConfigError):
        return None


def lazy_log_factor(status: np.ndarray, wall: Array, *, cut: Array, limit: Array, share: float) -> Array:
    """Return what a lazy limit adds to each log weight (n,).

    Args:
        status: Status of each run (n,).
        wall: Wall seconds of each run (n,).
        cut: Limit under which the run itself was, inf for the lazy share (n,).
        limit: L, the limit in force when it ran (n,), inf where there was none.
        share: a.
    """
    factor = np.zeros(len(wall))
    factor[(wall > limit) & np.isinf(cut)] = -np.log(share)
    factor[(status == "timeout") & np.isfinite(cut)] = -np.inf
    return factor
