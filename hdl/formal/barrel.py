# amaranth: UnusedElaboratable=no
"""Proofs of the core `barrel`: turns, threads that do not reach each other, the step of a thread, units, host interface.

turns     cycle k belongs to thread (t − k) mod n, where t is the thread of cycle 0, and t + 1 mod n follows t
threads   a word of a thread is written only in the cycle of its turn that writes it, and read only in a cycle that
          reads it; a mark of a thread changes only in a cycle of its turn
steps     an instruction of a thread is the transition of the table, while the other threads rest
units     a start, a stage and a result of the ring of divisions; the other units are those of other cores
bus       the claims on every host interface, and those on threads

A claim on turns or threads is about one cycle from any state of all registers and memories, with any inputs, while the core is not idle,
has not been idle in the cycle before, and carries out no command of the host. The claims on turns show that the
assumption on turns holds in every cycle after a reset. A register between two cycles holds what belongs to the turn of
its cycle, and is no word of a thread.

The other claims stand above their provers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from amaranth.hdl import Signal, Value
from retrograd.hdl.bus.host_interface import LANE
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import barrel_of
from retrograd.hdl.core.ports import THREAD_READ
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus_proofs import LINES, BusProver, Fact, any_of, implies
from retrograd.hdl.formal.claims import distinguishes
from retrograd.hdl.formal.core_execution import TRAP_PLACES, CoreExecution, ProofRun, UnitFunctions
from retrograd.hdl.formal.solving import Definitions, Obligations, ProofResult, Stuck, Undecided
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.formal.unit_proofs import (
    RecurrenceStep,
    Refuted,
    UnitClaim,
    UnitProver,
    magnitude,
    placed,
    same,
    unit_outputs,
)
from retrograd.hdl.microcode import ROW_ENTRY, dispatch_address
from retrograd.hdl.microword import THREAD_CONSTANTS, TrapCause
from retrograd.hdl.parameters import INSTRUCTION, Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.micro_operations import BARREL
from retrograd.isa.microarchitecture.rows import Row
from retrograd.isa.microarchitecture.schedule import row_program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: names of the parts, as the command line takes them
TURNS, THREADS = "turns", "threads"
#: numbers of threads for which claims are proved: a power of two, and the next number
COUNTS = (8, 9)
#: memory with words of each thread -> the cycle of a turn that writes it, and the cycles that read it
MEMORIES: dict[str, tuple[int, tuple[int, ...]]] = {
    "pcs": (10, (3,)), "brs": (10, (3,)), "addresses": (10, (3,)),
    **dict.fromkeys(("rds", "ras", "rbs", "imms", "legals", "outsides", "instructions"), (9, (2,))),
    "file": (11, (4, 6)), "data_m": (11, (4,)), "data_m_bar": (11, (4,)),
    "failed": (11, (9,)), "points": (11, (7,)), "elapsed": (10, (10,)),
    **dict.fromkeys(("counter0", "counter1", "counter3"), (11, (10,))), "counter2": (15, (14,)),
    "records": (11, (11,)), "brs_after": (11, (11,)),
}  # fmt: skip
#: mark -> the cycles of a turn in which it changes
MARKS = {"mid": (4,), "warm": (0, 4), "dead": (11,), "stopped": (11,), "backward": (10,), "turned": (), "known": (11,)}


class _CycleProver:
    """One cycle of a core with any number of threads in COUNTS, from any state."""

    def __init__(self, w: Format, seconds: float = 60) -> None:
        self.w, self.seconds = w, seconds
        self._made: dict[int, tuple[BarrelCore, Symbolic]] = {}
        self._drawn = 0

    def _claims(self) -> dict[str, Callable[[Obligations], None]]:
        raise NotImplementedError

    def claims(self) -> list[str]:
        """The names of all claims."""
        return [*self._claims()]

    def prove(self, name: str) -> ProofResult:
        """Prove a claim. A claim that the solver does not decide in time does not hold."""
        begun, facts = time.monotonic(), Obligations()
        self._claims()[name](facts)
        try:
            wrong = facts.refute(Definitions(), self.seconds)
        except (Undecided, Stuck) as error:
            wrong = str(error)
        return ProofResult(name, not wrong, time.monotonic() - begun, 1, wrong, facts.witnessed)

    def _of(self, count: int) -> tuple[BarrelCore, Symbolic]:
        if count not in self._made:
            core = barrel_of(Parameters(self.w, code_words=8, data_words=4, core=BARREL, lanes=count))
            outputs = [core.idle, core.halts, core.traps, core.told, core.pc, core.br, *core.counters, *core.issued]
            outputs += [*core.turn, *core.marks.values(), core.window.data, core.retirement.br_after]
            outputs += [core.retirement.d_word_after, core.retirement.cycles, core.retirement.instruction]
            self._made[count] = core, Symbolic(core, outputs)
        return self._made[count]

    def _any(self, width: int) -> Word:
        self._drawn += 1
        return terms.unknown(f"any{self._drawn}", width)

    def _begin(self, count: int, facts: Obligations) -> tuple[BarrelCore, Symbolic]:
        """Any state in which the turns stand in their order."""
        core, hw = self._of(count)
        hw.reset()
        hw.forget([])
        bits, first = len(core.turn[0]), self._any(len(core.turn[0]))
        facts.assume(terms.apply("u<", 1, [bits, bits], [first, count] if count < 1 << bits else [0, 1]))
        for k, signal in enumerate(core.turn):
            hw.poke(signal, self._before(first, k, count, bits))
        for k, signal in core.seen.items():
            hw.poke(signal, hw.peek(core.turn[k]))
        hw.poke(core.idle, 0)
        hw.poke(core._command.as_value(), 0)
        for name in MEMORIES:
            hw.unknown(_path(hw, name))
        hw.unknown("code")
        ports = {name: width for name, (_, width) in hw.cells[0].ports_i.items() if name not in ("clk", "rst")}
        hw.settle(**{name: self._any(width) for name, width in ports.items()})
        return core, hw

    @staticmethod
    def _before(first: Word, k: int, count: int, bits: int) -> Word:
        """(first − k) mod count"""
        k %= count
        less = terms.subtract(first, k, bits)
        if count == 1 << bits or not k:
            return less
        wraps = terms.apply("u<", 1, [bits, bits], [first, k])
        return terms.choice(wraps, terms.apply("+", bits, [bits, bits], [less, count]), less, bits)


def _path(hw: Symbolic, name: str) -> str:
    """The path of a memory: Amaranth adds a number to a name that is taken."""
    (found,) = (path for path in hw.stores if path.split("$")[0] == name)
    return found


class TurnsProver(_CycleProver):
    """The claims on the order of turns."""

    def _claims(self) -> dict[str, Callable[[Obligations], None]]:
        found: dict[str, Callable[[Obligations], None]] = {}
        for n in COUNTS:
            found[f"{TURNS} of {n} threads: after a reset"] = partial(self._after_reset, n)
            found[f"{TURNS} of {n} threads: the next cycle"] = partial(self._next, n)
        return found

    def _after_reset(self, n: int, facts: Obligations) -> None:
        core, hw = self._of(n)
        hw.reset()
        for k, signal in enumerate(core.turn):
            facts.oblige(f"cycle {k}", terms.equal(hw.peek(signal), -k % n, len(signal)))
        facts.oblige("no thread is in its turn", hw.peek(core.idle))

    def _next(self, n: int, facts: Obligations) -> None:
        core, hw = self._begin(n, facts)
        bits, before = len(core.turn[0]), hw.peek(core.turn[0])
        hw.tick()
        after = hw.peek(core.turn[0])
        facts.oblige("the next thread", terms.equal(before, self._before(after, 1, n, bits), bits))
        for k, signal in enumerate(core.turn):
            facts.oblige(f"cycle {k}", terms.equal(hw.peek(signal), self._before(after, k, n, bits), bits))
        for k, signal in core.seen.items():
            facts.oblige(f"the thread seen in cycle {k}", terms.equal(hw.peek(signal), hw.peek(core.turn[k]), bits))


class ThreadsProver(_CycleProver):
    """The claims on the words and marks of a thread."""

    def _claims(self) -> dict[str, Callable[[Obligations], None]]:
        found: dict[str, Callable[[Obligations], None]] = {}
        for n in COUNTS:
            head = f"{THREADS} of {n}"
            for name in MEMORIES:
                found[f"{head}: {name} written"] = partial(self._written, n, name)
                found[f"{head}: {name} read"] = partial(self._read, n, name)
            for name in MARKS:
                found[f"{head}: {name}"] = partial(self._marked, n, name)
        return found

    def _place(self, n: int, hw: Symbolic, name: str) -> tuple[str, Word, Word]:
        """The path of a memory, any address in it, and the thread of the address."""
        path = _path(hw, name)
        words = hw.memory(path)
        bits = (n - 1).bit_length()
        at = self._any(words.address)
        return path, at, terms.piece_of(at, words.address - bits, bits)

    def _written(self, n: int, name: str, facts: Obligations) -> None:
        core, hw = self._begin(n, facts)
        path, at, thread = self._place(n, hw, name)
        before, width = terms.selected(hw.memory(path), at), hw.memory(path).width
        turn = hw.peek(core.turn[MEMORIES[name][0]])
        hw.tick()
        same = terms.equal(terms.selected(hw.memory(path), at), before, width)
        facts.oblige("it is its turn", terms.disjunction(same, terms.equal(turn, thread, len(core.turn[0]))))

    def _read(self, n: int, name: str, facts: Obligations) -> None:
        """With another word for a thread whose turn it is not, the state after the cycle is the same."""
        core, hw = self._begin(n, facts)
        path, at, thread = self._place(n, hw, name)
        for k in MEMORIES[name][1]:
            facts.assume(terms.negation(terms.equal(hw.peek(core.turn[k]), thread, len(core.turn[0]))))
        before, words = dict(hw.words), hw.memory(path)
        others = {other: hw.memory(_path(hw, other)) for other in MEMORIES if other != name}
        hw.tick()
        after = dict(hw.words)
        hw.restore(before)
        for other, its in others.items():
            hw.put(_path(hw, other), its)
        hw.put(path, terms.stored(words, at, self._any(words.width)))
        hw.tick()
        for index, word in hw.words.items():
            facts.oblige(f"register {index}", terms.equal(word, after[index], hw.width(index)))

    def _marked(self, n: int, name: str, facts: Obligations) -> None:
        core, hw = self._begin(n, facts)
        before = hw.peek(core.marks[name])
        turns = [hw.peek(core.turn[k]) for k in MARKS[name]]
        able = hw.peek(core.marks["able"])
        hw.tick()
        after, bits = hw.peek(core.marks[name]), len(core.turn[0])
        for i in range(n):
            same = terms.equal(terms.piece_of(before, i, 1), terms.piece_of(after, i, 1), 1)
            own = [terms.equal(turn, i, bits) for turn in turns]
            if name == "stopped":
                # A thread that may begin no instruction has paused.
                own.append(terms.negation(terms.piece_of(able, i, 1)))
            facts.oblige(f"thread {i}", reduce(terms.disjunction, own, same))


# -----------------------------------------------------------------------------
# Steps: a thread executes one instruction on terms, from a state between two instructions, while the other threads rest.
#
#     a row that fetches → the rows of the instruction, one in each turn → the cycle behind its last write
#
# Nothing of the words of the thread is known, nor of its register numbers and constant; its opcode, D, DIR are. A
# trap is followed where the table has it: before execution in the first row, a guard's in the row that decides.
# That the row fails there if and only if the table says so, and nowhere else, is an obligation.

#: the thread that executes, and the regions of its words in the file
_OWN, _REGIONS = 5, {"registers.words": 1, "registers.cotangents": 2}
#: the same of memories of their own
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
        self._divides: tuple[int, int, Word, Word] | None = None

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
                self._divides = self.now, hw.peek(divider.division), hw.peek(divider.x), hw.peek(divider.y)
        hw.tick()
        self.now += 1
        self._asked = [asked, self._asked[0]]

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
        if self._divides is None or not isinstance(shift, int):
            return self._any(fits)
        begun, which, x, y = self._divides
        plan = unit.plans[which]
        if self.now - begun != 2 + len(unit.stages) * plan.cycles:
            return self._any(fits)
        return self._output(f"quotient{which}", unit.shifts, shift, [x] if plan.root else [x, y], fits)


class ThreadExecution(CoreExecution):
    """A thread of the core barrel of one format."""

    core: Any
    units: ThreadUnits

    def __init__(self, w: Format, microcode: Any = None, seconds: float = 60, core_name: str = BARREL) -> None:
        self.w, self.seconds = w, seconds
        self.core = core = barrel_of(
            Parameters(w, code_words=8, data_words=4, core=core_name, lanes=COUNTS[0]), microcode
        )
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
        hooks = [
            (core.logic.result, self._named),
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
        for name in MEMORIES:
            found = [path for path in self.hardware.stores if path.split("$")[0] == name]
            for path in found:
                self.hardware.unknown(path)

    # ---------------------------------------------------------------- places of the thread

    def trap_width(self, where: str) -> int:
        """The bits of the word at a place where an instruction may trap."""
        return len(self.core.early) if where == "a trap" else 1

    def address_bits(self, store: str) -> int:
        """The bits of a word's number in one of STORES."""
        return 8 if store in _REGIONS else (self.core.room - 1).bit_length()

    def word(self, store: str, number: Word) -> Word:
        """The word of this number in one of STORES."""
        bits = self.address_bits(store)
        if store in _REGIONS:
            return self.hardware.read("file", self._in_file(number, _REGIONS[store]))
        return self.hardware.read(_DATA[store], terms.joined([(number, bits), (_OWN, 3)]))

    @staticmethod
    def _in_file(number: Word, region: int) -> Word:
        return terms.joined([(number, 8), (region, 2), (_OWN, 3)])

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
        #: (cycle, address) of reads of other threads -> their number
        others: dict[tuple[int, Word], int] = {}

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

        def read(at: Word) -> Word:
            # Operands are read in one cycle, and the register of the next address in another.
            if terms.piece_of(at, 10, 3) != _OWN:
                place = others.setdefault((self.units.now, at), len(others))
                return terms.unknown(f"read{place}", self.w.width)
            number = at - (_OWN << 10) - THREAD_CONSTANTS if isinstance(at, int) else -1
            return code.constants[number] if 0 <= number < len(code.constants) else hw.read("file", at)

        def put() -> None:
            hw.answer("code", fetch)
            hw.answer("dispatch", dispatch)
            hw.answer("file", read)

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

    def _named(self, result: Word) -> Word:
        """A result of the thread by its name. What another thread computes is arbitrary."""
        if self.hardware.peek(self.core.turn[_BEGIN]) != _OWN:
            return terms.unknown(f"other{self.units.now}", self.w.width)
        return self._name(self.core.logic, result)

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


