# amaranth: UnusedElaboratable=no
"""The core barrel with two slots: a thread executes two micro-operations of an instruction in a turn.

    file     two banks with a write port each, read by all operands: temporaries, constants and words of registers
             temporaries and cotangents
    slot 1   all units, operands x, y, z; writes either bank, a memory word or BR
    slot 2   a logic unit without shifts and selections, operands x, y; writes the other bank

Both slots read in cycle 4 what all earlier turns wrote, and write in cycle 11. The rows come from
`isa/microarchitecture/rows.py`: the two words of a turn never stand in one bank. Where the second slot writes a
register, its x is the old word, from which the bits that toggle are counted.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory, MemoryData
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.divider import RingDivider
from retrograd.hdl.core.ports import Space
from retrograd.hdl.core.units import LogicUnit, any_of, gated
from retrograd.hdl.microcode import RowMicrocode
from retrograd.hdl.microword import SECOND_BANK, THREAD_CONSTANTS, Read
from retrograd.hdl.parameters import REGISTERS, Parameters

#: the upper half of a thread's part of a bank: words or cotangents of registers
_REGISTERS = 1
#: starts of the names of the fields of each slot
_SLOTS = "", "second."


class TwoSlotCore(BarrelCore):
    """A `BarrelCore` whose rows have two slots."""

    _ports = ("x", "y", "z", "target", "second.x", "second.y", "second.target")

    def __init__(self, parameters: Parameters, microcode: RowMicrocode | None = None) -> None:
        super().__init__(parameters, microcode)
        p = parameters
        constants = [0] * THREAD_CONSTANTS + self.microcode.constants
        constants += [0] * (2 * REGISTERS - len(constants))
        #: the first bank, and the second
        self.file = MemoryData(shape=p.width, depth=len(constants) * p.lanes, init=constants * p.lanes)
        self.second_file = MemoryData(shape=p.width, depth=len(constants) * p.lanes, init=[])
        divisions, quotients = self.microcode.divisions, self.microcode.quotients
        self.divider = RingDivider(p.width, divisions, quotients, p.lanes, flags=True, overlaps=True)
        self.second_logic = LogicUnit(p.width, flags=True, lacks=p.microarchitecture.lacking(1))

    def register(self, thread: int, cotangent: bool, number: int) -> tuple[MemoryData, int]:
        """As for one slot: cotangents stand in the second bank."""
        return self.second_file if cotangent else self.file, (thread << 1 | _REGISTERS) * REGISTERS + number

    # ---------------------------------------------------------------- cycles 3 to 7: operands

    def _region(self, kind: Any) -> Any:
        """As for one slot: a half of the thread's part of either bank."""
        return kind[:2] != 0

    def _in_second(self, m: Module, row: Any, port: str) -> Any:
        """Whether a word of the file stands in the second bank, in cycle 3."""
        kind, number, found = (
            Value.cast(row(f"{port}.kind", 3)),
            row(f"{port}.number", 3),
            Signal(name=f"{port}_bank".replace(".", "_")),
        )
        cotangent, temporary = (kind[:2] != 0) & kind[2], (kind == 0) & (number >> 6 == SECOND_BANK >> 6)
        m.d.comb += found.eq(cotangent | temporary)
        return found

    def _operands(
        self, m: Module, row: Any, adr4: dict[str, Any], data4: Any, facts: dict[str, Any], br3: Any, turn4: Any
    ) -> list[Any]:
        """x, y and z of the first slot in cycle 7; those of the second are kept."""
        later, width = self._later, self.parameters.width
        banks = Memory(self.file, attrs={"ram_style": "block"}), Memory(self.second_file, attrs={"ram_style": "block"})
        m.submodules.file, m.submodules.second_file = self._file, _ = banks
        self._bank_writes = [bank.write_port() for bank in banks]
        beside = self._beside(m, row, data4, facts, br3, turn4)
        operands = {}
        for port in self._ports:
            if port.endswith("target"):
                continue
            read = [bank.read_port() for bank in banks]
            address = Cat(adr4[port], turn4)
            if port == "x":
                address = Mux(
                    self.idle, Cat(self._window.read_address[:8], Const(_REGISTERS, 1), self._window.of), address
                )
            prefix = port.replace(".", "_")
            aside, second = Signal(name=f"{prefix}_beside"), self._in_second(m, row, port)
            m.d.comb += aside.eq(row(f"{port}.kind", 3) == Read.BESIDE)
            pairs = []
            for k, each in enumerate(read):
                found = Signal(width, name=f"{prefix}6_{k}")
                m.d.comb += each.addr.eq(address)
                m.d.sync += found.eq(each.data)
                line = Signal(name=f"{prefix}_from_{k}")
                m.d.comb += line.eq(second if k else ~aside & ~second)
                pairs.append((later(line, 3), found))
                if port == "x":
                    self._read[(Space.REGISTERS, Space.REGISTER_COTANGENTS)[k]] = found
            operands[port] = Signal(width, name=prefix)
            m.d.sync += operands[port].eq(gated([*pairs, *self._read_beside(m, row, port, aside, beside)]))
        self._second_x, self._second_y = operands["second.x"], operands["second.y"]
        self._targets(m, row, adr4)
        return [operands[name] for name in "xyz"]

    def _targets(self, m: Module, row: Any, adr4: dict[str, Any]) -> None:
        """The slot that writes into each bank, in cycle 3, the address in cycle 5, and the word, still to be driven."""
        width = self.parameters.width
        seconds = [self._in_second(m, row, f"{of}target") for of in _SLOTS]
        self._into3, self._address5 = [], []
        self._word11 = [Signal(width, name=f"bank{k}_11") for k in range(2)]
        for k in range(2):
            into = [Signal(name=f"{of}into_{k}".replace(".", "_")) for of in _SLOTS]
            for line, of, second in zip(into, _SLOTS, seconds, strict=True):
                m.d.comb += line.eq(row(f"{of}write", 3) & (second if k else ~second))
            address = Signal(len(adr4["target"]), name=f"address{k}_5")
            m.d.sync += address.eq(Mux(self._later(into[1], 1), adr4["second.target"], adr4["target"]))
            self._into3.append(into)
            self._address5.append(address)

    def _base(self, m: Module, row: Any, target4: Any, turn: Any) -> Any:
        """As for one slot: the word that is written into the first bank in this cycle may be ra."""
        later, width, read = self._later, self.parameters.width, self._file.read_port()
        place6, base8, base11 = Cat(self._ra6, Const(_REGISTERS, 1)), Signal(width), Signal(width)
        m.d.comb += read.addr.eq(Cat(place6, turn[6]))
        m.d.sync += base8.eq(read.data)
        writes10 = later(self._into3[0][0], 7) | later(self._into3[0][1], 7)
        written10 = writes10 & (later(self._address5[0], 5) == later(place6, 4))
        m.d.comb += base11.eq(Mux(later(written10, 1), self._word11[0], later(base8, 3)) + later(self._imm9, 2))
        return base11

    # ---------------------------------------------------------------- cycles 7 to 10: units and guards

    def _units(self, m: Module, row: Any, valid7: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, tuple[Any, ...], Any]:
        """As for one slot; with the logic unit of the second."""
        found = super()._units(m, row, valid7, x, y, z)
        logic, later = self.second_logic, self._later
        m.submodules.second_logic = logic
        self._second8, self._second_fits8 = Signal(self.parameters.width, name="second8"), Signal(name="second_fits8")
        m.d.comb += [
            logic.operation.eq(row("second.operation", 7)),
            logic.x.eq(self._second_x),
            logic.y.eq(self._second_y),
        ]
        m.d.sync += [
            self._second8.eq(logic.result | gated([(row("second.copies", 7), self._second_y)])),
            self._second_fits8.eq(logic.fits),
        ]
        self._logic9 = later(found[3], 1)
        return found

    def _second_guard(self, m: Module, row: Any, now9: Any, fails9: Any) -> None:
        """Of two guards that fail in a turn, the first in the order of the table counts."""
        later, at = self._later, "second.check."
        holds9, fits9 = later(self._second8, 1)[0], later(self._second_fits8, 1)
        fails = (row(f"{at}result", 9) & ~holds9) | (row(f"{at}zero", 9) & holds9) | (row(f"{at}sum", 9) & ~fits9)
        found9 = Signal()
        m.d.comb += found9.eq(fails & (self.modes.overflow | ~row(f"{at}overflow", 9)))
        with m.If(found9):
            m.d.comb += now9.valid.eq(1)
        with m.If(found9 & (~fails9 | row("second.before", 9))):
            m.d.comb += [now9.order.eq(row(f"{at}order", 9)), now9.trap.eq(row(f"{at}trap", 9))]

    # ---------------------------------------------------------------- cycle 11: writes

    def _writes(self, m: Module, row: Any, ok: Any, result10: Any, target4: Any, data4: Any, z: Any, turn: Any) -> Any:
        """Write a word into each bank and a memory word, in cycle 11. The bits that change in registers and memory."""
        later, window, idle, width = self._later, self._window, self.idle, self.parameters.width
        second11, stores, names = later(self._second8, 3), Signal(2), Signal(2)
        m.d.sync += [
            self._result11.eq(result10),
            stores.eq(Cat(ok & row("memory", 10), ok & row("memory_cotangent", 10))),
            names.eq(Cat(ok & row(f"{of}write", 10) & (row(f"{of}target.kind", 10) != Read.FILE) for of in _SLOTS)),
        ]
        old11 = later(z, 4), later(self._second_x, 4)
        self._second11["second."] = old11[1], second11
        changes = Signal(2 * width)
        m.d.comb += changes.eq(
            Cat(
                gated([(names[0] | stores.any(), self._result11 ^ old11[0])]), gated([(names[1], second11 ^ old11[1])])
            )
        )  # fmt: skip
        spaces = Space.REGISTERS, Space.REGISTER_COTANGENTS
        for k, (port, space) in enumerate(zip(self._bank_writes, spaces, strict=True)):
            into = self._into3[k]
            early10, writes, word = Signal(width), Signal(), self._word11[k]
            by_logic = (later(into[0], 6), self._logic9), (later(into[1], 6), later(self._second8, 1))
            m.d.sync += early10.eq(gated(by_logic))
            words = [early10]
            for writer, result in self._results10.items():
                line = Signal(name=f"bank{k}_{writer.name.lower()}")
                m.d.sync += line.eq((row("writer", 9) == writer) & later(into[0], 6))
                words.append(gated([(line, result)]))
            m.d.sync += [word.eq(any_of(words)), writes.eq(ok & (later(into[0], 7) | later(into[1], 7)))]
            host = Cat(window.write_address[:8], Const(_REGISTERS, 1), window.of)
            m.d.comb += [
                port.data.eq(Mux(idle, window.written, word)),
                port.addr.eq(Mux(idle, host, Cat(later(self._address5[k], 6), turn[11]))),
                port.en.eq(Mux(idle, window.write & (window.write_space == space), writes)),
            ]
        self._write_data(m, stores, data4, turn)
        return changes
