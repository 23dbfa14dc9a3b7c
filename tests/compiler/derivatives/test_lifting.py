"""Modules with shadows: what they do to values, that they are reversible, and that both kinds of shadows fit.

⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩        P; lift(P⁻¹); the inverse of these = identity on memory
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType

import pytest
from retrograd.assembler.verify import verify
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.derivatives import lifting
from retrograd.compiler.derivatives.accumulators import LinearUpdate, Shadows, active_storage, tangents
from retrograd.compiler.derivatives.gradients import Differentiated, dual, gradient
from retrograd.compiler.ir.statements import (
    SP,
    Block,
    Call,
    Check,
    Const,
    Delocal,
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
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.compiler.ir.traversal import bodies, map_blocks, walk
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Trap

#: random modules in the default tier, and in the full one
QUICK, CHUNK = 20, 10
SLOW, SLOW_CHUNK = 1000, 100
STEPS = 2_000_000
KEPT = 4000
w = Format(64, 32)


# ---------------------------------------------------------------- to run modules


class Ran:
    """A module that has run on a memory."""

    def __init__(self, module: Module, memory: Mapping[int, int]) -> None:
        emitted = emit(module)
        program = emitted.program
        assert verify(program) == []
        self.module = module
        self.machine = Machine(program)
        for address, word in memory.items():
            self.machine.load(address, [word & module.format.mask])
        self.before = list(self.machine.memory)
        self.trap: str | None = None
        try:
            self.machine.run(STEPS)
        except Trap as trap:
            meant = emitted.checks.get(trap.pc)
            self.trap = meant.code if isinstance(meant, Check) else trap.diagnostics[0].code
            return
        assert self.machine.at_end
        assert not any(self.machine.registers), "registers are left"

    @property
    def memory(self) -> list[int]:
        return self.machine.memory

    def signed(self, address: int) -> int:
        return self.module.format.signed(self.memory[address])

    def real(self, address: int) -> float:
        return float(self.module.format.to_real(self.memory[address]))

    def turn_back(self) -> list[int]:
        """The memory after the way back."""
        self.machine.turn()
        self.machine.run(STEPS)
        return self.machine.memory

    def undone_by(self, inverse: Module) -> list[int]:
        """The memory after the inverse, emitted by itself."""
        back = Ran(inverse, dict(enumerate(self.memory)))
        assert back.trap is None
        return back.memory


def words(memory: Sequence[int]) -> dict[int, int]:
    return dict(enumerate(memory))


def with_shadows(made: Differentiated, memory: Sequence[int], shadows: Mapping[int, int]) -> dict[int, int]:
    return words(memory) | {address + made.offset: word for address, word in shadows.items()}


# ---------------------------------------------------------------- random IR: any program


def linear(case_module: Module) -> bool:
    """Whether all shadows move by sums alone: then what is true of derivatives is true to the last place."""
    curved = ("fmul", "fdiv", "fsqrt", "fabs")
    ops = (node for body in bodies(case_module) for node in walk(body) if isinstance(node, Op))
    return all(op.opcode.entry.name not in curved or op.opcode.update == "xor" for op in ops)


def cells_of(module: Module) -> list[Region]:
    """All regions, and one for the words that lie in none."""
    ends = max(r.address + r.size for r in module.regions if r.address is not None)
    return [*module.regions, Region("ports", module.memory - ends, ends)]


def named(module: Module, ports: Region) -> Module:
    """The module whose accesses name its own regions, the ports among them; those of the stack name none."""
    own = {r.address: r for r in module.regions}

    def block(nodes: Block) -> Block:
        out: list[Node] = []
        for node in nodes:
            if isinstance(node, Op) and node.region is not None:
                out.append(node._replace(region=own[node.region.address]))
            elif isinstance(node, Op) and node.opcode is TABLE["exch"] and isinstance(node.a, Const):
                out.append(node._replace(region=ports))
            else:
                out.append(node)
        return tuple(out)

    procedures = {name: replace(p, body=map_blocks(p.body, block)) for name, p in module.procedures.items()}
    return replace(
        module, entry=map_blocks(module.entry, block), procedures=procedures, regions=(*module.regions, ports)
    )


def examine(seed: int, random_ir: ModuleType, routes: ModuleType) -> str:
    """Every law of the gradient and the dual of one random module: how its runs went."""
    case = random_ir.generate(seed)
    rng = random.Random(seed)
    regions = cells_of(case.module)
    module = named(case.module, regions[-1])
    plain = Ran(module, words(case.memory))
    if plain.trap is not None:
        return "trapped"
    total = module.memory
    small = [rng.randint(-100, 100) for _ in range(total)]
    other = [rng.randint(-100, 100) for _ in range(total)]

    forth = dual(module, regions, regions, keep=KEPT)
    moved = Ran(forth.module, with_shadows(forth, case.memory, words(small)))
    back = gradient(module, regions, regions, keep=KEPT)
    gained = Ran(back.module, with_shadows(back, case.memory, words(other)))
    if moved.trap is None and gained.trap is None and linear(module):
        one = sum(moved.signed(i + forth.offset) * other[i] for i in range(total))
        two = sum(gained.signed(i + back.offset) * small[i] for i in range(total))
        assert one == two, "the dual is not the transpose of the gradient"
    for made, ran, values in ((forth, moved, plain.memory), (back, gained, case.memory)):
        if ran.trap is not None:
            # A sum, product or quotient of shadows does not fit.
            assert ran.trap in ("RG0402", "RG0403", "RG0404"), ran.trap
            continue
        assert ran.memory[:total] == values[:total], "what the program does to values is changed"
        assert ran.undone_by(~made.module)[: len(ran.before)] == ran.before, "the inverse module"
        assert ran.turn_back() == ran.before, "the way back"
    went: str = routes.compare(module, regions, case.memory, seed=seed)
    return went if linear(module) else f"{went}, curved"


def examine_all(seeds: range, random_ir: ModuleType, routes: ModuleType) -> list[str]:
    went: list[str] = []
    failures: list[Exception] = []
    for seed in seeds:
        try:
            went.append(examine(seed, random_ir, routes))
        except Exception as error:
            error.add_note(f"random_ir.generate({seed})")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(seeds)} modules", failures)
    return went


@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_random_modules(first: int, random_ir: ModuleType, routes: ModuleType) -> None:
    went = examine_all(range(first, first + CHUNK), random_ir, routes)
    assert went.count("ended") >= CHUNK // 2, went


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SLOW_CHUNK))
def test_random_modules_at_length(first: int, random_ir: ModuleType, routes: ModuleType) -> None:
    went = examine_all(range(first, first + SLOW_CHUNK), random_ir, routes)
    assert went.count("ended") >= SLOW_CHUNK * 0.6, went


# ---------------------------------------------------------------- random numbers: programs with derivatives everywhere

ONE = 1 << w.frac
ARRAY = 2


class Numbers:
    """A random program on the words of six arrays, of smooth functions that stay small; `branches` make it less smooth."""

    def __init__(self, seed: int, branches: bool = True) -> None:
        self.rng = rng = random.Random(seed)
        self.branches = branches
        self.regions = [Region(f"x{i}", ARRAY, i * ARRAY) for i in range(6)]
        self.procedures: dict[str, Procedure] = {}
        #: the words of the first arrays are held in variables, the others stay in memory
        self.held = [(Var(f"v{i}", Kind.FIXED), self.regions[i // ARRAY], i) for i in range(3 * ARRAY)]
        ports: list[Node] = []
        back: list[Node] = []
        for var, region, address in self.held:
            exchange = op("exch", var, Const(0), imm=address, region=region)
            ports += [Local(var), exchange]
            back = [exchange, Delocal(var, checked=rng.random() < 0.5), *back]
        for i in range(rng.randint(0, 2)):
            self.procedure(f"p{i}")
        variables = [var for var, _, _ in self.held]
        body = [
            node for _ in range(rng.randint(2, 7)) for node in self.statement(variables, set(), self.regions[3:], 2)
        ]
        total = len(self.regions) * ARRAY
        self.module = Module((*ports, *body, *back), self.procedures, tuple(self.regions), total)
        self.memory = [w.from_real(rng.uniform(-2, 2)) for _ in range(total)]

    def procedure(self, name: str) -> None:
        params = [Var(f"{name}.{i}", Kind.FIXED) for i in range(4)]
        region = Region(f"{name}.r", ARRAY)
        at = Var(f"{name}.at", Kind.ADDRESS)
        frozen = set(params[2:])
        block = [node for _ in range(3) for node in self.statement(params, frozen, [], 1)]
        t = Var("t", Kind.FIXED)
        load = op("ld.add", t, at, imm=self.rng.randrange(ARRAY), region=region)
        block.append(Within((Local(t), load), (op("fmul.add", params[0], t, params[2]),)))
        store = op("st.add", None, at, params[1], imm=0, region=region)
        body = (*block, store)
        self.procedures[name] = Procedure(name, (*params, at), (region,), body, frozenset({0, 1}))

    def statement(self, variables: list[Var], frozen: set[Var], memory: list[Region], depth: int) -> list[Node]:
        rng = self.rng
        free = [v for v in variables if v not in frozen]
        d, a = rng.sample(free, 2)
        b, c = (rng.choice([v for v in variables if v is not d and v is not a]) for _ in range(2))
        kinds = ["product", "quotient", "simple", "rotation"]
        kinds += ["memory"] * 2 * bool(memory) + ["logarithm", "root"]
        if depth:
            kinds += ["times", "within"] + ["branch"] * self.branches
            kinds += ["call"] * 2 * (bool(self.procedures) and bool(memory))
        sign = rng.choice(("add", "sub"))
        t, u = Var("t", Kind.FIXED), Var("u", Kind.FIXED)
        match rng.choice(kinds):
            case "product":
                f, g = (rng.choice(("fsin", "fcos", "fatan2", "fabs")) for _ in range(2))
                f = f if self.branches or f != "fabs" else "fsin"
                g = g if g not in ("fabs", "fatan2") else "fcos"
                made = op(f"{f}.add", t, b, *((c,) if f == "fatan2" else ()))
                half = op("fmul.add", u, a, word(0.5))
                return [Within((Local(t), made, Local(u), half, op(f"{g}.sub", u, c)), (op(f"fmul.{sign}", d, t, u),))]
            case "quotient":
                return [Within((Local(t), *self.positive(t, b)), (op(f"fdiv.{sign}", d, a, t),))]
            case "root":
                return [Within((Local(t), *self.positive(t, b)), (op(f"fsqrt.{sign}", d, t),))]
            case "logarithm":
                x, y = Var("x", Kind.LOGNUM), Var("y", Kind.LOGNUM)
                made = (Local(t), *self.positive(t, b), Local(x), op("ftol.mul", x, t))
                both = (Local(u), *self.positive(u, c), Local(y), op("ftol.mul", y, u), op("ladd.div", y, x, x))
                use = rng.choice(((op(f"ltof.{sign}", d, y),), (op(f"flog.{sign}", d, u),)))
                return [Within(made, (Within(both, use),))]
            case "simple":
                return [rng.choice((op("neg", d), op("swap", d, a), op(f"fmov.{sign}", d, b), op("not", d)))]
            case "rotation":
                return [op(rng.choice(("rot", "irot")), d, a, b if b is not d else c)]
            case "memory":
                region = rng.choice(memory)
                assert region.address is not None
                at = Const(region.address + rng.randrange(ARRAY))
                load = op("ld.add", t, at, region=region)
                return [
                    rng.choice(
                        (
                            op("exch", d, at, region=region),
                            op(f"st.{sign}", None, at, d, region=region),
                            op(f"ld.{sign}", d, at, region=region),
                            Within((Local(t), load, Local(u), op("fcos.add", u, t)), (op(f"fmul.{sign}", d, t, u),)),
                        )
                    )
                ]
            case "times":
                i = Var("i")
                body = tuple(self.statement(variables, frozen, memory, depth - 1))
                return [For(i, Const(0), Const(2), 1, body, rng.random() < 0.5)]
            case "branch":
                test = When("lt", b, c if c is not b else Const(0))
                held = frozen | {b, c}
                if len(free) < 5:
                    return []
                then, orelse = (tuple(self.statement(variables, held, memory, depth - 1)) for _ in range(2))
                return [If(test, then, orelse, test)]
            case "within":
                inner = self.statement([*variables, t], frozen | {t, b, c}, memory, 0) if len(free) > 5 else []
                return [Within((Local(t), op("fsin.add", t, b)), (op(f"fmov.{sign}", d, t), *inner))]
            case "call":
                name = rng.choice(list(self.procedures))
                region = rng.choice(memory)
                assert region.address is not None
                x: Operand = rng.choice((b, word(1.25)))
                args = (d, a, x, rng.choice((x, c)), Const(region.address))
                return [Call(name, args, (region,), rng.random() < 0.4)]
        raise AssertionError

    def positive(self, t: Var, x: Var) -> tuple[Node, ...]:
        """t += 1 + sin² x"""
        s = Var("s", Kind.FIXED)
        return (Within((Local(s), op("fsin.add", s, x)), (op("fmul.add", t, s, s),)), op("fmov.add", t, word(1)))


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def word(x: float) -> Const:
    return Const(w.from_real(x))


def random_shadows(rng: random.Random, regions: Iterable[Region], size: float = 1.0) -> dict[int, int]:
    found: dict[int, int] = {}
    for r in regions:
        assert r.address is not None
        found |= {r.address + i: w.from_real(rng.uniform(-size, size)) for i in range(r.size)}
    return found


def inner(x: Mapping[int, float], y: Mapping[int, float]) -> tuple[float, float]:
    """(⟨x, y⟩, how large its terms are)"""
    return sum(x[i] * y[i] for i in x), sum(abs(x[i] * y[i]) for i in x)


def moved_by(made: Differentiated, case: Numbers, shadows: Mapping[int, int]) -> dict[int, float]:
    ran = Ran(made.module, with_shadows(made, case.memory, shadows))
    assert ran.trap is None
    return {address: ran.real(address + made.offset) for address in range(len(case.memory))}


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(8, 40, 8))])
def test_the_dual_is_the_transpose_of_the_gradient(first: int, routes: ModuleType) -> None:
    """⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩ but for roundings; and the machine gives the same cotangents, bit for bit."""
    for seed in range(first, first + 8):
        case = Numbers(seed)
        rng = random.Random(seed)
        dots, bars = (random_shadows(rng, case.regions) for _ in range(2))
        forth = moved_by(dual(case.module, case.regions, case.regions), case, dots)
        back = moved_by(gradient(case.module, case.regions, case.regions), case, bars)
        one, large = inner({i: float(w.to_real(x)) for i, x in bars.items()}, forth)
        two, larger = inner({i: float(w.to_real(x)) for i, x in dots.items()}, back)
        assert one == pytest.approx(two, abs=1e-6 * (1 + large + larger)), f"Numbers({seed})"
        assert routes.compare(case.module, case.regions, case.memory, keep=KEPT, seed=seed) == "ended"
        assert routes.compare(case.module, case.regions, case.memory, seed=seed) == "ended"


@pytest.mark.long
@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(10, 300, 10))])
def test_shadows_in_several_copies_are_those_of_several_runs(first: int) -> None:
    """Copy k of the shadows ends as in a run of its own, for tangents, cotangents, and tangents of the gradient program."""
    for seed in range(first, first + 10):
        case = Numbers(3000 + seed)
        rng = random.Random(seed)
        copies = rng.randint(2, 4)
        given = [random_shadows(rng, case.regions) for _ in range(copies)]
        n = len(case.memory)
        back = gradient(case.module, case.regions, case.regions)
        both = [r for r in back.module.regions if r.address is not None and r.address < 2 * n]
        for make, module, regions, size in (
            (gradient, case.module, case.regions, n),
            (dual, case.module, case.regions, n),
            (dual, back.module, both, 2 * n),
        ):
            many, one = make(module, regions, regions, copies=copies), make(module, regions, regions)
            assert many.offset == one.offset
            seeds = {i + k * many.offset: x for k, some in enumerate(given) for i, x in some.items()}
            ran = Ran(many.module, with_shadows(many, case.memory, seeds))
            assert ran.trap is None
            for k, some in enumerate(given):
                alone = Ran(one.module, with_shadows(one, case.memory, some))
                assert alone.trap is None
                shadows = slice((k + 1) * one.offset, (k + 1) * one.offset + size)
                assert ran.memory[shadows] == alone.memory[one.offset : one.offset + size], (seed, k)
                assert ran.memory[:size] == alone.memory[:size]


def test_copies_are_not_kept() -> None:
    case = Numbers(1)
    for settings in ({"keep": 4}, {"loss": 0}):
        with pytest.raises(ValueError, match="several copies"):
            gradient(case.module, case.regions, case.regions, copies=2, **settings)


@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.long)])
def test_tangents_are_differences(first: int) -> None:
    """J ẋ = (P(x + hẋ) − P(x − hẋ)) / 2h, P run on the machine."""
    step = 2.0**-9
    for seed in range(first, first + 10):
        case = Numbers(1000 + seed, branches=False)
        dots = random_shadows(random.Random(seed), case.regions)
        found = moved_by(dual(case.module, case.regions, case.regions), case, dots)
        high, low = (
            Ran(case.module, {i: x + round(h * w.signed(dots[i])) for i, x in enumerate(case.memory)})
            for h in (step, -step)
        )
        for i, slope in found.items():
            difference = (high.real(i) - low.real(i)) / (2 * step)
            assert difference == pytest.approx(slope, rel=2e-3, abs=2e-3), (seed, i)


@pytest.mark.parametrize("seed", range(12))
def test_leaving_inputs_and_outputs_out_changes_nothing_else(seed: int) -> None:
    """Of some inputs, the gradient is that part of the whole one, bit for bit; shadows that are not active stay."""
    case = Numbers(2000 + seed)
    rng = random.Random(seed)
    regions = case.regions
    inputs, outputs = (rng.sample(regions, rng.randint(1, 3)) for _ in range(2))
    for make, given, wanted in ((gradient, outputs, inputs), (dual, inputs, outputs)):
        seeds = random_shadows(rng, given)
        whole = make(case.module, regions, regions)
        full = Ran(whole.module, with_shadows(whole, case.memory, seeds))
        active = active_storage(case.module, inputs, outputs)
        still = [r for r in regions if r not in active]
        garbage = random_shadows(rng, still)
        part = make(case.module, inputs, outputs)
        ran = Ran(part.module, with_shadows(part, case.memory, seeds | garbage))
        assert full.trap is ran.trap is None
        for address, before in garbage.items():
            assert ran.memory[address + part.offset] == before, "a shadow that is not active was touched"
        for r in wanted:
            assert r.address is not None
            if r in active:
                for i in range(r.address, r.address + r.size):
                    assert ran.memory[i + part.offset] == full.memory[i + whole.offset]
        assert ran.memory[: len(case.memory)] == full.memory[: len(case.memory)]


# ---------------------------------------------------------------- calls, by hand

X, Y = Region("x", 2, 0), Region("y", 2, 2)
out, at = Var("out", Kind.FIXED), Var("at", Kind.ADDRESS)


def ported(body: Sequence[Node], *procedures: Procedure, **more: object) -> Module:
    """The body, with x0, x1, y0, y1 the words of two arrays."""
    start: list[Node] = []
    end: list[Node] = []
    for i, var in enumerate(PORTS):
        exchange = op("exch", var, Const(0), imm=i, region=(X, Y)[i // 2])
        start += [Local(var), exchange]
        end = [exchange, Delocal(var), *end]
    more = {"memory": 8, "regions": (X, Y, A, B), **more}
    return Module((*start, *body, *end), {p.name: p for p in procedures}, **more)  # type: ignore[arg-type]


PORTS = x0, x1, y0, y1 = tuple(Var(name, Kind.FIXED) for name in ("x0", "x1", "y0", "y1"))
A, B = Region("a", 2, 4), Region("b", 2, 6)


def product(name: str = "product") -> Procedure:
    """out += a·b"""
    a, b = Var("a", Kind.FIXED), Var("b", Kind.FIXED)
    return Procedure(name, (out, a, b), (), (op("fmul.add", out, a, b),), frozenset({0}))


def power() -> Procedure:
    """out += a^(2^n): calls itself, with a variable given twice."""
    n, a, t = Var("n"), Var("a", Kind.FIXED), Var("t", Kind.FIXED)
    test = When("ne", n, Const(0))
    deeper = Within((Local(t), Call("product", (t, a, a))), (Call("power", (out, t, n)),))
    body = (If(test, (op("imm.sub", n, imm=1), deeper, op("imm.add", n, imm=1)), (op("fmov.add", out, a),), test),)
    return Procedure("power", (out, a, n), (), body, frozenset({0, 2}), recursive=True)


def dot() -> Procedure:
    """out += Σ uᵢ vᵢ, of two arrays that may be one"""
    u, v, i, p, q, s, t = (Var(name, Kind.FIXED) for name in "uvipqst")
    first, second = Region("u", 2), Region("v", 2)
    where = (Local(p), op("mov.add", p, u), op("mov.add", p, i), Local(q), op("mov.add", q, v), op("mov.add", q, i))
    load = (Local(s), op("ld.add", s, p, region=first), Local(t), op("ld.add", t, q, region=second))
    body = (For(i, Const(0), Const(2), 1, (Within((*where, *load), (op("fmul.add", out, s, t),)),)),)
    return Procedure("dot", (out, u, v), (first, second), body, frozenset({0}))


def square() -> Procedure:
    """out += Σ uᵢ²: gives its array twice"""
    u, region = Var("u", Kind.ADDRESS), Region("w", 2)
    body = (Call("dot", (out, u, u), (region, region)),)
    return Procedure("square", (out, u), (region,), body, frozenset({0}))


AT_A, AT_B, two = Const(4), Const(6), word(2)
#: what is called, and the gradient of y0 by (x0, x1, a0, a1, b0, b1)
CALLS: dict[str, tuple[tuple[Node, ...], Callable[[float, float, float, float, float, float], tuple[float, ...]]]] = {
    "variables": ((Call("product", (y0, x0, x1)),), lambda x, z, *_: (z, x, 0, 0, 0, 0)),
    "a variable twice": ((Call("product", (y0, x0, x0)),), lambda x, *_: (2 * x, 0, 0, 0, 0, 0)),
    "a constant": ((Call("product", (y0, x0, two)),), lambda *_: (2, 0, 0, 0, 0, 0)),
    "constants only": ((Call("product", (y0, two, two)),), lambda *_: (0, 0, 0, 0, 0, 0)),
    "backward": ((Call("product", (y0, x0, x0), (), True),), lambda x, *_: (-2 * x, 0, 0, 0, 0, 0)),
    "both ways": (
        (Call("product", (y0, x0, x1)), Call("product", (x1, x0, x0)), Call("product", (y0, x0, x1), (), True)),
        lambda x, *_: (-3 * x * x, 0, 0, 0, 0, 0),
    ),
    "within a computation": (
        (Within((Call("product", (y1, x0, x0)),), (Call("product", (y0, y1, x1)),)),),
        lambda x, z, *_: (2 * x * z, x * x, 0, 0, 0, 0),
    ),
    "calls of itself": ((Call("power", (y0, x0, y1)),), lambda x, *_: (8 * x**7, 0, 0, 0, 0, 0)),
    "calls of itself backward": ((Call("power", (y0, x0, y1), (), True),), lambda x, *_: (-8 * x**7, 0, 0, 0, 0, 0)),
    "two arrays": ((Call("dot", (y0, AT_A, AT_B), (A, B)),), lambda _x, _z, a, c, b, d: (0, 0, b, d, a, c)),
    "an array twice": ((Call("dot", (y0, AT_A, AT_A), (A, A)),), lambda _x, _z, a, c, *_: (0, 0, 2 * a, 2 * c, 0, 0)),
    "an array twice, further down": (
        (Call("square", (y0, AT_B), (B,), True), Call("dot", (y0, AT_A, AT_B), (A, B))),
        lambda _x, _z, a, c, b, d: (0, 0, b, d, a - 2 * b, c - 2 * d),
    ),
}  # fmt: skip


@pytest.mark.parametrize("keep", [0, KEPT])
@pytest.mark.parametrize("name", CALLS)
def test_gradients_through_calls(name: str, keep: int, routes: ModuleType) -> None:
    body, closed_form = CALLS[name]
    module = ported(body, product(), power(), dot(), square(), stack=400)
    point = (1.125, -0.5, 0.75, 1.5, -1.25, 0.625)
    integer = 3 if "itself" in name else w.from_real(0)
    memory = [w.from_real(point[0]), w.from_real(point[1]), 0, integer, *(w.from_real(x) for x in point[2:])]
    inputs, outputs = [X, A, B], [Y]
    back = gradient(module, inputs, outputs, keep=keep)
    ran = Ran(back.module, with_shadows(back, memory, {2: ONE}))
    where = [0, 1, 4, 5, 6, 7]
    expected = closed_form(*point)
    assert [ran.real(i + back.offset) for i in where] == pytest.approx(expected, abs=1e-8)
    assert ran.memory[:8] == memory
    forth = dual(module, inputs, outputs, keep=keep)
    for i, slope in zip(where, expected, strict=True):
        tangent = Ran(forth.module, with_shadows(forth, memory, {i: ONE}))
        assert tangent.real(2 + forth.offset) == pytest.approx(slope, abs=1e-8)
    if keep:
        assert ran.turn_back() == ran.before
        assert tangent.turn_back() == tangent.before
    assert routes.compare(module, [X, Y, A, B], memory, keep=keep) == "ended"


def test_the_loss_is_read_and_its_cotangent_given() -> None:
    module = ported((Call("product", (y0, x0, x1)),), product())
    made = gradient(module, [X], [Y], loss=2, scale=5)
    ran = Ran(made.module, words([3 * ONE, 5 * ONE, 7 * ONE]))
    assert made.value is not None
    assert ran.real(made.value) == 22
    assert [ran.real(i + made.offset) for i in range(3)] == [5 * 32, 3 * 32, 32]
    assert ran.memory[:3] == [3 * ONE, 5 * ONE, 7 * ONE]


def test_what_is_not_between_inputs_and_outputs_is_not_active() -> None:
    module = ported((Call("product", (y0, x0, x1)), Call("dot", (y1, AT_A, AT_A), (A, A))), product(), dot())
    assert active_storage(module, [B], [Y]) == frozenset()
    assert active_storage(module, [X], [B]) == frozenset()
    active = active_storage(module, [A], [Y])
    assert {A, Y, y1} <= active
    assert not active & {X, x0, x1, B}


def test_shadows_of_an_array_given_twice_are_accessed_as_any_memory() -> None:
    """Two names of one region would tell the passes that accesses do not meet."""
    for body, meet in ((CALLS["an array twice"][0], True), (CALLS["two arrays"][0], False)):
        made = gradient(ported(body, dot()), [A, B], [Y])
        nodes = list(walk(made.module.procedures["dot.inverse.bar"].body))
        regions = {n.region for n in nodes if isinstance(n, Op) and n.imm == made.offset and n.opcode is TABLE["exch"]}
        assert len(regions) == (1 if meet else 2)
        assert (None in regions) == meet


# ---------------------------------------------------------------- what is too much


def deep() -> Procedure:
    """y += n·x², by way of an array on the stack."""
    n, y, x, base, t = Var("n"), Var("y", Kind.FIXED), Var("x", Kind.FIXED), Var("base", Kind.ADDRESS), Var("t")
    array = Region("local", 3)
    make: tuple[Node, ...] = (Local(base), op("mov.add", base, SP), op("mov.add", SP, Const(3)))
    fill = op("st.add", None, base, x, imm=1, region=array)
    load = (Local(t), op("ld.add", t, base, imm=1, region=array))
    use = (Within(load, (op("fmul.add", y, t, x),)), op("imm.sub", n, imm=1), Call("deep", (n, y, x)))
    test = When("ne", n, Const(0))
    body = (If(test, (Within((*make, fill), (*use, op("imm.add", n, imm=1))),), (), test),)
    return Procedure("deep", (n, y, x), (), body, frozenset({0, 1}), recursive=True)


@pytest.mark.parametrize("keep", [0, KEPT])
def test_arrays_on_the_stack_have_shadows(keep: int, routes: ModuleType) -> None:
    module = ported((Call("deep", (y1, y0, x0)),), deep(), stack=400)
    memory = [w.from_real(1.25), 0, 0, 7, 0, 0, 0, 0]
    made = gradient(module, [X], [Y], keep=keep)
    ran = Ran(made.module, with_shadows(made, memory, {2: ONE}))
    assert ran.real(made.offset) == pytest.approx(2 * 7 * 1.25, abs=1e-8)
    assert ran.memory[:8] == memory
    forth = dual(module, [X], [Y], keep=keep)
    assert Ran(forth.module, with_shadows(forth, memory, {0: ONE})).real(2 + forth.offset) == ran.real(made.offset)
    if keep:
        assert ran.turn_back() == ran.before
    assert routes.compare(module, [X, Y], memory, keep=keep) == "ended"


def test_the_stack_does_not_grow_into_the_shadows() -> None:
    """At every depth the gradient is right, or the call is refused: shadows above the stack are never overwritten."""
    module = ported((Call("deep", (y1, y0, x0)),), deep(), stack=200)
    made = gradient(module, [X], [Y])
    went: list[str | None] = []
    for depth in range(1, 80, 3):
        ran = Ran(made.module, with_shadows(made, [ONE, 0, 0, depth], {2: ONE}))
        went.append(ran.trap)
        if ran.trap is None:
            assert ran.real(made.offset) == 2 * depth
    enough = went.count(None)
    assert 4 <= enough < len(went)
    assert went == [None] * enough + ["RG0807"] * (len(went) - enough)


def test_more_is_kept_than_there_is_room_for() -> None:
    """Each pass frees a variable whose cotangent is not zero."""
    t, i = Var("t", Kind.FIXED), Var("i")
    step = Within((Local(t), op("fsin.add", t, x0)), (op("fmul.add", y0, t, x1),))
    module = ported((For(i, Const(0), y1, 1, (step,)),))
    for room, passes in ((1, 1), (5, 5), (40, 3), (5, 6), (1, 2), (8, 20)):
        # The variables of the words are freed too, with a cotangent that is known to be zero or is kept.
        made = gradient(module, [X], [Y], keep=room + held_back(module))
        ran = Ran(made.module, with_shadows(made, [ONE, ONE, 0, passes], {2: ONE}))
        assert ran.trap == (None if passes <= room else "RG0809"), (room, passes)
        if ran.trap is None:
            assert ran.turn_back() == ran.before


def held_back(module: Module) -> int:
    """How many words are kept by no pass at all."""
    made = gradient(module, [X], [Y], keep=100)
    kept = next(r for r in made.module.regions if r.name == "kept")
    assert kept.address is not None
    ran = Ran(made.module, with_shadows(made, [ONE, ONE, 0, 0], {2: ONE}))
    return ran.memory[kept.address]


# ---------------------------------------------------------------- derivatives of derivatives


def curve(name: str) -> Module:
    """y0 += f(x0)"""
    t, u, s = Var("t", Kind.FIXED), Var("u", Kind.FIXED), Var("s", Kind.LOGNUM)
    squared = (Local(t), op("fmul.add", t, x0, x0))
    above = (*squared, op("fmov.add", t, word(1)))
    match name:
        case "x³":
            return ported(
                (Within((Local(t), Call("product", (t, x0, x0))), (Call("product", (y0, t, x0)),)),), product()
            )
        case "x sin x":
            return ported((Within((Local(t), op("fsin.add", t, x0)), (op("fmul.add", y0, t, x0),)),))
        case "√(1 + x²)":
            return ported((Within(above, (op("fsqrt.add", y0, t),)),))
        case "log (1 + x²)":
            return ported((Within(above, (op("flog.add", y0, t),)),))
        case "eˣ / (1 + x²)":
            return ported((Within((*above, Local(u), op("fexp.add", u, x0)), (op("fdiv.add", y0, u, t),)),))
        case "atan 2x":
            return ported((Within((Local(t), op("fmov.add", t, word(0.5))), (op("fatan2.add", y0, x0, t),)),))
        case "√(1 + x²) by logarithms":
            made = (*above, Local(s), op("ftol.mul", s, t))
            return ported((Within(made, (Within((Local(u), op("ltof.add", u, s)), (op("fsqrt.add", y0, u),)),)),))
        case "x⁴, in a loop":
            i = Var("i")
            loop = For(i, Const(0), Const(2), 1, (Within(squared, (op("fmul.add", y0, t, t),)),))
            return ported((loop,))
        case "x², of a sum carried from pass to pass":
            i, j = Var("i"), Var("j")
            # What the first pass finds zero, the second does not.
            sums = For(i, Const(0), Const(2), 1, (op("fmul.add", y0, t, x0), op("fmov.add", t, x0)))
            undone = For(j, Const(0), Const(2), 1, (op("fmov.sub", t, x0),))
            return ported((Local(t), sums, undone, Delocal(t)))
        case "x², held elsewhere":
            return ported((Local(t), op("swap", t, x0), op("fmul.add", y0, t, t), op("swap", x0, t), Delocal(t)))
    raise AssertionError(name)


#: f', f''
CURVES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "x³": (lambda x: 3 * x * x, lambda x: 6 * x),
    "x sin x": (lambda x: math.sin(x) + x * math.cos(x), lambda x: 2 * math.cos(x) - x * math.sin(x)),
    "√(1 + x²)": (lambda x: x / math.sqrt(1 + x * x), lambda x: (1 + x * x) ** -1.5),
    "log (1 + x²)": (lambda x: 2 * x / (1 + x * x), lambda x: 2 * (1 - x * x) / (1 + x * x) ** 2),
    "eˣ / (1 + x²)": (
        lambda x: math.exp(x) * (x - 1) ** 2 / (1 + x * x) ** 2,
        lambda x: math.exp(x) * (x - 1) * (x**3 - 3 * x * x + 5 * x + 1) / (1 + x * x) ** 3,
    ),
    "atan 2x": (lambda x: 2 / (1 + 4 * x * x), lambda x: -16 * x / (1 + 4 * x * x) ** 2),
    "√(1 + x²) by logarithms": (lambda x: x / math.sqrt(1 + x * x), lambda x: (1 + x * x) ** -1.5),
    "x⁴, in a loop": (lambda x: 8 * x**3, lambda x: 24 * x * x),
    "x², of a sum carried from pass to pass": (lambda x: 2 * x, lambda _: 2),
    "x², held elsewhere": (lambda x: 2 * x, lambda _: 2),
}


def region_at(module: Module, address: int) -> Region:
    return next(r for r in module.regions if r.address == address)


Make = Callable[..., Differentiated]


def second(module: Module, first: str, then: str, keep: int, x: float) -> tuple[float, float]:
    """(f'(x), f''(x)): the derivative's program, differentiated."""
    #: of each: what is given a shadow of one, and where the derivative is found
    given = {"gradient": Y, "dual": X}
    found = {"gradient": X, "dual": Y}
    make: dict[str, Make] = {"gradient": gradient, "dual": dual}
    # A gradient's program runs what it differentiates backward: nothing may be erased there.
    inner_made = make[first](module, [X], [Y], keep=KEPT if then == "gradient" else keep)
    slope = region_at(inner_made.module, found[first].address + inner_made.offset)  # type: ignore[operator]
    # Back from the slope to x, or forth from x to the slope.
    outer = make[then](inner_made.module, [X], [slope], keep=keep)
    memory = {0: w.from_real(x), given[first].address + inner_made.offset: ONE}  # type: ignore[operator]
    assert slope.address is not None
    start, end = (slope.address, 0) if then == "gradient" else (0, slope.address)
    ran = Ran(outer.module, memory | {start + outer.offset: ONE})
    assert ran.trap is None
    derivative = ran.real(end + outer.offset)
    if keep:
        assert ran.turn_back() == ran.before
    # The gradient of a program leaves its values as they were before.
    plain = Ran(inner_made.module, memory)
    return plain.real(slope.address), derivative


@pytest.mark.parametrize("keep", [KEPT, 0])
@pytest.mark.parametrize(
    ("first", "then"), [("gradient", "dual"), ("dual", "gradient"), ("dual", "dual"), ("gradient", "gradient")]
)
@pytest.mark.parametrize("name", CURVES)
def test_second_derivatives(name: str, first: str, then: str, keep: int) -> None:
    module = curve(name)
    slope, bend = CURVES[name]
    for x in (0.75, -1.25):
        assert second(module, first, then, keep, x) == pytest.approx((slope(x), bend(x)), abs=2e-7)


def test_the_gradient_of_a_program_that_erases_traps() -> None:
    forth = dual(curve("x sin x"), [X], [Y])
    back = gradient(forth.module, [X], [region_at(forth.module, 2 + forth.offset)])
    assert Ran(back.module, {0: ONE, forth.offset: ONE}).trap == "RG0409"


# ---------------------------------------------------------------- control: the laws can fail


def test_a_wrong_tangent_is_caught(monkeypatch: pytest.MonkeyPatch, routes: ModuleType) -> None:
    def wrong(opcode: Opcode, form: Format) -> Shadows:
        found = tangents(opcode, form)
        if opcode.entry.name != "fcos":
            return found
        return Shadows(tuple(s for s in found.steps if not isinstance(s, LinearUpdate)), found.after)

    monkeypatch.setattr(lifting, "tangents", wrong)
    with pytest.raises(AssertionError):
        test_the_dual_is_the_transpose_of_the_gradient(0, routes)
    with pytest.raises(AssertionError):
        test_tangents_are_differences(0)
