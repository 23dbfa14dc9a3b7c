"""Sparse matrices, in compressed columns: `starts`, `rows` and `values`, as in SciPy's csc_array.

Column j holds values[starts[j]:starts[j + 1]] in the rows rows[starts[j]:starts[j + 1]], which ascend without
repetition (SciPy: `sum_duplicates`, after which `has_canonical_format`).
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.complex import Complex


@reversible
def _pass_row(i: int, row: int, passed: int, rows: Array[int, "p"], first: int, end: int, beyond: int) -> None:
    """Pass entry i of a column: i += 1, and its row moves from `row` to `passed`. Inverse: i −= 1. Traps unless rows ascend.

    The entries of the column are first … end − 1. `row` is the row of entry i, or `beyond` where i = end; `passed` is the row of
    entry i − 1, or −1 where i = first.
    """
    assert passed < row
    row, passed = passed, row
    i -= 1
    row -= rows[i] if i >= first else -1
    i += 2
    row += rows[i] if i < end else beyond


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
    """out += trace(AᵀB) = Σᵢⱼ AᵢⱼBᵢⱼ. Inverse: out −= trace(AᵀB). A and B have the same shape. Traps unless rows ascend.

    Two columns are merged: at each entry of B, the entries of A with smaller rows are passed. The decisions need no memory. Running
    backward, entries of A are passed as long as the row of the last is that of the entry of B before, or greater. Each row is
    loaded twice: to compare it, and to clear it. Source of the problem: arXiv 2003.04617, which keeps a bit for each step.
    """
    for j in range(len(a_starts) - 1):
        with rg.routine() as r:
            a_first, a_end = a_starts[j], a_starts[j + 1]
            b_first, b_end = b_starts[j], b_starts[j + 1]
            assert b_first >= 0
            assert b_end <= len(b_rows)
            assert b_first <= b_end
            last = b_rows[b_end - 1] if b_end > b_first else 0
            beyond = last + 1
        ia = a_first
        a_row = a_rows[ia] if ia < a_end else beyond
        a_passed, b_passed = -1, 0
        for ib in range(b_first, b_end):
            b_row = b_rows[ib]
            assert b_row >= b_passed
            while (a_row < b_row, a_passed >= b_passed):
                _pass_row(ia, a_row, a_passed, a_rows, a_first, a_end, beyond)
            if a_row == b_row:
                out += a_values[ia] * b_values[ib]
            b_row, b_passed = b_passed, b_row
            rg.free(b_row, b_rows[ib - 1] if ib > b_first else 0)
        while (ia < a_end, a_passed >= b_passed):
            _pass_row(ia, a_row, a_passed, a_rows, a_first, a_end, beyond)
        rg.free(b_passed, last)
        rg.free(a_passed, a_rows[a_end - 1] if a_end > a_first else -1)
        rg.free(a_row, beyond)
        rg.free(ia, a_end)
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

    A column of A is scattered into zeros, multiplied with the column of B, and gathered again. There are no branches. Rows need
    not ascend, but must not repeat.
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
