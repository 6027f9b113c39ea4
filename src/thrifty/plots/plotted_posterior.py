"""`posterior.plot(x_o)`: what every posterior offers besides its own methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from thrifty.display import Displayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PlottedPosterior(Displayed):
    """Give a posterior the method `plot`, and its display."""

    __slots__ = ()

    def plot(
        self,
        x_o: npt.ArrayLike | None = None,
        *,
        prior: Any = None,
        truth: npt.ArrayLike | None = None,
        others: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Figure:
        """Draw the pair plot of this posterior at x_o, with the prior and other posteriors on the same axes.

        Args:
            x_o: The observation; weighted draws, which belong to one, need none.
            prior: Drawn in grey; by default the posterior's own, where it has one. False leaves it out.
            truth: Parameters (p,) to mark.
            others: Label -> posterior, study or draws (n, p), drawn as lines.
            seed: Of the draws.

        Returns:
            A matplotlib figure: a notebook shows it, `figure.savefig("posterior.png")` writes it.
        """
        from thrifty.plots.posterior_plots import pairs

        return pairs(self, x_o, prior=prior, truth=truth, others=others, seed=seed)
