"""Write what a command says: data on stdout, everything else on stderr, errors as a message and an exit code.

`NO_COLOR` and `TERM=dumb` switch colours off, `--quiet` leaves data and errors, `--json` writes data as one object per
line. Exit codes:

0 done · 1 a bug · 2 usage or configuration · 3 budget reached before the target · 4 quality too low ·
5 simulator or cluster · 6 folder in use · 7 damaged · 8 disk · 130/143 interrupted
"""

from __future__ import annotations

import json as jsonlib
import math
import os
import re
import sys
import tempfile
import traceback
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from thrifty.cli.config_errors import ManyErrors, did_you_mean
from thrifty.errors import ConfigError, StorageError, ThriftyError

if TYPE_CHECKING:
    from thrifty.runner.progress import ProgressMode

_BOLD, _END = "\x1b[1m", "\x1b[0m"
UsageError = typer.BadParameter.__mro__[1]  # of click, or of the copy of it that newer versions of typer contain
ClickError = typer.BadParameter.__mro__[2]

FOLDER: ContextVar[str] = ContextVar("folder", default="FOLDER")  # the run folder that messages name
# The fix of a library error is a line of Python; on the command line it is a command to type.
_FIXES = {
    "other-settings": "a new folder (thrifty run runs/other), or the settings it was made with"
    " (see {folder}/thrifty.toml)",
    "no-campaign": "thrifty run {folder} makes one; check the spelling",
    "no-runs-yet": "thrifty run {folder}",
    "too-few-pilots": "[plan] pilot = 60, or more",
    "too-many-failures": "repair the simulator, then thrifty run {folder} --accept-changed-simulator --redo-failed;"
    " or allow a larger share: --max-failed 0.2 means 20%",
    "folder-in-use": "wait for it, or watch it: thrifty status {folder} --watch",
    "damaged-folder": "thrifty verify {folder} --repair keeps the undamaged records; thrifty run {folder} repeats the"
    " other runs",
    "disk-problem": "free disk space or choose another folder, then thrifty run {folder}",
    "untrusted-folder": "if this is damage: thrifty verify {folder} --repair keeps the undamaged rows",
    "time-limit-passed": "another on_timeout or a longer time_limit in thrifty.toml, then thrifty run {folder}",
    "unfinished-runs": "thrifty run {folder} finishes them; --allow-incomplete uses the finished runs",
}
_OWN_FIX = ("no-campaign", "too-few-pilots", "simulator-changed")  # the command line raises these with a fix of its own


@dataclass(frozen=True)
class Screen:
    """Write the output of a command."""

    quiet: bool = False
    json: bool = False

    def say(self, text: str = "") -> None:
        """Write a line on stderr."""
        if not self.quiet:
            print(clean(text), file=sys.stderr, flush=True)

    def step(self, label: str, text: str) -> None:
        """Write a labelled line on stderr: `pilot     60/60 runs ...`."""
        if not self.quiet:
            print(f"{add_style(f'{label:<9}', _BOLD, sys.stderr)} {clean(text)}", file=sys.stderr, flush=True)

    def next(self, command: str) -> None:
        """Write the next command to type, on stderr."""
        if not self.quiet:
            print(f"next: {add_style(clean(command), _BOLD, sys.stderr)}", file=sys.stderr, flush=True)

    def data(self, text: str) -> None:
        """Write a result on stdout; not in JSON mode."""
        if not self.json:
            print(clean(text), flush=True)

    def result(self, value: dict[str, Any]) -> None:
        """Write the result as one JSON object on stdout, in JSON mode."""
        if self.json:
            print(jsonlib.dumps(as_json(value)), flush=True)

    @property
    def progress(self) -> ProgressMode:
        """The way in which a campaign shows its progress here."""
        if self.quiet:
            return "quiet"
        if self.json:
            return "json"
        return "bar" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"


def add_style(text: str, style: str, stream: TextIO) -> str:
    """Add a style to the text if the stream is a terminal with colours."""
    plain_terminal = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain_terminal else f"{style}{text}{_END}"


def as_json(value: Any) -> Any:
    """Convert to values that JSON has: NaN and infinity become null, arrays lists, paths texts."""
    if isinstance(value, dict):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def clean(text: str) -> str:
    r"""Remove control characters: texts of files and simulators must not control the terminal.

    Example:
        >>> clean("red \x1b[31m")
        'red [31m'
    """
    return "".join(ch for ch in text if ch.isprintable() or ch in "\n\t")


