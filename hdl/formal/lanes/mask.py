"""The mask of a lane of the core `lanes`: a lane that takes no part in an instruction keeps its state.

    masked  ⇒  a cycle changes nothing of the lane, which stays masked until it is chosen

One cycle in each phase, from any state of all registers. By induction over the cycles the lane keeps its state until it is chosen.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import product

from retrograd.hdl.core.cores import lanes_of
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.core_execution import STORES
from retrograd.hdl.formal.lanes.execution import COUNT, arbitrary, kept, with_bit
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.obligations import Obligations, ProofResult, Undecided
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.words import Format

#: name of the part, as the command line takes it
MASK = "mask"


class MaskProver:
    """The claims on a lane that does not execute the instruction, for one cycle in each phase and from any state of all registers.

    The host gives no command, and accesses no memory of an idle core. The count of toggled bits is late by three cycles, and is not claimed.
    """

    def __init__(self, w: Format, seconds: float = 60) -> None:
        self.seconds = seconds
        self.lanes = lanes_of(Parameters(w, code_words=8, data_words=4, core=LANES, lanes=COUNT))
        self._hardware: dict[int, Symbolic] = {}
        self._drawn = 0

    def claims(self) -> list[str]:
        """The names of all claims."""
        return [f"lane {i}: {phase.name.lower()}" for i, phase in product(range(COUNT), Phase)]

    def prove(self, name: str) -> ProofResult:
        """Prove a claim. A claim that the solver does not decide in time does not hold."""
        begun, claims = time.monotonic(), self.claims()
        i, phase = [*product(range(COUNT), Phase)][claims.index(name)]
        facts, definitions = Obligations(), Definitions()
        self._cycle(facts, i, phase)
        try:
            wrong = facts.refute(definitions, self.seconds)
        except Undecided as error:
            wrong = str(error)
        return ProofResult(name, not wrong, time.monotonic() - begun, 1, wrong, facts.witnessed)

    def _of(self, i: int) -> Symbolic:
        """The hardware on which lane i depends."""
        if i not in self._hardware:
            lanes, lane = self.lanes, self.lanes.lanes[i]
            units = [unit.result for unit in lane.multipliers.values()] + [
                unit.result for unit in lane.dividers.values()
            ]
            ports = lane.traps, lane.halts, lane.phase, *lane.counters
            roots = [*ports, lanes.live, lanes.depths[i], *kept(lane).values()]
            free = [(signal, partial(self._any, len(signal))) for signal in (*arbitrary(lanes, i), *units)]
            self._hardware[i] = Symbolic(lanes, roots, given=free, inside=f"lane{i}.")
        return self._hardware[i]

    def _any(self, width: int) -> Word:
        self._drawn += 1
        return terms.unknown(f"any{self._drawn}", width)

    def _state(self, i: int) -> dict[str, tuple[Word, int]]:
        """The state of lane i, name -> (word, width); of each memory one arbitrary word."""
        hw, lane = self._of(i), self.lanes.lanes[i]
        signals = kept(lane) | {"depth": self.lanes.depths[i]}
        signals |= {f"counter {k}": lane.counters[k] for k in (0, 1, 3)}
        found: dict[str, tuple[Word, int]] = {name: (hw.peek(signal), len(signal)) for name, signal in signals.items()}
        for store in STORES:
            words = hw.memory(store)
            found[store] = terms.selected(words, terms.unknown(f"any of {store}", words.address)), words.width
        return found

    def _cycle(self, facts: Obligations, i: int, phase: Phase) -> None:
        """One cycle from any state in this phase."""
        hw, lanes, lane = self._of(i), self.lanes, self.lanes.lanes[i]
        hw.reset()
        hw.poke(lane.phase, phase.value)
        hw.forget([lane.phase])
        executes = phase not in (Phase.IDLE, Phase.FETCH)
        if executes:
            hw.poke(lanes.live, with_bit(self._any(COUNT), i, 0))
        for store in (*STORES, "code"):
            hw.unknown(store)
        ports = {name: width for name, (_, width) in hw.cells[0].ports_i.items() if not name.startswith("settings__")}
        for name in ("clk", "rst", *(("window__read", "window__write") if phase is Phase.IDLE else ())):
            del ports[name]
        hw.settle(**{name: self._any(width) for name, width in ports.items()})
        before, chosen = self._state(i), terms.piece_of(hw.peek(lanes.chosen), i, 1)
        hw.tick()
        for name, (word, width) in self._state(i).items():
            facts.oblige(name, terms.equal(word, before[name][0], width))
        if phase is not Phase.IDLE:
            live = terms.piece_of(hw.peek(lanes.live), i, 1)
            facts.oblige("the mask", terms.equal(live, 0 if executes else chosen, 1))
        facts.oblige("no trap", terms.negation(hw.peek(lane.traps)))
        facts.oblige("no end", terms.negation(hw.peek(lane.halts)))
