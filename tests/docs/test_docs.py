"""What the pages hold: code that runs, commands that exist, tests that are named, nothing from elsewhere."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from notebook_pages import list_notebooks

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


def test_diagrams_fit_a_phone():
    drawn = [(named(page), body) for page in DOCS.rglob("*.md") for _, body in blocks(page, "text") if "▼" in body]
    assert drawn and not [(page, line) for page, body in drawn for line in body.splitlines() if len(line) > 40]


def test_the_tests_named_in_the_guarantees_exist():
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named_tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named_tests) >= 30
    for path, function in named_tests:
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(encoding="utf-8"), re.M), f"{path}::{function}"


def test_the_site_lists_every_page():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"([\w/-]+\.md)\s*$", text, re.M))
    notebooks = {f"examples/{path.stem}.md" for path in list_notebooks()}
    assert listed == {named(page) for page in DOCS.rglob("*.md")} | notebooks


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


def first_paragraph(text: str) -> str:
    """The first paragraph after the title."""
    return re.search(r"\A# [^\n]+\n\n(.+?)\n\n", text + "\n\n", re.S).group(1)


def test_pages_open_with_what_the_reader_will_be_able_to_do():
    for page in sorted(DOCS.rglob("*.md")):
        opening = first_paragraph(page.read_text(encoding="utf-8"))
        assert re.match(r"(After this page you |This page |You |\*\*thrifty |`th\.)", opening), (
            f"{named(page)}: {opening[:80]}"
        )


def test_tables_of_the_reproduction_have_at_most_seven_columns():
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    widths = {line.count("|") - 1 for line in text.splitlines() if line.startswith("|")}
    assert widths and max(widths) <= 7


def test_the_reproduction_opens_with_one_screen():
    """Title, opening, summary table and what goes beyond the paper: within 40 lines, before any other section."""
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", text, re.M)
    assert sections[0] == "Summary" and sections[-1] == "Appendices"
    assert text[: text.index("\n## " + sections[1])].count("\n") <= 40


def test_every_key_of_the_configuration_has_a_meaning():
    from site_hooks import write_commands, write_settings

    rows = [line.strip("| ").split(" | ") for line in write_settings().splitlines() if line.startswith("| `")]
    assert len(rows) >= 28 and all(row[-1].strip() for row in rows)
    assert write_commands().count("\n## thrifty ") + 1 == len(command_line().commands)


@pytest.mark.parametrize(
    ("page", "mark", "written"), [("cli", "commands", "## thrifty run"), ("configuration", "settings", "| `budget`")]
)
def test_pages_that_the_site_fills_say_so_in_the_file(page: str, mark: str, written: str):
    from site_hooks import on_page_markdown

    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    filled = on_page_markdown(text)
    assert "In a copy of the repository" in text and f"<!-- {mark} -->" in text
    assert "In a copy of the repository" not in filled and mark not in re.findall(r"<!-- /?(\w+) -->", filled)
    assert written in filled


def test_messages_are_one_row_for_each_code():
    """Code and error classes, meaning, why, what to do: no cell is empty, and the code is an anchor."""
    from site_hooks import write_messages

    text = (DOCS / "messages.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in write_messages(text).splitlines() if line.startswith("| <strong")]
    assert [re.search(r'id="([\w-]+)"', row[0])[1] for row in rows] == re.findall(r"^## (.+)$", text, re.M)
    assert all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows)
    assert sum("Error`" in row[0] for row in rows) > 30 and any("`PriorError`" in row[0] for row in rows)


def test_every_public_name_is_on_a_page_of_the_reference():
    import thrifty as th

    listed = set(
        re.findall(r"^::: thrifty\.(\w+)", "\n".join(p.read_text() for p in (DOCS / "api").glob("*.md")), re.M)
    )
    missing = [name for name in th.__all__ if not name.startswith("_") and name not in listed]
    assert set(missing) <= {"ThriftyError", "ThriftyWarning", "models", "types"}, missing
