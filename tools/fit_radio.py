"""Fit the normal law behind the benchmark's problem `radio`, and measure how close it is to the radio model.

    python tools/fit_radio.py            # ten minutes on one core

RUNS runs of `th.models.Radio` at prior draws; the law is fitted to FITTED of them and judged by the others:

    pairs       accuracy of a classifier that tells pairs (theta, statistics) of the model from pairs of the law; beside
                it, the same where the law's standard deviations are 10 % too wide
    residuals   mean square, skewness and excess kurtosis of each statistic's standardised residual: 1, 0 and 0 if the
                law were the model
    coverage    share of runs whose parameter lies inside the 90 % interval of the problem's posterior: 0.9 if the law
                were the model

Then `thrifty benchmark --references --problems radio` draws the references from the new law.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from thrifty.benchmark import find_problem
from thrifty.benchmark.problems.radio_channel import UNITS, read_law, to_normal, write_law
from thrifty.benchmark.records import shorten
from thrifty.metrics import c2st
from thrifty.models.radio import Radio

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "radio_law.json"
RUNS, FITTED = 20_000, 16_000
THETA_SEED, RUN_SEED, JUDGE_SEED = 18_011, 18_012, 18_013
POSTERIOR_DRAWS, COVERED = 400, 400  # draws of a posterior, and runs at which there is one


def run_model() -> tuple[np.ndarray, np.ndarray]:
    """Run the model at prior draws; theta in units of UNITS and statistics."""
    model = Radio()
    theta = model.prior.sample(RUNS, np.random.default_rng(THETA_SEED))
    blocks = [model.simulate_many(theta[i : i + 1000], RUN_SEED, start=i).x for i in range(0, RUNS, 1000)]
    return theta / UNITS, np.vstack(blocks)


def judge_pairs(theta: np.ndarray, residuals: np.ndarray) -> dict[str, float]:
    """Tell pairs of the model from pairs of the law at other prior draws; residuals stand for the statistics."""
    rng = np.random.default_rng(JUDGE_SEED)
    other, noise = find_problem("radio").prior.sample(len(theta), rng), rng.standard_normal(residuals.shape)
    real = np.hstack([np.log(theta), residuals])
    drawn = {name: np.hstack([np.log(other), wider * noise]) for name, wider in (("law", 1.0), ("law_10_%_wider", 1.1))}
    return {name: float(c2st(real, pairs, seed=JUDGE_SEED)) for name, pairs in drawn.items()}


def judge_coverage(theta: np.ndarray, x: np.ndarray) -> list[float]:
    """Count how often each parameter of a run lies inside the 90 % interval of the posterior at its statistics."""
    problem, rng = find_problem("radio"), np.random.default_rng(JUDGE_SEED)
    draws = [problem.draw_posterior(one, POSTERIOR_DRAWS, rng) for one in x]
    ends = np.array([np.quantile(d, [0.05, 0.95], axis=0) for d in draws])
    return list(((ends[:, 0] < theta) & (theta < ends[:, 1])).mean(0))


def shorten_all(value: Any) -> Any:
    """Keep six digits of every number."""
    if isinstance(value, dict):
        return {key: shorten_all(part) for key, part in value.items()}
    return [shorten(one) for one in value] if isinstance(value, list) else shorten(value)


def main() -> None:
    theta, x = run_model()
    write_law(theta[:FITTED], x[:FITTED])
    law, centre, scale = read_law()
    residuals = law.standardise(np.log(theta[FITTED:]), (to_normal(x[FITTED:]) - centre) / scale)
    found = {
        "runs": FITTED,
        "held_out": RUNS - FITTED,
        "pairs": judge_pairs(theta[FITTED:], residuals),
        "residuals": {
            "mean_square": list(np.square(residuals).mean(0)),
            "skewness": list(stats.skew(residuals)),
            "kurtosis": list(stats.kurtosis(residuals)),
        },
        "coverage": judge_coverage(theta[-COVERED:], x[-COVERED:]),
        "covered": COVERED,
    }
    RECORD.write_text(json.dumps(shorten_all(found), indent=1) + "\n", encoding="utf-8")
    print(RECORD.read_text())


if __name__ == "__main__":
    main()
