"""Stepped launches: the code of a single run whose parallel loops are executed by the whole device.

    retrograd_steps(control, R, M, n, counts, plan)      one thread: the program, up to the next parallel loop
    retrograd_test(M, plan)                              all threads: a test of every cell of that loop, without stores
    retrograd_add(M, plan)                               all threads: the sums of every cell, unless a test has failed
    retrograd_measure(M, n, plan)                        all threads: a bound of all words, before the first launch

The host launches the first and the third again and again, and the second between them where tests are outstanding. The words
of the plan (PlanSlot) pass from launch to launch; a kernel that has nothing to do returns at once. `retrograd_steps` is the translation for the CPU (translator/translate.py), which leaves at a
parallel loop (translator/parallel_loops.py) and at safepoints, and goes on from there in the next launch.

A cell is a pass of a row. The cells of all rows only add to memory, and none reads a word that one of them writes: the tests of
`row_sharing.RowDistributionEmitter` make sure of that, and of at most `loops.SPREAD` rows that meet in a word. So a gather is executed as a scatter: each cell
adds its terms by atomic additions of integers, whose sum does not depend on their order.

The bounds of the loop hold for each partial sum in any order, if the words that the loop finds are small enough. All cells are tested for that before
one of them stores, so nothing has to be undone where a test fails: one thread goes on with scalar code, which raises the trap or finds that there is none.
To test a cell takes the loads of its sums once more. So a bound of all words is kept, and cells are tested where it says too little:

    |M[a]| ≤ bound  for all a;      bound := max(bound, |w|)              where one thread stores w
                                    bound := bound + SPREAD · k · 2^b     where each cell adds k terms below 2^b

The bound grows; where a loop is tested because of it, the host has the words measured anew. Trap: the tests must read the
words as they are before the first sum, so test and sum are two launches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache, reduce
from hashlib import sha256
from operator import or_
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.expr import inputs
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.array_words import ArrayWords, zeros
from retrograd.simulator.engines.cuda.batch import BLOCK, GivenRows, KeptRows, device_memory
from retrograd.simulator.engines.cuda.device_arrays import convert, words_at
from retrograd.simulator.engines.cuda.kernels import Mark, optimisation_level
from retrograd.simulator.engines.cuda.runtime import Device, Kernel, address_of_array, device, graph_of, on, profiled
from retrograd.simulator.engines.llvm.builder import (
    CONSTANT,
    I1,
    I32,
    I64,
    POINTER,
    VOID,
    Block,
    Callee,
    FunctionBuilder,
    ModuleBuilder,
    Pointer,
    Type,
    Value,
)
from retrograd.simulator.engines.llvm.functions import Trees
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.machines import ArrayMachine
from retrograd.simulator.engines.native import NativeEngine, variant_of
from retrograd.simulator.engines.state import UNLIMITED, Exit, Slot, TranslatedSlot
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, Word, flow_of, register
from retrograd.simulator.engines.translator.loops import SPREAD, VectorLoop, find_vector_loops
from retrograd.simulator.engines.translator.row_sharing import MANY, PAUSE, RowDistributionEmitter, RowLoopEmitter
from retrograd.simulator.engines.translator.translate import Translator, executed_by, most_lost_words
from retrograd.simulator.engines.translator.vector_loops import PASSES, ParallelLoop, find_parallel_loops, single_row
from retrograd.simulator.machine import Machine, Snapshot
from retrograd.simulator.stores import SparseWords, Store

#: the kernels, in the order of their launches
STEPS, TEST, ADD, MEASURE = "retrograd_steps", "retrograd_test", "retrograd_add", "retrograd_measure"
#: passes that the analysis of a loop takes together; the tests of rows cover all passes
_LANES = 8
#: steps of one launch, a fraction of a second
SLICE = 1 << 18
#: rows, and passes of a single row, from which on a launch is worth its time; the most cells, whose numbers have 32 bits
FEW_ROWS, FEW_PASSES, MOST_CELLS = 2, 32, 1 << 31
#: bits of terms, and of a bound, from which on the words are no longer known to be bounded
MOST_BITS = 48, 62


class PlanSlot(IntEnum):
    """Words that the launches of a run share."""

    #: the Exit of the last launch of `retrograd_steps`
    WHY = 0
    #: the point of the code at which the next launch begins; 0: the program's origin
    POINT = 1
    #: the loop whose rows are to be executed, their number, and the passes of each
    LOOP = 2
    ROWS = 3
    PASSES = 4
    #: 1 where the test of a cell has failed
    FAILED = 5
    #: steps of a launch
    SLICE = 6
    #: no word of memory is larger; the magnitudes of all terms of the last sums, joined by `or`
    BOUND = 7
    TERMS = 8
    #: 1 where the cells are to be tested; 1 once they are
    TESTED = 9
    DONE = 10
    #: of each loop: rows are tried while no more steps are left; after a failure, fewer by the second number
    LOOPS = 11


def device_loops(program: Program, variant: Variant) -> tuple[ParallelLoop, ...]:
    """The loops of a program whose passes a device executes at once: nests of two loops, and then the single loops."""
    return _known_loops(program.code, program.format, program.table, variant)


@lru_cache(64)
def _known_loops(code: tuple[int, ...], w: Format, table: Table, variant: Variant) -> tuple[ParallelLoop, ...]:
    return _loops(flow_of(Program(code, format=w, table=table), variant), variant)


def _loops(flow: Flow, variant: Variant) -> tuple[ParallelLoop, ...]:
    found = [finding.loop for finding in find_vector_loops(flow, variant, _LANES) if finding.loop is not None]
    single = (single_row(loop) for loop in found)
    return (*find_parallel_loops(flow, found), *(loop for loop in single if loop is not None))


class Plan:
    """The layout of the plan for these loops: behind the words of PlanSlot, those of the loops, then registers of the first row and their changes."""

    def __init__(self, loops: Sequence[ParallelLoop]) -> None:
        self.count = len(loops)
        self.registers = max((len(loop.inside) for loop in loops), default=0)
        self.first = PlanSlot.LOOPS + 2 * self.count
        self.by = self.first + self.registers

    def pause(self, loop: int) -> int:
        """The first of the two words of a loop."""
        return PlanSlot.LOOPS + 2 * loop

    def new(self) -> list[int]:
        """The words before the first launch."""
        words = [0] * PlanSlot.LOOPS + [UNLIMITED, PAUSE] * self.count + [0] * (2 * self.registers)
        words[PlanSlot.WHY], words[PlanSlot.SLICE] = Exit.PAUSED, SLICE
        return words


class _PlanEmitter(RowDistributionEmitter):
    """Emits the function that plans the rows of a loop; the next launches execute them. The plan takes the place of `team`."""

    def __init__(self, scalar: SteppedTranslator, loop: ParallelLoop, number: int) -> None:
        self.layout = scalar.layout
        super().__init__(scalar, loop, f"plan{number}")

    def _places(self) -> tuple[Pointer, Pointer]:
        plan = self.given["team"].of(I64)
        return plan[self.layout.first], plan[self.layout.by]

    def _is_worth_it(self, rows: Value, passes: Value) -> Value:
        return rows.gt(FEW_ROWS) & (rows * passes).gt(FEW_PASSES) & (rows * passes).lt(MOST_CELLS)

    def _distribute(self) -> None:
        self.code.ret(self.code.pack(self.total.load(), self.passes.load(), self.code.constant(I64, 1)))


class _SingleRowPlanEmitter(_PlanEmitter):
    """Emits the function that plans the passes of a single loop."""

    def _count_rows(self) -> None:
        self.total.store(1)
        passes = self.passes.load()
        steps = passes * (steps_of_pass(self.scalar.flow, self.inner) + 2)
        enough = passes.gt(FEW_PASSES) & passes.lt(MANY)
        self._unless(enough & self.given["left"].gt(steps + self.scalar.longest))


class _PlannedLoopEmitter(RowLoopEmitter):
    """Emits the way out of the code at a loop, and the way back. After the rows, scalar code executes the last one."""

    def __init__(self, scalar: SteppedTranslator, loop: ParallelLoop, number: int, plan: _PlanEmitter) -> None:
        super().__init__(scalar, loop, plan)
        self.stepped, self.number = scalar, number
        self.point = scalar.new_point()

    def emit(self) -> None:
        code, scalar = self.code, self.stepped
        plan, own = scalar.plan, scalar.layout.pause(self.number)
        names = ("rows.try", "rows.some", "rows.failed", "rows.complete", "rows.alone")
        attempt, some, failed, complete, alone = map(code.block, names)
        left = scalar.left.load()
        code.branch(~left.gt(plan[own].load()) & ~scalar.bad.load(), attempt, alone)
        code.start(attempt)
        words = self._words()
        found = code.call(self.share, scalar.given["M"], scalar.given["n"], scalar.given["plan"], left, *words.values())
        rows, passes = found.part(0), found.part(1)
        code.branch(rows.gt(0), some, failed)
        code.start(some)
        planned: dict[PlanSlot, Value | int] = {PlanSlot.ROWS: rows, PlanSlot.PASSES: passes}
        planned |= {
            PlanSlot.LOOP: self.number,
            PlanSlot.FAILED: 0,
            PlanSlot.TERMS: 0,
            PlanSlot.TESTED: self._is_tested(rows),
            PlanSlot.DONE: 0,
        }
        for slot, word in planned.items():
            plan[slot].store(word)
        # No check is pending, so this is a safepoint.
        scalar.keep_safepoint(left)
        scalar.leave_at(self.point, Exit.ROWS, self.loop.start[0])
        code.start(scalar.points[self.point])
        code.branch(plan[PlanSlot.FAILED].load().eq(0), complete, failed)
        code.start(failed)
        pause = plan[own + 1].load()
        plan[own].store(scalar.left.load() - pause)
        plan[own + 1].store(pause.gt(UNLIMITED >> 8).select(pause, pause + pause))
        code.jump(alone)
        code.start(complete)
        scalar.bound.store(self._grown(scalar.bound.load(), plan[PlanSlot.TERMS].load()))
        plan[own].store(UNLIMITED)
        plan[own + 1].store(PAUSE)
        self._complete(plan[PlanSlot.ROWS].load(), plan[PlanSlot.PASSES].load(), alone)
        code.start(alone)

    def _is_tested(self, rows: Value) -> Value | int:
        """Whether the bound of all words leaves a test of some cell open."""
        scalar, inner = self.stepped, self.inner
        if scalar.cells[self.number].always_tested:
            return 1
        size = (
            scalar.bound.load() if any(name.startswith("m") for name in inner.bounded) else self.code.constant(I64, 0)
        )
        for k, r in enumerate(sorted(self.loop.inside)):
            if register(r) in inner.bounded:
                first, by = (scalar.plan[at + k].load() for at in (scalar.layout.first, scalar.layout.by))
                size = size | _magnitude(first) | _magnitude(first + (rows - 1) * by)
        return size.gtu((1 << inner.bits) - 1).to(I64)

    def _grown(self, bound: Value, terms: Value) -> Value:
        """The bound behind the sums of all cells; all bits where none is known."""
        most, known = MOST_BITS
        unknown = terms.shr(most).ne(0) | bound.shr(known).ne(0)
        return unknown.select(-1, bound + (terms + 1) * (SPREAD * len(self.inner.additions)))

    def _complete(self, rows: Value, passes: Value, alone: Block) -> None:
        self._account(self._words() | {PASSES: passes}, rows, passes)
        self.code.jump(alone)


class _PlannedPassesEmitter(_PlannedLoopEmitter):
    """Emits the same for a single loop, all of whose passes are executed."""

    def _complete(self, rows: Value, passes: Value, alone: Block) -> None:
        scalar, inner = self.stepped, self.inner
        for r, by in inner.inductions.items():
            scalar.slots[register(r)].add(passes * by)
        scalar.left.add(-(passes * (steps_of_pass(scalar.flow, inner) + 2) - 1))
        for node in (*inner.body, inner.closing):
            self._executed(node, passes)
        self._executed(inner.header, passes - 1)
        scalar.keep_safepoint(scalar.left.load())
        scalar.go(inner.leave, inner.closing[0])

    def _executed(self, node: Node, times: Value) -> None:
        self.stepped.given["counts"].of(I64)[self.order[node]].add(times)


def steps_of_pass(flow: Flow, inner: VectorLoop) -> int:
    """Instructions of the body of a pass."""
    return sum(len(flow.blocks[node]) for node in inner.body)


class SteppedTranslator(Translator):
    """Emits the function of a program that leaves at parallel loops and at safepoints, and goes on there in the next launch:

    name(ctl, R, M, n, C, N, counts, plan) -> Exit
    """

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, name: str) -> None:
        self.found = _loops(flow, variant)
        self.layout = Plan(self.found)
        super().__init__(flow, variant, module, name)
        self.cells = [_CellEmitter(module, loop, k, self.layout) for k, loop in enumerate(self.found)]
        self.tests = [cell.emit_test() for cell in self.cells]
        #: where the code can begin: the first block, then the safepoints and the loops
        self.points = [self.blocks[next(iter(flow.blocks))]]
        self.resumed: dict[Node, int] = {}

    def _parameters(self) -> dict[str, Type]:
        return super()._parameters() | {"plan": POINTER}

    def new_point(self) -> int:
        """The number of another block at which the code can begin."""
        self.points.append(self.code.block("point"))
        return len(self.points) - 1

    def _begin(self) -> None:
        super()._begin()
        code = self.code
        self.plan = self.given["plan"].of(I64)
        self.br.store(self.control[Slot.BR].load())
        self.bound = code.variable(I64, "bound", self.plan[PlanSlot.BOUND].load())
        self.until = self.left.load() - self.plan[PlanSlot.SLICE].load()
        self.point = code.variable(I64, "point.next", 0)
        self.resumed = {node: self.new_point() for node in self.flow.blocks if node in self.flow.headers}
        for k, loop in enumerate(self.found):
            if loop.before:
                self.parallel_loops[loop.start] = _PlannedLoopEmitter(self, loop, k, _PlanEmitter(self, loop, k))
            else:
                plan = _SingleRowPlanEmitter(self, loop, k)
                self.vector_loops[loop.start] = _PlannedPassesEmitter(self, loop, k, plan)
        first, *others = self.points
        code.switch(self.plan[PlanSlot.POINT].load(), first, list(enumerate(others, 1)))

    def _end(self) -> None:
        self.plan[PlanSlot.WHY].store(self.why.load())
        self.plan[PlanSlot.POINT].store(self.point.load())
        self.plan[PlanSlot.BOUND].store(self.bound.load())
        super()._end()

    def _write(self, place: str, value: Value) -> None:
        super()._write(place, value)
        size, bound = _magnitude(value.to(I64)), self.bound.load()
        self.bound.store(size.gtu(bound).select(size, bound))

    def leave_at(self, point: int, why: Exit, at: int) -> None:
        """Leave; the next launch begins at the point."""
        self.point.store(point)
        self._leave(why, at)

    def keep_safepoint(self, left: Value) -> None:
        """Keep the state as a safepoint: no step before it is undone."""
        self.left_before.store(left)
        self.logged.store(0)
        if self.drops:
            self._save_account()

    def go(self, node: Node | None, at: int) -> None:
        """Go on at the node behind the instruction at an address."""
        self._go(node, at)

    def _safepoint(self, node: Node) -> None:
        super()._safepoint(node)
        code, point = self.code, self.resumed[node]
        with code.when(self.left.load().lt(self.until), "pause", likely=False):
            self.leave_at(point, Exit.PAUSED, node[0])
        code.start(self.points[point])


# ---------------------------------------------------------------- cells


class _CellEmitter:
    """Emits functions of one cell of a loop, `test(M, plan, row, pass) -> whether it fails` and `add(M, plan, row, pass)`."""

    def __init__(self, module: ModuleBuilder, loop: ParallelLoop, number: int, layout: Plan) -> None:
        self.module, self.loop, self.inner, self.number = module, loop, loop.inner, number
        self.layout = layout

    def _begin(self, name: str, result: Type) -> None:
        given = {"M": POINTER, "plan": POINTER, "row": I64, "pass": I64}
        code = self.code = self.module.function(f"{name}{self.number}", result, given, "nounwind alwaysinline")
        memory, plan, row, passed = code.arguments
        self.memory, plan = memory.of(I64), plan.of(I64)
        #: registers at the beginning of the row, and of the pass
        self.entry: dict[int, Value] = {}
        self.words: dict[str, Value] = {}
        for k, r in enumerate(sorted(self.loop.inside)):
            word = self.entry[r] = plan[self.layout.first + k].load() + row * plan[self.layout.by + k].load()
            by = self.inner.inductions.get(r, 0)
            self.words[register(r)] = word + passed * by if by else word

    def _place(self, word: Word) -> Pointer:
        base, offset = word
        at = self.code.constant(I64, offset)
        for r, k in base.terms:
            at = at + self.words[register(r)] * k
        return self.memory[at]

    def _load(self, names: Collection[str]) -> None:
        for word, name in self.inner.loads.items():
            if name in names:
                self.words[name] = self._place(word).load()

    def _terms(self) -> tuple[Trees, list[Value]]:
        roots = tuple(self.inner.additions.values())
        trees = Trees(self.code, self.inner.forms.w, self.words, roots)
        return trees, [trees.value(root) for root in roots]

    def emit_test(self) -> Callee:
        """Whether a word is too large for the sums that are not checked, or a term has no value."""
        self._begin("test", I1)
        code, inner = self.code, self.inner
        bounded = {name: self.entry[int(name[1:])] for name in sorted(inner.bounded) if name.startswith("r")}
        self._load({name for name in inner.bounded if name.startswith("m")})
        bounded |= {name: self.words[name] for name in sorted(inner.bounded) if name.startswith("m")}
        failed: list[Value] = []
        if bounded:
            failed.append(reduce(or_, map(_magnitude, bounded.values())).gtu((1 << inner.bits) - 1))
        self._load(inputs(*inner.additions.values()) - self.words.keys())
        trees, _ = self._terms()
        unsound = trees.unsound()
        #: some test is not one of the size of a word
        self.always_tested = bool(unsound)
        code.ret(code.any([*failed, *unsound]))
        return code.callee

    def emit_add(self) -> Callee:
        """Add the terms. Returns their magnitudes, joined by `or`."""
        self._begin("add", I64)
        self._load(inputs(*self.inner.additions.values()))
        _, terms = self._terms()
        for word, term in zip(self.inner.additions, terms, strict=True):
            self._place(word).atomic_add(term)
        self.code.ret(reduce(or_, map(_magnitude, terms)))
        return self.code.callee


def _magnitude(x: Value) -> Value:
    """x, or −1 − x where x < 0."""
    return x ^ x.sar(63)


def _cells_kernel(module: ModuleBuilder, name: str, cells: Sequence[Callee], *, tests: bool) -> None:
    """The kernel that calls the function of the planned loop for each of its cells; if it tests, a result is kept."""
    given = {"M": POINTER, "plan": POINTER}
    code = module.function(name, VOID, given, "", linkage="", convention="ptx_kernel")
    memory, words = code.arguments
    plan = words.of(I64)
    tested = plan[PlanSlot.TESTED].load().ne(0)
    wanted = tested if tests else _is_tested(plan) & plan[PlanSlot.FAILED].load().eq(0)
    planned = plan[PlanSlot.WHY].load().eq(int(Exit.ROWS)) & wanted
    thread, threads = _thread(code)
    terms = code.variable(I64, "terms", 0)
    with code.when(planned, "planned"):
        if tests:
            plan[PlanSlot.DONE].store(1)
        rows, passes, number = (plan[slot].load() for slot in (PlanSlot.ROWS, PlanSlot.PASSES, PlanSlot.LOOP))
        count = rows * passes
        for k, cell in enumerate(cells):
            with (
                code.when(number.eq(k), f"loop{k}"),
                code.counting(thread, threads, lambda i: i.lt(count), f"cells{k}") as i,
            ):
                # Numbers of 32 bits are divided much faster.
                row = i.to(I32).udiv(passes.to(I32)).to(I64)
                result = code.call(cell, memory, words, row, i - row * passes)
                if tests:
                    with code.when(result, f"failed{k}"):
                        plan[PlanSlot.FAILED].store(1)
                else:
                    terms.store(terms.load() | result)
        if not tests:
            _join(code, plan[PlanSlot.TERMS], terms.load())
    code.ret()


def _is_tested(plan: Pointer) -> Value:
    """Whether no test of the planned cells is outstanding."""
    return plan[PlanSlot.TESTED].load().eq(plan[PlanSlot.DONE].load())


def _measure_kernel(module: ModuleBuilder) -> None:
    """The kernel that joins the magnitudes of all words to the bound."""
    code = module.function(
        MEASURE, VOID, {"M": POINTER, "n": I64, "plan": POINTER}, "", linkage="", convention="ptx_kernel"
    )
    memory, n, plan = code.arguments
    thread, threads = _thread(code)
    sizes = code.variable(I64, "sizes", 0)
    with code.counting(thread, threads, lambda i: i.lt(n), "words") as i:
        sizes.store(sizes.load() | _magnitude(memory.of(I64)[i].load()))
    _join(code, plan.of(I64)[PlanSlot.BOUND], sizes.load())
    code.ret()


def _join(code: FunctionBuilder, place: Pointer, bits: Value) -> None:
    """Set these bits of a word. Most threads find them set, so they need no turn at it."""
    with code.when((bits & ~place.load(volatile=True)).ne(0), "join", likely=False):
        place.atomic_or(bits)


def _thread(code: FunctionBuilder) -> tuple[Value, Value]:
    """(number of the thread, number of all threads)"""
    names = ("tid", "ntid", "ctaid", "nctaid")
    specials = [code.module.declare(f"llvm.nvvm.read.ptx.sreg.{name}.x", I32) for name in names]
    tid, ntid, ctaid, nctaid = (code.call(special).to(I64) for special in specials)
    return ctaid * ntid + tid, nctaid * ntid


def _steps_kernel(module: ModuleBuilder, function: Callee) -> None:
    """The kernel of one thread: it runs the program on, unless it has ended."""
    given = {"ctl": POINTER, "R": POINTER, "M": POINTER, "n": I64, "counts": POINTER, "plan": POINTER}
    code = module.function(STEPS, VOID, given, "", linkage="", convention="ptx_kernel")
    control, registers, memory, n, counts, plan = code.arguments
    words = plan.of(I64)
    why = words[PlanSlot.WHY].load()
    thread, _ = _thread(code)
    goes_on = why.eq(int(Exit.ROWS)) & _is_tested(words) | why.eq(int(Exit.PAUSED))
    nothing = Value(code, POINTER, "null")
    with code.when(goes_on & thread.eq(0), "on"):
        code.call(function, control, registers, memory, n, nothing, nothing, counts, plan)
    code.ret()


# ---------------------------------------------------------------- the module


def stepped_ir(program: Program, variant: Variant) -> str:
    """The kernels as LLVM IR for NVPTX."""
    module = ModuleBuilder(tables=CONSTANT)
    translator = SteppedTranslator(flow_of(program, variant), variant, module, "translated")
    translator.emit()
    _steps_kernel(module, module.callees["translated"])
    _cells_kernel(module, TEST, translator.tests, tests=True)
    _cells_kernel(module, ADD, [cell.emit_add() for cell in translator.cells], tests=False)
    _measure_kernel(module)
    return 'target triple = "nvptx64-nvidia-cuda"\n\n' + module.text()


def stepped_ptx(program: Program, variant: Variant, arch: str) -> str:
    """The kernels as PTX for a compute capability. It is compiled once, then kept on disk."""
    level = optimisation_level(program)
    digest = sha256(repr(tuple(program.code)).encode()).hexdigest()
    known = program.table is TABLE
    key = f"{source_digest()} {program.format} {variant} {digest}" if known else stepped_ir(program, variant)

    def make() -> str:
        return jit_compiler().device_assembly(stepped_ir(program, variant), arch, level)

    return jit_compiler().kept(f"stepped ptx {arch} {level} {key}", make)


# -----------------------------------------------------------------------------
# Machines whose single runs execute parallel loops on a device, by stepped launches (stepped_code.py).
#
#     machine = device_machine(program, device(0))
#     machine.run()
#
# A run copies registers, and memory unless it is there, to the device, and launches the kernels until the program has
# ended. Memory stays there until the host reads it (`ResidentWords`). One thread of the device executes the code
# outside parallel loops. A run stays on the CPU if it does not begin at an end of its program, or if cotangents move
# along. It goes on in the interpreter on the CPU before an instruction that the translation leaves out. A failed check
# is undone there, too.
#
# Launches run in a thread of their own, so that Ctrl-C can stop the run between two launches, at a safepoint.

#: rounds of launches between two looks at the plan: 1, 2, 4, … up to this number
MOST_ROUNDS = 64
#: exits behind which the run goes on in the next launch
_GOES_ON = (Exit.ROWS, Exit.PAUSED)


class SteppedKernels:
    """The kernels of a program, on a device. Raises DeviceError RG1003 if the driver does not accept them."""

    def __init__(self, program: Program, variant: Variant, where: Device) -> None:
        text = stepped_ptx(program, variant, where.target)
        self.kernels = [Kernel(text, name, where) for name in (STEPS, TEST, ADD, MEASURE)]
        blocks = min(kernel.blocks_per_multiprocessor(BLOCK) for kernel in self.kernels[1:])
        self.grid = max(1, blocks) * where.multiprocessors

    def launch(self, run: list[Any], cells: list[Any], stream: Any, tests: bool) -> None:
        """Queue steps and sums, with or without the tests between them."""
        steps, test, add, _ = self.kernels
        steps.launch(1, 1, run, stream)
        if tests:
            test.launch(self.grid, BLOCK, cells, stream)
        add.launch(self.grid, BLOCK, cells, stream)

    def repeated(self, times: int, run: list[Any], cells: list[Any], stream: Any) -> Callable[[], None]:
        """What queues `times` rounds without tests at once: a launch from Python takes longer than many a round."""

        def rounds(graph: Any) -> None:
            for _ in range(times):
                self.launch(run, cells, graph, tests=False)

        return graph_of(stream, rounds)

    def measure(self, words: list[Any], stream: Any) -> None:
        """Queue the last one."""
        self.kernels[3].launch(self.grid, BLOCK, words, stream)


@lru_cache(64)
def _kernels(code: tuple[int, ...], w: Format, table: Table, variant: Variant, where: Device) -> SteppedKernels:
    return SteppedKernels(Program(code, format=w, table=table), variant, where)


class ResidentWords(ArrayWords):
    """The memory of a machine, on the host or on the device, wherever it was used last.

    words[i], words[i:j], and `part`     of a memory on the device: only these words are copied
    array                                all words; they lie on the host from then on
    """

    __slots__ = ("_block", "_format", "_held", "_parts", "_words", "where")
    #: parts that are read one by one; then all words are copied to the host, since to copy a word takes microseconds
    _FEW = 64

    def __init__(self, count: int, w: Format, where: Device) -> None:
        """Zeros, on the host."""
        self.where, self._format, self._parts = where, w, 0
        #: the words on the device, and the memory that they lie in; None while they are on the host
        self._words: Any = None
        self._block: Any = None
        #: the words on the host, with a spare one behind the last, as `words_with_spare`
        self._held = zeros(count + 1, w)

    def __len__(self) -> int:
        return len(self._held) - 1

    @property
    def is_there(self) -> bool:
        """Whether the words lie on the device."""
        return self._words is not None

    @property
    def array(self) -> NDArray[Any]:
        if self._words is not None:
            with on(self.where):
                self._words.copy_to_host(self._held)
            self._leave()
        return self._held[:-1]

    @array.setter
    def array(self, array: NDArray[Any]) -> None:
        self._leave()
        self._held[:-1] = array

    def renew(self, words: SparseWords) -> None:
        self._leave()
        self._held[:] = 0
        for address, word in words.written():
            self._held[address] = word

    def there(self) -> Any:
        """All words and the spare one as an array on the device, where they lie from now on."""
        if self._words is None:
            self._take().copy_to_device(self._held)
        return self._words

    def clear_there(self) -> None:
        """Set all words to zero, on the device, where they lie from now on."""
        with on(self.where) as cuda:
            words = self._words if self._words is not None else self._take()
            size, zero = words.dtype.itemsize, cuda.to_device(np.zeros(1, words.dtype))
            at = GivenRows(address_of_array(zero), 0, size, size)
            self._convert(len(words), at, KeptRows(address_of_array(words), size, size))

    def load(self, address: int, count: int, array: Any, factor: float) -> NDArray[np.int64]:
        """words[address + i] := round(array[i] · factor), as on the host, of float64s or float32s; words if it is 0.

        Returns the marks.
        """
        size, step = self._held.dtype.itemsize, array.dtype.itemsize
        kept = KeptRows(address_of_array(self.there()) + address * size, size, size)
        return self._convert(count, GivenRows(address_of_array(array), step, step, step, factor), kept)

    def copy_words(self, address: int, count: int) -> Any:
        """`count` words in a device array of their own."""
        size = self._held.dtype.itemsize
        with on(self.where) as cuda:
            out = cuda.device_array(max(1, count), self._held.dtype)
        self._convert(count, words_at(self._part(address, count)), KeptRows(address_of_array(out), size, size))
        return out

    def copy_numbers(self, address: int, count: int, factor: float) -> tuple[Any, bool]:
        """(`count` words · factor as float64s in a device array of their own, whether none is rounded)."""
        with on(self.where) as cuda:
            out = cuda.device_array(max(1, count), np.float64)
        kept = KeptRows(0, 0, 8, address_of_array(out), factor)
        return out, not self._convert(count, words_at(self._part(address, count)), kept)[Mark.LARGE]

    def part(self, first: int, end: int) -> NDArray[Any]:
        """words[first:end] as an array of the host."""
        self._parts += 1
        if self._words is None or first >= end or self._parts > self._FEW:
            return self.array[first:end]
        with on(self.where):
            found: NDArray[Any] = self._words[first:end].copy_to_host()
        return found

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return int(self.part(places, places + 1)[0])
        if places.step != 1:
            return super().__getitem__(index)
        return cast("list[int]", self.part(places.start, places.stop).tolist())

    @overload
    def __setitem__(self, index: int, value: int) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[int]) -> None: ...
    def __setitem__(self, index: int | slice, value: int | Iterable[int]) -> None:
        places = range(len(self))[index]
        if isinstance(places, range):
            if self._words is None or places.step != 1 or len(places) == len(self):
                super().__setitem__(index, value)  # type: ignore[index, assignment]
                return
            words = value if isinstance(value, np.ndarray) else np.fromiter(cast("Iterable[int]", value), np.uint64)
            if len(words) != len(places):
                raise TypeError("words cannot be inserted or deleted")
            first = places.start
        elif self._words is None:
            self._held[places] = cast("int", value)
            return
        else:
            words, first = np.array([value], np.uint64), places
        if len(words):
            with on(self.where):
                part = self._part(first, len(words))
                part.copy_to_device(np.ascontiguousarray(words, self._held.dtype))

    def _part(self, address: int, count: int) -> Any:
        return self.there()[address : address + max(1, count)]

    def _convert(self, count: int, given: GivenRows, kept: KeptRows) -> NDArray[np.int64]:
        return convert(self.where, self._format, count, given, kept)

    def _take(self) -> Any:
        """Room on the device."""
        with on(self.where) as cuda:
            self._block = device_memory.take(cuda, self.where, self._held.nbytes)
            self._words, self._parts = self._block[: self._held.nbytes].view(self._held.dtype), 0
        return self._words

    def _leave(self) -> None:
        """Give the room on the device back."""
        if self._block is not None:
            device_memory.keep(self.where, self._block)
        self._words = self._block = None

    def __del__(self) -> None:
        self._leave()


class DeviceEngine(NativeEngine):
    """Machine code for a machine, whose translation runs on a device."""

    def __init__(self, machine: Machine, where: Device) -> None:
        if not isinstance(machine._memory, ResidentWords):
            # That of a machine out of a pickle is a list.
            memory = ResidentWords(len(machine._memory), machine.format, where)
            memory[:] = machine._memory
            machine._memory = memory
        super().__init__(machine)
        self.device = where

    def translated(self, machine: Machine, left: int, before: Snapshot | None = None) -> int:
        if machine._differentiating or machine._stops:
            return super().translated(machine, left, before)
        steps = left
        if machine._pc == (machine.program.finish if machine._direction < 0 else machine.program.start):
            left -= 1
            self.step_over_end(machine)
        variant = replace(variant_of(machine), ghosts=None)
        run = _SteppedRun(self, machine, variant, left)
        with profiled("retrograd run"):
            interrupted = run.in_a_thread()
        self.leave_machine(machine, self.control, run.why, executed_by(run.flow), run.counts)
        self.name = "cuda"
        window = int(self.control[TranslatedSlot.WINDOW])
        if window:
            self._undo(machine, window)
        if interrupted is not None:
            raise interrupted
        return steps - int(self.control[Slot.LEFT]) - window


class _SteppedRun:
    """One run: its words on the device, and its launches."""

    def __init__(self, engine: DeviceEngine, machine: Machine, variant: Variant, left: int) -> None:
        self.engine, self.variant = engine, variant
        self.program = machine.program
        self.flow = flow_of(machine.program, variant)
        self.counts = np.zeros(len(self.flow.counters), dtype=np.int64)
        self.log = zeros(most_lost_words(self.flow) + 1, machine.format)
        self.plan = np.array(Plan(device_loops(machine.program, variant)).new(), dtype=np.int64)
        registers, memory = machine._registers, machine._memory
        assert isinstance(registers, ArrayWords)
        assert isinstance(memory, ResidentWords)
        self.registers, self.memory = registers.array, memory
        control = engine.control
        control[Slot.LEFT], control[Slot.BR], control[Slot.LOGGED] = left, 0, 0
        self.why: int = Exit.PAUSED
        self.stopping = False
        self.failure: BaseException | None = None

    def in_a_thread(self) -> BaseException | None:
        """Run it to its end. Returns the exception that stopped it early, such as Ctrl-C. Raises DeviceError."""
        ended = threading.Event()

        def work() -> None:
            try:
                self._run()
            except BaseException as error:
                self.failure = error
            ended.set()

        threading.Thread(target=work, daemon=True).start()
        interrupted = None
        while not ended.is_set():
            try:
                # A signal that arrives just before the wait does not end it, so that none lasts long.
                while not ended.wait(0.1):
                    pass
            except BaseException as error:
                interrupted, self.stopping = error, True
        if self.failure is not None:
            raise self.failure
        return interrupted

    def _run(self) -> None:
        program, control, where = self.program, self.engine.control, self.engine.device
        kernels = _kernels(program.code, program.format, program.table, self.variant, where)
        with on(where) as cuda:
            memory = self.memory.there()
            log, registers = cuda.to_device(self.log), cuda.to_device(self.registers)
            counts, plan = cuda.to_device(self.counts), cuda.to_device(self.plan)
            control[Slot.LOG] = address_of_array(log)
            words = cuda.to_device(control)
            stream, rounds, measured, tested = cuda.stream(), 1, True, False
            run, cells = [words, registers, memory, len(self.memory), counts, plan], [memory, plan]
            many: Callable[[], None] | None = None
            while self.why in _GOES_ON and not (self.stopping and self.why == Exit.PAUSED):
                if self.stopping:
                    # The next safepoint ends the launch.
                    self.plan[PlanSlot.SLICE] = 0
                    plan.copy_to_device(self.plan, stream)
                    rounds = 1
                if measured:
                    self.plan[PlanSlot.BOUND] = 0
                    plan.copy_to_device(self.plan, stream)
                    kernels.measure([memory, len(self.memory), plan], stream)
                if rounds < MOST_ROUNDS or tested:
                    for _ in range(rounds):
                        kernels.launch(run, cells, stream, tested)
                else:
                    many = many or kernels.repeated(MOST_ROUNDS, run, cells, stream)
                    many()
                plan.copy_to_host(self.plan, stream)
                stream.synchronize()
                self.why = int(self.plan[PlanSlot.WHY])
                measured = tested = bool(self.plan[PlanSlot.TESTED])
                rounds = 1 if tested and not self.plan[PlanSlot.DONE] else min(2 * rounds, MOST_ROUNDS)
            self._receive((words, control), (registers, self.registers), (log, self.log), (counts, self.counts))
        control[Slot.LOG] = self.log.ctypes.data

    def _receive(self, *pairs: tuple[Any, NDArray[Any]]) -> None:
        for there, here in pairs:
            here[:] = there.copy_to_host()


class DeviceMachine(ArrayMachine):
    """A machine whose runs from one end of its program execute parallel loops on a device."""

    def __init__(self, program: Program, where: Device, **keywords: Any) -> None:
        # The machine makes its memory.
        self._device = where
        super().__init__(program, engine="cuda", **keywords)

    def _first_memory(self, size: int) -> Store:
        memory = ResidentWords(size, self.format, self._device)
        memory[: len(self.program.data)] = self.program.data
        return memory

    @property
    def resident(self) -> ResidentWords | None:
        """The memory; None of a machine out of a pickle, before its next run."""
        return self._memory if isinstance(self._memory, ResidentWords) else None

    def begin_there(self) -> ResidentWords:
        """The memory as at the start of the program, on the device."""
        memory = cast("ResidentWords", self.resident)
        memory.clear_there()
        memory[: len(self.program.data)] = self.program.data
        return memory

    def _new_engine(self) -> NativeEngine:
        return DeviceEngine(self, self._device)


def has_parallel_loops(program: Program) -> bool:
    """Whether a device executes a loop of the program, forward or backward, in parallel."""
    return any(device_loops(program, Variant(backward=backward)) for backward in (False, True))


def device_machine(program: Program, where: Device | None = None, **modes: Any) -> DeviceMachine:
    """A machine of the engine `cuda`, by default on the first device. Raises DeviceError RG1002 if there is none."""
    return DeviceMachine(program, device() if where is None else where, **modes)
