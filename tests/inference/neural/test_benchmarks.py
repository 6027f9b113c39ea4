"""The comparisons with sbi run, in their smallest versions, and the documentation shows the tables of their records."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BENCHMARKS = ROOT / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["small_n.py", "training.py"])
def test_the_quick_version_prints_its_table(script):
    pytest.importorskip("sbi")
    command = [sys.executable, str(BENCHMARKS / script), "--quick", "--first", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| NPE |" in done.stdout and "| NLE |" in done.stdout


@pytest.mark.slow
def test_every_piece_is_compared_with_a_known_answer():
    command = [sys.executable, str(BENCHMARKS / "known_answers.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for piece in range(1, 11):
        assert f"\n| {piece} " in done.stdout


@pytest.fixture
def benchmark_module(request, monkeypatch):
    """A script of the benchmarks as a module; what it imports beside itself is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module(request.param)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(str(sys.modules[name].__file__)).parent == BENCHMARKS:
            del sys.modules[name]


@pytest.mark.parametrize("benchmark_module", ["small_n", "training"], indirect=True)
def test_the_page_shows_the_table_of_the_records(benchmark_module):
    rows = benchmark_module.read_rows(benchmark_module.RECORDS)
    table = benchmark_module.make_table(rows)
    assert table in benchmark_module.PAGE.read_text(), "python benchmarks/small_n.py --page, and training.py --page"
    changed = [row | {"log_density": row["log_density"] + 0.5 * row["estimator"].startswith("thrifty")} for row in rows]
    assert benchmark_module.make_table(changed) != table  # the mutant: figures are in it


@pytest.mark.parametrize("benchmark_module", ["known_answers"], indirect=True)
def test_the_page_shows_the_known_answers_of_the_records(benchmark_module):
    rows = benchmark_module.read_rows(benchmark_module.RECORDS)
    assert {row["piece"].split()[0] for row in rows} == {str(piece) for piece in range(1, 11)}
    table = benchmark_module.make_table(rows)
    assert table in benchmark_module.PAGE.read_text(), "python benchmarks/known_answers.py --page"
    assert benchmark_module.make_table([row | {"ours": row["ours"] + 0.5} for row in rows]) != table  # the mutant


@pytest.mark.parametrize("benchmark_module", ["tied_outputs"], indirect=True)
def test_the_page_shows_the_divergences_of_the_records(benchmark_module):
    rows = benchmark_module.read_rows(benchmark_module.RECORDS)
    assert {(row["network"], row["cells"]) for row in rows} >= {(name, True) for name in benchmark_module.NETWORKS}
    table = benchmark_module.make_table(rows)
    assert table in benchmark_module.PAGE.read_text(), "python benchmarks/tied_outputs.py --page"
    changed = [row | {"divergence": row["divergence"] + 0.5} for row in rows]
    assert benchmark_module.make_table(changed) != table  # the mutant


@pytest.mark.slow
def test_every_network_is_compared_on_ties():
    command = [sys.executable, str(BENCHMARKS / "tied_outputs.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "without cells | 1 |" in done.stdout
