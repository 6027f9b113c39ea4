"""Compute the exact posterior of the temporal SIR given its statistics.

Final size n, duration T and the removals R_b in each tenth of T say that the chain of (infectives i, removals r) is at
r = R_1 + … + R_b at every tenth, has i = 1, r = n - 1 just before T, and loses its last case at T. Only i is hidden, so
the likelihood is a forward pass over i through the generator restricted to r's path (uniformisation), times gamma:

    L(beta, gamma) = sum over i of  prod_b P(i_b, r_b | i_{b-1}, r_{b-1}) · gamma

i + r never passes n, since nobody beyond the final size is infected. On small populations it is what the exponential of
the whole generator gives. A small outbreak is evaluated on a grid of 60 × 60.
A large one (1 to 2 s a point) on 64 points of an ellipse, with a quartic in log theta through them; the leave-one-out
error in log L, printed, is the reference's own error.
"""

from __future__ import annotations

from itertools import product
from math import exp, lgamma, log, sqrt

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from thrifty.models.compiled import kernel
from thrifty.types import Array

CELLS, NODES, RADIUS = 60, (32, 64), (3.0, 4.2)  # grid; points and radius (standard deviations) of the two ellipses


@kernel
def log_likelihood(beta: float, gamma: float, counts: npt.NDArray[np.int64], duration: float, population: int) -> float:
    """Log density of (counts per bin, duration) at one theta."""
    final, dt, done, total = counts.sum(), duration / len(counts), 0, 0.0
    ratio = beta / gamma
    peak = (1 - (1 + log(ratio)) / ratio) * population if ratio > 1 else 0.0
    most = int(1.6 * peak + 60)  # infectives: above the deterministic peak by ten standard deviations and more
    start = np.zeros(population + 3)
    start[1] = 1.0
    for b in range(len(counts)):
        last = b == len(counts) - 1
        end = counts[b] - 1 if last else counts[b]
        found = _forward(start, end, (final - done, population - done, most), (beta, gamma), (dt, population))
        done += end
        if last:
            return total + log(found[1] * gamma) if found[1] > 0 else -np.inf
        mass = found.sum()
        if not mass > 0:
            return -np.inf
        total += log(mass)
        start[:] = 0.0
        start[: len(found)] = np.where(found > 1e-14 * found.max(), found / mass, 0.0)
    return total


@kernel
def _forward(start, end, limits, rates, clock):  # type: ignore[no-untyped-def]
    """Probabilities of i after one bin in which r rises by exactly `end`."""
    cap, susceptible, most = limits
    dt, population = clock
    p, q, out = np.zeros((end + 1, cap + 3)), np.zeros((end + 1, cap + 3)), np.zeros(cap + 3)
    low, high = np.full(end + 1, cap + 2), np.full(end + 1, -1)  # windows of i that hold mass, one for each r
    for i in range(1, cap + 1):
        if start[i] > 0:
            p[0, i], low[0], high[0] = start[i], min(low[0], i), i
    i = np.arange(1, min(cap, most) + 1)
    rate = (i * (rates[0] * (susceptible - i) / population + rates[1])).max()
    mean = rate * dt
    steps = int(mean + 8 * sqrt(mean) + 20)
    for k in range(steps + 1):
        if k > mean - 8 * sqrt(mean) - 20:
            weight = exp(k * log(mean) - mean - lgamma(k + 1.0))
            for j in range(low[end], high[end] + 1):
                out[j] += weight * p[end, j]
        top = _step((p, q), (low, high), limits, (rates[0] / population / rate, rates[1] / rate))
        if k % 8 == 0:
            _trim(p, q, low, high, 1e-16 * top)
        p, q = q, p
    return out


@kernel
def _step(arrays, windows, limits, per_step):  # type: ignore[no-untyped-def]
    """One step of the uniformised chain, from p into q; the largest entry."""
    (p, q), (low, high) = arrays, windows
    cap, susceptible, most = limits
    infect, remove = per_step
    top = 0.0
    for r in range(len(p) - 1, -1, -1):
        if r > 0 and high[r - 1] >= 0:
            low[r], high[r] = min(low[r], max(low[r - 1] - 1, 1)), max(high[r], high[r - 1] - 1)
        if high[r] >= 0:
            high[r] = max(high[r], min(high[r] + 1, cap - r, most))
        for i in range(low[r], high[r] + 1):
            s = susceptible - i - r
            value = p[r, i] * (1 - i * (infect * s + remove)) + p[r, i - 1] * (i - 1) * infect * (s + 1)
            if r > 0:
                value += p[r - 1, i + 1] * (i + 1) * remove
            q[r, i] = value
            top = max(top, value)
    return top


