"""The passes that know what memory and indices are: eliminate_checks, replace_arrays_by_scalars, extend_live_ranges, reduce_induction_variables, erased arrays.

Each on small examples with the IR that is expected, and on random programs: memory ends as it ended without, forward and
backward.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.backend.memory_operands import promote_to_registers, select_operands, use_memory_operands
from retrograd.compiler.ir.instruction_selection import facts
from retrograd.compiler.ir.ranges import MIRRORED, AffineValue, Symbols
from retrograd.compiler.ir.statements import (
    Block,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Var,
    Within,
    invert,
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.compiler.ir.traversal import bodies, map_blocks, map_bodies, walk
from retrograd.compiler.ir.value_numbering import StructuralKeys
from retrograd.compiler.passes.dead_code import erase_routines
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import rename_locals
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.semantics import Fault

w = Format(64, 32)
Pass = Callable[[Module], Module]


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def module(*entry: Node, procedures: tuple[Procedure, ...] = (), **more: object) -> Module:
    more = {"regions": REGIONS, "arguments": (GIVEN,), "memory": 64, **more}
    return Module(entry, {p.name: p for p in procedures}, **more)  # type: ignore[arg-type]


def after(run: Pass, *entry: Node, **more: object) -> Block:
    return run(module(*entry, **more)).entry  # type: ignore[arg-type]


def same(got: Block, *expected: Node) -> bool:
    """Equal up to the names of locals."""
    return StructuralKeys().block(got) == StructuralKeys().block(expected)


x, y, z, t, s, q, v, u = (Var(name, Kind.FIXED) for name in "xyztsqvu")
i, j, k, n, m = (Var(name) for name in "ijknm")
GIVEN, A, B = Region("given", 8, 0), Region("f.a", 8, 8), Region("f.b", 40, 16)
TABLED = Region("constant", 4, 56, (3, 9, 0, 5))
REGIONS = (GIVEN, A, B, TABLED)


def load(d: Var, at: int, region: Region = A) -> Op:
    return op("ld.add", d, Const(at), imm=region.address, region=region)


def exchange(d: Var, at: int, region: Region = A) -> Op:
    return op("exch", d, Const(0), imm=(region.address or 0) + at, region=region)


def below(a: Operand, length: int) -> Check:
    return Check(When("ltu", a, Const(length)), "RG0801", "")


def word(number: int) -> Const:
    return Const(number & w.mask)


# ---------------------------------------------------------------- ranges


def test_ranges_hold_for_all_words() -> None:
    """What is known of a function of two words in ranges holds of all words in them, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(1)
    names = ("mov", "mul", "and", "div", "mod", "sar", "shr", "shl", "abs", "min", "max", "slt", "sltu", "seq")
    for _ in range(600):
        name = rng.choice(names)
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        got = symbols.function(op(f"{name}.add"), a, b)
        function = TABLE[f"{name}.add"]
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if got is None or (name in ("div", "mod") and r == 0):
                    continue
                after_ = evaluated(function, p, r, small)
                assert got.low <= after_ <= got.high, (name, ends, p, r, got)


def evaluated(opcode: object, a: int, b: int, w: Format) -> int:
    from retrograd.isa.expr import evaluate

    value = opcode.entry.value(w)  # type: ignore[attr-defined]
    return w.signed(evaluate(value, w, {"a": a & w.mask, "b": b & w.mask, "d": 0, "m": 0, "imm": 0}))


def test_ranges_of_sums_of_many_terms() -> None:
    """No more than a few terms are kept of a sum; its range is known all the same, and all words where it may wrap."""
    symbols = Symbols(Format(8, 0))
    for most, expected in ((10, (0, 120)), (40, (-128, 127))):
        total = symbols.constant(0)
        for _ in range(12):
            total = symbols.sum(total, symbols.unknown(0, most))
        assert (total.low, total.high) == expected


