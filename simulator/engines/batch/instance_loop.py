"""Batch loop: the function that runs a translated program once for each instance of a batch.

The parts that all batch loops share: on a CPU (array_loop.py), in lanes of its vector unit (lane_loop.py), and as a CUDA kernel
(cuda/kernel_loop.py). Words are summed as integers. Integer addition is associative, so a sum does not depend on how instances are
shared out among threads, nor on the order in which they complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.types import I8, I64, VOID, Type, integer, storage

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
        why = self.code.call(self.instance, *memory, *([] if self.device else [self.given["stop"]]))
        ended = why.eq(0)
        good.store(ended)
        self.status[i].store((~ended).to(I8))

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
