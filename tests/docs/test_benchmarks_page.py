"""The sections of the benchmarks' page that come from records are what the records say."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from thrifty.benchmark import METHODS, PROBLEMS, Record, list_tasks, read_records
from thrifty.benchmark.roster import list_methods
from thrifty.benchmark.tasks import BUDGETS, CURVES, SEEDS

ROOT = Path(__file__).parents[2]
DAY = r"\d{4}-\d\d-\d\d"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield import_module("benchmarks_page")
    for name in ("benchmarks_page", "real_simulators_page", "peers_page", "benchmark_hours", "benchmark_figures"):
        sys.modules.pop(name, None)


def test_the_page_is_what_the_records_say(tool):
    pytest.importorskip("numba")
    records, lines, page = read_records(tool.RECORDS), tool.read_lines(), tool.PAGE.read_text(encoding="utf-8")
    assert records
    assert tool.fill_page(page, records, lines) == page, "run python tools/benchmarks_page.py"
    assert tool.fill_page(page, records[: len(records) // 2], lines) != page, "other records, another page (mutant)"
    for line in lines:
        line["aware"]["done"]["seconds"] *= 1.5
    assert not lines or tool.fill_page(page, records, lines) != page, "another cost, another page (mutant)"


def make_records(problems, methods=METHODS, *, best="npe-aware", judge=1.5, seeds=SEEDS):
    """Records of whole sets: C2ST falls with the budget, and one method is ahead."""
    rng, out = np.random.default_rng(5), []
    for task in list_tasks(problems, [list_methods()[name] for name in methods], BUDGETS, seeds, curves=CURVES):
        c2st = 0.5 + (2.0 if task.method == best else 5.0) / np.sqrt(task.budget) + 0.005 * rng.normal()
        out += [
            Record(
                task.problem, place, task.method, task.budget, task.seed, c2st, 0.01, 1.0, 1.0, None,
                cost=task.budget, runs=100, fit_seconds=0.01 * task.budget, sample_seconds=2.0, simulator_seconds=1.0,
                error="", version="1", commit="a", date="2026-01-01", machine="m", judge_seconds=judge,
            )
            for place in task.places
        ]  # fmt: skip
    return out


def test_every_winner_among_peers_is_explained(tool):
    """On the records of the page: a reason for each peer that is ahead, and none for one that no longer is."""
    peers = import_module("peers_page")
    assert peers.find_wrong_reasons(read_records(tool.RECORDS), PROBLEMS) == []


def test_a_winner_without_a_reason_and_a_reason_without_a_winner_are_found(tool, monkeypatch):
    peers, ours = import_module("peers_page"), "rounds-nle-aware"
    methods = ("npe", ours, "sbi-npe", "sbi-snle")
    losing, winning = (make_records(["gaussian_2"], methods, best=best) for best in ("sbi-snle", ours))
    monkeypatch.setattr(peers, "REASONS", {})
    assert peers.find_wrong_reasons(losing, PROBLEMS) == [f"sbi-snle is ahead of {ours} on gaussian_2: say why"]
    assert peers.find_wrong_reasons(winning, PROBLEMS) == []
    text = peers.write_losses(losing, PROBLEMS)
    assert "paid less for their accuracy: sbi-snle on gaussian_2." in text and "not explained" in text
    monkeypatch.setitem(peers.REASONS, ("gaussian_2", ours, "sbi-snle"), "the likelihood is simple.")
    assert peers.find_wrong_reasons(losing, PROBLEMS) == []
    assert f"- gaussian_2, sbi-snle beside {ours}: the likelihood is simple." in peers.write_losses(losing, PROBLEMS)
    assert peers.find_wrong_reasons(winning, PROBLEMS) == [f"sbi-snle is not ahead of {ours} on gaussian_2"]
    dearer = [replace(r, cost=r.cost * (4.0 if r.method == ours else 1.0)) for r in winning]
    assert any("ahead of" in line and "say why" in line for line in peers.find_wrong_reasons(dearer, PROBLEMS)), "cost"


def test_each_default_is_compared_with_its_best_peer_in_accuracy_and_cost(tool):
    """0.5 + 5 / √1000 is reached with 5² = 25 instead of 2² = 4: the default pays 4/25 of it, less than any budget."""
    peers = import_module("peers_page")

    def show(asked_first, best):
        methods = ("npe", "rounds-nle-aware", "npe-aware", "sbi-npe", "sbi-tsnpe")
        tables = peers.write_losses(make_records(["gaussian_2"], methods, best=best), PROBLEMS).split("**")[1:]
        shown = dict(zip(tables[::2], tables[1::2], strict=True))
        (table,) = (text for title, text in shown.items() if title.startswith(asked_first))
        return next(line for line in table.splitlines() if line.startswith("| gaussian_2"))

    ahead = r"\| gaussian_2 \| sbi-npe \| -0\.09\d ± 0\.00\d \| < 0\.3 \| 5 \| thrifty \|"
    assert re.fullmatch(ahead, show("Many observations", "npe-aware"))
    assert re.fullmatch(ahead.replace("sbi-npe", r"sbi-(npe|tsnpe)"), show("One observation", "rounds-nle-aware"))
    assert show("Many observations", "sbi-npe").endswith("| not reached | 5 | peer |")
    assert "sbi-tsnpe" in show("One observation", "sbi-tsnpe"), "a method for one observation answers one"
    assert "sbi-npe" in show("Many observations", "sbi-tsnpe"), "and does not answer many"
    text = peers.write_losses(make_records(["gaussian_2", "counts"], ("npe", "npe-aware", "sbi-npe")), PROBLEMS)
    assert re.search(r"sbi-npe -0\.09\d ± 0\.00\d, below 0 on 2 of 2\.", text) and "had a part" in text
    text = peers.write_losses(make_records(["waiting", "counts"], ("npe", "npe-aware", "sbi-npe")), PROBLEMS)
    assert re.search(r"sbi-npe -0\.09\d ± 0\.00\d \(-0\.09\d on the 1 others\), below", text)


def test_a_noisy_peer_hides_none_that_is_clearly_ahead(tool):
    """sbi-npe is 0.03 ahead in every seed; another by 0.1 with an error as large, and a third one in its only seed."""
    peers, asked = import_module("peers_page"), "one observation"
    base = make_records(["gaussian_2"], ("npe", "rounds-nle-aware", "sbi-npe", "sbi-tsnpe", "pyabc-smc"), best="")
    shift = {"sbi-npe": [-0.03] * 5, "sbi-tsnpe": [-0.5, 0.2, -0.3, 0.1, 0.0], "pyabc-smc": [-0.2] * 5}
    kept = [r for r in base if r.method != "pyabc-smc" or r.seed == 0]
    records = [replace(r, c2st=r.c2st + shift.get(r.method, [0.0] * 5)[r.seed]) for r in kept]
    gaps = peers.compare_peers(records, "gaussian_2", asked)
    assert max(gaps, key=lambda peer: gaps[peer].value) != "sbi-npe", "the largest difference is another's (mutant)"
    assert peers.find_best(gaps)[0] == "sbi-npe" and peers.judge(gaps["sbi-npe"]) == "peer"
    assert "clearly less accurate than one of them on 1 (gaussian_2)" in peers.write_verdict(records, PROBLEMS)


def test_cost_aware_sampling_is_held_against_plain_sampling_of_each_method(tool):
    """NPE gains 3 / √1000 = 0.095; of ABC both are alike; a method with one side has no column."""
    peers = import_module("peers_page")
    records = make_records(["gaussian_2", "counts"], ("npe", "npe-aware", "abc", "abc-aware", "nle", "sbi-npe"))
    lines = peers.write_pairs(records, PROBLEMS).splitlines()
    assert "| problem | npe | abc |" in lines and lines[-1].startswith("| mean |")
    (row,) = (line for line in lines if line.startswith("| counts"))
    assert re.fullmatch(r"\| counts \| -0\.09\d ± 0\.00\d \* \| [+-]0\.00\d ± 0\.00\d( \*)? \|", row)
    assert peers.write_pairs([r for r in records if r.method == "npe"], PROBLEMS).startswith("No method")


def test_the_summary_counts_the_problems_where_thrifty_is_ahead_level_and_behind(tool):
    """One problem of each kind; half the classifier's excess is a quarter of the cost: below the smallest budget."""
    peers, methods = import_module("peers_page"), ("npe", "npe-aware", "sbi-npe")
    ahead, level, behind = (
        make_records([name], methods, best=best)
        for name, best in (("gaussian_2", "npe-aware"), ("counts", ""), ("waiting", "sbi-npe"))
    )
    text = peers.write_verdict(ahead + level + behind, PROBLEMS)
    assert "- Many observations, 3 problems with" in text and "One observation" not in text, "no records of that one"
    assert "on 1 (gaussian_2), cannot be told from it on 1 (counts), and is clearly less" in text
    assert "less accurate than one of them on 1 (waiting)." in text
    assert "for no more than the method paid on 1 of 3." in text or "paid on 2 of 3." in text, "level is either"
    assert "paid on 1 of 1." in peers.write_verdict(ahead, PROBLEMS)
    assert "paid on 0 of 1." in peers.write_verdict(behind, PROBLEMS)
    three = [replace(r, problem=name) for name in ("gaussian_2", "counts", "waiting") for r in ahead]
    assert "pays < 0.33 of what plain NPE pays in simulation (median over problems; less on 3 of 3)" in (
        peers.write_verdict(three, PROBLEMS)
    )
    assert "npe -0.09" in peers.write_part_of_penalty(three, PROBLEMS)
    assert peers.write_part_of_penalty(ahead, PROBLEMS) == "", "one problem"
    assert peers.write_verdict(ahead[:3], PROBLEMS).startswith("There are no records"), "plain NPE alone"


