"""`thrifty check`: the simulator doctor. Three runs, each twice, in a worker process; no folder is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from thrifty.cli.options import Config, Json, Quiet


def check(
    config: Config = None,
    *,
    limit: Annotated[float, typer.Option(help="Seconds of wall time after which a run is ended.", min=1)] = 600.0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Look at the simulator before anything is spent.

    Validates the configuration and the prior; does three runs, each twice: outputs, seeds, timing noise, threads,
    room on the disk. Makes no folder.
    """
    from pathlib import Path

    from thrifty.cli.config import NAME, read_config
    from thrifty.cli.output import Screen
    from thrifty.cli.simulator_loading import load_simulator
    from thrifty.priors import check_prior
    from thrifty.runner.simulator import pack

    screen = Screen(quiet, json)
    settings = read_config(config if config is not None else Path(NAME))
    screen.step("config", f"{settings.path} ok")
    check_prior(settings.prior)
    screen.step("prior", f"{settings.prior.dim} parameters: {', '.join(settings.prior.names)}")
    simulator = load_simulator(settings)
    size = len(pack(simulator))
    screen.step("simulator", f"{_title(settings)} can be sent to workers ({size / 1000:,.0f} kB)")
    visits = _visit(settings, simulator, limit=limit)
    findings = Findings.of(visits)
    for line in findings.lines(settings):
        screen.data(line)
    screen.result(findings.as_dict())
    _check_observed(settings, findings, screen)
    screen.next("thrifty plan")
    return 0


def _title(settings: Any) -> str:
    return settings.simulator.python or " ".join(settings.simulator.command)


def _visit(settings: Any, simulator: Any, *, limit: float) -> list[tuple[Any, Any]]:
    """Three prior draws, each run twice with the same seed, one after the other in one worker."""
    import numpy as np

    from thrifty.runner.engines.processes import Processes
    from thrifty.runner.task import Job, Task

    seed = settings.plan.seed
    thetas = np.asarray(settings.prior.sample(3, np.random.default_rng(seed)), dtype=np.float64)
    engine = Processes(1)
    engine.start(Job(simulator, seed, settings.simulator.realisations, warm_up=True))
    try:
        outcomes = [_once(engine, Task(i % 3, thetas[i % 3], limit=limit)) for i in range(6)]
    finally:
        engine.stop()
    return list(zip(outcomes[:3], outcomes[3:], strict=True))


def _once(engine: Any, task: Any) -> Any:
    """One run; anything but numbers is an error that says which parameters it was."""
    from thrifty.errors import SimulatorError

    engine.submit([task])
    while not (reports := engine.wait(1.0)):
        pass
    report, theta = reports[0], ", ".join(f"{v:.4g}" for v in task.theta)
    if report.cause == "timeout":
        raise SimulatorError(
            f"theta = [{theta}] was still running after {task.limit:g} s",
            code="simulator-failed",
            fix="thrifty check --limit 3600",
        )
    if not report.outcomes:
        raise SimulatorError(
            f"the worker died at theta = [{theta}] ({report.detail})",
            code="simulator-failed",
            fix="run it by hand first",
        )
    outcome = report.outcomes[0]
    if outcome.status != "ok":
        text = outcome.error.strip().splitlines() or ["no message"]
        body = "\n    ".join(text[-12:])
        raise SimulatorError(f"theta = [{theta}] gave {outcome.status}:\n    {body}", code=_code(outcome))
    return outcome


def _code(outcome: Any) -> str:
    """The code inside the message of a worker, "[bad-output] ...", or simulator-failed: it failed."""
    import re

    found = re.search(r"^\[([a-z]+(?:-[a-z]+)+)\] ", outcome.error, re.MULTILINE)
    return found[1] if found else "simulator-failed"


