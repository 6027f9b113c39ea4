"""Weights by any name are not forgotten, realisations are not taken for outputs, and reweighting goes on."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, WeightError


def table(rng, n=60, m=1):
    theta = rng.uniform(0, 1, (n, 1))
    x = rng.normal(size=(n, m, 2)) if m > 1 else rng.normal(size=(n, 2))
    return th.Simulations.from_arrays(
        theta=theta, x=x, weights=rng.uniform(1, 2, n), m=m, names=["beta"], x_names=["u", "v"]
    )


def test_reweight_can_be_chained(rng):
    runs = table(rng, 2000)
    wide, middle, narrow = (th.Uniform(0, end, names=["beta"]) for end in (1.0, 0.8, 0.5))
    twice = th.reweight(th.reweight(runs, middle, old_prior=wide), narrow, old_prior=middle)
    once = th.reweight(runs, narrow, old_prior=wide)
    assert th.normalise(twice.log_weights) == pytest.approx(th.normalise(once.log_weights), rel=1e-12)
    with pytest.raises(DataError, match="runs with weight lie outside old_prior"):
        th.reweight(runs, narrow, old_prior=middle)


@pytest.mark.parametrize(
    "name", ["Weight", "LOG_WEIGHT", "logw", "log_w", "importance_weight", "iw", "weights_", "w", "log_weights"]
)
@pytest.mark.parametrize("outputs", [None, ["u", "v"]])
def test_weights_by_other_names_are_refused(rng, tmp_path, name, outputs):
    pytest.importorskip("pandas")
    frame = table(rng).to_pandas().rename(columns={"log_weight": name})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=f"{name} would be read as an output or be forgotten, not as a weight"):
        th.Simulations.from_csv(tmp_path / "t.csv", theta=["beta"], x=outputs)
    named = th.Simulations.from_csv(tmp_path / "t.csv", theta="beta", x=["u", name])
    assert named.x_names == ("u", name) and named.names == ("beta",)  # who names it an output means it


def test_weights_in_the_file_and_given(rng, tmp_path):
    pytest.importorskip("pandas")
    frame = table(rng).to_pandas()
    frame["w2"] = 1.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(WeightError, match="has a column log_weight, and w2 was passed"):
        th.Simulations.from_csv(tmp_path / "t.csv", theta="beta", weights="w2")


def test_row_numbers_of_pandas_are_no_output(rng, tmp_path):
    pytest.importorskip("pandas")
    runs = table(rng)
    runs.to_pandas().to_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"column without a name \(number 1\)[\s\S]*index=False"):
        th.Simulations.from_csv(tmp_path / "t.csv", theta="beta")
    assert np.array_equal(th.Simulations.from_csv(tmp_path / "t.csv", theta="beta", x=["u", "v"]).x, runs.x)


def test_realisations_survive_a_csv_file(rng, tmp_path):
    pytest.importorskip("pandas")
    runs = table(rng, m=3)
    runs.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"3 realisations of each theta \(u\[1\] to v\[3\]\)[\s\S]*pass m=3"):
        th.Simulations.from_csv(tmp_path / "t.csv", theta="beta")
    with pytest.raises(DataError, match="6 output columns, which are not 4 realisations"):
        th.Simulations.from_csv(tmp_path / "t.csv", theta="beta", m=4)
    again = th.Simulations.from_csv(tmp_path / "t.csv", theta="beta", m=3)
    assert again.m == 3 and again.x_names == ("u", "v") and np.array_equal(again.x, runs.x)
    assert np.array_equal(again.log_weights, runs.log_weights)
    assert np.array_equal(th.Simulations.from_pandas(runs.to_pandas()).x, runs.x)


def broken(frame, how):
    if how == "index":
        frame["index"] = frame["index"].astype(float)
        frame.loc[3, "index"] = np.nan
    elif how == "text":
        frame["u"] = frame["u"].astype(object)
        frame.loc[3, "u"] = "oops"
    else:
        frame.attrs["thrifty"] = {"format": 1}
    return frame


@pytest.mark.parametrize(
    ("how", "message"),
    [("index", "'index' of the frame does not hold whole numbers"), ("text", "oops"), ("attrs", "lost its attrs")],
)
def test_frames_that_were_changed(rng, how, message):
    pytest.importorskip("pandas")
    with pytest.raises(DataError, match=message):
        th.Simulations.from_pandas(broken(table(rng).to_pandas(), how))


def test_no_frame_at_all():
    with pytest.raises(DataError, match="this ndarray was not written by to_pandas"):
        th.Simulations.from_pandas(np.zeros(3))  # type: ignore[arg-type]
