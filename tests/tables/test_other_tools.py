"""Real round trips: sbi trains on to_sbi, ArviZ summarises."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import thrifty as th
from thrifty.tables import pandas_io


def campaign(rng, n):
    """theta ~ N(0, 1), x ~ N(theta, 1), cost exp(theta), g = c: the proposal is N(-1, 1)."""
    q = th.CostAware(th.Normal([0.0], [1.0], names=["a"]), lambda t: np.exp(t[:, 0]), th.Power(1))
    draws = q.sample(n, rng)
    x = draws.theta + rng.normal(size=(n, 1))
    return th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, names=("a",), proposal=q)


def test_sbi_table(rng):
    torch = pytest.importorskip("torch")
    runs = campaign(rng, 2000)
    theta, x, proposal = runs.to_sbi()
    assert theta.dtype == x.dtype == torch.float32 and theta.shape == x.shape == (2000, 1)
    draws = proposal.sample((5000,))
    assert abs(float(draws.mean()) + 1) < 5 * np.sqrt(1 / 2000 + 1 / 5000)
    density = proposal.log_prob(torch.tensor([[-1.0], [0.0]])).numpy()
    np.testing.assert_allclose(density, [-0.9189, -1.4189], atol=0.03)  # N(-1, 1), B estimated
    bare = th.Simulations(theta=runs.theta, x=runs.x).to_sbi()
    with pytest.raises(NotImplementedError, match="not known"):
        bare.proposal.log_prob(theta)


def test_sbi_table_leaves_out_what_has_no_weight(rng):
    pytest.importorskip("torch")
    runs = campaign(rng, 500)
    narrower = th.reweight(runs, th.Uniform(-1, 1), old_prior=th.Normal([0.0], [1.0]))
    theta, x, proposal = narrower.to_sbi()
    inside = np.abs(runs.theta[:, 0]) <= 1
    assert len(theta) == len(x) == inside.sum() < 500
    assert np.abs(proposal.sample((1000,)).numpy()).max() <= 1
    nothing = th.Simulations(theta=[[1.0], [2.0]], x=[[np.nan], [1.0]], log_weights=[0.0, -np.inf])
    with pytest.raises(th.ThriftyError, match="none of the 2 runs is valid and has a weight"):
        nothing.to_sbi()
    with pytest.raises(th.ThriftyError, match="none of the 1 runs"):
        nothing[:1].to_sbi()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_npe_c_trains_after_a_change_of_prior(rng, seed, tmp_path, monkeypatch):
    """Runs outside the new prior would make the atomic loss NaN; the posterior under U(-1, 1) is the cut likelihood."""
    torch = pytest.importorskip("torch")
    inference = pytest.importorskip("sbi.inference")
    utils = pytest.importorskip("sbi.utils")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(seed % 2**31)
    runs = th.reweight(campaign(rng, 4000), th.Uniform(-1, 1), old_prior=th.Normal([0.0], [1.0]))
    prior = utils.BoxUniform(-torch.ones(1), torch.ones(1))
    trainer = inference.NPE_C(prior, density_estimator="mdn", show_progress_bars=False)
    theta, x, proposal = runs.to_sbi()
    trainer.append_simulations(theta, x, proposal=proposal)
    trainer.train(training_batch_size=200, show_train_summary=False)
    draws = trainer.build_posterior().sample((2000,), x=torch.tensor([[0.3]]), show_progress_bars=False).numpy()
    grid = np.linspace(-1, 1, 2001)
    density = np.exp(-0.5 * (grid - 0.3) ** 2)
    expected = float((grid * density).sum() / density.sum())
    print("NPE_C after reweight", draws.mean(), "expected", expected)
    assert abs(draws.mean() - expected) < 0.12
    assert np.abs(draws).max() <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_npe_c_finds_the_gaussian_posterior(rng, seed, tmp_path, monkeypatch):
    """Atomic NPE_C needs no weights; the posterior at x_o = 1 is N(1/2, 1/2), without the proposal N(0, 1/2)."""
    torch = pytest.importorskip("torch")
    inference = pytest.importorskip("sbi.inference")
    monkeypatch.chdir(tmp_path)  # sbi writes logs where it stands
    torch.manual_seed(seed % 2**31)
    runs = campaign(rng, 2000)
    prior = torch.distributions.MultivariateNormal(torch.zeros(1), torch.eye(1))

    def fitted(proposal):
        trainer = inference.NPE_C(prior, density_estimator="mdn", show_progress_bars=False)
        theta, x, ours = runs.to_sbi()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.append_simulations(theta, x, proposal=ours if proposal else None)
            trainer.train(training_batch_size=200, show_train_summary=False)
            posterior = trainer.build_posterior()
            return posterior.sample((2000,), x=torch.tensor([[1.0]]), show_progress_bars=False).numpy()

    right, forgotten = fitted(True), fitted(False)
    print("NPE_C mean, sd", right.mean(), right.std(), "without proposal", forgotten.mean())
    assert abs(right.mean() - 0.5) < 0.12  # 2,000 runs, ESS 740: sd of the fitted mean about 0.03
    assert abs(right.std() - np.sqrt(0.5)) < 0.1
    assert abs(forgotten.mean() - 0.0) < 0.12


def test_arviz_keeps_log_weights_and_summarises(rng):
    arviz = pytest.importorskip("arviz")
    runs = campaign(rng, 3000)
    data = runs.to_arviz()
    log_weights = data["sample_stats_prior"]["log_weight"].to_numpy()[0]
    np.testing.assert_allclose(np.exp(log_weights), th.normalise(runs.log_weights), rtol=1e-12)
    summary = arviz.summary(data, group="prior", kind="stats", round_to=None)
    assert summary.loc["a", "mean"] == pytest.approx(runs.theta.mean(), abs=1e-3)  # it rounds
    restored = th.estimate(data["prior"]["a"].to_numpy()[0], log_weights)
    assert abs(restored.mean) < 5 * restored.se  # the prior's mean, 0; without weights -1
    assert data["prior_predictive"]["x"].shape == (1, 3000, 1)


@pytest.mark.parametrize("kind", ["any observation", "one observation", "study", "marginal"])
def test_posterior_draws_reach_arviz_and_pandas(kind, rng):
    arviz = pytest.importorskip("arviz")
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
    theta = prior.sample(2000, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=prior.names)
    runs = replace(runs, x_names=("u", "v"))
    posterior, x_o = th.ABC(prior).fit(runs), {"v": 0.7, "u": 0.4}
    if kind == "study":
        study = th.Study(posterior, runs, np.array([0.4, 0.7]), method="abc")
        data, frame, expected = study.to_arviz(), study.to_pandas(), study.samples
    elif kind == "one observation":
        one = posterior.accepted(x_o)
        data, frame, expected = one.to_arviz(n=500), one.to_pandas(n=500), one.sample(500)
    else:
        asked = posterior if kind == "any observation" else posterior.marginal("b", "a")
        data, frame = asked.to_arviz(x_o, n=500), asked.to_pandas(x_o, n=500)
        expected = asked.sample(500, x_o)
    names = ["b", "a"] if kind == "marginal" else ["a", "b"]
    assert list(data.posterior.data_vars) == list(frame.columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    np.testing.assert_array_equal(data.posterior["a"].to_numpy()[0], expected[:, names.index("a")])
    observed = data.observed_data["x"]
    assert float(observed.sel(statistic="u")) == 0.4 and float(observed.sel(statistic="v")) == 0.7
    assert float(arviz.summary(data, kind="stats").loc["a", "mean"]) == pytest.approx(0.4, abs=0.1)


def test_arviz_says_that_weights_belong_to_the_prior_group(rng):
    pytest.importorskip("arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = campaign(rng, 100).to_arviz()
    assert "log_weight" in data.attrs["thrifty_weights"]


def test_warnings_of_arviz_about_itself_are_not_passed_on(monkeypatch):
    arviz = pytest.importorskip("arviz")

    def noisy(**groups):
        warnings.warn("ArviZ is changing", FutureWarning, stacklevel=2)
        return groups

    monkeypatch.setattr(arviz, "from_dict", noisy)
    assert pandas_io.make_inference_data(posterior={}) == {"posterior": {}}
