"""Conditions with computed operands: their meaning forward and backward, and how many instructions they take."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from retrograd.compiler.ir.expressions import apply, choose, const, negated, read, sub
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.values import has_cheap_operands, joined_by_and

import retrograd as rg
from retrograd import Array, ProgramTrap, fixed, reversible

W = rg.Format(64, 32)
P, Q, R = (read(Var(name, Kind.BOOL)) for name in "pqr")
NO, YES = const(0, Kind.BOOL), const(1, Kind.BOOL)


def both(x, y):
    return apply("and", Kind.BOOL, x, y)


def either(x, y):
    return apply("or", Kind.BOOL, x, y)


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        (P, (P,)),
        (both(P, both(Q, R)), (P, Q, R)),
        (choose(P, choose(Q, R, NO), NO), (P, Q, R)),
        (choose(P, NO, Q), (negated(P), Q)),
        (negated(either(P, Q)), (negated(P), negated(Q))),
        (negated(choose(P, YES, both(Q, R))), (negated(P), negated(both(Q, R)))),
        (choose(P, YES, Q), (choose(P, YES, Q),)),
        (choose(P, Q, R), (choose(P, Q, R),)),
        (negated(both(P, Q)), (negated(both(P, Q)),)),
        (either(P, Q), (either(P, Q),)),
    ],
)
def test_parts_of_a_conjunction_have_its_truth(condition, parts) -> None:
    assert joined_by_and(condition) == parts
    for truth in itertools.product((0, 1), repeat=3):
        values = dict(zip((P, Q, R), truth, strict=True))
        assert evaluated(condition, values) == all(evaluated(part, values) for part in parts)


def evaluated(e, values) -> bool:
    match e.op:
        case "read":
            return bool(values[e])
        case "const":
            return bool(e.param)
        case "not":
            return not evaluated(e.args[0], values)
        case "choose":
            return evaluated(e.args[1] if evaluated(e.args[0], values) else e.args[2], values)
    x, y = (evaluated(a, values) for a in e.args)
    return (x and y) if e.param == "and" else (x or y)


def test_operands_are_cheap_without_products_and_joined_conditions() -> None:
    x, y = (read(Var(name, Kind.INT)) for name in "xy")
    cheap = [
        P,
        negated(P),
        apply("slt", Kind.BOOL, x, sub(y, const(1, Kind.INT), W)),
        apply("seq", Kind.BOOL, apply("abs", Kind.INT, x), y),
    ]
    dear = [
        both(P, Q),
        negated(either(P, Q)),
        choose(P, Q, NO),
        apply("slt", Kind.BOOL, apply("mul", Kind.INT, x, x), y),
    ]
    assert [has_cheap_operands(e) for e in (*cheap, *dear)] == [True] * 4 + [False] * 4


# ---------------------------------------------------------------- branches with a condition before and a condition after


@reversible
def moved(n: int, m: int, a: Array[int, 4]) -> None:
    """The element that is larger decides, and goes on doing so."""
    if (a[n] > a[m], a[n + 1] * 2 > a[m]):
        a[n + 1] += a[n]
    else:
        m += 0


@reversible
def by_size(x: int, y: int) -> None:
    if (abs(x) > 3, abs(y) > 6):
        y += 10
    else:
        y += 1


@reversible
def by_square(x: int, y: int) -> None:
    if (x * x > 9, y * y > 40):
        y += 10
    else:
        y += 1


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("function", [by_size, by_square])
def test_a_branch_on_computed_operands(level: int, function) -> None:
    f = function.with_options(level=level)
    for x, y in itertools.product((0, 3, 4, -5), (-3, 0, 2)):
        after = y + (10 if x * x > 9 else 1)
        if (after * after > 40) == (x * x > 9):
            assert tuple(f(x, y)) == (x, after)
            assert tuple((~f)(x, after)) == (x, y)
        else:
            with pytest.raises(ProgramTrap, match="RG0803"):
                f(x, y)


def test_a_branch_on_cheap_operands_sets_no_bit() -> None:
    """Of a run: two sizes for each condition, and no word is set or tested besides; with products, a bit is set and cleared."""
    bits = ("slt", "slti", "assertz")
    for f, function, tested in ((by_size, "abs", 0), (by_square, "mul", 4)):
        counts = rg.run(f, 4, 0).machine.counts()
        assert [counts[f"{function}.{update}"] for update in ("add", "sub")] == [2, 2]
        assert sum(n for name, n in counts.items() if name.partition(".")[0] in bits) == tested


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_branch_on_elements_that_its_body_changes(level: int, n: int) -> None:
    f = moved.with_options(level=level)
    before = (n, 3, [5, 1, 7, 4])
    if before[2][n] > 4:
        changed = list(before[2])
        changed[n + 1] += changed[n]
        m = changed[3]
        if (changed[n + 1] * 2 > m) and n + 1 != 3:
            found = f(*before)
            assert found.a.tolist() == changed
            assert [x.tolist() if hasattr(x, "tolist") else x for x in (~f)(*found)] == list(before)


# ---------------------------------------------------------------- conjunctions without else


@reversible
def matches(count: int, i: int, key: int, used: Array[bool, 5], keys: Array[int, 5]) -> None:
    if i < 5 and used[i] and keys[i] == key:
        count += 1


@reversible
def unlike(count: int, i: int, key: int, used: Array[bool, 5], keys: Array[int, 5]) -> None:
    if not (i >= 5 or not used[i] or keys[i] != key):
        count += 1


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("function", [matches, unlike])
def test_a_conjunction_branches_at_each_part(level: int, function) -> None:
    """A part is evaluated only where those before it hold: the index 9 is never used."""
    used, keys = [True, False, True, True, False], [4, 4, 1, 4, 0]
    f = function.with_options(level=level)
    for i in (0, 1, 2, 3, 4, 5, 9):
        expected = 3 + (i < 5 and used[i] and keys[i] == 4)
        assert f(3, i, 4, used, keys).count == expected
        assert (~f)(expected, i, 4, used, keys).count == 3
    with pytest.raises(ProgramTrap, match="RG0801"):
        f(0, -1, 4, used, keys)


def test_a_conjunction_that_fails_early_takes_two_branches_only() -> None:
    runs = [rg.run(matches, 0, i, 4, [True] * 5, [4] * 5).steps for i in (9, 2)]
    # Where the index is too large there are the two ends of one branch; else, three pairs, two loads and the sum.
    assert runs[1] - runs[0] == 2 * 2 + 2 * 4 + 1


@reversible
def clipped(loss: fixed, x: fixed, y: fixed) -> None:
    """Gradients pass through branches: where x < y² and x·y > 1, the loss is x·y²."""
    if x < y * y and x * y > 1:
        loss += x * y * y


def test_gradients_of_a_conjunction() -> None:
    for x, y in ((1.0, 2.0), (5.0, 2.0), (0.25, 1.5)):
        inside = x < y * y and x * y > 1
        assert rg.grad(clipped, ("x", "y"))(0.0, x, y) == ((y * y, 2 * x * y) if inside else (0.0, 0.0))


# ---------------------------------------------------------------- loops


@reversible
def climbed(total: fixed, x: fixed, k: int, c: Array[fixed, 8]) -> None:
    """Go on while x is larger than an element, whose index counts the passes."""
    while (x > c[k], k * k > 0):
        k += 1
        total += c[k]


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("x", [-2.0, 0.5, 2.5, 9.0])
def test_a_loop_keeps_the_operands_of_its_conditions(level: int, x: float) -> None:
    f = climbed.with_options(level=level)
    c = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0]
    k, total = 0, 0.25
    while x > c[k]:
        k += 1
        total += c[k]
    found = f(0.25, x, 0, c)
    assert (found.total, found.x, found.k) == (total, x, k)
    assert (~f)(*found)[:3] == (0.25, x, 0)


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_engines_agree_on_loops_and_branches(engine: str) -> None:
    """Batches in lanes, too: rows leave the loop after different passes."""
    c = np.arange(1.0, 9.0)
    xs = np.linspace(-1.0, 7.9, 40)
    expected = [climbed(0.0, x, 0, c) for x in xs]
    found = rg.run_batch(climbed, np.zeros(40), xs, np.zeros(40, int), c, in_axes=(0, 0, 0, None), engine=engine).values
    assert found.k.tolist() == [e.k for e in expected]
    assert found.total.tolist() == [e.total for e in expected]


def test_gradient_and_tangent_through_a_loop() -> None:
    c = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0]
    by_c = rg.grad(climbed, "c", "total")(0.0, 3.5, 0, c)
    assert np.asarray(by_c).tolist() == [0, 1, 1, 1, 0, 0, 0, 0]
    _, tangents = rg.jvp(climbed, (0.0, 3.5, 0, c), {"x": 1.0, "c": [1.0] * 8})
    assert (tangents.total, tangents.x) == (3.0, 1.0)
