"""What a simulator is made of, so that a campaign notices when its code changed.

Parts are named and hashed: the source of the function without comments and layout, of the functions and
classes of the same file that it uses, the plain constants they read, and the values closed over. For an external
program: its arguments and its file. Two versions are compared part by part.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

Parts = dict[str, str]
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_LONGEST = 60


def fingerprint(simulator: Any) -> Parts:
    """Named parts of a simulator.

    Example:
        >>> sorted(fingerprint(lambda theta: theta + 1))
        ['<lambda>']
    """
    own: Callable[[], Parts] | None = getattr(simulator, "fingerprint", None)  # th.Command knows its files
    if own is not None:
        return own()
    parts: Parts = {}
    _visit(simulator, parts, set())
    return parts


def differences(old: Parts, new: Parts) -> list[str]:
    """What changed, in words."""
    lines = [f"{name} is gone" for name in old if name not in new]
    lines += [f"{name} is new" for name in new if name not in old]
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            lines.append(f"{name} changed ({old[name][:_LONGEST]} -> {new[name][:_LONGEST]})")
    return sorted(lines)


def _visit(thing: Any, parts: Parts, seen: set[int]) -> None:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    thing = getattr(thing, "py_func", thing)  # a compiled function: look at what was compiled
    if isinstance(thing, functools.partial):
        _visit(thing.func, parts, seen)
        _values("argument", {**dict(enumerate(thing.args)), **thing.keywords}, parts)
    elif isinstance(thing, MethodType):
        _visit(thing.__func__, parts, seen)
        _instance(thing.__self__, parts)
    elif isinstance(thing, FunctionType):
        _function(thing, parts, seen)
    elif isinstance(thing, type):
        parts[thing.__qualname__] = _source_hash(thing)
    elif callable(thing):
        _visit(type(thing), parts, seen)
        _instance(thing, parts)


def _function(function: FunctionType, parts: Parts, seen: set[int]) -> None:
    parts[function.__qualname__] = _source_hash(function)
    used = _names(function.__code__)
    closed = inspect.getclosurevars(function)
    for name, value in {**closed.globals, **closed.nonlocals}.items():
        if name not in used and name not in function.__code__.co_freevars:
            continue
        if isinstance(value, ModuleType):
            continue
        if callable(value):
            if getattr(value, "__module__", None) == function.__module__:
                _visit(value, parts, seen)
        else:
            _values("constant", {name: value}, parts)


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(constant) for constant in inner))


def _instance(instance: Any, parts: Parts) -> None:
    if not isinstance(instance, ModuleType | type):
        _values("attribute", getattr(instance, "__dict__", {}), parts)


def _values(kind: str, values: dict[Any, Any], parts: Parts) -> None:
    for name, value in values.items():
        if isinstance(value, _PLAIN):
            text = repr(value)
            parts[f"{kind} {name}"] = text if len(text) <= _LONGEST else _hash(text.encode())
        elif isinstance(value, np.ndarray) and value.dtype != object:
            parts[f"{kind} {name}"] = _hash(repr((value.shape, value.dtype.str)).encode() + value.tobytes())
        elif isinstance(value, list | tuple | dict | set | frozenset):
            parts[f"{kind} {name}"] = _hash(repr(value).encode())


def _source_hash(thing: Any) -> str:
    """Hash of the syntax tree where the source can be found (comments and layout do not count), else of the code."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
        return _hash(ast.dump(tree).encode())
    except (OSError, TypeError, SyntaxError, ValueError):
        code = getattr(thing, "__code__", None)
        return _hash(code.co_code + repr(code.co_names).encode()) if code else "unknown"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
