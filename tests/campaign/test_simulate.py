"""th.simulate: same table everywhere, failures alone, signatures, probes, messages."""

from __future__ import annotations

import os
import random
import threading
import time
from functools import partial

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, SimulatorError, ThriftyWarning


def noisy(theta, rng):
    return [theta[0] + rng.normal(), theta[1] * rng.random()]


def draws(n, rng, p=2):
    return th.Draws(rng.random((n, p)), log_weights=rng.normal(size=n))


def test_same_table_for_any_engine_and_number_of_workers(rng):
    d = draws(300, rng)
    tables = [
        th.simulate(noisy, d, seed=5, progress="quiet", **how)
        for how in ({"engine": th.Inline()}, {"workers": 1}, {"workers": 2}, {"workers": 5})
    ]
    for table in tables[1:]:
        np.testing.assert_array_equal(table.x, tables[0].x)
        np.testing.assert_array_equal(table.log_weights, d.log_weights)
        np.testing.assert_array_equal(table.index, np.arange(300))
    other = th.simulate(noisy, d, seed=6, engine=th.Inline())
    assert not np.array_equal(other.x, tables[0].x)


def test_notebook_functions_travel(rng):
    offset = 10.0

    def closure(theta, rng):
        return theta + offset

    d = draws(5, rng)
    for simulator in (closure, lambda theta: theta + offset):
        np.testing.assert_array_equal(th.simulate(simulator, d, workers=1).x, d.theta + 10)


def global_numpy(theta):
    return np.random.rand()  # noqa: NPY002


def global_random(theta):
    return random.random()


def by_seed(theta, seed):
    return seed


def keyword_rng(theta, *, rng):
    return rng.random()


def keyword_seed(theta, *, seed=0):
    return seed


@pytest.mark.parametrize("simulator", [global_numpy, global_random, by_seed, keyword_rng, keyword_seed])
def test_every_signature_is_reproducible_and_differs_by_index(simulator, rng):
    d = draws(50, rng)
    one = th.simulate(simulator, d, workers=2)
    two = th.simulate(simulator, d, engine=th.Inline())
    np.testing.assert_array_equal(one.x, two.x)
    assert len(np.unique(one.x)) == 50


class Reporting:
    def __call__(self, theta, rng):
        return th.Output(x=theta * 2, cost=100 * theta[0])


def test_reported_cost(rng):
    d = draws(20, rng)
    sims = th.simulate(Reporting(), d, cost="reported", workers=1)
    np.testing.assert_allclose(sims.cost, 100 * d.theta[:, 0])
    assert sims.unit == "reported"


def test_m_realisations(rng):
    d = draws(10, rng)
    sims = th.simulate(noisy, d, m=4, workers=2)
    assert sims.x.shape == (10, 4, 2) and sims.m == 4
    assert len(np.unique(sims.x[:, :, 0])) == 40
    np.testing.assert_array_equal(sims.x, th.simulate(noisy, d, m=4, engine=th.Inline()).x)


def burn(theta):
    stop = time.process_time() + theta[0]
    while time.process_time() < stop:
        pass
    return theta


def test_cpu_and_wall_cost():
    sims = th.simulate(burn, [[0.02], [0.1], [0.05]], workers=1)
    np.testing.assert_allclose(sims.cost, [0.02, 0.1, 0.05], atol=0.01)
    slept = th.simulate(lambda theta: time.sleep(0.05) or theta, [[1.0], [2.0]], workers=1)
    assert (slept.cost < 0.02).all()
    walled = th.simulate(lambda theta: time.sleep(0.05) or theta, [[1.0], [2.0]], workers=1, cost="wall")
    assert (walled.cost >= 0.05).all()


RETURNS = {
    2: [np.nan, 1.0],
    3: [1.0, np.inf],
    4: [1.0, 2.0, 3.0],
    5: None,
    6: {"a": 1},
    7: [[1, 2], [3]],
    8: "12",
}


def mixed(theta, rng):
    kind = int(theta[0])
    if kind == 1:
        raise RuntimeError("mesh failed")
    if kind == 9:
        theta[0] = 3
    if kind == 10:
        raise SystemExit(3)
    return RETURNS[kind] if kind in RETURNS else [theta[0], rng.random()]


EXPECTED = ["ok", "error", "invalid", "invalid", *["error"] * 7]


def test_failures_are_classified_and_fail_alone(rng):
    kinds = np.concatenate([np.arange(11), np.zeros(289)])
    rng.shuffle(kinds)
    with pytest.warns(ThriftyWarning, match=r"10 of 300 runs failed \(8 error, 2 invalid\), 3.3% of prior mass"):
        sims = th.simulate(mixed, kinds[:, None], workers=2)
    assert sims.status.tolist() == [EXPECTED[int(kind)] for kind in kinds]
    assert np.isnan(sims.x[~sims.ok]).all() and np.isfinite(sims.x[sims.ok]).all()


def test_all_failing_stops_early(rng, tmp_path):
    count = tmp_path / "count"

    def broken(theta):
        with open(count, "a") as file:
            file.write("x")
        raise RuntimeError("no mesh")

    with pytest.raises(SimulatorError, match=r"of the first .* runs failed.*no mesh") as caught:
        th.simulate(broken, draws(5000, rng), workers=2)
    assert caught.value.code == "simulator-failed"
    assert count.stat().st_size < 500
    with pytest.raises(SimulatorError, match="3 of the first 3 runs failed"):
        th.simulate(broken, draws(3, rng), engine=th.Inline())


