"""What posteriors of several methods share: draws with their quality, and the highest point of a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array

# Each round narrows the search to about a third of its width: float32 networks resolve no more than 40 rounds reach.
SEARCH_ROUNDS = 40
SEARCH_DRAWS = 400  # points tried in each round
SEARCH_ELITE = 40  # the best of them, whose spread the next round uses


@dataclass(frozen=True)
class Sampled:
    """Posterior draws and how they were made.

    Attributes:
        samples: Draws (n, p).
        acceptance: Share of network draws inside the prior's support, or of accepted moves.
        local_ess: Effective share of network draws under the weights (`correction="after"`), else 1.
        ess: Effective draws (p,) of a Markov chain; n for independent draws.
        rhat: Convergence ratio (p,) of a Markov chain; 1 for independent draws.
    """

    samples: Array
    acceptance: float
    local_ess: float
    ess: Array
    rhat: Array

    @classmethod
    def independent(cls, samples: Array, acceptance: float = 1.0) -> Sampled:
        """Describe independent draws (n, p), each of which counts."""
        n, p = samples.shape
        return cls(samples, acceptance, 1.0, np.full(p, float(n)), np.ones(p))


def maximise(
    log_density: Callable[[Array], Array], start: Array, box: BoxTransform, *, rng: np.random.Generator
) -> Array:
    """Find the maximum (p,) of a vectorised log density inside the box, without gradients.

    Each round draws points around the best one so far and narrows to the best of them. `start` (k, p) holds the
    first points, such as posterior draws.

    Example:
        >>> box = BoxTransform(np.zeros(2), np.ones(2))
        >>> start, rng = np.full((50, 2), 0.5), np.random.default_rng(0)
        >>> peak = maximise(lambda t: -((t - 0.3) ** 2).sum(1), start, box, rng=rng)
        >>> peak.round(2).tolist()
        [0.3, 0.3]
    """
    z = box.to_unconstrained(start)
    value = log_density(box.to_bounded(z))
    p = z.shape[1]
    spread = np.atleast_2d(np.cov(z.T)) + 0.01 * np.eye(p)
    best, highest = z[int(np.argmax(value))], float(value.max())
    for _ in range(SEARCH_ROUNDS):
        root = np.linalg.cholesky(spread + 1e-14 * np.eye(p))
        z = best + rng.standard_normal((SEARCH_DRAWS, p)) @ root.T
        value = log_density(box.to_bounded(z))
        elite = z[np.argsort(-value)[:SEARCH_ELITE]] - best  # about the old centre: grows on a slope, shrinks at a top
        spread = elite.T @ elite / len(elite)
        if value.max() > highest:
            best, highest = z[int(np.argmax(value))], float(value.max())
    return box.to_bounded(best[None])[0]
