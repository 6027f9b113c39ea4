"""Everybody else's priors: scipy, torch and sbi objects, read by what they can do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PriorError
from thrifty.priors.families import Named, as_parameter_names
from thrifty.priors.independent import Independent
from thrifty.types import Array, Prior, as_rows


@dataclass(frozen=True)
class _ScipyJoint(Named):
    """A frozen multivariate scipy distribution."""

    frozen: Any
    names: tuple[str, ...]

    def _list_distributions(self) -> Iterable[str]:
        return (f"{type(self.frozen).__name__.removesuffix('_frozen')} of all",) * self.dim

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        draws = self.frozen.rvs(size=n, random_state=np.random.default_rng(rng))
        return np.asarray(draws, dtype=np.float64).reshape(n, self.dim)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        return np.asarray(self.frozen.logpdf(as_rows(theta, dim=self.dim, names=self.names)), dtype=np.float64).reshape(
            -1
        )


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
        draws = _draw_from_torch(self.distribution, n, int(np.random.default_rng(rng).integers(2**63 - 1)))
        return draws.detach().cpu().numpy().astype(np.float64).reshape(n, self.dim)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        theta = as_rows(theta, dim=self.dim, names=self.names)
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
        like = _draw_from_torch(self.distribution, 1, 0)
        point = torch.as_tensor(theta, dtype=like.dtype)
        values = self.distribution.log_prob(point if like.ndim > 1 else point[:, 0])
        return values.detach().cpu().numpy().astype(np.float64).reshape(len(theta), -1).sum(1)


def _draw_from_torch(distribution: Any, n: int, seed: int) -> Any:
    import torch  # loaded already: the user made the distribution with it

    with torch.random.fork_rng(devices=[]):  # the user's global stream is left as it was
        torch.manual_seed(seed)
        return distribution.sample((n,))


@dataclass(frozen=True)
class _Unbounded(Named):
    """A prior that says nothing about its bounds: the whole space, its density decides."""

    inner: Any
    names: tuple[str, ...]

    def _list_distributions(self) -> Iterable[str]:
        return (type(self.inner).__name__,) * self.dim

    @property
    def dim(self) -> int:
        return int(self.inner.dim)

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
        raise PriorError(
            f"{obj.__name__} is a class, not a prior", code="bad-prior", fix=f"call it: {obj.__name__}(...)"
        )
    if hasattr(obj, "rvs"):
        return _from_scipy(obj, names)
    if isinstance(obj, Prior):
        return obj
    if all(hasattr(obj, label) for label in ("sample", "log_prob", "names", "dim")):
        return _Unbounded(obj, tuple(obj.names))
    if hasattr(obj, "sample") and hasattr(obj, "log_prob"):
        return _from_torch(obj, names)
    if isinstance(obj, list | tuple):
        raise PriorError(
            f"a {type(obj).__name__} of {len(obj)} is not a prior: its parameters have no names",
            code="bad-prior",
            fix='th.Independent({"a": th.Uniform(0, 1), "b": th.Normal(0, 1)}), a name for each',
        )
    if inspect.isroutine(obj):
        raise PriorError(
            f"the prior is a function, {getattr(obj, '__name__', 'without a name')}: is it the simulator?",
            code="bad-prior",
            why="the simulator comes before the prior",
            fix="th.Campaign(folder, simulator, prior), th.infer(simulator, prior, x_o)",
        )
    missing = "sample" if not hasattr(obj, "sample") else "log_prob"
    raise PriorError(
        f"prior has no {missing} method: {type(obj).__name__}",
        code="bad-prior",
        why="thrifty draws from the prior and evaluates its density",
        fix="give bounds (th.Uniform) or a proper distribution (scipy, torch, sbi)",
    )


def _from_scipy(obj: Any, names: Sequence[str] | None) -> Prior:
    if hasattr(obj, "freeze"):
        raise PriorError(
            f"scipy.stats.{getattr(obj, 'name', 'distribution')} is not frozen",
            code="bad-prior",
            fix="give its settings, e.g. scipy.stats.norm(0, 1)",
        )
    if not (hasattr(obj, "logpdf") or hasattr(obj, "support")):
        raise PriorError(f"{type(obj).__name__} has no density and no support", code="bad-prior")
    if not hasattr(obj, "support"):  # multivariate
        dim = int(np.size(obj.rvs(size=1, random_state=0)))
        joint = _ScipyJoint(obj, as_parameter_names(names, dim))
        try:
            joint.log_prob(joint.sample(3, np.random.default_rng(0)))
        except Exception as error:  # whatever scipy makes of rows of parameters
            raise PriorError(
                f"{type(obj).__name__} cannot be evaluated at rows of parameters: {error}",
                code="bad-prior",
                fix="wrap it in an object with sample(n, rng), log_prob(theta), names and dim",
            ) from None
        return joint
    if np.ndim(obj.support()[0]) > 0:
        raise PriorError(
            f"one frozen distribution holds {np.size(obj.support()[0])} parameters",
            code="bad-prior",
            fix='give one per parameter: {"a": scipy.stats.norm(0, 1), "b": scipy.stats.norm(1, 2)}',
        )
    return Independent({as_parameter_names(names, 1)[0]: obj})


def _from_torch(obj: Any, names: Sequence[str] | None) -> Prior:
    draw: Any = None
    try:
        draw = _draw_from_torch(obj, 2, 0)
        wrong = "" if type(draw).__module__.startswith("torch") else f"returns {type(draw).__name__}"
    except TypeError as error:
        wrong = f"fails: {error}"
    if wrong:
        raise PriorError(
            f"{type(obj).__name__}.sample((2,)) {wrong}",
            code="bad-prior",
            fix="give the prior sample(n, rng) -> (n, p), log_prob(theta) -> (n,), names and dim",
        )
    if getattr(getattr(obj, "support", None), "is_discrete", False):
        raise PriorError(
            f"{type(obj).__name__} is a discrete distribution of torch",
            code="bad-prior",
            fix="th.Integers, th.Categorical or one of scipy.stats, in th.Independent",
        )
    dim = 1 if draw.ndim == 1 else int(draw.shape[-1])
    return _TorchPrior(obj, as_parameter_names(names, dim), _read_torch_bounds(obj, dim))


def _read_torch_bounds(obj: Any, dim: int) -> tuple[Array, Array]:
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
