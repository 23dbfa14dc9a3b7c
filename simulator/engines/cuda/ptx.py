"""A program as a CUDA kernel: the translation for the CPU, through LLVM's NVPTX back end. No CUDA is needed to make it.

Parameters and effect of the kernel are those of `kernel_loop.emit_kernel_loop`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.cuda.kernel_loop import emit_kernel_loop
from retrograd.simulator.engines.llvm.builder import ModuleBuilder
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.types import CONSTANT
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.translate import translate

#: the kernel's name in its PTX
KERNEL = "retrograd_batch"
#: instructions of a program from which on it is optimised at level 1
LARGE = 1500


def kernel_ir(
    program: Program,
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    core: str = "small",
) -> str:
    """The kernel as LLVM IR for NVPTX."""
    return _ir(program, _variant(backward, overflow, checks, cycles, core))


def ptx(
    program: Program,
    arch: str = "sm_80",
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    core: str = "small",
) -> str:
    """The kernel as PTX for a compute capability. Raises InputError RG0603 where LLVM has no such capability."""
    if not re.fullmatch(r"sm_\d{2,3}[a-z]?", arch):
        message = f"`{arch:.40}` is no compute capability"
        raise InputError(Diagnostic("RG0603", message, hint="as in sm_80, sm_90"))
    variant = _variant(backward, overflow, checks, cycles, core)

    def make() -> str:
        return jit_compiler().device_assembly(_ir(program, variant), arch, optimisation_level(program))

    return jit_compiler().kept(_key(program, arch, variant), make)


def is_kept(
    program: Program,
    arch: str,
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    core: str = "small",
) -> bool:
    """Whether `ptx` reads the kernel from disk."""
    return jit_compiler().has(_key(program, arch, _variant(backward, overflow, checks, cycles, core)), 0)


def optimisation_level(program: Program) -> int:
    """LLVM's effort for a kernel of a program."""
    return 2 if len(program.code) < LARGE else 1


def _key(program: Program, arch: str, variant: Variant) -> str:
    digest = sha256(repr(tuple(program.code)).encode()).hexdigest()
    known = program.table is TABLE
    key = f"{source_digest()} {program.format} {variant} {digest}" if known else _ir(program, variant)
    return f"ptx {arch} {optimisation_level(program)} {key}"


def _variant(backward: bool, overflow: bool, checks: bool, cycles: bool, core: str = "small") -> Variant:
    return Variant(
        backward=backward, overflow=overflow, checks=checks, whole=False, device=True, cycles=cycles, core=core
    )


def _ir(program: Program, variant: Variant) -> str:
    module = ModuleBuilder(tables=CONSTANT)
    translate(program, variant, module, "instance")
    emit_kernel_loop(module, program.format, "instance", KERNEL)
    return 'target triple = "nvptx64-nvidia-cuda"\n\n' + module.text()


def registers_and_instructions(text: str) -> dict[str, Any]:
    """Counts of a kernel's PTX: `instructions`, and virtual `registers` by type. ptxas assigns the device's own registers."""
    lines = [line.strip() for line in text.splitlines()]
    code = [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]
    registers = {m[1]: int(m[2]) - 1 for m in re.finditer(r"\.reg \.(\w+)\s+%\w+<(\d+)>", text)}
    return {"instructions": len(code), "registers": registers}
