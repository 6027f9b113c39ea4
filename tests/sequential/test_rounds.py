"""Rounds at the observation: known posteriors, weights that matter, early stops, durability, clear mistakes."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, ThriftyWarning
from thrifty.proposals.kernel import KernelProposal
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential import round_loop
from thrifty.sequential.round_checks import measure_move, measure_volume

pytestmark = pytest.mark.filterwarnings("ignore:the posterior takes")
QUICK = th.MixtureDensity(1)  # the right family for a linear Gaussian


class Gaussian:
    """theta ~ N(0, I) in p parameters, x = theta + sd noise; cost grows with the first parameter."""

    unit = "reported"

    def __init__(self, p, sd=0.1, slope=0.8):
        self.prior, self.sd, self.slope = th.Normal(np.zeros(p), np.ones(p)), sd, slope

    def simulate_many(self, draws, seed, *, start=0, workers=1):
        rng = np.random.default_rng([seed, start])
        x = draws.theta + self.sd * rng.standard_normal(draws.theta.shape)
        return th.Simulations.from_arrays(theta=draws.theta, x=x, cost=np.exp(self.slope * draws.theta[:, 0]))

    def posterior(self, x_o):
        precision = 1 + self.sd**-2
        return np.asarray(x_o) * (precision - 1) / precision, precision**-0.5


def errors(samples, model, x_o):
    """Largest error of a mean in posterior sds, and of a log sd."""
    mean, sd = model.posterior(x_o)
    return np.abs((samples.mean(0) - mean) / sd).max(), np.abs(np.log(samples.std(0) / sd)).max()


@pytest.mark.parametrize("make", [th.NLE, th.NPE])
@pytest.mark.parametrize("p", [1, 2, 6])
def test_the_posterior_of_a_linear_gaussian_is_found(make, p, seed):
    """A posterior of a tenth of the prior's width, off its centre: mean to a third of an sd, width to a fifth."""
    model, x_o, n = Gaussian(p), np.linspace(0.4, 1.2, p), 600 * p
    study = th.Rounds(make(model.prior, network=QUICK), rounds=3).run(model, x_o, n=n, seed=seed)
    mean, width = errors(study.samples, model, x_o)
    assert mean < 0.33 and width < 0.2, (mean, width)
    assert len(study.simulations) <= n
    kind = TruncatedPrior if make is th.NPE else KernelProposal
    assert isinstance(study.generations[1].proposal, kind)


@pytest.mark.slow
@pytest.mark.parametrize("make", [th.NLE, th.NPE, th.NRE])
def test_ten_parameters(make, seed):
    model, x_o = Gaussian(10, sd=0.3), np.linspace(-1.0, 1.2, 10)
    study = th.Rounds(make(model.prior)).run(model, x_o, n=3_000, seed=seed)
    mean, width = errors(study.samples, model, x_o)
    assert mean < 0.5 and width < 0.3, (mean, width)


def test_npe_without_its_weights_is_wrong_and_with_them_right(seed, monkeypatch):
    """A wide posterior and a steep cost: what the weights of the pool are for. The mutant forgets them."""
    model, x_o = Gaussian(1, sd=0.7, slope=1.5), [1.0]
    method = th.Rounds(th.NPE(model.prior, network=QUICK), rounds=3, penalty=1.0, tolerance=0.0)
    right = errors(method.run(model, x_o, n=3_000, seed=seed).samples, model, x_o)
    assert right[0] < 0.15 and right[1] < 0.12, right
    fit, forgotten = th.NPE.fit, {"log_weights": None, "proposal": None}
    monkeypatch.setattr(th.NPE, "fit", lambda m, rows, seed=0: fit(m, replace(rows, **forgotten), seed=seed))
    assert errors(method.run(model, x_o, n=3_000, seed=seed).samples, model, x_o)[0] > 0.25