def explain(error: BaseException, *, json: bool = False) -> int:
    """Explain an error on stderr (in JSON mode also on stdout) and return the exit code."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ThriftyError):
        place = f"{error.filename}: " if error.filename else ""
        error = StorageError(f"{place}{error.strerror}", code="disk-problem")
    elif isinstance(error, ClickError) and not isinstance(error, typer.Abort | typer.Exit):
        error = _as_usage_error(error)
    if isinstance(error, ThriftyError):
        every = error.errors if isinstance(error, ManyErrors) else (error,)
        for one in every:
            _print_error(one)
        first, code = every[0], error.exit_code
        Screen(json=json).result({"error": first.code, "what": clean(first.what), "fix": first.fix, "exit": code})
        return code
    if isinstance(error, KeyboardInterrupt | SystemExit | typer.Abort):
        return _explain_interrupt(error)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    return _explain_bug(error)


def _print_error(error: ThriftyError) -> None:
    fix, folder = _FIXES.get(error.code, ""), FOLDER.get()
    names_none = "{folder}" in fix and folder == "FOLDER"  # a command that opens no run folder
    fix = error.fix if error.fix and (names_none or error.code in _OWN_FIX) else fix.format(folder=folder) or error.fix
    lines = [f"error[{error.code}]: {error.what}" if error.code else f"error: {error.what}"]
    lines += [f"  {label}: {text}" for label, text in (("why", error.why), ("fix", fix)) if text]
    print("\n".join(clean(line) for line in lines), file=sys.stderr, flush=True)


def _as_usage_error(error: BaseException) -> ConfigError:
    """Convert a wrong command, option or value, as the option parser names it."""
    what = _add_suggestion(str(getattr(error, "format_message", lambda: error)()).rstrip("."))
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "thrifty"
    option = getattr(error, "option_name", "")
    owners = _find_owners(context, option)
    fix = f"{command} --help" + "".join(f"; {owner} has this option" for owner in owners[:1])
    extra = re.search(r"unexpected extra argument\(?s?\)? \(([^\s)]+)", what)
    if extra and extra[1].endswith(".toml") and _has_option(context, "--config"):
        fix = f"{command} --config {extra[1]}"
    if command.endswith(" init") and "Did you mean" not in what and (option or (extra and "{" in extra[1])):
        fix = (
            f"{command} --help; a program and its arguments stand in quotes: --command './model {{a}} --seed {{seed}}'"
        )
    elif not owners and (setting := _find_setting(option)):
        what, fix = what.partition(" Did you mean")[0].rstrip("."), f"it is a setting of thrifty.toml: {setting}"
    return ConfigError(what[:1].lower() + what[1:], code="bad-command-line", fix=fix)


def _has_option(context: Any, option: str) -> bool:
    return any(option in param.opts for param in getattr(getattr(context, "command", None), "params", ()))


def _find_setting(option: str) -> str:
    """Return the setting of thrifty.toml that has the name of an option, or an empty text.

    Example:
        >>> _find_setting("--budget"), _find_setting("--time-limit"), _find_setting("--wrokers")
        ('[plan] budget = "2 cpu-h"', '[run] time_limit', '')
    """
    from dataclasses import fields

    from thrifty.cli.config import TABLES
    from thrifty.cli.config_tables import EXAMPLES

    key = option.removeprefix("--").replace("-", "_")
    found = [table for table, settings in TABLES.items() if key in {field.name for field in fields(settings)}]
    return f"[{found[0]}] {EXAMPLES.get(key, key)}" if found else ""


def _find_owners(context: Any, option: str) -> list[str]:
    """Return the commands that have an option which another command was given."""
    group = getattr(context.find_root() if context else None, "command", None)
    commands = getattr(group, "commands", {})
    return [
        f"thrifty {name}" for name, command in commands.items() if any(option in param.opts for param in command.params)
    ]


def _add_suggestion(what: str) -> str:
    """Add what was probably meant to a message of the option parser."""
    what = what.replace("Value error, ", "").replace("Input should be", "expected")
    what = what.removesuffix(", unable to parse string as an integer").removesuffix(
        ", unable to parse string as a number"
    )
    choice = re.search(r"'([^']*)' is not one of (.+)$", what)
    if choice:
        return what + "." + did_you_mean(choice[1], re.findall(r"'([^']*)'", choice[2])).rstrip(".")
    option = re.search(r"^(No such option: \S+?)\.? \(?(?:Possible options:|Did you mean) (\S+?)\??\)?$", what)
    return f"{option[1]}. Did you mean {option[2]}?" if option else what


def _explain_interrupt(error: BaseException) -> int:
    code = getattr(error, "exit_code", None)
    if code is None and isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    print(f"\n{str(error).split(' Calling again')[0] or 'stopped'}", file=sys.stderr)
    if FOLDER.get() != "FOLDER" and code is not None:
        print(f"next: thrifty run {FOLDER.get()}", file=sys.stderr)
    return 130 if code is None else int(code)


def _explain_bug(error: BaseException) -> int:
    """Report an error of thrifty itself in one line, with the details in a file that can be sent."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get("THRIFTY_DEBUG"):
        print(text, file=sys.stderr)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="thrifty-bug-", suffix=".txt", delete=False) as file:
            file.write(f"thrifty {' '.join(sys.argv[1:])}\nPython {sys.version}\n\n{text}")
        where = f"the details are in {Path(file.name)}; please send them to us"
    except OSError:
        where = "set THRIFTY_DEBUG=1 to see the details"
    what = f"error: a bug in thrifty: {type(error).__name__}: {clean(str(error))[:200]}"
    print(f"{what}\n  fix: {where}", file=sys.stderr)
    return 1
