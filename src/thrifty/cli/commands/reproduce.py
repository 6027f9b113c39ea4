"""`thrifty reproduce NAME`: a table or figure of the paper, by the script of that name in `studies/`."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from thrifty.cli.options import Quiet


def reproduce(
    name: Annotated[str, typer.Argument(help="A study; without it they are listed.", show_default=False)] = "",
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds and runs, a minute or two (the default).")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's full counts.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Repetitions.", min=1, show_default=False)] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", help="Tasks side by side.", min=1, show_default=False)
    ] = None,
    done: Annotated[bool, typer.Option("--done", help="Run nothing: record and figure of what is done.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where rows, record and figure go.", show_default="runs/studies")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Run a study of the paper, or list them.

    The studies come with the source checkout. Rows, record and figure go to runs/studies in the current folder; the
    same command again goes on where it stopped.
    """
    from thrifty.cli.output import Screen
    from thrifty.errors import ConfigError

    screen = Screen(quiet)
    scripts = _studies()
    if not name and (quick or full or seeds or workers or done or out):
        raise ConfigError("which study?", code="bad-command-line", fix="thrifty reproduce lists them")
    if not name:
        width = max(len(found) for found in scripts)
        for found, (_, line) in scripts.items():
            screen.data(f"{found:<{width}}  {line}")
        screen.next(f"thrifty reproduce {next(iter(scripts))} --quick")
        return 0
    if name not in scripts:
        from thrifty.cli.config_errors import did_you_mean

        raise ConfigError(
            f"no study {name!r}.{did_you_mean(name, scripts)}", code="bad-name", fix="thrifty reproduce lists them"
        )
    if quick and full:
        raise ConfigError("give --quick or --full, not both", code="conflicting-settings")
    options = ["--quick"] * quick + ["--full"] * full
    options += ["--seeds", str(seeds)] * (seeds is not None) + ["--workers", str(workers)] * (workers is not None)
    options += ["--done"] * done + ["--out", str(out)] * (out is not None)
    _become(scripts[name][0], options)


def _studies() -> dict[str, tuple[Path, str]]:
    """Scripts beside the package's source that define a STUDY, and the first line of what each says about itself."""
    from thrifty.errors import ConfigError

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
    """The first line of a study's docstring; nothing for its helpers, which define no STUDY."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    names = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    text = (ast.get_docstring(tree) or "").strip()
    return text.splitlines()[0] if text and "STUDY" in names else ""


def _become(script: Path, options: list[str]) -> NoReturn:
    """Become the script, as it would run by hand: there is no second process that a signal could miss."""
    source = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, str(script), *options], {**os.environ, "PYTHONPATH": path})
