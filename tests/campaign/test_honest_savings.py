"""Runs that a time limit ended are not savings: plain draws would have met the same limit."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.runner.snapshot import Snapshot


def snapshot(n, rng, *, power, limited):
    """n runs under draws with density proportional to cost^-power; those above 3 s are ended and took no CPU time."""
    theta = rng.exponential(size=20 * n)
    cost = 1 + theta
    keep = rng.random(len(cost)) < cost**-power
    cost = cost[keep][:n]
    late = cost > 3
    drawn = power * np.log(cost)
    status = np.where(late, "timeout", "ok").astype("<U8")
    full = np.where(late, -np.inf, drawn)
    paid = np.where(late, 0.01, cost)
    return Snapshot(status, paid, np.ones(len(cost)), full, drawn if limited else None)


def test_plain_draws_under_a_limit_save_nothing():
    rng = np.random.default_rng([ord(c) for c in "plain draws"])
    saved = snapshot(400, rng, power=0.0, limited=True).sum_up().estimate_savings()
    assert saved is not None and saved.amount == pytest.approx(0.0, abs=1e-9) and saved.share == pytest.approx(0.0)
    late = snapshot(400, np.random.default_rng(1), power=0.0, limited=True)
    assert late.sum_up().estimate_savings().effective == pytest.approx((late.status == "ok").sum())
    mutant = snapshot(400, rng, power=0.0, limited=False).sum_up().estimate_savings()  # the limit's weights were used
    assert mutant is not None and mutant.share > 0.05


def test_what_a_penalty_saves_is_still_seen():
    rng = np.random.default_rng([ord(c) for c in "penalty"])
    saved = snapshot(4000, rng, power=1.0, limited=True).sum_up().estimate_savings()
    plain = snapshot(4000, rng, power=0.0, limited=True)
    truth, se = plain.cost.mean(), plain.cost.std() / np.sqrt(4000)
    assert saved is not None and abs(saved.plain / 4000 - truth) < 5 * np.hypot(
        se, (saved.high - saved.low) / 3.92 / 4000
    )
