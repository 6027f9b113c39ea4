"""`thrifty init`: write a commented thrifty.toml and model.py that run as they are; nothing is overwritten."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import string
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.commands import Quiet
from thrifty.cli.output import Screen
from thrifty.errors import ConfigError

TEMPLATES = Path(__file__).parents[1] / "templates"
_PYTHON = 'python = "model.py:simulate"   # file:function'
OUTBREAK = (0.6, 0.3)  # infection and removal rate of the example's data: an outbreak that does not die out
# example: class of th.models and where its data come from, runs, unit of cost
_EXAMPLES = {
    "sir": ("TemporalSIR", {"theta_true": OUTBREAK}, 2000, "events"),
    "gamma": ("Gamma", {}, 2000, "draws"),
    "radio": ("Radio", {}, 1000, "arrivals"),
}
Example = StrEnum("Example", list(_EXAMPLES))


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; the current folder by default.")] = Path(),
    *,
    command: Annotated[
        str,
        typer.Option(
            help="Use a program as the simulator: './model {beta} {gamma} --seed {seed}'.", show_default=False
        ),
    ] = "",
    example: Annotated[
        Example | None, typer.Option(help="Use a model of the paper as the simulator.", show_default=False)
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Write thrifty.toml and model.py to start with.

    Both have comments and run as they are. No existing file is overwritten.
    """
    if command and example:
        raise ConfigError("give --command or --example, not both", code="conflicting-settings")
    files = example_files(example.value) if example else command_files(command, folder) if command else default_files()
    if existing := [name for name in files if (folder / name).exists()]:
        raise ConfigError(
            f"{', '.join(existing)} exists already in {folder.absolute()}",
            code="already-exists",
            why="nothing is overwritten",
            fix="thrifty init NEW_FOLDER, or move it away",
        )
    folder.mkdir(parents=True, exist_ok=True)
    screen = Screen(quiet)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        screen.say(f"wrote {folder / name}")
    if command and not _program_exists(program := shlex.split(command)[0]):
        near = _find_near(program)
        fix = f"; did you mean {near}? Correct it in {folder / 'thrifty.toml'}"
        screen.say(f"note: {program} is not there yet{fix if near else '; thrifty check looks for it again'}")
    enter = "" if folder == Path() else f"cd {folder} && "
    screen.next(f"{enter}thrifty check")
    return 0


def _program_exists(program: str) -> bool:
    """Whether the program is on the path, or a file as seen from where the command was typed."""
    return shutil.which(program) is not None or Path(program).exists()


def _find_near(program: str) -> str:
    """Return the program that was probably meant, or an empty text."""
    from thrifty.runner.command import find_near_program

    return find_near_program(program)


def _relocate(parts: list[str], folder: Path) -> list[str]:
    """Write the files of a command as seen from the folder of its configuration, where they are looked for."""
    return [_relocate_file(part, folder, program=i == 0) for i, part in enumerate(parts)]


def _relocate_file(part: str, folder: Path, *, program: bool) -> str:
    on_the_path = program and os.sep not in part and shutil.which(part) is not None
    misspelt = program and not Path(part).exists() and _find_near(part)
    if "{" in part or on_the_path or Path(part).is_absolute() or not (misspelt or Path(part).is_file()):
        return part
    moved = os.path.relpath(part, folder)
    return moved if os.sep in moved else f".{os.sep}{moved}"


def _fill_template(*, simulator: str, prior: str, n: int, pilot: int, cost: str = 'measure = "cpu"') -> str:
    """Write thrifty.toml from its template."""
    text = (TEMPLATES / "thrifty.toml.txt").read_text(encoding="utf-8")
    runs = f"{f'n = {n}':<28} # runs, in addition to the pilot"
    pilots = f"{f'pilot = {pilot}':<28} # timed runs from the prior: the cost model is fitted to them; they are kept"
    parts = {"simulator": simulator, "prior": prior, "cost": cost, "plan": runs, "pilot": pilots}
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    return text


def _prior_line(name: str, low: float | str, high: float | str, family: str = "uniform") -> str:
    return f'{name} = {{ family = "{family}", low = {low}, high = {high} }}'


def _placeholder(name: str) -> str:
    return f"{_prior_line(name, 0.0, 1.0)}   # edit the range"


def find_unedited(text: str) -> list[str]:
    """Return the parameters of a configuration whose range is still the placeholder of `thrifty init --command`.

    Example:
        >>> find_unedited(command_files("./model {beta} {gamma}")["thrifty.toml"].replace("0.0", "0.5", 1))
        ['gamma']
    """
    names = [line.partition("=")[0].strip() for line in text.splitlines()]
    return [name for name, line in zip(names, text.splitlines(), strict=True) if name and line == _placeholder(name)]


