"""Hardware executed on terms, terms as the solver has them, and names for terms: what the proofs stand on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import z3
from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.solving import Definitions, RandomValues, solved, truth
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word, equal, unknown


class Toy(wiring.Component):
    """Two bits that stand side by side, a choice among them, a memory, a counter."""

    def __init__(self) -> None:
        self.chosen = Signal(4)
        self.aside = Signal(4)
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
        m.d.comb += self.aside.eq(self.count + 1)
        with m.If(self.a):
            m.d.comb += self.chosen.eq(self.c)
        with m.Else():
            m.d.comb += self.chosen.eq(3)
        return m


def toy(**more: Any) -> tuple[Toy, Symbolic]:
    made = Toy()
    return made, Symbolic(made, [made.both, made.word, made.count], **more)


def proved(claim: z3.BoolRef) -> bool:
    solver = z3.Solver()
    solver.add(z3.Not(claim))
    return bool(solver.check() == z3.unsat)


def test_inputs_side_by_side_are_kept_apart() -> None:
    made, hardware = toy()
    b = unknown("b", 1)
    hardware.settle(a=1, b=b)
    assert hardware.peek(made.both) is terms.joined([(1, 1), (b, 1)])
    hardware.settle(a=0, b=1)
    assert hardware.peek(made.both) == 2


def test_what_is_known_stays_known() -> None:
    made, hardware = toy()
    c = unknown("c", 4)
    hardware.settle(a=0, c=c)
    hardware.tick()
    assert hardware.peek(made.count) == 3
    hardware.settle(a=unknown("a", 1))
    hardware.tick()
    word = hardware.peek(made.count)
    assert proved(z3.Or(solved(word) == 6, solved(word) == solved(c) + 3))
    assert not proved(solved(word) == 6)


def test_a_signal_that_no_root_depends_on_is_computed_anew_in_each_cycle() -> None:
    made, hardware = toy()
    hardware.settle(a=0)
    for count in (0, 3, 6):
        assert hardware.peek(made.aside) == count + 1
        hardware.tick()


def test_what_was_computed_is_forgotten_with_the_words_that_it_came_from() -> None:
    made, hardware = toy()
    hardware.settle(a=0)
    before = dict(hardware.words)
    hardware.tick()
    assert hardware.peek(made.aside) == 4
    hardware.restore(before)
    assert hardware.peek(made.aside) == 1


class Places(wiring.Component):
    """Bits at a place that an input gives, and a word that is read in the cycle of its address."""

    def __init__(self) -> None:
        super().__init__(
            {"x": In(signed(4)), "at": In(3), "bits": Out(2), "signs": Out(2), "write": In(1), "word": Out(4)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = memory = Memory(shape=4, depth=8, init=range(8))
        read, write = memory.read_port(domain="comb"), memory.write_port()
        m.d.comb += [
            self.bits.eq(self.x.as_unsigned().bit_select(self.at, 2)), self.signs.eq(self.x.bit_select(self.at, 2)),
            read.addr.eq(self.at), self.word.eq(read.data), write.addr.eq(2), write.data.eq(9), write.en.eq(self.write),
        ]  # fmt: skip
        return m


def test_bits_at_an_unknown_place_and_words_of_this_cycle() -> None:
    made = Places()
    hardware = Symbolic(made, [made.bits, made.signs, made.word])
    x, at = unknown("x", 4), unknown("at", 3)
    hardware.settle(x=x, at=at, write=1)
    for place, number in product(range(8), (0b1011, 0b0110)):
        given = z3.And(solved(at) == place, solved(x) == number)
        for signal, word in (
            (made.bits, number >> place & 3), (made.signs, (number - (number >> 3 << 4)) >> place & 3),
            (made.word, place),
        ):  # fmt: skip
            assert proved(z3.Implies(given, solved(hardware.peek(signal)) == word)), (signal.name, place, number)
    (store,) = hardware.stores
    words = hardware.unknown(store)
    assert hardware.peek(made.word) is terms.selected(words, at)
    hardware.tick()
    assert proved(z3.Implies(solved(at) == 2, solved(hardware.peek(made.word)) == 9))
    hardware.put(store, words)
    assert hardware.peek(made.word) is terms.selected(words, at)


def test_copies_are_wires_up_to_a_cell_that_is_replaced() -> None:
    """x ⊕ 0, and ¬¬x as ¬(x ⊕ 1), are x; a cell with a hook is none of them."""
    even, odd, twice = Signal(2), Signal(2), Signal(2)

    class Copies(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"x": In(2)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.comb += [even.eq(self.x ^ 0), odd.eq(self.x ^ 3), twice.eq(~odd)]
            return m

    hardware = Symbolic(Copies(), [even, odd, twice])
    word = unknown("x", 2)
    hardware.settle(x=word)
    assert hardware.peek(even) is hardware.peek(twice) is word
    assert proved(solved(hardware.peek(odd)) == ~solved(word))
    hardware.replace(odd, lambda word: 1)
    hardware.settle()
    assert hardware.peek(twice) == 2


def test_any_state_but_what_is_told() -> None:
    made, hardware = toy()
    hardware.forget([])
    assert not proved(solved(hardware.peek(made.count)) == 0)
    hardware.poke(made.count, 9)
    hardware.forget([made.count])
    assert hardware.peek(made.count) == 9


def test_addresses_that_are_not_known() -> None:
    made, hardware = toy()
    number, word = unknown("number", 2), unknown("word", 4)
    hardware.settle(number=number, c=word, write=1)
    hardware.tick()
    before = terms.add(terms.extended(number, 4), 5, 4)
    assert proved(solved(hardware.peek(made.word)) == solved(before))  # as it was before the write
    hardware.settle(write=0)
    hardware.tick()
    assert proved(solved(hardware.peek(made.word)) == solved(word))
    hardware.settle(number=2)
    hardware.tick()
    assert proved(z3.Implies(solved(number) != 2, solved(hardware.peek(made.word)) == 7))


def test_a_memory_of_which_nothing_is_known() -> None:
    asked = []

    def decide(bit: Term) -> bool | None:
        asked.append(bit)
        return False

    made, hardware = toy(decide=decide)
    words = hardware.unknown("words")
    hardware.settle(number=1, c=9, write=unknown("write", 1))
    hardware.tick()
    assert proved(z3.Implies(solved(unknown("write", 1)) == 0, solved(hardware.memory("words")) == solved(words)))
    words = hardware.unknown("words")
    x, y = unknown("x", 2), unknown("y", 2)
    hardware.settle(number=x, write=1)
    hardware.tick()
    hardware.settle(number=y, write=0)
    hardware.tick()
    # x and y are not one, says `decide`: so what was there before is.
    assert hardware.peek(made.word) is terms.selected(words, y)
    assert asked == [equal(x, y, 2)]


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


# ---------------------------------------------------------------- terms

WIDTH = 5
BINARY = ["+", "-", "*", "&", "|", "^"]
RELATIONS = ["==", "!=", "u<", "u<=", "u>", "u>=", "s<", "s<=", "s>", "s>="]
#: what makes a word of two
Made = Callable[[Word, Word], Word]


@st.composite
def words(draw: st.DrawFn, depth: int = 3) -> Made:
    """Words of five bits made of two, of some that are known, and of what is not known of a function and a memory."""
    if depth == 0 or not draw(st.integers(0, 5)):
        leaf = draw(st.sampled_from([0, 1, 31, 12, "x", "y"]))
        return lambda x, y: {"x": x, "y": y}.get(str(leaf), leaf)
    first, second = draw(words(depth=depth - 1)), draw(words(depth=depth - 1))
    low = draw(st.integers(1, WIDTH - 1))
    match draw(st.integers(0, 9)):
        case 0 | 1:
            operator = draw(st.sampled_from(BINARY))
            return lambda x, y: terms.apply(operator, WIDTH, [WIDTH] * 2, [first(x, y), second(x, y)])
        case 2:
            operator = draw(st.sampled_from(["~", "-"]))
            return lambda x, y: terms.apply(operator, WIDTH, [WIDTH], [first(x, y)])
        case 3:
            bit = draw(bits(depth=depth - 1))
            return lambda x, y: terms.choice(bit(x, y), first(x, y), second(x, y), WIDTH)
        case 4:
            inner = draw(st.integers(0, low - 1))
            piece, size = draw(st.sampled_from([0, inner])), low - inner
            return lambda x, y: terms.extended(
                terms.term(terms.piece_of(terms.piece_of(first(x, y), WIDTH - low, low), piece, size), size), WIDTH
            )
        case 5:
            return lambda x, y: terms.joined([
                (terms.piece_of(first(x, y), WIDTH - low, low), low),
                (terms.piece_of(second(x, y), 0, WIDTH - low), WIDTH - low),
            ])  # fmt: skip
        case 6:
            signed = draw(st.booleans())
            return lambda x, y: terms.extended(terms.term(terms.piece_of(first(x, y), 0, low), low), WIDTH, signed)
        case 7:
            operator = draw(st.sampled_from(["<<", "u>>", "s>>"]))
            return lambda x, y: terms.apply(
                operator, WIDTH, [WIDTH, 3], [first(x, y), terms.piece_of(second(x, y), 0, 3)]
            )
        case 8:
            return lambda x, y: terms.function("f", WIDTH, [terms.term(first(x, y), WIDTH)])
        case _:
            at = terms.memory("m", 2, WIDTH)
            return lambda x, y: terms.selected(
                terms.stored(at, terms.piece_of(first(x, y), 0, 2), second(x, y)), terms.piece_of(second(x, y), 1, 2)
            )


@st.composite
def bits(draw: st.DrawFn, depth: int = 2) -> Made:
    first, second = draw(words(depth=depth)), draw(words(depth=depth))
    relation, reduction = draw(st.sampled_from(RELATIONS)), draw(st.sampled_from(["r|", "r&", "r^"]))
    match draw(st.integers(0, 4)):
        case 0:
            return lambda x, y: terms.apply(reduction, 1, [WIDTH], [first(x, y)])
        case 1 | 2 as which:
            two = terms.conjunction if which == 1 else terms.disjunction
            return lambda x, y: two(
                terms.apply(relation, 1, [WIDTH] * 2, [first(x, y), second(x, y)]),
                terms.negation(terms.apply(reduction, 1, [WIDTH], [second(x, y)])),
            )
        case _:
            return lambda x, y: terms.apply(relation, 1, [WIDTH] * 2, [first(x, y), second(x, y)])


X, Y = unknown("x", WIDTH), unknown("y", WIDTH)


@pytest.mark.parametrize("width", [1, 3, 4])
def test_reductions_of_numbers(width: int) -> None:
    for word in range(1 << width):
        bits = f"{word:0{width}b}"
        expected = {"r|": "1" in bits, "r&": "0" not in bits, "r^": bits.count("1") % 2 == 1}
        for operator, bit in expected.items():
            assert terms.apply(operator, 1, [width], [word]) == bit, (operator, bits)


@pytest.mark.long
@settings(max_examples=60)
@given(words(), bits())
def test_samples_are_what_the_solver_says(make: Made, make_bit: Made) -> None:
    """The solver is told x, y and what function and memory say where they are asked: then word and bit are the sample's."""
    word, bit = terms.term(make(X, Y), WIDTH), terms.term(make_bit(X, Y), 1)
    sample = RandomValues(1, {})
    solver = z3.Solver()
    asked = [term for term in within([word, bit]) if term.operator in ("unknown", "function", "select")]
    solver.add(*(solved(term) == sample.of(term)[0] for term in asked))
    assert solver.check() == z3.sat
    wrong = z3.Or(solved(word) != sample.of(word)[0], truth(bit) != bool(sample.of(bit)[0]))
    assert solver.check(wrong) == z3.unsat


