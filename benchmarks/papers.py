"""The tables of published papers, measured at the papers' sizes: `retrograd bench --papers`, docs/papers.md.

The published values are from the files `benchmarks/data/*.dat`, `benchmarks/Tapenade` and `codes/leapfrog_errors.dat`
of the repository github.com/GiggleLiu/nilangpaper, the data of J.-G. Liu, T. Zhao, Differentiate Everything with a
Reversible Embedded Domain-Specific Language (arXiv 2003.04617, 2020). No value is from its printed tables. Each
published time is the minimum of many, in float64 on a processor of that time; with `GPU` on an Nvidia Titan V.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks import ours, references
from retrograd.benchmarks.measure import ask_peer, machine, one_core, optimised, reason_of, timed
from retrograd.benchmarks.page import GPU, IDLE, number_text, seconds_text, write_picture
from retrograd.benchmarks.peers import Peer
from retrograd.benchmarks.workload import Problem, Reals, Task, Workload
from retrograd.benchmarks.workloads import ALL, adbench, functions, small
from retrograd.examples import bessel as example
from retrograd.examples import leapfrog, nice
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import command, limits, write_file
from retrograd.simulator.engines.tiering import optimised_at_once

import retrograd as rg
from retrograd import library
from retrograd.presentation import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# Published values, in seconds and bytes.

SOURCE = "J.-G. Liu, T. Zhao, arXiv 2003.04617 (2020): the data files of github.com/GiggleLiu/nilangpaper"

#: ADBench's file -> nanoseconds of Julia's value, NiLang's, ForwardDiff's Jacobian, NiLang's, and NiLang's on a GPU
_BUNDLES = {
    "ba1_n49_m7776_p31843": (2.026858e6, 2.708616e6, 6.2351517e7, 1.6642686e7, 135417.0),
    "ba4_n372_m47423_p204472": (1.2941305e7, 1.7408897e7, 5.07299418e8, 1.07867002e8, 432870.0),
    "ba7_n93_m61203_p287451": (1.8158784e7, 2.439774e7, 7.23045968e8, 1.56572483e8, 599736.0),
    "ba10_n1197_m126327_p563734": (3.5655796e7, 4.8513153e7, 1.480796803e9, 3.27473771e8, 1.734682e6),
    "ba13_n245_m198739_p1091386": (6.9152938e7, 9.4058235e7, 2.860599212e9, 6.55278289e8, 2.860537e6),
    "ba16_n1544_m942409_p4750193": (3.01528691e8, 4.16826345e8, 1.3129468617e10, 2.913111599e9, 1.0206055e7),
    "ba19_n4585_m1324582_p9125125": (6.53319288e8, 8.06563658e8, 2.5424076612e10, 5.505565395e9, 2.1785917e7),
}  # fmt: skip
#: the same files -> seconds of Tapenade's value and Jacobian
_BUNDLES_TAPENADE = {
    "ba1_n49_m7776_p31843": (1.631984e-03, 1.939888e-02),
    "ba4_n372_m47423_p204472": (1.055572e-02, 1.255456e-01),
    "ba7_n93_m61203_p287451": (1.539545e-02, 1.769343e-01),
    "ba10_n1197_m126327_p563734": (2.926825e-02, 3.489321e-01),
    "ba13_n245_m198739_p1091386": (5.687387e-02, 6.720193e-01),
    "ba16_n1544_m942409_p4750193": (2.481471e-01, 2.934607e00),
    "ba19_n4585_m1324582_p9125125": (4.780338e-01, 6.026951e00),
}
#: (d, K) of 10,000 points -> nanoseconds of Julia's value, NiLang's, ForwardDiff's gradient (0: not measured), NiLang's
_MIXTURES = {
    (2, 5): (3.83754e6, 3.358554e6, 1.2909681e7, 8.192919e6),
    (10, 5): (5.319805e6, 1.1724888e7, 1.552046079e9, 3.267277e7),
    (2, 200): (1.31960247e8, 9.9571582e7, 1.8913947211e10, 2.65457581e8),
    (10, 50): (5.2461433e7, 1.10700704e8, 1.6368854226e11, 3.12088261e8),
    (64, 5): (2.2484553e7, 7.0378987e7, 0.0, 5.98191769e8),
    (64, 10): (4.5669777e7, 1.42942147e8, 0.0, 1.189255426e9),
    (64, 25): (1.13210568e8, 3.74123333e8, 0.0, 3.093751001e9),
    (64, 200): (2.837427727e9, 5.199189926e9, 0.0, 2.740623424e10),
}
#: the same -> seconds of Tapenade's value and gradient
_MIXTURES_TAPENADE = {
    (2, 5): (1.483597e-03, 5.483722e-03),
    (10, 5): (3.747305e-03, 1.433788e-02),
    (2, 200): (4.835664e-02, 2.204811e-01),
    (10, 25): (1.793673e-02, 7.389439e-02),
    (10, 50): (3.577974e-02, 1.497299e-01),
    (64, 5): (5.313943e-02, 4.395692e-01),
    (64, 10): (1.068907e-01, 9.587908e-01),
    (64, 25): (2.582587e-01, 2.585957e00),
    (64, 200): (2.199541e00, 2.441907e01),
}
#: the same -> bytes that Julia's value, NiLang's and NiLang's gradient allocate
_MIXTURE_BYTES = {
    (2, 5): (1648.0, 7168.0, 336624.0),
    (10, 5): (6336.0, 21280.0, 1.655248e6),
    (2, 200): (48736.0, 184688.0, 730464.0),
    (10, 50): (57392.0, 186096.0, 2.087664e6),
    (64, 5): (171664.0, 517184.0, 1.1624464e7),
    (64, 10): (341808.0, 1.031424e6, 1.3001744e7),
    (64, 25): (852304.0, 2.574592e6, 1.7134432e7),
    (64, 200): (6.808144e6, 2.0574896e7, 6.534128e7),
}
#: dimensions -> nanoseconds of NiLang's value, uncall, gradient and Hessian, Julia's value, ForwardDiff's gradient and Hessian, Zygote's
#: gradient, ReverseDiff's gradient, and its Hessian with ForwardDiff
_EMBEDDINGS = {
    1: (6083.8, 6087.0, 13162.0, 194162.0, 4350.571, 7285.333, 38937.0, 525620.0, 20705.0, 732105.0),
    2: (6971.4, 6522.8, 14222.0, 439824.0, 4542.143, 15664.0, 242208.0, 544225.0, 28230.0, 1.920058e6),
    3: (7017.75, 7030.75, 15206.0, 719769.0, 4608.571, 29747.0, 1.209273e6, 559324.0, 39855.0, 3.632705e6),
    4: (7419.25, 7413.25, 16565.0, 1.009246e6, 4690.833, 44029.0, 2.456444e6, 568781.0, 45822.0, 6.016229e6),
    5: (7726.0, 7816.0, 17085.0, 1.348026e6, 4765.167, 61662.0, 4.470107e6, 582684.0, 53107.0, 8.748126e6),
    6: (8254.667, 8246.667, 18480.0, 1.715906e6, 4955.0, 71665.0, 7.198349e6, 594029.0, 60451.0, 1.1831757e7),
    7: (8601.0, 8479.0, 19747.0, 2.115255e6, 5144.833, 89731.0, 1.3417855e7, 605233.0, 68253.0, 1.5778554e7),
    8: (9022.0, 8998.0, 20597.0, 2.568404e6, 5218.5, 115032.0, 1.9932123e7, 622709.0, 76506.0, 2.0239236e7),
    9: (9547.0, 9544.0, 21802.0, 3.041459e6, 5398.0, 145288.0, 2.9178911e7, 639041.0, 86514.0, 2.5574921e7),
    10: (10327.0, 10002.0, 22783.0, 3.600093e6, 5609.8, 174996.0, 4.0389713e7, 649449.0, 96660.0, 3.2141233e7),
}  # fmt: skip
#: nanoseconds of Julia's value, NiLang's, and NiLang's way back alone: `(~idot)(GVar(…), …)` in benchmarks/sparse.jl
_SPARSE = {"real": (349271.0, 467509.0, 582059.0), "complex": (80046.0, 93324.0, 221406.0)}
#: nanoseconds of Julia's value, NiLang's; ForwardDiff's derivative, NiLang's, ReverseDiff's, Zygote's
_BESSEL = (17.739, 52.524, 41.305, 230.818, 7521.0, 22708.0)
#: steps -> mean distance of the planets from a run in twice the precision: NiLang's float64, and with ancillas in place
_CUMULATIVE = {
    4: (6.785948711179259e-16, 4.968675668581066e-15),
    16: (1.973212564205228e-15, 1.3876057425595e-14),
    64: (4.639310426579337e-15, 2.4016170382476994e-13),
    256: (1.7751218751278797e-14, 2.2255878793994033e-12),
    1024: (8.556372384823948e-14, 1.714654899386529e-11),
    4096: (8.561560216198336e-13, 1.09048671517171e-10),
    16384: (6.7755518890822604e-12, 7.905307617868218e-10),
    65536: (7.742778647437716e-11, 1.2291149767681028e-8),
}

Cells = dict[str, float]


def _seconds(names: tuple[str, ...], nanoseconds: tuple[float, ...]) -> Cells:
    return {name: n * 1e-9 for name, n in zip(names, nanoseconds, strict=True) if n}


def published_bundle(file: str) -> Cells:
    """Bundle adjustment at the size of one of ADBench's files."""
    names = "value, Julia", "value, NiLang", "Jacobian, ForwardDiff", "Jacobian, NiLang", "Jacobian, NiLang, GPU"
    more = dict(zip(("value, Tapenade", "Jacobian, Tapenade"), _BUNDLES_TAPENADE[file], strict=True))
    return _seconds(names, _BUNDLES[file]) | more


