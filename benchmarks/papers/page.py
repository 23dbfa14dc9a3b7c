"""The picture of the papers' page: round-off of the leapfrog method against steps."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks import ours
from retrograd.benchmarks.data import Reals
from retrograd.benchmarks.measure import optimised, timed
from retrograd.benchmarks.papers import physics, published
from retrograd.benchmarks.peers import Peer
from retrograd.benchmarks.references import adbench
from retrograd.benchmarks.reporting.report import write_picture
from retrograd.benchmarks.reporting.table import number_text, seconds_text
from retrograd.benchmarks.systems import ask_peer
from retrograd.benchmarks.workload import Problem, Task, Workload
from retrograd.benchmarks.workloads import ALL, bessel, bundle_adjustment, gmm, graph_embedding, sparse_dot
from retrograd.examples import bessel as example
from retrograd.examples import nice

import retrograd as rg
from retrograd import library
from retrograd.presentation import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: column -> the text of its curve
_CURVES = {
    "difference, float64": "out and back in float64: difference from the start",
    "difference from float64": "out: fixed point from float64",
    "change of energy": "out: relative change of energy, fixed point",
}


def draw_round_off(document: dict[str, Any]) -> Figure:
    """Differences on logarithmic axes. Fixed point comes back to the word, so its own curve is zero, and is named in the title."""
    rows = document["rows"].get("round-off", {})
    points = sorted(
        (int(label.split()[0].replace(",", "")), row["cells"]) for label, row in rows.items() if row["cells"]
    )
    figure = new_figure(7.0, 3.8)
    axes = figure.add_subplot()
    for (column, text), marker in zip(_CURVES.items(), "os^", strict=True):
        places = [(steps, cells[column]) for steps, cells in points if cells.get(column)]
        if places:
            axes.loglog(*zip(*places, strict=True), marker=marker, label=text)
    differing = sum(cells.get("words that differ", 0) for _, cells in points)
    axes.set_title(f"Fixed point out and back: {differing:.0f} words differ", fontsize=10)
    axes.set_xlabel("steps of a hundredth of a year")
    axes.set_ylabel("astronomical units; part of the energy")
    axes.grid(alpha=0.3)
    if points:
        axes.legend(fontsize=8)
    return figure


# -----------------------------------------------------------------------------
# The tables: each row has published values, and a function that measures ours, or the reason why there is none.

Cells = dict[str, float]
#: seconds for all repeats of one task, and repeats
_BUDGET, _REPEATS = 4.0, 5
_SLACK = 10
#: a way of writing a figure
SECONDS, BYTES, NUMBER = "seconds", "bytes", "number"


@dataclass(frozen=True)
class Row:
    """A row: `measure()` gives the figures of our columns and of peers; None with the reason in `absent`."""

    label: str
    published: Cells
    measure: Callable[[Sequence[Peer]], Cells] | None
    absent: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a paper."""

    name: str
    title: str
    text: str
    #: of a row
    what: str
    unit: str
    rows: Callable[[Path | None], Sequence[Row]]


def timings(problem: Problem, peers: Sequence[Peer], *, uncall: bool = False) -> Cells:
    """The least time of each task by our system and by peers, for one evaluation. Raises AssertionError for a plainly wrong result."""
    calls: dict[str, tuple[Callable[[], Any], float]] = {}
    for task in problem.tasks:
        program = task.ours()
        with optimised():
            first = program.run("translated")
        error = task.error(program.read(first))
        # The tolerances are those of the sizes of the workloads, and some tables go beyond.
        if not error <= _SLACK * task.tolerance:
            raise AssertionError(f"{task.what}: the error is {error:.1e}, and may be {_SLACK * task.tolerance:.1e}")
        each = float(program.evaluations or problem.evaluations)
        what = {"jacobian": "Jacobian", "hessian": "Hessian"}.get(task.what, task.what)
        calls[f"{what}, Retrograd"] = functools.partial(program.run, "translated"), each
        if uncall and task.what == "value":
            calls["uncall, Retrograd"] = program.uncall(), each
        for peer in peers:
            for name, made in peer.systems(type(task.data), task.what).items():
                system = ask_peer(name, made, task, problem)
                if system.call is not None:
                    calls[f"{what}, {name} here"] = system.call, system.evaluations
    spent = timed({name: call for name, (call, _) in calls.items()}, _REPEATS, _BUDGET, clock=time.process_time)
    return {name: spent[name].minimum / each for name, (_, each) in calls.items()}


def _whole(problem: Problem, peers: Sequence[Peer], **options: Any) -> Cells:
    """The times of all evaluations of the problem together."""
    return {name: t * problem.evaluations for name, t in timings(problem, peers, **options).items()}


