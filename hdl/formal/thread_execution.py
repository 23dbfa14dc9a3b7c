# amaranth: UnusedElaboratable=no
"""Steps of the core `barrel`: a thread executes an instruction on terms, between two others, while other threads rest.

    a row that fetches → the rows of the instruction, one in each turn → the cycle behind its last write

Nothing of the words of the thread is known, nor of its register numbers and constant; its opcode, D, DIR are. A
trap is followed where the table has it: before execution in the first row, a guard's in the row that decides.
That the row fails there if and only if the table says so, and nowhere else, is an obligation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from amaranth.hdl import Signal
from retrograd.hdl.core.cores import barrel_of
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.barrel import COUNTS, memories
from retrograd.hdl.formal.claims import distinguishes
from retrograd.hdl.formal.core_execution import TRAP_PLACES, CoreExecution, ProofRun, UnitFunctions
from retrograd.hdl.formal.solving import Definitions, Stuck
from retrograd.hdl.formal.symbolic import Hook, Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.microcode import ROW_ENTRY, dispatch_address
from retrograd.hdl.microword import THREAD_CONSTANTS, TrapCause
from retrograd.hdl.parameters import INSTRUCTION, Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.micro_operations import BARREL
from retrograd.isa.microarchitecture.rows import Row
from retrograd.isa.microarchitecture.schedule import row_program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: the thread that executes
_OWN = 5
#: by slots: the memory of words of registers, and their region in the thread's part of it
_REGISTERS = {
    1: {"registers.words": ("file", 1), "registers.cotangents": ("file", 2)},
    2: {"registers.words": ("file", 1), "registers.cotangents": ("second_file", 1)},
}
#: bits of a region's number, by slots
_REGION_BITS = {1: 2, 2: 1}
#: words of data memory
_DATA = {"memory.words": "data_m", "memory.cotangents": "data_m_bar"}
#: cycles of a turn: operands, the code and the dispatch memory are read; units begin, and end; traps before execution, and all
_CODE, _DISPATCH, _BEGIN, _EARLY, _FAILS, _DONE = 4, 6, 7, 9, 10, 12


class ThreadUnits(UnitFunctions):
    """Multiplier, divider and ROM of the core as functions of the operands that its thread gave them."""

    #: clock cycle, and what the units were asked for: a product in the last cycle but one, a quotient some turns ago
    now = 0

    def begin(self) -> None:
        """No operation is in flight."""
        self._asked: list[Any] = [None, None]
        self._divides: list[tuple[int, int, Word, Word]] = []

    @property
    def given(self) -> list[tuple[Signal, Callable[[], Word]]]:
        """The outputs of multiplier and divider, each with the function that stands for it."""
        units = ((self._core.multiplier, self._of_product), (self._core.divider, self._of_quotient))
        words: list[tuple[Signal, Callable[[], Word]]] = [(unit.result, partial(word, False)) for unit, word in units]
        return words + [(unit.fits, partial(word, True)) for unit, word in units]

    def advance(self) -> None:
        """The next cycle."""
        hw, unit, divider, asked = self.hardware, self._core.multiplier, self._core.divider, None
        if hw.peek(self._core.turn[_BEGIN]) == _OWN:
            half = hw.peek(unit.half)
            asked = (half, hw.peek(unit.x), hw.peek(unit.y)) if isinstance(half, int) else None
            if hw.peek(divider.start):
                begins = self.now, hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
                self._divides = [*filter(self._returns_now, self._divides), begins]
        hw.tick()
        self.now += 1
        self._asked = [asked, self._asked[0]]

    def _returns_now(self, division: tuple[int, int, Word, Word]) -> bool:
        """Whether a division outlives the start of another one: it has gone round the ring, and returns beside it."""
        divider = self._core.divider
        apart = divider.returned is not divider.stages[0]
        return apart and self.now - division[0] == self._rounds(division[1])

    def _rounds(self, which: int) -> int:
        """Cycles from a start to the return of the digits."""
        divider = self._core.divider
        return len(divider.stages) * int(divider.plans[which].cycles)

    def _of_product(self, fits: bool) -> Word:
        unit, shift = self._core.multiplier, self.hardware.peek(self._core.multiplier.shift)
        if self._asked[-1] is None or not isinstance(shift, int):
            return self._any(fits)
        half, *operands = self._asked[-1]
        if fits and not (shift < len(unit.shifts) and unit.shifts[shift] in unit.tested):
            return self._any(fits)
        return self._output(f"product{half}", unit.shifts, shift, operands, fits)

    def _of_quotient(self, fits: bool) -> Word:
        """A quotient is there for one cycle, when its digits have gone round the ring as often as planned."""
        unit, shift = self._core.divider, self.hardware.peek(self._core.divider.shift)
        ready = [one for one in self._divides if self.now - one[0] == 2 + self._rounds(one[1])]
        if not ready or not isinstance(shift, int):
            return self._any(fits)
        ((_, which, x, y),) = ready
        return self._output(f"quotient{which}", unit.shifts, shift, [x] if unit.plans[which].root else [x, y], fits)


class ThreadExecution(CoreExecution):
    """A thread of the core barrel of one format."""

    core: Any
    units: ThreadUnits

    def __init__(
        self, w: Format, microcode: Any = None, seconds: float = 60, core_name: str = BARREL, slots: int = 1
    ) -> None:
        self.w, self.seconds, self.slots = w, seconds, slots
        self.core = core = barrel_of(
            Parameters(w, code_words=8, data_words=4, core=core_name, lanes=COUNTS[0], slots=slots), microcode
        )
        self._memories = memories(slots)
        self.units = ThreadUnits(core, w)
        self.run, self.definitions = ProofRun(), Definitions()
        self._lemmas: set[Word] = set()
        #: the rows of the instruction; the cycle in which it begins, the row that ends it by a trap, else the last
        self._rows: tuple[Row, ...] = ()
        self._begun: int | None = None
        self._ends = 0
        units = [getattr(core.multiplier, name) for name in ("x", "y", "half", "shift")]
        units += [getattr(core.divider, name) for name in ("start", "division", "x", "y", "shift")]
        roots = [core.idle, core.begins, core.traps, core.trap, core.halts, *core.turn, *core.marks.values(), *units]
        logics = [core.logic, *([core.second_logic] if slots > 1 else [])]
        hooks: list[tuple[Signal, Hook]] = [
            *((logic.result, partial(self._named, logic)) for logic in logics),
            (core.early, self._before_execution),
            (core.fails, self._fails),
        ]
        self.hardware = self.units.hardware = Symbolic(
            core, roots, hooks=hooks, decide=self._decide, given=self.units.given
        )
        self._settled()

    def _settled(self) -> None:
        """A state in which all threads rest, as after a reset; registers between cycles hold any words."""
        hw, core = self.hardware, self.core
        resets = [s for s in hw.netlist.signals if not s.reset_less and hw.is_register(s)]
        hw.forget(resets)
        self._forget_memories()
        self._inputs = {"selected": _OWN}
        hw.settle(**self._inputs)
        # At least 16 cycles, to the one behind which the thread has its turn.
        while self.units.now < 2 * core.threads or hw.peek(core.turn[0]) != _OWN - 1:
            self.units.advance()
            hw.settle()
        self._rest = dict(hw.words)

    def _forget_memories(self) -> None:
        for name in self._memories:
            found = [path for path in self.hardware.stores if path.split("$")[0] == name]
            for path in found:
                self.hardware.unknown(path)

    # ---------------------------------------------------------------- places of the thread

    def trap_width(self, where: str) -> int:
        """The bits of the word at a place where an instruction may trap."""
        return len(self.core.early) if where == "a trap" else 1

    def address_bits(self, store: str) -> int:
        """The bits of a word's number in one of STORES."""
        return 8 if store in _REGISTERS[self.slots] else (self.core.room - 1).bit_length()

    def word(self, store: str, number: Word) -> Word:
        """The word of this number in one of STORES."""
        bits = self.address_bits(store)
        if store in _REGISTERS[self.slots]:
            memory, region = _REGISTERS[self.slots][store]
            return self.hardware.read(memory, self._in_file(number, region))
        return self.hardware.read(_DATA[store], terms.joined([(number, bits), (_OWN, 3)]))

    def _in_file(self, number: Word, region: int) -> Word:
        return terms.joined([(number, 8), (region, _REGION_BITS[self.slots]), (_OWN, 3)])

    def registers(self) -> dict[str, Any]:
        """PC, BR and DIR between two instructions."""
        width = self.w.width
        pc, br = self.hardware.read("pcs", _OWN), self.hardware.read("brs", _OWN)
        back = terms.piece_of(self.hardware.peek(self.core.marks["backward"]), _OWN, 1)
        return {
            "PC": terms.term(pc, len(self.core.pc)),
            "BR": terms.term(terms.piece_of(br, 0, width), width),
            "DIR": terms.term(back, 1),
        }

    def places(self) -> dict[str, Any]:
        """Besides the places of other cores a constant in the file, and a word of each kind of another thread."""
        constant = terms.joined([(terms.unknown("any constant", 7), 7), (1, 1)])
        return super().places() | {"a constant": self.hardware.read("file", self._in_file(constant, 0))}

    # ---------------------------------------------------------------- instructions

    def begin(self, backward: bool, lifted: bool, *, cleared: bool = False, strict: bool = False) -> ProofRun:
        """Start between two instructions. `cleared`: the host has just cleared all cotangents."""
        self.run, self.definitions = ProofRun(), Definitions()
        self.units.begin()
        self.units.now, self._begun = 0, None
        hw, core = self.hardware, self.core
        hw.restore(self._rest)
        self._forget_memories()
        for name in ("backward", "turned", "known"):
            bits: list[tuple[Word, int]] = [(terms.unknown(f"{name}{i}", 1), 1) for i in range(core.threads)]
            if name == "backward" or (name == "known" and cleared):
                bits[_OWN] = int(backward and name == "backward"), 1
            hw.poke(core.marks[name], terms.joined(bits))
        # With BR a bit is stored, which each step must keep: BR is not 0.
        br = self.registers()["BR"]
        jumps = terms.negation(terms.equal(br, 0, br.width))
        hw.put("brs", terms.stored(hw.memory("brs"), _OWN, terms.joined([(br, br.width), (jumps, 1)])))
        sizes = {name: terms.unknown(name, len(getattr(core, name))) for name in ("code_size", "data_size")}
        for name, most in (("code_size", core.parameters.code_words), ("data_size", core.parameters.data_words)):
            self.run.assume(terms.apply("u<=", 1, [sizes[name].width] * 2, [sizes[name], most]))
        hw.settle(
            **sizes, run=0, modes__differentiate=int(lifted), modes__overflow=terms.unknown("overflow", 1),
            modes__strict=1 if strict else terms.unknown("strict", 1),
        )  # fmt: skip
        return self.run

    def put(self, opcode: Opcode, instruction: Term, lifted: bool, same: bool) -> Callable[[], None]:
        """Put the instruction at PC. What the last row of the instruction fetches is at the new PC, and arbitrary."""
        hw, core, code = self.hardware, self.core, self.core.microcode
        backward = self.registers()["DIR"]
        assert backward.operator == "known"
        executed = TABLE.inverse(opcode) if backward.parameter else opcode
        self._executed = executed
        self._rows = row_program(executed, self.w, lifted, lifted and same, core.parameters.microarchitecture)
        self._ends = len(self._rows) - 1
        pc, bits = self.registers()["PC"], (core.parameters.code_words - 1).bit_length()
        if distinguishes(opcode, self.w, lifted):
            one = terms.equal(terms.piece_of(instruction, 40, 8), terms.piece_of(instruction, 32, 8), 8)
            self.run.assume(one if same else terms.negation(one))
        self._next: dict[str, Word] = {}
        #: (memory, cycle, address) of reads of other threads -> their number
        others: dict[tuple[str, int, Word], int] = {}

        def fetch(at: Word) -> Word:
            row = self._row_in(_CODE)
            if row == -1:
                self.run.oblige("the address", terms.equal(at, terms.piece_of(pc, 0, bits), bits))
                return instruction
            if row == len(self._rows) - 1:
                self._next["PC"] = terms.piece_of(at, 0, bits)
            return terms.unknown(f"code{self.units.now}", INSTRUCTION)

        def dispatch(at: Word) -> Word:
            row = self._row_in(_DISPATCH)
            if row == -1:
                expected = dispatch_address(opcode.code, bool(backward.parameter), lifted, same)
                other = dispatch_address(opcode.code, bool(backward.parameter), lifted, not same)
                agreeing = {n for n in (expected, other) if code.dispatch[n] == code.dispatch[expected]}
                right = (terms.equal(at, n, 11) for n in agreeing)
                self.run.oblige("the microprogram", reduce(terms.disjunction, right))
                return code.dispatch[expected]
            if row == len(self._rows) - 1:
                self._next["DIR"] = terms.piece_of(at, 8, 1)
            return terms.unknown(f"entry{self.units.now}", ROW_ENTRY.size)

        of_thread = 8 + _REGION_BITS[self.slots]

        def read(memory: str, at: Word) -> Word:
            # Operands are read in one cycle, and the register of the next address in another.
            if terms.piece_of(at, of_thread, 3) != _OWN:
                place = others.setdefault((memory, self.units.now, at), len(others))
                return terms.unknown(f"read{place}", self.w.width)
            number = at - (_OWN << of_thread) - THREAD_CONSTANTS if isinstance(at, int) and memory == "file" else -1
            return code.constants[number] if 0 <= number < len(code.constants) else hw.read(memory, at)

        def put() -> None:
            hw.answer("code", fetch)
            hw.answer("dispatch", dispatch)
            for memory in {"file", "second_file"} & {*self._memories}:
                hw.answer(memory, partial(read, memory))

        put()
        return put

    def _row_in(self, cycle: int) -> int | None:
        """The row of the instruction that is in this cycle of its turn: −1 for the row that fetches it, None for no row."""
        if self._begun is None:
            own = self.hardware.peek(self.core.turn[cycle]) == _OWN and not self.hardware.peek(self.core.idle)
            return -1 if own else None
        row, rest = divmod(self.units.now - self._begun - cycle, self.core.threads)
        return row if not rest and -1 <= row < len(self._rows) else None

    def step(self, opcode: Opcode) -> int:
        """Execute one instruction, and return its turns. Raises Stuck."""
        hw, core, own = self.hardware, self.core, 1 << _OWN
        hw.settle(run=own)
        while self._begun is None or self.units.now < self._begun + core.threads * self._last() + _DONE:
            if hw.peek(core.begins) == own:
                if self._begun is not None:
                    raise Stuck("another instruction begins")
                self._begun = self.units.now
                hw.settle(run=0)
            if hw.peek(core.traps):
                if not self.run.trapped:
                    raise Stuck("traps in all states")
                self._trapped(hw.peek(core.trap))
            self.units.advance()
            hw.settle()
            if self._begun is None and self.units.now > 4 * core.threads:
                raise Stuck("the instruction does not begin")
        if hw.peek(core.traps) and self.run.trapped:
            self._trapped(hw.peek(core.trap))
        run, after = self.run, self.registers()
        br = terms.negation(terms.equal(after["BR"], 0, self.w.width))
        run.oblige("the mark of BR", terms.equal(terms.piece_of(hw.read("brs", _OWN), self.w.width, 1), br, 1))
        if not (run.trapped or self._executed.halts):
            for name, word in self._next.items():
                here = terms.piece_of(after[name], 0, 1 if name == "DIR" else word.width)
                run.oblige(f"the fetch: {name}", terms.equal(word, here, here.width if isinstance(here, Term) else 1))
            run.oblige("the thread rests", int(not hw.peek(core.marks["mid"]) and not hw.peek(core.marks["able"])))
        return len(self._rows)

    def _last(self) -> int:
        """The last row whose writes are awaited: behind a trap one more is on its way."""
        return min(self._ends + 1, len(self._rows) - 1) if self.run.trapped else len(self._rows) - 1

    def _named(self, unit: Any, result: Word) -> Word:
        """A result of the thread by its name. What another thread computes is arbitrary."""
        if self.hardware.peek(self.core.turn[_BEGIN]) != _OWN:
            slot = "" if unit is self.core.logic else "second"
            return terms.unknown(f"{slot}other{self.units.now}", self.w.width)
        return self._name(unit, result)

    def _of_logic(self, unit: Any, result: Term) -> bool:
        return True

    # ---------------------------------------------------------------- traps

    def _before_execution(self, word: Word) -> Word:
        """Oblige the cause of a trap before execution to be the table's, in the first row."""
        if self._row_in(_EARLY) != 0:
            return word
        run, cause = self.run, TrapCause.NONE
        for where, (right, its) in TRAP_PLACES.items():
            if where == "a trap":
                break
            run.reached.append(where)
            passes = terms.equal(run.expected[where], right, 1)
            run.assume(passes if where != run.fails else terms.negation(passes))
            if where == run.fails:
                cause, run.trapped, self._ends = its, True, 0
                break
        run.oblige("a trap before execution", terms.equal(word, cause.value, len(self.core.early)))
        return cause.value

    def _fails(self, word: Word) -> Word:
        """Oblige a row to fail if and only if the table has a trap there, or the program ends."""
        row, run = self._row_in(_FAILS), self.run
        if row is None or row < 0 or (run.trapped and row > self._ends):
            return word
        wanted: Word = int(self._executed.halts and row == 0)
        if run.trapped and row == self._ends:
            wanted = 1
        elif self._rows[row].decides:
            run.reached.append("a trap")
            expected = run.expected["a trap"]
            holds = terms.equal(expected, 0, self.trap_width("a trap"))
            run.oblige(
                "the condition of a trap", terms.equal(word, terms.disjunction(wanted, terms.negation(holds)), 1)
            )
            run.assume(holds if run.fails != "a trap" else terms.negation(holds))
            if run.fails == "a trap":
                run.trapped, self._ends = True, row
                return 1
            return wanted
        run.oblige("a row that fails", terms.equal(word, wanted, 1))
        return wanted

    def _trapped(self, cause: Word) -> None:
        """Oblige the cause that is reported to be the table's."""
        run = self.run
        if run.fails == "a trap":
            run.oblige("the cause", terms.equal(cause, run.expected["a trap"], self.trap_width("a trap")))
            cause = TRAP_PLACES[run.fails].cause.value
        run.cause = cause