def test_ranges_of_sums_and_tests_hold_for_all_words() -> None:
    """Sums of symbols, compared: whatever is claimed is true of all numbers that the symbols may stand for, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(2)

    def made(symbols: Symbols, bases: list[AffineValue], weights: list[int]) -> AffineValue:
        total = symbols.constant(weights[0])
        for base, weight in zip(bases, weights[1:], strict=True):
            total = symbols.sum(total, symbols.times(base, weight), rng.choice((1,)))
        return total

    claims = 0
    for _ in range(400):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        bases = [symbols.unknown(*e) for e in ends]
        weights = [[rng.randint(-3, 3) for _ in range(3)] for _ in range(2)]
        left, right = (made(symbols, bases, some) for some in weights)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        claim = symbols.holds(cc, left, right)
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                a, b = (small.wrap(some[0] + some[1] * p + some[2] * r) for some in weights)
                assert left.low <= small.signed(a) <= left.high
                if claim is not None:
                    claims += 1
                    assert truth(cc, a, b, small) == claim, (cc, left, right, p, r)
    assert claims > 100


def test_what_a_test_leaves_of_its_operands_holds_for_all_words() -> None:
    """Both operands of a condition that holds lie in the ranges that the condition leaves, in 4 bits, and no condition leaves everything."""
    small = Format(4, 0)
    rng = random.Random(3)
    narrower: set[str] = set()
    for _ in range(2000):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        left, right = symbols.narrowed(cc, a, b), symbols.narrowed(MIRRORED[cc], b, a)
        narrower.update(name for name, new, old in ((cc, left, a), (MIRRORED[cc], right, b)) if new[:2] != old[:2])
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if truth(cc, p & small.mask, r & small.mask, small):
                    assert left.low <= p <= left.high, (cc, ends, p, r, left)
                    assert right.low <= r <= right.high, (cc, ends, p, r, right)
    assert narrower == {*MIRRORED, *MIRRORED.values()}


def truth(cc: str, a: int, b: int, w: Format) -> bool:
    p, r = (w.signed(a), w.signed(b)) if cc in ("lt", "ge") else (a, b)
    return {"eq": p == r, "ne": p != r, "lt": p < r, "ltu": p < r, "ge": p >= r, "geu": p >= r}[cc]


# ---------------------------------------------------------------- drop checks


# ---------------------------------------------------------------- promote arrays


# ---------------------------------------------------------------- keep temporaries


def outer(*compute: Node, body: Block | None = None) -> Within:
    return Within(compute, (op("fmul.add", y, u, u),) if body is None else body, "r")


def squared(of: Var = x) -> Within:
    """u += (of²)²"""
    return Within((Local(t), op("fmul.add", t, of, of)), (op("fmul.add", u, t, t),))


# ---------------------------------------------------------------- step addresses

a, b, c = (Var(name, Kind.ADDRESS) for name in "abc")


def read(at: Var, *sum_: Op, imm: int = 16, d: Var = y) -> Within:
    """d += B[sum]"""
    return Within((Local(at), *sum_, Local(t), op("ld.add", t, at, imm=imm, region=B)), (op("mov.add", d, t),))


def direct(at: Var, imm: int = 16, d: Var = y) -> Within:
    return Within((Local(t), op("ld.add", t, at, imm=imm, region=B)), (op("mov.add", d, t),))


def as_ints(node: Node) -> Node:
    """The statement with all its locals integers, so that Numbering compares no kinds."""
    for inner in walk((node,)):
        if isinstance(inner, Local):
            inner.var.kind = Kind.INT
    return node


class Nests:
    """Random nests of loops over two arrays, at places that are sums of multiples of loop variables and others."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.read_only, self.changed = Region("read", 256, 264), Region("changed", 256, 8)
        self.data = [Var("p"), Var("q")]
        self.result = Var("result")

    def program(self) -> tuple[Module, list[int]]:
        ends: list[Node] = []
        for at, var in enumerate((*self.data, self.result)):
            ends += [Local(var), op("exch", var, Const(at), region=GIVEN)]
        given = (GIVEN, self.changed, self.read_only)
        entry = (*ends, *self.block([], 4), *invert(ends))
        random_words = [self.rng.randint(0, 99) for _ in range(512)]
        memory = [self.rng.randint(0, 3), self.rng.randint(0, 3), *[0] * 6, *random_words]
        return Module(entry, {}, given, 520, arguments=given), memory

    def block(self, loops: list[Var], depth: int) -> Block:
        return tuple(node for _ in range(self.rng.randint(1, 2)) for node in self.statement(loops, depth))

    def address(self, loops: list[Var]) -> tuple[Var, list[Node]]:
        rng, at = self.rng, Var("at", Kind.ADDRESS)
        nodes: list[Node] = [Local(at)]
        for var in rng.sample(loops + self.data, rng.randint(1, min(3, len(loops) + 1))):
            kind = rng.random()
            if kind < 0.5:
                nodes.append(op(rng.choice(("mov.add", "mov.add", "mov.add", "mov.sub")), at, var))
            elif kind < 0.8:
                nodes.append(op("mul.add", at, var, word(rng.choice((1, 2, 3, -1, 5)))))
            else:
                nodes.append(op("shl.add", at, var, Const(rng.randint(0, 2))))
        if rng.random() < 0.4:
            nodes.append(op("imm.add", at, imm=rng.randint(-5, 30)))
        return at, nodes

    def access(self, loops: list[Var]) -> Node:
        (source, first), (target, second) = self.address(loops), self.address(loops)
        value, element = Var("value"), Var("element")
        load_ = (*first, Local(value), op("ld.add", value, source, imm=364, region=self.read_only))
        if self.rng.random() < 0.4:
            store = op("st.xor", None, target, value, imm=101, region=self.changed)
            return Within((*load_, *second), (store,))
        swap = (*second, Local(element), op("exch", element, target, imm=100, region=self.changed))
        return Within(load_, (Within(swap, (op("mov.add", element, value),)),))

    def statement(self, loops: list[Var], depth: int) -> list[Node]:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.45 or depth == 0:
            return [self.access(loops)]
        if kind < 0.55:
            test = When(rng.choice(("eq", "lt")), rng.choice(loops + self.data), Const(rng.randint(0, 3)))
            return [If(test, self.block(loops, depth - 1), self.block(loops, depth - 1), test)]
        if kind < 0.65:
            return [Within(self.block(loops, depth - 1), (op("mov.add", self.result, self.data[0]),))]
        var, step, count, backward = Var("i"), rng.choice((1, 1, 2, -1)), rng.randint(0, 3), rng.random() < 0.3
        body = self.block([*loops, var], depth - 1)
        if rng.random() < 0.6:
            start = rng.randint(-1, 3)
            return [For(var, word(start), word(start + count * step), step, body, backward, count > 0)]
        ends = Var("start"), Var("stop")
        source = rng.choice(loops + self.data)
        compute = [node for end in ends for node in (Local(end), op("mov.add", end, source))]
        compute.append(op("imm.add", ends[1], imm=count * step))
        return [Within(tuple(compute), (For(var, *ends, step, body, backward, count > 0),))]


