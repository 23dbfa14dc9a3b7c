"""Run workloads on every engine and every peer, and judge the bars: the document of schema retrograd.bench/3.

Goldens come first. All systems of a problem (`measure.py`) take turns on one core, so that drift affects all alike. A bar is a performance
aim: a ratio beside the best peer, or a measurement of the same run.
"""

from __future__ import annotations

import datetime
import functools
import gc
import hashlib
import importlib.metadata
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from retrograd.benchmarks import toolchain
from retrograd.benchmarks.measure import (
    BUDGET,
    SLOW,
    Place,
    Say,
    System,
    ask_peer,
    machine,
    one_core,
    peaks,
    reason_of,
    run_problem,
    timed,
)
from retrograd.benchmarks.ours import Ours
from retrograd.benchmarks.peers import Peer
from retrograd.benchmarks.workload import Golden, Problem, Sizes, Stream, Workload
from retrograd.simulator.energy.technology import Range, shipped, technology
from retrograd.simulator.engines.tiering import optimised_at_once

import retrograd as rg
from retrograd.runtime._batch_runs import BatchWords
from retrograd.runtime._distribution import Distribution, Keeping, distribute
from retrograd.version import __version__

# -----------------------------------------------------------------------------
# The bars. A missed bar is reported as missed. A bar that this run cannot measure (a peer is absent, or sizes are those of a quick run) is open.
#
# Two aims of earlier versions are replaced, since no design of this kind reaches them: CasADi's Hessian of the graph is a symbolic
# expression compiled by gcc, with the common parts of all 100 columns computed once; and 45 ns for the gradient of a Bessel function is
# less than the time of its products and quotients in fixed point.

#: why a bar is open in a quick run
_SHORT = "sizes of a quick run"


@dataclass(frozen=True)
class Bar:
    """One bar. `measured` is None for an open bar; `reason` then gives the cause."""

    name: str
    limit: float
    unit: str
    measured: float | None
    reason: str = ""
    #: the measurement must reach the limit, and not stay below it
    at_least: bool = False

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "open"
        reached = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "met" if reached else "missed"


def of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """All bars, with the measurements of the document."""
    found = [
        _beside(document, "BA Jacobian over Enzyme's", 1.5, "ba", "jacobian", "enzyme"),
        _beside(document, "graph gradient, k = 10, over Enzyme's", 2, "graph", "gradient", "enzyme"),
        _beside(document, "graph Hessian, k = 10, over JAX's", 1, "graph", "hessian", "jax"),
        _beside(document, "graph Hessian, k = 10, over Enzyme's forward over a gradient by hand", 3, "graph", "hessian", "enzyme"),
        _beside(document, "Bessel gradient over Enzyme's forward mode", 5, "bessel", "gradient", "enzyme"),
        _beside(document, "Gaussian mixture, gradient over JAX's", 6, "gmm", "gradient", "jax"),
        _beside(document, "Gaussian mixture, value over Numba's", 8, "gmm", "value", "numba"),
        _beside(document, "sparse product, gradient over Enzyme's", 1.5, "sparse-dot", "gradient", "enzyme"),
        _beside(document, "leapfrog gradient over JAX's", 1, "leapfrog", "gradient", "jax"),
        _beside(document, "wave gradient over JAX's with two levels of checkpoints", 2, "wave", "gradient", "jax-checkpoint"),
        _beside(document, "wave gradient, memory over JAX's scan", 0.1, "wave", "gradient", "jax", "peak_bytes"),
        *_dense(document),
        _growth(document, "wave"),
        _part(document, toolchain.CORES, 1.7, "×", at_least=True),
        _part(document, toolchain.RETURNS, 0, "words"),
        _worst("values over Numba's, the worst workload", 8, _beside_each(document, "value", "numba")),
        _worst("instructions for each operation of the irreversible program, value, the worst workload", 3, _for_each_operation(document, ("value",))),
        _worst("instructions for each operation of the irreversible program, gradient, the worst workload", 9, _for_each_operation(document, ("gradient", "jacobian"))),
        _part(document, toolchain.AUTO, 1.3, "×"),
        _worst("uncall over call, the worst workload", 1.1, _backward(document)),
        *(_part(document, name, 3, "×") for name in toolchain.SERIES.values()),
        *(_part(document, name, 1.3, "×") for name in toolchain.PRINTS.values()),
        _part(document, toolchain.BA, 0.5, "s"),
        _part(document, toolchain.GMM, 3.0, "s"),
        _part(document, toolchain.DIFFERENT, 200_000, "lines/s", at_least=True),
    ]  # fmt: skip
    return [asdict(bar) | {"verdict": bar.verdict} for bar in found]


