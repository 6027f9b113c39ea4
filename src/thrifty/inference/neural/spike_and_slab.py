"""Training under errors of the observation: NPE that does not trust every statistic (Ward et al. 2022, noisy NPE).

    x' = x + u scale,      u_j ~ (1 - share) N(0, spike^2) + share Cauchy(0, slab)

The network learns p(theta | x') instead of p(theta | x): where one statistic contradicts the others, it was probably
the slab, and the others decide. Errors are drawn before training, `copies` for each run, in units of each statistic's
prior-weighted standard deviation. Numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError
from thrifty.inference.neural.prepare import Rows
from thrifty.types import Array

_COLUMNS = ("theta", "x", "log_weights", "index")
MAX_ERROR = 100.0  # in standard deviations of the statistic: beyond, a network sees no difference


@dataclass(frozen=True, repr=False)
class SpikeAndSlab(DisplayedSettings):
    """Errors of the observation that a robust posterior is trained for: `th.NPE(prior, noise=th.SpikeAndSlab())`.

    Args:
        share: Chance of each statistic to be wrong.
        spike: Error of a statistic that is right, in its standard deviations over the simulations.
        slab: Scale of the error of one that is wrong, in the same unit; Cauchy, so far larger ones are expected too.
        copies: Errors drawn for each run; training takes as many times longer.

    Example:
        >>> SpikeAndSlab(share=0.2).slab
        1.0
    """

    share: float = 0.1
    spike: float = 0.01
    slab: float = 1.0
    copies: int = 4

    def __post_init__(self) -> None:
        good = 0 < self.share < 1 and self.spike >= 0 and 0 < self.slab < np.inf and np.isfinite(self.spike)
        if not good or not isinstance(self.copies, int) or self.copies < 1:
            raise ConfigError(
                f"{self} is no error model",
                code="bad-setting",
                fix="share between 0 and 1, spike >= 0, slab > 0 and copies, a whole number >= 1",
            )

    def spread(self, rows: Rows, scale: Array, rng: np.random.Generator) -> Rows:
        """Return `copies` of every row with errors in units of `scale` (d,); weights and indices are repeated."""
        repeated = {label: np.concatenate([getattr(rows, label)] * self.copies) for label in _COLUMNS}
        x = repeated["x"].reshape(-1, scale.size)
        noisy = x + scale * self.draw(x.shape, rng)
        return replace(rows, **repeated | {"x": noisy.reshape(repeated["x"].shape)})

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw errors in standard deviations.

        Example:
            >>> errors = SpikeAndSlab(share=0.25).draw((4000,), np.random.default_rng(0))
            >>> bool(abs((np.abs(errors) > 0.1).mean() - 0.25 * 0.94) < 0.03)
            True
        """
        wrong = rng.random(shape) < self.share
        errors = np.where(wrong, self.slab * rng.standard_cauchy(shape), self.spike * rng.standard_normal(shape))
        return np.clip(errors, -MAX_ERROR, MAX_ERROR)
