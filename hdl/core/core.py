# amaranth: UnusedElaboratable=no
"""The core: a sequencer with its decoder, and the data path of one program.

The host interface sets the core's ports, starts it and stops it.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.memory import Memory, MemoryData
from retrograd.hdl.core.data_path import Control, Lane
from retrograd.hdl.core.decoder import FIELDS, Decoder
from retrograd.hdl.core.ports import Space
from retrograd.hdl.core.sequencer import Phase, Sequencer
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import INSTRUCTION, Parameters


def sequence(
    m: Module, microcode: Microcode, decoder: Decoder, code_memory: Memory, given: Any
) -> tuple[Sequencer, Control, Any]:
    """Add sequencer, decoder and code memory to a module: with the signals that control the lanes, and the port that reads the code.

    `given`: the modes of the core. PC and DIR are still to be connected.
    """
    m.submodules.sequencer = sequencer = Sequencer(microcode)
    m.submodules.decoder = decoder
    m.submodules.code = code_memory
    fetched = code_memory.read_port()
    phase, head = sequencer.phase, sequencer.head
    instruction = Signal(FIELDS)
    modes = Signal(3)
    m.d.comb += instruction.eq(fetched.data)
    with m.If(phase == Phase.FETCH):
        m.d.sync += modes.eq(Cat(given.differentiate, given.overflow, given.strict))
    m.d.comb += [
        decoder.instruction.eq(instruction),
        decoder.lifted.eq(modes[0]),
        decoder.decode.eq(phase == Phase.DECODE),
        decoder.head.eq(head),
        sequencer.opcode.eq(decoder.opcode),
        fetched.en.eq(phase == Phase.FETCH),
    ]
    control = Control(
        phase, sequencer.launch, head, sequencer.next, sequencer.now, sequencer.commit, sequencer.abandon, sequencer.abandon,
        instruction, modes,
    )  # fmt: skip
    return sequencer, control, fetched


class Core(Lane):
    """A sequencer with one lane. Registers, memories and code are zero after reset. A host fills them through the window."""

    def __init__(self, parameters: Parameters, microcode: Microcode | None = None) -> None:
        self.code = MemoryData(shape=INSTRUCTION, depth=parameters.code_words, init=[])
        super().__init__(parameters, microcode)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code_memory = Memory(self.code)
        sequencer, control, fetched = sequence(m, self.microcode, self.decoder, code_memory, self.modes)
        m.d.comb += [
            self.begins.eq(control.phase == Phase.FETCH),
            sequencer.run.eq(self.run),
            self.decoder.backward.eq(self.branch.backward),
            fetched.addr.eq(self.pc),
        ]
        self.data_path(m, control)
        code_window(m, self, fetched, code_memory.write_port())
        return m

    def _window(self, m: Module, fetched: Any, write: Any, instruction: Any) -> None:
        """Addresses of the memories: the host's while the core is idle."""
        code_window(m, self, fetched, write)
        self._lane_window(m, instruction)


def code_window(m: Module, core: Any, fetched: Any, write: Any) -> None:
    """The address of the code memory: the host's while the core is idle."""
    window = core.window
    m.d.comb += [write.addr.eq(window.address), write.data.eq(window.written)]
    with m.If(core.idle):
        m.d.comb += fetched.addr.eq(window.address)
        with m.If(window.space == Space.CODE):
            m.d.comb += [fetched.en.eq(window.read), write.en.eq(window.write)]
