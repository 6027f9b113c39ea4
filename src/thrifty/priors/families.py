"""thrifty's own priors over numbers: independent uniform, log-uniform and normal parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, count_things
from thrifty.errors import PriorError
from thrifty.types import Array, as_rows, freeze, set_fields

_SAFE_NAME = re.compile(r"[^\W\d]\w*")
_LOG_2PI = float(np.log(2 * np.pi))


def as_parameter_names(names: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    """Read the names of `dim` parameters: safe and different, or made up where there are none."""
    if names is None or len(names) == 0:
        return tuple(f"theta_{i + 1}" for i in range(dim)) if dim > 1 else ("theta",)
    if isinstance(names, str):
        names = [names]
    for i, name in enumerate(names):
        if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name):
            raise PriorError(
                f"names may use letters, digits and _, and start with a letter; got {name!r}", code="bad-name"
            )
        if name in names[:i]:
            raise PriorError(f"parameter name {name!r} is used twice", code="bad-name", fix="give each its own name")
    if len(names) != dim:
        raise PriorError(f"{len(names)} names for {dim} parameters: {', '.join(names)}", code="bad-name")
    return tuple(names)


def _as_vectors(named: Mapping[str, npt.ArrayLike], names: Sequence[str] | None) -> tuple[tuple[str, ...], list[Array]]:
    """Broadcast the settings of a prior to one length, and check that all are finite numbers."""
    try:
        settings = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in named.values()))
    except (TypeError, ValueError) as error:
        shapes = ", ".join(f"{k} {np.shape(v)}" for k, v in named.items())
        raise PriorError(f"cannot read {shapes} as vectors of one length: {error}", code="bad-prior") from None
    if settings[0].ndim != 1 or settings[0].size == 0:
        raise PriorError(f"{next(iter(named))} must be a vector, got shape {settings[0].shape}", code="bad-prior")
    checked = as_parameter_names(names, len(settings[0]))
    for label, values in zip(named, settings, strict=True):
        for name, value in zip(checked, values, strict=True):
            if not np.isfinite(value):
                raise PriorError(f"prior {name!r}: {label} must be a finite number, got {value}", code="bad-prior")
    return checked, [freeze(v) for v in settings]


def _check_interval(names: Sequence[str], low: Array, high: Array) -> None:
    for name, a, b in zip(names, low.tolist(), high.tolist(), strict=True):
        if not np.isfinite(b - a):
            raise PriorError(f"prior {name!r}: the width from {a:g} to {b:g} overflows", code="bad-prior")
        if a == b:
            raise PriorError(
                f"prior {name!r} has zero width (low = high = {a:g})",
                code="bad-prior",
                fix="make it a fixed argument of the simulator",
            )
        if a > b:
            raise PriorError(f"prior {name!r}: low {a:g} is not below high {b:g}", code="bad-prior", fix="swap them")


class ExplainedArguments(type):
    """Say what a prior is made of when its arguments are not those, instead of a bare TypeError."""

    if not TYPE_CHECKING:  # the arguments are those of the class

        def __call__(cls, *args: Any, **named: Any) -> Any:
            """Make the prior; refuse arguments that it does not have."""
            signature = inspect.signature(cls.__init__)
            try:
                signature.bind(None, *args, **named)
            except TypeError as error:
                raise PriorError(
                    f"th.{cls.__name__}: {error}", code="bad-prior", fix=_EXAMPLES.get(cls.__name__, "")
                ) from None
            return super().__call__(*args, **named)


_EXAMPLES = {
    "Uniform": 'th.Uniform(low=[0, 0], high=[1, 2], names=["a", "b"])',
    "LogUniform": 'th.LogUniform(low=[0.1], high=[10], names=["a"])',
    "Normal": 'th.Normal(mean=[0, 0], sd=[1, 2], names=["a", "b"])',
    "Independent": 'th.Independent({"a": th.Uniform(0, 1), "b": th.Normal(0, 1)}), one dictionary',
}


def as_generator(rng: Any, n: object = 5) -> np.random.Generator:
    """Return a generator from a seed or generator; refuse None, whose draws could never be made again."""
    if rng is None:
        raise PriorError(
            f"prior.sample({n}) needs random numbers",
            code="bad-prior",
            why="draws without a seed could not be made again",
            fix=f"prior.sample({n}, np.random.default_rng(0)), or a seed: prior.sample({n}, 0)",
        )
    return np.random.default_rng(rng)


class Named(Displayed, metaclass=ExplainedArguments):
    """Parameters with names, anywhere in the space unless a class below says otherwise."""

    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Ends of the support: the whole space."""
        return np.full(self.dim, -np.inf), np.full(self.dim, np.inf)

    def _describe(self) -> Iterable[str]:
        """Describe the distribution of each parameter in a few words."""
        return ("",) * self.dim

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        listed = (
            f"{name}: {words}" if words else name for name, words in zip(self.names, self._describe(), strict=True)
        )
        return f"{type(self).__name__}({', '.join(listed)})"

    def _list_distributions(self) -> Iterable[str]:
        """Name the distribution of each parameter, for a table."""
        return (f"{type(self).__name__} {words}".strip() for words in self._describe())

    def _card(self) -> Card:
        low, high = self.bounds
        rows = [
            (name, words, _format_end(a), _format_end(b))
            for name, words, a, b in zip(self.names, self._list_distributions(), low, high, strict=True)
        ]
        title = f"prior over {count_things(self.dim, 'parameter')}"
        return Card(title, (), ("name", "distribution", "from", "to"), rows)


