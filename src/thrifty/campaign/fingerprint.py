"""The fingerprint of a simulator, by which a campaign notices that its code changed.

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
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

Parts = dict[str, str]
FORMAT = 2  # of fingerprints
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_MAX_TEXT = 60  # characters of a value that are kept as text; a longer one is hashed


def fingerprint(simulator: Any) -> Parts:
    """Return the named parts of a simulator, hashed.

    Example:
        >>> sorted(fingerprint(lambda theta: theta + 1))
        ['<lambda>', 'format']
    """
    own: Callable[[], Parts] | None = getattr(simulator, "fingerprint", None)  # th.Command knows its files
    if own is not None:
        return own()
    visit = _Visit()
    visit.thing(simulator)
    return {**visit.parts, "format": str(FORMAT)}


def differences(old: Parts, new: Parts) -> list[str]:
    """List what changed between two fingerprints."""
    lines = [f"{name} is missing" for name in old if name not in new]
    lines += [f"{name} is new" for name in new if name not in old]
    for name in old.keys() & new.keys():
        if old[name] != new[name]:
            lines.append(f"{name} changed ({old[name][:_MAX_TEXT]} -> {new[name][:_MAX_TEXT]})")
    return sorted(lines)


@dataclass
class _Visit:
    """Collects the parts of a simulator, each object once."""

    parts: Parts = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def thing(self, thing: Any) -> None:
        if id(thing) in self.seen:
            return
        self.seen.add(id(thing))
        thing = getattr(thing, "py_func", thing)  # a compiled function: look at what was compiled
        if isinstance(thing, functools.partial):
            self.thing(thing.func)
            self.values("argument", {**dict(enumerate(thing.args)), **thing.keywords})
        elif isinstance(thing, MethodType):
            self.thing(thing.__func__)
            self.instance(thing.__self__)
        elif isinstance(thing, FunctionType):
            self.function(thing)
        elif isinstance(thing, type):
            self.parts[thing.__qualname__] = self.source(thing)
        elif callable(thing):
            self.thing(type(thing))
            self.instance(thing)

    def function(self, function: FunctionType) -> None:
        self.parts[function.__qualname__] = self.source(function)
        named = {str(i): value for i, value in enumerate(function.__defaults__ or ())}
        self.values(f"default of {function.__qualname__}", {**named, **(function.__kwdefaults__ or {})})
        used = _names(function.__code__)
        closed = inspect.getclosurevars(function)
        for name, value in {**closed.globals, **closed.nonlocals}.items():
            if name not in used and name not in function.__code__.co_freevars:
                continue
            if isinstance(value, ModuleType):
                continue
            if callable(value):
                if getattr(value, "__module__", None) == function.__module__:
                    self.thing(value)
            else:
                self.values("constant", {name: value})

    def instance(self, instance: Any) -> None:
        if not isinstance(instance, ModuleType | type):
            self.values("attribute", getattr(instance, "__dict__", {}))

    def values(self, kind: str, values: dict[Any, Any]) -> None:
        for name, value in values.items():
            label = f"{kind} {name}"
            if isinstance(value, _PLAIN):
                text = repr(value)
                self.parts[label] = text if len(text) <= _MAX_TEXT else _hash(text.encode())
            elif isinstance(value, np.ndarray) and value.dtype != object:
                self.parts[label] = _hash(repr((value.shape, value.dtype.str)).encode() + value.tobytes())
            elif isinstance(value, list | tuple | dict | set | frozenset):
                self.parts[label] = _hash(_canonical(value).encode())

    def source(self, thing: Any) -> str:
        """Hash of the syntax tree where the source is found (comments and layout do not count), else of the code."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
            return _hash(ast.dump(tree).encode())
        except (OSError, TypeError, SyntaxError, ValueError):
            code = getattr(thing, "__code__", None)
            if code is None:
                return "unknown"
            return _hash(code.co_code + repr(code.co_names).encode() + _canonical(code.co_consts).encode())


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(constant) for constant in inner))


def _canonical(value: Any, above: tuple[int, ...] = ()) -> str:
    """Write a value as text that is the same in every process: no addresses, sets and dictionaries in order.

    Example:
        >>> _canonical({"b": {3, 1}, "a": [1.5, None]})
        "dict('a': list(1.5, None), 'b': set{1, 3})"
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.generic | np.ndarray) and value.dtype != object:
        return f"array({value.dtype.str}, {value.shape}, {_hash(value.tobytes())})"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return "<above>" if id(value) in above else _container(value, (*above, id(value)))
    if isinstance(value, CodeType):  # a nested function: what it does, not where it stands
        return f"<code {_hash(value.co_code)} {value.co_names} {_canonical(value.co_consts, above)}>"
    if isinstance(value, FunctionType):
        return f"<function {value.__qualname__} {_Visit().source(value)}>"
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def _container(value: Any, above: tuple[int, ...]) -> str:
    kind = type(value).__name__
    if isinstance(value, dict):
        items = sorted(f"{_canonical(key, above)}: {_canonical(item, above)}" for key, item in value.items())
        return f"{kind}({', '.join(items)})"
    items = [_canonical(item, above) for item in value]
    if isinstance(value, set | frozenset):
        return f"{kind}{{{', '.join(sorted(items))}}}"
    return f"{kind}({', '.join(items)})"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
