"""Numba: the workloads as a competent user of Numba writes them, and the yardstick of the engines.

    ratio = time of our function / time of `compiled(kernel)` on the same arguments

The kernels are plain loops in float64 over whole batches, without fastmath. Some have an adjoint written by hand, which computes the
value, too. The definitions are those of the examples. A kernel is an ordinary
function that calls no other, so it runs without Numba, too; `compiled` imports Numba when it is first called.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.workload import (
    Bodies,
    Embeddings,
    Measurements,
    Mixture,
    Numbers,
    Polynomial,
    SparsePair,
    Wave,
)

Reals = NDArray[np.float64]
Integers = NDArray[Any]


@functools.cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel in machine code, made at its first call for the types that it is given."""
    from numba import njit

    # As NumPy divides: to look for a zero before each division costs more than to divide.
    made: Callable[..., Any] = njit(cache=False, fastmath=False, error_model="numpy")(kernel)
    return made


# ---------------------------------------------------------------------- Bessel function


def bessel(out: Reals, z: Reals) -> None:
    """outᵢ = J₂(zᵢ) = Σₖ sₖ,   s₀ = (z/2)²/2,   sₖ = −sₖ₋₁ (z/2)² / (k (k + 2)),   until |sₖ| ≤ 10⁻⁸."""
    for i in range(len(z)):
        quarter = (z[i] / 2) ** 2
        term = quarter / 2
        total = term
        k = 0.0
        while abs(term) > 1e-8:
            k += 1
            term *= -quarter / (k * (k + 2))
            total += term
        out[i] = total


def bessel_gradient(out: Reals, slope: Reals, z: Reals) -> None:
    """outᵢ = J₂(zᵢ), slopeᵢ = J₂′(zᵢ) = Σₖ (2k + 2) sₖ / z, since sₖ goes as z to the power of 2k + 2. z ≠ 0."""
    for i in range(len(z)):
        quarter = (z[i] / 2) ** 2
        term = quarter / 2
        total = term
        weighted = 2 * term
        k = 0.0
        while abs(term) > 1e-8:
            k += 1
            term *= -quarter / (k * (k + 2))
            total += term
            weighted += (2 * k + 2) * term
        out[i] = total
        slope[i] = weighted / z[i]


# ---------------------------------------------------------------------- graph embedding


def embedding(out: Reals, x: Reals, pairs: Integers, edges: int) -> None:
    """outᵦ = var(l₁) + var(l₂) + e^max(0, mean(l₁) − mean(l₂) + 1/10) − 1, for positions xᵦ[vertex].

    `pairs` are all pairs of vertices, first the `edges` connected pairs: their distances are l₁.
    """
    others = len(pairs) - edges
    lengths = np.empty(len(pairs))
    for b in range(len(x)):
        near = far = 0.0
        for e in range(len(pairs)):
            square = 0.0
            for c in range(x.shape[2]):
                d = x[b, pairs[e, 0], c] - x[b, pairs[e, 1], c]
                square += d * d
            lengths[e] = math.sqrt(square)
            if e < edges:
                near += lengths[e]
            else:
                far += lengths[e]
        near /= edges
        far /= others
        near_square = far_square = 0.0
        for e in range(edges):
            near_square += (lengths[e] - near) ** 2
        for e in range(edges, len(pairs)):
            far_square += (lengths[e] - far) ** 2
        loss = near_square / (edges - 1) + far_square / (others - 1)
        gap = near - far + 0.1
        if gap > 0:
            loss += math.exp(gap) - 1
        out[b] = loss


