"""Derivatives of NumPy functions by a complex step.

    ∂f/∂xᵢ = Im f(x + i h eᵢ) / h,    h = 10⁻³⁰

Nothing is subtracted, so nothing cancels: the error is that of f itself, some 10⁻¹⁶. Trap: f must be analytic as it is written. No
abs, no conjugate, no norm of NumPy's; decisions (a maximum, a pivot, a branch) must use real parts.
Source: Squire and Trapp, SIAM Review 40 (1998), 110.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

H = 1e-30


def jacobian(f: Callable[[NDArray[Any]], Any], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """∂f/∂x, of shape f's shape + x's shape."""
    columns = []
    for i in np.ndindex(*x.shape):
        moved = x.astype(complex)
        moved[i] += 1j * H
        columns.append(np.imag(f(moved)) / H)
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)


# -----------------------------------------------------------------------------
# A graph embedding and functions of the library in NumPy, written so that a complex step goes through.
#
# Each takes the arguments as real or complex arrays (a struct is the row of its fields, a complex array has a last axis of two) and
# returns the new values of the arguments that change, in their order.

Array = NDArray[Any]

# ---------------------------------------------------------------------- graph embedding


def kneser() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(edges, other pairs) of the Petersen graph as pairs of disjoint 2-subsets of five things: a numbering of its own."""
    subsets = [{a, b} for a in range(5) for b in range(a)]
    pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    edges = [(i, j) for i, j in pairs if not subsets[i] & subsets[j]]
    return edges, [pair for pair in pairs if pair not in edges]


def embedding(out: Array, x: Array, edges: Any, others: Any) -> tuple[Array]:
    """out += var(l₁) + var(l₂) + exp(max(0, mean l₁ − mean l₂ + 1/10)) − 1."""

    def lengths(pairs: Any) -> Array:
        first, second = np.asarray(pairs).T
        return np.asarray(np.sqrt(((x[first] - x[second]) ** 2).sum(axis=1)))

    def spread(a: Array) -> Any:
        return ((a - a.mean()) ** 2).sum() / (len(a) - 1)

    near, far = lengths(edges), lengths(others)
    gap = near.mean() - far.mean() + 0.1
    penalty = np.exp(gap) - 1 if gap.real > 0 else 0
    return (out + spread(near) + spread(far) + penalty,)


# ---------------------------------------------------------------------- vectors and matrices


def quadratic(out: Array, x: Array, y: Array) -> tuple[Array]:
    return (out + np.polyval([2, 3 * y, 4 * y * y], x),)


def dot(out: Array, x: Array, y: Array) -> tuple[Array]:
    return (out + x @ y,)


def _hamilton(p: Array, q: Array) -> Array:
    """pq for quaternions (x, y, z, w): vector part and scalar."""
    (u, a), (v, b) = (p[:3], p[3]), (q[:3], q[3])
    return np.concatenate([a * v + b * u + np.cross(u, v), [a * b - u @ v]])


def rotate(out: Array, v: Array, q: Array) -> tuple[Array]:
    """out += q v q̄, by two products of quaternions."""
    return (out + _hamilton(_hamilton(q, np.append(v, 0)), q * [-1, -1, -1, 1])[:3],)


def norm(out: Array, x: Array) -> tuple[Array]:
    return (out + np.sqrt(x @ x),)


def affine(y: Array, w: Array, x: Array, b: Array) -> tuple[Array]:
    return (y + w @ x + b,)


def matmul(c: Array, a: Array, b: Array) -> tuple[Array]:
    return (c + a @ b,)


def determinant(out: Array, a: Array) -> tuple[Array]:
    return (out + np.linalg.det(a),)


def inverse(out: Array, a: Array) -> tuple[Array]:
    return (out + np.linalg.inv(a),)


def solve(x: Array, a: Array, b: Array) -> tuple[Array]:
    return (x + np.linalg.solve(a, b),)


def qr(q: Array, r: Array, a: Array) -> tuple[Array, Array]:
    """By Cholesky's method: AᵀA = RᵀR, Q = A R⁻¹. (NumPy's would conjugate.)"""
    square = a.T @ a
    n = len(square)
    upper = np.zeros_like(square)
    for i in range(n):
        upper[i, i] = np.sqrt(square[i, i] - upper[:i, i] @ upper[:i, i])
        for j in range(i + 1, n):
            upper[i, j] = (square[i, j] - upper[:i, i] @ upper[:i, j]) / upper[i, i]
    return q + np.linalg.solve(upper.T, a.T).T, r + upper


def rotate_planes(x: Array, angles: Array) -> tuple[Array]:
    """x := U x, U a product of matrices that differ from the unit matrix in four elements."""
    n, u, t = len(x), np.eye(len(x)), iter(angles)
    for j in range(n - 1):
        for i in range(n - 2, j - 1, -1):
            plane, angle = np.eye(n, dtype=x.dtype), next(t)
            plane = plane.astype(np.result_type(x, angle))
            plane[i : i + 2, i : i + 2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            u = plane @ u
    return (u @ x,)


# ---------------------------------------------------------------------- transforms, waves, layers


def fft(x: Array) -> tuple[Array]:
    """The unitary transform, as a matrix of cosines and sines on pairs (re, im)."""
    n = len(x)
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    c, s = np.cos(angle) / np.sqrt(n), np.sin(angle) / np.sqrt(n)
    return (np.stack([c @ x[:, 0] + s @ x[:, 1], c @ x[:, 1] - s @ x[:, 0]], axis=-1),)


def lax_wendroff(u: Array, courant: Array) -> tuple[Array]:
    """Each row is the row before after one step, added to its old value."""
    rows = [u[0]]
    for added in u[1:]:
        before = rows[-1]
        up, down = np.roll(before, -1), np.roll(before, 1)
        rows.append(added + before - courant / 2 * (up - down) + courant**2 / 2 * (up - 2 * before + down))
    return (np.array(rows),)


def nice(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> tuple[Array]:
    """Coupling layers: (y, z) -> (y, z + m(y)), then (y + m(z), z), in turn."""
    parts = list(np.split(x, 2))
    for layer, (a, c, b, d) in enumerate(zip(w1, b1, w2, b2, strict=True)):
        given, changed = (0, 1) if layer % 2 == 0 else (1, 0)
        hidden = a @ parts[given] + c
        parts[changed] = parts[changed] + b @ np.where(hidden.real > 0, hidden, 0) + d
    return (np.concatenate(parts),)


# ---------------------------------------------------------------------- statistics


def variance(out: Array, x: Array) -> tuple[Array]:
    return (out + ((x - x.mean()) ** 2).mean(),)


def logsumexp(out: Array, x: Array) -> tuple[Array]:
    most = x.real.max()
    return (out + most + np.log(np.exp(x - most).sum()),)


def softmax(out: Array, x: Array) -> tuple[Array]:
    e = np.exp(x - x.real.max())
    return (out + e / e.sum(),)


def cross_entropy(out: Array, x: Array, p: Array) -> tuple[Array]:
    return (out - p @ np.log(softmax(np.zeros_like(x), x)[0]),)


def normal_logpdf(out: Array, x: Array, centre: Array, deviation: Array) -> tuple[Array]:
    density = np.exp(-(((x - centre) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    return (out + np.log(density),)


def box_muller(z1: Array, z2: Array, u1: Array, u2: Array) -> tuple[Array, Array]:
    radius = np.sqrt(-2 * np.log(u1))
    return z1 + radius * np.cos(2 * np.pi * u2), z2 + radius * np.sin(2 * np.pi * u2)
