"""One small campaign, kept at every stage, and its reports."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import thrifty as th

sys.path.insert(0, str(Path(__file__).parent))

from report_scenario import Pages, campaign, finish, forget, keep_result


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    """Stage -> a folder that was left there."""
    home = tmp_path_factory.mktemp("stages")
    kept = {}

    def keep(stage):
        kept[stage] = home / stage / "toy"
        shutil.copytree(home / "toy", kept[stage])

    c = campaign(home / "toy")
    keep("empty")
    c.pilot(40, engine=th.Inline(), progress="quiet")
    keep("pilot")
    c.plan(n=160)
    keep("planned")
    finish(c)
    keep("complete")
    shutil.copytree(home / "toy", home / "half" / "toy")
    kept["half"] = home / "half" / "toy"
    forget(kept["half"], range(100, 200))
    shutil.copytree(home / "toy", home / "inferred" / "toy")
    kept["inferred"] = home / "inferred" / "toy"
    keep_result(kept["inferred"])
    return kept


@pytest.fixture(scope="session")
def pages(stages, tmp_path_factory):
    """Stage -> report."""
    return Pages(stages, tmp_path_factory.mktemp("pages"))