class Curved(Gaussian):
    """theta ~ U(-3, 3), x = sin(5 theta), cos(5 theta) and 0.2 theta with noise: theta is no line in x."""

    def __init__(self):
        super().__init__(1, sd=0.05)
        self.prior = th.Uniform([-3.0], [3.0])

    def simulate_many(self, draws, seed, *, start=0, workers=1):
        rng, t = np.random.default_rng([seed, start]), draws.theta
        x = np.hstack([np.sin(5 * t), np.cos(5 * t), 0.2 * t]) + self.sd * rng.standard_normal((len(t), 3))
        return th.Simulations.from_arrays(theta=t, x=x, cost=np.exp(self.slope * t[:, 0]))


@pytest.mark.slow
def test_npe_keeps_to_a_region_where_that_teaches_more_and_to_the_whole_prior_where_not(seed):
    """A narrow network on a curved problem is right near x_o only; on a linear one it is right everywhere."""
    curved, linear = Curved(), Gaussian(4, sd=0.3)
    for model, x_o, local in ((curved, [np.sin(2.5), np.cos(2.5), 0.1], True), (linear, np.full(4, 0.5), False)):
        method = th.Rounds(th.NPE(model.prior, network=QUICK), tolerance=0.0)
        study = method.run(model, x_o, n=2_400, seed=seed)
        last = study.generations[-1]
        assert (last.gain > 0) == local == isinstance(last.proposal, TruncatedPrior), (local, last.gain)
        assert local or isinstance(last.proposal, th.CostAware)
        assert th.ess(study.simulations.log_weights) > (100 if local else 1_200)  # a region leaves few for the prior


def test_the_pool_of_all_rounds_is_one_weighted_table(seed):
    model = Gaussian(2)
    study = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=3, tolerance=0.0).run(
        model, [0.5, 1.0], n=900, seed=seed
    )
    table = study.simulations
    parts = tuple((r.n, r.proposal) for r in study.generations)
    assert np.allclose(table.log_weights, th.Pool(parts, model.prior).log_weight(table.theta))
    assert np.exp(table.log_weights).max() <= len(table) / study.generations[0].n * (1 + 1e-9)
    first, elsewhere = study.generations[0].n, th.Rounds(th.NLE(model.prior, network=QUICK), rounds=3)
    other = elsewhere.run(model, [-0.5, 0.0], n=900, seed=seed).simulations
    assert np.array_equal(table.theta[:first], other.theta[:first])  # nothing is known of x_o in round 0


def test_a_budget_is_kept_and_shared_by_the_rounds(seed):
    model = Gaussian(1)
    study = th.Rounds(th.NLE(model.prior, network=QUICK), tolerance=0.0).run(model, [1.5], budget=600.0, seed=seed)
    spent = np.cumsum([r.cost for r in study.generations])
    largest = study.simulations.cost.max()
    assert study.stopped == "budget" and 0.97 * 600 < study.cost < 600 + 2 * largest
    assert np.all(np.abs(spent[1:] - [150, 300, 600]) < 3 * largest)  # round 0 has 100 runs at least
    assert study.generations[1].predicted == pytest.approx(study.generations[1].cost, rel=0.3)


WRONG_COSTS = {
    "a hundred times too low": lambda theta: 0.01 * np.exp(0.8 * theta[:, 0]),
    "a hundred times too high": lambda theta: 100 * np.exp(0.8 * theta[:, 0]),
    "the wrong way round": lambda theta: np.exp(-0.8 * theta[:, 0]),
}


@pytest.mark.parametrize("cost", WRONG_COSTS.values(), ids=WRONG_COSTS)
@pytest.mark.parametrize("x_o", [-1.5, 2.0])
def test_a_budget_is_kept_also_with_a_wrong_cost(cost, x_o, seed):
    """As promised for campaigns: about one run over, and nearly all of it used, where runs cost 0.3 or 5 a piece."""
    model = Gaussian(1)
    method = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=3, tolerance=0.0)
    study = method.run(model, [x_o], budget=700.0, cost=cost, seed=seed)
    assert study.stopped == "budget"
    assert 0.9 * 700 < study.cost <= 700 + 2 * study.simulations.cost.max()