def _dense(document: dict[str, Any]) -> list[Bar]:
    """Dense algebra and a batch of a small program, in words of 64 and of 32 bits."""
    found = [
        _beside(document, f"product of matrices, 128 × 128, {w}, {what} over NumPy's", limit, f"matmul{suffix}", what, "numpy")
        for w, suffix, limit in (("Q32.32", "", 12), ("Q16.16", "-narrow", 4))
        for what in ("value", "gradient")
    ]  # fmt: skip
    found += [
        _beside(document, "regression, gradient over NumPy's", 3, "regression", "gradient", "numpy"),
        _beside(document, "cubic polynomials, arrays to arrays, over Numba's", 12, "polynomial", "value", "numba", ours="public"),
    ]  # fmt: skip
    narrow = figure(task(document, "polynomial-narrow", "value"), "public")
    wide = figure(task(document, "polynomial", "value"), "public")
    name, ratio = (
        "cubic polynomials, arrays to arrays, Q16.16 over Q32.32",
        None if not narrow or not wide else narrow / wide,
    )
    reason = _SHORT if document["quick"] else "polynomials of both formats were not run"
    return [
        *found,
        Bar(name, 0.7, "×", None if document["quick"] else ratio, "" if ratio and not document["quick"] else reason),
    ]


def task(document: dict[str, Any], workload: str, what: str) -> dict[str, Any] | None:
    """The task of a workload's first problem, if the run has it."""
    for w in document["workloads"]:
        if w["name"] == workload and w["problems"]:
            for found in w["problems"][0]["tasks"]:
                if found["what"] == what:
                    out: dict[str, Any] = found
                    return out
    return None


def figure(found: dict[str, Any] | None, system: str, of: str = "minimum") -> float | None:
    """A figure of a system on a task: least seconds of one evaluation, or `peak_bytes`; None if the system was not timed."""
    for s in found["systems"] if found is not None else ():
        if s["system"] == system and s["status"] == "timed":
            out: float | None = s[of]
            return out
    return None


def _beside(
    document: dict[str, Any],
    name: str,
    limit: float,
    workload: str,
    what: str,
    peer: str,
    of: str = "minimum",
    ours: str = "translated",
) -> Bar:
    found = task(document, workload, what)
    if found is None:
        return Bar(name, limit, "×", None, f"{workload} was not run")
    if document["quick"]:
        return Bar(name, limit, "×", None, _SHORT)
    own, theirs = figure(found, ours, of), figure(found, peer, of)
    if own is None or theirs is None:
        return Bar(name, limit, "×", None, f"{'ours' if own is None else peer} was not measured in this run")
    return Bar(name, limit, "×", own / theirs)


def _part(document: dict[str, Any], name: str, limit: float, unit: str, at_least: bool = False) -> Bar:
    """A bar on a row of the toolchain."""
    rows = [row["value"] for row in document["toolchain"] if row["name"] == name]
    if not rows or document["quick"]:
        reason = _SHORT if document["quick"] else "its part of the toolchain was not run"
        return Bar(name, limit, unit, None, reason, at_least)
    return Bar(name, limit, unit, rows[0], at_least=at_least)


def _worst(name: str, limit: float, ratios: Iterator[tuple[str, float]]) -> Bar:
    """A bar on the largest ratio of all workloads."""
    whose, worst = max(ratios, key=lambda one: one[1], default=("", None))
    return Bar(name, limit, "×", worst, whose or "no workload was measured")


def _of_each(document: dict[str, Any], what: str, measure: Callable[[dict[str, Any]], float | None]) -> Iterator[tuple[str, float]]:  # fmt: skip
    for w in document["workloads"]:
        found = task(document, w["name"], what)
        ratio = None if found is None else measure(found)
        if ratio is not None:
            yield w["name"], ratio


def _over(found: dict[str, Any], above: str, below: str) -> float | None:
    a, b = figure(found, above), figure(found, below)
    return a / b if a and b else None


def _beside_each(document: dict[str, Any], what: str, peer: str) -> Iterator[tuple[str, float]]:
    """Workloads in fixed point: the peer's program has no logarithms to compare with those of lognums.

    Polynomials have a bar of their own.
    """
    ratios = _of_each(document, what, lambda found: _over(found, "translated", peer))
    return (one for one in ratios if "lognum" not in one[0] and not one[0].startswith("polynomial"))


