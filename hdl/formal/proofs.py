"""Proofs that the hardware undoes its own steps: for an opcode, on all states of the machine at once.

    reverse · step · reverse · step = identity,  for every state in which the first step does not trap

The core's own netlist fetches the instruction, executes it, is reversed, fetches and executes it again. The first state is any state
between two instructions: words and cotangents of registers and memory, PC, BR, modes, sizes, register numbers of the instruction,
and contents of latches, temporaries and units are all unknown. The last state is such a state again. By induction every run is
undone, step by step.

The opcode, D, DIR, and whether ra and rb are one register are known: they choose the microprogram. A guard splits the proof in
two cases. In the first step only the case without a trap is followed; in the second step a trap must be impossible. Multiplier,
divider and ROM are uninterpreted functions of their operands. A reversible update needs no other property of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple

import z3
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.claims import (
    Claim,
    ClaimKind,
    always_traps,
    claims,
    distinguishes,
    jumps,
    provable,
    trap_codes,
)
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.meaning import Meaning, legal, next_pc
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.microcode import Microcode, dispatch_address
from retrograd.hdl.microword import TRAPS, Division, Operation, TrapCause
from retrograd.hdl.parameters import Parameters
from retrograd.isa.derivatives.cotangent_steps import NOTHING, cotangent_step
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode, bar
from retrograd.isa.expr import half
from retrograd.isa.microarchitecture.timing import cycles as table_cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: the memories that an instruction changes
_STORES = ("registers.words", "registers.cotangents", "memory.words", "memory.cotangents")
#: fields of an encoding, from the lowest, and their bits
_FIELDS = {"imm": 32, "rb": 8, "ra": 8, "rd": 8}


class _Trapping(NamedTuple):
    """A place where an instruction may trap: the word there if it does not, and the cause that is reported if it does."""

    right: int
    cause: TrapCause


#: In the order of their tests. The last are the guards that are computed; the condition that is proved there is the cause.
_TRAPPING = {
    "PC outside the code": _Trapping(1, TrapCause.CODE),
    "an illegal instruction": _Trapping(1, TrapCause.ILLEGAL),
    "a jump": _Trapping(0, TrapCause.JUMP),
    "an address outside": _Trapping(1, TrapCause.MEMORY),
    "a trap": _Trapping(0, TrapCause.DOMAIN),
}
#: upper bound on the cycles before execution
_BEFORE = 10


#: runs a function on each opcode, such as `map`
Each = Callable[[Callable[[str], list["ProofResult"]], Sequence[str]], Iterable[list["ProofResult"]]]


class Undecided(Exception):
    """The solver reached its time limit."""


class Stuck(Exception):
    """No state reaches the end of the instruction: the core does not begin it, does not end it, or traps in all states."""


@dataclass(frozen=True)
class ProofResult:
    """The result of one proof. `counterexample`: words for which a location is not restored, or a trap occurs.

    `witnessed`: the solver has found a state that reaches the end of the instruction. For a dead core it soon proves that there is
    none. At 32 bits it may find neither where the words of long functions must fit.
    """

    opcode: str
    holds: bool
    seconds: float
    cycles: int
    counterexample: str = ""
    witnessed: bool = False


@dataclass
class _Run:
    """One proof: assumptions and obligations, in order. An obligation must follow from all facts before it."""

    #: (name of the obligation, or "" for an assumption; the formula)
    facts: list[tuple[str, Word]] = field(default_factory=list)
    second: bool = False
    #: the traps of which one must occur; and whether the guards have reported one
    traps: tuple[int, ...] = ()
    trapped: bool = False
    #: a state is known that reaches the end
    witnessed: bool = False
    #: of a proof that the step is the table's: a place where it may trap -> the word there by the table; the place where it does
    expected: dict[str, Word] = field(default_factory=dict)
    fails: str = ""
    #: the places that were reached; and the cause of the trap that the core reports
    reached: list[str] = field(default_factory=list)
    cause: Word = 0

    @property
    def known(self) -> list[Word]:
        """All formulas, as if the obligations had been proved."""
        return [holds for _, holds in self.facts]

    def assume(self, holds: Word) -> None:
        self.facts.append(("", holds))

    def oblige(self, what: str, holds: Word) -> None:
        self.facts.append((what, holds))


class Prover:
    """Proofs for one format, on one core. `microcode`: another one than the table's, to test that it is refuted."""

    def __init__(self, w: Format, microcode: Microcode | None = None, seconds: float = 60) -> None:
        self.w = w
        self.seconds = seconds
        self._core = core = Core(Parameters(w, code_words=8, data_words=4), microcode)
        self._hardware = Symbolic(
            core,
            [core.pc, core.br, core.backward, core.idle, core.begins, core.traps, core.trap, core.halts, core.phase],
            hooks=[
                (core.operands.result, self._name),
                (core.guarded, self._guard),
                (core.jumping, lambda word: self._early("a jump", word, 0, Phase.READ)),
                (core.decoder.legal, lambda word: self._early("an illegal instruction", word, 1, Phase.READ)),
                (core.branch.inside, lambda word: self._early("PC outside the code", word, 1, Phase.FETCH)),
                (core.memory.valid, lambda word: self._early("an address outside", word, 1, Phase.ACCESS)),
            ],
            decide=self._decide,
            given=[(core.multiplier.result, self._product), (core.divider.result, self._quotient)],
        )
        self.microcode = core.microcode
        #: proved facts about the logic unit, for all operands
        self._lemmas: set[Word] = set()
        self._run = _Run()
        self._definitions = Definitions()
        self._lefts = 0
        #: operands of the multiplier, by stage, and of the divider
        self._products: list[tuple[Word, Word, Word] | None] = [None, None]
        self._division: tuple[int, Word, Word] | None = None

    # ---------------------------------------------------------------- words that are replaced

    def _name(self, result: Word) -> Word:
        """Replace a unit's result by a name, so that the solver sees its definition only where it needs it."""
        if isinstance(result, int):
            return result
        return self._definitions.recognised(self._plain(result))

    def _plain(self, result: Term) -> Word:
        """Replace a sum or difference, bit by bit with its carries, by x ± y. The solver proves the equality once, for all words."""
        hw, unit = self._hardware, self._core.logic
        sign = {Operation.ADD.value: 1, Operation.SUB.value: -1}.get(hw.peek(unit.operation))
        if sign is None or result is not hw.peek(unit.result):
            return result
        width = self.w.width
        x, y = (hw.peek(operand) for operand in (unit.x, unit.y))
        plain = terms.add(x, y, width) if sign > 0 else terms.subtract(x, y, width)
        general = {word: terms.unknown(f"operand{i}", width) for i, word in enumerate((x, y)) if isinstance(word, Term)}
        claim = terms.substitute(terms.equal(result, plain, width), general)
        if claim not in self._lemmas:
            if self._definitions.check([terms.negation(claim)], self.seconds, 0) != z3.unsat:
                return result
            self._lemmas.add(claim)
        return plain

    def _product(self) -> Word:
        """The product as an uninterpreted function of the operands."""
        shift = self._hardware.peek(self._core.multiplier.shift)
        if self._products[1] is None or not isinstance(shift, int):
            return self._left()
        half, *operands = self._products[1]
        return self._function(f"product{half}", self._core.multiplier.shifts, shift, operands)

    def _quotient(self) -> Word:
        unit = self._core.divider
        shift = self._hardware.peek(unit.shift)
        if self._division is None or not isinstance(shift, int):
            return self._left()
        which, x, y = self._division
        return self._function(f"quotient{which}", unit.shifts, shift, [x] if unit.plans[which].root else [x, y])

    def _function(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word]) -> Word:
        width = self.w.width
        # Without a pending result the shift is undefined.
        shift = shifts[index] if index < len(shifts) else 0
        return terms.part(terms.function(name, 3 * width, [terms.term(x, width) for x in operands]), shift, width)

    def _left(self) -> Word:
        """An arbitrary word for the output of an idle unit."""
        self._lefts += 1
        return terms.unknown(f"left{self._lefts}", self.w.width)

    def _guard(self, trap: Word) -> Word:
        run = self._run
        if run.expected:
            # In all cycles but that of the first write the word is 0.
            return trap if isinstance(trap, int) and trap == 0 else self._as_expected("a trap", trap, 0)
        if run.traps and trap != 0:
            width = len(self._core.guarded)
            run.oblige(
                "a trap of the table's", reduce(terms.disjunction, (terms.equal(trap, t, width) for t in run.traps))
            )
            run.trapped = True
            return run.traps[0]
        if isinstance(trap, int):
            return trap
        self._follow("a trap", terms.equal(trap, 0, trap.width))
        return 0

    def _early(self, trap: str, word: Word, right: int, phase: Phase) -> Word:
        """A trap before execution, in its phase."""
        here = self._hardware.peek(self._core.phase) == phase.value
        if self._run.expected and here:
            return self._as_expected(trap, word, right)
        if isinstance(word, int) or not here:
            return word
        self._follow(trap, word if right else terms.negation(word))
        return right

    def _follow(self, what: str, holds: Word) -> None:
        """In the first step assume the formula, in the second oblige it."""
        self._run.oblige(what if self._run.second else "", holds)

    def _as_expected(self, where: str, word: Word, right: int) -> Word:
        """Oblige the word to be the table's, and follow one of the cases: `right`, which is no trap, or where the run is to fail, another."""
        run, width = self._run, len(self._core.guarded) if where == "a trap" else 1
        expected = run.expected[where]
        if where not in run.reached:
            run.reached.append(where)
            run.oblige(f"the condition of {where}", terms.equal(word, expected, width))
        passes = terms.equal(expected, right, width)
        if where != run.fails:
            run.assume(passes)
            return right
        run.assume(terms.negation(passes))
        run.trapped = True
        return TrapCause.DOMAIN.value if width > 1 else 1 - right

    def _decide(self, truth: Term) -> bool | None:
        """True or False if that follows from the facts, else None."""
        for answer, other in ((True, terms.negation(truth)), (False, truth)):
            if self._definitions.check([*self._run.known, other], self.seconds, 0) == z3.unsat:
                return answer
        return None

    # ---------------------------------------------------------------- one proof

    def prove(self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False) -> ProofResult:
        """Prove that the instruction is undone. `same`: ra and rb are one register, for a microprogram that depends on it.

        With D = 1, an instruction that discards a cotangent is executed on a strict machine, right after a host has cleared the
        cotangents. Raises Undecided at the time limit, Stuck if no state reaches the end, ValueError for an opcode that erases words.
        """
        if not provable(opcode):
            raise ValueError(f"{opcode.name} cannot be taken back")
        begun = time.monotonic()
        executed = TABLE.inverse(opcode) if backward else opcode
        run = self._begin(backward, lifted, bool(lifted and cotangent_step(executed, self.w, False).drops))
        before = self._places()
        self._put(opcode, self._instruction(opcode), lifted, same)
        cycles = self._step(opcode)
        self._turn()
        run.second = True
        self._step(opcode)
        self._turn()
        wrong = self._compare(before)
        return ProofResult(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong, run.witnessed)

    def prove_pair(self, opcode: Opcode, *, backward: bool = False, lifted: bool = False) -> ProofResult:
        """Prove that a taken jump and its partner leave BR = 0 and are both undone, and that the partner cannot trap.

        The partner has the opposite constant and the same registers. Raises as `prove`; ValueError for an opcode that begins no jump.
        """
        if not jumps(opcode, self.w, backward):
            raise ValueError(f"{opcode.name} begins no jump")
        begun, partner = time.monotonic(), TABLE.inverse(opcode)
        hw, core = self._hardware, self._core
        run = self._begin(backward, lifted, False)
        before = self._places()
        there = self._instruction(opcode)
        back = terms.subtract(0, terms.piece_of(there, 0, 32), 32)
        here = terms.joined([(back, 32), (terms.piece_of(there, 32, 24), 24), (partner.code, 8)])
        put = self._put(opcode, there, lifted, False)
        cycles = self._step(opcode)
        run.assume(terms.negation(terms.equal(hw.peek(core.br), 0, self.w.width)))
        # The verifier guarantees that the partner exists. All else must follow.
        pc, size = terms.term(hw.peek(core.pc), len(core.pc)), hw.inputs["code_size"]
        run.assume(terms.negation(terms.part(pc, pc.width - 1, 1)))
        run.assume(
            terms.apply("u<", 1, [pc.width] * 2, [pc, terms.joined([(size, size.width), (0, pc.width - size.width)])])
        )
        run.second = True
        put_partner = self._put(partner, here, lifted, False)
        cycles += self._step(partner)
        run.oblige("BR after the partner", terms.equal(hw.peek(core.br), 0, self.w.width))
        self._turn()
        put_partner()
        self._step(partner)
        put()
        self._step(opcode)
        self._turn()
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
        run = self._begin(backward, lifted, False)
        run.traps = tuple(TRAPS[code].value for code in trap_codes(executed, self.w, same))
        before = self._places()
        self._put(opcode, self._instruction(opcode), lifted, same)
        cycles = self._step(opcode)
        wrong = self._compare(before) if run.trapped else "it retires"
        return ProofResult(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong, run.witnessed)

    def prove_transition(
        self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False
    ) -> ProofResult:
        """Prove that the step is the table's: registers, memory, cotangents, BR, PC, DIR, the conditions and causes of traps.

        One case retires; each other traps at one of the places where the instruction may trap, and changes nothing. Raises as `prove`.
        """
        begun = time.monotonic()
        executed = TABLE.inverse(opcode) if backward else opcode
        cycles, wrong, witnessed = 0, "", True
        for fails in ("", *_TRAPPING):
            if not fails and always_traps(executed, self.w, same):
                continue
            before, after = self._by_table(opcode, executed, backward, lifted, same)
            run = self._run
            if fails and terms.equal(run.expected[fails], _TRAPPING[fails].right, 1 + 9 * (fails == "a trap")) == 1:
                continue  # It never traps there, which the first case proves.
            run.fails = fails
            self._put(opcode, self._instruction(opcode), lifted, same)
            cycles = max(cycles, self._step(opcode))
            if fails:
                run.oblige("the trap", int(run.trapped and run.cause == _TRAPPING[fails].cause.value))
                wrong = self._compare(before)
            else:
                for where in run.expected.keys() - {*run.reached}:
                    right = _TRAPPING[where].right
                    run.oblige(f"the condition of {where}", terms.equal(run.expected[where], right, 1))
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

    def _begin(self, backward: bool, lifted: bool, drops: bool) -> _Run:
        """Start between two instructions."""
        self._run = _Run()
        self._definitions = Definitions()
        self._products, self._division = [None, None], None
        hw, core = self._hardware, self._core
        hw.reset()
        hw.poke(core.backward, int(backward))
        hw.forget([core.phase, core.backward])
        for store in _STORES:
            hw.unknown(store)
        sizes = {name: terms.unknown(name, len(getattr(core, name))) for name in ("code_size", "data_size")}
        for name, most in (("code_size", core.parameters.code_words), ("data_size", core.parameters.data_words)):
            self._run.assume(terms.apply("u<=", 1, [sizes[name].width] * 2, [sizes[name], most]))
        hw.settle(
            **sizes, modes__differentiate=int(lifted), modes__overflow=terms.unknown("overflow", 1),
            modes__strict=1 if drops else terms.unknown("strict", 1), settings__forget=int(drops),
        )  # fmt: skip
        # One idle cycle: the previous instruction may have trapped or halted.
        hw.tick()
        hw.settle(settings__forget=0)
        return self._run

    def _by_table(
        self, opcode: Opcode, executed: Opcode, backward: bool, lifted: bool, same: bool
    ) -> tuple[dict[str, Any], Callable[[], dict[str, tuple[Word, Word, int]]]]:
        """Start between two instructions: the places before, and (the word, the table's word, width) of each place after the step."""
        run, hw, core, w = self._begin(backward, lifted, False), self._hardware, self._core, self.w
        before = self._places()
        fields = {name: terms.unknown(name, size) if name in opcode.fields else 0 for name, size in _FIELDS.items()}
        imm = terms.term(fields["imm"], 32)
        constant = terms.extended(imm, w.width, True) if w.width > 32 else terms.part(imm, 0, w.width)
        if backward and opcode.negates_immediate:
            constant = terms.subtract(0, constant, w.width)
        br, pc, bits = terms.term(hw.peek(core.br), w.width), terms.term(hw.peek(core.pc), len(core.pc)), len(core.pc)
        words: dict[str, Word] = {"br": br, "imm": constant}
        address = terms.add(terms.selected(hw.memory("registers.words"), fields["ra"]), constant, w.width)
        at: dict[str, Word] = {place: fields[name] for place, name in REGISTER_FIELDS.items()}
        at["m"] = terms.piece_of(address, 0, hw.memory("memory.words").address)
        #: place or its shadow -> the memory that it is in, and its number there
        homes = {
            name: (f"{'memory' if place == 'm' else 'registers'}.{what}", number)
            for place, number in at.items()
            for name, what in ((place, "words"), (bar(place), "cotangents"))
        }
        words |= {name: terms.selected(hw.memory(store), number) for name, (store, number) in homes.items()}
        for word in words.values():
            if isinstance(word, Term):
                self._definitions.mean(word)
        meaning = Meaning(w, words, self._unit, lambda x: self._definitions.recognised(x) if isinstance(x, Term) else x)
        moved = cotangent_step(executed, w, same) if lifted else NOTHING
        addressed = "[ra+imm]" in opcode.operands
        size = {name: hw.inputs[name] for name in ("code_size", "data_size")}
        modes = {mode: terms.unknown(mode, 1) for mode in ("overflow", "strict")}
        run.expected = {
            "PC outside the code": terms.conjunction(
                terms.negation(terms.part(pc, bits - 1, 1)), _below(pc, size["code_size"], bits)
            ),
            "an illegal instruction": legal(opcode, fields, w),
            "a jump": terms.negation(terms.equal(br, 0, w.width)) if NOT_JUMPING in executed.guards(w) else 0,
            "an address outside": _below(address, size["data_size"], w.width) if addressed else 1,
            "a trap": meaning.trap(executed, moved.guards, modes, len(core.guarded)),
        }
        trees = {**executed.transition(w), **moved.after}
        after = {place: meaning.of(tree) for place, tree in trees.items()}
        now = backward ^ executed.turns

        def found() -> dict[str, tuple[Word, Word, int]]:
            out: dict[str, tuple[Word, Word, int]] = {}
            for store in _STORES:
                memory = hw.memory(store)
                place, expected = terms.unknown(f"any of {store}", memory.address), before[store]
                for name in sorted(after.keys() & homes.keys()):
                    home, number = homes[name]
                    if home == store:
                        out[name] = terms.selected(memory, number), after[name], w.width
                        here = terms.equal(place, number, memory.address)
                        expected = terms.choice(here, after[name], expected, w.width)
                out[store] = terms.selected(memory, place), expected, w.width
            br_after = after.get("br", br)
            return out | {
                "BR": (hw.peek(core.br), br_after, w.width),
                "PC": (hw.peek(core.pc), next_pc(pc, br_after, now, bits, w), bits),
                "DIR": (hw.peek(core.backward), int(now), 1),
            }

        return before, found

    def _unit(self, operation: str, parameter: Any, v: list[Word]) -> Word:
        """A result of multiplier, divider or ROM as the same function of the operands that stands for the hardware's."""
        core, code, width = self._core, self.microcode, self.w.width
        match operation:
            case "mulshift":
                return self._function("product0", [parameter], 0, v)
            case "mulround":
                return self._function(f"product{code.halves.index(half(parameter, self.w))}", [parameter], 0, v)
            case "table":
                index = code.tables.index(parameter)
                bits, size = (len(parameter) - 1).bit_length(), (core.rom.entries.depth - 1).bit_length()
                pieces = [(terms.piece_of(v[0], 0, bits), bits), (core.rom.bases[index] >> bits, size - bits)]
                return self._hardware.entry("rom.entries", terms.joined([piece for piece in pieces if piece[1]]))
            case "sqrtround":
                which, shift = Division(True, parameter, True), 0
            case "divround":
                which, shift = Division(False, parameter % width, True), parameter % width - parameter
            case _:
                which, shift = Division(False, max(0, parameter)), max(0, parameter) - parameter
        return self._function(f"quotient{code.divisions.index(which)}", [shift], 0, v)

    def _instruction(self, opcode: Opcode) -> Term:
        """The encoding with arbitrary register numbers and an arbitrary constant."""
        fields = [
            (terms.unknown(name, width) if name in opcode.fields else 0, width) for name, width in _FIELDS.items()
        ]
        return terms.term(terms.joined([*fields, (opcode.code, 8)]), 64)

    def _put(self, opcode: Opcode, instruction: Term, lifted: bool, same: bool) -> Callable[[], None]:
        """Put the instruction at PC; the function that is returned does so again.

        The entry of the dispatch memory is known once its address is proved.
        """
        hw, core = self._hardware, self._core
        width = (core.parameters.code_words - 1).bit_length()
        pc = terms.piece_of(hw.peek(core.pc), 0, width)
        rows = core.microcode.dispatch
        if distinguishes(opcode, self.w, lifted):
            one = terms.equal(terms.piece_of(instruction, 40, 8), terms.piece_of(instruction, 32, 8), 8)
            self._run.assume(one if same else terms.negation(one))

        def fetch(at: Word) -> Word:
            self._run.oblige("the address", terms.equal(at, pc, width))
            return instruction

        def dispatch(at: Word) -> Word:
            backward = bool(hw.peek(core.backward))
            expected = dispatch_address(opcode.code, backward, lifted, same)
            other = dispatch_address(opcode.code, backward, lifted, not same)
            agreeing = {n for n in (expected, other) if rows[n] == rows[expected]}
            size = (len(rows) - 1).bit_length()
            self._run.oblige(
                "the microprogram", reduce(terms.disjunction, (terms.equal(at, n, size) for n in agreeing))
            )
            return rows[expected]

        def put() -> None:
            hw.answer("code", fetch)
            hw.answer("sequencer.dispatch", dispatch)

        put()
        return put

    def _turn(self) -> None:
        hw = self._hardware
        hw.settle(run=0, settings__turn=1)
        hw.tick()
        hw.settle(settings__turn=0)

    def _places(self) -> dict[str, Any]:
        """The locations to compare: PC, BR, DIR, and one arbitrary word of each memory."""
        hw, core = self._hardware, self._core
        found = {}
        for store in _STORES:
            words = hw.memory(store)
            found[store] = terms.selected(words, terms.unknown(f"any of {store}", words.address))
        return found | {
            name: terms.term(hw.peek(signal), len(signal))
            for name, signal in (("PC", core.pc), ("BR", core.br), ("DIR", core.backward))
        }

    def _step(self, opcode: Opcode) -> int:
        """Execute one instruction, and return its cycles. Raises Stuck."""
        pair = opcode, TABLE.inverse(opcode)
        most = _BEFORE + max(table_cycles(o, self.w, True, same) for o in pair for same in (False, True))
        hw, core = self._hardware, self._core
        hw.settle(run=1)
        begun, cycles = False, 0
        for _ in range(most):
            if hw.peek(core.begins):
                begun = True
                hw.settle(run=0)
            elif begun and hw.peek(core.idle):
                return cycles
            if hw.peek(core.traps):
                if not self._run.trapped:
                    raise Stuck("traps in all states")
                self._run.cause = hw.peek(core.trap)
            self._tick()
            cycles += begun
        raise Stuck("the instruction does not end" if begun else "the instruction does not begin")

    def _tick(self) -> None:
        """Advance by one cycle, and move the operands of multiplier and divider to their next stage."""
        hw, core = self._hardware, self._core
        multiplier, divider = core.multiplier, core.divider
        # Before execution the control signals of units are undefined, and their effects end before the units are started.
        runs = hw.peek(core.phase) == Phase.RUN.value
        asked = None
        if runs and hw.peek(multiplier.start):
            asked = hw.peek(multiplier.half), hw.peek(multiplier.x), hw.peek(multiplier.y)
        division = self._division
        if runs and hw.peek(divider.start):
            division = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        hw.tick()
        self._products, self._division = [asked, self._products[0] or self._products[1]], division

    def _compare(self, before: Mapping[str, Any]) -> str:
        """Words for which a location differs from before, or for which an obligation fails; or ""."""
        after = self._places()
        for name, word in before.items():
            self._run.oblige(name, terms.equal(after[name], word, word.width))
        return self._refute()

    def _compare_with(self, after: Mapping[str, tuple[Word, Word, int]]) -> str:
        """Words for which a place differs from the word that the table gives it, or for which an obligation fails; or ""."""
        for name, (word, expected, width) in after.items():
            self._run.oblige(name, terms.equal(word, expected, width))
        return self._refute()

    def _refute(self) -> str:
        known: list[Word] = []
        for what, holds in self._run.facts:
            if what and not self._evident(holds):
                match self._definitions.check([*known, terms.negation(holds)], self.seconds):
                    case z3.ModelRef() as model:
                        return f"{what}: {model}"
                    case z3.unknown:
                        raise Undecided(f"undecided: {what}")
            known.append(holds)
        # Anything follows from contradictory facts: a state must exist that satisfies them.
        found = self._definitions.check(known, self.seconds)
        if found == z3.unsat:
            raise Stuck("traps in all states")
        self._run.witnessed = found != z3.unknown
        return ""

    def _evident(self, holds: Word) -> bool:
        """Whether the formula holds without any assumption."""
        return bool(self._definitions.check([terms.negation(holds)], self.seconds, 3) == z3.unsat)


