"""Opening, listing, verifying and reading a folder executes nothing found in it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scenario

import thrifty as th
from thrifty.errors import CampaignError, ThriftyError

OPENED = textwrap.dedent(
    """
    import os, sys
    folder = sys.argv[1]
    import json, sqlite3, numpy, thrifty as th, thrifty.campaign.campaign, thrifty.store.repair
    import thrifty.costs  # everything that reading may need is imported before the watch begins
    watched = {"exec", "compile", "import", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen",
               "pickle.find_class", "ctypes.dlopen", "marshal.loads", "os.putenv", "socket.connect"}
    seen = []
    def hook(name, arguments):
        if name == "import" and not str(arguments[1] or "").startswith(folder):
            return  # the standard library may import its own parts
        if name in ("exec", "compile") and folder not in repr(arguments):
            return  # dataclasses and named tuples are made by compiling their own text
        if name in watched or (name == "open" and "w" in str(arguments[1] or "") and folder in str(arguments[0])):
            seen.append((name, repr(arguments)[:200]))
    sys.addaudithook(hook)
    os.chdir(folder)
    results = []
    for step in ("open", "status", "simulations", "verify"):
        try:
            c = th.Campaign.open(folder)
            if step != "open":
                getattr(c, step)()
            results.append("ok")
        except Exception as error:
            results.append(type(error).__name__)
    print(json.dumps({"seen": seen, "results": results}))
    """
)


class Evil:
    def __reduce__(self):
        import os

        return (os.system, ("touch PWNED",))


def plant(folder):
    """Files that careless readers would load or import."""
    (folder / "sitecustomize.py").write_text("open('PWNED', 'w')")
    (folder / "json.py").write_text("open('PWNED', 'w')")
    (folder / "numpy.py").write_text("open('PWNED', 'w')")
    (folder / "model.py").write_text("open('PWNED', 'w')")
    (folder / "state.pkl").write_bytes(pickle.dumps(Evil()))
    np.save(folder / "x.npy", np.array([Evil()], dtype=object), allow_pickle=True)


def change(folder, *statements):
    db = sqlite3.connect(folder / "store.sqlite")
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def rewrite_meta(folder, key, value):
    from thrifty.store.rows import with_checksum

    db = sqlite3.connect(folder / "store.sqlite")
    with db:
        db.execute("REPLACE INTO meta VALUES (?, ?, ?)", with_checksum((key, json.dumps(value))))
    db.close()


HOSTILE = {
    "planted files": lambda f: None,
    "trigger": lambda f: change(
        f, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN UPDATE runs SET status = 'ok', x = NULL; END"
    ),
    "view": lambda f: change(f, "ALTER TABLE runs RENAME TO r", "CREATE VIEW runs AS SELECT * FROM r"),
    "pickle for an output": lambda f: change(f, f"UPDATE runs SET x = x'{pickle.dumps(Evil()).hex()}' WHERE idx = 3"),
    "huge shape": lambda f: rewrite_meta(f, "shape", [10**12]),
    "negative shape": lambda f: rewrite_meta(f, "shape", [-5, -5]),
    "code for a simulator": lambda f: rewrite_meta(f, "simulator", {"argument 0": "os:system"}),
    "no settings": lambda f: change(f, "DELETE FROM meta"),
    "words for numbers": lambda f: change(f, "UPDATE runs SET wall = 'rm -rf', sum = 'x' WHERE idx = 2"),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("small") / "c"
    c = scenario.planned(folder, n=10)
    c.run(engine=th.Inline(), progress="quiet")
    made = {}
    for name in HOSTILE:
        made[name] = folder.with_name(name.replace(" ", "_"))
        shutil.copytree(folder, made[name])
    return made


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folders_execute_nothing(small, name):
    folder = small[name]
    HOSTILE[name](folder)
    plant(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".sqlite", ".json", ".py")}
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["seen"] == [], report
    assert not (folder / "PWNED").exists()
    assert all((folder / name).read_bytes() == data for name, data in before.items()), "reading must change nothing"
    if name not in ("planted files", "code for a simulator"):
        assert set(report["results"]) <= {"ok", "CampaignError", "DamagedStoreError"}
        assert "ok" not in (report["results"][2],), "a spoilt folder must not give a table"


def test_links_that_lead_elsewhere_are_refused(tmp_path):
    scenario.planned(tmp_path / "real", n=5)
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "store.sqlite").symlink_to(tmp_path / "real" / "store.sqlite")
    with pytest.raises(CampaignError) as caught:
        scenario.campaign(fake)
    assert caught.value.code == "untrusted-folder"
    with pytest.raises(ThriftyError):
        th.Campaign.open(fake)


def test_no_pickle_in_the_folder(tmp_path):
    scenario.planned(tmp_path / "c", n=5)
    for path in (tmp_path / "c").iterdir():
        assert b"cloudpickle" not in path.read_bytes() and not path.read_bytes().startswith(b"\x80")


def tiny(folder):
    c = th.Campaign(folder, noisy, th.Uniform(0, 1))
    c.pilot(5, engine=th.Inline(), progress="quiet")
    return c


def noisy(theta, rng):
    return theta + rng.normal()


def test_repairing_touches_nothing_outside_the_folder(tmp_path):
    """A link named like the place where a store is repaired leads to somebody's files."""
    c = tiny(tmp_path / "c")
    before = c.simulations().x
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("thesis.tex", "store.sqlite"):
        (precious / name).write_text("precious")
    (c.folder / "repairing").symlink_to(precious)
    os.truncate(c.folder / "store.sqlite", 10)
    th.Campaign.repair(c.folder)
    assert {path.name: path.read_text() for path in precious.iterdir()} == dict.fromkeys(
        ("thesis.tex", "store.sqlite"), "precious"
    )
    c.pilot(5, engine=th.Inline(), progress="quiet")
    np.testing.assert_array_equal(c.simulations().x, before)
    assert not [path for path in c.folder.iterdir() if path.name.startswith("repairing-")]


@pytest.mark.parametrize("name", ["frozen.tmp", "frozen.json", "lock"])
def test_links_are_not_written_through(tmp_path, name):
    c = tiny(tmp_path / "c")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (c.folder / name).unlink(missing_ok=True)
    (c.folder / name).symlink_to(victim)
    with contextlib.suppress(ThriftyError):
        c.pilot(8, engine=th.Inline(), progress="quiet")
    assert victim.read_text() == "precious"
