"""The operand network of an overlapped core: files of temporaries, the operands of all slots, and those of the write.

    operand ∈ {latches, files, results of the last two cycles, constants}

Each slot writes its results into a file of its own, from which all operands are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.operand_file import PORTS, any_of
from retrograd.hdl.microword import FILE_BITS, LATCHES, SOURCE, WIDE_PROMPT, WIDE_PROMPTS, Select, wide_select
from retrograd.isa.microarchitecture.micro_operations import TEMPORARIES

#: latch of a register's word or cotangent -> whether it is a cotangent; in the order of `HITS`
HITS = (Select.D, Select.A, Select.B, Select.D_BAR, Select.A_BAR, Select.B_BAR)


class OperandNetwork(wiring.Component):
    """Operands and their selections stand in registers, so a selection must arrive one cycle before its operand.

    The first microword of an instruction is selected in the cycle before it executes, in which the instruction before may select
    the words that it writes. These go through ports of their own. A word that is being written when the next instruction begins
    replaces the word that was read.

    Raises ValueError for more constants than the files have room for.
    """

    def __init__(self, width: int, slots: int, constants: Sequence[int], prompts: Sequence[int]) -> None:
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES or len(prompts) > WIDE_PROMPTS:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.slots = slots
        self.prompts = (*prompts, *[0] * (WIDE_PROMPTS - len(prompts)))
        inits = [[*[0] * TEMPORARIES, *constants], *[[0] * TEMPORARIES] * (slots - 1)]
        depths = [1 << FILE_BITS, *[TEMPORARIES] * (slots - 1)]
        self.files = [MemoryData(shape=width, depth=d, init=init) for d, init in zip(depths, inits, strict=True)]
        super().__init__(
            {
                #: selections of the first microword, and of the microword after the next
                **{f"{port}{k}_first": In(6) for k in range(slots) for port in PORTS},
                **{f"{port}{k}_source": In(SOURCE) for k in range(slots) for port in PORTS},
                #: the next microword is the first of an instruction
                "launch": In(1),
                #: the operands of this microword
                **{f"{port}{k}": Out(width) for k in range(slots) for port in PORTS},
                #: the words that this cycle writes: the operands of the first slot in a row that writes
                **{f"{port}_written": Out(width) for port in PORTS},
                #: the latches, by number: of the instruction that executes, and of the one that begins, if one does
                "latches": In(width).array(LATCHES),
                "entering": In(width).array(LATCHES),
                #: when an instruction begins: the latches that the next cycle's write replaces, in the order of HITS
                "hits": In(len(HITS)),
                #: the results of this cycle, and the temporaries that they are written to
                **{f"result{k}": In(width) for k in range(slots)},
                **{f"temporary{k}": In(range(TEMPORARIES)) for k in range(slots)},
                **{f"write{k}": In(1) for k in range(slots)},
                #: the results of the previous cycle
                **{f"last{k}": Out(width) for k in range(slots)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        n = self.slots
        banks = []
        for k, words in enumerate(self.files):
            # Block memory: a file has a copy for each operand.
            m.submodules[f"file{k}"] = memory = Memory(words, attrs={"ram_style": "block"})
            write, result = memory.write_port(), getattr(self, f"result{k}")
            m.d.comb += [
                write.addr.eq(getattr(self, f"temporary{k}")),
                write.data.eq(result),
                write.en.eq(getattr(self, f"write{k}")),
            ]
            m.d.sync += getattr(self, f"last{k}").eq(result)
            banks.append(memory)
        lasts = [getattr(self, f"last{k}") for k in range(n)]
        prompts = Array(Const(word, self.width) for word in self.prompts)
        for k in range(n):
            for name in PORTS:
                port = f"{name}{k}"
                source, first = getattr(self, f"{port}_source"), getattr(self, f"{port}_first")
                read = []
                for memory in banks:
                    found = memory.read_port()
                    m.d.comb += found.addr.eq(source.ahead)
                    read.append(found.data)
                # One line for each word that can be selected: of the row after the next, registered, or of the first row.
                lines = wide_select(Select.LAST, n, n)
                told, begins = Signal(lines, name=f"{port}_told"), Signal(LATCHES, name=f"{port}_begins")
                m.d.sync += told.eq(Cat(source.select == number for number in range(lines)))
                m.d.comb += begins.eq(Cat(first == number for number in range(LATCHES)))
                inner = [*read, *lasts]
                late = told[wide_select(Select.LAST, 0, n) :]
                chosen = Signal(wide_select(Select.LAST, 0, n), name=f"{port}_lines")
                m.d.comb += chosen.eq(Mux(self.launch, begins, told))
                gates = [*chosen, self.launch & (first >= WIDE_PROMPT)]
                entering = [Mux(self.launch, self.entering[i], self.latches[i]) for i in range(LATCHES)]
                word = self._selected(
                    m, port, gates, [*entering, *inner, prompts[first[: (WIDE_PROMPTS - 1).bit_length()]]]
                )
                lates = Signal(n, name=f"{port}_late")
                m.d.sync += lates.eq(Mux(self.launch, 0, late))
                out = self._forwarded(word, lates, lasts)
                # The word of a register that is being written was read too early.
                written: Mapping[str, Sequence[Select]] = {"x": HITS[:3], "y": HITS[3:]}
                for half, latches in written.items():
                    hit = Signal(name=f"{port}_hit_{half}")
                    found = [begins[latch.value] & self.hits[HITS.index(latch)] for latch in latches]
                    m.d.sync += hit.eq(self.launch & Cat(*found).any())
                    out = Mux(hit, getattr(self, f"{half}_written"), out)
                m.d.comb += getattr(self, port).eq(out)
                if k == 0:
                    gates = list(told[: wide_select(Select.LAST, 0, n)])
                    words = [self.latches[i] for i in range(LATCHES)]
                    word = self._selected(m, f"{name}_writing", gates, [*words, *inner])
                    lates = Signal(n, name=f"{name}_writing_late")
                    m.d.sync += lates.eq(late)
                    m.d.comb += getattr(self, f"{name}_written").eq(self._forwarded(word, lates, lasts))
        return m

    def _selected(self, m: Module, name: str, gates: Sequence[Any], words: Sequence[Any]) -> Signal:
        """The register of the selected word."""
        word = Signal(self.width, name=f"{name}_word")
        m.d.sync += word.eq(any_of([gate.replicate(self.width) & w for gate, w in zip(gates, words, strict=True)]))
        return word

    def _forwarded(self, word: Any, lates: Signal, lasts: Sequence[Any]) -> Any:
        """The word, or the result of the last cycle that arrives too late for the register."""
        for late, last in zip(lates, lasts, strict=True):
            word = Mux(late, last, word)
        return word
