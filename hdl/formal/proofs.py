"""Proofs that the hardware undoes its own steps, and that each step is the transition of the table, on all states of the machine at once.

    reverse · step · reverse · step = identity,  for every state in which the first step does not trap
    step = the transition of the table,          and it traps if and only if a guard of the table fails

The core's own netlist fetches the instruction and executes it (`core_execution.py`). The state after an instruction is again a state between
two instructions. By induction every run is undone, step by step.

A guard splits a proof in two cases. In a proof that an instruction is undone, the first step follows only the case without a trap, and in the
second step a trap must be impossible. Multiplier, divider and ROM are uninterpreted functions of their operands.

The last section lists the claims on parts of the co-processor that are no opcodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from retrograd.hdl.formal import terms
from retrograd.hdl.formal.barrel import (
    THREADS,
    TURNS,
    ThreadBusProver,
    ThreadsProver,
    ThreadUnitProver,
    TurnsProver,
)
from retrograd.hdl.formal.bus_proofs import BusProver, CopyingBusProver, CopyProver
from retrograd.hdl.formal.claims import Claim, ClaimKind, always_traps, claims, jumps, provable, trap_codes
from retrograd.hdl.formal.core_execution import FIELDS, STORES, TRAP_PLACES, CoreExecution
from retrograd.hdl.formal.solving import ProofResult, Stuck, Undecided
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.formal.thread_execution import ThreadExecution
from retrograd.hdl.formal.unit_proofs import UNITS, UnitProver
from retrograd.hdl.microword import TRAPS
from retrograd.isa.derivatives import NOTHING, cotangent_step
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Guard, Guards, Opcode, bar
from retrograd.isa.expr import ZERO, Expr, nodes, place
from retrograd.isa.microarchitecture.micro_operations import BARREL
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# The right side: the meaning of an instruction by the table, as terms.
#
#     fold(tree, words) = the term of the tree,  products, quotients, roots and tables as functions of their operands
#
# The trees are the table's. `Meaning` gives terms to the operations of trees, as `retrograd.isa.smtlib` gives them SMT-LIB.

#: (operation, parameter, operands) -> the result of a unit that is a function of its operands
Unit = Callable[[str, Any, list[Word]], Word]

_SAME = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_SHIFTS = {"shl": "<<", "shr": "u>>", "sar": "s>>"}
_RELATIONS = {"eq": "==", "lt": "s<", "ltu": "u<"}


class Meaning:
    """Terms of trees over the words of places. `keep`: called with each computed term; it may return an equal one."""

    def __init__(
        self, w: Format, words: Mapping[str, Word], unit: Unit, keep: Callable[[Word], Word] = lambda term: term
    ) -> None:
        self._w = w
        self._words = words
        self._unit = unit
        self._keep = keep
        self._found: dict[Expr, Word] = {}

    def of(self, tree: Expr) -> Word:
        """The word of a tree."""
        for node in nodes(tree):
            if node not in self._found:
                self._found[node] = self._computed(node, [self._found[arg] for arg in node.args])
        return self._found[tree]

    def _computed(self, node: Expr, v: list[Word]) -> Word:
        if node.op == "input":
            return self._words[str(node.param)]
        if node.op == "const":
            assert isinstance(node.param, int)
            return node.param & self._w.mask
        return self._keep(terms.value(self._operated(node, v)))

    def _operated(self, node: Expr, v: list[Word]) -> Word:
        width = self._w.width
        if node.op in _SAME:
            return terms.apply(_SAME[node.op], width, [width, width], v)
        if node.op in _SHIFTS:
            # A shift is by its amount modulo the width.
            bits = (width - 1).bit_length()
            return terms.apply(_SHIFTS[node.op], width, [width, bits], [v[0], terms.piece_of(v[1], 0, bits)])
        if node.op in _RELATIONS:
            bit = terms.apply(_RELATIONS[node.op], 1, [width, width], v)
            return terms.joined([(bit, 1), (0, width - 1)])
        if node.op == "select":
            return terms.choice(terms.negation(terms.equal(v[0], 0, width)), v[1], v[2], width)
        return self._unit(node.op, node.param, v)

    def holds(self, tree: Expr) -> Word:
        """Whether a predicate, a tree, is not 0."""
        return terms.negation(terms.equal(self.of(tree), 0, self._w.width))

    def trap(self, opcode: Opcode, more: Guards, modes: Mapping[str, Word], width: int) -> Word:
        """The cause of the trap of the first guard that fails, or 0: the opcode's guards, then `more`.

        BR = 0 is tested before execution, and is not one of these guards. `modes`: whether the guards of "overflow" and "strict" are active.
        """
        found: Word = 0
        guards = [(g, opcode.guard_predicate(g, self._w)) for g in opcode.guards(self._w) if g != NOT_JUMPING]
        for guard, predicate in reversed([*guards, *((g, g.predicate) for g in more)]):
            fails = terms.negation(self.holds(predicate))
            active = terms.conjunction(fails, modes.get(guard.mode, 1))
            found = terms.choice(active, TRAPS[guard.code].value, found, width)
        return found


def legal(opcode: Opcode, fields: Mapping[str, Word], w: Format) -> Word:
    """Whether the encoding of an opcode, whose unused fields are zero, is legal at this width.

    Registers that are written differ from the others. The constant fits a word, and so does its negation, where the inverse negates it.
    """
    found: Word = 1
    for x, y in opcode.distinct:
        found = terms.conjunction(found, terms.negation(terms.equal(fields[x], fields[y], 8)))
    low = min(w.width, 32) - 1
    least, most = -(1 << low) + opcode.negates_immediate, (1 << low) - 1
    # If every constant of 32 bits satisfies the bound, the constant imposes no condition.
    if least > -(1 << 31):
        found = terms.conjunction(found, terms.apply("s<=", 1, [32, 32], [least & 0xFFFFFFFF, fields["imm"]]))
    if most < (1 << 31) - 1:
        found = terms.conjunction(found, terms.apply("s<=", 1, [32, 32], [fields["imm"], most]))
    return found


def next_pc(pc: Word, br: Word, backward: bool, bits: int, w: Format) -> Word:
    """PC ± (BR if BR ≠ 0 else 1), with BR and the direction after the instruction."""
    sign = terms.piece_of(br, w.width - 1, 1)
    pieces = [(terms.piece_of(br, 0, min(w.width, bits)), min(w.width, bits)), *[(sign, 1)] * (bits - w.width)]
    step = terms.choice(terms.equal(br, 0, w.width), 1, terms.joined(pieces), bits)
    return terms.subtract(pc, step, bits) if backward else terms.add(pc, step, bits)


# -----------------------------------------------------------------------------
# The step by the table beside the execution of the core: the words that all places must have after it.

#: place -> (its word, the word by the table, width)
Compared = dict[str, tuple[Word, Word, int]]


def begin_by_table(
    execution: CoreExecution, opcode: Opcode, executed: Opcode, backward: bool, lifted: bool, same: bool
) -> tuple[dict[str, Any], Callable[[], Compared]]:
    """Start between two instructions: the places before, and each place after the step beside the table's word.

    The conditions of traps by the table are the `expected` words of the run.
    """
    hw, w = execution.hardware, execution.w
    moved = cotangent_step(executed, w, same) if lifted else NOTHING
    run = execution.begin(backward, lifted, cleared=bool(moved.drops))
    definitions = execution.definitions
    before = execution.places()
    fields = {name: terms.unknown(name, size) if name in opcode.fields else 0 for name, size in FIELDS.items()}
    imm = terms.term(fields["imm"], 32)
    constant = terms.extended(imm, w.width, True) if w.width > 32 else terms.part(imm, 0, w.width)
    if backward and opcode.negates_immediate:
        constant = terms.subtract(0, constant, w.width)
    br, pc, bits = before["BR"], before["PC"], before["PC"].width
    words: dict[str, Word] = {"br": br, "imm": constant}
    address = terms.add(execution.word("registers.words", fields["ra"]), constant, w.width)
    at: dict[str, Word] = {where: fields[name] for where, name in REGISTER_FIELDS.items()}
    at["m"] = terms.piece_of(address, 0, execution.address_bits("memory.words"))
    #: place or its shadow -> the memory that it is in, and its number there
    homes = {
        name: (f"{'memory' if where == 'm' else 'registers'}.{what}", number)
        for where, number in at.items()
        for name, what in ((where, "words"), (bar(where), "cotangents"))
    }
    words |= {name: execution.word(store, number) for name, (store, number) in homes.items()}
    for word in words.values():
        if isinstance(word, Term):
            definitions.mean(word)
    meaning = Meaning(
        w, words, execution.units.of_table, lambda x: definitions.recognised(x) if isinstance(x, Term) else x
    )
    addressed = "[ra+imm]" in opcode.operands
    size = {name: hw.inputs[name] for name in ("code_size", "data_size")}
    losses = tuple(Guard(place(shadow).eq(0), "RG0408", mode="strict") for shadow in moved.drops)
    modes = {mode: terms.unknown(mode, 1) for mode in ("overflow", "strict")}
    run.expected = {
        "PC outside the code": terms.conjunction(
            terms.negation(terms.part(pc, bits - 1, 1)), _below(pc, size["code_size"], bits)
        ),
        "an illegal instruction": legal(opcode, fields, w),
        "a jump": terms.negation(terms.equal(br, 0, w.width)) if NOT_JUMPING in executed.guards(w) else 0,
        "an address outside": _below(address, size["data_size"], w.width) if addressed else 1,
        "a trap": meaning.trap(executed, (*moved.guards, *losses), modes, execution.trap_width("a trap")),
    }
    trees = {**executed.transition(w), **moved.after, **dict.fromkeys(moved.drops, ZERO)}
    after = {where: meaning.of(tree) for where, tree in trees.items()}
    now = backward ^ executed.turns

    def found() -> Compared:
        out: Compared = {}
        for store in STORES:
            anywhere = terms.unknown(f"any of {store}", execution.address_bits(store))
            expected = before[store]
            for name in sorted(after.keys() & homes.keys()):
                home, number = homes[name]
                if home == store:
                    out[name] = execution.word(store, number), after[name], w.width
                    here = terms.equal(anywhere, number, anywhere.width)
                    expected = terms.choice(here, after[name], expected, w.width)
            out[store] = execution.word(store, anywhere), expected, w.width
        br_after = after.get("br", br)
        expected_of = {"BR": br_after, "PC": next_pc(pc, br_after, now, bits, w), "DIR": int(now)}
        registers = execution.registers()
        return out | {name: (registers[name], word, registers[name].width) for name, word in expected_of.items()}

    return before, found


def _below(x: Word, limit: Word, width: int) -> Word:
    """x < limit, unsigned; the limit has fewer bits or as many."""
    limit = terms.term(limit, width)
    return terms.apply("u<", 1, [width] * 2, [x, terms.joined([(limit, limit.width), (0, width - limit.width)])])


# -----------------------------------------------------------------------------
# Proofs, opcode by opcode.

__all__ = ["Each", "ProofResult", "Prover", "Stuck", "Undecided", "prove_all", "prove_with"]

#: runs a function on each opcode, such as `map`
Each = Callable[[Callable[[str], list["ProofResult"]], Sequence[str]], Iterable[list["ProofResult"]]]


class Prover:
    """Proofs for one format, on the core of this name. `microcode`: a wrong microcode, to test that it is refuted;
    `slots`: of the core barrel.
    """

    def __init__(
        self, w: Format, microcode: Any = None, seconds: float = 60, core: str = "small", slots: int = 1
    ) -> None:
        self.w = w
        self.core = core
        threads = partial(ThreadExecution, slots=slots)
        self._execution = (threads if core == BARREL else CoreExecution)(w, microcode, seconds, core)

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
        """Prove that an instruction that must always trap does so by its own guards, and changes nothing. Raises as `prove`.

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
        """A message with words for which a location differs from before, or for which an obligation fails; or ""."""
        after = self._execution.places()
        for name, word in before.items():
            self._execution.run.oblige(name, terms.equal(after[name], word, word.width))
        return self._execution.run.refute(self._execution.definitions, self.seconds)

    def _compare_with(self, after: Compared) -> str:
        """A message with words for which a place differs from its word by the table, or for which an obligation fails; or ""."""
        for name, (word, expected, width) in after.items():
            self._execution.run.oblige(name, terms.equal(word, expected, width))
        return self._execution.run.refute(self._execution.definitions, self.seconds)


