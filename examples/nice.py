"""A normalising flow: it learns the distribution of data, and draws samples by running backward.

    x ⇄ z = f(x),    −ln p(x) = Σⱼ (zⱼ² e^{−2sⱼ} / 2 + sⱼ) + ln 2π

f consists of the library's additive coupling layers. A layer adds the output of a small network on one coordinate to the other
coordinate; the next layer exchanges the two. Such a step preserves volume, so the density of x is that of z. The density of z
is a normal distribution with standard deviations e^s. Training maximises the density of the data.

Other systems need two programs, f for training and f⁻¹ for drawing samples. Here f is written once:

- `flow` run forward maps data to the normal distribution;
- `flow` run backward maps normal random numbers to new data, and its own output to its input, to the bit;
- the gradient of `loss` is `loss` run backward with cotangents. No activations are stored, so the memory does not depend on the
  number of layers, except for the parameters.
- Layers can be passed through again (`passes`).

Source: Dinh, Krueger and Bengio, "NICE: Non-linear Independent Components Estimation", arXiv 1410.8516; here the diagonal
scaling, the only factor that changes volumes, is the deviation of the normal distribution.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import log, tau
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from retrograd.isa.files import replacing

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.statistics import nice

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYERS, HIDDEN = 6, 8
#: points of one step of training
BATCH = 32
#: points for training, for comparison, and to draw
POINTS, UNSEEN = 1024, 512
#: seed of the start and of the batches
SEED = 0


@reversible
def flow(
    points: Array[fixed, "n", 2],
    passes: int,
    w1: Array[fixed, "layers", "h", 1],
    b1: Array[fixed, "layers", "h"],
    w2: Array[fixed, "layers", 1, "h"],
    b2: Array[fixed, "layers", 1],
) -> None:
    """Every point x := f(x), in place, through all layers and `passes` times. Inverse: f⁻¹, by uncall."""
    for point in points:
        for _ in range(passes):
            nice(point, w1, b1, w2, b2)


@reversible
def loss(
    out: fixed,
    points: Array[fixed, "n", 2],
    passes: int,
    w1: Array[fixed, "layers", "h", 1],
    b1: Array[fixed, "layers", "h"],
    w2: Array[fixed, "layers", 1, "h"],
    b2: Array[fixed, "layers", 1],
    s: Array[fixed, 2],
) -> None:
    """out += the mean of −ln p(x) over the points, in nats; points := f(points). Inverse: uncall."""
    flow(points, passes, w1, b1, w2, b2)
    with rg.routine() as r:
        precision = rg.exp(-2 * s)
    for z in points:
        out += rg.sum(z * z * precision) / (2 * len(points))
    ~r
    out += rg.sum(s) + log(tau)


class Parameters(NamedTuple):
    """Parameters of the layers' networks, and the logarithms of the deviations."""

    w1: NDArray[Any]
    b1: NDArray[Any]
    w2: NDArray[Any]
    b2: NDArray[Any]
    s: NDArray[Any]

    @property
    def layers(self) -> tuple[NDArray[Any], ...]:
        """The layers as arguments of `flow`."""
        return self[:4]


loss_and_gradient = rg.value_and_grad(loss, argnums=Parameters._fields, loss="out")


