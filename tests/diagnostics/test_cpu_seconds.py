"""`th.diagnose` of 5,000 runs takes at most 60 CPU seconds, whatever the method: the benchmark of that name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MAX_CPU_SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["NPE", 'NPE, correction="after"', "NLE", "NRE", "Ensemble of NPE", "ABC", "SyntheticLikelihood", "ScoringRule"],
)
def test_every_method_is_checked_within_a_minute(name, seed, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import diagnose_time

    try:
        seconds, found = diagnose_time.measure(name, 5_000, seed)
        is_limited = name in diagnose_time.LIMITED
        assert seconds < MAX_CPU_SECONDS
        assert any("held-out runs" in note for note in found.notes) or not is_limited
    finally:
        sys.modules.pop("diagnose_time")
        sys.modules.pop("problems")
    missing = {"sbc", "coverage", "tarp", "data_use", "local_c2st"} - {check.name for check in found}
    assert not missing or is_limited
    assert all(any(check in note for note in found.notes) for check in missing)  # what was left out is said