def _backward(document: dict[str, Any]) -> Iterator[tuple[str, float]]:
    return _of_each(document, "value", lambda found: _over(found, "uncall", "translated"))


def _for_each_operation(document: dict[str, Any], which: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for what in which:
        yield from _of_each(document, what, lambda found: found["per_operation"])


def _growth(document: dict[str, Any], workload: str) -> Bar:
    """Words of memory that a longer run takes in addition, from the shortest to the longest of the curve, for value and gradient."""
    name = f"words that more steps add, {workload}"
    for w in document["workloads"]:
        if w["name"] == workload and w["curve"]:
            by_task: dict[str, list[int]] = {}
            for point in w["curve"]["points"]:
                for what, found in point["tasks"].items():
                    by_task.setdefault(what, []).append(found["words"])
            return Bar(name, 0, "words", max(max(words) - min(words) for words in by_task.values()))
    return Bar(name, 0, "words", None, f"{workload} was not run")


# -----------------------------------------------------------------------------
# The workloads.

SCHEMA = "retrograd.bench/3"


def _quiet(line: str, another: bool) -> None:
    """Show no progress."""


def run(
    workloads: Sequence[Workload],
    peers: Sequence[Peer] = (),
    sizes: Sizes | None = None,
    *,
    parts: Sequence[str] = (),
    say: Say = _quiet,
    over: Distribution | None = None,
) -> dict[str, Any]:
    """The document. `parts`: of the toolchain, see `retrograd.benchmarks.toolchain`. An exception of a workload is recorded.

    `over`: workers, each with a workload at a time. Trap: workers on one machine take time from each other, so times mean something only
    where each has a machine of its own; goldens, counts and bits do not depend on it.
    """
    sizes = sizes or Sizes(quick=True)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    # Peers read their environment when they are imported, and the test of their presence imports them.
    with one_core() as core, optimised_at_once():
        absent = {peer.name: peer.absent() for peer in peers}
        present = [peer for peer in peers if not absent[peer.name]]
        found = []
        if over is not None:
            found = _distributed(workloads, present, sizes, say, over)
        for workload in workloads if over is None else ():
            say(workload.title, True)
            found.append(_workload(workload, present, sizes, say))
    if not sizes.quick:
        say("peak memory", False)
        _add_peaks(found)
    rows, failed = [], []
    for part in parts:
        say(f"toolchain: {part}", True)
        try:
            rows += [{**vars(row), "met": row.met, "part": part} for row in toolchain.PARTS[part](sizes.quick)]
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            failed.append(f"{part}: {reason_of(error)}")
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "quick": sizes.quick,
        "machine": machine(core) | {"load": load},
        "versions": _versions(),
        "peers": {p.name: {"version": None if absent[p.name] else p.version(), "absent": absent[p.name], "flags": "" if absent[p.name] else p.flags()} for p in peers},
        "workloads": found,
        "toolchain": rows,
        "failed": failed,
    }  # fmt: skip
    document["bars"] = of(document)
    document["wrong"] = wrong(document)
    return document


def wrong(document: dict[str, Any]) -> list[str]:
    """Errors of our own results. Times do not count here, nor do peers."""
    out = list(document["failed"])
    for w in document["workloads"]:
        out += [f"{w['name']}: {said}" for said in w["failed"]]
        for g in w["goldens"]:
            if not g["met"]:
                found = g["reason"] or f"{g['found']!r}"
                out.append(f"{w['name']}: {g['what']}: {found}, not {g['expected']!r} within {g['tolerance']:.1e}")
        for problem in w["problems"]:
            for task in problem["tasks"]:
                for s in task["systems"]:
                    if s["ours"] and s["status"] in ("wrong", "failed"):
                        out.append(f"{w['name']}, {problem['size']}: {task['what']}, {s['system']}: {s['reason']}")
    return out


# ---------------------------------------------------------------------- on workers


def _distributed(
    workloads: Sequence[Workload], peers: Sequence[Peer], sizes: Sizes, say: Say, over: Distribution
) -> list[dict[str, Any]]:
    """The workloads, each in a task; they are sent by name."""
    titles = [w.title for w in workloads]
    tasks = [(w.name, tuple(p.name for p in peers), sizes) for w in workloads]
    found: dict[int, dict[str, Any]] = {}
    with closing(distribute(_workload_task, tasks, over, keeping=_KEEPING)) as ended:
        for index, result in ended:
            found[index] = result
            say(titles[index], True)
    return [found[i] for i in range(len(tasks))]


