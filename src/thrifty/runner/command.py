"""Run external programs as simulators: `th.Command(["./model", "{beta}", "--seed", "{seed}"], output="json")`.

Each run has its own empty working directory, gets its seed, and is judged by its exit code. No shell is ever
involved. A time limit ends the program with all it started, also what has a session of its own; what it leaves
running in the background is ended with it.

What a program wrote is read as JSON, CSV or NPY, never as anything that could run code.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import json
import math
import os
import shutil
import signal
import string
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thrifty.errors import SimulatorError
from thrifty.runner.engines.process_tree import MARK, adopt_orphans, end_group, end_marked
from thrifty.runner.peak_memory import PEAK_MEMORY
from thrifty.types import Array, Output

Format = Literal["json", "csv", "npy"]


def read_json(data: bytes, source: str) -> Output:
    """Read numbers, a list of numbers, {"x": [...], "cost": ...} or named numbers {"peak": 3, "size": 7, "cost": ...}.

    The last line counts if the whole is not JSON. "x" may hold named numbers as well.
    """
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise SimulatorError(f"{source} is empty", code="bad-output")
    for attempt in (text, text.splitlines()[-1]):
        try:
            value: Any = json.loads(attempt)
        except ValueError:
            continue
        if isinstance(value, dict):
            return _read_object(value, source)
        return Output(value)
    line = text.splitlines()[0][:80]
    raise SimulatorError(
        f"{source} line 1 is not JSON: {line!r}",
        code="bad-output",
        fix='output = "csv" reads numbers separated by blanks or commas'
        if _holds_numbers(text)
        else "print logs to stderr, or use file= for the output",
    )


def _holds_numbers(text: str) -> bool:
    """Whether the last line holds plain numbers, which csv reads and JSON does not."""
    return all(_is_number(cell) for cell in text.splitlines()[-1].replace(",", " ").split())


def _read_object(value: dict[str, Any], source: str) -> Output:
    """Read an object: "x" is the whole output where it is there, else all but "cost" are named numbers."""
    named = {name: number for name, number in value.items() if name not in ("x", "cost")}
    if "x" not in value:
        if not named:
            raise SimulatorError(
                f'{source}: an object without "x" or named numbers: {sorted(value)}', code="bad-output"
            )
        return Output(named, cost=value.get("cost"))
    if named and isinstance(value["x"], int | float):
        raise SimulatorError(
            f'{source}: an object with "x" and {", ".join(named)}',
            code="bad-output",
            why='"x" is the whole output, and the others would be lost',
            fix='{"x": {"x": 1.0, "y": 2.0}} for named numbers',
        )
    return Output(value["x"], cost=value.get("cost"))


def read_csv(data: bytes, source: str) -> Output:
    """Read numbers separated by commas, blanks or lines; a first line of words is a header, which names one row."""
    header, rows = split_csv(data)
    if not rows:
        raise SimulatorError(f"{source} holds no numbers", code="bad-output")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if not _is_number(cell):
                raise SimulatorError(
                    f"{source} line {i + 1} column {j + 1} {cell[:30]!r} is not a number", code="bad-output"
                )
    if len({len(row) for row in rows}) > 1:
        raise SimulatorError(f"{source}: lines of {sorted({len(row) for row in rows})} values", code="bad-output")
    table = np.array(rows, dtype=np.float64)
    if len(table) == 1 and len(header) == table.shape[1] == len(set(header)):
        return Output(dict(zip(header, table[0].tolist(), strict=True)))
    return Output(table.ravel() if 1 in table.shape else table)


def split_csv(data: bytes) -> tuple[list[str], list[list[str]]]:
    r"""Split text into the names of its header, if it has one, and the cells of its other lines.

    Example:
        >>> split_csv(b"peak day,size\n3,4\n"), split_csv(b"3 4")
        ((['peak day', 'size'], [['3', '4']]), ([], [['3', '4']]))
    """
    lines = [line for line in data.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    rows = [line.replace(",", " ").split() for line in lines]
    if not rows or any(_is_number(cell) for cell in rows[0]):
        return [], rows
    header = [name.strip() for name in lines[0].split(",")] if "," in lines[0] else rows[0]
    return header, rows[1:]


def read_npy(data: bytes, source: str) -> Output:
    """Read an array of numbers in numpy's format, without pickles."""
    try:
        _check_npy_size(data)
        return Output(np.load(io.BytesIO(data), allow_pickle=False))
    except (ValueError, EOFError, OSError, MemoryError) as error:
        raise SimulatorError(f"{source} is not an array of numbers: {error}", code="bad-output") from None


