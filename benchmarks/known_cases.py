"""Cases with known answers, one function for each piece of inference; `known_answers.py` runs them over seeds.

Each function takes a seed and a share of the full size, and returns rows: case, what is measured, the known answer,
ours, and that of a mutant (weights forgotten, a sign turned, ...), which must be worse. Models and exact answers are
those of the tests.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

sys.path.append(str(Path(__file__).parents[1] / "tests" / "inference"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "inference" / "neural"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "inference" / "answers"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "inference" / "sampling"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "campaign"))

import answers
import linear_gaussian
import test_avoid_failures as failures
import test_dimensions as gaussian
import test_embeddings as embedded
import test_mixed_neural as mixed
import test_nuts
import test_spike_and_slab as contaminated

import thrifty as th
from thrifty.costs.finish_model import FLOOR
from thrifty.inference.sampling import nuts

MUTANT_SEEDS = 1  # of the cases that train a network for minutes: one mutant is enough to see it fail


class Row(NamedTuple):
    """One figure of one seed; `known` and `mutant` in the unit of `ours`."""

    case: str
    measure: str
    known: float
    ours: float
    mutant: float | None = None


def forget_weights(sims: th.Simulations) -> th.Simulations:
    """The mutant of most methods."""
    return sims.reweighted(np.zeros(len(sims)))


def evidence(seed: int, size: float) -> Iterator[Row]:
    """Log evidence of a linear Gaussian model, and the probability of one of two models."""
    unbiased = th.likelihoods.Gaussian(unbiased=True)
    methods: dict[str, tuple[Any, int, int]] = {
        "NLE": (th.NLE(answers.PRIOR), 2_000, 1),
        "synthetic likelihood": (
            th.SyntheticLikelihood(answers.PRIOR, likelihood=unbiased, how="pointwise"),
            2_000,
            40,
        ),
        "ABC": (th.ABC(answers.PRIOR), 40_000, 1),
    }
    for name, (method, n, m) in methods.items():
        sims = answers.make_table(max(int(size * n), 400), np.random.default_rng([seed, 1]), m)
        found = method.fit(sims, seed=seed).log_evidence(answers.X_O).value
        wrong = None
        if name != "NLE":  # a likelihood does not depend on how its runs were drawn
            wrong = method.fit(forget_weights(sims), seed=seed).log_evidence(answers.X_O).value
        yield Row(f"{name}, linear Gaussian", "log evidence (nat)", answers.TRUTH, found, wrong)


def corrected(seed: int, size: float) -> Iterator[Row]:
    """A rough NPE corrected by the exact likelihood; the mutant forgets the density of the draws."""
    sims = answers.make_table(max(int(size * 2_000), 300), np.random.default_rng([seed, 2]))
    rough = th.NPE(answers.PRIOR, training=th.Training(max_epochs=8)).fit(sims, seed=seed)

    def forgotten(theta, x_o):
        return answers.evaluate_exactly(theta, x_o) + rough.log_prob(theta, x_o)

    sd = np.sqrt(np.diag(answers.COVER))

    def off(mean):
        return float(np.sqrt(np.mean(np.square((mean - answers.MEAN) / sd))))

    one, other = (
        th.Corrected(rough, f).correct(answers.X_O, 20_000, seed) for f in (answers.evaluate_exactly, forgotten)
    )
    yield Row(
        "NPE of 8 epochs, exact likelihood", "mean off by (sd)", 0.0, off(one.weighted.mean), off(other.weighted.mean)
    )
    before = off(rough.sample(20_000, answers.X_O, seed=seed).mean(0))
    yield Row("the same NPE, not corrected", "mean off by (sd)", 0.0, before)
    yield Row(
        "evidence from the weights", "log evidence (nat)", answers.TRUTH, one.evidence.value, other.evidence.value
    )


def flow_matching(seed: int, size: float) -> Iterator[Row]:
    """FMPE at k = 1 against the exact posterior; sbi's estimators of fields and scores on the same runs."""
    model = th.models.GaussianToy(a=1.0)
    draws = th.CostAware(model.prior, model.expected_cost, th.Power(1.0)).sample(max(int(size * 3_000), 300), seed)
    runs, x_o = model.simulate_many(draws, seed), np.array([1.5])
    exact = model.reference_posterior(x_o).sample(1_000, np.random.default_rng(99))
    ours, wrong = (
        th.metrics.c2st(th.FMPE(model.prior).fit(table, seed=seed).sample(1_000, x_o, seed=seed), exact, seed=seed)
        for table in (runs, forget_weights(runs))
    )
    yield Row("FMPE, Gaussian, k = 1, expensive end", "C2ST", 0.5, ours, wrong)
    table = linear_gaussian.simulations(max(int(size * 2_000), 300), np.random.default_rng([seed, 3]))
    networks: dict[str, Any] = {"th.FlowMatching()": {}}
    try:
        from sbi.neural_nets import posterior_flow_nn, posterior_score_nn
    except ImportError:
        pass
    else:
        long = th.Training(patience=30)
        networks["sbi's posterior_flow_nn()"] = {"network": posterior_flow_nn(), "training": long}
        networks["sbi's posterior_score_nn()"] = {"network": posterior_score_nn(), "training": long}
    for name, settings in networks.items():
        posterior = th.FMPE(linear_gaussian.PRIOR, **settings).fit(table, seed=seed)
        off = [posterior.sample(2_000, [x], seed=seed).mean() - x / 2 for x in (-1.0, 0.0, 1.0)]
        rms = float(np.sqrt(np.mean(np.square(off))) / linear_gaussian.POSTERIOR_SD)
        yield Row(f"FMPE with {name}, linear", "mean off by (sd)", 0.0, rms)