def test_costs_relative_to_plain_npe_are_there_for_every_group(tool):
    peers = import_module("peers_page")
    text = peers.write_costs(make_records(["gaussian_2", "counts"]), PROBLEMS)
    assert text.count("| median |") == text.count("| problem |") == 4
    heads = [line for line in text.splitlines() if line.startswith("| problem |")]
    assert sorted(name for head in heads for name in head.split(" | ")[1:]) != []
    named = {name.strip(" |") for head in heads for name in head.split(" | ")[1:]}
    assert named == set(METHODS) - {"npe"}, "every method is in one of the tables"
    cell = next(line for line in text.splitlines() if line.startswith("| counts")).split(" | ")[1]
    assert cell == "< 0.33", "4/25 of the cost: plain NPE is less accurate at three times the budget"
    even = peers.write_costs(make_records(["gaussian_2"], ("npe", "abc"), best=""), PROBLEMS)
    cell = next(line for line in even.splitlines() if line.startswith("| gaussian_2")).split(" | ")[1]
    assert 0.6 < float(cell.split(" ±")[0]) < 1.7, "the same accuracy at the same cost"


def test_seconds_come_from_one_machine(tool):
    """The machine with most records, since CPU seconds of two cannot be compared."""
    records = make_records(["gaussian_2"], ("npe",))
    other = [replace(r, machine="slow", fit_seconds=1e6) for r in make_records(["gaussian_2"], ("npe",), seeds=1)]
    table = tool._seconds_table(records + other, ["npe"])
    assert "one machine (m)" in table and "| 3.0 |" in table and "slow" not in table
    assert tool._seconds_table(other, ["npe"]) != table


