"""Draw models: their posterior probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.plots import style
from thrifty.plots.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def model_probabilities(probabilities: Mapping[str, float], *, se: npt.ArrayLike | None = None) -> Figure:
    """Draw the posterior probability of each model as a bar, with two standard errors each way.

    Args:
        probabilities: Name of the model to its probability, such as `dict(zip(c.names, c.probability))`.
        se: Standard errors (k,), in the same order.

    Example: `th.compare({...}, x_o).plot()`.
    """
    values = np.array(list(probabilities.values()), dtype=np.float64)
    errors = np.zeros(len(values)) if se is None else np.asarray(se, dtype=np.float64)
    if not len(values) or errors.shape != values.shape or not ((values >= 0) & (values <= 1 + 1e-9)).all():
        raise DataError(
            f"{len(values)} probabilities between 0 and 1 with as many errors were expected, got {values} and {errors}",
            code="bad-array",
            fix="th.compare(models, x_o).plot()",
        )
    order = np.argsort(values)
    low, high = np.clip([values - 2 * errors, values + 2 * errors], 0, 1)
    figure, axes = style.make_figure(5.0, 0.9 + 0.35 * len(values))
    ax = axes[0, 0]
    ax.barh(np.arange(len(values)), values[order], color=COLOURS[0], alpha=0.6, height=0.6)
    spans = np.stack([values - low, high - values])[:, order]
    ax.errorbar(values[order], np.arange(len(values)), xerr=spans, fmt="none", ecolor="black", elinewidth=1, capsize=3)
    ax.set_yticks(np.arange(len(values)), [list(probabilities)[i] for i in order])
    ax.set_xlim(0, 1)
    style.set_labels(ax, "posterior probability")
    return figure
