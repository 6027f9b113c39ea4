"""Two cheap studies in every test run: closed forms against runs, and cost ranges against theory."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.closed_form import ess_fraction, gain

pytest.importorskip("numba")


def test_table1(quick, study):
    """The identity at k = 1, closed forms against runs, and the paper's whole table from one of its numbers."""
    record, printed = quick("table1", "--seeds", "1")
    table1 = study("table1")
    r = table1.paper_range()
    for k in table1.POWERS:
        row = table1.pick(record, k=k)[0]
        exact = gain(1, r, k) * ess_fraction(1, r, k)
        rounding = 1e-5  # records keep six digits
        assert abs(row["product"] - exact) < 4 * row["product_se"] + rounding, (
            f"k = {k}: {row['product']} against {exact}"
        )
        assert abs(row["ess"] - ess_fraction(1, r, k)) < 0.05
        assert abs(row["operations"] - gain(1, r, k)) < 0.1
    one = table1.pick(record, k=1)[0]
    assert abs(one["product"] - 1) < 3 * one["product_se"] + 1e-9, "w = c: exact on the draws themselves"
    wrong = table1.pick(record, k=2)[0]
    assert abs(wrong["product"] - 1) > 10 * wrong["product_se"], "the identity is for k = 1 alone (mutant)"
    assert table1.worst(r) < 0.05, "the paper's ESS, CG and products follow from its range of cost"
    assert "paper" in printed and "closed form" in printed


def test_beyond_range(quick, study):
    """At equal budget √c beats plain where x_o is cheap, more so with the range of cost; the truth is quadrature."""
    record, _ = quick("beyond_range")
    module = study("beyond_range")
    worth = {r: module.worth(record, r, "√c", "cheap") for r in (10, 1000)}
    assert worth[1000][0] > 2 and worth[1000][0] > worth[10][0]
    rng = np.random.default_rng(1)
    theta = rng.random(400_000)
    near = np.abs(theta + module.NOISE * rng.standard_normal(400_000) - 0.15) < module.EPSILON
    se = theta[near].std() / np.sqrt(near.sum())
    assert abs(theta[near].mean() - module.exact(0.15)) < 5 * se
    assert abs(theta[near].mean() - 0.15) > 5 * se, "the prior's edge moves the answer (mutant: x_o itself)"
