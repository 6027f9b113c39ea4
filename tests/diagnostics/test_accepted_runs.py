"""A diagnosis of ABC says how many accepted runs the answer rests on, and does not call few of them enough."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.diagnostics.weight_health import AcceptedRuns, count_accepted

PRIOR = th.Normal([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
X_O = [0.3, -0.2]


@pytest.fixture(scope="module")
def sims() -> th.Simulations:
    rng = np.random.default_rng([ord(c) for c in "accepted runs"])
    theta = PRIOR.sample(4_000, rng)
    return th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape), names=("a", "b"))


@pytest.mark.parametrize(("accepted", "answer"), [(15, "no"), (50, "with care"), (400, "yes")])
@pytest.mark.filterwarnings("ignore:.*few-effective-runs")
def test_the_answer_says_how_many(sims, accepted, answer):
    posterior = th.ABC(PRIOR, quantile=accepted / len(sims), adjust="none").fit(sims)
    found = th.diagnose(posterior, sims, X_O, progress=False)
    effective = posterior.accepted(X_O).ess
    assert found["accepted"].n == accepted and found["accepted"].ess == effective
    line = next(row for row in str(found).splitlines() if "enough runs" in row)
    assert f"{answer}: rests on {accepted} accepted runs ({effective:,.0f} effective)" in line
    assert ("which is few" in line) == (answer != "yes")
    assert ("over the whole prior 4,000 runs count as 4,000" in line) == (answer == "yes")
    assert answer == "yes" or found.verdict != "trust"


def test_draws_at_one_observation_say_it_too(sims):
    posterior = th.ABC(PRIOR, quantile=0.02, adjust="none").fit(sims).accepted(X_O)
    assert th.diagnose(posterior, sims, X_O, progress=False)["accepted"].n == 80


def test_other_methods_accept_nothing(sims):
    fitted = th.NPE(PRIOR, training=th.Training(max_epochs=1), network=th.MixtureDensity(2)).fit(sims)
    assert count_accepted(fitted, X_O) is None


@pytest.mark.parametrize(
    ("size", "verdict"), [(99.6, "trust"), (99.4, "with care"), (19.6, "with care"), (19, "do not trust")]
)
def test_the_verdict_agrees_with_the_number_shown(size, verdict):
    assert AcceptedRuns(120, size).verdict == verdict
