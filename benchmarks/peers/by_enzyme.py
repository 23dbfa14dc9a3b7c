"""Enzyme, by its Python package: C++ called from jax, differentiated by Enzyme in LLVM (`enzyme_ad.jax.cpp_call`).

The sources include no header but Enzyme's own: where the system keeps its headers, the compiler inside does not know. Scratch
memory is an argument, or local to one element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.peers.by_jax import jax, jitted
from retrograd.benchmarks.workload import Embeddings, Measurements, Mixture, Numbers, SparsePair, Wave

#: options of the compiler in the package
FLAGS = ("-O3",)

_BESSEL = """
template<std::size_t N>
void bessel(enzyme::tensor<double, N>& out, const enzyme::tensor<double, N>& z) {
    for (std::size_t i = 0; i < N; i++) {
        double quarter = z[i] * z[i] * 0.25, term = quarter * 0.5, total = term;
        for (int k = 1; __builtin_fabs(term) > 1e-8; k++) {
            term *= -quarter / (double(k) * (k + 2));
            total += term;
        }
        out[i] = total;
    }
}
"""

#: the lengths of all pairs, and the means of connected pairs and of the others
_LENGTHS = """\
    const int pairs[%(count)d][2] = {%(pairs)s};
    const int edges = %(edges)d, others = %(count)d - edges;
    for (std::size_t b = 0; b < B; b++) {
        double lengths[%(count)d], near = 0, far = 0;
        for (int e = 0; e < edges + others; e++) {
            double square = 0;
            for (std::size_t c = 0; c < K; c++) {
                double d = x[b][pairs[e][0]][c] - x[b][pairs[e][1]][c];
                square += d * d;
            }
            lengths[e] = __builtin_sqrt(square);
            if (e < edges) near += lengths[e]; else far += lengths[e];
        }
        near /= edges; far /= others;
"""

_EMBEDDING = """
template<std::size_t B, std::size_t V, std::size_t K>
void embedding(enzyme::tensor<double, B>& out, const enzyme::tensor<double, B, V, K>& x) {
%(lengths)s        double near_square = 0, far_square = 0;
        for (int e = 0; e < edges; e++) near_square += (lengths[e] - near) * (lengths[e] - near);
        for (int e = edges; e < edges + others; e++) far_square += (lengths[e] - far) * (lengths[e] - far);
        double loss = near_square / (edges - 1) + far_square / (others - 1);
        double gap = near - far + 0.1;
        if (gap > 0) loss += __builtin_exp(gap) - 1;
        out[b] = loss;
    }
}
"""

#: by hand: Enzyme goes through it forward for the Hessian
_SLOPE = """
template<std::size_t B, std::size_t V, std::size_t K>
void slope(enzyme::tensor<double, B, V, K>& out, const enzyme::tensor<double, B, V, K>& x) {
%(lengths)s        double gap = near - far + 0.1;
        double penalty = gap > 0 ? __builtin_exp(gap) : 0;
        for (std::size_t i = 0; i < V; i++) for (std::size_t c = 0; c < K; c++) out[b][i][c] = 0;
        for (int e = 0; e < edges + others; e++) {
            double force = e < edges ? 2 * (lengths[e] - near) / (edges - 1) + penalty / edges
                                     : 2 * (lengths[e] - far) / (others - 1) - penalty / others;
            force /= lengths[e];
            for (std::size_t c = 0; c < K; c++) {
                double d = force * (x[b][pairs[e][0]][c] - x[b][pairs[e][1]][c]);
                out[b][pairs[e][0]][c] += d;
                out[b][pairs[e][1]][c] -= d;
            }
        }
    }
}
"""

_ERRORS = """
template<std::size_t N>
void errors(enzyme::tensor<double, N, 2>& out, const enzyme::tensor<double, N, 15>& inputs,
            const enzyme::tensor<double, N, 2>& features) {
    for (std::size_t i = 0; i < N; i++) {
        double r0 = inputs[i][0], r1 = inputs[i][1], r2 = inputs[i][2];
        double x0 = inputs[i][11] - inputs[i][3], x1 = inputs[i][12] - inputs[i][4], x2 = inputs[i][13] - inputs[i][5];
        double square = r0 * r0 + r1 * r1 + r2 * r2, y0, y1, y2;
        if (square != 0) {
            double theta = __builtin_sqrt(square), c = __builtin_cos(theta), s = __builtin_sin(theta), inverse = 1 / theta;
            double n0 = r0 * inverse, n1 = r1 * inverse, n2 = r2 * inverse;
            double along = (1 - c) * (n0 * x0 + n1 * x1 + n2 * x2);
            y0 = c * x0 + s * (n1 * x2 - n2 * x1) + along * n0;
            y1 = c * x1 + s * (n2 * x0 - n0 * x2) + along * n1;
            y2 = c * x2 + s * (n0 * x1 - n1 * x0) + along * n2;
        } else {
            y0 = x0 + r1 * x2 - r2 * x1; y1 = x1 + r2 * x0 - r0 * x2; y2 = x2 + r0 * x1 - r1 * x0;
        }
        double p0 = y0 / y2, p1 = y1 / y2, rho = p0 * p0 + p1 * p1;
        double scale = inputs[i][6] * (1 + (inputs[i][9] + inputs[i][10] * rho) * rho);
        out[i][0] = inputs[i][14] * (scale * p0 + inputs[i][7] - features[i][0]);
        out[i][1] = inputs[i][14] * (scale * p1 + inputs[i][8] - features[i][1]);
    }
}
"""

#: the sum of exponentials is rescaled at each new maximum: Enzyme 0.0.16 has wrong gradients of an array that is written for each point
_MIXTURE = """
template<std::size_t K, std::size_t D, std::size_t L, std::size_t N>
void mixture(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, K>& alphas,
             const enzyme::tensor<double, K, D>& means, const enzyme::tensor<double, K, L>& icf,
             const enzyme::tensor<double, N, D>& x) {
    const double gamma = %(gamma)r, m = %(m)r;
    double q[K][D], offsets[K], total = 0;
    for (std::size_t j = 0; j < K; j++) {
        double trace = 0;
        for (std::size_t c = 0; c < D; c++) {
            trace += icf[j][c];
            q[j][c] = __builtin_exp(icf[j][c]);
            total += 0.5 * gamma * gamma * q[j][c] * q[j][c];
        }
        for (std::size_t c = D; c < L; c++) total += 0.5 * gamma * gamma * icf[j][c] * icf[j][c];
        total -= m * trace;
        offsets[j] = alphas[j] + trace;
    }
    for (std::size_t i = 0; i < N; i++) {
        double largest = -1e300, sum = 0;
        for (std::size_t j = 0; j < K; j++) {
            double square = 0;
            for (std::size_t row = 0; row < D; row++) {
                double y = q[j][row] * (x[i][row] - means[j][row]);
                for (std::size_t c = 0; c < row; c++)
                    y += icf[j][D + c * (2 * D - c - 1) / 2 + row - c - 1] * (x[i][c] - means[j][c]);
                square += y * y;
            }
            double term = offsets[j] - 0.5 * square;
            if (term > largest) {
                sum = sum * __builtin_exp(largest - term) + 1;
                largest = term;
            } else {
                sum += __builtin_exp(term - largest);
            }
        }
        total += __builtin_log(sum) + largest;
    }
    double largest = alphas[0], sum = 0;
    for (std::size_t j = 1; j < K; j++) if (alphas[j] > largest) largest = alphas[j];
    for (std::size_t j = 0; j < K; j++) sum += __builtin_exp(alphas[j] - largest);
    out[0] = total - N * (__builtin_log(sum) + largest) - %(constant)r;
}
"""

_TRACE = """
static const int a_starts[] = {%(a_starts)s}, a_rows[] = {%(a_rows)s};
static const int b_starts[] = {%(b_starts)s}, b_rows[] = {%(b_rows)s};
template<std::size_t P, std::size_t Q>
void trace(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, P>& a, const enzyme::tensor<double, Q>& b) {
    double total = 0;
    for (int j = 0; j < %(columns)d; j++) {
        int i = a_starts[j], k = b_starts[j];
        while (i < a_starts[j + 1] && k < b_starts[j + 1]) {
            int above = a_rows[i], below = b_rows[k];
            if (above == below) total += a[i] * b[k];
            i += above <= below;
            k += below <= above;
        }
    }
    out[0] = total;
}
"""

_WAVE = """
template<std::size_t N, std::size_t M>
void wave(enzyme::tensor<double, N, M>& out, enzyme::tensor<double, N, M>& p, const enzyme::tensor<double, N, M>& q0,
          const enzyme::tensor<double, N, M>& p0, const enzyme::tensor<double, N, M>& c) {
    for (std::size_t i = 0; i < N; i++)
        for (std::size_t j = 0; j < M; j++) { out[i][j] = q0[i][j]; p[i][j] = p0[i][j]; }
    for (int t = 0; t < %(steps)d; t++) {
        for (std::size_t i = 1; i < N - 1; i++)
            for (std::size_t j = 1; j < M - 1; j++)
                p[i][j] += c[i][j] * (out[i - 1][j] + out[i + 1][j] + out[i][j - 1] + out[i][j + 1] - 4 * out[i][j]);
        for (std::size_t i = 1; i < N - 1; i++)
            for (std::size_t j = 1; j < M - 1; j++) out[i][j] += p[i][j];
    }
}
"""


def _function(source: str, name: str, *shapes: tuple[int, ...]) -> Callable[..., Any]:
    """The C++ function as one of jax, with the shapes of its results; it gives the first of them."""
    from enzyme_ad.jax import cpp_call

    out = [jax().core.ShapedArray(shape, np.dtype("float64")) for shape in shapes]
    return lambda *given: cpp_call(*given, out_shapes=out, source=source, fn=name, argv=FLAGS)[0]


def _back(f: Callable[..., Any], wanted: int, seed: Any) -> Callable[..., Any]:
    """The cotangents of the first arguments."""

    def gradient(*given: Any) -> Any:
        _, pull = jax().vjp(lambda *first: f(*first, *given[wanted:]), *given[:wanted])
        return pull(seed)

    return gradient


def _ones(*shape: int) -> Any:
    return np.ones(shape)


# ---------------------------------------------------------------------- the tasks


def _bessel(d: Numbers) -> Callable[..., Any]:
    return _function(_BESSEL, "bessel", d.z.shape)


def _bessel_gradient(d: Numbers) -> Prepared:
    """Forward: one number in, one out. Backward Enzyme would keep every pass of a loop whose end it cannot foresee."""
    f, one = _bessel(d), np.ones_like(d.z)
    return jitted(lambda z: jax().jvp(f, (z,), (one,))[1], d.z, note="forward mode")


def _names(d: Embeddings) -> dict[str, Any]:
    listed = ", ".join(f"{{{i}, {j}}}" for i, j in d.pairs.tolist())
    numbers = {"count": len(d.pairs), "edges": d.edges, "pairs": listed}
    return numbers | {"lengths": _LENGTHS % numbers}


def _embedding(d: Embeddings) -> Callable[..., Any]:
    return _function(_EMBEDDING % _names(d), "embedding", (len(d.x),))


def _hessian(d: Embeddings) -> Prepared:
    n = d.x[0].size
    f = _function(_SLOPE % _names(d), "slope", (n, *d.x[0].shape))
    units = np.eye(n).reshape(n, *d.x[0].shape)
    note = "forward over a gradient by hand"
    done = jitted(lambda x: jax().jvp(f, (x,), (units,))[1], np.repeat(d.x[:1], n, axis=0), note=note)
    return Prepared(done.call, done.read, note, 1)


def _errors(d: Measurements) -> Callable[..., Any]:
    return _function(_ERRORS, "errors", (len(d.weights), 2))


def _jacobian(d: Measurements) -> Prepared:
    """One call for each row: Enzyme frees on the way back the values kept on the way forward, which one jax program would share."""
    f, count = _errors(d), len(d.weights)
    library = jax()
    inputs, features, *seeds = map(
        library.device_put, (d.inputs, d.features, *(np.tile(r, (count, 1)) for r in np.eye(2)))
    )
    row = library.jit(lambda z, features, seed: library.vjp(lambda z: f(z, features), z)[1](seed)[0])

    def call() -> Any:
        return library.block_until_ready([row(inputs, features, seed) for seed in seeds])

    return Prepared(call, lambda found: np.stack(found, axis=1), "forward and back for each row")


def _mixture(d: Mixture) -> Callable[..., Any]:
    import math

    (n, size), k = d.x.shape, len(d.alphas)
    dof = size + d.m + 1
    wishart = dof * size * (math.log(d.gamma) - 0.5 * math.log(2)) - 0.25 * size * (size - 1) * math.log(math.pi)
    wishart -= sum(math.lgamma(0.5 * (dof - c)) for c in range(size))
    constant = n * size * 0.5 * math.log(2 * math.pi) + k * wishart
    return _function(
        _MIXTURE % {"gamma": float(d.gamma), "m": float(d.m), "constant": constant}, "mixture", (1,)
    )  # fmt: skip


def _trace(d: SparsePair) -> Callable[..., Any]:
    """The pattern is a constant of the source: the package differentiates by all arguments, and has no cotangents of integers."""
    parts = {"a_starts": d.a_starts, "a_rows": d.a_rows, "b_starts": d.b_starts, "b_rows": d.b_rows}
    listed: dict[str, Any] = {name: ", ".join(map(str, part.tolist())) for name, part in parts.items()}
    return _function(_TRACE % (listed | {"columns": len(d.a_starts) - 1}), "trace", (1,))


def _wave(d: Wave) -> Prepared:
    """The value alone: Enzyme 0.0.16 makes a gradient of zeros of fields that are updated in place at each step."""
    f = _function(_WAVE % {"steps": d.steps}, "wave", d.q.shape, d.p.shape)
    return jitted(f, d.q, d.p, d.c, note="without a gradient: that of fields updated in place is wrong")


TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): lambda d: jitted(_bessel(d), d.z),
    (Numbers, "gradient"): _bessel_gradient,
    (Embeddings, "value"): lambda d: jitted(_embedding(d), d.x),
    (Embeddings, "gradient"): lambda d: jitted(_back(_embedding(d), 1, _ones(len(d.x))), d.x, read=lambda g: np.asarray(g[0])),
    (Embeddings, "hessian"): _hessian,
    (Measurements, "value"): lambda d: jitted(_errors(d), d.inputs, d.features),
    (Measurements, "jacobian"): _jacobian,
    (Mixture, "value"): lambda d: jitted(_mixture(d), d.alphas, d.means, d.icf, d.x),
    (Mixture, "gradient"): lambda d: jitted(
        _back(_mixture(d), 3, _ones(1)), d.alphas, d.means, d.icf, d.x, read=flat
    ),
    (SparsePair, "value"): lambda d: jitted(_trace(d), d.a, d.b),
    (SparsePair, "gradient"): lambda d: jitted(_back(_trace(d), 2, _ones(1)), d.a, d.b, read=flat),
    (Wave, "value"): _wave,
}  # fmt: skip
