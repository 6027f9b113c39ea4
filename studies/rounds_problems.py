"""Problems with known posteriors for the rounds study, in two halves, and their reference draws.

    python studies/rounds_problems.py            # what each problem is: volumes, cost ranges, costs at the places
    python studies/rounds_problems.py --make     # compute the reference draws that no closed form gives (minutes)
    python studies/rounds_problems.py --check    # a second sampler with another seed agrees with them

Reference draws of problems without a closed form are kept in `studies/references`, since a sampler's chains differ
between processors; closed forms are drawn when asked for, with a fixed seed.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path

import numpy as np
import rounds_development as development
import rounds_test_half as test_half
from rounds_form import PLACES, REFERENCE_DRAWS, Problem
from rounds_truth import relative_volume

from thrifty.types import Array

DEVELOPMENT = {f.__name__: f for f in (development.lotka_volterra, development.slcp, development.gaussian_8,
                                       development.exchange, development.hooks, development.arc, development.gaussian_2,
                                       development.counts)}  # fmt: skip
TEST = {f.__name__: f for f in (test_half.epidemic_ode, test_half.gaussian_10, test_half.poisson_regression,
                                test_half.two_moons, test_half.squares, test_half.waiting, test_half.shares,
                                test_half.useless)}  # fmt: skip
FOLDER = Path(__file__).resolve().parent / "references"
REFERENCE_SEED = 18_003
PARTICLES = 4_000  # of the sampler; every second one is kept
NARROW = 1e-3  # volume of a narrow posterior, over the prior's


@cache
def problem(name: str) -> Problem:
    """The problem of this name."""
    made = (DEVELOPMENT | TEST).get(name)
    if made is None:
        raise SystemExit(f"no problem {name!r}; there are {', '.join(DEVELOPMENT | TEST)}")
    return made()


@cache
def reference(name: str, place: str) -> Array:
    """Equally weighted draws (REFERENCE_DRAWS, p) of the exact posterior at a place."""
    if problem(name).closed_form:
        return draw_reference(name, place, REFERENCE_SEED, REFERENCE_DRAWS)
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path.name} is missing; python studies/rounds_problems.py --make computes it")
    with np.load(path) as kept:
        return kept[place].astype(np.float64)


def draw_reference(name: str, place: str, seed: int, n: int) -> Array:
    """Draws (n, p) of the exact posterior, new in each call."""
    made = problem(name)
    rng = np.random.default_rng([seed, list(PLACES).index(place)])
    if made.closed_form:
        return made.draw_posterior(made.x_o(place), n, rng)
    drawn = made.draw_posterior(made.x_o(place), max(PARTICLES, n), rng)
    return drawn[rng.permutation(len(drawn))[:n]]  # copies of one particle lie side by side


@cache
def volume(name: str, place: str) -> float:
    """Volume of the posterior over the prior's."""
    return relative_volume(
        reference(name, place), problem(name).prior.sample(REFERENCE_DRAWS, np.random.default_rng(4))
    )


def make(name: str) -> None:
    """Compute and keep the reference draws of one problem."""
    begin = time.process_time()
    drawn = {place: draw_reference(name, place, REFERENCE_SEED, REFERENCE_DRAWS) for place in PLACES}
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{name}.npz", **{place: d.astype(np.float32) for place, d in drawn.items()})  # type: ignore[arg-type]
    print(f"{name}: {time.process_time() - begin:.0f} CPU s", flush=True)


def disagreement(name: str, place: str) -> tuple[float, float]:
    """Largest difference of means and of log sds to a sampler with another seed, in standard errors of n draws."""
    a, b = reference(name, place), draw_reference(name, place, REFERENCE_SEED + 1, REFERENCE_DRAWS)
    if problem(name).modes > 1:  # signs are drawn, not found
        a, b = np.abs(a), np.abs(b)
    means = np.abs(a.mean(0) - b.mean(0)) / b.std(0) * np.sqrt(len(b) / 2)
    fourth = ((b - b.mean(0)) ** 4).mean(0) / b.var(0) ** 2
    sds = np.abs(np.log(a.std(0) / b.std(0))) / np.sqrt((fourth - 1) / (2 * len(b)))
    return float(means.max()), float(sds.max())


def describe(name: str) -> str:
    """One line: sizes, cost range, volumes and costs at the places."""
    made = problem(name)
    cost = made.cost(made.prior.sample(20_000, np.random.default_rng(3)))
    low, high = np.quantile(cost, [0.01, 0.99])
    rows = [
        f"{place} volume {volume(name, place):.1e} cost {made.cost(reference(name, place)).mean():.2f}"
        for place in PLACES
    ]
    size = f"{made.prior.dim} parameters, {len(made.x_o('middle'))} outputs, {made.modes} mode(s)"
    return f"{name:<19} {'narrow' if made.narrow else 'wide  '} {size}, cost range {high / low:.0f}x; {'; '.join(rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make", action="store_true", help="compute reference draws that are kept")
    parser.add_argument("--check", action="store_true", help="compare them with a sampler of another seed")
    parser.add_argument("names", nargs="*", default=[])
    args = parser.parse_args()
    for name in args.names or list(DEVELOPMENT | TEST):
        if args.make and not problem(name).closed_form:
            make(name)
        print(describe(name), flush=True)
        for place in PLACES if args.check and not problem(name).closed_form else ():
            print(
                "    {}: means differ by {:.1f}, log sds by {:.1f} standard errors".format(
                    place, *disagreement(name, place)
                )
            )


if __name__ == "__main__":
    main()
