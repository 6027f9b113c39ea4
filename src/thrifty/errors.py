"""Everything thrifty raises, in one tree.

```
ThriftyError                    .code, .what, .why, .fix, .exit_code        codes, for example
├── InputError (ValueError)     something passed in is wrong        exit 2
│   ├── PriorError              bounds, names, sampler, density             bad-prior
│   ├── SimulatorError          signature, output, executable       exit 5  bad-simulator, bad-output
│   ├── CostError               timings and cost functions                  bad-cost, too-few-pilots
│   ├── PenaltyError            penalties and mixtures                      bad-penalty
│   ├── WeightError             importance weights                          bad-weights
│   ├── DataError               tables, files and observations              bad-array, bad-observation
│   └── ConfigError             settings, budgets, command line             bad-setting, budget-too-small
├── SelfCheckError              weighted draws miss the prior       exit 4  self-check-failed
├── QualityGateError            too much prior mass failed          exit 4  too-many-failures
├── MissingExtraError           an optional dependency is missing   exit 2  missing-extra
├── InferenceError              training or sampling cannot go on   exit 4  too-few-runs, poor-training
└── CampaignError               the run folder                      exit 5  no-campaign, read-only
    ├── FolderInUseError        another driver owns it              exit 6  folder-in-use
    ├── DamagedStoreError       rows fail their checksum            exit 7  damaged-folder
    └── StorageError            disk full, read-only, I/O           exit 8  disk-problem
ThriftyWarning (UserWarning)    the run goes on, the reader should know
```

One form for all: *what* is wrong, with the value and its place; *why* it matters; the *fix*.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

_LIBRARY = f"{sysconfig.get_paths()['stdlib']}{os.sep}"  # of Python itself
_HOME = f"{Path(__file__).parent}{os.sep}"  # of the files whose lines a warning does not point at


class ThriftyError(Exception):
    """Base of all errors; `str(error)` is the whole message.

    Args:
        what: What is wrong, with the value and its place.
        why: One line on why it matters.
        fix: One line on the way out.
        code: Stable name of the cause, with a section in `docs/messages.md`.

    Example:
        >>> print(PriorError("low 1.0 is not below high 0.1", code="bad-prior", fix="swap them"))
        [bad-prior] low 1.0 is not below high 0.1
          fix: swap them
    """

    exit_code = 2

    def __init__(self, what: str, *, why: str = "", fix: str = "", code: str = "") -> None:
        self.what, self.why, self.fix, self.code = what, why, fix, code
        super().__init__(what, why, fix, code)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}" if self.code else self.what]
        lines += [f"  why: {self.why}"] if self.why else []
        lines += [f"  fix: {self.fix}"] if self.fix else []
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:  # keyword-only arguments survive a worker boundary
        return (partial(type(self), why=self.why, fix=self.fix, code=self.code), (self.what,))


class InputError(ThriftyError, ValueError):
    """Something passed in is wrong."""


class PriorError(InputError):
    """A prior that cannot be sampled, evaluated or believed."""


class SimulatorError(InputError):
    """A simulator that cannot be called, or whose output cannot be used."""

    exit_code = 5


class CostError(InputError):
    """Costs that are not positive finite numbers, or cannot be modelled."""


class PenaltyError(InputError):
    """A penalty that is not a positive non-decreasing function, or cannot be sampled under."""


class WeightError(InputError):
    """Importance weights that are not weights."""


class DataError(InputError):
    """Tables or observations of the wrong shape or content."""


class ConfigError(InputError):
    """Settings that cannot be honoured."""


class SelfCheckError(ThriftyError):
    """Weighted proposal draws do not reproduce the prior; nothing may be run."""

    exit_code = 4


class QualityGateError(ThriftyError):
    """More prior mass failed than the gate allows."""

    exit_code = 4


class MissingExtraError(ThriftyError, ImportError):
    """An optional dependency is not installed."""


class InferenceError(ThriftyError):
    """Training or posterior sampling cannot go on."""

    exit_code = 4


class CampaignError(ThriftyError):
    """The run folder cannot be used as asked."""

    exit_code = 5


class FolderInUseError(CampaignError):
    """Another driver owns the folder."""

    exit_code = 6


class DamagedStoreError(CampaignError):
    """Recorded rows fail their checksum."""

    exit_code = 7


class StorageError(CampaignError):
    """The disk is full, read-only or failing."""

    exit_code = 8


class ThriftyWarning(UserWarning):
    """The run goes on, but the reader should know.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", th.ThriftyWarning)  # as an error
    """


_seen: ContextVar[set[str] | None] = ContextVar("seen", default=None)


@contextmanager
def warn_once(seen: set[str] | None = None) -> Iterator[None]:
    """Say each warning once in this context, also where many steps find the same; `seen` are those said before."""
    outer = _seen.get()
    token = _seen.set(outer if outer is not None else set() if seen is None else seen)
    try:
        yield
    finally:
        _seen.reset(token)


def warn(message: str, *, stacklevel: int = 3) -> None:
    """Warn, pointing at the line outside thrifty that led here; inside `warn_once` once for each message."""
    seen = _seen.get()
    if seen is not None:
        if message in seen:
            return
        seen.add(message)
    warnings.warn(message, ThriftyWarning, stacklevel=_find_caller() or stacklevel)


def is_own_file(path: str) -> bool:
    """Return whether a file belongs to thrifty."""
    return path.startswith(_HOME)


def _find_caller() -> int:
    """Return the stack level of the first line outside thrifty, counted from `warn`; 0 where there is none."""
    frame, level = sys._getframe(1), 1
    first = 0  # line outside thrifty, be it of Python's own library: `cached_property` calls what is cached
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_HOME):
            first = first or level
            if not _is_library(path):
                return level
        frame, level = frame.f_back, level + 1
    return first


def _is_library(path: str) -> bool:
    """Return whether a file belongs to Python itself, installed packages not counted."""
    return path.startswith("<frozen") or (path.startswith(_LIBRARY) and "-packages" not in path)


def import_extra(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it.

    Raises:
        MissingExtraError: missing-extra, naming the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed ({error})",
            code="missing-extra",
            fix=f'pip install "thrifty[{extra}]"',
        ) from None