def check_nest(seed: int, interpreter: ModuleType) -> bool:
    """Stepped, alone and among other passes, a nest does what it did. Whether anything was stepped."""
    rng = random.Random(seed)
    m, memory = Nests(rng).program()
    expected = outcome(m, memory, interpreter)
    if len(expected) > 1:
        return False
    end = [*expected[0]]  # type: ignore[misc]
    back = outcome(~m, end, interpreter)
    passes = [run for _, run in pipeline.PASSES]
    for sequence in (
        [reduce_induction_variables],
        passes,
        [rng.choice(passes), reduce_induction_variables, rng.choice(passes), reduce_induction_variables],
    ):
        got = rename_locals(m)
        for run in sequence:
            got = run(got)
            assert outcome(got, memory, interpreter) == expected, (seed, run)
            assert outcome(~got, end, interpreter) == back, (seed, run)
        assert outcome(erase_routines(got), memory, interpreter) == expected, seed
    return reduce_induction_variables(rename_locals(m)).entry != rename_locals(m).entry


def test_nests_keep_their_meaning(interpreter: ModuleType) -> None:
    assert sum(check_nest(seed, interpreter) for seed in range(12)) > 3


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_nests_keep_their_meaning(first: int, interpreter: ModuleType) -> None:
    for seed in range(first, first + 100):
        check_nest(seed, interpreter)


# ---------------------------------------------------------------- arrays erased


