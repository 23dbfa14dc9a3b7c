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


# ---------------------------------------------------------------------- dicts and objects


@rg.data
class Weights:
    w: rg.Array[rg.fixed, "n"]
    b: rg.fixed


@rg.data
class Layers:
    first: Weights
    second: "Weights"


@rg.functional
def loss(p, x, y):
    return rg.sum((rg.tanh(x @ p.w + p.b) - y) ** 2)


@rg.functional
def declared(p: Weights, x: np.ndarray, y: np.ndarray) -> float:
    match p:
        case Weights(w, b):
            return rg.sum((rg.tanh(x @ w + b) - y) ** 2)


@pytest.mark.parametrize("f", [loss, declared], ids=["plain", "declared"])
@pytest.mark.parametrize("cls", [Weights, Model, Pair], ids=lambda cls: cls.__name__)
def test_derivatives_by_an_object_are_objects_of_its_class(f, cls):
    if f is declared and cls is not Weights:
        f = loss
    p = cls(W, B)
    value, slope = rg.value_and_grad(f, "p")(p, X, Y)
    by_w, by_b = slopes(W, B)
    assert close(value, objective(W, B))
    for found in (slope, rg.grad(f, "p")(p, X, Y), rg.vjp(f, p, X, Y)[1]({"out": 1.0}).p):
        assert type(found) is cls
        assert close(found.w, by_w)
        assert close(found.b, by_b)
    direction = cls(np.array([1.0, -2.0]), 0.5)
    values, tangents = rg.jvp(f, (p, X, Y), {"p": direction})
    assert close(tangents.out, by_w @ direction.w + by_b * 0.5)
    assert type(values.p) is cls


@rg.functional
def moved(p: Weights, x, y, steps: int) -> Weights:
    for _ in range(steps):
        g = rg.grad(loss)(p, x, y)[0]
        p = Weights(b=p.b - 0.25 * g.b, w=p.w - 0.25 * g.w)
    return p


def test_an_object_is_a_state_and_a_result():
    w, b = W, B
    for _ in range(3):
        by_w, by_b = slopes(w, b)
        w, b = w - 0.25 * by_w, b - 0.25 * by_b
    found = moved(Weights(W, B), X, Y, 3)
    assert found == Weights(found.w.copy(), found.b)
    assert found != Weights(W, B)
    assert close(found.w, w)
    assert close(found.b, b)


def test_an_object_that_a_program_makes_is_of_the_class_that_it_names():
    @rg.functional
    def made(x: dict[str, np.ndarray]) -> Model:
        return Model(Pair(x["a"], b=2.0), {"b": x["a"] * 2, "c": (1.0, x["a"])})

    found = made({"a": W})
    assert type(found) is Model
    assert type(found.w) is Pair
    assert close(found.w.w, W)
    assert found.w.b == 2.0
    assert close(found.b["b"], 2 * W)
    assert close(found.b["c"][1], W)


def test_objects_stand_in_dicts_and_in_objects():
    @rg.functional
    def two(p: Layers, q):
        return rg.sum(p.first.w * p.second.w) * p.second.b + q["k"].b * rg.sum(q["k"].w)

    p = Layers(Weights(W, 1.0), second=Weights(W[::-1].copy(), 3.0))
    by_p, by_q = rg.grad(two)(p, {"k": Weights(np.arange(3.0), 2.0)})[:2]
    assert by_p == Layers(Weights(3 * W[::-1], 0.0), Weights(3 * W, 0.25))
    assert by_q == {"k": Weights(np.full(3, 2.0), 3.0)}


@rg.functional
def lacking(x):
    return Weights(x)


@rg.functional
def more(x):
    return Weights(x, 1.0, 2.0)


@rg.functional
def unknown(x):
    return Weights(x, c=1.0)


@rg.functional
def twice(x):
    return Weights(x, w=1.0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lacking, r"RG0715[\s\S]*field `b` of `Weights` has no value"),
        (more, r"RG0715[\s\S]*has 2 fields, and is given 3"),
        (unknown, r"RG0715[\s\S]*no field `c` left[\s\S]*Its fields are w, b"),
        (twice, r"RG0715[\s\S]*no field `w` left"),
    ],
    ids=["lacking", "more", "unknown", "twice"],
)
def test_a_constructor_that_does_not_fit_is_refused(made, message):
    with pytest.raises(rg.CompileError, match=message):
        made(W)


def test_a_constructor_takes_the_defaults_of_its_class():
    @dataclasses.dataclass
    class Scaled:
        x: Any
        by: float = 0.5

    @rg.functional
    def scaled(x):
        s = Scaled(x)
        return rg.sum(s.x) * s.by

    assert scaled(W) == 0.375


def test_two_classes_with_one_name_and_one_form_are_refused():
    other = dataclasses.make_dataclass("Model", ["w", "b"])

    @rg.functional
    def both(x):
        return rg.sum(Model(x, 1.0).w) + rg.sum(other(x, 2.0).w)

    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*two classes"):
        both(W)


def test_a_sum_of_classes_holds_no_array():
    @rg.functional
    def either(p: Weights | Layers):
        return 1.0

    with pytest.raises(rg.CompileError, match="has arrays, and stands in no list and in no sum"):
        either(Weights(W, B))


# ---------------------------------------------------------------------- lists of arrays


def relu_layers(params, x):
    for w, b in params:
        x = np.tanh(w @ x + b)
    return x


