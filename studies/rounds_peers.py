"""Beside `th.Rounds`: sbi's sequential methods with their own defaults, and plain NPE on runs from the prior.

    python studies/rounds_peers.py lotka_volterra --n 400   # each once: cost, CPU seconds, accuracy

    snle     NLE in rounds, a masked autoregressive flow, proposals and draws by vectorised slice sampling
    snpe_c   NPE with atomic proposals (APT)
    tsnpe    NPE on the prior truncated to the posterior's region of 1 - 1e-4 of its mass

All take n runs in four equal rounds at one observation and give 1,000 draws there. Two settings are not sbi's defaults,
both of tsnpe: the threshold comes from 100,000 draws instead of a million, and the truncated prior is drawn by sampling
importance resampling (sbi's own alternative) where rejection would accept fewer than one prior draw in 10,000. Where
NPE leaks out of the prior so that 1,000 draws take longer than MOST_SECONDS, sbi's own RuntimeError says so.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
from rounds_form import PLACES, Problem
from rounds_measures import measure
from rounds_problems import problem, reference

import thrifty as th
from thrifty.types import Array

ROUNDS, DRAWS = 4, 1_000
LEAST_ACCEPTANCE = 1e-4  # of prior draws in the truncated region, below which they are resampled
TRIED = 20_000  # prior draws that say which
THRESHOLD_DRAWS = 100_000  # that place the truncation at a mass of 1e-4; sbi's million take 20 CPU s a round
MOST_SECONDS = 300.0  # of sampling at one time


@dataclass(frozen=True)
class Result:
    """What a method gave.

    Attributes:
        draws: By place, (DRAWS, p).
        cost: Of all runs.
        runs: Their number.
        seconds: CPU seconds without the simulator's, one thread.
    """

    draws: dict[str, Array]
    cost: float
    runs: int
    seconds: float


def plain_npe(made: Problem, n: int, seed: int, places: Any = tuple(PLACES), method: Any = None) -> Result:
    """Thrifty's NPE (or another method) on n prior runs: one fit, draws at all places."""
    sims = made.simulate_many(made.prior.sample(n, np.random.default_rng([seed, 1])), seed)
    begin = time.process_time()
    posterior = (method or th.NPE(made.prior)).fit(sims, seed=seed)
    draws = {place: posterior.sample(DRAWS, made.x_o(place), seed=seed) for place in places}
    return Result(draws, float(sims.cost.sum()), n, time.process_time() - begin)


@dataclass(frozen=True)
class Peer:
    """A sequential method of sbi with its own defaults.

    Attributes:
        trainer: Name of its class in `sbi.inference`.
        truncated: Whether a round draws from the truncated prior; else from the posterior so far.
    """

    trainer: str
    truncated: bool = False

    def run(self, made: Problem, place: str, n: int, seed: int, rounds: int = ROUNDS) -> Result:
        """Take n runs in equal rounds at the observation of a place."""
        import sbi.inference
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        prior, x_o = make_torch_prior(made.prior), _tensor(made.x_o(place)[None])
        trainer = getattr(sbi.inference, self.trainer)(prior=prior, show_progress_bars=False)
        proposal, sizes, start, clock = prior, np.diff(np.linspace(0, n, rounds + 1).astype(int)), 0, Clock()
        cost = 0.0
        with _silence():
            for size in sizes:
                theta = clock.time(lambda source=proposal, k=size: _draw(source, int(k)))
                sims = made.simulate_many(theta.double().numpy(), seed, start=start)
                start, cost = start + int(size), cost + float(sims.cost.sum())
                proposal = clock.time(
                    lambda s=sims, t=theta, q=proposal: self._learn(trainer, (t, _tensor(s.x)), q, x_o)
                )
                if self.truncated and start < n:
                    proposal = clock.time(lambda q=proposal: _truncate(prior, q))
            draws = clock.time(lambda: _draw(proposal, DRAWS).double().numpy())
        return Result({place: draws}, cost, n, clock.seconds)

    def _learn(self, trainer: Any, runs: tuple[Any, Any], proposal: Any, x_o: Any) -> Any:
        """Train on all runs so far; return the posterior at x_o."""
        if self.truncated:
            trainer.append_simulations(*runs).train(force_first_round_loss=True)
        elif self.trainer == "NLE":
            trainer.append_simulations(*runs).train()
        else:
            trainer.append_simulations(*runs, proposal=proposal).train()
        return trainer.build_posterior().set_default_x(x_o)


