"""Priors: what thrifty ships, and `as_prior`, which understands everybody else's.

A prior is anything with `sample(n, rng) -> (n, p)`, `log_prob(theta) -> (n,)`, `names`, `dim` and
`bounds` (see `thrifty.types.Prior`). Uniform, Normal and LogUniform are vectorised over parameters;
Independent joins scipy's frozen distributions; `as_prior` wraps scipy, torch and sbi objects without
importing torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PriorError
from thrifty.types import Array, Prior, frozen, rows

_SAFE_NAME = re.compile(r"[^\W\d]\w*")
_LOG_2PI = float(np.log(2 * np.pi))


def _checked_names(names: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    if names is None or len(names) == 0:
        return tuple(f"theta_{i + 1}" for i in range(dim)) if dim > 1 else ("theta",)
    if isinstance(names, str):
        names = [names]
    for i, name in enumerate(names):
        if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name):
            raise PriorError(f"names may use letters, digits and _, and start with a letter; got {name!r}", code="P06")
        if name in names[:i]:
            raise PriorError(f"parameter name {name!r} is used twice", code="P06", fix="give each its own name")
    if len(names) != dim:
        raise PriorError(f"{len(names)} names for {dim} parameters: {', '.join(names)}", code="P06")
    return tuple(names)


def _vectors(named: Mapping[str, npt.ArrayLike], names: Sequence[str] | None) -> tuple[tuple[str, ...], list[Array]]:
    """Broadcast the settings of a prior to one length, and check that all are finite numbers."""
    try:
        settings = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in named.values()))
    except (TypeError, ValueError) as error:
        shapes = ", ".join(f"{k} {np.shape(v)}" for k, v in named.items())
        raise PriorError(f"cannot read {shapes} as vectors of one length: {error}", code="P02") from None
    if settings[0].ndim != 1 or settings[0].size == 0:
        raise PriorError(f"{next(iter(named))} must be a vector, got shape {settings[0].shape}", code="P02")
    checked = _checked_names(names, len(settings[0]))
    for label, values in zip(named, settings, strict=True):
        for name, value in zip(checked, values, strict=True):
            if not np.isfinite(value):
                raise PriorError(f"prior {name!r}: {label} must be a finite number, got {value}", code="P02")
    return checked, [frozen(v) for v in settings]


def _check_interval(names: Sequence[str], low: Array, high: Array) -> None:
    for name, a, b in zip(names, low.tolist(), high.tolist(), strict=True):
        if not np.isfinite(b - a):
            raise PriorError(f"prior {name!r}: the width from {a:g} to {b:g} overflows", code="P02")
        if a == b:
            raise PriorError(
                f"prior {name!r} has zero width (low = high = {a:g})",
                code="P08",
                fix="make it a fixed argument of the simulator",
            )
        if a > b:
            raise PriorError(f"prior {name!r}: low {a:g} is not below high {b:g}", code="P01", fix="swap them")


@dataclass(frozen=True, eq=False)
class Uniform:
    """Independent uniform parameters on [low, high].

    Example:
        >>> prior = Uniform(low=[0.1, 0.1], high=[1, 1], names=["beta", "gamma"])
        >>> prior.dim, prior.sample(3, np.random.default_rng(0)).shape
        (2, (3, 2))
    """

    low: Array
    high: Array
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, (low, high) = _vectors({"low": self.low, "high": self.high}, self.names)
        _check_interval(names, low, high)
        _set(self, names=names, low=low, high=high)

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The box."""
        return self.low, self.high

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        draws = np.random.default_rng(rng).random((n, self.dim))
        draws *= self.high - self.low
        draws += self.low
        return draws

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """-log volume inside the box, -inf outside."""
        theta = rows(theta, dim=self.dim)
        inside = ((theta >= self.low) & (theta <= self.high)).all(1)
        return np.where(inside, -np.log(self.high - self.low).sum(), -np.inf)


