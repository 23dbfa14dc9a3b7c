"""The manual: complete, fresh, and true where it rewrites a tree to read better."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.verify import verify
from retrograd.isa import functions
from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.effects import Effects, Exchange, Permute, Update, written
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.entries import Function, Guard, Opcode, a, b, d
from retrograd.isa.expr import ONE, ZERO, Expr, const, evaluate, fold, inputs, look_up, mul_shift, nodes, select
from retrograd.isa.manual import description, notation
from retrograd.isa.manual import pages as manual
from retrograd.isa.manual.__main__ import main
from retrograd.isa.manual.notation import FORMATS, SYMBOLIC, FormatDependent, SymbolicNumber
from retrograd.isa.table import TABLE
from retrograd.isa.words import WIDTHS, Format
from retrograd.simulator.machine import Machine

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
OPCODES = list(TABLE)
NAMES = [opcode.name for opcode in OPCODES]


@cache
def manual_text() -> str:
    return manual.manual()


# Its shift is no plain W or F, it has a derivative, and its group has no title.
FMHALF = Function(
    "fmhalf", TABLE.free_code(), "curious", lambda w: mul_shift(a, b, w.frac + 1), "Half a product.",
    shorthand="h{}",
)  # fmt: skip
EXTENDED = TABLE.extended(FMHALF)


def trees(opcode: Opcode, w: Format) -> Iterator[Expr]:
    """Every tree that the manual writes about the opcode."""
    effects = [*opcode.effects(w)]
    with suppress(NoDerivative):
        effects += lift(opcode, w)
    for effect in effects:
        match effect:
            case Update(_, _, value):
                yield value
            case Permute(_, forward, _):
                yield forward
            case Exchange(_, _, when) if when is not None:
                yield when
            case _:
                pass
    yield from (guard.predicate for guard in opcode.guards(w))


def is_symbol(node: Expr) -> bool:
    """The node's parameter is a number in W and F."""
    return isinstance(node.param, SymbolicNumber)


def instantiated(tree: Expr, w: Format) -> Expr:
    """The tree with the symbols for W and F replaced by their numbers at w."""

    def combine(node: Expr, args: list[Expr]) -> Expr:
        return Expr(node.op, tuple(args), node.param.at(w) if isinstance(node.param, SymbolicNumber) else node.param)

    return fold(tree, combine)


# ---------------------------------------------------------------------------------------- complete and fresh


def test_the_manual_is_fresh() -> None:
    assert (DOCS / "isa.md").read_text(encoding="utf-8") == manual_text(), (
        "run python -m retrograd.isa.manual docs/reference"
    )


def check_every_opcode_has_its_row(opcode: Opcode) -> None:
    row = f"| `{description.describe(opcode).syntax}` | `{opcode.code:02x}` | "
    assert manual_text().count(row) == 1
    line = next(line for line in manual_text().splitlines() if line.startswith(row))
    assert line.endswith(f"`{opcode.inverse_name}`{' with −imm' if opcode.negates_immediate else ''} |")


def test_every_opcode_has_its_row(every: Every) -> None:
    every(check_every_opcode_has_its_row, OPCODES)


def test_the_opcode_map_has_every_opcode_in_its_place() -> None:
    rows = re.findall(r"^\| \*\*([0-9A-F])_\*\* \| (.*) \|$", manual_text(), re.MULTILINE)
    cells = [cell for _, row in rows for cell in row.split(" | ")]
    assert [high for high, _ in rows] == list("0123456789ABCDEF")
    assert cells == ["·" if o is None else f"`{o.name}`" for o in TABLE.by_code]


@pytest.mark.parametrize(
    ("name", "codes"),
    [("`div`", ["RG0402"]), ("`exch`", ["RG0401"]), ("`goto`, `from`", ["RG0405", "RG0406"]), ("`mov`", [])],
)
def test_a_section_lists_its_own_traps_and_not_what_all_have(name: str, codes: list[str]) -> None:
    section = manual_text().split(f"\n### {name}\n")[1].split("\n#")[0]
    assert re.findall(r"\[(RG\d+)\]", section) == codes


