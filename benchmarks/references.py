"""Values and derivatives in float64 that share nothing with the code under test.

Most derivatives are taken by a complex step:

    ∂f/∂xᵢ = Im f(x + i h eᵢ) / h,    h = 10⁻³⁰

Nothing is subtracted, so nothing cancels: the error is that of f itself, about 10⁻¹⁶. Trap: f must be analytic as it is written. It must
not use abs, conjugates or the norm of NumPy; decisions (a maximum, a pivot, a branch) must use real parts.
Source: Squire and Trapp, SIAM Review 40 (1998), 110.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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


def hadamard(x: float, y: float) -> tuple[float, float]:
    return (x + y) / np.sqrt(2), (x - y) / np.sqrt(2)


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


# -----------------------------------------------------------------------------
# Bessel functions of the first kind by mpmath, to thirty digits.
#
# 2 J′ν = Jν₋₁ − Jν₊₁,   4 J″ν = Jν₋₂ − 2 Jν + Jν₊₂


def bessel(nu: int, z: float) -> tuple[float, float, float]:
    """(Jν(z), J′ν(z), J″ν(z))."""
    import mpmath

    with mpmath.workdps(30):
        j = {n: mpmath.besselj(nu + n, mpmath.mpf(z)) for n in range(-2, 3)}
        return float(j[0]), float((j[-1] - j[1]) / 2), float((j[-2] - 2 * j[0] + j[2]) / 4)


# -----------------------------------------------------------------------------
# Sparse products by SciPy, and their derivatives in closed form.
#
#     L = trace(AᵀB):         ∂L/∂A = B where A has entries,   ∂L/∂B = A where B has
#     L = Re tr(Wᴴ α A B):    ∂L/∂A = ᾱ W Bᴴ there,   ∂L/∂B = ᾱ Aᴴ W,   ∂L/∂α = tr((A B)ᴴ W)
#
# A gradient by a complex number is ∂L/∂re + i ∂L/∂im.

Numbers = NDArray[Any]


def random(generator: np.random.Generator, shape: tuple[int, int], density: float, dtype: type = float) -> Any:
    """A sparse matrix of normal numbers, rows ascending in each column."""
    from scipy.sparse import csc_array, random_array  # type: ignore[import-untyped]

    def normal(size: int) -> Numbers:
        real = generator.normal(size=size)
        return real + 1j * generator.normal(size=size) if dtype is complex else real

    matrix = csc_array(random_array(shape, density=density, rng=generator, data_sampler=normal, dtype=dtype))
    matrix.sum_duplicates()
    return matrix


def entries(matrix: Any, pattern: Any) -> Numbers:
    """Elements of a matrix where a sparse one has entries, in the order of these."""
    columns = np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    found: Numbers = dense[pattern.indices, columns]
    return found


def trace(a: Any, b: Any) -> tuple[float, tuple[Numbers, Numbers]]:
    """(trace(AᵀB), its gradient by the values of A and of B)."""
    return float((a.T @ b).trace()), (entries(b, a), entries(a, b))


def product(a: Any, b: Numbers, factor: complex, w: Numbers) -> tuple[Numbers, tuple[Numbers, Numbers, complex]]:
    """(α A B, the gradient of Re tr(Wᴴ α A B) by the values of A, by B and by α)."""
    ab = a @ b
    by_a = entries(np.conj(factor) * w @ b.conj().T, a)
    return factor * ab, (by_a, np.conj(factor) * (a.conj().T @ w), complex(np.sum(ab.conj() * w)))


# -----------------------------------------------------------------------------
# The leapfrog method in float64, with the derivatives of all coordinates by all initial values in one run.
#
#     q += v h/2;   vᵢ += h Σⱼ mⱼ (qⱼ − qᵢ) / |qⱼ − qᵢ|³;   q += v h/2
#
# Each initial value is moved by a complex step in a copy of its own, and all copies move together.

Reals = NDArray[np.float64]
STEP = 1e-30


def drift_kick_drift(
    q: NDArray[Any], v: NDArray[Any], m: NDArray[Any], steps: int, h: Any, in_place: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(q, v) afterwards, both of shape (…, bodies, 3); m (…, bodies) are G times the masses.

    With `in_place`, the vector qⱼ − qᵢ stands in the place of qⱼ, which is restored by an addition and so rounded.
    """
    for _ in range(steps):
        middle = q + v * (h / 2)
        force = np.zeros_like(middle)
        for i in range(q.shape[-2]):
            away = middle - middle[..., i : i + 1, :]
            squares = (away * away).sum(axis=-1)
            squares[..., i] = 1
            if in_place:
                middle = away + middle[..., i : i + 1, :]
            force[..., i, :] = (m[..., None] * away / (squares * np.sqrt(squares))[..., None]).sum(axis=-2)
        v = v + h * force
        q = middle + v * (h / 2)
    return q, v


