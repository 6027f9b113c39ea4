"""The result of `th.diagnose`: one answer per question, and one verdict.

    Is the posterior calibrated?             sbc, coverage, tarp, data_use, local_c2st   decides
    Does x_o look like data of the model?    misspecification, predictive
    Are there enough runs?                   accepted, weights, local_ess, unanswered
    Were costs as predicted?                 cost_model                                  savings, not in the verdict

Several tests of one question share its level (Bonferroni): a correct posterior fails a question once in a hundred
reports, however many tests ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thrifty.diagnostics.verdict import (
    VERDICTS,
    Check,
    NotMeasured,
    Trust,
    format_p_value,
    judge_among,
    read_p_value,
    worst_verdict,
)
from thrifty.display import Card, Displayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# question -> names of the checks that answer it, and whether it counts for the verdict
QUESTIONS: dict[str, tuple[tuple[str, ...], bool]] = {
    "Is the posterior calibrated?": (("calibration", "sbc", "coverage", "tarp", "data_use", "local_c2st"), True),
    "Does x_o look like data of the model?": (("misspecification", "predictive"), True),
    "Are there enough runs?": (("accepted", "weights", "local_ess", "unanswered"), True),
    "Were costs as predicted?": (("cost_model",), False),
}
NOTE_OF_FIGURE = {"predictive": "predictive", "cost_model": "cost model", "calibration": "calibrat"}  # words in a note
SMALL_P_VALUE = 0.05  # by which readers judge a single test
WORDS: dict[Trust, str] = {"trust": "yes", "with care": "with care", "do not trust": "no"}


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Attributes:
        question: In words.
        verdict: Over all its checks.
        reason: One sentence with the numbers behind it.
        checks: Names of the checks that were made.
        decides: Whether it counts for the verdict on the posterior.
    """

    question: str
    verdict: Trust
    reason: str
    checks: tuple[str, ...]
    decides: bool = True

    def __str__(self) -> str:
        return f"{self.question} {WORDS[self.verdict]}: {self.reason}"


class Figures(dict[str, "Figure"]):
    """Figures by name; the error for one that is missing says why it was not drawn.

    Args:
        drawn: Name -> figure.
        notes: What could not be checked, and why.
    """

    def __init__(self, drawn: Mapping[str, Figure], notes: Sequence[str]) -> None:
        super().__init__(drawn)
        self.notes = tuple(notes)

    def __missing__(self, name: str) -> Figure:
        word = NOTE_OF_FIGURE.get(name)
        why = [note for note in self.notes if word is not None and word in note]
        raise KeyError(f"no figure {name!r}; there are {', '.join(self)}. {' '.join(why)}".strip())