def default_files() -> dict[str, str]:
    """Write the files of a small epidemic model."""
    prior = "\n".join([_prior_line("infection", 0.1, 2.0), _prior_line("recovery", 0.1, 1.0, "loguniform")])
    return {
        "thrifty.toml": _fill_template(simulator=_PYTHON, prior=prior, n=2000, pilot=100),
        "model.py": (TEMPLATES / "model.py.txt").read_text(encoding="utf-8"),
        "observed.csv": "5.27,4.31,3.36,2.05\n",
    }


def command_files(command: str, folder: Path = Path()) -> dict[str, str]:
    """Write the configuration of a program; its parameters are the names in braces, its files seen from `folder`."""
    try:
        parts = shlex.split(command)
    except ValueError as error:
        fix = "close every quotation mark inside the command"
        raise ConfigError(f"--command {command!r}: {error}", code="bad-command", fix=fix) from None
    names = _find_parameters(command, parts)
    quoted = ", ".join(
        json.dumps(part, ensure_ascii=False) for part in _relocate(parts, folder)
    )  # a JSON string is a TOML string
    simulator = (
        f"command = [{quoted}]   # program and arguments; no shell\n"
        'output = "json"              # what it prints: numbers, a list, or named numbers, {"peak": 3, "day": 12};\n'
        '#                            # with its cost: {"x": [...], "cost": ...}. Or "csv", "npy"\n'
        '# file = "out.csv"           # the file it writes, instead of standard output; each run has its own folder'
    )
    prior = "\n".join(map(_placeholder, names))
    toml = _fill_template(simulator=simulator, prior=prior, n=1000, pilot=60)
    return {"thrifty.toml": toml.replace('observed = "observed.csv"', '# observed = "observed.csv"')}


def _find_parameters(command: str, parts: list[str]) -> list[str]:
    """Return the names in braces; reject a command that could never run, before a file is written for it."""
    problem = ""
    try:
        parsed = [field for part in parts for field in string.Formatter().parse(part)]
    except ValueError as error:
        parsed, problem = [], f"has braces that do not match ({error}); write {{{{ for a brace"
    fields = [(name, form, how) for _, name, form, how in parsed if name is not None]
    written = [name + f":{form}" * bool(form) + f"!{how}" * bool(how) for name, form, how in fields]
    malformed = [field for field in written if not re.fullmatch(r"[A-Za-z]\w*", field)]
    names = [name for name in dict.fromkeys(name for name, *_ in fields) if name != "seed"]
    if malformed:
        problem = f"has {{{malformed[0]}}}, not a name in braces: letters, digits and _, a letter first"
    elif parts and "{" in parts[0]:
        problem = f"begins with {parts[0]!r}, which is a parameter, not a program"
    elif not names:
        problem = problem or "mentions no parameter"
    if problem:
        fix = "--command './model {beta} {gamma} --seed {seed}'"
        raise ConfigError(f"--command {command!r} {problem}", code="bad-command", fix=fix)
    return names


def example_files(name: str) -> dict[str, str]:
    """Write the files of a model of the paper."""
    import thrifty as th

    kind, truth, n, unit = _EXAMPLES[name]
    model = getattr(th.models, kind)(**truth)
    bounds = zip(model.names, *(edge.tolist() for edge in model.prior.bounds), strict=True)
    prior = "\n".join(_prior_line(label, f"{low:g}", f"{high:g}") for label, low, high in bounds)
    code = (
        f'"""{kind} of the paper, part of thrifty; its cost is a number of {unit}, the same on every machine."""\n\n'
        f"import thrifty as th\n\nMODEL = th.models.{kind}()\n\n\n"
        "def simulate(theta, rng):\n"
        f'    """Return the statistics of one run by name, and its cost as a number of {unit}."""\n'
        "    out = MODEL.run(theta, rng)\n"
        "    return th.Output(dict(zip(MODEL.summary_names, out.x, strict=True)), cost=out.cost)\n"
    )
    cost = f'measure = "reported"\nunit = "{unit}"'
    toml = _fill_template(simulator=_PYTHON, prior=prior, n=n, pilot=200, cost=cost)
    observed = ",".join(repr(float(value)) for value in model.observed(3))
    return {"thrifty.toml": toml, "model.py": code, "observed.csv": observed + "\n"}
