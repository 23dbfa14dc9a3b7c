"""The microprograms of the table: the schedule that the co-processor executes for each opcode, with D = 0 and with D = 1."""

from __future__ import annotations

from functools import cache

from retrograd.isa.derivatives.cotangent_steps import cotangent_step
from retrograd.isa.entries import NOT_JUMPING, Entry, Guards, Opcode, bar, opcodes_of
from retrograd.isa.expr import ZERO, place, substitute
from retrograd.isa.microarchitecture.branches import shortened
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units
from retrograd.isa.microarchitecture.schedule import schedule
from retrograd.isa.microarchitecture.stages import InstructionTrees, Microprogram, computed, microprogram, plain
from retrograd.isa.words import Format


def trees(opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS) -> InstructionTrees:
    """The trees of an opcode; with `lifted`, those of cotangents too. `same`: ra and rb are one register; `units`: those of the core."""
    values = plain(opcode, w)
    if units.overlapped:
        values = shortened(values, NOT_JUMPING in opcode.guards(w))
    if not lifted:
        return values
    same = same and distinguishes(opcode, w)
    moved = cotangent_step(opcode, w, same)
    # The hardware keeps no cotangent of a freed ancilla.
    after = {**values.after, **moved.after, **dict.fromkeys(moved.drops, ZERO)}
    predicates = (*values.guards, *(guard.predicate for guard in moved.guards))
    if same:
        one = {"b": place("a"), bar("b"): place(bar("a"))}
        after = {name: substitute(tree, one) for name, tree in after.items()}
        predicates = tuple(substitute(predicate, one) for predicate in predicates)
    return InstructionTrees(after, predicates)


def guards(opcode: Opcode, w: Format, lifted: bool, same: bool) -> Guards:
    """The guards whose predicates are among its trees, in their order."""
    values = computed(opcode, w)
    return (*values, *cotangent_step(opcode, w, same and distinguishes(opcode, w)).guards) if lifted else values


def distinguishes(opcode: Opcode, w: Format) -> bool:
    """Whether it matters with D = 1 that ra and rb are one register: both operands contribute to its one cotangent."""
    may_be_one = not {("ra", "rb"), ("rb", "ra")} & {*opcode.distinct}
    return may_be_one and {bar("a"), bar("b")} <= cotangent_step(opcode, w, False).after.keys()


@cache
def microprograms(
    entry: Entry, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS
) -> dict[str, Microprogram]:
    """name -> microprogram with D = `lifted`, for all opcodes of an entry: inverses are made together."""
    opcodes = opcodes_of(entry)
    schedules = {o.name: schedule(*trees(o, w, lifted, same, units), w, units) for o in opcodes}
    return {o.name: microprogram(o, schedules[o.name], schedules[o.inverse_name], units.overlapped) for o in opcodes}
