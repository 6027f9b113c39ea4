"""`thrifty export`: write the table of a run folder, with its weights, for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.commands import AllowIncomplete, Config, Folder, Json, MaxFailed, Quiet
from thrifty.cli.output import Screen
from thrifty.display import count_things
from thrifty.errors import ConfigError

Format = StrEnum("Format", ["npz", "csv", "parquet", "sbi"])
_NOTES = {
    "npz": 'read it: thrifty.Simulations.from_npz("{path}"), or numpy.load',
    "csv": "weights are in log_weight: without them the parameters follow the cheap proposal, not your prior",
    "parquet": 'read it: thrifty.Simulations.from_parquet("{path}"), or pandas',
    "sbi": 'read it: torch.load("{path}", weights_only=True); use log_weights, or Simulations.to_sbi() for a proposal',
}


def export(
    folder: Folder = None,
    *,
    to: Annotated[Format, typer.Option("--to", "-t", help="npz, csv, parquet, or sbi (torch tensors).")] = Format.npz,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write.", show_default=False)] = None,
    config: Config = None,
    allow_incomplete: AllowIncomplete = False,
    max_failed: MaxFailed = 0.01,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Write the table for other tools.

    Theta, x, weights, cost and status in one file. Executes no code from the folder.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.project import check_has_runs, find_folder, infer_command

    screen = Screen(quiet, json)
    place, kind = find_folder(folder, config), str(to)
    path = out if out is not None else Path(f"{place.resolve().name}.{'pt' if kind == 'sbi' else kind}")
    if path.exists() and not force:
        raise ConfigError(
            f"{path} exists already", code="already-exists", why="nothing is overwritten", fix="--force, or --out FILE"
        )
    campaign = Campaign.open(place)
    check_has_runs(
        campaign,
        allow_incomplete=allow_incomplete,
        why="pilots only measure what a run costs; --allow-incomplete writes them",
    )
    simulations = campaign.simulations(allow_incomplete=allow_incomplete, max_failed=max_failed)
    part = path.with_name(f".{path.name}.part")
    writers = {
        "npz": simulations.to_npz, "csv": simulations.to_csv, "parquet": simulations.to_parquet,
        "sbi": lambda file: _write_tensors(simulations, file),
    }  # fmt: skip
    try:
        writers[kind](part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    screen.data(f"{path}: {count_things(len(simulations), 'run')}, {path.stat().st_size / 2**20:,.2f} MB")
    screen.result({"path": path, "runs": len(simulations), "bytes": path.stat().st_size, "format": kind})
    screen.say(_NOTES[kind].format(path=path))
    screen.next(infer_command(place, config))
    return 0


def _write_tensors(simulations: Any, path: Path) -> None:
    """Write theta, x and weights as tensors; the proposal object exists in Python only (`Simulations.to_sbi`)."""
    import numpy as np

    from thrifty.errors import import_extra

    torch = import_extra("torch", "neural")
    table = simulations.to_sbi()
    usable = simulations.ok & (simulations.log_weights > -np.inf)  # the rows that to_sbi keeps
    weights = torch.as_tensor(simulations[usable].pairs()[2].copy())
    torch.save({"theta": table.theta, "x": table.x, "log_weights": weights}, path)
