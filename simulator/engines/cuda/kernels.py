"""Batch loop as a CUDA kernel: each thread runs several instances, one after the other.

Numbers become words on the device, and words become numbers, as in the loop of the CPU. Memories of instances are
interleaved, so that neighbouring threads read neighbouring words. The threads of a warp add up their words among
themselves before one of them adds to memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from hashlib import sha256
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.loops import REPORT, WARP, ArrayLoop
from retrograd.simulator.engines.cuda.teams import MOST_TEAM, TeamTranslator
from retrograd.simulator.engines.llvm.builder import (
    CONSTANT,
    DOUBLE,
    FLOAT,
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
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.translate import translate


class Mark(IntEnum):
    """Words of `marks`: the kernel sets one where some instance has the property, and the host reads them after the launch."""

    #: an instance did not complete
    FAILED = 0
    #: a number that is given has no word
    REFUSED = 1
    #: a number that is given loses more than half of its bits: see `retrograd.runtime._marshal.Losses`
    LOSSY = 2
    #: the loops of an instance could not be divided among the threads of its team
    ALONE = 3
    #: of each kept range: a number has more bits than a float64
    LARGE = 4


def emit_kernel_loop(module: ModuleBuilder, w: Format, instance: str, name: str, *, teams: bool = False) -> None:
    """Define the kernel that runs `instance`, a translation, for many:

        name(arrays, count, shared, n, memory, stride, limit, status, sums, marks)
        name(arrays, count, shared, n, memory, stride, limit, status, sums, marks, team)       with teams

    `arrays` is a `batch.device_table`: row i of the given arrays has the words or the numbers of instance i, and its
    kept words, numbers and counts are written to row i of others. `shared` is a memory of n words.
    status[i] = 0 where instance i completes, 1 where it does not, REFUSED where a number that it is given has no word;
    `marks` are those of Mark. Each summed word has two numbers in `sums`, see `exact_sums`.
    Thread t runs instances t, t + T, t + 2T, … of `count`; the grid has T threads. Its memory, n words and a spare word, is
    interleaved with the others: word a at memory[a·stride + t], stride = T, so that neighbours read neighbouring words.
    Where words are summed, blocks are of whole warps. With teams (teams.py), so are all blocks, and `team` threads, a
    power of two, run an instance together: some of a warp, or all of a block.
    """
    (TeamKernelLoop if teams else KernelLoop)(module, w, instance, name).define()


class KernelLoop(ArrayLoop):
    """The kernel under construction."""

    device = True

    def _parameters(self) -> dict[str, Type]:
        p = pointer(GLOBAL)
        around: dict[str, Type] = {"arrays": p, "count": I64, "shared": p, "n": I64, "memory": p, "stride": I64}
        return around | {"limit": I64, "status": p, "sums": p, "marks": p}

    def define(self) -> None:
        code = self.code
        self.marks = self._pointer("marks", I64)
        good, fits = (code.variable(integer(1), name, 0) for name in ("good", "fits"))
        report = code.variable(I64, "report", count=REPORT)
        first, end = self._thread(), self.given["count"]
        # All threads of a warp go on as long as one of them has an instance, because they add up together. What can be
        # computed
        # again, or read from the kernel's parameters, takes no registers while an instance runs.
        with code.counting(first, self.given["stride"], lambda i: (i & -WARP).lt(self._threads(end)), "instances") as t:
            i = self._instance(t)
            good.store(0)
            with code.when(i.lt(end), "enter"):
                self._execute(i, good, fits, report)
                with code.unless(good.load(), "failed"):
                    self.marks[Mark.FAILED].store(1)
                with code.unless(fits.load(), "refused"):
                    self.marks[Mark.REFUSED].store(1)
            self._read_columns()
            self._sum(good, t & WARP - 1)
        code.ret()

    def _threads(self, instances: Value) -> Value:
        """The threads that a number of instances takes."""
        return instances

    def _instance(self, thread: Value) -> Value:
        """The instance that a thread runs."""
        return thread

    def _execute(self, i: Value, good: Pointer, fits: Pointer, report: Pointer) -> None:
        """Run instance i, and keep its results."""
        self._read_columns()
        self._fill(i, fits)
        with self.code.when(fits.load(), "run", likely=True):
            self._run_filled(i, good, report)
            self._read_columns()
            self._report(i, report, 1)
            with self.code.when(good.load(), "keep"):
                self._keep(i)

    def _run_filled(self, i: Value, good: Pointer, report: Pointer) -> None:
        with self._words("shared") as (address, _):
            self._copy(self.shared[address], self._place(address))
        self._run(i, good, report)

    def _read_columns(self) -> None:
        """Read the table anew, from a pointer of which LLVM knows nothing: else what it holds would take registers while an instance runs."""
        known = self.given["arrays"]
        self.given["arrays"] = self.code.opaque(known)
        super()._read_columns()
        self.given["arrays"] = known

    def _at(self, address: Value, element: Type) -> Pointer:
        return address.convert("inttoptr", pointer(GLOBAL)).of(element)

    def _place(self, address: Value) -> Pointer:
        return self.memory[address * self.given["stride"]]

    # ------------------------------------------------------------------ rows

    def _load_words(self, entry: Pointer, address: Value, count: Value, row: Value, step: Value) -> None:
        """Words are uint64s, or as wide as those of memory."""
        for source in self._widths(entry):
            self._load_words_of(source, address, count, row, step)

    def _load_reals(
        self, entry: Pointer, address: Value, count: Value, row: Value, step: Value, scale: Value, fits: Pointer
    ) -> None:
        """Numbers are float64s or float32s."""
        for source in self._sizes(entry, DOUBLE, FLOAT):
            self._load_reals_of(source, address, count, row, step, scale, fits)

    def _store_words(self, entry: Pointer, address: Value, count: Value, row: Value) -> None:
        for target in self._widths(entry):
            self._store_words_of(target, address, count, row)

    def _widths(self, entry: Pointer) -> Iterator[Type]:
        """The types that words of an array may have, each in the block that is executed for it."""
        return iter([I64]) if self.word is I64 else self._sizes(entry, I64, self.word)

    def _sizes(self, entry: Pointer, wide: Type, narrow: Type) -> Iterator[Type]:
        is_wide = entry[6].load().eq(8)
        with self.code.when(is_wide, "wide"):
            yield wide
        with self.code.unless(is_wide, "narrow", likely=None):
            yield narrow

    def _rounded(self, scaled: Value, rounded: Value) -> None:
        """Mark a number that loses more than half of its bits, as `Losses` finds them."""
        code = self.code
        error, size = (code.intrinsic("fabs", x) for x in (rounded - scaled, scaled))
        with code.when((error * float(self.w.few)).gt(size), "lossy", likely=False):
            self.marks[Mark.LOSSY].store(1)

    def _large(self, k: Value) -> Pointer:
        return self.marks[k + Mark.LARGE]

    # ------------------------------------------------------------------ sums

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

    def _thread(self) -> Value:
        """The number of the thread. Its lane is this number mod 32 where blocks are whole warps."""
        names = ("tid", "ntid", "ctaid")
        specials = [self.module.declare(f"llvm.nvvm.read.ptx.sreg.{name}.x", I32) for name in names]
        tid, ntid, ctaid = (self.code.call(special).to(I64) for special in specials)
        t = ctaid * ntid + tid
        self.memory = self._pointer("memory", self.word)[t]
        return t


class TeamKernelLoop(KernelLoop):
    """The kernel of teams: all threads of a team run its instance on memories of their own, and one keeps the results.

    An instance that fails is run once more, without dividing its loops.
    """

    def _parameters(self) -> dict[str, Type]:
        return super()._parameters() | {"team": I64}

    def _threads(self, instances: Value) -> Value:
        return instances * self.given["team"]

    def _instance(self, thread: Value) -> Value:
        self.thread = thread
        return thread.udiv(self.given["team"])

    def _rank(self) -> Value:
        return self.thread & (self.given["team"] - 1)

    def _execute(self, i: Value, good: Pointer, fits: Pointer, report: Pointer) -> None:
        code = self.code
        with code.loop(2, "attempts") as attempt, code.unless(good.load(), "attempt", likely=None):
            self._read_columns()
            self._fill(i, fits)
            with code.when(fits.load(), "run", likely=True):
                self.parallel = code.constant(I64, 1) - attempt
                self._run_filled(i, good, report)
                with code.when(good.load() & attempt.ne(0), "alone"):
                    self.marks[Mark.ALONE].store(1)
        with code.when(fits.load(), "ran", likely=True):
            self._read_columns()
            self._report(i, report, 1)
            with code.when(good.load() & self._rank().eq(0), "keep"):
                self._keep(i)

    def _arguments(self) -> list[Value]:
        return [self.thread & MOST_TEAM - 1, self.given["team"], self.parallel]

    def _sum(self, good: Pointer, lane: Value) -> None:
        good.store(good.load() & self._rank().eq(0))
        super()._sum(good, lane)


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
    teams: bool = False,
) -> str:
    """The kernel as LLVM IR for NVPTX."""
    return _ir(program, _variant(program, backward, overflow, checks, cycles, core, teams))


def ptx(
    program: Program,
    arch: str = "sm_80",
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    core: str = "small",
    teams: bool = False,
) -> str:
    """The kernel as PTX for a compute capability. Raises InputError RG0603 where LLVM has no such capability."""
    if not re.fullmatch(r"sm_\d{2,3}[a-z]?", arch):
        message = f"`{arch:.40}` is no compute capability"
        raise InputError(Diagnostic("RG0603", message, hint="as in sm_80, sm_90"))
    variant = _variant(program, backward, overflow, checks, cycles, core, teams)

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
    teams: bool = False,
) -> bool:
    """Whether `ptx` reads the kernel from disk."""
    return jit_compiler().has(
        _key(program, arch, _variant(program, backward, overflow, checks, cycles, core, teams)), 0
    )


def optimisation_level(program: Program) -> int:
    """LLVM's effort for a kernel of a program."""
    return 2 if len(program.code) < LARGE else 1


