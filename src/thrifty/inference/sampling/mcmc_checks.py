"""How far draws of a Markov chain can be trusted: effective size, families, R-hat, memory.

R-hat compares groups of walkers and halves of the chain, as suits many short chains; autocorrelation is taken about
the mean of all walkers, so that stuck walkers lower the effective size instead of hiding. Walkers on separate peaks
keep the masses that the start gave them; the family of each walker, the first particle it descends from, shows how far
those masses can be trusted. Chains have shape (steps, walkers, p).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.types import Array

RHAT_GROUPS = 4  # groups of walkers compared by R-hat


def effective_size(chain: Array) -> Array:
    """Count the effective draws (p,) of a chain: steps × walkers / autocorrelation time.

    Example:
        >>> chain = np.random.default_rng(0).standard_normal((500, 20, 1))
        >>> bool(0.7 < effective_size(chain)[0] / 10_000 < 1.3)
        True
    """
    steps, walkers, p = chain.shape
    centred = chain - chain.mean((0, 1))
    size = 2 * steps
    transform = np.fft.rfft(centred, size, axis=0)
    correlation = np.fft.irfft(transform * transform.conj(), size, axis=0)[:steps].mean(1)
    correlation /= np.arange(steps, 0, -1)[:, None]
    out = np.empty(p)
    for i in range(p):
        if correlation[0, i] <= 0:
            out[i] = 1.0
            continue
        times = 2 * np.cumsum(correlation[:, i] / correlation[0, i]) - 1
        window = np.flatnonzero(np.arange(steps) >= 5 * times)  # Sokal 1997
        out[i] = steps * walkers / max(times[window[0]] if len(window) else max(times.max(), steps), 1.0)
    return out


def family_size(chain: Array, family: npt.NDArray[np.intp]) -> Array:
    """Count the effective draws (p,) of a chain whose walkers come in families (Lee and Whiteley 2018).

    The variance of the mean is that of the sums over families: walkers that have moved away from their start count
    each, those that stay where their first particle put them count together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> family, free = np.arange(1000) % 20, rng.standard_normal((1, 1000, 1))
        >>> bound = rng.standard_normal(20)[None, family, None]
        >>> bool(family_size(free, family)[0] > 400), bool(family_size(bound, family)[0] < 40)
        (True, True)
    """
    off = chain.mean(0) - chain.mean((0, 1))
    sums = np.zeros((int(family.max()) + 1, chain.shape[2]))
    np.add.at(sums, family, off)
    scatter = np.square(sums).sum(0) / len(family) ** 2
    variance = chain.var((0, 1))
    few = len(np.unique(family)) < 2  # one family says nothing about another
    return np.where((scatter > 0) & ~np.bool_(few), variance / np.where(scatter > 0, scatter, 1.0), np.inf)


def nested_rhat(chain: Array) -> Array:
    """Compute R-hat (p,) over groups of walkers and halves of the chain (Margossian et al. 2022)."""
    steps, walkers, p = chain.shape
    half = steps // 2
    parts = [
        part.reshape(-1, p)
        for piece in (chain[:half], chain[half : 2 * half])
        for part in np.array_split(piece, min(RHAT_GROUPS, walkers // 2), axis=1)
    ]
    within = np.mean([part.var(0, ddof=1) for part in parts], axis=0)
    between = np.var([part.mean(0) for part in parts], axis=0, ddof=1)
    return np.where(within > 0, np.sqrt(1 + between / np.where(within > 0, within, 1.0)), np.inf)


def correlate_places(before: Array, after: Array) -> float:
    """Return the largest correlation, over parameters, of the walkers' places (walkers, p) at two times.

    Example:
        >>> places = np.random.default_rng(0).standard_normal((1000, 2))
        >>> correlate_places(places, places) > 0.999, correlate_places(places, places[::-1]) < 0.2
        (True, True)
    """
    a, b = (places - places.mean(0) for places in (before, after))
    scale = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    return float(((a * b).sum(0) / np.where(scale > 0, scale, 1.0)).max())
