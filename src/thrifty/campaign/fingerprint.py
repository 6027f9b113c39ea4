"""The fingerprint of a simulator, by which a campaign notices that its code changed.

Parts are named and hashed, and two versions are compared part by part:
- the source of the function without comments and layout, of the functions and classes of the same file that it uses,
  the plain constants they read, and the values closed over;
- every other file of the user that they import, and the files which those import, found by reading and not by running
  them; of an installed package its version;
- for an external program its arguments, the files named in them and what a Python script among these imports beside it;
- data files that the user names.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

Parts = dict[str, str]
FORMAT = 3  # of fingerprints: 2 did not know files and packages
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_MAX_TEXT = 60  # characters of a value that are kept as text; a longer one is hashed
_INSTALLED = {"site-packages", "dist-packages"}  # folders of packages that count by their version
_NOT_USERS = {"thrifty", "builtins", "__main__", *sys.stdlib_module_names}


def fingerprint(simulator: Any, depends_on: Sequence[Path] = ()) -> Parts:
    """Return the named parts of a simulator, and of the data files and folders on which it depends, hashed.

    Example:
        >>> sorted(fingerprint(lambda theta: theta + 1))
        ['<lambda>', 'format']
    """
    visit = _Visit()
    own: Callable[[], Parts] | None = getattr(simulator, "fingerprint", None)  # th.Command knows its files
    if own is not None:
        visit.parts.update(own())
        visit.thing(getattr(simulator, "output", None))  # a function that reads the output
        for path in map(Path, getattr(simulator, "arguments", ())):
            if path.suffix == ".py" and path.is_file():
                visit.imports(_read_file(path)[1], "", [str(path.parent)])
    else:
        visit.thing(simulator)
    for path in depends_on:
        for file in sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]:
            label = f"data {file.relative_to(path.parent)}"
            visit.parts[label if label not in visit.parts else f"data {file}"] = _read_file(file)[0]
    return {**visit.parts, "format": str(FORMAT)}


@dataclass
class _Visit:
    """Collects the parts of a simulator, each object and each module once."""

    parts: Parts = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)

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
            owner = thing.__self__ if isinstance(thing.__self__, type) else type(thing.__self__)
            self.thing(owner) if _is_users(owner.__module__) else self.module(owner.__module__)  # it may override
            self.instance(thing.__self__)
        elif isinstance(thing, FunctionType):
            self.function(thing)
        elif isinstance(thing, type):
            self.type(thing)
        elif callable(thing):
            self.thing(type(thing))
            self.instance(thing)

    def type(self, thing: type) -> None:
        self.parts[thing.__qualname__] = self.source(thing)
        if not _is_users(thing.__module__):
            self.module(thing.__module__)
            return
        for base in thing.__mro__[1:]:
            self.thing(base) if base.__module__ == thing.__module__ else self.module(base.__module__)
        for value in vars(thing).values():
            method = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(method, FunctionType):
                self.names(method)

    def function(self, function: FunctionType) -> None:
        self.parts[function.__qualname__] = self.source(function)
        if not _is_users(function.__module__):
            self.module(function.__module__)
        named = {str(i): value for i, value in enumerate(function.__defaults__ or ())}
        self.values(f"default of {function.__qualname__}", {**named, **(function.__kwdefaults__ or {})})
        self.names(function)

    def names(self, function: FunctionType) -> None:
        """Visit what a function reads from its module and from the functions around it, and what it imports."""
        used, closed = _names(function.__code__), inspect.getclosurevars(function).nonlocals
        found = {
            name: function.__globals__[name]
            for name in sorted(used)
            if name in function.__globals__ and name[:2] != "__"
        }
        for name, value in {**found, **closed}.items():
            if isinstance(value, ModuleType):
                self.module(value.__name__)
                self.submodules(value.__name__, used)
            elif callable(value) and getattr(value, "__module__", None) == function.__module__:
                self.thing(value)
            elif callable(value):
                self.module(str(getattr(value, "__module__", None)))
            else:
                self.values("constant", {name: value})
                self.module(type(value).__module__)
        package = function.__globals__.get("__package__") or function.__module__.rpartition(".")[0]
        tree = _parse(function)
        self.imports(() if tree is None else tuple(_list_imports(tree)), package)

    def submodules(self, name: str, used: set[str]) -> None:
        """Visit `package.part`, where a function writes so after `import package.part`."""
        for attribute in used:
            if f"{name}.{attribute}" in sys.modules and f"{name}.{attribute}" not in self.modules:
                self.module(f"{name}.{attribute}")
                self.submodules(f"{name}.{attribute}", used)

    def imports(self, found: Sequence[tuple[str, int]], package: str, where: list[str] | None = None) -> None:
        """Visit modules (name, level of a relative import) that are imported in a package."""
        for name, level in found:
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            self.module(".".join([*above, *([name] if name else [])]), where)

    def module(self, name: str, where: list[str] | None = None) -> None:
        """Add the file of a user's module and those that it imports, or the version of an installed package."""
        top = name.partition(".")[0]
        if not top or top in _NOT_USERS or name in self.modules:
            return
        self.modules.add(name)
        spec = _find_spec(name, where)
        if spec is None or spec.origin is None or not (path := Path(spec.origin)).is_file():
            return
        if _INSTALLED & set(path.parts):
            self.parts[f"package {top}"] = _find_version(top, path)
            return
        ending = "/__init__.py" if spec.submodule_search_locations is not None else path.suffix
        self.parts[f"file {name.replace('.', '/')}{ending}"], found = _read_file(path)
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        self.imports(found, package, where)

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
                self.parts[label] = _hash(_write_value(value).encode())

    def source(self, thing: Any) -> str:
        """Hash of the syntax tree where the source is found (comments and layout do not count), else of the code."""
        tree, code = _parse(thing), getattr(thing, "__code__", None)
        if tree is not None:
            return _hash(ast.dump(tree).encode())
        if not isinstance(code, CodeType):
            return "unknown"
        return _hash(code.co_code + repr(code.co_names).encode() + _write_value(code.co_consts).encode())


