"""Proposal sampling and cost prediction, as ratios within one run.

    python benchmarks/proposals.py

Against: loops that draw, price and accept one candidate at a time. The published code of the paper does so with torch
tensors; the same loop in numpy is shown beside it, and is quicker. For the Gaussian process the loop prices with
scikit-learn's own `predict`. CPU seconds, one thread.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import thrifty as th


def one_at_a_time(prior, cost, g_min: float, seconds: float, rng: np.random.Generator) -> tuple[float, float]:
    """Accepted draws and candidates per CPU second of the plain loop at k = 1."""
    accepted = candidates = 0
    start = time.process_time()
    while time.process_time() - start < seconds:
        theta = prior.sample(1, rng)
        if rng.uniform() < g_min / cost(theta)[0]:
            accepted += 1
        candidates += 1
    spent = time.process_time() - start
    return accepted / spent, candidates / spent


def one_at_a_time_in_torch(low: float, high: float, g_min: float, seconds: float) -> float:
    """Candidates per CPU second of the same loop with torch tensors, as the published code has it."""
    import torch

    torch.set_num_threads(1)
    prior = torch.distributions.Uniform(torch.tensor([low]), torch.tensor([high]))
    candidates = accepted = 0
    start = time.process_time()
    while time.process_time() - start < seconds:
        theta = prior.sample()
        if torch.rand(1) < g_min / theta:
            accepted += 1
        candidates += 1
    return candidates / (time.process_time() - start)


def in_blocks(q: th.CostAware, n: int) -> float:
    """Accepted draws per CPU second of thrifty's sampler, the best of five."""
    rates = []
    for seed in range(5):
        start = time.process_time()
        q.sample(n, seed)
        rates.append(n / (time.process_time() - start))
    return max(rates)


def fitted_process(rng: np.random.Generator):
    """A cost over 100x on three parameters, learned from 200 timings; and the same process in scikit-learn."""
    prior = th.Uniform([0.1] * 3, [1.0] * 3)
    theta = prior.sample(200, rng)
    seconds = np.exp(4 * theta[:, 0] - theta[:, 1] ** 2 + np.sin(3 * theta[:, 2])) * rng.lognormal(0, 0.15, 200)
    cost = th.fit_cost(theta, seconds, model=th.GaussianProcess())
    fit = cost.log_fit
    kernel = ConstantKernel(fit.variance) * RBF(fit.lengths) + WhiteKernel(fit.noise)
    theirs = GaussianProcessRegressor(kernel, optimizer=None).fit(fit.scaling(theta), np.log(seconds) - fit.level)
    return prior, cost, theirs


def main() -> int:
    rng = np.random.default_rng(0)
    failed = []

    def report(label: str, value: float, limit: float, *, at_least: bool) -> None:
        good = value >= limit if at_least else value <= limit
        failed.extend([] if good else [label])
        print(f"{label:<52} {value:10.3g}   {'>=' if at_least else '<='} {limit:g}   {'ok' if good else 'MISSED'}")

    prior = th.Uniform(1, 100)
    linear = th.CostAware(prior, lambda t: t[:, 0], th.Power(1))
    loops = [one_at_a_time(prior, linear.cost, linear.penalty.low, 1.5, rng) for _ in range(5)]
    loop_candidates = max(candidates for _, candidates in loops)  # the best of five here too
    loop = loop_candidates * linear.acceptance
    ours = in_blocks(linear, 2_000_000)
    tensors = max(one_at_a_time_in_torch(1.0, 100.0, linear.penalty.low, 1.5) for _ in range(3)) * linear.acceptance
    print(f"linear cost, range 100: loop in torch {tensors:,.0f}/s, in numpy {loop:,.0f}/s, thrifty {ours:,.0f}/s")
    print(f"  over the loop in numpy: {ours / loop:.0f} times")
    report("accepted per second, linear cost, over the torch loop", ours / tensors, 500, at_least=True)

    box, cost, theirs = fitted_process(rng)
    learned = th.CostAware(box, cost, th.Power(1))

    def library(theta):
        return np.exp(theirs.predict(cost.log_fit.scaling(theta)) + cost.log_fit.level)

    loop, _ = one_at_a_time(box, library, learned.penalty.low, 5.0, rng)
    quick, _ = one_at_a_time(box, cost, learned.penalty.low, 3.0, rng)
    ours = in_blocks(learned, 200_000)
    print(f"200-point process: loop {loop:,.1f}/s (with thrifty's predictor {quick:,.1f}/s), thrifty {ours:,.0f}/s")
    report("accepted per second, 200-point process, ratio", ours / loop, 100, at_least=True)

    big = box.sample(1_000_000, rng)
    cost.log_fit(big[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    cost(big)
    mine = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    for chunk in np.array_split(cost.log_fit.scaling(big), 100):
        theirs.predict(chunk)
    library_time = time.process_time() - start
    print(f"1e6 predictions: thrifty {mine:.2f} s (+{grown:.0f} MB), scikit-learn {library_time:.2f} s")
    report("1e6 predictions, time over scikit-learn's", mine / library_time, 0.3, at_least=False)
    report("peak memory of the process, MB", memory, 1000, at_least=False)
    if failed:
        print("missed:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
