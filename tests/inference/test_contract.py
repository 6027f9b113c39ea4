"""Every method through every kind of table, and through a file: what it learns from, keeps, and refuses.

A new method is one row of `METHODS`; a new kind of table one row of `TABLES`. What cannot be is a row of `REFUSED`,
with the words that tell the user so.
"""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th

N, M = 120, 6
NUMBERS = th.Uniform([0.0, -1.0], [2.0, 1.0], names=["a", "b"])
MIXED = th.Independent({"a": th.Categorical([0.4, 0.6], ["low", "high"]), "b": th.Uniform(-1.0, 1.0)})
X_NAMES = ("first", "second", "sum")
X_O = np.array([0.9, 0.1, 0.5])
SHORT = th.Training(max_epochs=2)
MDN = th.MixtureDensity(components=2, hidden=(8,))


class CorrectedNPE:
    """NPE corrected by NLE, both fitted to one table."""

    def __init__(self, prior) -> None:
        self.parts = METHODS["npe-mdn"](prior), METHODS["nle"](prior)

    def fit(self, table, seed):
        return th.Corrected(*(part.fit(table, seed=seed) for part in self.parts))


def embed(embedding):
    return lambda prior: th.NPE(prior, network=MDN, embedding=embedding, training=SHORT)


METHODS = {
    "npe": lambda prior: th.NPE(prior, network=th.AutoregressiveMixture(members=2, hidden=(8,)), training=SHORT),
    "npe-flow": lambda prior: th.NPE(prior, network=th.NSF(transforms=1, hidden=(8,)), training=SHORT),
    "npe-after": lambda prior: th.NPE(prior, network=MDN, correction="after", training=SHORT),
    "npe-atomic": lambda prior: th.NPE(prior, network=MDN, correction="atomic", training=SHORT),
    "npe-mdn": embed(None),
    "npe-embedded": embed(th.MLPEmbedding(2, (4,))),
    "npe-sets": embed(th.SetEmbedding(2, (4,))),
    "npe-images": embed(th.ImageEmbedding(2, (4,))),
    "npe-series": embed(th.SequenceEmbedding(2, (4,))),
    "npe-robust": lambda prior: th.NPE(prior, network=MDN, noise=th.SpikeAndSlab(copies=1), training=SHORT),
    "npe-corrected": CorrectedNPE,
    "fmpe": lambda prior: th.FMPE(prior, network=th.FlowMatching(hidden=(8,)), training=SHORT),
    "nle": lambda prior: th.NLE(prior, network=MDN, training=SHORT, failures="model"),
    "nre": lambda prior: th.NRE(prior, training=SHORT, failures="model"),
    "abc": lambda prior: th.ABC(prior, quantile=0.5),
    "abc-linear": lambda prior: th.ABC(prior, quantile=0.5, adjust="linear"),
    "synthetic": lambda prior: th.SyntheticLikelihood(prior, how="pointwise"),
    "synthetic-surrogate": th.SyntheticLikelihood,
    "scoring": lambda prior: th.ScoringRule(prior, weight=1.0),
    "ensemble": lambda prior: th.Ensemble(th.NPE(prior, network=MDN, training=SHORT), members=2),
}
TABLES = ("weighted", "realisations", "failed", "named", "discrete", "discrete realisations")
ONE_RUN = "one run per parameter"  # likelihoods from several runs need several
REFUSED = {
    **{
        (m, t): ONE_RUN
        for m in ("synthetic", "synthetic-surrogate", "scoring")
        for t in ("weighted", "failed", "named")
    },
    ("synthetic", "discrete"): ONE_RUN,
    ("scoring", "discrete"): ONE_RUN,
    **{("synthetic-surrogate", t): "smooth function of the parameters" for t in TABLES if t.startswith("discrete")},
    **{("fmpe", t): "cannot learn whole numbers" for t in TABLES if t.startswith("discrete")},
    **{("abc-linear", t): "moves parameters along a line" for t in TABLES if t.startswith("discrete")},
}


def prior_of(table: str):
    return MIXED if table.startswith("discrete") else NUMBERS


def cost_of(theta):
    return np.exp(theta[:, 0])


