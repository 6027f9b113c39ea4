"""Write advice of the library as it is followed on the command line: options and keys of thrifty.toml, no Python."""

from __future__ import annotations

from thrifty.report.drop_python import drop_python

_ADD_RUNS = "a larger n under [plan] in thrifty.toml adds runs"
# what the library says -> what is typed here
_TYPED = {
    "run its draws and pass them as fresh=th.simulate(simulator, posterior.sample(300, x_o))": _ADD_RUNS,
    "run its draws and pass them as fresh=": _ADD_RUNS,
    "Use a weaker penalty (th.Power(0.5)), add prior draws to the pool (th.Mixture with power 0),"
    ' or correction="after"': "In a new folder, use a smaller penalty, or mixture = [0, 0.5], under [plan]",
    "a gentler penalty, th.Power(0.5), or a higher floor": "a smaller penalty under [plan]",
    "a gentler penalty, or a higher floor, th.Power(k, low=...)": "a smaller penalty under [plan]",
    "th.Power(0.5), or th.Mixture": "penalty = 0.5, or mixture = [0, 0.5], under [plan]",
    "fit th.ABC or th.NPE to the same simulations": "thrifty infer --method npe",
    "worthwhile: plan(..., refit=True)": "worthwhile, in a new folder",
    "on_timeout='lazy' can": 'on_timeout = "lazy" under [run] can',
    'th.NLE(prior, failures="model")': "thrifty run --max-failed 0.05 (or more)",
    'th.NRE(prior, failures="model")': "thrifty run --max-failed 0.05 (or more)",
    "campaign.failures() shows the messages; correct the simulator, then run(redo_failed=True)": "correct the"
    " simulator, then thrifty run --accept-changed-simulator --redo-failed",
    "plan(cost=...)": "give its cost",
    "use th.NLE(prior) in a new folder": "use --method nle in a new folder",
}


def translate_advice(line: str) -> str:
    """Replace advice in Python by what the command line has, or leave it out.

    Example:
        >>> translate_advice("  note: cost model not checked: pass cost=")
        '  note: cost model not checked'
        >>> translate_advice("[few-effective-runs] 12 outputs; run its draws and pass them as fresh=")
        '[few-effective-runs] 12 outputs; a larger n under [plan] in thrifty.toml adds runs'
    """
    for python, typed in _TYPED.items():
        line = line.replace(python, typed)
    return drop_python(line)