def embedding_gradient(out: Reals, slope: Reals, x: Reals, pairs: Integers, edges: int) -> None:
    """slopeᵦ = ∂outᵦ/∂xᵦ: each pair pulls or pushes, ∂l/∂xᵢ = (xᵢ − xⱼ)/l; out as `embedding` has it."""
    others = len(pairs) - edges
    lengths = np.empty(len(pairs))
    for b in range(len(x)):
        near = far = 0.0
        for e in range(len(pairs)):
            square = 0.0
            for c in range(x.shape[2]):
                d = x[b, pairs[e, 0], c] - x[b, pairs[e, 1], c]
                square += d * d
            lengths[e] = math.sqrt(square)
            if e < edges:
                near += lengths[e]
            else:
                far += lengths[e]
        near /= edges
        far /= others
        near_square = far_square = 0.0
        for e in range(edges):
            near_square += (lengths[e] - near) ** 2
        for e in range(edges, len(pairs)):
            far_square += (lengths[e] - far) ** 2
        loss = near_square / (edges - 1) + far_square / (others - 1)
        gap = near - far + 0.1
        penalty = 0.0
        if gap > 0:
            penalty = math.exp(gap)
            loss += penalty - 1
        out[b] = loss
        slope[b] = 0
        for e in range(len(pairs)):
            if e < edges:
                force = 2 * (lengths[e] - near) / (edges - 1) + penalty / edges
            else:
                force = 2 * (lengths[e] - far) / (others - 1) - penalty / others
            force /= lengths[e]
            i, j = pairs[e, 0], pairs[e, 1]
            for c in range(x.shape[2]):
                d = force * (x[b, i, c] - x[b, j, c])
                slope[b, i, c] += d
                slope[b, j, c] -= d


# ---------------------------------------------------------------------- bundle adjustment


def reprojection(errors: Reals, cameras: Reals, points: Reals, weights: Reals, features: Reals) -> None:
    """errorsᵢ = wᵢ (f L p + (u, v) − featureᵢ), where p = (X₁, X₂)/X₃, X = R(r) (pointᵢ − centre), L = 1 + k₁ρ + k₂ρ², ρ = |p|².

    A camera is r (3), centre (3), f, u, v, k₁, k₂. R x = cos θ x + sin θ n × x + (1 − cos θ) (n·x) n, for θ = |r|, n = r/θ.
    """
    for i in range(len(weights)):
        r0, r1, r2 = cameras[i, 0], cameras[i, 1], cameras[i, 2]
        x0, x1, x2 = points[i, 0] - cameras[i, 3], points[i, 1] - cameras[i, 4], points[i, 2] - cameras[i, 5]
        square = r0 * r0 + r1 * r1 + r2 * r2
        if square != 0:
            theta = math.sqrt(square)
            c, s = math.cos(theta), math.sin(theta)
            inverse = 1 / theta
            n0, n1, n2 = r0 * inverse, r1 * inverse, r2 * inverse
            along = (1 - c) * (n0 * x0 + n1 * x1 + n2 * x2)
            y0 = c * x0 + s * (n1 * x2 - n2 * x1) + along * n0
            y1 = c * x1 + s * (n2 * x0 - n0 * x2) + along * n1
            y2 = c * x2 + s * (n0 * x1 - n1 * x0) + along * n2
        else:
            y0 = x0 + r1 * x2 - r2 * x1
            y1 = x1 + r2 * x0 - r0 * x2
            y2 = x2 + r0 * x1 - r1 * x0
        depth = 1 / y2
        p0, p1 = y0 * depth, y1 * depth
        rho = p0 * p0 + p1 * p1
        scale = cameras[i, 6] * (1 + (cameras[i, 9] + cameras[i, 10] * rho) * rho)
        errors[i, 0] = weights[i] * (scale * p0 + cameras[i, 7] - features[i, 0])
        errors[i, 1] = weights[i] * (scale * p1 + cameras[i, 8] - features[i, 1])


