"""Powers with integer exponents: exact for ints, within stated bounds for fixed numbers, the same words however n is known."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def int_power(y: int, x: int, n: int) -> None:
    y += x**n


@reversible
def fixed_power(y: fixed, x: fixed, n: int) -> None:
    y += x**n


@reversible
def constant_power(y: fixed, x: fixed, n: rg.static) -> None:
    y += x**n


@reversible
def sum_of_powers(y: fixed, xs: Array[fixed, "k"], n: int) -> None:
    y += rg.sum(xs**n)


@reversible
def powers_everywhere(y: fixed, a: Array[int, 3], i: int, x: int, n: int) -> None:
    """As an element's update, a condition, an ancilla, a bound of a loop, an operand of another power."""
    a[i] += x**n
    if x**n > 20:
        y += 1
    t = (x**n) ** 2 + 3**n
    for _ in range(2**n):
        a[(i + 1) % 3] -= t
    y -= fixed(x) ** -n


FORMATS = (rg.Format(8, 3), rg.Format(16, 8), rg.Format(32, 16), rg.Format(64, 32))


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_a_power_of_an_int_is_the_product_of_its_factors(w: rg.Format) -> None:
    rng = random.Random(w.width)
    special = [(0, 0), (0, 2), (-2, 3), (7, 2), (1, w.sign - 1), (-1, w.sign - 1), (2, w.width - 1), (w.sign - 1, 2)]
    drawn = [(w.signed(rng.getrandbits(w.width)), rng.randrange(rng.choice((4, 20, w.sign)))) for _ in range(12)]
    for x, n in special + drawn:
        result = rg.run(int_power, 1, x, n, format=w)
        assert result.values == (w.signed(1 + pow(x, n, 1 << w.width)), x, n)
        assert rg.run(int_power, *result.values, format=w, backward=True).values == (1, x, n)


def words(w: rg.Format, n: int, rng: random.Random) -> int:
    """A word x > 0 or < 0 whose nth power fits a word and a float64."""
    largest = (1 << min(20, w.width - 2 - w.frac)) ** (1 / max(1, abs(n)))
    least = 0.5 if n < 0 else 0.0
    x = rng.uniform(least, max(least, min(largest, 40.0) * 0.9))
    return round(x * (1 << w.frac)) * rng.choice((1, -1))


@pytest.mark.parametrize("w", FORMATS[1:], ids=str)
def test_a_power_of_a_fixed_is_within_its_bound_and_does_not_depend_on_how_the_exponent_is_known(w: rg.Format) -> None:
    """|error| ≤ n · max(1, |x|)ⁿ⁻¹ units of the last place, and the word is that of the constant exponent."""
    rng = random.Random(w.width)
    for n in (0, 1, 2, 3, 5, 10, -1, -3):
        x = words(w, n, rng)
        value = Fraction(x, 1 << w.frac)
        result = rg.run(fixed_power, 0.0, float(value), n, format=w)
        exact = value ** abs(n)
        # A product is off by a unit at most, and each later factor enlarges that by |x|.
        bound = Fraction(abs(n)) * max(1, abs(value)) ** max(0, abs(n) - 1)
        if n < 0:
            bound = bound / abs(exact) ** 2 * 2 + 1
            exact = 1 / exact
        assert abs(Fraction(result.values[0]) - exact) <= bound / (1 << w.frac)
        assert rg.run(constant_power, 0.0, float(value), n, format=w).values[0] == result.values[0]
        assert rg.run(fixed_power, *result.values, format=w, backward=True).values == (0.0, float(value), n)


def test_powers_of_integers_written_as_fixed_numbers_are_exact() -> None:
    for x in range(-6, 7):
        for n in (0, 1, 2, 3, 7):
            assert fixed_power(0.0, float(x), n).y == x**n
    assert fixed_power(0.0, 2.0, -3).y == 0.125
    assert fixed_power(0.0, -2.0, -3).y == -0.125


def test_a_power_that_has_no_value_traps() -> None:
    for n, x, code in ((-2, 0.0, "RG0402"), (50, 3.0, "RG0404"), (-(2**63), 2.0, "RG0404")):
        with pytest.raises(rg.ProgramTrap) as trap:
            fixed_power(0.0, x, n)
        assert trap.value.code == code
        assert trap.value.diagnostics[0].span is not None
    with pytest.raises(rg.ProgramTrap) as trap:
        int_power(0, 7, -1)
    assert trap.value.code == "RG0810"


