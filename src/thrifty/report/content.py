"""What a page is made of: sections with figures, tables and words, all plain text until the template escapes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thrifty.runner.progress import amount

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 60  # characters of a name shown in a figure or a table head
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, direction marks, surrogates, line separators


def clean(text: object, longest: int = 400) -> str:
    r"""Text from a folder without control characters and direction marks, cut to a length.

    Example:
        >>> clean("a\x1b[31m\u202eb"), clean("x" * 9, 5)
        ('a [31m b', 'xxxx…')
    """
    import unicodedata

    shown = "".join(" " if unicodedata.category(c) in _HIDDEN else c for c in str(text)[: 2 * longest + 10])
    shown = " ".join(shown.split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def label(name: object) -> str:
    """A name for a figure: clean, short, and never read as mathematics."""
    return clean(name, LONGEST).replace("$", r"\$")


def labels(names: Sequence[object]) -> tuple[str, ...]:
    r"""Names for figures, told apart by a number where cleaning made them alike.

    Example:
        >>> labels(["a", "a\x00", "$b"])
        ('a', 'a (2)', '\\$b')
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        text = label(name) or "?"
        seen[text] = seen.get(text, 0) + 1
        found.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return tuple(found)


def cost_text(value: float, unit: str) -> str:
    """A cost for people: seconds as minutes or hours, other units with three digits and no powers of ten.

    Example:
        >>> cost_text(147_321, "events"), cost_text(0.01234, "eur"), cost_text(1, "eur"), cost_text(5400, "s")
        ('147,000 events', '0.0123 eur', '1 eur', '1.5 h')
    """
    if unit in ("s", "cpu-s") or not math.isfinite(value):
        return amount(value, unit)
    if value == 0 or abs(value) >= 1e12:
        return amount(value, unit)
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text.replace('-', '−')} {unit}"


@dataclass(frozen=True)
class Drawing:
    """A figure with the words that stand for it where it cannot be seen."""

    figure: Figure
    title: str
    description: str
    whole: bool = False  # do not cut into panels


@dataclass(frozen=True)
class Grid:
    """A table of text; `mark` is the row that was chosen, `numbers` says which columns are numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    mark: int | None = None
    words: int = 1  # leading columns that are words, set left


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        key: Anchor.
        title: Heading.
        lead: Sentences under it.
        drawings, tables: What is shown.
        notes: Smaller words below.
        missing: What is not there yet, or "".
        command: What to type to make it, or "".
    """

    key: str
    title: str
    lead: Sequence[str] = ()
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    missing: str = ""
    command: str = ""
