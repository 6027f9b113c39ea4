"""The fit of a round: more networks and epochs for few outputs, and a last training that ends when nothing is won."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import thrifty as th
from thrifty.sequential.round_fit import fit_longer, strengthen

PRIOR = th.Normal(0.0, 1.0)


def make_runs(outputs, n=1_000):
    return th.Simulations.from_arrays(theta=np.zeros((n, 1)), x=np.zeros((n, outputs)))


def make_posterior(*losses):
    return SimpleNamespace(curve=SimpleNamespace(members=losses))


@pytest.mark.parametrize(("outputs", "members"), [(1, 3), (4, 3), (5, 2), (6, 2), (7, None), (20, None)])
def test_few_outputs_get_more_networks(outputs, members):
    strong = strengthen(th.NLE(PRIOR), make_runs(outputs))
    assert strong.network.members == members
    assert strong.training.cycle == (88 if members else None)  # twice 1,400 / sqrt(1,000)


def test_what_a_user_chose_stays():
    method = th.NLE(PRIOR, network=th.AutoregressiveMixture(members=1), training=th.Training(cycle=9))
    assert strengthen(method, make_runs(2)) == method
    for other in (th.NLE(PRIOR, network=th.MixtureDensity(1)), th.NRE(PRIOR), th.NPE(PRIOR)):
        assert strengthen(other, make_runs(2)) is other


@pytest.mark.parametrize(
    ("losses", "best", "cycles"),
    [
        ([(-1.0, 3.0), (-1.5, -1.4), (-1.51, 0.0)], 2, [176, 352, 704]),  # a gain below 0.02 ends it, and is taken
        ([(-1.0, -0.9), (-0.9, -0.9)], 0, [176, 352]),  # what is worse is not
        ([(-0.4, -0.4)], None, [176]),
    ],
)
def test_the_last_training_goes_on_while_held_out_runs_are_predicted_better(losses, best, cycles, monkeypatch):
    told, fits = iter([make_posterior(*one) for one in losses]), []

    def fit(self, sims, seed):
        fits.append((self.training.cycle, seed, next(told)))
        return fits[-1][2]

    monkeypatch.setattr(th.NLE, "fit", fit)
    first = make_posterior(-0.5, -0.5)
    found = fit_longer(th.NLE(PRIOR), make_runs(2), first, seed=7)
    assert found is (first if best is None else fits[best][2])
    assert [(cycle, seed) for cycle, seed, _ in fits] == [(cycle, 7) for cycle in cycles]


def test_many_runs_and_many_outputs_are_not_trained_longer(monkeypatch):
    monkeypatch.setattr(th.NLE, "fit", lambda *_, **__: 1 / 0)
    first, chosen = make_posterior(-0.5), th.NLE(PRIOR, training=th.Training(cycle=9))
    for method, runs in (
        (th.NLE(PRIOR), make_runs(20)),
        (th.NLE(PRIOR), make_runs(2, n=100_000)),
        (chosen, make_runs(2)),
        (th.NPE(PRIOR), make_runs(2)),
    ):
        assert fit_longer(method, runs, first, seed=0) is first
