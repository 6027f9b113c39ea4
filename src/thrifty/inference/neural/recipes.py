"""Recipes of networks: frozen settings in plain numbers that can be written to JSON and back.

Densities (NPE learns theta given x, NLE x given theta): `AutoregressiveMixture` (default), `NSF`, `MAF`
(the paper's), `MixtureDensity`. Fields (FMPE): `FlowMatching`.
Ratios (NRE): `Classifier`. Embeddings of x (NPE, FMPE, NRE): `MLPEmbedding`, `SignalEmbedding`, `ImageEmbedding`,
`SequenceEmbedding`, `SetEmbedding`, or any `torch.nn.Module`. No torch here; `networks.py` builds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, DataError
from thrifty.types import Array

ACTIVATIONS = ("silu", "relu", "elu", "tanh")
MANY_RUNS = 2_000  # measured at 1,000 and 3,000
MAX_LIKELIHOOD_MEMBERS = 3  # that none of them learns a thin likelihood is then one case in thirty
MAX_CONDITIONALS = 20  # members times outputs
MAX_WIDTH = 100_000  # numbers per layer; a file that asks for more is refused


@dataclass(frozen=True, repr=False)
class _Recipe(DisplayedSettings):
    """The checks of every recipe: sizes are whole numbers from 1 to MAX_WIDTH, activations are known."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            label, value = setting.name, getattr(self, setting.name)
            if isinstance(setting.default, tuple):
                value = tuple(value) if isinstance(value, list | tuple) else (value,)
                object.__setattr__(self, label, value)
            if label == "activation" and value not in ACTIVATIONS:
                raise ConfigError(
                    f"{type(self).__name__}: activation {value!r} is not one of {', '.join(ACTIVATIONS)}",
                    code="bad-setting",
                )
            free = label in ("activation", "unconstrained", "affine", "forward") or (label, value) == ("members", None)
            if not free and not _is_size(value):
                raise ConfigError(
                    f"{type(self).__name__}: {label} must be whole numbers from 1 to {MAX_WIDTH}, got {value!r}",
                    code="bad-setting",
                )


def _is_size(value: Any) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return bool(values) and all(isinstance(v, int) and not isinstance(v, bool) and 0 < v <= MAX_WIDTH for v in values)


@dataclass(frozen=True, repr=False)
class NSF(_Recipe):
    """Neural spline flow (Durkan et al. 2019): one conditional affine map, then autoregressive splines.

    The affine map finds place and width, also of posteriors a thousandth of the prior wide; the splines the shape.
    Works over parameters without bounds (logit of a box), so that nothing leaks out of the prior's support.

    Args:
        transforms: Number of spline transforms.
        hidden: Widths of the hidden layers of each.
        bins: Bins of each spline.
        activation: Between the layers.
        unconstrained: Work over parameters without bounds; splines gain by it.

    Example:
        >>> NSF(transforms=2).hidden
        (64, 64, 64)
    """

    transforms: int = 3
    hidden: tuple[int, ...] = (64, 64, 64)
    bins: int = 8
    activation: str = "silu"
    unconstrained: bool = True

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds; checked against a file before it is built."""
        return (self.transforms + 1) * _count_layers(features + context, self.hidden, features * (3 * self.bins - 1))


@dataclass(frozen=True, repr=False)
class MAF(_Recipe):
    """Masked autoregressive flow, by default the paper's: 5 transforms of 50 hidden units in 2 layers.

    Tanh between them: with relu a few outputs far from the others get densities of e^-100.

    Works on standardised parameters: affine maps lose by the logit of a box (measured 0.05 to 0.1 nat), so draws
    outside the prior's support are rejected and the density is divided by the share inside.

    Example:
        >>> th.NPE(th.Normal(0, 1), network=th.MAF(transforms=3))
        NPE(Normal(theta: 0 ± 1), network=MAF(transforms=3))
    """

    transforms: int = 5
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "tanh"
    unconstrained: bool = False

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds."""
        return self.transforms * _count_layers(features + context, self.hidden, 2 * features)


