"""A gradient summed over a batch, and a batch of slow elements: the work that tests interrupt. Run as a script, it is the process that is interrupted."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import fixed, reversible

POINTS = 20_000
AXES: dict[str, Any] = {"in_axes": (None, None, None, 0), "shared": "sum"}


@reversible
def cost(loss: fixed, a: fixed, b: fixed, x: fixed) -> None:
    with rg.routine() as r:
        d = rg.exp(a * x) + rg.sqrt(b + x)
    loss += d * rg.log(d)
    ~r


@reversible
def slow(y: fixed, x: fixed, n: int) -> None:
    for _ in range(n):
        y += rg.sin(x)
        x += 0.0001 * y


def points(count: int = POINTS) -> Any:
    return np.random.default_rng(0).random(count)


def summed(executor: Any = None, chunk: int | None = None, count: int = POINTS, **how: Any) -> Any:
    """Loss and gradient over all points."""
    of = rg.value_and_grad(cost, ("a", "b"))
    return rg.vmap(of, executor=executor, chunk=chunk, **AXES, **how)(0.0, 0.5, 1.25, points(count))


def slow_batch(count: int, **how: Any) -> Any:
    x = np.linspace(0.0, 1.0, count)
    return rg.run_batch(slow, x * 0, x, 3000, in_axes=(0, 0, None), overflow=False, **how)


if __name__ == "__main__":
    found = slow_batch(int(sys.argv[1]), executor=int(sys.argv[2]), store=sys.argv[3], chunk=4, progress=False)
    print(found.matrix.sum())
