"""Program -> text -> the same program."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.laws import sample_instructions
from retrograd.isa.program import Hints

import retrograd as rg

FULL = """
        .format 32, 12
        .memory 60
        .data
empty:
table:  .word 1, 2, -1, 0, 0, 7
gap:    .zero 20
mark:   .word 5
text:   .ascii "hello"
end:
        .text
main:   start
a:
b.c:    goto.lt r1, r2, after
        add r3, 5
after:  from.lt r1, r2, a
        call sub
        uncall sub
        exch r1, [r2 - 3]
        rot: add r4, 1
        finish
        proc sub, r9, r10
        neg r1
        endproc
last:
"""


def instruction(name: str, **fields: int) -> int:
    return encode(Instruction(rg.TABLE[name], **fields))


def around(*words: int) -> tuple[int, ...]:
    return (instruction("start"), *words, instruction("finish"))


def test_a_program_with_everything() -> None:
    program = rg.assemble(FULL)
    assert rg.assemble(rg.disassemble(program)) == program
    assert rg.assemble(rg.disassemble(program, addresses=True)) == program
    # Text that was disassembled is left as it is.
    text = rg.disassemble(program)
    assert rg.disassemble(rg.assemble(text)) == text


#: names that labels of functions and images have, and that the assembler would read as something else
NAMES = st.sampled_from(
    [
        "x",
        "y",
        "loop",
        "r1",
        "r255",
        "r256",
        "z.re",
        "L0",
        "add",
        "θ",
        "aθ",
        ".data",
        'a "b"',
        "a\\nb",
        "a;b",
        "a,b",
        "1x",
        "\n\r\t\0",
        "'",
    ]
)


@given(
    st.dictionaries(
        NAMES | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), st.integers(0, 12)
    ),
    st.dictionaries(NAMES, st.integers(0, 4)),
    st.lists(st.integers(0, 2**64 - 1), max_size=8),
    st.integers(0, 12),
)
def test_every_label_comes_back(
    data_labels: dict[str, int], labels: dict[str, int], data: list[int], memory: int
) -> None:
    """Data labels lie anywhere in memory, have any name, and may share it with a code label."""
    code = around(instruction("goto.eq", ra=1, rb=2, imm=1), instruction("from.eq", ra=1, rb=2, imm=-1))
    program = rg.Program(code, data, memory, labels=labels, data_labels=data_labels)
    found = rg.assemble(rg.disassemble(program))
    assert found.data_labels == data_labels
    assert labels.items() <= found.labels.items()
    assert (found.code, found.data, found.memory) == (program.code, program.data, program.memory)
    # What was made up the first time is there the second.
    assert rg.assemble(rg.disassemble(found)) == found


def test_arguments_of_a_function_come_back() -> None:
    """Their words have no value yet: a program in which they are named and lie outside of .data."""

    @rg.reversible
    def f(r: rg.fixed, x: rg.fixed, y: rg.fixed):
        r += x * y

    program = f.program()
    assert {*program.data_labels} == {"r", "x", "y"}
    assert rg.assemble(rg.disassemble(program)).data_labels == program.data_labels
    assert rg.assemble(f.assembly()).data_labels == program.data_labels
    assert rg.assemble(rg.disassemble(~program)).data_labels == program.data_labels


def test_the_text() -> None:
    program = rg.assemble(
        ".memory 9\n.data\nx: .word 3\n.text\nstart\na: goto.eq r1, r2, .+1\nfrom.eq r1, r2, a\nfinish"
    )
    assert rg.disassemble(program) == (
        ".format 64, 32\n.memory 9\n.data\nx:\n    .word 3\n.text\n    start\na:\n"
        "    goto.eq r1, r2, L0\nL0:\n    from.eq r1, r2, a\n    finish\n"
    )


def test_addresses_and_encodings() -> None:
    text = rg.disassemble(rg.assemble("start\nadd r1, 5\nfinish"), addresses=True)
    assert [line.split(";")[1].strip() for line in text.split("\n") if ";" in line] == [
        "0: f800000000000000", "1: 0801000000000005", "2: f900000000000000",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [o.name for o in rg.TABLE])
def test_every_instruction(name: str) -> None:
    program = rg.Program([encode(i) for i in sample_instructions(rg.TABLE[name])])
    assert rg.assemble(rg.disassemble(program), check=False).code == program.code


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=40), st.integers(0, 80))
def test_data(words: list[int], memory: int) -> None:
    program = rg.Program(around(), words, memory)
    assert rg.assemble(rg.disassemble(program)) == program


def test_runs_of_zeros_are_one_line() -> None:
    for data in ([1] + [0] * 100_000 + [2], [0] * 100_000 + [1], [1] + [0] * 100_000):
        program = rg.Program(around(), data)
        text = rg.disassemble(program)
        assert len(text) < 200
        assert rg.assemble(text) == program


def test_labels_that_stand_together() -> None:
    labels = {"a": 0, "b": 0, "c": 1, "end": 2, "other": 2}
    data = {"p": 0, "q": 0, "r": 2}
    program = rg.Program(around(), [5, 6], labels=labels, data_labels=data)
    assert rg.assemble(rg.disassemble(program)) == program


def test_names_made_up_are_new() -> None:
    source = ".data\nL1: .word 4\n.text\nL0: start\ngoto.eq r1, r2, .+1\nfrom.eq r1, r2, .-1\nfinish"
    program = rg.assemble(source)
    again = rg.assemble(rg.disassemble(program))
    assert again.code == program.code
    assert again.data_labels == {"L1": 0}
    assert set(again.labels) == {"L0", "L2", "L3"}


@pytest.mark.parametrize("name", ["a b", "5", "é é", "x;y", "r7", ".word", "x:", 'a"', "x\ny"])
def test_names_that_are_no_identifiers_are_quoted(name: str) -> None:
    program = rg.Program(around(), [1], labels={name: 0}, data_labels={name: 0})
    text = rg.disassemble(program)
    assert text.count(".label") == 2
    assert rg.assemble(text) == program


def test_an_empty_name_is_left_out() -> None:
    program = rg.Program(around(), [1], labels={"": 0}, data_labels={"": 0})
    again = rg.assemble(rg.disassemble(program))
    assert (again.code, again.data, again.labels, again.data_labels) == (program.code, program.data, {}, {})


@pytest.mark.parametrize(
    "name", ["start", "add", "push", "proc", "data", "L0", "aé", "_", "a.b.c", "r256", "r01", "R1"]
)
def test_names_that_can_be_written_are_kept(name: str) -> None:
    source = f"start\n{name}: goto.eq r1, r2, t\nadd r2, 1\nt: from.eq r1, r2, {name}\nfinish"
    program = rg.assemble(source)
    assert program.labels == {name: 1, "t": 3}
    assert rg.assemble(rg.disassemble(program)) == program


def test_a_label_outside_the_code_is_left_out() -> None:
    program = rg.Program(around(), labels={"far": 100})
    assert rg.assemble(rg.disassemble(program)).labels == {}


def test_targets_outside_the_code() -> None:
    for offset in (-5, 100, 2**31 - 1, -(2**31) + 1):
        program = rg.Program(around(instruction("goto", imm=offset), instruction("uncall", imm=offset)))
        text = rg.disassemble(program)
        assert f"goto .{offset:+d}" in text
        assert f"uncall .{-offset:+d}" in text
        assert rg.assemble(text, check=False).code == program.code


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
def test_any_constant_in_any_format(width: int) -> None:
    # An image may hold any 32-bit constant; the format says how many of its bits the machine uses.
    w = rg.Format(width, 2)
    rng = random.Random(width)
    for imm in (
        0,
        1,
        -1,
        7,
        -8,
        127,
        128,
        255,
        256,
        -129,
        65535,
        2**31 - 1,
        -(2**31),
        rng.randint(-(2**31), 2**31 - 1),
    ):
        if not -w.sign <= imm < w.sign:  # no such instruction: a narrow word would cut the constant
            with pytest.raises(rg.ImageError, match="RG0306"):
                _ = rg.Program(around(instruction("imm.add", rd=1, imm=imm)), format=w).instructions
            continue
        for name in ("imm.add", "ld.add", "roli"):
            program = rg.Program(
                around(instruction(name, rd=1, imm=imm, **({"ra": 2} if name == "ld.add" else {}))), format=w
            )
            assert rg.from_image(rg.to_image(program)) == program
            assert rg.assemble(rg.disassemble(program)) == program


def test_an_illegal_word() -> None:
    with pytest.raises(rg.ImageError, match="RG0306"):
        rg.disassemble(rg.Program([0xFF00000000000000]))


def test_the_inverse_of_a_program_with_everything() -> None:
    program = rg.assemble(FULL)
    inverse = ~program
    again = rg.assemble(rg.disassemble(inverse), check=False)
    assert again.code == inverse.code
    assert again.data_labels == inverse.data_labels
    assert ~again == rg.assemble(rg.disassemble(~inverse), check=False) or (~again).code == program.code


def test_hints_are_lines_at_the_end() -> None:
    hints = Hints(((0, 1, 1, 2), (3, 4, 5, 6)), (*((k, 0, 3) for k in range(20)), (1, 3, 2)))
    program = replace(rg.assemble("start\nfinish\n"), hints=hints)
    text = rg.disassemble(program)
    assert text.splitlines()[-2:] == ["    .access 0, 3, 16, 17, 18, 19", "    .access 3, 2, 1"]
    assert rg.assemble(text).hints == hints
