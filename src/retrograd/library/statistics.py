"""Moments, densities, the last layers of learning machines, and layers with an exact inverse."""

from __future__ import annotations

from math import log, pi, tau

import retrograd as rg
from retrograd import Array, fixed, reversible

HALF_LOG_TAU = log(tau) / 2


@reversible
def mean(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += x̄ = Σᵢ xᵢ / n. Inverse: out −= x̄."""
    out += rg.mean(x)


@reversible
def variance(out: fixed, x: Array[fixed, "n"], ddof: rg.static = 0) -> None:
    """out += Σᵢ (xᵢ − x̄)² / (n − ddof). Inverse: out −= the same.

    ddof = 1 gives the unbiased estimate of a sample. Two passes, with the differences first, so that a large mean costs no
    digits.
    """
    with rg.routine() as r:
        centre = rg.mean(x)
        squares = rg.sum((x - centre) ** 2)
    out += squares / (len(x) - ddof)
    ~r


@reversible
def covariance(out: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"], ddof: rg.static = 0) -> None:
    """out += Σᵢ (xᵢ − x̄)(yᵢ − ȳ) / (n − ddof). Inverse: out −= the same."""
    with rg.routine() as r:
        x_centre = rg.mean(x)
        y_centre = rg.mean(y)
        products = rg.sum((x - x_centre) * (y - y_centre))
    out += products / (len(x) - ddof)
    ~r


@reversible
def correlation(out: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"]) -> None:
    """out += Σᵢ (xᵢ − x̄)(yᵢ − ȳ) / √(Σᵢ (xᵢ − x̄)² Σᵢ (yᵢ − ȳ)²), Pearson's coefficient. Inverse: out −= the same.

    Traps with a division by zero where x or y is constant. For deviations below 10⁻³ the squares have few digits, and
    so has the result.
    """
    with rg.routine() as r:
        x_centre = rg.mean(x)
        y_centre = rg.mean(y)
        products = rg.sum((x - x_centre) * (y - y_centre))
        x_size = rg.sqrt(rg.sum((x - x_centre) ** 2))
        y_size = rg.sqrt(rg.sum((y - y_centre) ** 2))
    out += products / x_size / y_size
    ~r


@reversible
def largest(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += max(x₀, …, xₙ₋₁). Inverse: out −= the same. n ≥ 1.

    A maximum loses its other argument, so each candidate is kept in an ancilla until the last is found.
    """
    with rg.routine() as r:
        most = rg.zeros(len(x))
        most[0] += x[0]
        for i in range(1, len(x)):
            most[i] += max(most[i - 1], x[i])
    out += most[-1]
    ~r


@reversible
def logsumexp(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += ln Σᵢ e^{xᵢ} = m + ln Σᵢ e^{xᵢ − m}, m = max x. Inverse: out −= the same. Does not overflow."""
    with rg.routine() as r:
        m = fixed(0)
        largest(m, x)
        s = rg.sum(rg.exp(x - m))
    out += m + rg.log(s)
    ~r


@reversible
def softmax(out: Array[fixed, "n"], x: Array[fixed, "n"]) -> None:
    """outᵢ += e^{xᵢ − m} / Σⱼ e^{xⱼ − m}, m = max x. Inverse: out −= the same. Does not overflow."""
    with rg.routine() as r:
        m = fixed(0)
        largest(m, x)
        e = rg.exp(x - m)
        s = rg.sum(e)
    out += e / s
    ~r


@reversible
def cross_entropy(out: fixed, x: Array[fixed, "n"], p: Array[fixed, "n"]) -> None:
    """out += −Σᵢ pᵢ ln softmax(x)ᵢ = Σᵢ pᵢ (logsumexp(x) − xᵢ). Inverse: out −= the same."""
    with rg.routine() as r:
        level = fixed(0)
        logsumexp(level, x)
    out += rg.sum(p * (level - x))
    ~r


@reversible
def relu(out: fixed, x: fixed) -> None:
    """out += max(x, 0). Inverse: out −= max(x, 0). `relu.each(ys, xs)` applies it to arrays."""
    if x > 0:
        out += x


@reversible
def normal_logpdf(out: fixed, x: fixed, centre: fixed, deviation: fixed) -> None:
    """out += −((x − µ)/σ)²/2 − ln σ − ln(2π)/2. Inverse: out −= the same. Traps unless σ > 0.

    `centre` is µ, `deviation` σ; `normal_logpdf.each(out, xs, centre, deviation)` applies it to arrays.
    """
    with rg.routine() as r:
        z = (x - centre) / deviation
    out -= z * z / 2
    out -= rg.log(deviation) + HALF_LOG_TAU
    ~r


@reversible
def normal_loglikelihood(out: fixed, x: Array[fixed, "n"], centre: fixed, deviation: fixed) -> None:
    """out += Σᵢ ln N(xᵢ; µ, σ²): the logarithm of the density of independent samples. Inverse: out −= the same."""
    out -= rg.sum(((x - centre) / deviation) ** 2) / 2
    out -= len(x) * (rg.log(deviation) + HALF_LOG_TAU)


@reversible
def box_muller(z1: fixed, z2: fixed, u1: fixed, u2: fixed) -> None:
    """(z1, z2) += √(−2 ln u1)·(cos 2πu2, sin 2πu2): two normal samples from two uniform ones. Inverse: −= the same.

    0 < u1 ≤ 1; traps where u1 is 0. Source: Box and Muller, Annals of Mathematical Statistics 29 (1958), 610.
    """
    with rg.routine() as r:
        radius = rg.sqrt(-2 * rg.log(u1))
        angle = 2 * pi * u2
    z1 += radius * rg.cos(angle)
    z2 += radius * rg.sin(angle)
    ~r


# -----------------------------------------------------------------------------
# Layers of neural networks with an exact inverse: a perceptron, and coupling layers (NICE).


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
