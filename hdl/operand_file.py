"""The operand file: temporaries and constants, and the three operands of a microword."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microword import FILE_BITS, LATCHES, PROMPT, PROMPTS, SOURCE, TEMPORARIES, Select

PORTS = ("x", "y", "z")


class OperandFile(wiring.Component):
    """Sources named in one cycle are operands in the next, from registers: so that nothing but the function units takes time.

    Raises ValueError for more constants than there is room for.
    """

    def __init__(self, width: int, constants: Sequence[int], prompts: Sequence[int]) -> None:
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES or len(prompts) > PROMPTS:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.prompts = (*prompts, *[0] * (PROMPTS - len(prompts)))
        self.words = MemoryData(shape=width, depth=1 << FILE_BITS, init=[*[0] * TEMPORARIES, *constants])
        super().__init__(
            {
                #: what the next microword reads
                **{f"{port}_source": In(SOURCE) for port in PORTS},
                #: the operands that this one reads
                **{port: Out(width) for port in PORTS},
                #: the latches, by number
                "latches": In(width).array(LATCHES),
                #: this cycle's result, and the temporary that it is written to
                "result": In(width),
                "temporary": In(range(TEMPORARIES)),
                "write": In(1),
                #: the result of the cycle before
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
            source = getattr(self, f"{name}_source")
            port = memory.read_port()
            m.d.comb += port.addr.eq(source.ahead)
            late, word = Signal(name=f"{name}_late"), Signal(self.width, name=f"{name}_word")
            m.d.sync += late.eq(source.select == Select.LAST)
            with m.If(source.select >= PROMPT):
                m.d.sync += word.eq(prompts[source.select[:4]])
            with m.Else(), m.Switch(source.select[:4]):
                for number in range(LATCHES):
                    with m.Case(number):
                        m.d.sync += word.eq(self.latches[number])
                with m.Case(Select.FILE.value):
                    m.d.sync += word.eq(port.data)
                with m.Default():
                    m.d.sync += word.eq(self.last)
            # The only result that is too late for the register.
            m.d.comb += getattr(self, name).eq(Mux(late, self.last, word))
        return m
