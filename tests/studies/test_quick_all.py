"""Quick versions of the other studies, each with a property that its full run must have too."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th

pytest.importorskip("numba")
pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def test_products(quick, study):
    """k = 1 gives 1 for every model and cost, fitted or exact; a floor too high breaks it as the paper's rows are."""
    record, _ = quick("products", "--seeds", "2")
    module = study("products")
    for name in module.GRID:
        for kind in ("exact", "fitted"):
            rows = module.pick(record, model=name, kind=kind, k=1)
            assert np.allclose(module.column(rows, "product"), 1, atol=1e-6)
        row = [module.pick(record, model=name, kind="exact", k=k)[0]["product"] for k in (0.25, 0.5, 0.75)]
        assert row[1] == max(row) and abs(row[0] - row[2]) < 1e-4, "highest at √c, symmetric about it"
    for name in module.CHEAPEST:
        faulty = module.pick(record, model=name, kind="floor")
        gaps = [v["product"] - p for v, p in zip(faulty, module.PAPER[name], strict=True)]
        assert np.abs(gaps).max() < 0.15, "one number, the floor, gives the paper's row"
        right = module.pick(record, model=name, kind="published", k=1)[0]["product"]
        assert abs(right - 1) < 1e-6
    shares = module.pick(record, model="BernoulliSIR", kind="shares")[0]
    assert shares["explained"][2] > 0.9, "on the right graph cost is a function of the edge probability"


def test_gamma_figure(quick, study):
    record, _ = quick("gamma_figure")
    module = study("gamma_figure")
    for arm in ("paper mixture", "balance mixture"):
        saved = 1 - module.column(module.pick(record, arm=arm), "cost")
        assert saved.mean() > 0.2, "the paper's mixture saves around 25 %"
    costs = [module.column(module.pick(record, arm=f"k={k:g}"), "cost").mean() for k in (0, 0.5, 1, 2, 3)]
    assert costs == sorted(costs, reverse=True)
    cheap, expensive = (module.pick(record, arm="k=3", truth=t)[0]["abc_ess"] for t in (250, 750))
    assert cheap > expensive


def test_table2(quick, study):
    """At equal n every power saves at least what the paper says, where the surface allows it."""
    record, printed = quick("table2")
    module = study("table2")
    for name in ("HomogeneousSIR", "TemporalSIR"):
        for arm, paper in zip(module.ARMS[1:4], module.PAPER_SAVED[name][1:4], strict=True):
            row = module.pick(record, model=name, arm=arm)[0]
            assert row["saved"] > paper / 100 - 0.08, f"{name} {arm}: {row['saved']} against {paper} %"  # n = 500
    rows = [module.pick(record, model="TemporalSIR", arm=a)[0] for a in ("mixture", "balance")]
    assert rows[1]["ess"] > rows[0]["ess"] and rows[1]["saved"] == rows[0]["saved"], "same runs, better weights"
    pilot = module.pick(record, model="TemporalSIR", arm="k=1")[0]
    assert pilot["saved_with_pilot"] < pilot["saved"]
    assert "with pilot" in printed


def test_table3(quick, study):
    record, _ = quick("table3")
    module = study("table3")
    saved = {n: module.column(module.pick(record, cost=n), "saved").mean() for n in module.MODELS}
    assert saved["reversed"] < 0 < saved["GP (200)"], "a cost the wrong way round costs, it does not save"
    assert saved["GP (200)"] > saved["GP (15)"]


def test_seconds(quick, study):
    """A simulator in plain Python, its cost learned from the clock: seconds are saved, more with k."""
    record, _ = quick("seconds", "--seeds", "2")
    module = study("seconds")
    saved = [module.column(module.pick(record, arm=arm), "saved").mean() for arm in ("NPE", "k=0.5", "k=1", "k=2")]
    assert saved == sorted(saved) and saved[0] == 0 and saved[2] > 0.4, "n = 200"


def test_radio(quick, study):
    record, _ = quick("radio")
    module = study("radio")
    for arm, paper in module.PAPER_SAVED.items():
        assert 100 * module.pick(record, arm=arm, method="NPE")[0]["saved"] > paper - 3  # n = 300
    spans = {(v["arm"], v["order"]): v["makespan"] for v in module.pick(record, part="fifty")}
    assert all(spans[arm, "longest first"] <= spans[arm, "plan order"] for arm in module.ARMS)
    assert module.pick(record, part="two")[0]["same_table"]


def test_beyond_weights(quick, study):
    record, _ = quick("beyond_weights")
    module = study("beyond_weights")
    local = {s: module.column(module.pick(record, place="expensive", scheme=s), "local") for s in ("paper", "balance")}
    assert (local["balance"] > local["paper"]).all(), "same runs, more effective ones where runs are expensive"
    assert module.schemes(10)[2] > 2


def test_beyond_nle(quick, study):
    record, _ = quick("beyond_nle")
    module = study("beyond_nle")
    mmd = {w: module.column(module.pick(record, k=2, weighted=w), "mmd2").mean() for w in (True, False)}
    assert mmd[False] < mmd[True], "weights only add variance"


def test_beyond_budget(quick, study):
    record, _ = quick("beyond_budget")
    module = study("beyond_budget")
    rows = {arm: module.pick(record, arm=arm)[0] for arm in module.ARMS}
    for row in rows.values():
        assert 1 <= row["spent"] < 1.02, "one run past the budget, no more"
    assert rows["balance mixture"]["all"] > rows["paper's mixture"]["all"]
    assert rows["√c"]["effective"] > rows["plain"]["effective"]


