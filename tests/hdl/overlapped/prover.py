"""Proofs on the overlapped core: an instruction at a time, from a state between two instructions in which all else is unknown.

Instructions that are fetched ahead are arbitrary, and have no effect: the core stops after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.proofs import Prover, _Run
from retrograd.hdl.formal.symbolic import Hook, Symbolic
from retrograd.hdl.formal.terms import Word
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


class OverlappedProver(Prover):
    """The proofs of `Prover` on the core "fast", whose units stand in slots."""

    def __init__(self, w: Format, microcode: Microcode | None = None, seconds: float = 60) -> None:
        self.w = w
        self.seconds = seconds
        core: Any = core_of(Parameters(w, code_words=8, data_words=4, core="fast"), microcode)
        self._core = self.cores = core
        operands = [getattr(core.operands, f"result{k}") for k in range(core.slots)]
        self._hardware = hardware = _AheadUnknown(
            core,
            [core.pc, core.br, core.backward, core.idle, core.begins, core.traps, core.trap, core.halts, core.phase],
            hooks=[
                *((result, partial(self._named, k, result)) for k, result in enumerate(operands)),
                (core.guarded, self._guard),
                (core.jumping, lambda word: self._early("a jump", word, 0, Phase.READ)),
                (core.decoder.legal, lambda word: self._early("an illegal instruction", word, 1, Phase.READ)),
                (core.branch.inside, lambda word: self._early("PC outside the code", word, 1, Phase.FETCH)),
                (core.memory.valid, lambda word: self._early("an address outside", word, 1, Phase.ACCESS)),
            ],
            decide=self._decide,
            given=[
                *((unit.result, partial(self._in, k, self._product)) for k, unit in core.multipliers.items()),
                *((unit.result, partial(self._in, k, self._quotient)) for k, unit in core.dividers.items()),
            ],
        )
        hardware.core, hardware.reads = core, 0
        self.microcode = core.microcode
        self._lemmas: set[Word] = set()
        self._run = _Run()
        self._definitions = Definitions()
        self._lefts = 0
        self._stages: dict[int, Any] = {}
        self._products, self._division = [None, None], None

    def _begin(self, backward: bool, lifted: bool, drops: bool) -> _Run:
        self._stages = {}
        return super()._begin(backward, lifted, drops)

    @contextmanager
    def _slot(self, k: int) -> Iterator[None]:
        """The units of a slot, with the operands that they hold, in the place of those of the core."""
        core = self.cores
        core.logic = core.logics[k]
        core.multiplier, core.divider = (
            core.multipliers.get(k, core.multipliers[0]),
            core.dividers.get(k, core.dividers[0]),
        )
        self._products, self._division = self._stages.get(k, ([None, None], None))
        try:
            yield
        finally:
            self._stages[k] = self._products, self._division
            core.logic, core.multiplier, core.divider = core.logics[0], core.multipliers[0], core.dividers[0]

    def _named(self, k: int, signal: Any, word: Word) -> Word:
        # Of a slot with a logic unit alone, the unit's result is the same signal.
        hw = self._hardware
        hw._found[hw._cell(signal)] = word
        return self._in(k, self._name, word)

    def _in(self, k: int, function: Callable[..., Word], *words: Word) -> Word:
        with self._slot(k):
            return function(*words)

    def _tick(self) -> None:
        hw, core = self._hardware, self.cores
        runs = hw.peek(core.phase) == Phase.RUN.value
        after: dict[int, Any] = {}
        for k in core.multipliers:
            multiplier, divider = core.multipliers[k], core.dividers[k]
            products, division = self._stages.get(k, ([None, None], None))
            asked = None
            if runs and hw.peek(multiplier.start):
                asked = hw.peek(multiplier.half), hw.peek(multiplier.x), hw.peek(multiplier.y)
            if runs and hw.peek(divider.start):
                division = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
            after[k] = [asked, products[0] or products[1]], division
        hw.tick()
        self._stages = after