def test_exponents_at_the_ends_of_the_range() -> None:
    assert fixed_power(0.0, 1.0, -(2**63)).y == 1
    assert fixed_power(0.0, -1.0, 2**63 - 1).y == -1
    assert fixed_power(0.0, 0.5, 2**63 - 1).y == 0


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("level", [0, 1])
def test_a_power_stands_wherever_an_expression_does(level: int, erase: bool) -> None:
    f = powers_everywhere.with_options(level=level, erase=erase)
    for i, x, n in ((0, 3, 2), (2, -2, 5), (1, 1, 0)):
        a = [10, 20, 30]
        before = (0.5, list(a), i, x, n)
        a[i] += x**n
        a[(i + 1) % 3] -= 2**n * ((x**n) ** 2 + 3**n)
        result = f(*before)
        assert result.a.tolist() == a
        assert abs(result.y - (0.5 + (x**n > 20) - 1 / x**n)) < 2**-31
        if not erase:
            again = (~f)(*result)
            assert (again.y, again.a.tolist()) == (0.5, before[1])


def test_powers_have_gradients_of_first_and_second_order() -> None:
    for x, n in ((1.5, 3), (-0.5, 4), (2.0, -2), (3.0, 1), (2.0, 0), (0.0, 1)):
        slope = n * x ** (n - 1) if n else 0.0
        curvature = n * (n - 1) * x ** (n - 2) if n * (n - 1) else 0.0
        assert abs(rg.grad(fixed_power, "x")(0.0, x, n) - slope) < 1e-8
        assert abs(rg.hessian(fixed_power, "x")(0.0, x, n) - curvature) < 1e-7
    xs = np.array([0.5, -1.0, 2.0])
    assert np.allclose(rg.grad(sum_of_powers, "xs")(0.0, xs, 3), 3 * xs**2, atol=1e-8)
    df = rg.reversible_gradient(fixed_power, "x")
    out = df(0.0, 1.5, 3, 0.0)
    assert abs(out[3] - 6.75) < 1e-8
    assert np.allclose(rg.vmap(rg.grad(fixed_power, "x"), in_axes=(None, 0, None))(0.0, xs, 2), 2 * xs, atol=1e-8)


@rg.functional
def powers_of_a_value(x: fixed, n: int) -> tuple[fixed, fixed, fixed, fixed, fixed, fixed]:
    whole = 2.0

    def power(t, by):
        return t**by

    return x**2.0, power(x, whole), x**-1.0, power(x, 0.5), x**0.0, n**3.0


@reversible
def the_same_powers(a: fixed, b: fixed, c: fixed, d: fixed, e: fixed, f: fixed, x: fixed, n: int) -> None:
    a += x**2.0
    b += x**2.0
    c += x**-1.0
    d += x**0.5
    e += x**0.0
    f += fixed(n) ** 3.0


@pytest.mark.parametrize("x", [2.5, 1.0, 0.25, -1.5, 0.0])
def test_powers_of_functional_programs_are_those_of_reversible_ones(x: float) -> None:
    """Values, gradients and traps, of numbers below and at 0 too."""
    try:
        expected = rg.run(the_same_powers, *[0.0] * 6, x, -2).values[:6]
    except rg.ProgramTrap as trap:
        with pytest.raises(rg.ProgramTrap, match=trap.code):
            powers_of_a_value(x, -2)
        return
    assert powers_of_a_value(x, -2) == expected
    for k, name in enumerate("abcdef"):
        slope = rg.grad(the_same_powers, "x", loss=name)(*[0.0] * 6, x, -2)
        assert rg.grad(powers_of_a_value, "x", loss=f"out_{k}")(x, -2) == slope


@rg.functional
def square(x: fixed):
    return x**2.0


@pytest.mark.parametrize("x", [-1.5, 0.0])
def test_squares_of_numbers_that_have_no_logarithm(x: float) -> None:
    assert square(x) == x * x
    assert rg.grad(square, "x")(x) == 2 * x