@dataclass(frozen=True, eq=False)
class LogUniform:
    """Independent parameters whose logarithm is uniform on [log low, log high].

    Example:
        >>> LogUniform(1e-3, 1e3, names=["rate"]).log_prob([[1.0]]).round(3).tolist()
        [-2.626]
    """

    low: Array
    high: Array
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, (low, high) = _vectors({"low": self.low, "high": self.high}, self.names)
        for name, a in zip(names, low, strict=True):
            if a <= 0:
                raise PriorError(f"prior {name!r}: log-uniform low must be > 0, got {a:g}", code="P02")
        _check_interval(names, low, high)
        _set(self, names=names, low=low, high=high)

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The box."""
        return self.low, self.high

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        low, high = np.log(self.low), np.log(self.high)
        draws = np.exp(low + (high - low) * np.random.default_rng(rng).random((n, self.dim)))
        return np.clip(draws, self.low, self.high)  # rounding must not leave the box

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Minus the sum of log theta and of log log(high/low) inside the box, -inf outside."""
        theta = rows(theta, dim=self.dim)
        inside = ((theta >= self.low) & (theta <= self.high)).all(1)
        scale = np.log(np.log(self.high) - np.log(self.low)).sum()
        return np.where(inside, -np.log(np.where(theta > 0, theta, 1.0)).sum(1) - scale, -np.inf)


@dataclass(frozen=True, eq=False)
class Normal:
    """Independent normal parameters.

    Example:
        >>> Normal([0.0, 1.0], [1.0, 2.0], names=["a", "b"]).dim
        2
    """

    mean: Array
    sd: Array
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, (mean, sd) = _vectors({"mean": self.mean, "sd": self.sd}, self.names)
        for name, value in zip(names, sd, strict=True):
            if value <= 0:
                raise PriorError(f"prior {name!r}: sd must be a finite number > 0, got {value:g}", code="P02")
        _set(self, names=names, mean=mean, sd=sd)

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The whole space."""
        return np.full(self.dim, -np.inf), np.full(self.dim, np.inf)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        return self.mean + self.sd * np.random.default_rng(rng).standard_normal((n, self.dim))

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Sum of normal log densities."""
        z = (rows(theta, dim=self.dim) - self.mean) / self.sd
        return -0.5 * (z**2).sum(1) - np.log(self.sd).sum() - 0.5 * self.dim * _LOG_2PI


@dataclass(frozen=True, eq=False)
class Independent:
    """Independent parameters, each with its own scipy frozen distribution.

    Example:
        >>> from scipy import stats
        >>> prior = Independent({"rate": stats.gamma(2.0), "shift": stats.norm(0, 3)})
        >>> prior.names, prior.bounds[0].tolist()
        (('rate', 'shift'), [0.0, -inf])
    """

    marginals: Mapping[str, Any]
    names: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if not isinstance(self.marginals, Mapping) or not self.marginals:
            raise PriorError(
                f"expected a dict of name -> scipy frozen distribution, got {self.marginals!r}", code="P03"
            )
        names = _checked_names(list(self.marginals), len(self.marginals))
        for name, marginal in self.marginals.items():
            if not (hasattr(marginal, "rvs") and hasattr(marginal, "support")):
                raise PriorError(
                    f"prior {name!r}: {marginal!r} has no sample method (rvs)",
                    code="P03",
                    why="thrifty needs to draw from it",
                    fix=f'use a frozen scipy distribution, e.g. {{"{name}": scipy.stats.norm(0, 1)}}',
                )
            if not hasattr(marginal, "logpdf"):
                raise PriorError(
                    f"prior {name!r}: {marginal!r} is discrete; thrifty's priors have densities", code="P07"
                )
            low, high = marginal.support()
            if np.isnan(low) or np.isnan(high):
                raise PriorError(
                    f"prior {name!r}: scipy rejects these settings (support {low} to {high})",
                    code="P02",
                    fix="check scale > 0 and the shape parameters",
                )
        _set(self, names=names, marginals=dict(self.marginals))

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The support of each distribution."""
        ends = np.array([self.marginals[name].support() for name in self.names], dtype=np.float64)
        return ends[:, 0], ends[:, 1]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        rng = np.random.default_rng(rng)
        return np.column_stack([self.marginals[name].rvs(size=n, random_state=rng) for name in self.names])

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Sum of the marginal log densities."""
        theta = rows(theta, dim=self.dim)
        return sum(
            (self.marginals[name].logpdf(theta[:, i]) for i, name in enumerate(self.names)), np.zeros(len(theta))
        )


