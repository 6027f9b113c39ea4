"""What a person sees: short text, tables in notebooks, nothing heavy, and never an error."""

from __future__ import annotations

import ast
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.diagnostics import Diagnosis
from thrifty.display import MAX_ROWS, Card, Displayed
from thrifty.durations import format_amount
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.inference.answers.sensitivity import Sensitivity
from thrifty.inference.posterior_draws import Sampled
from thrifty.report.results import Result
from thrifty.sequential.rounds import Round
from thrifty.sequential.smc_abc import Generation
from thrifty.tables import run_summary

PRIOR = th.Uniform([0.0, 1.0], [2.0, 4.0], names=["beta", "gamma"])
MARK = "<script>&"


def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    return th.Output(theta + rng.normal(size=2), cost=float(np.exp(2 * theta[0])))


def plain_html(shown: object) -> str:
    """Write the HTML of an object without the styles of its cells."""
    return re.sub(r' style="[^"]*"', "", shown._repr_html_())


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> th.Campaign:
    folder = tmp_path_factory.mktemp("runs") / f"a{MARK[:8]}"
    made = th.Campaign(folder, simulate, PRIOR, seed=3, cost="reported", unit="events")
    made.pilot(40, engine=th.Inline(), progress="quiet")
    made.plan(n=160)
    made.run(engine=th.Inline(), progress="quiet")
    return made


@pytest.fixture(scope="module")
def sims(campaign: th.Campaign) -> th.Simulations:
    return campaign.simulations()


def repeated(sims: th.Simulations, m: int) -> th.Simulations:
    rng = np.random.default_rng(0)
    x = sims.theta[:, None] + rng.normal(size=(len(sims), m, 2))
    return th.Simulations(theta=sims.theta, x=x, log_weights=sims.log_weights, m=m, names=sims.names)


@pytest.fixture(scope="module")
def shown(campaign: th.Campaign, sims: th.Simulations) -> dict[str, object]:
    """One object of every kind that a notebook shows."""
    quick = th.Training(max_epochs=1)
    npe = th.NPE(PRIOR, training=quick, network=th.MixtureDensity(components=2))
    abc = th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims)
    many = repeated(sims, 12)
    found = {
        "campaign": campaign, "quote": campaign.quote(n=300), "plan": campaign.plan(n=160), "status": campaign.status(),
        "row": campaign.quote(n=300).chosen,
        "simulations": sims, "several": many, "tradeoff": th.tradeoff(PRIOR, campaign.plan(n=160).cost),
        "cost": campaign.plan(n=160).cost, "draws": th.CostAware(PRIOR, lambda t: t[:, 0] + 1, 0.5).sample(50, 0),
        "abc": abc, "weighted": abc.accepted([1.0, 2.0]),
        "synthetic": th.SyntheticLikelihood(PRIOR, m=12).fit(many), "score": th.ScoringRule(PRIOR, m=12).fit(many),
        "npe": npe.fit(sims), "nle": th.NLE(PRIOR, training=quick).fit(sims),
        "nre": th.NRE(PRIOR, training=quick).fit(sims),
        "ensemble": th.Ensemble(npe, members=2).fit(sims), "marginal": abc.marginal("beta"),
        "conditional": abc.condition(beta=1.0), "drawn": Sampled.independent(sims.theta),
        "weights": th.diagnostics.weight_health(sims.log_weights),
        "diagnosis": Diagnosis((th.diagnostics.weight_health(sims.log_weights),), (f"not {MARK}",)),
        "round": Round(200, 12.0, 11.0, 0.02, 0.3, np.nan, 4.0, PRIOR),
        "generation": Generation(200, 12.0, 11.0, 0.4, 80.0, 0.3, PRIOR),
        "sensitivity": Sensitivity(("beta", "gamma"), np.array([40.0, 1.0]), np.eye(2)),
        "comparison": th.Comparison(("sir", "seir"), (LogEvidence(-3.0, 0.1, 50.0), LogEvidence(-2.0, 0.1, 50.0))),
        "study": th.Study(abc.accepted([1, 2]), sims, np.array([1.0, 2.0]), method=f"abc {MARK}", campaign=campaign),
        "result": Result("one", MARK, None, np.zeros(2), sims.theta, None, ("beta", "gamma"), {"verdict": "no"}),
    }  # fmt: skip
    return found


