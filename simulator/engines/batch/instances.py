"""An instance of a batch, run alone on a CPU: a failed check ends it at once.

The words of an instance that fails are discarded, and a machine runs it again from its given words. So nothing has to be undone,
and no state has to be precise: a check is a comparison and a branch that is not taken. The deferred checks of a whole machine
(translate.py) gather flags instead, and use a spare word for addresses outside memory.

Checks of addresses are shared: the accesses of a straight run that add constants low … high to one word of a register lie in memory if and
only if its word + low lies below n − (high − low). An access with a region (ghost_uncompute.py) is checked for its region alone, which
lies in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrograd.isa.encoding import Instruction
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, Value
from retrograd.simulator.engines.llvm.types import I64
from retrograd.simulator.engines.state.control_block import Exit
from retrograd.simulator.engines.translator.flow import Flow, Variant, flow_of
from retrograd.simulator.engines.translator.mirrors import Region, has_address, written
from retrograd.simulator.engines.translator.translate import Translator


class AccessRange(NamedTuple):
    """The least and the largest constant that accesses add to a register, and the region in which they must lie."""

    low: int
    high: int
    region: Region | None

    @property
    def span(self) -> int:
        return self.high - self.low


def access_ranges(
    code: Sequence[Instruction], run: Sequence[int], regions: Mapping[int, Region]
) -> dict[int, AccessRange]:
    """Of a straight run: the address of the first access to each word of a register -> the range of all of them."""
    writes: dict[int, int] = {}
    #: (register, writes to it so far, region) -> (the first access, the constants)
    found: dict[tuple[int, int, Region | None], tuple[int, list[int]]] = {}
    for at in run:
        i = code[at]
        if has_address(i):
            key = i.ra, writes.get(i.ra, 0), regions.get(at)
            found.setdefault(key, (at, []))[1].append(i.imm)
        for r in written(i):
            writes[r] = writes.get(r, 0) + 1
    return {at: AccessRange(min(added), max(added), key[2]) for key, (at, added) in found.items()}


def translate_instance(program: Program, variant: Variant, module: ModuleBuilder, name: str) -> None:
    """Define the function of one instance in the module, with the parameters of `translate`. Where it fails, it reports zeros."""
    InstanceTranslator(flow_of(program, variant), variant, module, name).emit()


class InstanceTranslator(Translator):
    """Emits the function of a program for one instance whose words are discarded where it fails."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, name: str) -> None:
        super().__init__(flow, variant, module, name)
        self.discard = self.code.block("discard")
        # No check is ever pending.
        self.fails = False
        regions = self.ghosts.expected if self.ghosts else {}
        self.ranges = {
            at: found for run in flow.blocks.values() for at, found in access_ranges(flow.code, run, regions).items()
        }

    def _begin(self) -> None:
        super()._begin()
        n = self.given["n"]
        spans = sorted({found.span for found in self.ranges.values() if found.region is None})
        #: high − low of a range -> the number of its first addresses that are in memory
        self.rooms = {span: n.gtu(span).select(n - span, 0) if span else n for span in spans}

    def _end(self) -> None:
        super()._end()
        self.code.start(self.discard)
        report = self.given["report"].of(I64)
        for k in range(3):
            report[k].store(0)
        self.code.ret(Exit.REFUSED)

    def _check(self, holds: Value) -> None:
        # Positive, since LLVM has no short form for the negation of some comparisons.
        on = self.code.block("on")
        self.code.branch(holds, on, self.discard, likely=True)
        self.code.start(on, keep=True)

    def _address(self, i: Instruction) -> None:
        base, found = self._read(f"r{i.ra}"), self.ranges.get(self.at)
        self.address = self.unchecked = (base + i.imm).to(I64)
        if found is None:
            return
        first = (base + found.low).to(I64)
        if found.region is None:
            self._check(first.ltu(self.rooms[found.span]))
        else:
            start, size = found.region
            self._check((first - start).ltu(max(size - found.span, 0)))

    def _stray(self, at: int) -> None:
        """`_address` has checked the region."""
