"""Run all checks in one call, for one verdict with its reasons."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_count, check_posterior, check_simulations, evaluate_log_density
from thrifty.diagnostics.cost_check import MIN_TIMED_RUNS, cost_check
from thrifty.diagnostics.coverage import coverage
from thrifty.diagnostics.data_use import data_use
from thrifty.diagnostics.diagnosis import Diagnosis
from thrifty.diagnostics.local_c2st import local_c2st
from thrifty.diagnostics.local_ess import find_prior, local_ess
from thrifty.diagnostics.misspecification import misspecification
from thrifty.diagnostics.pace import Pace
from thrifty.diagnostics.predictive import predictive
from thrifty.diagnostics.replicates import Replicates, Unanswered, replicate
from thrifty.diagnostics.sbc import sbc
from thrifty.diagnostics.tarp import tarp
from thrifty.diagnostics.verdict import Check, NotMeasured
from thrifty.diagnostics.weight_health import count_accepted, weight_health
from thrifty.durations import Duration, read_seconds
from thrifty.errors import DataError, InferenceError, ThriftyWarning, warn_once
from thrifty.inference.checks import find_varying, read_observation
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.named import order_observation
from thrifty.tables.simulations import Simulations, require_valid
from thrifty.types import Posterior

_log = logging.getLogger(__name__)
_PAIRS = 300  # finds a shift of 0.3 sd in nine of ten cases; 300 posterior calls take seconds
_DRAWS_PER_PAIR = 100
_MIN_HELD_OUT_RUNS = 100  # fewer give no useful calibration
HELD_OUT_EVERY = 4  # of the runs of a table: enough to calibrate on, and the posterior of the others is hardly wider
_MIN_PAIRS = 20  # fewer pairs say nothing
_NEAR_SHARE = 0.3  # of the held-out runs of a method in rounds: half of them were drawn from its last proposal
_ONE_OBSERVATION = (
    "not measured: these draws hold for one observation; to calibrate, fit th.ABC or th.NPE to the same simulations"
)
SEEN_RUNS = (
    "calibration was measured on runs that may have trained the posterior, which hides errors; pass others,"
    " held_out=th.simulate(simulator, prior.sample(300, 1))"
)
ONLY_SEEN_RUNS = "the runs of the tests may have trained the posterior, which hides errors"
NO_COST = (
    "cost model not checked: none is known here; pass cost=campaign, cost=plan.cost or cost=th.fit_cost(simulations)"
)
NO_COST_IN_STUDY = "cost model not checked: the study has none; pass cost=th.fit_cost(simulations)"
TIME_LIMIT_SECONDS = 60.0
_CALIBRATION_SHARE = 0.7  # of the time limit: the checks at x_o need a part of the rest


@warn_once()
def diagnose(
    posterior: Any,
    simulations: Simulations | None = None,
    x_o: Any = None,
    *,
    held_out: Simulations | None = None,
    prior: Any = None,
    cost: Any = None,
    fresh: Simulations | None = None,
    time_limit: Duration | None = TIME_LIMIT_SECONDS,
    progress: bool | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Run the default checks at x_o and judge whether the posterior can be trusted.

    Args:
        posterior: A posterior, or a study with `.posterior`, `.simulations` and `.x_o`.
        simulations: The runs behind it, with weights.
        x_o: The observation.
        held_out: Runs that did not train the posterior, to calibrate on; otherwise those that the posterior names in
            `held_out` (plan indices), those that a network kept for validation, every fourth run of a table for ABC
            (the others make the posterior that is calibrated), otherwise all, with a note.
        prior: The prior, where neither posterior nor proposal has it.
        cost: The cost model, where neither the study's campaign nor the proposal has one: the campaign, `plan.cost`,
            `th.fit_cost(...)`, or any function theta (k, p) -> costs (k,).
        fresh: Runs at posterior draws, for the predictive check, where the pool has too few near the posterior:
            `th.simulate(simulator, posterior.sample(300, x_o))`.
        time_limit: Seconds, or a text such as "5 min". A posterior that takes long to sample is calibrated on as many
            held-out runs as fit into it, and a note says how many were left out. None: no limit.
        progress: Show how far it is and how long the rest takes, on stderr; None: in a terminal or a notebook.
        seed: Seed of everything.

    Returns:
        One answer per question, figures and reasons; `print` it, read `.verdict`, draw `.figures()`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(size=(400, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.2 * rng.normal(size=(400, 1)))
        >>> found = diagnose(th.ABC(th.Uniform(0, 1)).fit(sims), sims, [0.5], progress=False)
        >>> found["accepted"].n, found.answers[-1].question
        (1..., 'Are there enough runs?')
    """
    local, timed, missing_cost = False, simulations, NO_COST
    if hasattr(posterior, "posterior"):
        study, posterior = posterior, posterior.posterior
        local = bool(getattr(study, "local", False))
        simulations = getattr(study, "simulations", None) if simulations is None else simulations
        x_o = getattr(study, "x_o", None) if x_o is None else x_o
        timed = getattr(study, "after_pilot", simulations) if timed is None else timed
        cost = getattr(study, "cost_model", None) if cost is None else cost
        missing_cost = NO_COST_IN_STUDY
    if simulations is None or x_o is None:
        raise DataError(
            "diagnose needs the posterior, its simulations and x_o",
            code="conflicting-settings",
            fix="th.diagnose(p, s, x_o)",
        )
    _check_inputs(posterior, simulations, x_o, held_out)
    cost = _read_cost(cost)
    x_o = order_observation(x_o, simulations.pairs()[1].shape[1:], simulations.x_names)
    limit = None if time_limit is None else read_seconds(time_limit, "time_limit")
    check_count(seed, 0, "seed")
    notes: list[str] = []
    judged, runs = hold_out(posterior, simulations, held_out, notes)
    runs = select_near(runs, x_o, notes) if local else runs
    evaluates = _can_evaluate_density(posterior, simulations, x_o, notes)
    pace = Pace(None if limit is None else _CALIBRATION_SHARE * limit, progress)
    with warnings.catch_warnings():
        if judged is not posterior:  # what it warns of at x_o the posterior itself says, of all its runs
            warnings.simplefilter("ignore", ThriftyWarning)
        checks = _calibrate(judged, runs, x_o, evaluates=evaluates, pace=pace, seed=seed, notes=notes)
    if SEEN_RUNS in notes and not any(isinstance(check, NotMeasured) for check in checks):
        checks.append(NotMeasured(ONLY_SEEN_RUNS))
    checks.append(misspecification(simulations, x_o, posterior=posterior))
    rests = count_accepted(posterior, x_o)
    checks += [] if rests is None else [rests]
    supported = evaluates and _has_prior(posterior, simulations, prior, notes)
    support = local_ess(posterior, simulations, x_o, prior=prior, seed=seed) if supported else None
    if support is not None:
        checks.append(support)
    if support is not None or fresh is not None:
        seen = predictive(posterior, simulations, x_o, prior=prior, fresh=fresh, support=support, seed=seed)
        if seen.is_judged or fresh is not None:
            checks.append(seen)
        else:
            notes.append(
                f"predictive not judged: {seen.describe_too_few()}; run its draws and pass them as"
                " fresh=th.simulate(simulator, posterior.sample(300, x_o))"
            )
    checks.append(weight_health(simulations))
    checks += _check_cost(cost, simulations if timed is None else timed, notes, missing=missing_cost)
    found = Diagnosis(tuple(checks), tuple(notes))
    _log.info("checks: %s", found.verdict)
    return found


