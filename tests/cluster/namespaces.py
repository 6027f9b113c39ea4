"""Three network namespaces joined by virtual cables: `hub` (10.77.0.1), and two leaves that can be cut off."""

from __future__ import annotations

import os
import subprocess


class Namespaces:
    """Make three namespaces with a bridge in the first; delete them in the end, and nothing else."""

    def __init__(self) -> None:
        self.names = [f"thrifty-{os.getpid()}-{i}" for i in range(3)]
        self.hub, *self.leaves = self.names

    def make(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.hub, "addr", "add", "10.77.0.1/24", "dev", "bridge")
        _ip("-n", self.hub, "link", "set", "bridge", "up")
        for i, leaf in enumerate(self.leaves):
            # both ends are born inside their namespaces: the machine's own network never sees them
            _ip("-n", self.hub, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", leaf)
            _ip("-n", self.hub, "link", "set", f"port{i}", "master", "bridge", "up")
            _ip("-n", leaf, "addr", "add", f"10.77.0.{2 + i}/24", "dev", "eth0")
            _ip("-n", leaf, "link", "set", "eth0", "up")

    def command(self, name: str, *command: str) -> list[str]:
        """A command inside a namespace."""
        return ["ip", "netns", "exec", name, *command]

    def set_cable(self, leaf: int, state: str) -> None:
        """Cut a leaf off ("down"), or join it again ("up")."""
        _ip("-n", self.hub, "link", "set", f"port{leaf}", state)

    def delete(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
