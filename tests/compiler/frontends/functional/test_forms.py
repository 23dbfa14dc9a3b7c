"""Lists and data classes as arguments and results of functional functions: there and back, derivatives, batches, refusals."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.functional.marshalling import Encoding
from retrograd.compiler.frontends.functional.types import type_of

import retrograd as rg
from retrograd import fixed
from retrograd.cli.main import main
from retrograd.testing import check_gradient, check_inverse


@rg.data
class Leaf:
    value: fixed


@rg.data
class Node:
    left: "Leaf | Node"
    count: int
    right: "Leaf | Node"


Tree = Leaf | Node


@rg.functional
def squares(xs: list[fixed], c: fixed) -> list[fixed]:
    def mapped(items):
        match items:
            case []:
                return []
            case [a, *rest]:
                return [a * a * c, *mapped(rest)]

    return mapped(xs)


@rg.functional
def total(t: Tree, c: fixed):
    match t:
        case Leaf(v):
            return v * v * c
        case Node(a, n, b):
            return total(a, c) + fixed(n) * total(b, c)


@rg.functional
def mirrored(t: Tree, s: fixed) -> tuple[fixed, Tree, list[tuple[int, bool, fixed]]]:
    def turned(t):
        match t:
            case Leaf(v):
                return Leaf(v * s)
            case Node(a, n, b):
                return Node(turned(b), n + 1, turned(a))

    return 2 * s, turned(t), [(1, s > 0, s), (2, s < 0, s * s)]


@rg.functional
def product(p: tuple[fixed, int], rows: list[list[fixed]]):
    def sums(row):
        match row:
            case []:
                return 0.0
            case [a, *rest]:
                return a + sums(rest)

    def products(rows):
        match rows:
            case []:
                return 1.0
            case [row, *rest]:
                return sums(row) * products(rest)

    x, n = p
    return x * fixed(n) * products(rows)


TREE = Node(Leaf(1.0), 2, Node(Leaf(2.0), 3, Leaf(-0.5)))


@pytest.mark.long
def test_lists() -> None:
    assert squares([1.0, 2.0, 3.0], 0.5) == [0.5, 2.0, 4.5]
    assert squares([], 0.5) == []
    assert squares(np.array([1.0, 3]), 1) == [1.0, 9.0]
    assert product((2.0, 3), [[1.0, 2.0], [], [4.0]]) == 0.0
    assert product((2.0, 3), [[1.0, 2.0], [4.0]]) == 72.0


def test_data_classes() -> None:
    assert total(TREE, 1.0) == 1 + 2 * (4 + 3 * 0.25)
    back = Node(Node(Leaf(-1.0), 4, Leaf(4.0)), 3, Leaf(2.0))
    assert mirrored(TREE, 2.0) == (4.0, back, [(1, True, 2.0), (2, False, 4.0)])


@rg.data
class Nothing:
    pass


@rg.data
class Rectangle:
    sides: tuple[fixed, fixed]


@rg.data
class Coins:
    worth: fixed
    count: tuple[int, bool, int]


@rg.functional
def worth(thing: Nothing | Rectangle | Coins, price: fixed) -> fixed:
    match thing:
        case Rectangle((a, b)):
            return a * b * price
        case Coins(value, (n, doubled, bonus)):
            return float(2 * n + bonus if doubled else n) * value + price
        case Nothing():
            return -price


@pytest.mark.parametrize(
    ("thing", "value", "by_thing", "by_price"),
    [
        (Nothing(), -0.5, Nothing(), -1.0),
        (Rectangle((2.0, 3.0)), 3.0, Rectangle((1.5, 1.0)), 6.0),
        (Coins(0.25, (4, True, 1)), 2.75, Coins(9.0, (0, False, 0)), 1.0),
        (Coins(0.25, (4, False, 1)), 1.5, Coins(4.0, (0, False, 0)), 1.0),
    ],
)
def test_classes_of_other_sizes(thing: Any, value: float, by_thing: Any, by_price: float) -> None:
    """An argument has the words of its own class, and the other classes of its union may have more."""
    assert worth(thing, 0.5) == value
    assert tuple(rg.grad(worth)(thing, 0.5)) == (by_thing, by_price)
    assert rg.run(~worth, thing, 0.5, value).values.out == 0.0


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("f", "args"), [(squares, ([1.0, -2.0], 0.5)), (mirrored, (TREE, 2.0)), (squares, ([], 1.0))])
def test_results_are_taken_back(f: Any, args: tuple[Any, ...], level: int) -> None:
    """No bit is erased, nothing but the result is left, the inverse leaves no result, and engines agree."""
    f = f.with_options(level=level)
    there = rg.run(f, *args, engine="reference")
    assert there.erased_bits == 0
    assert not any(there.machine.memory[there.compiled.argument_words :])
    translated = rg.run(f, *args, engine="translated")
    assert (translated.words, translated.steps) == (there.words, there.steps)
    back = (~f)(*there.values)
    assert tuple(back)[: len(args)] == args
    assert all(getattr(back, p.name) in (0, None) for p in f.result_parameters)
    check_inverse(f, *args)


@pytest.mark.long
def test_gradients_have_the_form_of_the_argument() -> None:
    assert rg.grad(total)(TREE, 2.0) == (
        Node(Leaf(4.0), 0, Node(Leaf(16.0), 0, Leaf(-12.0))),
        1 + 2 * (4 + 3 * 0.25),
    )
    assert rg.grad(product)((2.0, 3), [[1.0, 2.0], [4.0]]) == ((36.0, 0), [[24.0, 24.0], [18.0]])
    assert rg.grad(rg.grad(total, "c"), "t")(TREE, 2.0) == Node(Leaf(2.0), 0, Node(Leaf(8.0), 0, Leaf(-6.0)))
    assert rg.value_and_grad(total, "c")(Leaf(3.0), 2.0) == (18.0, 9.0)
    check_gradient(total, TREE, 2.0)


def test_cotangents_and_tangents_have_the_form_of_the_value() -> None:
    values, pullback = rg.vjp(squares, [1.0, 2.0, 3.0], 0.5)
    assert values.out == [0.5, 2.0, 4.5]
    found = pullback({"out": [1.0, 0.0, 10.0]})
    assert (found.xs, found.c, found.out) == ([1.0, 0.0, 30.0], 91.0, [1.0, 0.0, 10.0])
    _, pullback = rg.vjp(mirrored, TREE, 2.0)
    cotangent = Node(Node(Leaf(1.0), 0, Leaf(2.0)), 0, Leaf(3.0))
    found = pullback({"out_0": 1.0, "out_1": cotangent, "out_2": [(0, False, 1.0), (0, False, 1.0)]})
    assert found.t == Node(Leaf(6.0), 0, Node(Leaf(4.0), 0, Leaf(2.0)))
    assert found.s == 2 + (1 * -0.5 + 2 * 2 + 3 * 1) + 1 + 2 * 2.0
    _, tangents = rg.jvp(total, (TREE, 2.0), {"t": Node(Leaf(1.0), 0, Node(Leaf(0.0), 0, Leaf(1.0)))})
    assert tangents.out == 4.0 - 12.0


def test_a_number_of_a_result_is_a_loss() -> None:
    assert rg.grad(squares, "xs", loss="out.numbers[1]")([1.0, 2.0, 3.0], 2.0) == [0.0, 8.0, 0.0]
    assert rg.grad(mirrored, "s", loss="out_1.numbers[2]")(TREE, 2.0) == 1.0


def test_jacobians_are_of_the_result() -> None:
    assert rg.jacobian(total, "c")(TREE, 2.0) == 10.5


def test_batches() -> None:
    """Elements of one form are a batch; lists and data classes may be shared, too."""
    trees = [TREE, Node(Leaf(0.0), 1, Node(Leaf(1.0), 1, Leaf(1.0)))]
    assert list(rg.vmap(total, in_axes=(0, None))(trees, 2.0).out) == [total(t, 2.0) for t in trees]
    by_tree = rg.vmap(rg.grad(total, "t"), in_axes=(0, None))(trees, 2.0)
    assert by_tree == [rg.grad(total, "t")(t, 2.0) for t in trees]
    assert list(rg.vmap(total, in_axes=(None, 0))(TREE, [1.0, 2.0]).out) == [total(TREE, c) for c in (1.0, 2.0)]


def random_tree(draw: random.Random, depth: int) -> Any:
    if depth == 0 or draw.random() < 0.3:
        return Leaf(draw.randint(-64, 64) / 16)
    return Node(random_tree(draw, depth - 1), draw.randint(-9, 9), random_tree(draw, depth - 1))


def test_encoding_is_a_bijection() -> None:
    """decoded(encoded(x)) = x, the form is that of the integers, and words behind the value or missing words are refused."""
    draw = random.Random(5)
    encoding = Encoding(type_of(list[tuple[Tree, list[bool]]]))
    for _ in range(50):
        value = [
            (random_tree(draw, 4), [draw.random() < 0.5 for _ in range(draw.randint(0, 3))])
            for _ in range(draw.randint(0, 3))
        ]
        numbers, integers, form, uints = encoding.encoded(value, "x")
        assert uints == ()
        assert encoding.decoded(numbers, integers) == value
        assert encoding.form_of(integers) == form
        for changed in ([*integers, 1], integers[:-1], [0, *integers[1:]]):
            with pytest.raises(ValueError, match="no value"):
                encoding.decoded(numbers, changed)


@pytest.mark.long
def test_long_and_deep_arguments() -> None:
    xs = [0.01] * 5000
    assert squares.with_options(heap=1 << 18, stack=1 << 18)(xs, 1.0) == [squares([0.01], 1.0)[0]] * 5000
    deep: Any = Leaf(1.0)
    for _ in range(3000):
        deep = Node(deep, 0, Leaf(1.0))
    assert total.with_options(heap=1 << 18, stack=1 << 18)(deep, 1.0) == 1.0


def refused(run: Any) -> str:
    with pytest.raises(rg.RetrogradError) as caught:
        run()
    assert caught.value.code == "RG0603"
    return caught.value.diagnostics[0].message


def test_refusals_name_the_place() -> None:
    holding = Node(Leaf(1.0), 1, Leaf(1.0))
    holding.right = holding
    assert refused(lambda: squares([1.0, "a"], 1.0)).endswith("`xs[1]` is 'a', not a fixed")
    assert refused(lambda: squares(None, 1.0)).endswith("`xs` is None, not a list[fixed]")
    assert refused(lambda: total(Node(Leaf(1.0), 1.5, Leaf(1.0)), 1.0)).endswith("`t.count` is 1.5, not an int")
    assert refused(lambda: total(holding, 1.0)).endswith("`t.right` holds itself")
    assert refused(lambda: product((1.0,), [])).endswith("`p` is a tuple of 1, not a tuple[fixed, int]")
    assert "another form" in refused(lambda: rg.vjp(squares, [1.0, 2.0], 1.0)[1]({"out": [1.0]}))
    assert "another form in element 1" in refused(lambda: rg.vmap(squares_sum)([[1.0], [1.0, 2.0]]))
    assert "gives a list[fixed]" in refused(lambda: rg.vmap(squares, in_axes=(None, 0))([1.0], [1.0, 2.0]))
    assert "no rows or columns" in refused(lambda: rg.jacobian(total, "t")(TREE, 1.0))
    assert "no list[fixed]" in refused(lambda: (~squares)([1.0], 2.0, [5.0]))
    assert "without fixed numbers" in refused(lambda: rg.grad(lengths, "xs")([1, 2], 1.0))


@rg.functional
def squares_sum(xs: list[fixed]):
    match xs:
        case []:
            return 0.0
        case [a, *rest]:
            return a * a + squares_sum(rest)


@rg.functional
def lengths(xs: list[int], c: fixed):
    match xs:
        case []:
            return c
        case [_, *rest]:
            return c + lengths(rest, c)


def test_a_result_of_another_size_is_a_trap() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        (~squares)([1.0], 2.0, [2.0, 5.0])
    assert caught.value.code == "RG0813"


@rg.reversible
def calls_with_an_array(y: fixed, xs: rg.Array[fixed, "n"]):
    y += squares_sum(xs)


def test_calls_of_reversible_functions_are_refused() -> None:
    with pytest.raises(rg.CompileError, match="only calls from Python pass"):
        calls_with_an_array(0.0, [1.0, 2.0])


SOURCE = """\
import retrograd as rg

