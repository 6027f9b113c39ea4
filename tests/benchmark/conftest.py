"""A record with all entries, of which a test sets a few."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thrifty.benchmark import Record

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("problem_checks")


def make_record(seed=0, c2st=0.6, **other):
    numbers = {"mmd2": 0.1, "width": 1.0, "worst": 1.1, "log_density": None, "cost": 100.0, "runs": 90}
    clocks = {"fit_seconds": 1.0, "sample_seconds": 0.1, "simulator_seconds": 0.0, "error": ""}
    made = {"version": "1", "commit": "abc", "date": "2026-01-01", "machine": "m"}
    names = {"problem": "waiting", "place": "middle", "method": "npe", "budget": 100.0, "seed": seed, "c2st": c2st}
    return Record(**{**names, **numbers, **clocks, **made, **other})


@pytest.fixture
def make():
    return make_record
