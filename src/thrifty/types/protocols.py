"""What users bring: anything with these methods will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.types.arrays import Array

if TYPE_CHECKING:  # pragma: no cover
    from thrifty.types.draws import Draws


@runtime_checkable
class Prior(Protocol):
    """A distribution over parameters: sampled and evaluated row by row."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name per parameter."""
        ...

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        ...

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper end of the support, each (p,), infinite where there is none."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p) parameters."""
        ...

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Normalised log density (n,) of theta (n, p); -inf outside the support."""
        ...


class Cost(Protocol):
    """Expected cost of a run: any callable (n, p) -> (n,), positive and finite."""

    def __call__(self, theta: Array, /) -> Array:
        """Cost of each row."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """g: a positive non-decreasing function of cost, floor and cap inside."""

    def log(self, cost: Array) -> Array:
        """Log g(cost), elementwise."""
        ...

    def floored(self, low: float) -> Penalty:
        """The same penalty with a floor on cost, unless it has one."""
        ...

    @property
    def low(self) -> float | None:
        """Cost below which the penalty is flat."""
        ...


@runtime_checkable
class Weighting(Protocol):
    """Anything that knows the log weight of a parameter, up to one constant."""

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log of prior over proposal density at each row, up to a constant."""
        ...


class Proposal(Weighting, Protocol):
    """A weighting that can also be sampled."""

    @property
    def prior(self) -> Prior:
        """The distribution that the weights restore."""
        ...

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n weighted parameters."""
        ...


class Simulator(Protocol):
    """`simulate(theta, rng) -> numbers`; `rng` may be left out or be `seed`."""

    def __call__(self, theta: Array, /, *args: Any) -> Any:
        """One run."""
        ...


class Posterior(Protocol):
    """What every method's `fit` returns."""

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int) -> Array:
        """Draw (n, p) from the posterior at x_o."""
        ...

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log posterior density (n,)."""
        ...
