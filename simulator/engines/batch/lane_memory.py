"""Memory of instances side by side: word a of lane l lies at M[a·lanes + l], so a word at one address is a vector.

Where all lanes access one address, a vector is read or written; elsewhere words are gathered and scattered.
"""

from __future__ import annotations

from collections.abc import Callable

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.trees import LANE_WIDTH
from retrograd.simulator.engines.llvm.types import I1, I64, POINTER, VOID, Type, integer
from retrograd.simulator.engines.translator.flow import Flow, Variant
from retrograd.simulator.engines.translator.translate import Translator

#: bytes of a word
BYTES = LANE_WIDTH // 8


def check_lanes(program: Program) -> None:
    """Raise NotImplementedError for words that are not of 64 bits."""
    if program.format.width != LANE_WIDTH:
        raise NotImplementedError(f"lanes of {program.format}")


class VectorTranslator(Translator):
    """Emits the function of a program for several instances. `_mask()`: the lanes whose memory is read and written."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, lanes: int, name: str) -> None:
        self.lanes = lanes
        super().__init__(flow, variant, module, name)
        self.truth, self.mask = I1.vector(lanes), integer(lanes)
        written = {
            getattr(flow.code[at], REGISTER_FIELDS[place])
            for at, found in self.steps.items()
            for place in found.after
            if place in REGISTER_FIELDS
        }
        #: registers that stay zero
        self.zeros = set(self.used) - written

    def _parameters(self) -> dict[str, Type]:
        p = POINTER
        return {"M": p, "n": I64, "limit": I64, "report": p, "stop": p, "R": p, "lanes": integer(self.lanes)}

    def _begin_memory(self) -> None:
        self.memories = {"m": self.given["M"].of(self.word)}
        self.beyond = self.given["n"].splat(self.lanes)
        self.own = self.code.vector(range(self.lanes), I64)

    def _mask(self) -> Value:
        raise NotImplementedError

    def _set_of(self, bits: Value) -> Value:
        return bits.convert("bitcast", self.truth)

    def _bits(self, lanes: Value) -> Value:
        """A set of lanes as a number."""
        return lanes.convert("bitcast", self.mask)

    # ------------------------------------------------------------------ memory

    def _address(self, i: Instruction) -> None:
        """`self.address` := the address in each lane, or `self.first`, if that is the same in all; `self.uniform`: whether it is."""
        self.uniform: Value | None = None
        if i.ra in self.zeros:
            at = self.unchecked = self.code.constant(I64, i.imm)
            inside = at.ltu(self.given["n"])
            self.failed.append(self._set_of((~inside).to(self.mask, "sext")))
            self.first = self.address = inside.select(at, self.given["n"])
            return
        address = self.unchecked = self._read(f"r{i.ra}") + i.imm
        inside = address.ltu(self.beyond)
        self.failed.append(~inside)
        self.address = inside.select(address, self.beyond)
        self.first = self.address.lane(0)
        same = self.address.eq(self.first.splat(self.lanes))
        self.uniform = self._bits(same | ~self._mask()).eq(-1)

    def _places(self) -> tuple[Pointer, Pointer]:
        """(where the words of all lanes lie if the address is the same for all, where the word of each lane lies)"""
        memory = self.memories["m"]
        if self.uniform is None:
            return memory[self.first], memory
        return memory[self.first], memory.of(I64)[self.address << self.lanes.bit_length() - 1 | self.own]

    def _either(self, one: Callable[[], Value], many: Callable[[], Value]) -> Value:
        """Emit `one` for the case that the address is the same for all lanes, `many` for the other; the value of either.

        Neither way computes a value that is used beyond it, so all values so far stay known.
        """
        if self.uniform is None:
            return one()
        code = self.code
        same, different, both = map(code.block, ("same", "different", "both"))
        code.branch(self.uniform, same, different, likely=True)
        code.start(same, keep=True)
        first = one()
        code.jump(both)
        code.start(different, keep=True)
        second = many()
        code.start(both, keep=True)
        return first if first.type is VOID else code.phi((first, same), (second, different), type_=first.type)

    def _load(self, place: str) -> Value:
        found = self.loaded.get((place, self.address))
        if found is None:
            (one, each), mask = self._places(), self._mask()
            found = self._either(lambda: one.load(BYTES), lambda: each.gather(mask, BYTES))
            self.loaded[place, self.address] = found
        return found

    def _write(self, place: str, value: Value) -> None:
        (one, each), mask = self._places(), self._mask()
        self._either(lambda: one.store_lanes(value, mask, BYTES), lambda: each.scatter(value, mask, BYTES))
