"""Assembly text: every form it takes, what it becomes, and what is said where it is wrong."""

from __future__ import annotations

import os
import random
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.assembler.assemble import FOREIGN
from retrograd.isa.diagnostics import Diagnostic, Span
from retrograd.isa.encoding import Instruction, write
from retrograd.isa.entries import Function, a, b
from retrograd.isa.laws import sample_instructions

import retrograd as rg

M64 = (1 << 64) - 1


def lines(*body: str, **options: Any) -> tuple[Instruction, ...]:
    """The instructions of the lines, between a start and a finish."""
    return rg.assemble("\n".join(["start", *body, "finish"]), **options).instructions[1:-1]


def one(line: str, **options: Any) -> tuple[str, int, int, int, int]:
    """The one instruction of a line: name, rd, ra, rb, imm."""
    (i,) = lines(line, check=False, **options)
    return i.opcode.name, *i[1:]


def errors(text: str, **options: Any) -> list[Diagnostic]:
    with pytest.raises(rg.AssemblyError) as caught:
        rg.assemble(text, check=False, **options)
    return list(caught.value.diagnostics)


def codes(text: str, **options: Any) -> list[str]:
    return [d.code for d in errors(text, **options)]


def wrong(line: str, **options: Any) -> Diagnostic:
    """The one fault of a line."""
    (found,) = errors(line, **options)
    return found


# ------------------------------------------------------------ instructions


@pytest.mark.parametrize("name", [o.name for o in rg.TABLE])
def test_every_instruction_as_it_is_written(name: str) -> None:
    for i in sample_instructions(rg.TABLE[name]):
        assert rg.assemble(write(i), check=False).instructions == (i,)


def test_operands_in_the_order_of_the_table() -> None:
    assert one("mul.add r1, r2, r3") == ("mul.add", 1, 2, 3, 0)
    assert one("cswap r4, r5, r6") == ("cswap", 4, 5, 6, 0)
    assert one("swap r4, r5") == ("swap", 4, 5, 0, 0)
    assert one("neg r255") == ("neg", 255, 0, 0, 0)
    assert one("goto.lt r1, r2, .+5") == ("goto.lt", 0, 1, 2, 5)
    assert one("immhi.xor r1, -3") == ("immhi.xor", 1, 0, 0, -3)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("add r1, r2", "mov.add r1, r2"),
        ("sub r1, r2", "mov.sub r1, r2"),
        ("xor r1, r2", "mov.xor r1, r2"),
        ("fadd r1, r2", "fmov.add r1, r2"),
        ("fsub r1, r2", "fmov.sub r1, r2"),
        ("lmul r1, r2", "lmov.mul r1, r2"),
        ("ldiv r1, r2", "lmov.div r1, r2"),
        ("add r1, 7", "imm.add r1, 7"),
        ("sub r1, 7", "imm.sub r1, 7"),
        ("xor r1, 7", "imm.xor r1, 7"),
        ("mov.add r1, 7", "imm.add r1, 7"),
        ("and.add r1, r2, 7", "andi.add r1, r2, 7"),
        ("mul.sub r1, r2, -7", "muli.sub r1, r2, -7"),
        ("shl.xor r1, r2, 7", "shli.xor r1, r2, 7"),
        ("sar.add r1, r2, 7", "sari.add r1, r2, 7"),
        ("rol r1, 7", "roli r1, 7"),
        ("ror r1, 7", "rori r1, 7"),
        ("goto.gt r1, r2, .+3", "goto.lt r2, r1, .+3"),
        ("goto.le r1, r2, .+3", "goto.ge r2, r1, .+3"),
        ("assert.gt r1, r2", "assert.lt r2, r1"),
        ("goto.gtu r1, r2, .+3", "goto.ltu r2, r1, .+3"),
        ("goto.leu r1, r2, .+3", "goto.geu r2, r1, .+3"),
        ("from.gt r1, r2, .-3", "from.lt r2, r1, .-3"),
        ("from.le r1, r2, .-3", "from.ge r2, r1, .-3"),
        ("from.gtu r1, r2, .-3", "from.ltu r2, r1, .-3"),
        ("from.leu r1, r2, .-3", "from.geu r2, r1, .-3"),
    ],
)
def test_short_forms(short: str, long: str) -> None:
    assert one(short) == one(long)
    assert one(short)[0] == long.split(maxsplit=1)[0]


@pytest.mark.parametrize("condition", ["eq", "ne", "lt", "ge", "ltu", "geu", "gt", "le", "gtu", "leu"])
def test_conditions_mean_what_they_say(condition: str) -> None:
    rng = random.Random(condition)
    program = rg.assemble(f"start\na: goto.{condition} r1, r2, b\nadd r3, 1\nb: from.{condition} r1, r2, a\nfinish")
    for _ in range(40):
        x, y = rng.choice((0, 1, M64, 1 << 63)), rng.choice((0, 1, M64, 1 << 63))
        sx, sy = x - (x >> 63 << 64), y - (y >> 63 << 64)
        meant = {
            "eq": x == y, "ne": x != y, "lt": sx < sy, "ge": sx >= sy, "ltu": x < y, "geu": x >= y,
            "gt": sx > sy, "le": sx <= sy, "gtu": x > y, "leu": x <= y,
        }[condition]  # fmt: skip
        machine = rg.Machine(program)
        machine.registers[1:3] = x, y
        machine.run()
        assert machine.registers[3] == (not meant)


def test_spaces_tabs_comments_and_line_ends() -> None:
    tidy = rg.assemble("start\nadd r1, r2\nmul.add r3, r1, r2\nld.add r1, [r2 + 3]\nfinish")
    for text in (
        "start\r\nadd r1, r2\r\nmul.add r3, r1, r2\r\nld.add r1, [r2 + 3]\r\nfinish\r\n",
        "\tstart\n  add\tr1 ,\tr2  \n\n\n mul.add   r3,r1,r2\n ld.add r1,[r2+3]\nfinish",
        "; all of it\nstart ; begin\nadd r1, r2;x\nmul.add r3, r1, r2 ;; y ; z\nld.add r1, [ r2 +3 ];\nfinish;",
        "start\nadd r1, r2\n; add r9, r9\nmul.add r3, r1, r2\nld.add r1, [r2 + 3] ; ]\nfinish\n;",
    ):
        assert rg.assemble(text).code == tidy.code


