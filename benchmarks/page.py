"""The document of a run as text and pictures: the table of the terminal, the GPU's results, docs/benchmarks.md.

`retrograd bench --report DOCS` writes DOCS/benchmarks/figures.json, DOCS/benchmarks.md and DOCS/benchmarks/*.svg;
`python -m retrograd.benchmarks.reporting DOCS` writes the page and the pictures again. Pictures differ with the version of
matplotlib, so only the page is checked for freshness.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.benchmarks.measure import REPEATS
from retrograd.isa.files import is_input, replacing, write_file
from retrograd.simulator.energy.technology import with_prefix

from retrograd.presentation import columns, counts_by_decades, markdown, new_figure, two_decades

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def seconds_text(seconds: float | None) -> str:
    """12.3 µs."""
    return "" if seconds is None else with_prefix(seconds, "s", 3)


def number_text(value: float | None) -> str:
    """1,234 or 0.123."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def joules_text(found: dict[str, Any]) -> str:
    """An energy; ≥ if the model lacks a figure for one of its parts."""
    if found["joules"] is None:
        return "not modelled"
    return f"{'' if found['complete'] else '≥ '}{with_prefix(found['joules'], 'J', 3)}"


def table(document: dict[str, Any]) -> str:
    """The whole table as text."""
    parts = [_head(document), _timed(document)]
    parts += [
        part
        for part in (_streams(document), _goldens(document), _counts(document), _toolchain(document), _bars(document))
        if part
    ]
    absent = [f"Absent: {name} ({found['absent']})." for name, found in document["peers"].items() if found["absent"]]
    not_written = _not_written(document)
    parts += ["\n".join([*absent, *not_written])] if absent or not_written else []
    if document["wrong"]:
        parts.append("\n".join(["WRONG:", *(f"  {line}" for line in document["wrong"])]))
    else:
        parts.append("Every golden is met; every result of ours is right, and the same on all engines.")
    return "\n\n".join(part for part in parts if part)


def _head(document: dict[str, Any]) -> str:
    m = document["machine"]
    pinned = "one of its cores" if m["pinned"] else "cores as the system chose"
    versions = ", ".join(
        [f"{name} {version}" for name, version in document["versions"].items()]
        + [f"{name} {found['version']}" for name, found in document["peers"].items() if not found["absent"]]
    )
    return f"{m['processor']}, {pinned}; Python {m['python']}\n{versions}"


def ratios(problem: dict[str, Any]) -> dict[str, float]:
    """The ratio of derivative (gradient or Jacobian) to value in time, by system."""
    by: dict[str, dict[str, float]] = {}
    for task in problem["tasks"]:
        for s in task["systems"]:
            if s["status"] == "timed":
                by.setdefault(task["what"], {})[s["system"]] = s["minimum"]
    for what in ("gradient", "jacobian"):
        if what in by and "value" in by:
            return {name: t / by["value"][name] for name, t in by[what].items() if name in by["value"]}
    return {}


