# amaranth: UnusedElaboratable=no
"""Proofs of direct memory access as a master of Wishbone: from any of its states, for anything that memory and host do.

    held        a transfer without an answer is there in the next cycle as it was: `cyc`, `stb`, `we`, address, word, kind
    announced   an incrementing transfer that is carried out is followed at once by the transfer of the next address, in the same cycle of the bus
    refused     a refused transfer ends the copy: the bus is free in the next cycle
    ended       behind the last transfer of a burst the bus is free for a cycle
    free        without a copy no transfer begins, and no word of the co-processor is written or read

The claims are about one step from any state in which a transfer belongs to a copy; that this remains so is the first of them. Assumption: the
host interface refuses writes of the address, the length and the pointer during a copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce

import z3
from retrograd.hdl.bus.dma import CycleType, DirectMemoryAccess
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.obligations import ProofResult
from retrograd.hdl.formal.solving import truth
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

#: signals of a transfer
TRANSFER = ("cyc", "stb", "we", "adr", "sel", "dat_w", "cti", "bte")


class CopyProver:
    """The claims on the unit of a co-processor of this format. `unit`: another unit, to test that it is refuted."""

    def __init__(self, w: Format, seconds: float = 60, unit: type[DirectMemoryAccess] = DirectMemoryAccess) -> None:
        self.seconds = seconds
        self.unit = part = unit(Parameters(w, code_words=8, data_words=4, dma=True))
        memory = part.memory
        self._signals = {name: getattr(memory, name) for name in TRANSFER} | {
            name: getattr(part, name) for name in ("busy", "write", "read")
        }
        self._hardware = Symbolic(part, [*self._signals.values()])

    def claims(self) -> dict[str, Callable[[], tuple[Word, Word]]]:
        """name -> (premise, conclusion) of a step."""
        return {
            "direct memory access: held": self._held,
            "direct memory access: announced": self._announced,
            "direct memory access: refused": self._refused,
            "direct memory access: ended": self._ended,
            "direct memory access: free": self._free,
        }

    def prove(self, name: str) -> ProofResult:
        """The result of one claim."""
        begun, wrong = time.monotonic(), ""
        premise, holds = self.claims()[name]()
        solver = z3.Solver()
        solver.set("timeout", int(1000 * self.seconds))
        solver.add(truth(premise))
        if solver.check() != z3.sat:
            wrong = "no state satisfies the premise"
        else:
            solver.add(z3.Not(truth(holds)))
            match solver.check():
                case z3.sat:
                    wrong = str(solver.model())
                case z3.unknown:
                    wrong = "undecided"
        return ProofResult(name, not wrong, time.monotonic() - begun, 0, wrong, not wrong)

    def _step(self) -> tuple[dict[str, Word], dict[str, Word], Word]:
        """The signals in a cycle and in the next, and the premise: a transfer belongs to a copy, and a copy is not disturbed."""
        hw = self._hardware
        hw.reset()
        hw.forget([])
        same = {"found": terms.unknown("found", 64), "wide": terms.unknown("wide", 1)}
        given = {
            "memory__ack": terms.unknown("ack", 1), "memory__err": terms.unknown("err", 1), "memory__dat_r": terms.unknown("dat_r", 32),
            "begin": terms.unknown("begin", 1), "out": terms.unknown("out", 1), "stop": terms.unknown("stop", 1),
            "set_address": 0, "set_length": 0, "value": 0,
        }  # fmt: skip
        hw.settle(**same, **given)
        before = {name: hw.peek(signal) for name, signal in self._signals.items()} | given
        hw.tick()
        hw.settle(**same, **(given | {"memory__ack": 0, "memory__err": 0}))
        after = {name: hw.peek(signal) for name, signal in self._signals.items()}
        return before, after, _implies(before["cyc"], before["busy"])

    def _same(self, before: dict[str, Word], after: dict[str, Word], names: tuple[str, ...]) -> Word:
        bits = [_equal(before[name], after[name], len(self._signals[name])) for name in names]
        return reduce(terms.conjunction, bits, 1)

    def _held(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        unanswered = terms.conjunction(_not(before["memory__ack"]), _not(before["memory__err"]))
        holds = terms.conjunction(self._same(before, after, TRANSFER), after["busy"])
        return reduce(terms.conjunction, (premise, before["cyc"], unanswered)), holds

    def _carried_out(self, before: dict[str, Word], premise: Word) -> Word:
        return reduce(terms.conjunction, (premise, before["cyc"], before["memory__ack"], _not(before["memory__err"])))

    def _announced(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        goes_on = _equal(before["cti"], CycleType.INCREMENTING.value, 3)
        address = terms.apply("+", 30, [30, 30], [before["adr"], 1])
        holds = terms.conjunction(
            self._same(before, after, ("cyc", "stb", "we", "sel", "bte")), _equal(after["adr"], address, 30)
        )
        return terms.conjunction(self._carried_out(before, premise), goes_on), holds

    def _refused(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        free = terms.conjunction(_not(after["cyc"]), _not(after["busy"]))
        return reduce(terms.conjunction, (premise, before["cyc"], before["memory__err"])), free

    def _ended(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        last = _equal(before["cti"], CycleType.END.value, 3)
        holds = terms.conjunction(_not(after["cyc"]), after["busy"])
        return terms.conjunction(self._carried_out(before, premise), last), holds

    def _free(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        return terms.conjunction(premise, _not(before["busy"])), terms.conjunction(
            _not(after["cyc"]), _not(before["read"])
        )


def _equal(x: Word, y: Word, width: int) -> Word:
    return terms.equal(x, y, width)


def _not(x: Word) -> Word:
    return terms.negation(x)


def _implies(x: Word, y: Word) -> Word:
    return terms.disjunction(terms.negation(x), y)
