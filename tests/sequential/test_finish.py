"""The last step of SMC-ABC: a network on the pool near x_o, with the known posterior, and what would be wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import thrifty as th
from thrifty.errors import ConfigError
from thrifty.sequential.finish import choose_runs

PRIOR = th.Normal(0.0, 1.0)
X_O = 1.4
MEAN, SD = X_O / 2, np.sqrt(0.5)  # of N(0, 1) after one x ~ N(theta, 1)
RUNS = 1_200
# A network on n runs of one parameter finds mean and width to a few SD/√n; the mutants below are off by half an SD.
MARGIN = 6 * SD / np.sqrt(RUNS)
QUICK = th.Training(max_epochs=60, progress=False)


class Toy:
    """theta ~ N(0, 1), x ~ N(theta, 1), cost exp(0.6 theta)."""

    def simulate_many(self, draws: th.Draws, seed: int, *, start: int = 0, workers: int = 1) -> th.Simulations:
        rng = np.random.default_rng([seed, start])
        x = draws.theta + rng.normal(size=draws.theta.shape)
        return th.Simulations.from_arrays(theta=draws.theta, x=x, cost=np.exp(0.6 * draws.theta[:, 0]))


def is_near(draws: npt.NDArray[np.float64], mean: float = MEAN) -> bool:
    error = 5 * draws.std() / np.sqrt(len(draws))
    return bool(abs(draws.mean() - mean) < MARGIN + error and abs(draws.std() - SD) < MARGIN + error)


@pytest.fixture(scope="module", params=[th.NPE, th.NLE], ids=["NPE", "NLE"])
def study(request: pytest.FixtureRequest) -> th.Study:
    finish = request.param(PRIOR, network=th.MixtureDensity(1), training=QUICK)
    return th.SMCABC(PRIOR, particles=100, finish=finish).run(Toy(), [X_O], n=RUNS, seed=3)


def test_the_posterior_is_the_known_one(study: th.Study):
    assert len(study.simulations) == RUNS and study.method in ("smcabc-npe", "smcabc-nle")
    assert is_near(study.samples[:, 0]), (study.samples.mean(), study.samples.std())
    assert f"{study.method} at x_o of 1 value" in str(study) and "accepted runs" not in str(study)


def test_a_likelihood_of_runs_chosen_by_x_is_another_one(study: th.Study):
    """The mutant: among runs near x_o, x says little of theta, and the posterior falls back towards the prior."""
    distances = np.abs(study.simulations.x[:, 0] - X_O)
    near = study.simulations[np.argsort(distances)[: RUNS // 3]]
    wrong = th.NLE(PRIOR, network=th.MixtureDensity(1), training=QUICK).fit(near, seed=3).sample(2_000, [X_O], seed=0)
    assert not is_near(wrong[:, 0])


def test_a_direct_posterior_without_its_weights_is_another_one(study: th.Study):
    """The mutant: the draws crowd where the posterior is, and the weights undo that."""
    near = study.simulations[choose_runs(th.NPE(PRIOR), study.simulations, np.abs(study.simulations.x[:, 0] - X_O))]
    plain = th.Simulations.from_arrays(theta=near.theta, x=near.x, names=near.names)
    method = th.NPE(PRIOR, network=th.MixtureDensity(1), training=QUICK)
    wrong = method.fit(plain, seed=3).sample(2_000, [X_O], seed=0)
    assert not is_near(wrong[:, 0])


def test_runs_near_x_o_for_npe_and_all_for_likelihoods():
    distances = np.arange(3_000.0)
    distances[:10] = np.inf  # failed runs
    runs = th.Simulations.from_arrays(theta=np.zeros((3_000, 1)), x=np.zeros((3_000, 1)))
    ensemble = th.Ensemble(th.NPE(PRIOR), 2)
    assert np.array_equal(choose_runs(ensemble, runs, distances), np.arange(10, 608))
    assert np.array_equal(choose_runs(th.NRE(PRIOR), runs, distances), np.arange(3_000))


def test_off_by_default():
    study = th.SMCABC(PRIOR, particles=50).run(Toy(), [X_O], n=300, seed=1)
    assert isinstance(study.posterior, th.WeightedPosterior) and study.method == "smcabc"


@pytest.mark.parametrize(
    ("finish", "words"),
    [(th.ABC(PRIOR), "not a last step"), ("npe", "not a last step"), (th.NPE(th.Normal(0.0, 2.0)), "another prior")],
)
def test_mistakes(finish: object, words: str):
    with pytest.raises(ConfigError, match=words):
        th.SMCABC(PRIOR, finish=finish)
