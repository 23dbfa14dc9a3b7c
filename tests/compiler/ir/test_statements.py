"""The reversible IR: inverses of statements."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from retrograd.compiler.ir.statements import (
    CONDITIONS,
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Procedure,
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
