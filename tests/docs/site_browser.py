"""Open every page of a built site in a real browser at two widths, and report what a reader would notice.

One browser opens one page, which loads the pages of the site one after another into a frame, measures them and sends
what it found to the server that it came from. Other hosts cannot be reached; attempts are found in the browser's log.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
         "--disable-component-update", "--disable-default-apps", "--no-first-run", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--enable-logging=stderr", "--v=0"]  # fmt: skip
PATIENCE_SECONDS = 240  # for a whole site on a busy machine; it takes about twenty
HARNESS = """<!doctype html><body><script>
const pages = PAGES, widths = WIDTHS, found = {};
function scrolls(element) {
  for (let e = element.parentElement; e; e = e.parentElement)
    if (getComputedStyle(e).overflowX !== "visible") return true;
  return false;
}
function measure(frame, width) {
  const view = frame.contentDocument, problems = [];
  const wide = view.documentElement.scrollWidth;
  if (wide > width) problems.push(`page is ${wide} pixels wide in a view of ${width}`);
  for (const e of view.querySelectorAll("article *")) {
    const right = e.getBoundingClientRect().right;
    if (right > width + 1 && !scrolls(e)) {
      problems.push(`<${e.tagName}> ends at ${Math.round(right)} of ${width}: ${e.textContent.slice(0, 40)}`);
      break;
    }
  }
  for (const e of view.querySelectorAll("article img"))
    if (!e.naturalWidth) problems.push(`picture not shown: ${e.getAttribute("src")}`);
  for (const e of view.querySelectorAll("article math"))
    if (view.querySelector("article").offsetWidth && !e.getBoundingClientRect().width) {
      let closed = e.closest("details:not([open])");
      if (!closed) problems.push("a formula without width");
    }
  return problems;
}
const moment = () => new Promise(done => setTimeout(done, 60));
async function look(page) {
  const frame = document.createElement("iframe");
  frame.style = `width:${widths[0]}px; height:900px; border:0`;
  const loaded = new Promise(done => frame.onload = done);
  frame.src = page;
  document.body.append(frame);
  await loaded;
  frame.contentDocument.querySelectorAll("img").forEach(e => e.loading = "eager");
  frame.contentDocument.querySelectorAll("details").forEach(e => e.open = true);
  const still = frame.contentDocument.createElement("style");  // menus slide when the width changes
  still.textContent = "* { transition: none !important }";
  frame.contentDocument.head.append(still);
  for (const width of widths) {
    frame.style.width = `${width}px`;
    await moment();
    found[`${page} at ${width}`] = measure(frame, width);
  }
  frame.remove();
}
(async () => {
  for (const page of pages) await look(page).catch(error => found[page] = [`${error}`]);
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script></body>"""


class _Handler(SimpleHTTPRequestHandler):
    """Serve the site and the harness; take the findings."""

    def __init__(self, *arguments: Any, harness: str, take: Any, **named: Any) -> None:
        self.harness, self.take = harness, take
        super().__init__(*arguments, **named)

    def do_GET(self) -> None:
        if self.path != "/harness":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.harness.encode())

    def do_POST(self) -> None:
        self.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def look_at(site: Path, pages: list[str], home: Path, widths: tuple[int, ...] = (1280, 390)) -> dict[str, Any]:
    """Look at pages of a site: `layout` by page and width, lines of the `console`, addresses `elsewhere`."""
    assert BROWSER is not None
    home.mkdir(parents=True, exist_ok=True)
    found, done = {}, threading.Event()

    def take(findings: dict[str, list[str]]) -> None:
        found.update(findings)
        done.set()

    harness = HARNESS.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(widths))
    handler = partial(_Handler, directory=str(site), harness=harness, take=take)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        command = [BROWSER, *FLAGS, f"--user-data-dir={home / 'profile'}", f"--log-net-log={home / 'net.json'}"]
        with (home / "stderr").open("w") as errors:
            browser = subprocess.Popen([*command, "--window-size=1400,1000", f"{address}/harness"], stderr=errors)
            try:
                assert done.wait(PATIENCE_SECONDS), (home / "stderr").read_text()[-2000:]
            finally:
                browser.terminate()
                browser.wait(30)
        server.shutdown()
    console = [line for line in (home / "stderr").read_text().splitlines() if "CONSOLE" in line]
    return {
        "layout": {page: problems for page, problems in found.items() if problems},
        "seen": len(found),
        "console": console,
        "elsewhere": find_elsewhere(home / "net.json"),
    }


def read_event(line: str) -> dict[str, Any] | None:
    """Read one line of a network log; None for its end, which may be cut anywhere."""
    for text in (line.rstrip(","), line.rstrip(",").removesuffix("}").removesuffix("]")):
        with contextlib.suppress(json.JSONDecodeError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
    return None


def find_elsewhere(log: Path) -> list[str]:
    """Find addresses on other hosts that pages asked for; what the browser asks for itself has no origin."""
    head, _, *lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    start = json.loads(head.rstrip(",") + "}")["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    events = [event for event in map(read_event, lines) if event is not None]
    assert len(events) >= len(lines) - 2, "only what a browser that was ended had begun to write is left out"
    jobs = [e["params"] for e in events if e["type"] == start and "url" in e.get("params", {})]
    asked = {job["url"] for job in jobs if job.get("initiator") != "not an origin"}
    return sorted(url for url in asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:")))
