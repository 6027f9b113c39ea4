"""What the golden tests compute: each scenario returns named arrays that follow from fixed seeds alone.

Only public names of thrifty are used, so that modules may move.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th

sys.path.append(str(Path(__file__).parents[1]))
from golden.simulator import PRIOR, X_O, events, failing, slow

Values = dict[str, Any]
SCENARIOS: dict[str, Callable[[], Values]] = {}
QUIET = {"progress": "quiet"}
TRAINING = th.Training(max_epochs=4, batch=50, progress=False)
POINTS = np.column_stack([np.linspace(0.05, 0.95, 8), np.linspace(2.9, 1.1, 8)])


def scenario(function: Callable[[], Values]) -> Callable[[], Values]:
    """Enter a scenario into the list."""
    SCENARIOS[function.__name__] = function
    return function


def run(name: str) -> Values:
    """One scenario on one thread, so that sums are taken in one order; warnings are tested elsewhere."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), one_torch_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SCENARIOS[name]()


class one_torch_thread:  # noqa: N801 - used like a function
    """Torch on one thread inside, where it is loaded or installed."""

    def __enter__(self) -> None:
        try:
            import torch
        except ImportError:
            self.torch = None
            return
        self.torch, self.before = torch, torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        if self.torch is not None:
            self.torch.set_num_threads(self.before)


# --- draws ---


def known_cost(theta):
    return 1.0 + 20.0 * np.mean(theta**2, axis=1)


def prior_of(dim: int):
    return th.Uniform(np.zeros(dim), np.ones(dim)) if dim != 6 else th.Normal(np.zeros(dim), np.ones(dim))


