"""The sections of the benchmarks' page that come from records are what the records say."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from thrifty.benchmark import PROBLEMS, read_records

ROOT = Path(__file__).parents[2]
DAY = r"\d{4}-\d\d-\d\d"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield import_module("benchmarks_page")
    for name in ("benchmarks_page", "real_simulators_page"):
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
        (source,) = (cell.source for cell in cells if "simulator" in cell.metadata.get("tags", ()))
        assert line["simulator"] == pages.hash_text(source), "run python benchmarks/equal_budgets.py"


def test_savings_and_their_errors_are_those_of_the_records(tool):
    """Two seeds, half and a quarter of the price of an effective run: 62.5 % saved, with an error of 12.5 %."""
    module = import_module("real_simulators_page")

    def arm(seconds, effective):
        return {"done": {"seconds": seconds, "runs": 10, "cost_per_run": 1.0, "effective_with_pilot": effective}}

    lines = [{"plain": arm(10.0, 10.0), "aware": arm(10.0, e)} for e in (20.0, 40.0)]
    assert module.list_spending(lines)[-1] == ["saved for an effective run", "", "62 ± 12 %"]
    assert module.format_mean(np.array([1.0, 3.0]), 1) == "2.0 ± 1.0" and module.format_mean(np.ones(1), 1) == "1.0"


def test_a_page_without_its_region_is_refused(tool):
    with pytest.raises(ValueError, match="0 regions 'problems'"):
        tool.fill_region("no marks", "problems", "text")
