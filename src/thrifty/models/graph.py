"""Random graphs as rows of 64-bit words: bit j of row i says whether i and j are neighbours.

Each pair is joined with probability p, exactly (to the last binary digit of p), 64 pairs at a time: one random
word holds one more binary digit of 64 uniform numbers, which are compared with p digit by digit until each of
the 64 comparisons is decided, after about 7 words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.models.compiled import kernel
from thrifty.types import Array

Words = npt.NDArray[np.uint64]

_BLOCK = 8192  # random words drawn at a time: 64 kB stay in the cache
_MOST = 1100  # no double has more binary digits behind the point


def bernoulli_graph(population: int, p: float, rng: np.random.Generator) -> tuple[Words, int]:
    """A symmetric graph without self-loops; each pair is joined with probability p.

    Returns:
        Adjacency words (64 w, w) with w = ceil(population/64), rows and bits past the population empty; and the
        number of random words that it took.

    Example:
        >>> words, draws = bernoulli_graph(100, 0.3, np.random.default_rng(0))
        >>> matrix = as_matrix(words, 100)
        >>> bool((matrix == matrix.T).all()), int(matrix.trace()), words.shape
        (True, 0, (128, 2))
    """
    width = -(-population // 64)
    words = np.zeros((64 * width, width), dtype=np.uint64)
    digits = _binary_digits(p)
    cell, drawn = 0, 0
    while cell < 64 * width * width:
        block = rng.integers(0, 2**64, size=_BLOCK + len(digits), dtype=np.uint64)
        cell, used = _flip_coins(words, cell, digits, p >= 1, block)
        drawn += used
    _make_symmetric(words, population)
    return words, drawn


def as_matrix(words: Words, population: int) -> npt.NDArray[np.bool_]:
    """The adjacency words as a boolean matrix (population, population)."""
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:population, :population].astype(bool)


def _binary_digits(p: float) -> npt.NDArray[np.bool_]:
    """The digits of p < 1 behind the binary point; doubling a double is exact."""
    digits = []
    while 0 < p < 1 and len(digits) < _MOST:
        p *= 2
        digits.append(p >= 1)
        p -= p >= 1
    return np.array(digits, dtype=np.bool_)


@kernel
def _flip_coins(words: Words, cell: int, digits: Array, certain: bool, block: Words) -> tuple[int, int]:
    """Fill the words on and right of the diagonal from `cell` on, until the block could run out."""
    width, used = words.shape[1], 0
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    while cell < words.size and used + len(digits) <= len(block):
        row, column = cell // width, cell % width
        cell += 1
        if column < row // 64:  # left of the diagonal: the mirror image will come here
            continue
        below, open_ = np.uint64(0), full
        for digit in digits:
            drawn = block[used]
            used += 1
            if digit:  # p's digit is 1: a 0 puts the uniform below p
                below |= open_ & ~drawn
                open_ &= drawn
            else:  # p's digit is 0: a 1 puts it above
                open_ &= ~drawn
            if open_ == 0:
                break
        words[row, column] = full if certain else below  # still open: equal to p so far, so not below it
    return cell, used


@kernel
def _make_symmetric(words: Words, population: int) -> None:
    """Keep the pairs i < j < population, and write each a second time as (j, i)."""
    one, full = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
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
            step, mask = 32, full >> np.uint64(32)
            while step > 0:  # swap off-diagonal squares of 32, 16, … 1 bits: the transpose of 64 × 64
                shift = np.uint64(step)
                for a in range(64):
                    if a & step == 0:
                        swap = ((tile[a] >> shift) ^ tile[a + step]) & mask
                        tile[a] ^= swap << shift
                        tile[a + step] ^= swap
                step //= 2
                mask ^= mask << np.uint64(step)
            for r in range(64):
                words[64 * left + r, top] |= tile[r]
