"""The paper's claims beside what we have for each: time saved, counted in three ways, MMD², and our own plain NPE."""

from __future__ import annotations

from dataclasses import dataclass

import beyond_pilot
import numpy as np
import radio
import table2
import table3
from common import Record, Value, column, paired, pick, table


@dataclass(frozen=True)
class Claim:
    """One row of the paper's tables and what we have for it: shares saved, MMD² and its change by our plain NPE's."""

    shown: str
    paper: tuple[float, float, float]
    rows: list[Value]
    plain: list[Value]
    pilot_counted: bool = False
    python: tuple[Value, ...] = ()  # the same proposal's runs as plain Python, timed

    @property
    def no_worse(self) -> bool:
        """Is MMD² as good as the paper's?"""
        return table2.verdict(self.rows, self.paper)[1]

    @property
    def effective(self) -> float:
        """Mean effective number of runs trained on."""
        runs = "effective" in self.rows[0]
        return column(self.rows, "effective").mean() if runs else column(self.rows, "ess").mean() * self.rows[0]["n"]

    def line(self) -> list[str]:
        """The cells of the row."""
        mean, _, saved = self.paper
        seen = [v for v in self.rows if "narrow" in v]
        narrow = table2.verdict(seen, self.paper, "narrow") if seen else None
        seconds = column(self.rows, "saved_seconds")
        return [self.shown, f"{saved:g}%", *self._saved(saved),
                _met(column(self.python, "saved").mean(), saved) if self.python else "–",
                f"{100 * np.median(seconds):.0f}%" if np.isfinite(seconds).any() else "–",
                f"{mean:.2f}", f"{table2.verdict(self.rows, self.paper)[0]:.3f}", _yes(self.no_worse),
                f"{narrow[0]:.3f}, {_yes(narrow[1])}" if narrow else "–", self._change()]  # fmt: skip

    def _saved(self, paper: float) -> tuple[str, str]:
        """Where the network is trained on the pilot too, the pilot counts; the paper's way of counting beside it."""
        alone = column(self.rows, "saved").mean()
        if not self.pilot_counted:
            return f"{100 * alone:.0f}%", _yes(round(100 * alone) >= paper)
        all_paid = column(self.rows, "saved_with_pilot").mean()
        counts = [_yes(round(100 * share) >= paper) for share in (all_paid, alone)]
        return f"{100 * all_paid:.0f}% ({100 * alone:.0f}%)", f"{counts[0]} ({counts[1]})"

    def _change(self) -> str:
        """Of MMD² by plain NPE with the same network, where the same seeds have one."""
        base = {v["seed"]: v["mmd2"] for v in self.plain if v.get("mmd2") is not None}
        both = [(v["mmd2"], base[v["seed"]]) for v in self.rows if v["seed"] in base and v.get("mmd2") is not None]
        return paired(*zip(*both, strict=True)) if both else "–"


def sir_claims(found: dict[str, Record]) -> list[Claim]:
    """Every row of Tables 2 and 3, and those of Table 2 with the pilot kept."""
    out = []
    for name in table2.SEEDS:
        plain = pick(found["table2"], model=name, arm="NPE")
        for arm in table2.ARMS[1:]:
            paper, shown = table2.paper_row(name, arm), f"{table2.SHOWN[name]} SIR, {arm}"
            clock = tuple(pick(found.get("seconds", {"values": []}), model=name, arm=arm))
            out.append(Claim(shown, paper, pick(found["table2"], model=name, arm=arm), plain, python=clock))
            if "beyond_pilot" in found and _power(arm) is not None:
                out += _kept(found["beyond_pilot"], name, arm, paper)
    for cost, papers in table3.PAPER.items() if "table3" in found else ():
        for arm, paper in zip(table3.ARMS, papers, strict=True):
            plain = pick(found["table2"], model="TemporalSIR", arm="NPE")
            rows = pick(found["table3"], cost=cost, arm=arm)
            out.append(Claim(f"Table 3, {cost}, {arm}", paper, rows, plain))
    return [claim for claim in out if claim.rows]


def _kept(record: Record, name: str, arm: str, paper: tuple[float, float, float]) -> list[Claim]:
    out = []
    for way, said in beyond_pilot.WAYS.items():
        if way[0] == "pooled":
            rows = beyond_pilot.rows_of(record, name, _power(arm), way)
            plain = pick(record, model=name, k=0, network=way[1])
            out.append(Claim(f"{table2.SHOWN[name]} SIR, {arm}, pilot {said}", paper, rows, plain, pilot_counted=True))
    return out


def claims(found: dict[str, Record]) -> str:
    """The paper's claims of Tables 2 and 3 and of the radio model, one line each: met or not."""
    body = []
    if "table2" in found:
        for name in table2.SEEDS:
            rows = pick(found["table2"], model=name, arm="NPE")
            paper = table2.paper_row(name, "NPE")
            mmd, good = table2.verdict(rows, paper)
            body.append([f"{table2.SHOWN[name]} SIR, plain NPE", *[""] * 5, f"{paper[0]:.2f}", f"{mmd:.3f}", _yes(good),
                         "", ""])  # fmt: skip
        body += [claim.line() for claim in sir_claims(found)]
    if "radio" in found:
        for arm, paper in radio.PAPER_SAVED.items():
            rows = pick(found["radio"], arm=arm, method="NPE")
            share = column(rows, "saved").mean()
            body.append([f"radio, {arm}", f"{paper}%", f"{100 * share:.0f}%", _yes(round(100 * share) >= paper),
                         "–", f"{100 * column(rows, 'saved_seconds').mean():.0f}%", *[""] * 5])  # fmt: skip
    head = ["claim", "saved, paper", "saved, ours", "at least", "plain Python, CPU s", "compiled, CPU s", "MMD², paper",
            "MMD², ours", "no worse", "with the paper's kernel", "less our plain NPE's"]  # fmt: skip
    return table(head, body)


def _met(share: float, paper: float) -> str:
    """A share saved, and whether it reaches the paper's."""
    return f"{100 * share:.0f}%, {_yes(round(100 * share) >= paper)}"


def _power(arm: str) -> float | None:
    return float(arm[2:]) if arm.startswith("k=") else None


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"