def _key(program: Program, arch: str, variant: Variant) -> str:
    digest = sha256(repr(tuple(program.code)).encode()).hexdigest()
    known = program.table is TABLE
    key = f"{source_digest()} {program.format} {variant} {digest}" if known else _ir(program, variant)
    return f"ptx {arch} {optimisation_level(program)} {key}"


def _variant(
    program: Program, backward: bool, overflow: bool, checks: bool, cycles: bool, core: str, teams: bool
) -> Variant:
    return Variant(
        backward=backward, overflow=overflow, checks=checks, whole=False, device=True, cycles=cycles, core=core,
        team=program.hints if teams else None,
    )  # fmt: skip


def _ir(program: Program, variant: Variant) -> str:
    module = ModuleBuilder(tables=CONSTANT)
    if variant.team is None:
        translate(program, variant, module, "instance")
    else:
        TeamTranslator(flow_of(program, variant), variant, module, "instance").emit()
    emit_kernel_loop(module, program.format, "instance", KERNEL, teams=variant.team is not None)
    return 'target triple = "nvptx64-nvidia-cuda"\n\n' + module.text()


def registers_and_instructions(text: str) -> dict[str, Any]:
    """Counts of a kernel's PTX: `instructions`, and virtual `registers` by type. ptxas assigns the device's own registers."""
    lines = [line.strip() for line in text.splitlines()]
    code = [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]
    registers = {m[1]: int(m[2]) - 1 for m in re.finditer(r"\.reg \.(\w+)\s+%\w+<(\d+)>", text)}
    return {"instructions": len(code), "registers": registers}
