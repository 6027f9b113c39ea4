"""Show a study in blocks with headings: the posterior, its checks, its runs and their cost, and its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thrifty.display import Card, Displayed, align_columns, count_things
from thrifty.durations import choose_unit
from thrifty.tables.run_summary import summarise_runs

Study = Any  # a `th.Study`, whose module imports this one
Row = tuple[str, float, float, float]  # name, median, 5 % and 95 % quantile
_STOPPED = {  # what ended a sequential method, in words
    "settled": "the posterior has settled; the rest is not spent",
    "runs": "all runs are used",
    "budget": "the budget is used",
    "tolerance": "the tolerance is reached",
    "acceptance": "hardly any run is accepted any more",
}
_MEANINGS = {  # of columns of rounds
    "volume": "the share of the prior that the posterior takes",
    "moved": "how far the posterior moved in the round, in its standard deviations",
}


class Summary(Displayed, list[Row]):
    """A list of (name, median, 5 % and 95 % quantile) that shows what else is known of the study, under headings."""

    __slots__ = ("_parts", "_title")

    def __init__(self, rows: Sequence[Row], title: str = "", parts: Sequence[Card] = ()) -> None:
        super().__init__(rows)
        self._title, self._parts = title, parts

    def _card(self) -> Card:
        return Card(self._title, parts=self._parts)


def summarise(study: Study, rows: Sequence[Row], shares: Mapping[str, str], rests: Sequence[str]) -> Summary:
    """Make the summary of a study of its quantiles, the probabilities of its categories, and what it rests on."""
    posterior = Card("posterior", tuple(shares.items()), *list_quantiles(rows, shares), rests)
    parts = [posterior, _describe_checks(study), _describe_cost(study), *make_round_cards(study)]
    return Summary(rows, study.title, parts)


def list_quantiles(rows: Sequence[Row], shares: Mapping[str, str]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return header and body of the table of parameters; categories, whose probabilities are given, are left out."""
    body = [(name, *(f"{value:.4g}" for value in values)) for name, *values in rows if name not in shares]
    return ("parameter", "median", "5%", "95%"), body


def _describe_checks(study: Study) -> Card:
    made = study.__dict__.get("diagnosis")  # only if already computed: checks take long
    if made is None:
        which = "study.each[0].diagnosis, and so on, makes" if study.each else "study.diagnosis makes"
        return Card("checks", notes=[f"none was made yet: {which} them"])
    shown = made._card()
    answers = [(question, f"{answer}: {reason}") for question, answer, reason in shown.rows]
    return Card(f"checks: {made.verdict}", answers, notes=shown.notes)


def _describe_cost(study: Study) -> Card:
    if study.campaign is None:
        return Card(
            "runs and cost", [("runs", f"{len(study.simulations):,}"), *summarise_runs(study.simulations).facts]
        )
    shown = study.campaign.status()._card()
    facts = [fact for fact in shown.facts if not fact[0].startswith("round")]  # they have a block of their own
    return Card("runs and cost", [*facts, ("folder", str(study.campaign.folder))], notes=shown.notes)


def make_round_cards(study: Study) -> list[Card]:
    """Return a table of the rounds or generations, or none."""
    if not study.generations:
        return []
    header, rows = _list_generations(study)
    word = type(study.generations[0]).__name__.lower()
    notes = [describe_end(study.stopped), *_explain_columns(header)]
    return [Card(count_things(len(rows), word), header=header, rows=rows, notes=notes)]


def write_generations(study: Study) -> list[str]:
    """Write the rounds or generations as lines, and why they ended; nothing for other methods."""
    if not study.generations:
        return []
    header, rows = _list_generations(study)
    return [*align_columns(header, rows).splitlines(), *_explain_columns(header), describe_end(study.stopped)]


def _explain_columns(header: Sequence[str]) -> list[str]:
    """Say what the columns of rounds mean; nothing where none of them needs it."""
    words = [f"{label}: {meaning}" for label, meaning in _MEANINGS.items() if label in header]
    return ["; ".join(words)] if words else []


def describe_end(stopped: str) -> str:
    """Say why a sequential method ended."""
    return f"ended: {_STOPPED.get(stopped, stopped)}"


def _list_generations(study: Study) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return header and body of the rounds or generations, without columns in which nothing was measured."""
    table = [{type(g).__name__.lower(): str(i), **g.cells()} for i, g in enumerate(study.generations)]
    size, unit = choose_unit(max(g.cost for g in study.generations), study.simulations.unit)
    for row, done in zip(table, study.generations, strict=True):
        cost = done.cost / size  # one unit for the column
        row["cost"] = f"{cost:,.0f}" if cost >= 10_000 else f"{cost:.4g}"
    used = [label for label in table[0] if any(row[label] for row in table)]
    return [f"cost [{unit}]" if label == "cost" else label for label in used], [[row[i] for i in used] for row in table]
