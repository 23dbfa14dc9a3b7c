"""Warp's kernels of the workloads of `benchmarks.gpu`, in float64. Their adjoints are Warp's own. Imported only where Warp is.

Annotations are read when a kernel is made, so they are not put off here.
"""

from __future__ import annotations

import warp as wp

# mypy: ignore-errors


@wp.kernel
def bessel(z: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    """out := J₂(z)."""
    i = wp.tid()
    quarter = z[i] * z[i] * wp.float64(0.25)
    term = quarter * wp.float64(0.5)
    total = term
    for k in range(1, 10):  # unrolled: the adjoint of other loops loses overwritten values
        # No more is added once a term is at most 1e-8.
        term = wp.where(
            wp.abs(term) > wp.float64(1e-8), term * (-quarter) / wp.float64(float(k * (k + 2))), wp.float64(0.0)
        )
        total = total + term
    out[i] = total


@wp.kernel
def errors(
    cameras: wp.array(dtype=wp.float64, ndim=2),
    points: wp.array(dtype=wp.float64, ndim=2),
    weights: wp.array(dtype=wp.float64),
    features: wp.array(dtype=wp.float64, ndim=2),
    out: wp.array(dtype=wp.float64, ndim=2),
):
    """out := w (projection − feature), as ADBench defines it."""
    i = wp.tid()
    r = wp.vec3d(cameras[i, 0], cameras[i, 1], cameras[i, 2])
    x = wp.vec3d(points[i, 0] - cameras[i, 3], points[i, 1] - cameras[i, 4], points[i, 2] - cameras[i, 5])
    theta = wp.sqrt(wp.dot(r, r))
    n = r / theta
    c = wp.cos(theta)
    seen = c * x + wp.sin(theta) * wp.cross(n, x) + (wp.float64(1.0) - c) * wp.dot(n, x) * n
    p0 = seen[0] / seen[2]
    p1 = seen[1] / seen[2]
    square = p0 * p0 + p1 * p1
    scale = cameras[i, 6] * (wp.float64(1.0) + (cameras[i, 9] + cameras[i, 10] * square) * square)
    out[i, 0] = weights[i] * (scale * p0 + cameras[i, 7] - features[i, 0])
    out[i, 1] = weights[i] * (scale * p1 + cameras[i, 8] - features[i, 1])