def _check_npy_size(data: bytes) -> None:
    """Refuse a header that declares more numbers than there are, before memory is allocated for them."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if math.prod(shape) * dtype.itemsize > len(data) - stream.tell() and not dtype.hasobject:
        raise ValueError(f"it declares shape {shape}, but holds {len(data) - stream.tell():,} bytes")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


PARSERS: dict[str, Callable[[bytes, str], Output]] = {"json": read_json, "csv": read_csv, "npy": read_npy}
Parser = Callable[[str, Path], Any]
NEAR_NAME = 0.75  # likeness of a name that was probably meant: one letter of four is wrong
MAX_STDERR_CHARACTERS = 2000  # kept for a failed run
_worker: dict[str, Any] = {"pid": -1, "scratch": None}  # process id and folder for runs, in a worker process


class ProgramCrashError(Exception):
    """The program was ended by a signal that was not ours."""


@dataclass(frozen=True, repr=False)
class Command:
    """A program that reads parameters from its arguments and writes numbers.

    Args:
        arguments: Program and arguments; "{name}" is replaced by that parameter with all its digits, "{seed}" by
            a 31-bit seed that no other run has. Relative paths mean the folder in which the command was made.
        output: "json" (numbers, a list, or {"x": [...], "cost": ...}), "csv" (numbers), "npy", or a
            function parser(stdout, folder).
        file: Output file in the working directory; standard output when left out.
        names: Parameter names in order; known from the prior when left out.
        environment: Extra environment variables.

    Example:
        >>> command = th.Command(["echo", "[{a}, {b}]"], output="json", names=("a", "b"))
        >>> command(np.array([1.0, 2.5]), 0).x
        [1.0, 2.5]
    """

    arguments: Sequence[str]
    output: Format | Parser = "json"
    file: str | None = None
    names: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    call_style: Literal["seed"] = "seed"

    def __repr__(self) -> str:
        return f"Command({' '.join(map(str, self.arguments))})"

    def __post_init__(self) -> None:
        if isinstance(self.arguments, str) or not self.arguments:
            raise SimulatorError(
                f"arguments must be a list, got {self.arguments!r}",
                code="bad-command",
                fix='th.Command(["./model", "{beta}"])',
            )
        if not callable(self.output) and self.output not in PARSERS:
            raise SimulatorError(f"output must be one of {', '.join(PARSERS)} or a function", code="bad-command")
        if self.file is not None and (os.path.isabs(self.file) or ".." in Path(self.file).parts):
            raise SimulatorError(f"file {self.file!r} must lie in the working directory of the run", code="bad-command")
        arguments = [_find_executable(str(self.arguments[0])), *(_as_absolute(str(a)) for a in self.arguments[1:])]
        object.__setattr__(self, "arguments", tuple(arguments))
        object.__setattr__(self, "names", tuple(self.names))
        self._check_names()

    def bind_names(self, names: Sequence[str]) -> Command:
        """Return the same command knowing the names of the parameters."""
        return self if self.names or not names else replace(self, names=tuple(names))

    bound = bind_names  # its earlier name

    def fingerprint(self) -> dict[str, str]:
        """Return arguments, and a hash of every file named in them."""
        parts = {f"argument {i}": argument for i, argument in enumerate(self.arguments)}
        for argument in self.arguments:
            path = Path(argument)
            if path.is_file():
                with open(path, "rb") as file:
                    parts[f"file {path.name}"] = hashlib.file_digest(file, "blake2b").hexdigest()[:16]
        return {**parts, "output": getattr(self.output, "__name__", str(self.output))}

    def __call__(self, theta: Array, seed: int) -> Any:
        """Run the program once."""
        scratch = _worker["scratch"] if _is_worker() else None
        with tempfile.TemporaryDirectory(prefix="thrifty-", dir=scratch) as folder:
            stdout = self._execute(self._fill_arguments(theta, seed), Path(folder))
            source: bytes = stdout
            if self.file is not None:
                path = Path(folder) / self.file
                if not path.is_file():
                    raise SimulatorError(f"{self._label} wrote no {self.file}", code="bad-output")
                source = path.read_bytes()
            if callable(self.output):
                return self.output(stdout.decode("utf-8", "replace"), Path(folder))
            return PARSERS[self.output](source, self.file or "stdout")

    @property
    def _label(self) -> str:
        return Path(self.arguments[0]).name

    def _list_fields(self) -> list[str]:
        found = [name for a in self.arguments for _, name, _, _ in string.Formatter().parse(a) if name is not None]
        return list(dict.fromkeys(name for name in found if name != "seed"))

    def _check_names(self) -> None:
        try:
            fields = self._list_fields()
        except ValueError as error:
            raise SimulatorError(
                f"arguments cannot be filled in: {error}", code="bad-command", fix="write {{ for a brace"
            ) from None
        unknown = [name for name in fields if self.names and name not in self.names and not name.isdigit()]
        odd = [name for name in fields if not (name.isidentifier() or name.isdigit())]
        if unknown or odd:
            raise SimulatorError(
                f"the command asks for {(unknown or odd)[0]!r}; parameters: {', '.join(self.names) or 'unnamed'}",
                code="bad-command",
            )

    def _fill_arguments(self, theta: Array, seed: int) -> list[str]:
        names = self.names or tuple(name for name in self._list_fields() if not name.isdigit())
        values = {name: repr(float(value)) for name, value in zip(names, theta, strict=False)}
        values |= {str(i): repr(float(value)) for i, value in enumerate(theta)}
        try:
            return [_fill(argument, {**values, "seed": str(seed)}) for argument in self.arguments]
        except KeyError as missing:
            raise SimulatorError(f"no parameter named {missing} for the command", code="bad-command") from None

    def _execute(self, arguments: list[str], folder: Path) -> bytes:
        alone = not _is_worker()  # a session of its own keeps Ctrl-C away
        if not alone:
            adopt_orphans()
        mark = f"{os.environ.get(MARK, '')}:{folder}"
        with open(folder / ".stderr", "w+b") as errors, open(folder / ".stdout", "w+b") as out:
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, **dict(self.environment), MARK: mark},
                start_new_session=alone,
            )
            try:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            finally:
                end_group(process.pid) if alone else end_marked(mark)
            PEAK_MEMORY.add_program(usage)
            out.seek(0)
            if process.returncode != 0:
                raise self._failure_error(process.returncode, errors)
            return out.read()

    def _failure_error(self, code: int, errors: Any) -> Exception:
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - MAX_STDERR_CHARACTERS))
        text = errors.read().decode("utf-8", "replace").strip()
        last = text.splitlines()[-1] if text else "nothing on stderr"
        if code < 0:
            return ProgramCrashError(f"{self._label} was killed by {_signal_name(-code)}; stderr: {text or last}")
        return SimulatorError(
            f"{self._label} exited with {code}; last stderr line: {last!r}\n{text}", code="simulator-failed"
        )


def _fill(argument: str, values: dict[str, str]) -> str:
    parts = []
    for text, name, _, _ in string.Formatter().parse(argument):
        parts.append(text)
        if name is not None:
            parts.append(values[name])
    return "".join(parts)


def _find_executable(name: str) -> str:
    """Return the program's full path; a missing or not executable one is an error before anything starts."""
    found = shutil.which(name)
    if found is not None:
        return os.path.abspath(found)
    if os.path.isdir(name):
        raise SimulatorError(f"{name!r} is a folder, a program was expected", code="bad-command")
    if os.path.exists(name) and os.access(name, os.X_OK):  # here, but programs of this folder are named by a path
        raise SimulatorError(f"{name!r} is not on the path", code="bad-command", fix=f"./{name}")
    if os.path.exists(name):
        mode = os.stat(name).st_mode & 0o777
        raise SimulatorError(
            f"{name!r} is not executable (mode {mode:04o})", code="bad-command", fix=f"chmod +x {name}"
        )
    near = find_near_program(name)
    meant = f". Did you mean {near!r}?" if near else ""
    raise SimulatorError(
        f"{name!r} was not found (in {os.getcwd()} and on the path){meant}",
        code="bad-command",
        fix=f"write {near} in the command" if near else "correct its path in the command",
    )


