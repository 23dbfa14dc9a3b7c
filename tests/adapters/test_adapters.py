"""Reversible functions inside JAX and Torch: values and derivatives are those of rg."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.derivatives import _adapters


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


@reversible
def turned(y: complex, z: complex):
    y += z * z


def test_forward_mode_in_jax(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    g, x = rg.to_jax(power, mode="forward"), jax.numpy.asarray([1.0, 2.0, 3.0])

    def cube(x: Any) -> Any:
        return g(0.0, x, 3)

    assert [float(v) for v in jax.jvp(cube, (x,), (x,))] == [36.0, 108.0]
    for transformed in (jax.jacfwd(cube), jax.jit(jax.jacfwd(cube)), lambda x: jax.vmap(jax.jacfwd(cube))(x[None])[0]):
        assert transformed(x).tolist() == [3.0, 12.0, 27.0]
    # All results of structs, arrays and integers.
    given = {"w": np.array([1.0, 0.0]), "b": 0.5}, np.array([0.0, 1.0])
    every = rg.to_jax(f, None, mode="forward")
    values, tangents = jax.jvp(lambda p, x: every(0.0, p, x, 3), (P, X), given)
    wanted = rg.jvp(f, (0.0, P, X, 3), {"p": given[0], "x": given[1]})
    assert (float(values[0]), int(values[3])) == (wanted[0].y, wanted[0].n)
    assert float(tangents[0]) == wanted[1].y
    assert np.array_equal(tangents[1]["w"], wanted[1].p["w"])
    assert np.array_equal(tangents[2], wanted[1].x)
    assert complex(jax.jvp(lambda z: rg.to_jax(turned, mode="forward")(0j, z), (1 + 2j,), (1j,))[1]) == -4 + 2j


def test_second_derivatives_in_jax(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    g, x = rg.to_jax(power), jax.numpy.asarray([1.0, 2.0, 3.0])
    wanted = rg.hessian(power, "x")(0.0, x, 3).tolist()
    h = jax.hessian(lambda x: g(0.0, x, 3))
    assert h(x).tolist() == jax.jit(h)(x).tolist() == wanted
    assert jax.vmap(h)(jax.numpy.stack([x, 2 * x])).tolist() == [wanted, (2 * np.array(wanted)).tolist()]

    # Through other functions of JAX, and of a result that is an array and an argument, too.
    def outer(x: Any) -> Any:
        return jax.numpy.sum(rg.to_jax(f, "x")(0.0, P, x, 3) ** 2)

    def alike(x: Any) -> Any:
        y = (P["w"] * x * x * 3).sum() + 1.5**2
        return x[0] ** 2 + (x[1] + y) ** 2

    np.testing.assert_allclose(jax.hessian(outer)(X), jax.hessian(alike)(jax.numpy.asarray(X)), rtol=1e-7)
    by_both = jax.hessian(rg.to_jax(f), argnums=(1, 2))(0.0, P, X, 3)
    assert by_both[0]["w"][1].tolist() == [[12.0, 0.0], [0.0, 3.0]]
    assert by_both[0]["b"][0]["b"] == 2.0


def test_reverse_over_reverse_in_jax(jax: Any) -> None:
    """grad of grad and jacrev of jacrev: those of forward over reverse, in batches, by trees, and beside an int."""
    jax.config.update("jax_enable_x64", True)
    g, xs = rg.to_jax(wave), jax.numpy.asarray(XS, float)

    def ours(x: Any) -> Any:
        return g(0.0, jax.numpy.asarray(3), x)

    def formula(x: Any) -> Any:
        return jax.numpy.sin(x) * x * 3

    twice, wanted = jax.grad(jax.grad(ours)), jax.grad(jax.grad(formula))
    for found in (jax.vmap(twice)(xs), jax.jit(jax.vmap(twice))(xs), jax.vmap(jax.hessian(ours))(xs)):
        np.testing.assert_allclose(found, jax.vmap(wanted)(xs), atol=1e-7)
    np.testing.assert_allclose(jax.jit(twice)(xs[0]), wanted(xs[0]), atol=1e-7)
    by = (1, 2)
    forward = jax.hessian(rg.to_jax(f), argnums=by)(0.0, P, X, 3)
    back = jax.jacrev(jax.jacrev(rg.to_jax(f), argnums=by), argnums=by)(0.0, P, X, 3)
    jax.tree.map(np.testing.assert_array_equal, back, forward)
    with pytest.raises(Exception, match=r"(?i)differentiation rule|JVP|transpose"):
        jax.grad(twice)(xs[0])


def test_what_a_mode_does_not_have_in_jax(jax: Any) -> None:
    x = jax.numpy.ones(2)
    with pytest.raises(rg.InputError, match="mode = 'both'"):
        rg.to_jax(power, mode="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="transpose"):
        jax.grad(lambda x: rg.to_jax(power, mode="forward")(0.0, x, 3))(x)
    with pytest.raises(TypeError, match="jvp"):
        jax.jvp(lambda x: rg.to_jax(power)(0.0, x, 3), (x,), (x,))
    with pytest.raises(Exception, match="real numbers"):
        jax.hessian(lambda z: rg.to_jax(turned)(0j, z + 0j).real)(1.0)


class LentByDLPack:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class LentByInterface:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self._array = array


@reversible
def scaled_sum(y: fixed, x: Array[fixed, "n"], z: Array[fixed, "n"]):
    y += rg.sum(x * z)


@rg.functional
def first_two(x: Array[fixed, "n"]):
    return x[0] * x[1]


ASKED: dict[str, Callable[[Any], Any]] = {
    "call": lambda x: scaled_sum(0.0, x, x).y,
    "run": lambda x: rg.run(scaled_sum, 0.0, x, x).values.y,
    "grad": lambda x: rg.grad(scaled_sum, "x")(0.0, x, x).tolist(),
    "vjp": lambda x: rg.vjp(scaled_sum, 0.0, x, x)[1]({"y": 1.0, "x": x}).x.tolist(),
    "jvp": lambda x: rg.jvp(scaled_sum, (0.0, x, x), {"x": x})[1].y,
    "hvp": lambda x: rg.hvp(scaled_sum)((0.0, x, x), {"x": x}).z.tolist(),
    "hessian": lambda x: rg.hessian(scaled_sum)(0.0, x, x).x.z.tolist(),
    "jacobian": lambda x: rg.jacobian(scaled_sum, "x")(0.0, x, x).tolist(),
    "run_batch": lambda x: rg.run_batch(wave, np.zeros(2), 1, x, in_axes=(0, None, 0)).values.y.tolist(),
    "vmap": lambda x: rg.vmap(wave)(np.zeros(2), np.ones(2, int), x).y.tolist(),
    "functional": first_two,
    "ranges": lambda x: str(rg.ranges(scaled_sum, 0.0, x, x).fits()),
    "error_bound": lambda x: rg.error_bound(scaled_sum, 0.0, x, x).as_dict(),
    "to_words": lambda x: rg.fixed.to_words(x).tolist(),
}


@pytest.mark.parametrize("name", ASKED)
def test_arrays_that_other_libraries_lend(name: str) -> None:
    """By DLPack and by NumPy's array interface, in every call that takes arrays."""
    x = np.array([1.0, 2.5])
    wanted = ASKED[name](x)
    for lent in (LentByDLPack(x), LentByInterface(x), memoryview(x)):
        assert ASKED[name](lent) == wanted


