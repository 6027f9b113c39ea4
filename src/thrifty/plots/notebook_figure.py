"""The parts of matplotlib that figures need in another form: shown in notebooks without pyplot, with short numbers."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import Formatter

from thrifty.plots.tick_labels import format_log_ticks, format_ticks


class NotebookFigure(Figure):
    """A figure that Jupyter can draw: without pyplot it knows no way to show a plain `Figure`."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


class ShortNumbers(Formatter):
    """Numbers along an axis, as short as they can be told apart, without an offset or a factor at its end."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one number."""
        return format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Write all numbers of an axis."""
        return format_ticks(values)


class LogNumbers(Formatter):
    """Numbers along a logarithmic axis, all with powers of ten or none."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one number in the way of all that are seen."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Write all numbers of an axis."""
        low, high = sorted(self.axis.get_view_interval())  # type: ignore[union-attr]
        return format_log_ticks(values, (low, high))
