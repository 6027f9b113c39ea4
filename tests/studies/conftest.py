"""Studies are scripts: their folder goes on the path, as when they are run."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmark"))  # checks of problems


@pytest.fixture
def study(monkeypatch):
    """Load a study by name, or the tool that writes their page."""
    for folder in ("tools", "studies"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return import_module


@pytest.fixture
def quick(study, tmp_path, capsys):
    """Run a study's quick version from its command line; the record and what was printed."""

    def run(name, *options):
        record = study(name).main(["--quick", "--out", str(tmp_path), *options])
        folder = tmp_path / f"{name}-quick"
        assert (folder / f"{name}.json").exists()
        assert (folder / f"{name}.png").stat().st_size < 150_000, "figures are kept with the code: below 150 kB"
        return record, capsys.readouterr().out

    return run


@pytest.fixture(scope="session", autouse=True)
def _forget():
    """Leave no study on the path for other tests."""
    yield
    sys.path[:] = [entry for entry in sys.path if entry not in (str(ROOT / "studies"), str(ROOT / "tools"))]
