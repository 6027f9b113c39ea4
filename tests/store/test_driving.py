"""What a driver reads and writes: pending draws in the right order, and groups of outcomes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from store_folder import DONE, PLANNED, make_outcome

from thrifty.errors import DamagedStoreError, StorageError
from thrifty.store.driving import GROUP_BYTES, GROUP_RUNS, Recorder, read_pending
from thrifty.store.sums import sum_runs
from thrifty.types import Array


def add_budget_block(store, n=10):
    theta = np.random.default_rng(1).random((n, 2))
    ones = np.ones(n)
    return store.add_block(0, theta, log_weights=0 * ones, predicted=ones, coins=ones / 2, mode="budget")


def stored(store) -> Array:
    return np.array([np.frombuffer(row[0]) for row in store.query("SELECT theta FROM plan ORDER BY idx")])


def test_pending_is_what_has_no_result(store):
    pending = read_pending(store, store.blocks(), dim=2)
    assert pending.index.tolist() == list(range(DONE, PLANNED)) and pending.must == len(pending)
    np.testing.assert_array_equal(pending.theta[np.arange(len(pending))], stored(store)[DONE:])
    np.testing.assert_array_equal(pending.theta[np.array([5, 0, 3])], stored(store)[[DONE + 5, DONE, DONE + 3]])
    assert pending.index.dtype == np.int32, "a million runs take four megabytes"


def test_under_a_budget_the_admitted_come_first(store):
    block = add_budget_block(store)
    store.admit_through(block.first + 2, blocks={block.id})
    both = read_pending(store, store.blocks(), dim=2)
    assert both.must == PLANNED - DONE + 3 and len(both) == PLANNED - DONE + 10
    assert both.index.tolist() == list(range(DONE, PLANNED + 10))
    without = read_pending(store, store.blocks(), dim=2, withdrawn=False)
    assert len(without) == without.must == PLANNED - DONE + 3
    some = read_pending(store, store.blocks(), dim=2, target=(0, PLANNED + 5))
    assert len(some) == PLANNED - DONE + 5


@pytest.mark.parametrize(
    "change",
    ["UPDATE plan SET theta = zeroblob(16) WHERE idx = 20", "UPDATE plan SET block = 7 WHERE idx = 20"],
)
def test_damaged_draws_are_never_handed_out(store, change):
    store.db.execute(change)
    with pytest.raises(DamagedStoreError, match=r"indices 20\)"):
        read_pending(store, store.blocks(), dim=2)


def test_a_draw_damaged_later_is_seen_when_it_is_loaded(store):
    pending = read_pending(store, store.blocks(), dim=2)
    store.db.execute("DELETE FROM plan WHERE idx = 21")
    with pytest.raises(DamagedStoreError, match=r"indices 21\)"):
        pending.theta[np.arange(len(pending))]


def recorder(store, **more):
    return Recorder(store, policy=None, session=store.begin_session("test"), blocks=frozenset({0}), **more)


def count(store):
    return sum_runs(store)["count"] - DONE


def test_outcomes_are_committed_in_groups(store, monkeypatch):
    seen = []
    sink = recorder(store, on_commit=lambda group: seen.append(len(group)))
    monkeypatch.setattr("thrifty.store.driving.GROUP_SECONDS", 1e9)
    monkeypatch.setattr("thrifty.store.driving.GROUP_RUNS", 5)
    for index in range(DONE, DONE + 7):
        sink.record([make_outcome(index)])
        sink.flush()
    assert count(store) == 5 and seen == [5]
    assert sink.flush(force=True) == 7 and count(store) == 7
    assert store.spent("elapsed") > 0


def test_large_outputs_are_committed_sooner(store, monkeypatch):
    monkeypatch.setattr("thrifty.store.driving.GROUP_SECONDS", 1e9)
    sink = recorder(store)
    sink.record([make_outcome(DONE, shape=(GROUP_BYTES // 8,))])
    assert sink.flush() == 1 and GROUP_RUNS > 1


def test_nothing_is_written_into_a_store_that_moved(store, tmp_path):
    sink = recorder(store)
    os.rename(store.folder, tmp_path / "elsewhere")
    sink.record([make_outcome(DONE)])
    with pytest.raises(StorageError, match="moved or deleted"):
        sink.flush(force=True)


def test_a_run_is_never_overwritten(store):
    store.record([make_outcome(3, status="error"), make_outcome(DONE)], policy=None)
    assert store.query("SELECT status FROM runs WHERE idx = 3") == [("ok",)] and count(store) == 1
