"""Programs in PISA: stores and steps as another emulator has them, on every engine, forward and backward; roles of branches; damage."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from retrograd.assembler.pisa_reader import MEMORY, read
from retrograd.assembler.pisa_writer import write_back
from retrograd.isa.diagnostics import AssemblyError, RetrogradError, VerificationError
from retrograd.isa.program import Program
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine, Stop, Trap

import retrograd as rg
from retrograd.cli.main import main
from tests.assembler.pisa.simulator import Simulator

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())
ENGINES = ("reference", "native", "threaded", "translated", "auto")
QUICK_RUNS = [(name, e) for name in EXPECTED for e in ENGINES if e == "reference" or "rooplc/Fib" in name]
LONG_RUNS = [
    pytest.param(name, e, marks=pytest.mark.long)
    for name in EXPECTED
    for e in ENGINES
    if (name, e) not in QUICK_RUNS
]  # fmt: skip


def words(memory: list[int]) -> dict[str, int]:
    return {str(i): w for i, w in enumerate(memory) if w}


def check_there_and_back(program: Program, engine: str, memory: dict[str, int], steps: int) -> None:
    there = machine_for(program, engine)
    outcome = there.run()
    assert (outcome.stop, outcome.steps) == (Stop.HALTED, steps)
    assert (words(list(there.memory)), set(there.registers)) == (memory, {0})
    back = machine_for(program, engine, backward=True)
    back.load(0, list(there.memory))
    outcome = back.run()
    assert (outcome.stop, outcome.steps) == (Stop.HALTED, steps)
    assert list(back.memory) == [*program.data, *[0] * (MEMORY - len(program.data))]
    assert set(back.registers) == {0}


@pytest.mark.parametrize(("name", "engine"), [*QUICK_RUNS, *LONG_RUNS])
def test_programs_of_compilers(name: str, engine: str) -> None:
    """The emulator begins at address 0, with a jump to START; the machine begins at START, two instructions later."""
    expected = EXPECTED[name]
    program = rg.Machine(PROGRAMS / name).program
    assert program == read((PROGRAMS / name).read_text(encoding="utf-8"))
    check_there_and_back(program, engine, expected["memory"], expected["steps"] - 2)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_simulator_agrees(name: str) -> None:
    simulator = Simulator((PROGRAMS / name).read_text(encoding="utf-8"))
    assert simulator.run() == EXPECTED[name]["steps"] - 2
    assert {str(a): w for a, w in sorted(simulator.memory.items()) if w} == EXPECTED[name]["memory"]


def names_of(text: str) -> list[str]:
    return [i.opcode.name for i in read(text).instructions]


IF = "START\na: BEQ $1 $0 b{}\nADDI $2 1\nb: {} a{}\nFINISH\n"
LOOP = "START\na: {} b{}\nADDI $2 1\nb: {} a{}\nFINISH\n"


def test_roles_of_conditionals() -> None:
    assert names_of(IF.format("", "BEQ $1 $0", ""))[1::2] == ["goto.eq", "from.eq"]
    assert names_of(IF.format("", "BEQ $0 $1", ""))[1::2] == ["goto.eq", "from.eq"]
    assert names_of(IF.format("", "BNE $2 $0", ""))[1::2] == ["from.eq", "goto.ne"]
    assert names_of(LOOP.format("BGTZ $2", "", "BNE $1 $2", ""))[1::2] == ["from.lt", "goto.ne"]


@pytest.mark.parametrize("marked", [0, 1])
def test_a_comment_overrides_the_role(marked: int) -> None:
    notes = [" ; goto", ""] if marked == 0 else ["", " ; from"]
    assert names_of(IF.format(notes[0], "BNE $2 $0", notes[1]))[1::2] == ["goto.eq", "from.ne"]
    assert names_of(IF.format("; goto, perhaps", "BNE $2 $0", ""))[1] == "from.eq"


def test_a_wrong_guess_traps_and_a_right_one_runs() -> None:
    """An `if` whose end tests another condition looks like a loop."""
    text = "START\nADDI $9 1\n" + IF.format("{}", "BEQ $2 $0", "").removeprefix("START\n")
    with pytest.raises(Trap):
        rg.Machine(read(text.format(""))).run()
    machine = rg.Machine(read(text.format(" ; goto")))
    assert machine.run().steps == 4
    assert machine.registers[2] == 0


def test_unconditional_partners_and_calls() -> None:
    text = """
        START
        BRA sub
        RBRA sub
    test: BEQ $1 $0 else
        ADDI $2 1
    then: BRA fi
    else: BRA test
        ADDI $2 2
    fi: BNE $1 $0 then
        FINISH
    top: BRA bottom
    sub: SWAPBR $3
        NEG $3
        ADDI $4 7
    bottom: BRA top
    """
    names = names_of(text)
    assert [names[pc] for pc in (1, 2, 3, 5, 6, 8, 10, 14)] == [
        "call", "uncall", "goto.eq", "goto", "from", "from.ne", "from", "goto",
    ]  # fmt: skip
    machine = rg.Machine(read(text))
    machine.run()
    assert machine.registers[:5] == [0, 0, 2, 0, 0]


EVERY = """
    START
    ADDI $1 -7
    XORI $2 0x0F
    XORI $9 017
    ADD $3 $1
    SUB $4, $1
    XOR $5 $2
    NEG $5
    ANDX $6 $1 $2
    ANDIX $6 $1 255
    ORX $7 $1 $2
    ORIX $7 $1 64
    NORX $8 $1 $2
    SLTX $10 $1 $2
    SLTIX $11 $1 -6
    SLLX $12 $1 3
    SRLX $13 $1 3
    SRAX $14 $1 3
    SLLVX $15 $1 $2
    SRLVX $16 $1 $2
    SRAVX $17 $1 $2
    RL $1 5
    RLV $3 $2
    RR $4 9
    RRV $7 $2
    ADDI $20 cell
    EXCH $2 $20
    OUTPUT $2
    EMIT $16
    FINISH
