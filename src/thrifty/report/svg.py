"""Convert a matplotlib figure to inline SVG, one per panel, so that a phone shows them below each other.

Every id gets its own prefix, since all figures share one page. The style sheet that matplotlib writes into each SVG
would act on the whole page and is removed. Texts stay texts, so that they can be searched and read aloud.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from thrifty.report.content import Drawing, clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110  # of rasterised parts: sharp on a screen, a tenth of a megabyte a figure
PIXELS_PER_POINT = 1.6  # at most: letters of 8 points are then as large as the text of the page
MAX_PHONE_INCHES = 6.0  # letters of a wider figure would be too small to read on a phone
_REFERENCE = re.compile(r'(\bid="|xlink:href="#|\bhref="#|url\(#)')
_SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "thrifty", "svg.image_inline": True}


@dataclass(frozen=True)
class Entry:
    """One line of a legend: its text, and how it is drawn."""

    text: str
    colour: str
    kind: str  # "line", "dashes" or "patch"


@dataclass(frozen=True)
class Picture:
    """The panels of a drawing, ready for the page, and its legend."""

    panels: tuple[Markup, ...]
    key: tuple[Entry, ...]
    wide: bool = False  # scrolls on a phone instead of shrinking


def render_picture(drawing: Drawing, prefix: str) -> Picture:
    """Render the panels of a drawing as SVG with ids that begin with `prefix`."""
    import matplotlib

    figure = drawing.figure
    with matplotlib.rc_context(_SETTINGS):
        key = () if drawing.whole else _read_legend(figure)
        panels = []
        for i, (group, box) in enumerate([((), "tight")] if drawing.whole else _find_panels(figure)):
            for artist in (*figure.axes, *figure.legends) if group else ():
                artist.set_visible(artist in group)
            name = f"{prefix}{chr(97 + i % 26)}{i // 26 or ''}"
            panels.append(_inline(_to_svg(figure, box), name, drawing.title, drawing.description))
    wide = drawing.whole and figure.get_figwidth() > MAX_PHONE_INCHES
    return Picture(tuple(panels), key, wide)


def _find_panels(figure: Figure) -> list[tuple[Any, Any]]:
    """Find the axes that are panels, each with its part of the figure; colour bars belong to their panel."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout stays as it was drawn
    groups: list[list[Any]] = []
    for ax in figure.axes:
        if hasattr(ax, "_colorbar") and groups:
            groups[-1].append(ax)
        else:
            groups.append([ax])
    found = []
    for group in groups:
        box = Bbox.union([ax.get_tightbbox() for ax in group])
        found.append((group, box.transformed(figure.dpi_scale_trans.inverted()).padded(0.06)))
    return found


def _read_legend(figure: Figure) -> tuple[Entry, ...]:
    """Read the figure's legend as data, to be shown in the page's own font."""
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D

    entries = []
    for legend in figure.legends:
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            if isinstance(handle, Line2D):
                colour, kind = handle.get_color(), "dashes" if handle.is_dashed() else "line"
            else:
                colour, kind = handle.get_facecolor(), "patch"  # type: ignore[union-attr]
            entries.append(Entry(clean(text.get_text().replace(r"\$", "$"), 80), to_hex(colour), kind))
    return tuple(entries)


def _to_svg(figure: Figure, box: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", bbox_inches=box, dpi=DPI, transparent=True, metadata={"Date": None, "Creator": None}
    )
    return buffer.getvalue()


def _inline(text: str, prefix: str, title: str, description: str) -> Markup:
    """Return the SVG element alone, with unique ids, a title, a description, and at most the width of the page."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.S)
    body = re.sub(r"<style type=\"text/css\">.*?</style>\s*", "", body, flags=re.S)
    body = re.sub(r"<defs>\s*</defs>\s*", "", body)
    head, inside = body.split(">", 1)
    view = re.search(r'viewBox="([^"]+)"', head)
    size = (view.group(1) if view else "0 0 400 300").split()
    inside = _REFERENCE.sub(lambda match: match.group(1) + prefix + "-", inside)
    labelled = f'role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    start = (
        f'<svg viewBox="{" ".join(size)}" style="max-width:{float(size[2]) * PIXELS_PER_POINT:.0f}px" {labelled}>'
        f'<title id="{prefix}-t">{escape(title)}</title><desc id="{prefix}-d">{escape(description)}</desc>'
    )
    return Markup(start + inside)  # matplotlib escapes every text it writes; the words above are escaped here
