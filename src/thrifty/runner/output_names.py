"""Keep the outputs of all runs in one order by name; a run with other names is an error of its own.

The order is that of the first run with names. A simulator that returns a dictionary may build it in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from thrifty.named import align, list_names
from thrifty.runner.task import Outcome


@dataclass
class OutputNames:
    """The names of the outputs of a campaign, learned from its first run.

    Attributes:
        names: In the order in which outputs are kept; empty for plain numbers, None before the first run.
        on_found: Called with the names when they become known, before any run that has them is recorded.

    Example:
        >>> import numpy as np
        >>> known = OutputNames(("peak", "size"))
        >>> known.align(Outcome(3, "ok", np.array([7.0, 1.0]), names=("size", "peak"))).x.tolist()
        [1.0, 7.0]
        >>> known.align(Outcome(4, "ok", np.array([7.0, 1.0]), names=("size", "day"))).error
        '[bad-output] the run returned size, day: peak missing, day unknown; expected peak, size'
    """

    names: tuple[str, ...] | None = None
    on_found: Callable[[tuple[str, ...]], None] = lambda names: None

    def align(self, outcome: Outcome) -> Outcome:
        """Return the outcome with its numbers in the order of the others; an error where its names are others."""
        if outcome.x is None or outcome.names == self.names:
            return outcome
        if self.names is None:
            self.names = outcome.names
            if self.names:
                self.on_found(self.names)
            return outcome
        try:
            if not self.names or not outcome.names:
                raise ValueError(f"expected {list_names(self.names) if self.names else 'numbers without names'}")
            return replace(outcome, x=align(outcome.x, outcome.names, self.names), names=self.names)
        except ValueError as error:
            came = list_names(outcome.names) if outcome.names else "numbers without names"
            text = f"[bad-output] the run returned {came}: {error}"
            return replace(outcome, status="error", x=None, error=text, names=())