# ------------------------------------------------------------ labels and branches


def test_labels() -> None:
    program = rg.assemble(
        """
        start
a.b:    goto.eq r1, r2, _under
two:
three:  add r1, 1
_under: from.eq r1, r2, a.b
        finish
end:
        """
    )
    assert program.labels == {"a.b": 1, "two": 2, "three": 2, "_under": 3, "end": 5}
    assert program.instructions[1].imm == 2
    assert program.instructions[3].imm == -2


def test_labels_are_constants() -> None:
    program = rg.assemble("start\nadd r1, here\nhere: add r2, here + 1\nadd r3, -there\nthere: finish")
    assert [i.imm for i in program.instructions[1:4]] == [2, 3, -4]


def test_targets_by_distance() -> None:
    program = rg.assemble("start\ngoto.eq r1, r2, .+2\nadd r1, 1\nfrom.eq r1, r2, .-2\nfinish")
    assert [i.imm for i in program.instructions] == [0, 2, 1, -2, 0]
    # An uncall's constant is source minus target: the jump is taken backward.
    program = rg.assemble("start\nuncall f\ncall f\nfinish\nproc f, r1\nendproc")
    assert [program.instructions[pc].imm for pc in (1, 2)] == [-4, 3]
    assert one("uncall .+4") == ("uncall", 0, 0, 0, -4)


def test_text_and_data_have_their_own_labels() -> None:
    program = rg.assemble(".data\nx: .word 1\ny: .word 2\nz:\n.text\nstart\nt: add r1, y\nadd r2, z\nfinish")
    assert program.data_labels == {"x": 0, "y": 1, "z": 2}
    assert program.labels == {"t": 1}
    assert [i.imm for i in program.instructions[1:3]] == [1, 2]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("goto nowhere", "RG0106", "the label `nowhere` is not defined"),
        ("x:\nx:", "RG0107", "`x` is already defined at <text>:1"),
        (".data\nx: .word 1\n.text\nx:", "RG0107", "`x` is already defined at <text>:2"),
        (".equ x, 1\nx:", "RG0107", "`x` is already defined"),
        (".reg x, r1\nx:", "RG0107", "`x` is already defined"),
        ("r12:", "RG0107", "`r12` is a register"),
        (".data\nx: .word 1\n.text\ngoto x", "RG0106", "the label `x` is not code"),
        (".equ x, 1\ngoto x", "RG0106", "the label `x` is not code"),
        ("goto 3", "RG0103", "`3` is not a label"),
        ("goto", "RG0102", "`goto` takes 1 operand, not 0"),
        ("goto.eq r1, r2,", "RG0103", "a label is missing here"),
        ("add r1, nothing", "RG0106", "`nothing` is not defined"),
        ("goto .+9999999999", "RG0105", "a jump of 9999999999 instructions does not fit BR"),
    ],
)
def test_wrong_labels(text: str, code: str, message: str) -> None:
    found = wrong(text)
    assert (found.code, found.message[: len(message)]) == (code, message)


# ------------------------------------------------------------ constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("7", 7), ("1_000", 1000), ("0x1f", 31), ("0X1F", 31), ("0b101", 5), ("0o17", 15), ("0x_ff", 255),
        ("-7", -7), ("+7", 7), ("~0", -1), ("--7", 7), ("-~7", 8),
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("2 - 3 - 4", -5), ("7 / 2", 3), ("-7 / 2", -4), ("-7 % 3", 2),
        ("1 << 4 + 1", 32), ("256 >> 4", 16), ("-1 >> 4", -1), ("6 & 3 | 8", 10), ("6 ^ 3 & 2", 4), ("1 | 6 ^ 2", 5),
        ("12 / 3 / 2", 2), ("2 + 6 / 3", 4), ("7 - 6 % 4", 5), ("1 << 6 / 3", 4), ("6 / 3 << 1", 4), ("2 * 3 % 4", 2), ("1 << 2 << 3", 32), ("-2 * 3", -6), ("~1 & 7", 6), ("((((5))))", 5),
        ("'a'", 97), ("' '", 32), ("'\"'", 34), ("';'", 59), ("'\\n'", 10), ("'\\t'", 9), ("'\\r'", 13),
        ("'\\0'", 0), ("'\\\\'", 92), ("'\\''", 39), ("'\\\"'", 34), ("'é'", 233), ("'a' + 1", 98), ("'∀'", 0x2200),
        ("','", 44), ("'('", 40), ("'['", 91),
        ("K", 12), ("K * 2 + 1", 25), ("K.2", 13), ("two", 1),
    ],
)  # fmt: skip
def test_constants(text: str, value: int) -> None:
    head = ".equ K, 12\n.equ K.2, K + 1\n.data\n.word 9\ntwo: .word 8\n"
    for line, find in (
        (f".text\nstart\nandi.add r1, r2, {text}\nfinish", lambda p: p.instructions[1].imm),
        (f".text\nstart\nadd r1, {text}\nfinish", lambda p: p.instructions[1].imm),
        (f".word {text}\n.text\nstart\nfinish", lambda p: p.format.signed(p.data[2])),
    ):
        assert find(rg.assemble(head + line)) == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "RG0104"), ("+", "RG0104"), ("1 +", "RG0104"), ("(1", "RG0104"), ("1)", "RG0104"), ("1 2", "RG0104"),
        ("0x", "RG0104"), ("0xg", "RG0104"), ("12a", "RG0104"), ("0b2", "RG0104"), ("1.5", "RG0104"), ("$", "RG0104"),
        ("'ab'", "RG0104"), ("''", "RG0104"), ("'", "RG0104"), ("'\\q'", "RG0104"), ("1 / 0", "RG0104"),
        ("1 % (2 - 2)", "RG0104"), ("* 2", "RG0104"), ("1 ** 2", "RG0104"), ("r1 + 2", "RG0106"), ("zz", "RG0106"),
        ("1 << -1", "RG0105"), ("1 << 5000", "RG0105"), ("1 << 4000 << 4000", "RG0105"), ("1 << 64", "RG0105"),
        ("9" * 1100, "RG0105"), ("(" * 70 + "1" + ")" * 70, "RG0104"), ("1e400q", "RG0105"), ("1e999999999q", "RG0105"),
        ("0." + "0" * 300 + "1q", "RG0105"), ("1e20q", "RG0105"),
    ],
)  # fmt: skip
def test_wrong_constants(text: str, code: str) -> None:
    assert wrong(f"andi.add r1, r2, {text}").code == code
    assert wrong(f".data\n.word {text}").code == code


