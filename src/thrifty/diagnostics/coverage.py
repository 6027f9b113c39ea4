"""Expected coverage of highest-density regions, with weights (Hermans et al. 2022).

The credible level at which theta_i just enters the region of highest posterior density is uniform for a correct
posterior; its distribution function is the coverage at every nominal level. Below the diagonal: over-confident.
"""

from __future__ import annotations

import numpy as np

from thrifty.diagnostics.calibration import Calibration, calibrate
from thrifty.diagnostics.replicates import Replicates, as_replicates
from thrifty.diagnostics.sbc import compute_ranks
from thrifty.errors import DataError
from thrifty.tables.simulations import Simulations
from thrifty.types import Posterior


def coverage(
    posterior: Posterior | Replicates,
    simulations: Simulations | None = None,
    *,
    pairs: int = 500,
    draws: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Measure the weighted coverage of highest-density regions at all nominal levels.

    `coverage(...).at([0.5, 0.8, 0.95])` gives the empirical coverage at three levels with standard errors.
    Arguments as in `sbc`; the posterior must have `log_prob`.
    """
    replicates = as_replicates(posterior, simulations, pairs=pairs, draws=draws, seed=seed, density=True)
    if replicates.density is None:
        raise DataError("coverage needs log densities", code="bad-setting", fix="replicate(..., density=True)")
    # the share of draws with higher density than the truth is the level of the region that has the truth on its edge
    depth = -replicates.density[:, :, None]
    ranks = compute_ranks(depth[:, :1], depth[:, 1:], np.random.default_rng(seed))
    return calibrate("coverage", ranks, replicates.log_weights, ("highest-density region",), level)
