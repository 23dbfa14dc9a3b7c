"""Vectorisation of innermost loops: code that executes several passes of a loop (loops.py) side by side in the vector unit.

The code stands in front of the loop's body. A chunk of passes is executed in this order: how many passes go on, by the loop's own branch
in every lane; tests of addresses; loads; tests of words; and only then stores. Where a test fails, nothing has been written,
and the scalar code goes on from the same state: it raises the trap, or finds that there is none. So the tests may be stricter than
the program's checks.

Where a loop ends when a register has reached another (`VectorLoop.end`), its passes are counted instead, and the addresses of all of
them are tested at once (loop versioning): chunks then only test words. Such passes are a strip (strip mining). Where its
addresses fail, a strip of one chunk is tried.

A chunk that is finished is a safepoint: no check is pending, and lost words need not come back.
Steps, counts, cycles and erased words of a chunk are added as its passes execute them.
Trap: a refused chunk is tried again only after more and more scalar passes, since the reason for the refusal often lasts.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.expr import ONE, ZERO, Expr, const, inputs, place
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import (
    I32,
    I64,
    POINTER,
    Block,
    Callee,
    FunctionBuilder,
    Pointer,
    Value,
    integer,
)
from retrograd.simulator.engines.llvm.functions import Trees
from retrograd.simulator.engines.llvm.instructions import step_of
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.state import UNLIMITED, TeamSlot, TeamState
from retrograd.simulator.engines.translator.affine import Intervals
from retrograd.simulator.engines.translator.flow import Base, Flow, Node, Refusal, SymbolicPass, Variant, Word, register
from retrograd.simulator.engines.translator.ghost_uncompute import GhostUncompute
from retrograd.simulator.engines.translator.loops import STRIP, WIDE, WIDTH, Countdown, Split, VectorLoop

#: bits of a word from which on AVX2 accesses memory in some lanes only; AVX-512 does so for all words
_MASKED = 32
#: chunks for which a loop stays scalar after many refusals
_LONGEST_PAUSE = 1 << 10


class ScalarCode(Protocol):
    """The function into which the loop is emitted, as Translator keeps it."""

    code: FunctionBuilder
    flow: Flow
    variant: Variant
    blocks: dict[Node, Block]
    longest: int
    given: dict[str, Value]
    memories: dict[str, Pointer]
    slots: dict[str, Pointer]
    left: Pointer
    left_before: Pointer
    bad: Pointer
    logged: Pointer
    erased: Pointer
    cycles: Pointer
    stop: Pointer
    ghosts: GhostUncompute | None

    def _cycles(self, executed: list[int]) -> int: ...

    def _go(self, node: Node | None, at: int) -> None: ...


class _NarrowTrees(Trees):
    """Trees in lanes, with bounds of their words: rounded products by four products of 32 bits with a sign.

        x = x₁·2^32 + x₀, |x₀| ≤ 2^31:    x·y / 2^32 = x₁·y₁·2^32 + (x₁·y₀ + x₀·y₁) + x₀·y₀ / 2^32

    The sum is exact mod 2^64, and only its last term is rounded.
    """

    def __init__(self, intervals: Intervals, code: FunctionBuilder, w: Format, words: Mapping[str, Value], roots: tuple[Expr, ...], lanes: int) -> None:  # fmt: skip
        super().__init__(code, w, words, roots, (), lanes)
        self._intervals = intervals

    def _is_narrow(self, x: Expr) -> bool:
        low, high = self._intervals.of(x)
        return low >= -(1 << 62) and high < 1 << 62

    def _product(self, x: Expr, y: Expr, s: int, added: int) -> Value:
        if s != 32 or self._w.width != WIDTH or not (self._is_narrow(x) and self._is_narrow(y)):
            return super()._product(x, y, s, added)
        a, b = self.value(x), self.value(y)
        a0, b0 = _low(a), _low(b)
        a1, b1 = _low((a + (1 << 31)).shr(32)), _low((b + (1 << 31)).shr(32))
        return (a1 * b1 << 32) + (a1 * b0 + a0 * b1) + (a0 * b0 + added).sar(32)


def _low(x: Value) -> Value:
    """The lower half of each word, as a number with a sign."""
    return (x << 32).sar(32)


class VectorLoopEmitter:
    """Emits the chunks of one loop. It is made at the beginning of the function, and emits at the beginning of the loop's body."""

    def __init__(self, scalar: ScalarCode, loop: VectorLoop) -> None:
        self.scalar, self.loop, self.code = scalar, loop, scalar.code
        flow = scalar.flow
        self.lanes = loop.lanes
        self.word = integer(loop.forms.w.width)
        self.vector, self.bytes = self.word.vector(self.lanes), self.word.bits // 8
        #: steps of a pass
        self.steps = sum(len(flow.blocks[node]) for node in loop.body) + 2
        self.order = {node: k for k, node in enumerate(flow.blocks)}
        #: lane 0 holds the last pass of a chunk: most addresses go down
        self.descending = sum(1 if loop.strides[base] < 0 else -1 for base, _ in loop.loads) > 0
        numbers = range(self.lanes)
        self.passes = list(reversed(numbers)) if self.descending else list(numbers)
        #: chunks are tried while no more steps are left; after a refusal, fewer by `pause`
        self.resume = self.code.variable(I64, "resume", UNLIMITED)
        self.pause = self.code.variable(I64, "pause", self.steps * self.lanes)
        #: where a chunk is tried again for another p (loops.Split); None: the bounds of all words are the same
        self.again: Block | None = None
        if loop.split is not None:
            self.p = self.code.variable(self.word, "p", max(loop.split.low, loop.split.total // 2))
        self.wide = VectorLoopEmitter(scalar, loop.wide) if loop.wide is not None else None
        if loop.end is not None:
            #: passes that are left of the strip, and whether the loop ends behind them
            self.strip, self.ending = self.code.variable(I64, "strip", 0), self.code.variable(integer(1), "ending", 0)

    def emit(self) -> None:
        code, scalar, loop = self.code, self.scalar, self.loop
        names = ("vector.try", "vector", "chunk", "chunk.full", "chunk.part", "refused", "scalar")
        attempt, head, chunk, full, part, self.refused, self.body = map(code.block, names)
        code.branch(scalar.left.load().gt(self.resume.load()), self.body, attempt)
        code.start(attempt)
        known = [scalar.slots[register(r)].load().eq(c) for r, c in sorted(loop.constants.items())]
        code.branch(code.all([~scalar.bad.load(), *known]), head, self.refused)
        code.start(head)
        self.again = head
        if loop.end is not None:
            self._strip(loop.end, head, chunk, full, part)
            return
        code.branch(self._may_go(code.constant(I64, self.lanes)), chunk, self.body)
        code.start(chunk)
        self._registers()
        self._ends(full, part)
        code.start(full)
        self._chunk(None, code.constant(I64, self.lanes))
        self.pause.store(self.steps * self.lanes)
        code.jump(head)
        code.start(part)
        self._part()
        self._otherwise()

    def _otherwise(self) -> None:
        """The scalar code, which goes on for a while where a chunk is refused."""
        code, scalar = self.code, self.scalar
        code.start(self.refused)
        pause = self.pause.load()
        self.resume.store(scalar.left.load() - pause)
        most = self.steps * self.lanes * _LONGEST_PAUSE
        self.pause.store(pause.gt(most).select(pause, pause + pause))
        code.jump(self.body)
        code.start(self.body)

    def _strip(self, end: Countdown, again: Block, chunks: Block, full: Block, part: Block) -> None:
        """Count the passes, test the addresses of all, and execute them chunk by chunk."""
        code, scalar = self.code, self.scalar
        names = ("strip.test", "strip.shorter", "strip", "strip.narrow", "strip.rest", "strip.end", "strip.leave")
        test, shorter, start, narrow, rest, over, leave = map(code.block, names)
        self._registers()
        passes, ends, holds = self._passes(end)
        self.strip.store(passes)
        code.branch(code.all([passes.gt(1), *holds]), test, self.body)
        code.start(test)
        n = self.strip.load()
        self.ending.store(ends & n.eq(passes))
        code.branch(self._may_go(n) & self._addresses_hold(n), start, shorter, likely=True)
        code.start(shorter)
        self.strip.store(self.lanes)
        code.branch(n.gt(self.lanes), test, self.refused)
        code.start(start)
        if self.scalar.ghosts:
            for at in self.loop.accesses:
                self.scalar.ghosts.forget(at)
        code.jump(chunks)
        code.start(chunks)
        if self.wide is not None:
            wide = code.block("wide")
            code.branch(self.strip.load().lt(self.wide.lanes), narrow, wide)
            code.start(wide)
            self.wide.refused, self.wide.again = narrow, again
            self._of_strip(self.wide, None, code.constant(I64, self.wide.lanes), chunks)
        else:
            code.jump(narrow)
        code.start(narrow)
        code.branch(self.strip.load().lt(self.lanes), rest, full)
        code.start(full)
        self._of_strip(self, None, code.constant(I64, self.lanes), chunks)
        code.start(rest)
        left = self.strip.load()
        code.branch(left.eq(0), over, part)
        code.start(part)
        if self._has_masks():
            self._of_strip(self, left, left, over)
        else:
            self.resume.store(scalar.left.load() - left * self.steps)
            code.jump(self.body)
        code.start(over)
        code.branch(self.ending.load(), leave, again)
        code.start(leave)
        self._leave()
        self._otherwise()

    def _of_strip(self, emitter: VectorLoopEmitter, some: Value | None, active: Value, to: Block) -> None:
        """A chunk of the strip; in the first `some` lanes."""
        emitter._registers()
        mask = None if some is None else emitter.numbers.ltu(some.to(emitter.word).splat(emitter.lanes))
        emitter._chunk(mask, active, tested=True)
        self.strip.add(-active)
        self.pause.store(self.steps * self.lanes)
        self.code.jump(to)

    def _passes(self, end: Countdown) -> tuple[Value, Value, list[Value]]:
        """(passes of a strip, whether the loop ends behind them, whether its landing finds what it needs behind all others)"""
        more, exact = self._until_zero(end)
        short = more.ltu(STRIP)
        passes, ends = short.select(more + 1, STRIP), short & exact
        goes_on = passes - ends.to(I64)
        holds = []
        for each in self.loop.met_before_end:
            holds.append(self._until_zero(each)[0].geu(goes_on) if each.by else self._number(each.first).ne(0))
        return passes, ends, holds

    def _until_zero(self, count: Countdown) -> tuple[Value, Value]:
        """(passes behind which x ≠ y, whether x = y behind the next one): if not, x passes y, and meets it only beyond 2^W."""
        first, size = self._number(count.first), abs(count.by)
        apart = (-first if count.by > 0 else first).to(I64)
        if size == 1:
            return apart, self.code.constant(integer(1), 1)
        found = apart.udiv(size)
        return found, (found * size).eq(apart)

    def _number(self, tree: Expr) -> Value:
        """A tree over registers, for the first pass."""
        words = {register(r): word for r, word in self.entry.items()}
        return Trees(self.code, self.loop.forms.w, words, (tree,)).value(tree)

    def _leave(self) -> None:
        """To the code behind the loop. The header was counted for the last pass, too."""
        scalar, loop = self.scalar, self.loop
        self.scalar.left.add(1)
        if scalar.variant.cycles:
            scalar.cycles.add(-scalar._cycles(scalar.flow.blocks[loop.header]))
        if scalar.variant.whole:
            scalar.given["counts"].of(I64)[self.order[loop.header]].add(-1)
            scalar.left_before.store(scalar.left.load())
        scalar._go(loop.leave, loop.closing[0])

    def _has_masks(self) -> bool:
        unit = self.code.module.vector_unit
        return unit is not None and unit.masks and (self.word.bits >= _MASKED or unit.lanes >= WIDE)

    def _may_go(self, passes: Value) -> Value:
        """Whether steps are left for these passes, and the host does not stop the run."""
        go = ~self.scalar.left.load().lt(passes * self.steps + self.scalar.longest)
        return go & self.scalar.stop.load(volatile=True).eq(0)

    # ------------------------------------------------------------------ passes

    def _registers(self) -> None:
        """The words of registers at the beginning of the chunk, and in each lane at the beginning of its pass."""
        loop, code = self.loop, self.code
        trees = [*loop.stores.values(), *loop.sums.values(), *loop.accumulators.values(), loop.after_closing]
        trees += [*loop.landing, *(words[name] for tree, words in loop.guards for name in inputs(tree))]
        names = {int(name[1:]) for name in inputs(*trees) | loop.bounded if name.startswith("r")}
        names |= {r for base in loop.strides for r, _ in base.terms}
        self.entry = {r: self.scalar.slots[register(r)].load() for r in sorted(names)}
        self.words: dict[str, Value] = {}
        for r, word in self.entry.items():
            by = loop.inductions.get(r, 0)
            self.words[register(r)] = word.splat(self.lanes)
            if by:
                self.words[register(r)] = self.words[register(r)] + self._multiples(by)
        self.first = {base: self._lowest(base) for base in loop.strides}
        self.numbers = code.vector(self.passes, self.word)

    def _multiples(self, by: int) -> Value:
        """by · the number of the pass in each lane."""
        signed = self.loop.forms.w.signed
        return self.code.vector([signed(by * k) for k in self.passes], self.word)

    def _lowest(self, base: Base) -> Value:
        """The lowest address of a base in the first pass, mod 2^W. All others are counted from it in 64 bits."""
        out = self.code.constant(self.word, self.loop.lowest[base])
        for r, k in base.terms:
            out = out + self.entry[r] * k if k != 1 else out + self.entry[r]
        return out.to(I64)

    def _address(self, word: Word) -> Value:
        base, offset = word
        return self.first[base] + (offset - self.loop.lowest[base])

    def _trees(self, *roots: Expr) -> Trees:
        return _NarrowTrees(self.loop.intervals, self.code, self.loop.forms.w, self.words, roots, self.lanes)

    def _bits(self, lanes: Value) -> Value:
        return lanes.convert("bitcast", integer(self.lanes))

    def _ends(self, full: Block, part: Block) -> None:
        """To `full` where the loop goes on in every lane."""
        goes, self.ends = self._ways()
        self.on = self._bits(goes)
        self.code.branch(self.on.eq(-1), full, part)

    def _ways(self) -> tuple[Value, Value]:
        """(lanes behind which the loop goes on, lanes behind which it ends)"""
        loop = self.loop
        goes, ends = loop.after_closing.eq(const(loop.jump)), loop.after_closing.eq(0)
        trees = self._trees(goes, ends, *loop.landing)
        return self.code.all([trees.truth(goes), *map(trees.truth, loop.landing)]), trees.truth(ends)

    def _part(self) -> None:
        """The last passes of the loop: those in which it goes on, and the one in which it ends."""
        code, scalar, loop = self.code, self.scalar, self.loop
        how = "ctlz" if self.descending else "cttz"
        more = code.intrinsic(how, ~self.on, code.constant(integer(1), 0)).to(I64)
        if not self._has_masks():
            self.resume.store(scalar.left.load() - more * self.steps)
            code.jump(self.body)
            return
        last = self.numbers.eq(more.to(self.word).splat(self.lanes))
        ends = self._bits(last & self.ends).ne(0)
        some = code.block("chunk.some")
        code.branch(ends & more.gt(0), some, self.body)
        code.start(some)
        active = more + 1
        self._chunk(self.numbers.ltu(active.to(self.word).splat(self.lanes)), active)
        scalar._go(loop.leave, loop.closing[0])

    # ------------------------------------------------------------------ a chunk

    def _chunk(self, mask: Value | None, active: Value, *, tested: bool = False) -> None:
        """Execute the passes of the lanes in the mask, `active` of them, or leave to the scalar code.

        `tested`: their addresses hold.
        """
        code, loop = self.code, self.loop
        self.mask = mask
        commit = code.block("commit")
        if not tested:
            inside = code.block("inside")
            code.branch(self._addresses_hold(active), inside, self.refused, likely=True)
            code.start(inside)
        for word, name in loop.loads.items():
            self.words[name] = self._load(word)
        # Evaluated before the branch: nothing is stored until all checks have been made.
        roots = [*loop.stores.values(), *loop.sums.values(), *loop.accumulators.values()]
        trees = self._trees(*roots)
        values = [trees.value(root) for root in roots]
        failed = [*self._unbounded(), *self._failed_guards(), *trees.unsound()]
        holds = self._scalars_bounded()
        if failed:
            bits = self._bits(code.any(failed) if mask is None else code.any(failed) & mask)
            holds.append(bits.eq(0))
        split = loop.split if self.again is not None else None
        other = self.refused if split is None else code.block("split")
        code.branch(code.all(holds), commit, other, likely=True)
        if split is not None:
            code.start(other)
            self._choose(split)
        code.start(commit)
        if self.scalar.ghosts and not tested:
            for at in loop.accesses:
                self.scalar.ghosts.forget(at)
        found = iter(values)
        for word in loop.stores:
            self._store(word, next(found))
        for word in loop.sums:
            self._add(word, next(found))
        for r in loop.accumulators:
            self.scalar.slots[register(r)].add(self._total(next(found)))
        for r, by in loop.inductions.items():
            self.scalar.slots[register(r)].add(active.to(self.word) * by)
        self._count(active, mask is None or tested)

    def _addresses_hold(self, active: Value) -> Value:
        """Whether all words lie in memory, and words of different bases are different words."""
        loop, n = self.loop, self.scalar.given["n"]
        if self.word.bits < WIDTH:
            # Beyond 2^W words, an address of W bits begins again at 0.
            n = n.ltu(1 << self.word.bits).select(n, 1 << self.word.bits)
        ends: dict[Base, tuple[Value, Value]] = {}
        for base, stride in loop.strides.items():
            offsets = [offset for other, offset in loop.loads if other == base]
            low, high = self.first[base], self.first[base] + (max(offsets) - min(offsets))
            way = (active - 1) * stride
            ends[base] = (low, high + way) if stride > 0 else (low + way, high)
        # An end below 0 is far beyond the memory; no more than n words lie between two ends that are inside.
        holds = [end.ltu(n) for pair in ends.values() for end in pair]
        if self.scalar.ghosts:
            for base, region in self.scalar.ghosts.regions_in(loop.accesses):
                holds += [(end - region[0]).ltu(region[1]) for end in ends[base]]
        holds += [ends[x][1].lt(ends[y][0]) | ends[y][1].lt(ends[x][0]) for x, y in loop.apart]
        return self.code.all(holds)

    def _bounded(self, kind: str) -> Iterator[tuple[list[str], Value | int]]:
        """(inputs of that kind, the bits of their bound): words of memory `m`, registers `r`."""
        loop, code = self.loop, self.code
        names = [name for name in sorted(loop.bounded) if name.startswith(kind)]
        if loop.split is None or self.again is None:
            sides: list[tuple[list[str], Value | int]] = [(names, loop.bits)]
        else:
            p, split = self.p.load(), loop.split
            left, right = ([name for name in names if name in side] for side in (split.left, split.right))
            rest = [name for name in names if name not in split.left | split.right]
            sides = [(left, p), (right, code.constant(self.word, split.total) - p), (rest, split.rest)]
        yield from (side for side in sides if side[0])

    def _unbounded(self) -> list[Value]:
        """Lanes in which a word is too large for the sums that are not checked."""
        found = []
        for names, bits in self._bounded("m"):
            # −2^b ≤ x < 2^b where x + 2^b has no bit from b + 1 on: less work for the units that shift than magnitudes.
            one = self.code.constant(self.word, 1)
            limit = one << bits
            over, outside = limit.splat(self.lanes), (-(limit + limit)).splat(self.lanes)
            found.append(reduce(or_, ((self.words[name] + over) & outside for name in names)))
        return [reduce(or_, found).ne(0)] if found else []

    def _scalars_bounded(self) -> list[Value]:
        sizes = [(_magnitude(self.entry[int(name[1:])]), bits) for names, bits in self._bounded("r") for name in names]
        return [size.shr(bits).eq(0) for size, bits in sizes]

    def _choose(self, split: Split) -> None:
        """Try the chunk again with another p, if one suits its words: the middle of those that do."""
        code = self.code
        own, others = self._most_bits(split.left), self._most_bits(split.right)
        middle = (own + code.constant(self.word, split.total) - others).sar(1)
        middle = middle.lt(split.low).select(split.low, middle)
        middle = middle.gt(split.high).select(split.high, middle)
        old = self.p.load()
        self.p.store(middle)
        assert self.again is not None
        code.branch((own + others).gt(split.total) | middle.eq(old), self.refused, self.again)

    def _most_bits(self, names: Collection[str]) -> Value:
        """The bits of the largest magnitude of these inputs, in all lanes."""
        code, chosen = self.code, sorted(self.loop.bounded.intersection(names))
        size = code.constant(self.word, 0)
        in_lanes = [_magnitude(self.words[name]) for name in chosen if name.startswith("m")]
        if in_lanes:
            some = reduce(or_, in_lanes)
            some = some if self.mask is None else self.mask.select(some, 0)
            size = code.intrinsic("vector.reduce.or", some, result=self.word)
        for name in chosen:
            if name.startswith("r"):
                size = size | _magnitude(self.entry[int(name[1:])])
        return code.constant(self.word, self.word.bits) - code.intrinsic("ctlz", size, code.constant(integer(1), 0))

    def _failed_guards(self) -> list[Value]:
        out = []
        for tree, places in self.loop.guards:
            used = {name: places[name] for name in inputs(tree)}
            values = self._trees(*used.values())
            words = {name: values.value(word) for name, word in used.items()}
            trees = Trees(self.code, self.loop.forms.w, words, (tree,), (), self.lanes)
            out += [~trees.truth(tree), *trees.unsound(), *values.unsound()]
        return out

    def _count(self, active: Value, full: bool) -> None:
        """Account for the passes. `full`: behind the last one, too, the loop goes on, so its header is executed."""
        scalar, loop, flow = self.scalar, self.loop, self.scalar.flow
        more = active if full else active - 1
        times = dict.fromkeys((*loop.body, loop.closing), active) | {loop.header: more}
        scalar.left.add(-(active * (self.steps - 1) + more))
        if loop.erased:
            scalar.erased.add(active * loop.erased)
        for node, count in times.items():
            if scalar.variant.cycles:
                scalar.cycles.add(count * scalar._cycles(flow.blocks[node]))
            if scalar.variant.whole:
                scalar.given["counts"].of(I64)[self.order[node]].add(count)
        if scalar.variant.whole:
            scalar.left_before.store(scalar.left.load())
            scalar.logged.store(0)

    # ------------------------------------------------------------------ memory

    def _place(self, word: Word) -> tuple[Pointer, bool]:
        """(the lowest of the words that the lanes touch, whether the lanes hold them in the other order), for a stride of ±1"""
        stride = self.loop.strides[word[0]]
        at = self._address(word) - (0 if stride > 0 else self.lanes - 1)
        return self.scalar.memories["m"][at].of(self.vector), (stride > 0) == self.descending

    def _places(self, word: Word) -> Pointer:
        numbers = self.code.vector([self.loop.strides[word[0]] * k for k in self.passes], I64)
        return self.scalar.memories["m"][self._address(word).splat(self.lanes) + numbers]

    def _all_or(self) -> Value:
        return self.code.constant(self.vector.truth, 1) if self.mask is None else self.mask

    def _load(self, word: Word) -> Value:
        stride = self.loop.strides[word[0]]
        if stride == 0:
            return self.scalar.memories["m"][self._address(word)].load().splat(self.lanes)
        if abs(stride) != 1:
            return self._places(word).gather(self._all_or(), self.bytes)
        start, other = self._place(word)
        if self.mask is None:
            found = start.load(self.bytes)
        else:
            found = start.load_lanes(self.mask.backward() if other else self.mask, self.bytes)
        return found.backward() if other else found

    def _store(self, word: Word, value: Value) -> None:
        if abs(self.loop.strides[word[0]]) != 1:
            self._places(word).scatter(value, self._all_or(), self.bytes)
            return
        start, other = self._place(word)
        words = value.backward() if other else value
        if self.mask is None:
            start.store(words, self.bytes)
        else:
            start.store_lanes(words, self.mask.backward() if other else self.mask, self.bytes)

    def _add(self, word: Word, value: Value) -> None:
        """Add to words to which other passes of the chunk may have added already."""
        if self.loop.strides[word[0]] == 0:
            self.scalar.memories["m"][self._address(word)].add(self._total(value))
        else:
            self._store(word, self._load(word) + value)

    def _total(self, value: Value) -> Value:
        """The sum over the passes."""
        some = value if self.mask is None else self.mask.select(value, 0)
        return self.code.intrinsic("vector.reduce.add", some, result=self.word)


def _magnitude(x: Value) -> Value:
    """x if x ≥ 0, else −1 − x."""
    return x ^ x.sar(x.type.bits - 1)


# -----------------------------------------------------------------------------
# Parallelisation of nested loops: the rows of an outer loop around a vector loop, on two threads.
#
# A row is a pass of an outer loop that is one straight line except for one vector loop (loops.py). Rows are taken in parallel if their
# passes only add, and read no word that any row writes. From row to row each register advances by a constant, which may depend on
# the number of passes T:
#
#     r' = r + c + k·T
#
# so the registers of every row are known before the rows run. T is counted in the first row by the loop's own branches; it is the same in every
# row, since registers on which those branches depend do not change.
#
# The code that shares the rows out is in row_sharing.py.

#: the input that stands for the number of passes of a row
PASSES = "T"


@dataclass
class ParallelLoop:
    """A loop whose rows run on two threads."""

    inner: VectorLoop
    header: Node
    before: list[Node]
    entry: Node
    after: list[Node]
    closing: Node
    #: registers at the beginning of the vector loop, over those at the beginning of the row
    inside: dict[int, Expr] = field(default_factory=dict)
    #: register -> the sum of its changes in a row
    deltas: dict[int, Expr] = field(default_factory=dict)
    #: must hold in the first row; BR behind the closing branch, and the guards of the landing, in each row
    entered: list[Expr] = field(default_factory=list)
    jump: int = 0
    after_closing: Expr = ZERO
    landing: list[Expr] = field(default_factory=list)

    @property
    def start(self) -> Node:
        """The node at which a row begins; of a single row, the passes."""
        return self.before[0] if self.before else self.inner.start


@dataclass(frozen=True)
class RowFinding:
    """A candidate: the outer loop as its rows are shared, or the reason for which one thread executes them all."""

    header: Node
    reason: str
    loop: ParallelLoop | None


def find_parallel_loops(flow: Flow, loops: list[VectorLoop]) -> Iterator[ParallelLoop]:
    """The loops around these vector loops whose rows may run in parallel."""
    return (finding.loop for finding in row_findings(flow, loops) if finding.loop is not None)


def row_findings(flow: Flow, loops: list[VectorLoop]) -> Iterator[RowFinding]:
    """The loops that are one straight line around one of these vector loops, whose passes only add."""
    for inner in loops:
        for header in flow.blocks:
            found = _around(flow, inner, header)
            if found is not None:
                try:
                    _analyse(flow, found)
                except Refusal as refusal:
                    yield RowFinding(header, str(refusal), None)
                else:
                    yield RowFinding(header, "", found)


def _straight(flow: Flow, node: Node | None) -> tuple[list[Node], Node | None]:
    """(straight blocks from the node on, the branch behind them)"""
    found: list[Node] = []
    while node is not None and not flow.branches(node[0]):
        run = flow.blocks[node]
        # The block of a node whose uncompute block is skipped is empty.
        if not run or node[0] in flow.stops or flow.code[run[-1]].opcode.halts:
            return found, None
        found.append(node)
        node = flow.after(run[-1])
    return found, node


def _around(flow: Flow, inner: VectorLoop, header: Node) -> ParallelLoop | None:
    at, landed = header
    if not landed or not flow.branches(at) or header == inner.header or not inner.additions:
        return None
    before, entry = _straight(flow, flow.after(at))
    after, closing = _straight(flow, inner.leave)
    if not before or entry != (inner.header[0], False) or closing is None or header not in flow.successors[closing]:
        return None
    if any(flow.code[node[0]].opcode.turns for node in (header, closing)):
        return None
    return ParallelLoop(inner, header, before, entry, after, closing)


def single_row(inner: VectorLoop) -> ParallelLoop | None:
    """A vector loop as a row by itself, if its passes only add, and their words are neighbours."""
    irregular = inner.forms.w.width != WIDTH or any(abs(stride) != 1 for stride in inner.strides.values())
    if not inner.additions or irregular:
        return None
    found = ParallelLoop(inner, inner.header, [], inner.header, [], inner.closing)
    found.inside = {r: place(register(r)) for r in sorted(_registers(inner))}
    return found


def _registers(inner: VectorLoop) -> set[int]:
    """The registers that the passes of a vector loop read."""
    registers = {*inner.constants, *inner.inductions, *(r for base in inner.strides for r, _ in base.terms)}
    trees = [*inner.additions.values(), inner.after_closing, *inner.landing]
    return registers | {int(name[1:]) for name in inputs(*trees) | inner.bounded if name.startswith("r")}


def _analyse(flow: Flow, loop: ParallelLoop) -> None:
    inner, forms, w = loop.inner, loop.inner.forms, flow.program.format
    nodes = (*loop.before, *loop.after)
    addresses = [at for node in nodes for at in flow.blocks[node]]
    branches = (loop.header[0], loop.entry[0], loop.closing[0])
    own = {*addresses, *branches, *(at for node in inner.body for at in flow.blocks[node])}
    if any(own & {ghost.start, ghost.end, ghost.undo, ghost.after} for ghost in flow.ghosts):
        raise Refusal("a row begins or ends a compute block")
    steps = {at: step_of(flow.code[at], w) for at in (*addresses, *branches)}
    if any(steps[at].memory or any(steps[at].guards.values()) or steps[at].erases for at in addresses):
        raise Refusal("a row does more than to run its loop")
    if w.width != WIDTH:
        raise Refusal(f"words have {w.width} bits")
    if any(abs(stride) != 1 for stride in inner.strides.values()):
        raise Refusal("words lie apart")
    row = SymbolicPass(flow, steps, forms, {})
    for node in loop.before:
        for at in flow.blocks[node]:
            row.execute(at, ())
    loop.inside = {r: row.word(r) for r in sorted(_registers(inner))}
    came, guards = row.branch(loop.entry[0], 0)
    loop.entered = [came.eq(0), *guards]
    passes = place(PASSES)
    for r, by in inner.inductions.items():
        row.registers[r] = forms.tree(forms.combined(row.word(r), passes, by))
    for node in loop.after:
        for at in flow.blocks[node]:
            row.execute(at, ())
    loop.jump = loop.header[0] - flow.leaves(loop.closing[0])
    loop.after_closing, guards = row.branch(loop.closing[0], 0)
    if any(guard is not const(1) for guard in guards):
        raise Refusal("the closing branch has a guard")
    arrived, more = row.branch(loop.header[0], loop.jump)
    loop.landing = [arrived.eq(0), *more]
    loop.deltas = {r: forms.sum(tree, place(register(r)), -1) for r, tree in sorted(row.registers.items())}
    changed = {register(r) for r, delta in loop.deltas.items() if delta is not const(0)}
    for r, delta in loop.deltas.items():
        linear = all(atom is ONE or atom.op == "input" for atom in forms.form(delta))
        if not linear or changed & delta.inputs or (r in inner.constants and delta is not const(0)):
            raise Refusal("a register changes irregularly from row to row")


# -----------------------------------------------------------------------------
# A second thread for translated code: it waits in machine code for rows of a loop (parallel_loops.py), and executes them.
#
# Both threads share the words of TeamSlot. One thread owns them at a time, and hands them over by an atomic store of the state:
#
#     IDLE or DONE → WORK     by the thread of the run
#     WORK → DONE             by the second thread
#     any → QUIT              by Python, behind the run
#
# A thread that waits looks at the state again and again; after a while it lets other threads run, and later it sleeps. The second thread exists only while
# a run of translated code that shares rows goes on.

#: looks at the state between which other threads may run; such pauses before a thread sleeps, and the microseconds of its sleep
_LOOKS, _PAUSES, _SLEEP = 1 << 10, 1 << 6, 50


def set_state(team: Pointer, state: TeamState) -> None:
    """Hand the words over, behind all stores so far."""
    team.code.do(f"store atomic i64 {int(state)}, ptr {team[TeamSlot.STATE].name} release, align 8")


def wait(team: Pointer, states: tuple[TeamState, ...]) -> Value:
    """Wait for one of the states; the state."""
    code = team.code
    looks = code.variable(I64, "looks", 0)
    names = ("wait", "wait.more", "wait.rest", "wait.yield", "wait.sleep", "wait.end")
    head, more, rest, pause, sleep, end = map(code.block, names)
    code.start(head)
    place, state = team[TeamSlot.STATE], Value(code, I64, code.name())
    code.do(f"{state.name} = load atomic i64, ptr {place.name} acquire, align 8")
    code.branch(code.any(state.eq(int(wanted)) for wanted in states), end, more)
    code.start(more)
    looks.add(1)
    code.branch((looks.load() & _LOOKS - 1).eq(0), rest, head)
    code.start(rest)
    code.branch(looks.load().lt(_LOOKS * _PAUSES), pause, sleep)
    code.start(pause)
    code.call(code.module.declare("sched_yield", I32, pure=False))
    code.jump(head)
    code.start(sleep)
    code.call(code.module.declare("usleep", I32, I32, pure=False), _SLEEP)
    code.jump(head)
    code.start(end, keep=True)
    return state


def _work() -> str:
    module = jit_compiler().module()
    code = module.function("work", I64, {"team": POINTER}, linkage="")
    team = code.arguments[0].of(I64)
    again, work, end = map(code.block, ("again", "work", "end"))
    code.start(again)
    state = wait(team, (TeamState.WORK, TeamState.QUIT))
    code.branch(state.eq(int(TeamState.WORK)), work, end)
    code.start(work)
    _execute(code, team)
    set_state(team, TeamState.DONE)
    code.jump(again)
    code.start(end)
    code.ret(0)
    return module.text()


def _execute(code: FunctionBuilder, team: Pointer) -> None:
    pointers = [team[slot].load().of(I64) for slot in (TeamSlot.MEMORY, TeamSlot.REGISTERS, TeamSlot.DELTAS)]
    function = team[TeamSlot.FUNCTION].load().of(I64)
    n, first, last, passes = (team[s].load() for s in (TeamSlot.WORDS, TeamSlot.FIRST, TeamSlot.LAST, TeamSlot.PASSES))
    types = (POINTER, I64, POINTER, POINTER, I64, I64, I64)
    callee = Callee(function.name, I64, types)
    result = code.call(callee, pointers[0], n, pointers[1], pointers[2], first, last, passes)
    team[TeamSlot.RESULT].store(result)


@contextmanager
def second_thread() -> Iterator[NDArray[np.int64]]:
    """A thread that waits for work as long as the context is entered; the words that are shared with it."""
    words = np.zeros(len(TeamSlot), dtype=np.int64)
    address = jit_compiler().load(f"{source_digest()} team", ("work",), _work)["work"]
    work = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    # The thread keeps the words, should it outlive the context.
    thread = threading.Thread(target=lambda: work(words.ctypes.data), daemon=True)
    thread.start()
    try:
        yield words
    finally:
        words[TeamSlot.STATE] = TeamState.QUIT
        thread.join()
