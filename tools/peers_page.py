"""Write how thrifty's methods stand beside plain NPE and beside their peers, from the records of the benchmark.

Where a peer is ahead of thrifty's default by a t test over seeds, `REASONS` says why. A test fails where the records
name a winner without a reason, or a reason has outlived its winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from real_simulators_page import write_table

from thrifty.benchmark import METHODS, Record, find_problem
from thrifty.benchmark.benchmark_summary import (
    BASELINE,
    LEVEL,
    Gap,
    Ratio,
    compare_accuracy,
    compare_cost,
    find_middle_budget,
    price_accuracy,
)
from thrifty.benchmark.records import pick

# (problem, peer) -> why the peer is ahead there: a sentence
REASONS: dict[tuple[str, str], str] = {}

DEFAULTS = {False: "npe-aware", True: "rounds-nle-aware"}  # by whether the posterior is narrow: what a user is told
PEERS = tuple(name for name in METHODS if name.startswith(("sbi", "pyabc")))
PAPER = tuple(name for name in METHODS if name.startswith("paper"))
STEERED = tuple(name for name in METHODS if name.startswith(("smcabc", "rounds")))
GROUPS = {  # title -> methods, as on the page and in its figures
    "thrifty, one fit for all observations": tuple(m for m in METHODS if m not in (*PEERS, *PAPER, *STEERED)),
    "thrifty, a fit for each observation": STEERED,
    "the paper's scheme": PAPER,
    "peers": PEERS,
}


def find_default(problem: str) -> str:
    """Return the method that thrifty recommends for a problem."""
    return DEFAULTS[find_problem(problem).narrow]


def write_costs(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Write what each method pays for its accuracy, over what plain NPE pays, a table for each group."""
    tables = [table for title, group in GROUPS.items() if (table := _write_group(records, problems, title, group))]
    if not tables:
        return "No problem has records of plain NPE and of another method at the same place yet."
    text = (
        "What a method pays at the middle budget, over what plain NPE pays for the same C2ST; below 1 the method is"
        " cheaper. Over the same places; ± is the jackknife error over seeds. `<`: plain NPE is less accurate even at"
        " its largest budget, `>`: it is as accurate at its smallest, so that the number is a bound; `?`: another kind"
        " of number without one of the seeds, or one seed only; –: no records. The median is over problems; it is `?`"
        " between bounds of both kinds."
    )
    return "\n\n".join([text, *tables])


def _write_group(records: Sequence[Record], problems: Sequence[str], title: str, group: Sequence[str]) -> str:
    found = {m: [price_accuracy(records, name, m) for name in problems] for m in group if m != BASELINE}
    found = {m: ratios for m, ratios in found.items() if any(ratios)}
    rows = [[name, *(format_price(ratios[i]) for ratios in found.values())] for i, name in enumerate(problems)]
    rows = [row for row in rows if set(row[1:]) - {"–"}]
    if not rows:
        return ""
    rows.append(["median", *(format_median(ratios) for ratios in found.values())])
    return f"**{title[0].upper()}{title[1:]}**\n\n" + write_table(["problem", *found], rows)


def format_price(ratio: Ratio | None) -> str:
    """Format a ratio of costs that is bounded by the largest and the smallest budget of plain NPE.

    Example:
        >>> format_price(Ratio(0.5, 0.1, "", 5)), format_price(Ratio(0.33, 0.1, "<", 5, False)), format_price(None)
        ('0.50 ± 0.10', '< 0.33 ?', '–')
    """
    if ratio is None:
        return "–"
    known = f"{ratio.bound} {ratio.value:.2g}" if ratio.bound else f"{ratio.value:.2f} ± {ratio.error:.2f}"
    return known if ratio.steady else f"{known.partition(' ±')[0]} ?"


def format_ratio(ratio: Ratio | None) -> str:
    """Format a ratio of costs that is not known where an accuracy is not reached.

    Example:
        >>> format_ratio(Ratio(0.5, 0.1, "", 5)), format_ratio(Ratio(float("nan"), float("nan"), ">", 5))
        ('0.50 ± 0.10', 'not reached')
    """
    if ratio is None:
        return "–"
    if ratio.bound == ">":
        return "not reached" if ratio.steady else "not reached ?"
    return format_price(ratio)


