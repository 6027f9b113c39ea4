"""The kernels' stream is numpy's SFC64, word for word."""

from __future__ import annotations

import numba
import numpy as np
from scipy import stats

from thrifty.models import stream


@numba.njit
def _take(start, n):
    state, uniforms, exponentials = np.empty(4, np.uint64), np.empty(n), np.empty(n)
    g = stream.seed_state(start)
    for i in range(4):
        state[i] = g[i]
    h = g
    for i in range(n):
        uniforms[i], g = stream.next_uniform(g)
        exponentials[i], h = stream.next_exponential(h)
    return state, uniforms, exponentials


@numba.njit
def _take_gamma(start, shape, n):
    g = stream.seed_state(start)
    values, tries = np.empty(n), 0
    for i in range(n):
        values[i], k, g = stream.next_small_gamma(shape, g)
        tries += k
    return values, tries


def _numpy_at(state: np.ndarray) -> np.random.Generator:
    bits = np.random.SFC64()
    settings = bits.state
    settings["state"]["state"] = state
    bits.state = settings
    return np.random.Generator(bits)


def test_uniforms_and_exponentials_are_numpys(rng):
    start = stream.draw_start(rng)
    state, uniforms, exponentials = _take(start, 300_000)
    assert np.array_equal(uniforms, _numpy_at(state).random(300_000))
    # the tables are computed here, numpy's are printed: equal to the last digits, all 256 layers and the tail used
    assert np.allclose(exponentials, _numpy_at(state).standard_exponential(300_000), rtol=1e-12, atol=0)
    assert exponentials.max() > stream._RIGHT


def test_start_is_numpys_seeding(rng):
    words = stream.draw_start(rng)
    a, b, c = (int(w) for w in words)
    mask = 2**64 - 1
    count = 1
    for _ in range(12):
        out = (a + b + count) & mask
        a, b, c = b ^ (b >> 11), (c + (c << 3)) & mask, (((c << 24) | (c >> 40)) + out) & mask
        count += 1
    assert _take(words, 1)[0].tolist() == [a, b, c, count]


def test_generator_moves_on_by_what_it_gave(rng):
    first, second = stream.draw_start(rng), stream.draw_start(rng)
    assert first.dtype == np.uint64 and len({*first.tolist(), *second.tolist()}) == 6


def test_small_gamma_has_its_law_and_its_tries(rng):
    for shape in (0.05, 0.5, 0.93):
        values, tries = _take_gamma(stream.draw_start(rng), shape, 20_000)
        assert stats.kstest(values, stats.gamma(shape).cdf).pvalue > 1e-4
        mean = (1 + shape / np.e) * stats.gamma.pdf(1, 1 + shape) * np.e
        error = np.sqrt(mean * (mean - 1) / 20_000)
        assert abs(tries / 20_000 - mean) < 5 * error
    assert stats.kstest(values, stats.gamma(0.85).cdf).pvalue < 1e-6  # the test can fail
