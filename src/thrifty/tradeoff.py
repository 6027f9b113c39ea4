"""What each penalty would cost and be worth, before anything is run.

    gain      CG     = E[c] E[1/g] / E[c/g]        cost per draw, prior over proposal
    ess       ESS/n  = 1 / (E[g] E[1/g])           effective draws per draw
    product   CG * ESS/n = E[c] / (E[c/g] E[g])    effective draws per unit of budget, relative to the prior

The product is at most E[c]/(E sqrt c)^2, the `ceiling`, reached by g = sqrt(c): for a fixed budget the best penalty
needs no search. Strong penalties save more per draw and less than nothing per effective draw.

Where runs fail, only valid ones count, with P = P(finish | theta) and g a function of c/P, the cost of a valid run:

    effective  E[P]^2 / (E[P g] E[1/g])            effective valid draws per draw
    product    E[P] E[c] / (E[P g] E[c/g])         effective valid draws per unit of budget, relative to the prior

with the ceiling E[P] E[c] / (E sqrt(P c))^2 at g = sqrt(c/P).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.display import Card, Displayed, align_columns, format_number, format_share
from thrifty.durations import format_amount, name_unit
from thrifty.errors import ConfigError
from thrifty.penalties import Balance, Power, as_penalty
from thrifty.priors import as_prior
from thrifty.proposals import REFERENCE_DRAWS, CostAware, Mixture, draw_reference_costs
from thrifty.types import Array, Cost, Penalty, Prior

if TYPE_CHECKING:
    from rich.table import Table

    from thrifty.costs.finish_model import FinishModel

MIN_ADVANTAGE = 0.005  # of a penalty over plain draws: less is shown as 0 %


@dataclass(frozen=True, repr=False)
class Row(Displayed):
    """One penalty's figures.

    Attributes:
        label: How it is shown.
        k: Exponent, NaN for a mixture or a function.
        penalty: The penalty, to be passed on.
        gain, ess_fraction, product: See the module.
        saved: Share of cost saved at equal n, 1 - 1/gain.
        saved_per_effective: Share saved per effective run, 1 - 1/product; negative is a loss.
        cost: Expected cost of one run.
        acceptance: Share of prior draws accepted by the sampler.
    """

    label: str
    k: float
    penalty: Penalty
    gain: float
    ess_fraction: float
    product: float
    saved: float
    saved_per_effective: float
    cost: float
    acceptance: float

    def _card(self) -> Card:
        saved = [("saved", format_share(self.saved)), ("effective", format_share(self.ess_fraction))]
        facts = [
            ("gain", f"{self.gain:.2f}"),
            *saved,
            ("saved per effective run", format_share(self.saved_per_effective)),
        ]
        return Card(f"penalty {self.label}: {format_number(self.cost)} a run", facts)

    @property
    def cost_per_effective(self) -> float:
        """Expected cost of one effective run."""
        return self.cost / self.ess_fraction

    def total(self, n: int) -> float:
        """Return expected cost of n runs."""
        return n * self.cost


@dataclass(frozen=True, repr=False)
class Tradeoff(Displayed):
    """Rows for a grid of penalties, with the ceiling that none can pass.

    Attributes:
        rows: One per penalty, as asked for.
        ceiling: E[c]/(E sqrt c)^2, the highest product possible.
        prior_cost: Expected cost of one plain run.
        cost_range: 99.9 % over 0.1 % quantile of cost under the prior.
        unit: Unit of cost.
        finish_share: Prior mass that finishes, by the model of P(finish | theta); 1 where failures are not avoided.

    Example: see `th.tradeoff`.
    """

    rows: tuple[Row, ...]
    ceiling: float
    prior_cost: float
    cost_range: float
    unit: str = "s"
    finish_share: float = 1.0

    @property
    def avoids_failures(self) -> bool:
        """Whether the penalties act on the cost of a valid run."""
        return self.finish_share < 1

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Row:
        return self.rows[i]

    @property
    def best(self) -> Row:
        """The row with most effective draws per unit of budget; plain draws where that is no more than they give."""
        best, plain = max(self.rows, key=lambda row: row.product), max(self.rows, key=lambda row: row.ess_fraction)
        return best if best.product > (1 + MIN_ADVANTAGE) * plain.product else plain

    @property
    def worthwhile(self) -> bool:
        """Whether cost-awareness can save at least 1 % per effective draw."""
        return self.ceiling >= 1 / 0.99

    def choose(self, *, min_ess: float | None = None, budget: float | None = None) -> Row:
        """Choose a row: the cheapest with at least `min_ess` effective draws per draw, or the best for a budget.

        Args:
            min_ess: Lowest acceptable ESS/n; the row with the largest gain above it is chosen.
            budget: Cost that may be spent, in the unit of cost; the row with most effective draws is chosen.
        """
        if (min_ess is None) == (budget is None):
            raise ConfigError("choose by min_ess= or by budget=, one of them", code="conflicting-settings")
        if budget is not None:
            if isinstance(budget, str) or not budget > 0:
                raise ConfigError(
                    f"budget must be a number > 0 in {name_unit(self.unit)}, got {budget!r}", code="bad-amount"
                )
            if budget < min(row.cost for row in self.rows):
                raise ConfigError(
                    f"budget {budget:g} {name_unit(self.unit)} does not pay for one run", code="budget-too-small"
                )
            return max(self.rows, key=lambda row: np.floor(budget / row.cost) * row.ess_fraction)
        eligible = [row for row in self.rows if row.ess_fraction >= float(min_ess or 0)]
        if not eligible:
            top = max(self.rows, key=lambda row: row.ess_fraction)
            raise ConfigError(
                f"no penalty keeps ESS/n >= {min_ess:g}; the highest is {top.ess_fraction:.3f} ({top.label})",
                code="few-effective-runs",
                fix="lower min_ess or add k = 0",
            )
        return max(eligible, key=lambda row: row.gain)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and body as text, the best row marked."""
        header = ["penalty", "cost/run", "gain", "saved", "effective", "gain × effective", "saved per effective run"]
        if self.avoids_failures:
            header = [*header[:4], "valid and effective", "per budget", header[-1]]
        body = [
            [
                row.label + (" ← best" if row is self.best else ""),
                format_amount(row.cost, self.unit),
                f"{row.gain:.2f}",
                format_share(row.saved),
                format_share(row.ess_fraction),
                f"{row.product:.2f}",
                format_share(row.saved_per_effective),
            ]
            for row in self.rows
        ]
        return header, body

    def __str__(self) -> str:
        return "\n".join([align_columns(*self.cells()), self.verdict()])

    def verdict(self) -> str:
        """Say in one line what can be saved here at most."""
        most, varies = 1 - 1 / self.ceiling, self.describe_range()
        if self.avoids_failures:
            return (
                f"runs fail on {1 - self.finish_share:.0%} of the prior mass, {varies}: by this cost, at most about"
                f" {most:.0%} can be saved per effective valid run, by √(c/P(finish))"
            )
        if not self.worthwhile:
            little = f"{most:.1%}" if most >= 0.001 else "under 0.1%"
            return f"{varies}: best possible saving is {little}. Plain sampling it is."
        return f"{varies}: by this cost, at most about {most:.0%} can be saved per effective run, by √c"

    def describe_range(self) -> str:
        """Say how far the predicted cost varies over the prior: the one ratio of costs that displays show.

        Costs that were measured are shown as a range instead: their extremes depend on how many runs there were.
        """
        ratio = f"{self.cost_range:,.0f}" if self.cost_range >= 100 else f"{self.cost_range:.3g}"
        what = "cost of a valid run" if self.avoids_failures else "cost"
        return f"predicted {what} varies {ratio}× over 99.8% of the prior"

    def __rich__(self) -> Table:
        from rich.table import Table

        header, body = self.cells()
        table = Table(caption=self.verdict(), caption_justify="left")
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row, line in zip(self.rows, body, strict=True):
            table.add_row(*line, style="bold" if row is self.best else None)
        return table

    def _card(self) -> Card:
        header, body = self.cells()
        return Card("what each penalty is worth", (), header, body, (self.verdict(),), bold=self._best_at())

    def _best_at(self) -> int | None:
        return next((i for i, row in enumerate(self.rows) if row is self.best), None)


