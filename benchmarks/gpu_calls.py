"""Whole calls on a GPU, as a user makes them: with arrays on the device, and with arrays of the host. `gpu.py` runs them.

The file holds the data that both files use, too.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from retrograd.benchmarks import references
from retrograd.benchmarks.peers.on_gpu import CHUNK
from retrograd.benchmarks.workload import Measurements
from retrograd.benchmarks.workloads import dense, simulations
from retrograd.benchmarks.workloads.adbench import measurements as around
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding, leapfrog, wave
from retrograd.isa.words import Format

import retrograd as rg
from retrograd.derivatives._arguments import automatic

#: the scale of cotangents
SCALE = automatic(Format())[0]
#: embeddings and systems whose rows the host makes; a larger batch repeats them
DYNAMICS_ROWS = 1 << 12
#: dimensions of the embedding
DIMENSIONS = 10
#: mixtures of a batch, each with its own points
MIXTURES = 1 << 7
#: columns of a regression
COLUMNS = 8


class CallSizes(Protocol):
    """The sizes of calls, those of `gpu.Sizes`."""

    @property
    def bessel(self) -> tuple[int, ...]: ...
    @property
    def measurements(self) -> int: ...
    @property
    def embeddings(self) -> int: ...
    @property
    def points(self) -> int: ...
    @property
    def systems(self) -> tuple[int, int]: ...
    @property
    def wave(self) -> tuple[int, int]: ...
    @property
    def repeats(self) -> int: ...


def measurements(count: int) -> Measurements:
    """The measurement of ADBench's file, and others that differ from it by a percent."""
    return around(bundle_adjustment.DATA / "ba1_n49_m7776_p31843.txt", count)[0]


def mixture_data(points: int) -> references.Mixture:
    """ADBench's mixture with a number of points; below ten, as under the simulator, the smallest mixture with other points."""
    if points >= 10:
        return references.read_mixture(gmm.DATA / "1k_d10_K25.txt", points)
    data = references.read_mixture(gmm.DATA / "test.txt")
    return data._replace(x=data.x[:1] + np.linspace(0, 1, points)[:, None])


def call_rows(sizes: CallSizes) -> Iterator[dict[str, Any]]:
    """Milliseconds of whole calls, of which both have the same bits.

    The kernels of the table of times are a part of these.
    """
    for name, f, arguments in _calls(sizes):
        there = tuple(rg.on_device(a) if isinstance(a, np.ndarray) else a for a in arguments)
        found, took = timed(functools.partial(_called, f), there, sizes.repeats)
        expected, of_host = timed(functools.partial(_called, f), arguments, sizes.repeats)
        parts = zip(_arrays(found), _arrays(expected), strict=True)
        same = all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in parts)
        count = np.size(arguments[1]) if "wave" in name else len(arguments[0])
        yield {"workload": name, "instances": count, "device_ms": took, "host_ms": of_host, "same": same}


