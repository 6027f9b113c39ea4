"""Embeddings: modules from outputs (b, *event) to features (b, k), built from recipes or the user's own."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.errors import ConfigError
from thrifty.inference.neural.modules.members import build_mlp
from thrifty.inference.neural.recipes import MLPEmbedding, SetEmbedding, SignalEmbedding


class Signal(nn.Module):
    """Strided convolutions over the last axis of x (b, t) or (b, c, t), pooled to 4 places."""

    def __init__(self, recipe: SignalEmbedding, event: tuple[int, ...]) -> None:
        super().__init__()
        widths = (event[0] if len(event) > 1 else 1, *recipe.channels)
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Conv1d(a, b, kernel_size=9, stride=3, padding=4), nn.SiLU()]
        self.convolve = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.last = nn.Linear(4 * widths[-1], recipe.features)

    def forward(self, x: Tensor) -> Tensor:
        """(b, *event) to (b, features)."""
        return self.last(self.convolve(x[:, None] if x.ndim == 2 else x))


class SetNet(nn.Module):
    """Mean over the members of a set x (b, r, *event) of a network, with log r."""

    def __init__(self, recipe: SetEmbedding, event: tuple[int, ...]) -> None:
        super().__init__()
        self.each = build_mlp(int(np.prod(event)), recipe.hidden, recipe.hidden[-1])
        self.last = nn.Linear(recipe.hidden[-1] + 1, recipe.features)

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, *event) to (b, features)."""
        mean = self.each(x.flatten(2)).mean(1)
        size = torch.full((len(x), 1), float(np.log(x.shape[1])))
        return self.last(torch.cat([nn.functional.silu(mean), size], -1))


def build_embedding(recipe: Any, event: tuple[int, ...]) -> tuple[nn.Module | None, int]:
    """Build the module and count its outputs; a user's own module is copied and called once on zeros."""
    if recipe is None:
        return None, int(np.prod(event))
    if isinstance(recipe, MLPEmbedding):
        return nn.Sequential(
            nn.Flatten(), build_mlp(int(np.prod(event)), recipe.hidden, recipe.features)
        ), recipe.features
    if isinstance(recipe, SignalEmbedding):
        return Signal(recipe, event), recipe.features
    if isinstance(recipe, SetEmbedding):
        return SetNet(recipe, event), recipe.features
    if not isinstance(recipe, nn.Module):
        raise ConfigError(
            f"embedding must be a recipe or a torch.nn.Module, got {type(recipe).__name__}",
            code="bad-setting",
            fix="th.MLPEmbedding(), th.SignalEmbedding(), th.SetEmbedding() or your own module (b, *event) -> (b, k)",
        )
    module = copy.deepcopy(recipe)
    try:
        with torch.no_grad():
            out = module(torch.zeros(2, *event))
    except Exception as error:
        raise ConfigError(f"embedding cannot read x of shape (2, {event}): {error}", code="bad-setting") from error
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 2:
        raise ConfigError(
            f"embedding returned {getattr(out, 'shape', type(out))} for 2 rows, not (2, k)", code="bad-setting"
        )
    return module, int(out.shape[1])
