"""Take lines of Python out of advice that is shown outside of Python: on the page, and on the command line."""

from __future__ import annotations

import re

_PYTHON = re.compile(
    r"[:;,]? (?:run its draws and )?pass (?:them as |others, )?\w+=[^;]*"
    r"|[:;,]? th\.diagnose\([^)]*\)"
    r"|; if single statistics are, th\.NPE\(prior, noise=th\.SpikeAndSlab\(\)\) lets the others decide"
    r"|; to calibrate, fit th\.ABC or th\.NPE to the same simulations"
    r"|; study\.diagnosis makes all checks and keeps them"
)


def drop_python(text: str) -> str:
    """Leave out what can be done in Python only.

    Example:
        >>> drop_python("predictive not judged: 9 outputs; run its draws and pass them as fresh=")
        'predictive not judged: 9 outputs'
        >>> drop_python("tested on runs that may have trained it; pass others, held_out=th.simulate(simulator, theta)")
        'tested on runs that may have trained it'
    """
    return _PYTHON.sub("", text).replace("time_limit=", "the time limit")
