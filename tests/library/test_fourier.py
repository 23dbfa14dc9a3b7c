"""The transforms against NumPy's and mpmath's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import fft, hadamard


@pytest.mark.parametrize("n", [1, 2, 4, 16, 64])
def test_fft(roundtrip, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n) + 1j * rng.normal(size=n)
    found = roundtrip(fft, x).x.astype(complex)
    np.testing.assert_allclose(found, np.fft.fft(x, norm="ortho"), atol=2e-9)


def test_the_inverse_is_the_inverse_transform():
    x = np.exp(1j * np.arange(8))
    found = (~fft)(x).x.astype(complex)
    np.testing.assert_allclose(found, np.fft.ifft(x, norm="ortho"), atol=2e-9)


def test_lengths_are_powers_of_two():
    with pytest.raises(rg.CompileError, match="power of two"):
        fft(np.zeros(6, complex))


def test_the_hadamard_transform_is_exactly_its_own_inverse():
    """All pairs of words of eight bits whose images fit."""
    words = np.arange(-88, 88)
    x, y = (m.ravel() / 16 for m in np.meshgrid(words, words))
    f = hadamard.with_options(format="8,4")
    fits = np.abs(x) + np.abs(y) < 5.5
    there = rg.run_batch(f, x[fits], y[fits]).values
    back = rg.run_batch(f, there.x, there.y).values
    assert (back.x.tolist(), back.y.tolist()) == (x[fits].tolist(), y[fits].tolist())
    # The factors have four places, so they are off by 1/32.
    np.testing.assert_allclose(there.x, (x + y)[fits] / np.sqrt(2), atol=5 / 16)
    np.testing.assert_allclose(there.y, (x - y)[fits] / np.sqrt(2), atol=5 / 16)


def test_the_hadamard_transform_has_the_error_that_it_states(roundtrip):
    rng = np.random.default_rng(3)
    for x, y in rng.normal(size=(40, 2)) * 10.0 ** rng.uniform(-6, 6, (40, 1)):
        words = [round(v * 2**32) for v in (x, y)]
        a, b = (mpmath.mpf(v) / 2**32 for v in words)
        found = roundtrip(hadamard, float(a), float(b))
        bound = 2 * 2.0**-32 + 3e-10 * float(mpmath.hypot(a, b))
        assert abs(found.x - (a + b) / mpmath.sqrt(2)) < bound
        assert abs(found.y - (a - b) / mpmath.sqrt(2)) < bound


@reversible
def walsh(x: Array[fixed, 8]) -> None:
    """The Walsh–Hadamard transform of 8 numbers: three layers, each on other pairs."""
    for half in (4, 2, 1):
        rows = x.reshape(-1, 2, half)
        for row in rows:
            hadamard.each(row[0], row[1])


def test_layers_make_the_transform_of_walsh():
    h = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    x = np.random.default_rng(4).normal(size=8)
    found = walsh(x)
    np.testing.assert_allclose(found.x, np.kron(h, np.kron(h, h)) @ x, atol=1e-8)
    assert (~walsh)(*found).x.tolist() == np.asarray(rg.fixed.to_reals(rg.fixed.to_words(x))).tolist()
