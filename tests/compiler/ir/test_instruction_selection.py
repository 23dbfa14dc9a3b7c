"""Trees as instructions: what is selected computes the tree's word, leaves nothing behind, and changes its target only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.derivatives.accumulators import LinearUpdate, cotangents, tangents
from retrograd.compiler.ir.instruction_selection import Location, MemoryWord, NoInstruction, updates
from retrograd.compiler.ir.statements import Block, Const, Delocal, Kind, Local, Module, Node, Op, Region, Var
from retrograd.compiler.ir.traversal import walk
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import BAR, Opcode, bar
from retrograd.isa.expr import Expr, div_round, evaluate, inputs, look_up, mul_round, place, select, sqrt_round
from retrograd.isa.functions import lognum_to_fixed
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.semantics import Fault

FORMATS = (Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4))
REGISTERS = ("d", "a", "b")
MOVING = [o for o in TABLE if any(isinstance(s, LinearUpdate) for s in cotangents(o, FORMATS[0]).steps)]
#: what is wanted: (place ⊕= tree), …
Wanted = Sequence[tuple[str, str, Expr]]


def ported(body: Block, places: Mapping[str, Location], w: Format) -> tuple[Module, dict[str, int]]:
    """A module that runs the block on words of its memory, and where each place's word lies."""
    variables = {p: x for p, x in places.items() if isinstance(x, Var)}
    where = {p: i for i, p in enumerate(variables)}
    start: list[Node] = []
    end: list[Node] = []
    for p, x in variables.items():
        exchange = Op(TABLE["exch"], x, Const(where[p]))
        start += [Local(x), exchange]
        end = [exchange, Delocal(x), *end]
    for p, x in places.items():
        if isinstance(x, MemoryWord):
            assert isinstance(x.a, Const)
            where[p] = x.a.word + x.imm
    return Module((*start, *body, *end), {}, memory=len(places) + 1, format=w), where


def places_for(wanted: Wanted, w: Format, imm: int) -> dict[str, Location]:
    """A variable for each word, a word of memory for that of memory."""
    names = {n for where, _, tree in wanted for n in (where, *inputs(tree))}
    places: dict[str, Location] = {p: Var(p, Kind.FIXED) for p in sorted(names) if not p.startswith("m")}
    for p in names - {*places}:
        places[p] = MemoryWord(Const(len(places)), 1, Region("memory", 1, len(places) + 1))
    return places | {"imm": Const(w.wrap(imm))}


def expected(wanted: Wanted, w: Format, words: Mapping[str, int]) -> dict[str, int]:
    after = dict(words)
    for where, operator, tree in wanted:
        combined = UPDATE_OPERATORS[operator].combine(w, place(where), tree)
        after[where] = evaluate(combined, w, {**words, where: after[where]})
    return after


class Selected:
    """The instructions for what is wanted, to be run by the interpreter of the IR and on the machine."""

    def __init__(self, wanted: Wanted, w: Format, interpreter: ModuleType) -> None:
        self.wanted, self.w = wanted, w
        self.interpret = interpreter.interpret
        self.places = places_for(wanted, w, 3)
        targets: list[tuple[Location, str, Expr]] = [(self.places[p], o, tree) for p, o, tree in wanted]
        self.module, self.where = ported(updates(targets, self.places, w), self.places, w)
        self.machine = Machine(emit(self.module).program)

    def check(self, words: Mapping[str, int], emitted: bool) -> bool:
        """All words afterwards are as the trees say; False where a guard trapped."""
        memory = [0] * self.module.memory
        for p, i in self.where.items():
            memory[i] = words[p]
        after = expected(self.wanted, self.w, {**words, "imm": 3})
        then = list(memory)
        for p, i in self.where.items():
            then[i] = after[p]
        try:
            # Variables that are left, or not zero when they are freed, are found by the interpreter.
            run = self.interpret(self.module, memory)
        except Fault:
            if emitted:
                with pytest.raises(Trap):
                    self.run(memory)
            return False
        assert run.memory[: len(memory)] == then, words
        assert self.interpret(~self.module, run.memory[: len(memory)]).memory[: len(memory)] == memory
        if emitted:
            assert self.run(memory) == then
        return True

    def run(self, memory: list[int]) -> list[int]:
        machine = Machine(self.machine.program)
        machine.load(0, memory)
        machine.run()
        assert not any(machine.registers)
        return machine.memory[: len(memory)]


def random_words(rng: random.Random, names: Sequence[str], w: Format) -> dict[str, int]:
    """Numbers of a few places, most of them; shadows not large."""
    out: dict[str, int] = {}
    for name in names:
        length = rng.randint(1, w.frac + 1) if name.endswith(BAR) else rng.randint(0, w.width)
        out[name] = w.wrap(rng.choice((1, 1, -1)) * rng.getrandbits(length))
    return out


