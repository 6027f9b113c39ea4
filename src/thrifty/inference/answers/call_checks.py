"""Say how a posterior is asked where it is asked as in other packages, in one place for all posteriors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from thrifty.errors import ConfigError

SUMMARIES = ("mean", "sd", "std", "quantile", "covariance", "cov", "median")


def check_sample_call(sample: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse draws that are asked for in another order: `sample(x_o, n)`, `sample((n,), x=x_o)`.

    Raises:
        ConfigError: bad-setting.
    """

    @wraps(sample)
    def checked(self: Any, n: Any = None, *others: Any, **named: Any) -> Any:
        is_scalar = n is not None and np.ndim(n) == 0 and not isinstance(n, dict)  # a wrong number is refused below
        if not is_scalar or "x" in named:
            came = f"{type(n).__name__} first" if not is_scalar else "x="
            raise ConfigError(
                f"posterior.sample got {came}, expected the number of draws n and then the observation",
                code="bad-setting",
                fix="posterior.sample(1000, x_o, seed=0)",
            )
        return sample(self, n, *others, **named)

    return checked


def describe_missing(posterior: Any, name: str) -> str:
    """Say what a posterior for any observation has in place of an attribute that it has not."""
    what = f"{type(posterior).__name__!r} object has no attribute {name!r}"
    if name not in SUMMARIES:
        return what
    return (
        f"this posterior is for any observation and has no {name}; take it of draws:"
        " posterior.sample(1000, x_o).mean(axis=0)"
    )


def describe_method(posterior: Any) -> str:
    """Name a posterior by the method that made it, as its user knows it.

    Example:
        >>> describe_method(th.WeightedPosterior([[1.0], [2.0]], [0.0, 0.0], [0.0]))
        'this posterior'
    """
    method = getattr(getattr(posterior, "trained", None), "method", "")
    return f"a posterior of th.{method.upper()}" if method else "this posterior"
