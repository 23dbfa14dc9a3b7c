"""Arrays in functional functions: values and gradients beside NumPy's, and beside the reversible form's."""

import math
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed

SCALE = np.array([[0.5, -1.0], [2.0, 0.25]])
COUNTS = np.array([1, 2, 3])
SETTINGS = {"rate": 0.5, "centre": np.array([0.25, -0.5])}


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


#: for X: (n, d), A: (d, k), w: (d,), y: (n,); NumPy evaluates the same text
EXPRESSIONS = [
    "sum(X @ w)",
    "w @ w",
    "y @ X @ w",
    "sum((X @ A) ** 2)",
    "sum(X.T @ y)",
    "sum((X @ w - y) ** 2) / len(y)",
    "sum(X[1:, 0] * X[:-1, 1])",
    "sum(X[i])",
    "sum(X[:, i])",
    "sum(X[i:i + 2])",
    "X[i, 1] - X[-1, -2]",
    "sum(X[::2] * 2)",
    "sum(w[::-1] * w)",
    "sum(X, axis=0) @ w",
    "sum(mean(X, axis=0) ** 2)",
    "sum((X - mean(X, axis=0)) ** 2)",
    "sum(max(X, axis=1)) - min(w)",
    "sum(exp(X @ A) / 3)",
    "sum(tanh(X @ A))",
    "sum(select(w > 0, w, -2 * w))",
    "sum(abs(w)) + sum(sqrt(w * w + 1))",
    "sum(w[:, None] * w[None, :])",
    "X.shape[0] + X.size + X.ndim + len(w)",
    "X.sum() + (2 * w).sum() + w.dot(w) + X[i].max()",
    "sum((X @ A).T[0] * y)",
    "sum(X / (1 + w * w))",
    "sum(1 - w) + sum(-w)",
]


def numpy_value(text: str, **given: Any) -> float:
    names = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "exp": np.exp,
        "tanh": np.tanh,
        "sin": np.sin,
        "cos": np.cos,
        "select": np.where,
        "sqrt": np.sqrt,
    }
    return float(eval(text, {**names, "abs": abs, "len": len}, given))


