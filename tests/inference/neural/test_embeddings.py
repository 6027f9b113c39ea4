"""Embeddings of images and of series of varying length: exact weighted posteriors, and what padding must not change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import thrifty as th
from thrifty.inference.neural.modules.embeddings import build_embedding

PRIOR = th.Normal(0.0, 1.0)


class Known:
    """The exact weights of draws from N(-1, 1) under N(0, 1)."""

    def log_weight(self, theta):
        return np.asarray(theta)[:, 0]


def template() -> np.ndarray:
    """A blob off the centre of 32 x 32 pixels, in two channels of opposite sign, of length 2."""
    i, j = np.mgrid[:32, :32]
    blob = np.exp(-((i - 11) ** 2 + (j - 18) ** 2) / (2 * 5.0**2))
    both = np.stack([blob, -blob])
    return 2 * both / np.linalg.norm(both)


def images(n: int, rng: np.random.Generator) -> th.Simulations:
    """Theta times the template under unit noise: four times as much information as the prior."""
    theta = rng.standard_normal((n, 1)) - 1
    x = theta[:, :, None, None] * template() + rng.standard_normal((n, 2, 32, 32))
    return th.Simulations.from_arrays(theta=theta, x=x, proposal=Known())


SIGMA, LONGEST = 7.0, 200


def series(n: int, rng: np.random.Generator, *, mask: bool = True) -> th.Simulations:
    """Noise of sd 7 about theta, 50 to 200 points: the posterior has precision 1 + length / 49."""
    theta = rng.standard_normal((n, 1)) - 1
    lengths = rng.integers(50, LONGEST + 1, n)
    rows = [one_series(t, k, rng) for t, k in zip(theta[:, 0], lengths, strict=True)]
    x = np.stack(rows)
    if not mask:
        forget_mask(x, rng)
    return th.Simulations.from_arrays(theta=theta, x=x, proposal=Known())


def forget_mask(x: np.ndarray, rng: np.random.Generator) -> None:
    """Make the padding of series (n, t, 2) look like points: noise without the signal, and a mask of ones."""
    padding = x[..., 1] == 0
    x[padding, 0] = SIGMA * rng.standard_normal(padding.sum())
    x[..., 1] = 1.0


def one_series(mean: float, length: int, rng: np.random.Generator) -> np.ndarray:
    return th.SequenceEmbedding.pad(mean + SIGMA * rng.standard_normal(length), LONGEST)


def exact(x: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of theta given padded series (n, t, 2)."""
    precision = 1 + lengths / SIGMA**2
    return x[..., 0].sum(1) / SIGMA**2 / precision, 1 / np.sqrt(precision)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["kept", "mutant: forgotten"])
def test_the_posterior_of_an_image(weights, rng):
    runs = images(6000, rng)
    if weights != "kept":
        runs = runs.reweighted(np.zeros(len(runs)))
    posterior = th.NPE(PRIOR, embedding=th.ImageEmbedding()).fit(runs, seed=0)
    theta = np.linspace(-1, 1, 40)
    x = theta[:, None, None, None] * template() + rng.standard_normal((40, 2, 32, 32))
    means = np.tensordot(x, template(), axes=3) / 5
    drawn = posterior.sample_batched(500, x, seed=1)[..., 0]
    off = (drawn.mean(1) - means).mean()
    assert (abs(off) < 0.1) == (weights == "kept")  # without weights exactly 0.2 low, to the side of the proposal
    if weights == "kept":
        assert np.corrcoef(drawn.mean(1), means)[0, 1] > 0.8
        assert 0.85 < drawn.std(1).mean() / np.sqrt(0.2) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("length", ["kept", "mutant: forgotten"])
def test_the_posterior_of_a_series_depends_on_its_length(length, rng):
    posterior = th.NPE(PRIOR, embedding=th.SequenceEmbedding()).fit(series(6000, rng, mask=length == "kept"), seed=0)
    widths = {}
    for points in (50, 200):
        x = np.stack([one_series(t, points, rng) for t in np.linspace(-1, 1, 40)])
        means, sds = exact(x, np.full(40, points))
        if length != "kept":
            forget_mask(x, rng)
        drawn = posterior.sample_batched(500, x, seed=1)[..., 0]
        widths[points] = drawn.std(1).mean() / sds[0]
        if length == "kept":
            assert abs((drawn.mean(1) - means).mean()) < 0.25 * sds[0]
            assert np.corrcoef(drawn.mean(1), means)[0, 1] > 0.9
    right = all(0.85 < width < 1.15 for width in widths.values())
    assert right == (length == "kept"), widths


