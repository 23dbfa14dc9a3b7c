# amaranth: UnusedElaboratable=no
"""The core lanes: N data paths on one sequencer.

    one program, one sequencer, one decoder; each lane has registers, memory, units, PC, BR and DIR of its own

At each fetch the lanes of the first rank are chosen (`isa/microarchitecture/lanes.py`). They execute the instruction in the cycles of
the core small. The mask is one gate on the changes of state that a lane commits: a lane that takes no part commits nothing. A lane that traps
or halts leaves the instruction, and the others complete it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.core import Control, Lane, code_window, data_path, sequence, small_parts
from retrograd.hdl.core.ports import Modes, Settings, Window
from retrograd.hdl.core.sequencer import Decoder, Phase
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.microword import COMMIT, TrapCause
from retrograd.hdl.parameters import COUNTER, INSTRUCTION, Parameters
from retrograd.isa.microarchitecture.lanes import CALLS, DEPTH

#: the commands of a host to a lane
_STROBES = ("set_pc", "set_br", "set_direction", "turn", "forget", "clear")


class LanesCore(wiring.Component):
    """Lanes on one sequencer. The ports for PC, BR, DIR, counters and the window are those of the lane `selected`."""

    def __init__(self, parameters: Parameters, microcode: Microcode | None = None) -> None:
        self.parameters = p = parameters
        self.microcode = microcode or microcode_for(parameters)
        self.decoder = Decoder(p.width)
        self.code = MemoryData(shape=INSTRUCTION, depth=p.code_words, init=[])
        self.lanes: Sequence[Lane] = [
            Lane(p, self.microcode, small_parts(p, self.microcode, self.decoder)) for _ in range(p.lanes)
        ]
        #: the lanes that may begin an instruction in this cycle
        self.able = Signal(p.lanes)
        #: at a fetch the lanes that are chosen; then the lanes that execute the instruction, its direction, and the lanes that leave it
        self.chosen = Signal(p.lanes)
        self.live = Signal(p.lanes)
        self.backwards = Signal()
        self.leaves = [Signal(name=f"leaves{i}") for i in range(p.lanes)]
        #: the calls that each lane is in
        self.depths = [Signal(DEPTH, name=f"depth{i}") for i in range(p.lanes)]
        super().__init__(
            {
                #: the lanes that may begin instructions; an instruction that has begun completes
                "run": In(p.lanes),
                "modes": In(Modes()),
                #: lengths of the program: instructions, and words of data
                "code_size": In(range(p.code_words + 1), init=p.code_words),
                "data_size": In(range(p.data_words + 1), init=p.data_words),
                #: the lane that the host sees, and whether its writes and commands go to all lanes
                "selected": In(range(p.lanes)),
                "broadcast": In(1),
                "phase": Out(Phase),
                "idle": Out(1),
                #: of each lane: it begins an instruction, halts, traps
                "begins": Out(p.lanes),
                "halts": Out(p.lanes),
                "traps": Out(p.lanes),
                "trap": Out(TrapCause).array(p.lanes),
                #: cycles, and number, of the instructions that were issued and retired in a lane
                "issued": Out(COUNTER).array(2),
                # of the selected lane
                "pc": Out(p.pc_bits),
                "br": Out(p.width),
                "backward": Out(1),
                "counters": Out(COUNTER).array(4),
                "window": In(Window()),
                "settings": In(Settings(p)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code_memory = Memory(self.code)
        sequencer, control, fetched = sequence(m, self.microcode, self.decoder, code_memory, self.modes)
        phase, lanes = sequencer.phase, self.lanes
        m.d.comb += [self.phase.eq(phase), self.idle.eq(phase == Phase.IDLE)]

        # ------------------------------------------------ fetch: the lanes of the first rank
        # A lane that may begin in the cycle before the fetch does begin: a host lowers `run` when it sees that a lane begins.
        able = self.able
        first, chosen = self._choose(m, able, control)
        bits = (self.parameters.code_words - 1).bit_length()
        live, backward = self.live, self.backwards
        stays = Cat(bit & ~leaves for bit, leaves in zip(live, self.leaves, strict=True))
        goes_on = Cat(bit & ~leaves for bit, leaves in zip(self.run, self.leaves, strict=True))
        at = first[:bits] ^ first[bits].replicate(bits)
        m.d.comb += [
            fetched.addr.eq(Mux(self.idle, self.window.read_address, at)),
            self.decoder.backward.eq(backward),
        ]
        with m.If(phase == Phase.FETCH):
            m.d.sync += [live.eq(chosen), backward.eq(first[bits])]
            m.d.comb += self.begins.eq(chosen)
        with m.Else():
            m.d.sync += live.eq(stays)

        # ------------------------------------------------ the lanes, each with a mask on its changes of state
        for i, lane in enumerate(lanes):
            m.submodules[f"lane{i}"] = inner = Module()
            commit, leaves = Signal(COMMIT, name=f"commit{i}"), self.leaves[i]
            m.d.comb += commit.eq(Mux(live[i], Value.cast(sequencer.commit), 0))
            m.d.comb += [
                lane.begins.eq(self.begins[i]),
                lane.code_size.eq(self.code_size),
                lane.data_size.eq(self.data_size),
            ]
            own = control._replace(commit=commit, abandon=leaves, apart=leaves | ~live[i])
            data_path(inner, lane, own)
            m.d.comb += [self.halts[i].eq(lane.halts), self.traps[i].eq(lane.traps), self.trap[i].eq(lane.trap)]
        m.d.sync += able.eq(goes_on)
        m.d.comb += [
            # An instruction goes on as long as one lane takes part.
            sequencer.abandon.eq((phase != Phase.IDLE) & (phase != Phase.FETCH) & ~stays.any()),
            sequencer.run.eq(goes_on.any()),
        ]
        self._count(m, phase, control)
        self._serve_host(m)
        code_window(m, self, fetched, code_memory.write_port())
        return m

    def _choose(self, m: Module, able: Value, control: Control) -> tuple[Any, Any]:
        """The least rank of the lanes that are able to begin, and the lanes that have it."""
        bits = (self.parameters.code_words - 1).bit_length()
        ranks = []
        for i, lane in enumerate(self.lanes):
            self._count_calls(m, lane, self.depths[i], control)
            address = lane.pc[:bits]
            rank = Signal(bits + DEPTH + 2, name=f"rank{i}")
            m.d.comb += rank.eq(Cat(address ^ lane.backward.replicate(bits), lane.backward, ~self.depths[i], ~able[i]))
            ranks.append(rank)
        first = _least(m, ranks)
        m.d.comb += self.chosen.eq(able & Cat(rank == first for rank in ranks))
        return first, self.chosen

    def _count_calls(self, m: Module, lane: Lane, depth: Signal, control: Control) -> None:
        """The calls that the lane is in: a call that retires with BR = 0 leaves for its procedure, and else comes back."""
        with m.If(lane.branch.commit & control.instruction.op.matches(*CALLS)):
            m.d.sync += depth.eq(Mux(lane.br == 0, depth + 1, depth - 1))
        with m.If(lane.settings.set_pc):
            m.d.sync += depth.eq(0)

    def _count(self, m: Module, phase: Any, control: Control) -> None:
        """Cycles and number of the instructions that retire in at least one lane."""
        elapsed, cycles, number = Signal(16), Signal(COUNTER), Signal(COUNTER)
        m.d.sync += elapsed.eq(Mux(phase == Phase.FETCH, 2, elapsed + 1))
        with m.If(control.commit.last & ~control.abandon):
            m.d.sync += [cycles.eq(cycles + elapsed), number.eq(number + 1)]
        with m.If(self.settings.clear):
            m.d.sync += [cycles.eq(0), number.eq(0)]
        m.d.comb += [self.issued[0].eq(cycles), self.issued[1].eq(number)]

    def _serve_host(self, m: Module) -> None:
        """Settings and writes to the selected lane or to all; the state of the selected lane."""
        window, settings, lanes = self.window, self.settings, self.lanes
        for i, lane in enumerate(lanes):
            addressed = self.broadcast | (self.selected == i)
            m.d.comb += [
                lane.window.read_space.eq(window.read_space),
                lane.window.read_address.eq(window.read_address),
                lane.window.write_space.eq(window.write_space),
                lane.window.write_address.eq(window.write_address),
                lane.window.written.eq(window.written),
                lane.window.read.eq(window.read),
                lane.window.write.eq(window.write & addressed),
                lane.settings.value.eq(settings.value),
                *(getattr(lane.settings, name).eq(getattr(settings, name) & addressed) for name in _STROBES),
            ]
        seen = self.selected
        m.d.comb += [
            self.pc.eq(Array(lane.pc for lane in lanes)[seen]),
            self.br.eq(Array(lane.br for lane in lanes)[seen]),
            self.backward.eq(Array(lane.backward for lane in lanes)[seen]),
            self.window.data.eq(Array(lane.window.data for lane in lanes)[seen]),
            *(self.counters[k].eq(Array(lane.counters[k] for lane in lanes)[seen]) for k in range(4)),
        ]


def _least(m: Module, words: Sequence[Any]) -> Any:
    """The least of the words, by a balanced tree of comparisons."""
    while len(words) > 1:
        winners = []
        for a, b in zip(words[::2], words[1::2], strict=False):
            winner = Signal.like(a)
            m.d.comb += winner.eq(Mux(b < a, b, a))
            winners.append(winner)
        words = [*winners, *words[len(winners) * 2 :]]
    return words[0]
