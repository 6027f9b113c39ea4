"""How much faster the compiled models are than plain Python and numpy event loops of the same algorithms.

    python benchmarks/models.py [--quick]

Both sides run in this process on one core, alternating, at the same theta; the figure is the ratio of CPU
seconds per run. Exits 1 when a ratio is below what is promised (50 for the SIR models, 10 for radio).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))

import oracles

import thrifty as th

Run = Callable[[np.ndarray, np.random.Generator], object]


@dataclass(frozen=True)
class Case:
    """One model, one oracle, one theta (None: drawn from the prior), and the runs of each per round."""

    label: str
    model: th.models.Model
    oracle: Run
    theta: tuple[float, ...] | None
    promised: float
    slow_runs: int
    fast_runs: int


def cases() -> list[Case]:
    m = th.models
    gamma, homogeneous, temporal, bernoulli, radio = (
        m.Gamma(),
        m.HomogeneousSIR(),
        m.TemporalSIR(),
        m.BernoulliSIR(),
        m.Radio(),
    )
    return [
        Case("Gamma, theta = 550", gamma, oracles.gamma, (550.0,), 0, 1, 20),
        Case("homogeneous SIR, theta = 5", homogeneous, oracles.homogeneous_sir, (5.0,), 50, 10, 200),
        Case("homogeneous SIR, prior", homogeneous, oracles.homogeneous_sir, None, 50, 10, 200),
        Case("temporal SIR, (0.9, 0.15)", temporal, oracles.temporal_sir, (0.9, 0.15), 50, 40, 400),
        Case("temporal SIR, prior", temporal, oracles.temporal_sir, None, 50, 100, 1000),
        Case("Bernoulli SIR, truth", bernoulli, oracles.bernoulli_sir, (0.5, 0.5, 0.5), 50, 4, 100),
        Case("Bernoulli SIR, prior", bernoulli, oracles.bernoulli_sir, None, 50, 8, 160),
        Case("Bernoulli SIR, as printed", bernoulli, oracles.bernoulli_sir_double_sum, (0.5, 0.5, 0.5), 50, 1, 100),
        Case("radio, 1e9", radio, oracles.radio, (4e-9, 7e-9, 1e9, 3e-10), 10, 1, 10),
        Case("radio, 5e9", radio, oracles.radio, (4e-9, 7e-9, 5e9, 3e-10), 10, 1, 5),
    ]


def seconds(run: Run, thetas: np.ndarray, rng: np.random.Generator) -> float:
    begin = time.process_time()
    for theta in thetas:
        run(theta, rng)
    return (time.process_time() - begin) / len(thetas)


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """CPU seconds per run of oracle and model, and the median ratio over alternating rounds."""
    rng = np.random.default_rng(0)
    case.model.simulate(case.model.theta_true, rng)  # compiled before the clock starts
    slow, fast = [], []
    thetas = np.tile(case.theta or (), (case.slow_runs, 1))
    if case.theta is None:
        thetas = case.model.prior.sample(case.slow_runs, np.random.default_rng(1))
    many = np.tile(thetas, (case.fast_runs // case.slow_runs, 1))
    for _ in range(rounds):
        slow.append(seconds(case.oracle, thetas, rng))
        fast.append(seconds(case.model.simulate, many, rng))
    return float(np.median(slow)), float(np.median(fast)), float(np.median(np.divide(slow, fast)))


def main() -> int:
    rounds = 3 if "--quick" in sys.argv else 9
    print(f"{'case':30}{'oracle ms':>12}{'model ms':>12}{'ratio':>9}{'promised':>10}")
    missed = False
    for case in cases():
        slow, fast, ratio = measure(case, rounds)
        missed |= ratio < case.promised
        promised = f"{case.promised:.0f}" if case.promised else "-"
        print(f"{case.label:30}{1e3 * slow:12.3f}{1e3 * fast:12.4f}{ratio:9.0f}{promised:>10}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
