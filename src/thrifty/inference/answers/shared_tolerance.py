"""Evidences of several ABC posteriors, which are comparable only within one epsilon of one distance.

Each model's own distance is scaled by its own runs, and its tolerance accepts a share of its own prior mass: the same
share of a bad model and of a good one. So the scale is measured on all runs together, each model with the same mass,
and epsilon is chosen there: the chances to be accepted are those of rejection ABC over models and parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thrifty.errors import ConfigError
from thrifty.inference.abc import ABCPosterior
from thrifty.inference.answers.acceptance import convert_to_density, measure_acceptance
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.inference.tolerance import Tolerance
from thrifty.inference.vector_distances import Distance, UserDistance
from thrifty.types import Array
from thrifty.weights import normalise

MIN_ACCEPTED = 200.0  # effective runs of all models: a probability of 0.5 is then right to 0.035


def share_tolerance(posteriors: Sequence[ABCPosterior], x_o: Array) -> list[LogEvidence]:
    """Return the evidence of each model within one epsilon of one distance.

    Args:
        posteriors: One of each model, with the same statistics.
        x_o: The observation, as `ABCPosterior.distances` reads it.

    Raises:
        ConfigError: conflicting-settings, their distances or tolerances are of different kinds.
    """
    tolerance = _read_tolerance(posteriors)
    log_weights = [np.log(normalise(post.log_weights)) for post in posteriors]
    distance = _share_distance(posteriors, log_weights)
    found = [replace(post, distance=distance).distances(x_o) for post in posteriors]
    pairs = np.concatenate([np.repeat(own, post.m) for own, post in zip(log_weights, posteriors, strict=True)])
    epsilon = tolerance.choose_epsilon(np.concatenate(found), pairs, MIN_ACCEPTED)
    chances = [_chance(own, epsilon, weights) for own, weights in zip(found, log_weights, strict=True)]
    return [convert_to_density(chance, distance, epsilon) for chance in chances]


def _chance(distance: Array, epsilon: float, log_weights: Array) -> LogEvidence:
    """Return the log chance to be accepted; with no hit at all, a bound: one hit of an average parameter."""
    if (distance <= epsilon).any():
        return measure_acceptance(distance, epsilon, log_weights)
    return LogEvidence(-float(np.log(len(distance))), 1.0, 0.0)


def _read_tolerance(posteriors: Sequence[ABCPosterior]) -> Tolerance:
    first = posteriors[0].tolerance
    if any(post.tolerance != first for post in posteriors):
        raise ConfigError(
            f"the models have different tolerances: {', '.join(str(post.tolerance) for post in posteriors)}",
            code="conflicting-settings",
            why="a wider tolerance accepts more runs of any model",
            fix="give all of them the same epsilon= or quantile=, or none",
        )
    if first.n_accept is not None:
        raise ConfigError(
            f"n_accept = {first.n_accept} accepts as many runs of every model",
            code="conflicting-settings",
            fix="use quantile= or epsilon=, or leave the tolerance out",
        )
    return first


def _share_distance(posteriors: Sequence[ABCPosterior], log_weights: Sequence[Array]) -> Distance:
    """Return the distance that all have, or the same kind measured again on the runs of all models."""
    first = posteriors[0].distance
    kinds = {type(post.distance).__name__ for post in posteriors}
    shapes = {post.x.shape[1:] for post in posteriors}
    if len(kinds) > 1 or len(shapes) > 1:
        raise ConfigError(
            f"the models have the distances {', '.join(sorted(kinds))} of outputs {sorted(shapes)}",
            code="conflicting-settings",
            fix="fit all of them with one distance and the same statistics",
        )
    if isinstance(first, UserDistance):
        if any(getattr(post.distance, "function", None) is not first.function for post in posteriors):
            raise ConfigError(
                "the models have different distance functions", code="conflicting-settings", fix="pass one function"
            )
        return first
    plain = [post.distance.to_dict() for post in posteriors]  # type: ignore[attr-defined]
    if all(one == plain[0] for one in plain):
        return first
    if posteriors[0].tolerance.epsilon is not None:
        raise ConfigError(
            f"epsilon = {posteriors[0].tolerance.epsilon:g} means something else on each model's own scale",
            code="conflicting-settings",
            fix="give all models one scale, th.distances.Euclidean(scale), or use quantile= instead of epsilon=",
        )
    pairs = np.concatenate(
        [np.repeat(own, 1 if first.datasets else post.m) for own, post in zip(log_weights, posteriors, strict=True)]
    )
    return type(first)().fit(np.concatenate([post.x for post in posteriors]), pairs)
