"""Proofs on the overlapped core: an instruction at a time, from a state between two instructions in which all else is unknown.

Instructions that are fetched ahead are arbitrary, and have no effect: the core stops after the step.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.core_execution import CoreExecution, ProofRun
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.proofs import Prover
from retrograd.hdl.formal.symbolic import Hook, Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.formal.unit_functions import UnitFunctions
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

_PHASES = {"code": Phase.FETCH, "sequencer.dispatch": Phase.DECODE}


class _AheadUnknown(Symbolic):
    """Memories are read for the instruction to be proved in one phase. In any other they are read ahead, and the words are arbitrary."""

    def answer(self, name: str, word: Hook) -> None:
        core: Any = self.core
        width = {"code": 64, "sequencer.dispatch": core.microcode.entry.size}[name]

        def found(at: Word) -> Word:
            if self.peek(core.phase) == _PHASES[name].value:
                return word(at)
            self.reads += 1
            return terms.unknown(f"ahead{self.reads}", width)

        super().answer(name, found)


class _SlotUnits(UnitFunctions):
    """The units of one slot."""

    def __init__(self, core: Any, k: int, w: Format) -> None:
        units = {"multiplier": core.multipliers[k], "divider": core.dividers[k]}
        whole = {"phase": core.phase, "rom": core.rom, "microcode": core.microcode}
        super().__init__(SimpleNamespace(**units, **whole), w)  # type: ignore[arg-type]


class _Units:
    """The units of all slots."""

    def __init__(self, core: Any, w: Format) -> None:
        self.slots = {k: _SlotUnits(core, k, w) for k in core.multipliers}

    def begin(self) -> None:
        for units in self.slots.values():
            units.begin()

    def advance(self) -> None:
        moved = {k: units.moved() for k, units in self.slots.items()}
        self.slots[0].hardware.tick()
        for k, units in self.slots.items():
            units._products, units._division = moved[k]

    def of_table(self, operation: str, parameter: Any, v: list[Word]) -> Word:
        return self.slots[0].of_table(operation, parameter, v)


class _OverlappedExecution(CoreExecution):
    """The core "fast", whose units stand in slots."""

    def __init__(self, w: Format, microcode: Microcode | None, seconds: float) -> None:
        self.w, self.seconds = w, seconds
        core: Any = core_of(Parameters(w, code_words=8, data_words=4, core="fast"), microcode)
        self.core, units = core, _Units(core, w)
        self.units = units  # type: ignore[assignment]
        self.hardware = hardware = _AheadUnknown(
            core,
            [core.pc, core.br, core.backward, core.idle, core.begins, core.traps, core.trap, core.halts, core.phase],
            hooks=[
                *((self._result(k), partial(self._named, k)) for k in range(core.slots)),
                (core.guarded, self._guard),
                (core.jumping, lambda word: self._early("a jump", word, 0, Phase.READ)),
                (core.decoder.legal, lambda word: self._early("an illegal instruction", word, 1, Phase.READ)),
                (core.branch.inside, lambda word: self._early("PC outside the code", word, 1, Phase.FETCH)),
                (core.memory.valid, lambda word: self._early("an address outside", word, 1, Phase.ACCESS)),
            ],
            decide=self._decide,
            given=[
                *((core.multipliers[k].result, found.product) for k, found in units.slots.items()),
                *((core.dividers[k].result, found.quotient) for k, found in units.slots.items()),
            ],
        )
        hardware.core, hardware.reads = core, 0
        for found in units.slots.values():
            found.hardware = hardware
        self._lemmas: set[Word] = set()
        self.run = ProofRun()
        self.definitions = Definitions()

    def _result(self, k: int) -> Any:
        return getattr(self.core.operands, f"result{k}")

    def _named(self, k: int, word: Word) -> Word:
        # Of a slot with a logic unit alone, the unit's result is the same signal.
        self.hardware._found[self.hardware._cell(self._result(k))] = word
        core: Any = self.core
        return self._name(core.logics[k], word)


class OverlappedProver(Prover):
    """The proofs of `Prover` on the core "fast"."""

    def __init__(self, w: Format, microcode: Microcode | None = None, seconds: float = 60) -> None:
        self.w = w
        self._execution = _OverlappedExecution(w, microcode, seconds)