@rg.data
class Leaf:
    value: rg.fixed

@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"

@rg.functional
def total(xs: list[rg.fixed], p: tuple[rg.fixed, rg.fixed]):
    match xs:
        case []:
            return p[0] * p[1]
        case [a, *rest]:
            return a * a + total(rest, p)

@rg.functional
def grown(x: rg.fixed, n: int) -> Leaf | Node:
    def go(v, k):
        return Leaf(v) if k == 0 else Node(go(2 * v, k - 1), go(v + 1, k - 1))
    return go(x, n)
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists and tuples are arguments, data classes are shown, in JSON as objects; batches are arrays of their numbers and integers."""
    (tmp_path / "forms.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert main(["grad", "forms.py:total", "[1.0, 2.0]", "(3.0, 4.0)"]) == 0
    out = capsys.readouterr().out
    assert "∂out/∂xs = [2.0, 4.0]" in out
    assert "∂out/∂p  = (4.0, 3.0)" in out
    assert main(["run", "forms.py:grown", "0.5", "1"]) == 0
    assert "out = Node(Leaf(1.0), Leaf(1.5))" in capsys.readouterr().out
    assert main(["run", "--json", "forms.py:grown", "0.5", "1"]) == 0
    leaves = [{"class": "Leaf", "value": v} for v in (1.0, 1.5)]
    assert json.loads(capsys.readouterr().out)["values"]["out"] == {
        "class": "Node",
        "left": leaves[0],
        "right": leaves[1],
    }
    np.savez(tmp_path / "given.npz", xs=np.array([[1.0, 2.0], [3.0, 4.0]]), p=np.array([[3.0, 4.0], [1.0, 2.0]]))
    assert main(["run", "forms.py:total", "--batch", "given.npz", "-o", "found.npz"]) == 0
    with np.load(tmp_path / "found.npz") as found:
        assert found["out"].tolist() == [17.0, 27.0]
        assert found["xs.numbers"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert found["xs.integers"].tolist() == [[3], [3]]
