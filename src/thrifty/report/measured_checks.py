"""Make the checks of a posterior that was kept without them, and measure what the page draws of calibration.

A result that was kept with its diagnosis is shown with that. Another one is diagnosed here as `study.diagnosis` does
it, with the same runs, seed and time limit, so that the page and Python give one verdict. The folder is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thrifty.costs import FittedCost, cost_from_dict
from thrifty.diagnostics import coverage, diagnose, replicate, sbc
from thrifty.diagnostics.diagnose import hold_out
from thrifty.diagnostics.diagnosis import Diagnosis
from thrifty.diagnostics.pace import Pace
from thrifty.errors import ThriftyError
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.report.content import clean
from thrifty.report.gather import Facts
from thrifty.report.inference_time import is_of_rounds
from thrifty.report.results import Result
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

PAIRS, DRAWS = 300, 100  # as in th.diagnose
MAX_RANK_SECONDS = 20.0  # for drawing ranks that are checked already: MCMC posteriors would take minutes
MIN_PAIRS = 50  # fewer pairs say nothing about calibration
ONE_OBSERVATION = "Ranks are not drawn: these draws hold for one observation only."
_DRAWN = ("sbc", "coverage")  # checks with a panel


@dataclass(frozen=True)
class Measured:
    """What is measured for the page.

    Attributes:
        checks: Ranks and coverage, to be drawn.
        notes: Why there are none, or what they rest on.
        diagnosis: All checks, where the result was kept without them.
    """

    checks: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True)
class _KeptStudy:
    """A result of a folder with what `th.diagnose` asks of a study."""

    posterior: Any
    simulations: Simulations
    x_o: Array
    local: bool
    cost_model: FittedCost | None
    after_pilot: Simulations


def measure_checks(facts: Facts, results: tuple[Result, ...], posterior: Any) -> Measured:
    """Measure the last posterior from the runs in the folder: all checks where none are kept, else its calibration."""
    if not results:
        return Measured()
    if posterior is None or facts.simulations is None:
        return Measured(notes=("Ranks are not drawn: the folder does not hold the posterior.",))
    last = results[-1]
    measure = _measure_calibration if last.diagnosis else _diagnose
    try:
        return measure(replace(facts.simulations, names=facts.labels), facts, last, posterior)
    except (ThriftyError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = "Ranks are not drawn" if last.diagnosis else "The checks are not possible"
        return Measured(notes=(f"{what}: {clean(getattr(error, 'what', error))}.",))


def add_measured(results: tuple[Result, ...], measured: Measured) -> tuple[Result, ...]:
    """Give the last result, where it was kept without checks, those that were made for the page."""
    if not results or results[-1].diagnosis or measured.diagnosis is None:
        return results
    return (*results[:-1], replace(results[-1], diagnosis=measured.diagnosis.to_dict()))


def _diagnose(runs: Simulations, facts: Facts, result: Result, posterior: Any) -> Measured:
    """Make all checks, as `study.diagnosis` makes them; a bar shows how long they take."""
    recipe = facts.settings.cost_model if facts.settings.price is None else None
    study = _KeptStudy(
        posterior,
        runs,
        result.x_o,
        local=is_of_rounds(result),
        cost_model=None if recipe is None else cost_from_dict(recipe),
        after_pilot=runs[~np.isin(runs.index, facts.table.index[facts.pilot])],
    )
    found = diagnose(study, seed=result.seed)
    checks = tuple(check for name in _DRAWN for check in found if check.name == name)
    notes = (ONE_OBSERVATION,) if isinstance(posterior, WeightedPosterior) else ()
    return Measured(checks, (*found.notes, *notes), found)


def _measure_calibration(runs: Simulations, facts: Facts, result: Result, posterior: Any) -> Measured:
    """Measure ranks and coverage again, to draw them."""
    if isinstance(posterior, WeightedPosterior):
        return Measured(notes=(ONE_OBSERVATION,))
    notes: list[str] = []
    posterior, runs = hold_out(posterior, runs, None, notes)
    runs = runs.valid()
    density = _has_density(posterior, runs, result)
    pace = Pace(MAX_RANK_SECONDS, None)  # with a bar in a terminal: a Markov chain takes all of the time
    drawn = replicate(posterior, runs, pairs=PAIRS, draws=DRAWS, density=density, pace=pace)
    if len(drawn) < MIN_PAIRS:
        limit = f"only {len(drawn)} calls of this posterior fit into {MAX_RANK_SECONDS:.0f} s"
        return Measured(notes=(*notes, f"Ranks are not drawn: {limit}."))
    if drawn.left_out:
        notes.append(f"Ranks of {len(drawn)} runs: more did not fit into {MAX_RANK_SECONDS:.0f} s.")
    return Measured((sbc(drawn), *([coverage(drawn)] if drawn.density is not None else [])), tuple(notes))


def _has_density(posterior: Any, runs: Simulations, result: Result) -> bool:
    try:
        posterior.log_prob(runs.theta[:2], result.x_o)
    except (AttributeError, NotImplementedError):
        return False
    return True
