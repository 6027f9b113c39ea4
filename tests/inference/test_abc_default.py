"""The default of th.ABC: enough accepted runs for a posterior, local regression where it helps, an error where not."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import InferenceError
from thrifty.inference.adjustment import adjust_parameters
from thrifty.inference.tolerance import Tolerance
from thrifty.inference.transforms import BoxTransform

pytestmark = pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
PRIOR = th.Normal(np.zeros(2), np.ones(2))


def table(n, rng, *, tilt=0.0, useless=0):
    """theta ~ N(0, I), x = theta + noise of sd 1: the posterior is N(x/2, 1/2). Draws may be tilted, with weights."""
    theta = rng.normal(size=(n, 2))
    theta[:, 0] -= tilt
    x = np.hstack([theta + rng.normal(size=(n, 2)), rng.normal(size=(n, useless))])
    return th.Simulations.from_arrays(theta=theta, x=x, log_weights=tilt * theta[:, 0])


def observation(rng, useless=0):
    truth = rng.normal(size=2)
    return truth, np.concatenate([truth + rng.normal(size=2), rng.normal(size=useless)])


@pytest.mark.parametrize("n", [60, 80, 300, 3000])
@pytest.mark.parametrize("tilt", [0.0, 0.4])
def test_keeps_enough_runs_for_a_posterior(n, tilt, rng):
    runs = table(n, rng, tilt=tilt)
    post = th.ABC(PRIOR).fit(runs).accepted([0.5, 0.2])
    assert post.ess >= (20 if n == 60 else 28) and (post.sd > 0.3).all()
    low, high = post.quantile([0.05, 0.95])
    assert (high - low > 0.8).all()


def test_one_percent_of_eighty_runs_is_one_run(rng):
    """The mutant: what the default was. It is still there for whoever asks for it."""
    post = th.ABC(PRIOR, quantile=0.01).fit(table(80, rng)).accepted([0.5, 0.2])
    assert len(post) == 1 and (post.sd == 0).all()


def errors(method, n, seed, repeats, *, useless=0):
    """Mean error of the posterior mean in posterior sd, and the share of true parameters inside 90 % intervals."""
    gaps, inside = [], []
    for i in range(repeats):
        rng = np.random.default_rng(seed + i)
        runs = table(n, rng, useless=useless)
        truth, x_o = observation(rng, useless)
        post = method.fit(runs).accepted(x_o)
        gaps.append(np.abs(post.mean - x_o[:2] / 2).mean() / np.sqrt(0.5))
        low, high = post.quantile([0.05, 0.95])
        inside.append(np.mean((truth >= low) & (truth <= high)))
    return np.mean(gaps), np.mean(inside)


def test_regression_by_default_is_nearer_to_the_posterior(seed):
    default, coverage = errors(th.ABC(PRIOR), 200, seed, 40)
    plain, _ = errors(th.ABC(PRIOR, adjust="none"), 200, seed, 40)
    assert default < 0.7 * plain and coverage > 0.9 - 5 * np.sqrt(0.09 / 80)


def test_the_default_widens_what_fitting_narrows(seed, monkeypatch):
    """18 useless outputs: 90 % intervals hold about 85 %; without the correction, the mutant, clearly fewer."""
    method = th.ABC(PRIOR)
    _, coverage = errors(method, 180, seed, 60, useless=18)
    from thrifty.inference import abc

    def unwidened(*args, widen):
        return adjust_parameters(*args)

    monkeypatch.setattr(abc, "adjust_parameters", unwidened)
    _, mutant = errors(method, 180, seed, 60, useless=18)
    assert coverage > 0.75 and mutant < coverage - 0.03


def test_widening_gives_the_residuals_their_variance_back(rng):
    """Exact on average: residuals of pure noise regressed on d statistics keep 1 - (d + 1)/n of their variance."""
    box = BoxTransform(np.array([-np.inf]), np.array([np.inf]))
    variances = {True: [], False: []}
    for _ in range(400):
        noise, offset = rng.normal(size=(60, 1)), rng.normal(size=(60, 20))
        for widen, found in variances.items():
            found.append(adjust_parameters(noise, offset, np.zeros(60), box, widen=widen).var())
    standard_error = np.std(variances[True]) / 20
    assert abs(np.mean(variances[True]) - 1) < 5 * standard_error
    assert np.mean(variances[False]) < 0.7


def test_without_enough_runs_per_statistic_there_is_no_regression(rng):
    runs = table(100, rng, useless=60)
    post = th.ABC(PRIOR).fit(runs).accepted(observation(rng, 60)[1])
    assert {tuple(row) for row in post.theta.tolist()} <= {tuple(row) for row in runs.theta.tolist()}
    near = th.ABC(PRIOR).fit(table(100, rng)).accepted([0.5, 0.2])
    assert not {tuple(row) for row in near.theta.tolist()} <= {tuple(row) for row in runs.theta.tolist()}


@pytest.mark.parametrize(("n", "tilt"), [(30, 0.0), (200, 2.0)])
def test_too_few_runs_for_any_posterior_is_an_error_with_the_number_needed(n, tilt, rng):
    runs = table(n, rng, tilt=tilt)
    size = float(1 / np.sum(th.normalise(runs.log_weights) ** 2))
    with pytest.raises(InferenceError, match=f"{n} runs count as {size:.0f}; ABC needs 50 effective runs") as caught:
        th.ABC(PRIOR).fit(runs)
    assert caught.value.code == "too-few-runs"
    needed = int(re.search(r"run about (\d+) in all", str(caught.value))[1])
    assert needed == int(np.ceil(50 * n / size))
    with pytest.warns(th.ThriftyWarning, match="effective runs were accepted"):
        assert len(th.ABC(PRIOR, n_accept=10).fit(runs).accepted([0.0, 0.0])) == 10


def test_explicit_settings_mean_what_they_meant(rng):
    runs = table(2000, rng)
    assert th.ABC(quantile=0.1).adjust == th.ABC(epsilon=1.0).adjust == th.ABC(n_accept=5).adjust == "none"
    assert th.ABC().adjust == "auto" and th.ABC(distance=th.distances.Energy()).adjust == "none"
    assert th.ABC(adjust="linear").adjust == "linear" and Tolerance().is_default
    assert len(th.ABC(quantile=0.05).fit(runs).accepted([0.0, 0.0])) == 100
    assert len(th.ABC(n_accept=77).fit(runs).accepted([0.0, 0.0])) == 77


def test_the_default_is_saved_and_loaded(rng, tmp_path):
    post = th.ABC(PRIOR).fit(table(300, rng))
    post.save(tmp_path / "abc.npz")
    again = th.load_posterior(tmp_path / "abc.npz")
    np.testing.assert_array_equal(again.sample(50, [0.5, 0.2], seed=1), post.sample(50, [0.5, 0.2], seed=1))


def test_realisations_count_as_runs_not_as_pairs(rng):
    theta = rng.normal(size=(300, 2))
    runs = th.Simulations.from_arrays(theta=theta, x=theta[:, None] + rng.normal(size=(300, 4, 2)), m=4)
    assert th.ABC(PRIOR).fit(runs).accepted([0.5, 0.2]).ess > 60


def test_a_study_says_what_its_answer_rests_on(rng):
    runs = table(300, rng)
    post = th.ABC(PRIOR).fit(runs)
    text = str(th.Study(post, runs, np.array([0.5, 0.2]), method="abc"))
    found = post.accepted([0.5, 0.2])
    assert f"rests on {len(np.unique(found.index))} accepted runs ({found.ess:.0f} effective)" in text
    one = str(th.Study(found, runs, np.array([0.5, 0.2]), method="smcabc"))
    assert "accepted runs" in one


def test_the_model_is_not_called_wrong_for_its_own_outputs(seed):
    """With 20 statistics and 300 runs, one of seven outputs of the model lies outside all runs in some statistic."""
    warned = outside = 0
    for i in range(100):
        rng = np.random.default_rng(seed + i)
        runs = table(300, rng, useless=18)
        x_o = observation(rng, 18)[1]
        outside += bool(((x_o < runs.x.min(0)) | (x_o > runs.x.max(0))).any())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            th.ABC(n_accept=60).fit(runs).accepted(x_o)
        warned += any("model may be wrong" in str(w.message) for w in caught)
    assert outside >= 4 and warned <= 1  # the mutant: being outside was called a wrong model
    with pytest.warns(th.ThriftyWarning, match="model may be wrong"):
        th.ABC(n_accept=60).fit(runs).accepted(x_o + 20)


@pytest.mark.parametrize("statistics", [1, 3])
def test_what_the_default_says_it_accepts_is_what_it_accepts(statistics, rng):
    theta = rng.normal(size=(4000, statistics))
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape))
    posterior = th.ABC(th.Normal(np.zeros(statistics), np.ones(statistics))).fit(sims)
    said = round(7 * np.sqrt(4000))
    assert f"the nearest runs that count as {said}, or 1% of prior mass" in str(posterior)
    accepted = posterior.accepted(np.zeros(statistics))
    assert said - 1 <= len(accepted) <= said + 1  # of the plain prior each counts as one
    kernel = (statistics + 4) / (2 * statistics + 4)  # flat outputs around x_o, as docs/abc.md says
    assert abs(accepted.ess / len(accepted) - kernel) < 5 * np.sqrt(kernel * (1 - kernel) / len(accepted))