def embeddings(seed: int, size: float) -> Iterator[Row]:
    """Images of 2 x 32 x 32 and series of 50 to 200 points; the mutant forgets weights, or which points are there."""
    rng, n = np.random.default_rng([seed, 4]), max(int(size * 3_000), 200)
    runs = embedded.images(n, rng)
    x = np.linspace(-1, 1, 40)[:, None, None, None] * embedded.template() + rng.standard_normal((40, 2, 32, 32))
    means, sds = np.tensordot(x, embedded.template(), axes=3) / 5, np.full(40, np.sqrt(0.2))
    posterior = th.NPE(embedded.PRIOR, embedding=th.ImageEmbedding()).fit(runs, seed=seed)
    ours, wrong = compare(posterior, x, means, sds), [None] * 3
    if seed < MUTANT_SEEDS:
        mutant = th.NPE(embedded.PRIOR, embedding=th.ImageEmbedding()).fit(forget_weights(runs), seed=seed)
        wrong = compare(mutant, x, means, sds)
    yield from describe("image 2 x 32 x 32", ours, wrong)
    fits = {True: th.NPE(embedded.PRIOR, embedding=th.SequenceEmbedding()).fit(embedded.series(n, rng), seed=seed)}
    if seed < MUTANT_SEEDS:
        blind = embedded.series(n, rng, mask=False)
        fits[False] = th.NPE(embedded.PRIOR, embedding=th.SequenceEmbedding()).fit(blind, seed=seed)
    for points in (50, 200):
        x = np.stack([embedded.one_series(t, points, rng) for t in np.linspace(-1, 1, 40)])
        means, sds = embedded.exact(x, np.full(40, points))
        ours, wrong = compare(fits[True], x, means, sds), [None] * 3
        if False in fits:
            embedded.forget_mask(x, rng)
            wrong = compare(fits[False], x, means, sds)
        yield from describe(f"series of {points} points", ours, wrong)


def compare(posterior: Any, x: np.ndarray, means: np.ndarray, sds: np.ndarray) -> list[float]:
    """Root mean square error of means in sd, ratio of widths, and KL of the normals from the exact ones (nat)."""
    drawn = posterior.sample_batched(500, x, seed=1)[..., 0]
    off, ratio = (drawn.mean(1) - means) / sds, drawn.std(1) / sds
    kl = np.log(ratio) + (1 + off**2) / (2 * ratio**2) - 0.5
    return [float(np.sqrt(np.mean(off**2))), float(ratio.mean()), float(kl.mean())]


