"""Observed data from files: numbers in order, or by name where the runs have names."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.cli.project import order_observed, read_observed
from thrifty.errors import DataError, ThriftyWarning

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
    with pytest.warns(ThriftyWarning, match="names size, peak are not used"):  # runs without names: as in the file
        np.testing.assert_array_equal(order_observed(found, (2,), ()), [2, 1])
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


def test_a_header_fits_its_values_or_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("total cases,peak\n1,2\n")
    assert read_observed(path) == {"total cases": 1.0, "peak": 2.0}
    path.write_text("size,peak\n1,2,3\n")
    with pytest.raises(DataError, match=r"x\.csv has 2 names \(size, peak\), and there are 3 values"):
        read_observed(path)


@pytest.mark.parametrize(("text", "words"), [("a,a\n1,2\n", "a is there twice"), ("a,b\n1,2\n3,4\n", "there are 2")])
def test_a_header_that_cannot_be_used_is_named(text, words, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.warns(ThriftyWarning, match=words):
        assert not isinstance(read_observed(tmp_path / "x.csv"), dict)
