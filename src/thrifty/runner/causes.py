"""Say why runs failed: the last line of each error, equal causes counted together, with one run of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from thrifty.errors import is_own_file

MAX_CAUSES = 3  # that are listed
MAX_CAUSE_CHARACTERS = 120
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
_INSTALLED = ("site-packages", "dist-packages", "lib/python", "<frozen")  # code that is not the user's


@dataclass(frozen=True)
class Cause:
    """Runs that failed for one reason: how many, the first of them, and the reason."""

    count: int
    index: int
    text: str


def last_line(error: str) -> str:
    r"""Return what is wrong in one line: our messages begin with it, others end so.

    Example:
        >>> last_line('Traceback ...\nKeyError: 3'), last_line("[bad-output] None\n  why: ..."), last_line("")
        ('KeyError: 3', '[bad-output] None', 'no message')
    """
    lines = [line.strip() for line in error.splitlines() if line.strip()] or ["no message"]
    line = lines[0] if lines[0].startswith("[") else lines[-1]
    return "".join(letter for letter in line if letter.isprintable())


def find_place(error: str) -> str:
    r"""Return the user's line from which a Python error came, or "".

    Example:
        >>> find_place('Traceback:\n  File "/home/me/model.py", line 3, in simulate\n    x\nNameError: x')
        'line 3 of model.py, in simulate'
    """
    frames = [frame for frame in _FRAME.findall(error) if not is_own_file(frame[0])]
    own = [frame for frame in frames if not any(part in frame[0] for part in _INSTALLED)] or frames
    if not own:
        return ""
    path, line, function = own[-1]
    is_cell = path.startswith("<") or "ipykernel" in path
    file = "" if is_cell else f" of {PurePath(path).name}"
    return f"line {line}{file}, in {function}"


def describe_failure(status: str, found: str | None, shape: str | None, error: str) -> str:
    """Return the last line of the error, or what else was wrong."""
    if status == "ok":
        return f"returned {_describe_shape(found)}, the others {_describe_shape(shape)}"
    return last_line(error) if error.strip() else status


def _describe_shape(text: str | None) -> str:
    """Write a shape of the store in words.

    Example:
        >>> _describe_shape("3"), _describe_shape("2,3")
        ('3 values', '2 x 3 values')
    """
    sizes = [size for size in (text or "").split(",") if size]
    return f"{' x '.join(sizes) or 1} value{'' if sizes in ([], ['1']) else 's'}"


def group_causes(failed: Iterable[tuple[int, str]]) -> list[Cause]:
    """Count equal causes of (index, reason), the most common first; numbers in a reason do not tell causes apart.

    Example:
        >>> group_causes([(4, "step 3 diverged"), (7, "no memory"), (9, "step 8 diverged")])[0]
        Cause(count=2, index=4, text='step 3 diverged')
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for index, reason in failed:
        groups.setdefault(_NUMBER.sub("#", reason), []).append((int(index), reason[:MAX_CAUSE_CHARACTERS]))
    found = [Cause(len(group), *group[0]) for group in groups.values()]
    return sorted(found, key=lambda cause: -cause.count)


def list_causes(causes: Sequence[Cause]) -> str:
    """List the most common causes with their counts.

    Example:
        >>> list_causes([Cause(2, 4, "diverged"), Cause(1, 7, "no memory")])
        '2 diverged; 1 no memory'
    """
    listed = [f"{f'{cause.count:,} ' if len(causes) > 1 else ''}{cause.text}" for cause in causes[:MAX_CAUSES]]
    more = sum(cause.count for cause in causes[MAX_CAUSES:])
    return "; ".join([*listed, *([f"{more:,} others"] if more else [])])


def describe_causes(causes: Sequence[Cause]) -> str:
    """Name the most common causes with a run to look at, as the end of a sentence; "" where there is none.

    Example:
        >>> describe_causes([Cause(2, 4, "diverged"), Cause(1, 7, "no memory")])
        ': 2 diverged; 1 no memory (for example run 4)'
    """
    return f": {list_causes(causes)} (for example run {causes[0].index})" if causes else ""
