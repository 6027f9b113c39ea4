"""Named numbers: what brings names, in which order, and what is refused."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError
from thrifty.named import align, hash_observation, order_observation, split_names
from thrifty.types import as_rows

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")
Summary = namedtuple("Summary", "peak size")

NAMED = {
    "dict": ({"peak": 1, "size": np.float32(2)}, ("peak", "size"), (2,)),
    "arrays": ({"peak": [1.0], "curve": [[2, 3]]}, ("peak", "curve_1_1", "curve_1_2"), (3,)),
    "tuple": (Summary(1.0, 2.0), ("peak", "size"), (2,)),
    "series": (pandas.Series({"peak": 1.0, "size": 2.0}), ("peak", "size"), (2,)),
    "row": (pandas.DataFrame({"peak": [1.0], "size": [2.0]}), ("peak", "size"), (1, 2)),
    "rows": (pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), ("a_1", "b_1", "a_2", "b_2"), (2, 2)),
    "dataset": (
        xarray.Dataset({"peak": 1.0, "cases": ("day", [2.0, 3.0])}, {"day": [10, 20]}),
        ("peak", "cases_10", "cases_20"),
        (3,),
    ),
    "labels": (xarray.DataArray([1.0, 2.0], {"what": ["peak", "size"]}, "what"), ("peak", "size"), (2,)),
    "numbers": (xarray.DataArray([1.0, 2.0], {"day": [10, 20]}, "day"), ("day_10", "day_20"), (2,)),
    "image": (
        xarray.DataArray(np.eye(2), {"side": ["l", "r"]}, ("side", "level"), name="heat"),
        ("heat_l_1", "heat_l_2", "heat_r_1", "heat_r_2"),
        (2, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMED)
def test_what_brings_names(kind):
    value, names, shape = NAMED[kind]
    numbers, found = split_names(value)
    assert found == names and numbers.shape == shape and numbers.dtype == np.float64


@pytest.mark.parametrize(
    "plain",
    [
        [1.0, 2.0],
        np.ones(3),
        pandas.Series([1.0, 2.0]),
        xarray.DataArray([1.0, 2.0], {"time": [0.5, 0.7]}, "time"),  # times may differ from run to run
        7.0,
        (1.0, 2.0),
    ],
)
def test_plain_numbers_have_no_names(plain):
    assert split_names(plain)[1] == ()


@pytest.mark.parametrize("bad", [{"a": "x"}, {"a": None}, {"a": {"b": 1.0}}, {"a": 1j}])
def test_what_is_not_a_number_is_named(bad):
    with pytest.raises(TypeError, match="'a' holds"):
        split_names(bad)


def test_order_is_by_name_also_of_tables():
    rows = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(align(rows, ("b", "a"), ("a", "b")), rows[:, ::-1])
    with pytest.raises(ValueError, match="a missing, c unknown; expected a, b"):
        align(rows, ("b", "c"), ("a", "b"))


def test_parameters_by_name():
    names = ("beta", "gamma")
    frame = pandas.DataFrame({"gamma": [0.1, 0.2], "beta": [0.3, 0.4]})
    for theta in (
        frame,
        frame.to_dict("list"),
        xarray.Dataset({"gamma": ("i", [0.1, 0.2]), "beta": ("i", [0.3, 0.4])}),
    ):
        np.testing.assert_array_equal(as_rows(theta, names=names), [[0.3, 0.1], [0.4, 0.2]])
    np.testing.assert_array_equal(as_rows(frame.iloc[0], names=names), [[0.3, 0.1]])
    for wrong, words in (({"beta": 1.0}, "gamma missing"), ({"beta": 1, "gamma": 1, "delta": 2}, "delta unknown")):
        with pytest.raises(DataError, match=words):
            as_rows(wrong, names=names)
    with pytest.raises(DataError, match="different lengths: beta 2, gamma 3"):
        as_rows({"beta": [1, 2], "gamma": [1, 2, 3]}, names=names)
    prior = th.Uniform([0, 0], [1, 2], names=names)
    assert prior.log_prob({"gamma": 1.5, "beta": 0.5})[0] == prior.log_prob([[0.5, 1.5]])[0] > -np.inf
    assert prior.log_prob({"beta": 1.5, "gamma": 0.5})[0] == -np.inf


def test_tables_from_named_columns():
    frame = pandas.DataFrame({"mu": [1.0, 2.0]})
    sims = th.Simulations.from_arrays(theta=frame, x={"peak": [3.0, 4.0], "curve": [[5.0, 6.0], [7.0, 8.0]]})
    assert (sims.names, sims.x_names) == (("mu",), ("peak", "curve_1", "curve_2"))
    np.testing.assert_array_equal(sims.x, [[3, 5, 6], [4, 7, 8]])
    assert th.Draws(frame).names == ("mu",)


def test_observations_by_name():
    names = ("peak", "size")
    one = {"size": 2.0, "peak": 1.0}
    several = [one, pandas.Series({"peak": 3.0, "size": 4.0})]
    np.testing.assert_array_equal(order_observation(one, (2,), names), [1, 2])
    for x_o in (several, pandas.DataFrame(several), {"size": [2.0, 4.0], "peak": [1.0, 3.0]}):
        np.testing.assert_array_equal(order_observation(x_o, (2,), names), [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="size missing, sise unknown; expected peak, size"):
        order_observation({"peak": 1.0, "sise": 2.0}, (2,), names)
    with pytest.raises(DataError, match="simulations have no names"):
        order_observation(one, (2,), ())
    assert order_observation([1.0, 2.0], (2,), names) == [1.0, 2.0]
    assert (
        hash_observation(one)
        == hash_observation({"peak": 1.0, "size": 2.0})
        != hash_observation({"peak": 2.0, "size": 1.0})
    )
