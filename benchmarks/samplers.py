"""CPU time per effective draw of emcee and NUTS on learned likelihoods of 2 to 20 parameters.

    python benchmarks/samplers.py [2 5 10 20] [--classifier]

The model is x = theta + noise with correlated noise, so that the posterior is known; both samplers draw 2,000 from the
same NLE posterior (with --classifier: NRE). "error" is the largest distance of a mean of the draws from the exact one,
in posterior standard deviations: what the network has wrong is in it, for both samplers alike.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import thrifty as th

RUNS, DRAWS = 4_000, 2_000


def noise_root(p: int) -> np.ndarray:
    """A triangular root of a covariance with correlations of 0.6 between neighbours and sds of 0.5."""
    distance = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    return np.linalg.cholesky(0.25 * 0.6**distance)


def compare(p: int, method: type) -> None:
    rng = np.random.default_rng(p)
    prior, root = th.Normal(np.zeros(p), np.ones(p)), noise_root(p)
    theta = prior.sample(RUNS, rng)
    x = theta + rng.standard_normal((RUNS, p)) @ root.T
    posterior = method(prior).fit(th.Simulations.from_arrays(theta=theta, x=x), seed=p)
    x_o = np.linspace(-1, 1.5, p)
    precision = np.linalg.inv(root @ root.T)
    spread = np.linalg.inv(precision + np.eye(p))
    exact = spread @ precision @ x_o
    for sampler in ("emcee", "nuts"):
        before = time.process_time()
        drawn = posterior.draw(DRAWS, x_o, seed=1, sampler="emcee" if sampler == "emcee" else "auto")
        took = time.process_time() - before
        error = np.abs((drawn.samples.mean(0) - exact) / np.sqrt(np.diag(spread))).max()
        effective = np.minimum(drawn.ess, DRAWS).min()
        print(
            f"p = {p:2d}  {drawn.sampler:5s}  {took:6.2f} CPU s, {drawn.steps:4d} steps, ESS {drawn.ess.min():6.0f} (of"
            f" the draws {effective:5.0f}), R-hat {drawn.rhat.max():.3f}, {1000 * took / effective:6.2f} ms a draw,"
            f" {1000 * took / drawn.ess.min():6.2f} ms a chain's effective draw, error {error:.2f} sd",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore")
    method = th.NRE if "--classifier" in sys.argv else th.NLE
    for p in [int(a) for a in sys.argv[1:] if a.isdigit()] or [2, 5, 10, 20]:
        compare(p, method)


if __name__ == "__main__":
    main()
