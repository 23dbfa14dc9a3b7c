# amaranth: UnusedElaboratable=no
"""Proofs of the core `barrel`: the order of turns, and that no state of a thread reaches another thread.

turns     cycle k belongs to thread (t − k) mod n, where t is the thread of cycle 0, and t + 1 mod n follows t
threads   a word of a thread is written only in the cycle of its turn that writes it, and read only in a cycle that
          reads it; a mark of a thread changes only in a cycle of its turn

Each claim is about one cycle from any state of all registers and memories, with any inputs, while the core is not idle,
has not been idle in the cycle before, and carries out no command of the host. The claims on turns show that the
assumption on turns holds in every cycle after a reset. A register between two cycles holds what belongs to the turn of
its cycle, and is no word of a thread.

That a step is the table's is not claimed of this core: lockstep compares each retirement with the reference machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, reduce

from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import several_of
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.solving import Definitions, Obligations, ProofResult, Stuck, Undecided
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
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
            core = several_of(Parameters(self.w, code_words=8, data_words=4, core=BARREL, lanes=count))
            assert core.parameters.core == BARREL
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
