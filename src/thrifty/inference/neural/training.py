"""The training loop of all networks: minimise sum_i w_i loss_i / sum_i w_i over the training rows.

The weights are scaled once, over the whole table, to mean 1; every mini-batch then uses mean(w_i · loss_i).
Dividing by the weights of each mini-batch instead, as is common, under-counts the largest ones (9 to 81 % at
k = 1 to 3 with batches of 50). Validation and early stopping use the same weights; which runs validate is a
function of their index alone. One thread, no data loader, fused optimiser.

A checkpoint holds the whole state as plain arrays after every epoch, so that a killed training goes on to the same
weights. A progress bar is drawn on stderr in a terminal, or when asked for.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.errors import ConfigError, InferenceError, WeightError
from thrifty.inference import archive
from thrifty.inference.neural.networks import choose_device, drop_subnormals, make_generator, use_one_thread
from thrifty.inference.neural.training_settings import Training, TrainingCurve, show_progress
from thrifty.types import Array

# (net, rows of each table, generator) -> (b,), or (members, b) for a network of several
Loss = Callable[[Any, tuple[Tensor, ...], torch.Generator], Tensor]
CYCLE_PEAK, RISING_SHARE, LAST_RATE = 3.0, 0.1, 0.02  # of the learning rate; of the cycle; of the learning rate
WARM_UP_STEPS = 20  # to the full learning rate: Adam's first moments are noise
ROWS_PER_VALIDATION = 2_000
_NETS = ("net", "average", "best")
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_COUNTERS = ("best_epoch", "since", "steps", "rate", "seconds")


@dataclass
class _State:
    """Everything that an interrupted training needs to go on as if it had not stopped."""

    net: nn.Module
    average: nn.Module
    best: nn.Module
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    lowest: Tensor = field(
        default_factory=lambda: torch.full((1,), math.inf).double()
    )  # validation loss of each part: of each member, or of each output of each
    best_epoch: int = 0
    since: int = 0
    steps: int = 0
    rate: float = 1.0
    seconds: float = 0.0

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]

    @property
    def members(self) -> int:
        return getattr(self.net, "members", 1)


class Table:
    """Tensors with one row per pair, their weights (mean 1), and the numbers of the training and the held-out rows.

    Attributes:
        apart: Which rows (members, n) each member of a network of several must not train on, or None.

    Raises:
        WeightError: few-effective-runs, all the weight is on one side.
    """

    def __init__(
        self, tensors: tuple[Tensor, ...], weights: Array, validates: np.ndarray, apart: np.ndarray | None = None
    ) -> None:
        self.tensors = tensors
        self.weights = torch.from_numpy(np.asarray(weights, dtype=np.float32))
        self.rows = torch.from_numpy(np.flatnonzero(~validates))
        self.held = torch.from_numpy(np.flatnonzero(validates))
        self.apart = None if apart is None or (apart == validates).all() else torch.from_numpy(apart)
        for side, which in (("held-out", self.held), ("training", self.rows)):
            if not float(self.weights[which].sum()) > 0:
                raise WeightError(
                    f"the {len(which)} {side} runs carry no weight",
                    code="few-effective-runs",
                    why="a few runs hold all of it",
                    fix="draw with a weaker penalty or a mixture that contains k = 0, or add runs",
                )

    def move(self, device: torch.device) -> None:
        """Move all tensors to a device."""
        self.tensors = tuple(t.to(device) for t in self.tensors)
        self.weights, self.rows, self.held = (t.to(device) for t in (self.weights, self.rows, self.held))
        self.apart = None if self.apart is None else self.apart.to(device)

    @property
    def checked(self) -> Tensor:
        """The numbers of the rows that at least one member validates on."""
        return self.held if self.apart is None else torch.nonzero(self.apart.any(0))[:, 0]

    def weigh(self, which: Tensor, *, held: bool) -> Tensor:
        """Return the weights (b,), or (members, b) with zeros for the rows that a member must not use so."""
        weights = self.weights[which]
        return weights if self.apart is None else weights * (self.apart[:, which] == held)


def scale_to_mean_one(log_weights: Array) -> Array:
    """Return weights with mean 1 over the whole table.

    Example:
        >>> scale_to_mean_one(np.log([1.0, 3.0])).tolist()
        [0.5, 1.5]
    """
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.mean()


def choose_contrasts(b: int, k: int, g: torch.Generator) -> Tensor:
    """Choose row numbers (b, k): each row itself, then k - 1 others of the batch, all different."""
    shifts = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(max(b - 1, 1), generator=g)[: k - 1]])
    return (torch.arange(b)[:, None] + shifts) % b


def train(net: nn.Module, loss: Loss, *, table: Table, settings: Training, seed: int) -> TrainingCurve:
    """Train `net` in place and leave it with its best weights.

    Raises:
        InferenceError: poor-training, the loss is not a finite number.
    """
    device = choose_device(settings.device)
    net.to(device)
    table.move(device)
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay or 0.0, fused=True
    )
    state = _State(net, copy.deepcopy(net), copy.deepcopy(net), optimiser, make_generator(seed))
    state.lowest = torch.full((getattr(net, "parts", 1),), math.inf, dtype=torch.float64)
    path = Path(settings.checkpoint) if settings.checkpoint else None
    mark = ""
    if path:
        folds = () if table.apart is None else (table.apart,)
        mark = _identify_training(net, (*table.tensors, table.weights, table.held, *folds), settings, seed)
        _load_checkpoint(path, mark, state)
    with use_one_thread(), drop_subnormals(), show_progress(settings) as advance:
        while not (stopped := _reason_to_stop(state, settings)):
            begun = time.monotonic()
            state.train.append(_train_epoch(state, loss, table, settings))
            _validate(state, loss, table)
            if not settings.cycle and state.since and state.since % max(settings.patience // 3, 1) == 0:
                state.rate *= 0.5  # no better for a while: smaller steps, which narrow posteriors need
            state.seconds += time.monotonic() - begun
            advance(state)
            if path:
                _save_checkpoint(path, mark, state)
    net.load_state_dict(state.best.state_dict())
    net.to("cpu").eval()
    losses, members = (tuple(state.train), tuple(state.validation)), tuple(_add_parts(state.lowest, state).tolist())
    return TrainingCurve(*losses, state.best_epoch, state.seconds, stopped, members)


def _reason_to_stop(state: _State, settings: Training) -> str:
    if state.since >= settings.patience:
        return "patience"
    if settings.cycle and len(state.train) >= settings.cycle:
        return "cycle"
    if len(state.train) >= settings.max_epochs:
        return "max_epochs"
    return "time_limit" if settings.time_limit is not None and state.seconds >= float(settings.time_limit) else ""


def _choose_rate(state: _State, settings: Training, parts: int) -> float:
    """Return the learning rate of the step that begins, of an epoch of so many."""
    warm = min(1.0, state.steps / WARM_UP_STEPS)
    if not settings.cycle:
        return settings.learning_rate * state.rate * warm
    share = min(state.steps / (settings.cycle * parts), 1.0)
    fall = max(share - RISING_SHARE, 0.0) / (1 - RISING_SHARE)
    height = min(share / RISING_SHARE, 1.0) * 0.5 * (1 + math.cos(math.pi * fall))
    return settings.learning_rate * max(CYCLE_PEAK * height, LAST_RATE) * warm


@torch.no_grad()
def _blend(averages: list[Any], parameters: list[Any], share: float) -> None:
    """Move every average by `share` towards its parameter, all in one call."""
    torch._foreach_lerp_(averages, parameters, share)  # pyright: ignore[reportPrivateImportUsage]


def _train_epoch(state: _State, loss: Loss, table: Table, settings: Training) -> float:
    """Pass once over the training rows in a new order; return the mean weighted loss."""
    rows = table.rows
    state.net.train()
    clip = settings.clip / math.sqrt(state.members)  # of the mean over members
    parts = max(round(len(rows) / settings.choose_batch(len(rows))), 1)
    order = rows[torch.randperm(len(rows), generator=state.generator).to(rows.device)]
    parameters = state.parameters
    averages = [p for p in state.average.parameters() if p.requires_grad]
    total, skipped = 0.0, 0
    for which in order.tensor_split(parts):
        state.steps += 1
        for group in state.optimiser.param_groups:
            group["lr"] = _choose_rate(state, settings, parts)
        each = _add_parts(loss(state.net, _take(table, which), state.generator), state)
        value = (table.weigh(which, held=False) * each).mean()
        state.optimiser.zero_grad(set_to_none=True)
        value.backward()
        norm = nn.utils.clip_grad_norm_(parameters, clip, foreach=True)
        if not math.isfinite(float(norm)):  # one extreme row must not spoil the network
            skipped += 1
            continue
        state.optimiser.step()
        keep = min(settings.averaging, (1 + state.steps) / (10 + state.steps))  # forget the start soon
        _blend(averages, parameters, 1 - keep)
        total += float(value.detach()) * len(which)
    if skipped == parts:
        raise InferenceError(
            f"training diverged: no step of epoch {len(state.train)} had a finite gradient",
            code="poor-training",
            fix="look for extreme values in x (take logarithms), or lower Training(learning_rate=...)",
        )
    return total / float(table.weights[rows].sum())


def _add_parts(losses: Tensor, state: _State) -> Tensor:
    """Return losses (members, ...) from those of all parts (parts, ...)."""
    return losses if len(state.lowest) == state.members else losses.unflatten(0, (state.members, -1)).sum(1)


def _take(table: Table, which: Tensor) -> tuple[Tensor, ...]:
    return tuple(t[which] for t in table.tensors)


@torch.no_grad()
def _validate(state: _State, loss: Loss, table: Table) -> None:
    """Record the weighted mean loss of the averaged network over the held-out rows; same contrasts every time.

    Every part keeps its own best epoch. Whether training goes on is decided by all members' parts together.
    """
    state.average.eval()
    contrasts = make_generator(0)
    for mine, theirs in zip(state.average.buffers(), state.net.buffers(), strict=True):
        mine.copy_(theirs)
    total, mass = torch.zeros(len(state.lowest), dtype=torch.float64), 0.0
    for which in table.checked.split(ROWS_PER_VALIDATION):
        each, weights = loss(state.average, _take(table, which), contrasts), table.weigh(which, held=True)
        total, mass = total + (weights * each).sum(-1).cpu(), mass + weights.sum(-1).cpu().double()
    values = (total / mass).nan_to_num(math.inf, math.inf, math.inf)
    if not _are_apart(state.net):
        values = values.mean().expand(len(values))
    better, first = values < state.lowest, not state.validation
    state.validation.append(float(_add_parts(values, state).mean()))
    if state.validation[-1] <= min(state.validation):
        state.best_epoch = len(state.validation) - 1
    if better.any() or first:
        state.lowest = torch.where(better, values, state.lowest)
        _keep_best(state, torch.ones_like(better) if first else better)
    by_output = len(values) > state.members
    gained = state.best_epoch == len(state.validation) - 1 if by_output else bool(better.any())
    state.since = 0 if gained or first else state.since + 1


def _are_apart(net: nn.Module) -> bool:
    """Tell whether the members share no numbers, so that each can keep its own best epoch."""
    return not any(True for p in getattr(net, "embedding", nn.Identity()).parameters())


def _keep_best(state: _State, better: Tensor) -> None:
    """Copy the averaged numbers of the parts that became better; of all at once where they are one network."""
    if better.all():
        state.best.load_state_dict(state.average.state_dict())
        return
    for kept, now in zip(state.best.parameters(), state.average.parameters(), strict=True):
        which = better.repeat_interleave(len(kept) // len(better)).to(kept.device)
        kept[which] = now[which]


def _identify_training(net: nn.Module, tensors: tuple[Tensor, ...], settings: Training, seed: int) -> str:
    """Hash what must be equal to resume a training: data, weights, split, settings, seed, network."""
    digest = hashlib.sha256()
    for table in (t.cpu().numpy() for t in tensors):
        digest.update(str(table.shape).encode() + np.ascontiguousarray(table).tobytes())
    for name, value in net.state_dict().items():
        if not name.startswith("shift."):  # a function of the data, up to the rounding of the linear algebra library
            digest.update(value.cpu().numpy().tobytes())
    free = {
        "checkpoint",
        "progress",
        "time_limit",
        "max_epochs",
        "patience",
        "device",
    }  # may change between a stop and a resume
    later = {"cycle", "weight_decay"}  # older files have none
    kept = {k: v for k, v in asdict(settings).items() if k not in free and (k not in later or v)}
    digest.update(repr(sorted(kept.items())).encode())
    digest.update(str(seed).encode())
    if getattr(net, "by_output", False):
        digest.update(b"by output")
    return digest.hexdigest()


def _save_checkpoint(path: Path, mark: str, state: _State) -> None:
    arrays = {f"{label}/{k}": v.cpu().numpy() for label in _NETS for k, v in getattr(state, label).state_dict().items()}
    for i, parameter in enumerate(state.parameters):
        arrays |= {f"optimiser/{i}/{m}": state.optimiser.state[parameter][m].cpu().numpy() for m in _MOMENTS}
    arrays["generator"] = state.generator.get_state().numpy()
    arrays["train"], arrays["validation"] = np.array(state.train), np.array(state.validation)
    arrays["lowest"] = state.lowest.numpy()
    recipe = {"kind": "training", "mark": mark, **{label: getattr(state, label) for label in _COUNTERS}}
    archive.write(path, recipe, arrays)


def _load_checkpoint(path: Path, mark: str, state: _State) -> None:
    """Continue from a checkpoint, if there is one.

    Raises:
        ConfigError: already-exists, the checkpoint belongs to another training.
    """
    if not path.exists():
        return
    recipe, arrays = archive.read(path, "training")
    if recipe["mark"] != mark:
        raise ConfigError(
            f"checkpoint {path} belongs to a training with other simulations, settings or seed",
            code="already-exists",
            why="going on from it would mix two trainings",
            fix="delete it, or name another file",
        )
    for label in _NETS:
        net = getattr(state, label)
        net.load_state_dict({k: torch.from_numpy(arrays[f"{label}/{k}"]) for k in net.state_dict()})
    for i, parameter in enumerate(state.parameters):
        moments = {m: torch.from_numpy(arrays[f"optimiser/{i}/{m}"]).to(parameter.device) for m in _MOMENTS}
        state.optimiser.state[parameter] = moments
    state.generator.set_state(torch.from_numpy(arrays["generator"]))
    state.train, state.validation = arrays["train"].tolist(), arrays["validation"].tolist()
    for label in _COUNTERS:
        setattr(state, label, recipe[label])
    lowest = arrays.get("lowest", np.array([state.validation[state.best_epoch]]))  # one member in older files
    state.lowest = torch.from_numpy(lowest.astype(np.float64))
