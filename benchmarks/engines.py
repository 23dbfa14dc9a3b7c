"""The engines side by side, and beside plain Numba in float64: the same functions on the same arguments, in one process, in turn.

    over numba = ns per evaluation on the engine / ns per evaluation of the primal (benchmarks/primals.py)

Before anything is timed, the primals are held to the goldens and to the references, what our functions return to the primals, and
what the engines return to each other, bit for bit. An engine is timed from words to words; the way from arguments to words and back,
the same for all, has a row of its own. An engine that is absent has a row that says so.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.assembler.assemble import assemble
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding, leapfrog
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.program import Program
from retrograd.simulator.engines.native import NativeMachine
from retrograd.simulator.machine import Machine

import retrograd as rg
from benchmarks import primals
from benchmarks.measure import Row, seconds
from benchmarks.primals import compiled
from retrograd import library
from retrograd.batch_arguments import Batch, stacked_values
from retrograd.batch_runs import run_rows
from retrograd.execution import ENGINES
from retrograd.functions import Reversible
from tests.examples.references import adbench, complex_step, formulas, planets, series, sparse

Reals = NDArray[np.float64]

#: rows are made for these, and for whatever else `run_batch` takes
KNOWN = ("reference", "threaded", "translated")
#: classes of machines that take a program and have `run` and `run_back`, registers and memory
MACHINES: dict[str, Callable[[Program], Any]] = {
    "reference": Machine,
    "threaded": functools.partial(NativeMachine, tier="threaded"),
    "translated": functools.partial(NativeMachine, tier="translated"),
}
#: million instructions a second that the assembly loops are to reach
BARS = {"threaded": 500.0, "translated": 3000.0}
#: what of its speed the interpreter is to keep where it moves cotangents, too
ADJOINT = 0.8
#: a task that takes less is repeated until it takes so many seconds
SPELL = 2e-3


@dataclass(frozen=True)
class Workload:
    """A reversible function on a batch, and the same in float64."""

    name: str
    function: Reversible
    args: tuple[Any, ...]
    in_axes: Any
    #: the argument that the primal computes, and how far ours may be from it
    result: str
    tolerance: float
    evaluations: int
    primal: Callable[[], Any]
    #: what a reference has for the first elements
    exact: Any
    #: value and gradient by hand; what of it a reference has, again of the first elements
    gradient: Callable[[], tuple[Reals, ...]] | None = None
    slopes: tuple[Any, ...] = ()


def measure(
    quick: bool, engines: Sequence[str] | None = None, machines: Mapping[str, Callable[[Program], Any]] = MACHINES
) -> list[Row]:
    """Workloads on every engine, and assembly loops on every machine.

    The reference machine is given little to do, in which any engine takes part; then all but it get the larger sizes.
    """
    _goldens()
    wanted = list(dict.fromkeys([*KNOWN, *(e for e in ENGINES if e == "cuda")])) if engines is None else list(engines)
    refusals = {name: _refusal(name) for name in wanted}
    present = [name for name in wanted if not refusals[name]]
    small, large = (0, 1) if quick else (1, 2)
    rows = []
    for build, sizes in SIZES.items():
        rows += _engine_rows(build(sizes[small]), present, quick)
        rows += _engine_rows(build(sizes[large]), [e for e in present if e != "reference"], quick)
    rows += _loop_rows(machines, quick)
    for name in wanted:
        why = f"(absent: {refusals[name]})" if refusals[name] else ""
        rows.append(Row(f"workloads on the engine {name}", 0 if why else len(SIZES), why))
    return rows


def _refusal(engine: str) -> str:
    """Why `run_batch` cannot use the engine, if so."""
    try:
        rg.run_batch(bessel.bessel, np.zeros(1), np.ones(1), engine=engine)
    except RetrogradError as refused:
        return str(refused.diagnostics[0].message)
    return ""


# ---------------------------------------------------------------------- workloads


def _bessel(count: int, function: Reversible = bessel.bessel, how: str = "dirty product") -> Workload:
    z = np.random.default_rng(1).uniform(0.5, 1.5, count)
    out, value, slope = np.empty(count), np.empty(count), np.empty(count)

    def primal() -> Reals:
        compiled(primals.bessel)(out, z)
        return out

    def gradient() -> tuple[Reals, ...]:
        compiled(primals.bessel_gradient)(value, slope, z)
        return value, slope

    exact = [bessel.reference(x, 2, 1e-8) for x in z[:20]]
    # The slope of the series as far as it is summed; mpmath's is that of all of it.
    slopes = [complex_step.jacobian(lambda x: bessel.reference(x[()], 2, 1e-8), np.array(x)) for x in z[:20]]
    return Workload(
        f"Bessel J₂, {how}, {count} numbers", function, (np.zeros(count), z), {"nu": None, "atol": None},
        "out", 1e-9, count, primal, exact, gradient, (exact, slopes),
    )  # fmt: skip


def _bessel_log(count: int) -> Workload:
    return _bessel(count, bessel.bessel_log, "lognum")


def _graph(count: int, k: int = 10) -> Workload:
    edges, others = graph_embedding.EDGES, graph_embedding.OTHERS
    pairs = np.concatenate([edges, others])
    x = np.random.default_rng(k).normal(size=(count, graph_embedding.VERTICES, k))
    out, slope = np.empty(count), np.empty_like(x)

    def primal() -> Reals:
        compiled(primals.embedding)(out, x, pairs, len(edges))
        return out

    def gradient() -> tuple[Reals, ...]:
        compiled(primals.embedding_gradient)(out, slope, x, pairs, len(edges))
        return out, slope

    def loss(x: Any) -> Any:
        return formulas.embedding(np.array(0.0), x, edges, others)[0]

    exact = [graph_embedding.reference(one) for one in x[:20]]
    slopes = [complex_step.jacobian(loss, one) for one in x[:2]]
    return Workload(
        f"graph embedding, k = {k}, {count} of them", graph_embedding.embedding_loss, (np.zeros(count), x), 0,
        "out", 1e-8, count, primal, exact, gradient, (exact, slopes),
    )  # fmt: skip


def _projections(count: int) -> Workload:
    """Measurements around that of ADBench's file, which is the first."""
    data = adbench.read_bundle(bundle_adjustment.DATA / "ba1_n49_m7776_p31843.txt")
    inputs = np.tile(data.inputs, (count, 1))
    inputs[1:] *= 1 + 0.01 * np.random.default_rng(1).normal(size=(count - 1, len(data.inputs)))
    features = np.tile(data.feature, (count, 1))
    arguments = inputs[:, :11].copy(), inputs[:, 11:14].copy(), inputs[:, 14].copy(), features
    errors, blocks = np.empty((count, 2)), np.empty((count, 2, 15))

    def primal() -> Reals:
        compiled(primals.reprojection)(errors, *arguments)
        return errors

    def gradient() -> tuple[Reals, ...]:
        compiled(primals.reprojection_jacobian)(errors, blocks, *arguments)
        return errors, blocks

    exact = [adbench.reprojection(z, data.feature) for z in inputs[:20]]
    slopes = [complex_step.jacobian(lambda z: adbench.reprojection(z, data.feature), z) for z in inputs[:5]]
    return Workload(
        f"BA projection, {count} of them", bundle_adjustment.reprojection_error, (np.zeros((count, 2)), *arguments), 0,
        "error", 5e-6, count, primal, exact, gradient, (exact, slopes),
    )  # fmt: skip


