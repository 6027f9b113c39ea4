"""th.diagnose in bounded time: progress, what was left out, and outputs without a posterior. The clock is a fake."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics
from thrifty.diagnostics import pace
from thrifty.diagnostics.pace import Pace
from thrifty.errors import ConfigError, InferenceError


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a posterior says so."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(pace, "time", found)
    return found


def slow(world, clock, *, draw=0.0, density=0.0):
    class Slow(world.Exact):
        def sample(self, n, x_o, *, seed):
            clock.now += draw
            return super().sample(n, x_o, seed=seed)

        def log_prob(self, theta, x_o):
            clock.now += density
            return super().log_prob(theta, x_o)

    return Slow()


def test_stops_in_time_and_says_what_was_left_out(world, clock, rng):
    runs = world.pool(1000, rng, k=0.0)
    diagnosis = th.diagnose(slow(world, clock, draw=0.5), runs, [0.5, 0.2], held_out=runs, time_limit=60)
    done = len(diagnosis["sbc"].ranks)
    assert 80 <= done <= 90 and clock.now < 60
    assert any(note.startswith(f"calibrated on {done} of 300 held-out runs") for note in diagnosis.notes)
    clock.now = 0.0
    th.diagnose(slow(world, clock, draw=0.5), runs, [0.5, 0.2], held_out=runs, time_limit=None)
    assert clock.now > 150  # the mutant: without the limit


def test_the_part_that_is_done_is_a_random_part(world, clock, rng):
    """Runs sorted by theta: the first 80 of them would be a calibration on small theta only."""
    theta = np.sort(rng.normal(size=(1000, 2)), axis=0)
    runs = th.Simulations.from_arrays(theta=theta, x=theta + world.NOISE * rng.normal(size=theta.shape))
    part = diagnostics.replicate(slow(world, clock, draw=0.5), runs, pairs=300, pace=Pace(40.0))
    assert 80 <= len(part) <= 90 and part.left_out == 300 - len(part)
    assert np.abs(part.theta.mean(0)).max() < 5 / np.sqrt(len(part))
    assert diagnostics.sbc(part).verdict != "do not trust"


def test_slow_densities_are_given_up_first(world, clock, rng):
    runs = world.pool(1000, rng, k=0.0)
    diagnosis = th.diagnose(slow(world, clock, draw=0.1, density=2.0), runs, [0.5, 0.2], held_out=runs)
    assert "coverage" not in {check.name for check in diagnosis}
    assert any("coverage not checked" in note for note in diagnosis.notes)
    assert len(diagnosis["sbc"].ranks) > 250


def test_too_slow_for_any_calibration_is_no_trust(world, clock, rng):
    runs = world.pool(1000, rng, k=0.0)
    diagnosis = th.diagnose(slow(world, clock, draw=10.0), runs, [0.5, 0.2], held_out=runs)
    assert diagnosis.verdict == "with care" and "time_limit=" in diagnosis.reasons[0]


def test_progress_is_shown_with_an_estimate(world, rng, capsys):
    runs = world.pool(400, rng)
    th.diagnose(world.Exact(), runs, [0.5, 0.2], held_out=runs, progress=True)
    shown = capsys.readouterr()
    assert "checking" in shown.err and "s left" in shown.err and not shown.out
    th.diagnose(world.Exact(), runs, [0.5, 0.2], held_out=runs)
    assert not capsys.readouterr().err  # no terminal, no bar


@pytest.mark.parametrize("limit", [0, -1.0, "60", "60 cpu-s"])
def test_bad_time_limits(world, rng, limit):
    with pytest.raises(ConfigError, match=r"time_limit .* is not a time above 0"):
        th.diagnose(world.Exact(), world.pool(200, rng), [0.5, 0.2], time_limit=limit)


def partial(world, level):
    class Partial(world.Exact):
        def sample(self, n, x_o, *, seed):
            if np.ravel(x_o)[0] > level:
                raise InferenceError("2 effective accepted runs for a regression", code="too-few-runs")
            return super().sample(n, x_o, seed=seed)

    return Partial()


def test_outputs_without_a_posterior_are_counted(world, rng):
    runs = world.pool(600, rng, k=0.0)
    replicates = diagnostics.replicate(partial(world, 2.0), runs, pairs=600)
    assert replicates.unanswered == np.sum(runs.x[:, 0] > 2.0) > 20
    assert len(replicates) + replicates.unanswered == 600
    assert replicates.unanswered_mass == pytest.approx(replicates.unanswered / 600)
    diagnosis = th.diagnose(partial(world, 2.0), runs, [0.5, 0.2], held_out=runs)
    assert diagnosis.verdict == "with care" and "there is no posterior at" in diagnosis.reasons[0]
    few = th.diagnose(partial(world, 4.5), runs, [0.5, 0.2], held_out=runs)
    assert 0 < few["unanswered"].mass < 0.05 and few["unanswered"].verdict == "trust"
    with pytest.raises(InferenceError, match="no answer at any"):
        diagnostics.replicate(partial(world, -99.0), runs)


def test_abc_with_few_neighbours_is_diagnosed(rng):
    """Outputs in the tail of an epidemic-like model have no neighbours within epsilon: it ended with an error."""
    theta = rng.uniform(0, 1, (400, 1))
    runs = th.Simulations.from_arrays(theta=theta, x=np.exp(6 * theta + 0.3 * rng.normal(size=theta.shape)))
    post = th.ABC(th.Uniform(0, 1), epsilon=0.1, adjust="linear").fit(runs[:300])
    diagnosis = th.diagnose(post, runs, [5.0], held_out=runs[300:])
    assert diagnosis["unanswered"].count > 5 and diagnosis.verdict != "trust"


def test_draws_of_one_observation_are_not_calibrated(world, rng):
    runs = world.pool(500, rng, k=0.0)
    post = th.ABC(world.Exact().prior, n_accept=60).fit(runs).accepted([0.5, 0.2])
    diagnosis = th.diagnose(post, runs, [0.5, 0.2], prior=world.Exact().prior)
    assert diagnosis.verdict == "with care" and "hold for one observation" in diagnosis.reasons[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["NPE", "NLE", "NRE", "ABC"])
def test_every_method_in_sixty_cpu_seconds(method, rng):
    import time

    pytest.importorskip("zuko")
    prior = th.Uniform([0.0, 1.0], [1.0, 3.0])
    theta = prior.sample(5000, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.3 * rng.normal(size=theta.shape))
    settings = {} if method == "ABC" else {"training": th.Training(max_epochs=5, progress=False)}
    post = getattr(th, method)(prior, **settings).fit(runs, seed=0)
    start = time.process_time()
    diagnosis = th.diagnose(post, runs, [0.4, 2.2])
    print(method, time.process_time() - start, diagnosis)
    assert time.process_time() - start < 60