def test_beyond_stopping(quick, study):
    record, _ = quick("beyond_stopping")
    module = study("beyond_stopping")
    for name in module.CASES:
        error = {}
        for rule in module.RULES:
            means = np.concatenate([v["means"] for v in module.pick(record, case=name, rule=rule)])
            error[rule] = (means.mean() - 0.5) / means.std() * np.sqrt(len(means))
        assert abs(error["drained"]) < 5
        assert error["finished"] < -5 and error["skipped"] < -5
    dropped = module.column(module.pick(record, policy="restrict"), "mean")
    lazy = module.column(module.pick(record, policy="lazy"), "mean")
    se = {name: v.std(ddof=1) / np.sqrt(len(v)) for name, v in (("dropped", dropped), ("lazy", lazy))}
    assert abs(lazy.mean() - 1) < 5 * se["lazy"]
    assert dropped.mean() < 1 - 5 * se["dropped"]


def test_beyond_pilot(quick, study):
    """No weight of the pool exceeds n / 200 + 1, so that it keeps more effective runs under every penalty."""
    record, printed = quick("beyond_pilot")
    module = study("beyond_pilot")
    for name in module.SEEDS:
        for k in module.POWERS[1:]:
            alone, pooled, *_ = (module.rows_of(record, name, k, way)[0] for way in module.WAYS)
            assert pooled["effective"] > alone["effective"] and pooled["largest"] < alone["largest"]
            assert alone["effective"] < 0.95 * alone["n"], "weights forgotten count every run (mutant)"
            assert pooled["saved"] == alone["saved"] > alone["saved_with_pilot"], "the same campaign"
    far = {v["yardstick"]: v["exact"] for v in module.pick(record, part="reference")}
    assert abs(far["exact draws again"]) < 0.01 < far["MAF"], "a network on 3,000 runs is told from exact draws"
    assert "to the exact posterior" in printed and "own less fresh" in printed


def test_the_exact_posterior_of_temporal_sir_is_what_its_runs_say(study):
    """Runs from the prior whose outbreak comes close to an observation have the moments of its exact posterior."""
    module = study("beyond_pilot")
    model, i = module.model_of("TemporalSIR"), 3
    x_o, exact = module.observations(model)[i], module.truth("TemporalSIR")[i]
    sims = model.simulate_many(model.prior.sample(600_000, np.random.default_rng(1)), 2)
    near = (sims.x[:, 0] == x_o[0]) & (np.abs(np.log(sims.x[:, 1] / x_o[1])) < 0.15)
    near &= np.abs(np.cumsum(sims.x[:, 2:] - x_o[2:], axis=1)).max(1) <= 3
    theta = sims.theta[near]
    assert len(theta) > 200
    for values in (lambda t: t[:, 0] / t[:, 1], lambda t: t[:, 1]):
        se = np.hypot(*(values(t).std() / np.sqrt(len(t)) for t in (theta, exact)))
        assert abs(values(theta).mean() - values(exact).mean()) < 5 * se
    wrong = module.truth("TemporalSIR")[2]
    assert abs(theta.mean(0) - wrong.mean(0)).max() > 5 * se, "another observation's posterior is told apart (mutant)"


def test_pools_have_the_share_of_large_outbreaks_that_the_prior_has(study, tmp_path):
    """Within five standard errors at √c; without the weights cheap, small outbreaks are too many."""
    module = study("beyond_pilot")
    share = module.large({"n": 100_000}, tmp_path)[0]["share"]
    row = next(v for v in module.own_pilot({"n": 5_000, "seed": 0}, tmp_path) if v["power"] == 0.5)
    model = module.model_of("TemporalSIR")
    proposal = th.CostAware(model.prior, module.fit(module.pilot(model, 10_000)[0]), th.Power(0.5))
    runs = module._runs(model, proposal, 5_000, 10_000, 1)
    se = np.sqrt(share * (1 - share) / th.ess(runs.log_weights))
    assert abs(row["own"] - share) < 5 * se and abs(row["fresh"] - share) < 5 * se
    assert abs((runs.x[:, 0] > module.LARGE).mean() - share) > 5 * se, "weights forgotten (mutant)"


def test_a_cut_table_of_the_papers_mixture_counts_its_components_alike(study):
    module = study("beyond_budget")
    mixture = th.Mixture(th.Uniform(0, 1), lambda t: 100 ** t[:, 0], powers=(0, 1, 2), scheme="paper")
    cut = mixture.sample(300, 0)[:70]
    sums = [np.exp(d.log_weights[d.component == j]).sum() for d in (module.counted_alike(cut), cut) for j in range(3)]
    assert np.allclose(sums[:3], 1) and not np.allclose(sums[3:], sums[3], rtol=0.02), "without it they do not (mutant)"
    plain = th.CostAware(th.Uniform(0, 1), lambda t: 1 + t[:, 0], th.Power(1)).sample(50, 0)
    assert module.counted_alike(plain) is plain, "one proposal has no components"


def test_rounds(quick, study):
    """Two problems at a tenth of the budgets: every arm of thrifty runs, within its budget, and finds the posterior."""
    record, printed = quick("rounds")
    module = study("rounds")
    for value in record["values"]:
        most = module.WHOLE / module.ARMS[value["arm"]][1] / value["part"]
        assert value["cost"] < 1.1 * most or module.ARMS[value["arm"]][0] == "plain", (value["arm"], value["cost"])
    assert {value["arm"] for value in record["values"]} == set(module.ARMS) - set(module.PEER_ARMS)
    wide = [v["c2st"] for v in module.pick(record, problem="waiting") if v["arm"] != "SMC-ABC"]
    assert max(wide) < 0.75, "one parameter, three outputs: any method is near on 250 runs"
    assert "NLE rounds, cost-blind" in printed and "(1)" in printed, "one seed, and the table says so"