def test_results_are_lent() -> None:
    """Results are arrays of NumPy, which lend their floats."""
    found = rg.run(scaled_sum, 0.0, [1.0, 0.1], [2.0, 0.3]).values.x
    assert np.from_dlpack(found).tolist() == found.tolist()
    assert np.asarray(LentByInterface(found)).tolist() == found.tolist()
    assert memoryview(found).tolist() == found.tolist()


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


Z, COMPLEX = 1 + 2j, np.array([0.5j, 2 - 1j])


def test_complex_numbers_in_jax(jax: Any) -> None:
    """The gradients are those of the same function written in JAX, whose sign of the imaginary part is the other one."""
    np_ = jax.numpy

    def own(z: Any, ws: Any) -> Any:
        return abs(z) ** 2 * ws[0].real

    g = rg.to_jax(waves, "s")
    assert complex(rg.to_jax(waves)(0j, 0.0, Z, COMPLEX)) == pytest.approx(Z * (COMPLEX * COMPLEX).sum(), abs=1e-6)
    found = jax.grad(lambda z, ws: g(0j, 0.0, z, ws), argnums=(0, 1))(Z, np_.asarray(COMPLEX))
    wanted = jax.grad(own, argnums=(0, 1))(Z, np_.asarray(COMPLEX))
    assert np.allclose(found[0], wanted[0], atol=1e-5)
    assert np.allclose(found[1], wanted[1], atol=1e-5)
    assert np.conj(complex(found[0])) == pytest.approx(rg.grad(waves, "z", loss="s")(0j, 0.0, Z, COMPLEX), abs=1e-5)
    # A complex result: its real part, by way of cotangents that are complex.
    h = rg.to_jax(waves)
    found = jax.grad(lambda ws: (h(0j, 0.0, Z, ws) * (1 - 1j)).real)(np_.asarray(COMPLEX))
    wanted = jax.grad(lambda ws: (Z * np_.sum(ws * ws) * (1 - 1j)).real)(np_.asarray(COMPLEX))
    assert np.allclose(found, wanted, atol=1e-5)


