"""The posterior of NLE and NRE: prior times learned likelihood, sampled by emcee, for any observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.inference import archive, mcmc
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.checks import check_draws, read_observations, warn_if_far
from thrifty.inference.neural.trained import NeuralPosterior, Trained
from thrifty.inference.posterior_draws import maximise
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, as_rows


@dataclass(frozen=True, eq=False)
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
    ) -> mcmc.Chains:
        """Draw by emcee, with ESS and R-hat; warns when they are poor.

        Args:
            n: Draws wanted.
            x_o: One observation, or several independent ones (r, *event).
            seed: Seed.
            start: From a prior resample, or from a ball around the posterior's maximum.
            walkers: Number of walkers.
            max_steps: Limit on the steps of each walker.
        """
        check_draws(n, seed)
        x = self._read(x_o, check=True)
        return mcmc.sample_posterior(
            lambda theta: self._log_likelihood(theta, x),
            self.prior,
            n,
            rng=np.random.default_rng(seed),
            walkers=walkers,
            max_steps=max_steps,
            start=self.map(x_o, seed) if start == "map" else None,
        )

    def log_likelihood(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log likelihood (n,) summed over the observations; for NRE up to a function of x_o."""
        return self._log_likelihood(as_rows(theta, dim=self.prior.dim), self._read(x_o, check=False))

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike, *, normalise: bool = True) -> Array:
        """Log posterior density (n,) at theta (n, p), normalised by importance sampling unless `normalise` is False."""
        x = self._read(x_o, check=False)
        density = self._log_joint(as_rows(theta, dim=self.prior.dim), x)
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
        valid = load_validity(archive.select(arrays, "valid/"), prior.dim) if recipe["valid"] else None
        return cls(prior, trained, valid)

    def _read(self, x_o: npt.ArrayLike, *, check: bool) -> Array:
        x = read_observations(x_o, self.trained.frame.event)
        if check:
            warn_if_far(self.trained.reach, x)
        return x

    def _log_joint(self, theta: Array, x: Array) -> Array:
        out = np.asarray(self.prior.log_prob(theta), dtype=np.float64).copy()
        inside = np.isfinite(out)
        if inside.any():
            out[inside] += self._log_likelihood(theta[inside], x)
        return out

    def _log_likelihood(self, theta: Array, x: Array) -> Array:
        from thrifty.inference.neural.networks import evaluate_rows, log_ratio

        frame, net = self.trained.frame, self.trained.net
        encoded_theta, encoded_x = frame.encode_theta(theta), frame.encode_x(x)
        total = np.zeros(len(theta))
        for i, one in enumerate(encoded_x):
            row = np.broadcast_to(one, (len(theta), *one.shape))
            if self.trained.method == "nle":
                total += evaluate_rows(net.log_prob, row, encoded_theta) + frame.log_x_volume(x[i : i + 1])
            else:
                total += evaluate_rows(lambda t, c: log_ratio(net, t, c), encoded_theta, row)
        if self.valid is not None:
            total += len(x) * evaluate_rows(self.valid.log_prob, encoded_theta)
        return total

    def _log_evidence(self, x: Array) -> float:
        """Log of the integral of prior × likelihood."""
        key = x.tobytes()
        if key not in self._evidences:
            self._evidences[key] = mcmc.log_evidence(
                lambda theta: self._log_likelihood(theta, x), self.prior, rng=np.random.default_rng(0)
            )
        return self._evidences[key]