def _mixture(points: int, file: str = "1k_d10_K25.txt") -> Workload:
    data = adbench.read_mixture(gmm.DATA / file, points)
    slopes = tuple(np.empty_like(part) for part in data[:3])

    def primal() -> float:
        return float(compiled(primals.mixture)(*data))

    def gradient() -> tuple[Reals, ...]:
        compiled(primals.mixture_gradient)(*slopes, *data)
        return slopes

    exact, by = adbench.likelihood_gradient(*data)
    return Workload(
        f"GMM objective, {points} of {file}", gmm.gmm_objective, (np.zeros(1), *data), _only("out", gmm.gmm_objective),
        "out", 5e-7 + 2e-9 * points, 1, primal, exact, gradient, by[:3],
    )  # fmt: skip


def _sparse(n: int) -> Workload:
    a, b = (sparse.random(np.random.default_rng(seed), (n, n), 0.05) for seed in (1, 2))
    arguments = a.indptr, a.indices, a.data, b.indptr, b.indices, b.data
    by_a, by_b = np.empty_like(a.data), np.empty_like(b.data)

    def primal() -> float:
        return float(compiled(primals.sparse_trace)(*arguments))

    def gradient() -> tuple[Reals, ...]:
        compiled(primals.sparse_trace_gradient)(by_a, by_b, *arguments)
        return by_a, by_b

    exact, slopes = sparse.trace(a, b)
    return Workload(
        f"trace(AᵀB), {a.nnz} entries each", library.sparse_dot, (np.zeros(1), *arguments), _only("out", library.sparse_dot),
        "out", 2.0**-32 * a.nnz, 1, primal, exact, gradient, slopes,
    )  # fmt: skip


