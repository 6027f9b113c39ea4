"""Tables in and out: bit-equal round trips, weights kept, nothing executed, one message per mistake."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, MissingExtraError, WeightError


@pytest.fixture
def runs(rng):
    """Runs with names, failures, odd costs and weights of all sizes."""
    theta = rng.normal(size=(40, 2)) * 10.0 ** rng.integers(-8, 8, (40, 2))
    x = rng.normal(size=(40, 3))
    x[3] = np.nan
    log_weights = rng.normal(size=40) * 20
    log_weights[5] = -np.inf
    return th.Simulations(
        theta=theta,
        x=x,
        log_weights=log_weights,
        cost=np.where(rng.random(40) < 0.1, np.nan, rng.gamma(2, 1, 40)),
        status=np.where(np.arange(40) == 7, "timeout", "ok"),
        index=np.arange(40) * 3,
        names=("beta", "gamma"),
        x_names=("peak", "end", "size"),
        unit="events",
    )


def same(a, b):
    for name, value in a.columns().items():
        other = b.columns()[name]
        if isinstance(value, np.ndarray):
            assert value.dtype.kind == other.dtype.kind and value.shape == other.shape, name
            kinds = (value, other) if value.dtype.kind == "U" else (value.view(np.uint64), other.view(np.uint64))
            assert np.array_equal(*kinds), name
        elif name != "proposal":
            assert value == other, name


def through_pandas(runs, folder):
    del folder
    return th.Simulations.from_pandas(runs.to_pandas())


def through_parquet(runs, folder):
    runs.to_parquet(folder / "runs.parquet")
    return th.Simulations.from_parquet(folder / "runs.parquet")


def through_npz(runs, folder):
    runs.to_npz(folder / "runs.npz")
    return th.Simulations.from_npz(folder / "runs.npz")


@pytest.mark.parametrize("way", [through_pandas, through_parquet, through_npz])
def test_reads_back_bit_equal(runs, tmp_path, way):
    same(runs, way(runs, tmp_path))


@pytest.mark.parametrize("way", [through_pandas, through_parquet, through_npz])
def test_signals_and_replicates_keep_their_shape(rng, tmp_path, way):
    x = rng.normal(size=(6, 2, 4, 5))
    same(
        *(
            table
            for table in [th.Simulations(theta=np.ones((6, 1)), x=x, m=2)]
            for table in (table, way(table, tmp_path))
        )
    )


def test_csv_round_trip(runs, tmp_path):
    """All rows, the failed ones too: status and index come back."""
    runs.to_pandas().to_csv(tmp_path / "runs.csv", index=False)
    again = th.Simulations.from_csv(tmp_path / "runs.csv", theta=["beta", "gamma"])
    assert again.names == ("beta", "gamma") and again.x_names == ("peak", "end", "size")
    for name in ("theta", "x", "log_weights", "cost"):
        np.testing.assert_allclose(getattr(again, name), getattr(runs, name), rtol=1e-15)
    assert again.status.tolist() == runs.status.tolist() and "timeout" in again.status
    assert again.index.tolist() == runs.index.tolist()


def test_csv_columns_named_for_something_else(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("a,index,y\n1,0.5,5\n2,0.25,6\n", encoding="utf-8")
    named = th.Simulations.from_csv(path, theta=["a"], x=["index", "y"])
    assert named.x.tolist() == [[0.5, 5.0], [0.25, 6.0]] and named.index.tolist() == [0, 1]


def test_csv_weights_from_a_column_or_a_proposal(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("a,y,w,seconds\n1,5,2,0.5\n2,,3,0.25\n", encoding="utf-8")
    runs = th.Simulations.from_csv(path, theta=["a"], x=["y"], weights="w", cost="seconds")
    np.testing.assert_allclose(np.exp(runs.log_weights), [2, 3])
    assert runs.status.tolist() == ["ok", "invalid"] and runs.cost.tolist() == [0.5, 0.25]
    proposal = th.CostAware(th.Uniform(0.5, 3), lambda t: t[:, 0], th.Power(1))
    known = th.Simulations.from_csv(path, theta=["a"], x=["y"], proposal=proposal)
    np.testing.assert_allclose(known.log_weights, np.log([1, 2]))


def test_npz_without_weights_takes_them_from_a_proposal(tmp_path):
    np.savez(tmp_path / "plain.npz", theta=np.array([[1.0], [2.0]]), x=np.ones((2, 3)))
    proposal = th.CostAware(th.Uniform(0.5, 3), lambda t: t[:, 0], th.Power(2))
    runs = th.Simulations.from_npz(tmp_path / "plain.npz", proposal=proposal)
    np.testing.assert_allclose(runs.log_weights, 2 * np.log([1, 2]))
    assert np.array_equal(th.Simulations.from_npz(tmp_path / "plain.npz").log_weights, np.zeros(2))


def test_to_dict_has_bayesflow_weights(runs):
    data = runs.to_dict()
    assert set(data) == {"beta", "gamma", "x", "sample_weight"}
    assert data["beta"].shape == (38, 1) and data["x"].shape == (38, 3)
    assert data["sample_weight"].mean() == pytest.approx(1.0, abs=1e-12)
    ratio = np.log(data["sample_weight"][0] / data["sample_weight"][1])
    assert ratio == pytest.approx(runs.log_weights[0] - runs.log_weights[1], rel=1e-9)


def test_reweight_changes_the_prior(rng):
    """N(0,1) runs under exp cost, reweighted to N(0.5, 0.8): the weighted moments must be the new prior's."""
    prior, new = th.Normal([0.0], [1.0]), th.Normal([0.5], [0.8])
    q = th.CostAware(prior, lambda t: np.exp(t[:, 0]), th.Power(0.5))
    draws = q.sample(20_000, rng)
    runs = th.Simulations(theta=draws.theta, x=draws.theta, log_weights=draws.log_weights, proposal=q)
    moved = th.reweight(runs, new)
    mean = th.estimate(moved.theta[:, 0], moved.log_weights)
    spread = th.estimate((moved.theta[:, 0] - 0.5) ** 2, moved.log_weights)
    assert abs(mean.mean - 0.5) < 5 * mean.se and mean.ess > 200
    assert abs(spread.mean - 0.64) < 5 * spread.se
    twice = th.reweight(th.reweight(runs, new, old_prior=prior), prior, old_prior=new)
    np.testing.assert_allclose(twice.log_weights, runs.log_weights, atol=1e-9)


