"""A real Slurm with one node on loopback, from the system's packages: munged, slurmctld, slurmd, ended by process id.

Nothing of the system's own configuration is read or changed; everything lies in one temporary folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")
CPUS = 4  # of the node, as told to Slurm: it gives as many jobs, whatever the machine has
START_SECONDS = 60.0

CONFIGURATION = """\
ClusterName=thrifty
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=1
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def find_missing() -> list[str]:
    """Programs of Slurm that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None and not Path("/usr/sbin", name).exists()]


def find_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slurm:
    """A running Slurm; commands need `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._started = folder, list[subprocess.Popen[bytes]]()
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        path = f"{os.environ['PATH']}:/usr/sbin"
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        fill = {"host": socket.gethostname().split(".", maxsplit=1)[0], "folder": self.folder, "cpus": CPUS}
        text = CONFIGURATION.format(controller_port=find_port(), node_port=find_port(), **fill)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log",
                 "seed-file": "munge.seed"}  # fmt: skip
        self._launch("munged", "--foreground", "--force", *(f"--{a}={self.folder / b}" for a, b in files.items()))
        self._wait((self.folder / "munge.socket").exists, "munged")
        self._launch("slurmctld", "-D")
        self._launch("slurmd", "-D", "-N", str(fill["host"]))
        self._wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), "the node")

    def run(self, *command: str) -> str:
        """What a command of Slurm prints, errors included."""
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False, timeout=120
        )
        return done.stdout + done.stderr

    def stop(self) -> None:
        """End jobs, then what was started here, by id, last first."""
        self.run("scancel", "--user=root")
        until = time.monotonic() + 15
        while self.run("squeue", "-h").strip() and time.monotonic() < until:
            time.sleep(0.3)
        for process in reversed(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _launch(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("wb") as out:
            env = {**os.environ, **self.environment}
            self._started.append(subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True))

    def _wait(self, condition: object, what: str) -> None:
        until = time.monotonic() + START_SECONDS
        while not condition():  # type: ignore[operator]
            if time.monotonic() > until or any(process.poll() is not None for process in self._started):
                logs = "\n".join(p.read_text(errors="replace")[-1500:] for p in self.folder.glob("*.[lo][ou][gt]"))
                raise RuntimeError(f"{what} did not start:\n{logs}")
            time.sleep(0.2)
