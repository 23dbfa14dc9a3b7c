"""Hardware executed on symbols, and names for terms: what the proofs stand on."""

from __future__ import annotations

import z3
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from retrograd.hdl.symbolic import Symbolic
from retrograd.hdl.unfolding import Definitions


class Toy(wiring.Component):
    """Two bits that stand side by side, a choice among them, a memory, a counter."""

    def __init__(self) -> None:
        self.chosen = Signal(4)
        super().__init__(
            {"a": In(1), "b": In(1), "c": In(4), "both": Out(2), "number": In(2), "write": In(1), "word": Out(4), "count": Out(4)}
        )  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(shape=4, depth=4, init=[5, 6, 7, 8])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            self.both.eq(Cat(self.a, self.b)), read.addr.eq(self.number), self.word.eq(read.data),
            write.addr.eq(self.number), write.data.eq(self.c), write.en.eq(self.write),
        ]  # fmt: skip
        m.d.sync += self.count.eq(self.count + self.chosen)
        with m.If(self.a):
            m.d.comb += self.chosen.eq(self.c)
        with m.Else():
            m.d.comb += self.chosen.eq(3)
        return m


def toy(**given: object) -> tuple[Toy, Symbolic]:
    made = Toy()
    return made, Symbolic(made, [made.both, made.word, made.count], **given)  # type: ignore[arg-type]


def proved(truth: z3.BoolRef) -> bool:
    solver = z3.Solver()
    solver.add(z3.Not(truth))
    return bool(solver.check() == z3.unsat)


def test_inputs_side_by_side_are_kept_apart() -> None:
    made, hardware = toy()
    b = z3.BitVec("b", 1)
    hardware.settle(a=1, b=b)
    assert proved(hardware.peek(made.both) == z3.Concat(b, z3.BitVecVal(1, 1)))
    hardware.settle(a=0, b=1)
    assert hardware.peek(made.both) == 2


def test_what_is_known_stays_known() -> None:
    made, hardware = toy()
    hardware.settle(a=0, c=z3.BitVec("c", 4))
    hardware.tick()
    assert hardware.peek(made.count) == 3
    hardware.settle(a=z3.BitVec("a", 1))
    hardware.tick()
    word = hardware.peek(made.count)
    assert proved(z3.Or(word == 6, word == z3.BitVec("c", 4) + 3))
    assert not proved(word == 6)


def test_any_state_but_what_is_told() -> None:
    made, hardware = toy()
    hardware.forget([])
    assert not proved(hardware.peek(made.count) == 0)
    hardware.poke(made.count, 9)
    hardware.forget([made.count])
    assert hardware.peek(made.count) == 9


def test_addresses_that_are_not_known() -> None:
    made, hardware = toy()
    number, word = z3.BitVec("number", 2), z3.BitVec("word", 4)
    hardware.settle(number=number, c=word, write=1)
    hardware.tick()
    assert proved(hardware.peek(made.word) == z3.ZeroExt(2, number) + 5)  # as it was before the write
    hardware.settle(write=0)
    hardware.tick()
    assert proved(hardware.peek(made.word) == word)
    hardware.settle(number=2)
    hardware.tick()
    assert proved(z3.Implies(number != 2, hardware.peek(made.word) == 7))


def test_a_memory_of_which_nothing_is_known() -> None:
    asked = []

    def decide(truth: z3.BoolRef) -> bool | None:
        asked.append(truth)
        return False

    made, hardware = toy(decide=decide)
    words = hardware.unknown("words")
    hardware.settle(number=1, c=9, write=z3.BitVec("write", 1))
    hardware.tick()
    assert proved(z3.Implies(z3.BitVec("write", 1) == 0, hardware.memory("words") == words))
    words = hardware.unknown("words")
    x, y = z3.BitVecs("x y", 2)
    hardware.settle(number=x, write=1)
    hardware.tick()
    hardware.settle(number=y, write=0)
    hardware.tick()
    # x and y are not one, says `decide`: so what was there before is.
    assert hardware.peek(made.word).eq(z3.Select(words, y))
    assert len(asked) == 1


def test_hooks_and_answers() -> None:
    seen = []
    made = Toy()
    hardware = Symbolic(made, [made.count, made.word], hooks=[(made.chosen, lambda word: seen.append(word) or 1)])  # type: ignore[func-returns-value]
    hardware.answer("words", lambda at: at + 10)
    hardware.settle(a=0, number=2)
    hardware.tick()
    assert (seen, hardware.peek(made.count), hardware.peek(made.word)) == ([3], 1, 12)
    hardware = Symbolic(made, [made.count], given=[(made.chosen, lambda: 7)])
    hardware.tick()
    assert hardware.peek(made.count) == 7


# ---------------------------------------------------------------- names


def test_a_solution_counts_once_all_is_told() -> None:
    x, y = z3.BitVecs("x y", 8)
    names = Definitions()
    product = names.name(x * y)
    assert names.name(x * y).eq(product)
    total = names.name(product + x)
    # True whatever they stand for; true for what they stand for; false.
    assert names.check([product == 1, product == 2], 10) == z3.unsat
    assert names.check([total - x != x * y], 10) == z3.unsat
    found = names.check([total == 6, y == 1], 10)
    assert isinstance(found, z3.ModelRef)
    assert found[x].as_long() in (3, 131)
    assert names.check([total - x != x * y], 10, depth=0) == z3.unknown


def test_equal_words_have_one_name() -> None:
    x, y = z3.BitVecs("x y", 8)
    names = Definitions()
    names.mean(x)
    total = names.name(x + y)
    assert names.recognised(total - y).eq(x)
    assert names.recognised(total - y).eq(x)
    other = names.recognised(total * y)
    assert not other.eq(x)


def test_functions_of_equal_words_are_equal() -> None:
    x, y = z3.BitVecs("x y", 8)
    f = z3.Function("f", x.sort(), x.sort())
    names = Definitions()
    names.mean(y)
    first = names.name(f(x))
    moved = names.name(y + f(x))
    assert names.recognised(f((x + y) - y)).eq(first)
    assert names.recognised(moved - first).eq(y)
