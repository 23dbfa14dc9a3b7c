"""Reversible functions inside JAX and Torch: values and derivatives are those of rg."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


@reversible
def weighed(y: fixed, w: Array[fixed, 2], x: Array[fixed, 2]):
    for i in range(2):
        y += w[i] * w[i] * x[i]


P = {"w": np.array([1.0, -2.0]), "b": 1.5}
X = np.array([2.0, 0.5])


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed: to_jax is not tested")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: to_torch is not tested")


@reversible
def wave(y: fixed, n: int, x: fixed) -> None:
    y += rg.sin(x) * x * n


TRANSFORMED: dict[str, Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "plain": lambda jax, g: g,
    "jit": lambda jax, g: jax.jit(g),
    "checkpoint": lambda jax, g: jax.checkpoint(g),
    "jit of checkpoint": lambda jax, g: jax.jit(jax.checkpoint(g)),
    "cond": lambda jax, g: lambda x: jax.lax.cond(x > 0, g, lambda v: v, x),
    "scan": lambda jax, g: lambda x: jax.lax.scan(lambda c, _: (g(c), None), x, None, length=1)[0],
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_gradients_of_functions_that_jax_has_traced(jax: Any, name: str) -> None:
    """Literals of the source are among the arguments."""
    jax.config.update("jax_enable_x64", True)
    g = rg.to_jax(wave)
    wanted = rg.grad(wave, "x")(0.0, 3, 1.0)
    made = TRANSFORMED[name](jax, lambda x: g(0.0, 3, x))
    assert float(jax.grad(made)(1.0)) == wanted
    assert float(jax.jit(jax.grad(made))(1.0)) == wanted
    assert jax.vmap(jax.grad(made))(jax.numpy.ones(2)).tolist() == [wanted] * 2
    assert jax.jacrev(made)(1.0) == wanted


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


@reversible
def series(y: fixed, x: fixed, *cs: Array[fixed]):
    """y += Σ Σ cₖᵢ xᵏ"""
    for k, c in enumerate(cs):
        y += rg.sum(c) * x ** (k + 1)


def test_any_number_of_arguments(jax: Any, torch: Any) -> None:
    cs = [np.array([1.0, 2.0]), np.array([0.5]), np.array([-1.0, 0.25])]
    wanted = rg.grad(series, ("x", "cs"))(0.0, 0.5, *cs)
    of = jax.grad(rg.to_jax(series), argnums=(1, 2, 3, 4))(0.0, 0.5, *cs)
    assert float(of[0]) == wanted[0]
    for found, one in zip(of[1:], wanted[1], strict=True):
        assert np.array_equal(found, one)
    x, *tensors = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.5, *cs))
    y = rg.to_torch(series)(0.0, x, *tensors)
    y.backward()
    assert y.item() == series(0.0, 0.5, *cs).y
    assert x.grad.item() == wanted[0]
    for t, one in zip(tensors, wanted[1], strict=True):
        assert t.grad.tolist() == one.tolist()


def test_results_of_any_number_of_arguments(jax: Any, torch: Any) -> None:
    @reversible
    def doubled(x: fixed, *ys: fixed):
        for y in ys:
            y += 2 * x

    assert jax.grad(lambda x: rg.to_jax(doubled, "ys")(x, 1.0, 2.0)[1])(3.0) == 2.0
    assert jax.grad(rg.to_jax(doubled, "ys[1]"))(3.0, 1.0, 2.0) == 2.0
    x = torch.tensor(3.0, requires_grad=True)
    first, second = rg.to_torch(doubled, ("ys[0]", "ys[1]"))(x, 1.0, 2.0)
    (first + 2 * second).backward()
    assert (first.item(), x.grad.item()) == (7.0, 6.0)


@reversible
def waves(y: complex, s: fixed, z: complex, ws: Array[complex, "n"]):
    """y += z Σ w², s += |z|² Re w₀"""
    y += z * rg.sum(ws * ws)
    s += abs(z) ** 2 * ws[0].real


Z, WS = 1 + 2j, np.array([0.5j, 2 - 1j])


def test_complex_numbers_in_jax(jax: Any) -> None:
    """The gradients are those of the same function written in JAX, whose sign of the imaginary part is the other one."""
    np_ = jax.numpy

    def own(z: Any, ws: Any) -> Any:
        return abs(z) ** 2 * ws[0].real

    g = rg.to_jax(waves, "s")
    assert complex(rg.to_jax(waves)(0j, 0.0, Z, WS)) == pytest.approx(Z * (WS * WS).sum(), abs=1e-6)
    found = jax.grad(lambda z, ws: g(0j, 0.0, z, ws), argnums=(0, 1))(Z, np_.asarray(WS))
    wanted = jax.grad(own, argnums=(0, 1))(Z, np_.asarray(WS))
    assert np.allclose(found[0], wanted[0], atol=1e-5)
    assert np.allclose(found[1], wanted[1], atol=1e-5)
    assert np.conj(complex(found[0])) == pytest.approx(rg.grad(waves, "z", loss="s")(0j, 0.0, Z, WS), abs=1e-5)
    # A complex result: its real part, by way of cotangents that are complex.
    h = rg.to_jax(waves)
    found = jax.grad(lambda ws: (h(0j, 0.0, Z, ws) * (1 - 1j)).real)(np_.asarray(WS))
    wanted = jax.grad(lambda ws: (Z * np_.sum(ws * ws) * (1 - 1j)).real)(np_.asarray(WS))
    assert np.allclose(found, wanted, atol=1e-5)


def test_complex_numbers_in_torch(torch: Any) -> None:
    z = torch.tensor(Z, dtype=torch.complex128, requires_grad=True)
    ws = torch.tensor(WS, requires_grad=True)
    y, s = rg.to_torch(waves, ("y", "s"))(0j, 0.0, z, ws)
    ((y * (1 - 1j)).real + s).backward()
    found = z.grad.item(), ws.grad.clone()
    z.grad = ws.grad = None
    ((z * (ws * ws).sum() * (1 - 1j)).real + z.abs() ** 2 * ws[0].real).backward()
    assert found[0] == pytest.approx(z.grad.item(), abs=1e-8)
    assert torch.allclose(found[1], ws.grad, atol=1e-8)


@pytest.mark.parametrize("adapter", ["to_jax", "to_torch"])
def test_outputs_that_are_parts(adapter: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(adapter.removeprefix("to_"))

    @reversible
    def spread(p, m: Array[fixed, 2, 3], c: complex, x: fixed):
        p["a"] += x * x
        m[1, 2] += 3 * x
        c += complex(x, 5 * x)

    g = getattr(rg, adapter)(spread, ("p.a", "m[1, 2]", "m[1]", "c.im"))
    a, one, row, im = g({"a": 1.0, "w": np.zeros(2)}, np.zeros((2, 3)), 1j, 2.0)
    assert (float(a), float(one), row.tolist(), float(im)) == (5.0, 6.0, [0.0, 0.0, 6.0], 11.0)
    with pytest.raises(rg.NotDifferentiable, match="part"):
        getattr(rg, adapter)(spread, "m[")


def test_gradients_of_parts(jax: Any, torch: Any) -> None:
    args = ({"w": np.zeros(2)}, 3.0)

    @reversible
    def f(p, x: fixed):
        p["w"][1] += x * x

    assert jax.grad(lambda x: rg.to_jax(f, "p.w[1]")(args[0], x))(3.0) == 6.0 == rg.grad(f, "x", loss="p.w[1]")(*args)
    x = torch.tensor(3.0, requires_grad=True)
    rg.to_torch(f, "p.w[-1]")(args[0], x).backward()
    assert x.grad.item() == 6.0


def test_a_tensor_that_changes_before_the_way_back_is_refused(torch: Any) -> None:
    """As by operations of Torch's own; an array of NumPy beside it is copied."""
    g = rg.to_torch(weighed)
    weights, x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True), np.array([3.0, 4.0])
    y = g(0.0, weights, x)
    x[0] = 100.0
    y.backward()
    assert weights.grad.tolist() == [2 * 1.0 * 3.0, 2 * 2.0 * 4.0]
    y = g(0.0, weights, x)
    with torch.no_grad():
        weights[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_array_that_changes_before_the_way_back_in_jax(jax: Any) -> None:
    x = np.array([3.0, 4.0])
    _, pull = jax.vjp(lambda w: rg.to_jax(weighed)(0.0, w, x), jax.numpy.array([1.0, 2.0]))
    x[0] = 100.0
    assert pull(jax.numpy.ones(()))[0].tolist() == [6.0, 16.0]
