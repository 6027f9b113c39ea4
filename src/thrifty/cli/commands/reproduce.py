"""`thrifty reproduce NAME`: make a table or figure of the paper with the script of that name in `studies/`."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from thrifty.cli.commands import Quiet
from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.output import Screen
from thrifty.errors import ConfigError


def reproduce(
    name: Annotated[str, typer.Argument(help="A study; without it, list all.", show_default=False)] = "",
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds and runs, a minute or two (the default).")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's full counts.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Repetitions.", min=1, show_default=False)] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", help="Tasks in parallel.", min=1, show_default=False)
    ] = None,
    done: Annotated[
        bool, typer.Option("--done", help="Run nothing; write record and figure of the finished tasks.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of rows, record and figure; by default runs/studies.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Run a study of the paper, or list them.

    The studies come with the source checkout. Rows, record and figure are written to runs/studies in the current
    folder; the same command continues an interrupted study.
    """
    screen = Screen(quiet)
    scripts = _find_studies()
    if not name and (quick or full or seeds or workers or done or out):
        raise ConfigError("which study?", code="bad-command-line", fix="thrifty reproduce lists them")
    if not name:
        width = max(len(found) for found in scripts)
        for found, (_, line) in scripts.items():
            screen.data(f"{found:<{width}}  {line}")
        screen.next(f"thrifty reproduce {next(iter(scripts))} --quick")
        return 0
    if name not in scripts:
        raise ConfigError(
            f"no study {name!r}.{did_you_mean(name, scripts)}", code="bad-name", fix="thrifty reproduce lists them"
        )
    if quick and full:
        raise ConfigError("give --quick or --full, not both", code="conflicting-settings")
    options = ["--quick"] * quick + ["--full"] * full
    options += ["--seeds", str(seeds)] * (seeds is not None) + ["--workers", str(workers)] * (workers is not None)
    options += ["--done"] * done + ["--out", str(out)] * (out is not None)
    _execute(scripts[name][0], options)


def _find_studies() -> dict[str, tuple[Path, str]]:
    """Find the scripts beside the package's source that define a STUDY, with the first line of their docstrings."""
    place = Path(__file__).resolve().parents[4] / "studies"
    scripts = {path.stem: (path, line) for path in sorted(place.glob("*.py")) if (line := _headline(path))}
    if not scripts:
        raise ConfigError(
            f"no studies at {place}",
            code="missing-extra",
            why="the paper's studies come with the source, not with the installed package",
            fix='clone the repository and install it with pip install -e ".[all]"',
        )
    return scripts


def _headline(path: Path) -> str:
    """Return the first line of a study's docstring; empty for helpers, which define no STUDY."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    named = [ast.unparse(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    text = (ast.get_docstring(tree) or "").strip()
    return text.splitlines()[0] if text and "STUDY" in named else ""


def _execute(script: Path, options: list[str]) -> NoReturn:
    """Replace this process by the script, so that signals reach it."""
    source = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, str(script), *options], {**os.environ, "PYTHONPATH": path})