def test_a_wrong_constant_is_shown_where_it_is() -> None:
    found = wrong("start\n    add r1, 12 + * 3 ; x\nfinish")
    assert found.span == Span("<text>", 2, 18, 19)
    assert found.line == "    add r1, 12 + * 3 ; x"
    found = wrong(".equ length, 5\n.equ size, 2 * lenght")
    assert found.span == Span("<text>", 2, 16, 22)
    assert found.hint == "did you mean `length`?"
    # What may be defined later is looked for at the end; the span holds the name.
    found = wrong(".equ length, 5\nstart\nadd r1, 2 * lenght")
    assert found.span is not None
    assert "lenght" in "add r1, 2 * lenght"[found.span.column - 1 : found.span.end - 1]
    assert found.hint == "did you mean `length`?"


def expression(rng: random.Random, depth: int) -> str:
    """A random expression; what divides or shifts is a small number."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.randint(0, 40))
    inner = expression(rng, depth - 1)
    match rng.randrange(7):
        case 0 | 1 | 2:
            return f"{inner} {rng.choice('+-*&|^')} {expression(rng, depth - 1)}"
        case 3:
            return f"{inner} {rng.choice('/%')} {rng.randint(1, 9)}"
        case 4:
            return f"{inner} {rng.choice(('<<', '>>'))} {rng.randint(0, 3)}"
        case 5:
            return f"({inner})"
        case _:
            return f"{rng.choice('-~+')}{inner}"


def test_expressions_are_those_of_python() -> None:
    """Random expressions, against Python's integers: the operators and their precedences are the same."""
    rng = random.Random(1)
    texts, values = [], []
    while len(texts) < 3000:
        text = expression(rng, 4)
        try:
            value = eval(text.replace("/", "//"))
        except (ValueError, ZeroDivisionError):  # a shift that has become negative, a product that divides
            continue
        texts.append(f".word ({text}) & 0xffffffffffffffff")
        values.append(value & M64)
    program = rg.assemble("\n".join([".data", *texts, ".text", "start", "finish"]))
    for text, found, value in zip(texts, program.data, values, strict=True):
        assert found == value, text


# ------------------------------------------------------------ fixed-point literals


#: a literal that loses bits is warned of
ROUNDED = pytest.mark.filterwarnings("ignore::retrograd.isa.diagnostics.PrecisionWarning")


@ROUNDED
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1q", 16), ("1.5q", 24), (".5q", 8), ("1.q", 16), ("0.0625q", 1), ("0q", 0), ("1e1q", 160), ("1E-1q", 2),
        ("1e+0q", 16), ("1_0q", 160), ("-1.5q", -24), ("1.5q + 1", 25), ("2 * 1.5q", 48), ("-(1q)", -16),
        # Ties to even: 0.5, 1.5 and 2.5 units.
        ("0.09375q", 2), ("0.15625q", 2), ("-0.09375q", -2),
        # Just beside the ties.
        ("0.03126q", 1), ("0.0312500000000000000000000000001q", 1),
        ("0.0937499999999999999999q", 1), ("0.15625000000000000000001q", 3),
    ],
)  # fmt: skip
def test_fixed_point_literals(text: str, value: int) -> None:
    assert one(f"imm.add r1, {text}", format=rg.Format(16, 4)) == ("imm.add", 1, 0, 0, value)


@ROUNDED
@given(st.fractions(-(2**30), 2**30), st.sampled_from([(64, 32), (64, 0), (32, 1), (32, 16), (64, 33)]))
def test_fixed_point_literals_are_the_nearest_words(x: Fraction, shape: tuple[int, int]) -> None:
    w = rg.Format(*shape)
    x = Fraction(round(x * 10**12), 10**12)
    if not -(1 << w.width - 2) <= x * (1 << w.frac) < 1 << w.width - 2:
        x /= 1 << 20
        x = Fraction(round(x * 10**12), 10**12)
    whole, rest = divmod(abs(round(x * 10**12)), 10**12)
    text = f"{'-' if x < 0 else ''}{whole}.{rest:012}q"
    if not w.vanishes(x):
        program = rg.assemble(f".format {w.width}, {w.frac}\n.data\n.word {text}\n.text\nstart\nfinish")
        assert program.data[0] == w.from_real(x)


def test_the_format_is_that_of_the_program() -> None:
    assert rg.assemble(".format 32, 8\n.data\n.word 1.5q\n.text\nstart\nfinish").data == (384,)
    assert rg.assemble(".data\n.word 1.5q\n.text\nstart\nfinish", format=rg.Format(16, 2)).data == (6,)
    assert rg.assemble(".data\n.word 1.5q\n.text\nstart\nfinish").data == (3 << 31,)


def test_a_literal_beyond_the_format() -> None:
    w = ".format 8, 4\n"
    assert rg.assemble(w + ".data\n.word -8q, 7.9375q\n.text\nstart\nfinish").data == (128, 127)
    assert codes(w + ".data\n.word 8.1q") == ["RG0105"]
    assert codes(w + "start\nadd r1, 100q\nfinish") == ["RG0105"]


# ------------------------------------------------------------ ranges


