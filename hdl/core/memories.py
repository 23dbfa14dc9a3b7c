"""The memories of a data path: register file, memory port and operand file.

register file   words and their cotangents side by side: three reads and one write of each in a cycle
memory port     data words and their cotangents side by side: one read and one write of each in a cycle
operand file    temporaries and constants, and the three operands of a microword
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2
from retrograd.hdl.core.units import any_of
from retrograd.hdl.microword import FILE_BITS, LATCHES, PROMPT, PROMPTS, SOURCE, Select
from retrograd.hdl.parameters import REGISTERS
from retrograd.isa.microarchitecture.micro_operations import TEMPORARIES

PLACES = ("d", "a", "b")


class RegisterFile(wiring.Component):
    """The outputs are the operand latches: they hold the words that were read until the next read, also across writes."""

    def __init__(self, width: int, transparent: bool = False) -> None:
        """`transparent`: a read gets the word that is written in the same cycle, and the cotangent write has a register number of its own.

        The output of a transparent file is undefined in cycles after the next.
        """
        self.width = width
        self.transparent = transparent
        self.words = MemoryData(shape=width, depth=REGISTERS, init=[])
        self.cotangents = MemoryData(shape=width, depth=REGISTERS, init=[])
        super().__init__(
            {
                #: read the registers with these numbers
                "read": In(1),
                **{f"{place}_number": In(range(REGISTERS)) for place in PLACES},
                #: their words and cotangents, from the next cycle on
                **{f"{place}_{what}": Out(width) for place in PLACES for what in ("word", "cotangent")},
                #: the register to write, and which of word and cotangent is written
                "number": In(range(REGISTERS)),
                **({"shadow": In(range(REGISTERS))} if transparent else {}),
                "word": In(width),
                "cotangent": In(width),
                "write_word": In(1),
                "write_cotangent": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        numbers = {place: Signal(range(REGISTERS), name=f"{place}_was") for place in PLACES}
        if self.transparent:
            with m.If(self.read):
                m.d.sync += [number.eq(getattr(self, f"{place}_number")) for place, number in numbers.items()]
        for what, data in (("word", self.words), ("cotangent", self.cotangents)):
            m.submodules[f"{what}s"] = memory = Memory(data)
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(self.shadow if self.transparent and what == "cotangent" else self.number),
                write.data.eq(getattr(self, what)),
                write.en.eq(getattr(self, f"write_{what}")),
            ]
            if self.transparent:
                written, target, wrote = (
                    Signal.like(write.data, name=f"written_{what}"),
                    Signal.like(write.addr),
                    Signal(),
                )
                m.d.sync += [written.eq(write.data), target.eq(write.addr), wrote.eq(write.en)]
            for place in PLACES:
                port = memory.read_port()
                found = port.data
                if self.transparent:
                    # The numbers are compared in the next cycle, outside the critical path of the number.
                    found = Mux(wrote & (target == numbers[place]), written, found)
                m.d.comb += [
                    port.addr.eq(getattr(self, f"{place}_number")),
                    port.en.eq(self.read),
                    getattr(self, f"{place}_{what}").eq(found),
                ]
        return m


# -----------------------------------------------------------------------------
# The memory port: the data memory, as the core sees it.


def _passing(width: int, depth: int) -> dict[str, Any]:
    """Ports for a write by the core only. The word bypasses the memory, without the multiplexer between core and host."""
    return {
        "passing_target": In(ceil_log2(depth)),
        "passing_word": In(width),
        "passing_cotangent": In(width),
        "passes_word": In(1),
        "passes_cotangent": In(1),
    }


class MemoryPort(wiring.Component):
    """Cycle 1: the address base + offset mod 2^W. Cycle 2: the word there, held until the next read.

    With `ahead`, words of earlier instructions are written while a word is read. The word is then that of cycle 2, also where it is written
    in cycle 1 or 2. In later cycles it is undefined.

    An address of `size` or more is invalid, even where the memory is larger. Raises ValueError for a memory without words.
    """

    def __init__(self, width: int, depth: int, ahead: bool = False) -> None:
        """`ahead`: an instruction reads its word while earlier instructions write their words."""
        if depth < 1:
            raise ValueError(f"memory of {depth} words")
        self.width = width
        self.depth = depth
        self.ahead = ahead
        self.words = MemoryData(shape=width, depth=depth, init=[])
        self.cotangents = MemoryData(shape=width, depth=depth, init=[])
        super().__init__(
            {
                #: words that the program has
                "size": In(range(depth + 1)),
                #: read the word at base + offset
                "read": In(1),
                "base": In(width),
                "offset": In(width),
                #: the address that was read, and whether it is valid
                "address": Out(width),
                "valid": Out(1),
                #: the word and the cotangent at the address; and as they stand in the memory, for the host
                "old_word": Out(width),
                "old_cotangent": Out(width),
                "stored_word": Out(width),
                "stored_cotangent": Out(width),
                #: write at the address `target`
                "target": In(width),
                "word": In(width),
                "cotangent": In(width),
                "write_word": In(1),
                "write_cotangent": In(1),
                #: the core's write among these, also where a trap prevents it
                **(_passing(width, depth) if ahead else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address = Signal(self.width)
        m.d.comb += [address.eq(self.base + self.offset), self.valid.eq(self.address < self.size)]
        with m.If(self.read):
            m.d.sync += self.address.eq(address)
        for what, data in (("word", self.words), ("cotangent", self.cotangents)):
            m.submodules[f"{what}s"] = memory = Memory(data)
            read, write = memory.read_port(), memory.write_port()
            word, writes = getattr(self, what), getattr(self, f"write_{what}")
            m.d.comb += [
                read.addr.eq(address),
                read.en.eq(self.read),
                write.addr.eq(self.target),
                write.data.eq(word),
                write.en.eq(writes),
            ]
            found = read.data
            m.d.comb += getattr(self, f"stored_{what}").eq(found)
            if self.ahead:
                # Words written in the cycle of the read, and in the next cycle. They are compared one cycle later,
                # outside the critical path of the address.
                passing, passes = getattr(self, f"passing_{what}"), getattr(self, f"passes_{what}")
                written, target, wrote = Signal.like(word, name=f"written_{what}"), Signal.like(write.addr), Signal()
                m.d.sync += [written.eq(passing), target.eq(self.passing_target), wrote.eq(passes)]
                place = self.address[: len(write.addr)]
                found = Mux(wrote & (target == place), written, found)
                found = Mux(passes & (self.passing_target == place), passing, found)
            m.d.comb += getattr(self, f"old_{what}").eq(found)
        return m


# -----------------------------------------------------------------------------
# The operand file: the operands of a microword.

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
            # A result of this cycle arrives too late for the operand register, so it is selected after the register.
            m.d.comb += getattr(self, name).eq(Mux(late, self.last, word))
        return m
