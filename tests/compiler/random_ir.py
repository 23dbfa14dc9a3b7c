"""Random well-formed modules of the IR that terminate, from a seed.

`generate(seed)` gives a Case: a module, and words to put into its memory. Everything that the IR can say occurs: nested
branches and loops, computing and uncomputing, calls both ways, recursion (alone and in a circle), frames on the stack,
memory through constants and through computed addresses, constants of every size.

What makes them well formed: what a test reads is frozen (not written) until the other end of its structure; what a
computation reads and writes is frozen while its result is used. Most do not trap; those with fixed-point numbers may.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from retrograd.compiler.ir.statements import (
    CONDITIONS,
    SP,
    Block,
    Call,
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
    Test,
    Var,
    While,
    Within,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

FORMATS = ((Format(64, 32), 4), (Format(32, 16), 2), (Format(16, 8), 1))
REGION_WORDS = 8
STACK_WORDS = 400

#: total functions and bijections of whole words: they never trap
WRAPPING = tuple(
    o
    for o in TABLE
    if (o.group in ("moves", "integer", "bijections") or o.name.startswith("lmov"))
    and "[ra+imm]" not in o.operands
    and all(len(o.guards(w)) == 1 for w, _ in FORMATS)
)
MEMORY = tuple(o for o in TABLE if "[ra+imm]" in o.operands)
#: those of them that do not trap
TOTAL_MEMORY = tuple(o for o in MEMORY if len(o.guards(Format())) == 1)
FIXED = tuple(
    o
    for o in TABLE
    if isinstance(o.entry, Function) and o.entry.name in ("fmov", "fmul", "fdiv", "fsqrt", "fabs", "div")
)


@dataclass(frozen=True)
class Case:
    """A module and the words that its memory begins with."""

    seed: int
    module: Module
    memory: list[int]


@dataclass
class Scope:
    """What may be used at a point of a procedure."""

    variables: list[Var]
    #: variables that are not written here
    frozen: set[Var] = field(default_factory=set)
    #: regions that are not written here
    frozen_regions: set[Region] = field(default_factory=set)

    def writable(self) -> list[Var]:
        return [v for v in self.variables if v not in self.frozen]


@dataclass(frozen=True)
class Known:
    """A procedure that may be called: what it writes of memory, and a bound on what running it costs."""

    procedure: Procedure
    regions: frozenset[Region]
    cost: int
    #: its first parameter is a depth, to be kept small
    deep: bool = False


def generate(seed: int, formats: Sequence[tuple[Format, int]] = FORMATS, size: int | None = None) -> Case:
    """The module of this seed. `size`: about how many statements in the entry."""
    rng = random.Random(seed)
    w = rng.choices([f for f, _ in formats], [n for _, n in formats])[0]
    return _Generator(rng, w).case(seed, size or rng.choice((3, 6, 12, 12, 40)))


class _Generator:
    def __init__(self, rng: random.Random, w: Format) -> None:
        self.rng = rng
        self.w = w
        self.regions = [Region(f"m{i}", REGION_WORDS, i * REGION_WORDS) for i in range(rng.randint(2, 4))]
        self.known: list[Known] = []
        self.names = 0
        self.line = 0
        self.externals = 0
        self.fixed = rng.random() < 0.2
        #: shared by few variables with many uses, or many with few
        self.crowd = rng.choice((3, 3, 8, 30))
        # What the statements generated so far write of memory, and about what they cost to run.
        self.written: set[Region] = set()
        self.cost = 0
        self.weight = 1

    # ---------------------------------------------------------------- the whole

    def case(self, seed: int, size: int) -> Case:
        for i in range(self.rng.choice((0, 1, 1, 2, 4))):
            self.procedure(f"f{i}")
        if self.rng.random() < 0.3:
            self.recursion()
        self.cost = 0
        variables = [self.variable() for _ in range(self.rng.randint(2, self.crowd + 2))]
        ends = len(self.regions) * REGION_WORDS
        ports: list[Node] = []
        for i, v in enumerate(variables):
            ports += [Local(v, span=self.span()), Op(TABLE["exch"], v, Const(ends + i), region=None)]
        body = self.block(Scope(variables), size, 3)
        back: list[Node] = []
        for i, v in reversed(list(enumerate(variables))):
            back += [Op(TABLE["exch"], v, Const(ends + i)), Delocal(v, checked=self.rng.random() < 0.5)]
        memory = ends + len(variables)
        data = [self.rng.choice((0, 1, 2, 5, self.rng.getrandbits(self.w.width))) for _ in range(memory)]
        if self.rng.random() < 0.3:
            held = self.regions[0]
            self.regions[0] = Region(held.name, held.size, held.address, tuple(data[:REGION_WORDS]))
        module = Module(
            (*ports, *body, *back),
            {k.procedure.name: k.procedure for k in self.known},
            tuple(self.regions),
            memory,
            STACK_WORDS,
            self.w,
            ("random.py",),
        )
        return Case(seed, module, data)

    def span(self) -> Span | None:
        self.line += 1
        return None if self.rng.random() < 0.3 else Span("random.py", self.line, 1, 5)

    def variable(self, name: str = "") -> Var:
        self.names += 1
        return Var(name or self.rng.choice("xyzuv") + self.rng.choice(("", str(self.names))), Kind.INT)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Generate a procedure: its costs and writes are its own."""
        outer = self.written, self.cost, self.weight
        self.written, self.cost, self.weight = set(), 0, 1
        yield
        self.written, self.cost, self.weight = outer

    def procedure(self, name: str) -> None:
        """A procedure that may call those before it."""
        rng = self.rng
        with self.apart():
            params = [self.variable() for _ in range(rng.randint(1, rng.choice((3, 6, 9))))]
            kept = {i for i in range(len(params)) if rng.random() < 0.4}
            scope = Scope(params, {params[i] for i in kept})
            body = self.block(scope, rng.randint(1, 10), 2)
            written = frozenset(range(len(params))) - kept
            made = Procedure(name, tuple(params), (), body, written, span=self.span())
            self.known.append(Known(made, frozenset(self.written), self.cost + 1))

    def recursion(self) -> None:
        """if n ≠ 0: n −= 1; …; call; …; n += 1; in a circle of one to three procedures."""
        rng = self.rng
        circle = [f"loop{i}" for i in range(rng.choice((1, 1, 2, 3)))]
        count = rng.randint(1, 4)
        regions: set[Region] = set()
        made: list[Procedure] = []
        cost = 1
        for name in circle:
            with self.apart():
                n, xs = self.variable("n"), [self.variable() for _ in range(count)]
                scope = Scope([n, *xs], {n})
                before, after = self.block(scope, 2, 1), self.block(scope, 2, 1)
                middle = self.block(scope, 2, 1)
                calls: list[Node] = []
                for part in ((), middle):
                    order = rng.sample(xs, count)
                    target = rng.choice(circle)
                    calls += [*part, Call(target, (n, *order), backward=rng.random() < 0.3, span=self.span())]
                own = self.variable("t")
                step = (Op(TABLE["imm.sub"], n, imm=1), *before, *calls[: rng.randint(1, len(calls))], *after)
                deeper = Within(
                    (Local(own), Op(TABLE["mov.add"], own, n)),
                    (*step, Op(TABLE["imm.add"], n, imm=1)),
                )
                test = Test("ne", n, Const(0))
                # The depth is changed and changed back around the calls; `own` is alive and in the way of both.
                body = (If(test, (deeper,), self.block(scope, 1, 1), test, self.span()),)
                made.append(Procedure(name, (n, *xs), (), body, frozenset(range(count + 1)), True))
                regions |= self.written
                cost += self.cost + 4
        # `own` holds n before it is decreased, so it is uncomputed after n is increased again.
        self.known += [Known(p, frozenset(regions), 16 * cost, deep=True) for p in made]

    # ---------------------------------------------------------------- statements

    def block(self, scope: Scope, size: int, depth: int) -> Block:
        out: list[Node] = []
        while size > 0:
            kinds: dict[Callable[[Scope, int], list[Node]], int] = {
                self.data: 12,
                self.constant_address: 3,
                self.check: 1,
                self.external: 1,
            }
            if depth > 0:
                kinds |= {
                    self.computed_address: 2,
                    self.branch: 4,
                    self.flag: 2,
                    self.times: 3,
                    self.loop: 2,
                    self.within: 4,
                    self.crowded: 1,
                    self.call: 4,
                    self.frame: 1,
                }
            made = self.rng.choices(list(kinds), list(kinds.values()))[0](scope, depth)
            out += made
            size -= 1
        return tuple(out)

    def inner(self, scope: Scope, depth: int, freeze: Sequence[Operand] = (), extra: Sequence[Var] = ()) -> Block:
        """A block inside, where `freeze` is not written and `extra` are more variables."""
        inside = Scope([*scope.variables, *extra], {*scope.frozen, *(x for x in freeze if isinstance(x, Var))})
        inside.frozen_regions = scope.frozen_regions
        return self.block(inside, self.rng.randint(0, 3), depth - 1)

    def constant(self) -> Const:
        rng, width = self.rng, self.w.width
        return Const(
            rng.choice(
                (
                    0,
                    1,
                    rng.randint(-9, 9),
                    1 << rng.randrange(width),
                    (1 << rng.randrange(width)) - 1,
                    rng.choice((0x7FFFFFFF, 0x80000000, -0x80000000, -0x80000001, 0xFFFFFFFF)),
                    rng.getrandbits(width),
                    0x123456789ABCDEF0,
                )
            )
            & self.w.mask
        )

    def operand(self, scope: Scope, apart: Sequence[Operand | None] = ()) -> Operand:
        found = [v for v in scope.variables if v not in apart]
        return self.constant() if not found or self.rng.random() < 0.35 else self.rng.choice(found)

    def data(self, scope: Scope, depth: int) -> list[Node]:
        fixed = self.fixed and self.rng.random() < 0.3
        made = self.update(scope, self.rng.choice(FIXED if fixed else WRAPPING))
        return [] if made is None else [made]

    def update(self, scope: Scope, opcode: Opcode) -> Op | None:
        """An instruction that writes only what may be written, and does not read it."""
        self.cost += self.weight
        taken: dict[str, Operand] = {}
        for place in ("d", "a", "b"):
            if place in opcode.writes:
                found = [v for v in scope.writable() if v not in taken.values()]
                if not found:
                    return None
                taken[place] = self.rng.choice(found)
        written = list(taken.values())
        for place in ("d", "a", "b"):
            if f"r{place}" in opcode.fields and place not in taken:
                taken[place] = self.operand(scope, written)
        imm = 0
        if "imm" in opcode.fields:
            imm = self.rng.choice((0, 1, -1, 3, self.rng.randint(-(1 << 31) + 1, (1 << 31) - 1)))
            imm = imm if self.w.width > 32 else self.w.signed(imm)
        return Op(opcode, taken.get("d"), taken.get("a"), taken.get("b"), imm, self.span())

    def access(self, scope: Scope, address: Operand, offset: int, region: Region) -> list[Node]:
        opcode = self.rng.choice(MEMORY if self.fixed and self.rng.random() < 0.1 else TOTAL_MEMORY)
        writes = "m" in opcode.writes
        if writes and region in scope.frozen_regions:
            return []
        found = [v for v in scope.writable() if v is not address]
        d: Var | None = None
        b: Operand | None = None
        if "rd" in opcode.fields:
            if not found:
                return []
            d = self.rng.choice(found)
        if "rb" in opcode.fields:
            b = self.operand(scope, [d])
        if writes:
            self.written.add(region)
        self.cost += self.weight
        return [Op(opcode, d, address, b, offset, self.span(), region)]

    def constant_address(self, scope: Scope, depth: int) -> list[Node]:
        region = self.rng.choice(self.regions)
        assert region.address is not None
        at = region.address + self.rng.randrange(region.size)
        offset = self.rng.choice((0, 1, -3, at))
        return self.access(scope, Const((at - offset) & self.w.mask), offset, region)

    def computed_address(self, scope: Scope, depth: int) -> list[Node]:
        """t = x ∧ 7 is an index; the access adds where the region begins."""
        region = self.rng.choice(self.regions)
        assert region.address is not None
        t, x = self.variable("i"), self.operand(scope)
        inside = Scope(scope.variables, {*scope.frozen, *([x] if isinstance(x, Var) else [])}, scope.frozen_regions)
        access = self.access(inside, t, region.address, region)
        compute = (Local(t), Op(TABLE["and.add"], t, x, Const(REGION_WORDS - 1)))
        return [Within(compute, tuple(access), span=self.span())] if access else []

    def test(self, scope: Scope) -> Test:
        return Test(self.rng.choice(list(CONDITIONS)), self.operand(scope), self.operand(scope))

    def branch(self, scope: Scope, depth: int) -> list[Node]:
        test = self.test(scope)
        then, orelse = (self.inner(scope, depth, (test.a, test.b)) for _ in range(2))
        if self.rng.random() < 0.3:
            orelse = ()
        return [If(test, then, orelse, test, self.span())]

    def flag(self, scope: Scope, depth: int) -> list[Node]:
        """A branch whose ends test different things, computed before its flag is used, uncomputed after."""
        f, x = self.variable("flag"), self.operand(scope)
        change = (Op(TABLE["imm.add"], f, imm=1),)
        start = (Local(f), Op(TABLE["and.add"], f, x, Const(1)), Op(TABLE["mov.add"], f, Const(5)))
        # f is 5 or 6, and the one branch makes 6 an 8, or the other makes 5 a 4.
        if self.rng.random() < 0.5:
            fork = If(Test("eq", f, Const(6)), change * 2, (), Test("eq", f, Const(8)), self.span())
        else:
            less = (Op(TABLE["imm.sub"], f, imm=1),)
            fork = If(Test("eq", f, Const(6)), change, less, Test("geu", f, Const(7)), self.span())
        return [Within((*start, fork), self.inner(scope, depth, (f, x), (f,)), "flag", self.span())]

    @contextmanager
    def repeated(self, passes: int) -> Iterator[None]:
        self.weight *= passes
        yield
        self.weight //= passes

    def times(self, scope: Scope, depth: int) -> list[Node]:
        """A `for` between constants, or up to a number below 4 that is computed."""
        rng, i = self.rng, self.variable("i")
        step = rng.choice((1, 1, 2, -1, -3))
        if rng.random() < 0.5:
            start = rng.choice((0, 0, 1, -5, 1 << 40)) & self.w.mask
            passes = rng.randint(0, 3)
            stop = (start + passes * step) & self.w.mask
            with self.repeated(3):
                body = self.inner(scope, depth, (i,), (i,))
            loop = For(i, Const(start), Const(stop), step, body, rng.random() < 0.4, passes > 0 and rng.random() < 0.5)
            return [loop._replace(span=self.span())]
        n, x = self.variable("n"), self.operand(scope)
        some = rng.random() < 0.4
        first: Operand = Const(0)
        compute: list[Node] = [Local(n), Op(TABLE["and.add"], n, x, Const(3)), Op(TABLE["imm.add"], n, imm=int(some))]
        if step != 1:
            whole = self.variable("whole")
            compute += [Local(whole), Op(TABLE["mul.add"], whole, n, Const(step & self.w.mask))]
            n = whole
        if rng.random() < 0.5:
            first = self.variable("first")
            number = rng.choice((7, 1 << 33)) & self.w.mask
            compute += [Local(first), Op(TABLE["mov.add"], first, Const(number)), Op(TABLE["mov.add"], n, first)]
        locals_ = [node.var for node in compute if isinstance(node, Local)]
        with self.repeated(4):
            body = self.inner(scope, depth, (i, x, *locals_), (i, *locals_))
        loop = For(i, first, n, step, body, rng.random() < 0.4, some, self.span())
        return [Within(tuple(compute), (loop,))]

    def loop(self, scope: Scope, depth: int) -> list[Node]:
        """k counts up to a number below 4."""
        k, n, x = self.variable("k"), self.variable("n"), self.operand(scope)
        with self.repeated(3):
            body = self.inner(scope, depth, (k, n, x), (k, n))
        count = (Op(TABLE["imm.add"], k, imm=1),)
        whole = (*body, *count) if self.rng.random() < 0.5 else (*count, *body)
        loop = While(Test("ne", k, n), whole, Test("ne", k, Const(0)), self.span())
        return [
            Within(
                (Local(n), Op(TABLE["and.add"], n, x, Const(3))),
                (Local(k), loop, Op(TABLE["mov.sub"], k, n), Delocal(k, checked=self.rng.random() < 0.5)),
            )
        ]

    def within(self, scope: Scope, depth: int) -> list[Node]:
        """Locals computed by anything, in a body that leaves alone what that read and wrote."""
        made = [self.variable("t") for _ in range(self.rng.randint(1, 3))]
        outer_written, self.written = self.written, set()
        inside = Scope([*scope.variables, *made], set(scope.frozen), scope.frozen_regions)
        compute = self.block(inside, self.rng.randint(1, 4), depth - 1)
        used = _variables(compute)
        touched = self.written | _regions(compute)
        self.written = outer_written | self.written
        body_scope = Scope(inside.variables, {*scope.frozen, *used, *made}, {*scope.frozen_regions, *touched})
        # What a callee reads of memory is not known here: with a call inside, all regions are frozen.
        if any(isinstance(node, Call) for node in _nodes(compute)):
            body_scope.frozen_regions = set(self.regions)
        body = self.block(body_scope, self.rng.randint(0, 3), depth - 1)
        return [Within((*(Local(v) for v in made), *compute), body, self.rng.choice((None, "r")), self.span())]

    def crowded(self, scope: Scope, depth: int) -> list[Node]:
        """Many variables at once."""
        many = [self.variable() for _ in range(self.crowd)]
        start: list[Node] = []
        for v in many:
            start += [Local(v), Op(TABLE["mov.add"], v, self.operand(scope))]
        read = [v for v in scope.variables if any(node.a is v for node in start if isinstance(node, Op))]
        body = self.inner(scope, depth, (*many, *read), many)
        return [Within(tuple(start), body)]

    def frame(self, scope: Scope, depth: int) -> list[Node]:
        """Words on the stack: base = SP; SP += 3; …; back."""
        base, x = self.variable("base"), self.operand(scope)
        compute = (
            Local(base),
            Op(TABLE["mov.add"], base, SP),
            Op(TABLE["imm.add"], SP, imm=3),
            Op(TABLE["st.add"], None, base, x, 1),
        )
        return [Within(compute, self.inner(scope, depth, (base, x)), "frame", self.span())]

    def check(self, scope: Scope, depth: int) -> list[Node]:
        x, y = self.operand(scope), self.operand(scope)
        if self.rng.random() < 0.03:
            return [Check(Test(self.rng.choice(list(CONDITIONS)), x, y), "RG0801", "by chance", self.span())]
        return [Check(Test(self.rng.choice(("eq", "ge", "geu")), x, x), "RG0801", "certainly", self.span())]

    def external(self, scope: Scope, depth: int) -> list[Node]:
        self.externals += 1
        return [External(self.externals - 1, self.span())]

    def call(self, scope: Scope, depth: int) -> list[Node]:
        found = [k for k in self.known if not k.regions & scope.frozen_regions and self.weight * k.cost < 3000]
        if not found:
            return []
        known = self.rng.choice(found)
        procedure = known.procedure
        args: list[Operand] = []
        deep = self.variable("n") if known.deep else None
        for index, _ in enumerate(procedure.params):
            if index == 0 and deep is not None:
                args.append(deep)
            elif index in procedure.written:
                free = [v for v in scope.writable() if v not in args]
                if not free:
                    return []
                args.append(self.rng.choice(free))
            else:
                written = [a for i, a in enumerate(args) if i in procedure.written]
                args.append(self.operand(scope, written))
        # A variable that is written must not be read under another name, whichever came first.
        for index in procedure.written:
            if sum(args[index] is other for other in args) > 1:
                return []
        self.cost += self.weight * known.cost
        self.written |= known.regions
        call = Call(procedure.name, tuple(args), (), self.rng.random() < 0.4, self.span())
        if deep is None:
            return [call]
        x = self.operand(Scope([v for v in scope.variables if v not in args]))
        return [Within((Local(deep), Op(TABLE["and.add"], deep, x, Const(3))), (call,))]


def _nodes(block: Block) -> Iterator[Node]:
    from retrograd.compiler.ir.statements import children

    for node in block:
        yield node
        for inside in children(node):
            yield from _nodes(inside)


def _variables(block: Block) -> set[Var]:
    """Every variable that the block names."""
    out: set[Operand | None] = set()
    for node in _nodes(block):
        match node:
            case Op(_, d, a, b):
                out |= {d, a, b}
            case If(test, _, _, post) | While(test, _, post):
                out |= {test.a, test.b, post.a, post.b}
            case For(var, start, stop):
                out |= {var, start, stop}
            case Call(_, args):
                out |= set(args)
            case Check(test):
                out |= {test.a, test.b}
            case Local(var) | Delocal(var):
                out.add(var)
            case Within() | External():
                pass
    return {x for x in out if isinstance(x, Var)}


def _regions(block: Block) -> set[Region]:
    return {node.region for node in _nodes(block) if isinstance(node, Op) and node.region is not None}