def system_cells(problem: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """(the task in the first row of its systems; system; median, least, over value, error and memory) for each row."""
    over = ratios(problem)
    for task in problem["tasks"]:
        what = task["what"]
        for s in task["systems"]:
            if s["status"] == "not written":
                continue
            ratio = over.get(s["system"]) if task["what"] in ("gradient", "jacobian") else None
            yield (
                what,
                s,
                [
                    seconds_text(s["median"]),
                    seconds_text(s["minimum"]),
                    "" if ratio is None else f"{ratio:.2f}",
                    "" if s["error"] is None else f"{s['error']:.0e}",
                    "" if s["peak_bytes"] is None else f"{s['peak_bytes'] / 1024:,.0f} KiB",
                ],
            )
            what = ""


def _timed(document: dict[str, Any]) -> str:
    """One block for each problem."""
    blocks = []
    for w in document["workloads"]:
        for problem in w["problems"]:
            rows = [["", "system", "each", "at least", "over value", "error", "peak memory", ""]]
            for what, s, cells in system_cells(problem):
                status = s["status"] if s["status"] == "left out" else s["status"].upper()
                rows.append([what, s["system"], *cells, f"{status}: {s['reason']}" if s["reason"] else s["note"]])
            blocks.append(f"{w['title']}: {problem['size']}\n{columns(rows, right=(2, 3, 4, 5, 6))}")
    return "\n\n".join(blocks)


def stream_rows(document: dict[str, Any]) -> list[list[str]]:
    """Name, evaluations, total seconds, seconds of one evaluation, for each task of the streams."""
    return [
        [w["title"], f"{s['name']}, {s['pieces']} pieces", what, f"{s['evaluations']:,}", f"{seconds:.3g} s",
         seconds_text(seconds / s["evaluations"]), f"{s['errors'][what]:.0e}"]
        for w in document["workloads"] for s in w["streams"] for what, seconds in s["seconds"].items()
    ]  # fmt: skip


#: the head of these columns
STREAM_HEAD = ["in pieces", "", "", "evaluations", "in all", "each", "error"]


def _streams(document: dict[str, Any]) -> str:
    rows = stream_rows(document)
    return columns([STREAM_HEAD, *rows], right=(3, 4, 5, 6)) if rows else ""


def _goldens(document: dict[str, Any]) -> str:
    rows = [["golden", "expected", "found", "tolerance", ""]]
    for w in document["workloads"]:
        for g in w["goldens"]:
            found = g["reason"] if g["found"] is None else f"{g['found']:.13g}"
            rows.append(
                [f"{w['name']}: {g['what']}", f"{g['expected']:.13g}", found, f"{g['tolerance']:.0e}" if g["tolerance"] else "exact",
                 "" if g["met"] else "WRONG"]
            )  # fmt: skip
    return columns(rows, right=(1, 2, 3)) if len(rows) > 1 else ""


def mix_text(counts: dict[str, Any], shown: int = 4) -> str:
    """The instructions that were executed most: fmul 38 %, exch 22 %."""
    total = counts["instructions"]
    most = sorted(counts["mix"].items(), key=lambda part: -part[1])[:shown]
    return ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in most)


def _counts(document: dict[str, Any]) -> str:
    found = [w for w in document["workloads"] if w["counts"]]
    if not found:
        return ""
    models = list(found[0]["counts"]["energy"])
    rows = [["one run", "instructions", "cycles", "level", *models, "most of it"]]
    for w in found:
        c = w["counts"]
        level = "" if c["uncomputing_level"] is None else f"{c['uncomputing_level']:.2f}"
        energy = [joules_text(c["energy"][m]) for m in models]
        rows.append([w["title"], number_text(c["instructions"]), number_text(c["cycles"]), level, *energy, mix_text(c)])
    return columns(rows, right=range(1, 4 + len(models)))


def _toolchain(document: dict[str, Any]) -> str:
    if not document["toolchain"]:
        return ""
    rows = [["toolchain", "", "", "bar", ""]]
    for row in document["toolchain"]:
        bar = "" if row["bar"] is None else f"{'≤' if row['lower_is_better'] else '≥'} {row['bar']:g}"
        verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
        value = f"{row['value']:,.0f}" if row["value"] > 1000 else f"{row['value']:.3f}"
        rows.append([row["name"], value, row["unit"], bar, verdict])
    return columns(rows, right=(1,))


def bar_rows(document: dict[str, Any]) -> list[list[str]]:
    """Name, measurement, bar and verdict of each bar."""
    out = []
    for bar in document["bars"]:
        measured, limit = (
            ""
            if value is None
            else seconds_text(value)
            if bar["unit"] == "s"
            else f"{value:,.0f} {bar['unit']}"
            if value >= 1000
            else f"{value:.3g} {bar['unit']}"
            for value in (bar["measured"], bar["limit"])
        )
        verdict = {"met": "met", "missed": "MISSED", "open": "not measured"}[bar["verdict"]]
        out.append(
            [
                bar["name"],
                measured,
                f"{'≥' if bar['at_least'] else '≤'} {limit}",
                verdict + (f" ({bar['reason']})" if bar["reason"] else ""),
            ]
        )
    return out


def _bars(document: dict[str, Any]) -> str:
    if not any(w["problems"] for w in document["workloads"]):
        return ""
    return columns([["bar", "measured", "", ""], *bar_rows(document)], right=(1,))


