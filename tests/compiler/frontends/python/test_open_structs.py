"""Structs whose shapes their values decide, and constant arrays beside arrays of the run."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])


@rg.struct
class Layer:
    w: Array[fixed, "m", "n"]
    b: Array[fixed, "m"]

    @reversible
    def forward(self, y: Array[fixed, "m"], x: Array[fixed, "n"]) -> None:
        y += rg.tanh(self.w @ x + self.b)


@rg.struct
class Network:
    first: Layer
    rate: fixed


def layer(m: int, n: int) -> Layer:
    return Layer(np.arange(1.0, m * n + 1).reshape(m, n) / 8, np.arange(m) / 4)


def expected(of: Layer, x: np.ndarray) -> np.ndarray:
    return np.tanh(of.w @ x + of.b)


@reversible
def apply(y: Array[fixed, "m"], of: Layer, x: Array[fixed, "n"]) -> None:
    of.forward(y, x)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2), (3, 1)])
def test_one_class_has_several_shapes(shape: tuple[int, int]) -> None:
    of, x = layer(*shape), np.linspace(-0.5, 0.5, shape[1])
    out = apply(np.zeros(shape[0]), of, x)
    assert np.allclose(out.y, expected(of, x), atol=1e-8)
    assert type(out.of) is Layer
    check_inverse(apply, np.zeros(shape[0]), of, x)
    check_gradient(apply, np.zeros(shape[0]), of, x, loss="y[0]")


def test_shapes_of_two_arguments_differ() -> None:
    @reversible
    def network(y: Array[fixed, "k"], a: Layer, b: Layer, x: Array[fixed, "n"]) -> None:
        with rg.routine() as r:
            h = rg.zeros_like(a.b)
            a.forward(h, x)
        b.forward(y, h)
        ~r

    a, b, x = layer(2, 3), layer(1, 2), np.array([0.5, -0.25, 0.125])
    assert np.allclose(network(np.zeros(1), a, b, x).y, expected(b, expected(a, x)), atol=1e-8)
    gradient = rg.grad(network, "a", loss="y[0]")(np.zeros(1), a, b, x)
    assert gradient.w.shape == (2, 3)


def test_a_tree_in_its_place() -> None:
    tree = {"first": {"w": np.ones((2, 3)), "b": np.zeros(2)}, "rate": 2.0}

    @reversible
    def f(y: Array[fixed, "m"], net: Network, x: Array[fixed, "k"]) -> None:
        y += net.rate * (net.first.w @ x)

    out = f(np.zeros(2), tree, np.ones(3))
    assert out.y.tolist() == [6.0, 6.0]
    assert out.net["first"]["w"].shape == (2, 3)
    assert f(np.zeros(2), Network(layer(2, 3), 2.0), np.ones(3)).y.tolist() == [1.5, 3.75]


@LEVELS
def test_steps_of_a_descent_update_the_whole_struct(level: int) -> None:
    @reversible(level=level)
    def descend(of: Layer, gradient: Layer, rate: fixed) -> None:
        of -= gradient * rate

    out = descend(layer(2, 2), layer(2, 2), 0.5)
    assert np.array_equal(out.of.w, layer(2, 2).w / 2)
    check_inverse(descend, layer(2, 2), layer(2, 2), 0.5)


def test_arrays_and_lists_of_them() -> None:
    @reversible
    def summed(y: Array[fixed, "m"], layers: Array[Layer, "k"], x: Array[fixed, "n"]) -> None:
        for of in layers:
            of.forward(y, x)

    @reversible
    def chained(y: Array[fixed, "m"], layers, x: Array[fixed, "n"]) -> None:  # type: ignore[no-untyped-def]
        with rg.routine() as r:
            h = rg.zeros_like(layers[0].b)
            layers[0].forward(h, x)
        layers[1].forward(y, h)
        ~r

    x = np.array([0.5, -0.25, 0.125])
    assert np.allclose(summed(np.zeros(2), [layer(2, 3)] * 2, x).y, 2 * expected(layer(2, 3), x), atol=1e-8)
    out = chained(np.zeros(1), [layer(2, 3), layer(1, 2)], x)
    assert np.allclose(out.y, expected(layer(1, 2), expected(layer(2, 3), x)), atol=1e-8)


def test_made_and_captured_within_a_function() -> None:
    trained = layer(2, 3)

    @reversible
    def f(y: Array[fixed, "m"], w: Array[fixed, "m", "n"], b: Array[fixed, "m"], x: Array[fixed, "n"]) -> None:
        of = Layer(w, b)
        of.forward(y, x)
        trained.forward(y, x)

    x = np.array([0.5, -0.25, 0.125])
    out = f(np.zeros(2), trained.w, trained.b, x)
    assert np.allclose(out.y, 2 * expected(trained, x), atol=1e-8)


@pytest.mark.parametrize(
    ("of", "word"),
    [
        (Layer(np.ones((2, 3)), np.zeros(3)), "where m is 2 already"),
        (Layer(np.ones((2, 3, 1)), np.zeros(2)), "it has 3 axes"),
        ({"w": np.ones((2, 3))}, "`b` is lacking"),
        (np.ones((2, 3)), "one Layer"),
    ],
)
def test_shapes_that_disagree_are_refused(of: object, word: str) -> None:
    with pytest.raises(rg.RetrogradError, match=word) as error:
        apply(np.zeros(2), of, np.ones(3))
    assert error.value.code == "RG0603"


@LEVELS
def test_constant_arrays_beside_arrays(level: int) -> None:
    weights, matrix, numbers = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), [0.5, 0.25]

    @reversible(level=level)
    def f(y: Array[fixed, "n"], z: fixed, x: Array[fixed, "n"]) -> None:
        y += weights
        y += x * weights + numbers
        y -= rg.exp(weights) * 0 + (matrix @ x)
        y += numbers
        z += rg.sum(weights * x) + rg.max(weights + x)

    x = np.array([3.0, -1.0])
    out = f(np.zeros(2), 0.0, x)
    assert np.allclose(out.y, weights + x * weights + 2 * np.array(numbers) - matrix @ x)
    assert out.z == 1.0 + 4.0
    check_inverse(f, np.zeros(2), 0.0, x)
    check_gradient(f, np.zeros(2), 0.0, x, loss="z")