def _parse(thing: Any) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def _list_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (module, level of a relative import) of every import; `from a import b` may mean the module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            yield from [(node.module or "", node.level), *((start + alias.name, node.level) for alias in node.names)]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called, name = getattr(node.func, "attr", getattr(node.func, "id", "")), node.args[0].value
            if called in ("import_module", "__import__") and isinstance(name, str) and not name.startswith("."):
                yield name, 0


def _find_spec(name: str, where: list[str] | None) -> ModuleSpec | None:
    """Find a module without importing anything; `where` are the folders of a script's own modules."""
    if where is None and (known := getattr(sys.modules.get(name), "__spec__", None)) is not None:
        return known
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return PathFinder.find_spec(name, where) if where else importlib.util.find_spec(name)
        above = _find_spec(parent, where)
        places = None if above is None else above.submodule_search_locations
        return None if places is None else PathFinder.find_spec(name, list(places))
    except (ImportError, ValueError, AttributeError):
        return None


def _is_users(name: str) -> bool:
    """Whether a module is one of the user's own: a script, or a file that is not installed."""
    spec = None if name.partition(".")[0] in _NOT_USERS else _find_spec(name, None)
    place = Path(spec.origin).parts if spec is not None and spec.origin is not None else ()
    return name == "__main__" or not (name.partition(".")[0] in _NOT_USERS or _INSTALLED & set(place))


def _read_file(path: Path) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return a hash of a file, of Python files without comments and layout, and what it imports."""
    state = path.stat()
    is_recent = time.time_ns() - state.st_mtime_ns < 2e9  # it may change again before the clock of its disk ticks
    return (_read_version.__wrapped__ if is_recent else _read_version)(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4096)
def _read_version(path: Path, _changed: int, _size: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    if path.suffix == ".py":
        try:
            tree = ast.parse(path.read_bytes())
            return _hash(ast.dump(tree).encode()), tuple(dict.fromkeys(_list_imports(tree)))
        except (SyntaxError, ValueError, RecursionError):
            pass  # hashed as it is
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16], ()


def _find_version(top: str, path: Path) -> str:
    """Return the version of an installed package, by its own name or by the list that its distribution brings."""
    try:
        return importlib.metadata.version(top)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        site = next((f for f in path.parents if f.name in _INSTALLED), path.parent)
        lists = (f for f in site.glob("*.dist-info/top_level.txt") if top in f.read_text("utf-8", "replace").split())
        return next((f.parent.stem for f in lists), "unknown")


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(constant) for constant in inner))


def _write_value(value: Any, above: tuple[int, ...] = ()) -> str:
    """Write a value as text that is the same in every process: no addresses, sets and dictionaries in order.

    Example:
        >>> _write_value({"b": {3, 1}, "a": [1.5, None]})
        "dict('a': list(1.5, None), 'b': set{1, 3})"
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.generic | np.ndarray) and value.dtype != object:
        return f"array({value.dtype.str}, {value.shape}, {_hash(value.tobytes())})"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return "<above>" if id(value) in above else _container(value, (*above, id(value)))
    if isinstance(value, CodeType):  # a nested function: what it does, not where it stands
        return f"<code {_hash(value.co_code)} {value.co_names} {_write_value(value.co_consts, above)}>"
    if isinstance(value, FunctionType):
        return f"<function {value.__qualname__} {_Visit().source(value)}>"
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def _container(value: Any, above: tuple[int, ...]) -> str:
    kind = type(value).__name__

    def write(item: Any) -> str:
        return _write_value(item, above)

    if isinstance(value, dict):
        items = sorted(f"{write(key)}: {write(item)}" for key, item in value.items())
        return f"{kind}({', '.join(items)})"
    items = [write(item) for item in value]
    if isinstance(value, set | frozenset):
        return f"{kind}{{{', '.join(sorted(items))}}}"
    return f"{kind}({', '.join(items)})"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
