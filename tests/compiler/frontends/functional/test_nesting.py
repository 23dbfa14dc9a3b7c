"""Nested derivatives that capture variables of outer ones, and functions that no finite program computes.

Sources: J. Siskind, B. Pearlmutter, Perturbation confusion and referential transparency, IFL 2005; O. Manzyuk et al., Perturbation confusion in
forward automatic differentiation of higher-order functions, JFP 2019.
"""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from retrograd import fixed


@rg.functional
def by_transposed(f, x):
    return rg.vjp(f)(x, 1.0)


@rg.functional
def by_tangent(f, x):
    return rg.jvp(f)(x, 1.0)


@rg.functional
def by_gradient(f, x):
    return rg.grad(f)(x)


@rg.functional
def siskind(x: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    """d/dx (x · d/dy (x + y)) with each pair of operators"""
    both = lambda outer, inner: outer(lambda u: u * inner(lambda y: u + y, 1.0), x)
    return (
        both(by_gradient, by_gradient),
        both(by_tangent, by_tangent),
        both(by_gradient, by_tangent),
        both(by_tangent, by_gradient),
    )


@rg.functional
def product(x: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    """d/dx (x · ∂/∂y (x · y)) = d/dx x²"""
    both = lambda outer, inner: outer(lambda u: u * inner(lambda y: u * y, u), x)
    return (
        both(by_gradient, by_gradient),
        both(by_tangent, by_tangent),
        both(by_gradient, by_tangent),
        both(by_tangent, by_gradient),
    )


@rg.functional
def shifted(x: fixed) -> tuple[fixed, fixed]:
    """The derivative of the shift of a function, applied twice: the second derivative, not zero."""
    d = lambda f: lambda z: rg.grad(lambda u: f(z + u))(0.0)
    e = lambda f: lambda z: by_tangent(lambda u: f(z + u), 0.0)
    cube = lambda t: t * t * t
    return d(d(cube))(x), e(e(cube))(x)


@rg.functional
def in_a_list(x: fixed):
    """The outer variable is captured by functions in a list, and stands in the list by which the inner derivative is taken."""

    def total(fs, y):
        match fs:
            case []:
                return 0.0
            case [f, *rest]:
                return f(y) + total(rest, y)

    def dot(items):
        match items:
            case []:
                return 0.0
            case [a, *rest]:
                return a * x + dot(rest)

    fs = [lambda y: x * y, lambda y: x + y]
    inner = rg.grad(lambda y: total(fs, y))(x)
    of_list = rg.grad(lambda items: dot(items) * x)([x, 1.0])
    return inner * x + dot(of_list)


@rg.functional
def in_recursion(x: fixed):
    """The inner derivative is taken at each level of a recursion whose variable is the outer one."""

    def go(k, v):
        return v if k == 0 else go(k - 1, rg.grad(lambda y: y * y * v)(x))

    return go(3, x)


@pytest.mark.parametrize(
    ("f", "args", "value"),
    [
        pytest.param(siskind, (1.0,), (1.0,) * 4, marks=pytest.mark.long),
        pytest.param(product, (3.0,), (6.0,) * 4, marks=pytest.mark.long),
        pytest.param(shifted, (2.0,), (12.0, 12.0), marks=pytest.mark.long),
        # (x + 1) · x, and the inner product of (x², x²) with x
        (in_a_list, (2.0,), 3 * 2 + 2 * 8.0),
        (in_recursion, (1.5,), 8 * 1.5**4),
    ],
)
def test_perturbations_are_not_confused(f: Any, args: tuple[Any, ...], value: Any) -> None:
    assert f(*args) == pytest.approx(value, abs=1e-6)


def test_outer_derivatives() -> None:
    assert rg.grad(in_a_list, "x")(2.0) == pytest.approx(2 * 2 + 1 + 6 * 4, abs=1e-6)
    assert rg.grad(in_recursion, "x")(1.5) == pytest.approx(32 * 1.5**3, abs=1e-6)


@rg.functional
def root(x: fixed):
    return rg.sqrt(x)


@rg.functional
def size(x: fixed):
    return abs(x)


@rg.functional
def norm(x: fixed):
    total = lambda v: v[0] * v[0] + v[1] * v[1]
    return rg.sqrt(total((x, 2.0 * x)))


@rg.functional
def half_power(x: fixed):
    return x**0.5


@rg.functional
def positive(x: fixed):
    return max(0.0, x)


@rg.functional
def signed_square(x: fixed):
    return x * abs(x)


@rg.functional
def squared_norm(x: fixed):
    return norm(x) ** 2


def first_derivatives(f: Any) -> Any:
    @rg.functional
    def found(x: fixed) -> tuple[fixed, fixed, fixed, fixed]:
        by_a_tuple, _ = rg.grad(lambda p: f(p[0]) + p[1])((x, 1.0))
        return rg.grad(f)(x), rg.vjp(f)(x, 1.0), rg.jvp(f)(x, 1.0), by_a_tuple

    return found


@pytest.mark.parametrize(("f", "slope"), [(root, 0), (size, 1), (norm, 0), (half_power, 0), (positive, 1)])
def test_first_derivatives_at_kinks_agree_in_all_modes(f: Any, slope: float) -> None:
    assert first_derivatives(f)(0.0) == (slope,) * 4
    assert rg.grad(f, "x")(0.0) == slope
    assert rg.jvp(f, (0.0,), (1.0,))[1].out == slope


@pytest.mark.parametrize("inner", [by_gradient, by_transposed, by_tangent])
@pytest.mark.parametrize("outer", [by_gradient, by_transposed, by_tangent, None])
@pytest.mark.parametrize("f", [root, half_power, signed_square, squared_norm])
def test_second_derivatives_at_kinks_trap(f: Any, outer: Any, inner: Any) -> None:
    """Of each pair of operators; None stands for `rg.grad` outside of the program."""

    @rg.functional
    def twice(x: fixed):
        return outer(lambda t: inner(f, t), x)

    @rg.functional
    def once(x: fixed):
        return inner(f, x)

    with pytest.raises(rg.ProgramTrap) as found:
        twice(0.0) if outer else rg.grad(once, "x")(0.0)
    assert found.value.code == "RG0815"


@rg.functional
def tower(x: fixed):
    def f(y):
        return y if y < 0.1 else rg.grad(f)(y / 2) * y

    return f(x)


@rg.functional
def tower_of_two(x: fixed):
    def a(y):
        return y if y < 0.1 else b(y / 2)

    def b(y):
        return rg.jvp(lambda t: a(t) * t)(y, 1.0)

    return a(x)


@rg.functional
def orders_at_run_time(x: fixed, n: int):
    def derivative(f, k):
        return f if k == 0 else derivative(rg.grad(f), k - 1)

    return derivative(lambda t: t * t * t, n)(x)


@rg.functional
def operator_of_itself(x: fixed):
    return (lambda j: j(j))(rg.grad)(x)


@rg.functional
def captures_itself(x: fixed):
    def grow(f, k):
        return f if k == 0 else grow(lambda t: f(t) + 1, k - 1)

    return grow(lambda t: t, 3)(x)


@rg.functional
def infinite_tuple(x: fixed):
    def grow(p, k):
        return p if k == 0 else grow((p, p), k - 1)

    return grow((x, x), 3)[0]


@rg.functional
def infinite_list(x: fixed):
    def grow(p, k):
        return p if k == 0 else grow([p], k - 1)

    return 0.0 if grow([x], 3) else 1.0


@rg.functional
def omega(x: fixed):
    return (lambda f: f(f))(lambda f: f(f))


@rg.functional
def escaping_list(x: fixed):
    return [lambda t: t * x]


@rg.functional
def escaping_function(x: fixed):
    return lambda y: x + y


@pytest.mark.parametrize(
    ("f", "args", "code", "reason", "line"),
    [
        (tower, (1.0,), "RG0719", "computes itself inside", "rg.grad(f)(y / 2) * y"),
        (tower_of_two, (1.0,), "RG0719", "computes itself inside", "rg.jvp(lambda t: a(t) * t)"),
        (orders_at_run_time, (1.0, 2), "RG0719", "grow without end", "derivative(rg.grad(f), k - 1)"),
        (operator_of_itself, (1.0,), "RG0715", "`grad` takes one function", "j(j)"),
        (captures_itself, (1.0,), "RG0719", "grow without end", "grow(lambda t: f(t) + 1, k - 1)"),
        (infinite_tuple, (1.0,), "RG0719", "grow without end", "grow((p, p), k - 1)"),
        (infinite_list, (1.0,), "RG0719", "grow without end", "grow([p], k - 1)"),
        (omega, (1.0,), "RG0719", "calls itself on every path", "(lambda f: f(f))(lambda f: f(f))"),
        (escaping_list, (1.0,), "RG0703", "gives a list[function]", "def escaping_list"),
        (escaping_function, (1.0,), "RG0703", "gives a function", "def escaping_function"),
    ],
)  # fmt: skip
def test_refusals(f: Any, args: tuple[Any, ...], code: str, reason: str, line: str) -> None:
    """Each is refused with its place and a reason, before anything runs."""
    with pytest.raises(rg.CompileError) as caught:
        f(*args)
    assert caught.value.code == code
    assert reason in str(caught.value)
    assert line in str(caught.value)
