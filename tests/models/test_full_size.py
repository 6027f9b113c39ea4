"""The paper's sizes against the slow oracles, and the promised speed: minutes, so not in the fast suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thrifty as th

from .conftest import runs_of, smallest_p

CASES = {
    "homogeneous": (th.models.HomogeneousSIR, "homogeneous_sir", [(1.3,), (5.0,)], 400),
    "temporal": (th.models.TemporalSIR, "temporal_sir", [(0.5, 0.5), (0.9, 0.15), (0.4, 0.3)], 1500),
    "bernoulli": (th.models.BernoulliSIR, "bernoulli_sir", [(0.5, 0.5, 0.5), (0.1, 1.0, 0.1)], 300),
    "radio": (th.models.Radio, "radio", [(4e-9, 7e-9, 1e9, 3e-10)], 120),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_same_law_as_the_plain_loop_at_the_papers_size(name, oracles, rng, seed):
    make, oracle, thetas, n = CASES[name]
    for theta in thetas:
        fast = make().simulate_many(np.tile(theta, (5 * n, 1)), seed, workers=2).x
        assert smallest_p(fast, runs_of(getattr(oracles, oracle), theta, n, rng)) > 1e-3


@pytest.mark.slow
def test_the_promised_speed():
    script = Path(__file__).parents[2] / "benchmarks" / "models.py"
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
