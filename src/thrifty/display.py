"""Show a result as text and as a table in a notebook: the only module that writes text tables and HTML tables.

A class describes itself by one `Card`; `Displayed` makes of it what `print`, `repr` and Jupyter ask for. A display uses
what is already computed: it draws no samples, and it never raises, since an object that cannot be shown cannot be
examined either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from html import escape
from typing import Any

MAX_ROWS = 24  # of a table: what fits on a screen
MAX_NUMBER_CHARACTERS = 32  # of a number with its unit, or a name: a longer text is a sentence
_NUMBER = re.compile(r"[-+−<>~±]?\s?\.?\d")  # how a number with or without its unit begins
_RIGHT = ' style="text-align:right"'  # of a group of rows: cells inherit it, those in bold too
MAX_CELL_CHARACTERS, MAX_HTML_CELL_CHARACTERS = 160, 600  # a cell of HTML breaks its lines


@dataclass(frozen=True)
class Card:
    """What is shown of an object: a title, facts, a table, and sentences below it.

    Attributes:
        title: One line.
        facts: (label, text) pairs.
        header: Names of the columns of the table.
        rows: Its cells, one tuple a row.
        notes: Sentences below it.
        bold: Row to emphasise, or None.
        parts: More tables, below the first.

    Example:
        >>> print(Card("two runs", (("cost", "3 s"),), ("name", "value"), (("beta", "0.5"), ("gamma", "12"))))
        two runs
          cost  3 s
          name   value
          beta     0.5
          gamma     12
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    bold: int | None = None
    parts: Sequence[Card] = ()

    def __str__(self) -> str:
        width = max((len(label) for label, _ in self.facts), default=0)
        lines = [f"  {label:<{width}}  {_shorten(text)}" for label, text in self.facts]
        if self.rows:
            lines += [f"  {line}" for line in align_columns(self.header, self._shown()).splitlines()]
        lines += [f"  {line}" for part in self.parts for line in str(part).splitlines()]
        return "\n".join([self.title, *lines, *(f"  {note}" for note in self._all_notes())])

    def to_html(self, *, is_part: bool = False) -> str:
        """Write a paragraph, tables and paragraphs; everything is escaped; the title of a part is bold."""
        facts = [(label, _shorten(text, MAX_HTML_CELL_CHARACTERS)) for label, text in self.facts]
        shown = self._shown(MAX_HTML_CELL_CHARACTERS)
        pieces = [
            f'<div style="font-weight:bold">{_write_paragraph(self.title)}</div>'
            if is_part
            else _write_paragraph(self.title),
            write_table((), facts) if facts else "",
            write_table(self.header, shown, bold=self.bold) if self.rows else "",
            *(part.to_html(is_part=True) for part in self.parts),
            *(_write_paragraph(note) for note in self._all_notes()),
        ]
        return f"<div>{''.join(pieces)}</div>"

    def _shown(self, most: int = MAX_CELL_CHARACTERS) -> list[list[str]]:
        return [[_shorten(cell, most) for cell in row] for row in self.rows[:MAX_ROWS]]

    def _all_notes(self) -> list[str]:
        left = len(self.rows) - MAX_ROWS
        return [f"… and {left:,} more", *self.notes] if left > 0 else list(self.notes)


class Displayed:
    """Give a class a readable `repr` and an HTML table: a subclass writes `_card`, and `__str__` for another text."""

    __slots__ = ()

    def _card(self) -> Card:
        raise NotImplementedError

    def __str__(self) -> str:
        return _show(self, lambda: str(self._card()))

    def __repr__(self) -> str:
        return _show(self, lambda: str(self))

    def _repr_html_(self) -> str:
        return _show(self, lambda: self._card().to_html(), _write_paragraph)


class DisplayedSettings(Displayed):
    """Give settings a `repr` of one line, with what differs from the defaults, and a table of all of them."""

    __slots__ = ()

    def __str__(self) -> str:
        return _show(self, lambda: write_settings(self))

    def __repr__(self) -> str:
        return _show(self, lambda: write_settings(self))

    def _card(self) -> Card:
        shown: Any = self
        set_to = {f.name: getattr(self, f.name) for f in fields(shown) if f.repr}
        texts = [(name, v if isinstance(v, str) else write_settings(v)) for name, v in set_to.items() if v is not None]
        return Card(type(self).__name__, texts)


