"""The report in a real browser, without network: it renders, asks for nothing, fits a phone, and prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--no-first-run",
         "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0"]  # fmt: skip
MEASURE = "<script>parent.postMessage([innerWidth, document.documentElement.scrollWidth], '*')</script>"
# a window of its own cannot be narrower than 500 pixels, a frame can
FRAME = """<!doctype html><iframe src="measured.html" style="width:{width}px; height:900px; border:0"></iframe>
<script>onmessage = e => document.body.setAttribute('data-m', e.data)</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser found (looked for {', '.join(BROWSERS)})")


def browse(page: Path | str, home: Path, *flags: str, width: int = 1100) -> tuple[str, str]:
    """Open a page in a profile of its own; what was written to stdout and stderr."""
    home.mkdir(exist_ok=True)
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={home / 'profile'}", f"--window-size={width},1600", *flags]
    done = subprocess.run(
        [*command, page if isinstance(page, str) else page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def console(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "CONSOLE" in line]


def requested(netlog: Path) -> list[str]:
    """Addresses that the page asked for; what the browser asks for itself has no origin."""
    log = json.loads(netlog.read_text(encoding="utf-8", errors="replace"))
    start = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    jobs = [event["params"] for event in log["events"] if event["type"] == start and "url" in event.get("params", {})]
    asked = {job["url"] for job in jobs if job.get("initiator") != "not an origin"}
    return sorted(url for url in asked if not url.startswith(("file:", "data:")))


def open_and_watch(page: Path, home: Path) -> tuple[str, list[str], list[str]]:
    log = home / "net.json"
    home.mkdir(exist_ok=True)
    dom, err = browse(page, home, f"--log-net-log={log}", "--dump-dom")
    return dom, console(err), requested(log)


def widths(page: Path, home: Path, *, width: int) -> list[int]:
    """Width of the view and of the content, of a copy of the page that is allowed one script, to measure it."""
    home.mkdir(exist_ok=True)
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (home / "measured.html").write_text(text.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    (home / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    dom, _ = browse(home / "frame.html", home, "--dump-dom", "--virtual-time-budget=5000")
    found = re.search(r'data-m="(\d+),(\d+)"', dom)
    assert found, "the measuring script did not run"
    return [int(value) for value in found.groups()]


def test_renders_without_errors_or_requests(pages, tmp_path):
    dom, errors, urls = open_and_watch(pages["inferred"], tmp_path / "b")
    assert "Can the posterior be trusted?" in dom and dom.count("<svg") > 15
    assert errors == [] and urls == []


def test_the_watch_would_notice(pages, tmp_path):
    """A page that asks for something, and one that has an error: both are seen."""
    text = pages["empty"].read_text(encoding="utf-8")
    (tmp_path / "asks.html").write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace(
            "</body>", "<img src='http://example.invalid/a.png'><script>nonsense()</script></body>"
        )
    )
    _, errors, urls = open_and_watch(tmp_path / "asks.html", tmp_path / "b")
    assert any("nonsense" in line for line in errors)
    assert any("example.invalid" in url for url in urls)


def test_fits_a_phone(pages, tmp_path):
    assert widths(pages["inferred"], tmp_path / "b", width=390) == [390, 390]


def test_the_measure_would_notice(pages, tmp_path):
    text = pages["empty"].read_text(encoding="utf-8")
    (tmp_path / "wide.html").write_text(text.replace("<footer>", "<footer><div style='width:900px'>wide</div>"))
    window, content = widths(tmp_path / "wide.html", tmp_path / "b", width=390)
    assert content > window


def test_prints(pages, tmp_path):
    pdf = tmp_path / "r.pdf"
    browse(pages["inferred"], tmp_path / "b", f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 30
