"""The paper's radio channel, with a likelihood that is known: its statistics, drawn from a normal law.

The likelihood of the Turin model (`th.models.Radio`) is not known. Here the simulator is not that model but a normal
law of its six statistics, fitted once to 16,000 runs of it by `tools/fit_radio.py`: means, log variances and slopes are
polynomials of log theta, whose coefficients come with the package. So likelihood and posterior are exact for what is
simulated. A run costs what a run of the real model costs on average: its operations, which are linear in the arrival
rate; single runs of the real model differ from that by 1 % at most.

How close the law is to the model, on 4,000 other runs: see `docs/benchmarks.md`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from thrifty.benchmark.exact_draws import draw_tempered
from thrifty.benchmark.problem import Problem, normals
from thrifty.benchmark.problems.emulated_likelihood import EmulatedLikelihood
from thrifty.models.radio import Radio
from thrifty.priors import Uniform
from thrifty.types import Array

LAW = Path(__file__).resolve().parents[1] / "references" / "radio_law.npz"
UNITS = np.array([1e-9, 1e-9, 1e9, 1e-10])  # of gain, reverberation time (s), arrival rate (1/s) and noise variance
DEGREES = (4, 2, 2)  # of means, log variances and slopes: on held-out runs higher ones are no better
STATISTICS = 6


def radio() -> Problem:
    """Six statistics of the radio model, drawn from a normal law fitted to its runs; four parameters in units of UNITS.

    The posterior is exact for this law, not for the model. The cost is that of the model.
    """
    low, high = Radio().prior.bounds
    prior = Uniform(low / UNITS, high / UNITS, names=Radio.NAMES)  # type: ignore[arg-type]
    mean_rate = 0.5 * float(prior.low[2] + prior.high[2])

    def respond(theta: Array, u: Array) -> Array:
        law, centre, scale = read_law()
        return from_normal(centre + scale * law.draw(np.log(theta), normals(u)))

    def log_likelihood(theta: Array, x: Array) -> Array:
        law, centre, scale = read_law()
        return law.log_likelihood(np.log(theta), (to_normal(x) - centre) / scale)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    def cost(theta: Array) -> Array:
        return theta[:, 2] / mean_rate

    return Problem("radio", prior, STATISTICS, respond, log_likelihood, cost, draw, narrow=False, closed_form=False)


@cache
def read_law() -> tuple[EmulatedLikelihood, Array, Array]:
    """Read the law of the standardised statistics, and their centre and scale (6,)."""
    with np.load(LAW) as kept:
        parts = {name: kept[name] for name in kept.files}
    means, log_variances = (
        tuple(parts[f"{kind}_{j}"] for j in range(STATISTICS)) for kind in ("means", "log_variances")
    )
    law = EmulatedLikelihood(parts["theta_centre"], parts["theta_scale"], means, log_variances, DEGREES)
    return law, parts["centre"], parts["scale"]


def write_law(theta: Array, x: Array, path: Path = LAW) -> None:
    """Fit the law to runs of the radio model, theta (n, 4) in units of UNITS and statistics x (n, 6), and keep it."""
    y = to_normal(x)
    centre, scale = y.mean(0), y.std(0)
    law = EmulatedLikelihood.fit(np.log(theta), (y - centre) / scale, degrees=DEGREES)
    rows = {f"means_{j}": row for j, row in enumerate(law.means)}
    rows |= {f"log_variances_{j}": row for j, row in enumerate(law.log_variances)}
    np.savez(path, theta_centre=law.centre, theta_scale=law.scale, centre=centre, scale=scale, **rows)  # type: ignore[arg-type]


def to_normal(x: Array) -> Array:
    """Take logs of the three standard deviations, which are then normal too; x (6,) or (n, 6)."""
    return np.concatenate([x[..., :3], np.log(x[..., 3:])], -1)


def from_normal(y: Array) -> Array:
    """Undo `to_normal`."""
    return np.concatenate([y[..., :3], np.exp(y[..., 3:])], -1)
