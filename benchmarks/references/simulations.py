"""The leapfrog method in float64, with the derivatives of all coordinates by all initial values in one run.

    q += v h/2;   vᵢ += h Σⱼ mⱼ (qⱼ − qᵢ) / |qⱼ − qᵢ|³;   q += v h/2

Each initial value is moved by a complex step in a copy of its own, and all copies move together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
STEP = 1e-30


def drift_kick_drift(
    q: NDArray[Any], v: NDArray[Any], m: NDArray[Any], steps: int, h: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(q, v) afterwards, both of shape (…, bodies, 3); m (…, bodies) are G times the masses."""
    for _ in range(steps):
        middle = q + v * (h / 2)
        force = np.zeros_like(middle)
        for i in range(q.shape[-2]):
            away = middle - middle[..., i : i + 1, :]
            squares = (away * away).sum(axis=-1)
            squares[..., i] = 1
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
