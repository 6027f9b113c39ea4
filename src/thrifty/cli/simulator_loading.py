"""From `[simulator]` to something to call. Only here is the user's code loaded, and only by commands that run it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.config_tables import Settings, SimulatorSettings
from thrifty.errors import SimulatorError


def load_simulator(settings: Settings) -> Callable[..., Any]:
    """The function or program that the user's configuration names.

    Raises:
        SimulatorError: cannot-load-simulator, bad-simulator for a wrong signature, bad-command where the program is
            missing or not executable.
    """
    from thrifty.runner.simulator import bind_names, call_style

    chosen = settings.simulator
    made = _program(chosen, settings.home) if chosen.command else _function(chosen.python, settings.home)
    simulator = bind_names(made, settings.prior.names)
    call_style(simulator)
    return simulator


def _program(chosen: SimulatorSettings, home: Path) -> Callable[..., Any]:
    from thrifty.runner.command import Command

    with _inside(home):  # paths mean the folder of the configuration
        return Command(
            list(chosen.command),
            output=chosen.output,  # type: ignore[arg-type] - one of three, checked on reading
            file=chosen.file or None,
            environment=chosen.environment,
        )


@contextmanager
def _inside(folder: Path) -> Any:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _function(name: str, home: Path) -> Callable[..., Any]:
    place, _, attribute = name.rpartition(":")
    module = _from_file(name, home / place) if place.endswith(".py") else _from_path(name, place, home)
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = [key for key, thing in vars(value).items() if callable(thing) and not key.startswith("_")]
            raise SimulatorError(
                f"cannot import {name!r}: {place} has no {part!r}.{did_you_mean(part, known)}",
                code="cannot-load-simulator",
                fix=f"it has {', '.join(known[:8])}" if known else f"def {part}(theta, rng): ...",
            )
        value = getattr(value, part)
    return value


def _from_file(name: str, path: Path) -> ModuleType:
    """Import one file under its own name, or under another when Python already knows a module of that name."""
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise SimulatorError(
            f"cannot import {name!r}: no file {path}.{did_you_mean(path.name, near)}",
            code="cannot-load-simulator",
            fix="the path is relative to thrifty.toml",
        )
    title = path.stem if path.stem.isidentifier() else "model"
    if _taken(title, path):
        title = f"thrifty_model_{title}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise SimulatorError(f"cannot import {name!r}: Python has no loader for {path}", code="cannot-load-simulator")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # files beside the model can be imported by it, here and in workers
    sys.modules[title] = module
    try:
        with _explained(name, path):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(title, None)
        raise
    return module


def _taken(title: str, path: Path) -> bool:
    known = sys.modules.get(title)
    if known is not None:
        return Path(getattr(known, "__file__", None) or "/").resolve() != path.resolve()
    try:
        spec = importlib.util.find_spec(title)
    except (ImportError, ValueError):
        return False
    return spec is not None and Path(spec.origin or "/").resolve() != path.resolve()


def _from_path(name: str, place: str, home: Path) -> ModuleType:
    folder = str(home.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with _explained(name, home):
        return importlib.import_module(place)


@contextmanager
def _explained(name: str, path: Path) -> Any:
    """What the user's file raises while it is imported, in one message with its line."""
    try:
        yield
    except ModuleNotFoundError as error:
        fix = "run from the folder of thrifty.toml, or install it" if error.name else ""
        raise SimulatorError(f"cannot import {name!r}: {error}", code="cannot-load-simulator", fix=fix) from None
    except SyntaxError as error:
        line = f" line {error.lineno}" if error.lineno else ""
        raise SimulatorError(
            f"cannot import {name!r}: {Path(error.filename or path).name}{line}: {error.msg}",
            code="cannot-load-simulator",
        ) from None
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        last = frames[-1] if frames else None
        at = f" at {Path(last.filename).name} line {last.lineno} ({(last.line or '').strip()[:60]})" if last else ""
        raise SimulatorError(
            f"cannot import {name!r}: {type(error).__name__}: {str(error)[:200]}{at}", code="cannot-load-simulator"
        ) from None
