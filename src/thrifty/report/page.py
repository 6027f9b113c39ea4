"""Make the page and write it in one step."""

from __future__ import annotations

import contextlib
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from thrifty.errors import StorageError, ThriftyError, warn
from thrifty.report import inference_sections as inference, plan_sections as plan, run_sections as run
from thrifty.report.content import Section, clean
from thrifty.report.fill import fill_template, read_style
from thrifty.report.gather import Facts, gather
from thrifty.report.headline import make_headline
from thrifty.report.measured_checks import Measured, add_measured, measure_checks
from thrifty.report.results import Result, read_results
from thrifty.report.results_section import results_section
from thrifty.report.sequential_sections import rounds_section
from thrifty.report.svg import render_picture
from thrifty.tables.simulations import table_hash
from thrifty.version import __version__

COMMON_NAMES = {"", "run", "runs", "main", "campaign", "c", "out", "output", "results", "test", "folder", "data"}
Builder = Callable[[], Section]


def write(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    command: str | None = None,
    live: bool = False,
    refresh: float | None = None,
    title: str | None = None,
) -> Path:
    """Write the report of a run folder: one HTML file without scripts that needs no network.

    It works at every stage and names what is missing, with the command that makes it. The file is replaced in one
    step, so that a reader never sees half of it. Nothing in the folder is executed, and all text from it is escaped.

    Args:
        path: The file to write.
        folder: The run folder.
        command: The command line that asked for the report, for its provenance.
        live: Without effect, kept for old calls: `thrifty report --live` shows a running campaign.
        refresh: Without effect, as `live`.
        title: Of the page; by default the name of the folder, with that of its parent where it is a common one.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> def simulate(theta, rng):
        ...     return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     c = th.Campaign(folder + "/toy", simulate, th.Uniform(0, 4), seed=1, cost="reported")
        ...     _ = c.pilot(12, engine=th.Inline(), progress="quiet")
        ...     page = write(folder + "/report.html", folder + "/toy")
        ...     "Only the pilot has run" in page.read_text(encoding="utf-8")
        True
    """
    if live or refresh is not None:
        warn("live= and refresh= have no effect; `thrifty report --live` shows a running campaign on a page")
    target = Path(path)
    _replace(target, _render(Path(folder), command, title))
    return target


def _render(folder: Path, command: str | None, title: str | None) -> str:
    """Make the page as text."""
    with warnings.catch_warnings():
        # the page shows what they say (failed mass, weights, missing runs); missing glyphs in names are no failure
        warnings.simplefilter("ignore")
        facts = gather(folder)
        results, damage = _read_results(folder)
        posterior, lost = inference.load_last_posterior(facts, results)
        measured = measure_checks(facts, results, posterior)
        results = add_measured(results, measured)
        sections = _make_sections(facts, results, posterior, measured, command)
        trouble = [clean(text) for text in (damage, lost) if text]
        sections[0] = replace(sections[0], notes=[*sections[0].notes, *trouble])
        headline = make_headline(facts, results)
        pictures = {
            (s.key, i): render_picture(drawing, f"{s.key}-{i}")
            for s in sections
            for i, drawing in enumerate(s.drawings)
        }
    return fill_template("page.html", {
        "title": clean(title or make_title(folder), 120), "state": clean(facts.status.state), "verdict": headline,
        "sections": sections, "pictures": pictures, "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "version": __version__, "css": read_style(),
    })  # fmt: skip


def make_title(folder: Path) -> str:
    """Name a page after its folder, with the parent where many folders have that name.

    Example:
        >>> make_title(Path("/data/fire/run")), make_title(Path("/data/fire-in-c"))
        ('fire/run', 'fire-in-c')
    """
    place = folder.resolve()
    name = re.sub(r"[\W\d_]+$", "", place.name.lower())
    if name in COMMON_NAMES and place.parent.name:
        return f"{place.parent.name}/{place.name}"
    return place.name or str(folder)


def _read_results(folder: Path) -> tuple[tuple[Result, ...], str]:
    """Read the results, or say what is wrong with them: a damaged result must not hide the campaign."""
    try:
        return read_results(folder), ""
    except ThriftyError as error:
        return (), error.what


def _make_sections(
    facts: Facts, results: tuple[Result, ...], posterior: Any, measured: Measured, command: str | None
) -> list[Section]:
    builders: list[tuple[str, str, Builder]] = [
        ("posterior", "Posterior", partial(inference.posterior_section, facts, results, posterior)),
        ("calibration", "Calibration and checks",
         partial(inference.calibration_section, facts, results, measured)),
        ("where-the-cost-went", "Where the cost went", partial(plan.waterfall_section, facts, results)),
        ("cost", "What a run costs", partial(plan.cost_section, facts)),
        ("trade-off", "Possible saving and choice of penalty", partial(plan.tradeoff_section, facts)),
        ("proposal", "Proposal and self-check", partial(plan.proposal_section, facts)),
        ("weights", "Weights", partial(plan.weights_section, facts, results)),
        ("failures", "Failures", partial(run.failures_section, facts)),
        ("timeline", "Timeline", partial(run.timeline_section, facts)),
        ("provenance", "Provenance", partial(run.provenance_section, facts, _hash_table(facts), command)),
    ]  # fmt: skip
    if len(results) > 1:
        builders.insert(1, ("results", "All results side by side", partial(results_section, facts, results)))
    if facts.status.rounds:
        builders.insert(len(builders) - 8, ("rounds", "Rounds", partial(rounds_section, facts)))
    return [replace(_build(build), key=key, title=title) for key, title, build in builders]


def _build(build: Builder) -> Section:
    """Build a section; one that cannot be built says why, without effect on the others."""
    try:
        return build()
    except (ThriftyError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        words = getattr(error, "what", "") or f"{type(error).__name__}: {error}"
        return Section(missing=f"This part could not be made: {clean(words)}")


def _hash_table(facts: Facts) -> str:
    """Hash a complete table: the same for every campaign with this seed, prior, plan and code."""
    if facts.simulations is None or facts.status.pending:
        return ""
    try:
        return table_hash(replace(facts.simulations, names=()))
    except ThriftyError:
        return ""


def _replace(path: Path, text: str) -> None:
    """Write beside the target, then rename over it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # left by a killed process with this number
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise StorageError(
            f"cannot write {path}: {error.strerror}", code="disk-problem", fix="choose another file with --out"
        ) from None
