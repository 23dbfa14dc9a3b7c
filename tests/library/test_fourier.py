"""The transform against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.library import fft


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
