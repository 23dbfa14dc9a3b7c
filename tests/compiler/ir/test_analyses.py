"""Analyses that passes share: effects of statements, value numbering, ranges; and that no walker overlooks a kind of statement."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from retrograd.compiler.backend.linear_code import Step
from retrograd.compiler.ir.effects import AccessAnalysis, of_op
from retrograd.compiler.ir.ranges import MIRRORED, AffineValue, Symbols
from retrograd.compiler.ir.statements import Block, Module, Node, Op, Within
from retrograd.compiler.ir.text import block_text, parse
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering
from retrograd.isa.expr import evaluate
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

ROOT = Path(__file__).resolve().parents[3]
KINDS = frozenset(kind.__name__ for kind in get_args(Node))
#: the kinds of a step of linear code
ITEMS = frozenset(name.strip().removeprefix("ir.") for name in Step.__annotations__["item"].__forward_arg__.split("|"))
DECLARED = """\
region a[8] at 0
region b[8] at 8
region c[1]
free x: fixed, y: fixed, z: fixed, u: fixed, v: fixed, i: int, j: int
"""


def module(text: str) -> Module:
    return parse(DECLARED + text)


def names(found: object) -> set[str]:
    """The names of variables or regions."""
    return {one.name for one in found}  # type: ignore[attr-defined]


# ---------------------------------------------------------------- effects


@pytest.mark.parametrize(
    ("first", "second", "commute"),
    [
        ("ld.add x, a[i]", "st.add a[i], y", False),
        ("ld.add x, a[i]", "st.add [i] of b, y", True),
        ("ld.add x, a[i]", "st.add [i], y", False),
        ("mov.add x, y", "mov.add z, y", True),
        ("mov.add x, y", "mov.add y, z", False),
    ],
)
def test_instructions_commute_unless_they_meet(first: str, second: str, commute: bool) -> None:
    one, other = module(f"{first}; {second}").entry
    assert isinstance(one, Op)
    assert isinstance(other, Op)
    assert of_op(one).commutes(of_op(other)) == commute


def test_calls_count_by_what_their_procedures_do() -> None:
    m = module("procedure f(p: int, q: int) changes p\n  takes q[8]\n  st.add [q] of q, p\ncall f(x, i) on b")
    found = AccessAnalysis(m).of(m.entry[0])
    assert (names(found.reads), names(found.writes), names(found.stores)) == ({"i", "sp"}, {"x"}, {"b"})


def test_a_recursive_call_touches_what_the_calls_within_it_touch() -> None:
    """P and Q change places once a round: f(p; P, Q) is p ^= P[0]; g(p; Q, P), and g(p; P, Q) is f(p; P, Q)."""
    m = module(
        "procedure f(p: int) changes p recursive\n  takes P[1]\n  takes Q[1]\n  st.xor [0] of P, p; call g(p) on Q, P\n"
        "procedure g(p: int) changes p recursive\n  takes P[1]\n  takes Q[1]\n  call f(p) on P, Q\n"
        "call f(x) on a, c; call g(x) on a, c"
    )
    for call in m.entry:
        found = AccessAnalysis(m).of(call)
        assert (names(found.stores), names(found.loads), "x" in names(found.writes)) == ({"a", "c"}, {"a", "c"}, True)


def test_locals_are_no_part_of_access_sets() -> None:
    m = module("within\n  local t: fixed; ld.add t, a[i]\ndo\n  fmov.add y, t")
    found = AccessAnalysis(m).of(m.entry[0])
    assert [names(part) for part in (found.reads, found.writes, found.loads, found.stores)] == [
        {"i"},
        {"y"},
        {"a"},
        set(),
    ]


# ---------------------------------------------------------------- value numbering

LOAD = "local {0}: fixed; ld.add {0}, a[{1}]; "


def cut(compute: str) -> tuple[Block, list[NumberedValue]]:
    """A compute block, and its values."""
    m = module(f"within\n  {compute}\ndo")
    (within,) = m.entry
    assert isinstance(within, Within)
    return within.compute, ValueNumbering(m, AccessAnalysis(m)).of(within.compute)


def test_equal_values_have_equal_numbers() -> None:
    def one(a: str, b: str, more: str = "") -> str:
        return f"within\n  {LOAD.format(a, 'i')}local {b}: fixed; fmul.add {b}, {a}, z{more}\ndo\n"

    blocks = [one("t", "s"), one("s", "r"), one("t", "s", "; fmov.add s, x"), one("w", "s")]
    m = module("".join(blocks))
    values = ValueNumbering(m, AccessAnalysis(m))
    first, renamed, changed, _ = (
        [v.number for v in values.of(node.compute)] for node in m.entry if isinstance(node, Within)
    )
    assert first == renamed
    assert first[0] == changed[0]
    assert first[1] != changed[1]


def test_a_value_is_all_that_one_statement_joins() -> None:
    swapped = "local t: fixed; fexp.add t, u2; local s: fixed; fsin.add s, v2; swap s, t"
    _, (first, second, both) = cut(LOAD.format("u2", "i") + LOAD.format("v2", "j") + swapped)
    assert [[var.name for var in value.locals] for value in (first, second, both)] == [["u2"], ["v2"], ["t", "s"]]
    assert both.needs == {first.number, second.number}
    assert both.access.reads == set()


@pytest.mark.parametrize("read", ["t", "s"])
def test_a_value_does_not_change_behind_its_reader(read: str) -> None:
    compute, (whole,) = cut(
        LOAD.format("t", "i") + LOAD.format("s", "j") + f"local r: fixed; fexp.add r, {read}; swap s, t"
    )
    assert whole.statements == compute


def test_what_changes_memory_is_one_value_with_what_depends_on_it() -> None:
    swap, behind = "local s: fixed; exch s, a[i]; ", LOAD.format("r", "j") + "fmul.add r, s, s"
    _, (value, tail) = cut(swap + "local t: fixed; ld.add t, [i] of b; " + behind)
    assert names(value.locals) == {"t"}
    assert not value.opaque
    assert tail.opaque
    assert block_text(tail.statements).splitlines()[-5:] == [
        "local s: fixed", "exch s, a[i]", "local r: fixed", "ld.add r, a[j]", "fmul.add r, s, s",
    ]  # fmt: skip


def test_a_tail_that_goes_on_after_a_value_has_read_it_is_not_cut() -> None:
    """t and s are joined; t changes with x, a value reads s, and x changes again: no order of the parts computes them."""
    joined = LOAD.format("t", "i") + LOAD.format("s", "j") + "swap s, t; swap t, x; "
    compute, (whole,) = cut(joined + "local r: fixed; fexp.add r, s; fmov.add x, y")
    assert whole.statements == compute


# ---------------------------------------------------------------- ranges


def test_ranges_hold_for_all_words() -> None:
    """What is known of a function of two words in ranges holds of all words in them, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(1)
    names = ("mov", "mul", "and", "div", "mod", "sar", "shr", "shl", "abs", "min", "max", "slt", "sltu", "seq")
    for _ in range(600):
        name = rng.choice(names)
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        got = symbols.function(Op(TABLE[f"{name}.add"]), a, b)
        function = TABLE[f"{name}.add"]
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if got is None or (name in ("div", "mod") and r == 0):
                    continue
                after_ = evaluated(function, p, r, small)
                assert got.low <= after_ <= got.high, (name, ends, p, r, got)


