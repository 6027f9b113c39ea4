"""Checks of what users pass: a table to fit, a number of draws, a seed, an observation. No torch.

bad-observation      x_o has the wrong length, NaN or infinite values    error
far-observation      x_o is far from every simulation                    warning, with distances
constant-output      a statistic that never varies, or repeats another   left out, with a note
too-few-runs         too few simulations                                 error
few-effective-runs   few runs carry most of the weight                   warning, with the ESS and the fix
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError, DataError, ThriftyError, warn
from thrifty.named import order_observation, split_names
from thrifty.priors import as_prior, has_same_density
from thrifty.priors.families import as_parameter_names
from thrifty.tables.reweight import describe_ends
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior, freeze
from thrifty.weights import ess, normalise, resample_indices

MAX_FAILED_MASS = 0.01  # share of prior mass; with more failed, the posterior is conditional on finishing
REACH_ROWS = 1_000  # simulations kept to measure nearness by: enough for a spacing, small in a saved file
REACH_NUMBERS = 200_000  # the same limit for signals: of 801 points each, 249 rows are kept
MAX_BEYOND_SD = 0.5  # past the extreme simulation: light-tailed outputs do that less than once in 10^4 observations
MAX_SPACINGS = 3.0  # from the nearest simulation; one spacing: the distance within which 99 % of them have a neighbour
MIN_WEIGHT_ESS = 20.0  # effective runs; with fewer, or less than 2 % of all, few runs decide


def check_fit(simulations: Any, seed: Any) -> None:
    """Refuse what is not a table of simulations, and what is not a seed.

    Raises:
        DataError: bad-array, not a table.
        ConfigError: bad-setting, not a seed.
    """
    check_table(simulations)
    check_seed(seed)


def check_table(simulations: Any) -> None:
    """Refuse what is not a table of simulations.

    Raises:
        DataError: bad-array.
    """
    if not isinstance(simulations, Simulations):
        raise DataError(
            f"fit needs a table of simulations, got {type(simulations).__name__}",
            code="bad-array",
            fix="th.Simulations.from_arrays(theta=..., x=...), or campaign.simulations()",
        )


def check_parameters(simulations: Simulations, prior: Prior) -> None:
    """Refuse a table whose parameters are not those of the prior, by number, name and order.

    A prior whose parameters were given no names takes those of the table.

    Raises:
        DataError: wrong-prior.
    """
    if simulations.dim != prior.dim:
        raise DataError(
            f"simulations have {simulations.dim} parameters, the prior has {prior.dim} ({', '.join(prior.names)})",
            code="wrong-prior",
        )
    is_named = tuple(prior.names) != as_parameter_names(None, prior.dim)
    if simulations.names and is_named and tuple(simulations.names) != tuple(prior.names):
        raise DataError(
            f"simulations have parameters {', '.join(simulations.names)}; the prior has {', '.join(prior.names)}",
            code="wrong-prior",
            fix="use the prior that the simulations were planned with",
        )


def check_weights_prior(simulations: Simulations, prior: Prior | None, method: str) -> None:
    """Refuse a prior other than that of the weights, for a method that knows the prior through the weights alone.

    A table without a known proposal cannot be checked.

    Raises:
        DataError: wrong-prior.
    """
    check_table(simulations)
    own = getattr(simulations.proposal, "prior", None)
    if prior is None or own is None or own is prior:
        return
    check_parameters(simulations, prior)
    try:
        if has_same_density(own := as_prior(own), prior):
            return
    except ThriftyError:  # a prior of one's own, read from a file without its density
        return
    reaches = bool((prior.bounds[0] < own.bounds[0]).any() or (prior.bounds[1] > own.bounds[1]).any())
    cut = f"prior = th.truncate(prior, {describe_ends(own)}), then " if reaches else ""
    raise DataError(
        f"the weights of these simulations belong to the prior {own!r}, th.{method} has {prior!r}"[:600],
        code="wrong-prior",
        why=f"th.{method} knows the prior through the weights: the posterior would be that under the first one",
        fix=f"{cut}th.{method}(prior).fit(th.reweight(simulations, prior))",
    )


def select_valid(simulations: Simulations, prior: Prior | None) -> Simulations:
    """Return the valid runs; warn when more than 1 % of the prior mass failed.

    Raises:
        DataError: wrong-prior, other parameters; too-few-runs, no valid run.
    """
    check_table(simulations)
    if prior is not None:
        check_parameters(simulations, prior)
    valid, n = simulations.valid(), int((simulations.ok | simulations.failed).sum())
    if len(valid) == 0:
        raise DataError(f"none of {n} simulations is valid", code="too-few-runs")
    if (mass := simulations.failed_mass) > MAX_FAILED_MASS:
        failed = f"{mass:.1%} of prior mass failed ({n - len(valid)} of {n} runs)"
        warn(f"{failed}: the posterior is conditional on finishing", stacklevel=4)
    return valid


def check_draws(n: Any, seed: Any) -> None:
    """Refuse numbers of draws and seeds that are not whole numbers of at least 0.

    Raises:
        ConfigError: bad-setting.
    """
    if not _is_count(n):
        raise ConfigError(f"n = {n!r} draws, expected a whole number of at least 0", code="bad-setting")
    check_seed(seed)


def check_seed(seed: Any) -> None:
    """Refuse what is not a seed: such a draw cannot be repeated.

    Raises:
        ConfigError: bad-setting.
    """
    if not _is_count(seed):
        raise ConfigError(f"seed = {seed!r}, expected a whole number of at least 0", code="bad-setting")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def read_observation(x_o: Any, event: tuple[int, ...], names: Sequence[str] = ()) -> Array:
    """Read one observation as an array of the shape of one simulation.

    Args:
        x_o: The observation; a flat vector of the right length is reshaped. With names, it is read by name.
        event: Shape of one simulation's output.
        names: Names of the numbers in one output, or empty.

    Raises:
        DataError: bad-observation, wrong length, a missing or unknown name, NaN or infinite.

    Example:
        >>> read_observation([1, 2, 3, 4], (2, 2)).shape
        (2, 2)
        >>> read_observation({"size": 3, "peak": 7}, (2,), ("peak", "size")).tolist()
        [7.0, 3.0]
    """
    observation = read_observations(x_o, event, names)
    if len(observation) != 1:
        raise DataError(
            f"{len(observation)} observations of shape {event}, expected one",
            code="bad-observation",
            why="this method was fitted to one output per run",
            fix="pass one observation, or simulate several realisations per theta (m > 1)",
        )
    return observation[0]


def read_observations(x_o: Any, event: tuple[int, ...], names: Sequence[str] = ()) -> Array:
    """Read one or several independent observations as (r, *event); by name where x_o and the simulations have names."""
    if x_o is None:
        raise DataError("observed data is None", code="bad-observation", fix="pass what was observed as x_o=[...]")
    try:
        ordered = order_observation(x_o, event, names)
        if isinstance(ordered, str) or (isinstance(ordered, list | tuple | np.ndarray) and _holds_text(ordered)):
            raise TypeError(f"it holds text, {ordered!r:.60}")
        values = np.asarray(ordered, dtype=np.float64)
    except DataError:  # says what is wrong with its names
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"observed data is not an array of numbers: {error}", code="bad-observation") from None
    size = int(np.prod(event))
    if values.shape[1:] == event and values.ndim == len(event) + 1 and len(values):
        table = values
    elif values.shape == event or (values.ndim <= 1 and values.size == size):
        table = values.reshape(1, *event)
    elif values.ndim == 1 and size == 1 and values.size:
        table = values.reshape(-1, *event)
    else:
        came = f"{values.size} values" if values.ndim <= 1 else f"shape {values.shape}"
        want = f"{size}" if len(event) == 1 else f"shape {event}"
        raise DataError(
            f"observed data has {came}, simulations have {want}",
            code="bad-observation",
            fix="compute the same statistics, in the same order, as the simulator returns",
        )
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        place = tuple(int(i) for i in (bad[0] if len(table) > 1 else bad[0][1:]))
        kind = "NaN" if np.isnan(table[tuple(bad[0])]) else "an infinite value"
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise DataError(
            f"observed data has {kind} in {_name_place(place, event, names)}{more}",
            code="bad-observation",
            fix="drop that statistic from the simulations too, or impute it in both",
        )
    return table


def _holds_text(values: Any) -> bool:
    """Whether an array or a list of numbers has text among them: "0.5" is read by numpy, and may be a wrong column."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return False
    return any(isinstance(value, str | bytes) for value in np.asarray(values, dtype=object).ravel())


