"""`make demo` does what it says: killed and resumed to the same table, judged, compared, reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thrifty as th

ROOT = Path(th.__file__).parents[1]


@pytest.mark.slow
def test_the_whole_journey(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", "thrifty.study.demo", str(tmp_path)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert "killed (exit -9)" in out
    safe = int(re.search(r"; ([\d,]+) of 2,000 runs are safe on disk", out).group(1).replace(",", ""))
    assert 800 <= safe < 2000
    killed, calm = re.findall(r"(?:killed and resumed|undisturbed)\s+([0-9a-f]{32})", out)
    assert killed == calm
    assert re.search(r"plain [\d,]+ events; thrifty [\d,]+ with its pilot: \d+% (less|more)", out)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert killed in report and str(tmp_path / "report.html") in out
    assert "could not be made" not in report and "Can the posterior be trusted?" in report
