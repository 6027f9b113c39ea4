"""The table of what each penalty is worth: exact where it can be, readable, and choosing as documented."""

from __future__ import annotations

import io

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError


@pytest.fixture(scope="module")
def table():
    return th.tradeoff(
        th.Uniform(1, 100), lambda t: t[:, 0], powers=(0, 0.25, 0.5, 0.75, 1, 2), mixtures=[(0, 0.5, 1, 2)], seed=0
    )


def test_against_closed_forms(table):
    for row in table.rows[:6]:
        assert row.gain == pytest.approx(th.closed_form.gain(1, 100, row.k), rel=0.02)
        assert row.ess_fraction == pytest.approx(th.closed_form.ess_fraction(1, 100, row.k), rel=0.03)
        assert row.saved == pytest.approx(1 - 1 / row.gain)
        assert row.saved_per_effective == pytest.approx(1 - 1 / (row.gain * row.ess_fraction))
        assert row.cost == pytest.approx(table.prior_cost / row.gain)
    assert table.ceiling == pytest.approx(th.closed_form.ceiling(1, 100), rel=0.01)


def test_identities_hold_in_every_table(table):
    rows = {row.k: row for row in table}
    assert rows[1].product == pytest.approx(1, abs=1e-10)
    assert rows[0].gain == pytest.approx(1) and rows[0].ess_fraction == pytest.approx(1)
    assert rows[0.25].product == pytest.approx(rows[0.75].product, rel=1e-10)
    assert rows[0.5].product == pytest.approx(table.ceiling, rel=1e-10)
    assert table.best.k == 0.5
    assert all(row.product <= table.ceiling * (1 + 1e-10) for row in table)


def test_choose(table):
    assert table.choose(min_ess=0.99).k == 0
    chosen = table.choose(min_ess=0.4)
    assert chosen.ess_fraction >= 0.4
    assert all(row.gain <= chosen.gain for row in table if row.ess_fraction >= 0.4)
    assert table.choose(budget=1e6).k == 0.5
    with pytest.raises(ConfigError, match="one of them"):
        table.choose()
    with pytest.raises(ConfigError, match="no penalty keeps"):
        table.choose(min_ess=1.1)
    with pytest.raises(ConfigError, match="budget must be a number > 0"):
        table.choose(budget=-1)


def test_the_chosen_penalty_can_be_used(table):
    q = th.CostAware(th.Uniform(1, 100), lambda t: t[:, 0], table.best.penalty)
    assert q.gain == pytest.approx(table.best.gain, rel=0.02)


def test_rendering(table):
    from rich.console import Console

    text = str(table)
    assert "k = 0.5 (√c) ← best" in text and "by this cost, at most about" in text
    html = table._repr_html_()
    assert html.count("<tr>") == 8 and "<script" not in html
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table)
    assert "saved per effective" in console.export_text()


def test_flat_cost_is_said_to_be_flat():
    flat = th.tradeoff(th.Uniform(0, 1), lambda t: 1 + 0.08 * t[:, 0])
    assert not flat.worthwhile
    words = (
        "predicted cost varies 1.08× over 99.8% of the prior: best possible saving is under 0.1%. Plain sampling it is."
    )
    assert words in str(flat)


def test_log_uniform_cost_ceilings():
    """10 / 29 / 46 % can be saved per effective draw at cost ranges of 10, 100 and 1000."""
    for decades, most in ((1, 0.10), (2, 0.29), (3, 0.46)):
        table = th.tradeoff(th.Uniform(0, decades), lambda t: 10 ** t[:, 0])
        assert 1 - 1 / table.ceiling == pytest.approx(most, abs=0.01)
        assert table.cost_range == pytest.approx(10**decades, rel=0.02)


def test_seed_matters_little(table):
    other = th.tradeoff(th.Uniform(1, 100), lambda t: t[:, 0], powers=(2,), seed=99)
    assert other[0].gain == pytest.approx(table[5].gain, rel=0.05)
    assert np.isnan(table[6].k)


def test_a_flat_cost_has_plain_draws_as_best():
    """A penalty that is better by rounding alone is not marked as best at +0 %."""
    flat = th.tradeoff(th.Uniform(0, 1), lambda theta: 1 + 1e-3 * theta[:, 0], seed=0)
    assert flat.best is flat.rows[0] and flat.rows[0].ess_fraction == 1
    steep = th.tradeoff(th.Uniform(0, 1), lambda theta: np.exp(3 * theta[:, 0]), seed=0)
    assert steep.best is not steep.rows[0]
