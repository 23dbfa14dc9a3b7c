"""The pictures of the benchmark page, drawn by matplotlib from the figures of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrograd.benchmarks.reporting.table import ratios

from retrograd.presentation import counts_by_decades, new_figure, two_decades

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: systems of Retrograd that a reader compares with peers
_SHOWN = ("translated", "threaded")


def _cells(document: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """(workload and task, seconds of one evaluation by system), for the first problem of each workload."""
    out = []
    for w in document["workloads"]:
        for problem in w["problems"][:1]:
            for task in problem["tasks"]:
                times = {
                    s["system"]: s["minimum"]
                    for s in task["systems"]
                    if s["status"] == "timed" and (not s["ours"] or s["system"] in _SHOWN)
                }
                if times:
                    out.append((f"{w['name']}\n{task['what']}", times))
    return out


def _systems(document: dict[str, Any]) -> dict[str, Any]:
    """Colours by system, ours first."""
    from matplotlib import colormaps

    found = {
        s["system"]: None
        for w in document["workloads"] for problem in w["problems"] for task in problem["tasks"] for s in task["systems"]
        if not s["ours"] and s["status"] == "timed"
    }  # fmt: skip
    return {name: colormaps["tab10"](i % 10) for i, name in enumerate([*_SHOWN, *found])}


def _draw_times(document: dict[str, Any]) -> Figure:
    """Points on a logarithmic axis: a column for each task, a colour for each system."""
    cells, colours = _cells(document), _systems(document)
    figure = new_figure(max(7.0, 0.55 * len(cells) + 2), 4.5)
    axes = figure.add_subplot()
    for name, colour in colours.items():
        places = [(i, times[name]) for i, (_, times) in enumerate(cells) if name in times]
        if places:
            xs, ys = zip(*places, strict=True)
            size, marker = (30, "s") if name in _SHOWN else (18, "o")
            axes.scatter(xs, ys, s=size, marker=marker, color=colour, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("seconds of an evaluation")
    axes.set_xticks(range(len(cells)), [name for name, _ in cells], rotation=90)
    axes.grid(axis="y", alpha=0.3)
    if cells:
        figure.legend(loc="outside right upper")
    return figure


def _draw_ratios(document: dict[str, Any]) -> Figure:
    """Bars of the ratio: time of the gradient over time of the value, by system."""
    found = [(w["name"], ratios(w["problems"][0])) for w in document["workloads"] if w["problems"]]
    found = [(name, {s: r for s, r in by.items() if s in _systems(document)}) for name, by in found if by]
    colours = _systems(document)
    figure = new_figure(7.5, 3.8)
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(colours))
    for k, (system, colour) in enumerate(colours.items()):
        places = [(i + (k - len(colours) / 2) * width, by[system]) for i, (_, by) in enumerate(found) if system in by]
        if places:
            xs, ys = zip(*places, strict=True)
            # Bars start at 1, where the gradient takes as long as the value.
            axes.bar(xs, [y - 1 for y in ys], width, bottom=1, color=colour, label=system)
    axes.set_xticks(range(len(found)), [name.replace("-", "-\n") for name, _ in found])
    axes.set_ylabel("gradient (or Jacobian) over value, time")
    axes.set_yscale("log")
    axes.axhline(1, color="black", linewidth=0.8)
    two_decades(axes.yaxis)
    if found:
        figure.legend(loc="outside right upper")
    return figure


#: colours of the tasks
_TASKS = {"value": "#0072B2", "gradient": "#E69F00", "jacobian": "#D55E00", "hessian": "#009E73"}

#: one line of a small picture: its name in the legend, colour, style, and points
Line = tuple[str, Any, str, list[tuple[float, float]]]


def _small_pictures(document: dict[str, Any], lines_of: Callable[[dict[str, Any]], list[Line]], label: str, scale: str = "seconds") -> Figure:  # fmt: skip
    """One small picture for each workload with a curve; the vertical axis is logarithmic, linear, or one of words."""
    from matplotlib.ticker import MaxNLocator

    shown = [(w, lines) for w in document["workloads"] if w["curve"] and (lines := lines_of(w))]
    columns = 4
    rows = max(1, -(-len(shown) // columns))
    figure = new_figure(10.0, 2.4 * rows)
    drawn: dict[str, Any] = {}
    for i, (w, lines) in enumerate(shown):
        axes = figure.add_subplot(rows, columns, i + 1)
        for name, colour, style, points in lines:
            (line,) = axes.plot(*zip(*points, strict=True), marker=".", color=colour, linestyle=style)
            drawn.setdefault(name, line)
        extents = [x for _, _, _, points in lines for x, _ in points]
        axes.set_title(w["name"], fontsize="medium")
        axes.set_xlabel(w["curve"]["axis"])
        if max(extents) > 30 * min(extents):
            axes.set_xscale("log")
            two_decades(axes.xaxis)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if scale == "words":
            counts_by_decades(axes)
        elif scale == "linear":
            axes.set_ylim(0, 1.1 * max(y for _, _, _, points in lines for _, y in points))
        else:
            axes.set_yscale("log")
            two_decades(axes.yaxis)
        axes.minorticks_off()
        if i % columns == 0:
            axes.set_ylabel(label)
    if drawn:
        figure.legend(list(drawn.values()), list(drawn), loc="outside right upper")
    return figure


def _tasks_of(w: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(what for point in w["curve"]["points"] for what in point["tasks"]))


def _of_systems(document: dict[str, Any], w: dict[str, Any], what: str, of: str, style: str, unit: float = 1.0) -> list[Line]:  # fmt: skip
    """A figure of each system against size."""
    lines: list[Line] = []
    for name, colour in _systems(document).items():
        points = [
            (p["extent"], p["tasks"][what]["systems"][name][of] / unit)
            for p in w["curve"]["points"]
            if what in p["tasks"] and p["tasks"][what]["systems"].get(name, {}).get(of)
        ]
        if points:
            lines.append((name, colour, style, points))
    return lines


def _derivative(w: dict[str, Any]) -> str:
    """The last first-order task of a curve: gradient, Jacobian, or the value alone."""
    return [what for what in _tasks_of(w) if what != "hessian"][-1]


def _draw_growth(document: dict[str, Any]) -> Figure:
    def lines(w: dict[str, Any]) -> list[Line]:
        last = _derivative(w)
        found = _of_systems(document, w, last, "seconds", "-")
        return found + (_of_systems(document, w, "value", "seconds", ":") if last != "value" else [])

    return _small_pictures(document, lines, "seconds")


def _draw_peaks(document: dict[str, Any]) -> Figure:
    return _small_pictures(
        document, lambda w: _of_systems(document, w, _derivative(w), "peak_bytes", "-", 2.0**20), "peak, MiB", "linear"
    )


def _draw_memory(document: dict[str, Any]) -> Figure:
    def lines(w: dict[str, Any]) -> list[Line]:
        return [
            (what, _TASKS[what], "-", [(p["extent"], p["tasks"][what]["extra_words"]) for p in w["curve"]["points"] if what in p["tasks"]])
            for what in _tasks_of(w)
        ]  # fmt: skip

    return _small_pictures(document, lines, "words besides the arguments", "words")


#: file name -> drawing
PICTURES = {
    "times": _draw_times,
    "ratios": _draw_ratios,
    "growth": _draw_growth,
    "peaks": _draw_peaks,
    "memory": _draw_memory,
}
