"""Simulation-based calibration with weights (Talts et al. 2018; bands after Säilynoja et al. 2022).

If the posterior is correct, the rank of theta_i among posterior draws at x_i is uniform. Under a cost-aware proposal
the *weighted* ranks are uniform: without the weights, correct posteriors are rejected.
"""

from __future__ import annotations

import numpy as np

from thrifty.diagnostics.calibration import Calibration, calibrate
from thrifty.diagnostics.replicates import Replicates, as_replicates
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior


def sbc(
    posterior: Posterior | Replicates,
    simulations: Simulations | None = None,
    *,
    pairs: int = 500,
    draws: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Test whether weighted ranks of held-out parameters among posterior draws are uniform, for each parameter.

    Args:
        posterior: The posterior, or `replicate(...)` of it to share draws between checks.
        simulations: Held-out runs with their weights; no new simulations are needed.
        pairs: Runs used.
        draws: Posterior draws at each.
        level: Of the simultaneous bands.
        seed: Seed of the choice, the draws and the ties.

    Example:
        >>> model = th.models.GaussianToy()
        >>> class Exact:
        ...     def sample(self, n, x_o, *, seed):
        ...         return model.reference_posterior(x_o).sample(n, np.random.default_rng(seed))
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(400, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(400, 1)))
        >>> sbc(Exact(), runs).verdict
        'trust'
    """
    replicates = as_replicates(posterior, simulations, pairs=pairs, draws=draws, seed=seed)
    ranks = compute_ranks(replicates.theta[:, None, :], replicates.draws, np.random.default_rng(seed))
    return calibrate("sbc", ranks, replicates.log_weights, replicates.names, level)


def compute_proposal_ranks(replicates: Replicates, rng: np.random.Generator) -> Array | None:
    """Compute ranks (n, p) that need no weights: of theta among draws of the posterior *under the proposal*.

    Given x, a run has theta ~ q(theta | x) / w(theta) if q is right. So its rank among draws of q that count 1/w each,
    itself included, is exactly uniform for any number of draws, and every run counts as one. None where w is unknown.
    """
    if replicates.draw_log_weights is None:
        return None
    logs = -np.column_stack([replicates.log_weights, replicates.draw_log_weights])
    shares = np.exp(logs - logs.max(1, keepdims=True))
    own, others = shares[:, :1], shares[:, 1:, None]
    truth = replicates.theta[:, None, :]
    below, equal = (others * (replicates.draws < truth)).sum(1), (others * (replicates.draws == truth)).sum(1)
    return (below + rng.random(below.shape) * (equal + own)) / shares.sum(1, keepdims=True)


def compute_ranks(truth: Array, draws: Array, rng: np.random.Generator) -> Array:
    """Compute ranks (n, r) in (0, 1) of truth (n, 1, r) among draws (n, l, r), spread evenly over ties and steps."""
    below, equal = (draws < truth).sum(axis=1), (draws == truth).sum(axis=1)
    return (below + rng.random(below.shape) * (equal + 1)) / (draws.shape[1] + 1)
