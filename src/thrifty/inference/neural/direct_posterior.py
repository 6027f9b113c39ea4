"""The posterior of NPE: a network's density, restricted to the prior's support, for any observation.

Over parameters without bounds nothing leaks; elsewhere draws outside the support are rejected in a bounded loop and
the density is divided by the share inside. Under `correction="after"` draws are resampled by the known weights.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, InferenceError, warn
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.checks import check_draws, read_observation, read_observations, warn_if_far
from thrifty.inference.neural.trained import NeuralPosterior, Trained
from thrifty.inference.posterior_draws import Sampled, maximise
from thrifty.inference.transforms import BoxTransform
from thrifty.priors import Independent
from thrifty.priors.independent import OWN
from thrifty.proposals import weighting_from_dict
from thrifty.types import Array, Weighting, as_rows
from thrifty.weights import ess, resample_indices

MAX_CANDIDATES = 1_000_000  # draws of a network before giving up on the prior's support
NORMALISER_DRAWS = 20_000  # behind a normaliser at most
FIRST_DRAWS = 1_000  # behind a normaliser at least; more until its relative error is 2 %
MAX_NORMALISER_ERROR = 0.02  # log densities are then right to 0.02 nat
CANDIDATES_PER_DRAW = 20  # tried per draw kept at most; under correction="after" as many as weights are uneven
BATCH_CANDIDATES_PER_DRAW = 5  # the same for many observations at once
ROWS_AT_ONCE = 20_000  # of many observations: bounds memory
MIN_LOCAL_ESS = 0.1  # share of the draws; below, fewer than one in ten counts


@dataclass(frozen=True, eq=False, repr=False)
class DirectPosterior(NeuralPosterior):
    """q(theta | x) from a network, restricted to the prior's support (NPE).

    Attributes:
        prior: The prior.
        trained: The network.
        sets: True when one observation is a set of independent outputs.
        weighting: Known weights multiplied in after training (`correction="after"`), or None.
    """

    sets: bool = False
    weighting: Weighting | None = None
    _normalisers: dict[bytes, tuple[float, float]] = field(default_factory=dict, repr=False)

    def draw(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Sampled:
        """Draw, with the acceptance and the local ESS.

        Raises:
            DataError: bad-observation, x_o cannot be used.
            InferenceError: outside-prior, nearly all of the network's mass lies outside the prior's support.
        """
        check_draws(n, seed)
        return self._draw_at(n, self._read(x_o, check=True), seed)

    def _draw_at(self, n: int, condition: npt.NDArray[np.float32], seed: int) -> Sampled:
        if self.weighting is None:
            theta, acceptance = self._draw_inside(n, condition, seed)
            return Sampled.independent(theta, acceptance, self.parameter_names)
        pool, acceptance = self._draw_inside(FIRST_DRAWS, condition, seed)
        log_weights = self.weighting.log_weight(pool)
        wanted = int(n * _candidates_per_draw(log_weights))
        if wanted > len(pool):  # as many that hardly any is drawn twice
            more, acceptance = self._draw_inside(wanted - len(pool), condition, seed + 1)
            pool, log_weights = np.vstack([pool, more]), np.append(log_weights, self.weighting.log_weight(more))
        local = ess(log_weights) / len(pool)
        if local < MIN_LOCAL_ESS:
            warn(
                f"[few-effective-runs] the weights vary strongly over this posterior:"
                f" {local:.1%} of the network's draws count."
                ' Few runs lie here; add runs with k = 0, or use correction="weights"'
            )
        chosen = resample_indices(log_weights, n, rng=np.random.default_rng([seed, 1]))
        effective = np.full(self.prior.dim, min(float(n), local * len(pool)))
        rhat = np.ones(self.prior.dim)
        return Sampled(pool[chosen], acceptance, local, effective, rhat, names=self.parameter_names)

    def sample_batched(self, n: int, x: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (m, n, p): n at each of m observations x (m, *event), all in a few calls of the network."""
        check_draws(n, seed)
        rows = np.asarray(x, dtype=np.float64)
        event = self.trained.frame.event
        if not self.sets:
            rows = rows.reshape(-1, *event)
        elif rows.ndim == 1 + len(event):  # sets of one
            rows = rows[:, None]
        each = n if self.weighting is None else max(FIRST_DRAWS, n * BATCH_CANDIDATES_PER_DRAW)
        step = max(ROWS_AT_ONCE // max(each, 1), 1)
        parts = [self._draw_block(n, each, rows[i : i + step], [seed, i]) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty((0, n, self.prior.dim))

    def log_prob_batched(self, theta: npt.ArrayLike, x: npt.ArrayLike) -> Array:
        """Log posterior density (m, l) of l parameters theta (m, l, p) at each of m observations x (m, *event)."""
        points = np.asarray(theta, dtype=np.float64)
        out = [self.log_prob(points[i], one) for i, one in enumerate(np.asarray(x, dtype=np.float64))]
        return np.stack(out) if out else np.empty(points.shape[:2])

    def _draw_block(self, n: int, each: int, x: Array, seed: list[int]) -> Array:
        """Draw (m, n, p) from `each` candidates at each observation; the few that lack draws are drawn one by one."""
        from thrifty.inference.neural.networks import draw_rows, make_generator

        conditions = self._encode(x)
        g = make_generator(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> np.uint64(1)))
        rng = np.random.default_rng(seed)
        theta = self.trained.frame.decode_theta(draw_rows(self.trained.net, each, conditions, g))
        inside = self._is_inside(theta)
        log_weights = np.full(len(theta), -np.inf)
        log_weights[inside] = 0.0 if self.weighting is None else self.weighting.log_weight(theta[inside])
        theta, log_weights = theta.reshape(len(x), each, -1), log_weights.reshape(len(x), each)
        out = np.empty((len(x), n, self.prior.dim))
        for i, (points, weights) in enumerate(zip(theta, log_weights, strict=True)):
            usable = np.isfinite(weights)
            if self.weighting is not None and usable.sum() >= 0.5 * each:
                out[i] = points[resample_indices(weights, n, rng=rng)]
            elif self.weighting is None and usable.all():
                out[i] = points
            else:
                out[i] = self._draw_at(n, conditions[i : i + 1], int(rng.integers(2**31))).samples
        return out

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log posterior density (n,) at theta (n, p): normalised over the prior's support, -inf outside."""
        condition = self._read(x_o, check=False)
        return (
            self._unnormalised(as_rows(theta, dim=self.prior.dim, names=self.prior.names), condition)
            - self._normaliser(condition)[0]
        )

    def log_density(self, theta: npt.ArrayLike, x: npt.ArrayLike) -> Array:
        """Log density (n,) of the network itself at pairs (theta_i, x_i), as it was trained: no correction."""
        theta = as_rows(theta, dim=self.prior.dim, names=self.prior.names)
        x = np.asarray(x, dtype=np.float64)
        return self._log_network(theta, self._encode(x if self.sets else x.reshape(-1, *self.trained.frame.event)))

    def map(self, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Find the highest point (p,) of the posterior density at x_o."""
        condition = self._read(x_o, check=True)
        start, _ = self._draw_inside(500, condition, seed)
        box = BoxTransform.of(self.prior)
        rng = np.random.default_rng([seed, 2])
        return maximise(lambda t: self._unnormalised(t, condition), start, box, rng=rng)

    def acceptance(self, x_o: npt.ArrayLike) -> float:
        """Share of the network's mass at x_o inside the prior's support."""
        return self._normaliser(self._read(x_o, check=False))[1]

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        recipe, arrays = self.trained.to_parts()
        if self.weighting is not None and not hasattr(self.weighting, "to_dict"):
            raise DataError(
                f"the weights of correction='after' come from {type(self.weighting).__name__}, which has no to_dict",
                code="code-not-saved",
                fix="draw with th.CostAware or th.Mixture over th.fit_cost, or train with correction='weights'",
            )
        weighting = None if self.weighting is None else self.weighting.to_dict()  # type: ignore[attr-defined]
        return recipe | {"sets": self.sets, "weighting": weighting, "valid": False}, arrays

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, supplied: Supplied) -> DirectPosterior:
        """Rebuild the posterior from what `to_parts` returned and the user supplied."""
        prior = supplied.choose_prior(recipe)
        trained = Trained.from_parts(recipe, arrays, supplied, prior.dim)
        weighting = None if recipe["weighting"] is None else weighting_from_dict(recipe["weighting"], prior)
        return cls(prior, trained, sets=bool(recipe["sets"]), weighting=weighting)

    def _read(self, x_o: npt.ArrayLike, *, check: bool) -> npt.NDArray[np.float32]:
        event, names = self.trained.frame.event, self.x_names
        x = read_observations(x_o, event, names) if self.sets else read_observation(x_o, event, names)[None]
        self._check_series(x)
        if check:
            warn_if_far(self.trained.reach, x)
        return self._encode(x[None] if self.sets else x)

    def _encode(self, x: Array) -> npt.NDArray[np.float32]:
        if not self.sets:
            return self.trained.frame.encode_x(x)
        flat = self.trained.frame.encode_x(x.reshape(-1, *self.trained.frame.event))
        return flat.reshape(*x.shape[:2], *flat.shape[1:])

    def _log_network(self, theta: Array, condition: npt.NDArray[np.float32]) -> Array:
        from thrifty.inference.neural.networks import evaluate_rows

        frame = self.trained.frame
        condition = np.broadcast_to(condition, (len(theta), *condition.shape[1:]))
        return evaluate_rows(self.trained.net.log_prob, frame.encode_theta(theta), condition) + frame.log_volume(theta)

    def _unnormalised(self, theta: Array, condition: npt.NDArray[np.float32]) -> Array:
        out = np.full(len(theta), -np.inf)
        inside = np.isfinite(self.prior.log_prob(theta))
        if inside.any():
            out[inside] = self._log_network(theta[inside], condition)
            if self.weighting is not None:
                out[inside] += self.weighting.log_weight(theta[inside])
        return out

    def _draw_inside(self, n: int, condition: npt.NDArray[np.float32], seed: int) -> tuple[Array, float]:
        """Draw n inside the prior's support, from at most 10^6 + 20 n candidates; return them and the share inside."""
        from thrifty.inference.neural.networks import draw_rows, make_generator

        g = make_generator(seed)
        kept: list[Array] = []
        found = tried = 0
        limit = MAX_CANDIDATES + CANDIDATES_PER_DRAW * n
        while found < n and tried < limit:
            share = max(found, 1) / tried if tried else 1.0
            block = int(min(max(1.1 * (n - found) / share, 100), 50_000, limit - tried)) if tried else min(n, 50_000)
            theta = self.trained.frame.decode_theta(draw_rows(self.trained.net, block, condition, g))
            inside = self._is_inside(theta)
            kept.append(theta[inside])
            found, tried = found + int(inside.sum()), tried + block
        if found < n:
            raise InferenceError(
                f"only {found} of {tried} network draws lie in the prior's support ({n} wanted)",
                code="outside-prior",
                why="the network puts its mass where the prior has none, as for an observation the model cannot make",
                fix="check x_o; use th.NSF(), which cannot leave the prior's bounds, or th.NLE",
            )
        return np.concatenate(kept)[:n] if kept else np.empty((0, self.prior.dim)), found / max(tried, 1)

    @property
    def _is_normalised(self) -> bool:
        """True when the network cannot leave the support and no weights follow."""
        low, high = self.prior.bounds
        box = self.trained.frame.box
        same = np.array_equal(box.low, low) and np.array_equal(box.high, high)
        return self.weighting is None and same and isinstance(self.prior, (*OWN, Independent))

    def _normaliser(self, condition: npt.NDArray[np.float32]) -> tuple[float, float]:
        """Return the log of the integral of `_unnormalised`, and the share inside the support."""
        if self._is_normalised:
            return 0.0, 1.0
        key = condition.tobytes()
        if key not in self._normalisers:
            self._normalisers[key] = self._integrate(condition)
        return self._normalisers[key]

    def _integrate(self, condition: npt.NDArray[np.float32]) -> tuple[float, float]:
        """Integrate the network's density times the weights over the support, by its own draws, until it is known."""
        from thrifty.inference.neural.networks import draw_rows, make_generator

        # a stream of its own for each observation: with one for all, all would err to the same side
        g, weights, top = make_generator(zlib.crc32(condition.tobytes())), np.empty(0), 0.0
        while True:
            theta = self.trained.frame.decode_theta(draw_rows(self.trained.net, FIRST_DRAWS, condition, g))
            new, inside = np.full(len(theta), -np.inf), self._is_inside(theta)
            new[inside] = 0.0 if self.weighting is None else self.weighting.log_weight(theta[inside])
            weights = np.append(weights, new)
            top = float(weights.max())
            if np.isfinite(top):
                share = np.exp(weights - top)
                if share.std() <= MAX_NORMALISER_ERROR * share.mean() * np.sqrt(len(share)):
                    break
            if len(weights) >= NORMALISER_DRAWS:
                break
        if not np.isfinite(top):
            self._draw_inside(1, condition, seed=0)  # looks further, or says that nothing lies inside
            return -float(np.log(MAX_CANDIDATES)), 1 / MAX_CANDIDATES
        level = top + float(np.log(np.mean(np.exp(weights - top))))
        return level, float(np.isfinite(weights).mean())

    def _is_inside(self, theta: Array) -> npt.NDArray[np.bool_]:
        with np.errstate(over="ignore", invalid="ignore"):
            inside = np.asarray(np.isfinite(theta).all(1))
            inside[inside] = np.isfinite(self.prior.log_prob(theta[inside]))
        return inside


def _candidates_per_draw(log_weights: Array) -> float:
    """Return how many candidates to try per draw: the largest weight over the mean one, within bounds."""
    share = np.exp(log_weights - log_weights.max())
    return float(np.clip(1.2 / share.mean(), 2.0, CANDIDATES_PER_DRAW))
