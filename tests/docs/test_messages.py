"""Every code that thrifty raises or warns with has a section in docs/messages.md, and every section is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import thrifty as th

SOURCE = Path(th.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
CODE = re.compile(r"\[([a-z]+(?:-[a-z]+)+)\] ")


def read_page() -> dict[str, str]:
    """Code -> text of its section."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def read_source() -> tuple[set[str], set[str]]:
    """Codes that are certainly raised or warned with, and all texts of the source."""
    raised, texts = set(), set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                raised.add(node.value.value)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
                raised |= set(CODE.findall(node.value))
    return raised - {""}, texts


def test_every_code_has_a_section():
    raised, _ = read_source()
    assert len(raised) > 30
    assert raised - set(read_page()) == set()


def test_every_section_is_used():
    raised, texts = read_source()
    assert set(read_page()) - raised - texts == set()


def test_every_section_says_what_to_do():
    for code, text in read_page().items():
        assert "**What to do.** " in text, code


def test_codes_are_few_enough_to_know():
    assert len(read_page()) <= 52