def gains(opcode: Opcode, w: Format) -> list[LinearUpdate]:
    return [s for table in (cotangents, tangents) for s in table(opcode, w).steps if isinstance(s, LinearUpdate)]


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("opcode", MOVING, ids=lambda o: o.name)
def test_every_gain_has_instructions(opcode: Opcode, w: Format, interpreter: ModuleType) -> None:
    check_gains(opcode, w, interpreter, 10)


@pytest.mark.long
@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("opcode", MOVING, ids=lambda o: o.name)
def test_every_gain_on_more_words(opcode: Opcode, w: Format, interpreter: ModuleType) -> None:
    check_gains(opcode, w, interpreter, 60)


def check_gains(opcode: Opcode, w: Format, interpreter: ModuleType, count: int) -> None:
    rng = random.Random(opcode.code)
    for gain in gains(opcode, w):
        selected = Selected([(bar(gain.place), gain.operator, gain.value)], w, interpreter)
        ran = sum(selected.check(random_words(rng, list(selected.where), w), i < 2) for i in range(count))
        assert ran >= count // 5, "it traps nearly always"


@pytest.mark.parametrize("opcode", [o for o in MOVING if len(gains(o, FORMATS[0])) > 2], ids=lambda o: o.name)
def test_gains_of_one_instruction_together(opcode: Opcode, interpreter: ModuleType) -> None:
    """What their trees have in common is computed once, and is the same."""
    rng = random.Random(opcode.code)
    w = FORMATS[0]
    found = [s for s in cotangents(opcode, w).steps if isinstance(s, LinearUpdate)]
    selected = Selected([(bar(s.place), s.operator, s.value) for s in found], w, interpreter)
    ran = sum(selected.check(random_words(rng, list(selected.where), w), False) for _ in range(20))
    assert ran >= 5


def operations(block: Block) -> Counter[str]:
    return Counter(node.opcode.name for node in walk(block) if isinstance(node, Op))


def test_what_is_common_is_computed_once() -> None:
    w = FORMATS[0]
    a, b, c = place("a"), place("b"), place(bar("d"))
    root = sqrt_round(mul_round(a, b, 32), 32)
    x, y = Var("x"), Var("y")
    places: dict[str, Location] = {"a": Var("a"), "b": Var("b"), bar("d"): Var("c")}
    block = updates([(x, "sub", mul_round(c, root, 32)), (y, "add", div_round(c, root, 32))], places, w)
    assert operations(block) == {"fmul.add": 1, "fsqrt.add": 1, "fmul.sub": 1, "fdiv.add": 1}


def test_a_word_of_memory_is_changed_where_it_lies() -> None:
    w, x = FORMATS[0], Var("x")
    region = Region("r", 4, 8)
    block = updates([(MemoryWord(x, 5, region), "sub", place("c"))], {"c": Var("c")}, w)
    assert [type(node) for node in block] == [Local, Op, Op, Op, Delocal]
    first, middle, last = block[1:4]
    assert isinstance(middle, Op)
    assert first == last
    assert (first.opcode.name, first.a, first.imm, first.region) == ("exch", x, 5, region)  # type: ignore[union-attr]
    # The sum is one that traps where it overflows.
    assert middle.opcode.name == "fmov.sub"


def test_only_one_side_of_a_choice_is_computed(interpreter: ModuleType) -> None:
    """x̄ += a < 0 ? 1/b : c   with b = 0 where a ≥ 0."""
    w = FORMATS[0]
    a, b, c = place("a"), place("b"), place("c")
    selected = Selected([("x", "add", select(a.lt(0), div_round(c, b, 32), c))], w, interpreter)
    one = w.from_real(1)
    assert selected.check({"a": one, "b": 0, "c": one, "x": one}, True)
    assert not selected.check({"a": w.wrap(-one), "b": 0, "c": one, "x": one}, True)
    assert selected.check({"a": w.wrap(-one), "b": one, "c": one, "x": one}, True)


@pytest.mark.parametrize("w", [Format(8, 4), Format(8, 6), Format(8, 7), Format(64, 32), Format(64, 62)], ids=str)
def test_a_quotient_of_other_binary_places_is_one_instruction(w: Format, interpreter: ModuleType) -> None:
    """c · 2^(F−1) / r, the slope of a root r, is c · 2^F / 2r where 2r is a word, and has a value where it is not."""
    tree = div_round(place("c"), place("r"), w.frac - 1)
    places: dict[str, Location] = {"c": Var("c"), "r": Var("r"), "x": Var("x")}
    (op,) = updates([(places["x"], "sub", tree)], places, w)
    assert isinstance(op, Op)
    assert (op.opcode.name, op.imm) == ("fdivp.sub", w.frac - 1)
    twice = div_round(place("c"), place("r") + place("r"), w.frac)
    rng = random.Random(w.frac)
    few = [(c, r) for c in range(256) for r in (1, 2, 3, 63, 64, 65, 127)]
    pairs = few if w.width == 8 else [(rng.getrandbits(64), rng.getrandbits(62) + 1) for _ in range(500)]
    for c, r in pairs:
        value = (w.signed(c) << w.frac) // r + 1 >> 1
        found = evaluate(op.opcode.entry.value(w), w, {"a": c, "b": r, "imm": op.imm})  # type: ignore[union-attr]
        assert found == w.wrap(value)
        if 2 * r < w.sign:
            assert found == evaluate(twice, w, {"c": c, "r": r})
    selected = Selected([("x", "sub", tree)], w, interpreter)
    assert selected.check({"c": 3, "r": w.sign - 1, "x": 0}, True)


