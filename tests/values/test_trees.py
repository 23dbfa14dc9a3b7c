"""Arguments that are trees: dicts, data classes, named tuples and lists for structs, in and out."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.testing import fixed_numbers


@rg.struct
class Layer:
    w: Array[fixed, 2]
    b: fixed
    g: lognum


@rg.struct
class Net:
    first: Layer
    last: Layer
    n: int


@reversible
def declared(y: fixed, p: Net, x: Array[fixed, 2]):
    for i in range(2):
        y += p.first.w[i] * x[i] + p.last.w[i] * x[1 - i]
    y += p.first.b * p.last.b
    p.last.b += y
    p.first.g *= p.last.g
    p.n += 3


@reversible
def by_key(y: fixed, p, x: Array[fixed, 2]):
    for i in range(2):
        y += p["first"]["w"][i] * x[i] + p["last"]["w"][i] * x[1 - i]
    y += p["first"]["b"] * p["last"]["b"]
    p["last"]["b"] += y
    p["first"]["c"] ^= 5


@dataclass
class AnyLayer:
    w: Any
    b: Any
    g: Any


@dataclass(frozen=True)
class AnyNet:
    n: Any
    last: Any
    first: Any


LayerTuple = namedtuple("LayerTuple", "g w b")


def as_dict(s: Any) -> Any:
    return {name: as_dict(v) for name, v in vars(s).items()} if isinstance(s, Layer | Net) else s


def as_list(s: Any) -> Any:
    return [as_list(v) for v in vars(s).values()] if isinstance(s, Layer | Net) else s


def as_tuple(s: Any) -> Any:
    return tuple(map(as_tuple, vars(s).values())) if isinstance(s, Layer | Net) else s


def as_data(s: Any) -> Any:
    made = {Layer: AnyLayer, Net: AnyNet}.get(type(s))
    return s if made is None else made(**{name: as_data(v) for name, v in vars(s).items()})


def as_named(s: Any) -> Any:
    """Named tuples in a dict."""
    if isinstance(s, Layer):
        return LayerTuple(w=s.w, b=s.b, g=s.g)
    return {"last": as_named(s.last), "n": s.n, "first": as_named(s.first)}


FORMS = {"dict": as_dict, "list": as_list, "tuple": as_tuple, "data class": as_data, "named tuple": as_named}
NUMBERS = fixed_numbers(low=-4, high=4)


def same(found: Any, wanted: Any) -> bool:
    """Equal values in equal trees."""
    return type(found) is type(wanted) and repr(found) == repr(wanted)


def net(a: float, b: float) -> Net:
    return Net(Layer(np.array([a, 0.5]), b, 2.0), Layer(np.array([-1.0, b]), a, -0.5), 4)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(a=NUMBERS, b=NUMBERS)
def test_a_tree_stands_for_a_struct(form: Any, a: float, b: float) -> None:
    """Values, results and the way back are those of the struct, in the form that was given."""
    x = np.array([2.0, -3.0])
    wanted = declared(0.0, net(a, b), x)
    found = declared(0.0, form(net(a, b)), x)
    assert same(found.p, form(wanted.p))
    assert same((~declared)(*found).p, form((~declared)(*wanted).p))
    assert same(rg.run(declared, 0.0, form(net(a, b)), x).values.p, found.p)


@rg.struct
class Real:
    w: Array[fixed, 2]
    g: lognum


@reversible
def curved(y: fixed, p: Real, x: fixed):
    y += p.w[0] * p.w[0] * p.w[1] + fixed(p.g) * x + x * x * p.w[0]


@pytest.mark.parametrize("kind", ["dict", "list", "tuple"])
@given(a=NUMBERS, b=fixed_numbers(low=0.5, high=4))
def test_derivatives_have_the_form_of_the_tree(kind: str, a: float, b: float) -> None:
    def form(s: Real) -> Any:
        return dict(vars(s)) if kind == "dict" else {"list": list, "tuple": tuple}[kind](vars(s).values())

    s = Real(np.array([a, 0.5]), b)
    struct, tree = (0.0, s, b), (0.0, form(s), b)
    wanted = rg.grad(curved, "p")(*struct)
    assert same(rg.grad(curved, "p")(*tree), form(wanted))
    assert same(rg.value_and_grad(curved)(*tree)[1].p, form(wanted))
    assert same(rg.gradient_report(curved, "p")(*tree).gradients, form(wanted))
    assert same(rg.vjp(curved, *tree)[1]({"y": 1.0}).p, form(wanted))
    assert same(rg.hvp(curved, "p")(tree, form(s)), form(rg.hvp(curved, "p")(struct, s)))
    values, tangents = rg.jvp(curved, tree, {"p": form(s)})
    assert same(values.p, form(rg.jvp(curved, struct, {"p": s})[0].p))
    assert same(tangents.p, form(rg.jvp(curved, struct, {"p": s})[1].p))
    xs = np.array([1.0, -2.0])
    of_all = rg.vmap(rg.grad(curved, "p"), (None, None, 0), shared="sum")
    assert same(of_all(0.0, form(s), xs), form(of_all(0.0, s, xs)))


def test_a_dict_without_annotation_is_a_struct_of_its_own() -> None:
    p = {
        "first": {"w": [1.0, 2.0], "b": 0.5, "c": 6},
        "last": {"b": 2.0, "w": np.array([0.25, -1.0])},
    }
    x = np.array([2.0, 3.0])
    found = by_key(0.0, p, x)
    y = 2 + 6 + 0.75 - 2 + 1.0
    assert found.y == y
    assert (found.p["last"]["b"], found.p["first"]["c"]) == (2.0 + y, 3)
    assert [*found.p["last"]] == ["b", "w"]
    back = (~by_key)(*found)
    assert back.y == 0
    assert repr(back.p["first"]) == repr({"w": np.array([1.0, 2.0]), "b": 0.5, "c": 6})
    # Another dict of these types is compiled once; other shapes are another struct.
    first = by_key.compiled(0.0, p, x)
    assert by_key.compiled(1.0, {**p}, x) is first
    wider = {**p, "last": {"b": 2.0, "w": np.zeros(3)}}
    assert by_key.compiled(1.0, wider, x) is not first


@reversible
def layers(y: fixed, ws, x: Array[fixed, 2]):
    with rg.routine() as r:
        t = rg.zeros(3)
        for i in range(3):
            for j in range(2):
                t[i] += ws[0][i, j] * x[j]
    for i in range(3):
        y += ws[-1][i] * t[i]
    ~r


def test_a_list_of_arrays_of_several_shapes() -> None:
    ws = [np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0, 0.5])]
    x = np.array([0.5, 2.0])
    value, gradients = rg.value_and_grad(layers, "ws")(0.0, ws, x)
    assert value == ws[1] @ ws[0] @ x
    assert isinstance(gradients, list)
    assert np.array_equal(gradients[0], np.outer(ws[1], x))
    assert np.array_equal(gradients[1], ws[0] @ x)


@reversible
def total(y: fixed, ps):
    for p in ps:
        y += p.m * p.v
        p.v += 1


def test_a_list_of_dicts_is_an_array_of_structs() -> None:
    ps = [{"m": 2.0, "v": 3.0}, {"m": 4.0, "v": -1.0}]
    found = total(0.0, ps)
    assert found == (2.0, [{"m": 2.0, "v": 4.0}, {"m": 4.0, "v": 0.0}])
    assert rg.grad(total, "ps")(0.0, ps) == [{"m": 3.0, "v": 2.0}, {"m": -1.0, "v": 4.0}]