def test_hours_of_the_whole_set_are_the_sum_over_its_tasks(tool):
    """5 seeds of 10, 30 and 3 CPU s of fit; draws, simulator and classifier: 2, 1 and 1.5 s at a place."""
    hours = import_module("benchmark_hours")
    records = make_records(["gaussian_2"], ("npe", "rounds-nle-aware", "sbi-snle"), seeds=1)
    found = hours.estimate_hours(records, ["a", "b"])
    fit, places = 2 * SEEDS * (3 + 10 + 30), 2 * SEEDS * 3
    assert found["npe"].fit == pytest.approx(fit / 3600) and found["npe"].draws == pytest.approx(3 * places * 2 / 3600)
    assert found["npe"].judge == pytest.approx(3 * places * 1.5 / 3600)
    assert found["npe"].simulator == pytest.approx(places / 3600)
    assert found["rounds-nle-aware"].judge == pytest.approx(places * 1.5 / 3600), "one place for each fit"
    assert found["sbi-snle"].fit == pytest.approx(2 * SEEDS * 10 / 3600), "a costly method at the middle budget only"
    few = hours.estimate_hours([r for r in records if r.budget == 1000.0], ["a", "b"])
    assert few["npe"].fit == pytest.approx(2 * SEEDS * 10 * (1 + np.sqrt(0.3) + np.sqrt(3)) / 3600), "scaled"
    assert few["npe"].simulator == pytest.approx(2 * SEEDS * (0.3 + 1 + 3) / 3600)
    old = hours.estimate_hours(make_records(["gaussian_2"], ("npe",), seeds=1, judge=None), ["a", "b"])["npe"]
    assert np.isnan(old.judge) and old.total == pytest.approx(found["npe"].total - found["npe"].judge)


