"""The optimiser: each pass on small examples with the IR that is expected, and all of them on random programs.

What holds of every pass: memory ends as it ended without, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.ir.instruction_selection import code_size
from retrograd.compiler.ir.statements import (
    Block,
    Call,
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
from retrograd.compiler.ir.value_numbering import StructuralKeys
from retrograd.compiler.passes.inlining import inline_calls
from retrograd.compiler.passes.loop_unrolling import unroll_loops
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

w = Format(64, 32)
ONE = Const(1 << 32)
Pass = Callable[[Module], Module]


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def fixed(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name, Kind.FIXED) for name in names)


def ints(*names: str) -> tuple[Var, ...]:
    return tuple(Var(name) for name in names)


def module(*entry: Node, procedures: tuple[Procedure, ...] = (), memory: int = 64, **more: object) -> Module:
    return Module(entry, {p.name: p for p in procedures}, (), memory, **more)  # type: ignore[arg-type]


def after(run: Pass, *entry: Node, **more: object) -> Block:
    return run(module(*entry, **more)).entry  # type: ignore[arg-type]


def same(got: Block, *expected: Node) -> bool:
    """Equal up to the names of locals."""
    return StructuralKeys().block(got) == StructuralKeys().block(expected)


x, y, z, u, v = fixed("x", "y", "z", "u", "v")
i, j, k, n = ints("i", "j", "k", "n")
t, s, r = fixed("t", "s", "r")
A, B = Region("a", 8, 0), Region("b", 8, 8)


def loads(t: Var, at: Operand = i, region: Region = A, imm: int = 0) -> tuple[Node, ...]:
    return Local(t), op("ld.add", t, at, region=region, imm=imm)


# ---------------------------------------------------------------- inline


def doubling(recursive: bool = False) -> Procedure:
    p, q, temporary = fixed("p", "q", "m")
    body = (Within((Local(temporary), op("fmul.add", temporary, q, q)), (op("fmov.add", p, temporary),)),)
    return Procedure("f", (p, q), (), body, frozenset({0}), recursive)


def test_inline_takes_in_a_large_procedure_that_is_called_once_and_only_once() -> None:
    (p,) = fixed("p")
    large = Procedure("f", (p,), (), (op("neg", p),) * 50, frozenset({0}))
    once = module(Call("f", (x,)), procedures=(large,))
    assert code_size(inline_calls(once).entry) == 50
    assert after(inline_calls, Call("f", (x,)), Call("f", (y,)), procedures=(large,)) == (
        Call("f", (x,)),
        Call("f", (y,)),
    )
    # What is computed is uncomputed: that makes two.
    computed = module(Within((Call("f", (x,)),), ()), procedures=(large,))
    assert code_size(inline_calls(computed).entry) == 100
    assert code_size(inline_calls(computed, largest_twice=40).entry) == 2


def test_inline_brings_no_large_body_into_a_recursive_procedure() -> None:
    (p,), (q,) = fixed("p"), fixed("q")
    large = Procedure("large", (p,), (), (op("neg", p),) * 50, frozenset({0}))
    again = Procedure("again", (q,), (), (Call("large", (q,)), Call("again", (q,))), frozenset({0}), recursive=True)
    assert inline_calls(module(Call("again", (x,)), procedures=(large, again))).procedures["again"] == again


def test_inline_is_not_exponential() -> None:
    (p,) = fixed("p")
    chain = [Procedure("f0", (p,), (), (op("neg", p),), frozenset({0}))]
    for depth in range(1, 30):
        twice = (Call(f"f{depth - 1}", (p,)),) * 2
        chain.append(Procedure(f"f{depth}", (p,), (), twice, frozenset({0})))
    got = inline_calls(module(Call("f29", (x,)), procedures=tuple(chain)))
    assert sum(code_size(p.body) for p in got.procedures.values()) + code_size(got.entry) < 2000


# ---------------------------------------------------------------- rename apart


# ---------------------------------------------------------------- fold constants


# ---------------------------------------------------------------- reduce strength


# ---------------------------------------------------------------- forward_substitute


# ---------------------------------------------------------------- cancel pairs


# ---------------------------------------------------------------- share temporaries


def writer() -> Procedure:
    (p,) = fixed("p")
    return Procedure("f", (p,), (), (op("neg", p),), frozenset({0}))


def replace_last(loop: For, *more: Node) -> For:
    return loop._replace(body=(*loop.body, *more))


# ---------------------------------------------------------------- drop dead


# ---------------------------------------------------------------- unroll


def test_unroll_leaves_long_loops() -> None:
    long = For(i, Const(0), Const(13), 1, (op("mov.add", n, i),))
    large = For(i, Const(0), Const(3), 1, (op("mov.add", n, k),) * 60)
    unknown = For(i, Const(0), k, 1, (op("mov.add", n, i),))
    assert after(unroll_loops, long, large, unknown) == (long, large, unknown)


@pytest.mark.parametrize("passes", [8, 9, 12, 13])
@pytest.mark.parametrize(("others", "share"), [(0, 0.75), (8, 0.27), (9, 0.25), (10, 0.23)])
def test_unroll_weighs_the_instructions_that_vanish(passes: int, others: int, share: float) -> None:
    """Of the three instructions that control a loop and the others of a pass, at least a quarter, for more than eight passes."""
    loop = For(i, Const(0), Const(passes), 1, (op("mov.add", n, i), *(op("mov.add", n, k),) * others))
    got = after(unroll_loops, loop)
    assert (got != (loop,)) == (passes == 8 or (passes <= 12 and round(3 / (4 + others), 2) >= 0.25))
    assert round(3 / (4 + others), 2) == pytest.approx(share, abs=0.021)


def test_unroll_counts_what_becomes_constant() -> None:
    """A test, an integer that depends on the variable only, and a load from a constant array. Another load does not count."""
    others = (op("mov.add", n, k),) * 12
    constant, other = (Region("table", 9, 20, data) for data in (tuple(range(9)), None))

    def unrolled(*body: Node) -> bool:
        loop = For(i, Const(0), Const(9), 1, (*body, *others))
        return after(unroll_loops, loop) != (loop,)

    used = (op("mov.add", n, t),)
    assert unrolled(If(When("eq", i, Const(4)), (), (), When("eq", i, Const(4))))
    assert unrolled(Within((Local(t), op("mul.add", t, i, i)), used))
    assert unrolled(Within((Local(t), op("ld.add", t, i, region=constant, imm=20)), used))
    assert not unrolled(Within((Local(t), op("ld.add", t, i, region=other, imm=20)), used))
    assert not unrolled()


def test_unrolling_is_bounded() -> None:
    loops = tuple(For(i, Const(0), Const(10), 1, (op("mov.add", n, i),) * 4) for _ in range(100))
    got = after(unroll_loops, *loops)
    left = sum(isinstance(node, For) for node in got)
    # Each adds nine times four instructions to the 2000 that a program may grow by.
    assert left == 100 - 2000 // 36


# ---------------------------------------------------------------- erase routines


def erased(var: Var) -> tuple[Node, Node]:
    return op("erase", var), Delocal(var)


# ---------------------------------------------------------------- the pipeline


def test_the_pipeline_shows_each_step() -> None:
    seen: list[str] = []
    m = module(Call("f", (x, y)), procedures=(doubling(),))
    got = pipeline.optimise(m, observe=lambda name, _: seen.append(name))
    assert seen == [name for name, _ in pipeline.PASSES]
    assert same(got.entry, op("fmul.add", x, y, y))
    assert pipeline.optimise(m, 0) is m
    with pytest.raises(ValueError, match="no level 7"):
        pipeline.optimise(m, 7)
