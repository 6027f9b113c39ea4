"""The command line makes the checks that fit into the time limit; it leaves none out because of an estimate."""

from __future__ import annotations

import time
from types import SimpleNamespace

from thrifty.cli.finish_study import TIME_LIMIT_SECONDS, run_checks


class Screen:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    def step(self, label, text):
        self.lines.append(f"{label}  {text}")


class SlowFirst:
    """A posterior whose first call takes long, as a Markov chain that finds its place."""

    def sample(self, n, x_o, seed):
        time.sleep(1.1)  # times 300 data sets: more than five minutes


def make_study():
    limits = []
    study = SimpleNamespace(
        posterior=SlowFirst(), x_o=[0.5], seed=0, diagnose=lambda *, time_limit: limits.append(time_limit)
    )
    return study, limits


def test_slow_posteriors_are_checked_as_far_as_time_allows():
    study, limits = make_study()
    screen = Screen()
    assert run_checks(study, screen, patient=False) is True
    assert limits == [TIME_LIMIT_SECONDS] == [60.0]
    assert "left out" not in " ".join(screen.lines)
    assert "60 s" in screen.lines[0]
    assert "reach" not in screen.lines[0]


def test_all_checks_have_no_limit():
    study, limits = make_study()
    assert run_checks(study, Screen(), patient=True) is True
    assert limits == [None]
