"""Shared parts of pictures: colours, legends beside the axes, logarithmic axes; and `faults`, a check that a picture is legible.

    faults(figure) = []    if labels, legends, curves and ticks do not overlap

It draws the figure and compares the boxes of all texts, as matplotlib's renderer has them, so that tests can check pictures.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from string import Formatter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from retrograd.isa.diagnostics import markup, printable

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import BboxBase

#: distinguishable without red-green vision (Okabe and Ito, 2008)
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
#: ratio to the largest bar below which a linear axis hides a bar
HIDDEN = 1e3
#: pixels by which boxes may touch
_TOUCH = 1.0


def colours(n: int) -> list[str]:
    """n colours, in turn."""
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def axes_of(ax: Axes | None, width: float = 7.0, height: float = 4.5) -> tuple[Figure, Axes]:
    """The axes and their figure; a new figure if none are given."""
    if ax is not None:
        figure: Any = ax.figure
        return figure, ax
    made = new_figure(width, height)
    return made, made.add_subplot()


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches with constrained layout."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def legend(ax: Axes) -> None:
    """Add a legend to the right of the axes, outside of curves; no legend if nothing has a label."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, fontsize="small")


def two_decades(axis: Axis) -> None:
    """Extend a logarithmic axis to at least two powers of ten, which have labels."""
    from matplotlib.ticker import NullFormatter

    axis.set_minor_formatter(NullFormatter())
    lo, hi = sorted(float(x) for x in axis.get_view_interval())
    if lo <= 0:
        return  # no data within the range of this axis
    if math.floor(math.log10(hi) + 1e-9) - math.ceil(math.log10(lo) - 1e-9) >= 1:
        return
    begin, end = math.floor(math.log10(lo) + 1e-9), math.ceil(math.log10(hi) - 1e-9)
    limits = 10.0**begin, 10.0 ** max(end, begin + 1)
    if axis is axis.axes.xaxis:
        axis.axes.set_xlim(*limits)
    else:
        axis.axes.set_ylim(*limits)


