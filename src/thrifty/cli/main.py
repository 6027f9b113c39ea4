"""The way in and the way out: every error becomes a message and an exit code, never a traceback.

The list of commands, and a word for those who mistype one.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from thrifty.cli.commands import (
    check,
    export,
    infer,
    init,
    plan,
    replay,
    report,
    reproduce,
    run,
    status,
    verify,
    worker,
)
from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.output import UsageError, explain
from thrifty.errors import ThriftyWarning
from thrifty.version import __version__


class Group(TyperGroup):
    """Commands in the order of the journey."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As registered, not by alphabet."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse an unknown command with the one that was probably meant."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(f"unknown command {args[0]!r}.{did_you_mean(args[0], self.commands)}", ctx=ctx)  # type: ignore[call-arg]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Group,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Cost-aware simulation-based inference: the same posterior for less simulation money.\n\n"
    "init, edit thrifty.toml and model.py, then check, plan, run, infer, report.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"thrifty {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Nothing but options that come before the command."""


def _interruptible(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose Ctrl-C is explained here: the option parser would swallow what was said about it."""

    @wraps(command)
    def ended(*values: Any, **named: Any) -> int:
        try:
            return command(*values, **named)
        except KeyboardInterrupt as interrupt:
            return explain(interrupt)

    return ended


for _name, _command in (
    ("init", init.init),
    ("check", check.check),
    ("plan", plan.plan),
    ("run", run.run),
    ("resume", run.resume),
    ("status", status.status),
    ("infer", infer.infer),
    ("report", report.report),
    ("verify", verify.verify),
    ("export", export.export),
    ("replay", replay.replay),
    ("worker", worker.worker),
    ("reproduce", reproduce.reproduce),
):
    app.command(_name)(_interruptible(_command))


def main() -> None:
    """`thrifty` on the command line."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Run one command; its exit code. What it sets is gone afterwards: it may be called from a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ThriftyWarning)
        warnings.showwarning = _once_each()
        return copy_context().run(_run, arguments)


def _run(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="thrifty", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # `thrifty status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        return explain(error, json="--json" in arguments)


def _once_each() -> Callable[..., None]:
    """Show each warning once, as one line; a line number of thrifty helps nobody who uses it from a shell."""
    seen: set[str] = set()

    def show(message: Any, category: Any, *where: Any) -> None:
        if issubclass(category, ThriftyWarning):
            if str(message) not in seen:
                seen.add(str(message))
                print(f"warning: {message}", file=sys.stderr, flush=True)
        elif os.environ.get("THRIFTY_DEBUG"):
            print(warnings.formatwarning(message, category, *where[:2]), file=sys.stderr)

    return show
