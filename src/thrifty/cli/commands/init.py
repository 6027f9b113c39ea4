"""`thrifty init`: a commented thrifty.toml and model.py that run as they are; nothing that exists is overwritten."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import string
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.options import Quiet

TEMPLATES = Path(__file__).parents[1] / "templates"
# example: class of th.models, prior in the toml's words, runs, unit of cost
_EXAMPLES = {
    "sir": ("TemporalSIR", 2000, "events"),
    "gamma": ("Gamma", 2000, "draws"),
    "radio": ("Radio", 1000, "arrivals"),
}


class Example(StrEnum):
    """Models of the paper."""

    sir = "sir"
    gamma = "gamma"
    radio = "radio"


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; here by default.")] = Path(),
    *,
    command: Annotated[
        str, typer.Option(help="An executable instead: './model {beta} {gamma} --seed {seed}'.", show_default=False)
    ] = "",
    example: Annotated[Example | None, typer.Option(help="A model of the paper.", show_default=False)] = None,
    quiet: Quiet = False,
) -> int:
    """Write thrifty.toml and model.py to begin with.

    Commented, and they run as they are. Nothing that exists is overwritten.
    """
    from thrifty.cli.output import Screen
    from thrifty.errors import ConfigError

    if command and example:
        raise ConfigError("give --command or --example, not both", code="conflicting-settings")
    files = _example(example.value) if example else _command(command) if command else _own()
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ConfigError(
            f"{', '.join(there)} exists already in {folder.absolute()}",
            code="already-exists",
            why="nothing is overwritten",
            fix="thrifty init NEW_FOLDER, or move it away",
        )
    folder.mkdir(parents=True, exist_ok=True)
    screen = Screen(quiet)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        screen.say(f"wrote {folder / name}")
    if command and not _found(shlex.split(command)[0], folder):
        screen.say(f"note: {shlex.split(command)[0]} is not there yet; thrifty check looks for it again")
    enter = "" if folder == Path() else f"cd {folder} && "
    screen.next(f"{enter}thrifty check")
    return 0


def _found(program: str, folder: Path) -> bool:
    """Whether the program is on the path, or where its configuration is."""
    return shutil.which(program) is not None or (folder / program).exists()


def _toml(**parts: str) -> str:
    text = (TEMPLATES / "thrifty.toml.txt").read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    return text


def _own() -> dict[str, str]:
    prior = (
        'infection = { family = "uniform", low = 0.1, high = 2.0 }\n'
        'recovery = { family = "loguniform", low = 0.1, high = 1.0 }'
    )
    return {
        "thrifty.toml": _toml(
            simulator='python = "model.py:simulate"   # file:function',
            prior=prior,
            cost='measure = "cpu"',
            plan="n = 2000                     # runs, besides the pilot",
            pilot="pilot = 100                  # timed runs from the prior: they teach what a run costs, and are kept",
        ),
        "model.py": (TEMPLATES / "model.py.txt").read_text(encoding="utf-8"),
        "observed.csv": "5.27,4.31,3.36,2.05\n",
    }


def _command(command: str) -> dict[str, str]:
    """A configuration for a program; its parameters are what stands in braces."""
    from thrifty.errors import ConfigError

    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--command {command!r}: {error}", code="bad-command") from None
    names = _parameters(command, parts)
    quoted = ", ".join(json.dumps(part, ensure_ascii=False) for part in parts)  # a string of TOML is one of JSON
    simulator = (
        f"command = [{quoted}]   # program and arguments; no shell\n"
        'output = "json"              # what it prints: numbers, a list, or {"x": [...], "cost": ...}; "csv", "npy"\n'
        '# file = "out.csv"           # where it writes, if not to standard output; each run has a folder of its own'
    )
    prior = "\n".join(f'{name} = {{ family = "uniform", low = 0.0, high = 1.0 }}   # edit the range' for name in names)
    toml = _toml(
        simulator=simulator,
        prior=prior,
        cost='measure = "cpu"',
        plan="n = 1000                     # runs, besides the pilot",
        pilot="pilot = 60                   # timed runs from the prior: they teach what a run costs, and are kept",
    )
    return {"thrifty.toml": toml.replace('observed = "observed.csv"', '# observed = "observed.csv"')}


def _parameters(command: str, parts: list[str]) -> list[str]:
    """The names in braces; what could never be run is refused here, not by the file that it would be written to."""
    from thrifty.errors import ConfigError

    try:
        found = [field for part in parts for field in string.Formatter().parse(part)]
        fields = [(name, form, how) for _, name, form, how in found if name is not None]
        problem = ""
    except ValueError as error:
        fields, problem = [], f"has braces that do not match ({error}); write {{{{ for a brace"
    shown = [name + f":{form}" * bool(form) + f"!{how}" * bool(how) for name, form, how in fields]
    odd = [field for field in shown if not re.fullmatch(r"[A-Za-z]\w*", field)]
    names = [name for name in dict.fromkeys(name for name, *_ in fields) if name != "seed"]
    if odd:
        problem = f"has {{{odd[0]}}}, not a name in braces: letters, digits and _, a letter first"
    elif parts and "{" in parts[0]:
        problem = f"begins with {parts[0]!r}, which is a parameter and no program"
    elif not names:
        problem = problem or "mentions no parameter"
    if problem:
        raise ConfigError(
            f"--command {command!r} {problem}",
            code="bad-command",
            fix="--command './model {beta} {gamma} --seed {seed}'",
        )
    return names


def _example(name: str) -> dict[str, str]:
    import thrifty as th

    kind, n, unit = _EXAMPLES[name]
    model = getattr(th.models, kind)()
    low, high = model.prior.bounds
    prior = "\n".join(
        f'{label} = {{ family = "uniform", low = {a:g}, high = {b:g} }}'
        for label, a, b in zip(model.names, low.tolist(), high.tolist(), strict=True)
    )
    code = (
        f'"""{kind} of the paper, bundled with thrifty; its cost is a count of {unit}, the same everywhere."""\n\n'
        f"import thrifty as th\n\nMODEL = th.models.{kind}()\n\n\n"
        "def simulate(theta, rng):\n"
        f'    """One run: statistics, and its cost as a number of {unit}."""\n    return MODEL.run(theta, rng)\n'
    )
    toml = _toml(
        simulator='python = "model.py:simulate"   # file:function',
        prior=prior,
        cost=f'measure = "reported"\nunit = "{unit}"',
        plan=f"n = {n}                     # runs, besides the pilot",
        pilot="pilot = 200                  # timed runs from the prior: they teach what a run costs, and are kept",
    )
    observed = ",".join(repr(float(value)) for value in model.observed(3))
    return {"thrifty.toml": toml, "model.py": code, "observed.csv": observed + "\n"}
