"""Reversible functions inside JAX and Torch: values and derivatives are those of rg."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, p, x: Array[fixed, 2], n: int):
    for i in range(2):
        y += p["w"][i] * x[i] * x[i] * n
    y += p["b"] * p["b"]
    x[1] += y
    n += 1


@reversible
def power(y: fixed, x: Array[fixed, "m"], k: rg.static):
    for i in range(len(x)):
        y += x[i] ** k


P = {"w": np.array([1.0, -2.0]), "b": 1.5}
X = np.array([2.0, 0.5])


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed: to_jax is not tested")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: to_torch is not tested")


def test_values_and_gradients_in_jax(jax: Any) -> None:
    values = f(0.0, P, X, 3)
    y, p, x, n = rg.to_jax(f, None)(0.0, P, X, 3)
    assert (float(y), int(n)) == (values.y, values.n)
    assert np.array_equal(x, values.x)
    assert float(p["b"]) == values.p["b"]
    of = jax.grad(rg.to_jax(f), argnums=(1, 2))(0.0, P, X, 3)
    wanted = rg.grad(f, ("p", "x"))(0.0, P, X, 3)
    assert np.array_equal(of[0]["w"], wanted[0]["w"])
    assert float(of[0]["b"]) == wanted[0]["b"]
    assert np.array_equal(of[1], wanted[1])


def test_lists_are_arrays(jax: Any, torch: Any) -> None:
    wanted = f(0.0, P, X, 3)
    for found in (rg.to_jax(f, "x")(0.0, P, [2.0, 0.5], 3), rg.to_torch(f, "x")(0.0, P, [2.0, 0.5], 3)):
        assert found.tolist() == wanted.x.tolist()


def test_jax_transforms_the_function(jax: Any) -> None:
    g = rg.to_jax(power)
    x = jax.numpy.asarray([1.0, 2.0, 3.0])
    assert jax.jit(jax.grad(lambda x: 2 * g(0.0, x, 3) + x[0]))(x).tolist() == [7.0, 24.0, 54.0]
    assert jax.vmap(lambda x: g(0.0, x, 2))(jax.numpy.stack([x, 2 * x])).tolist() == [14.0, 56.0]
    rows = jax.jacrev(rg.to_jax(f, "x"), argnums=1)(0.0, P, X, 3)
    assert np.array_equal(rows["w"], rg.jacobian(f, "p", "x")(0.0, P, X, 3)[:, :2])
    # Integers have no derivative, and their cotangents are ignored.
    several = rg.to_jax(f, ("n", "y"))
    assert jax.grad(lambda x: several(0.0, P, x, 3)[1])(X).tolist() == rg.grad(f, "x")(0.0, P, X, 3).tolist()


def test_an_inverse_in_jax(jax: Any) -> None:
    assert float(rg.to_jax(~power)(14.0, X, 2)) == 14.0 - 4.25
    assert jax.grad(rg.to_jax(~power), argnums=1)(14.0, X, 2).tolist() == [-4.0, -1.0]


def test_values_and_gradients_in_torch(torch: Any) -> None:
    values, wanted = f(0.0, P, X, 3), rg.grad(f, ("p", "x"))(0.0, P, X, 3)
    p = {"w": torch.tensor(P["w"], requires_grad=True), "b": torch.tensor(1.5, requires_grad=True)}
    x = torch.tensor(X, requires_grad=True)
    n = torch.tensor(3)
    y, after, n_after = rg.to_torch(f, ("y", "x", "n"))(0.0, p, x, n)
    assert (y.item(), n_after.item()) == (values.y, values.n)
    assert after.tolist() == values.x.tolist()
    (3 * y).backward()
    assert p["w"].grad.tolist() == (3 * wanted[0]["w"]).tolist()
    assert p["b"].grad.item() == 3 * wanted[0]["b"]
    assert p["b"].grad.dtype is torch.float32
    assert x.grad.tolist() == (3 * wanted[1]).tolist()
    assert n.grad is None


def test_a_result_that_several_steps_use_in_torch(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    g = rg.to_torch(power)
    inner = torch.stack([g(0.0, x, 2), g(0.0, x, 3)])
    g(0.0, inner, 2).backward()
    # (Σx²)² + (Σx³)²
    assert x.grad.tolist() == [2 * 5 * 2 * 1 + 2 * 9 * 3 * 1, 2 * 5 * 2 * 2 + 2 * 9 * 3 * 4]
    assert torch.autograd.gradcheck(lambda x: g(0.0, x, 3), (x,), eps=1e-4, atol=1e-3)


def test_traps_of_the_function_come_out(torch: Any) -> None:
    @reversible
    def quotient(y: fixed, x: fixed):
        y += 1 / x

    with pytest.raises(rg.ProgramTrap, match="division by zero"):
        rg.to_torch(quotient)(0.0, torch.tensor(0.0))


@pytest.mark.parametrize(("adapter", "module"), [("to_jax", "jax"), ("to_torch", "torch")])
def test_a_system_that_is_not_installed_is_named(adapter: str, module: str) -> None:
    # Imported before, since the patch takes modules away that are imported under it.
    adapted = getattr(rg, adapter)
    with patch.dict(sys.modules, {module: None}), pytest.raises(rg.InputError, match=f"needs the package `{module}`"):
        adapted(f)


@pytest.mark.parametrize("adapter", ["to_jax", "to_torch"])
def test_formats_and_engines(adapter: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(adapter.removeprefix("to_"))
    make = getattr(rg, adapter)
    # 0.3 has 8 binary places in Q24.8: 0.30078125
    assert float(make(power, format="Q24.8", engine="reference")(0.0, [0.3], 1)) == 0.30078125
    with pytest.raises(rg.InputError, match="RG0604"):
        make(power, format="Q24")(0.0, [0.3], 1)
    with pytest.raises(rg.InputError, match="RG1001"):
        make(power, engine="threadde")


@pytest.mark.parametrize("adapter", ["to_jax", "to_torch"])
def test_outputs_that_do_not_exist(adapter: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(adapter.removeprefix("to_"))
    with pytest.raises(rg.NotDifferentiable, match="no argument 'z'"):
        getattr(rg, adapter)(f, "z")
