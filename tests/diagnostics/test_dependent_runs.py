"""Several realisations of one theta are not several runs, and a run of weight zero is none."""

from __future__ import annotations

import numpy as np

import thrifty as th
from thrifty import diagnostics
from thrifty.diagnostics.arguments import choose_independent_runs


class Noisy:
    """theta ~ N(0, 1), x = theta + 3 N(0, 1): exactly right."""

    prior = th.Normal(0, 1)

    def sample(self, n, x_o, *, seed):
        return 0.1 * np.asarray(x_o) + np.sqrt(0.9) * np.random.default_rng(seed).normal(size=(n, 1))

    def log_prob(self, theta, x_o):
        return -((np.asarray(theta)[:, 0] - 0.1 * np.ravel(x_o)[0]) ** 2) / 1.8


def repeated(rng, n, m):
    theta = rng.normal(size=(n, 1))
    return th.Simulations.from_arrays(theta=theta, x=theta[:, None] + 3 * rng.normal(size=(n, m, 1)), m=m)


def test_a_right_posterior_is_accepted_with_several_realisations_a_run(seed):
    found = []
    for i in range(20):
        runs = repeated(np.random.default_rng(seed + i), 100, 10)
        replicates = diagnostics.replicate(Noisy(), runs, pairs=300, density=False, seed=i)
        assert replicates.ess == 100 and replicates.x.shape == (100, 1)
        found.append([diagnostics.sbc(replicates).p_value, diagnostics.tarp(replicates).p_value])
    assert (np.sum(np.array(found) < 0.05, axis=0) <= 5).all()  # of 20; more has chance 3e-4; half were rejected


def test_the_realisation_is_chosen_at_random_and_theta_goes_with_it(rng):
    theta = np.arange(300.0)[:, None]
    runs = th.Simulations.from_arrays(theta=theta, x=theta[:, None] + np.array([0.0, 0.25, 0.5])[:, None], m=3)
    kept, x, _ = choose_independent_runs(runs, rng)
    offset = x[:, 0] - kept[:, 0]
    assert set(offset) == {0.0, 0.25, 0.5} and min(np.sum(offset == o) for o in set(offset)) > 60


def test_outputs_of_one_run_are_not_counted_as_many(rng):
    runs = repeated(rng, 200, 20)
    assert diagnostics.predictive(Noisy(), runs, [0.5]).ess <= 200
    assert diagnostics.misspecification(runs, [0.5]).ess == 200


def test_runs_of_weight_zero_are_no_neighbours(rng):
    theta = rng.uniform(0, 1, (2000, 1))
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.02 * rng.normal(size=theta.shape))
    narrow = th.reweight(runs, th.Uniform(0, 0.3), old_prior=th.Uniform(0, 1))
    result = diagnostics.misspecification(narrow, [0.9])  # the model under its prior gives at most about 0.38
    assert result.verdict == "do not trust" and result.outside == ("x_1",)
    assert diagnostics.misspecification(narrow, [0.2]).verdict == "trust"


def test_a_posterior_that_no_run_supports_has_no_predictive(rng):
    class Elsewhere(Noisy):
        def log_prob(self, theta, x_o):
            return np.where(np.asarray(theta)[:, 0] > 50, 0.0, -np.inf)

        def sample(self, n, x_o, *, seed):
            return np.full((n, 1), 60.0)

    result = diagnostics.predictive(Elsewhere(), repeated(rng, 100, 2), [0.5])
    assert result.ess == 0 and result.verdict == "with care"
    assert th.plots.predictive(result).axes
