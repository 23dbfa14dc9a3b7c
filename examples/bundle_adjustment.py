"""Bundle adjustment: the projection of a point by a camera, and the error of its measurement.

    error = w · (projection − feature),    weight error = 1 − w²
    projection = f · L · p + (u, v),       L = 1 + k₁ |p|² + k₂ |p|⁴,    p = (X₁, X₂) / X₃,    X = R (point − centre)

R is the rotation by the angle |r| about the axis r / |r| (Rodrigues). A camera is eleven numbers, r₁ r₂ r₃, C₁ C₂ C₃ (its
centre), f (focal length), u v (principal point), k₁ k₂ (radial distortion); with a point (3) and a weight (1) they are the 15
inputs of one measurement. The definition and the files of data are those of ADBench (microsoft/ADBench, ba.h).

The temporaries between a camera and its error are variables of one routine: `with rg.routine() as r:` computes them, and
`~r` uncomputes them from the same operands, which have not changed. Millions of measurements thus need memory for their
errors, and for the temporaries of one measurement.

    python -m retrograd.examples.bundle_adjustment [file]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA = Path(__file__).parent / "data" / "ba"


@reversible
def cross(out: Array[fixed, 3], x: Array[fixed, 3], y: Array[fixed, 3]) -> None:
    """out += x × y. Inverse: −=."""
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i] += x[j] * y[k] - x[k] * y[j]


@reversible
def rotate(out: Array[fixed, 3], r: Array[fixed, 3], x: Array[fixed, 3]) -> None:
    """out += cos θ x + sin θ n × x + (1 − cos θ) (n·x) n, for θ = |r|, n = r/θ: x turned by θ about n.

    Inverse: −=. Where |r|² is less than the last place, the rotation is x + r × x.
    """
    with rg.routine() as square:
        theta2 = rg.sum(r * r)
    if theta2 != 0:
        with rg.routine() as axis:
            theta = rg.sqrt(theta2)
            c = rg.cos(theta)
            s = rg.sin(theta)
            n = r / theta
            nx = rg.zeros(3)
            cross(nx, n, x)
            along = (1 - c) * rg.sum(n * x)
        out += c * x + s * nx + along * n
        ~axis
    else:
        out += x
        cross(out, r, x)
    ~square


@reversible
def project(out: Array[fixed, 2], camera: Array[fixed, 11], point: Array[fixed, 3]) -> None:
    """out += f L p + (u, v): the pixel of the point in the camera. Inverse: −=. Trap: a point beside the camera, X₃ = 0."""
    with rg.routine() as r:
        seen = rg.zeros(3)
        from_centre = point - camera[3:6]
        rotate(seen, camera[0:3], from_centre)
        p = seen[:2] / seen[2]
        square = rg.sum(p * p)
        distortion = 1 + (camera[9] + camera[10] * square) * square
        scale = camera[6] * distortion
    out += scale * p + camera[7:9]
    ~r


@reversible
def reprojection_error(
    error: Array[fixed, 2], camera: Array[fixed, 11], point: Array[fixed, 3], weight: fixed, feature: Array[fixed, 2]
) -> None:
    """error += w (projection − feature). Inverse: −=. Error: 10⁻⁶ for f of some hundred pixels.

    Derivatives: 4·10⁻⁹ of the largest, 10⁻⁷ of each except ∂/∂w. That has the error of the projection, a difference of
    pixels: 10⁻⁶ of a pixel (in Q24.40 10⁻⁸).
    """
    with rg.routine() as r:
        pixel = rg.zeros(2)
        project(pixel, camera, point)
    error += weight * (pixel - feature)
    ~r


@reversible
def first_error(
    loss: fixed, camera: Array[fixed, 11], point: Array[fixed, 3], weight: fixed, feature: Array[fixed, 2]
) -> None:
    """loss += the first component of the reprojection error: a single number for differentiation. Inverse: −=."""
    with rg.routine() as r:
        error = rg.zeros(2)
        reprojection_error(error, camera, point, weight, feature)
    loss += error[0]
    ~r


@reversible
def weight_error(error: fixed, weight: fixed) -> None:
    """error += 1 − w². Inverse: −=."""
    error += 1 - weight**2


@reversible
def objective(
    errors: Array[fixed, "p", 2],
    weight_errors: Array[fixed, "p"],
    cameras: Array[fixed, "n", 11],
    points: Array[fixed, "m", 3],
    weights: Array[fixed, "p"],
    observed: Array[int, "p", 2],
    features: Array[fixed, "p", 2],
) -> None:
    """All errors of p measurements: the i-th is of the camera observed[i, 0] and the point observed[i, 1]. Inverse: −=."""
    for i in range(len(weights)):
        reprojection_error(errors[i], cameras[observed[i, 0]], points[observed[i, 1]], weights[i], features[i])
    weight_error.each(weight_errors, weights)


# ---------------------------------------------------------------------- data, and the same in floating point


@dataclass(frozen=True)
class Problem:
    """Cameras (n × 11), points (m × 3), and p measurements: weights (p), indices of camera and point (p × 2), features (p × 2)."""

    cameras: NDArray[np.float64]
    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    observed: NDArray[np.int64]
    features: NDArray[np.float64]


def read(path: Path, limit: int | None = None) -> Problem:
    """The problem in a file of ADBench, whose one camera, point and measurement are repeated; the first `limit` measurements."""
    numbers = path.read_text(encoding="utf-8").split()
    n, m, p = map(int, numbers[:3])
    values = np.array(numbers[3:], dtype=np.float64)
    camera, point, weight, feature = np.split(values, [11, 14, 15])
    index = np.arange(p if limit is None else min(p, limit))
    observed = np.stack([index % n, index % m], axis=-1)
    return Problem(
        np.tile(camera, (n, 1)),
        np.tile(point, (m, 1)),
        np.tile(weight, len(index)),
        observed,
        np.tile(feature, (len(index), 1)),
    )


def reference(camera: Any, point: Any, weight: float, feature: Any) -> NDArray[np.float64]:
    """The error of one measurement in floating point."""
    r, centre, focal, principal, (k1, k2) = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:]
    x = point - centre
    theta = np.sqrt(r @ r)
    if theta != 0:
        n = r / theta
        x = np.cos(theta) * x + np.sin(theta) * np.cross(n, x) + (1 - np.cos(theta)) * (n @ x) * n
    else:
        x = x + np.cross(r, x)
    p = x[:2] / x[2]
    square = p @ p
    projection = focal * (1 + k1 * square + k2 * square**2) * p + principal
    return np.asarray(weight * (projection - feature))


def main() -> None:
    """Print the errors of the first measurements of a file."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "test.txt"
    problem = read(path, 10)
    p = len(problem.weights)
    after = objective(
        np.zeros((p, 2)),
        np.zeros(p),
        problem.cameras,
        problem.points,
        problem.weights,
        problem.observed,
        problem.features,
    )
    exact = reference(problem.cameras[0], problem.points[0], problem.weights[0], problem.features[0])
    print(f"errors of the first of {p} measurements: {after.errors[0]}, in floating point {exact}")
    print(f"weight error {after.weight_errors[0]:.9f}, in floating point {1 - problem.weights[0] ** 2:.9f}")
    before = (~objective)(*after)
    print(f"backward, the largest error left: {np.abs(before.errors).max()}")


if __name__ == "__main__":
    main()
