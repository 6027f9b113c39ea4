"""The command line: the steps of the library with files between them, one command per file.

    thrifty init | check | plan | run | resume | status | infer | report | verify | export | replay | worker | reproduce

`config.py` reads `thrifty.toml`, `simulator_loading.py` alone loads the user's code, `output.py` turns errors into
messages and exit codes. Large libraries are imported inside the commands, so that `thrifty --help` answers at once.
"""

from thrifty.cli.main import main

__all__ = ["main"]
