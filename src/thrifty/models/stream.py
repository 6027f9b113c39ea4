"""The random stream of a compiled run: numpy's SFC64 generator, stepped inside the kernel.

A kernel starts its stream from three words of the run's own numpy Generator (`draw_start`), so a run is a function of
that Generator and of nothing else; calling back into the Generator for each number would cost three times the event.
Word for word the stream is that of `numpy.random.SFC64`, and `next_uniform` and `next_exponential` are numpy's `random`
and `standard_exponential` on it (the ziggurat of Marsaglia and Tsang 2000); the tests compare them.

The state is a tuple, so that the compiler keeps it in registers: `u, g = next_uniform(g)`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.models.compiled import kernel

Words = npt.NDArray[np.uint64]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

_RIGHT = 7.69711747013104972  # where the tail of the 256 layers begins


def draw_start(rng: np.random.Generator) -> Words:
    """Three words of the run's generator, which moves on by them."""
    return rng.bit_generator.random_raw(3)


def _build_layers() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Width per step, last step accepted at once, and height of each of 256 layers of equal area under exp(−x)."""
    area, steps = (_RIGHT + 1) * np.exp(-_RIGHT), 2.0**53
    ends = np.empty(256)  # right end of each layer; layer 0 is the base with the tail
    ends[255] = _RIGHT
    for i in range(254, 0, -1):
        ends[i] = -np.log(area / ends[i + 1] + np.exp(-ends[i + 1]))
    base = area / np.exp(-_RIGHT)
    inner = np.concatenate([[_RIGHT / base, 0.0], ends[1:255] / ends[2:]])
    width = np.concatenate([[base], ends[1:]]) / steps
    return width, (inner * steps).astype(np.int64), np.concatenate([[1.0], np.exp(-ends[1:])])


_WIDTH, _INNER, _HEIGHT = _build_layers()


@kernel
def seed_state(words: Words) -> State:
    """Make a state from three words, twelve steps on, as numpy starts it."""
    g = (words[0], words[1], words[2], np.uint64(1))
    for _ in range(12):
        _, g = next_word(g)
    return g


@kernel
def next_word(g: State) -> tuple[np.uint64, State]:
    """64 random bits."""
    a, b, c, count = g
    out = a + b + count
    turned = (c << np.uint64(24)) | (c >> np.uint64(40))
    return out, (b ^ (b >> np.uint64(11)), c + (c << np.uint64(3)), turned + out, count + np.uint64(1))


@kernel
def next_uniform(g: State) -> tuple[float, State]:
    """Draw a number in [0, 1), a multiple of 2^−53."""
    bits, g = next_word(g)
    return np.int64(bits >> np.uint64(11)) * 2.0**-53, g  # signed: one instruction makes it a double


@kernel
def next_exponential(g: State) -> tuple[float, State]:
    """Draw a standard exponential number."""
    while True:
        bits, g = next_word(g)
        layer = (bits >> np.uint64(3)) & np.uint64(255)
        step = np.int64(bits >> np.uint64(11))
        x = step * _WIDTH[layer]
        if step < _INNER[layer]:  # 98.9 %
            return x, g
        u, g = next_uniform(g)
        if layer == 0:
            return _RIGHT - np.log1p(-u), g
        if (_HEIGHT[layer - np.uint64(1)] - _HEIGHT[layer]) * u + _HEIGHT[layer] < np.exp(-x):
            return x, g


@kernel
def next_small_gamma(shape: float, g: State) -> tuple[float, int, State]:
    """Draw a Gamma(shape, 1) number for 0 < shape < 1, and count its tries (Ahrens and Dieter 1974).

    Rejection from x^(shape−1) on [0, 1] and exp(−x) beyond; on average (1 + shape/e) / Γ(1 + shape) tries of two
    uniforms.
    """
    edge, tries = 1.0 + shape / np.e, 0
    while True:
        tries += 1
        u, g = next_uniform(g)
        coin, g = next_uniform(g)
        place = edge * u
        if place <= 1.0:
            value = place ** (1.0 / shape)
            accepted = coin <= np.exp(-value)
        else:
            value = -np.log((edge - place) / shape)
            accepted = coin <= value ** (shape - 1.0)
        if accepted:
            return value, tries, g
