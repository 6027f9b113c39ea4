"""Count the accepted runs that an ABC posterior rests on at x_o: all runs together may be many, and these few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thrifty.diagnostics.verdict import DisplayedCheck, Trust
from thrifty.diagnostics.weight_health import CARE_ESS, MIN_ESS
from thrifty.inference.weighted_posterior import describe_rest, find_accepted


@dataclass(frozen=True, repr=False)
class AcceptedRuns(DisplayedCheck):
    """The accepted runs behind an ABC posterior.

    Attributes:
        n: How many there are.
        ess: As how many equally weighted ones they count.
        name: The check.

    Example:
        >>> print(AcceptedRuns(60, 51.2))
        accepted
          verdict  with care
          because  rests on 60 accepted runs (51 effective), which is few: make more runs
    """

    n: int
    ess: float
    name: str = "accepted"

    @property
    def verdict(self) -> Trust:
        """The verdict by the effective number, with the limits of a weighted table."""
        size = round(self.ess)  # as it is shown
        return "trust" if size >= CARE_ESS else "with care" if size >= MIN_ESS else "do not trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        few = "" if self.verdict == "trust" else ", which is few: make more runs"
        return describe_rest(self.n, self.ess) + few


def count_accepted(posterior: Any, x_o: Any) -> AcceptedRuns | None:
    """Count the accepted runs of an ABC posterior at x_o; None for other methods, or where none is accepted."""
    found = find_accepted(posterior, x_o)
    return None if found is None else AcceptedRuns(*found)
