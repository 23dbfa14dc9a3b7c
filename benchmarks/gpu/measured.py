"""Workloads on a GPU: the same bits as on the CPU, and times beside jax and Warp in float64 on the same device: `retrograd bench --gpu`.

1. Bit for bit: random programs of both tiers, examples and single runs on the GPU, on the CPU's cores and on the reference machine.
2. The same gradient with blocks of 32 to 1024 threads, several pieces and several devices, and its sum over 10⁷ elements, twice each: the same bits.
3. Times by the device's own clock, kernel and copies apart, after the results have been compared with float64; beside them, our time on the CPU's cores.
4. PTX per ISA instruction; registers with ptxas, and machine code (SASS) with cuobjdump. Needs no device.

Parts that would begin after a number of minutes are left out, and named. Without a GPU only 4 is done. With `fake`, all of it is done in tiny sizes under Numba's CUDA simulator, where the host runs the translated kernels; the
times mean nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.code_counts import code_counts
from retrograd.benchmarks.gpu.dynamics import embedding_rows, planets_rows, wave_rows
from retrograd.benchmarks.gpu.identical import (
    TESTS,
    compile_interpreters,
    identical_cuts,
    identical_examples,
    identical_interpreted,
    identical_programs,
    identical_single_runs,
)
from retrograd.benchmarks.gpu.programs import SIZES, Sizes, module_at
from retrograd.benchmarks.gpu.tables import Report, line
from retrograd.benchmarks.gpu.timings import bessel_rows, bundle_rows, mixture_rows
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    devices,
    driver_version,
    memory_of_device,
    size_text,
    version_text,
)
from retrograd.simulator.engines.tiering import Decision, Reason, policy

SCHEMA = "retrograd.gpu/1"
#: comparisons of programs that the tests generate
WITH_TESTS = (identical_programs, identical_single_runs, identical_interpreted)


def measured(
    *, quick: bool = False, fake: bool = False, minutes: float | None = None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """The results, of schema retrograd.gpu/1: the parts that this machine allows, and that begin within `minutes`. `say` shows progress."""
    report = Report(until=None if minutes is None else time.monotonic() + 60 * minutes)
    sizes = SIZES["fake" if fake else "quick" if quick else "full"]
    with _fake() if fake else nullcontext():
        try:
            found = devices()
        except DeviceError as error:
            report.absent["device"] = error.diagnostics[0].message
            say(f"There is no GPU here ({report.absent['device']}): only code is counted.")
        else:
            _with_device(report, found, sizes, fake, say)
    if _begins(report, "counts"):
        with _guarded(report, "counts"):
            report.counts = code_counts(report.absent, quick=quick or fake)
    report.machine |= {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    found_wrong = bool(report.failed) or not all(row["same"] for row in report.identical)
    document = asdict(report)
    del document["until"]
    return {"schema": SCHEMA, "wrong": found_wrong, **document}


def _with_device(report: Report, found: Sequence[Device], sizes: Sizes, fake: bool, say: Callable[[str], None]) -> None:
    device, served = found[0], driver_version()
    _, memory = memory_of_device(device)
    version = "simulated" if served is None else version_text(served)
    report.machine = {
        "device": device.name, "capability": device.target, "memory": None if fake else int(memory), "devices": len(found),
        "multiprocessors": device.multiprocessors, "clock_khz": device.clock, "cuda": version, "fake": fake,
    }  # fmt: skip
    say(f"{device.name}, {device.target}, {size_text(memory)}, CUDA {version}")
    compiling = [] if fake else compile_interpreters(device)
    for check in (identical_programs, identical_examples, identical_cuts, identical_single_runs):
        _compare(report, check, sizes, say)
    workloads = {f"Bessel, {n}": functools.partial(bessel_rows, n) for n in sizes.bessel} | {
        "BA": bundle_rows,
        "graph": embedding_rows,
        "GMM": mixture_rows,
        "leapfrog": planets_rows,
        "wave": wave_rows,
    }
    for name, workload in workloads.items():
        if not _begins(report, name):
            continue
        with _guarded(report, name):
            for row in workload(sizes):
                if "failed" in row:
                    report.failed.append({"what": f"{row['workload']}, {row['system']}", "error": row["failed"]})
                    continue
                report.times.append(row)
                say(line(row))
    for process in compiling:
        process.wait()
    _compare(report, identical_interpreted, sizes, say)
    for peer, why in gpu_peers.absent().items():
        report.absent[peer] = why


def _compare(
    report: Report, check: Callable[[Sizes], list[dict[str, Any]]], sizes: Sizes, say: Callable[[str], None]
) -> None:
    """Add the rows of a comparison bit for bit."""
    if check in WITH_TESTS and not (TESTS.is_dir() and importlib.util.find_spec("pytest")):
        report.absent[check.__name__] = "it takes programs of the tests: run it from a checkout, with pytest"
        return
    if not _begins(report, check.__name__):
        return
    with _guarded(report, check.__name__):
        rows = check(sizes)
        report.identical += rows
        say(f"{check.__name__}: {sum(row['same'] for row in rows)} of {len(rows)} the same")


def _begins(report: Report, what: str) -> bool:
    """Whether a part may begin; otherwise it is named as left out."""
    if report.until is None or time.monotonic() < report.until:
        return True
    report.absent[what] = "left out, since the time had run out"
    return False


@contextmanager
def _guarded(report: Report, what: str) -> Iterator[None]:
    """Record an error in place of raising it, so that one row does not lose hours on a device."""
    try:
        yield
    except Exception as error:
        report.failed.append({"what": what, "error": f"{type(error).__name__}: {error}"})


@contextmanager
def _fake() -> Iterator[None]:
    """Numba's simulator, and the translated kernels run by the host."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before Numba is imported
    from retrograd.simulator.engines.cuda import batch, stepped_machine

    on_host = module_at(TESTS / "simulator" / "engines" / "cuda" / "kernel_on_host.py")
    gpu_peers.anywhere = True
    on_host.HostKernel.level = 0
    vars(batch)["TranslatedKernel"] = on_host.HostKernel
    stepped = stepped_machine.SteppedKernels
    vars(stepped_machine)["SteppedKernels"] = on_host.HostSteppedKernels
    before, policy.decide_device = policy.decide_device, lambda *_: Decision("translated", Reason.LOADED)  # type: ignore[method-assign]
    try:
        yield
    finally:
        policy.decide_device = before  # type: ignore[method-assign]
        stepped_machine.SteppedKernels = stepped  # type: ignore[misc]
