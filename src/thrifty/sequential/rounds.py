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

Between rounds the posterior is judged by draws at x_o (`round_checks`). Where it neither moves nor depends on the seed
of the network, the rest of the budget is not spent. Where it is not narrow, a note says that one amortised fit is as
good.
"""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, count_things
from thrifty.errors import ConfigError, ThriftyWarning, warn
from thrifty.inference.checks import least_run_count, read_observations
from thrifty.inference.ensemble import Ensemble
from thrifty.inference.neural.likelihood_fit import LikelihoodMethod
from thrifty.inference.neural.npe import NPE
from thrifty.named import hash_observation
from thrifty.penalties import Constant, Power, as_penalty
from thrifty.proposals.cost_aware import CostAware
from thrifty.proposals.kernel import MAX_CENTRES, KernelProposal, measure_local_covariance
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.generations import Generations, RoundNotes, open_generations
from thrifty.sequential.local_fit import measure_gain
from thrifty.sequential.round_checks import measure_moves, measure_volume
from thrifty.sequential.run_pool import RunPool
from thrifty.sequential.spending import ALL_RUNS, Allowance
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Penalty, Prior, set_fields

DRAWS = 1_000  # of the posterior between rounds: kernels of the next round, and its distance from the last one
WIDE_VOLUME = 0.05  # of the prior: above, the first posterior is not narrow and one amortised fit is as good
FIRST_RUNS_FACTOR = 2  # runs of round 0, at least, over what a network needs at all: some may fail
_FIT, _DRAW, _NOISE = 31, 32, 33  # random streams


@dataclass(frozen=True, repr=False)
class Round(Displayed):
    """What one round did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        volume: Share of the prior that the posterior takes after it, the largest over observations.
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
        shown = {"runs": f"{self.n}", "cost": f"{self.cost:.4g}", "volume": f"{self.volume:.2g}"}
        moved = "" if np.isnan(self.moved) else f"{self.moved:.2f} sd"
        return shown | {"moved": moved, "training": f"{self.seconds:.0f} s"}

    def _card(self) -> Card:
        return Card(f"round of {count_things(self.n, 'run')}", tuple(self.cells().items())[1:])


