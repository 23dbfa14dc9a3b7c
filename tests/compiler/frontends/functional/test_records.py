"""Dicts and objects with arrays, lists of arrays, and results whose types no annotation names."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg

X = np.array([[1.0, 0.5], [0.0, -1.0], [0.5, 0.25]])
Y = np.array([1.0, 0.0, 0.5])
W, B = np.array([0.5, 0.25]), 0.125


@dataclasses.dataclass
class Model:
    w: Any
    b: Any


class Pair(NamedTuple):
    w: Any
    b: Any


def objective(w: Any, b: Any) -> float:
    return float(np.sum((np.tanh(X @ w + b) - Y) ** 2))


def slopes(w: Any, b: Any) -> tuple[Any, float]:
    """The derivatives of `objective`, by its formula."""
    h = np.tanh(X @ w + b)
    inside = 2 * (h - Y) * (1 - h**2)
    return X.T @ inside, float(inside.sum())


def close(x: Any, y: Any) -> bool:
    return bool(np.allclose(x, y, atol=1e-7))


# ---------------------------------------------------------------------- results without annotation


@rg.functional
def product(x, w):
    return x @ w


@rg.functional
def with_sum(x, w):
    return x @ w, rg.sum(w), len(w)


@rg.functional
def stepped(p, x, y):
    g = rg.grad(lambda q: rg.sum((rg.tanh(x @ q["w"] + q["b"]) - y) ** 2))(p)
    return {"w": p["w"] - 0.5 * g["w"], "b": p["b"] - 0.5 * g["b"]}


def test_the_type_of_a_result_is_found_for_the_arguments():
    assert close(product(X, W), X @ W)
    assert close(product(X.T, X), X.T @ X)
    found = with_sum(X, W)
    assert close(found[0], X @ W)
    assert found[1:] == (0.75, 2)
    assert all(close(x, y) for x, y in zip(with_sum(X[:, :1], W[:1])[:2], (X[:, :1] @ W[:1], 0.5), strict=True))


def test_a_dict_of_arrays_is_a_result():
    by_w, by_b = slopes(W, B)
    found = stepped({"w": W, "b": B}, X, Y)
    assert list(found) == ["w", "b"]
    assert close(found["w"], W - 0.5 * by_w)
    assert close(found["b"], B - 0.5 * by_b)
    # The result is an argument of the next step.
    assert objective(**stepped(found, X, Y)) < objective(**found) < objective(W, B)


def test_every_face_takes_a_function_whose_result_is_an_array():
    for _ in range(2):  # the second call has the type from the first
        by_x, by_w = rg.jacobian(product)(X, W)
        assert close(by_w, X)
        assert close(by_x, np.einsum("ij,k->ijk", np.eye(3), W))
        assert close(rg.run(product, X, W).values.out, X @ W)
        assert close(rg.vjp(product, X, W)[1]({"out": Y}).w, Y @ X)
        assert close(rg.jvp(product, (X, W), {"w": W})[1].out, X @ W)
        assert close(rg.grad(product, "w", loss="out[1]")(X, W), X[1])
    again = pickle.loads(pickle.dumps(rg.jacobian(product, "w")))
    assert close(again(X, W), X)


def test_a_value_is_found_again_where_shapes_change():
    by_w = rg.jacobian(product, "w")
    assert close(by_w(X, W), X)
    assert close(by_w(X[:2, :1], W[:1]), X[:2, :1])


def test_a_function_as_a_result_is_refused():
    @rg.functional
    def shifted(x):
        return lambda y: x + y

    with pytest.raises(rg.CompileError, match="gives a function"):
        shifted(1.0)