def test_a_figure_names_every_method_with_records(tool, tmp_path, monkeypatch):
    """Three panels, each with plain NPE and both defaults; a band where there are several seeds and budgets."""
    from thrifty.plots import notebook_figure

    figures, drawn = import_module("benchmark_figures"), []
    monkeypatch.setattr(notebook_figure.NotebookFigure, "savefig", lambda self, path, **_: drawn.append(self))
    figures.draw_problem(make_records(["gaussian_2"]), "gaussian_2", tmp_path / "a.png")
    axes = drawn[0].axes
    named = [{text.get_text() for text in axis.get_legend().get_texts()} for axis in axes]
    defaults = {"npe-aware", "rounds-nle-aware"}
    marked = {f"{name} (default)" for name in defaults}
    assert len(axes) == 3 and all({"npe", *marked} <= names for names in named)
    assert set.union(*named) == {*METHODS, *marked} - defaults
    bands = [len([c for c in axis.collections if type(c).__name__ == "FillBetweenPolyCollection"]) for axis in axes]
    assert bands == [3, 3, 3], "methods with one budget have a bar"
    styles = [figures.choose_styles(group) for group in figures.PANELS.values()]
    assert all(len({(s["color"], s["ls"], s["marker"]) for s in panel.values()}) == len(panel) for panel in styles)


def test_every_problem_with_records_has_its_figure(tool):
    names = {record.problem for record in read_records(tool.RECORDS) if not record.error}
    assert {path.stem for path in tool.FIGURES.glob("*.png")} == names <= set(PROBLEMS)
    text = tool.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"figures/benchmark/(\w+)\.png", text)) == names


def test_records_name_code_machine_date_and_seed(tool):
    for record in read_records(tool.RECORDS):
        assert record.version and record.commit and record.machine and re.fullmatch(DAY, record.date)
    lines = tool.read_lines()
    assert len({(line["example"], line["seed"]) for line in lines}) == len(lines)
    for line in lines:
        assert line["version"] and line["commit"] and line["machine"] and re.fullmatch(DAY, line["date"])


