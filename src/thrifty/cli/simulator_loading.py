"""Load the simulator that `[simulator]` names: the only place of the command line that executes the user's code."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.config_tables import Settings, SimulatorSettings
from thrifty.errors import SimulatorError, warn


def load_simulator(settings: Settings) -> Callable[..., Any]:
    """Load the function or program that the user's configuration names.

    Raises:
        SimulatorError: cannot-load-simulator, bad-simulator for a wrong signature, bad-command where the program is
            missing or not executable.
    """
    from thrifty.runner.signatures import read_signature
    from thrifty.runner.simulator import bind_names

    chosen = settings.simulator
    made = _make_command(chosen, settings.home) if chosen.command else _import_function(chosen.python, settings.home)
    simulator = bind_names(made, settings.prior.names)
    read_signature(simulator, settings.prior.names)
    return simulator


def _make_command(chosen: SimulatorSettings, home: Path) -> Callable[..., Any]:
    from thrifty.runner.command import Command, find_near_files

    with chdir(home):  # paths are relative to the folder of the configuration
        for argument, file in find_near_files(chosen.command[1:]):
            warn(f"the command names {argument}, and there is no such file. Did you mean {file!r}?")
        return Command(
            list(chosen.command),
            output=chosen.output,  # type: ignore[arg-type] - one of three, checked on reading
            file=chosen.file or None,
            environment=chosen.environment,
        )


def _import_function(name: str, home: Path) -> Callable[..., Any]:
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        value: Any = _import_file(name, home / place)
    else:
        _add_to_path(home)
        with _explain_import_errors(name, home):
            value = importlib.import_module(place)
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = [key for key, thing in vars(value).items() if callable(thing) and not key.startswith("_")]
            fix = f"it has {', '.join(known[:8])}" if known else f"def {part}(theta, rng): ..."
            raise _import_error(name, f"{place} has no {part!r}.{did_you_mean(part, known)}", fix)
        value = getattr(value, part)
    return value


def _import_file(name: str, path: Path) -> ModuleType:
    """Import one file under its own name, or under another when Python already knows a module of that name."""
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        what = f"no file {path}.{did_you_mean(path.name, near)}"
        raise _import_error(name, what, "the path is relative to thrifty.toml")
    title = path.stem if path.stem.isidentifier() else "model"
    if _is_taken(title, path):
        title = f"thrifty_model_{title}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise _import_error(name, f"Python has no loader for {path}")
    module = importlib.util.module_from_spec(spec)
    _add_to_path(path.parent)
    sys.modules[title] = module
    try:
        with _explain_import_errors(name, path):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(title, None)
        raise
    return module


def _add_to_path(folder: Path) -> None:
    """Make files beside the model importable, here and in workers."""
    if (text := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, text)


def _is_taken(title: str, path: Path) -> bool:
    """Whether Python knows another module of this name."""
    known = sys.modules.get(title)
    if known is not None:
        return Path(getattr(known, "__file__", None) or "/").resolve() != path.resolve()
    try:
        spec = importlib.util.find_spec(title)
    except (ImportError, ValueError):
        return False
    return spec is not None and Path(spec.origin or "/").resolve() != path.resolve()


@contextmanager
def _explain_import_errors(name: str, path: Path) -> Iterator[None]:
    """Turn what the user's file raises during its import into one message with the line."""
    try:
        yield
    except ModuleNotFoundError as error:
        fix = "run from the folder of thrifty.toml, or install it" if error.name else ""
        raise _import_error(name, str(error), fix) from None
    except SyntaxError as error:
        line = f" line {error.lineno}" if error.lineno else ""
        raise _import_error(name, f"{Path(error.filename or path).name}{line}: {error.msg}") from None
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        last = frames[-1] if frames else None
        at = f" at {Path(last.filename).name} line {last.lineno} ({(last.line or '').strip()[:60]})" if last else ""
        raise _import_error(name, f"{type(error).__name__}: {str(error)[:200]}{at}") from None


def _import_error(name: str, what: str, fix: str = "") -> SimulatorError:
    return SimulatorError(f"cannot import {name!r}: {what}", code="cannot-load-simulator", fix=fix)