def _name_place(place: tuple[int, ...], event: tuple[int, ...], names: Sequence[str]) -> str:
    """Name a number of an output by its statistic, or by its place counted from 1."""
    if len(names) == int(np.prod(event)):
        return names[int(np.ravel_multi_index(place, event))]
    if len(place) == 1:
        return f"statistic {place[0] + 1} of {event[0]}"
    return f"number {tuple(i + 1 for i in place)} of an output of {' × '.join(map(str, event))}"


def check_observed(x_o: Any) -> None:
    """Refuse, before the first run, an observation that no run can return: none, empty, not numbers, or not finite.

    Raises:
        DataError: bad-observation.

    Example:
        >>> check_observed([0.5, 1.0]), check_observed({"peak": 3})
        (None, None)
    """
    numbers = x_o
    with contextlib.suppress(TypeError):
        numbers, _ = split_names(x_o)
    shape = np.asarray(numbers, dtype=object).shape
    if 0 in shape:
        raise DataError("observed data is empty", code="bad-observation", fix="pass what was observed as x_o=[...]")
    read_observations(numbers, shape)


def find_varying(x: Array, names: tuple[str, ...] = ()) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """Find which statistics (d,) of x (n, *event) say something of their own; return a note on each that does not.

    That is one that never varies, or repeats an earlier one: a learned density of a copy given its original would have
    no width, and its errors would make the posterior narrower.

    Raises:
        DataError: constant-output, none varies.

    Example:
        >>> mask, notes = find_varying(np.array([[0.0, 1.0], [0.0, 2.0]]))
        >>> mask.tolist(), notes
        ([False, True], ['x_1 is constant (0) in all 2 runs; dropped'])
    """
    flat = x.reshape(len(x), -1)
    mask = np.ptp(flat, axis=0) > 1e-12 * np.maximum(np.abs(flat).max(0), 1e-300)  # below rounding of one value
    if not mask.any():
        raise DataError(
            f"all {flat.shape[1]} statistics are constant in all {len(x)} runs",
            code="constant-output",
            fix="check that the simulator reads its parameters",
        )
    called = [names[i] if names else f"x_{i + 1}" for i in range(flat.shape[1])]
    notes = [f"{called[i]} is constant ({flat[0, i]:g}) in all {len(x)} runs; dropped" for i in np.flatnonzero(~mask)]
    if len(notes) > 5:
        notes = [f"{len(notes)} of {flat.shape[1]} statistics are constant in all {len(x)} runs; dropped"]
    first: dict[bytes, int] = {}
    copies = {i: at for i in np.flatnonzero(mask).tolist() if (at := first.setdefault(flat[:, i].tobytes(), i)) != i}
    mask[list(copies)] = False
    told = [f"{called[i]} repeats {called[at]} in all {len(x)} runs; dropped" for i, at in copies.items()]
    if len(told) > 5:
        told = [f"{len(told)} of {flat.shape[1]} statistics repeat others in all {len(x)} runs; dropped"]
    return mask, notes + told