KINDS = (
    "campaign", "quote", "plan", "status", "row", "simulations", "several", "tradeoff", "cost", "draws", "abc",
    "weighted", "synthetic", "score", "npe", "nle", "nre", "ensemble", "marginal", "conditional", "drawn", "weights",
    "diagnosis", "round", "generation", "sensitivity", "comparison", "study",
    "result",
)  # fmt: skip


def test_every_kind_is_tested(shown: dict[str, object]):
    assert tuple(shown) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_and_no_dump(kind: str, shown: dict[str, object]):
    thing = shown[kind]
    html, text = thing._repr_html_(), repr(thing)
    assert "<table>" in html and html.count("<table>") == html.count("</table>")
    assert "cannot be shown" not in html + text
    for dump in ("array(", "object at 0x", f"{type(thing).__name__}(", "<script>"):
        assert dump not in html, dump
    assert "array(" not in text and f"{type(thing).__name__}(" not in text
    assert len(text.splitlines()) <= 20 and max(map(len, text.splitlines())) < 200


def test_a_dump_would_be_found(sims: th.Simulations):
    """The mutant: what a dataclass shows by itself fails the test above."""
    assert "array(" in repr(vars(sims))


def test_the_numbers_are_those_of_the_object(campaign: th.Campaign, sims: th.Simulations, shown: dict[str, object]):
    assert "200 of 200 planned runs are done (40 pilots)" in repr(campaign)
    assert f"200 valid runs count as {th.ess(sims.log_weights):.0f}" in repr(sims)
    cells = [f"{value:.4g}" for value in np.quantile(sims.theta[:, 1], [0, 0.5, 1])]
    assert "<td>gamma</td>" + "".join(f"<td>{cell}</td>" for cell in cells) in plain_html(sims)
    post = shown["weighted"]
    row = [post.mean[0], post.sd[0], *post.quantile([0.05, 0.95])[:, 0]]
    assert "<td>beta</td>" + "".join(f"<td>{value:.4g}</td>" for value in row) in plain_html(post)
    quote = shown["quote"]
    assert quote.total_text() in repr(quote) and f"<th>{quote.chosen.label}</th>" in plain_html(quote)


def test_the_chosen_row_is_bold(shown: dict[str, object]):
    plan = shown["plan"]
    assert plan.chosen.k == 0.5 and plain_html(plan).count("<tr><th>") == 2  # the header, and one row
    chosen = re.search(f"<tr><th>{re.escape(plan.chosen.label)}</th>(.*?)</tr>", plain_html(plan))
    assert chosen is not None and "<th>best &lt;- chosen</th>" in chosen.group(1)


METHODS = {
    "NPE(Uniform(beta: 0 to 2, gamma: 1 to 4))": th.NPE(PRIOR),
    "NPE(Uniform(beta: 0 to 2, gamma: 1 to 4), network=MixtureDensity(components=2))": th.NPE(
        PRIOR, network=th.MixtureDensity(2)
    ),
    "FMPE(Uniform(beta: 0 to 2, gamma: 1 to 4))": th.FMPE(PRIOR),
    "NLE(Uniform(beta: 0 to 2, gamma: 1 to 4), training=Training(max_epochs=3))": th.NLE(
        PRIOR, training=th.Training(max_epochs=3)
    ),
    "NRE(Uniform(beta: 0 to 2, gamma: 1 to 4))": th.NRE(PRIOR),
    "ABC(Uniform(beta: 0 to 2, gamma: 1 to 4))": th.ABC(PRIOR),
    "ABC()": th.ABC(),
    "SyntheticLikelihood(Uniform(beta: 0 to 2, gamma: 1 to 4), m=9)": th.SyntheticLikelihood(PRIOR, m=9),
    "ScoringRule(Uniform(beta: 0 to 2, gamma: 1 to 4))": th.ScoringRule(PRIOR),
    "SMCABC(Uniform(beta: 0 to 2, gamma: 1 to 4), particles=90)": th.SMCABC(PRIOR, particles=90),
    "Rounds(NLE(Uniform(beta: 0 to 2, gamma: 1 to 4)), rounds=2)": th.Rounds(th.NLE(PRIOR), rounds=2),
    "Ensemble(NPE(Uniform(beta: 0 to 2, gamma: 1 to 4)), members=3)": th.Ensemble(th.NPE(PRIOR), members=3),
}


