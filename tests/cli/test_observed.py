"""Observed data from files: numbers in order, or by name where the runs have names."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.cli.project import order_observed, read_observed
from thrifty.errors import DataError

FILES = {
    "x.json": '{"size": 2, "peak": 1}',
    "nested.json": '{"x": {"size": 2, "peak": 1}, "cost": 7}',
    "x.csv": "size,peak\n2,1\n",
}


@pytest.mark.parametrize("name", FILES)
def test_named_files(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    found = read_observed(path)
    np.testing.assert_array_equal(order_observed(found, (2,), ("peak", "size")), [1, 2])
    np.testing.assert_array_equal(order_observed(found, (2,), ()), [2, 1])  # runs without names: as in the file
    with pytest.raises(DataError, match="day missing, size unknown"):
        order_observed(found, (2,), ("peak", "day"))


@pytest.mark.parametrize(("name", "text"), [("x.json", "[1, 2]"), ("x.csv", "1,2\n"), ("y.json", '{"x": [1, 2]}')])
def test_plain_files(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    np.testing.assert_array_equal(order_observed(read_observed(tmp_path / name), (2,), ("peak", "size")), [1, 2])


def test_what_is_not_a_number(tmp_path):
    (tmp_path / "x.json").write_text('{"peak": "high"}')
    with pytest.raises(DataError, match="'peak' holds"):
        read_observed(tmp_path / "x.json")
