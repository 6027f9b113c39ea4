"""Estimators to compare: thrifty's and sbi's, each a function (problem, runs, seed) -> fit with its CPU seconds.

A fit of a posterior offers log densities of pairs, divided by the share of its mass inside the prior where it leaks. A
fit of a likelihood offers log likelihoods; `posterior_density` normalises both kinds in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from problems import Array, Problem
from scipy.special import logsumexp

import thrifty as th

LEAK_DRAWS = 100  # of a network at each of hundreds of outputs, to find the share inside the prior
EVIDENCE_DRAWS = 1_000  # at each output, half from the prior, half from a posterior estimate


@dataclass(frozen=True)
class Fit:
    """What was learned.

    Attributes:
        seconds: CPU seconds of the training, one thread.
        epochs: Of the training.
        density: Log posterior density (n,) of pairs (theta, x), for posterior estimators.
        likelihood: (theta (k, p), x (d,)) -> log likelihood (k,) up to a function of x, for likelihood estimators.
    """

    seconds: float
    epochs: int
    density: Callable[[Array, Array], Array] | None = None
    likelihood: Callable[[Array, Array], Array] | None = None


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its CPU seconds."""
    begin = time.process_time()
    result = function()
    return result, time.process_time() - begin


def ours_npe(problem: Problem, runs: th.Simulations, seed: int, network: Any = None) -> Fit:
    """Fit thrifty's NPE with its default network, or another."""
    method = th.NPE(problem.prior) if network is None else th.NPE(problem.prior, network=network)
    posterior, seconds = timed(lambda: method.fit(runs, seed=seed))

    def density(theta: Array, x: Array) -> Array:
        inside = np.array([posterior.acceptance(one) for one in x])
        return posterior.log_density(theta, x) - np.log(inside)

    return Fit(seconds, len(posterior.curve.train), density=density)


def ours_nle(problem: Problem, runs: th.Simulations, seed: int) -> Fit:
    """Fit thrifty's NLE with its defaults."""
    posterior, seconds = timed(lambda: th.NLE(problem.prior).fit(runs, seed=seed))
    return Fit(seconds, len(posterior.curve.train), likelihood=posterior.log_likelihood)


def sbi_npe(problem: Problem, runs: th.Simulations, seed: int, network: str) -> Fit:
    """Fit sbi's NPE with its defaults."""
    import torch
    from sbi.inference import NPE

    torch.manual_seed(seed)
    trainer = NPE(prior=None, density_estimator=network, show_progress_bars=False)
    trainer.append_simulations(_tensor(runs.theta), _tensor(runs.x), exclude_invalid_x=False)
    estimator, seconds = timed(trainer.train)

    def density(theta: Array, x: Array) -> Array:
        with torch.no_grad():
            value = estimator.log_prob(_tensor(theta)[None], _tensor(x))[0].double().numpy()
            if not np.isfinite(np.concatenate(problem.prior.bounds)).any():
                return value
            drawn = estimator.sample((LEAK_DRAWS,), _tensor(x)).double().numpy()
        inside = np.isfinite(problem.prior.log_prob(drawn.reshape(-1, theta.shape[1]))).reshape(LEAK_DRAWS, len(x))
        return value - np.log(np.maximum(inside.mean(0), 1 / LEAK_DRAWS))

    return Fit(seconds, int(trainer.summary["epochs_trained"][-1]), density=density)


def sbi_nle(problem: Problem, runs: th.Simulations, seed: int, network: str) -> Fit:
    """Fit sbi's NLE with its defaults."""
    import torch
    from sbi.inference import NLE

    torch.manual_seed(seed)
    trainer = NLE(prior=None, density_estimator=network, show_progress_bars=False)
    trainer.append_simulations(_tensor(runs.theta), _tensor(runs.x), exclude_invalid_x=False)
    estimator, seconds = timed(trainer.train)

    def likelihood(theta: Array, x: Array) -> Array:
        with torch.no_grad():
            rows = _tensor(np.broadcast_to(x, (len(theta), len(x))).copy())
            return estimator.log_prob(rows[None], condition=_tensor(theta))[0].double().numpy()

    return Fit(seconds, int(trainer.summary["epochs_trained"][-1]), likelihood=likelihood)


def _tensor(values: Array) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.float32)


def posterior_density(fit: Fit, problem: Problem, guide: Any, test: th.Simulations, rng: np.random.Generator) -> Array:
    """Return the log posterior density (n,) of a learned likelihood at the test pairs.

    The evidence is found by importance sampling from the prior and from `guide`, a posterior estimate, half and half:
    the same draws for every estimator.
    """
    assert fit.likelihood is not None
    out, half = np.empty(len(test)), EVIDENCE_DRAWS // 2
    for i, (theta, x) in enumerate(zip(test.theta, test.x, strict=True)):
        draws = np.vstack([problem.prior.sample(half, rng), guide.sample(half, x, seed=i)])
        log_prior = problem.prior.log_prob(draws)
        proposal = np.logaddexp(log_prior, guide.log_prob(draws, x)) - np.log(2)
        value = np.nan_to_num(fit.likelihood(np.vstack([draws, theta[None]]), x), nan=-np.inf, neginf=-np.inf)
        evidence = logsumexp(log_prior + value[:-1] - proposal) - np.log(len(draws))
        out[i] = problem.prior.log_prob(theta[None])[0] + value[-1] - evidence
    return out