def prove_all(
    w: Format, opcodes: Collection[str], seconds: float = 60, each: Each = map, core: str = "small", slots: int = 1
) -> Iterator[ProofResult]:
    """A result for each claim on these opcodes and the core of this name and slots; its `opcode` is the claim's name,
    such as "mul.add D=1 DIR=-1".

    A claim that the solver does not decide in time does not hold. `each(prove, opcodes)` runs the proofs, one task for each opcode, and
    gives their results in the order of the table.
    """
    for found in each(partial(_proofs_of, w, seconds, core, slots), [o.name for o in TABLE if o.name in opcodes]):
        yield from found


def _proofs_of(w: Format, seconds: float, core: str, slots: int, opcode: str) -> list[ProofResult]:
    prover = _prover(w, core, slots)
    prover.seconds = seconds
    return [*prove_with(prover, {opcode})]


@lru_cache(1)
def _prover(w: Format, core: str, slots: int) -> Prover:
    """The prover of a format and core; building its netlist takes seconds."""
    return Prover(w, core=core, slots=slots)


def prove_with(prover: Prover, opcodes: Collection[str]) -> Iterator[ProofResult]:
    """The same, with an existing prover."""
    for claim in claims(prover.w, opcodes, prover.core):
        begun = time.monotonic()
        try:
            yield replace(prover.prove_claim(claim), opcode=claim.name)
        except (Undecided, Stuck) as error:
            yield ProofResult(claim.name, False, time.monotonic() - begun, 0, str(error))