@pytest.mark.parametrize("text", METHODS)
def test_a_method_is_one_line_and_a_table_of_its_settings(text: str):
    method = METHODS[text]
    assert repr(method) == str(method) == text
    html = method._repr_html_()
    assert html.startswith(f"<div><p>{type(method).__name__}</p><table>") and "<td>None</td>" not in html


def test_a_marginal_and_a_conditional_are_one_line(shown: dict[str, object]):
    whole = "of the ABC posterior of beta, gamma"
    assert repr(shown["marginal"]) == f"marginal posterior of beta, {whole}"
    assert repr(shown["conditional"]) == f"posterior of gamma given beta = 1, {whole}"


def test_failed_runs_are_named():
    sims = th.Simulations.from_arrays(theta=[[1.0], [2.0], [3.0], [4.0]], x=[[0.1], [np.nan], [0.3], [0.4]])
    assert "1 run, 25% of prior mass" in repr(sims) and "3 valid runs count as 3" in repr(sims)
    assert "nan" not in repr(sims)


def test_everything_is_escaped():
    card = Card(MARK, ((MARK, MARK),), (MARK, "b"), ((MARK, MARK),), (MARK,), bold=0)
    assert card.to_html().count("&lt;script&gt;&amp;") == 7 and "<script>" not in card.to_html()


def test_long_tables_are_cut():
    card = Card("many", header=("a", "b"), rows=[(str(i), "x" * 500) for i in range(MAX_ROWS + 7)])
    assert card.to_html().count("<tr>") == MAX_ROWS + 1 and "and 7 more" in card.to_html()
    assert "and 7 more" in str(card) and max(map(len, str(card).splitlines())) < 200


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Broken(Displayed):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def _card(self) -> Card:
        raise self.error


@pytest.mark.parametrize("error", [KeyError("<b>"), SilentError()])
def test_a_display_never_raises(error: Exception):
    broken = Broken(error)
    for text in (repr(broken), str(broken), broken._repr_html_()):
        assert (
            "Broken that cannot be shown" in text and type(error).__name__ in text and "<b>" not in broken._repr_html_()
        )


def test_a_campaign_without_its_folder(tmp_path):
    made = th.Campaign(tmp_path / "a", simulate, PRIOR)
    shutil.rmtree(tmp_path / "a")
    assert "the folder cannot be read" in repr(made) and "<table>" in made._repr_html_()
    made = th.Campaign(tmp_path / "b", simulate, PRIOR)
    (tmp_path / "b" / "store.sqlite").write_bytes(b"damaged" * 100)
    for path in (tmp_path / "b").iterdir():
        path.write_bytes(b"damaged" * 100)
    assert "the folder cannot be read" in repr(made)


class Sampler:
    def sample(self, n, x_o, *, seed):
        raise AssertionError("a display must not sample")

    log_prob = sample


def test_a_study_is_shown_without_sampling(sims: th.Simulations):
    study = th.Study(Sampler(), sims, np.array([1.0, 2.0]), method="npe")
    for text in (repr(study), study._repr_html_()):
        assert "npe at x_o of 2 values: 200 runs count as" in text and "cannot be shown" not in text


def test_rounds_are_shown_before_any_draw(sims: th.Simulations):
    rounds = (Round(200, 12.0, 11.0, 0.5, np.nan, np.nan, 4.0, PRIOR), Round(90, 9.0, 8.0, 0.02, 0.3, 0.1, 4.0, PRIOR))
    study = th.Study(Sampler(), sims, np.array([1.0, 2.0]), "npe-rounds", generations=rounds, stopped="runs")
    for text in (repr(study), study._repr_html_()):
        assert "no draws were made yet: study.samples makes them" in text and "0.30 sd" in text
        assert "2 rounds" in text and "volume: the share of the prior that the posterior takes" in text
        assert "ended: all runs are used" in text