def test_several_observations_share_the_rounds_and_get_a_posterior_each(seed):
    model, x_o = Gaussian(1), np.array([[-1.0], [1.5]])
    study = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=3).run(model, x_o, n=1_500, seed=seed)
    assert len(study.each) == 2
    for one, x in zip(study.each, x_o, strict=True):
        mean, width = errors(one.samples, model, x)
        assert mean < 0.33 and width < 0.25, (mean, width)
    plain = model.prior.sample(10_000, np.random.default_rng(0))
    near = [[(np.abs(theta - x) < 0.3).mean() for x in x_o] for theta in (study.simulations.theta, plain)]
    assert np.all(np.array(near[0]) > 1.5 * np.array(near[1]))  # runs went to both


def test_a_settled_posterior_leaves_the_rest_unspent_and_a_tolerance_of_zero_spends_it(seed):
    model = Gaussian(1)
    method = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=6, tolerance=0.3)
    study = method.run(model, [0.5], n=3_000, seed=seed)
    assert study.stopped == "settled" and len(study.simulations) < 3_000
    last = study.generations[-1]
    assert last.moved <= 0.3 and last.noise <= 0.3
    assert len(replace(method, tolerance=0.0, rounds=3).run(model, [0.5], n=900, seed=seed).simulations) == 900


@pytest.mark.parametrize(("moves", "settled"), [((0.05, 0.05), 3), ((0.5, 0.05), 4), ((0.05, 0.5), 4)])
def test_a_posterior_has_settled_when_it_did_not_move_in_two_rounds(moves, settled, seed, monkeypatch):
    """The mutant that looks at the last round alone would stop after two or three."""
    told = iter([moves[0], moves[1], 0.0, 0.5, 0.0])
    monkeypatch.setattr(round_loop, "measure_moves", lambda *_: next(told))
    model = Gaussian(1)
    study = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=4).run(model, [0.5], n=800, seed=seed)
    assert len(study.generations) == settled and (study.stopped == "settled") == (settled == 3)


@pytest.mark.parametrize(("sd", "wide"), [(2.0, True), (0.02, False)])
def test_a_wide_posterior_is_noticed(sd, wide, seed):
    model = Gaussian(2, sd=sd)
    study = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=2).run(model, [0.1, 0.4], n=400, seed=seed)
    assert any("amortised NPE" in note for note in study.notes) == wide


def test_a_first_round_that_uses_the_share_of_later_ones_does_not_end_the_run(seed):
    """Ten parameters need 400 runs in round 0, more than half of 700: the last round still spends the rest."""
    model = Gaussian(10, sd=0.3)
    method = th.Rounds(th.NLE(model.prior, network=QUICK), tolerance=0.0)
    study = method.run(model, np.full(10, 0.3), n=700, seed=seed)
    assert [r.n for r in study.generations] == [400, 300]


@pytest.mark.parametrize("p", [1, 3, 10])
def test_the_volume_of_a_normal_posterior_is_known(p, rng):
    """exp(-KL) of two normals: a posterior that is narrow in ten parameters is not called wide.

    A mean of n log densities has the variance p/2n; neighbours in p dimensions add a bias of a hundredth for each.
    """
    prior, sd = th.Normal(np.zeros(p), np.ones(p)), np.linspace(0.1, 0.3, p)
    mixed = np.linalg.qr(rng.standard_normal((p, p)))[0]  # correlated: no axis is a parameter
    narrow = (sd * rng.standard_normal((1_000, p))) @ mixed.T
    truth = np.exp(np.log(sd).sum() - 0.5 * (np.square(sd) - 1).sum())
    margin = 5 * np.sqrt(p / 2 / len(narrow)) + 0.01 * p
    assert abs(np.log(measure_volume(prior, narrow) / truth)) < margin
    assert abs(np.log(measure_volume(prior, 2 * narrow) / truth)) > margin  # a mutant twice as wide


def test_volume_and_move(rng):
    prior = th.Normal(np.zeros(3), np.ones(3))
    narrow = 0.1 * rng.standard_normal((1_000, 3))
    two = np.concatenate([narrow - 1.0, narrow + 1.0])
    assert measure_volume(prior, rng.permutation(two)) < 0.02  # two peaks are not the space between them
    assert measure_volume(prior, prior.sample(1_000, rng)) > 0.8
    assert measure_volume(prior, np.repeat(narrow[:250], 4, axis=0)) >= 0  # copies of one draw have no distance
    assert measure_move(narrow, narrow[::-1]) == 0 and measure_move(narrow, 1.5 * narrow) > 0.2


