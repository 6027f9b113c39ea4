"""The report says what the folder holds, at every stage, in one plain file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from report_page import Page
from report_scenario import STAGES, campaign, finish, keep_result, simulate

import thrifty as th
from thrifty.durations import format_amount
from thrifty.errors import CampaignError, StorageError
from thrifty.report import write
from thrifty.report.gather import Stamps, gather
from thrifty.report.headline import make_headline
from thrifty.report.results import Result
from thrifty.report.run_sections import count_running
from thrifty.tables.simulations import table_hash

ALL = ["posterior", "calibration", "where-the-cost-went", "cost", "trade-off", "proposal", "weights", "failures",
       "timeline", "provenance"]  # fmt: skip
# what must say that it is missing, by stage, and the command that makes it
MISSING = {
    "empty": ({*ALL} - {"provenance"}, "plan"),
    "pilot": ({"posterior", "calibration", "where-the-cost-went", "proposal"}, "run"),
    "planned": ({"posterior", "calibration", "where-the-cost-went"}, "run"),
    "half": ({"posterior", "calibration"}, "run"),
    "complete": ({"posterior", "calibration"}, "infer"),
    "inferred": (set(), None),
}
FIGURES = {
    "cost": 4,
    "trade-off": 2,
    "proposal": 2,
    "weights": 2,
    "where-the-cost-went": 1,
    "failures": 1,
    "timeline": 2,
}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_says_what_is_missing_and_how_to_make_it(pages, stages, stage):
    text = pages[stage].read_text(encoding="utf-8")
    page = Page(text)
    sections = [values["id"] for tag, values in page.elements if tag == "section" and "id" in values]
    assert sections == ALL
    assert "could not be made" not in text
    parts = dict(re.findall(r'<section id="([^"]+)">(.*?)</section>', text, re.S))
    missing, following = MISSING[stage]
    assert {key for key, part in parts.items() if 'class="missing"' in part} == missing
    for key in missing:
        assert "thrifty " in parts[key] and str(stages[stage]) in parts[key], key
    assert (f"Next: <code>thrifty {following} " in text) is (following is not None)


def test_figures_are_drawn_where_there_is_something_to_draw(pages):
    text = pages["inferred"].read_text(encoding="utf-8")
    parts = dict(re.findall(r'<section id="([^"]+)">(.*?)</section>', text, re.S))
    counts = {key: part.count("<svg ") for key, part in parts.items()}
    assert {key: counts[key] for key in FIGURES} == FIGURES
    assert counts["posterior"] == 3  # pair plot and two statistics
    assert counts["calibration"] == 2 and counts["provenance"] == 0


@pytest.mark.parametrize("stage", STAGES)
def test_one_plain_file(pages, stage):
    text = pages[stage].read_text(encoding="utf-8")
    assert len(text.encode()) <= 2e6
    page = Page(text)
    assert not {tag for tag, _ in page.elements} & {"script", "iframe", "object", "embed", "form", "base", "video"}
    assert all(value.startswith(("#", "data:image/png;base64,")) or value == "data:," for _, value in page.references)
    assert not [name for _, values in page.elements for name in values if name.startswith("on")]
    assert "url(http" not in text and "@import" not in text
    assert len(page.ids) == len(set(page.ids))
    linked = {value[1:] for _, value in page.references if value.startswith("#")}
    linked |= set(re.findall(r"url\(#([^)]+)\)", text))
    linked |= {name for _, values in page.elements for name in values.get("aria-labelledby", "").split()}
    assert linked <= set(page.ids)
    figures = [values for tag, values in page.elements if tag == "svg"]
    assert all(values.get("role") == "img" and values.get("aria-labelledby") for values in figures)
    assert len(re.findall(r"<svg [^>]*><title id=[^>]*>[^<]+</title><desc id=[^>]*>[^<]+</desc>", text)) == len(figures)


def test_the_provenance_names_the_family_of_each_parameter(tmp_path):
    prior = th.Independent({"founders": th.Integers(2, 30), "birth": th.LogUniform(0.1, 2.0)})
    th.Campaign(tmp_path / "c", simulate, prior, seed=0)
    write(tmp_path / "page.html", tmp_path / "c")
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).texts["provenance"]
    assert "Independent: founders Integers in [2, 30], birth LogUniform in [0.1, 2]" in text
    assert "fingerprint format " in text and not re.search(r"; format \d", text)


def test_the_numbers_are_those_of_the_campaign(pages, stages):
    c = th.Campaign.open(stages["inferred"])
    status, sims = c.status(), c.simulations(max_failed=1.0)
    texts = Page(pages["inferred"].read_text(encoding="utf-8")).texts
    assert table_hash(sims) in texts["provenance"]
    assert "5" in texts["provenance"] and "thrifty report inferred" in texts["provenance"]
    assert f"{status.saved.share:.0%}" in texts["verdict"]
    assert f"{status.saved.per_effective:.0%}" in texts["verdict"]
    assert f"{status.saved.effective:,.0f}" in texts["verdict"]
    assert f"{status.failed_mass:.2%}" in texts["verdict"] and f"{status.failed_mass:.2%}" in texts["failures"]
    assert "no mesh at #" in texts["failures"]
    health = th.diagnostics.weight_health(sims)
    assert f"{health.largest:.1%}" in texts["weights"] and f"{health.pareto_k:.2f}" in texts["weights"]
    assert "Cost-aware simulation-based inference" in texts["provenance"]


def test_the_waterfall_adds_up(stages):
    from thrifty.report.plan_sections import waterfall_section

    facts = gather(stages["complete"])
    section = waterfall_section(facts, ())
    bars = [patch.get_height() for patch in section.drawings[0].figure.axes[0].patches]
    assert sum(bars[:-1]) == pytest.approx(bars[-1])
    scale = 1000 if "1000" in section.drawings[0].figure.axes[0].get_ylabel() else 1
    assert bars[-1] * scale == pytest.approx(facts.status.spent)
    pilot = np.nansum(facts.cost[facts.pilot & facts.done])  # a run that raises reports no cost
    within = dict(section.tables[0].rows)
    assert within["of which pilot"] == format_amount(float(pilot), facts.unit)
    assert bars[0] * scale == pytest.approx(facts.status.saved.plain)
    assert bars[1] * scale == pytest.approx(-facts.status.saved.amount)


def test_the_chosen_penalty_is_marked(stages):
    table, chosen = gather(stages["planned"]).trade
    assert chosen.k == 0.5 and chosen is table[2]
    other = campaign(stages["planned"].parent / "mixture")
    other.pilot(40, engine=th.Inline(), progress="quiet")
    other.plan(n=20, penalty=th.Power(0.3))
    table, chosen = gather(other.folder).trade
    assert len(table) == 6 and chosen is table[2] and chosen.k == 0.3
    plain = campaign(stages["planned"].parent / "plain")
    plain.pilot(40, engine=th.Inline(), progress="quiet")
    plain.plan(n=20, penalty=0)
    table, chosen = gather(plain.folder).trade
    assert chosen is table[0] and chosen.gain == 1


def test_before_a_plan_the_pilot_speaks(pages):
    """What `thrifty plan` quotes, since it commits nothing."""
    texts = Page(pages["pilot"].read_text(encoding="utf-8")).texts
    assert "Nothing is planned yet" in texts["cost"] and "Nothing is planned yet" in texts["trade-off"]
    assert "By default: k = 0.5" in texts["trade-off"] and "chosen" not in texts["trade-off"].split("Nothing")[0][-400:]


def test_verdicts_come_from_the_worst_check(stages):
    facts = gather(stages["complete"])

    def result(*verdicts):
        rows = [{"name": f"check{i}", "verdict": v, "reason": f"reason {i}"} for i, v in enumerate(verdicts)]
        diagnosis = {"verdict": "trust", "checks": rows, "reasons": [], "notes": []}
        return Result("a", "ABC", None, np.zeros(2), np.zeros((5, 2)), None, ("a", "b"), diagnosis)

    # the campaign's own failed prior mass counts, whatever the checks say
    failed = th.diagnostics.weight_health(facts.simulations).verdict
    assert failed != "trust"
    assert make_headline(facts, (result("trust"),)).level != "yes"
    assert make_headline(facts, (result("trust", "do not trust"),)).answer == "No"
    assert make_headline(facts, (result("gibberish"),)).answer == "No"
    card = make_headline(facts, (result("trust", "trust", "do not trust", "with care"),))
    assert card.reasons[0].endswith("reason 2.") and len(card.reasons) == 3
    asked = [{"question": "Is it?", "verdict": "do not trust", "reason": "gap 0.3", "decides": True}]
    asked.append({"question": "Were costs as predicted?", "verdict": "do not trust", "reason": "no", "decides": False})
    diagnosis = {"verdict": "do not trust", "checks": [], "questions": asked, "reasons": [], "notes": []}
    card = make_headline(facts, (Result("a", "ABC", None, np.zeros(2), np.zeros((5, 2)), None, ("a", "b"), diagnosis),))
    assert card.reasons[0] == "Is it? No: gap 0.3." and not any("costs" in reason for reason in card.reasons)
    unchecked = Result("a", "ABC", None, np.zeros(2), np.zeros((5, 2)), None, ("a", "b"), None)
    assert make_headline(facts, (unchecked,)).level != "yes"


def test_the_title_names_the_study_or_what_the_user_says(stages, tmp_path):
    from thrifty.report.page import make_title

    assert make_title(Path("/data/fire/run")) == "fire/run" and make_title(Path("/data/fire/run-2")) == "fire/run-2"
    assert make_title(Path("/data/fire/2026")) == "fire/2026" and make_title(Path("/data/fire-in-c")) == "fire-in-c"
    c = th.Campaign.open(stages["empty"])
    page = c.report(tmp_path / "a.html", title="Fire & <rain>").read_text(encoding="utf-8")
    assert "<h1>Fire &amp; &lt;rain&gt;</h1>" in page and "<title>Fire &amp; &lt;rain&gt; · thrifty report" in page
    assert f"<h1>{make_title(stages['empty'])}</h1>" in c.report(tmp_path / "b.html").read_text(encoding="utf-8")


def test_panels_do_not_leave_half_of_the_page_empty(pages):
    """Only tables stand beside the pair plot; the predictive panels are below both, over the whole width."""
    part = pages["inferred"].read_text(encoding="utf-8").split('<section id="posterior">')[1].split("</section>")[0]
    columns = part.split('<div class="columns">')[1]
    table_end = columns.rindex("</table>")
    assert re.search(r"</table></div>\s*</div>\s*</div>\s*<figure>", columns[table_end - 5 :])


def test_what_was_found_well_is_no_reason_for_care(tmp_path):
    c = th.Campaign(tmp_path / "c", lambda theta, rng: theta + rng.normal(), th.Uniform(0, 3), seed=1)
    c.pilot(150, engine=th.Inline(), progress="quiet")
    rows = [{"name": "sbc", "verdict": "trust", "reason": "ranks are uniform"}]
    rows += [{"name": "local_ess", "verdict": "with care", "reason": "few runs near x_o"}]
    diagnosis = {"verdict": "with care", "checks": rows, "reasons": [], "notes": []}
    result = Result("a", "ABC", None, np.zeros(1), np.zeros((5, 1)), None, ("theta",), diagnosis)
    card = make_headline(gather(c.folder), (result,))
    assert card.answer == "With care" and card.reasons == ("Support: few runs near x_o.",)


def test_the_report_makes_the_checks_of_the_study(tmp_path, monkeypatch):
    """One verdict and one set of answers, whether they are asked for in Python or on a page."""
    from thrifty.report import measured_checks

    def smooth(theta, rng):
        return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))

    c = th.Campaign(tmp_path / "c", smooth, th.Uniform(0, 3), seed=1, cost="reported")
    c.pilot(150, engine=th.Inline(), progress="quiet")
    c.plan(n=600)
    c.run(engine=th.Inline(), progress="quiet")
    study = c.infer([1.5], method="abc", seed=3)
    made = []
    monkeypatch.setattr(measured_checks, "diagnose", lambda *a, **k: made.append(th.diagnose(*a, **k)) or made[-1])
    page = Page(c.report(tmp_path / "page.html").read_text(encoding="utf-8")).texts
    assert made[0].to_dict() == study.diagnosis.to_dict() and made[0].answers == study.diagnosis.answers
    answer = {"trust": "Yes", "with care": "With care", "do not trust": "No"}[study.diagnosis.verdict]
    assert answer in page["verdict"]
    c.report(tmp_path / "again.html")
    assert len(made) == 1, "the checks of the study are kept, and used"


def test_a_clean_campaign_with_passed_checks_says_yes(tmp_path):
    def smooth(theta, rng):
        return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))

    c = th.Campaign(tmp_path / "c", smooth, th.Uniform(0, 3), seed=1, cost="reported")
    c.pilot(150, engine=th.Inline(), progress="quiet")
    rows = [{"name": "sbc", "verdict": "trust", "reason": "ranks are uniform", "p_value": 0.3}]
    diagnosis = {"verdict": "trust", "checks": rows, "reasons": [], "notes": []}
    result = Result("a", "ABC", None, np.zeros(1), np.zeros((5, 1)), None, ("theta",), diagnosis)
    card = make_headline(gather(c.folder), (result,))
    assert card.answer == "Yes"
    assert {f.label: f.value for f in card.figures}["calibration"] == "p = 0.3"


def test_a_finished_report_does_not(pages):
    text = pages["half"].read_text(encoding="utf-8")
    assert "refresh" not in text and "Running." not in text
    assert "Runs are missing: these figures will change." in text


def test_written_whole_or_not_at_all(stages, tmp_path, monkeypatch):
    target = tmp_path / "deep" / "report.html"
    write(target, stages["empty"])
    before = target.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StorageError) as caught:
        write(target, stages["empty"])
    assert caught.value.code == "disk-problem" and "No space left" in caught.value.what
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_no_campaign_no_report(tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(CampaignError) as caught:
        write(tmp_path / "report.html", tmp_path / "nothing")
    assert caught.value.code == "no-campaign"
    assert [path.name for path in tmp_path.iterdir()] == ["nothing"]


def test_a_damaged_result_does_not_hide_the_campaign(stages, tmp_path):
    import shutil

    folder = tmp_path / "toy"
    shutil.copytree(stages["empty"], folder)
    shutil.copytree(stages["inferred"] / "infer", folder / "infer")
    (folder / "infer" / "abc" / "samples.npz").write_bytes(b"spoilt")
    text = write(tmp_path / "r.html", folder).read_text(encoding="utf-8")
    assert "is damaged" in text and "What a run costs" in text


def test_busy_workers_sum_to_the_work(rng):
    wall = rng.exponential(3.0, 200)
    finished = 1000 + np.cumsum(rng.exponential(1.0, 200)) + wall
    hosts = [f"h{i % 3}" for i in range(200)]
    stamps = Stamps(np.arange(200), finished, wall, hosts, np.ones(200), ["ok"] * 200, [""] * 200)
    edges, found = count_running(stamps, float((finished - wall).min()), float(finished.max()))
    total = sum(float(mean @ np.diff(edges)) for mean in found.values())
    assert total == pytest.approx(wall.sum(), rel=1e-12)
    for host in found:
        assert float(found[host] @ np.diff(edges)) == pytest.approx(wall[np.array(hosts) == host].sum(), rel=1e-12)


@pytest.mark.slow
def test_twenty_thousand_runs_stay_below_two_megabytes(tmp_path):
    c = campaign(tmp_path / "many", simulator=simulate)
    c.pilot(2000, engine=th.Inline(), progress="quiet")
    c.plan(n=18_000)
    finish(c)
    keep_result(c.folder)
    assert write(tmp_path / "r.html", c.folder).stat().st_size <= 2e6


def test_statistics_have_their_names(pages, tmp_path):
    def named(theta, rng):
        out = simulate(theta, rng)
        return th.Output({"final_size": out.x[0], "peak": out.x[1]}, cost=out.cost)

    c = campaign(tmp_path / "c", simulator=named)
    c.pilot(40, engine=th.Inline(), progress="quiet")
    c.plan(n=160)
    finish(c)
    keep_result(tmp_path / "c")
    text = write(tmp_path / "r.html", tmp_path / "c").read_text(encoding="utf-8")
    assert ">final_size<" in text and ">peak<" in text and "x_1" not in text
    assert ">x_1<" in pages["inferred"].read_text(encoding="utf-8"), "outputs without names"


def test_arguments_of_the_old_live_report_are_still_taken(stages, tmp_path):
    folder = next(iter(stages.values()))
    with pytest.warns(th.ThriftyWarning, match="thrifty report --live"):
        made = write(tmp_path / "r.html", folder, live=True, refresh=5.0)
    assert made.exists()


def test_a_predictive_density_of_few_outputs_is_not_judged(stages, tmp_path, monkeypatch):
    module = sys.modules["thrifty.diagnostics.predictive"]  # by attribute it is the function of this name
    monkeypatch.setattr(module, "MIN_EFFECTIVE_OUTPUTS", 1e6)
    text = write(tmp_path / "r.html", stages["inferred"]).read_text(encoding="utf-8")
    assert "Predictive check: not judged" in text and "1000000 are needed" in text
    assert "with the observation; p =" not in text and "fresh=" not in text
