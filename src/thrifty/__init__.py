"""thrifty: cost-aware simulation-based inference.

Draws carry weights; simulations carry draws; inference is ordinary weighted SBI. The usual way in is
`import thrifty as th`. The public names and their modules are listed once, in `__init__.pyi`; a module is
imported when the first of its names is used, so that `import thrifty` loads no heavy library.
"""

from __future__ import annotations

import ast
import logging as _logging
from importlib import import_module
from pathlib import Path
from typing import Any


def _read_public_names() -> dict[str, str]:
    """Read `__init__.pyi`: public name -> module that defines it ("thrifty" where the name is itself a module)."""
    imports = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    return {name.name: str(node.module) for node in imports if isinstance(node, ast.ImportFrom) for name in node.names}


_logging.getLogger("thrifty").addHandler(_logging.NullHandler())  # silent, until a program asks for its records
_MODULE_OF = _read_public_names()
__all__ = list(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        near = None if name.startswith("_") else import_module(f"{__name__}.named").find_nearest(name, __all__)
        meant = f". Did you mean: {near!r}?" if near else ""
        raise AttributeError(f"module 'thrifty' has no attribute {name!r}{meant}")
    home = _MODULE_OF[name]
    value = import_module(f"thrifty.{name}") if home == "thrifty" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


# Two functions share the name of their module: importing the module later must not replace the function.
from thrifty.prior_recovery import prior_recovery as prior_recovery  # noqa: E402
from thrifty.tradeoff import tradeoff as tradeoff  # noqa: E402
