"""Several results in one folder: all of them side by side, each with its time and verdict."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from report_page import Page
from report_scenario import keep_result

from thrifty.report import write
from thrifty.report.gather import gather
from thrifty.report.results import read_results, save_result
from thrifty.report.results_section import MAX_COMPARED, results_section
from thrifty.weights import quantile


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
