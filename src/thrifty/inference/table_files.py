"""Posteriors that are tables (ABC, SMC-ABC, synthetic likelihood, scoring rules) as files: arrays and a recipe.

One file of plain arrays with a JSON recipe (`archive.py`); loading builds only what this module knows and executes
nothing. A distance of the user's own is code and is refused on saving.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DataError, ThriftyError
from thrifty.inference import archive
from thrifty.inference.abc import ABCPosterior, Tolerance
from thrifty.inference.likelihood_posterior import LikelihoodPosterior
from thrifty.inference.sample_distances import MMD, Energy, Wasserstein
from thrifty.inference.scoring_rule import SampleScore, ScaledScore
from thrifty.inference.synthetic_likelihood import EachObservation, Gaussian, SemiParametric
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Distance, Euclidean, Mahalanobis
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.types import Prior, frozen
from thrifty.version import __version__

KINDS = ("weighted", "abc", "synthetic-likelihood", "scoring-rule")
Tabled = WeightedPosterior | ABCPosterior | LikelihoodPosterior


def save(posterior: Tabled, path: str | Path) -> None:
    """Write a posterior.

    Raises:
        ThriftyError: code-not-saved a distance of the user's own, disk-problem the disk refuses.
    """
    recipe, arrays = posterior.state()
    if isinstance(posterior, LikelihoodPosterior):
        recipe["prior"] = prior_to_dict(posterior.prior)
    archive.write(Path(path), {**recipe, "version": __version__}, arrays)


def kind_of(path: Path) -> str:
    """The kind written in the file's recipe, or "" when there is none to read."""
    try:
        with zipfile.ZipFile(path) as file:
            data = file.read("recipe.npy")
        return str(json.loads(data[data.index(b"\n") + 1 :]).get("kind", ""))
    except (OSError, ValueError, KeyError, AttributeError, zipfile.BadZipFile, NotImplementedError, RecursionError):
        return ""


def load(path: Path, *, prior: Any = None) -> Tabled:
    """Read what `save` wrote; `prior` is needed when it could not be written as numbers."""
    kind = kind_of(path)
    recipe, arrays = archive.read(path, kind if kind in KINDS else KINDS[0])
    try:
        if kind == "weighted":
            return WeightedPosterior(names=tuple(recipe["names"]), epsilon=recipe["epsilon"], **arrays)
        if kind == "abc":
            return _abc(recipe, arrays)
        known = as_prior(prior) if prior is not None else prior_from_dict(recipe["prior"])
        return _likelihood(recipe, arrays, known)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        if isinstance(error, ThriftyError):
            raise
        raise DataError(f"{path} is damaged: {type(error).__name__} {error}"[:300], code="bad-file") from None


def _abc(recipe: dict[str, Any], arrays: dict[str, Any]) -> ABCPosterior:
    theta, x, log_weights = (frozen(arrays[label]) for label in ("theta", "x", "log_weights"))
    if theta.ndim != 2 or log_weights.shape != (len(theta),) or len(x) % max(len(theta), 1):
        raise DataError(f"tables of {theta.shape}, {x.shape}, {log_weights.shape} do not fit together", code="bad-file")
    return ABCPosterior(
        theta=theta,
        x=x,
        log_weights=log_weights,
        distance=_distance(recipe["distance"]),
        tolerance=Tolerance(**recipe["tolerance"]),
        adjust=recipe["adjust"],
        box=BoxTransform(arrays["low"], arrays["high"]),
        names=tuple(recipe["names"]),
    )


def _distance(recipe: dict[str, Any]) -> Distance:
    def numbers(label: str) -> Any:
        return None if recipe[label] is None else np.asarray(recipe[label], dtype=np.float64)

    match recipe["name"]:
        case "euclidean":
            return Euclidean(numbers("scale"))
        case "mahalanobis":
            return Mahalanobis(numbers("whitener"))
        case "energy":
            return Energy(numbers("scale"))
        case "mmd":
            return MMD(recipe["lengthscale"], numbers("scale"))
        case "wasserstein":
            return Wasserstein(numbers("scale"))
        case other:
            raise DataError(f"unknown distance {str(other)[:40]!r}", code="bad-file")


def _likelihood(recipe: dict[str, Any], arrays: dict[str, Any], prior: Prior) -> LikelihoodPosterior:
    theta, x, log_weights = (frozen(arrays[label]) for label in ("theta", "x", "log_weights"))
    if theta.ndim != 2 or x.ndim != 3 or not len(theta) == len(x) == len(log_weights):
        raise DataError(f"tables of {theta.shape}, {x.shape}, {log_weights.shape} do not fit together", code="bad-file")
    settings = recipe["likelihood"]
    match settings["name"]:
        case "gaussian":
            likelihood: Any = EachObservation(Gaussian(settings["shrinkage"], bool(settings["unbiased"])))
        case "semi-parametric":
            likelihood = EachObservation(SemiParametric(settings["shrinkage"]))
        case "scoring-rule":
            score = SampleScore(settings["score"], np.asarray(settings["scale"], float), float(settings["lengthscale"]))
            likelihood = ScaledScore(score, settings["weight"], theta, BoxTransform.of(prior), score.within(x))
        case other:
            raise DataError(f"unknown likelihood {str(other)[:40]!r}", code="bad-file")
    return LikelihoodPosterior(
        prior=prior,
        theta=theta,
        x=x,
        log_weights=log_weights,
        likelihood=likelihood,
        how=recipe["how"],
        event=tuple(int(e) for e in recipe["event"]),
        kind=recipe["kind"],
        names=tuple(recipe["names"]),
    )
