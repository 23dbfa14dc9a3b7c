"""The leapfrog method in float64, with the derivatives of all coordinates by all initial values in one run.

    q += v h/2;   vᵢ += h Σⱼ mⱼ (qⱼ − qᵢ) / |qⱼ − qᵢ|³;   q += v h/2

Each initial value is moved by a complex step in a copy of its own, and all copies move together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
H = 1e-30


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
    moved = start + 1j * H * np.eye(len(start))
    qs, vs, ms = np.split(moved, [q.size, q.size + v.size], axis=1)
    end, _ = drift_kick_drift(qs.reshape(-1, *q.shape), vs.reshape(-1, *v.shape), ms, steps, h)
    found = end[:, body, axis]
    by_q, by_v, by_m = np.split(found.imag / H, [q.size, q.size + v.size])
    return float(found[0].real), (by_q.reshape(q.shape), by_v.reshape(v.shape), by_m)
