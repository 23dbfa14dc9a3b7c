"""Complex numbers against Python's own."""

from __future__ import annotations

import cmath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from retrograd.library import Complex, complex_abs, complex_arg
from retrograd.testing import fixed_numbers

#: multiples of 2^-20, which have words of their own
parts = st.integers(-70 << 20, 70 << 20).map(lambda n: n / (1 << 20))
numbers = st.builds(complex, parts, parts)


def struct(z):
    return Complex(z.real, z.imag)


def near(found, expected, tolerance=1e-8):
    assert abs(complex(found) - expected) <= tolerance


@settings(max_examples=20)
@given(z=numbers, a=numbers, b=numbers)
def test_arithmetic(roundtrip, z, a, b):
    s = struct(z)
    near(roundtrip(Complex.add, s, a)[0], z + a)
    near(roundtrip(Complex.add_scaled, s, a, 1.5)[0], z + 1.5 * a)
    near(roundtrip(Complex.add_product, s, a, b)[0], z + a * b, 1e-6)
    near(roundtrip(Complex.add_conjugate_product, s, a, b)[0], z + a.conjugate() * b, 1e-6)
    near(roundtrip(Complex.conjugate, s)[0], z.conjugate())


@settings(max_examples=20)
@given(a=numbers, b=numbers)
def test_quotient(roundtrip, a, b):
    assume(abs(b) >= 0.5)
    near(roundtrip(Complex.add_quotient, struct(0j), a, b)[0], a / b, 1e-6)


def test_quotient_of_numbers_whose_squares_overflow(roundtrip):
    near(roundtrip(Complex.add_quotient, struct(0j), 3e5 - 4e5j, -6e5 + 8e5j)[0], -0.5)


@settings(max_examples=20)
@given(a=numbers.map(lambda z: z / 16).filter(lambda z: abs(z) > 0.01))
def test_exp_and_log(roundtrip, a):
    expected = cmath.exp(a)
    near(roundtrip(Complex.add_exp, struct(1 + 1j), a)[0], 1 + 1j + expected, 1e-8 * (1 + abs(expected)))
    found = complex(roundtrip(Complex.add_log, struct(0j), a)[0])
    # At the branch cut a last place decides between π and −π.
    near(found, cmath.log(a) + 2j * cmath.pi * round((found.imag - cmath.phase(a)) / (2 * cmath.pi)), 1e-6)


@settings(max_examples=20)
@given(a=numbers, angle=fixed_numbers(low=-20, high=20))
def test_polar(roundtrip, a, angle):
    near(roundtrip(complex_abs, 1.0, a).out, 1 + abs(a))
    near(roundtrip(Complex.rotate, struct(a), angle)[0], a * cmath.exp(1j * angle), 1e-7)


@pytest.mark.parametrize("a", [1j, -2 + 0j, 3 - 4j, -0.5 - 1e-3j])
def test_arg(roundtrip, a):
    assert roundtrip(complex_arg, 0.0, a).out == pytest.approx(cmath.phase(a), abs=1e-7)


def test_abs_needs_no_squares(roundtrip):
    assert roundtrip(complex_abs, 0.0, 3e8 - 4e8j).out == pytest.approx(5e8, rel=1e-9)
    assert roundtrip(complex_abs, 0.0, 2.0**-25 + 2.0**-24 * 1j).out == pytest.approx(5**0.5 * 2.0**-25, abs=1e-9)
    assert roundtrip(complex_abs, 0.0, 0j).out == 0


def test_python_numbers_come_back():
    assert complex(Complex(1.5, -2.0)) == 1.5 - 2j
