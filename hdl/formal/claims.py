"""The claims to be proved of the hardware, opcode by opcode, derived from the table alone.

    claims(w, opcodes)       for each opcode, for D = 0 and D = 1 and both directions: its execution is undone by the step back;
                             for a jump also the pair of jump and partner; an opcode with a guard that fails for all words traps;
                             its step is the table's transition, and it traps if and only if a guard of the table fails
    not_covered(w, opcodes)  the modes in which this transition is not claimed for some runs, and these runs

A claim without a proof has not been proved: `retrograd hdl formal` counts it as failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import product

from retrograd.isa.derivatives import freed
from retrograd.isa.entries import NOT_JUMPING, Guard, Opcode, a
from retrograd.isa.expr import ZERO, substitute
from retrograd.isa.manual.description import group_title
from retrograd.isa.microarchitecture.micro_operations import BARREL
from retrograd.isa.microarchitecture.schedule import cycles, microprograms
from retrograd.isa.microarchitecture.schedule import distinguishes as one_register_matters
from retrograd.isa.smtlib import define
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: names of operands
_PLACES = {"d": "rd", "a": "ra", "b": "rb", "m": "memory", "br": "BR"}


def _mode(lifted: bool, backward: bool) -> str:
    return f"D={int(lifted)} DIR={-1 if backward else 1}"


class ClaimKind(Enum):
    """Kinds of claims, as they are printed."""

    INVERSE = "taken back"
    JUMP = "taken back with its partner"
    TRAP = "always traps"
    TRANSITION = "as in the table"


@dataclass(frozen=True)
class Claim:
    """One claim. `same`: ra and rb are one register."""

    opcode: Opcode
    kind: ClaimKind
    lifted: bool = False
    backward: bool = False
    same: bool = False

    @property
    def name(self) -> str:
        """Opcodes and mode: "mul.add D=1 DIR=-1"."""
        partner = f", {TABLE.inverse(self.opcode).name}" if self.kind is ClaimKind.JUMP else ""
        one = " ra=rb" if self.same else ""
        kind = ", table" if self.kind is ClaimKind.TRANSITION else ""
        return f"{self.opcode.name}{partner}{kind} {_mode(self.lifted, self.backward)}{one}"


def claims(w: Format, opcodes: Collection[str], core: str = "small") -> list[Claim]:
    """All claims on the given opcodes, in the order of the table. An opcode that is not `provable` is not claimed to be undone.

    Of a thread of the core barrel only the transitions are claimed; that a transition is undone is a law of the table.
    """
    chosen, undone = [opcode for opcode in TABLE if opcode.name in opcodes], core != BARREL
    return [
        claim
        for opcode in chosen
        for claim in (*(_claims_of(opcode, w) if undone else ()), *_transitions_of(opcode, w))
    ]


def not_covered(w: Format, opcodes: Collection[str]) -> dict[str, str]:
    """Opcode and mode, such as "assertz D=1 DIR=1" -> the runs for which the transition of the table is not claimed."""
    return {
        f"{opcode.name} {_mode(lifted, backward)}": reason
        for opcode in TABLE
        if opcode.name in opcodes
        for lifted, backward in product((False, True), repeat=2)
        if (reason := _left(_executed(opcode, backward), w, lifted))
    }


def _transitions_of(opcode: Opcode, w: Format) -> Iterator[Claim]:
    for lifted, backward in product((False, True), repeat=2):
        for same in (False, True) if distinguishes(opcode, w, lifted) else (False,):
            yield Claim(opcode, ClaimKind.TRANSITION, lifted, backward, same)


def _left(executed: Opcode, w: Format, lifted: bool) -> str:
    """The runs for which the transition of the executed opcode is not claimed; or ""."""
    if lifted and freed(executed, w):
        return "runs that have discarded a cotangent: this opcode discards one, and may not cross that point again (RG0409)"
    return ""


def _claims_of(opcode: Opcode, w: Format) -> Iterator[Claim]:
    if not provable(opcode):
        return
    for lifted, backward in product((False, True), repeat=2):
        for same in (False, True) if distinguishes(opcode, w, lifted) else (False,):
            kind = ClaimKind.TRAP if always_traps(_executed(opcode, backward), w, same) else ClaimKind.INVERSE
            yield Claim(opcode, kind, lifted, backward, same)
        if jumps(opcode, w, backward):
            yield Claim(opcode, ClaimKind.JUMP, lifted, backward)


def _executed(opcode: Opcode, backward: bool) -> Opcode:
    return TABLE.inverse(opcode) if backward else opcode


def provable(opcode: Opcode) -> bool:
    """Whether the opcode is claimed to be undone: an erasure is not, and a halted machine executes no step."""
    pair = opcode, TABLE.inverse(opcode)
    return not any(o.erased_words or o.halts for o in pair)


def jumps(opcode: Opcode, w: Format, backward: bool) -> bool:
    """Whether the opcode may begin a jump, which the inverse with the opposite constant ends."""
    executed = _executed(opcode, backward)
    return opcode.negates_immediate and NOT_JUMPING in executed.guards(w) and "br" in executed.writes


def distinguishes(opcode: Opcode, w: Format, lifted: bool) -> bool:
    """Whether the microprogram, in either direction, depends on ra and rb being one register."""
    return lifted and any(one_register_matters(o, w) for o in (opcode, TABLE.inverse(opcode)))


def always_traps(opcode: Opcode, w: Format, same: bool = False) -> bool:
    """Whether a guard fails for all words, in every mode: the format lacks the function, or with `same` both operands are equal."""
    return any(guard.mode == "always" and _fails(opcode, guard, w, same) for guard in opcode.guards(w))


def trap_codes(opcode: Opcode, w: Format, same: bool = False) -> list[str]:
    """The possible codes of an opcode that always traps: the codes of its guards, up to the first guard that always fails."""
    found = []
    for guard in opcode.guards(w):
        if guard is not NOT_JUMPING:
            found.append(guard.code)
            if guard.mode == "always" and _fails(opcode, guard, w, same):
                break
    return found


@cache
def _fails(opcode: Opcode, guard: Guard, w: Format, same: bool) -> bool:
    """Whether the predicate is 0 for all words: literally, or, where one register is read twice, by the solver."""
    predicate = opcode.guard_predicate(guard, w)
    if not same:
        return predicate is ZERO
    import z3

    commands, (name,) = define([substitute(predicate, {"b": a})], w)
    solver = z3.Solver()
    solver.from_string("\n".join([*commands, f"(assert (not (= {name} (_ bv0 {w.width}))))"]))
    return bool(solver.check() == z3.unsat)


def classes(w: Format) -> dict[str, list[Opcode]]:
    """The provable opcodes by class, the shortest first.

    A class is a group of the table, the operands that are written, and the units that compute what is written.
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