def timings(prior: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    theta = prior.sample(n, rng)
    return theta, known_cost(theta) * rng.lognormal(0.0, 0.2, n)


def figures(q: Any) -> np.ndarray:
    return np.array([q.gain, q.ess_fraction, q.expected_cost, q.acceptance])


def draws_in(dim: int) -> Values:
    prior, out = prior_of(dim), {}
    probe = prior.sample(40, np.random.default_rng(9))
    theta, seconds = timings(prior, 60)
    costs = {
        "function": known_cost,
        "gp": th.fit_cost(theta, seconds, model=th.GaussianProcess()),
        "polynomial": th.fit_cost(theta, seconds, model=th.Polynomial(2)),
    }
    for label, cost in costs.items():
        q = th.CostAware(prior, cost, th.Power(0.5))
        draws = q.sample(200, 1)
        out |= {f"{label}/cost": cost(probe), f"{label}/theta": draws.theta, f"{label}/log_weights": draws.log_weights}
        out |= {f"{label}/figures": figures(q), f"{label}/log_prob": q.log_prob(probe)}
    for label in ("gp", "polynomial"):
        c = costs[label]
        out[f"{label}/fit"] = np.array([c.scale, c.score, c.bias, c.coverage, c.low, c.high, c.noise])
    penalised = th.CostAware(prior, costs["polynomial"], th.Power(1.0))
    for scheme in ("balance", "paper"):
        mixture = th.Mixture(prior, costs["polynomial"], powers=(0, 0.5, 2), shares=(0.2, 0.5, 0.3), scheme=scheme)
        draws = mixture.sample(150, 2)
        out |= {f"{scheme}/theta": draws.theta, f"{scheme}/log_weights": draws.log_weights}
        out |= {f"{scheme}/figures": figures(mixture)}
        if draws.component is not None:
            out[f"{scheme}/component"] = draws.component
        else:
            pool = th.Pool(((30, prior), (50, penalised), (20, mixture)), prior)
            out |= {"pool/log_weight": pool.log_weight(probe), "pool/log_prob": pool.log_prob(probe)}
    return out


@scenario
def draws_1d() -> Values:
    return draws_in(1)


@scenario
def draws_2d() -> Values:
    return draws_in(2)


@scenario
def draws_6d() -> Values:
    return draws_in(6)


@scenario
def priors() -> Values:
    from scipy import stats

    out = {}
    made = {
        "uniform": th.Uniform([0.0, -1.0], [2.0, 1.0]),
        "normal": th.Normal([0.0, 1.0], [1.0, 2.0]),
        "loguniform": th.LogUniform([0.1, 1.0], [10.0, 100.0]),
        "independent": th.Independent({"rate": stats.gamma(2.0), "shift": stats.norm(0, 3)}),
    }
    for label, prior in made.items():
        theta = prior.sample(50, np.random.default_rng(3))
        out |= {f"{label}/sample": theta, f"{label}/log_prob": prior.log_prob(theta)}
    return out


@scenario
def penalties() -> Values:
    out, prior = {}, th.Uniform(1.0, 10.0)
    kinds = {"power": th.Power(2.0, low=2.0), "custom": th.Custom(lambda z: 1.0 + z), "constant": th.Constant()}
    kinds |= {"at_most": th.AtMost(th.Power(1.0), 5.0), "at_least": th.AtLeast(th.Power(1.0), 3.0)}
    for label, penalty in kinds.items():
        draws = th.CostAware(prior, lambda t: t[:, 0], penalty).sample(60, 4)
        out |= {f"{label}/theta": draws.theta, f"{label}/log_weights": draws.log_weights}
    return out


@scenario
def tradeoff_and_recovery() -> Values:
    prior = prior_of(2)
    cost = th.fit_cost(*timings(prior, 60))
    table = th.tradeoff(prior, cost, mixtures=((0, 0.5, 1, 2),), n=20_000, seed=3)
    rows = [
        [r.k, r.gain, r.ess_fraction, r.product, r.saved, r.saved_per_effective, r.cost, r.acceptance] for r in table
    ]
    q = th.CostAware(prior, cost, th.Power(1.0))
    return {
        "rows": np.array(rows),
        "labels": np.array([row.label for row in table]),
        "table": np.array([table.ceiling, table.prior_cost, table.cost_range]),
        "chosen": np.array([table.choose(min_ess=0.8).k, table.choose(budget=100.0).k]),
        "p_value": th.prior_recovery(q, n=20_000, seed=4),
    }


@scenario
def weights() -> Values:
    rng = np.random.default_rng(6)
    theta, log_weights = rng.normal(size=(300, 2)), rng.normal(size=300)
    found = th.estimate(theta, log_weights)
    sims = th.Simulations.from_arrays(theta=np.abs(theta) / 5, x=theta, log_weights=log_weights)
    moved = th.reweight(sims, th.Uniform([0.0, 0.0], [0.5, 0.5]), old_prior=th.Uniform([0.0, 0.0], [1.0, 1.0]))
    exact = [f(1.0, 10.0, 0.5) for f in (th.closed_form.normaliser, th.closed_form.gain, th.closed_form.ess_fraction)]
    return {
        "mean": found.mean,
        "se": found.se,
        "ess": th.ess(log_weights),
        "pareto_k": th.pareto_k(log_weights),
        "normalised": th.normalise(log_weights),
        "resampled": th.resample(theta, log_weights, 40, rng=np.random.default_rng(7)),
        "reweighted": moved.log_weights,
        "closed_form": np.array([*exact, th.closed_form.ceiling(1.0, 10.0)]),
    }


# --- tables ---


def table(sims: th.Simulations, *, cost: bool = True) -> Values:
    """The columns of a table; costs only where they were reported."""
    out = {label: getattr(sims, label) for label in ("index", "theta", "x", "log_weights", "status")}
    return out | ({"cost": sims.cost} if cost else {})


def campaign_on(engine: Any) -> Values:
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(Path(home) / "c", events, PRIOR, seed=11, cost="reported")
        c.pilot(40, engine=engine(), **QUIET)
        first = c.plan(n=60)
        second = c.plan(n=30, penalty=1.0)
        c.run(engine=engine(), **QUIET)
        numbers = [[p.n, p.cost_per_run, p.total, p.plain, p.ess_fraction, p.p_value] for p in (first, second)]
        status = c.status()
        told = np.array([status.planned, status.done, status.spent, status.failed_mass, status.ess_fraction])
        return {**table(c.simulations()), "plans": np.array(numbers), "told": told}


@scenario
def campaign_inline() -> Values:
    return campaign_on(th.Inline)


@scenario
def campaign_processes() -> Values:
    return campaign_on(lambda: th.Processes(2))


@scenario
def campaign_dask() -> Values:
    return campaign_on(lambda: th.Dask(2))


@scenario
def campaign_budget() -> Values:
    """A budget in reported units, then a mixture up to a number of runs."""
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(Path(home) / "c", events, PRIOR, seed=12, cost="reported", unit="events")
        c.pilot(30, engine=th.Inline(), **QUIET)
        c.plan(budget="300 events")
        c.run(engine=th.Inline(), **QUIET)
        out = {f"first/{label}": value for label, value in table(c.simulations()).items()}
        c.plan(n=25, mixture=True)
        c.run(engine=th.Inline(), **QUIET)
        out |= {f"second/{label}": value for label, value in table(c.simulations()).items()}
        status = c.status()
        return out | {"told": np.array([status.planned, status.done, status.spent, status.not_admitted])}


@scenario
def campaign_two_realisations() -> Values:
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(Path(home) / "c", events, PRIOR, seed=13, cost="reported", m=2)
        c.pilot(20, engine=th.Inline(), **QUIET)
        c.plan(n=20)
        c.run(engine=th.Inline(), **QUIET)
        return table(c.simulations())


def failing_at_known_cost(theta, rng):
    """Report the known cost: a given cost is compared with what runs take, and the clock must not decide anything."""
    return th.Output(failing(theta, rng), cost=float(known_cost(theta[None, :])[0]))


@scenario
def campaign_failing() -> Values:
    """A share of runs fails; costs are those of a known function, as failed runs report none."""
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(Path(home) / "c", failing_at_known_cost, PRIOR, seed=14, cost="reported")
        c.pilot(30, engine=th.Inline(), **QUIET)
        c.plan(n=30, cost=known_cost, avoid_failures=False)  # as recorded, before plans could avoid them
        c.run(engine=th.Inline(), **QUIET)
        chances = np.asarray(c.failure_map()(POINTS))
        return {**table(c.simulations(max_failed=1.0), cost=False), "finish": chances}


@scenario
def simulate_in_memory() -> Values:
    draws = th.CostAware(PRIOR, known_cost, th.Power(1.0)).sample(80, 8)
    out = {}
    for label, engine in {"inline": th.Inline(), "processes": th.Processes(2)}.items():
        sims = th.simulate(failing, draws, seed=15, engine=engine, **QUIET)
        out |= {f"{label}/{name}": value for name, value in table(sims, cost=False).items()}
    return out | {"failed_mass": sims.failed_mass}


@scenario
def lazy_limit() -> Values:
    """Runs take no time or two seconds, so that only a machine that stands still for a second changes this."""
    theta = PRIOR.sample(14, np.random.default_rng(16))
    sims = th.simulate(slow, th.Draws(theta), seed=17, time_limit=1.0, on_timeout="lazy", workers=2, **QUIET)
    return table(sims, cost=False)


@scenario
def bundled_models() -> Values:
    out = {}
    for label in ("GaussianToy", "Gamma", "HomogeneousSIR", "TemporalSIR", "BernoulliSIR", "Radio"):
        model = getattr(th.models, label)()
        theta = model.prior.sample(3, np.random.default_rng(30))
        sims = model.simulate_many(th.Draws(theta), seed=31)
        out |= {f"{label}/theta": theta, f"{label}/x": sims.x, f"{label}/cost": sims.cost}
    return out


# --- SMC-ABC ---


def smc_values(study: th.Study) -> Values:
    post = study.posterior
    out = {f"pool/{label}": value for label, value in table(study.simulations).items()}
    out |= {"theta": post.theta, "log_weights": post.log_weights, "epsilon": post.epsilon, "mean": post.mean}
    generations = [[g.n, g.cost, g.predicted, g.epsilon, g.ess, g.acceptance] for g in study.generations]
    return out | {"generations": np.array(generations), "samples": post.sample(50, seed=1), "stopped": study.stopped}


@scenario
def smc_abc_in_memory() -> Values:
    return smc_values(th.SMCABC(PRIOR, particles=30).run(events, X_O, n=250, seed=18, engine=th.Inline()))


@scenario
def smc_abc_budget_and_epsilon() -> Values:
    settings = th.SMCABC(PRIOR, particles=20, epsilon=0.05, adjust="linear", penalty=1.0)
    return smc_values(settings.run(events, X_O, budget=600.0, seed=19, engine=th.Inline()))


@scenario
def smc_abc_in_a_campaign() -> Values:
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(Path(home) / "c", events, PRIOR, seed=20, cost="reported")
        study = th.SMCABC(PRIOR, particles=20).run(c, X_O, n=150, engine=th.Inline())
        return smc_values(study)


@scenario
def infer_abc() -> Values:
    """The whole journey in one call, and called again."""
    with tempfile.TemporaryDirectory() as home:
        settings = {"n": 100, "method": th.ABC(PRIOR, quantile=0.4), "folder": Path(home) / "c", "seed": 21}
        study = th.infer(events, PRIOR, X_O, cost="reported", workers=1, **settings)
        again = th.infer(events, PRIOR, X_O, cost="reported", workers=1, **settings)
        return {**table(study.simulations), "samples": study.samples, "again": again.samples}


# --- inference ---


def runs(n: int = 300, m: int = 1) -> th.Simulations:
    """Weighted runs of the simulator, without a campaign."""
    rng = np.random.default_rng(22)
    q = th.CostAware(PRIOR, th.fit_cost(*timings(PRIOR, 60), model=th.Polynomial(2)), th.Power(0.5))
    theta = q.sample(n, rng).theta
    x = theta[:, None] + np.array([0.2, 0.4]) * rng.normal(size=(n, m, 2))
    cost = known_cost(theta) * rng.lognormal(0.0, 0.1, n)
    names = PRIOR.names
    return th.Simulations.from_arrays(theta=theta, x=x if m > 1 else x[:, 0], proposal=q, cost=cost, m=m, names=names)


def methods() -> dict[str, tuple[Any, int]]:
    """Every method with small settings, and the realisations its table needs."""
    small = th.MixtureDensity(2, hidden=(16,))
    npe = th.NPE(PRIOR, network=small, training=TRAINING)
    return {
        "npe": (npe, 1),
        "npe_spline": (th.NPE(PRIOR, network=th.NSF(transforms=1, hidden=(16,), bins=4), training=TRAINING), 1),
        "npe_after": (th.NPE(PRIOR, network=small, correction="after", training=TRAINING), 1),
        "npe_atomic": (th.NPE(PRIOR, network=small, correction="atomic", training=TRAINING), 1),
        "npe_embedded": (
            th.NPE(PRIOR, network=small, embedding=th.MLPEmbedding(4, hidden=(8,)), training=TRAINING),
            1,
        ),
        "npe_set": (th.NPE(PRIOR, network=small, embedding=th.SetEmbedding(4, hidden=(8,)), training=TRAINING), 3),
        "nle": (th.NLE(PRIOR, network=th.MAF(transforms=2, hidden=(16,)), training=TRAINING), 1),
        "nre": (th.NRE(PRIOR, network=th.Classifier(hidden=16, blocks=1), training=TRAINING), 1),
        "ensemble": (th.Ensemble(npe, members=2), 1),
        "abc": (th.ABC(PRIOR, quantile=0.2), 1),
        "abc_linear": (th.ABC(PRIOR, n_accept=80, adjust="linear"), 1),
        "abc_local": (th.ABC(PRIOR, quantile=0.3, adjust="local", distance=th.distances.Mahalanobis()), 1),
        "abc_energy": (th.ABC(PRIOR, quantile=0.3, distance=th.distances.Energy()), 10),
        "synthetic": (th.SyntheticLikelihood(PRIOR), 10),
        "synthetic_pointwise": (
            th.SyntheticLikelihood(PRIOR, likelihood=th.likelihoods.SemiParametric(), how="pointwise"),
            10,
        ),
        "scoring": (th.ScoringRule(PRIOR), 20),
        "scoring_kernel": (th.ScoringRule(PRIOR, score="kernel", weight=1.0, how="regression"), 10),
    }


NEURAL = ("npe", "npe_spline", "npe_after", "npe_atomic", "npe_embedded", "npe_set", "nle", "nre", "ensemble")


def observed(name: str) -> np.ndarray:
    """Several data where the method reads a set, else one."""
    sets = np.random.default_rng(23).normal(X_O, [0.2, 0.4], (10, 2))
    return sets if name in ("abc_energy", "scoring", "scoring_kernel") else sets[:3] if name == "npe_set" else X_O


def fitted(name: str) -> Any:
    method, m = methods()[name]
    return method.fit(runs(150 if m > 1 else 300, m), seed=24)


def told(post: Any, name: str) -> Values:
    """Draws and densities of a posterior."""
    x_o = observed(name)
    return {"samples": post.sample(40, x_o, seed=25), "log_prob": post.log_prob(POINTS, x_o)}


def inference_by(name: str) -> Callable[[], Values]:
    def compute() -> Values:
        post = fitted(name)
        out = told(post, name)
        if hasattr(post, "curve"):
            out |= {"train": np.array(post.curve.train), "validation": np.array(post.curve.validation)}
        if hasattr(post, "accepted"):
            accepted = post.accepted(observed(name))
            out |= {"accepted/theta": accepted.theta, "accepted/log_weights": accepted.log_weights}
        with tempfile.TemporaryDirectory() as home:
            post.save(Path(home) / "posterior.npz")
            again = told(th.load_posterior(Path(home) / "posterior.npz"), name)
        return out | {f"loaded/{label}": value for label, value in again.items()}

    return compute


LISTED = (*NEURAL, "abc", "abc_linear", "abc_local", "abc_energy", "synthetic", "synthetic_pointwise", "scoring")
SCENARIOS |= {f"inference_{name}": inference_by(name) for name in (*LISTED, "scoring_kernel")}


# --- checks and metrics ---


def calibration_values(post: Any, sims: th.Simulations, *, pairs: int, draws: int) -> Values:
    out, settings = {}, {"pairs": pairs, "draws": draws, "seed": 26}
    shared = th.diagnostics.replicate(post, sims, **settings)
    out["draws"] = shared.draws
    for check in (th.diagnostics.sbc, th.diagnostics.coverage, th.diagnostics.tarp):
        found = check(shared, seed=27)
        out |= {f"{found.name}/ranks": found.ranks, f"{found.name}/p_values": found.p_values}
        out |= {f"{found.name}/gaps": found.gaps, f"{found.name}/low": found.low, f"{found.name}/ess": found.ess}
    return out


@scenario
def calibration_of_abc() -> Values:
    return calibration_values(th.ABC(PRIOR, quantile=0.3).fit(runs(400)), runs(60), pairs=60, draws=20)


@scenario
def calibration_of_npe() -> Values:
    return calibration_values(fitted("npe"), runs(60), pairs=60, draws=20)


@scenario
def diagnosis() -> Values:
    """All checks in one call; words as well as numbers."""
    sims = runs(300)
    found = th.diagnose(th.ABC(PRIOR, quantile=0.3).fit(sims), sims, X_O, prior=PRIOR, cost=known_cost, seed=28)
    p_values = [getattr(check, "p_value", None) for check in found]
    return {
        "names": np.array([check.name for check in found]),
        "verdicts": np.array([check.verdict for check in found]),
        "reasons": np.array([check.reason for check in found]),
        "notes": np.array(list(found.notes) or [""]),
        "p_values": np.array([np.nan if p is None else p for p in p_values], dtype=np.float64),
        "verdict": found.verdict,
    }


@scenario
def metrics() -> Values:
    rng = np.random.default_rng(29)
    x, y, w = rng.normal(size=(120, 2)), rng.normal(0.3, 1.0, (100, 2)), rng.random(120)
    ks = th.metrics.ks(x, y, x_weights=w)
    return {
        "mmd2": np.array([th.metrics.mmd2(x, y), th.metrics.mmd2(x, y, x_weights=w, unbiased=True)]),
        "median_distance": th.metrics.median_distance(y),
        "c2st": np.array([th.metrics.c2st(x, y, seed=1), th.metrics.c2st(x, y, x_weights=w, seed=2)]),
        "ks": ks.statistic,
        "ks_p": ks.p_value if hasattr(ks, "p_value") else ks.p_values,
        "energy": th.metrics.energy_distance(x, y, x_weights=w),
        "wasserstein": th.metrics.sliced_wasserstein(x, y, x_weights=w, seed=3),
    }
