"""Execute the Python blocks of the documentation and put what they print, and the figures they make, into the pages.

    python tools/page_outputs.py                      # all pages
    python tools/page_outputs.py tutorial.md abc.md   # some, by their path under docs/; README.md too

The blocks of a page run in order, in one namespace, in an empty folder. A block that prints is followed by a block of
the language `output`, which this tool writes. An image `figures/pages/NAME.png` after a block is drawn from the
variable `figure` of that moment. `tests/docs/test_pages.py` runs the same functions and compares: a page whose output
is not what its code prints is stale. Times of day are not compared; other numbers must
agree to 2 %, unless the line before the output says why they
cannot: `<!-- varies: CPU time -->`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tests" / "docs"))

# a block, and the output and the figure that may follow it
PART = re.compile(
    r"^```python[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n(?P<note><!-- varies: [^\n]+ -->\n)?```output\n(?P<output>.*?)^```\n)?"
    r"(?:\n!\[(?P<alt>[^\]]*)\]\((?P<figure>(?:\.\./)?figures/pages/[\w-]+\.png)\)\n)?",
    re.S | re.M,
)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w.])[-+]?\.\d+")
CLOCK = re.compile(r"\b\d\d:\d\d\b")  # when a quote says that a plan ends
DPI = 100  # 6 inches become 600 pixels: sharp enough at the width of a page, and small


@dataclass(frozen=True)
class Block:
    """A Python block of a page with what the page shows of it."""

    line: int
    code: str
    output: str
    varies: bool
    figure: str


def shows_outputs(text: str) -> bool:
    """Tell whether a page shows its outputs: one that another tool makes from records does not."""
    return "made by `tools/" not in text


def read_blocks(text: str) -> list[Block]:
    """Read the Python blocks of a page."""
    return [
        Block(text[: m.start("code")].count("\n"), m["code"], m["output"] or "", bool(m["note"]), m["figure"] or "")
        for m in PART.finditer(text)
    ]


def run_blocks(blocks: list[Block], settings: str, name: str) -> list[tuple[str, bytes]]:
    """Execute blocks in the current folder; what each printed, and the picture of its figure where it shows one."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot as plt

    import thrifty as th

    scope: dict[str, Any] = {"__name__": "a_page", "np": np, "th": th}
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)  # small examples are told that they are small
        exec(compile(settings, "settings", "exec"), scope)
        for block in blocks:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * block.line + block.code, name, "exec"), scope)
            made.append((tidy(printed.getvalue()), draw(scope["figure"]) if block.figure else b""))
            plt.close("all")
    return made


def tidy(printed: str) -> str:
    """Take away spaces at line ends and the place of temporary folders."""
    text = printed.replace(os.getcwd() + os.sep, "")
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def draw(figure: Any) -> bytes:
    """Draw a matplotlib figure as a small PNG."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    return picture.getvalue()


def is_stale(shown: str, printed: str, *, varies: bool = False) -> bool:
    """Compare what a page shows with what its block printed: words exactly, numbers to 2 %, or not if they vary."""
    shown, printed = CLOCK.sub("-", shown), CLOCK.sub("-", printed)
    if [*map(str.split, NUMBER.sub("#", shown).splitlines())] != [
        *map(str.split, NUMBER.sub("#", printed).splitlines())
    ]:
        return True
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    values = ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)
    return not varies and any(abs(a - b) > 0.02 * max(abs(a), abs(b)) + 1e-9 for a, b in values)


def gap(one: bytes, other: bytes) -> float:
    """Mean difference of two pictures, 0 (the same) to 1; 1 where they are of another size by more than a tenth."""
    import numpy as np
    from matplotlib.image import imread

    a, b = (imread(io.BytesIO(data), format="png")[..., :3] for data in (one, other))
    if np.abs(np.array(a.shape) - b.shape).max() > 0.1 * max(a.shape):
        return 1.0
    rows, columns = min(len(a), len(b)), min(a.shape[1], b.shape[1])
    return float(np.abs(a[:rows, :columns] - b[:rows, :columns]).mean())


def write_page(text: str, made: list[tuple[str, bytes]]) -> str:
    """Put outputs into a page; an output that is not stale stays as it is."""
    results = iter(made)

    def write(found: re.Match[str]) -> str:
        printed, _ = next(results)
        shown = found["output"] or ""
        if shown and not is_stale(shown, printed, varies=bool(found["note"])):
            printed = shown
        parts = [f"```python\n{found['code']}```\n"]
        if printed:
            parts.append(f"{found['note'] or ''}```output\n{printed}```\n")
        if found["figure"]:
            parts.append(f"![{found['alt']}]({found['figure']})\n")
        return "\n".join(parts)

    return PART.sub(write, text)


def name_page(page: Path) -> str:
    """Name a page by its path under docs/; the README by its name."""
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


def update(page: Path) -> None:
    """Execute a page and write its outputs and figures."""
    from page_settings import SETTINGS

    text = page.read_text(encoding="utf-8")
    blocks = read_blocks(text)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        made = run_blocks(blocks, SETTINGS.get(name_page(page), ""), str(page))
    os.chdir(here)
    page.write_text(write_page(text, made), encoding="utf-8")
    for block, (_, picture) in zip(blocks, made, strict=True):
        if block.figure:
            path = page.parent / block.figure
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)


def main() -> None:
    """Update the pages that are named, or all."""
    readme = ROOT / "README.md"
    named = [readme if name == readme.name else DOCS / name for name in sys.argv[1:]]
    named = named or [readme, *sorted(DOCS.rglob("*.md"))]
    for page in named:
        text = page.read_text(encoding="utf-8")
        if read_blocks(text) and shows_outputs(text):
            print(name_page(page), flush=True)
            update(page)


if __name__ == "__main__":
    main()