def tradeoff(
    prior: Any,
    cost: Cost,
    powers: Sequence[float | Penalty] = (0, 0.25, 0.5, 1, 2),
    *,
    mixtures: Sequence[Sequence[float]] = (),
    n: int = REFERENCE_DRAWS,
    seed: int = 0,
    finish: FinishModel | None = None,
) -> Tradeoff:
    """Gain, efficiency and what they are worth together, for a grid of penalties; runs no simulation.

    Args:
        prior: The target.
        cost: Expected cost, (n, p) -> (n,).
        powers: Exponents, or penalties.
        mixtures: Tuples of exponents, each a balance mixture in equal shares.
        n: Prior draws used.
        seed: Seed of those draws.
        finish: P(finish | theta): penalties then act on the cost of a valid run, and only valid runs count.

    Example:
        >>> table = tradeoff(th.Uniform(1, 10), lambda t: t[:, 0], powers=(0, 0.5, 1))
        >>> table.best.k, round(table[2].product, 9)
        (0.5, 1.0)
    """
    prior = as_prior(prior)
    if isinstance(powers, str) or not isinstance(powers, Sequence | np.ndarray) or len(powers) + len(mixtures) == 0:
        raise ConfigError(f"powers must be a sequence such as (0, 0.5, 1), got {powers!r}", code="bad-penalty")
    if n < 1000:
        raise ConfigError(
            f"n = {n} prior draws are too few for a trade-off", code="bad-setting", fix="leave n at its default"
        )
    runs = draw_reference_costs(prior, cost, n=n, seed=seed)
    costs = runs if finish is None else runs / _finish_at_reference(prior, finish, n=n, seed=seed)
    known: dict[str, Any] = {"finish": finish, "_costs": costs, "_runs": runs}
    penalties = [as_penalty(power) for power in powers]
    rows = [make_row(CostAware(prior, cost, p, **known), format_label(p, finish)) for p in penalties]
    for mixture in mixtures:
        proposal = Mixture(prior, cost, powers=tuple(mixture), finish=finish).balanced.penalty
        rows.append(make_row(CostAware(prior, cost, proposal, **known), format_label(proposal, finish)))
    low, high = np.quantile(costs, [0.001, 0.999])
    ceiling = float(costs.mean() / np.sqrt(costs).mean() ** 2)
    if finish is not None:
        share = runs / costs
        ceiling = float(share.mean() * runs.mean() / np.sqrt(share * runs).mean() ** 2)
    return Tradeoff(
        rows=tuple(rows),
        ceiling=ceiling,
        prior_cost=float(runs.mean()),
        cost_range=float(high / low),
        unit=str(getattr(cost, "unit", "s")),
        finish_share=1.0 if finish is None else float((runs / costs).mean()),
    )


