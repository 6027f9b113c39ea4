"""Compute final-size probabilities of outbreaks exactly, by recursions over infectives and susceptibles.

Homogeneous and temporal SIR: with s susceptibles left of N, the next event of the chain is an infection with
probability r (s/N) / (r (s/N) + 1), r infections per infectious period, else a removal. The number of infectives
is a walk that stops at 0; the outbreak's size is N - s there.

SIR on a Bernoulli graph: an infective with infectious period I ~ Exp(gamma) infects each susceptible left with
probability q = edge (1 - exp(-beta I)), independently given I: each pair is looked at once, whatever the order in time.
So s after one more infective is s less a binomial number, mixed over I (Gauss-Legendre in exp(-gamma I), which is
uniform), and the outbreak ends when as many were looked at as were infected.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from thrifty.models.compiled import kernel
from thrifty.types import Array

NODES = 48  # of the integral over the infectious period: doubling them moves no probability by 1e-8


@kernel
def size_probabilities(ratio: float, population: int) -> Array:
    """Probabilities (population + 1,) of each final size, the first case counted, at `ratio` infections a period."""
    out = np.zeros(population + 1)
    now = np.zeros(population + 2)  # of i infectives, at s susceptibles
    now[1] = 1.0
    for s in range(population - 1, -1, -1):
        infect = ratio * s / population
        infect = infect / (infect + 1.0)
        after = np.zeros(population + 2)
        carried = 0.0  # mass that has come down to i by removals, among s susceptibles
        for i in range(population - s, 0, -1):
            carried += now[i]
            after[i + 1] = carried * infect
            carried *= 1.0 - infect
        out[population - s] = carried
        now = after
    return out


def graph_size_probabilities(ratio: float, edge: float, population: int) -> Array:
    """Probabilities (population + 1,) of each final size on a Bernoulli graph; ratio is beta over gamma."""
    node, weight = np.polynomial.legendre.leggauss(NODES)
    q = edge * (1 - (0.5 * (node + 1)) ** ratio)
    counts = np.arange(population)
    left, new = counts[:, None], counts[None]
    log_choose = gammaln(left + 1) - gammaln(new + 1) - gammaln(np.maximum(left - new, 0) + 1)
    step = np.zeros((population, population))  # P(new | left): infected by one infective
    for part, one in zip(q, 0.5 * weight, strict=True):
        step += one * np.where(new <= left, np.exp(log_choose + new * np.log(part) + (left - new) * np.log1p(-part)), 0)
    moves = np.zeros_like(step)  # from s to s'
    for s in range(population):
        moves[s, : s + 1] = step[s, s::-1]
    out, now = np.zeros(population + 1), np.zeros(population)
    now[population - 1] = 1.0
    for looked_at in range(1, population + 1):
        now = now @ moves
        out[looked_at] = now[population - looked_at]
        now[population - looked_at :] = 0.0
    return out
