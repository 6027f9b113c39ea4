"""A folder made to attack its reader: nothing in it runs, nothing in it becomes markup."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from report_page import Page
from report_scenario import campaign, finish, forge, forge_names, keep_result, simulate

import thrifty as th
from thrifty.errors import ThriftyError
from thrifty.report import write
from thrifty.report.content import as_label, clean
from thrifty.store.rows import with_checksum

SCRIPT = "<script>document.title='PWNED'</script>"
MATHS = r"$\frac{$\undefined"
BREAKOUT = "\"'><img src=x onerror=alert(1)>"


def nasty(theta, rng):
    if theta[0] > 0.9:
        raise ValueError(f"{SCRIPT} </td></table> {BREAKOUT}\x1b[31m\u202e")
    return simulate(theta * [0.9, 1.0], rng)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "<script>alert('folder')<.script>"
    c = campaign(folder, simulator=nasty, unit="<b>eur")
    c.pilot(60, engine=th.Inline(), progress="quiet")
    c.plan(n=60)
    finish(c)
    keep_result(folder, method=SCRIPT)
    forge_names(folder, [SCRIPT, MATHS + BREAKOUT])
    forge(folder, notes=[SCRIPT, BREAKOUT], thrifty=SCRIPT, simulator={SCRIPT: BREAKOUT}, budget=SCRIPT)
    db = sqlite3.connect(folder / "store.sqlite")
    with db:
        db.execute("UPDATE sessions SET host = ?, note = ?", (SCRIPT, BREAKOUT))
        for row in db.execute("SELECT * FROM runs LIMIT 20").fetchall():
            changed = (*row[:8], SCRIPT, *row[9:-1])  # the host of a run
            marks = ", ".join("?" * (len(changed) + 1))
            db.execute(f"REPLACE INTO runs VALUES ({marks})", with_checksum(changed))
    db.close()
    result = folder / "infer" / "abc" / "result.json"
    about = json.loads(result.read_text())
    about["names"] = [SCRIPT, MATHS + BREAKOUT]
    about["diagnosis"] = {
        "verdict": SCRIPT,
        "checks": [{"name": SCRIPT, "verdict": "trust", "reason": BREAKOUT, "p_value": SCRIPT}, SCRIPT, None],
        "questions": [{"question": SCRIPT, "verdict": SCRIPT, "reason": BREAKOUT}, SCRIPT, None],
        "notes": [SCRIPT],
    }
    result.write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="module")
def page(hostile, tmp_path_factory):
    return write(tmp_path_factory.mktemp("page") / "r.html", hostile, command=f"thrifty report '{SCRIPT}'")


def test_every_word_of_the_folder_is_escaped(page):
    text = page.read_text(encoding="utf-8")
    seen = Page(text)
    tags = {tag for tag, _ in seen.elements}
    assert "script" not in tags and "img" not in tags and "b" not in tags
    assert not [name for _, values in seen.elements for name in values if name.startswith("on")]
    assert "<script" not in text.lower()
    words = " ".join(seen.texts.values())
    assert words.count("<script>") >= 6  # shown as text: names, host, error, notes, version, command
    assert "\x1b" not in text and "\u202e" not in text and "\x00" not in text
    assert "could not be made" not in text


def test_a_policy_forbids_scripts_and_requests(page):
    policies = [values for tag, values in Page(page.read_text()).elements
                if values.get("http-equiv") == "Content-Security-Policy"]  # fmt: skip
    assert len(policies) == 1
    rules = policies[0]["content"]
    assert "default-src 'none'" in rules and "script-src" not in rules and "img-src data:" in rules


def test_names_are_never_read_as_mathematics(page):
    drawn = re.findall(r"<text [^>]*>([^<]*)</text>", page.read_text())
    assert any(MATHS in text for text in drawn)


@pytest.mark.parametrize(
    "settings",
    [
        {"m": "many"},
        {"cost": "love"},
        {"pilots": []},
        {"prior": {"names": 3}},
        {"prior": 7},
        {"price": "<b>"},
        {"seed": {}},
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_named_or_shown(stages, tmp_path, settings):
    folder = tmp_path / "toy"
    shutil.copytree(stages["empty"], folder)
    forge(folder, **settings)
    code = "shown"
    try:
        write(tmp_path / "r.html", folder)
    except ThriftyError as error:
        code = error.code
    assert (tmp_path / "r.html").exists() is (code == "shown") and code


def test_cleaning():
    assert clean("a\x00b\nc\u2028d\u202ee") == "a b c d e"
    assert len(clean("x" * 10_000)) == 400
    assert as_label("$x$") == r"\$x\$"


WATCHED = textwrap.dedent(
    """
    import json, os, sys
    folder, target = sys.argv[1:]
    from thrifty.report import write
    never = {"os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "pickle.find_class",
             "socket.connect", "os.putenv"}
    of_the_folder = {"import", "exec", "compile", "ctypes.dlopen", "os.rename", "os.remove"}
    seen = []
    def hook(name, arguments):
        mine = folder in repr(arguments)
        writes = name == "open" and "w" in str(arguments[1] or "")
        if name in never or (mine and (name in of_the_folder or writes)):
            seen.append((name, repr(arguments)[:200]))
    sys.addaudithook(hook)
    os.chdir(folder)
    write(target, folder)
    print(json.dumps(seen))
    """
)


class Evil:
    def __reduce__(self):
        import os

        return (os.system, ("touch PWNED",))


def test_nothing_in_the_folder_is_executed(hostile, tmp_path):
    import pickle

    for name in ("sitecustomize.py", "json.py", "numpy.py", "model.py", "jinja2.py"):
        (hostile / name).write_text("open('PWNED', 'w')")
    (hostile / "state.pkl").write_bytes(pickle.dumps(Evil()))
    np.save(hostile / "infer" / "abc" / "x.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    arguments = [str(hostile), str(tmp_path / "r.html")]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, *arguments],  # -P: like the installed command, no import from here
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert not list(hostile.rglob("PWNED"))