# -----------------------------------------------------------------------------
# The ring of the divider: the division of a thread moves on by one stage in each cycle, and finds digits there.
#
#     start       |x| behind the zeros of the plan, |y|, no digits, and the marks of the division, in the first stage
#     a stage     one step of the recurrence of `unit_proofs.py`, by two digits of a quotient or by one of a root, into the
#                 next stage; all else moves on as it is
#     result      of the division that was in the first stage a cycle before
#
# The remainder R of the recurrence is r where the last digit is 1, and r ≥ 0; it is r + |y|, or r + 2·root + 1, where
# the digit is 0, and r < 0. By induction over the stages a division has the digits of its quotient or root after as many
# rounds as its plan has. Without a start a division moves on from the last stage to the first.


class ThreadUnitProver(UnitProver):
    """The claims on the units of the core barrel. Multiplier and ROM are those of other cores."""

    def _made(self, w: Format, core: str, microcode: Any) -> Any:
        return barrel_of(Parameters(w, code_words=8, data_words=4, core=core, lanes=COUNTS[0]), microcode)

    def _recurrence(self, unit: Any) -> list[UnitClaim]:
        found = []
        for i, plan in enumerate(unit.plans):
            name = f"ring {i}, {'root' if plan.root else 'quotient'}"
            found.append(UnitClaim("divider", f"{name}: its start", partial(self._start, unit, i)))
            stages = range(len(unit.stages))
            found += [UnitClaim("divider", f"{name}: stage {k}", partial(self._stage, unit, i, k)) for k in stages]
            results = enumerate(unit.shifts)
            found += [
                UnitClaim("divider", f"{name}: its result >> {s}", partial(self._of_ring, unit, i, j))
                for j, s in results
            ]
        return found

    def _state(self, unit: Any, which: int) -> dict[str, Word]:
        """Any state of this division."""
        plan, words = unit.plans[which], {}
        for name, one in unit.state:
            words[str(name)] = terms.unknown(str(name), one.width)
        return words | {"root": int(plan.root), "rounded": int(plan.rounded)}

    @staticmethod
    def _joined(unit: Any, state: dict[str, Word]) -> Word:
        return terms.joined([(state[str(name)], one.width) for name, one in unit.state])

    @staticmethod
    def _taken(unit: Any, word: Word) -> dict[str, Word]:
        return {str(name): terms.piece_of(word, one.offset, one.width) for name, one in unit.state}

    def _begun(self, unit: Any) -> Symbolic:
        """The ring in any state, in a cycle without a start."""
        hw, width = Symbolic(unit, unit_outputs(unit)), self.w.width
        hw.forget([])
        hw.settle(start=0, x=terms.unknown("x1", width), y=terms.unknown("y1", width), division=0)
        return hw

    def _digits_of(self, unit: Any, which: int, signs: Word) -> list[Word]:
        """The digits, the last one first: each is the opposite of a sign; a root has every second one."""
        step = 2 if unit.plans[which].root else 1
        return [terms.negation(terms.piece_of(signs, k, 1)) for k in range(0, unit.state["signs"].width, step)]

    def _number(self, unit: Any, which: int, signs: Word) -> tuple[Word, int]:
        """(the digits as a number, its bits)."""
        found = self._digits_of(unit, which, signs)
        return terms.joined([(digit, 1) for digit in found]), len(found)

    def _remainder(self, unit: Any, which: int, state: dict[str, Word], size: int) -> Word:
        """R, the remainder of the recurrence."""
        r = terms.extended(state["remains"], size, True)
        if unit.plans[which].root:
            found, _ = self._number(unit, which, state["signs"])
            less = terms.add(placed(found, 1, size, signed=False), 1, size)
        else:
            less = placed(state["divisor"], 0, size, signed=False)
        return terms.choice(terms.piece_of(state["signs"], 0, 1), terms.add(r, less, size), r, size)

    def _start(self, unit: Any, which: int) -> None:
        hw, width, plan = self._begun(unit), self.w.width, unit.plans[which]
        x, y = terms.unknown("x", width), terms.unknown("y", width)
        hw.settle(start=1, division=which, x=x, y=y)
        hw.tick()
        self._digits(unit, which)
        bits = {str(name): one.width for name, one in unit.state}
        if self._most(unit, which) >= 1 << min(unit.quotient_bits, bits["signs"]) - 1:
            raise Refuted("the digits have no room")
        sign, other = (terms.piece_of(word, width - 1, 1) for word in (x, y))
        moved = [(0, bits["down"] - width - plan.zeros), (magnitude(x, width), width), (0, plan.zeros)]
        expected = {
            "divisor": 0 if plan.root else placed(magnitude(y, width), 0, bits["divisor"], signed=False),
            "remains": 0, "signs": (1 << bits["signs"]) - 1, "root": int(plan.root), "rounded": int(plan.rounded),
            "negative": 0 if plan.root else terms.apply("^", 1, [1, 1], [sign, other]),
            "void": sign if plan.root else terms.equal(y, 0, width),
            "down": terms.joined([piece for piece in moved if piece[1]]),
        }  # fmt: skip
        after = self._taken(unit, hw.peek(Value.cast(unit.stages[0])))
        # A root of a negative number is void, so its digits do not matter.
        given = [terms.negation(sign)] if plan.root else []
        self._show([(name, terms.equal(after[name], word, bits[name])) for name, word in expected.items()], given)

    def _stage(self, unit: Any, which: int, k: int) -> None:
        hw, plan, before = self._begun(unit), unit.plans[which], self._state(unit, which)
        bits = {str(name): one.width for name, one in unit.state}
        if plan.root:
            before["divisor"] = 0
        hw.poke(Value.cast(unit.stages[k]), self._joined(unit, before))
        hw.settle()
        hw.tick()
        after = self._taken(unit, hw.peek(Value.cast(unit.stages[(k + 1) % len(unit.stages)])))
        held = ("divisor", "root", "rounded", "negative", "void")
        facts = [(f"{name} moves on", terms.equal(after[name], before[name], bits[name])) for name in held]
        top = bits["down"]
        facts += [
            ("the digits", same(after["signs"], 2, before["signs"], 0, bits["signs"] - 2)),
            ("the rest of the dividend", same(after["down"], 2, before["down"], 0, top - 2)),
            ("the sign", terms.equal(terms.piece_of(after["signs"], 0, 1), self._below_zero(unit, after), 1)),
        ]
        # The first remainder is 0, before any digit, and has the sign of none.
        last = terms.piece_of(before["signs"], 0, 1)
        begins = terms.equal(before["signs"], (1 << bits["signs"]) - 1, bits["signs"])
        begins = terms.conjunction(begins, terms.equal(before["remains"], 0, bits["remains"]))
        n = 1 if plan.root else 2
        size = max(bits["signs"], bits["remains"]) + 8
        step = RecurrenceStep(plan.root, n, size, before["divisor"])
        number, _ = self._number(unit, which, before["signs"])
        found, dividend = step.wide(number), terms.piece_of(before["down"], top - 2, 2)
        remains = terms.choice(begins, 0, self._remainder(unit, which, before, size), size)
        most = terms.apply("u<=", 1, [size] * 2, [found, self._most(unit, which) >> n])
        signed = terms.disjunction(begins, terms.equal(last, self._below_zero(unit, before), 1))
        facts += step.facts(
            remains,
            dividend,
            found,
            self._digits_of(unit, which, after["signs"])[:n],
            self._remainder(unit, which, after, size),
        )
        given = [step.in_bounds(remains, found), most, signed]
        if not plan.root:
            given.append(self._magnitude(step, before))
        self._show(facts, given)

    @staticmethod
    def _below_zero(unit: Any, state: dict[str, Word]) -> Word:
        return terms.piece_of(state["remains"], unit.state["remains"].width - 1, 1)

    def _of_ring(self, unit: Any, which: int, shift: int) -> None:
        hw, state, plan = self._begun(unit), self._state(unit, which), unit.plans[which]
        hw.poke(Value.cast(unit.stages[0]), self._joined(unit, state))
        hw.settle()
        hw.tick()
        hw.settle(shift=shift)
        found = [hw.peek(output) for output in unit_outputs(unit)]
        size = unit.state["remains"].width + 2
        exact = terms.equal(self._remainder(unit, which, state, size), 0, size)
        digits, bits = self._number(unit, which, state["signs"])
        negative = 0 if plan.root else state["negative"]
        result, fits = self._by_digits(unit, which, shift, digits, negative, exact, state["void"])
        facts = [("the result", terms.equal(found[0], result, self.w.width))]
        facts += [("whether it fits", terms.equal(flag, fits, 1)) for flag in found[1:]]
        # The digits are below the greatest quotient, and the remainder is within its bounds.
        step = RecurrenceStep(plan.root, 1, max(size, bits) + 2, state["divisor"])
        remains = self._remainder(unit, which, state, step.size)
        given = [
            terms.apply("u<=", 1, [step.size] * 2, [step.wide(digits), self._most(unit, which)]),
            terms.disjunction(state["void"], step.in_bounds(remains, step.wide(digits))),
            terms.equal(terms.piece_of(state["signs"], 0, 1), self._below_zero(unit, state), 1),
        ]
        if plan.root:
            # A root is never negative: its start sets the mark to 0.
            given.append(terms.negation(state["negative"]))
        else:
            given.append(self._magnitude(step, state))
        self._show(facts, given)

    def _magnitude(self, step: RecurrenceStep, state: dict[str, Word]) -> Word:
        """|y| ≤ 2^(W − 1)."""
        return terms.apply("u<=", 1, [step.size] * 2, [step.wide(state["divisor"]), 1 << self.w.width - 1])


