"""Derivatives belong to the numbers of an argument: ints and bools of a struct have 0 in their place, in every form of derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible


@rg.struct
class Layer:
    w: fixed
    power: int
    s: lognum
    on: bool
    order: Array[int, 2]
    v: Array[fixed, 2]
    kept: Stack[int, 2]


@reversible
def of_struct(y: fixed, m: Layer, x: fixed):
    if m.on:
        y += m.w**m.power * x + fixed(m.s) * m.v[m.order[0]] * m.v[m.order[1]]


@reversible
def of_numbers(y: fixed, w: fixed, s: lognum, v: Array[fixed, 2], x: fixed):
    """The same of the numbers alone."""
    y += w**3 * x + fixed(s) * v[1] * v[0]


W, S, V, X = 1.5, 4.0, [0.5, 0.25], 2.0
LAYER = Layer(W, 3, S, True, [1, 0], V, [7])
MIXED, ALONE = (0.0, LAYER, X), (0.0, W, S, V, X)


def flat(value: Any) -> list[float]:
    """The numbers of a value in order."""
    if isinstance(value, Layer):
        return [value.w, value.s, *np.asarray(value.v).tolist()]
    if isinstance(value, np.ndarray):
        return [x for one in value.ravel() for x in flat(one)]
    return [x for one in value for x in flat(one)] if isinstance(value, tuple) else [float(value)]


def others(value: Layer) -> list[Any]:
    return [value.power, value.on, np.asarray(value.order).tolist(), list(value.kept)]


ZERO = [0, 0, [0, 0], []]
FORMS: dict[str, Any] = {
    "grad": lambda f, args, by: rg.grad(f)(*args),
    "value_and_grad": lambda f, args, by: rg.value_and_grad(f)(*args)[1],
    "gradient_report": lambda f, args, by: rg.gradient_report(f)(*args).gradients,
    "by name": lambda f, args, by: rg.grad(f, by)(*args),
    "vjp": lambda f, args, by: rg.vjp(f, *args)[1]({"y": 1.0})[1:],
    "vmap": lambda f, args, by: rg.vmap(rg.grad(f), (None,) * (len(args) - 1) + (0,), shared="sum")(*args[:-1], [X])[:-1],
    "auto": lambda f, args, by: rg.grad(f, scale="auto")(*args),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_by_a_struct_are_those_by_its_numbers(form: str) -> None:
    found = FORMS[form](of_struct, MIXED, ("m", "x"))
    assert flat(tuple(found)) == flat(tuple(FORMS[form](of_numbers, ALONE, ("w", "s", "v", "x"))))
    assert others(found[0]) == ZERO
    assert type(found[0]) is Layer


def test_tangents_are_given_in_the_form_of_the_argument_or_by_field() -> None:
    alone = rg.jvp(of_numbers, ALONE, {"w": 1.0, "v": [2.0, 0.0]})[1].y
    for tangent in ({"w": 1.0, "v": [2.0, 0.0]}, Layer(1.0, 0, 0.0, False, [0, 0], [2.0, 0.0], [])):
        found = rg.jvp(of_struct, MIXED, {"m": tangent})[1]
        assert (found.y, others(found.m)) == (alone, ZERO)
        second = rg.hvp(of_struct)(MIXED, {"m": tangent})
        assert flat(second.m) == flat(tuple(rg.hvp(of_numbers)(ALONE, {"w": 1.0, "v": [2.0, 0.0]})))[:4]


def test_rows_and_columns_of_ints_are_zero() -> None:
    row = rg.jacobian(of_struct)(*MIXED).m
    assert row[[0, 2, 6, 7]].tolist() == flat(rg.grad(of_struct, "m")(*MIXED))
    assert not row[[1, 3, 4, 5, 8, 9, 10]].any()
    own = rg.jacobian(of_struct, "m", "m")(*MIXED)
    numbers = np.zeros(11)
    numbers[[0, 2, 6, 7]] = 1
    assert own.tolist() == np.diag(numbers).tolist()
    sparse = rg.jacobian(of_struct, "m", "m", pattern=np.eye(11, dtype=bool))(*MIXED)
    assert sparse.toarray().tolist() == own.tolist()


@dataclass
class Both:
    w: float
    n: int


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"w": 3.0, "n": 2}, {"w": 2.0, "n": 0}),
        ({"n": np.array([1, 2]), "w": 3.0, "b": {"k": True}}, {"n": [0, 0], "w": 2.0, "b": {"k": 0}}),
        ({"w": 3.0, "l": [{"a": 1}, {"a": 1.0}]}, {"w": 2.0, "l": [{"a": 0}, {"a": 0.0}]}),
    ],
)
def test_a_tree_comes_back_whole(given: Any, expected: Any) -> None:
    @reversible
    def f(y: fixed, p, x: fixed):
        y += p["w"] * x

    found = rg.grad(f)(0.0, given, 2.0)
    assert (str(found.p).replace("array([0, 0])", "[0, 0]"), found.x) == (str(expected), 3.0)


def test_data_classes_and_further_arguments() -> None:
    @reversible
    def f(y: fixed, p, *more):
        y += p.w * more[0] * more[1]

    found = rg.grad(f)(0.0, Both(3.0, 2), 5, 2.0)
    assert found == (Both(10.0, 0), (0, 15.0))


@pytest.mark.parametrize("value", [1, True, 2.5, [1]])
def test_a_tangent_of_an_int_is_refused(value: Any) -> None:
    for ask in (
        lambda: rg.vjp(of_struct, *MIXED)[1]({"m": {"power": value}}),
        lambda: rg.jvp(of_struct, MIXED, {"m": {"power": value}}),
        lambda: rg.hvp(of_struct)(MIXED, {"m": {"power": value}}),
    ):
        with pytest.raises(rg.NotDifferentiable, match=r"`m\.power` is int, which has no derivative") as caught:
            ask()
        assert caught.value.diagnostics[0].code == "RG0603"


@reversible
def of_an_int(y: fixed, n: int):
    y += n


@reversible
def of_ints(y: int, p):
    y += p["n"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: rg.grad(of_an_int)(0.0, 3),
        lambda: rg.value_and_grad(of_an_int)(0.0, 3),
        lambda: rg.gradient_report(of_an_int)(0.0, 3),
        lambda: rg.jacobian(of_an_int)(0.0, 3),
        lambda: rg.jacobian(of_an_int, pattern=np.zeros((1, 0)))(0.0, 3),
        lambda: rg.hessian(of_an_int)(0.0, 3),
        lambda: rg.hvp(of_an_int)((0.0, 3), {}),
        lambda: rg.vmap(rg.grad(of_an_int), (None, 0))(0.0, [3, 4]),
        lambda: rg.reversible_gradient(of_an_int),
        lambda: rg.vjp(of_ints, 0, {"n": 1})[1]({}),
        lambda: rg.jvp(of_ints, (0, {"n": 1}), {}),
        lambda: rg.jacobian(of_ints, outputs=None)(0, {"n": 1}),
    ],
)
def test_where_nothing_has_a_derivative_is_refused(ask: Any) -> None:
    with pytest.raises(rg.NotDifferentiable, match="has no argument to differentiate by") as caught:
        ask()
    assert caught.value.diagnostics[0].code == "RG0603"


def test_a_function_of_ints_has_values_beside_a_pullback() -> None:
    assert rg.vjp(of_ints, 1, {"n": 2})[0].y == 3


def test_an_adjoint_of_a_mixed_struct() -> None:
    @reversible
    def f(y: fixed, m: Layer, ms: Array[Layer, "n"]):
        y += m.w * m.power + ms[1].w + fixed(ms[0].s)

    @f.adjoint
    def _(y: fixed, m: Layer, ms: Array[Layer, "n"], d_y: fixed, d_m: Layer, d_ms: Array[Layer, "n"]):
        d_m.w += d_y * (m.power + d_m.power)
        d_m.s += d_y * fixed(m.s)  # of a lognum it is ∂L/∂ln|x|
        d_m.v[1] += d_y * 8
        d_ms[0].s += d_y * fixed(ms[0].s)
        d_ms[1].w += d_y * 5

    m, (first, second) = rg.grad(f)(0.0, LAYER, [LAYER, LAYER])
    assert (flat(m), others(m)) == ([3.0, 1.0, 0.0, 8.0], ZERO)
    assert (flat(first), flat(second)) == ([0.0, 1.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0])


def test_an_adjoint_of_a_struct_without_numbers_is_refused() -> None:
    @rg.struct
    class Ints:
        n: int

    @reversible
    def f(y: fixed, m: Ints):
        y += m.n

    @f.adjoint
    def _(y: fixed, m: Ints, d_y: fixed, d_m: Ints):
        d_y += d_y * m.n

    with pytest.raises(rg.CompileError, match="`d_m` of the adjoint of `f` is a cotangent, and `m` has none"):
        rg.vjp(f, 0.0, Ints(1))[1]({"y": 1.0})
