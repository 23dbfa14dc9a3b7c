"""Proofs that the hardware takes back what it did: for an opcode, on all words at once.

    turn · step · turn · step = nothing,  wherever the first step does not trap

The core's own netlist executes the instruction on unknown words, is turned round, and executes it again. A guard that may fail makes two
cases of one: the first time only that without the trap is followed, the second time a trap must be impossible. Multiplier,
divider and ROM are any functions of their operands. That they need be no more is the point of a reversible update, and keeps
the proofs small.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import z3
from retrograd.hdl.core import Core
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.sequencer import Phase
from retrograd.hdl.symbolic import Symbolic
from retrograd.hdl.terms import Word
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.entries import NOT_JUMPING, Opcode
from retrograd.isa.lifted import lifted as lift
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: where the instruction stands, what its fields are, and its address in memory
_PC, _FIELDS, _ADDRESS = 3, (1, 2, 3), 2
#: the memories that an instruction changes
_STORES = ("registers.words", "registers.cotangents", "memory.words", "memory.cotangents")


class Undecided(Exception):
    """The solver did not find out in time."""


@dataclass(frozen=True)
class Result:
    """What became of one proof. `counterexample`: words for which a place does not come back, or a trap comes."""

    opcode: str
    holds: bool
    seconds: float
    cycles: int
    counterexample: str = ""


@dataclass
class _Run:
    """One execution: what was assumed, and what must follow."""

    assumed: list[z3.BoolRef] = field(default_factory=list)
    obliged: list[tuple[str, z3.BoolRef]] = field(default_factory=list)
    second: bool = False


class Prover:
    """Proofs for one format, on one core. `microcode`: another than the table's, to see that it is refuted."""

    def __init__(self, w: Format, microcode: Microcode | None = None, seconds: float = 60) -> None:
        self.w = w
        self.seconds = seconds
        self._core = core = Core(Parameters(w, code_words=8, data_words=4), microcode)
        self._hardware = hw = Symbolic(
            core, [core.pc, core.br, core.backward, core.idle, core.begins, core.traps, core.halts, core.phase]
        )
        self._run = _Run()
        #: what the multiplier was asked for, by stage, and the divider
        self._products: list[tuple[Word, Word] | None] = [None, None]
        self._division: tuple[int, Word, Word] | None = None
        hw.hook(core.multiplier.result, self._product)
        hw.hook(core.divider.result, self._quotient)
        hw.hook(core.guarded, self._guard)
        hw.hook(core.jumping, self._jump)
        hw.hook(core.decoder.legal, self._legal)

    # ---------------------------------------------------------------- hooks

    def _product(self, word: Word) -> Word:
        """A word of which nothing is known but that it is a function of the operands."""
        if isinstance(word, int) or self._products[1] is None:
            return word
        unit = self._core.multiplier
        return self._function("product", unit.shifts, self._hardware.peek(unit.shift), self._products[1])

    def _quotient(self, word: Word) -> Word:
        if isinstance(word, int) or self._division is None:
            return word
        unit = self._core.divider
        which, x, y = self._division
        operands = [x] if unit.plans[which].root else [x, y]
        return self._function(f"quotient{which}", unit.shifts, self._hardware.peek(unit.shift), operands)

    def _function(self, name: str, shifts: Sequence[int], index: Word, operands: Sequence[Word]) -> Word:
        width = self.w.width
        terms = [z3.BitVecVal(x, width) if isinstance(x, int) else x for x in operands]
        sorts = *(z3.BitVecSort(width) for _ in terms), z3.BitVecSort(3 * width)
        # While no result is asked for, the shift means nothing.
        shift = shifts[index] if index < len(shifts) else 0
        return z3.Extract(shift + width - 1, shift, z3.Function(name, *sorts)(*terms))

    def _guard(self, trap: Word) -> Word:
        if isinstance(trap, int):
            return trap
        self._follow("a trap", trap == 0)
        return 0

    def _jump(self, jumping: Word) -> Word:
        if isinstance(jumping, int) or self._hardware.peek(self._core.phase) != Phase.READ.value:
            return jumping if isinstance(jumping, int) else 0
        self._follow("a jump", jumping == 0)
        return 0

    def _legal(self, legal: Word) -> Word:
        # Between instructions it tells of one that is not there.
        if isinstance(legal, int) or self._hardware.peek(self._core.phase) != Phase.READ.value:
            return legal if isinstance(legal, int) else 1
        self._follow("an illegal constant", legal == 1)
        return 1

    def _follow(self, what: str, holds: z3.BoolRef) -> None:
        if self._run.second:
            self._run.obliged.append((what, holds))
        self._run.assumed.append(holds)

    # ---------------------------------------------------------------- one proof

    def prove(self, opcode: Opcode, *, backward: bool = False, lifted: bool = False, same: bool = False) -> Result:
        """Whether the instruction is taken back. `same`: ra and rb are one register.

        Raises Undecided where time runs out, ValueError where the instruction always traps or loses words by its meaning.
        """
        begun = time.monotonic()
        hw = self._hardware
        hw.reset()
        self._products, self._division = [None, None], None
        self._run = run = _Run()
        before = self._prepare(opcode, backward, same)
        cycles = self._step(lifted)
        hw.settle(run=0, settings__turn=1)
        hw.tick()
        # The way back begins where the way there did: that is to be proved, and then known.
        run.obliged.append(("the address", _same(hw.peek(self._core.pc), _PC)))
        hw.poke(self._core.pc, _PC)
        hw.settle(settings__turn=0)
        run.second = True
        self._step(lifted)
        hw.settle(run=0, settings__turn=1)
        hw.tick()
        hw.settle(settings__turn=0)
        after = self._places()
        # `pc` was made known in between, so that it is what it was only if the second step was the inverse of the first.
        run.obliged += [(name, _same(after[name], word)) for name, word in before.items()]
        wrong = self._refute(run)
        return Result(opcode.name, not wrong, time.monotonic() - begun, cycles, wrong)

    def _prepare(self, opcode: Opcode, backward: bool, same: bool) -> dict[str, Word]:
        """The instruction in the code, and a word that nobody knows in every place that it names; the places."""
        hw, w, core = self._hardware, self.w, self._core
        executed = TABLE.inverse(opcode) if backward else opcode
        if not provable(opcode):
            raise ValueError(f"{opcode.name} cannot be taken back")
        rd, ra, rb = _FIELDS if not same else (1, 2, 2)
        on_memory = "[ra+imm]" in opcode.operands
        fields = {name: number for name, number in (("rd", rd), ("ra", ra), ("rb", rb)) if name in opcode.fields}
        plain = encode(Instruction(opcode, **fields, imm=1 if on_memory else 0))
        bits = min(w.width, 32)
        constant: Word = plain & 0xFFFFFFFF
        if "imm" in opcode.fields and not on_memory:
            constant = z3.SignExt(32 - bits, z3.BitVec("imm", bits)) if bits < 32 else z3.BitVec("imm", 32)
            if opcode.negates_immediate:
                self._run.assumed.append(z3.BitVec("imm", bits) != 1 << (bits - 1))
            hw.memory("code")[_PC] = z3.Concat(z3.BitVecVal(plain >> 32, 32), constant)
        else:
            hw.memory("code")[_PC] = plain
        for register in {rd, ra, rb}:
            hw.memory("registers.words")[register] = z3.BitVec(f"r{register}", w.width)
            hw.memory("registers.cotangents")[register] = z3.BitVec(f"c{register}", w.width)
        if on_memory:
            hw.memory("registers.words")[ra] = _ADDRESS - 1
        hw.memory("memory.words")[_ADDRESS] = z3.BitVec("m", w.width)
        hw.memory("memory.cotangents")[_ADDRESS] = z3.BitVec("cm", w.width)
        hw.poke(core.pc, _PC)
        hw.poke(core.backward, int(backward))
        if NOT_JUMPING not in executed.guards(w):
            hw.poke(core.br, z3.BitVec("br", w.width))
        return self._places()

    def _places(self) -> dict[str, Word]:
        hw, core = self._hardware, self._core
        hw.settle(run=0)
        found = {f"{store}[{at}]": word for store in _STORES for at, word in enumerate(hw.memory(store))}
        return found | {name: hw.peek(signal) for name, signal in (("PC", core.pc), ("BR", core.br), ("DIR", core.backward))}  # fmt: skip

    def _step(self, lifted: bool) -> int:
        """Execute one instruction; the cycles that it took."""
        hw, core = self._hardware, self._core
        hw.settle(run=1, code_size=8, data_size=4, modes__differentiate=int(lifted))
        begun, cycles = False, 0
        while True:
            if hw.peek(core.begins):
                begun = True
                hw.settle(run=0)
            elif begun and hw.peek(core.idle):
                return cycles
            if hw.peek(core.traps):
                raise ValueError("the instruction always traps")
            self._tick()
            hw.settle()
            cycles += begun

    def _tick(self) -> None:
        """On to the next cycle, and what was asked of the units on to their next stage."""
        hw, core = self._hardware, self._core
        multiplier, divider = core.multiplier, core.divider
        asked = (hw.peek(multiplier.x), hw.peek(multiplier.y)) if hw.peek(multiplier.start) else None
        self._products = [asked, self._products[0] or self._products[1]]
        if hw.peek(divider.start):
            self._division = hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        hw.tick()

    def _refute(self, run: _Run) -> str:
        """Words that break an obligation, or nothing."""
        for what, holds in run.obliged:
            negated = z3.simplify(z3.Not(holds))
            if z3.is_false(negated):
                continue
            solver = z3.Solver()
            solver.set("timeout", int(self.seconds * 1000))
            solver.add(*run.assumed, negated)
            match solver.check():
                case z3.sat:
                    return f"{what}: {solver.model()}"
                case z3.unknown:
                    raise Undecided(what)
        return ""


