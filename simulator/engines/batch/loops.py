"""Batch loop: the function that runs a translated program once for each instance of a batch.

The parts that all batch loops share: on a CPU (array_loop.py), in lanes of its vector unit (lane_loop.py), and as a CUDA kernel
(cuda/kernel_loop.py). Words are summed as integers. Integer addition is associative, so a sum does not depend on how instances are
shared out among threads, nor on the order in which they complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch.lanes import translate_converged, translate_lanes
from retrograd.simulator.engines.batch.layout import ARRAY, ARRAYS_HEAD, EXACT, KINDS, translate_instance
from retrograd.simulator.engines.llvm.builder import (
    DOUBLE,
    I1,
    I8,
    I64,
    POINTER,
    VOID,
    Callee,
    ModuleBuilder,
    Pointer,
    Type,
    Value,
    integer,
    storage,
)
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.ghost_uncompute import ghosts_of

#: status of an instance that is still to be run; afterwards 0 where it completed, 1 where it did not
PENDING = 2
#: status of an instance that did not run, since a number that it is given has no word
REFUSED = 3
#: numbers that an instance reports
REPORT = 3
#: threads of a warp
WARP = 32


class InstanceLoop:
    """A batch loop under construction."""

    #: the loop is a kernel of a device
    device = False

    def __init__(self, module: ModuleBuilder, w: Format, instance: str, name: str) -> None:
        self.module, self.w, self.word = module, w, storage(w)
        parameters = self._parameters()
        attributes, convention = ("", "ptx_kernel") if self.device else ("nounwind", "")
        code = self.code = module.function(
            name, VOID, parameters, attributes, linkage="", convention=convention, restrict=parameters.keys() - {"stop"}
        )
        self.given = dict(zip(parameters, code.arguments, strict=True))
        self.n, self.limit = self.given["n"], self.given["limit"]
        self.shared, self.sums = self._pointer("shared", self.word), self._pointer("sums", I64)
        self.status = self._pointer("status", I8)
        self.instance = module.callees[instance]
        #: how many ranges of each kind the layout has, and where these begin in its table
        self.counts: dict[str, Value] = {}
        self.firsts: dict[str, Value] = {}
        self.table: Pointer
        self.memory: Pointer

    def _parameters(self) -> dict[str, Type]:
        """The parameters of the function."""
        raise NotImplementedError

    def define(self) -> None:
        """Emit the function."""
        raise NotImplementedError

    def _pointer(self, name: str, element: Type) -> Pointer:
        return self.given[name].of(element)

    def _run(self, i: Value, good: Pointer, report: Pointer) -> None:
        """Run instance i; `good`: whether it completed."""
        memory = self.memory, self.n, self.given.get("stride", 1), self.limit, report
        why = self.code.call(self.instance, *memory, *self._arguments())
        ended = why.eq(0)
        good.store(ended)
        self.status[i].store((~ended).to(I8))

    def _arguments(self) -> list[Value]:
        """Further arguments of an instance."""
        return [] if self.device else [self.given["stop"]]

    # ------------------------------------------------------------------ words

    @contextmanager
    def _words(self, kind: str) -> Iterator[tuple[Value, Value]]:
        """A loop over the words of the ranges of a kind: their addresses and columns."""
        column = self.code.variable(I64, f"{kind}.column", 0)
        with self.code.loop(self.counts[kind], f"{kind}.ranges") as k:
            at = self.firsts[kind] + (k << 1)
            address, count, before = self.table[at].load(), self.table[at + 1].load(), column.load()
            with self.code.loop(count, f"{kind}.word") as j:
                yield address + j, before + j
            column.store(before + count)

    def _place(self, address: Value) -> Pointer:
        """Where the instance has the word of an address."""
        return self.memory[address]

    def _copy(self, source: Pointer, target: Pointer) -> None:
        size = self.word.bits // 8
        target.store(source.load(size), size)

    # ------------------------------------------------------------------ sums

    def _halves(self, address: Value, good: Value | None = None) -> list[Value]:
        """The lower 32 bits of a signed word, and the bits above; zeros where the instance is not `good`."""
        word = self._place(address).load().to(integer(self.w.width)).to(I64, "sext")
        word = word if good is None else good.select(word, 0)
        return [word & 0xFFFFFFFF, word.sar(32)]

    def _add(self, halves: list[Value], column: Value) -> None:
        for k, half in enumerate(halves):
            self.sums[(column << 1) + k].add(half)


# -----------------------------------------------------------------------------
# Batch loop on a CPU: rows are read from arrays of the caller, and results are written into arrays of the caller.
#
#     word  :=  round(real · 2^F), ties to even        before the run, where an array has real numbers
#     real  :=  word · 2^−(F + scale)                  after the run
#
# Both are those of `values/conversions.py`, bit for bit: scaling by a power of two is exact, and the two roundings are those of IEEE 754.
# A real number that has no word (NaN, out of range) is refused: its instance does not run.
# A float64 has 53 bits: an array of numbers is marked where an integer beyond ±2^53 was rounded.


def emit_array_loop(module: ModuleBuilder, w: Format, instance: str, name: str) -> None:
    """Define the function that runs `instance`, a translation, for many:

        name(arrays, first, last, shared, n, M, limit, status, sums, stop)

    `arrays` is a `layout.array_table`; `shared` is a memory of n words, and M is room for a memory and a spare word.
    Of the instances from `first` up to `last`, those whose status is PENDING run, until the word at `stop` is not 0. Where
    instance i completes, status[i] = 0, and its kept words are written; status[i] = 1 where it does not, REFUSED where a number that
    it is given has no word. Each summed word has two numbers in `sums`, see `exact_sums`.
    """
    ArrayLoop(module, w, instance, name).define()


class ArrayLoop(InstanceLoop):
    """The batch loop under construction. LaneLoop (lane_loop.py) runs several instances side by side."""

    def _parameters(self) -> dict[str, Type]:
        p = POINTER
        memory = {"shared": p, "n": I64, "M": p, "limit": I64, "status": p, "sums": p, "stop": p}
        return {"arrays": p, "first": I64, "last": I64} | memory

    def define(self) -> None:
        code = self.code
        self.memory = self._pointer("M", self.word)
        self._read_columns()
        good, fits = (code.variable(integer(1), name, 0) for name in ("good", "fits"))
        report = code.variable(I64, "report", count=REPORT)
        last = self.given["last"]
        with (
            code.counting(self.given["first"], 1, lambda i: i.lt(last) & self._goes_on(), "instances") as i,
            code.when(self.status[i].load().eq(PENDING), "enter"),
        ):
            good.store(0)
            self._fill(i, fits)
            with code.when(fits.load(), "run", likely=True):
                with self._words("shared") as (address, _):
                    self._copy(self.shared[address], self._place(address))
                self._run(i, good, report)
                self._report(i, report, 1)
                with code.when(good.load(), "keep"):
                    self._keep(i)
                    self._add_all()
        code.ret()

    def _goes_on(self) -> Value:
        """Whether the host has not set `stop`."""
        return self._pointer("stop", I64).load(volatile=True).eq(0)

    def _add_all(self) -> None:
        """Add the words that are summed."""
        with self._words("summed") as (address, column):
            self._add(self._halves(address), column)

    # ------------------------------------------------------------------ the table

    def _read_columns(self) -> None:
        self.table = self._pointer("arrays", I64)
        self.counts = {kind: self.table[k].load() for k, kind in enumerate(KINDS)}
        #: addresses of the arrays of steps, lost words and cycles; 0 for an array that is not kept
        self.reports = [self.table[len(KINDS) + k].load() for k in range(REPORT)]
        at = self.code.constant(I64, ARRAYS_HEAD)
        for kind in KINDS:
            self.firsts[kind] = at
            at = at + self.counts[kind] * (ARRAY if kind in ("given", "kept") else 2)

    def _report(self, i: Value, report: Pointer, stride: int) -> None:
        """Write the numbers that an instance reports into their arrays."""
        for k, numbers in enumerate(self.reports):
            with self.code.when(numbers.ne(0), "reported"):
                self._at(numbers, I64)[i].store(report[k * stride].load())

    # ------------------------------------------------------------------ rows

    def _array(self, kind: str, k: Value) -> Pointer:
        """The entry of the table for the k-th array of a kind."""
        return self.table[self.firsts[kind] + k * ARRAY]

    def _fill(self, i: Value, fits: Pointer) -> None:
        """Copy the words that instance i is given to its memory. `fits`: whether all its numbers have words; else it is refused."""
        code = self.code
        fits.store(1)
        with code.loop(self.counts["given"], "given.ranges") as k:
            entry = self._array("given", k)
            address, count, base, stride, step, scale = (entry[j].load() for j in range(6))
            row = base + i * stride
            reals, words, after = code.block("reals"), code.block("words"), code.block("filled")
            code.branch(scale.ne(0), reals, words)
            code.start(words)
            self._load_words(entry, address, count, row, step)
            code.jump(after)
            code.start(reals)
            self._load_reals(entry, address, count, row, step, scale, fits)
            code.start(after)
        with code.unless(fits.load(), "refuse"):
            self.status[i].store(REFUSED)

    def _load_words(self, entry: Pointer, address: Value, count: Value, row: Value, step: Value) -> None:
        """Copy a row of words, `step` bytes apart, to memory."""
        self._load_words_of(I64, address, count, row, step)

    def _load_words_of(self, source: Type, address: Value, count: Value, row: Value, step: Value) -> None:
        t = self.word
        with self.code.loop(count, "word") as j:
            self._place(address + j).store(self._at(row + j * step, source).load().to(t), t.bits // 8)

    def _load_reals(
        self, entry: Pointer, address: Value, count: Value, row: Value, step: Value, scale: Value, fits: Pointer
    ) -> None:
        """Convert a row of numbers, `step` bytes apart, to words of memory."""
        self._load_reals_of(DOUBLE, address, count, row, step, scale, fits)

    def _load_reals_of(
        self, source: Type, address: Value, count: Value, row: Value, step: Value, scale: Value, fits: Pointer
    ) -> None:
        code, t = self.code, self.word
        with code.loop(count, "real") as j:
            real = self._at(row + j * step, source).load()
            scaled = (real if source is DOUBLE else real.convert("fpext", DOUBLE)) * scale.convert("bitcast", DOUBLE)
            rounded = code.intrinsic("rint", scaled)
            low, high = -float(self.w.sign), float(self.w.sign)
            inside = code.compare("sge", rounded, low) & rounded.lt(high)
            word = inside.select(rounded, code.constant(DOUBLE, 0.0)).convert("fptosi", I64)
            self._place(address + j).store((word & self.w.mask).to(t), t.bits // 8)
            fits.store(fits.load() & inside)
            self._rounded(scaled, rounded)

    def _at(self, address: Value, element: Type) -> Pointer:
        """The pointer of an address."""
        return address.of(element)

    def _rounded(self, scaled: Value, rounded: Value) -> None:
        """Emit what follows the conversion of a number.

        On a CPU the caller looks for numbers that lose most of their bits.
        """

    def _keep(self, i: Value) -> None:
        """Write the words that are kept of instance i, or their numbers, to its row."""
        code = self.code
        with code.loop(self.counts["kept"], "kept.ranges") as k:
            entry = self._array("kept", k)
            address, count, words, stride, reals, scale = (entry[j].load() for j in range(6))
            exact, rounded, after = code.block("words"), code.block("numbers"), code.block("kept")
            code.branch(words.ne(0), exact, rounded)
            code.start(exact)
            self._store_words(entry, address, count, words + i * stride)
            code.start(rounded)
            with code.when(reals.ne(0), "numbers"), code.loop(count, "number") as j:
                integer_ = self._word(address + j).to(integer(self.w.width)).to(I64, "sext")
                real = integer_.convert("sitofp", DOUBLE) * scale.convert("bitcast", DOUBLE)
                self._at(reals, DOUBLE)[i * count + j].store(real)
                if self.w.width > EXACT:
                    with code.when((integer_ + (1 << EXACT)).gtu(2 << EXACT), "large", likely=False):
                        self._large(k).store(1)
            code.start(after)

    def _store_words(self, entry: Pointer, address: Value, count: Value, row: Value) -> None:
        """Write kept words to a row."""
        self._store_words_of(I64, address, count, row)

    def _store_words_of(self, target: Type, address: Value, count: Value, row: Value) -> None:
        with self.code.loop(count, "word") as j:
            self._at(row, target)[j].store(self._word(address + j).to(target))

    def _large(self, k: Value) -> Pointer:
        """The mark of the k-th kept range, set where a number has more bits than a float64."""
        return self._array("kept", k)[6]

    def _word(self, address: Value) -> Value:
        return self._place(address).load(self.word.bits // 8)


# -----------------------------------------------------------------------------
# Batch loop for lanes: runs a program's translations for lanes for as many instances at once as there are lanes.

#: words of memory that each lane has for registers
REGISTERS = 256
#: the surplus of groups that part over groups that do not, from which on groups are no longer run converged
PARTED = 4
#: most groups of a block, and words of a lane in all its memories: with twice as many, a Jacobian of bundle adjustment, whose
#: rows are in the first cache beside them, took 1.4 times as long
MOST_GROUPS, BLOCK = 16, 128


def groups_of(n: int) -> int:
    """The groups of a block whose memories have n words."""
    return min(MOST_GROUPS, max(1, BLOCK // (n + 1)))


def emit_lane_loop(module: ModuleBuilder, w: Format, converged: str, diverging: str, name: str, lanes: int) -> None:
    """Define the function that runs a batch by `converged` and `diverging`, two translations for that many lanes.

    `converged` (converged_lanes.py) runs all lanes or none. The instances that it gives up are run by `diverging` (lanes.py), if the
    module has that function, from their given words.
    The function is called like that of `emit_array_loop`; M is room for lanes · (groups · (n + 1) + REGISTERS) words, see `groups_of`, and begins at a
    multiple of 64 bytes. An instance that is given up has status 1, like an instance that fails: only a run alone decides which of the two it is.
    """
    LaneLoop(module, w, converged, diverging, name, lanes).define()


class _Steps(NamedTuple):
    """The address of the first word, and the bytes from group to group and from word to word."""

    first: Value
    by_group: Value
    by_word: Value


class LaneLoop(ArrayLoop):
    """The batch loop under construction.

    Groups of as many instances as lanes form a block, in which each group has a memory. A range of the table is read once for
    a block: with a block for each group, a batch of cubic polynomials takes 1.4 times as long.
    """

    #: the lane whose memory is meant
    lane: Value

    def __init__(self, module: ModuleBuilder, w: Format, converged: str, diverging: str, name: str, lanes: int) -> None:
        super().__init__(module, w, converged, name)
        self.diverging = module.callees.get(diverging)
        self.lanes, self.memory = lanes, self._pointer("M", self.word)

    def _place(self, address: Value) -> Pointer:
        return self.memory[address * self.lanes + self.lane]

    def define(self) -> None:
        code, lanes, last = self.code, self.lanes, self.given["last"]
        self._read_columns()
        self.reports_of = code.variable(I64, "reports", count=MOST_GROUPS * REPORT * lanes, align=64)
        alive, good = code.variable(I64, "alive"), code.variable(I64, "good")
        self.fits, self.other = code.variable(I1, "fits"), code.variable(I64, "other")
        #: whether the memories of all groups of a block are filled; a bit for each group whose lanes have completed
        self.filled, self.completed = code.variable(I1, "filled"), code.variable(I64, "completed")
        #: how often converged lanes parted, less how often they did not
        parted = code.variable(I64, "parted", 0)
        every = (1 << lanes) - 1
        first = self.memory
        fit = code.constant(I64, BLOCK).udiv(self.n + 1)
        fit = fit.gtu(MOST_GROUPS).select(MOST_GROUPS, fit)
        groups = fit.eq(0).select(1, fit)
        #: words of a memory of a group; where lanes have their registers
        self.apart = (self.n + 1) * lanes
        self.registers = first[groups * self.apart]
        at = code.variable(I64, "first", self.given["first"])
        with code.counting(0, 1, lambda _: at.load().lt(last) & self._goes_on(), "blocks"):
            begin = at.load()
            whole = (last - begin).udiv(lanes)
            whole = whole.eq(0).select(1, whole)
            here = whole.ltu(groups).select(whole, groups)
            self.filled.store(0)
            with code.when(self._all_pending(begin, here), "block"):
                self._fill_block(begin, here)
            self.completed.store(0)
            with self._groups(begin, here, "groups") as (g, i, report):
                alive.store(self.filled.load().select(code.constant(I64, every), 0))
                with code.when(alive.load().eq(0), "singly"):
                    self._begin(i, alive)
                good.store(0)
                with code.when(alive.load().ne(0) & parted.load().lt(PARTED), "together"):
                    good.store(self._run_lanes(self.instance, report, alive))
                    agreed = good.load().eq(every)
                    parted.add(agreed.select(-1, code.constant(I64, 1)))
                    with code.unless(agreed, "apart"):
                        self._begin(i, alive)
                if self.diverging is not None:
                    with code.when(alive.load().ne(0) & good.load().eq(0), "run"):
                        good.store(self._run_lanes(self.diverging, report, alive))
                completed = (alive.load() & good.load()).eq(every)
                with code.when(completed, "completed"):
                    self.completed.store(self.completed.load() | code.constant(I64, 1) << g)
                with (
                    code.unless(completed, "some"),
                    code.loop(lanes, "end") as self.lane,
                    code.when(alive.load().shr(self.lane).to(I1), "alive"),
                ):
                    self._finish(i + self.lane, report, good.load().shr(self.lane).to(I1))
            self._finish_block(begin, here)
            at.add(here * lanes)
        code.ret()

    @contextmanager
    def _walk(self, count: Value, groups: Value, name: str, *places: _Steps) -> Iterator[tuple[Value, list[Value]]]:
        """A loop over the words of a range and the groups of a block: the group, and the address in each place.

        The words of a single group are the inner loop, and the groups where there are more.
        """
        code, one = self.code, groups.eq(1)
        addresses = [code.variable(I64, f"{name}.at") for _ in places]
        group = code.variable(I64, f"{name}.group")
        steps = [
            (address, one.select(by_word, by_group))
            for address, (_, by_group, by_word) in zip(addresses, places, strict=True)
        ]
        with code.loop(one.select(1, count), f"{name}.outer") as s:
            for address, place in zip(addresses, places, strict=True):
                address.store(place.first + s * place.by_word)
            group.store(0)
            with code.loop(one.select(count, groups), name):
                yield group.load(), [address.load() for address in addresses]
                for address, step in steps:
                    address.add(step)
                group.add(one.select(0, code.constant(I64, 1)))

    def _words_at(self, address: Value) -> _Steps:
        """The memories of a block, from an address on."""
        size = self.lanes * (self.word.bits // 8)
        first = self.given["M"].convert("ptrtoint", I64)
        return _Steps(first + address * size, self.apart * (self.word.bits // 8), self.code.constant(I64, size))

    @contextmanager
    def _groups(self, first: Value, count: Value, name: str) -> Iterator[tuple[Value, Value, Pointer]]:
        """A loop over the groups of a block, `memory` being theirs: the group, its first instance, and its report."""
        whole = self.memory
        with self.code.loop(count, name) as g:
            self.memory = whole[g * self.apart]
            yield g, first + g * self.lanes, self.reports_of[g * (REPORT * self.lanes)]
        self.memory = whole

    @contextmanager
    def _completed(self, first: Value, count: Value, name: str) -> Iterator[tuple[Value, Pointer]]:
        """A loop over the groups of a block whose lanes have completed."""
        done = self.completed.load()
        with self._groups(first, count, name) as (g, i, report), self.code.when(done.shr(g).to(I1), name, likely=True):
            yield i, report

    # ------------------------------------------------------------------ all lanes at once

    def _all_pending(self, first: Value, groups: Value) -> Value:
        """Whether there are as many instances from a number on as in these groups, and all are still to be run."""
        code, lanes = self.code, self.lanes
        found = code.variable(I1, "pending", 0)
        found.store((first + groups * lanes).leu(self.given["last"]))
        with code.when(found.load(), "full"), code.loop(groups, "status") as g:
            states = self.status[first + g * lanes].of(I8.vector(lanes)).load(1)
            found.store(found.load() & states.ne(PENDING).convert("bitcast", integer(lanes)).eq(0))
        return found.load()

    def _rows(self, first: Value, stride: Value) -> Iterator[Pointer]:
        """Where the number of each lane lies, from lane to lane `stride` bytes."""
        # Else LLVM steps the addresses of all lanes in each pass of the loop around, whether it needs them or not.
        first = self.code.assembly("", "=r,0", I64, first)
        for _ in range(self.lanes):
            yield first.of(I64)
            first = first + stride

    def _read_rows(self, first: Value, stride: Value) -> Value:
        """64 bits of each lane's row. Apart, they are read one by one: by gathers, and scatters back, a row of
        bundle adjustment's Jacobian took 1.4 times as long on an AMD EPYC with AVX-512."""
        code = self.code
        row, apart, both = map(code.block, ("row", "apart", "both"))
        code.branch(stride.eq(8), row, apart)
        code.start(row)
        one = first.of(I64.vector(self.lanes)).load(8)
        code.jump(both)
        code.start(apart)
        other = code.gathered([place.load() for place in self._rows(first, stride)])
        code.start(both)
        return code.phi((one, row), (other, apart), type_=one.type)

    def _write_rows(self, first: Value, stride: Value, value: Value) -> None:
        """Write 64 bits into each lane's row."""
        near = stride.eq(8)
        with self.code.when(near, "row"):
            first.of(I64.vector(self.lanes)).store(value, 8)
        with self.code.unless(near, "apart"):
            for k, place in enumerate(self._rows(first, stride)):
                place.store(value.lane(k))

    def _vector(self, address: Value) -> Pointer:
        """The word of an address in all lanes."""
        return self.memory.of(self.word.vector(self.lanes))[address]

    def _fill_block(self, begin: Value, groups: Value) -> None:
        """Fill the memories of a block as `_fill` does; `filled` stays 0 where some number has no word."""
        code, lanes, size = self.code, self.lanes, self.word.bits // 8
        bad = code.variable(integer(lanes), "bad", 0)
        bad.store(0)
        with code.loop(self.counts["given"], "given.ranges") as k:
            entry = self._array("given", k)
            address, count, base, stride, step, scale = (entry[j].load() for j in range(6))
            rows = _Steps(base + begin * stride, stride * lanes, step)
            with self._walk(count, groups, "given", self._words_at(address), rows) as (_, (to, first)):
                vector = to.of(self.word.vector(lanes))
                reals, words, after = code.block("reals"), code.block("words"), code.block("filled")
                code.branch(scale.ne(0), reals, words)
                code.start(words)
                vector.store(self._read_rows(first, stride).to(self.word), size)
                code.jump(after)
                code.start(reals)
                numbers = self._read_rows(first, stride).convert("bitcast", DOUBLE.vector(lanes))
                scaled = numbers * scale.convert("bitcast", DOUBLE).splat(lanes)
                rounded = code.intrinsic("rint", scaled)
                inside = code.compare("sge", rounded, -float(self.w.sign)) & rounded.lt(float(self.w.sign))
                word = inside.select(rounded, code.constant(rounded.type, 0.0)).convert("fptosi", I64)
                vector.store((word & self.w.mask).to(self.word), size)
                bad.store(bad.load() | (~inside).convert("bitcast", bad.element))
                code.start(after)
        self.filled.store(bad.load().eq(0))
        with code.when(self.filled.load(), "fit"), code.loop(self.counts["shared"], "shared.ranges") as k:
            at = self.firsts["shared"] + (k << 1)
            address, count = self.table[at].load(), self.table[at + 1].load()
            source = self.given["shared"].convert("ptrtoint", I64) + address * size
            same = _Steps(source, code.constant(I64, 0), code.constant(I64, size))
            with self._walk(count, groups, "shared", self._words_at(address), same) as (_, (to, first)):
                to.of(self.word.vector(lanes)).store(first.of(self.word).load().splat(lanes), size)

    def _finish_block(self, begin: Value, groups: Value) -> None:
        """Write status, report and kept words of all lanes of the groups that have completed: see `_finish`."""
        code, lanes, size = self.code, self.lanes, self.word.bits // 8
        of_instances, done = I64.vector(lanes), self.completed.load()
        with self._completed(begin, groups, "status") as (i, _):
            self.status[i].of(I8.vector(lanes)).store(code.constant(I8.vector(lanes), 0), 1)
        for which, counts in enumerate(self.reports):
            with code.when(counts.ne(0), "reported"), self._completed(begin, groups, "report") as (i, report):
                counts.of(I64)[i].of(of_instances).store(report.of(of_instances)[which].load(8), 8)
        with code.loop(self.counts["kept"], "kept.ranges") as k:
            entry = self._array("kept", k)
            address, count, words, stride, reals, scale = (entry[j].load() for j in range(6))
            eight = code.constant(I64, 8)
            places = (
                _Steps(words + begin * stride, stride * lanes, eight),
                _Steps(reals + (begin * count << 3), count * (8 * lanes), eight),
            )
            with (
                self._walk(count, groups, "kept", self._words_at(address), *places) as (g, (at, row, real_row)),
                code.when(done.shr(g).to(I1), "completed", likely=True),
            ):
                word = at.of(self.word.vector(lanes)).load(size)
                with code.when(words.ne(0), "words"):
                    self._write_rows(row, stride, word.to(I64))
                with code.when(reals.ne(0), "numbers"):
                    number = word.to(integer(self.w.width)).to(I64, "sext")
                    real = number.convert("sitofp", DOUBLE) * scale.convert("bitcast", DOUBLE).splat(lanes)
                    self._write_rows(real_row, count << 3, real.convert("bitcast", of_instances))
                    if self.w.width > EXACT:
                        large = (number + (1 << EXACT)).gtu(2 << EXACT).convert("bitcast", integer(lanes))
                        with code.when(large.ne(0), "large", likely=False):
                            entry[6].store(1)
        with self._words("summed") as (address, column), self._completed(begin, groups, "summed"):
            word = self._vector(address).load(size).to(integer(self.w.width)).to(I64, "sext")
            halves = word & 0xFFFFFFFF, word.sar(32)
            self._add([code.intrinsic("vector.reduce.add", half, result=I64) for half in halves], column)

    # ------------------------------------------------------------------ one lane after the other

    def _begin(self, i: Value, alive: Pointer) -> None:
        """Fill the memory of the pending instances from number i on; `alive` := their lanes. Other lanes are filled as one of these."""
        code, lanes = self.code, self.lanes
        alive.store(0)
        with code.loop(lanes, "begin") as self.lane:
            number = i + self.lane
            with (
                code.when(number.lt(self.given["last"]), "look"),
                code.when(self.status[number].load().eq(PENDING), "fill"),
            ):
                self._fill(number, self.fits)
                with code.when(self.fits.load(), "fits"):
                    alive.store(alive.load() | code.constant(I64, 1) << self.lane)
                    self.other.store(number)
        with code.when(alive.load().ne(0), "shared"):
            with code.loop(lanes, "idle") as self.lane, code.unless(alive.load().shr(self.lane).to(I1), "copy"):
                self._fill(self.other.load(), self.fits)
            with self._words("shared") as (address, _):
                self._vector(address).store(self.shared[address].load().splat(lanes), self.word.bits // 8)

    def _run_lanes(self, instances: Callee, report: Pointer, alive: Pointer) -> Value:
        """Run the living lanes. Returns the set of lanes that completed, a bit for each."""
        mask = alive.load().to(integer(self.lanes))
        return self.code.call(
            instances, self.memory, self.n, self.limit, report, self.given["stop"], self.registers, mask
        )

    def _finish(self, i: Value, report: Pointer, ended: Value) -> None:
        """Write status, report and kept words of the instance of the lane."""
        self.status[i].store((~ended).to(I8))
        self._report(i, report[self.lane], self.lanes)
        with self.code.when(ended, "keep"):
            self._keep(i)
            self._add_all()


# -----------------------------------------------------------------------------
# Compiled loops over rows: a program's translation with its batch loop, compiled once, then kept in the process and on disk.

#: instructions of the longest program that is translated for lanes; its code for lanes is several times as long
LONGEST_FOR_LANES = 3000
#: more lanes of narrow words would mostly wait for each other
MOST_LANES = 32


def lanes_of(w: Format) -> int:
    """Instances that run side by side: as many as a register of the vector unit has words."""
    lanes = jit_compiler().lanes
    if lanes == 1 or storage(w).bits != w.width:
        return 1
    return max(lanes, min(lanes * 64 // w.width, MOST_LANES))


def batch_ir(program: Program, *, backward: bool = False, overflow: bool = True, checks: bool = True) -> str:
    """The batch's code as LLVM IR: `instance` runs one instance, `batch` all instances of a range of rows."""
    return _ir(program, variant_of(program, backward, overflow, checks))


def variant_of(
    program: Program, backward: bool, overflow: bool, checks: bool, cycles: bool = False, core: str = "small"
) -> Variant:
    """The translation of an instance of a batch."""
    # On an overlapped core an uncompute block takes other cycles than its compute block, so it is executed where they are counted.
    ghosts = None if cycles and core_units(core).overlapped else ghosts_of(program)
    return Variant(
        backward=backward, overflow=overflow, checks=checks, whole=False, cycles=cycles, core=core, ghosts=ghosts
    )


def _ir(program: Program, variant: Variant, lanes: int = 1) -> str:
    module = jit_compiler().module()
    if lanes == 1:
        translate_instance(program, variant, module, "instance")
        emit_array_loop(module, program.format, "instance", "batch")
    else:
        translate_converged(program, variant, module, lanes, "converged")
        if jit_compiler().diverging:
            # Without masks, lanes that diverge take longer than instances alone.
            translate_lanes(program, replace(variant, ghosts=None), module, lanes, "diverging")
        emit_lane_loop(module, program.format, "converged", "diverging", "batch", lanes)
    return module.text()


class _Parts(NamedTuple):
    code: tuple[int, ...]
    format: Format
    table: Table
    variant: Variant
    lanes: int


class Key(_Parts):
    """All that the code of a loop depends on. Its hash is computed once, since a program may be long."""

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash


#: the code of loops over batches; None for a loop that lanes cannot run
_loops: dict[Key, TieredCode | None] = {}


def key_of(program: Program, variant: Variant, lanes: int) -> Key:
    """The key of a loop."""
    if lanes > 1:
        variant = replace(variant, tables=tables_of(program))
    return Key(tuple(program.code), program.format, program.table, variant, lanes)


def tables_of(program: Program) -> tuple[tuple[int, int], ...]:
    """The regions that begin with words of the program that are not all zero."""
    starts = sorted({at for at in program.data_labels.values() if 0 <= at < program.memory})
    return tuple((start, end) for start, end in pairwise([*starts, program.memory]) if any(program.data[start:end]))


def loop_of(program: Program, variant: Variant) -> TieredCode:
    """The loop over a batch, one instance after the other."""
    found = _loop(key_of(program, variant, 1))
    assert found is not None
    return found


def lane_loop_of(key: Key, seconds: float) -> TieredCode | None:
    """The loop over a batch in lanes; None if they cannot run the program. `seconds`: the time that the batch takes without it.

    Its code comes from the background if compiling it would take much longer.
    """
    return _loop(key, tiering.policy.costs.patience * seconds)


def _loop(key: Key, most: float = math.inf) -> TieredCode | None:
    if key in _loops:
        return _loops[key]
    code, w, table, variant, lanes = key
    bare = Program(code, format=w, table=table)

    def emit() -> str:
        return _ir(bare, variant, lanes)

    name = _name(key) if table is TABLE else f"{lanes} {_ir(bare, variant)}"
    found: TieredCode | None = None
    # Code for lanes is longer.
    price = tiering.policy.costs.optimised_translation(len(code)) * (1 + (lanes > 1))
    if lanes == 1 or len(code) <= LONGEST_FOR_LANES:
        found = TieredCode(name, "batch", emit, level_for(len(code)), price, first=lanes == 1, most=most)
    _loops[key] = found
    return found


def is_loaded(key: Key) -> bool:
    """Whether a loop is loaded."""
    return key in _loops


def give_up(key: Key) -> None:
    """Run batches without the loop from now on."""
    _loops[key] = None


def _name(key: Key) -> str:
    code, w, _, variant, lanes = key
    return f"{source_digest()} batch {w} {variant} {lanes} {sha256(repr(code).encode()).hexdigest()}"


def price(
    program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool, core: str = "small"
) -> float:
    """Seconds until the code of such a batch is loaded."""
    costs, n = tiering.policy.costs, len(program.code)
    key = key_of(program, variant_of(program, backward, overflow, checks, cycles, core), 1)
    kept = program.table is TABLE and any(jit_compiler().has(_name(key), level) for level in (level_for(n), 0))
    return costs.load_translation if kept else costs.translation(n)


def at_hand(
    program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool, core: str = "small"
) -> bool:
    """Whether the code of such a batch is loaded."""
    return key_of(program, variant_of(program, backward, overflow, checks, cycles, core), 1) in _loops


def longest_stretch(program: Program, backward: bool) -> int:
    """More steps than an instance takes between two tests of its limit, which are at back edges. An instance with fewer steps left
    is not begun."""
    return facts_of(tuple(program.code), program.format, program.table, backward).stretch


class Facts(NamedTuple):
    """What holds for every run of a program."""

    #: see `longest_stretch`
    stretch: int
    #: whether some instruction loses words
    loses: bool
    #: the instructions of each run that ends; None where runs may take different ways
    steps: int | None


@cache
def facts_of(code: tuple[int, ...], w: Format, table: Table, backward: bool) -> Facts:
    """The facts of a program from one of its ends."""
    flow = flow_of(Program(code, format=w, table=table), Variant(backward=backward, whole=False))
    executed = [flow.code[at].opcode for run in flow.blocks.values() for at in run]
    one_way = not flow.headers and all(len(ways) <= 1 for ways in flow.successors.values())
    steps = sum(not opcode.halts for opcode in executed) if one_way else None
    return Facts(len(executed) + 1, any(opcode.erased_words for opcode in executed), steps)