# -----------------------------------------------------------------------------
# The claims on parts: units, host interface, direct memory access, turns and threads.

#: the claim on a part, as it is printed
PART_CLAIM = "its function"
#: names of the parts, as the command line takes them
PARTS = (*UNITS, "bus")
_Prover = Callable[..., BusProver | CopyProver | TurnsProver | ThreadsProver]
#: the provers of the parts besides units: of the bus without and with direct memory access, and of direct memory access
_PROVERS: dict[str, tuple[_Prover, ...]] = {"bus": (BusProver, CopyingBusProver, CopyProver)}
#: the same of the core `barrel`
_OF_BARREL: dict[str, tuple[_Prover, ...]] = {
    "bus": (ThreadBusProver,), TURNS: (TurnsProver,), THREADS: (ThreadsProver,),
}  # fmt: skip


def _provers(core: str, slots: int = 1) -> dict[str, tuple[_Prover, ...]]:
    """part -> its provers. The host interface is the same for each core with one lane."""
    if core != BARREL:
        return _PROVERS
    return {part: tuple(partial(one, slots=slots) for one in provers) for part, provers in _OF_BARREL.items()}


def parts_of(core: str) -> tuple[str, ...]:
    """The parts of a core."""
    return (*UNITS, *_provers(core))


def _units(w: Format, seconds: float, core: str, slots: int) -> UnitProver:
    if core == BARREL:
        return ThreadUnitProver(w, seconds=seconds, slots=slots)
    return UnitProver(w, seconds=seconds, core=core)


def part_claims(w: Format, parts: Collection[str], core: str = "small", slots: int = 1) -> dict[str, str]:
    """The name of each claim on these parts of the core -> the part."""
    found = {}
    if {*parts} & {*UNITS}:
        found = {claim.name: claim.unit for claim in _units(w, 60, core, slots).claims() if claim.unit in parts}
    provers = _provers(core, slots).items()
    others = ((part, prover) for part, each in provers if part in parts for prover in each)
    return found | {name: part for part, prover in others for name in prover(w).claims()}


def prove_parts(
    w: Format, parts: Collection[str] = PARTS, seconds: float = 60, core: str = "small", slots: int = 1
) -> Iterator[ProofResult]:
    """A result for each claim on these parts; a claim that the solver does not decide in time does not hold."""
    if {*parts} & {*UNITS}:
        units = _units(w, seconds, core, slots)
        yield from (units.prove(claim) for claim in units.claims() if claim.unit in parts)
    for prover in (one for part, provers in _provers(core, slots).items() if part in parts for one in provers):
        others = prover(w, seconds)
        yield from (others.prove(name) for name in others.claims())