def filling(region: Region) -> For:
    """for i: region[i] += x, but dearer."""
    change = (Within((Local(t), op("fexp.add", t, x), Local(s), op("fmul.add", s, t, t)), (op("fmov.add", q, s),)),)
    element = Within((Local(q), op("exch", q, i, imm=region.address, region=region)), change)
    return For(i, Const(0), Const(region.size), 1, (element,), some=True)


def test_arrays_of_a_routine_are_erased_word_by_word() -> None:
    routine = Within((filling(B),), (load(z, 1, B),), "r")
    got = after(erase_routines, routine)
    clearing = For(j, Const(0), Const(40), 1, (op("exch", k, j, imm=16, region=B), op("erase", k)), some=True)
    assert same(got[-3:], Local(k), clearing, Delocal(k))
    assert not any(node.name == "r" for node in walk(got) if isinstance(node, Within))
    small = after(erase_routines, Within((filling(A),), (load(z, 1),), "r"))
    assert sum(isinstance(node, Op) and node.opcode.name == "erase" for node in small) == 8


# ---------------------------------------------------------------- random programs

RESULTS, PORTS = "results", Region("ports", 1, 0)


def outcome(m: Module, memory: list[int], interpreter: ModuleType) -> tuple[object, ...]:
    """(memory, ) after the run, or the code of its trap."""
    try:
        run = interpreter.interpret(m, memory)
    except Fault as fault:
        return fault.code, None
    return (tuple(run.memory[: m.memory]),)


def at_constants(m: Module, rng: random.Random) -> Module:
    """The same program, but each access of an array is at some constant place near its beginning."""

    def moved(node: Node) -> Node:
        if not isinstance(node, Op) or not facts(node.opcode).memory:
            return node
        if node.region in m.regions and node.region.address is not None:
            at = node.region.address + rng.randrange(3)
            return node._replace(a=Const((at - node.imm) & m.format.mask))
        return node._replace(region=PORTS) if node.region is None and isinstance(node.a, Const) else node

    def rewrite(block: Block) -> Block:
        return tuple(moved(node) for node in block if not isinstance(node, External))

    return map_bodies(m, lambda body: map_blocks(body, rewrite))


def with_arrays_of_its_own(case: object, rng: random.Random) -> tuple[Module, list[int]]:
    """A random program within which all is undone, but for a few words of it that are copied out; and its memory."""
    m: Module = case.module  # type: ignore[attr-defined]
    # The regions that statements name; one that was given data since is another.
    named = {node.region for body in bodies(m) for node in walk(body) if isinstance(node, Op) and node.region}
    m = at_constants(replace(m, regions=tuple(sorted(named or m.regions, key=lambda r: r.address))), rng)
    results = Region(RESULTS, 8, m.memory)
    copies: list[Node] = []
    for at in range(rng.choice((1, 4, 8))):
        region, word_ = rng.choice(m.regions), Var("t")
        name = rng.choice(("ld.add", "exch"))
        fetch = op(name, word_, Const((region.address or 0) + at % 3), region=region)
        store = op("st.xor", None, Const(m.memory + at), word_, region=results)
        copies.append(Within((Local(word_), fetch), (store,)))
    entry: Block = (Within(m.entry, tuple(copies), "r"),)
    if rng.random() < 0.4:
        entry = (For(Var("i"), Const(0), Const(rng.randint(0, 2)), 1, entry),)
    elsewhere = {node.region for p in m.procedures.values() for node in walk(p.body) if isinstance(node, Op)}
    given = tuple(r for r in m.regions if r in elsewhere or rng.random() < 0.3)
    memory = [*case.memory, *[0] * 8]  # type: ignore[attr-defined]
    for region in m.regions:
        if region not in given and not region.data:
            start = region.address or 0
            memory[start : start + region.size] = [0] * region.size
    arguments = (*given, results, PORTS)
    return replace(m, entry=entry, memory=m.memory + 8, regions=(*m.regions, results), arguments=arguments), memory


