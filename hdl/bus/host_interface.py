"""The host interface: the core as a device on a bus. docs/coprocessor.md has the register map.

Each register has a slot of eight bytes, low word first. A write to the high word is held, and the write to the low word commits
both. A read of the low word captures the high word for the next read. So 64 bits are written and read atomically. A held half
belongs to its slot: a write to the low word of another slot discards it, and a read of the high word of another slot is refused.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.bus.wishbone import Wishbone
from retrograd.hdl.core.ports import Modes, Settings, Window
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import COUNTER, REGISTERS, Parameters

#: first half of the identification
MAGIC = 0x5247
#: the STEPS of a run without limit: no run takes as many
UNLIMITED = (1 << 64) - 1


class HostRegister(Enum):
    """Slots of area 0. The byte address is 8 times the number."""

    #: MAGIC << 16 | W << 8 | F; in the high word n of data << 8 | n of code, for 2^n words each
    IDENTITY = 0
    #: commands, one bit each; several may be given at once
    CONTROL = 1
    STATUS = 2
    #: D, overflow, strict
    MODES = 3
    PC = 4
    BR = 5
    #: 1 where DIR = −1
    DIRECTION = 6
    CODE_SIZE = 7
    DATA_SIZE = 8
    #: the number of instructions that RUN executes; `UNLIMITED` after reset
    STEPS = 9
    CYCLES = 10
    RETIRED = 11
    TOGGLED = 12
    ERASED = 13


class Area(Enum):
    """Areas: the upper four bits of a byte address. From 1 on they are the spaces of the window."""

    CONTROL = 0
    REGISTERS = 1
    REGISTER_COTANGENTS = 2
    DATA = 3
    DATA_COTANGENTS = 4
    CODE = 5


#: Commands: bits of the control slot. All but STOP are refused while the core is busy.
COMMANDS = data.StructLayout(
    {
        # execute STEPS instructions, or one
        "run": 1,
        "step": 1,
        # stop after the current instruction
        "stop": 1,
        # reverse DIR: the next step undoes the last
        "turn": 1,
        # forget discarded cotangents
        "forget": 1,
        # set the counters to zero
        "clear": 1,
    }
)

STATUS = data.StructLayout(
    {
        "busy": 1,
        # the reason: the end of the program, or a trap
        "halted": 1,
        "trapped": 1,
        # DIR = −1
        "backward": 1,
        "unused": 4,
        "trap": TrapCause,
    }
)

#: the other half of a transfer of 64 bits, and its slot: area and index
_HALF = data.StructLayout({"valid": 1, "slot": 29, "word": 32})

#: slots that are read only, and slots that are set while the core is idle
_TOLD = (
    HostRegister.IDENTITY,
    HostRegister.STATUS,
    HostRegister.CYCLES,
    HostRegister.RETIRED,
    HostRegister.TOGGLED,
    HostRegister.ERASED,
)


class HostInterface(wiring.Component):
    """Serves the bus and drives the core. A transfer takes at most three cycles, whatever the core does."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = p = parameters
        super().__init__(
            {
                "bus": In(Wishbone()),
                # the core's ports, in the opposite direction
                "run": Out(1),
                "modes": Out(Modes()),
                "code_size": Out(range(p.code_words + 1), init=p.code_words),
                "data_size": Out(range(p.data_words + 1), init=p.data_words),
                "idle": In(1),
                "begins": In(1),
                "halts": In(1),
                "traps": In(1),
                "trap": In(TrapCause),
                "pc": In(p.pc_bits),
                "br": In(p.width),
                "backward": In(1),
                "counters": In(COUNTER).array(4),
                "window": Out(Window()),
                "settings": Out(Settings(p)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, p = self.bus, self.parameters
        running, left = Signal(), Signal(64)
        steps, status, busy = Signal(64, init=UNLIMITED), Signal(STATUS), Signal()
        run: Value = running
        if p.microarchitecture.overlapped:
            # Instructions may begin in cycles that follow each other: the last one stops the run at once.
            last = Signal()
            m.d.sync += last.eq(left == Mux(self.begins, 2, 1))
            run = running & ~(self.begins & last)
        m.d.comb += [
            self.run.eq(run),
            busy.eq(running | ~self.idle),
            status.busy.eq(busy),
            status.backward.eq(self.backward),
        ]
        ended = self.halts | self.traps
        with m.If(self.begins):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += running.eq(0)
        with m.If(ended):
            m.d.sync += [
                running.eq(0),
                status.halted.eq(self.halts),
                status.trapped.eq(self.traps),
                status.trap.eq(self.trap),
            ]

        # ------------------------------------------------ address decoding
        area, index, high = Signal(4), Signal(25), Signal()
        slot = Signal(HostRegister)
        m.d.comb += [Cat(high, index, area).eq(bus.adr), slot.eq(index)]
        exists = Signal()
        sizes = {
            Area.CONTROL: max(s.value for s in HostRegister) + 1, Area.REGISTERS: REGISTERS, Area.REGISTER_COTANGENTS: REGISTERS,
            Area.DATA: p.data_words, Area.DATA_COTANGENTS: p.data_words, Area.CODE: p.code_words,
        }  # fmt: skip
        with m.Switch(area):
            for which, size in sizes.items():
                with m.Case(which.value):
                    m.d.comb += exists.eq(index < size)

        # ------------------------------------------------ reads and writes
        told, kept, waiting = Signal(64), Signal(_HALF), Signal(_HALF)
        here = bus.adr[1:]
        kept_is_this, waits_for_this = kept.valid & (kept.slot == here), waiting.valid & (waiting.slot == here)
        written = Cat(bus.dat_w, Mux(waits_for_this, waiting.word, 0))
        commands = Signal(COMMANDS)
        m.d.comb += commands.eq(bus.dat_w)
        in_window = area != Area.CONTROL.value
        allowed = Signal()
        with m.If(~exists):
            m.d.comb += allowed.eq(0)
        with m.Elif(high & ~bus.we):
            m.d.comb += allowed.eq(kept_is_this & ~(in_window & busy))
        with m.Elif(in_window):
            m.d.comb += allowed.eq(~busy & (bus.sel.all() | ~bus.we))
        with m.Elif(~bus.we):
            m.d.comb += allowed.eq(1)
        with m.Elif(slot == HostRegister.CONTROL):
            others = Cat(commands.run, commands.step, commands.turn, commands.forget, commands.clear).any()
            m.d.comb += allowed.eq(
                bus.sel.all() & ~(busy & others) & ~(commands.run & commands.step) & (bus.dat_w >> COMMANDS.size == 0)
            )
        with m.Else():
            fixed = Signal()
            with m.Switch(slot), m.Case(*_TOLD):
                m.d.comb += fixed.eq(1)
            m.d.comb += allowed.eq(bus.sel.all() & ~busy & ~fixed)

        answers = {
            HostRegister.IDENTITY: self._identity(), HostRegister.STATUS: status,
            HostRegister.MODES: Cat(self.modes.differentiate, self.modes.overflow, self.modes.strict),
            HostRegister.PC: self.pc.as_signed(), HostRegister.BR: self.br.as_signed(), HostRegister.DIRECTION: self.backward,
            HostRegister.CODE_SIZE: self.code_size, HostRegister.DATA_SIZE: self.data_size, HostRegister.STEPS: steps,
            HostRegister.CYCLES: self.counters[0], HostRegister.RETIRED: self.counters[1],
            HostRegister.TOGGLED: self.counters[2], HostRegister.ERASED: self.counters[3],
        }  # fmt: skip
        with m.Switch(slot):
            for asked_for, answer in answers.items():
                with m.Case(asked_for):
                    m.d.comb += told.eq(answer)

        # ------------------------------------------------ transfers
        window, asked = self.window, Signal()
        begins = bus.cyc & bus.stb & ~bus.ack & ~bus.err
        acts = Signal()
        m.d.sync += [bus.ack.eq(0), bus.err.eq(0), asked.eq(0)]
        m.d.comb += [
            window.space.eq(area - 1),
            window.address.eq(index),
            window.written.eq(written),
            window.read.eq(begins & allowed & in_window & ~bus.we & ~high),
            window.write.eq(acts & in_window),
        ]
        with m.If(begins):
            with m.If(~allowed):
                m.d.sync += bus.err.eq(1)
            with m.Elif(bus.we):
                m.d.sync += bus.ack.eq(1)
                with m.If(high):
                    m.d.sync += [waiting.valid.eq(1), waiting.slot.eq(here), waiting.word.eq(bus.dat_w)]
                with m.Else():
                    m.d.sync += waiting.valid.eq(0)
                    m.d.comb += acts.eq(1)
            with m.Elif(high):
                m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(kept.word)]
            with m.Elif(in_window & ~asked):
                m.d.sync += asked.eq(1)
            with m.Else():
                found = Mux(in_window, window.data, told)
                m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(found[:32])]
                m.d.sync += [kept.valid.eq(1), kept.slot.eq(here), kept.word.eq(found[32:])]

        self._act(m, acts & ~in_window, slot, commands, written, steps)
        with m.If(acts & ~in_window & (slot == HostRegister.CONTROL)):
            with m.If(commands.run | commands.step):
                m.d.sync += [
                    running.eq(commands.step | (steps != 0)), left.eq(Mux(commands.step, 1, steps)),
                    status.halted.eq(0), status.trapped.eq(0), status.trap.eq(TrapCause.NONE),
                ]  # fmt: skip
            with m.If(commands.stop):
                m.d.sync += running.eq(0)
        return m

    def _act(self, m: Module, acts: Value, slot: Any, commands: Any, written: Value, steps: Signal) -> None:
        """The effect of a write to a slot."""
        s = self.settings
        m.d.comb += s.value.eq(written.as_signed())
        with m.If(acts), m.Switch(slot):
            with m.Case(HostRegister.CONTROL):
                m.d.comb += [s.turn.eq(commands.turn), s.forget.eq(commands.forget), s.clear.eq(commands.clear)]
            with m.Case(HostRegister.MODES):
                modes = self.modes
                m.d.sync += Cat(modes.differentiate, modes.overflow, modes.strict).eq(written)
            with m.Case(HostRegister.PC):
                m.d.comb += s.set_pc.eq(1)
            with m.Case(HostRegister.BR):
                m.d.comb += s.set_br.eq(1)
            with m.Case(HostRegister.DIRECTION):
                m.d.comb += [s.set_direction.eq(1), s.value.eq(Mux(written[0], -1, 0))]
            with m.Case(HostRegister.CODE_SIZE):
                m.d.sync += self.code_size.eq(_at_most(written, self.parameters.code_words))
            with m.Case(HostRegister.DATA_SIZE):
                m.d.sync += self.data_size.eq(_at_most(written, self.parameters.data_words))
            with m.Case(HostRegister.STEPS):
                m.d.sync += steps.eq(written)

    def _identity(self) -> Value:
        p = self.parameters
        low = MAGIC << 16 | p.width << 8 | p.format.frac
        high = (p.data_words - 1).bit_length() << 8 | (p.code_words - 1).bit_length()
        return Const(high << 32 | low, 64)


def _at_most(value: Value, limit: int) -> Value:
    return Mux(value > limit, limit, value)
