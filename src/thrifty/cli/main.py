"""Define the command `thrifty` and run it: every error becomes a message and an exit code, never a traceback."""

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

from thrifty.cli.commands.benchmark import benchmark
from thrifty.cli.commands.check import check
from thrifty.cli.commands.export import export
from thrifty.cli.commands.infer import infer
from thrifty.cli.commands.init import init
from thrifty.cli.commands.plan import plan
from thrifty.cli.commands.replay import replay
from thrifty.cli.commands.report import report
from thrifty.cli.commands.reproduce import reproduce
from thrifty.cli.commands.run import resume, run
from thrifty.cli.commands.status import status
from thrifty.cli.commands.verify import verify
from thrifty.cli.commands.worker import worker
from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.output import UsageError, explain
from thrifty.errors import ThriftyWarning
from thrifty.version import __version__


class Group(TyperGroup):
    """Commands in the order in which they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands as registered, not in alphabetical order."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Reject an unknown command and suggest the nearest one."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(f"unknown command {args[0]!r}.{did_you_mean(args[0], self.commands)}", ctx=ctx)  # type: ignore[call-arg]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Cost-aware simulation-based inference: the same posterior at a lower simulation cost.\n\n"
    "Start with init, edit thrifty.toml and model.py, then check, plan, run, infer, report.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"thrifty {__version__}")
        raise typer.Exit


@app.callback()
def define_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Define the options that come before the command."""


def _explain_interrupts(command: Callable[..., int]) -> Callable[..., int]:
    """Explain Ctrl-C inside the command: the option parser would drop the message of the interrupt."""

    @wraps(command)
    def run_command(*values: Any, **named: Any) -> int:
        try:
            return command(*values, **named)
        except KeyboardInterrupt as interrupt:
            return explain(interrupt)

    return run_command


# in the order in which they are used
_COMMANDS = (
    init,
    check,
    plan,
    run,
    resume,
    status,
    infer,
    report,
    verify,
    export,
    replay,
    worker,
    reproduce,
    benchmark,
)
for _command in _COMMANDS:
    app.command()(_explain_interrupts(_command))


def main() -> None:
    """Run `thrifty` with the arguments of the command line."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Run one command and return its exit code; leave no settings behind, so that programs may call it."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ThriftyWarning)
        warnings.showwarning = _show_warnings_once()
        return copy_context().run(_run_app, arguments)


def _run_app(arguments: list[str]) -> int:
    try:
        code = app(arguments or ["--help"], prog_name="thrifty", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # `thrifty status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        return explain(error, json="--json" in arguments)


def _show_warnings_once() -> Callable[..., None]:
    """Show each warning once, as one line: line numbers inside thrifty do not help a user of the shell."""
    seen: set[str] = set()

    def show(message: Any, category: Any, *where: Any) -> None:
        if issubclass(category, ThriftyWarning):
            if str(message) not in seen:
                from thrifty.cli.advice import translate_advice

                seen.add(str(message))
                print(f"warning: {translate_advice(str(message))}", file=sys.stderr, flush=True)
        elif os.environ.get("THRIFTY_DEBUG"):
            print(warnings.formatwarning(message, category, *where[:2]), file=sys.stderr)

    return show