def reprojection_jacobian(
    errors: Reals, blocks: Reals, cameras: Reals, points: Reals, weights: Reals, features: Reals
) -> None:
    """blocksᵢ = ∂errorsᵢ/∂(camera, point, weight), 2 × 15; errors as `reprojection` has them.

    g = ∂errorⱼ/∂X goes back through the rotation:   ∂/∂x = cos θ g + sin θ g × n + (1 − cos θ) (n·g) n,
    ∂/∂θ = −sin θ g·x + cos θ n·(x × g) + sin θ (n·x) (n·g),   ∂/∂n = sin θ x × g + (1 − cos θ) ((n·x) g + (n·g) x),
    ∂/∂r = (∂/∂θ) n + (∂/∂n − (n·∂/∂n) n)/θ.
    """
    for i in range(len(weights)):
        r0, r1, r2 = cameras[i, 0], cameras[i, 1], cameras[i, 2]
        f, k1, k2, w = cameras[i, 6], cameras[i, 9], cameras[i, 10], weights[i]
        x0, x1, x2 = points[i, 0] - cameras[i, 3], points[i, 1] - cameras[i, 4], points[i, 2] - cameras[i, 5]
        square = r0 * r0 + r1 * r1 + r2 * r2
        inverse, c, s = 0.0, 1.0, 0.0
        n0 = n1 = n2 = nx = 0.0
        if square != 0:
            theta = math.sqrt(square)
            c, s = math.cos(theta), math.sin(theta)
            inverse = 1 / theta
            n0, n1, n2 = r0 * inverse, r1 * inverse, r2 * inverse
            nx = n0 * x0 + n1 * x1 + n2 * x2
            y0 = c * x0 + s * (n1 * x2 - n2 * x1) + (1 - c) * nx * n0
            y1 = c * x1 + s * (n2 * x0 - n0 * x2) + (1 - c) * nx * n1
            y2 = c * x2 + s * (n0 * x1 - n1 * x0) + (1 - c) * nx * n2
        else:
            y0 = x0 + r1 * x2 - r2 * x1
            y1 = x1 + r2 * x0 - r0 * x2
            y2 = x2 + r0 * x1 - r1 * x0
        depth = 1 / y2
        p = (y0 * depth, y1 * depth)
        rho = p[0] * p[0] + p[1] * p[1]
        distortion = 1 + (k1 + k2 * rho) * rho
        growth = 2 * (k1 + 2 * k2 * rho)  # ∂L/∂p = growth p
        for j in range(2):
            difference = f * distortion * p[j] + cameras[i, 7 + j] - features[i, j]
            errors[i, j] = w * difference
            by_distortion = w * f * p[j]
            q0, q1 = by_distortion * growth * p[0], by_distortion * growth * p[1]
            if j == 0:
                q0 += w * f * distortion
            else:
                q1 += w * f * distortion
            g0, g1, g2 = q0 * depth, q1 * depth, -(q0 * p[0] + q1 * p[1]) * depth
            a0, a1, a2 = x1 * g2 - x2 * g1, x2 * g0 - x0 * g2, x0 * g1 - x1 * g0  # x × g
            block = blocks[i, j]
            if square != 0:
                ng = n0 * g0 + n1 * g1 + n2 * g2
                turned = n0 * a0 + n1 * a1 + n2 * a2
                by_theta = s * (nx * ng - (g0 * x0 + g1 * x1 + g2 * x2)) + c * turned
                m0 = s * a0 + (1 - c) * (nx * g0 + ng * x0)
                m1 = s * a1 + (1 - c) * (nx * g1 + ng * x1)
                m2 = s * a2 + (1 - c) * (nx * g2 + ng * x2)
                kept = by_theta - (n0 * m0 + n1 * m1 + n2 * m2) * inverse
                block[0] = kept * n0 + m0 * inverse
                block[1] = kept * n1 + m1 * inverse
                block[2] = kept * n2 + m2 * inverse
                along = (1 - c) * ng
                block[11] = c * g0 + s * (g1 * n2 - g2 * n1) + along * n0
                block[12] = c * g1 + s * (g2 * n0 - g0 * n2) + along * n1
                block[13] = c * g2 + s * (g0 * n1 - g1 * n0) + along * n2
            else:
                block[0], block[1], block[2] = a0, a1, a2
                block[11], block[12], block[13] = g0 + g1 * r2 - g2 * r1, g1 + g2 * r0 - g0 * r2, g2 + g0 * r1 - g1 * r0
            block[3], block[4], block[5] = -block[11], -block[12], -block[13]
            block[6] = w * distortion * p[j]
            block[7 + j], block[8 - j] = w, 0.0
            block[9], block[10] = by_distortion * rho, by_distortion * rho * rho
            block[14] = difference


