"""Resources of a program's kernels: registers, spilled bytes, occupancy and memory.

    for kernel in program_kernels(program, "sm_90"):
        found = resources(kernel, "sm_90")                  by ptxas, without a device
        found = resources_on(kernel, device)                by the driver

Occupancy is the share of a multiprocessor's threads that run at once. Without a device it is computed from the registers, of which a multiprocessor of compute
capability 8.0 or 9.0 has 65,536, given to warps in units of 256.
Trap: the driver reports the local memory of a thread, of which spilled registers are a part; only ptxas separates the two.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from retrograd.isa.files import write_file
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.loops import WARP
from retrograd.simulator.engines.cuda.batch import BLOCK
from retrograd.simulator.engines.cuda.kernels import KERNEL, ptx
from retrograd.simulator.engines.cuda.runtime import Device, Kernel, device_error
from retrograd.simulator.engines.cuda.stepped_machine import ADD, STEPS, TEST, device_loops, stepped_ptx
from retrograd.simulator.engines.cuda.teams import most_threads
from retrograd.simulator.engines.llvm.builder import storage
from retrograd.simulator.engines.translator.flow import Variant

#: resources of a multiprocessor of compute capability 8.0 or 9.0
_REGISTERS, _UNIT, _WARPS, _BLOCKS = 65536, 256, 64, 32
_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<spilled>\d+) bytes spill stores"
    r".*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True)
class ProgramKernel:
    """A kernel of a program, as PTX. `threads`: in a block."""

    name: str
    use: str
    text: str
    threads: int


@dataclass(frozen=True)
class KernelResources:
    """Resources of a kernel: registers and local bytes of a thread; `spilled`: of the local bytes, None from the driver; occupancy, 0 to 1."""

    registers: int
    local_bytes: int
    spilled: int | None
    occupancy: float


def program_kernels(program: Program, arch: str) -> list[ProgramKernel]:
    """The kernels of batches and, if the program has parallel loops, of single runs, for a compute capability.

    The kernel of teams (teams.py) comes last, with the most threads that run an element together.
    """
    found = [ProgramKernel(KERNEL, "batches", ptx(program, arch), BLOCK)]
    variant = Variant()
    if device_loops(program, variant):
        text = stepped_ptx(program, variant, arch)
        found += [
            ProgramKernel(name, "single runs", text, 1 if name == STEPS else BLOCK) for name in (STEPS, TEST, ADD)
        ]
    team = most_threads(program, backward=False)
    if team > 1:
        use = f"batches, up to {team} threads an element"
        found.append(ProgramKernel(KERNEL, use, ptx(program, arch, teams=True), BLOCK))
    return found


def bytes_of_instance(program: Program) -> int:
    """The bytes of the memory of a batch's instance on a device, with its spare word."""
    return (program.memory + 1) * storage(program.format).bits // 8


def toolkit_program(name: str) -> str | None:
    """A program of NVIDIA's toolkit: of the wheels nvidia-cuda-nvcc, nvidia-cuda-cuobjdump and nvidia-nvdisasm, or else on PATH.

    A toolkit on PATH may be older than the code that LLVM and Numba make.
    """
    found = importlib.util.find_spec("nvidia")
    packages = [] if found is None else [Path(folder) for folder in found.submodule_search_locations or ()]
    folders = [str(place.parent) for folder in packages for place in sorted(folder.glob(f"*/bin/{name}"))]
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def assembled(text: str, arch: str, ptxas: str, binary: Path | None = None) -> dict[str, KernelResources]:
    """The resources of each kernel of a PTX text, by the path of ptxas. `binary`: a file for the machine code.

    Raises DeviceError RG1003 if ptxas does not accept the text, as an old one does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        write_file(source, text)
        command = [ptxas, "-v", "-arch", arch, str(source), "-o", str(binary or Path(folder, "kernel.cubin"))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise device_error("RG1003", f"{ptxas} cannot be run: {error.strerror}") from error
    if done.returncode:
        why = next(iter((done.stderr or done.stdout).strip().splitlines()), f"it ended with status {done.returncode}")
        hint = "`pip install 'retrograd[ptx]'` installs a newer ptxas."
        raise device_error("RG1003", f"{ptxas} does not accept the kernel for {arch}: {why.strip()[:300]}", hint)
    out = {}
    for found in _FUNCTION.finditer(done.stdout + done.stderr):
        registers = int(found["registers"])
        threads = 1 if found["name"] == STEPS else BLOCK
        out[found["name"]] = KernelResources(
            registers, int(found["stack"]), int(found["spilled"]), computed_occupancy(registers, threads)
        )
    return out


def computed_occupancy(registers: int, threads: int) -> float:
    """The share of a multiprocessor's warps that blocks of this number of threads fill, with this number of registers a thread."""
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // _UNIT) * _UNIT
    blocks = min(_BLOCKS, _WARPS // warps, _REGISTERS // of_warp // warps)
    return blocks * warps / _WARPS


def resources(kernel: ProgramKernel, arch: str) -> KernelResources | None:
    """The resources of a kernel by ptxas; None where it is not installed."""
    ptxas = toolkit_program("ptxas")
    return None if ptxas is None else assembled(kernel.text, arch, ptxas)[kernel.name]


def resources_on(kernel: ProgramKernel, where: Device) -> KernelResources:
    """The resources of a kernel on a device. Raises DeviceError RG1003."""
    loaded = Kernel(kernel.text, kernel.name, where)
    return KernelResources(loaded.registers, loaded.local_bytes, None, loaded.occupancy(kernel.threads))
