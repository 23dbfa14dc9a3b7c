"""The core executed on terms: from a state between two instructions, an instruction at a time.

The state is any: words and cotangents of registers and memory, PC, BR, modes, sizes, register numbers of the instruction, and contents of
latches, temporaries and units are all unknown. The opcode, D, DIR, and whether ra and rb are one register are known: they choose the
microprogram. Facts that decide the control, such as a trap that does not occur, are collected as obligations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, NamedTuple

import z3
from amaranth.hdl import Signal
from retrograd.hdl.control_store import DispatchPart, control_store
from retrograd.hdl.core.core import Lane
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.claims import distinguishes
from retrograd.hdl.formal.solving import Definitions, Obligations, Stuck
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.microcode import Microcode, dispatch_address
from retrograd.hdl.microword import Division, Operation, TrapCause
from retrograd.hdl.parameters import INSTRUCTION, Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import half
from retrograd.isa.microarchitecture.schedule import cycles as table_cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# Multiplier, divider and ROM as arbitrary functions of their operands, on both sides of a proof.
#
#     product<half>(x, y),  quotient<division>(x, y),  a word of 4W bits, of which a shift selects W;  table(address)
#
# A proof with them holds for every such function: equal operands give equal results. That the units compute these functions is a claim on the
# units alone (`unit_proofs.py`).

#: operands of a multiplier, by stage; and of a divider
Products = list[tuple[Word, Word, Word] | None]
Quotients = tuple[int, Word, Word] | None


class UnitFunctions:
    """The results of the units of one core, slot by slot. `hardware` is set once the core's netlist exists."""

    hardware: Symbolic

    def __init__(self, core: Lane, w: Format) -> None:
        self._core, self._w = core, w
        self._idle = 0
        self.begin()

    def begin(self) -> None:
        """No operation is in flight."""
        self._products: dict[int, Products] = {k: [None] * (m.cycles - 1) for k, m in self._core.multipliers.items()}
        self._divisions: dict[int, Quotients] = dict.fromkeys(self._core.dividers)

    @property
    def given(self) -> list[tuple[Signal, Callable[[], Word]]]:
        """The outputs of all multipliers and dividers, each with the function that stands for it."""
        core = self._core
        units: list[tuple[Any, Callable[..., Word]]] = [
            (unit, partial(self._product, k)) for k, unit in core.multipliers.items()
        ]
        units += [(unit, partial(self._quotient, k)) for k, unit in core.dividers.items()]
        found = [(unit.result, word) for unit, word in units]
        return found + [(unit.fits, partial(word, True)) for unit, word in units if unit.flags]

    def advance(self) -> None:
        """Advance the hardware by one cycle, and move the operands of multipliers and dividers to their next stage."""
        hw, core = self.hardware, self._core
        # Before execution the control signals of units are undefined, and their effects end before the units are started.
        runs = hw.peek(core.phase) == Phase.RUN.value
        products, divisions = {}, {}
        for k, multiplier in core.multipliers.items():
            asked = None
            if runs and hw.peek(multiplier.start):
                asked = hw.peek(multiplier.half), hw.peek(multiplier.x), hw.peek(multiplier.y)
            *moving, held = self._products[k]
            *moving, arriving = [asked, *moving]
            products[k] = [*moving, arriving or held]
        for k, divider in core.dividers.items():
            divisions[k] = self._divisions[k]
            if runs and hw.peek(divider.start):
                divisions[k] = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        hw.tick()
        self._products, self._divisions = products, divisions

    def _product(self, slot: int, fits: bool = False) -> Word:
        """The output of a multiplier."""
        unit, asked = self._core.multipliers[slot], self._products[slot][-1]
        shift = self.hardware.peek(unit.shift)
        if asked is None or not isinstance(shift, int):
            return self._any(fits)
        half, *operands = asked
        return self._output(f"product{half}", unit.shifts, shift, operands, fits)

    def _quotient(self, slot: int, fits: bool = False) -> Word:
        """The output of a divider."""
        unit, asked = self._core.dividers[slot], self._divisions[slot]
        shift = self.hardware.peek(unit.shift)
        if asked is None or not isinstance(shift, int):
            return self._any(fits)
        which, x, y = asked
        return self._output(f"quotient{which}", unit.shifts, shift, [x] if unit.plans[which].root else [x, y], fits)

    def of_table(self, operation: str, parameter: Any, v: list[Word]) -> Word:
        """A result of multiplier, divider or ROM, as the function of the operands that also stands for the hardware unit."""
        core, code, width = self._core, self._core.microcode, self._w.width
        match operation:
            case "mulshift":
                return self._function("product0", [parameter], 0, v)
            case "mulround":
                return self._function(f"product{code.halves.index(half(parameter, self._w))}", [parameter], 0, v)
            case "table":
                index = code.tables.index(parameter)
                bits, size = (len(parameter) - 1).bit_length(), (core.rom.entries.depth - 1).bit_length()
                pieces = [(terms.piece_of(v[0], 0, bits), bits), (core.rom.bases[index] >> bits, size - bits)]
                at = terms.joined([piece for piece in pieces if piece[1]])
                return terms.joined([(self.hardware.entry(f"rom.{name}", at), n) for name, _, n in core.rom.columns])
            case "sqrtround":
                which, shift = Division(True, parameter, True), 0
            case "divround":
                which, shift = Division(False, parameter % width, True), parameter % width - parameter
            case _:
                which, shift = Division(False, max(0, parameter)), max(0, parameter) - parameter
        return self._function(f"quotient{code.divisions.index(which)}", [shift], 0, v)

    def _output(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word], fits: bool) -> Word:
        word = self._function(name, shifts, index, operands)
        if not fits:
            return word
        width = self._w.width
        above = self._function(name, [shift + width for shift in shifts], index, operands)
        sign = terms.piece_of(word, width - 1, 1)
        return terms.equal(above, terms.joined([(sign, 1)] * width), width)

    def _function(self, name: str, shifts: Sequence[int], index: int, operands: Sequence[Word]) -> Word:
        width = self._w.width
        # Without a pending result the shift is undefined.
        shift = shifts[index] if index < len(shifts) else 0
        return terms.part(terms.function(name, 4 * width, [terms.term(x, width) for x in operands]), shift, width)

    def _any(self, fits: bool) -> Word:
        """An arbitrary word for the output of an idle unit, or an arbitrary flag."""
        self._idle += 1
        return terms.unknown(f"left{self._idle}", 1 if fits else self._w.width)


