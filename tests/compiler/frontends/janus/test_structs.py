"""Structs of Janus: random programs beside the interpreter of the source, whose structs are dictionaries."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.frontends.janus.parser import read
from retrograd.isa.diagnostics import CompileError

from retrograd.cli.main import main
from retrograd.runtime._reversible import JanusFunction, run

POINT = "struct point { int x, int y }\n"


@pytest.fixture(scope="module")
def random_programs(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/test_random_programs.py")


@pytest.fixture(scope="module")
def source_interpreter(module: Any) -> ModuleType:
    return module("tests/compiler/frontends/janus/source_interpreter.py")


class Generator:
    """Writes a program whose `main` has structs `a`, `b` of one type, and an array `rows` of them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.last = "a"

    def program(self) -> str:
        draw = self.draw
        kind = draw.choice(["int", "i16", "u8"])
        texts = [
            f"struct inner {{ {kind} u {kind} v[2] }}",
            f"struct outer {{ {kind} n  struct inner one, struct inner two[3] bool flag }}",
            f"procedure change(struct inner q, {kind} d)",
            "    q.u += d",
            f"    q.v[1] {draw.choice(['+=', '-=', '^='])} q.u",
            "procedure deep(struct outer p, struct outer o[])",
            "    call change(p.two[1], p.n)",
            "    o[size(o) - 1].n += p.one.u",
            "    uncall change(o[0].one, p.n)",
            "procedure main()",
            f"    struct outer a = {{{draw.randrange(9)}, {{{draw.randrange(9)}, {{1, 2}}}}, {{{{3}}, {{4, {{5}}}}}}}}",
            "    struct outer b = a" if draw.random() < 0.5 else "    struct outer b",
            "    struct outer rows[2] = {{1}, {2, {}, {}, true}}",
            "    int k = 1",
        ]
        texts += [f"    {line}" for line in self.block(draw.randrange(4, 10), 2)]
        return "\n".join(texts) + "\n"

    def outer(self) -> str:
        """A struct; now and then the one that was named last, so a few statements are refused or trap."""
        places = ["a", "b", "rows[0]", "rows[k]", "rows[1 - k]", "rows[1]"]
        self.last = self.draw.choice([p for p in places if p[0] != self.last[0] or self.draw.random() < 0.2])
        return self.last

    def inner(self) -> str:
        return f"{self.outer()}.{self.draw.choice(['one', 'two[0]', 'two[k]', 'two[k + 1]'])}"

    def number(self) -> str:
        which = self.draw.choice([".n", ".u", ".v[0]", ".v[k]"])
        return (self.outer() if which == ".n" else self.inner()) + which

    def block(self, count: int, depth: int) -> list[str]:
        return [line for _ in range(count) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        draw = self.draw
        match draw.randrange(9 if depth else 7):
            case 0 | 1:
                return [f"{self.number()} {draw.choice(['+=', '-=', '^='])} {self.number()} * 3 + {draw.randrange(9)}"]
            case 2:
                return [f"{self.outer()} <=> {self.outer()}"]
            case 3:
                return [f"{self.inner()} <=> {self.inner()}"]
            case 4:
                return [f"{draw.choice(['call', 'uncall'])} change({self.inner()}, {draw.randrange(5)})"]
            case 5:
                return [f"{draw.choice(['call', 'uncall'])} deep({draw.choice('ab')}, rows)"]
            case 6:
                return [f"{self.outer()}.flag ^= {self.number()} < {self.number()}"]
            case 7:
                name, e = f"t{draw.randrange(1000)}", self.inner()
                first, last = f"struct inner {name} = {{{e}.u}}", f"struct inner {name} = {{{e}.u, {{}}}}"
                return [f"local {first}", f"a.n += {name}.u - {name}.v[1]", f"delocal {last}"]
        condition = f"{self.outer()}.flag"
        return [f"if {condition} then", *self.block(1, 0), "else", *self.block(1, 0), f"fi {condition}"]


def test_random_programs_with_structs(
    random_programs: ModuleType, source_interpreter: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: Counter[str] = Counter()
    for seed in range(30):
        text = Generator(seed).program()
        try:
            codes[random_programs.compare(text, seed, source_interpreter, capsys)] += 1
        except CompileError as error:
            codes.update(d.code for d in error.diagnostics)
    assert codes[""] >= 15, codes
    # A statement that changes what it reads, or exchanges a variable with itself.
    refused = {"RG0704", "RG0705"}
    assert codes.keys() <= {"", "RG0801", "RG0803", "RG0805", *refused}, codes


def test_a_struct_is_a_variable_for_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    text = POINT + "procedure f(struct point p, struct point a[2])\n    p.x += a[1].y\n    show(p, a)\n"
    f = JanusFunction(read(text, "f.ja"), "f")
    found = run(f, 1, 2, [3, 4], [5, 6])
    names = list(found.values._asdict())
    assert names == ["p.x", "p.y", "a.x", "a.y"]
    assert [v.tolist() if hasattr(v, "tolist") else v for v in found.values] == [7, 2, [3, 4], [5, 6]]
    assert capsys.readouterr().out == "p.x = 7, p.y = 2, a.x[2] = {3, 4}, a.y[2] = {5, 6}\n"
    assert run(~f, *found.values).values[0] == 1


def test_fields_are_named_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.ja"
    path.write_text(POINT + "procedure main()\n    struct point p = {4}\n    p.y += p.x * 2\n", encoding="utf-8")
    assert main(["run", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["p.x = 4", "p.y = 8"]
    assert main(["run", str(path), "--backward", "p.x=4", "p.y=8"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["p.x = 0", "p.y = 0"]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("int n = 0\n p.z += 1", "RG0702", "no field `z`"),
        ("int n = 0\n n.x += 1", "RG0703", "`n` is no struct"),
        ("int n = 0\n n += p", "RG0703", "`p` is a struct point where a number"),
        ("int n = 0\n p += 1", "RG0703", "where a number"),
        ("int n = 0\n a.x += 1", "RG0703", "`a` has 1 dimension, and 0 indices stand there"),
        ("int n = 0\n p <=> n", "RG0703", "exchanges values of two types"),
        ("int n = 0\n p <=> a", "RG0703", "exchanges values of two types"),
        ("int n = 0\n call f(n)", "RG0703", "is given int"),
        ("int n = 0\n call f(a)", "RG0703", "is given struct point with 1 dimension"),
        ("int n = 0\n call f(3)", "RG0703", "is given an expression"),
        ("int n = 0\n call f(p, p)", "RG0715", "1 parameter, and is given 2 arguments"),
        ("struct nothing n\n p.x += 1", "RG0702", "no `struct nothing`"),
        ("struct point n = 5\n p.x += 1", "RG0712", "does not fit"),
        ("struct point n = {1, 2, 3}\n p.x += 1", "RG0712", "does not fit"),
        ("int n = size(p)\n p.x += 1", "RG0703", "no size"),
        ("struct point n\n local struct point t = n\n q.x += 1\n delocal struct point t", "RG0702", "`q` is not"),
    ],
)
def test_errors(body: str, code: str, words: str) -> None:
    declared = "procedure main()\n struct point p\n struct point a[2]\n"
    text = f"{POINT}procedure f(struct point q)\n    q.x += 1\n{declared} {body}\n"
    with pytest.raises(CompileError) as caught:
        run(JanusFunction(read(text, "e.ja"), "main"))
    (found,) = caught.value.diagnostics
    assert found.code == code, found
    assert words in found.message, found
    assert found.hint, found


@pytest.mark.parametrize(
    ("struct", "words"),
    [
        ("struct p { struct p q }", "contains itself"),
        ("struct p { struct q q }\nstruct q { int a[3] struct p p }", "contains itself"),
        ("struct p { struct q q }", "no `struct q`"),
        ("struct p { int a, int a }", "two fields `a`"),
        ("struct p { int a }\nstruct p { int b }", "defined already"),
        ("struct p { int a[n] }", "no number"),
        ("struct p { int a[] }", "no number"),
        ("struct p { }", "a type is expected"),
        ("struct p\n int a", "`{` is expected"),
        ("struct p { int a; int b }", "`;` stands"),
    ],
)
def test_errors_of_structs(struct: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        JanusFunction(read(f"{struct}\nprocedure main()\n    int x\n", "e.ja"), "main")
    assert words in caught.value.diagnostics[0].message


def test_the_size_of_an_array_is_no_value_that_a_statement_changes() -> None:
    text = """
        procedure f(int a[])
            a[size(a) - 1] += 5
            iterate int i = 0 to size(a) - 1
                a[i] += i
            end
    """
    assert run(JanusFunction(read(text, "f.ja"), "f"), [1, 2, 3]).values[0].tolist() == [1, 3, 10]
    text = """
        procedure f(stack s, int x)
            local int a[1]
                push(x, s)
                pop(a[size(s) - 1], s)
                push(a[0], s)
            delocal int a[1]
    """
    with pytest.raises(CompileError, match="RG0704"):
        run(JanusFunction(read(text, "f.ja"), "f"), [], 0)