def test_same_seed_same_study_and_another_seed_another(seed):
    model = Gaussian(1)
    method = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=2)
    first, second, other = (method.run(model, [0.5], n=200, seed=s).samples for s in (seed, seed, seed + 1))
    assert np.array_equal(first, second) and not np.array_equal(first, other)


def test_an_ensemble_runs_in_rounds(seed):
    model = Gaussian(1)
    method = th.Ensemble(th.NLE(model.prior, network=QUICK), members=2)
    study = th.Rounds(method, rounds=2).run(model, [0.5], n=400, seed=seed)
    assert errors(study.samples, model, [0.5])[0] < 0.4 and study.method == "nle-rounds"


SCRIPT = """
import sys
import numpy as np, thrifty as th
def simulator(theta, rng):
    return th.Output(theta + 0.1 * rng.normal(size=1), cost=float(np.exp(theta[0])))
if __name__ == "__main__":
    prior = th.Normal(0.0, 1.0)
    c = th.Campaign(sys.argv[1], simulator, prior, seed=5, cost="reported", depends_on=[])
    method = {"nle": th.NLE, "npe": th.NPE}[sys.argv[2]](prior, network=th.MixtureDensity(1))
    study = th.Rounds(method, rounds=3, tolerance=0.0).run(c, [0.9], budget=400.0, seed=3, engine=th.Inline())
    table = th.Campaign.open(sys.argv[1]).simulations()
    print(th.table_hash(table), study.samples.sum().hex(), len(table), [r.n for r in study.generations])
"""