#: the files of bundle adjustment, and (d, K) of the mixtures
BUNDLES, MIXTURES = tuple(_BUNDLES), tuple(_MIXTURES)


def published_mixture(d: int, k: int) -> Cells:
    """The Gaussian mixture of 10,000 points."""
    names = "value, Julia", "value, NiLang", "gradient, ForwardDiff", "gradient, NiLang"
    found = _seconds(names, _MIXTURES.get((d, k), (0.0, 0.0, 0.0, 0.0)))
    if (d, k) in _MIXTURES_TAPENADE:
        found |= dict(zip(("value, Tapenade", "gradient, Tapenade"), _MIXTURES_TAPENADE[d, k], strict=True))
    return found


def published_mixture_bytes(d: int, k: int) -> Cells:
    """Bytes that the Gaussian mixture of 10,000 points allocates."""
    names = "value, Julia", "value, NiLang", "gradient, NiLang"
    return dict(zip(names, _MIXTURE_BYTES[d, k], strict=True)) if (d, k) in _MIXTURE_BYTES else {}


def published_embedding(dimensions: int) -> Cells:
    """The embedding of the Petersen graph."""
    names = (
        "value, NiLang", "uncall, NiLang", "gradient, NiLang", "Hessian, NiLang", "value, Julia", "gradient, ForwardDiff",
        "Hessian, ForwardDiff", "gradient, Zygote", "gradient, ReverseDiff", "Hessian, ReverseDiff",
    )  # fmt: skip
    return _seconds(names, _EMBEDDINGS[dimensions])