@pytest.mark.parametrize(
    ("w", "low", "high"),
    [
        (rg.Format(64, 32), -(1 << 31), (1 << 31) - 1),
        (rg.Format(32, 16), -(1 << 31), (1 << 32) - 1),
        (rg.Format(16, 8), -(1 << 15), (1 << 16) - 1),
        (rg.Format(8, 4), -(1 << 7), (1 << 8) - 1),
        (rg.Format(4, 2), -(1 << 3), (1 << 4) - 1),
    ],
)
@pytest.mark.parametrize("line", ["muli.add r1, r2, {}", "imm.xor r1, {}", "roli r1, {}", "ld.add r1, [r2 + {}]"])
def test_the_range_of_immediates(line: str, w: rg.Format, low: int, high: int) -> None:
    for value in (low, -1, 0, 1, high):
        written = line.format(value)
        if value < 0:
            written = written.replace("+ -", "- ")
        assert one(written, format=w)[4] & w.mask & (1 << 32) - 1 == value & w.mask & (1 << 32) - 1
    for value in (low - 1, high + 1):
        found = wrong(line.format(value).replace("+ -", "- "), format=w)
        assert found.code == "RG0105"
        assert f"{value} does not fit in {min(32, w.width)} bits" in found.message
        # Known only later, a constant has the same range.
        later = line.format("later").replace("+ -", "- ")
        assert codes(f"{later}\n.equ later, {value}", format=w) == ["RG0105"]


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
def test_the_range_of_data(width: int) -> None:
    w = rg.Format(width, 2)
    low, high = -(1 << width - 1), (1 << width) - 1
    program = rg.assemble(f".data\n.word {low}, -1, 0, {high}\n.text\nstart\nfinish", format=w)
    assert program.data == (1 << width - 1, high, 0, high)
    assert codes(f".data\n.word {low - 1}", format=w) == ["RG0105"]
    assert codes(f".data\n.word {high + 1}", format=w) == ["RG0105"]
    assert codes(f".data\n.word later\n.equ later, {high + 1}", format=w) == ["RG0105"]


# ------------------------------------------------------------ wide constants


WORDS = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-(1 << 33), 1 << 33),
    st.sampled_from([0, 1 << 31, (1 << 31) - 1, -(1 << 31), -(1 << 31) - 1, 1 << 32, (1 << 32) - 1, 1 << 63, M64,
                     0x7FFFFFFF80000000, 0xFFFFFFFF80000000, 0x80000000FFFFFFFF, -(1 << 63), 0x17FFFFFFF, 0x180000000]),
)  # fmt: skip


@given(st.sampled_from(["add", "sub", "xor"]), WORDS, st.integers(0, M64))
def test_short_updates_take_any_word(update: str, value: int, before: int) -> None:
    program = rg.assemble(f"start\n{update} r1, {value}\nfinish")
    assert 3 <= len(program.code) <= 4
    # One instruction where one is enough: 32 bits, or a multiple of 2^32.
    signed = rg.Format().signed(value)
    if -(1 << 31) <= signed < 1 << 31 or value & 0xFFFFFFFF == 0:
        assert len(program.code) == 3
    machine = rg.Machine(program)
    machine.registers[1] = before
    machine.run()
    after = {"add": before + value, "sub": before - value, "xor": before ^ value}[update] & M64
    assert machine.registers[1] == after
    machine.run_back()
    assert machine.registers[1] == before
    # Both instructions come from the one line.
    assert {program.source.span(pc) for pc in range(1, len(program.code) - 1)} == {
        Span("<text>", 2, 1, 9 + len(str(value)))
    }


def test_wide_updates_in_narrow_formats() -> None:
    assert lines("add r1, 200", format=rg.Format(8, 4))[0].imm & 255 == 200
    assert len(lines("add r1, 0xffffffff", format=rg.Format(32, 16))) == 1
    assert codes("start\nadd r1, 256\nfinish", format=rg.Format(8, 4)) == ["RG0105"]
    assert codes("start\nadd r1, 1 << 64\nfinish") == ["RG0105"]
    assert codes(f"start\nadd r1, {-(1 << 63) - 1}\nfinish") == ["RG0105"]


def test_labels_count_the_second_instruction() -> None:
    program = rg.assemble("start\nadd r1, 0x123456789abcdef\nhere: finish")
    assert program.labels["here"] == 3


def test_a_wide_constant_must_be_known() -> None:
    assert codes("start\nadd r1, later\n.equ later, 1 << 40\nfinish") == ["RG0105"]
    assert lines("add r1, later", ".equ later, 1 << 20")[0].imm == 1 << 20


# ------------------------------------------------------------ memory operands


@pytest.mark.parametrize(
    ("text", "ra", "imm"),
    [
        ("[r2]", 2, 0), ("[ r2 ]", 2, 0), ("[r2 + 4]", 2, 4), ("[r2+4]", 2, 4), ("[r2 - 4]", 2, -4),
        ("[r2 + x]", 2, 1), ("[r2 - x]", 2, -1), ("[r2 + x + 1]", 2, 2), ("[base + 2 * K]", 9, 10),
        ("[r2 + 'a']", 2, 97), ("[r2 + -4]", 2, -4), ("[r2 + later]", 2, 30), ("[r2 - later]", 2, -30),
        ("[r2 - (x + 1)]", 2, -2), ("[r2 + (1 + 2) * 3]", 2, 9),
    ],
)  # fmt: skip
def test_memory_operands(text: str, ra: int, imm: int) -> None:
    body = (".reg base, r9", ".equ K, 5", ".data", ".word 0", "x: .word 1", ".text")
    for line in ("ld.add r1, {}", "exch r1, {}", "st.xor {}, r1"):
        *_, i = lines(*body, line.format(text), ".equ later, 30")
        assert (i.ra, i.imm) == (ra, imm)
        assert (i.rb if i.opcode.name == "st.xor" else i.rd) == 1


def test_a_difference_after_a_minus_is_that_of_the_sum() -> None:
    # [r2 - x + 1] reads as r2 − x + 1, as everywhere else.
    *_, i = lines("ld.add r1, [r2 - 5 + 1]")
    assert i.imm == -4


