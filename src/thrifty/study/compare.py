"""Compare models by their evidence: posterior probabilities of models with errors, as a table and a figure.

    P(model k | x_o) = prior_k Z_k / sum_j prior_j Z_j,      Z_k = evidence of model k

With independent errors s_j of log Z_j the error of P_k is P_k sqrt(sum_j (1[j = k] - P_j)^2 s_j^2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import ConfigError, DataError, warn
from thrifty.inference.abc import ABCPosterior
from thrifty.inference.answers.call_checks import describe_method
from thrifty.inference.answers.dimensions import has_evidence
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.inference.answers.shared_tolerance import share_tolerance
from thrifty.inference.checks import check_seed
from thrifty.named import list_names, order_observation
from thrifty.study.study import Study
from thrifty.types import Array, freeze, set_fields
from thrifty.weights import normalise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_FAILED_MASS = 0.01  # share of prior mass; with more, an evidence "given that a run finishes" may mislead
MAX_PROBABILITY_ERROR = 0.1  # of a model; with more, the order of the models may be another
_HEADER = ("model", "log evidence", "Bayes factor", "probability")


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Models and their posterior probabilities at one observation.

    Attributes:
        names: Of the models.
        evidences: Log evidence of each.
        prior: Prior probability of each model (k,).

    Example:
        >>> two = Comparison(("sir", "seir"), (LogEvidence(-3.0, 0.1, 500.0), LogEvidence(-2.0, 0.1, 500.0)))
        >>> print(two)
        model  log evidence    Bayes factor  probability
        seir   -2.000 ± 0.1               1  0.731 ± 0.028
        sir    -3.000 ± 0.1           0.368  0.269 ± 0.028
    """

    names: tuple[str, ...]
    evidences: tuple[LogEvidence, ...]
    prior: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        count = len(self.names)
        share = np.full(count, 1 / count) if self.prior is None else np.asarray(self.prior, dtype=np.float64)
        set_fields(self, names=tuple(self.names), evidences=tuple(self.evidences), prior=freeze(share))

    @property
    def log_evidence(self) -> Array:
        """Log evidence of each model (k,)."""
        return np.array([one.value for one in self.evidences])

    @property
    def probability(self) -> Array:
        """Posterior probability of each model (k,)."""
        with np.errstate(divide="ignore"):
            return normalise(np.log(self.prior) + self.log_evidence)

    @property
    def probability_se(self) -> Array:
        """Standard error (k,) of each probability."""
        p, se = self.probability, np.array([one.se for one in self.evidences])
        return p * np.sqrt(np.square((np.eye(len(p)) - p) * se).sum(1))

    @property
    def bayes_factor(self) -> Array:
        """Evidence of each model (k,) over that of the best."""
        return np.exp(self.log_evidence - self.log_evidence.max())

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "model"))
        lines = [
            f"{name:<{width}}  {evidence:<14} {factor:>13}  {probability}"
            for name, evidence, factor, probability in [_HEADER, *self._rows()]
        ]
        return "\n".join([*lines, *self._lacks()])

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Return the cells of the table, the most probable model first."""
        chance, error, factor = self.probability, self.probability_se, self.bayes_factor
        return [
            (self.names[i], str(self.evidences[i]), f"{factor[i]:.3g}", f"{chance[i]:.3f} ± {error[i]:.2g}")
            for i in np.argsort(-chance, kind="stable")
        ]

    def _lacks(self) -> list[str]:
        lacks = dict.fromkeys(one.se_without for one in self.evidences if one.se_without)
        return [f"(± without {what})" for what in lacks]

    def _card(self) -> Card:
        return Card("models", header=_HEADER, rows=self._rows(), notes=self._lacks(), bold=0)

    def plot(self) -> Figure:
        """Draw the probabilities with their errors."""
        from thrifty.plots import model_probabilities

        return model_probabilities(
            dict(zip(self.names, self.probability.tolist(), strict=True)), se=self.probability_se
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for a file in JSON."""
        values = [(name, one, p) for name, one, p in zip(self.names, self.evidences, self.probability, strict=True)]
        return {
            name: {"log_evidence": one.value, "se": one.se, "probability": float(p), "prior": float(share)}
            for (name, one, p), share in zip(values, self.prior, strict=True)
        }


