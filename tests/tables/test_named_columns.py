"""Names of outputs reach every file and other tool, and come back."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th

NAMES = ("peak", "size")


@pytest.fixture
def sims():
    rng = np.random.default_rng(0)
    theta = {"beta": rng.normal(size=6), "gamma": rng.normal(size=6)}
    return th.Simulations.from_arrays(theta=theta, x={"peak": rng.normal(size=6), "size": rng.normal(size=6)})


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet", "pandas"])
def test_names_come_back(sims, kind, tmp_path):
    path = tmp_path / f"table.{kind}"
    if kind in ("parquet", "pandas"):
        pytest.importorskip("pandas")
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    if kind == "pandas":
        frame = sims.to_pandas()
        assert list(frame.columns[:4]) == ["beta", "gamma", *NAMES]
        again = th.Simulations.from_pandas(frame[frame.columns[::-1]])  # a frame may have been rearranged
    else:
        getattr(sims, f"to_{kind}")(path)
        settings = {"theta": ["beta", "gamma"]} if kind == "csv" else {}
        again = getattr(th.Simulations, f"from_{kind}")(path, **settings)
    assert again.x_names == NAMES and again.names == ("beta", "gamma")
    np.testing.assert_array_equal(again.x, sims.x)


def test_arviz_has_a_coordinate(sims):
    pytest.importorskip("arviz")
    x = sims.to_arviz().prior_predictive["x"]
    np.testing.assert_array_equal(x.sel(statistic="size").values[0], sims.x[:, 1])


def test_tables_in_another_order_are_brought_together(sims):
    mixed = th.Simulations.from_arrays(theta=sims.theta, x=sims.x[:, ::-1], x_names=NAMES[::-1])
    np.testing.assert_array_equal(mixed.ordered(NAMES).x, sims.x)
    with pytest.raises(th.ThriftyError, match="size missing, sise unknown"):
        th.Simulations.from_arrays(theta=sims.theta, x=sims.x, x_names=("peak", "sise")).ordered(NAMES)