def not_written(document: dict[str, Any]) -> dict[str, list[str]]:
    """For each available peer, the tasks that it has no implementation of."""
    out: dict[str, list[str]] = {}
    for w in document["workloads"]:
        for problem in w["problems"][:1]:
            for task in problem["tasks"]:
                for s in task["systems"]:
                    if s["status"] == "not written":
                        out.setdefault(s["system"], []).append(f"{w['name']} {task['what']}")
    return out


def _not_written(document: dict[str, Any]) -> Sequence[str]:
    return [f"Not written with {peer}: {', '.join(tasks)}." for peer, tasks in not_written(document).items()]


# -----------------------------------------------------------------------------
# The results of the GPU benchmark as text: a line for each measurement, and tables in Markdown.


@dataclass
class Report:
    """The content of the JSON."""

    machine: dict[str, Any] = field(default_factory=dict)
    #: for each check: name, instances, failed instances, whether all bits are the same
    identical: list[dict[str, Any]] = field(default_factory=list)
    #: for each workload and system: milliseconds, error
    times: list[dict[str, Any]] = field(default_factory=list)
    #: for each whole call: milliseconds with arrays on the device and of the host, whether both have the same bits
    calls: list[dict[str, Any]] = field(default_factory=list)
    #: for each instruction, and for whole programs
    counts: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    #: parts that ended with an error, and its text; the other parts are run
    failed: list[dict[str, str]] = field(default_factory=list)
    #: the time, of a monotonic clock, from which on no part begins
    until: float | None = None


def line(row: dict[str, Any]) -> str:
    ns = 1e6 * row["kernel_ms"] / row["instances"]
    copies = f", copies {row['copies_ms']:.3f} ms" if "copies_ms" in row else ""
    return f"{row['workload']}, {row['system']}: {row['kernel_ms']:.3f} ms, {ns:.2f} ns each{copies}, error {row['error']:.0e}"


#: the workloads that are measured on a device
WORKLOADS = (
    "Bessel J₂, and its slope",
    "BA errors of 9,125,125 measurements, and their Jacobian blocks",
    "graph embedding, and its gradient",
    "Gaussian mixture, and its gradient",
    "leapfrog, nine bodies, and its gradient",
    "wave on 2048 × 2048 cells, forward, back, and its gradient: single runs",
)
HEAD = (
    "workload",
    "system",
    "on the device, ms",
    "ns each",
    "copies, ms",
    "with the host, ms",
    "our cores, ms",
    "error",
    "",
)


def section(found: dict[str, Any] | None) -> str:
    """The part of the page docs/benchmarks.md; `found` is None where a run had no `--gpu`."""
    if found is None:
        return _not_measured("the run had no `--gpu`")
    lines = []
    m = found["machine"]
    if "device" in m:
        lines += [
            f"On one {m['device']} ({m['capability']}, {m['multiprocessors']} multiprocessors), CUDA {m['cuda']}.",
            "",
        ]
        if m["fake"]:
            lines += ["*No device ran this: its times mean nothing.*", ""]
        same = sum(row["same"] for row in found["identical"])
        instances = sum(row["instances"] for row in found["identical"])
        lines += [
            f"Bits: {same} of {len(found['identical'])} batches and runs ({instances:,} instances) are the same as on the CPU.",
            "",
            markdown([HEAD, *map(_cells, found["times"])], range(2, 8)),
        ]
        if found.get("calls"):
            head = ["whole call", "arrays on the device, ms", "arrays of the host, ms"]
            rows = [[row["workload"], f"{row['device_ms']:.2f}", f"{row['host_ms']:.2f}"] for row in found["calls"]]
            lines += ["", markdown([head, *rows], range(1, 3))]
    else:
        lines.append(_not_measured(found["absent"]["device"]))
    counted = {} if not found["counts"] else found["counts"]["programs"]
    if counted:
        keys = list(dict.fromkeys(key for counts in counted.values() for key in counts))
        rows = [[name, *(str(counts.get(key, "")) for key in keys)] for name, counts in counted.items()]
        title = f"Instructions of whole kernels of batches for {found['counts']['arch']}, and registers and local bytes of a thread:"
        lines += ["", title, "", markdown([["program", *keys], *rows], range(1, len(keys) + 1))]
    differing = [f"Different bits: {row['name']}." for row in found["identical"] if not row["same"]]
    differing += [
        f"Different bits: {row['workload']}, a whole call." for row in found.get("calls", ()) if not row["same"]
    ]
    differing += [f"Failed: {row['what']}: {row['error']}" for row in found["failed"]]
    absent = [f"Absent: {name} ({why})." for name, why in found["absent"].items() if name != "device"]
    return "\n".join([*lines, *(["", *differing] if differing else []), *(["", *absent] if absent else [])])


