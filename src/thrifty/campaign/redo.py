"""Run failed runs again after the simulator was corrected.

Index, parameters and random numbers of a run are fixed when it is drawn, so the run that is made again is the one that
the corrected simulator would have made in the first place. All failed runs are made again, never some: to choose among
them would change the prior. Time-outs are no failures of the code; `on_timeout="extend"` runs those again.
"""

from __future__ import annotations

from thrifty.campaign.opened import OpenCampaign, Session
from thrifty.display import count_things
from thrifty.errors import CampaignError, ConfigError, warn
from thrifty.runner.causes import list_causes
from thrifty.store.read import known_shape
from thrifty.store.sums import count_statuses, find_causes, find_failed, sum_costs


def begin_redo(session: Session) -> int:
    """Make the failed runs of a folder pending, before anything is planned; return how many there were."""
    with session.writing() as opened:
        session.checked_simulator(opened)
        return forget_failed(opened)


def forget_failed(opened: OpenCampaign) -> int:
    """Make every failed run pending, time-outs excepted, and note it in the folder; return how many there were.

    What they took stays counted as spent.

    Raises:
        CampaignError: ignores-seed, a run made again would have other random numbers.
        ConfigError: conflicting-settings, a method that steers its own runs has learned from these, other runs were
            timed out, or a budget was planned with what the failed runs took.
    """
    store, settings = opened.store, opened.settings
    shape = ",".join(map(str, known_shape(store, settings.shape)))
    failed = find_failed(store, shape)
    if not failed:
        return 0
    if not settings.deterministic:
        raise CampaignError(
            f"redo_failed: {count_things(len(failed), 'failed run')} of {store.folder} cannot be made again, since the"
            " simulator ignores its seed",
            code="ignores-seed",
            why="to repeat failed runs with other random numbers changes the prior",
            fix="use the rng (or seed) that is passed in, and a new folder",
        )
    if settings.generations is not None and len(failed) < store.count_runs():
        raise ConfigError(
            f"redo_failed: the runs of {store.folder} were drawn in rounds, which have learned from earlier runs",
            code="conflicting-settings",
            why="later draws rest on the runs that failed",
            fix="a new folder",
        )
    if count_statuses(store, shape)["timeout"]:
        raise ConfigError(
            f"redo_failed: other runs of {store.folder} were timed out",
            code="conflicting-settings",
            why="a failed run that is made again could pass the time limit, which it did not do before: the weights of"
            " timed-out runs would be wrong",
            fix='finish the timed-out runs first, run(time_limit=..., on_timeout="extend"), or use a new folder',
        )
    if settings.budget is not None:
        raise ConfigError(
            f"redo_failed: the runs of {store.folder} were planned under the budget {settings.budget}",
            code="conflicting-settings",
            why="failed runs took less than others, so that the budget paid for more draws than it can finish",
            fix="a new folder with the corrected simulator; this one still answers with the runs that it has",
        )
    causes = list_causes(find_causes(store, shape))
    note = f"{count_things(len(failed), 'failed run')} made again (redo_failed): {causes}"
    if settings.notes and settings.notes[-1] == note:  # a changed simulator would have been noted since
        warn(
            f"[too-many-failures] redo_failed: the same {count_things(len(failed), 'run')} failed again when they were"
            " made again last, and the simulator has not changed since: they are left as they are"
        )
        return 0
    with store.transaction():
        store.add_discarded(sum_costs(store, failed))
        store.forget(failed)
        opened.keep(notes=(*settings.notes, note))
    return len(failed)