_Job = tuple[str, tuple[str, ...], Sizes]


def _workload_task(job: _Job) -> dict[str, Any]:
    """On a worker: a workload by its name."""
    from retrograd.benchmarks.peers import chosen
    from retrograd.benchmarks.workloads import ALL

    name, peers, sizes = job
    with one_core(), optimised_at_once():
        return _workload(next(w for w in ALL if w.name == name), chosen(list(peers)), sizes, _quiet)


def _key(job: _Job) -> str:
    name, peers, sizes = job
    text = json.dumps(["workload", SCHEMA, __version__, name, peers, sizes.quick, str(sizes.data), sizes.full])
    return hashlib.sha256(text.encode()).hexdigest()


def _encoded(found: dict[str, Any]) -> bytes:
    return json.dumps(found).encode()


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


_KEEPING: Keeping[_Job, dict[str, Any]] = Keeping(_key, _encoded, _decoded)


# ---------------------------------------------------------------------- one workload


def _workload(workload: Workload, peers: Sequence[Peer], sizes: Sizes, say: Say) -> dict[str, Any]:
    failed: list[str] = []

    def guarded(what: str, do: Callable[[], Any], otherwise: Any) -> Any:
        """Record an exception and go on with the rest."""
        try:
            return do()
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            failed.append(f"{what}: {reason_of(error)}")
            return otherwise

    goldens = [_golden(g) for g in guarded("goldens", workload.goldens, ())]
    counts = guarded("counts", lambda: _counts(workload), None)
    problems = []
    for problem in guarded("problems", lambda: workload.problems(sizes), ()):
        say(f"{workload.title}: {problem.size}", False)
        problems.append(run_problem(problem, peers, sizes, say))
        gc.collect()
    points = []
    slow = {
        (task["what"], s["system"])
        for problem in problems for task in problem["tasks"] for s in task["systems"] if s["prepared"] > SLOW
    }  # fmt: skip
    for problem in guarded("curve", lambda: workload.curve(sizes), ()):
        say(f"{workload.title}: {workload.axis} {problem.extent:g}", False)
        point = guarded(
            f"{workload.axis} {problem.extent:g}", functools.partial(_point, problem, peers, slow, sizes), None
        )
        if point is not None:
            points.append(point)
        gc.collect()
    streams = []
    for stream in guarded("streams", lambda: workload.streams(sizes), ()):
        done = guarded(stream.name, functools.partial(_stream, stream, workload.title, say), None)
        if done is not None:
            streams.append(done)
    return {
        "name": workload.name, "title": workload.title, "streams": streams, "goldens": goldens, "counts": counts, "problems": problems,
        "curve": {"axis": workload.axis, "points": points} if points else None, "failed": failed,
    }  # fmt: skip


def _golden(g: Golden) -> dict[str, Any]:
    out: dict[str, Any] = {"what": g.what, "expected": g.expected, "tolerance": g.tolerance, "found": None}
    try:
        found = float(g.found())
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        return out | {"met": False, "reason": reason_of(error)}
    return out | {"found": found, "met": bool(abs(found - g.expected) <= g.tolerance), "reason": ""}


def _counts(workload: Workload) -> dict[str, Any]:
    """Counts of one run of the workload's function: instructions, cycles, uncomputing level, energy by each technology."""
    function, args = workload.counted()
    report = rg.energy(function, *args)
    energy: dict[str, Any] = {}
    for name in shipped():
        if technology(name).by_addresses:
            # The addresses of a workload are not observed, and the model without caches has the same figures.
            continue
        price = report.priced_by(name).price
        program = price.program
        modelled = isinstance(program, Range)
        energy[name] = {
            "joules": program.nominal if isinstance(program, Range) else None,
            "complete": bool(modelled and price.complete(program=True)),
        }
    mix: Counter[str] = Counter()
    for execution, n in report.counts.executions.items():
        mix[execution.opcode.name.partition(".")[0]] += n
    return {
        "function": function.__name__, "mix": dict(mix.most_common()), "instructions": report.counts.retired, "cycles": report.counts.cycles,
        "erased_bits": report.counts.erased_bits, "uncomputing_level": report.uncomputing_level, "energy": energy,
    }  # fmt: skip


# ---------------------------------------------------------------------- curves


