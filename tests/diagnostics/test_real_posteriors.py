"""th.diagnose on posteriors that were fitted, not written down."""

from __future__ import annotations

import time

import numpy as np
import pytest

import thrifty as th


def campaign(rng, n, k=1.0):
    model = th.models.GaussianToy(p=2, a=(1.5, 0.0))
    q = th.CostAware(model.prior, model.expected_cost, th.Power(k))
    draws = q.sample(n, rng)
    x = draws.theta + rng.normal(size=(n, 2))
    cost = model.expected_cost(draws.theta) * rng.lognormal(-0.02, 0.2, n)
    runs = th.Simulations(
        theta=draws.theta, x=x, log_weights=draws.log_weights, cost=cost, names=model.names, proposal=q
    )
    return model, runs


@pytest.mark.slow
def test_npe_with_and_without_weights(rng, seed):
    """5,000 runs: trained with their weights it is trusted, without them it is not; each within a minute."""
    pytest.importorskip("torch")
    model, runs = campaign(rng, 5000, k=0.5)
    method = th.NPE(model.prior, network=th.MAF())
    x_o = [0.3, -0.4]
    verdicts = {}
    for name, table in (("weighted", runs), ("unweighted", runs.reweighted(np.zeros(len(runs))))):
        posterior = method.fit(table, seed=seed % 1000)
        start = time.process_time()
        diagnosis = th.diagnose(posterior, runs, x_o)
        print(name, f"{time.process_time() - start:.1f} s\n{diagnosis}")
        assert time.process_time() - start < 60
        verdicts[name] = diagnosis["sbc"].verdict
    assert verdicts["weighted"] != "do not trust"
    assert verdicts["unweighted"] == "do not trust"


def test_abc(rng):
    """Weighted acceptance is nearly calibrated; the same table without weights is not."""
    model, runs = campaign(rng, 6000, k=0.5)
    method = th.ABC(quantile=0.05, adjust="linear")
    diagnosis = th.diagnose(method.fit(runs[:5000]), runs[:5000], [0.3, -0.4], held_out=runs[5000:], prior=model.prior)
    assert len(diagnosis.checks) == 11  # those of every method, and the accepted runs
    bare = th.diagnostics.sbc(method.fit(runs[:5000].reweighted(np.zeros(5000))), runs[5000:])
    assert bare.verdict == "do not trust" and "too low" in bare.reason
    assert diagnosis["sbc"].gaps[0] < 0.5 * bare.gaps[0]