def least_run_count(dim: int) -> int:
    """Return how many valid runs a network needs at least: 20 per parameter, and 50."""
    return max(50, 20 * dim)


def check_run_count(n: int, dim: int) -> None:
    """Refuse to learn from fewer valid runs than a network needs."""
    least = least_run_count(dim)
    if n < least:
        raise DataError(
            f"{n} valid simulations for {dim} parameters; need at least {least}",
            code="too-few-runs",
            why="a network fitted to fewer reproduces their noise",
            fix=f"run at least {least}, better some thousands",
        )


def check_weights(log_weights: Array) -> None:
    """Warn when few runs carry most of the weight."""
    size, n = ess(log_weights), len(log_weights)
    if size < max(MIN_WEIGHT_ESS, 0.02 * n) and size < 0.5 * n:
        share = normalise(log_weights).max()
        warn(
            f"[few-effective-runs] weights dominated by few runs: {n} simulations count as {size:.0f}"
            f" (the largest weight is {share:.0%} of all). The posterior depends on those."
            " Use a weaker penalty (th.Power(0.5)), add prior draws to the pool (th.Mixture with power 0),"
            ' or correction="after"',
            stacklevel=4,
        )


@dataclass(frozen=True)
class Reach:
    """Where the simulations lie, so that an observation can be compared with them.

    Attributes:
        n: Number of simulations.
        low: Smallest value of each statistic (d,).
        high: Largest.
        scale: Weighted sd of each (d,).
        near: Some simulations (k, d), drawn by weight, to measure the nearest distance by.
        spacing: Within this many sd, 99 of 100 of them have a neighbour.
        names: Of the statistics, or empty.
    """

    n: int
    low: Array
    high: Array
    scale: Array
    near: Array
    spacing: float
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, x: Array, log_weights: Array, names: tuple[str, ...] = ()) -> Reach:
        """Measure the simulations x (n, *event)."""
        flat = x.reshape(len(x), -1)
        weights = normalise(log_weights)
        centre = weights @ flat
        scale = np.sqrt(weights @ (flat - centre) ** 2)
        scale = np.where(scale > 0, scale, 1e-3 * np.maximum(np.abs(centre), 1.0))  # a constant: any change is far
        count = min(len(x), REACH_ROWS, max(REACH_NUMBERS // flat.shape[1], 10))
        chosen = np.unique(resample_indices(log_weights, count, rng=0))
        near = flat[chosen]
        gaps = _distances(near / scale, near / scale)
        np.fill_diagonal(gaps, np.inf)
        spacing = float(np.quantile(gaps.min(1), 0.99)) if len(near) > 1 else 0.0
        return cls(len(x), freeze(flat.min(0)), freeze(flat.max(0)), freeze(scale), freeze(near), spacing, names)

    def describe_far(self, x_o: Array) -> str:
        """Return a warning when x_o (*event) or (r, *event) is far from all simulations, or an empty text."""
        table = x_o.reshape(-1, len(self.low))
        beyond = np.maximum(np.maximum(self.low - table, table - self.high), 0) / self.scale
        worst = beyond.max(0)
        outside = np.flatnonzero(worst > 0)  # all of them are named, as the diagnosis does; one must be far to warn
        nearest = float(_distances(table / self.scale, self.near / self.scale).min(1).max())
        if not np.any(worst > MAX_BEYOND_SD) and nearest <= MAX_SPACINGS * self.spacing:
            return ""
        first = outside[np.argsort(-worst[outside])][:5]
        which = ", ".join(self.names[i] if self.names else f"x_{i + 1}" for i in first)
        where = (
            f"outside all {self.n:,} simulations in {len(outside)} of {len(worst)} statistics"
            f" ({which}; up to {worst.max():.3g} sd beyond the last)"
            if len(outside)
            else f"between the {self.n:,} simulations"
        )
        alone = ": the model may be wrong, and the posterior extrapolates"  # both far beyond the range and alone there
        return (
            f"[far-observation] observation lies {where}, nearest distance {nearest:.3g} sd (99% of the simulations"
            f" have a neighbour within {self.spacing:.3g} sd)"
            + (alone if nearest > MAX_SPACINGS * self.spacing else ": the posterior extrapolates")
        )


def warn_if_far(reach: Reach, x_o: Array) -> None:
    """Warn (far-observation) when the observation is far from all simulations."""
    message = reach.describe_far(x_o)
    if message:
        warn(message, stacklevel=4)


def _distances(a: Array, b: Array) -> Array:
    square = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(square, 0.0))