def _same(x: Word, y: Word) -> z3.BoolRef:
    if isinstance(x, int) and isinstance(y, int):
        return z3.BoolVal(x == y)
    return x == y


def provable(opcode: Opcode) -> bool:
    """Whether there is anything to prove: an erasure comes back from nothing, and at an end the machine stays."""
    pair = opcode, TABLE.inverse(opcode)
    return not any(o.erased_words or o.halts for o in pair)


def prove_all(w: Format, opcodes: Collection[str], seconds: float = 60) -> Iterator[Result]:
    """Proofs of these opcodes, in each mode and direction in which there is something to prove; one result for each.

    `opcode` of a result names the mode, too: "mul.add D=1 DIR=-1". What the solver does not decide in time does not hold.
    """
    prover = Prover(w, seconds=seconds)
    for opcode in TABLE:
        if opcode.name not in opcodes or not provable(opcode):
            continue
        for lifted in (False, True):
            if lifted and lift(opcode, w, False).drops:
                continue
            for backward in (False, True):
                mode = f"{opcode.name} D={int(lifted)} DIR={-1 if backward else 1}"
                begun = time.perf_counter()
                try:
                    found = prover.prove(opcode, backward=backward, lifted=lifted)
                except Undecided as error:
                    yield Result(mode, False, time.perf_counter() - begun, 0, f"undecided: {error}")
                except ValueError:
                    continue  # the format has no such function
                else:
                    yield replace(found, opcode=mode)
