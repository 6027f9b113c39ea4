"""What the live page says, at every stage of a campaign, and of a folder that cannot be read."""

from __future__ import annotations

import re
import shutil

import pytest
from report_page import Page
from report_scenario import campaign, contents

import thrifty as th
from thrifty.report.live_page import LivePage


def words(html: str) -> str:
    return " ".join(" ".join(Page(html).texts.values()).split())


@pytest.mark.parametrize("stage", ["empty", "pilot", "half", "complete"])
def test_it_reads_and_changes_nothing(stages, stage):
    before = contents(stages[stage])
    text = LivePage(stages[stage]).render("running")
    assert contents(stages[stage]) == before
    now = th.Campaign.open(stages[stage]).status()
    pilots = f" ({now.pilots} pilots)" if now.pilots else ""
    assert f"{now.done:,} of {now.planned:,} runs{pilots}" in words(text)
    assert " (0 pilots)" not in words(text)
    assert ("drawn when the pilot has finished" in text) == (stage == "empty")
    assert ("effective runs" in text) == (now.saved is not None)


def test_the_figures_are_those_of_the_status(stages):
    now = th.Campaign.open(stages["half"]).status()
    text = LivePage(stages["half"]).render("running")
    shares = [float(value) for value in re.findall(r'aria-valuenow="([\d.]+)"', text)]
    assert shares == pytest.approx([100 * now.done / now.planned, 100 * now.spent / (now.spent + now.left)], abs=0.05)
    assert f"{now.saved.effective:,.0f} ({now.ess_fraction:.0%} of the runs)" in words(text)
    assert f"{now.failed} runs, {100 * now.failed_mass:.2g}% of prior mass" in words(text)


def test_spending_against_a_budget(tmp_path):
    c = campaign(tmp_path / "c")
    c.pilot(40, engine=th.Inline(), progress="quiet")
    c.plan(budget="900 events")
    spent = c.status().spent
    text = LivePage(tmp_path / "c").render("running")
    assert "of 900 events" in words(text)
    assert float(re.findall(r'aria-valuenow="([\d.]+)"', text)[2]) == pytest.approx(100 * spent / 900, abs=0.06)


def test_progress_is_drawn_and_the_end_estimated(stages):
    """A third of the cost that is left was spent in 20 s: the rest takes about a minute."""
    times = iter([1000.0, 1020.0])
    page = LivePage(stages["half"], clock=lambda: next(times))
    page.render("running")
    now = th.Campaign.open(stages["half"]).status()
    when, done, _ = page.seen[-1]
    page.seen[-1] = (when, done - 50, now.spent - now.left / 3)
    text = words(page.render("running"))
    assert re.search(r"time left\s*about 1 min", text), text
    assert f"{done - 50:,} to {done:,} runs in 20 s, 150 a minute" in text


def test_words_of_a_folder_are_escaped(tmp_path):
    folder = tmp_path / "<b>x"
    c = campaign(folder, unit="<i>eur")
    c.pilot(15, engine=th.Inline(), progress="quiet")
    page = LivePage(folder)
    whole = page.render("running") + page.frame("token", "nonce", 2.0)
    tags = {tag for tag, _ in Page(whole).elements}
    assert "b" not in tags and "i" not in tags and "<i>eur" in words(whole)


def test_a_folder_that_cannot_be_read_keeps_the_last_figures(stages, tmp_path):
    shutil.copytree(stages["half"], tmp_path / "c")
    page = LivePage(tmp_path / "c")
    before = page.render("running")
    (tmp_path / "c" / "store.sqlite").write_bytes(b"damaged" * 1000)
    text = page.render("running")
    assert "could not be read" in text and text.endswith(before)


def test_the_page_says_how_it_ended(stages):
    assert "Running." in LivePage(stages["half"]).render("running")
    stopped = LivePage(stages["half"]).render("stopped")
    assert "The run has stopped." in stopped and "data-over" in stopped
    assert "data-over" not in LivePage(stages["half"]).render("running"), "the page would ask no more"
