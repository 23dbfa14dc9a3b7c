"""Programs whose factors and divisors are numbers of the source with binary points of their own, for every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible

WEIGHTS = np.array([6.1e-6, -3e-7, 2.2e-5])
SIZES = np.array([4.5e5, -7e5, 1.3e6])
MATRIX = np.array([[1e-6, -2.7e-6, 3e-6], [4e-6, 1.1e-7, 6e-6]])
#: a row more than fills lanes
ROWS = 9


@reversible(format="Q16.16")
def numbers(y: fixed, a: fixed, b: fixed) -> None:
    y += 6.674e-6 * a * b
    y -= a / 3e5
    y += 1e-6 * b + 2.5e-5 / (a * 1e-4 + 0.001)


@reversible(format="Q16.16")
def elements(y: fixed, x: Array[fixed, 3]) -> None:
    for i in range(3):
        y += WEIGHTS[i] * x[i]
        y -= x[i] / SIZES[i]
    y += rg.sum(WEIGHTS * x * x)


@reversible(format="Q16.16")
def products(y: Array[fixed, 2], x: Array[fixed, 3]) -> None:
    y += MATRIX @ x
    if x[0] > 0:
        y[0] += WEIGHTS[1] / (x[0] * 1e-4 + 0.001)


_X = np.linspace(-9000.0, 17000.0, 3 * ROWS).reshape(ROWS, 3)
#: function, and its arguments by rows
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "numbers": (numbers, (np.linspace(-1, 1, ROWS), _X[:, 0], _X[:, 1])),
    "elements": (elements, (np.zeros(ROWS), _X)),
    "products": (products, (np.zeros((ROWS, 2)), _X)),
}


def words_of_batch(name: str, **settings: Any) -> list[Any]:
    """The words of all rows after a run, and after the way back."""
    f, columns = PROGRAMS[name]
    there = rg.run_batch(f, *columns, precision="ignore", **settings)
    back = rg.run_batch(f, *there.values, backward=True, **settings)
    return [found.matrix.tolist() for found in (there, back)]
