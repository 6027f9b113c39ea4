"""Files keep the proposal as plain numbers: the weight of any theta survives, and hostile numbers are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, WeightError

PRIOR = th.Uniform([0.0, 1.0], [1.0, 3.0], names=["a", "b"])


def fitted_cost(rng):
    theta = PRIOR.sample(60, rng)
    return th.fit_cost(theta, np.exp(2 * theta[:, 0]) * rng.lognormal(0, 0.05, 60))


def proposals(rng):
    cost = fitted_cost(rng)
    aware = th.CostAware(PRIOR, cost, th.Power(0.5))
    return {
        "cost-aware": aware,
        "mixture": th.Mixture(PRIOR, cost, powers=(0, 0.5, 1)),
        "pool": th.Pool([(50, PRIOR), (150, aware)], PRIOR),
    }


def table(proposal, rng, n=200):
    theta = PRIOR.sample(n, rng)
    return th.Simulations.from_arrays(theta=theta, x=theta, proposal=proposal, names=PRIOR.names)


def written(runs, kind, path):
    if kind == "npz":
        runs.to_npz(path)
        return th.Simulations.from_npz(path)
    pytest.importorskip("pandas")
    if kind == "pandas":
        return th.Simulations.from_pandas(runs.to_pandas())
    pytest.importorskip("pyarrow")
    runs.to_parquet(path)
    return th.Simulations.from_parquet(path)


@pytest.mark.parametrize("kind", ["npz", "pandas", "parquet"])
@pytest.mark.parametrize("name", ["cost-aware", "mixture", "pool"])
def test_the_weight_of_any_theta_survives(kind, name, rng, tmp_path):
    proposal = proposals(rng)[name]
    runs = table(proposal, rng)
    again = written(runs, kind, tmp_path / "runs.file")
    elsewhere = PRIOR.sample(500, rng)
    expected = proposal.log_weight(elsewhere)
    np.testing.assert_allclose(again.proposal.log_weight(elsewhere), expected, rtol=1e-12, atol=1e-12)
    assert np.ptp(expected) > 0.1  # a proposal without weights would pass too
    np.testing.assert_array_equal(again.log_weights, runs.log_weights)
    narrower = th.Uniform([0.2, 1.0], [0.8, 2.0], names=["a", "b"])
    assert th.reweight(again, narrower).log_weights.tolist() == th.reweight(runs, narrower).log_weights.tolist()


def test_arviz_has_the_proposal_as_an_attribute(rng):
    pytest.importorskip("arviz")
    data = table(proposals(rng)["cost-aware"], rng).to_arviz()
    assert json.loads(data.attrs["thrifty_proposal"])["weighting"]["kind"] == "cost_aware"


def test_a_cost_made_of_code_is_given_again(rng, tmp_path):
    """The file cannot hold a function; the proposal that made the table is accepted beside its weights, no other."""
    proposal = th.CostAware(PRIOR, lambda t: np.exp(2 * t[:, 0]), th.Power(0.5))
    other = th.CostAware(PRIOR, lambda t: np.exp(3 * t[:, 0]), th.Power(0.5))
    table(proposal, rng).to_npz(tmp_path / "a.npz")
    assert th.Simulations.from_npz(tmp_path / "a.npz").proposal is None
    assert th.Simulations.from_npz(tmp_path / "a.npz", proposal=proposal).proposal is proposal
    with pytest.raises(WeightError, match=r"weights given twice.*differ") as caught:
        th.Simulations.from_npz(tmp_path / "a.npz", proposal=other)
    assert "pass the proposal that drew these parameters" in str(caught.value)


def test_a_prior_of_ones_own_is_given_again(rng, tmp_path):
    class Own:
        dim, names, bounds = 2, PRIOR.names, PRIOR.bounds
        sample, log_prob = PRIOR.sample, PRIOR.log_prob

    proposal = th.CostAware(Own(), fitted_cost(rng), th.Power(0.5))
    table(proposal, rng).to_npz(tmp_path / "a.npz")
    assert th.Simulations.from_npz(tmp_path / "a.npz").proposal is None
    again = th.Simulations.from_npz(tmp_path / "a.npz", prior=Own()).proposal
    theta = PRIOR.sample(20, rng)
    np.testing.assert_allclose(again.log_weight(theta), proposal.log_weight(theta), rtol=1e-12)


def rewrite(path, change):
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    about = json.loads(str(arrays["about"]))
    arrays["about"] = np.array(json.dumps(change(about)) if callable(change) else change)
    np.savez(path, **arrays)


def _set(*keys, value):
    def change(about):
        place = about["proposal"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        return about

    return change


HOSTILE = {
    "unknown kind": _set("weighting", "kind", value="__import__"),
    "no cost": _set("weighting", "cost", value=None),
    "no penalty": _set("weighting", "penalty", value={"kind": "power"}),
    "text for a number": _set("weighting", "penalty", "k", value="os.system"),
    "unknown prior": _set("prior", "kind", value="os"),
    "unknown marginal": _set(
        "prior",
        value={"kind": "Independent", "names": ["a"], "marginals": [{"name": "__doc__", "args": [], "kwds": {}}]},
    ),
    "prior of other size": _set("prior", value={"kind": "Uniform", "names": ["a"], "low": [0.0], "high": [1.0]}),
    "list for a prior": _set("prior", value=[1, 2]),
    "another penalty": _set("weighting", "penalty", "k", value=1.0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_proposals_are_refused_in_one_sentence(name, rng, tmp_path):
    path = tmp_path / "a.npz"
    table(proposals(rng)["cost-aware"], rng).to_npz(path)
    th.Simulations.from_npz(path)
    rewrite(path, HOSTILE[name])
    with pytest.raises(DataError, match="proposal in the file cannot be read") as caught:
        th.Simulations.from_npz(path)
    assert caught.value.code == "bad-file" and "pass proposal=" in str(caught.value)


def test_deeply_nested_recipes_do_not_end_the_process(rng, tmp_path):
    path = tmp_path / "a.npz"
    table(proposals(rng)["cost-aware"], rng).to_npz(path)
    deep = {"kind": "pool", "counts": [1], "parts": []}
    for _ in range(300):
        deep = {"kind": "pool", "counts": [1], "parts": [deep]}
    rewrite(path, _set("weighting", value=deep))
    with pytest.raises(DataError, match="cannot be read"):
        th.Simulations.from_npz(path)
    rewrite(path, "[" * 100_000)
    assert th.Simulations.from_npz(path).proposal is None  # no description that can be read: numbers only
