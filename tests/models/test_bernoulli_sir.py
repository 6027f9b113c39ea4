"""Bernoulli SIR: the graph, the complete graph's exact law, the slow oracle, and graphs that are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.models.bernoulli_sir import _binary_digits, _outbreak, as_matrix, bernoulli_graph
from thrifty.models.stream import draw_start
from thrifty.models.temporal_sir import outbreak_statistics

from .conftest import exact_outbreak, frequencies_p, runs_of, smallest_p

SLOW_RATES = th.Uniform([0.001, 0.1, 0.1], [0.1, 1.0, 1.0], names=["beta", "gamma", "edge"])
PUBLISHED = ("asymmetric", "self-loops")


def _matrix(population: int, p: float, rng: np.random.Generator) -> np.ndarray:
    return as_matrix(bernoulli_graph(population, p, draw_start(rng))[0], population)


def _is_simple_graph(matrix: np.ndarray) -> bool:
    return bool((matrix == matrix.T).all() and not matrix.diagonal().any())


@pytest.mark.parametrize("population", [2, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.7310585786300049])
def test_graph_is_simple_and_has_its_edges(population, p, rng):
    words, drawn, _ = bernoulli_graph(population, p, draw_start(rng))
    matrix = as_matrix(words, population)
    assert _is_simple_graph(matrix)
    assert int(np.bitwise_count(words).sum()) == int(matrix.sum())  # nothing past the population
    pairs = population * (population - 1) / 2
    assert abs(matrix.sum() / 2 - pairs * p) <= 5 * np.sqrt(pairs * p * (1 - p))
    assert drawn > 0


@pytest.mark.parametrize("fault", PUBLISHED)
def test_the_published_graphs_would_fail(fault, rng):
    coins = rng.random((200, 200)) < 0.3
    upper = np.triu(coins, 1)
    wrong = coins * ~np.eye(200, dtype=bool) if fault == "asymmetric" else (upper | upper.T | np.eye(200, dtype=bool))
    assert not _is_simple_graph(wrong)


def test_pairs_are_independent_and_each_has_probability_p(rng):
    p, n, graphs = 0.3, 70, 1500
    stack = np.array([_matrix(n, p, rng) for _ in range(graphs)])
    upper = np.triu_indices(n, 1)
    rate = stack[:, upper[0], upper[1]].mean(0)  # each pair over the graphs
    z = (rate - p) / np.sqrt(p * (1 - p) / graphs)
    assert np.abs(z).max() < stats.norm.isf(1e-5 / len(z))
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / len(z))
    degree = stack.sum(2)
    assert abs(degree.var() / ((n - 1) * p * (1 - p)) - 1) < 5 * np.sqrt(2 / graphs)
    three = np.einsum("gij,gjk,gki->g", *[stack[:300].astype(float)] * 3) / 6  # triangles
    expected = n * (n - 1) * (n - 2) / 6 * p**3
    assert abs(three.mean() - expected) < 5 * three.std() / np.sqrt(300)


def test_no_and_all_edges(rng):
    assert not _matrix(130, 0.0, rng).any()
    assert _matrix(130, 1.0, rng).sum() == 130 * 129


def test_binary_digits_are_all_of_p():
    for p in (0.1, 0.5, 1 / 3, 2.0**-60, 0.9999999999999999):
        digits = _binary_digits(p)
        assert sum(2.0 ** -(i + 1) for i, d in enumerate(digits) if d) == p
        assert set(digits.tolist()) <= {0, 2**64 - 1} and len(digits) >= 64


@pytest.mark.parametrize("beta", [0.03, 0.06])
def test_complete_graph_is_the_temporal_sir(beta, seed):
    """With edge = 1 and N individuals it is the temporal SIR with infection rate beta N."""
    n, gamma = 40, 0.6
    model = th.models.BernoulliSIR(population=n, prior=SLOW_RATES, theta_true=(0.05, 0.5, 0.5))
    x = model.simulate_many(np.tile([beta, gamma, 1.0], (8000, 1)), seed).x
    exact = exact_outbreak(n, beta * n, gamma)
    assert frequencies_p(x[:, 0], exact.size_probability) > 1e-4
    assert abs(x[:, 1].mean() - exact.mean_duration) < 5 * x[:, 1].std() / np.sqrt(len(x))
    assert frequencies_p(x[:, 0], exact_outbreak(n, 1.3 * beta * n, gamma).size_probability) < 1e-6


def _on_graph(n: int, theta, runs: int, rng: np.random.Generator, spoil) -> np.ndarray:
    """The kernel on graphs that `spoil` has changed."""
    out = []
    for _ in range(runs):
        words, _, start = bernoulli_graph(n, theta[2], draw_start(rng))
        times, removals, _ = _outbreak(spoil(words), n, theta[0], theta[1], start)
        out.append(outbreak_statistics(times, removals, 10))
    return np.array(out)


def _one_way(words: np.ndarray) -> np.ndarray:
    """Only edges i -> j > i: an asymmetric graph."""
    keep = np.packbits(np.triu(np.ones((len(words), len(words)), np.uint8), 1), axis=1, bitorder="little")
    return words & np.ascontiguousarray(keep).view("<u8")


def test_same_law_as_the_plain_loop_and_not_with_one_way_edges(oracles, rng, seed):
    """One-way edges change the law; coins thrown for i -> j and j -> i apart do not (see docs/models.md)."""
    n, theta = 120, (0.02, 0.5, 0.4)
    model = th.models.BernoulliSIR(population=n, prior=SLOW_RATES, theta_true=theta)
    fast = model.simulate_many(np.tile(theta, (4000, 1)), seed).x
    slow = runs_of(lambda t, r: oracles.bernoulli_sir(t, r, population=n), theta, 500, rng)
    printed = runs_of(lambda t, r: oracles.bernoulli_sir_double_sum(t, r, population=n), theta, 150, rng)
    assert smallest_p(fast, slow) > 1e-3 and smallest_p(fast, printed) > 1e-3
    assert smallest_p(_on_graph(n, theta, 500, rng, lambda words: words), slow) > 1e-3
    assert smallest_p(_on_graph(n, theta, 500, rng, _one_way), slow) < 1e-6
    one_way = runs_of(lambda t, r: oracles.bernoulli_sir(t, r, population=n, one_way=True), theta, 500, rng)
    assert smallest_p(fast, one_way) < 1e-6


def test_extinction_at_full_size(seed):
    """The first case has D ~ Bin(N−1, p) neighbours and dies out alone with probability gamma/(gamma + beta D)."""
    model, theta = th.models.BernoulliSIR(), (0.1, 1.0, 0.1)
    x = model.simulate_many(np.tile(theta, (1200, 1)), seed, workers=2).x
    d = np.arange(1000)
    alone = (stats.binom(999, theta[2]).pmf(d) * theta[1] / (theta[1] + theta[0] * d)).sum()
    assert abs((x[:, 0] == 1).mean() - alone) < 5 * np.sqrt(alone * (1 - alone) / 1200)
    assert x[x[:, 0] > 100, 0].min() > 980  # R0 = 10: nearly everyone


def test_operations_count_words_updates_and_events(rng):
    """The updates of a run, recounted from the order of infections on the same graph with plain sets."""
    n, theta = 90, (0.05, 0.5, 0.3)
    words, _, start = bernoulli_graph(n, theta[2], draw_start(rng))
    _, removals, updates = _outbreak(words, n, theta[0], theta[1], start)
    edges = as_matrix(words, n).sum() / 2
    assert removals > 50 and edges - (n - removals) * n <= updates <= 2 * edges
    model = th.models.BernoulliSIR(population=n, prior=SLOW_RATES, theta_true=theta)
    run_rng = np.random.default_rng(5)
    out = model.run(theta, np.random.default_rng(5))
    words, drawn, start = bernoulli_graph(n, theta[2], draw_start(run_rng))
    _, removals, updates = _outbreak(words, n, theta[0], theta[1], start)
    assert out.cost == drawn + updates + 2 * removals - 1


def test_half_is_no_special_probability(rng):
    drawn = [bernoulli_graph(1000, p, draw_start(rng))[1] for p in (0.4999, 0.5, 0.75, 1.0)]
    assert max(drawn) / min(drawn) < 1.05


def test_cost_grows_with_the_edges(seed):
    model = th.models.BernoulliSIR()
    low, high = (model.simulate_many(np.tile([0.5, 0.5, edge], (20, 1)), seed).cost.mean() for edge in (0.11, 0.97))
    assert 3 < high / low < 8


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"population": 1}, "bad-setting"),
        ({"population": 30_000}, "bad-setting"),
        ({"bins": 0}, "bad-setting"),
        ({"prior": th.Uniform([0.1] * 3, [2.0] * 3)}, "wrong-prior"),
    ],
)
def test_bad_settings(settings, code):
    with pytest.raises(th.ThriftyError) as caught:
        th.models.BernoulliSIR(**settings)
    assert caught.value.code == code
