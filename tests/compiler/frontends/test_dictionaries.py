"""Dictionaries as arguments: keys are any constants that can be hashed, and values are found by key."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_inverse

ORIGIN = Fraction(1, 3)
SITES = frozenset({1, 2})


@reversible
def raise_all(d, w) -> None:
    for k in d:
        d[k] += w["a b"] * 2


@reversible
def energy(y: fixed, d, w, x: fixed) -> None:
    raise_all(d, w)
    for k in d:
        y += d[k] * d[k]
    y += d[1, 2] * x * len(d) + w[None][1] * w["key0"] + w[ORIGIN] * w[SITES]
    d["a"], d[3] = d[3], d["a"]


def by_python(y: float, d: dict[Any, float], w: dict[Any, Any], x: float) -> tuple[float, dict[Any, float]]:
    d = copy.copy(d)
    for k in d:
        d[k] += w["a b"] * 2
    y += sum(v * v for v in d.values())
    y += d[1, 2] * x * len(d) + w[None][1] * w["key0"] + w[ORIGIN] * w[SITES]
    d["a"], d[3] = d[3], d["a"]
    return y, d


PLACES: dict[Any, float] = {"a": 1.0, (1, 2): 2.0, 3: 3.0, -1.5: 4.0, "in": 0.5}
RATES: dict[Any, Any] = {"a b": 0.5, None: [1.0, 2.0], "key0": 0.25, ORIGIN: 1.5, SITES: 2.0}


@pytest.mark.parametrize("order", [[*PLACES], [*PLACES][::-1], [3, "in", (1, 2), "a", -1.5]])
def test_values_are_found_by_key_in_any_order_of_the_keys(order: list[Any]) -> None:
    d = {k: PLACES[k] for k in order}
    found = energy(0.25, d, RATES, 0.5)
    assert (found.y, found.d) == by_python(0.25, d, RATES, 0.5)
    assert list(found.d) == order
    back = (~energy)(*found)
    assert (back.y, back.d, back.x) == (0.25, d, 0.5)
    assert pickle.loads(pickle.dumps(found)).d == found.d
    check_inverse(energy, 0.25, d, RATES, 0.5)


def test_equal_keys_are_one_key() -> None:
    """1, 1.0 and True are one key in Python."""

    @reversible
    def read(y: fixed, d) -> None:
        y += d[1] + d[True] + d[1.0]

    assert [read(0.0, {key: 2.0}).y for key in (1, True, 1.0)] == [6.0, 6.0, 6.0]


def test_derivatives_have_the_keys() -> None:
    args = (0.0, PLACES, RATES, 0.5)
    gradient = rg.grad(energy, "d")(*args)
    step = 2.0**-8
    for k in PLACES:
        up, down = (by_python(0.0, PLACES | {k: PLACES[k] + s}, RATES, 0.5)[0] for s in (step, -step))
        assert gradient[k] == pytest.approx((up - down) / (2 * step), abs=1e-6)
    assert list(gradient) == list(PLACES)
    assert rg.grad(energy, "d[3]")(*args) == gradient[3]
    assert rg.grad(energy, "d[1, 2]")(*args) == gradient[1, 2]
    assert rg.grad(energy, "w")(*args)[ORIGIN] == 2.0
    assert rg.grad(energy, "x", loss="d[3]")(*args) == 0.0
    assert rg.jvp(energy, args, {"d": {3: 1.0, (1, 2): 0.5}})[1].y == gradient[3] + gradient[1, 2] / 2
    assert rg.hvp(energy, "d")(args, {(1, 2): 1.0}) == dict.fromkeys(PLACES, 0.0) | {(1, 2): 2.0}
    np.testing.assert_array_equal(rg.hessian(energy, "d")(*args), 2 * np.eye(len(PLACES)))


def test_batches_take_lists_of_dictionaries() -> None:
    rows = [PLACES, {k: v + 1 for k, v in PLACES.items()}]
    found = rg.run_batch(energy, 0.0, rows, RATES, 0.5, in_axes=(None, 0, None, None)).values
    assert found.y.tolist() == [by_python(0.0, d, RATES, 0.5)[0] for d in rows]
    assert [one[1, 2] for one in found.d] == [3.0, 4.0]


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda: energy(0.0, {"a": 1.0, 3: 2.0}, RATES, 0.5), "RG0702", r"has no key \(1, 2\)"),
        (lambda: energy(0.0, PLACES | {4: "x"}, RATES, 0.5), "RG0603", r"`d\[4\]` of `energy` is given the str"),
        (lambda: rg.grad(energy, "d[4]")(0.0, PLACES, RATES, 0.5), "RG0603", r"d\[4\].*\n.*\n.*-1.5"),
        (lambda: rg.jvp(energy, (0.0, PLACES, RATES, 0.5), {"d": {4: 1.0}}), "RG0603", "no field 4"),
    ],
)
def test_messages_name_the_key(call: Any, code: str, text: str) -> None:
    with pytest.raises(rg.RetrogradError, match=text) as caught:
        call()
    assert code in str(caught.value)


@rg.functional
def doubled(p):
    return p["b"] * 2.0


@pytest.mark.parametrize("key", [3, None, "in", "a b"])
def test_functional_functions_take_names_alone(key: Any) -> None:
    with pytest.raises(rg.CompileError, match="which is no name"):
        doubled({"b": 1.0, key: 2.0})
    assert doubled({"b": 1.0, "c": 2.0}) == 2.0


@reversible
def by_variable(y: fixed, d, n: int, xs: Array[fixed, 2]) -> None:
    y += d[n] + xs[n]


def test_a_key_is_known_when_the_program_is_compiled() -> None:
    with pytest.raises(rg.CompileError, match="RG0717"):
        by_variable(0.0, {0: 1.0, 1: 2.0}, 1, [1.0, 2.0])


MIXED: dict[Any, Any] = {"a": 1.0, (1, 2): 2.5, "m": -3.0}


GONE_THROUGH = """
from retrograd import fixed

