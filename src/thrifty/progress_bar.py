"""Where a progress bar can be drawn, and the bar of a notebook.

In a terminal, rich draws bars. A notebook shows one piece of HTML that is written again in place. This needs IPython
alone, which every notebook has: Jupyter, VS Code, Colab, and notebooks that are executed without a browser.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from html import escape
from typing import Any

UPDATE_SECONDS = 0.2  # between two drawings: a browser that is sent more falls behind


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def wants_bar(progress: bool | None) -> bool:
    """Whether to draw a bar: as asked, and by default in a terminal and in a notebook."""
    return sys.stderr.isatty() or is_notebook() if progress is None else progress


class NotebookBar:
    """A bar with lines of text below it, in the output of a notebook's cell.

    Args:
        label: What is done, in front of the bar.

    Example:
        >>> bar = NotebookBar("training")
        >>> bar.draw(0.5, ["epoch 3"])[:60]
        '<div style="font-family:monospace;white-space:pre-wrap">trai'
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._handle: Any = None
        self._due = 0.0

    def draw(self, share: float, lines: Sequence[str]) -> str:
        """Return the bar as HTML; texts are escaped."""
        head, *rest = lines or [""]
        bar = f'<progress max="1" value="{min(max(share, 0.0), 1.0):.4f}" aria-label="{escape(self.label)}"></progress>'
        text = "\n".join(map(escape, [head, *rest]))
        return f'<div style="font-family:monospace;white-space:pre-wrap">{escape(self.label)} {bar} {text}</div>'

    def update(self, share: float, lines: Sequence[str], *, force: bool = False) -> None:
        """Show a share between 0 and 1 and lines of text; drawn at most every fifth of a second unless forced."""
        now = time.monotonic()
        if not force and now < self._due:
            return
        self._due = now + UPDATE_SECONDS
        from IPython.display import display

        plain = f"{self.label} {100 * share:.0f}% " + "  ".join(lines)
        data = {"text/html": self.draw(share, lines), "text/plain": plain}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
