"""SMC-ABC: exact weights, pooled generations, budgets by prediction, durable and resumable in a campaign."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2, norm

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, DataError, InferenceError
from thrifty.proposals.kernel import KernelProposal
from thrifty.sequential.smc_abc import SMCABC
from thrifty.sequential.spending import MeasuredSimulator

A = 0.6  # slope of log cost
X_O = 1.4


class Toy:
    """theta ~ N(0, 1), x ~ N(theta, s), cost exp(A theta), all at once."""

    prior = th.Normal(0, 1)

    def __init__(self, sd=1.0, fail=0.0, reports=True):
        self.sd, self.fail, self.reports, self.asked = sd, fail, reports, []

    def simulate_many(self, draws, seed, *, start=0, workers=1):
        rng = np.random.default_rng([seed, start])
        self.asked.append(len(draws))
        x = draws.theta + self.sd * rng.normal(size=draws.theta.shape)
        x[rng.random(len(x)) < self.fail] = np.nan
        cost = np.exp(A * draws.theta[:, 0]) if self.reports else None
        return th.Simulations.from_arrays(theta=draws.theta, x=x, cost=cost)


def cost(theta):
    return np.exp(A * theta[:, 0])


def kernel(rng, penalty=None, cost=cost):
    centres = rng.normal(0.7, 0.5, (80, 1))
    return KernelProposal.around(Toy.prior, centres, rng.normal(size=80), penalty=penalty or th.Power(0.5), cost=cost)


def test_kernel_proposal_draws_follow_its_density(rng):
    q = kernel(rng)
    draws = q.sample(40_000, rng)
    grid = np.linspace(-4, 5, 4_001)
    density = np.exp(q.log_prob(grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=0.02)  # Z from 2^15 free draws
    mean = np.trapezoid(grid * density, grid) / np.trapezoid(density, grid)
    assert abs(draws.theta.mean() - mean) < 5 * draws.theta.std() / 200


def test_kernel_weights_restore_the_prior_and_mutants_do_not(rng):
    """Pooled with prior draws the weights are bounded: E_prior[theta] = 0 comes back."""
    q = kernel(rng)
    draws, plain = q.sample(20_000, rng), Toy.prior.sample(5_000, rng)
    theta = np.concatenate([draws.theta, plain])
    pool = th.Pool(((20_000, q), (5_000, Toy.prior)), Toy.prior)
    right = th.estimate(theta, pool.log_weight(theta))
    assert right.ess > 200 and abs(right.mean[0]) < 5 * right.se[0]
    forgotten = KernelProposal(q.prior, q.centres, q.log_weights, q.kernel, th.Constant(), None)
    wrong = th.estimate(theta, th.Pool(((20_000, forgotten), (5_000, Toy.prior)), Toy.prior).log_weight(theta))
    assert abs(wrong.mean[0]) > 5 * wrong.se[0]  # g left out of the weight


def test_kernel_proposal_survives_json(rng):
    theta = rng.normal(size=(60, 1))
    fitted = th.fit_cost(theta, cost(theta) * rng.lognormal(0, 0.1, 60), model=th.Polynomial(1))
    q = kernel(rng, cost=fitted)
    from thrifty.proposals import weighting_from_dict

    again = weighting_from_dict(q.to_dict(), Toy.prior)
    theta = Toy.prior.sample(200, rng)
    assert np.array_equal(q.log_weight(theta), again.log_weight(theta))


def abc_truth(epsilon, sd=1.0):
    grid = np.linspace(-4, 5, 20_001)
    p = norm.pdf(grid) * (norm.cdf((X_O + epsilon - grid) / sd) - norm.cdf((X_O - epsilon - grid) / sd))
    p /= p.sum()
    mean = p @ grid
    return mean, np.sqrt(p @ (grid - mean) ** 2)


def test_posterior_is_the_abc_posterior_at_its_tolerance(seed):
    """Mean and sd under every penalty and with a learned cost: ten numbers, jointly at the level of three errors."""
    z = []
    for i, (k, known) in enumerate([(0.0, True), (0.5, True), (1.0, True), (2.0, True), (0.5, False)]):
        method = SMCABC(Toy.prior, particles=300, penalty=th.Power(k), distance=th.distances.Euclidean([1.0]))
        study = method.run(Toy(), [X_O], n=3_000, cost=cost if known else None, seed=seed + i)
        post = study.posterior
        mean, sd = abc_truth(post.epsilon)
        assert post.ess > 200 and len(study.simulations) == 3_000
        z += [(post.mean[0] - mean) / post.mean_se[0], (post.sd[0] - sd) / post.sd_se[0]]
    assert chi2.sf(np.sum(np.square(z)), len(z)) > 2 * norm.sf(3)


@pytest.fixture(scope="module")
def pool():
    """Eight thousand runs at a strong penalty: weights that matter."""
    method = SMCABC(Toy.prior, particles=300, penalty=th.Power(2.0), distance=th.distances.Euclidean([1.0]))
    return method.run(Toy(), [X_O], n=8_000, cost=cost, seed=20_250_504).simulations


@pytest.mark.parametrize("mutant", ["forgotten", "g forgotten", "squared", "inverted"])
def test_wrong_weights_are_caught(mutant, pool):
    near = np.abs(pool.x[:, 0] - X_O) <= 1.0
    if mutant == "g forgotten":
        wrong = pool.log_weights - 2 * A * pool.theta[:, 0]
    else:
        wrong = {"forgotten": 0.0, "squared": 2.0, "inverted": -1.0}[mutant] * pool.log_weights
    mean, sd = abc_truth(1.0)
    right = th.WeightedPosterior(pool.theta[near], pool.log_weights[near], [X_O])
    assert right.ess > 200 and abs(right.mean[0] - mean) < 3 * right.mean_se[0]
    post = th.WeightedPosterior(pool.theta[near], wrong[near], [X_O])
    z = abs(post.mean[0] - mean) / post.mean_se[0], abs(post.sd[0] - sd) / post.sd_se[0]
    assert max(z) > 5


def test_default_distance_finds_the_posterior_through_wide_irrelevant_statistics(seed):
    """Two statistics in twelve matter, one from another scale: the projected posterior is the exact one, nearly."""

    class Wide(Toy):
        def simulate_many(self, draws, seed, *, start=0, workers=1):
            rng = np.random.default_rng([seed, start])
            x = rng.normal(size=(len(draws), 12)) * 50
            x[:, :2] = draws.theta + rng.normal(size=(len(draws), 2)) * [0.2, 0.4]
            return th.Simulations.from_arrays(theta=draws.theta, x=x, cost=np.exp(A * draws.theta[:, 0]))

    x_o = np.zeros(12)
    x_o[:2] = X_O
    precision = 1 + 1 / 0.2**2 + 1 / 0.4**2
    mean, sd = X_O * (precision - 1) / precision, precision**-0.5
    post = SMCABC(Toy.prior, particles=200, adjust="local").run(Wide(), x_o, n=3_000, seed=seed).posterior
    # the regression leaves a tenth of a standard deviation in a statistic that it estimates itself
    assert abs(post.mean[0] - mean) < 3 * post.mean_se[0] + 0.1 * sd
    assert abs(post.sd[0] - sd) < 3 * post.sd_se[0] + 0.1 * sd
    fixed = SMCABC(Toy.prior, particles=200, distance=th.distances.Euclidean(np.ones(12)))
    assert fixed.run(Wide(), x_o, n=3_000, seed=seed).posterior.sd[0] > 2 * sd  # what the plain distance makes of it


def test_weights_kept_between_generations_are_those_of_the_pool(seed):
    study = SMCABC(Toy.prior, particles=200).run(Toy(), [X_O], n=2_000, seed=seed)
    table = study.simulations
    parts = tuple((g.n, g.proposal) for g in study.generations)
    assert np.allclose(table.log_weights, th.Pool(parts, Toy.prior).log_weight(table.theta))
    assert th.ess(table.log_weights) < len(table)


def test_tolerance_falls_and_keeps_the_particles(seed):
    method = SMCABC(Toy.prior, particles=200, size=400, distance=th.distances.Euclidean([1.0]))
    study = method.run(Toy(0.1), [X_O], n=4_000, seed=seed)
    epsilon = [g.epsilon for g in study.generations]
    assert epsilon[-1] < epsilon[0] / 5
    assert all(g.ess >= 200 for g in study.generations)
    assert study.stopped == "runs" and "ended: all runs are used" in str(study)


def test_target_tolerance_stops(seed):
    study = SMCABC(Toy.prior, particles=150, epsilon=0.3, distance=th.distances.Euclidean([1.0])).run(
        Toy(), [X_O], n=50_000, seed=seed
    )
    assert study.stopped == "tolerance" and study.posterior.epsilon == 0.3 and study.posterior.ess >= 150


def test_low_acceptance_stops(seed):
    study = SMCABC(Toy.prior, particles=100, min_acceptance=0.3).run(Toy(0.05), [X_O], n=100_000, seed=seed)
    assert study.stopped == "acceptance" and len(study.simulations) < 100_000


def test_failed_runs_stay_in_the_count_and_are_never_accepted(seed):
    study = SMCABC(Toy.prior, particles=150).run(Toy(fail=0.005), [X_O], n=2_000, seed=seed)
    table = study.simulations
    assert 0 < (~table.ok).sum() < 60 and len(table) == 2_000
    # weights count all planned draws, failed ones too
    parts = tuple((g.n, g.proposal) for g in study.generations)
    assert np.allclose(table.log_weights, th.Pool(parts, Toy.prior).log_weight(table.theta))


def test_without_reported_cost_kernels_are_plain(seed):
    study = SMCABC(Toy.prior, particles=100).run(Toy(reports=False), [X_O], n=800, seed=seed)
    last = study.generations[-1].proposal
    assert isinstance(last, KernelProposal) and last.cost is None


def test_same_seed_same_study(seed):
    first, second = (SMCABC(Toy.prior, particles=100).run(Toy(), [X_O], n=900, seed=seed) for _ in range(2))
    assert np.array_equal(first.posterior.theta, second.posterior.theta)
    other = SMCABC(Toy.prior, particles=100).run(Toy(), [X_O], n=900, seed=seed + 1)
    assert not np.array_equal(first.posterior.mean, other.posterior.mean)


def simulator(theta, rng):
    return th.Output(theta + rng.normal(size=1), cost=float(np.exp(theta[0])))


def test_plain_simulator_runs_through_simulate(seed):
    study = SMCABC(Toy.prior, particles=50).run(simulator, [X_O], n=200, seed=seed, engine=th.Inline())
    assert len(study.simulations) == 200 and study.simulations.ok.all()


def campaign(folder):
    return th.Campaign(folder, simulator, Toy.prior, seed=5, cost="reported")


KILLED = """
import json, os, signal, sys
import numpy as np, thrifty as th
from thrifty.sequential.smc_abc import SMCABC
os.environ["RUNS"] = "0"
def simulator(theta, rng):
    os.environ["RUNS"] = str(int(os.environ["RUNS"]) + 1)
    if os.environ["RUNS"] == "150":
        os.kill(os.getpid(), signal.SIGKILL)
    return th.Output(theta + rng.normal(size=1), cost=float(np.exp(theta[0])))
