"""The reversible IR: inverses of statements, and the text that people read."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from retrograd.compiler.ir.printer import as_text, block_text
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
    Procedure,
    Region,
    Var,
    While,
    Within,
    children,
    fits_immediate,
    invert,
    invert_node,
    with_children,
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.semantics import Fault

SEEDS = range(100)


def every_node(block: Block) -> Iterator[Node]:
    for node in block:
        yield node
        for inside in children(node):
            yield from every_node(inside)


def blocks_of(module: Module) -> Iterator[Block]:
    yield module.entry
    yield from (p.body for p in module.procedures.values())


# ---------------------------------------------------------------- inverses


def test_random_modules_hold_every_kind_of_statement(random_ir: ModuleType) -> None:
    modules = [random_ir.generate(seed).module for seed in SEEDS]
    kinds = {type(node) for m in modules for block in blocks_of(m) for node in every_node(block)}
    assert kinds == {Op, Local, Delocal, Within, If, While, For, Call, Check, External}


@pytest.mark.parametrize("seed", range(20))
def test_inverting_twice_gives_the_block_back(random_ir: ModuleType, seed: int) -> None:
    for block in blocks_of(random_ir.generate(seed).module):
        assert invert(invert(block)) == block
        assert [type(n) for n in every_node(invert(invert(block)))] == [type(n) for n in every_node(block)]


def test_the_inverse_run_after_the_program_restores_memory(interpreter: ModuleType, random_ir: ModuleType) -> None:
    completed = 0
    for seed in SEEDS:
        case = random_ir.generate(seed)
        try:
            after = interpreter.interpret(case.module, case.memory).memory
        except Fault:
            continue
        completed += 1
        assert interpreter.interpret(~case.module, after).memory[: case.module.memory] == case.memory, f"seed {seed}"
    assert completed > 0.7 * len(SEEDS)


def test_children_are_put_back_where_they_were(random_ir: ModuleType) -> None:
    for block in blocks_of(random_ir.generate(3).module):
        for node in every_node(block):
            assert with_children(node, children(node)) == node


def test_a_procedure_and_a_call_invert_apart_from_each_other() -> None:
    x = Var("x")
    p = Procedure("p", (x,), (), (Op(TABLE["imm.add"], x, imm=1),), frozenset({0}))
    assert (~p).body == (Op(TABLE["imm.sub"], x, imm=1),)
    assert (~p).written == p.written
    assert invert_node(Call("p", (x,))) == Call("p", (x,), backward=True)


@pytest.mark.parametrize("cc", CONDITIONS)
def test_a_test_negated_twice_is_itself(cc: str) -> None:
    test = When(cc, Const(1), Const(2))
    assert test.negated().negated() == test


def test_what_fits_an_instruction_fits_its_inverse() -> None:
    assert fits_immediate((1 << 31) - 1)
    assert not fits_immediate(1 << 31)
    assert not fits_immediate(-(1 << 31))


# ---------------------------------------------------------------- text


def complex_log() -> Procedure:
    re, im, x, y = (Var(name, Kind.FIXED) for name in ("re", "im", "x", "y"))
    n = Var("n", Kind.FIXED)
    compute = (Local(n), Op(TABLE["fmul.add"], n, x, x), Op(TABLE["fmul.add"], n, y, y))
    body = (Op(TABLE["flog.add"], re, n), Op(TABLE["fatan2.add"], im, y, x))
    return Procedure("complex_log", (re, im, x, y), (), (Within(compute, body, "r"),), frozenset({0, 1}))


def test_a_procedure_reads_as_it_was_meant() -> None:
    module = Module((), {"complex_log": complex_log()}, memory=4)
    assert as_text(module) == (
        "format Q32.32\n"
        "memory 4\n"
        "\n"
        "procedure complex_log(re: fixed, im: fixed, x: fixed, y: fixed)  ; changes re, im\n"
        "  within r\n"
        "    local n: fixed\n"
        "    fmul.add n, x, x\n"
        "    fmul.add n, y, y\n"
        "  do\n"
        "    flog.add re, n\n"
        "    fatan2.add im, y, x\n"
        "\n"
        "entry\n"
    )


def test_every_statement_has_a_line() -> None:
    x, other, i = Var("x"), Var("x"), Var("i")
    f = Var("f", Kind.FIXED)
    table = Region("table", 4, 8, (1, 2, 1 << 40, (1 << 64) - 5))
    array = Region("a", 3)
    block: Block = (
        Local(x, checked=True),
        Local(other),
        Op(TABLE["mov.add"], x, Const(-1 & (1 << 64) - 1)),
        Op(TABLE["mov.sub"], f, Const(3 << 31)),
        Op(TABLE["fmov.add"], f, Const(1)),
        Op(TABLE["ld.add"], x, Const(9), region=table),
        Op(TABLE["ld.add"], f, x, imm=8, region=table),
        Op(TABLE["st.xor"], None, x, other, 1, region=array),
        Op(TABLE["exch"], x, SP, imm=-2),
        If(When("lt", x, Const(5)), (External(2),), (Op(TABLE["neg"], x),), When("geu", x, other)),
        While(When("ne", x, Const(0)), (Op(TABLE["roli"], x, imm=3),), When("eq", other, Const(0))),
        For(i, Const(0), x, 2, (Call("g", (x, Const(7)), (array,), backward=True),), some=True),
        For(i, Const(0), x, 1, (), backward=True),
        Check(When("ltu", f, Const(1 << 32)), "RG0801", "too large"),
        Delocal(other, checked=True),
    )
    assert block_text(block).splitlines() == [
        "local x: int  ; checked",
        "local x.2: int",
        "mov.add x, -1",
        "mov.sub f, 1.5q",
        "fmov.add f, 2.3283064365386963e-10q",
        "ld.add x, table[1]",
        "ld.add f, table[x]",
        "st.xor [x + 1] of a, x.2",
        "exch x, [sp - 2]",
        "if x < 5",
        "  external 2",
        "else",
        "  neg x",
        "fi x ≥ᵤ x.2",
        "while x ≠ 0",
        "  roli x, 3",
        "again x.2 = 0",
        "for i in range(0, x, 2)  ; at least once",
        "  uncall g(x, 7, a)",
        "for i in reversed(range(0, x))",
        "check f <ᵤ 1q  ; RG0801 too large",
        "delocal x.2  ; checked",
    ]
    head = as_text(Module((), {}, (table, array), 12, 5, Format(64, 32)))
    assert head.splitlines()[:4] == [
        "format Q32.32",
        "memory 12, stack 5",
        "region table[4] at 8 = 1, 2, 0x10000000000, -5",
        "region a[3]",
    ]


@pytest.mark.parametrize("seed", range(10))
def test_the_text_is_the_same_each_time(random_ir: ModuleType, seed: int) -> None:
    module = random_ir.generate(seed).module
    assert as_text(module) == as_text(random_ir.generate(seed).module)
