"""jax on the CPU: jit, vmap, while_loop and scan; float64; data on the device before the clock starts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.workload import Bodies, Embeddings, Measurements, Mixture, Numbers, SparsePair, Wave

#: options of XLA: one thread
FLAGS = ("--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1")


@functools.cache
def jax() -> Any:
    """The library, in 64 bits, on the CPU with one thread."""
    import os

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
    import jax as library

    library.config.update("jax_enable_x64", True)
    return library


def jitted(f: Callable[..., Any], *arguments: Any, read: Callable[[Any], Any] = np.asarray, note: str = "") -> Prepared:
    """f, compiled, on these arrays."""
    library = jax()
    compiled = library.jit(f)
    there = [library.device_put(np.asarray(a)) for a in arguments]
    return Prepared(lambda: library.block_until_ready(compiled(*there)), read, note)


# ---------------------------------------------------------------------- the definitions


def bessel(z: Any) -> Any:
    """J₂(z), until a term is at most 1e-8."""
    from jax import lax

    quarter = (z / 2) ** 2

    def step(state: Any) -> Any:
        k, term, total = state
        term = term * -quarter / (k * (k + 2))
        return k + 1, term, total + term

    first = quarter / 2
    return lax.while_loop(lambda state: abs(state[1]) > 1e-8, step, (1.0, first, first))[2]


def embedding(x: Any, pairs: Any, edges: int) -> Any:
    """The loss of one embedding."""
    import jax.numpy as jnp

    lengths = jnp.sqrt(((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2).sum(axis=1))
    near, far = lengths[:edges], lengths[edges:]
    gap = near.mean() - far.mean() + 0.1
    return near.var(ddof=1) + far.var(ddof=1) + jnp.exp(jnp.maximum(gap, 0.0)) - 1


def projection_error(inputs: Any, feature: Any) -> Any:
    """The error of one measurement, of its 15 inputs."""
    import jax.numpy as jnp

    r, x = inputs[:3], inputs[11:14] - inputs[3:6]
    theta = jnp.sqrt(r @ r)
    n, c = r / theta, jnp.cos(theta)
    seen = c * x + jnp.sin(theta) * jnp.cross(n, x) + (1 - c) * (n @ x) * n
    p = seen[:2] / seen[2]
    square = p @ p
    scale = inputs[6] * (1 + (inputs[9] + inputs[10] * square) * square)
    return inputs[14] * (scale * p + inputs[7:9] - feature)


def mixture(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Any:
    """ADBench's objective, all points in one array."""
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp, multigammaln

    (n, d), k = x.shape, len(alphas)
    columns, rows = np.triu_indices(d, 1)
    q = jnp.zeros((k, d, d)).at[:, rows, columns].set(icf[:, d:])
    q = q + jnp.exp(icf[:, :d])[:, :, None] * jnp.eye(d)
    y = jnp.einsum("jab,ijb->ija", q, x[:, None, :] - means)
    traces = icf[:, :d].sum(axis=1)
    dof = d + m + 1
    constant = dof * d * (np.log(gamma) - np.log(2) / 2) - multigammaln(dof / 2, d)
    terms = alphas + traces - (y**2).sum(axis=2) / 2
    prior = gamma**2 / 2 * (q**2).sum() - m * traces.sum() - k * constant
    return logsumexp(terms, axis=1).sum() - n * (logsumexp(alphas) + d * np.log(2 * np.pi) / 2) + prior


def planets(q: Any, v: Any, gm: Any, steps: int, h: float) -> Any:
    """Places afterwards."""
    import jax.numpy as jnp
    from jax import lax

    itself = jnp.eye(len(gm))

    def step(state: Any, _: Any) -> Any:
        q, v = state
        q = q + v * (h / 2)
        d = q[None] - q[:, None]
        square = (d**2).sum(axis=-1) + itself
        v = v + h * jnp.einsum("j,ijc->ic", gm, d / (square * jnp.sqrt(square))[..., None])
        return (q + v * (h / 2), v), None

    return lax.scan(step, (q, v), None, length=steps)[0][0]


