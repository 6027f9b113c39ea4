"""Find links of a built site that lead nowhere, and what its pages would load from another host."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}


class Page(HTMLParser):
    """Links, anchors and loaded addresses of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        address = values.get(LOADED.get(tag, ""), "")
        if address and not (tag == "link" and values.get("rel") == "canonical"):
            self.loaded.append(address)


def read_site(site: Path) -> dict[Path, Page]:
    """Read all pages of a site."""
    return {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def find_broken(site: Path) -> list[str]:
    """Find links and loaded files inside the site that are not there, anchors included."""
    pages, broken = read_site(site), []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            address, anchor = urldefrag(link)
            target = _resolve(path, unquote(urlsplit(address).path), site)
            if not target.exists():
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                broken.append(f"{path.relative_to(site.resolve())}: {link} (no such anchor)")
    return broken


def _resolve(page: Path, address: str, site: Path) -> Path:
    if not address:
        return page
    base = site.resolve() if address.startswith("/") else page.parent
    target = (base / address.lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target


def find_foreign(site: Path) -> list[str]:
    """Find what pages would load from another host."""
    return [
        f"{path.relative_to(site.resolve())}: {address}"
        for path, page in read_site(site).items()
        for address in page.loaded
        if urlsplit(address).netloc
    ]
