"""Training of a Gaussian mixture on a million points, on the workers of an executor.

    θ ← θ − Adam(∂/∂θ (1/n) Σᵢ −ln p(xᵢ; θ)),   p(x; θ) = Σⱼ softmax(α)ⱼ N(x; μⱼ, (Qⱼᵀ Qⱼ)⁻¹)

The parameters are those of `gmm.py`: weights α, means μⱼ, and inverse covariance factors Qⱼ. The gradient of all points is one
call: each worker adds up the cotangents of its points, and the sums are sums of integers. So every step of a training run
has the same bits on one core, on four workers, and after the loss of a worker. The points lie in a file that is
mapped into memory and read a part at a time.

    python -m retrograd.examples.mixture_training [POINTS [WORKERS]]
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from retrograd.examples.gmm import log_likelihood

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.statistics import logsumexp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

D, K = 2, 3
#: the mixture that the points are drawn from: weights, means, deviations
WEIGHTS, DEVIATION = (0.5, 0.3, 0.2), 0.5
MEANS = ((-2.0, 0.0), (2.0, 1.0), (0.5, -2.0))
#: points that are written at a time
_PART = 1 << 16
PARAMETERS = ("alphas", "means", "icf")


@reversible
def misfit(
    loss: fixed,
    alphas: Array[fixed, "k"],
    means: Array[fixed, "k", "d"],
    icf: Array[fixed, "k", "l"],
    x: Array[fixed, 1, "d"],
) -> None:
    """loss += −ln p(x; α, μ, Q) for one point. Inverse: −=."""
    d = x.shape[1]
    with rg.routine() as r:
        scales = rg.exp(icf[:, :d])
        offsets = rg.zeros_like(alphas)
        for j in range(len(alphas)):
            offsets[j] += alphas[j] + rg.sum(icf[j, :d])
        normalisation = fixed(0)
        logsumexp(normalisation, alphas)
        found = fixed(0)
        log_likelihood(found, means, scales, icf[:, d:], offsets, x)
    loss += normalisation - found + 0.5 * d * math.log(2 * math.pi)
    ~r


def start() -> dict[str, Reals]:
    """Parameters before the first step."""
    return {
        "alphas": np.zeros(K),
        "means": np.array([(-1.0, 0.5), (1.0, 0.5), (0.0, -1.0)]),
        "icf": np.zeros((K, D * (D + 1) // 2)),
    }


def write_points(path: Path, count: int) -> Reals:
    """Points of the mixture in a mapped file, the same for the same count: count × 1 × d."""
    points = np.lib.format.open_memmap(path, "w+", np.float64, (count, 1, D))
    for first in range(0, count, _PART):
        generator = np.random.default_rng(first)
        n = min(_PART, count - first)
        which = generator.choice(K, n, p=WEIGHTS)
        points[first : first + n, 0] = np.array(MEANS)[which] + DEVIATION * generator.normal(size=(n, D))
    points.flush()
    return np.load(path, mmap_mode="r")


def train(points: Any, steps: int, rate: float = 0.1, **over: Any) -> Iterator[tuple[float, dict[str, Reals]]]:
    """(mean misfit before the step, parameters after it) of each step of Adam. `over`: executor, store, chunk, progress of `rg.vmap`."""
    slope = rg.vmap(rg.value_and_grad(misfit, PARAMETERS), in_axes=(None, None, None, None, 0), shared="sum", **over)
    parameters = start()
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    for step in range(1, steps + 1):
        total, by = slope(0.0, *parameters.values(), points)
        for name, found in zip(PARAMETERS, by, strict=True):
            g = np.asarray(found) / len(points)
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.99 * second[name] + 0.01 * g * g
            move = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8)
            parameters[name] = parameters[name] - rate * move
        yield total / len(points), {name: value.copy() for name, value in parameters.items()}


def main() -> None:
    """Train, and print the misfit of each tenth step."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    found = start()
    with tempfile.TemporaryDirectory() as folder:
        points = write_points(Path(folder) / "points.npy", count)
        with rg.workers(workers) as executor:
            for step, (mean, after) in enumerate(train(points, 60, executor=executor)):
                found = after
                if step % 10 == 0:
                    print(f"step {step}: mean misfit {mean:.6f}", flush=True)
        print(f"means: {np.round(found['means'], 2).tolist()}")


if __name__ == "__main__":
    main()
