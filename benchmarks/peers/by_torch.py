"""PyTorch on the CPU: whole arrays in float64, torch.func for batches of derivatives, eager as most use it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.workload import Bodies, Embeddings, Measurements, Mixture, Numbers, SparsePair


@functools.cache
def torch() -> Any:
    """The library, on one thread."""
    import torch as library

    library.set_num_threads(1)
    return library


def _there(*arrays: Any, gradient: bool = False) -> list[Any]:
    return [torch().tensor(np.asarray(a), dtype=torch().float64, requires_grad=gradient) for a in arrays]


def _indices(a: Any) -> Any:
    return torch().tensor(np.asarray(a, dtype=np.int64))


def _plain(f: Callable[..., Any], *arrays: Any, note: str = "") -> Prepared:
    """The value, nothing recorded."""
    there = _there(*arrays)

    def call() -> Any:
        with torch().no_grad():
            return f(*there)

    return Prepared(call, lambda found: found.numpy(), note)


def _backward(f: Callable[..., Any], *arrays: Any, note: str = "") -> Prepared:
    """The gradient of a sum by all arrays, by the tape."""
    there = _there(*arrays, gradient=True)

    def call() -> Any:
        return torch().autograd.grad(f(*there).sum(), there)

    return Prepared(call, flat, note)


# ---------------------------------------------------------------------- the definitions


def _bessel(z: Any) -> Any:
    """All numbers at once, until the last has a term of 1e-8; numbers that have it already add no more terms."""
    quarter = (z / 2) ** 2
    term = quarter / 2
    total = term
    k = 0
    while bool((going := term.detach().abs() > 1e-8).any()):
        k += 1
        term = torch().where(going, term * -quarter / (k * (k + 2)), 0.0)
        total = total + term
    return total


def _embedding(pairs: Any, edges: int) -> Callable[[Any], Any]:
    first, second = _indices(pairs[:, 0]), _indices(pairs[:, 1])

    def loss(x: Any) -> Any:
        lengths = ((x.index_select(-2, first) - x.index_select(-2, second)) ** 2).sum(-1).sqrt()
        near, far = lengths[..., :edges], lengths[..., edges:]
        gap = near.mean(-1) - far.mean(-1) + 0.1
        return near.var(-1) + far.var(-1) + torch().relu(gap).exp() - 1

    return loss


def _errors(inputs: Any, features: Any) -> Any:
    r, x = inputs[..., :3], inputs[..., 11:14] - inputs[..., 3:6]
    theta = (r**2).sum(-1, keepdim=True).sqrt()
    n = r / theta
    c, s = theta.cos(), theta.sin()
    seen = c * x + s * torch().linalg.cross(n, x) + (1 - c) * (n * x).sum(-1, keepdim=True) * n
    p = seen[..., :2] / seen[..., 2:]
    square = (p**2).sum(-1, keepdim=True)
    scale = inputs[..., 6:7] * (1 + (inputs[..., 9:10] + inputs[..., 10:11] * square) * square)
    return inputs[..., 14:] * (scale * p + inputs[..., 7:9] - features)


def _mixture(d: Mixture) -> Callable[..., Any]:
    (n, size), k = d.x.shape, len(d.alphas)
    columns, rows = map(_indices, np.triu_indices(size, 1))
    (x,) = _there(d.x)
    dof = size + d.m + 1
    constant = dof * size * (np.log(d.gamma) - np.log(2) / 2)

    def objective(alphas: Any, means: Any, icf: Any) -> Any:
        q = torch().diag_embed(icf[:, :size].exp()).index_put(
            (torch().arange(k)[:, None], rows, columns), icf[:, size:]
        )  # fmt: skip
        y = torch().einsum("jab,ijb->ija", q, x[:, None] - means)
        traces = icf[:, :size].sum(1)
        terms = alphas + traces - (y**2).sum(2) / 2
        gamma = torch().special.multigammaln(torch().tensor(dof / 2, dtype=torch().float64), size)
        prior = d.gamma**2 / 2 * (q**2).sum() - d.m * traces.sum() - k * (constant - gamma)
        return terms.logsumexp(1).sum() - n * (alphas.logsumexp(0) + size * np.log(2 * np.pi) / 2) + prior

    return objective


def _planets(d: Bodies) -> Callable[..., Any]:
    (gm,) = _there(d.gm)
    itself = torch().eye(len(d.gm), dtype=torch().float64)

    def after(q: Any, v: Any) -> Any:
        for _ in range(d.steps):
            q = q + v * (d.h / 2)
            away = q[None] - q[:, None]
            square = (away**2).sum(-1) + itself
            v = v + d.h * torch().einsum("j,ijc->ic", gm, away / (square * square.sqrt())[..., None])
            q = q + v * (d.h / 2)
        return q

    return after


# ---------------------------------------------------------------------- the tasks


def _embedding_hessian(d: Embeddings) -> Prepared:
    (x,) = _there(d.x[0])
    whole = torch().func.hessian(_embedding(d.pairs, d.edges))
    return Prepared(lambda: whole(x), lambda found: found.numpy(), "torch.func.hessian", 1)


def _jacobian(d: Measurements) -> Prepared:
    inputs, features = _there(d.inputs, d.features)
    both = torch().func.vmap(torch().func.jacrev(_errors))
    return Prepared(lambda: both(inputs, features), lambda found: found.detach().numpy(), "vmap of jacrev")


def _trace(d: SparsePair) -> Callable[[Any, Any], Any]:
    first, second = map(_indices, d.common)
    return lambda x, y: (x.index_select(0, first) * y.index_select(0, second)).sum()


_KNOWN = "which entries meet is found beforehand"

TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): lambda d: _plain(_bessel, d.z),
    (Numbers, "gradient"): lambda d: _backward(_bessel, d.z),
    (Embeddings, "value"): lambda d: _plain(_embedding(d.pairs, d.edges), d.x),
    (Embeddings, "gradient"): lambda d: _backward(_embedding(d.pairs, d.edges), d.x),
    (Embeddings, "hessian"): _embedding_hessian,
    (Measurements, "value"): lambda d: _plain(_errors, d.inputs, d.features),
    (Measurements, "jacobian"): _jacobian,
    (Mixture, "value"): lambda d: _plain(_mixture(d), d.alphas, d.means, d.icf),
    (Mixture, "gradient"): lambda d: _backward(_mixture(d), d.alphas, d.means, d.icf),
    (SparsePair, "value"): lambda d: _plain(_trace(d), d.a, d.b, note=_KNOWN),
    (SparsePair, "gradient"): lambda d: _backward(_trace(d), d.a, d.b, note=_KNOWN),
    (Bodies, "value"): lambda d: _plain(_planets(d), d.q, d.v),
}
