"""Infer in rounds at an observation: each round draws where the posterior of the round before lies, and avoids cost.

    round 0    the prior: nothing is known of x_o yet; also the pilot of the cost model
    round t    NLE, NRE: ((1 - s) K + s prior) / g(c_t), K a kernel mixture around draws of the current posterior
               NPE:      prior 1[K > e^level prior] / g(c_t), the prior inside the region of high posterior density;
                         or prior / g(c_t), where the region wins nothing
    fit        NLE, NRE: all runs of all rounds, unweighted: p(x | theta) does not depend on how theta was drawn
               NPE:      all runs inside the last region, weighted by prior / (joint density of all rounds); or all
                         runs, where that predicts held-out runs in the region better (`local_fit`)

Every proposal has a density and is frozen, so the pool of all rounds is one weighted table for any method. Its weights
are bounded by the share of round 0. c_t is refitted to all runs so far: a new component, never a change of an old one.
A round is a fixed number of planned runs, or a share of the budget, and all of them finish before the next round.

Between rounds the posterior is judged by draws at x_o (`round_checks`). Where it did not move in two rounds and does
not depend on the seed of the network, the rest of the budget is not spent. Where it is not narrow, a note says that one
amortised fit is as good.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError
from thrifty.inference.checks import MAX_FAILED_MASS, check_observed, read_observations
from thrifty.inference.neural.likelihood_fit import LikelihoodMethod
from thrifty.inference.neural.npe import NPE
from thrifty.named import hash_observation
from thrifty.penalties import Power, as_penalty
from thrifty.progress_bar import wants_bar
from thrifty.sequential.finish import base_method
from thrifty.sequential.generations import open_generations
from thrifty.sequential.round_loop import Loop
from thrifty.sequential.round_record import Round
from thrifty.study.study import Study
from thrifty.types import Cost, Penalty, set_fields

NOT_DRAWN = ("rounds", "max_failed")  # settings on which no draw depends: a folder goes on with others


@dataclass(frozen=True, repr=False)
class Rounds(DisplayedSettings):
    """Settings of inference in rounds at an observation.

    Args:
        method: `th.NLE(prior)`, `th.NRE(prior)`, `th.NPE(prior)`, or a `th.Ensemble` of one of them.
        rounds: How many, at most.
        prior_share: Share of the prior in each round's draws (NLE, NRE): what bounds the weights of the pool, and
            teaches the likelihood where the posterior is not.
        penalty: g of the rounds after the first; by default c^(1/4). On the development problems √c was ahead of none
            and c^(1/4) of both: cost varies little inside a posterior, and √c fills what lies around it with runs at
            its cheap end.
        left_out: Share of posterior draws that the region of a round may leave out (NPE). On the development
            problems 0.001, the farthest of 1,000 draws, made regions several times as large and posteriors a third
            too wide; 0.03 made them a tenth too narrow.
        tolerance: Stop when the posterior moves less than this, in its standard deviations, in two rounds one after
            the other, and two networks trained on the same runs differ by less; 0: use all of the budget.
        max_failed: Share of prior mass that may fail (NPE); where a round shows more, nothing else is run. NLE and NRE
            have `failures=`.

    Example:
        >>> class Table:  # any object with simulate_many
        ...     def simulate_many(self, draws, seed, start=0, workers=1):
        ...         noise = np.random.default_rng([seed, start]).normal(size=draws.theta.shape)
        ...         return th.Simulations.from_arrays(theta=draws.theta, x=draws.theta + 0.05 * noise)
        >>> quick = th.NLE(th.Uniform([0.0], [10.0]), network=th.MixtureDensity(1))
        >>> study = th.Rounds(quick, rounds=2).run(Table(), [3.0], n=400, seed=0)
        >>> len(study.simulations), bool(abs(study.samples.mean() - 3) < 0.1)
        (400, True)
    """

    method: Any
    rounds: int = 4
    prior_share: float = 0.2
    penalty: Penalty | float = Power(0.25)  # noqa: RUF009 - frozen
    left_out: float = 0.01
    tolerance: float = 0.1
    max_failed: float = MAX_FAILED_MASS

    def __post_init__(self) -> None:
        set_fields(self, penalty=as_penalty(self.penalty))
        base = base_method(self.method)
        if not isinstance(base, LikelihoodMethod | NPE):
            what = repr(base) if isinstance(base, str) else type(base).__name__
            raise ConfigError(
                f"method = {what} cannot be used in rounds",
                code="bad-setting",
                fix="th.NLE(prior), th.NRE(prior), th.NPE(prior) or a th.Ensemble of one; th.SMCABC for ABC",
            )
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise ConfigError(f"rounds = {self.rounds!r}; a whole number of at least 1 is needed", code="bad-setting")
        for label in ("prior_share", "left_out"):
            value = getattr(self, label)
            if not 0 < value < 1:
                raise ConfigError(f"{label} must lie between 0 and 1, got {value!r}", code="bad-setting")
        if not 0 <= self.tolerance < np.inf:
            raise ConfigError(f"tolerance must be a number >= 0, got {self.tolerance!r}", code="bad-setting")
        if not 0 <= self.max_failed <= 1:
            raise ConfigError(f"max_failed must lie in [0, 1], got {self.max_failed!r}", code="bad-setting")

    @property
    def name(self) -> str:
        """Label of results: "nle-rounds"."""
        return f"{type(base_method(self.method)).__name__.lower()}-rounds"

    def run(
        self,
        simulator: Any,
        x_o: npt.ArrayLike,
        *,
        n: int | None = None,
        budget: float | str | None = None,
        cost: Cost | None = None,
        seed: int = 0,
        workers: int = 1,
        engine: Any = None,
        on_round: Callable[[Round], None] | None = None,
    ) -> Study:
        """Run rounds until n runs or the budget are used, or the posterior has settled.

        Args:
            simulator: A simulator, a model of `th.models`, or a `th.Campaign`, which keeps every round.
            x_o: The observation; or several (k, *event), which share the rounds and get a posterior each.
            n: Total number of runs.
            budget: Total cost: a number in the unit in which runs report it, "2 cpu-h", "40 min" (of run time on
                each worker), or "200 eur" for a campaign with a price.
            cost: Known expected cost; by default learned from the runs.
            seed: Of everything random.
            workers: Local processes.
            engine: `th.Inline()`, `th.Dask(...)`, `th.Futures(...)` instead of workers.
            on_round: Called with every `Round` that ends, instead of the lines and bars that are shown in a terminal
                and in a notebook, or where the method has `th.Training(progress=True)`.
        """
        if n is None and budget is None:
            raise ConfigError("nothing says when to stop", code="conflicting-settings", fix="give n= or budget=")
        check_observed(x_o)
        check = partial(read_observations, x_o)
        training = getattr(base_method(self.method), "training", None)
        shows = on_round is None and wants_bar(getattr(training, "progress", None))
        generations, allowed = open_generations(
            simulator, n=n, budget=budget, seed=seed, workers=workers, engine=engine, check=check, bars=shows
        )
        show = partial(_show_round, of=self.rounds) if shows else None
        return Loop(self, generations, x_o, cost=cost, seed=seed, on_round=on_round, show=show).run(allowed)

    def identify(self, x_o: npt.ArrayLike, seed: int) -> dict[str, str]:
        """Return what must be equal for a folder to be continued, as plain text."""
        settings = {f.name: _describe(getattr(self, f.name)) for f in fields(self) if f.name not in NOT_DRAWN}
        return settings | {"x_o": hashlib.sha256(hash_observation(x_o)).hexdigest()[:16], "seed": str(seed)}


def _show_round(number: int, runs: int, *, of: int) -> None:
    """Say which round begins, and how many runs there are so far."""
    made = f", {runs:,} runs so far" if runs else ""
    print(f"round {number + 1} of {of}{made}", file=sys.stderr, flush=True)


def _describe(value: Any) -> str:
    """Write settings as text without the prior, which the folder knows, and without addresses in memory."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {
            f.name: _describe(getattr(value, f.name)) for f in fields(value) if f.name not in ("prior", "training")
        }
        return f"{type(value).__name__}({', '.join(f'{k}={v}' for k, v in inner.items())})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
