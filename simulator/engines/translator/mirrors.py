"""Mirrors: pairs of a compute block and its uncompute block, the exact inverse of it.

    compute = code[start:end];  body = code[end:undo];  uncompute = code[undo:after] = compute⁻¹

Pairs are found in the code alone (mirror_search.py), so programs of the compiler, of Janus and hand-written assembly are treated
alike. A pair that is found is verified here, and translated code checks at run time that the body keeps the words that the
compute block uses (ghost_uncompute.py). A wrong proposal costs time and never changes a result.

A region is a range of memory between two neighbouring data labels. An access is expected in the region of the constant from
which its address is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrograd.isa.effects import Erase, Unerase
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format

#: (first address, words) of a region
Region = tuple[int, int]


class Mirror(NamedTuple):
    """A compute block and its uncompute block, by their addresses."""

    start: int
    end: int
    undo: int
    after: int

    def reflected(self, length: int) -> Mirror:
        """The pair as it stands in the code that runs in the other direction."""
        return Mirror(*(2 * length - at for at in reversed(self)))

    def twin(self, outer: Mirror) -> Mirror:
        """The image, in the uncompute block of `outer`, of a pair in its compute block."""
        return Mirror(*(outer.start + outer.after - at for at in reversed(self)))


@dataclass
class Mirrors:
    """The pairs of a program, and the region of each access that has one: address of the instruction -> region."""

    pairs: list[Mirror] = field(default_factory=list)
    regions: dict[int, Region] = field(default_factory=dict)


def boundaries_of(program: Program) -> tuple[int, ...]:
    """The addresses between which the program's regions lie."""
    found = {at for at in program.data_labels.values() if 0 <= at < program.memory}
    return (*sorted(found), program.memory) if found else ()


def is_mirror(code: Sequence[Instruction], pair: Mirror, table: Table) -> bool:
    """Whether the uncompute block is the inverse of the compute block, of instructions that lose no word and do not turn or halt."""
    if not 0 <= pair.start < pair.end <= pair.undo < pair.after <= len(code):
        return False
    if pair.after - pair.undo != pair.end - pair.start:
        return False
    return all(
        code[pair.after - 1 - k] == inverse(code[pair.start + k], table) and can_be_undone(code[pair.start + k])
        for k in range(pair.end - pair.start)
    )


def can_be_undone(i: Instruction) -> bool:
    opcode = i.opcode
    if opcode.turns or opcode.name in ("start", "finish") or ("br" in opcode.writes and "d" in opcode.writes):
        return False
    return not any(isinstance(e, Erase | Unerase) for e in opcode.effects(Format()))


def registers(i: Instruction) -> list[int]:
    """The registers that an instruction names."""
    return [getattr(i, f) for f in ("rd", "ra", "rb") if f in i.opcode.fields]


def written(i: Instruction) -> list[int]:
    """The registers that an instruction changes."""
    return [getattr(i, REGISTER_FIELDS[place]) for place in i.opcode.writes if place in REGISTER_FIELDS]


def has_address(i: Instruction) -> bool:
    return "[ra+imm]" in i.opcode.operands