def published_sparse(kind: str) -> Cells:
    """Products of sparse matrices of 1000 × 1000, 5 % of the entries not zero."""
    found = _seconds(("value, Julia", "value, NiLang", "way back, NiLang"), _SPARSE[kind])
    return found | {"gradient, NiLang": found["value, NiLang"] + found["way back, NiLang"]}


def published_bessel() -> Cells:
    """J₂(1)."""
    names = (
        "value, Julia",
        "value, NiLang",
        "gradient, ForwardDiff",
        "gradient, NiLang",
        "gradient, ReverseDiff",
        "gradient, Zygote",
    )
    return _seconds(names, _BESSEL)


# -----------------------------------------------------------------------------
# Rows about steps, states and round-off: Bennett's scheme beside checkpoints, leapfrog out and back, FFT.


def checkpointed_steps(length: int, states: int) -> int:
    """The least executions of steps for a reverse sweep over a chain with room for `states` states.

    r·l − C(c + r, r − 1) with the least r for which l ≤ C(c + r, c). c = states − 1: the input is a checkpoint, and one state runs.
    Source: A. Griewank, A. Walther, Algorithm 799: revolve, ACM Trans. Math. Softw. 26 (2000), 19–45.
    """
    kept, sweeps, reach = states - 1, 0, 1
    while reach < length:
        sweeps += 1
        reach = reach * (kept + sweeps) // sweeps
    over = 1
    for i in range(1, sweeps):
        over = over * (kept + 1 + i) // i
    return sweeps * length - over if sweeps else 0


def bennett_beside_checkpoints(k: int, levels: int) -> Callable[[], Cells]:
    """The calls and states of Bennett's scheme as run, and the steps of checkpointing with as many states."""

    def row() -> Cells:
        states = library.bennett_states(k, levels)
        return {
            "steps of the chain": float(library.bennett_steps(k, levels)),
            "states": float(states),
            "calls, Bennett": small.calls(k, levels),
            "steps, checkpoints": float(checkpointed_steps(library.bennett_steps(k, levels), states)),
        }

    return row


def out_and_back(steps: int) -> Callable[[], Cells]:
    """The planets `steps` steps out and back: the words that differ, and the greatest difference of a coordinate in float64."""

    def row() -> Cells:
        q, v, gm = leapfrog.solar_system()
        begun = rg.run(leapfrog.leapfrog, q, v, gm, 0).words
        out = rg.run(leapfrog.leapfrog, q, v, gm, steps)
        energy = abs(leapfrog.energy(out.values.q, out.values.v, gm) / leapfrog.energy(q, v, gm) - 1)
        back = rg.run(~leapfrog.leapfrog, *[out.values[i] for i in range(3)], steps).words
        differing = sum(x != y for name in ("q", "v") for x, y in zip(back[name], begun[name], strict=True))
        there = references.drift_kick_drift(q, v, gm, steps, 1 / leapfrog.RATE)
        home, _ = references.drift_kick_drift(there[0], there[1], gm, steps, -1 / leapfrog.RATE)
        return {
            "words that differ": float(differing),
            "change of energy": float(energy),
            "difference, float64": float(np.abs(home - q).max()),
            "difference from float64": float(np.abs(out.values.q - there[0]).max()),
        }

    return row


