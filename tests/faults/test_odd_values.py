"""Stores whose checksums are right and whose values no thrifty ever wrote: one error, nothing allocated by them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import numpy as np
import pytest
import scenario

import thrifty as th
from thrifty.errors import CampaignError, ThriftyError
from thrifty.store.backup import read_backup
from thrifty.store.repair import TABLES
from thrifty.store.rows import with_checksum

WORST = [None, -1, 10**12, float("inf"), "abc", "[" * 5000, b"\x00" * 8]
MORE = [2**62, 1.5, "", "[]", "{}", "null", "5", "[1,2]", '{"a":1}', b"", b"x" * 7, "2,x", "-1", "\x1b[31mred", "nan"]
READING = {
    "status": lambda folder: str(th.Campaign.open(folder).status()),
    "simulations": lambda folder: th.Campaign.open(folder).simulations(max_failed=1, allow_incomplete=True),
    "verify": lambda folder: str(th.Campaign.open(folder).verify()),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished campaign of 20 pilots and 10 runs, its log folded in."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    scenario.planned(folder, n=10).run(engine=th.Inline(), progress="quiet")
    db = sqlite3.connect(folder / "store.sqlite")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return folder


@pytest.fixture
def spoilt(whole, tmp_path):
    """Copies of it with one value replaced, and the sum that goes with it."""

    def spoil(table, column, value, *, key=None):
        folder, columns = tmp_path / "c", TABLES[table]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        db = sqlite3.connect(folder / "store.sqlite")
        with db:
            last = db.execute(f"SELECT max({columns[0]}) FROM {table}").fetchone()[0] if key is None else key
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {columns[0]} = ?", (value, last))
            row = db.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {columns[0]} = ?", (last,)).fetchone()
            db.execute(f"UPDATE {table} SET sum = ? WHERE {columns[0]} = ?", (with_checksum(row)[-1], last))
        db.close()
        return folder

    return spoil


def columns():
    settings = ("seed", "prior", "cost", "m", "simulator", "price", "unit", "shape", "pilots", "plans", "budget")
    yield from (("meta", "value", key) for key in settings)
    yield from ((table, name, None) for table in ("parts", "blocks", "plan", "runs") for name in TABLES[table][1:])


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
@pytest.mark.parametrize("values", [WORST, pytest.param(MORE, marks=pytest.mark.slow)], ids=["worst", "more"])
def test_every_column_with_values_that_are_none_of_ours(spoilt, values):
    refused = []
    for table, column, key in columns():
        for value in values:
            folder = spoilt(table, column, value, key=key)
            for name, read in READING.items():
                try:
                    read(folder)
                except ThriftyError as error:
                    refused.append(error)
                except BaseException as error:
                    raise AssertionError(f"{name} with {table}.{column} ({key}) = {value!r:.40}") from error
    assert len(refused) > 100 and all(error.exit_code and len(str(error)) < 1000 for error in refused)


SIZES = {
    "draws": ("blocks", "n", 10**12, None),
    "draws that are not there": ("blocks", "n", 10**8, None),
    "admitted": ("blocks", "admitted", 11, None),
    "proposal": ("blocks", "part", 10**12, None),
    "first": ("blocks", "first", -(10**12), None),
    "shape": ("meta", "value", json.dumps([2**25]), "shape"),  # a quarter of a gigabyte a run
    "realisations": ("meta", "value", str(10**12), "m"),
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_refused_before_anything_is_made_by_them(spoilt, size):
    table, column, value, key = SIZES[size]
    folder = spoilt(table, column, value, key=key)
    with pytest.raises(CampaignError) as caught:
        th.Campaign.open(folder).simulations()
    assert (
        caught.value.code == "untrusted-folder"
        and caught.value.exit_code == 7
        and "th.Campaign.repair" in caught.value.fix
    )


@pytest.mark.parametrize("size", ["draws", "proposal", "realisations"])
def test_odd_values_are_repaired_from_the_copy(spoilt, whole, size):
    table, column, value, key = SIZES[size]
    folder = spoilt(table, column, value, key=key)
    assert th.Campaign.repair(folder).repaired
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == scenario.final_hash(whole)


COPIES = {
    "text for a number": lambda copy: copy["blocks"][-1].__setitem__(3, "x"),
    "nothing for a number": lambda copy: copy["blocks"][-1].__setitem__(2, None),
    "a short row": lambda copy: copy["blocks"].append([5, 0]),
    "an empty row": lambda copy: copy["blocks"].append([]),
    "no settings": lambda copy: copy.update(meta=[]),
    "a prior that is none": lambda copy: copy["meta"].append(["prior", "[]", 0]),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_none_of_ours_is_not_used(whole, tmp_path, name):
    folder = tmp_path / "c"
    shutil.copytree(whole, folder)
    os.truncate(folder / "store.sqlite", 10)
    assert read_backup(folder) is not None
    copy = json.loads((folder / "frozen.json").read_text())
    COPIES[name](copy)
    signed_again = {
        key: [[*with_checksum(tuple(row[:-1]))] if row else [] for row in rows] for key, rows in copy.items()
    }
    (folder / "frozen.json").write_text(json.dumps(signed_again))
    assert read_backup(folder) is None
    with pytest.raises(CampaignError, match=r"frozen.json .* missing or damaged"):
        th.Campaign.repair(folder)


def test_a_copy_nested_beyond_reason(whole, tmp_path):
    folder = tmp_path / "c"
    shutil.copytree(whole, folder)
    (folder / "frozen.json").write_text("[" * 100_000)
    assert read_backup(folder) is None
    assert np.isfinite(th.Campaign.open(folder).simulations().theta).all()
