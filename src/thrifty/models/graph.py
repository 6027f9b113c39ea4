"""Random graphs as rows of 64-bit words: bit j of row i says whether i and j are neighbours.

Each pair is joined with probability p, exactly (to the last binary digit of p), 64 pairs at a time: one random
word holds one more binary digit of 64 uniform numbers, which are compared with p digit by digit until each of
the 64 comparisons is decided, after about 7 words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.models.compiled import kernel
from thrifty.models.stream import Words, next_word, seed_state

_FULL = 0xFFFFFFFFFFFFFFFF


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
