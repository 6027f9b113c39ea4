"""What is asked of a posterior, asked of a method that is not fitted yet: say that `fit` comes first."""

from __future__ import annotations

from typing import Any

AFTER_FIT = ("sample", "log_prob", "plot", "map", "accepted", "log_evidence", "condition", "marginal", "draw", "save")


class BeforeFit:
    """Refuse on settings what their posterior answers."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        what = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in AFTER_FIT:
            what = (
                f"th.{type(self).__name__} holds settings and has no {name}: fit it first,"
                f" posterior = method.fit(simulations), then posterior.{name}(...)"
            )
        raise AttributeError(what)
