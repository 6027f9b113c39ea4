"""Accuracy of weighted neural inference against known posteriors; each section prints its figures.

    python benchmarks/neural_accuracy.py [gaussian mixture gamma calibration homogeneous temporal]

C2ST is 0.5 when draws cannot be told from the reference, 1 when always. Needs the extras neural and models.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import thrifty as th

N = 5000
KINDS = ("0.5", "1", "mix")
GAMMA_SEEDS = (21, 22, 23)
DRAWS = 1000


def proposal(model: Any, kind: str) -> Any:
    """The prior ("0"), a power, or the mixture of powers 0, 1/2 and 1."""
    if kind == "mix":
        return th.Mixture(model.prior, model.expected_cost, powers=(0, 0.5, 1))
    return th.CostAware(model.prior, model.expected_cost, th.Power(float(kind)))


def runs(model: Any, kind: str, n: int, seed: int) -> th.Simulations:
    return model.simulate_many(proposal(model, kind).sample(n, seed), seed)


def report(label: str, values: list[float], bound: str) -> None:
    each = " ".join(f"{v:.3f}" for v in values)
    print(f"{label:44s} {np.mean(values):.3f}   ({each})   {bound}", flush=True)


def gaussian() -> None:
    model = th.models.GaussianToy(a=1.0)
    x_o = np.array([1.5])  # where expensive runs decide
    reference = model.reference_posterior(x_o).sample(DRAWS, np.random.default_rng(99))
    methods = {name: getattr(th, name)(model.prior) for name in ("NPE", "FMPE", "NLE", "NRE")}
    for kind in KINDS:
        for name, method in methods.items():
            values = []
            for seed in range(3):
                draws = method.fit(runs(model, kind, N, seed), seed=seed).sample(DRAWS, x_o, seed=seed)
                values.append(th.metrics.c2st(draws, reference, seed=seed))
            report(f"gaussian  k = {kind:4s} {name}", values, "promise: 0.57")
    mutant = [runs(model, "1", N, seed) for seed in range(3)]
    for name in ("NPE", "FMPE"):
        values = [
            th.metrics.c2st(
                methods[name].fit(s.reweighted(np.zeros(N)), seed=i).sample(DRAWS, x_o, seed=i), reference, seed=i
            )
            for i, s in enumerate(mutant)
        ]
        report(f"gaussian  k = 1    {name} without weights", values, "must be above 0.57")


def mixture() -> None:
    """The same simulations under the paper's weights and under balance weights."""
    model = th.models.GaussianToy(a=1.0)
    q = th.Mixture(model.prior, model.expected_cost, powers=(0, 1, 2), scheme="paper")
    balance = th.Mixture(model.prior, model.expected_cost, powers=(0, 1, 2))
    scores: dict[tuple[str, float], list[float]] = {}
    for seed in range(5):
        paper = model.simulate_many(q.sample(3000, seed), seed)
        for scheme, table in (
            ("paper", paper),
            ("balance", paper.reweighted(balance.log_weight(paper.theta), balance)),
        ):
            posterior = th.NPE(model.prior).fit(table, seed=seed)
            for x in (-2.0, 2.0):
                reference = model.reference_posterior([x]).sample(DRAWS, np.random.default_rng(seed))
                value = th.metrics.c2st(posterior.sample(DRAWS, [x], seed=seed), reference, seed=seed)
                scores.setdefault((scheme, x), []).append(value)
    for x, region in ((-2.0, "cheap"), (2.0, "expensive")):
        for scheme in ("paper", "balance"):
            report(f"mixture   {region:9s} {scheme}", scores[scheme, x], "balance <= paper")


def gamma() -> None:
    """Three trainings, three truths, three observations of each; the posterior is 0.1 % of the prior wide."""
    models = {truth: th.models.Gamma(theta_true=[truth]) for truth in (250.0, 500.0, 750.0)}
    prior = models[250.0].prior
    for name in ("NPE", "FMPE"):
        gamma_of(
            name, models, [getattr(th, name)(prior).fit(runs(models[250.0], "1", N, s), seed=s) for s in GAMMA_SEEDS]
        )