@dataclass(frozen=True)
class Findings:
    """What the visit found."""

    outputs: tuple[int, ...]
    deterministic: bool
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    reported: tuple[float, ...]
    noise: float  # largest ratio of the two CPU times of one run
    threads: float  # CPU seconds per wall second
    memory: int
    same_output: bool

    @classmethod
    def of(cls, visits: list[tuple[Any, Any]]) -> Findings:
        """Compare the two runs of each draw, and the three draws."""
        from thrifty.errors import SimulatorError
        from thrifty.runner.run_one import is_same_outcome

        shapes = {a.x.shape for a, _ in visits}
        if len(shapes) > 1:
            raise SimulatorError(
                f"runs returned {' and '.join(str(shape) for shape in sorted(shapes))} values: all must have one shape",
                code="bad-output",
                fix="pad, or return summaries",
            )
        wall, cpu = (tuple(getattr(b, kind) for _, b in visits) for kind in ("wall", "cpu"))
        pairs = [(max(a.cpu, b.cpu), max(min(a.cpu, b.cpu), 1e-6)) for a, b in visits]
        return cls(
            outputs=visits[0][0].x.shape,
            deterministic=all(is_same_outcome(a, b) for a, b in visits),
            wall=wall,
            cpu=cpu,
            reported=tuple(b.reported for _, b in visits),
            noise=max(more / less for more, less in pairs),
            threads=max(b.cpu / max(b.wall, 1e-6) for _, b in visits),
            memory=max(b.memory for _, b in visits),
            same_output=all(a.x.tobytes() == visits[0][0].x.tobytes() for a, _ in visits),
        )

    def lines(self, settings: Any) -> list[str]:
        """Each finding in a line; what needs a hand begins with "warning"."""
        from thrifty.runner.progress import format_amount

        shown = ", ".join(format_amount(value, "s") for value in self.wall)
        lines = [
            f"outputs   {' x '.join(map(str, self.outputs))} numbers",
            f"runs      {shown} of wall time; {self.memory / 2**20:,.0f} MB",
        ]
        lines.append(
            "seed      same seed, same output"
            if self.deterministic
            else "warning   [ignores-seed] the same seed gave two different outputs: use the rng passed in;"
            " until then a continued campaign is not bit-identical"
        )
        if settings.cost.measure == "reported":
            lines.append(
                f"cost      {', '.join(f'{value:,.4g}' for value in self.reported)} {settings.cost.unit}, reported"
            )
        else:
            lines.append(f"timing    the same run twice differs {self.noise:.2f}x" + self._coarse())
        if self.threads > 1.5 and max(self.wall) > 0.05:
            lines.append(
                f"warning   [bad-simulator] a run used {self.threads:.1f} CPU seconds per second: it starts threads;"
                " set them to one, or workers will fight for the cores"
            )
        if self.same_output:
            lines.append(
                "warning   [constant-output] three different parameters gave the same output: does it read theta?"
            )
        if settings.cost.measure == "reported" and not all(value > 0 for value in self.reported):
            lines.append(
                'warning   [bad-cost] measure = "reported", but a run reported no cost:'
                " return thrifty.Output(x, cost=...)"
            )
        return [*lines, *self._predicted(settings)]

    def _coarse(self) -> str:
        if self.noise > 2 and max(self.cpu) > 0.005:
            return ': noisy; the cost model smooths it, and measure = "reported" avoids it'
        return "" if max(self.cpu) > 0.002 else ": too short to time well; counts (th.Output cost) are steadier"

    def _predicted(self, settings: Any) -> list[str]:
        """Room on the disk for the table."""
        import math
        import shutil

        n = (settings.plan.n or 0) + settings.plan.pilot
        size = n * (8 * math.prod(self.outputs) + 400)
        place = settings.run.folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        if size > 0.9 * free:
            return [f"warning   [disk-problem] only {free / 2**20:,.0f} MB free, {size / 2**20:,.0f} MB predicted"]
        return [f"disk      about {max(size / 2**20, 0.1):,.1f} MB for {n:,} runs, {free / 2**30:,.0f} GB free"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "ok": self.deterministic and not self.same_output}


def _check_observed(settings: Any, findings: Findings, screen: Any) -> None:
    from thrifty.cli.observed import read_observed
    from thrifty.inference.checks import read_observations

    path = settings.infer.observed
    if path is None:
        return
    if not path.exists():
        screen.say(f"note      {path.name} is not there yet; thrifty infer will want it")
        return
    event = findings.outputs[1:] if settings.simulator.realisations > 1 else findings.outputs
    count = len(read_observations(read_observed(path), event))
    screen.data(f"observed  {path.name} fits ({count} observation{'s' if count > 1 else ''})")