def run_script(path, folder, kind, wait=None):
    """Run the script to its end, or kill it after `wait` seconds; return what it printed."""
    driver = subprocess.Popen(
        [sys.executable, str(path), str(folder), kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if wait is not None:
        time.sleep(wait)
        driver.kill()
    out, err = driver.communicate(timeout=300)
    assert wait is not None or driver.returncode == 0, err[-2_000:]
    return out.strip()


@pytest.mark.parametrize(
    ("kind", "kills"),
    [("nle", 3), pytest.param("nle", 20, marks=pytest.mark.slow), pytest.param("npe", 10, marks=pytest.mark.slow)],
)
def test_killed_at_random_moments_the_table_and_the_posterior_are_the_same(kind, kills, tmp_path, rng):
    path = tmp_path / "driver.py"
    path.write_text(SCRIPT)
    begin = time.monotonic()
    expected = run_script(path, tmp_path / "whole", kind)
    longest = time.monotonic() - begin
    for _ in range(kills):
        run_script(path, tmp_path / "broken", kind, wait=rng.uniform(0.3, 1.0) * longest)
    assert run_script(path, tmp_path / "broken", kind) == expected


def simulator(theta, rng):
    return th.Output(theta + 0.1 * rng.normal(size=1), cost=float(np.exp(theta[0])))


def campaign(folder):
    return th.Campaign(folder, simulator, th.Normal(0.0, 1.0), seed=5, cost="reported")


def test_a_resumed_campaign_does_not_train_again_and_refuses_other_settings(tmp_path, monkeypatch):
    c = campaign(tmp_path / "c")
    c.pilot(20, engine=th.Inline())
    method = th.Rounds(th.NLE(c.prior, network=QUICK), rounds=3, tolerance=0.0)
    first = method.run(c, [0.9], n=240, engine=th.Inline())
    assert [r.n for r in first.generations] == [100, 20, 120]  # 100 runs in round 0 at least, the pilot's 20 among them
    fits = []
    fit = th.NLE.fit
    monkeypatch.setattr(th.NLE, "fit", lambda self, sims, seed=0: fits.append(len(sims)) or fit(self, sims, seed))
    again = method.run(c, [0.9], n=240, engine=th.Inline())
    assert fits == [240] and np.array_equal(first.samples, again.samples)
    assert [r.moved for r in again.generations[1:]] == [r.moved for r in first.generations[1:]]
    for other in (replace(method, prior_share=0.3), th.Rounds(th.NPE(c.prior), rounds=3, tolerance=0.0)):
        with pytest.raises(CampaignError, match="other settings"):
            other.run(c, [0.9], n=240, engine=th.Inline())
    with pytest.raises(CampaignError, match="x_o"):
        method.run(c, [0.8], n=240, engine=th.Inline())
    more = replace(method, rounds=4).run(c, [0.9], n=480, engine=th.Inline())  # one more round, as large as all before
    assert len(more.simulations) == 480 and np.array_equal(more.simulations.theta[:240], first.simulations.theta)


def test_more_runs_add_rounds_and_less_is_refused(tmp_path):
    """Three times the runs are two more rounds, whenever they are asked for; what was drawn before stays."""
    method = th.Rounds(th.NLE(th.Normal(0.0, 1.0), network=QUICK), rounds=2, tolerance=0.0)
    whole, parts = campaign(tmp_path / "whole"), campaign(tmp_path / "parts")
    first = method.run(whole, [0.9], n=200, engine=th.Inline())
    assert [r.n for r in first.generations] == [100, 100]
    more = method.run(whole, [0.9], n=600, engine=th.Inline())
    assert [r.n for r in more.generations] == [100, 100, 146, 254]
    assert np.array_equal(more.simulations.theta[:200], first.simulations.theta)
    assert abs(more.samples.mean() - 0.9) < 0.1 > abs(more.samples.std() / 0.0995 - 1)
    again = method.run(whole, [0.9], n=600, engine=th.Inline())
    assert np.array_equal(again.samples, more.samples)
    with pytest.raises(CampaignError, match="n=300 is less than the n=600"):
        method.run(whole, [0.9], n=300, engine=th.Inline())
    method.run(parts, [0.9], n=200, engine=th.Inline())
    assert len(method.run(parts, [0.9], budget=700.0, engine=th.Inline()).simulations) > 300  # from runs to a budget


def test_more_runs_after_a_kill_finish_what_was_begun(tmp_path, monkeypatch):
    """Round 0 was drawn for 200 runs when 400 are asked for: first the rounds of the 200, then one more."""
    method = th.Rounds(th.NLE(th.Normal(0.0, 1.0), network=QUICK), rounds=2, tolerance=0.0)
    c = campaign(tmp_path / "c")
    fit = th.NLE.fit
    monkeypatch.setattr(th.NLE, "fit", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        method.run(c, [0.9], n=200, engine=th.Inline())
    monkeypatch.setattr(th.NLE, "fit", fit)
    assert [r.n for r in method.run(c, [0.9], n=400, engine=th.Inline()).generations] == [100, 100, 200]


def test_whole_numbers_have_no_volume(tmp_path):
    prior = th.Independent({"k": th.Integers(0, 9), "a": th.Normal(0.0, 1.0)})

    def count(theta, rng):
        return th.Output(theta + 0.2 * rng.normal(size=2), cost=1.0)

    c = th.Campaign(tmp_path / "c", count, prior, seed=5, cost="reported")
    study = th.Rounds(th.NLE(prior, network=QUICK), rounds=3).run(c, [4.1, 0.3], n=600, engine=th.Inline())
    assert np.mean(study.samples[:, 0] == 4) > 0.9 and abs(study.samples[:, 1].mean() - 0.3) < 0.1
    assert np.isnan([r.volume for r in study.generations]).all() and study.generations[-1].moved > 0
    assert c.status().state == "complete" and "takes" not in str(c.status())
    assert study.generations[0].cells()["volume"] == ""


def test_a_resumed_campaign_with_a_round_without_runs_finds_the_same(tmp_path, monkeypatch):
    """Round 0 needs 100 runs, more than the shares of rounds 1 and 2 of 160: the judged rounds are 0 and 3."""
    c = campaign(tmp_path / "c")
    method = th.Rounds(th.NLE(c.prior, network=QUICK), tolerance=0.0)
    first = method.run(c, [0.9], n=160, engine=th.Inline())
    assert [r.n for r in first.generations] == [100, 60]
    fits, fit = [], th.NLE.fit
    monkeypatch.setattr(th.NLE, "fit", lambda self, sims, seed=0: fits.append(len(sims)) or fit(self, sims, seed))
    again = method.run(c, [0.9], n=160, engine=th.Inline())
    assert fits == [160] and np.array_equal(first.samples, again.samples)
    assert again.generations[-1].moved == first.generations[-1].moved > 0


def test_a_resumed_campaign_of_npe_takes_the_same_runs_as_before(tmp_path):
    c = campaign(tmp_path / "c")
    method = th.Rounds(th.NPE(c.prior, network=QUICK), rounds=3, tolerance=0.0)
    first = method.run(c, [0.9], n=600, engine=th.Inline())
    again = method.run(campaign(tmp_path / "c"), [0.9], n=600, engine=th.Inline())
    assert np.array_equal(first.samples, again.samples)
    assert again.generations[-1].gain == first.generations[-1].gain  # False for NaN


def test_the_folder_alone_gives_the_same_pool_for_other_methods(tmp_path):
    c = campaign(tmp_path / "c")
    study = th.Rounds(th.NPE(c.prior, network=QUICK), rounds=2).run(c, [0.9], n=200, engine=th.Inline())
    table = th.Campaign.open(tmp_path / "c").simulations()
    assert np.allclose(table.log_weights, study.simulations.log_weights)
    assert abs(th.ABC(n_accept=40).fit(table).sample(500, [0.9], seed=0).mean() - 0.9) < 0.3
    with pytest.raises(CampaignError, match="another proposal"):
        th.SMCABC(c.prior, particles=40, size=60).run(c, [0.9], n=300, engine=th.Inline())


def test_a_folder_of_smc_abc_is_not_continued_in_rounds(tmp_path):
    c = campaign(tmp_path / "c")
    th.SMCABC(c.prior, particles=40, size=60).run(c, [0.9], n=180, engine=th.Inline())
    with pytest.raises(CampaignError, match="another sequential method"):
        th.Rounds(th.NLE(c.prior)).run(c, [0.9], n=240, engine=th.Inline())


PRIOR = th.Normal(0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: th.Rounds(th.ABC(PRIOR)), "cannot be used in rounds"),
        (lambda: th.Rounds("nle"), "cannot be used in rounds"),
        (lambda: th.Rounds(th.NLE(PRIOR), rounds=0), "rounds = 0"),
        (lambda: th.Rounds(th.NLE(PRIOR), prior_share=0.0), "prior_share must lie between"),
        (lambda: th.Rounds(th.NLE(PRIOR), left_out=1.0), "left_out must lie between"),
        (lambda: th.Rounds(th.NLE(PRIOR), tolerance=-1.0), "tolerance must be"),
        (lambda: th.Rounds(th.NLE(PRIOR)).run(Gaussian(1), [0.5]), "nothing says when to stop"),
        (lambda: th.Rounds(th.NLE(PRIOR)).run(Gaussian(1), [0.5], n=40), "first round has 40 valid runs"),
    ],
)
def test_mistakes_get_one_clear_message(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_another_prior_than_the_campaigns_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="another prior"):
        th.Rounds(th.NLE(th.Normal(0.0, 2.0))).run(campaign(tmp_path / "c"), [0.9], n=200)


def test_an_observation_far_from_all_runs_is_said_once(seed):
    model = Gaussian(1)
    study = th.Rounds(th.NLE(model.prior, network=QUICK), rounds=2).run(model, [30.0], n=200, seed=seed)
    with pytest.warns(ThriftyWarning, match="far"):
        _ = study.samples


def test_unfinished_rounds_are_not_complete(tmp_path, monkeypatch):
    c = campaign(tmp_path / "c")
    method = th.Rounds(th.NLE(c.prior, network=QUICK), rounds=2)
    monkeypatch.setattr(th.NLE, "fit", lambda *_, **__: 1 / 0)  # killed while training
    with pytest.raises(ZeroDivisionError):
        method.run(c, [0.9], n=200, engine=th.Inline())
    assert c.status().done == c.status().planned == 100 and c.status().state == "stopped or running"
