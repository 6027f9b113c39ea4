"""Write the sections on the posterior: draws, predictive distribution, calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty import plots
from thrifty.diagnostics import local_ess, predictive
from thrifty.errors import DataError, ThriftyError
from thrifty.inference.saving import load_posterior
from thrifty.inference.weighted_posterior import describe_accepted
from thrifty.report.content import ANSWERS, NO_POSTERIOR, Drawing, Grid, Section, as_labels, clean
from thrifty.report.drop_python import drop_python
from thrifty.report.gather import Facts
from thrifty.report.inference_time import describe_time
from thrifty.report.measured_checks import Measured
from thrifty.report.quantile_texts import find_levels, format_categories, format_quantiles
from thrifty.report.results import Result
from thrifty.weights import normalise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_PAIR_PARAMETERS = 6  # in the pair plot: more are too small to read
PANEL_INCHES, PAGE_INCHES = 2.6, 9.4  # of the pair plot: a panel, and the width of the page


def load_last_posterior(facts: Facts, results: tuple[Result, ...]) -> tuple[Any, str]:
    """Load the latest posterior from plain numbers, None where there is none; or say why it cannot be used."""
    if not results or results[-1].posterior_path is None:
        return None, ""
    try:
        known = {} if facts.known_prior is None else {"prior": facts.known_prior}
        return load_posterior(results[-1].posterior_path, **known), ""
    except (ThriftyError, LookupError, TypeError, ValueError) as error:
        return None, f"The posterior cannot be loaded: {getattr(error, 'what', error)}"


def posterior_section(facts: Facts, results: tuple[Result, ...], posterior: Any) -> Section:
    """Show the pair plot with the prior, quantiles, and the predictive distribution at the observation."""
    if not results:
        words = (
            f"{NO_POSTERIOR} In Python, campaign.infer(x_o) makes one and keeps it here; study.save() keeps a th.Study."
        )
        return Section(missing=words, command=facts.command("infer"))
    last = results[-1]
    weights = last.log_weights
    size = "" if weights is None else f" ({1 / np.sum(normalise(weights) ** 2):,.0f} effective)"
    rests = describe_accepted(posterior, last.x_o)
    lead = [
        f"{clean(last.method, 40)}, {len(last.samples):,} draws{size} at the observation"
        f" {_format_values(last.x_o)}; {f'{rests}; ' if rests else ''}made"
        f"{f' in {describe_time(facts, last)}' if last.seconds else ''} on {clean(last.created, 25)}."
    ]
    figure = _draw_pairs(last, facts.known_prior)
    what = f"Marginals and 50 and 90% regions of {', '.join(clean(name, 40) for name in last.names)}, prior in grey"
    drawings = [Drawing(figure, "Posterior", what, whole=True)]
    notes = []
    if len(last.names) > MAX_PAIR_PARAMETERS:
        notes.append(f"The first {MAX_PAIR_PARAMETERS} of {len(last.names)} parameters are drawn.")
    if posterior is None:
        notes.append(
            "The folder does not hold the posterior itself, so support and predictive distribution are not drawn."
        )
    else:
        more, words = _draw_predictive(facts, last, posterior)
        drawings += more
        lead += words[:1] if more else []
        notes += words[1:] if more else words
    return Section(lead, drawings, _make_tables(facts, last), notes, beside=True)


def _draw_predictive(facts: Facts, result: Result, posterior: Any) -> tuple[list[Drawing], list[str]]:
    """Draw support and predictive distribution at the observation from the pool; or say why it is not possible."""
    if facts.simulations is None:
        return [], ["No run has finished that could support the posterior."]
    try:
        seen = predictive(
            posterior, replace(facts.simulations, names=facts.labels), result.x_o, prior=facts.known_prior
        )
        support = local_ess(posterior, facts.simulations, result.x_o, prior=facts.known_prior)
    except (DataError, NotImplementedError) as error:
        return [], [f"Support and predictive distribution are not drawn: {clean(getattr(error, 'what', error))}."]
    few = not seen.is_judged
    judged = f"{seen.ess:.0f} effective outputs, too few to judge it" if few else f"p = {seen.p_value:.2f}"
    words = f"Predictive density of the statistics with the observation; {judged}"
    drawing = Drawing(plots.predictive(seen, most=6), "Posterior predictive", words)
    note = "Predictive distribution: runs weighted to the posterior; at most six statistics, the least likely."
    check = f"not judged: {seen.describe_too_few()}" if few else seen.reason
    return [drawing], [f"Support at the observation: {support.reason}. Predictive check: {check}.", note]


def _draw_pairs(result: Result, prior: Any) -> Figure:
    """Draw a pair plot of the first parameters, with the prior where all of them fit."""
    shown = slice(0, MAX_PAIR_PARAMETERS)
    names = as_labels(result.names)
    prior = prior if len(names) <= MAX_PAIR_PARAMETERS else None
    figure = plots.pairs(result.samples[:, shown], log_weights=result.log_weights, prior=prior, names=names[shown])
    side = max(figure.get_figwidth(), min(0.6 + PANEL_INCHES * min(len(names), MAX_PAIR_PARAMETERS), PAGE_INCHES))
    figure.set_size_inches(side, side)
    return figure


def _make_tables(facts: Facts, last: Result) -> list[Grid]:
    """List the quantiles of parameters that are numbers, and the probabilities of those that are categories."""
    levels, names = find_levels(facts, last), [clean(name, 60) for name in last.names]
    rows = zip(names, format_quantiles(last, levels, QUANTILES), strict=True)
    body = [[name, *cells] for name, cells in rows if cells]
    shares = zip(names, format_categories(last, levels), strict=True)
    categories = [[name, text] for name, text in shares if text]
    header, title = ["parameter", *(f"{level:.0%}" for level in QUANTILES)], "Quantiles of the posterior"
    tables = [Grid(header, body, title)] if body else []
    return tables + ([Grid(["parameter", "probabilities"], categories, "Categories", words=2)] if categories else [])


def _format_values(values: np.ndarray, most: int = 6) -> str:
    flat = np.asarray(values, dtype=np.float64).ravel()
    shown = ", ".join(f"{value:.4g}" for value in flat[:most])
    return f"({shown}{', …' if len(flat) > most else ''})"


def calibration_section(facts: Facts, results: tuple[Result, ...], measured: Measured) -> Section:
    """List all checks; draw ranks and coverage with bands."""
    if not results:
        words = "Calibration needs a posterior; there is none yet."
        return Section(missing=words, command=facts.command("infer"))
    tables = _list_checks(results[-1])
    lead = ["All checks use the weights of the campaign: the runs represent the prior, whatever they were drawn from."]
    if not tables:
        lead.append("No check of this posterior was made.")
    notes = [drop_python(note) for note in measured.notes if note not in results[-1].notes]  # the table has those
    checks = measured.checks
    if not checks:
        return Section(lead, tables=tables, notes=notes)
    if len(checks) > 1:
        held = [f"{level:.0%}: {checks[1].at(level)[0][0]:.0%}" for level in (0.5, 0.8, 0.95)]
        lead.append(f"Parameters of runs inside the regions of stated size: {', '.join(held)}.")
    what = "; ".join(f"{check.name}: {clean(check.reason)}" for check in checks)
    lead.append("Where several tests answer one question, each of their p-values counts for less.")
    figure = _draw_calibration(checks, {str(row.get("name")): row.get("verdict") for row in results[-1].checks})
    return Section(lead, [Drawing(figure, "Calibration with simultaneous bands", what)], tables, notes)


def _draw_calibration(checks: tuple[Any, ...], verdicts: dict[str, Any]) -> Figure:
    """Draw ranks and coverage under the verdicts of the table, which are those among all tests of a question."""
    figure = plots.calibration(*checks)
    for check, ax in zip(checks, figure.axes, strict=True):
        what = ax.get_title("left").partition(":")[0]
        verdict = verdicts.get(check.name, check.verdict)
        ax.set_title(f"{what}: {verdict if verdict in ANSWERS else check.verdict}", fontsize=10, loc="left")
    return figure


def _list_checks(result: Result) -> list[Grid]:
    body = [
        [clean(row.get("name", ""), 40), ANSWERS.get(str(row.get("verdict")), clean(row.get("verdict", ""), 20)),
         drop_python(clean(row.get("reason", ""), 300))]
        for row in result.checks
    ]  # fmt: skip
    body += [["note", "", clean(note, 300)] for note in map(drop_python, result.notes)]
    return [Grid(["check", "trust it?", "reason"], body, words=3)] if body else []
