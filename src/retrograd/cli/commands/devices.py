"""`retrograd devices`: the processor and the CUDA devices."""

from __future__ import annotations

import argparse
import os
import platform
from math import isfinite
from pathlib import Path
from typing import Any

from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser
from retrograd.cli.report import as_dict, print_json
from retrograd.isa.diagnostics import DeviceError
from retrograd.presentation.tables import columns
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    devices,
    driver_version,
    memory_of_device,
    size_text,
    version_text,
)


def arguments(p: Parser) -> None:
    """Options of `retrograd devices`."""
    p.json_option("retrograd.devices/1")


def execute(options: argparse.Namespace) -> int:
    """Print the processor and the CUDA devices, or the reason for their absence. Nothing is compiled."""
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
    if options.json:
        print_json("retrograd.devices/1", _as_json(version, found, memories, missing))
    else:
        print(_as_text(version, found, memories, missing))
    return OK


def _as_text(version: str | None, found: tuple[Device, ...], memories: list[float], missing: DeviceError | None) -> str:
    cores = usable_cores()
    rows = [["cpu", processor(), f"{cores} core{'s' * (cores != 1)}"]]
    for d, memory in zip(found, memories, strict=False):
        rows.append(
            [
                str(d), d.name, f"{d.multiprocessors} multiprocessors at {d.clock / 1e6:.2f} GHz", size_text(memory),
                f"compute capability {version_text(d.capability)}",
            ]
        )  # fmt: skip
    width = max(map(len, rows))
    out = [columns([row + [""] * (width - len(row)) for row in rows]), ""]
    if missing is None and version is not None:
        out.append(f"The CUDA driver serves programs of CUDA {version} and older.")
    if missing is not None:
        reason = missing.diagnostics[0]
        out.append(f"No CUDA device: {reason.message}. The CPU runs every program.")
        if reason.hint is not None:
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
    from retrograd.simulator.engines.llvm.object_cache import cache_folder

    return cache_folder()