def test_reweight_refuses_what_no_weight_can_restore(rng):
    runs = th.Simulations.from_arrays(theta=rng.random((50, 1)), x=rng.random((50, 1)))
    with pytest.raises(DataError, match="prior behind these weights is not known"):
        th.reweight(runs, th.Uniform(0, 0.5))
    with pytest.raises(DataError, match=r"50\.\d% of the new prior lies where the old one has no mass|lies where"):
        th.reweight(runs, th.Uniform(0, 2), old_prior=th.Uniform(0, 1))
    with pytest.raises(DataError, match="priors over 1 and 2 parameters"):
        th.reweight(runs, th.Uniform([0, 0], [1, 1]), old_prior=th.Uniform(0, 1))


@pytest.mark.parametrize("tables", [[1, 2], None])
def test_reweight_wants_one_table(tables):
    with pytest.raises(th.ThriftyError, match="reweight expects one table of runs") as caught:
        th.reweight(tables, th.Uniform(0, 1))
    assert caught.value.code == "bad-setting"


def test_reweight_goes_by_name(rng):
    """Two parameters with different priors, the new one written in the other order."""
    old = th.Normal([0.0, 5.0], [1.0, 1.0], names=["a", "b"])
    theta = old.sample(20_000, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=theta, names=["a", "b"])
    straight = th.reweight(runs, th.Normal([0.5, 5.0], [0.8, 0.9], names=["a", "b"]), old_prior=old)
    turned = th.reweight(runs, th.Normal([5.0, 0.5], [0.9, 0.8], names=["b", "a"]), old_prior=old)
    np.testing.assert_allclose(turned.log_weights, straight.log_weights, rtol=1e-12, atol=1e-12)
    back = th.reweight(turned, old, old_prior=th.Normal([5.0, 0.5], [0.9, 0.8], names=["b", "a"]))
    np.testing.assert_allclose(back.log_weights, 0.0, atol=1e-9)
    unnamed = th.reweight(
        runs, th.Normal([0.5, 5.0], [0.8, 0.9]), old_prior=old
    )  # by position, as nothing else is known
    np.testing.assert_allclose(unnamed.log_weights, straight.log_weights, rtol=1e-12)
    narrow = th.Uniform([4.0, -0.5], [6.0, 0.5], names=["b", "a"])  # support is compared by name too
    assert (
        th.reweight(runs, narrow, old_prior=th.Uniform([-9, -3], [9, 13], names=["a", "b"])).log_weights > -np.inf
    ).any()
    with pytest.raises(DataError, match="new_prior has parameters a, c, the runs a, b"):
        th.reweight(runs, th.Normal([0.0, 0.0], [1.0, 1.0], names=["a", "c"]), old_prior=old)
    with pytest.raises(DataError, match="old_prior has parameters p, q"):
        th.reweight(runs, old, old_prior=th.Normal([0.0, 0.0], [1.0, 1.0], names=["p", "q"]))


def broken_zip(path):
    np.savez(path, theta=np.ones((50, 2)), x=np.arange(100.0).reshape(50, 2))
    data = bytearray(path.read_bytes())
    data[60:400] = bytes(340)
    path.write_bytes(bytes(data))


def one_array(path):
    with path.open("wb") as file:  # an open file keeps numpy from adding .npy to the name
        np.save(file, np.ones((3, 2)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (broken_zip, "cannot read"),
        (lambda path: path.write_bytes(b"PK\x03\x04 not a zip after all"), "cannot read"),
        (lambda path: path.write_bytes(b""), "cannot read"),
        (lambda path: path.mkdir(), "cannot read"),
        (one_array, r"one array of shape \(3, 2\), not a table of runs"),
    ],
)
def test_files_that_are_no_npz(tmp_path, spoil, message):
    path = tmp_path / "runs.npz"
    spoil(path)
    with pytest.raises(DataError, match=message):
        th.Simulations.from_npz(path)