@dataclass(frozen=True, repr=False)
class Diagnosis(Displayed):
    """The results of all checks.

    Attributes:
        checks: The finished checks; `diagnosis["sbc"]` gives one by name.
        notes: What could not be checked, and why.

    Example:
        >>> print(Diagnosis((th.diagnostics.weight_health(np.zeros(500)),), ()))
        verdict: trust
          Are there enough runs?  yes: over the whole prior 500 runs count as 500; the heaviest 1% ...
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def answers(self) -> tuple[Answer, ...]:
        """One answer per question that was asked, in the order of `QUESTIONS`."""
        known = {name for names, _ in QUESTIONS.values() for name in names}
        asked = {question: [c for c in self.checks if c.name in names] for question, (names, _) in QUESTIONS.items()}
        found = [_answer(question, group, QUESTIONS[question][1]) for question, group in asked.items() if group]
        return (*found, *(_answer(f"{c.name}?", [c], True) for c in self.checks if c.name not in known))

    @property
    def verdict(self) -> Trust:
        """The least trusting answer to the questions about the posterior."""
        return worst_verdict([answer.verdict for answer in self.answers if answer.decides])

    @property
    def reasons(self) -> tuple[str, ...]:
        """The answers that speak against trust, worst first; empty when nothing was found."""
        found = [answer for answer in self.answers if answer.verdict != "trust"]
        found.sort(key=lambda answer: (not answer.decides, -VERDICTS.index(answer.verdict)))
        return tuple(str(answer) for answer in found)

    def __getitem__(self, name: str) -> Any:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}; there are {', '.join(check.name for check in self.checks)}")

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __str__(self) -> str:
        answers = self.answers
        width = max((len(answer.question) for answer in answers), default=0)
        lines = [f"verdict: {self.verdict}"]
        lines += [f"  {a.question:<{width}}  {WORDS[a.verdict]}: {a.reason}" for a in answers]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def _card(self) -> Card:
        rows = [(a.question, WORDS[a.verdict], a.reason) for a in self.answers]
        notes = [f"note: {note}" for note in self.notes]
        return Card(f"verdict: {self.verdict}", header=("question", "answer", "because"), rows=rows, notes=notes)

    def to_dict(self) -> dict[str, Any]:
        """Return verdicts, reasons and p-values as plain values, for a report or a file."""
        answers = self.answers
        tests = {name: len(answer.checks) for answer in answers for name in answer.checks}
        rows = [
            {
                "name": check.name,
                "verdict": judge_among(check, tests[check.name]),
                "reason": check.reason,
                "p_value": read_p_value(check),
            }
            for check in self.checks
        ]
        questions = [
            {"question": a.question, "verdict": a.verdict, "reason": a.reason, "decides": a.decides} for a in answers
        ]
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "questions": questions,
            "checks": rows,
            "notes": list(self.notes),
        }

    def figures(self) -> dict[str, Figure]:
        """Draw one matplotlib figure per check that was made: "calibration", "predictive", "weights", "cost_model"."""
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
        return Figures(drawn, self.notes)


def _answer(question: str, checks: list[Check], decides: bool) -> Answer:
    """Answer a question by its checks: by the worst of them, with the share of the level that each has."""
    judged: list[tuple[Trust, Check]] = [(judge_among(check, len(checks)), check) for check in checks]
    verdict = worst_verdict([each for each, _ in judged])
    reason = _agreeing_reason(checks)
    if verdict != "trust":
        found = [check for each, check in judged if each != "trust" and not isinstance(check, NotMeasured)]
        missing = [check.reason for each, check in judged if each != "trust" and isinstance(check, NotMeasured)]
        named = [c for c in found if judge_among(c, len(checks)) == verdict] or found
        worst = min(named, key=lambda c: getattr(c, "p_value", 0.0), default=None)
        tests = len(checks) - len(missing)
        more = f" ({len(found)} of {tests} tests find something)" if len(found) > 1 else ""
        first = [worst.reason + more] if worst else [f"{tests} tests find nothing"] if tests > 1 else []
        reason = "; ".join([*first, *missing])
    return Answer(question, verdict, reason, tuple(check.name for check in checks), decides)


def _agreeing_reason(checks: list[Check]) -> str:
    """Say in one sentence that no check of a question found anything."""
    p_values = [p for p in map(read_p_value, checks) if p is not None]
    sizes = [float(size) for check in checks if check.name == "sbc" and (size := getattr(check, "ess", None))]
    smallest = _describe_smallest(min(p_values), len(checks)) if p_values else ""
    if sizes:
        tests = f"{len(checks)} tests" if len(checks) > 1 else "one test"
        return f"{tests} over {sizes[0]:.0f} effective held-out runs agree with it ({smallest})"
    if len(checks) > 1 and p_values:
        return f"x_o lies among the simulations and among data of the posterior ({smallest})"
    return "; ".join(check.reason for check in checks)


def _describe_smallest(p_value: float, tests: int) -> str:
    """Give the smallest p-value of several tests; one that looks small alone is given as it counts among them.

    Example:
        >>> _describe_smallest(0.009, 5), _describe_smallest(0.3, 5)
        ('smallest p = 0.009, which counts as p = 0.04 among 5 tests', 'smallest p = 0.30')
    """
    text = f"smallest {format_p_value(p_value)}"
    if tests == 1 or p_value >= SMALL_P_VALUE:
        return text
    return f"{text}, which counts as {format_p_value(tests * p_value)} among {tests} tests"
