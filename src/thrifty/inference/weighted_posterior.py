"""A posterior at one observation, as weighted draws: the result of ABC, SMC-ABC and the pointwise methods.

    E[f(theta) | x_o] ≈ sum_i W_i f(theta_i),   W_i = w_i / sum w

`sample` resamples the draws (systematically: a draw of weight W comes floor(nW) or ceil(nW) times), so that
expectations keep the accuracy of the weights. `log_prob` is a weighted Gaussian kernel estimate over the
parameters without bounds: smoother than the posterior by the bandwidth, good for plots and comparisons, and never
used by `sample`, `mean` or `quantile`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty import weights as w
from thrifty.display import Card, count_things, format_number, list_shares
from thrifty.errors import DataError, ThriftyError, ThriftyWarning
from thrifty.inference import archive
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.answers.kernel_density import estimate_log_density
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.transforms import BoxTransform
from thrifty.named import order_observation
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.types import Array, Levels, Prior, as_rows, find_discrete, freeze, set_fields


@dataclass(frozen=True, repr=False)
class WeightedPosterior(PlottedPosterior, Divisible):
    """Weighted draws from the posterior at `x_o`.

    Attributes:
        theta: Parameters (n, p).
        log_weights: Log posterior weights (n,), up to one constant.
        x_o: The observation they belong to.
        low, high: Bounds of the parameters (p,), infinite where there is none.
        names: Parameter names, or empty.
        epsilon: The tolerance, where there was one.
        index: Row of the simulation table behind each draw (n,); draws that share one count once in `ess`.
        x_names: Names of the numbers in x_o, or empty.
        levels: What values each parameter takes; empty where all are numbers.
        prior: The prior, where it is known: figures show it.

    Example:
        >>> post = WeightedPosterior([[1.0], [2.0]], [0.0, np.log(3.0)], x_o=[0.0])
        >>> post.mean.round(6).tolist(), round(post.ess, 3), post.sample(4, seed=0).shape
        ([1.75], 1.6, (4, 1))
    """

    theta: Array
    log_weights: Array
    x_o: Array
    low: Array = None  # type: ignore[assignment]
    high: Array = None  # type: ignore[assignment]
    names: tuple[str, ...] = ()
    epsilon: float | None = None
    index: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    x_names: tuple[str, ...] = ()
    levels: Levels = ()
    prior: Prior | None = None

    def __post_init__(self) -> None:
        theta = freeze(as_rows(self.theta))
        n, p = theta.shape
        w.normalise(self.log_weights)  # refuses NaN, +inf and all zero
        if np.shape(self.log_weights) != (n,):
            raise DataError(f"log_weights has shape {np.shape(self.log_weights)}, expected ({n},)", code="bad-weights")
        defaults = {"low": np.full(p, -np.inf), "high": np.full(p, np.inf), "index": np.arange(n)}
        arrays = {label: getattr(self, label) for label in ("log_weights", "x_o", "low", "high", "index")}
        given = {label: defaults[label] if value is None else value for label, value in arrays.items()}
        kept = {label: freeze(value, np.int64 if label == "index" else np.float64) for label, value in given.items()}
        set_fields(self, theta=theta, names=tuple(self.names), **kept)

    def __len__(self) -> int:
        return len(self.theta)

    def _card(self) -> Card:
        ends = self.quantile([0.05, 0.95])
        names = self.names or tuple(f"theta_{i + 1}" for i in range(self.theta.shape[1]))
        figures = zip(names, self.mean, self.sd, *ends, strict=True)
        rows = [(name, *map(format_number, values)) for name, *values in figures]
        rows = [row for row, level in zip(rows, self.parameter_levels, strict=True) if not level]
        facts = [("rests on", f"{count_things(len(np.unique(self.index)), 'run')} ({self.ess:,.0f} effective)")]
        facts += [] if self.epsilon is None else [("tolerance", format_number(self.epsilon))]
        levels = dict(zip(names, self.parameter_levels, strict=True))
        facts += [(name, list_shares(shares)) for name, shares in self.probabilities.items() if levels[name]]
        title = f"posterior at x_o = {_shorten(self.x_o)}"
        return Card(title, facts, ("parameter", "mean", "sd", "5%", "95%"), rows)

    @property
    def weights(self) -> Array:
        """Normalised weights (n,), summing to one."""
        return w.normalise(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective number of *runs*: (sum W)^2 / sum W^2, draws of one run added up first."""
        return float(1 / np.square(self._sum_by_run(self.weights)).sum())

    @property
    def mean(self) -> Array:
        """Posterior mean (p,)."""
        return self.weights @ self.theta

    @property
    def sd(self) -> Array:
        """Posterior standard deviation (p,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def covariance(self) -> Array:
        """Posterior covariance (p, p)."""
        return w.covariance(self.theta, self.log_weights)

    @property
    def probabilities(self) -> dict[str, dict[Any, float]]:
        """Posterior probability of each value of the discrete parameters: by label, or by whole number.

        Example:
            >>> post = WeightedPosterior([[0.0], [1.0]], [0.0, np.log(3.0)], [0.0], names=("m",), levels=(("a", "b"),))
            >>> post.probabilities
            {'m': {'a': 0.25, 'b': 0.75}}
            >>> WeightedPosterior([[3.0], [5.0]], [0.0, np.log(3.0)], [0.0], names=("k",), levels=((),)).probabilities
            {'k': {3: 0.25, 4: 0.0, 5: 0.75}}
        """
        columns = zip(self.parameter_names, self.theta.T, self.parameter_levels, strict=True)
        return {
            name: w.sum_by_label(column, level, self.log_weights)
            for name, column, level in columns
            if level is not None
        }

    @property
    def mean_se(self) -> Array:
        """Monte Carlo standard error (p,) of `mean`: sqrt(sum W^2 (theta - mean)^2) over runs."""
        return self.standard_error(self.theta - self.mean)

    @property
    def sd_se(self) -> Array:
        """Monte Carlo standard error (p,) of `sd`, by the delta method."""
        square = (self.theta - self.mean) ** 2
        return self.standard_error(square - self.weights @ square) / (2 * self.sd)

    def standard_error(self, centred: Array) -> Array:
        """Standard error (d,) of the weighted mean of values (n, d) whose weighted mean is zero."""
        parts = np.stack([self._sum_by_run(column) for column in (centred * self.weights[:, None]).T])
        return np.sqrt(np.square(parts).sum(1))

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Posterior quantiles (len(q), p); of whole numbers a value that occurs."""
        return w.quantile(self.theta, q, self.log_weights, discrete=find_discrete(self.parameter_levels))

    def sample(self, n: int, x_o: npt.ArrayLike | None = None, *, seed: int = 0) -> Array:
        """Draw (n, p), equally weighted, by systematic resampling."""
        self._check_observation(x_o)
        return w.resample(self.theta, self.log_weights, n, rng=np.random.default_rng(seed))

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike | None = None) -> Array:
        """Log of the weighted kernel density (k,) at theta (k, p); -inf outside the bounds.

        The kernel is Gaussian over the parameters without bounds, with the draws' covariance times
        h^2, h = (4 / (ess (p + 2)))^(1 / (p + 4)) (Silverman's rule with the effective size).
        """
        self._check_observation(x_o)
        box = BoxTransform(self.low, self.high, self.levels)
        return estimate_log_density(
            as_rows(theta, dim=box.dim, names=self.names), self.theta, self.log_weights, box, self.ess
        )

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends (p,) of the parameters' support."""
        return self.low, self.high

    @property
    def parameter_levels(self) -> Levels:
        """What values each parameter takes."""
        return self.levels or (None,) * self.theta.shape[1]

    def _sum_by_run(self, values: Array) -> Array:
        _, run = np.unique(self.index, return_inverse=True)
        return np.asarray(np.bincount(run, weights=values), dtype=np.float64)

    def _check_observation(self, x_o: npt.ArrayLike | None) -> None:
        if x_o is None:
            return
        event = self.x_o.shape[1:] if self.x_o.size > len(self.x_names) > 0 else self.x_o.shape
        given = np.asarray(order_observation(x_o, event, self.x_names), dtype=np.float64)
        if given.size != self.x_o.size or not np.allclose(given.ravel(), self.x_o.ravel(), rtol=1e-9, atol=0):
            raise DataError(
                f"these draws belong to x_o = {_shorten(self.x_o)}, not to {_shorten(given)}",
                code="bad-observation",
                why="weighted draws are valid for one observation only",
                fix="leave x_o out, or fit a method for any observation (th.ABC, th.NPE)",
            )

    def save(self, path: str | Path) -> None:
        """Write plain arrays and a JSON recipe; `th.load_posterior` reads them back exactly."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        recipe = {"kind": "weighted", "names": list(self.names), "epsilon": self.epsilon, "x_names": list(self.x_names)}
        recipe |= archive.describe_levels(self.levels) | archive.describe_prior(self.prior)
        return recipe, {k: getattr(self, k) for k in ("theta", "log_weights", "x_o", "low", "high", "index")}

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, supplied: Supplied) -> WeightedPosterior:
        """Rebuild the posterior from what `to_parts` returned."""
        x_names = tuple(map(str, recipe.get("x_names", ())))
        levels = archive.read_levels(recipe, arrays["theta"].shape[1])
        about = {"x_names": x_names, "levels": levels, "prior": archive.read_prior(recipe, supplied)}
        given: dict[str, Any] = {**about, **arrays}
        return cls(names=tuple(recipe["names"]), epsilon=recipe["epsilon"], **given)


def describe_accepted(posterior: Any, x_o: Any) -> str:
    """Say how many accepted runs an ABC posterior rests on at x_o; "" for other methods, or where none is accepted."""
    found = find_accepted(posterior, x_o)
    return "" if found is None else describe_rest(*found)


def describe_rest(n: int, effective: float) -> str:
    """Say on how many accepted runs a posterior rests.

    Example:
        >>> describe_rest(1200, 800.4)
        'rests on 1,200 accepted runs (800 effective)'
    """
    return f"rests on {count_things(n, 'accepted run')} ({effective:,.0f} effective)"


def find_accepted(posterior: Any, x_o: Any) -> tuple[int, float] | None:
    """Return the number of accepted runs of an ABC posterior at x_o and as how many they count; None without any."""
    accepted = getattr(posterior, "accepted", None)
    try:
        with warnings.catch_warnings():  # said when the draws were made
            warnings.simplefilter("ignore", ThriftyWarning)
            found = posterior if accepted is None else accepted(x_o)
    except ThriftyError:
        return None
    return None if getattr(found, "epsilon", None) is None else (len(np.unique(found.index)), found.ess)


def _shorten(values: Array) -> str:
    flat = ", ".join(f"{v:.4g}" for v in values.ravel()[:4])
    return f"[{flat}{', …' if values.size > 4 else ''}]"
