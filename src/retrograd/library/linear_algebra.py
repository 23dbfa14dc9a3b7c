"""Matrices: products, factorisations, determinants, inverses, and products of plane rotations.

Results are added to the first arguments; those of a factorisation must be zero before. Temporaries are uncomputed.
"""

from __future__ import annotations

from typing import Any

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def matvec(y: Array[fixed, "n"], a: Array[fixed, "n", "m"], x: Array[fixed, "m"]) -> None:
    """y += A x. Inverse: y −= A x. With a.T in place of a: y += Aᵀ x."""
    for i in range(len(y)):
        y[i] += rg.sum(a[i] * x)


@reversible
def matmul(c: Array[fixed, "n", "m"], a: Array[fixed, "n", "k"], b: Array[fixed, "k", "m"]) -> None:
    """C += A B. Inverse: C −= A B. Trap: C is neither A nor B."""
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            c[i, j] += rg.sum(a[i] * b[:, j])


@reversible
def pick_pivot(pivot: int, column: Array[fixed, "n"], k: int) -> None:
    """pivot += the index of the element of largest size from k on, the first of these. Inverse: pivot −= it.

    The candidates are kept until the last is found, as for every maximum.
    """
    with rg.routine() as r:
        best = rg.zeros(len(column), dtype=int)
        best[k] += k
        for i in range(k + 1, len(column)):
            best[i] += i if abs(column[i]) > abs(column[best[i - 1]]) else best[i - 1]
    pivot += best[-1]
    ~r


@reversible
def eliminate(u: Array[fixed, "n", "n"], factors: Array[fixed, "n", "n"], pivots: Array[int, "n"]) -> None:
    """U := its upper triangle by Gauss's elimination, L += the factors, pivots += the rows exchanged.

    Inverse: U as before, L and pivots zero. In step k the row pivots[k] of the largest element on and below the
    diagonal is exchanged with row k, then row i −= L[i, k]·row k for each i below. The original matrix, with its
    rows exchanged in this order, is (L + 1) U.
    Trap: below the diagonal U keeps the last places of the remainders; they make the inverse exact.
    """
    n = len(u)
    for k in range(n):
        pick_pivot(pivots[k], u[:, k], k)
        if pivots[k] != k:
            rg.swap(u[k], u[pivots[k]])
            for j in range(k):
                rg.swap(factors[k, j], factors[pivots[k], j])
        if u[k, k] != 0:
            for i in range(k + 1, n):
                factors[i, k] += u[i, k] / u[k, k]
                for j in range(k, n):
                    u[i, j] -= factors[i, k] * u[k, j]


@reversible
def add_scaled(y: Any, a: fixed, x: Any) -> None:
    """y += a·x for numbers, rows or arrays. Inverse: y −= a·x. As arguments of a call, x and y may be rows of one matrix."""
    y += a * x


@reversible
def solve(x: Array[fixed, ...], a: Array[fixed, "n", "n"], b: Array[fixed, ...]) -> None:
    """x += A⁻¹ b, by elimination with pivots. Inverse: x −= A⁻¹ b.

    b is a vector, or a matrix whose columns are solved for. Traps with a division by zero where A is singular.
    """
    n = len(a)
    with rg.routine() as r:
        u = rg.zeros_like(a)
        u += a
        factors = rg.zeros_like(a)
        pivots = rg.zeros(n, dtype=int)
        eliminate(u, factors, pivots)
        y = rg.zeros_like(b)
        y += b
        for k in range(n):
            if pivots[k] != k:
                rg.swap(y[k], y[pivots[k]])
        for i in range(n):
            for j in range(i):
                ~add_scaled(y[i], factors[i, j], y[j])
        z = rg.zeros_like(b)
        for i in range(n - 1, -1, -1):
            for j in range(i + 1, n):
                y[i] -= u[i, j] * z[j]
            z[i] += y[i] / u[i, i]
    x += z
    ~r


@reversible
def inverse(out: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"]) -> None:
    """out += A⁻¹. Inverse: out −= A⁻¹. Traps with a division by zero where A is singular.

    n solutions of one elimination, one for each column of the unit matrix.
    """
    n = len(a)
    with rg.routine() as r:
        one = rg.zeros_like(a)
        for i in range(n):
            one[i, i] += 1
    solve(out, a, one)
    ~r


@reversible
def determinant(out: fixed, a: Array[fixed, "n", "n"]) -> None:
    """out += det A. Inverse: out −= det A.

    For n = 2 and 3 by the rule of Sarrus, else as the product of U's diagonal.
    """
    n = len(a)
    if n == 2:
        out += a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    elif n == 3:
        out += a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
        out += a[0, 1] * (a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2])
        out += a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
    else:
        with rg.routine() as r:
            u = rg.zeros_like(a)
            u += a
            factors = rg.zeros_like(a)
            pivots = rg.zeros(n, dtype=int)
            eliminate(u, factors, pivots)
            products = rg.zeros(n + 1)
            products[0] += 1
            for k in range(n):
                if pivots[k] == k:
                    products[k + 1] += products[k] * u[k, k]
                else:
                    products[k + 1] -= products[k] * u[k, k]
        out += products[n]
        ~r


@reversible
def qr(q: Array[fixed, "n", "m"], r: Array[fixed, "m", "m"], a: Array[fixed, "n", "m"]) -> None:
    """Q += the orthonormal columns, R += the upper triangle, where A = Q R. Inverse: −=; both are zero.

    The modified method of Gram and Schmidt, n ≥ m; Q and R are zero before. The components along earlier columns
    are subtracted from each column, one by one, and the rest is scaled to length 1. Traps if the columns are dependent. For
    lengths below 10⁻³ the squares have few digits, and so have Q and R.
    """
    m = a.shape[1]
    for k in range(m):
        with rg.routine() as rest:
            v = rg.zeros(len(a))
            parts = rg.zeros(m)
            v += a[:, k]
            for j in range(k):
                parts[j] += rg.sum(q[:, j] * v)
                v -= parts[j] * q[:, j]
            parts[k] += rg.sqrt(rg.sum(v * v))
        r[:, k] += parts
        q[:, k] += v / parts[k]
        ~rest


@reversible
def rotate_planes(x: Array[fixed, "n", "m"], angles: Array[fixed, "k"]) -> None:
    """x := U x, in place, U = the product of n(n − 1)/2 rotations of neighbouring rows.

    Inverse: x := Uᵀ x, bit for bit.

    Any orthogonal U of determinant 1 is such a product. U stays orthogonal while its angles are trained as
    parameters. Source: arXiv 2003.04617, umm! of NiLang; Jing et al., arXiv 1612.05231.
    """
    n = len(x)
    k = 0
    for j in range(n - 1):
        for i in range(n - 2, j - 1, -1):
            rg.rot(x[i], x[i + 1], angles[k])
            k += 1
    rg.free(k, n * (n - 1) // 2)