# -----------------------------------------------------------------------------
# The core.

#: the memories that an instruction changes
STORES = ("registers.words", "registers.cotangents", "memory.words", "memory.cotangents")
#: fields of an encoding, from the lowest, and their bits
FIELDS = {"imm": 32, "rb": 8, "ra": 8, "rd": 8}


class TrapPlace(NamedTuple):
    """A place where an instruction may trap: the word at this place if it does not trap, and the cause that is reported if it does."""

    right: int
    cause: TrapCause


#: In the order of their tests. The last are the guards that are computed; the condition that is proved there is the cause.
TRAP_PLACES = {
    "PC outside the code": TrapPlace(1, TrapCause.CODE),
    "an illegal instruction": TrapPlace(1, TrapCause.ILLEGAL),
    "a jump": TrapPlace(0, TrapCause.JUMP),
    "an address outside": TrapPlace(1, TrapCause.MEMORY),
    "a trap": TrapPlace(0, TrapCause.DOMAIN),
}
#: upper bound on the cycles before execution
_BEFORE = 10


@dataclass
class ProofRun(Obligations):
    """One proof: its facts, and its decisions on the traps of its instructions."""

    #: traps are impossible; in the first instruction they are assumed not to occur
    second: bool = False
    #: the traps of which one must occur; and whether the guards have reported one
    traps: tuple[int, ...] = ()
    trapped: bool = False
    #: in a proof of the table's transition: a place where the step may trap -> the word there by the table; and the
    #: place where it traps
    expected: dict[str, Word] = field(default_factory=dict)
    fails: str = ""
    #: the places that were reached; and the cause of the trap that the core reports
    reached: list[str] = field(default_factory=list)
    cause: Word = 0
    #: a formula -> whether it, or its negation, follows from the facts, or None; and how many facts there were
    decided: dict[Term, tuple[bool | None, int]] = field(default_factory=dict)