def describe(case: str, ours: list[float], wrong: list[Any]) -> Iterator[Row]:
    measures = (("mean off by (sd)", 0.0), ("ratio of widths", 1.0), ("KL (nat)", 0.0))
    for (measure, known), value, mutant in zip(measures, ours, wrong, strict=True):
        yield Row(case, measure, known, value, mutant)


def devices(seed: int, size: float) -> Iterator[Row]:
    """The device that is there gives the draws of the CPU; the mutant has another seed."""
    table = linear_gaussian.simulations(max(int(size * 1_000), 200), np.random.default_rng([seed, 5]))

    def draw(device: str, fit_seed: int) -> np.ndarray:
        training = th.Training(device=device, max_epochs=5)
        return th.NPE(linear_gaussian.PRIOR, training=training).fit(table, seed=fit_seed).sample(500, [0.3], seed=0)

    cpu = draw("cpu", seed)
    off = [float(np.abs(draw(*other) - cpu).max()) for other in (("auto", seed), ("auto", seed + 1))]
    yield Row('device="auto" against "cpu"', "largest difference of draws", 0.0, *off)


def dimensions(seed: int, size: float) -> Iterator[Row]:
    """Conditional, marginal and active subspace of a correlated Gaussian; the mutant turns its correlations."""
    n = max(int(size * 4_000), 500)
    mean, cover = gaussian.exact_conditional(1.9)
    measured = []
    for sign in (1.0, -1.0):
        posterior = gaussian.Exact(sign)
        given = posterior.condition(a=1.9).sample(n, gaussian.X_O, seed=seed)
        alone = posterior.marginal("c", "a").sample(n, gaussian.X_O, seed=seed)[:, 0 if sign > 0 else 1]
        values, vectors = np.linalg.eigh(9 * np.linalg.inv(gaussian.COVER))
        found = posterior.sensitivity(gaussian.X_O, n, seed)
        measured.append(
            [
                float(np.sqrt(np.mean(np.square((given.mean(0) - mean) / np.sqrt(np.diag(cover)))))),
                float((given.std(0) / np.sqrt(np.diag(cover))).mean()),
                float((alone.mean() - gaussian.MEAN[2]) / np.sqrt(gaussian.COVER[2, 2])),
                float(alone.std() / np.sqrt(gaussian.COVER[2, 2])),
                float(np.degrees(np.arccos(min(abs(found.directions[0] @ vectors[:, -1]), 1.0)))),
                float(found.values[0] / values[-1]),
            ]
        )
    labels = [
        ("conditional of a Gaussian", "mean off by (sd)", 0.0),
        ("conditional of a Gaussian", "ratio of widths", 1.0),
        ("marginal of a Gaussian", "mean off by (sd; mutant: another column)", 0.0),
        ("marginal of a Gaussian", "ratio of widths (mutant: another column)", 1.0),
        ("sensitivity of a Gaussian", "angle of the first direction (degrees)", 0.0),
        ("sensitivity of a Gaussian", "ratio of the first eigenvalue", 1.0),
    ]
    for (case, measure, known), ours, wrong in zip(labels, *measured, strict=True):
        yield Row(case, measure, known, ours, wrong)


def discrete(seed: int, size: float) -> Iterator[Row]:
    """P(log-normal) against a Gamma at six observations; log-normal runs cost ten times as much and are drawn less."""
    rng = np.random.default_rng([seed, 7])
    points = mixed.draw_sizes(mixed.CHOICE.sample(6, rng), rng)
    exact = np.array([mixed.exact_choice(x) for x in points])
    methods = {
        "ABC": (th.ABC(mixed.CHOICE, n_accept=1_000), 100_000),
        "NPE": (th.NPE(mixed.CHOICE), 4_000),
        "NLE": (th.NLE(mixed.CHOICE), 4_000),
    }
    for name, (method, n) in methods.items():
        draws = th.CostAware(mixed.CHOICE, lambda t: 1 + 9 * t[:, 0], th.Power(0.5)).sample(
            max(int(size * n), 1_500), rng
        )
        x = mixed.draw_sizes(draws.theta, rng)
        table = th.Simulations.from_arrays(theta=draws.theta, x=x, proposal=draws.proposal)
        off = []
        for sims in (table,) if name == "NLE" else (table, forget_weights(table)):
            posterior = method.fit(sims, seed=seed)
            found = np.array([posterior.sample(2_000, x, seed=0)[:, 0].mean() for x in points])
            off.append(float(np.abs(found - exact).mean()))
        yield Row(f"{name}, Gamma or log-normal", "mean absolute error of P(model)", 0.0, *off)


