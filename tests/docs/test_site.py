"""The site builds strictly; its links lead somewhere; in a real browser every page is quiet and fits the screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from site_browser import BROWSER, BROWSERS, look_at
from site_links import find_broken, find_foreign

ROOT = Path(__file__).parents[2]
NEEDS = ("mkdocs", "material", "mkdocstrings", "latex2mathml")
WRONG = """<!doctype html><article>
<div style="width:{width}px">wide</div>
<img src="../figures/none.png"><img src="http://example.invalid/a.png"><script>nonsense()</script></article>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    for name in NEEDS:
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'thrifty[docs]'")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {Path("examples") / path.stem for path in (ROOT / "examples").glob("*.ipynb")}
    built = {path.relative_to(site).parent for path in site.rglob("index.html")}
    assert {page for page in pages if page.name != "index"} <= built and len(built) >= 35


def test_links_lead_somewhere(site):
    assert find_broken(site) == []


def test_nothing_is_loaded_from_another_host(site):
    assert find_foreign(site) == []


def test_planted_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="b.html">1</a><a href="#there">2</a><a href="#here">3</a>'
    )
    (tmp_path / "c.html").write_text('<a href="a.html#gone">1</a><script src="https://example.invalid/x.js"></script>')
    assert find_broken(tmp_path) == [
        "a.html: b.html",
        "a.html: #there (no such anchor)",
        "c.html: a.html#gone (no such anchor)",
    ]
    assert find_foreign(tmp_path) == ["c.html: https://example.invalid/x.js"]


def test_formulas_are_typeset(site):
    text = (site / "theory" / "index.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20 and "\\frac" not in text and 'arithmatex">\\' not in text


@pytest.mark.skipif(BROWSER is None, reason=f"no browser found (looked for {', '.join(BROWSERS)})")
def test_every_page_in_a_browser(site, tmp_path):
    """No console message, no request to another host, nothing wider than the screen of a phone or of a desk."""
    pages = [f"/{path.parent.relative_to(site).as_posix()}/" for path in sorted(site.rglob("index.html"))]
    right = look_at(site, pages, tmp_path / "right")
    assert right["seen"] == 2 * len(pages) >= 70
    assert (right["layout"], right["console"], right["elsewhere"]) == ({}, [], [])


@pytest.mark.skipif(BROWSER is None, reason=f"no browser found (looked for {', '.join(BROWSERS)})")
def test_planted_faults_are_seen(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "wide.html").write_text(WRONG.format(width=900))
    found = look_at(tmp_path / "site", ["/wide.html"], tmp_path / "home")
    assert any("pixels wide in a view of 390" in line for line in found["layout"]["/wide.html at 390"])
    assert not any("pixels wide" in line for line in found["layout"]["/wide.html at 1280"])
    assert any("picture not shown" in line for line in found["layout"]["/wide.html at 1280"])
    assert any("nonsense" in line for line in found["console"])
    assert any("example.invalid" in url for url in found["elsewhere"])