def f(d, e, y: fixed, n: int):
    for v in d.values():
        y += v * v
    for i, (k, v) in enumerate(d.items()):
        y += v * (i + 1)
        n += len(k) if k != "m" else 10
    for (k, v), w in zip(d.items(), e.values()):
        y += v * sum(w) if k in ("a", "m") else w[0]
    for key in d.keys():
        d[key] += y
    for w in e.values():
        w += y
        w[0] -= 0.5
    y += sum(v for k, v in d.items() if k != "a") + len(d.values()) + max(d.values())
    n += sum(len(k) for k in d) + sum(i for i, k in enumerate(d.keys()) if k == "m")
    if "a" in d and "b" not in d and "p" in e.keys():
        n += 100
"""


def test_items_keys_and_values_are_those_of_python(tmp_path: Any, written: Any) -> None:
    ours = reversible(written(tmp_path / "ours.py", GONE_THROUGH).f)
    theirs = written(tmp_path / "theirs.py", GONE_THROUGH + "    return d, y, n\n").f
    e = {"p": np.array([1.0, 2.0]), 7: np.array([0.25]), "r": np.array([4.0, 8.0, -2.0])}
    changed = copy.deepcopy(e)
    found = ours({**MIXED}, copy.deepcopy(e), 0.5, 3)
    assert (found.d, found.y, found.n) == theirs(dict(MIXED), changed, 0.5, 3)
    assert all((found.e[k] == changed[k]).all() for k in e)
    back = (~ours)(*found)
    assert (back.d, back.y, back.n) == (MIXED, 0.5, 3)
    assert all((back.e[k] == e[k]).all() for k in e)


@reversible
def changed_by_value(d) -> None:
    for v in d.values():
        v += 1.0


@reversible
def read_after_a_change(d, y: fixed) -> None:
    for k, v in d.items():
        d[k] += 1.0
        y += v


def test_a_number_of_a_dict_is_changed_by_its_key() -> None:
    with pytest.raises(rg.RetrogradError, match=r"RG0709.*`v` cannot be changed.*number of a dict") as caught:
        changed_by_value(MIXED)
    assert caught.value.diagnostics[0].hint == "write `d[k] += …`"
    with pytest.raises(rg.RetrogradError, match="RG0731"):
        read_after_a_change(MIXED, 0.0)
