"""The comparisons with sbi run: their smallest versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["small_n.py", "training.py"])
def test_the_quick_version_prints_its_table(script):
    pytest.importorskip("sbi")
    command = [sys.executable, str(BENCHMARKS / script), "--quick", "--first", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "thrifty" in done.stdout and "sbi" in done.stdout
