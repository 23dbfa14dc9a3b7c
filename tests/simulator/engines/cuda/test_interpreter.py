"""The interpreter of devices, in lockstep with the reference machine: its source runs as plain Python, thread by thread.

Equal are words, cotangents, PC, BR, DIR, traps to the letter, counts in both directions, bits dropped and erased. test_simulated.py runs the
same source in the CUDA simulator, and test_program_source.py in machine code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.isa.encoding import Instruction, encode, inverse
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.interpreter import (
    EXTRA_ROWS,
    FIRST_HANDLER,
    HANDLERS,
    Modes,
    all_opcodes,
    cases,
    decoded,
    interpreter_source,
    machine_source,
    may_be_same,
    row_of,
)
from support import generator, interpreted_machine

import retrograd as rg

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

#: programs in the default tier; in the full tier, in pieces that can run side by side
PROGRAMS, SLOW, SLOW_CHUNK = 30, 2000, 100


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Nothing is skipped here: each test runs once in the full tier, too."""


@pytest.fixture(scope="session")
def engines(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("tests/simulator/engines/test_engines.py")


@pytest.fixture(scope="session")
def make() -> Callable[..., rg.Machine]:
    return partial(interpreted_machine.InterpretedMachine, resumes=cache(interpreted_machine.plain))


def play(seeds: Iterable[int], engines: ModuleType, make: Any) -> Counter[str]:
    traps: Counter[str] = Counter()
    for seed in seeds:
        with engines.told(seed):
            traps.update(engines.play(make, generator.generate(seed)).traps)
    return traps


@pytest.mark.long
def test_programs(engines: ModuleType, make: Any) -> None:
    traps = play(range(PROGRAMS), engines, make)
    assert {"RG0401", "RG0404"} <= set(traps)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many(first: int, engines: ModuleType, make: Any) -> None:
    play(range(10_000 + first, 10_000 + first + SLOW_CHUNK), engines, make)


@pytest.mark.parametrize("name", ["LOOP", "FIBONACCI", "CALLS"])
def test_limits(name: str, engines: ModuleType, make: Any) -> None:
    text = getattr(engines, name)
    text = text.format(60) if name == "LOOP" else text
    for lifted in (False, True):
        engines.check_limits(make, text, lifted, range(1, 201, 29))
    engines.test_limits_near_the_end(make, text)


def test_most_steps_are_interpreted(make: Any) -> None:
    """All steps of programs that end, and all steps before a trap."""
    ended = 0
    for seed in range(8):
        case = generator.generate(seed)
        machine = make(case.program)
        case.load(machine.registers, machine.memory)
        try:
            machine.run(5000)
        except rg.Trap:
            pass
        else:
            ended += machine.retired > 100
        assert machine.interpreted == machine.retired
    assert ended


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # a product, a guard, the bounds of memory, an erased cotangent, a step
        ("high_word(x, y):", "high_word(x, y):\n    return x\ndef unused(x, y):"),
        (" & (not (", " & ((") ,
        ("if (address ^ MIN) >= (n ^ MIN)", "if False"),
        ("dropped += 1", "dropped += 2"),
        ("if left <= 0", "if left < 0"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(right: str, wrong: str, engines: ModuleType) -> None:
    def change(text: str) -> str:
        return text.replace(right, wrong)

    spoiled = partial(
        interpreted_machine.InterpretedMachine, resumes=cache(partial(interpreted_machine.plain, change=change))
    )
    assert right in machine_source(Format(), True)

    def run() -> None:
        engines.check_limits(spoiled, engines.CALLS, True, range(100, 201, 29))
        play(range(3 * PROGRAMS), engines, spoiled)

    with pytest.raises((AssertionError, IndexError)):
        run()


# ---------------------------------------------------------------- an instance of a batch


class _Local:
    """`cuda.local` of plain Python."""

    @staticmethod
    def array(size: int, dtype: Any) -> Any:
        return np.full(size, -1, dtype)


class _Cuda:
    local = _Local


@cache
def interpret_of(w: Format) -> Callable[..., tuple[int, int, int, int]]:
    scope: dict[str, Any] = {"device": lambda function: function, "cuda": _Cuda}
    exec(interpreter_source(w), scope)
    found: Callable[..., tuple[int, int, int, int]] = scope["interpret"]
    return found


def instance(
    program: Program,
    words: list[int],
    *,
    backward: bool = False,
    limit: int = 1 << 40,
    modes: int = Modes.CHECKS | Modes.OVERFLOW,
    core: str = "small",
) -> tuple[list[int], tuple[int, int, int, int]]:
    """(memory after it, results of the function) of the second of three instances."""
    w, n = program.format, len(words)
    memory = np.full((n + 1, 3), 7, np.int64)
    memory[:n, 1] = [w.signed(word) for word in words]
    code = decoded(program, backward=backward, cycles=bool(modes & Modes.CYCLES), core=core)
    result = interpret_of(w)(code, memory.reshape(-1), 1, 3, n, limit, int(modes))
    assert (memory[:, ::2] == 7).all()
    assert memory[n, 1] == 7
    return [word & w.mask for word in memory[:n, 1].tolist()], tuple(map(int, result))  # type: ignore[return-value]


def check_instances(seeds: Iterable[int]) -> Counter[int]:
    """Instances against the reference machine: memory, steps, words lost, cycles, with and without overflow checks, at limits."""
    ends: Counter[int] = Counter()
    for seed in seeds:
        case = generator.generate(seed)
        program = case.program
        for backward in (False, True):
            for overflow in (True, False):
                core = "small" if overflow else "fast"
                machine = rg.Machine(program, backward=backward, overflow=overflow, core=core)
                machine.memory[: len(case.memory)] = case.memory
                words = list(machine.memory)
                limit = case.bound if seed % 2 else case.bound // 3
                trapped = False
                try:
                    stop = machine.run(limit).stop
                except rg.Trap:
                    trapped = True
                modes = Modes.CHECKS | Modes.CYCLES | (Modes.OVERFLOW if overflow else 0)
                after, (why, steps, lost, cycles) = instance(
                    program, words, backward=backward, limit=limit, modes=modes, core=core
                )
                ends[why] += 1
                assert after == list(machine.memory), seed
                assert steps == machine.retired, seed
                assert lost * program.format.width == machine.erased_bits, seed
                assert cycles == machine.cycles, seed
                assert (why == 0) == (not trapped and stop is rg.Stop.HALTED), seed
    return ends


def test_instances() -> None:
    ends = check_instances(range(16))
    assert {0, 1} <= set(ends)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 800, 100))
