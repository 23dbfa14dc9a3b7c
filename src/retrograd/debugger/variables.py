"""Variables of the source: the places and values of the variables that are live where the machine stands.

    forward, the machine stands before the instruction at pc: point pc of the code
    backward, the instruction at pc is undone next:           point pc + 1

The compiler records the locations (`isa.program.VariableLocation`). Two variables of one name may be live, since a callee that was
inlined has variables of its own: the name then means the variable that became live last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from retrograd.debugger.places import Place, cotangent_of
from retrograd.isa.program import Program, VariableLocation
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine
from retrograd.values.exact import real_of

Value = int | bool | float | Fraction


@dataclass(frozen=True)
class Variable:
    """A live variable. A fixed-point value is exact, as a Fraction; that of a lognum is rounded to a float."""

    name: str
    kind: str
    place: Place
    value: Value
    #: ∂loss/∂variable so far; None unless the machine differentiates
    cotangent: Fraction | None = None


def live(program: Program, point: int) -> Sequence[VariableLocation]:
    """The locations that hold at a point of the code, the variable that became live last at the end."""
    return sorted((v for v in program.variables if v.first <= point <= v.last), key=lambda v: v.first)


def point_of(machine: Machine) -> int:
    """The point of the code where the machine stands: between two instructions."""
    return machine.pc if machine.direction > 0 else machine.pc + 1


def named(text: str, machine: Machine) -> VariableLocation | None:
    """The live variable of a name; None if there is none."""
    found = [v for v in live(machine.program, point_of(machine)) if v.name == text]
    return found[-1] if found else None


def place_of(location: VariableLocation) -> Place:
    """The place that a location stands for."""
    return Place(location.number, location.memory)


def value_of(kind: str, word: int, w: Format) -> Value:
    """The value of a word by the kind of its variable."""
    match kind:
        case "fixed":
            return w.to_real(word)
        case "lognum":
            return float(real_of(word, "lognum", w))
        case "bool" if word in (0, 1):
            return bool(word)
        case _:
            return w.signed(word)


def variables(machine: Machine) -> list[Variable]:
    """The live variables. Trap: within one statement of the source a word may lie elsewhere for a few instructions."""
    out = {}
    for v in live(machine.program, point_of(machine)):
        place = place_of(v)
        out[v.name] = Variable(
            v.name,
            v.kind,
            place,
            value_of(v.kind, int(place.word(machine)), machine.format),
            cotangent_of(place, machine),
        )
    return list(out.values())
