"""Pipeline stages: the execution of an instruction on the co-processor, and its cycles.

    fetch · decode · read [· address · access] · execute … · write …

One instruction is in flight, so the cycles of a run are the sum over its instructions. An instruction takes as many as its
inverse, so a run back takes as many as the run: of two that undo each other, the shorter waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from retrograd.isa.entries import BAR, NOT_JUMPING, REGISTER_FIELDS, Guards, Opcode, bar
from retrograd.isa.expr import Expr
from retrograd.isa.microarchitecture.micro_operations import Input, Literal, Schedule, Temporary
from retrograd.isa.words import Format

#: The word of code, read at PC.
FETCH = 1
#: The fields address the register file; BR must be 0, but for branches.
DECODE = 1
#: Three registers, each word with its cotangent, go into the operand latches; the constant too, with either sign.
READ = 1
#: ra + imm. An overlapped core computes it while the instruction before executes.
ADDRESS = 1
#: A memory word with its cotangent goes into its latch.
ACCESS = 1
#: Of an overlapped core: fetch, decode and read after an instruction that sets BR, PC or DIR.
REFETCH = FETCH + DECODE + READ


#: a format, where it does not matter which
_ANY = Format(32, 16)


class InstructionTrees(NamedTuple):
    """The trees of an instruction: the new words of places, and predicates that must hold before any word is written."""

    after: Mapping[str, Expr]
    guards: tuple[Expr, ...]


def computed(opcode: Opcode, w: Format) -> Guards:
    """The guards whose predicates are computed.

    Overflow is checked whether or not a machine traps on it, so that this changes no timing; strict mode refuses an opcode
    as such, and BR = 0 is a matter of decoding.
    """
    return tuple(g for g in opcode.guards(w) if g.mode != "strict" and g != NOT_JUMPING)


def plain(opcode: Opcode, w: Format) -> InstructionTrees:
    """The trees of the opcode with D = 0."""
    return InstructionTrees(opcode.transition(w), tuple(opcode.guard_predicate(g, w) for g in computed(opcode, w)))


@dataclass(frozen=True)
class Microprogram:
    """The execution of an instruction: its schedule, its cycles, and the stages before and after."""

    schedule: Schedule
    #: at least one, at least those of the schedule
    execute: int
    #: reads a memory word, and perhaps writes one
    memory: bool
    #: the fields of the registers to write, in their order: rd, then ra, then rb
    writes: tuple[str, ...]
    #: the next instruction begins to execute while this one writes its last register
    overlapped: bool = False
    #: only after this instruction is it known which instruction is next
    redirects: bool = False

    @property
    def lands(self) -> bool:
        """A guard demands that BR be 0 behind this instruction."""
        return self.schedule.after.get("br") == Literal(0)

    @property
    def leaps(self) -> int | None:
        """The slot that chooses, in the last cycle of execution, between the constant and 0 as the new BR; −1: BR is the constant.

        None: neither. Else both addresses of the next instruction are known before, and it is fetched in this cycle.
        """
        new = self.schedule.after.get("br")
        if self.redirects and new == Input("imm"):
            return -1
        for o in self.schedule.operations if self.redirects else ():
            register = o.results[0].register
            chooses = o.operation == "select" and o.operands[1:] == (Input("imm"), Literal(0))
            if chooses and register is not None and new == Temporary(register) and o.cycle == self.execute - 1:
                return o.slot
        return None

    @property
    def write_cycles(self) -> tuple[tuple[str | None, str | None], ...]:
        """The field of the register whose word is written, and of the one whose cotangent is, in each cycle of writing; at least one.

        An overlapped core writes them separately, and so a word and the cotangent of another register in one cycle.
        """
        if not self.overlapped:
            return tuple((field, field) for field in self.writes) or ((None, None),)
        words = [field for name, field in REGISTER_FIELDS.items() if name in self.schedule.after]
        cotangents = [field for name, field in REGISTER_FIELDS.items() if bar(name) in self.schedule.after]
        return tuple(zip_longest(words, cotangents)) or ((None, None),)

    @property
    def stages(self) -> dict[str, int]:
        """Stage -> cycles, in their order. A memory word is written along with the first register.

        On an overlapped core: the cycles in which no other instruction executes.
        """
        writes = len(self.write_cycles)
        access = {"access": ACCESS} if self.memory else {}
        if not self.overlapped:
            address = {"address": ADDRESS} if self.memory else {}
            return {
                "fetch": FETCH,
                "decode": DECODE,
                "read": READ,
                **address,
                **access,
                "execute": self.execute,
                "write": writes,
            }
        refetch = {"refetch": REFETCH - FETCH * (self.leaps is not None)} if self.redirects else {}
        return {**access, "execute": self.execute, "write": writes - 1, **refetch}

    def stages_before(self, addressing: str | None) -> dict[str, int]:
        """Stage -> cycles where an instruction on memory follows, if `addressing` is not None; see `Execution.addressing`.

        An overlapped core reads the memory word in the last cycle of this instruction. It does so later if the address or the word is
        not known then: a cycle after the address register is read, which is in the cycle of its last write at the earliest.
        """
        stages = self.stages
        if not self.overlapped or self.redirects or addressing is None:
            return stages
        written = [word for word, _ in self.write_cycles]
        if addressing and written[-1] == addressing:
            return {**stages, "address": ADDRESS}
        stores = len(written) == 1 and bool({"m", bar("m")} & self.schedule.after.keys())
        if self.execute + len(written) == 2 or stores or (addressing and written[-2:-1] == [addressing]):
            return stages
        last = "write" if stages["write"] else "execute"
        return {**stages, last: stages[last] - ACCESS}

    @property
    def cycles(self) -> int:
        """From the fetch to the last write; on an overlapped core, from the first to that of the next instruction."""
        return sum(self.stages.values())

    @property
    def waiting(self) -> int:
        """Cycles besides those of execution and writes, whichever instruction follows."""
        return self.cycles - self.stages["execute"] - self.stages["write"]


def microprogram(opcode: Opcode, own: Schedule, inverse: Schedule, overlapped: bool) -> Microprogram:
    """The microprogram of an opcode from its schedule and that of its inverse."""
    changed = {name.removesuffix(BAR) for name in own.after}
    lands = any(schedule.after.get("br") == Literal(0) for schedule in (own, inverse))
    return Microprogram(
        own,
        # A `goto` and a `from` differ on an overlapped core in any case, and a `goto` chooses in its last cycle.
        max(1, own.length, 0 if overlapped and lands else inverse.length),
        "m" in opcode.reads or "m" in opcode.writes,
        tuple(field for name, field in REGISTER_FIELDS.items() if name in changed),
        overlapped,
        overlapped and redirects(opcode) and own.after.get("br") != Literal(0),
    )


def redirects(opcode: Opcode) -> bool:
    """Whether the next instruction depends on more than PC and DIR: the opcode sets BR, may meet a jump, or turns."""
    return "br" in opcode.writes or opcode.turns or NOT_JUMPING not in opcode.guards(_ANY)