def make_table(kind: str) -> th.Simulations:
    """A table of N cost-aware runs; the cost is fitted, so that the proposal can be written as numbers."""
    rng, prior = np.random.default_rng(5), prior_of(kind)
    pilot = prior.sample(40, rng)
    fitted = th.fit_cost(pilot, cost_of(pilot), model=th.Polynomial(1), prior=prior)
    draws = th.CostAware(prior, fitted, th.Power(0.5)).sample(N, rng)
    m = M if kind.endswith("realisations") else 1
    x = np.column_stack([draws.theta, draws.theta.sum(1)])[:, None] + 0.3 * rng.normal(size=(N, m, 3))
    if kind == "failed":
        x[draws.theta[:, 0] > 1.7] = np.nan
    names = {"names": prior.names, "x_names": X_NAMES} if kind == "named" else {}
    return th.Simulations.from_arrays(
        theta=draws.theta, x=x if m > 1 else x[:, 0], proposal=draws.proposal, m=m, **names
    )


def shape_table(table: th.Simulations, name: str) -> th.Simulations:
    """The same runs with outputs of the shape that an embedding reads: images of 3 x 3, series of 3 points."""
    x = shape_output(table.x, name)
    kept = {"theta": table.theta, "proposal": table.proposal, "m": table.m, "names": table.names}
    return table if x is table.x else th.Simulations.from_arrays(x=x, **kept)


def shape_output(x: np.ndarray, name: str) -> np.ndarray:
    if name == "npe-images":
        return x[..., None] * np.array([1.0, 0.5, -1.0])
    return np.stack([x, np.where(np.isnan(x), np.nan, 1.0)], axis=-1) if name == "npe-series" else x


TABLE_OF = {kind: make_table(kind) for kind in TABLES}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", METHODS)
def test_contract(name, kind, tmp_path):
    table, x_o = shape_table(TABLE_OF[kind], name), shape_output(X_O, name)
    if (name, kind) in REFUSED:
        with pytest.raises(th.ThriftyError, match=REFUSED[name, kind]):
            METHODS[name](prior_of(kind)).fit(table, seed=1)
        return
    prior = prior_of(kind)
    posterior = METHODS[name](prior).fit(table, seed=1)
    draws = posterior.sample(40, x_o, seed=2)
    assert draws.shape == (40, 2) and np.isfinite(prior.log_prob(draws)).all()
    assert np.array_equal(posterior.sample(40, x_o, seed=2), draws)
    assert tuple(posterior.names or prior.names) == prior.names
    posterior.save(tmp_path / "posterior.npz")
    again = th.load_posterior(tmp_path / "posterior.npz")
    assert type(again) is type(posterior) and again.parameter_levels == posterior.parameter_levels
    assert np.array_equal(again.sample(40, x_o, seed=2), draws)


def test_the_weights_of_every_table_differ():
    """A contract over equal weights would not see that they are lost."""
    for table in TABLE_OF.values():
        assert np.ptp(table.log_weights) > 0.4


@pytest.mark.parametrize("kind", TABLES)
def test_tables_come_back_from_files(kind, tmp_path):
    table = TABLE_OF[kind]
    table.to_npz(tmp_path / "table.npz")
    again = th.Simulations.from_npz(tmp_path / "table.npz")
    assert again.m == table.m and again.x_names == table.x_names and np.array_equal(again.status, table.status)
    assert np.array_equal(again.x, table.x, equal_nan=True) and np.array_equal(again.log_weights, table.log_weights)
    assert again.labels == table.labels == ({"a": ("low", "high")} if kind.startswith("discrete") else {})


@pytest.mark.filterwarnings("ignore")
def test_smc_abc_and_rounds_take_discrete_parameters(seed, tmp_path):
    def simulator(theta, rng):
        return np.append(theta, theta.sum()) + 0.3 * rng.normal(size=3)

    for method in (th.SMCABC(MIXED, particles=40), th.Rounds(METHODS["nle"](MIXED), rounds=2)):
        study = method.run(simulator, X_O, n=200, seed=seed)
        draws = study.posterior.sample(30, X_O, seed=0)
        assert np.isfinite(MIXED.log_prob(draws)).all()
        study.posterior.save(tmp_path / "posterior.npz")
        again = th.load_posterior(tmp_path / "posterior.npz")
        assert np.array_equal(again.sample(30, X_O, seed=0), draws)