def counts_by_decades(ax: Axes) -> None:
    """A vertical axis for the counts that are drawn, from 0: linear to 1, logarithmic above, ticks at 0, 1, 10, 100 …"""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    most = max((float(_ys(line).max()) for line in ax.lines), default=0.0)
    top = max(1, math.ceil(math.log10(max(most, 1) * 1.2)))
    ax.set_yscale("symlog", linthresh=1)
    ax.set_ylim(-0.3, 10.0**top)
    step = 1 if top <= 4 else 2
    ax.yaxis.set_major_locator(FixedLocator([0, *(10.0**e for e in range(0, top + 1, step))]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.yaxis.set_minor_locator(FixedLocator([]))


# ---------------------------------------------------------------------- faults of a picture


def faults(figure: Figure) -> list[str]:
    """The faults of a picture: overlapping or clipped texts, legends and labels over curves, illegible ticks, hidden bars.

    Trap: for rotated texts the bounding boxes are compared, which are larger than the texts, unless they are vertical.
    """
    figure.draw_without_rendering()
    boxes = list(_boxes(figure))
    out = [f"{a!r} over {b!r}" for (a, box), (b, other) in combinations(boxes, 2) if _overlap(box, other)]
    out += [f"{name!r} is cut off" for name, box in boxes if not _inside(box, figure.bbox)]
    for ax in figure.axes:
        out += _over_curves(ax, [*_floating(ax), *((name, box) for name, box in boxes if name == "legend")])
        out += [fault for axis in (ax.xaxis, ax.yaxis) for fault in _of_ticks(axis)]
        out += _hidden(ax)
    return out


def _boxes(figure: Figure) -> Iterator[tuple[str, BboxBase]]:
    """Every visible text, and each legend as a whole, with its box in pixels."""
    texts = [*figure.texts, *(text for ax in figure.axes for text in _texts(ax))]
    for text in texts:
        if text.get_visible() and text.get_text().strip():
            yield text.get_text(), text.get_window_extent()
    legends = [*figure.legends, *(found for ax in figure.axes if (found := ax.get_legend()) is not None)]
    for found in legends:
        yield "legend", found.get_window_extent()


def _texts(ax: Axes) -> Iterator[Any]:
    yield from (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)
    for axis in (ax.xaxis, ax.yaxis):
        yield axis.get_offset_text()
        yield from _tick_labels(axis)


def _tick_labels(axis: Axis) -> Iterator[Any]:
    lo, hi = sorted(axis.get_view_interval())
    slack = 1e-9 * (hi - lo) if axis.get_scale() == "linear" else 0.0
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if lo * (1 - 1e-9) - slack <= tick.get_loc() <= hi * (1 + 1e-9) + slack and tick.label1.get_text():
            yield tick.label1


def _floating(ax: Axes) -> Iterator[tuple[str, BboxBase]]:
    """Texts inside the axes."""
    for text in ax.texts:
        if text.get_visible() and text.get_text().strip():
            yield text.get_text(), text.get_window_extent()


def _overlap(a: BboxBase, b: BboxBase) -> bool:
    return (
        min(a.x1, b.x1) - max(a.x0, b.x0) > _TOUCH and min(a.y1, b.y1) - max(a.y0, b.y0) > _TOUCH
    )  # more than the edges


def _inside(box: BboxBase, whole: BboxBase) -> bool:
    return (
        box.x0 >= whole.x0 - _TOUCH and box.y0 >= whole.y0 - _TOUCH and box.x1 <= whole.x1 + _TOUCH
        and box.y1 <= whole.y1 + _TOUCH
    )  # fmt: skip


def _over_curves(ax: Axes, boxes: Sequence[tuple[str, BboxBase]]) -> Iterator[str]:
    """Texts and legends that lie on curves, points or bars."""
    for name, box in boxes:
        inner = box.padded(-_TOUCH)
        # The ends of error bars are markers without a line.
        for line in (line for line in ax.lines if line.get_linestyle() != "None"):
            path = line.get_transform().transform_path(line.get_path())
            if line.get_visible() and _ys(line).size and path.intersects_bbox(inner, filled=False):
                yield f"{name!r} over the curve {line.get_label()!r}"
        for points in ax.collections:
            places = points.get_offset_transform().transform(points.get_offsets())
            if any(inner.contains(x, y) for x, y in places):
                yield f"{name!r} over points"
        for bar in ax.patches:
            if _overlap(inner, bar.get_window_extent()):
                yield f"{name!r} over a bar"


def _of_ticks(axis: Axis) -> Iterator[str]:
    """Faults of ticks: a common factor at the end of the axis, 3.15·10⁰, a single label."""
    if axis.get_offset_text().get_text().strip():
        yield f"an axis times {axis.get_offset_text().get_text()}"
    labels = [label.get_text() for label in _tick_labels(axis)]
    for text in labels:
        if re.search(r"[2-9.]\S*\s*(\\times|×)", text) or (
            re.search(r"-\D*10\^", text) and "symlog" in axis.get_scale()
        ):
            yield f"the tick {text!r}"
    if axis.get_scale() != "linear" and len(labels) < 2:
        yield f"{len(labels)} ticks on a logarithmic axis"


def _hidden(ax: Axes) -> Iterator[str]:
    """Bars or curves on a linear axis that are too small beside the largest."""
    from matplotlib.patches import Rectangle

    if ax.get_yscale() != "linear":
        return
    tops: dict[float, float] = {}
    for bar in ax.patches:
        if isinstance(bar, Rectangle):
            middle = round(bar.get_x() + bar.get_width() / 2, 6)
            tops[middle] = max(tops.get(middle, 0.0), float(bar.get_y() + bar.get_height()))
    sizes = [top for top in tops.values() if top > 0]
    # Lines across the axes, such as those of axvline, have no data.
    drawn = [line for line in ax.lines if line.get_transform() == ax.transData]
    sizes += [most for line in drawn if (most := float(abs(_ys(line)).max(initial=0.0))) > 0]
    if sizes and max(sizes) > HIDDEN * min(sizes):
        yield f"a linear axis for {min(sizes):.3g} beside {max(sizes):.3g}"


def _ys(line: Line2D) -> np.ndarray[Any, np.dtype[np.float64]]:
    import numpy as np  # many commands print tables and draw nothing

    return np.asarray(line.get_ydata(), dtype=np.float64)


# -----------------------------------------------------------------------------
# Tables as text, as Markdown and as HTML; generated pages; texts of reports that a prompt shows.

#: lines of a report that a prompt shows
_SHOWN = 40


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows in aligned columns; columns in `right` are aligned to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    flush = set(right)
    lines = []
    for row in rows:
        cells = [c.rjust(n) if i in flush else c.ljust(n) for i, (c, n) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows as a Markdown table, the first of them the head; columns in `right` are aligned to the right."""
    flush = set(right)
    head, *body = [[printable(cell) for cell in row] for row in rows]
    lines = [head, ["--:" if i in flush else "---" for i in range(len(head))], *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


class _Fields(Formatter):
    """Formats a text, and refuses values that it does not use."""

    def check_unused_args(
        self, used_args: Collection[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if unused := sorted(kwargs.keys() - used_args):
            raise ValueError(f"the template has no field {', '.join(unused)}")


def generated_page(template: Path, program: str, /, **fields: object) -> str:
    """The Markdown text of a template with a value for each `{field}`, below a comment that names the program that wrote it.

    Raises KeyError for a field without a value, ValueError for a value without a field.
    """
    text = _Fields().vformat(template.read_text(encoding="utf-8"), (), fields)
    return f"<!-- Generated by python {program}; do not edit. -->\n\n{text}"


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as an HTML table, the first of them the head."""
    head = "".join(f"<th>{markup(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shortened_text(text: str) -> str:
    """The representation of a report: its text, of which a prompt shows 40 lines at most. `print` shows the whole."""
    lines = text.split("\n")
    if len(lines) <= _SHOWN:
        return text
    left = len(lines) - _SHOWN + 1
    return "\n".join([*lines[: _SHOWN - 1], f"… {left} more lines: print() shows them"])


# -----------------------------------------------------------------------------
# A progress bar for long work: on stderr of a terminal, or below the cell of a notebook.
#
# In a notebook stderr is no terminal, and the bar is an output of the cell that is replaced as work ends: it needs no widget.

#: seconds before a bar appears
PATIENCE = 1.0
#: seconds between two drawings in a notebook
_REDRAW = 0.1


class Bar:
    """Number of finished items, total, and remaining time: `with Bar(total, wanted, "running") as bar: bar(1)` for each item.

    `wanted`: True shows it at once, False never, None after `PATIENCE` seconds on a terminal and in a notebook. `there`: items of `total`
    that are already done; they are shown separately, and do not count in the estimate of the time.
    """

    def __init__(self, total: int, wanted: bool | None, doing: str, there: int = 0) -> None:
        self._total, self._done, self._there = total, there, there
        self._wanted = wanted
        self._patience = 0.0 if wanted else PATIENCE
        self._doing = doing
        self._began = time.monotonic()
        self._shown: Any = None
        self._task: Any = None
        self._cell: _Cell | None = None

    def __enter__(self) -> Bar:
        return self

    def __call__(self, ended: int) -> None:
        """Add a number of finished items."""
        self._done += ended
        if self._wanted is False:
            return
        if self._shown is None:
            if self._done >= self._total or time.monotonic() - self._began < self._patience:
                return
            if self._wanted is None and not sys.stderr.isatty() and not in_notebook():
                self._wanted = False
                return
            self._show()
        self._shown.update(self._task, completed=self._done)
        if self._cell is not None:
            self._cell.show(self._shown)

    def _show(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        resumed = [TextColumn(f"{self._there} resumed")] if self._there else []
        columns = TextColumn(self._doing), BarColumn(), MofNCompleteColumn(), *resumed, TimeRemainingColumn()
        if in_notebook():
            self._cell = _Cell()
            self._shown = Progress(*columns, console=self._cell.console, auto_refresh=False)
        else:
            from rich.console import Console

            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._shown.start()
        self._task = self._shown.add_task(self._doing, total=self._total, completed=self._there)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cell is not None:
            self._cell.clear()
        elif self._shown is not None:
            self._shown.stop()


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook. Nothing is imported to find out."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and hasattr(found, "kernel")


class _Cell:
    """An output of a notebook's cell that is replaced by the current text of a bar."""

    def __init__(self) -> None:
        import io

        from rich.console import Console

        self._text = io.StringIO()
        self.console = Console(file=self._text, width=80, force_jupyter=False, color_system=None)
        self._output: Any = None
        self._drawn = 0.0

    def show(self, progress: Any) -> None:
        """Replace the output, at most ten times a second."""
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return
        self._drawn = now
        self._text.truncate(self._text.seek(0))
        self.console.print(progress.get_renderable())
        self._replace(self._text.getvalue().strip())

    def _replace(self, text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if self._output is None:
            self._output = display(data, raw=True, display_id=True)
        else:
            self._output.update(data, raw=True)

    def clear(self) -> None:
        """Leave an empty output behind."""
        if self._output is not None:
            self._replace("")
