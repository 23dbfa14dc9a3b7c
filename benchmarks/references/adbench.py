"""Bundle adjustment and the Gaussian mixture as ADBench defines them (microsoft/ADBench: ba.h, gmm.h), in float64.

Bundle adjustment: camera = (rotation vector, centre, focal length, principal point, two radial distortions).

    error = w (f (1 + k₁ ρ + k₂ ρ²) p + (u, v) − feature),   p = (X₁, X₂)/X₃,   ρ = |p|²,   X = R(r) (point − centre)

R(r) is written as a matrix here, I + sin θ K + (1 − cos θ) K², K the cross product with r/θ.

Gaussian mixture: inverse covariance factors Q, the logarithms of the diagonal first, then below it column by column.

    L = Σₓ logsumexpⱼ(αⱼ + tr qⱼ − |Qⱼ (x − μⱼ)|²/2) − n logsumexp α − n d ln(2π)/2 + Σⱼ (γ² |Qⱼ|²/2 − m tr qⱼ) − k C
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

# ---------------------------------------------------------------------- bundle adjustment


class Bundle(NamedTuple):
    """n cameras, m points, p measurements; of each one stands for all of them."""

    n: int
    m: int
    p: int
    #: camera (11), point (3), weight (1), in this order
    inputs: Reals
    feature: Reals

    def seen(self, i: int) -> tuple[int, int]:
        """The camera and the point of measurement i."""
        return i % self.n, i % self.m


def read_bundle(path: Path) -> Bundle:
    """Five lines: n m p; a camera; a point; a weight; a feature."""
    sizes, *rows = (line.split() for line in path.read_text(encoding="ascii").strip().splitlines())
    camera, point, weight, feature = (np.array(row, dtype=float) for row in rows)
    n, m, p = map(int, sizes)
    return Bundle(n, m, p, np.concatenate([camera, point, weight]), feature)


def rotation(r: NDArray[Any]) -> NDArray[Any]:
    """The matrix of the rotation by |r| about r."""
    theta = np.sqrt(np.sum(r * r))
    a, b, c = r / theta
    k = np.array([[0 * a, -c, b], [c, 0 * a, -a], [-b, a, 0 * a]])
    return np.asarray(np.eye(3) + np.sin(theta) * k + (1 - np.cos(theta)) * (k @ k))


def reprojection(inputs: NDArray[Any], feature: Reals) -> NDArray[Any]:
    """The two errors of a measurement, of its 15 inputs."""
    r, centre, (f, u, v, k1, k2), point, w = np.split(inputs, [3, 6, 11, 14])
    x, y, z = rotation(r) @ (point - centre)
    p = np.array([x / z, y / z])
    square = p[0] ** 2 + p[1] ** 2
    return np.asarray(w * (f * (1 + k1 * square + k2 * square**2) * p + np.array([u, v]) - feature))


def sparsity(bundle: Bundle) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, columns) of ADBench's sparse Jacobian: 15 columns in both rows of each error, the weight in that of 1 − w².

    Rows: the errors, two for each measurement, then those of the weights. Columns: cameras, points, weights.
    """
    rows, columns = [], []
    for i in range(bundle.p):
        camera, point = bundle.seen(i)
        first = 11 * bundle.n + 3 * point
        weight = 11 * bundle.n + 3 * bundle.m + i
        block = [*range(11 * camera, 11 * camera + 11), *range(first, first + 3), weight]
        for row in (2 * i, 2 * i + 1):
            rows += [row] * 15
            columns += block
        rows.append(2 * bundle.p + i)
        columns.append(weight)
    return np.array(rows), np.array(columns)


# ---------------------------------------------------------------------- Gaussian mixture


class Mixture(NamedTuple):
    alphas: Reals
    means: Reals
    icf: Reals
    x: Reals
    gamma: float
    m: int