def _calibrate(
    posterior: Any, runs: Simulations, x_o: Any, *, evaluates: bool, pace: Pace, seed: int, notes: list[str]
) -> list[Check]:
    """Measure calibration on held-out runs; say what was left out and where the posterior had no answer."""
    if isinstance(posterior, WeightedPosterior):
        return [NotMeasured(_ONE_OBSERVATION)]
    try:
        replicates = replicate(
            posterior, runs, pairs=_PAIRS, draws=_DRAWS_PER_PAIR, density=evaluates, seed=seed, pace=pace
        )
    except InferenceError as error:
        return [NotMeasured(f"not measured: {error.what}")]
    if len(replicates) < _MIN_PAIRS:
        return [NotMeasured(_describe_too_few(replicates))]
    checks: list[Check] = [sbc(replicates, seed=seed)]
    if replicates.density is not None:
        checks.append(coverage(replicates, seed=seed))
    elif evaluates:
        notes.append("coverage not checked: its densities take longer than time_limit=")
    checks += [tarp(replicates, seed=seed), data_use(replicates, seed=seed)]
    checks.append(local_c2st(posterior, replicates, x_o, seed=seed))
    if replicates.left_out:
        asked = len(replicates) + replicates.unanswered
        notes.append(
            f"calibrated on {asked} of {asked + replicates.left_out} held-out runs: more did not fit into time_limit="
        )
    if replicates.unanswered:
        checks.append(Unanswered.of(replicates))
    return checks


