"""The loop: weights once over the table, a split by index, best weights kept, nothing global touched, exact resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import thrifty as th
from thrifty.inference.neural.networks import drop_subnormals
from thrifty.inference.neural.training import Table, scale_to_mean_one, train
from thrifty.inference.neural.training_settings import mark_held_out

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import PRIOR, simulations

TINY = th.MixtureDensity(components=2, hidden=(8,))


def method(**settings) -> th.NPE:
    return th.NPE(PRIOR, network=TINY, training=th.Training(**{"max_epochs": 6, "patience": 50} | settings))


def numbers(posterior) -> np.ndarray:
    return np.concatenate([v.numpy().ravel() for v in posterior.trained.net.state_dict().values()])


def test_weights_are_scaled_once_over_the_table(rng):
    """With a step of zero the training loss of an epoch is the weighted mean over all training rows, for any batch."""
    theta, weights = rng.standard_normal(300), scale_to_mean_one(3 * rng.standard_normal(300))
    net = torch.nn.Linear(1, 1)

    def loss(net, rows, g):
        return (net(rows[0])[:, 0] - 1) ** 2

    validates = mark_held_out(np.arange(300), 0.1)
    table = Table((torch.tensor(theta[:, None], dtype=torch.float32),), weights, validates)
    with torch.no_grad():
        each = loss(net, table.tensors, None).numpy()
    settings = th.Training(learning_rate=1e-30, batch=10, max_epochs=1)
    curve = train(net, loss, table=table, settings=settings, seed=0)
    assert curve.train[0] == pytest.approx(np.average(each[~validates], weights=weights[~validates]), rel=1e-4)
    assert curve.validation[0] == pytest.approx(np.average(each[validates], weights=weights[validates]), rel=1e-4)
    unweighted = np.mean(each[~validates])
    assert abs(curve.train[0] - unweighted) > 0.05 * unweighted  # the mutant that forgets them is far away


def test_a_constant_factor_on_the_weights_changes_nothing(rng):
    sims = simulations(300, rng)
    a, b = (method().fit(sims.reweighted(sims.log_weights + c), seed=1) for c in (0.0, 512.0))
    np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-4, atol=1e-5)


def test_realisations_count_weight_over_m(rng):
    """m = 3 realisations per theta are 3 pairs of a third of the weight each, all on one side of the split."""
    sims = simulations(150, rng, m=3)
    theta, x, log_weights = sims.pairs()
    flat = th.Simulations(theta=theta, x=x, log_weights=log_weights, index=np.repeat(sims.index, 3))
    np.testing.assert_array_equal(*(numbers(method().fit(s, seed=1)) for s in (sims, flat)))


def test_split_is_a_function_of_the_index():
    index = np.arange(5000)
    chosen = mark_held_out(index, 0.1)
    order = np.random.default_rng(0).permutation(5000)[:3000]
    np.testing.assert_array_equal(mark_held_out(index[order], 0.1), chosen[order])
    assert abs(chosen.mean() - 0.1) < 5 * np.sqrt(0.09 / 5000)
    assert mark_held_out(np.arange(30), 0.1).sum() in (2, 3, 4, 5, 6, 7, 8)


def test_same_seed_same_network_and_nothing_global_changes(rng):
    sims = simulations(200, rng)
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    a, b, c = (method().fit(sims, seed=s) for s in (3, 3, 4))
    draws = [p.sample(20, [0.3], seed=9) for p in (a, b)]
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    np.testing.assert_array_equal(numbers(a), numbers(b))
    np.testing.assert_array_equal(*draws)
    assert not np.array_equal(numbers(a), numbers(c))


def _flushes() -> bool:
    return float(torch.tensor(1e-38) * 0.1) == 0.0


@pytest.mark.parametrize("before", [False, True])
def test_subnormal_numbers_are_dropped_in_training_and_nowhere_else(rng, before):
    """Steps and gradients see none; what the user has set for the thread is left as it was, also after an error."""
    seen = []

    def loss(net, rows, g):
        seen.append(_flushes())
        return (net(rows[0])[:, 0] - 1) ** 2

    theta = torch.tensor(rng.standard_normal((60, 1)), dtype=torch.float32)
    table = Table((theta,), np.ones(60), mark_held_out(np.arange(60), 0.2))
    torch.set_flush_denormal(before)
    try:
        train(torch.nn.Linear(1, 1), loss, table=table, settings=th.Training(max_epochs=2), seed=0)
        assert seen and all(seen) and _flushes() is before
        with pytest.raises(ValueError, match="stop"), drop_subnormals():
            raise ValueError("stop")
        assert _flushes() is before
    finally:
        torch.set_flush_denormal(False)


def test_best_weights_are_restored(rng):
    sims = simulations(200, rng)
    long = method(max_epochs=60, learning_rate=0.2, averaging=0.0, patience=60).fit(sims, seed=0)
    assert long.curve.best == min(long.curve.validation)
    assert long.curve.best_epoch < 59  # so large a step soon makes things worse
    short = method(max_epochs=long.curve.best_epoch + 1, learning_rate=0.2, averaging=0.0, patience=60).fit(
        sims, seed=0
    )
    np.testing.assert_array_equal(numbers(short), numbers(long))


def test_stops_for_the_reason_it_says(rng):
    sims = simulations(200, rng)
    assert method(max_epochs=3).fit(sims, seed=0).curve.stopped == "max_epochs"
    assert method(time_limit=1e-9, max_epochs=99).fit(sims, seed=0).curve.stopped == "time_limit"
    patient = method(max_epochs=500, patience=2, learning_rate=0.3).fit(sims, seed=0).curve
    assert patient.stopped == "patience" and len(patient.train) == patient.best_epoch + 3


def test_resume_is_exact(rng, tmp_path):
    sims = simulations(200, rng)
    whole = method(max_epochs=8).fit(sims, seed=2)
    file = tmp_path / "training.npz"
    method(max_epochs=3, checkpoint=file).fit(sims, seed=2)
    resumed = method(max_epochs=8, checkpoint=file).fit(sims, seed=2)
    np.testing.assert_array_equal(numbers(whole), numbers(resumed))
    assert whole.curve.validation == resumed.curve.validation


def test_a_checkpoint_of_another_training_is_refused(rng, tmp_path):
    file = tmp_path / "training.npz"
    method(checkpoint=file).fit(simulations(200, rng), seed=2)
    with pytest.raises(th.ThriftyError, match="belongs to a training with other simulations") as caught:
        method(checkpoint=file).fit(simulations(200, rng), seed=2)
    assert caught.value.code == "already-exists"


def test_killed_training_goes_on_to_the_same_network(tmp_path):
    """A real SIGKILL between two epochs; the resumed network equals the undisturbed one in every bit."""
    program = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import numpy as np
        from test_training import method, simulations
        sims = simulations(2000, np.random.default_rng(0))
        method(max_epochs=100_000, patience=100_000, checkpoint="t.npz").fit(sims, seed=2)
    """)
    child = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    file = tmp_path / "t.npz"
    deadline = time.monotonic() + 120
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert file.exists()
    sims = simulations(2000, np.random.default_rng(0))
    done = len(np.load(file)["validation"])
    settings = {"max_epochs": done + 3, "patience": 100_000}
    resumed = method(checkpoint=file, **settings).fit(sims, seed=2)
    np.testing.assert_array_equal(numbers(resumed), numbers(method(**settings).fit(sims, seed=2)))