def test_rows_of_a_table_have_as_many_cells_as_its_head() -> None:
    for block in re.findall(r"(?:^\|.*\n)+", manual_text(), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1, block


def test_no_internal_number_is_printed() -> None:
    assert not re.search(r"\b\d{12}", manual_text())


# ------------------------------------------------------------------------------------------- true formulas


def check_tidying_keeps_the_value(opcode: Opcode) -> None:
    w, rng = Format(8, 3), random.Random(opcode.code)
    for tree in trees(opcode, w):
        read, tidied = inputs(tree), notation.tidy(tree)
        assert inputs(tidied) <= read
        for _ in range(30):
            state = {name: rng.choice([0, 1, 0x80, 0xFF, rng.getrandbits(8)]) for name in read}
            assert evaluate(tree, w, state) == evaluate(tidied, w, state), (tree, tidied, state)


def test_tidying_keeps_the_value(every: Every) -> None:
    every(check_tidying_keeps_the_value, OPCODES)


@pytest.mark.parametrize("seed", range(20))
def test_tidying_keeps_the_value_of_any_tree(seed: int) -> None:
    rng, w = random.Random(seed), Format(4, 2)

    def grow(depth: int) -> Expr:
        if depth == 0:
            return rng.choice([a, b, ZERO, -a, const(1)])
        x, y = grow(depth - 1), grow(depth - 1)
        # Few conditions, so that choices by the same one meet; many zeros, which is where tidying does its work.
        c = rng.choice([a.lt(b), a, a.eq(0)])
        return rng.choice([x + y, x - y, -x, select(c, x, y), select(c, x, 0), select(c, 0, y), x.eq(y), x & y])

    changed = 0
    for _ in range(100):
        tree = grow(rng.randint(1, 4))
        tidied = notation.tidy(tree)
        changed += tidied is not tree
        for x, y in [(0, 0), (0, 3), (5, 5), (8, 1), (15, 8), (rng.getrandbits(4), rng.getrandbits(4))]:
            state = {"a": x, "b": y}
            assert evaluate(tree, w, state) == evaluate(tidied, w, state), (tree, tidied, state)
    assert changed > 20


@pytest.mark.parametrize("w", [Format(64, 40), Format(64, 62), Format(32, 8), Format(16, 13), Format(64, 32)], ids=str)
def test_symbols_stand_for_the_right_numbers(w: Format) -> None:
    seen = 0
    for opcode in OPCODES:
        for index, expected in enumerate(trees(opcode, w)):
            general = notation.generalise(lambda at, o=opcode, index=index: [*trees(o, at)][index])
            if general is not None:
                seen += any(map(is_symbol, nodes(general)))
                assert instantiated(general, w) is expected, (opcode, general)
    assert seen > 10


def test_symbolic_numbers() -> None:
    width, frac = SYMBOLIC.width, SYMBOLIC.frac
    numbers = {
        frac + width: ("(F + W)", 48),
        frac - width: ("−(W − F)", -16),
        width // 2: ("(W/2)", 16),
        2 * frac + width - 1: ("(2F + W − 1)", 63),
        1 << frac: ("2^F", 1 << 16),
        (1 << frac) >> 1: ("2^(F − 1)", 1 << 15),
        SYMBOLIC.mask ^ SYMBOLIC.sign: ("(2^(W − 1) − 1)", (1 << 31) - 1),
        3 * SYMBOLIC.sign: ("(3·2^(W − 1))", 3 << 31),
    }
    for number, (text, value) in numbers.items():
        assert (str(number), number.at(Format(32, 16))) == (text, value)  # type: ignore[attr-defined]
    assert width - width == 0
    assert width != 65
    with pytest.raises(FormatDependent):
        _ = width == 64
    assert frac < width - 1
    assert not frac < 8
    with pytest.raises(FormatDependent):
        _ = frac < 9
    with pytest.raises(FormatDependent):
        _ = frac // 2
    with pytest.raises(FormatDependent):
        _ = SYMBOLIC.sign ^ SYMBOLIC.mask


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("mov.add", "rd += ra"),
        ("immhi.sub", "rd −= imm << (W/2)"),
        ("st.xor", "M[ra + imm] ⊕= rb"),
        ("slt.add", "rd += [ra < rb]"),
        ("min.add", "rd += (ra if ra < rb else rb)"),
        ("fmul.add", "rd += ⌊ra·rb / 2^F⌉"),
        ("fdiv.sub", "rd −= ⌊ra·2^F / rb⌉"),
        ("lmov.div", "rd ÷= ra"),
        ("ror", "rd := (rd << −ra) ∨ (rd >>ᵤ ra)"),
        ("cswap", "rd ↔ ra if rb ≠ 0"),
        ("exch", "rd ↔ M[ra + imm]"),
        ("erase", "rd := 0"),
        ("goto.lt", "BR += imm if ra < rb"),
        ("from.lt", "BR += imm if ra < rb"),
        ("uncall", "BR := imm − BR"),
    ],
)
def test_formulas_read_as_one_would_write_them(name: str, formula: str) -> None:
    assert description.describe(TABLE[name]).formula == (formula,)


