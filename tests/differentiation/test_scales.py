"""`scale="auto"` is the greatest scale that works, for every derivative: found here by trying all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.cli.main import main

FORMAT = "32,16"
HIGHEST = 14


@reversible
def product(y: fixed, a: fixed, x: Array[fixed, "n"]):
    for i in range(len(x)):
        y += a * x[i] * x[i]


@reversible
def squares(y: Array[fixed, 2], x: Array[fixed, 2]):
    y[0] += 100 * x[0] * x[0]
    y[1] += x[1] * x[1]


@reversible
def with_a_lognum(y: fixed, x: lognum):
    y += 3 * fixed(x)


def of_grad(scale: Any) -> Any:
    return rg.grad(product, scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_value_and_grad(scale: Any) -> Any:
    return rg.value_and_grad(product, "x", scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_a_batch(scale: Any) -> Any:
    each = rg.vmap(rg.grad(product, scale=scale, format=FORMAT), in_axes=(None, None, 0))
    return each(0.0, 2.0, np.array([[3.0, 40.0], [0.1, 500.0], [1.0, 1.0]]) / 4)


def of_a_shared_sum(scale: Any) -> Any:
    each = rg.vmap(rg.value_and_grad(product, "a", scale=scale, format=FORMAT), in_axes=(None, None, 0), shared="sum")
    return each(0.0, 2.0, np.array([[3.0, 40.0], [0.1, 50.0]]) / 4)


def of_vjp(scale: Any) -> Any:
    return rg.vjp(squares, [0.0, 0.0], [3.0, 5.0], scale=scale, format=FORMAT)[1]({"y": [0.5, 2.0]})


def of_jvp(scale: Any) -> Any:
    return rg.jvp(squares, ([0.0, 0.0], [3.0, 5.0]), {"x": [0.5, 2.0]}, scale=scale, format=FORMAT)[1]


def of_jacobian(scale: Any) -> Any:
    return rg.jacobian(squares, "x", scale=scale, format=FORMAT)([0.0, 0.0], [3.0, 5.0])


def of_a_sparse_jacobian(scale: Any) -> Any:
    return rg.jacobian(squares, "x", pattern=np.eye(2), scale=scale, format=FORMAT)([0.0, 0.0], [3.0, 5.0]).data


def of_hvp(scale: Any) -> Any:
    return rg.hvp(product, "x", scale=scale, format=FORMAT)((0.0, 2.0, [3.0, 40.0]), [1.0, 2.0])


def of_hessian(scale: Any) -> Any:
    return rg.hessian(product, "x", scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])


def of_a_report(scale: Any) -> Any:
    report = rg.gradient_report(product, scale=scale, format=FORMAT)(0.0, 2.0, [3.0, 40.0])
    return report.gradients, report.scale, report.backward_steps


def of_a_lognum(scale: Any) -> Any:
    return rg.grad(with_a_lognum, scale=scale, format=FORMAT)(0.0, 20.0)


DERIVATIVES = [of_grad, of_value_and_grad, of_a_batch, of_a_shared_sum, of_vjp, of_jvp, of_jacobian, of_a_sparse_jacobian,
               of_hvp, of_hessian, of_a_report, of_a_lognum]  # fmt: skip


def works(derivative: Callable[[Any], Any], scale: int) -> bool:
    try:
        derivative(scale)
    except (rg.ProgramTrap, rg.InputError) as error:
        if error.code not in ("RG0404", "RG0601"):
            raise
        return False
    return True


def flat(result: Any) -> list[float]:
    if isinstance(result, tuple | list | np.ndarray):
        return [x for part in result for x in flat(part)]
    return [float(result)]


@pytest.mark.share(6)
@pytest.mark.parametrize("derivative", DERIVATIVES, ids=lambda f: f.__name__)
def test_auto_is_the_greatest_scale_that_works(derivative: Callable[[Any], Any]) -> None:
    working = [k for k in range(HIGHEST + 1) if works(derivative, k)]
    assert 0 < len(working) <= HIGHEST, "all scales work, or none: the case shows nothing"
    assert flat(derivative("auto")) == flat(derivative(working[-1]))


def test_small_gradients_keep_more_bits() -> None:
    x, seed = np.array([3.0, 5.0]) / 2**8, {"y": [2.0**-4, 2.0**-10]}
    plain, auto = (rg.vjp(squares, [0.0, 0.0], x, scale=s, format=FORMAT)[1](seed).x[1] for s in (0, "auto"))
    assert auto == 2 * 5 / 2**18
    assert abs(plain - auto) >= 2.0**-18


def test_an_overflow_at_scale_0_is_raised() -> None:
    with pytest.raises(rg.ProgramTrap) as raised:
        rg.grad(product, "a", scale="auto", format="32,24")(0.0, 0.001, [120.0, 1.0])
    assert raised.value.code == "RG0404"


def test_a_trap_of_another_kind_is_raised_at_once() -> None:
    @reversible
    def quotient(y: fixed, x: fixed):
        y += 1 / x

    with pytest.raises(rg.ProgramTrap) as raised:
        rg.grad(quotient, scale="auto")(0.0, 0.0)
    assert raised.value.code == "RG0402"


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", "examples/hypot.py:hypot", "0", "3", "4", "--scale", "auto"]) == 0
    assert "the way back began with the cotangent 2^30" in capsys.readouterr().out


def test_names_of_scales() -> None:
    for wrong in ("car", 31, -1, 1.5):
        with pytest.raises(rg.NotDifferentiable) as raised:
            rg.grad(product, scale=wrong)(0.0, 1.0, [1.0])  # type: ignore[arg-type]
        assert str(Format()) in str(raised.value)
