"""What the pages hold: code that runs, commands that exist, tests that are named, nothing from elsewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.S | re.M)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of the blocks of a page in a language."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(2)].count("\n"), m.group(2)) for m in BLOCK.finditer(text) if m.group(1) == language]


def named(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def test_no_python_hides_in_other_blocks():
    """Every block names its language, so that none escapes the test above; what is not run says why."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            language, body = match.groups()
            assert language in ("python", "output", "console", "text", "toml"), f"{named(page)}: a block of {language}"
            if language == "text" and re.search(r"^(import|from) \w|th\.\w+\(", body, re.M):
                assert re.search(r"<!-- not run: .+ -->\s*$", text[: match.start()]), named(page)


def test_the_tests_named_in_the_guarantees_exist():
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named_tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named_tests) >= 30
    for path, function in named_tests:
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(encoding="utf-8"), re.M), f"{path}::{function}"


def test_the_site_lists_every_page():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"([\w/-]+\.md)\s*$", text, re.M))
    assert listed == {named(page) for page in DOCS.rglob("*.md")}


def test_nothing_is_fetched_from_elsewhere():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text and not re.search(r"https?://", text)
    for page in DOCS.rglob("*.md"):
        assert not re.search(r"!\[[^]]*\]\(https?://|<script|<img|<link", page.read_text(encoding="utf-8")), named(page)


def commands() -> list[tuple[str, list[str]]]:
    """Every `thrifty ...` that a page tells people to type."""
    found = []
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        for _, body in blocks(page, "console"):
            lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            found += [(page.name, shlex.split(line)[1:]) for line in lines if line.startswith("thrifty ")]
    return found


def command_line():
    """The group of commands; a reason to skip where there is none."""
    app = pytest.importorskip("thrifty.cli.main", reason="the command line is not there yet").app
    import typer.main

    return typer.main.get_command(app)


def test_commands_in_the_docs_exist():
    group = command_line()
    typed = commands()
    assert len(typed) >= 8
    for page, (verb, *rest) in typed:
        command = group.commands.get(verb)
        assert command is not None, f"{page}: thrifty {verb}"
        known = {option for parameter in command.params for option in parameter.opts}
        unknown = [word.split("=")[0] for word in rest if word.startswith("--") and word.split("=")[0] not in known]
        assert not unknown, f"{page}: thrifty {verb} has no {', '.join(unknown)}"


def test_commands_named_by_the_report_exist():
    group = command_line()
    infer = {option for parameter in group.commands["infer"].params for option in parameter.opts}
    assert {"plan", "run", "infer", "report"} <= set(group.commands) and "--observed" in infer