def function_of(texts: list[str], tmp_path: Any) -> Any:
    """A functional function whose value is the tuple of these expressions."""
    rows = ",\n        ".join(texts)
    path = tmp_path / "arrays_of_a_test.py"
    path.write_text(
        "import retrograd as rg\n"
        "from retrograd import cos, exp, fixed, max, mean, min, select, sin, sqrt, sum, tanh\n"
        "@rg.functional\n"
        f"def f(X, A, w, y, i: int) -> tuple[{', '.join(['fixed'] * len(texts))}]:\n"
        f"    return (\n        {rows},\n    )\n"
    )
    names: dict[str, Any] = {"__name__": "arrays_of_a_test"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["f"]


@settings(max_examples=3, deadline=None)
@given(n=st.integers(2, 6), d=st.integers(2, 5), k=st.integers(1, 4), seed=st.integers(0, 99))
def test_values_of_numpy(n: int, d: int, k: int, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    f = function_of(EXPRESSIONS, tmp_path_factory.mktemp("arrays"))
    X, A, w, y = numbers(seed, n, d), numbers(seed + 1, d, k), numbers(seed + 2, d), numbers(seed + 3, n)
    found = f(X, A, w, y, 0)
    for text, got in zip(EXPRESSIONS, found, strict=True):
        assert got == pytest.approx(numpy_value(text, X=X, A=A, w=w, y=y, i=0), abs=1e-6), text


def expression(r: random.Random, shape: tuple[int, ...], depth: int) -> str:
    """A random expression of this shape, over X: (4, 3), A: (3, 2), w: (3,), y: (4,)."""
    names = {(4, 3): "X", (3, 4): "X.T", (3, 2): "A", (2, 3): "A.T", (3,): "w", (4,): "y", (2,): "A[i]", (): "w[i]"}
    if depth == 0:
        return names[shape]

    def inner(shape: tuple[int, ...]) -> str:
        return expression(r, shape, depth - 1)

    same = inner(shape)
    makers = [
        lambda: f"({same} {r.choice('+-*')} {inner(r.choice([shape, shape, shape[1:], ()]))})",
        lambda: f"{r.choice(['sin', 'cos', 'tanh'])}({same})",
        lambda: f"((-{same}) ** 2)",
        lambda: f"select({same} > {inner(())}, {inner(shape)}, {same})",
    ]
    if len(shape) == 2:
        k = r.choice([k for k in (2, 3, 4) if (shape[0], k) in names and (k, shape[1]) in names] or [0])
        makers.append(
            lambda: f"({inner((shape[0], k))} @ {inner((k, shape[1]))})" if k else f"({inner(shape[::-1])}).T"
        )
        makers.append(lambda: f"(({inner(shape[:1])})[:, None] * ({inner(shape[1:])})[None, :])")
    elif shape:
        k = next(k for k in (3, 4, 2) if (shape[0], k) in names)
        makers.append(lambda: f"({inner((shape[0], k))} @ {inner((k,))})")
        makers.append(lambda: f"mean({inner((k, shape[0]))}, axis=0)")
        makers.append(lambda: f"(({inner(shape)})[::-1] + ({inner((shape[0], k))})[:, i])")
    else:
        makers.append(lambda: f"sum({inner(r.choice([s for s in names if s]))})")
        makers.append(lambda: f"(({inner((4, 3))})[i:i + 2])[1, 2]")
    return r.choice(makers)()


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_random_expressions(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    r = random.Random(seed)
    texts = [f"sum({expression(r, r.choice([(4, 3), (3, 2), (3,), (4,)]), 3)})" for _ in range(8)]
    f = function_of(texts, tmp_path_factory.mktemp("random"))
    given = {
        "X": numbers(seed, 4, 3),
        "A": numbers(seed + 1, 3, 2),
        "w": numbers(seed + 2, 3),
        "y": numbers(seed + 3, 4),
    }
    for text, got in zip(texts, f(*given.values(), 1), strict=True):
        assert got == pytest.approx(numpy_value(text, **given, i=1), rel=1e-5, abs=1e-5), text


@rg.functional
def loss(params, X, y):
    h = rg.tanh(X @ params["W1"] + params["b1"])
    p = h @ params["W2"] + params["b2"]
    return rg.sum((p - y) ** 2) / len(y)


@rg.reversible
def reversible_loss(
    out: fixed,
    W1: Array[fixed, "d", "h"],
    b1: Array[fixed, "h"],
    W2: Array[fixed, "h", "k"],
    b2: Array[fixed, "k"],
    X: Array[fixed, "n", "d"],
    y: Array[fixed, "n", "k"],
):
    h = rg.tanh(X @ W1 + b1)
    p = h @ W2 + b2
    out += rg.sum((p - y) ** 2) / len(y)


def network(n: int, d: int, h: int, k: int, seed: int = 0) -> tuple[dict[str, Any], Any, Any]:
    params = {
        "W1": numbers(seed, d, h),
        "b1": numbers(seed + 1, h),
        "W2": numbers(seed + 2, h, k),
        "b2": numbers(seed + 3, k),
    }
    return params, numbers(seed + 4, n, d), numbers(seed + 5, n, k)


@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (1, 1, 1, 1)])
def test_a_loss_of_a_dict(shape: tuple[int, int, int, int]) -> None:
    """Value and gradients are float64's, in the form of the argument; words and steps are the reversible form's."""
    params, X, y = network(*shape)
    h = np.tanh(X @ params["W1"] + params["b1"])
    p = h @ params["W2"] + params["b2"]
    found = rg.grad(loss)(params, X, y)
    up = 2 * (p - y) / len(y)
    back = (up @ params["W2"].T) * (1 - h * h)
    wanted = {"W1": X.T @ back, "b1": back.sum(axis=0), "W2": h.T @ up, "b2": up.sum(axis=0)}
    assert loss(params, X, y) == pytest.approx(((p - y) ** 2).sum() / len(y), abs=1e-7)
    assert list(found.params) == list(params)
    for name, array in wanted.items():
        assert np.allclose(found.params[name], array, atol=1e-7), name
    assert np.allclose(found.X, back @ params["W1"].T, atol=1e-7)
    other = rg.run(reversible_loss, 0.0, *params.values(), X, y)
    own = rg.run(loss, params, X, y)
    assert own.values[-1] == other.values[0]
    assert own.erased_bits == 0
    assert own.steps <= 1.05 * other.steps
    for name, array in rg.grad(reversible_loss)(0.0, *params.values(), X, y)._asdict().items():
        assert np.array_equal(array, found.params[name] if name in params else getattr(found, name)), name


@rg.functional
def layers(params, x):
    (W1, b1), (W2, b2) = params
    layer = lambda W, b, v, act: act(v @ W + b)
    return rg.sum(layer(W2, b2, layer(W1, b1, x, rg.tanh), lambda v: v * v))


@pytest.mark.parametrize("widths", [(3, 5, 2), (2, 2, 2)])
def test_a_list_of_layers(widths: tuple[int, ...]) -> None:
    """Arrays of several shapes, or of one, so that the list is an array of structs."""
    params = [(numbers(7 * k, a, b), numbers(7 * k + 1, b)) for k, (a, b) in enumerate(pairwise(widths))]
    x = numbers(3, widths[0])
    h = np.tanh(x @ params[0][0] + params[0][1])
    p = h @ params[1][0] + params[1][1]
    assert layers(params, x) == pytest.approx((p * p).sum(), abs=1e-7)
    found = rg.grad(layers)(params, x)
    (W1, b1), (W2, b2) = found.params
    back = (2 * p @ params[1][0].T) * (1 - h * h)
    for got, wanted in (
        (W1, np.outer(x, back)),
        (b1, back),
        (W2, np.outer(h, 2 * p)),
        (b2, 2 * p),
        (found.x, back @ params[0][0].T),
    ):
        assert np.allclose(got, wanted, atol=1e-7)


def test_captured_arrays() -> None:
    """Arrays and dicts from around the function are constants; a changed one is read again."""
    shift = np.array([1.0, 2.0])

    @rg.functional
    def f(x):
        scaled = lambda v: rg.sum((SCALE @ v + shift - SETTINGS["centre"]) * COUNTS[1:])
        return SETTINGS["rate"] * scaled(x) + rg.sum(COUNTS)

    x = numbers(1, 2)
    wanted = lambda: 0.5 * np.sum((SCALE @ x + shift - SETTINGS["centre"]) * COUNTS[1:]) + 6
    assert f(x) == pytest.approx(wanted(), abs=1e-8)
    shift[0] = 7.0
    assert f(x) == pytest.approx(wanted(), abs=1e-8)
    assert np.allclose(rg.grad(f, "x")(x), 0.5 * SCALE.T @ COUNTS[1:], atol=1e-8)


def test_arrays_inside_of_sums_and_recursion() -> None:
    """Arrays in the body of a sum, of a branch, and of a function that calls itself, which has its own at each call."""

    @rg.functional
    def f(x, n: int):
        def deeper(k, t):
            scaled = rg.exp(x * t)
            return rg.sum(scaled) if k == 0 else rg.sum(scaled * x) + deeper(k - 1, 0.5 * t)

        inner = sum(rg.sum((x * i)[:, None] * x) for i in range(n))
        return deeper(n, 1.0) + (inner if n > 2 else rg.max(x * x))

    x = numbers(2, 3)
    for n in (1, 3):
        deep = sum(np.sum(np.exp(x * 0.5**k) * x) for k in range(n)) + np.sum(np.exp(x * 0.5**n))
        wanted = deep + (sum(x.sum() ** 2 * i for i in range(n)) if n > 2 else np.max(x * x))
        assert f(x, n) == pytest.approx(wanted, abs=1e-6)
    slopes = rg.grad(f, "x")(x, 1)
    e, half = np.exp(x), np.exp(0.5 * x)
    biggest = np.where(np.abs(x) == np.abs(x).max(), 2 * x, 0.0)
    assert np.allclose(slopes, e + e * x + 0.5 * half + biggest, atol=1e-6)


LIBRARY = {
    "sinh": math.sinh,
    "cosh": math.cosh,
    "erf": math.erf,
    "expm1": math.expm1,
    "cbrt": np.cbrt,
    "asin": math.asin,
}


@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_library(name: str) -> None:
    """A function of numbers takes arrays element by element, by its own name and as a value."""
    g = getattr(rg, name)

    @rg.functional
    def f(x):
        h = g
        return rg.sum(g(x) * x) + rg.sum(h(0.5 * x))

    x = numbers(5, 4)
    wanted = sum(LIBRARY[name](v) * v + LIBRARY[name](0.5 * v) for v in x)
    assert f(x) == pytest.approx(wanted, abs=1e-6)


# ---------------------------------------------------------------------- results


@rg.functional
def product(X: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> Array[fixed, "n"]:
    return X @ w


@rg.functional
def several(x) -> tuple[fixed, Array[fixed, ...], Array[int, ...]]:
    return rg.sum(x), x[::-1] * x, rg.floor(x * 10)


@rg.functional
def iterated(x: Array[fixed, "n"], n: int) -> Array[fixed, "n"]:
    def go(v, k):
        return v if k == 0 else go(rg.tanh(v) + 0.5 * x, k - 1)

    return go(x, n)


@rg.functional
def chosen(x):
    return x * 2 if rg.sum(x) > 0 else rg.select(x > -0.5, x[::-1], x)


@rg.functional
def forgotten(x):
    with rg.forget():
        h = rg.exp(x)
        g = h * h
    return g + h


def iterated_by_numpy(x: Any, n: int) -> Any:
    v = x
    for _ in range(n):
        v = np.tanh(v) + 0.5 * x
    return v


def test_results() -> None:
    """Arrays alone and in tuples, of branches, of recursion, and of blocks that forget."""
    X, x = numbers(1, 4, 3), numbers(2, 3)
    assert np.allclose(product(X, x), X @ x, atol=1e-8)
    total, squares, floors = several(x)
    assert total == pytest.approx(x.sum(), abs=1e-8)
    assert np.allclose(squares, x[::-1] * x, atol=1e-8)
    assert np.array_equal(floors, np.floor(x * 10))
    assert floors.dtype == np.int64
    for v in (x, -x):
        assert np.allclose(chosen(v), v * 2 if v.sum() > 0 else np.where(v > -0.5, v[::-1], v), atol=1e-8)
    assert np.allclose(forgotten(x), np.exp(2 * x) + np.exp(x), atol=1e-7)
    for n in (0, 4):
        assert np.allclose(iterated(x, n), iterated_by_numpy(x, n), atol=1e-8)


def test_a_result_without_annotation_is_found_by_its_call() -> None:
    @rg.functional
    def twice(x):
        return 2 * x

    assert np.array_equal(twice(np.array([1.0, 2.0])), [2.0, 4.0])
    assert np.array_equal(twice(np.array([[1, 2]])), [[2, 4]])
    assert twice(1.5) == 3.0


def test_a_result_is_added_taken_back_and_differentiated() -> None:
    """As a reversible function f is `out += f(x)`, whose inverse leaves zeros; its Jacobian is NumPy's."""
    x = numbers(3, 3)
    found = rg.run(iterated, x, 3)
    assert found.erased_bits == 0
    assert not np.any((~iterated)(x, 3, found.values.out).out)

    @rg.reversible
    def uses(y: Array[fixed, "n"], x: Array[fixed, "n"]):
        iterated(x, 2, y)

    assert np.allclose(uses(np.ones(3), x).y, 1 + iterated_by_numpy(x, 2), atol=1e-8)
    _, pullback = rg.vjp(iterated, x, 3)
    cotangent = numbers(4, 3)
    step = 1e-6
    slopes = [(iterated_by_numpy(x + step * e, 3) - iterated_by_numpy(x - step * e, 3)) / (2 * step) for e in np.eye(3)]
    assert np.allclose(pullback({"out": cotangent}).x, np.array(slopes) @ cotangent, atol=1e-6)


def test_a_procedure_takes_and_gives_arrays() -> None:
    """A function that is too large to be inlined."""

    @rg.functional
    def f(x):
        def large(v):
            a = rg.exp(v)
            b = a * a + rg.sin(a) - rg.cos(v) + v * v * v - a * v + 2 * a - v / 2 + a / 4 - a * a * a
            c = b * a + rg.sin(b) - rg.cos(b) + v * b * v - b * v + 2 * b - v / 2 + a / 4 - a * b * a
            return c * 0.125 + b * 0.25 - a

        return large(x) + large(0.5 * x) + large(large(x) * 0.125)

    def by_numpy(v: Any) -> Any:
        a = np.exp(v)
        b = a * a + np.sin(a) - np.cos(v) + v * v * v - a * v + 2 * a - v / 2 + a / 4 - a * a * a
        c = b * a + np.sin(b) - np.cos(b) + v * b * v - b * v + 2 * b - v / 2 + a / 4 - a * b * a
        return c * 0.125 + b * 0.25 - a

    x = numbers(6, 4)
    assert np.allclose(f(x), by_numpy(x) + by_numpy(0.5 * x) + by_numpy(by_numpy(x) * 0.125), atol=1e-6)


# ---------------------------------------------------------------------- derivatives inside


@rg.functional
def slopes(w) -> tuple[Array[fixed, ...], Array[fixed, ...], Array[fixed, ...], Array[fixed, ...], Array[fixed, ...]]:
    of_two = rg.grad(lambda a, b: rg.sum(a * b * b))(w, w)
    own = rg.grad(lambda v: rg.sum(v * w))(w)
    twice = rg.grad(lambda v: rg.sum(rg.grad(lambda u: rg.sum(u * u * u))(v)))(w)
    by_function = rg.grad(lambda g: g(2.0))(lambda t: rg.sum(t * w[1:]))[0]
    return of_two[0], of_two[1], own, twice, by_function


def test_derivatives_by_arrays() -> None:
    """Of one array that is passed twice, or captured too, each place has a cotangent of its own."""
    w = numbers(1, 3)
    for found, wanted in zip(slopes(w), (w * w, 2 * w * w, w, 6 * w, np.array([0.0, 2.0, 2.0])), strict=True):
        assert np.allclose(found, wanted, atol=1e-8)


@rg.functional
def of_products(w) -> tuple[Array[fixed, ...], fixed]:
    back = rg.vjp(lambda v: (v * v, rg.sum(v)))(w, (2.0 * w, 3.0))
    return back, rg.jvp(lambda t: rg.sum(rg.sin(t * w)))(0.5, 1.0)


def test_directions_of_arrays() -> None:
    w = numbers(2, 4)
    back, forward = of_products(w)
    assert np.allclose(back, 4 * w * w + 3, atol=1e-8)
    assert forward == pytest.approx(np.sum(w * np.cos(0.5 * w)), abs=1e-8)


@rg.functional
def trained(params, X, y, steps: int) -> tuple[Array[fixed, ...], fixed]:
    def cost(p):
        return rg.sum((X @ p["w"] + p["b"] - y) ** 2) / len(y)

    def step(w, b, k):
        if k == 0:
            return w, b
        g = rg.grad(lambda w, b: cost({"w": w, "b": b}))(w, b)
        return step(w - 0.1 * g[0], b - 0.1 * g[1], k - 1)

    return step(params["w"], params["b"], steps)


def trained_by_numpy(w: Any, b: float, X: Any, y: Any, steps: int) -> tuple[Any, float]:
    for _ in range(steps):
        e = X @ w + b - y
        w, b = w - 0.2 * X.T @ e / len(y), b - 0.2 * e.sum() / len(y)
    return w, b


def test_descent_and_its_derivative() -> None:
    """Gradient descent on an array, a gradient at each step; the derivative of the end by the data."""
    X, y, w = numbers(1, 4, 3), numbers(2, 4), numbers(3, 3)
    found, b = trained({"w": w, "b": 0.25}, X, y, 3)
    wanted = trained_by_numpy(w, 0.25, X, y, 3)
    assert np.allclose(found, wanted[0], atol=1e-7)
    assert b == pytest.approx(wanted[1], abs=1e-7)
    slopes_of_b = rg.grad(trained, "y", loss="out_1")({"w": w, "b": 0.25}, X, y, 3)
    step = 1e-6
    by_differences = [
        (trained_by_numpy(w, 0.25, X, y + step * e, 3)[1] - trained_by_numpy(w, 0.25, X, y - step * e, 3)[1])
        / (2 * step)
        for e in np.eye(4)
    ]
    assert np.allclose(slopes_of_b, by_differences, atol=1e-6)