# ---------------------------------------------------------------------- bundle adjustment


def _bundles(data: Path | None) -> Sequence[Row]:
    def pieces(path: Path, peers: Sequence[Peer]) -> Cells:
        """Pieces of some hundred megabytes one after the other, since the whole does not fit into memory."""
        total: Cells = {}
        left, seed = adbench.read_bundle(path).p, 0
        while left > 0:
            seed += 1
            piece = bundle_adjustment.problem(path, min(left, bundle_adjustment.PIECE), seed)
            for name, t in _whole(piece, peers if seed == 1 and left == piece.evaluations else ()).items():
                total[name] = total.get(name, 0.0) + t
            left -= piece.evaluations
        return total

    out = []
    for name in published.BUNDLES:
        path = None if data is None else data / "ba" / f"{name}.txt"
        there = path is not None and path.is_file()
        measure = functools.partial(pieces, path) if path is not None and there else None
        out.append(Row(name, published.bundle(name), measure, "" if there else "the file is not among the data"))
    return out


# ---------------------------------------------------------------------- Gaussian mixture


#: (thousands of points, d, K) of ADBench's files that are measured, besides those of the paper
_MEASURED_MIXTURES = ((1, 2, 5), (1, 10, 5), (1, 10, 25), (10, 10, 25))


def _mixtures(data: Path | None, measure: Callable[[Problem, Sequence[Peer]], Cells], memory: bool) -> Sequence[Row]:
    wanted = [*((10, d, k) for d, k in published.MIXTURES), *_MEASURED_MIXTURES]
    out = []
    for thousands, d, k in sorted(wanted):
        path = None if data is None else data / "gmm" / f"{thousands}k" / f"gmm_d{d}_K{k}.txt"
        there = path is not None and path.is_file()
        known: Cells = {}
        if thousands == 10:
            known = published.mixture_bytes(d, k) if memory else published.mixture(d, k)

        def row(peers: Sequence[Peer], path: Path | None = path) -> Cells:
            assert path is not None
            return measure(gmm.problem(adbench.read_mixture(path), path.name), peers)

        absent = "" if there else "the file is not among the data"
        out.append(Row(f"{thousands},000 points, d = {d}, K = {k}", known, row if there else None, absent))
    return out


def _words(problem: Problem, peers: Sequence[Peer]) -> Cells:
    """Bytes besides the arguments."""
    out = {}
    for task in problem.tasks:
        program = task.ours()
        out[f"{task.what}, Retrograd"] = 8.0 * (program.words - program.own)
    return out


# ---------------------------------------------------------------------- graph, sparse, Bessel, NICE


def _embeddings(data: Path | None) -> Sequence[Row]:
    def row(k: int, peers: Sequence[Peer]) -> Cells:
        return timings(graph_embedding.problem(k, 200), peers, uncall=True)

    return [Row(f"k = {k}", published.embedding(k), functools.partial(row, k)) for k in range(1, 11)]


def _sparse(data: Path | None) -> Sequence[Row]:
    return [
        Row("trace(AᵀB), real", published.sparse("real"), lambda peers: timings(sparse_dot.problem(1000), peers)),
        Row("c += αAb, complex", published.sparse("complex"), lambda peers: timings(complex_product(1000), peers)),
    ]


def complex_product(n: int, density: float = 0.05) -> Problem:
    """c += α A b, A a complex sparse matrix and b a vector: the value, and the gradient of Re c₀ by A and b."""
    generator = np.random.default_rng(n)
    there = generator.random((n, n)) < density
    starts = [0, *np.cumsum(there.sum(axis=0)).tolist()]
    rows = np.concatenate([np.flatnonzero(column) for column in there.T])
    values, b = (generator.normal(size=m) + 1j * generator.normal(size=m) for m in (len(rows), n))
    columns = np.repeat(np.arange(n), np.diff(starts))
    dense = np.zeros((n, n), dtype=complex)
    dense[rows, columns] = values
    alpha = 0.5
    function = library.sparse_matmul
    given = np.zeros((1, n, 1), dtype=complex), starts, rows, values, b[:, None], complex(alpha)
    call = ours.Call(function, given, ours.only("c", function))
    first = np.flatnonzero(rows == 0)
    # Re(x y) has the derivatives Re y and −Im y by the parts of x.
    by_values, by_b = np.zeros(len(rows), dtype=complex), np.zeros(n, dtype=complex)
    by_values[first] = alpha * b[columns[first]].conj()
    by_b[columns[first]] = alpha * values[first].conj()
    product = np.asarray(alpha * (dense @ b), dtype=np.complex128)
    exact, slopes = _parts(product), _parts(np.concatenate([by_values, by_b]))
    return Problem(
        f"{n} × {n}, {len(rows)} entries", 1,
        (
            Task("value", None, exact, 1e-6, lambda: ours.value(call, "c"), absolute=True),
            Task("gradient", None, slopes, 1e-8, lambda: ours.rows(call, ["values", "b"], "c", [0])),
        ),
    )  # fmt: skip


