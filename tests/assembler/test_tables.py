"""Encoding by tables gives the programs, positions and faults that encoding with a diagnosis gives."""

from __future__ import annotations

import random

import pytest
from retrograd.assembler.assemble import Parser
from retrograd.assembler.instructions import CONDITIONAL, MIRRORED, Instructions, forms_of
from retrograd.isa.diagnostics import Diagnostic
from retrograd.isa.encoding import write

import retrograd as rg

NAMES = [
    *(o.name for o in rg.TABLE),
    *rg.TABLE.shorthands,
    *(f"{way}.{c}" for way in CONDITIONAL for c in MIRRORED),
]
#: operands by kind, right and wrong
REGISTERS = [
    *(f"r{i}" for i in range(12)),
    "r255",
    " r2",
    "r3 ",
    "\tr4",
    "acc",
    "other",
    "r256",
    "r01",
    "R1",
    "later",
    "top",
    "N",
    "",
]
RIGHT = 18
CONSTANTS = [
    "0", "1", "-1", "+5", "- 5", " 7 ", "127", "128", "-128", "-129", "255", "256", "-256", "32767", "65535", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "4294967295", "4294967296", "0x1f", "0b11", "1_0", "1__0", "_1", "007", "٣", "1.5q", "1.5", "1e3", "N",
    "-N", "N+1", "top", "later", "late - 1", "word", "nothing", "'a'", "';'", "','", "'", "'\\n'", '"x"', "(2)", "1 2", "--5", "+-5",
    "12345678901234567890", "1 << 40", "1 +", "",
]  # fmt: skip
TARGETS = ["top", "later", "main", "nothing", ".+1", ".-3", ".+0", ".+99999999999", "word", "N", "acc", "5", "[r1]", ""]
LABELS = ["L0:", "  L0:	", "top: ", "r1: ", "1: ", "é: ", "N: ", "L0 : ", "a b: ", "L0: M0: "]
BLANKS = ["", " ", "    ", "\t", "\x0b", " "]
ENDS = ["", "", "", " ", "   ; x", ";", "; r1, r2", ";';'", ' ; "', "\r", " ,", " :", "'", '"', "\u2028"]
FORMATS = ["Q32.32", "Q16.16", "Q8.8", "Q4.4"]
HEAD = [".equ N, 9", ".reg acc, r9", ".reg other, r2", ".data", "word: .word 1, 2", ".text", "top: start"]
TAIL = ["later: neg r1", ".equ late, 40", "finish"]


def memory(rng: random.Random) -> str:
    register = rng.choice(REGISTERS[:RIGHT])
    if rng.random() < 0.5:
        return f"[{register} {rng.choice('+-')} {rng.randrange(100)}]"
    constant, sign = rng.choice(CONSTANTS), rng.choice(("+", "-", " + ", " - ", "", "*"))
    return rng.choice((f"[{register}]", f"[{register}{sign}{constant}]", f" [ {register} {sign} {constant} ] ", "[r1"))


def operand(rng: random.Random, kind: str, last: bool) -> str:
    """An operand of a kind, or now and then of another."""
    if rng.random() < 0.05 or (last and rng.random() < 0.5):
        kind = rng.choice(("ra", "imm", "imm", "target", "[ra+imm]"))
    match kind:
        case "[ra+imm]":
            return memory(rng)
        case "imm":
            return rng.choice(CONSTANTS) if rng.random() < 0.5 else str(rng.randrange(-100, 100))
        case "target":
            return rng.choice(TARGETS)
        case _:
            return rng.choice(REGISTERS[: RIGHT if rng.random() < 0.97 else None])


