"""What the checks are given, read once: a posterior that can be sampled, runs that are runs, draws that are numbers.

Each mistake gets one message. A draw that is not a number would otherwise be counted as lying above everything.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


def check_posterior(posterior: Any) -> None:
    """Refuse what cannot be sampled as `posterior.sample(n, x_o, seed=)`."""
    if isinstance(posterior, Simulations):
        raise DataError(
            "a table of simulations came where the posterior belongs",
            code="bad-posterior",
            fix="the posterior goes first: th.diagnose(posterior, simulations, x_o)",
        )
    sample = getattr(posterior, "sample", None)
    if not callable(sample):
        raise DataError(
            f"{type(posterior).__name__} is no posterior: it has no sample(n, x_o, seed=)",
            code="bad-posterior",
            fix="pass what fit returned, or any object with that method",
        )
    try:
        inspect.signature(sample).bind(10, np.zeros(1), seed=0)
    except TypeError as error:
        raise DataError(
            f"the posterior's sample cannot be called as sample(n, x_o, seed=): {error}",
            code="bad-posterior",
            why="draws must be reproducible",
            fix="wrap it; for sbi: def sample(self, n, x_o, *, seed): torch.manual_seed(seed); "
            "return posterior.sample((n,), x=torch.as_tensor(x_o).float()).numpy()",
        ) from None
    except ValueError:  # a compiled function does not tell its signature
        return


def check_simulations(simulations: Any, name: str = "simulations") -> None:
    """Refuse what is not a table of runs, swapped arguments above all."""
    if not isinstance(simulations, Simulations):
        raise DataError(
            f"{name} must be th.Simulations, got {type(simulations).__name__}",
            code="bad-array",
            fix="the order is posterior, simulations, x_o; th.Simulations.from_arrays(theta=..., x=...) makes a table",
        )


def independent_runs(simulations: Simulations, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """(theta, x, log weights) of the valid runs with weight, one of the m realisations of each, chosen at random.

    Realisations of one theta are not independent: counted as pairs, m = 10 rejected a right posterior in half of all
    cases. A run of weight zero stands for nothing, not even for a neighbour.
    """
    runs = simulations.valid()
    runs = runs[runs.log_weights > -np.inf]
    x = runs.x[np.arange(len(runs)), rng.integers(runs.m, size=len(runs))] if runs.m > 1 else runs.x
    return runs.theta, x, runs.log_weights


def check_level(level: Any) -> None:
    """Refuse a level that is not a share, such as 95."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        hint = f"level={level / 100:g}" if isinstance(level, int | float) and 1 < level < 100 else "e.g. level=0.95"
        raise DataError(f"level must lie between 0 and 1, got {level!r}", code="bad-setting", fix=hint)


def check_count(value: Any, least: int, name: str) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DataError(f"{name} must be a whole number >= {least}, got {value!r}", code="bad-setting")


def log_density(posterior: Any, theta: Array, x: npt.ArrayLike) -> Array:
    """Log density (n,) of the posterior at theta (n, p) and x."""
    try:
        inspect.signature(posterior.log_prob).bind(theta, x)
    except TypeError as error:
        raise DataError(
            f"the posterior's log_prob cannot be called as log_prob(theta, x_o): {error}",
            code="bad-posterior",
            fix="wrap it: def log_prob(self, theta, x_o): ...",
        ) from None
    except ValueError:  # a compiled function does not tell its signature
        pass
    values = np.asarray(posterior.log_prob(theta, x), dtype=np.float64)
    if values.shape != (len(theta),):
        raise DataError(
            f"the posterior's log_prob gives shape {values.shape} for {len(theta)} rows of theta",
            code="bad-posterior",
            fix=f"return one number a row, shape ({len(theta)},)",
        )
    return values


def draws_at(posterior: Any, n: int, x: npt.ArrayLike, seed: int, dim: int) -> Array:
    """N finite posterior draws (n, dim) at x."""
    values = np.asarray(posterior.sample(n, x, seed=seed), dtype=np.float64)
    values = values.reshape(n, -1) if values.ndim == 1 and len(values) == n else values
    if values.shape != (n, dim):
        raise DataError(
            f"the posterior's draws have shape {values.shape}, expected {(n, dim)}",
            code="bad-posterior",
            fix="sample(n, x_o, seed=) must return (n, p), with the parameters of the simulations",
        )
    check_finite(values[None], np.asarray(x, dtype=np.float64)[None])
    return values


def check_finite(draws: Array, x: Array) -> None:
    """Refuse posterior draws (n, l, p) at outputs x (n, *event) that are not finite numbers."""
    bad = np.asarray(~np.isfinite(draws).all(axis=2), dtype=np.bool_)
    if bad.any():
        run = int(np.flatnonzero(bad.any(axis=1))[0])
        raise DataError(
            f"{int(bad.sum())} of {bad.size} posterior draws are NaN or infinite, first at x = {_shown(x[run])}",
            code="bad-posterior",
            why="no rank can be given to a draw that is not a number",
            fix="mend the posterior; a network trained on unscaled or constant statistics gives NaN",
        )


def check_density(density: Array, x: Array) -> None:
    """Refuse log densities (n, l) at outputs x (n, *event) that are NaN or +inf; -inf is outside the support."""
    bad = np.asarray(np.isnan(density) | (density == np.inf), dtype=np.bool_)
    if bad.any():
        run = int(np.flatnonzero(bad.any(axis=1))[0])
        raise DataError(
            f"{int(bad.sum())} of {bad.size} values of the posterior's log_prob are NaN or +inf, first at x ="
            f" {_shown(x[run])}",
            code="bad-posterior",
            why="a density that is not a number belongs to no region",
            fix="mend log_prob; outside the support it is -inf",
        )


def _shown(x: Array) -> str:
    flat = np.ravel(x)
    return np.array2string(flat[:4], precision=4) + (f" and {len(flat) - 4} more" if len(flat) > 4 else "")
