"""Programs written as PISA: the independent simulator, and the machine after reading them back, give the registers and memory of the program."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.pisa_reader import read
from retrograd.assembler.pisa_writer import OPERANDS, expansion, renumbering, write_back, write_program
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.compiled import Options
from retrograd.isa.diagnostics import AssemblyError
from retrograd.isa.encoding import Instruction, encode, illegality
from retrograd.isa.entries import Opcode
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import generator

import retrograd as rg
from retrograd import Array, reversible
from retrograd.library import arithmetic
from retrograd.runtime._binding import types_from_annotations
from tests.assembler.pisa.simulator import Simulator
from tests.assembler.pisa.test_reader import EVERY, EXPECTED, PROGRAMS

WORDS = Format(32, 0)
MOST = 20_000
Every = Callable[[Callable[[Any], None], Iterable[Any]], None]


def has_counterpart(opcode: Opcode) -> bool:
    return expansion(Instruction(opcode, 1, 2, 3), 0, "") is not None


def check_exported(
    program: Program, memory: Sequence[int] = (), registers: Mapping[int, int] | None = None, *, erases: bool = False
) -> bool:
    """Compare a run of the program with both runs of its export; False where the run traps, which PISA does not."""
    machine = rg.Machine(program)
    machine.load(0, memory)
    for r, word in (registers or {}).items():
        machine.registers[r] = word
    before = list(machine.memory), list(machine.registers)
    try:
        assert machine.run(MOST).stop is rg.Stop.HALTED
    except rg.Trap:
        return False
    text = write_program(program)
    new = renumbering(program)
    simulator, read_back = Simulator(text), rg.Machine(read(text))
    base = sum(line[0] != "DATA" for line in simulator.lines)
    read_back.load(base, before[0])
    simulator.memory.update({base + at: word for at, word in enumerate(before[0])})
    for r, n in new.items():
        read_back.registers[n] = simulator.registers[n] = before[1][r]
    first = list(simulator.registers)
    steps = simulator.run(most=400 * MOST)
    assert read_back.run().steps == steps

    for found in (simulator.registers, read_back.registers):
        assert [found[n] for n in new.values()] == [machine.registers[r] for r in new], text
        assert found[29:32] == [0, 0, 0]
    assert read(write_back(read_back.program)) == read_back.program
    size = len(machine.memory)
    assert [simulator.memory[base + at] for at in range(size)] == list(machine.memory), text
    assert list(read_back.memory)[base : base + size] == list(machine.memory)
    if not erases:
        assert simulator.run(-1, most=400 * MOST) == steps
        assert ([simulator.memory[base + at] for at in range(size)], simulator.registers) == (before[0], first)
    return True


# ------------------------------------------------------------ instructions

SEVERAL = [0, 1, 2, 5, 31, 32, 2**31 - 1, 2**31, 2**32 - 1, 0xDEADBEEF]
PLAIN = [o for o in TABLE if "target" not in o.operands and o.name not in ("start", "finish", "swapbr")]
CHOSEN = [o for o in PLAIN if has_counterpart(o)]


def check_instruction(opcode: Opcode) -> None:
    """One instruction on random words, its registers apart and, where they may be, equal."""
    rng = random.Random(opcode.name)
    for _ in range(2):
        fields = {"rd": 1, "ra": 2, "rb": rng.choice([2, 3]), "imm": rng.choice([0, 1, 7, -3, 1 << 20, -(1 << 31)])}
        registers = {r: rng.choice(SEVERAL) for r in (1, 2, 3)}
        if opcode.name.startswith("assertz"):
            registers[1] = 0
        elif opcode.name.startswith("assert"):
            # A failed assertion traps; PISA has none.
            fields["rb"] = 3
            registers[2], registers[3] = (word % 2**32 for word in HOLDS[opcode.name.removeprefix("assert")])
        if "[ra+imm]" in opcode.operands:
            registers[2], fields["imm"] = 4, rng.choice([-2, 0, 3])
        i = Instruction(opcode, **{f: x for f, x in fields.items() if f not in opcode.unused_fields})
        if illegality(i) is None:
            code = [encode(x) for x in (Instruction(TABLE["start"]), i, Instruction(TABLE["finish"]))]
            program = Program(code, [5, 6, 7, 2**32 - 8], 12, WORDS)
            assert check_exported(program, registers=registers, erases=bool(opcode.erased_words))


def test_every_instruction_with_a_counterpart(every: Every) -> None:
    assert {o.name.partition(".")[0] for o in CHOSEN} >= {
        "mov", "immhi", "ld", "st", "mul", "muli", "and", "nor", "slti", "sltu", "seq", "min", "max", "abs", "cswap", "not", "rori",
    }  # fmt: skip
    every(check_instruction, CHOSEN)


# ------------------------------------------------------------ branches

#: condition -> two words for which it holds, and two for which it does not
HOLDS = {"": (0, 0), ".eq": (3, 3), ".ne": (3, 4), ".lt": (-1, 2), ".ge": (2, -1), ".ltu": (2, -1), ".geu": (-1, 2)}
HOLDS_NOT = {".eq": (3, 4), ".ne": (3, 3), ".lt": (2, -1), ".ge": (-1, 2), ".ltu": (-1, 2), ".geu": (2, -1)}
JUMP = """
        .format 32, 0
        start
first:  goto{one} r1, r2, last
        add r3, 1
last:   from{other} r4, r5, first
        finish
