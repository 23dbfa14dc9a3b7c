"""A function with arrays for the tests of the explorer."""

from __future__ import annotations

from retrograd import Array, fixed, reversible


@reversible
def dot(total: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"]) -> None:
    """total += x·y."""
    for i in range(len(x)):
        total += x[i] * y[i]
