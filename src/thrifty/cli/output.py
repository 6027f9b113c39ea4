"""From any exception to a message and an exit code.

0 done · 1 a bug · 2 usage or configuration · 3 budget reached before the target · 4 quality gate ·
5 simulator or cluster · 6 folder in use · 7 damaged · 8 disk · 130/143 interrupted

What a person sees: data on stdout, everything else on stderr, no colour where none is wanted.

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
    from thrifty.runner.progress import ProgressMode


import json as jsonlib
import re
import tempfile
import traceback
from contextvars import ContextVar
from pathlib import Path

import typer

from thrifty.cli.config_errors import ManyErrors, did_you_mean
from thrifty.errors import StorageError, ThriftyError

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
    from thrifty.runner.progress import format_amount

    if unit == "s" or not math.isfinite(value) or abs(value) < 1000:
        return format_amount(value, unit)
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


UsageError = typer.BadParameter.__mro__[1]  # of click, or of the copy of it that newer typers carry
ClickError = typer.BadParameter.__mro__[2]

FOLDER: ContextVar[str] = ContextVar("folder", default="FOLDER")
# The library's way out is a line of Python; here it is a command to type.
_ADVICE = {
    "other-settings": "a new folder (thrifty run runs/other), or the settings it was made with"
    " (see {folder}/thrifty.toml)",
    "no-campaign": "thrifty run {folder} makes one; check the spelling",
    "no-runs-yet": "thrifty run {folder}",
    "too-few-pilots": "[plan] pilot = 60, or more",
    "too-many-failures": "mend the simulator, or accept it with a larger share: --max-failed 0.2 stands for 20 %",
    "folder-in-use": "wait for it, or watch it: thrifty status {folder} --watch",
    "damaged-folder": "thrifty verify {folder} --repair keeps what is whole; thrifty run {folder} runs the rest again",
    "simulator-changed": "a new folder, or thrifty run {folder} --accept-changed-simulator (it is recorded)",
    "disk-problem": "make room or choose another folder, then thrifty run {folder}",
    "untrusted-folder": "if this is damage: thrifty verify {folder} --repair keeps the rows that are whole",
    "time-limit-passed": "another on_timeout or a longer time_limit in thrifty.toml, then thrifty run {folder}",
    "unfinished-runs": "thrifty run {folder} finishes them; --allow-incomplete uses what there is",
}


def explain(error: BaseException, *, json: bool = False) -> int:
    """Say what happened on stderr (in JSON mode also on stdout); the exit code."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ThriftyError):
        place = f"{error.filename}: " if error.filename else ""
        error = StorageError(f"{place}{error.strerror}", code="disk-problem")
    if isinstance(error, ThriftyError):
        every = error.errors if isinstance(error, ManyErrors) else (error,)
        for one in every:
            _print(one)
        return _ended(every[0], error.exit_code, json)
    if isinstance(error, KeyboardInterrupt | SystemExit | typer.Abort):
        return _interrupted(error)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    return _usage(error, json) if isinstance(error, ClickError) else _bug(error)


def _print(error: ThriftyError) -> None:
    lines = [f"error[{error.code}]: {error.what}" if error.code else f"error: {error.what}"]
    lines += [f"  why: {error.why}"] if error.why else []
    fix = _ADVICE.get(error.code, "").format(folder=FOLDER.get()) or error.fix
    if error.code in _KEEP and error.fix:
        fix = error.fix
    lines += [f"  fix: {fix}"] if fix else []
    print("\n".join(clean(line) for line in lines), file=sys.stderr, flush=True)


_KEEP = ("no-campaign", "too-few-pilots")  # raised by the command line itself with advice of its own


def _ended(error: ThriftyError, code: int, json: bool) -> int:
    if json:
        print(
            jsonlib.dumps({"error": error.code, "what": clean(error.what), "fix": error.fix, "exit": code}), flush=True
        )
    return code


def _usage(error: BaseException, json: bool) -> int:
    """A wrong command, option or value."""
    what = _usual(str(getattr(error, "format_message", lambda: error)()).rstrip("."))
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "thrifty"
    print(
        clean(f"error[bad-command-line]: {what[:1].lower()}{what[1:]}\n  fix: {command} --help"),
        file=sys.stderr,
        flush=True,
    )
    if json:
        print(jsonlib.dumps({"error": "bad-command-line", "what": clean(what), "exit": 2}), flush=True)
    return 2


def _usual(what: str) -> str:
    """The words of the option parser, with what was probably meant."""
    what = what.replace("Value error, ", "").replace("Input should be a valid", "expected a valid")
    choice = re.search(r"'([^']*)' is not one of (.+)$", what)
    if choice:
        return what + "." + did_you_mean(choice[1], re.findall(r"'([^']*)'", choice[2])).rstrip(".")
    option = re.search(r"^(No such option: \S+?)\.? \(?(?:Possible options:|Did you mean) (\S+?)\??\)?$", what)
    return f"{option[1]}. Did you mean {option[2]}?" if option else what


def _interrupted(error: BaseException) -> int:
    code = getattr(error, "exit_code", None)
    if code is None and isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    said = str(error).split(" Calling again")[0] or "stopped"
    print(f"\n{said}", file=sys.stderr)
    if FOLDER.get() != "FOLDER" and code is not None:
        print(f"next: thrifty run {FOLDER.get()}", file=sys.stderr)
    return 130 if code is None else int(code)


def _bug(error: BaseException) -> int:
    """Our fault: a short word, and the details in a file that can be sent."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get("THRIFTY_DEBUG"):
        print(text, file=sys.stderr)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="thrifty-bug-", suffix=".txt", delete=False) as file:
            file.write(f"thrifty {' '.join(sys.argv[1:])}\nPython {sys.version}\n\n{text}")
        where = f"the details are in {Path(file.name)}; please send them to us"
    except OSError:
        where = "set THRIFTY_DEBUG=1 to see the details"
    print(
        f"error: a bug in thrifty: {type(error).__name__}: {clean(str(error))[:200]}\n  fix: {where}", file=sys.stderr
    )
    return 1