def _describe_too_few(replicates: Replicates) -> str:
    if replicates.left_out:
        return (
            f"not measured: {len(replicates)} posterior calls took the whole time limit, {_MIN_PAIRS} are needed;"
            " pass time_limit= with more seconds"
        )
    return f"not measured: no posterior at {replicates.unanswered} held-out outputs, one at {len(replicates)} of them"


def _check_cost(cost: Any, simulations: Simulations, notes: list[str], *, missing: str) -> list[Check]:
    """Check the cost model, where there is one and enough runs were timed."""
    if cost is None:
        cost, simulations = _find_cost(simulations)
    if cost is None:
        notes.append(missing)
    elif np.sum(np.isfinite(simulations.cost) & (simulations.cost > 0)) < MIN_TIMED_RUNS:
        notes.append(f"cost model not checked: fewer than {MIN_TIMED_RUNS} runs have a measured cost")
    else:
        return [cost_check(cost, simulations)]
    return []


def _read_cost(cost: Any) -> Any:
    """Return the cost model that was given, or that of a campaign."""
    if hasattr(cost, "simulations") and not callable(cost):
        campaign, cost = cost, getattr(cost, "cost_model", None)
        if cost is None:
            raise DataError(
                f"{campaign!r:.80} has no cost model",
                code="bad-cost",
                fix="campaign.plan(...) fits one; or cost=th.fit_cost(simulations)",
            )
    if cost is not None and not callable(cost):
        raise DataError(
            f"cost= takes a function theta (k, p) -> costs (k,), got {type(cost).__name__}",
            code="bad-cost",
            fix="a campaign, its plan.cost, or th.fit_cost(theta, seconds)",
        )
    return cost


def _find_cost(simulations: Simulations) -> tuple[Any, Simulations]:
    """Find the cost model behind the proposal, and the runs that it was not fitted to: those after the first part.

    A pool's parts lie in the order of the plan indices; its first, the pilot, is what the cost was learned from.
    """
    proposal = simulations.proposal
    parts = getattr(proposal, "parts", None)
    if parts is None:
        return getattr(proposal, "cost", None), simulations
    costs = [cost for _, part in parts if (cost := getattr(part, "cost", None)) is not None]
    first = parts[0][0] if len(parts) > 1 else 0
    unit = getattr(costs[-1], "unit", simulations.unit) if costs else ""
    if unit != simulations.unit:  # runs that are paid at a price: the model counts what was measured
        return None, simulations
    return costs[-1], simulations[simulations.index >= first]


def _check_inputs(posterior: Any, simulations: Simulations, x_o: Any, held_out: Simulations | None) -> None:
    """Reject arguments of the wrong kind or shape."""
    check_posterior(posterior)
    check_simulations(simulations)
    check_simulations(simulations if held_out is None else held_out, "held_out")
    event = simulations.pairs()[1].shape[1:]
    read_observation(x_o, event, simulations.x_names)
    if held_out is not None and (held_out.pairs()[1].shape[1:] != event or held_out.dim != simulations.dim):
        raise DataError(
            f"held_out has {held_out.dim} parameters and outputs of shape {held_out.pairs()[1].shape[1:]},"
            f" the simulations {simulations.dim} and {event}",
            code="bad-array",
        )
    find_varying(require_valid(simulations).x, simulations.x_names)


