"""Judge failed runs between rounds: by their share of the prior, and by their share near the observation.

    NPE        learns p(theta | x, the run finished); more failed prior mass than `max_failed` is refused
    NLE, NRE   have a rule of their own when they are fitted, `failures="refuse"` or `"model"`

A hole of 1 % of the prior may be most of a narrow posterior. The runs of the last round lie near the observation: where
many of them failed, a note says so, whatever their share of the prior, and what that means for the posterior:

    runs fail because of    NLE, NRE                                  NPE
    their output            wrong without P(valid | theta)            right, for a valid observation
    their parameters        right                                     without the parameters at which runs fail

Which of the two it is the runs do not show, so that nothing is corrected without being asked for.
"""

from __future__ import annotations

from typing import Any

from thrifty.campaign.failures import describe_where
from thrifty.errors import QualityGateError
from thrifty.inference.neural.npe import NPE
from thrifty.inference.neural.prepare import describe_failures
from thrifty.proposals.kernel import KernelProposal
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.finish import base_method
from thrifty.sequential.round_record import Round
from thrifty.tables.simulations import Simulations
from thrifty.weights import ess

MAX_FAILED_NEAR = 0.02  # share of the last round: a hole of that much in the posterior moves its quantiles visibly
WAYS_OUT = 'let the simulator return numbers instead of failing, or th.NLE(prior, failures="model")'
_OF_LIKELIHOODS = (
    "the posterior has no factor for them. It is right if runs fail at some parameters, whatever their output would"
    " have been. If they fail because of their output, it is too high where they fail:"
    ' th.{name}(prior, failures="model") multiplies by P(valid | theta), in the same folder without new runs'
)
_OF_NPE = (
    "the posterior is that of runs that finish. It is right if runs fail because of their output. If they fail at some"
    " parameters, whatever their output would have been, those are missing in it: let the simulator return numbers"
    " there, or use th.NLE(prior) in a new folder"
)


def check_failures(method: Any, table: Simulations, max_failed: float) -> None:
    """Refuse NPE where the runs so far show that more of the prior fails than may, before the next round is paid for.

    Few failures of a short round show nothing: the lower end of their 95 % interval must exceed the limit.

    Raises:
        QualityGateError: too-many-failures.
    """
    mass = table.failed_mass
    if not isinstance(base_method(method), NPE) or mass <= max_failed:
        return
    from scipy import stats

    ended = table[table.ok | table.failed]
    count = ess(ended.log_weights)
    if stats.beta.ppf(0.025, mass * count, (1 - mass) * count + 1) <= max_failed:
        return
    where = describe_where(ended.theta, ended.failed, base_method(method).prior.names)
    raise QualityGateError(
        f"{describe_failures(table)}{', ' + where if where else ''}; at most {100 * max_failed:g}% may fail",
        code="too-many-failures",
        why="the posterior would be conditional on finishing",
        fix=f"{WAYS_OUT}; or accept it: th.Rounds(method, max_failed={min(1.0, max(0.05, round(1.2 * mass, 2))):g})",
    )


def describe_near_failures(method: Any, runs: Simulations, last: Round) -> str:
    """Describe the failures among the runs near the observation, those of the last round; empty where they are few.

    Args:
        method: Of the rounds; one that learns P(valid | theta) needs no note.
        runs: All runs, those of the last round at the end.
        last: That round; nothing is said of one that drew from the whole prior.
    """
    is_near = isinstance(last.proposal, KernelProposal | TruncatedPrior)
    if not is_near or getattr(base_method(method), "failures", "") == "model":
        return ""
    near = runs[len(runs) - last.n :]
    failed, ended = int(near.failed.sum()), int((near.ok | near.failed).sum())
    if failed <= MAX_FAILED_NEAR * ended:
        return ""
    where = describe_where(near.theta, near.failed, base_method(method).prior.names)
    found = (
        f"[too-many-failures] {failed} of {ended} runs near the observation failed ({failed / ended:.1%} of the last"
        f" round{', ' + where if where else ''})"
    )
    base = base_method(method)
    return f"{found}: {_OF_NPE if isinstance(base, NPE) else _OF_LIKELIHOODS.format(name=type(base).__name__)}"
