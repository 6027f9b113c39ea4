"""Every Python block of a page runs, prints what the page shows, and draws the figures that the page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from page_settings import SETTINGS

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from page_outputs import DOCS, gap, is_stale, name_page, read_blocks, run_blocks, shows_outputs, tidy, write_page

# networks are trained, thousands of runs are made, sbi and ArviZ are imported
SLOW = {
    "neural.md",
    "answers.md",
    "abc.md",
    "campaign.md",
    "gallery.md",
    "rounds.md",
    "howto/other-tools.md",
    "howto/benchmark.md",
}
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if read_blocks(page.read_text(encoding="utf-8"))]
PAGE = """Words.

```python
print("runs", 100)
```

```output
runs 100
```

More.

```python
x = 1
```
"""


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=name_page(p), marks=[pytest.mark.slow] * (name_page(p) in SLOW)) for p in PAGES]
)
def test_every_block_runs_and_its_output_is_shown(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    if "NPE" in text and name_page(page) in SLOW:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    blocks = read_blocks(text)
    made = run_blocks(blocks, SETTINGS.get(name_page(page), ""), str(page))
    for block, (printed, picture) in zip(blocks, made, strict=True) if shows_outputs(text) else ():
        again = f"run python tools/page_outputs.py {name_page(page)}"
        assert not is_stale(block.output, printed, varies=block.varies), f"line {block.line}: {again}\n{printed}"
        if block.figure:
            assert gap((page.parent / block.figure).read_bytes(), picture) < 0.02, f"{block.figure}: {again}"


def test_a_stale_page_is_found():
    first, second = read_blocks(PAGE)
    assert (first.output, second.output) == ("runs 100\n", "")
    assert not is_stale("runs 100\n", "runs   101\n")
    assert is_stale("runs 100\n", "runs 103\n") and not is_stale("runs 100\n", "runs 103\n", varies=True)
    assert is_stale("runs 100\n", "draws 100\n", varies=True)
    assert is_stale("", "runs 100\n") and is_stale("runs 100\n", "")


def test_outputs_are_written_where_they_belong():
    made = [("runs 200\n", b""), ("one\n", b"")]
    text = write_page(PAGE, made)
    assert [block.output for block in read_blocks(text)] == ["runs 200\n", "one\n"]
    assert write_page(text, made) == text
    assert [b.output for b in read_blocks(write_page(text, [("runs 200\n", b""), ("", b"")]))] == ["runs 200\n", ""]


def test_another_figure_is_seen():
    from matplotlib.figure import Figure
    from page_outputs import draw

    figures = [Figure(figsize=(3, 2)) for _ in range(2)]
    figures[1].subplots().plot([0, 1], linewidth=9)
    plain, drawn = map(draw, figures)
    assert gap(plain, plain) == 0 and gap(plain, drawn) > 0.02


def test_places_of_temporary_folders_are_taken_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tidy(f"{tmp_path}/report.html  \n\n") == "report.html\n"
