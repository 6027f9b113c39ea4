"""What the neural posteriors of NPE, NLE and NRE share: the trained network, its files, and the common methods.

    recipe   {"method", "network", "embedding", "event", "shaped", "reach", "curve", "notes", …}
    arrays   "net/…" the network's numbers, "frame/…" the standardisation, "reach/…" where the simulations lie

A network is built from its recipe only after the sizes in the recipe were compared with the arrays in the file. Torch
is loaded by use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, count_things
from thrifty.errors import DataError
from thrifty.inference import archive
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.checks import Reach
from thrifty.inference.neural import recipes
from thrifty.inference.neural.standardise import Frame, check_series
from thrifty.inference.neural.training_settings import TrainingCurve
from thrifty.inference.posterior_draws import Sampled
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.types import Array, Prior, as_names

_REACH = ("low", "high", "scale", "near")
_HEAD_START = "shift.place.knots"  # the array by which a network with a head start is known


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, its settings, and how numbers are standardised for it."""

    method: Literal["npe", "fmpe", "nle", "nre"]
    net: Any = field(repr=False)
    network: Any
    embedding: Any
    frame: Frame = field(repr=False)
    reach: Reach = field(repr=False)
    curve: TrainingCurve = field(repr=False)
    notes: tuple[str, ...] = ()
    kept: npt.NDArray[np.int64] | None = field(default=None, repr=False)  # fingerprints of runs that did not train it

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the network."""
        shape, arrays = self.frame.to_parts()
        arrays = {f"frame/{label}": values for label, values in arrays.items()}
        arrays |= {f"reach/{label}": getattr(self.reach, label) for label in _REACH}
        arrays |= {f"net/{name}": value.numpy() for name, value in self.net.state_dict().items()}
        if self.kept is not None:
            arrays |= {"kept/theta": self.kept}
        return {
            "shift": getattr(self.net, "shift", None) is not None,
            "method": self.method,
            "network": _describe(self.network),
            "embedding": None if self.embedding is None else _describe(self.embedding),
            **shape,
            "reach": {"n": self.reach.n, "spacing": self.reach.spacing, "names": list(self.reach.names)},
            "curve": asdict(self.curve),
            "notes": list(self.notes),
        }, arrays

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, supplied: Supplied, dim: int) -> Trained:
        """Rebuild the network from what `to_parts` returned, for a prior of `dim` parameters."""
        frame = Frame.from_parts(recipe, archive.select(arrays, "frame/"), dim)
        network = _choose(recipe["network"], supplied.network, "network")
        embedding = recipe["embedding"]
        embedding = None if embedding is None else _choose(embedding, supplied.embedding, "embedding")
        numbers = archive.select(arrays, "net/")
        if recipe.get("shift", _HEAD_START in numbers) != (_HEAD_START in numbers):
            raise DataError("the numbers of the head start are missing", code="bad-file")
        reach = recipe["reach"]
        curve = recipe["curve"]
        losses = {label: tuple(map(float, curve.get(label, ()))) for label in ("train", "validation", "members")}
        return cls(
            method=recipe["method"],
            net=_rebuild_network(recipe["method"], network, embedding, frame, numbers),
            network=network,
            embedding=embedding,
            frame=frame,
            reach=_read_reach(reach, archive.select(arrays, "reach/"), frame),
            curve=TrainingCurve(**{**curve, **losses}),
            notes=tuple("".join(ch for ch in str(note) if ch.isprintable()) for note in recipe["notes"]),
            kept=arrays.get("kept/theta"),  # older files have none: then diagnose names the runs that it used
        )


@dataclass(frozen=True, eq=False, repr=False)
class NeuralPosterior(PlottedPosterior, Divisible, ABC):
    """What every neural posterior offers; subclasses add `draw`, `log_prob`, `map` and the parts of their file."""

    prior: Prior
    trained: Trained

    def _card(self) -> Card:
        trained, curve = self.trained, self.trained.curve
        event = " × ".join(map(str, trained.frame.event)) or "1"
        epochs = f"{count_things(len(curve.validation), 'epoch')}, the best {curve.best_epoch + 1}"
        return Card(
            f"{trained.method.upper()} posterior of {', '.join(self.names)}",
            [
                ("observation", f"any of {event} numbers"),
                ("rests on", count_things(trained.reach.n, "run")),
                ("network", type(trained.network).__name__),
                ("training", f"{epochs}, {curve.seconds:.3g} s, ended by {curve.stopped}"),
                ("loss", f"{curve.best:.4g} on runs held out" if curve.validation else "none"),
            ],
            notes=self.notes,
        )

    @property
    def names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parameter names."""
        return self.prior.names

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the numbers in one observation, or empty."""
        return self.trained.reach.names

    @property
    def curve(self) -> TrainingCurve:
        """The learning curve."""
        return self.trained.curve

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know about the fit."""
        return self.trained.notes

    @abstractmethod
    def draw(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Sampled:
        """Draw, with figures that say how far to trust the draws."""

    @abstractmethod
    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""

    def sample(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (n, p) from the posterior at x_o."""
        return self.draw(n, x_o, seed).samples

    def _check_series(self, x: Array) -> None:
        """Refuse observations x (r, *event) that are no padded series where the network reads such."""
        if isinstance(self.trained.embedding, recipes.SequenceEmbedding):
            check_series(x)

    def save(self, path: str | Path) -> None:
        """Write plain arrays and a JSON recipe to one file; `th.load_posterior(path)` reads it.

        Raises:
            ThriftyError: code-not-saved where its weighting is a function without numbers; disk-problem.
        """
        archive.write_members(path, [self.to_parts()], prior=prior_to_dict(self.prior), ensemble=False)


def _read_reach(recipe: Recipe, arrays: Arrays, frame: Frame) -> Reach:
    """Rebuild where the simulations lie; older files have no names of statistics."""
    names = as_names(recipe.get("names", ()), int(np.prod(frame.event)), "names of statistics")
    return Reach(int(recipe["n"]), **arrays, spacing=float(recipe["spacing"]), names=names)


def _describe(recipe: Any) -> dict[str, Any]:
    """Return a recipe's numbers; for a user's own module or builder only its type, to be passed again on loading."""
    return recipes.to_dict(recipe) if recipes.is_recipe(recipe) else {"kind": "own", "type": type(recipe).__name__}


def _choose(values: dict[str, Any], own: Any, label: str) -> Any:
    """Return the recipe in the file, or the user's own object where the file names one."""
    if values.get("kind") != "own":
        return recipes.from_dict(values)
    if own is None:
        kind = "".join(ch for ch in str(values.get("type")) if ch.isprintable())[:60]
        raise DataError(
            f"this posterior was trained with a {label} of your own ({kind})",
            code="code-not-saved",
            why="its code is not in the file, and loading executes nothing",
            fix=f"th.load_posterior(path, {label}=...) with the same object",
        )
    return own


def _rebuild_network(method: str, network: Any, embedding: Any, frame: Frame, arrays: Arrays) -> Any:
    """Build the network from its recipe, after comparing its size with the numbers in the file."""
    import torch

    from thrifty.inference.neural.modules.embeddings import build_embedding
    from thrifty.inference.neural.modules.head_start import Shift
    from thrifty.inference.neural.networks import build_density, build_ratio, seed_torch

    p, seen = len(frame.box.low), frame.inputs
    stored = sum(values.size for values in arrays.values())
    width = int(np.prod(seen))
    size = p if method in ("npe", "fmpe") else frame.condition_size
    features, context = (width, size) if method == "nle" else (size, width)
    if recipes.is_recipe(embedding):
        _check_size(embedding.numbers(seen), stored)
        context = embedding.features
    if recipes.is_recipe(network):
        _check_size(network.numbers(features, context), stored)
    with seed_torch(0):
        theta, x = torch.zeros(2, size), torch.zeros(2, *seen)
        theta[1], x[1] = 1.0, 1.0  # sbi's builders standardise: two equal rows would divide by zero
        if method == "nle":
            net = build_density(network, x, theta, context=size, likelihood=True)
        else:
            module, context = build_embedding(embedding, seen)
            shown = x[:, None] if isinstance(embedding, recipes.SetEmbedding) else x
            if method == "nre":
                net = build_ratio(network, theta, shown, context=context, embedding=module)
            else:
                made = {"context": context, "embedding": module, "states": frame.states}
                net = build_density(network, theta, shown, field=method == "fmpe", **made)
    if method in ("npe", "fmpe") and _HEAD_START in arrays:
        net.shift = Shift(len(arrays[_HEAD_START]), p)
    net.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return net.eval()


def _check_size(wanted: int, stored: int) -> None:
    if wanted > 4 * stored + 1000:  # the estimate is rough; masks and buffers add to what is stored
        raise DataError(f"the recipe asks for about {wanted} numbers, the file holds {stored}", code="bad-file")