def evaluated(opcode: object, a: int, b: int, w: Format) -> int:
    value = opcode.entry.value(w)  # type: ignore[attr-defined]
    return w.signed(evaluate(value, w, {"a": a & w.mask, "b": b & w.mask, "d": 0, "m": 0, "imm": 0}))


def test_ranges_of_sums_of_many_terms() -> None:
    """No more than a few terms are kept of a sum; its range is known all the same, and all words where it may wrap."""
    symbols = Symbols(Format(8, 0))
    for most, expected in ((10, (0, 120)), (40, (-128, 127))):
        total = symbols.constant(0)
        for _ in range(12):
            total = symbols.sum(total, symbols.unknown(0, most))
        assert (total.low, total.high) == expected


def test_ranges_of_sums_and_tests_hold_for_all_words() -> None:
    """Sums of symbols, compared: whatever is claimed is true of all numbers that the symbols may stand for, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(2)

    def made(symbols: Symbols, bases: list[AffineValue], weights: list[int]) -> AffineValue:
        total = symbols.constant(weights[0])
        for base, weight in zip(bases, weights[1:], strict=True):
            total = symbols.sum(total, symbols.times(base, weight), rng.choice((1,)))
        return total

    claims = 0
    for _ in range(400):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        bases = [symbols.unknown(*e) for e in ends]
        weights = [[rng.randint(-3, 3) for _ in range(3)] for _ in range(2)]
        left, right = (made(symbols, bases, some) for some in weights)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        claim = symbols.holds(cc, left, right)
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                a, b = (small.wrap(some[0] + some[1] * p + some[2] * r) for some in weights)
                assert left.low <= small.signed(a) <= left.high
                if claim is not None:
                    claims += 1
                    assert truth(cc, a, b, small) == claim, (cc, left, right, p, r)
    assert claims > 100


def test_what_a_test_leaves_of_its_operands_holds_for_all_words() -> None:
    """Both operands of a condition that holds lie in the ranges that the condition leaves, in 4 bits, and no condition leaves everything."""
    small = Format(4, 0)
    rng = random.Random(3)
    narrower: set[str] = set()
    for _ in range(2000):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        left, right = symbols.narrowed(cc, a, b), symbols.narrowed(MIRRORED[cc], b, a)
        narrower.update(name for name, new, old in ((cc, left, a), (MIRRORED[cc], right, b)) if new[:2] != old[:2])
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if truth(cc, p & small.mask, r & small.mask, small):
                    assert left.low <= p <= left.high, (cc, ends, p, r, left)
                    assert right.low <= r <= right.high, (cc, ends, p, r, right)
    assert narrower == {*MIRRORED, *MIRRORED.values()}


def truth(cc: str, a: int, b: int, w: Format) -> bool:
    p, r = (w.signed(a), w.signed(b)) if cc in ("lt", "ge") else (a, b)
    return {"eq": p == r, "ne": p != r, "lt": p < r, "ltu": p < r, "ge": p >= r, "geu": p >= r}[cc]


# ---------------------------------------------------------------- walkers


def other_classes(tree: ast.AST) -> Iterator[str]:
    """The names of classes that a front end defines, or imports from its own syntax: its `If` is no statement of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(".syntax"):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            yield node.name