def _format_end(end: float) -> str:
    return f"{end:g}".replace("-", "−").replace("inf", "∞")


@dataclass(frozen=True, eq=False, repr=False)
class Box(Named):
    """Parameters between `low` and `high`."""

    low: Array
    high: Array
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, (low, high) = _as_vectors({"low": self.low, "high": self.high}, self.names)
        _check_interval(names, low, high)
        set_fields(self, names=names, low=low, high=high)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Ends of the box."""
        return self.low, self.high

    def _describe(self) -> Iterable[str]:
        return (f"{low:g} to {high:g}" for low, high in zip(self.low, self.high, strict=True))

    def _contains(self, theta: Array) -> npt.NDArray[np.bool_]:
        return np.all((theta >= self.low) & (theta <= self.high), axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Uniform(Box):
    """Independent uniform parameters on [low, high].

    Example:
        >>> prior = Uniform(low=[0.1, 0.1], high=[1, 1], names=["beta", "gamma"])
        >>> prior.dim, prior.sample(3, np.random.default_rng(0)).shape
        (2, (3, 2))
    """

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw (n, p)."""
        draws = as_generator(rng, n).random((n, self.dim))
        draws *= self.high - self.low
        draws += self.low
        return draws

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """-log volume inside the box, -inf outside."""
        theta = as_rows(theta, dim=self.dim, names=self.names)
        return np.where(self._contains(theta), -np.log(self.high - self.low).sum(), -np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class LogUniform(Box):
    """Independent parameters whose logarithm is uniform on [log low, log high].

    Example:
        >>> LogUniform(1e-3, 1e3, names=["rate"]).log_prob([[1.0]]).round(3).tolist()
        [-2.626]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, a in zip(self.names, self.low, strict=True):
            if a <= 0:
                raise PriorError(f"prior {name!r}: log-uniform low must be > 0, got {a:g}", code="bad-prior")

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw (n, p)."""
        low, high = np.log(self.low), np.log(self.high)
        draws = np.exp(low + (high - low) * as_generator(rng, n).random((n, self.dim)))
        return np.clip(draws, self.low, self.high)  # rounding must not leave the box

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Minus the sum of log theta and of log log(high/low) inside the box, -inf outside."""
        theta = as_rows(theta, dim=self.dim, names=self.names)
        scale = np.log(np.log(self.high) - np.log(self.low)).sum()
        return np.where(self._contains(theta), -np.log(np.where(theta > 0, theta, 1.0)).sum(1) - scale, -np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Normal(Named):
    """Independent normal parameters.

    Example:
        >>> Normal([0.0, 1.0], [1.0, 2.0], names=["a", "b"])
        Normal(a: 0 ± 1, b: 1 ± 2)
        >>> Normal([0.0, 1.0], [1.0, 2.0], names=["a", "b"]).dim
        2
    """

    mean: Array
    sd: Array
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, (mean, sd) = _as_vectors({"mean": self.mean, "sd": self.sd}, self.names)
        for name, value in zip(names, sd, strict=True):
            if value <= 0:
                raise PriorError(f"prior {name!r}: sd must be a finite number > 0, got {value:g}", code="bad-prior")
        set_fields(self, names=names, mean=mean, sd=sd)

    def _describe(self) -> Iterable[str]:
        return (f"{mean:g} ± {sd:g}" for mean, sd in zip(self.mean, self.sd, strict=True))

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw (n, p)."""
        return self.mean + self.sd * as_generator(rng, n).standard_normal((n, self.dim))

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Sum of normal log densities."""
        z = (as_rows(theta, dim=self.dim, names=self.names) - self.mean) / self.sd
        return -0.5 * (z**2).sum(1) - np.log(self.sd).sum() - 0.5 * self.dim * _LOG_2PI
