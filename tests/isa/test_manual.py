"""The manual: complete, fresh, and true where it rewrites a tree to read better."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.verify import verify
from retrograd.isa import manual
from retrograd.isa.adjoint import NoDerivative, lift
from retrograd.isa.diagnostics import KINDS
from retrograd.isa.effects import Exchange, Permute, Update
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.entries import Function, Opcode, a, b
from retrograd.isa.expr import ZERO, Expr, const, evaluate, fold, inputs, mul_shift, nodes, select
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPCODES = list(TABLE)
NAMES = [opcode.name for opcode in OPCODES]
TEXT = manual.manual()
ERRORS = manual.errors()


def free_code(table: list[Opcode | None]) -> int:
    return next(c for c in range(4, 256, 4) if not any(table[c : c + 4]))


# Its shift is no plain W or F, it has a derivative, and its group has no title.
FMHALF = Function(
    "fmhalf", free_code(TABLE.by_code), "curious", lambda w: mul_shift(a, b, w.frac + 1), "Half a product.",
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


def is_named(tree: Expr) -> bool:
    """The manual gives the tree a name instead of writing it out."""
    return tree.op == "input" and "(" in str(tree.param)


def replaced(tree: Expr, w: Format) -> Expr:
    """The tree with the symbols for W and F replaced by what they say at w."""
    numbers = {}
    for symbol, token in manual._TOKENS.items():
        python = (
            symbol.replace("−", "-").replace("^", "**").replace("/", "//").replace("2F", "2*F").replace("2W", "2*W")
        )
        numbers[token] = lambda python=python: int(eval(python, {"W": w.width, "F": w.frac}))

    def combine(node: Expr, args: list[Expr]) -> Expr:
        param = node.param
        if isinstance(param, int) and abs(param) in numbers:
            param = (1 if param > 0 else -1) * numbers[abs(param)]()
        return Expr(node.op, tuple(args), param)

    return fold(tree, combine)


# ---------------------------------------------------------------------------------------- complete and fresh


@pytest.mark.parametrize(("name", "text"), [("isa.md", TEXT), ("errors.md", ERRORS)])
def test_the_documents_are_fresh(name: str, text: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == text, "run python -m retrograd.isa.manual docs"


@pytest.mark.parametrize("opcode", OPCODES, ids=NAMES)
def test_every_opcode_has_its_row(opcode: Opcode) -> None:
    row = f"| `{manual.describe(opcode).syntax}` | `{opcode.code:02x}` | "
    assert TEXT.count(row) == 1
    line = next(line for line in TEXT.splitlines() if line.startswith(row))
    assert line.endswith(f"`{opcode.inverse_name}`{' with −imm' if opcode.negates_immediate else ''} |")


def test_the_opcode_map_has_every_opcode_in_its_place() -> None:
    rows = re.findall(r"^\| \*\*([0-9A-F])_\*\* \| (.*) \|$", TEXT, re.MULTILINE)
    cells = [cell for _, row in rows for cell in row.split(" | ")]
    assert [high for high, _ in rows] == list("0123456789ABCDEF")
    assert cells == ["·" if o is None else f"`{o.name}`" for o in TABLE.by_code]


@pytest.mark.parametrize("code", KINDS)
def test_every_error_is_explained(code: str) -> None:
    kind = KINDS[code]
    assert ERRORS.count(f"### {code} {kind.title}\n\n{kind.why}\n\n**Fix:** {kind.fix}\n") == 1
    shown = " ".join(manual.explain(code).split())
    assert shown == " ".join(f"{code}: {kind.title} why: {kind.why} fix: {kind.fix}".split())
    assert manual.explain(code.lower()) == manual.explain(code)


def test_every_group_of_errors_has_a_title() -> None:
    assert not re.findall(r"^## RG\d\dxx", ERRORS, re.MULTILINE)


def test_every_link_to_an_error_has_its_heading() -> None:
    linked = set(re.findall(r"\(errors\.md#([^)]*)\)", TEXT))
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^### (.*)", ERRORS, re.M)}
    assert linked
    assert linked <= headings


@pytest.mark.parametrize(
    ("name", "codes"),
    [("`div`", ["RG0402"]), ("`exch`", ["RG0401"]), ("`goto`, `from`", ["RG0405", "RG0406"]), ("`mov`", [])],
)
def test_a_section_lists_its_own_traps_and_not_what_all_have(name: str, codes: list[str]) -> None:
    section = TEXT.split(f"\n### {name}\n")[1].split("\n#")[0]
    assert re.findall(r"\[(RG\d+)\]", section) == codes


def test_the_trapping_instructions_are_listed_with_their_error() -> None:
    section = ERRORS.split("### RG0402")[1].split("###")[0]
    assert "**Raised by:** `div`, `mod`, `fdiv`." in section


def test_rows_of_a_table_have_as_many_cells_as_its_head() -> None:
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1, block


def test_no_internal_number_is_printed() -> None:
    assert not re.search(r"\b\d{12}", TEXT)


# ------------------------------------------------------------------------------------------- true formulas


@pytest.mark.parametrize("opcode", OPCODES, ids=NAMES)
def test_tidying_keeps_the_value(opcode: Opcode) -> None:
    w, rng = Format(8, 3), random.Random(opcode.code)
    for tree in trees(opcode, w):
        read, tidied = inputs(tree), manual.tidy(tree)
        assert inputs(tidied) <= read
        for _ in range(30):
            state = {name: rng.choice([0, 1, 0x80, 0xFF, rng.getrandbits(8)]) for name in read}
            assert evaluate(tree, w, state) == evaluate(tidied, w, state), (tree, tidied, state)


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
        tidied = manual.tidy(tree)
        changed += tidied is not tree
        for x, y in [(0, 0), (0, 3), (5, 5), (8, 1), (15, 8), (rng.getrandbits(4), rng.getrandbits(4))]:
            state = {"a": x, "b": y}
            assert evaluate(tree, w, state) == evaluate(tidied, w, state), (tree, tidied, state)
    assert changed > 20


@pytest.mark.parametrize("w", [Format(64, 40), Format(32, 1), Format(8, 3), Format(64, 32)], ids=str)
def test_symbols_stand_for_the_right_numbers(w: Format) -> None:
    seen = 0
    for opcode in OPCODES:
        for versions in zip(*(trees(opcode, probe) for probe in (*manual.PROBES, w)), strict=True):
            general = manual._generalise(versions[:-1])
            if is_named(general):
                continue
            seen += any(isinstance(n.param, int) and abs(n.param) in manual._TOKENS.values() for n in nodes(general))
            assert replaced(general, w) is versions[-1], (opcode, general)
    assert seen > 10


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("mov.add", "rd += ra"),
        ("immhi.sub", "rd −= imm << (W/2)"),
        ("st.xor", "M[ra + imm] ⊕= rb"),
        ("slt.add", "rd += [ra < rb]"),
        ("min.add", "rd += (ra if ra < rb else rb)"),
        ("fmul.add", "rd += ⌊ra·rb / 2^F⌋"),
        ("fdiv.sub", "rd −= ⌊ra·2^F / rb⌋"),
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
    assert manual.describe(TABLE[name]).formula == (formula,)


@pytest.mark.parametrize("opcode", OPCODES, ids=NAMES)
def test_the_inverse_has_the_formula_of_the_inverse(opcode: Opcode) -> None:
    here, there = manual.describe(opcode), manual.describe(TABLE.inverse(opcode))
    assert there.inverse == opcode.name
    if not opcode.negates_immediate:
        assert here.inverse_formula == there.formula
        assert here.formula == there.inverse_formula


def test_a_negated_immediate_shows_in_the_inverse() -> None:
    assert manual.describe(TABLE["goto"]).inverse_formula == ("BR −= imm",)
    assert manual.describe(TABLE["uncall"]).inverse_formula == ("BR := −imm − BR",)


def test_cotangents_are_given_or_the_reason_why_not() -> None:
    assert manual.describe(TABLE["ld.sub"]).derivative == ("m̄ += d̄",)
    assert manual.describe(TABLE["fabs.sub"]).derivative == ("ā += (−d̄ if ra < 0 else d̄)",)
    assert manual.describe(TABLE["mov.xor"]).no_derivative == "an exclusive or carries no derivative"
    for opcode in OPCODES:
        fact = manual.describe(opcode)
        assert (fact.derivative is None) == (fact.no_derivative is not None)
        if fact.derivative is None:
            with pytest.raises(NoDerivative, match=re.escape(str(fact.no_derivative))):
                lift(opcode, Format())


def test_traps_name_their_condition_moment_and_mode() -> None:
    traps = {(t.code, t.condition, t.when, t.mode) for t in manual.describe(TABLE["fdiv.add"]).traps}
    assert ("RG0402", "rb ≠ 0", "before", "always") in traps
    assert ("RG0404", "rd + v fits", "before", "overflow") in traps
    assert [(t.code, t.when) for t in manual.describe(TABLE["from.eq"]).traps] == [("RG0406", "after")]
    assert ("RG0401", "0 ≤ ra + imm < N") in {(t.code, t.condition) for t in manual.describe(TABLE["st.add"]).traps}
    assert "RG0406 contradicted comefrom, unless BR = 0 afterwards\n" in manual.entry_page("from.eq")
    assert "erase: RG0408 erase in strict mode, always (strict mode only)\n" in manual.entry_page("erase")
    for opcode in OPCODES:
        assert {g.code for g in opcode.guards(Format())} <= {t.code for t in manual.describe(opcode).traps}


# --------------------------------------------------------------------------------------- the prose's programs


def listings() -> list[str]:
    control = TEXT.split("## Control flow")[1].split("## Updates")[0]
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
    found = re.search(r"For example, `(.*)` is `0x([0-9a-f]{16})`", TEXT)
    assert found is not None
    assert assemble(f"start\n{found[1]}\nfinish").code[1] == int(found[2], 16)


# ---------------------------------------------------------------------------------- terminal, JSON, new entries


@pytest.mark.parametrize("name", [*NAMES, *TABLE.shorthands, *(entry.name for entry in TABLE.entries)])
def test_every_name_has_a_page(name: str) -> None:
    page = manual.entry_page(name)
    assert page.startswith(f"{name}  (")
    assert "`" not in page.replace("`target`", "").replace("`from`", "").split("\n\n", 2)[2]
    opcode = TABLE.shorthands.get(name) or TABLE.by_name.get(name)
    if opcode is not None:
        fact = manual.describe(opcode)
        assert f"  {fact.syntax}" in page
        assert f"0x{fact.code:02x}" in page
        assert all(trap.code in page for trap in fact.traps)


@pytest.mark.parametrize("name", ["", "nonsense", "mul.mul", "MUL", "mul."])
def test_an_unknown_name_has_none(name: str) -> None:
    with pytest.raises(KeyError):
        manual.entry_page(name)


@pytest.mark.parametrize("code", ["", "RG9999", "mul", "RG01"])
def test_an_unknown_code_is_not_explained(code: str) -> None:
    with pytest.raises(KeyError):
        manual.explain(code)


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
    assert mul["formula"] == ["rd += ⌊ra·rb / 2^F⌋"]
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
        assert f"`{name}" not in TEXT
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
    assert manual.describe(TABLE.extended(shaped)["shaped.add"], TABLE.extended(shaped)).formula == (
        "rd += shaped(ra)",
    )

    def polynomial(w: Format) -> Expr:
        value = a
        for k in range(2 * manual.LONGEST):
            value = value * a + k
        return value

    deep = Function("deep", FMHALF.code, "curious", polynomial, "Many terms.")
    table = TABLE.extended(deep)
    assert manual.describe(table["deep.add"], table).formula == ("rd += deep(ra)",)
    assert manual.describe(table["deep.sub"], table).derivative == ("ā += ∂v(ra, d̄)",)


# --------------------------------------------------------------------------------------------------- the command


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manual.main(["--check", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert manual.main([str(tmp_path)]) == 0
    assert (tmp_path / "isa.md").read_text(encoding="utf-8").startswith(manual.HEADER)
    assert (tmp_path / "errors.md").read_text(encoding="utf-8").startswith(manual.HEADER)
    assert manual.main(["--check", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "errors.md").write_text(ERRORS + "\nmore\n", encoding="utf-8")
    assert manual.main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "errors.md is stale" in said
    assert "isa.md" not in said
