"""What the studies of the SIR models share: costs, observation, reference posterior, and how a posterior is judged.

Cost is the count of operations plus a start-up, the same on every machine. Start-up: homogeneous SIR such that the
most expensive run costs about 28 times the cheapest on average, the paper's own range; temporal SIR 40 events, chosen
(what others would save: `studies/products.py`; what the clock says of plain Python: `studies/seconds.py`); Bernoulli
SIR none, since its graph is a start-up of its own.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import paper_mmd2

import thrifty as th
from thrifty.types import Array

START_UP = {"HomogeneousSIR": 3400.0, "TemporalSIR": 40.0, "BernoulliSIR": 0.0}
SHOWN = {"HomogeneousSIR": "homogeneous", "TemporalSIR": "temporal", "BernoulliSIR": "Bernoulli"}
PILOT = 200  # the paper's number of timed runs
POWERS = (0, 0.5, 1, 2)  # the paper's mixture
DRAWS = 1000  # of each posterior
OBSERVED = 5
LEAST = 0.01  # of the population: outbreaks below it are not taken as observations
_REFERENCE = 900_001  # seed of the reference runs, far from those of the repetitions


def model_of(name: str) -> Any:
    return getattr(th.models, name)(overhead=START_UP[name])


def pilot(model: Any, seed: int, n: int = PILOT) -> tuple[th.Simulations, float]:
    """Prior runs to learn the cost from, and the CPU seconds they took here."""
    return simulated(model, th.Draws(model.prior.sample(n, np.random.default_rng([seed, 1]))), 1_000 * (seed + 1))


def fit(sims: th.Simulations, model: Any = "auto") -> th.FittedCost:
    return th.fit_cost(sims.theta, sims.cost, model=model, unit="operations")


def simulated(model: Any, draws: th.Draws, seed: int) -> tuple[th.Simulations, float]:
    """The runs, and the CPU seconds they took here."""
    begin = time.process_time()
    sims = model.simulate_many(draws, seed)
    return sims, time.process_time() - begin


def pooled(first: th.Simulations, second: th.Simulations, pool: th.Pool) -> th.Simulations:
    """Pilot and campaign as one table under their joint weights."""
    theta = np.concatenate([first.theta, second.theta])
    return th.Simulations(
        theta=theta,
        x=np.concatenate([first.x, second.x]),
        cost=np.concatenate([first.cost, second.cost]),
        log_weights=pool.log_weight(theta),
        names=first.names,
        proposal=pool,
    )


def observations(model: Any) -> list[Array]:
    """The first five observations whose outbreak reaches a hundredth of the population.

    At the paper's truth of temporal SIR (R₀ = 1) most outbreaks die out at once and say little; the paper's
    lengthscale of 0.19 tells that its own observation did not. Five, so that no table hangs on the luck of one.
    """
    out, seed = [], 0
    while len(out) < OBSERVED:
        x = model.observed(seed)
        out += [x] if x[0] >= LEAST * model.population else []
        seed += 1
    return out


def references(model: Any, folder: Path, n: int, network: Any = None) -> list[Array]:
    """Draws at each observation of an NPE (a MAF, as the paper's) on n prior runs, trained once and kept on disk."""
    network = network or th.MAF()
    kept = folder.parent / "references"
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"{type(model).__name__}-{n}-{type(network).__name__}.posterior"
    with _locked(kept / "lock"):  # workers side by side train it once
        if not path.exists():
            sims = model.simulate_many(model.prior.sample(n, np.random.default_rng(_REFERENCE)), _REFERENCE)
            th.NPE(model.prior, network=network).fit(sims, seed=_REFERENCE).save(path)
    posterior = th.load_posterior(path)
    return [posterior.sample(DRAWS, x_o, seed=_REFERENCE) for x_o in observations(model)]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def judged(
    method: Any,
    sims: th.Simulations,
    model: Any,
    targets: list[Array],
    *,
    seed: int,
    classifier: bool = True,
    exact: list[Array] | None = None,
) -> dict[str, Any]:
    """Train, draw, compare: MMD² (median distance of the reference as lengthscale) and KS, means over observations.

    `narrow` is MMD² with that lengthscale over √2, the rule that the paper's own lengthscales follow; `each` has the
    MMD² of every observation; `exact` is the paper's MMD² to draws of the exact posterior, where these are given. C2ST,
    which takes longer than all the rest, is for the first observation only, and if asked.
    """
    begin = time.process_time()
    try:
        posterior = method.fit(sims, seed=seed)
        draws = [posterior.sample(DRAWS, x_o, seed=seed) for x_o in observations(model)]
    except th.ThriftyError as error:
        return {"failed": str(error)[:80]}
    trained = time.process_time() - begin
    pairs = list(zip(draws, targets, strict=True))
    each = [th.metrics.mmd2(d, t) for d, t in pairs]
    return {
        "mmd2": float(np.mean(each)),
        "narrow": float(np.mean([paper_mmd2(d, t) for d, t in pairs])),
        "each": each,
        "exact": float(np.mean([paper_mmd2(d, e) for d, e in zip(draws, exact, strict=True)])) if exact else None,
        "c2st": float(th.metrics.c2st(*pairs[0], seed=seed)) if classifier else None,
        "ks": np.mean([th.metrics.ks(d, t).statistic for d, t in pairs], axis=0).tolist(),
        "training": trained,
    }


def spent(sims: th.Simulations, seconds: float) -> dict[str, float]:
    """What a table of runs cost and is worth."""
    return {"cost": float(sims.cost.sum()), "seconds": seconds, "effective": th.ess(sims.log_weights)}


def savings(arm: dict[str, Any], plain: dict[str, Any], pilot_cost: float) -> dict[str, float]:
    """Time saved against the prior at equal n: as the paper counts, with the pilot, per effective draw, in seconds."""
    share = arm["cost"] / plain["cost"]
    with_pilot = share if arm.get("pilot_counted") else share + pilot_cost / plain["cost"]
    return {
        "saved": 1 - share,
        "saved_with_pilot": 1 - with_pilot,
        "saved_per_effective": 1 - share * plain["effective"] / arm["effective"],
        "saved_seconds": 1 - arm["seconds"] / plain["seconds"],
    }