# -----------------------------------------------------------------------------
# The host interface of the core: the claims of every interface, and three on threads.
#
#     thread        a write to LANE chooses the thread that is seen, and whether writes and commands go to all; no other
#                   transfer changes either; the number is that of a thread
#     commands      a command to run or to step starts the threads that it goes to, and no other
#     all threads   a write or command for all threads reaches thread 0, 1, … in as many cycles, and then ends; one for a
#                   single thread reaches this thread, in one cycle

_ALL = LANE["all"].offset
_INDEX = LANE["index"].width
#: the commands that start a thread
_STARTS = {name: HostRegister.CONTROL.field(name).mask for name in ("run", "step")}


class ThreadBusProver(BusProver):
    """The claims on the host interface of a core with eight threads."""

    part, core, lanes = "host interface of threads", BARREL, COUNTS[0]
    cycles, late, held = THREAD_READ + 2, THREAD_READ, 1

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        more = {"thread": self._lane, "commands": self._commands, "all threads": self._each}
        return super()._claims() | more

    def _begin(self) -> None:
        """As for other cores. No transfer waits, and no write for all threads goes on: words of all threads are not being set to zero."""
        super()._begin()
        hw, part = self.hardware, self.interface
        hw.poke(part.thread, 0)
        hw.poke(part.waited, 0)
        # What a thread may still begin depends on the core and on the command to run, and is no answer to a transfer.
        hw.answer("limits", lambda at: terms.unknown(f"limit@{self._moment}", 64))
        every = terms.conjunction(terms.unknown("every", 1), terms.negation(hw.peek(part.zeroing)))
        hw.poke(part.lane.as_value(), terms.joined([(terms.unknown("index", _ALL), _ALL), (every, 1)]))

    def _chosen(self) -> tuple[Word, Word]:
        """The thread that is seen, and whether writes and commands go to all."""
        lane = self.hardware.peek(self.outputs["lane"])
        return terms.piece_of(lane, 0, _INDEX), terms.piece_of(lane, _ALL, 1)

    def _exists(self) -> Word:
        return terms.apply("u<", 1, [_INDEX, _INDEX], [self._chosen()[0], self.lanes])

    def _lane(self) -> list[Fact]:
        self._begin()
        self.hardware.settle(**self._inputs({}), bus__cyc=0)
        before, existed = self._chosen(), self._exists()
        self._moment = 0
        we, adr, dat, sel = self._any_transfer()
        found = self._transfer(we, adr, dat, sel)
        after = self._chosen()
        written = reduce(terms.conjunction, (found.acked, we, terms.equal(adr, HostRegister.LANE.value * 2, 30)))
        kept = terms.negation(written)
        # Too large a number means the last thread.
        asked = terms.piece_of(dat, 0, 8)
        large = terms.apply("u<", 1, [8, 8], [self.lanes - 1, asked])
        index = terms.choice(large, self.lanes - 1, asked, 8)
        given = terms.piece_of(index, 0, _INDEX), terms.piece_of(dat, 31, 1)
        facts = [Fact("it exists", self._exists(), existed)]
        for name, width, old, new, word in zip(("the thread", "all"), (_INDEX, 1), before, after, given, strict=True):
            facts.append(Fact(f"{name} is chosen", terms.equal(new, word, width), written))
            facts.append(Fact(f"{name} is kept", terms.equal(new, old, width), kept))
        return facts

    def _commands(self) -> list[Fact]:
        """To an idle core whose threads neither begin, nor halt, nor trap meanwhile. With STEPS = 0 a command to run starts none."""
        facts = []
        for name, command in _STARTS.items():
            self._begin()
            still: dict[str, Word] = {"idle": 1, "begins": 0, "halts": 0, "traps": 0}
            self.hardware.settle(**self._inputs(still), bus__cyc=0)
            stood, (seen, every) = terms.conjunction(self._stands(self._outputs()), self._exists()), self._chosen()
            self._moment = 0
            found = self._transfer(1, HostRegister.CONTROL.value * 2, command, **still)
            run = self.hardware.peek(self.outputs["run"])
            premise = terms.conjunction(stood, found.acked)
            started = terms.conjunction(premise, terms.negation(self._stands({"run": run})))
            for i in range(self.lanes):
                meant = terms.disjunction(every, terms.equal(seen, i, _INDEX))
                holds = terms.equal(terms.piece_of(run, i, 1), meant, 1)
                facts.append(Fact(f"{name} starts thread {i}", holds, premise if name == "step" else started))
        return facts

    def _each(self) -> list[Fact]:
        """From the cycle in which a write acts, on an idle core, with anything on the bus until the last thread is written."""
        self._begin()
        hw, part = self.hardware, self.interface
        accepted = part.accepted.as_value()
        still = terms.negation(hw.peek(part.zeroing))
        hw.poke(accepted, terms.joined([(1, 1), (terms.unknown("write", len(accepted) - 1), len(accepted) - 1)]))
        strobes = ("set_pc", "set_br", "set_direction", "turn", "forget", "clear")
        words = ("window.space", "window.address", "window.written", "value")
        facts: list[Fact] = []
        first: dict[str, Word] = {}
        for k in range(self.lanes + 1):
            lines = {f"bus__{name}": terms.unknown(f"{name}{k}", width) for name, width in LINES.items()}
            hw.settle(**self._inputs({"idle": 1, "begins": 0}), **(lines if k < self.lanes - 1 else {"bus__cyc": 0}))
            now = self._outputs()
            seen, every = self._chosen()
            acts = any_of(now[name] for name in ("writes", *strobes))
            if not k:
                known = implies(any_of(now[name] for name in strobes), hw.peek(part.spreads))
                acts = reduce(terms.conjunction, (acts, still, known))
                first = now | {"acts": acts, "every": every, "cyc": lines["bus__cyc"]}
                one = terms.conjunction(first["acts"], terms.negation(every))
                facts.append(Fact("one thread", terms.equal(now["selected"], terms.piece_of(seen, 0, 3), 3), one))
            all_ = terms.conjunction(first["acts"], first["every"])
            if k < self.lanes:
                facts.append(Fact(f"thread {k}", terms.equal(now["selected"], k, 3), all_))
                held = [("writes", 1), *((name, 1) for name in strobes)]
                held += [(name, len(self.outputs[name])) for name in words]
                same_ = [terms.equal(now[name], first[name], width) for name, width in held]
                facts.append(Fact(f"the write to thread {k}", reduce(terms.conjunction, same_), all_))
            else:
                facts.append(Fact("it ends", terms.negation(acts), all_))
            if k == 1:
                one = terms.conjunction(first["acts"], terms.negation(first["every"]))
                facts.append(Fact("it goes to no other", any_of([terms.negation(acts), first["cyc"]]), one))
            hw.tick()
        return facts