def _matmul(n: int) -> Workload:
    a, b = np.random.default_rng(1).normal(size=(2, n, n))
    c = np.empty((n, n))

    def primal() -> Reals:
        compiled(primals.matmul)(c, a, b)
        return c

    return Workload(
        f"matrix product, {n} × {n}", library.matmul, (np.zeros((1, n, n)), a, b), _only("c", library.matmul),
        "c", 2.0**-32 * 8 * n, 1, primal, a @ b,
    )  # fmt: skip


def _planets(steps: int) -> Workload:
    q, v, gm = leapfrog.solar_system()
    natural = q, v / leapfrog.LARGER, gm / leapfrog.LARGER
    h = 1 / leapfrog.RATE

    def primal() -> Reals:
        after: Reals = compiled(primals.leapfrog)(*natural, steps, h)[0]
        return after

    exact = planets.drift_kick_drift(*natural, steps, h)[0]
    return Workload(
        f"leapfrog, {steps} steps, each", leapfrog.leapfrog, (q[None], v, gm, steps), _only("q", leapfrog.leapfrog),
        "q", 1e-8 * steps, steps, primal, exact,
    )  # fmt: skip


def _only(name: str, function: Reversible) -> dict[str, int | None]:
    """The axes of a batch in which one argument differs."""
    return {p.name: 0 if p.name == name else None for p in function.parameters}


#: sizes for the reference machine, in quick runs and in others; the others' sizes are one further up
SIZES: dict[Callable[[int], Workload], tuple[int, int, int]] = {
    _bessel: (200, 3000, 300_000),
    _bessel_log: (200, 3000, 300_000),
    _graph: (2, 40, 4000),
    _projections: (300, 6000, 31_843),
    _mixture: (1, 10, 1000),
    _sparse: (60, 200, 1000),
    _matmul: (16, 40, 200),
    _planets: (5, 200, 1000),
}


# ---------------------------------------------------------------------- checks


def _goldens() -> None:
    """The primals, at arguments for which others have published the results. Raises AssertionError."""
    out, slope = np.empty(1), np.empty(1)
    compiled(primals.bessel_gradient)(out, slope, np.ones(1))
    _agree("J₂(1) and its derivative", [out, slope], [[0.1149034849298], [series.bessel(2, 1.0)[1]]])
    for file, golden in {"test.txt": 8.07380408004975791, "1k_d10_K25.txt": -25649.6526211973}.items():
        _agree(f"GMM, {file}", compiled(primals.mixture)(*adbench.read_mixture(gmm.DATA / file)), golden)
    by_hand = _projections(1).gradient
    assert by_hand is not None
    _, blocks = by_hand()
    _agree("BA, J₀₀", blocks[0, 0, 0], -461.4463210015993)


