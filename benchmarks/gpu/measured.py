"""Workloads on a GPU: the same bits as on the CPU, and times beside jax and Warp in float64 on the same device: `retrograd bench --gpu`.

1. Bit for bit: random programs and examples on the GPU, on the CPU's cores and on the reference machine.
2. The same gradient with several sizes of blocks and pieces, and on several devices: the same bits.
3. Times by the device's own clock, kernel and copies apart, after the results have been compared with float64; beside them, our time on the CPU's cores.
4. PTX per ISA instruction; registers with ptxas, and machine code (SASS) with cuobjdump. Needs no device.

Without a GPU only 4 is done. With `fake`, all of it is done in tiny sizes under Numba's CUDA simulator, where the host runs the translated kernels; the
times mean nothing.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.code_counts import code_counts
from retrograd.benchmarks.gpu.dynamics import embedding_rows, planets_rows, wave_rows
from retrograd.benchmarks.gpu.identical import identical_cuts, identical_examples, identical_programs
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


def measured(*, quick: bool = False, fake: bool = False, say: Callable[[str], None] = print) -> dict[str, Any]:
    """The results, of schema retrograd.gpu/1: the parts that this machine allows. `say` shows progress."""
    report = Report()
    sizes = SIZES["fake" if fake else "quick" if quick else "full"]
    with _fake() if fake else nullcontext():
        try:
            found = devices()
        except DeviceError as error:
            report.absent["device"] = error.diagnostics[0].message
            say(f"There is no GPU here ({report.absent['device']}): only code is counted.")
        else:
            _with_device(report, found, sizes, fake, say)
    with _guarded(report, "counts"):
        report.counts = code_counts(report.absent, quick=quick or fake)
    report.machine |= {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    found_wrong = bool(report.failed) or not all(row["same"] for row in report.identical)
    return {"schema": SCHEMA, "wrong": found_wrong, **asdict(report)}


def _with_device(report: Report, found: Sequence[Device], sizes: Sizes, fake: bool, say: Callable[[str], None]) -> None:
    device, served = found[0], driver_version()
    _, memory = memory_of_device(device)
    version = "simulated" if served is None else version_text(served)
    report.machine = {
        "device": device.name, "capability": device.target, "memory": None if fake else int(memory), "devices": len(found),
        "multiprocessors": device.multiprocessors, "clock_khz": device.clock, "cuda": version, "fake": fake,
    }  # fmt: skip
    say(f"{device.name}, {device.target}, {size_text(memory)}, CUDA {version}")
    for check in (identical_programs, identical_examples, identical_cuts):
        with _guarded(report, check.__name__):
            report.identical += check(sizes)
            same = sum(row["same"] for row in report.identical)
            say(f"{check.__name__}: {same} of {len(report.identical)} the same so far")
    workloads = {f"Bessel, {n}": functools.partial(bessel_rows, n) for n in sizes.bessel} | {
        "BA": bundle_rows,
        "graph": embedding_rows,
        "GMM": mixture_rows,
        "leapfrog": planets_rows,
        "wave": wave_rows,
    }
    for name, workload in workloads.items():
        with _guarded(report, name):
            for row in workload(sizes):
                if "failed" in row:
                    report.failed.append({"what": f"{row['workload']}, {row['system']}", "error": row["failed"]})
                    continue
                report.times.append(row)
                say(line(row))
    for peer, why in gpu_peers.absent().items():
        report.absent[peer] = why


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
    from retrograd.simulator.engines.cuda import batch_code, stepped_machine

    folder = Path(__file__).resolve().parents[2] / "tests" / "simulator" / "engines" / "cuda"
    on_host = module_at(folder / "kernel_on_host.py")
    gpu_peers.anywhere = True
    on_host.HostKernel.level = 0
    vars(batch_code)["TranslatedKernel"] = on_host.HostKernel
    stepped = stepped_machine.SteppedKernels
    vars(stepped_machine)["SteppedKernels"] = on_host.HostSteppedKernels
    before, policy.decide_device = policy.decide_device, lambda *_: Decision("translated", Reason.LOADED)  # type: ignore[method-assign]
    try:
        yield
    finally:
        policy.decide_device = before  # type: ignore[method-assign]
        stepped_machine.SteppedKernels = stepped  # type: ignore[misc]
