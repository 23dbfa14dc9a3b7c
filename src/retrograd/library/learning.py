"""Layers of neural networks with an exact inverse: a perceptron, and coupling layers (NICE)."""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.statistics import relu


@reversible
def perceptron(
    y: Array[fixed, "n"],
    x: Array[fixed, "m"],
    w1: Array[fixed, "h", "m"],
    b1: Array[fixed, "h"],
    w2: Array[fixed, "n", "h"],
    b2: Array[fixed, "n"],
) -> None:
    """y += W₂ relu(W₁ x + b₁) + b₂. Inverse: y −= the same; the hidden layer is uncomputed."""
    with rg.routine() as r:
        level = b1 + 0
        for i in range(len(b1)):
            level[i] += rg.sum(w1[i] * x)
        hidden = rg.zeros_like(b1)
        relu.each(hidden, level)
    for i in range(len(b2)):
        y[i] += b2[i]
        y[i] += rg.sum(w2[i] * hidden)
    ~r


@reversible
def nice(
    x: Array[fixed, "n"],
    w1: Array[fixed, "layers", "h", "half"],
    b1: Array[fixed, "layers", "h"],
    w2: Array[fixed, "layers", "half", "h"],
    b2: Array[fixed, "layers", "half"],
) -> None:
    """(y, z) := (y, z + m₀(y)), (y + m₁(z), z), …: additive coupling layers, in place, mₗ perceptrons.

    Inverse: the same with −, from the last layer to the first.

    y is the first half of x, z the second; n is even. For any m, the inverse of the layer is exact, and the layer
    preserves volume: the likelihood of data is that of their image. Source: Dinh, Krueger and Bengio, arXiv
    1410.8516.
    """
    half = len(x) // 2
    for i in range(len(w1)):
        if i % 2 == 0:
            perceptron(x[half:], x[:half], w1[i], b1[i], w2[i], b2[i])
        else:
            perceptron(x[:half], x[half:], w1[i], b1[i], w2[i], b2[i])