def find_near_program(name: str) -> str:
    """Return the name of a program that is spelt nearly so, in the folder that the name leads to or on the path."""
    folder, base = os.path.split(name)
    here = {os.path.join(folder or ".", file): file for file in _list_programs(folder or ".")}
    near = difflib.get_close_matches(base, here.values(), n=1, cutoff=NEAR_NAME)
    if near or folder:
        return next((path for path, file in here.items() if near == [file]), "")
    known = {file for place in os.get_exec_path() for file in _list_programs(place)}
    return next(iter(difflib.get_close_matches(base, sorted(known), n=1, cutoff=NEAR_NAME)), "")


def _list_programs(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as files:
            return [file.name for file in files if file.is_file() and os.access(file.path, os.X_OK)]
    except OSError:  # the path names folders that do not exist
        return []


def find_near_files(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return (argument, file) for each argument that is no file, where a file of its kind is spelt nearly so."""
    found = []
    for argument in arguments:
        folder, base = os.path.split(argument)
        kind = os.path.splitext(base)[1]
        if not kind or "{" in argument or argument.startswith("-") or os.path.exists(argument):
            continue
        files = [file for file in _list_files(folder or ".") if file.endswith(kind)]
        near = difflib.get_close_matches(base, files, n=1, cutoff=NEAR_NAME)
        found += [(argument, os.path.join(folder, near[0]))] if near else []
    return found


def _list_files(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _as_absolute(argument: str) -> str:
    """Make the path of an existing file absolute, so that it is found from each run's own folder."""
    return os.path.abspath(argument) if "{" not in argument and os.path.isfile(argument) else argument


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):  # most real-time signals have no name
        return signal.Signals(number).name
    return f"signal {number}"


def enter_worker(scratch: str) -> None:
    """Note that this process is a worker: it leads its own session and ends all that programs leave behind.

    The folders of its runs are made in `scratch`, which the driver removes with the worker.
    """
    _worker.update(pid=os.getpid(), scratch=scratch)


def _is_worker() -> bool:
    return _worker["pid"] == os.getpid()