def check_the_inverse_has_the_formula_of_the_inverse(opcode: Opcode) -> None:
    here, there = description.describe(opcode), description.describe(TABLE.inverse(opcode))
    assert there.inverse == opcode.name
    if not opcode.negates_immediate:
        assert here.inverse_formula == there.formula
        assert here.formula == there.inverse_formula


def test_the_inverse_has_the_formula_of_the_inverse(every: Every) -> None:
    every(check_the_inverse_has_the_formula_of_the_inverse, OPCODES)


def test_a_negated_immediate_shows_in_the_inverse() -> None:
    assert description.describe(TABLE["goto"]).inverse_formula == ("BR −= imm",)
    assert description.describe(TABLE["uncall"]).inverse_formula == ("BR := −imm − BR",)


def test_cotangents_are_given_or_the_reason_why_not() -> None:
    assert description.describe(TABLE["ld.sub"]).derivative == ("m̄ += d̄",)
    assert description.describe(TABLE["fabs.sub"]).derivative == ("ā += (−d̄ if ra < 0 else d̄)",)
    assert description.describe(TABLE["mov.xor"]).no_derivative == "an exclusive or carries no derivative"
    for opcode in OPCODES:
        fact = description.describe(opcode)
        assert (fact.derivative is None) == (fact.no_derivative is not None)
        if fact.derivative is None:
            with pytest.raises(NoDerivative, match=re.escape(str(fact.no_derivative))):
                lift(opcode, Format())


def test_traps_name_their_condition_moment_and_mode() -> None:
    traps = {(t.code, t.condition, t.when, t.mode) for t in description.describe(TABLE["fdiv.add"]).traps}
    assert ("RG0402", "rb ≠ 0", "before", "always") in traps
    assert ("RG0404", "rd + v fits", "before", "overflow") in traps
    assert [(t.code, t.when) for t in description.describe(TABLE["from.eq"]).traps] == [("RG0406", "after")]
    assert ("RG0401", "0 ≤ ra + imm < N") in {
        (t.code, t.condition) for t in description.describe(TABLE["st.add"]).traps
    }
    assert "RG0406 contradicted comefrom, unless BR = 0 afterwards\n" in manual.entry_page("from.eq")
    assert "erase: RG0408 erase in strict mode, always (strict mode only)\n" in manual.entry_page("erase")
    for opcode in OPCODES:
        guards = [g for g in opcode.guards(Format()) if g.predicate is not ONE]
        assert {g.code for g in guards} <= {t.code for t in description.describe(opcode).traps}


# --------------------------------------------------------------------------------------- the prose's programs


def listings() -> list[str]:
    control = manual_text().split("## Control flow")[1].split("## Updates")[0]
    return [block for block in re.findall(r"(?:^(?:    .*)?\n)+", control, re.MULTILINE) if block.strip()]


