"""Describe a page: sections with figures, tables and sentences, all plain text until the template escapes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANSWERS = {"trust": "yes", "with care": "with care", "do not trust": "no"}  # to: can it be trusted?
NO_POSTERIOR = "No posterior is kept in this folder."
MAX_NAME_CHARACTERS = 60  # of a name in a figure or a table head
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, direction marks, surrogates, line separators


def clean(text: object, longest: int = 400) -> str:
    r"""Remove control characters and direction marks from text of a folder, and cut it to a length.

    Example:
        >>> clean("a\x1b[31m\u202eb"), clean("x" * 9, 5)
        ('a [31m b', 'xxxx…')
    """
    import unicodedata

    shown = "".join(" " if unicodedata.category(c) in _HIDDEN_CATEGORIES else c for c in str(text)[: 2 * longest + 10])
    shown = " ".join(shown.split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def as_label(name: object) -> str:
    """Convert a name to a figure label: clean, short, and never read as mathematics."""
    return clean(name, MAX_NAME_CHARACTERS).replace("$", r"\$")


def as_labels(names: Sequence[object]) -> tuple[str, ...]:
    r"""Convert names to figure labels, with a number where cleaning made two of them equal.

    Example:
        >>> as_labels(["a", "a\x00", "$b"])
        ('a', 'a (2)', '\\$b')
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        text = as_label(name) or "?"
        seen[text] = seen.get(text, 0) + 1
        found.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return tuple(found)


@dataclass(frozen=True)
class Drawing:
    """A figure with a text for readers who cannot see it."""

    figure: Figure
    title: str
    description: str
    whole: bool = False  # not cut into panels


@dataclass(frozen=True)
class Grid:
    """A table of text; `mark` is the row that was chosen."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    mark: int | None = None
    words: int = 1  # leading columns of words, aligned left


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        lead: Sentences under its title.
        drawings, tables: What is shown.
        notes: Smaller text below.
        beside: Whether tables stand beside the first drawing where the page is wide enough.
        missing: What is not there yet, or "".
        command: The command that makes it, or "".
        key, title: Its anchor and its heading, set by the page.
    """

    lead: Sequence[str] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    beside: bool = False
    missing: str = ""
    command: str = ""
    key: str = ""
    title: str = ""