# ---------------------------------------------------------------------- Gaussian mixture


def mixture(alphas: Reals, means: Reals, icf: Reals, x: Reals, gamma: float, m: int) -> float:
    """L = Σₓ ln Σⱼ exp(αⱼ + tr qⱼ − |Qⱼ (x − μⱼ)|²/2) − n ln Σⱼ exp αⱼ − n d ln(2π)/2 + Σⱼ (γ²|Qⱼ|²/2 − m tr qⱼ) − k C(d, γ, m).

    A row of icf holds qⱼ, the logarithms of Qⱼ's diagonal, and then the elements below it, column by column.
    """
    (n, d), k = x.shape, len(alphas)
    q, offsets = np.zeros((k, d, d)), np.empty(k)
    total = 0.0
    for j in range(k):
        offsets[j] = alphas[j]
        place = d
        for c in range(d):
            offsets[j] += icf[j, c]
            q[j, c, c] = math.exp(icf[j, c])
            total += 0.5 * gamma * gamma * q[j, c, c] ** 2 - m * icf[j, c]
            for row in range(c + 1, d):
                q[j, row, c] = icf[j, place]
                total += 0.5 * gamma * gamma * icf[j, place] ** 2
                place += 1
    z, terms = np.empty(d), np.empty(k)
    for i in range(n):
        largest = -np.inf
        for j in range(k):
            for c in range(d):
                z[c] = x[i, c] - means[j, c]
            square = 0.0
            for row in range(d):
                y = 0.0
                for c in range(row + 1):
                    y += q[j, row, c] * z[c]
                square += y * y
            terms[j] = offsets[j] - 0.5 * square
            largest = max(largest, terms[j])
        collected = 0.0
        for j in range(k):
            collected += math.exp(terms[j] - largest)
        total += math.log(collected) + largest
    largest = -np.inf
    for j in range(k):
        largest = max(largest, alphas[j])
    collected = 0.0
    for j in range(k):
        collected += math.exp(alphas[j] - largest)
    normalisation = math.log(collected) + largest
    freedom = d + m + 1
    constant = freedom * d * (math.log(gamma) - 0.5 * math.log(2)) - 0.25 * d * (d - 1) * math.log(math.pi)
    for c in range(d):
        constant -= math.lgamma(0.5 * (freedom - c))
    return float(total - n * (normalisation + 0.5 * d * math.log(2 * math.pi)) - k * constant)


