"""C2ST: known accuracies, weights in training and scoring, and the null interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import thrifty as th
from thrifty.errors import DataError


def forest(dim, seed):
    """th.metrics.forest with a fifth of its trees, to save time where the number does not matter."""
    return th.metrics.forest(dim, seed).set_params(n_estimators=20)


BOTH = pytest.mark.parametrize("classifier", [th.metrics.mlp, forest])


class Threshold:
    """The best classifier between two shifted normals, in place of a trained one."""

    def __init__(self, dim, seed):
        del dim, seed

    def fit(self, X, y, sample_weight):
        middles = [np.average(X[y == label, 0], weights=sample_weight[y == label]) for label in (0, 1)]
        self.cut, self.up = np.mean(middles), middles[1] > middles[0]

    def predict(self, X):
        return ((X[:, 0] > self.cut) == self.up).astype(int)


def test_accuracy_of_two_shifted_normals(rng):
    """Best accuracy between N(0,1) and N(1.5,1) is Phi(0.75)."""
    x, y = rng.normal(0, 1, 3000), rng.normal(1.5, 1, 3000)
    error = np.sqrt(0.25 / 6000)
    assert abs(th.metrics.c2st(x, y, classifier=Threshold) - norm.cdf(0.75)) < 5 * error


@BOTH
def test_trained_classifiers_come_close_to_it(rng, classifier):
    x, y = rng.normal(0, 1, (500, 1)), rng.normal(2, 1, (500, 1))
    # a forest of deep trees gives up to 0.06 away on one column
    assert norm.cdf(1.0) - 0.08 < th.metrics.c2st(x, y, classifier=classifier) < norm.cdf(1.0) + 5 * 0.5 / 1000**0.5


def test_whole_weights_are_copies_that_do_not_leak(rng):
    x, y = rng.normal(size=(80, 2)), rng.normal(0.3, 1, (80, 2))
    copies = rng.integers(1, 4, 80)
    repeated = th.metrics.c2st(np.repeat(x, copies, axis=0), y, classifier=forest)
    assert repeated == pytest.approx(th.metrics.c2st(x, y, copies, classifier=forest), abs=1e-12)


def test_points_shared_by_both_samples_cannot_be_told_apart(rng):
    x = rng.normal(size=(150, 2))
    result = th.metrics.c2st_test(x, x, classifier=forest)
    assert result.accuracy <= result.null[1]


@BOTH
def test_weights_restore_the_target_and_forgetting_them_does_not(rng, classifier):
    x, y = rng.normal(-1, 1, (700, 1)), rng.normal(0, 1, (700, 1))
    weights = np.exp(x[:, 0])
    right = th.metrics.c2st_test(x, y, weights, classifier=classifier)
    forgotten = th.metrics.c2st_test(x, y, classifier=classifier)
    assert right.p_value > 1e-3
    assert forgotten.p_value < 1e-6
    assert forgotten.accuracy > forgotten.null[1]


def test_same_seed_same_answer(rng):
    x, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    scores = {th.metrics.c2st(x, y, seed=s, classifier=forest, folds=2) for s in (3, 3, 4)}
    assert len(scores) == 2


def test_unequal_sizes_are_balanced(rng):
    """Ten times as many y: calling everything y is worth one half, not 0.91."""
    x, y = rng.normal(size=(150, 1)), rng.normal(size=(1500, 1))
    result = th.metrics.c2st_test(x, y, classifier=forest)
    assert result.accuracy < 0.5 + 5 * (result.null[1] - 0.5) / 1.96


@pytest.mark.parametrize("classifier", [th.metrics.mlp, th.metrics.forest])
def test_agrees_with_sbi(rng, classifier):
    torch = pytest.importorskip("torch")
    metrics = pytest.importorskip("sbi.utils.metrics")
    x, y = rng.normal(size=(400, 2)), rng.normal(0.7, 1, (400, 2))
    name = "mlp" if classifier is th.metrics.mlp else "rf"
    theirs = float(metrics.c2st(torch.from_numpy(x), torch.from_numpy(y), classifier=name))
    # both estimate one accuracy out of fold from the same 800 points, with other folds and other seeds
    assert abs(th.metrics.c2st(x, y, classifier=classifier) - theirs) < 4 * np.sqrt(0.25 / 800)


@BOTH
def test_counts_keep_their_power(rng, classifier):
    """Poisson(3) against Poisson(4): best accuracy 0.603; a dozen distinct values, 600 observations each."""
    x, y = rng.poisson(3, 600), rng.poisson(4, 600)
    result = th.metrics.c2st_test(x, y, classifier=classifier)
    assert result.p_value < 1e-6 and result.null[1] - 0.5 == pytest.approx(1.96 * np.sqrt(2 / 600) / 4, rel=1e-3)
    joined = th.metrics.c2st_test(x, y, classifier=classifier, folds=2, discrete=False)
    assert joined.null[1] - 0.5 > 3 * (result.null[1] - 0.5)  # the mutant: a dozen points have no power


def test_two_classes_can_be_compared(rng):
    x, y = rng.random((300, 1)) < 0.3, rng.random((300, 1)) < 0.6
    assert th.metrics.c2st_test(x, y, classifier=forest).p_value < 1e-6


def test_size_for_counts(rng):
    hits = sum(
        th.metrics.c2st_test(rng.poisson(3, 100), rng.poisson(3, 100), classifier=Threshold).p_value < 0.05
        for _ in range(100)
    )
    assert hits <= 14  # of 100 at 5 %; more has chance 1e-4


def false_alarms(rng, classifier, repeats, n=150):
    hits = 0
    for _ in range(repeats):
        x, y = rng.normal(-0.7, 1, (n, 1)), rng.normal(0, 1, (n, 1))
        hits += th.metrics.c2st_test(x, y, np.exp(0.7 * x[:, 0]), classifier=classifier).p_value < 0.05
    return hits / repeats


@pytest.mark.slow
@pytest.mark.parametrize("classifier", [th.metrics.mlp, th.metrics.forest])
def test_size_over_many_seeds(rng, classifier):
    assert false_alarms(rng, classifier, 200) <= 0.10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folds": 1}, "at least two folds"),
        ({"folds": 50}, "at least two folds"),
        ({"folds": "five"}, "got 'five' folds"),
        ({"folds": 2.5}, r"got 2\.5 folds"),
        ({"level": 1.0}, "level must lie"),
        ({"level": "95 %"}, "level must lie"),
        ({"classifier": "forest"}, "classifier must be a function"),
    ],
)
def test_refuses_bad_settings(rng, settings, message):
    with pytest.raises(DataError, match=message):
        th.metrics.c2st_test(rng.normal(size=(40, 1)), rng.normal(size=(40, 1)), **settings)