def _finish_at_reference(prior: Prior, finish: FinishModel, *, n: int, seed: int) -> Array:
    """P(finish | theta) (n,) at the draws of `draw_reference_costs`."""
    return draw_reference_costs(prior, finish.floored, n=n, seed=seed)


def format_label(penalty: Penalty, finish: FinishModel | None = None) -> str:
    """Name a penalty in a table.

    Example:
        >>> format_label(th.Power(0.5)), format_label(th.Power(0))
        ('k = 0.5 (√c)', 'k = 0 (plain)')
    """
    if isinstance(penalty, Balance) and all(isinstance(part, Power) for part in penalty.penalties):
        return "mixture " + ", ".join(f"{part.k:g}" for part in penalty.penalties if isinstance(part, Power))
    if isinstance(penalty, Power):
        root = " (√c)" if finish is None else " (√(c/P))"
        return f"k = {penalty.k:g}" + {0.0: " (plain)", 0.5: root}.get(float(penalty.k), "")
    return str(penalty)


def make_row(proposal: CostAware, label: str) -> Row:
    """Compute the figures of a proposal."""
    gain, ess_fraction = proposal.gain, proposal.valid_ess_fraction
    penalty = proposal.penalty
    product = gain * ess_fraction
    if proposal.finish is not None:  # rounded: plain draws buy exactly what plain draws buy
        product = round(product / proposal.finish_share, 12)
    return Row(
        label=label,
        k=float(penalty.k) if isinstance(penalty, Power) else float("nan"),
        penalty=penalty,
        gain=gain,
        ess_fraction=ess_fraction,
        product=product,
        saved=1 - 1 / gain,
        saved_per_effective=1 - 1 / product,
        cost=proposal.expected_cost,
        acceptance=proposal.acceptance,
    )
