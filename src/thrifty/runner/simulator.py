"""Call every simulator a person may bring in one way.

`simulate(theta)`, `simulate(theta, rng)` and `simulate(theta, seed)` become `call(theta, seed_sequence,
number)`. What comes back is read by `as_numbers`: numbers, an array, or `th.Output(x, cost=...)`.
"""

from __future__ import annotations

import inspect
import math
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import cloudpickle
import numpy as np

from thrifty.errors import SimulatorError
from thrifty.types import Array, Output

Style = Literal["theta", "rng", "seed"]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def get_name(simulator: Any) -> str:
    """Return what to call a simulator in messages."""
    return getattr(simulator, "__qualname__", None) or type(simulator).__name__


def call_style(simulator: Callable[..., Any]) -> Style:
    """Read from its signature how the simulator takes its randomness.

    Example:
        >>> call_style(lambda theta, seed: theta), call_style(lambda theta, rng: theta), call_style(lambda theta: theta)
        ('seed', 'rng', 'theta')
    """
    if not callable(simulator):
        run = callable(getattr(simulator, "run", None))  # one of thrifty's models, or somebody's like them
        raise SimulatorError(
            f"simulator is {type(simulator).__name__} {simulator!r:.60}, not something to call",
            code="bad-simulator",
            fix="pass its method: model.run" if run else "pass a function simulate(theta, rng), or th.Command([...])",
        )
    style = getattr(simulator, "call_style", None)  # th.Command says so itself
    if style in ("theta", "rng", "seed"):
        return style
    try:
        parameters = list(inspect.signature(simulator).parameters.values())
    except (TypeError, ValueError):  # built-in functions have no signature
        return "theta"
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    keyword = [
        p for p in parameters if p.kind is p.KEYWORD_ONLY and (p.name in ("rng", "seed") or p.default is p.empty)
    ]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    unknown = [p.name for p in keyword if p.name not in ("rng", "seed")]
    if len(required) > 2 or (not positional and not variadic) or unknown or (len(required) == 2 and keyword):
        names = ", ".join(p.name for p in required + keyword)
        raise SimulatorError(
            f"simulator {get_name(simulator)!r} takes {len(required) + len(keyword)} required arguments ({names});"
            " simulate(theta), simulate(theta, rng) or simulate(theta, seed) expected",
            code="bad-simulator",
            fix="wrap it: def simulate(theta, rng): return your_function(theta[0], theta[1], rng)",
        )
    if keyword:
        return "seed" if keyword[0].name == "seed" else "rng"
    second = positional[1] if len(positional) > 1 else None
    if second is None:
        return "theta"
    if second.name == "seed":
        return "seed"
    return "rng" if second.name == "rng" or len(required) == 2 else "theta"


def bind_names(simulator: Any, names: Sequence[str]) -> Any:
    """Give a simulator the names of the parameters if it takes them (`th.Command` does)."""
    bind = getattr(simulator, "bind_names", None)
    return bind(names) if callable(bind) else simulator


def adapt(simulator: Callable[..., Any]) -> Callable[[Array, np.random.SeedSequence, int], Any]:
    """Return the simulator as call(theta, seed_sequence, number), whatever its signature."""
    style, keyword = call_style(simulator), _takes_keyword(simulator)
    if style == "theta":
        return lambda theta, sequence, number: _call_with_global_seed(simulator, theta, number)

    def call(theta: Array, sequence: np.random.SeedSequence, number: int) -> Any:
        randomness = number if style == "seed" else np.random.default_rng(sequence)
        return simulator(theta, **{style: randomness}) if keyword else simulator(theta, randomness)

    return call


def _takes_keyword(simulator: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(simulator).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind is p.KEYWORD_ONLY and p.name in ("rng", "seed") for p in parameters)


def _call_with_global_seed(simulator: Callable[..., Any], theta: Array, number: int) -> Any:
    """Seed the global generators for this run, since a simulator without rng or seed can only use those."""
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - the global generator is exactly what is meant
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(number)
    return simulator(theta)


def as_numbers(value: Any) -> tuple[Array, float]:
    """Return (x, reported cost) from what a simulator returned; scalars become (1,), no cost becomes NaN.

    A reported cost of NaN becomes -inf, which is as impossible: NaN means that none was reported.

    Example:
        >>> as_numbers([1, 2])[0].tolist(), as_numbers(Output(x=3.0, cost=2.0))
        ([1.0, 2.0], (array([3.]), 2.0))
    """
    reported = float("nan")
    if isinstance(value, Output):
        reported = float("nan") if value.cost is None else _as_cost(value.cost)
        value = value.x
    if value is None or isinstance(value, dict | str | bytes):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise SimulatorError(f"simulator returned {kind}", code="bad-output", fix="return numbers or an array")
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    try:
        x = np.asarray(value)
        if x.dtype == object or x.dtype.kind in "USOcVmM":
            raise TypeError(f"values of type {x.dtype}")
        x = np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SimulatorError(
            f"simulator returned {type(value).__name__} that cannot be read as numbers: {error}",
            code="bad-output",
            fix="return numbers or an array of one shape",
        ) from None
    if x.size == 0:
        raise SimulatorError(
            f"simulator returned no numbers (shape {x.shape})", code="bad-output", fix="return at least one"
        )
    return np.atleast_1d(x), reported


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
            why="it holds something that only lives in this process (an open file, a lock, a connection)",
            fix="open it inside the function, or use engine=th.Inline()",
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