def gradients(
    q: Reals, v: Reals, m: Reals, steps: int, h: float, body: int, axis: int
) -> tuple[float, tuple[Reals, Reals, Reals]]:
    """(the coordinate, its gradient by initial (q, v, m))."""
    start = np.concatenate([q.ravel(), v.ravel(), m])
    moved = start + 1j * STEP * np.eye(len(start))
    qs, vs, ms = np.split(moved, [q.size, q.size + v.size], axis=1)
    end, _ = drift_kick_drift(qs.reshape(-1, *q.shape), vs.reshape(-1, *v.shape), ms, steps, h)
    found = end[:, body, axis]
    by_q, by_v, by_m = np.split(found.imag / STEP, [q.size, q.size + v.size])
    return float(found[0].real), (by_q.reshape(q.shape), by_v.reshape(v.shape), by_m)


# -----------------------------------------------------------------------------
# The gradient of a wave's misfit in float64: the adjoint of each step by hand, with states kept at every √T-th step.
#
# forward:   l = ∇²q,  p += c l,  q += p
# adjoint:   p̄ += q̄,   c̄ += p̄ l,  q̄ += ∇²(c p̄)          (∇² is symmetric, and q is 0 on the edge)

_INNER = np.s_[1:-1, 1:-1]


def _laplacian(q: Reals) -> Reals:
    return np.asarray(q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] - 4 * q[_INNER])


def _steps(q: Reals, p: Reals, c: Reals, count: int) -> tuple[list[Reals], Reals, Reals]:
    """(the Laplacian of each step; q and p afterwards)."""
    q, p, kept = q.copy(), p.copy(), []
    for _ in range(count):
        kept.append(_laplacian(q))
        p[_INNER] += c[_INNER] * kept[-1]
        q[_INNER] += p[_INNER]
    return kept, q, p


def misfit(q: Reals, p: Reals, c: Reals, steps: int, by_end: Callable[[Reals], tuple[Any, Reals]]) -> tuple[Any, Reals]:
    """(loss, ∂loss/∂c), where `by_end` gives the loss of the last q and its gradient by q."""
    stride = max(1, math.isqrt(steps))
    begun = []
    for start in range(0, steps, stride):
        begun.append((q, p))
        _, q, p = _steps(q, p, c, min(stride, steps - start))
    loss, by_q = by_end(q)
    by_q, by_p, by_c = by_q.copy(), np.zeros_like(p), np.zeros_like(c)
    for start, (q, p) in zip(reversed(range(0, steps, stride)), reversed(begun), strict=True):
        for laplacian in reversed(_steps(q, p, c, min(stride, steps - start))[0]):
            by_p[_INNER] += by_q[_INNER]
            by_c[_INNER] += by_p[_INNER] * laplacian
            by_q[_INNER] += _laplacian(c * by_p)
    return loss, by_c


# -----------------------------------------------------------------------------
# Bundle adjustment and the Gaussian mixture as ADBench defines them (microsoft/ADBench: ba.h, gmm.h), in float64.
#
# Bundle adjustment: camera = (rotation vector, centre, focal length, principal point, two radial distortions).
#
#     error = w (f (1 + k₁ ρ + k₂ ρ²) p + (u, v) − feature),   p = (X₁, X₂)/X₃,   ρ = |p|²,   X = R(r) (point − centre)
#
# R(r) is written as a matrix here, I + sin θ K + (1 − cos θ) K², K the cross product with r/θ.
#
# Gaussian mixture: inverse covariance factors Q, the logarithms of the diagonal first, then below it column by column.
#
#     L = Σₓ logsumexpⱼ(αⱼ + tr qⱼ − |Qⱼ (x − μⱼ)|²/2) − n logsumexp α − n d ln(2π)/2 + Σⱼ (γ² |Qⱼ|²/2 − m tr qⱼ) − k C

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
