"""Random programs on the engines, beside an interpreter of the source: stores, lines, traps, and the way back."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.janus.parser import read
from retrograd.compiler.frontends.janus.syntax import inverted, program_text
from retrograd.isa.words import Format

from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction, run

#: the kinds of faults of the interpreter, and their codes
CODES = {
    "condition": "RG0803", "delocal": "RG0802", "index": "RG0801", "alias": "RG0805", "stack": "RG0806", "assert": "RG0804",
    "division": "RG0402", "power": "RG0810", "exact": "RG0816",
}  # fmt: skip
#: faults of operands
OPERANDS = {"RG0402", "RG0801", "RG0805", "RG0806", "RG0810"}
ENGINES = ("reference", "native", "native", "native", "translated")


@pytest.fixture(scope="module")
def random_source(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/random_source.py")


@pytest.fixture(scope="module")
def source_interpreter(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/source_interpreter.py")


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, (tuple, list)) else value


def compare(text: str, seed: int, interpreter: ModuleType, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a program twice. Returns the code of the trap in which it ends, or nothing; `long` if it was not run."""
    tree = read(text, f"program {seed}")
    assert read(program_text(tree), "printed") == tree, seed
    assert inverted(inverted(tree)) == tree, seed
    width = (64, 32)[seed % 2]
    model = interpreter.Interpreter(tree, width)
    try:
        wanted, code, line = model.run(), "", 0
    except interpreter.Halt as halt:
        if str(halt) == "long":
            return "long"
        wanted, code, line = None, CODES[str(halt)], halt.line
    f = JanusFunction(tree, "main", Format(width, 0), Options(level=seed // 2 % 2))
    # Level 1 may leave out a quotient that nothing needs.
    unneeded = code == "RG0402" and f.options.level == 1
    capsys.readouterr()
    trapped: ProgramTrap | None = None
    try:
        found = run(f, engine=ENGINES[seed % 5])
    except ProgramTrap as trap:
        trapped = trap
    if trapped is not None:
        found_trap = trapped.diagnostics[0]
        # Of two faults in the operands of one statement, either may come first.
        together = {code, found_trap.code} <= OPERANDS and found_trap.span is not None and found_trap.span.line == line
        assert found_trap.code == code or unneeded or together, (seed, str(trapped))
        machine = trapped.machine
    elif unneeded:
        return code
    else:
        assert code == "", seed
        assert {name: plain(v) for name, v in found.values._asdict().items()} == wanted, seed
        assert capsys.readouterr().out.split("\n")[:-1] == model.lines, seed
        machine = found.machine
    machine.turn()
    machine.run()
    assert machine.erased_bits == 0
    assert not any(machine.memory[:]), seed
    return code


def test_random_programs(
    random_source: ModuleType, source_interpreter: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = Counter(compare(random_source.generate(seed), seed, source_interpreter, capsys) for seed in range(16))
    assert codes[""] > 9
    assert len(codes) > 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 100))
def test_many_random_programs(
    first: int, random_source: ModuleType, source_interpreter: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(first, first + 100):
        compare(random_source.generate(seed), seed, source_interpreter, capsys)
