"""Batch loop: the function that runs a translated program once for each instance of a batch, on a CPU or as a CUDA kernel.

Words are summed as integers. Integer addition is associative, so a sum does not depend on how instances are shared out among
threads, nor on the order in which they complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.layout import HEAD, KINDS
from retrograd.simulator.engines.llvm.builder import Callee, ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.types import GLOBAL, I8, I32, I64, POINTER, VOID, Type, integer, pointer, storage

#: status of an instance that is still to be run; afterwards 0 where it completed, 1 where it did not
PENDING = 2
#: numbers that an instance reports
REPORT = 3
#: threads of a warp
WARP = 32


def emit_loop(module: ModuleBuilder, w: Format, instance: str, name: str, device: bool = False) -> None:
    """Define the function that runs `instance`, a translation, for many:

        name(rows, out, first, last, columns, shared, n, M, limit, report, status, sums, stop)               on a CPU
        name(rows, out, count, columns, shared, n, memory, stride, limit, report, status, sums)              a kernel

    `columns` is a `BatchLayout.table`, and row i of `rows` has the words that instance i is given; `shared` is a memory of n words.
    Where instance i completes, status[i] = 0 and row i of `out` has the words that are kept; elsewhere status[i] = 1. report[3i] and
    the two numbers behind it are its steps, the words that it lost, and its cycles if they are counted. Each summed word has two
    numbers in `sums`, see `exact_sums`.
    CPU: instances from `first` up to `last` whose status is PENDING, until the word at `stop` is not 0. M is room for a memory
    and a spare word. Kernel: thread t runs instances t, t + T, t + 2T, … of `count`; the grid has T threads. Its memory, n words
    and a spare word, is interleaved with the others: word a at memory[a·stride + t], stride ≥ T, so that neighbours
    read neighbouring words. Where words are summed, blocks are of whole warps.
    """
    InstanceLoop(module, w, instance, name, device).define()


class InstanceLoop:
    """The batch loop under construction. LaneLoop (lane_loop.py) runs several instances side by side."""

    def __init__(self, module: ModuleBuilder, w: Format, instance: str, name: str, device: bool) -> None:
        self.module, self.w, self.device, self.word = module, w, device, storage(w)
        p = pointer(GLOBAL if device else 0)
        own: dict[str, Type] = {"count": I64} if device else {"first": I64, "last": I64}
        memory: dict[str, Type] = {"memory": p, "stride": I64} if device else {"M": p}
        parameters = {"rows": p, "out": p, **own, "columns": p, "shared": p, "n": I64, **memory}
        parameters |= {"limit": I64, "report": p, "status": p, "sums": p} | ({} if device else {"stop": POINTER})
        attributes, convention = ("", "ptx_kernel") if device else ("nounwind", "")
        code = self.code = module.function(
            name, VOID, parameters, attributes, linkage="", convention=convention, restrict=parameters.keys() - {"stop"}
        )
        self.given = dict(zip(parameters, code.arguments, strict=True))
        self.n, self.limit = self.given["n"], self.given["limit"]
        self.rows, self.out, self.shared = (self._pointer(name, self.word) for name in ("rows", "out", "shared"))
        self.columns, self.report, self.sums = (self._pointer(name, I64) for name in ("columns", "report", "sums"))
        self.status = self._pointer("status", I8)
        self.instance = module.callees[instance]

    def _pointer(self, name: str, element: Type) -> Pointer:
        return self.given[name].of(element)

    def define(self) -> None:
        code = self.code
        self._read_columns()
        good = code.variable(integer(1), "good", 0)
        if self.device:
            first, step, lane = self._threads()
            end = self.given["count"]
        else:
            first, step, lane = self.given["first"], code.constant(I64, 1), code.constant(I64, 0)
            end, self.memory = self.given["last"], self._pointer("M", self.word)

        def more(i: Value) -> Value:
            # All threads of a warp go on as long as one of them has an instance, because they add up together.
            return (i - lane).lt(end) if self.device else i.lt(end) & self._goes_on()

        with code.counting(first, step, more, "instances") as i:
            good.store(0)
            with code.when(i.lt(end) if self.device else self.status[i].load().eq(PENDING), "enter"):
                self._fill(i)
                with self._words("shared") as (address, _):
                    self._copy(self.shared[address], self._place(address))
                self._run(i, good)
                with code.when(good.load(), "keep"):
                    self._keep(i)
            self._sum(good, lane)
        code.ret()

    def _goes_on(self) -> Value:
        """Whether the host has not set `stop`."""
        return self._pointer("stop", I64).load(volatile=True).eq(0)

    def _run(self, i: Value, good: Pointer) -> None:
        """Run instance i; `good`: whether it completed."""
        memory = self.memory, self.n, self.given.get("stride", 1), self.limit, self.report[i * REPORT]
        why = self.code.call(self.instance, *memory, *([] if self.device else [self.given["stop"]]))
        ended = why.eq(0)
        good.store(ended)
        self.status[i].store((~ended).to(I8))

    # ------------------------------------------------------------------ words

    def _read_columns(self) -> None:
        """Find the parts of the layout's table."""
        self.counts = {kind: self.columns[k].load() for k, kind in enumerate(KINDS)}
        self.firsts: dict[str, Value] = {}
        at = self.code.constant(I64, HEAD)
        for kind in KINDS:
            self.firsts[kind] = at
            at = at + (self.counts[kind] << 1)
        self.width_given, self.width_kept = (self.columns[len(KINDS) + k].load() for k in (0, 1))

    @contextmanager
    def _words(self, kind: str) -> Iterator[tuple[Value, Value]]:
        """A loop over the words of the ranges of a kind: their addresses and columns."""
        column = self.code.variable(I64, f"{kind}.column", 0)
        with self.code.loop(self.counts[kind], f"{kind}.ranges") as k:
            at = self.firsts[kind] + (k << 1)
            address, count, before = self.columns[at].load(), self.columns[at + 1].load(), column.load()
            with self.code.loop(count, f"{kind}.word") as j:
                yield address + j, before + j
            column.store(before + count)

    def _place(self, address: Value) -> Pointer:
        """Where the instance has the word of an address."""
        return self.memory[address * self.given["stride"] if self.device else address]

    def _copy(self, source: Pointer, target: Pointer) -> None:
        size = self.word.bits // 8
        target.store(source.load(size), size)

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

    # ------------------------------------------------------------------ sums

    def _sum(self, good: Pointer, lane: Value) -> None:
        """Add the words that are summed, of an instance that completed."""
        some = self.counts["summed"].ne(0) if self.device else good.load()
        with self.code.when(some, "sum"):
            if self.device:
                barrier = self.module.declare("llvm.nvvm.bar.warp.sync", VOID, I32, pure=False)
                self.code.call(barrier, -1)
            with self._words("summed") as (address, column):
                if self.device:
                    self._add_in_warp(self._halves(address, good.load()), column, lane)
                else:
                    self._add(self._halves(address), column)

    def _halves(self, address: Value, good: Value | None = None) -> list[Value]:
        """The lower 32 bits of a signed word, and the bits above; zeros where the instance is not `good`."""
        word = self._place(address).load().to(integer(self.w.width)).to(I64, "sext")
        word = word if good is None else good.select(word, 0)
        return [word & 0xFFFFFFFF, word.sar(32)]

    def _add(self, halves: list[Value], column: Value) -> None:
        for k, half in enumerate(halves):
            self.sums[(column << 1) + k].add(half)

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
