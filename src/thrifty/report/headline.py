"""Make the card on top of the page: can the posterior be trusted, for which reasons, and what was saved."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thrifty.campaign.kept_rounds import KeptRound
from thrifty.diagnostics import Trust, weight_health
from thrifty.diagnostics.verdict import VERDICTS, worst_verdict
from thrifty.display import count_things
from thrifty.durations import format_amount, format_kind
from thrifty.report.content import ANSWERS, NO_POSTERIOR, clean
from thrifty.report.drop_python import drop_python
from thrifty.report.gather import Facts
from thrifty.report.results import Result

_SUPPORT = ("sbc", "local_ess", "coverage", "predictive", "weights")  # order of checks that give reasons for trust
_NAMES = {"sbc": "Calibration", "local_ess": "Support", "coverage": "Coverage", "predictive": "Predictive",
          "weights": "Weights", "tarp": "Calibration", "local_c2st": "At the observation",
          "misspecification": "Model", "cost_model": "Cost model",
          "data_use": "Use of the data"}  # fmt: skip

MAX_REASONS = 3  # on the card; the table of checks has all


@dataclass(frozen=True)
class KeyFigure:
    """One number of the card, with its meaning below it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Headline:
    """The card.

    Attributes:
        answer: Whether the posterior can be trusted: "Yes", "With care", "No" or "Not yet".
        reasons: At most three sentences, all of them for this answer.
        figures: The numbers.
        following: The next command, or "".
    """

    answer: str
    reasons: tuple[str, ...]
    figures: tuple[KeyFigure, ...]
    following: str

    @property
    def level(self) -> str:
        """Return its colour in the style sheet: "yes", "care", "no" or "yet"."""
        return self.answer.split()[-1].lower()


def make_headline(facts: Facts, results: tuple[Result, ...]) -> Headline:
    """Judge the latest result, or say what is missing for one."""
    figures = _make_figures(facts, results)
    following = _next_command(facts, results)
    if not results:
        return Headline("Not yet", _describe_stage(facts), figures, following)
    found = _collect_findings(facts, results[-1])
    verdict: Trust = worst_verdict([level for level, _ in found])
    against = sorted((item for item in found if item[0] != "trust"), key=lambda item: -VERDICTS.index(item[0]))
    reasons = tuple(text for _, text in (against or found)[:MAX_REASONS])  # what was found well is no reason for care
    return Headline(ANSWERS[verdict].capitalize(), reasons, figures, following)


def _collect_findings(facts: Facts, result: Result) -> list[tuple[Trust, str]]:
    """Collect (verdict, sentence) of the folder first, then of the checks of the result."""
    found: list[tuple[Trust, str]] = []
    status = facts.status
    if status.pending:
        words = "missing: the answer rests on those that have finished."
        found.append(("with care", f"{count_things(status.pending, 'planned run')} {_be(status.pending)} {words}"))
    if not status.deterministic:
        found.append(("with care", "Two runs with one seed differ: the simulator ignores its seed."))
    places = {name: place for place, name in enumerate(_SUPPORT)}
    ordered = sorted(result.checks, key=lambda check: places.get(str(check.get("name")), len(places)))
    for row in result.questions or ordered:
        level = row.get("verdict")
        trust: Trust = level if level in VERDICTS else "do not trust"  # an unreadable verdict gives no trust
        asked = clean(row.get("question", row.get("name", "check")), 60)
        name = f"{asked} {ANSWERS[trust].capitalize()}" if "question" in row else _NAMES.get(asked, asked)
        found.append((trust, f"{name}: {drop_python(clean(row.get('reason', 'no reason given'), 300))}."))
    if not ordered:
        found.append(("with care", "No check of the posterior was made: diagnose it before using it."))
    if facts.simulations is not None and not any(check.get("name") == "weights" for check in ordered):
        health = weight_health(facts.simulations)
        found.append((health.verdict, f"Weights: {health.reason}."))
    return found


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _describe_stage(facts: Facts) -> tuple[str, str, str]:
    """Describe the state of the campaign before any result."""
    status = facts.status
    if not status.done:
        return (
            "No run has finished.",
            f"{count_things(status.planned, 'run')} {_be(status.planned)} planned.",
            NO_POSTERIOR,
        )
    done = f"{status.done:,} of {status.planned:,} planned runs are done."
    done = f"{count_things(status.done, 'run')} done." if status.awaits_budget else done
    if facts.part is None:
        return done, "Only the pilot has run: there is no plan.", NO_POSTERIOR
    state = (
        "More runs are planned until the budget is used."
        if status.awaits_budget
        else "All planned runs are done."
        if not status.pending
        else f"{count_things(status.pending, 'run')} {_be(status.pending)} missing."
    )
    advice = " (above 1%: repair the simulator)" if status.failed_mass > 0.01 else ""
    return f"{NO_POSTERIOR} {state}", done, f"Failed prior mass {status.failed_mass:.2%}{advice}."


