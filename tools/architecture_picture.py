"""Draw the import arrow of docs/architecture.md from the table that the tests keep.

python tools/architecture_picture.py [docs/figures/architecture.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "architecture"))

from arrow import ARROW  # noqa: E402

# part -> (column, row) of its box; the rows rise with the arrow
PLACE = {
    "errors": (3.3, 0),
    "display": (0.1, 2),
    "types": (3.3, 1),
    "weights": (1.4, 2),
    "penalties": (2.7, 2),
    "priors": (4.0, 2),
    "closed_form": (5.7, 2),
    "runner": (0, 3),
    "costs": (1.6, 3),
    "metrics": (5.1, 3),
    "store": (0, 4),
    "proposals": (2.6, 4),
    "plots": (4.4, 5),
    "tables": (3.0, 6),
    "models": (6.6, 7),
    "tradeoff": (1.3, 7),
    "prior_recovery": (2.6, 7),
    "inference": (4.1, 7),
    "campaign": (0.6, 8),
    "diagnostics": (4.5, 8),
    "report": (2.6, 9),
    "study": (2.6, 10),
    "sequential": (2.6, 11),
    "cli": (2.6, 12),
}
COLOURS = {
    "#dbe7f3": (
        "errors",
        "display",
        "types",
        "weights",
        "closed_form",
        "penalties",
        "priors",
        "costs",
        "tables",
        "proposals",
    ),
    "#e4f0dc": ("runner", "store", "campaign"),
    "#fbe8d3": ("inference", "metrics", "diagnostics", "plots"),
}
SAYS = {
    "runner": "executes tasks",
    "store": "the folder on disk",
    "campaign": "the only facade",
    "inference": "one method a file",
    "sequential": "methods that steer runs",
    "tables": "draws, simulations",
    "proposals": "π(θ)/g(c(θ)), weights",
    "diagnostics": "one check a file",
    "cli": "one command a file",
    "study": "infer, Study",
    "report": "one HTML file",
    "display": "text and HTML tables",
}


def reduce_arrow(arrow: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out what follows from other entries: a -> c where a -> b -> c."""

    def reach(part: str) -> set[str]:
        return arrow[part] | {far for other in arrow[part] for far in reach(other)}

    return {
        part: {other for other in others if not any(other in reach(mid) for mid in others - {other})}
        for part, others in arrow.items()
    }


def main(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(10, 10), layout="constrained")
    width, height = 1.15, 0.56
    for part, others in reduce_arrow({part: ARROW[part] & set(PLACE) for part in PLACE}).items():
        x, y = PLACE[part]
        for other in others:
            to_x, to_y = PLACE[other]
            style = {"arrowstyle": "-|>", "color": "#8a94a0", "lw": 1, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (to_x, to_y + height / 2), (x, y - height / 2), arrowprops=style, zorder=1)
    for part, (x, y) in PLACE.items():
        colour = next((c for c, parts in COLOURS.items() if part in parts), "#eeeeee")
        box = FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0.02",
            facecolor=colour,
            edgecolor="#5b6670",
            zorder=2,
        )
        axes.add_patch(box)
        axes.text(x, y + (0.09 if part in SAYS else 0), part, ha="center", va="center", weight="bold", fontsize=9.5)
        if part in SAYS:
            axes.text(x, y - 0.15, SAYS[part], ha="center", va="center", fontsize=7.2, color="#333333")
    axes.set(xlim=(-0.7, 7.3), ylim=(-0.45, 12.4))
    axes.axis("off")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/figures/architecture.png"))