def test_complex_numbers_in_torch(torch: Any) -> None:
    z = torch.tensor(Z, dtype=torch.complex128, requires_grad=True)
    ws = torch.tensor(COMPLEX, requires_grad=True)
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


# ---------------------------------------------------------------------- batches


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """The runs of functions that an adapter makes, by name."""
    made: list[str] = []

    def noted(name: str) -> Any:
        whole = getattr(_adapters, name)

        def call(*args: Any, **keywords: Any) -> Any:
            made.append(name)
            return whole(*args, **keywords)

        return patch.object(_adapters, name, call)

    with noted("pullback_alone"), noted("batch_run"), noted("batch_pullback"):
        yield made


XS = np.linspace(-2.0, 2.0, 6)
WS = np.arange(1.0, 7.0).reshape(3, 2)


def wave_alone() -> tuple[Any, Any]:
    """(values, gradients) at XS, by single calls."""
    return [wave(0.0, 3, x).y for x in XS], [rg.grad(wave, "x")(0.0, 3, x) for x in XS]


@pytest.mark.parametrize("jit", [False, True])
def test_vmap_in_jax_is_one_batch(jax: Any, calls: list[str], jit: bool) -> None:
    jax.config.update("jax_enable_x64", True)
    values, gradients = wave_alone()
    g = rg.to_jax(wave)
    one = jax.grad(lambda x: g(0.0, 3, x))
    made = {
        "values": jax.vmap(lambda x: g(0.0, 3, x)),
        "gradients": jax.vmap(one),
        "gradient of the sum": jax.grad(lambda xs: jax.vmap(lambda x: g(0.0, 3, x))(xs).sum()),
        "vmap of jit": jax.vmap(jax.jit(one)),
        "of integers": lambda xs: jax.vmap(jax.grad(lambda x, n: g(0.0, n, x)))(xs, np.full(6, 3)),
        "jacobian": jax.vmap(jax.jacrev(lambda x: g(0.0, 3, x))),
    }
    for name, f in made.items():
        calls.clear()
        found = (jax.jit(f) if jit else f)(XS)
        assert found.tolist() == (values if name == "values" else gradients), name
        assert calls.count("pullback_alone") == 0, name
        # JAX leaves out values without a use.
        assert calls.count("batch_run") <= 1, name
        assert calls, name
        assert calls.count("batch_pullback") == (name != "values"), name


