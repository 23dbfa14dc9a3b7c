"""What is to be proved of the hardware, opcode by opcode: from the table alone, whatever the hardware does.

    claims(w, opcodes)    for each opcode, with D = 0 and D = 1, in both directions: that its execution is taken back;
                          that of a jump and its partner, too; where a guard of the table's fails for all words, that it traps

A claim that no proof answers has not been proved: `retrograd hdl formal` counts it as one that fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import product

from retrograd.isa.entries import NOT_JUMPING, Guard, Opcode, a
from retrograd.isa.expr import ZERO, substitute
from retrograd.isa.folds.smtlib import define
from retrograd.isa.manual.description import group_title
from retrograd.isa.microarchitecture.microprograms import distinguishes as one_register_matters
from retrograd.isa.microarchitecture.microprograms import microprograms
from retrograd.isa.microarchitecture.timing import cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: how a place is written
_PLACES = {"d": "rd", "a": "ra", "b": "rb", "m": "memory", "br": "BR"}


class Kind(Enum):
    """What is claimed, as it is printed."""

    INVERSE = "taken back"
    JUMP = "taken back with its partner"
    TRAP = "always traps"


@dataclass(frozen=True)
class Claim:
    """One claim. `same`: ra and rb are one register."""

    opcode: Opcode
    kind: Kind
    lifted: bool = False
    backward: bool = False
    same: bool = False

    @property
    def name(self) -> str:
        """Opcodes and mode: "mul.add D=1 DIR=-1"."""
        partner = f", {TABLE.inverse(self.opcode).name}" if self.kind is Kind.JUMP else ""
        one = " ra=rb" if self.same else ""
        return f"{self.opcode.name}{partner} D={int(self.lifted)} DIR={-1 if self.backward else 1}{one}"


def claims(w: Format, opcodes: Collection[str]) -> list[Claim]:
    """All that is to be proved of some opcodes, in the order of the table; none of one that is not `provable`."""
    return [claim for opcode in TABLE if opcode.name in opcodes for claim in _claims_of(opcode, w)]


def _claims_of(opcode: Opcode, w: Format) -> Iterator[Claim]:
    if not provable(opcode):
        return
    for lifted, backward in product((False, True), repeat=2):
        for same in (False, True) if distinguishes(opcode, w, lifted) else (False,):
            kind = Kind.TRAP if always_traps(_executed(opcode, backward), w, same) else Kind.INVERSE
            yield Claim(opcode, kind, lifted, backward, same)
        if jumps(opcode, w, backward):
            yield Claim(opcode, Kind.JUMP, lifted, backward)


def _executed(opcode: Opcode, backward: bool) -> Opcode:
    return TABLE.inverse(opcode) if backward else opcode


def provable(opcode: Opcode) -> bool:
    """Whether there is anything to prove: an erasure comes back from nothing, and at an end the machine stays."""
    pair = opcode, TABLE.inverse(opcode)
    return not any(o.erased_words or o.halts for o in pair)


def jumps(opcode: Opcode, w: Format, backward: bool) -> bool:
    """Whether its execution may begin a jump, which its inverse, with the opposite constant, ends."""
    executed = _executed(opcode, backward)
    return opcode.negates_immediate and NOT_JUMPING in executed.guards(w) and "br" in executed.writes


def distinguishes(opcode: Opcode, w: Format, lifted: bool) -> bool:
    """Whether it makes a difference, in either direction, that ra and rb are one register."""
    return lifted and any(one_register_matters(o, w) for o in (opcode, TABLE.inverse(opcode)))


def always_traps(opcode: Opcode, w: Format, same: bool = False) -> bool:
    """Whether a guard fails for all words, in every mode: the format has no such function, or with `same` the words are equal."""
    return any(guard.mode == "always" and _fails(opcode, guard, w, same) for guard in opcode.guards(w))


def trap_codes(opcode: Opcode, w: Format, same: bool = False) -> list[str]:
    """The codes of an opcode that always traps: those of its guards up to the first that always fails."""
    found = []
    for guard in opcode.guards(w):
        if guard is not NOT_JUMPING:
            found.append(guard.code)
            if guard.mode == "always" and _fails(opcode, guard, w, same):
                break
    return found


@cache
def _fails(opcode: Opcode, guard: Guard, w: Format, same: bool) -> bool:
    """Whether the predicate is 0 whatever the words: written so, or of one register read twice as the solver finds."""
    predicate = opcode.guard_predicate(guard, w)
    if not same:
        return predicate is ZERO
    import z3

    commands, (name,) = define([substitute(predicate, {"b": a})], w)
    solver = z3.Solver()
    solver.from_string("\n".join([*commands, f"(assert (not (= {name} (_ bv0 {w.width}))))"]))
    return bool(solver.check() == z3.unsat)


def classes(w: Format) -> dict[str, list[Opcode]]:
    """The opcodes that there is something to prove of, by what the hardware does for them; the shortest first.

    A class is a group of the table, the places that are written, and the units that compute what is written there.
    """
    found: dict[str, list[Opcode]] = {}
    for opcode in TABLE:
        if provable(opcode):
            programs = [microprograms(opcode.entry, w, lifted, False)[opcode.name] for lifted in (False, True)]
            units = sorted({o.unit.value for program in programs for o in program.schedule.operations})
            places = ", ".join(_PLACES[place] for place in opcode.writes) or "nothing"
            name = f"{group_title(opcode.group)}: {places} by {', '.join(units) or 'no unit'}"
            found.setdefault(name, []).append(opcode)
    return {name: sorted(opcodes, key=lambda o: cycles(o, w, True, False)) for name, opcodes in found.items()}
