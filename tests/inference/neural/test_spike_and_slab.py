"""Robust NPE: one of five statistics is wrong; the plain posterior misses, the robust one equals its exact answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import voigt_profile
from scipy.stats import norm

import thrifty as th

PRIOR, STATISTICS, SD = th.Normal(0.0, 1.0), 5, 0.5
GRID = np.linspace(-5, 5, 1001)
NOISE = th.SpikeAndSlab()
UNIT = np.sqrt(1 + SD**2)  # sd of each statistic under the prior


class Known:
    """The exact weights of draws from N(-0.5, 1)."""

    def log_weight(self, theta):
        return 0.5 * np.asarray(theta)[:, 0]


def simulations(n: int, rng: np.random.Generator) -> th.Simulations:
    theta = rng.standard_normal((n, 1)) - 0.5
    x = theta + SD * rng.standard_normal((n, STATISTICS))
    return th.Simulations.from_arrays(theta=theta, x=x, proposal=Known())


def observations(n: int, rng: np.random.Generator, *, wrong: bool) -> tuple[np.ndarray, np.ndarray]:
    """Truths from the prior and their statistics; one of them, any, is 4 to 6 prior sds too high or too low."""
    theta = rng.standard_normal(n)
    x = theta[:, None] + SD * rng.standard_normal((n, STATISTICS))
    if wrong:
        x[np.arange(n), rng.integers(STATISTICS, size=n)] += rng.choice([-1, 1], n) * rng.uniform(4, 6, n)
    return theta, x


def exact(x: np.ndarray, *, robust: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of theta (n,) given x (n, 5), on a grid: normal errors, with a Cauchy slab where robust."""
    off = x[:, :, None] - GRID
    likelihood = norm.pdf(off, scale=SD)
    if robust:
        right = norm.pdf(off, scale=np.hypot(SD, NOISE.spike * UNIT))
        likelihood = (1 - NOISE.share) * right + NOISE.share * voigt_profile(off, SD, NOISE.slab * UNIT)
    posterior = np.exp(np.log(likelihood).sum(1)) * norm.pdf(GRID)
    posterior /= posterior.sum(1, keepdims=True)
    mean = posterior @ GRID
    return mean, np.sqrt(posterior @ GRID**2 - mean**2)


def coverage(draws: np.ndarray, truth: np.ndarray) -> float:
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_the_robust_posterior_is_exact_and_covers(rng):
    runs, n = simulations(4000, rng), 400
    fits = {
        "plain": th.NPE(PRIOR).fit(runs, seed=0),
        "robust": th.NPE(PRIOR, noise=NOISE).fit(runs, seed=0),
        "mutant: weights forgotten": th.NPE(PRIOR, noise=NOISE).fit(runs.reweighted(np.zeros(4000)), seed=0),
    }
    assert "trained under errors of x" in fits["robust"].notes[0]
    found = {}
    for wrong in (True, False):
        truth, x = observations(n, rng, wrong=wrong)
        mean, sd = exact(x)
        for name, posterior in fits.items():
            drawn = posterior.sample_batched(400, x, seed=1)[..., 0]
            off = (drawn.mean(1) - mean) / sd
            found[name, wrong] = coverage(drawn, truth), off.mean(), np.sqrt((off**2).mean()), drawn.std(1).mean()
    se = np.sqrt(0.9 * 0.1 / n)
    assert found["plain", True][0] < 0.6  # where one statistic is wrong
    assert found["robust", True][0] > 0.9 - 5 * se and found["robust", False][0] > 0.9 - 5 * se
    assert found["plain", False][0] > 0.9 - 5 * se
    # the network's error is allowed a third of a posterior sd at each observation, a tenth over all of them
    assert found["robust", True][2] < 0.4 and abs(found["robust", True][1]) < 0.15
    assert abs(found["mutant: weights forgotten", False][1]) > 2 * abs(found["robust", False][1])
    # and where the model is right, it is little wider than the exact posterior of a model without errors
    assert found["robust", False][3] / np.sqrt(1 / (1 + STATISTICS / SD**2)) < 1.25


def test_the_exact_answers_are_what_the_errors_make(rng):
    """Importance sampling of the error model itself, against the grid: the formulas above and `draw` agree."""
    theta = rng.standard_normal(400_000)
    x = theta[:, None] + SD * rng.standard_normal((400_000, STATISTICS))
    x = x + UNIT * NOISE.draw(x.shape, rng)
    x_o = np.array([0.4, 0.7, 0.5, 0.6, 3.0])
    kernel = -0.5 * np.square((x - x_o) / 0.25).sum(1)  # wide enough for a thousand effective draws
    wide = np.exp(kernel)
    mean, sd = exact(x_o[None])
    estimate = float(wide @ theta / wide.sum())
    assert abs(estimate - mean[0]) < 5 * sd[0] / np.sqrt(th.ess(kernel)) + 0.1 * sd[0]  # 0.1: the kernel's own width
    plain, _ = exact(x_o[None], robust=False)
    assert abs(plain[0] - mean[0]) > 1.5 * sd[0]


def test_copies_keep_weights_indices_and_series(rng):
    from thrifty.inference.neural.prepare import prepare
    from thrifty.inference.neural.standardise import measure_spread

    runs = simulations(100, rng)
    rows = prepare(runs, PRIOR, weighted=True)
    noisy = th.SpikeAndSlab(copies=3).spread(rows, measure_spread(rows), rng)
    assert noisy.x.shape == (300, STATISTICS)
    for label in ("theta", "log_weights", "index"):
        np.testing.assert_array_equal(getattr(noisy, label), np.concatenate([getattr(rows, label)] * 3))
    share = (np.abs(noisy.x - np.concatenate([rows.x] * 3)) > 0.1 * measure_spread(rows)).mean()
    assert abs(share - 0.1 * 0.937) < 5 * np.sqrt(0.1 * 0.9 / 1500)
    padded = np.stack([th.SequenceEmbedding.pad(rng.standard_normal(3 + i % 4), 7) for i in range(100)])
    rows = prepare(th.Simulations.from_arrays(theta=runs.theta, x=padded), PRIOR, weighted=True, shaped=True)
    noisy = th.SpikeAndSlab(copies=1).spread(rows, measure_spread(rows, padded=True), rng)
    np.testing.assert_array_equal(noisy.x[..., 1], padded[..., 1])
    assert not np.array_equal(noisy.x[..., 0], padded[..., 0])


@pytest.mark.parametrize("bad", [{"share": 0.0}, {"share": 1.0}, {"spike": -1.0}, {"slab": 0.0}, {"copies": 0}])
def test_bad_settings(bad):
    with pytest.raises(th.ThriftyError, match="no error model"):
        th.SpikeAndSlab(**bad)


def test_noise_is_an_error_model():
    with pytest.raises(th.ThriftyError, match="noise must be an error model of x, got True"):
        th.NPE(PRIOR, noise=True)


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_robust_distances_of_abc(rng):
    """One of five statistics is wrong: the sum of absolute differences lets the other four decide."""
    runs = simulations(20_000, rng)
    truth, x = observations(60, rng, wrong=True)
    errors = {}
    for distance in (th.distances.Euclidean(), th.distances.Manhattan()):
        posterior = th.ABC(PRIOR, quantile=0.01, distance=distance, adjust="none").fit(runs)
        errors[type(distance).__name__] = np.array([posterior.sample(200, one, seed=1).mean() for one in x]) - truth
    euclidean, manhattan = (np.sqrt(np.square(each).mean()) for each in errors.values())
    assert manhattan < 0.6 * euclidean