def format_median(ratios: Sequence[Ratio | None]) -> str:
    """Format the median over problems, with the bound of what lies there; "?" between bounds of both kinds.

    Example:
        >>> low, high = Ratio(0.33, 0.1, "<", 5), Ratio(3.3, 0.1, ">", 5)
        >>> format_median([Ratio(0.5, 0.1, "", 5), low, high, None]), format_median([low]), format_median([low, high])
        ('0.50', '< 0.33', '?')
    """
    found = sorted((ratio for ratio in ratios if ratio is not None), key=lambda ratio: ratio.value)
    middle = found[(len(found) - 1) // 2 : len(found) // 2 + 1]
    bounds = {ratio.bound for ratio in middle if ratio.bound}
    if len(bounds) > 1:
        return "?"
    value = float(np.exp(np.mean([np.log(ratio.value) for ratio in middle])))
    return f"{bounds.pop()} {value:.2g}" if bounds else f"{value:.2f}"


def compare_peers(records: Sequence[Record], problem: str) -> dict[str, Gap]:
    """Compare the default of a problem with every peer at the middle budget; peer -> C2ST of the default less its."""
    if not pick(records, problem=problem, error=""):
        return {}
    default, budget = find_default(problem), find_middle_budget(records, problem)
    gaps = {peer: compare_accuracy(records, problem, default, peer, budget=budget) for peer in PEERS}
    return {peer: gap for peer, gap in gaps.items() if gap is not None}


def find_winners(records: Sequence[Record], problems: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (problem, peer) where a peer is clearly ahead."""
    for problem in problems:
        for peer, gap in compare_peers(records, problem).items():
            if gap.is_clear and gap.value > 0:
                yield problem, peer


def find_wrong_reasons(records: Sequence[Record], problems: Sequence[str]) -> list[str]:
    """List winners without a reason, and reasons without a winner."""
    winners = set(find_winners(records, problems))
    missing = [f"{peer} is ahead on {problem}: say why" for problem, peer in sorted(winners - REASONS.keys())]
    return missing + [f"{peer} is not ahead on {problem}" for problem, peer in sorted(REASONS.keys() - winners)]


def write_verdict(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Say in one sentence on how many problems thrifty's default is ahead of its best peer, and on how many behind."""
    found: dict[str, list[str]] = {"thrifty": [], "not told apart": [], "peer": []}
    prices: list[Ratio | None] = []
    for name in problems:
        gaps = compare_peers(records, name)
        if gaps:
            found[judge(find_best(gaps)[1])].append(name)
            prices.append(price_accuracy(records, name, find_default(name)))
    count = sum(map(len, found.values()))
    if not count:
        return "There are no records of thrifty's default beside a peer yet."
    ahead, level, behind = (" ".join([str(len(n)), *(["(" + ", ".join(n) + ")"] if n else [])]) for n in found.values())
    text = (
        f"- Problems with known posteriors: {count}. At the middle budget, thrifty's default is clearly more accurate"
        f" than the best of {len(PEERS)} methods of sbi and pyABC on {ahead}, cannot be told from it on {level}, and is"
        f" clearly less accurate than one of them on {behind}."
        " [The table and the reasons](#where-a-peer-is-ahead)."
    )
    if any(prices):
        middle = format_median(prices)
        known = (
            f"pays {middle} of what plain NPE pays" if middle != "?" else "pays less or more than plain NPE by problem"
        )
        text += (
            f"\n- For the same accuracy the default {known} (median over these problems)."
            " [Method by method](#cost-for-the-same-accuracy-as-plain-npe)."
        )
    return text


def find_best(gaps: Mapping[str, Gap]) -> tuple[str, Gap]:
    """Find the peer that is furthest ahead: of those that are clearly ahead if there are any, else of all.

    One with a larger difference and a larger error hides none that is clearly ahead; nor does one with a single seed.
    """
    clear = [peer for peer, gap in gaps.items() if gap.is_clear and gap.value > 0]
    known = [peer for peer, gap in gaps.items() if np.isfinite(gap.error)]
    best = max(clear or known or gaps, key=lambda peer: gaps[peer].value)
    return best, gaps[best]


def judge(gap: Gap) -> str:
    """Name who is clearly ahead."""
    return "not told apart" if not gap.is_clear else "peer" if gap.value > 0 else "thrifty"


def write_losses(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Hold thrifty's default for each kind of problem against its best peer, and say why where a peer is ahead."""
    rows = []
    for name in problems:
        gaps = compare_peers(records, name)
        if gaps:
            rows.append(_compare_with_best(records, name, *find_best(gaps)))
    if not rows:
        return "No problem has records of thrifty's default and of a peer at the same budget and place yet."
    winners = list(find_winners(records, problems))
    text = (
        "Thrifty's default is cost-aware NPE, and cost-aware rounds of NLE where the posterior is narrow: below a"
        " thousandth of the prior at all three observations. A user sees that in a first posterior; here it is known"
        " from the exact one. Difference: the default's C2ST less that of the peer at the middle budget, over the same"
        f" places, ± its standard error over seeds; above 0 the peer is more accurate. A t test at {LEVEL:.0%} says who"
        " is ahead; what it cannot tell apart need not be equal. Of equal methods it calls one in twenty apart, half of"
        " them in favour of the peer. The peer shown is the one furthest ahead, of those that are clearly ahead if"
        " there are any. Cost ratio: what the default pays to be as accurate as that peer, over what the peer paid, ±"
        " its jackknife error; below 1 the default is cheaper; `<`: its smallest budget was enough; `not reached`: its"
        " largest was not; `?`: another kind of number without one of the seeds. "
    )
    ahead = ", ".join(dict.fromkeys(problem for problem, _ in winners))
    text += f"A peer is clearly ahead on {ahead}." if winners else "No peer is clearly ahead on these records."
    head = ["problem", "default", "peer", "difference", "cost ratio", "seeds", "ahead"]
    reasons = [f"- {', '.join(winner)}: {REASONS.get(winner, 'not explained yet.')}" for winner in winners]
    why = ["Why:\n\n" + "\n".join(reasons)] if reasons else []
    return "\n\n".join([text, write_table(head, rows), *why])


def _compare_with_best(records: Sequence[Record], problem: str, peer: str, gap: Gap) -> list[str]:
    default, budget = find_default(problem), find_middle_budget(records, problem)
    shown = f"{gap.value:+.3f}" + (f" ± {gap.error:.3f}" if np.isfinite(gap.error) else "")
    ratio = compare_cost(records, problem, default, baseline=peer, budget=budget)
    return [problem, default, peer, shown, format_ratio(ratio), str(gap.seeds), judge(gap)]
