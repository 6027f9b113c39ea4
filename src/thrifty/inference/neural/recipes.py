"""What network to build, said in plain numbers: frozen recipes that can be written to JSON and back.

Densities (NPE learns theta given x, NLE x given theta): `NSF` (default), `MAF` (the paper's), `MixtureDensity`.
Ratios (NRE): `Classifier`. Embeddings of x (NPE, NRE): `MLPEmbedding`, `SignalEmbedding`, `SetEmbedding`,
or any `torch.nn.Module`. No torch here; `networks.py` builds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from thrifty.errors import ConfigError

Activation = str
ACTIVATIONS = ("silu", "relu", "elu", "tanh")
WIDEST = 100_000  # no layer of ours is wider; a file that asks for more is refused


def _positive(owner: object, *labels: str) -> None:
    for label in labels:
        value = getattr(owner, label)
        values = value if isinstance(value, tuple) else (value,)
        good = bool(values) and all(isinstance(v, int) and not isinstance(v, bool) and 0 < v <= WIDEST for v in values)
        if not good:
            raise ConfigError(
                f"{type(owner).__name__}: {label} must be whole numbers from 1 to {WIDEST}, got {value!r}",
                code="bad-setting",
            )


def _known_activation(owner: object, activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise ConfigError(
            f"{type(owner).__name__}: activation {activation!r} is not one of {', '.join(ACTIVATIONS)}",
            code="bad-setting",
        )


def _tuple(owner: object, label: str) -> None:
    value = getattr(owner, label)
    object.__setattr__(owner, label, tuple(value) if isinstance(value, list | tuple) else (value,))


@dataclass(frozen=True)
class NSF:
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
    activation: Activation = "silu"
    unconstrained: bool = True

    def __post_init__(self) -> None:
        _tuple(self, "hidden")
        _positive(self, "transforms", "hidden", "bins")
        _known_activation(self, self.activation)

    def numbers(self, features: int, context: int) -> int:
        """About how many numbers the network holds; checked against a file before it is built."""
        return (self.transforms + 1) * _layers(features + context, self.hidden, features * (3 * self.bins - 1))


@dataclass(frozen=True)
class MAF:
    """Masked autoregressive flow, by default the paper's: 5 transforms of 50 hidden units in 2 layers.

    Works on standardised parameters: affine maps lose by the logit of a box (measured 0.05 to 0.1 nat), so draws
    outside the prior's support are rejected and the density is divided by the share inside.
    """

    transforms: int = 5
    hidden: tuple[int, ...] = (50, 50)
    activation: Activation = "relu"
    unconstrained: bool = False

    def __post_init__(self) -> None:
        _tuple(self, "hidden")
        _positive(self, "transforms", "hidden")
        _known_activation(self, self.activation)

    def numbers(self, features: int, context: int) -> int:
        """About how many numbers the network holds."""
        return self.transforms * _layers(features + context, self.hidden, 2 * features)


@dataclass(frozen=True)
class MixtureDensity:
    """Mixture of Gaussians with full covariances, all of it a function of the condition (Bishop 1994)."""

    components: int = 8
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "silu"
    unconstrained: bool = True

    def __post_init__(self) -> None:
        _tuple(self, "hidden")
        _positive(self, "components", "hidden")
        _known_activation(self, self.activation)

    def numbers(self, features: int, context: int) -> int:
        """About how many numbers the network holds."""
        return _layers(context, self.hidden, self.components * (1 + features + features * features))


@dataclass(frozen=True)
class Classifier:
    """A residual network on (theta, x) whose output is log p(x|theta) up to a function of x."""

    hidden: int = 64
    blocks: int = 2
    activation: Activation = "silu"
    unconstrained: bool = False

    def __post_init__(self) -> None:
        _positive(self, "hidden", "blocks")
        _known_activation(self, self.activation)

    def numbers(self, features: int, context: int) -> int:
        """About how many numbers the network holds."""
        return (features + context + 1) * self.hidden + 2 * self.blocks * (self.hidden + 1) ** 2


@dataclass(frozen=True)
class MLPEmbedding:
    """x flattened, through hidden layers, to `features` learned statistics."""

    features: int = 16
    hidden: tuple[int, ...] = (128, 64)

    def __post_init__(self) -> None:
        _tuple(self, "hidden")
        _positive(self, "features", "hidden")

    def numbers(self, event: tuple[int, ...]) -> int:
        """About how many numbers the network holds."""
        return _layers(_size(event), self.hidden, self.features)


@dataclass(frozen=True)
class SignalEmbedding:
    """A series of points (t,) or channels of it (c, t): strided convolutions, pooling, `features` statistics."""

    features: int = 16
    channels: tuple[int, ...] = (8, 16, 32)

    def __post_init__(self) -> None:
        _tuple(self, "channels")
        _positive(self, "features", "channels")

    def numbers(self, event: tuple[int, ...]) -> int:
        """About how many numbers the network holds."""
        first = event[0] if len(event) > 1 else 1
        return 10 * _layers(first, self.channels, self.features * 4)


@dataclass(frozen=True)
class SetEmbedding:
    """Several independent observations, in any order and number: each through one network, averaged, with the count.

    Fit it to simulations with m > 1 realisations per theta; it is trained on 1 to m of them.
    """

    features: int = 16
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        _tuple(self, "hidden")
        _positive(self, "features", "hidden")

    def numbers(self, event: tuple[int, ...]) -> int:
        """About how many numbers the network holds."""
        return _layers(_size(event), self.hidden, self.hidden[-1]) + _layers(self.hidden[-1] + 1, (), self.features)


Density = NSF | MAF | MixtureDensity
Embedding = MLPEmbedding | SignalEmbedding | SetEmbedding
_ALL = {
    kind.__name__: kind for kind in (NSF, MAF, MixtureDensity, Classifier, MLPEmbedding, SignalEmbedding, SetEmbedding)
}


def is_recipe(network: object) -> bool:
    """True for the recipes of this file."""
    return type(network) in _ALL.values()


def to_dict(recipe: Any) -> dict[str, Any]:
    """A recipe as plain values.

    Example:
        >>> from_dict(to_dict(MAF(transforms=3))) == MAF(transforms=3)
        True
    """
    return {"kind": type(recipe).__name__, **asdict(recipe)}


def from_dict(values: Mapping[str, Any]) -> Any:
    """The recipe that `to_dict` wrote; unknown kinds and settings are refused."""
    kind = _ALL.get(values.get("kind", "") if isinstance(values.get("kind"), str) else "")
    given = {label: value for label, value in values.items() if label != "kind"}
    if kind is None or not set(given) <= {f.name for f in fields(kind)}:
        raise ConfigError(
            f"unknown network recipe {dict(values)!r}"[:200], code="bad-file", fix="was the file changed?"
        )
    return kind(**given)


def _layers(first: int, hidden: tuple[int, ...], last: int) -> int:
    widths = (first, *hidden, last)
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


def _size(event: tuple[int, ...]) -> int:
    out = 1
    for n in event:
        out *= n
    return out
