"""An observation that does not fit is refused before round 0 is paid for; one that fits is not."""

from __future__ import annotations

import time

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*few-effective-runs"),
    pytest.mark.filterwarnings("ignore:the posterior takes"),
]
PRIOR = th.Uniform([0, 0], [1, 1], names=["a", "b"])
METHODS = {"rounds": th.Rounds(th.NLE(PRIOR), rounds=2), "smc": th.SMCABC(PRIOR, particles=50)}
FIRST_RUNS = 20  # of 400: the first bundle, and the run that is repeated to see whether the simulator is deterministic


class Counted:
    """A simulator that counts its runs outside of what a folder records of it."""

    def __init__(self, path, output, seconds=0.0):
        self.path, self.output, self.seconds = str(path), output, seconds

    def __call__(self, theta, rng):
        with open(self.path, "a") as file:
            file.write(".")
        time.sleep(self.seconds)
        x = theta + 0.1 * rng.normal(size=2)
        return {"plain": x, "named": {"p": x[0], "q": x[1]}, "scalar": x[0], "matrix": np.outer(x, x)}[self.output]

    @property
    def runs(self):
        try:
            with open(self.path) as file:
                return len(file.read())
        except FileNotFoundError:
            return 0


def start(method, place, x_o, tmp_path, output="plain"):
    """Run a method in memory or in a folder; return the simulator, and what was refused."""
    simulator = Counted(tmp_path / "runs", output)
    target = simulator if place == "memory" else th.Campaign(tmp_path / "c", simulator, PRIOR, seed=1)
    with pytest.raises(DataError, match="bad-observation"):
        METHODS[method].run(target, x_o, n=400, engine=th.Inline())
    return simulator, target


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("x_o", [[np.nan, 0.5], [], ["a", "b"], None, [np.inf, 0.5], {"p": np.nan}], ids=str)
def test_what_no_run_returns_is_refused_before_any_run(method, x_o, tmp_path):
    for place in ("memory", "folder"):
        assert start(method, place, x_o, tmp_path)[0].runs == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", ["memory", "folder"])
@pytest.mark.parametrize(
    ("output", "x_o"),
    [("plain", [0.5, 0.5, 0.5]), ("plain", {"p": 1.0}), ("named", {"p": 1.0}), ("matrix", [1.0, 2.0])],
    ids=str,
)
def test_another_shape_or_other_names_are_refused_after_the_first_runs(method, place, output, x_o, tmp_path):
    simulator, target = start(method, place, x_o, tmp_path, output)
    assert 1 <= simulator.runs <= FIRST_RUNS
    if place == "folder":
        assert target.status().done >= simulator.runs - 2, "what was run is kept"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_with_workers_it_is_refused_after_the_first_runs_too(method, place, tmp_path):
    """A run takes a twentieth of a second, so that a bundle holds few: 400 of them would take ten seconds."""
    simulator = Counted(tmp_path / "runs", "plain", seconds=0.05)
    target = simulator if place == "memory" else th.Campaign(tmp_path / "c", simulator, PRIOR, seed=1)
    with pytest.raises(DataError, match="bad-observation"):
        METHODS[method].run(target, [0.5, 0.5, 0.5], n=400, workers=2)
    assert 1 <= simulator.runs <= 2 * FIRST_RUNS


class Vectorised:
    """A model with `simulate_many`; the first `failing` rows fail. It counts its rows."""

    unit, names = "reported", ("a", "b")

    def __init__(self, failing=0):
        self.failing, self.rows = failing, 0

    def simulate_many(self, draws, seed, *, start=0, workers=1):
        self.rows += len(draws)
        index = start + np.arange(len(draws))
        noise = np.array([np.random.default_rng([seed, i]).normal(size=2) for i in index])
        bad = index < self.failing
        x = np.where(bad[:, None], np.nan, draws.theta + 0.1 * noise)
        return th.Simulations(theta=draws.theta, x=x, cost=np.ones(len(x)), status=np.where(bad, "invalid", "ok"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("failing", [0, 2])
def test_a_vectorised_model_is_refused_after_its_first_valid_row(method, failing):
    model = Vectorised(failing)
    with pytest.raises(DataError, match="bad-observation"):
        METHODS[method].run(model, [0.5, 0.5, 0.5], n=400)
    assert model.rows == failing + 1


def test_the_check_changes_no_run_of_a_vectorised_model():
    """Two calls give what one would: the noise of row i is that of (seed, start + i)."""
    method = th.SMCABC(PRIOR, particles=20, size=40)
    study = method.run(Vectorised(), [0.5, 0.4], n=40)
    assert len(study.simulations) == 40
    whole = Vectorised().simulate_many(th.Draws(study.simulations.theta), seed=0)
    assert np.array_equal(study.simulations.x, whole.x)


@pytest.mark.parametrize(
    ("output", "x_o"),
    [("plain", [0.5, 0.4]), ("named", {"q": 0.5, "p": 0.4}), ("scalar", 0.5), ("scalar", [0.5])],
    ids=str,
)
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_an_observation_that_fits_is_not_refused(place, output, x_o, tmp_path):
    simulator = Counted(tmp_path / "runs", output)
    target = simulator if place == "memory" else th.Campaign(tmp_path / "c", simulator, PRIOR, seed=1)
    study = th.SMCABC(PRIOR, particles=20, size=40).run(target, x_o, n=80, engine=th.Inline())
    assert len(study.simulations) == 80


def test_sets_of_outputs_are_checked_by_one_of_them(tmp_path):
    campaign = th.Campaign(tmp_path / "c", Counted(tmp_path / "runs", "plain"), PRIOR, seed=1, m=3)
    method = th.Rounds(th.NLE(PRIOR, network=th.MixtureDensity(1)), rounds=1)
    with pytest.raises(DataError, match="bad-observation"):
        method.run(campaign, [0.5, 0.5, 0.5], n=100, engine=th.Inline())
    assert campaign.status().done < FIRST_RUNS
    assert len(method.run(campaign, [0.5, 0.4], n=100, engine=th.Inline()).simulations) == 100
