"""Simulators of the golden tests. Folders keep a fingerprint of this source: never change a function here."""

from __future__ import annotations

import time

import numpy as np

import thrifty as th

PRIOR = th.Uniform([0.0, 1.0], [1.0, 3.0], names=["beta", "gamma"])
X_O = np.array([0.4, 2.2])


def events(theta, rng):
    """Two statistics; reports a cost that does not depend on the machine."""
    x = [theta[0] + 0.2 * rng.normal(), theta[1] + 0.4 * rng.normal()]
    return th.Output(x, cost=float(1.0 + 9.0 * theta[0] ** 2 + 0.1 * rng.random()))


def failing(theta, rng):
    """Raises for some runs, returns no number for others."""
    u = rng.random()
    if u < 0.1:
        raise ValueError("no mesh")
    return [np.nan if u < 0.2 else theta[0] + rng.normal(), theta[1]]


def slow(theta, rng):
    """Instant, or two seconds asleep: nothing between, so that a limit of one second cuts the same runs everywhere."""
    if theta[0] > 0.7:
        time.sleep(2.0)
    return [theta[0] + rng.normal()]