def check(seed: int, interpreter: ModuleType, random_ir: ModuleType) -> bool:
    """Promoted, among other passes, or erased, the program does what it did. Whether something was promoted."""
    rng = random.Random(seed)
    m, memory = with_arrays_of_its_own(random_ir.generate(seed), rng)
    expected = outcome(m, memory, interpreter)
    if len(expected) > 1:
        return False
    end = [*expected[0]]  # type: ignore[misc]
    back = outcome(~m, end, interpreter)
    passes = [run for _, run in pipeline.PASSES]
    some = [rng.choice(passes) for _ in range(3)]
    for sequence in ([replace_arrays_by_scalars], [*some, rename_locals, replace_arrays_by_scalars, *some], passes):
        got = rename_locals(m)
        for run in sequence:
            got = run(got)
            assert outcome(got, memory, interpreter) == expected, (seed, run)
            assert outcome(~got, end, interpreter) == back, (seed, run)
        assert outcome(erase_routines(got), memory, interpreter) == expected, seed
    assert invert(invert(got.entry)) == got.entry
    return replace_arrays_by_scalars(rename_locals(m)) is not rename_locals(m)


@pytest.mark.parametrize("first", [0])
def test_random_programs_keep_their_meaning(first: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in range(first, first + 10):
        check(seed, interpreter, random_ir)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 3000, 50))
def test_many_random_programs_keep_their_meaning(first: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in range(first, first + 50):
        check(seed, interpreter, random_ir)


# ---------------------------------------------------------------- memory operands


T, U = (Var(name, Kind.FIXED) for name in "tu")
AT = Var("at", Kind.ADDRESS)
WORDS, OTHERS = Region("words", 8, 40), Region("others", 8, 48)


def fetched(name: str, *body: Node, a: Operand = AT, more: Block = ()) -> Within:
    """t is the word [a + 3] of `WORDS` in the body."""
    return Within((Local(T), op(name, T, a, imm=3, region=WORDS), *more), body)


def with_operands(*nodes: Node, erased: bool = False) -> Block:
    run = partial(use_memory_operands, erased=erased)
    return after(run, *nodes, regions=(WORDS, OTHERS), memory=64)


def accessed(name: str, d: Operand | None = None, b: Operand | None = None) -> Op:
    return op(name, d, AT, b, imm=3, region=WORDS)


# ---------------------------------------------------------------- words that stay in registers


def promoted(*nodes: Node, most: int = 32, **more: bool) -> Block:
    run = partial(promote_to_registers, max_live=most, **more)
    return after(run, *nodes, regions=(WORDS, OTHERS), memory=64)


R = Var("r", Kind.FIXED)


def kept(*body: Node, name: str = "exch", back: str = "exch") -> Block:
    return (Local(R), accessed(name, R), *body, accessed(back, R), Delocal(R))


def square(d: Var, a: Var) -> Op:
    """An update for which no instruction takes a word from memory."""
    return op("fmul.add", d, a, a)


def test_a_word_that_is_accessed_in_memory_is_promoted_where_that_saves_instructions() -> None:
    """An instruction has one operand in memory. With the two words that are used again and again in registers, that is the factor."""
    y, seed = Var("y", Kind.FIXED), op("ld.add", U, AT, region=OTHERS)

    def one(at: int) -> Within:
        factor = Within((Local(s), load(s, at)), (op("fmul.add", y, U, s), op("fmul.add", T, s, z)))
        return Within((Local(U), seed), (fetched("exch", factor),))

    block, regions = tuple(map(one, range(6))), (A, WORDS, OTHERS)
    assert promoted(*block) == block
    products = [op("fmulld.add", d, Const(at), b, imm=8, region=A) for at in range(6) for d, b in ((y, U), (R, z))]
    found = select_operands(module(*block, regions=regions)).entry
    assert same(found, *kept(Local(U), seed, *products, seed._replace(opcode=TABLE["ld.sub"]), Delocal(U)))
    # Where the other operands are in registers anyway, the word stays in memory.
    plain = [fetched("exch", op("fmul.add", T, y, z))] * 6
    assert select_operands(module(*plain, regions=regions)).entry == (accessed("fmulst.add", y, z),) * 6


# ---------------------------------------------------------------- temporaries that are erased


def erasing(*between: Node, summand: str = "fmul.sub", move: str = "fmov.add") -> Block:
    x, y = (Var(name, Kind.FIXED) for name in "xy")
    return (Local(T), op(summand, T, x, y), *between, op(move, U, T), op("erase", T), Delocal(T))