"""


@pytest.mark.parametrize("jumps", [True, False])
@pytest.mark.parametrize("other", HOLDS_NOT)
@pytest.mark.parametrize("one", HOLDS_NOT)
def test_ends_of_a_jump_with_any_two_conditions(one: str, other: str, jumps: bool) -> None:
    found = HOLDS if jumps else HOLDS_NOT
    registers = dict(zip((1, 2, 4, 5), (x % 2**32 for x in (*found[one], *found[other])), strict=True))
    assert check_exported(assemble(JUMP.format(one=one, other=other)), registers=registers)


ELSE = """
        .format 32, 0
        start
        add r9, 10
        call twice
        call twice
        uncall twice
        cswap r1, r2, r9
        sub r9, 10
        finish
        proc once, r8
        add r1, 3
        endproc
        proc twice, r8, r9
        call once
        call once
if:     goto{0} r4, r5, else
        add r3, 1
then:   goto fi
else:   from if
        add r3, 2
fi:     from{1} r4, r5, then
        endproc
        .memory 20
"""


@pytest.mark.parametrize("words", [(1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize(("one", "other"), [(".eq", ".ne"), (".lt", ".ge"), (".geu", ".ltu")])
def test_subroutines_and_branches(one: str, other: str, words: tuple[int, int]) -> None:
    assert check_exported(assemble(ELSE.format(one, other)), registers={4: words[0], 5: words[1]})


# ------------------------------------------------------------ programs


def check_random(seed: int) -> bool:
    """Whether the program of the seed, of integers only, could be compared."""
    case = generator.generate(seed, formats=[(WORDS, 1)], sizes=(10, 60), steps=(50, 400), allow=_reversible)
    used = {
        getattr(i, f) for i in case.program.instructions for f in ("rd", "ra", "rb") if f not in i.opcode.unused_fields
    }
    if len(used) > OPERANDS:
        return False
    return check_exported(case.program, case.memory, case.registers)


def _reversible(opcode: Opcode) -> bool:
    return has_counterpart(opcode) and not opcode.erased_words


def test_random_programs() -> None:
    assert sum(check_random(seed) for seed in range(12)) >= 8


@pytest.mark.long
@pytest.mark.parametrize("first", range(12, 2012, 100))
def test_many_random_programs(first: int) -> None:
    assert sum(check_random(seed) for seed in range(first, first + 100)) >= 80


@reversible
def step(x: int, y: int) -> None:
    """A function that others call, forward and backward."""
    for i in range(y):
        x += i * y
    if y > 2:
        x -= min(y, 3)


@reversible
def sorts(keys: Array[int, 5], table: Array[int, 3], total: int, n: int) -> None:
    """Exchanges, branches, loops, an index that is computed, a routine, and calls."""
    for i in range(4):
        if keys[i] > keys[i + 1]:
            total += 1 + (keys[i] & 6)
        else:
            total ^= keys[i + 1] << 2
    rg.swap(keys[0], keys[3])
    with rg.routine() as r:
        at = n & 1
        size = keys[2] * 3 - abs(keys[4])
    table[at] += size
    ~r
    step(total, n)
    ~step(keys[0], n)


def check_compiled(function: rg.Reversible, *words: int) -> None:
    """A function compiled for words and registers of PISA, on arguments in memory."""
    compiled = function.compiled_for(types_from_annotations(function), WORDS, Options(stack=200))
    program = emit(compiled.module, registers=OPERANDS).program
    assert check_exported(program, [word % 2**32 for word in words])


@pytest.mark.parametrize("seed", range(3))
def test_compiled_functions(seed: int) -> None:
    rng = random.Random(seed)
    check_compiled(sorts, *(rng.randrange(-9, 9) for _ in range(8)), rng.randrange(9), rng.randrange(5))


def test_functions_of_the_library() -> None:
    """Recursion, loops with two conditions, and inverse calls."""
    check_compiled(arithmetic.fibonacci, 3, 7)
    check_compiled(arithmetic.first_fibonacci, 0, 5)


@pytest.mark.parametrize("name", EXPECTED)
def test_programs_of_compilers_are_written_as_they_were_read(name: str) -> None:
    """Each branch carries its role now, so none is guessed."""
    program = read((PROGRAMS / name).read_text(encoding="utf-8"))
    text = write_back(program)
    assert read(text) == program
    assert text.count("; goto") == text.count("; from") > 4


def test_every_instruction_is_written_as_it_was_read() -> None:
    program = read(EVERY + "l: DATA 1\nend:\n")
    assert read(write_back(program)) == program
    text = "START\na: BGTZ $1 4\nBLEZ $1 3\nBLEZ $1 2\nBGTZ $1 1\nx:\ny: FINISH\n"
    assert read(write_back(read(text))) == read(text)


# ------------------------------------------------------------ refused


def refusal(text: str) -> str:
    with pytest.raises(AssemblyError) as caught:
        write_program(assemble(text))
    assert {d.code for d in caught.value.diagnostics} == {"RG0119"}
    return " ".join(d.message for d in caught.value.diagnostics)


def test_refused() -> None:
    assert refusal(".format 64, 0\nstart\nfinish\n").startswith("words of 64 bits")
    many = "\n".join(f"add r{r}, 1" for r in range(1, 31))
    assert "30 registers" in refusal(f".format 32, 0\nstart\n{many}\nfinish\n")
    found = refusal(".format 32, 16\nstart\nfmul.add r1, r2, r3\ndiv.add r1, r2, r3\nmul.xor r1, r2, r3\nfinish\n")
    assert all(name in found for name in ("fmul.add", "div.add", "mul.xor"))
