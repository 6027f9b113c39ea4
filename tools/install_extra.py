"""Install the packages of one extra of pyproject.toml, each by itself: `python tools/install_extra.py cluster`.

A package that cannot be installed is named, and does not keep the others away.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]


def main(extra: str) -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    for requirement in requirements:
        done = subprocess.run([*PIP, requirement], capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"not installed: {requirement}: {reason}")


if __name__ == "__main__":
    main(sys.argv[1])
