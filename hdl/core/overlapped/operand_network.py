"""The operand network of an overlapped core: files of temporaries, the operands of all slots, and those of the write.

    operand ∈ {latches, files, results of the last two cycles, constants}

Each slot writes its results into a file of its own, from which all operands are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.operand_file import PORTS
from retrograd.hdl.core.units.gating import any_of, gated
from retrograd.hdl.dispatch import FIRST
from retrograd.hdl.microcode import Selections
from retrograd.hdl.microword import FILE_BITS, LATCHES, SOURCE, WIDE_PROMPT, WIDE_PROMPTS, Select, wide_select
from retrograd.isa.microarchitecture.micro_operations import TEMPORARIES

#: latch of a register's word or cotangent -> whether it is a cotangent; in the order of `HITS`
HITS = (Select.D, Select.A, Select.B, Select.D_BAR, Select.A_BAR, Select.B_BAR)


class _Source(NamedTuple):
    """An operand of the next cycle: a word that stands ready, or zero, the words of files or zero, and the lines of results of this cycle, by slot."""

    word: Any
    files: Any
    late: list[Any]


class OperandNetwork(wiring.Component):
    """Operands and their selections stand in registers, so a selection must arrive one cycle before its operand.

    The first microword of an instruction is selected in the cycle before it executes, in which the instruction before may select
    the words that it writes. These go through ports of their own. A word that is being written when the next instruction begins
    takes the place of the word that was read.

    An operand has gates for the words that the microcode selects for it, and no others. The word of a file needs no gate of its own: where it
    is not selected, a zero is read. It comes late in the cycle, so it has a register beside that of the other words.

    Raises ValueError for more constants than the files have room for.
    """

    def __init__(
        self,
        width: int,
        slots: int,
        constants: Sequence[int],
        prompts: Sequence[int],
        selections: Mapping[str, Selections],
    ) -> None:
        """`selections`: port and slot, such as "x0" -> the selections of this operand."""
        if len(constants) > (1 << FILE_BITS) - TEMPORARIES or len(prompts) > WIDE_PROMPTS:
            raise ValueError(f"{len(constants)} constants do not fit")
        self.width = width
        self.slots = slots
        self.prompts = tuple(prompts)
        self.selections = selections
        self._files = {self._number(Select.FILE, slot) for slot in range(slots)}
        inits = [[*[0] * TEMPORARIES, *constants], *[[0] * TEMPORARIES] * (slots - 1)]
        # The upper half of a file is zero.
        depths = [2 << FILE_BITS, *[2 * TEMPORARIES] * (slots - 1)]
        self.files = [MemoryData(shape=width, depth=d, init=init) for d, init in zip(depths, inits, strict=True)]
        super().__init__(
            {
                #: selections of the first microword, a line for each; and of the microword after the next
                **{f"{port}{k}_first": In(FIRST) for k in range(slots) for port in PORTS},
                **{f"{port}{k}_source": In(SOURCE) for k in range(slots) for port in PORTS},
                #: the next microword is no other than the first of an instruction
                "fresh": In(1),
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
        banks, earlier = [], {}
        for k, words in enumerate(self.files):
            # Block memory: a file has a copy for each operand.
            m.submodules[f"file{k}"] = memory = Memory(words, attrs={"ram_style": "block"})
            # A result is written one cycle later: from a register, since the copies are far apart.
            write, last = memory.write_port(), getattr(self, f"last{k}")
            temporary = getattr(self, f"temporary{k}")
            earlier[k], place = Signal.like(last, name=f"earlier{k}"), Signal.like(temporary, name=f"place{k}")
            m.d.comb += [write.data.eq(last), write.addr.eq(place)]
            m.d.sync += [
                last.eq(getattr(self, f"result{k}")),
                earlier[k].eq(last),
                place.eq(temporary),
                write.en.eq(getattr(self, f"write{k}")),
            ]
            banks.append(memory)
        told, words = {}, {}
        for port in self.selections:
            told[port], words[port] = self._lines(m, port, banks, earlier)
        #: x, y and z of the next write
        writes: dict[str, _Source] = {}
        for name in PORTS:
            lines, known, used = told[f"{name}0"], words[f"{name}0"], self.selections[f"{name}0"].written
            ready = gated((lines[i], known[i]) for i in sorted(used) if i in known and i not in self._files)
            files = any_of([known[i] for i in sorted(used & self._files)] or [Const(0)])
            writes[name] = _Source(ready, files, self._late(lines, used))
            m.d.comb += getattr(self, f"{name}_written").eq(self._operand(m, f"{name}_writing", writes[name]))
        for port in self.selections:
            source = self._next(port, told[port], words[port], writes)
            m.d.comb += getattr(self, port).eq(self._operand(m, port, source))
        return m

    def _lines(
        self, m: Module, port: str, banks: Sequence[Memory], earlier: Mapping[int, Signal]
    ) -> tuple[dict[int, Signal], dict[int, Any]]:
        """A line for each selection that rows behind the first make, and the words of the selections but for results of this cycle."""
        use, source = self.selections[port], getattr(self, f"{port}_source")
        words: dict[int, Any] = dict(enumerate(self.latches))
        files = dict(zip(sorted(self._files), banks, strict=True))
        for slot in range(self.slots):
            words[self._number(Select.PREVIOUS, slot)] = getattr(self, f"last{slot}")
            words[self._number(Select.EARLIER, slot)] = earlier[slot]
        used = sorted(use.later | use.written)
        told: dict[int, Any] = {}
        for number in used:
            line = _is(source.select, number, used)
            told[number] = Signal(name=f"{port}_told_{number}")
            m.d.sync += told[number].eq(line)
            if number in files:
                read = files[number].read_port()
                m.d.comb += read.addr.eq(Cat(source.ahead[: len(read.addr) - 1], ~line))
                told[number], words[number] = Const(1), read.data
        return told, words

    def _number(self, select: Select, slot: int) -> int:
        return wide_select(select, slot, self.slots)

    def _late(self, lines: Mapping[int, Any], used: Collection[int]) -> list[Any]:
        """The lines of results of this cycle, by slot."""
        numbers = (self._number(Select.LAST, slot) for slot in range(self.slots))
        return [lines[i] if i in used else Const(0) for i in numbers]

    def _next(
        self, port: str, told: Mapping[int, Signal], words: Mapping[int, Any], writes: Mapping[str, _Source]
    ) -> _Source:
        """The operand of the next cycle."""
        use, fresh = self.selections[port], self.fresh
        first = {i: fresh & getattr(self, f"{port}_first")[i] for i in use.first}
        late = [~fresh & line for line in self._late(told, use.later)]
        # A register that is being written was read too early.
        pairs: list[tuple[Any, Any]] = []
        files = [(~fresh, words[i]) for i in sorted(use.later & self._files)]
        for half, latches in {"x": HITS[:3], "y": HITS[3:]}.items():
            found = {s.value: first[s.value] & self.hits[HITS.index(s)] for s in latches if s.value in use.first}
            if found:
                hit = Cat(found.values()).any()
                first |= {i: first[i] & ~self.hits[HITS.index(Select(i))] for i in found}
                pairs.append((hit, writes[half].word))
                files.append((hit, writes[half].files))
                late = [any_of([line, hit & other]) for line, other in zip(late, writes[half].late, strict=True)]
        for i in sorted((use.later | use.first) - self._files):
            if i not in use.first:
                if i in words:
                    pairs.append((~fresh & told[i], words[i]))
            elif i >= WIDE_PROMPT:
                pairs.append((first[i], Const(self.prompts[i - WIDE_PROMPT], self.width)))
            elif i not in use.later:
                pairs.append((first[i], self.entering[i]))
            else:
                # The multiplexer of the words is one for all operands.
                pairs.append((first[i] | (~fresh & told[i]), Mux(fresh, self.entering[i], self.latches[i])))
        return _Source(gated(pairs), gated(files), late)

    def _operand(self, m: Module, name: str, source: _Source) -> Any:
        """The operand: the registers of the words, which are zero where the operand is a result that arrives too late for them."""
        word, files = Signal(self.width, name=f"{name}_word"), Signal(self.width, name=f"{name}_files")
        late = Signal(self.slots, name=f"{name}_late")
        m.d.sync += [word.eq(source.word), files.eq(source.files), late.eq(Cat(source.late))]
        return any_of([word, files, gated((late[k], getattr(self, f"last{k}")) for k in range(self.slots))])


def _is(selection: Any, number: int, used: Collection[int]) -> Any:
    """Whether the selection, which is zero or one of those used, is the number: a comparison of the fewest bits in which it differs from each other one."""
    others = {0, *used} - {number}
    for size in range(len(selection) + 1):
        for places in combinations(range(len(selection)), size):
            mask = sum(1 << place for place in places)
            if all((number ^ other) & mask for other in others):
                return Cat(~(selection[place] ^ (number >> place & 1)) for place in places).all()
    raise ValueError(f"selection {number} has no place in {len(selection)} bits")