def ring(n: int, seed: int) -> NDArray[Any]:
    """n points around a circle of radius 1.3, with a deviation of 0.12."""
    generator = np.random.default_rng(seed)
    angle, radius = generator.uniform(0, tau, n), generator.normal(1.3, 0.12, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def start(layers: int = LAYERS, seed: int = SEED) -> Parameters:
    """Random networks."""
    generator = np.random.default_rng(seed)
    w1, b1 = generator.normal(size=(layers, HIDDEN, 1)), generator.normal(size=(layers, HIDDEN))
    return Parameters(w1, b1, generator.normal(scale=0.5, size=(layers, 1, HIDDEN)), np.zeros((layers, 1)), np.zeros(2))


def train(
    data: NDArray[Any], parameters: Parameters, steps: int, report: Callable[[int, float], None], seed: int = SEED
) -> Parameters:
    """Adam, each step on new points; the steps become smaller in the second half. Source: arXiv 1412.6980."""
    generator = np.random.default_rng(seed)
    m = v = [np.zeros_like(p) for p in parameters]
    for t in range(1, steps + 1):
        batch = data[generator.integers(len(data), size=BATCH)]
        value, slopes = loss_and_gradient(0.0, batch, 1, *parameters)
        rate = 0.03 * min(1, 2 - 2 * t / (steps + 1))
        m = [0.9 * a + 0.1 * g for a, g in zip(m, slopes, strict=True)]
        v = [0.99 * a + 0.01 * g**2 for a, g in zip(v, slopes, strict=True)]
        moves = [(a / (1 - 0.9**t)) / (np.sqrt(b / (1 - 0.99**t)) + 1e-8) for a, b in zip(m, v, strict=True)]
        parameters = Parameters(*(p - rate * move for p, move in zip(parameters, moves, strict=True)))
        report(t, value)
    return parameters


def samples(n: int, parameters: Parameters, seed: int = 1) -> NDArray[Any]:
    """n new points: normal random numbers, from which `flow` runs backward."""
    z = np.random.default_rng(seed).normal(size=(n, 2)) * np.exp(parameters.s)
    points: NDArray[Any] = (~flow)(z, 1, *parameters.layers).points
    return points


def normal(data: NDArray[Any]) -> float:
    """The least mean of −ln p of a normal distribution on the data, for comparison."""
    return float(np.linalg.slogdet(np.cov(data.T, bias=True))[1] / 2 + log(tau) + 1)


def words(layers: int, passes: int) -> tuple[int, int, int]:
    """Words of memory of a machine that computes `loss` of a batch, including the parameters; instructions."""
    parameters = start(layers)
    run = rg.run(loss, 0.0, ring(BATCH, 0), passes, *parameters)
    return len(run.machine.memory), sum(p.size for p in parameters), run.steps


def sketch(*pictures: NDArray[Any], width: int = 36, height: int = 18, reach: float = 1.8) -> str:
    """Points as characters, one picture beside the other."""
    edges = [np.linspace(-reach, reach, n + 1) for n in (height, width)]
    counts = [np.histogram2d(-p[:, 1], p[:, 0], bins=edges)[0].astype(int) for p in pictures]
    return "\n".join(
        "   ".join("".join(" .:+#@"[min(c, 5)] for c in count[i]) for count in counts) for i in range(height)
    )


def main() -> None:
    """Train, compare, draw samples, and print the memory."""
    parser = argparse.ArgumentParser(description="Train a NICE flow on points about a circle.")
    parser.add_argument("--steps", type=int, default=300, help="of training (default: 300)")
    parser.add_argument("--plot", metavar="FILE", help="write a picture of data, f(data) and samples: .png, .svg, .pdf")
    arguments = parser.parse_args()
    data, unseen = ring(POINTS, seed=2), ring(UNSEEN, seed=3)
    parameters = start()
    before = loss(0.0, unseen, 1, *parameters).out
    began = time.perf_counter()

    def report(step: int, value: float) -> None:
        if step % 50 == 0 or step == arguments.steps:
            print(f"step {step:3}: loss of {BATCH} points {value:.3f}, {time.perf_counter() - began:.0f} s", flush=True)

    parameters = train(data, parameters, arguments.steps, report)
    after = loss(0.0, unseen, 1, *parameters).out
    print(
        f"loss of unseen points: {before:.3f} before, {after:.3f} after; {normal(unseen):.3f} for a normal distribution"
    )

    out = rg.run(flow, unseen, 1, *parameters.layers)
    back = rg.run(flow, *out.values, backward=True)
    same = back.words["points"] == rg.run(flow, unseen, 0, *parameters.layers).words["points"]
    print(f"unseen points out and back: the same to the bit: {same}")
    drawn = samples(UNSEEN, parameters)
    print(f"data, and samples drawn by running backward:\n{sketch(unseen, drawn)}")
    for layers, passes in ((2, 1), (4, 1), (8, 1), (8, 4)):
        total, own, steps = words(layers, passes)
        print(
            f"layers {layers}, passes {passes}: {steps:6} instructions, {total} words, {total - own} without the parameters"
        )
    if arguments.plot:
        plot(arguments.plot, {"data": unseen, "f(data)": out.values.points, "samples": drawn})


def plot(file: str, pictures: dict[str, NDArray[Any]]) -> None:
    """Scatter plots beside one another."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(pictures), figsize=(4 * len(pictures), 4), layout="constrained")
    for axis, (name, points) in zip(axes, pictures.items(), strict=True):
        axis.scatter(points[:, 0], points[:, 1], s=3)
        axis.set(title=name, aspect="equal", xlim=(-3, 3), ylim=(-3, 3))
    with replacing(file) as out:
        figure.savefig(out, format=Path(file).suffix[1:] or "png")


if __name__ == "__main__":
    main()
