"""The paper's algorithms as plain Python and numpy event loops: slow, short, and independent of the kernels.

They are the oracles of the distributional tests and of the speed ratios in `benchmarks/models.py`. Each takes
(theta, rng) and returns (statistics, operations) where the operations are those that the fast model counts.
Two settings plant a known fault, for the tests that must notice it: `inverted_waiting` and `one_way`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Result = tuple[Array, float]


def gamma(theta: Array, rng: np.random.Generator, *, m: int = 500) -> Result:
    """Sum of floor(theta) exponentials, plus numpy's own Gamma draw for the fraction (uniforms not counted)."""
    whole, fraction = int(theta[0]), theta[0] - int(theta[0])
    sample = []
    for _ in range(m):
        total = 0.0
        for _ in range(whole):
            total += -math.log(1.0 - rng.random())
        sample.append(total + (rng.gamma(fraction) if fraction else 0.0))
    return np.array([np.mean(sample), np.std(sample, ddof=1)]), float(m * whole)


def homogeneous_sir(theta: Array, rng: np.random.Generator, *, population: int = 10_000, k: float = 1.0) -> Result:
    """Algorithm 2: a Gamma period, a Poisson number of contacts, one uniform for each."""
    infectives, susceptibles, operations = 1, population - 1, 0
    while infectives > 0:
        period = rng.gamma(k, 1.0 / k)
        contacts = rng.poisson(theta[0] * period)
        for _ in range(contacts):
            if rng.random() < susceptibles / population:
                susceptibles -= 1
                infectives += 1
        infectives -= 1
        operations += 1 + contacts
    return np.array([float(population - susceptibles)]), float(operations)


def temporal_sir(
    theta: Array,
    rng: np.random.Generator,
    *,
    population: int = 1000,
    bins: int = 10,
    inverted_waiting: bool = False,
) -> Result:
    """Algorithm 3: Gillespie's direct method with lists of times and types."""
    beta, gamma_ = theta
    infectives, susceptibles, t = 1, population - 1, 0.0
    times, types = [t], [1]
    while infectives > 0:
        rate = beta / population * infectives * susceptibles + gamma_ * infectives
        wait = rng.exponential(rate if inverted_waiting else 1.0 / rate)
        if rng.random() < beta * susceptibles / (beta * susceptibles + population * gamma_):
            infectives += 1
            susceptibles -= 1
            types.append(1)
        else:
            infectives -= 1
            types.append(2)
        t += wait
        times.append(t)
    removed = [time for time, kind in zip(times, types, strict=True) if kind == 2]
    return _statistics(removed, bins), float(len(times) - 1)


def bernoulli_sir(
    theta: Array,
    rng: np.random.Generator,
    *,
    population: int = 1000,
    bins: int = 10,
    one_way: bool = False,
) -> Result:
    """Algorithm 4 with a numpy vector of pressures, one row of the matrix added or taken away per event."""
    beta, gamma_, edge = theta
    graph = _graph(population, edge, rng, one_way=one_way)
    susceptible = np.ones(population, dtype=bool)
    susceptible[0] = False
    pressure = graph[0].astype(np.int64)
    infectives, t, removed, events = [0], 0.0, [], 0
    while infectives:
        exposed = np.where(susceptible, pressure, 0)
        infection, removal = beta * exposed.sum(), gamma_ * len(infectives)
        t += rng.exponential(1.0 / (infection + removal))
        if rng.random() < infection / (infection + removal):
            cumulative = np.cumsum(exposed)
            person = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            susceptible[person] = False
            infectives.append(person)
            pressure += graph[person]
        else:
            person = infectives.pop(int(rng.random() * len(infectives)))
            pressure -= graph[person]
            removed.append(t)
        events += 1
    return _statistics(removed, bins), float(events)


def bernoulli_sir_double_sum(
    theta: Array, rng: np.random.Generator, *, population: int = 1000, bins: int = 10
) -> Result:
    """Algorithm 4 as printed: the double sum over infectives and susceptibles is taken anew at each event."""
    beta, gamma_, edge = theta
    graph = _graph(population, edge, rng, one_way=False)
    infectives, susceptibles, t, removed, events = [0], list(range(1, population)), 0.0, [], 0
    while infectives:
        pressure = graph[np.ix_(infectives, susceptibles)].sum(0)
        links = pressure.sum()
        rate = beta * links + gamma_ * len(infectives)
        t += rng.exponential(1.0 / rate)
        if rng.random() < beta * links / rate:
            chosen = int(rng.choice(len(susceptibles), p=pressure / links))
            infectives.append(susceptibles.pop(chosen))
        else:
            infectives.pop(int(rng.integers(len(infectives))))
            removed.append(t)
        events += 1
    return _statistics(removed, bins), float(events)


def radio(theta: Array, rng: np.random.Generator, *, m: int = 50, bandwidth: float = 4e9, points: int = 801) -> Result:
    """Algorithm 5, corrected: one complex exponential per component and frequency, one realisation at a time."""
    gain, reverberation, rate, noise = theta
    step = bandwidth / (points - 1)
    t_max = 1.0 / step
    time = np.arange(points) * t_max / points
    logs, components = np.empty((m, 3)), 0
    for i in range(m):
        count = rng.poisson(rate * t_max)
        delays = np.sort(rng.uniform(0.0, t_max, count))
        sd = np.sqrt(gain * np.exp(-delays / reverberation) * bandwidth / rate / 2)
        amplitude = sd * (rng.standard_normal(count) + 1j * rng.standard_normal(count))
        transfer = np.exp(-2j * np.pi * step * np.outer(np.arange(1, points + 1), delays)) @ amplitude
        transfer += np.sqrt(noise / 2) * (rng.standard_normal(points) + 1j * rng.standard_normal(points))
        power = np.abs(np.fft.ifft(transfer)) ** 2
        logs[i] = [np.log(np.sum(time**k * power) * t_max / points) for k in range(3)]
        components += count
    return np.concatenate([logs.mean(0), logs.std(0, ddof=1)]), float(components)


def _graph(population: int, edge: float, rng: np.random.Generator, *, one_way: bool) -> npt.NDArray[np.bool_]:
    upper = np.triu(rng.random((population, population)) < edge, k=1)
    return upper if one_way else upper | upper.T


def _statistics(removed: list[float], bins: int) -> Array:
    counts = np.histogram(removed, bins=np.linspace(0.0, removed[-1], bins + 1))[0]
    return np.concatenate([[len(removed), removed[-1]], counts])
