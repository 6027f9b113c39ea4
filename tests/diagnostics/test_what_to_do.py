"""What a diagnosis says can be acted on: the way out runs as it is written, and no p-value is shown unjudged."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.diagnostics.diagnose import NO_COST, SEEN_RUNS
from thrifty.diagnostics.diagnosis import Diagnosis
from thrifty.diagnostics.verdict import NotMeasured
from thrifty.plots import predictive as draw_predictive

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])


def simulator(theta, rng):
    return {"u": theta[0] + 0.02 * rng.normal(), "v": theta[1] + 0.02 * rng.normal()}


def make_runs(n=1200, seed=0):
    return th.simulate(simulator, th.Draws(PRIOR.sample(n, seed), names=PRIOR.names), engine=th.Inline(), seed=seed)


@pytest.fixture(scope="module")
def runs():
    return make_runs()


@pytest.fixture(scope="module")
def far(runs):
    """Observed 50 where all outputs lie between 0 and 1."""
    posterior = th.ABC(PRIOR).fit(runs)
    with pytest.warns(th.ThriftyWarning, match="far-observation"):
        return th.diagnostics.predictive(posterior, runs, {"u": 50.0, "v": 0.4})


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_an_observation_outside_of_all_outputs_is_named(far):
    assert far.outside == ("u",)
    assert "x_o lies outside all outputs in u" in far.reason or not far.is_judged
    assert titles(draw_predictive(far))[0] == "outside all outputs"


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_no_p_value_where_it_is_not_judged(runs):
    posterior = th.ABC(PRIOR, n_accept=5).fit(runs)
    seen = th.diagnostics.predictive(posterior, runs, {"u": 0.5, "v": 0.5})
    assert not seen.is_judged and seen.outside == ()
    assert titles(draw_predictive(seen)) == ["not judged", "not judged"]
    assert "p =" not in str(seen) and "p-value" not in str(seen)
    found = Diagnosis((seen,), ())
    assert found.to_dict()["checks"][0]["p_value"] is None


def test_fresh_runs_as_the_note_says(runs):
    posterior, x_o = th.ABC(PRIOR, n_accept=5).fit(runs), {"u": 0.5, "v": 0.5}
    with pytest.warns(th.ThriftyWarning, match="few-effective-runs"):
        found = th.diagnose(posterior, runs, x_o, progress=False)
    (note,) = [note for note in found.notes if "predictive not judged" in note]
    assert "fresh=th.simulate(simulator, posterior.sample(300, x_o))" in note
    with pytest.raises(KeyError, match="predictive not judged"):
        found.figures()["predictive"]
    with pytest.warns(th.ThriftyWarning, match="few-effective-runs"):
        draws = posterior.sample(300, x_o)
    fresh = th.simulate(simulator, draws, engine=th.Inline())
    with pytest.warns(th.ThriftyWarning, match="few-effective-runs"):
        again = th.diagnose(posterior, runs, x_o, fresh=fresh, progress=False)
    assert again["predictive"].is_judged
    assert "predictive" in again.figures()


def test_held_out_runs_as_the_note_says(runs):
    posterior, x_o = th.ABC(PRIOR).fit(runs[:300]), {"u": 0.5, "v": 0.5}
    found = th.diagnose(posterior, runs[:300], x_o, progress=False)
    assert "held_out=th.simulate(simulator, prior.sample(300, 1))" in SEEN_RUNS
    assert SEEN_RUNS in found.notes
    again = th.diagnose(
        posterior, runs[:300], x_o, held_out=th.simulate(simulator, PRIOR.sample(300, 1), engine=th.Inline())
    )
    assert SEEN_RUNS not in again.notes


def test_what_was_found_comes_before_what_it_was_found_on():
    class TooWide:
        name, verdict, p_value = "coverage", "with care", 1e-3
        reason = "regions are too wide: 90% regions hold 98% of the true parameters"

    class Also:
        name, verdict, p_value, reason = "sbc", "with care", 2e-3, "the posterior of a is too wide"

    found = Diagnosis((Also(), TooWide(), NotMeasured("the runs may have trained the posterior")), ())
    (answer,) = found.answers
    assert answer.reason.startswith("regions are too wide")
    assert answer.reason.endswith("the runs may have trained the posterior")
    assert "sbc" not in answer.reason


@pytest.mark.parametrize(("width", "word"), [(0.6, "narrow"), (1.6, "wide")])
def test_wrong_widths_are_said_in_words_and_numbers(width, word, rng):
    class Normal:
        def sample(self, n, x_o, *, seed):
            return x_o / 2 + width * np.sqrt(0.5) * np.random.default_rng(seed).normal(size=(n, 1))

        def log_prob(self, theta, x_o):
            return -0.5 * ((theta - x_o / 2) ** 2).sum(1) / (0.5 * width**2)

    theta = rng.normal(size=(400, 1))
    table = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape))
    drawn = th.diagnostics.replicate(Normal(), table, pairs=300, draws=100, density=True, seed=0)
    for check, what in ((th.diagnostics.sbc(drawn), "intervals"), (th.diagnostics.coverage(drawn), "regions")):
        assert f"too {word}: 90% {what} hold" in check.reason


def test_cost_of_a_campaign_is_read(tmp_path):
    def run(theta, rng):
        return th.Output(theta + 0.1 * rng.normal(size=2), cost=float(np.exp(theta[0])))

    campaign = th.Campaign(tmp_path / "c", run, PRIOR, seed=0, cost="reported")
    campaign.pilot(60, progress=False, engine=th.Inline())
    campaign.plan(n=300)
    campaign.run(progress=False, engine=th.Inline())
    sims = campaign.simulations()
    posterior, x_o = th.ABC(PRIOR).fit(sims), [0.5, 0.5]
    given = th.diagnose(posterior, sims, x_o, cost=campaign, progress=False)
    found = th.diagnose(posterior, sims, x_o, progress=False)  # the pool behind the weights knows it
    assert given["cost_model"].ratio == pytest.approx(1, abs=0.1)
    assert found["cost_model"].ratio == pytest.approx(1, abs=0.1)
    pilots = int(np.sum(sims.index < 60))
    assert len(found["cost_model"].measured) == len(sims) - pilots > 0, (
        "the pilot, to which it was fitted, judges nothing"
    )


def test_without_any_cost_the_note_says_what_to_pass(runs):
    found = th.diagnose(th.ABC(PRIOR).fit(runs), runs, {"u": 0.5, "v": 0.5}, progress=False)
    assert NO_COST in found.notes
    for way in ("cost=campaign", "cost=plan.cost", "cost=th.fit_cost(simulations)"):
        assert way in NO_COST
    cost = th.fit_cost(PRIOR.sample(60, 1), np.exp(PRIOR.sample(60, 1)[:, 0]))
    assert th.diagnose(th.ABC(PRIOR).fit(runs), runs, {"u": 0.5, "v": 0.5}, cost=cost, progress=False)["cost_model"]


def test_few_runs_are_not_blamed_on_the_penalty(rng):
    gentle = th.diagnostics.weight_health(0.35 * rng.normal(size=110))
    assert gentle.ess < 100
    assert "add runs" in gentle.reason and "penalty" not in gentle.reason
    steep = th.diagnostics.weight_health(3 * rng.normal(size=2000))
    assert "gentler penalty" in steep.reason
