"""mmd2, c2st and sbi's metrics side by side, in one run: time, peak memory and agreement.

    python benchmarks/metrics.py [--n 10000] [--dim 2] [--no-sbi]

Each measurement is a child process with one thread, so that peak memory is its own. Peak memory is what the process
holds beyond its state after imports and data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

BODY = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
name, n, dim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
x, y = rng.normal(0.1, 1, (n, dim)), rng.normal(0, 1, (n, dim))
if name.startswith("sbi"):
    import torch
    from sbi.utils.metrics import c2st, unbiased_mmd_squared
    torch.set_num_threads(1)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y).float()
    jobs = {
        "sbi mmd2": lambda: unbiased_mmd_squared(x, y, scale=1.0),
        "sbi mmd2, own lengthscale": lambda: unbiased_mmd_squared(x, y),
        "sbi c2st mlp": lambda: c2st(x[:2000], y[:2000], classifier="mlp"),
        "sbi c2st forest": lambda: c2st(x[:2000], y[:2000]),
    }
else:
    import thrifty as th
    from thrifty.metrics import c2st, forest, mmd2
    weights = rng.random(n)
    th.metrics.ks(x[:50], y[:50]), c2st(x[:20], y[:20], classifier=forest, folds=2)  # imports
    jobs = {
        "mmd2": lambda: mmd2(x, y, lengthscale=1.0, unbiased=True),
        "mmd2, own lengthscale": lambda: mmd2(x, y, unbiased=True),
        "mmd2, weighted": lambda: mmd2(x, y, weights, lengthscale=1.0, unbiased=True),
        "c2st mlp": lambda: c2st(x[:2000], y[:2000]),
        "c2st forest": lambda: c2st(x[:2000], y[:2000], classifier=forest),
    }
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
before, start = peak(), time.process_time()
value = float(jobs[name]())
print(json.dumps({"value": value, "cpu": time.process_time() - start, "mb": peak() - before}))
"""

OURS = ("mmd2", "mmd2, own lengthscale", "mmd2, weighted", "c2st mlp", "c2st forest")
THEIRS = ("sbi mmd2", "sbi mmd2, own lengthscale", "sbi c2st mlp", "sbi c2st forest")


def measure(name: str, n: int, dim: int) -> dict[str, float] | None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", BODY, name, str(n), str(dim)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        print(f"{name:<28} failed: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=2)
    parser.add_argument("--no-sbi", action="store_true", help="only thrifty, e.g. for 20,000 points")
    settings = parser.parse_args()
    print(f"mmd2 of {settings.n:,} x {settings.n:,}, c2st of 2,000 x 2,000, {settings.dim} columns, one thread")
    print(f"{'':<28} {'value':>12} {'CPU s':>8} {'peak MB':>9}")
    found = {}
    for name in OURS if settings.no_sbi else (*OURS, *THEIRS):
        result = measure(name, settings.n, settings.dim)
        if result:
            found[name] = result
            print(f"{name:<28} {result['value']:>12.6f} {result['cpu']:>8.2f} {result['mb']:>9.0f}")
    for name in OURS:
        other = found.get(f"sbi {name}")
        if other and name in found:
            speed, memory = other["cpu"] / found[name]["cpu"], other["mb"] / max(found[name]["mb"], 1)
            print(f"{name}: {speed:.1f} times as fast as sbi, 1/{memory:.0f} of its memory")


if __name__ == "__main__":
    main()
