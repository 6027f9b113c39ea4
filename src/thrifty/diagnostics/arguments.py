"""Validate what the checks are given: a posterior that can be sampled, a table of runs, draws that are finite.

Each mistake has one message. A NaN draw would otherwise be counted as larger than every other draw.
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
    """Reject what cannot be sampled as `posterior.sample(n, x_o, seed=)`."""
    if isinstance(posterior, Simulations):
        raise DataError(
            "the posterior was expected first, got a table of simulations",
            code="bad-posterior",
            fix="th.diagnose(posterior, simulations, x_o)",
        )
    sample = getattr(posterior, "sample", None)
    if not callable(sample):
        raise DataError(
            f"{type(posterior).__name__} is not a posterior: it has no sample(n, x_o, seed=)",
            code="bad-posterior",
            fix="pass what fit returned, or any object with that method",
        )
    if problem := _call_problem(sample, 10, np.zeros(1), seed=0):
        raise DataError(
            f"the posterior's sample cannot be called as sample(n, x_o, seed=): {problem}",
            code="bad-posterior",
            why="draws must be reproducible",
            fix="wrap it; for sbi: def sample(self, n, x_o, *, seed): torch.manual_seed(seed); "
            "return posterior.sample((n,), x=torch.as_tensor(x_o).float()).numpy()",
        )


def _call_problem(function: Any, *values: Any, **named: Any) -> str:
    """Say why a function cannot be called with these arguments; empty when it can, or when nobody knows."""
    try:
        inspect.signature(function).bind(*values, **named)
    except TypeError as error:
        return str(error)
    except ValueError:  # a compiled function has no signature to inspect
        return ""
    return ""


def check_simulations(simulations: Any, name: str = "simulations") -> None:
    """Reject what is not a table of runs; swapped arguments are the usual cause."""
    if not isinstance(simulations, Simulations):
        raise DataError(
            f"{name} must be th.Simulations, got {type(simulations).__name__}",
            code="bad-array",
            fix="the order is posterior, simulations, x_o; th.Simulations.from_arrays(theta=..., x=...) makes a table",
        )


def choose_independent_runs(simulations: Simulations, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Choose one of the m realisations of each valid run of positive weight: (theta, x, log weights).

    Realisations of one theta are not independent: counted as pairs, m = 10 rejected a correct posterior in half of all
    cases. A run of weight zero represents no prior mass, so it is left out.
    """
    runs = simulations.valid()
    runs = runs[runs.log_weights > -np.inf]
    x = runs.x[np.arange(len(runs)), rng.integers(runs.m, size=len(runs))] if runs.m > 1 else runs.x
    return runs.theta, x, runs.log_weights


def check_level(level: Any) -> None:
    """Reject a level outside (0, 1), such as 95."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        hint = f"level={level / 100:g}" if isinstance(level, int | float) and 1 < level < 100 else "e.g. level=0.95"
        raise DataError(f"level must lie between 0 and 1, got {level!r}", code="bad-setting", fix=hint)


def check_count(value: Any, least: int, name: str) -> None:
    """Reject what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DataError(f"{name} must be a whole number >= {least}, got {value!r}", code="bad-setting")


def evaluate_log_density(posterior: Any, theta: Array, x: npt.ArrayLike, *, normalise: bool = True) -> Array:
    """Evaluate the log density (n,) of the posterior at theta (n, p) and x.

    Args:
        posterior: With `log_prob(theta, x_o)`.
        theta: Parameters (n, p).
        x: The observation.
        normalise: False where a constant does not matter: NLE and NRE take seconds to find it.
    """
    if problem := _call_problem(posterior.log_prob, theta, x):
        raise DataError(
            f"the posterior's log_prob cannot be called as log_prob(theta, x_o): {problem}",
            code="bad-posterior",
            fix="wrap it: def log_prob(self, theta, x_o): ...",
        )
    free = not normalise and not _call_problem(posterior.log_prob, theta, x, normalise=False)
    found = posterior.log_prob(theta, x, normalise=False) if free else posterior.log_prob(theta, x)
    values = np.asarray(found, dtype=np.float64)
    if values.shape != (len(theta),):
        raise DataError(
            f"the posterior's log_prob gives shape {values.shape} for {len(theta)} rows of theta",
            code="bad-posterior",
            fix=f"return one number per row, shape ({len(theta)},)",
        )
    return values


def draw_posterior(posterior: Any, n: int, x: npt.ArrayLike, seed: int, dim: int) -> Array:
    """Draw n finite posterior samples (n, dim) at x."""
    values = as_columns(posterior.sample(n, x, seed=seed), n)
    check_draws(values[None], np.asarray(x, dtype=np.float64)[None], n, dim)
    return values


def as_columns(values: Any, n: int) -> Array:
    """Read n draws of a single parameter as a column (n, 1); leave other arrays as they are."""
    table = np.asarray(values, dtype=np.float64)
    return table.reshape(n, -1) if table.ndim == 1 and len(table) == n else table


def check_draws(draws: Array, x: Array, n: int, dim: int) -> None:
    """Reject posterior draws that are not finite or not of shape (len(x), n, dim), at outputs x (k, *event)."""
    if draws.shape != (len(x), n, dim):
        raise DataError(
            f"the posterior's draws have shape {draws.shape[1:]}, expected {(n, dim)}",
            code="bad-posterior",
            fix="sample(n, x_o, seed=) must return (n, p), with the parameters of the simulations",
        )
    bad = np.asarray(~np.isfinite(draws).all(axis=2), dtype=np.bool_)
    _reject_bad_values(
        bad, x, "posterior draws are NaN or infinite", why="such a draw has no rank",
        fix="repair the posterior; a network trained on unscaled or constant statistics gives NaN",
    )  # fmt: skip


def check_log_density(density: Array, x: Array) -> None:
    """Reject log densities (n, l) at outputs x (n, *event) that are NaN or +inf; -inf is outside the support."""
    bad = np.isnan(density) | (density == np.inf)
    _reject_bad_values(
        bad, x, "values of the posterior's log_prob are NaN or +inf",
        why="a point without a density belongs to no highest-density region",
        fix="repair log_prob; outside the support it is -inf",
    )  # fmt: skip


def _reject_bad_values(bad: npt.NDArray[np.bool_], x: Array, what: str, *, why: str, fix: str) -> None:
    """Reject values if any is bad (n, l), with the first output among x (n, *event) where one is."""
    if not bad.any():
        return
    first = np.ravel(x[int(np.flatnonzero(bad.any(axis=1))[0])])
    shown = np.array2string(first[:4], precision=4) + (f" and {len(first) - 4} more" if len(first) > 4 else "")
    what = f"{int(bad.sum())} of {bad.size} {what}, first at x = {shown}"
    raise DataError(what, code="bad-posterior", why=why, fix=fix)


def parameter_names(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the names, or theta_1, theta_2, ... where there are none."""
    return names or tuple(f"theta_{i + 1}" for i in range(count))


def statistic_names(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the names, or x_1, x_2, ... where there are none: as the columns of a table of runs are called."""
    return names or tuple(f"x_{i + 1}" for i in range(count))