@pytest.mark.parametrize("columns", [1, 3])
def test_padding_changes_nothing(columns, rng):
    points = rng.standard_normal((60, columns))
    short, long = (th.SequenceEmbedding.pad(points, k).astype(np.float32) for k in (80, 200))
    torch.manual_seed(0)
    module, features = build_embedding(th.SequenceEmbedding(5), (80, columns + 1))
    rubbish = long.copy()
    rubbish[60:, :-1] = 1e3
    with torch.no_grad():
        one, two, three = (module(torch.from_numpy(x)[None]) for x in (short, long, rubbish))
        other = module(torch.from_numpy(th.SequenceEmbedding.pad(points[:59], 80).astype(np.float32))[None])
    assert one.shape == (1, features) == (1, 5)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one, three)
    assert not torch.allclose(one, other, atol=1e-6)


def test_series_are_standardised_by_their_points_alone(rng):
    """A mean of 100 at all points: zeros behind the end must not count in it."""
    theta = rng.standard_normal((200, 1))
    x = np.stack(
        [th.SequenceEmbedding.pad(100 + t + rng.standard_normal(5 + i % 6), 10) for i, t in enumerate(theta[:, 0])]
    )
    fast = th.Training(max_epochs=2)
    table = th.Simulations.from_arrays(theta=theta, x=x)
    posterior = th.NPE(PRIOR, network=th.MixtureDensity(1, (8,)), embedding=th.SequenceEmbedding(4), training=fast).fit(
        table
    )
    frame = posterior.trained.frame
    seen = frame.encode_x(x)
    there = x[..., 1] == 1
    assert abs(seen[..., 0][there].mean()) < 0.1 and abs(seen[..., 0][there].std() - 1) < 0.1
    np.testing.assert_array_equal(seen[..., 1], x[..., 1])
    with pytest.raises(th.ThriftyError, match="1 for points and 0 behind the end") as caught:
        posterior.sample(5, np.full((10, 2), 100.0), seed=0)  # an observation that was not padded
    assert caught.value.code == "bad-observation"
    assert posterior.sample(5, th.SequenceEmbedding.pad([100.0, 101.0, 99.5, 100.2, 99.0], 10), seed=0).shape == (5, 1)


@pytest.mark.parametrize(
    ("embedding", "shape"),
    [(th.ImageEmbedding(4), (8, 8)), (th.ImageEmbedding(4, (4, 8)), (3, 9, 7)), (th.SequenceEmbedding(4), (12, 3))],
)
def test_files_and_ratios(embedding, shape, rng, tmp_path):
    theta = rng.standard_normal((150, 1))
    x = rng.standard_normal((150, *shape)) + theta.reshape(-1, *[1] * len(shape))
    if isinstance(embedding, th.SequenceEmbedding):
        x[..., -1] = np.arange(12) < rng.integers(4, 13, 150)[:, None]
    table = th.Simulations.from_arrays(theta=theta, x=x)
    for method in (th.NPE, th.NRE, th.FMPE):
        posterior = method(PRIOR, embedding=embedding, training=th.Training(max_epochs=2)).fit(table, seed=0)
        posterior.save(tmp_path / "p")
        again = th.load_posterior(tmp_path / "p")
        np.testing.assert_array_equal(again.log_prob(theta[:5], x[0]), posterior.log_prob(theta[:5], x[0]))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda: th.SequenceEmbedding(reach=4), "reach must be odd"),
        (lambda: th.SequenceEmbedding.pad([1.0, 2.0], 1), "cannot be padded to 1"),
        (lambda: th.SequenceEmbedding.pad([], 1), "cannot be padded"),
        (lambda: build_embedding(th.ImageEmbedding(), (5,)), r"reads outputs of shape \(h, w\).*have shape \(5,\)"),
        (lambda: build_embedding(th.SequenceEmbedding(), (5,)), "SequenceEmbedding.pad"),
    ],
)
def test_bad_settings(bad, says):
    with pytest.raises(th.ThriftyError, match=says):
        bad()


def test_series_without_their_last_column(rng):
    table = th.Simulations.from_arrays(theta=rng.standard_normal((60, 1)), x=rng.standard_normal((60, 9, 2)))
    with pytest.raises(th.ThriftyError, match=r"outputs of shape \(9, 2\) have not(?s:.*)SequenceEmbedding.pad"):
        th.NPE(PRIOR, embedding=th.SequenceEmbedding()).fit(table, seed=0)
