"""Batch loop as a CUDA kernel: each thread runs several instances, one after the other.

Memories of instances are interleaved, so that neighbouring threads read neighbouring words. The threads of a warp add up their
words among themselves before one of them adds to memory.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.layout import HEAD, KINDS
from retrograd.simulator.engines.batch.loops import REPORT, WARP, InstanceLoop
from retrograd.simulator.engines.llvm.builder import (
    CONSTANT,
    GLOBAL,
    I32,
    I64,
    VOID,
    Callee,
    ModuleBuilder,
    Pointer,
    Type,
    Value,
    integer,
    pointer,
)
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.translate import translate


def emit_kernel_loop(module: ModuleBuilder, w: Format, instance: str, name: str) -> None:
    """Define the kernel that runs `instance`, a translation, for many:

        name(rows, out, count, columns, shared, n, memory, stride, limit, report, status, sums)

    `columns` is a `BatchLayout.table`, and row i of `rows` has the words that instance i is given; `shared` is a memory of n words.
    Where instance i completes, status[i] = 0 and row i of `out` has the words that are kept; elsewhere status[i] = 1. report[3i] and
    the two numbers behind it are its steps, the words that it lost, and its cycles if they are counted. Each summed word has two
    numbers in `sums`, see `exact_sums`.
    Thread t runs instances t, t + T, t + 2T, … of `count`; the grid has T threads. Its memory, n words and a spare word, is
    interleaved with the others: word a at memory[a·stride + t], stride ≥ T, so that neighbours read neighbouring words. Where
    words are summed, blocks are of whole warps.
    """
    KernelLoop(module, w, instance, name).define()


class KernelLoop(InstanceLoop):
    """The kernel under construction."""

    device = True

    def _parameters(self) -> dict[str, Type]:
        p = pointer(GLOBAL)
        around: dict[str, Type] = {"rows": p, "out": p, "count": I64, "columns": p, "shared": p, "n": I64}
        return around | {"memory": p, "stride": I64, "limit": I64, "report": p, "status": p, "sums": p}

    def define(self) -> None:
        code = self.code
        self.rows, self.out = self._pointer("rows", self.word), self._pointer("out", self.word)
        self._read_columns()
        good = code.variable(integer(1), "good", 0)
        first, step, lane = self._threads()
        end, report = self.given["count"], self._pointer("report", I64)
        # All threads of a warp go on as long as one of them has an instance, because they add up together.
        with code.counting(first, step, lambda i: (i - lane).lt(end), "instances") as i:
            good.store(0)
            with code.when(i.lt(end), "enter"):
                self._fill(i)
                with self._words("shared") as (address, _):
                    self._copy(self.shared[address], self._place(address))
                self._run(i, good, report[i * REPORT])
                with code.when(good.load(), "keep"):
                    self._keep(i)
            self._sum(good, lane)
        code.ret()

    def _read_columns(self) -> None:
        """Find the parts of the layout's table."""
        self.table = self._pointer("columns", I64)
        self.counts = {kind: self.table[k].load() for k, kind in enumerate(KINDS)}
        at = self.code.constant(I64, HEAD)
        for kind in KINDS:
            self.firsts[kind] = at
            at = at + (self.counts[kind] << 1)
        self.width_given, self.width_kept = (self.table[len(KINDS) + k].load() for k in (0, 1))

    def _place(self, address: Value) -> Pointer:
        return self.memory[address * self.given["stride"]]

    def _fill(self, i: Value) -> None:
        """Copy the words that instance i is given to its memory."""
        row = i * self.width_given
        with self._words("given") as (address, column):
            self._copy(self.rows[row + column], self._place(address))

    def _keep(self, i: Value) -> None:
        """Copy the words that are kept of instance i to its row."""
        row = i * self.width_kept
        with self._words("kept") as (address, column):
            self._copy(self._place(address), self.out[row + column])

    def _sum(self, good: Pointer, lane: Value) -> None:
        """Add the words that are summed, of an instance that completed."""
        with self.code.when(self.counts["summed"].ne(0), "sum"):
            barrier = self.module.declare("llvm.nvvm.bar.warp.sync", VOID, I32, pure=False)
            self.code.call(barrier, -1)
            with self._words("summed") as (address, column):
                self._add_in_warp(self._halves(address, good.load()), column, lane)

    def _add_in_warp(self, halves: list[Value], column: Value, lane: Value) -> None:
        """Threads of a warp have one address: they add up among themselves, and one of them adds to memory."""
        code = self.code
        totals = [code.call(_warp_sum(self.module), half) for half in halves]
        with code.when(code.call(_adds_to_memory(self.module), lane), "add"):
            for k, total in enumerate(totals):
                self.sums[(column << 1) + k].atomic_add(total)

    def _threads(self) -> tuple[Value, Value, Value]:
        """(number of the thread, number of all threads, lane of the thread)"""
        names = ("tid", "ntid", "ctaid", "nctaid")
        specials = [self.module.declare(f"llvm.nvvm.read.ptx.sreg.{name}.x", I32) for name in names]
        tid, ntid, ctaid, nctaid = (self.code.call(special).to(I64) for special in specials)
        t = ctaid * ntid + tid
        self.memory = self._pointer("memory", self.word)[t]
        return t, nctaid * ntid, tid & WARP - 1


def _warp_sum(module: ModuleBuilder) -> Callee:
    """Every thread of a warp gets the sum over all its threads, in log₂ 32 exchanges."""
    if "warp_sum" not in module.callees:
        f = module.function("warp_sum", I64, {"v": I64}, "convergent alwaysinline nounwind")
        shuffle = module.declare("llvm.nvvm.shfl.sync.bfly.i32", I32, I32, I32, I32, I32, pure=False)
        (v,) = f.arguments
        for k in range(WARP.bit_length() - 1):
            low, high = (f.call(shuffle, -1, half.to(I32), 1 << k, WARP - 1) for half in (v, v.shr(32)))
            v = v + (high.to(I64) << 32 | low.to(I64))
        f.ret(v)
    return module.callees["warp_sum"]


def _adds_to_memory(module: ModuleBuilder) -> Callee:
    """Whether the thread of a lane adds the sum of its warp to memory."""
    if "adds_to_memory" not in module.callees:
        f = module.function("adds_to_memory", integer(1), {"lane": I64}, "alwaysinline nounwind")
        f.ret(f.arguments[0].eq(0))
    return module.callees["adds_to_memory"]


# -----------------------------------------------------------------------------
# A program as a CUDA kernel: the translation for the CPU, through LLVM's NVPTX back end. No CUDA is needed to make it.
#
# Parameters and effect of the kernel are those of `kernel_loop.emit_kernel_loop`.

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
