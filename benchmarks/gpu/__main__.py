"""Batches on a GPU: the same bits as on the CPU, and times beside jax and Warp in float64 on the same device.

    python -m retrograd.benchmarks.gpu [--quick] [--json FILE] [--fake]

Where Retrograd is not installed, from the root of the repository:

    make -B build/tree/retrograd && PYTHONPATH=build/tree python -m retrograd.benchmarks.gpu

1. Bit for bit: random programs and examples on the GPU, on the CPU's cores and on the reference machine.
2. The same gradient with several sizes of blocks and pieces, and on several devices: the same bits.
3. Times by the device's own clock, kernel and copies apart, after the results have been compared with float64.
4. PTX per ISA instruction; registers with ptxas, and machine code (SASS) with cuobjdump. Needs no device.

Without a GPU only 4 is done. `--fake` does all of it in tiny sizes under Numba's CUDA simulator, where the host runs the translated kernels; its
times mean nothing.
The JSON (schema retrograd.gpu/1) has all results; a table in Markdown for docs/benchmarks.md is printed.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.code_counts import code_counts
from retrograd.benchmarks.gpu.identical import identical_cuts, identical_examples, identical_programs
from retrograd.benchmarks.gpu.programs import SIZES, Sizes, module_at
from retrograd.benchmarks.gpu.tables import Report, line, markdown
from retrograd.benchmarks.gpu.timings import bessel_rows, bundle_rows, mixture_rows
from retrograd.isa.diagnostics import DeviceError
from retrograd.isa.files import write_file
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


def main() -> None:
    """Run the parts that this machine allows."""
    parser = argparse.ArgumentParser(
        prog="python -m retrograd.benchmarks.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    parser.add_argument("--json", metavar="FILE", type=Path, help=f"write all results (schema {SCHEMA})")
    parser.add_argument("--fake", action="store_true", help="under the CUDA simulator: to test this script")
    options = parser.parse_args()
    report = Report()
    sizes = SIZES["fake" if options.fake else "quick" if options.quick else "full"]
    with _fake() if options.fake else nullcontext():
        try:
            found = devices()
        except DeviceError as error:
            said = error.diagnostics[0].message
            print(f"There is no GPU here ({said}): only code is counted.")
            report.absent["device"] = said
        else:
            _with_device(report, found, sizes, fake=options.fake)
    with _guarded(report, "counts"):
        report.counts = code_counts(report.absent, quick=options.quick or options.fake)
    report.machine |= {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    print(markdown(report))
    if options.json:
        write_file(options.json, json.dumps({"schema": SCHEMA, **asdict(report)}, indent=2, default=str) + "\n")
    if report.failed or not all(row["same"] for row in report.identical):
        sys.exit("Bits differ, or something failed: see above.")


def _with_device(report: Report, found: Sequence[Device], sizes: Sizes, *, fake: bool) -> None:
    device, served = found[0], driver_version()
    _, memory = memory_of_device(device)
    version = "simulated" if served is None else version_text(served)
    report.machine = {
        "device": device.name, "capability": device.target, "memory": None if fake else int(memory), "devices": len(found),
        "multiprocessors": device.multiprocessors, "clock_khz": device.clock, "cuda": version, "fake": fake,
    }  # fmt: skip
    print(f"{device.name}, {device.target}, {size_text(memory)}, CUDA {version}", flush=True)
    for check in (identical_programs, identical_examples, identical_cuts):
        with _guarded(report, check.__name__):
            report.identical += check(sizes)
            same = sum(row["same"] for row in report.identical)
            print(f"{check.__name__}: {same} of {len(report.identical)} the same so far", flush=True)
    workloads = {f"Bessel, {n}": functools.partial(bessel_rows, n) for n in sizes.bessel} | {
        "BA": bundle_rows,
        "GMM": mixture_rows,
    }
    for name, workload in workloads.items():
        with _guarded(report, name):
            for row in workload(sizes):
                if "failed" in row:
                    report.failed.append({"what": f"{row['workload']}, {row['system']}", "error": row["failed"]})
                    continue
                report.times.append(row)
                print(line(row), flush=True)
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
    from retrograd.simulator.engines.cuda import batch_code

    folder = Path(__file__).resolve().parents[2] / "tests" / "simulator" / "engines" / "cuda"
    on_host = module_at(folder / "kernel_on_host.py")
    gpu_peers.anywhere = True
    on_host.HostKernel.level = 0
    vars(batch_code)["TranslatedKernel"] = on_host.HostKernel
    before, policy.decide_device = policy.decide_device, lambda *_: Decision("translated", Reason.LOADED)  # type: ignore[method-assign]
    try:
        yield
    finally:
        policy.decide_device = before  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