@dataclass(frozen=True)
class _ScipyJoint:
    """A frozen multivariate scipy distribution."""

    frozen: Any
    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        return len(self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        return np.full(self.dim, -np.inf), np.full(self.dim, np.inf)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        draws = self.frozen.rvs(size=n, random_state=np.random.default_rng(rng))
        return np.asarray(draws, dtype=np.float64).reshape(n, self.dim)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        return np.asarray(self.frozen.logpdf(rows(theta, dim=self.dim)), dtype=np.float64).reshape(-1)


@dataclass(frozen=True)
class _TorchPrior:
    """A torch or sbi distribution, called through its own tensors; thrifty does not import torch."""

    distribution: Any
    names: tuple[str, ...]
    bounds: tuple[Array, Array]

    @property
    def dim(self) -> int:
        return len(self.names)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        draws = _torch_draws(self.distribution, n, int(np.random.default_rng(rng).integers(2**63 - 1)))
        return draws.detach().cpu().numpy().astype(np.float64).reshape(n, self.dim)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        theta = rows(theta, dim=self.dim)
        low, high = self.bounds
        inside = ((theta >= low) & (theta <= high)).all(1)
        out = np.full(len(theta), -np.inf)
        try:
            out[inside] = self._inner_log_prob(theta[inside])
        except ValueError:  # a support that is no box: torch refuses the whole batch for one row
            for row in np.flatnonzero(inside):
                try:
                    out[row] = self._inner_log_prob(theta[row : row + 1])[0]
                except ValueError:
                    out[row] = -np.inf
        return out

    def _inner_log_prob(self, theta: Array) -> Array:
        import torch

        if not len(theta):
            return np.empty(0)
        like = _torch_draws(self.distribution, 1, 0)
        point = torch.as_tensor(theta, dtype=like.dtype)
        values = self.distribution.log_prob(point if like.ndim > 1 else point[:, 0])
        return values.detach().cpu().numpy().astype(np.float64).reshape(len(theta), -1).sum(1)


def _torch_draws(distribution: Any, n: int, seed: int) -> Any:
    import torch  # loaded already: the user made the distribution with it

    with torch.random.fork_rng(devices=[]):  # the user's global stream is left as it was
        torch.manual_seed(seed)
        return distribution.sample((n,))


@dataclass(frozen=True)
class _Unbounded:
    """A prior that says nothing about its bounds: the whole space, its density decides."""

    inner: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.inner.names)

    @property
    def dim(self) -> int:
        return int(self.inner.dim)

    @property
    def bounds(self) -> tuple[Array, Array]:
        return np.full(self.dim, -np.inf), np.full(self.dim, np.inf)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.inner.sample(n, rng)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        return self.inner.log_prob(theta)


