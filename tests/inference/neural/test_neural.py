"""Every neural method through one door: shapes, density, maximum, files, seeds, and what it says to bad input."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import thrifty as th

RUN = th.Training(max_epochs=8)
BOX = th.Uniform([0.0, -1.0], [2.0, 1.0], names=["a", "b"])
SMALL = th.NSF(transforms=2, hidden=(16, 16))
MAF = th.MAF(transforms=2, hidden=(16, 16))
MDN = th.MixtureDensity(components=2, hidden=(16,))
METHODS = {
    "npe": th.NPE(BOX, network=SMALL, training=RUN),
    "npe-maf": th.NPE(BOX, network=MAF, training=RUN),
    "npe-mdn": th.NPE(BOX, network=MDN, training=RUN),
    "npe-after": th.NPE(BOX, network=MDN, correction="after", training=RUN),
    "npe-atomic": th.NPE(BOX, network=MDN, correction="atomic", training=RUN),
    "npe-embedded": th.NPE(BOX, network=MDN, embedding=th.MLPEmbedding(4, (8,)), training=RUN),
    "npe-robust": th.NPE(BOX, network=MDN, noise=th.SpikeAndSlab(copies=2), training=RUN),
    "fmpe": th.FMPE(BOX, network=th.FlowMatching((16, 16)), training=RUN),
    "fmpe-after": th.FMPE(BOX, network=th.FlowMatching((16, 16)), correction="after", training=RUN),
    "nle": th.NLE(BOX, network=SMALL, training=RUN),
    "nle-weighted": th.NLE(BOX, network=MDN, weighted=True, training=RUN),
    "nre": th.NRE(BOX, training=RUN),
    "ensemble": th.Ensemble(th.NPE(BOX, network=MDN, training=RUN), members=2),
}
X_O = np.array([0.9, 0.1, 0.5])


@pytest.fixture(scope="module")
def sims() -> th.Simulations:
    cost = th.fit_cost(theta := BOX.sample(60, np.random.default_rng(0)), np.exp(theta[:, 0]), model=th.Polynomial(1))
    draws = th.CostAware(BOX, cost, th.Power(0.5)).sample(500, 1)
    rng = np.random.default_rng(2)
    x = np.column_stack([draws.theta, draws.theta.sum(1)]) + 0.3 * rng.standard_normal((500, 3))
    return th.Simulations.from_arrays(theta=draws.theta, x=x, proposal=draws.proposal, names=BOX.names)


@pytest.fixture(scope="module")
def fitted(sims) -> dict:
    return {name: method.fit(sims, seed=1) for name, method in METHODS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_draws_lie_in_the_prior_and_repeat(name, fitted):
    posterior = fitted[name]
    drawn = posterior.draw(300, X_O, seed=3)
    assert drawn.samples.shape == (300, 2)
    assert np.isfinite(BOX.log_prob(drawn.samples)).all()
    assert 0 < drawn.acceptance <= 1 and 0 < drawn.local_ess <= 1 and drawn.ess.shape == drawn.rhat.shape == (2,)
    np.testing.assert_array_equal(posterior.sample(300, X_O, seed=3), drawn.samples)
    assert not np.array_equal(posterior.sample(300, X_O, seed=4), drawn.samples)
    assert posterior.names == ("a", "b")


@pytest.mark.parametrize("name", METHODS)
def test_density_is_normalised_and_agrees_with_the_draws(name, fitted):
    """On a grid: mass 1, -inf outside, and the draws' means within 5 standard errors of the density's."""
    posterior = fitted[name]
    axes = [np.linspace(a, b, 201)[1::2] for a, b in zip(*BOX.bounds, strict=True)]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    density = np.exp(posterior.log_prob(theta, X_O))
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    assert density.sum() * cell == pytest.approx(1, abs=0.04)
    assert posterior.log_prob([[3.0, 0.0]], X_O)[0] == -np.inf
    mass = density / density.sum()
    mean = mass @ theta
    sd = np.sqrt(mass @ (theta - mean) ** 2)
    drawn = posterior.draw(2000, X_O, seed=5)
    se = sd / np.sqrt(np.minimum(drawn.ess, 2000))
    assert (np.abs(drawn.samples.mean(0) - mean) < 5 * se + 0.02 * sd).all()  # 0.02 sd: the grid's cells


@pytest.mark.parametrize("name", METHODS)
def test_map_is_a_maximum(name, fitted):
    posterior = fitted[name]
    peak = posterior.map(X_O, seed=0)
    others = posterior.sample(500, X_O, seed=6)
    assert peak.shape == (2,)
    assert posterior.log_prob(peak[None], X_O)[0] >= posterior.log_prob(others, X_O).max() - 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_files_give_the_same_numbers_back(name, fitted, tmp_path):
    posterior = fitted[name]
    posterior.save(tmp_path / "p.thrifty")
    again = th.load_posterior(tmp_path / "p.thrifty")
    theta = BOX.sample(50, np.random.default_rng(0))
    np.testing.assert_array_equal(again.log_prob(theta, X_O), posterior.log_prob(theta, X_O))
    np.testing.assert_array_equal(again.sample(50, X_O, seed=1), posterior.sample(50, X_O, seed=1))
    assert again.notes == posterior.notes and again.names == posterior.names


@pytest.mark.parametrize("name", METHODS)
def test_evidence_of_what_has_a_likelihood(name, fitted, tmp_path):
    """Of NLE log p(x_o), of NRE up to a function of x_o, of NPE none; the same after loading."""
    posterior = fitted[name]
    if name.startswith(("npe", "fmpe")):
        with pytest.raises(th.ThriftyError, match="has no evidence"):
            posterior.log_evidence(X_O)
        return
    if name == "ensemble":
        with pytest.raises(th.ThriftyError, match=r"a member of this ensemble, .* has no evidence"):
            posterior.log_evidence(X_O)
        return
    found = posterior.log_evidence(X_O, seed=2)
    level = posterior.log_prob([[1.0, 0.0]], X_O, normalise=False)[0] - posterior.log_prob([[1.0, 0.0]], X_O)[0]
    assert abs(found.value - level) < 5 * np.sqrt(2) * found.se  # two independent integrals of one density
    assert bool(found.missing) == (name == "nre") and found.over == (() if name == "nre" else ("density",) * 3)
    posterior.save(tmp_path / "p")
    assert th.load_posterior(tmp_path / "p").log_evidence(X_O, seed=2) == found


@pytest.mark.parametrize("name", METHODS)
def test_bad_observations(name, fitted):
    posterior = fitted[name]
    for x_o, says in (
        ([1.0, 2.0], "has 2 values, simulations have 3"),
        ([1.0, np.nan, 2.0], "NaN in statistic 2 of 3"),
    ):
        for use in (lambda x: posterior.sample(5, x), lambda x: posterior.log_prob(BOX.low[None], x)):
            with pytest.raises(th.ThriftyError, match=says) as caught:
                use(x_o)
            assert caught.value.code == "bad-observation"
    with pytest.warns(th.ThriftyWarning, match="far-observation.*outside all 500 simulations in 1 of 3 statistics"):
        posterior.sample(5, [0.9, 0.1, 60.0])


@pytest.mark.parametrize("name", METHODS)
def test_bad_tables(name, sims):
    method = METHODS[name]
    with pytest.raises(th.ThriftyError, match="40 valid simulations for 2 parameters") as caught:
        method.fit(sims[:40], seed=0)
    assert caught.value.code == "too-few-runs"
    wide = th.Simulations.from_arrays(theta=sims.theta + 5, x=sims.x)
    with pytest.raises(th.ThriftyError, match="500 of 500 simulations lie outside the prior"):
        method.fit(wide, seed=0)
    other = th.Simulations.from_arrays(theta=sims.theta[:, :1], x=sims.x)
    with pytest.raises(th.ThriftyError, match="simulations have 1 parameters, the prior has 2"):
        method.fit(other, seed=0)


def test_constant_statistics_are_dropped_with_a_note(sims):
    x = np.column_stack([sims.x[:, 0], np.full(500, 4.0), sims.x[:, 1:]])
    table = th.Simulations.from_arrays(theta=sims.theta, x=x)
    with pytest.warns(th.ThriftyWarning, match=r"constant-output.*x_2 is constant \(4\) in all 500 runs; dropped"):
        posterior = METHODS["nre"].fit(table, seed=0)
    assert "dropped" in posterior.notes[0]
    assert posterior.sample(10, [0.9, 4.0, 0.1, 0.5]).shape == (10, 2)
    with pytest.warns(th.ThriftyWarning, match="far-observation"):
        posterior.sample(10, [0.9, 5.0, 0.1, 0.5])


def test_weights_dominated_by_few_runs(sims):
    crowded = sims.reweighted(np.r_[20.0, np.zeros(499)])
    with pytest.warns(th.ThriftyWarning, match=r"few-effective-runs.*500 simulations count as 1 .*th.Power\(0.5\)"):
        METHODS["npe-mdn"].fit(crowded, seed=0)
    METHODS["nle"].fit(crowded, seed=0)  # does not use them: nothing to say


@pytest.mark.parametrize("make", [th.NPE, th.FMPE, th.NLE, th.NRE])
def test_torch_missing_is_one_line(make, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find(name, *a))
    with pytest.raises(ImportError) as caught:
        make(BOX)
    assert str(caught.value) == '[missing-extra] neural inference needs torch: pip install "thrifty[neural]"'


def test_importing_thrifty_does_not_import_torch():
    import subprocess

    code = "import sys, thrifty as th; th.NPE; th.Training; th.load_posterior; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "bad",
    [
        lambda: th.NPE(BOX, correction="none"),
        lambda: th.FMPE(BOX, correction="atomic"),
        lambda: th.NLE(BOX, failures="ignore"),
        lambda: th.Ensemble(BOX),
        lambda: th.Ensemble(th.NPE(BOX), members=0),
        lambda: th.NSF(hidden=(0,)),
        lambda: th.MAF(activation="maxout"),
    ],
)
def test_bad_settings(bad):
    with pytest.raises(th.ThriftyError) as caught:
        bad()
    assert caught.value.code in ("bad-setting", "bad-setting")


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (th.FMPE(BOX, network=th.MAF()), "learns a field, and MAF.* is a density"),
        (th.NPE(BOX, network=th.FlowMatching()), "is a field, learned by th.FMPE alone"),
        (th.NLE(BOX, network=th.FlowMatching()), "is a field, learned by th.FMPE alone"),
    ],
)
def test_fields_and_densities_are_told_apart(method, says, sims):
    with pytest.raises(th.ThriftyError, match=says) as caught:
        method.fit(sims, seed=0)
    assert caught.value.code == "bad-setting"


def test_scipy_priors_are_saved_by_name(tmp_path, rng):
    prior = th.as_prior({"rate": stats.gamma(2.0, scale=0.5), "shift": stats.norm(1.0, 2.0)})
    theta = prior.sample(200, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.standard_normal((200, 2)), names=prior.names)
    posterior = th.NPE(prior, network=MDN, training=RUN).fit(table, seed=0)
    assert posterior.sample(200, [0.1, 1.0]).min(0)[0] >= 0  # half-lines do not leak either
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    np.testing.assert_array_equal(again.log_prob(theta, [1.0, 1.0]), posterior.log_prob(theta, [1.0, 1.0]))


def test_files_are_small_and_hold_no_pickle(fitted, tmp_path):
    fitted["npe"].save(tmp_path / "p")
    data = Path(tmp_path / "p").read_bytes()
    assert b"cnumpy" not in data and b"ctorch" not in data and len(data) < 2_000_000
    with np.load(tmp_path / "p", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)
