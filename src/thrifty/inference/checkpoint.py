"""Checkpoints of a training: plain arrays, so that a killed run goes on to the very same weights."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.errors import ConfigError
from thrifty.inference import archive
from thrifty.inference.settings import Training

_NETS = ("net", "average", "best")
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def fingerprint(net: nn.Module, tensors: tuple[Tensor, ...], settings: Training, seed: int) -> str:
    """What must be equal for a checkpoint to be this training's: data, weights, split, settings, seed, network."""
    digest = hashlib.sha256()
    for table in (t.numpy() for t in tensors):
        digest.update(str(table.shape).encode() + np.ascontiguousarray(table).tobytes())
    for name, value in net.state_dict().items():
        if not name.startswith("shift."):  # follows from the data, with the last digits of the linear algebra at hand
            digest.update(value.numpy().tobytes())
    free = {"checkpoint", "progress", "time_limit", "max_epochs", "patience"}  # may change between a stop and a resume
    digest.update(repr([(k, v) for k, v in sorted(asdict(settings).items()) if k not in free]).encode())
    digest.update(str(seed).encode())
    return digest.hexdigest()


def save(path: Path, mark: str, state: Any) -> None:
    """Write the state of a training after an epoch."""
    arrays = {f"{label}/{k}": v.numpy() for label in _NETS for k, v in getattr(state, label).state_dict().items()}
    parameters = [p for group in state.optimiser.param_groups for p in group["params"]]
    for i, parameter in enumerate(parameters):
        arrays |= {f"optimiser/{i}/{m}": state.optimiser.state[parameter][m].numpy() for m in _MOMENTS}
    arrays["generator"] = state.generator.get_state().numpy()
    arrays["train"], arrays["validation"] = np.array(state.train), np.array(state.validation)
    labels = ("best_epoch", "since", "steps", "rate", "seconds")
    recipe = {"kind": "training", "mark": mark, **{label: getattr(state, label) for label in labels}}
    archive.write(path, recipe, arrays)


def load(path: Path, mark: str, state: Any) -> None:
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
    parameters = [p for group in state.optimiser.param_groups for p in group["params"]]
    for i, parameter in enumerate(parameters):
        moments = {m: torch.from_numpy(arrays[f"optimiser/{i}/{m}"]) for m in _MOMENTS}
        state.optimiser.state[parameter] = moments
    state.generator.set_state(torch.from_numpy(arrays["generator"]))
    state.train, state.validation = arrays["train"].tolist(), arrays["validation"].tolist()
    for label in ("best_epoch", "since", "steps", "rate", "seconds"):
        setattr(state, label, recipe[label])
