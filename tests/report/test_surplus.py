"""A measured saving above the maximum by the fitted cost is explained where it is shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from thrifty.report.plan_sections import _explain_surplus


@pytest.mark.parametrize(("saved", "explained"), [(0.30, True), (0.20, False), (0.1, False)])
def test_more_than_the_maximum_is_explained(saved, explained):
    facts = SimpleNamespace(trade=(SimpleNamespace(ceiling=1.25), None), model=SimpleNamespace(score=0.7))
    text = _explain_surplus(facts, SimpleNamespace(per_effective=saved))
    assert bool(text) == explained
    if explained:
        assert "more than the 20% given as the maximum" in text and "explains 70% of the variation" in text