def gamma_of(name: str, models: dict[float, Any], fits: list[Any]) -> None:
    for truth, model in models.items():
        values, places, widths = [], [], []
        for seed, posterior in enumerate(fits):
            for x_o in (model.observed(1000 + 10 * seed + i) for i in range(3)):
                reference = model.statistics_posterior(x_o)
                draws = posterior.sample(DRAWS, x_o, seed=seed)
                target = reference.sample(DRAWS, np.random.default_rng(seed))
                values.append(th.metrics.c2st(draws, target, seed=seed))
                places.append((draws.mean() - reference.mean) / reference.sd)
                widths.append(draws.std() / reference.sd)
        report(f"gamma     k = 1    {name} truth {truth:.0f}", values, "promise: 0.57")
        print(f"          error of the mean {np.mean(np.abs(places)):.2f} sd, ratio of sds {np.mean(widths):.2f}")


def calibration() -> None:
    """Weighted SBC: ranks of fresh proposal draws, each counted by its weight, against the uniform."""
    for model in (th.models.GaussianToy(a=1.0), th.models.Gamma()):
        posterior = th.NPE(model.prior).fit(runs(model, "1", N, 11), seed=11)
        fresh = runs(model, "1", 600, 12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = np.stack([posterior.sample(200, x, seed=i)[:, 0] for i, x in enumerate(fresh.x)])
        ranks = ((drawn < fresh.theta).sum(1) + np.random.default_rng(0).random(len(fresh))) / 201
        order = np.argsort(ranks)
        weights = th.normalise(fresh.log_weights)[order]
        above = np.cumsum(weights) - ranks[order]
        distance = max(above.max(), (weights - above).max())
        effective = th.ess(fresh.log_weights)
        p = float(stats.kstwobign.sf(distance * np.sqrt(effective)))
        print(
            f"calibration  {type(model).__name__}: weighted KS {distance:.4f}, {effective:.0f} effective runs,"
            f" p = {p:.3f}   promise: p > 0.001",
            flush=True,
        )


def epidemic(model: Any, cost: Callable[[np.ndarray], np.ndarray], seed: int = 0) -> None:
    name = type(model).__name__
    rng = np.random.default_rng(seed)
    many = model.simulate_many(model.prior.sample(50_000, rng), 17)
    begin = time.process_time()
    reference = th.NPE(model.prior).fit(many, seed=17)
    print(f"{name}: reference NPE on 50,000 prior runs took {time.process_time() - begin:.0f} CPU s", flush=True)
    x_o = model.observed(3)
    target = reference.sample(DRAWS, x_o, seed=1)
    for label, q in (
        ("prior", th.CostAware(model.prior, cost, th.Constant())),
        ("k = 0.5", th.CostAware(model.prior, cost, th.Power(0.5))),
        ("k = 1", th.CostAware(model.prior, cost, th.Power(1.0))),
        ("mixture 0, .5, 1, 2", th.Mixture(model.prior, cost, powers=(0, 0.5, 1, 2))),
    ):
        values = []
        for s in range(2):
            posterior = th.NPE(model.prior).fit(model.simulate_many(q.sample(N, s), 100 + s), seed=s)
            values.append(th.metrics.c2st(posterior.sample(DRAWS, x_o, seed=s), target, seed=s))
        report(f"{name}  NPE {label}", values, "against NPE on 50,000 prior runs")


def fitted_cost(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    pilot = model.simulate_many(model.prior.sample(200, np.random.default_rng(1)), 55)
    return th.fit_cost(pilot.theta, pilot.cost)


def homogeneous() -> None:
    model = th.models.HomogeneousSIR()
    epidemic(model, fitted_cost(model))


def temporal() -> None:
    model = th.models.TemporalSIR()
    epidemic(model, fitted_cost(model))


SECTIONS = {f.__name__: f for f in (gaussian, mixture, gamma, calibration, homogeneous, temporal)}


def main() -> None:
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main()
