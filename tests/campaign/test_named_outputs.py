"""Names of outputs: learned from the first run, kept in the folder, equal for every engine, checked in every run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import SimulatorError, ThriftyWarning

PRIOR = th.Uniform([0.0, 1.0], [1.0, 2.0], names=["beta", "gamma"])
QUIET = {"progress": "quiet"}


def epidemic(theta, rng):
    """Return names in an order that changes from run to run."""
    values = {"peak": theta[0] + rng.normal(), "size": 10 * theta[1], "curve": theta}
    values = dict(reversed(values.items())) if theta[0] > 0.9 else values
    return th.Output(values, cost=float(np.exp(theta[0])))


def forgetful(theta, rng):
    found = {"peak": float(rng.normal()), "size": 1.0}
    return found if theta[0] < 0.8 else {"peak": 1.0, "sise": 2.0}


def test_a_campaign_learns_names_keeps_them_and_goes_on(tmp_path):
    c = th.Campaign(tmp_path / "c", epidemic, PRIOR, cost="reported")
    c.pilot(30, engine=th.Inline(), **QUIET)
    again = th.Campaign(tmp_path / "c", epidemic, PRIOR, cost="reported")
    again.plan(n=20)
    again.run(workers=2, **QUIET)
    for opened in (again, th.Campaign.open(tmp_path / "c")):
        sims = opened.simulations()
        place = {name: i for i, name in enumerate(sims.x_names)}
        assert set(place) == {"peak", "size", "curve_1", "curve_2"} and len(sims) == 50 and sims.ok.all()
        np.testing.assert_array_equal(sims.x[:, place["size"]], 10 * sims.theta[:, 1])
        np.testing.assert_array_equal(sims.x[:, [place["curve_1"], place["curve_2"]]], sims.theta)
    assert again.verify().ok


def test_names_outlive_a_lost_store(tmp_path):
    c = th.Campaign(tmp_path / "c", epidemic, PRIOR)
    c.pilot(20, engine=th.Inline(), **QUIET)
    names = c.simulations().x_names
    (tmp_path / "c" / "store.sqlite").unlink()
    th.Campaign.repair(tmp_path / "c")
    c = th.Campaign(tmp_path / "c", epidemic, PRIOR)
    c.pilot(20, engine=th.Inline(), **QUIET)
    assert c.simulations().x_names == names


def test_a_killed_driver_leaves_names_with_its_runs(tmp_path):
    """kill -9 while runs go on; another process, whose first run has another order, continues the same columns."""
    script = textwrap.dedent(f"""
        import time, thrifty as th
        def simulate(beta, gamma):
            time.sleep(0.02)
            return {{"a": beta, "b": gamma}} if beta < 0.5 else {{"b": gamma, "a": beta}}
        if __name__ == "__main__":
            prior = th.Uniform([0.0, 1.0], [1.0, 2.0], names=["beta", "gamma"])
            c = th.Campaign({str(tmp_path / "c")!r}, simulate, prior)
            c.pilot(120, workers=1, progress="plain")
            print(th.Campaign.open({str(tmp_path / "c")!r}).simulations().x_names)
    """)
    path = tmp_path / "drive.py"
    path.write_text(script)
    driver = subprocess.Popen([sys.executable, path], stdout=subprocess.DEVNULL, start_new_session=True)
    while not _count_runs(tmp_path / "c"):
        assert driver.poll() is None
        os.sched_yield()
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    done = _count_runs(tmp_path / "c")
    assert 0 < done < 120
    subprocess.run([sys.executable, path], check=True, stdout=subprocess.DEVNULL)
    sims = th.Campaign.open(tmp_path / "c").simulations()
    columns = [("beta", "gamma").index({"a": "beta", "b": "gamma"}[name]) for name in sims.x_names]
    np.testing.assert_array_equal(sims.x, sims.theta[:, columns])
    assert len(sims) == 120


def _count_runs(folder):
    try:
        return th.Campaign.open(folder).status().done
    except th.ThriftyError:
        return 0


def test_the_same_columns_for_any_engine(tmp_path):
    theta = PRIOR.sample(40, np.random.default_rng(1))
    draws = th.Draws(theta[np.argsort(theta[:, 0])], names=PRIOR.names)  # the first run has the common order
    plain = th.simulate(epidemic, draws, engine=th.Inline(), **QUIET)
    assert plain.x_names == ("peak", "size", "curve_1", "curve_2")
    for engine in (th.Processes(1), th.Futures(ThreadPoolExecutor(1))):
        sims = th.simulate(epidemic, draws, engine=engine, **QUIET)
        assert sims.x_names == plain.x_names
        np.testing.assert_array_equal(sims.x, plain.x)


def test_a_run_with_other_names_fails_alone_and_says_which():
    theta = np.linspace([0.0, 1.0], [1.0, 2.0], 40)
    with pytest.warns(ThriftyWarning, match="error"):
        sims = th.simulate(forgetful, th.Draws(theta, names=PRIOR.names), engine=th.Inline(), **QUIET)
    np.testing.assert_array_equal(sims.status == "error", theta[:, 0] >= 0.8)
    with pytest.raises(SimulatorError, match="simulator returned two numbers named 'a_1'"):
        th.simulate(lambda theta: {"a": theta, "a_1": 1.0}, theta, engine=th.Inline(), **QUIET)


def test_realisations_are_ordered_by_name():
    sims = th.simulate(epidemic, th.Draws([[0.95, 1.5], [0.1, 1.2]]), engine=th.Inline(), m=3, **QUIET)
    assert sims.x.shape == (2, 3, 4) and len(sims.x_names) == 4
    np.testing.assert_array_equal(sims.x[:, :, sims.x_names.index("size")], 10 * sims.theta[:, [1, 1, 1]])


def test_a_program_names_its_numbers(tmp_path):
    path = tmp_path / "program"
    path.write_text(
        f'#!{sys.executable} -S\nimport sys\nprint(\'{{"peak": %s, "size": 2, "cost": 7}}\' % sys.argv[1])\n'
    )
    path.chmod(0o755)
    sims = th.simulate(th.Command([str(path), "{0}"]), [[1.0], [3.0]], workers=1, cost="reported", **QUIET)
    assert sims.x_names == ("peak", "size") and sims.cost.tolist() == [7, 7]
    np.testing.assert_array_equal(sims.x, [[1, 2], [3, 2]])


def reversed_first(theta, rng):
    """Runs take turns in the order of their names; those that start with "size", the first of each test, end late."""
    values = {"peak": theta[0], "size": 10 * theta[1]}
    if theta[1] > 1.5:
        time.sleep(0.2)
        values = dict(reversed(values.items()))
    return th.Output(values, cost=1.0)


@pytest.mark.parametrize("lazy", [False, True])
def test_the_run_with_the_lowest_index_decides_the_order(tmp_path, lazy):
    """The same columns in the same order for every engine, whichever run ends first."""
    tables = {}
    for label, engine in (("one", th.Inline()), ("three", th.Processes(3))):
        c = th.Campaign(tmp_path / label, reversed_first, PRIOR, seed=1, cost="reported")
        c.pilot(12, engine=engine, **QUIET)
        sims = th.Campaign.open(tmp_path / label).simulations(lazy=lazy)
        assert sims.x_names == ("size", "peak")
        np.testing.assert_array_equal(sims.x[:, 0], 10 * sims.theta[:, 1])
        np.testing.assert_array_equal(sims.x[:, 1], sims.theta[:, 0])
        tables[label] = th.table_hash(sims)
    assert tables["one"] == tables["three"]


def test_runs_in_memory_have_the_order_of_the_first(tmp_path):
    theta = PRIOR.sample(12, np.random.default_rng(0))
    theta[0, 1] = 1.9
    draws = th.Draws(theta=theta, log_weights=np.zeros(12), names=PRIOR.names)
    one, two = (th.simulate(reversed_first, draws, workers=n, seed=1, cost="reported", **QUIET) for n in (1, 3))
    assert one.x_names == two.x_names == ("size", "peak")
    np.testing.assert_array_equal(one.x, two.x)
