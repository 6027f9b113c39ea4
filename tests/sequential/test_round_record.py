"""The display of one round."""

from __future__ import annotations

from thrifty.sequential.round_record import Round


def test_what_was_not_measured_has_no_line():
    nan = float("nan")
    text = str(Round(n=3, cost=1.0, predicted=1.0, volume=nan, moved=nan, noise=nan, seconds=2.0, proposal=None))
    assert "cost" in text and "volume" not in text and "moved" not in text
    text = str(Round(n=3, cost=1.0, predicted=1.0, volume=0.1, moved=0.5, noise=nan, seconds=2.0, proposal=None))
    assert "volume" in text and "moved" in text
