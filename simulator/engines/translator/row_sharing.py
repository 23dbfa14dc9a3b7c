"""Sharing the rows of a nested loop (parallel_loops.py) out to two threads (team.py).

    rows  0 … m−1    m, m+1    m+2 … R−1
          this       later     the other thread

Before that, the code tests that no row reads a word that a row writes, and that distant rows write different words. Rows next to each
other may add to the same words, so a gap of rows is left between the threads; its rows run last. Sums of integers do not depend on
their order, and the bounds of all partial sums are widened for it (loops.py).

Where a check fails in a row, this row and all behind it are undone, by subtracting the same words, and scalar code goes on from that row: it
raises the trap, or finds that there is none. So results, counts and traps do not depend on the number of threads.
Trap: the tests cost time for each pass and row, so after a failure rows are shared again only after more and more steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import combinations
from typing import Protocol

from retrograd.isa.expr import Expr, const, inputs
from retrograd.simulator.engines.llvm.builder import (
    I64,
    POINTER,
    Block,
    Callee,
    FunctionBuilder,
    ModuleBuilder,
    Pointer,
    Value,
    structure,
)
from retrograd.simulator.engines.llvm.functions import Trees
from retrograd.simulator.engines.state import UNLIMITED, TeamSlot, TeamState, TranslatedSlot
from retrograd.simulator.engines.translator.flow import Base, Flow, Node, register
from retrograd.simulator.engines.translator.ghost_uncompute import GhostUncompute
from retrograd.simulator.engines.translator.loops import VectorLoop
from retrograd.simulator.engines.translator.vector_loops import (
    PASSES,
    ParallelLoop,
    ScalarCode,
    VectorLoopEmitter,
    set_state,
    wait,
)

#: rows between those of the two threads; each word is met by no more rows than `loops.SPREAD`
GAP = 2
#: rows and passes from which on a second thread is worth its start, and up to which Ctrl-C may wait
FEW_ROWS, FEW, MANY = 8, 1 << 11, 1 << 24
#: steps for which a loop stays on one thread after a first failure
PAUSE = 1 << 14


class RowCode(ScalarCode, Protocol):
    """The function into which the outer loop is emitted, as Translator keeps it."""

    module: ModuleBuilder
    control: Pointer


class _RowFrame:
    """The function of rows as the emission of chunks needs it."""

    def __init__(self, scalar: ScalarCode, code: FunctionBuilder, registers: list[int]) -> None:
        self.code, self.flow, self.variant, self.longest = code, scalar.flow, scalar.variant, scalar.longest
        self.blocks: dict[Node, Block] = {}
        names = ("M", "n", "registers", "deltas", "first", "last", "passes")
        self.given = dict(zip(names, code.arguments, strict=True))
        self.memories = {"m": self.given["M"].of(I64)}
        self.slots = {register(r): code.variable(I64, register(r)) for r in registers}
        self.row, self.done = code.variable(I64, "row", self.given["first"]), code.variable(I64, "done", 0)
        unused = code.variable(I64, "unused")
        self.left = self.left_before = self.bad = self.logged = self.erased = self.cycles = self.stop = unused
        self.registers = registers
        #: regions of all words are tested before the rows run
        self.ghosts: GhostUncompute | None = None

    def _cycles(self, executed: list[int]) -> int:
        return 0

    def _go(self, node: Node | None, at: int) -> None:
        raise NotImplementedError

    def begin_row(self) -> None:
        row = self.row.load()
        first, by = self.given["registers"].of(I64), self.given["deltas"].of(I64)
        for k, r in enumerate(self.registers):
            self.slots[register(r)].store(first[k].load() + row * by[k].load())
        self.done.store(0)


PARAMETERS = {"M": POINTER, "n": I64, "registers": POINTER, "deltas": POINTER, "first": I64, "last": I64, "passes": I64}


class _RowsEmitter(VectorLoopEmitter):
    """Emits a function that executes rows:

    rows(M, n, registers, deltas, first, last, passes) -> the row that failed and has been undone, or `last`
    """

    attributes = "nounwind noinline"

    def __init__(self, scalar: RowCode, loop: VectorLoop, name: str, registers: list[int]) -> None:
        self.module = scalar.module
        code = self.module.function(name, I64, PARAMETERS, self.attributes)
        self.frame = _RowFrame(scalar, code, registers)
        super().__init__(self.frame, loop)

    def emit_function(self, undo: str = "") -> None:
        code, frame = self.code, self.frame
        rows, row, self.following, end = map(code.block, ("rows", "row", "next", "end"))
        code.start(rows)
        code.branch(frame.row.load().lt(frame.given["last"]), row, end)
        code.start(row)
        frame.begin_row()
        self._row(undo)
        code.start(self.following)
        frame.row.add(1)
        code.jump(rows)
        code.start(end)
        code.ret(frame.given["last"])

    def _rest(self) -> Value:
        """Passes that are left of the row."""
        return self.frame.given["passes"] - self.frame.done.load()

    def _row(self, undo: str) -> None:
        code, frame = self.code, self.frame
        passes, some, full, part, self.refused = map(code.block, ("passes", "some", "full", "part", "refused"))
        code.start(passes)
        code.branch(self._rest().lt(self.lanes), some, full)
        code.start(full)
        self._registers()
        self._chunk(None, code.constant(I64, self.lanes), tested=True)
        frame.done.add(self.lanes)
        code.jump(passes)
        code.start(self.refused)
        at = frame.row.load()
        given = [frame.given[name] for name in ("M", "n", "registers", "deltas")]
        code.call(self.module.callees[undo], *given, at, at + 1, frame.done.load())
        code.ret(at)
        code.start(some)
        rest = self._rest()
        code.branch(rest.gt(0), part, self.following)
        code.start(part)
        self._registers()
        self._chunk(self.numbers.ltu(rest.splat(self.lanes)), rest, tested=True)

    def _count(self, active: Value, full: bool) -> None:
        """Steps of rows are counted where the rows are shared out."""


class _UndoneRowsEmitter(_RowsEmitter):
    """Emits the function that undoes rows: it subtracts the same words that their passes have added. The result is `last`."""

    attributes = "nounwind noinline cold"

    def _row(self, undo: str) -> None:
        code, loop = self.code, self.loop
        passes, part = map(code.block, ("passes", "part"))
        code.start(passes)
        rest = self._rest()
        code.branch(rest.gt(0), part, self.following)
        code.start(part)
        self._registers()
        # One code for full chunks and for the last one.
        self.mask = self.numbers.lt(rest.splat(self.lanes))
        for word, name in loop.loads.items():
            if word not in loop.additions:
                self.words[name] = self._load(word)
        trees = self._trees(*loop.additions.values())
        values = [trees.value(added) for added in loop.additions.values()]
        for word, value in zip(loop.additions, values, strict=True):
            self._store(word, self._load(word) - value)
        for r, by in loop.inductions.items():
            self.scalar.slots[register(r)].add(self.lanes * by)
        self.frame.done.add(self.lanes)
        code.jump(passes)


class RowDistributionEmitter(ABC):
    """Emits a function that counts rows and passes, tests that the rows are independent, and distributes them:

    name(M, n, team, left, registers …) -> {rows that are taken, passes of each, whether none failed}
    """

    def __init__(self, scalar: RowCode, loop: ParallelLoop, name: str) -> None:
        self.scalar, self.loop, self.inner = scalar, loop, loop.inner
        self.registers = sorted(loop.inside)
        trees = [*loop.inside.values(), *loop.deltas.values(), *loop.entered, loop.after_closing, *loop.landing]
        #: registers of the row that are given
        self.named = sorted({*(int(name[1:]) for name in inputs(*trees) if name != PASSES), *loop.deltas})
        given = {"M": POINTER, "n": I64, "team": POINTER, "left": I64} | {register(r): I64 for r in self.named}
        code = self.code = scalar.module.function(name, structure(I64, I64, I64), given, "nounwind noinline")
        self.given = dict(zip(given, code.arguments, strict=True))
        self.words = {register(r): self.given[register(r)] for r in self.named}
        self.passes, self.total = code.variable(I64, "passes"), code.variable(I64, "total")
        self.first, self.by = self._places()

    @abstractmethod
    def _places(self) -> tuple[Pointer, Pointer]:
        """Where the registers of the first row are kept, and their changes from row to row."""

    @abstractmethod
    def _is_worth_it(self, rows: Value, passes: Value) -> Value:
        """Whether these rows take longer than their distribution, and end in good time."""

    @abstractmethod
    def _distribute(self) -> None:
        """Have the rows executed, and return."""

    def emit_function(self) -> Callee:
        code = self.code
        self.alone = code.block("alone")
        trees = self._trees(self.words, *self.loop.inside.values())
        known = [trees.value(self.loop.inside[r]).eq(c) for r, c in sorted(self.inner.constants.items())]
        self._unless(code.all(known))
        self._count_passes()
        self._count_rows()
        self._check_words()
        self._distribute()
        code.start(self.alone)
        zero = code.constant(I64, 0)
        code.ret(code.pack(zero, zero, zero))
        return code.callee

    def _unless(self, holds: Value) -> None:
        """Leave the rows to this thread where the condition does not hold."""
        on = self.code.block("rows.on")
        self.code.branch(holds, on, self.alone)
        self.code.start(on)

    def _trees(self, words: dict[str, Value], *roots: Expr) -> Trees:
        return Trees(self.code, self.inner.forms.w, words, roots)

    def _count_passes(self) -> None:
        """T, the passes of the first row; the branches of the loop depend on no register that changes from row to row."""
        code, loop, inner = self.code, self.loop, self.inner
        ends = (inner.after_closing, *inner.landing)
        names = sorted(inputs(*ends))
        trees = self._trees(self.words, *loop.inside.values(), *loop.entered)
        self._unless(code.all(map(trees.truth, loop.entered)))
        trees = self._trees(self.words, *loop.inside.values())
        begin = {name: trees.value(loop.inside[int(name[1:])]) for name in names}
        self.passes.store(0)
        head, more, over = map(code.block, ("count", "count.more", "count.end"))
        code.start(head)
        t = self.passes.load()
        words = {name: value + t * inner.inductions.get(int(name[1:]), 0) for name, value in begin.items()}
        trees = self._trees(words, *ends)
        goes = code.all([trees.value(inner.after_closing).eq(inner.jump), *map(trees.truth, inner.landing)])
        self.passes.store(t + 1)
        code.branch(goes & t.lt(MANY), more, over)
        code.start(more)
        code.jump(head)
        code.start(over)
        words = {
            name: value + (self.passes.load() - 1) * inner.inductions.get(int(name[1:]), 0)
            for name, value in begin.items()
        }
        self._unless(self._trees(words, inner.after_closing).value(inner.after_closing).eq(0))
        self.words[PASSES] = self.passes.load()
        deltas = self._trees(self.words, *loop.deltas.values())
        self.change = {r: deltas.value(delta) for r, delta in loop.deltas.items()}
        fixed = {int(name[1:]) for name in inputs(*ends, *loop.entered)}
        # The words at the beginning of the loop depend on registers of the row.
        fixed |= {int(name[1:]) for r in fixed if r in loop.inside for name in loop.inside[r].inputs}
        self._unless(code.all([self.change[r].eq(0) for r in sorted(fixed) if r in self.change]))

    def _count_rows(self) -> None:
        """R, the rows behind which the outer loop goes on."""
        code, loop = self.code, self.loop
        ends = (loop.after_closing, *loop.landing)
        begin = {name: self.words[name] for name in sorted(inputs(*ends))}
        self.total.store(0)
        head, more, over = map(code.block, ("rows.count", "rows.count.more", "rows.count.end"))
        code.start(head)
        k = self.total.load()
        words = {
            name: value + k * self.change[int(name[1:])] if name != PASSES and int(name[1:]) in self.change else value
            for name, value in begin.items()
        }
        trees = self._trees(words, *ends)
        goes = code.all([trees.value(loop.after_closing).eq(loop.jump), *map(trees.truth, loop.landing)])
        code.branch(goes & k.lt(MANY), more, over)
        code.start(more)
        self.total.store(k + 1)
        code.jump(head)
        code.start(over)
        rows, passes = self.total.load(), self.passes.load()
        self._unless(rows.lt(MANY) & passes.lt(MANY) & self._is_worth_it(rows, passes))
        steps = steps_of_row(self.scalar.flow, loop, passes)
        self._unless(self.given["left"].gt(rows * steps + self.scalar.longest))

    def _check_words(self) -> None:
        """Words that are read are written by no row, and distant rows write different words."""
        code, inner = self.code, self.inner
        trees = self._trees(self.words, *self.loop.inside.values())
        inside = {r: trees.value(tree) for r, tree in self.loop.inside.items()}
        rows, passes = self.total.load(), self.passes.load()
        ends: dict[Base, tuple[Value, Value]] = {}
        holds = []
        for base, stride in inner.strides.items():
            first = self._sum(base, inside)
            by = self._sum(base, self.change)
            size, length = by.lt(0).select(-by, by), passes - 1
            holds.append(size.ltu(MANY))
            extent = (rows - 1) * size + length
            offsets = [offset for other, offset in inner.loads if other == base]
            written = sorted(offset for other, offset in inner.additions if other == base)
            near = {abs(a - b) for a in offsets if a not in written for b in written}
            if near:
                holds.append(extent.lt(min(near)))
            if self.loop.before:
                for apart in sorted({0} | {abs(a - b) for a, b in combinations(written, 2)} if written else ()):
                    different = (size * (GAP + 1)).gt(length + apart)
                    holds.append(different | extent.lt(apart) if apart else different)
            low = first + min(offsets) + (by.lt(0).select(by, 0) * (rows - 1)) - (length if stride < 0 else 0)
            ends[base] = low, low + extent + (max(offsets) - min(offsets))
            # All addresses are inside memory, so none wraps around.
            holds += [end.ltu(self.given["n"]) for end in ends[base]]
        if self.scalar.ghosts:
            for base, region in self.scalar.ghosts.regions_in(inner.accesses):
                holds += [(end - region[0]).ltu(region[1]) for end in ends[base]]
        for x, y in inner.apart:
            holds.append(ends[x][1].lt(ends[y][0]) | ends[y][1].lt(ends[x][0]))
        self._unless(code.all(holds))
        for k, r in enumerate(self.registers):
            self.first[k].store(inside[r])
            self.by[k].store(self.change.get(r, code.constant(I64, 0)))

    def _sum(self, base: Base, words: dict[int, Value]) -> Value:
        out = self.code.constant(I64, 0)
        for r, k in base.terms:
            if r in words:
                out = out + words[r] * k
        return out


class _SharingEmitter(RowDistributionEmitter):
    """Rows are shared by two threads."""

    def __init__(self, scalar: RowCode, loop: ParallelLoop, number: int) -> None:
        self.rows, self.undo = f"rows{number}", f"undo{number}"
        registers = sorted(loop.inside)
        _UndoneRowsEmitter(scalar, loop.inner, self.undo, registers).emit_function()
        _RowsEmitter(scalar, loop.inner, self.rows, registers).emit_function(self.undo)
        super().__init__(scalar, loop, f"share{number}")

    def _places(self) -> tuple[Pointer, Pointer]:
        size = max(len(self.registers), 1)
        return self.code.variable(I64, "first", count=size), self.code.variable(I64, "by", count=size)

    def _is_worth_it(self, rows: Value, passes: Value) -> Value:
        cells = rows * passes
        return rows.gt(FEW_ROWS) & cells.gt(FEW) & cells.lt(MANY)

    def _parts(self, rows: Value) -> tuple[Value, Value]:
        """(the row behind those of this thread, the first row of the other thread)"""
        middle = (rows - GAP).shr(1)
        return middle, middle + GAP

    def _distribute(self) -> None:
        code, module = self.code, self.scalar.module
        team = self.given["team"].of(I64)
        rows, passes = self.total.load(), self.passes.load()
        middle, behind = self._parts(rows)
        given = [self.given["M"], self.given["n"], self.first, self.by]
        rows_of, undo = module.callees[self.rows], module.callees[self.undo]
        own = code.let(f"ptrtoint ptr {rows_of.name} to i64", I64)
        addresses = [code.let(f"ptrtoint ptr {given[k].name} to i64", I64) for k in (0, 2, 3)]
        words = {TeamSlot.FUNCTION: own, TeamSlot.MEMORY: addresses[0], TeamSlot.WORDS: given[1]}
        words |= {TeamSlot.REGISTERS: addresses[1], TeamSlot.DELTAS: addresses[2], TeamSlot.PASSES: passes}
        words |= {TeamSlot.FIRST: behind, TeamSlot.LAST: rows}
        for slot, word in words.items():
            team[slot].store(word)
        set_state(team, TeamState.WORK)
        mine = code.call(rows_of, *given, 0, middle, passes)
        wait(team, (TeamState.DONE,))
        its = team[TeamSlot.RESULT].load()
        gap, complete, failed = map(code.block, ("gap", "complete", "failed"))
        done = code.variable(I64, "done", mine)
        code.branch(mine.eq(middle) & its.eq(rows), gap, failed, likely=True)
        code.start(gap)
        third = code.call(rows_of, *given, middle, behind, passes)
        done.store(third)
        code.branch(third.eq(behind), complete, failed, likely=True)
        code.start(failed)
        # Of all rows behind the first that failed, nothing stays.
        code.call(undo, *given, behind, its, passes)
        code.ret(code.pack(done.load(), passes, code.constant(I64, 0)))
        code.start(complete)
        code.ret(code.pack(rows, passes, code.constant(I64, 1)))


def steps_of_row(flow: Flow, loop: ParallelLoop, passes: Value) -> Value:
    """Steps of a row. In its last pass, the vector loop does not go on, so its header is not executed."""
    once = [*loop.before, loop.entry, *loop.after, loop.closing, loop.header]
    inner = sum(len(flow.blocks[node]) for node in loop.inner.body) + 2
    return passes * inner + (sum(len(flow.blocks[node]) for node in once) - 1)


class RowLoopEmitter(ABC):
    """Emits code at the beginning of the outer loop's body that has rows executed."""

    def __init__(self, scalar: RowCode, loop: ParallelLoop, distribution: RowDistributionEmitter) -> None:
        self.scalar, self.loop, self.code, self.inner = scalar, loop, scalar.code, loop.inner
        self.order = {node: k for k, node in enumerate(scalar.flow.blocks)}
        self.share, self.named = distribution.emit_function(), distribution.named

    @abstractmethod
    def emit(self) -> None:
        """Emit it; scalar code for a row follows."""

    def _words(self) -> dict[str, Value]:
        """The registers of the row that the distribution is given."""
        return {register(r): self.scalar.slots[register(r)].load() for r in self.named}

    def _account(self, words: dict[str, Value], rows: Value, passes: Value) -> None:
        """Registers, steps and counts behind these rows."""
        scalar, loop = self.scalar, self.loop
        deltas = {r: delta for r, delta in loop.deltas.items() if delta is not const(0)}
        trees = Trees(self.code, self.inner.forms.w, words, tuple(deltas.values()))
        for r, delta in deltas.items():
            scalar.slots[register(r)].add(rows * trees.value(delta))
        scalar.left.add(-(rows * steps_of_row(scalar.flow, loop, passes)))
        once = [*loop.before, loop.entry, *loop.after, loop.closing, loop.header]
        times = dict.fromkeys(once, rows) | dict.fromkeys((*self.inner.body, self.inner.closing), rows * passes)
        times[self.inner.header] = rows * (passes - 1)
        for node, count in times.items():
            scalar.given["counts"].of(I64)[self.order[node]].add(count)
        if self.inner.erased:
            scalar.erased.add(rows * passes * self.inner.erased)
        scalar.left_before.store(scalar.left.load())
        scalar.logged.store(0)


