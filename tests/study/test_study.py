"""The whole journey in one call, and one kind of study for all methods."""

from __future__ import annotations

import gc
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.durations import format_amount
from thrifty.errors import ConfigError, DataError, QualityGateError
from thrifty.report.content import ANSWERS
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
    assert th.diagnose(study, seed=study.seed).to_dict() == study.diagnosis.to_dict()
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


def test_a_campaign_infers_and_keeps_the_result_where_a_report_finds_it(tmp_path: Path):
    """As a user does it: a session makes runs and a posterior; another one writes the report of the folder."""
    campaign = th.Campaign(tmp_path / "runs", simulate, PRIOR, seed=2, cost="reported")
    campaign.pilot(40, engine=th.Inline())
    campaign.plan(n=200)
    campaign.run(engine=th.Inline())
    before = campaign.report(tmp_path / "before.html").read_text(encoding="utf-8")
    assert "No posterior is kept in this folder" in before and "campaign.infer(x_o)" in before
    study = campaign.infer([1.0], method="abc")
    same = th.ABC(PRIOR).fit(campaign.simulations(), seed=0).sample(2000, [1.0], seed=0)
    np.testing.assert_array_equal(study.samples, same)
    (kept,) = read_results(campaign.folder)
    np.testing.assert_array_equal(kept.samples, study.samples)
    after = th.Campaign.open(campaign.folder).report(tmp_path / "after.html").read_text(encoding="utf-8")
    assert "No posterior is kept" not in after
    with pytest.raises(ConfigError, match="chooses its own runs"):
        campaign.infer([1.0], method=th.SMCABC)


def test_a_study_shows_categories_by_label_and_whole_numbers_whole():
    """Draws of the model are gamma in one of four; half of the copies lie between 2 and 3."""
    prior = th.Independent(
        {"model": th.Categorical([0.5, 0.5], labels=["gamma", "weibull"]), "copies": th.Integers(1, 4)}
    )
    theta = np.column_stack([np.repeat([0.0, 1.0, 1.0, 1.0], 250), np.tile([1.0, 2.0, 3.0, 4.0], 250)])
    sims = th.Simulations.from_arrays(theta=theta, x=theta + 1e-9, names=prior.names)
    study = th.Study(th.ABC(prior, quantile=1.0).fit(sims), sims, np.array([0.5, 2.5]), method="abc")
    text, html = str(study), study._repr_html_()
    for shown in (text, html):
        assert "gamma 25.0%, weibull 75.0%" in shown
    assert "copies  median 2 (90%: 1 to 4)" in text
    assert all(value == round(value) for _, *values in study.summary() for value in values)
    accepted = study.posterior.accepted(study.x_o)
    ends = accepted.quantile([0.05, 0.26, 0.5, 0.95])
    np.testing.assert_array_equal(ends, np.round(ends))
    assert accepted.quantile([0.5])[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "words"), [("smcabc", "th.SMCABC"), ("SMC-ABC", "th.SMCABC"), ("snle", "th.Rounds(th.NLE")]
)
def test_a_method_without_a_name_is_named_as_an_object(tmp_path: Path, name: str, words: str):
    with pytest.raises(ConfigError) as caught:
        th.infer(simulate, PRIOR, [1.0], method=name, folder=tmp_path / "runs")
    assert words in caught.value.fix


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
    assert len(study.simulations) == 400 and len(study.generations) > 1 and "ended: all runs are used" in str(study)
    assert study.samples.shape == (2000, 1) and study.campaign is not None


def test_a_study_in_memory_has_no_report():
    sims = th.Simulations.from_arrays(theta=np.zeros((3, 1)), x=np.zeros((3, 1)))
    post = th.WeightedPosterior(np.arange(3.0)[:, None], np.zeros(3), x_o=[0.0])
    with pytest.raises(ConfigError, match="no run folder"):
        th.Study(post, sims, np.zeros(1)).report("report.html")