c = th.Campaign(sys.argv[1], simulator, th.Normal(0, 1), seed=5, cost="reported")
SMCABC(th.Normal(0, 1), particles=40, size=60).run(c, [1.4], engine=th.Inline(), **json.loads(sys.argv[2]))
"""


@pytest.mark.parametrize("until", [{"n": 240}, {"budget": 400.0}], ids=str)
def test_generations_are_durable_and_resumable(until, tmp_path):
    """The driver killed in the middle of a generation and called again: the same table as undisturbed."""
    method = SMCABC(Toy.prior, particles=40, size=60)
    whole = method.run(campaign(tmp_path / "whole"), [X_O], engine=th.Inline(), **until)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "broken"), json.dumps(until)]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr.decode()[-500:]
    left = th.Campaign.open(tmp_path / "broken").status()
    again_in = th.Campaign(tmp_path / "broken", simulator, Toy.prior, seed=5, cost="reported", accept_changed=True)
    again = method.run(again_in, [X_O], engine=th.Inline(), **until)
    assert left.planned > 120  # the generation it died in was committed before it ran
    for name in ("theta", "x", "cost", "log_weights"):
        assert np.array_equal(getattr(whole.simulations, name), getattr(again.simulations, name)), name
    assert np.array_equal(whole.posterior.log_weights, again.posterior.log_weights)
    # the folder alone gives the same pool and weights
    table = th.Campaign.open(tmp_path / "broken").simulations()
    assert np.allclose(table.log_weights, again.simulations.log_weights)


def test_pilot_of_a_campaign_becomes_the_first_generation(tmp_path):
    c = campaign(tmp_path / "c")
    c.pilot(80, engine=th.Inline())
    study = SMCABC(Toy.prior, particles=40, size=60).run(c, [X_O], n=200, engine=th.Inline())
    assert study.generations[0].n == 80 and len(study.simulations) == 200
    again = SMCABC(Toy.prior, particles=40, size=60).run(c, [X_O], n=200, engine=th.Inline())
    assert np.array_equal(study.posterior.theta, again.posterior.theta)
    with pytest.raises(CampaignError, match="another proposal"):
        SMCABC(Toy.prior, particles=40, size=60).run(c, [-0.5], n=200, engine=th.Inline())


@pytest.mark.parametrize(("change", "refused"), [(1e-12, False), (1e-2, True)])
def test_a_generation_goes_on_where_another_processor_computed_it(change, refused, tmp_path, monkeypatch):
    """The last digits of a proposal depend on the processor; other settings (mutant) are still refused."""
    method, c = SMCABC(Toy.prior, particles=40, size=60), campaign(tmp_path / "c")
    first = method.run(c, [X_O], n=180, engine=th.Inline())
    write = KernelProposal.to_dict

    def on_another_processor(self):
        recipe = write(self)
        return {**recipe, "centres": (np.asarray(recipe["centres"]) * (1 + change)).tolist()}

    monkeypatch.setattr(KernelProposal, "to_dict", on_another_processor)
    if refused:
        with pytest.raises(CampaignError, match="another proposal"):
            method.run(c, [X_O], n=180, engine=th.Inline())
    else:
        again = method.run(c, [X_O], n=180, engine=th.Inline())
        assert np.array_equal(first.posterior.theta, again.posterior.theta)
        recorded = th.Campaign.open(tmp_path / "c").simulations().log_weights
        assert np.array_equal(again.simulations.log_weights, recorded), "weighted by the proposal in the folder"


@pytest.mark.parametrize("scale", [1e10, 1.0, 1e-6])
def test_another_observation_is_refused_in_any_unit(scale, tmp_path):
    """Above 500 particles a proposal has equal weights: its centres alone show that it is another one."""
    prior = th.Uniform(-1 / scale, 1 / scale)

    def scaled(theta, rng):
        return th.Output(theta * scale + 0.1 * rng.normal(), cost=1.0)

    c = th.Campaign(tmp_path / "c", scaled, prior, seed=3, cost="reported")
    method = SMCABC(prior, particles=300)
    method.run(c, [-0.5], n=1500, engine=th.Inline())
    with pytest.raises(CampaignError, match="another proposal"):
        method.run(c, [0.5], n=1500, engine=th.Inline())


def crash_sometimes(theta, rng):
    if theta[0] > 1.5:
        os._exit(3)
    return th.Output(theta + rng.normal(), cost=1.0)


@pytest.mark.filterwarnings("ignore:.*1 of 3 runs failed")
def test_a_crashed_run_stays_crashed_where_cost_is_reported(seed):
    table = MeasuredSimulator(crash_sometimes).simulate_many(th.Draws([[0.0], [2.0], [1.0]]), seed, workers=1)
    assert table.status.tolist() == ["ok", "crashed", "ok"]
    assert np.isnan(table.cost[1]) and table.cost[[0, 2]].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: SMCABC(Toy.prior, particles=3), ConfigError, "at least 10"),
        (lambda: SMCABC(Toy.prior, epsilon=-1.0), ConfigError, "epsilon must be a finite number"),
        (lambda: SMCABC(Toy.prior, min_acceptance=1.0), ConfigError, "min_acceptance must lie in"),
        (lambda: SMCABC(Toy.prior, adjust="x"), ConfigError, "adjust must be one of"),  # type: ignore[arg-type]
        (lambda: SMCABC(Toy.prior).run(Toy(), [X_O]), ConfigError, "nothing says when to stop"),
        (lambda: SMCABC(Toy.prior).run(Toy(), [X_O], n=0), ConfigError, "n must be a whole number"),
        (lambda: SMCABC(Toy.prior).run(Toy(), [X_O], budget=-1.0), ConfigError, "budget must be a positive number"),
        (lambda: SMCABC(Toy.prior).run(Toy(), [X_O, 1.0], n=400), DataError, "expected one"),
        (lambda: SMCABC(Toy.prior).run(Toy(fail=1.0), [X_O], n=400), InferenceError, "none of the 400 runs"),
    ],
)
def test_bad_input_gets_one_clear_message(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_a_runner_that_drops_slow_runs_is_refused():
    class Greedy(Toy):
        def simulate_many(self, draws, seed, *, start=0, workers=1):
            return super().simulate_many(draws, seed)[:-5]

    with pytest.raises(DataError, match="simulations came back"):
        SMCABC(Toy.prior).run(Greedy(), [X_O], n=400)


class Still:
    """One statistic follows the parameter, the other stands still."""

    def simulate_many(self, draws, seed, start=0, workers=1):
        noise = 0.1 * np.random.default_rng([seed, start]).standard_normal(draws.theta.shape)
        x = np.hstack([draws.theta + noise, np.ones((len(draws.theta), 1))])
        return th.Simulations.from_arrays(theta=draws.theta, x=x)


@pytest.mark.parametrize("adjust", ["none", "linear"])
@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_a_statistic_that_stands_still_beside_the_observation_moves_nothing(adjust, seed):
    study = SMCABC(th.Uniform([-5.0], [5.0]), adjust=adjust).run(Still(), [1.0, 2.0], n=1_500, seed=seed)
    assert abs(study.posterior.mean[0] - 1.0) < 5 * 0.1 / np.sqrt(100)


@pytest.mark.parametrize("n", [float("nan"), "100", 2.5, 0])
def test_a_number_of_runs_that_is_none_is_refused(n):
    with pytest.raises(ConfigError, match="n must be a whole number"):
        SMCABC(th.Uniform([-5.0], [5.0])).run(Still(), [1.0, 2.0], n=n)


def test_one_run_is_not_blamed_on_the_simulator():
    with pytest.raises(DataError, match=r"1 valid run has no spread.*\n.*more runs"):
        SMCABC(th.Uniform([-5.0], [5.0])).run(Still(), [1.0, 2.0], n=1)
