"""Sparse matrices, in compressed columns: `starts`, `rows` and `values`, as in SciPy's csc_array.

Column j holds values[starts[j]:starts[j + 1]] in the rows rows[starts[j]:starts[j + 1]], which ascend without
repetition (SciPy: `sum_duplicates`, after which `has_canonical_format`).
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.complex import Complex


@reversible
def sparse_dot(
    out: fixed,
    a_starts: Array[int, "columns"],
    a_rows: Array[int, "p"],
    a_values: Array[fixed, "p"],
    b_starts: Array[int, "columns"],
    b_rows: Array[int, "q"],
    b_values: Array[fixed, "q"],
) -> None:
    """out += trace(AᵀB) = Σᵢⱼ AᵢⱼBᵢⱼ. Inverse: out −= trace(AᵀB). A and B have the same shape.

    Two columns are merged: each step passes the next entry with the smaller row, at equal rows the entry of A. The
    decision needs no memory. Running backward, it is the entry with the greater row of the two that were passed last, at
    equal rows the entry of B. Source of the problem: arXiv 2003.04617, which keeps a bit for each step.
    """
    for j in range(len(a_starts) - 1):
        with rg.routine() as r:
            a_first, a_end = a_starts[j], a_starts[j + 1]
            b_first, b_end = b_starts[j], b_starts[j + 1]
        ia = a_first
        ib = b_first
        for _ in range(a_end - a_first + b_end - b_first):
            if (
                ib == b_end or (ia < a_end and a_rows[ia] <= b_rows[ib]),
                ib == b_first or (ia > a_first and a_rows[ia - 1] > b_rows[ib - 1]),
            ):
                ia += 1
            else:
                if ia > a_first and a_rows[ia - 1] == b_rows[ib]:
                    out += a_values[ia - 1] * b_values[ib]
                ib += 1
        rg.free(ia, a_end)
        rg.free(ib, b_end)
        ~r


@reversible
def sparse_dot_scattered(
    out: fixed,
    height: rg.static,
    a_starts: Array[int, "columns"],
    a_rows: Array[int, "p"],
    a_values: Array[fixed, "p"],
    b_starts: Array[int, "columns"],
    b_rows: Array[int, "q"],
    b_values: Array[fixed, "q"],
) -> None:
    """out += trace(AᵀB), as in `sparse_dot`, through a dense column of `height` words. Inverse: out −= trace(AᵀB).

    A column of A is scattered into zeros, multiplied with the column of B, and gathered again. There are no branches, and about
    half the instructions. Rows need not ascend, but must not repeat.
    """
    column = rg.zeros(height)
    for j in range(len(a_starts) - 1):
        with rg.routine() as r:
            for i in range(a_starts[j], a_starts[j + 1]):
                column[a_rows[i]] += a_values[i]
        for i in range(b_starts[j], b_starts[j + 1]):
            out += column[b_rows[i]] * b_values[i]
        ~r


@reversible
def sparse_matmul(
    c: Array[Complex, "n", "m"],
    starts: Array[int, "columns"],
    rows: Array[int, "p"],
    values: Array[Complex, "p"],
    b: Array[Complex, "k", "m"],
    factor: Complex,
) -> None:
    """C += α A B, A sparse of n × k, B and C dense, all complex; α = `factor`. Inverse: C −= α A B.

    Source: arXiv 2003.04617.
    """
    for column in range(b.shape[1]):
        for j in range(len(starts) - 1):
            with rg.routine() as r:
                x = Complex(0.0, 0.0)
                x.add_product(factor, b[j, column])
            for i in range(starts[j], starts[j + 1]):
                c[rows[i], column].add_product(values[i], x)
            ~r
