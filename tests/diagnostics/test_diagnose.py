"""th.diagnose: one call, one verdict, reasons that name what is wrong."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError


def judged(world, fault, seed, n=3000):
    runs = world.pool(n, np.random.default_rng(seed))
    return th.diagnose(world.faults[fault], runs, [0.5, 0.2], held_out=runs, cost=lambda t: np.exp(world.A * t[:, 0]))


def test_trusts_what_is_right(world, seed):
    verdicts = [judged(world, "right", seed + i).verdict for i in range(2)]
    assert "trust" in verdicts and "do not trust" not in verdicts


@pytest.mark.parametrize("fault", ["shifted", "over-confident", "unweighted"])
def test_does_not_trust_what_is_wrong(world, seed, fault):
    diagnosis = judged(world, fault, seed)
    assert diagnosis.verdict == "do not trust"
    words = {"shifted": "too high", "over-confident": "too narrow", "unweighted": "too low"}
    assert words[fault] in diagnosis["sbc"].reason
    assert diagnosis.reasons[0].startswith("Is the posterior calibrated? no: ")


@pytest.mark.parametrize(("fault", "word"), [("the prior", "theta_"), ("half blind", "theta_2")])
def test_does_not_trust_what_ignores_the_data(world, seed, fault, word):
    """Calibrated on average, and still useless: SBC and coverage accept it, the diagnosis does not."""
    diagnosis = judged(world, fault, seed)
    assert diagnosis["sbc"].verdict == diagnosis["coverage"].verdict == "trust"
    assert diagnosis.verdict == "do not trust"
    assert any("does not use all of the data" in reason and word in reason for reason in diagnosis.reasons)


def test_five_thousand_runs_in_under_a_minute(world, seed):
    start = time.process_time()
    diagnosis = judged(world, "right", seed, n=5000)
    figures = diagnosis.figures()
    assert time.process_time() - start < 60
    assert set(figures) == {"calibration", "predictive", "weights", "cost_model"}


def test_prints_and_saves(world, seed):
    diagnosis = judged(world, "unweighted", seed)
    text = str(diagnosis)
    assert text.startswith("verdict: do not trust") and len(text.splitlines()) == 5
    again = json.loads(json.dumps(diagnosis.to_dict()))
    assert again["verdict"] == "do not trust" and len(again["checks"]) == 10
    assert [row["verdict"] for row in again["questions"]] == ["do not trust", "trust", "trust", "trust"]
    with pytest.raises(KeyError, match="there are sbc"):
        diagnosis["nothing"]


def test_takes_a_study_and_notes_what_it_cannot_check(world, rng):
    runs = world.pool(600, rng)

    class Bare:
        sample = world.Exact().sample

    study = SimpleNamespace(posterior=Bare(), simulations=runs, x_o=[0.0, 0.0])
    diagnosis = th.diagnose(study)
    assert {check.name for check in diagnosis} == {
        "sbc",
        "tarp",
        "data_use",
        "local_c2st",
        "calibration",
        "misspecification",
        "weights",
    }
    assert diagnosis.verdict != "trust" and diagnosis["calibration"].verdict == "with care"
    assert any("no log_prob" in note for note in diagnosis.notes)
    assert any("may have trained" in note for note in diagnosis.notes)
    assert "held-out" not in str(diagnosis) and "held_out=th.simulate(" in str(diagnosis)
    assert any(note.endswith("the study has none; pass cost=th.fit_cost(simulations)") for note in diagnosis.notes)


def test_uses_the_runs_that_the_posterior_held_out(world, rng):
    runs = world.pool(1000, rng)

    class Knows(world.Exact):
        held_out = np.arange(800, 1000)

    diagnosis = th.diagnose(Knows(), runs, [0.0, 0.0])
    assert len(diagnosis["sbc"].ranks) == 200
    assert not any("may have trained" in note for note in diagnosis.notes)


def test_bad_input(world, rng):
    with pytest.raises(DataError, match="needs the posterior, its simulations and x_o"):
        th.diagnose(world.Exact())
    with pytest.raises(DataError, match="observed data has 1 values"):
        th.diagnose(world.Exact(), world.pool(100, rng), [1.0])
