"""Location lists: where a statement begins, each live variable is in the place that the program names, with the value of the interpreter."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.ir.statements import SP, Block, Module, Node, Op, Var
from retrograd.compiler.ir.traversal import bodies, map_blocks, map_bodies, operands_of, walk
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.semantics import Fault

from retrograd.observe._variables import live, point_of

#: random modules in the default tier, and in the full one
QUICK, SLOW, CHUNK = 60, 4_000, 200

#: name of a variable -> its word
State = dict[str, int]


def interpreted(interpreter: ModuleType, module: Module, memory: list[int]) -> tuple[list[State], Module]:
    """(the variables before each data statement, by the interpreter; the module with a source that has their unique names)."""
    states: list[State] = []
    names: dict[Var, str] = {}

    class Traced(interpreter._Interpreter):  # type: ignore[name-defined, misc]
        def op(self, node: Op) -> None:
            for var in self.variables:
                if var is not SP and var not in names:
                    names[var] = var.name = f"v{len(names)}"
                    var.span = None
            states.append({var.name: word for var, word in self.variables.items() if var is not SP})
            super().op(node)

    words = [*memory, *[0] * (module.memory + module.stack - len(memory))]
    run: Any = Traced(module, interpreter.Run(words, module.stack))
    run.variables = {SP: module.memory}
    with suppress(Fault):
        run.block(module.entry)
    return states, replace(module, files=("names",), texts=((" ".join(names.values()),),))


def distinct(block: Block) -> Block:
    """The block with an object of its own for each operation, so that operations are distinguished by identity."""
    return map_blocks(block, lambda b: tuple(node._replace() if isinstance(node, Op) else node for node in b))


def executed(module: Module, memory: list[int], most: int) -> list[State]:
    """The variables by the location lists, before each data statement that the reference machine begins."""
    emitted = emit(map_bodies(module, distinct))
    machine = Machine(emitted.program)
    machine.load(0, memory)
    states: list[State] = []
    before: tuple[Node | None, int] = None, 0
    while len(states) < most:
        origin = emitted.origins[machine.pc] if not machine.br else None
        same = origin is before[0] and machine.direction == before[1]
        if isinstance(origin, Op) and not same:
            found = live(emitted.program, point_of(machine))
            states.append({v.name: (machine.memory if v.memory else machine.registers)[v.number] for v in found})
        before = origin, machine.direction
        try:
            if not machine.step():
                break
        except Trap:
            break
    return states


def check(interpreter: ModuleType, random_ir: ModuleType, seed: int) -> int:
    case = random_ir.generate(seed)
    if any(SP in operands_of(node) for body in bodies(case.module) for node in walk(body)):
        return 0  # the interpreter's stack has other addresses
    expected, module = interpreted(interpreter, case.module, case.memory)
    found = executed(module, case.memory, len(expected))
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        where = f"generate({seed}), statement {number}"
        assert {name: mine.get(name) for name in theirs} == theirs, where
        # A variable that has just ended, or is about to begin, is zero.
        assert not any(word for name, word in mine.items() if name not in theirs), where
    return len(found)


@pytest.mark.parametrize("first", range(0, QUICK, 30))
def test_variables_are_where_the_program_says(interpreter: ModuleType, random_ir: ModuleType, first: int) -> None:
    assert sum(check(interpreter, random_ir, seed) for seed in range(first, first + 30)) > 100


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, CHUNK))
def test_variables_are_where_the_program_says_at_length(
    interpreter: ModuleType, random_ir: ModuleType, first: int
) -> None:
    for seed in range(first, first + CHUNK):
        check(interpreter, random_ir, seed)