def _agree(what: str, found: Any, exact: Any, tolerance: float = 1e-10) -> None:
    """Raises AssertionError where `found` is further from `exact` than so many times the largest of it, or 1."""
    found, exact = np.ravel(found), np.ravel(exact)
    error = float(np.abs(found - exact).max() / max(1.0, np.abs(exact).max()))
    if not error <= tolerance:
        raise AssertionError(f"{what}: the error is {error:.1e}, and may be {tolerance:.1e}")


def _check_primal(w: Workload) -> None:
    exact = np.ravel(w.exact)
    _agree(f"{w.name}, numba", np.ravel(w.primal())[: exact.size], exact)
    for found, of in zip(w.gradient() if w.gradient else (), w.slopes, strict=True):
        exact = np.ravel(of)
        _agree(f"{w.name}, gradient by hand", np.ravel(found)[: exact.size], exact)


def _check_engines(w: Workload, runs: Mapping[str, rg.BatchResult]) -> None:
    exact = np.ravel(w.primal())
    first: tuple[str, rg.BatchResult] | None = None
    for engine, run in runs.items():
        found = np.ravel(getattr(run.values, w.result))
        if not np.abs(found - exact).max() <= w.tolerance:
            error = np.abs(found - exact).max()
            raise AssertionError(f"{w.name}, {engine}: the error is {error:.1e}, and may be {w.tolerance:.1e}")
        if first is None:
            first = engine, run
        for part in ("matrix", "steps", "erased_bits"):
            if not np.array_equal(getattr(run, part), getattr(first[1], part)):
                raise AssertionError(f"{w.name}: {engine} and {first[0]} differ in {part}")


# ---------------------------------------------------------------------- times


def _engine_rows(w: Workload, engines: Sequence[str], quick: bool) -> list[Row]:
    """Of one workload: numba, with and without gradient; conversion; each engine."""
    _check_primal(w)
    call = functools.partial(rg.run_batch, w.function, *w.args, in_axes=w.in_axes)
    runs = {engine: call(engine=engine) for engine in engines}
    _check_engines(w, runs)
    tasks: dict[str, Callable[[], object]] = {"numba": w.primal}
    if w.gradient is not None:
        tasks["numba with gradient"] = w.gradient
    if runs:
        batch = Batch(w.function, w.args, {}, w.in_axes)
        code, after = next((run.compiled, run.matrix) for run in runs.values())
        words, kept = batch.words(code), [(0, after.shape[1])]
        tasks["conversion"] = lambda: (batch.words(code), _from_words(code, after))
        for engine in runs:
            tasks[engine] = functools.partial(run_rows, code, words, kept, engine=engine, progress=False)
        if "translated" in runs:
            tasks["unchecked"] = functools.partial(
                run_rows, code, words, kept, engine="translated", checks=False, progress=False
            )
            tasks["unchecked"]()
    spent = _timed(tasks, 3 if quick else 5)

    rows = []
    for name, times in spent.items():
        of = "arguments to words and back" if name == "conversion" else name
        for kind, taken in zip(("median", "minimum"), times, strict=True):
            rows.append(Row(f"{w.name}, {of}", 1e9 * taken / w.evaluations, f"ns ({kind})"))
    least = {name: low for name, (_, low) in spent.items()}
    if w.gradient is not None:
        rows.append(Row(f"{w.name}, gradient over value by hand", least["numba with gradient"] / least["numba"], ""))
    for engine, run in runs.items():
        steps = int(run.steps.sum())
        rows.append(Row(f"{w.name}, {engine} over numba", least[engine] / least["numba"], "(time)"))
        rows.append(Row(f"{w.name}, {engine}", steps / w.evaluations, "instructions/evaluation"))
        rows.append(Row(f"{w.name}, {engine}", steps / least[engine] / 1e6, "million instructions/s"))
    if "unchecked" in least:
        cost = least["translated"] / least["unchecked"]
        rows.append(Row(f"{w.name}, translated, with checks over without", cost, "(time)"))
    return rows


