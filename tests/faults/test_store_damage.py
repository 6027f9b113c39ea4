"""Full disks, truncated and flipped files: no silently wrong value, and a repair that ends with the same table."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest
import scenario

import thrifty as th
from thrifty.errors import CampaignError, StorageError
from thrifty.store.rows import with_checksum
from thrifty.tables.simulations import table_hash


@pytest.mark.parametrize("size", [40_000, 50_000, 60_000])
def test_a_full_disk_stops_cleanly_and_resumes(copied, size):
    folder, expected = copied
    driver = scenario.start(folder, "limited", str(size))
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 8, (out, err)
    assert "cannot write to" in out and "runs recorded so far are safe" in out
    scenario.succeeds(scenario.start(folder), 60)
    assert scenario.final_hash(folder) == expected


@pytest.mark.slow
def test_every_nth_write_fails(prepared, tmp_path):
    """The limit on file size sweeps through the writes of a campaign."""
    for size in range(30_000, 120_000, 3_000):
        folder = tmp_path / str(size)
        shutil.copytree(prepared[0], folder)
        driver = scenario.start(folder, "limited", str(size))
        driver.communicate(timeout=60)
        assert driver.returncode in (0, 8)
        scenario.succeeds(scenario.start(folder), 60)
        assert scenario.final_hash(folder) == prepared[1]


@pytest.mark.slow
def test_a_really_full_file_system(prepared, tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", mount], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small file system needs privileges")
    try:
        shutil.copytree(prepared[0], mount / "campaign")
        room = os.statvfs(mount)
        filler = mount / "filler"
        filler.write_bytes(b"\0" * max(room.f_bavail * room.f_frsize - 20_000, 0))
        driver = scenario.start(mount / "campaign")
        out, _ = driver.communicate(timeout=60)
        assert driver.returncode == 8 and "disk is full" in out
        filler.unlink()
        shutil.copytree(mount / "campaign", tmp_path / "rescued")
        scenario.succeeds(scenario.start(tmp_path / "rescued"), 60)
        assert scenario.final_hash(tmp_path / "rescued") == prepared[1]
    finally:
        subprocess.run(["umount", mount], check=False)


@pytest.fixture(scope="module")
def finished(prepared, tmp_path_factory):
    """A finished campaign with its log folded in, and its hash."""
    folder = tmp_path_factory.mktemp("finished") / "campaign"
    shutil.copytree(prepared[0].with_name("calm"), folder)
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return folder, prepared[1]


def damage(finished, tmp_path, change):
    """Copy the folder with its file changed."""
    folder = tmp_path / "campaign"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished[0], folder)
    for suffix in ("-wal", "-shm"):
        (folder / f"store.sqlite{suffix}").unlink(missing_ok=True)
    path = folder / "store.sqlite"
    path.write_bytes(change(path.read_bytes()))
    return folder


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setenv("SCENARIO_DELAY", "0")


def survives(folder, expected, *, repair):
    """Opens with the right table, or says what is damaged; returns whether damage was noticed."""
    try:
        found = table_hash(th.Campaign.open(folder).simulations())
    except (
        CampaignError
    ) as error:  # unfinished-runs: a run whose row vanished is missing, not wrong: it would run again
        found = error.code
    noticed = found in (
        "damaged-folder",
        "newer-version",
        "untrusted-folder",
        "unfinished-runs",
        "no-campaign",
        "no-runs-yet",
    )
    assert noticed or found == expected
    if noticed and repair:
        found = th.Campaign.repair(folder)
        assert found.repaired or found.ok
        scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
        assert scenario.final_hash(folder) == expected
        assert scenario.campaign(folder).verify().ok
    return noticed


def flip(rng, data, bits=1):
    changed = bytearray(data)
    for _ in range(bits):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def test_flipped_bits(finished, tmp_path, rng):
    """Anywhere in the file: the right table, or a word about the damage; never a wrong value."""
    noticed = [
        survives(damage(finished, tmp_path, lambda data: flip(rng, data)), finished[1], repair=i < 12)
        for i in range(60)
    ]
    assert any(noticed)


def test_flipped_bits_of_a_recorded_output(finished, tmp_path, rng):
    """Inside what a run returned: always noticed."""
    with sqlite3.connect(finished[0] / "store.sqlite") as db:
        outputs = [row[0] for row in db.execute("SELECT x FROM runs WHERE status = 'ok'") if len(row[0]) >= 8]
    db.close()

    def hit(data):
        blob = outputs[int(rng.integers(len(outputs)))]
        start = data.index(blob)
        changed = bytearray(data)
        changed[start + int(rng.integers(len(blob)))] ^= 1 << int(rng.integers(8))
        return bytes(changed)

    for _ in range(25):
        assert survives(damage(finished, tmp_path, hit), finished[1], repair=False)


def test_truncated_files(finished, tmp_path, rng):
    expected = finished[1]
    for i, share in enumerate([0.0, 0.05, 0.3, 0.6, 0.9, 0.999]):
        cut = damage(finished, tmp_path, lambda data, share=share: data[: int(share * len(data))])
        noticed = survives(cut, expected, repair=i >= 1)
        # the last bytes may belong to no row; then the table must be the right one, as `survives` has tested
        assert noticed or share > 0.95, f"a file cut to {share:.1%} must be noticed"


def test_a_page_of_zeros(finished, tmp_path, rng):
    expected = finished[1]
    for _ in range(6):

        def blank(data):
            page = int(rng.integers(1, len(data) // 4096))
            return data[: 4096 * page] + bytes(4096) + data[4096 * (page + 1) :]

        survives(damage(finished, tmp_path, blank), expected, repair=True)


@pytest.mark.slow
def test_five_hundred_flips(finished, tmp_path, rng):
    for _ in range(500):
        folder = damage(finished, tmp_path, lambda data: flip(rng, data, bits=int(rng.integers(1, 4))))
        survives(folder, finished[1], repair=bool(rng.random() < 0.3))


def test_a_torn_write_ahead_log(prepared, tmp_path, rng):
    """The log of a killed driver cut anywhere: sqlite drops the torn end, and the rest runs again."""
    folder = tmp_path / "campaign"
    shutil.copytree(prepared[0], folder)
    driver = scenario.start(folder, delay=0.02)
    wal = folder / "store.sqlite-wal"
    while not wal.exists() or wal.stat().st_size < 30_000:
        assert driver.poll() is None
    driver.kill()
    driver.communicate()
    data = wal.read_bytes()
    wal.write_bytes(data[: int(rng.integers(len(data) // 2, len(data)))])
    (folder / "store.sqlite-shm").unlink(missing_ok=True)
    scenario.succeeds(scenario.start(folder), 60)
    assert scenario.final_hash(folder) == prepared[1]


def test_read_only_folder(tmp_path, monkeypatch):
    import sys

    database = sys.modules["thrifty.store.schema"]
    scenario.planned(tmp_path / "c", n=5)
    real = database.connect

    def readonly(folder, *, readonly):
        db = real(folder, readonly=readonly)
        db.execute("PRAGMA query_only = ON")
        return db

    monkeypatch.setattr(sys.modules["thrifty.store.store"], "connect", readonly)
    with pytest.raises(StorageError) as caught:
        scenario.campaign(tmp_path / "c").run(engine=th.Inline())
    assert caught.value.code == "disk-problem" and "read-only" in str(caught.value)


def test_newer_format_is_left_alone(tmp_path):
    scenario.planned(tmp_path / "c", n=5)
    with sqlite3.connect(tmp_path / "c" / "store.sqlite") as db:
        db.execute("PRAGMA user_version = 9")
        db.execute("UPDATE meta SET value = ?, sum = ? WHERE key = 'format'", with_checksum(("format", "9"))[1:])
    db.close()
    for call in (scenario.campaign, th.Campaign.repair):
        with pytest.raises(CampaignError) as caught:
            call(tmp_path / "c")
        assert caught.value.code == "newer-version"


@pytest.mark.parametrize("version", [0, 2, 1 << 30])
def test_a_flipped_version_is_damage_and_is_repaired(finished, tmp_path, version):
    """The header says one format, the record with a checksum another."""
    folder = damage(finished, tmp_path, lambda data: data)
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    with pytest.raises(CampaignError, match=f"header says format {version}") as caught:
        scenario.campaign(folder)
    assert caught.value.code == "damaged-folder" and "th.Campaign.repair(folder)" in str(caught.value)
    assert survives(folder, finished[1], repair=True)


def test_a_store_that_was_deleted(finished, tmp_path):
    """Its copy of the plan is no empty folder: nothing begins anew over it, and the same plan can be had again."""
    folder = damage(finished, tmp_path, lambda data: data)
    (folder / "store.sqlite").unlink()
    before = (folder / "frozen.json").read_bytes()
    for call in (lambda: th.Campaign.open(folder), lambda: scenario.campaign(folder)):
        with pytest.raises(CampaignError) as caught:
            call()
        assert caught.value.code == "damaged-folder" and "all results of its 220 planned runs" in caught.value.what
        assert "th.Campaign.repair(folder)" in caught.value.fix and "backup" in caught.value.fix
    assert (folder / "frozen.json").read_bytes() == before and not (folder / "store.sqlite").exists()
    found = th.Campaign.repair(folder)
    assert found.repaired and "all results" in str(found) and len(found.damaged_plan) == 220
    assert scenario.campaign(folder).status().pending == 220
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == finished[1]


def test_neither_store_nor_copy_can_be_read(finished, tmp_path):
    folder = damage(finished, tmp_path, lambda data: data)
    (folder / "store.sqlite").unlink()
    (folder / "frozen.json").write_text("[")
    for call in (lambda: th.Campaign.repair(folder), lambda: th.Campaign.mend(folder, scenario.PRIOR)):
        with pytest.raises(CampaignError, match=r"frozen.json .*damaged") as caught:
            call()
        assert caught.value.code == "damaged-folder" and "backup" in caught.value.fix


def test_damage_names_the_indices(finished, tmp_path):
    def spoil(data):
        return data

    folder = damage(finished, tmp_path, spoil)
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("UPDATE runs SET wall = wall + 1 WHERE idx IN (40, 41, 97)")
        db.execute("UPDATE plan SET theta = zeroblob(16) WHERE idx = 50")
    db.close()
    found = th.Campaign.open(folder).verify()
    assert found.damaged_runs == (40, 41, 97) and found.damaged_plan == (50,) and not found.ok
    assert survives(folder, finished[1], repair=True)
    assert np.isfinite(th.Campaign.open(folder).simulations().theta).all()