def as_prior(obj: Any, names: Sequence[str] | None = None) -> Prior:
    """Read any common prior: thrifty's own, scipy frozen, a dict of them, torch or sbi distributions.

    Args:
        obj: The prior.
        names: Parameter names, where the object has none of its own.

    Example:
        >>> from scipy import stats
        >>> as_prior({"beta": stats.uniform(0, 1)}).names
        ('beta',)
        >>> as_prior(stats.norm(2, 3)).dim
        1
    """
    if isinstance(obj, Mapping):
        return Independent(obj)
    if isinstance(obj, type):
        raise PriorError(f"{obj.__name__} is a class, not a prior", code="P03", fix=f"call it: {obj.__name__}(...)")
    if hasattr(obj, "rvs"):
        return _from_scipy(obj, names)
    if isinstance(obj, Prior):
        return obj
    if all(hasattr(obj, label) for label in ("sample", "log_prob", "names", "dim")):
        return _Unbounded(obj)
    if hasattr(obj, "sample") and hasattr(obj, "log_prob"):
        return _from_torch(obj, names)
    missing = "sample" if not hasattr(obj, "sample") else "log_prob"
    raise PriorError(
        f"prior has no {missing} method: {type(obj).__name__}",
        code="P03",
        why="thrifty draws from the prior and evaluates its density",
        fix="give bounds (th.Uniform) or a proper distribution (scipy, torch, sbi)",
    )


def _from_scipy(obj: Any, names: Sequence[str] | None) -> Prior:
    if hasattr(obj, "freeze"):
        raise PriorError(
            f"scipy.stats.{getattr(obj, 'name', 'distribution')} is not frozen",
            code="P03",
            fix="give its settings, e.g. scipy.stats.norm(0, 1)",
        )
    if not (hasattr(obj, "logpdf") or hasattr(obj, "support")):
        raise PriorError(f"{type(obj).__name__} has no density; thrifty's priors have densities", code="P07")
    if not hasattr(obj, "support"):  # multivariate
        dim = int(np.size(obj.rvs(size=1, random_state=0)))
        joint = _ScipyJoint(obj, _checked_names(names, dim))
        try:
            joint.log_prob(joint.sample(3, np.random.default_rng(0)))
        except Exception as error:  # whatever scipy makes of rows of parameters
            raise PriorError(
                f"{type(obj).__name__} cannot be evaluated at rows of parameters: {error}",
                code="P04",
                fix="wrap it in an object with sample(n, rng), log_prob(theta), names and dim",
            ) from None
        return joint
    if np.ndim(obj.support()[0]) > 0:
        raise PriorError(
            f"one frozen distribution holds {np.size(obj.support()[0])} parameters",
            code="P04",
            fix='give one per parameter: {"a": scipy.stats.norm(0, 1), "b": scipy.stats.norm(1, 2)}',
        )
    return Independent({_checked_names(names, 1)[0]: obj})


def _from_torch(obj: Any, names: Sequence[str] | None) -> Prior:
    try:
        draw = _torch_draws(obj, 2, 0)
    except TypeError as error:
        raise PriorError(
            f"{type(obj).__name__}.sample((2,)) fails: {error}",
            code="P04",
            fix="give the prior sample(n, rng) -> (n, p), log_prob(theta) -> (n,), names and dim",
        ) from None
    if not type(draw).__module__.startswith("torch"):
        raise PriorError(
            f"{type(obj).__name__}.sample((2,)) returns {type(draw).__name__}",
            code="P04",
            fix="give the prior sample(n, rng) -> (n, p), log_prob(theta) -> (n,), names and dim",
        )
    if getattr(getattr(obj, "support", None), "is_discrete", False):
        raise PriorError(f"{type(obj).__name__} is discrete; thrifty's priors have densities", code="P07")
    dim = 1 if draw.ndim == 1 else int(draw.shape[-1])
    return _TorchPrior(obj, _checked_names(names, dim), _torch_bounds(obj, dim))


def _torch_bounds(obj: Any, dim: int) -> tuple[Array, Array]:
    """Ends of the support, read from the constraint by duck typing; infinite where it says nothing."""
    support = getattr(obj, "support", None)
    while support is not None and hasattr(support, "base_constraint"):
        support = support.base_constraint
    ends = []
    for label, default in (("lower_bound", -np.inf), ("upper_bound", np.inf)):
        value: Any = getattr(support, label, default)
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        ends.append(np.broadcast_to(np.asarray(value, dtype=np.float64).reshape(-1), (dim,)).copy())
    return ends[0], ends[1]


