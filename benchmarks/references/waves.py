"""The gradient of a wave's misfit in float64: the adjoint of each step by hand, with states kept at every √T-th step.

forward:   l = ∇²q,  p += c l,  q += p
adjoint:   p̄ += q̄,   c̄ += p̄ l,  q̄ += ∇²(c p̄)          (∇² is symmetric, and q is 0 on the edge)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
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