def write_settings(settings: Any) -> str:
    """Write settings as a call in one line: the prior, what must be given, and what differs from the defaults.

    Example:
        >>> write_settings(th.MixtureDensity(3)), write_settings(th.Ensemble(th.ABC(th.Normal(0, 1)), members=2))
        ('MixtureDensity(components=3)', 'Ensemble(ABC(Normal(theta: 0 ± 1)), members=2)')
    """
    if callable(as_list := getattr(settings, "tolist", None)):  # an array
        return str(as_list())
    if not _is_listed(settings):
        return getattr(settings, "__name__", None) or " ".join(repr(settings).split())
    own = {f.name: getattr(settings, f.name) for f in fields(settings) if f.init and f.repr}
    given = [f.name for f in fields(settings) if f.name in own and f.default is f.default_factory is MISSING]
    given += ["prior"] if own.get("prior") is not None and "prior" not in given else []
    usual = type(settings)(**{name: own[name] for name in given})  # with the defaults that depend on what is given
    first = [write_settings(own[name]) for name in given]
    others = {name: write_settings(value) for name, value in own.items() if name not in given}
    changed = [f"{name}={text}" for name, text in others.items() if text != write_settings(getattr(usual, name))]
    return f"{type(settings).__name__}({', '.join(first + changed)})"


def name_function(function: object) -> str:
    """Name a function, or describe a fitted one, without an address.

    Example:
        >>> name_function(len), name_function(th.Power(0.5))
        ('len', 'Power(0.5)')
    """
    return getattr(function, "__name__", None) or re.sub(r" at 0x[0-9a-f]+", "", write_settings(function))


def _is_listed(settings: Any) -> bool:
    """Whether an object has no text of its own: its `repr` would list all of its fields."""
    if not is_dataclass(settings) or isinstance(settings, type):
        return False
    return isinstance(settings, DisplayedSettings) or settings.__dataclass_params__.repr  # pyright: ignore


def _show(what: object, write: Callable[[], str], wrap: Callable[[str], str] = str) -> str:
    """Write something, or one line that says why it cannot be written."""
    try:
        return write()
    except Exception as error:  # an object in any state must be shown
        try:
            reason = f"{type(error).__name__}: {error}"
        except Exception:
            reason = type(error).__name__
        return wrap(f"<{type(what).__name__} that cannot be shown ({reason[:MAX_CELL_CHARACTERS]})>")


def align_columns(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Align a table as text: the first column and one without a name to the left, the others to the right.

    Example:
        >>> print(align_columns(["k", "cost", ""], [["0", "17 s", "plain"], ["0.5", "9 s", "best"]]))
        k    cost
        0    17 s  plain
        0.5   9 s  best
    """
    widths = [max(len(line[i]) for line in [header, *body]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if i == 0 or not header[i] else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(aligned).rstrip()

    return "\n".join(line(cells) for cells in [header, *body])


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, bold: int | None = None) -> str:
    """Write an HTML table; every cell is escaped. Words begin at the left and numbers end at the right, bold or not.

    Example:
        >>> write_table((), [["<b>"]])
        '<table><tbody style="text-align:right"><tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """
    left = [not header or _holds_words([row[i] for row in rows]) for i in range(_width(header, rows))]
    head = f"<thead{_RIGHT}><tr>{_cells('th', header, left)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('th' if i == bold else 'td', row, left)}</tr>" for i, row in enumerate(rows))
    return f"<table>{head}<tbody{_RIGHT}>{body}</tbody></table>"


def _holds_words(column: Sequence[str]) -> bool:
    """Whether a column holds words, not numbers: none of its cells begins as a number, or one is a sentence."""
    if any(len(cell) > MAX_NUMBER_CHARACTERS for cell in column):
        return True
    return not any(_NUMBER.match(cell) for cell in column)


def _write_paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>".replace("\n", "<br>")


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return len(header) if header else max(map(len, rows), default=0)


def _cells(tag: str, cells: Sequence[str], left: Sequence[bool]) -> str:
    styles = [' style="text-align:left"' if at_left else "" for at_left in left]
    return "".join(f"<{tag}{style}>{escape(cell)}</{tag}>" for cell, style in zip(cells, styles, strict=True))


def _shorten(text: str, most: int = MAX_CELL_CHARACTERS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def format_number(value: float) -> str:
    """Write a number with four figures.

    Example:
        >>> format_number(0.123456), format_number(1234567.0), format_number(3.0)
        ('0.1235', '1.235e+06', '3')
    """
    return f"{value:.4g}"


def format_share(share: float) -> str:
    """Write a share in percent; a small one is not zero, and a loss is negative.

    Example:
        >>> format_share(0.331), format_share(0.0004), format_share(-4.31), format_share(-1e-9), format_share(1.0)
        ('33%', '<1%', '-431%', '0%', '100%')
    """
    return "<1%" if 1e-6 < share < 0.005 else f"{round(share, 2) + 0.0:.0%}"


def list_shares(shares: Mapping[Any, float]) -> str:
    """Write the probability of each category.

    Example:
        >>> list_shares({"gamma": 0.25, "lognormal": 0.75})
        'gamma 25.0%, lognormal 75.0%'
    """
    return ", ".join(f"{label} {share:.1%}" for label, share in shares.items())


def count_things(n: int, word: str) -> str:
    """Write a number of things, with the plural.

    Example:
        >>> count_things(1, "run"), count_things(2500, "run")
        ('1 run', '2,500 runs')
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"
