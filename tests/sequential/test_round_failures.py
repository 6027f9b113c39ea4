"""Failed runs in rounds: refused before more is paid for, said where they lie near the observation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, QualityGateError

pytestmark = pytest.mark.filterwarnings("ignore:the posterior takes")
PRIOR = th.Uniform([0.0], [10.0], names=["a"])
QUICK = th.MixtureDensity(1)


class Failing:
    """x = a + sd noise; a run fails with NaN where low < a < high. The table has no names, as those of arrays."""

    unit = "reported"

    def __init__(self, low, high, sd=0.05):
        self.low, self.high, self.sd, self.runs = low, high, sd, 0

    def simulate_many(self, draws, seed, *, start=0, workers=1):
        self.runs += len(draws)
        x = draws.theta + self.sd * np.random.default_rng([seed, start]).normal(size=draws.theta.shape)
        bad = (draws.theta[:, 0] > self.low) & (draws.theta[:, 0] < self.high)
        status = np.where(bad, "invalid", "ok")
        x[bad] = np.nan
        return th.Simulations(theta=draws.theta, x=x, cost=np.ones(len(x)), status=status)


def test_npe_in_rounds_is_refused_after_round_0_where_a_third_of_the_prior_fails(seed):
    model = Failing(6.5, 10)
    message = r"(?s)\[too-many-failures\].*nearly all with a > 6.*max_failed=0\."
    with pytest.raises(QualityGateError, match=message) as got:
        th.Rounds(th.NPE(PRIOR, network=QUICK), rounds=3).run(model, [6.5], n=600, seed=seed)
    assert model.runs == 150, "no run of round 1 was paid for"
    assert 'th.NLE(prior, failures="model")' in str(got.value)


def test_what_fails_is_accepted_on_request(seed):
    study = th.Rounds(th.NPE(PRIOR, network=QUICK), rounds=2, max_failed=0.7).run(
        Failing(5, 10), [2.0], n=240, seed=seed
    )
    assert len(study.simulations) == 240 and study.notes == ()


def test_few_failures_of_a_short_round_are_not_refused(seed):
    """One failure in fifty is 2 % of the mass, and shows nothing yet."""
    first = PRIOR.sample(100, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(10, 0))))[:, 0]
    low, _, high = np.sort(first)[-3:]
    model = Failing(low, high)  # one run of round 0, in the upper tail
    study = th.Rounds(th.NPE(PRIOR, network=QUICK), rounds=2, max_failed=0.005).run(model, [2.0], n=200, seed=seed)
    assert study.simulations.failed.sum() >= 1 and len(study.simulations) == 200


@pytest.mark.parametrize("make", [th.NPE, th.NLE])
def test_failures_near_the_observation_are_said(make, seed):
    """The hole takes 0.25 % of the prior, and a fifth of the posterior N(3, 0.05)."""
    method = th.Rounds(make(PRIOR, network=QUICK), rounds=3, tolerance=0)
    with pytest.warns(th.ThriftyWarning, match="runs near the observation failed"):
        study = method.run(Failing(2.985, 3.01), [3.0], n=900, seed=seed)
    assert study.simulations.failed_mass < 0.01, "the rule of prior mass does not see it"
    last = study.simulations[len(study.simulations) - study.generations[-1].n :]
    assert f"{last.failed.sum()} of {len(last)} runs" in study.notes[-1]
    words = 'no factor for them.*failures="model"' if make is th.NLE else "that of runs that finish.*missing in it"
    assert re.search(words, study.notes[-1])


def test_the_factor_is_learned_inside_a_narrow_posterior(seed):
    """All runs fail in the lower half of the posterior N(3, 0.05): P(valid | theta) leaves the other half.

    The region takes 1 % of the prior. On the scale of the prior alone, half of the draws stayed in it for one seed of
    three.
    """
    model, method = Failing(2.9, 3.0), th.NLE(PRIOR, network=QUICK, failures="model")
    study = th.Rounds(method, rounds=2, tolerance=0).run(model, [3.0], n=600, seed=seed)
    inside = (study.samples[:, 0] > 2.9) & (study.samples[:, 0] < 3.0)
    assert inside.mean() < 0.1
    alone = replace(study.posterior, valid=None).sample(2_000, [3.0], seed=0)[:, 0]
    assert np.mean((alone > 2.9) & (alone < 3.0)) > 0.15, "the mutant: without the factor"


def test_far_failures_and_modelled_ones_are_not_warned_of(seed):
    far = th.Rounds(th.NPE(PRIOR, network=QUICK), rounds=2, tolerance=0)
    assert far.run(Failing(8, 8.025), [3.0], n=400, seed=seed).notes == ()
    modelled = th.Rounds(th.NLE(PRIOR, network=QUICK, failures="model"), rounds=2, tolerance=0)
    assert modelled.run(Failing(2.985, 3.01), [3.0], n=400, seed=seed).notes == ()


def test_infer_passes_the_limit_on():
    method = th.NPE(PRIOR, network=QUICK)
    with pytest.raises(QualityGateError, match="at most 1% may fail"):
        th.infer(_fail_above, PRIOR, [2.0], n=120, rounds=2, method=method, workers=1)
    with pytest.warns(th.ThriftyWarning, match="conditional on runs that finish"):
        study = th.infer(_fail_above, PRIOR, [2.0], n=120, rounds=1, method=method, workers=1, max_failed=0.6)
    assert study.simulations.failed_mass > 0.01


def test_a_limit_that_is_no_share_is_refused():
    with pytest.raises(ConfigError, match=r"max_failed must lie in \[0, 1\]"):
        th.Rounds(th.NPE(PRIOR), max_failed=2.0)


def test_a_folder_in_which_nle_was_refused_goes_on_with_modelled_failures(tmp_path):
    """The first 100 draws of this seed miss the hole, those of round 1 do not: the advice uses what was paid."""
    campaign = th.Campaign(tmp_path / "c", _fail_near, PRIOR, seed=0, cost="reported")
    run = {"n": 300, "seed": 0, "engine": th.Inline()}
    refused = th.Rounds(th.NLE(PRIOR, network=QUICK), rounds=3, tolerance=0)
    with pytest.raises(QualityGateError, match=r'failures="model"'):
        refused.run(campaign, [3.0], **run)
    paid = campaign.status().done
    assert paid > 100, "the gate of a later round"
    before = campaign.simulations(allow_incomplete=True, max_failed=1).theta
    with pytest.raises(CampaignError, match="other-settings"):
        replace(refused, prior_share=0.3).run(campaign, [3.0], **run)
    modelled = replace(refused, method=th.NLE(PRIOR, network=QUICK, failures="model"))
    study = modelled.run(campaign, [3.0], **run)
    assert len(study.simulations) == 300 and np.array_equal(study.simulations.theta[:paid], before)
    assert len(modelled.run(campaign, [3.0], **run).simulations) == 300


def _fail_above(theta, rng):
    if theta[0] > 7:
        raise ValueError("no convergence")
    return theta + 0.5 * rng.normal(size=1)


def _fail_near(theta, rng):
    if 2.92 < theta[0] < 3.08:
        raise ValueError("no convergence")
    return th.Output(theta + 0.05 * rng.normal(size=1), cost=1.0)
