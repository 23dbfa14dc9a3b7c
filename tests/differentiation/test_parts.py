"""Losses and outputs that are parts of arguments, and Jacobians of several results."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import fixed_numbers


@rg.struct
class Pair:
    x: fixed
    v: Array[fixed, 2]


@reversible
def spread(a: Pair, m: Array[fixed, 2, 3], ps: Array[Pair, "n"], k: fixed, z: fixed):
    """Sums only: a reverse sweep."""
    a.x += k * k * z
    a.v[1] += rg.sin(k) + z
    for i in range(2):
        for j in range(3):
            m[i, j] += k * (i + 1) + z * z * j
    for p in ps:
        p.v[0] += k * z
        p.x += z


@reversible
def turned(a: Pair, m: Array[fixed, 2, 3], ps: Array[Pair, "n"], k: fixed, z: fixed):
    """Each number depends on others that change."""
    spread(a, m, ps, k, z)
    rg.rot(a.x, a.v[1], k)
    m[0, 1], m[1, 2] = m[1, 2], m[0, 1]
    m[1, 0] += a.x * z
    ps[0].x += m[1, 0] * ps[0].v[0]
    k += m[0, 1]


def start(k: float, z: float) -> tuple[Any, ...]:
    ps = np.empty(2, dtype=object)
    ps[:] = [Pair(x=0.25, v=np.array([0.5, 1.0])), Pair(x=1.0, v=np.array([0.0, -1.0]))]
    return Pair(x=0.5, v=np.array([1.0, 2.0])), np.arange(6.0).reshape(2, 3) / 4, ps, k, z


#: path -> (cotangents that pick the part by `vjp`, the value after the run)
PATHS: dict[str, Any] = {
    "a.x": (lambda: {"a": {"x": 1.0}}, lambda r: r.a.x),
    "a.v[1]": (lambda: {"a": {"v": [0.0, 1.0]}}, lambda r: r.a.v[1]),
    "a.v[-1]": (lambda: {"a": {"v": [0.0, 1.0]}}, lambda r: r.a.v[1]),
    "m[1, 0]": (lambda: {"m": [[0.0] * 3, [1.0, 0.0, 0.0]]}, lambda r: r.m[1, 0]),
    " m [0][ -2 ] ": (lambda: {"m": [[0.0, 1.0, 0.0], [0.0] * 3]}, lambda r: r.m[0, 1]),
    "ps[1].v[0]": (lambda: {"ps": [None, {"v": [1.0, 0.0]}]}, lambda r: r.ps[1].v[0]),
    "ps[0].x": (lambda: {"ps": [{"x": 1.0}, None]}, lambda r: r.ps[0].x),
    "k": (lambda: {"k": 1.0}, lambda r: r.k),
}
NUMBERS = fixed_numbers(low=-2, high=2)


@pytest.mark.parametrize("f", [spread, turned, ~turned], ids=["sums", "turned", "inverse"])
@pytest.mark.parametrize("path", PATHS)
@given(k=NUMBERS, z=NUMBERS)
def test_a_loss_that_is_a_part(f: Any, path: str, k: float, z: float) -> None:
    """∂(part)/∂(k, z) is the pullback of the unit cotangent of the part."""
    args = start(k, z)
    cotangents, value_of = PATHS[path]
    values, pullback = rg.vjp(f, *args)
    pulled = pullback(cotangents())
    value, gradients = rg.value_and_grad(f, ("z", "k"), path)(*args)
    assert value == value_of(values)
    assert gradients == (pulled.z, pulled.k)
    report = rg.gradient_report(f, ("z", "k"), path)(*args)
    assert (report.value, report.gradients) == (value, gradients)


def test_second_derivatives_of_a_part() -> None:
    hessian = rg.hessian(spread, ("k", "z"), "a.x")(*start(0.5, 3.0))
    assert hessian == ((6.0, 1.0), (1.0, 0.0))
    assert rg.hvp(spread, ("k", "z"), "a.x")(start(0.5, 3.0), [1.0, 2.0]) == (8.0, 1.0)


def test_a_batch_of_a_part() -> None:
    ks = np.array([0.5, 1.0, -1.5])
    axes = (None, None, None, 0, None)
    a, m, ps, _, z = start(0.0, 3.0)
    assert rg.vmap(rg.grad(spread, "k", "a.x"), axes)(a, m, ps, ks, z).tolist() == [3.0, 6.0, -9.0]
    total = rg.vmap(rg.value_and_grad(spread, "z", "a.x"), axes, shared="sum")(a, m, ps, ks, z)
    assert total == (3 * 0.5 + 3.0 * (ks**2).sum(), (ks**2).sum())


def test_the_argument_that_holds_the_loss_is_left_out() -> None:
    gradients = rg.grad(spread, loss="m[0, 0]")(*start(0.5, 3.0))
    assert gradients._fields == ("a", "ps", "k", "z")


@pytest.mark.parametrize("argnums", ["k", ("z", "k"), None])
@given(k=NUMBERS, z=NUMBERS)
def test_jacobians_of_several_results(argnums: Any, k: float, z: float) -> None:
    """A tuple in the order of the outputs, of the Jacobians of each."""
    args = start(k, z)
    paths = ("m[1]", "a", "ps[0].v[0]")
    together = rg.jacobian(turned, argnums, paths)(*args)
    assert len(together) == 3
    for path, found in zip(paths, together, strict=True):
        alone = rg.jacobian(turned, argnums, path)(*args)
        if argnums is None:
            alone = tuple(getattr(alone, name) for name in found._fields)
            assert found._fields == ("k", "z")
        assert str(tuple(found) if argnums is None else found) == str(alone)


def test_jacobians_of_all_results_by_name() -> None:
    found = rg.jacobian(spread, "z", None)(*start(2.0, 3.0))
    assert found._fields == ("a", "m", "ps", "k", "z")
    assert found.a.tolist() == [4.0, 0.0, 1.0]
    assert found.m.tolist() == [[0.0, 6.0, 12.0], [0.0, 6.0, 12.0]]
    assert (found.k, found.z) == (0.0, 1.0)


def test_rows_of_an_array_are_outputs() -> None:
    args = start(2.0, 3.0)
    whole = rg.jacobian(spread, "z", "m")(*args)
    assert rg.jacobian(spread, "z", "m[1]")(*args).tolist() == whole[1].tolist()
    assert rg.jacobian(spread, "z", "m[-1, 2]")(*args) == whole[1, 2]


@pytest.mark.long
@pytest.mark.parametrize("f", [spread, turned])
def test_a_gradient_within_a_program_takes_every_part(f: rg.Reversible) -> None:
    """d_k += ∂L/∂k is rg.grad's, nothing else changes, and the second derivative is that of the Hessian."""
    args = start(0.5, 1.25)
    for path in PATHS:
        slope = rg.reversible_gradient(f, "k", loss=path)
        out = rg.run(slope, *args, 0.5)
        assert out.values[-1] - 0.5 == pytest.approx(rg.grad(f, "k", loss=path)(*args), abs=1e-9)
        assert out.erased_bits == 0
        assert rg.run(slope, *out.values, backward=True).values[-1] == 0.5
        assert [repr(v) for v in out.values[:-1]] == [repr(v) for v in rg.run(~f, *rg.run(f, *args).values).values]
        second = rg.grad(rg.grad(f, "k", loss=path), "k")(*args)
        assert second == pytest.approx(rg.hessian(f, "k", loss=path)(*args), abs=1e-8)