def test_progress_is_shown_when_asked_and_only_on_stderr(rng, capfd):
    sims = simulations(200, rng)
    method(max_epochs=2).fit(sims, seed=0)
    assert capfd.readouterr() == ("", "")
    method(max_epochs=2, progress=True).fit(sims, seed=0)
    out, err = capfd.readouterr()
    assert out == "" and "epoch 2" in err and "held-out" in err


def test_divergence_is_an_error_not_a_posterior(rng):
    sims = simulations(200, rng)
    with pytest.raises(th.ThriftyError, match="diverged") as caught:
        method(learning_rate=1e30, max_epochs=30).fit(sims, seed=0)
    assert caught.value.code == "poor-training"


@pytest.mark.parametrize(
    "bad", [{"batch": 1}, {"learning_rate": -1}, {"averaging": 1}, {"validation": 0}, {"patience": 0}]
)
def test_settings_are_checked(bad):
    with pytest.raises(th.ThriftyError, match="Training cannot use") as caught:
        th.Training(**bad)
    assert caught.value.code == "bad-setting"


@pytest.mark.parametrize(
    ("training", "reason"),
    [({"max_epochs": 2}, "ended at epoch 2: all epochs are done"), ({"patience": 1}, "no gain for 1 epoch;")],
)
def test_the_end_of_a_bar_says_why_the_training_ended(capfd, monkeypatch, training, reason):
    """An early end does not look like a failure, and the reader learns which loss is good."""
    monkeypatch.setenv("COLUMNS", "120")
    rng = np.random.default_rng(0)
    theta = rng.uniform(size=(200, 1))
    sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape))
    settings = th.Training(progress=True, **training)
    th.NPE(th.Uniform(0, 1), network=th.MixtureDensity(1), training=settings).fit(sims, seed=0)
    shown = capfd.readouterr().err
    assert "training" in shown and reason in shown and "held-out loss" in shown and "(lower is better)" in shown
    assert "validation" not in shown
