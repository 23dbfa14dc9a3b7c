"""Numba: plain loops in float64, adjoints by hand. The kernels are in `retrograd.benchmarks.primals`."""

from __future__ import annotations

from typing import Any

import numpy as np
from retrograd.benchmarks import primals
from retrograd.benchmarks.data import Bodies, Embeddings, Measurements, Mixture, Numbers, SparsePair, Wave
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.primals import compiled

HAND = "adjoint by hand"


def _bessel(d: Numbers) -> Prepared:
    kernel, out = compiled(primals.bessel), np.empty_like(d.z)
    return Prepared(lambda: kernel(out, d.z), lambda _: out)


def _bessel_gradient(d: Numbers) -> Prepared:
    kernel, out, slope = compiled(primals.bessel_gradient), np.empty_like(d.z), np.empty_like(d.z)
    return Prepared(lambda: kernel(out, slope, d.z), lambda _: slope, HAND)


def _embedding(d: Embeddings) -> Prepared:
    kernel, out = compiled(primals.embedding), np.empty(len(d.x))
    return Prepared(lambda: kernel(out, d.x, d.pairs, d.edges), lambda _: out)


def _embedding_gradient(d: Embeddings) -> Prepared:
    kernel, out, slope = compiled(primals.embedding_gradient), np.empty(len(d.x)), np.empty_like(d.x)
    return Prepared(lambda: kernel(out, slope, d.x, d.pairs, d.edges), lambda _: slope, HAND)


def _errors(d: Measurements) -> Prepared:
    kernel, out = compiled(primals.reprojection), np.empty_like(d.features)
    return Prepared(lambda: kernel(out, *d.arguments), lambda _: out)


def _blocks(d: Measurements) -> Prepared:
    kernel, out = compiled(primals.reprojection_jacobian), np.empty_like(d.features)
    blocks = np.empty((len(d.weights), 2, 15))
    return Prepared(lambda: kernel(out, blocks, *d.arguments), lambda _: blocks, HAND)


def _mixture(d: Mixture) -> Prepared:
    kernel = compiled(primals.mixture)
    return Prepared(lambda: kernel(*d.arguments))


def _mixture_gradient(d: Mixture) -> Prepared:
    kernel = compiled(primals.mixture_gradient)
    slopes = [np.empty_like(part) for part in (d.alphas, d.means, d.icf)]
    return Prepared(lambda: kernel(*slopes, *d.arguments), lambda _: flat(slopes), HAND)


def _trace(d: SparsePair) -> Prepared:
    kernel = compiled(primals.sparse_trace)
    return Prepared(lambda: kernel(d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b))


def _trace_gradient(d: SparsePair) -> Prepared:
    kernel, by_a, by_b = compiled(primals.sparse_trace_gradient), np.empty_like(d.a), np.empty_like(d.b)
    return Prepared(
        lambda: kernel(by_a, by_b, d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b),
        lambda _: flat((by_a, by_b)), HAND,
    )  # fmt: skip


def _planets(d: Bodies) -> Prepared:
    kernel = compiled(primals.leapfrog)
    return Prepared(lambda: kernel(d.q, d.v, d.gm, d.steps, d.h), lambda found: found[0])


def _wave(d: Wave) -> Prepared:
    kernel = compiled(primals.wave)

    def call() -> Any:
        q, p = d.q.copy(), d.p.copy()
        kernel(q, p, d.c, d.steps)
        return q

    return Prepared(call)


def _wave_gradient(d: Wave) -> Prepared:
    forth, back = compiled(primals.wave), compiled(primals.wave_adjoint)

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
    (Bodies, "value"): _planets,
    (Wave, "value"): _wave,
    (Wave, "gradient"): _wave_gradient,
}