def cumulative(steps: int) -> Callable[[], Cells]:
    """The mean distance of the planets from a run in long doubles; in float64 with ancillas in place, too."""

    def row() -> Cells:
        q, v, gm = start = leapfrog.solar_system()
        long = [np.asarray(part, dtype=np.longdouble) for part in start]
        exact, _ = references.drift_kick_drift(long[0], long[1], long[2], steps, np.longdouble(1) / leapfrog.RATE)
        here = {
            f"{name}, float64 here": references.drift_kick_drift(q, v, gm, steps, 1 / leapfrog.RATE, in_place)[0]
            for name, in_place in (("error", False), ("error in place", True))
        }
        here["error, Retrograd"] = rg.run(leapfrog.leapfrog, q, v, gm, steps).values.q
        return {name: float(np.sqrt(((found - exact) ** 2).sum(axis=-1)).mean()) for name, found in here.items()}

    return row


def fourier(n: int, count: int = 1000) -> Callable[[], Cells]:
    """Seconds of a Fourier transform in place, of its inverse, and of NumPy's, each of a batch."""

    def row() -> Cells:
        generator = np.random.default_rng(n)
        x = generator.normal(size=(count, n)) + 1j * generator.normal(size=(count, n))
        program = ours.value(ours.Call(library.fft, (x,)), "x")
        found = program.read(program.run("translated")).reshape(count, n, 2)
        error = float(np.abs(found @ [1, 1j] - np.fft.fft(x, norm="ortho")).max())
        tasks: dict[str, Callable[[], Any]] = {
            "value, Retrograd": lambda: program.run("translated"),
            "uncall, Retrograd": program.uncall(),
            "value, NumPy": lambda: np.fft.fft(x, norm="ortho"),
        }
        spent = timed(tasks, 5, 2.0, clock=time.process_time)
        return {name: s.minimum / count for name, s in spent.items()} | {"error": error}

    return row


# -----------------------------------------------------------------------------
# The picture of the papers' page: round-off of the leapfrog method against steps.

#: column -> the text of its curve
_CURVES = {
    "difference, float64": "out and back in float64: difference from the start",
    "difference from float64": "out: fixed point from float64",
    "change of energy": "out: relative change of energy, fixed point",
}
#: the same of the table `cumulative`
_IN_PLACE = {
    "error in place, float64 here": "out: float64 with ancillas in place, from long doubles",
    "error in place, NiLang": "the same, NiLang's published",
}


def draw_round_off(document: dict[str, Any]) -> Figure:
    """Differences on logarithmic axes. Fixed point comes back to the word, so its own curve is zero, and is named in the title."""

    def points_of(table: str, published: dict[str, Cells]) -> list[tuple[int, Cells]]:
        rows = document["rows"].get(table, {})
        found = {label: published.get(label, {}) | row["cells"] for label, row in rows.items() if row["cells"]}
        return sorted((int(label.split()[0].replace(",", "")), cells) for label, cells in found.items())

    points = points_of("round-off", {})
    in_place = points_of("cumulative", {row.label: row.published for row in _adding_up(None)})
    figure = new_figure(9.5, 3.8)
    axes = figure.add_subplot()
    for (column, text), marker in zip((_CURVES | _IN_PLACE).items(), "os^vx", strict=True):
        places = [(steps, cells[column]) for steps, cells in points + in_place if cells.get(column)]
        if places:
            axes.loglog(*zip(*places, strict=True), marker=marker, label=text)
    differing = sum(cells.get("words that differ", 0) for _, cells in points)
    axes.set_title(f"Fixed point out and back: {differing:.0f} words differ", fontsize=10)
    axes.set_xlabel("steps of a hundredth of a year")
    axes.set_ylabel("astronomical units; part of the energy")
    axes.grid(alpha=0.3)
    if points or in_place:
        figure.legend(loc="outside right upper", fontsize=8)
    return figure


# -----------------------------------------------------------------------------
# The tables: each row has published values, and a function that measures ours, or the reason why there is none.


#: seconds for all repeats of one task, and repeats
_BUDGET, _REPEATS = 4.0, 5
_SLACK = 10
#: a way of writing a figure
SECONDS, BYTES, NUMBER = "seconds", "bytes", "number"