@pytest.mark.parametrize("way", ["to_npz", "to_parquet"])
def test_where_nothing_can_be_written(runs, tmp_path, way):
    with pytest.raises(DataError, match="there is no folder"):
        getattr(runs, way)(tmp_path / "none" / "runs.file")
    with pytest.raises(DataError, match="is a folder"):
        getattr(runs, way)(tmp_path)
    assert list(tmp_path.iterdir()) == []


class Evil:
    def __reduce__(self):
        return (sys.exit, (99,))


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, theta=np.array([Evil()], dtype=object), x=np.ones((1, 1)))
    with pytest.raises(DataError, match="cannot read"):
        th.Simulations.from_npz(path)
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match="cannot read"):
        th.Simulations.from_npz(tmp_path / "bare.npz")


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a,y\n1,2\n3,oops\n", {"theta": ["a"]}, "line 3 column 'y': 'oops' is not a number"),
        ("a,y\n1,2\n3\n", {"theta": ["a"]}, "line 3 has 1 values, the header 2"),
        ("a,y\n", {"theta": ["a"]}, "no rows below its header"),
        ("a,y\n1,2\n", {"theta": ["b"]}, "has columns a, y; no b"),
        ("a\n1\n", {"theta": ["a"]}, "no parameter or output"),
        ("a,y,status\n1,2,done\n", {"theta": ["a"]}, "'status' holds 'done'; known are ok, invalid"),
        ("a,y,index\n1,2,0.5\n", {"theta": ["a"]}, "'index' does not hold whole numbers"),
    ],
)
def test_csv_messages(tmp_path, text, settings, message):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        th.Simulations.from_csv(path, **settings)


def test_other_messages(runs, tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        th.Simulations.from_csv(tmp_path / "none.csv", theta=["a"])
    np.savez(tmp_path / "half.npz", theta=np.ones((2, 1)))
    with pytest.raises(DataError, match="holds theta, but no x"):
        th.Simulations.from_npz(tmp_path / "half.npz")
    runs.to_npz(tmp_path / "runs.npz")
    with pytest.raises(WeightError, match="given twice"):
        th.Simulations.from_npz(tmp_path / "runs.npz", weights=np.ones(40))
    with pytest.raises(DataError, match="not written by to_pandas"):
        th.Simulations.from_pandas(runs.to_pandas()[["beta"]].set_axis(["z"], axis=1).pipe(_without_attrs))
    clash = th.Simulations(theta=runs.theta, x=runs.x, names=("cost", "b"))
    with pytest.raises(DataError, match="'cost' would be used twice"):
        clash.to_pandas()
    with pytest.raises(DataError, match="'x' would be used twice"):
        th.Simulations(theta=runs.theta, x=runs.x, names=("x", "b")).to_dict()


def _without_attrs(frame):
    frame.attrs.clear()
    return frame


MISSING = {
    "pandas": (lambda r, p: r.to_pandas(), "arviz"),
    "pyarrow": (lambda r, p: r.to_parquet(p / "x"), "arviz"),
    "arviz": (lambda r, p: r.to_arviz(), "arviz"),
    "torch": (lambda r, p: r.to_sbi(), "neural"),
}


@pytest.mark.parametrize("module", MISSING)
def test_missing_library_names_the_extra(runs, tmp_path, monkeypatch, module):
    call, extra = MISSING[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{module} is not installed") as caught:
        call(runs, tmp_path)
    assert f'"thrifty[{extra}]"' in str(caught.value)


@pytest.mark.parametrize("m", [1, 2])
def test_csv_round_trip_is_exact(tmp_path, rng, m):
    """Numbers, failures, weights and run numbers survive a text file bit for bit."""
    x = rng.normal(size=(6, m, 2)) if m > 1 else rng.normal(size=(6, 2))
    x[2] = np.nan
    runs = th.Simulations(
        theta=rng.normal(size=(6, 2)),
        x=x,
        log_weights=np.array([0.1, -np.inf, 1 / 3, 0, 1e-300, 2]),
        cost=np.array([1.5, np.nan, 2, 3, 4, 5e-9]),
        status=np.array(["ok", "ok", "timeout", "ok", "ok", "ok"]),
        index=np.array([7, 3, 1, 2, 9, 2**40]),
        m=m,
        names=("a", "b"),
        x_names=("y", "z"),
    )
    runs.to_csv(tmp_path / "runs.csv")
    again = th.Simulations.from_csv(tmp_path / "runs.csv", theta=["a", "b"], m=m)
    for name, value in runs.columns().items():
        np.testing.assert_array_equal(again.columns()[name], value)
    with pytest.raises(DataError, match="is a folder"):
        runs.to_csv(tmp_path)
