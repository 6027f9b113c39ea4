"""A change of any file that a simulator rests on is refused by name; what did not change is never refused."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign.fingerprint import FORMAT, fingerprint
from thrifty.campaign.settings import differences
from thrifty.errors import CampaignError, ConfigError
from thrifty.types import Array

QUIET = {"engine": th.Inline(), "progress": "quiet"}
HELPER = (
    "SCALE = 2.0\n\n\ndef f(t):\n    return SCALE * t\n\n\nclass Model:\n    def g(self, t):\n        return f(t)\n"
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder on the path of Python, with a helper module and a package; its modules are forgotten afterwards."""
    home = tmp_path / "project"
    (home / "pack").mkdir(parents=True)
    (home / "helper.py").write_text(HELPER)
    (home / "deeper.py").write_text("import helper\n\n\ndef h(t):\n    return helper.f(t)\n")
    (home / "pack" / "__init__.py").write_text("")
    (home / "pack" / "inner.py").write_text("from .base import f\n\n\ndef g(t):\n    return f(t)\n")
    (home / "pack" / "base.py").write_text(HELPER)
    (home / "unrelated.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(home))
    yield home
    for name in ("helper", "deeper", "pack", "pack.inner", "pack.base", "unrelated", "sim"):
        sys.modules.pop(name, None)


def load(home, text):
    """Import the simulator as a fresh process would."""
    for name in ("helper", "deeper", "pack", "pack.inner", "pack.base", "unrelated", "sim"):
        sys.modules.pop(name, None)
    (home / "sim.py").write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module("sim").simulate


STYLES = {
    "import": ("import helper\ndef simulate(t, rng):\n    return helper.f(t)\n", "helper.py"),
    "from": ("from helper import f\ndef simulate(t, rng):\n    return f(t)\n", "helper.py"),
    "constant": ("from helper import SCALE, f\nG = f\ndef simulate(t, rng):\n    return G(t)\n", "helper.py"),
    "transitive": ("import deeper\ndef simulate(t, rng):\n    return deeper.h(t)\n", "helper.py"),
    "inside": ("def simulate(t, rng):\n    import helper\n    return helper.f(t)\n", "helper.py"),
    "inside a caller": (
        "def step(t):\n    from helper import f\n    return f(t)\ndef simulate(t, rng):\n    return step(t)\n",
        "helper.py",
    ),
    "by text": (
        "import importlib\ndef simulate(t, rng):\n    return importlib.import_module('helper').f(t)\n",
        "helper.py",
    ),
    "comprehension": ("import helper\ndef simulate(t, rng):\n    return [helper.f(v) for v in t]\n", "helper.py"),
    "package": ("from pack import inner\ndef simulate(t, rng):\n    return inner.g(t)\n", "pack/base.py"),
    "dotted": ("import pack.inner\ndef simulate(t, rng):\n    return pack.inner.g(t)\n", "pack/base.py"),
    "instance": ("from helper import Model\nM = Model()\ndef simulate(t, rng):\n    return M.g(t)\n", "helper.py"),
    "method": (
        "import helper\nclass S:\n    def run(self, t, rng):\n        return helper.f(t)\nsimulate = S().run\n",
        "helper.py",
    ),
    "callable": (
        "import helper\nclass S:\n    def __call__(self, t, rng):\n        return helper.f(t)\nsimulate = S()\n",
        "helper.py",
    ),
    "base class": ("from helper import Model\nclass S(Model):\n    pass\nsimulate = S().g\n", "helper.py"),
    "overridden": (
        "from helper import Model\nfrom pack.base import f\nclass S(Model):\n    def g(self, t):\n        return f(t)\n"
        "class T(S):\n    pass\nsimulate = T().g\n",
        "pack/base.py",
    ),
    "partial": (
        "import functools, helper\ndef run(k, t, rng):\n    return helper.f(t)\nsimulate = functools.partial(run, 2)\n",
        "helper.py",
    ),
    "lambda": ("import helper\nsimulate = lambda t, rng: helper.f(t)\n", "helper.py"),
}


@pytest.mark.parametrize("style", STYLES)
def test_an_edited_helper_is_found_however_it_is_imported(project, style):
    text, file = STYLES[style]
    before = fingerprint(load(project, text))
    assert f"file {file}" in before
    assert differences(before, fingerprint(load(project, text))) == []
    edited = project / file
    edited.write_text(f"# a comment\n\n{HELPER}")
    (project / "unrelated.py").write_text("X = 2\n")
    assert differences(before, fingerprint(load(project, text))) == [], "layout and other files do not count"
    edited.write_text(HELPER.replace("2.0", "3.0"))
    found = differences(before, fingerprint(load(project, text)))
    assert f"file {file} changed" in [line.split(" (")[0] for line in found]


def test_the_file_of_the_simulator_may_change_elsewhere(project):
    """A script holds plans and plots too: of its own file only what the simulator uses counts."""
    text = STYLES["from"][0]
    before = fingerprint(load(project, text))
    assert differences(before, fingerprint(load(project, f"import unrelated\nN = 500\n\n\n{text}\nprint(N)\n"))) == []


def test_moved_files_are_the_same(project, tmp_path, monkeypatch):
    """The project in another folder; a helper that became part of a package."""
    before = fingerprint(load(project, STYLES["from"][0]))
    shutil.move(project, tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert differences(before, fingerprint(load(tmp_path / "elsewhere", STYLES["from"][0]))) == []
    packed = load(tmp_path / "elsewhere", STYLES["from"][0].replace("from helper", "from pack.base"))
    assert "file pack/base.py" in fingerprint(packed)
    assert differences(before, fingerprint(packed)) == []


def test_installed_packages_count_by_version(project, monkeypatch):
    simulate = load(project, "import numpy as np\ndef simulate(t, rng):\n    return np.exp(t)\n")
    before = fingerprint(simulate)
    assert before["package numpy"] == np.__version__ and not any(name.startswith("file ") for name in before)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.1")
    assert differences(before, fingerprint(simulate)) == [f"package numpy changed ({np.__version__} -> 0.1)"]


def test_fingerprints_of_earlier_versions_are_accepted_and_completed(project, tmp_path):
    """Format 2 knew neither files nor packages: what it does not name is recorded, what it names is compared."""
    simulate = load(project, STYLES["from"][0])
    c = th.Campaign(tmp_path / "c", simulate, th.Uniform(0, 1), depends_on=())
    c.pilot(12, **QUIET)
    now = fingerprint(simulate)
    with c.session.writing() as opened:
        opened.keep(simulator={"simulate": now["simulate"], "format": "2"})
    c.pilot(14, **QUIET)
    with c.session.reading() as opened:
        assert opened.settings.simulator == now and now["format"] == str(FORMAT)
    (project / "helper.py").write_text(HELPER.replace("2.0", "3.0"))
    with pytest.raises(CampaignError, match=r"file helper\.py changed") as caught:
        c.pilot(16, **QUIET)
    assert caught.value.code == "simulator-changed" and c.status().done == 14
    assert differences({**now, "simulate": "other", "format": "2"}, now), "a changed part is refused in any format"


def test_data_files_that_are_named_count(tmp_path):
    data, folder = tmp_path / "table.csv", tmp_path / "tables"
    data.write_text("1,2,3")
    folder.mkdir()
    (folder / "a.npy").write_bytes(b"abc")

    def make(**settings):
        return th.Campaign(tmp_path / "c", simulate, th.Uniform(0, 1), **settings)

    make(depends_on=[data, str(folder)]).pilot(12, **QUIET)
    make(depends_on=[data, folder]).pilot(13, **QUIET)
    data.write_text("1,2,4")
    with pytest.raises(CampaignError, match=r"data table\.csv changed"):
        make(depends_on=[data, folder]).pilot(14, **QUIET)
    data.write_text("1,2,3")
    (folder / "b.npy").write_bytes(b"new")
    make(depends_on=[data, folder]).pilot(14, **QUIET)  # named for the first time, recorded
    (folder / "a.npy").write_bytes(b"abd")
    with pytest.raises(CampaignError, match=r"data tables/a\.npy changed"):
        make(depends_on=[data, folder]).pilot(15, **QUIET)
    with pytest.raises(CampaignError, match=r"data table\.csv is missing"):
        make().pilot(15, **QUIET)
    with pytest.raises(ConfigError, match="which does not exist"):
        make(depends_on=[tmp_path / "none.csv"])
    accepted = make(depends_on=[data, folder], accept_changed=True)
    assert "data tables/a.npy changed" in str(accepted.pilot(15, **QUIET))


def simulate(theta: Array, rng: np.random.Generator) -> Array:
    return theta + rng.normal()


def test_programs_count_by_their_files(tmp_path, monkeypatch):
    script, helper, model = tmp_path / "model.py", tmp_path / "steps.py", tmp_path / "run.sh"
    script.write_text("import steps, sys\nprint(steps.f(float(sys.argv[1])))\n")
    helper.write_text("def f(t):\n    return 2 * t\n")
    model.write_text("#!/bin/sh\necho $1\n")
    model.chmod(0o755)
    command = th.Command([sys.executable, str(script), "{a}"], names=("a",))
    before = fingerprint(command)
    assert {"file model.py", "file steps.py"} <= before.keys()
    helper.write_text("def f(t):\n    return 3 * t\n")
    assert [line.split(" (")[0] for line in differences(before, fingerprint(command))] == ["file steps.py changed"]
    shell = fingerprint(th.Command([str(model), "{a}"], names=("a",)))
    (tmp_path / "moved").mkdir()
    shutil.copy(model, tmp_path / "moved" / "run.sh")
    moved = th.Command([str(tmp_path / "moved" / "run.sh"), "{a}"], names=("a",))
    assert differences(shell, fingerprint(moved)) == []
    (tmp_path / "moved" / "run.sh").write_text("#!/bin/sh\necho $1 $1\n")
    assert any("run.sh" in line for line in differences(shell, fingerprint(moved)))
    old = {name: text for name, text in shell.items() if name != "format"}  # as earlier versions wrote it
    assert differences(old, shell) == []


SCRIPT = """
import sys
import thrifty as th
{imports}
def simulate(theta, rng):
    return {call} + rng.normal()
c = th.Campaign(sys.argv[1], simulate, th.Uniform(0, 1), seed=1)
c.pilot(20, workers=2, progress="quiet")
c.plan(n=int(sys.argv[2]), penalty=0)
print(c.run(workers=2, progress="quiet").done)
"""


@pytest.mark.parametrize(
    ("imports", "call"), [("import helper", "helper.f(theta)"), ("from helper import f", "f(theta)")]
)
def test_a_script_whose_helper_was_edited_is_refused(tmp_path, imports, call):
    """As people do it: a script, a helper beside it, two processes."""
    script, helper = tmp_path / "script.py", tmp_path / "helper.py"
    script.write_text(SCRIPT.format(imports=imports, call=call))
    helper.write_text(HELPER)

    def run(n):
        command = [sys.executable, script, tmp_path / "c", str(n)]
        return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, cwd="/")

    first = run(20)
    assert first.stdout.strip() == "40", first.stderr
    assert run(30).stdout.strip() == "50", "unchanged code goes on"
    helper.write_text(HELPER.replace("2.0", "3.0"))
    refused = run(40)
    assert refused.returncode != 0 and "file helper.py changed" in refused.stderr
    assert th.Campaign.open(tmp_path / "c").status().done == 50


TIMED = """
import time
from thrifty.campaign.fingerprint import fingerprint
import sim
for _ in range(3):
    begin = time.thread_time()
    fingerprint(sim.simulate)
    print(time.thread_time() - begin)
"""


def test_a_fingerprint_takes_little_time(project):
    """Under 50 ms of CPU when helpers of two thousand lines are read first (17 are measured); then almost none."""
    body = "".join(f"def f{i}(t):\n    return {i} * t + SCALE\n\n\n" for i in range(500))
    (project / "helper.py").write_text(HELPER + body)
    os.utime(project / "helper.py", (time.time() - 100,) * 2)
    (project / "sim.py").write_text(
        "import numpy as np\nimport helper\ndef simulate(t, rng):\n    return helper.f(np.exp(t))\n"
    )
    done = subprocess.run([sys.executable, "-c", TIMED], cwd=project, capture_output=True, text=True, check=True)
    first, *later = map(float, done.stdout.split())
    assert first < 0.05 and min(later) < 0.005, done.stdout


def test_functions_without_a_file_keep_working():
    space: dict = {"__name__": "__main__"}
    exec("import math\ndef simulate(t, rng):\n    import json\n    return math.exp(t[0])\n", space)
    bound = np.random.default_rng(0).normal
    for simulator in (space["simulate"], lambda t, rng: t, np.mean, print, bound, functools.partial(simulate)):
        assert differences(fingerprint(simulator), fingerprint(simulator)) == []
