"""Programs: inversion, the entry and the exit, and what is no program."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.diagnostics import ImageError, VerificationError
from retrograd.isa.encoding import Instruction, encode, inverse
from retrograd.isa.entries import Function, a
from retrograd.isa.program import Program, SourceMap
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def op(name: str, rd: int = 0, ra: int = 0, rb: int = 0, imm: int = 0) -> int:
    return encode(Instruction(TABLE[name], rd, ra, rb, imm))


CODE = (
    op("start"),
    op("imm.add", rd=1, imm=5),
    op("mov.xor", rd=2, ra=1),
    op("goto.lt", ra=1, rb=2, imm=2),
    op("neg", rd=1),
    op("from.ge", ra=1, rb=2, imm=-2),
    op("rol", rd=3, ra=1),
    op("exch", rd=3, ra=4, imm=-1),
    op("finish"),
)
SPANS = (*((0, 10 + pc, 1, 4) for pc in range(len(CODE) - 1)), None)
PROGRAM = Program(
    CODE,
    data=[7, 8, 9],
    memory=16,
    format=Format(32, 16),
    labels={"begin": 0, "loop": 3, "end": 8},
    data_labels={"table": 1},
    source=SourceMap(("a.rga",), SPANS),
)

words = st.sampled_from(CODE) | st.builds(
    lambda name, rd, imm: op(name, rd=rd, imm=imm),
    st.sampled_from(["imm.add", "imm.sub", "imm.xor", "roli", "rori"]),
    st.integers(0, 255),
    st.integers(-(2**31), 2**31 - 1),
)


@given(st.lists(words, max_size=12), st.data())
def test_inverse_of_inverse(code: list[int], data: st.DataObject) -> None:
    address = st.integers(0, max(0, len(code) - 1))
    labels = data.draw(st.dictionaries(st.text("xyz", min_size=1), address, max_size=3))
    p = Program(code, data=[1, 2], memory=5, labels=labels)
    assert ~~p == p
    assert (~~p).labels == labels


def test_inverse_of_inverse_keeps_everything() -> None:
    assert ~~PROGRAM == PROGRAM
    # The source map takes no part in equality, so it is compared apart.
    assert (~~PROGRAM).source == PROGRAM.source
    assert ~PROGRAM != PROGRAM


def test_inverse_is_the_inverses_last_first() -> None:
    n = len(CODE)
    q = ~PROGRAM
    assert [i.opcode.name for i in q.instructions] == [
        "start", "exch", "ror", "goto.ge", "neg", "from.lt", "mov.xor", "imm.sub", "finish",
    ]  # fmt: skip
    for pc, i in enumerate(PROGRAM.instructions):
        assert q.instructions[n - 1 - pc] == inverse(i)
    # A branch and its partner have changed places, so offsets are as they were read the other way.
    assert (q.instructions[3].imm, q.instructions[5].imm) == (2, -2)


def test_inverse_moves_labels_and_spans() -> None:
    q = ~PROGRAM
    assert dict(q.labels) == {"begin": 8, "loop": 5, "end": 0}
    for pc in range(len(CODE)):
        assert q.source.span(len(CODE) - 1 - pc) == PROGRAM.source.span(pc)
    assert q.start == len(CODE) - 1 - PROGRAM.finish
    assert q.finish == len(CODE) - 1 - PROGRAM.start


def test_inverse_leaves_data_alone() -> None:
    q = ~PROGRAM
    assert (q.data, q.memory, q.format, q.data_labels) == ((7, 8, 9), 16, Format(32, 16), {"table": 1})


def test_inverse_needs_the_programs_own_table() -> None:
    extended = TABLE.extended(Function("odd", TABLE.free_code(), "tests", lambda w: a, ""))
    word = encode(Instruction(extended["odd.add"], 1, 2))
    p = Program([word], table=extended)
    assert (~p).instructions[0].opcode is extended["odd.sub"]
    assert ~~p == p
    with pytest.raises(ImageError):
        _ = Program([word]).instructions


def test_the_empty_program() -> None:
    assert ~Program([]) == Program([])
    assert Program([]).instructions == ()


# ---------------------------------------------------------------- entry and exit


def test_start_and_finish() -> None:
    assert (PROGRAM.start, PROGRAM.finish) == (0, 8)


@pytest.mark.parametrize(
    ("code", "attribute", "error", "count"),
    [
        (CODE[1:], "start", "RG0204", 0),
        ((*CODE, CODE[0]), "start", "RG0204", 2),
        ((CODE[0], *CODE), "start", "RG0204", 2),
        (CODE[:-1], "finish", "RG0205", 0),
        ((CODE[-1], *CODE), "finish", "RG0205", 2),
        ((CODE[-1], *CODE, CODE[-1]), "finish", "RG0205", 3),
        ((), "start", "RG0204", 0),
        ((), "finish", "RG0205", 0),
    ],
)
def test_not_exactly_one(code: tuple[int, ...], attribute: str, error: str, count: int) -> None:
    p = Program(code)
    with pytest.raises(VerificationError, match=f"has {count} `{attribute}`") as caught:
        getattr(p, attribute)
    assert caught.value.code == error


def test_the_second_start_is_where_the_error_points() -> None:
    spans = [(0, 3, 1, 6), (0, 4, 1, 6), (0, 9, 1, 6)]
    p = Program([op("start"), op("finish"), op("start")], source=SourceMap(("a.rga",), spans))
    with pytest.raises(VerificationError) as caught:
        _ = p.start
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.file, span.line) == ("a.rga", 9)


# ---------------------------------------------------------------- what is no program


@pytest.mark.parametrize("word", [0, op("neg", rd=1) | 1, op("swap", rd=1, ra=2) & ~(3 << 40) | 1 << 40, 1 << 64, -1])
def test_illegal_encodings(word: int) -> None:
    p = Program([*CODE[:4], word, *CODE[4:]])
    with pytest.raises(ImageError) as caught:
        _ = p.instructions
    assert caught.value.code == "RG0306"
    with pytest.raises(ImageError):
        _ = ~p
    with pytest.raises(ImageError):
        _ = p.start


def test_an_illegal_encoding_is_told_with_its_address() -> None:
    # 23 stands in none of the word's digits, so that the message cannot hold it by chance.
    p = Program([op("neg", rd=1)] * 23 + [0])
    with pytest.raises(ImageError) as caught:
        _ = p.instructions
    assert re.search(r"\b(23|0x17)\b", str(caught.value)), str(caught.value)


def test_memory_holds_at_least_the_data() -> None:
    assert Program([], data=[1, 2, 3]).memory == 3
    assert Program([], data=[1, 2, 3], memory=2).memory == 3
    assert Program([], data=[1, 2, 3], memory=10).memory == 10


def test_a_program_does_not_share_the_lists_it_was_given() -> None:
    code, data = [*CODE], [1, 2]
    p = Program(code, data)
    code.append(0)
    data.append(0)
    assert (p.code, p.data) == (CODE, (1, 2))


def test_spans_outside_the_map() -> None:
    assert PROGRAM.source.span(-1) is None
    assert PROGRAM.source.span(len(CODE)) is None
    assert PROGRAM.source.span(len(CODE) - 1) is None
    assert str(PROGRAM.source.span(2)) == "a.rga:12:1"
    assert SourceMap().span(0) is None
