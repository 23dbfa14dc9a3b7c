"""Random inputs of every function of the library and of the examples that has fixed-point numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from retrograd.examples import (
    bessel,
    bundle_adjustment,
    chains,
    compared,
    consistency,
    gmm,
    graph_embedding,
    hypot,
    leapfrog,
    nice,
    quadratic,
    sparse_dot,
    tradeoffs,
    wave,
)
from retrograd.examples.functional import network

from retrograd import Array, fixed, library, reversible

Rng = np.random.Generator


class Sample(NamedTuple):
    """A function, its random arguments, and the name of a result that is one fixed number."""

    function: Any
    arguments: Callable[[Rng], tuple[Any, ...]]
    loss: str = ""
    #: inputs of a slow test: a run of the longest functions takes seconds on the reference machine
    runs: int = 100


@reversible
def positive(inside: bool, x: fixed) -> None:
    inside ^= x > 0


@reversible
def logistic(y: fixed, x: fixed) -> None:
    y += 3.5 * x * (1 - x)


@reversible
def tenth(y: fixed, x: fixed) -> None:
    y += x * 0.1


@reversible
def add(y: fixed, x: fixed) -> None:
    y += x


@reversible
def accelerated(out: Array[fixed, "n"], t: fixed, x: Array[fixed, "n"]) -> None:
    out -= x * (1 + t)


def _points(g: Rng) -> tuple[Any, ...]:
    """A place between points that ascend, and the points."""
    xs = np.cumsum(g.uniform(0.2, 1, size=5))
    return float(g.uniform(xs[1], xs[3])), xs, g.normal(size=5)


def _history(g: Rng) -> Any:
    return np.vstack([g.normal(size=2), np.zeros((4, 2))])


def _vector(g: Rng) -> library.Vector3:
    return library.Vector3(*g.normal(size=3))


def _quaternion(g: Rng) -> library.Quaternion:
    q = g.normal(size=4)
    return library.Quaternion(*(q / np.linalg.norm(q)))


def _complex(g: Rng) -> library.Complex:
    return library.Complex(*g.normal(size=2))


def _regular(g: Rng, n: int) -> Any:
    """A matrix far from singular."""
    return g.normal(size=(n, n)) + 4 * np.eye(n)


def _definite(g: Rng, n: int) -> Any:
    """A symmetric matrix with eigenvalues of 1 and more."""
    a = g.normal(size=(n, n))
    return a @ a.T + np.eye(n)


def _sparse(g: Rng, full: float = 0.5) -> tuple[list[int], list[int], Any]:
    """The columns of a 4 × 4 matrix: where they start, the rows, the values."""
    there = g.random((4, 4)) < full
    starts = [0, *np.cumsum(there.sum(0)).tolist()]
    rows = [int(i) for column in range(4) for i in np.flatnonzero(there[:, column])]
    return starts, rows, g.normal(size=len(rows))


def _pair_of_sparse(g: Rng) -> tuple[Any, ...]:
    return *_sparse(g), *_sparse(g)


def _bodies(g: Rng) -> tuple[Any, Any, Any]:
    return g.normal(size=(3, 3)) * 3, g.normal(size=(3, 3)) * 3, g.uniform(0.1, 4, size=3)


def _camera(g: Rng) -> tuple[Any, ...]:
    turn, centre = g.normal(size=3) * 0.3, g.normal(size=3)
    camera = np.concatenate([turn, centre, [g.uniform(300, 800)], g.normal(size=2), g.normal(size=2) * 1e-2])
    point = centre + np.append(g.normal(size=2), -g.uniform(3, 9))
    return camera, point, float(g.uniform(0.1, 1)), g.normal(size=2) * 10


def _mixture(g: Rng) -> tuple[Any, ...]:
    return 0.0, g.normal(size=3), g.normal(size=(3, 2)), g.normal(size=(3, 3)) * 0.5, g.normal(size=(4, 2))


def _flow(g: Rng, *first: int) -> tuple[Any, ...]:
    return tuple(0.4 * g.normal(size=(*first, *n)) for n in ((3, 1), (3,), (1, 3), (1,)))


def _wave(g: Rng, steps: int) -> tuple[Any, ...]:
    q, p = (np.pad(g.normal(size=(3, 3)) * s, 1) for s in (1.0, 0.1))
    return q, p, g.uniform(0, 0.4, size=(5, 5)), steps


LIBRARY = {
    "affine": Sample(library.affine, lambda g: (np.zeros(2), g.normal(size=(2, 3)), g.normal(size=3), g.normal(size=2))),
    "argmax": Sample(library.argmax, lambda g: (0, g.normal(size=5))),
    "axpy": Sample(library.axpy, lambda g: (g.normal(size=3), g.normal() * 9, g.normal(size=3))),
    "bennett": Sample(library.bennett, lambda g: (logistic, 2, 2, [float(g.uniform(0, 1)), *[0.0] * (library.bennett_states(2, 2) - 1)])),
    "bennett_any": Sample(library.bennett_any, lambda g: (logistic, [float(g.uniform(0, 1)), *[0.0] * 4], int(g.integers(1, 9)))),
    "box_muller": Sample(library.box_muller, lambda g: (0.0, 0.0, float(g.uniform(1e-6, 1)), float(g.random())), "z1"),
    "cholesky": Sample(library.cholesky, lambda g: (np.zeros((3, 3)), _definite(g, 3))),
    "complex_abs": Sample(library.complex_abs, lambda g: (0.0, _complex(g)), "out"),
    "complex_arg": Sample(library.complex_arg, lambda g: (0.0, _complex(g)), "out"),
    "correlation": Sample(library.correlation, lambda g: (0.0, g.normal(size=5), 9 * g.normal(size=5)), "out"),
    "covariance": Sample(library.covariance, lambda g: (0.0, g.normal(size=5), 9 * g.normal(size=5)), "out"),
    "cross_entropy": Sample(library.cross_entropy, lambda g: (0.0, g.normal(size=4), g.dirichlet(np.ones(4))), "out"),
    "cumulative_sum": Sample(library.cumulative_sum, lambda g: (g.normal(size=6) * 30,)),
    "determinant": Sample(library.determinant, lambda g: (0.0, _regular(g, 3)), "out"),
    "dot": Sample(library.dot, lambda g: (0.0, g.normal(size=4) * 50, g.normal(size=4)), "out"),
    "eigh": Sample(library.eigh, lambda g: (np.zeros(3), np.zeros((3, 3)), np.diag([1.0, 4.0, 9.0]) + 0.1 * _definite(g, 3)), runs=10),
    "eliminate": Sample(library.eliminate, lambda g: (_regular(g, 3), np.zeros((3, 3)), [0] * 3)),
    "hadamard": Sample(library.hadamard, lambda g: (g.normal(), g.normal())),
    "fft": Sample(library.fft, lambda g: ([_complex(g) for _ in range(8)],)),
    "filter_into": Sample(library.filter_into, lambda g: (positive, np.zeros(5), [0] * 5, 0, g.normal(size=5))),
    "gauss_legendre": Sample(library.gauss_legendre, lambda g: (logistic, 0.0, *g.normal(size=2), 3), "out"),
    "idiv": Sample(library.idiv, lambda g: (g.normal(), float(g.uniform(0.5, 4)), 0.0)),
    "iexp": Sample(library.iexp, lambda g: (0.0, float(g.uniform(0.1, 2))), "out"),
    "imul": Sample(library.imul, lambda g: (g.normal(), float(g.uniform(0.5, 4)), 0.0)),
    "interpolate": Sample(library.interpolate, lambda g: (0.0, *_points(g)), "y"),
    "interpolate_cubic": Sample(library.interpolate_cubic, lambda g: (0.0, *_points(g), g.normal(size=5)), "y"),
    "inverse": Sample(library.inverse, lambda g: (np.zeros((3, 3)), _regular(g, 3))),
    "kick": Sample(library.kick, lambda g: (g.normal(size=(3, 2)), 2 * g.normal(size=(3, 2)), g.random(3), 0.01)),
    "largest": Sample(library.largest, lambda g: (0.0, g.normal(size=5) * 99), "out"),
    "lax_wendroff": Sample(library.lax_wendroff, lambda g: (np.vstack([g.normal(size=6), np.zeros((3, 6))]), 0.5)),
    "lstsq": Sample(library.lstsq, lambda g: (np.zeros(2), g.normal(size=(4, 2)) + np.eye(4, 2), g.normal(size=4))),
    "lax_wendroff_step": Sample(library.lax_wendroff_step, lambda g: (np.zeros(6), g.normal(size=6), 0.5)),
    "leapfrog": Sample(library.leapfrog, lambda g: (2 * g.normal(size=(3, 2)), g.normal(size=(3, 2)), g.random(3), 0.01, 4)),
    "log_factorial": Sample(library.log_factorial, lambda g: (1.0, int(g.integers(0, 12)))),
    "logsumexp": Sample(library.logsumexp, lambda g: (0.0, g.normal(size=5) * 4), "out"),
    "mapfold": Sample(library.mapfold, lambda g: (tenth, add, 0.0, g.normal(size=5)), "out"),
    "matmul": Sample(library.matmul, lambda g: (np.zeros((2, 2)), g.normal(size=(2, 3)), 9 * g.normal(size=(3, 2)))),
    "matvec": Sample(library.matvec, lambda g: (np.zeros(2), g.normal(size=(2, 3)), g.normal(size=3) * 9)),
    "mean": Sample(library.mean, lambda g: (0.0, g.normal(size=6)), "out"),
    "nice": Sample(library.nice, lambda g: (g.normal(size=2), *_flow(g, 2))),
    "norm": Sample(library.norm, lambda g: (0.0, g.normal(size=4) * 9), "out"),
    "norm2": Sample(library.norm2, lambda g: (0.0, g.normal(size=4) * 9), "out"),
    "normal_loglikelihood": Sample(
        library.normal_loglikelihood, lambda g: (0.0, g.normal(size=4), g.normal(), float(g.uniform(0.2, 4))), "out"),
    "normal_logpdf": Sample(
        library.normal_logpdf, lambda g: (0.0, g.normal(), g.normal(), float(g.uniform(0.2, 4))), "out"),
    "perceptron": Sample(library.perceptron, lambda g: (
        np.zeros(2), g.normal(size=3), g.normal(size=(4, 3)), g.normal(size=4), g.normal(size=(2, 4)), g.normal(size=2))),
    "permute": Sample(library.permute, lambda g: (g.normal(size=5) * 9, g.permutation(5).tolist())),
    "power": Sample(library.power, lambda g: (0.0, float(g.uniform(0.3, 2)), int(g.integers(0, 9))), "out"),
    "qr": Sample(library.qr, lambda g: (np.zeros((3, 3)), np.zeros((3, 3)), _regular(g, 3))),
    "relu": Sample(library.relu, lambda g: (0.0, g.normal() * 9), "out"),
    "reverse": Sample(library.reverse, lambda g: (g.normal(size=4) * 7,)),
    "reversible_heun": Sample(library.reversible_heun, lambda g: (accelerated, *[g.normal(size=2)] * 2, float(g.random()), 0.125, 3)),
    "rk4": Sample(library.rk4, lambda g: (accelerated, _history(g), float(g.random()), 0.125)),
    "rotate": Sample(library.rotate, lambda g: (library.Vector3(0, 0, 0), _vector(g), _quaternion(g))),
    "rotate_planes": Sample(library.rotate_planes, lambda g: (g.normal(size=(3, 2)), g.normal(size=3))),
    "scalar_product": Sample(library.scalar_product, lambda g: (0.0, _vector(g), _vector(g)), "out"),
    "simpson": Sample(library.simpson, lambda g: (0.0, g.normal(size=5), float(g.random())), "out"),
    "softmax": Sample(library.softmax, lambda g: (np.zeros(3), g.normal(size=3))),
    "solve": Sample(library.solve, lambda g: (np.zeros(3), _regular(g, 3), g.normal(size=3))),
    "sort": Sample(library.sort, lambda g: (g.normal(size=5) * 99, [0] * 5)),
    "sort_pairs": Sample(library.sort_pairs, lambda g: (g.normal(size=5) * 99, g.normal(size=5), [0] * 5)),
    "sparse_dot": Sample(library.sparse_dot, lambda g: (0.0, *_pair_of_sparse(g)), "out"),
    "sparse_dot_scattered": Sample(library.sparse_dot_scattered, lambda g: (0.0, 4, *_pair_of_sparse(g)), "out"),
    "sparse_matmul": Sample(library.sparse_matmul, lambda g: (
        [[library.Complex(0, 0)] * 2] * 4, [0, 1, 2, 2, 3], [0, 2, 3], [_complex(g) for _ in range(3)],
        [[_complex(g) for _ in range(2)] for _ in range(4)], _complex(g))),
    "spline": Sample(library.spline, lambda g: (np.zeros(5), *_points(g)[1:])),
    "svd": Sample(library.svd, lambda g: (np.zeros((3, 2)), np.zeros(2), np.zeros((2, 2)), np.diag([4.0, 1.0, 0.0])[:, :2] + 0.1 * g.normal(size=(3, 2))), runs=10),
    "total": Sample(library.total, lambda g: (0.0, g.normal(size=6) * 9), "out"),
    "trapezoid": Sample(library.trapezoid, lambda g: (0.0, g.normal(size=5), float(g.random())), "out"),
    "variance": Sample(library.variance, lambda g: (0.0, g.normal(size=6)), "out"),
    "vector_norm": Sample(library.vector_norm, lambda g: (0.0, _vector(g)), "out"),
    "verlet": Sample(library.verlet, lambda g: (accelerated, *g.normal(size=(2, 2)), float(g.random()), 0.125, 3)),
    "yoshida4": Sample(library.yoshida4, lambda g: (accelerated, *g.normal(size=(2, 2)), float(g.random()), 0.125, 3)),
}  # fmt: skip

#: functions of the library without fixed-point numbers, types, and functions of the host
WITHOUT_NUMBERS = {
    "Complex", "Quaternion", "Vector3", "bennett_any_calls", "bennett_calls", "bennett_states", "bennett_steps", "factorial",
    "fibonacci", "first_fibonacci", "online", "scale", "revolve", "treeverse", "treeverse_steps",
}  # fmt: skip

EXAMPLES = {
    "oscillator": Sample(chains.oscillator, lambda g: (0.0, *g.normal(size=2), 8), "loss"),
    "logistic": Sample(chains.logistic, lambda g: (0.0, float(g.random())), "y"),
    "bessel": Sample(bessel.bessel, lambda g: (0.0, float(g.uniform(0.5, 1.5))), "out"),
    "bessel_log": Sample(bessel.bessel_log, lambda g: (0.0, float(g.uniform(0.5, 1.5))), "out"),
    "project": Sample(bundle_adjustment.project, lambda g: (np.zeros(2), *_camera(g)[:2])),
    "first_error": Sample(bundle_adjustment.first_error, lambda g: (0.0, *_camera(g)), "loss"),
    "weight_error": Sample(bundle_adjustment.weight_error, lambda g: (0.0, float(g.random())), "error"),
    "hypotenuse": Sample(compared.hypotenuse, lambda g: (0.0, *(g.normal(size=2) * 9)), "r"),
    "leapfrog_step": Sample(compared.leapfrog_step, lambda g: (
        [float(g.uniform(0.5, 2)), float(g.normal())], g.normal(size=2))),
    "sorting": Sample(compared.sorting, lambda g: (g.normal(size=16) * 99, [0] * 16), runs=20),
    "keeping": Sample(consistency.keeping, lambda g: tuple(g.random(3)), "y"),
    "clearing": Sample(consistency.clearing, lambda g: tuple(g.random(3)), "y"),
    "gmm_objective": Sample(gmm.gmm_objective, _mixture, "out"),
    "embedding_loss": Sample(graph_embedding.embedding_loss, lambda g: (0.0, g.normal(size=(10, 2))), "out"),
    "hypot": Sample(hypot.hypot, lambda g: (0.0, *(g.normal(size=2) * 99)), "r"),
    "planets": Sample(leapfrog.leapfrog, lambda g: (*_bodies(g), 3)),
    "nice_loss": Sample(nice.loss, lambda g: (0.0, g.normal(size=(2, 2)), 1, *_flow(g, 2), g.normal(size=2)), "out"),
    "quadratic": Sample(quadratic.quadratic, lambda g: (0.0, *g.normal(size=2)), "out"),
    "trace_with_keeper": Sample(sparse_dot.trace_with_keeper, lambda g: (0.0, *_pair_of_sparse(g), 4), "out"),
    "product_by_fixed": Sample(tradeoffs.product_by_fixed, lambda g: (0.0, g.uniform(0.5, 2, size=5)), "y"),
    "product_by_lognum": Sample(tradeoffs.product_by_lognum, lambda g: (0.0, g.uniform(0.5, 2, size=5)), "y"),
    "squared_error": Sample(tradeoffs.squared_error, lambda g: (0.0, *_camera(g)), "loss"),
    "propagate": Sample(wave.propagate, lambda g: _wave(g, 3)),
    "exclusive_or": Sample(network.exclusive_or, lambda g: (float(g.uniform(0.05, 0.5)), 1), runs=8),
    "layers_of_a_classifier": Sample(network.layers_of_a_classifier, lambda g: (float(g.uniform(0.1, 1)), 3, 2), runs=8),
    "misfit": Sample(wave.misfit, lambda g: (0.0, *_wave(g, 2)[:3], g.normal(size=5), 3, 2), "out"),
}  # fmt: skip

SAMPLES = LIBRARY | EXAMPLES
