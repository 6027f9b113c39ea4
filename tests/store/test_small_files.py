"""The lock, the backup, and what settings may hold."""

from __future__ import annotations

import json

import pytest
from store_folder import PLANNED, SETTINGS

from thrifty.errors import DamagedStoreError, FolderInUseError
from thrifty.store.backup import BACKUP_NAME, read_backup
from thrifty.store.lock import FolderLock
from thrifty.store.validate import Block, parse_blocks, parse_parts, parse_settings


def test_a_folder_has_one_owner(tmp_path):
    with FolderLock(tmp_path):
        with pytest.raises(FolderInUseError, match="in use by pid"), FolderLock(tmp_path):
            pass
        (tmp_path / "lock").write_text("\x1b[31mnobody")
        with pytest.raises(FolderInUseError, match="in use by another process"), FolderLock(tmp_path):
            pass
    with FolderLock(tmp_path):
        pass


def test_the_backup_holds_what_cannot_be_computed_again(store):
    copy = read_backup(store.folder)
    assert copy is not None and {row[0] for row in copy["meta"]} >= set(SETTINGS)
    assert [row[3] for row in copy["blocks"]] == [PLANNED]
    store.put_figures({"totals": {}})
    store.put("pilots", 5)
    copy = read_backup(store.folder)
    assert copy is not None and "sums" not in {row[0] for row in copy["meta"]}, "sums can be computed again"


@pytest.mark.parametrize("change", [lambda text: text[:-1], lambda text: text.replace("beta", "x"), lambda text: "{}"])
def test_a_damaged_backup_is_not_used(store, change):
    path = store.folder / BACKUP_NAME
    data = json.loads(path.read_text())
    data["meta"][0][1] += " "
    path.write_text(change(json.dumps(data)))
    assert read_backup(store.folder) is None


def test_figures_are_no_setting(store):
    store.put_figures({"a": 1})
    assert store.figures() == {"a": 1} and "sums" not in store.settings()
    store.db.execute("UPDATE meta SET value = '{}' WHERE key = 'sums'")
    assert store.figures() is None, "damaged figures are computed again"
    assert store.settings()["seed"] == 1


def test_forgetting_runs_forgets_figures(store):
    store.put_figures({"a": 1})
    store.forget([3])
    assert store.figures() is None and store.count_pending() == PLANNED - 11


ODD_BLOCKS = [
    (0, 0, 0, 10, "n", 11),
    (0, 0, -1, 10, "n", 5),
    (0, 1, 0, 10, "n", 5),
    (0, 0, 0, 10**9, "n", 5),
    (0, 0, 0, 1.5, "n", 1),
]


@pytest.mark.parametrize("row", ODD_BLOCKS)
def test_blocks_that_no_campaign_has(tmp_path, row):
    with pytest.raises(DamagedStoreError) as caught:
        parse_blocks([row], tmp_path, parts={0})
    assert caught.value.code == "untrusted-folder"
    assert parse_blocks([(0, 0, 0, 10, "n", 5)], tmp_path, parts={0}) == [Block(0, 0, 0, 10, "n", 5)]


@pytest.mark.parametrize("key", ["seed", "m", "cost", "prior", "simulator"])
def test_settings_that_no_campaign_has(tmp_path, key):
    rows = [(name, json.dumps(value)) for name, value in SETTINGS.items()]
    assert parse_settings(rows, tmp_path)["seed"] == 1
    with pytest.raises(DamagedStoreError, match="missing"):
        parse_settings([row for row in rows if row[0] != key], tmp_path)
    with pytest.raises(DamagedStoreError) as caught:
        parse_settings([(name, "-1" if name == key else text) for name, text in rows], tmp_path)
    assert caught.value.code == "untrusted-folder"


@pytest.mark.parametrize("recipe", ["[", "[]", "1", "[" * 100_000])
def test_proposals_that_no_campaign_has(tmp_path, recipe):
    with pytest.raises(DamagedStoreError):
        parse_parts([(0, "prior", recipe)], tmp_path)