def test_a_gradient_by_a_part_is_pickled_and_described() -> None:

    slope = rg.reversible_gradient(spread, "k", loss="ps[1].v[0]")
    assert slope.__doc__ == "d_k += ∂ps[1].v[0]/∂k; all else as it was."
    again = pickle.loads(pickle.dumps(slope))
    assert again(*start(0.5, 1.25), 0.0)[-1] == slope(*start(0.5, 1.25), 0.0)[-1]


@reversible
def squares(y: Array[fixed, 2], xs: Array[fixed, "n"]) -> None:
    for x in xs:
        y[1] += x * x


slope_of_squares = rg.reversible_gradient(squares, "xs", loss="y[1]")


@pytest.mark.parametrize("level", [0, 1])
def test_a_gradient_by_a_part_of_the_run(level: int) -> None:
    """Arrays whose length is known only when the program runs, and a loss in an array."""

    @reversible(level=level)
    def f(y: Array[fixed, 2], xs: Array[fixed, 4], g: Array[fixed, 4], n: int) -> None:
        slope_of_squares(y, xs[:n], g[:n])

    for n in range(5):
        out = f([0.0, 1.0], [1.0, 2.0, 3.0, 4.0], [1.0] * 4, n)
        assert out.g.tolist() == [1 + 2 * x if k < n else 1.0 for k, x in enumerate([1.0, 2.0, 3.0, 4.0])]
        assert out.y.tolist() == [0.0, 1.0]
        assert (~f)(*out).g.tolist() == [1.0] * 4
