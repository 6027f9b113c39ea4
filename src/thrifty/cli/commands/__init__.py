"""The commands, one per file; each returns its exit code. Here are the options that several of them share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.config_tables import ROUND_METHODS

Folder = Annotated[
    Path | None, typer.Argument(help="The run folder; by default the one in thrifty.toml.", show_default=False)
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="The configuration; by default thrifty.toml in this folder.", show_default=False
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only data and errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Redo = Annotated[
    bool,
    typer.Option(
        "--redo-failed", help="Make failed runs again, with the same parameters and random numbers; this is recorded."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", help="Local worker processes, instead of [run] workers.", show_default=False),
]
Changed = Annotated[
    bool,
    typer.Option(
        "--accept-changed-simulator", help="Continue although the simulator's code has changed; this is recorded."
    ),
]
AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="Use the finished runs although some are missing.")
]
MaxFailed = Annotated[float, typer.Option(help="Largest share of prior mass that may have failed.", min=0.0, max=1.0)]
RoundFailed = Annotated[
    float | None,
    typer.Option(
        "--max-failed",
        help="For rounds: largest share of prior mass that may fail; 0.01 by default.",
        min=0.0,
        max=1.0,
        show_default=False,
    ),
]
Observed = Annotated[
    Path | None,
    typer.Option("--observed", "-o", help="Your data, for rounds: csv, json or npy; one row each.", show_default=False),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", help="Infer in this many rounds at the observation.", min=1, show_default=False),
]
InRounds = StrEnum("InRounds", list(ROUND_METHODS))
RoundMethod = Annotated[
    InRounds | None,
    typer.Option("--method", "-m", help="For rounds, instead of [infer] method.", show_default=False),
]