@dataclass(frozen=True)
class Row:
    """A row: `measure()` gives the figures of our columns and of peers; None with the reason in `absent`.

    `derived`: figures that follow from those.
    """

    label: str
    published: Cells
    measure: Callable[[Sequence[Peer]], Cells] | None
    absent: str = ""
    derived: Callable[[Cells], Cells] = lambda cells: {}


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


def timings(
    problem: Problem,
    peers: Sequence[Peer],
    *,
    uncall: bool = False,
    beside: dict[str, Callable[[], Any]] | None = None,
) -> Cells:
    """The least time of each task by our system and by peers, for one evaluation.

    Raises AssertionError for a plainly wrong result. `beside`: column -> another call of all evaluations.
    """
    calls = {name: (call, float(problem.evaluations)) for name, call in (beside or {}).items()}
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
            # Its check runs backward once, which translates it for lanes as the run forward was.
            with optimised():
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
        left, seed = references.read_bundle(path).p, 0
        while left > 0:
            seed += 1
            piece = adbench.bundle_problem(path, min(left, adbench.PIECE), seed)
            for name, t in _whole(piece, peers if seed == 1 and left == piece.evaluations else ()).items():
                total[name] = total.get(name, 0.0) + t
            left -= piece.evaluations
        return total

    out = []
    for name in BUNDLES:
        path = None if data is None else data / "ba" / f"{name}.txt"
        there = path is not None and path.is_file()
        measure = functools.partial(pieces, path) if path is not None and there else None
        out.append(Row(name, published_bundle(name), measure, "" if there else "the file is not among the data"))
    return out


# ---------------------------------------------------------------------- Gaussian mixture


#: (thousands of points, d, K) of ADBench's files that are measured, besides those of the paper
_MEASURED_MIXTURES = ((1, 2, 5), (1, 10, 5), (1, 10, 25), (10, 10, 25))
#: (d, K) of the paper without a file here: as many points are generated, of a size at which gradients fit Q32.32
_GENERATED, _SIZE = {(10, 50), (64, 5), (64, 10), (64, 25), (64, 200)}, 0.5


def _mixtures(data: Path | None, measure: Callable[[Problem, Sequence[Peer]], Cells], memory: bool) -> Sequence[Row]:
    wanted = [*((10, d, k) for d, k in MIXTURES), *_MEASURED_MIXTURES]
    out = []
    for thousands, d, k in sorted(wanted):
        path = None if data is None else data / "gmm" / f"{thousands}k" / f"gmm_d{d}_K{k}.txt"
        there = path is not None and path.is_file()
        known: Cells = {}
        if thousands == 10:
            known = published_mixture_bytes(d, k) if memory else published_mixture(d, k)

        def row(peers: Sequence[Peer], path: Path | None, d: int, k: int) -> Cells:
            if path is None:
                file = adbench.random_mixture(d, k, 10_000, _SIZE)
                return measure(adbench.mixture_problem(file, "generated points"), peers)
            return measure(adbench.mixture_problem(references.read_mixture(path), path.name), peers)

        generated = thousands == 10 and (d, k) in _GENERATED
        if generated:
            path = None
        absent = "" if there or generated else "the file is not among the data"
        measured = functools.partial(row, path=path, d=d, k=k) if there or generated else None
        label = f"{thousands},000 points, d = {d}, K = {k}"
        out.append(Row(label + ", generated" * generated, known, measured, absent))
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
        return timings(functions.embedding_problem(k, 200), peers, uncall=True)

    return [Row(f"k = {k}", published_embedding(k), functools.partial(row, k)) for k in range(1, 11)]


def _sparse(data: Path | None) -> Sequence[Row]:
    def way_back(cells: Cells) -> Cells:
        return {"way back, Retrograd": cells["gradient, Retrograd"] - cells["value, Retrograd"]}

    rows: dict[str, tuple[Cells, Callable[[int], Problem]]] = {
        "trace(AᵀB), real": (published_sparse("real"), functions.sparse_problem),
        "c += αAb, complex": (published_sparse("complex"), complex_product),
    }

    def row(made: Callable[[int], Problem], peers: Sequence[Peer]) -> Cells:
        return timings(made(1000), peers)

    return [Row(label, known, functools.partial(row, made), derived=way_back) for label, (known, made) in rows.items()]


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
        return timings(functions.bessel_problem(function, np.ones(10_000), hessian=False), peers, uncall=True)

    return [
        Row("J₂(1), dirty product", published_bessel(), functools.partial(row, example.bessel)),
        Row("J₂(1), lognums", {}, functools.partial(row, example.bessel_log)),
    ]


