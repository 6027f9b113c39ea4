"""The README's ten lines run as printed, and the two commands are there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    text = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "ten_lines"}
    exec(compile(code, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
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
