"""Bernoulli SIR: an outbreak on a random graph, event by event (the paper's algorithm 4).

Each pair of N individuals is joined with probability theta_3. An infective infects each susceptible neighbour at rate
theta_1 and is removed at rate theta_2. So with L the number of infective-susceptible edges and i the number of
infectives, the next event comes after Exp(theta_1 L + theta_2 i); it is an infection with probability
theta_1 L / (theta_1 L + theta_2 i), of susceptible j in proportion to its infective neighbours (its pressure).

Pressures and L are kept up to date: an infection or a removal visits the susceptible neighbours of that individual and
nothing else. The susceptible is found by rejection: j uniform, accepted with probability pressure/i.

Against the published code: the graph is symmetric without self-loops, only susceptibles count in the rate, N = 1000.

Operations: random words for the graph (64 pairs each; about 7 per word), pressure updates and events, which is what
the loop spends its time on. In a full outbreak each edge carries one update, so cost grows with theta_3; theta_1
and theta_2 decide how often an outbreak dies out at once (then the graph is all there is to pay) and how
many removals still have susceptible neighbours to visit.

The graph is kept as rows of 64-bit words: bit j of row i says whether i and j are neighbours. Each pair is joined with
probability p, exactly (to the last binary digit of p), 64 pairs at a time: one random word holds one more binary digit
of 64 uniform numbers, which are compared with p digit by digit until each of the 64 comparisons is decided, after
about 7 words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError, PriorError
from thrifty.models.compiled import kernel, trailing_zeros
from thrifty.models.stream import Words, draw_start, next_exponential, next_uniform, next_word, seed_state
from thrifty.models.temporal_sir import OutbreakModel, outbreak_statistics
from thrifty.priors import Uniform
from thrifty.types import Array, Prior

_FULL = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BernoulliSIR(OutbreakModel):
    """Infection rate beta, removal rate gamma, edge probability edge, all U(0.1, 1); N = 1000, 10 bins.

    Statistics: final size (the first case counted), time of the last removal, removals in each tenth of it.

    Example:
        >>> out = th.models.BernoulliSIR().run([0.5, 0.5, 0.5], np.random.default_rng(1))
        >>> out.x[:1].tolist(), bool(out.x[2:].sum() == out.x[0])
        ([1000.0], True)
    """

    NAMES: ClassVar[tuple[str, ...]] = ("beta", "gamma", "edge")
    prior: Prior = field(default_factory=lambda: Uniform([0.1] * 3, [1.0] * 3, names=BernoulliSIR.NAMES))  # type: ignore[arg-type]
    theta_true: Array = (0.5, 0.5, 0.5)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population > 20_000:
            raise ConfigError(
                f"population {self.population}: the graph alone would take {self.population**2 / 8e6:.0f} MB",
                code="bad-setting",
                fix="stay at or below 20,000",
            )
        if self.prior.bounds[1][2] > 1:
            raise PriorError(
                f"prior {self.names[2]!r} reaches {self.prior.bounds[1][2]:g}, but it is a probability",
                code="wrong-prior",
            )

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        graph, drawn, start = bernoulli_graph(self.population, float(theta[2]), draw_start(rng))
        times, removals, updates = _outbreak(graph, self.population, theta[0], theta[1], start)
        return outbreak_statistics(times, removals, self.bins), drawn + updates + 2.0 * removals - 1.0


@kernel
def _outbreak(graph: Words, population: int, beta: float, gamma: float, start: Words) -> tuple[Array, int, int]:
    g = seed_state(start)
    one = np.uint64(1)
    times, pressure = np.empty(population), np.zeros(population, dtype=np.int32)
    everyone = np.arange(population)  # susceptibles first, then infectives, then the removed
    susceptible = np.zeros(graph.shape[1], dtype=np.uint64)
    for j in range(population):
        susceptible[j // 64] |= one << np.uint64(j % 64)
    s, infectives, removals, links, updates, t = population, 0, 0, 0, 0, 0.0
    chosen, sign = 0, 1  # the first case
    while True:
        person = everyone[chosen]
        if sign > 0:  # infected: the last place of the susceptibles becomes the first of the infectives
            s -= 1
            everyone[chosen], everyone[s] = everyone[s], person
            susceptible[person // 64] &= ~(one << np.uint64(person % 64))
            links -= pressure[person]
            infectives += 1
        else:  # removed: the last place of the infectives becomes the first of the removed
            infectives -= 1
            everyone[chosen], everyone[s + infectives] = everyone[s + infectives], person
            times[removals] = t
            removals += 1
        visits = 0
        for w in range(graph.shape[1]):
            neighbours = graph[person, w] & susceptible[w]
            while neighbours != 0:
                pressure[np.uint64(64 * w) + trailing_zeros(neighbours)] += sign
                neighbours &= neighbours - one  # its lowest bit is done
                visits += 1
        links += sign * visits
        updates += visits
        if infectives == 0:
            return times, removals, updates
        infection, removal = beta * links, gamma * infectives
        wait, g = next_exponential(g)
        t += wait / (infection + removal)
        u, g = next_uniform(g)
        if u * (infection + removal) < infection:
            sign = 1
            while True:  # about 1/theta_3 tries
                u, g = next_uniform(g)
                chosen = int(s * u)
                if (s * u - chosen) * infectives < pressure[everyone[chosen]]:
                    break
        else:
            u, g = next_uniform(g)
            sign, chosen = -1, s + int(infectives * u)


def bernoulli_graph(population: int, p: float, start: Words) -> tuple[Words, int, Words]:
    """Draw a symmetric graph without self-loops; each pair is joined with probability p.

    Returns:
        Adjacency words (64 w, w) with w = ceil(population/64), rows and bits past the population empty; the
        number of random words that it took; and where to start the next stream.

    Example:
        >>> words, drawn, _ = bernoulli_graph(100, 0.3, np.arange(1, 4, dtype=np.uint64))
        >>> matrix = as_matrix(words, 100)
        >>> bool((matrix == matrix.T).all()), int(matrix.trace()), words.shape
        (True, 0, (128, 2))
    """
    words, drawn, start = _flip_coins(-(-population // 64), _binary_digits(p), p >= 1, start)
    _make_symmetric(words, population)
    return words, drawn, start


def as_matrix(words: Words, population: int) -> npt.NDArray[np.bool_]:
    """Turn the adjacency words into a boolean matrix (population, population)."""
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:population, :population].astype(bool)


def _binary_digits(p: float) -> Words:
    """Return the digits of p behind the binary point (0.111… for 1), each as a full or an empty word.

    Doubling a double is exact, so these are all digits of p. Short ones are padded: a graph with p = 1/2 costs no less
    than its neighbours.
    """
    digits = [_FULL] * 64 if p >= 1 else []
    while 0 < p < 1:
        p *= 2
        digits.append(_FULL if p >= 1 else 0)
        p -= p >= 1
    return np.array(digits + [0] * (64 - len(digits)), dtype=np.uint64)


@kernel
def _flip_coins(width: int, digits: Words, certain: bool, start: Words) -> tuple[Words, int, Words]:
    """Draw the words on and right of the diagonal, bit by bit 1 with probability p."""
    words, drawn = np.zeros((64 * width, width), dtype=np.uint64), 0
    g = seed_state(start)
    for row in range(64 * width):
        for column in range(row // 64, width):
            below, open_ = np.uint64(0), np.uint64(_FULL)
            k = 0
            while k < 5 or (open_ != 0 and k < len(digits)):  # five are nearly always needed: the compiler unrolls them
                bits, g = next_word(g)
                below |= open_ & digits[k] & ~bits  # p's digit is 1, the uniform's 0: it lies below p
                open_ &= ~(bits ^ digits[k])  # equal digits: undecided
                k += 1
            drawn += k
            words[row, column] = below | open_ if certain else below  # a uniform equal to p < 1 is not below it
    following = np.empty(3, dtype=np.uint64)
    for i in range(3):
        following[i], g = next_word(g)
    return words, drawn, following


@kernel
def _make_symmetric(words: Words, population: int) -> None:
    """Keep the pairs i < j < population, and write each a second time as (j, i)."""
    one = np.uint64(1)
    width = words.shape[1]
    tail = np.uint64(population % 64)
    for row in range(64 * width):
        words[row, row // 64] &= ~((one << np.uint64(row % 64)) | ((one << np.uint64(row % 64)) - one))  # j > i
        if tail > 0:
            words[row, width - 1] &= (one << tail) - one
        if row >= population:
            words[row, :] = 0
    tile = np.empty(64, dtype=np.uint64)
    for top in range(width):
        for left in range(top, width):
            for r in range(64):
                tile[r] = words[64 * top + r, left]
            step, mask = 32, np.uint64(_FULL) >> np.uint64(32)
            while step > 0:  # swap off-diagonal squares of 32, 16, … 1 bits: the transpose of 64 × 64
                shift = np.uint64(step)
                for base in range(0, 64, 2 * step):
                    for a in range(base, base + step):
                        swap = ((tile[a] >> shift) ^ tile[a + step]) & mask
                        tile[a] ^= swap << shift
                        tile[a + step] ^= swap
                step //= 2
                mask ^= mask << np.uint64(step)
            for r in range(64):
                words[64 * left + r, top] |= tile[r]