class ParallelLoopEmitter(RowLoopEmitter):
    """Emits the call that shares rows with a second thread."""

    def __init__(self, scalar: RowCode, loop: ParallelLoop, number: int) -> None:
        super().__init__(scalar, loop, _SharingEmitter(scalar, loop, number))
        #: rows are shared while no more steps are left; after a failure, fewer by `pause`
        self.resume = self.code.variable(I64, "rows.resume", UNLIMITED)
        self.pause = self.code.variable(I64, "rows.pause", PAUSE)

    def emit(self) -> None:
        code, scalar = self.code, self.scalar
        attempt, some, alone = map(code.block, ("rows.try", "rows.some", "rows.alone"))
        team, left = scalar.control[TranslatedSlot.TEAM].load(), scalar.left.load()
        code.branch(team.ne(0) & ~left.gt(self.resume.load()) & ~scalar.bad.load(), attempt, alone, likely=False)
        code.start(attempt)
        if scalar.ghosts:
            for at in self.inner.accesses:
                scalar.ghosts.forget(at)
        words = self._words()
        found = code.call(self.share, scalar.given["M"], scalar.given["n"], team.of(I64), left, *words.values())
        rows, passes, complete = (found.part(k) for k in range(3))
        pause, whole = self.pause.load(), complete.ne(0)
        self.resume.store(whole.select(UNLIMITED, left - pause))
        self.pause.store(whole.select(PAUSE, pause.gt(UNLIMITED >> 8).select(pause, pause + pause)))
        code.branch(rows.gt(0), some, alone)
        code.start(some)
        self._account(words | {PASSES: passes}, rows, passes)
        code.start(alone)
