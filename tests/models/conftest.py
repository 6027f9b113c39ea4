"""Oracles, exact outbreak theory and the two-sample verdict that the model tests share."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter


@pytest.fixture(scope="session")
def oracles() -> ModuleType:
    """Load the slow event loops beside this file."""
    path = Path(__file__).parent / "oracles.py"
    spec = importlib.util.spec_from_file_location("oracles", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class ExactOutbreak:
    """The law of the general stochastic epidemic by its jump chain: no simulation.

    With s susceptibles the next event is an infection with probability p_s = beta s/(beta s + N gamma), whatever i.
    The expected visits v(s, i) follow from v(s, i) = p_{s+1} v(s+1, i−1) + (1 − p_s) v(s, i+1).
    """

    size_probability: np.ndarray  # P(final size = j + 1), j = 0 … N−1
    mean_duration: float
    mean_size: float


def exact_outbreak(population: int, beta: float, gamma: float) -> ExactOutbreak:
    n = population
    infect = beta * np.arange(n) / (beta * np.arange(n) + n * gamma)  # p_s
    size, duration = np.zeros(n), 0.0
    arrivals = np.zeros(n + 2)
    arrivals[1] = 1.0  # the first case, s = N − 1
    for s in range(n - 1, -1, -1):
        visits = np.zeros(n + 2)
        visits[1:] = lfilter([1.0], [1.0, -(1 - infect[s])], arrivals[:0:-1])[::-1]
        i = np.arange(1, n + 2)
        duration += (visits[1:] / (i * (beta * s / n + gamma))).sum()
        size[n - 1 - s] = visits[1] * (1 - infect[s])
        arrivals = np.zeros(n + 2)
        arrivals[2:] = infect[s] * visits[1:-1]
    return ExactOutbreak(size, float(duration), float((size * np.arange(1, n + 1)).sum()))


def smallest_p(a: np.ndarray, b: np.ndarray) -> float:
    """Smallest two-sample KS p-value over the columns, times their number (Bonferroni)."""
    values = [stats.ks_2samp(a[:, j], b[:, j]).pvalue for j in range(a.shape[1])]
    return float(min(values) * len(values))


def runs_of(simulate, theta, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, q) statistics of n runs of an oracle."""
    return np.array([simulate(np.asarray(theta), rng)[0] for _ in range(n)])


def frequencies_p(sizes: np.ndarray, probability: np.ndarray) -> float:
    """Chi-squared p-value of final sizes against their exact law, cells pooled until 10 are expected in each."""
    expected = len(sizes) * probability
    observed = np.bincount(sizes.astype(int) - 1, minlength=len(probability)).astype(float)
    edges, total = [0], 0.0
    for j, value in enumerate(expected):
        total += value
        if total >= 10:
            edges.append(j + 1)
            total = 0.0
    edges[-1] = len(expected)
    pooled = [(observed[a:b].sum(), expected[a:b].sum()) for a, b in pairwise(edges)]
    o, e = np.array(pooled).T
    return float(stats.chisquare(o, e * o.sum() / e.sum()).pvalue)