@rg.reversible
def complex_log(z: complex, a: complex) -> None:
    """z += ln a. Inverse: z −= ln a. Trap: a = 0."""
    z += rg.log(a)


def complex_log_problem(count: int) -> tuple[Problem, Callable[[], Any]]:
    """ln a of many numbers, and the gradient of its real part; NumPy's call."""
    a = np.random.default_rng(1).normal(size=(count, 2)) @ np.array([1, 1j])
    call = ours.Call(complex_log, (np.zeros(count, dtype=complex), a))
    # d ln a = da / a, and Re(x y) has the derivatives Re y and −Im y by the parts of x.
    value = Task("value", None, _parts(np.log(a)), 1e-8, lambda: ours.value(call, "z"), absolute=True)
    slope = Task("gradient", None, _parts((1 / a).conj()), 1e-6, lambda: ours.rows(call, ["a"], "z", [0]))
    return Problem(f"{count} numbers", count, (value, slope)), functools.partial(np.log, a)


def norm_problem(count: int, n: int = 100) -> tuple[Problem, Callable[[], Any]]:
    """The norms of many vectors, and their gradients x/|x|; NumPy's call."""
    x = np.random.default_rng(1).normal(size=(count, n))
    call = ours.Call(library.norm, (np.zeros(count), x))
    norms = np.linalg.norm(x, axis=1)
    value = Task("value", None, norms, 1e-8, lambda: ours.value(call, "out"))
    slope = Task("gradient", None, x / norms[:, None], 1e-8, lambda: ours.gradient(call, ["x"]))
    return Problem(f"{count} vectors", count, (value, slope)), lambda: np.linalg.norm(x, axis=1)


def _listings(data: Path | None) -> Sequence[Row]:
    def row(made: Callable[[int], tuple[Problem, Callable[[], Any]]], count: int, peers: Sequence[Peer]) -> Cells:
        problem, by_numpy = made(count)
        return timings(problem, (), uncall=True, beside={"value, NumPy here": by_numpy})

    return [
        Row("complex logarithm", {}, functools.partial(row, complex_log_problem, 10_000)),
        Row("norm of 100 numbers", {}, functools.partial(row, norm_problem, 1000)),
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
    return [Row(f"{n} numbers", {}, _alone(fourier(n))) for n in (16, 64, 256)]


def _alone(measure: Callable[[], Cells]) -> Callable[[Sequence[Peer]], Cells]:
    return lambda peers: measure()


def _round_off(data: Path | None) -> Sequence[Row]:
    return [Row(f"{n:,} steps", {}, _alone(out_and_back(n))) for n in (10, 100, 1000, 10_000, 100_000)]


def _adding_up(data: Path | None) -> Sequence[Row]:
    names = "error, NiLang", "error in place, NiLang"
    known = {steps: dict(zip(names, errors, strict=True)) for steps, errors in _CUMULATIVE.items()}
    return [Row(f"{n:,} steps", cells, _alone(cumulative(n))) for n, cells in known.items()]


def _states(data: Path | None) -> Sequence[Row]:
    wanted = [(k, n) for k in (2, 3, 4, 5) for n in (2, 3, 4, 5, 6) if k**n <= 4096]
    return [Row(f"k = {k}, n = {n}", {}, _alone(bennett_beside_checkpoints(k, n))) for k, n in wanted]


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
    Table("sparse", "Sparse products", "1000 × 1000, 5 % of the entries are not zero. The gradient of the complex "
          "product is that of Re c₀. The published time is of the way back alone, and the value's is added here; "
          "our way back is the gradient less the value.",
          "product", SECONDS, _sparse),
    Table("bessel", "Bessel function", "One evaluation, of a batch of 10,000. The published derivatives are those of single calls.",
          "function", SECONDS, _bessel),
    Table("listings", "Programs of the listings", "One evaluation, of a batch. The repository has no times of them.",
          "function", SECONDS, _listings),
    Table("nice", "NICE coupling layers", "The loss of a flow of six layers, its points moved in place, and the gradient by all weights.",
          "batch", SECONDS, _layers),
    Table("fft", "Fourier transform", "In place by rotations, exactly reversible; NumPy's is neither.", "size", SECONDS, _fourier),
    Table("round-off", "Leapfrog: round-off against steps",
          "The Sun and eight planets, a hundredth of a year a step, out and back. Words that differ and differences in astronomical units.",
          "run", NUMBER, _round_off),
    Table("cumulative", "Leapfrog: errors that add up",
          "Mean distance of the planets from a run of more precision, in astronomical units, after steps of a "
          "hundredth of a year. *In place*: a vector qⱼ − qᵢ takes the place of qⱼ, and an "
          "addition, which float64 rounds, restores qⱼ. In fixed point it is exact: both programs give the same words.",
          "run", NUMBER, _adding_up),
    Table("states", "Bennett's scheme beside checkpoints",
          "kⁿ steps of a chain. Bennett's scheme leaves only input and output, and its way back takes as many calls again. Checkpoints (Griewank "
          "and Walther, 2000) use as many states, and forget the rest.", "scheme", NUMBER, _states),
    Table("levels", "Uncomputing level", "log₂ of instructions over those of the same source in erase mode.", "workload", NUMBER, _levels),
)  # fmt: skip


