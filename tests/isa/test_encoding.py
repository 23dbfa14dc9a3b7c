"""Encoding: a bijection between legal instructions and legal words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from retrograd.isa.diagnostics import ImageError
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN, Instruction, decode, encode, illegality, inverse
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

OPCODES = list(TABLE)
NAMES = [opcode.name for opcode in OPCODES]
FIELDS = ("rd", "ra", "rb", "imm")
registers = st.sampled_from([0, 1, 2, 127, 128, 254, 255]) | st.integers(0, 255)
constants = st.sampled_from([0, 1, -1, IMMEDIATE_MIN, IMMEDIATE_MIN + 1, IMMEDIATE_MAX]) | st.integers(
    IMMEDIATE_MIN, IMMEDIATE_MAX
)


@st.composite
def instructions(draw: Callable[..., Any]) -> Instruction:
    """Legal instructions over the whole table."""
    opcode = draw(st.sampled_from(OPCODES))
    used = {f: draw(constants if f == "imm" else registers) for f in FIELDS if f in opcode.fields}
    assume(all(used[x] != used[y] for x, y in opcode.distinct))
    assume(not (opcode.negates_immediate and used["imm"] == IMMEDIATE_MIN))
    return Instruction(opcode, **used)


def changed(i: Instruction, fields: dict[str, int]) -> Instruction:
    return Instruction(i.opcode, **{f: fields.get(f, getattr(i, f)) for f in FIELDS})


def legal(opcode: Opcode) -> Instruction:
    """Some legal instruction with the opcode, every field it uses nonzero."""
    values = {"rd": 1, "ra": 2, "rb": 3, "imm": 4}
    return Instruction(opcode, **{f: v for f, v in values.items() if f in opcode.fields})


def layout(i: Instruction) -> int:
    """`op:8 rd:8 ra:8 rb:8 imm:32` spelt out, with no check."""
    digits = f"{i.opcode.code:02x}{i.rd:02x}{i.ra:02x}{i.rb:02x}{i.imm % 2**32:08x}"
    return int(digits, 16)


# ---------------------------------------------------------------- identity both ways


@given(instructions())
def test_decode_undoes_encode(i: Instruction) -> None:
    word = encode(i)
    assert word == layout(i)
    assert decode(word) == i
    assert illegality(i) is None


def is_instruction(word: int) -> bool:
    """The rule in isa.md, read off the bytes: a known opcode, unused fields zero, no alias, an offset with an inverse."""
    code, *fields = word.to_bytes(8, "big")[:4]
    imm = word % 2**32
    opcode = next((o for o in OPCODES if o.code == code), None)
    if opcode is None:
        return False
    values = dict(zip(FIELDS, (*fields, imm), strict=True))
    clean = all(values[f] == 0 or f in opcode.fields for f in FIELDS)
    return (
        clean
        and all(values[x] != values[y] for x, y in opcode.distinct)
        and not (opcode.negates_immediate and imm == 2**31)
    )


def reencodes(word: int) -> bool:
    """Whether the word is an instruction; if it is, it must be the only word of that instruction."""
    if not is_instruction(word):
        with pytest.raises(ImageError) as caught:
            decode(word)
        assert caught.value.code == "RG0306"
        return False
    assert encode(decode(word)) == word
    return True


@given(st.integers(0, 2**64 - 1))
def test_encode_undoes_decode_on_any_word(word: int) -> None:
    reencodes(word)


@given(st.sampled_from([o.code for o in OPCODES]), st.integers(0, 2**56 - 1), st.integers(0, 15))
def test_encode_undoes_decode_near_instructions(code: int, rest: int, keep: int) -> None:
    masks = [0xFF << 48, 0xFF << 40, 0xFF << 32, 0xFFFFFFFF]
    mask = sum(m for k, m in enumerate(masks) if keep >> k & 1)
    reencodes(code << 56 | rest & mask)


def test_random_words_are_seen_to_decode_and_not() -> None:
    # The two properties above would hold emptily if all words were illegal.
    rng = random.Random(6)
    found = [reencodes(opcode.code << 56 | rng.getrandbits(56)) for opcode in OPCODES for _ in range(40)]
    full = [opcode for opcode in OPCODES if set(FIELDS) <= opcode.fields]
    assert any(found) or not full
    assert not all(found)
    for opcode in OPCODES:
        assert reencodes(layout(legal(opcode)))


@given(instructions(), instructions())
def test_different_instructions_have_different_words(i: Instruction, j: Instruction) -> None:
    assert (encode(i) == encode(j)) == (i == j)


@given(instructions())
def test_inverse_of_inverse(i: Instruction) -> None:
    other = inverse(i)
    assert inverse(other) == i
    assert decode(encode(other)) == other
    assert (other.rd, other.ra, other.rb) == (i.rd, i.ra, i.rb)
    assert other.imm == (-i.imm if i.opcode.negates_immediate else i.imm)


# ---------------------------------------------------------------- refusals


def check_unused_fields_must_be_zero(name: str) -> None:
    i = legal(TABLE[name])
    for f in FIELDS:
        if f in i.opcode.fields:
            continue
        for value in (1, 0x80, -1 if f == "imm" else 0xFF):
            wrong = changed(i, {f: value})
            with pytest.raises(ValueError, match=f"field {f} is not used"):
                encode(wrong)
            with pytest.raises(ImageError, match=f"field {f} is not used") as caught:
                decode(layout(wrong))
            assert caught.value.code == "RG0306"


def test_unused_fields_must_be_zero(every: Every) -> None:
    every(check_unused_fields_must_be_zero, NAMES)


def check_aliases_are_refused(name: str) -> None:
    i = legal(TABLE[name])
    for x, y in i.opcode.distinct:
        for r in (0, 7, 255):
            wrong = changed(i, {x: r, y: r})
            with pytest.raises(ValueError, match="is written"):
                encode(wrong)
            with pytest.raises(ImageError, match="is written") as caught:
                decode(layout(wrong))
            assert caught.value.code == "RG0306"


def test_aliases_are_refused(every: Every) -> None:
    every(check_aliases_are_refused, NAMES)


def check_what_is_written_is_distinct_from_every_other_register(name: str) -> None:
    """The alias rule, from rd and the written and the named registers only: isa.md's `rd ∉ {ra, rb}`."""
    opcode = TABLE[name]
    named = [f for f in ("rd", "ra", "rb") if f in opcode.fields]
    changed = {{"d": "rd", "a": "ra", "b": "rb"}.get(p) for p in opcode.writes} | ({"rd"} & opcode.fields)
    expected = {frozenset((x, y)) for x in changed if x for y in named if x != y}
    assert {frozenset(pair) for pair in opcode.distinct} == expected
    # Nothing more is refused: two registers that are only read may be the same.
    i = legal(opcode)
    if {"ra", "rb"} <= opcode.fields and frozenset(("ra", "rb")) not in expected:
        assert decode(encode(i._replace(ra=9, rb=9))) == i._replace(ra=9, rb=9)


