"""Settings of the training loop, the runs it holds out, and the learning curve; no torch."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings, count_things
from thrifty.durations import Duration, read_seconds
from thrifty.errors import ConfigError, MissingExtraError
from thrifty.progress_bar import NotebookBar, is_notebook, wants_bar

# Epochs of a cycle are EPOCH_FACTOR / sqrt(n), so that the time grows as sqrt(n): 44 epochs at 1,000 runs, 20 at 5,000.
# Twice as many make the training loss lower and the posterior worse (counts, up to 5,000 runs, development seeds 101 to
# 103). But 20,000 runs with 10 epochs are not learned: 20 gain 0.017, 0.004, 0.017, 0.069 nat (seeds 102 to 105).
EPOCH_FACTOR, MIN_CYCLE_EPOCHS, MAX_CYCLE_EPOCHS = 1400.0, 20, 100
IMAGE_BATCH_ROWS = 64
CYCLE_BATCH_ROWS = 100  # steps of 50 rows take more time an epoch, of 250 more epochs
FEW_OUTPUTS = 6  # a likelihood of so few may need many epochs for its details, one of more learns the noise of its runs
MANY_OUTPUTS = 10  # above, each output of a likelihood keeps its own best epoch (`likelihood_fit`)
# Weight decay of a likelihood of many outputs is DECAY_RUNS / n. Without, 200 runs of ten outputs lose 1.0 nat, 500
# runs of eight 0.8 nat; with three times as much, 3,000 runs of eight lose 0.5 nat (development seeds 101 to 107).
DECAY_RUNS, MAX_WEIGHT_DECAY = 600.0, 1.5
BAR_CHARACTERS = 12  # of the bar in a terminal, so that its words fit into 100 columns
MAX_MEMBER_GAP_NATS = 0.1  # of networks trained alike: those that learned differ by 0.03, those that are stuck by 0.5
MEMBER_NOISE_NATS = 3.0  # over the root of the held-out rows: with 20 of them, networks that learned differ by 0.5
LATE_SHARE = 0.9  # of a cycle: where the best epoch is earlier, more of them do not help
MIN_GAIN_NATS = 0.02  # of the held-out loss per run: a width wrong by a tenth costs as much
CYCLE_GROWTH, MAX_CYCLE_STEPS = 4, 8_000  # where cycles were lengthened until nothing was won, 7,500 steps were enough
MIN_HELD_OUT_ROWS = 60  # with fewer, each member of a network holds out more of its own


@dataclass(frozen=True, repr=False)
class Training(DisplayedSettings):
    """How to train; every default was measured on 5,000 epidemic runs.

    Args:
        batch: Rows per step; by default a ninth of the training rows, between 50 and 500 (larger steps cost
            the same time and lose nothing), at most 100 in a cycle, and 64 for `th.ImageEmbedding`.
        learning_rate: Of AdamW; reached after 20 steps. A cycle rises to three times of it.
        averaging: Share kept by the running mean of the weights at each step; the mean is what is validated and
            returned. 0 for none.
        patience: Epochs without a better validation loss before stopping; the averaged network's curve is smooth, and
            no fit found a better epoch between the 8th and the 20th.
        max_epochs: Limit on epochs.
        validation: Share of runs held out, chosen by a hash of their index.
        clip: Largest norm of a gradient.
        time_limit: Seconds of training, or a text such as "10 min", or None.
        checkpoint: File to write each epoch and to resume from, or None.
        progress: Show a bar; by default in a terminal and in a notebook.
        cycle: Epochs of one cycle of the learning rate, up and down to almost nothing, after which training ends. 0
            for a constant rate that is halved when progress stalls, until `patience` ends it. By default a cycle of
            1,400 / sqrt(n) epochs, between 10 and 100, for NLE and for MAF without an embedding, else 0. NLE with few
            outputs trains again with a cycle four times as long, and again, while held-out runs are predicted better.
        weight_decay: Of AdamW: each step shrinks the network by this share of the learning rate. By default 600 / n, at
            most 1.5, for NLE with more than 6 outputs and no ties, else 0.
        device: Where to train: "cpu", "cuda", "cuda:1", "mps", or "auto" for an accelerator where there is one. The
            data are moved there once; the network comes back, and posteriors and files do not know the device.

    Example:
        >>> Training(patience=10).max_epochs
        1000
    """

    batch: int | None = None
    learning_rate: float = 3e-3
    averaging: float = 0.98
    patience: int = 12
    max_epochs: int = 1000
    validation: float = 0.1
    clip: float = 5.0
    time_limit: Duration | None = None
    checkpoint: str | Path | None = None
    progress: bool | None = None
    cycle: int | None = None
    device: str = "cpu"
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.time_limit, str):
            object.__setattr__(self, "time_limit", read_seconds(self.time_limit, "time_limit"))
        wrong = [label for label in _ALLOWED if not _is_allowed(label, getattr(self, label))]
        if wrong:
            listed = ", ".join(f"{label} = {getattr(self, label)!r}" for label in wrong)
            raise ConfigError(f"Training cannot use {listed}", code="bad-setting", fix="see help(th.Training)")

    def settle(self, runs: int, *, cyclic: bool, images: bool = False, outputs: int = 0) -> Training:
        """Choose what is left open: epochs of the cycle, weight decay of NLE of `outputs`, rows per step for images.

        Example:
            >>> Training().settle(5000, cyclic=True).cycle, Training(cycle=7).settle(5000, cyclic=False).cycle
            (20, 7)
            >>> [Training().settle(n, cyclic=True, outputs=8).weight_decay for n in (100, 1000, 20_000)]
            [1.5, 0.6, 0.03]
        """
        epochs = min(max(round(EPOCH_FACTOR / math.sqrt(runs)), MIN_CYCLE_EPOCHS), MAX_CYCLE_EPOCHS)
        decay = min(DECAY_RUNS / runs, MAX_WEIGHT_DECAY) if outputs > FEW_OUTPUTS else 0.0
        return replace(
            self,
            # convolutions need some hundred steps before they see anything
            batch=IMAGE_BATCH_ROWS if images and self.batch is None else self.batch,
            cycle=(epochs if cyclic else 0) if self.cycle is None else self.cycle,
            weight_decay=decay if self.weight_decay is None else self.weight_decay,
        )

    def choose_batch(self, rows: int) -> int:
        """Choose the rows per step.

        Example:
            >>> [t.choose_batch(3000) for t in (Training(), Training(cycle=20), Training(batch=64))]
            [333, 100, 64]
        """
        return self.batch or min(max(rows // 9, 50), CYCLE_BATCH_ROWS if self.cycle else 500)

    def count_steps(self, rows: int) -> int:
        """Count the steps of a cycle.

        Example:
            >>> Training(cycle=20).count_steps(3000)
            600
        """
        return (self.cycle or 0) * rows // self.choose_batch(rows)

    def lengthen(self, rows: int, spent_seconds: float) -> Training | None:
        """Return the settings of another training with a cycle up to four times as long; None where that is too long.

        Example:
            >>> Training(cycle=20, time_limit="1 min").lengthen(3000, 20.0).cycle
            80
            >>> Training(cycle=20, max_epochs=30).lengthen(3000, 20.0) is None
            True
        """
        factor = min(CYCLE_GROWTH, MAX_CYCLE_STEPS // max(self.count_steps(rows), 1))
        cycle = min(factor * (self.cycle or 0), self.max_epochs)  # a cycle that is cut ends with a high learning rate
        left = None if self.time_limit is None else float(self.time_limit) - spent_seconds
        if cycle < 2 * (self.cycle or 0) or (left is not None and left <= 0):
            return None
        return replace(self, cycle=cycle, patience=max(self.patience, cycle), time_limit=left)


_WHOLE, _NUMBER, _OPTIONAL = int | np.integer, int | float | np.number, ("batch", "time_limit", "cycle", "weight_decay")
_ALLOWED: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "batch": (_WHOLE, lambda value: value >= 2),
    "learning_rate": (_NUMBER, lambda value: 0 < value < math.inf),
    "averaging": (_NUMBER, lambda value: 0 <= value < 1),
    "patience": (_WHOLE, lambda value: value >= 1),
    "max_epochs": (_WHOLE, lambda value: value >= 1),
    "validation": (_NUMBER, lambda value: 0 < value <= 0.5),
    "clip": (_NUMBER, lambda value: value > 0),
    "time_limit": (_NUMBER, lambda value: value > 0),
    "cycle": (_WHOLE, lambda value: value >= 0),
    "weight_decay": (_NUMBER, lambda value: 0 <= value < math.inf),
    "device": (str, lambda value: bool(re.fullmatch(r"cpu|cuda(:\d+)?|mps|auto", value))),
}


def _is_allowed(label: str, value: Any) -> bool:
    kind, holds = _ALLOWED[label]
    return (value is None and label in _OPTIONAL) or (isinstance(value, kind) and holds(value))


@dataclass(frozen=True)
class TrainingCurve:
    """The learning curve: mean weighted losses in nats (of standardised numbers), one per epoch.

    Attributes:
        train: Over the training rows, while they were being learned.
        validation: Over the held-out rows, after each epoch.
        best_epoch: The epoch whose weights were kept, counted from 0.
        seconds: Time spent training.
        stopped: Why: "patience", "cycle" (it is complete), "max_epochs" or "time_limit".
        members: The lowest validation loss of each member of a network of several; of NLE with many outputs, the sum of
            the lowest of each output.
    """

    train: tuple[float, ...]
    validation: tuple[float, ...]
    best_epoch: int
    seconds: float
    stopped: str
    members: tuple[float, ...] = ()

    @property
    def best(self) -> float:
        """The lowest validation loss."""
        return self.validation[self.best_epoch]

    @property
    def best_member(self) -> float:
        """The lowest validation loss of a member."""
        return min(self.members)

    @property
    def is_unfinished(self) -> bool:
        """True when the loss was still falling at the end of the cycle: more epochs may lower it."""
        return self.stopped == "cycle" and self.best_epoch >= LATE_SHARE * len(self.validation)

    def choose_members(self, held_out: int) -> tuple[int, ...]:
        """Choose the members that have learned: those not clearly behind the best on so many held-out runs.

        Example:
            >>> curve = TrainingCurve((), (), 0, 0.0, "cycle", members=(-4.9, -4.3, -4.88))
            >>> curve.choose_members(1_000), curve.choose_members(20)
            ((0, 2), (0, 1, 2))
        """
        gap = max(MAX_MEMBER_GAP_NATS, MEMBER_NOISE_NATS / math.sqrt(held_out))
        return tuple(i for i, loss in enumerate(self.members) if loss <= self.best_member + gap)


def mark_held_out(index: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.bool_]:
    """Mark the runs that validate by a hash of their index, the same in every table that contains the run.

    Example:
        >>> bool(abs(mark_held_out(np.arange(10_000), 0.1).mean() - 0.1) < 0.01)
        True
    """
    h = _hash_index(index)
    chosen = h < np.uint64(int(share * 2**64))
    if min(chosen.sum(), (~chosen).sum()) < 5:  # a tiny table: the lowest hashes instead
        chosen = np.zeros(len(h), bool)
        chosen[np.argsort(h, kind="stable")[: max(2, round(share * len(h)))]] = True
    return chosen


def assign_folds(index: npt.NDArray[np.int64], validates: npt.NDArray[np.bool_], members: int) -> npt.NDArray[np.bool_]:
    """Mark (members, n) the rows that each member of a network does not train on: the held-out ones, and more if few.

    With few held-out runs, one split stops all members by the same chance. Each then leaves out a tenth of its own
    besides, and their mean depends less on any of them: the spread over seeds is halved at 300 runs. Folds are a
    function of the index alone, like the held-out runs, which stay unseen by all members.

    Example:
        >>> index = np.arange(300)
        >>> apart = assign_folds(index, mark_held_out(index, 0.1), 5)
        >>> apart.shape, bool((apart.sum(0)[~mark_held_out(index, 0.1)] <= 1).all())
        ((5, 300), True)
    """
    apart = np.repeat(validates[None], members, axis=0)
    if members > 1 and validates.sum() < MIN_HELD_OUT_ROWS:
        fold = (_hash_index(_hash_index(index).view(np.int64)) >> np.uint64(11)) % np.uint64(max(members, 10))
        apart |= fold == np.arange(members, dtype=np.uint64)[:, None]
    return apart


def _hash_index(index: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    h = index.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of splitmix64
        h = (h + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFFFFFFFFFFFFFF)
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    return h ^ (h >> np.uint64(31))


def fingerprints(theta: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Compute a 64-bit number for each row of theta (n, p), which identifies a run whatever its index.

    Example:
        >>> a = np.array([[0.1, 2.0], [2.0, 0.1], [0.1, 2.0]])
        >>> first, other, again = fingerprints(a)
        >>> bool(first == again), bool(first == other)
        (True, False)
    """
    bits = np.ascontiguousarray(theta + 0.0, dtype=np.float64).view(np.uint64)  # + 0.0: -0 and 0 are one number
    h = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        h = (h + column + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return h.view(np.int64)


def fingerprint_held_out(
    theta: npt.NDArray[np.float64], index: npt.NDArray[np.int64], share: float
) -> npt.NDArray[np.int64]:
    """Return fingerprints of the runs that validated and of no run that trained: a posterior may be tested on them."""
    validates = mark_held_out(index, share)
    prints = fingerprints(theta)
    return np.setdiff1d(prints[validates], prints[~validates])


def require_neural() -> None:
    """Refuse, in one line, when torch or zuko is not installed.

    Raises:
        MissingExtraError: missing-extra, naming the extra.
    """
    from importlib.util import find_spec

    missing = [name for name in ("torch", "zuko") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f'neural inference needs {" and ".join(missing)}: pip install "thrifty[neural]"', code="missing-extra"
        )


def _describe_epoch(state: Any) -> str:
    losses = state.validation
    return f"epoch {len(losses)}, held-out loss {losses[-1]:.3f}, lowest {losses[state.best_epoch]:.3f}"


def _describe_wait(state: Any, settings: Training) -> str:
    return f"no gain for {state.since} of {settings.patience}"


def _describe_end(state: Any, settings: Training) -> str:
    """Say why a training ended, so that an early end does not look like a failure."""
    epochs = len(state.validation)
    if state.since >= settings.patience:
        reason = f"no gain for {count_things(state.since, 'epoch')}"
    elif epochs >= (settings.cycle or settings.max_epochs):
        reason = "all epochs are done"
    else:
        reason = "its time is over"
    lowest = state.validation[state.best_epoch]
    return f"ended at epoch {epochs}: {reason}; held-out loss {lowest:.3f} (lower is better)"


@contextlib.contextmanager
def show_progress(settings: Training) -> Iterator[Callable[[Any], None]]:
    """Yield a function to call with the state after each epoch."""
    if not wants_bar(settings.progress):
        yield lambda state: None
        return
    if is_notebook():
        shown, states = NotebookBar("training"), []

        def draw(state: Any) -> None:
            states[:] = [state]
            wait = _describe_wait(state, settings)  # what the bar shows
            shown.update(state.since / settings.patience, [f"{_describe_epoch(state)}; {wait}"])

        yield draw
        if states:
            shown.label = "trained"
            shown.update(1.0, [_describe_end(states[0], settings)], force=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    label = TextColumn("training", table_column=Column(min_width=len("training"), no_wrap=True))
    words = TextColumn("{task.fields[words]}", table_column=Column(no_wrap=False))  # two lines where it is narrow
    columns = (label, BarColumn(bar_width=BAR_CHARACTERS), words, TimeElapsedColumn())
    last: list[Any] = []
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=settings.patience, visible=False, words="")

        def advance(state: Any) -> None:
            last[:] = [state]
            text = f"{_describe_epoch(state)}; {_describe_wait(state, settings)}"
            bar.update(task, completed=state.since, visible=True, words=text)

        yield advance
        if last:
            bar.update(task, completed=settings.patience, words=_describe_end(last[0], settings))
