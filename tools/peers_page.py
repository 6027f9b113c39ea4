"""Write how thrifty's methods stand beside plain NPE and beside their peers, from the records of the benchmark.

Where a peer is ahead of one of thrifty's defaults by a t test over seeds, `REASONS` says why. A test fails where the
records name a winner without a reason, or a reason has outlived its winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from real_simulators_page import format_mean, write_table

from thrifty.benchmark import METHODS, Record
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
from thrifty.display import count_things

# (problem, default, peer) -> why the peer is ahead there: a sentence
_EASY_LIKELIHOOD = (
    "{statistics} follow nearly a normal law at given parameters. NLE learns that from few runs, while NPE learns a"
    " posterior of {parameters} parameters for every observation. Thrifty's own NLE and its rounds have the same"
    " advantage, see the tables above. The ceiling is near 1 here, so that a penalty cannot make up for it."
)
REASONS: dict[tuple[str, str, str], str] = {
    ("bernoulli_glm", "npe-aware", "sbi-nle"): _EASY_LIKELIHOOD.format(statistics="ten sums", parameters="ten"),
    ("radio", "npe-aware", "sbi-nle"): _EASY_LIKELIHOOD.format(statistics="the six statistics", parameters="four"),
}

PEERS = tuple(name for name in METHODS if name.startswith(("sbi", "pyabc")))
PAPER = tuple(name for name in METHODS if name.startswith("paper"))
STEERED = tuple(name for name in METHODS if name.startswith(("smcabc", "rounds")))
GROUPS = {  # title -> methods, as on the page and in its figures
    "thrifty, one fit for all observations": tuple(m for m in METHODS if m not in (*PEERS, *PAPER, *STEERED)),
    "thrifty, a fit for each observation": STEERED,
    "the paper's scheme": PAPER,
    "peers": PEERS,
}
LEAST_PROBLEMS = 3  # of a median
MORE = 1.01  # cost ratio from which a peer paid less: budgets are used up to a part of a run

# problems on which settings of thrifty's rounds were chosen, or that had shown faults which led to them
DEVELOPED = ("lotka_volterra", "slcp", "gaussian_8", "gaussian_2", "counts")
SEEN = (*DEVELOPED, "two_moons")
# what a user is told to take, by what is asked -> (its name in words, peers that answer the same)
DEFAULTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "one observation": ("rounds-nle-aware", "cost-aware rounds of NLE", PEERS),
    "many observations": ("npe-aware", "cost-aware NPE", ("sbi-npe", "sbi-nle")),
}


def write_costs(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Write what each method pays for its accuracy, over what plain NPE pays, a table for each group."""
    tables = [table for title, group in GROUPS.items() if (table := _write_group(records, problems, title, group))]
    if not tables:
        return "No problem has records of plain NPE and of another method at the same place yet."
    text = (
        "What a method pays at the middle budget, over what plain NPE pays for the same C2ST; below 1 the method is"
        " cheaper. Over the same places; ± is the jackknife error over seeds. `<`: plain NPE is less accurate even at"
        " its largest budget, `>`: it is as accurate at its smallest, so that the number is a bound; `?`: leaving"
        " out one seed turns the number into a bound or a bound into a number, or there is one seed; –: no records. The"
        " median is over problems, three at least; it is `?` between bounds of both kinds. Cost counts simulation only:"
        " training is in [a table of its own](#cpu-seconds-of-training-beside-simulation)."
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
        >>> format_median([Ratio(0.5, 0.1, "", 5), low, high, None]), format_median([low] * 3)
        ('0.50', '< 0.33')
        >>> format_median([low, low, high, high]), format_median([low, high])
        ('?', '–')
    """
    found = sorted((ratio for ratio in ratios if ratio is not None), key=lambda ratio: ratio.value)
    if len(found) < LEAST_PROBLEMS:
        return "–"
    middle = found[(len(found) - 1) // 2 : len(found) // 2 + 1]
    bounds = {ratio.bound for ratio in middle if ratio.bound}
    if len(bounds) > 1:
        return "?"
    value = float(np.exp(np.mean([np.log(ratio.value) for ratio in middle])))
    return f"{bounds.pop()} {value:.2g}" if bounds else f"{value:.2f}"


def write_pairs(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Write by how much cost-aware sampling changes the accuracy of each method at the same budget."""
    plain = [name for name in METHODS if f"{name}-aware" in METHODS]
    found = {name: {p: gap for p in problems if (gap := _compare_pair(records, p, name))} for name in plain}
    found = {name: gaps for name, gaps in found.items() if gaps}
    if not found:
        return "No method has records with and without a penalty at the same budget and place yet."
    rows = [[p, *(format_gap(gaps.get(p)) for gaps in found.values())] for p in problems]
    means = [np.array([gap.value for gap in gaps.values()]) for gaps in found.values()]
    rows = [row for row in rows if set(row[1:]) - {"–"}] + [["mean", *(format_mean(values, 3) for values in means)]]
    text = (
        "C2ST of the cost-aware method less that of the plain one at the middle budget, over the same places, ± the"
        f" standard error over seeds; below 0 cost-aware sampling is more accurate. `*`: a t test at {LEVEL:.0%} tells"
        " them apart. The last row has the mean over problems ± its standard error over them. The ceiling in the"
        " table of problems bounds effective runs over the whole prior, not C2ST at one observation."
    )
    return text + "\n\n" + write_table(["problem", *found], rows)


def write_part_of_penalty(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Say what the penalty alone changes, for the methods behind both defaults."""
    parts = []
    for name in (default.removesuffix("-aware") for default, *_ in DEFAULTS.values()):
        gaps = [gap.value for p in problems if (gap := _compare_pair(records, p, name))]
        if len(gaps) >= LEAST_PROBLEMS:
            parts.append(f"{name} {format_mean(np.array(gaps), 3)} ({count_things(len(gaps), 'problem')})")
    if not parts:
        return ""
    return (
        "- The rest of these differences comes from networks and rounds. What the penalty alone changes in C2ST, mean"
        f" over problems, below 0 for more accurate: {', '.join(parts)}."
        " [Method by method](#cost-aware-beside-plain)."
    )


def _compare_pair(records: Sequence[Record], problem: str, method: str) -> Gap | None:
    if not pick(records, problem=problem, error=""):
        return None
    budget = find_middle_budget(records, problem)
    return compare_accuracy(records, problem, f"{method}-aware", method, budget=budget)


def format_gap(gap: Gap | None) -> str:
    """Format a difference, with a star where it is clear.

    Example:
        >>> format_gap(Gap(-0.1, 0.01, 8, 5, 3)), format_gap(Gap(0.1, float("nan"), 0, 1, 3)), format_gap(None)
        ('-0.100 ± 0.010 *', '+0.100', '–')
    """
    if gap is None:
        return "–"
    error = f" ± {gap.error:.3f}" if np.isfinite(gap.error) else ""
    return f"{gap.value:+.3f}{error}{' *' if gap.is_clear else ''}"


def compare_peers(records: Sequence[Record], problem: str, asked: str) -> dict[str, Gap]:
    """Compare a default on a problem with every peer at the middle budget; peer -> C2ST of the default less its."""
    if not pick(records, problem=problem, error=""):
        return {}
    (default, _, peers), budget = DEFAULTS[asked], find_middle_budget(records, problem)
    gaps = {peer: compare_accuracy(records, problem, default, peer, budget=budget) for peer in peers}
    return {peer: gap for peer, gap in gaps.items() if gap is not None}


def find_winners(records: Sequence[Record], problems: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (problem, default, peer) where a peer is clearly ahead, or the best one paid less for its accuracy."""
    for asked, (default, *_) in DEFAULTS.items():
        for problem in problems:
            gaps = compare_peers(records, problem, asked)
            for peer, gap in gaps.items():
                if (gap.is_clear and gap.value > 0) or (
                    peer == find_best(gaps)[0] and _costs_more(compare_with(records, problem, default, peer))
                ):
                    yield problem, default, peer


def compare_with(records: Sequence[Record], problem: str, default: str, peer: str) -> Ratio | None:
    """Return what a default pays for the accuracy of a peer at the middle budget, over what the peer paid."""
    budget = find_middle_budget(records, problem)
    return compare_cost(records, problem, default, baseline=peer, budget=budget)


def _costs_less(price: Ratio | None) -> bool:
    return price is not None and price.bound != ">" and price.value < 1


def _costs_more(ratio: Ratio | None) -> bool:
    return ratio is not None and (ratio.bound == ">" or ratio.value > MORE)


def find_wrong_reasons(records: Sequence[Record], problems: Sequence[str]) -> list[str]:
    """List winners without a reason, and reasons without a winner."""
    winners = set(find_winners(records, problems))
    missing = [f"{peer} is ahead of {ours} on {on}: say why" for on, ours, peer in sorted(winners - REASONS.keys())]
    return missing + [f"{peer} is not ahead of {ours} on {on}" for on, ours, peer in sorted(REASONS.keys() - winners)]


def write_verdict(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Say in a sentence for each default on how many problems it is ahead of its best peer, and on how many behind."""
    lines = [line for asked in DEFAULTS if (line := _judge_default(records, problems, asked))]
    return "\n".join(lines) or "There are no records of thrifty's defaults beside a peer yet."


def _judge_default(records: Sequence[Record], problems: Sequence[str], asked: str) -> str:
    found: dict[str, list[str]] = {"thrifty": [], "not told apart": [], "peer": []}
    prices: list[Ratio | None] = []
    default, words, peers = DEFAULTS[asked]
    cheaper, untested = 0, 0
    for name in problems:
        gaps = compare_peers(records, name, asked)
        if gaps:
            best, gap = find_best(gaps)
            found[judge(gap)].append(name)
            untested += not np.isfinite(gap.error)
            cheaper += not _costs_more(compare_with(records, name, default, best))
            prices.append(price_accuracy(records, name, default))
    count = sum(map(len, found.values()))
    if not count:
        return ""
    ahead, level, behind = (" ".join([str(len(n)), *(["(" + ", ".join(n) + ")"] if n else [])]) for n in found.values())
    text = (
        f"- {asked.capitalize()}, {count_things(count, 'problem')} with known posteriors, the middle budget: {words}"
        f" (`{default}`) is clearly more accurate than the best of {len(peers)} methods of sbi and pyABC on {ahead},"
        f" cannot be told from it on {level}, and is clearly less accurate than one of them on {behind}. It reached the"
        f" accuracy of that method for no more than the method paid on {cheaper} of {count}."
    )
    if untested:
        text += f" On {untested} of them the closest method has too few seeds for a test."
    middle, less = format_median(prices), sum(_costs_less(price) for price in prices)
    if middle in "?–":
        return text + " [The table](#where-a-peer-is-ahead)."
    text += (
        f" For the same accuracy it pays {middle} of what plain NPE pays in simulation (median over problems; less on"
        f" {less} of {count})."
    )
    return text + " [The table](#where-a-peer-is-ahead)."


def find_best(gaps: Mapping[str, Gap]) -> tuple[str, Gap]:
    """Find the peer that is furthest ahead: of those that are clearly ahead if there are any, else of all.

    One with a larger difference and a larger error hides none that is clearly ahead.
    """
    clear = [peer for peer, gap in gaps.items() if gap.is_clear and gap.value > 0]
    best = max(clear or gaps, key=lambda peer: gaps[peer].value)
    return best, gaps[best]


def judge(gap: Gap) -> str:
    """Name who is clearly ahead."""
    return "not told apart" if not gap.is_clear else "peer" if gap.value > 0 else "thrifty"


def write_losses(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Hold both of thrifty's defaults against their best peers, and say why where a peer is ahead."""
    tables = []
    for asked, (default, words, peers) in DEFAULTS.items():
        found = {name: gaps for name in problems if (gaps := compare_peers(records, name, asked))}
        rows = [_compare_with_best(records, name, default, *find_best(gaps)) for name, gaps in found.items()]
        if rows:
            head = ["problem", "peer", "difference", "cost ratio", "seeds", "ahead"]
            title = f"**{asked.capitalize()}: {words} (`{default}`) beside {', '.join(peers)}**"
            tables += [title, write_table(head, rows), _average_over_problems(found, default, peers)]
    if not tables:
        return "No problem has records of a default of thrifty and of a peer at the same budget and place yet."
    winners = list(find_winners(records, problems))
    text = (
        "Thrifty has two defaults: for one observation cost-aware rounds of NLE, for many observations cost-aware NPE."
        " Each is held against the peers that answer the same question, on all problems. Difference: the default's C2ST"
        " less that of the peer at the middle budget, over the same places, ± its standard error over seeds; above 0"
        f" the peer is more accurate. A t test at {LEVEL:.0%} says who is ahead; what it cannot tell apart need not be"
        " equal. Of equal methods it calls one in twenty apart, half of them in favour of the peer. The peer shown is"
        " the one furthest ahead, of those that are clearly ahead if there are any. Cost ratio: what the default pays"
        " to be as accurate as that peer, over what the peer paid, ± its jackknife error; below 1 the default is"
        " cheaper; `<`: its smallest budget was enough; `not reached`: its largest was not; `?`: leaving out one seed"
        " turns the number into a bound or a bound into a number. One observation for each seed leaves the"
        " test two degrees of freedom, so that it calls only large differences clear. "
    )
    ahead = "; ".join(f"{peer} on {problem}" for problem, _, peer in winners)
    text += (
        f"Peers that are clearly ahead, or that paid less for their accuracy: {ahead}."
        if winners
        else "No peer is clearly ahead, and none paid less for its accuracy."
    )
    reasons = [
        f"- {problem}, {peer} beside {default}: {REASONS.get((problem, default, peer), 'not explained yet.')}"
        for problem, default, peer in winners
    ]
    why = ["Why:\n\n" + "\n".join(reasons)] if reasons else []
    return "\n\n".join([text, *tables, *why])


def _average_over_problems(found: Mapping[str, Mapping[str, Gap]], default: str, peers: Sequence[str]) -> str:
    """Say of each peer what the mean difference is over the problems that it shares with the default."""
    parts = []
    for peer in peers:
        gaps = np.array([gaps[peer].value for gaps in found.values() if peer in gaps])
        if len(gaps):
            fresh = np.array([gaps[peer].value for name, gaps in found.items() if peer in gaps and name not in SEEN])
            apart = f" ({format_mean(fresh, 3)} on the {len(fresh)} others)" if 0 < len(fresh) < len(gaps) else ""
            parts.append(f"{peer} {format_mean(gaps, 3)}{apart}, below 0 on {(gaps < 0).sum()} of {len(gaps)}")
    head = f"Difference of {default} from each peer, mean over problems ± its standard error over them"
    used = [name for name in found if name in SEEN]
    without = f" (and without {', '.join(used)}, which had a part in settings of thrifty)" if used else ""
    return f"{head}{without}: {'; '.join(parts)}."


def _compare_with_best(records: Sequence[Record], problem: str, default: str, peer: str, gap: Gap) -> list[str]:
    ratio = compare_with(records, problem, default, peer)
    return [problem, peer, format_gap(gap).removesuffix(" *"), format_ratio(ratio), str(gap.seeds), judge(gap)]