BAD = {
    "words": (["blue"], th.ABC, DataError, "bad-observation"),
    "NaN": ([1.0, np.nan], th.ABC, DataError, "has NaN in statistic 2 of 2"),
    "no method": ([1.0], object(), ConfigError, "bad-setting"),
    "a wrong name": ([1.0], "apc", ConfigError, 'method="abc"'),
    "letters in another order": ([1.0], "nep", ConfigError, 'method="npe"'),
    "an unknown name": ([1.0], "flow", ConfigError, "by name there are npe, fmpe, nle, nre, abc"),
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


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_infer_within_a_budget(tmp_path: Path):
    """Pilots take at most a tenth of the budget after the first ten, and the runs end where the budget does."""
    settings = {"method": "abc", "cost": "reported", "workers": 1, "folder": tmp_path / "runs", "seed": 3}
    study = th.infer(simulate, PRIOR, [1.0], budget=1500, **settings)
    costs, status = study.simulations.cost, study.campaign.status()
    assert study.method == "abc" and status.pending == 0
    assert 1350 < costs.sum() < 1500 + costs.max()
    pilots = study.campaign.session.settings().pilots
    assert 10 < pilots <= 200 and costs[:10].sum() * pilots / 10 <= 150 + costs[:10].sum() / 10
    again = th.infer(simulate, PRIOR, [1.0], budget=1500, **settings)  # continues: nothing is run again
    assert th.table_hash(again.simulations) == th.table_hash(study.simulations)


def test_a_pilot_that_costs_more_than_the_budget_is_refused_after_ten_runs(tmp_path: Path):
    """A run costs 6.4 on average: 400 of them are far beyond 300, and ten show it."""
    settings = {"method": "abc", "cost": "reported", "workers": 1, "folder": tmp_path / "runs"}
    with pytest.raises(ConfigError, match=r"pilot = 400 runs would take about .* units, by the first 10") as caught:
        th.infer(simulate, PRIOR, [1.0], n=400, budget=300, pilot=400, **settings)
    assert caught.value.code == "budget-too-small" and "pilot = 10" in caught.value.fix
    assert th.Campaign.open(tmp_path / "runs").status().planned == 10


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_infer_takes_pilot_time_limit_and_cap(tmp_path: Path):
    study = th.infer(
        simulate, PRIOR, [1.0], n=400, budget="300 reported", pilot=25, time_limit="1 min", on_timeout="lazy",
        method=th.ABC(quantile=0.5), cost="reported", workers=1, folder=tmp_path / "r",
    )  # fmt: skip
    assert study.campaign.session.settings().pilots == 25
    assert len(study.simulations) < 425 and study.cost < 300 + study.simulations.cost.max()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pilot": 0}, "expected a whole number"),
        ({"time_limit": "10 s"}, "on_timeout is not set"),
        ({"on_timeout": "lazy"}, "without a time_limit"),
        ({"method": th.SMCABC, "pilot": 50}, "its first round is its pilot"),
        ({"method": th.SMCABC, "time_limit": "10 s", "on_timeout": "lazy"}, "cannot be used with smc"),
        ({"rounds": 2, "method": "abc"}, "cannot be used in rounds"),
        ({"budget": 5.0, "n": None, "cost": "wall"}, "has no unit"),
    ],
)
def test_settings_that_cannot_be_kept_cost_nothing(tmp_path: Path, settings: dict, words: str):
    with pytest.raises(ConfigError, match=words):
        th.infer(simulate, PRIOR, [1.0], **{"n": 50, "method": "abc", "folder": tmp_path / "r", **settings})
    assert not (tmp_path / "r").exists() or not th.Campaign.open(tmp_path / "r").status().planned


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_infer_by_name(tmp_path: Path):
    """Names of parameters, of outputs and of the observation, from end to end."""
    prior = th.Uniform([0, 0], [4, 4], names=["a", "b"])

    def both(b: float, a: float, rng: np.random.Generator) -> th.Output:
        return th.Output({"low": a + rng.normal(), "high": b + rng.normal()}, cost=float(np.exp(a)))

    settings = {"n": 200, "method": th.ABC(quantile=0.5), "cost": "reported", "workers": 1}
    named = th.infer(both, prior, {"high": 3.0, "low": 1.0}, folder=tmp_path / "a", **settings)
    plain = th.infer(both, prior, [1.0, 3.0], folder=tmp_path / "b", **settings)
    assert named.simulations.x_names == ("low", "high")
    np.testing.assert_array_equal(named.x_o, [1.0, 3.0])
    np.testing.assert_array_equal(named.samples, plain.samples)
    with pytest.raises(DataError, match="high missing"):
        th.infer(both, prior, {"low": 1.0, "hi": 3.0}, folder=tmp_path / "c", **settings)
    assert th.Campaign.open(tmp_path / "c").status().planned == 40  # a pilot only


