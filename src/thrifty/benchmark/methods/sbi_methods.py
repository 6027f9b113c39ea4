"""Fit sbi's methods with their own defaults: NPE and NLE on prior runs, TSNPE and SNLE in four rounds.

    sbi-npe, sbi-nle   one fit on runs of the prior
    sbi-tsnpe          NPE on the prior truncated to the posterior's region of 1 - 1e-4 of its mass
    sbi-snle           NLE in rounds, proposals and draws by vectorised slice sampling

Two settings are not sbi's defaults, both of TSNPE: the threshold comes from 100,000 draws instead of a million, and the
truncated prior is drawn by sampling importance resampling (sbi's own alternative) where rejection would accept fewer
than one prior draw in 10,000. Where NPE leaks out of the prior so that draws take longer than MOST_SECONDS, sbi's
own RuntimeError says so. A round spends a quarter of the budget, whatever its runs cost; `by_count` counts runs
instead.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

from thrifty.benchmark.method import Meter
from thrifty.priors import Normal, Uniform
from thrifty.types import Array

ROUNDS = 4
LEAST_ACCEPTANCE = 1e-4  # of prior draws in the truncated region, below which they are resampled
TRIED = 20_000  # prior draws that say which
THRESHOLD_DRAWS = 100_000  # that place the truncation at a mass of 1e-4; sbi's million take 20 CPU s a round
MOST_SECONDS = 300.0  # of sampling at one time
MOST_RUNS = 20  # runs of a round over what the budget pays for at the prior's mean cost: cheap regions give more


class SbiPosterior:
    """A posterior of sbi with thrifty's way to ask it."""

    def __init__(self, posterior: Any) -> None:
        self.posterior = posterior

    def sample(self, n: int, x_o: Array, seed: int = 0) -> Array:
        """Draw (n, p) at x_o."""
        import torch

        torch.manual_seed(seed)
        with silence():
            self.posterior.set_default_x(to_tensor(x_o[None]))
            return draw_from(self.posterior, n).double().numpy()

    def log_prob(self, theta: Array, x_o: Array) -> Array:
        """Log density (n,) of theta (n, p), normalised inside the prior."""
        with silence():
            value = self.posterior.log_prob(to_tensor(theta), x=to_tensor(x_o[None]))
        return value.double().numpy()


