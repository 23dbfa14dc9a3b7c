"""trace(AᵀB) of two sparse matrices: a merge of columns, with and without a record of its decisions.

    out += Σⱼ Σᵢ Aᵢⱼ Bᵢⱼ

Compressed columns hold, for column j, the rows and values from starts[j] to before starts[j + 1], rows ascending. The products
are found by merging: two indices move down the two columns, always the index on the smaller row, and where both are on the same
row their product is added. Each step is a decision of one bit, which a run backward needs again.

- `trace_with_keeper` records the bits in an array (a *branch keeper*). Once the column is summed, the indices move up again by
  the bits, and clear each after its use: Bennett's method, for any merge.
- `sparse_dot` of the library needs no bits. The row that was passed last is compared with the last row of the other matrix, so the
  decision follows from its result. `while (before, after):` states both conditions, and the machine checks each.

Both leave no garbage. Columns may be empty, and all rows may agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.linear_algebra import sparse_dot

if TYPE_CHECKING:
    from numpy.typing import NDArray


@reversible
def advance(
    went: bool, i: int, k: int, a_end: int, b_end: int, a_rows: Array[int, "p"], b_rows: Array[int, "q"]
) -> None:
    """went ^= whether A's index i moves, or B's index k; moves it. Inverse: uncall."""
    went ^= k == b_end or (i < a_end and a_rows[i] <= b_rows[k])
    if went:
        i += 1
    else:
        k += 1


@reversible
def trace_with_keeper(
    out: fixed,
    a_starts: Array[int, "columns + 1"],
    a_rows: Array[int, "p"],
    a: Array[fixed, "p"],
    b_starts: Array[int, "columns + 1"],
    b_rows: Array[int, "q"],
    b: Array[fixed, "q"],
    height: rg.static,
) -> None:
    """out += Σⱼ Σᵢ Aᵢⱼ Bᵢⱼ, for matrices of `height` rows. Inverse: −=. Down each column and up again, 2·height bits."""
    keeper = rg.zeros(2 * height, dtype=bool)
    for j in range(len(a_starts) - 1):
        with rg.routine() as r:
            i = a_starts[j]
            k = b_starts[j]
            a_end = a_starts[j + 1]
            b_end = b_starts[j + 1]
            steps = (a_end - i) + (b_end - k)
        for s in range(steps):
            if i < a_end and k < b_end and a_rows[i] == b_rows[k]:
                out += a[i] * b[k]
            advance(keeper[s], i, k, a_end, b_end, a_rows, b_rows)
        for s in range(steps - 1, -1, -1):
            ~advance(keeper[s], i, k, a_end, b_end, a_rows, b_rows)
        ~r


def csc(matrix: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(starts, rows, values) of a matrix, column by column."""
    columns, rows = np.nonzero(matrix.T)
    starts = np.searchsorted(columns, np.arange(matrix.shape[1] + 1))
    return starts, rows, matrix[rows, columns]


def sparse_random(generator: Any, rows: int, columns: int, density: float) -> NDArray[np.float64]:
    """A matrix of zeros and, with probability `density`, normal random numbers."""
    return np.where(generator.random((rows, columns)) < density, generator.normal(size=(rows, columns)), 0.0)


def main() -> None:
    """Print both functions on random matrices, forward and back."""
    generator = np.random.default_rng(1)
    x, y = (sparse_random(generator, 40, 40, 0.1) for _ in range(2))
    exact = float((x * y).sum())
    print(f"trace(AᵀB) = {exact:.9f} in floating point")
    for f, more in ((sparse_dot, ()), (trace_with_keeper, (len(x),))):
        out = rg.run(f, 0.0, *csc(x), *csc(y), *more)
        back = rg.run(~f, *out.values).values
        error = out.values.out - exact
        print(
            f"{f.__name__:17} = {out.values.out:.9f}, error {error:+.1e}, {out.steps} instructions; backward: {back.out}"
        )


if __name__ == "__main__":
    main()
