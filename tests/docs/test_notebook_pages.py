"""Every notebook of the gallery runs, shows what it keeps, and becomes a page of the site."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from notebook_pages import (
    describe_run,
    execute,
    find_changes,
    find_missing,
    find_stale,
    is_timed,
    list_code,
    list_notebooks,
    read_notebook,
    read_pins,
    write_page,
)

nbclient = pytest.importorskip("nbclient", reason="nbclient is part of the dev extra")
nbformat = pytest.importorskip("nbformat", reason="nbformat is part of the dev extra")

BOOKS = [pytest.param(path, id=path.stem) for path in list_notebooks()]
TIMED = [path for path in list_notebooks() if is_timed(read_notebook(path))]
MAX_LINES = 40  # of text that one cell writes: a screen


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS)
def test_a_notebook_shows_what_it_keeps(path: Path):
    book = read_notebook(path)
    if is_timed(book):
        pytest.skip("its CPU times never repeat; make examples executes it")
    if missing := find_missing(book):
        pytest.skip(f"{', '.join(missing)} not installed")
    assert find_stale(book, execute(path)) == [], f"run python tools/notebook_pages.py examples/{path.name}"


@pytest.mark.parametrize("path", TIMED, ids=lambda path: path.stem)
def test_a_timed_notebook_was_made_from_its_code_and_the_pinned_packages(path: Path):
    book = read_notebook(path)
    assert find_changes(book) == [], "run make examples"
    assert all(book.metadata["made"][key] for key in ("date", "machine", "thrifty", "seconds"))


@pytest.mark.parametrize("path", BOOKS)
def test_a_notebook_is_kept_executed(path: Path):
    """Its cells ran in order and without an error, and show tables and described figures, not dumps."""
    cells = list_code(read_notebook(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output for cell in cells for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error"]
    assert any("<table>" in output.get("data", {}).get("text/html", "") for output in shown)
    for cell in cells:
        written = "".join(output.get("text", "") for output in cell.outputs)
        assert len(written.splitlines()) <= MAX_LINES and "object at 0x" not in written, cell.source
        has_figure = any("image/png" in output.get("data", {}) for output in cell.outputs)
        assert bool(cell.metadata.get("alt")) == has_figure, (
            f"figure without words, or words without figure: {cell.source}"
        )


@pytest.mark.parametrize("path", BOOKS)
def test_the_gallery_leads_to_it(path: Path):
    page, pictures = write_page(read_notebook(path), path.stem)
    assert page.startswith("# ") and "\n\nAfter this page you " in page
    assert all(f"../figures/examples/{name}" in page for name in pictures) and pictures
    assert f"../examples/{path.name}" in (Path(__file__).parents[2] / "docs" / "gallery.md").read_text(encoding="utf-8")


def make_book(*outputs: Any, tags: tuple[str, ...] = ()) -> Any:
    """Make a notebook of one cell."""
    cell = nbformat.v4.new_code_cell("import numpy, no_such_package.part", metadata={"tags": list(tags)})
    cell.outputs = list(outputs)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# [T](../docs/theory.md)"), cell])


def show(words: str) -> Any:
    """Make the output of a table."""
    return nbformat.v4.new_output("execute_result", {"text/html": f"<table><tr><td>{words}</td></tr></table>"})


def draw(height: float) -> Any:
    """Make the output of a figure."""
    import base64

    from matplotlib.figure import Figure
    from page_outputs import draw as draw_png

    figure = Figure(figsize=(3, 2))
    figure.subplots().bar([0], [height], 1.0)
    figure.axes[0].set_ylim(0, 1)
    return nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(draw_png(figure)).decode()})


def test_a_stale_notebook_is_found():
    book = make_book(show("100 runs"), draw(0.2))
    assert find_stale(book, copy.deepcopy(book)) == []
    assert find_stale(book, make_book(show("101 runs"), draw(0.2))) == []
    assert "103 runs" in find_stale(book, make_book(show("103 runs"), draw(0.2)))[0]
    assert find_stale(book, make_book(show("100 runs"), draw(0.9))) == ["cell 1: another figure"]
    assert find_stale(book, make_book(show("100 runs"))) == ["cell 1: 1 outputs, 2 are kept"]
    varying = make_book(show("100 runs"), tags=("varies",))
    assert find_stale(varying, make_book(show("150 runs"))) == []
    assert find_stale(varying, make_book(show("150 draws"))) != []


def test_changes_of_a_timed_notebook_are_found():
    book = make_book(tags=("timed",))
    book.cells[1].source = "import numpy as np"
    assert is_timed(book) and not is_timed(make_book()) and find_changes(book) == ["it was never executed"]
    book.metadata["made"] = describe_run(book, 90.0)
    assert list(book.metadata["made"]["packages"]) == ["numpy"]
    book.metadata["made"]["packages"]["numpy"] = read_pins()["numpy"]
    assert find_changes(book) == []
    page, _ = write_page(book, "bars")
    assert "in 1.5 minutes" in page and "and numpy " in page
    book.cells[1].source += "\n1 + 1"
    book.metadata["made"]["packages"]["numpy"] = "0.0"
    assert find_changes(book) == ["its code", "numpy"]
    book.cells[0].source += " words"
    assert find_changes(book) == ["its code", "numpy"], "words may change"


def test_a_notebook_becomes_a_page():
    book = make_book(show("100 runs"), draw(0.2), nbformat.v4.new_output("stream", text="three\n"))
    book.cells[1].metadata["alt"] = "A bar"
    page, pictures = write_page(book, "bars")
    assert "# [T](../theory.md)" in page and "```python\nimport numpy" in page
    assert '<div class="shown"><table>' in page and "![A bar](../figures/examples/bars-1.png)" in page
    assert "```output\nthree\n```" in page and "](bars.ipynb)" in page
    assert pictures["bars-1.png"].startswith(b"\x89PNG")


def test_packages_that_are_missing_are_named():
    assert find_missing(make_book()) == ["no_such_package"]


@pytest.mark.slow
def test_outputs_are_kept_without_what_differs_each_time(tmp_path: Path):
    code = "import os, IPython.display as d\nd.display(d.HTML('<progress></progress>'))\nprint(os.getcwd() + '/a')"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbformat.write(book, tmp_path / "book.ipynb")
    made = execute(tmp_path / "book.ipynb")
    assert [output.text for output in made.cells[0].outputs] == ["a\n"]
    assert "execution" not in made.cells[0].metadata