def fit_once(trainer: str) -> Any:
    """Make the fit of a class of `sbi.inference` on runs of the prior."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> SbiPosterior:
        del x_o
        fitted, prior = _open(trainer, meter, seed)
        with silence():
            runs = _run(meter, prior, budget)
            fitted.append_simulations(*runs).train()
            return SbiPosterior(fitted.build_posterior())

    return fit


def fit_in_rounds(trainer: str, *, truncated: bool, by_count: bool = False) -> Any:
    """Make the fit of a class of `sbi.inference` in ROUNDS rounds at an observation.

    Args:
        trainer: Name of the class: NLE or NPE_C.
        truncated: Whether a round draws from the truncated prior; else from the posterior so far, which NPE_C corrects
            by atomic proposals.
        by_count: Whether the budget is the number of runs, whatever they cost.
    """

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> SbiPosterior:
        fitted, prior = _open(trainer, meter, seed)
        proposal, posterior = prior, None
        with silence():
            for number in range(1, ROUNDS + 1):
                goal = number * budget / ROUNDS
                if by_count:
                    runs = _run_count(meter, proposal, int(goal) - meter.runs)
                else:
                    runs = _run(meter, proposal, max(goal - meter.cost, 0.0))
                if truncated:
                    fitted.append_simulations(*runs).train(force_first_round_loss=True)
                elif trainer == "NPE_C":
                    fitted.append_simulations(*runs, proposal=proposal).train()
                else:
                    fitted.append_simulations(*runs).train()
                posterior = fitted.build_posterior().set_default_x(to_tensor(np.asarray(x_o)[None]))
                if number < ROUNDS:
                    proposal = truncate(prior, posterior) if truncated else posterior
        return SbiPosterior(posterior)

    return fit


def _open(trainer: str, meter: Meter, seed: int) -> tuple[Any, Any]:
    import sbi.inference
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    prior = make_torch_prior(meter.prior)
    return getattr(sbi.inference, trainer)(prior=prior, show_progress_bars=False), prior


def _run(meter: Meter, source: Any, cost: float) -> tuple[Any, Any]:
    """Run draws of a source until they have cost so much; at least two, since a table of one trains nothing."""
    each, kept, x = max(meter.cost / meter.runs, 0.02) if meter.runs else 1.0, [], []
    goal = meter.cost + cost
    while not kept or (meter.cost < goal and sum(map(len, kept)) < MOST_RUNS * cost):
        theta = draw_from(source, max(int((goal - meter.cost) / each), 2))
        done = meter.simulate_within(theta.double().numpy(), max(goal - meter.cost, 1e-9))
        kept.append(theta[: len(done)])
        x.append(done)
    import torch

    return torch.cat(kept), to_tensor(np.concatenate(x))


def _run_count(meter: Meter, source: Any, n: int) -> tuple[Any, Any]:
    """Run n draws of a source."""
    theta = draw_from(source, n)
    return theta, to_tensor(meter.simulate(theta.double().numpy()))


@contextmanager
def silence() -> Iterator[None]:
    """Keep sbi's progress, and its advice on settings that are left at their defaults, off the screen."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def draw_from(source: Any, n: int) -> Any:
    """Draw (n, p) from a torch prior, a truncated prior or a posterior of sbi."""
    from sbi.inference import DirectPosterior, MCMCPosterior
    from sbi.utils import RestrictedPrior

    if isinstance(source, DirectPosterior):
        return source.sample((n,), show_progress_bars=False, max_sampling_time=MOST_SECONDS)
    if isinstance(source, MCMCPosterior):
        return source.sample((n,), show_progress_bars=False)
    if isinstance(source, RestrictedPrior):
        return source.sample((n,), print_rejected_frac=False)
    return source.sample((n,))


def truncate(prior: Any, posterior: Any) -> Any:
    """Truncate the prior to the posterior's region of 1 - 1e-4 of its mass."""
    from sbi.utils import RestrictedPrior, get_density_thresholder

    inside = get_density_thresholder(posterior, num_samples_to_estimate_support=THRESHOLD_DRAWS)
    share = float(inside(prior.sample((TRIED,))).float().mean())
    way = "rejection" if share >= LEAST_ACCEPTANCE else "sir"
    return RestrictedPrior(prior, inside, posterior=posterior, sample_with=way)


def make_torch_prior(prior: Any) -> Any:
    """Write a prior of thrifty as one of torch: normal, uniform, or independent gammas and betas."""
    import torch
    from sbi.utils import BoxUniform, MultipleIndependent

    if isinstance(prior, Uniform):
        return BoxUniform(to_tensor(prior.low), to_tensor(prior.high))
    if isinstance(prior, Normal):
        return torch.distributions.Independent(
            torch.distributions.Normal(to_tensor(prior.mean), to_tensor(prior.sd)), 1
        )
    parts = [_marginal(prior.marginals[name]) for name in prior.names]
    return MultipleIndependent(parts) if len(parts) > 1 else torch.distributions.Independent(parts[0], 1)


def _marginal(marginal: Any) -> Any:
    """Write a gamma(shape, scale=) or beta(a, b) of scipy in torch."""
    from torch.distributions import Beta, Gamma

    if marginal.dist.name == "beta":
        return Beta(*(to_tensor([a]) for a in marginal.args))
    return Gamma(to_tensor(marginal.args), to_tensor([1 / marginal.kwds["scale"]]))


def to_tensor(values: Any) -> Any:
    """Make a tensor of single precision, as sbi takes it."""
    import torch

    return torch.tensor(np.asarray(values), dtype=torch.float32)
