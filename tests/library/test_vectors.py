"""Vectors and quaternions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.library import Quaternion, Vector3, rotate, scalar_product, vector_norm
from retrograd.testing import fixed_numbers

components = fixed_numbers(low=-50, high=50)
vectors = st.builds(Vector3, components, components, components)


def parts(v):
    return np.array([v.x, v.y, v.z])


@settings(max_examples=20)
@given(a=vectors, b=vectors, v=vectors)
def test_vectors(roundtrip, a, b, v):
    x, y = parts(a), parts(b)
    assert roundtrip(scalar_product, 0.0, a, b).out == pytest.approx(x @ y, abs=1e-7)
    assert roundtrip(vector_norm, 0.0, a).out == pytest.approx(np.sqrt(x @ x), abs=1e-4)
    np.testing.assert_allclose(parts(roundtrip(Vector3.add_cross, v, a, b)[0]), parts(v) + np.cross(x, y), atol=1e-7)
    np.testing.assert_allclose(parts(roundtrip(Vector3.add_scaled, v, a, 2.5)[0]), parts(v) + 2.5 * x, atol=1e-7)
    np.testing.assert_allclose(parts(roundtrip(Vector3.add, v, a)[0]), parts(v) + x, atol=1e-7)


def test_golden_rotation(roundtrip):
    out = roundtrip(rotate, Vector3(0, 0, 0), Vector3(1, 2, 3), Quaternion(4, 5, 6, 7)).out
    assert parts(out).tolist() == [270, 180, 342]


def test_rotation_is_the_product_with_the_conjugate(roundtrip):
    zero = Quaternion(0, 0, 0, 0)
    q, v = Quaternion(0.5, -0.25, 1.5, 2.0), Vector3(1.0, -2.0, 0.5)
    half = roundtrip(Quaternion.add_product, zero, q, Quaternion(v.x, v.y, v.z, 0.0))[0]
    whole = roundtrip(Quaternion.add_product, zero, half, Quaternion(-q.x, -q.y, -q.z, q.w))[0]
    out = roundtrip(rotate, Vector3(0, 0, 0), v, q).out
    assert whole.w == 0
    np.testing.assert_allclose(parts(out), parts(whole), atol=1e-8)


def test_quarter_turn(roundtrip):
    s = np.sqrt(0.5)
    out = roundtrip(rotate, Vector3(0, 0, 0), Vector3(1.0, 0.0, 0.0), Quaternion(0.0, 0.0, s, s)).out
    np.testing.assert_allclose(parts(out), [0, 1, 0], atol=1e-8)
