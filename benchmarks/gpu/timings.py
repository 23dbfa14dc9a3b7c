"""Times by the device's own clock, kernel and copies apart, after the results have been compared with float64 references."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.peers import CHUNK
from retrograd.benchmarks.gpu.programs import (
    SCALE,
    Sizes,
    Words,
    bessel_gradient,
    measurements,
    padded,
    reals_of,
    words_of,
)
from retrograd.benchmarks.references import adbench, complex_step
from retrograd.examples import bessel, bundle_adjustment, gmm
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import Setting, Timed
from retrograd.simulator.engines.tiering import optimised_at_once

import retrograd as rg
from retrograd.derivatives._programs import gradient_program, loss_gradient_program

#: elements of each batch that are compared with float64
CHECKED = 5
#: elements that the cores of this machine run beside the device
ON_CORES = 1 << 14
#: bytes of the rows that the host gives to one batch; more instances take several
ROOM = 1 << 31
TRANSLATED = Setting(tier="translated")


def timed_run(program: Program, rows: Words, total: int, repeats: int) -> tuple[Words, dict[str, float]]:
    """(the first rows afterwards, times): the best of some runs of `total` instances, which repeat the rows.

    The kernels are translated before the first timed run. `wall_ms`: the whole run on the host's clock. `cores_ms`: a part of the batch on the
    cores of this machine, as if it were the whole.
    """
    after = on_gpus.run_batch(program, rows[: max(CHECKED, 1)], setting=TRANSLATED).rows
    batch = np.resize(rows, (min(total, max(len(rows), ROOM // rows[0].nbytes)), rows.shape[1]))
    best: dict[str, float] = {}
    for _ in range(repeats):
        timed, begun = Timed(), time.perf_counter()
        for first in range(0, total, len(batch)):
            ran = on_gpus.run_batch(program, batch[: total - first], setting=TRANSLATED, timed=timed)
            if len(ran.failed):
                raise AssertionError(f"{len(ran.failed)} instances failed")
        wall = 1e3 * (time.perf_counter() - begun)
        if not best or timed.kernel < best["kernel_ms"]:
            best = {"kernel_ms": timed.kernel, "copies_ms": timed.copies, "wall_ms": wall}
    part = batch[: min(total, ON_CORES)]
    with optimised_at_once():
        on_cores.run_batch(program, part)
        begun = time.perf_counter()
        on_cores.run_batch(program, part)
    return after, best | {"cores_ms": 1e3 * (time.perf_counter() - begun) * total / len(part)}


def checked(name: str, found: Any, exact: Any, tolerance: float) -> float:
    """The largest error, relative to the largest number or 1. Raises AssertionError if it is too large."""
    found, exact = np.ravel(found), np.ravel(exact)
    error = float(np.abs(found - exact).max() / max(1.0, float(np.abs(exact).max())))
    if not error <= tolerance:
        raise AssertionError(f"{name}: the error is {error:.1e}, and may be {tolerance:.1e}")
    return error


def row_of(
    workload: str, system: str, instances: int, times: dict[str, float], error: float, note: str = ""
) -> dict[str, Any]:
    return {"workload": workload, "system": system, "instances": instances, **times, "error": error, "note": note}


def peer_rows(workload: str, instances: int, tasks: Sequence[gpu_peers.Task], sizes: Sizes) -> Iterator[dict[str, Any]]:
    for task in tasks:
        try:
            run = task.prepare()
            error = checked(f"{workload}, {task.system}", run.sample(), task.exact, task.tolerance)
            times = {"kernel_ms": run.best(sizes.repeats)}
        except Exception as failure:  # out of memory, for one
            yield {"workload": workload, "system": task.system, "failed": f"{type(failure).__name__}: {failure}"}
            continue
        yield row_of(workload, task.system, instances, times, error, task.note)


def bessel_rows(count: int, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """J₂ and its slope for many numbers."""
    compiled, program, rows, (value, slope) = bessel_gradient(count)
    plain = rows[:, : compiled.argument_words]
    out = next(a.address for a in compiled.arguments if a.name == "out")
    z = np.linspace(0.5, 1.5, min(count, CHUNK))
    exact = np.array([bessel.reference(x, 2, 1e-8) for x in z[:CHECKED]])
    slopes = np.array(
        [complex_step.jacobian(lambda x: bessel.reference(x.item(), 2, 1e-8), np.array(x)) for x in z[:CHECKED]]
    )
    after, times = timed_run(compiled.program, plain, count, sizes.repeats)
    name = f"Bessel J₂, {count} numbers"
    yield row_of(name, "retrograd", count, times, checked(name, reals_of(after[:CHECKED, out]), exact, 1e-9))
    tasks = gpu_peers.bessel_value(count, exact)
    yield from peer_rows(name, count, tasks, sizes)
    after, times = timed_run(program, rows, count, sizes.repeats)
    name = f"Bessel J₂ and its slope, {count} numbers"
    found = np.stack([reals_of(after[:CHECKED, value]), reals_of(after[:CHECKED, slope]) / 2.0**SCALE], axis=1)
    both = np.stack([exact, slopes], axis=1)
    yield row_of(name, "retrograd", count, times, checked(name, found, both, 1e-8))
    yield from peer_rows(name, count, gpu_peers.bessel_gradient(count, both), sizes)


def bundle_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """The errors of all measurements, and their Jacobian blocks of 2 × 15: one run of the gradient program for each row."""
    total, count = sizes.measurements, min(sizes.measurements, CHUNK)
    data = measurements(count)
    inputs = data.inputs
    exact = np.array([adbench.reprojection(z, f) for z, f in zip(inputs[:CHECKED], data.features, strict=False)])
    # All measurements have the feature of the file.
    blocks = np.array(
        [complex_step.jacobian(lambda z: adbench.reprojection(z, data.features[0]), z) for z in inputs[:CHECKED]]
    )
    compiled, rows = words_of(bundle_adjustment.reprojection_error, (np.zeros((count, 2)), *data.arguments))
    error = next(a.address for a in compiled.arguments if a.name == "error")
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    name = f"BA errors, {total} measurements"
    found = reals_of(after[:CHECKED, error : error + 2])
    yield row_of(name, "retrograd", total, times, checked(name, found, exact, 5e-6))
    yield from peer_rows(name, total, gpu_peers.bundle_errors(data, total, exact), sizes)

    made = gradient_program(compiled, False)
    places = [
        a.address + made.cotangents + i
        for a in compiled.arguments
        if a.name in ("camera", "point", "weight")
        for i in range(a.type.size)
    ]
    width = max(a.address + a.type.size + made.cotangents for a in compiled.arguments)
    rows = padded(made.compiled, rows, width)
    whole: dict[str, float] = {}
    jacobians = []
    for which in range(2):
        rows[:, error + made.cotangents : error + made.cotangents + 2] = 0
        rows[:, error + made.cotangents + which] = 1 << 32
        after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
        whole = {key: whole.get(key, 0.0) + spent for key, spent in times.items()}
        jacobians.append(reals_of(after[:CHECKED, places]))
    name = f"BA Jacobian blocks, {total} measurements"
    yield row_of(name, "retrograd", total, whole, checked(name, np.stack(jacobians, axis=1), blocks, 1e-7))
    yield from peer_rows(name, total, gpu_peers.bundle_jacobian(data, total, blocks), sizes)


def mixture_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """ADBench's mixture, one point on each thread: with n points L = Σᵢ L(xᵢ) − (n − 1) L(no point), and the same for gradients.

    The host adds the words mod 2^W, so the sum has the same bits in any order.
    """
    data = adbench.read_mixture(gmm.DATA / "1k_d10_K25.txt", sizes.points)
    parameters, x, rest = data[:3], data[3], data[4:]
    if sizes.points < 10:  # under the simulator: the smallest mixture, with more points
        data = adbench.read_mixture(gmm.DATA / "test.txt")
        data = data._replace(x=data.x[:1] + np.linspace(0, 1, sizes.points)[:, None])
        parameters, x, rest = data[:3], data[3], data[4:]
    n = len(x)
    shared = {p.name: None for p in gmm.gmm_objective.parameters} | {"out": 0, "x": 0}
    shared.pop("gamma"), shared.pop("m")
    compiled, rows = words_of(gmm.gmm_objective, (np.zeros(n), *parameters, x[:, None, :], *rest), shared)
    arguments = {a.name: a for a in compiled.arguments}
    exact, by = adbench.likelihood_gradient(*parameters, x, *rest)
    empty = (*parameters, x[:0], *rest)
    _, none_by = adbench.likelihood_gradient(*empty)

    after, times = _run_all(compiled.program, rows, sizes.repeats)
    out = arguments["out"].address
    name = f"GMM objective, {n} points, k = {len(parameters[0])}"
    prior = float(rg.run(gmm.gmm_objective, 0.0, *empty).values.out)
    found = float(reals_of(after[:, out].sum(dtype=np.uint64)[None])[0]) - (n - 1) * prior
    yield row_of(name, "retrograd", n, times, checked(name, found / n, exact / n, 1e-6), "a thread for each point")
    yield from peer_rows(name, n, gpu_peers.mixture_value(data, exact), sizes)

    wanted = [arguments[name] for name in ("alphas", "means", "icf")]
    made = loss_gradient_program(compiled, False, wanted, arguments["out"], 0)
    ends = [a.address + a.type.size + made.cotangents for a in wanted]
    after, times = _run_all(
        made.compiled.program, padded(made.compiled, rows, max(*ends, made.value + 1)), sizes.repeats
    )
    name = f"GMM gradient, {n} points, k = {len(parameters[0])}"
    slopes = []
    for a, of_none in zip(wanted, none_by[:3], strict=True):
        first = a.address + made.cotangents
        slopes.append(
            reals_of(after[:, first : first + a.type.size].sum(axis=0, dtype=np.uint64)) - (n - 1) * np.ravel(of_none)
        )
    both = np.concatenate([np.ravel(part) for part in by[:3]])
    yield row_of(
        name, "retrograd", n, times, checked(name, np.concatenate(slopes), both, 1e-6), "a thread for each point"
    )
    yield from peer_rows(name, n, gpu_peers.mixture_gradient(data, both), sizes)


def _run_all(program: Program, rows: Words, repeats: int) -> tuple[Words, dict[str, float]]:
    """(all rows afterwards, times)."""
    after = on_gpus.run_batch(program, rows, setting=TRANSLATED).rows
    return after, timed_run(program, rows, len(rows), repeats)[1]
