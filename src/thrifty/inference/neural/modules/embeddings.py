"""Embeddings: modules from outputs (b, *event) to features (b, k), built from recipes or the user's own."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.errors import ConfigError
from thrifty.inference.neural.modules.members import build_mlp
from thrifty.inference.neural.recipes import (
    ImageEmbedding,
    MLPEmbedding,
    SequenceEmbedding,
    SetEmbedding,
    SignalEmbedding,
)

IMAGE_BLOCKS = 4  # in each direction, whose means an image hands on


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


class Image(nn.Module):
    """Convolutions of stride 2 over the last two axes of x (b, h, w) or (b, c, h, w), pooled to 2 x 2 places.

    The means of 4 x 4 blocks of the image are handed on as they are: a weak signal over many pixels is seen in the
    first steps of training, while convolutions alone may stop before they see anything.
    """

    def __init__(self, recipe: ImageEmbedding, event: tuple[int, ...]) -> None:
        super().__init__()
        _check_axes(recipe, event, (2, 3), "(h, w) or (c, h, w)")
        widths = (event[0] if len(event) > 2 else 1, *recipe.channels)
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Conv2d(a, b, kernel_size=3, stride=2, padding=1), nn.SiLU()]
        self.convolve = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.blocks = nn.Sequential(nn.AdaptiveAvgPool2d(IMAGE_BLOCKS), nn.Flatten())
        pixels = int(np.prod(event[-2:]))
        self.gain = max(pixels / IMAGE_BLOCKS**2, 1.0) ** 0.25  # between smooth images and pure noise
        self.last = nn.Linear(4 * widths[-1] + IMAGE_BLOCKS**2 * widths[0], recipe.features)

    def forward(self, x: Tensor) -> Tensor:
        """(b, *event) to (b, features)."""
        x = x[:, None] if x.ndim == 3 else x
        return self.last(torch.cat([self.convolve(x), self.gain * self.blocks(x)], -1))


class Sequence(nn.Module):
    """Convolutions over the points of x (b, t, c + 1), their mean, and the log of their number.

    The last column of x says which points are there. The others are 0 before every convolution and left out of the
    mean, so that nothing depends on how far a series was padded. The length is handed on as it is too: the width of a
    posterior follows it.
    """

    def __init__(self, recipe: SequenceEmbedding, event: tuple[int, ...]) -> None:
        super().__init__()
        _check_axes(recipe, event, (2,), "(t, c + 1), see th.SequenceEmbedding.pad")
        widths = (event[1] - 1, *recipe.channels)
        self.layers = nn.ModuleList(
            nn.Conv1d(a + 1, b, recipe.reach, padding=recipe.reach // 2) for a, b in itertools.pairwise(widths)
        )
        self.longest = event[0]
        self.last = build_mlp(widths[-1] + 1, (2 * widths[-1],), recipe.features - 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, t, c + 1) to (b, features)."""
        h, there = x[..., :-1].transpose(1, 2), x[:, None, :, -1]  # (b, c, t) and (b, 1, t)
        for layer in self.layers:
            h = nn.functional.silu(layer(torch.cat([h * there, there], 1)))
        count = there.sum(2).clamp(min=1.0)
        share = (count / self.longest).log()
        return torch.cat([self.last(torch.cat([(h * there).sum(2) / count, share], -1)), share], -1)


class SetNet(nn.Module):
    """Mean over the members of a set x (b, r, *event) of a network, with log r."""

    def __init__(self, recipe: SetEmbedding, event: tuple[int, ...]) -> None:
        super().__init__()
        self.each = build_mlp(int(np.prod(event)), recipe.hidden, recipe.hidden[-1])
        self.last = nn.Linear(recipe.hidden[-1] + 1, recipe.features)

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, *event) to (b, features)."""
        mean = self.each(x.flatten(2)).mean(1)
        size = torch.full((len(x), 1), float(np.log(x.shape[1])), device=x.device)
        return self.last(torch.cat([nn.functional.silu(mean), size], -1))


class Flat(nn.Sequential):
    """A perceptron on x (b, *event), flattened."""

    def __init__(self, recipe: MLPEmbedding, event: tuple[int, ...]) -> None:
        super().__init__(nn.Flatten(), build_mlp(int(np.prod(event)), recipe.hidden, recipe.features))


_MODULES: dict[type, Callable[[Any, tuple[int, ...]], nn.Module]] = {
    MLPEmbedding: Flat,
    SignalEmbedding: Signal,
    ImageEmbedding: Image,
    SequenceEmbedding: Sequence,
    SetEmbedding: SetNet,
}


def build_embedding(recipe: Any, event: tuple[int, ...]) -> tuple[nn.Module | None, int]:
    """Build the module and count its outputs; a user's own module is copied and called once on zeros."""
    if recipe is None:
        return None, int(np.prod(event))
    if type(recipe) in _MODULES:
        return _MODULES[type(recipe)](recipe, event), recipe.features
    if not isinstance(recipe, nn.Module):
        raise ConfigError(
            f"embedding must be a recipe or a torch.nn.Module, got {type(recipe).__name__}",
            code="bad-setting",
            fix="th.MLPEmbedding(), th.SignalEmbedding(), th.ImageEmbedding(), th.SequenceEmbedding(),"
            " th.SetEmbedding() or your own module (b, *event) -> (b, k)",
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


def _check_axes(recipe: Any, event: tuple[int, ...], allowed: tuple[int, ...], shape: str) -> None:
    if len(event) not in allowed:
        raise ConfigError(
            f"{type(recipe).__name__} reads outputs of shape {shape}; these have shape {event}",
            code="bad-setting",
            fix="let the simulator return that shape, or use another embedding",
        )
