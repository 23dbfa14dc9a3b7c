"""Listings for floating-point numbers, transcribed word for word: docs/choosing-numbers.md has their errors in fixed point."""

from __future__ import annotations

import math

import pytest

import retrograd as rg
from retrograd import fixed, reversible


@reversible
def iexp(y: fixed, x: fixed, atol: rg.static = 1e-14) -> None:
    """y += exp(x), as in J.-G. Liu, T. Zhao, Differentiate everything with a reversible embedded domain-specific language, 2020."""
    with rg.routine() as series:
        anc1, anc2, anc3 = 0.0, 0.0, 0.0
        iplus = 0
        expout = 0.0
        anc1 += 1.0
        expout += 1.0
        while (anc1 > atol, iplus != 0):
            iplus += 1
            anc2 += anc1 * x
            anc3 += anc2 / iplus
            expout += anc3
            anc1 -= anc2 / x
            anc2 -= anc3 * iplus
            anc1, anc3 = anc3, anc1
    y += expout
    ~series


@reversible
def imul(out: fixed, x: fixed, anc: fixed) -> None:
    """out *= x with a dirty ancilla."""
    anc += out * x
    out -= anc / x
    out, anc = anc, out


@reversible
def ibesselj(out: fixed, z: fixed, nu: rg.static = 2, atol: rg.static = 1e-8) -> None:
    """out += J_nu(z), from the same paper."""
    with rg.routine() as series:
        k = 0
        halfz, halfz_power_nu, halfz_power_2, out_anc = 0.0, 0.0, 0.0, 0.0
        anc1, anc4 = 0.0, 0.0
        halfz += z / 2
        halfz_power_nu += halfz**nu
        halfz_power_2 += halfz**2
        anc1 += halfz_power_nu / math.factorial(nu)
        out_anc += anc1
        while (abs(anc1) > atol and abs(anc4) < atol, k != 0):
            k += 1
            anc3 = -halfz_power_2 / (k * (k + nu))
            imul(anc1, anc3, anc4)
            out_anc += anc1
            del anc3
    out += out_anc
    ~series


@pytest.mark.parametrize(
    ("atol", "least", "most"),
    [(1e-4, 4e-6, 6e-6), (1e-6, 0.8e-7, 1.2e-7), (1e-7, 2e-8, 3e-8), (1e-8, 1e-7, 2e-7), (2e-10, 1e-7, 2e-7)],
)
def test_exponential(atol: float, least: float, most: float) -> None:
    """The remainders of the products are added to the sum: from atol = 1e-8 on they are greater than the terms."""
    found = rg.run(iexp, 0.0, 1.6, atol)
    assert least < abs(found.values.y - math.exp(1.6)) < most
    assert found.erased_bits == 0


def test_a_tolerance_below_the_last_place() -> None:
    """The default of the listing is for float64s: a fixed-point number never lies between it and 0."""
    with pytest.raises(rg.CompileError, match=r"1e-14 would be 0 in Q32\.32"):
        rg.run(iexp, 0.0, 1.6)
    assert rg.run(iexp, 0.0, 1.6, format="Q16.48").values.y == pytest.approx(math.exp(1.6), abs=2e-9)


@pytest.mark.parametrize(("format", "least", "most"), [("Q32.32", 1e-6, 1e-5), ("Q16.48", 1e-9, 2e-8)])
def test_bessel_function(format: str, least: float, most: float) -> None:
    """The loop ends when the ancilla's remainder exceeds atol."""
    found = rg.run(ibesselj, 0.0, 1.0, format=format)
    assert least < abs(found.values.out - 0.1149034849319005) < most
    assert found.erased_bits == 0