def _below(x: Word, limit: Word, width: int) -> Word:
    """x < limit, unsigned; the limit has fewer bits or as many."""
    limit = terms.term(limit, width)
    return terms.apply("u<", 1, [width] * 2, [x, terms.joined([(limit, limit.width), (0, width - limit.width)])])


def prove_all(w: Format, opcodes: Collection[str], seconds: float = 60, each: Each = map) -> Iterator[ProofResult]:
    """A result for each claim on these opcodes; its `opcode` is the claim's name, such as "mul.add D=1 DIR=-1".

    A claim that the solver does not decide in time does not hold. `each(prove, opcodes)` runs the proofs, one task for each opcode, and
    gives their results in the order of the table.
    """
    for found in each(partial(_proofs_of, w, seconds), [o.name for o in TABLE if o.name in opcodes]):
        yield from found


def _proofs_of(w: Format, seconds: float, opcode: str) -> list[ProofResult]:
    prover = _prover(w)
    prover.seconds = seconds
    return [*prove_with(prover, {opcode})]


@lru_cache(1)
def _prover(w: Format) -> Prover:
    """The prover of a format; building its netlist takes seconds."""
    return Prover(w)


def prove_with(prover: Prover, opcodes: Collection[str]) -> Iterator[ProofResult]:
    """The same, with an existing prover."""
    for claim in claims(prover.w, opcodes):
        begun = time.monotonic()
        try:
            yield replace(prover.prove_claim(claim), opcode=claim.name)
        except (Undecided, Stuck) as error:
            yield ProofResult(claim.name, False, time.monotonic() - begun, 0, str(error))