@dataclass(frozen=True, repr=False)
class MixtureDensity(_Recipe):
    """Mixture of Gaussians with full covariances, all of it a function of the condition (Bishop 1994).

    Example:
        >>> th.NPE(th.Normal(0, 1), network=th.MixtureDensity(4))
        NPE(Normal(theta: 0 ± 1), network=MixtureDensity(components=4))
    """

    components: int = 8
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "silu"
    unconstrained: bool = True

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds."""
        return _count_layers(context, self.hidden, self.components * (1 + features + features * features))


@dataclass(frozen=True, repr=False)
class AutoregressiveMixture(_Recipe):
    """The mean of several autoregressive mixtures of normals, trained at once on the same runs.

    The default of NPE and NLE. With few runs one network says too much: the mean of five was ahead of one spline flow
    by 0.02 to 0.7 nat on every problem tried, at about the same CPU time, and varies less with the seed.

    Args:
        members: How many networks; by default 5 for NPE, 3 from 2,000 runs on; for NLE 3, with 7 to 10 outputs 2,
            and 1 with more (`settle`).
        components: Normals in the mixture of each parameter (NPE) or output (NLE).
        hidden: Widths of the hidden layers.
        affine: Let an affine autoregressive layer find place and width before the mixture finds the shape.
        activation: Between the layers.
        unconstrained: Work over parameters without bounds.
        forward: Let the mixture see the numbers before its own in their order, instead of those after it; the affine
            layer has the other order. By default yes for NLE, where outputs often come in their order in time.

    Example:
        >>> AutoregressiveMixture(members=3).components
        8
    """

    members: int | None = None
    components: int = 8
    hidden: tuple[int, ...] = (64, 64, 64)
    affine: bool = True
    activation: str = "silu"
    unconstrained: bool = True
    forward: bool | None = None

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds."""
        each = _count_layers(features + context, self.hidden, 3 * self.components)
        each += _count_layers(features + context, self.hidden, 2) if self.affine else 0
        return (self.members or 1) * features * each

    def settle(self, runs: int, *, outputs: int = 0) -> AutoregressiveMixture:
        """Choose the number of members and the order where they are left open; `outputs` of a likelihood, 0 for NPE.

        Three are as good as five from 2,000 runs on, at 60 % of the CPU time. A likelihood has one network for each
        output and member, which take their time; with twelve counts, three members were no better than one.

        Example:
            >>> [AutoregressiveMixture().settle(1000, outputs=d).members for d in (0, 2, 8, 12)]
            [5, 3, 2, 1]
        """
        usual = 5 if runs < MANY_RUNS else 3
        if outputs:
            usual = min(max(MAX_CONDITIONALS // outputs, 1), MAX_LIKELIHOOD_MEMBERS)
        forward = True if outputs and self.forward is None else self.forward
        return replace(self, members=self.members or usual, forward=forward)


@dataclass(frozen=True, repr=False)
class FlowMatching(_Recipe):
    """A perceptron on (theta, time, x) whose flow makes the posterior of a normal: the network of `th.FMPE`.

    Example:
        >>> FlowMatching(hidden=(64, 64)).hidden
        (64, 64)
    """

    hidden: tuple[int, ...] = (128, 128, 128)
    activation: str = "silu"
    unconstrained: bool = True

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds."""
        return _count_layers(features + context + 8, self.hidden, features)


@dataclass(frozen=True, repr=False)
class Classifier(_Recipe):
    """A residual network on (theta, x) whose output is log p(x|theta) up to a function of x.

    Example:
        >>> th.NRE(th.Normal(0, 1), network=th.Classifier(hidden=32))
        NRE(Normal(theta: 0 ± 1), network=Classifier(hidden=32))
    """

    hidden: int = 64
    blocks: int = 2
    activation: str = "silu"
    unconstrained: bool = False

    def numbers(self, features: int, context: int) -> int:
        """Estimate how many numbers the network holds."""
        return (features + context + 1) * self.hidden + 2 * self.blocks * (self.hidden + 1) ** 2


@dataclass(frozen=True, repr=False)
class MLPEmbedding(_Recipe):
    """x flattened, through hidden layers, to `features` learned statistics.

    Example:
        >>> th.NPE(th.Normal(0, 1), embedding=th.MLPEmbedding(features=8))
        NPE(Normal(theta: 0 ± 1), embedding=MLPEmbedding(features=8))
    """

    features: int = 16
    hidden: tuple[int, ...] = (128, 64)

    def numbers(self, event: tuple[int, ...]) -> int:
        """Estimate how many numbers the network holds."""
        return _count_layers(math.prod(event), self.hidden, self.features)


@dataclass(frozen=True, repr=False)
class SignalEmbedding(_Recipe):
    """A series of points (t,) or channels of it (c, t): strided convolutions, pooling, `features` statistics.

    Example:
        >>> th.NPE(th.Normal(0, 1), embedding=th.SignalEmbedding(features=8))
        NPE(Normal(theta: 0 ± 1), embedding=SignalEmbedding(features=8))
    """

    features: int = 16
    channels: tuple[int, ...] = (8, 16, 32)

    def numbers(self, event: tuple[int, ...]) -> int:
        """Estimate how many numbers the network holds."""
        first = event[0] if len(event) > 1 else 1
        return 10 * _count_layers(first, self.channels, self.features * 4)


@dataclass(frozen=True, repr=False)
class ImageEmbedding(_Recipe):
    """An image (h, w) or several channels of it (c, h, w): convolutions of stride 2, pooling, `features` statistics.

    The means of 4 x 4 blocks are read beside the convolutions, so that a weak signal is found from few runs.

    Args:
        features: Learned statistics.
        channels: Of each convolution; each halves height and width.

    Example:
        >>> th.NPE(th.Normal(0, 1), embedding=th.ImageEmbedding(features=8))
        NPE(Normal(theta: 0 ± 1), embedding=ImageEmbedding(features=8))
    """

    features: int = 16
    channels: tuple[int, ...] = (8, 16, 32)

    def numbers(self, event: tuple[int, ...]) -> int:
        """Estimate how many numbers the network holds."""
        first = event[0] if len(event) > 2 else 1
        return 9 * _count_layers(first, self.channels, 2 * self.features) + 16 * first * self.features


@dataclass(frozen=True, repr=False)
class SequenceEmbedding(_Recipe):
    """A time series of varying length: convolutions over its points, their mean, and the logarithm of their number.

    One output has the shape (t, c + 1): t points of c columns, and a last column that is 1 where there is a point and 0
    behind the end (`pad` makes it). What stands behind the end, and how far it goes on, changes nothing.

    Args:
        features: Learned statistics.
        channels: Of each convolution over `reach` neighbouring points.
        reach: Points that a convolution sees, an odd number.

    Example:
        >>> SequenceEmbedding.pad([3.0, 4.0], length=3).tolist()
        [[3.0, 1.0], [4.0, 1.0], [0.0, 0.0]]
    """

    features: int = 16
    channels: tuple[int, ...] = (16, 32)
    reach: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reach % 2 == 0 or self.features < 2:
            raise ConfigError(
                f"SequenceEmbedding: reach must be odd and features at least 2, got {self.reach} and {self.features}",
                code="bad-setting",
            )

    @staticmethod
    def pad(series: npt.ArrayLike, length: int) -> Array:
        """Write a series (t,) or (t, c) as `length` rows (length, c + 1), the last column telling which are points.

        Raises:
            DataError: bad-observation, a series that is empty or longer than `length`.
        """
        points = np.asarray(series, dtype=np.float64)
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or not 0 < len(points) <= length:
            raise DataError(
                f"a series of shape {np.shape(series)} cannot be padded to {length} points",
                code="bad-observation",
                fix="series of shape (t,) or (t, c) with 1 to `length` points",
            )
        out = np.zeros((length, points.shape[1] + 1))
        out[: len(points), :-1], out[: len(points), -1] = points, 1.0
        return out

    def numbers(self, event: tuple[int, ...]) -> int:
        """Estimate how many numbers the network holds."""
        last = _count_layers(self.channels[-1] + 1, (2 * self.channels[-1],), self.features)
        return self.reach * _count_layers(event[-1], self.channels, 1) + last


@dataclass(frozen=True, repr=False)
class SetEmbedding(_Recipe):
    """Several independent observations, in any order and number: each through one network, averaged, with the count.

    Fit it to simulations with m > 1 realisations per theta; it is trained on 1 to m of them.

    Example:
        >>> th.NPE(th.Normal(0, 1), embedding=th.SetEmbedding(features=8))
        NPE(Normal(theta: 0 ± 1), embedding=SetEmbedding(features=8))
    """

    features: int = 16
    hidden: tuple[int, ...] = (64, 64)

    def numbers(self, event: tuple[int, ...]) -> int:
        """Estimate how many numbers the network holds."""
        return _count_layers(math.prod(event), self.hidden, self.hidden[-1]) + _count_layers(
            self.hidden[-1] + 1, (), self.features
        )


_RECIPES = {kind.__name__: kind for kind in _Recipe.__subclasses__()}


def is_recipe(network: object) -> bool:
    """Tell whether a network or an embedding is one of thrifty's recipes."""
    return type(network) in _RECIPES.values()


def to_dict(recipe: Any) -> dict[str, Any]:
    """Return a recipe as plain values.

    Example:
        >>> from_dict(to_dict(MAF(transforms=3))) == MAF(transforms=3)
        True
    """
    return {"kind": type(recipe).__name__, **asdict(recipe)}


def from_dict(values: Mapping[str, Any]) -> Any:
    """Rebuild the recipe that `to_dict` wrote; refuse unknown kinds and settings."""
    kind = _RECIPES.get(values.get("kind", "") if isinstance(values.get("kind"), str) else "")
    given = {label: value for label, value in values.items() if label != "kind"}
    if kind is None or not set(given) <= {f.name for f in fields(kind)}:
        raise ConfigError(
            f"unknown network recipe {dict(values)!r}"[:200], code="bad-file", fix="was the file changed?"
        )
    return kind(**given)


def _count_layers(first: int, hidden: tuple[int, ...], last: int) -> int:
    widths = (first, *hidden, last)
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))
