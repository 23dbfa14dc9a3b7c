"""Programs as users of NumPy and JAX write them: values are NumPy's, slopes are differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


def gaussian_process(x, y, width, noise):
    d = x[:, None] - x[None, :]
    K = np.exp(-0.5 * (d / width) ** 2) + noise * np.eye(len(x))
    L = np.linalg.cholesky(K)
    return 0.5 * y @ np.linalg.solve(K, y) + np.sum(np.log(np.diag(L)))


def cross_entropy(W, X, labels):
    logits = X @ W
    shift = logits - logits.max(axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(shift), axis=1)) - shift[np.arange(len(labels)), labels])


def hidden_markov(start, A, B, seen):
    alpha, total = start * B[:, seen[0]], 0.0
    for o in seen[1:]:
        scale = np.sum(alpha)
        total = total + np.log(scale)
        alpha = (alpha / scale) @ A * B[:, o]
    return total + np.log(np.sum(alpha))


def convolution(params, x):
    feats = np.stack([np.array([np.sum(x[i : i + 3] * k) for i in range(6)]) for k in params["kernels"]])
    pooled = np.max(feats.reshape(2, 3, 2), axis=2).mean(axis=1)
    return np.dot(np.maximum(pooled, 0.0), params["out"]) ** 2 + sum(np.sum(v**2) for v in params.values())


def clusters(X, C):
    nearest = np.argmin(np.sum((X[:, None, :] - C[None, :, :]) ** 2, axis=-1), axis=1)
    onehot = (nearest[:, None] == np.arange(2)) * 1.0
    new = onehot.T @ X / (np.sum(onehot, axis=0)[:, None] + 1e-3)
    return np.sum((X - new[nearest]) ** 2)


def attention(x, Wq, Wk, Wv):
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    scores = np.where(np.tril(np.ones((4, 4))) > 0, np.einsum("id,jd->ij", q, k), -10.0)
    w = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.sum(np.einsum("ij,jd->id", w / w.sum(axis=-1, keepdims=True), v) ** 2)


def contrastive(a, b):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    s = 2 * a @ b.T
    return -np.mean(np.diag(s) - np.log(np.sum(np.exp(s), axis=1)))


def advantages(rewards, rate):
    total = 0.0
    for r in rewards[::-1]:
        total = r + rate * total
    spread = np.cumsum(rewards) - np.mean(rewards)
    return total + np.sum(spread**2) / np.std(rewards) + np.prod(1 + rate * rewards)


def embedded(E, U, tokens):
    h = np.zeros(4)
    for t in tokens:
        h = np.tanh(U @ E[t] + 0.5 * np.roll(h, 1))
    return np.sum(h**2)


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (gaussian_process, (numbers(4), numbers(5)[:4], 0.7, 0.1)),
    (cross_entropy, (numbers(3, 4), numbers(5, 3), np.array([0, 3, 1, 1, 2]))),
    (hidden_markov, (np.array([0.5, 0.5]), numbers(2, 2) ** 2 + 0.1, numbers(2, 3) ** 2 + 0.1, np.array([0, 2, 1]))),
    (convolution, ({"kernels": numbers(2, 3), "out": numbers(2)}, numbers(8))),
    (clusters, (numbers(6, 2), numbers(2, 2))),
    (attention, (numbers(4, 3), numbers(3, 2), 2 * numbers(3, 2), numbers(2, 3).T)),
    (contrastive, (numbers(3, 2), numbers(2, 3).T)),
    (advantages, (numbers(6), 0.3)),
    (embedded, (numbers(3, 3), numbers(4, 3), np.array([0, 1, 1, 2]))),
]


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_programs(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    g = rg.functional(f)
    assert g(*args) == pytest.approx(float(f(*args)), abs=1e-6)
    slopes = rg.grad(g)(*args)
    for k, given in enumerate(args):
        leaves = given if isinstance(given, dict) else {"": given}
        for name, leaf in leaves.items():
            x = np.asarray(leaf)
            if x.dtype.kind != "f":
                continue
            found = np.asarray(slopes[k][name] if name else slopes[k])
            assert found.shape == x.shape
            for at in np.ndindex(x.shape):
                step = np.zeros(x.shape)
                step[at] = 1e-5
                ends = []
                for moved in (x + step, x - step):
                    changed = {**leaves, name: moved} if name else moved
                    ends.append(f(*args[:k], changed, *args[k + 1 :]))
                assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5), (k, name, at)