def silent(tree: ast.AST) -> Iterator[int]:
    """The lines of matches over statements that leave out a kind, or have a default."""
    others = set(other_classes(tree))
    for match in (node for node in ast.walk(tree) if isinstance(node, ast.Match)):
        patterns = [node for case in match.cases for node in ast.walk(case.pattern)]
        # `ir.Op` as well as `Op`, but not `ast.If`.
        named = {ast.unparse(p.cls).removeprefix("ir.") for p in patterns if isinstance(p, ast.MatchClass)}
        named &= (KINDS | ITEMS) - others
        default = any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in match.cases)
        if named and (default or named not in (KINDS, ITEMS)):
            yield match.lineno


def test_no_walker_has_a_silent_default() -> None:
    assert len(KINDS) == 10
    assert "Branch" in ITEMS
    files = sorted((ROOT / "compiler").rglob("*.py"))
    found = [f"{p.relative_to(ROOT)}:{n}" for p in files for n in silent(ast.parse(p.read_text("utf-8")))]
    assert found == []


def test_planted_defaults_are_found() -> None:
    whole = "match node:\n    case " + " | ".join(f"{kind}()" for kind in sorted(KINDS)) + ":\n        pass"
    assert list(silent(ast.parse(whole))) == []
    assert list(silent(ast.parse(whole + "\n    case _:\n        pass"))) == [1]
    assert list(silent(ast.parse(whole.replace("Call() | ", "")))) == [1]
    assert list(silent(ast.parse(whole.replace("Call() | ", "").replace("Op", "ir.Op")))) == [1]
    own = "class If:\n    pass\nmatch node:\n    case If():\n        pass"
    assert list(silent(ast.parse(own))) == []
    assert list(silent(ast.parse(own.replace("class If", "class Unless")))) == [3]
    assert list(silent(ast.parse("match e.op:\n    case 'add':\n        pass\n    case _:\n        pass"))) == []