@pytest.mark.parametrize("operator", [*BINARY, *RELATIONS, "<<", "u>>", "s>>"])
def test_an_operator_is_the_solvers(operator: str) -> None:
    """On all words of three bits."""
    width = 1 if operator in RELATIONS else 3
    term = terms.apply(operator, width, [3, 3], [unknown("x", 3), unknown("y", 3)])
    for x, y in product(range(8), repeat=2):
        told = [(z3.BitVec(name, 3), z3.BitVecVal(word, 3)) for name, word in (("x", x), ("y", y))]
        known = terms.apply(operator, width, [3, 3], [x, y])
        assert z3.simplify(z3.substitute(solved(term), *told)).as_long() == known, (x, y)


@pytest.mark.parametrize("operator", ["extended", "concatenation", "if", "~", "s<", "s<=", "s>>", "<<", "*", "-"])
@pytest.mark.parametrize("widths", [(2, 4), (3, 3), (4, 2)])
def test_known_words_of_several_widths(operator: str, widths: tuple[int, int]) -> None:
    """The result on known words is that of the solver on all words, also where operands and result have different widths."""
    x, y = (unknown(name, width) for name, width in zip("xy", widths, strict=True))
    match operator:
        case "extended":
            width, given, widths = 5, (x,), widths[:1]
            term = terms.extended(x, width, True)
        case "concatenation":
            width, given = sum(widths), (y, x)
            term, widths = terms.joined([(x, widths[0]), (y, widths[1])]), widths[::-1]
        case "~":
            width, given, widths = widths[0], (x,), widths[:1]
            term = terms.apply("~", width, list(widths), [x])
        case "if":
            bit = unknown("z", 1)
            x, y = (terms.term(terms.extended(z, 4), 4) for z in (x, y))
            width, given, widths = 4, (bit, x, y), (1, 4, 4)
            term = terms.choice(bit, x, y, 4)
        case _:
            shift = operator in ("<<", "s>>")
            given = (x, y) if shift else tuple(terms.term(terms.extended(z, 4), 4) for z in (x, y))
            widths = widths if shift else (4, 4)
            width = 1 if operator in RELATIONS else widths[0]
            term = terms.apply(operator, width, list(widths), list(given))
    for words in product(*(range(1 << width) for width in widths)):
        told = [(solved(z), z3.BitVecVal(word, w)) for z, word, w in zip(given, words, widths, strict=True)]
        found = terms.known_result(operator, width, widths, words)
        solver = z3.Solver()
        solver.add(*(a == b for a, b in told))
        assert solver.check(solved(terms.term(term, width)) != found) == z3.unsat, words


