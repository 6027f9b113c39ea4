"""Every method of the roster gives finite draws inside the prior for about the budget that it had."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import thrifty as th
from thrifty.benchmark import METHODS, PLACES, Task, find_method, find_problem
from thrifty.benchmark.benchmark_run import run_task
from thrifty.benchmark.method import Meter

BUDGET = 250.0
PYABC_BUDGET = 1_000.0  # its calibration and first generation alone take about 300 runs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_a_method_spends_its_budget_and_learns(name):
    needs = th.benchmark.roster.list_methods()[name].needs
    if needs and find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    method = find_method(name)
    places = tuple(PLACES) if method.amortised else ("middle",)
    if name == "pyabc-smc":
        pytest.importorskip("pyabc")
    budget = PYABC_BUDGET if name == "pyabc-smc" else BUDGET
    records = run_task(Task("gaussian_2", name, budget, 0, places))
    assert len(records) == len(places)
    for record in records:
        assert 0.4 * budget < record.cost < 1.35 * budget, "rounds may settle early; one run may pass the budget"
        assert record.c2st is not None and record.c2st < 0.85, "prior draws score above 0.9"
        assert (record.log_density is not None) == method.has_density


@pytest.mark.filterwarnings("ignore")
def test_pyabc_without_a_complete_generation_is_a_failure_and_not_the_prior():
    pytest.importorskip("pyabc")
    with pytest.raises(th.ThriftyError, match="no generation of pyABC is complete"):
        run_task(Task("gaussian_2", "pyabc-smc", BUDGET, 0, ("middle",)))


def test_cheap_methods_are_right(seed):
    """Rejection ABC, plain and cost-aware, against the exact mean, within the error of what it accepts."""
    for name in ("abc", "abc-aware"):
        problem = find_problem("gaussian_2")
        meter = Meter(problem, seed)
        posterior = find_method(name).fit(meter, None, 3_000.0, seed)
        x_o = problem.x_o("expensive")
        draws = posterior.sample(1_000, x_o, seed=0)
        exact = problem.draw_posterior(x_o, 4_000, np.random.default_rng(1))
        assert (np.abs(draws.mean(0) - exact.mean(0)) < 1.0 * exact.std(0)).all()
        assert abs(meter.cost / 3_000 - 1) < 0.1


def test_aware_runs_are_cheaper_and_weighted(seed):
    from thrifty.benchmark.methods.amortised import run_aware

    meter = Meter(find_problem("gaussian_corner"), seed)
    sims = run_aware(meter, 1_000.0, seed)
    assert meter.cost / meter.runs < 0.7, "a run of the prior costs 1"
    weights = th.normalise(sims.log_weights)
    mean = weights @ sims.theta[:, 0]
    error = np.sqrt(np.square(weights * (sims.theta[:, 0] - mean)).sum())
    assert abs(mean) < 5 * error, "weighted, the pool has the prior's mean"
    plain = sims.theta[:, 0].mean()
    assert abs(plain) > 5 * sims.theta[:, 0].std() / np.sqrt(len(sims)), "without weights it has not (mutant)"


def test_unknown_names_are_refused():
    with pytest.raises(th.ThriftyError, match="no method"):
        find_method("magic")
    with pytest.raises(th.ThriftyError, match="no problem"):
        find_problem("magic")
