"""`retrograd devices`: the processor and the CUDA devices, and the resources that the kernels of a program take on them."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.exit_codes import OK
from retrograd.cli.files import load_program
from retrograd.cli.functions import function_and_inverse, is_function
from retrograd.cli.options import Parser, fail
from retrograd.cli.report import as_dict, print_json
from retrograd.isa.diagnostics import DeviceError
from retrograd.isa.program import Program
from retrograd.presentation import columns
from retrograd.simulator.engines.cuda.runtime import (
    CPU_RUNS,
    Device,
    devices,
    driver_version,
    memory_of_device,
    size_text,
    version_text,
)


def arguments(p: Parser) -> None:
    """Options of `retrograd devices`."""
    p.function_arguments(
        "of the function that --program names: examples of its arguments, where annotations leave types open"
    )
    p.add_argument(
        "--program", metavar="PROG", help="FILE.py:FUNCTION, assembly text or an image: resources of its kernels"
    )
    p.add_argument(
        "--arch", choices=("sm_80", "sm_90"), help="compute capability for --program without a device (default: sm_90)"
    )
    p.include_option()
    p.run_options("--format", "--dialect", "--entry")
    p.size_options()
    p.json_option("retrograd.devices/1")


def execute(options: argparse.Namespace) -> int:
    """Print the processor and the CUDA devices, or the reason for their absence. Only `--program` compiles."""
    for name in ("arch", "format", "args", "include"):
        if options.program is None and getattr(options, name):
            shown = "an argument" if name == "args" else f"--{name}"
            raise fail("RG0512", f"{shown} belongs to --program, which is not given")
    found: tuple[Device, ...] = ()
    memories: list[float] = []
    version: str | None = None
    missing: DeviceError | None = None
    try:
        found = devices()
        served = driver_version()
        version = None if served is None else version_text(served)
        memories = [memory_of_device(device)[1] for device in found]
    except DeviceError as error:
        found, missing = (), error
    kernels = None if options.program is None else _program_kernels(options, found)
    if options.json:
        document = _as_json(version, found, memories, missing)
        print_json("retrograd.devices/1", document if kernels is None else document | {"program": kernels})
    else:
        print(_as_text(version, found, memories, missing))
        if kernels is not None:
            print(f"\n{_kernels_as_text(kernels)}")
    return OK


def _program(options: argparse.Namespace) -> Program:
    """The program that `--program` names."""
    if not is_function(options.program):
        for name in ("args", "format"):
            if getattr(options, name):
                shown = "an argument" if name == "args" else "--format"
                raise fail("RG0512", f"{shown} is for functions, and `{options.program}` is a program")
        return load_program(options.program, options.include)
    function, inverse = function_and_inverse(options.program, options)
    arguments, keywords = parse_arguments(options.args, function)
    program = function.compiled(*arguments, **keywords).program
    return ~program if inverse else program


def _program_kernels(options: argparse.Namespace, found: Sequence[Device]) -> dict[str, Any]:
    """The kernels of a program with their resources: on each device, or else by ptxas."""
    from retrograd.simulator.engines.cuda.kernel_report import (
        bytes_of_instance,
        program_kernels,
        resources,
        resources_on,
        toolkit_program,
    )

    program = _program(options)
    rows = []
    unknown = None if found or toolkit_program("ptxas") else "ptxas is not installed, and there is no device"
    for where in found or (None,):
        arch = where.target if where is not None else options.arch or "sm_90"
        for kernel in program_kernels(program, arch):
            taken = None
            if where is not None:
                taken = resources_on(kernel, where)
            elif unknown is None:
                try:
                    taken = resources(kernel, arch)
                except DeviceError as error:
                    unknown = error.diagnostics[0].message
            rows.append(
                {
                    "device": None if where is None else str(where), "target": arch, "kernel": kernel.name,
                    "use": kernel.use, "threads": kernel.threads, **({} if taken is None else asdict(taken)),
                }
            )  # fmt: skip
    return {
        "instructions": len(program.code),
        "instance_bytes": bytes_of_instance(program),
        "unknown": unknown,
        "kernels": rows,
    }


def _kernels_as_text(program: dict[str, Any]) -> str:
    head = ["kernel", "for", "target", "threads", "registers", "local bytes", "spilled", "occupancy"]
    rows = [head]
    for row in program["kernels"]:
        spilled, share = row.get("spilled"), row.get("occupancy")
        rows.append(
            [
                row["kernel"], row["use"], row["device"] or row["target"], str(row["threads"]), str(row.get("registers", "–")),
                str(row.get("local_bytes", "–")), "–" if spilled is None else str(spilled),
                "–" if share is None else f"{share:.0%}",
            ]
        )  # fmt: skip
    text = columns(rows, range(3, len(head)))
    size = size_text(program["instance_bytes"])
    text += f"\n\n{program['instructions']} instructions; an instance of a batch takes {size} of device memory."
    if program["unknown"] is not None:
        text += f"\nRegisters are unknown: {program['unknown']}. `pip install 'retrograd[ptx]'` installs ptxas."
    return text


def _as_text(version: str | None, found: tuple[Device, ...], memories: list[float], missing: DeviceError | None) -> str:
    cores = usable_cores()
    rows = [["cpu", processor(), f"{cores} core{'s' * (cores != 1)}"]]
    for d, memory in zip(found, memories, strict=False):
        simulated = d.clock == 0
        parts = f"{d.multiprocessors} multiprocessors at {d.clock / 1e6:.2f} GHz", size_text(memory)
        shown = ("runs on the processor", "") if simulated else parts
        rows.append([str(d), d.name, *shown, f"compute capability {version_text(d.capability)}"])
    width = max(map(len, rows))
    out = [columns([row + [""] * (width - len(row)) for row in rows]), ""]
    if missing is None and version is not None:
        out.append(f"The CUDA driver serves programs of CUDA {version} and older.")
    if missing is not None:
        reason = missing.diagnostics[0]
        out.append(f"No CUDA device: {reason.message}. {CPU_RUNS}")
        if reason.hint is not None and reason.hint != CPU_RUNS:
            out.append(reason.hint)
    folder = compiled_code()
    if folder is not None:
        out.append(f"Compiled code is kept in {folder}.")
    return "\n".join(out)


def _as_json(
    version: str | None, found: tuple[Device, ...], memories: list[float], missing: DeviceError | None
) -> dict[str, Any]:
    """Memory in bytes, the clock in kHz; `unavailable` is a finding, as of `retrograd verify`."""
    folder = compiled_code()
    return {
        "cpu": {
            "name": processor(),
            "architecture": platform.machine(),
            "cores": usable_cores(),
            "compiled_code": None if folder is None else str(folder),
        },
        "cuda": {
            "version": version,
            "devices": [
                {
                    "index": d.index,
                    "name": d.name,
                    "compute_capability": version_text(d.capability),
                    "memory": int(memory) if isfinite(memory) else None,
                    "multiprocessors": d.multiprocessors,
                    "clock": d.clock,
                }
                for d, memory in zip(found, memories, strict=False)
            ],
            "unavailable": None if missing is None else as_dict(missing.diagnostics[0]),
        },
    }


def usable_cores() -> int:
    """The cores that this process may use, which can be fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def processor() -> str:
    """The processor's name, from /proc/cpuinfo or the platform."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"


def compiled_code() -> Path | None:
    """The folder in which compiled code is kept, or None."""
    from retrograd.simulator.engines.llvm.jit import cache_folder

    return cache_folder()
