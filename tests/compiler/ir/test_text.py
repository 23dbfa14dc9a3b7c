"""The IR as text: what is written is read back as it was, what is no module is refused at its place."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from retrograd.compiler.compiled import compile_function
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.text import IRSyntaxError, as_text, block_text, parse
from retrograd.isa.diagnostics import CalledSpan, Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

from retrograd.runtime._binding import bind, types_of

#: of a module, not in its text
LEFT_OUT = ("texts", "externals", "remarks", "unsettled")
WHOLE = """\
format Q16.16
memory 28, stack 100, above 7, recorded
region table[4] at 8
  array table: fixed[2, 2] strides [2, 1]
  words 1, 2, 0x1000000, -5
  exact fixed 1/65536, 1/32768, 256, -5/65536
region s[16] at 12
  array "s a": int at 1
  array s: int[15] strides [1] at 1 counts [1]
region %t[3]
arguments s, table

procedure complex_log(re: fixed, im: fixed, x: fixed, y: fixed) changes re, im recursive adjoint d of 0, 1
  within r
    local n: fixed discarded
    fmul.add n, x, x
  do
    flog.add re, n
    fatan2.add im, y, x

procedure f(n: int, a: address)
  takes a[3]
  ld.add n, [a + 2] of a

entry
  free x.2: int, f: fixed
  local x: int checked
  mov.add x.2, -1
  mov.sub f, 1.5q
  imm.add f, 0.25q
  imm.add x.2, 7
  ld.add x.2, table[1]
  ld.add x.2, table[9 + 0]
  ld.add x.2, [9] of table
  ld.add f, [x.2 + 7] of table
  st.xor [x.2 + 1] of %t, x
  exch x.2, [sp - 2]
  if x.2 < 5
    external 2
  else
    neg x.2
  fi x.2 ≥ᵤ x
  while x.2 ≠ 0
    roli x.2, 3
  again x = 0
  for i: int in range(0, x.2, 2) nonempty
    uncall f(x.2, 7) on any
  for i: int in reversed range(0, x.2)
    call f(x.2, i) on %t
  within
  do
    external 3(x.2, f)
  check f <ᵤ 1q: RG0801 "too \\"large\\"" for derivatives of f, x.2
  delocal x checked
