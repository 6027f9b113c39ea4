"""Neural ratio estimation: learn which of K parameters made x; the score is the log likelihood up to a function of x.

    minimise over f   - sum_i w_i log [ v_i e^{f(theta_i, x_i)} / sum_{j in S_i} v_j e^{f(theta_j, x_i)} ]

S_i holds theta_i and K - 1 other parameters of the batch (Durkan et al. 2020). Unweighted (w = v = 1, the default) the
optimum is f = log p(x|theta) + const(x) for any proposal. With `weighted=True`, w = v = prior/proposal: the v in the
scores keep log g(c(theta)) out of f, which weighting the loss alone would put in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.inference.neural.likelihood_fit import FailurePolicy, LikelihoodMethod
from thrifty.inference.neural.prepare import Rows
from thrifty.inference.neural.recipes import Classifier
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.training_settings import Training
from thrifty.types import Array, Prior

if TYPE_CHECKING:
    import torch

CHOICES_PER_PAIR = 10  # parameters to choose from: more would lower the loss's noise, at a network call each


@dataclass(frozen=True, repr=False)
class NRE(LikelihoodMethod):
    """Neural ratio estimation.

    Args:
        prior: The prior; anything `as_prior` reads.
        network: `th.Classifier()`, or sbi's `classifier_nn(...)`.
        embedding: As for `th.NPE`; each observation is embedded by itself.
        weighted: Use the importance weights; not needed.
        failures: "refuse" when more than 1 % of the prior mass failed, or "model" P(valid | theta) and multiply.
        training: Settings of the loop.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((400, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((400, 1)))
        >>> posterior = th.NRE(th.Normal(0.0, 1.0), training=th.Training(max_epochs=20)).fit(sims, seed=0)
        >>> posterior.sample(100, [1.0], seed=0).shape
        (100, 1)
    """

    method = "nre"
    prior: Prior
    network: Any = field(default_factory=Classifier)
    embedding: Any = None
    weighted: bool = False
    failures: FailurePolicy = "refuse"
    training: Training = field(default_factory=Training)

    def _build(self, network: Any, rows: Rows, frame: Frame, weights: Array) -> tuple[Any, tuple[torch.Tensor, ...]]:
        import torch

        from thrifty.inference.neural.modules.embeddings import build_embedding
        from thrifty.inference.neural.networks import build_ratio

        theta, x = torch.from_numpy(frame.encode_condition(rows.theta)), torch.from_numpy(frame.encode_x(rows.x))
        embedding, context = build_embedding(self.embedding, frame.inputs)
        net = build_ratio(network, theta, x, context=context, embedding=embedding)
        return net, (theta, x, torch.from_numpy(np.log(weights).astype(np.float32)))

    @staticmethod
    def _loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
        import torch

        from thrifty.inference.neural.training import choose_contrasts

        theta, x, log_weights = rows
        which = choose_contrasts(len(theta), CHOICES_PER_PAIR, g)
        b, k = which.shape
        context = net.embedding(x).repeat_interleave(k, 0)
        scores = net(theta[which].reshape(b * k, -1), context).view(b, k) + log_weights[which]
        return torch.logsumexp(scores, 1) - scores[:, 0]
