"""The command line: the steps of the library with files between them, one command a file.

    thrifty init | check | plan | run | resume | status | infer | report | verify | export | replay | worker | reproduce

`config.py` reads `thrifty.toml`, `simulators.py` alone loads the user's code, `entry.py` turns errors into messages and
exit codes. Everything heavy is imported inside the commands, so that `thrifty --help` answers at once.
"""

from thrifty.cli.main import main

__all__ = ["main"]
