"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path | None, typer.Argument(help="The run folder; the one of thrifty.toml when left out.", show_default=False)
]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration; thrifty.toml here by default.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Data and errors only.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", help="Local worker processes, instead of the file's.", show_default=False),
]
Changed = Annotated[
    bool,
    typer.Option("--accept-changed-simulator", help="Go on although the simulator's code changed; it is recorded."),
]