def wave(q: Any, p: Any, c: Any, steps: int, levels: int = 1) -> Any:
    """q after `steps` steps. With two levels the outer scan keeps its states only, and the inner one is computed again on the way back."""
    from jax import lax

    def step(state: Any, _: Any) -> Any:
        q, p = state
        inner = q[1:-1, 1:-1]
        laplacian = q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] - 4 * inner
        p = p.at[1:-1, 1:-1].add(c[1:-1, 1:-1] * laplacian)
        return (q.at[1:-1, 1:-1].add(p[1:-1, 1:-1]), p), None

    if levels == 1:
        return lax.scan(step, (q, p), None, length=steps)[0][0]
    stride = max(d for d in range(1, math.isqrt(steps) + 1) if steps % d == 0)

    def many(state: Any, _: Any) -> Any:
        return lax.scan(step, state, None, length=stride)[0], None

    return lax.scan(jax().checkpoint(many), (q, p), None, length=steps // stride)[0][0]


# ---------------------------------------------------------------------- the tasks


def _wave_gradient(d: Wave, levels: int, note: str) -> Prepared:
    def misfit(c: Any, q: Any, p: Any) -> Any:
        return ((wave(q, p, c, d.steps, levels)[:, d.line] - d.seen) ** 2).sum()

    return jitted(jax().grad(misfit), d.c, d.q, d.p, note=note)


def _bessel_gradient(d: Numbers) -> Prepared:
    note = "forward mode: reverse mode refuses the while loop"
    return jitted(jax().vmap(lambda z: jax().jvp(bessel, (z,), (1.0,))[1]), d.z, note=note)


def _bessel_hessian(d: Numbers) -> Prepared:
    def slope(z: Any) -> Any:
        return jax().jvp(bessel, (z,), (1.0,))[1]

    return jitted(jax().vmap(lambda z: jax().jvp(slope, (z,), (1.0,))[1]), d.z, note="forward over forward")


def _loss(d: Embeddings) -> Callable[[Any], Any]:
    return lambda x: embedding(x, d.pairs, d.edges)


def _embedding_hessian(d: Embeddings) -> Prepared:
    done = jitted(jax().hessian(_loss(d)), d.x[0], note="jax.hessian: forward over reverse")
    return Prepared(done.call, done.read, done.note, 1)


def _objective(d: Mixture) -> Callable[..., Any]:
    return lambda alphas, means, icf, x: mixture(alphas, means, icf, x, d.gamma, d.m)


def _trace(d: SparsePair) -> Prepared:
    return jitted(_merged(d), d.a, d.b, note="which entries meet is found beforehand")


def _merged(d: SparsePair) -> Callable[[Any, Any], Any]:
    """A program of static shapes cannot merge: the places where both have entries are constants of it."""
    of_a, of_b = d.common
    return lambda x, y: (x[of_a] * y[of_b]).sum()


TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): lambda d: jitted(jax().vmap(bessel), d.z),
    (Numbers, "gradient"): _bessel_gradient,
    (Numbers, "hessian"): _bessel_hessian,
    (Embeddings, "value"): lambda d: jitted(jax().vmap(_loss(d)), d.x),
    (Embeddings, "gradient"): lambda d: jitted(jax().vmap(jax().grad(_loss(d))), d.x),
    (Embeddings, "hessian"): _embedding_hessian,
    (Measurements, "value"): lambda d: jitted(jax().vmap(projection_error), d.inputs, d.features),
    (Measurements, "jacobian"): lambda d: jitted(
        jax().vmap(jax().jacrev(projection_error)), d.inputs, d.features, note="vmap of jacrev"
    ),
    (Mixture, "value"): lambda d: jitted(_objective(d), d.alphas, d.means, d.icf, d.x),
    (Mixture, "gradient"): lambda d: jitted(
        jax().grad(_objective(d), (0, 1, 2)), d.alphas, d.means, d.icf, d.x, read=flat
    ),
    (SparsePair, "value"): _trace,
    (SparsePair, "gradient"): lambda d: jitted(
        jax().grad(_merged(d), (0, 1)), d.a, d.b, read=flat, note="which entries meet is found beforehand"
    ),
    (Bodies, "value"): lambda d: jitted(lambda q, v, gm: planets(q, v, gm, d.steps, d.h), d.q, d.v, d.gm),
    (Bodies, "gradient"): lambda d: jitted(
        jax().grad(lambda v: planets(d.q, v, d.gm, d.steps, d.h)[3, 0]), d.v, note="scan keeps every step"
    ),
    (Wave, "value"): lambda d: jitted(lambda q, p, c: wave(q, p, c, d.steps), d.q, d.p, d.c),
    (Wave, "gradient"): lambda d: _wave_gradient(d, 1, "scan keeps every step"),
}

#: other ways of the same tasks: systems of their own, named after the peer and the way
WAYS: dict[str, dict[tuple[type, str], Any]] = {
    "checkpoint": {
        (Wave, "gradient"): lambda d: _wave_gradient(d, 2, "jax.checkpoint in two nested scans"),
    },
}