PEERS = {"snle": Peer("NLE"), "snpe_c": Peer("NPE_C"), "tsnpe": Peer("NPE_C", truncated=True)}


@dataclass
class Clock:
    """CPU seconds of what is timed."""

    seconds: float = 0.0

    def time(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns, and add its seconds."""
        begin = time.process_time()
        result = function()
        self.seconds += time.process_time() - begin
        return result


@contextmanager
def _silence() -> Iterator[None]:
    """Keep sbi's progress, and its advice on settings that are left at their defaults, off the screen."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _draw(source: Any, n: int) -> Any:
    """Draws (n, p) of a torch prior, a truncated prior or a posterior of sbi."""
    from sbi.inference import DirectPosterior, MCMCPosterior
    from sbi.utils import RestrictedPrior

    if isinstance(source, DirectPosterior):
        return source.sample((n,), show_progress_bars=False, max_sampling_time=MOST_SECONDS)
    if isinstance(source, MCMCPosterior):
        return source.sample((n,), show_progress_bars=False)
    if isinstance(source, RestrictedPrior):
        return source.sample((n,), print_rejected_frac=False)
    return source.sample((n,))


def _truncate(prior: Any, posterior: Any) -> Any:
    """The prior inside the posterior's region of 1 - 1e-4 of its mass."""
    from sbi.utils import RestrictedPrior, get_density_thresholder

    inside = get_density_thresholder(posterior, num_samples_to_estimate_support=THRESHOLD_DRAWS)
    share = float(inside(prior.sample((TRIED,))).float().mean())
    way = "rejection" if share >= LEAST_ACCEPTANCE else "sir"
    return RestrictedPrior(prior, inside, posterior=posterior, sample_with=way)


def make_torch_prior(prior: Any) -> Any:
    """Write a prior of thrifty as one of torch: normal, uniform, or independent gammas and betas."""
    import torch
    from sbi.utils import BoxUniform, MultipleIndependent

    if isinstance(prior, th.Uniform):
        return BoxUniform(_tensor(prior.low), _tensor(prior.high))
    if isinstance(prior, th.Normal):
        return torch.distributions.Independent(torch.distributions.Normal(_tensor(prior.mean), _tensor(prior.sd)), 1)
    parts = [_marginal(prior.marginals[name]) for name in prior.names]
    return MultipleIndependent(parts) if len(parts) > 1 else torch.distributions.Independent(parts[0], 1)


def _marginal(marginal: Any) -> Any:
    """A gamma(shape, scale=) or beta(a, b) of scipy in torch."""
    from torch.distributions import Beta, Gamma

    if marginal.dist.name == "beta":
        return Beta(*(_tensor([a]) for a in marginal.args))
    return Gamma(_tensor(marginal.args), _tensor([1 / marginal.kwds["scale"]]))


def _tensor(values: Any) -> Any:
    import torch

    return torch.tensor(np.asarray(values), dtype=torch.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--places", nargs="*", default=["middle"])
    parser.add_argument("--methods", nargs="*", default=[*PEERS, "npe"])
    args = parser.parse_args()
    made = problem(args.name)
    for method in args.methods:
        results = (
            [plain_npe(made, args.n, args.seed, args.places)]
            if method == "npe"
            else [PEERS[method].run(made, place, args.n, args.seed) for place in args.places]
        )
        for result in results:
            for place, draws in result.draws.items():
                found = measure(draws, reference(args.name, place), modes=made.modes)
                text = ", ".join(f"{key} {value:.3f}" for key, value in found.row().items())
                print(f"{args.name} {place} {method} n = {args.n}: {text}; cost {result.cost:.0f},"
                      f" {result.seconds:.0f} CPU s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
