"""Call every simulator a person may bring in one way.

Each becomes `call(theta, seed_sequence, number)`; which argument gets what is in `signatures`. What comes back is read
by `as_numbers`: numbers, an array, named numbers, or `th.Output(x, cost=...)`.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np

from thrifty.errors import SimulatorError
from thrifty.named import split_names
from thrifty.runner.signatures import read_signature
from thrifty.runner.task import get_name
from thrifty.types import Array, Output


def bind_names(simulator: Any, names: Sequence[str]) -> Any:
    """Give a simulator the names of the parameters if it takes them (`th.Command` does)."""
    bind = getattr(simulator, "bind_names", None)
    return bind(names) if callable(bind) else simulator


def adapt(
    simulator: Callable[..., Any], names: Sequence[str] = ()
) -> Callable[[Array, np.random.SeedSequence, int], Any]:
    """Return the simulator as call(theta, seed_sequence, number), whatever its signature; `names` of the parameters."""
    signature = read_signature(simulator, names)
    if not signature.is_random:

        def call_unseeded(theta: Array, sequence: np.random.SeedSequence, number: int) -> Any:
            _seed_globally(number)
            return signature.call(simulator, theta, None, number)

        return call_unseeded
    takes_rng = "rng" in signature.sources

    def call(theta: Array, sequence: np.random.SeedSequence, number: int) -> Any:
        return signature.call(simulator, theta, np.random.default_rng(sequence) if takes_rng else None, number)

    return call


def _seed_globally(number: int) -> None:
    """Seed the global generators for this run, since a simulator without rng or seed can only use those."""
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - the global generator is exactly what is meant
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(number)


def as_numbers(value: Any) -> tuple[Array, float, tuple[str, ...]]:
    """Return (x, reported cost, names) from what a simulator returned; scalars become (1,), no cost becomes NaN.

    Names are empty where the numbers have none. A reported cost of NaN becomes -inf, which is as impossible: NaN means
    that none was reported.

    Example:
        >>> as_numbers([1, 2])[0].tolist(), as_numbers(Output(x={"peak": 3.0}, cost=2.0))
        ([1.0, 2.0], (array([3.]), 2.0, ('peak',)))
    """
    reported = float("nan")
    if isinstance(value, Output):
        reported = float("nan") if value.cost is None else _as_cost(value.cost)
        value = value.x
    if value is None or isinstance(value, str | bytes):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise SimulatorError(f"simulator returned {kind}", code="bad-output", fix="return numbers or an array")
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    names: tuple[str, ...] = ()
    try:
        if not isinstance(value, np.ndarray | float | int | list):
            value, names = split_names(value)
        x = np.asarray(value)
        if x.dtype == object or x.dtype.kind in "USOcVmM":
            raise TypeError(f"values of type {x.dtype}")
        x = np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SimulatorError(
            f"simulator returned {type(value).__name__} that cannot be read as numbers: {error}",
            code="bad-output",
            fix="return numbers, an array of one shape, or a dictionary of named numbers",
        ) from None
    if x.size == 0:
        raise SimulatorError(
            f"simulator returned no numbers (shape {x.shape})", code="bad-output", fix="return at least one"
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SimulatorError(f"simulator returned two numbers named {twice!r}", code="bad-output", fix="rename one")
    return np.atleast_1d(x), reported, names


def _as_cost(cost: Any) -> float:
    try:
        number = float(cost)
    except (TypeError, ValueError, OverflowError) as error:
        raise SimulatorError(
            f"the reported cost is not a number: {error}", code="bad-output", fix="th.Output(x, cost=1.5)"
        ) from None
    return -math.inf if math.isnan(number) else number


def pack(simulator: Any, *, everything: bool = False) -> bytes:
    """Return bytes that rebuild the simulator in a worker; in memory only, never on disk.

    Functions of notebooks and scripts, closures and lambdas are sent by value; functions of importable
    modules by name. `everything` sends modules outside the installation by value too, for workers
    on other machines.
    """
    try:
        with _by_value(simulator, everything=everything):
            return cloudpickle.dumps(simulator)
    except Exception as error:
        raise SimulatorError(
            f"simulator {get_name(simulator)!r} cannot be sent to worker processes: {error}",
            code="cannot-load-simulator",
            why="it holds something that only lives in this process (an open file, a lock, a connection, some modules)",
            fix="open or import it inside the function, or use engine=th.Inline()",
        ) from None


@contextmanager
def _by_value(simulator: Any, *, everything: bool) -> Any:
    simulator = getattr(simulator, "simulator", simulator)  # a job: what matters is what it runs
    simulator = getattr(simulator, "func", simulator)  # a partial
    owner = getattr(simulator, "__module__", None) or type(simulator).__module__
    module = sys.modules.get(owner)
    if (
        module is None
        or owner == "__main__"
        or not (_is_unreachable(module) or (everything and _is_outside_installation(module)))
    ):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_unreachable(module: Any) -> bool:
    """True when a fresh interpreter with our path could not import this very module."""
    from importlib.util import find_spec

    path = getattr(module, "__file__", None)
    try:
        known = sys.modules.pop(module.__name__)
        try:
            spec = find_spec(module.__name__)
        finally:
            sys.modules[module.__name__] = known
    except (ImportError, ValueError, AttributeError, KeyError):
        return True
    return spec is None or (path is not None and spec.origin != path)


def _is_outside_installation(module: Any) -> bool:
    path = getattr(module, "__file__", None) or ""
    return bool(path) and "site-packages" not in path and not module.__name__.startswith("thrifty.")
