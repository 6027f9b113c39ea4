"""What NLE and NRE share: the fit of a likelihood, and P(valid | theta) where runs fail. No torch on import.

    p(x_o | theta) = p(x_o | theta, valid) · P(valid | theta)        for a valid x_o

Both networks learn the likelihood of *valid* runs, which is not p(x | theta) where validity depends on theta. So a
table with more than 1 % of the prior mass failed is refused, or the second factor is learned too.

How long to train depends on how thin the likelihood is. With few outputs NLE therefore trains again from the start for
four times as many epochs where the held-out loss was still falling at the end, and again, as long as held-out runs are
predicted better (`hooks` of the studies, 1,289 runs of rounds, two network seeds):

    epochs   held-out loss   volume (exact 1.4e-3)   C2ST          CPU s
    2 x      -4.15 -4.11     6.1e-3 4.2e-3           0.61 0.64      3
    4 x      -4.72 -4.78     1.7e-3 2.2e-3           0.58 0.57      5
    8 x      -5.33 -5.27     1.6e-3 1.6e-3           0.56 0.56      9
    16 x     -5.38 -5.37     1.5e-3 1.5e-3           0.54 0.54     18

With many outputs a run has many numbers to learn from and the usual epochs are enough: twice as many made the held-out
loss worse (`lotka_volterra`, 20 outputs: -1.17 instead of -1.45, and C2ST 0.60 instead of 0.50). With ties the held-out
loss does not tell which posterior is better.

With more than ten outputs and no ties, each output's networks keep their own best epoch. Outputs that say nothing about
theta are over-fitted after some 4 epochs, and their sum decided for all; those that know theta are best after 8 to 18.
What a network says of useless outputs did not matter itself: without theta in their parts it was no better (0.01 nat).
Mean log posterior density of the true parameters, from the same training (development seeds 101 to 103; the problem
with useless outputs of `benchmarks/small_n.py`, and other linear ones):

    problem                   runs    one epoch for all     an epoch for each output    exact
    4 of 24 outputs useful     200    -0.95 -0.56 -1.07     -0.58 -0.42 -0.51           -0.02 -0.10 -0.03
    4 of 24 outputs useful     500    -0.37 -0.45           -0.24 -0.31                 -0.11 -0.09
    4 of 24 outputs useful   1,000    -0.28                 -0.14                       -0.02
    8 of 20, five parameters   200    -0.71                 -0.46                        0.46
    8 of 20, five parameters   500     0.04                  0.23                        0.53
    24 weak outputs            200    -2.14                 -2.26                       -1.56
    24 weak outputs            500    -1.88                 -1.78                       -1.46
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, QualityGateError
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import MAX_FAILED_MASS, check_fit
from thrifty.inference.neural.potential_posterior import PotentialPosterior
from thrifty.inference.neural.prepare import Rows, choose_condition_box, describe_failures, prepare
from thrifty.inference.neural.recipes import AutoregressiveMixture, ImageEmbedding, SequenceEmbedding
from thrifty.inference.neural.standardise import Frame, measure_frame
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import (
    FEW_OUTPUTS,
    MIN_GAIN_NATS,
    Training,
    TrainingCurve,
    fingerprint_held_out,
    mark_held_out,
    require_neural,
)
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior

FailurePolicy = Literal["refuse", "model"]


class LikelihoodMethod(BeforeFit, DisplayedSettings, ABC):
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
        box, shaped = choose_condition_box(self.prior), self.embedding is not None
        rows = prepare(simulations, self.prior, weighted=self.weighted, shaped=shaped)
        scores, cells = self.method == "nre", self.method == "nle"  # x is a condition, or what is modelled
        padded = isinstance(self.embedding, SequenceEmbedding)
        frame = measure_frame(rows, box, shaped=shaped, padded=padded, scores=scores, cells=cells)
        seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint64) >> np.uint64(1)]
        valid, notes = self._fit_validity(simulations, frame, seeds[2])
        net, network, curve = self._train_long(rows, frame, (seeds[0], seeds[1]))
        kept = fingerprint_held_out(rows.theta, rows.index, self.training.validation)
        notes = (*notes, *rows.notes, *self._notes(frame))
        trained = Trained(self.method, net, network, self.embedding, frame, rows.reach, curve, notes, kept)
        return PotentialPosterior(self.prior, trained, valid)

    def _train_long(self, rows: Rows, frame: Frame, seeds: tuple[int, int]) -> tuple[Any, Any, TrainingCurve]:
        """Train for the usual epochs, then four times as many, and again, while held-out runs are predicted better."""
        n, outputs = len(rows.theta), int(frame.keep.sum()) if self.method == "nle" else 0
        outputs = 0 if frame.cells is not None else outputs  # ties: the held-out loss does not tell what is better
        images = isinstance(self.embedding, ImageEmbedding)
        settings = self.training.settle(n, cyclic=self.method == "nle", images=images, outputs=outputs)
        best = made = self._train(rows, frame, settings, seeds)
        free = self.training.cycle is None and isinstance(self.network, AutoregressiveMixture)
        free = free and 0 < outputs <= FEW_OUTPUTS
        while free and made[-1].is_unfinished and (longer := settings.lengthen(n, made[-1].seconds)) is not None:
            if self.training.checkpoint is not None:
                longer = replace(longer, checkpoint=f"{self.training.checkpoint}.{longer.cycle}")
            settings, made = longer, self._train(rows, frame, longer, seeds)
            gain = best[-1].best_member - made[-1].best_member
            best = made if gain > 0 else best
            free = gain >= MIN_GAIN_NATS
        return best

    def _train(
        self, rows: Rows, frame: Frame, settings: Training, seeds: tuple[int, int]
    ) -> tuple[Any, Any, TrainingCurve]:
        """Train a network once; return it, its recipe and the learning curve."""
        from thrifty.inference.neural.networks import seed_torch
        from thrifty.inference.neural.training import Table, scale_to_mean_one, train

        network, weights = self.network, scale_to_mean_one(rows.log_weights)
        if isinstance(network, AutoregressiveMixture):
            network = network.settle(len(rows.theta), outputs=int(frame.keep.sum()))
        with seed_torch(seeds[0]):
            net, tensors = self._build(network, rows, frame, weights)
        held_out = mark_held_out(rows.index, settings.validation)
        table = Table(tensors, weights, held_out)
        curve = train(net, self._loss, table=table, settings=settings, seed=seeds[1])
        if isinstance(network, AutoregressiveMixture):
            network = _drop_members(net, network, curve.choose_members(int(held_out.sum())))
        return net, network, curve

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