def test_real_simulators_were_run_with_the_code_of_their_notebooks(tool, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    pages = import_module("notebook_pages")
    for line in tool.read_lines():
        cells = pages.list_code(pages.read_notebook(pages.EXAMPLES / f"{line['example']}.ipynb"))
        assert line["simulator"] == pages.hash_simulator(cells), "run python benchmarks/equal_budgets.py"


def test_the_hash_of_a_program_covers_its_source(tool, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    pages = import_module("notebook_pages")
    cells = pages.list_code(pages.read_notebook(pages.EXAMPLES / "fire-in-c.ipynb"))
    before = pages.hash_simulator(cells)
    files, script = pages.find_simulator(cells)
    assert any("int main" in text for text in files) and script.startswith(pages.SHELL)
    (source,) = (cell for cell in cells if "int main" in cell.source)
    source.source = source.source.replace("SIDE 400", "SIDE 300")
    assert pages.hash_simulator(cells) != before


def make_line(example, seed, quoted, done):
    """A record of a real simulator: cost of a run quoted and done, and the rest right."""
    same = {"runs": 100, "effective_share": 0.6, "saved": 0.5, "saved_per_effective": 0.4}
    aware = {"quoted": same | {"cost_per_run": quoted}, "done": same | {"cost_per_run": done}}
    whole = {"seconds": 10.0, "effective_with_pilot": 50.0}
    aware["done"] |= whole
    plain = {
        "quoted": {"cost_per_run": 1.0},
        "done": {"cost_per_run": done / 0.36, "effective_share": 1.0, "pilot_seconds": 40.0, **whole},  # 40 % saved
    }
    density = {"log_density": dict.fromkeys(("all", "cheap", "middle", "expensive"), 1.0)}
    made = {"version": "1", "commit": "a", "date": "2026-01-01", "machine": "m"}
    more = {"budget": "8 cpu-s", "pilots": 40, "held_out": 100}
    return {"example": example, "seed": seed, "plain": plain | density, "aware": aware | density, "sbi": density,
            **made, **more}  # fmt: skip


def test_quotes_that_are_far_off_are_explained(tool, monkeypatch):
    """The mean over seeds decides: 1.05 is near, 1.5 is not; and a reason that is not needed is found."""
    module = import_module("real_simulators_page")
    monkeypatch.setattr(module, "REASONS", {})
    near = [make_line("planets", seed, q, 1.0) for seed, q in ((1, 1.0), (2, 1.1))]
    far = [make_line("habits", seed, q, 1.0) for seed, q in ((1, 1.4), (2, 1.6))]
    assert module.find_wrong_reasons(near) == []
    assert module.find_wrong_reasons(near + far) == ["habits, cost of a run: say why the quote is off"]
    text = module.write_examples(near + far)
    assert "Off by more than 10% on average: habits (cost of a run)." in text and "not explained" in text
    assert "| 1.50 ± 0.10 | 1.00 ± 0.00 | 1.00 ± 0.00 | 1.00 ± 0.00 | 40 ± 0 | " in text, (
        "quoted / done, and the saving"
    )
    monkeypatch.setattr(module, "REASONS", {"habits": "few long runs."})
    assert module.find_wrong_reasons(near + far) == [] and "- habits: few long runs." in module.write_examples(
        near + far
    )
    assert module.find_wrong_reasons(near) == ["habits: the quote is right"]
    noisy = [make_line("habits", seed, q, 1.0) for seed, q in ((1, 0.9), (2, 1.5))]
    monkeypatch.setattr(module, "REASONS", {})
    assert module.find_wrong_reasons(noisy) != [], "1.2 ± 0.3 is no excuse"


def test_savings_and_effective_runs_are_held_too(tool, monkeypatch):
    """Runs and their shares are each 8 % off, together 17 %; and a saving of 60 % that was quoted as 40 %."""
    module = import_module("real_simulators_page")
    monkeypatch.setattr(module, "REASONS", {})
    many, much = (make_line("planets", 1, 1.5, 1.5) for _ in range(2))
    assert module.find_far_quotes({"planets": [many]}) == {}
    many["aware"]["quoted"] |= {"runs": 108, "effective_share": 0.6 * 1.08}
    assert module.find_far_quotes({"planets": [many]}) == {"planets": ["effective runs"]}
    much["aware"]["done"]["cost_per_run"] = much["aware"]["quoted"]["cost_per_run"] = 1.0
    assert module.find_far_quotes({"planets": [much]}) == {"planets": ["saving"]}


def test_losses_are_named_and_judged(tool):
    """0.4 worse in the expensive third in three seeds alike, and 0.2 worse with an error as large in the middle one."""
    module = import_module("real_simulators_page")
    lines = [make_line("planets", seed, 1.0, 1.0) for seed in (1, 2, 3)]
    for line, worse, noisy in zip(lines, (0.39, 0.4, 0.41), (-0.4, 0.3, 0.7), strict=True):
        line["aware"]["log_density"] = {"all": 1.1, "cheap": 1.2, "middle": 1.0 - noisy, "expensive": 1.0 - worse}
    text = module.write_all_densities({"planets": lines})
    below, clear = text.split("Below 0: ")[1].split(". Of these a t test over seeds at 5% calls clear: ")
    assert [part.split(" (")[0] for part in below.split("; ")] == ["planets, middle", "planets, expensive"] * 2
    assert "middle" not in clear and clear.count("planets, expensive") == 2
    assert "behind on: expensive" in module.compare_arms(lines)


def test_every_quote_of_the_page_that_is_far_off_has_its_reason(tool):
    assert import_module("real_simulators_page").find_wrong_reasons(tool.read_lines()) == []


def test_savings_and_their_errors_are_those_of_the_records(tool):
    """Two seeds, half and a quarter of the price of an effective run: 62.5 % saved, with an error of 12.5 %."""
    module = import_module("real_simulators_page")

    def arm(seconds, effective):
        return {"done": {"seconds": seconds, "runs": 10, "cost_per_run": 1.0, "effective_with_pilot": effective}}

    lines = [{"plain": arm(10.0, 10.0), "aware": arm(10.0, e)} for e in (20.0, 40.0)]
    assert module.list_spending(lines)[-1] == ["saved for an effective run", "", "62 ± 12%"]
    (text,) = module.write_savings([line | {"example": "planets"} for line in lines])
    assert "[planets](../examples/planets.ipynb) 62 ± 12%." in text and module.write_savings([]) == []
    assert module.format_mean(np.array([1.0, 3.0]), 1) == "2.0 ± 1.0" and module.format_mean(np.ones(1), 1) == "1.0"


def test_a_page_without_its_region_is_refused(tool):
    with pytest.raises(ValueError, match="0 regions 'problems'"):
        tool.fill_region("no marks", "problems", "text")
