"""The normal law behind the problem `radio` against runs of the radio model itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thrifty.benchmark import find_problem
from thrifty.benchmark.problems.radio_channel import UNITS, from_normal, read_law, to_normal, write_law
from thrifty.models.radio import Radio

pytest.importorskip("numba")
RECORD = Path(__file__).parents[3] / "benchmarks" / "records" / "radio_law.json"
RUNS = 300


@pytest.fixture(scope="module")
def runs():
    """Runs of the model at prior draws: theta in the units of the problem, statistics, operations."""
    theta = find_problem("radio").prior.sample(RUNS, np.random.default_rng(77))
    sims = Radio().simulate_many(theta * UNITS, 78)
    return theta, sims.x, sims.cost


def test_the_law_is_that_of_the_model(runs):
    """Standardised residuals of fresh runs: mean 0 and mean square 1, up to what the record says of the law."""
    theta, x, _ = runs
    law, centre, scale = read_law()
    recorded = np.array(json.loads(RECORD.read_text())["residuals"]["mean_square"])
    assert (np.abs(recorded - 1) < 0.12).all()

    def score(at):
        noise = law.standardise(np.log(at), (to_normal(x) - centre) / scale)
        error = np.sqrt((np.square(noise).mean(0), np.square(noise).var(0)))
        return np.vstack([noise.mean(0) / error[0], (np.square(noise).mean(0) - recorded) / error[1]]) * np.sqrt(RUNS)

    assert np.abs(score(theta)).max() < 5
    assert np.abs(score(theta * [1.0, 1.03, 1.0, 1.0])).max() > 5, "another reverberation time is seen (mutant)"


def test_costs_are_the_operations_of_the_model(runs):
    """In units of the prior's mean; a run differs from its expectation by 1 % at most."""
    theta, _, operations = runs
    problem = find_problem("radio")
    mean = float(Radio().expected_cost(np.array([[1.0, 1.0, 5.5, 1.0]]) * UNITS)[0])
    assert (np.abs(operations / mean / problem.cost(theta) - 1) < 0.05).all()
    assert np.std(operations / mean / problem.cost(theta)) < 0.01


def test_outputs_are_the_statistics_of_the_model(runs):
    theta, x, _ = runs
    drawn = find_problem("radio").simulate(theta, np.random.default_rng(79))
    assert drawn.shape == x.shape and (drawn[:, 3:] > 0).all()
    spread = np.std(x, 0) / np.sqrt(RUNS)
    assert (np.abs(drawn.mean(0) - x.mean(0)) < 5 * np.sqrt(2) * spread).all()
    assert np.allclose(from_normal(to_normal(x)), x)


def test_a_law_is_kept_as_it_was_fitted(runs, tmp_path, monkeypatch):
    from thrifty.benchmark.problems import radio_channel

    theta, x, _ = runs
    write_law(theta, x, tmp_path / "law.npz")
    monkeypatch.setattr(radio_channel, "LAW", tmp_path / "law.npz")
    law, centre, scale = read_law.__wrapped__()
    y = (to_normal(x) - centre) / scale
    assert np.allclose(y.mean(0), 0) and np.allclose(y.std(0), 1)
    assert np.allclose(law.draw(np.log(theta), law.standardise(np.log(theta), y)), y)
