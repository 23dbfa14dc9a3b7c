"""`scale="auto"` of functions with binary points of their own: a finer list, by which derivatives keep more bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from retrograd.isa.words import WIDTHS, Format

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.cli.main import main
from retrograd.derivatives._arguments import automatic, fine, highest_scale


@reversible
def orbit(x: Array[fixed[21], 2], v: Array[fixed[47], 2], mass: fixed[-40], dt: fixed[40], n: int):
    for _ in range(n):
        x += v * (dt * 0.5)
        with rg.routine() as r:
            s: fixed[-13] = x[0] * x[0] + x[1] * x[1]
            u: fixed[18] = fixed[-17](6.674e-11 * mass * dt) / rg.sqrt(s)
            k: fixed[93] = u / s
        v -= k * x
        ~r
        x += v * (dt * 0.5)


@reversible
def product(y: fixed[36], a: fixed[30], x: Array[fixed[30], "n"]):
    for i in range(len(x)):
        y += a * x[i] * x[i]


@pytest.mark.parametrize("width", [n for n in WIDTHS if n > 4])
def test_the_list_of_a_format(width: int) -> None:
    for frac in range(width):
        w = Format(width, frac)
        found = fine(w)
        assert found[0] == highest_scale(w)
        assert -w.frac <= found[-1] < 3 - w.frac
        assert all(a - b == 3 for a, b in pairwise(found))


class Dual:
    """A number of 200 bits and its derivative by one argument."""

    def __init__(self, x: Any, d: Any = 0) -> None:
        self.x, self.d = mp.mpf(x), mp.mpf(d)

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.x + other.x, self.d + other.d)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.x - other.x, self.d - other.d)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.x * other.x, self.x * other.d + self.d * other.x)

    def __truediv__(self, other: Dual) -> Dual:
        quotient = self.x / other.x
        return Dual(quotient, (self.d - quotient * other.d) / other.x)

    def sqrt(self) -> Dual:
        root = mp.sqrt(self.x)
        return Dual(root, self.d / (2 * root))


def exact_derivative(name: str, n: int) -> mp.mpf:
    """∂x[1]/∂name after n steps of the orbit."""
    x = [Dual(1.496e11), Dual(0)]
    v = [Dual(0), Dual(29780.0, name == "v")]
    mass, dt = Dual(1.989e30, name == "mass"), Dual(8640.0, name == "dt")
    for _ in range(n):
        x = [a + b * dt * Dual(0.5) for a, b in zip(x, v, strict=True)]
        s = x[0] * x[0] + x[1] * x[1]
        k = Dual(6.674e-11) * mass * dt / s.sqrt() / s
        v = [b - k * a for a, b in zip(x, v, strict=True)]
        x = [a + b * dt * Dual(0.5) for a, b in zip(x, v, strict=True)]
    return x[1].d


def test_derivatives_in_si_units_have_the_bits_of_float64() -> None:
    found = rg.grad(orbit, ["mass", "dt", "v"], "x[1]")([1.496e11, 0.0], [0.0, 29780.0], 1.989e30, 8640.0, 300)
    with mp.workprec(200):
        for name, derivative in (("mass", found[0]), ("dt", found[1]), ("v", found[2][1])):
            exact = exact_derivative(name, 300)
            assert abs(derivative / exact - 1) < 3e-13, name


ARGUMENTS = 0.0, 2.0, [3.0, 400.0]
DERIVATIVES: list[Callable[[Any], Any]] = [
    lambda scale: rg.grad(product, scale=scale)(*ARGUMENTS),
    lambda scale: rg.value_and_grad(product, "x", scale=scale)(*ARGUMENTS),
    lambda scale: rg.vjp(product, *ARGUMENTS, scale=scale)[1]({"y": 1.0}),
    lambda scale: rg.jvp(product, ARGUMENTS, {"x": [0.1, 0.7]}, scale=scale),
    lambda scale: rg.hvp(product, "x", scale=scale)(ARGUMENTS, [0.1, 0.7]),
    lambda scale: rg.hessian(product, "x", scale=scale)(*ARGUMENTS),
    lambda scale: rg.jacobian(product, "x", scale=scale)(*ARGUMENTS),
    lambda scale: rg.grad(product, scale=scale, engine="reference")(*ARGUMENTS),
    lambda scale: rg.grad(product, scale=scale, engine="threaded")(*ARGUMENTS),
]


@pytest.mark.parametrize("which", range(len(DERIVATIVES)))
def test_the_default_is_the_first_scale_that_works(which: int) -> None:
    derivative = DERIVATIVES[which]
    for scale in fine(Format()):
        try:
            at_scale = derivative(scale)
        except rg.RetrogradError:
            continue
        assert repr(derivative("auto")) == repr(at_scale)
        # Not one of the coarse list, and not the first.
        assert scale not in automatic(Format())
        return
    raise AssertionError("no scale works")


def test_an_element_of_a_batch_has_the_scale_that_it_has_alone() -> None:
    xs = np.array([[0.001, 0.002], [3.0, 400.0], [1.0, 7000.0], [30.0, 0.5]])
    gradient = rg.grad(product, ["a", "x"])
    scales = {rg.gradient_report(product, "x")(0.0, 2.0, list(x)).scale for x in xs}
    assert len(scales) > 1
    of_a, of_x = rg.vmap(gradient, in_axes=(None, None, 0))(0.0, 2.0, xs)
    for i, x in enumerate(xs):
        alone = gradient(0.0, 2.0, x)
        assert of_a[i] == alone[0]
        assert of_x[i].tolist() == alone[1].tolist()
    total = rg.vmap(gradient, in_axes=(None, None, 0), shared="sum")(0.0, 2.0, xs)[0]
    assert Fraction(total) == Fraction(float(sum(map(Fraction, of_a.tolist()))))


@reversible
def moment(y: fixed[-130], m: fixed[-39], r: fixed[58], c: lognum):
    """y += m² r c"""
    y += fixed[-130](fixed[-40](m * r) * m) * fixed(c)


def test_tangents_of_any_unit_have_words() -> None:
    """A tangent of 1 kg is 0 at −39 places, and one of 1 has no word at 58; derivatives do not depend on such units."""
    m, r, one = 2e28, 3.0, 1.0
    arguments = 0.0, m, r, one
    assert rg.jvp(moment, arguments, {"m": 1.0})[1].y == pytest.approx(2 * m * r, rel=1e-9)
    assert rg.jvp(moment, arguments, {"r": 1.0})[1].y == pytest.approx(m * m, rel=1e-9)
    assert rg.jvp(moment, arguments, {"c": 1.0})[1].y == pytest.approx(m * m * r, rel=1e-8)
    assert rg.hessian(moment, "m")(*arguments) == pytest.approx(2 * r, rel=1e-9)
    assert rg.hessian(moment, "r")(*arguments) == 0.0
    assert rg.hvp(moment, "m")(arguments, 1e-3) == pytest.approx(2e-3 * r, rel=1e-9)
    assert rg.hvp(moment, "m")(arguments, 0.0) == 0.0
    (mm, mr), (rm, rr) = rg.hessian(moment, ["m", "r"])(*arguments)
    assert (mm, mr, rm, rr) == pytest.approx((2 * r, 2 * m, 2 * m, 0.0), rel=1e-6)
    of_m, of_r = rg.hvp(moment, ["m", "r"])(arguments, [1e25, 2e-3])
    assert (of_m, of_r) == pytest.approx((2 * r * 1e25 + 2 * m * 2e-3, 2 * m * 1e25), rel=1e-6)
    _, mc = rg.hessian(moment, ["m", "c"])(*arguments)[0]
    assert mc == pytest.approx(2 * m * r, rel=1e-6)


def test_a_tangent_that_is_nothing_beside_the_others_gives_a_warning() -> None:
    with pytest.warns(rg.PrecisionWarning, match="the tangent of `m`"):
        rg.jvp(moment, (0.0, 2e28, 3.0, 1.0), {"m": 1e-3, "r": 1.0})


@pytest.mark.parametrize("z", [0.5, 1.0, 1.5])
def test_second_derivatives_keep_their_bits(z: float) -> None:
    """Of J₂ by its series, at the points that autoscale finds; tangents of 1 have no room beside them."""
    from retrograd.benchmarks.points import bessel

    found = rg.hessian(rg.autoscale(bessel, 0.0, z), "z")(0.0, z)
    with mp.workdps(40):
        exact = mp.diff(lambda t: mp.besselj(2, t), mp.mpf(z), 2)
        assert abs(found - exact) < 1e-15


def test_the_command_names_a_scale_that_is_not_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import retrograd as rg\n@rg.reversible\ndef f(y: rg.fixed[{}], x: rg.fixed[40]):\n    y += x * x\n"
    for point, said in ((30, False), (50, True)):
        # Bytecode of an equally long text of the same second would be taken for that of this one.
        file = tmp_path / f"own_{point}.py"
        file.write_text(text.format(point))
        assert main(["grad", f"{file}:f", "0", "3.0"]) == 0
        assert ("the way back began" in capsys.readouterr().out) == said
