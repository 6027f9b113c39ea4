"""From the store to a table: groups and single rows give the same table, damage is named."""

from __future__ import annotations

import numpy as np
import pytest
from store_folder import DONE, PLANNED, make_outcome

from thrifty.errors import DamagedStoreError, StorageError
from thrifty.store import groups, outputs_file
from thrifty.store.read import read_columns, read_table, scan, stream_columns
from thrifty.store.table import Table


def same(a: Table, b: Table) -> bool:
    return all(
        np.array_equal(getattr(a, name), value, equal_nan=value.dtype.kind == "f")
        for name, value in vars(b).items()
        if isinstance(value, np.ndarray)
    )


@pytest.fixture
def mixed(store):
    """Runs of all kinds among plain ones."""
    store.record(
        [make_outcome(i, status=s) for i, s in enumerate(("error", "timeout", "crashed"), start=DONE)], policy=None
    )
    store.record([make_outcome(DONE + 3, shape=(3,)), make_outcome(DONE + 4)], policy=None)
    return store


def test_groups_and_single_rows_give_the_same_table(mixed, monkeypatch):
    whole = read_table(mixed, dim=2, shape=(2,))
    assert whole.status[DONE : DONE + 5].tolist() == ["error", "timeout", "crashed", "error", "ok"]
    assert np.isnan(whole.x[DONE : DONE + 4]).all() and np.isfinite(whole.x[DONE + 4]).all()
    monkeypatch.setattr("thrifty.store.read.read_run_group", lambda rows, shape: None)
    monkeypatch.setattr("thrifty.store.read.read_plan_group", lambda rows, dim: None)
    assert same(read_table(mixed, dim=2, shape=(2,)), whole)


def test_small_groups_give_the_same_table(mixed, monkeypatch):
    whole = read_table(mixed, dim=2, shape=(2,))
    monkeypatch.setattr(groups, "GROUP_BYTES", 40)
    assert groups.group_rows(16) == 2 and same(read_table(mixed, dim=2, shape=(2,)), whole)


def test_a_stream_of_columns_is_the_table(mixed):
    whole = read_columns(mixed, dim=2, shape=(2,), check=True)
    pieces = list(stream_columns(mixed, dim=2, shape=(2,)))
    for name in ("index", "theta", "status", "cpu", "predicted", "admitted", "part"):
        np.testing.assert_array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(whole, name))
    last = mixed.query("SELECT max(finished) FROM runs WHERE idx < ?", DONE)[0][0]
    later = [int(i) for piece in stream_columns(mixed, dim=2, shape=(2,), after=last) for i in piece.index]
    assert later == list(range(DONE, DONE + 5))


@pytest.mark.parametrize("table", ["plan", "runs"])
def test_damaged_rows_are_named_among_plain_ones(store, table):
    store.db.execute(f"UPDATE {table} SET sum = sum + 1 WHERE idx IN (3, 5)")
    assert scan(store, dim=2, shape=(2,))[1][table] == [3, 5]
    with pytest.raises(DamagedStoreError, match=r"indices 3, 5\)"):
        read_table(store, dim=2, shape=(2,))


def test_outputs_in_a_file(store):
    whole, lazy = (read_table(store, dim=2, shape=(2,), lazy=flag) for flag in (False, True))
    assert isinstance(lazy.x, np.memmap) and same(whole, lazy)
    assert sorted(path.name for path in store.folder.iterdir() if "store" not in path.name) == ["frozen.json"]
    assert np.isnan(lazy.x[DONE:PLANNED]).all()


def test_no_room_for_outputs_in_a_file(store, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs_file.os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        read_table(store, dim=2, shape=(2,), lazy=True)
    assert caught.value.code == "disk-problem"
