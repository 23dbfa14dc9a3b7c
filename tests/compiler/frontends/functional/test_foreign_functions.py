"""Functions of Python and NumPy in functional functions: those of reversible functions, with their own values."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.language.foreign import OF_ARRAYS, WRITTEN
from retrograd.isa.diagnostics import CompileError

import retrograd as rg

#: functions of the library, which Python and NumPy have too
OF_LIBRARY = [math.tanh, math.hypot, math.log1p, math.cbrt, np.tanh, np.arcsin, np.expm1]
#: products of vectors
PRODUCTS = [np.dot, np.matmul]
POINTS = {
    1: [(0.75,), (0.5,), (0.25,)],
    2: [(0.75, 0.5), (1.5, 2.0), (2.5, 0.75)],
    3: [(0.25, -1.0, 0.5), (0.75, -1.0, 0.5)],
}
SIGNED = (
    math.ceil,
    math.trunc,
    math.fabs,
    math.copysign,
    math.fmod,
    np.abs,
    np.negative,
    np.square,
    np.sign,
    np.rint,
    np.trunc,
)


def arity(f: Callable[..., Any]) -> int:
    """How many arguments the function takes here."""
    text = WRITTEN.get(f) or OF_ARRAYS.get(f)
    if text is None:
        return 2 if f is math.hypot else 1
    return len({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} & {"x", "y", "z"})


def functional(f: Callable[..., Any]) -> Any:
    def one(x):
        return f(x)

    def two(x, y):
        return f(x, y)

    def three(x, y, z):
        return f(x, y, z)

    return rg.functional([one, two, three][arity(f) - 1])


def points(f: Callable[..., Any]) -> list[tuple[Any, ...]]:
    if f is np.where:
        return [(True, 2.0, 3.0), (False, 2.0, 3.0)]
    signed = [tuple(-x for x in p) for p in POINTS[arity(f)]] if f in SIGNED else []
    return POINTS[arity(f)] + signed


@pytest.mark.parametrize(
    "f",
    [*WRITTEN, *OF_LIBRARY],
    ids=lambda f: f"{type(f).__name__}-{f.__name__}",
)
def test_values(f: Callable[..., Any]) -> None:
    g = functional(f)
    for p in points(f):
        assert g(*p) == pytest.approx(float(f(*p)), abs=1e-8), p


@pytest.mark.parametrize("f", [f for f in [*WRITTEN, *OF_LIBRARY] if isinstance(f, np.ufunc)])
def test_arrays_element_by_element(f: np.ufunc) -> None:
    arrays = [np.array(x) for x in zip(*points(f), strict=True)]
    assert functional(f)(*arrays) == pytest.approx(f(*arrays), abs=1e-8)


@pytest.mark.parametrize("f", [f for f in OF_ARRAYS if f not in PRODUCTS], ids=lambda f: f.__name__)
def test_values_of_arrays(f: Callable[..., Any]) -> None:
    for x in (np.array([1.0, -2.0, 0.5]), np.array([[0.0, 2.0], [1.5, 0.0]]), np.zeros(2)):
        assert functional(f)(*[x] * arity(f)) == pytest.approx(np.asarray(f(*[x] * arity(f)), dtype=float), abs=1e-8)


def test_products_and_choices_of_arrays() -> None:
    x, y = np.array([1.0, -2.0, 0.5]), np.array([0.25, 4.0, 3.0])
    for f in PRODUCTS:
        assert functional(f)(x, y) == x @ y
    assert functional(np.clip)(x, -1.0, 0.75).tolist() == [0.75, -1.0, 0.5]

    @rg.functional
    def leaky(x):
        return np.sum(np.where(x > 0, x, 0.5 * x))

    assert leaky(x) == 0.5
    assert rg.grad(leaky, "x")(x).tolist() == [1.0, 0.5, 1.0]


def test_a_function_as_a_value() -> None:
    @rg.functional
    def twice(x):
        apply = lambda f, a: f(f(a))
        return apply(np.sin, x) + apply(np.square, x)

    assert twice(0.75) == pytest.approx(math.sin(math.sin(0.75)) + 0.75**4, abs=1e-9)


def test_an_argument_is_computed_once() -> None:
    """A template names its argument several times."""

    @rg.functional
    def square(x):
        return np.square(math.exp(x))

    @rg.functional
    def exponential(x):
        return math.exp(x)

    taken = rg.run(square, 0.5).steps - rg.run(exponential, 0.5).steps
    assert 0 < taken < 4


def test_a_wrong_number_of_arguments() -> None:
    @rg.functional
    def wrong(x):
        return np.square(x, x)

    with pytest.raises(CompileError, match=r"RG0703.*np\.square"):
        wrong(1.0)


def test_arrays_of_constants() -> None:
    @rg.functional
    def recurrent(w, xs):
        h = np.zeros(len(w))
        for x in xs:
            h = np.tanh(w @ h + x)
        return np.sum(h)

    w, xs = np.array([[0.5, -0.25], [0.125, 0.75]]), np.array([[0.5, 1.0], [-0.25, 0.5], [1.0, 0.0]])
    h = np.zeros(2)
    for x in xs:
        h = np.tanh(w @ h + x)
    assert recurrent(w, xs) == pytest.approx(h.sum(), abs=1e-8)

    @rg.functional
    def sums(x):
        made = np.ones_like(x) + np.zeros_like(x) + np.full(x.shape, 2.25) + np.arange(len(x))
        return np.sum(made * np.array([1.0, 2.0, 3.0])) + x @ np.eye(len(x)) @ x

    x = np.array([0.5, 1.0, 2.0])
    assert sums(x) == pytest.approx(((3.25 + np.arange(3)) * [1, 2, 3]).sum() + x @ x, abs=1e-8)
    assert rg.grad(sums, "x")(x) == pytest.approx(2 * x, abs=1e-8)


def test_axes_that_are_kept_and_types_that_are_named() -> None:
    @rg.functional
    def attention(q, k):
        scores = q @ k.T
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        mask = np.zeros_like(scores, dtype=float) + np.eye(2, dtype=int)
        return np.sum(e / e.sum(axis=-1, keepdims=True) * mask)

    q, k = np.array([[0.5, 1.0], [-1.0, 0.25]]), np.array([[1.0, 0.0], [0.5, 2.0]])

    def value(q: Any) -> Any:
        e = np.exp(q @ k.T)
        return np.trace(e / e.sum(axis=-1, keepdims=True))

    assert attention(q, k) == pytest.approx(value(q), abs=1e-8)
    for at, slope in np.ndenumerate(rg.grad(attention, "q")(q, k)):
        step = np.zeros((2, 2))
        step[at] = 1e-5
        assert slope == pytest.approx((value(q + step) - value(q - step)) / 2e-5, abs=1e-7)


def test_arrays_of_numbers_of_the_run_are_refused() -> None:
    @rg.functional
    def long(n):
        return np.sum(np.zeros(n))

    with pytest.raises(CompileError, match=r"RG0703.*a number of the run in it, and NumPy makes arrays of constants"):
        long(3)


#: parts of the run together, for t: a number, v: (3,), M: (3, 2); NumPy evaluates the same text
JOINED = [
    "np.array([t, 2 * t, 1.0]) * v",
    "np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) @ M.T",
    "np.array([M, 2 * M])[1]",
    "np.array((v, v * t))",
    "np.array([1, n, 2])",
    "np.stack([v, t * v]) @ v",
    "np.stack((M, M))[0]",
    "np.stack([t, t])",
    "np.concatenate([v, np.tanh(v), v[:1]])",
    "np.concatenate((M, t * M))",
    "np.concatenate([np.zeros(2), v])",
]


@pytest.mark.parametrize("text", JOINED)
def test_arrays_are_made_of_parts_that_the_run_computes(text: str) -> None:
    scope: dict[str, Any] = {"np": np, "rg": rg}
    source = (
        f"def joined(t, v, M, n):\n    return {text}\n\n\ndef weighed(t, v, M, n):\n    return np.sum(({text}) ** 2)\n"
    )
    name = f"<joined {text}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), scope)
    v, M = np.array([0.5, -1.0, 2.0]), np.array([[1.0, 0.5], [-0.5, 2.0], [0.25, 1.0]])
    wanted = scope["joined"](0.75, v, M, 4)
    found = rg.functional(scope["joined"])(0.75, v, M, 4)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    assert found == pytest.approx(wanted, abs=1e-8)
    value = scope["weighed"]
    slopes = rg.grad(rg.functional(value))(0.75, v, M, 4)
    assert slopes.t == pytest.approx((value(0.7501, v, M, 4) - value(0.7499, v, M, 4)) / 2e-4, abs=1e-4)
    for at in range(3):
        step = 1e-4 * np.eye(3)[at]
        by = (value(0.75, v + step, M, 4) - value(0.75, v - step, M, 4)) / 2e-4
        assert slopes.v[at] == pytest.approx(by, abs=1e-4)


def test_parts_that_do_not_fit_are_refused() -> None:
    @rg.functional
    def ragged(x):
        return np.array([x, x[1:]])

    @rg.functional
    def chained(x):
        return np.concatenate([x, x[0]])

    with pytest.raises(CompileError, match=r"RG0712.*np\.array.*\(3,\), \(2,\)"):
        ragged(np.ones(3))
    with pytest.raises(CompileError, match=r"RG0703.*np\.concatenate[\s\S]*Items are numbers, or arrays"):
        chained(np.ones(3))


def test_a_slice_of_a_tuple_and_a_default() -> None:
    @rg.functional
    def network(layers, x, rate=0.5, *, unused=1.0):
        return x

    with pytest.raises(CompileError, match=r"RG0729[\s\S]*may have defaults"):
        network([np.ones(2)], 1.0)

    @rg.functional
    def deep(layers, x, rate=0.5):
        for w, b in layers[:-1]:
            x = np.tanh(w @ x + b)
        (w, b), last = layers[-1], len(layers[1:]) + len(layers[-2:]) + len(layers[::2])
        return rate * np.sum(w @ x + b) * last

    layers = [(np.full((3, 2), 0.5), np.ones(3)), (np.full((2, 3), -0.25), np.zeros(2)), (np.ones((1, 2)), np.ones(1))]
    x = np.array([1.0, -0.5])
    h = x
    for w, b in layers[:-1]:
        h = np.tanh(w @ h + b)
    value = float(np.sum(layers[-1][0] @ h + layers[-1][1])) * 6
    assert deep(layers, x) == pytest.approx(0.5 * value, abs=1e-8)
    assert deep(layers, x, 2.0) == pytest.approx(2 * value, abs=1e-8)
    assert rg.grad(deep, "layers")(layers, x)[2][1] == pytest.approx([3.0])


def test_what_differs_from_numpy_is_refused_with_a_way_out() -> None:
    """np.full_like makes ints of its number where the array has ints."""

    @rg.functional
    def filled(n):
        return np.full_like(n, 0.5)

    n = np.array([1, 2])
    with pytest.raises(CompileError, match=r"RG0703.*np\.full_like[\s\S]*np\.full\(n\.shape, 0\.5\)"):
        filled(n)


@pytest.mark.parametrize(
    "value", [np.array([1.0, 2.0]), [1.0, 2.0], (1.0, 2.0), {"a": 1.0}], ids=["array", "list", "tuple", "dict"]
)
def test_a_value_that_is_no_function_is_called(value: Any) -> None:
    @rg.functional
    def called(x):
        return value(x)

    with pytest.raises(CompileError, match=r"RG0703.*called like a function"):
        called(1.0)
