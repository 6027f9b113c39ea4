"""The README's ten lines run as printed, and the two commands are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from page_outputs import is_stale, read_blocks, tidy

ROOT = Path(__file__).parents[1]


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    text = (ROOT / "README.md").read_text()
    (block,) = read_blocks(text)
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "ten_lines"}
    exec(compile(block.code, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert not is_stale(block.output, tidy(printed)), "run python tools/page_outputs.py README.md"
    assert "self-test weighted draws reproduce the prior" in printed
    assert scope["campaign"].status().state == "complete"
    draws = scope["posterior"].sample(2000, x_o=[0.2, 0.5], seed=0)
    # both statistics carry noise of 0.1, so the posterior sits at (0.5, 0.2) with a spread near that
    assert np.abs(draws.mean(axis=0) - [0.5, 0.2]).max() < 0.1
    assert 0.05 < draws.std(axis=0).min() <= draws.std(axis=0).max() < 0.2


def test_the_two_commands_are_named():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text and "make test" in text


def test_links_of_the_docs_exist():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
