"""What NLE and NRE share: the fit of a likelihood, and P(valid | theta) where runs fail. No torch on import.

    p(x_o | theta) = p(x_o | theta, valid) · P(valid | theta)        for a valid x_o

Both networks learn the likelihood of *valid* runs, which is not p(x | theta) where validity depends on theta. So a
table with more than 1 % of the prior mass failed is refused, or the second factor is learned too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, QualityGateError
from thrifty.inference.checks import MAX_FAILED_MASS, check_fit
from thrifty.inference.neural.potential_posterior import PotentialPosterior
from thrifty.inference.neural.prepare import Rows, choose_condition_box, describe_failures, prepare
from thrifty.inference.neural.recipes import AutoregressiveMixture, ImageEmbedding, SequenceEmbedding
from thrifty.inference.neural.standardise import Frame, measure_frame
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import Training, fingerprint_held_out, mark_held_out, require_neural
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior

FailurePolicy = Literal["refuse", "model"]


class LikelihoodMethod(DisplayedSettings, ABC):
    """The fit of NLE and NRE; each adds its settings as fields, its network and its loss."""

    method: Literal["nle", "nre"]
    prior: Prior
    network: Any
    embedding: Any
    weighted: bool
    failures: FailurePolicy
    training: Training

    def __post_init__(self) -> None:
        require_neural()
        object.__setattr__(self, "prior", as_prior(self.prior))
        if self.failures not in ("refuse", "model"):
            raise ConfigError(f'failures must be "refuse" or "model", got {self.failures!r}', code="bad-setting")

    def fit(self, simulations: Simulations, seed: int = 0) -> PotentialPosterior:
        """Train on the valid simulations.

        Raises:
            DataError, ConfigError: The table or the settings cannot be used.
            QualityGateError: too-many-failures, too many runs failed.
        """
        check_fit(simulations, seed)
        from thrifty.inference.neural.networks import seed_torch
        from thrifty.inference.neural.training import Table, scale_to_mean_one, train

        box, shaped = choose_condition_box(self.prior), self.embedding is not None
        rows = prepare(simulations, self.prior, weighted=self.weighted, shaped=shaped)
        scores, cells = self.method == "nre", self.method == "nle"  # x is a condition, or what is modelled
        padded = isinstance(self.embedding, SequenceEmbedding)
        frame = measure_frame(rows, box, shaped=shaped, padded=padded, scores=scores, cells=cells)
        seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint64) >> np.uint64(1)]
        valid, notes = self._fit_validity(simulations, frame, seeds[2])
        weights, share = scale_to_mean_one(rows.log_weights), self.training.validation
        network = self.network
        if isinstance(network, AutoregressiveMixture):
            network = network.settle(len(rows.theta), likelihood=True)
        with seed_torch(seeds[0]):
            net, tensors = self._build(network, rows, frame, weights)
        table = Table(tensors, weights, mark_held_out(rows.index, share))
        images = isinstance(self.embedding, ImageEmbedding)
        settings = self.training.settle(len(rows.theta), cyclic=self.method == "nle", images=images)
        curve = train(net, self._loss, table=table, settings=settings, seed=seeds[1])
        if isinstance(network, AutoregressiveMixture):
            network = _drop_members(net, network, curve.choose_members())
        kept, notes = fingerprint_held_out(rows.theta, rows.index, share), (*notes, *rows.notes, *self._notes(frame))
        trained = Trained(self.method, net, network, self.embedding, frame, rows.reach, curve, notes, kept)
        return PotentialPosterior(self.prior, trained, valid)

    @abstractmethod
    def _build(self, network: Any, rows: Rows, frame: Frame, weights: Array) -> tuple[Any, tuple[Any, ...]]:
        """Build the network, and the tensors that its loss reads."""

    @staticmethod
    @abstractmethod
    def _loss(net: Any, rows: tuple[Any, ...], g: Any) -> Any:
        """Return the loss of each row (b,), or of each member and row (members, b)."""

    def _notes(self, frame: Frame) -> tuple[str, ...]:
        """Say what the reader should know about the network and these outputs."""
        return ()

    def _fit_validity(self, simulations: Simulations, frame: Frame, seed: int) -> tuple[Any, tuple[str, ...]]:
        """Return the network for P(valid | theta) or None, and a note on what failed."""
        sentence = describe_failures(simulations)
        if not sentence:
            return None, ()
        if self.failures == "model":
            from thrifty.inference.neural.validity import fit_validity

            note = f"{sentence}; P(valid | theta) was learned and multiplied in"
            return fit_validity(simulations, frame, seed=seed), (note,)
        if simulations.failed_mass > MAX_FAILED_MASS:
            name = self.method.upper()
            raise QualityGateError(
                f"{sentence}; the gate is {MAX_FAILED_MASS:.0%}",
                code="too-many-failures",
                why=f"{name} would learn the likelihood given that a run finishes",
                fix=f'th.{name}(prior, failures="model") multiplies by a learned P(valid | theta)',
            )
        return None, (sentence,)


def _drop_members(net: Any, network: AutoregressiveMixture, kept: tuple[int, ...]) -> AutoregressiveMixture:
    """Keep the members that have learned: the mean with one that is stuck far from x has posteriors twice too wide."""
    if len(kept) < (network.members or 1):
        net.density.keep(kept)
    return replace(network, members=len(kept))