@pytest.mark.parametrize("text", ["", "r2", "[", "[]", "[5]", "[r2 + ]", "[r2 4]", "[x]", "[r2 * 2]", "[r300]", "[r2"])
def test_wrong_memory_operands(text: str) -> None:
    found = wrong(f"ld.add r1, {text}")
    assert found.code in ("RG0103", "RG0104")
    assert found.span is not None
    assert found.span.line == 1


def test_a_named_register_is_one_everywhere() -> None:
    # `.reg` takes any name; a memory operand takes any register.
    *_, i = lines(".reg list.head, r7", "add r1, list.head", "ld.add r1, [list.head + 2]")
    assert (i.ra, i.imm) == (7, 2)


# ------------------------------------------------------------ directives


def test_equ() -> None:
    program = rg.assemble(".equ A, 3\n.equ B, A * A\nstart\nadd r1, B\nfinish")
    assert program.instructions[1].imm == 9
    assert codes(".equ A, 1\n.equ A, 1") == ["RG0107"]
    assert codes(".equ A") == codes(".equ A, 1, 2") == codes(".equ") == ["RG0102"]
    assert codes(".equ 5, 1") == ["RG0113"]
    assert codes(".equ A, B\n.equ B, 1") == ["RG0106"]
    assert codes(".equ r5, 1") == ["RG0107"]


def test_reg() -> None:
    assert lines(".reg sum, r200", ".reg total, sum", "add total, sum_of", ".equ sum_of, 5")[0][1:] == (200, 0, 0, 5)
    assert codes(".reg x, r256") == codes(".reg x, 5") == codes(".reg x, y") == ["RG0103"]
    assert codes(".reg r1, r2") == ["RG0107"]
    assert codes(".reg x, r1\n.reg x, r2") == ["RG0107"]
    assert codes(".reg x") == ["RG0102"]
    assert wrong(".reg counter, r1\nadd counted, 1").hint == "did you mean `counter`?"


def test_aliases_are_seen_through_names() -> None:
    assert codes(".reg x, r1\n.reg y, r1\nadd x, y") == ["RG0108"]


def test_format() -> None:
    assert rg.assemble(".format 32, 16\nstart\nfinish").format == rg.Format(32, 16)
    assert rg.assemble("start\nfinish").format == rg.Format(64, 32)
    assert rg.assemble("start\nfinish", format=rg.Format(16, 3)).format == rg.Format(16, 3)
    for text in (".format 33, 4", ".format 32, 32", ".format 32, -1", ".format 0, 0"):
        assert codes(text) == ["RG0117"]
    # It comes before all that depends on it.
    for before in ("start", ".equ x, 1", ".data\n.word 1\n.text", ".format 64, 32"):
        assert codes(f"{before}\n.format 64, 32") == ["RG0117"]
    assert rg.assemble("; c\n.memory 5\n.reg x, r1\n.format 8, 4\nstart\nfinish").format.width == 8


def test_memory() -> None:
    assert rg.assemble(".memory 100\nstart\nfinish").memory == 100
    assert rg.assemble(".memory 2\n.data\n.word 1, 2, 3\n.text\nstart\nfinish").memory == 3
    assert rg.assemble(".memory 100\n.memory 50\nstart\nfinish").memory == 100
    assert codes(".memory -1") == codes(".memory 1 << 40") == ["RG0116"]
    assert errors(".memory 1 << 4000")[0].message.startswith("a count of words with 4001 bits, where 0 to ")
    assert codes(".memory") == ["RG0102"]


def test_words_zeros_and_strings() -> None:
    text = """
        .data
first:  .word 1, -1, 0x10, 'a', later, here   ; forward too
here:   .zero 3
        .ascii "ab;\\"\\n\\0, c"
last:   .word first + last
        .ascii ""
        .zero 0
        .text
        start
later:  finish
    """
    program = rg.assemble(text)
    string = [ord(c) for c in 'ab;"\n\0, c']
    assert list(program.data) == [1, M64, 16, 97, 1, 6, 0, 0, 0, *string, 9 + len(string)]
    assert program.data_labels == {"first": 0, "here": 6, "last": 9 + len(string)}
    assert rg.assemble('.data\n.ascii "é∀"\n.text\nstart\nfinish').data == tuple("é∀".encode())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (".word 1", "RG0114"), (".zero 1", "RG0114"), ('.ascii "x"', "RG0114"), (".data\nadd r1, 1", "RG0114"),
        (".data\npush r1, r2", "RG0114"), (".data\nstart", "RG0114"), (".data\nadd r1, r2", "RG0114"),
        (".data\n.zero -1", "RG0116"), (".data\n.zero 1 << 30", "RG0116"), (".data\n.ascii x", "RG0113"),
        ('.data\n.ascii "x', "RG0113"), ('.data\n.ascii "x" "y"', "RG0113"), ('.data\n.ascii "\\q"', "RG0113"),
        (".data\n.ascii", "RG0113"), (".data\n.word", "RG0104"), (".data\n.word 1,,2", "RG0104"),
        (".data 5", "RG0102"), (".text 5", "RG0102"), (".wrod 1", "RG0109"), (".", "RG0109"), ("..", "RG0109"),
    ],
)  # fmt: skip
def test_wrong_directives(text: str, code: str) -> None:
    assert wrong(text).code == code


def test_a_misspelt_directive_is_guessed() -> None:
    assert wrong(".wrod 1").hint == "did you mean `.word`?"


def test_sections_alternate() -> None:
    program = rg.assemble(".data\na: .word 1\n.text\nstart\n.data\nb: .word 2\n.text\nadd r1, b\nfinish")
    assert program.data == (1, 2)
    assert [i.imm for i in program.instructions] == [0, 1, 0]


# ------------------------------------------------------------ includes


def assemble_in(folder: Path, name: str = "main.rga", **options: Any) -> rg.Program:
    return rg.assemble_file(folder / name, **options)


