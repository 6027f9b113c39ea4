"""Reading thrifty.toml: families, templates, and lines."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.cli import config
from thrifty.cli.commands.init import command_files, default_files
from thrifty.cli.config import FAMILIES, read_prior
from thrifty.cli.config_errors import Problems
from thrifty.cli.output import Screen
from thrifty.cli.project import start_session
from thrifty.errors import CampaignError, ConfigError
from thrifty.priors import check_prior

from .conftest import TOML, Project

NUMBERS = {
    "uniform": {"low": -1.0, "high": 2.0}, "loguniform": {"low": 0.1, "high": 10.0}, "normal": {"mean": 1.0, "sd": 2.0},
    "truncated": {"mean": 0.0, "sd": 1.0, "low": -0.5, "high": 3.0}, "lognormal": {"median": 2.0, "sd": 0.5},
    "exponential": {"mean": 3.0}, "gamma": {"shape": 2.0, "scale": 0.5}, "beta": {"a": 2.0, "b": 5.0},
    "integers": {"low": 1, "high": 6}, "poisson": {"mean": 2.0},
    "categorical": {"probabilities": [0.5, 0.2, 0.3], "labels": ["a", "b", "c"]},
}  # fmt: skip
MEANS = {
    "uniform": 0.5, "loguniform": 9.9 / np.log(100), "normal": 1.0, "truncated": 0.5049, "lognormal": 2 * np.exp(0.125),
    "exponential": 3.0, "gamma": 1.0, "beta": 2 / 7, "integers": 3.5, "poisson": 2.0, "categorical": 0.8,
}  # fmt: skip


def read(table: dict[str, object]) -> th.types.Prior:
    problems = Problems(Path("thrifty.toml"), "")
    prior = read_prior(table, problems)
    problems.close()
    assert prior is not None
    return prior


def _move(value: object) -> object:
    """Another number; whole ones stay whole, probabilities change places, labels stay."""
    if isinstance(value, list):
        return value if isinstance(value[0], str) else value[::-1]
    return value + (1 if isinstance(value, int) else 0.3)  # type: ignore[operator]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_mean_it_says(family: str, rng: np.random.Generator):
    assert set(NUMBERS) == set(FAMILIES)
    prior = read({"a": {"family": family, **NUMBERS[family]}})
    check_prior(prior)
    draws = prior.sample(20_000, rng)[:, 0]
    assert abs(draws.mean() - MEANS[family]) < 5 * draws.std() / np.sqrt(len(draws))
    other = read({"a": {"family": family, **{k: _move(v) for k, v in NUMBERS[family].items()}}})
    moved = other.sample(20_000, rng)[:, 0]  # the mutant: other numbers are another prior
    assert abs(moved.mean() - MEANS[family]) > 5 * moved.std() / np.sqrt(len(moved))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_short_form_is_the_same_prior(family: str, rng: np.random.Generator):
    numbers = list(NUMBERS[family].values())
    short = {family: numbers[0], "labels": numbers[1]} if family == "categorical" else {family: numbers}
    expected, found = read({"p": {"family": family, **NUMBERS[family]}}), read({"p": short})
    draws = expected.sample(50, rng)
    assert found.names == expected.names and np.array_equal(found.log_prob(draws), expected.log_prob(draws))


def test_one_number_needs_no_list():
    assert read({"p": {"poisson": 2.0}}).log_prob(np.zeros((1, 1)))[0] == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [({"unifrom": [0, 1]}, "names no family: unknown key 'unifrom'. Did you mean 'uniform'"),
     ({"familiy": "normal", "mean": 0, "sd": 1}, "Did you mean 'family'"),
     ({"loguniform": [0.3, 60, 2]}, r"loguniform takes 2 numbers \(low, high\), got loguniform = \[0.3, 60, 2\]"),
     ({"uniform": [0, 1], "high": 2}, "uniform takes 2 numbers .*, high = 2"),
     ({"uniform": ["a", 1]}, "low must be a finite number")],
)  # fmt: skip
def test_a_wrong_short_form_is_refused(values: dict[str, object], words: str):
    with pytest.raises(th.ThriftyError, match=words):
        read({"p": values})


def test_a_prior_without_a_family_is_shown_both_forms():
    with pytest.raises(th.ThriftyError) as refusal:
        read({"p": {"unif": [0, 1]}})
    assert refusal.value.fix == 'p = { family = "uniform", low = 0.0, high = 1.0 }, or p = { uniform = [0.0, 1.0] }'


def test_the_example_of_the_page_is_read(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs/configuration.md"
    (tmp_path / "thrifty.toml").write_text(page.read_text().split("```toml\n")[1].split("```")[0])
    prior = config.read_config(tmp_path / "thrifty.toml").prior
    assert prior.names == ("beta", "gamma")
    assert [edge.tolist() for edge in prior.bounds] == [[0.1, 0.1], [1.0, 1.0]]  # type: ignore[attr-defined]


def test_categories_keep_their_labels():
    prior = read({"m": {"family": "categorical", **NUMBERS["categorical"]}, "n": {"family": "poisson", "mean": 2.0}})
    assert prior.levels == (("a", "b", "c"), ())  # type: ignore[attr-defined]
    with pytest.raises(th.ThriftyError, match="sum 1"):
        read({"m": {"family": "categorical", "probabilities": [0.5, 0.2]}})
    with pytest.raises(th.ThriftyError, match="label"):
        read({"m": {"family": "categorical", "probabilities": [0.5, 0.5], "label": ["a", "b"]}})


def test_mixed_families_keep_their_order_and_their_numbers(rng: np.random.Generator):
    prior = read({"z": {"family": "normal", "mean": 100.0, "sd": 1.0}, "a": {"family": "uniform", "low": 0, "high": 1}})
    assert prior.names == ("z", "a")
    draws = prior.sample(1000, rng)
    assert draws[:, 0].min() > 90 and draws[:, 1].max() <= 1
    from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict

    assert np.allclose(prior_from_dict(prior_to_dict(prior)).log_prob(draws), prior.log_prob(draws))


def test_templates_are_read_and_name_every_key(tmp_path: Path):
    for files in (default_files(), command_files("./model {beta} --seed {seed}")):
        path = tmp_path / "thrifty.toml"
        path.write_text(files["thrifty.toml"])
        settings = config.read_config(path)
        assert settings.prior.dim >= 1 and settings.run.folder == tmp_path / "runs/main"
    text = default_files()["thrifty.toml"]
    for key in ("python", "measure", "price", "n", "budget", "penalty", "mixture", "pilot", "seed", "folder", "workers",
                "engine", "time_limit", "on_timeout", "method", "observed", "rounds"):  # fmt: skip
        assert f"{key} = " in text, f"{key} is not in the template"


@pytest.mark.parametrize("section", ["simulator", "cost", "plan", "run", "infer"])
def test_what_is_read_is_what_is_kept(section: str):
    assert all(key.metadata["kinds"] for key in fields(config.TABLES[section]))


def test_commented_lines_of_the_template_are_right_when_uncommented(tmp_path: Path):
    text = default_files()["thrifty.toml"]
    for line in ('price = "0.05 eur/cpu-h"', 'budget = "2 cpu-h"', "penalty = 0.5", 'time_limit = "10 min"',
                 'on_timeout = "lazy"'):  # fmt: skip
        assert f"# {line}" in text
        text = text.replace(f"# {line}", line)
    (tmp_path / "thrifty.toml").write_text(text)
    settings = config.read_config(tmp_path / "thrifty.toml")
    assert (
        settings.infer.rounds is None
        and settings.run.time_limit == 600
        and settings.run.on_timeout == "lazy"
        and settings.plan.penalty == 0.5
    )


def test_paths_mean_the_folder_of_the_file(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    typed = project.type("plan", "--config", "project/thrifty.toml")
    assert typed.code == 0, typed.err
    assert (project.home / "runs/one/store.sqlite").exists() and "next: thrifty run project/runs/one" in typed.err


def test_the_example_is_toml():
    assert set(tomllib.loads(TOML)) == {"simulator", "prior", "cost", "plan", "run", "infer"}


def test_data_files_of_a_simulator(tmp_path, monkeypatch):
    """`depends_on` is relative to the configuration; a changed file is refused by name before anything is planned."""
    (tmp_path / "model.py").write_text("def simulate(theta, rng):\n    return theta + rng.normal()\n")
    (tmp_path / "table.csv").write_text("1,2")
    (tmp_path / "thrifty.toml").write_text(
        '[simulator]\npython = "model.py:simulate"\ndepends_on = ["table.csv"]\n'
        '[prior]\nbeta = { family = "uniform", low = 0.0, high = 1.0 }\n[plan]\nn = 20\npilot = 12\n'
        '[run]\nengine = "inline"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def start():
        screen = Screen(quiet=True, json=False)
        return start_session(tmp_path / "runs", tmp_path / "thrifty.toml", screen, workers=None, accept_changed=False)

    assert start().campaign.status().done == 12
    (tmp_path / "table.csv").write_text("1,3")
    with pytest.raises(CampaignError, match=r"data table\.csv changed"):
        start()


def test_a_misspelt_family_is_named(tmp_path: Path):
    text = default_files()["thrifty.toml"]
    assert 'family = "uniform"' in text
    (tmp_path / "thrifty.toml").write_text(text.replace("{ family = ", "{ familiy = "))
    with pytest.raises(ConfigError, match=r"unknown key 'familiy'\. Did you mean 'family'"):
        config.read_config(tmp_path / "thrifty.toml")
