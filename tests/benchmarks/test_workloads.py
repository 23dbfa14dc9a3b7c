"""The workloads themselves: all of the list, their goldens, and peers against the reference, where they are installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import references
from retrograd.benchmarks.measure import PEER_TOLERANCE
from retrograd.benchmarks.peers import PEERS, by_numba
from retrograd.benchmarks.workload import (
    Bodies,
    Embeddings,
    Measurements,
    Mixture,
    Numbers,
    Polynomial,
    Sizes,
    SparsePair,
    Task,
)
from retrograd.benchmarks.workloads import ALL, functions, simulations, small
from retrograd.benchmarks.workloads.functions import PAIRS, slope
from retrograd.examples import wave as example

QUICK = Sizes(quick=True)
NAMES = [w.name for w in ALL]
DENSE = tuple(name + suffix for suffix in ("", "-narrow") for name in ("matmul", "regression", "polynomial"))
TIMED = ("bessel", "sparse-dot", "graph", "gmm", "ba", "leapfrog", "wave", *DENSE)


def tasks() -> list[tuple[str, Task]]:
    return [(w.name, t) for w in ALL if w.name in TIMED for p in w.problems(QUICK) for t in p.tasks]


def test_every_row_of_the_list_is_there() -> None:
    assert [
        "bessel", "bessel-lognum", "sparse-dot", "graph", "gmm", "ba", "leapfrog", "wave", *DENSE, "bennett", "fibonacci", "iexp", "norm", "qr",
        "unitary", "affine", "nice", "fft", "lax-wendroff", "box-muller", "consistency", "sorting", "functional", "hessian-vector",
    ] == NAMES  # fmt: skip


@pytest.mark.parametrize("name", [w.name for w in small.ALL])
def test_goldens_of_the_small_ones(name: str) -> None:
    workload = next(w for w in ALL if w.name == name)
    goldens = list(workload.goldens())
    assert goldens
    for g in goldens:
        assert abs(g.found() - g.expected) <= g.tolerance, g.what


def test_goldens_are_those_that_were_published() -> None:
    published = {
        "bessel": [0.1149034849298, 0.2102436158518, 0.13446683853], "gmm": [8.07380408004975791, -25649.6526211973],
        "ba": [-0.2690488, 0.2599448, 310, -461.4463210015993], "bennett": [2401, 14, 59049, 12], "fibonacci": [55, 12],
        "iexp": [4.95303242438] * 2, "consistency": [0.5543552444685, 5.336], "hessian-vector": [52, 85, 118, 24],
    }  # fmt: skip
    for name, expected in published.items():
        assert [g.expected for g in next(w for w in ALL if w.name == name).goldens()] == expected


def test_the_series_as_far_as_it_goes() -> None:
    z = np.array([0.5, 1.0, 1.5])
    for found, which in zip(functions.bessel_reference(z, 1e-17), range(3), strict=True):
        assert found == pytest.approx([references.bessel(2, x)[which] for x in z], rel=1e-13)


def test_kernels_without_numba() -> None:
    """The kernels, as plain Python, against the references."""
    for name, t in tasks():
        d = t.data
        match name, t.what, d:
            case _, "gradient", Numbers():
                out, by_z = np.empty_like(d.z[:50]), np.empty_like(d.z[:50])
                by_numba.bessel_gradient(out, by_z, d.z[:50])
                assert by_z == pytest.approx(t.exact[:50], rel=1e-12)
            case _, "gradient", Embeddings():
                out, by_x = np.empty(2), np.empty_like(d.x[:2])
                by_numba.embedding_gradient(out, by_x, d.x[:2], d.pairs, d.edges)
                assert by_x == pytest.approx(t.exact, rel=1e-10, abs=1e-12)
                assert np.stack([slope(x) for x in d.x[:2]]) == pytest.approx(t.exact, rel=1e-10, abs=1e-12)
                assert len(PAIRS) == len(d.pairs) == 45
            case _, "jacobian", Measurements():
                n = len(t.exact)
                few = replace(
                    d, cameras=d.cameras[:n], points=d.points[:n], weights=d.weights[:n], features=d.features[:n]
                )
                out, blocks = np.empty((n, 2)), np.empty((n, 2, 15))
                by_numba.reprojection_jacobian(out, blocks, *few.arguments)
                assert t.error(blocks) < 1e-12
            case _, "gradient", Mixture():
                by: list[Any] = [np.empty_like(part) for part in (d.alphas, d.means, d.icf)]
                value = by_numba.mixture_gradient(*by, *d.arguments)
                assert value == pytest.approx(references.likelihood(*d.arguments), rel=1e-12)
                assert t.error(np.concatenate([np.ravel(part) for part in by])) < 1e-12
            case _, "gradient", SparsePair():
                by_a, by_b = np.empty_like(d.a), np.empty_like(d.b)
                by_numba.sparse_trace_gradient(by_a, by_b, d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b)
                assert t.error(np.concatenate([by_a, by_b])) == 0
            case _, "value", Polynomial():
                out = np.empty_like(d.x)
                by_numba.polynomial(out, d.x, *d.coefficients)
                assert t.error(out) < 1e-14
            case _, "value", Bodies():
                after, _ = by_numba.leapfrog(d.q, d.v, d.gm, d.steps, d.h)
                assert t.error(after) < 1e-10


def test_references_and_kernels_of_the_wave() -> None:
    """The adjoint by hand and the kernels, as plain Python, against a complex step through the plain scheme."""
    d = simulations.wave_data(12, 9)
    _, by_c = references.misfit(d.q, d.p, d.c, d.steps, d.misfit)

    def loss(c: Any) -> Any:
        q = example.reference(d.q.astype(complex), d.p.astype(complex), c, d.steps)[0]
        return ((q[:, d.line] - d.seen) ** 2).sum()

    exact = references.jacobian(loss, d.c)
    assert np.abs(exact).max() > 1e-3
    assert by_c == pytest.approx(exact, abs=1e-14)
    q, p, kernel = d.q.copy(), d.p.copy(), np.zeros_like(d.c)
    by_numba.wave(q, p, d.c, d.steps)
    assert q == pytest.approx(example.reference(d.q, d.p, d.c, d.steps)[0], abs=1e-14)
    by_numba.wave_adjoint(q, p, d.c, d.misfit(q)[1], np.zeros_like(p), kernel, d.steps)
    assert kernel == pytest.approx(exact, abs=1e-12)
    assert q == pytest.approx(d.q, abs=1e-12)


def test_the_error_of_the_wave_is_that_of_rounding_to_nearest() -> None:
    """A product's error is uniform within half a unit: float64 with such random errors is off by as much, within a third."""
    n, steps = simulations.SIZES[0]
    d = simulations.wave_data(n, steps)
    t = simulations.WAVE.problems(QUICK)[0].tasks[0]
    program = t.ours()
    found = program.read(program.run("translated")).reshape(n, n) - t.reference
    generator = np.random.default_rng(1)
    q, p, inner = d.q.copy(), d.p.copy(), np.s_[1:-1, 1:-1]
    for _ in range(steps):
        laplacian = q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] - 4 * q[inner]
        p[inner] += d.c[inner] * laplacian + 2.0**-32 * generator.uniform(-0.5, 0.5, laplacian.shape)
        q[inner] += p[inner]
    assert np.std(found) == pytest.approx(np.std(q - t.reference), rel=0.33)


