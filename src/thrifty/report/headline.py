"""The card on top: can the answer be trusted, for which three reasons, and what was saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thrifty.diagnostics import Trust, weight_health
from thrifty.diagnostics.verdict import VERDICTS, worst_verdict
from thrifty.report.content import clean, cost_text
from thrifty.report.gather import Facts
from thrifty.report.results import Result

ANSWERS = {"trust": "Yes", "with care": "With care", "do not trust": "No"}
_SUPPORT = ("sbc", "local_ess", "coverage", "predictive", "weights")  # what speaks for an answer, best first
_NAMES = {"sbc": "Calibration", "local_ess": "Support", "coverage": "Coverage", "predictive": "Predictive",
          "weights": "Weights", "tarp": "Calibration", "local_c2st": "At the observation",
          "misspecification": "Model", "cost_model": "Cost model",
          "data_use": "Use of the data"}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """One number of the card, with what it means below it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The card.

    Attributes:
        level: "yes", "care", "no" or "none", for its colour.
        answer: The word.
        question: What is answered.
        reasons: Three sentences.
        figures: The numbers.
        following: What to type next, or "".
    """

    level: str
    answer: str
    question: str
    reasons: tuple[str, ...]
    figures: tuple[Figure, ...]
    following: str


def judge(facts: Facts, results: tuple[Result, ...]) -> Verdict:
    """The verdict on the latest result, or on what is missing for one."""
    figures = _figures(facts, results)
    following = _next(facts, results)
    if not results:
        answer, reasons = _stage(facts)
        return Verdict("none", answer, "Can the posterior be trusted?", reasons, figures, following)
    found = _findings(facts, results[-1])
    verdict: Trust = worst_verdict([level for level, _ in found])
    against = sorted((item for item in found if item[0] != "trust"), key=lambda item: -VERDICTS.index(item[0]))
    reasons = tuple(text for _, text in [*against, *(item for item in found if item[0] == "trust")][:3])
    level = {"trust": "yes", "with care": "care", "do not trust": "no"}[verdict]
    return Verdict(level, ANSWERS[verdict], "Can the posterior be trusted?", reasons, figures, following)


def _findings(facts: Facts, result: Result) -> list[tuple[Trust, str]]:
    """Verdict and sentence of everything known: what the folder says first, then the checks of the result."""
    found: list[tuple[Trust, str]] = []
    status = facts.status
    if status.pending:
        found.append(
            ("with care", f"{status.pending:,} planned runs are missing: what finished first is cheaper than the rest.")
        )
    if not status.deterministic:
        found.append(("with care", "Two runs of one seed differed: the simulator ignores its seed."))
    checks = [check for check in (result.diagnosis or {}).get("checks") or [] if isinstance(check, dict)]
    ordered = sorted(checks, key=lambda c: _SUPPORT.index(c["name"]) if c.get("name") in _SUPPORT else len(_SUPPORT))
    for check in ordered:
        level = check.get("verdict")
        trust: Trust = level if level in VERDICTS else "do not trust"  # what cannot be read is no reason for trust
        name = _NAMES.get(str(check.get("name")), clean(check.get("name", "check"), 40))
        found.append((trust, f"{name}: {clean(check.get('reason', 'no reason given'), 300)}."))
    if not checks:
        found.append(("with care", "No check of the posterior was made: diagnose it before using it."))
    if facts.simulations is not None and not any(check.get("name") == "weights" for check in checks):
        health = weight_health(facts.simulations)
        found.append((health.verdict, f"Weights: {health.reason}."))
    return found


def _stage(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """Before any result: where the campaign stands."""
    status = facts.status
    if not status.done:
        return "Not yet", (
            "No run has finished.",
            f"{status.planned:,} runs are planned.",
            "Nothing has been inferred.",
        )
    done = f"{status.done:,} of {status.planned:,} planned runs are done."
    if facts.part is None:
        return "Not yet", (done, "Only the pilot has run: there is no plan.", "Nothing has been inferred.")
    state = "All planned runs are there." if not status.pending else f"{status.pending:,} runs are missing."
    mass = f"Failed prior mass {status.failed_mass:.2%}" + (
        " (above 1 %: mend the simulator)." if status.failed_mass > 0.01 else "."
    )
    return "Not yet", (f"Nothing has been inferred. {state}", done, mass)


def _next(facts: Facts, results: tuple[Result, ...]) -> str:
    if not facts.done.any() and facts.part is None:
        return facts.command("plan")
    if facts.status.pending or facts.part is None:
        return facts.command("run")
    return "" if results else facts.command("infer", "--observed", "FILE")


def _figures(facts: Facts, results: tuple[Result, ...]) -> tuple[Figure, ...]:
    status, saved, unit = facts.status, facts.status.saved, facts.unit
    runs = Figure("runs", f"{status.done:,}", f"of {status.planned:,} planned, {status.pilots:,} pilots")
    spent = Figure(
        "spent",
        cost_text(status.spent, unit),
        f"about {cost_text(status.left, unit)} left" if status.pending else "pilot included",
    )
    figures = [runs, spent]
    if saved is not None and facts.part is not None:
        interval = f"{cost_text(saved.low, unit)} to {cost_text(saved.high, unit)}"
        figures.append(Figure("cost saved", f"{saved.share:.0%}", f"{cost_text(saved.amount, unit)} ({interval})"))
        figures.append(
            Figure("saved per effective run", f"{saved.per_effective:+.0%}", "against plain sampling, pilot counted")
        )
    if saved is not None:
        figures.append(Figure("effective runs", f"{saved.effective:,.0f}", f"{status.ess_fraction:.0%} of the runs"))
    if status.done:
        mass = "the posterior is conditional on finishing" if status.failed_mass > 0.01 else f"{status.failed:,} runs"
        figures.append(Figure("failed prior mass", f"{status.failed_mass:.2%}", mass))
    figures.append(_calibration(results))
    return tuple(figures)


def _calibration(results: tuple[Result, ...]) -> Figure:
    checks: list[dict[str, Any]] = [] if not results else (results[-1].diagnosis or {}).get("checks") or []
    ranks = next((c for c in checks if isinstance(c, dict) and c.get("name") == "sbc"), None)
    if ranks is None:
        return Figure("calibration", "–", "no posterior yet" if not results else "not checked")
    p_value = ranks.get("p_value")
    shown = f"p = {p_value:.2g}" if isinstance(p_value, int | float) else "–"
    notes = " ".join(str(note) for note in (results[-1].diagnosis or {}).get("notes") or [])
    seen = "may have trained" in notes  # the note of `th.diagnose` where no run was held out
    return Figure("calibration", shown, "ranks of runs it may have seen" if seen else "ranks of held-out parameters")