cell: DATA -3
"""


def test_every_instruction_as_the_simulator_has_it() -> None:
    simulator, machine = Simulator(EVERY.replace("017", "15")), rg.Machine(read(EVERY))
    assert simulator.run() == machine.run().steps
    assert simulator.registers == list(machine.registers)[:32]
    assert [simulator.memory[i] for i in range(40)] == list(machine.memory)[:40]
    assert machine.erased_bits == 32
    assert simulator.emitted != [0]


@pytest.mark.parametrize("condition", ["BEQ $1 $2", "BNE $1 $2", "BGEZ $1", "BLTZ $1", "BGTZ $1", "BLEZ $1"])
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 2**31 - 1])
def test_every_condition_as_the_simulator_has_it(condition: str, value: int) -> None:
    text = f"START\nADDI $1 {value}\nADDI $2 1\na: {condition} b\nADDI $3 1\nb: {condition} a\nFINISH\n"
    simulator, machine = Simulator(text), rg.Machine(read(text))
    assert simulator.run() == machine.run().steps
    assert simulator.registers == list(machine.registers)[:32]


def test_labels_of_code_and_data() -> None:
    program = read("top: BRA s\ncount: DATA 5\n DATA count\ns: BRA top\n START\nf: FINISH\n")
    assert (dict(program.labels), dict(program.data_labels)) == ({"top": 0, "s": 3, "f": 5}, {"count": 1})
    assert (program.data[1], program.data[2]) == (5, 1)
    assert (program.start, program.finish) == (4, 5)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("START\nFINISH\n ADDI $1 2\n", "RG0206"),
        ("ADDI $1 2\nSTART\nFINISH\n", "RG0206"),
        ("START\nDATA 2\nFINISH\n", "RG0206"),
        ("START\nBEQ $1 $0 end\nADDI $1 1\nend: FINISH\n", "RG0201"),
        ("START\nBRA end\nx: BRA y\nADDI $1 1\ny: BRA x\nSWAPBR $2\nend: FINISH\n", "RG0201"),
        ("START\nBRA end\nend: FINISH\nDATA 3\n", "RG0201"),
        ("START\nBRA end\nADDI $1 1\nFINISH\nend: DATA 2\n", "RG0201"),
        ("START\na: BRA b\nADDI $1 1\ns: SWAPBR $2\nb: BRA a\nFINISH\n", "RG0206"),
        ("START\na: BRA b\nc: BRA b\nb: BRA a\nFINISH\n", "RG0202"),
        ("START\nb: RBRA a\na: ADDI $1 1\nFINISH\n", "RG0207"),
        ("START\nBEQ $1 $2 s\nFINISH\nt: BRA u\ns: SWAPBR $3\nNEG $3\nu: BRA t\n", "RG0201"),
        ("START\na: BEQ $1 $2 b ; goto\nb: BEQ $1 $2 a ; goto\nFINISH\n", "RG0202"),
        ("START\nSTART\nFINISH\n", "RG0204"),
        (".start x\nSTART\nx: FINISH\n", "RG0204"),
        ("START\n", "RG0205"),
    ],
)
def test_programs_that_cannot_run_backward(text: str, code: str) -> None:
    with pytest.raises(VerificationError) as caught:
        read(text)
    assert code in {d.code for d in caught.value.diagnostics}


#: programs whose FINISH is reached by a BRA, or that have instructions which control does not reach
UNUSUAL = {
    "jump to the end": "START\nADDI $2 5\nBRA end\nend: FINISH\n",
    "over a subroutine": "START\nADDI $2 5\nBRA s\nBRA end\nt: BRA u\ns: SWAPBR $4\nADDI $1 3\nNEG $4\nu: BRA t\nend: FINISH\n",
    "over one instruction": "START\na: BRA b\nADDI $1 1\nb: BRA a\nADDI $2 4\nFINISH\n",
    "over several": "START\na: BRA b\nADDI $1 1\nEXCH $1 $2\nADDI $3 9\nb: BRA a\nADDI $2 4\nFINISH\n",
    "before a landing from below": "START\na: BRA b\nADDI $1 1\nd: BRA c\nADDI $2 2\nBRA end\nADDI $3 3\nb: BRA a\nADDI $4 4\nc: BRA d\nend: FINISH\n",
    "behind data": "START\na: BRA b\nDATA 7\nADDI $1 1\nb: BRA a\nADDI $2 4\nFINISH\n",
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", UNUSUAL)
def test_jumps_to_finish_and_code_that_is_not_reached(name: str, engine: str, tmp_path: Path) -> None:
    """Registers as the simulator has them, and the way back; the text that is written anew does the same."""
    text = UNUSUAL[name]
    simulator = Simulator(text)
    steps = simulator.run()
    program = read(text)
    landed = len(program.code) - len(simulator.lines)
    assert landed == ("BRA end" in text)
    for this in (program, read(write_back(program))):
        machine = machine_for(this, engine)
        assert (machine.run().stop, machine.retired) == (Stop.HALTED, steps + landed)
        assert list(machine.registers)[:32] == simulator.registers
        machine.turn()
        machine.run()
        assert set(machine.registers) == {0}


def test_every_fault_of_a_text_is_reported() -> None:
    with pytest.raises(AssemblyError) as caught:
        read("START\nADD $3 $3\nADDI $32 1\nFOO\nBRA nowhere\nADDI $1\nRL $1 32\nADDI $1 4294967296\nFINISH\n")
    assert [d.code for d in caught.value.diagnostics] == [
        "RG0101", "RG0108", "RG0103", "RG0106", "RG0102", "RG0105", "RG0105",
    ]  # fmt: skip


PRINTS = """
    START
    OUTPUT $1           ; 0: a signed integer
    ADDI $2 -42
    OUTPUT $2
    ADDI $3 0xFF00
    OUTPUT $3           ; a line break
    ADDI $4 0x100
    OUTPUT $4           ; a text
    ADDI $5 0x65736162  ; "base", and a word that ends it
    OUTPUT $5
    OUTPUT $1
    ADDI $6 0x11
    OUTPUT $6           ; hexadecimal
    OUTPUT $2
    FINISH