def mixture_gradient(
    by_alpha: Reals, by_mean: Reals, by_icf: Reals,
    alphas: Reals, means: Reals, icf: Reals, x: Reals, gamma: float, m: int,
) -> float:  # fmt: skip
    """L, and ∂L/∂(alphas, means, icf), as in ADBench: not by the points.

    With the responsibilities ρᵢⱼ = softmaxⱼ of the terms, z = x − μ, y = Q z:
    ∂L/∂α = Σᵢ ρᵢⱼ − n softmax α,   ∂L/∂μⱼ = Σᵢ ρᵢⱼ Qᵀy,   ∂L/∂Q = −Σᵢ ρᵢⱼ y zᵀ + γ² Q.
    """
    (n, d), k = x.shape, len(alphas)
    q, offsets = np.zeros((k, d, d)), np.empty(k)
    total = 0.0
    for j in range(k):
        offsets[j] = alphas[j]
        place = d
        for c in range(d):
            offsets[j] += icf[j, c]
            q[j, c, c] = math.exp(icf[j, c])
            total += 0.5 * gamma * gamma * q[j, c, c] ** 2 - m * icf[j, c]
            for row in range(c + 1, d):
                q[j, row, c] = icf[j, place]
                total += 0.5 * gamma * gamma * icf[j, place] ** 2
                place += 1
    by_alpha[:] = 0
    by_mean[:] = 0
    by_q = np.zeros_like(q)
    z, y, terms = np.empty((k, d)), np.empty((k, d)), np.empty(k)
    for i in range(n):
        largest = -np.inf
        for j in range(k):
            for c in range(d):
                z[j, c] = x[i, c] - means[j, c]
            square = 0.0
            for row in range(d):
                dot = 0.0
                for c in range(row + 1):
                    dot += q[j, row, c] * z[j, c]
                y[j, row] = dot
                square += dot * dot
            terms[j] = offsets[j] - 0.5 * square
            largest = max(largest, terms[j])
        collected = 0.0
        for j in range(k):
            terms[j] = math.exp(terms[j] - largest)
            collected += terms[j]
        total += math.log(collected) + largest
        for j in range(k):
            rho = terms[j] / collected
            by_alpha[j] += rho
            for row in range(d):
                pulled = rho * y[j, row]
                for c in range(row + 1):
                    by_mean[j, c] += pulled * q[j, row, c]
                    by_q[j, row, c] -= pulled * z[j, c]
    for j in range(k):
        place = d
        for c in range(d):
            by_icf[j, c] = (by_q[j, c, c] + gamma * gamma * q[j, c, c]) * q[j, c, c] + by_alpha[j] - m
            for row in range(c + 1, d):
                by_icf[j, place] = by_q[j, row, c] + gamma * gamma * q[j, row, c]
                place += 1
    largest = -np.inf
    for j in range(k):
        largest = max(largest, alphas[j])
    collected = 0.0
    for j in range(k):
        collected += math.exp(alphas[j] - largest)
    normalisation = math.log(collected) + largest
    for j in range(k):
        by_alpha[j] -= n * math.exp(alphas[j] - normalisation)
    freedom = d + m + 1
    constant = freedom * d * (math.log(gamma) - 0.5 * math.log(2)) - 0.25 * d * (d - 1) * math.log(math.pi)
    for c in range(d):
        constant -= math.lgamma(0.5 * (freedom - c))
    return float(total - n * (normalisation + 0.5 * d * math.log(2 * math.pi)) - k * constant)


# ---------------------------------------------------------------------- matrices


def sparse_trace(
    a_starts: Integers, a_rows: Integers, a: Reals, b_starts: Integers, b_rows: Integers, b: Reals
) -> float:
    """trace(AᵀB) = Σᵢⱼ Aᵢⱼ Bᵢⱼ, by merging the columns; rows ascend."""
    total = 0.0
    for j in range(len(a_starts) - 1):
        i, k = a_starts[j], b_starts[j]
        while i < a_starts[j + 1] and k < b_starts[j + 1]:
            above, below = a_rows[i], b_rows[k]
            if above == below:
                total += a[i] * b[k]
            # Which of them moves cannot be predicted, and so is no branch.
            i += above <= below
            k += below <= above
    return total


def sparse_trace_gradient(
    by_a: Reals, by_b: Reals, a_starts: Integers, a_rows: Integers, a: Reals, b_starts: Integers, b_rows: Integers, b: Reals,
) -> float:  # fmt: skip
    """trace(AᵀB); by_a and by_b, the gradient by the values: each the other's where both have entries."""
    by_a[:] = 0
    by_b[:] = 0
    total = 0.0
    for j in range(len(a_starts) - 1):
        i, k = a_starts[j], b_starts[j]
        while i < a_starts[j + 1] and k < b_starts[j + 1]:
            above, below = a_rows[i], b_rows[k]
            if above == below:
                total += a[i] * b[k]
                by_a[i] = b[k]
                by_b[k] = a[i]
            i += above <= below
            k += below <= above
    return total


