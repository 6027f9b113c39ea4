"""Results that a redesign must not change: draws, tables, pools, posteriors, checks."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))
from golden import record, scenarios

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
MACHINE, _, RECORDED = record.read(record.FILE)
NEEDS = {"campaign_dask": ("distributed",), "bundled_models": ("numba",), "calibration_of_npe": ("torch", "zuko")}
NEEDS |= {f"inference_{name}": ("torch", "zuko") for name in scenarios.NEURAL}


@functools.cache
def now(name: str) -> record.Records:
    return record.records_of(scenarios.run(name))


@functools.cache
def same_machine() -> bool:
    return record.machine() == MACHINE


def needed(name: str) -> None:
    for library in NEEDS.get(name, ()):
        pytest.importorskip(library)


@pytest.mark.parametrize("name", RECORDED)
def test_results_are_those_recorded(name):
    needed(name)
    assert record.differences(RECORDED[name], now(name), exact=same_machine()) == []


def test_every_scenario_is_recorded():
    assert set(RECORDED) == set(scenarios.SCENARIOS)


@pytest.mark.parametrize("other", ["campaign_processes", "campaign_dask"])
def test_engines_give_one_table(other):
    needed(other)
    assert record.differences(now("campaign_inline"), now(other), exact=True) == []


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("inference_")])
def test_a_loaded_posterior_is_the_saved_one(name):
    """Among the recorded ones: what is computed now equals them."""
    for label in ("samples", "log_prob"):
        assert RECORDED[name][f"loaded/{label}"] == RECORDED[name][label]


def test_the_table_is_the_same_in_and_out_of_processes():
    found = RECORDED["simulate_in_memory"]
    for label in ("index", "theta", "x", "log_weights", "status"):
        assert found[f"inline/{label}"].digest == found[f"processes/{label}"].digest


VALUES = {"x": np.linspace(1.0, 2.0, 200).reshape(100, 2), "status": np.array(["ok", "error"])}


def changed(label: str, place: tuple[int, ...], value: object) -> dict[str, np.ndarray]:
    values = {name: array.copy() for name, array in VALUES.items()}
    values[label][place] = value
    return values


MUTANTS = {  # values, noticed on the same machine, noticed on another
    "nothing": (VALUES, False, False),
    "the last digit": (changed("x", (0, 0), np.nextafter(1.0, 2.0)), True, False),
    "a thousandth": (changed("x", (0, 0), 1.001), True, True),
    "no number": (changed("x", (3, 1), np.nan), True, True),
    "a value that is only in the hash": (changed("x", (99, 1), 3.0), True, False),
    "a word": (changed("status", (1,), "ok"), True, True),
    "a shape": ({**VALUES, "x": VALUES["x"].reshape(2, 100)}, True, True),
    "a row less": ({**VALUES, "x": VALUES["x"][:-1]}, True, True),
    "a missing column": ({"x": VALUES["x"]}, True, True),
    "a new column": ({**VALUES, "y": np.zeros(3)}, True, True),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_comparison_notices_a_change(name, tmp_path):
    record.write(tmp_path / "r.npz", {"one": record.records_of(VALUES)})
    _, _, stored = record.read(tmp_path / "r.npz")
    values, exactly, nearly = MUTANTS[name]
    for exact, noticed in ((True, exactly), (False, nearly)):
        assert bool(record.differences(stored["one"], record.records_of(values), exact=exact)) is noticed


def test_a_changed_library_is_another_machine(monkeypatch):
    assert record.machine() == record.machine()
    before = record.machine()
    monkeypatch.setattr(record, "version", lambda name: "0.0")
    assert record.machine() != before
