"""A variable number of arguments, `*xs`, and tuples of variables and of functions, against the same programs in Python."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.testing import check_gradient, check_inverse, check_laws

LEVELS = pytest.mark.parametrize("level", [0, 1])
NUMBERS = st.lists(st.integers(-32, 32).map(lambda n: n / 4), max_size=6)


@reversible
def weighted(out: fixed, *xs):
    for i, x in enumerate(xs):
        out += x * (i + 1)
    if len(xs) > 1:
        out += xs[0] * xs[-1]


@reversible
def shift(by: fixed, *xs: fixed):
    for x in xs[1:]:
        x += by
    for x, y in zip(xs, reversed(xs), strict=True):
        by += x * y


@reversible
def horner(out: fixed, x: fixed, *cs: fixed, scale: fixed = 1.0):
    """out += scale · Σ c xᵏ, by a call for each coefficient"""
    if len(cs) > 0:
        with rg.routine() as r:
            rest = fixed(0)
            horner(rest, x, *cs[1:])
        out += scale * (cs[0] + x * rest)
        ~r


@reversible
def passed_on(out: fixed, a: fixed, v: Array[fixed, 3], *rest):
    weighted(out, a, *v, *rest[1:])
    weighted(out, *rest)
    out += 2 * weighted(a, *(v[0], a))


@reversible
def tuples(y: fixed, a: fixed, b: fixed):
    pair = (a, b)
    for p in pair:
        p += 1
    rg.swap(pair[0], pair[1])
    q = (a * 2, b, 3.0)
    c, d = pair
    y += q[0] + c * d + q[-1]
    y += max(pair)


@reversible
def inner(y: fixed, a: fixed, b: fixed):
    product = lambda *v: v[0] * v[1] + len(v)  # noqa: E731
    y += product(a, b)

    def add(out: fixed, *v: fixed):
        for x in v:
            out += x * b

    add(y, a, 2.0)
    add(y)
    for f in (add, ~add, weighted):
        f(y, a, b)


@reversible
def apply_all(y: fixed, x: fixed, *fs):
    for f in fs:
        f(y, x)
    (~fs[0])(y, x)


@reversible
def applied(y: fixed, x: fixed, fs):
    for f in fs:
        f(y, x)


@reversible
def chosen(y: fixed, x: fixed, i: int, fs):
    fs[i](y, x)
    y += fs[i](x)


@reversible
def with_closures(y: fixed, k: fixed, x: fixed, i: int):
    def add(out: fixed, u: fixed):
        out += u * k

    def square(out: fixed, u: fixed):
        out += u * u

    applied(y, x, [add, square, ~add, add])
    chosen(y, x, i, (square, add))
    apply_all(y, x, add, square)


def ref_weighted(out, *xs):
    return out + sum(x * (i + 1) for i, x in enumerate(xs)) + (xs[0] * xs[-1] if len(xs) > 1 else 0)


@given(NUMBERS)
def test_any_number_of_values(xs):
    assert weighted(0.5, *xs).out == ref_weighted(0.5, *xs)
    assert (~weighted)(*weighted(0.5, *xs)) == (0.5, tuple(xs))
    after = shift(0.25, *xs)
    moved = tuple(xs[:1]) + tuple(x + 0.25 for x in xs[1:])
    assert after.xs == moved
    assert after.by == 0.25 + sum(x * y for x, y in zip(moved, moved[::-1], strict=True))
    assert (~shift)(*after) == (0.25, tuple(xs))
    assert horner(0.0, 0.5, *xs, scale=2.0).out == 2 * sum(c * 0.5**k for k, c in enumerate(xs))


@LEVELS
@pytest.mark.parametrize(
    ("f", "args", "name", "expected"),
    [
        (passed_on, (0.0, 1.0, [1.0, 2.0, 3.0], 2.0, 3.0), "out", 67.0),
        (passed_on, (0.0, 1.0, [1.0, 2.0, 3.0], 2.0), "out", 40.0),
        (tuples, (0.0, 1.0, 2.0), "y", 6.0 + 6.0 + 3.0 + 3.0),
        (inner, (0.0, 3.0, 2.0), "y", 8.0 + 10.0 + 13.0),
        (apply_all, (0.0, 3.0, weighted, ~weighted, weighted), "y", 0.0),
        (with_closures, (0.0, 2.0, 3.0, 0), "y", 15.0 + 18.0 + 9.0),
        (with_closures, (0.0, 2.0, 3.0, 1), "y", 15.0 + 12.0 + 9.0),
    ],
)
def test_values_inverses_and_engines(f, args, name, expected, level):
    own = f.with_options(level=level)
    for engine in ("reference", "threaded", "translated", "native"):
        done = rg.run(own, *args, engine=engine)
        assert (getattr(done.values, name), done.erased_bits) == (expected, 0)
    check_inverse(own, *args)
    if f is not apply_all:
        check_gradient(own, *args)


def test_a_list_of_functions_is_an_argument():
    assert applied(0.0, 3.0, [weighted, ~weighted, weighted]).y == 3.0
    assert chosen(0.0, 3.0, 1, (weighted, ~weighted, weighted)[::2]).y == 6.0


def test_gradients_by_position_and_by_name():
    args = 0.0, 1.0, 2.0, 3.0
    assert rg.grad(weighted)(*args).xs == (4.0, 2.0, 4.0)
    assert rg.grad(weighted, "xs")(*args) == (4.0, 2.0, 4.0)
    assert rg.grad(weighted, 2)(*args) == rg.grad(weighted, "xs[1]")(*args) == 2.0
    assert rg.grad(weighted, (1, "xs[-1]"))(*args) == (4.0, 4.0)
    assert rg.value_and_grad(shift, 0, loss="xs[1]")(0.5, 1.0, 2.0) == (2.5, 1.0)
    assert rg.jacobian(shift, 0, outputs=("xs[1]", "by"))(0.5, 1.0, 2.0) == (1.0, 3.0)
    assert rg.hessian(weighted, (1, 3))(*args) == ((0.0, 1.0), (1.0, 0.0))
    assert rg.jvp(weighted, args, {"xs": (1.0, 0.0, 0.0)})[1].out == 4.0
    assert rg.vjp(weighted, *args)[1]((1.0, None)).xs == (4.0, 2.0, 4.0)
    with pytest.raises(rg.NotDifferentiable, match="chosen twice"):
        rg.grad(weighted, (1, "xs[0]"))


def test_the_gradient_within_a_program():
    slope = rg.reversible_gradient(weighted, "xs")

    @reversible
    def f(out: fixed, a: fixed, b: fixed, da: fixed, db: fixed):
        slope(out, a, b, d_xs=(da, db))

    assert f(0.0, 1.0, 2.0, 0.0, 0.0)[3:] == (3.0, 3.0)
    check_inverse(f, 0.0, 1.0, 2.0, 0.5, 0.0)
    assert slope(0.0, 1.0, 2.0, d_xs=(0.0, 0.5)).d_xs == (3.0, 3.5)
    assert str(inspect.signature(slope)).count("*") == 1


def test_batches():
    column = np.arange(3.0)
    for axes in ((None, 0, None), {"out": None, "xs": (0, None)}):
        batch = rg.run_batch(weighted, 0.0, column, 2.0, in_axes=axes).values
        assert batch.out.tolist() == [weighted(0.0, x, 2.0).out for x in column]
        assert [v.tolist() for v in batch.xs] == [[0.0, 1.0, 2.0], [2.0, 2.0, 2.0]]
    both = rg.run_batch(weighted, 0.0, column, column + 1, in_axes=(None, 0, 0)).values
    assert both.out.tolist() == [weighted(0.0, x, x + 1).out for x in column]
    back = rg.run_batch(~weighted, *both).values
    assert back.out.tolist() == [0.0, 0.0, 0.0]
    slopes = rg.vmap(rg.grad(weighted), in_axes=(None, 0, None))(0.0, column, 2.0).xs
    assert [s.tolist() for s in slopes] == [[3.0, 3.0, 3.0], [2.0, 3.0, 4.0]]
    some = rg.vmap(rg.grad(weighted, ("xs[0]", "xs[1]")), in_axes=(None, 0, None), shared="sum")(0.0, column, 2.0)
    assert (some[0].tolist(), some[1]) == ([3.0, 3.0, 3.0], 9.0)
    rows = rg.vmap(rg.jacobian(shift, 0, outputs="xs[1]"), in_axes=(0, None, None))(column, 1.0, 2.0)
    assert rows.tolist() == [1.0, 1.0, 1.0]


def test_lognums_have_cotangents_of_their_own():
    @reversible
    def total(y: fixed, *zs: lognum):
        for z in zs:
            y += fixed(z)

    found = rg.vmap(rg.grad(total), in_axes=(None, 0, None))(0.0, np.array([1.0, 2.0]), 3.0).zs
    assert np.allclose(found, 1.0)
    assert np.allclose(rg.vmap(rg.grad(total, "zs[0]"), in_axes=(None, 0, None))(0.0, np.array([1.0, 2.0]), 3.0), 1.0)


def test_elements_of_arrays():
    @reversible
    def total(out: fixed, *xs: fixed):
        for x in xs:
            out += x

    @reversible
    def f(ys: Array[fixed, 3], a: Array[fixed, 3], b: Array[fixed, 3]):
        total.each(ys, a, b)
        ys += total(a, 1.0, b)

    assert f([0.0] * 3, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).ys.tolist() == [11.0, 15.0, 19.0]


def test_the_hint_for_the_value_of_a_lambda_works():
    """RG0703 recommends a `def` with a parameter for the result, called on a line of its own."""

    @reversible
    def f(y: fixed, xs: Array[fixed, 3], k: fixed):
        def scaled(out: Array[fixed, 3], x: Array[fixed, 3]):
            out += x * k

        with rg.routine() as r:
            t = rg.zeros(3)
            scaled(t, xs)
        y += rg.sum(t)
        ~r

    assert f(0.0, [1.0, 2.0, 3.0], 2.0).y == 12.0
    check_gradient(f, 0.0, [1.0, 2.0, 3.0], 2.0)


def test_results_are_pickled_and_passed_back():
    after = weighted(0.0, 1.0, 2.0)
    assert pickle.loads(pickle.dumps(after)) == after
    assert (~weighted)(*pickle.loads(pickle.dumps(after))).out == 0.0
    assert weighted(out=0.0, xs=(1.0, 2.0)).out == after.out


@pytest.mark.long
def test_the_work_of_the_compiler_is_not_above_quadratic():
    """The length of the program as a measure of the work: n procedures of up to n parameters."""

    def size(n):
        return len(horner.with_options(level=0).program(0.0, 0.5, *[1.0] * n).code)

    assert size(48) <= 4.2 * size(24)


def test_laws_for_random_numbers_of_arguments():
    @reversible
    def total(out: fixed, *xs: fixed):
        for i, x in enumerate(xs):
            out += x * (i + 1)

    assert check_laws(total, examples=5, loss="out").examples == 5