@pytest.mark.long
@settings(max_examples=300)
@given(words(), bits(), st.integers(0, 31), st.integers(0, 31))
def test_words_told_before_or_after(make: Made, make_bit: Made, x: int, y: int) -> None:
    """A term of what is not known, simplified, is for each x and y what comes out of them."""
    told = {X: terms.term(x, WIDTH), Y: terms.term(y, WIDTH)}
    plain, later = RandomValues(2, {}), RandomValues(2, told)
    for made, width in ((make, WIDTH), (make_bit, 1)):
        before, after = terms.term(made(x, y), width), terms.term(made(X, Y), width)
        assert plain.of(before) == later.of(after)
        assert plain.of(before) == plain.of(terms.substitute(after, told))


def within(found: list[Word]) -> list[Term]:
    seen: dict[Term, None] = {}
    todo = [word for word in found if isinstance(word, Term)]
    while todo:
        term = todo.pop()
        if term not in seen:
            seen[term] = None
            todo += term.terms
    return [*seen]


@pytest.mark.parametrize("width", [1, 4, 64])
def test_a_known_word_that_decides_the_result_leaves_no_operator(width: int) -> None:
    """0 and −1 beside a word that is not known: a proof is the shorter for each operator that is gone."""
    x, ones = unknown("x", width), (1 << width) - 1
    flipped = terms.apply("~", width, [width], [x])
    decided: dict[tuple[str, int], Word] = {
        ("&", 0): 0, ("&", ones): x, ("|", 0): x, ("^", 0): x, ("^", ones): flipped, ("+", 0): x,
    }  # fmt: skip
    for (operator, known), result in decided.items():
        for words in ([x, known], [known, x]):
            assert terms.apply(operator, width, [width] * 2, words) is result, (operator, words)
    assert terms.apply("-", width, [width] * 2, [x, 0]) is x
    assert terms.apply("-", width, [width] * 2, [0, x]) is not x


