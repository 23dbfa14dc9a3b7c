"""What a gradient costs: instructions forward, and back with cotangents; how right it is; and memory, which no loop may add to.

A cycle of the reference machine is one instruction. The peers' ratio of gradient over value is (forward + back) / forward here, of time.
Errors are the largest difference from float64 or mpmath (tests/examples/references), as parts of the largest component.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from retrograd.compiler.compiled import dropping_cotangents, real_regions
from retrograd.compiler.emit import emit
from retrograd.compiler.gradients import gradient
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding, leapfrog
from retrograd.simulator.machine import Machine

from benchmarks.measure import Row
from retrograd import library
from retrograd.execution import execute, load
from retrograd.functions import Reversible
from retrograd.marshal import bind, types_of
from tests.examples.references import adbench, complex_step, formulas, planets, series, sparse


@dataclass
class Workload:
    """A function, its arguments, cotangents of its results, and the gradients that must come of them."""

    name: str
    function: Reversible
    args: tuple[Any, ...]
    seeds: Mapping[str, Any]
    exact: Mapping[str, Any]
    scale: int = 0
    #: times the gradients as found, where an argument is held in another unit
    unit: float = 1.0


@dataclass
class Course:
    """One run forward and back."""

    forward: int
    back: int
    forward_seconds: float
    back_seconds: float
    words: int
    gradients: dict[str, Any]


def measure(quick: bool) -> list[Row]:
    """Steps, times, errors and memory of the workloads; memory for ever longer loops."""
    rows = []
    for w in _workloads(quick):
        courses = [_run(w) for _ in range(3 if quick else 7)]
        c = courses[0]
        # The least of the times: a ratio of two medians follows whoever else uses the machine.
        value = min(c.forward_seconds for c in courses)
        both = value + min(c.back_seconds for c in courses)
        rows.append(Row(f"forward, {w.name}", c.forward, "instructions"))
        rows.append(Row(f"back with cotangents, {w.name}", c.back, "instructions"))
        rows.append(Row(f"gradient over value, {w.name}", (c.forward + c.back) / c.forward, "(instructions)"))
        rows.append(Row(f"gradient program over value, {w.name}", _program(w) / c.forward, "(instructions)"))
        rows.append(Row(f"gradient over value, {w.name}", both / value, "(time)"))
        rows.append(Row(f"memory, {w.name}", c.words, "words"))
        worst = max(_error(w.unit * c.gradients[name], exact) for name, exact in w.exact.items())
        rows.append(Row(f"error of the gradient, {w.name}", 1e9 * worst, "·10⁻⁹", 1000, lower_is_better=True))
    return rows + _memory(quick)


def _memory(quick: bool) -> list[Row]:
    """Words of memory vs loop trips."""
    rows = []
    q, v, gm = leapfrog.solar_system()
    loops: dict[str, list[tuple[int, Reversible, tuple[Any, ...], str]]] = {
        "Bessel": [(_terms(z), bessel.bessel, (0.0, z), "out") for z in (0.1, 1.0, 5.0, 10.0)],
        "leapfrog": [(n, leapfrog.leapfrog, (q, v, gm, n), "q") for n in ((1, 4, 16) if quick else (1, 10, 100))],
    }
    for name, runs in loops.items():
        words = []
        for trips, function, args, loss in runs:
            c = _run(Workload(name, function, args, {loss: 1.0}, {}, 14))
            words.append(c.words)
            rows.append(Row(f"words of memory, {name}, {trips} trips ({c.forward + c.back} instructions)", c.words, ""))
        more = runs[-1][0] - runs[0][0]
        rows.append(
            Row(f"words that {more} more trips add, {name}", max(words) - min(words), "", 0, lower_is_better=True)
        )
    return rows


def _run(w: Workload) -> Course:
    values = bind(w.function, w.args, {})
    plain = w.function.compiled_for(types_of(w.function, values))
    forward = load(plain, values)
    begun = forward.memory[:]
    times = [time.perf_counter()]
    execute(plain, forward)
    times.append(time.perf_counter())
    # As `rg.grad` goes back: cotangents are dropped where variables die.
    compiled = dropping_cotangents(plain)
    machine = Machine(compiled.program, backward=True)
    machine.load(0, forward.memory[: plain.module.memory])
    unit = 2.0 ** (compiled.format.frac + w.scale)
    machine.differentiating = True
    for a in compiled.arguments:
        for i, seed in enumerate(np.ravel(w.seeds.get(a.name, ())).tolist()):
            machine.memory_cotangents[a.address + i] = round(seed * unit) & compiled.format.mask
    times.append(time.perf_counter())
    machine.run()
    times.append(time.perf_counter())
    if machine.memory[: len(begun)] != begun or any(machine.registers):
        raise AssertionError(f"{w.name} did not come back to where it began")
    found = {}
    for a in compiled.arguments:
        words = machine.memory_cotangents[a.address : a.address + a.type.size]
        found[a.name] = np.array([compiled.format.signed(word) for word in words]) / unit
    return Course(
        forward.retired, machine.retired, times[1] - times[0], times[3] - times[2], len(forward.memory), found
    )


def _program(w: Workload) -> int:
    """Instructions that the gradient program executes, forward and back in one, without differentiation mode."""
    values = bind(w.function, w.args, {})
    compiled = w.function.compiled_for(types_of(w.function, values))
    inputs, outputs = (real_regions(compiled.lowered, list(names)) for names in (w.exact, w.seeds))
    module = gradient(compiled.module, inputs, outputs).module
    machine = load(replace(compiled, module=module, emitted=emit(module)), values)
    machine.run()
    return int(machine.retired)


def _error(found: Any, exact: Any) -> float:
    exact = np.ravel(exact)
    return float(np.abs(np.ravel(found) - exact).max() / np.abs(exact).max())


def _terms(z: float, atol: float = 1e-8) -> int:
    """Passes of the loop in `bessel`, ν = 2."""
    term, k = (z / 2) ** 2 / 2, 0
    while abs(term) > atol:
        k += 1
        term *= (z / 2) ** 2 / (k * (k + 2))
    return k


def _workloads(quick: bool) -> list[Workload]:
    slope = {"z": series.bessel(2, 1.0)[1]}
    return [
        Workload("Bessel J₂(1), dirty product", bessel.bessel, (0.0, 1.0), {"out": 1.0}, slope, 14),
        # A lognum's cotangent is by its logarithm; here z is fixed.
        Workload("Bessel J₂(1), lognum", bessel.bessel_log, (0.0, 1.0), {"out": 1.0}, slope),
        _sparse(60 if quick else 200),
        _graph(5),
        _mixture("test.txt", None),
        _mixture("1k_d10_K25.txt", 1 if quick else 10),
        _projection("test.txt"),
        _projection("ba1_n49_m7776_p31843.txt"),
        _planets(5 if quick else 50),
    ]


def _sparse(n: int) -> Workload:
    a, b = (sparse.random(np.random.default_rng(1), (n, n), 0.05) for _ in range(2))
    _, (by_a, by_b) = sparse.trace(a, b)
    args = (0.0, a.indptr, a.indices, a.data, b.indptr, b.indices, b.data)
    exact = {"a_values": by_a, "b_values": by_b}
    return Workload(f"trace(AᵀB), {a.nnz} entries each", library.sparse_dot, args, {"out": 1.0}, exact)


def _graph(k: int) -> Workload:
    x = np.random.default_rng(k).normal(size=(10, k))
    edges, others = graph_embedding.EDGES, graph_embedding.OTHERS
    exact = complex_step.jacobian(lambda x: formulas.embedding(np.array(0.0), x, edges, others)[0], x)
    return Workload(f"graph embedding, k = {k}", graph_embedding.embedding_loss, (0.0, x), {"out": 1.0}, {"x": exact})


def _mixture(file: str, points: int | None) -> Workload:
    mixture = adbench.read_mixture(gmm.DATA / file, points)
    _, exact = adbench.likelihood_gradient(*mixture)
    name = f"GMM, {file}" if points is None else f"GMM, {points} of {file}"
    gradients = {name: getattr(exact, name) for name in ("alphas", "means", "icf", "x")}
    return Workload(name, gmm.gmm_objective, (0.0, *mixture), {"out": 1.0}, gradients)


def _projection(file: str) -> Workload:
    """The first of a measurement's two rows."""
    data = adbench.read_bundle(bundle_adjustment.DATA / file)
    camera, point, (weight,) = np.split(data.inputs, [11, 14])
    row = complex_step.jacobian(lambda z: adbench.reprojection(z, data.feature), data.inputs)[0]
    args = (np.zeros(2), camera, point, float(weight), data.feature)
    exact = {"camera": row[:11], "point": row[11:14]}
    name = f"BA, a row of {file.partition('_')[0]}"
    return Workload(name, bundle_adjustment.reprojection_error, args, {"error": [1.0, 0.0]}, exact)


def _planets(steps: int) -> Workload:
    """Of the Earth's first coordinate, by the initial velocities."""
    q, v, gm = leapfrog.solar_system()
    larger = leapfrog.LARGER
    _, (_, by_v, _) = planets.gradients(q, v / larger, gm / larger, steps, 1 / leapfrog.RATE, 3, 0)
    seed = np.zeros((len(gm), 3))
    seed[3, 0] = 1
    args = (q, v, gm, steps)
    return Workload(f"leapfrog, {steps} steps", leapfrog.leapfrog, args, {"q": seed}, {"v": by_v}, 20, larger)
