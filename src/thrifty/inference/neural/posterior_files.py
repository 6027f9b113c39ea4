"""Posteriors as files: plain arrays and a JSON recipe (`archive.py`); loading builds only what this file knows.

    recipe   {"kind": "posterior", "format": 1, "members": [{method, network, embedding, prior, frame, curve, …}], …}
    arrays   "0/net/…", "0/frame/…", "0/reach/…" for member 0, and so on

A network is built from its recipe only after the sizes in the recipe were compared with the arrays that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DataError, ThriftyError
from thrifty.inference import archive
from thrifty.inference.checks import Reach
from thrifty.inference.ensemble import EnsemblePosterior
from thrifty.inference.neural import recipes
from thrifty.inference.neural.direct_posterior import DirectPosterior
from thrifty.inference.neural.potential_posterior import PotentialPosterior
from thrifty.inference.neural.standardise import KNOTS, Affine, Frame, Scores
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import TrainingCurve, require_neural
from thrifty.inference.transforms import BoxTransform
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.types import Prior, Weighting
from thrifty.version import __version__

Arrays = dict[str, np.ndarray]
_FRAME = ("box_low", "box_high", "theta_centre", "theta_scale", "x_centre", "x_scale", "keep")


def save(posterior: Any, path: str | Path) -> None:
    """Write a posterior of this package.

    Raises:
        ThriftyError: code-not-saved where its weighting is a function without numbers; disk-problem.
    """
    members = posterior.members if isinstance(posterior, EnsemblePosterior) else (posterior,)
    described, arrays = [], {}
    for i, member in enumerate(members):
        values, own = _member_out(member)
        described.append(values)
        arrays |= {f"{i}/{name}": array for name, array in own.items()}
    recipe = {
        "kind": "posterior",
        "version": __version__,
        "ensemble": isinstance(posterior, EnsemblePosterior),
        "prior": prior_to_dict(posterior.prior),
        "members": described,
    }
    archive.write(Path(path), recipe, arrays)


def load(path: Path, *, prior: Any = None, network: Any = None, embedding: Any = None) -> Any:
    """Read what `save` wrote."""
    require_neural()
    recipe, arrays = archive.read(path, "posterior")
    try:
        known = as_prior(prior) if prior is not None else prior_from_dict(recipe["prior"])
        members = [
            _member_in(values, _part(arrays, f"{i}/"), known, network=network, embedding=embedding)
            for i, values in enumerate(recipe["members"])
        ]
        posterior = EnsemblePosterior(tuple(members)) if recipe["ensemble"] else members[0]
    except (KeyError, OverflowError, TypeError, IndexError, AttributeError, RuntimeError, ValueError) as error:
        if isinstance(error, ThriftyError):
            raise
        raise DataError(f"{path} is damaged: {type(error).__name__} {error}"[:300], code="bad-file") from None
    return posterior


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def _member_out(member: Any) -> tuple[dict[str, Any], Arrays]:
    trained: Trained = member.trained
    frame, reach = trained.frame, trained.reach
    columns = (frame.box.low, frame.box.high, frame.theta.centre, frame.theta.scale, frame.x.centre, frame.x.scale)
    arrays = dict(zip((f"frame/{label}" for label in _FRAME), (*columns, frame.keep), strict=True))
    if frame.scores is not None:
        arrays |= {"frame/knots": frame.scores.knots, "frame/scores": frame.scores.values}
    arrays |= {f"reach/{label}": getattr(reach, label) for label in ("low", "high", "scale", "near")}
    arrays |= {f"net/{name}": value.numpy() for name, value in trained.net.state_dict().items()}
    if trained.kept is not None:
        arrays |= {"kept/theta": trained.kept}
    direct = isinstance(member, DirectPosterior)
    if not direct and member.valid is not None:
        arrays |= {f"valid/{name}": value.numpy() for name, value in member.valid.state_dict().items()}
    return {
        "shift": getattr(trained.net, "shift", None) is not None,
        "method": trained.method,
        "network": _named(trained.network),
        "embedding": None if trained.embedding is None else _named(trained.embedding),
        "event": list(frame.event),
        "shaped": frame.shaped,
        "reach": {"n": reach.n, "spacing": reach.spacing},
        "curve": asdict(trained.curve),
        "notes": list(trained.notes),
        "sets": direct and member.sets,
        "weighting": _weighting_out(member.weighting) if direct and member.weighting is not None else None,
        "valid": not direct and member.valid is not None,
    }, arrays


def _named(recipe: Any) -> dict[str, Any]:
    """A recipe's numbers; for a user's own module or builder only what it was, to be given again on loading."""
    return recipes.to_dict(recipe) if recipes.is_recipe(recipe) else {"kind": "own", "type": type(recipe).__name__}


def _weighting_out(weighting: Weighting) -> dict[str, Any]:
    if not hasattr(weighting, "to_dict"):
        raise DataError(
            f"the weights of correction='after' come from {type(weighting).__name__}, which has no to_dict",
            code="code-not-saved",
            fix="draw with th.CostAware or th.Mixture over th.fit_cost, or train with correction='weights'",
        )
    return weighting.to_dict()  # type: ignore[attr-defined]


def _member_in(values: dict[str, Any], arrays: Arrays, prior: Prior, *, network: Any, embedding: Any) -> Any:
    frame = _frame_in(values, _part(arrays, "frame/"), prior)
    network = _given(values["network"], network, "network")
    embedding = None if values["embedding"] is None else _given(values["embedding"], embedding, "embedding")
    inner = _part(arrays, "net/")
    if values.get("shift", "shift.place.knots" in inner) != ("shift.place.knots" in inner):
        raise DataError("the numbers of the shift are missing", code="bad-file")
    net = _net_in(values["method"], network, embedding, frame, inner)
    part = _part(arrays, "reach/")
    reach = Reach(int(values["reach"]["n"]), **part, spacing=float(values["reach"]["spacing"]))
    curve = {**values["curve"], **{k: tuple(map(float, values["curve"][k])) for k in ("train", "validation")}}
    notes = tuple("".join(ch for ch in str(note) if ch.isprintable()) for note in values["notes"])
    kept = _part(arrays, "kept/").get("theta")  # older files have none: then diagnose says what it judged on
    trained = Trained(values["method"], net, network, embedding, frame, reach, TrainingCurve(**curve), notes, kept)
    if values["method"] == "npe":
        weighting = None if values["weighting"] is None else _weighting_in(values["weighting"], prior)
        return DirectPosterior(prior, trained, sets=bool(values["sets"]), weighting=weighting)
    return PotentialPosterior(prior, trained, _valid_in(_part(arrays, "valid/"), prior) if values["valid"] else None)


def _given(values: dict[str, Any], own: Any, label: str) -> Any:
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


def _frame_in(values: dict[str, Any], arrays: Arrays, prior: Prior) -> Frame:
    p, event = prior.dim, tuple(int(n) for n in values["event"])
    keep = arrays["keep"]
    seen = (int(keep.sum()),)
    shapes = dict(zip(_FRAME, ((p,), (p,), (p,), (p,), seen, seen, (int(np.prod(event)),)), strict=True))
    for label, shape in shapes.items():
        if arrays[label].shape != shape:
            raise DataError(f"frame {label} has shape {arrays[label].shape}, expected {shape}", code="bad-file")
    for label in _FRAME[2:6]:
        if not np.isfinite(arrays[label]).all() or (label.endswith("scale") and not (arrays[label] > 0).all()):
            raise DataError(
                f"frame {label} holds numbers that cannot be: {arrays[label].tolist()}"[:200], code="bad-file"
            )
    if keep.dtype != np.bool_:
        raise DataError(f"frame keep has type {keep.dtype}, expected bool", code="bad-file")
    scores = Scores(arrays["knots"], arrays["scores"]) if "knots" in arrays else None
    if scores is not None and not scores.knots.shape == scores.values.shape == (*seen, KNOTS):
        raise DataError(f"normal scores have shape {scores.knots.shape}, expected {(*seen, KNOTS)}", code="bad-file")
    return Frame(
        box=BoxTransform(arrays["box_low"], arrays["box_high"]),
        theta=Affine(arrays["theta_centre"], arrays["theta_scale"]),
        x=Affine(arrays["x_centre"], arrays["x_scale"]),
        keep=keep,
        event=event,
        shaped=bool(values["shaped"]),
        scores=scores,
    )


def _net_in(method: str, network: Any, embedding: Any, frame: Frame, arrays: Arrays) -> Any:
    """Build from the recipe, after comparing its size with the numbers in the file."""
    import torch

    from thrifty.inference.neural.embeddings import build_embedding
    from thrifty.inference.neural.head_start import Shift
    from thrifty.inference.neural.networks import build_density, build_ratio
    from thrifty.inference.neural.torch_state import seeded

    p, seen = len(frame.box.low), frame.inputs
    there = sum(values.size for values in arrays.values())
    width = int(np.prod(seen))
    features, context = (width, p) if method == "nle" else (p, width)
    if recipes.is_recipe(embedding):
        _fits(embedding.numbers(seen), there)
        context = embedding.features
    if recipes.is_recipe(network):
        _fits(network.numbers(features, context), there)
    with seeded(0):
        theta, x = torch.zeros(2, p), torch.zeros(2, *seen)
        theta[1], x[1] = 1.0, 1.0  # sbi's builders standardise: two equal rows would divide by zero
        if method == "nle":
            net = build_density(network, x, theta, context=p, likelihood=True)
        else:
            module, context = build_embedding(embedding, seen)
            shown = x[:, None] if isinstance(embedding, recipes.SetEmbedding) else x
            build = build_ratio if method == "nre" else build_density
            net = build(network, theta, shown, context=context, embedding=module)
    if method == "npe" and "shift.place.knots" in arrays:
        net.shift = Shift(len(arrays["shift.place.knots"]), p)
    net.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return net.eval()


def _fits(wanted: int, there: int) -> None:
    if wanted > 4 * there + 1000:  # the estimate is rough; masks and buffers add to what is there
        raise DataError(f"the recipe asks for about {wanted} numbers, the file holds {there}", code="bad-file")


def _weighting_in(values: dict[str, Any], prior: Prior) -> Weighting:
    from thrifty.proposals import weighting_from_dict

    return weighting_from_dict(values, prior)


def _valid_in(arrays: Arrays, prior: Prior) -> Any:
    import torch

    from thrifty.inference.neural.networks import ValidNet
    from thrifty.inference.neural.torch_state import seeded

    with seeded(0):
        net = ValidNet(prior.dim)
    net.load_state_dict({name: torch.from_numpy(values) for name, values in arrays.items()})
    return net.eval()
