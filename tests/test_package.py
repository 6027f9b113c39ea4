"""The package as a newcomer meets it: names, imports, the import arrow."""

from __future__ import annotations

import ast
import os
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
    public = {name for name in dir(th) if not name.startswith("_")}
    allowed = {"annotations", "import_module", "Any", "TYPE_CHECKING"}
    modules = {path.stem for path in SOURCE.iterdir()}
    assert public - set(th.__all__) - allowed - modules == set()


def test_unknown_name_says_so():
    with pytest.raises(AttributeError, match="no attribute 'Campaigns'"):
        th.Campaigns  # noqa: B018


# What each part may import from thrifty, at module level. Lower layers never import higher ones.
ARROW = [
    ("version", set()),
    ("errors", set()),
    ("types", {"types", "errors"}),
    ("weights", {"types", "errors"}),
    ("penalties", {"types", "errors"}),
    ("priors", {"priors", "types", "errors"}),
    ("prior_files", {"priors", "types", "errors"}),
    ("closed_form", {"errors"}),
    ("costs", {"costs", "types", "errors"}),
    ("proposals", {"proposals", "penalties", "priors", "types", "errors"}),
    ("tradeoff", {"proposals", "penalties", "priors", "types", "errors"}),
    ("recovery", {"weights", "priors", "types", "errors"}),
    ("kernel_proposal", {"proposals", "penalties", "priors", "types", "errors", "weights"}),
    ("models", {"models", "priors", "types", "errors"}),
    ("metrics", {"metrics", "weights", "types", "errors"}),
    ("study", {"weights", "types", "errors"}),
    ("inference", {"inference", "prior_files", "posteriors", "weights", "priors", "types", "errors", "version"}),
]

# Methods that steer their own simulations are proposals as well as inference.
STEERING = {"smc_abc.py", "smc_loop.py", "generation.py", "run_pool.py", "spending.py", "reported_runs.py", "rounds.py"}
STEERS = {"proposals", "penalties", "costs", "campaign", "kernel_proposal", "study"}


def thrifty_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:  # module level: imports inside functions are lazy by choice
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("thrifty"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("thrifty.")}
    return found


@pytest.mark.parametrize(("part", "allowed"), ARROW, ids=[part for part, _ in ARROW])
def test_imports_follow_the_arrow(part: str, allowed: set[str]):
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else sorted((SOURCE / part).rglob("*.py"))
    assert files
    for path in files:
        steering = STEERS if path.name in STEERING else set()
        extra = thrifty_imports(path) - allowed - steering
        assert not extra, f"{path.name} imports {sorted(extra)}"


def test_nothing_unsafe_in_the_source():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
                unsafe = {"shell": True, "allow_pickle": True, "weights_only": False}
                assert unsafe.get(node.arg or "", object()) is not node.value.value, path
