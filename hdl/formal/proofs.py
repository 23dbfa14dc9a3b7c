"""Proofs that the hardware undoes its own steps, and that each is the table's: for an opcode, on all states of the machine at once.

    reverse · step · reverse · step = identity,  for every state in which the first step does not trap
    step = the transition of the table,          and it traps if and only if a guard of the table fails

The core's own netlist fetches the instruction and executes it (`core_execution.py`). The state after an instruction is such a state again as the
one before it. By induction every run is undone, step by step.

A guard splits the proof in two cases. In the first step of a proof that it is undone, only the case without a trap is followed; in the second step a
trap must be impossible. Multiplier, divider and ROM are uninterpreted functions of their operands (`unit_functions.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from retrograd.hdl.formal import terms
from retrograd.hdl.formal.claims import Claim, ClaimKind, always_traps, claims, jumps, provable, trap_codes
from retrograd.hdl.formal.core_execution import TRAP_PLACES, CoreExecution
from retrograd.hdl.formal.lanes.execution import LaneExecution
from retrograd.hdl.formal.obligations import ProofResult, Stuck, Undecided
from retrograd.hdl.formal.table_steps import Compared, begin_by_table
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.microword import TRAPS
from retrograd.isa.derivatives.cotangent_steps import cotangent_step
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

__all__ = ["Each", "ProofResult", "Prover", "Stuck", "Undecided", "prove_all", "prove_with"]

#: runs a function on each opcode, such as `map`
Each = Callable[[Callable[[str], list["ProofResult"]], Sequence[str]], Iterable[list["ProofResult"]]]


class Prover:
    """Proofs for one format, on the core of this name. `microcode`: another one than the table's, to test that it is refuted."""

    def __init__(self, w: Format, microcode: Microcode | None = None, seconds: float = 60, core: str = "small") -> None:
        self.w = w
        self._execution = (LaneExecution if core == LANES else CoreExecution)(w, microcode, seconds, core)

    @property
    def seconds(self) -> float:
        """The limit of time for each question to the solver."""
        return self._execution.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._execution.seconds = seconds

    def prove(self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False) -> ProofResult:
        """Prove that the instruction is undone. `same`: ra and rb are one register, for a microprogram that depends on it.

        With D = 1, an instruction that discards a cotangent is executed on a strict machine, right after a host has cleared the
        cotangents. Raises Undecided at the time limit, Stuck if no state reaches the end, ValueError for an opcode that erases words.
        """
        if not provable(opcode):
            raise ValueError(f"{opcode.name} cannot be taken back")
        begun = time.monotonic()
        executed = TABLE.inverse(opcode) if backward else opcode
        drops = bool(lifted and cotangent_step(executed, self.w, False).drops)
        run = self._execution.begin(backward, lifted, cleared=drops, strict=drops)
        before = self._execution.places()
        self._execution.put(opcode, self._execution.instruction(opcode), lifted, same)
        cycles = self._execution.step(opcode)
        self._execution.turn()
        run.second = True
        self._execution.step(opcode)
        self._execution.turn()
        wrong = self._compare(before)
        return ProofResult(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong, run.witnessed)

    def prove_pair(self, opcode: Opcode, *, backward: bool = False, lifted: bool = False) -> ProofResult:
        """Prove that a taken jump and its partner leave BR = 0 and are both undone, and that the partner cannot trap.

        The partner has the opposite constant and the same registers. Raises as `prove`; ValueError for an opcode that begins no jump.
        """
        if not jumps(opcode, self.w, backward):
            raise ValueError(f"{opcode.name} begins no jump")
        begun, partner = time.monotonic(), TABLE.inverse(opcode)
        hw, core = self._execution.hardware, self._execution.core
        run = self._execution.begin(backward, lifted)
        before = self._execution.places()
        there = self._execution.instruction(opcode)
        back = terms.subtract(0, terms.piece_of(there, 0, 32), 32)
        here = terms.joined([(back, 32), (terms.piece_of(there, 32, 24), 24), (partner.code, 8)])
        put = self._execution.put(opcode, there, lifted, False)
        cycles = self._execution.step(opcode)
        run.assume(terms.negation(terms.equal(hw.peek(core.br), 0, self.w.width)))
        # The verifier guarantees that the partner exists. All else must follow.
        pc, size = terms.term(hw.peek(core.pc), len(core.pc)), hw.inputs["code_size"]
        run.assume(terms.negation(terms.part(pc, pc.width - 1, 1)))
        run.assume(
            terms.apply("u<", 1, [pc.width] * 2, [pc, terms.joined([(size, size.width), (0, pc.width - size.width)])])
        )
        run.second = True
        put_partner = self._execution.put(partner, here, lifted, False)
        cycles += self._execution.step(partner)
        run.oblige("BR after the partner", terms.equal(hw.peek(core.br), 0, self.w.width))
        self._execution.turn()
        put_partner()
        self._execution.step(partner)
        put()
        self._execution.step(opcode)
        self._execution.turn()
        wrong = self._compare(before)
        return ProofResult(
            f"{opcode.name}, {partner.name}", not wrong, time.monotonic() - begun, cycles, wrong, run.witnessed
        )

    def prove_trap(
        self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False
    ) -> ProofResult:
        """Prove that an instruction that must always trap does so, by its own guards, and changes nothing. Raises as `prove`.

        With PC outside the code, or during a jump, it traps for that reason, as any instruction does.
        """
        executed = TABLE.inverse(opcode) if backward else opcode
        begun = time.monotonic()
        run = self._execution.begin(backward, lifted)
        run.traps = tuple(TRAPS[code].value for code in trap_codes(executed, self.w, same))
        before = self._execution.places()
        self._execution.put(opcode, self._execution.instruction(opcode), lifted, same)
        cycles = self._execution.step(opcode)
        wrong = self._compare(before) if run.trapped else "it retires"
        return ProofResult(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong, run.witnessed)

    def prove_transition(
        self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False
    ) -> ProofResult:
        """Prove that the step is the table's: registers, memory, cotangents, BR, PC, DIR, the conditions and causes of traps.

        One case retires; each other traps at one of the places where the instruction may trap, and changes nothing. With D = 1, an instruction
        that discards a cotangent is executed right after a host has cleared the cotangents. Raises as `prove`.
        """
        begun = time.monotonic()
        executed = TABLE.inverse(opcode) if backward else opcode
        cycles, wrong, witnessed = 0, "", True
        width = self._execution.trap_width
        #: places where it never traps, which the first case proves
        never: set[str] = set()
        for fails in ("", *TRAP_PLACES):
            if fails in never or (not fails and always_traps(executed, self.w, same)):
                continue
            before, after = begin_by_table(self._execution, opcode, executed, backward, lifted, same)
            run = self._execution.run
            never = {p for p, (right, _) in TRAP_PLACES.items() if terms.equal(run.expected[p], right, width(p)) == 1}
            if fails in never:
                continue
            run.fails = fails
            self._execution.put(opcode, self._execution.instruction(opcode), lifted, same)
            cycles = max(cycles, self._execution.step(opcode))
            if fails:
                run.oblige("the trap", int(run.trapped and run.cause == TRAP_PLACES[fails].cause.value))
                wrong = self._compare(before)
            else:
                for where in run.expected.keys() - {*run.reached}:
                    right = TRAP_PLACES[where].right
                    run.oblige(f"the condition of {where}", terms.equal(run.expected[where], right, width(where)))
                wrong = self._compare(before) if executed.halts else self._compare_with(after())
            witnessed = witnessed and run.witnessed
            if wrong:
                break
        return ProofResult(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong, witnessed)

    def prove_claim(self, claim: Claim) -> ProofResult:
        """Prove a claim. Raises as `prove`."""
        opcode, backward, lifted = claim.opcode, claim.backward, claim.lifted
        match claim.kind:
            case ClaimKind.INVERSE:
                return self.prove(opcode, backward=backward, lifted=lifted, same=claim.same)
            case ClaimKind.TRANSITION:
                return self.prove_transition(opcode, backward=backward, lifted=lifted, same=claim.same)
            case ClaimKind.JUMP:
                return self.prove_pair(opcode, backward=backward, lifted=lifted)
            case ClaimKind.TRAP:
                return self.prove_trap(opcode, backward=backward, lifted=lifted, same=claim.same)

    def _compare(self, before: Mapping[str, Any]) -> str:
        """Words for which a location differs from before, or for which an obligation fails; or ""."""
        after = self._execution.places()
        for name, word in before.items():
            self._execution.run.oblige(name, terms.equal(after[name], word, word.width))
        return self._execution.run.refute(self._execution.definitions, self.seconds)

    def _compare_with(self, after: Compared) -> str:
        """Words for which a place differs from the word that the table gives it, or for which an obligation fails; or ""."""
        for name, (word, expected, width) in after.items():
            self._execution.run.oblige(name, terms.equal(word, expected, width))
        return self._execution.run.refute(self._execution.definitions, self.seconds)


