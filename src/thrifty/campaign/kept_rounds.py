"""Read what a folder keeps of inference in rounds: the runs of each round, and how the posterior was judged after it.

The blocks of a sequential method follow those of pilot and plan. Blocks of one proposal are one round. Round 0 is all
that was drawn before the first proposal that a posterior chose: pilot, plan, and draws from the prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thrifty.campaign.settings import CampaignSettings
from thrifty.store.validate import Block, Part

MAX_KEPT_ROUNDS = 1_000  # in a folder of anyone: more are not shown


@dataclass(frozen=True)
class KeptRound:
    """One round of a folder.

    Attributes:
        blocks: Numbers of its committed blocks.
        n: Its draws.
        kind: Kind of its proposal: "prior", "kernel", "truncated" or "cost_aware".
        volume: Share of the prior that the posterior takes after it; NaN before it was judged, and where a parameter
            takes whole numbers or categories.
        moved: How far the posterior moved in it, in its standard deviations; NaN in the first and before it was judged.
        seconds: Wall seconds of training and drawing; NaN before it was judged.
        judged: Whether a posterior was fitted after it.
    """

    blocks: tuple[int, ...]
    n: int
    kind: str
    volume: float
    moved: float
    seconds: float = math.nan
    judged: bool = False


def read_rounds(
    settings: CampaignSettings, blocks: Sequence[Block], parts: Mapping[int, Part]
) -> tuple[KeptRound, ...]:
    """Read the rounds of a folder, in order; empty where none was asked for.

    Example:
        >>> from thrifty.campaign.settings import CampaignSettings
        >>> made = CampaignSettings(0, 1, "cpu", None, {"names": ["a"]}, {}, generations=1,
        ...     rounds={"identity": {}, "judged": [{"volume": 0.1, "moved": None}], "draws": []})
        >>> blocks = [Block(0, 0, 0, 20, "pilot", 20), Block(1, 0, 20, 40, "n", 40), Block(2, 1, 60, 60, "n", 60)]
        >>> parts = {0: Part("prior", {"kind": "prior"}), 1: Part("kernel", {"kind": "kernel"})}
        >>> [(one.n, one.kind, one.judged) for one in read_rounds(made, blocks, parts)]
        [(60, 'prior', True), (60, 'kernel', False)]
    """
    if settings.rounds is None:
        return ()
    judged = settings.rounds.get("judged")
    judged = judged if isinstance(judged, list) else []
    found = []
    for number, group in enumerate(_group_blocks(settings, blocks, parts)[:MAX_KEPT_ROUNDS]):
        figures = judged[number] if number < len(judged) and isinstance(judged[number], dict) else {}
        kind = parts[group[-1].part].kind if number else "prior"
        volume, moved, seconds = (_to_number(figures.get(key)) for key in ("volume", "moved", "seconds"))
        ids, n = tuple(block.id for block in group), sum(block.n for block in group)
        found.append(KeptRound(ids, n, kind, volume, moved, seconds, judged=bool(figures)))
    return tuple(found)


def _group_blocks(settings: CampaignSettings, blocks: Sequence[Block], parts: Mapping[int, Part]) -> list[list[Block]]:
    """Group the blocks by round."""
    first = settings.generations or 0
    groups: list[list[Block]] = [[block for block in blocks[:first] if block.admitted]]
    recipe: Any = None
    for block in blocks[first:]:
        part = parts[block.part]
        if part.kind != "prior" and part.recipe != recipe:
            groups.append([])
            recipe = part.recipe
        groups[-1].append(block)
    return groups if groups[0] or len(groups) > 1 else []


def _to_number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
