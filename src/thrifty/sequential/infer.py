"""Infer parameters in one call: `th.infer`, with one plan over the whole prior, or in rounds at the observation.

The steps are those of `study.fit_study.infer`, which runs any method. Here `rounds=` becomes the method `th.Rounds`: a
study lies below the sequential methods that return one, so that it cannot make them itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from thrifty.campaign.weighting import MAX_FAILED_MASS
from thrifty.durations import Duration
from thrifty.inference.neural.nle import NLE
from thrifty.priors import as_prior
from thrifty.sequential.rounds import Rounds
from thrifty.study import fit_study as plain
from thrifty.study.method_names import find_method
from thrifty.study.study import Study


def infer(
    simulator: Callable[..., Any],
    prior: Any,
    x_o: Any,
    *,
    n: int | None = None,
    budget: float | str | None = None,
    pilot: int | None = None,
    rounds: int | None = None,
    method: Any = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    workers: int = 2,
    cost: Literal["cpu", "wall", "reported"] = "cpu",
    time_limit: Duration | None = None,
    on_timeout: str | None = None,
    max_failed: float = MAX_FAILED_MASS,
    depends_on: Sequence[str | os.PathLike[str]] = (),
    progress: bool | None = None,
    accept_changed: bool = False,
    redo_failed: bool = False,
    name: str = "",
) -> Study:
    """Infer a posterior from simulator, prior and observation: pilot, plan, run, fit; or in rounds at the observation.

    Calling it again with the same folder continues where it was; no run is done twice.

    Args:
        simulator: `simulate(theta, rng)`, `simulate(beta, gamma, rng)` with the prior's names, or `th.Command`.
        prior: Anything `th.as_prior` reads.
        x_o: The observation, as the simulator returns it, by name where its numbers have names; with rounds also
            several (k, *event).
        n: Runs of the campaign, besides the pilot, whose runs are used as well; 5000 where no budget is given, and then
            a line says first what they will cost. With rounds, and for other sequential methods: all runs.
        budget: Total cost, pilot included: "2 cpu-h", "40 min", or, with cost="reported", a number; with n as
            well, whichever comes first ends the runs.
        pilot: Timed runs from the prior before the plan. By default a fifth of n and at most 200; with a budget at most
            200 and a tenth of it, after ten for each parameter.
        rounds: How many rounds, at most (`th.Rounds`): for one observation whose posterior is narrow.
        method: A name ("npe", the default, "abc", ... as on the command line), a class (`th.ABC`) or one with settings,
            `th.NPE(prior, network=...)`. With rounds: NLE, the default, NRE, NPE, or a `th.Ensemble` of one.
        folder: The run folder, kept. None: a temporary one, which is deleted together with the study.
        seed: Seed of every draw, run and network.
        workers: Local worker processes.
        cost: What a run costs: "cpu" or "wall" seconds, or what the simulator reports.
        time_limit: Wall time of a run, seconds or "10 s"; needs `on_timeout`. Not with rounds.
        on_timeout: "lazy", "extend", "restrict", "weight" or "stop", as for `Campaign.run`.
        max_failed: Share of prior mass that may fail; where the pilot shows more, nothing else is run; with
            rounds of NPE, where a round shows more. NLE, NRE and SMC-ABC in rounds have their own rule.
        depends_on: Data files that the simulator reads, as for `th.Campaign`.
        progress: Show how far runs and training are: True, False, or None for a bar in a terminal and in a notebook
            and lines elsewhere.
        accept_changed: Go on although the simulator's code changed since the folder began, as for `th.Campaign`.
        redo_failed: Make the failed runs of the folder again, as for `Campaign.run`.
        name: Of the result in the folder, as for `Campaign.infer`.

    Returns:
        A `Study` with `.posterior`, `.samples`, `.simulations`, `.campaign`, `.diagnosis` and `.report(path)`.

    Example:
        >>> def simulate(theta, rng):
        ...     return th.Output(theta + rng.normal(size=1), cost=float(np.exp(theta[0])))
        >>> method = th.ABC(quantile=0.2)
        >>> study = th.infer(simulate, th.Uniform(0, 4), [2.0], n=300, method=method, cost="reported", workers=1)
        >>> len(study.simulations), bool(abs(study.samples.mean() - 2) < 1)
        (360, True)
    """
    prior = as_prior(prior)
    return plain.infer(
        simulator,
        prior,
        x_o,
        n=n,
        budget=budget,
        method=accept_failures(method if rounds is None else make_rounds(method, prior, rounds), max_failed),
        folder=folder,
        seed=seed,
        workers=workers,
        cost=cost,
        pilot=pilot,
        time_limit=time_limit,
        on_timeout=on_timeout,
        max_failed=max_failed,
        depends_on=depends_on,
        progress=progress,
        accept_changed=accept_changed,
        redo_failed=redo_failed,
        name=name,
    )


def make_rounds(method: Any, prior: Any, rounds: int) -> Rounds:
    """Return a method in rounds: of a class, of one with settings, of NLE where none is given.

    Example:
        >>> make_rounds(None, th.Uniform(0, 1), 3).name, make_rounds(th.NPE, th.Uniform(0, 1), 2).name
        ('nle-rounds', 'npe-rounds')
    """
    if isinstance(method, Rounds):
        return replace(method, rounds=rounds)
    chosen = NLE if method is None else find_method(method)
    return Rounds(chosen(prior) if isinstance(chosen, type) else chosen, rounds=rounds)


def accept_failures(method: Any, max_failed: float) -> Any:
    """Return a method in rounds with the share of prior mass that may fail, where another than the usual one is given.

    Example:
        >>> accept_failures(th.Rounds(th.NPE(th.Uniform(0, 1))), 0.2).max_failed, accept_failures("npe", 0.2)
        (0.2, 'npe')
    """
    is_given = isinstance(method, Rounds) and max_failed != MAX_FAILED_MASS
    return replace(method, max_failed=max_failed) if is_given else method