@kernel
def _trim(p, q, low, high, least):  # type: ignore[no-untyped-def]
    """Narrow the windows to entries that matter."""
    for r in range(len(q)):
        while high[r] >= low[r] and q[r, high[r]] < least:
            q[r, high[r]] = p[r, high[r]] = 0.0
            high[r] -= 1
        while low[r] <= high[r] and q[r, low[r]] < least:
            q[r, low[r]] = p[r, low[r]] = 0.0
            low[r] += 1
        if high[r] < low[r]:
            low[r], high[r] = p.shape[1] - 1, -1


def exact_draws(x_o: Array, rough: Array, rng: np.random.Generator, *, n: int = 4_000) -> tuple[Array, float]:
    """(draws (n, 2), error in log L) of the exact posterior; `rough` draws say where to look."""
    counts = x_o[2:].astype(np.int64)

    def evaluate(theta: Array) -> Array:
        return np.array([log_likelihood(t[0], t[1], counts, x_o[1], 1_000) for t in theta])

    if x_o[0] <= 200:
        return exact_grid_draws(x_o, n, rng), 0.0
    z, points, weights, error = np.log(rough), rough, np.ones(1), 0.0
    centre, root = z.mean(0), np.asarray(np.linalg.cholesky(np.cov(z.T)), dtype=np.float64)
    for stage in (0, 1):
        error, points, weights = _surface(evaluate, centre, root, stage)
        z = np.log(points)
        centre = weights @ z
        covariance = ((z - centre) * weights[:, None]).T @ (z - centre)
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return points[rng.choice(len(points), n, p=weights)], error


def exact_grid_draws(x_o: Array, n: int, rng: np.random.Generator, *, population: int = 1_000) -> Array:
    """Draws (n, 2) of the exact posterior, piecewise constant on CELLS × CELLS: for outbreaks up to some 200 cases."""
    counts, side = x_o[2:].astype(np.int64), 0.9 / CELLS
    centres = 0.1 + side * (np.arange(CELLS) + 0.5)
    grid = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(-1, 2)
    value = np.array([log_likelihood(t[0], t[1], counts, x_o[1], population) for t in grid])
    return grid[rng.choice(len(grid), n, p=_normalised(value))] + side * (rng.random((n, 2)) - 0.5)


def _surface(evaluate, centre: Array, root: Array, stage: int):  # type: ignore[no-untyped-def]
    """(leave-one-out error, points, weights) of a polynomial in log theta through log L on an ellipse."""
    sobol = qmc.Sobol(2, seed=stage)  # type: ignore[call-arg]  # stubs know `rng` alone, scipy 1.13 `seed` alone
    u = sobol.random(NODES[stage])
    nodes = RADIUS[stage] * np.sqrt(u[:, :1]) * np.hstack([np.cos(2 * np.pi * u[:, 1:]), np.sin(2 * np.pi * u[:, 1:])])
    nodes = nodes[_inside(np.exp(centre + nodes @ root.T))]
    value = evaluate(np.exp(centre + nodes @ root.T))
    nodes, value = nodes[value > value.max() - 14], value[value > value.max() - 14]
    weight = np.exp(0.15 * (value - value.max()))[:, None]
    design = weight * _powers(nodes, 3 + stage)
    slopes = np.linalg.lstsq(design, weight[:, 0] * value, rcond=None)[0]
    leverage = np.square(np.linalg.qr(design)[0]).sum(1)
    residual = (value - _powers(nodes, 3 + stage) @ slopes) / (1 - leverage)
    error = float(np.sqrt(np.mean(residual[value > value.max() - 4.5] ** 2)))
    line = np.linspace(-RADIUS[stage], RADIUS[stage], 600)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    grid = grid[np.square(grid).sum(1) < RADIUS[stage] ** 2]
    grid = grid[_inside(np.exp(centre + grid @ root.T))]
    points = np.exp(centre + grid @ root.T)
    return error, points, _normalised(_powers(grid, 3 + stage) @ slopes + np.log(points).sum(1))


def _powers(z: Array, degree: int) -> Array:
    return np.stack(
        [z[:, 0] ** i * z[:, 1] ** j for i, j in product(range(degree + 1), repeat=2) if i + j <= degree], 1
    )


def _inside(theta: Array) -> npt.NDArray[np.bool_]:
    return np.all((theta > 0.1) & (theta < 1.0), axis=1)


def _normalised(log_weights: Array) -> Array:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()
