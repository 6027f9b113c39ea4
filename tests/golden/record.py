"""Records what today's code computes, and compares. Run as a script it writes `recorded.npz` anew.

Run it only when a result is meant to change: it makes whatever the code gives the truth.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from golden import scenarios

FILE = Path(__file__).parent / "recorded.npz"
KEPT = 50  # values of an array that are stored; all of them are in its hash
OTHER_MACHINE = 5e-4  # of an array's spread: ten times the largest difference seen between two processors (4.8e-5)
LIBRARIES = ("numpy", "scipy", "scikit-learn", "emcee", "numba", "torch", "zuko")


@dataclass(frozen=True)
class Record:
    """What is stored of one array."""

    shape: str
    digest: str
    head: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> Record:
        """Numbers as doubles, words as they are; head and hash."""
        array = np.asarray(value)
        if array.dtype.kind in "US":
            data, head = "\n".join(array.ravel().tolist()).encode(), tuple(array.ravel()[:KEPT].tolist())
        else:
            array = np.ascontiguousarray(array, dtype=np.float64)
            data, head = array.tobytes(), tuple(array.ravel()[:KEPT].tolist())
        return cls(str(np.shape(value)), hashlib.blake2b(data, digest_size=16).hexdigest(), head)


Records = dict[str, Record]


def records_of(values: dict[str, Any]) -> Records:
    """Named arrays as records."""
    return {name: Record.of(value) for name, value in values.items()}


def differences(old: Records, new: Records, *, exact: bool) -> list[str]:
    """What differs, in words: everything where the machine is the same, else shapes and what `_near` says."""
    words = [f"{name} is gone" for name in old if name not in new]
    words += [f"{name} is new" for name in new if name not in old]
    for name in (name for name in old if name in new):
        a, b = old[name], new[name]
        if a.shape != b.shape:
            words.append(f"{name} has shape {b.shape}, was {a.shape}")
        elif exact and a.digest != b.digest:
            words.append(f"{name} differs: {b.head[:4]}, was {a.head[:4]}")
        elif not exact and not _near(a.head, b.head):
            words.append(f"{name} is far off: {b.head[:4]}, was {a.head[:4]}")
    return words


def _near(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    if any(isinstance(value, str) for value in (*a, *b)):
        return a == b
    known = [value for value in a if np.isfinite(value)]
    spread = float(np.ptp(known)) if known else 0.0
    return bool(np.allclose(b, a, rtol=1e-4, atol=max(OTHER_MACHINE * spread, 1e-7), equal_nan=True))


def machine() -> str:
    """Versions and the last digits of this machine's arithmetic: where it is the same, results are the same."""
    parts = [f"{name} {_version(name)}" for name in LIBRARIES]
    rng = np.random.default_rng(0)
    a = rng.random((90, 90))
    with scenarios.one_torch_thread():
        numbers = [a @ a, np.exp(a), np.log(a), np.sin(a), a.sum(0), np.linalg.cholesky(a @ a.T + np.eye(90))]
        numbers += [np.linalg.solve(a, a[0]), *_torch_numbers(a)]
    digest = hashlib.blake2b(b"".join(np.ascontiguousarray(n).tobytes() for n in numbers), digest_size=16)
    return ", ".join([*parts, digest.hexdigest()])


def _torch_numbers(a: np.ndarray) -> list[np.ndarray]:
    try:
        import torch
    except ImportError:
        return []
    x = torch.from_numpy(a.astype(np.float32))
    out = torch.nn.functional.linear(x, x.T.contiguous(), x[0])
    return [out.numpy(), torch.exp(-x).numpy(), torch.nn.functional.silu(out).numpy(), torch.logsumexp(x, 1).numpy()]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def write(path: Path, groups: dict[str, Records]) -> None:
    """All records in a few plain arrays: a file of many small ones would be large."""
    rows = [(f"{group}:{name}", record) for group, records in groups.items() for name, record in records.items()]
    is_text = [bool(record.head) and isinstance(record.head[0], str) for _, record in rows]
    numbers = [value for (_, r), text in zip(rows, is_text, strict=True) if not text for value in r.head]
    words = [value for (_, r), text in zip(rows, is_text, strict=True) if text for value in r.head]
    np.savez_compressed(
        path,
        machine=np.array(machine()),
        python=np.array(f"{sys.version_info.major}.{sys.version_info.minor}"),
        names=np.array([name for name, _ in rows]),
        shapes=np.array([record.shape for _, record in rows]),
        digests=np.array([record.digest for _, record in rows]),
        counts=np.array([len(record.head) for _, record in rows]),
        is_text=np.array(is_text),
        numbers=np.array(numbers, dtype=np.float64),
        words=np.array(words, dtype=np.str_),
    )


def read(path: Path) -> tuple[str, str, dict[str, Records]]:
    """Machine, Python and records of a file."""
    groups: dict[str, Records] = {}
    with np.load(path) as file:
        stored = {name: file[name] for name in file.files}
    numbers, words = iter(stored["numbers"].tolist()), iter(stored["words"].tolist())
    columns = (stored[label].tolist() for label in ("names", "shapes", "digests", "counts", "is_text"))
    for name, shape, digest, count, text in zip(*columns, strict=True):
        group, label = name.split(":", 1)
        head = tuple(next(words if text else numbers) for _ in range(count))
        groups.setdefault(group, {})[label] = Record(shape, digest, head)
    return str(stored["machine"]), str(stored["python"]), groups


if __name__ == "__main__":
    import time

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    made = {}
    for scenario_name in scenarios.SCENARIOS:
        began, cpu = time.perf_counter(), time.process_time()
        made[scenario_name] = records_of(scenarios.run(scenario_name))
        took, used = time.perf_counter() - began, time.process_time() - cpu
        print(f"{scenario_name:<32} {used:6.2f} s CPU {took:6.2f} s, {len(made[scenario_name])} arrays", flush=True)
    write(target, made)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB, {machine()}")
