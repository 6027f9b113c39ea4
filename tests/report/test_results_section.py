"""Several results in one folder: all of them side by side, each with its time and verdict."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from report_page import Page
from report_scenario import keep_result

import thrifty as th
from thrifty.campaign.kept_rounds import KeptRound
from thrifty.report import write
from thrifty.report.gather import gather
from thrifty.report.inference_sections import Measured, calibration_section, posterior_section
from thrifty.report.inference_time import describe_time, sum_inference
from thrifty.report.plan_sections import waterfall_section
from thrifty.report.results import Result, read_results, save_result
from thrifty.report.results_section import MAX_COMPARED, results_section
from thrifty.weights import quantile

TRAINING = ((15.0, True), (25.0, True), (99.0, False))  # seconds, and whether the round was judged


@pytest.fixture(scope="module")
def folder(stages, tmp_path_factory):
    place = tmp_path_factory.mktemp("several") / "toy"
    shutil.copytree(stages["inferred"], place)
    first = read_results(place)[0]
    shifted = replace(
        first, name="shifted", samples=first.samples + np.array([0.1, 0.0]), seconds=75.0, created="2030-01-01"
    )
    save_result(place, replace(shifted, diagnosis=None))
    save_result(place, replace(first, name="elsewhere", x_o=first.x_o + 1, created="2029-01-01"))
    return place


def test_every_result_has_a_row_with_its_time(folder):
    section = results_section(gather(folder), read_results(folder))
    rows = {row[0]: row for row in section.tables[0].rows}
    assert list(rows) == ["abc", "elsewhere", "shifted"], "the newest last"
    assert rows["shifted"][2:4] == ["not checked", "1.25 min"] and rows["abc"][3] == "0.5 s"
    assert section.tables[0].mark == 2


def test_the_waterfall_counts_the_times_of_the_table(folder):
    """The newest result took 0.4 ms and another one 75 s: the figure has what the table has, together."""
    facts, results = gather(folder), read_results(folder)
    quick = replace(results[0], name="quick", seconds=0.0004, created="2031-01-01")
    results = (*results, quick)
    facts = replace(facts, status=replace(facts.status, unit="s"))
    table = {row[0]: row[3] for row in results_section(facts, results).tables[0].rows}
    assert table["shifted"] == "1.25 min" and table["quick"] == "less than 0.1 s"
    steps = dict(waterfall_section(facts, results).tables[0].rows)
    assert steps["inference, 4 results"] == "1.27 min", "0.5 s, 0.5 s and 75 s"
    assert not any("inference" in step for step in dict(waterfall_section(facts, (quick,)).tables[0].rows))


def test_the_time_of_rounds_is_their_training_and_counts_once(stages):
    """A call that continued finished rounds took no time; two observations share one training."""
    facts, result = gather(stages["inferred"]), read_results(stages["inferred"])[0]
    rounds = tuple(KeptRound((0,), 10, "prior", 0.1, 0.1, seconds, judged) for seconds, judged in TRAINING)
    facts = replace(facts, status=replace(facts.status, rounds=rounds))
    results = tuple(replace(result, name=name, method="nle-rounds", seconds=0.01) for name in ("one", "two"))
    assert describe_time(facts, results[0]) == "40 s" and sum_inference(facts, results) == 40.0
    smc = replace(result, method="smcabc", seconds=90.0)
    assert describe_time(facts, smc) == "1.5 min with runs" and sum_inference(facts, (smc,)) == 0.0


def test_whole_numbers_and_categories_are_not_interpolated(tmp_path):
    prior = th.Independent({"k": th.Integers(0, 9), "kind": th.Categorical([0.5, 0.5], ["gamma", "normal"])})
    c = th.Campaign(tmp_path / "c", _count, prior, seed=1, cost="reported")
    c.pilot(20, engine=th.Inline(), progress="quiet")
    draws = np.array([[2.0, 0.0], [3.0, 1.0], [3.0, 1.0], [4.0, 1.0]])
    about = {"method": "abc", "posterior_path": None, "x_o": np.zeros(1), "log_weights": None, "names": prior.names}
    results = tuple(Result(name=name, samples=draws, **about) for name in ("a", "b"))
    facts = gather(c.folder)
    quantiles, categories = posterior_section(facts, results, None).tables
    assert quantiles.rows == [["k", "2", "2", "3", "3", "4"]], "interpolated, 25 % is 2.5"
    assert categories.rows == [["kind", "gamma 25.0%, normal 75.0%"]]
    rows = results_section(facts, results).tables[1].rows
    assert rows == [["k", *["3 (2 to 4)"] * 2], ["kind", *["gamma 25.0%, normal 75.0%"] * 2]]


def _count(theta, rng):
    return th.Output(np.array([theta[0] + theta[1] + rng.normal()]), cost=1.0)


def test_quantiles_stand_side_by_side_with_their_weights(folder):
    results = read_results(folder)
    section = results_section(gather(folder), results)
    header, (beta, _) = section.tables[1].header, section.tables[1].rows
    assert header == ["parameter", "abc", "shifted"]
    abc = next(r for r in results if r.name == "abc")
    low, middle, high = quantile(abc.samples[:, 0], (0.05, 0.5, 0.95), abc.log_weights)
    assert beta[1] == f"{middle:.4g} ({low:.4g} to {high:.4g})"
    assert np.ptp(abc.log_weights) > 0 and f"{np.median(abc.samples[:, 0]):.4g}" != f"{middle:.4g}", "the mutant"
    assert float(beta[2].split()[0]) == pytest.approx(middle + 0.1, abs=1e-3)


def test_results_of_another_observation_are_not_drawn_on_the_same_axes(folder):
    section = results_section(gather(folder), read_results(folder))
    assert "elsewhere" not in section.drawings[0].description and "elsewhere" in section.notes[-1]


def test_many_results_stay_readable(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "toy")
    for i in range(MAX_COMPARED + 2):
        keep_result(tmp_path / "toy", name=f"again-{i}")
    section = results_section(gather(tmp_path / "toy"), read_results(tmp_path / "toy"))
    assert len(section.tables[1].header) == MAX_COMPARED + 1
    assert len(section.tables[0].rows) == 3 + MAX_COMPARED + 2


def test_the_page_has_the_section_only_where_there_is_something_to_compare(folder, pages, tmp_path):
    text = write(tmp_path / "r.html", folder).read_text(encoding="utf-8")
    assert "All results side by side" in text and "could not be made" not in text
    assert "results" in Page(text).ids and "results" not in Page(pages["inferred"].read_text()).ids


def test_a_figure_has_the_verdict_of_the_table(folder, rng):
    """A check is judged among the tests of its question; the title of its figure says the same as its row."""
    prior = th.Uniform(0, 1, names=["a"])
    theta = prior.sample(400, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=["a"])
    checks = (th.diagnostics.sbc(th.ABC(prior).fit(runs[:300]), runs[300:]),)
    for verdict in ("trust", "with care", "do not trust"):
        rows = [{"name": "sbc", "verdict": verdict, "reason": "as judged"}]
        judged = replace(read_results(folder)[0], diagnosis={"verdict": verdict, "checks": rows, "notes": []})
        section = calibration_section(gather(folder), (judged,), Measured(checks))
        assert section.drawings[0].figure.axes[0].get_title("left") == f"Ranks (SBC): {verdict}"