def avoiding(seed: int, size: float) -> Iterator[Row]:
    """Effective valid runs per cost with and without `avoid_failures`, and the mass that fails (0.4)."""
    ratio, mass = [], []
    with tempfile.TemporaryDirectory() as folder:
        for avoid in (True, False):
            c = th.Campaign(Path(folder) / str(avoid), failures.simulate, failures.PRIOR, seed=seed, cost="reported")
            c.pilot(60, **failures.QUIET)
            c.plan(n=max(int(size * 400), 100), cost=failures.cost_of, avoid_failures=avoid)
            c.run(**failures.QUIET)
            sims = c.simulations(max_failed=1.0)
            mass.append(
                [
                    float(weights @ ~sims.ok)
                    for weights in (th.normalise(sims.log_weights), np.ones(len(sims)) / len(sims))
                ]
            )
            rest = sims[60:]
            ratio.append(th.ess(rest.log_weights[rest.ok]) / failures.cost_of(rest.theta).sum())
    yield Row(
        "40 % of the prior fails",
        "effective valid runs per cost, over those of a plan that does not avoid",
        best_gain(),
        ratio[0] / ratio[1],
        1.0,
    )
    yield Row("40 % of the prior fails", "failed mass of the prior", 0.4, *mass[0])


def best_gain() -> float:
    """The gain of a plan that knows exactly where runs fail and keeps the least share of draws there."""
    a, b = (np.arange(400) + 0.5) / 400, (np.arange(400) + 0.5) / 400
    valid, cost = (a <= failures.FAILS_ABOVE)[:, None], (1 + 4 * b)[None]

    def rate(finish: np.ndarray) -> float:
        density = np.sqrt(finish / cost)
        density = density / density.mean()
        return float(np.mean(valid) ** 2 / np.mean(valid / density) / np.mean(density * cost))

    return rate(np.where(valid, 1.0, FLOOR) * np.ones_like(cost)) / rate(np.ones((400, 400)))


def robust(seed: int, size: float) -> Iterator[Row]:
    """One of five statistics is wrong: coverage of 90 % intervals, and widths where nothing is wrong."""
    rng, n = np.random.default_rng([seed, 9]), max(int(size * 3_000), 300)
    runs, count = contaminated.simulations(n, rng), 400
    robust = th.NPE(contaminated.PRIOR, noise=contaminated.NOISE).fit(runs, seed=seed)
    plain = th.NPE(contaminated.PRIOR).fit(runs, seed=seed)
    for wrong, case in ((True, "one statistic of five is wrong"), (False, "nothing is wrong")):
        truth, x = contaminated.observations(count, rng, wrong=wrong)
        mean, sd = contaminated.exact(x)
        drawn = [p.sample_batched(300, x, seed=1)[..., 0] for p in (robust, plain)]
        cover = [contaminated.coverage(d, truth) for d in drawn]
        exact = float((np.abs(truth - mean) < stats.norm.ppf(0.95) * sd).mean())
        yield Row(f"robust NPE, {case}", "coverage of 90 % (known: exact robust one; mutant: plain NPE)", exact, *cover)
        off = [float(np.sqrt(np.mean(np.square((d.mean(1) - mean) / sd)))) for d in drawn]
        yield Row(f"robust NPE, {case}", "mean off by (sd; mutant: plain NPE)", 0.0, *off)
        if not wrong:
            sharp = np.sqrt(1 / (1 + contaminated.STATISTICS / contaminated.SD**2))
            yield Row(
                f"robust NPE, {case}",
                "width over the exact plain one (known: exact robust one)",
                float((sd / sharp).mean()),
                float(drawn[0].std(1).mean() / sharp),
            )
    runs = contaminated.simulations(max(int(size * 20_000), 2_000), rng)
    truth, x = contaminated.observations(60, rng, wrong=True)
    off = []
    for distance in (th.distances.Manhattan(), th.distances.Euclidean()):
        posterior = th.ABC(contaminated.PRIOR, quantile=0.01, distance=distance, adjust="none").fit(runs)
        found = np.array([posterior.sample(200, one, seed=1).mean() for one in x])
        off.append(float(np.sqrt(np.mean(np.square(found - truth)))))
    yield Row("ABC, one statistic of five is wrong", "error of the mean (prior sd; mutant: Euclidean)", 0.0, *off)


