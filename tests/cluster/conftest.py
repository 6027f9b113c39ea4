"""Real clusters: collected only when asked for (`make test-cluster`, or `pytest -m cluster`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

import slurm as slurm_programs
from prepared_campaign import copied, prepared  # noqa: F401 - fixtures


def pytest_ignore_collect(collection_path, config):
    """Leave these tests out unless a marker expression names them: they install nothing, but start daemons."""
    return None if "cluster" in (config.getoption("-m") or "") else True


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def slurm_daemons(tmp_path_factory):
    if missing := slurm_programs.find_missing():
        pytest.skip(f"not installed: {', '.join(missing)} (apt-get install slurm-wlm munge)")
    made = slurm_programs.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def slurm(slurm_daemons, monkeypatch):
    """A Slurm of one node whose commands work in this test and what it starts."""
    for name, value in slurm_daemons.environment.items():
        monkeypatch.setenv(name, value)
    return slurm_daemons