@rg.functional
def forward(params: list, x):
    for w, b in params:
        x = rg.tanh(w @ x + b)
    return rg.sum(x)


@rg.functional
def descended(params, x):
    grads = rg.grad(forward)(params, x)[0]
    return [(w - 0.5 * dw, b - 0.5 * db) for (w, b), (dw, db) in zip(params, grads)]  # noqa: B905


def test_a_list_of_arrays_is_a_tuple():
    params = [(X, Y), (np.ones((2, 3)) * 0.25, np.zeros(2))]
    found = descended(params, W)
    assert [tuple(p.shape for p in layer) for layer in found] == [((3, 2), (3,)), ((2, 3), (2,))]
    slope = rg.grad(forward, "params")(params, W)
    for layer, before, by in zip(found, params, slope, strict=True):
        for x, y, d in zip(layer, before, by, strict=True):
            assert close(x, y - 0.5 * d)
    assert np.sum(relu_layers(found, W)) < np.sum(relu_layers(params, W))


def test_a_list_display_of_arrays_is_indexed_and_gone_over():
    @rg.functional
    def listed(x, y):
        items = [x, y, *(x, 2 * y)]
        return sum(rg.sum(i) for i in items) + rg.sum(items[1]) + len(items)

    assert close(listed(W, Y), 2 * W.sum() + 4 * Y.sum() + 4)


def test_a_list_of_arrays_of_unknown_length_is_refused():
    @rg.functional
    def powers(x, n: int):
        return [x**k for k in range(n)]

    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*A list of arrays has a known length"):
        powers(W, 3)


# ---------------------------------------------------------------------- directions


@rg.functional
def hidden(p, x):
    return rg.tanh(x @ p["w"] + p["b"]), {"s": rg.sum(p["w"] * p["w"])}


@rg.functional
def pushed(p, x, direction):
    return rg.jvp(lambda q: hidden(q, x))(p, direction)


def test_a_direction_has_the_form_of_the_argument():
    p = {"w": W, "b": Y}
    direction = {"w": np.array([1.0, -2.0]), "b": np.array([0.5, 0.0, -1.0])}
    along, sums = pushed(p, X, direction)
    given, wanted = rg.jvp(hidden, (p, X), {"p": direction})
    h = np.tanh(X @ W + Y)
    assert close(along, (1 - h**2) * (X @ direction["w"] + direction["b"]))
    assert close(sums["s"], 2 * W @ direction["w"])
    assert close(wanted.out_0, along)
    assert close(given.out_0, h)


@rg.functional
def stretched(t, x, v):
    return rg.jvp(lambda s: rg.sin(s * x))(t, v)


@rg.functional
def curved(w, x, v):
    return rg.vjp(rg.grad(lambda u: rg.sum(rg.tanh(x @ u))))(w, v)


@rg.functional
def curved_forward(w, x, v):
    return rg.jvp(rg.grad(lambda u: rg.sum(rg.tanh(x @ u))))(w, v)


def test_directions_of_numbers_of_gradients_and_derivatives_of_them():
    v = np.array([1.0, -2.0])
    assert close(stretched(0.5, W, 2.0), 2.0 * W * np.cos(0.5 * W))
    assert close(rg.jacobian(stretched, "t")(0.5, W, 2.0), -2.0 * W**2 * np.sin(0.5 * W))
    h = np.tanh(X @ W)
    product = X.T @ (-2 * h * (1 - h**2) * (X @ v))
    assert close(curved(W, X, v), product)
    assert close(curved_forward(W, X, v), product)


@rg.functional
def second(w, x):
    return rg.sum(rg.hessian(lambda u: rg.sum(u * u))(w))


@rg.functional
def beside(w, x):
    return rg.jvp(lambda u: (u * 2.0, [1.0, 2.0]))(w, x)[0]


def test_directions_that_do_not_fit_are_refused_with_a_way_out():
    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*a direction of that form, not an Array\[fixed, 3\]"):
        stretched(W, 1.0, Y)
    with pytest.raises(rg.CompileError, match=r"RG0715[\s\S]*vjp\(grad\(f\)\)\(x, v\)"):
        second(W, Y)
    with pytest.raises(rg.CompileError, match=r"RG0715[\s\S]*beside a list"):
        beside(W, W)


# ---------------------------------------------------------------------- other values for some names


@rg.functional
def changed(p, d, x):
    return p._replace(b=x), dataclasses.replace(Model(x, 1.0), w=2 * x), {**d, "b": x, "c": d["a"] + 1.0}


@rg.functional
def misnamed(p, x):
    return dataclasses.replace(p, v=x)


@rg.functional
def spread(p, x):
    return {**p, "w": x}


def test_dicts_and_objects_with_other_values_for_some_names():
    pair, model, items = changed(Pair(W, Y), {"a": 1.0, "b": 2.0}, X[0])
    assert type(pair) is Pair
    assert close(pair.w, W)
    assert close(pair.b, X[0])
    assert type(model) is Model
    assert close(model.w, 2 * X[0])
    assert list(items) == ["a", "b", "c"]
    assert items["c"] == 2.0
    assert close(items["b"], X[0])
    with pytest.raises(rg.CompileError, match=r"RG0715[\s\S]*no field `v`[\s\S]*Its fields are w, b"):
        misnamed(Model(W, B), W)
    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*is for dicts"):
        spread(Model(W, B), W)
