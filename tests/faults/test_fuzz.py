"""A store under fire: bytes and whole values changed at random; never a raw error, never a silently wrong value.

Every change starts from a seed, so that a failure can be repeated: `SEEDS` in the fast suite, `MORE_SEEDS` with
`make test-all`.
"""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import asdict

import numpy as np
import pytest
import scenario

import thrifty as th
from thrifty.errors import ThriftyError
from thrifty.store.repair import TABLES
from thrifty.tables.simulations import table_hash

SEEDS, MORE_SEEDS = range(40), range(40, 640)
VALUES = (None, -1, 0, 1, 2**62, 1e300, float("inf"), "", "ok", "error", "1,2", b"", b"\0" * 16, b"x" * 80, "{}", "[]")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished campaign with figures kept for its status, its log folded in; its hash and its status."""
    folder = tmp_path_factory.mktemp("fuzz") / "c"
    campaign = scenario.planned(folder, n=40)
    campaign.run(engine=th.Inline(), progress="quiet")
    with campaign.session.writing() as opened:
        opened.sum_up()
        opened.store.put_figures(opened._figures)
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return folder, scenario.final_hash(folder), shown(folder)


def shown(folder):
    """What `status` says that comes from runs."""
    found = asdict(th.Campaign.open(folder).status())
    return {key: found[key] for key in ("planned", "done", "failed", "spent", "left", "failed_mass")}


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setenv("SCENARIO_DELAY", "0")


def change_bytes(path, rng):
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data)))
        match rng.integers(4):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                data[at] = int(rng.integers(256))
            case 2:
                data[at : at + 16] = rng.bytes(len(data[at : at + 16]))
            case 3:
                other = int(rng.integers(len(data)))
                data[at : at + 64] = data[other : other + 64].ljust(len(data[at : at + 64]), b"\0")[: len(data) - at]
    path.write_bytes(data)


def change_values(path, rng):
    """Edits that a person could make with sqlite3: checksums are left as they are."""
    with sqlite3.connect(path) as db:
        for _ in range(int(rng.integers(1, 4))):
            table = str(rng.choice(list(TABLES)))
            names = TABLES[table]
            key, column = names[0], str(rng.choice([*names, "sum"]))
            rows = [row[0] for row in db.execute(f"SELECT {key} FROM {table}")]
            if not rows:
                continue
            row, value = rows[int(rng.integers(len(rows)))], VALUES[int(rng.integers(len(VALUES)))]
            try:
                match rng.integers(4):
                    case 0 | 1:
                        db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, row))
                    case 2:
                        db.execute(f"DELETE FROM {table} WHERE {key} = ?", (row,))
                    case 3:
                        other = rows[int(rng.integers(len(rows)))]
                        sql = f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE {key} = ?)"
                        db.execute(f"{sql} WHERE {key} = ?", (other, row))
            except (sqlite3.IntegrityError, OverflowError):
                continue
    db.close()


READING = (
    lambda folder: shown(folder) and None,
    lambda folder: str(th.Campaign.open(folder).verify()) and None,
    lambda folder: str(th.Campaign.open(folder).quote(n=9)) and None,
    lambda folder: table_hash(th.Campaign.open(folder).simulations()),
)


def endure(whole, tmp_path, change, seed):
    folder, rng = tmp_path / "c", np.random.default_rng(seed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole[0], folder)
    change(folder / "store.sqlite", rng)
    found, errors = set(), []
    for read in READING:
        try:
            found.add(read(folder))
        except ThriftyError as error:
            errors.append(error)
    assert all(error.code and len(str(error)) < 1500 for error in errors)
    assert found <= {None, whole[1]}, f"seed {seed}: a wrong value went unnoticed"
    if seed % 5:
        return
    th.Campaign.repair(folder)
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == whole[1], f"seed {seed}: repaired to another table"
    assert shown(folder) == pytest.approx(whole[2])


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
@pytest.mark.parametrize("change", [change_bytes, change_values])
def test_fuzz(whole, tmp_path, change):
    for seed in SEEDS:
        endure(whole, tmp_path, change, seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
@pytest.mark.parametrize("change", [change_bytes, change_values])
def test_fuzz_at_length(whole, tmp_path, change):
    for seed in MORE_SEEDS:
        endure(whole, tmp_path, change, seed)
