"""The builder of LLVM IR: its text, what it refuses, and that what it builds computes what it should."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from retrograd.simulator.engines.llvm.builder import (
    DOUBLE,
    I1,
    I8,
    I64,
    I128,
    POINTER,
    VOID,
    FunctionBuilder,
    IllTyped,
    ModuleBuilder,
    Operand,
    Type,
    Value,
    bits_of,
    integer,
    pointer,
    structure,
)
from retrograd.simulator.engines.llvm.instructions import stack_accesses, with_locations
from retrograd.simulator.engines.llvm.jit import jit_compiler


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROGRAD_CACHE", "")


def made(*types: Type, result: Type = I64, module: ModuleBuilder | None = None) -> FunctionBuilder:
    """An exported function of arguments of these types."""
    parameters = {f"a{k}": t for k, t in enumerate(types)}
    return (module or ModuleBuilder()).function("f", result, parameters, linkage="")


def run(f: FunctionBuilder, *arguments: int) -> int:
    """What the finished function returns for words."""
    text = f.module.text()
    address = jit_compiler().load(text, ("f",), lambda: text, 1)["f"]
    kinds = [ctypes.c_int64] * len(arguments)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(address)(*arguments))


def instructions(f: FunctionBuilder) -> list[str]:
    return [line.strip() for line in f.lines]


# ---------------------------------------------------------------- types


def test_types_are_interned() -> None:
    assert integer(64) is I64
    assert I64.vector(4) is I64.vector(4)
    assert I64.vector(4).vector(1) is I64
    assert I64.twice is I128
    assert I64.vector(4).twice is I128.vector(4)
    assert DOUBLE.vector(2).truth is I1.vector(2)
    assert pointer(0) is POINTER
    assert structure(I64, I1) is structure(I64, I1)
    assert str(structure(I64.vector(2), I1)) == "{ <2 x i64>, i1 }"


def test_constants_are_taken_modulo() -> None:
    assert [I8.constant(v) for v in (255, -1, 128, 256)] == ["-1", "-1", "-128", "0"]
    assert [I1.constant(v) for v in (0, 1, -1)] == ["false", "true", "true"]
    assert I64.vector(2).constant(5) == "splat (i64 5)"
    assert DOUBLE.constant(1.5) == f"0x{bits_of(1.5):016X}"
    with pytest.raises(IllTyped):
        POINTER.constant(0)


# ---------------------------------------------------------------- values

OPERATIONS: list[tuple[Callable[[Value, Operand], Value], Callable[[int, int], int]]] = [
    (lambda x, y: x + y, lambda x, y: x + y),
    (lambda x, y: x - y, lambda x, y: x - y),
    (lambda x, y: x * y, lambda x, y: x * y),
    (lambda x, y: x & y, lambda x, y: x & y),
    (lambda x, y: x | y, lambda x, y: x | y),
    (lambda x, y: x ^ y, lambda x, y: x ^ y),
    (lambda x, y: x << y, lambda x, y: x << y),
    (lambda x, y: x.shr(y), lambda x, y: x % 2**64 >> y),
    (lambda x, y: x.sar(y), lambda x, y: x >> y),
    (lambda x, y: x.udiv(y), lambda x, y: x % 2**64 // y),
    (lambda x, y: x.sdiv(y), lambda x, y: abs(x) // y * (1 if x > 0 else -1)),
    (lambda x, y: ~x, lambda x, y: ~x),
    (lambda x, y: -x, lambda x, y: -x),
    (lambda x, y: x.eq(y), lambda x, y: x == y),
    (lambda x, y: x.ne(y), lambda x, y: x != y),
    (lambda x, y: x.lt(y), lambda x, y: x < y),
    (lambda x, y: x.gt(y), lambda x, y: x > y),
    (lambda x, y: x.ltu(y), lambda x, y: x % 2**64 < y),
    (lambda x, y: x.leu(y), lambda x, y: x % 2**64 <= y),
    (lambda x, y: x.gtu(y), lambda x, y: x % 2**64 > y),
    (lambda x, y: x.geu(y), lambda x, y: x % 2**64 >= y),
    (lambda x, y: x.lt(y).select(x, y), lambda x, y: x if x < y else y),
    (lambda x, y: x.lt(y).select(1, x), lambda x, y: 1 if x < y else x),
    (lambda x, y: x.to(I8).to(I64), lambda x, y: x % 256),
    (lambda x, y: x.to(I8).to(I64, "sext"), lambda x, y: (x + 128) % 256 - 128),
    (lambda x, y: x.to(I128).shr(1).to(I64), lambda x, y: x % 2**64 >> 1),
    (lambda x, y: x.splat(4).lane(2), lambda x, y: x),
    (lambda x, y: x.code.pack(x, x.eq(x)).part(0), lambda x, y: x),
    (lambda x, y: x.convert("sitofp", DOUBLE).convert("fptosi", I64), lambda x, y: x),
    (lambda x, y: (x.convert("sitofp", DOUBLE) / 2.0).convert("bitcast", I64), lambda x, y: bits_of(x / 2)),
    (lambda x, y: x.code.intrinsic("fshr", x, x, x.code.constant(I64, 8)), lambda x, y: x % 2**64 * (2**64 + 1) >> 8),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@pytest.mark.parametrize("constant", [False, True])
def test_operations(number: int, constant: bool) -> None:
    build, mean = OPERATIONS[number]
    for x, y in ((7, 3), (-7, 3), (3, 7), (-(2**63), 1)):
        f = made(I64, I64)
        f.ret(build(f.arguments[0], y if constant else f.arguments[1]).to(I64))
        assert run(f, x, y) % 2**64 == mean(x, y) % 2**64


def test_lanes_are_independent() -> None:
    f = made(I64)
    x = f.arguments[0].splat(4) + f.vector(range(4), I64)
    chosen = x.lt(10).select(x * 2, 0)
    f.ret(chosen.lane(0) + chosen.lane(3) * 1000)
    assert run(f, 8) == 16
    assert run(f, 2) == 4 + 10 * 1000


def test_operands_of_other_types_are_refused() -> None:
    f = made(I64, I8, POINTER, DOUBLE)
    x, small, p, real = f.arguments
    wrong: list[Callable[[], Any]] = [
        lambda: x + small, lambda: small.eq(x), lambda: x & real, lambda: p.of(I64).store(small), lambda: p + p,
        lambda: x.select(x, x), lambda: x.eq(0).select(x, small), lambda: x.eq(0).select(1, 0), lambda: f.ret(small),
        lambda: x.splat(2) + x, lambda: x.splat(2).eq(x.splat(2)).select(x, x), lambda: real.to(I8),
        lambda: f.branch(x, f.block("a"), f.block("b")), lambda: f.call(f.callee, x), lambda: f.call(f.callee, *[x] * 4),
        lambda: bool(x), lambda: x.of(I64).load() + small,
    ]  # fmt: skip
    for build in wrong:
        with pytest.raises(IllTyped):
            build()


def test_what_a_block_has_computed_is_not_computed_again() -> None:
    f = made(I64)
    (x,) = f.arguments
    p = f.variable(I64, "p", 1)
    assert x + 1 is x + 1
    assert p.load() is not p.load()
    first = x + 1
    f.start(f.block("next"))
    assert x + 1 is not first
    second = x + 1
    f.start(f.block("kept"), keep=True)
    assert x + 1 is second


# ---------------------------------------------------------------- memory, calls, control


def test_memory() -> None:
    f = made(POINTER, result=VOID)
    words = f.arguments[0].of(I64)
    words[1].store(words[0].load() + 5)
    words[1].add(1)
    words[2].store(words.load(volatile=True), 8)
    words[3].atomic_add(f.constant(I64, 9))
    f.ret()
    text = f.module.text()
    array = (ctypes.c_int64 * 4)(1, 2, 3, 4)
    address = jit_compiler().load(text, ("f",), lambda: text, 1)["f"]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(array))
    assert list(array) == [1, 7, 1, 13]


def test_a_table_is_defined_once() -> None:
    module = ModuleBuilder()
    assert module.table([1, -1], I8) == module.table([1, 255], I8)
    assert module.text().count("constant [2 x i8] [i8 1, i8 255]") == 1
    spaced = ModuleBuilder(tables=4)
    spaced.table([1], I8)
    assert "addrspace(4) constant" in spaced.text()


def test_calls() -> None:
    module = ModuleBuilder()
    g = module.function("g", I64, {"x": I64}, "nounwind willreturn memory(none)")
    g.ret(g.arguments[0] * 3)
    f = made(I64, module=module)
    (x,) = f.arguments
    assert f.call(g.callee, x) is f.call(g.callee, x)
    f.ret(f.call(g.callee, x) + f.call(g.callee, 2))
    assert run(f, 5) == 21
    impure = module.declare("outside", I64, I64, pure=False)
    assert f.call(impure, x) is not f.call(impure, x)


def test_control_flow() -> None:
    """Σ k over the odd k below a number, counted in a loop."""
    f = made(I64)
    total = f.variable(I64, "total", 0)
    with f.loop(f.arguments[0]) as k, f.when((k & 1).ne(0), likely=True):
        total.add(k)
    f.ret(total.load())
    assert run(f, 10) == 25
    assert run(f, 0) == 0
    assert ", !prof !0" in f.module.text()


def test_switch_and_phi() -> None:
    f = made(I64)
    one, two, other, end = map(f.block, ("one", "two", "other", "end"))
    f.switch(f.arguments[0], other, [(1, one), (2, two)])
    for block in (one, two, other):
        f.start(block)
        f.jump(end)
    f.start(end)
    f.ret(f.phi((10, one), (20, two), (-1, other), type_=I64))
    assert [run(f, k) for k in (1, 2, 3)] == [10, 20, -1]


def test_labels_are_told_apart() -> None:
    f = made(I64)
    assert f.block("a") != f.block("a")
    assert f.variable(I64, "x").name != f.variable(I64, "x").name


def test_all_and_any() -> None:
    for some in ((), (True,), (True, False), (False, False)):
        for name, mean in (("all", all), ("any", any)):
            f = made(I64)
            zero = f.arguments[0].eq(0)
            truths: Iterator[Value] = (zero if holds else ~zero for holds in some)
            f.ret(getattr(f, name)(truths).to(I64))
            assert run(f, 0) == mean(some)


# Instructions of functions that were built: accesses of the stack, and places.

ASSEMBLY = """
f:
\t.loc\t1 0 0
\tmovq\t8(%rsp), %rax
\t.loc\t1 5 0
\tleaq\t16(%rsp), %rcx
\tmovq\t(%rbx), %rax
\taddq\t%rax, 24(%rsp)
\tpushq\t%rbx
\t.loc\t1 8 0 is_stmt 0
\tmovq\t%rax, (%rsp)
\t.cfi_endproc
g:
\tmovq\t%rax, (%rsp)
"""


def test_each_access_belongs_to_the_line_before_or_at_the_top_of_a_block_to_the_next() -> None:
    assert stack_accesses(ASSEMBLY, "x86_64") == {4: 2, 7: 1}
    assert stack_accesses("\t.loc 1 3 0\n\tstr x0, [sp, #8]\n\tadd x0, sp, #8", "aarch64") == {2: 1}
    assert stack_accesses(ASSEMBLY, "vax") is None


def test_instructions_have_the_places_of_their_lines() -> None:
    module = ModuleBuilder()
    code = module.function("f", I64, {"x": I64})
    (x,) = code.arguments
    sums = []
    for place in (3, 4):
        code.places.append((len(code.lines), place))
        sums.append(x + place)
    code.ret(sums[0] * sums[1])
    lines = [line for line in with_locations(module, "f").splitlines() if line.startswith("  ")]
    first, second, third, end = (line.partition(" !dbg ")[2] for line in lines)
    assert first != second == third == end
    text = with_locations(module, "f")
    assert f"{first} = !DILocation(line: 4," in text
    assert f"{second} = !DILocation(line: 5," in text
