"""One clear message for each wrong call, and words for what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics
from thrifty.errors import DataError, WeightError


class Column:
    """A posterior whose log_prob gives a column, one number, or wants other arguments."""

    def __init__(self, world, kind):
        self.inner, self.kind = world.Exact(), kind
        self.prior, self.sample = self.inner.prior, self.inner.sample
        if kind == "keyword":
            self.log_prob = lambda theta, *, context: 0.0

    def log_prob(self, theta, x_o):
        values = self.inner.log_prob(theta, x_o)
        return values[:, None] if self.kind == "column" else float(values.sum())


@pytest.mark.parametrize(
    ("kind", "message"),
    [("column", r"gives shape \(2, 1\) for 2 rows"), ("scalar", r"gives shape \(\)"), ("keyword", "cannot be called")],
)
def test_log_prob_of_another_kind(world, rng, kind, message):
    with pytest.raises(DataError, match=message):
        th.diagnose(Column(world, kind), world.pool(100, rng), [0.0, 0.0])
    with pytest.raises(DataError, match="log_prob"):
        diagnostics.coverage(Column(world, kind), world.pool(100, rng))
    with pytest.raises(DataError, match="log_prob"):
        diagnostics.local_ess(Column(world, kind), world.pool(100, rng), [0.0, 0.0])


def other_outputs(runs):
    return th.Simulations.from_arrays(theta=runs.theta, x=np.zeros((len(runs), 3)))


def constant(runs):
    return th.Simulations.from_arrays(theta=runs.theta, x=np.zeros((len(runs), 2)))


def failed(runs):
    return th.Simulations.from_arrays(theta=runs.theta, x=np.full((len(runs), 2), np.nan))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, s: diagnostics.sbc(w.Exact(), s, pairs="5"), "pairs must be a whole number >= 1, got '5'"),
        (lambda w, s: diagnostics.sbc(w.Exact(), s, pairs=5.5), "pairs must be a whole number"),
        (lambda w, s: diagnostics.sbc(w.Exact(), s, seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda w, s: th.diagnose(w.Exact(), s, [0, 0], seed=-1), "seed must be a whole number >= 0"),
        (lambda w, s: diagnostics.local_c2st(w.Exact(), s, [0, 0], nulls=0), "nulls must be a whole number >= 20"),
        (lambda w, s: th.diagnose(w.Exact(), s, [0, 0], held_out=other_outputs(s)), r"outputs of shape \(3,\)"),
        (lambda w, s: th.diagnose(w.Exact(), s, [0, 0], cost=s), r"cost= takes a function .* got Simulations"),
        (lambda w, s: th.diagnose(w.Exact(), constant(s), [0, 0]), "all 2 statistics are constant in all 100 runs"),
        (lambda w, s: th.diagnose(w.Exact(), failed(s), [0, 0]), "none of 100 runs is valid"),
        (lambda w, s: diagnostics.weight_health(failed(s)), "none of 100 runs is valid"),
        (lambda w, s: failed(s).to_dict(), "none of 100 runs is valid"),
        (lambda w, s: diagnostics.weight_health(3.0), "non-empty vector"),
        (lambda w, s: diagnostics.weight_health("x"), "log_weights"),
        (lambda w, s: th.metrics.c2st_test(s.theta, s.theta, level=None), "level must lie between 0 and 1, got None"),
        (lambda w, s: s.to_npz(3), "path must be the name of a file, got 3"),
        (lambda w, s: th.Simulations.from_npz(3), "path must be the name of a file, got 3"),
        (lambda w, s: th.Simulations.from_csv(3, theta="a"), "path must be the name of a file, got 3"),
    ],
)
def test_wrong_calls(world, rng, call, message):
    with pytest.raises((DataError, WeightError), match=message):
        call(world, world.pool(100, rng))


def test_costs_that_are_all_zero_are_noted(world, rng):
    runs = world.pool(200, rng)
    free = th.Simulations.from_arrays(theta=runs.theta, x=runs.x, cost=np.zeros(200))
    diagnosis = th.diagnose(world.Exact(), free, [0.0, 0.0], cost=lambda t: np.ones(len(t)))
    assert any("fewer than 20 runs have a measured cost" in note for note in diagnosis.notes)


def test_data_use_of_a_constant_output(world, rng):
    assert diagnostics.data_use(world.Exact(seen=0), constant(world.pool(300, rng, k=0.0))).verdict == "trust"


def test_an_empty_table_has_a_frame(world, rng):
    pytest.importorskip("pandas")
    empty = world.pool(50, rng)[:0]
    assert len(empty.to_pandas()) == 0 and th.Simulations.from_pandas(empty.to_pandas()).x.shape == (0, 2)


def test_rare_counts_are_told_in_words(rng):
    theta = rng.gamma(2, 1, (3000, 1))
    runs = th.Simulations.from_arrays(theta=theta, x=rng.poisson(0.02 * theta))
    result = diagnostics.misspecification(runs, [3])
    assert result.spacing == 0 and result.verdict == "with care"
    assert "has few equals" in result.reason and len(result.reason) < 150