def test_many_instances(first: int) -> None:
    check_instances(range(20_000 + first, 20_100 + first))


def test_limits_of_instances(engines: ModuleType) -> None:
    program = rg.assemble(engines.LOOP.format(20))
    whole = rg.Machine(program).run().steps
    for limit in range(whole - 3, whole + 3):
        _, (why, steps, _, _) = instance(program, [], limit=limit)
        assert (why, steps) == ((0, whole) if limit >= whole else (2, limit))


def test_without_checks_words_wrap() -> None:
    program = rg.assemble(
        ".memory 4\n.reg x, r1\nstart\nld.add x, [r0 + 0]\nfmul.add r2, x, x\nst.add [r0 + 1], r2\nfinish\n"
    )
    large = 1 << 60
    _, (why, steps, _, _) = instance(program, [large, 0, 0, 0])
    assert (why, steps) == (1, 2)
    after, (why, _, _, _) = instance(program, [large, 0, 0, 0], modes=0)
    assert why == 0
    assert after[1] == (large * large >> 32) & Format().mask
    outside = rg.assemble(".memory 4\nstart\nld.add r1, [r0 + 4]\nfinish\n")
    assert instance(outside, [0] * 4, modes=0)[1][0] == 1


# ---------------------------------------------------------------- decoded programs


def test_rows_of_a_direction_are_the_inverses_of_the_other() -> None:
    program = rg.assemble("start\nadd r200, 5\nfmul.add r3, r200, r200\nswap r3, r7\nfinish\n")
    rows = decoded(program, renumbered=False)
    count = len(program.code)
    assert len(rows) == 2 * count + EXTRA_ROWS
    numbers = {case: FIRST_HANDLER + k for k, case in enumerate(cases(False, all_opcodes()))}
    for pc, i in enumerate(program.instructions):
        for direction, met in ((1, i), (-1, inverse(i, program.table))):
            row = int(rows[row_of(count, pc, direction), 0])
            assert row & 255 == (0 if met.opcode.halts else numbers[met.opcode, False])
            assert ((row >> 8) & 255, (row >> 16) & 255, (row >> 24) & 255, row >> 32) == (
                met.rd,
                met.ra,
                met.rb,
                met.imm,
            )


def test_renumbered_registers_are_those_in_use() -> None:
    program = rg.assemble("start\nadd r200, 5\nadd r100, r200\nfinish\n")
    rows = decoded(program, backward=True)
    assert rows[-1].tolist() == [row_of(4, program.finish, -1), 2]
    assert (int(rows[1, 0]) >> 8) & 255 == 0


def test_handlers_fit_their_field() -> None:
    assert FIRST_HANDLER + len(cases(True, all_opcodes())) <= HANDLERS
    for differentiating in (False, True):
        # Of an opcode that reads two registers there is a handler more where cotangents are computed.
        opcode = next(o for o in TABLE if may_be_same(o))
        most = (HANDLERS - FIRST_HANDLER) // (1 + differentiating)
        assert len(cases(differentiating, (opcode,) * most)) == HANDLERS - FIRST_HANDLER
        with pytest.raises(ValueError, match="handlers: a row has numbers for 254"):
            cases(differentiating, (opcode,) * (most + 1))


def test_every_jump_stays_in_the_code() -> None:
    """Jumps to any distance, from any instruction that jumps, end in a refusal, and never outside."""
    branch = next(o for o in TABLE if o.name == "goto")
    start, finish = (encode(Instruction(next(o for o in TABLE if o.name == name))) for name in ("start", "finish"))
    for imm in (-(1 << 31) + 1, -3, -2, -1, 1, 2, 3, (1 << 31) - 1):
        program = Program((start, encode(Instruction(branch, imm=imm)), finish))
        why = instance(program, [])[1][0]
        assert why in (1, 3), imm