def test_a_printed_study_says_that_it_shows_medians(sims: th.Simulations):
    study = th.Study(th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims), sims, np.array([1.0, 2.0]), "abc")
    (name, median, low, high), *_ = study.summary()
    assert f"  {name:<5}  median {median:.4g} (90%: {low:.4g} to {high:.4g})" in str(study)


def test_outputs_of_any_size_are_shown_at_once(sims: th.Simulations, monkeypatch: pytest.MonkeyPatch):
    assert "x_2" in repr(sims)
    monkeypatch.setattr(run_summary, "MAX_NUMBERS", sims.x.size - 1)
    assert "x_2" not in repr(sims) and "gamma" in repr(sims)


def test_a_study_shows_its_rounds(sims: th.Simulations):
    rounds = (Round(200, 12.0, 11.0, 0.5, np.nan, np.nan, 4.0, PRIOR), Round(90, 9.0, 8.0, 0.02, 0.3, 0.1, 4.0, PRIOR))
    accepted = th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims).accepted([1, 2])
    study = th.Study(accepted, sims, np.array([1.0, 2.0]), "nle-rounds", generations=rounds, stopped="runs")
    html = study._repr_html_()
    assert html.count("<table>") == 2 and "<p>2 rounds</p>" in html and "ended: all runs are used" in html
    assert "<td>1</td><td>90</td><td>9</td><td>0.02</td><td>0.30 sd</td>" in html


@pytest.mark.parametrize(
    ("unit", "costs", "header", "cells"),
    [("events", (12.0, 9.0), "cost [events]", ("12", "9")), ("s", (5400.0, 900.0), "cost [h]", ("1.5", "0.25")),
     ("s", (0.012, 0.0005), "cost [ms]", ("12", "0.5")), ("s", (12.0, 9.0), "cost [s]", ("12", "9"))],
)  # fmt: skip
def test_the_table_of_rounds_has_one_unit_of_cost(sims: th.Simulations, unit, costs, header, cells):
    rounds = tuple(Round(200, cost, 11.0, 0.5, np.nan, np.nan, 4.0, PRIOR) for cost in costs)
    accepted = th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims).accepted([1, 2])
    study = th.Study(accepted, replace(sims, unit=unit), np.array([1.0, 2.0]), "nle-rounds", generations=rounds)
    html = study._repr_html_()
    assert f"<th>{header}</th>" in html and all(f"<td>{cell}</td>" in html for cell in cells)
    assert header in str(study) and header in str(study.summary())


def test_a_summary_has_headings(campaign: th.Campaign, sims: th.Simulations):
    study = th.Study(th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims), sims, np.array([1.0, 2.0]), "abc", campaign)
    shown = study.summary()
    names = [name for name, *_ in shown]
    assert shown == list(shown) and names == ["beta", "gamma"], "still a list of rows"
    assert "none was made yet: study.diagnosis makes them" in str(shown)
    study.__dict__["diagnosis"] = Diagnosis((th.diagnostics.weight_health(sims.log_weights),), ())
    status, text, html = campaign.status(), repr(study.summary()), study.summary()._repr_html_()
    headings = ["  posterior", "  checks: trust", "  runs and cost"]
    assert [line for line in text.splitlines() if line in headings] == headings
    assert all(f"<p>{line.strip()}</p>" in html for line in headings)
    for figure in (f"{format_amount(status.spent, 'events')}", f"{status.saved.share:.0%}", "rests on", "enough runs?"):
        assert figure in text and figure in html
    without = replace(study, campaign=None).summary()
    assert format_amount(float(sims.cost.sum()), "events") in str(without)


def test_a_column_without_any_figure_is_left_out(sims: th.Simulations):
    """The volume of a posterior of whole numbers is not measured."""
    rounds = tuple(Round(90, 9.0, 8.0, np.nan, moved, np.nan, 4.0, PRIOR) for moved in (np.nan, 0.3))
    accepted = th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims).accepted([1, 2])
    study = th.Study(accepted, sims, np.array([1.0, 2.0]), "nle-rounds", generations=rounds, stopped="settled")
    assert "volume" not in str(study) + study._repr_html_() and "0.30 sd" in str(study)
    assert str(study).endswith("ended: the posterior has settled; the rest is not spent")


