"""Keep all runs of a sequential method, weighted as one sample from the mixture of their proposals.

    w(theta) = prior / sum_j (n_j/n) q_j(theta)          (`th.Pool`, kept up to date run by run)

Early runs are never discarded, weights are bounded by the share of the first generation, and a refitted cost is a
new component, never a change of an old one.

`RunPool` adds runs of a proposal in blocks that an allowance admits, and learns what they cost: all that a method that
chooses its own proposals needs besides its proposals.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from thrifty.costs import Polynomial, fit_cost
from thrifty.errors import ConfigError, CostError, ThriftyWarning
from thrifty.proposals import Pool, evaluate_cost
from thrifty.sequential.generations import Generations
from thrifty.sequential.join_runs import join_runs
from thrifty.sequential.spending import Allowance, Spent
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Prior

FIRST_BLOCK_SHARE = 0.125  # share of what is left for the first block of a proposal: 0.5 overran a budget by 2 %
MAX_FAILED_RUNS = 20  # at the beginning, without one that reports its cost
COST_FIT_RUNS = 600  # runs of a cost fit, evenly from all generations: more change little


class RunPool:
    """Simulations with the proposals from which they were drawn, run under an allowance, and their cost as learned.

    Args:
        prior: The target of the weights; draws from this very object are plain.
        generations: Where draws are run.
        cost: Known expected cost; learned from the runs when None.

    Attributes:
        counts: Runs from each proposal.
        log_weights: Log prior over pool density (n,).
        runs: All runs in one table without weights, indices continued; there from the first `add` on.
        spent: Cost and number of all runs.
    """

    runs: Simulations

    def __init__(self, prior: Prior, generations: Generations, cost: Cost | None) -> None:
        self.prior, self.generations, self.cost, self.known_cost = prior, generations, cost, cost is not None
        self.proposals: list[Any] = []
        self.counts: list[int] = []
        self.log_weights: Array = np.empty(0)
        self.spent = Spent(0.0, 0)
        self._ratios: list[Array] = []  # log q_j/prior at every run, kept so that it is computed once
        self._accuracy: list[tuple[float, float]] = []  # (cost, predicted cost) of each generation

    def __len__(self) -> int:
        return len(self.log_weights)

    def add(self, proposal: Any, sims: Simulations) -> None:
        """Add runs; more runs from the last proposal are counted with its others."""
        self._ratios = [
            np.concatenate([known, self._ratio(q, sims.theta)])
            for known, q in zip(self._ratios, self.proposals, strict=True)
        ]
        plain = replace(sims, index=None, log_weights=None, proposal=None)
        self.runs = join_runs(self.runs, sims) if len(self) else plain
        known, charged = np.isfinite(self.runs.cost), self.runs.status == "bad-cost"
        total = float(self.runs.cost[known].sum())  # an impossible cost counts as the mean of the others
        self.spent = Spent(total * (1 + (charged & ~known).sum() / max(known.sum(), 1)), len(self.runs))
        if self.proposals and proposal is self.proposals[-1]:
            self.counts[-1] += len(sims)
        else:
            self.proposals.append(proposal)
            self.counts.append(len(sims))
            self._ratios.append(self._ratio(proposal, self.runs.theta))
        shares = np.array(self.counts) / sum(self.counts)
        terms = [np.log(share) + ratio for share, ratio in zip(shares, self._ratios, strict=True)]
        self.log_weights = -np.logaddexp.reduce(terms, axis=0)

    def _ratio(self, proposal: Any, theta: Array) -> Array:
        return np.zeros(len(theta)) if proposal is self.prior else proposal.log_ratio(theta)

    @property
    def cost_variation(self) -> float:
        """Standard deviation of the costs over their mean; 0 before there are any."""
        cost = self.runs.cost[np.isfinite(self.runs.cost)] if len(self) else np.empty(0)
        return float(cost.std() / cost.mean()) if len(cost) and cost.mean() > 0 else 0.0

    @property
    def table(self) -> Simulations:
        """All runs with their weights and the pool that made them."""
        pool = Pool(tuple(zip(self.counts, self.proposals, strict=True)), self.prior)
        return self.runs.reweighted(self.log_weights, pool)

    def run(self, proposal: Any, size: int, allowed: Allowance) -> tuple[int, str]:
        """Run `size` draws in blocks; return how many were run, and what stopped them, if anything did."""
        done, stopped, before = 0, "", self.spent.cost
        while done < size and not stopped:
            each = self.expected_cost(proposal)
            if done and each is not None:  # draws of this very proposal say more than a cost model of its region
                each = max(each, (self.spent.cost - before) / done)
            part = 0.5 if done else FIRST_BLOCK_SHARE
            block = allowed.next_block(each, self.spent, part=part, spread=self.cost_variation)
            count = min(size - done, block)
            if count:
                self.add(*self.generations.run(proposal, count))
                done += count
                self._check_cost(allowed)
            else:
                stopped = allowed.stop_reason(self.spent)
        if stopped == "budget" and len(self) < 2:
            raise ConfigError(
                f"the first run cost {self.spent.cost:g} of the budget of {allowed.cost:g}: no second is paid for",
                code="budget-too-small",
                why="one run has nothing to be compared with",
                fix=f"{100 * self.spent.cost:.2g} would pay about a hundred runs like it",
            )
        return done, stopped

    def _check_cost(self, allowed: Allowance) -> None:
        is_known = self.runs.ok.any() or len(self) >= MAX_FAILED_RUNS  # a run that fails reports nothing
        if allowed.cost is not None and is_known and not np.nansum(self.runs.cost) > 0:
            raise CostError(
                f"a budget was given, but the first {len(self)} runs report no cost",
                code="bad-cost",
                why="a budget that is never used never ends",
                fix="give n=, or let the simulator return th.Output(x, cost=...)",
            )

    def compare_cost(self, proposal: Any, n: int) -> tuple[float, float]:
        """Return the cost of the last n runs, drawn from the proposal, and what the cost model expects of them."""
        cost = float(np.nansum(self.runs.cost[-n:]))
        predicted = 0.0 if self.cost is None else n * self._predict(proposal)
        self._accuracy.append((cost, predicted))
        return cost, predicted

    def expected_cost(self, proposal: Any) -> float | None:
        """Return the expected cost of one draw, corrected by earlier generations; None before any cost is known."""
        if self.cost is not None:
            return self._predict(proposal) * self._correction()
        return self.spent.cost / len(self) if len(self) else None

    def _predict(self, proposal: Any) -> float:
        """Expected cost of a draw under the current cost model."""
        if proposal is self.prior and self.cost is not None:
            return float(np.mean(evaluate_cost(self.cost, proposal.sample(4_096, np.random.default_rng(0)))))
        return float(proposal.expected_cost)

    def _correction(self) -> float:
        """Total cost of the generations with a prediction over their total predicted cost."""
        both: Array = np.array([pair for pair in self._accuracy if pair[1] > 0]).reshape(-1, 2)
        cost, predicted = both.sum(0)
        return float(cost / predicted) if cost > 0 else 1.0

    def refit_cost(self) -> None:
        """Fit the cost model to all runs so far, unless the cost was given."""
        if self.known_cost:
            return
        some = np.unique(np.linspace(0, len(self) - 1, COST_FIT_RUNS).astype(int))
        theta, cost = self.runs.theta[some], self.runs.cost[some]
        timed = np.isfinite(cost) & (cost > 0)
        if not timed.any():
            self.cost = None
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ThriftyWarning)  # a poor cost model saves less and biases nothing
                third = Polynomial(3)  # a tenth of the time of "auto"
                self.cost = fit_cost(theta[timed], cost[timed], model=third, prior=self.prior)
        except CostError:  # too few timed runs yet: the cost model stays as it is
            return
