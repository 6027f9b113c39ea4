"""A duration as people write it, wherever one is taken."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.durations import format_amount, read_seconds
from thrifty.errors import ConfigError
from thrifty.runner.time_limits import make_time_limit


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(90, 90), (np.float32(1.5), 1.5), ("10 s", 10), ("1.5 h", 5400), ("2 days", 172800), ("3min", 180)],
)
def test_texts_and_numbers(value, seconds):
    assert read_seconds(value, "time_limit") == seconds


@pytest.mark.parametrize("value", [0, -1, "10", "soon", "-3 s", "2 cpu-h", "5 eur", None, True, np.inf, "inf s"])
def test_what_is_not_a_time(value):
    with pytest.raises(ConfigError, match="is not a time above 0") as caught:
        read_seconds(value, "time_limit")
    assert caught.value.code == "bad-amount"


def test_everything_with_a_time_limit_takes_a_text(tmp_path):
    limit = make_time_limit("2 min", "lazy")
    assert limit is not None and limit.seconds == 120
    assert th.Training(time_limit="10 min").time_limit == 600
    sims = th.simulate(lambda theta: theta, [[1.0]], workers=1, time_limit="10 s", on_timeout="lazy", progress="quiet")
    assert sims.ok.all()
    c = th.Campaign(tmp_path / "c", lambda theta, rng: theta + rng.normal(), th.Uniform(0, 1))
    c.pilot(10, workers=1, time_limit="10 s", on_timeout="lazy", progress="quiet")
    c.run(workers=1, time_limit="10 s", on_timeout="lazy", deadline="5 min", progress="quiet")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1, "events", "1 event"), (1.004, "steps", "1 step"), (0.5, "events", "0.5 events"), (1, "gas", "1 gas"),
     (1, "eur", "1 eur"), (1880, "reported", "1,880 units"), (1, "reported", "1 unit"), (90, "s", "1.5 min"),
     (0.0000404, "s", "40.4 µs"), (0.00718, "s", "7.18 ms"), (0.1, "s", "0.1 s"), (0.0, "s", "0 s")],
)  # fmt: skip
def test_units_agree_with_their_number(value: float, unit: str, text: str):
    assert format_amount(value, unit) == text