@pytest.mark.parametrize(
    ("value", "text"),
    [(2808.4, "2,810 events"), (0.0, "0 events"), (1.0, "1 event"), (13.4, "13.4 events"), (999.9, "1,000 events"),
     (-6163.0, "-6,160 events"), (1.5e14, "1.5e+14 events"), (float("nan"), "nan events"), (0.00032, "0.00032 events")],
)  # fmt: skip
def test_costs_have_three_figures_and_no_powers_of_ten(value: float, text: str):
    assert format_amount(value, "events") == text


def test_numbers_end_at_the_right_and_words_begin_at_the_left():
    """In the bold row too, whose cells a browser would put in the middle."""
    rows = [("plain", "12 s", "never"), ("half", "−3.5 s", "12:30")]
    html = Card("costs", header=("penalty", "cost", "ends"), rows=rows, bold=1).to_html()
    assert html.count('<thead style="text-align:right">') == html.count('<tbody style="text-align:right">') == 1
    left = ' style="text-align:left"'
    assert f"<tr><th{left}>half</th><th>−3.5 s</th><th>12:30</th></tr>" in html
    assert f"<tr><td{left}>plain</td><td>12 s</td><td>never</td></tr>" in html
    assert f"<tr><th{left}>penalty</th><th>cost</th><th>ends</th></tr>" in html


def test_a_prior_is_a_table_in_a_notebook_and_one_line_elsewhere():
    prior = th.Independent({"rate": th.Normal(0, 1), "n": th.Integers(2, 5), "kind": th.Categorical([0.5, 0.5])})
    assert str(prior) == repr(prior) and repr(prior).startswith("Independent(rate: Normal 0 ± 1, n: Integers ")
    cells = re.findall(r"<t[dh]>([^<]*)</t[dh]>", plain_html(prior))
    assert cells[:8] == ["name", "distribution", "from", "to", "rate", "Normal 0 ± 1", "−∞", "∞"]
    assert cells[8:9] + cells[10:12] == ["n", "2", "5"] and cells[9].startswith("Integers")
    assert "<td>beta</td><td>Uniform 0 to 2</td><td>0</td><td>2</td>" in plain_html(PRIOR)
    assert "<td>x</td>" in plain_html(th.as_prior({"x": th.Uniform(0, 1)}))


def test_a_saved_result_is_readable(sims: th.Simulations, tmp_path: Path):
    study = th.Study(th.ABC(PRIOR, quantile=0.5, adjust="none").fit(sims), sims, np.array([1.0, 2.0]), "abc")
    text = repr(study.save(tmp_path, name="first"))
    assert str(tmp_path / "infer" / "first") in text and "none was made yet" in text and "array(" not in text
    (name, median, low, high), *_ = study.summary()
    assert re.search(rf"{name} +{median:.4g} +{low:.4g} +{high:.4g}\n", text)


def test_a_cell_of_html_keeps_a_long_reason():
    """A cell of text is cut, one of HTML breaks its lines."""
    reason = "the posterior is not affected " * 10
    card = Card("checks", header=("question", "why"), rows=[("costs?", reason)])
    assert reason.strip() in card.to_html() and reason.strip() not in str(card) and "…" in str(card)


def list_texts(source: str) -> list[str]:
    """List the texts that code may show: all but docstrings, with {} for what is filled in."""
    tree = ast.parse(source)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    statements = [statement for body in bodies for statement in body if isinstance(statement, ast.Expr)]
    skipped = {id(statement.value) for statement in statements}  # docstrings, and those of attributes
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    skipped |= {id(part) for node in whole for part in node.values}
    joined = ["".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values) for node in whole]
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return joined + [node.value for node in plain if id(node) not in skipped]