"""


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_output(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Types and values, as the protocol has them; the run counts each OUTPUT as one step."""
    file = tmp_path / "prints.pisa"
    file.write_text(PRINTS, encoding="utf-8")
    assert main(["run", str(file), "--engine", engine]) == 0
    out = capsys.readouterr().out
    assert out.startswith("-42\nbaseffffffd6\nhalted at pc 14 after 14 steps"), out
    assert main(["run", str(file), "--engine", engine, "--max-steps", "4"]) == 4
    assert capsys.readouterr().out.startswith("-42\nlimit at pc 4 after 4 steps")


TEXTS = [
    EVERY,
    (PROGRAMS / "rooplc" / "Fibonacci.pal").read_text(encoding="utf-8")[:4000],
    IF.format("", "BEQ $1 $0", ""),
]
PIECES = [
    "$",
    "$1",
    "$32",
    ";",
    "; goto",
    ":",
    "a:",
    "BRA",
    "BRA a",
    "DATA",
    "START",
    "FINISH",
    "-",
    "0x",
    "09",
    "99999999999",
    "\0",
    "\n",
    "RBRA",
    "é",
    ",",
]


def check_damaged(seed: int) -> None:
    """A damaged text is a program, or one of our errors."""
    r = random.Random(seed)
    text = r.choice(TEXTS)
    for _ in range(r.randrange(1, 6)):
        at, end = sorted(r.randrange(len(text) + 1) for _ in range(2))
        match r.randrange(4):
            case 0:
                text = text[:at] + r.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[min(end, at + 20) :]
            case 2:
                lines = text.split("\n")
                r.shuffle(lines) if len(lines) < 8 else lines.insert(r.randrange(len(lines)), r.choice(lines))
                text = "\n".join(lines)
            case _:
                text = text[:at] + text[at:].replace(r.choice("$0123BA"), r.choice("$9 :XB"), 1)
    try:
        machine: Machine = rg.Machine(read(text))
        machine.run(2000)
    except RetrogradError:
        pass


def test_damaged_texts() -> None:
    for seed in range(150):
        check_damaged(seed)


@pytest.mark.long
@pytest.mark.parametrize(("first", "end"), list(pairwise(range(0, 100_001, 5000))))
def test_damaged_texts_at_length(first: int, end: int) -> None:
    for seed in range(first, end):
        check_damaged(seed)