def prove_all(
    w: Format, opcodes: Collection[str], seconds: float = 60, each: Each = map, core: str = "small"
) -> Iterator[ProofResult]:
    """A result for each claim on these opcodes and the core of this name; its `opcode` is the claim's name, such as "mul.add D=1 DIR=-1".

    A claim that the solver does not decide in time does not hold. `each(prove, opcodes)` runs the proofs, one task for each opcode, and
    gives their results in the order of the table.
    """
    for found in each(partial(_proofs_of, w, seconds, core), [o.name for o in TABLE if o.name in opcodes]):
        yield from found


def _proofs_of(w: Format, seconds: float, core: str, opcode: str) -> list[ProofResult]:
    prover = _prover(w, core)
    prover.seconds = seconds
    return [*prove_with(prover, {opcode})]


@lru_cache(1)
def _prover(w: Format, core: str) -> Prover:
    """The prover of a format and core; building its netlist takes seconds."""
    return Prover(w, core=core)


def prove_with(prover: Prover, opcodes: Collection[str]) -> Iterator[ProofResult]:
    """The same, with an existing prover."""
    for claim in claims(prover.w, opcodes):
        begun = time.monotonic()
        try:
            yield replace(prover.prove_claim(claim), opcode=claim.name)
        except (Undecided, Stuck) as error:
            yield ProofResult(claim.name, False, time.monotonic() - begun, 0, str(error))