def _point(problem: Problem, peers: Sequence[Peer], slow: set[tuple[str, str]], sizes: Sizes) -> dict[str, Any]:
    """Time, instructions and memory of our system at one size, and the times of peers."""
    calls: dict[str, Callable[[], object]] = {}
    programs: dict[str, tuple[Ours, BatchWords]] = {}
    others: list[System] = []
    for task in problem.tasks:
        program = task.ours()
        first = program.run("translated")
        error = task.error(program.read(first))
        # Sizes at the end of a curve may be beyond the range of the tolerance. A plainly wrong result is not timed.
        if not error <= 100 * task.tolerance:
            raise AssertionError(f"{task.what}: the error is {error:.1e}, and may be {100 * task.tolerance:.1e}")
        programs[task.what] = program, first
        calls[task.what] = functools.partial(program.run, "translated")
        others += [
            ask_peer(name, made, task, problem)
            for peer in peers for name, made in peer.systems(type(task.data), task.what).items()
            if (task.what, name) not in slow
        ]  # fmt: skip
    others = [s for s in others if s.call is not None]
    calls |= {f"{s.what} by {s.name}": s.call for s in others if s.call is not None}
    spent = timed(calls, 3, BUDGET[not sizes.quick] / 2, clock=time.process_time)
    out: dict[str, Any] = {"extent": problem.extent, "tasks": {}}
    for what, (program, first) in programs.items():
        evaluations = program.evaluations or problem.evaluations
        # In curves over the length of a loop, one run is the whole loop.
        runs = len(first.steps)
        seconds = {"translated": spent[what].minimum}
        for s in others:
            if s.what == what:
                # As if the peer did all evaluations: a Hessian is one of many.
                seconds[s.name] = spent[f"{what} by {s.name}"].minimum * evaluations / s.evaluations
        out["tasks"][what] = {
            "seconds": spent[what].minimum, "seconds_each": spent[what].minimum / evaluations,
            "instructions": float(first.steps.sum()) / runs, "runs": runs,
            "words": program.words, "extra_words": program.words - program.own,
            "systems": {name: {"seconds": taken, "peak_bytes": None} for name, taken in seconds.items()},
        }  # fmt: skip
    return out


def _add_peaks(workloads: list[dict[str, Any]]) -> None:
    """The peak memory of the timed systems on the last first-order task, of the first problem and of three points of the curve."""
    cells: dict[Place, dict[str, Any]] = {}
    for w in workloads:
        tasks = [task for task in w["problems"][0]["tasks"] if task["what"] != "hessian"] if w["problems"] else []
        for task in tasks[-1:]:
            for s in task["systems"]:
                if s["status"] == "timed" and (not s["ours"] or s["system"] == "translated") and s["prepared"] <= SLOW:
                    cells[Place(w["name"], "problems", 0, task["what"], s["system"])] = s
        points = w["curve"]["points"] if w["curve"] else []
        for i in sorted({0, len(points) // 2, len(points) - 1} if points else ()):
            what = [what for what in points[i]["tasks"] if what != "hessian"][-1]
            for name, s in points[i]["tasks"][what]["systems"].items():
                cells[Place(w["name"], "curve", i, what, name)] = s
    for place, size in peaks(cells).items():
        cells[place]["peak_bytes"] = size


def _stream(stream: Stream, title: str, say: Say) -> dict[str, Any]:
    """Our system, piece after piece: each piece is checked, then timed once. Making the pieces is not timed."""
    spent: dict[str, float] = {}
    done = pieces = 0
    worst: dict[str, float] = {}
    begun = time.perf_counter()
    for problem in stream.pieces():
        say(f"{title}: {stream.name}, {done} of {stream.evaluations}", False)
        for task in problem.tasks:
            program = task.ours()
            if not pieces:
                program.run("translated", 1)  # compiles
            started = time.perf_counter()
            found = program.run("translated")
            spent[task.what] = spent.get(task.what, 0.0) + time.perf_counter() - started
            numbers = program.read(found)
            worst[task.what] = max(worst.get(task.what, 0.0), task.relative_error(numbers))
            if not task.error(numbers) <= task.tolerance:
                raise AssertionError(
                    f"{task.what}: the error is {task.error(numbers):.1e}, and may be {task.tolerance:.1e}"
                )
            del program, found, numbers
        done, pieces = done + problem.evaluations, pieces + 1
    return {
        "name": stream.name, "evaluations": done, "pieces": pieces, "seconds": spent, "errors": worst,
        "whole_seconds": time.perf_counter() - begun,
    }  # fmt: skip


# ---------------------------------------------------------------------- circumstances


def _versions() -> dict[str, str]:
    out = {"retrograd": rg.__version__}
    for name in ("numpy", "llvmlite"):
        out[name] = importlib.metadata.version(name)
    return out