def test_simulator_that_ignores_its_seed_is_named(rng):
    with pytest.warns(ThriftyWarning, match=r"ignores-seed.*two different outputs"):
        th.simulate(lambda theta, rng: int.from_bytes(os.urandom(4)), draws(10, rng), workers=1)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"workers": 0}, "bad-setting"),
        ({"workers": 1.5}, "bad-setting"),
        ({"workers": True}, "bad-setting"),
        ({"time_limit": 5}, "conflicting-settings"),
        ({"time_limit": 5, "on_timeout": "drop"}, "conflicting-settings"),
        ({"time_limit": -1, "on_timeout": "lazy"}, "bad-setting"),
        ({"time_limit": float("nan"), "on_timeout": "lazy"}, "bad-setting"),
        ({"on_timeout": "lazy"}, "conflicting-settings"),
        ({"cost": "money"}, "bad-setting"),
        ({"m": 0}, "bad-setting"),
        ({"seed": -1}, "bad-setting"),
        ({"seed": None}, "bad-setting"),
        ({"engine": th.Inline(), "time_limit": 1, "on_timeout": "stop"}, "conflicting-settings"),
        ({"progress": "loud"}, "bad-setting"),
    ],
)
def test_bad_settings_run_nothing(arguments, code):
    called = []
    with pytest.raises(ConfigError) as caught:
        th.simulate(lambda theta: called.append(1) or theta, [[1.0]], **arguments)
    assert caught.value.code == code and not called


def holding(lock, theta):
    return theta


@pytest.mark.parametrize(
    ("simulator", "code"),
    [
        (lambda a, b, c: a, "bad-simulator"),
        (lambda: 1, "bad-simulator"),
        (lambda theta, *, other: 1, "bad-simulator"),
        (3, "bad-simulator"),
        (partial(holding, threading.Lock()), "cannot-load-simulator"),
    ],
)
def test_bad_simulators_run_nothing(simulator, code):
    with pytest.raises(SimulatorError) as caught:
        th.simulate(simulator, [[1.0]])
    assert caught.value.code == code


class Unloadable:
    def __reduce__(self):
        return (__import__, ("no_such_module_here",))

    def __call__(self, theta):
        return theta


def test_simulator_missing_in_the_worker():
    with pytest.raises(SimulatorError, match="no_such_module_here") as caught:
        th.simulate(Unloadable(), [[1.0]], workers=1)
    assert caught.value.code == "cannot-load-simulator"


def test_stop_policy(rng):
    def slow(theta):
        time.sleep(5 if theta[0] > 0.99 else 0)
        return theta

    with pytest.raises(CampaignError, match="run 3 passed the time limit") as caught:
        th.simulate(slow, [[0.1], [0.2], [0.3], [1.0], [0.4]], time_limit=0.3, on_timeout="stop")
    assert caught.value.code == "time-limit-passed"


def test_extend_finishes_slow_runs():
    def slow(theta):
        time.sleep(theta[0])
        return theta

    sims = th.simulate(slow, [[0.01], [0.7], [0.02]], time_limit=0.2, on_timeout="extend")
    assert sims.ok.all()
    np.testing.assert_array_equal(sims.log_weights, 0)


def test_huge_output_is_an_error():
    from thrifty.runner.run_one import Runner
    from thrifty.runner.task import Job, Task

    outcome = Runner.of(Job(lambda theta: np.zeros(1000), 0, output_limit=7999)).run(Task(0, np.ones(1)))
    assert outcome.status == "error" and outcome.x is None and "bad-output" in outcome.error


def test_unguarded_script_works(tmp_path):
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(
        "import thrifty as th\n"
        "print('imported')\n"
        "K = 2.0\n"
        "def double(theta):\n    return K * theta\n"
        "print(th.simulate(double, [[1.0], [2.0]], workers=2).x.ravel().tolist())\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["imported", "[2.0, 4.0]"], done.stderr


def test_no_numbers_at_all_is_an_error():
    with pytest.raises(SimulatorError, match="returned no numbers"):
        th.simulate(lambda theta, rng: [], np.ones((30, 1)), engine=th.Inline(), progress="quiet")


class Model:
    def run(self, theta, rng):
        return theta


def test_a_model_is_not_its_method(tmp_path):
    for call in (lambda: th.simulate(Model(), [[1.0]]), lambda: th.Campaign(tmp_path / "c", Model(), th.Uniform(0, 1))):
        with pytest.raises(SimulatorError, match=r"model\.run") as caught:
            call()
        assert caught.value.code == "bad-simulator"


@pytest.mark.parametrize("n", [0, -1, 2.5, 1e2, True, "ten", float("nan")])
def test_an_odd_number_of_prior_draws_is_refused_before_anything_runs(n):
    def never(theta, rng):
        raise AssertionError("the simulator was called")

    with pytest.raises(ConfigError, match="whole number of runs"):
        th.simulate(never, th.Uniform([0.0], [1.0]), n, engine=th.Inline(), progress="quiet")
