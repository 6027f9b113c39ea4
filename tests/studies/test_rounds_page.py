"""The page of rounds: made from its record alone, with few seeds named as such; verdicts that can fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]


def make_record(gap, seeds=5):
    """A record in which NLE rounds differ from every other arm by `gap` in C2ST and MMD², up to noise."""
    rng = np.random.default_rng(1)
    values = []
    for name in ("squares", "waiting"):
        for arm in ("NLE rounds", "NPE, equal cost", "NPE, 50,000", "NPE rounds", "NLE rounds, cost-blind", "SMC-ABC"):
            for seed in range(1, seeds + 1):
                worse = gap if arm == "NLE rounds" else 0.0
                value = {"c2st": 0.6 + worse + 0.001 * rng.normal(), "mmd2": 0.1 + worse, "width": 1.0 + worse}
                values.append({"problem": name, "arm": arm, "at": "middle", "seed": seed, "runs": 100, "cost": 90.0,
                               "seconds": 1.0} | value)  # fmt: skip
    head = {"study": "rounds", "size": "full", "tasks": 60, "cpu_seconds": 10.0, "date": "2026-01-01", "machine": "two"}
    return head | {"commits": {"abc": 60}, "values": values}


def test_the_page_is_what_its_record_makes(study):
    tool = study("rounds_page")
    record = json.loads(tool.RESULT.read_text(encoding="utf-8"))
    assert record["size"] == "full" and record["study"] == "rounds"
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(record), "run python tools/rounds_page.py"
    assert 5_000 < (ROOT / "docs" / tool.FIGURE).stat().st_size < 150_000 > tool.RESULT.stat().st_size / 3


@pytest.mark.parametrize(("gap", "words"), [(-0.1, "better"), (0.1, "**worse**")])
def test_a_verdict_follows_the_record(study, gap, words):
    lines = study("rounds_page").promises(make_record(gap)).splitlines()
    asked = next(line for line in lines if "at least as good as NPE on 50,000" in line)
    assert asked.count(words) == 2
    unchanged = next(line for line in lines if "NPE rounds better than plain" in line)
    assert "worse" not in unchanged and "better |" not in unchanged


def test_widths_beyond_a_tenth_are_named(study):
    tool = study("rounds_page")
    assert "squares 1.00." in tool.promises(make_record(0.0)) and "**no**" in tool.promises(make_record(0.2))


def test_a_cell_with_few_seeds_says_so(study):
    module = study("rounds")
    few, all_of_them = (module.text(make_record(0.0, seeds)) for seeds in (2, 5))
    assert "± 0.00 (2)" in few and "(5)" not in all_of_them and "± 0.00 |" in all_of_them


def test_tasks_begin_with_every_problem_at_all_places(study):
    module = study("rounds")
    tasks = module.tasks(True, None)
    keys = [json.dumps(task, sort_keys=True) for task in tasks]
    assert len(set(keys)) == len(keys)
    kept = {(arm, name, seed) for arms, names, seeds in module.KEPT for arm in arms for name in names for seed in seeds}
    fresh = [task for task in tasks if (task["arm"], task["problem"], task["seed"]) not in kept]
    assert all(task["seed"] >= module.FIRST_SEED for task in fresh)
    first = [task for task in tasks[: len(tasks) // 3] if task["arm"] == "NLE rounds"]
    assert {task["problem"] for task in first} == {*module.NARROW, *module.WIDE}
    assert {task["place"] for task in first} == set(module.PLACES)