def same_prior(a: Any, b: Any) -> bool:
    """Whether two priors are one object, or of one kind with equal numbers."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, Uniform | LogUniform | Normal):
        return False
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def check_draws(prior: Prior, draws: Any) -> Array:
    """The draws of a prior (n, p), checked for shape, finiteness and density at the first 200.

    Raises:
        PriorError: P04 wrong shape or not finite, P05 a draw has zero density or lies outside the bounds.
    """
    theta = np.asarray(draws, dtype=np.float64)
    if theta.ndim != 2 or theta.shape[1] != prior.dim:
        n = len(theta) if theta.ndim else 0
        raise PriorError(
            f"prior.sample({n}) returned shape {theta.shape}, expected ({n}, {prior.dim})"
            f" for parameters {', '.join(prior.names)}",
            code="P04",
        )
    if not np.isfinite(theta).all():
        raise PriorError(f"prior.sample({len(theta)}) returned values that are not finite", code="P04")
    some = theta[:200]
    density = np.asarray(prior.log_prob(some), dtype=np.float64)
    if density.shape != (len(some),):
        raise PriorError(
            f"prior.log_prob of {len(some)} parameters returned shape {density.shape}, expected ({len(some)},)",
            code="P04",
        )
    bad = ~(density > -np.inf)
    if bad.any():
        raise PriorError(
            f"{int(bad.sum())} of {len(some)} prior draws have zero density, first at theta={some[bad][0].tolist()}",
            code="P05",
            why="sample() and log_prob() describe different priors",
        )
    low, high = prior.bounds
    outside = ((theta < low) | (theta > high)).any(1)
    if outside.any():
        raise PriorError(f"prior draw {theta[outside][0].tolist()} lies outside prior.bounds", code="P05")
    return theta


def check_prior(prior: Prior, *, n: int = 20_000, seed: int = 0) -> None:
    """Draw n parameters and make sure that sampler, density, names and bounds describe one prior.

    Shape is tested over boxes round a few draws: the share of other draws in a box must be the integral of the density
    over it, within six standard errors of both.

    Raises:
        PriorError: P04 wrong shape, P05 sampler and density disagree, P08 a parameter never varies.
    """
    rng = np.random.default_rng(seed)
    theta = check_draws(prior, prior.sample(n, rng))
    for name, column in zip(prior.names, theta.T, strict=True):
        if np.ptp(column) == 0:
            raise PriorError(
                f"prior {name!r} has zero width: every draw is {column[0]:g}",
                code="P08",
                fix="make it a fixed argument of the simulator",
            )
    chosen, others = theta[: n // 2], theta[n // 2 :]
    spread = np.subtract(*np.quantile(chosen, [0.75, 0.25], axis=0))
    spread = np.where(spread > 0, spread, np.ptp(chosen, axis=0))
    for centre in chosen[:8]:
        distance = np.abs((chosen - centre) / spread).max(1)
        half = np.quantile(distance, 0.2) * spread  # a fifth of the draws
        low, high = np.maximum(centre - half, prior.bounds[0]), np.minimum(centre + half, prior.bounds[1])
        drawn = ((others >= low) & (others <= high)).all(1).mean()
        points = low + (high - low) * rng.random((4000, prior.dim))
        density = np.exp(np.asarray(prior.log_prob(points)) + np.log(high - low).sum())
        error = np.hypot(np.sqrt(0.16 / len(others)), density.std() / np.sqrt(len(points)))
        if not abs(density.mean() - drawn) < 6 * error:
            raise PriorError(
                f"prior draws and density disagree: {drawn:.1%} of the draws lie within {half.round(3).tolist()} of"
                f" {centre.round(3).tolist()}, where the density integrates to {density.mean():.1%}",
                code="P05",
                why="sample() and log_prob() describe different priors, or the density is not normalised",
            )


def _set(instance: object, **values: object) -> None:
    for label, value in values.items():
        object.__setattr__(instance, label, value)
