"""A small campaign with failures, its inference, and folders forged as an attacker would."""

from __future__ import annotations

import json
import sqlite3
import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.report.results import Result, save_result
from thrifty.store.rows import with_checksum

PRIOR = th.Uniform([0.0, 1.0], [1.0, 3.0], names=["beta", "gamma"])
LATE = [pytest.param(stage, marks=pytest.mark.slow) for stage in ("planned", "complete")]
STAGES = ["empty", "pilot", "half", "inferred", *LATE]


def simulate(theta, rng):
    """Cheap or expensive by its first parameter; a few fail where both are large."""
    if theta[0] > 0.93 and theta[1] > 2.2:
        raise ValueError(f"no mesh at {theta[0]:.3f}")
    return th.Output([theta[0] + 0.1 * rng.normal(), theta[1] * rng.random()], cost=float(np.exp(3 * theta[0])))


def campaign(folder, *, prior=PRIOR, simulator=simulate, unit="events"):
    return th.Campaign(folder, simulator, prior, seed=5, cost="reported", unit=unit)


def finish(c):
    """Run everything; that some fail is meant, and no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return c.run(engine=th.Inline(), progress="quiet")


def keep_result(folder, *, name="abc", method="ABC"):
    """Infer with rejection ABC, judge, and keep it in the folder, as the command line does."""
    c = th.Campaign.open(folder)
    sims = c.simulations(max_failed=1.0)
    x_o = [0.4, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # failed prior mass, as meant
        posterior = th.ABC(c.prior, quantile=0.2).fit(sims)
        accepted = posterior.accepted(x_o)
    checks = (th.diagnostics.weight_health(sims), th.diagnostics.misspecification(sims, x_o))
    diagnosis = th.diagnostics.Diagnosis(checks, ("a note",))
    result = Result(
        name=name, method=method, posterior_path=None, x_o=np.array(x_o), samples=accepted.theta,
        log_weights=accepted.log_weights, names=c.prior.names, diagnosis=diagnosis.to_dict(), seconds=0.5,
    )  # fmt: skip
    return save_result(folder, result, posterior)


def forget(folder, indices):
    """Take runs back to pending, as after a kill."""
    from thrifty.store.store import Store

    store = Store.open(folder)
    store.forget(list(indices))
    store.close()


def forge(folder, **settings):
    """Settings as an attacker writes them: any value, with a right checksum."""
    db = sqlite3.connect(folder / "store.sqlite")
    with db:
        for key, value in settings.items():
            db.execute("REPLACE INTO meta VALUES (?, ?, ?)", with_checksum((key, json.dumps(value))))
    db.close()


def forge_names(folder, names):
    """Parameter names that thrifty itself would refuse."""
    prior = th.Campaign.open(folder).prior
    low, high = ([str(value) for value in end] for end in prior.bounds)
    forge(folder, prior={"names": names, "low": low, "high": high, "draws": [], "log_prob": [], "recipe": None})


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".sqlite", ".json", ".npz")}


class Pages(dict):
    """Stage -> the report of it, written when first asked for, without touching the folder."""

    def __init__(self, stages, home):
        super().__init__()
        self.stages, self.home = stages, home

    def __missing__(self, stage):
        from thrifty.report import write

        before = contents(self.stages[stage])
        self[stage] = write(self.home / f"{stage}.html", self.stages[stage], command=f"thrifty report {stage}")
        assert contents(self.stages[stage]) == before, "a report must change nothing"
        return self[stage]
