"""Records survive kills, and say what they are about."""

from __future__ import annotations

import json

import pytest

import thrifty as th
from thrifty.benchmark.records import append_records, pick, read_records
from thrifty.errors import InferenceError


def test_what_is_written_is_read(make, tmp_path):
    path = tmp_path / "records.jsonl"
    append_records(path, [make(0), make(1, c2st=None, error="RuntimeError: no")])
    append_records(path, [make(2)])
    assert read_records(path) == [make(0), make(1, c2st=None, error="RuntimeError: no"), make(2)]


def test_a_line_cut_short_by_a_kill_is_left_out_and_written_over(make, tmp_path):
    path = tmp_path / "records.jsonl"
    append_records(path, [make(0), make(1)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [r.seed for r in read_records(path)] == [0]
    append_records(path, [make(1)])
    assert path.read_bytes() == whole


def test_the_last_record_of_a_key_counts(make, tmp_path):
    path = tmp_path / "records.jsonl"
    append_records(path, [make(0, c2st=0.9), make(0, c2st=0.7)])
    assert [r.c2st for r in read_records(path)] == [0.7]


def test_a_line_that_is_no_record_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"problem": 1}\n')
    with pytest.raises(th.ThriftyError, match="not a record"):
        read_records(path)


def test_an_unknown_entry_is_refused(make):
    with pytest.raises(th.ThriftyError, match="speed"):
        pick([make()], speed=3)


def test_no_answer_at_a_budget_is_told_from_a_fault(make):
    text = str(InferenceError("no generation is complete", code="too-few-runs", fix="a larger budget"))
    assert make(0, c2st=None, error=f"InferenceError: {text}").has_no_answer
    assert not make(0, c2st=None, error="RuntimeError: too-few-runs").has_no_answer and not make(0).has_no_answer


def test_records_from_before_the_classifier_was_timed_are_read(make, tmp_path):
    path = tmp_path / "records.jsonl"
    line = json.loads(make(0).to_line())
    assert line.pop("judge_seconds") is None
    path.write_text(json.dumps(line) + "\n")
    append_records(path, [make(1, judge_seconds=1.25)])
    assert [r.judge_seconds for r in read_records(path)] == [None, 1.25]