def test_nested_vmap_in_jax(jax: Any, calls: list[str]) -> None:
    jax.config.update("jax_enable_x64", True)
    _, gradients = wave_alone()
    one = jax.grad(lambda x, n: rg.to_jax(wave)(0.0, n, x))
    found = jax.vmap(jax.vmap(one, in_axes=(0, None)))(XS.reshape(2, 3), np.full(2, 3))
    assert found.ravel().tolist() == gradients
    # One axis for the points, another one for the integer.
    table = jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(XS, np.arange(3))
    assert table.tolist() == [[rg.grad(wave, "x")(0.0, n, x) for n in range(3)] for x in XS]
    assert calls.count("pullback_alone") == 0
    assert calls.count("batch_pullback") == 2
    assert jax.vmap(one, in_axes=(0, None))(np.zeros((0,)), 3).shape == (0,)
    assert jax.vmap(one, in_axes=(0, None))(XS[:1], 3).tolist() == gradients[:1]


def test_vmap_in_jax_over_some_arguments(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    x = np.array([3.0, 4.0])
    one = jax.grad(lambda w, x: rg.to_jax(weighed)(0.0, w, x), argnums=(0, 1))
    wanted = [rg.grad(weighed, ("w", "x"))(0.0, w, x) for w in WS]
    for found in (jax.vmap(one, in_axes=(0, None))(WS, x), jax.vmap(one, in_axes=(1, None))(WS.T, x)):
        for k in range(2):
            assert found[k].tolist() == [w[k].tolist() for w in wanted]
    # The cotangents of an argument that all elements share are added up.
    total = jax.grad(lambda x: jax.vmap(lambda w: rg.to_jax(weighed)(0.0, w, x))(WS).sum())(x)
    assert total.tolist() == sum(w[1] for w in wanted).tolist()


def test_vmap_of_structs_and_tuples_in_jax(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    p = {"w": WS, "b": np.array([1.0, 2.0, 3.0])}
    found = jax.vmap(jax.grad(rg.to_jax(f), argnums=1), in_axes=(None, 0, None, None))(0.0, p, X, 3)
    _, after, *_ = jax.vmap(rg.to_jax(f, None), in_axes=(None, {"w": 0, "b": None}, None, 0))(
        0.0, {"w": WS, "b": 1.5}, X, np.arange(3)
    )
    for i in range(3):
        wanted = rg.grad(f, "p")(0.0, {"w": WS[i], "b": p["b"][i]}, X, 3)
        assert (found["w"][i].tolist(), float(found["b"][i])) == (wanted["w"].tolist(), wanted["b"])
        assert (after["w"][i].tolist(), float(after["b"][i])) == (WS[i].tolist(), 1.5)
    cs = jax.vmap(jax.grad(rg.to_jax(series), argnums=(2, 3)), in_axes=(None, None, 0, None))(0.0, 0.5, WS, X)
    for i in range(3):
        wanted = rg.grad(series, "cs")(0.0, 0.5, WS[i], X)
        assert [c[i].tolist() for c in cs] == [c.tolist() for c in wanted]


@reversible
def listed(y: fixed, ps, x: Array[fixed, 2]):
    for i in range(2):
        y += ps[i].a * x[i]


def test_vmap_of_lists_of_structs_in_jax(jax: Any) -> None:
    jax.config.update("jax_enable_x64", True)
    args = [{"a": WS[:, 0]}, {"a": 2.0}], X
    found = jax.vmap(jax.grad(rg.to_jax(listed), argnums=1), in_axes=(None, [{"a": 0}, {"a": None}], None))(0.0, *args)
    assert [one["a"].tolist() for one in found] == [[2.0] * 3, [0.5] * 3]


def test_an_element_of_a_batch_that_traps_in_jax_is_named(jax: Any) -> None:
    @reversible
    def quotient(y: fixed, x: fixed):
        y += 1 / x

    g = rg.to_jax(quotient)
    with pytest.raises(Exception, match="element 1: division by zero"):
        jax.block_until_ready(jax.vmap(lambda x: g(0.0, x))(jax.numpy.array([1.0, 0.0, 2.0])))


def test_numbers_of_jax_that_numpy_lacks(jax: Any) -> None:
    low = jax.numpy.bfloat16
    x = jax.numpy.array([1.5, 2.5], dtype=low)
    y, back = jax.vjp(lambda x: rg.to_jax(power)(jax.numpy.zeros((), low), x, 2), x)
    assert (y.dtype, float(y)) == (low, 8.5)
    (found,) = back(jax.numpy.ones((), low))
    assert (found.dtype, found.tolist()) == (low, [3.0, 5.0])
    assert power(0.0, x, 2).y == 8.5
    for tracing in (jax.jit, jax.grad):
        with pytest.raises(rg.InputError, match=r"rg.to_jax"):
            tracing(lambda x: power(0.0, x, 2).y)(jax.numpy.array([1.5, 2.5]))


def test_equal_calls_share_the_code_that_jax_compiles(jax: Any) -> None:
    """Static arguments are compared by identity, so that 1 is not True."""

    @reversible
    def chosen(y: fixed, x: fixed, k: rg.static):
        if k is True:
            y += 2 * x
        else:
            y += x

    g = rg.to_jax(chosen)
    assert [float(g(0.0, 1.5, k)) for k in (1, True, 1)] == [1.5, 3.0, 1.5]
    h = rg.to_jax(power)
    for k in (*range(1, 70), 1):
        assert float(h(0.0, np.array([1.0, 1.0]), k)) == 2.0
    assert [float(h(0.0, np.array([2.0]), k)) for k in (1, 2, 1, 3)] == [2.0, 4.0, 2.0, 8.0]


def test_transforms_of_torch(torch: Any, calls: list[str]) -> None:
    values, gradients = wave_alone()
    g, func, xs = rg.to_torch(wave), torch.func, torch.tensor(XS)
    one = func.grad(lambda x: g(0.0, 3, x))
    assert one(xs[1]).item() == gradients[1]
    calls.clear()
    assert func.vmap(lambda x: g(0.0, 3, x))(xs).tolist() == values
    assert func.vmap(one)(xs).tolist() == gradients
    assert func.vmap(func.vmap(one))(xs.reshape(2, 3)).flatten().tolist() == gradients
    assert func.grad(lambda xs: func.vmap(lambda x: g(0.0, 3, x))(xs).sum())(xs).tolist() == gradients
    assert func.vmap(func.grad(lambda x, n: g(0.0, n, x)))(xs, torch.full((6,), 3)).tolist() == gradients
    assert (calls.count("pullback_alone"), calls.count("batch_pullback")) == (0, 4)
    assert func.jacrev(rg.to_torch(f, "x"), argnums=2)(0.0, P, torch.tensor(X), 3).tolist() == (
        rg.jacobian(f, "x", "x")(0.0, P, X, 3).tolist()
    )


def test_vmap_in_torch_over_some_arguments(torch: Any) -> None:
    w, x = torch.tensor(WS), torch.tensor([3.0, 4.0], dtype=torch.float64)
    one = torch.func.grad(lambda w, x: rg.to_torch(weighed)(0.0, w, x), argnums=(0, 1))
    wanted = [rg.grad(weighed, ("w", "x"))(0.0, each, x.numpy()) for each in WS]
    for found in (torch.func.vmap(one, in_dims=(0, None))(w, x), torch.func.vmap(one, in_dims=(1, None))(w.T, x)):
        for k in range(2):
            assert found[k].tolist() == [each[k].tolist() for each in wanted]
    total = torch.func.grad(lambda x: torch.func.vmap(lambda w: rg.to_torch(weighed)(0.0, w, x))(w).sum())(x)
    assert total.tolist() == sum(each[1] for each in wanted).tolist()
    p = {"w": w, "b": torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)}
    found = torch.func.vmap(torch.func.grad(lambda p: rg.to_torch(f)(0.0, p, X, 3)))(p)
    for i in range(3):
        one = rg.grad(f, "p")(0.0, {"w": WS[i], "b": i + 1.0}, X, 3)
        assert (found["w"][i].tolist(), found["b"][i].item()) == (one["w"].tolist(), one["b"])


def test_tensors_that_numpy_does_not_hold(torch: Any) -> None:
    x = torch.tensor([1.5, 2.5], dtype=torch.bfloat16, requires_grad=True)
    y = rg.to_torch(power)(torch.zeros((), dtype=torch.bfloat16), x, 2)
    y.backward()
    assert (y.dtype, y.item()) == (torch.bfloat16, 8.5)
    assert (x.grad.dtype, x.grad.tolist()) == (torch.bfloat16, [3.0, 5.0])
    assert power(0.0, x.detach(), 2).y == 8.5
    assert power(0.0, [x.detach()[0], 2.5], 2).y == 8.5
    ws = torch.tensor(COMPLEX).conj()
    assert waves(0j, 0.0, 1j, ws).y == waves(0j, 0.0, 1j, np.conj(COMPLEX)).y
    with pytest.raises(rg.InputError, match="Sparse"):
        rg.to_torch(power)(0.0, x.detach().to_sparse(), 2)


def test_tensors_in_calls_of_rg(torch: Any) -> None:
    x = torch.tensor([1.5, 2.5], requires_grad=True)
    for call in (
        lambda x: power(0.0, x, 2).y,
        lambda x: rg.grad(power)(0.0, x, 2),
        torch.func.grad(lambda x: power(0.0, x, 2).y),
    ):
        with pytest.raises(rg.InputError, match=r"requires a gradient(.|\n)*rg.to_torch"):
            call(x)
    with pytest.raises(rg.InputError, match=r"rg.to_torch"):
        torch.func.vmap(lambda x: power(0.0, x, 2).y)(torch.ones((3, 2)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:`torch.jit:FutureWarning")  # of Torch's own parts
def test_second_derivatives_and_forward_mode_in_torch(torch: Any) -> None:
    """By each order of the two modes, in batches, and of several arguments: those of the same formula in Torch."""
    func, g = torch.func, rg.to_torch(wave)
    xs = torch.tensor(XS, dtype=torch.float64)

    def ours(x: Any) -> Any:
        return g(0.0, 3, x)

    def formula(x: Any) -> Any:
        return torch.sin(x) * x * 3

    orders: dict[str, Callable[[Any], Any]] = {
        "jvp": lambda h: lambda x: func.jvp(h, (x,), (torch.ones_like(x),))[1],
        "hessian": func.hessian,
        "grad of grad": lambda h: func.grad(func.grad(h)),
        "reverse over forward": lambda h: func.jacrev(func.jacfwd(h)),
    }
    for name, order in orders.items():
        for x in xs:
            assert torch.allclose(order(ours)(x), order(formula)(x), atol=1e-6), name
        assert torch.allclose(func.vmap(order(ours))(xs), func.vmap(order(formula))(xs), atol=1e-6), name
    w, v = (torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in ([1.0, 2.0], [3.0, 4.0]))
    k = rg.to_torch(weighed)
    found = func.hessian(lambda w, v: k(0.0, w, v), argnums=(0, 1))(w, v)
    expected = func.hessian(lambda w, v: (w * w * v).sum(), argnums=(0, 1))(w, v)
    for row, other in zip(found, expected, strict=True):
        for block, wanted in zip(row, other, strict=True):
            assert torch.allclose(block, wanted, atol=1e-6)
    settings = {"eps": 1e-4, "atol": 1e-3}
    assert torch.autograd.gradcheck(lambda w, v: k(0.0, w, v), (w, v), check_forward_ad=True, **settings)
    assert torch.autograd.gradgradcheck(lambda w, v: k(0.0, w, v), (w, v), **settings)
    matrices = func.jacfwd(lambda x: rg.to_torch(f, "x")(0.0, P, x, 3))(torch.tensor(X))
    assert torch.allclose(
        matrices, func.jacrev(lambda x: rg.to_torch(f, "x")(0.0, P, x, 3))(torch.tensor(X)), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # of Torch's own parts
def test_other_derivatives_in_torch_are_refused(torch: Any) -> None:
    """Third derivatives, and forward mode twice."""
    x = torch.tensor(1.5, dtype=torch.float64)
    grad, jacfwd = torch.func.grad, torch.func.jacfwd

    def g(x: Any) -> Any:
        return rg.to_torch(wave)(0.0, 3, x)

    for derivative in (grad(grad(grad(g))), jacfwd(jacfwd(g))):
        with pytest.raises(rg.NotDifferentiable, match=r"is not there in Torch"):
            derivative(x)
