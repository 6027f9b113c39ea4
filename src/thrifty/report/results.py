"""Save and read what inference found: `FOLDER/infer/NAME/` with three plain files.

    result.json     method, names, verdicts, seconds, and a checksum of the other two
    samples.npz     samples (n, p), x_o, log_weights where the draws are weighted
    posterior.npz   the posterior as `save` wrote it; missing when it holds the user's own code

A result is written into a hidden folder and renamed, so that a reader sees the old one or the new one. Reading
executes nothing: sizes are checked before anything is loaded, arrays are plain, names cannot leave the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.display import Card, Displayed, count_things, format_number
from thrifty.errors import ConfigError, DataError, StorageError, ThriftyError, warn
from thrifty.inference import archive
from thrifty.types import Array, as_rows, freeze
from thrifty.version import __version__
from thrifty.weights import ess, quantile

RESULTS_FOLDER = "infer"
MAX_BYTES = {"result.json": 4 * 2**20, "samples.npz": 512 * 2**20}  # a million draws of 60 parameters fit
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FORMAT = 1


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """One inference: draws at x_o, the path of the posterior, and the results of the checks.

    Attributes:
        name: Its folder under `infer/`: letters, digits, `_` and `-`.
        method: "npe", "abc", ...
        posterior_path: For `th.load_posterior`; None when it could not be written as plain numbers.
        x_o: The observation.
        samples: Draws (n, p).
        log_weights: Their log weights (n,), or None when they count equally.
        names: Parameter names.
        diagnosis: `Diagnosis.to_dict()`, or None when nothing was checked.
        seconds: Wall seconds of the fit.
        created: When, as "2026-11-16 13:20:00".
        version: Of thrifty.
        moment: When, in seconds since 1970: the order of results of the same second.
        seed: Of draws and checks.
    """

    name: str
    method: str
    posterior_path: Path | None
    x_o: Array
    samples: Array
    log_weights: Array | None
    names: tuple[str, ...]
    diagnosis: dict[str, Any] | None = None
    seconds: float = 0.0
    created: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))
    version: str = __version__
    moment: float = field(default_factory=time.time)
    seed: int = 0

    def __post_init__(self) -> None:
        check_name(self.name)
        samples = as_rows(self.samples, "samples", dim=len(self.names))
        object.__setattr__(self, "samples", freeze(samples))
        object.__setattr__(self, "x_o", freeze(self.x_o))
        object.__setattr__(self, "names", tuple(self.names))
        if self.log_weights is not None:
            if np.shape(self.log_weights) != (len(samples),):
                raise DataError(f"{np.shape(self.log_weights)} weights for {len(samples)} samples", code="bad-weights")
            object.__setattr__(self, "log_weights", freeze(self.log_weights))

    def _card(self) -> Card:
        place = self.name if self.posterior_path is None else str(self.posterior_path.parent)
        weights = np.zeros(len(self.samples)) if self.log_weights is None else self.log_weights
        body = [
            (name, *(format_number(float(value)) for value in quantile(column, [0.5, 0.05, 0.95], weights)))
            for name, column in zip(self.names, self.samples.T, strict=True)
        ]
        facts = [
            ("method", self.method),
            (
                "draws",
                f"{len(self.samples):,}" + ("" if self.log_weights is None else f", {ess(weights):,.0f} effective"),
            ),
            ("observation", count_things(int(np.size(self.x_o)), "value")),
            ("checks", str((self.diagnosis or {}).get("verdict", "none was made yet"))),
            ("posterior", "kept" if self.posterior_path else "not kept: only its draws are"),
            ("made", f"{self.created}, by thrifty {self.version}"),
        ]
        return Card(f"result {place}", facts, ("parameter", "median", "5%", "95%"), body)

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks of the diagnosis, without entries that thrifty does not write."""
        return [check for check in (self.diagnosis or {}).get("checks") or [] if isinstance(check, dict)]

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The answers of the diagnosis that count for its verdict; empty where it was made by an earlier version."""
        rows = (self.diagnosis or {}).get("questions")
        rows = rows if isinstance(rows, list) else []
        return [row for row in rows if isinstance(row, dict) and row.get("decides", True)]

    @property
    def notes(self) -> list[str]:
        """The notes of the diagnosis."""
        return [str(note) for note in (self.diagnosis or {}).get("notes") or []]


def check_name(name: str) -> None:
    """Refuse a name that is not a plain folder name."""
    if not _NAME.fullmatch(name):
        raise DataError(f"result name {name[:80]!r}: letters, digits, _ and - expected", code="bad-name", fix="npe-2")


def find_free_name(folder: str | os.PathLike[str], name: str, *, method: str, x_o: Array) -> str:
    """Return this name, or NAME-2, NAME-3, ...: the first that no result of another observation or method has.

    A result of the same method and observation is replaced by a later one; so is one that is damaged.
    """
    chosen, number = name, 1
    while _is_other(Path(folder) / RESULTS_FOLDER / chosen, method, x_o):
        number += 1
        chosen = f"{name}-{number}"
    return chosen


def refuse_taken_name(folder: str | os.PathLike[str], name: str, *, method: str, x_o: Array) -> None:
    """Refuse a name that belongs to a result of another observation or method: nothing is overwritten."""
    free = find_free_name(folder, name, method=method, x_o=x_o)
    if free != name:
        raise ConfigError(
            f"the result {name!r} of {folder} is of another observation or method",
            code="already-exists",
            why="nothing is overwritten",
            fix=f'name="{free}", or leave it out; {Path(folder) / RESULTS_FOLDER / name} can be deleted',
        )


def _is_other(place: Path, method: str, x_o: Array) -> bool:
    if not (place / "result.json").is_file():
        return False
    try:
        kept = _read(place)
    except DataError as error:
        return error.code == "newer-version"
    return kept.method != method or not np.array_equal(np.ravel(kept.x_o), np.ravel(x_o))


def save_result(folder: str | os.PathLike[str], result: Result, posterior: Any = None) -> Result:
    """Write a result into a run folder, in place of an older one of that name; return it with its path.

    Args:
        folder: The run folder.
        result: What to save; its `posterior_path` is set here.
        posterior: Written by its own `save`; one that holds the user's own code is left out, with a warning.

    Raises:
        StorageError: disk-problem, the disk refuses; an older result of that name is still there.
    """
    home = Path(folder) / RESULTS_FOLDER
    final = home / result.name
    if home.is_symlink():
        raise StorageError(
            f"refusing {home}: it is a link that leads elsewhere",
            code="untrusted-folder",
            why="files outside the run folder would be written or replaced",
            fix="remove the link, then save again",
        )
    part = home
    try:
        home.mkdir(parents=True, exist_ok=True)
        part = home / f".{result.name}.{secrets.token_hex(8)}.part"  # a name that nobody can prepare
        part.mkdir()
        saved = _save_posterior(posterior, part / "posterior.npz")
        arrays = {"samples": result.samples, "x_o": result.x_o}
        arrays |= {} if result.log_weights is None else {"log_weights": result.log_weights}
        archive.write(part / "samples.npz", {"kind": "samples"}, arrays)
        about = {
            "format": _FORMAT, "method": result.method, "names": list(result.names), "diagnosis": result.diagnosis,
            "seconds": result.seconds, "created": result.created, "version": result.version, "moment": result.moment,
            "seed": result.seed,
            "sums": {path.name: _hash_file(path) for path in sorted(part.glob("*.npz"))},
        }  # fmt: skip
        (part / "result.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
        _swap(part, final)
    except OSError as error:
        raise StorageError(
            f"cannot write {final}: {error.strerror}", code="disk-problem", fix="free some space, then save again"
        ) from None
    finally:
        if part != home:
            shutil.rmtree(part, ignore_errors=True)
    return replace(result, posterior_path=final / "posterior.npz" if saved else None)


def add_diagnosis(folder: str | os.PathLike[str], result: Result, diagnosis: dict[str, Any]) -> bool:
    """Add checks that were made later to a saved result; return whether it was still there and could be changed."""
    place = Path(folder) / RESULTS_FOLDER / result.name
    part = place / f".result.{secrets.token_hex(8)}.part"
    try:
        kept = _read(place)
        if kept.created != result.created or not np.array_equal(kept.samples, result.samples):
            return False  # a newer result has taken its name
        about = json.loads((place / "result.json").read_text(encoding="utf-8")) | {"diagnosis": diagnosis}
        part.write_text(json.dumps(about, indent=1), encoding="utf-8")
        os.replace(part, place / "result.json")
    except (
        OSError,
        ThriftyError,
    ):  # a folder that was deleted or must not be changed: the checks are made all the same
        return False
    return True


def read_results(folder: str | os.PathLike[str]) -> tuple[Result, ...]:
    """Read all results of a run folder, oldest first; empty when there are none.

    Raises:
        DataError: bad-file, one of them is damaged or was not written by thrifty.
    """
    home = Path(folder) / RESULTS_FOLDER
    if home.is_symlink() or not home.is_dir():
        return ()
    found = [_read(path) for path in sorted(home.iterdir()) if _NAME.fullmatch(path.name) and path.is_dir()]
    return tuple(sorted(found, key=lambda result: (result.created, result.moment)))


def list_results(folder: str | os.PathLike[str]) -> list[str]:
    """List the names of the results of a run folder; nothing but names is read."""
    home = Path(folder) / RESULTS_FOLDER
    if home.is_symlink() or not home.is_dir():
        return []
    return sorted(path.parent.name for path in home.glob("*/result.json") if _NAME.fullmatch(path.parent.name))


def _save_posterior(posterior: Any, path: Path) -> bool:
    if posterior is None:
        return False
    try:
        posterior.save(path)
    except StorageError:
        raise
    except (ThriftyError, AttributeError, NotImplementedError) as error:
        path.unlink(missing_ok=True)
        warn(f"the posterior itself was not saved, its samples were: {getattr(error, 'what', error)}", stacklevel=4)
        return False
    return True


def _swap(part: Path, final: Path) -> None:
    aside = final.with_name(f".{final.name}.{os.getpid()}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if final.is_symlink():
        final.unlink()
    elif final.exists():
        final.rename(aside)
    part.rename(final)
    shutil.rmtree(aside, ignore_errors=True)


def _read(place: Path) -> Result:
    try:
        about = json.loads(_check_file(place, "result.json").read_text(encoding="utf-8"))
        if about["format"] > _FORMAT:
            raise DataError(f"{place} was written by a newer thrifty", code="newer-version", fix="upgrade thrifty")
        for name in {"samples.npz", *about["sums"]}:
            if name not in ("samples.npz", "posterior.npz"):
                raise ValueError(f"names the file {name!r}")
            if _hash_file(_check_file(place, name)) != about["sums"][name]:
                raise ValueError(f"{name} is not what was written")
        _, arrays = archive.read(place / "samples.npz", "samples")
        return Result(
            name=place.name,
            method=_printable(about["method"]),
            posterior_path=place / "posterior.npz" if "posterior.npz" in about["sums"] else None,
            x_o=arrays["x_o"],
            samples=arrays["samples"],
            log_weights=arrays.get("log_weights"),
            names=tuple(_printable(name) for name in about["names"]),
            diagnosis=_clean_values(about["diagnosis"]),
            seconds=float(about["seconds"]),
            created=_printable(about["created"]),
            version=_printable(about["version"]),
            moment=float(about.get("moment", 0.0)),  # folders of earlier versions have none
            seed=max(int(about.get("seed", 0)), 0),  # results of an earlier version have none
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, ThriftyError) and error.code != "bad-file":
            raise
        reason = _printable(getattr(error, "what", error))[:200] or type(error).__name__
        fix = "delete that folder, or infer again"
        raise DataError(f"{place} is damaged: {reason}", code="bad-file", fix=fix) from None


def _check_file(place: Path, name: str) -> Path:
    """Return the path of a file of the folder itself; refuse links and files larger than allowed."""
    path = place / name
    if place.is_symlink() or path.is_symlink() or not path.is_file():
        raise ValueError(f"{name} is missing or a link")
    if path.stat().st_size > MAX_BYTES.get(name, 2**31):
        raise ValueError(f"{name} is larger than any result")
    return path


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _printable(value: object) -> str:
    return "".join(ch for ch in str(value) if ch.isprintable())


def _clean_values(value: Any) -> Any:
    """Remove control characters from plain values, since they are shown on a screen."""
    if isinstance(value, dict):
        return {_printable(k): _clean_values(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean_values(v) for v in value]
    return _printable(value) if isinstance(value, str) else value
