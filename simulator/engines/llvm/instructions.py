"""Instructions as trees, ready for code: guards and changed words, with cotangents if D = 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from retrograd.isa.derivatives import NOTHING, cotangent_step
from retrograd.isa.effects import Erase, Unerase
from retrograd.isa.entries import NOT_JUMPING, Mode, Opcode
from retrograd.isa.expr import Expr, inputs, nodes
from retrograd.isa.words import Format

#: registers named by the fields of an instruction
REGISTERS = ("d", "a", "b")
MODES: tuple[Mode, ...] = ("always", "overflow", "strict")


@dataclass(frozen=True, eq=False)
class Step:
    """`after`: place -> its word after the instruction, as trees over the words before; `guards[mode]` must all hold.

    For a branch the words include BR. The guard that only a branch ends a jump is left out: control flow implies it.
    """

    opcode: Opcode
    format: Format
    differentiating: bool
    #: ra and rb are one register
    same: bool
    after: dict[str, Expr]
    guards: dict[Mode, tuple[Expr, ...]]
    #: cotangents that are dropped, and must be counted
    drops: tuple[str, ...]
    #: places whose words are lost
    erases: tuple[str, ...]
    #: places whose lost words would have to come back
    unerases: tuple[str, ...]

    @cached_property
    def roots(self) -> tuple[Expr, ...]:
        return (*self.after.values(), *(tree for trees in self.guards.values() for tree in trees))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The places and cotangents that the trees read, dropped and erased ones included."""
        return inputs(*self.roots) | set(self.drops) | set(self.erases)

    @cached_property
    def operands(self) -> list[str]:
        """The registers, memory words and cotangents that are read, in order."""
        return sorted(self.reads - {"imm", "br"})

    @cached_property
    def memory(self) -> bool:
        """Whether it has an address."""
        return "m" in self.opcode.reads or "m" in self.opcode.writes

    @cached_property
    def size(self) -> int:
        """Nodes of its trees, leaves not counted."""
        return sum(node.op not in ("const", "input") for node in nodes(*self.roots))


@cache
def step(opcode: Opcode, w: Format, differentiating: bool, same: bool) -> Step:
    """The opcode's step; `same`: ra and rb are one register, which matters to their cotangent."""
    companions = cotangent_step(opcode, w, same) if differentiating else NOTHING
    guards: dict[Mode, tuple[Expr, ...]] = dict.fromkeys(MODES, ())
    for guard in opcode.guards(w):
        if guard != NOT_JUMPING or "br" in opcode.writes:
            guards[guard.mode] += (opcode.guard_predicate(guard, w),)
    for guard in companions.guards:
        guards[guard.mode] += (guard.predicate,)
    effects = opcode.effects(w)
    return Step(
        opcode,
        w,
        differentiating,
        same,
        opcode.transition(w) | companions.after,
        guards,
        companions.drops if differentiating else (),
        tuple(e.place for e in effects if isinstance(e, Erase)),
        tuple(e.place for e in effects if isinstance(e, Unerase)),
    )
