"""All passes on random programs: memory ends as it ended without them, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.backend.memory_operands import promote_to_registers, select_operands, use_memory_operands
from retrograd.compiler.ir.instruction_selection import facts
from retrograd.compiler.ir.statements import (
    Block,
    Call,
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
    invert_node,
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.compiler.ir.traversal import bodies, map_blocks, map_bodies, walk
from retrograd.compiler.passes.dead_code import erase_routines
from retrograd.compiler.passes.forward_substitution import substitute_erased
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import rename_locals
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.compiler.passes.strength_reduction import reduce_strength
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.semantics import Fault

Pass = Callable[[Module], Module]


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def fixed(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name, Kind.FIXED) for name in names)


def ints(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name) for name in names)


def module(*entry: Node, procedures: tuple[Procedure, ...] = (), memory: int = 64, **more: object) -> Module:
    return Module(entry, {p.name: p for p in procedures}, (), memory, **more)  # type: ignore[arg-type]


x, y, z, u, v = fixed("x", "y", "z", "u", "v")
t, s, r = fixed("t", "s", "r")


@pytest.mark.parametrize("seed", range(40))
def test_reduced_instructions_make_the_same_words(seed: int, interpreter: ModuleType) -> None:
    rng = random.Random(seed)
    small = rng.choice((Format(8, 4), Format(16, 8), Format(8, 0), Format(8, 7)))
    names = [o for o in TABLE if o.entry.name in ("mul", "div", "mod", "fmul", "fdiv") and o.update]
    constants = [0, 1, -1, 1 << small.frac, -1 << small.frac, 2 << small.frac, -2 << small.frac, small.sign]
    constants += [1 << rng.randrange(small.width) for _ in range(3)]
    cases = []
    for address in range(0, 60, 3):
        c = Const(rng.choice(constants) & small.mask)
        a, b = ints("a", "b")
        ends = [Local(a), Local(b), op("exch", a, Const(address)), op("exch", b, Const(address + 1))]
        pair = (c, a) if rng.random() < 0.2 else (a, c)
        cases.append(module(*ends, Op(rng.choice(names), b, *pair), *invert(ends), memory=64, format=small))
    memory = [rng.getrandbits(small.width) >> rng.choice((0, small.width // 2)) for _ in range(64)]
    for case in cases:
        check_same(case, [reduce_strength], memory, interpreter)


@dataclass
class Statements:
    """Random programs as a compiler writes them: statements over a few temporaries, in loops and branches.

    Few variables, few expressions and one memory, so that statements have much in common and often disturb each other.
    """

    rng: random.Random

    def program(self) -> Module:
        rng = self.rng
        self.regions = [Region(f"m{at}", 4, 4 * at) for at in range(3)]
        self.data = list(ints(*"abcdef"))
        self.loops: list[Var] = []
        self.procedures: list[Procedure] = []
        for number in range(rng.choice((0, 1, 2))):
            self.procedures.append(self.procedure(f"f{number}"))
        ends: list[Node] = []
        for at, var in enumerate(self.data):
            ends += [Local(var), op("exch", var, Const(12 + at))]
        entry = (*ends, *self.block(rng.randint(2, 12), 2), *invert(ends))
        return module(
            *entry, procedures=tuple(self.procedures), memory=12 + len(self.data), format=Format(16, 4), stack=64
        )

    def procedure(self, name: str) -> Procedure:
        outer, self.data = self.data, list(ints(*"pqr"))
        kept = self.data.pop()
        self.loops.append(kept)
        body = self.block(3, 1)
        self.loops.pop()
        params, self.data = (*self.data, kept), outer
        return Procedure(name, params, (), body, frozenset({0, 1}))

    def block(self, count: int, depth: int) -> Block:
        return tuple(node for _ in range(count) for node in self.statement(depth))

    def statement(self, depth: int) -> Block:
        kinds = [self.update] * 12 + [self.store, self.element] * 2 + [self.local] * 2
        if depth:
            kinds += [lambda: self.loop(depth), lambda: self.branch(depth), lambda: self.routine(depth)] * 2
            kinds += [self.call]
        return self.rng.choice(kinds)()

    def operand(self, *extra: Var) -> Operand:
        found: list[Operand] = [*self.data, *self.loops, *extra, Const(self.rng.choice((0, 1, 2, 3, 8, 65535)))]
        return self.rng.choice(found)

    def compute(self) -> tuple[list[Node], list[Var]]:
        """A few temporaries, each a function of what there is."""
        rng = self.rng
        nodes: list[Node] = []
        made: list[Var] = []
        for _ in range(rng.randint(0, 3)):
            t, kind = Var("t"), rng.random()
            nodes.append(Local(t))
            if kind < 0.4:
                region, index, at = rng.choice(self.regions), Var("at"), self.operand()
                nodes[-1:] = [Local(index), op("and.add", index, at, Const(3)), Local(t)]
                nodes.append(op("ld.add", t, index, region=region, imm=region.address or 0))
            else:
                for _ in range(rng.choice((1, 1, 2))):
                    name = rng.choice(
                        ("mov.add", "mov.sub", "mul.add", "and.add", "slt.xor", "seq.sub", "min.add", "sub")
                    )
                    a, b = self.operand(*made), self.operand(*made)
                    nodes.append(op("mov.sub", t, a) if name in ("sub", "mov.sub") else self.function(name, t, a, b))
            made.append(t)
        return nodes, made

    def function(self, name: str, d: Operand, a: Operand, b: Operand) -> Op:
        return op(name, d, a) if name.startswith("mov") else op(name, d, a, b)

    def target(self, *reads: Operand) -> Var | None:
        found = [var for var in self.data if var not in reads]
        return self.rng.choice(found) if found else None

    def update(self) -> Block:
        """y += e, with the temporaries of e."""
        compute, made = self.compute()
        read = {q for node in compute if isinstance(node, Op) for q in (node.a, node.b)}
        a, b = self.operand(*made, *made), self.operand(*made, *made)
        y = self.target(a, b, *read)
        if y is None:
            return ()
        body = self.function(self.rng.choice(("mov.add", "mov.sub", "mul.add", "mov.xor", "mul.sub")), y, a, b)
        return (Within(tuple(compute), (body,)),) if compute else (body,)

    def store(self) -> Block:
        region, index = self.rng.choice(self.regions), Var("at")
        node = op("st.add", None, index, self.operand(), region=region, imm=region.address or 0)
        return (Within((Local(index), op("and.add", index, self.operand(), Const(3))), (node,)),)

    def element(self) -> Block:
        """a[i] += e: the element is swapped out, changed, and swapped in."""
        compute, made = self.compute()
        region, index, q = self.rng.choice(self.regions), Var("at"), Var("q")
        swap = [Local(q), op("exch", q, index, region=region, imm=region.address or 0)]
        at = [Local(index), op("and.add", index, self.operand(), Const(3))]
        # What is read of the element before it is swapped out would not be there to be read again.
        first = not any(isinstance(node, Op) and node.region is region for node in compute)
        whole = [*at, *compute, *swap] if first and self.rng.random() < 0.7 else [*at, *swap, *compute]
        change = self.function(self.rng.choice(("mov.add", "mul.sub")), q, self.operand(*made), self.operand(*made))
        return (Within(tuple(whole), (change,)),)

    def local(self) -> Block:
        """A local with a life of its own, used between."""
        var, e = Var("n"), self.operand()
        self.loops.append(var)
        hidden = [q for q in self.data if q is not e]
        data, self.data = self.data, hidden
        body = self.block(self.rng.randint(0, 3), 0)
        self.data = data
        self.loops.pop()
        return (Local(var), op("mov.add", var, e), *body, op("mov.sub", var, e), Delocal(var, self.rng.random() < 0.5))

    def frozen(self, *kept: Operand) -> list[Var]:
        return [var for var in self.data if var not in kept]

    def loop(self, depth: int) -> Block:
        rng = self.rng
        var, bound = Var("i"), Var("bound")
        compute: tuple[Node, ...] = ()
        passes: Operand = Const(rng.randint(0, 4))
        if rng.random() < 0.5 and self.data:
            source = rng.choice(self.data)
            compute, passes = (Local(bound), op("and.add", bound, source, Const(3))), bound
            data, self.data = self.data, self.frozen(source)
        else:
            data = self.data
        self.loops.append(var)
        body = self.block(rng.randint(1, 4), depth - 1)
        self.loops.pop()
        self.data = data
        loop = For(var, Const(0), passes, 1, body, rng.random() < 0.3)
        return (Within(compute, (loop,)),) if compute else (loop,)

    def branch(self, depth: int) -> Block:
        a, b = self.operand(), self.operand()
        data, self.data = self.data, self.frozen(a, b)
        blocks = [self.block(self.rng.randint(0, 2), depth - 1) for _ in range(2)]
        self.data = data
        test = When(self.rng.choice(("eq", "lt", "geu", "ne")), a, b)
        return (If(test, blocks[0], blocks[1], test),)

    def routine(self, depth: int) -> Block:
        """Temporaries that several statements use; these do not change what they were computed from."""
        compute, made = self.compute()
        read = {q for node in compute if isinstance(node, Op) for q in (node.a, node.b) if q is not None}
        loaded = any(isinstance(node, Op) and node.region for node in compute)
        data, self.data = self.data, self.frozen(*read)
        self.loops += made
        body = self.block(self.rng.randint(1, 4), 0)
        if loaded:
            body = tuple(node for node in body if not stores(node))
        del self.loops[len(self.loops) - len(made) :]
        self.data = data
        return (Within(tuple(compute), body, "r"),) if compute else body

    def call(self) -> Block:
        if not self.procedures or len(self.data) < 2:
            return ()
        p, q = self.rng.sample(self.data, 2)
        free = [c for c in (*self.data, *self.loops, Const(3)) if c is not p and c is not q]
        return (
            Call(self.rng.choice(self.procedures).name, (p, q, self.rng.choice(free)), (), self.rng.random() < 0.5),
        )


def stores(node: Node) -> bool:
    return any(isinstance(inner, Op) and "m" in inner.opcode.writes for inner in walk((node,)))


def outcome(m: Module, memory: list[int], interpreter: ModuleType) -> tuple[object, ...]:
    """(memory, externals) after the run, or the code of its trap."""
    try:
        run = interpreter.interpret(m, memory)
    except Fault as fault:
        return (fault.code,)
    return tuple(run.memory[: m.memory]), tuple(run.externals)


def check_same(m: Module, passes: list[Pass], memory: list[int], interpreter: ModuleType) -> Module:
    """After each of the passes in turn the module does what it did, forward and backward. Where it trapped, nothing is said.

    Returns the last module.
    """
    expected = outcome(m, memory, interpreter)
    if len(expected) == 1:
        return m
    end = [*expected[0]]  # type: ignore[misc]
    back = outcome(~m, end, interpreter)
    for run in passes:
        m = run(m)
        name = getattr(run, "__name__", run)
        assert outcome(m, memory, interpreter) == expected, name
        assert outcome(~m, end, interpreter) == back, name
    return m


def without_externals(m: Module) -> Module:
    return map_bodies(m, lambda body: map_blocks(body, lambda b: tuple(q for q in b if not isinstance(q, External))))


def made_worse(m: Module, rng: random.Random) -> Module:
    """The same program, with work for the passes: s; s⁻¹; s in place of some statements s."""

    def rewrite(block: Block) -> Block:
        out: list[Node] = []
        for node in block:
            worse = isinstance(node, Op | Within | If | For) and rng.random() < 0.1
            out += [node, invert_node(node), node] if worse else [node]
        return tuple(out)

    return map_bodies(m, lambda body: map_blocks(body, rewrite))


def promote_eagerly(m: Module) -> Module:
    return promote_to_registers(m, eager=True)


def all_passes(rng: random.Random) -> list[Pass]:
    """The pipeline, or some passes in any order."""
    runs = [*(run for _, run in pipeline.PASSES), substitute_erased, promote_eagerly, use_memory_operands]
    return runs if rng.random() < 0.5 else [rng.choice(runs) for _ in range(6)]


def check_statements(seed: int, interpreter: ModuleType) -> None:
    rng = random.Random(seed)
    m = Statements(rng).program()
    memory = [rng.choice((0, 1, 2, 3, 7, rng.getrandbits(16))) for _ in range(m.memory)]
    assert len(outcome(m, memory, interpreter)) == 2
    check_same(m, all_passes(rng), memory, interpreter)
    check_erased(m, rng, memory, interpreter)


def check_random_ir(seed: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    case, rng = random_ir.generate(seed), random.Random(seed)
    m = without_externals(case.module) if rng.random() < 0.6 else case.module
    m = made_worse(m, rng) if rng.random() < 0.5 else m
    check_same(m, all_passes(rng), case.memory, interpreter)
    check_erased(case.module, rng, case.memory, interpreter)


def check_erased(m: Module, rng: random.Random, memory: list[int], interpreter: ModuleType) -> None:
    """Erased, before or after the passes, the program has the same values at its end."""
    expected = outcome(m, memory, interpreter)
    if len(expected) == 1:
        return
    m = pipeline.optimise(m) if rng.random() < 0.5 else m
    some = erase_routines(m, rng.choice((None, ("r",), ())), temporaries=rng.random() < 0.7)
    assert outcome(some, memory, interpreter)[0] == expected[0]


# ---------------------------------------------------------------- words of memory


class Words:
    """Random statements that bring words of two arrays into variables, at addresses of which two may be equal, and that use them in memory."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.regions = Region("given", 8, 0), Region("words", 40, 8), Region("others", 40, 48)
        self.data = [Var(name, Kind.FIXED) for name in "xyz"]
        self.left = rng.randint(0, 4)
        first, second, other = (Var(name, Kind.ADDRESS) for name in ("at", "by", "in"))
        self.bases = {first: self.regions[1], second: self.regions[1], other: self.regions[2]}

    def program(self) -> Module:
        arguments = [*self.data, *self.bases]
        exchanges = [Op(TABLE["exch"], v, Const(0), None, n, None, self.regions[0]) for n, v in enumerate(arguments)]
        body = self.block(self.rng.randint(3, 12), 2, ())
        begin = [node for v, e in zip(arguments, exchanges, strict=True) for node in (Local(v), e)]
        end = [node for v, e in zip(arguments, exchanges, strict=True) for node in (e, Delocal(v))]
        return Module((*begin, *body, *end), {}, self.regions, 88, arguments=self.regions)

    def memory(self) -> list[int]:
        def number() -> int:
            return self.rng.choice((0, 1, -1, self.rng.getrandbits(33), -self.rng.getrandbits(32))) % (1 << 64)

        addresses = [self.rng.randint(26, 28), self.rng.randint(26, 28), self.rng.randint(66, 68)]
        return [number() for _ in self.data] + addresses + [0, 0] + [number() for _ in range(80)]

    def block(self, count: int, depth: int, held: tuple[tuple[Var, int], ...]) -> Block:
        return tuple(node for _ in range(count) for node in self.statements(depth, held))

    def word(self, held: tuple[tuple[Var, int], ...] = ()) -> tuple[Var, int] | None:
        """A word that no variable holds, as is certain."""
        base, offset = self.rng.choice(list(self.bases)), self.rng.randint(0, 2)
        for other, at in held:
            if self.bases[other] is self.bases[base] and (other is not base or at == offset):
                return None
        return base, offset

    def statements(self, depth: int, held: tuple[tuple[Var, int], ...]) -> Block:
        rng, choice = self.rng, self.rng.random()
        base = rng.choice(list(self.bases))
        if depth and choice < 0.12:
            inner = self.block(rng.randint(1, 4), depth - 1, held)
            step = Op(TABLE["imm.add"], base, imm=1)
            steps, back = (
                ((step,), (step._replace(opcode=TABLE["imm.sub"]),)) if depth == 2 and self.moves() else ((), ())
            )
            loop = For(Var("i"), Const(0), Const(3), 1, (*inner, *steps), rng.random() < 0.3)
            return (loop, *back * 3)
        if depth and choice < 0.2:
            test = When("ltu", base, Const(rng.randint(25, 29)))
            return (If(test, self.block(2, depth - 1, held), self.block(1, depth - 1, held), test),)
        if choice < 0.24 and depth == 2 and self.moves():
            return (Op(TABLE[rng.choice(("imm.add", "imm.sub"))], base, imm=1),)
        if choice < 0.45:
            return self.in_memory(held)
        return self.fetch(depth, held)

    def moves(self) -> bool:
        """Whether an address changes: not often, so that it stays in its array."""
        self.left -= 1
        return self.left >= 0

    def in_memory(self, held: tuple[tuple[Var, int], ...]) -> Block:
        found, (x, y, z) = self.word(held), self.rng.sample(self.data, 3)
        if found is None:
            return ()
        base, offset = found
        name, d, b = self.rng.choice(
            (
                ("fst.add", None, x),
                ("fmulst.sub", x, y),
                ("fmulld.add", x, y),
                ("fld.sub", z, None),
                ("ld.xor", z, None),
                ("exch", x, None),
            )
        )
        return (Op(TABLE[name], d, base, b, offset, None, self.bases[base]),)

    def fetch(self, depth: int, held: tuple[tuple[Var, int], ...]) -> Block:
        # In memory, a word that a variable holds is zero.
        found = held[-1] if held and self.rng.random() < 0.3 else self.word(held)
        t, (x, y) = Var("t", Kind.FIXED), self.rng.sample(self.data, 2)
        if found is None:
            return ()
        base, offset = found
        exchanged = found not in held and self.rng.random() < 0.6
        into = Op(TABLE["exch" if exchanged else "ld.add"], t, base, None, offset, None, self.bases[base])
        reads = [Op(TABLE[name], x, t, y) for name in ("fmul.add", "fmul.sub")] + [
            Op(TABLE["fmov.add"], x, t),
            Op(TABLE["fmul.add"], x, t, t),
        ]
        writes = [Op(TABLE["fmul.add"], t, x, y), Op(TABLE["fmov.sub"], t, x), Op(TABLE["fmul.sub"], t, x, x)]
        body: list[Node] = [self.rng.choice(reads + writes * exchanged) for _ in range(self.rng.randint(1, 3))]
        if exchanged and depth and self.rng.random() < 0.5:
            body += self.block(self.rng.randint(1, 2), depth - 1, (*held, found))
        if self.rng.random() < 0.5:
            return (Within((Local(t), into), tuple(body)),)
        return (Local(t), into, *body, into._replace(opcode=TABLE.inverse(into.opcode)), Delocal(t))


