"""Load a saved posterior of any method: the kind written in the file chooses the class that rebuilds it.

Nothing in a file is executed: the classes are those listed here, and what was code of the user's own (a prior, an sbi
network, an embedding) must be passed again. Torch is loaded for neural posteriors only.

    kind         "weighted", "abc", "synthetic-likelihood", "scoring-rule", or
    "conditional", "marginal"  one member, and the parameters that are held or kept
    "corrected"  two members, a posterior and its likelihood
    "posterior"  a list of members, "0/…", "1/…": one neural posterior, or an ensemble of posteriors of any method
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from thrifty.errors import DataError, ThriftyError
from thrifty.inference import archive
from thrifty.inference.abc import ABCPosterior
from thrifty.inference.answers.corrected import Corrected
from thrifty.inference.answers.dimensions import ConditionalPosterior, MarginalPosterior
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.ensemble import EnsemblePosterior
from thrifty.inference.scoring_rule import load_scoring_rule
from thrifty.inference.synthetic_likelihood import load_synthetic_likelihood
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.types import Posterior

_DAMAGE = (KeyError, OverflowError, TypeError, IndexError, AttributeError, RuntimeError, ValueError)


def load_posterior(
    path: str | Path, *, prior: Any = None, network: Any = None, embedding: Any = None, likelihood: Any = None
) -> Posterior:
    """Read a posterior that `save` wrote; nothing in the file is executed.

    Args:
        path: The file.
        prior: The prior, needed when it could not be written as plain numbers.
        network: The sbi builder, needed when the network was sbi's.
        embedding: The module, needed when the embedding was the user's own.
        likelihood: The function, needed when a `th.Corrected` was made with the user's own.

    Raises:
        DataError: bad-file, newer-version, or code-not-saved where something must be passed.

    Example:
        >>> import tempfile
        >>> theta = np.linspace(0, 1, 200)[:, None]
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta)
        >>> posterior = th.ABC(th.Uniform(0, 1), quantile=0.5).fit(sims)
        >>> path = tempfile.mkdtemp() + "/posterior.npz"
        >>> posterior.save(path)
        >>> bool((th.load_posterior(path).sample(5, [0.5], seed=1) == posterior.sample(5, [0.5], seed=1)).all())
        True
    """
    recipe, arrays = archive.read(Path(path), *_READERS)
    try:
        return _READERS[recipe["kind"]](recipe, arrays, Supplied(prior, network, embedding, likelihood))
    except _DAMAGE as error:
        if isinstance(error, ThriftyError):
            raise
        raise DataError(f"{path} is damaged: {type(error).__name__} {error}"[:300], code="bad-file") from None


def _load_members(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> Any:
    members = [_load_member(i, recipe, arrays, supplied) for i in range(len(recipe["members"]))]
    return EnsemblePosterior(tuple(members), recipe.get("share", 1.0)) if recipe["ensemble"] else members[0]


def _load_member(i: int, recipe: Recipe, arrays: Arrays, supplied: Supplied) -> Any:
    values = recipe["members"][i]
    load = _READERS[values["kind"]] if "kind" in values else _load_neural
    return load({"prior": recipe["prior"], **values}, archive.select(arrays, f"{i}/"), supplied)


def _load_corrected(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> Corrected:
    likelihood = supplied.likelihood
    if recipe["members"][1].get("kind") != "own":
        likelihood = _load_member(1, recipe, arrays, supplied)
    elif likelihood is None:
        raise DataError(
            "this posterior was corrected by a likelihood of your own",
            code="code-not-saved",
            why="its code is not in the file, and loading executes nothing",
            fix="th.load_posterior(path, likelihood=...) with the same function",
        )
    return Corrected(_load_member(0, recipe, arrays, supplied), likelihood, supplied.choose_prior(recipe))


def _load_conditional(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> ConditionalPosterior:
    return ConditionalPosterior(_load_member(0, recipe, arrays, supplied), dict(recipe["fixed"]))


def _load_marginal(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> MarginalPosterior:
    return MarginalPosterior(_load_member(0, recipe, arrays, supplied), tuple(recipe["names"]))


def _load_neural(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> Any:
    """Rebuild one neural posterior: the only place where a module of this folder imports from `neural`."""
    from thrifty.inference.neural.direct_posterior import DirectPosterior
    from thrifty.inference.neural.potential_posterior import PotentialPosterior
    from thrifty.inference.neural.training_settings import require_neural

    require_neural()
    kind = DirectPosterior if recipe["method"] in ("npe", "fmpe") else PotentialPosterior
    return kind.from_parts(recipe, arrays, supplied)


_READERS: dict[str, Callable[[Recipe, Arrays, Supplied], Any]] = {
    "weighted": WeightedPosterior.from_parts,
    "abc": ABCPosterior.from_parts,
    "synthetic-likelihood": load_synthetic_likelihood,
    "scoring-rule": load_scoring_rule,
    "posterior": _load_members,
    "corrected": _load_corrected,
    "conditional": _load_conditional,
    "marginal": _load_marginal,
}