def hold_out(
    posterior: Any, simulations: Simulations, held_out: Simulations | None, notes: list[str]
) -> tuple[Any, Simulations]:
    """Return the posterior to calibrate and the runs to do it on, which it has not seen where that is possible.

    A posterior that keeps its runs (ABC) can be asked without some of them: every fourth one judges the others.
    """
    valid = simulations.valid()
    is_its_table = np.array_equal(getattr(posterior, "theta", np.empty(0)), valid.theta)
    if held_out is None and hasattr(posterior, "leave_out") and is_its_table:
        rows = np.arange(len(valid)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        if rows.sum() >= _MIN_HELD_OUT_RUNS:
            return posterior.leave_out(rows), valid[rows]
    return posterior, select_held_out(posterior, simulations, held_out, notes)


def select_held_out(
    posterior: Any, simulations: Simulations, held_out: Simulations | None, notes: list[str]
) -> Simulations:
    """Select the runs to calibrate on: those given, those that did not train the posterior, or all with a note."""
    if held_out is not None:
        return held_out
    index = getattr(posterior, "held_out", None)
    if index is not None:
        chosen = simulations[np.isin(simulations.index, np.asarray(index))]
    else:
        chosen = simulations[_untrained(posterior, simulations)]
    if chosen.ok.sum() >= _MIN_HELD_OUT_RUNS:
        return chosen
    notes.append(SEEN_RUNS)
    return simulations


def select_near(runs: Simulations, x_o: npt.ArrayLike, notes: list[str]) -> Simulations:
    """Select the runs whose outputs are nearest to x_o, for a posterior that was made for x_o alone.

    A posterior is calibrated at every x by itself, so that runs may be chosen by their outputs; their weights stay.
    Outputs count in units of their median distance from x_o.
    """
    valid = runs.valid()
    x = valid.x.reshape(len(valid), valid.m, -1).mean(1)
    off = np.abs(x - np.ravel(read_observation(x_o, valid.pairs()[1].shape[1:], valid.x_names)))
    scale = np.median(off, axis=0)
    off = off[:, scale > 0] / scale[scale > 0]
    count = min(max(round(_NEAR_SHARE * len(valid)), _MIN_HELD_OUT_RUNS), len(valid))
    notes.append(f"calibrated on the {count} runs whose outputs are nearest to x_o: rounds learn the posterior there")
    return valid[np.sort(np.argsort(np.square(off).sum(1), kind="stable")[:count])]


def _untrained(posterior: Any, simulations: Simulations) -> npt.NDArray[np.bool_]:
    """Find the runs that trained no network of the posterior, by their theta: a table may have lost its index."""
    from thrifty.inference.neural.training_settings import fingerprints

    members = getattr(posterior, "members", (posterior,))
    kept = [getattr(getattr(member, "trained", None), "kept", None) for member in members]
    known = [prints for prints in kept if prints is not None]
    if len(known) < len(kept):
        return np.zeros(len(simulations), dtype=np.bool_)
    own = fingerprints(simulations.theta)
    return np.all([np.isin(own, prints) for prints in known], axis=0)


def _can_evaluate_density(posterior: Posterior, simulations: Simulations, x_o: Any, notes: list[str]) -> bool:
    try:
        evaluate_log_density(posterior, simulations.theta[:2], x_o)
    except (AttributeError, NotImplementedError) as error:
        notes.append(f"coverage, local ESS and predictive not checked: no log_prob ({error})")
        return False
    return True


def _has_prior(posterior: Any, simulations: Simulations, prior: Any, notes: list[str]) -> bool:
    try:
        find_prior(posterior, simulations, prior)
    except DataError:
        notes.append("local ESS and predictive not checked: pass prior=")
        return False
    return True
