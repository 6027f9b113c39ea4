"""Put what was measured between the marks of a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def write_between(page: Path, mark: str, script: str, text: str) -> None:
    """Replace what stands between `<!-- mark: made by benchmarks/script -->` and `<!-- end of mark -->`."""
    begin, end = f"<!-- {mark}: made by benchmarks/{script} -->\n", f"<!-- end of {mark} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    changed, count = re.subn(
        pattern, lambda _: begin + text.rstrip("\n") + "\n" + end, page.read_text(), flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"{page} has {count} places marked {begin.strip()}")
    page.write_text(changed)