def test_include(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "main.rga").write_text('start\n.include "lib/one.rga"\nadd r1, K\nfinish\n')
    (tmp_path / "lib/one.rga").write_text('.equ K, 7\nadd r1, r2\n.include "two.rga"\nadd r4, r5\n')
    (tmp_path / "lib/two.rga").write_text("add r3, r4\n")
    program = assemble_in(tmp_path)
    assert [i[1:3] for i in program.instructions[1:5]] == [(1, 2), (3, 4), (4, 5), (1, 0)]
    spans = [program.source.span(pc) for pc in range(6)]
    assert [(Path(s.file).name, s.line) for s in spans if s] == [
        ("main.rga", 1), ("one.rga", 2), ("two.rga", 1), ("one.rga", 4), ("main.rga", 3), ("main.rga", 4),
    ]  # fmt: skip
    assert program.source.line(spans[2]) == "add r3, r4"


def test_an_error_in_an_include_is_shown_there(tmp_path: Path) -> None:
    (tmp_path / "main.rga").write_text('start\n.include "part.rga"\nnonsense\nfinish\n')
    (tmp_path / "part.rga").write_text("\nadd r1, r1\nadd r1, K\n")
    with pytest.raises(rg.AssemblyError) as caught:
        assemble_in(tmp_path)
    found = [(d.code, Path(d.span.file).name, d.span.line, d.line) for d in caught.value.diagnostics if d.span]
    assert found == [
        ("RG0108", "part.rga", 2, "add r1, r1"),
        ("RG0101", "main.rga", 3, "nonsense"),
        ("RG0106", "part.rga", 3, "add r1, K"),
    ]


def test_an_include_leaves_the_section(tmp_path: Path) -> None:
    (tmp_path / "main.rga").write_text('start\n.include "data.rga"\nadd r1, 1\nfinish\n')
    (tmp_path / "data.rga").write_text(".data\nx: .word 5\n")
    assert assemble_in(tmp_path).data == (5,)
    (tmp_path / "main.rga").write_text('.data\n.include "words.rga"\n.text\nstart\nfinish\n')
    (tmp_path / "words.rga").write_text(".word 1, 2\n")
    assert assemble_in(tmp_path).data == (1, 2)


def test_includes_that_loop(tmp_path: Path) -> None:
    (tmp_path / "main.rga").write_text('start\n.include "main.rga"\nfinish\n')
    with pytest.raises(rg.AssemblyError, match="RG0111"):
        assemble_in(tmp_path)
    (tmp_path / "main.rga").write_text('start\n.include "a.rga"\nfinish\n')
    (tmp_path / "a.rga").write_text('.include "b.rga"\n')
    (tmp_path / "b.rga").write_text('.include "a.rga"\n')
    with pytest.raises(rg.AssemblyError, match="RG0111"):
        assemble_in(tmp_path)
    for i in range(50):
        (tmp_path / f"f{i}.rga").write_text(f'.include "f{i + 1}.rga"\n')
    (tmp_path / "main.rga").write_text('start\n.include "f0.rga"\nfinish\n')
    with pytest.raises(rg.AssemblyError, match="RG0111"):
        assemble_in(tmp_path)


def test_a_file_may_be_included_twice(tmp_path: Path) -> None:
    (tmp_path / "main.rga").write_text('start\n.include "a.rga"\n.include "a.rga"\nfinish\n')
    (tmp_path / "a.rga").write_text("add r1, 3\n")
    assert [i.imm for i in assemble_in(tmp_path).instructions] == [0, 3, 3, 0]


def test_includes_that_double_end(tmp_path: Path) -> None:
    # Thirty files that each include the next twice: 2^30 lines, were there no limit.
    for i in range(30):
        (tmp_path / f"f{i}.rga").write_text(f'.include "f{i + 1}.rga"\n' * 2)
    (tmp_path / "f30.rga").write_text("add r1, 1\n")
    (tmp_path / "main.rga").write_text('start\n.include "f0.rga"\nfinish\n')
    with pytest.raises(rg.AssemblyError, match="RG0116"):
        assemble_in(tmp_path)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing.rga", "RG0110"), ("", "RG0110"), (".", "RG0110"), ("folder", "RG0110"), ("pipe", "RG0110"),
        ("binary.rga", "RG0118"), ("../outside.rga", "RG0112"), ("link.rga", "RG0112"), ("/etc/passwd", "RG0112"),
        ("folder/../../outside.rga", "RG0112"), ("x" * 5000, "RG0110"),
    ],
)  # fmt: skip
def test_what_cannot_be_included(tmp_path: Path, name: str, code: str) -> None:
    inner = tmp_path / "inner"
    (inner / "folder").mkdir(parents=True)
    (tmp_path / "outside.rga").write_text("add r1, 1\n")
    (inner / "link.rga").symlink_to(tmp_path / "outside.rga")
    (inner / "binary.rga").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(inner / "pipe")
    (inner / "main.rga").write_text(f'start\n.include "{name}"\nfinish\n')
    with pytest.raises(rg.AssemblyError) as caught:
        assemble_in(inner)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert caught.value.diagnostics[0].span is not None


def test_more_folders_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/part.rga").write_text("add r1, 5\n")
    (tmp_path / "inner/main.rga").write_text('start\n.include "part.rga"\nfinish\n')
    with pytest.raises(rg.AssemblyError, match="RG0110"):
        assemble_in(tmp_path / "inner")
    assert assemble_in(tmp_path / "inner", include=[tmp_path / "lib"]).instructions[1].imm == 5


