"""The acoustic wave as a competent user of Numba writes it: float64, plain loops, no fastmath. See `primals`, whose `compiled` compiles it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


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
