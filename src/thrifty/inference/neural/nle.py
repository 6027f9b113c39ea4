"""Neural likelihood estimation: learn q(x | theta), multiply by the prior, sample by emcee.

    minimise over q   - sum_i w_i log q(x_i | theta_i) / sum_i w_i

The likelihood does not depend on how theta was drawn, so that w = 1 is consistent for any proposal with full support,
and weights only add variance: unweighted is the default, `weighted=True` the paper's Ca-NLE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from thrifty.inference.checks import check_fit
from thrifty.inference.neural.potential_posterior import PotentialPosterior
from thrifty.inference.neural.prepare import condition_box, prepare
from thrifty.inference.neural.recipes import NSF
from thrifty.inference.neural.standardise import measure_frame
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import Training, held_out, never_trained, require_neural
from thrifty.inference.neural.validity import check_failures, fit_valid
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Prior


@dataclass(frozen=True)
class NLE:
    """Neural likelihood estimation.

    Args:
        prior: The prior; anything `as_prior` reads.
        network: `th.NSF()`, `th.MAF()`, `th.MixtureDensity()`, or an sbi density estimator.
        weighted: Use the importance weights in the loss (the paper's Ca-NLE); not needed.
        failures: "refuse" when more than 1 % of the prior mass failed, or "model" P(valid | theta) and multiply.
        training: Settings of the loop.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((400, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((400, 1)))
        >>> method = th.NLE(th.Normal(0.0, 1.0), network=th.MixtureDensity(2), training=th.Training(max_epochs=20))
        >>> method.fit(sims, seed=0).sample(100, [[1.0], [0.8]], seed=0).shape  # two independent observations
        (100, 1)
    """

    prior: Prior
    network: Any = field(default_factory=NSF)
    weighted: bool = False
    failures: Literal["refuse", "model"] = "refuse"
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        require_neural()
        object.__setattr__(self, "prior", as_prior(self.prior))
        check_failures(self.failures)

    def fit(self, simulations: Simulations, seed: int = 0) -> PotentialPosterior:
        """Train on the valid simulations.

        Raises:
            DataError, ConfigError: The table or the settings cannot be used.
            QualityGateError: too-many-failures, too many runs failed.
        """
        check_fit(simulations, seed)
        import torch

        from thrifty.inference.neural.networks import build_density
        from thrifty.inference.neural.torch_state import seeded
        from thrifty.inference.neural.training import Table, mean_one, train

        table = prepare(simulations, self.prior, weighted=self.weighted)
        frame = measure_frame(table.theta, table.x, table.log_weights, box=condition_box(self.prior), keep=table.keep)
        seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint64) >> np.uint64(1)]
        valid, notes = fit_valid(simulations, frame, method="NLE", policy=self.failures, seed=seeds[2])
        x, theta = torch.from_numpy(frame.x_in(table.x)), torch.from_numpy(frame.theta_in(table.theta))
        with seeded(seeds[0]):
            net = build_density(self.network, x, theta, context=self.prior.dim, likelihood=True)
        curve = train(
            net,
            lambda net, rows, g: -net.log_prob(rows[0], rows[1]),
            table=Table((x, theta), mean_one(table.log_weights), held_out(table.index, self.training.validation)),
            settings=self.training,
            seed=seeds[1],
        )
        kept = never_trained(table.theta, table.index, self.training.validation)
        notes = (*notes, *table.notes)
        trained = Trained("nle", net, self.network, None, frame, table.reach, curve, notes, kept)
        return PotentialPosterior(self.prior, trained, valid)
