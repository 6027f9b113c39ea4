"""Training on a device: every tensor of every loss is on it, the network comes back, files do not know it.

No accelerator is needed: torch's meta device computes shapes only, and refuses to mix its tensors with the CPU's.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import thrifty as th
from thrifty.inference.neural import training
from thrifty.inference.neural.networks import choose_device, make_generator

PRIOR = th.Normal(np.zeros(2), np.ones(2))
SMALL = th.AutoregressiveMixture(members=2, hidden=(8,), components=2)
FIELD = th.FlowMatching((8,))
ONE = th.Training(max_epochs=1)


def table(rng: np.random.Generator, *, m: int = 1, counts: bool = False, shape: tuple[int, ...] = (3,)):
    theta = rng.standard_normal((120, 2))
    x = rng.standard_normal((120, m, *shape)) + theta[:, :1].reshape(-1, 1, *[1] * len(shape))
    x = np.round(x) if counts else x
    if shape == (9, 2):  # a series of 4 to 9 points
        x[..., 1] = np.arange(9) < rng.integers(4, 10, 120)[:, None, None]
    return th.Simulations.from_arrays(theta=theta, x=x if m > 1 else x[:, 0], m=m)


CASES = {
    "npe": (th.NPE(PRIOR, network=SMALL, training=ONE), {}),
    "npe-nsf": (th.NPE(PRIOR, network=th.NSF(1, (8,)), training=ONE), {}),
    "npe-mixture": (th.NPE(PRIOR, network=th.MixtureDensity(2, (8,)), training=ONE), {}),
    "npe-atomic": (th.NPE(PRIOR, network=SMALL, correction="atomic", training=ONE), {}),
    "npe-sets": (th.NPE(PRIOR, network=SMALL, embedding=th.SetEmbedding(4, (8,)), training=ONE), {"m": 3}),
    "npe-image": (th.NPE(PRIOR, network=SMALL, embedding=th.ImageEmbedding(4), training=ONE), {"shape": (8, 8)}),
    "npe-series": (th.NPE(PRIOR, network=SMALL, embedding=th.SequenceEmbedding(4), training=ONE), {"shape": (9, 2)}),
    "fmpe": (th.FMPE(PRIOR, network=FIELD, training=ONE), {}),
    "fmpe-sets": (th.FMPE(PRIOR, network=FIELD, embedding=th.SetEmbedding(4, (8,)), training=ONE), {"m": 3}),
    "nle": (th.NLE(PRIOR, training=ONE), {}),
    "nle-counts": (th.NLE(PRIOR, training=ONE), {"counts": True}),
    "nre": (th.NRE(PRIOR, training=ONE), {}),
}


def watch(monkeypatch: pytest.MonkeyPatch) -> list:
    """Keep what is given to `train`, which then runs as always."""
    seen: list = []
    real = training.train

    def train(net, loss, *, table, settings, seed):
        seen.append((net, loss, table))
        return real(net, loss, table=table, settings=settings, seed=seed)

    monkeypatch.setattr(training, "train", train)
    return seen


def take_step(net, loss, rows: training.Table) -> torch.Tensor:
    """What training does with one batch, all tensors being on one device."""
    which = rows.rows[torch.randperm(len(rows.rows), generator=make_generator(0)).to(rows.rows.device)][:50]
    each = loss(net, tuple(t[which] for t in rows.tensors), make_generator(1))
    value = (rows.weigh(which, held=False) * each).mean()
    value.backward()
    return value


@pytest.mark.parametrize("name", CASES)
def test_no_tensor_of_a_loss_stays_behind(name, monkeypatch, rng):
    method, settings = CASES[name]
    seen = watch(monkeypatch)
    method.fit(table(rng, **settings), seed=0)
    net, loss, rows = seen[-1]
    net.train()
    net.to("meta")
    rows.move(torch.device("meta"))
    assert take_step(net, loss, rows).device.type == "meta"
    assert {p.grad.device.type for p in net.parameters() if p.grad is not None} == {"meta"}


@pytest.mark.parametrize("left", ["one table", "the weights", "a buffer"])
def test_a_tensor_that_stays_behind_is_found(left, monkeypatch, rng):
    seen = watch(monkeypatch)
    method = th.NPE(PRIOR, network=th.MixtureDensity(2, (8,)), training=ONE)
    method.fit(table(rng), seed=0)
    net, loss, rows = seen[-1]
    net.to("meta")
    here, weights = rows.tensors, rows.weights
    rows.move(torch.device("meta"))
    if left == "one table":
        rows.tensors = (here[0], *rows.tensors[1:])
    elif left == "the weights":
        rows.weights = weights
    else:
        net.density.below = torch.zeros(2, 2)
    with pytest.raises((RuntimeError, NotImplementedError)):
        take_step(net, loss, rows)


def test_the_network_comes_back_and_files_do_not_know_the_device(monkeypatch, rng, tmp_path):
    moved: list[str] = []
    real = training.Table.move
    monkeypatch.setattr(training.Table, "move", lambda self, device: (moved.append(device.type), real(self, device))[1])
    runs = table(rng)
    fits = {
        device: th.NPE(PRIOR, network=SMALL, training=th.Training(max_epochs=2, device=device)).fit(runs, seed=0)
        for device in ("cpu", "auto")
    }
    assert moved == ["cpu", choose_device("auto").type]  # once each
    for device, posterior in fits.items():
        assert {p.device.type for p in posterior.trained.net.parameters()} == {"cpu"}
        posterior.save(tmp_path / device)
    if choose_device("auto").type == "cpu":
        np.testing.assert_array_equal(fits["cpu"].sample(5, runs.x[0]), fits["auto"].sample(5, runs.x[0]))
    assert b"cuda" not in (tmp_path / "auto").read_bytes() and b"device" not in (tmp_path / "auto").read_bytes()


def test_a_checkpoint_goes_on_elsewhere(rng, tmp_path):
    """The device is no part of what must be equal to resume."""
    runs = table(rng)
    for epochs, device in ((2, "cpu"), (4, "auto")):
        settings = th.Training(max_epochs=epochs, device=device, checkpoint=tmp_path / "c", patience=50)
        posterior = th.NPE(PRIOR, network=SMALL, training=settings).fit(runs, seed=0)
    assert len(posterior.curve.train) == 4
    whole = th.NPE(PRIOR, network=SMALL, training=th.Training(max_epochs=4, patience=50)).fit(runs, seed=0)
    np.testing.assert_allclose(posterior.curve.train, whole.curve.train, rtol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="cuda is there")
def test_a_device_that_is_not_there(rng):
    with pytest.raises(
        th.ThriftyError, match=r"(?s)device 'cuda' is not available: torch .* finds cpu.*auto"
    ) as caught:
        th.NPE(PRIOR, network=SMALL, training=th.Training(device="cuda")).fit(table(rng), seed=0)
    assert caught.value.code == "bad-setting"
    with pytest.raises(th.ThriftyError, match="Training cannot use device = 'gpu'"):
        th.Training(device="gpu")
