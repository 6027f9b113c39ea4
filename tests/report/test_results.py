"""Results of inference beside the runs: kept whole, read without trust."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, StorageError
from thrifty.report.results import Result, read_results, save_result


def example(rng: np.random.Generator, name: str = "abc", **more: object) -> Result:
    samples = rng.normal(size=(50, 2))
    given = {"method": "abc", "x_o": [1.0, 2.0], "samples": samples, "log_weights": None, "names": ("a", "b")}
    return Result(**{"name": name, "posterior_path": None, **given, **more})  # type: ignore[arg-type]


def posterior(rng: np.random.Generator) -> th.WeightedPosterior:
    return th.WeightedPosterior(rng.normal(size=(50, 2)), rng.normal(size=50), x_o=[1.0, 2.0])


def test_what_was_saved_is_read(tmp_path: Path, rng: np.random.Generator):
    post = posterior(rng)
    diagnosis = {"verdict": "trust", "reasons": [], "checks": [], "notes": ["fine"]}
    given = example(rng, log_weights=post.log_weights, diagnosis=diagnosis, seconds=1.5)
    kept = save_result(tmp_path, given, post)
    (read,) = read_results(tmp_path)
    assert read.samples.tobytes() == given.samples.tobytes()
    assert read.log_weights is not None and np.array_equal(read.log_weights, post.log_weights)
    assert (read.name, read.method, read.names, read.diagnosis, read.seconds) == (
        "abc", "abc", ("a", "b"), diagnosis, 1.5,
    )  # fmt: skip
    assert read.posterior_path == kept.posterior_path == tmp_path / "infer" / "abc" / "posterior.npz"
    assert np.array_equal(th.load_posterior(read.posterior_path).theta, post.theta)  # type: ignore[attr-defined]


def test_a_second_result_replaces_the_first_and_leaves_nothing_behind(tmp_path: Path, rng: np.random.Generator):
    save_result(tmp_path, example(rng, seconds=1.0))
    save_result(tmp_path, example(rng, seconds=2.0))
    save_result(tmp_path, example(rng, name="npe-2"))
    assert sorted(p.name for p in (tmp_path / "infer").iterdir()) == ["abc", "npe-2"]
    assert {r.name: r.seconds for r in read_results(tmp_path)} == {"abc": 2.0, "npe-2": 0.0}


def test_a_posterior_that_cannot_be_written_leaves_its_samples(tmp_path: Path, rng: np.random.Generator):
    class Own:
        def save(self, path: Path) -> None:
            path.write_text("half")
            raise DataError("a function of your own", code="code-not-saved")

    with pytest.warns(th.ThriftyWarning, match="not saved"):
        assert save_result(tmp_path, example(rng), Own()).posterior_path is None
    assert not (tmp_path / "infer" / "abc" / "posterior.npz").exists()
    assert len(read_results(tmp_path)[0].samples) == 50


def test_no_results_is_no_error(tmp_path: Path):
    assert read_results(tmp_path) == ()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 65])
def test_names_lead_nowhere_else(tmp_path: Path, rng: np.random.Generator, name: str):
    with pytest.raises(DataError, match="bad-name"):
        example(rng, name=name)


def test_a_changed_number_is_noticed(tmp_path: Path, rng: np.random.Generator):
    save_result(tmp_path, example(rng), posterior(rng))
    for name in ("samples.npz", "posterior.npz"):
        path = tmp_path / "infer" / "abc" / name
        whole = path.read_bytes()
        broken = bytearray(whole)
        broken[len(whole) // 2] ^= 1
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"bad-file.*not what was written"):
            read_results(tmp_path)
        path.write_bytes(whole)
    assert len(read_results(tmp_path)) == 1


@pytest.mark.parametrize(
    "about",
    ["", "[1]", "{}", '{"format": 1, "sums": {"../../x": "0"}}', '{"format": "x", "sums": {}}', "[" * 100_000],
    ids=["empty", "list", "no keys", "leads elsewhere", "format", "deep"],
)
def test_a_strange_description_is_refused(tmp_path: Path, rng: np.random.Generator, about: str):
    save_result(tmp_path, example(rng))
    (tmp_path / "infer" / "abc" / "result.json").write_text(about)
    with pytest.raises(DataError, match="bad-file"):
        read_results(tmp_path)


def test_links_and_control_characters_are_not_followed(tmp_path: Path, rng: np.random.Generator):
    save_result(tmp_path, example(rng))
    place = tmp_path / "infer" / "abc"
    about = json.loads((place / "result.json").read_text())
    about["method"] = "abc\x1b[31m"
    (place / "result.json").write_text(json.dumps(about))
    assert read_results(tmp_path)[0].method == "abc[31m"
    (tmp_path / "elsewhere.npz").write_bytes((place / "samples.npz").read_bytes())
    (place / "samples.npz").unlink()
    (place / "samples.npz").symlink_to(tmp_path / "elsewhere.npz")
    with pytest.raises(DataError, match="missing or a link"):
        read_results(tmp_path)


@pytest.mark.parametrize("link", ["infer", "infer/abc"])
def test_links_are_not_written_through(tmp_path: Path, rng: np.random.Generator, link: str):
    """A folder from elsewhere may hold a link that leads to somebody's files."""
    folder, victim = tmp_path / "c", tmp_path / "victim"
    (folder / link).parent.mkdir(parents=True)
    victim.mkdir()
    (victim / "result.json").write_text("precious")
    (folder / link).symlink_to(victim)
    if link == "infer":
        with pytest.raises(StorageError, match="leads elsewhere") as caught:
            save_result(folder, example(rng))
        assert caught.value.code == "untrusted-folder" and read_results(folder) == ()
    else:
        save_result(folder, example(rng))
        assert len(read_results(folder)) == 1 and not (folder / link).is_symlink()
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"result.json": "precious"}
