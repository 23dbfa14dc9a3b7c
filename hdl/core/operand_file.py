"""The operand file: temporaries and constants, and the three operands of a microword."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.gating import any_of
from retrograd.hdl.microword import FILE_BITS, LATCHES, PROMPT, PROMPTS, SOURCE, Select
from retrograd.isa.microarchitecture.micro_operations import TEMPORARIES

PORTS = ("x", "y", "z")


class OperandFile(wiring.Component):
    """Operands and their selections stand in registers, so a selection must arrive one cycle before its operand.

    The first microword of an execution has no row before it: it reads latches and a few constants.

    Raises ValueError for more constants than the file has room for.
    """

    def __init__(self, width: int, constants: Sequence[int], prompts: Sequence[int]) -> None:
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES or len(prompts) > PROMPTS:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.prompts = (*prompts, *[0] * (PROMPTS - len(prompts)))
        self.words = MemoryData(shape=width, depth=1 << FILE_BITS, init=[*[0] * TEMPORARIES, *constants])
        super().__init__(
            {
                #: selections of the first microword, and of the microword after the next
                **{f"{port}_first": In(5) for port in PORTS},
                **{f"{port}_source": In(SOURCE) for port in PORTS},
                #: the next microword is not the first of an execution
                "runs": In(1),
                #: the operands of this microword
                **{port: Out(width) for port in PORTS},
                #: the latches, by number
                "latches": In(width).array(LATCHES),
                #: the result of this cycle, and the temporary that it is written to
                "result": In(width),
                "temporary": In(range(TEMPORARIES)),
                "write": In(1),
                #: the result of the previous cycle
                "last": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(self.words)
        write = memory.write_port()
        m.d.comb += [write.addr.eq(self.temporary), write.data.eq(self.result), write.en.eq(self.write)]
        m.d.sync += self.last.eq(self.result)
        prompts = Array(Const(word, self.width) for word in self.prompts)
        for name in PORTS:
            source, first = getattr(self, f"{name}_source"), getattr(self, f"{name}_first")
            port = memory.read_port()
            m.d.comb += port.addr.eq(source.ahead)
            # One enable line for each word that can be selected. The lines of the first microword come from the dispatch entry.
            lines, told = Signal(Select.LAST.value + 1, name=f"{name}_lines"), Signal(Select.LAST.value + 1)
            m.d.sync += told.eq(Cat(source.select == number for number in range(len(told))))
            m.d.comb += lines.eq(Mux(self.runs, told, Cat(first == number for number in range(LATCHES))))
            words = [
                *(self.latches[number] for number in range(LATCHES)), port.data, self.last,
                Mux(self.runs, 0, prompts[first[:4]]),
            ]  # fmt: skip
            gates = [*lines[: Select.LAST.value], first >= PROMPT]
            late, word = Signal(name=f"{name}_late"), Signal(self.width, name=f"{name}_word")
            m.d.sync += [
                late.eq(lines[Select.LAST.value]),
                word.eq(any_of([gate.replicate(self.width) & word for gate, word in zip(gates, words, strict=True)])),
            ]
            # A result of this cycle arrives too late for the operand register and is selected behind it.
            m.d.comb += getattr(self, name).eq(Mux(late, self.last, word))
        return m
