"""Which part of thrifty may import which: the import arrow, for every part, imports inside functions included.

`docs/figures/architecture.png` is drawn from this table (`python tools/architecture_picture.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import thrifty

SOURCE = Path(thrifty.__file__).parent
_PUBLIC: dict[str, str] = thrifty._MODULE_OF

_BASE = {"types", "errors", "named", "durations", "progress_bar", "display"}
_MATHS = _BASE | {"weights", "penalties", "priors", "costs"}
_DRAWS = _MATHS | {"tables", "proposals"}
_FOLDER = {"runner", "store", "tradeoff", "penalty_table", "prior_recovery", "version"}
_STUDY = _DRAWS | _FOLDER | {"campaign", "inference", "diagnostics", "metrics", "plots", "report"}

# part -> other parts that it may import; every part of src/thrifty has a row
ARROW: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "display": set(),
    "named": {"errors"},
    "durations": {"errors"},
    "progress_bar": set(),
    "types": {"errors", "named"},
    "weights": _BASE,
    "closed_form": _BASE,
    "penalties": _BASE,
    "priors": _BASE,
    "costs": _BASE | {"weights"},
    "metrics": _BASE | {"weights"},
    "plots": _BASE | {"weights", "priors", "metrics", "proposals"},
    "proposals": _MATHS,
    "tables": _MATHS | {"proposals", "plots"},
    "tradeoff": _DRAWS,
    "penalty_table": {"tradeoff", "display", "durations"},
    "prior_recovery": _DRAWS,
    "models": _BASE | {"priors", "proposals", "tables"},
    "runner": _BASE | {"weights", "version"},
    "store": _BASE | {"runner", "version"},
    "campaign": _DRAWS | _FOLDER | {"plots"},
    "inference": _DRAWS | {"metrics", "plots", "version"},
    "distances": {"inference"},
    "likelihoods": {"inference"},
    "diagnostics": _DRAWS | {"metrics", "inference", "plots"},
    "report": _DRAWS | _FOLDER | {"campaign", "inference", "diagnostics", "plots"},
    "study": _STUDY | {"models"},
    "sequential": _STUDY | {"study"},
    "benchmark": _STUDY | {"study", "sequential", "models"},
    "cli": (_STUDY | {"study", "sequential", "models", "benchmark"}) - {"metrics"},
    "__main__": {"cli"},
    "__init__": {"prior_recovery", "tradeoff"},
}

# narrower rules inside the table: module or folder -> modules or folders that it may not import
NARROW: dict[str, set[str]] = {
    "store": {"runner.engines", "runner.loop", "runner.schedule", "runner.simulator", "runner.progress"},
    "runner.engines.process_tree": {"runner.loop"},
}
# short methods that call what stands above their class: (module, part), imported inside the method only, so that the
# class needs nothing of it until it is called (a type checker may look there too)
SHORTCUTS = {("campaign.campaign", "report"), ("campaign.campaign", "study")}  # Campaign.report(path), .infer(x_o)
WHOLE = {"cli", "study.demo"}  # who stands above everything and may import the whole package


def read_imports(path: Path, source: Path = SOURCE) -> Iterator[str]:
    """Every thrifty module that a file imports, anywhere in it, without the leading `thrifty.`.

    Relative imports are resolved, a public name (`from thrifty import Campaign`) counts as its module, and the
    whole package (`import thrifty`) as "*".
    """
    package = ["thrifty", *path.relative_to(source).parts[:-1]]
    for node in _list_imports(ast.parse(path.read_text()), name_of(path, source)):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module.split(".")[0] != "thrifty":
                continue
            for name in node.names:
                home = _PUBLIC.get(name.name, "thrifty") if module == "thrifty" else module
                yield f"{home}.{name.name}".removeprefix("thrifty.")
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "thrifty":
                    yield name.name.removeprefix("thrifty").removeprefix(".") or "*"


def _list_imports(tree: ast.Module, module: str) -> Iterator[ast.AST]:
    """Every import statement but those of `SHORTCUTS`, inside a function or `if TYPE_CHECKING`."""
    inside = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom) and (module, (inner.module or "").removeprefix("thrifty.")) in SHORTCUTS
    }
    return (node for node in ast.walk(tree) if node not in inside)


def name_of(path: Path, source: Path) -> str:
    """Dotted name of a file below src/thrifty; a folder for its `__init__.py`."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def find_violations(source: Path = SOURCE) -> list[str]:
    """Imports against the arrow, one line each."""
    found = []
    for path in sorted(source.rglob("*.py")):
        module = name_of(path, source)
        part = module.split(".")[0]
        for target in read_imports(path, source):
            other = target.split(".")[0]
            whole = target == "*" and not any(_is_below(module, top) for top in WHOLE)
            if whole or (other != part and other in ARROW and other not in ARROW.get(part, set())):
                found.append(f"{module} imports {target}")
            for inside, forbidden in NARROW.items():
                if _is_below(module, inside) and any(_is_below(target, name) for name in forbidden):
                    found.append(f"{module} imports {target}")
    return found


def _is_below(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


def build_graph(source: Path = SOURCE) -> dict[str, set[str]]:
    """Module -> modules that it imports; a name imported from a package counts as an import of the package."""
    modules = {name_of(path, source): path for path in source.rglob("*.py")}

    def owner(target: str) -> str:
        while target not in modules and "." in target:
            target = target.rpartition(".")[0]
        return target

    return {
        name: {owner(target) for target in read_imports(path, source) if owner(target) in modules} - {name}
        for name, path in modules.items()
    }


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of the graph as a list of modules, or an empty list."""
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if cycle := walk(other, [*trail, name]):
                return cycle
        done.add(name)
        return []

    return next((cycle for name in sorted(graph) if (cycle := walk(name, []))), [])
