"""x % z of fixed numbers: exact, and its derivatives are 1 and −⌊x/z⌋, or do not fit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, fixed, reversible

FORMATS = [
    Format(w, f) for w, f in ((64, 32), (64, 62), (64, 4), (32, 16), (16, 12), (16, 8), (64, 0), (64, 1), (16, 15))
]
#: pairs of words for each format
PAIRS = 12


@reversible
def remainder(y: fixed, x: fixed, z: fixed):
    y += x % z


@reversible
def within(y: fixed, a: Array[fixed, 3]):
    """Also in memory, twice, and by a constant."""
    for i in range(2):
        y += (a[i] % a[i + 1]) * a[i] + a[i] % 0.75


def pairs(w: Format) -> list[tuple[float, float]]:
    """Words of every length, beside them the largest, whose product with a quotient leaves the word."""
    rng = random.Random(w.frac)
    most = min(w.width - 1, 53)

    def word() -> int:
        return rng.choice((-1, 1)) * (rng.getrandbits(rng.randrange(1, most)) or 1)

    top = ((1 << most) - 1) << (w.width - 1 - most)
    found = [(word(), word()) for _ in range(PAIRS)]
    found += [(top, -(top // 4) * 3), (-top, top // 4 * 3), (-top, top // 2), (top, 1 << (w.width - 1 - most)), (-3, 1)]
    return [(x / 2.0**w.frac, z / 2.0**w.frac) for x, z in found]


def answered(derive: Callable[[], tuple[float, float]]) -> tuple[float, ...] | str:
    """The derivatives, or the code of the trap."""
    try:
        return tuple(derive())
    except rg.ProgramTrap as trap:
        return trap.diagnostics[0].code


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_values_and_derivatives(w: Format) -> None:
    fits = 2.0 ** (w.width - w.frac - 2)
    for x, z in pairs(w):
        quotient = math.floor(Fraction(x) / Fraction(z))
        assert rg.run(remainder, 0.0, x, z, format=w).values.y == float(Fraction(x) - quotient * Fraction(z))
        if w.frac == w.width - 1:
            continue  # 1 is no word of this format
        for derive in (
            lambda x=x, z=z: rg.grad(remainder, format=w)(0.0, x, z),
            lambda x=x, z=z: rg.gradient_report(remainder, format=w)(0.0, x, z).gradients,
            lambda x=x, z=z: rg.vjp(remainder, 0.0, x, z, format=w)[1]({"y": 1.0})[1:],
            lambda x=x, z=z: (1.0, rg.jvp(remainder, (0.0, x, z), {"z": 1.0}, format=w)[1].y),
        ):
            found = answered(derive)
            assert found == (1.0, -quotient) or (found == "RG0404" and abs(quotient) >= fits)


def test_within_an_expression_and_by_a_constant() -> None:
    a = [5.5, -1.25, 0.5]
    q = [math.floor(a[0] / a[1]), math.floor(a[1] / a[2])]
    r = [a[0] - q[0] * a[1], a[1] - q[1] * a[2]]
    expected = [a[0] + r[0] + 1, -q[0] * a[0] + a[1] + r[1] + 1, -q[1] * a[1]]
    assert rg.grad(within, "a")(0.0, a).tolist() == expected
    assert rg.hessian(within, "a")(0.0, a).tolist() == [[2, -q[0], 0], [-q[0], 2, -q[1]], [0, -q[1], 0]]
    assert rg.reversible_gradient(within, "a")(0.0, a, [0.0] * 3).d_a.tolist() == expected


def test_a_quotient_too_large_for_a_fixed_number_still_has_a_derivative_by_the_dividend() -> None:
    assert rg.grad(remainder, "x")(0.0, 1e6, 2.0**-32) == 1.0
    assert rg.run(remainder, 0.0, 1e6, 2.0**-32).values.y == 0.0
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        rg.grad(remainder, "z")(0.0, 1e6, 2.0**-32)
