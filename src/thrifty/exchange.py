"""Tables in and out: pandas, parquet, ArviZ, BayesFlow, and under another prior. The weights always travel along.

Column names of a flat table: parameters by their names, outputs by theirs (`x_1`, `x_2`, ... when they have none), then
`log_weight`, `cost`, `status`, `index`. Everything that is read is checked again by `Simulations`; nothing is
unpickled. Libraries are imported when asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, MissingExtraError
from thrifty.types import Array, Prior, Simulations
from thrifty.weights import normalise

if TYPE_CHECKING:
    import arviz
    import pandas

PathLike = str | os.PathLike[str]
_OWN = ("log_weight", "cost", "status", "index")
_FORMAT = 1


def need(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed ({error})",
            code="X01",
            fix=f'pip install "thrifty[{extra}]"',
        ) from None


def check_folder(path: PathLike) -> None:
    """Refuse to write into a folder that does not exist, or over one."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{os.fspath(path)!r} is a folder", code="D18", fix="give the name of a file in it")
    if not target.parent.is_dir():
        raise DataError(
            f"cannot write {os.fspath(path)!r}: there is no folder {os.fspath(target.parent)!r}",
            code="D18",
            fix="make it first, or check the spelling",
        )


def column_names(simulations: Simulations) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the parameters and of the flattened outputs."""
    theta = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    count = int(np.prod(simulations.x.shape[1:]))
    given = simulations.x_names if simulations.m == 1 else ()
    x = given or tuple(f"x_{i + 1}" for i in range(count))
    taken = [name for name in (*theta, *x) if name in _OWN or (*theta, *x).count(name) > 1]
    if taken:
        raise DataError(
            f"column name {taken[0]!r} would be used twice", code="D10", fix="rename the parameter or output"
        )
    return theta, x


def to_pandas(simulations: Simulations) -> pandas.DataFrame:
    """A flat DataFrame; names, shape, m and unit in `frame.attrs["thrifty"]`."""
    pandas = need("pandas", "arviz")
    theta, x = column_names(simulations)
    flat = simulations.x.reshape(len(simulations), -1)
    columns = dict(zip(theta, simulations.theta.T, strict=True)) | dict(zip(x, flat.T, strict=True))
    columns |= {"log_weight": simulations.log_weights, "cost": simulations.cost}
    frame = pandas.DataFrame(columns | {"status": simulations.status.astype(str), "index": simulations.index})
    frame.attrs["thrifty"] = description(simulations)
    return frame


def description(simulations: Simulations) -> dict[str, Any]:
    """Names, shape, m and unit: what flat columns lose."""
    return {
        "format": _FORMAT,
        "theta": list(column_names(simulations)[0]),
        "names": list(simulations.names),
        "x_names": list(simulations.x_names),
        "x": list(column_names(simulations)[1]),
        "event": list(simulations.x.shape[1:]),
        "m": simulations.m,
        "unit": simulations.unit,
    }


def from_pandas(frame: pandas.DataFrame) -> Simulations:
    """The table written by `to_pandas`, bit for bit (parquet keeps `attrs` too)."""
    about = frame.attrs.get("thrifty")
    if not isinstance(about, Mapping) or about.get("format") != _FORMAT:
        raise DataError("this frame was not written by to_pandas", code="D13", fix="use from_arrays or from_csv")
    theta = list(about["theta"])
    x = list(about["x"])  # by name: a frame may have been rearranged
    missing = [name for name in [*theta, *x, *_OWN] if name not in frame.columns]
    if missing:
        raise DataError(f"the frame lost its columns {', '.join(missing)}", code="D13")
    return Simulations(
        theta=frame[theta].to_numpy(dtype=np.float64),
        x=frame[x].to_numpy(dtype=np.float64).reshape(len(frame), *about["event"]),
        log_weights=frame["log_weight"].to_numpy(dtype=np.float64),
        cost=frame["cost"].to_numpy(dtype=np.float64),
        status=frame["status"].to_numpy(dtype=np.str_),
        index=frame["index"].to_numpy(dtype=np.int64),
        m=int(about["m"]),
        names=tuple(about["names"]),
        x_names=tuple(about["x_names"]),
        unit=str(about["unit"]),
    )


def to_parquet(simulations: Simulations, path: PathLike) -> None:
    """Write a parquet file, weights and all."""
    need("pyarrow", "arviz")
    check_folder(path)
    to_pandas(simulations).to_parquet(path, index=False)


def from_parquet(path: PathLike) -> Simulations:
    """Read what `to_parquet` wrote."""
    need("pyarrow", "arviz")
    pandas = need("pandas", "arviz")
    try:
        frame = pandas.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {os.fspath(path)!r} as parquet: {error}", code="D13") from None
    return from_pandas(frame)


def to_dict(simulations: Simulations) -> dict[str, Array]:
    """Arrays for BayesFlow: one entry per parameter (n, 1), `x`, and `sample_weight` (n,) with mean 1.

    Failed runs are left out; with m > 1 each pair is a row. BayesFlow multiplies the loss by `sample_weight`.
    """
    theta, x, log_weights = simulations.valid().pairs()
    names = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    clash = {"x", "sample_weight"} & set(names)
    if clash:
        raise DataError(f"parameter name {min(clash)!r} would be used twice", code="D10", fix="rename the parameter")
    columns = {name: np.array(column[:, None]) for name, column in zip(names, theta.T, strict=True)}
    return columns | {"x": np.array(x), "sample_weight": normalise(log_weights) * len(theta)}


def to_arviz(simulations: Simulations) -> arviz.InferenceData:
    """Prior draws (`prior`), their outputs (`prior_predictive`) and log weights (`sample_stats_prior`) for ArviZ.

    One chain; failed runs are left out. `log_weight` is normalised (its exponentials sum to one), so that
    `arviz.extract(idata, group="prior")` rows can be resampled by `exp(log_weight)`.
    """
    arviz = need("arviz", "arviz")
    theta, x, log_weights = simulations.valid().pairs()
    names = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    with np.errstate(divide="ignore"):
        stats = {"log_weight": np.log(normalise(log_weights))[None]}
    return arviz.from_dict(
        prior={name: column[None] for name, column in zip(names, theta.T, strict=True)},
        prior_predictive={"x": x[None]},
        sample_stats_prior=stats,
    )


def posterior_to_arviz(draws: npt.ArrayLike, names: Sequence[str], log_weights: npt.ArrayLike | None = None) -> Any:
    """Posterior draws (n, p) as ArviZ data; weighted ones are resampled, as ArviZ's summaries know no weights.

    Log weights stay in `sample_stats` as `log_weight`.
    """
    arviz = need("arviz", "arviz")
    table = np.asarray(draws, dtype=np.float64)
    stats = None
    if log_weights is not None:
        from thrifty.weights import resample_indices

        chosen = resample_indices(log_weights, rng=0)
        table = table[chosen]
        stats = {"log_weight": np.asarray(log_weights, dtype=np.float64)[chosen][None]}
    posterior = {name: column[None] for name, column in zip(names, table.T, strict=True)}
    return arviz.from_dict(posterior=posterior, sample_stats=stats)


def reweight(simulations: Simulations, new_prior: Any, *, old_prior: Any = None) -> Simulations:
    """The same runs under another prior, without running anything: weights times new over old prior density.

    Args:
        simulations: The runs.
        new_prior: Any prior over the same parameters, inside the support of the old one.
        old_prior: The prior that the weights restore; taken from the proposal where it is known.

    Raises:
        DataError: The old prior is not known, or the new one lies outside of it.

    Example:
        >>> theta = np.random.default_rng(0).uniform(0, 1, (4000, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta)
        >>> narrower = th.reweight(runs, th.Uniform(0, 0.5), old_prior=th.Uniform(0, 1))
        >>> round(float(th.estimate(narrower.theta, narrower.log_weights).mean[0]), 1)
        0.3
    """
    from thrifty.priors import as_prior

    known = getattr(simulations.proposal, "prior", None) if old_prior is None else old_prior
    if known is None:
        raise DataError(
            "the prior behind these weights is not known", code="D14", fix="pass old_prior=, the prior of the campaign"
        )
    old, new = as_prior(known), as_prior(new_prior)
    if old.dim != simulations.dim or new.dim != simulations.dim:
        raise DataError(f"priors over {old.dim} and {new.dim} parameters, runs have {simulations.dim}", code="D06")
    columns = _order(old, simulations, "old_prior"), _order(new, simulations, "new_prior")
    _check_support(old, new, np.argsort(columns[1])[columns[0]])
    theta = simulations.theta
    shift = np.asarray(new.log_prob(theta[:, columns[1]])) - np.asarray(old.log_prob(theta[:, columns[0]]))
    if np.isnan(shift).any() or not (shift > -np.inf).any():
        raise DataError(
            "no run lies in the support of both priors", code="D15", fix="run a campaign under the new prior"
        )
    return simulations.reweighted(simulations.log_weights + shift)


def _order(prior: Prior, simulations: Simulations, label: str) -> npt.NDArray[np.int64]:
    """Which column of the runs each parameter of the prior is, by name where both have names of their own."""
    given = tuple(prior.names)
    unnamed = {("theta",), tuple(f"theta_{i + 1}" for i in range(prior.dim))}  # called so when given no names
    if not simulations.names or given == simulations.names or {given, simulations.names} & unnamed:
        return np.arange(prior.dim)
    if set(given) != set(simulations.names):
        raise DataError(
            f"{label} has parameters {', '.join(given)}, the runs {', '.join(simulations.names)}",
            code="D10",
            why="densities are matched by name; by position one parameter would get the prior of another",
            fix=f"give the prior names={list(simulations.names)}, in its own order",
        )
    return np.array([simulations.names.index(name) for name in given])


def _check_support(old: Prior, new: Prior, order: npt.NDArray[np.int64]) -> None:
    """`order` gives, for each parameter of the old prior, its column in draws of the new one."""
    draws = new.sample(2000, np.random.default_rng(0))[:, order]
    outside = float(np.mean(~np.isfinite(np.asarray(old.log_prob(draws)))))
    if outside > 0:
        raise DataError(
            f"{outside:.1%} of the new prior lies where the old one has no mass",
            code="D15",
            why="no run was ever made there, so no weight can restore it",
            fix="restrict the new prior to the support of the old one, or run a campaign under it",
        )
