"""Gradients by running backward, against closed forms and central differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from retrograd.examples import bessel, bundle_adjustment, graph_embedding

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex, dot, logsumexp


@reversible
def complex_log(re: fixed, im: fixed, x: fixed, y: fixed):
    with rg.routine() as r:
        n = rg.sqrt(x * x + y * y)
    re += rg.log(n)
    im += rg.atan2(y, x)
    ~r


def test_closed_forms() -> None:
    assert rg.grad(complex_log, argnums=(2, 3), loss=0)(0.0, 0.0, 3.0, 4.0) == pytest.approx((0.12, 0.16), abs=1e-8)
    assert rg.grad(complex_log, argnums=("x", "y"), loss="im")(0.0, 0.0, 3.0, 4.0) == pytest.approx(
        (-0.16, 0.12), abs=1e-8
    )


def test_one_argument_several_or_all_by_name() -> None:
    alone = rg.grad(complex_log, argnums="y")(0.0, 0.0, 3.0, 4.0)
    assert isinstance(alone, float)
    every = rg.grad(complex_log)(0.0, 0.0, 3.0, 4.0)
    assert every._fields == ("im", "x", "y")
    assert (every.im, every.y) == (0.0, alone)


def test_value_and_gradient() -> None:
    value, (gx,) = rg.value_and_grad(complex_log, argnums=(2,))(0.0, 0.0, 3.0, 4.0)
    assert value == pytest.approx(math.log(5), abs=1e-9)
    assert gx == pytest.approx(0.12, abs=1e-8)


def test_the_gradient_of_a_dot_product_is_the_other_vector() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    out = rg.grad(dot)(0.0, x, y)
    assert out.x.tolist() == y.tolist()
    assert out.y.tolist() == x.tolist()


def test_squares_and_shared_reads() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += x * x + 3 * x

    assert rg.grad(f, argnums=1)(0.0, 5.0) == 13.0


def test_softmax_from_the_library() -> None:
    x = np.array([0.5, -1.0, 2.0])
    expected = np.exp(x) / np.exp(x).sum()
    assert rg.grad(logsumexp, argnums="x")(0.0, x) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("f", [bessel.bessel, bessel.bessel_log])
def test_golden_of_bessel(f: rg.Reversible) -> None:
    assert rg.grad(f, argnums="z", scale=16)(0.0, 1.0) == pytest.approx(0.2102436158518, abs=1e-8)


def central(function: Any, x: np.ndarray[Any, Any], h: float = 1e-6) -> np.ndarray[Any, Any]:
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (function(x + step) - function(x - step)) / (2 * h)
    return out


def test_graph_embedding_against_differences() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    found = rg.grad(graph_embedding.embedding_loss, argnums="x")(0.0, x)
    assert found == pytest.approx(central(graph_embedding.reference, x), abs=1e-6)


def test_a_projection_against_differences() -> None:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 1)
    camera, point = problem.cameras[0], problem.points[0]

    @reversible
    def first(out: fixed, camera: Array[fixed, 11], point: Array[fixed, 3]):
        with rg.routine() as r:
            pixel = rg.zeros(2)
            bundle_adjustment.project(pixel, camera, point)
        out += pixel[0]
        ~r

    found = rg.grad(first, argnums="point")(0.0, camera, point)
    expected = central(lambda p: float(bundle_adjustment.reference(camera, p, 1.0, np.zeros(2))[0]), point)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_structs_and_lognums() -> None:
    @reversible
    def f(out: fixed, z: Complex, s: lognum):
        out += z.re * z.im
        out += fixed(s)

    g = rg.grad(f)(0.0, Complex(2.0, 3.0), 4.0)
    assert (g.z.re, g.z.im) == (3.0, 2.0)
    assert g.s == pytest.approx(1.0, abs=1e-8)


def test_branches_loops_recursion_and_uncalls() -> None:
    @reversible
    def power(y: fixed, x: fixed, n: int):
        with rg.routine() as r:
            less = n - 1
            inner = 0.0
            if n > 0:
                power(inner, x, less)
        if n == 0:
            y += 1
        else:
            y += inner * x
        ~r

    assert rg.grad(power, argnums="x")(0.0, 1.5, 4) == pytest.approx(4 * 1.5**3, abs=1e-7)

    @reversible
    def relu(y: fixed, x: fixed):
        y += rg.select(x > 0, x, 0)

    assert [rg.grad(relu, argnums="x")(0.0, x) for x in (2.0, -2.0, 0.0)] == [1.0, 0.0, 0.0]


def test_memory_does_not_grow_with_the_loop() -> None:
    @reversible
    def long(y: fixed, x: fixed, n: int):
        for _ in range(n):
            y += rg.sin(x)

    sizes = {len(rg.run(long, 0.0, 0.5, n).machine.memory) for n in (10, 1000)}
    assert len(sizes) == 1
    assert rg.grad(long, argnums="x")(0.0, 0.5, 1000) == pytest.approx(1000 * math.cos(0.5), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"argnums": 1}, "`n` of `f` is int"), ({"loss": 1}, "the loss `n`"), ({"argnums": "z"}, "no argument 'z'"), ({"scale": 99}, "scale = 99")],
)  # fmt: skip
def test_what_has_no_derivative_is_a_type_error(options: dict[str, Any], said: str) -> None:
    @reversible
    def f(y: fixed, n: int):
        y += n

    with pytest.raises(TypeError) as caught:
        rg.grad(f, **options)(0.0, 3)
    assert said in str(caught.value)
