"""The posterior of NLE and NRE: prior times learned likelihood, sampled by emcee or NUTS, for any observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError, warn
from thrifty.inference import archive
from thrifty.inference.answers.evidence import LEARNING, LogEvidence, integrate_likelihood
from thrifty.inference.answers.states import list_states
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.checks import check_draws, read_observations, warn_if_far
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.trained import NeuralPosterior, Trained
from thrifty.inference.posterior_draws import drop_nan, log_evidence_many, maximise, temper_many
from thrifty.inference.sampling import mcmc
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, as_rows

MIN_WALKERS = 100  # for each of many observations: fewer lose separate peaks
START_PER_WALKER = 4  # prior draws for each
PAIRS_AT_ONCE = 50_000  # walkers of all observations in memory together


@dataclass(frozen=True, eq=False, repr=False)
class PotentialPosterior(NeuralPosterior):
    """prior(theta) × learned likelihood of x_o (NLE), or likelihood up to a function of x (NRE).

    Several independent observations (r, *event) multiply their likelihoods.

    Attributes:
        prior: The prior.
        trained: The network.
        valid: Network for log P(valid | theta), or None when runs do not fail.
    """

    valid: Any = field(default=None, repr=False)
    _evidences: dict[bytes, float] = field(default_factory=dict, repr=False)

    def draw(
        self,
        n: int,
        x_o: npt.ArrayLike,
        seed: int = 0,
        *,
        start: Literal["resample", "map"] = "resample",
        walkers: int | None = None,
        max_steps: int = mcmc.MAX_STEPS,
        sampler: Literal["auto", "emcee"] = "auto",
    ) -> mcmc.Chains:
        """Draw by emcee, from five parameters on by NUTS, with ESS and R-hat; warns when they are poor.

        Args:
            n: Draws wanted.
            x_o: One observation, or several independent ones (r, *event).
            seed: Seed.
            start: From a prior resample, or from a ball around the posterior's maximum.
            walkers: Number of walkers.
            max_steps: Limit on the steps of each walker.
            sampler: "emcee" for emcee at any number of parameters.
        """
        check_draws(n, seed)
        if sampler not in ("auto", "emcee"):
            raise ConfigError(
                f'sampler must be "auto" or "emcee", got {sampler!r}',
                code="bad-setting",
                fix='leave it out: from five parameters on, "auto" is NUTS',
            )
        x = self._read(x_o, check=True)
        if (states := list_states(self.prior)) is not None:
            rng = np.random.default_rng(seed)
            return states.sample(lambda theta: self._log_likelihood(theta, x), n, rng=rng, max_steps=max_steps)
        return mcmc.sample_posterior(
            lambda theta: self._log_likelihood(theta, x),
            self.prior,
            n,
            rng=np.random.default_rng(seed),
            gradient=None if sampler == "emcee" else lambda theta: self._differentiate(theta, x),
            walkers=walkers,
            max_steps=max_steps,
            start=self.map(x_o, seed) if start == "map" else None,
        )

    def sample_batched(self, n: int, x: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (m, n, p): n at each of m single observations x (m, *event), all walkers of all of them at once.

        Made for calibration, where thousands of draws matter and each need not: one short tempered run,
        without the checks of `draw`. The evidences are kept, so that `log_prob` at these x is quick.
        """
        check_draws(n, seed)
        rows = np.asarray(x, dtype=np.float64).reshape(-1, *self.trained.frame.event)
        step = max(PAIRS_AT_ONCE // max(n, MIN_WALKERS), 1)
        parts = [self._draw_block(n, rows[i : i + step], [seed, i]) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty((0, n, self.prior.dim))

    def log_prob_batched(self, theta: npt.ArrayLike, x: npt.ArrayLike) -> Array:
        """Log posterior density (m, l) of l parameters theta (m, l, p) at each of m observations x (m, *event)."""
        points = np.asarray(theta, dtype=np.float64)
        rows = np.asarray(x, dtype=np.float64).reshape(-1, *self.trained.frame.event)
        unknown = [one for one in rows if one[None].tobytes() not in self._evidences]
        if unknown:
            self.sample_batched(MIN_WALKERS, np.stack(unknown))
        log_prior = self.prior.log_prob(points.reshape(-1, self.prior.dim)).reshape(points.shape[:2])
        level = np.array([self._evidences[one[None].tobytes()] for one in rows])
        return log_prior + self._pair_likelihood(rows)(points) - level[:, None]

    def _draw_block(self, n: int, x: Array, seed: list[int]) -> Array:
        box, likelihood, rng = BoxTransform.of(self.prior), self._pair_likelihood(x), np.random.default_rng(seed)

        def log_prior(z: Array) -> Array:
            flat = z.reshape(-1, self.prior.dim)
            return drop_nan(self.prior.log_prob(box.to_bounded(flat)) + box.log_jacobian(flat)).reshape(z.shape[:2])

        def log_likelihood(z: Array) -> Array:
            return drop_nan(likelihood(box.to_bounded(z.reshape(-1, self.prior.dim)).reshape(z.shape)))

        count = max(n + n % 2, MIN_WALKERS)
        start = box.spread(box.to_unconstrained(self.prior.sample(START_PER_WALKER * count, rng)), rng)
        start = np.repeat(start[None], len(x), axis=0)
        walkers = temper_many(log_likelihood, log_prior, start, count, rng=rng)
        levels = log_evidence_many(log_likelihood, log_prior, walkers, rng=np.random.default_rng([*seed, 1]))
        for one, level in zip(x, levels, strict=True):
            self._evidences.setdefault(one[None].tobytes(), float(level))
        return box.to_bounded(walkers[:, :n].reshape(-1, self.prior.dim)).reshape(len(x), n, -1)

    def _pair_likelihood(self, x: Array) -> Callable[[Array], Array]:
        """Return theta (m, l, p) -> log likelihood (m, l) of each x (m, *event); x is encoded once."""
        from thrifty.inference.neural.networks import evaluate_rows

        frame, net, m = self.trained.frame, self.trained.net, len(x)
        is_density = self.trained.method == "nle"
        seen = frame.encode_x(x) if is_density else evaluate_rows(net.embedding, frame.encode_x(x)).astype(np.float32)
        volume = frame.log_x_volume(x)[:, None] if is_density else 0.0

        def likelihood(theta: Array) -> Array:
            points = frame.encode_condition(theta.reshape(-1, theta.shape[-1]))
            rows = np.repeat(seen, theta.shape[1], axis=0)
            value = evaluate_rows(net.log_prob, rows, points) if is_density else evaluate_rows(net, points, rows)
            if self.valid is not None:
                value += evaluate_rows(self.valid.log_prob, points)
            return value.reshape(m, -1) + volume

        return likelihood

    def log_likelihood(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log likelihood (n,) summed over the observations; for NRE up to a function of x_o."""
        return self._log_likelihood(
            as_rows(theta, dim=self.prior.dim, names=self.prior.names), self._read(x_o, check=False)
        )

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike, *, normalise: bool = True) -> Array:
        """Log posterior density (n,) at theta (n, p), normalised by importance sampling unless `normalise` is False."""
        x = self._read(x_o, check=False)
        density = self._log_joint(as_rows(theta, dim=self.prior.dim, names=self.prior.names), x)
        return density - self._log_evidence(x) if normalise else density

    def map(self, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Find the highest point (p,) of the posterior density at x_o."""
        x = self._read(x_o, check=False)
        rng = np.random.default_rng([seed, 2])
        theta = self.prior.sample(mcmc.START_DRAWS, rng)
        best = theta[np.argsort(-self._log_joint(theta, x))[:100]]
        return maximise(lambda t: self._log_joint(t, x), best, BoxTransform.of(self.prior), rng=rng)

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        recipe, arrays = self.trained.to_parts()
        if self.valid is not None:
            arrays |= {f"valid/{name}": value.numpy() for name, value in self.valid.state_dict().items()}
        return recipe | {"sets": False, "weighting": None, "valid": self.valid is not None}, arrays

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, supplied: Supplied) -> PotentialPosterior:
        """Rebuild the posterior from what `to_parts` returned and the user supplied."""
        from thrifty.inference.neural.validity import load_validity

        prior = supplied.choose_prior(recipe)
        trained = Trained.from_parts(recipe, arrays, supplied, prior.dim)
        valid = (
            load_validity(archive.select(arrays, "valid/"), trained.frame.condition_size) if recipe["valid"] else None
        )
        return cls(prior, trained, valid)

    def _read(self, x_o: npt.ArrayLike, *, check: bool) -> Array:
        x = read_observations(x_o, self.trained.frame.event, self.x_names)
        self._check_series(x)
        if check:
            warn_if_far(self.trained.reach, x)
            self._warn_if_between(x)
        return x

    def _warn_if_between(self, x: Array) -> None:
        """Warn of a count with a fraction: the likelihood is then that of the nearest cell, of which x is no value."""
        frame = self.trained.frame
        if frame.cells is None:
            return
        kept = np.flatnonzero(frame.keep)[frame.cells.which]
        off = kept[frame.cells.find_off_lattice(x.reshape(len(x), -1)[:, kept])]
        if len(off):
            named = [self.x_names[i] if self.x_names else f"x_{i + 1}" for i in off]
            warn(
                f"[bad-observation] {', '.join(named[:5])}: the observed value lies between those that runs give,"
                " such as a fraction where they count. Check the unit, or that it was not averaged",
                stacklevel=4,
            )

    def _log_joint(self, theta: Array, x: Array) -> Array:
        out = np.asarray(self.prior.log_prob(theta), dtype=np.float64).copy()
        inside = np.isfinite(out)
        if inside.any():
            out[inside] += self._log_likelihood(theta[inside], x)
        return out

    def _log_likelihood(self, theta: Array, x: Array) -> Array:
        from thrifty.inference.neural.networks import evaluate_rows

        points = self.trained.frame.encode_condition(theta)
        return evaluate_rows(self._bind_network(x), points) + self._log_volume(x)

    def _differentiate(self, theta: Array, x: Array) -> tuple[Array, Array]:
        """Return the log likelihood (n,) and its gradient (n, p) over theta (n, p)."""
        from thrifty.inference.neural.networks import differentiate_rows

        frame = self.trained.frame
        value, slope = differentiate_rows(self._bind_network(x), frame.encode_theta(theta))
        return value + self._log_volume(x), slope * frame.theta_slopes(theta)

    def _bind_network(self, x: Array) -> Callable[[Any], Any]:
        """Return encoded parameters (n, p) -> log likelihood (n,) of all observations, as tensors, without volumes."""
        import torch

        from thrifty.inference.neural.networks import log_ratio

        net, is_density = self.trained.net, self.trained.method == "nle"
        seen = torch.from_numpy(self.trained.frame.encode_x(x))

        def log_likelihood(points: Any) -> Any:
            total = torch.zeros(len(points), dtype=torch.float64)
            for one in seen:
                row = one.expand(len(points), *one.shape)
                total = total + (net.log_prob(row, points) if is_density else log_ratio(net, points, row))
            return total if self.valid is None else total + len(seen) * self.valid.log_prob(points).double()

        return log_likelihood

    def _log_volume(self, x: Array) -> float:
        """Log |d y / d x| of all observations, where x is what is modelled."""
        return float(self.trained.frame.log_x_volume(x).sum()) if self.trained.method == "nle" else 0.0

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Log of p(x_o), the integral of prior × likelihood, with its standard error; for NRE up to a function of x_o.

        The error is that of the integral alone; `th.Ensemble(method, share=0.5)` adds that of learning from these runs.
        """
        check_draws(0, seed)
        x = self._read(x_o, check=True)
        over, missing = self.evidence_measure
        found = self._integrate(x, seed, quiet=False)
        return replace(found, over=over, missing=missing, se_without=LEARNING)

    @property
    def evidence_measure(self) -> tuple[tuple[str, ...], str]:
        """What each statistic contributes to the likelihood, and what the likelihood lacks; see `LogEvidence`."""
        if self.trained.method == "nre":
            return (), "an unknown function of x_o, another one for each network"
        return _describe_measure(self.trained.frame), ""

    def _integrate(self, x: Array, seed: int, *, quiet: bool) -> LogEvidence:
        rng = np.random.default_rng(seed)
        if (states := list_states(self.prior)) is not None:
            return states.integrate(lambda theta: self._log_likelihood(theta, x), rng=rng, quiet=quiet)
        return integrate_likelihood(
            lambda theta: self._log_likelihood(theta, x),
            self.prior,
            rng=rng,
            gradient=lambda theta: self._differentiate(theta, x),
            quiet=quiet,
        )

    def _log_evidence(self, x: Array) -> float:
        """Log of the integral of prior × likelihood, computed once for each observation."""
        key = x.tobytes()
        if key not in self._evidences:
            self._evidences[key] = self._integrate(x, 0, quiet=True).value
        return self._evidences[key]


def _describe_measure(frame: Frame) -> tuple[str, ...]:
    """Say of each statistic (d,) whether its likelihood is a density or a probability, or whether it was dropped."""
    over = np.where(frame.keep, "density", "left out").astype(object)
    if frame.cells is not None:
        over[np.flatnonzero(frame.keep)[frame.cells.which]] = "probability"
    return tuple(map(str, over))
