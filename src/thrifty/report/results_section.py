"""Write the section that compares all results of a folder: their marginals on one axis, quantiles, and time."""

from __future__ import annotations

import numpy as np

from thrifty import plots
from thrifty.report.content import ANSWERS, Drawing, Grid, Section, as_labels, clean
from thrifty.report.gather import Facts
from thrifty.report.inference_time import describe_time, includes_runs
from thrifty.report.quantile_texts import find_levels, format_categories, format_quantiles
from thrifty.report.results import Result
from thrifty.types import Array
from thrifty.weights import normalise, quantile

MAX_COMPARED = 6  # results on one axis: more lines cannot be told apart
MAX_DRAWN_PARAMETERS = 12  # marginals: three rows of four
LEVELS = (0.05, 0.5, 0.95)


def results_section(facts: Facts, results: tuple[Result, ...]) -> Section:
    """Show all results: what each found, what its checks say, and how long it took."""
    last = results[-1]
    same = [r for r in results if r.names == last.names and np.array_equal(np.ravel(r.x_o), np.ravel(last.x_o))]
    compared = same[-MAX_COMPARED:]
    labels = as_labels([r.name for r in compared])
    lead, drawings = [f"{len(results)} results are in this folder, the newest last."], []
    tables = [_list_results(results, facts)]
    notes = ["Inference: training and draws. Runs and checks are not counted."]
    notes += ["With runs: SMC-ABC is done when they are."] if any(includes_runs(r) for r in results) else []
    if len(compared) > 1:
        lead += _describe_agreement(compared, facts)
        drawings.append(_draw_marginals(compared, labels, facts))
        tables.append(_list_quantiles(compared, labels, facts))
    if len(compared) < len(results):
        others = [clean(r.name, 40) for r in results if not any(r is one for one in compared)]
        notes.append(f"Of another observation, or older, and in the first table only: {', '.join(others)}.")
    if len(last.names) > MAX_DRAWN_PARAMETERS:
        notes.append(f"The first {MAX_DRAWN_PARAMETERS} of {len(last.names)} parameters are drawn.")
    return Section(lead, drawings, tables, notes)


def _list_results(results: tuple[Result, ...], facts: Facts) -> Grid:
    rows = [
        [clean(r.name, 60), clean(r.method, 40), _judge(r), describe_time(facts, r),
         f"{len(r.samples):,}", clean(r.created, 25)]
        for r in results
    ]  # fmt: skip
    header = ["result", "method", "trust it?", "inference took", "draws", "made"]
    return Grid(header, rows, "All results; the last is shown above", mark=len(results) - 1, words=3)


def _judge(result: Result) -> str:
    verdict = str((result.diagnosis or {}).get("verdict", ""))
    return ANSWERS.get(verdict, clean(verdict, 20) or "not checked")


def _list_quantiles(results: list[Result], labels: tuple[str, ...], facts: Facts) -> Grid:
    levels = find_levels(facts, results[-1])
    cells = [
        [f"{found[1]} ({found[0]} to {found[2]})" if found else shares for found, shares in zip(*both, strict=True)]
        for both in ((format_quantiles(r, levels, LEVELS), format_categories(r, levels)) for r in results)
    ]
    body = [[clean(name, 60), *(column[i] for column in cells)] for i, name in enumerate(results[-1].names)]
    words = [label.replace(r"\$", "$") for label in labels]
    return Grid(["parameter", *words], body, "Median and central 90% of each parameter")


def _measure(result: Result) -> Array:
    """Return the quantiles (p, 3) of each parameter."""
    weights = np.zeros(len(result.samples)) if result.log_weights is None else result.log_weights
    return np.array([quantile(column, LEVELS, weights) for column in result.samples.T])


def _describe_agreement(results: list[Result], facts: Facts) -> list[str]:
    """Say how far the medians of numbers lie apart, in standard deviations of the newest posterior."""
    medians = np.array([_measure(result)[:, 1] for result in results])
    last = results[-1]
    size = len(last.samples)
    weights = np.full(size, 1 / size) if last.log_weights is None else normalise(last.log_weights)
    spread = np.sqrt(weights @ np.square(last.samples - weights @ last.samples))
    apart = np.ptp(medians, axis=0) / np.where(spread > 0, spread, np.inf)
    numbers = [i for i, level in enumerate(find_levels(facts, last)) if not level]  # categories have no median
    if not numbers:
        return []
    worst = max(numbers, key=lambda i: apart[i])
    return [
        f"Medians at this observation differ by at most {apart[worst]:.2g} standard deviations of the newest posterior"
        f" ({clean(last.names[worst], 40)})."
    ]


def _draw_marginals(results: list[Result], labels: tuple[str, ...], facts: Facts) -> Drawing:
    shown = slice(0, MAX_DRAWN_PARAMETERS)
    pairs = list(zip(labels, results, strict=True))
    weights = {label: r.log_weights for label, r in pairs if r.log_weights is not None}
    prior = facts.known_prior if len(results[-1].names) <= MAX_DRAWN_PARAMETERS else None
    figure = plots.marginals(
        {label: r.samples[:, shown] for label, r in pairs}, log_weights=weights, prior=prior,
        names=as_labels(results[-1].names)[shown],
    )  # fmt: skip
    names = ", ".join(clean(r.name, 40) for r in results)
    return Drawing(figure, "Marginals of all results", f"Marginal densities of each parameter by {names}")
