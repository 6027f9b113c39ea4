"""Run rounds one after the other: draw, run, fit, judge, and choose where the next one draws.

A call asks for n runs or a budget, in a number of rounds: a stage. The shares of its rounds follow from that alone, and
a folder keeps it. Where a folder is continued with more runs or a larger budget, that is one stage more, which begins
at the posterior of the last one; what was drawn before stays as it is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError, ThriftyWarning, warn
from thrifty.inference.checks import least_run_count, read_observations
from thrifty.inference.neural.npe import NPE
from thrifty.penalties import Constant, as_penalty
from thrifty.proposals.cost_aware import CostAware
from thrifty.proposals.kernel import MAX_CENTRES, KernelProposal, measure_local_covariance
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.finish import base_method
from thrifty.sequential.generations import Generations
from thrifty.sequential.round_checks import measure_moves, measure_volume
from thrifty.sequential.round_failures import check_failures, describe_near_failures
from thrifty.sequential.round_fit import choose_rows, find_region, fit_best
from thrifty.sequential.round_notes import RoundNotes, Stage
from thrifty.sequential.round_record import Round
from thrifty.sequential.run_pool import RunPool
from thrifty.sequential.spending import ALL_RUNS, Allowance
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Penalty, Prior

DRAWS = 1_000  # of the posterior between rounds: kernels of the next round, and its distance from the last one
WIDE_VOLUME = 0.05  # of the prior: above, the first posterior is not narrow and one amortised fit is as good
FIRST_RUNS_FACTOR = 2  # runs of round 0, at least, over what a network needs at all: some may fail
_FIT, _DRAW, _NOISE = 31, 32, 33  # random streams


class RoundSettings(Protocol):
    """What the loop reads of `th.Rounds`."""

    @property
    def method(self) -> Any:
        """NLE, NRE, NPE, or an ensemble of one."""
        ...

    @property
    def name(self) -> str:
        """Label of results."""
        ...

    @property
    def rounds(self) -> int:
        """How many, at most."""
        ...

    @property
    def prior_share(self) -> float:
        """Share of the prior in the draws of a round (NLE, NRE)."""
        ...

    @property
    def penalty(self) -> Penalty | float:
        """G of the rounds after the first."""
        ...

    @property
    def left_out(self) -> float:
        """Share of posterior draws that a region may leave out (NPE)."""
        ...

    @property
    def tolerance(self) -> float:
        """How little the posterior moves where it has settled."""
        ...

    @property
    def max_failed(self) -> float:
        """Share of prior mass that may fail (NPE)."""
        ...

    def identify(self, x_o: npt.ArrayLike, seed: int) -> dict[str, str]:
        """Return what must be equal for a folder to be continued."""
        ...


def _is_same_density(a: Prior, b: Prior) -> bool:
    """Tell whether two priors agree on names and on the density of a few draws."""
    if a is b:
        return True
    if a.names != b.names:
        return False
    theta = a.sample(8, np.random.default_rng(0))
    return bool(np.allclose(a.log_prob(theta), b.log_prob(theta), rtol=1e-9, atol=1e-12))


class Loop:
    """The state of one run: the pool so far, the current posterior, and how the next round is chosen."""

    def __init__(
        self,
        settings: RoundSettings,
        generations: Generations,
        x_o: npt.ArrayLike,
        *,
        cost: Cost | None,
        seed: int,
        on_round: Callable[[Round], None] | None,
        show: Callable[[int, int], None] | None = None,
    ) -> None:
        self.settings, self.seed, self.asked, self.on_round = settings, seed, x_o, on_round
        self.source, self.campaign, self.show = generations, generations.campaign, show
        own = base_method(settings.method).prior
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        self.prior: Prior = own if self.campaign is None else self.campaign.prior
        if not _is_same_density(own, self.prior):
            raise ConfigError(
                "the method has another prior than the campaign",
                code="wrong-prior",
                fix="th.Rounds(th.NLE(campaign.prior))",
            )
        self.pool, self.rounds, self.draws = RunPool(self.prior, generations, cost), [], []
        self.proposal, self.posterior, self.number = self.prior, None, 0

    rounds: list[Round]
    draws: list[Array]  # of the current posterior at each observation
    recalled: RoundNotes
    proposal: Any  # of the next round
    posterior: Any  # after the last round; None where an earlier call has fitted it
    number: int  # of the last round that had runs

    def run(self, allowed: Allowance) -> Study:
        """Run rounds until something stops them."""
        asked = Stage(self.settings.rounds, allowed.runs, allowed.cost)
        self.recalled = self.source.recall_rounds(self.settings.identify(self.asked, self.seed), asked)
        began, stopped = time.monotonic(), ""
        for earlier, sims in self.source.read_earlier():
            self.pool.add(earlier, sims)
        if len(self.pool) and self.pool.runs.ok.any():
            _ = self.x_o  # refused before more is run where it does not fit
        for stage in self.recalled.stages:
            now = replace(allowed, runs=stage.runs, cost=stage.cost)
            used = stage.measure_use(self.pool.spent)
            if self.rounds and used < 1:
                self._choose_next()
            stopped = self._run_stage(stage.share(used, extends=bool(self.rounds)), now) or stopped
        if self.posterior is None:
            self.posterior = self._fit(self._choose_rows(self.rounds[-1].gain))
        return self._make_study(stopped or allowed.stop_reason(self.pool.spent), time.monotonic() - began)

    def _run_stage(self, parts: list[float], allowed: Allowance) -> str:
        """Run rounds until each has used its part of what is allowed; return what stopped them."""
        stopped, first = "", self.number + 1 if self.rounds else 0
        for number, part in enumerate(parts, start=first):
            done, stopped = self._run_round(number, part, allowed)
            if not done and number:  # its share was used before, by the least that round 0 needs
                if stopped:
                    break
                continue
            self.number = number
            self.posterior = self._conclude(done, final=bool(stopped))
            if not stopped and self._has_settled():
                stopped = "settled"
            if stopped:
                break
            self._choose_next()
        return stopped

    def _choose_next(self) -> None:
        """Refit the cost and choose where the next round draws; a folder may know it already."""
        self.pool.refit_cost()
        self.proposal = self.source.peek() or self._propose()

    def _conclude(self, done: int, *, final: bool) -> Any:
        """Fit and judge the posterior after a round; None where an earlier call has done so."""
        self._check_first()
        check_failures(self.settings.method, self.pool.table, self.settings.max_failed)
        judged_before, at = len(self.recalled.judged), len(self.rounds)  # not the number: a round may have no runs
        if at < judged_before:
            self.draws = list(self.recalled.draws) if at == judged_before - 1 else []
            self._note(done, self.recalled.judged[at])
            return None
        began = time.monotonic()
        region = find_region(self.pool.proposals)
        posterior, gain = fit_best(self.settings.method, self.pool.table, region, seed=self._seed(_FIT))
        judged = self._judge(posterior, gain, final=final)
        self._note(done, judged | {"seconds": time.monotonic() - began})
        self.source.keep_rounds(tuple(one.to_numbers() for one in self.rounds), tuple(self.draws))
        return posterior

    def _run_round(self, number: int, part: float, allowed: Allowance) -> tuple[int, str]:
        """Run one round, up to a part of what is allowed; return the number of runs, and why all ended."""
        before, last = len(self.pool), part >= 1
        if self.show is not None:
            self.show(number, before)
        least = FIRST_RUNS_FACTOR * least_run_count(self.prior.dim) if number == 0 else 0
        size = ALL_RUNS if allowed.runs is None else round(max(part * allowed.runs, least))
        if least > before:  # whatever share of a budget that takes
            self.pool.run(self.proposal, least - before, allowed)
        if size > len(self.pool):  # a campaign may have run before
            self.pool.run(self.proposal, size - len(self.pool), allowed if last else allowed.share(part))
        left = allowed.runs_left(None, self.pool.spent) if allowed.cost is None else allowed.cost - self.pool.spent.cost
        before = before if number else 0  # the pilot of a campaign is a part of round 0
        return len(self.pool) - before, "" if left > 0 and not last else allowed.stop_reason(self.pool.spent)

    def _check_first(self) -> None:
        least, valid = least_run_count(self.prior.dim), int(self.pool.runs.ok.sum())
        if self.number == 0 and valid < least:
            raise ConfigError(
                f"the first round has {valid} valid runs, and {least} are needed",
                code="budget-too-small",
                why="fewer teach a network nothing about where the posterior lies",
                fix=f"n={least * self.settings.rounds} or more, a larger budget, or fewer rounds",
            )

    def _seed(self, stream: int) -> int:
        return int(np.random.SeedSequence(self.seed, spawn_key=(stream, self.number)).generate_state(1)[0])

    def _choose_rows(self, gain: float) -> Simulations:
        return choose_rows(self.pool.table, find_region(self.pool.proposals), gain, self.prior.dim)

    def _fit(self, rows: Simulations, stream: int = _FIT) -> Any:
        return self.settings.method.fit(rows, seed=self._seed(stream))

    @property
    def x_o(self) -> Array:
        """The observations (k, *event)."""
        return read_observations(self.asked, self.pool.runs.pairs()[1].shape[1:], self.pool.runs.x_names)

    def _draw(self, posterior: Any) -> list[Array]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThriftyWarning)  # between rounds x_o may lie far from all runs
            return [np.asarray(posterior.sample(DRAWS, x, seed=self._seed(_DRAW)), dtype=np.float64) for x in self.x_o]

    def _judge(self, posterior: Any, gain: float, *, final: bool) -> dict[str, float]:
        """Draw from the posterior and measure its volume, how far it moved and, if little, the noise of the network."""
        before, self.draws = self.draws, self._draw(posterior)
        volume = max(measure_volume(self.prior, draws) for draws in self.draws)
        moved, noise = float("nan"), float("nan")
        if before:
            moved = measure_moves(self.prior, before, self.draws)
        if self._is_calm(moved) and not final:
            noise = measure_moves(self.prior, self._draw(self._fit(self._choose_rows(gain), _NOISE)), self.draws)
        return {"volume": volume, "moved": moved, "noise": noise, "gain": gain}

    def _is_calm(self, moved: float) -> bool:
        """Tell whether the posterior moved little in this round and in the one before.

        One round is not enough: a thin posterior that is still too wide shrinks little by little while the pool is
        small, and was taken for settled at twice its volume (exchange, development seeds 101 and 102).
        """
        limit = self.settings.tolerance
        return bool(self.rounds) and moved <= limit and self.rounds[-1].moved <= limit  # False for NaN

    def _has_settled(self) -> bool:
        return self.rounds[-1].noise <= self.settings.tolerance  # NaN where it is not calm

    def _propose(self) -> Any:
        """Choose where the next round draws, from the draws of the current posterior at all observations."""
        cost, settings = self.pool.cost, self.settings
        penalty = as_penalty(settings.penalty) if cost is not None else Constant()
        theta = np.concatenate(self.draws)
        if self.rounds[-1].gain <= 0:
            return self.prior if cost is None else CostAware(self.prior, cost, penalty)
        if isinstance(base_method(settings.method), NPE):
            return TruncatedPrior.around(self.prior, theta, left_out=settings.left_out, penalty=penalty, cost=cost)
        chosen = np.random.default_rng(self._seed(_DRAW)).choice(len(theta), MAX_CENTRES, replace=False)
        centres = theta[chosen]
        kernel = measure_local_covariance(centres)
        return KernelProposal(
            self.prior, centres, np.zeros(MAX_CENTRES), kernel, penalty, cost, prior_share=settings.prior_share
        )

    def _note(self, n: int, judged: dict[str, float]) -> None:
        """Add a round with what was judged after it, as a folder keeps it."""
        cost, predicted = self.pool.compare_cost(self.proposal, n)
        self.rounds.append(Round(n, cost, predicted, proposal=self.proposal, **judged))
        if self.on_round is not None:
            self.on_round(self.rounds[-1])

    def _make_study(self, stopped: str, seconds: float) -> Study:
        failures = describe_near_failures(self.settings.method, self.pool.table, self.rounds[-1])
        notes = (*_describe_wide(self.rounds[-1].volume), *filter(None, (failures,)))
        for note in notes:
            warn(note, stacklevel=4)
        study = Study(
            self.posterior,
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
    if not volume > WIDE_VOLUME:  # also NaN
        return ()
    return (
        f"the posterior takes {volume:.0%} of the prior: it is not narrow, and amortised NPE on"
        " runs from the prior is as good here",
    )