"""


def same(a: Any, b: Any, renamed: dict[object, object], positions: bool, path: str = "") -> None:
    """Assert that both are equal up to the identity of variables and regions, and to positions where the text leaves them out."""
    if isinstance(a, ir.Var | ir.Region) and a in renamed:
        assert renamed[a] is b, path
    elif isinstance(a, ir.Var | ir.Region):
        renamed[a] = b
        for name in a.__slots__:
            same(getattr(a, name), getattr(b, name), renamed, positions, f"{path}.{name}")
    elif isinstance(a, Span):
        assert not positions or (a == b and type(a) is type(b) and a.lines() == b.lines()), path
    elif isinstance(a, ir.Module | ir.Procedure):
        if isinstance(a, ir.Procedure):
            renamed = {x: y for x, y in renamed.items() if x is ir.SP or isinstance(x, ir.Region)}
        for field in fields(a):
            if field.name not in LEFT_OUT and (positions or field.name != "files"):
                same(getattr(a, field.name), getattr(b, field.name), renamed, positions, f"{path}.{field.name}")
    elif isinstance(a, dict):
        assert sorted(a) == sorted(b), path
        for key in a:
            same(a[key], b[key], renamed, positions, f"{path}.{key}")
    elif isinstance(a, frozenset):
        assert sorted(map(str, a)) == sorted(map(str, b)), path
    elif isinstance(a, tuple):
        assert (type(a), len(a)) == (type(b), len(b)), path
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, renamed, positions, f"{path}.{number}")
    else:
        assert a == b, path


def check(module: ir.Module) -> None:
    """The law of the text, with positions and without, one statement a line and several."""
    for positions, width in ((False, 0), (True, 0), (False, 100)):
        text = as_text(module, positions, width=width)
        back = parse(text)
        same(module, back, {ir.SP: ir.SP}, positions)
        assert as_text(back, positions, width=width) == text


# ---------------------------------------------------------------- what is written is read back


def test_random_modules_are_read_back(random_ir: Any, random_sums: Any) -> None:
    for seed in range(10):
        check(random_ir.generate(seed).module)
        check(random_sums.generate(seed).module)


@pytest.mark.parametrize("part", range(32))
def test_modules_of_functions_are_read_back(part: int, module: Callable[[str], Any]) -> None:
    """Those of the library and of the examples, as the front end makes them and after all passes."""
    frozen = module("tests/test_frozen.py")
    for name, function, cls in [*frozen.functions()][part::32]:
        seen: list[ir.Module] = []
        types = types_of(function, bind(function, frozen.arguments(name, function, cls), {}))
        compile_function(
            function, types, function.format_for(), function.options, lambda _, m, seen=seen: seen.append(m)
        )
        check(seen[0])
        check(seen[-1])


def test_a_whole_module_is_written_as_it_was_read() -> None:
    assert as_text(parse(WHOLE)) == WHOLE
    check(parse(WHOLE))


def test_each_instruction_is_read_back() -> None:
    x, y, i = ir.Var("x", ir.Kind.FIXED), ir.Var("y", ir.Kind.LOGNUM), ir.Var("i", ir.Kind.ADDRESS)
    region = ir.Region("m", 4, 8)
    for opcode in TABLE:
        if "target" in opcode.operands:
            # Control is no instruction in the IR.
            continue
        present = {"rd": {"d": x}, "ra": {"a": y}, "rb": {"b": ir.Const(3)}, "imm": {"imm": -7}}
        fields_: dict[str, Any] = {}
        for kind in opcode.operands:
            fields_ |= present.get(kind, {"a": i, "imm": 10, "region": region})
        check(ir.Module((ir.Op(opcode, **fields_),), {}))


@pytest.mark.parametrize("base", [ir.Const(0), ir.Const(9), ir.Var("i")])
@pytest.mark.parametrize("at", [-1, 0, 7, 8, 9])
@pytest.mark.parametrize("region", [None, ir.Region("m", 4), ir.Region("m", 4, 0), ir.Region("m", 4, 8)])
def test_each_address_has_a_text_of_its_own(base: ir.Operand, at: int, region: ir.Region | None) -> None:
    check(ir.Module((ir.Op(TABLE["ld.add"], ir.Var("x"), base, imm=at, region=region),), {}))


NAMES = [
    "x",
    "x",
    "%x",
    "%",
    "x.2",
    "x.2",
    "a[1]",
    "any",
    "sp",
    "",
    "1st",
    'say "x"',
    "ünï",
    "two words",
    "#",
    "local",
    "?",
]


def test_each_name_is_read_back() -> None:
    variables = [ir.Var(name) for name in NAMES]
    regions = tuple(ir.Region(name, 1, at) for at, name in enumerate(NAMES))
    body: ir.Block = tuple(
        ir.Within((ir.Local(var),), (ir.Call("f", (var,), (r,)),), var.name)
        for var, r in zip(variables, regions, strict=True)
    )
    procedures = {name: ir.Procedure(name, (ir.Var(name),), (), ()) for name in NAMES}
    check(ir.Module(body, procedures, regions, len(NAMES)))
    assert as_text(ir.Module((), {}, regions[:2])).splitlines()[2:4] == ["region x[1] at 0", "region x.2[1] at 1"]


@pytest.mark.parametrize("w", [Format(64, 32), Format(32, 16), Format(16, 0)])
def test_each_number_is_read_back(w: Format) -> None:
    rng = random.Random(1)
    words = [0, 1, w.mask, w.sign, w.sign - 1, 1 << w.frac, *(rng.getrandbits(w.width) for _ in range(200))]
    x, n = ir.Var("x", ir.Kind.FIXED), ir.Var("n")
    block = [ir.Op(TABLE["mov.add"], var, ir.Const(word)) for word in words for var in (x, n)]
    immediates = [ir.Op(TABLE["imm.add"], var, imm=k) for k in (-(2**31), -1, 0, 40000, 2**31 - 1) for var in (x, n)]
    check(ir.Module((*block, *immediates), {}, (ir.Region("r", len(words), 0, tuple(words)),), 300, format=w))


def test_places_are_read_back() -> None:
    inner, outer = Span("a b.py", 3, 5, 9), Span('"q".py', 7)
    x = ir.Var("x", span=inner)
    called = CalledSpan.at(inner, outer)
    module = ir.Module((ir.Local(x, True, outer), ir.Op(TABLE["neg"], x, span=called)), {}, files=("a b.py",))
    assert as_text(module, positions=True).splitlines()[-2:] == [
        '  local x @ "a b.py":3:5:9: int checked @ "\\"q\\".py":7:1:1',
        '  neg x @ "a b.py":3:5:9 from @ "\\"q\\".py":7:1:1',
    ]
    check(module)
    assert "@" not in as_text(module)


# ---------------------------------------------------------------- texts by hand


def test_a_text_by_hand_may_be_short() -> None:
    """Comments, several statements on a line, relations in ASCII, any indentation, and no line for the entry."""
    short = "region a[8] at 4  # eight words\nfree x: fixed\nlocal n: int; ld.add n, a[1]\nif n >=u 3\n     neg x; neg x\nfi n != 0\n"
    module = parse(short)
    assert (module.memory, module.arguments, module.format) == (12, None, Format(64, 32))
    assert block_text(module.entry) == (
        "region a[8] at 4 unlisted\nfree x: fixed\nlocal n: int\nld.add n, a[1]\nif n ≥ᵤ 3\n  neg x\n  neg x\nfi n ≠ 0\n"
    )


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("neg x", 1, 5, "unknown variable x"),
        ("free x: fixed\n\nneg x, y", 3, 6, "expected the end of the line, not ,"),
        ("free x: float", 1, 9, "expected a type (int, "),
        ("free x: int, x: fixed", 1, 14, "x has been declared as int"),
        ("nag x", 1, 1, "unknown statement nag"),
        ("free x: int\nadd.mul x", 2, 1, "unknown statement add.mul"),
        ("free x: int\nmov.add x,", 2, 11, "expected a variable, not the end of the line"),
        ("free x: int\nmov.add x, 1.5", 2, 12, "1.5 is no word"),
        ("free x: int\nmov.add x, 0x10000000000000000", 2, 12, "does not fit in 64 bits"),
        ("format Q16.16\nfree x: fixed\nmov.add x, 40000q", 3, 12, "outside the range of Q16.16"),
        ("format Q16.17", 1, 8, "width must be one of"),
        ("free x: int\nif x < 1\n  neg x", 2, 1, "`if` has no `fi` below it"),
        ("free x: int\nif x < 1\n  neg x\nagain x < 1", 4, 1, "expected `fi`, not again"),
        ("free x: int\nwithin\n    neg x\n  neg x\ndo", 4, 3, "indented by 2, the block by 4"),
        ("  external 1", 1, 3, "an indented line below no line"),
        ("free x: int\nif x ~ 1", 2, 6, "no part of the language begins with '~'"),
        ("free x: int\nld.add x, a[1]", 2, 11, "unknown region a"),
        ("region a[4]\nfree x: int\nld.add x, a[1]", 3, 14, "the region a has no address"),
        ("region a[4]\nregion a[4]", 2, 8, "the region a is declared twice"),
        ("procedure f()\nprocedure f()", 2, 11, "the procedure f is declared twice"),
        ("procedure f(x: int) changes y", 1, 29, "unknown variable y"),
        ("region a[1]\n  exact fixed 1/0", 2, 15, "1/0 is no number"),
        ('free x: int\ncheck x = 0: RG0801 "\\q"', 2, 21, "no part of the language"),
        ("for i: int in range(0)", 1, 22, "expected `,`, not )"),
    ],
)  # fmt: skip
def test_what_is_no_module_is_refused_at_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(IRSyntaxError) as caught:
        parse(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).splitlines()[-2:] == [f"  {text.splitlines()[line - 1]}", f"  {' ' * (column - 1)}^"]


def test_a_damaged_text_is_a_module_or_refused() -> None:
    """A few characters are removed, copied or exchanged: never another exception than IRSyntaxError."""
    rng = random.Random(7)
    text = as_text(parse(WHOLE), positions=True)
    refused = 0
    for _ in range(300):
        start = rng.randrange(len(text))
        end = start + rng.randint(0, 6)
        other = rng.randrange(len(text))
        damaged = text[:start] + rng.choice(("", text[other : other + 5], '"', "9", "\t", "/0")) + text[end:]
        try:
            check(parse(damaged))
        except IRSyntaxError:
            refused += 1
    assert refused > 100
