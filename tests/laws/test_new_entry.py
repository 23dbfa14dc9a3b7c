"""One entry added to the table, and nothing else edited: everything about the instruction must follow."""

from __future__ import annotations

import random
from itertools import islice, product
from math import isqrt

import pytest
from retrograd.isa import folds, laws, smtlib
from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.encoding import Instruction, decode, encode, inverse
from retrograd.isa.entries import Function, a
from retrograd.isa.expr import Expr, evaluate, formula
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import WIDTHS, Format


def ones(x: Expr, w: Format) -> Expr:
    """How many bits of x are set: pairs, then nibbles, then bytes, whose sum a product gathers in the top byte."""

    def every(pattern: int) -> int:
        return int(f"{pattern:02x}" * 8, 16) & w.mask

    x = x - (x.shr(1) & every(0x55))
    x = (x & every(0x33)) + (x.shr(2) & every(0x33))
    if w.width == 4:
        return x
    x = (x + x.shr(4)) & every(0x0F)
    return (x * every(0x01)).shr(w.width - 8)


POPC = Function(
    "ones",
    TABLE.free_code(),
    "integer",
    lambda w: ones(a, w),
    "How many bits are set.",
    differentiable=False,
    shorthand=None,
)
EXTENDED = TABLE.extended(POPC)
NAMES = ["ones.add", "ones.sub", "ones.xor"]


def test_the_table_grew_by_one_entry() -> None:
    assert len(EXTENDED) == len(TABLE) + 3
    assert [EXTENDED[name].code - POPC.code for name in NAMES] == [0, 1, 2]
    assert [EXTENDED.inverse(EXTENDED[name]).name for name in NAMES] == ["ones.sub", "ones.add", "ones.xor"]


@pytest.mark.parametrize("width", WIDTHS)
def test_it_counts_bits(width: int) -> None:
    w = Format(width, width // 2)
    tree = ones(a, w)
    statements, (out,) = folds.emit([tree], w, {"a": "a"})
    source = compile("\n".join([*statements, f"r = {out}"]), "<ones>", "exec")
    rng = random.Random(width)
    words = range(1 << width) if width <= 8 else [0, 1, w.mask, w.sign, *(rng.getrandbits(width) for _ in range(500))]
    for x in words:
        scope: dict[str, int] = {"a": x}
        exec(source, {"isqrt": isqrt}, scope)
        assert scope["r"] == evaluate(tree, w, {"a": x}) == x.bit_count()


@pytest.mark.parametrize("name", NAMES)
def test_it_executes(name: str) -> None:
    w = Format(64, 32)
    after = laws.execute(EXTENDED[name], {"a": 0xFF00FF, "d": 5, "br": 0}, w)
    assert after == {"a": 0xFF00FF, "d": {"add": 21, "sub": w.wrap(-11), "xor": 5 ^ 16}[name[5:]], "br": 0}
    assert laws.execute(EXTENDED[name], {"a": 1, "d": 5, "br": 3}, w) == "RG0405"


@pytest.mark.parametrize("name", NAMES)
def test_the_inverse_law_holds(name: str) -> None:
    opcode = EXTENDED[name]
    assert laws.places_of(opcode) == ("a", "br", "d")
    for w in (Format(4, 2), Format(8, 4)):
        states = laws.all_states(opcode, w)
        assert list(islice(laws.inverse_counterexamples(opcode, w, states, EXTENDED), 3)) == []
    rng = random.Random(1)
    wide = [(x, 0, y) for x, y in product([0, 1, 2**63, 2**64 - 1], repeat=2)]
    wide += [(rng.getrandbits(64), 0, rng.getrandbits(64)) for _ in range(2000)]
    assert list(islice(laws.inverse_counterexamples(opcode, Format(64, 32), wide, EXTENDED), 3)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_inverse_law_is_proved(name: str) -> None:
    import z3  # type: ignore[import-untyped]

    solver = z3.Solver()
    solver.from_string(smtlib.reversibility(EXTENDED[name], Format(16, 8), EXTENDED))
    assert solver.check() == z3.unsat


def test_the_encoding_follows() -> None:
    assert list(laws.encoding_counterexamples(EXTENDED)) == []
    opcode = EXTENDED["ones.add"]
    assert opcode.operands == ("rd", "ra")
    assert opcode.fields == {"rd", "ra"}
    assert opcode.distinct == (("rd", "ra"),)
    i = Instruction(opcode, rd=3, ra=250)
    assert encode(i) == POPC.code << 56 | 3 << 48 | 250 << 40
    assert decode(encode(i), EXTENDED) == i
    assert inverse(i, EXTENDED) == Instruction(EXTENDED["ones.sub"], rd=3, ra=250)
    with pytest.raises(ValueError, match="is written"):
        encode(Instruction(opcode, rd=3, ra=3))


def test_programs_hold_it() -> None:
    code = [encode(Instruction(EXTENDED[name], 1, 2)) for name in ("start", *NAMES, "finish") if "ones" in name]
    p = Program(code, table=EXTENDED)
    assert [i.opcode.name for i in (~p).instructions] == ["ones.xor", "ones.add", "ones.sub"]
    assert ~~p == p


@pytest.mark.parametrize("name", NAMES)
def test_it_says_that_it_has_no_derivative(name: str) -> None:
    with pytest.raises(NoDerivative, match=r"integer or bitwise"):
        lift(EXTENDED[name], Format(64, 32))


def test_the_formula_can_be_written() -> None:
    assert formula(ones(a, Format(4, 2))).count("a") >= 2


# The assembler (syntax both ways), the machines (reference, native, hardware) and the manual (a page for the
# entry) follow from the same entry. Their tests belong below this line, one for each, on EXTENDED.
