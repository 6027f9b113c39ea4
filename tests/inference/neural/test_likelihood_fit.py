"""How long NLE trains: with few outputs again, four times as long, while held-out runs are predicted better."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.inference.neural.training_settings import TrainingCurve

PRIOR = th.Normal(0.0, 1.0)


def make_runs(outputs=2, n=1_000):
    rng = np.random.default_rng(0)
    return th.Simulations.from_arrays(theta=rng.standard_normal((n, 1)), x=rng.standard_normal((n, outputs)))


def watch(monkeypatch, curves):
    """Let each training return the next of some curves; return the settings that it was given."""
    told, seen, train = iter(curves), [], th.NLE._train

    def answer(self, rows, frame, settings, seeds):
        seen.append(settings)
        short = replace(settings, cycle=1, max_epochs=1, checkpoint=None)
        net, network, curve = train(self, rows, frame, short, seeds)
        return net, network, replace(next(told, curve), seconds=30.0)

    monkeypatch.setattr(th.NLE, "_train", answer)
    return seen


def make_curve(loss, falls=True, stopped="cycle"):
    """A curve whose held-out loss falls until its end, or no longer in the last tenth."""
    return TrainingCurve((0.0,) * 10, (0.0,) * 10, 9 if falls else 8, 0.0, stopped, members=(loss, loss + 1))


@pytest.mark.parametrize(
    ("curves", "best", "cycles"),
    [
        ([make_curve(-1.0), make_curve(-1.5), make_curve(-1.51)], 2, [44, 176, 704]),  # less than 0.02 better: the last
        ([make_curve(-1.0), make_curve(-0.9)], 0, [44, 176]),  # what is worse is not taken
        ([make_curve(-1.0, falls=False)], 0, [44]),  # nothing is left to learn
        ([make_curve(-1.0, stopped="time_limit")], 0, [44]),
    ],
)
def test_training_goes_on_while_held_out_runs_are_predicted_better(curves, best, cycles, monkeypatch):
    seen = watch(monkeypatch, curves)
    posterior = th.NLE(PRIOR).fit(make_runs())
    assert [settings.cycle for settings in seen] == cycles
    assert posterior.curve.members == curves[best].members


def test_the_time_limit_is_that_of_all_trainings(monkeypatch):
    seen = watch(monkeypatch, [make_curve(-loss) for loss in range(5)])
    th.NLE(PRIOR, training=th.Training(time_limit=50)).fit(make_runs())
    assert [settings.time_limit for settings in seen] == [50, 20]


def test_no_cycle_is_longer_than_the_limit_on_epochs(monkeypatch):
    seen = watch(monkeypatch, [make_curve(-loss) for loss in range(5)])
    th.NLE(PRIOR, training=th.Training(max_epochs=100)).fit(make_runs())
    assert [settings.cycle for settings in seen] == [44, 100]


def test_each_training_has_its_checkpoint(monkeypatch, tmp_path):
    seen = watch(monkeypatch, [make_curve(0.0), make_curve(-1.0), make_curve(-1.0)])
    th.NLE(PRIOR, training=th.Training(checkpoint=tmp_path / "net")).fit(make_runs())
    assert [Path(settings.checkpoint).name for settings in seen] == ["net", "net.176", "net.704"]


@pytest.mark.parametrize(
    ("method", "runs"),
    [
        (th.NLE(PRIOR), make_runs(7)),
        (th.NLE(PRIOR, training=th.Training(cycle=9)), make_runs()),
        (th.NLE(PRIOR, network=th.MixtureDensity(1)), make_runs()),
        (th.NLE(PRIOR), replace(make_runs(), x=np.round(make_runs().x))),
    ],
    ids=["many outputs", "a cycle of one's own", "another network", "ties"],
)
def test_what_is_trained_once(method, runs, monkeypatch):
    seen = watch(monkeypatch, [make_curve(0.0), make_curve(-1.0)])
    method.fit(runs)
    assert len(seen) == 1


def test_many_runs_are_trained_once(monkeypatch):
    """A cycle of 60,000 runs has 6,000 steps: twice as many are beyond the limit."""
    seen = watch(monkeypatch, [make_curve(0.0), make_curve(-1.0)])
    th.NLE(PRIOR).fit(make_runs(n=60_000))
    assert len(seen) == 1


@pytest.mark.parametrize(("outputs", "decay"), [(6, 0.0), (7, 0.6)])
def test_many_outputs_have_weight_decay(outputs, decay, monkeypatch):
    seen = watch(monkeypatch, [make_curve(0.0, falls=False)])
    th.NLE(PRIOR).fit(make_runs(outputs))
    assert seen[0].weight_decay == decay
