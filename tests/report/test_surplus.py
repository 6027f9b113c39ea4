"""A measured saving above the maximum by the fitted cost is explained where it is shown, in the words of the status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thrifty.report.gather import gather
from thrifty.report.plan_sections import tradeoff_section, waterfall_section


@pytest.mark.parametrize(("saved", "explained"), [(0.30, True), (0.20, False), (0.1, False)])
def test_more_than_the_maximum_is_explained(stages, saved, explained):
    facts = gather(stages["complete"])
    assert facts.status.most_saved is not None, "the plan of the folder gives a maximum"
    kept = replace(facts.status.saved, per_effective=saved)
    facts = replace(facts, status=replace(facts.status, saved=kept, most_saved=0.2))
    text = " ".join(waterfall_section(facts, ()).lead)
    assert ("is more than the 20% that the plan gives as the most" in text) == explained
    assert ("The runs are the measure" in text) == explained
    assert all(words in text for words in facts.status.explain_surplus())


def test_the_page_and_the_plan_give_one_range_of_cost(stages):
    facts = gather(stages["complete"])
    words = facts.trade[0].describe_range()
    assert words[1:] in tradeoff_section(facts).lead[0] and words in facts.trade[0].verdict()


@pytest.mark.parametrize("stage", ["complete", "half"])
def test_a_page_has_one_saving(stages, stage):
    """The lead, the card, the status and the waterfall give the same plain cost and the same saving."""
    from thrifty.durations import format_amount

    facts = gather(stages[stage])
    saved, unit = facts.status.saved, facts.status.unit
    section = waterfall_section(facts, ())
    steps = dict(section.tables[0].rows)
    plain = next(iter(steps))
    assert plain.endswith(" plain runs") and steps[plain] == format_amount(saved.plain, unit)
    assert steps["saved"] == format_amount(-saved.amount, unit)
    assert steps["total"] == format_amount(facts.status.spent, unit)
    assert steps[plain] in section.lead[0] and steps["saved"].lstrip("-−") in section.lead[0]
    assert ("not run yet" in steps) == bool(facts.status.pending)
