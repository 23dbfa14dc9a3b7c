"""The stages of functional functions as text: core, types, and the first-order program."""

from __future__ import annotations

from pathlib import Path

import pytest
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.printer import definition_text
from retrograd.isa.diagnostics import Span

from retrograd.cli.main import main

SOURCE = """\
import retrograd as rg
from retrograd import fixed

@rg.data
class Leaf:
    value: fixed

@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"

@rg.functional
def newton(x: fixed):
    def root(f, z):
        better = z - f(z) / rg.grad(f)(z)
        return better if abs(better - z) < 1e-4 else root(f, better)
    return root(lambda z: z * z - x, 1.0)

@rg.functional
def chosen(x: fixed, n: int):
    f = (lambda z: z + x) if n > 0 else (lambda z: -z)
    return f(2.0)

@rg.functional
def summed(xs: rg.Array[fixed, 3]):
    return sum(xs[i] * xs[i] for i in range(3)), len(xs)

@rg.functional
def grown(x: fixed):
    def total(t):
        match t:
            case Leaf(v):
                return v
            case Node(a, b):
                return total(a) + total(b)
    def longest(items):
        match items:
            case [head, *tail]:
                return head + longest(tail)
            case _:
                return 0.0
    return total(Node(Leaf(x), Leaf(2 * x))) + longest([x, x])

@rg.functional
def weighed(x: fixed):
    def weight(t):
        match t:
            case Leaf(the_value_of_a_leaf):
                return the_value_of_a_leaf * the_value_of_a_leaf + x
            case Node(the_left_one, the_right_one):
                return weight(the_left_one) + weight(the_right_one)
            case _:
                return x
    return weight(Node(Leaf(x), Leaf(x)))

@rg.reversible
def plain(y: fixed, x: fixed):
    y += x
"""
CORE = {
    "newton": """\
newton = λ x.
  letrec root = λ f, z.
    let better = z - (f(z) / grad(f)(z)) in
    if abs(better - z) < 0.0001 then better else root(f, better)
  in
  root(λ z.2. (z.2 * z.2) - x, 1.0)
""",
    "summed": """\
summed = λ xs.
  (Σ i = 0 … 3 − 1: xs[i] * xs[i], length(xs))
""",
}
TYPES = {
    "newton": [
        "newton(x: fixed) → fixed",
        "root(f: λlambda[fixed], z: fixed) → fixed",
        "grad(x0: fixed) → fixed   captures λlambda[fixed]",
    ],
    "chosen": ["chosen(x: fixed, n: int) → fixed", "lambda(z: fixed) → fixed   captures x: fixed"],
    "summed": ["summed(xs: Array[fixed, 3]) → (fixed, int)"],
    "grown": ["total(t: Leaf | Node) → fixed", "longest(items: list[fixed]) → fixed"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(SOURCE)


def dumped(name: str, stage: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compile", f"f.py:{name}", "--dump", stage]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", CORE)
def test_core(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dumped(name, "core", capsys) == CORE[name]


def test_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    text = dumped("grown", "core", capsys)
    for part in ("Leaf(v) → v", "Node(a, b) → total(a) + total(b)", "[head, *tail] → head + longest(tail)", "_ → 0.0"):
        assert part in text


def test_patterns_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A match that is too long for a line has each pattern and each body on a line."""
    lines = dumped("weighed", "core", capsys).splitlines()
    first = next(n for n, line in enumerate(lines) if line.endswith("match subject {"))
    assert [line.strip() for line in lines[first + 1 : first + 8]] == [
        "Leaf(the_value_of_a_leaf) →", "(the_value_of_a_leaf * the_value_of_a_leaf) + x",
        "Node(the_left_one, the_right_one) →", "weight(the_left_one) + weight(the_right_one)",
        "_ →", "x", "}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = dumped(name, "types", capsys).splitlines()
    assert not any("nothing" in line for line in lines)
    for wanted in TYPES[name]:
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


def test_first_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = dumped("newton", "first-order", capsys)
    assert "procedure root(f: fixed, z: fixed, result: fixed, hp: address)" in text


def test_vlad(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.vlad").write_text("(define (square x) (* x x))\n(square 3)\n((derivative square) 4)\n")
    for stage, found in (
        ("core", "expression =\n  square(3.0)"),
        ("types", "square(x: fixed) → fixed"),
        ("first-order", "procedure"),
    ):
        assert main(["compile", "f.vlad", "--dump", stage]) == 0
        assert found in capsys.readouterr().out


def test_other_functions_have_no_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "f.py:plain", "--dump", "core"]) == 2
    assert "RG0512" in capsys.readouterr().err


def test_long_expressions_are_broken_and_names_are_distinct() -> None:
    at = core.Place(Span("f", 1, 1, 2), "")
    names = [core.Binding("x", at) for _ in range(2)]
    e: core.Core = core.Ref(names[1], at)
    for n in range(60):
        e = core.Operation("+", (e, core.Number(n, at)), at)
    inner = core.Lambda("g", (names[1],), e, at)
    text = definition_text(core.Lambda("f", (names[0],), inner, at))
    assert text.startswith("f = λ x.\n  λ x.2.\n")
    assert max(map(len, text.splitlines())) <= 220
    assert text.count("x.2") == 2
