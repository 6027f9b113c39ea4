"""Checksums of single rows and of groups: every change is seen, and both ways give the same number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from thrifty.runner.task import Outcome
from thrifty.store.groups import compute_checksums, match_checksums, read_plan_group, read_run_group
from thrifty.store.rows import checksum, checksum_matches, plan_row, read_outcome, read_theta, run_row, with_checksum

VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=9)
)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=8))
def test_groups_have_the_checksums_of_their_rows(rows):
    assert compute_checksums(list(zip(*rows, strict=True))).tolist() == [checksum(row) for row in rows]


@pytest.mark.parametrize("pair", [(0.0, -0.0), (1, 1.0), (1, True), ("1", 1), (b"a", "a"), (None, 0), ("%d", "%%d")])
def test_values_that_look_alike_differ(pair):
    a, b = pair
    if pair == (1, True):  # SQLite knows no truth values: both are the number 1
        return
    assert checksum((a,)) != checksum((b,))
    assert compute_checksums([(a, b)]).tolist() == [checksum((a,)), checksum((b,))]


def runs(n=5):
    outcomes = [Outcome(i, "ok", np.array([i, 2.0]), 0.1, 0.2, 10, 1.0, "host") for i in range(n)]
    return [run_row(outcome, policy=None, finished=7.0) for outcome in outcomes]


def draws(n=5):
    return [plan_row(i, 0, np.array([i, 0.5]), log_weight=0.1, predicted=2.0, coin=0.3) for i in range(n)]


def flip(value, bit):
    """The same value with one bit changed."""
    if isinstance(value, bytes):
        data = bytearray(value)
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        return bytes(data)
    if isinstance(value, float):
        return float(np.frombuffer(flip(np.float64(value).tobytes(), bit))[0])
    if isinstance(value, int):
        return value ^ (1 << bit % 62)
    if isinstance(value, str):
        return flip(value.encode(), bit).decode("latin-1")
    return 0


@pytest.mark.parametrize("make", [runs, draws])
def test_every_flipped_bit_is_seen(make):
    """One bit of one column of one row in a group: that row and no other fails."""
    whole = make()
    for column in range(len(whole[0])):
        for bit in range(64):
            changed = [list(row) for row in whole]
            changed[2][column] = flip(changed[2][column], bit)
            if changed[2][column] != changed[2][column] or tuple(changed[2]) == whole[2]:
                continue  # NaN cannot be stored; a sign of zero is tested above
            assert match_checksums(list(zip(*changed, strict=True))).tolist() == [True, True, False, True, True]
            assert not checksum_matches(tuple(changed[2]))


def test_plain_rows_are_read_as_single_ones_are():
    group = read_plan_group(draws(), 2)
    assert group is not None and group.plain.all()
    assert group.theta.tolist() == [read_theta(row, 2).tolist() for row in draws()]
    found = read_run_group(runs(), (2,))
    assert found is not None and found.plain.all()
    assert np.frombuffer(found.x).reshape(-1, 2).tolist() == [read_outcome(row).x.tolist() for row in runs()]


ODD_RUNS = {
    "failed": ("status", "error"),
    "shape": ("shape", "1,2"),
    "negative": ("wall", -1.0),
    "infinite": ("cpu", float("inf")),
    "short": ("x", b"12345678"),
    "text": ("memory", "many"),
}


@pytest.mark.parametrize("name", ODD_RUNS)
def test_rows_that_are_not_plain_are_left_out(name):
    from thrifty.store.rows import RUNS

    column, value = ODD_RUNS[name]
    rows = runs()
    changed = list(rows[1][:-1])
    changed[RUNS.index(column)] = value
    rows[1] = with_checksum(tuple(changed))
    group = read_run_group(rows, (2,))
    assert group is None or not group.plain[1]
    if group is not None and name != "text":
        assert group.plain[[0, 2, 3, 4]].all() and len(group.x) == 4 * 16


@pytest.mark.parametrize("theta", [b"1" * 8, b"1" * 24, "text", None])
def test_parameters_of_another_size(theta):
    rows = draws()
    rows[1] = with_checksum((*rows[1][:2], theta, *rows[1][3:-1]))
    assert read_plan_group(rows, 2) is None and read_theta(rows[1], 2) is None