def test_equal_terms_are_one() -> None:
    x, y = unknown("x", 8), unknown("y", 8)
    assert terms.add(x, y, 8) is terms.add(x, y, 8)
    assert terms.add(x, y, 8) is not terms.add(y, x, 8)
    assert unknown("x", 8) is not unknown("x", 4)
    low, high = terms.part(x, 0, 3), terms.part(x, 3, 5)
    assert terms.joined([(low, 3), (high, 5)]) is x
    assert terms.part(terms.joined([(x, 8), (y, 8)]), 8, 8) is y
    assert terms.part(terms.joined([(5, 4), (x, 8)]), 0, 4) == 5
    assert equal(terms.joined([(5, 4), (x, 4)]), 6, 8) == 0
    assert isinstance(equal(terms.joined([(5, 4), (x, 4)]), 0x35, 8), Term)
    assert terms.negation(terms.negation(equal(x, y, 8))) is equal(x, y, 8)
    assert repr(terms.add(x, 1, 8)) == "+(x, 1)"


# ---------------------------------------------------------------- names


def test_a_solution_counts_once_all_is_told() -> None:
    x, y = unknown("x", 8), unknown("y", 8)
    names = Definitions()
    times = terms.apply("*", 8, [8, 8], [x, y])
    product = names.name(times)
    assert names.name(times) is product
    total = names.name(terms.add(product, x, 8))
    back = terms.negation(equal(terms.subtract(total, x, 8), times, 8))
    # True whatever they stand for; true for what they stand for; false.
    assert names.check([equal(product, 1, 8), equal(product, 2, 8)], 10) == z3.unsat
    assert names.check([back], 10) == z3.unsat
    found = names.check([equal(total, 6, 8), equal(y, 1, 8)], 10)
    assert isinstance(found, z3.ModelRef)
    assert found[solved(x)].as_long() in (3, 131)
    assert names.check([back], 10, depth=0) == z3.unknown
    assert names.check([0], 10) == z3.unsat


def test_equal_words_have_one_name() -> None:
    x, y = unknown("x", 8), unknown("y", 8)
    names = Definitions()
    names.mean(x)
    total = names.name(terms.add(x, y, 8))
    assert names.recognised(terms.subtract(total, y, 8)) is x
    assert names.recognised(terms.subtract(total, y, 8)) is x
    assert names.recognised(terms.apply("*", 8, [8, 8], [total, y])) is not x


def test_functions_of_equal_words_are_equal() -> None:
    x, y = unknown("x", 8), unknown("y", 8)

    def f(word: Word) -> Term:
        return terms.function("f", 8, [word])

    names = Definitions()
    names.mean(y)
    first = names.name(f(x))
    moved = names.name(terms.add(y, f(x), 8))
    assert names.recognised(f(terms.subtract(terms.add(x, y, 8), y, 8))) is first
    assert names.recognised(terms.subtract(moved, first, 8)) is y


def test_an_operator_that_netlists_do_not_have() -> None:
    with pytest.raises(ValueError, match=r"r\?"):
        terms.apply("r?", 8, [8], [unknown("x", 8)])
