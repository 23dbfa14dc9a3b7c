"""Graph embeddings and planets as batches, and the wave as a single run, on the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.programs import SCALE, Sizes, padded, reals_of, words_of
from retrograd.benchmarks.gpu.timings import CHECKED, checked, peer_rows, row_of, timed_run
from retrograd.benchmarks.ours import only
from retrograd.benchmarks.references import planets
from retrograd.benchmarks.workloads import graph_embedding as graph
from retrograd.benchmarks.workloads import leapfrog as bodies
from retrograd.benchmarks.workloads import wave
from retrograd.examples import graph_embedding, leapfrog
from retrograd.examples.wave import misfit, propagate

import retrograd as rg
from retrograd.derivatives._programs import gradient_program, loss_gradient_program

#: embeddings and systems whose rows the host makes; a larger batch repeats them
ROWS = 1 << 12
#: dimensions of the embedding
DIMENSIONS = 10


def embedding_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """The losses of embeddings of the Petersen graph, and their gradients."""
    total, count = sizes.embeddings, min(sizes.embeddings, ROWS)
    x = np.random.default_rng(10).normal(size=(count, graph_embedding.VERTICES, DIMENSIONS))
    exact = np.array([graph_embedding.reference(one) for one in x[:CHECKED]])
    slopes = np.array([graph.slope(one) for one in x[:CHECKED]])
    compiled, rows = words_of(graph_embedding.embedding_loss, (np.zeros(count), x))
    out, of_x = (next(a for a in compiled.arguments if a.name == name) for name in ("out", "x"))
    edges = len(graph_embedding.EDGES)
    of_peers = gpu_peers.embedding(x, graph.PAIRS, edges, total, exact, slopes)
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    name = f"graph embedding, k = {DIMENSIONS}, {total} embeddings"
    yield row_of(name, "retrograd", total, times, checked(name, reals_of(after[:CHECKED, out.address]), exact, 1e-7))
    yield from peer_rows(name, total, of_peers[0], sizes)

    made = loss_gradient_program(compiled, False, [of_x], out, 0)
    first = of_x.address + made.cotangents
    rows = padded(made.compiled, rows, max(first + of_x.type.size, made.value + 1))
    after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
    found = reals_of(after[:CHECKED, first : first + of_x.type.size])
    name = f"graph embedding, k = {DIMENSIONS}, gradient, {total} embeddings"
    yield row_of(name, "retrograd", total, times, checked(name, found, slopes, 1e-6))
    yield from peer_rows(name, total, of_peers[1], sizes)


def planets_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Many planetary systems, whose places differ by a part in a thousand; gradients of the Earth's first coordinate by all velocities."""
    (total, steps), h = sizes.systems, 1 / leapfrog.RATE
    count = min(total, ROWS)
    q, v, gm = leapfrog.solar_system()
    near = 1 + 1e-3 * np.linspace(0, 1, count)[:, None, None]
    places = rg.fixed.to_reals(rg.fixed.to_words(q * near))
    natural = v / leapfrog.LARGER, gm / leapfrog.LARGER
    some = np.asarray(places[:CHECKED])
    exact = np.array([planets.drift_kick_drift(one, *natural, steps, h)[0] for one in some])
    by_v = np.array([planets.gradients(one, *natural, steps, h, bodies.EARTH, 0)[1][1] for one in some])
    axes = only("q", leapfrog.leapfrog) | {"rate": None}
    compiled, rows = words_of(leapfrog.leapfrog, (places, v, gm, steps), axes)
    of_q, of_v = (next(a for a in compiled.arguments if a.name == name) for name in ("q", "v"))
    whole = np.resize(np.asarray(places), (total, *q.shape)), np.resize(natural[0], (total, *v.shape))
    of_peers = gpu_peers.planets(*whole, natural[1], steps, h, exact, by_v)
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    found = reals_of(after[:CHECKED, of_q.address : of_q.address + of_q.type.size])
    name = f"leapfrog, nine bodies, {steps} steps, {total} systems"
    yield row_of(name, "retrograd", total, times, checked(name, found, exact, 1e-8 * steps))
    yield from peer_rows(name, total, of_peers[0], sizes)

    made = gradient_program(compiled, False)
    width = max(a.address + a.type.size + made.cotangents for a in compiled.arguments)
    rows = padded(made.compiled, rows, width)
    rows[:, of_q.address + made.cotangents + 3 * bodies.EARTH] = 1 << (32 + SCALE)
    after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
    first = of_v.address + made.cotangents
    found = leapfrog.LARGER * reals_of(after[:CHECKED, first : first + of_v.type.size]) / 2.0**SCALE
    name = f"leapfrog, nine bodies, {steps} steps, gradient, {total} systems"
    yield row_of(name, "retrograd", total, times, checked(name, found, by_v, 1e-6))
    yield from peer_rows(name, total, of_peers[1], sizes)


def wave_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """A wave forward, back to its beginning, and the gradient by the medium: single runs, whose bits are those of the CPU."""
    n, steps = sizes.wave
    d = wave.data(n, steps)
    cells = n * n * steps

    def there(engine: str) -> Any:
        return rg.run(propagate, d.q, d.p, d.c, steps, engine=engine).values.q

    def back(engine: str) -> Any:
        return rg.run(~propagate, *end, engine=engine).values.q

    def slope(engine: str) -> Any:
        return gradient[engine](0.0, d.q, d.p, d.c, d.seen, d.line, steps)

    gradient = {engine: rg.grad(misfit, "c", engine=engine) for engine in ("cuda", "native")}
    end = rg.run(propagate, d.q, d.p, d.c, steps, engine="native").values
    by_jax = gpu_peers.wave(d.q, d.p, d.c, d.seen, d.line, steps, there("native"), slope("native"))
    tasks: dict[str, tuple[Callable[[str], Any], Any]] = {
        "forward": (there, by_jax[0]),
        "back": (back, []),
        "gradient": (slope, by_jax[1]),
    }
    for kind, (run, of_peers) in tasks.items():
        name = f"wave, {n} × {n} cells, {steps} steps, {kind}"
        expected, cores = _timed(run, "native", 1)
        found, took = _timed(run, "cuda", sizes.repeats)
        error = checked(name, found, expected, 0.0)
        yield row_of(
            name,
            "retrograd",
            cells,
            {"kernel_ms": took, "cores_ms": cores},
            error,
            "a call by a user; each is a cell and step",
        )
        yield from peer_rows(name, cells, of_peers, sizes)


def _timed(run: Callable[[str], Any], engine: str, repeats: int) -> tuple[Any, float]:
    """(the result, the least milliseconds of some calls behind a first one)"""
    found, least = run(engine), float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        run(engine)
        least = min(least, 1e3 * (time.perf_counter() - begun))
    return found, least
