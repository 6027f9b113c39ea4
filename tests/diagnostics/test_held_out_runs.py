"""Which runs a network is judged on: those that it did not see, known by their theta."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import thrifty as th
from thrifty.diagnostics.diagnose import hold_out, select_held_out
from thrifty.diagnostics.replicates import _draw_block
from thrifty.errors import InferenceError
from thrifty.inference.neural.training_settings import fingerprint_held_out, mark_held_out


def network(runs, share):
    return SimpleNamespace(trained=SimpleNamespace(kept=fingerprint_held_out(runs.theta, runs.index, share)))


def rows(runs):
    return {tuple(row) for row in runs.theta}


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_the_posteriors_own_share_is_used(world, rng, share):
    runs, notes = world.pool(4000, rng), []
    chosen = select_held_out(network(runs, share), runs, None, notes)
    assert rows(chosen) == rows(runs[mark_held_out(runs.index, share)]) and not notes


def test_runs_are_known_again_without_their_index(world, rng):
    """Imported again after shuffling, rows are numbered anew; nine of ten judged on were training runs."""
    runs, notes = world.pool(4000, rng), []
    shuffled = runs[rng.permutation(4000)[:3000]]
    again = th.Simulations.from_arrays(theta=shuffled.theta, x=shuffled.x, log_weights=shuffled.log_weights)
    chosen = select_held_out(network(runs, 0.1), again, None, notes)
    assert len(chosen) > 200 and rows(chosen) <= rows(runs[mark_held_out(runs.index, 0.1)]) and not notes


def test_copies_of_training_runs_are_left_out(world, rng):
    runs = world.pool(2000, rng)
    twice = th.Simulations.from_arrays(theta=np.vstack([runs.theta, runs.theta]), x=np.vstack([runs.x, runs.x]))
    chosen = select_held_out(network(twice, 0.3), twice, None, [])
    validates = mark_held_out(twice.index, 0.3)
    assert len(chosen) > 100 and not rows(chosen) & rows(twice[~validates])


def test_unknown_runs_get_the_note(world, rng):
    for posterior in (network(world.pool(2000, rng), 0.1), SimpleNamespace(trained=SimpleNamespace(kept=None))):
        notes = []
        runs = world.pool(1000, rng)
        assert select_held_out(posterior, runs, None, notes) is runs
        assert "may have trained the posterior" in notes[0]


def test_an_ensemble_is_judged_on_what_no_member_saw(world, rng):
    runs, notes = world.pool(4000, rng), []
    both = SimpleNamespace(members=(network(runs, 0.1), network(runs, 0.2)))
    assert rows(select_held_out(both, runs, None, notes)) == rows(runs[mark_held_out(runs.index, 0.1)]) and not notes


def test_a_saved_network_still_knows(tmp_path, rng):
    pytest.importorskip("torch")
    theta = rng.normal(size=(400, 1))
    runs = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(400, 1)))
    training = th.Training(max_epochs=1, validation=0.3, progress=False)
    posterior = th.NPE(th.Normal(0.0, 1.0), training=training).fit(runs)
    posterior.save(tmp_path / "posterior")
    again = th.load_posterior(tmp_path / "posterior")
    expected = rows(runs[mark_held_out(runs.index, 0.3)])
    assert rows(select_held_out(posterior, runs, None, [])) == rows(select_held_out(again, runs, None, [])) == expected


def test_abc_is_judged_on_runs_that_it_does_not_hold(world, rng):
    runs, notes = world.pool(2000, rng), []
    posterior = th.ABC(quantile=0.1).fit(runs)
    judged, chosen = hold_out(posterior, runs, None, notes)
    assert not notes and len(chosen) == 500 and len(judged.theta) == 1500
    assert not rows(chosen) & {tuple(row) for row in judged.theta.tolist()}
    diagnosis = th.diagnose(posterior, runs, [0.0, 0.0])
    assert not any("may have trained" in note for note in diagnosis.notes)


def test_abc_that_remembers_its_runs_is_found_out(world, rng):
    """The mutant: ABC of the five nearest runs is good on its own runs, and is not trusted."""
    runs = world.pool(2000, rng)
    nearest = th.ABC(n_accept=5).fit(runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert th.diagnose(nearest, runs, [0.0, 0.0]).verdict == "do not trust"


def test_few_runs_and_other_tables_get_the_note(world, rng):
    runs, other = world.pool(300, rng), world.pool(1000, rng)
    posterior = th.ABC(quantile=0.1).fit(runs)
    for table in (runs, other):
        notes = []
        assert hold_out(posterior, table, None, notes) == (posterior, table) and notes


def test_an_output_without_an_answer_does_not_take_its_block_along():
    class Fussy:
        def sample_batched(self, n, x, *, seed):
            if (x > 0).any():
                raise InferenceError("no answer here", code="too-few-runs")
            return np.repeat(x[:, None], n, axis=1)

    found = _draw_block(Fussy(), np.array([[-1.0], [1.0], [-2.0]]), 5, [1, 2, 3])
    assert found[1] is None and found[0][0] == -1 and found[2][0] == -2
