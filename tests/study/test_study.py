"""The whole journey in one call, and one kind of study for all methods."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError
from thrifty.report.results import read_results

SD = 0.3


def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    return th.Output(theta + SD * rng.normal(size=1), cost=float(np.exp(theta[0])))


PRIOR = th.Uniform(0.0, 3.0, names=["mu"])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> th.Study:
    folder = tmp_path_factory.mktemp("runs") / "one"
    method = th.ABC(PRIOR, quantile=0.1, adjust="linear")
    return th.infer(simulate, PRIOR, [1.0], n=1000, method=method, folder=folder, seed=1, cost="reported", workers=1)


def test_the_posterior_is_the_known_one(study: th.Study):
    # x | mu ~ N(mu, SD^2) under a flat prior, far from its ends: the posterior is N(1, SD^2)
    post = study.posterior.accepted(study.x_o)
    assert post.ess > 50
    assert abs(post.mean[0] - 1.0) < 5 * post.mean_se[0]
    assert abs(post.sd[0] - SD) < 5 * post.sd_se[0]


def test_the_runs_carry_the_prior(study: th.Study):
    theta, log_weights = study.simulations.theta[:, 0], study.simulations.log_weights
    weights = th.normalise(log_weights)
    mean = weights @ theta
    error = np.sqrt(np.sum((weights * (theta - mean)) ** 2))
    assert th.ess(log_weights) > 200 and abs(mean - 1.5) < 5 * error
    assert abs(theta.mean() - 1.5) > 5 * theta.std() / np.sqrt(len(theta))  # the mutant: weights forgotten


def test_everything_of_the_contract_is_there(study: th.Study):
    assert len(study.simulations) == 1200 and study.campaign is not None
    assert study.samples.shape == (2000, 1) and study.method == "abc"
    assert {"sbc", "weights", "cost_model"} <= {check.name for check in study.diagnosis}  # th.diagnose(study)
    assert "abc at x_o of 1 value: 1,200 runs count as" in repr(study) and "mu" in repr(study)
    html = study._repr_html_()
    assert "<table>" in html and "mu" in html and "checks:" in html


def test_html_is_escaped():
    sims = th.Simulations.from_arrays(theta=np.zeros((3, 1)), x=np.zeros((3, 1)))
    post = th.WeightedPosterior(np.arange(3.0)[:, None], np.zeros(3), x_o=[0.0])
    assert "<b>" not in th.Study(post, sims, np.zeros(1), method="<b>")._repr_html_()


def test_the_result_is_kept_in_the_folder(study: th.Study):
    (result,) = read_results(study.campaign.folder)
    assert result.name == "abc" and np.array_equal(result.samples, study.samples)
    assert np.array_equal(th.load_posterior(result.posterior_path).sample(2000, [1.0], seed=1), study.samples)


def test_again_is_the_same_and_runs_nothing(study: th.Study):
    method = th.ABC(PRIOR, quantile=0.1, adjust="linear")
    folder = study.campaign.folder
    again = th.infer(simulate, PRIOR, [1.0], n=1000, method=method, folder=folder, seed=1, cost="reported", workers=1)
    assert np.array_equal(again.samples, study.samples) and len(again.simulations) == 1200


def test_without_a_folder_it_is_gone_with_the_study():
    study = th.infer(simulate, PRIOR, [1.0], n=50, method=th.ABC(quantile=0.5), cost="reported", workers=1)
    folder = study.campaign.folder
    assert folder.is_dir() and len(read_results(folder)) == 1
    del study
    gc.collect()
    assert not folder.exists() and not folder.parent.exists()


def test_a_steering_method_gives_the_same_kind_of_study():
    method = th.SMCABC(PRIOR, particles=50)
    study = th.infer(simulate, PRIOR, [1.0], n=400, method=method, cost="reported", workers=1, seed=2)
    assert isinstance(study, th.Study) and study.method == "smcabc" and study.stopped == "runs"
    assert len(study.simulations) == 400 and len(study.generations) > 1 and "stopped by runs" in str(study)
    assert study.samples.shape == (2000, 1) and study.campaign is not None


def test_a_study_in_memory_has_no_report():
    sims = th.Simulations.from_arrays(theta=np.zeros((3, 1)), x=np.zeros((3, 1)))
    post = th.WeightedPosterior(np.arange(3.0)[:, None], np.zeros(3), x_o=[0.0])
    with pytest.raises(ConfigError, match="no run folder"):
        th.Study(post, sims, np.zeros(1)).report("report.html")


BAD = {
    "words": (["blue"], th.ABC, DataError, "bad-observation"),
    "NaN": ([1.0, np.nan], th.ABC, DataError, "has NaN at position 1"),
    "no method": ([1.0], object(), ConfigError, "bad-setting"),
    "a name for a method": ([1.0], "abc", ConfigError, "method=th.ABC, without quotes"),
    "a name with a dash": ([1.0], "smc-abc", ConfigError, "method=th.SMCABC, without quotes"),
}


@pytest.mark.parametrize(("x_o", "method", "error", "words"), BAD.values(), ids=BAD)
def test_mistakes_before_the_first_run(tmp_path: Path, x_o: object, method: object, error: type, words: str):
    with pytest.raises(error, match=words):
        th.infer(simulate, PRIOR, x_o, n=50, method=method, folder=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_an_observation_of_the_wrong_length_costs_a_pilot_only(tmp_path: Path):
    method = th.ABC(quantile=0.5)
    with pytest.raises(DataError, match=r"has shape \(1, 2\), simulations have 1"):
        th.infer(simulate, PRIOR, [[1.0, 2.0]], n=50, method=method, folder=tmp_path / "r", cost="reported", workers=1)
    assert th.Campaign.open(tmp_path / "r").status().planned == 10


@pytest.mark.parametrize("n", [0, -5, 2.5, "x", True])
def test_a_wrong_number_of_runs_costs_nothing(tmp_path: Path, n: object):
    with pytest.raises(ConfigError, match="expected a whole number"):
        th.infer(simulate, PRIOR, [1.0], n=n, method=th.ABC, folder=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()
