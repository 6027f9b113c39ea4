"""Neural posterior estimation with importance weights: Ca-NPE (the paper's section 3.2).

    minimise over q   - sum_i w_i log q(theta_i | x_i) / sum_i w_i,      w = prior/proposal = g(c(theta))

Without weights the network learns the posterior under the *proposal*. Three ways to reach the one under the prior:

    "weights"  the weighted loss above (default)
    "after"    train without weights, multiply by the known g(c(theta)) when sampling and evaluating: steadier under
               strong penalties, because g varies little over one posterior
    "atomic"   train without weights on a loss that needs the prior density only: which of K parameters made x?
               (Greenberg et al. 2019)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, WeightError, warn
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import check_fit, check_weights_prior
from thrifty.inference.neural.direct_posterior import DirectPosterior
from thrifty.inference.neural.prepare import Rows, choose_condition_box, prepare, warn_failures
from thrifty.inference.neural.recipes import (
    MAF,
    AutoregressiveMixture,
    ImageEmbedding,
    SequenceEmbedding,
    SetEmbedding,
    is_recipe,
)
from thrifty.inference.neural.spike_and_slab import SpikeAndSlab
from thrifty.inference.neural.standardise import Frame, measure_frame, measure_spread
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import (
    Training,
    assign_folds,
    fingerprint_held_out,
    mark_held_out,
    require_neural,
)
from thrifty.inference.transforms import BoxTransform
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Prior, Weighting, levels_of

if TYPE_CHECKING:
    import torch

Correction = Literal["weights", "after", "atomic"]
MAX_STATES = 256  # values of one discrete parameter: more would leave few runs for each
ATOMS_PER_PAIR = 10  # parameters to choose from in the atomic loss: sbi's default, 10 network calls per pair


@dataclass(frozen=True, repr=False)
class NPE(BeforeFit, DisplayedSettings):
    """Neural posterior estimation.

    Args:
        prior: The prior; anything `as_prior` reads.
        network: `th.AutoregressiveMixture()`, `th.NSF()`, `th.MAF()` (the paper's), `th.MixtureDensity()`, or an sbi
            density estimator.
        embedding: `th.MLPEmbedding()`, `th.SignalEmbedding()`, `th.ImageEmbedding()`, `th.SequenceEmbedding()` for
            series of varying length, `th.SetEmbedding()` for several independent observations, any `torch.nn.Module`
            (b, *event) -> (b, k), or None for x as it is.
        correction: "weights", "after" or "atomic"; see above.
        training: Settings of the loop.
        noise: `th.SpikeAndSlab()` for a posterior that holds when some statistics of x_o are wrong; None trusts all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((400, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((400, 1)))
        >>> method = th.NPE(th.Normal(0.0, 1.0), network=th.MixtureDensity(2), training=th.Training(max_epochs=20))
        >>> posterior = method.fit(sims, seed=0)
        >>> posterior.sample(100, [1.0], seed=0).shape
        (100, 1)
    """

    prior: Prior
    network: Any = field(default_factory=AutoregressiveMixture)
    embedding: Any = None
    correction: Correction = "weights"
    training: Training = field(default_factory=Training)
    noise: SpikeAndSlab | None = None

    @property
    def method(self) -> Literal["npe", "fmpe"]:
        """Name in files."""
        return "npe"

    def __post_init__(self) -> None:
        require_neural()
        object.__setattr__(self, "prior", as_prior(self.prior))
        if self.correction not in get_args(Correction):
            raise ConfigError(
                f"correction must be one of {', '.join(get_args(Correction))}, got {self.correction!r}",
                code="bad-setting",
            )
        _check_states(self.prior)
        if self.noise is not None and not isinstance(self.noise, SpikeAndSlab):
            raise ConfigError(
                f"noise must be an error model of x, got {self.noise!r}"[:200],
                code="bad-setting",
                fix="th.NPE(prior, noise=th.SpikeAndSlab()), or leave it out",
            )

    def fit(self, simulations: Simulations, seed: int = 0) -> DirectPosterior:
        """Train on the valid simulations.

        Raises:
            DataError, WeightError, ConfigError: The table or the settings cannot be used; nothing was trained.
        """
        check_fit(simulations, seed)
        if self.correction != "atomic":  # whose loss has the prior density in it
            check_weights_prior(simulations, self.prior, type(self).__name__)
        from thrifty.inference.neural.modules.head_start import fit_shift
        from thrifty.inference.neural.networks import build_density, seed_torch
        from thrifty.inference.neural.training import Table, scale_to_mean_one, train

        weighting = _find_weighting(simulations) if self.correction == "after" else None
        notes = warn_failures(simulations)
        sets = isinstance(self.embedding, SetEmbedding)
        shaped = self.embedding is not None
        table = prepare(simulations, self.prior, weighted=self.correction == "weights", sets=sets, shaped=shaped)
        pairs = table.unfold() if sets else table
        padded = isinstance(self.embedding, SequenceEmbedding)
        free = measure_frame(pairs, choose_condition_box(self.prior), shaped=shaped, padded=padded, scores=True)
        if self.noise is not None:
            notes = (*notes, f"trained under errors of x: {self.noise}")
            table = self.noise.spread(table, measure_spread(pairs, padded=padded), np.random.default_rng([seed, 3]))
        validates = mark_held_out(table.index, self.training.validation)
        weights = scale_to_mean_one(table.log_weights)
        narrow, shift = np.zeros(self.prior.dim, bool), None
        if self.embedding is None and is_recipe(self.network) and not free.box.levels and self.noise is None:
            x = free.encode_x(table.x)[:, : len(free.x.centre)]  # without the normal scores, which repeat them
            narrow, shift = fit_shift(free.encode_theta(table.theta), x, weights, validates)
        if self.correction == "atomic" and narrow.any() and self.prior.dim > 1:
            _warn_atomic([name for name, is_narrow in zip(self.prior.names, narrow, strict=True) if is_narrow])
        frame = measure_frame(pairs, self._choose_box(narrow), shaped=shaped, padded=padded, scores=True, codes=True)
        first, second = (int(s) for s in np.random.SeedSequence(seed).generate_state(2, np.uint64) >> np.uint64(1))
        tensors = _make_tensors(table, frame, self.prior, sets)
        network = self.network
        if isinstance(network, AutoregressiveMixture):
            network = network.settle(len(table.theta))
        with seed_torch(first):
            embedding, context = None, int(np.prod(frame.inputs))
            if self.embedding is not None:
                from thrifty.inference.neural.modules.embeddings import build_embedding

                embedding, context = build_embedding(self.embedding, frame.inputs)
            made = {"context": context, "embedding": embedding, "states": frame.states}
            net = build_density(network, tensors[0], tensors[1], field=self.method == "fmpe", **made)
        net.shift = shift
        apart = None if self.embedding is not None else assign_folds(table.index, validates, net.members)
        loss = self._choose_loss(sets=sets)
        cyclic = isinstance(network, MAF) and self.embedding is None
        images = isinstance(self.embedding, ImageEmbedding)
        settings = self.training.settle(len(table.theta), cyclic=cyclic, images=images)
        curve = train(net, loss, table=Table(tensors, weights, validates, apart), settings=settings, seed=second)
        kept = fingerprint_held_out(table.theta, table.index, self.training.validation)
        notes = (*notes, *table.notes)
        trained = Trained(self.method, net, network, self.embedding, frame, table.reach, curve, notes, kept)
        return DirectPosterior(self.prior, trained, sets=sets, weighting=weighting)

    def _choose_loss(self, *, sets: bool) -> Any:
        return _atomic_loss if self.correction == "atomic" else _set_loss if sets else _loss

    def _choose_box(self, narrow: np.ndarray) -> BoxTransform:
        """Choose the bounds to transform away: for splines all but those of narrow posteriors, which a logit bends."""
        plain = choose_condition_box(self.prior)
        if not getattr(self.network, "unconstrained", True):
            return plain
        low, high = self.prior.bounds
        return BoxTransform(np.where(narrow, plain.low, low), np.where(narrow, plain.high, high), levels_of(self.prior))


def _check_states(prior: Prior) -> None:
    """Refuse discrete parameters with more values than a network can have an output for."""
    low, high = prior.bounds
    for name, level, a, b in zip(prior.names, levels_of(prior), low, high, strict=True):
        if level is not None and not b - a < MAX_STATES:
            raise ConfigError(
                f"{name} takes whole numbers from {a:g} to {b:g}; NPE learns a probability for each, of"
                f" {MAX_STATES} at most",
                code="bad-prior",
                fix="th.NLE, th.NRE or th.ABC, which need no list; or a prior with ends, th.Integers(low, high)",
            )


def _warn_atomic(narrow: list[str]) -> None:
    warn(
        f"[poor-training] the posterior of {', '.join(narrow)} is so narrow that it alone separates ten parameters;"
        ' the atomic loss then learns little about the others. Use correction="weights" or "after"'
    )


def _find_weighting(simulations: Simulations) -> Weighting | None:
    """Return the weight function of the table; None when all weights are equal."""
    if np.ptp(simulations.log_weights) == 0:
        return None
    if simulations.proposal is None:
        raise WeightError(
            'correction="after" needs the weight of any theta, but these simulations carry numbers only',
            code="bad-weights",
            fix='pass proposal= to Simulations.from_arrays (balance scheme), or use correction="weights"',
        )
    simulations.proposal.log_weight(
        simulations.theta[:1]
    )  # the paper's mixture scheme raises its error here, before training
    return simulations.proposal


def _make_tensors(table: Rows, frame: Frame, prior: Prior, sets: bool) -> tuple[torch.Tensor, ...]:
    """Return parameters, outputs and the log prior density of the standardised parameters, one row per pair."""
    import torch

    x = table.x.reshape(-1, *table.x.shape[2:]) if sets else table.x
    seen = frame.encode_x(x)
    seen = seen.reshape(*table.x.shape[:2], *seen.shape[1:]) if sets else seen
    log_prior = (prior.log_prob(table.theta) - frame.log_volume(table.theta)).astype(np.float32)
    return torch.from_numpy(frame.encode_theta(table.theta)), torch.from_numpy(seen), torch.from_numpy(log_prior)


def _loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    return -net.log_prob_members(rows[0], rows[1])


def _set_loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    return -net.log_prob_members(rows[0], choose_members(rows[1], g))


def choose_members(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """Choose 1 to m members of sets x (b, m, ...), the same number of each, again for each batch."""
    import torch

    m = x.shape[1]
    size = int(torch.randint(1, m + 1, (1,), generator=g))
    return x[:, torch.randperm(m, generator=g)[:size]]


def _atomic_loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    """-log of q(theta_i|x_i)/prior(theta_i) over the sum of the same for K parameters of the batch."""
    import torch

    from thrifty.inference.neural.training import choose_contrasts

    theta, x, log_prior = rows
    which = choose_contrasts(len(theta), ATOMS_PER_PAIR, g)
    scores = net.log_prob_atoms(theta[which], x) - log_prior[which]
    return torch.logsumexp(scores, -1) - scores[..., 0]
