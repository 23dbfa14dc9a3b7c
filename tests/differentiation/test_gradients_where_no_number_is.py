"""`value_and_grad(…, traps="inf")`: (∞, NaN) where the loss or its gradient has no number."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible


@reversible
def valley(y: fixed, x: Array[fixed, 2]):
    y += rg.exp(x[0]) + rg.exp(-0.01 * x[0]) + x[1] * x[1]


@reversible
def logarithm(y: fixed, p, a: fixed):
    y += rg.log(p["x"]) / a + p["w"][0]


@reversible
def steep(y: fixed, x: fixed):
    y += 1000000 * rg.exp(x)


@reversible
def power(y: fixed, u: lognum):
    y += fixed(u)


@reversible
def checked(y: fixed, x: fixed):
    assert x < 2
    y += x


def test_points_with_a_value_are_as_before() -> None:
    assert rg.value_and_grad(valley, "x", traps="inf")(0.0, [0.5, 1.0])[0] == valley(0.0, [0.5, 1.0]).y
    found, wanted = (rg.value_and_grad(valley, traps=t)(0.0, [0.5, 1.0]) for t in ("inf", "raise"))
    assert found[1].x.tolist() == wanted[1].x.tolist()


@pytest.mark.parametrize("x", [[50.0, 1.0], [0.0, 1e5], [1e12, 0.0], [-math.inf, 0.0]])
def test_overflows(x: list[float]) -> None:
    """In the run, in a square, and of the argument itself."""
    with pytest.raises(rg.RetrogradError):
        rg.value_and_grad(valley, "x")(0.0, x)
    value, gradient = rg.value_and_grad(valley, "x", traps="inf")(0.0, x)
    assert value == math.inf
    assert gradient.shape == (2,)
    assert np.isnan(gradient).all()


def test_other_arguments_without_a_value() -> None:
    g = rg.value_and_grad(logarithm, ("p", "a"), traps="inf")
    for x, a in ((0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)):
        value, (p, by_a) = g(0.0, {"x": x, "w": np.ones(3)}, a)
        assert value == math.inf
        assert math.isnan(p["x"])
        assert np.isnan(p["w"]).tolist() == [True] * 3
        assert math.isnan(by_a)
    assert g(0.0, {"x": 1.0, "w": np.ones(3)}, 2.0)[1][1] == 0.0
    assert rg.value_and_grad(power, "u", traps="inf")(0.0, 0.0)[0] == math.inf


def test_a_gradient_that_overflows_where_the_value_does_not() -> None:
    assert math.isfinite(steep(0.0, 7.0).y)
    whole = rg.value_and_grad(steep, "x", traps="inf", scale=20)
    value, gradient = whole(0.0, 7.0)
    assert value == math.inf
    assert math.isnan(gradient)


def test_other_errors_are_raised() -> None:
    g = rg.value_and_grad(valley, "x", traps="inf")
    with pytest.raises(rg.InputError, match="NaN"):
        g(0.0, [math.nan, 0.0])
    with pytest.raises(rg.InputError, match="RG0603"):
        g(0.0, [1.0])
    with pytest.raises(rg.ProgramTrap):
        rg.value_and_grad(checked, "x", traps="inf")(0.0, 3.0)
    with pytest.raises(rg.InputError, match="traps = 'nan'"):
        rg.value_and_grad(valley, "x", traps="nan")  # type: ignore[arg-type]


def test_an_error_names_the_option() -> None:
    """Where it helps: not of a check that fails, nor of a gradient without a value, nor where the option is given."""
    found = {}
    for name, call in {
        "overflow": lambda: rg.value_and_grad(valley, "x")(0.0, [50.0, 1.0]),
        "check": lambda: rg.value_and_grad(checked, "x")(0.0, 3.0),
        "gradient": lambda: rg.grad(valley, "x")(0.0, [50.0, 1.0]),
        "given": lambda: rg.value_and_grad(checked, "x", traps="inf")(0.0, 3.0),
    }.items():
        with pytest.raises(rg.ProgramTrap) as trap:
            call()
        found[name] = getattr(trap.value, "__notes__", [])
    assert len(found.pop("overflow")) == 1
    assert found == {"check": [], "gradient": [], "given": []}


def test_the_option_stays_in_batches_and_pickles() -> None:
    g = rg.value_and_grad(valley, "x", traps="inf")
    xs = np.array([[0.5, 1.0], [50.0, 1.0], [-1.0, 0.0]])
    values, gradients = rg.vmap(g, in_axes=(None, 0))(0.0, xs)
    assert np.isfinite(values).tolist() == [True, False, True]
    assert gradients[2].tolist() == g(0.0, xs[2])[1].tolist()
    assert pickle.loads(pickle.dumps(g))(0.0, xs[1])[0] == math.inf


@pytest.mark.parametrize("method", ["BFGS", "CG", "SLSQP"])
def test_optimisers_shorten_the_step(method: str) -> None:
    minimize = pytest.importorskip("scipy.optimize").minimize
    loss = rg.value_and_grad(valley, "x", traps="inf", precision="ignore")
    missing = 0

    def counted(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal missing
        found: tuple[float, np.ndarray] = loss(0.0, x)
        missing += found[0] == math.inf
        return found

    starts = {"BFGS": [-300.0, 1.0], "CG": [12.0, 3.0], "SLSQP": [-300.0, 1.0]}
    found = minimize(counted, starts[method], jac=True, method=method)
    assert missing
    assert found.x == pytest.approx([math.log(0.01) / 1.01, 0.0], abs=5e-3)
