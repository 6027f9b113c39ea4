"""Evidences and corrected posteriors against closed forms, over seeds.

    python benchmarks/answers.py [--seeds 8] [--n 2000]

Linear Gaussian model with 2 parameters and 3 statistics, tables drawn under a penalty. Evidence: mean error and spread
in nats, and z, the error over the stated standard error (rms; 1 is right). Corrected: distance of the mean from the
exact one in posterior sd, for NPE alone, corrected by NLE and corrected by the exact likelihood. Needs `neural`.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

import thrifty as th

SLOPE, NOISE = np.array([[1.0, 0.5], [-0.3, 2.0], [0.8, 0.1]]), np.array([0.5, 1.0, 0.7])
PRIOR = th.Normal([0.5, -1.0], [1.0, 0.6], names=["a", "b"])
X_O = np.array([1.2, -2.4, 0.6])
COVER = np.linalg.inv(SLOPE.T @ np.diag(NOISE**-2) @ SLOPE + np.diag(PRIOR.sd**-2))
MEAN = COVER @ (SLOPE.T @ (X_O / NOISE**2) + PRIOR.mean / PRIOR.sd**2)
SPREAD = SLOPE @ np.diag(PRIOR.sd**2) @ SLOPE.T + np.diag(NOISE**2)
TRUTH = float(stats.multivariate_normal(SLOPE @ PRIOR.mean, SPREAD).logpdf(X_O))


def make_table(n: int, rng: np.random.Generator, m: int = 1) -> th.Simulations:
    """Simulate n parameters drawn under a penalty, m runs each."""
    draws = th.CostAware(PRIOR, lambda t: np.exp(t[:, 0] - t[:, 1]), th.Power(0.5)).sample(n, rng)
    x = (draws.theta @ SLOPE.T)[:, None] + NOISE * rng.standard_normal((n, m, 3))
    return th.Simulations(theta=draws.theta, x=x if m > 1 else x[:, 0], log_weights=draws.log_weights, m=m)


def evaluate_exactly(theta: np.ndarray, x_o: np.ndarray) -> np.ndarray:
    """The exact log likelihood (n,)."""
    return stats.norm.logpdf(x_o, theta @ SLOPE.T, NOISE).sum(1)


def measure_evidence(n: int, seeds: range) -> None:
    """Print the error of each method's evidence."""
    unbiased = th.likelihoods.Gaussian(unbiased=True)
    methods = {
        "NLE": (lambda: th.NLE(PRIOR), n, 1),
        "NLE, 4 members": (lambda: th.Ensemble(th.NLE(PRIOR), members=4), n, 1),
        "NLE, 8 members on halves": (lambda: th.Ensemble(th.NLE(PRIOR), members=8, share=0.5), n, 1),
        "synthetic, pointwise": (lambda: th.SyntheticLikelihood(PRIOR, likelihood=unbiased, how="pointwise"), n, 40),
        "synthetic, surrogate": (lambda: th.SyntheticLikelihood(PRIOR), 400, 100),
        "ABC, 20 times the runs": (lambda: th.ABC(PRIOR), 20 * n, 1),
    }
    print(f"log evidence {TRUTH:.4f}")
    for label, (make, count, m) in methods.items():
        found = [
            make().fit(make_table(count, np.random.default_rng([s, 1]), m), seed=s).log_evidence(X_O) for s in seeds
        ]
        error = np.array([one.value - TRUTH for one in found])
        z = error / np.array([one.se for one in found])
        print(f"{label:<24} error {error.mean():+.4f} ± {error.std(ddof=1):.4f}  rms z {np.sqrt(np.mean(z**2)):.2f}")


def measure_correction(n: int, seeds: range) -> None:
    """Print how far means are from the exact one, in posterior sd."""
    rows: dict[str, list[float]] = {"NPE": [], "by NLE": [], "by the likelihood": []}
    for s in seeds:
        sims = make_table(n, np.random.default_rng([s, 2]))
        npe, nle = th.NPE(PRIOR).fit(sims, seed=s), th.NLE(PRIOR).fit(sims, seed=s)
        means = {
            "NPE": npe.sample(20_000, X_O, seed=s).mean(0),
            "by NLE": th.Corrected(npe, nle).correct(X_O, 20_000, s).weighted.mean,
            "by the likelihood": th.Corrected(npe, evaluate_exactly).correct(X_O, 20_000, s).weighted.mean,
        }
        for label, mean in means.items():
            rows[label].append(float(np.sqrt(np.mean(np.square((mean - MEAN) / np.sqrt(np.diag(COVER)))))))
    for label, values in rows.items():
        print(f"mean of {label:<18} off by {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} sd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--n", type=int, default=2_000)
    given = parser.parse_args()
    measure_evidence(given.n, range(given.seeds))
    measure_correction(given.n, range(given.seeds))