def _next_command(facts: Facts, results: tuple[Result, ...]) -> str:
    if not facts.done.any() and facts.part is None:
        return facts.command("plan")
    if facts.status.pending or facts.part is None:
        return facts.command("run")
    return "" if results else facts.command("infer")


def _make_figures(facts: Facts, results: tuple[Result, ...]) -> tuple[KeyFigure, ...]:
    status, saved, unit = facts.status, facts.status.saved, facts.unit
    left = (
        f"about {format_kind(status.left, unit, status.kind)} left"
        if status.pending
        else "pilot included"
        if status.pilots
        else ""
    )
    pilots = f", {count_things(status.pilots, 'pilot')}" if status.pilots else ""
    figures = [
        KeyFigure("runs", f"{status.done:,}", f"of {status.planned:,} planned{pilots}"),
        KeyFigure("spent", format_kind(status.spent, unit, status.kind), left),
    ]
    if saved is not None and facts.part is not None:
        interval = f"{format_amount(saved.low, unit)} to {format_amount(saved.high, unit)}"
        against = "against plain sampling, pilot included"
        figures.append(
            KeyFigure(
                "cost to be saved" if status.pending else "cost saved",
                f"{saved.share:.0%}",
                f"{format_amount(saved.amount, unit)} ({interval})",
            )
        )
        if not facts.sequential:  # its draws are placed for one observation, not for the whole prior
            figures.append(KeyFigure("saved per effective run", f"{saved.per_effective:.0%}", against))
    if status.rounds:
        figures.append(_summarise_rounds(status.rounds))
    if saved is not None:
        of = "of the runs, over the whole prior" if facts.sequential else "of the runs"
        figures.append(KeyFigure("effective runs", f"{saved.effective:,.0f}", f"{status.ess_fraction:.0%} {of}"))
    if status.done:
        mass = (
            "the posterior is conditional on finishing"
            if status.failed_mass > 0.01
            else count_things(status.failed, "run")
        )
        figures.append(KeyFigure("failed prior mass", f"{status.failed_mass:.2%}", mass))
    figures.append(_summarise_calibration(results))
    return tuple(figures)


def _summarise_rounds(rounds: tuple[KeptRound, ...]) -> KeyFigure:
    judged = [one for one in rounds if one.judged]
    volume = judged[-1].volume if judged else math.nan
    note = f"the posterior takes {100 * volume:.2g}% of the prior" if volume >= 0 else ""  # none of whole numbers
    note = note if judged else "no posterior yet"
    return KeyFigure("rounds", f"{len(rounds)}", note)


def _summarise_calibration(results: tuple[Result, ...]) -> KeyFigure:
    ranks = next((c for result in results[-1:] for c in result.checks if c.get("name") == "sbc"), None)
    if ranks is None:
        return KeyFigure("calibration", "–", "no posterior yet" if not results else "not checked")
    p_value = ranks.get("p_value")
    shown = f"p = {p_value:.2g}" if isinstance(p_value, int | float) else "–"
    seen = any("may have trained" in note for note in results[-1].notes)  # by `th.diagnose`, where none was held out
    ranked = "ranks of runs that may have been used for training" if seen else "ranks of held-out parameters"
    return KeyFigure("calibration", shown, ranked)
