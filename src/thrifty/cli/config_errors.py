"""Collect the mistakes of a configuration, each with its line and with what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thrifty.errors import ConfigError, ThriftyError
from thrifty.named import find_nearest

_HEADER = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(#.*)?")


class ManyErrors(ConfigError):  # noqa: N818 - it is several of them
    """Report several mistakes at once; `errors` holds them one by one."""

    def __init__(self, errors: Iterable[ThriftyError]) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(self.errors)} things are wrong", code=self.errors[0].code)
        self.exit_code = 2 if any(e.exit_code == 2 for e in self.errors) else self.errors[0].exit_code

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class Problems:
    """Collect errors while a file is read; `close` raises them together."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.splitlines()
        self.errors: list[ThriftyError] = []

    def add(self, what: str, *, at: str, code: str, fix: str = "") -> None:
        """Note what is wrong at "section.key"."""
        self.errors.append(ConfigError(f"{self.place(at)}: {what}", code=code, fix=fix))

    def unknown(self, where: str, name: str, known: Iterable[str], *, kind: str = "key") -> None:
        """Note an unknown name, with the nearest known one."""
        known = list(known)
        meant = did_you_mean(name, known)
        fix = "" if meant else f"known here: {', '.join(known)}"
        self.add(f"unknown {kind} {name!r}.{meant}", at=where, code="bad-name", fix=fix)

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Note any ThriftyError raised inside, with its place in the file."""
        try:
            yield
        except ThriftyError as error:
            error.what = f"{self.place(where)}: {error.what}"
            self.errors.append(error)

    def place(self, where: str) -> str:
        """Return the place of "section.key", as in "thrifty.toml line 9"."""
        line = self.line_of(where)
        return f"{self.path.name} line {line}" if line else self.path.name

    def line_of(self, where: str) -> int:
        """Return the line of "section.key", or of the section, or 0."""
        section, _, key = where.partition(".")
        key = key.split(".")[0]
        inside, found = "", 0
        for number, line in enumerate(self.lines, start=1):
            header = _HEADER.fullmatch(line)
            if header:
                inside = header[1].strip("\"' ")
                if inside == where:
                    return number
                found = number if inside == section and not found else found
                continue
            wanted = key if inside == section and key else section if not inside and not key else None
            if wanted and re.match(rf"\s*[\"']?{re.escape(wanted)}[\"']?\s*[=.]", line):
                return number
        return found

    def close(self) -> None:
        """Raise the collected errors, if any."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ManyErrors(self.errors)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the nearest known name, or nothing.

    Example:
        >>> did_you_mean("buget", ["budget", "n"])
        " Did you mean 'budget'?"
    """
    near = find_nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""


def format_value(value: Any) -> str:
    """Format a value as it is written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value[:40]}"' if isinstance(value, str) else f"{value!r:.60}"
