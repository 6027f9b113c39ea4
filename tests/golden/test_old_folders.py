"""Files and folders written before the redesign: they open, go on to the same end and give the same posteriors."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thrifty as th

sys.path.append(str(Path(__file__).parents[1]))
from golden import record, record_folders, scenarios
from golden.simulator import PRIOR, X_O, events

FILES = record_folders.HOME / "files"
MACHINE, PYTHON, EXPECTED = record.read(record_folders.HOME / "expected.npz")
OTHER_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON  # prints syntax trees in other words
NEURAL = (*scenarios.NEURAL, "checkpoint_continued")
QUIET = {"engine": th.Inline(), "progress": "quiet"}


@pytest.fixture(autouse=True)
def one_thread():
    """As recorded; what warnings say is tested elsewhere."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), scenarios.one_torch_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def copied(tmp_path):
    """A copy of a folder, never the folder itself."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(record_folders.HOME / name, tmp_path / name))

    return copy


def check(name: str, values: dict[str, Any], *, exact: bool | None = None) -> None:
    exact = record.machine() == MACHINE if exact is None else exact
    assert record.differences(EXPECTED[name], record.records_of(values), exact=exact) == []


def needed(name: str) -> None:
    if name in NEURAL:
        pytest.importorskip("torch")
        pytest.importorskip("zuko")


def seen(c: th.Campaign, **settings: Any) -> dict[str, Any]:
    return {**scenarios.table(c.simulations(**settings)), "told": record_folders.status(c)}


def test_a_half_run_folder_is_read(copied):
    """All but the weights, which are now of what has run (`tests/campaign/test_unfinished_plan.py`)."""
    c = th.Campaign.open(copied("partly"))
    values = seen(c, allow_incomplete=True)
    log_weights = values.pop("log_weights")
    recorded = {key: value for key, value in EXPECTED["partly"].items() if key != "log_weights"}
    assert record.differences(recorded, record.records_of(values), exact=record.machine() == MACHINE) == []
    assert not np.isfinite(log_weights[values["status"] == "pending"]).any() and np.isfinite(log_weights).sum() >= 40
    assert c.status().pending > 0 and c.verify().ok


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_half_run_folder_goes_on_to_the_recorded_end(copied, engine):
    """The plans asked for again add nothing; the table is that of a campaign that nobody stopped."""
    settings = {"seed": 41, "cost": "reported", "unit": "events", "accept_changed": OTHER_PYTHON}
    c = th.Campaign(copied("partly"), events, PRIOR, **settings)
    c.pilot(40, **QUIET)
    c.plan(n=60)
    c.plan(n=30, penalty=1.0)
    c.run(engine=th.Inline() if engine == "inline" else th.Processes(2), progress="quiet")
    check("partly_continued", seen(c))
    assert c.status().pending == 0 and c.verify().ok


def test_one_more_run_than_recorded_is_noticed(copied):
    """The mutant: a plan that is larger gives another table."""
    settings = {"seed": 41, "cost": "reported", "unit": "events", "accept_changed": OTHER_PYTHON}
    c = th.Campaign(copied("partly"), events, PRIOR, **settings)
    c.plan(n=31, penalty=1.0)
    c.run(**QUIET)
    for exact in (True, False):
        assert record.differences(EXPECTED["partly_continued"], record.records_of(seen(c)), exact=exact)


def test_a_finished_folder_with_a_budget_is_read_and_stays(copied):
    folder = copied("budget")
    check("budget", seen(th.Campaign.open(folder)))
    settings = {"seed": 42, "cost": "reported", "unit": "events", "m": 2, "accept_changed": OTHER_PYTHON}
    c = th.Campaign(folder, events, PRIOR, **settings)
    c.run(**QUIET)
    check("budget", seen(c))


def test_a_half_run_smc_abc_goes_on_to_the_recorded_end(copied):
    c = th.Campaign(copied("smc"), events, PRIOR, seed=43, cost="reported", accept_changed=OTHER_PYTHON)
    assert c.status().pending > 0
    check("smc_continued", scenarios.smc_values(record_folders.SMC.run(c, X_O, n=150, engine=th.Inline())))


@pytest.mark.skipif(OTHER_PYTHON, reason="infer has no accept_changed")
def test_a_study_folder_is_continued_without_a_run(copied):
    folder = copied("study")
    before = th.Campaign.open(folder).status()
    study = record_folders.study_in(folder)
    check("study", {**scenarios.table(study.simulations), "samples": study.samples})
    assert th.Campaign.open(folder).status().spent == before.spent


def test_the_result_in_a_study_folder_is_read():
    place = record_folders.HOME / "study" / "infer" / "abc"
    samples = th.load_posterior(place / "posterior.npz").sample(2000, X_O, seed=44)
    with np.load(place / "samples.npz") as file:
        assert np.allclose(file["samples"], samples, rtol=1e-12)
    recorded = EXPECTED["study"]["samples"]
    assert not record.differences({"s": recorded}, record.records_of({"s": samples}), exact=record.machine() == MACHINE)


@pytest.mark.parametrize("name", [*record_folders.POSTERIORS, "weighted"])
def test_saved_posteriors_give_the_recorded_draws(name):
    needed(name)
    check(f"posterior_{name}", scenarios.told(th.load_posterior(FILES / f"{name}.npz"), name))


@pytest.mark.parametrize("name", ["cost_gp", "cost_polynomial"])
def test_saved_costs_give_the_recorded_prices(name):
    check(name, {"cost": th.load_cost(FILES / f"{name}.json")(scenarios.POINTS)})


def test_saved_tables_are_the_campaign(copied):
    whole = {name: EXPECTED["budget"][name] for name in ("theta", "x", "log_weights", "status", "cost", "index")}
    tables = {
        "npz": th.Simulations.from_npz(FILES / "table.npz"),
        "csv": th.Simulations.from_csv(FILES / "table.csv", theta=list(PRIOR.names), m=2),
    }
    if _has("pyarrow") and _has("pandas"):
        tables["parquet"] = th.Simulations.from_parquet(FILES / "table.parquet")
    for table in tables.values():
        assert record.differences(whole, record.records_of(scenarios.table(table)), exact=True) == []


def test_a_training_goes_on_from_its_checkpoint(tmp_path):
    """Two epochs were trained before; two more end where four at once did."""
    needed("checkpoint_continued")
    if record.machine() != MACHINE:
        pytest.skip("a checkpoint is known by the very bytes of its table, which another machine may compute otherwise")
    shutil.copy(FILES / "checkpoint.npz", tmp_path / "checkpoint.npz")
    post = record_folders.half_trained(tmp_path / "checkpoint.npz", epochs=4)
    check("checkpoint_continued", scenarios.told(post, "npe"))


def _has(library: str) -> bool:
    from importlib.util import find_spec

    return find_spec(library) is not None