@dataclass(frozen=True)
class Rounds:
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
        tolerance: Stop when the posterior moves less than this, in its standard deviations, and two networks
            trained on the same runs differ by less; 0: use all of the budget.

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

    def __post_init__(self) -> None:
        set_fields(self, penalty=as_penalty(self.penalty))
        base = _base_method(self.method)
        if not isinstance(base, LikelihoodMethod | NPE):
            raise ConfigError(
                f"method = {base!r:.80} cannot be used in rounds",
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

    @property
    def name(self) -> str:
        """Label of results: "nle-rounds"."""
        return f"{type(_base_method(self.method)).__name__.lower()}-rounds"

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
            on_round: Called with every `Round` that ends, for progress.
        """
        if n is None and budget is None:
            raise ConfigError("nothing says when to stop", code="conflicting-settings", fix="give n= or budget=")
        generations, allowed = open_generations(
            simulator, n=n, budget=budget, seed=seed, workers=workers, engine=engine
        )
        return Loop(self, generations, x_o, cost=cost, seed=seed, on_round=on_round).run(allowed)

    def identify(self, x_o: npt.ArrayLike, seed: int) -> dict[str, str]:
        """Return what must be equal for a folder to be continued, as plain text."""
        settings = {f.name: _describe(getattr(self, f.name)) for f in fields(self) if f.name != "rounds"}
        return settings | {"x_o": hashlib.sha256(hash_observation(x_o)).hexdigest()[:16], "seed": str(seed)}


def share_until(number: int, rounds: int) -> float:
    """Return the share of all runs, or of the budget, that is used at the end of a round.

    Every round doubles the pool: the first ones, which know little, are cheap to run and to train on, and half of all
    runs come from the best proposal.

    Example:
        >>> [share_until(number, 4) for number in range(4)]
        [0.125, 0.25, 0.5, 1.0]
    """
    return 2.0 ** (number + 1 - rounds)


def _base_method(method: Any) -> Any:
    return method.method if isinstance(method, Ensemble) else method


def _is_same_density(a: Prior, b: Prior) -> bool:
    """Tell whether two priors agree on names and on the density of a few draws."""
    if a is b:
        return True
    if a.names != b.names:
        return False
    theta = a.sample(8, np.random.default_rng(0))
    return bool(np.allclose(a.log_prob(theta), b.log_prob(theta), rtol=1e-9, atol=1e-12))


def _describe(value: Any) -> str:
    """Write settings as text without the prior, which the folder knows, and without addresses in memory."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {
            f.name: _describe(getattr(value, f.name)) for f in fields(value) if f.name not in ("prior", "training")
        }
        return f"{type(value).__name__}({', '.join(f'{k}={v}' for k, v in inner.items())})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Loop:
    """The state of one run: the pool so far, the current posterior, and how the next round is chosen."""

    def __init__(
        self,
        settings: Rounds,
        generations: Generations,
        x_o: npt.ArrayLike,
        *,
        cost: Cost | None,
        seed: int,
        on_round: Callable[[Round], None] | None,
    ) -> None:
        self.settings, self.seed, self.asked, self.on_round = settings, seed, x_o, on_round
        self.source, self.campaign = generations, generations.campaign
        own = _base_method(settings.method).prior
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        self.prior: Prior = own if self.campaign is None else self.campaign.prior
        if not _is_same_density(own, self.prior):
            raise ConfigError(
                "the method has another prior than the campaign",
                code="wrong-prior",
                fix="th.Rounds(th.NLE(campaign.prior))",
            )
        self.pool, self.rounds, self.draws = RunPool(self.prior, generations, cost), [], []

    rounds: list[Round]
    draws: list[Array]  # of the current posterior at each observation
    recalled: RoundNotes

    def run(self, allowed: Allowance) -> Study:
        """Run rounds until something stops them."""
        self.recalled = self.source.recall_rounds(self.settings.identify(self.asked, self.seed))
        began, proposal, posterior, stopped, last = time.monotonic(), self.prior, None, "", 0
        for earlier, sims in self.source.read_earlier():
            self.pool.add(earlier, sims)
        for number in range(self.settings.rounds):
            done, stopped = self._run_round(proposal, number, allowed)
            if not done and number:  # its share was used before, by the least that round 0 needs
                if stopped:
                    break
                continue
            posterior, last = self._conclude(proposal, number, done, final=bool(stopped)), number
            if not stopped and self._has_settled():
                stopped = "settled"
            if stopped:
                break
            self.pool.refit_cost()
            proposal = self.source.peek() or self._propose(number)
        if posterior is None:
            posterior = self._fit(self._rows(self.rounds[-1].gain), last)
        return self._make_study(posterior, stopped or allowed.stop_reason(self.pool.spent), time.monotonic() - began)

    def _conclude(self, proposal: Any, number: int, done: int, *, final: bool) -> Any:
        """Fit and judge the posterior after a round; None where an earlier call has done so."""
        self._check_first(number)
        judged_before, at = len(self.recalled.judged), len(self.rounds)  # not the number: a round may have no runs
        if at < judged_before:
            self.draws = list(self.recalled.draws) if at == judged_before - 1 else []
            self._note(proposal, done, self.recalled.judged[at])
            return None
        began = time.monotonic()
        posterior, gain = self._fit_best(number)
        judged = self._judge(posterior, number, gain, final=final)
        self._note(proposal, done, judged | {"seconds": time.monotonic() - began})
        self.source.keep_rounds(RoundNotes(tuple(map(_to_numbers, self.rounds)), tuple(self.draws)))
        return posterior

    def _run_round(self, proposal: Any, number: int, allowed: Allowance) -> tuple[int, str]:
        """Run one round: as much as all rounds before; return the number of runs, and why all ended."""
        part, before = share_until(number, self.settings.rounds), len(self.pool)
        least = FIRST_RUNS_FACTOR * least_run_count(self.prior.dim) if number == 0 else 0
        size = ALL_RUNS if allowed.runs is None else round(max(part * allowed.runs, least))
        last = number == self.settings.rounds - 1
        if least > before:  # whatever share of a budget that takes
            self.pool.run(proposal, least - before, allowed)
        if size > len(self.pool):  # a campaign may have run before
            self.pool.run(proposal, size - len(self.pool), allowed if last else allowed.share(part))
        left = allowed.runs_left(None, self.pool.spent) if allowed.cost is None else allowed.cost - self.pool.spent.cost
        before = before if number else 0  # the pilot of a campaign is a part of round 0
        return len(self.pool) - before, "" if left > 0 and not last else allowed.stop_reason(self.pool.spent)

    def _check_first(self, number: int) -> None:
        least, valid = least_run_count(self.prior.dim), int(self.pool.runs.ok.sum())
        if number == 0 and valid < least:
            raise ConfigError(
                f"the first round has {valid} valid runs, and {least} are needed",
                code="budget-too-small",
                why="fewer teach a network nothing about where the posterior lies",
                fix=f"n={least * self.settings.rounds} or more, a larger budget, or fewer rounds",
            )

    def _seed(self, stream: int, number: int) -> int:
        return int(np.random.SeedSequence(self.seed, spawn_key=(stream, number)).generate_state(1)[0])

    @property
    def _region(self) -> TruncatedPrior | None:
        """The last region from which a round was drawn (NPE)."""
        return next((q for q in reversed(self.pool.proposals) if isinstance(q, TruncatedPrior)), None)

    def _rows(self, gain: float) -> Simulations:
        """Return the runs to train on: all, or for NPE those in the last region, unless that wins nothing."""
        table, region = self.pool.table, self._region
        if region is None or gain <= 0:
            return table
        inside = table[region.contains(table.theta)]
        return inside if inside.ok.sum() >= least_run_count(self.prior.dim) else table

    def _fit(self, rows: Simulations, number: int, stream: int = _FIT) -> Any:
        return self.settings.method.fit(rows, seed=self._seed(stream, number))

    def _fit_best(self, number: int) -> tuple[Any, float]:
        """Fit the posterior; for NPE on the runs in the region and on all runs, and return the better one."""
        method, region = _base_method(self.settings.method), self._region
        near = self._fit(self._rows(np.inf), number)
        if region is None or method.correction != "weights":  # others have no density under the prior to compare
            return near, float("nan")
        far, share = self._fit(self.pool.table, number), method.training.validation
        gain = measure_gain(near, far, region, self.pool.table, share=share, seed=self._seed(_FIT, number))
        return (far if gain <= 0 else near), gain

    @property
    def x_o(self) -> Array:
        """The observations (k, *event)."""
        return read_observations(self.asked, self.pool.runs.pairs()[1].shape[1:], self.pool.runs.x_names)

    def _draw(self, posterior: Any, number: int) -> list[Array]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThriftyWarning)  # between rounds x_o may lie far from all runs
            return [
                np.asarray(posterior.sample(DRAWS, x, seed=self._seed(_DRAW, number)), dtype=np.float64)
                for x in self.x_o
            ]

    def _judge(self, posterior: Any, number: int, gain: float, *, final: bool) -> dict[str, float]:
        """Draw from the posterior and measure its volume, how far it moved and, if little, the noise of the network."""
        before, self.draws = self.draws, self._draw(posterior, number)
        volume = max(measure_volume(self.prior, draws) for draws in self.draws)
        moved, noise = float("nan"), float("nan")
        if before:
            moved = measure_moves(self.prior, before, self.draws)
        if moved <= self.settings.tolerance and not final:
            again = self._fit(self._rows(gain), number, _NOISE)
            noise = measure_moves(self.prior, self._draw(again, number), self.draws)
        return {"volume": volume, "moved": moved, "noise": noise, "gain": gain}

    def _has_settled(self) -> bool:
        last = self.rounds[-1]
        return max(last.moved, last.noise) <= self.settings.tolerance  # False for NaN

    def _propose(self, number: int) -> Any:
        """Choose where the next round draws, from the draws of the current posterior at all observations."""
        cost, settings = self.pool.cost, self.settings
        penalty = as_penalty(settings.penalty) if cost is not None else Constant()
        theta = np.concatenate(self.draws)
        if self.rounds[-1].gain <= 0:
            return self.prior if cost is None else CostAware(self.prior, cost, penalty)
        if isinstance(_base_method(settings.method), NPE):
            return TruncatedPrior.around(self.prior, theta, left_out=settings.left_out, penalty=penalty, cost=cost)
        chosen = np.random.default_rng(self._seed(_DRAW, number)).choice(len(theta), MAX_CENTRES, replace=False)
        centres = theta[chosen]
        kernel = measure_local_covariance(centres)
        return KernelProposal(
            self.prior, centres, np.zeros(MAX_CENTRES), kernel, penalty, cost, prior_share=settings.prior_share
        )

    def _note(self, proposal: Any, n: int, judged: dict[str, float]) -> None:
        """Add a round with what was judged after it, as a folder keeps it."""
        cost, predicted = self.pool.compare_cost(proposal, n)
        self.rounds.append(Round(n, cost, predicted, proposal=proposal, **judged))
        if self.on_round is not None:
            self.on_round(self.rounds[-1])

    def _make_study(self, posterior: Any, stopped: str, seconds: float) -> Study:
        notes = _describe_wide(self.rounds[-1].volume)
        for note in notes:
            warn(note, stacklevel=4)
        study = Study(
            posterior,
            self.pool.table,
            self.x_o[0],
            self.settings.name,
            self.campaign,
            seconds=seconds,
            seed=self.seed,
            generations=tuple(self.rounds),
            stopped=stopped,
            notes=notes,
            local=True,
        )
        if len(self.x_o) == 1:
            return study
        return replace(study, x_o=self.x_o, each=tuple(replace(study, x_o=one) for one in self.x_o))


def _describe_wide(volume: float) -> tuple[str, ...]:
    if volume <= WIDE_VOLUME:
        return ()
    return (
        f"the posterior takes {volume:.0%} of the prior: it is not narrow, and amortised NPE on"
        " runs from the prior is as good here",
    )


def _to_numbers(one: Round) -> dict[str, float]:
    """Return what a folder keeps of a round besides its runs."""
    kept = asdict(replace(one, proposal=None))
    return {label: kept[label] for label in ("volume", "moved", "noise", "gain", "seconds")}
