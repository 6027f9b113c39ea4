"""Posterior draws for other tools: ArviZ and pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.named import split_names
from thrifty.tables.pandas_io import draws_to_arviz, draws_to_pandas
from thrifty.types import Array

if TYPE_CHECKING:  # pragma: no cover
    import arviz
    import pandas


def export_arviz(posterior: Any, x_o: Any, n: int, seed: int) -> arviz.InferenceData:
    """Make draws of a posterior and its observation for ArviZ."""
    draws = _draw(posterior, x_o, n, seed)
    numbers, own = (posterior.x_o, posterior.x_names) if x_o is None else split_names(x_o)
    names = own or getattr(posterior, "x_names", ())
    return draws_to_arviz(draws, posterior.parameter_names, np.asarray(numbers, dtype=np.float64), names)


def export_pandas(posterior: Any, x_o: Any, n: int, seed: int) -> pandas.DataFrame:
    """Make a DataFrame of draws of a posterior."""
    return draws_to_pandas(_draw(posterior, x_o, n, seed), posterior.parameter_names)


def _draw(posterior: Any, x_o: Any, n: int, seed: int) -> Array:
    return posterior.sample(n, x_o, seed=seed)
