"""Derivatives by lists, data classes and functions: closed forms, sharing between arguments and captured values, nesting."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from retrograd import fixed


@rg.functional
def cubes(items):
    match items:
        case []:
            return 0.0
        case [first, *rest]:
            return first * first * first + cubes(rest)


@rg.functional
def digits(items):
    """a + 10·b + 100·c …"""
    match items:
        case []:
            return 0.0
        case [first, *rest]:
            return first + 10 * digits(rest)


@rg.functional
def mapped(f, items):
    match items:
        case []:
            return []
        case [first, *rest]:
            return [f(first), *mapped(f, rest)]


@rg.functional
def by_a_list(x: fixed, y: fixed):
    return digits(rg.grad(cubes)([x, y, x * y]))


@rg.functional
def shared(x: fixed) -> tuple[fixed, fixed, fixed]:
    """The argument is also captured: only the derivative by the argument counts. The list has a tail twice."""
    xs = [x, 2 * x]
    captured = rg.grad(lambda ys: digits(xs) * digits(ys))(xs)
    _, of_second = rg.grad(lambda p: cubes(p[0]) * cubes(p[1]))((xs, xs))
    return digits(captured), digits(of_second), digits(rg.grad(cubes)([x, *xs]))


@rg.functional
def by_a_function(x: fixed) -> tuple[fixed, fixed]:
    a = x * x
    da, dx = rg.grad(lambda h: h(2.0) * h(3.0))(lambda t: a * t * x)
    return da, dx


@rg.functional
def by_a_choice(x: fixed, k: int) -> tuple[fixed, fixed, fixed]:
    f = (lambda t: t * x) if k == 0 else (lambda t: t * t * x * x)
    tag, first, second = rg.grad(lambda h: h(3.0) * h(1.0))(f)
    return tag, first[0], second[0]


@rg.functional
def by_functions_in_a_list(x: fixed):
    f = lambda t: t * x
    fs = [f, f]
    return digits(mapped(lambda d: d[0], rg.grad(lambda hs: digits(mapped(lambda h: h(3.0), hs)))(fs)))


@rg.data
class Leaf:
    value: fixed
    times: int
    on: bool


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"
    weights: list[fixed]


@rg.functional
def product(t):
    match t:
        case Leaf(v, n, on):
            return v * v * v * n if on else v
        case Node(a, b, weights):
            return product(a) * product(b) * digits(weights)


@rg.functional
def weighted(t):
    match t:
        case Leaf(v, n, on):
            return v + 1000 * n + (5000 if on else 0)
        case Node(a, b, weights):
            return weighted(a) + 10 * weighted(b) + 100 * digits(weights)


@rg.functional
def by_a_tree(x: fixed):
    return weighted(rg.grad(product)(Node(Leaf(x, 2, True), Leaf(x + 1, 1, False), [x, x])))


@rg.functional
def transposed(x: fixed) -> tuple[fixed, fixed, fixed]:
    squares = lambda items: mapped(lambda v: v * v, items)
    there, shorter = [x, x + 1], [1.0]
    return (
        digits(rg.vjp(squares)(there, [1.0, 2.0])),
        digits(rg.vjp(squares)(there, shorter)),
        digits(rg.jvp(squares)(there, [1.0, 2.0])),
    )


@rg.functional
def second(x: fixed, y: fixed):
    """The gradient of a function of the gradient by a list."""
    return digits(rg.grad(lambda items: digits(rg.grad(cubes)(items)))([x, y]))


@rg.functional
def curried(x: fixed, y: fixed) -> tuple[fixed, fixed]:
    """The cotangent of a function that is the result is a direction."""
    add = lambda a: lambda b: a * b * y
    return rg.vjp(add)(x, (3.0, 0.0)), rg.vjp(lambda a: (add(a), a * a))(x, ((1.0, 0.0), 2.0))


# fmt: off
CASES: dict[str, tuple[Any, tuple[Any, ...], Any, Any]] = {
    "list": (by_a_list, (1.0, 2.0), 3 + 10 * 12 + 100 * 12.0, (6 + 100 * 24.0, 10 * 12 + 100 * 12.0)),
    "function": (by_a_function, (2.0,), (12 * 4 * 4.0, 12 * 16 * 2.0), None),
    "choice": (by_a_choice, (0.5, 0), (0.0, 3.0, 0.0), None),
    "other choice": (by_a_choice, (0.5, 1), (0.0, 0.0, 4.5), None),
    "list of functions": (by_functions_in_a_list, (0.5,), 3 + 10 * 30.0, (0.0,)),
    "tree": (by_a_tree, (1.0,), 6 * 2 * 11 + 10 * 2 * 11 + 100 * (4 + 10 * 40.0), None),
    "shared": (shared, (1.0,), (21 + 2100.0, 27 + 1080.0, 3 + 30 + 1200.0), None),
    "a function as a result": (curried, (2.0, 5.0), (3.0, 9.0), None),
    "transposed": (transposed, (1.0,), (2 + 10 * 8.0, 2.0, 2 + 10 * 8.0), None),
    "second": (second, (1.0, 2.0), 6 + 10 * 10 * 12.0, (6.0, 600.0)),
}
# fmt: on


SLOW = {"second", "transposed", "list of functions", "other choice", "tree"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in SLOW else n for n in CASES])
def test_derivatives(name: str) -> None:
    """Values and gradients; nothing but the result is left, and no bit is erased."""
    f, args, value, gradient = CASES[name]
    there = rg.run(f, *args, engine="reference")
    assert f(*args) == pytest.approx(value, abs=1e-6)
    assert there.erased_bits == 0
    assert not any(there.machine.memory[there.compiled.argument_words :])
    assert (~f)(*there.values) == (*args, *[0.0] * len(f.result_parameters))
    if gradient is not None:
        by = [p.name for p, x in zip(f.given, args, strict=True) if isinstance(x, float)]
        assert rg.grad(f, by)(*args) == pytest.approx(gradient, abs=1e-6)


@rg.functional
def curvature(x: fixed, y: fixed) -> tuple[tuple[fixed, fixed], tuple[fixed, fixed], fixed]:
    """The Hessian of a function of a pair, and the second derivative by a number of a function that captures both."""
    first, second = rg.hessian(lambda p: 2 * p[0] * p[0] * y + 3 * p[0] * p[1] + p[1] * p[1] * p[1])((x, y))
    return first, second, rg.hessian(lambda t: t * t * t * x)(y)


@rg.functional
def curvature_by_a_list(x: fixed):
    return rg.hessian(lambda items: 0.0)([x])


def test_hessians() -> None:
    assert curvature(3.0, 4.0) == ((16.0, 3.0), (3.0, 24.0), 72.0)
    with pytest.raises(rg.CompileError, match="at one number, or at one tuple of numbers"):
        curvature_by_a_list(1.0)