def read_mixture(path: Path, points: int | None = None) -> Mixture:
    """Lines: d k n; k alphas, one each; k means; k rows of icf; n points; γ m."""
    first, *lines = (line.split() for line in path.read_text(encoding="ascii").split("\n") if line.strip())
    d, k, n = map(int, first)
    *rows, prior = (np.array(line, dtype=float) for line in lines)
    alphas, rows = np.concatenate(rows[:k]), rows[k:]
    means, icf, x = np.array(rows[:k]), np.array(rows[k : 2 * k]), np.array(rows[2 * k :])
    assert (means.shape, icf.shape, x.shape) == ((k, d), (k, d * (d + 1) // 2), (n, d))
    return Mixture(alphas, means, icf, x[:points], float(prior[0]), int(prior[1]))


def _below(d: int) -> tuple[list[int], list[int]]:
    """(rows, columns) below the diagonal, column by column."""
    pairs = [(row, column) for column in range(d) for row in range(column + 1, d)]
    return [row for row, _ in pairs], [column for _, column in pairs]


def _factors(icf: NDArray[Any], d: int) -> NDArray[Any]:
    q = np.zeros((len(icf), d, d), dtype=icf.dtype)
    rows, columns = _below(d)
    q[:, rows, columns] = icf[:, d:]
    q[:, range(d), range(d)] = np.exp(icf[:, :d])
    return q


def _logsumexp(a: NDArray[Any]) -> Any:
    """Over the last axis; analytic."""
    most = a.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(a - most).sum(axis=-1)) + most[..., 0]


def _softmax(a: NDArray[Any]) -> NDArray[Any]:
    """Over the last axis."""
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _log_gamma(a: float, d: int) -> float:
    """ln Γ_d(a) = d (d − 1)/4 ln π + Σᵢ ln Γ(a − i/2), i = 0 … d − 1."""
    return d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma(a - i / 2) for i in range(d))


def likelihood(
    alphas: NDArray[Any], means: NDArray[Any], icf: NDArray[Any], x: NDArray[Any], gamma: float, m: int
) -> Any:
    """L, for complex numbers too."""
    (n, d), k = x.shape, len(alphas)
    q = _factors(icf, d)
    whitened = (x[:, None, None, :] - means[None, :, None, :]) * q[None]
    squares = (whitened.sum(axis=-1) ** 2).sum(axis=-1)
    traces = icf[:, :d].sum(axis=-1)
    dof = d + m + 1
    constant = dof * d * (np.log(gamma) - np.log(2) / 2) - _log_gamma(dof / 2, d)
    return (
        _logsumexp(alphas + traces - squares / 2).sum()
        - n * (_logsumexp(alphas) + d * np.log(2 * np.pi) / 2)
        + gamma**2 / 2 * (q**2).sum()
        - m * traces.sum()
        - k * constant
    )


def likelihood_gradient(
    alphas: Reals, means: Reals, icf: Reals, x: Reals, gamma: float, m: int
) -> tuple[float, Mixture]:
    """(L, ∂L/∂(alphas, means, icf, x)) by hand: with the responsibilities ρᵢⱼ = softmaxⱼ, z = x − μ, y = Q z,

    ∂L/∂α = Σᵢ ρᵢⱼ − n softmax α,   ∂L/∂μⱼ = Σᵢ ρᵢⱼ Qᵀy,   ∂L/∂x = −Σⱼ ρᵢⱼ Qᵀy,   ∂L/∂Q = −Σᵢ ρᵢⱼ y zᵀ + γ² Q
    """
    (n, d), k = x.shape, len(alphas)
    q = _factors(icf, d)
    z = x[:, None, :] - means
    y = np.einsum("jab,ijb->ija", q, z)
    traces = icf[:, :d].sum(axis=-1)
    terms = alphas + traces - (y**2).sum(axis=-1) / 2
    rho = _softmax(terms)
    pulled = np.einsum("ij,jab,ija->ijb", rho, q, y)
    by_factor = gamma**2 * q - np.einsum("ij,ija,ijb->jab", rho, y, z)
    rows, columns = _below(d)
    diagonal = np.einsum("jaa,jaa->ja", by_factor, q) + rho.sum(axis=0)[:, None] - m
    gradient = Mixture(
        rho.sum(axis=0) - n * _softmax(alphas),
        pulled.sum(axis=0),
        np.concatenate([diagonal, by_factor[:, rows, columns]], axis=1),
        -pulled.sum(axis=1),
        0.0,
        0,
    )
    value = _logsumexp(terms).sum() - n * (_logsumexp(alphas) + d * np.log(2 * np.pi) / 2)
    dof = d + m + 1
    constant = dof * d * (np.log(gamma) - np.log(2) / 2) - _log_gamma(dof / 2, d)
    value += gamma**2 / 2 * (q**2).sum() - m * traces.sum() - k * constant
    return float(value), gradient