def _called(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return f(*arguments)


def _calls(sizes: CallSizes) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """(name, function, arguments) of calls."""
    for count in sizes.bessel:
        z = np.linspace(0.5, 1.5, count)
        slope = rg.value_and_grad(bessel.bessel, "z")
        yield f"Bessel J₂, {count} numbers", rg.vmap(bessel.bessel, engine="cuda"), (np.zeros(count), z)
        yield f"Bessel J₂ and its slope, {count} numbers", rg.vmap(slope, engine="cuda"), (np.zeros(count), z)
    count = max(sizes.bessel)
    numbers = np.random.default_rng(2).uniform(-1, 1, size=(6, count))
    for name in dense.FORMATS.values():
        f = rg.vmap(dense.polynomial, engine="cuda", format=name, precision="ignore")
        yield f"cubic polynomials in {name}, {count} numbers", f, tuple(numbers)
    total = sizes.measurements
    data = measurements(min(total, CHUNK))
    given = tuple(np.resize(a, (total, *np.shape(a)[1:])) for a in (np.zeros((1, 2)), *data.arguments))
    errors = rg.vmap(bundle_adjustment.reprojection_error, engine="cuda", precision="ignore")
    yield f"BA errors, {total} measurements", errors, given
    total = sizes.embeddings
    some = np.random.default_rng(10).normal(size=(min(total, DYNAMICS_ROWS), graph_embedding.VERTICES, DIMENSIONS))
    x = np.resize(some, (total, *some.shape[1:]))
    gradient = rg.vmap(rg.grad(graph_embedding.embedding_loss, "x"), engine="cuda", precision="ignore")
    yield f"graph embedding, k = {DIMENSIONS}, gradient, {total} embeddings", gradient, (np.zeros(total), x)
    yield _mixtures(sizes)
    yield _regressions(sizes)
    yield _planets(sizes)
    yield from _waves(sizes)


def _mixtures(sizes: CallSizes) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Mixtures with few elements and many points each: several threads run an element."""
    data = mixture_data(sizes.points)
    count, n = min(MIXTURES, sizes.points), len(data.x)
    x = data.x[np.random.default_rng(1).integers(n, size=(count, n))]
    axes = {p.name: 0 if p.name in ("out", "x") else None for p in gmm.gmm_objective.parameters}
    f = rg.vmap(gmm.gmm_objective, axes, engine="cuda", precision="ignore")
    return f"GMM objective, {count} sets of {n} points", f, (np.zeros(count), *data[:3], x, *data[4:])


def _regressions(sizes: CallSizes) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Gradients of a few regressions with many rows each: several threads run an element."""
    count, n = min(MIXTURES, sizes.points), max(sizes.points, 10)
    rng = np.random.default_rng(3)
    w, x, y = (rng.normal(size=shape) for shape in ((count, COLUMNS), (count, n, COLUMNS), (count, n)))
    f = rg.vmap(rg.grad(dense.regression, "w"), engine="cuda", precision="ignore")
    return f"regression, gradient, {count} fits of {n} rows", f, (np.zeros(count), w, x, y)


def _planets(sizes: CallSizes) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """Planetary systems whose places differ by a part in a thousand."""
    total, steps = sizes.systems
    q, v, gm = leapfrog.solar_system()
    places = q * (1 + 1e-3 * np.linspace(0, 1, total)[:, None, None])
    axes = {p.name: 0 if p.name == "q" else None for p in leapfrog.leapfrog.parameters}
    f = rg.vmap(leapfrog.leapfrog, axes, engine="cuda", precision="ignore")
    return f"leapfrog, nine bodies, {steps} steps, {total} systems", f, (places, v, gm, steps)


def _waves(sizes: CallSizes) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Single runs: a wave, and the gradient of its misfit by the medium."""
    n, steps = sizes.wave
    d = simulations.wave_data(n, steps)
    name = f"wave, {n} × {n} cells, {steps} steps"
    yield name, functools.partial(_propagated, steps), (d.q, d.p, d.c)
    gradient = rg.value_and_grad(wave.misfit, "c", engine="cuda")
    yield f"{name}, gradient", gradient, (0.0, d.q, d.p, d.c, d.seen, d.line, steps)


def _propagated(steps: int, *fields: Any) -> Any:
    """(q, p) behind the steps."""
    return tuple(rg.run(wave.propagate, *fields, steps, engine="cuda").values[:2])


def _arrays(found: Any) -> list[Any]:
    """The arrays in a result."""
    return [part for one in found for part in _arrays(one)] if isinstance(found, tuple) else [found]


def timed(run: Callable[[Any], Any], engine: Any, repeats: int) -> tuple[Any, float]:
    """(the result, the least milliseconds of some calls behind a first one)"""
    found, least = run(engine), float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        run(engine)
        least = min(least, 1e3 * (time.perf_counter() - begun))
    return found, least