class CoreExecution:
    """A core of one format. `microcode`: a wrong microcode, to test that it is refuted."""

    def __init__(
        self, w: Format, microcode: Microcode | None = None, seconds: float = 60, core_name: str = "small"
    ) -> None:
        self.w = w
        self.seconds = seconds
        self.core = core = core_of(Parameters(w, code_words=8, data_words=4, core=core_name), microcode)
        self.units = UnitFunctions(core, w)
        self.hardware = self.units.hardware = Symbolic(
            core,
            [core.pc, core.br, core.backward, core.idle, core.begins, core.traps, core.trap, core.halts, core.phase],
            hooks=[
                *((result, partial(self._name, unit)) for result, unit in zip(core.results, core.logics, strict=True)),
                (core.guarded, self._guard),
                (core.fails, self._fails),
                (core.jumping, lambda word: self._early("a jump", word, 0, Phase.READ, Phase.ACCESS)),
                (
                    core.decoder.legal,
                    lambda word: self._early("an illegal instruction", word, 1, Phase.READ, Phase.ACCESS),
                ),
                (core.branch.inside, lambda word: self._early("PC outside the code", word, 1, Phase.FETCH)),
                (core.memory.valid, lambda word: self._early("an address outside", word, 1, Phase.ACCESS)),
            ],
            decide=self._decide,
            given=self.units.given,
        )
        #: proved facts about the logic unit, for all operands
        self._lemmas: set[Word] = set()
        self.run = ProofRun()
        self.definitions = Definitions()
        #: the trap of this cycle, before it was replaced
        self._reported: Word = 0
        #: how many words were read ahead
        self._ahead = 0

    # ---------------------------------------------------------------- words that are replaced

    def _name(self, unit: Any, result: Word) -> Word:
        """Replace a unit's result by a name, so that the solver sees its definition only where it needs it."""
        if isinstance(result, int):
            return result
        if not isinstance(self.hardware.peek(unit.operation), int):
            # Before execution the operation is arbitrary, so a search for equal words would find none.
            return self.definitions.name(result)
        return self.definitions.recognised(self._plain(unit, result))

    def _of_logic(self, unit: Any, result: Term) -> bool:
        """Whether the result that is written is that of the logic unit."""
        return result is self.hardware.peek(unit.result)

    def _plain(self, unit: Any, result: Term) -> Word:
        """Replace a sum or difference, bit by bit with its carries, by x ± y. The solver proves the equality once, for all words."""
        hw = self.hardware
        sign = {Operation.ADD.value: 1, Operation.SUB.value: -1}.get(hw.peek(unit.operation))
        if sign is None or not self._of_logic(unit, result):
            return result
        width = self.w.width
        x, y = (hw.peek(operand) for operand in (unit.x, unit.y))
        plain = terms.add(x, y, width) if sign > 0 else terms.subtract(x, y, width)
        general = {word: terms.unknown(f"operand{i}", width) for i, word in enumerate((x, y)) if isinstance(word, Term)}
        claim = terms.substitute(terms.equal(result, plain, width), general)
        if claim not in self._lemmas:
            if self.definitions.check([terms.negation(claim)], self.seconds, 0) != z3.unsat:
                return result
            self._lemmas.add(claim)
        return plain

    def _fails(self, word: Word) -> Word:
        """Oblige the core to fail if and only if its guards report a trap."""
        trap = self.hardware.peek(self.core.guarded)
        reported = terms.negation(terms.equal(self._reported, 0, len(self.core.guarded)))
        self.run.oblige("a failure is a trap", terms.equal(word, reported, 1))
        return int(trap != 0)

    def _guard(self, trap: Word) -> Word:
        run, self._reported = self.run, trap
        if run.expected:
            # In all cycles but that of the first write the word is 0.
            return trap if isinstance(trap, int) and trap == 0 else self._as_expected("a trap", trap, 0)
        if run.traps and trap != 0:
            width = len(self.core.guarded)
            run.oblige(
                "a trap of the table's", reduce(terms.disjunction, (terms.equal(trap, t, width) for t in run.traps))
            )
            run.trapped = True
            return run.traps[0]
        if isinstance(trap, int):
            return trap
        self._follow("a trap", terms.equal(trap, 0, trap.width))
        return 0

    def _early(self, trap: str, word: Word, right: int, *phases: Phase) -> Word:
        """A trap before execution, in the phases in which it is tested. The core `fast` tests the trap of an instruction on memory twice."""
        here = self.hardware.peek(self.core.phase) in {phase.value for phase in phases}
        if self.run.expected and here:
            return self._as_expected(trap, word, right)
        if isinstance(word, int) or not here:
            return word
        self._follow(trap, word if right else terms.negation(word))
        return right

    def _follow(self, what: str, holds: Word) -> None:
        """In the first step assume the formula, in the second oblige it."""
        self.run.oblige(what if self.run.second else "", holds)

    def _as_expected(self, where: str, word: Word, right: int) -> Word:
        """Oblige the word to equal the table's word, and follow a case: `right` (no trap) or, where the run is to fail, another word."""
        run, width = self.run, self.trap_width(where)
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

    def trap_width(self, where: str) -> int:
        """The bits of the word at a place where an instruction may trap: a cause for the guards that are computed, else a condition."""
        return len(self.core.guarded) if where == "a trap" else 1

    def _decide(self, truth: Term) -> bool | None:
        """True or False if it follows from the facts, else None. Facts are only added, so True and False remain valid, and None until the next fact."""
        known = self.run.known
        answer, facts = self.run.decided.get(truth, (None, -1))
        if answer is None and facts < len(known):
            for claim, other in ((True, terms.negation(truth)), (False, truth)):
                if self.definitions.check([*known, other], self.seconds, 0) == z3.unsat:
                    answer = claim
                    break
            self.run.decided[truth] = answer, len(known)
        return answer

    # ---------------------------------------------------------------- instructions

    def begin(self, backward: bool, lifted: bool, *, cleared: bool = False, strict: bool = False) -> ProofRun:
        """Start between two instructions. `cleared`: the host has just cleared all cotangents; `strict`: on a strict machine."""
        self.run = ProofRun()
        self.definitions = Definitions()
        self.units.begin()
        hw, core = self.hardware, self.core
        hw.reset()
        hw.poke(core.backward, int(backward))
        hw.forget([core.phase, core.backward])
        for store in STORES:
            hw.unknown(store)
        sizes = {name: terms.unknown(name, len(getattr(core, name))) for name in ("code_size", "data_size")}
        for name, most in (("code_size", core.parameters.code_words), ("data_size", core.parameters.data_words)):
            self.run.assume(terms.apply("u<=", 1, [sizes[name].width] * 2, [sizes[name], most]))
        hw.settle(
            **sizes, modes__differentiate=int(lifted), modes__overflow=terms.unknown("overflow", 1),
            modes__strict=1 if strict else terms.unknown("strict", 1), settings__forget=int(cleared),
        )  # fmt: skip
        # One idle cycle: the previous instruction may have trapped or halted.
        hw.tick()
        hw.settle(settings__forget=0)
        return self.run

    def instruction(self, opcode: Opcode) -> Term:
        """The encoding with arbitrary register numbers and an arbitrary constant."""
        fields = [(terms.unknown(name, width) if name in opcode.fields else 0, width) for name, width in FIELDS.items()]
        return terms.term(terms.joined([*fields, (opcode.code, 8)]), 64)

    def put(self, opcode: Opcode, instruction: Term, lifted: bool, same: bool) -> Callable[[], None]:
        """Put the instruction at PC; the function that is returned does so again.

        The entry is known once its address in each part of the dispatch memory is proved. A core with a front end that is ahead also reads later
        instructions. They are arbitrary, and have no effect, since the core stops after the step.
        """
        hw, core = self.hardware, self.core
        width = (core.parameters.code_words - 1).bit_length()
        pc = terms.piece_of(hw.peek(core.pc), 0, width)
        parts = control_store(core.microcode).dispatch
        if distinguishes(opcode, self.w, lifted):
            one = terms.equal(terms.piece_of(instruction, 40, 8), terms.piece_of(instruction, 32, 8), 8)
            self.run.assume(one if same else terms.negation(one))

        def fetch(at: Word) -> Word:
            if hw.peek(core.phase) != Phase.FETCH.value:
                return self._any_ahead(INSTRUCTION)
            self.run.oblige("the address", terms.equal(at, pc, width))
            return instruction

        def dispatch(part: DispatchPart, at: Word) -> Word:
            if hw.peek(core.phase) != Phase.DECODE.value:
                return self._any_ahead(part.columns.width)
            backward, words = bool(hw.peek(core.backward)), part.columns.words
            expected = dispatch_address(opcode.code, backward, lifted, same) % len(words)
            other = dispatch_address(opcode.code, backward, lifted, not same) % len(words)
            agreeing = {n for n in (expected, other) if words[n] == words[expected]}
            right = (terms.equal(at, n, part.address) for n in agreeing)
            self.run.oblige("the microprogram", reduce(terms.disjunction, right))
            return words[expected]

        def put() -> None:
            hw.answer("code", fetch)
            for k, part in enumerate(parts):
                hw.answer(f"sequencer.memory.dispatch{k}", partial(dispatch, part))

        put()
        return put

    def _any_ahead(self, width: int) -> Word:
        self._ahead += 1
        return terms.unknown(f"ahead{self._ahead}", width)

    def turn(self) -> None:
        hw = self.hardware
        hw.settle(run=0, settings__turn=1)
        hw.tick()
        hw.settle(settings__turn=0)

    def address_bits(self, store: str) -> int:
        """The bits of a word's number in one of STORES."""
        return int(self.hardware.memory(store).address)

    def word(self, store: str, number: Word) -> Word:
        """The word of this number in one of STORES."""
        return terms.selected(self.hardware.memory(store), number)

    def registers(self) -> dict[str, Any]:
        """PC, BR and DIR between two instructions."""
        hw, core = self.hardware, self.core
        named = ("PC", core.pc), ("BR", core.br), ("DIR", core.backward)
        return {name: terms.term(hw.peek(signal), len(signal)) for name, signal in named}

    def places(self) -> dict[str, Any]:
        """The locations to compare: PC, BR, DIR, and one arbitrary word of each memory."""
        anywhere = {store: terms.unknown(f"any of {store}", self.address_bits(store)) for store in STORES}
        return {store: self.word(store, number) for store, number in anywhere.items()} | self.registers()

    def step(self, opcode: Opcode) -> int:
        """Execute one instruction, and return its cycles. Raises Stuck."""
        pair = opcode, TABLE.inverse(opcode)
        most = _BEFORE + max(table_cycles(o, self.w, True, same) for o in pair for same in (False, True))
        hw, core = self.hardware, self.core
        hw.settle(run=1)
        begun, cycles = False, 0
        for _ in range(most):
            if begun and hw.peek(core.idle):
                return cycles
            if hw.peek(core.begins):
                begun = True
                hw.settle(run=0)
            if hw.peek(core.traps):
                if not self.run.trapped:
                    raise Stuck("traps in all states")
                self.run.cause = hw.peek(core.trap)
            self.units.advance()
            cycles += begun
        raise Stuck("the instruction does not end" if begun else "the instruction does not begin")
