"""Products in place, powers, series and Fibonacci numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.library import (
    factorial,
    fibonacci,
    first_fibonacci,
    idiv,
    iexp,
    imul,
    log_factorial,
    power,
    scale,
)
from retrograd.testing import fixed_numbers

away_from_zero = fixed_numbers(low=-50, high=50).filter(lambda x: abs(x) > 0.05)


@settings(max_examples=30)
@given(y=fixed_numbers(low=-1000, high=1000), x=away_from_zero)
def test_imul_and_idiv(roundtrip, y, x):
    product = roundtrip(imul, y, x, 0.0)
    assert product.y == pytest.approx(y * x, abs=1e-6)
    assert abs(product.ancilla) <= 1e-9 + 1e-9 / abs(x)
    quotient = roundtrip(idiv, y, x, 0.0)
    # Each operand is off by half of its last place.
    assert quotient.y == pytest.approx(y / x, abs=2**-33 * (1 + abs(y / x)) / abs(x) + 1e-9)
    assert abs(quotient.ancilla) <= 1e-9 * (1 + abs(x))


@settings(max_examples=30)
@given(y=st.integers(-(10**6), 10**6), x=st.integers(-(10**6), 10**6).filter(bool))
def test_scale(roundtrip, y, x):
    assert roundtrip(scale, y, x).y == y * x


def test_scale_refuses_what_it_could_not_undo():
    with pytest.raises(rg.ProgramTrap):
        scale(1 << 62, 3)
    with pytest.raises(rg.ProgramTrap):
        scale(5, 0)
    with pytest.raises(rg.ProgramTrap):
        (~scale)(7, 2)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20])
def test_factorial(roundtrip, n):
    assert roundtrip(factorial, 1, n).out == 1 + math.factorial(n)
    assert roundtrip(log_factorial, 1.0, n).f == pytest.approx(math.factorial(n), rel=1e-8)


def test_factorial_beyond_the_word():
    with pytest.raises(rg.ProgramTrap):
        factorial(0, 21)
    assert log_factorial(2.0, 60).f == pytest.approx(2 * math.factorial(60), rel=1e-8)


@pytest.mark.parametrize(("x", "n"), [(1.7, 5), (-1.7, 5), (-0.6, 4), (3.0, 0), (-1.3, -3), (2.0, 20)])
def test_power(roundtrip, x, n):
    assert roundtrip(power, 0.5, x, n).out == pytest.approx(0.5 + x**n, rel=1e-8)


@pytest.mark.parametrize("x", [1.6, -1.6, 0.0, 5.0, -4.0])
def test_iexp(roundtrip, x):
    assert roundtrip(iexp, 0.0, x).out == pytest.approx(math.exp(x), abs=3e-7)


def test_iexp_golden(roundtrip):
    assert roundtrip(iexp, 0.0, 1.6).out == pytest.approx(4.95303242438, abs=1e-8)


@pytest.mark.parametrize(("n", "value"), [(1, 1), (2, 1), (3, 2), (10, 55)])
def test_fibonacci(roundtrip, n, value):
    assert roundtrip(fibonacci, 0, n).out == value


def test_first_fibonacci(roundtrip):
    assert roundtrip(first_fibonacci, 0, 100).n == 12


def test_first_fibonacci_begins_at_zero():
    with pytest.raises(rg.ProgramTrap):
        first_fibonacci(3, 100)