def check_words(seed: int, interpreter: ModuleType) -> bool:
    """Whether words were promoted, and whether the program then does the same."""
    words = Words(random.Random(seed))
    m, memory = words.program(), words.memory()
    passes: list[Pass] = [promote_to_registers, promote_eagerly, select_operands]
    for run in passes:
        check_same(m, [run], memory, interpreter)
    return promote_to_registers(m).entry is not m.entry and len(outcome(m, memory, interpreter)) == 2


def chunks(count: int, each: int) -> list[range]:
    return [range(at, at + each) for at in range(0, count, each)]


@pytest.mark.parametrize("seeds", chunks(30, 30), ids=str)
def test_random_statements_keep_their_meaning(seeds: range, interpreter: ModuleType) -> None:
    for seed in seeds:
        check_statements(seed, interpreter)


@pytest.mark.parametrize("seeds", chunks(10, 10), ids=str)
def test_random_modules_keep_their_meaning(seeds: range, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in seeds:
        check_random_ir(seed, interpreter, random_ir)


@pytest.mark.long
@pytest.mark.parametrize("seeds", chunks(8000, 200), ids=str)
def test_many_random_statements(seeds: range, interpreter: ModuleType) -> None:
    for seed in seeds:
        check_statements(seed, interpreter)


@pytest.mark.long
@pytest.mark.parametrize("seeds", chunks(2000, 50), ids=str)
def test_many_random_modules(seeds: range, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in seeds:
        check_random_ir(seed, interpreter, random_ir)


def test_words_in_registers_keep_their_meaning(interpreter: ModuleType) -> None:
    assert sum(check_words(seed, interpreter) for seed in range(60)) > 20


@pytest.mark.long
@pytest.mark.parametrize("seeds", chunks(12_000, 3000), ids=str)
def test_many_words_in_registers_keep_their_meaning(seeds: range, interpreter: ModuleType) -> None:
    for seed in seeds:
        check_words(seed, interpreter)


# ---------------------------------------------------------------- nests of loops, arrays of a program's own

GIVEN, RESULTS, PORTS = Region("given", 8, 0), "results", Region("ports", 1, 0)


def word(number: int) -> Const:
    return Const(number & Format().mask)


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


def check_sequences(m: Module, sequences: list[list[Pass]], memory: list[int], interpreter: ModuleType) -> bool:
    """After each sequence of passes, and erased behind it, the program does what it did. Whether it ends without a trap."""
    expected = outcome(m, memory, interpreter)
    if len(expected) == 1:
        return False
    for sequence in sequences:
        got = check_same(rename_locals(m), sequence, memory, interpreter)
        assert outcome(erase_routines(got), memory, interpreter)[0] == expected[0]
    return True


def check_nest(seed: int, interpreter: ModuleType) -> bool:
    """Whether an address of the nest was stepped."""
    rng = random.Random(seed)
    m, memory = Nests(rng).program()
    passes, step = [run for _, run in pipeline.PASSES], reduce_induction_variables
    sequences = [[step], passes, [rng.choice(passes), step, rng.choice(passes), step]]
    ends = check_sequences(m, sequences, memory, interpreter)
    return ends and step(rename_locals(m)).entry != rename_locals(m).entry


def check_arrays(seed: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    rng = random.Random(seed)
    m, memory = with_arrays_of_its_own(random_ir.generate(seed), rng)
    passes, promote = [run for _, run in pipeline.PASSES], replace_arrays_by_scalars
    some = [rng.choice(passes) for _ in range(3)]
    check_sequences(m, [[promote], [*some, rename_locals, promote, *some], passes], memory, interpreter)


def test_nests_keep_their_meaning(interpreter: ModuleType) -> None:
    assert sum(check_nest(seed, interpreter) for seed in range(12)) > 3


@pytest.mark.long
@pytest.mark.parametrize("seeds", chunks(4000, 100), ids=str)
def test_many_nests_keep_their_meaning(seeds: range, interpreter: ModuleType) -> None:
    for seed in seeds:
        check_nest(seed, interpreter)


def test_arrays_of_a_program_keep_their_meaning(interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in range(10):
        check_arrays(seed, interpreter, random_ir)


@pytest.mark.long
@pytest.mark.parametrize("seeds", chunks(3000, 50), ids=str)
def test_arrays_of_many_programs_keep_their_meaning(
    seeds: range, interpreter: ModuleType, random_ir: ModuleType
) -> None:
    for seed in seeds:
        check_arrays(seed, interpreter, random_ir)
