"""Draw from a posterior at held-out runs: the data that calibration is measured on.

A run (theta_i, x_i) with weight w_i represents a draw of the joint prior p(theta) p(x | theta). Runs of a cost-aware
campaign that were not used for training therefore calibrate a posterior without any new simulation. Runs are chosen
with probability proportional to weight and keep weight / probability: the same expectation, and up to 1/ESS_fraction
times more effective runs for the same number of posterior calls.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import (
    as_columns,
    check_count,
    check_draws,
    check_log_density,
    check_posterior,
    check_simulations,
    choose_independent_runs,
    evaluate_log_density,
    parameter_names,
)
from thrifty.diagnostics.local_ess import find_log_weights
from thrifty.diagnostics.pace import Pace
from thrifty.diagnostics.verdict import DisplayedCheck, Trust
from thrifty.errors import DataError, InferenceError, ThriftyWarning
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, freeze
from thrifty.weights import ess, normalise

_Answers = dict[int, tuple[Array, Array | None] | None]  # row of an output -> draws and densities, None without any
_OUTPUTS_PER_CALL = 100  # of a posterior that samples at many outputs in one call: progress is shown between calls

_CARE_UNANSWERED_MASS = (
    0.05  # share of prior mass without a posterior that is worth a word: as often as a 95 % region errs
)


@dataclass(frozen=True)
class Replicates:
    """Hold held-out parameters and posterior draws at their outputs.

    Attributes:
        theta: Parameters (n, p) that made x.
        x: Outputs (n, *event).
        draws: Posterior draws (n, l, p) at each x.
        log_weights: Log weights (n,) of the pairs (theta, x).
        density: Log posterior density of theta and of the draws, (n, 1 + l), or None.
        names: Parameter names.
        x_names: Names of the statistics, or empty.
        unanswered: Outputs for which the posterior had no answer, such as too few neighbours; not among the n.
        unanswered_mass: Their share of the prior mass of all outputs asked.
        left_out: Outputs that were not asked, because the time was over.
        draw_log_weights: What `log_weights` would be at the draws (n, l), where that is known.
    """

    theta: Array
    x: Array
    draws: Array
    log_weights: Array
    density: Array | None = None
    names: tuple[str, ...] = ()
    x_names: tuple[str, ...] = ()
    unanswered: int = 0
    unanswered_mass: float = 0.0
    left_out: int = 0
    draw_log_weights: Array | None = None

    @property
    def ess(self) -> float:
        """The effective number of pairs."""
        return ess(self.log_weights)

    def __len__(self) -> int:
        return len(self.theta)


@dataclass(frozen=True, repr=False)
class Unanswered(DisplayedCheck):
    """Held-out outputs at which the posterior has no answer, such as too few neighbours for ABC.

    Attributes:
        count, asked: Outputs without an answer, and all that were asked.
        mass: Their share of prior mass.
        name: The check.
    """

    count: int
    asked: int
    mass: float
    name: str = "unanswered"

    @classmethod
    def of(cls, replicates: Replicates) -> Unanswered:
        """Count the outputs without an answer."""
        return cls(replicates.unanswered, len(replicates) + replicates.unanswered, replicates.unanswered_mass)

    @property
    def verdict(self) -> Trust:
        """The verdict: calibration is only known where there is a posterior."""
        return "trust" if self.mass <= _CARE_UNANSWERED_MASS else "with care"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        return (
            f"there is no posterior at {self.count} of {self.asked} held-out outputs ({self.mass:.1%} of prior mass):"
            " too few runs near them; calibration holds for the others"
        )


def replicate(
    posterior: Posterior,
    simulations: Simulations,
    *,
    pairs: int = 500,
    draws: int = 100,
    density: bool = True,
    seed: int = 0,
    pace: Pace | None = None,
) -> Replicates:
    """Draw from the posterior at the outputs of held-out runs.

    Args:
        posterior: An object with `sample(n, x, seed=)`, and `log_prob(theta, x)` if `density` is true;
            `sample_batched(n, x, seed=)` -> (len(x), n, p) is used where it exists.
        simulations: Runs that did not train the posterior, with their weights; of m > 1 realisations one is used.
        pairs: How many of them to use; 500 find a shift of a quarter of a standard deviation.
        draws: Posterior draws at each; 100 resolve coverage to 1 %.
        density: Whether to evaluate log densities too (needed by `coverage`).
        seed: Seed of the choice and of the draws.
        pace: Shows progress and ends the work in time; without it all pairs are drawn in silence.

    Raises:
        InferenceError: too-few-runs, the posterior has an answer at none of the outputs.
    """
    check_posterior(posterior)
    check_simulations(simulations)
    check_count(pairs, 1, "pairs")
    check_count(draws, 10, "draws")
    check_count(seed, 0, "seed")
    rng = np.random.default_rng(seed)
    theta, x, log_weights = choose_independent_runs(simulations, rng)
    if len(theta) < 20:
        raise DataError(
            f"{len(theta)} valid held-out runs; calibration needs at least 20",
            code="too-few-runs",
            fix="keep some runs out of training, e.g. simulations[-500:]",
        )
    all_weights = log_weights
    chosen, log_weights = choose_runs(all_weights, pairs, rng)
    theta, x = theta[chosen], x[chosen]
    pace = pace or Pace()
    with warnings.catch_warnings():  # warnings about unusual outputs are expected here: their fit is what is measured
        warnings.simplefilter("ignore", ThriftyWarning)
        answers = _ask(posterior, theta, x, draws=draws, density=density, rng=rng, pace=pace)
    rows, found = _select_answered(answers)
    samples = np.stack([drawn for drawn, _ in found])
    check_draws(samples, x[rows], draws, theta.shape[1])
    values = [each for _, each in found if each is not None]
    asked = normalise(log_weights[sorted(answers)])
    return Replicates(
        freeze(theta[rows]),
        freeze(x[rows]),
        freeze(samples),
        freeze(log_weights[rows]),
        _check_densities(np.stack(values), x[rows]) if len(values) == len(found) else None,
        parameter_names(simulations.names, theta.shape[1]),
        simulations.x_names,
        unanswered=len(answers) - len(found),
        unanswered_mass=float(asked[[answers[i] is None for i in sorted(answers)]].sum()),
        left_out=len(x) - len(answers),
        draw_log_weights=_weigh_draws(simulations, all_weights, log_weights, samples),
    )


def _weigh_draws(simulations: Simulations, before: Array, chosen: Array, draws: Array) -> Array | None:
    """Return log weights (n, l) of draws (n, l, p) as of runs that were chosen; None for even weights or unknown ones.

    A run of weight w was chosen with probability min(1, c w), and counts max(w, 1/c) since.
    """
    if float(np.ptp(chosen)) < 1e-9:
        return None
    runs = simulations.valid()
    found = find_log_weights(runs[runs.log_weights > -np.inf], draws.reshape(-1, draws.shape[2]))
    if found is None:
        return None
    least = float(chosen.min()) if len(chosen) < len(before) else -np.inf
    return freeze(np.maximum(found, least).reshape(draws.shape[:2]))


def as_replicates(
    source: Any, simulations: Simulations | None, *, pairs: int, draws: int, seed: int, density: bool = False
) -> Replicates:
    """Return `source` if it already holds replicates, else `replicate(source, simulations, ...)`."""
    if isinstance(source, Replicates):
        return source
    if simulations is None:
        raise DataError("held-out simulations are needed to calibrate a posterior", code="too-few-runs")
    return replicate(source, simulations, pairs=pairs, draws=draws, density=density, seed=seed)


def choose_runs(log_weights: Array, pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, Array]:
    """Choose rows with probability min(1, c w), sum = pairs; return them and log(weight / probability)."""
    n = len(log_weights)
    if n <= pairs:
        keep = np.flatnonzero(log_weights > -np.inf)
        return keep, log_weights[keep]
    weights = normalise(log_weights)
    share = np.minimum(pairs * weights, 1.0)
    while True:  # large weights are chosen for certain; the other rows share the remaining places
        certain = share >= 1.0
        free = weights[~certain].sum()
        if free <= 0:
            break
        scaled = np.where(certain, 1.0, (pairs - certain.sum()) * weights / free)
        if not (scaled[~certain] > 1.0).any():
            share = scaled
            break
        share = np.minimum(scaled, 1.0)
    order = rng.permutation(n)  # systematic sampling over a random order
    steps = np.cumsum(share[order])
    points = np.arange(rng.random(), steps[-1], 1.0)
    chosen = order[np.minimum(np.searchsorted(steps, points), n - 1)]
    chosen = np.unique(chosen)
    return chosen, log_weights[chosen] - np.log(share[chosen])


def _ask(
    posterior: Any, theta: Array, x: Array, *, draws: int, density: bool, rng: np.random.Generator, pace: Pace
) -> _Answers:
    """Draw at outputs in random order until all are done or the time is over: row -> (draws, densities) or None.

    A random order makes the rows that are done a random part of all. Where densities take most of the time and would
    not be done in time, they are given up first.
    """
    seeds = rng.integers(2**31, size=len(x)).tolist()
    order = np.random.default_rng(seeds[0]).permutation(len(x))
    batched = hasattr(posterior, "sample_batched")
    blocks = np.array_split(order, max(1, round(len(order) / _OUTPUTS_PER_CALL))) if batched else order[:, None]
    answers: _Answers = {}
    with pace.begin(len(x)):
        for block in blocks:
            if answers and pace.is_over():
                break
            drawn = _draw_block(posterior, x[block], draws, [seeds[i] for i in block])
            pace.note_draws()
            for i, samples in zip(block.tolist(), drawn, strict=True):
                if samples is None or not density or pace.gives_up_densities():
                    answers[i] = None if samples is None else (samples, None)
                    continue
                values = _evaluate_densities(posterior, x[i], theta[i], samples)
                answers[i] = None if values is None else (samples, values)
                pace.note_densities()
            pace.advance(len(answers))
    return answers


def _select_answered(answers: _Answers) -> tuple[npt.NDArray[np.intp], list[tuple[Array, Array | None]]]:
    """Return rows and values of the outputs with an answer, in the order of their rows; there must be one."""
    found = [(i, answer) for i, answer in sorted(answers.items()) if answer is not None]
    if not found:
        raise InferenceError(
            f"the posterior has no answer at any of the {len(answers)} held-out outputs asked",
            code="too-few-runs",
            fix="add simulations, or accept more of them",
        )
    return np.array([i for i, _ in found], dtype=np.intp), [answer for _, answer in found]


def _draw_block(posterior: Any, x: Array, draws: int, seeds: list[int]) -> list[Array | None]:
    """Draw at each output (k, *event) of a block; None where the posterior has no answer."""
    try:
        if hasattr(posterior, "sample_batched"):
            return list(np.asarray(posterior.sample_batched(draws, x, seed=seeds[0]), dtype=np.float64))
        return [as_columns(posterior.sample(draws, x[0], seed=seeds[0]), draws)]
    except InferenceError:
        if len(x) == 1:
            return [None]
    return [_draw_block(posterior, x[i : i + 1], draws, seeds[i : i + 1])[0] for i in range(len(x))]


def _evaluate_densities(posterior: Posterior, x: Array, theta: Array, samples: Array) -> Array | None:
    """Evaluate log densities of theta (p,) and of the draws (l, p) at x, up to a constant: (1 + l,).

    None where the posterior has none: too few accepted runs for a kernel density.
    """
    try:
        return evaluate_log_density(posterior, np.concatenate([theta[None], samples]), x, normalise=False)
    except InferenceError:
        return None


def _check_densities(density: Array, x: Array) -> Array:
    check_log_density(density, x)
    return freeze(density)