def _cells(row: dict[str, Any]) -> list[str]:
    def milliseconds(key: str) -> str:
        return f"{row[key]:.2f}" if key in row else "–"

    each = 1e6 * row["kernel_ms"] / row["instances"]
    return [
        row["workload"], row["system"], f"{row['kernel_ms']:.3f}", f"{each:.2f}", milliseconds("copies_ms"),
        milliseconds("wall_ms"), milliseconds("cores_ms"), f"{row['error']:.0e}", row["note"],
    ]  # fmt: skip


def _not_measured(why: str) -> str:
    rows = [["workload", "on a GPU"], *([name, "not measured"] for name in WORKLOADS)]
    return f"Not measured: {why.rstrip('.')}.\n\n{markdown(rows)}"


def instructions_table(counts: dict[str, Any]) -> str:
    """PTX and machine instructions of each ISA instruction, as counted."""
    keys = list(dict.fromkeys(key for found in counts["instructions"].values() for key in found))
    rows = [[name, *(str(found.get(key, "")) for key in keys)] for name, found in counts["instructions"].items()]
    return markdown([[counts["arch"], *keys], *rows], range(1, len(keys) + 1))


# -----------------------------------------------------------------------------
# The pictures of the benchmark page, drawn by matplotlib from the figures of one run.

#: systems of Retrograd that a reader compares with peers
_SHOWN = ("translated", "threaded")