def line(rng: random.Random, number: int) -> str:
    """An instruction with operands of the kinds that it takes, and sometimes a fault or another way to write it."""
    name = rng.choice(NAMES)
    form = forms_of(rg.TABLE).by_name[name]
    parts = [operand(rng, kind, False) for kind in form.operands[:-1]]
    parts += [operand(rng, kind, form.constant is not None) for kind in form.operands[-1:]]
    if rng.random() < 0.03:
        parts = parts[1:] if rng.random() < 0.5 else [*parts, "r7"]
    label = rng.choice(LABELS) if rng.random() < 0.2 else rng.choice(("", f"L{number}: "))
    end = rng.choice(ENDS) if rng.random() < 0.3 else ""
    space = rng.choice(("\t", "", "\x0b")) if rng.random() < 0.1 else " "
    text = label + rng.choice(BLANKS) + name + space + rng.choice((", ", ",", " , ")).join(parts) + end
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(",;:'\"[] .\t\x0b1r-+\\é") + text[at + rng.randrange(2) :]
    return text


def outcome(text: str, w: str) -> tuple[object, ...] | tuple[Diagnostic, ...]:
    try:
        p = rg.assemble(text, format=w, check=False)
    except rg.RetrogradError as error:
        return error.diagnostics
    return p, list(p.source.spans), dict(p.labels), dict(p.data_labels)


def compare(seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Assemble a text with tables and without; whether it is a program."""
    rng = random.Random(seed)
    body = [line(rng, i) for i in range(rng.choice((1, 1, 1, 2)))]
    # A line that is written twice is looked up as a whole.
    body += [rng.choice(body) for _ in range(rng.randrange(2))]
    if rng.random() < 0.1:
        body.insert(0, '.include "x"' if rng.random() < 0.1 else ".word 1")
    text, w = "\n".join([*HEAD, *body, *TAIL]), rng.choice(FORMATS)
    by_tables = outcome(text, w)
    with monkeypatch.context() as patch:
        patch.setattr(Instructions, "look_up", lambda *_: None)
        diagnosed = outcome(text, w)
    assert by_tables == diagnosed, (w, body)
    return isinstance(by_tables[0], rg.Program)


def test_tables_and_diagnosis_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = sum(compare(seed, monkeypatch) for seed in range(1500))
    assert 150 < programs < 1350


@pytest.mark.long
@pytest.mark.parametrize("first", range(2000, 100_000, 2000))
def test_tables_and_diagnosis_agree_on_many_lines(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 2000):
        compare(seed, monkeypatch)


@pytest.mark.parametrize("w", FORMATS)
def test_instructions_without_labels_are_in_the_tables(w: str) -> None:
    parser = Parser(rg.TABLE, rg.Format.named(w), ())
    for opcode in rg.TABLE:
        for imm in (0, 1, -1, 100, -127) if opcode.operands else ():
            fields = {"rd": 1, "ra": 2, "rb": 3, "imm": imm}
            i = rg.Instruction(opcode, **{f: v for f, v in fields.items() if f in opcode.fields})
            mnemonic, operands = write(i).split(None, 1)
            assert parser.instructions.look_up(mnemonic, operands.split(",")) == rg.encode(i)


def test_branches_to_labels_are_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "start\ntop: from.ne r1, r0, end\nneg r2\nend: goto.ne r1, r2, top\nfinish\n"
    expected = outcome(text, "Q32.32")
    # Without operands are `start` and `finish` alone.
    monkeypatch.setattr(Instructions, "encode", lambda self, form, line: self.layout.emit_named(line.name))
    assert outcome(text, "Q32.32")[0] == expected[0]


def test_a_change_of_the_format_empties_the_tables() -> None:
    parser = Parser(rg.TABLE, rg.Format(), ())
    text = "muli.add r1, r2, 300\n"
    parser.read("a", text, None)
    del parser.layout.code[:], parser.layout.spans[:]
    parser.read("b", ".format 8, 4\n" + text, None)
    assert [d.code for d in parser.sources.errors] == ["RG0105"]


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Instructions.look_up

    def careless(self: Instructions, name: str, operands: list[str]) -> int | None:
        word = honest(self, name, operands)
        # The order of two operands is lost.
        return honest(self, name, [operands[0], *operands[:0:-1]]) if word is not None and len(operands) == 3 else word

    monkeypatch.setattr(Instructions, "look_up", careless)
    with pytest.raises(AssertionError):
        sum(compare(seed, monkeypatch) for seed in range(300))