def matmul(c: Reals, a: Reals, b: Reals) -> None:
    """C = A B, row by row of B: the inner loop has no sum in it, so that it becomes vector code without fastmath."""
    for i in range(len(a)):
        c[i] = 0
        for k in range(len(b)):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def polynomial(out: Reals, x: Reals, a: float, b: float, c: float, d: float) -> None:
    """outᵢ = a + b xᵢ + c xᵢ² + d xᵢ³."""
    for i in range(len(x)):
        out[i] = a + x[i] * (b + x[i] * (c + x[i] * d))


# ---------------------------------------------------------------------- planets


def leapfrog(q: Reals, v: Reals, gm: Reals, steps: int, h: float) -> tuple[Reals, Reals]:
    """(q, v) after `steps` times q += v h/2,  vᵢ += h Σⱼ G mⱼ (qⱼ − qᵢ)/|qⱼ − qᵢ|³,  q += v h/2."""
    q, v = q.copy(), v.copy()
    n = len(gm)
    for _ in range(steps):
        for i in range(n):
            for c in range(3):
                q[i, c] += v[i, c] * (h / 2)
        for i in range(n):
            for j in range(i + 1, n):
                d0, d1, d2 = q[j, 0] - q[i, 0], q[j, 1] - q[i, 1], q[j, 2] - q[i, 2]
                square = d0 * d0 + d1 * d1 + d2 * d2
                rate = h / (square * math.sqrt(square))
                pull, push = rate * gm[j], rate * gm[i]
                v[i, 0] += pull * d0
                v[i, 1] += pull * d1
                v[i, 2] += pull * d2
                v[j, 0] -= push * d0
                v[j, 1] -= push * d1
                v[j, 2] -= push * d2
        for i in range(n):
            for c in range(3):
                q[i, c] += v[i, c] * (h / 2)
    return q, v


# ---------------------------------------------------------------------- wave