PROGRAMS = {
    "if, not taken": ("start\n{0}finish", {1: 5, 3: 7}, {2: 7}),
    "if, taken": ("start\n{0}finish", {3: 7}, {2: 0}),
    "loop": ("start\n{1}finish", {3: 7, 4: 4}, {1: 4, 2: 28}),
    "subroutine": ("start\n call entry\n call entry\n uncall entry\n call entry\n finish\n{2}", {}, {1: 6, 255: 0}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_manuals_programs_run_and_run_back(name: str) -> None:
    frame, before, after = PROGRAMS[name]
    parts = listings()
    assert len(parts) == 3
    program = assemble(".memory 4\n" + frame.format(*(part.replace("…", "add r1, 3") for part in parts)))
    verify(program)
    machine = Machine(program)
    for register, word in before.items():
        machine.registers[register] = word
    origin = machine.state()
    machine.run()
    assert {r: machine.registers[r] for r in after} == after
    machine.run_back()
    assert machine.state() == origin


def test_the_encoding_example_is_what_the_assembler_makes() -> None:
    found = re.search(r"For example, `(.*)` is `0x([0-9a-f]{16})`", manual_text())
    assert found is not None
    assert assemble(f"start\n{found[1]}\nfinish").code[1] == int(found[2], 16)


# ---------------------------------------------------------------------------------- terminal, JSON, new entries


def check_every_name_has_a_page(name: str) -> None:
    page = manual.entry_page(name)
    assert page.startswith(f"{name}  (")
    assert "`" not in page.replace("`target`", "").replace("`from`", "").split("\n\n", 2)[2]
    opcode = TABLE.shorthands.get(name) or TABLE.by_name.get(name)
    if opcode is not None:
        fact = description.describe(opcode)
        assert f"  {fact.syntax}" in page
        assert f"0x{fact.code:02x}" in page
        assert all(trap.code in page for trap in fact.traps)


def test_every_name_has_a_page(every: Every) -> None:
    every(check_every_name_has_a_page, [*NAMES, *TABLE.shorthands, *(entry.name for entry in TABLE.entries)])


@pytest.mark.parametrize("name", ["", "nonsense", "mul.mul", "MUL", "mul."])
def test_an_unknown_name_has_none(name: str) -> None:
    with pytest.raises(KeyError):
        manual.entry_page(name)


def test_the_summary_has_one_aligned_line_an_entry() -> None:
    lines = [line for line in manual.summary().splitlines() if line.startswith("  ")]
    assert len(lines) == len(TABLE.entries)
    for entry, line in zip(TABLE.entries, lines, strict=True):
        assert line.startswith(f"  {entry.name}")
    docs = [re.split(r"[.;] |\.$", entry.doc)[0] for entry in TABLE.entries]
    assert len({line.rindex(doc) for line, doc in zip(lines, docs, strict=True)}) == 1


def test_json_round_trips_and_describes_every_opcode() -> None:
    data = manual.as_json()
    again = json.loads(json.dumps(data))
    assert again["schema"] == "retrograd.isa/1"
    assert [o["name"] for o in again["opcodes"]] == NAMES
    assert json.loads(json.dumps(again)) == again
    mul = next(o for o in again["opcodes"] if o["name"] == "fmul.add")
    opcode = TABLE["fmul.add"]
    assert (mul["code"], mul["inverse"], mul["operands"]) == (opcode.code, "fmul.sub", ["rd", "ra", "rb"])
    assert mul["formula"] == ["rd += ⌊ra·rb / 2^F⌉"]
    assert {"code", "title", "condition", "when", "mode"} == set(mul["traps"][0])


def test_the_encoding_in_json_is_the_encoder_s() -> None:
    fields = {name: (high, low) for name, high, low in manual.as_json()["encoding"]}
    i = Instruction(TABLE["mul.add"], rd=0xAB, ra=0xCD, rb=0xEF)
    word = encode(i)
    got = {name: word >> low & (1 << high - low + 1) - 1 for name, (high, low) in fields.items()}
    assert got == {"op": i.opcode.code, "rd": 0xAB, "ra": 0xCD, "rb": 0xEF, "imm": 0}


def test_an_entry_more_shows_everywhere() -> None:
    for name in ("fmhalf.add", "fmhalf.sub", "fmhalf.xor"):
        assert f"`{name}`" in manual.manual(EXTENDED)
        assert f"`{name}" not in manual_text()
        assert any(o["name"] == name for o in manual.as_json(EXTENDED)["opcodes"])
    assert "rd += ⌊ra·rb / 2^(F + 1)⌋" in manual.manual(EXTENDED)
    assert "## Curious\n" in manual.manual(EXTENDED)
    page = manual.entry_page("fmhalf", EXTENDED)
    assert "ā += ⌊d̄·rb / 2^(F + 1)⌋" in page
    assert manual.entry_page("hadd", EXTENDED).startswith("hadd  (curious)")
    assert "fmhalf.{add,sub,xor}" in manual.summary(EXTENDED)
    with pytest.raises(KeyError):
        manual.entry_page("fmhalf")


def test_a_tree_that_cannot_be_written_is_named() -> None:
    shaped = Function("shaped", FMHALF.code, "curious", lambda w: a if w.width == 64 else a + 1, "Two shapes.")
    assert description.describe(TABLE.extended(shaped)["shaped.add"], TABLE.extended(shaped)).formula == (
        "rd += shaped(ra)",
    )

    def polynomial(w: Format) -> Expr:
        value = a
        for k in range(2 * notation.LONGEST):
            value = value * a + k
        return value

    deep = Function("deep", FMHALF.code, "curious", polynomial, "Many terms.")
    table = TABLE.extended(deep)
    assert description.describe(table["deep.add"], table).formula == ("rd += deep(ra)",)
    fact = description.describe(table["deep.sub"], table)
    assert (fact.derivative, fact.value, fact.partials) == (("ā += ∂v/∂ra·d̄",), "deep(ra)", None)


def test_a_long_derivative_is_said_in_the_words_of_its_own_function() -> None:
    def partials(w: Format, c: Expr) -> dict[str, Expr]:
        """the cosine of a - b, and its negative

        More is not shown.
        """
        x = look_up(a - b, range(4))
        return {"a": mul_shift(c, x, w.frac), "b": -c}

    entry = Function("wave", FMHALF.code, "curious", lambda w: look_up(a, range(8)), "Wave.", partials=partials)
    table = TABLE.extended(entry)
    fact = description.describe(table["wave.sub"], table)
    assert fact.formula == ("rd −= wave(ra)",)
    assert fact.derivative == ("ā += ∂v/∂ra·d̄", "b̄ −= d̄")
    assert fact.partials == "the cosine of ra − rb, and its negative"
    assert "- **Derivative of v:** the cosine of ra − rb, and its negative\n" in manual.manual(table)


def test_a_long_condition_is_said_in_the_words_of_its_error() -> None:
    def guards(w: Format) -> tuple[Guard, ...]:
        return (Guard(look_up(a, range(8)), "RG0404"), Guard(ONE, "RG0403"), Guard(a.ne(0), "RG0402"))

    entry = Function("picky", FMHALF.code, "curious", lambda w: a, "Picky.", guards=guards)
    table = TABLE.extended(entry)
    traps = [(t.code, t.condition) for t in description.describe(table["picky.xor"], table).traps]
    assert traps == [("RG0405", "BR = 0"), ("RG0404", None), ("RG0402", "ra ≠ 0")]
    page = manual.entry_page("picky", table)
    assert "    RG0404 fixed-point overflow: the exact result does not fit the format\n" in page


def test_effects_too_long_to_write_are_one_formula_where_they_depend_on_each_other() -> None:
    def unwritten(run: Effects) -> str:
        return "f(" + ", ".join(written(run)) + ")"

    def formulas(*effects: Exchange | Permute | Update) -> tuple[str, ...]:
        return notation.write_effects(lambda w: effects, unwritten)

    on_a, on_b = Update("d", "add", look_up(a, range(8))), Update("a", "sub", look_up(d, range(8)))
    assert formulas(on_a) == ("rd += f(d)",)
    assert formulas(on_b, on_a) == ("(rd, ra) := f(a, d)",)
    assert formulas(on_a, Update("m", "add", look_up(b, range(8)))) == ("rd += f(d)", "M[ra + imm] += f(m)")
    assert formulas(on_a, Exchange("a", "d"), on_b) == ("rd += f(d)", "ra ↔ rd", "ra −= f(a)")
    assert notation.name_of_run("f")((on_a, on_b)) == "f(rd, ra)"


def check_every_formula_can_be_read(opcode: Opcode) -> None:
    fact = description.describe(opcode)
    texts = [*fact.formula, *fact.inverse_formula, *(fact.derivative or ()), fact.value or "", fact.partials or ""]
    assert max(map(len, [*texts, *(t.condition or "" for t in fact.traps)])) <= 100
    assert not any("T64" in text for text in texts)


def test_every_formula_can_be_read(every: Every) -> None:
    every(check_every_formula_can_be_read, OPCODES)


def test_the_formats_of_the_functions_that_go_by_tables_are_told() -> None:
    found = re.search(r"need (\d) ≤ F ≤ W − (\d):", manual_text())
    assert found is not None
    for w in (Format(width, frac) for width in WIDTHS for frac in range(width)):
        assert functions.available(w) == (int(found[1]) <= w.frac <= w.width - int(found[2]))
    assert all(map(functions.available, FORMATS))


# --------------------------------------------------------------------------------------------------- the command


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "isa.md").read_text(encoding="utf-8").startswith(manual.HEADER)
    assert main(["--check", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "isa.md").write_text(manual_text() + "\nmore\n", encoding="utf-8")
    assert main(["--check", str(tmp_path)]) == 1
    assert "isa.md is stale" in capsys.readouterr().err
