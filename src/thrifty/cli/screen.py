"""What a person sees: data on stdout, everything else on stderr, no colour where none is wanted.

`NO_COLOR` and `TERM=dumb` are honoured, `--quiet` leaves data and errors, `--json` makes data one object a line.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from thrifty.campaign.progress import ProgressMode

_BOLD, _END = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True)
class Screen:
    """Where a command writes, and how much."""

    quiet: bool = False
    json: bool = False

    def say(self, text: str = "") -> None:
        """A line for the person, on stderr."""
        if not self.quiet:
            print(clean(text), file=sys.stderr, flush=True)

    def step(self, label: str, text: str) -> None:
        """A labelled line: `pilot     60/60 runs ...`; details go below, indented."""
        if not self.quiet:
            print(f"{styled(f'{label:<9}', _BOLD, sys.stderr)} {clean(text)}", file=sys.stderr, flush=True)

    def next(self, command: str) -> None:
        """The command to type now."""
        if not self.quiet:
            print(f"next: {styled(clean(command), _BOLD, sys.stderr)}", file=sys.stderr, flush=True)

    def data(self, text: str) -> None:
        """What the command was asked for, on stdout; not in JSON mode."""
        if not self.json:
            print(clean(text), flush=True)

    def result(self, value: dict[str, Any]) -> None:
        """The same as one JSON object, in JSON mode."""
        if self.json:
            print(json.dumps(plain(value)), flush=True)

    @property
    def progress(self) -> ProgressMode:
        """How a campaign shows its progress here."""
        if self.quiet:
            return "quiet"
        if self.json:
            return "json"
        return "bar" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Text with a style, where the stream is a terminal that wants it."""
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain_terminal else f"{style}{text}{_END}"


def plain(value: Any) -> Any:
    """Values that JSON has: NaN and infinity become null, arrays lists, paths texts."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def figure(value: float, unit: str) -> str:
    """A cost for people: times as minutes or hours, counts with three figures and thousands.

    Example:
        >>> figure(776_543.2, "events"), figure(0.0312, "eur"), figure(5400, "s")
        ('777,000 events', '0.0312 eur', '1.5 h')
    """
    from thrifty.campaign.tally import amount

    if unit == "s" or not math.isfinite(value) or abs(value) < 1000:
        return amount(value, unit)
    return f"{float(f'{value:.3g}'):,.0f} {unit}"


def share(value: float) -> str:
    """A share in percent; a small one is not nothing.

    Example:
        >>> share(0.331), share(0.0004)
        ('33%', '<1%')
    """
    return "<1%" if 0 < value < 0.005 else f"{value:.0%}"


def table(header: list[str], body: list[list[str]]) -> str:
    """Columns aligned: the first to the left, numbers to the right, a last remark to the left."""
    widths = [max(len(line[i]) for line in [header, *body]) for i in range(len(header))]
    last = len(header) - 1

    def line(cells: list[str]) -> str:
        left = [
            cell.ljust(w) if i in (0, last) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(left).rstrip()

    return "\n".join(line(cells) for cells in [header, *body])


def clean(text: str) -> str:
    r"""Text without control characters: words of files and simulators must not drive the terminal.

    Example:
        >>> clean("red \x1b[31m")
        'red [31m'
    """
    return "".join(ch for ch in text if ch.isprintable() or ch in "\n\t")