def test_a_sum_that_overflows_traps_in_memory_too(interpreter: ModuleType) -> None:
    w = FORMATS[2]
    for target in ("x", "m"):
        selected = Selected([(target, "add", place("c"))], w, interpreter)
        assert selected.check({target: 5, "c": 7}, True)
        assert not selected.check({target: w.sign - 1, "c": 1}, True)


# ---------------------------------------------------------------- trees of every shape

_leaves = st.sampled_from([place("a"), place("b"), place("c"), mul_round(place("a"), place("b"), 8)])
_conditions = st.builds(
    lambda kind, x, y: getattr(x, kind)(y), st.sampled_from(("lt", "ge", "ltu", "geu", "eq", "ne")), _leaves, _leaves
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda x, y: x + y, inner, inner),
        st.builds(lambda x, y: x - y, inner, inner),
        st.builds(lambda x: -x, inner),
        st.builds(lambda x, y: mul_round(x, y, 8), inner, inner),
        st.builds(div_round, inner, inner, st.integers(7, 8)),
        st.builds(lambda x: sqrt_round(x, 8), inner),
        st.builds(lambda x, n: x.sar(n), inner, st.integers(1, 4)),
        st.builds(select, _conditions, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=50)
@given(_trees, st.sampled_from(("add", "sub")), st.sampled_from(("x", "m")), st.randoms(use_true_random=False))
def test_trees_of_every_shape(
    interpreter: ModuleType, tree: Expr, operator: str, target: str, rng: random.Random
) -> None:
    selected = Selected([(target, operator, tree)], FORMATS[2], interpreter)
    for _ in range(4):
        words = {p: rng.randint(-600, 600) & 0xFFFF for p in selected.where}
        selected.check(words, False)


def test_lognums_are_combined_by_their_own_instructions(interpreter: ModuleType) -> None:
    """x̄ += c · real(a ÷ (b ×₂ a)): the operands of the conversion are lognums, made by multiplying."""
    for w in FORMATS:
        times, over = UPDATE_OPERATORS["mul"].combine, UPDATE_OPERATORS["div"].combine
        share = over(w, place("a"), times(w, place("b"), place("a")))
        tree = mul_round(place("c"), lognum_to_fixed(share, w)[0], w.frac)
        selected = Selected([("x", "add", tree)], w, interpreter)
        rng = random.Random(3)
        ran = 0
        for i in range(20):
            signs = {p: rng.choice((0, w.sign)) for p in "ab"}
            words = {p: (rng.randint(-1 << w.frac, 1 << w.frac) & (w.sign - 1)) | signs[p] for p in "ab"}
            ran += selected.check(words | {p: rng.getrandbits(w.frac) for p in "cx"}, i < 3)
        assert ran >= 10


# ---------------------------------------------------------------- what no instruction computes


@pytest.mark.parametrize(
    "tree",
    [
        look_up(place("a"), (1, 2, 3, 4)),
        mul_round(place("a"), place("b"), 7),
        div_round(place("a"), place("b"), 63),
        sqrt_round(place("a"), 5),
        place("c") + look_up(place("a"), (1, 2)),
        select(place("a").lt(0), place("b"), look_up(place("c"), (1, 2))),
        mul_round(look_up(place("a"), (1, 2)), place("b"), 32),
    ],
    ids=str,
)
def test_a_tree_that_nothing_computes_is_refused(tree: Expr) -> None:
    places: dict[str, Location] = {p: Var(p) for p in "abc"}
    with pytest.raises(NoInstruction, match="no instruction computes"):
        updates([(Var("x"), "add", tree)], places, FORMATS[0])


# ---------------------------------------------------------------- control: the check can fail


def test_a_wrong_instruction_is_caught(interpreter: ModuleType) -> None:
    w = FORMATS[0]
    one = w.from_real(1)
    selected = Selected([("x", "add", mul_round(place("a"), place("c"), 32))], w, interpreter)
    words = {"a": 3 * one, "c": one, "x": one}
    assert selected.check(words, False)
    selected.wanted = [("x", "add", mul_round(place("a"), place("a"), 32))]
    with pytest.raises(AssertionError):
        selected.check(words, False)
