"""The package as a newcomer meets it: its names, what importing it loads, nothing unsafe in it."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thrifty as th

SOURCE = Path(th.__file__).parent


def run_python(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    return done.stdout


def test_import_loads_nothing_heavy():
    heavy = [
        "torch",
        "sklearn",
        "matplotlib",
        "scipy.stats",
        "numba",
        "dask",
        "distributed",
        "pandas",
        "rich",
        "sqlite3",
        "scipy.special",
    ]
    loaded = run_python(f"import thrifty, sys; print([m for m in {heavy!r} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_import_is_quick():
    # CPU seconds, the least of three: other work on the machine only adds
    code = "import time; t = time.process_time(); import thrifty; print(time.process_time() - t)"
    assert min(float(run_python(code)) for _ in range(3)) < 0.3


def test_all_is_what_can_be_imported():
    assert sorted(set(th.__all__)) == sorted(th.__all__)
    for name in th.__all__:
        assert getattr(th, name) is not None
    public = {name for name in vars(th) if not name.startswith("_")}
    allowed = {"annotations", "ast", "import_module", "Any", "Path"}
    modules = {path.stem for path in SOURCE.iterdir()}
    assert public - set(th.__all__) - allowed - modules == set()


def test_unknown_name_says_so():
    with pytest.raises(AttributeError, match="no attribute 'Campaigns'"):
        th.Campaigns  # noqa: B018


def test_nothing_unsafe_in_the_source():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
                unsafe = {"shell": True, "allow_pickle": True, "weights_only": False}
                assert unsafe.get(node.arg or "", object()) is not node.value.value, path


def test_dir_lists_what_users_may_call():
    shown = {name for name in dir(th) if not name.startswith("_")}
    assert shown == set(th.__all__) - {"__version__"}, "no import of the package itself, such as Path or ast"


def has_example(thing: object) -> bool:
    text = inspect.getdoc(thing) or ""
    return ">>>" in text or "Example" in text


@pytest.mark.parametrize("name", sorted(th.__all__))
def test_every_public_name_is_explained_with_an_example(name: str):
    """Or with a link to one, "Example: see `th.Campaign`."; modules and the version have their own pages."""
    thing = getattr(th, name)
    if inspect.ismodule(thing) or isinstance(thing, str):
        return
    assert (inspect.getdoc(thing) or "").strip() and has_example(thing), f"th.{name} has no example"


@pytest.mark.parametrize("name", sorted(th.plots.__all__))
def test_every_figure_is_explained_with_an_example(name: str):
    assert has_example(getattr(th.plots, name))


@pytest.mark.parametrize("name", sorted(th.__all__))
def test_a_link_to_an_example_leads_to_one(name: str):
    for other in re.findall(r"Example: see `th\.(\w+)`", inspect.getdoc(getattr(th, name)) or ""):
        assert ">>>" in (inspect.getdoc(getattr(th, other)) or "")