def _from_words(code: Any, after: Any) -> list[Any]:
    return [stacked_values(a.type, after[:, a.address : a.address + a.type.size], code.format) for a in code.arguments]


def _timed(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """(median, minimum) seconds of each task, all of which have run before."""
    rounds = dict.fromkeys(tasks, 1)
    for name, task in tasks.items():
        if name != "reference":  # it takes longer than that
            begun = time.perf_counter()
            task()
            rounds[name] = max(1, int(SPELL / (time.perf_counter() - begun)))

    def repeated(task: Callable[[], object], count: int) -> None:
        for _ in range(count):
            task()

    spent = seconds({name: functools.partial(repeated, task, rounds[name]) for name, task in tasks.items()}, repeats)
    return {name: (middle / rounds[name], low / rounds[name]) for name, (middle, low) in spent.items()}


# ---------------------------------------------------------------------- loops in assembly


@dataclass(frozen=True)
class Loop:
    """A program that does one thing `rounds` times over; `{rounds}` in its text. `out` holds so many times `exact`."""

    text: str
    #: executed in a round, about
    instructions: int
    exact: float
    tolerance: float


def _words(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


_X = [(37 * i) % 101 - 50 for i in range(256)]
_Y = [(53 * i) % 97 - 48 for i in range(256)]

LOOPS = {
    # Σ xᵢ yᵢ of integers. Both factors are read, used, and read again to be cleared.
    "dot loop": Loop(
        f"""
                .reg    zero, r0
                .reg    i, r1
                .reg    n, r2
                .reg    rounds, r3
                .reg    size, r4
                .reg    a, r5
                .reg    b, r6
                .reg    sum, r7
                .data
        out:    .word   0
        x:      .word   {_words(_X)}
        y:      .word   {_words(_Y)}
                .text
                start
                add     size, {len(_X)}
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
        top:    from.ne i, zero, bottom
                ld.add  a, [i + x]
                ld.add  b, [i + y]
                mul.add sum, a, b
                ld.sub  b, [i + y]
                ld.sub  a, [i + x]
                add     i, 1
        bottom: goto.ne i, size, top
                sub     i, size
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        8 * len(_X) + 4,
        float(np.dot(_X, _Y)) / 2**32,
        0.0,
    ),
    # J₂(1) by its series. A term is put away when the next is made of it; the way back down makes each of the next, and clears it.
    "Bessel-like loop": Loop(
        f"""
                .reg    zero, r0
                .reg    n, r1
                .reg    rounds, r2
                .reg    k, r3
                .reg    quarter, r4             ; (z/2)²
                .reg    least, r5
                .reg    term, r6
                .reg    last, r7                ; the term before
                .reg    size, r8                ; |term|
                .reg    ratio, r9
                .reg    factor, r10
                .reg    total, r11
                .reg    sum, r12
                .data
        out:    .word   0
        ratios: .word   {_words(round(-(2**32) / (k * (k + 2))) for k in range(1, 17))}
        terms:  .zero   16
                .text
                start
                add     quarter, 0.25q
                add     least, 1.0e-8q
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
                add     term, 0.125q
                fadd    total, term
                fabs.add size, term

        up:     from.ne k, zero, up.more
                fabs.sub size, term
                swap    term, last
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.add term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                exch    last, [k + terms]
                fadd    total, term
                fabs.add size, term
                add     k, 1
        up.more:
                goto.gt size, least, up

                fadd    sum, total

        down:   from.gt size, least, down.more
                sub     k, 1
                fabs.sub size, term
                fsub    total, term
                exch    last, [k + terms]
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.sub term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                swap    term, last
                fabs.add size, term
        down.more:
                goto.ne k, zero, down

                fabs.sub size, term
                fsub    total, term
                sub     term, 0.125q
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        140,
        0.1149034849298,
        2e-9,
    ),
}


def _loop_rows(machines: Mapping[str, Callable[[Program], Any]], quick: bool) -> list[Row]:
    """Each loop on each machine, forward and back: as long as the machine is fast."""
    rows = []
    for name, loop in LOOPS.items():
        states = {}
        tasks: dict[str, Callable[[], object]] = {}
        steps: dict[str, int] = {}
        for engine, factory in machines.items():
            states[engine] = _state(loop, factory)
            budget = (3e4 if quick else 1e6) if engine == "reference" else (1e7 if quick else 1e8)
            rounds = max(1, round(budget / loop.instructions))
            machine = factory(assemble(loop.text.format(rounds=rounds)))
            steps[engine] = machine.run().steps
            _check_loop(name, engine, loop, machine, rounds)
            machine.run_back()
            tasks[f"{engine} forward"], tasks[f"{engine} backward"] = machine.run, machine.run_back
            tasks[f"{engine} adjoint"] = _adjoint(factory(assemble(loop.text.format(rounds=rounds))))
        if "translated" in machines:
            rounds = round(steps["translated"] / loop.instructions)
            unchecked = NativeMachine(
                assemble(loop.text.format(rounds=rounds)), tier="translated", at_once=True, overflow=False
            )
            tasks["unchecked forward"], tasks["unchecked backward"] = unchecked.run, unchecked.run_back
        first = next(iter(states))
        for engine, state in states.items():
            if state != states[first]:
                raise AssertionError(f"{name}: {engine} and {first} differ")
        spent = seconds(tasks, 3 if quick else 7)
        for engine, count in steps.items():
            middle, low = spent[f"{engine} forward"]
            bar = BARS.get(engine)
            rows.append(Row(f"{name}, {engine}", count / middle / 1e6, "million instructions/s (median)"))
            rows.append(Row(f"{name}, {engine}", count / low / 1e6, "million instructions/s (most)", bar))
            back = spent[f"{engine} backward"][1] / low
            rows.append(Row(f"backward over forward, {name}, {engine}", back, "(time)", 1.1, lower_is_better=True))
            adjoint = 2 * low / spent[f"{engine} adjoint"][1]
            bar = ADJOINT if engine == "threaded" else None
            rows.append(Row(f"with cotangents over without, {name}, {engine}", adjoint, "(instructions/s)", bar))
        if "translated" in machines:
            cost = spent["translated forward"][1] / spent["unchecked forward"][1]
            rows.append(Row(f"with overflow checks over without, {name}, translated", cost, "(time)"))
    return rows


def _adjoint(machine: Any) -> Callable[[], object]:
    """Back from the end and forth again with cotangents: twice the instructions of a run."""
    machine.run()
    machine.differentiating = True
    machine.memory_cotangents[0] = 1 << 20

    def there_and_back() -> None:
        machine.run_back()
        machine.run()

    return there_and_back


def _state(loop: Loop, factory: Callable[[Program], Any]) -> tuple[Any, ...]:
    """(steps, registers, memory) after three rounds."""
    machine = factory(assemble(loop.text.format(rounds=3)))
    steps = machine.run().steps
    return steps, [int(word) for word in machine.registers], [int(word) for word in machine.memory]


def _check_loop(name: str, engine: str, loop: Loop, machine: Any, rounds: int) -> None:
    w = machine.program.format
    out = int(machine.memory[machine.program.data_labels["out"]])
    error = abs(w.signed(out) / 2.0**w.frac / rounds - loop.exact)
    if not error <= loop.tolerance:
        raise AssertionError(f"{name}, {engine}: the error of a round is {error:.1e}, and may be {loop.tolerance:.1e}")