# -----------------------------------------------------------------------------
# docs/papers.md, from the store of measured rows.

#: in the folder of the documentation
STORE, PAPERS, PICTURE = "benchmarks/papers.json", "papers.md", "benchmarks/round-off.svg"


#: workloads of the kept figures of a GPU -> table, row, column, whether the cell is of one evaluation
_ON_GPU = {
    "BA errors, 9125125 measurements": ("ba", BUNDLES[-1], "value", False),
    "BA Jacobian blocks, 9125125 measurements": ("ba", BUNDLES[-1], "Jacobian", False),
    "GMM objective, 1000 points, k = 25": ("gmm", "1,000 points, d = 10, K = 25", "value", False),
    "GMM gradient, 1000 points, k = 25": ("gmm", "1,000 points, d = 10, K = 25", "gradient", False),
    "graph embedding, k = 10, 1000000 embeddings": ("graph", "k = 10", "value", True),
    "graph embedding, k = 10, gradient, 1000000 embeddings": ("graph", "k = 10", "gradient", True),
    "Bessel J₂, 10000 numbers": ("bessel", "J₂(1), dirty product", "value", True),
    "Bessel J₂ and its slope, 10000 numbers": ("bessel", "J₂(1), dirty product", "gradient", True),
}
Gpu = dict[tuple[str, str], Cells]


def gpu_cells(report: dict[str, Any]) -> Gpu:
    """(table, row) -> our columns on a GPU, of the figures that `retrograd bench --gpu` kept: seconds of kernels."""
    out: Gpu = {}
    for found in report["times"]:
        if found["system"] == "retrograd" and found["workload"] in _ON_GPU:
            table, label, quantity, one = _ON_GPU[found["workload"]]
            cell = found["kernel_ms"] / 1e3 / (found["instances"] if one else 1)
            out.setdefault((table, label), {})[f"{quantity}, Retrograd, GPU"] = cell
    return out


def page(document: dict[str, Any], gpu: dict[str, Any] | None = None) -> str:
    """The page: each table of the papers, published values beside measured ones, and the reason for each empty cell.

    `gpu`: the kept figures of a GPU.
    """
    machines = sorted({row["machine"] for rows in document["rows"].values() for row in rows.values()})
    dates = sorted({row["date"] for rows in document["rows"].values() for row in rows.values()})
    head = f"""<!-- Generated by `retrograd bench --papers --report docs`; do not edit. -->

# The papers' tables

The tables of the papers at their sizes, published values beside ours. Published: {SOURCE}; in float64, on another machine.
Every published value is from a data file of that repository, and none is from the printed tables.
*Generated*: as many points as in the paper, of our own, since its file is not at hand.
Columns of Retrograd, and columns with *here*, are of one process on one core of this machine: {", ".join(machines) or "none"}
({_span(dates)}). Compare systems within a machine. Retrograd computes in Q32.32 with every check on, and each result was compared with a
reference in float64 before it was timed.

```
retrograd bench --papers --data adbench --report docs          # all tables; a later run measures only rows that are missing
retrograd bench --papers graph sparse --store found.json       # some of them
```
"""
    if gpu is not None:
        head += (
            f"\n*Retrograd, GPU*: kernels on {gpu['machine']['device']}, without copies, by `bench --gpu`; a\n"
            "mixture has a thread for each point, all others one an evaluation. *NiLang, GPU*: an Nvidia Titan V.\n"
        )
    return "\n".join([head, sections(document, gpu=gpu_cells(gpu) if gpu else {})])


def sections(document: dict[str, Any], tables: Sequence[Table] = TABLES, gpu: Gpu | None = None) -> str:
    """These tables of the page, with our columns on a GPU."""
    return "\n".join(_section(t, document["rows"].get(t.name, {}), gpu or {}) for t in tables)


def write(document: dict[str, Any], docs: Path) -> Path:
    """Write the page and its picture. Returns the place of the page."""
    from retrograd.isa.files import write_file

    write_picture(docs / PICTURE, draw_round_off, document)
    path, kept = docs / PAPERS, docs / "benchmarks" / GPU
    gpu = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
    write_file(str(path), page(document, gpu))
    return path