def test_a_text_includes_nothing() -> None:
    assert codes('.include "x.rga"') == ["RG0110"]
    assert codes(".include x.rga") == ["RG0113"]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    for name, data in (("a.rga", b"start\n\xff\nfinish"), ("b.rga", b"start\n\0\nfinish")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(rg.AssemblyError) as caught:
            assemble_in(tmp_path, name)
        assert caught.value.code == "RG0118"
        assert caught.value.diagnostics[0].span == Span(str(tmp_path / name), 2)
    (tmp_path / "bom.rga").write_bytes(b"\xef\xbb\xbfstart\nfinish\n")
    assert len(assemble_in(tmp_path, "bom.rga").code) == 2


# ------------------------------------------------------------ procedures and stacks


def test_proc_and_endproc() -> None:
    sugar = rg.assemble("start\ncall f\nfinish\nproc f, r1\nadd r2, 1\nendproc")
    plain = rg.assemble(
        """
        start
        call f
        finish
f.top:  from f.bottom
f:      swapbr r1
        neg r1
        add r2, 1
f.bottom: goto f.top
        """
    )
    assert sugar == plain


def test_proc_with_a_stack() -> None:
    sugar = rg.assemble("start\ncall f\nfinish\nproc f, r1, r9\nadd r2, 1\nendproc")
    plain = rg.assemble(
        """
        start
        call f
        finish
f.top:  from f.bottom
        sub r9, 1
        exch r1, [r9]
f:      swapbr r1
        neg r1
        exch r1, [r9]
        add r9, 1
        add r2, 1
f.bottom: goto f.top
        """
    )
    assert sugar == plain


def test_push_and_pop() -> None:
    assert lines("push r1, r9") == lines("exch r1, [r9]", "add r9, 1")
    assert lines("pop r1, r9") == lines("sub r9, 1", "exch r1, [r9]")
    machine = rg.Machine(rg.assemble(".memory 4\nstart\nadd r1, 7\npush r1, r9\npop r2, r9\nfinish"))
    machine.run()
    assert (machine.registers[1], machine.registers[2], machine.registers[9]) == (0, 7, 0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("push r1, r1", "RG0108"), ("pop r1, r1", "RG0108"), ("push r1", "RG0102"), ("pop r1, r2, r3", "RG0102"),
        ("push r1, 5", "RG0103"), ("push x, r1", "RG0103"), ("endproc", "RG0115"), ("proc f, r1, r1", "RG0108"),
        ("proc f", "RG0102"), ("proc f, r1, r2, r3", "RG0102"), ("proc f, x", "RG0103"), ("proc 5, r1", "RG0113"),
        ("proc f, r1\nproc g, r2\nendproc", "RG0115"), ("f:\nproc f, r1\nendproc", "RG0107"),
        ("proc r1, r2\nendproc", "RG0107"), ("proc f, r1\n.data\n.text\nendproc", "RG0114"),
        ("endproc 5", "RG0102"),
    ],
)  # fmt: skip
def test_wrong_procedures(text: str, code: str) -> None:
    assert codes(text)[0] == code


def test_a_procedure_without_end_is_one_error() -> None:
    found = errors("start\nfinish\nproc f, r1\nadd r2, 1")
    assert [d.code for d in found] == ["RG0115"]
    assert found[0].span == Span("<text>", 3, 6, 7)


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("text", "code", "span", "hint"),
    [
        ("ad r1, 1", "RG0101", (1, 3), "did you mean `add`?"),
        ("  mul r1, r2, r3", "RG0101", (3, 6), "write the update too: `mul.add`, `mul.sub`, `mul.xor`"),
        ("add r1", "RG0102", (1, 4), "syntax: `add rd, ra`"),
        ("start r1", "RG0102", (1, 6), "syntax: `start`"),
        ("add r256, 1", "RG0103", (5, 9), None),
        ("add 5, r1", "RG0103", (5, 6), None),
        ("add r1, [r2]", "RG0103", (9, 13), "use ld, st or exch for memory"),
        ("mul.add r1, , r2", "RG0103", None, None),
        ("add r1, r1", "RG0108", None, None),
        ("mul.add r1, r2, r1", "RG0108", None, None),
        ("swap r3, r3", "RG0108", None, None),
        ("exch r1, [r1]", "RG0108", None, None),
        ("cswap r1, r2, r2", "RG0108", None, None),
        ("!", "RG0113", (1, 2), None),
        ("  [r1]", "RG0113", (3, 7), None),
        ("5 add r1, 1", "RG0113", (1, 12), None),
    ],
)
def test_errors(text: str, code: str, span: tuple[int, int] | None, hint: str | None) -> None:
    found = wrong(text)
    assert found.code == code
    assert found.line == text
    assert found.span is not None
    if span is not None:
        assert (found.span.column, found.span.end) == span
    assert 1 <= found.span.column < found.span.end <= len(text) + 2
    if hint is not None:
        assert found.hint == hint


def test_all_errors_of_a_text_are_reported() -> None:
    text = "start\nadd r1, r1\nfoo\nadd r2, 1\ngoto nowhere\nadd r1, 1 +\n.data\nx: .word y\n.text\nadd r300, 1\nfinish"
    found = errors(text)
    assert sorted((d.code, d.span.line) for d in found if d.span) == [
        ("RG0101", 3), ("RG0103", 10), ("RG0104", 6), ("RG0106", 5), ("RG0106", 8), ("RG0108", 2),
    ]  # fmt: skip
    for d in found:
        assert d.span is not None
        assert d.line == text.split("\n")[d.span.line - 1]
        assert d.code in str(d.render())
    with pytest.raises(rg.AssemblyError) as caught:
        rg.assemble(text)
    assert str(caught.value).count("error[") == 6


def test_errors_are_reported_up_to_a_limit() -> None:
    found = errors("nonsense\n" * 1000)
    assert len(found) == 50
    found = errors("goto nowhere\n" * 1000)
    assert len(found) == 50


def test_the_verifier_is_part_of_it() -> None:
    with pytest.raises(rg.VerificationError) as caught:
        rg.assemble("start\nfinish\nfinish", name="demo")
    assert caught.value.diagnostics[0].span == Span("demo", 3, 1, 7)
    assert len(rg.assemble("start\nfinish\nfinish", check=False).code) == 3


def test_an_error_with_a_caret() -> None:
    found = wrong("\tadd r1, lenght ; no")
    shown = found.render().split("\n")
    assert shown[2].endswith("|  add r1, lenght ; no")
    assert shown[3].index("^") == shown[2].index("lenght")
    assert shown[3].count("^") == len("lenght")