def compare(
    models: Mapping[str, Any],
    x_o: npt.ArrayLike | None = None,
    *,
    prior: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Comparison:
    """Compute the posterior probability of each model at an observation.

    Args:
        models: Name to `th.Study` or posterior: of `th.NLE`, `th.SyntheticLikelihood`, `th.ABC`, ensembles of them, or
            `th.Corrected`. ABC posteriors are compared within one epsilon of one distance.
        x_o: The observation; left out, that of the studies, which must then be the same.
        prior: Prior probability of each model; equal when left out.
        seed: Seed of the integration.

    Raises:
        ConfigError: conflicting-settings, the models are not comparable: methods, tolerances or statistics differ;
            bad-setting, a method has no evidence.
        DataError: bad-observation, x_o is missing or differs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def table(sd):
        ...     theta = rng.normal(size=(20_000, 1))
        ...     return th.Simulations.from_arrays(theta=theta, x=theta + sd * rng.normal(size=theta.shape))
        >>> fits = {name: th.ABC(th.Normal(0, 1)).fit(table(sd)) for name, sd in [("calm", 0.5), ("noisy", 3.0)]}
        >>> bool(abs(th.compare(fits, [0.2]).probability[0] - 0.74) < 0.1)  # N(0.2; 0, 1.25) against N(0.2; 0, 10)
        True
    """
    if not isinstance(models, Mapping):
        raise ConfigError(
            f"models must have names, got {type(models).__name__}",
            code="bad-setting",
            fix='th.compare({"first": posterior, "second": other}, x_o)',
        )
    if len(models) < 2:
        raise ConfigError(f"{len(models)} model to compare; two at least are needed", code="bad-setting")
    check_seed(seed)
    _check_outputs(models)
    observation = _read_observation(models, x_o)
    posteriors: dict[str, Any] = {
        name: model.posterior if isinstance(model, Study) else model for name, model in models.items()
    }
    _check_methods(posteriors)
    if all(isinstance(post, ABCPosterior) for post in posteriors.values()):
        evidences = share_tolerance(list(posteriors.values()), observation)
    else:
        evidences = [post.log_evidence(observation, seed=seed) for post in posteriors.values()]
    _check_measures(list(posteriors), evidences)
    found = Comparison(tuple(models), tuple(evidences), _read_prior(prior, models))
    _warn_if_poor(models, found)
    return found


def _read_observation(models: Mapping[str, Any], x_o: npt.ArrayLike | None) -> Array:
    if x_o is not None:
        names = next(filter(None, map(_find_names, models.values())), ())
        return np.asarray(order_observation(x_o, (len(names),), names), dtype=np.float64)
    known = {name: np.asarray(model.x_o) for name, model in models.items() if isinstance(model, Study)}
    if len(known) < len(models):
        raise DataError("observed data is missing", code="bad-observation", fix="th.compare(models, x_o)")
    for (name, own), (other, its) in pairwise(known.items()):
        if own.shape != its.shape or not np.array_equal(own, its):
            raise DataError(
                f"{name!r} and {other!r} were fitted at different observations",
                code="bad-observation",
                fix="pass the one that both should explain: th.compare(models, x_o)",
            )
    return np.asarray(next(iter(known.values())), dtype=np.float64)


def _check_outputs(models: Mapping[str, Any]) -> None:
    """Refuse models whose outputs have other shapes, other names, or the same names in another order."""
    tables = {name: model.simulations for name, model in models.items() if isinstance(model, Study)}
    for (name, own), (other, its) in pairwise(tables.items()):
        shapes = [table.x.shape[2:] if table.m > 1 else table.x.shape[1:] for table in (own, its)]
        if shapes[0] != shapes[1]:
            raise _incomparable(f"outputs of {name!r} have shape {shapes[0]}, those of {other!r} {shapes[1]}")
    named = {name: names for name, model in models.items() if (names := _find_names(model))}
    for (name, own), (other, its) in pairwise(named.items()):
        if own != its:
            raise _incomparable(f"{name!r} has the statistics {list_names(own)}, {other!r} {list_names(its)}")


def _find_names(model: Any) -> tuple[str, ...]:
    """Return the names of the numbers in an observation of a study or a posterior, or nothing."""
    if isinstance(model, Study):
        return tuple(model.simulations.x_names) or _find_names(model.posterior)
    return tuple(getattr(model, "x_names", ()))


def _incomparable(what: str) -> ConfigError:
    return ConfigError(
        what,
        code="conflicting-settings",
        why="evidences of different data cannot be compared",
        fix="let all simulators return the same statistics, in the same order",
    )


def _check_methods(posteriors: Mapping[str, Any]) -> None:
    """Refuse posteriors without an evidence, and ABC beside densities."""
    for name, post in posteriors.items():
        if hasattr(post, "fit") and not hasattr(post, "sample"):
            raise ConfigError(
                f"{name!r} is a method ({type(post).__name__}) that has not been fitted",
                code="bad-setting",
                fix=f"th.{type(post).__name__}(prior).fit(simulations)",
            )
        if not has_evidence(post):
            raise ConfigError(
                f"{name!r}, {describe_method(post)}, has no evidence",
                code="bad-setting",
                why="it knows the posterior, but not how likely the data are",
                fix="th.Corrected(posterior, th.NLE(prior).fit(simulations)), or th.NLE, th.ABC in its place",
            )
    by_distance = [name for name, post in posteriors.items() if isinstance(post, ABCPosterior)]
    if by_distance and len(by_distance) < len(posteriors):
        raise ConfigError(
            f"{', '.join(by_distance)}: an evidence within epsilon cannot be compared with a density at x_o",
            code="conflicting-settings",
            fix="fit all models with th.ABC, or none",
        )


def _check_measures(names: Sequence[str], evidences: Sequence[LogEvidence]) -> None:
    """Refuse evidences up to unknown constants, and densities beside probabilities."""
    for name, one in zip(names, evidences, strict=True):
        if one.missing and one.over != ("ball",):  # within one epsilon the volume is the same for all
            raise ConfigError(
                f"the evidence of {name!r} lacks {one.missing}",
                code="conflicting-settings",
                fix="use th.NLE, th.SyntheticLikelihood or th.ABC to compare models",
            )
    for (name, own), (other, its) in pairwise(zip(names, evidences, strict=True)):
        if own.over and its.over and own.over != its.over:
            i = next((k for k, (a, b) in enumerate(zip(own.over, its.over, strict=False)) if a != b), 0)
            raise _incomparable(f"x_{i + 1} is a {own.over[i]} in {name!r}, but a {its.over[i]} in {other!r}")


def _read_prior(prior: Mapping[str, float] | None, models: Mapping[str, Any]) -> Array:
    prior = dict.fromkeys(models, 1.0) if prior is None else prior
    if not isinstance(prior, Mapping) or not all(isinstance(share, Real) for share in prior.values()):
        raise ConfigError(
            f"prior = {prior!r}, expected a number for each model by its name",
            code="bad-setting",
            fix=f"prior={dict.fromkeys(models, 1 / len(models))}",
        )
    values = np.array([prior.get(name, np.nan) for name in models], dtype=np.float64)
    if set(prior) != set(models) or not ((values >= 0) & np.isfinite(values)).all() or values.sum() <= 0:
        raise ConfigError(
            f"prior = {dict(prior)} for the models {', '.join(models)}",
            code="bad-setting",
            fix="one number >= 0 for each model",
        )
    return values / values.sum()


def _warn_if_poor(models: Mapping[str, Any], found: Comparison) -> None:
    for name, model in models.items():
        mass = getattr(model.simulations if isinstance(model, Study) else model, "failed_mass", 0.0)
        if mass > MAX_FAILED_MASS:
            warn(f"[too-many-failures] {mass:.1%} of prior mass of {name!r} failed; its evidence is of finished runs")
    for name, one in zip(found.names, found.evidences, strict=True):
        if one.ess == 0:
            warn(f"[too-few-runs] no run of {name!r} lies within epsilon: its probability is an upper bound")
    worst = int(np.argmax(found.probability_se))
    if found.probability_se[worst] > MAX_PROBABILITY_ERROR:
        warn(
            f"[few-effective-runs] the probability of {found.names[worst]!r} is only known to"
            f" ± {found.probability_se[worst]:.2f}; more runs, or more members of an ensemble, are needed"
        )
