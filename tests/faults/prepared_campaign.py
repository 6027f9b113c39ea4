"""Fixtures of a planned campaign and the hash that its table must end with, for tests of faults and of clusters."""

from __future__ import annotations

import shutil

import pytest
import scenario


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A planned campaign of 200 runs, and the hash of its table after an undisturbed local run."""
    folder = tmp_path_factory.mktemp("prepared") / "campaign"
    scenario.planned(folder)
    calm = folder.with_name("calm")
    shutil.copytree(folder, calm)
    scenario.campaign(calm).run(workers=2, progress="quiet")
    return folder, scenario.final_hash(calm)


@pytest.fixture
def copied(prepared, tmp_path):
    """A fresh copy of the planned campaign, and the hash it must end with."""
    folder = tmp_path / "campaign"
    shutil.copytree(prepared[0], folder)
    return folder, prepared[1]