def _parts(numbers: NDArray[np.complex128]) -> Reals:
    """Real and imaginary parts, in turn."""
    return np.stack([numbers.real, numbers.imag], axis=-1).ravel()


def _bessel(data: Path | None) -> Sequence[Row]:
    def row(function: rg.Reversible, peers: Sequence[Peer]) -> Cells:
        return timings(bessel.problem(function, np.ones(10_000), hessian=False), peers)

    return [
        Row("J₂(1), dirty product", published.bessel(), functools.partial(row, example.bessel)),
        Row("J₂(1), lognums", {}, functools.partial(row, example.bessel_log)),
    ]


def _layers(data: Path | None) -> Sequence[Row]:
    def row(points: int, peers: Sequence[Peer]) -> Cells:
        generator = np.random.default_rng(points)
        weights = nice.start()
        call = ours.Call(
            nice.loss, (np.zeros(1), generator.normal(size=(points, 2)), 1, *weights), ours.only("out", nice.loss)
        )
        programs = {"value": ours.value(call, "out"), "gradient": ours.gradient(call, ["w1", "b1", "w2", "b2", "s"])}
        tasks = {f"{name}, Retrograd": functools.partial(p.run, "translated") for name, p in programs.items()}
        return {name: s.minimum for name, s in timed(tasks, _REPEATS, _BUDGET, clock=time.process_time).items()}

    return [Row(f"{n} points", {}, functools.partial(row, n)) for n in (32, 1024)]


# ---------------------------------------------------------------------- counts and physics


def _fourier(data: Path | None) -> Sequence[Row]:
    return [Row(f"{n} numbers", {}, _alone(physics.fourier(n))) for n in (16, 64, 256)]


def _alone(measure: Callable[[], Cells]) -> Callable[[Sequence[Peer]], Cells]:
    return lambda peers: measure()


def _round_off(data: Path | None) -> Sequence[Row]:
    return [Row(f"{n:,} steps", {}, _alone(physics.out_and_back(n))) for n in (10, 100, 1000, 10_000, 100_000)]


def _states(data: Path | None) -> Sequence[Row]:
    wanted = [(k, n) for k in (2, 3, 4, 5) for n in (2, 3, 4, 5, 6) if k**n <= 4096]
    return [Row(f"k = {k}, n = {n}", {}, _alone(physics.bennett_beside_checkpoints(k, n))) for k, n in wanted]


def _levels(data: Path | None) -> Sequence[Row]:
    def row(workload: Workload, peers: Sequence[Peer]) -> Cells:
        function, args = workload.counted()
        report = rg.energy(function, *args)
        level = report.uncomputing_level
        return {"instructions": float(report.counts.retired)} | ({} if level is None else {"level": float(level)})

    return [Row(w.title, {}, functools.partial(row, w)) for w in ALL]


TABLES = (
    Table("ba", "Bundle adjustment", "Value and Jacobian of all measurements of ADBench's files, one core.", "file", SECONDS, _bundles),
    Table("gmm", "Gaussian mixture", "Value and gradient of the log-likelihood, ADBench's files.", "mixture", SECONDS,
          functools.partial(_mixtures, measure=timings, memory=False)),
    Table("gmm-memory", "Gaussian mixture: memory", "Bytes besides the arguments; for published values the bytes that are allocated.",
          "mixture", BYTES, functools.partial(_mixtures, measure=_words, memory=True)),
    Table("graph", "Graph embedding", "The Petersen graph in k dimensions.", "dimensions", SECONDS, _embeddings),
    Table("sparse", "Sparse products", "1000 × 1000, 5 % of the entries are not zero. The gradient of the complex product is that of Re c₀.",
          "product", SECONDS, _sparse),
    Table("bessel", "Bessel function", "One evaluation, of a batch of 10,000. The published derivatives are those of single calls.",
          "function", SECONDS, _bessel),
    Table("nice", "NICE coupling layers", "The loss of a flow of six layers, its points moved in place, and the gradient by all weights.",
          "batch", SECONDS, _layers),
    Table("fft", "Fourier transform", "In place by rotations, exactly reversible; NumPy's is neither.", "size", SECONDS, _fourier),
    Table("round-off", "Leapfrog: round-off against steps",
          "The Sun and eight planets, a hundredth of a year a step, out and back. Words that differ and differences in astronomical units.",
          "run", NUMBER, _round_off),
    Table("states", "Bennett's scheme beside checkpoints",
          "kⁿ steps of a chain. Bennett's scheme leaves only input and output, and its way back takes as many calls again. Checkpoints (Griewank "
          "and Walther, 2000) use as many states, and forget the rest.", "scheme", NUMBER, _states),
    Table("levels", "Uncomputing level", "log₂ of instructions over those of the same source in erase mode.", "workload", NUMBER, _levels),
)  # fmt: skip


