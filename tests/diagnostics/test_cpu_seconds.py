"""`th.diagnose` of 5,000 runs takes at most 60 CPU seconds, whatever the method: the benchmark `diagnose_time.py`."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MAX_CPU_SECONDS = 60.0


@pytest.fixture
def bench(monkeypatch):
    """The benchmark as a module; what it imports beside itself is forgotten afterwards."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import diagnose_time

    yield diagnose_time
    for name in ("diagnose_time", "problems", "pages"):
        sys.modules.pop(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["NPE", 'NPE, correction="after"', "NLE", "NRE", "Ensemble of NPE", "ABC", "SyntheticLikelihood", "ScoringRule"],
)
def test_every_method_is_checked_within_a_minute(name, seed, bench):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, found = bench.measure(name, 5_000, seed)
    assert seconds < MAX_CPU_SECONDS
    assert {"sbc", "coverage", "tarp", "data_use", "local_c2st"} <= {check.name for check in found}
    assert not any("time_limit" in note for note in found.notes)


@pytest.mark.slow
def test_the_quick_version_prints_its_tables():
    pytest.importorskip("torch")
    command = [sys.executable, str(BENCHMARKS / "diagnose_time.py"), "--quick", "--seed", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| SyntheticLikelihood | 1,000 |" in done.stdout and '| `"after"` | 1,000 |' in done.stdout


def test_the_pages_show_the_tables_of_the_records(bench):
    rows = bench.read_rows(bench.RECORDS)
    assert {row["method"] for row in rows} >= {*bench.METHODS, *bench.CORRECTIONS}
    assert bench.make_table(rows) in (bench.DOCS / "diagnostics.md").read_text(), "diagnose_time.py --page"
    assert bench.make_answers_table(rows) in (bench.DOCS / "neural.md").read_text(), "diagnose_time.py --page"