def test_what_is_written_is_distinct_from_every_other_register(every: Every) -> None:
    every(check_what_is_written_is_distinct_from_every_other_register, NAMES)


def test_the_alias_rule_by_hand() -> None:
    assert TABLE["fmul.add"].distinct == (("rd", "ra"), ("rd", "rb"))
    assert TABLE["cswap"].distinct == (("rd", "ra"), ("rd", "rb"), ("ra", "rb"))
    assert TABLE["ld.add"].distinct == (("rd", "ra"),)
    assert TABLE["exch"].distinct == (("rd", "ra"),)
    assert TABLE["st.add"].distinct == ()
    assert TABLE["fmulst.add"].distinct == (("rd", "ra"), ("rd", "rb"))
    assert TABLE["goto.lt"].distinct == ()
    assert TABLE["neg"].distinct == ()


def test_the_operands_by_hand() -> None:
    expected = {
        "mov.add": ("rd", "ra"),
        "imm.xor": ("rd", "imm"),
        "ld.sub": ("rd", "[ra+imm]"),
        "st.add": ("[ra+imm]", "rb"),
        "fmul.add": ("rd", "ra", "rb"),
        "muli.add": ("rd", "ra", "imm"),
        "exch": ("rd", "[ra+imm]"),
        "cswap": ("rd", "ra", "rb"),
        "rori": ("rd", "imm"),
        "goto": ("target",),
        "from.lt": ("ra", "rb", "target"),
        "call": ("target",),
        "swapbr": ("rd",),
        "start": (),
    }
    assert {name: TABLE[name].operands for name in expected} == expected


@pytest.mark.parametrize("name", [o.name for o in OPCODES if o.negates_immediate])
def test_an_offset_without_an_inverse_is_refused(name: str) -> None:
    i = legal(TABLE[name])._replace(imm=IMMEDIATE_MIN)
    with pytest.raises(ValueError, match="no inverse"):
        encode(i)
    with pytest.raises(ImageError, match="no inverse"):
        decode(layout(i))
    encode(i._replace(imm=IMMEDIATE_MIN + 1))


@pytest.mark.parametrize(
    "wrong", [{"rd": 256}, {"rd": -1}, {"ra": 256}, {"rb": -1}, {"imm": IMMEDIATE_MAX + 1}, {"imm": IMMEDIATE_MIN - 1}]
)
def test_operands_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    name = "ld.add" if "imm" in wrong else "fmul.add"
    with pytest.raises(ValueError, match=r"is no register|does not fit in 32 bits"):
        encode(changed(legal(TABLE[name]), wrong))


@pytest.mark.parametrize("word", [0, 0xFF00000000000000, 2**64, 2**64 | 0xF8 << 56, -1, -(2**63)])
def test_words_that_are_no_instruction(word: int) -> None:
    # All zeros is what empty memory holds: it must stop the machine, not run.
    with pytest.raises(ImageError, match="unknown opcode") as caught:
        decode(word)
    assert caught.value.code == "RG0306"


def test_every_unassigned_opcode_is_illegal() -> None:
    assigned = {opcode.code for opcode in OPCODES}
    for code in set(range(256)) - assigned:
        with pytest.raises(ImageError):
            decode(code << 56)


# ---------------------------------------------------------------- the codes themselves


def check_partners_differ_in_one_bit(name: str) -> None:
    opcode = TABLE[name]
    partner = TABLE.inverse(opcode)
    assert TABLE.inverse(partner) is opcode
    difference = opcode.code ^ partner.code
    if partner is opcode:
        assert difference == 0
    else:
        # A power of two: hardware turns an instruction round by flipping one wire.
        assert difference & (difference - 1) == 0
        assert difference != 0
    assert (partner.fields, partner.operands, partner.distinct) == (opcode.fields, opcode.operands, opcode.distinct)


def test_partners_differ_in_one_bit(every: Every) -> None:
    every(check_partners_differ_in_one_bit, NAMES)


def test_codes_are_those_of_the_table() -> None:
    assert len(OPCODES) == len(TABLE) == len({o.code for o in OPCODES})
    for opcode in OPCODES:
        assert TABLE.by_code[opcode.code] is opcode
        assert TABLE[opcode.name] is opcode
