"""`thrifty check`: test the simulator with three runs, each done twice, and a few more; no folder is made."""

from __future__ import annotations

import math
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thrifty.cli.commands import Config, Json, Quiet
from thrifty.cli.output import Screen
from thrifty.display import count_things
from thrifty.errors import SimulatorError

if TYPE_CHECKING:
    from thrifty.cli.config_tables import Settings

MOST_DRAWS = 40  # of the prior: enough to see whether cost varies
MORE_SECONDS = 1.0  # for the draws after the first three
MIN_CONSTANT_RUNS = 5  # with equal outputs, by which one is called constant
MAX_LISTED_NAMES = 8  # of outputs
ROW_BYTES = 400  # of a run in the store, besides its outputs
WAITING_RATIO = 3.0  # wall over CPU time of every run: with twice as many processes as cores it is 2
MIN_WAITING_SECONDS = 0.02  # of a run: to start a process waits for less
TOO_SHORT = (
    ': too short to time well; measure = "reported" under [cost], with a cost that the simulator counts, is stable'
)


def check(
    config: Config = None,
    *,
    limit: Annotated[float, typer.Option(help="Seconds of wall time after which a run is ended.", min=1)] = 600.0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Test the simulator before anything is spent.

    Checks the configuration and the prior, then does three runs, each twice: outputs, seeds, timing noise, threads,
    disk space. Where runs are short, a few more show how much cost varies. Makes no folder.
    """
    from thrifty.cli.config import NAME, read_config
    from thrifty.cli.simulator_loading import load_simulator
    from thrifty.priors import check_prior
    from thrifty.runner.simulator import pack

    screen = Screen(quiet, json)
    settings = read_config(config if config is not None else Path(NAME))
    screen.step("config", f"{settings.path} ok")
    check_prior(settings.prior)
    screen.step("prior", f"{count_things(settings.prior.dim, 'parameter')}: {', '.join(settings.prior.names)}")
    simulator = load_simulator(settings)
    size = len(pack(simulator))
    title = settings.simulator.python or " ".join(settings.simulator.command)
    screen.step("simulator", f"{title} can be sent to workers ({max(size / 1000, 0.1):,.1f} kB)")
    findings = Findings.of(*_run_with_advice(settings, simulator, limit=limit))
    for line in [*findings.lines(settings), _disk_line(settings, findings.outputs)]:
        screen.data(line)
    screen.result(findings.as_dict())
    _check_observed(settings, findings, screen)
    screen.next("thrifty plan")
    return 0


def _run_with_advice(settings: Settings, simulator: Any, *, limit: float) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Do the runs; where one fails and the prior is still the one that `thrifty init` wrote, say so."""
    from thrifty.cli.commands.init import find_unedited

    try:
        return _do_runs(settings, simulator, limit=limit)
    except SimulatorError as error:
        if not error.fix and (unedited := find_unedited(settings.text)):
            listed = ", ".join(unedited)
            error.fix = f"edit the range of {listed} in [prior] of {settings.path.name}: 0 to 1 is a placeholder"
        raise


def _do_runs(settings: Settings, simulator: Any, *, limit: float) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Run three prior draws twice with the same seed, then others while they are short, one after the other."""
    import numpy as np

    from thrifty.runner.engines.processes import Processes
    from thrifty.runner.task import Job, Task

    seed = settings.plan.seed
    thetas = np.asarray(settings.prior.sample(MOST_DRAWS, np.random.default_rng(seed)), dtype=np.float64)
    engine = Processes(1)
    engine.start(Job(simulator, seed, settings.simulator.realisations, warm_up=True, names=settings.prior.names))
    try:
        outcomes = [_run_one(engine, Task(i % 3, thetas[i % 3], limit=limit)) for i in range(6)]
        more, until = [], time.monotonic() + MORE_SECONDS
        for i in range(3, MOST_DRAWS):
            if time.monotonic() > until:
                break
            more += _submit(engine, Task(i, thetas[i], limit=MORE_SECONDS)).outcomes  # a failure is the pilot's matter
    finally:
        engine.stop()
    return list(zip(outcomes[:3], outcomes[3:], strict=True)), more


def _submit(engine: Any, task: Any) -> Any:
    engine.submit([task])
    while not (reports := engine.wait(1.0)):
        pass
    return reports[0]


def _run_one(engine: Any, task: Any) -> Any:
    """Do one run; anything but numbers is an error that names the parameters."""
    report, theta = _submit(engine, task), ", ".join(f"{v:.4g}" for v in task.theta)
    if report.cause == "timeout":
        what, fix = f"theta = [{theta}] was still running after {task.limit:g} s", "thrifty check --limit 3600"
        raise SimulatorError(what, code="simulator-failed", fix=fix)
    if not report.outcomes:
        what = f"the worker died at theta = [{theta}] ({report.detail})"
        raise SimulatorError(what, code="simulator-failed", fix="run it by hand first")
    outcome = report.outcomes[0]
    if outcome.status != "ok":
        text = outcome.error.strip().splitlines() or ["no message"]
        body = "\n    ".join(text[-12:])
        found = re.search(r"^\[([a-z]+(?:-[a-z]+)+)\] ", outcome.error, re.MULTILINE)  # "[bad-output] ..."
        code = found[1] if found else "simulator-failed"
        body = body.removeprefix(f"[{code}] ")  # it begins the message
        raise SimulatorError(f"theta = [{theta}] gave {outcome.status}:\n    {body}", code=code)
    return outcome


def _find_constant(runs: list[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """Name the outputs that had one value in all runs; none where there are few runs or outputs of several sizes."""
    import numpy as np

    if len(runs) < MIN_CONSTANT_RUNS or len({run.x.shape for run in runs}) > 1:
        return ()
    x = np.stack([run.x.ravel() for run in runs])
    same = np.flatnonzero((x == x[0]).all(0)).tolist()
    labels = names if len(names) == x.shape[1] else tuple(f"x_{i + 1}" for i in range(x.shape[1]))
    listed = tuple(labels[i] for i in same)
    return listed if len(listed) <= MAX_LISTED_NAMES else (*listed[:MAX_LISTED_NAMES], "…")


@dataclass(frozen=True)
class Findings:
    """What six runs show about a simulator, and how costs vary over a few more."""

    outputs: tuple[int, ...]
    names: tuple[str, ...]
    deterministic: bool
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    reported: tuple[float, ...]
    noise: float  # largest ratio of the two CPU times of one run
    threads: float  # CPU seconds per wall second
    memory: int
    same_output: bool
    costs: dict[str, tuple[float, ...]]  # of all draws that ended well, by kind
    constant: tuple[str, ...] = ()  # outputs with one value in all draws
    draws: int = 0

    @classmethod
    def of(cls, pairs: list[tuple[Any, Any]], more: list[Any]) -> Findings:
        """Compare the two runs of each draw, and the three draws; other runs show costs only."""
        from thrifty.runner.run_one import is_same_outcome

        shapes = {first.x.shape for first, _ in pairs}
        if len(shapes) > 1:
            what = f"runs returned {' and '.join(map(str, sorted(shapes)))} values: all must have one shape"
            raise SimulatorError(what, code="bad-output", fix="pad, or return summaries")
        first, again = zip(*pairs, strict=True)
        good = [*again, *(run for run in more if run.status == "ok")]
        times = [sorted(max(run.cpu, 1e-6) for run in pair) for pair in pairs]
        return cls(
            outputs=first[0].x.shape,
            names=tuple(first[0].names or ()),
            deterministic=all(is_same_outcome(a, b) for a, b in pairs),
            wall=tuple(run.wall for run in again),
            cpu=tuple(run.cpu for run in again),
            reported=tuple(run.reported for run in again),
            noise=max(more / less for less, more in times),
            threads=max(run.cpu / max(run.wall, 1e-6) for run in again),
            memory=max(run.memory for run in again),
            same_output=all(run.x.tobytes() == first[0].x.tobytes() for run in first),
            constant=_find_constant(good, tuple(first[0].names or ())),
            draws=len(good),
            costs={kind: tuple(getattr(run, kind) for run in good) for kind in ("cpu", "wall", "reported")},
        )

    def lines(self, settings: Settings) -> list[str]:
        """Format each finding as a line; one that needs action begins with "warning"."""
        from thrifty.durations import format_amount

        reported = settings.cost.measure == "reported"
        walls = ", ".join(format_amount(value, "s") for value in self.wall)
        found = [
            (True, f"outputs   {self._describe_outputs()}"),
            (True, f"runs      {walls} of wall time; {self.memory / 2**20:,.0f} MB"),
            (self.deterministic, "seed      same seed, same output"),
            (
                not self.deterministic,
                "warning   [ignores-seed] the same seed gave two different outputs: use the rng passed in;"
                " until then a continued campaign is not bit-identical",
            ),
            (True, f"cost      {self._describe_costs(settings)}"),
            (not reported, f"timing    the same run twice differs {self.noise:.2f}x{self._timing_note()}"),
            (
                self.threads > 1.5 and max(self.wall) > 0.05,
                f"warning   [bad-simulator] a run used {self.threads:.1f} CPU seconds per second: it starts threads;"
                " set them to one, or workers will compete for the cores",
            ),
            (
                settings.cost.measure == "cpu" and self._waits(),
                f"warning   [bad-cost] a run takes {format_amount(fmean(self.wall), 's')} and uses"
                f" {format_amount(fmean(self.cpu), 's')} of CPU time: it waits;"
                ' measure = "wall" under [cost] counts the time that it takes',
            ),
            (
                self.same_output,
                "warning   [constant-output] three different parameters gave the same output: does it read theta?",
            ),
            *((True, f"warning   {line}") for line in self._describe_command(settings)),
            (
                bool(self.constant) and not self.same_output,
                f"warning   [constant-output] {', '.join(self.constant)} had the same value in all {self.draws} runs:"
                " nothing can be learned from it",
            ),
            (
                reported and not all(value > 0 for value in self.reported),
                'warning   [bad-cost] measure = "reported", but a run reported no cost:'
                " return thrifty.Output(x, cost=...)",
            ),
        ]
        return [line for applies, line in found if applies]

    def _describe_command(self, settings: Settings) -> list[str]:
        """Say which parameters a command does not take, and that it takes no seed."""
        command = settings.simulator.command
        if not command:
            return []
        taken = set(re.findall(r"\{([A-Za-z_]\w*)", " ".join(command)))
        left = [name for name in settings.prior.names if name not in taken]
        lines = []
        if left:
            lines.append(
                f"[bad-command] the command does not mention {', '.join(left)}: nothing can be learned of"
                f" {'it' if len(left) == 1 else 'them'}; add {{{left[0]}}} to command"
            )
        if "seed" not in taken:
            lines.append(
                "[ignores-seed] the command has no {seed}: all runs with the same parameters are the same, or cannot be"
                " made again; add {seed}, unless the program uses no random numbers"
            )
        return lines

    def _describe_outputs(self) -> str:
        if len(self.outputs) > 1:
            return f"{' x '.join(map(str, self.outputs))} numbers"
        listed = ", ".join(self.names[:MAX_LISTED_NAMES]) + (", …" if len(self.names) > MAX_LISTED_NAMES else "")
        return count_things(math.prod(self.outputs), "number") + (f": {listed}" if listed else "")

    def _describe_costs(self, settings: Settings) -> str:
        """Give the range of the costs over the draws: three of them may all be cheap."""
        from thrifty.durations import format_amount

        kind, unit = settings.cost.measure, settings.cost.unit or "reported"
        costs = [value for value in self.costs[kind] if math.isfinite(value)]
        low, high = (format_amount(end, unit if kind == "reported" else "s") for end in (min(costs), max(costs)))
        varies = f", {_format_ratio(max(costs) / min(costs))}x" if min(costs) > 0 else ""
        size = count_things(len(costs), "draw")
        return f"{low} to {high} over {size} of the prior{varies}" if low != high else f"{low} in {size} of the prior"

    def _waits(self) -> bool:
        """Whether every run takes much longer than its CPU time: it sleeps, or waits for a disk or a server.

        On a busy machine some runs wait for the processor, but hardly all of them as long.
        """
        times = list(zip(self.costs["wall"], self.costs["cpu"], strict=True))
        return all(wall > WAITING_RATIO * cpu and wall - cpu > MIN_WAITING_SECONDS for wall, cpu in times)

    def _timing_note(self) -> str:
        if self.noise > 2 and max(self.cpu) > 0.005:
            return ': noisy; the cost model smooths it, and measure = "reported" avoids it'
        return "" if max(self.cpu) > 0.002 else TOO_SHORT

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "ok": self.deterministic and not self.same_output}


def _format_ratio(ratio: float) -> str:
    """Write how many times larger something is; 1x would say nothing of 1.4.

    Example:
        >>> _format_ratio(1.42), _format_ratio(1234.5)
        ('1.4', '1,234')
    """
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _disk_line(settings: Settings, outputs: tuple[int, ...]) -> str:
    """Compare the size of the table with the free space."""
    n = (settings.plan.n or 0) + settings.plan.pilot
    size = n * (8 * math.prod(outputs) + ROW_BYTES)
    place = settings.run.folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if size > 0.9 * free:
        return f"warning   [disk-problem] only {free / 2**20:,.0f} MB free, {size / 2**20:,.0f} MB predicted"
    return f"disk      about {max(size / 2**20, 0.1):,.1f} MB for {count_things(n, 'run')}, {free / 2**30:,.0f} GB free"


def _check_observed(settings: Settings, findings: Findings, screen: Screen) -> None:
    from thrifty.cli.project import read_observed
    from thrifty.inference.checks import read_observations
    from thrifty.named import split_names

    path = settings.infer.observed
    if path is None:
        return
    if not path.exists():
        screen.say(f"note      {path.name} is not there yet; thrifty infer needs it")
        return
    event = findings.outputs[1:] if settings.simulator.realisations > 1 else findings.outputs
    count = len(read_observations(split_names(read_observed(path))[0], event))
    screen.data(f"observed  {path.name} fits ({count_things(count, 'observation')})")
