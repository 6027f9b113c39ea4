"""The linter of words finds planted ones, and nothing else in the project."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from check_words import LIST, find_banned, main, read_banned

pytestmark = pytest.mark.skipif(importlib.util.find_spec("codespell_lib") is None, reason="codespell is not installed")


def test_the_project_is_clean(capsys):
    assert main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("word", ["dear", "Dearer", "kin", "mend", "foretold", "as at home", "simulation money"])
def test_a_planted_word_is_found(word, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"One line.\nThe {word} runs.\n")
    assert main([str(page)]) == 1
    assert f"page.md:2: {word} ==>" in capsys.readouterr().out


def test_a_planted_misspelling_is_found(tmp_path, capsys):
    (tmp_path / "code.py").write_text('"""Draw from the posterior distribtuion."""\n')  # codespell:ignore
    assert main([str(tmp_path)]) == 1
    assert "distribtuion ==> distribution" in capsys.readouterr().out  # codespell:ignore


def test_a_notebook_is_read_without_its_outputs(tmp_path, capsys):
    """Only the cell is judged: a picture in base64 may spell anything."""
    cell = {
        "source": ["# Title\n", "The dear distribtuion"],
        "outputs": [{"image/png": "iVBO/kin+teh/"}],
    }  # codespell:ignore
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert main([str(tmp_path)]) == 1
    found = capsys.readouterr().out
    assert "book.ipynb:2: dear ==>" in found and "distribtuion ==> distribution" in found  # codespell:ignore
    assert "kin" not in found and "teh" not in found  # codespell:ignore


def test_parts_of_words_and_names_are_left_alone():
    banned = read_banned(LIST)
    for text in ("kindly likelihood", "Campaign.mend(folder)", "    mend = repair", "hearing", "recommend"):
        assert list(find_banned(text, banned)) == []
