"""Every bundled model through one test: the same face, the same promises."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import thrifty as th

MODELS = {
    "gamma": lambda: th.models.Gamma(m=50),
    "homogeneous": lambda: th.models.HomogeneousSIR(population=500),
    "temporal": lambda: th.models.TemporalSIR(population=200),
    "bernoulli": lambda: th.models.BernoulliSIR(population=150),
    "radio": lambda: th.models.Radio(m=4, points=101),
    "gaussian": lambda: th.models.GaussianToy(p=2, a=[1.0, -0.5], cost_noise=0.3),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> th.models.Model:
    return MODELS[request.param]()


def run_rng(seed: int, index: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(2, index))))


def test_prior_and_names_fit(model, seed):
    th.check_prior(model.prior, seed=seed)
    assert model.names == model.prior.names and model.dim == len(model.names)
    assert model.theta_true.shape == (model.dim,)
    assert np.isfinite(model.prior.log_prob(model.theta_true[None, :])).all()
    assert len(set(model.summary_names)) == len(model.summary_names)


def test_run_is_a_function_of_its_generator(model, seed):
    first, again, other = (model.run(model.theta_true, np.random.default_rng(s)) for s in (seed, seed, seed + 1))
    assert isinstance(first, th.Output)
    assert first.x.shape == (len(model.summary_names),) and np.isfinite(first.x).all()
    assert np.array_equal(first.x, again.x) and first.cost == again.cost > 0
    assert (first.x.tobytes(), first.cost) != (other.x.tobytes(), other.cost)
    assert np.array_equal(model.simulate(model.theta_true, np.random.default_rng(seed)), first.x)
    rng = np.random.default_rng(seed)
    runs = np.array([model.simulate(model.theta_true, rng) for _ in range(50)])
    assert len(np.unique(runs, axis=0)) > 1  # one generator goes on from run to run


def test_many_equals_one_by_one_for_any_chunks_and_workers(model, seed, rng):
    thetas = model.prior.sample(40, rng)
    whole = model.simulate_many(thetas, seed)
    assert whole.unit == "operations" and whole.names == model.names and whole.x_names == model.summary_names
    for i in (0, 17, 39):
        out = model.run(thetas[i], run_rng(seed, i))
        assert np.array_equal(whole.x[i], out.x) and whole.cost[i] == out.cost
    for workers in (1, 2, 5):
        for cut in (1, 13, 40):
            parts = [model.simulate_many(thetas[:cut], seed, workers=workers)]
            parts += [model.simulate_many(thetas[cut:], seed, start=cut, workers=workers)]
            assert np.array_equal(np.concatenate([p.x for p in parts]), whole.x)
            assert np.array_equal(np.concatenate([p.cost for p in parts]), whole.cost)
            assert np.array_equal(np.concatenate([p.index for p in parts]), whole.index)


def test_weights_of_draws_are_kept(model, rng, seed):
    draws = th.Draws(theta=model.prior.sample(5, rng), log_weights=rng.normal(size=5))
    sims = model.simulate_many(draws, seed)
    assert np.array_equal(sims.log_weights, draws.log_weights)
    assert np.array_equal(sims.x, model.simulate_many(draws.theta, seed).x)


def test_no_rows_make_an_empty_table(model, seed):
    sims = model.simulate_many(np.empty((0, model.dim)), seed, workers=2)
    assert len(sims) == 0 and sims.x.shape == (0, len(model.summary_names))


def test_observed_shares_no_stream_with_simulations(model, seed):
    observed = model.observed(seed)
    assert np.array_equal(observed, model.observed(seed))
    sims = model.simulate_many(np.tile(model.theta_true, (5, 1)), seed)
    streams = [np.random.SeedSequence(seed, spawn_key=key).generate_state(2) for key in ((6, 0), (2, 0))]
    assert observed.shape == sims.x[0].shape and not np.array_equal(*streams)
    assert len({model.observed(s).tobytes() for s in range(20)}) > 1


def test_measured_cost_is_seconds(model, rng, seed):
    thetas = model.prior.sample(5, rng)
    model.simulate_many(thetas, seed)  # compiled before the clock starts
    begin = time.process_time()
    sims = model.simulate_many(thetas, seed, measured=True)
    spent = time.process_time() - begin
    assert sims.unit == "s" and (sims.cost >= 0).all() and 0 < sims.cost.sum() <= spent
    assert np.array_equal(sims.x, model.simulate_many(thetas, seed).x)


def test_overhead_is_added_to_every_count(model, rng, seed):
    thetas = model.prior.sample(5, rng)
    expensive = type(model)(**{**_settings(model), "overhead": 25.0})
    cheap = model.simulate_many(thetas, seed)
    assert np.allclose(expensive.simulate_many(thetas, seed).cost, cheap.cost + 25.0, rtol=1e-12)
    assert expensive.run(thetas[0], run_rng(seed, 0)).cost == pytest.approx(cheap.cost[0] + 25.0)
    if hasattr(model, "expected_cost"):
        assert np.allclose(expensive.expected_cost(thetas), model.expected_cost(thetas) + 25.0)


def test_expected_cost_is_the_mean_of_counts(model, seed):
    if not hasattr(model, "expected_cost"):
        pytest.skip("known by simulation only")
    cost = model.simulate_many(np.tile(model.theta_true, (800, 1)), seed).cost
    error = cost.std(ddof=1) / np.sqrt(len(cost))
    assert abs(cost.mean() - model.expected_cost(model.theta_true[None, :])[0]) <= 5 * error + 1e-9


def test_frozen_and_picklable(model, seed):
    with pytest.raises(FrozenInstanceError):
        model.overhead = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.theta_true[0] = 0.0
    twin = pickle.loads(pickle.dumps(model))
    bound = pickle.loads(pickle.dumps(model.run))  # what a worker process receives
    expected = model.run(model.theta_true, np.random.default_rng(seed))
    assert np.array_equal(twin.simulate(model.theta_true, np.random.default_rng(seed)), expected.x)
    assert bound(model.theta_true, np.random.default_rng(seed)).cost == expected.cost


def test_theta_is_not_changed(model, rng):
    theta = model.theta_true.copy()
    model.simulate(theta, rng)
    assert np.array_equal(theta, model.theta_true)


BAD = {
    "too long": (lambda t: np.append(t, t[0]), "bad-array", "takes"),
    "empty": (lambda t: t[:0], "bad-array", "takes"),
    "table": (lambda t: np.tile(t, (2, 1)), "bad-array", "simulate_many"),
    "text": (lambda t: "many", "bad-array", "numbers"),
    "nan": (lambda t: np.where(np.arange(len(t)) == len(t) - 1, np.nan, t), "bad-array", "nan"),
    "inf": (lambda t: np.where(np.arange(len(t)) == 0, np.inf, t), "bad-array", "inf"),
    "below": (lambda t: t * np.where(np.arange(len(t)) == 0, -1.0, 1.0), "outside-prior", "support"),
    "above": (lambda t: t * np.where(np.arange(len(t)) == len(t) - 1, 1e3, 1.0), "outside-prior", "support"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_theta_is_refused_with_numbers(model, rng, seed, case):
    make, code, says = BAD[case]
    bad = make(model.theta_true)
    if code == "outside-prior" and not np.isfinite(model.prior.bounds[0]).all():
        pytest.skip("the whole line is allowed")
    state = rng.bit_generator.state
    for call in (model.run, model.simulate):
        with pytest.raises(th.ThriftyError) as caught:
            call(bad, rng)
        assert caught.value.code == code and says in str(caught.value)
    assert rng.bit_generator.state == state  # nothing was drawn
    if np.ndim(bad) == 1 and np.shape(bad) == (model.dim,):
        with pytest.raises(th.ThriftyError) as caught:
            model.simulate_many(np.stack([model.theta_true, bad]), seed)
        assert caught.value.code == code
        assert type(model).__name__ in str(caught.value)


@pytest.mark.parametrize("rng", [None, "seed", np.random.RandomState(0), True, -1])
def test_only_a_generator_is_an_rng(model, rng):
    with pytest.raises(th.ThriftyError) as caught:
        model.simulate(model.theta_true, rng)
    assert caught.value.code == "bad-setting" and type(rng).__name__ in str(caught.value)


@pytest.mark.parametrize("workers", [0, -2])
def test_workers_below_one_are_refused(model, workers, seed):
    with pytest.raises(th.ThriftyError) as caught:
        model.simulate_many(model.theta_true[None, :], seed, workers=workers)
    assert caught.value.code == "bad-setting"


def test_prior_of_another_size_or_sign_is_refused(model):
    if type(model) is th.models.GaussianToy:
        pytest.skip("its prior is part of the closed forms")
    kind, many = type(model), model.dim + 1
    with pytest.raises(th.ThriftyError, match=f"takes {model.dim}"):
        kind(prior=th.Uniform([0.1] * many, [1.0] * many))
    with pytest.raises(th.ThriftyError, match="needs it >= 0"):
        kind(prior=th.Uniform([-0.1] * model.dim, [1.0] * model.dim))


@pytest.mark.parametrize("name", ["gamma", "homogeneous", "radio"])
def test_other_threads_run_while_a_kernel_runs(name):
    """A spinning thread gets CPU time while a kernel runs; with the GIL held it would get next to none."""
    long = {
        "gamma": lambda: th.models.Gamma(m=100_000),
        "homogeneous": lambda: th.models.HomogeneousSIR(population=1_500_000, theta_true=9.0, k=30.0),
        "radio": lambda: th.models.Radio(m=300),
    }[name]()
    MODELS[name]().simulate(MODELS[name]().theta_true, np.random.default_rng(0))  # compiled first
    done, kernel_seconds = threading.Event(), []

    def work() -> None:
        begin = time.thread_time()
        long.simulate(long.theta_true, np.random.default_rng(1))
        kernel_seconds.append(time.thread_time() - begin)
        done.set()

    thread = threading.Thread(target=work)
    begin = time.thread_time()
    thread.start()
    while not done.is_set():
        pass
    spun = time.thread_time() - begin
    thread.join()
    assert kernel_seconds[0] > 0.05, "too short to tell"
    assert spun > 0.25 * kernel_seconds[0]


def _settings(model: th.models.Model) -> dict[str, object]:
    from dataclasses import fields

    return {f.name: getattr(model, f.name) for f in fields(model) if f.init}
