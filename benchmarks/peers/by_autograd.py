"""autograd: NumPy with a tape. Whole arrays; loops that end by a test are Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks.peers import Prepared, flat
from retrograd.benchmarks.workload import Embeddings, Measurements, Mixture, Numbers


def _gradient(f: Callable[..., Any], *arrays: Any, note: str = "") -> Prepared:
    """Of a sum, by all arrays."""
    import autograd

    slope = autograd.grad(lambda arguments: f(*arguments))
    return Prepared(lambda: slope(arrays), flat, note)


def _bessel(z: Any) -> Any:
    """The sum over all numbers of J₂; as many terms for all as the last of them needs."""
    from autograd import numpy as anp
    from autograd.tracer import getval

    quarter = (z / 2) ** 2
    term = quarter / 2
    total = term
    k = 0
    while (going := np.abs(getval(term)) > 1e-8).any():
        k += 1
        term = anp.where(going, term * -quarter / (k * (k + 2)), 0.0)
        total = total + term
    return total


def _embedding(pairs: Any, edges: int) -> Callable[[Any], Any]:
    from autograd import numpy as anp

    def loss(x: Any) -> Any:
        d = x[..., pairs[:, 0], :] - x[..., pairs[:, 1], :]
        lengths = anp.sqrt(anp.sum(d**2, axis=-1))
        near, far = lengths[..., :edges], lengths[..., edges:]
        gap = anp.mean(near, axis=-1) - anp.mean(far, axis=-1) + 0.1
        spread = anp.var(near, axis=-1, ddof=1) + anp.var(far, axis=-1, ddof=1)
        return spread + anp.exp(anp.maximum(gap, 0.0)) - 1

    return loss


def _mixture(d: Mixture) -> Callable[..., Any]:
    from autograd import numpy as anp
    from autograd.scipy.special import logsumexp, multigammaln

    (n, size), k = d.x.shape, len(d.alphas)
    # Where in a row of icf each element below the diagonal is; the last place holds a zero.
    below = np.full((size, size), size * (size + 1) // 2)
    columns, rows = np.triu_indices(size, 1)
    below[rows, columns] = size + np.arange(len(rows))
    dof = size + d.m + 1
    constant = dof * size * (np.log(d.gamma) - np.log(2) / 2) - multigammaln(dof / 2, size)

    def objective(alphas: Any, means: Any, icf: Any) -> Any:
        padded = anp.concatenate([icf, np.zeros((k, 1))], axis=1)
        q = padded[:, below] + anp.exp(icf[:, :size])[:, :, None] * np.eye(size)
        y = anp.einsum("jab,ijb->ija", q, d.x[:, None, :] - means)
        traces = anp.sum(icf[:, :size], axis=1)
        terms = alphas + traces - anp.sum(y**2, axis=2) / 2
        prior = d.gamma**2 / 2 * anp.sum(q**2) - d.m * anp.sum(traces) - k * constant
        likelihood = anp.sum(logsumexp(terms, axis=1)) - n * (logsumexp(alphas) + size * np.log(2 * np.pi) / 2)
        return likelihood + prior

    return objective


def _errors(inputs: Any, features: Any) -> Any:
    from autograd import numpy as anp

    r, x = inputs[:, :3], inputs[:, 11:14] - inputs[:, 3:6]
    theta = anp.sqrt(anp.sum(r**2, axis=1))[:, None]
    n = r / theta
    c, s = anp.cos(theta), anp.sin(theta)
    seen = c * x + s * anp.cross(n, x) + (1 - c) * anp.sum(n * x, axis=1)[:, None] * n
    p = seen[:, :2] / seen[:, 2:]
    square = anp.sum(p**2, axis=1)[:, None]
    scale = inputs[:, 6:7] * (1 + (inputs[:, 9:10] + inputs[:, 10:11] * square) * square)
    return inputs[:, 14:] * (scale * p + inputs[:, 7:9] - features)


def _jacobian(d: Measurements) -> Prepared:
    """Measurements share nothing, so the gradient of the sum of one row's errors has that row of every block."""
    import autograd

    rows = [autograd.grad(lambda z, j=j: _errors(z, d.features)[:, j].sum()) for j in range(2)]
    return Prepared(lambda: np.stack([row(d.inputs) for row in rows], axis=1), note="a sum for each row of the blocks")


def _embedding_gradient(d: Embeddings) -> Prepared:
    loss = _embedding(d.pairs, d.edges)
    return _gradient(lambda x: loss(x).sum(), d.x)


def _embedding_hessian(d: Embeddings) -> Prepared:
    import autograd

    whole = autograd.hessian(_embedding(d.pairs, d.edges))
    return Prepared(lambda: whole(d.x[0]), note="reverse over reverse", evaluations=1)


TASKS: dict[tuple[type, str], Any] = {
    (Numbers, "value"): lambda d: Prepared(lambda: _bessel(d.z)),
    (Numbers, "gradient"): lambda d: _gradient(lambda z: _bessel(z).sum(), d.z),
    (Embeddings, "value"): lambda d: Prepared(lambda: _embedding(d.pairs, d.edges)(d.x)),
    (Embeddings, "gradient"): _embedding_gradient,
    (Embeddings, "hessian"): _embedding_hessian,
    (Measurements, "value"): lambda d: Prepared(lambda: _errors(d.inputs, d.features)),
    (Measurements, "jacobian"): _jacobian,
    (Mixture, "value"): lambda d: Prepared(lambda: _mixture(d)(d.alphas, d.means, d.icf)),
    (Mixture, "gradient"): lambda d: _gradient(_mixture(d), d.alphas, d.means, d.icf),
}