def wave(q: Reals, p: Reals, c: Reals, steps: int) -> None:
    """`steps` times p += c ∇²q, q += p; q is 0 on the edge."""
    n, m = q.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                p[i, j] += c[i, j] * (q[i - 1, j] + q[i + 1, j] + q[i, j - 1] + q[i, j + 1] - 4 * q[i, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                q[i, j] += p[i, j]


def wave_adjoint(q: Reals, p: Reals, c: Reals, by_q: Reals, by_p: Reals, by_c: Reals, steps: int) -> None:
    """`steps` steps are undone, and cotangents taken back:   p̄ += q̄,   c̄ += p̄ ∇²q,   q̄ += ∇²(c p̄).

    In floating point a step is undone up to rounding; the scheme is stable both ways, so that the error stays small.
    """
    n, m = q.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                q[i, j] -= p[i, j]
                by_p[i, j] += by_q[i, j]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                laplacian = q[i - 1, j] + q[i + 1, j] + q[i, j - 1] + q[i, j + 1] - 4 * q[i, j]
                p[i, j] -= c[i, j] * laplacian
                by_c[i, j] += by_p[i, j] * laplacian
        # The edge of by_p is zero, so the transposed Laplacian needs no case for it.
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                by_q[i, j] += (
                    c[i - 1, j] * by_p[i - 1, j] + c[i + 1, j] * by_p[i + 1, j]
                    + c[i, j - 1] * by_p[i, j - 1] + c[i, j + 1] * by_p[i, j + 1] - 4 * (c[i, j] * by_p[i, j])
                )  # fmt: skip


# ---------------------------------------------------------------------- the tasks

HAND = "adjoint by hand"


def _bessel(d: Numbers) -> Prepared:
    kernel, out = compiled(bessel), np.empty_like(d.z)
    return Prepared(lambda: kernel(out, d.z), lambda _: out)


def _bessel_gradient(d: Numbers) -> Prepared:
    kernel, out, slope = compiled(bessel_gradient), np.empty_like(d.z), np.empty_like(d.z)
    return Prepared(lambda: kernel(out, slope, d.z), lambda _: slope, HAND)


def _embedding(d: Embeddings) -> Prepared:
    kernel, out = compiled(embedding), np.empty(len(d.x))
    return Prepared(lambda: kernel(out, d.x, d.pairs, d.edges), lambda _: out)


def _embedding_gradient(d: Embeddings) -> Prepared:
    kernel, out, slope = compiled(embedding_gradient), np.empty(len(d.x)), np.empty_like(d.x)
    return Prepared(lambda: kernel(out, slope, d.x, d.pairs, d.edges), lambda _: slope, HAND)


def _errors(d: Measurements) -> Prepared:
    kernel, out = compiled(reprojection), np.empty_like(d.features)
    return Prepared(lambda: kernel(out, *d.arguments), lambda _: out)


def _blocks(d: Measurements) -> Prepared:
    kernel, out = compiled(reprojection_jacobian), np.empty_like(d.features)
    blocks = np.empty((len(d.weights), 2, 15))
    return Prepared(lambda: kernel(out, blocks, *d.arguments), lambda _: blocks, HAND)


def _mixture(d: Mixture) -> Prepared:
    kernel = compiled(mixture)
    return Prepared(lambda: kernel(*d.arguments))


def _mixture_gradient(d: Mixture) -> Prepared:
    kernel = compiled(mixture_gradient)
    slopes = [np.empty_like(part) for part in (d.alphas, d.means, d.icf)]
    return Prepared(lambda: kernel(*slopes, *d.arguments), lambda _: flat(slopes), HAND)


def _trace(d: SparsePair) -> Prepared:
    kernel = compiled(sparse_trace)
    return Prepared(lambda: kernel(d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b))


def _trace_gradient(d: SparsePair) -> Prepared:
    kernel, by_a, by_b = compiled(sparse_trace_gradient), np.empty_like(d.a), np.empty_like(d.b)
    return Prepared(
        lambda: kernel(by_a, by_b, d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b),
        lambda _: flat((by_a, by_b)), HAND,
    )  # fmt: skip


def _polynomial(d: Polynomial) -> Prepared:
    kernel = compiled(polynomial)

    def call() -> Any:
        out = np.empty_like(d.x)
        kernel(out, d.x, *d.coefficients)
        return out

    return Prepared(call)


def _planets(d: Bodies) -> Prepared:
    kernel = compiled(leapfrog)
    return Prepared(lambda: kernel(d.q, d.v, d.gm, d.steps, d.h), lambda found: found[0])


def _wave(d: Wave) -> Prepared:
    kernel = compiled(wave)

    def call() -> Any:
        q, p = d.q.copy(), d.p.copy()
        kernel(q, p, d.c, d.steps)
        return q

    return Prepared(call)


def _wave_gradient(d: Wave) -> Prepared:
    forth, back = compiled(wave), compiled(wave_adjoint)

    def call() -> Any:
        q, p = d.q.copy(), d.p.copy()
        forth(q, p, d.c, d.steps)
        _, by_q = d.misfit(q)
        by_c = np.zeros_like(d.c)
        back(q, p, d.c, by_q, np.zeros_like(p), by_c, d.steps)
        return by_c

    return Prepared(call, note="adjoint by hand; steps are undone in floating point")


TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): _bessel,
    (Numbers, "gradient"): _bessel_gradient,
    (Embeddings, "value"): _embedding,
    (Embeddings, "gradient"): _embedding_gradient,
    (Measurements, "value"): _errors,
    (Measurements, "jacobian"): _blocks,
    (Mixture, "value"): _mixture,
    (Mixture, "gradient"): _mixture_gradient,
    (SparsePair, "value"): _trace,
    (SparsePair, "gradient"): _trace_gradient,
    (Polynomial, "value"): _polynomial,
    (Bodies, "value"): _planets,
    (Wave, "value"): _wave,
    (Wave, "gradient"): _wave_gradient,
}
