"""Run all checks in one call, for one verdict with its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_count, check_posterior, check_simulations, evaluate_log_density
from thrifty.diagnostics.cost_check import MIN_TIMED_RUNS, cost_check
from thrifty.diagnostics.coverage import coverage
from thrifty.diagnostics.data_use import data_use
from thrifty.diagnostics.local_c2st import local_c2st
from thrifty.diagnostics.local_ess import find_prior, local_ess
from thrifty.diagnostics.misspecification import misspecification
from thrifty.diagnostics.predictive import predictive
from thrifty.diagnostics.replicates import replicate
from thrifty.diagnostics.sbc import sbc
from thrifty.diagnostics.tarp import tarp
from thrifty.diagnostics.verdict import Check, Trust, worst_verdict
from thrifty.diagnostics.weight_health import weight_health
from thrifty.errors import DataError
from thrifty.inference.checks import find_varying, read_observation
from thrifty.tables.simulations import Simulations, require_valid
from thrifty.types import Posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAIRS = 300  # finds a shift of 0.3 sd in nine of ten cases; 300 posterior calls take seconds
_DRAWS_PER_PAIR = 100
_MIN_HELD_OUT_RUNS = 100  # fewer give no useful calibration


@dataclass(frozen=True)
class Diagnosis:
    """The results of all checks.

    Attributes:
        checks: The finished checks; `diagnosis["sbc"]` gives one by name.
        notes: What could not be checked, and why.

    Example:
        >>> print(Diagnosis((th.diagnostics.weight_health(np.zeros(500)),), ()))
        verdict: trust
          trust         weights           500 runs count as 500; the heaviest 1 % hold 1% of the weight
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Trust:
        """The least trusting verdict of all checks."""
        return worst_verdict([check.verdict for check in self.checks])

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons against trust, worst first; empty when nothing was found."""
        found = [check for check in self.checks if check.verdict != "trust"]
        found.sort(key=lambda check: check.verdict != "do not trust")
        return tuple(f"{check.name}: {check.reason}" for check in found)

    def __getitem__(self, name: str) -> Any:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}; there are {', '.join(check.name for check in self.checks)}")

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}"]
        lines += [f"  {check.verdict:<13} {check.name:<17} {check.reason}" for check in self.checks]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return verdicts, reasons and p-values as plain values, for a report or a file."""
        rows = [
            {
                "name": check.name,
                "verdict": check.verdict,
                "reason": check.reason,
                "p_value": getattr(check, "p_value", None),
            }
            for check in self.checks
        ]
        return {"verdict": self.verdict, "reasons": list(self.reasons), "checks": rows, "notes": list(self.notes)}

    def figures(self) -> dict[str, Figure]:
        """Draw one matplotlib figure per check that has one: calibration, predictive, weights, cost."""
        from thrifty import plots

        drawn: dict[str, Figure] = {}
        calibrations = [c for c in self.checks if c.name in ("sbc", "coverage", "tarp")]
        if calibrations:
            drawn["calibration"] = plots.calibration(*calibrations)  # type: ignore[arg-type]
        single: dict[str, Callable[[Any], Figure]] = {
            "predictive": plots.predictive,
            "weights": plots.weights,
            "cost_model": plots.cost_residuals,
        }
        drawn.update({c.name: single[c.name](c) for c in self.checks if c.name in single})
        return drawn


def diagnose(
    posterior: Any,
    simulations: Simulations | None = None,
    x_o: npt.ArrayLike | None = None,
    *,
    held_out: Simulations | None = None,
    prior: Any = None,
    cost: Any = None,
    fresh: Simulations | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Run the default checks at x_o and judge whether the posterior can be trusted.

    Args:
        posterior: A posterior, or a study with `.posterior`, `.simulations` and `.x_o`.
        simulations: The runs behind it, with weights.
        x_o: The observation.
        held_out: Runs that did not train the posterior, to calibrate on; otherwise those that the posterior names in
            `held_out` (plan indices), those that a network kept for validation, otherwise all, with a note.
        prior: The prior, where neither posterior nor proposal has it.
        cost: The cost model, where the proposal has none.
        fresh: Runs at posterior draws, for the predictive check.
        seed: Seed of everything.

    Returns:
        Figures, verdicts and reasons; `print` it, read `.verdict`, draw `.figures()`.
    """
    if hasattr(posterior, "posterior"):
        study, posterior = posterior, posterior.posterior
        simulations = getattr(study, "simulations", None) if simulations is None else simulations
        x_o = getattr(study, "x_o", None) if x_o is None else x_o
    if simulations is None or x_o is None:
        raise DataError(
            "diagnose needs the posterior, its simulations and x_o",
            code="conflicting-settings",
            fix="th.diagnose(p, s, x_o)",
        )
    _check_inputs(posterior, simulations, x_o, held_out)
    check_count(seed, 0, "seed")
    notes: list[str] = []
    runs = select_held_out(posterior, simulations, held_out, notes)
    evaluates = _can_evaluate_density(posterior, simulations, x_o, notes)
    replicates = replicate(posterior, runs, pairs=_PAIRS, draws=_DRAWS_PER_PAIR, density=evaluates, seed=seed)
    checks: list[Check] = [sbc(replicates, seed=seed)]
    if evaluates:
        checks.append(coverage(replicates, seed=seed))
    checks += [tarp(replicates, seed=seed), data_use(replicates, seed=seed)]
    checks += [local_c2st(posterior, replicates, x_o, seed=seed), misspecification(simulations, x_o)]
    supported = evaluates and _has_prior(posterior, simulations, prior, notes)
    if supported:
        checks.append(local_ess(posterior, simulations, x_o, prior=prior, seed=seed))
    if supported or fresh is not None:
        checks.append(predictive(posterior, simulations, x_o, prior=prior, fresh=fresh, seed=seed))
    checks.append(weight_health(simulations))
    cost = getattr(simulations.proposal, "cost", None) if cost is None else cost
    if cost is None:
        notes.append("cost model not checked: pass cost=")
    elif np.sum(np.isfinite(simulations.cost) & (simulations.cost > 0)) < MIN_TIMED_RUNS:
        notes.append(f"cost model not checked: fewer than {MIN_TIMED_RUNS} runs have a measured cost")
    else:
        checks.append(cost_check(cost, simulations))
    return Diagnosis(tuple(checks), tuple(notes))


def _check_inputs(posterior: Any, simulations: Simulations, x_o: Any, held_out: Simulations | None) -> None:
    """Reject arguments of the wrong kind or shape."""
    check_posterior(posterior)
    check_simulations(simulations)
    check_simulations(simulations if held_out is None else held_out, "held_out")
    event = simulations.pairs()[1].shape[1:]
    read_observation(x_o, event)
    if held_out is not None and (held_out.pairs()[1].shape[1:] != event or held_out.dim != simulations.dim):
        raise DataError(
            f"held_out has {held_out.dim} parameters and outputs of shape {held_out.pairs()[1].shape[1:]},"
            f" the simulations {simulations.dim} and {event}",
            code="bad-array",
        )
    find_varying(require_valid(simulations).x, simulations.x_names)


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
    notes.append("calibration was measured on runs that may have trained the posterior: pass held_out=")
    return simulations


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