def fails_for_a_third(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    if theta[0] > 2.0:
        raise ValueError("no equilibrium")
    return simulate(theta, rng)


def test_a_simulator_that_often_fails_costs_a_pilot_only_unless_that_is_accepted(tmp_path: Path):
    asked = {"n": 200, "method": "abc", "folder": tmp_path / "c", "cost": "reported", "workers": 1}
    with pytest.raises(QualityGateError, match=r"th\.infer take max_failed="):
        th.infer(fails_for_a_third, PRIOR, [1.0], **asked)
    assert th.Campaign.open(tmp_path / "c").status().done == 40
    with pytest.warns(th.ThriftyWarning):
        study = th.infer(fails_for_a_third, PRIOR, [1.0], **asked, max_failed=0.6)
    assert len(study.simulations) == 240 and study.samples.max() <= 2.0


def names_its_output(theta: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    return {"first": theta[0] + 0.1 * rng.normal(), "second": 2 * theta[0] + 0.1 * rng.normal()}


def test_rounds_take_a_named_observation_and_keep_round_0_of_a_wrong_one(tmp_path: Path):
    quick = th.NLE(PRIOR, network=th.MixtureDensity(1), training=th.Training(max_epochs=3))
    asked = {"n": 200, "rounds": 1, "method": quick, "folder": tmp_path / "c", "workers": 1}
    with pytest.raises(DataError):
        th.infer(names_its_output, PRIOR, [1.0, 2.0, 3.0], **asked)
    with pytest.warns(th.ThriftyWarning, match="not narrow"):  # three epochs teach little
        named = th.infer(names_its_output, PRIOR, {"second": 2.0, "first": 1.0}, **asked)
    assert len(named.simulations) == 200 and named.simulations.x_names == ("first", "second")
    assert named.x_o.tolist() == [1.0, 2.0]


def test_runs_kept_aside_judge_a_study_and_its_report(study: th.Study):
    """150 more prior runs judge it, not the runs behind it; the same with another output find it wrong (mutant)."""
    held_out = th.simulate(simulate, PRIOR, 150, seed=5, engine=th.Inline(), progress="quiet")
    later = replace(study, seed=study.seed + 2)
    later.save(name="judged")
    found = later.diagnose(held_out=held_out, time_limit=None)
    assert found is later.diagnosis and "150 effective held-out runs" in str(found)
    assert "150 effective" not in str(study.diagnosis)
    kept = {result.name: result.diagnosis for result in read_results(study.campaign.folder)}["judged"]
    assert kept == json.loads(json.dumps(found.to_dict())), "the report has them"

    wrong = replace(held_out, x=held_out.x + 3 * SD)
    assert replace(study).diagnose(held_out=wrong).verdict == "do not trust"


def test_checks_made_after_inference_are_in_the_report(study: th.Study, tmp_path: Path):
    later = replace(study, seed=study.seed + 1)
    later.save(name="later")
    assert read_results(study.campaign.folder)[-1].diagnosis is None
    page = study.campaign.report(tmp_path / "before.html").read_text(encoding="utf-8")
    accepted = study.posterior.accepted(study.x_o)
    assert f"2,000 draws at the observation (1); rests on {len(accepted)} accepted runs ({accepted.ess:.0f} eff" in page
    assert "No check" not in page and "Is the posterior calibrated" in page
    assert read_results(study.campaign.folder)[-1].diagnosis is None, "a report changes nothing in the folder"
    verdict = later.diagnosis.verdict
    assert f'<p class="word">{ANSWERS[verdict].capitalize()}</p>' in page
    kept = {result.name: result.diagnosis for result in read_results(study.campaign.folder)}["later"]
    assert kept == json.loads(json.dumps(later.diagnosis.to_dict())) and kept["verdict"] == verdict
    page = study.campaign.report(tmp_path / "after.html").read_text(encoding="utf-8")
    assert "Is the posterior calibrated" in page and f'<p class="word">{ANSWERS[verdict].capitalize()}</p>' in page


def test_checks_of_an_older_study_do_not_judge_the_newer_one_of_its_name(study: th.Study, tmp_path: Path):
    older, newer = replace(study, seed=11), replace(study, seed=12)
    older.save(tmp_path)
    newer.save(tmp_path)
    _ = older.diagnosis
    assert read_results(tmp_path)[0].diagnosis is None
    _ = newer.diagnosis
    assert read_results(tmp_path)[0].diagnosis is not None


def test_costs_are_judged_by_the_runs_after_the_pilot(study: th.Study):
    """The pilot taught the cost model: the diagnosis and the report leave it out, and show one ratio."""
    assert len(study.after_pilot) == 1000 and len(study.simulations) == 1200
    check = next(check for check in study.diagnosis if check.name == "cost_model")
    assert len(check.measured) == 1000 and "over 1,000 runs" in check.reason
    from thrifty.report.gather import gather
    from thrifty.report.plan_sections import cost_section

    assert study.campaign is not None
    assert f"Runs after the pilot: {check.reason}." in cost_section(gather(study.campaign.folder)).lead
    alone = th.Study(study.posterior, study.simulations, study.x_o)
    assert alone.after_pilot is alone.simulations


@pytest.mark.parametrize(("progress", "is_shown"), [(True, True), (False, False), (None, False)])
def test_infer_shows_progress_as_asked(tmp_path: Path, capfd, progress: bool | None, is_shown: bool):
    """None: no bar, since this is no terminal, and no line, since it takes a moment only."""
    training = th.Training(max_epochs=2)
    how = {"n": 300, "method": th.NPE(PRIOR, training=training), "cost": "reported", "workers": 1}
    th.infer(simulate, PRIOR, [1.0], folder=tmp_path / "one", progress=progress, **how)
    shown = capfd.readouterr().err
    assert ("training" in shown) == is_shown and ("runs" in shown) == is_shown, shown


def test_progress_is_one_of_three(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"progress = 'bars', expected True, False"):
        th.infer(simulate, PRIOR, [1.0], n=300, folder=tmp_path / "one", progress="bars")
    assert not (tmp_path / "one").exists()


def test_a_report_has_one_figure_for_one_quantity(study: th.Study, tmp_path: Path):
    """What the runs are worth at x_o, what they count as, and what is saved: the same in the page and in Python."""
    text = study.report(tmp_path / "page.html").read_text(encoding="utf-8")
    support = next(check for check in study.diagnosis if check.name == "local_ess")
    assert set(re.findall(r"are worth ([\d,]+) draws of the prior", text)) == {f"{support.worth:,.0f}"}
    count = f"{th.ess(study.simulations.log_weights):,.0f}"
    assert set(re.findall(r"1,200 runs count as ([\d,]+)", text)) == {count}
    assert f"1,200 runs count as {count}" in str(study)
    assert study.campaign is not None
    saved = study.campaign.status().saved
    assert f"{format_amount(saved.amount, 'reported')} saved, {saved.share:.0%}" in text
    assert f"saved {format_amount(saved.amount, 'reported')}" in str(study.campaign.status())
