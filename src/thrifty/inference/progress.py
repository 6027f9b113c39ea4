"""A training bar on stderr: in a terminal, or when asked for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from thrifty.inference.settings import Training


@contextlib.contextmanager
def progress_bar(settings: Training) -> Iterator[Callable[[Any], None]]:
    """A function to call with the state after each epoch."""
    wanted = sys.stderr.isatty() if settings.progress is None else settings.progress
    if not wanted:
        yield lambda state: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("epoch {task.fields[epoch]}  validation {task.fields[loss]:.3f}  best {task.fields[best]:.3f}"),
        TextColumn("patience {task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
    )
    nan = float("nan")
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=settings.patience, epoch=0, loss=nan, best=nan)

        def advance(state: Any) -> None:
            bar.update(
                task,
                completed=state.since,
                epoch=len(state.validation),
                loss=state.validation[-1],
                best=state.validation[state.best_epoch],
            )

        yield advance
