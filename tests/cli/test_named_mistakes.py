"""Mistakes of new users: each message names the place, what was meant and the way out."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError, PriorError, SimulatorError, StorageError

from .conftest import Project

PRIOR = th.Uniform([0, 0], [1, 1], names=["a", "b"])


def simulate(a, b, rng):
    return {"u": a + rng.normal(), "v": b}


def test_two_letters_swapped(project: Project):
    assert "Did you mean 'npe'?" in project.type("infer", "--method", "nep").err
    with pytest.raises(AttributeError, match="Did you mean: 'NPE'"):
        th.NEP  # noqa: B018 - the mistake
    assert not hasattr(th, "__wrapped__")
    with pytest.raises(ConfigError) as caught:
        th.infer(simulate, PRIOR, [0.5, 0.5], n=50, method="nep")
    assert caught.value.fix == 'method="npe"'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("n = 60", 'n = 60\nprice = "1 eur/cpu-h"', "put it under [cost]"),
        (
            'a = { family = "uniform", low = 0.0, high = 3.0 }',
            "a = { loguniforn = [1, 3] }",
            "a = { loguniform = [1, 3] }",
        ),
    ],
)
def test_settings_in_the_wrong_place(project: Project, old: str, new: str, says: str):
    project.toml((old, new))
    assert says in project.type("check").err


def test_a_number_as_budget_is_one_mistake(project: Project):
    project.toml(("n = 60", "budget = 50"))
    said = project.type("check").err
    assert "budget = 50, expected" in said and "neither n nor budget" not in said


def test_observed_files(project: Project):
    assert project.type("run").code == 0
    assert "there is observed.csv" in project.type("infer", "--observed", "obs.csv").err
    assert "--observed takes a file" in project.type("infer", "--observed", "0.5,0.0").err
    project.write("taken", "")
    with pytest.raises(StorageError) as caught:
        th.Campaign(project.home / "taken", simulate, PRIOR)
    assert "a file has this name" in caught.value.fix


def test_failed_runs_are_made_again(project: Project):
    good = (project.home / "model.py").read_text()
    project.write("model.py", good.replace("    return", "    assert theta[0] < 2.0, 'too large'\n    return"))
    assert project.type("run").code == 4
    project.write("model.py", good)
    refused = project.type("run").err
    assert "--redo-failed makes the" in refused and "failed runs again" in refused
    again = project.type("run", "--accept-changed-simulator", "--redo-failed")
    assert again.code == 0 and "with the same parameters and random numbers" in again.err
    assert "made again (redo_failed)" in project.type("status").out


def test_check_sees_what_a_command_leaves_out(project: Project):
    project.write("prog.py", "import sys\nprint(sys.argv[1], 7.0, sep=',')\n")
    project.toml(
        ('python = "model.py:simulate"', 'command = ["python", "prog.py", "{a}"]\noutput = "csv"'),
        ('measure = "reported"\nunit = "steps"', 'measure = "cpu"'),
    )
    typed = project.type("check")
    said = typed.out
    assert typed.code == 0, typed.err
    assert "does not mention b" in said and "no {seed}" in said and "x_2 had the same value" in said


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: PRIOR.sample(5), PriorError, "np.random.default_rng(0)"),
        (lambda: th.Uniform(min=0, max=1), PriorError, "th.Uniform(low="),
        (lambda: th.Independent(a=th.Uniform(0, 1)), PriorError, "one dictionary"),
        (lambda: th.as_prior({"a": (0, 1)}), PriorError, '{"a": th.Uniform(0, 1)}'),
        (lambda: th.as_prior([th.Uniform(0, 1)]), PriorError, "th.Independent"),
        (lambda: th.Campaign("x", PRIOR, simulate), PriorError, "th.Campaign(folder, simulator, prior)"),
        (lambda: th.infer(simulate, PRIOR, [0.5, 0.5], n=1e2), ConfigError, "n = 100.0"),
    ],
)
def test_mistakes_in_python(make, error, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        make()
    assert says in str(caught.value) and caught.value.fix
    assert not list(tmp_path.iterdir())


def test_a_misspelt_parameter_may_be_the_prior_s():
    prior = th.Uniform([0, 0], [1, 1], names=["mu", "tao"])
    with pytest.raises(SimulatorError, match="the prior has 'tao': is one of them misspelt"):
        th.Campaign("x", lambda mu, tau, rng: mu, prior)


def test_a_table_says_how_it_is_indexed():
    sims = th.Simulations.from_arrays(theta=[[1.0], [2.0]], x=[[1.0], [2.0]], names=("a",))
    for key, fix in (("a", "to_pandas"), (0, "simulations[[0]]"), (np.int64(1), "simulations[[1]]")):
        with pytest.raises(DataError, match="a table is indexed by") as caught:
            sims[key]  # type: ignore[index]
        assert fix in caught.value.fix
    assert len(sims[[0]]) == len(sims[np.array([True, False])]) == 1
