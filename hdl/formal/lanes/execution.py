"""A lane of the core `lanes` executed on terms, beside another lane in any state.

    chosen  ⇒  the step of the lane is the table's, in any state of the other lane

PC, DIR and depth of the other lane, the cycles in which it leaves an instruction, and whether it may begin one are arbitrary in each cycle.
A step ends once the lane takes no part. The sequencer may then go on for the other lane. By the claims of `mask.py` the lane keeps its
state until it is chosen again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from amaranth.hdl import Signal
from retrograd.hdl.core.core import Lane
from retrograd.hdl.core.cores import lanes_of
from retrograd.hdl.core.lanes import LanesCore
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.core_execution import CoreExecution
from retrograd.hdl.formal.symbolic import Hook
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.words import Format

#: lanes of the core that is executed
COUNT = 2


def arbitrary(lanes: LanesCore, own: int) -> list[Signal]:
    """The signals by which the other lanes act on a lane."""
    return [
        signal
        for i, lane in enumerate(lanes.lanes)
        if i != own
        for signal in (lane.branch.pc, lane.branch.backward, lanes.depths[i], lanes.leaves[i])
    ]


def kept(lane: Lane) -> dict[str, Signal]:
    """The registers of a lane that hold its state between instructions."""
    branch, tracker = lane.branch, lane.ledger
    return {
        "PC": branch.pc, "BR": branch.br, "DIR": branch.backward, "reversals": branch.turned, "crossings": tracker.crossed,
        "the last loss": tracker.lost, "whether there is one": tracker.known, "its direction": tracker.lost_turned,
    }  # fmt: skip


def with_bit(word: Word, lane: int, bit: int) -> Word:
    """The word of a bit for each lane, with the bit of this lane."""
    pieces = [(bit if i == lane else terms.piece_of(word, i, 1), 1) for i in range(COUNT)]
    return terms.joined(pieces)


class LaneExecution(CoreExecution):
    """A lane of a core of one format: the first, unless another is given."""

    def __init__(
        self, w: Format, microcode: Microcode | None = None, seconds: float = 60, core_name: str = LANES, own: int = 0
    ) -> None:
        self.own, self.inside = own, f"lane{own}."
        self._drawn = 0
        #: the arbitrary words of this cycle
        self._now: dict[int, Word] = {}
        super().__init__(w, microcode, seconds, core_name)

    def _made(self, p: Parameters, microcode: Microcode | None) -> tuple[LanesCore, Lane]:
        self.lanes = lanes_of(replace(p, lanes=COUNT), microcode)
        return self.lanes, self.lanes.lanes[self.own]

    def _own_hooks(self) -> list[tuple[Signal, Hook]]:
        return [(self.lanes.chosen, self._chosen)]

    def _given(self) -> list[tuple[Signal, Callable[[], Word]]]:
        others = enumerate(arbitrary(self.lanes, self.own))
        return [(signal, partial(self._of_other, k, len(signal))) for k, signal in others]

    def _of_other(self, k: int, width: int) -> Word:
        """An arbitrary word in each cycle."""
        if k not in self._now:
            self._now[k] = self._any(width)
        return self._now[k]

    def _any(self, width: int) -> Word:
        self._drawn += 1
        return terms.unknown(f"other{self._drawn}", width)

    def _chosen(self, word: Word) -> Word:
        """At the fetch of this lane's instruction assume that the lane is chosen."""
        if self.hardware.peek(self.core.phase) != Phase.FETCH.value:
            return word
        self.run.assume(terms.piece_of(word, self.own, 1))
        return with_bit(word, self.own, 1)

    def _selection(self) -> dict[str, Word]:
        return {"selected": self.own}

    def _run(self, runs: bool) -> Word:
        """The other lane may begin instructions or not."""
        return with_bit(self._any(COUNT), self.own, int(runs))

    def _advance(self) -> None:
        hw, fetches = self.hardware, self.hardware.peek(self.core.phase) == Phase.FETCH.value
        super()._advance()
        self._now.clear()
        if fetches:
            # The instruction is executed in the direction of this lane.
            own, direction = hw.peek(self.core.backward), self.lanes.backwards
            self.run.oblige("the direction", terms.equal(hw.peek(direction), own, 1))
            hw.poke(direction, own)

    def step(self, opcode: Opcode) -> int:
        """Execute one instruction of the lane. Before its next one the other lane may execute any number."""
        cycles = super().step(opcode)
        hw, core = self.hardware, self.core
        hw.forget(kept(core).values())
        hw.poke(core.phase, Phase.IDLE.value)
        hw.settle(run=0)
        hw.tick()
        return cycles

    def _ended(self) -> bool:
        """Whether it takes no part from now on: it has left, or the sequencer is between two instructions."""
        hw = self.hardware
        phase, live = hw.peek(self.core.phase), hw.peek(self.lanes.live)
        between = [terms.equal(phase, p.value, len(self.core.phase)) for p in (Phase.IDLE, Phase.FETCH)]
        if isinstance(phase, int) and not any(between):
            return False
        left = terms.negation(terms.piece_of(live, self.own, 1))
        self.run.oblige("no other trap", terms.negation(hw.peek(self.core.traps)))
        self.run.oblige("the instruction goes on", terms.disjunction(left, terms.disjunction(*between)))
        return True
