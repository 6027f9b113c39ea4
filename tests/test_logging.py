"""The logger `thrifty`: silent by default, and telling what was planned, run, failed, fitted and judged."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

import thrifty as th


def fragile(theta, rng):
    if theta[0] > 2.9:
        raise ValueError("mesh failed")
    return th.Output(theta + rng.normal(size=1), cost=float(np.exp(theta[0])))


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_what_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="thrifty"):
        c = th.Campaign(tmp_path / "c", fragile, th.Uniform(0, 3), seed=1, cost="reported")
        c.pilot(40, engine=th.Inline(), progress="quiet")
        c.plan(n=30)
        c.run(engine=th.Inline(), progress="quiet")
    lines = [record.getMessage() for record in caplog.records]
    assert all(record.name.startswith("thrifty.") for record in caplog.records)
    for words in ("run 40 pending runs", "plan in", "30 runs", "ended: done"):
        assert any(words in line for line in lines), words
    failed = [record for record in caplog.records if "mesh failed" in record.getMessage()]
    assert len(failed) == c.status().failed > 0 and all(record.levelno == logging.WARNING for record in failed)


def test_silent_by_default():
    code = "import logging, thrifty; logging.getLogger('thrifty.runner.loop').warning('a run failed')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr and not done.stdout
