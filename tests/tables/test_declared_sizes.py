"""Files that declare more than they hold: refused before memory is allocated for it."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, SimulatorError
from thrifty.runner.command import read_npy
from thrifty.tables import columns

HUGE = (10**11, 2)


def npy(array, shape=None):
    """Bytes of an array, whose header may declare another shape."""
    data = io.BytesIO()
    np.lib.format.write_array(data, array)
    if shape is None:
        return data.getvalue()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": array.dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue() + array.tobytes()


def write_npz(path, *, compressed=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", compressed) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("compressed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_shape_that_does_not_fit_its_bytes(tmp_path, compressed):
    theta = np.ones((4, 2))
    path = write_npz(tmp_path / "t.npz", theta=npy(theta), x=npy(theta, HUGE), compressed=compressed)
    before = peak()
    with pytest.raises(DataError, match=r"does not fit its .* bytes") as caught:
        th.Simulations.from_npz(path)
    assert caught.value.code == "bad-file" and peak() - before < 100_000


def test_a_directory_that_lies(tmp_path):
    """The list of a zip file declares a terabyte for a member of a hundred bytes."""
    path = write_npz(tmp_path / "t.npz", theta=npy(np.ones((4, 2))), x=npy(np.ones((4, 2))))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)  # the second entry of the list
    struct.pack_into("<I", data, at + 24, 0xFFFFFF00)
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        th.Simulations.from_npz(path)
    assert caught.value.code == "bad-file"


def test_more_than_memory_holds(tmp_path, monkeypatch):
    path = tmp_path / "t.npz"
    th.Simulations.from_arrays(theta=np.ones((1000, 2)), x=np.ones((1000, 2))).to_npz(path)

    class Little:
        available = 20_000

    monkeypatch.setattr(columns.psutil, "virtual_memory", lambda: Little)
    with pytest.raises(DataError, match="of memory are free") as caught:
        th.Simulations.from_npz(path)
    assert "in parts" in caught.value.fix


def test_what_was_written_is_read(tmp_path, rng):
    sims = th.Simulations.from_arrays(theta=rng.random((50, 2)), x=rng.random((50, 3, 2)))
    sims.to_npz(tmp_path / "t.npz")
    assert th.table_hash(th.Simulations.from_npz(tmp_path / "t.npz")) == th.table_hash(sims)
    zeros = th.Simulations.from_arrays(theta=np.zeros((20_000, 2)), x=np.zeros((20_000, 8)))
    zeros.to_npz(tmp_path / "zeros.npz")  # packed as tightly as deflate can
    assert len(th.Simulations.from_npz(tmp_path / "zeros.npz")) == 20_000


def test_a_program_that_declares_too_much():
    with pytest.raises(SimulatorError, match="declares shape"):
        read_npy(npy(np.ones(3), HUGE), "output")
    assert read_npy(npy(np.arange(3.0)), "output").x.tolist() == [0, 1, 2]


def test_a_parquet_file_that_declares_too_much(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    th.Simulations.from_arrays(theta=np.ones((1000, 2)), x=np.ones((1000, 2))).to_parquet(path)

    class Little:
        available = 20_000

    monkeypatch.setattr(columns.psutil, "virtual_memory", lambda: Little)
    with pytest.raises(DataError, match="of memory are free"):
        th.Simulations.from_parquet(path)


@pytest.mark.parametrize("reader", ["from_npz", "from_csv", "from_parquet"])
def test_a_pipe_is_not_read(tmp_path, reader):
    """A pipe that nobody writes to would hang the call."""
    if reader == "from_parquet":
        pytest.importorskip("pyarrow")
    os.mkfifo(tmp_path / "pipe")
    script = (
        "import sys, thrifty as th\nfrom thrifty.errors import DataError\n"
        f"more = {{'theta': ['a']}} if {reader!r} == 'from_csv' else {{}}\n"
        f"try: th.Simulations.{reader}(sys.argv[1], **more)\n"
        "except DataError as error: print(error.code, 'not a file' in error.what)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pipe")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["bad-file", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_flipped_bits_of_a_file(tmp_path, rng, kind):
    """The right table, or one DataError; never another error."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    sims = th.Simulations.from_arrays(theta=rng.random((20, 2)), x=rng.random((20, 3)))
    path = tmp_path / f"t.{kind}"
    getattr(sims, f"to_{kind}")(path)
    whole = path.read_bytes()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        with contextlib.suppress(th.errors.ThriftyError):
            getattr(th.Simulations, f"from_{kind}")(path)