@pytest.mark.parametrize("part", ["", "cli", "report"])
def test_percentages_are_written_in_one_way(part: str):
    root = Path(th.__file__).parent
    paths = [
        path for path in root.rglob("*.py") if (path.relative_to(root).parts[0] in ("cli", "report")) == bool(part)
    ]
    paths = [path for path in paths if not part or path.relative_to(root).parts[0] == part]
    assert len(paths) > 5
    found = {path.name: text for path in paths for text in list_texts(path.read_text()) if re.search(r"[0-9}] %", text)}
    assert found == {}


def test_another_way_would_be_found():
    texts = list_texts('def f(x):\n    """Of 5 %."""\n    return f"{x} %" if x else "5 %"\n')
    assert texts == ["{} %", "5 %"]


def fixed_cost(theta: np.ndarray) -> np.ndarray:
    return theta[:, 0] + 1.0


def make_small_things() -> dict[str, object]:
    """One object of every kind that is neither data nor a method."""
    proposal, mixture = th.CostAware(PRIOR, fixed_cost, 0.5), th.Mixture(PRIOR, fixed_cost, powers=(0, 0.5))
    sample = np.random.default_rng(0).normal(size=(2, 40, 2))
    return {
        "Power(0.5)": th.Power(0.5), "Power(2.0, low=1.0)": th.Power(2.0, low=1), "Constant()": th.Constant(),
        "AtMost(Power(0.5), 3.0)": th.AtMost(th.Power(0.5), 3.0), "Custom(sqrt)": th.Custom(np.sqrt),
        "AtLeast(Power(0.5), value=3.0)": th.AtLeast(th.Power(0.5), 3.0), "Balance(": mixture.penalty,
        "Custom(<lambda>)": th.Custom(lambda cost: cost), "draws of beta, gamma": proposal,
        "penalty  mixture of 1, √c": mixture, "pool of 150 draws": th.Pool([(50, PRIOR), (100, proposal)], PRIOR),
        "estimate by 40": th.estimate(sample[0], np.zeros(40)), "Kolmogorov-Smirnov": th.metrics.ks(*sample),
        "classifier between": th.metrics.C2ST(0.5, (0.4, 0.6), 0.5, 0.95), "-3.000 ± 0.1": LogEvidence(-3.0, 0.1, 50.0),
        "Training()": th.Training(), "NSF(bins=4)": th.NSF(bins=4), "SetEmbedding()": th.SetEmbedding(),
        "SpikeAndSlab()": th.SpikeAndSlab(), "Euclidean()": th.distances.Euclidean(), "MMD()": th.distances.MMD(),
        "Polynomial(": th.Polynomial(), "GaussianProcess(": th.GaussianProcess(), "Inline()": th.Inline(),
        "Processes(1)": th.Processes(1), "Dask(2)": th.Dask(2), "echo {beta}": th.Command(["echo", "{beta}"]),
        "Futures(ThreadPoolExecutor)": th.Futures(ThreadPoolExecutor), "Gamma(": th.models.Gamma(),
        "TemporalSIR(": th.models.TemporalSIR(), "split": th.split_budget(100.0, 1.0, variance=3.0),
        "Normal(theta: 0 ± 1)": th.Normal(0, 1), "Integers(theta: 1 to 6)": th.Integers(1, 6),
    }  # fmt: skip


def test_small_things_are_shown_without_defaults_or_addresses():
    things = make_small_things()
    dumps = re.compile(r"None|object at 0x|<function|array\(|np\.float64|cannot be shown")
    for words, thing in things.items():
        text = repr(thing) + getattr(thing, "_repr_html_", str)()
        assert not dumps.search(text), text
        assert words in repr(thing) or words == "split", repr(thing)


def test_what_identifies_a_folder_does_not_depend_on_displays():
    """Requests and settings of rounds are compared as text, with folders that were made earlier."""
    assert [str(p) for p in (th.Power(0.5), th.Power(2), th.Constant(), th.AtMost(th.Power(1), 3.0))] == [
        "√c", "c^2", "1", "min(c, 3)"
    ]  # fmt: skip
    known = th.Rounds(th.NLE(PRIOR, network=th.MAF()), rounds=2).identify([1.0, 2.0], 0)
    assert known["penalty"] == "Power(k=0.25, low=None, high=None)"
    assert "network=MAF(transforms=5, hidden=(50, 50), activation='tanh', unconstrained=False)" in known["method"]
