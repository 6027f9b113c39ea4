"""Start worker processes from a fork server, without importing the user's script in them."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from multiprocessing import forkserver, popen_forkserver, reduction, spawn, util
from multiprocessing.context import ForkServerContext, ForkServerProcess, set_spawning_popen
from typing import Any

from thrifty.errors import ConfigError

# one thread per worker unless the user says otherwise: the workers fill the cores already
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class _Popen(popen_forkserver.Popen):
    """Start a process without importing the parent's `__main__`: simulators are sent by value."""

    def _launch(self, process_obj: Any) -> None:
        prepared = spawn.get_preparation_data(process_obj._name)
        prepared = {key: value for key, value in prepared.items() if not key.startswith("init_main")}
        buffer = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(prepared, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            set_spawning_popen(None)
        self.sentinel, write_end = forkserver.connect_to_new_process(self._fds)  # type: ignore[attr-defined]
        duplicate = os.dup(write_end)  # tells the child when we are gone
        self.finalizer = util.Finalize(self, util.close_fds, (duplicate, self.sentinel))  # type: ignore[attr-defined]
        with contextlib.suppress(BrokenPipeError), open(write_end, "wb", closefd=True) as file:
            file.write(buffer.getbuffer())  # a child that was killed meanwhile is noticed through its sentinel
        self.pid = forkserver.read_signed(self.sentinel)  # type: ignore[attr-defined]


class _Process(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)


class _Context(ForkServerContext):
    Process = _Process  # type: ignore[assignment]


CONTEXT = _Context()


def worker_environment() -> dict[str, str]:
    """Return this process's environment, with one thread per numerical library where the user has not chosen."""
    return {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ}


def start_forkserver() -> None:
    """Start the fork server with numpy and the runner already imported, single-threaded."""
    CONTEXT.set_forkserver_preload(["thrifty.runner.engines.worker_main"])
    missing = [name for name in THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        forkserver.ensure_running()
    except OSError as error:
        if "path too long" not in str(error):
            raise
        raise ConfigError(
            f"the temporary folder {tempfile.gettempdir()} is too deep for the sockets of worker processes",
            code="bad-setting",
            why="the path of a socket may have about a hundred characters",
            fix="TMPDIR=/tmp, or another short one",
        ) from None
    finally:
        for name in missing:
            del os.environ[name]
