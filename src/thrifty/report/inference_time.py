"""Say how long an inference took: the one place from which every section of the page has it.

fitted on a table    the wall seconds of the fit, as the result keeps them
rounds               the training between rounds, as the folder keeps it; a call that continued had only a part of it
SMC-ABC              its runs are in it: there is nothing but runs
"""

from __future__ import annotations

import math

from thrifty.durations import format_amount
from thrifty.report.gather import Facts
from thrifty.report.results import Result

LEAST_SECONDS = 0.1  # shown: ABC only keeps the runs, and works when it is asked


def is_of_rounds(result: Result) -> bool:
    """Tell whether a result comes from inference in rounds."""
    return result.method.endswith("-rounds")


def includes_runs(result: Result) -> bool:
    """Tell whether the time of a result is that of its runs too."""
    return result.method.startswith("smc")


def measure_seconds(facts: Facts, result: Result) -> float:
    """Return the seconds of one inference; 0 where they are not known."""
    rounds = facts.status.rounds if is_of_rounds(result) else ()
    trained = sum(one.seconds for one in rounds if one.judged and math.isfinite(one.seconds))
    return float(trained or result.seconds)


def sum_inference(facts: Facts, results: tuple[Result, ...]) -> float:
    """Return the seconds of all inferences of a folder, without runs; results of the same rounds share theirs."""
    alone = [measure_seconds(facts, r) for r in results if not is_of_rounds(r) and not includes_runs(r)]
    shared = [measure_seconds(facts, r) for r in results if is_of_rounds(r)][:1]
    return sum(alone + shared)


def describe_time(facts: Facts, result: Result) -> str:
    """Write how long an inference took."""
    seconds = measure_seconds(facts, result)
    if seconds <= 0:
        return "unknown"
    words = f"less than {LEAST_SECONDS:g} s" if seconds < LEAST_SECONDS else format_amount(seconds, "s")
    return f"{words} with runs" if includes_runs(result) else words
