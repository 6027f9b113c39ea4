"""Check, keep and show a study on the command line: the end of `thrifty infer` and of `thrifty run --rounds`."""

from __future__ import annotations

from typing import Any

from thrifty.cli.advice import translate_advice
from thrifty.cli.output import Screen
from thrifty.errors import ThriftyError

TIME_LIMIT_SECONDS = 60.0  # of the checks: a Markov chain for each of 300 data sets may take hours


def keep_study(study: Any, screen: Screen, *, name: str = "", checks: bool = True, patient: bool = False) -> int:
    """Check a study of one observation, keep it in its folder, and show it; return the exit code.

    Args:
        study: With its campaign.
        screen: Where to write.
        name: Of the result; the name of the method by default.
        checks: Whether to check the posterior.
        patient: Whether to do so without a time limit. Otherwise calibration is measured on as many runs as fit into
            it, and a note says how many were left out.
    """
    from thrifty.cli.project import relative_path

    checked = run_checks(study, screen, patient=patient) if checks else None
    result = study.save(name=name)
    _show(screen, study, checked=bool(checked))
    code = _exit_code(study, checked)
    screen.result(_as_dict(study, result, exit_code=code))
    screen.say(f"kept in {relative_path(study.campaign.folder)}/infer/{result.name}")
    return code


def run_checks(study: Any, screen: Any, *, patient: bool) -> bool:
    """Run the checks, as many as fit into the time limit: True when done, False when impossible.

    The fit is kept in all cases.
    """
    limit = "" if patient else f" (about {TIME_LIMIT_SECONDS:.0f} s at most; --all-checks has no limit)"
    screen.step("checks", "is the posterior calibrated, is the model right, are the runs enough" + limit)
    try:
        study.diagnose(time_limit=None if patient else TIME_LIMIT_SECONDS)
    except ThriftyError as error:
        screen.say(f"warning: the checks are not possible: {error.what}")
        return False
    return True


def advise_more_runs(diagnosis: Any, method: str) -> str:
    """Say what can be tried where more runs or a network may help; "" where the posterior or the model is not to blame.

    An observation that does not look like data of the model needs another model, not more runs.
    """
    failed = [answer for answer in diagnosis.answers if answer.decides and answer.verdict == "do not trust"]
    if not any("misspecification" not in answer.checks for answer in failed):
        return ""
    network = "" if method == "npe" else "; or fit a network to the same runs: thrifty infer --method npe"
    return f"to try: more runs, with a larger n or budget under [plan] in thrifty.toml, then thrifty run{network}"


def _exit_code(study: Any, checked: bool | None) -> int:
    """Return 4 where the report advises against trust: checks failed or impossible, or too much prior mass failed."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS

    doubtful = checked is False or (checked and study.diagnosis.verdict == "do not trust")
    return 4 if doubtful or study.simulations.failed_mass > MAX_FAILED_MASS else 0


def _show(screen: Any, study: Any, *, checked: bool) -> None:
    from thrifty.display import align_columns
    from thrifty.inference.weighted_posterior import describe_accepted

    rows = [[name, f"{m:.4g}", f"{a:.4g}", f"{b:.4g}", ""] for name, m, a, b in study.summary()]
    screen.data(align_columns(["parameter", "median", "5%", "95%", ""], rows))
    if rests := describe_accepted(study.posterior, study.x_o):
        screen.data(rests)
    if not checked:
        return
    screen.data(f"verdict   {study.diagnosis.verdict}")
    for line in str(study.diagnosis).splitlines()[1:]:
        screen.say(translate_advice(line))


def _as_dict(study: Any, result: Any, *, exit_code: int) -> dict[str, Any]:
    rows = {name: {"median": m, "low": a, "high": b} for name, m, a, b in study.summary()}
    return {
        "method": result.method, "name": result.name, "parameters": rows, "runs": len(study.simulations),
        "seconds": study.seconds, "diagnosis": result.diagnosis, "posterior": result.posterior_path, "exit": exit_code,
    }  # fmt: skip
