"""A changed simulator is noticed however it was defined; an unchanged one is never refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from thrifty.campaign.fingerprint import fingerprint
from thrifty.campaign.settings import differences


def defined(text, name="simulate"):
    """A function without a source file, as under `python -c`."""
    space = {"__name__": "nowhere"}
    exec(compile(text, "<string>", "exec"), space)
    return space[name]


BASE = (
    "def simulate(theta, rng, k=1):\n    f = lambda t: t * 2.0\n    return f(theta) + (1.5 if k in {1, 2, 3} else 0)\n"
)


@pytest.mark.parametrize(("old", "new"), [("1.5", "1.6"), ("2.0", "2.5"), ("{1, 2, 3}", "{1, 2, 4}"), ("k=1", "k=2")])
def test_constants_count_where_there_is_no_source(old, new):
    before = fingerprint(defined(BASE))
    assert differences(before, fingerprint(defined(BASE))) == []
    assert differences(before, fingerprint(defined(BASE.replace(old, new)))), f"{old} -> {new} must be noticed"


PRINTED = """
import json, sys
from thrifty.campaign.fingerprint import fingerprint
def f(t): return t
def g(t): return 2 * t
class Thing: pass
MODELS = {"f": f, "g": g, "thing": Thing()}
NAMES = {"alpha", "beta", "gamma", "delta"}
NESTED = [{"b": frozenset({"x", "y", "z"})}, MODELS]
def simulate(theta, rng):
    return MODELS["f"](theta) + len(NAMES) + len(NESTED) + (theta[0] in {"one", "two", "three"})
print(json.dumps(fingerprint(simulate)))
"""


def printed(text, seed):
    """The fingerprint made in a process of its own, where sets have another order and things other addresses."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    out = subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def test_the_same_in_every_process():
    first, second = printed(PRINTED, 1), printed(PRINTED, 2)
    assert first == second and {"constant MODELS", "constant NAMES", "constant NESTED"} <= first.keys()
    changed = printed(PRINTED.replace("return 2 * t", "return 3 * t").replace('"delta"', '"epsilon"'), 1)
    assert [line.split(" changed")[0] for line in differences(first, changed)] == [
        "constant MODELS",
        "constant NAMES",
        "constant NESTED",
    ]
