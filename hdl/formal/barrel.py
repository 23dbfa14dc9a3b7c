# amaranth: UnusedElaboratable=no
"""Proofs of the core `barrel`: turns, threads that do not reach each other, units, host interface.

turns     cycle k belongs to thread (t − k) mod n, where t is the thread of cycle 0, and t + 1 mod n follows t
threads   a word of a thread is written only in the cycle of its turn that writes it, and read only in a cycle that
          reads it; a mark of a thread changes only in a cycle of its turn
units     a start, a stage and a result of the ring of divisions; the other units are those of other cores
bus       the claims on every host interface, and those on threads

A claim on turns or threads is about one cycle from any state of all registers and memories, with any inputs, while the core is not idle,
has not been idle in the cycle before, and carries out no command of the host. The claims on turns show that the
assumption on turns holds in every cycle after a reset. A register between two cycles holds what belongs to the turn of
its cycle, and is no word of a thread.

The other claims stand above their provers. The steps of a thread are executed in `thread_execution.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from amaranth.hdl import Value
from retrograd.hdl.bus.host_interface import LANE
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import barrel_of
from retrograd.hdl.core.ports import THREAD_READ
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus_proofs import LINES, BusProver, Fact, any_of, implies
from retrograd.hdl.formal.solving import Definitions, Obligations, ProofResult, Stuck, Undecided
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
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
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.micro_operations import BARREL
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
#: the memory that two slots have beside them
SECOND_MEMORY = {"second_file": (11, (4,))}
#: mark -> the cycles of a turn in which it changes
MARKS = {"mid": (4,), "warm": (0, 4), "dead": (11,), "stopped": (11,), "backward": (10,), "turned": (), "known": (11,)}


def memories(slots: int) -> dict[str, tuple[int, tuple[int, ...]]]:
    """MEMORIES of a core with this number of slots."""
    return MEMORIES | SECOND_MEMORY if slots > 1 else MEMORIES


class _CycleProver:
    """One cycle of a core with any number of threads in COUNTS, from any state."""

    def __init__(self, w: Format, seconds: float = 60, slots: int = 1) -> None:
        self.w, self.seconds, self.slots = w, seconds, slots
        self.memories = memories(slots)
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
            core = barrel_of(Parameters(self.w, code_words=8, data_words=4, core=BARREL, lanes=count, slots=self.slots))
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
        for name in self.memories:
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
            for name in self.memories:
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
        turn = hw.peek(core.turn[self.memories[name][0]])
        hw.tick()
        same = terms.equal(terms.selected(hw.memory(path), at), before, width)
        facts.oblige("it is its turn", terms.disjunction(same, terms.equal(turn, thread, len(core.turn[0]))))

    def _read(self, n: int, name: str, facts: Obligations) -> None:
        """With another word for a thread whose turn it is not, the state after the cycle is the same."""
        core, hw = self._begin(n, facts)
        path, at, thread = self._place(n, hw, name)
        for k in self.memories[name][1]:
            facts.assume(terms.negation(terms.equal(hw.peek(core.turn[k]), thread, len(core.turn[0]))))
        before, words = dict(hw.words), hw.memory(path)
        others = {other: hw.memory(_path(hw, other)) for other in self.memories if other != name}
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
# The ring of the divider: the division of a thread moves on by one stage in each cycle, and finds digits there.
#
#     start       |x| behind the zeros of the plan, |y|, no digits, and the marks of the division, in the first stage
#     a stage     one step of the recurrence of `unit_proofs.py`, by two digits of a quotient or by one of a root, into the
#                 next stage; all else moves on as it is
#     result      of the division that was in the first stage a cycle before, or with two slots returned there
#
# The remainder R of the recurrence is r where the last digit is 1, and r ≥ 0; it is r + |y|, or r + 2·root + 1, where
# the digit is 0, and r < 0. By induction over the stages a division has the digits of its quotient or root after as many
# rounds as its plan has. Without a start a division moves on from the last stage to the first.


class ThreadUnitProver(UnitProver):
    """The claims on the units of the core barrel. Multiplier and ROM are those of other cores."""

    def __init__(
        self, w: Format, microcode: Any = None, seconds: float = 60, core: str = BARREL, slots: int = 1
    ) -> None:
        self._slots = slots
        super().__init__(w, microcode, seconds, core)

    def _made(self, w: Format, core: str, microcode: Any) -> Any:
        p = Parameters(w, code_words=8, data_words=4, core=core, lanes=COUNTS[0], slots=self._slots)
        return barrel_of(p, microcode)

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
        stood = dict(hw.words)
        hw.settle()
        hw.tick()
        behind = hw.peek(Value.cast(unit.stages[(k + 1) % len(unit.stages)]))
        after = self._taken(unit, behind)
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
        if k == len(unit.stages) - 1 and unit.returned is not unit.stages[0]:
            facts += self._returns(unit, hw, stood, behind)
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
    def _returns(unit: Any, hw: Symbolic, stood: dict[int, Word], behind: Word) -> list[tuple[str, Word]]:
        """With two slots a division returns beside the first stage, too, and there also if another one starts."""
        size, place = unit.state.size, Value.cast(unit.returned)
        facts = [("it returns", terms.equal(hw.peek(place), behind, size))]
        hw.restore(stood)
        hw.settle(start=1, division=terms.unknown("another", len(unit.division)))
        hw.tick()
        return [*facts, ("it returns beside a start", terms.equal(hw.peek(place), behind, size))]

    @staticmethod
    def _below_zero(unit: Any, state: dict[str, Word]) -> Word:
        return terms.piece_of(state["remains"], unit.state["remains"].width - 1, 1)

    def _of_ring(self, unit: Any, which: int, shift: int) -> None:
        hw, state, plan = self._begun(unit), self._state(unit, which), unit.plans[which]
        hw.poke(Value.cast(unit.returned), self._joined(unit, state))
        # Another thread may start a division.
        hw.settle(start=terms.unknown("start", 1))
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