def samplers(seed: int, size: float) -> Iterator[Row]:
    """NUTS on exact densities: Gaussians of 10 and 20 parameters, a funnel, two peaks."""
    n = max(int(size * 2_000), 500)
    for p in (10, 20):
        rng = np.random.default_rng([seed, p])
        prior, gradient, mean, spread = test_nuts.normal_problem(p, rng)
        sd = np.sqrt(np.diag(spread))
        found = []
        for used in (prior, th.Normal(np.zeros(p), np.full(p, 100.0))):  # the mutant: the prior forgotten
            chains = test_nuts.draw(gradient, used, n, rng, quiet=True)
            off = float(np.sqrt(np.mean(np.square((chains.samples.mean(0) - mean) / sd))))
            found.append((off, float((chains.samples.std(0) / sd).mean()), float(chains.rhat.max())))
        yield Row(f"NUTS, Gaussian of {p} parameters", "mean off by (sd)", 0.0, found[0][0], found[1][0])
        yield Row(f"NUTS, Gaussian of {p} parameters", "ratio of widths", 1.0, found[0][1], found[1][1])
        yield Row(f"NUTS, Gaussian of {p} parameters", "largest R-hat", 1.0, found[0][2])
    yield from sample_funnel(np.random.default_rng([seed, 1]), n)
    rng = np.random.default_rng([seed, 2])
    gradient, box = test_nuts.two_peaks(5, (0.02, 0.03), 3.0), th.Uniform(np.zeros(5), np.ones(5))
    share, _ = test_nuts.find_share(test_nuts.draw(gradient, box, n, rng, quiet=True))
    yield Row("NUTS, two peaks of 5 parameters", "mass of the larger", 0.75, share)


def sample_funnel(rng: np.random.Generator, n: int) -> Iterator[Row]:
    """A funnel of ten parameters; the mutant forgets the kinetic energy."""
    prior = th.Normal(np.zeros(10), np.full(10, 30.0))
    chains = test_nuts.draw(test_nuts.funnel(1.0), prior, n, rng, quiet=True)
    energy = nuts._Points.energy
    nuts._Points.energy = property(lambda points: points.value)
    try:
        mutant = test_nuts.draw(test_nuts.funnel(1.0), prior, n, rng, quiet=True, max_steps=20)
    finally:
        nuts._Points.energy = energy
    v, wrong = chains.samples[:, 0], mutant.samples[:, 0]
    yield Row("NUTS, funnel of 10 parameters", "mean of the log width (sd)", 0.0, float(v.mean()), float(wrong.mean()))
    yield Row("NUTS, funnel of 10 parameters", "sd of the log width", 1.0, float(v.std()), float(wrong.std()))
    yield Row("NUTS, funnel of 10 parameters", "largest R-hat", 1.0, float(chains.rhat.max()))
    p = float(stats.ks_1samp(v[:: max(int(np.ceil(n / min(chains.ess[0], n))), 1)], stats.norm.cdf).statistic)
    yield Row("NUTS, funnel of 10 parameters", "Kolmogorov distance of the log width", 0.0, p)


CASES: dict[str, Callable[[int, float], Iterator[Row]]] = {
    "1 evidence": evidence,
    "2 correction": corrected,
    "3 flow matching": flow_matching,
    "4 embeddings": embeddings,
    "5 device": devices,
    "6 conditionals": dimensions,
    "7 discrete": discrete,
    "8 failures": avoiding,
    "9 robustness": robust,
    "10 samplers": samplers,
}