@pytest.mark.parametrize("name", DENSE)
def test_words_of_both_sizes_are_right(name: str) -> None:
    """Within the rounding of their words; the derivative of the reference is that of a complex step."""
    for t in (t for of, t in tasks() if of == name):
        program = t.ours()
        assert t.error(program.read(program.run("translated"))) <= t.tolerance
    if name == "regression":
        d = t.data
        exact = references.jacobian(lambda w: ((d.x @ w - d.y) ** 2).sum() / len(d.y), d.w)
        assert d.gradient() == pytest.approx(exact, rel=1e-12)


@pytest.mark.long
def test_a_hundred_thousand_steps_of_the_wave_and_back() -> None:
    assert simulations.differing(64, 100_000) == 0


@pytest.mark.parametrize("name", ["gmm", "graph", "bessel"])
def test_values_are_undone(name: str) -> None:
    """`uncall` compares all words with those before, by the translation's backward code."""
    next(t for of, t in tasks() if (of, t.what) == (name, "value")).ours().uncall()


@pytest.mark.long
@pytest.mark.parametrize("peer", PEERS)
def test_peers_agree_with_the_reference(peer: str) -> None:
    absent = PEERS[peer].absent()
    if absent:
        pytest.skip(f"{peer}: {absent}")
    for name, t in tasks():
        if (peer, t.what) == ("casadi", "hessian"):  # its C takes minutes to compile
            continue
        for system, made in PEERS[peer].systems(type(t.data), t.what).items():
            if made is not None:
                prepared = made(t.data)
                assert t.relative_error(prepared.read(prepared.call())) <= PEER_TOLERANCE, (name, t.what, system)


@pytest.mark.parametrize("peer", PEERS)
def test_peers_are_asked_for_what_there_is(peer: str) -> None:
    """Each task of a peer is one of a workload: none is written in vain. Nothing of the peer's is imported for that."""
    kinds = {(type(t.data), t.what) for _, t in tasks()}
    assert set(PEERS[peer].tasks()) <= kinds
    for tasks_of_way in PEERS[peer].ways().values():
        assert set(tasks_of_way) <= kinds