# ------------------------------------------------------------ lines that come again


def test_repeated_lines_have_their_own_places() -> None:
    text = "start\n" + "  add r1, r2\n  mul.add r3, r1, r2 ; x\n  add r1, 5\n  ld.add r4, [r1 + 2]\n" * 3 + "finish"
    program = rg.assemble(text)
    block = program.code[1:5]
    assert program.code[1:13] == block * 3
    source = text.split("\n")
    for pc in range(1, 13):
        span = program.source.span(pc)
        assert span is not None
        assert span.line == pc + 1
        assert source[pc][span.column - 1 : span.end - 1] == source[pc].split(";")[0].strip()


def test_a_known_line_in_the_wrong_section() -> None:
    for line in ("add r1, r2", "add r1, 5", "neg r1"):
        found = errors(f"start\n{line}\n{line}\n.data\n{line}\n.text\n{line}\nfinish")
        assert [(d.code, d.span.line) for d in found if d.span] == [("RG0114", 5)]


def test_a_name_that_becomes_a_register() -> None:
    # The same line, before and after: first a constant that comes later, then a register.
    found = errors("start\nadd r1, x\n.reg x, r2\nadd r1, x\nfinish")
    assert [(d.code, d.span.line) for d in found if d.span] == [("RG0106", 2)]
    program = rg.assemble("start\nadd r1, r3\n.reg x, r2\nadd r1, x\nadd r1, r3\nfinish")
    assert [(i.opcode.name, i.ra) for i in program.instructions[1:4]] == [
        ("mov.add", 3), ("mov.add", 2), ("mov.add", 3),
    ]  # fmt: skip


def test_a_name_that_becomes_a_constant() -> None:
    program = rg.assemble("start\nadd r1, x\n.equ x, 7\nadd r1, x\nadd r1, x\nfinish")
    assert [i.imm for i in program.instructions[1:4]] == [7, 7, 7]


def test_a_line_that_was_wrong_is_wrong_again() -> None:
    found = errors("add x, r2\nadd x, r2\n.reg x, r1\nadd x, r2\nadd r1, r1\nadd r1, r1")
    assert [(d.code, d.span.line) for d in found if d.span] == [
        ("RG0103", 1), ("RG0103", 2), ("RG0108", 5), ("RG0108", 6),
    ]  # fmt: skip


def test_repeated_branches_are_resolved_each_for_itself() -> None:
    text = "start\na: goto.eq r1, r2, b\nadd r3, 1\nb: from.eq r1, r2, a\n"
    program = rg.assemble(
        "start\n"
        + "".join(f"a{k}:\ngoto.eq r1, r2, b{k}\nadd r3, 1\nb{k}:\nfrom.eq r1, r2, a{k}\n" for k in range(3))
        + "finish"
    )
    assert [i.imm for i in program.instructions[1:-1]] == [2, 1, -2] * 3
    assert rg.assemble(text + "finish").code[1:4] == program.code[1:4]
    # The same line goes elsewhere from another place.
    program = rg.assemble("start\nadd r1, r2\nx: add r3, x\nadd r3, x\ncall f\ncall f\nfinish\nproc f, r9\nendproc")
    assert [i.imm for i in program.instructions[2:6]] == [2, 2, 4, 3]


def test_another_table() -> None:
    table = rg.TABLE.extended(Function("nand", rg.TABLE.free_code(), "integer", lambda w: ~(a & b), "Not and."))
    program = rg.assemble("start\nnand.add r1, r2, r3\nnand.add r1, r2, r3\nfinish", table=table)
    machine = rg.Machine(program)
    machine.registers[2:4] = 12, 10
    machine.run()
    assert machine.registers[1] == 2 * ~8 & M64
    assert rg.assemble(rg.disassemble(program), table=table) == program
    assert codes("nand.add r1, r2, r3") == ["RG0101"]


@given(
    st.sampled_from([rg.Format(), rg.Format(64, 60), rg.Format(32, 16), rg.Format(16, 12)]),
    st.builds(lambda m, e: f"{m}e{e}", st.integers(1, 9999), st.integers(-24, -1)),
    st.sampled_from(
        [".data\n.word {}\n.text\nstart\nfinish\n", "start\n add r1, {}\nfinish\n", ".equ c, {}\nstart\nfinish\n"]
    ),
)
def test_a_literal_is_kept_warned_of_or_refused(w: rg.Format, digits: str, text: str) -> None:
    number = Fraction(digits)
    source = text.format(f"-{digits}q")
    if w.vanishes(number):
        with pytest.raises(rg.AssemblyError) as error:
            rg.assemble(source, format=w)
        (d,) = error.value.diagnostics
        assert d.code == "RG0120"
        assert d.span is not None
        assert d.line is not None
        assert d.line[d.span.column - 1 : d.span.end - 1] == f"{digits}q"
        assert d.hint == w.remedy(number)
        return
    if number * 2**w.frac > w.sign:
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rg.assemble(source, format=w)
    assert [x.category for x in told] == ([] if w.keeps(number) else [rg.PrecisionWarning])


@pytest.mark.parametrize("name", FOREIGN)
def test_an_instruction_of_another_machine_has_one_here(name: str) -> None:
    """The lines that the hint proposes assemble."""
    with pytest.raises(rg.RetrogradError) as refused:
        rg.assemble(f"start\n {name} r1\nfinish")
    found = refused.value.diagnostics[0]
    assert (found.code, found.hint) == ("RG0101", FOREIGN[name])
    proposed = re.findall(r"`([^`]+)`", FOREIGN[name])
    assert proposed
    for text in proposed:
        word, _, operands = text.partition(" ")
        assert word in rg.TABLE.by_name or word in rg.TABLE.shorthands, text
        if operands and not re.search("target|label|name", operands):
            line = re.sub(r"\br([dab])\b", lambda m: f"r{'dab'.index(m[1]) + 1}", text)
            rg.assemble(f"start\n {line}\nfinish", check=False)