def _span(dates: list[str]) -> str:
    if not dates:
        return "not measured"
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _section(table: Table, found: dict[str, Any], gpu: Gpu) -> str:
    # Without data, all rows are listed, and measured ones are in the store.
    rows = list(table.rows(None))
    measured = {label: kept["cells"] for label, kept in found.items()}
    for row in rows:
        cells = measured.get(row.label, {})
        if cells or (table.name, row.label) in gpu:
            measured[row.label] = cells | (row.derived(cells) if cells else {}) | gpu.get((table.name, row.label), {})
    columns = _columns(rows, measured)
    texts: dict[str, Callable[[float | None], str]] = {SECONDS: seconds_text, BYTES: _bytes_text}
    # A column without a system is no time.
    show = [texts.get(table.unit, _figure_text) if "," in name else _figure_text for name in columns]
    lines = [f"## {table.title}", table.text, ""]
    lines.append("| " + " | ".join([table.what, *columns]) + " |")
    lines.append("| --- " * (len(columns) + 1) + "|")
    notes = []
    for row in rows:
        kept = found.get(row.label)
        cells = row.published | measured.get(row.label, {})
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
    busy = [label for label, kept in found.items() if table.unit == SECONDS and kept.get("load", 0.0) > IDLE]
    if busy:
        notes.append(f"Measured on a machine with other work: {'; '.join(busy)}.")
    if any(row.published for row in rows) and missing:
        notes.append(f"Not in the paper: {'; '.join(missing)}.")
    if table.name == "round-off":
        lines += ["", f"![Differences against steps]({PICTURE})"]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _columns(rows: list[Row], measured: dict[str, Cells]) -> list[str]:
    """Columns grouped by quantity, ours first."""
    names = [name for cells in (*measured.values(), *(row.published for row in rows)) for name in cells]
    seen = list(dict.fromkeys(names))
    quantities = list(dict.fromkeys(name.partition(",")[0] for name in seen))
    return sorted(seen, key=lambda name: (quantities.index(name.partition(",")[0]), seen.index(name)))


def _bytes_text(size: float | None) -> str:
    return "" if size is None else f"{size:,.0f}"


def _figure_text(value: float | None) -> str:
    if value is not None and 0 < abs(value) < 0.01:
        return f"{value:.1e}"
    return number_text(value)


# -----------------------------------------------------------------------------
# Measure the rows of the tables one after the other, into a store that a later run goes on with: schema retrograd.papers/1.

SCHEMA = "retrograd.papers/1"


def read(path: Path) -> dict[str, Any]:
    """The kept rows of a store; a new store where there is no file. Raises InputError RG1203 for a file of another kind."""
    if not path.exists():
        return {"schema": SCHEMA, "rows": {}}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(Diagnostic("RG1203", f"{path} is no store of measured tables: {error}")) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("rows"), dict):
        raise InputError(Diagnostic("RG1203", f"{path} is no store of measured tables: its schema is not {SCHEMA}"))
    return found


def measure(
    store: Path, tables: Sequence[Table] = TABLES, data: Path | None = None, peers: Sequence[Peer] = (), *,
    most: int | None = None, say: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Measure the rows that the store lacks, at most `most`; the store is written after each. A row that fails is kept with the reason.

    Interrupted, it goes on from the next row when it is called again. Raises InputError for a store that cannot be read or written.
    """
    document = read(store)
    rows = [(t, r) for t in tables for r in t.rows(data)]
    left = [(t, r) for t, r in rows if r.measure is not None and not _kept(document, t, r.label)]
    with one_core() as core, optimised_at_once():
        present = [peer for peer in peers if not peer.absent()]
        for done, (t, r) in enumerate(left[:most]):
            say(f"{len(rows) - len(left) + done + 1} of {len(rows)}: {t.title}, {r.label}")
            assert r.measure is not None
            row: dict[str, Any] = {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")}
            row["machine"] = machine(core)["processor"]
            row["load"] = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0
            try:
                row["cells"] = r.measure(present)
            except (KeyboardInterrupt, MemoryError):
                raise
            except Exception as error:
                row |= {"cells": {}, "failed": reason_of(error)}
            document["rows"].setdefault(t.name, {})[r.label] = row
            # The store is replaced after each row, which one command may do to one file only.
            with command(limits()):
                write_file(str(store), json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document


def _kept(document: dict[str, Any], table: Table, label: str) -> bool:
    """Whether a row is measured. A row that failed is measured again."""
    row = document["rows"].get(table.name, {}).get(label)
    return row is not None and "failed" not in row


def failed(document: dict[str, Any]) -> list[str]:
    """The rows that failed, with reasons."""
    return [
        f"{name}, {label}: {row['failed']}"
        for name, rows in document["rows"].items()
        for label, row in rows.items()
        if "failed" in row
    ]
