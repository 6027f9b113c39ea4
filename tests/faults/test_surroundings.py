"""Too few open files, no inodes, names too long, a folder that moves: one message each, and nothing is lost."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
import scenario

import thrifty as th
from thrifty.errors import StorageError, ThriftyError

LIMITED = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
import scenario
from thrifty.errors import ThriftyError

spare = int(sys.argv[3])
scenario.campaign(sys.argv[2]).status()  # everything is imported
limit = len(os.listdir("/proc/self/fd")) + spare
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
try:
    print(scenario.campaign(sys.argv[2]).run(workers=2, progress="quiet").done)
except ThriftyError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count open files")
@pytest.mark.parametrize("spare", [0, 2, 4, 7, 10, 12, 14, 16, 18, 60])
def test_too_few_open_files(copied, spare, monkeypatch):
    folder, expected = copied
    monkeypatch.setenv("SCENARIO_DELAY", "0")
    command = [sys.executable, "-c", LIMITED, os.path.dirname(scenario.__file__), str(folder), str(spare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, 2, 8), (done.returncode, done.stdout, done.stderr)
    if done.returncode:
        assert spare < 60 and "ulimit -n" in done.stdout and done.stdout.count("fix:") == 1
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected


@pytest.mark.parametrize(
    "call",
    [scenario.campaign, th.Campaign.open, th.Campaign.repair, lambda folder: scenario.planned(folder).run()],
    ids=["new", "open", "repair", "run"],
)
@pytest.mark.parametrize("name", ["x" * 300, "/".join(["y" * 100] * 50)], ids=["name", "path"])
def test_a_name_that_is_too_long(tmp_path, call, name):
    with pytest.raises(StorageError, match="longer than the file system allows") as caught:
        call(tmp_path / name)
    assert caught.value.code == "disk-problem" and len(str(caught.value)) < 600
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_too_long_for_the_store(tmp_path):
    with pytest.raises(StorageError, match="longer than the file system allows"):
        scenario.campaign(tmp_path / "/".join(["y" * 100] * 6))


def test_a_folder_that_moves_while_it_runs(copied, tmp_path, monkeypatch):
    monkeypatch.setenv("SCENARIO_DELAY", "0.02")
    folder, expected = copied
    campaign, moved = scenario.campaign(folder), tmp_path / "moved"

    def move():
        while campaign.status().done < 40:
            time.sleep(0.05)
        os.rename(folder, moved)

    mover = threading.Thread(target=move)
    mover.start()
    with pytest.raises(StorageError, match="moved or deleted while it was in use") as caught:
        campaign.run(workers=2, progress="quiet")
    mover.join()
    assert caught.value.code == "disk-problem" and "where it is now" in caught.value.fix
    assert not folder.exists(), "nothing is made again at the old place"
    assert th.Campaign.open(moved).status().done >= 40
    monkeypatch.setenv("SCENARIO_DELAY", "0")
    scenario.campaign(moved).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(moved) == expected


def test_a_folder_that_is_deleted_while_it_runs(copied, monkeypatch):
    monkeypatch.setenv("SCENARIO_DELAY", "0.02")
    folder, _ = copied
    campaign = scenario.campaign(folder)

    def delete():
        while campaign.status().done < 40:
            time.sleep(0.05)
        shutil.rmtree(folder)

    remover = threading.Thread(target=delete)
    remover.start()
    with pytest.raises(StorageError, match="moved or deleted"):
        campaign.run(workers=2, progress="quiet")
    remover.join()


@pytest.fixture
def few_inodes(tmp_path):
    """A small file system with room for bytes and for 12 files."""
    mount = tmp_path / "small"
    mount.mkdir()
    options = "size=4m,nr_inodes=12"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", mount], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small file system needs privileges")
    yield mount
    gc.collect()  # a campaign that an error still holds keeps the file system busy
    subprocess.run(["umount", "--lazy", mount], check=True)


def fill(mount):
    made = []
    while os.statvfs(mount).f_favail:
        made.append(mount / f"filler{len(made)}")
        made[-1].touch()
    return made


def test_no_inodes_for_a_new_folder(few_inodes):
    fill(few_inodes)
    with pytest.raises(StorageError, match="no inodes left"):
        scenario.campaign(few_inodes / "c")


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_no_inodes_while_running(prepared, few_inodes, spare):
    shutil.copytree(prepared[0], few_inodes / "c")
    made = fill(few_inodes)
    for path in made[:spare]:
        path.unlink()
    message = "no inodes left"
    try:
        scenario.campaign(few_inodes / "c").run(engine=th.Inline(), progress="quiet")
    except ThriftyError as error:
        message = str(error)
    assert "no inodes left" in message
    for path in made[spare:]:
        path.unlink()
    scenario.campaign(few_inodes / "c").run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(few_inodes / "c") == prepared[1]
