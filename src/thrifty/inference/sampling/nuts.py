"""The No-U-Turn Sampler for many walkers at once (Hoffman and Gelman 2014; multinomial, Betancourt 2017).

    u' = u + s r,    r' = r + s gradient,      r ~ N(0, 1),      z = middle + root u

Each walker follows its own trajectory, doubled until it turns back, and moves to a point of it chosen by density. All
walkers double at the same time, so that the k-th step of a doubling is one call of the network for all of them that
still move: a thousand walkers take the time that one would take in ten calls. Turns inside a doubling are found from
log2(steps) kept points, as every block of 2^j steps must not turn either.

Until the first `reset` the walkers adapt: `root` is the Cholesky root of their own covariance, and the step goes where
0.9 of the moves along a trajectory would be accepted. They do so until it is: walkers that enter a narrow part late
need a smaller step. A gradient that is not exact (single precision) costs acceptance only: steps of any force that
depends on the place alone can be reversed and keep volumes.

Where the walkers still remember their start after ten steps, they may sit on separate peaks. Then `root` is taken
within peaks, and after each trajectory every walker tries one jump to another peak (`peaks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from thrifty.inference.sampling.mcmc_checks import correlate_places
from thrifty.inference.sampling.peaks import PEAK_MEMORY, PEAK_STEPS, Peaks, find_peaks
from thrifty.types import Array

ValueAndGradient = Callable[[Array], tuple[Array, Array]]  # z (k, p) -> log density (k,), gradient (k, p)
MAX_DOUBLINGS = 8  # 255 steps: what a posterior needs whose width varies a hundredfold
MAX_ENERGY_ERROR = 1_000.0  # of a trajectory that has left the density: it diverges
TARGET_ACCEPTANCE = 0.9  # 0.8 is a quarter cheaper, and enters the neck of a funnel three times later
ADAPTATION_RATE = 2.0  # of the logarithm of the step, for a mean acceptance that is off by 1; falls as 1 / sqrt(t)
MAX_ACCEPTANCE_GAP = 0.015  # below the target, mean of SETTLING_STEPS: the step is still too long somewhere
SETTLING_STEPS = 10
MAX_SETTLING_STEPS = 60  # then no step is short enough: a gradient that is not that of the density, or a hard funnel
STUCK_ACCEPTANCE = 0.1  # of a trajectory, below which its walker hardly moves


@dataclass
class _Points:
    """Points of trajectories: place u, momentum r, gradient over z (each (k, p)) and log density (k,)."""

    u: Array
    r: Array
    gradient: Array
    value: Array

    def take(self, which: npt.NDArray[np.intp]) -> _Points:
        return _Points(*(getattr(self, field.name)[which] for field in fields(self)))

    def put(self, which: npt.NDArray[np.intp], other: _Points) -> None:
        for field in fields(self):
            getattr(self, field.name)[which] = getattr(other, field.name)

    def where(self, chosen: npt.NDArray[np.bool_], other: _Points) -> _Points:
        """Return these points where `chosen` (k,), the other ones elsewhere."""
        mixed = other.copy()
        mixed.put(np.flatnonzero(chosen), self.take(np.flatnonzero(chosen)))
        return mixed

    def copy(self) -> _Points:
        return self.take(np.arange(len(self.u)))

    @property
    def energy(self) -> Array:
        """Log density minus kinetic energy (k,): constant along an exact trajectory."""
        return self.value - 0.5 * np.square(self.r).sum(1)


class NutsWalkers:
    """Walkers that move along trajectories of the density's gradient.

    Attributes:
        step: Length of one step, in units of the walkers' own spread.
        divergences: Trajectories that left the density since the last `reset`.
        stuck: Trajectories since then of which less than a tenth would be accepted: their walkers hardly move.

    Example:
        >>> walkers = NutsWalkers(lambda z: (-0.5 * (z**2).sum(1), -z), np.zeros((500, 5)), np.random.default_rng(0))
        >>> walkers.advance(20), walkers.reset(), walkers.advance(20)
        (None, None, None)
        >>> bool(abs(walkers.chain.std() - 1) < 0.05), walkers.divergences
        (True, 0)
    """

    warm_up = 20  # steps at least: the common step settles in ten, narrow parts of a density are found later

    def __init__(self, density: ValueAndGradient, start: Array, rng: np.random.Generator) -> None:
        self._density, self._rng = density, rng
        self._middle, self._root = np.zeros(start.shape[1]), np.eye(start.shape[1])
        self._adapted = 0  # steps in which the walkers adapted
        self._start, self._peaks = start, None
        self.step = start.shape[1] ** -0.25  # the order of the best one for a normal
        self.reset()
        self._adapting = True
        self._last = self._evaluate(start, np.zeros_like(start))

    def reset(self) -> None:
        """Forget the steps so far and stop adapting."""
        self._chain: list[Array] = []
        self._heights: list[Array] = []
        self._accepted: list[float] = []
        self.divergences = self.stuck = 0
        self._adapting = False

    @property
    def chain(self) -> Array:
        """Places (steps, walkers, p)."""
        return np.stack(self._chain)

    @property
    def heights(self) -> Array:
        """Log densities (steps, walkers)."""
        return np.stack(self._heights)

    @property
    def acceptance(self) -> float:
        """Mean acceptance along the trajectories."""
        return float(np.mean(self._accepted))

    @property
    def settled(self) -> bool:
        """True when the step is short enough for the places where the walkers are now, or no step is."""
        accepted = float(np.mean(self._accepted[-SETTLING_STEPS:]))
        return accepted > TARGET_ACCEPTANCE - MAX_ACCEPTANCE_GAP or self._adapted >= MAX_SETTLING_STEPS

    @property
    def jumps(self) -> bool:
        """True when the walkers jump between separate peaks."""
        return self._peaks is not None

    def advance(self, steps: int) -> None:
        """Move all walkers so many trajectories further."""
        for _ in range(steps):
            if self._adapting:
                self._measure()
            self._last, accepted, diverged = self._move()
            if self._peaks is not None:
                self._jump(self._peaks)
            if self._adapting:
                self._adapted += 1
                off = accepted.mean() - TARGET_ACCEPTANCE
                self.step *= float(np.exp(ADAPTATION_RATE * off / np.sqrt(self._adapted)))
            self._chain.append(self._places)
            self._heights.append(self._last.value)
            self._accepted.append(float(accepted.mean()))
            self.divergences += diverged
            self.stuck += int((accepted < STUCK_ACCEPTANCE).sum())

    @property
    def _places(self) -> Array:
        """Places (walkers, p) now."""
        return self._middle + self._last.u @ self._root.T

    def _measure(self) -> None:
        """Take the covariance of the walkers' places, about their peaks, as the unit of u."""
        z = self._places
        if self._adapted in PEAK_STEPS and correlate_places(self._start, z) > PEAK_MEMORY:
            self._peaks = find_peaks(np.concatenate(self._chain[-PEAK_STEPS[0] :]), self._rng)
        middles = z.mean(0) if self._peaks is None else self._peaks.means[self._peaks.label(z)]
        spread = np.atleast_2d(np.cov((z - middles).T))
        scale = np.diag(spread)
        if (scale > 0).all() and len(z) > 2 * len(scale):
            self._middle, self._root = z.mean(0), np.linalg.cholesky(spread + 1e-9 * np.diag(scale))
            self._last.u = self._to_unit(z)

    def _to_unit(self, z: Array) -> Array:
        return np.asarray(np.linalg.solve(self._root, (z - self._middle).T).T, dtype=np.float64)

    def _jump(self, peaks: Peaks) -> None:
        """Offer every walker one place on another peak."""
        trial, log_volume = peaks.jump(self._places, self._rng)
        after = self._evaluate(self._to_unit(trial), self._last.r)
        with np.errstate(invalid="ignore"):
            gain = np.nan_to_num(after.value - self._last.value + log_volume, nan=-np.inf)
        self._last = after.where(np.log(self._rng.random(len(trial))) < gain, self._last)

    def _evaluate(self, u: Array, r: Array) -> _Points:
        value, gradient = self._density(self._middle + u @ self._root.T)
        usable = np.isfinite(value) & np.isfinite(gradient).all(1)
        return _Points(u, r, np.where(usable[:, None], gradient, 0.0), np.where(usable, value, -np.inf))

    def _leap(self, points: _Points, step: Array) -> _Points:
        """Move points (k,) one leapfrog step (k, 1), forward or back."""
        half = points.r + 0.5 * step * (points.gradient @ self._root)
        after = self._evaluate(points.u + step * half, half)
        after.r = half + 0.5 * step * (after.gradient @ self._root)
        return after

    def _move(self) -> tuple[_Points, Array, int]:
        """Move every walker along one trajectory; return the points, the acceptances (k,) and how many diverged."""
        k, rng = len(self._last.u), self._rng
        chosen = self._last.copy()
        chosen.r = rng.standard_normal(chosen.u.shape)
        tree = _Tree(chosen.copy(), chosen.copy(), chosen.r.copy(), np.zeros(k))
        begin, moving, diverged = chosen.energy, np.arange(k), 0
        quality = np.zeros((2, k))  # sum of acceptances, number of steps
        for depth in range(MAX_DOUBLINGS):
            forward = rng.random(len(moving)) < 0.5
            side = tree.right.take(moving).where(forward, tree.left.take(moving))
            grown = self._grow(side, np.where(forward, self.step, -self.step)[:, None], begin[moving], 2**depth)
            quality[:, moving] += grown.quality
            diverged += int(grown.diverged.sum())
            done = np.flatnonzero(grown.whole)
            rows = moving[done]
            better = np.log(rng.random(len(done))) < grown.log_mass[done] - tree.log_mass[rows]
            chosen.put(rows[better], grown.chosen.take(done[better]))
            tree.join(rows, grown, done, forward[done])
            moving = rows[~tree.turns(rows)]
            if not len(moving):
                break
        return chosen, quality[0] / np.maximum(quality[1], 1), diverged

    def _grow(self, side: _Points, step: Array, begin: Array, count: int) -> _Grown:
        """Take `count` steps from the points `side` (k,); `begin` (k,) are the energies of the trajectories."""
        k, p = side.u.shape
        now, total, chosen = side.copy(), np.zeros((k, p)), side.copy()
        log_mass, quality = np.full(k, -np.inf), np.zeros((2, k))
        alive, diverged = np.arange(k), np.zeros(k, bool)
        kept = np.zeros((2, count.bit_length(), k, p))  # momenta, and their sums up to there, of unfinished blocks
        for leaf in range(count):
            after = self._leap(now.take(alive), step[alive])
            now.put(alive, after)
            with np.errstate(invalid="ignore"):
                gain = np.nan_to_num(after.energy - begin[alive], nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
            quality[:, alive] += np.minimum(np.exp(np.minimum(gain, 0.0)), 1.0), np.ones(len(alive))
            total[alive] += after.r
            log_mass[alive] = np.logaddexp(log_mass[alive], gain)
            with np.errstate(invalid="ignore"):
                swap = np.log(self._rng.random(len(alive))) < gain - log_mass[alive]
            chosen.put(alive[swap], after.take(np.flatnonzero(swap)))
            lost = gain < -MAX_ENERGY_ERROR
            diverged[alive[lost]] = True
            turned = _keep_or_compare(kept, leaf, now.r, total, alive)
            alive = alive[~(lost | turned)]
            if not len(alive):
                break
        whole = np.zeros(k, bool)
        whole[alive] = True
        return _Grown(now, total, chosen, log_mass, whole, diverged, quality)


@dataclass
class _Grown:
    """A new half of each trajectory: its last point, sum of momenta, a point chosen by density, log of the mass."""

    end: _Points
    total: Array
    chosen: _Points
    log_mass: Array
    whole: npt.NDArray[np.bool_]  # it neither turned nor diverged
    diverged: npt.NDArray[np.bool_]
    quality: Array


@dataclass
class _Tree:
    """Trajectories: both ends, the sum of momenta (k, p), and the log of the mass (k,) relative to the first point."""

    left: _Points
    right: _Points
    total: Array
    log_mass: Array

    def join(
        self, rows: npt.NDArray[np.intp], grown: _Grown, done: npt.NDArray[np.intp], forward: npt.NDArray[np.bool_]
    ) -> None:
        """Add the whole halves `done` of what has grown to the trajectories `rows`."""
        self.right.put(rows[forward], grown.end.take(done[forward]))
        self.left.put(rows[~forward], grown.end.take(done[~forward]))
        self.total[rows] += grown.total[done]
        self.log_mass[rows] = np.logaddexp(self.log_mass[rows], grown.log_mass[done])

    def turns(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        return _turns(self.left.r[rows], self.right.r[rows], self.total[rows])


def _turns(first: Array, last: Array, total: Array) -> npt.NDArray[np.bool_]:
    """Tell whether trajectories turn back, from the momenta at both ends and the sum of all, each (k, p)."""
    way = total - 0.5 * (first + last)  # half of each end: the length of the way between them
    return np.asarray(((first * way).sum(1) <= 0) | ((last * way).sum(1) <= 0))


def _keep_or_compare(
    kept: Array, leaf: int, r: Array, total: Array, alive: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Keep the first point of every block of 2^j steps, and at its last point tell whether the block has turned."""
    place = (leaf >> 1).bit_count()
    if leaf % 2 == 0:
        kept[0, place], kept[1, place] = r, total
        return np.zeros(len(alive), bool)
    ended = (leaf ^ (leaf + 1)).bit_length() - 1  # how many blocks end here
    turned = np.zeros(len(alive), bool)
    for i in range(place - ended + 1, place + 1):
        first = kept[0, i][alive]
        turned |= _turns(first, r[alive], total[alive] - kept[1, i][alive] + first)
    return turned