# -----------------------------------------------------------------------------
# docs/papers.md, from the store of measured rows.

#: in the folder of the documentation
STORE, PAGE, PICTURE = "benchmarks/papers.json", "papers.md", "benchmarks/round-off.svg"


def page(document: dict[str, Any]) -> str:
    """The page: each table of the papers, published values beside measured ones, and the reason for each empty cell."""
    machines = sorted({row["machine"] for rows in document["rows"].values() for row in rows.values()})
    dates = sorted({row["date"] for rows in document["rows"].values() for row in rows.values()})
    head = f"""<!-- Generated by `retrograd bench --papers --report docs`; do not edit. -->

# The papers' tables

The tables of the papers at their sizes, published values beside ours. Published: {published.SOURCE}; in float64, on another machine.
Columns of Retrograd, and columns with *here*, are of one process on one core of this machine: {", ".join(machines) or "none"}
({_span(dates)}). Compare systems within a machine. Retrograd computes in Q32.32 with every check on, and each result was compared with a
reference in float64 before it was timed.

```
retrograd bench --papers --data adbench --report docs          # all tables; a later run measures only rows that are missing
retrograd bench --papers graph sparse --store found.json       # some of them
```
"""
    return "\n".join([head, sections(document)])


def sections(document: dict[str, Any], tables: Sequence[Table] = TABLES) -> str:
    """These tables of the page."""
    return "\n".join(_section(t, document["rows"].get(t.name, {})) for t in tables)


def write(document: dict[str, Any], docs: Path) -> Path:
    """Write the page and its picture. Returns the place of the page."""
    from retrograd.isa.files import write_file

    write_picture(docs / PICTURE, draw_round_off, document)
    path = docs / PAGE
    write_file(str(path), page(document))
    return path


def _span(dates: list[str]) -> str:
    if not dates:
        return "not measured"
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _section(table: Table, found: dict[str, Any]) -> str:
    # Without data, all rows are listed, and measured ones are in the store.
    rows = list(table.rows(None))
    columns = _columns(rows, found)
    texts: dict[str, Callable[[float | None], str]] = {SECONDS: seconds_text, BYTES: _bytes_text}
    # A column without a system is no time.
    show = [texts.get(table.unit, _figure_text) if "," in name else _figure_text for name in columns]
    lines = [f"## {table.title}", table.text, ""]
    lines.append("| " + " | ".join([table.what, *columns]) + " |")
    lines.append("| --- " * (len(columns) + 1) + "|")
    notes = []
    for row in rows:
        kept = found.get(row.label)
        cells = row.published | (kept["cells"] if kept else {})
        lines.append(
            "| "
            + " | ".join([row.label, *(text(cells.get(c)) or "–" for text, c in zip(show, columns, strict=True))])
            + " |"
        )
        if kept is None:
            notes.append(f"{row.label}: {row.absent or 'not measured'}.")
        elif "failed" in kept:
            notes.append(f"{row.label}: failed, {kept['failed']}.")
    missing = [row.label for row in rows if not row.published]
    if not found:
        notes = ["No row is measured."]
    if any(row.published for row in rows) and missing:
        notes.append(f"Not in the paper: {'; '.join(missing)}.")
    if table.name == "round-off":
        lines += ["", f"![Differences against steps]({PICTURE})"]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _columns(rows: list[Row], found: dict[str, Any]) -> list[str]:
    """Columns grouped by quantity, ours first."""
    names = [name for row in found.values() for name in row["cells"]] + [name for row in rows for name in row.published]
    seen = list(dict.fromkeys(names))
    quantities = list(dict.fromkeys(name.partition(",")[0] for name in seen))
    return sorted(seen, key=lambda name: (quantities.index(name.partition(",")[0]), seen.index(name)))


def _bytes_text(size: float | None) -> str:
    return "" if size is None else f"{size:,.0f}"


def _figure_text(value: float | None) -> str:
    if value is not None and 0 < abs(value) < 0.01:
        return f"{value:.1e}"
    return number_text(value)
