"""Layers against NumPy."""

from __future__ import annotations

import numpy as np

from retrograd.library import nice, perceptron


def mlp(x, w1, b1, w2, b2):
    return w2 @ np.maximum(w1 @ x + b1, 0) + b2


def test_perceptron(roundtrip):
    rng = np.random.default_rng(1)
    w1, b1, w2, b2 = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(2, 5)), rng.normal(size=2)
    x, y = rng.normal(size=3), rng.normal(size=2)
    np.testing.assert_allclose(roundtrip(perceptron, y, x, w1, b1, w2, b2).y, y + mlp(x, w1, b1, w2, b2), atol=1e-8)


def test_nice(roundtrip):
    rng = np.random.default_rng(2)
    layers, half, h = 3, 2, 4
    w1, b1 = rng.normal(size=(layers, h, half)), rng.normal(size=(layers, h))
    w2, b2 = rng.normal(size=(layers, half, h)), rng.normal(size=(layers, half))
    x = rng.normal(size=2 * half)
    y, z = x[:half].copy(), x[half:].copy()
    for i in range(layers):
        if i % 2 == 0:
            z += mlp(y, w1[i], b1[i], w2[i], b2[i])
        else:
            y += mlp(z, w1[i], b1[i], w2[i], b2[i])
    np.testing.assert_allclose(roundtrip(nice, x, w1, b1, w2, b2).x, [*y, *z], atol=1e-6)
