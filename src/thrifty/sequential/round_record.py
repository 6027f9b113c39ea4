"""What one round did: runs, cost, and how the posterior was judged after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from thrifty.display import Card, Displayed, count_things


@dataclass(frozen=True, repr=False)
class Round(Displayed):
    """What one round did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        volume: Share of the prior that the posterior takes after it, the largest over observations; NaN where a
            parameter takes whole numbers or categories.
        moved: How far the posterior moved in this round, in its standard deviations; NaN in the first.
        noise: The same distance between two networks of this round, where it was measured; else NaN.
        gain: By how much the runs in the region of this round predict held-out ones in it better than all runs do
            (NPE), in nats per run, less its standard error; NaN where it was not measured. At most 0: the posterior
            of all runs was taken, and the next round draws from the whole prior.
        seconds: Wall seconds of training and drawing.
        proposal: Where the draws came from.
    """

    n: int
    cost: float
    predicted: float
    volume: float
    moved: float
    noise: float
    seconds: float
    proposal: Any
    gain: float = float("nan")

    def cells(self) -> dict[str, str]:
        """Return what a table shows, by column."""
        volume = "" if np.isnan(self.volume) else f"{self.volume:.2g}"
        moved = "" if np.isnan(self.moved) else f"{self.moved:.2f} sd"
        shown = {"runs": f"{self.n}", "cost": f"{self.cost:.4g}", "volume": volume}
        return shown | {"moved": moved, "training": f"{self.seconds:.0f} s"}

    def _card(self) -> Card:
        return Card(
            f"round of {count_things(self.n, 'run')}", [fact for fact in list(self.cells().items())[1:] if fact[1]]
        )

    def to_numbers(self) -> dict[str, float]:
        """Return what a folder keeps of it besides its runs."""
        kept = asdict(replace(self, proposal=None))
        return {label: kept[label] for label in ("volume", "moved", "noise", "gain", "seconds")}
