"""Files from strangers: nothing in them runs, sizes are not believed, damage is named."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.inference import archive

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import PRIOR, simulations

HARMFUL = (
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
)
MARKER = Path(tempfile.gettempdir()) / f"thrifty_was_here_{os.getpid()}"
EVENTS: list[str] = []
sys.addaudithook(lambda event, _: EVENTS.append(event) if event in HARMFUL or event == "exec" else None)


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {MARKER}",)


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> dict[str, bytes]:
    """The members of an honest file."""
    path = tmp_path_factory.mktemp("honest") / "p"
    sims = simulations(100, np.random.default_rng(0))
    th.NPE(PRIOR, network=th.MixtureDensity(2, (8,)), training=th.Training(max_epochs=1)).fit(sims, seed=0).save(path)
    th.load_posterior(path)  # imports happen now, not under the hook
    with zipfile.ZipFile(path) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def rewrite(path: Path, members: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


def npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, array)
    return data.getvalue()


def with_recipe(members: dict[str, bytes], change) -> dict[str, bytes]:
    values = json.loads(np.load(io.BytesIO(members["recipe.npy"])).tobytes())
    change(values)
    return {**members, "recipe.npy": npy(np.frombuffer(json.dumps(values).encode(), np.uint8))}


def huge_header() -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    return data.getvalue() + b"\0" * 64


def _network(**settings):
    return lambda recipe: recipe["members"][0]["network"].update(settings)


HOSTILE = {
    "pickled array": lambda m: {**m, "0/frame/keep.npy": npy(np.array([Evil()], dtype=object))},
    "a pickle": lambda m: {**m, "recipe.npy": pickle.dumps(Evil())},
    "claims 8 TB": lambda m: {**m, "0/frame/keep.npy": huge_header()},
    "member missing": lambda m: {k: v for k, v in m.items() if "theta_centre" not in k},
    "not JSON": lambda m: {**m, "recipe.npy": npy(np.frombuffer(b"__import__('os')", np.uint8))},
    "deep JSON": lambda m: {**m, "recipe.npy": npy(np.frombuffer(b"[" * 100_000, np.uint8))},
    "newer format": lambda m: with_recipe(m, lambda r: r.update(format=99)),
    "another kind": lambda m: with_recipe(m, lambda r: r.update(kind="training")),
    "unknown network": lambda m: with_recipe(m, _network(kind="os.system")),
    "unknown setting": lambda m: with_recipe(m, _network(code="import os")),
    "giant network": lambda m: with_recipe(m, _network(hidden=[100_000, 100_000])),
    "too wide network": lambda m: with_recipe(m, _network(hidden=[10**12])),
    "unknown prior": lambda m: with_recipe(m, lambda r: r.update(prior={"kind": "os:system", "names": ["a"]})),
    "other shapes": lambda m: {**m, "0/frame/theta_centre.npy": npy(np.zeros(7))},
    "path outside": lambda m: {**m, "../../evil.txt": b"x"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_and_run_nothing(name, members, tmp_path):
    path = rewrite(tmp_path / "p", HOSTILE[name](members))
    MARKER.unlink(missing_ok=True)
    EVENTS.clear()
    with pytest.raises(th.ThriftyError) as caught:
        th.load_posterior(path)
    assert [event for event in EVENTS if event in HARMFUL] == []
    assert caught.value.code in ("bad-file", "newer-version", "code-not-saved", "bad-setting", "bad-file")
    assert not MARKER.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


def test_the_hook_would_have_seen_a_pickle():
    """A harmless pickle: loading the hostile one for real would run its command."""
    EVENTS.clear()
    pickle.loads(pickle.dumps(Path("a")))
    assert "pickle.find_class" in EVENTS


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "compressed", "folder", "missing", "flipped"])
def test_damaged_files_are_named(damage, members, tmp_path):
    path = rewrite(tmp_path / "p", members)
    data = path.read_bytes()
    match damage:
        case "truncated":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("hello")
        case "compressed":
            rewrite(path, members, compression=zipfile.ZIP_DEFLATED)
        case "flipped":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
        case "folder":
            path.unlink()
            path.mkdir()
        case "missing":
            path.unlink()
    with pytest.raises(th.ThriftyError, match=str(path)) as caught:
        th.load_posterior(path)
    assert caught.value.code == "bad-file"


def test_a_prior_without_numbers_must_be_given_again(tmp_path, rng):
    class Own:
        names, dim, bounds = ("a",), 1, (np.array([-np.inf]), np.array([np.inf]))
        sample = staticmethod(PRIOR.sample)
        log_prob = staticmethod(PRIOR.log_prob)

    method = th.NPE(Own(), network=th.MixtureDensity(2, (8,)), training=th.Training(max_epochs=1))
    posterior = method.fit(simulations(100, rng), seed=0)
    posterior.save(tmp_path / "p")
    with pytest.raises(th.ThriftyError, match=r"the prior \(Own\) could not be saved as plain numbers") as caught:
        th.load_posterior(tmp_path / "p")
    assert caught.value.code == "code-not-saved" and "prior=" in caught.value.fix
    again = th.load_posterior(tmp_path / "p", prior=Own())
    np.testing.assert_array_equal(again.sample(9, [0.1]), posterior.sample(9, [0.1]))


def test_weights_without_numbers_say_so(tmp_path, rng):
    method = th.NPE(PRIOR, network=th.MixtureDensity(2, (8,)), training=th.Training(max_epochs=1), correction="after")
    posterior = method.fit(simulations(100, rng), seed=0)
    with pytest.raises(th.ThriftyError, match="come from Known, which has no to_dict") as caught:
        posterior.save(tmp_path / "p")
    assert caught.value.code == "code-not-saved" and not (tmp_path / "p").exists()


def test_writing_is_atomic_and_repeatable(tmp_path, rng):
    values = {"a": rng.standard_normal((3, 2)), "b": np.arange(4)}
    for name in ("x", "y"):
        archive.write(tmp_path / name, {"kind": "test"}, values)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x", "y"]
    recipe, arrays = archive.read(tmp_path / "x", "test")
    assert recipe["kind"] == "test"
    np.testing.assert_array_equal(arrays["a"], values["a"])
    with pytest.raises(th.ThriftyError, match="cannot write") as caught:
        archive.write(tmp_path / "no" / "such", {"kind": "test"}, values)
    assert caught.value.code == "disk-problem"


def test_an_ensemble_of_any_posteriors_is_drawn_from_saved_and_read(tmp_path, rng):
    """Members need not be networks: two ABC posteriors mix, and come back from one file without torch."""
    sims = simulations(400, rng)
    method = th.ABC(PRIOR, quantile=0.2)
    posterior = th.Ensemble(method, members=2).fit(sims)
    single = method.fit(sims)
    np.testing.assert_allclose(posterior.log_prob([[0.1]], [0.2]), single.log_prob([[0.1]], [0.2]))
    assert posterior.draw(50, [0.2], seed=3).samples.shape == (50, 1) and posterior.curves == posterior.notes == ()
    grid = np.linspace(-2, 2, 401)[:, None]
    best = grid[np.argmax(posterior.log_prob(grid, [0.2])), 0]
    assert abs(posterior.map([0.2])[0] - best) < 0.02
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    np.testing.assert_array_equal(again.sample(9, [0.2], seed=1), posterior.sample(9, [0.2], seed=1))