def _times_of_workloads(document: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
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
    cells, colours = _times_of_workloads(document), _systems(document)
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
    figure = new_figure(max(7.5, 1.5 + 0.9 * len(found)), 3.8)
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


def _draw_series(document: dict[str, Any]) -> Figure:
    """The time of each of the first calls, one small picture for each workload."""
    shown = [row for row in document["toolchain"] if row.get("series")]
    figure = new_figure(10.0, 2.8)
    for i, row in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), i + 1)
        took = row["series"]
        axes.plot(range(1, len(took) + 1), took, marker=".", color=_TASKS["value"])
        axes.axhline(sorted(took[-(len(took) // 4) :])[len(took) // 8], color="black", linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        axes.set_title(row["name"].split(", ", 1)[1], fontsize="medium")
        axes.set_xlabel("call")
        two_decades(axes.yaxis)
        axes.minorticks_off()
        if not i:
            axes.set_ylabel("seconds")
    return figure


#: file name -> drawing
PICTURES = {
    "times": _draw_times,
    "ratios": _draw_ratios,
    "growth": _draw_growth,
    "peaks": _draw_peaks,
    "memory": _draw_memory,
    "series": _draw_series,
}


# -----------------------------------------------------------------------------
# The page.

FIGURES = "figures.json"
#: results of a GPU
GPU = "gpu.json"
POINTS = "points.json"
#: figures of small sizes without peers, which a check compares with its own
QUICK = "quick.json"
#: the load of a machine that does nothing else
IDLE = 0.3

PAGE = """\
<!-- Generated by `retrograd bench --report docs`; do not edit. -->

# Benchmarks

See how fast Retrograd is beside other systems, and repeat the measurements:

```
pip install 'retrograd[bench]'
retrograd bench --quick                                         # a minute or two, without peers: correctness, ratios, toolchain
retrograd bench --peers numpy,numba,enzyme,casadi,jax --report docs   # this page: a quarter of an hour on an idle machine
retrograd bench --quick --check docs/benchmarks/quick.json      # ratios and counts against those kept with this page
```

Each workload is written in the language, and checked against goldens and a reference in float64. Other systems run on the same data and are checked too, to 10⁻¹⁰ of the largest number. A wrong result is not timed.
All systems run in one process on one core, in turn, and times are those of the processor; *least* is the least of {repeats} repeats. A short task is repeated within its turn, after a call that is not timed. Read times as ratios. Retrograd computes in fixed point with 32 binary places, with every check on, and gives the same bits on every machine; floating point does neither.

This run: {head}

## Bars
A bar is an aim, as a ratio beside a peer in the same run. The [reasons for missed bars](translated-code.md#why-some-bars-are-missed) are given with translated code.
Two bars of earlier versions are replaced, since no design of this kind can reach them: a Hessian of the graph as fast as CasADi's, which is one symbolic expression with the common parts of all columns; and 45 ns for the gradient of a Bessel function, less than its products and quotients take in fixed point.

An *operation of the irreversible program* is one arithmetic operation, function or comparison of the value in float64, counted by running its plain loops on numbers that count; loads, stores, addresses and counters of loops do not count. The *memory* of a system is the peak of a process that does the task once.

{bars}

## Exactness
Errors beside the same program over real numbers of 120 bits or more, relative to the greatest number of the result; `python -m retrograd.benchmarks.points docs` measures them.
*float64*: the program in float64. *One point*: as it is written, in Q32.32. *Points*: with the binary points that [`rg.autoscale`](choosing-numbers.md) finds, without a factor or a scale by hand; F is the point of functions such as `rg.exp`.
Derivatives are compared with differences of the reference.

{exactness}

## Growth
Time of the whole task at growing size, beside peers: solid lines are derivatives, dotted lines are values.

![Time against size](benchmarks/growth.svg)

Peak memory of the process that computes the derivative (or the value, where there is no other task). The curve of a peer that keeps each step rises; ours is that of Python and the compiler.

![Peak memory against size](benchmarks/peaks.svg)

Words of our programs besides the arguments:

![Words against size](benchmarks/memory.svg)

{growth}

## Counts
The counts are of one run of each workload's function. They are exact, and the same on every engine: instructions, cycles of the co-processor by the [cycle model](reference/timing.md), and the *uncomputing level*, log₂ of instructions over those of the same source in erase mode.
Energy is by the models that [come with Retrograd](energy.md#models); ≥ marks a sum in which a part has no figure.

{counts}

## Times
| system | measured |
| --- | --- |
| `translated` | the program as machine code, from words to words |
| `unchecked` | the same without checks |
| `public` | a call by a user, from arrays to arrays |
| `uncall` | the run backward from the end |
| `threaded` | the interpreter in machine code, on a part of the batch |
| `reference` | the definition in Python, on a part of the batch |

*Over value* is the time of the gradient (or Jacobian) over that of the value, of the same system. The systems of Retrograd are in bold.

{streams}![Time of an evaluation, by system](benchmarks/times.svg)

![Gradient over value](benchmarks/ratios.svg)

{times}

## The first calls
The time that a user waits for each of the first calls of a function that is new to the cache: calls run in the interpreter or in first code until optimised code is there. The dotted line is a steady call.

{series}

## On a GPU
`retrograd bench --gpu` measures batches on a GPU, and single runs with parallel loops, beside JAX and Warp on the same device and Retrograd on the cores of the machine; `--report docs` adds its results to this page.

{gpu}

## Goldens
{goldens}

## Toolchain
{toolchain}

## Left out
{missing}
"""


def page(document: dict[str, Any], gpu: dict[str, Any] | None = None, points: dict[str, Any] | None = None) -> str:
    """The page as Markdown. `gpu`: the results of `retrograd bench --gpu`; `points`: those of `benchmarks/points.py`."""
    return PAGE.format(
        head=_head_of_page(document), repeats=REPEATS[not document["quick"]], bars=_bars_of_page(document), times=_times(document),
        streams=_streams_of_page(document), growth=_growth(document), counts=_counts_of_page(document), goldens=_goldens_of_page(document), toolchain=_toolchain_of_page(document), series=_series_of_page(document),
        missing=_missing(document), gpu=section(gpu), exactness=exactness(points),
    )  # fmt: skip


def write(document: dict[str, Any], docs: Path) -> list[Path]:
    """Write page, pictures and figures; return their paths."""
    folder = docs / "benchmarks"
    folder.mkdir(exist_ok=True)
    figures = folder / FIGURES
    text = docs / "benchmarks.md"
    out = [text]
    if not is_input(figures):  # With `--from` that very file, its figures stay unchanged.
        write_file(figures, json.dumps(document, indent=1) + "\n")
        out.insert(0, figures)
    write_file(text, page(document, read_gpu(docs), read_points(docs)))
    for name, draw in PICTURES.items():
        out.append(folder / f"{name}.svg")
        write_picture(out[-1], draw, document)
    return out


def write_picture(path: Path, draw: Callable[[dict[str, Any]], Figure], document: dict[str, Any]) -> None:
    """A picture of the figures as SVG. Equal figures give equal files: the ids have a fixed seed, and there is no date."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "retrograd", "font.size": 9}), replacing(path) as file:
        draw(document).savefig(file, format="svg", metadata={"Date": None})


def read_gpu(docs: Path) -> dict[str, Any] | None:
    """The kept results of `retrograd bench --gpu`; None if there are none."""
    path = docs / "benchmarks" / GPU
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return found


def read_points(docs: Path) -> dict[str, Any] | None:
    """The kept results of `benchmarks/points.py`; None if there are none."""
    path = docs / "benchmarks" / POINTS
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return found


def exactness(found: dict[str, Any] | None) -> str:
    """The table of errors with one point and with points."""
    if found is None:
        return "Not measured."
    rows = [["program", "of", "float64", "one point", "points", "F"]]
    for row in found["rows"]:
        shown = ["–" if row[key] is None else f"{row[key]:.0e}" for key in ("float64", "one", "points")]
        if row["refused"]:
            shown[1] = f"refused, {row['refused']}"
        rows.append([row["name"], row["what"], *shown, row["format"].partition(".")[2]])
    reason = (
        "Points keep the fewest bits where the numbers of one variable are of very different sizes. The first variance "
        "of the Kalman filter is 2^13 times as large as the next, and the squares of the planets' distances span 2^15. "
        "In the rows below these two, the first step has variables of its own, and distances are divided by their greater "
        "coordinate first."
    )
    planets, by_direction, by_one_place = found["rows"][:3]
    off = [row[key] * row["size"] for row, key in (
        (planets, "points"), (planets, "float64"), (by_direction, "points"), (by_one_place, "points")
    )]  # fmt: skip
    distances = (
        "After 10,000 steps no planet is more than {:.1e} AU off with points, {:.1e} AU in float64, "
        "{:.1e} AU by direction, and {:.1e} AU where one point is written, without room for greater distances."
    )
    return f"{markdown(rows, range(2, 6))}\n\n{reason} {distances.format(*off)}"


def write_gpu(found: dict[str, Any], docs: Path) -> list[Path]:
    """Keep the results of `retrograd bench --gpu`, and write the page again if the figures of the processor are there; return the paths."""
    folder = docs / "benchmarks"
    folder.mkdir(exist_ok=True)
    out = [folder / GPU]
    write_file(out[0], json.dumps(found, indent=1, default=str) + "\n")
    figures = folder / FIGURES
    if figures.exists():
        out.append(docs / "benchmarks.md")
        write_file(out[1], page(json.loads(figures.read_text(encoding="utf-8")), found, read_points(docs)))
    return out


def _head_of_page(document: dict[str, Any]) -> str:
    m = document["machine"]
    versions = [f"{name} {version}" for name, version in document["versions"].items()]
    versions += [f"{name} {p['version']}" for name, p in document["peers"].items() if not p["absent"]]
    features = f" with {', '.join(m['features'])}" if m["features"] else ""
    flags = "".join(f" {name}: `{p['flags']}`." for name, p in document["peers"].items() if p["flags"])
    if m["load"] is not None:
        idle = "idle" if m["load"] < IDLE else "**not idle**"
        flags += f" The machine was {idle} before the run (load {m['load']:.2f})."
    kind = " The run is quick, of small sizes; the bars are for full runs." if document["quick"] else ""
    pinned = f"pinned to one of {m['cores']} cores" if m["pinned"] else f"{m['cores']} cores, not pinned"
    wrong = (
        ""
        if not document["wrong"]
        else "\n\n**These results are wrong:**\n" + "\n".join(f"- {w}" for w in document["wrong"])
    )
    return f"{document['date']}, {m['processor']}{features}, {pinned}, Python {m['python']}; {', '.join(versions)}.{flags}{kind}{wrong}"


def _bars_of_page(document: dict[str, Any]) -> str:
    return markdown([["", "measured", "bar", ""], *bar_rows(document)])


def _times(document: dict[str, Any]) -> str:
    parts = []
    for w in document["workloads"]:
        for problem in w["problems"]:
            rows = [["", "system", "median", "least", "over value", "error", "peak memory", ""]]
            for what, s, cells in system_cells(problem):
                said = f"{s['status']}: {s['reason']}" if s["reason"] else s["note"]
                rows.append([what, f"**{s['system']}**" if s["ours"] else s["system"], *cells, said])
            ours = [
                f"{task['what']}: {number_text(task['instructions'])} instructions each, {task['extra_words']} words besides the arguments"
                + (
                    ""
                    if task["per_operation"] is None
                    else f", {task['per_operation']:.1f} instructions for each operation"
                )
                for task in problem["tasks"]
                if task["instructions"] is not None
            ]
            parts.append(f"### {w['title']}: {problem['size']}\n{markdown(rows)}\n\n{'; '.join(ours)}.")
    return "\n\n".join(parts)


def _streams_of_page(document: dict[str, Any]) -> str:
    rows = stream_rows(document)
    return f"{markdown([STREAM_HEAD, *rows])}\n\n" if rows else ""


def _growth(document: dict[str, Any]) -> str:
    rows = [["workload", "against", "", "from", "to", "instructions", "words besides the arguments"]]
    for w in document["workloads"]:
        points = w["curve"]["points"] if w["curve"] else []
        for what in dict.fromkeys(what for point in points for what in point["tasks"]):
            having = [p for p in points if what in p["tasks"]]
            first, last = having[0], having[-1]
            a, b = first["tasks"][what], last["tasks"][what]
            rows.append([
                w["title"], w["curve"]["axis"], what, f"{first['extent']:g}", f"{last['extent']:g}",
                f"{number_text(a['instructions'])} → {number_text(b['instructions'])}", f"{a['extra_words']} → {b['extra_words']}",
            ])  # fmt: skip
    return markdown(rows)


def _counts_of_page(document: dict[str, Any]) -> str:
    found = [w for w in document["workloads"] if w["counts"]]
    if not found:
        return "This run has no counts."
    models = list(found[0]["counts"]["energy"])
    rows = [["", "instructions", "most of them", "cycles", "level", *models]]
    for w in found:
        c = w["counts"]
        level = "" if c["uncomputing_level"] is None else f"{c['uncomputing_level']:.2f}"
        energy = [joules_text(c["energy"][m]) for m in models]
        counted = [number_text(c["instructions"]), mix_text(c), number_text(c["cycles"])]
        rows.append([w["title"], *counted, level, *energy])
    return markdown(rows)


def _goldens_of_page(document: dict[str, Any]) -> str:
    rows = [["workload", "", "expected", "found", "tolerance", ""]]
    for w in document["workloads"]:
        for g in w["goldens"]:
            found = g["reason"] if g["found"] is None else f"{g['found']:.13g}"
            tolerance = f"{g['tolerance']:.0e}" if g["tolerance"] else "exact"
            rows.append(
                [w["title"], g["what"], f"{g['expected']:.13g}", found, tolerance, "" if g["met"] else "**wrong**"]
            )
    return markdown(rows)


def _series_of_page(document: dict[str, Any]) -> str:
    if not any(row.get("series") for row in document["toolchain"]):
        return "Not measured in this run."
    return "![Time of each of the first calls](benchmarks/series.svg)"


def _toolchain_of_page(document: dict[str, Any]) -> str:
    if not document["toolchain"]:
        return "Not measured in this run."
    rows = [["", "", "", "bar", ""]]
    for row in document["toolchain"]:
        bar = "" if row["bar"] is None else f"{'≤' if row['lower_is_better'] else '≥'} {row['bar']:g}"
        value = f"{row['value']:,.0f}" if row["value"] > 1000 else f"{row['value']:.3f}"
        rows.append([row["name"], value, row["unit"], bar, {None: "", True: "met", False: "MISSED"}[row["met"]]])
    return markdown(rows)


def _missing(document: dict[str, Any]) -> str:
    lines = [f"- {name} was absent: {p['absent']}." for name, p in document["peers"].items() if p["absent"]]
    if not document["peers"]:
        lines.append("- The run had no peers.")
    for peer, tasks in not_written(document).items():
        lines.append(f"- Not written with {peer}: {', '.join(tasks)}.")
    return "\n".join(lines) or "Nothing."
