"""Cholesky's factor, least squares, eigenvalues and singular values with their vectors.

The results of a factorisation are zero before. Temporaries are uncomputed.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.linear_algebra import qr, sort

#: eigenvalues and singular values that are no further apart count as equal
EQUAL = 2.0**-22


@reversible
def cholesky(low: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"]) -> None:
    """L += the lower triangular matrix with L Lᵀ = A. Inverse: L −= it. L is zero before; A is read below its diagonal.

    Traps where A is not positive definite: a root of a negative number (RG0403), or a division by zero (RG0402).
    """
    for i in range(len(a)):
        for j in range(i):
            low[i, j] += (a[i, j] - rg.sum(low[i, :j] * low[j, :j])) / low[j, j]
        low[i, i] += rg.sqrt(a[i, i] - rg.sum(low[i, :i] ** 2))


@reversible
def lstsq(x: Array[fixed, "m"], a: Array[fixed, "n", "m"], b: Array[fixed, "n"]) -> None:
    """x += the x with the least |A x − b|. Inverse: x −= it. Traps where the columns of A are dependent.

    By Q R, n ≥ m: R x = Qᵀ b, with the errors of `qr`.
    """
    with rg.routine() as rest:
        q, r = rg.zeros_like(a), rg.zeros((a.shape[1], a.shape[1]))
        qr(q, r, a)
        y = q.T @ b
        z = rg.zeros_like(x)
        for i in range(len(x) - 1, -1, -1):
            for j in range(i + 1, len(x)):
                y[i] -= r[i, j] * z[j]
            z[i] += y[i] / r[i, i]
    x += z
    ~rest


@reversible
def _leftover(most: fixed, elements: rg.static) -> None:
    """most += 10⁻⁵ and 4 last places for each of the elements: what may be left off a diagonal. Inverse: −=.

    The unit of the format is |3 · (1/3) − 1|, in words.
    """
    with rg.routine() as r:
        one = rg.zeros(1)
        one[0] += 1
        third = one[0] / 3
        unit = abs(3 * third - one[0])
    most += 1e-5
    for _ in range(4 * elements):
        most += unit
    ~r


@reversible
def diagonalise(a: Array[fixed, "n", "n"], v: Array[fixed, "n", "n"], angles: Array[fixed, "k"]) -> None:
    """A := J A Jᵀ, nearly diagonal, V := J V, angles += those of the rotations J, in place, A symmetric.

    Inverse: A and V as before, bit for bit, angles zero. Cyclic Jacobi: in each of k/(n(n − 1)/2) sweeps, rows and
    columns i and j are turned by the angle t that makes A[i, j] zero, tan 2t = 2 A[i, j]/(A[j, j] − A[i, i]),
    |t| ≤ π/4. A rotation by lifting has an exact inverse, so the matrix before it, and from this the angle, are found
    again.
    """
    n = len(a)
    k = 0
    for _ in range(len(angles) // max(n * (n - 1) // 2, 1)):
        for i in range(n - 1):
            for j in range(i + 1, n):
                with rg.routine() as r:
                    twice = 2 * a[i, j] if a[j, j] >= a[i, i] else -2 * a[i, j]
                    apart = abs(a[j, j] - a[i, i])
                if twice != 0:
                    angles[k] += rg.atan2(twice, apart) / 2
                ~r
                rg.rot(a[i], a[j], angles[k])
                rg.rot(a[:, i], a[:, j], angles[k])
                rg.rot(v[i], v[j], angles[k])
                k += 1
    rg.free(k, len(angles))


@reversible
def eigh(w: Array[fixed, "n"], v: Array[fixed, "n", "n"], a: Array[fixed, "n", "n"], sweeps: rg.static = 8) -> None:
    """w += the eigenvalues of (A + Aᵀ)/2, ascending, V += its eigenvectors, as columns. Inverse: −=.

    By Jacobi's rotations, see `diagonalise`. Errors in Q32.32 for elements of size 1: n · 5·10⁻¹⁰ for eigenvalues,
    and n · 2·10⁻⁹ in VᵀV − 1. 8 sweeps suffice for n ≤ 50. Traps (RG0804) where elements off the diagonal with a
    sum of sizes of 10⁻⁵ are left after them, or, in formats of few places, of 4 units for each element of A.
    Derivatives: Ā = V (diag w̄ + F∘(VᵀV̄)) Vᵀ, Fᵢⱼ = 1/(wⱼ − wᵢ), made symmetric, with errors that grow as 2⁻³²/(wⱼ
    − wᵢ). Eigenvalues that differ by less than 2⁻²² count as equal. There the gradient is that of a loss which is
    the same function of each of them, such as their sum, and does not use their eigenvectors; for any other loss it
    traps (RG0804), since the choice of the vectors leaves it open. Trap: forward derivatives (`rg.jvp`) are those
    of the rotations, and wrong at equal eigenvalues.
    Source: Jacobi, Journal für die reine und angewandte Mathematik 30 (1846), 51.
    """
    n = len(a)
    with rg.routine() as r:
        d = rg.zeros_like(a)
        d += a / 2
        d += a.T / 2
        u = rg.zeros_like(a)
        for i in range(n):
            u[i, i] += 1
        angles = rg.zeros(sweeps * (n * (n - 1) // 2))
        diagonalise(d, u, angles)
        found = rg.zeros(n)
        for i in range(n):
            found[i] += d[i, i]
        left = rg.sum(abs(d)) - rg.sum(abs(found))
        most = fixed(0)
        _leftover(most, n * n)
        order = rg.zeros(n, dtype=int)
        sort(found, order)
    assert left < most
    w += found
    for i in range(n):
        v[:, i] += u[order[i]]
    ~r


@eigh.adjoint
def _adjoint_of_eigh(
    w: Array[fixed, "n"],
    v: Array[fixed, "n", "n"],
    a: Array[fixed, "n", "n"],
    sweeps: rg.static,
    d_w: Array[fixed, "n"],
    d_v: Array[fixed, "n", "n"],
    d_a: Array[fixed, "n", "n"],
) -> None:
    n = len(a)
    with rg.routine() as r:
        found, u = rg.zeros(n), rg.zeros_like(a)
        eigh(found, u, a, sweeps)
        turns = u.T @ d_v
        alike = rg.sum(abs(d_w)) * 2.0**-12
        inner = rg.zeros_like(a)
        for i in range(n):
            inner[i, i] += d_w[i]
            for j in range(i):
                if found[i] - found[j] > EQUAL:
                    inner[i, j] += (turns[i, j] - turns[j, i]) / 2 / (found[j] - found[i])
                    inner[j, i] += (turns[i, j] - turns[j, i]) / 2 / (found[j] - found[i])
                else:
                    assert abs(d_w[i] - d_w[j]) <= alike
                    assert rg.sum(abs(d_v[:, i])) + rg.sum(abs(d_v[:, j])) <= 0
        outer = u @ inner @ u.T
    d_a += outer
    ~r


@reversible
def turn_to_triangle(x: Array[fixed, "n", "k"], angles: Array[fixed, "t"], m: rg.static) -> None:
    """x := Qᵀ x, in place: Q the product of the rotations of rows j < m and i > j by the angles.

    Inverse: x := Q x, bit for bit.
    """
    t = 0
    for j in range(m):
        for i in range(j + 1, len(x)):
            rg.rot(x[j], x[i], angles[t])
            t += 1
    rg.free(t, len(angles))


@reversible
def triangularise(a: Array[fixed, "n", "m"], angles: Array[fixed, "t"]) -> None:
    """A := R = Qᵀ A, the upper triangle, angles += those of `turn_to_triangle`.

    Inverse: A as before, bit for bit, angles zero.
    """
    t = 0
    for j in range(a.shape[1]):
        for i in range(j + 1, len(a)):
            if a[i, j] != 0:
                angles[t] -= rg.atan2(a[i, j], a[j, j])
            rg.rot(a[j], a[i], angles[t])
            t += 1
    rg.free(t, len(angles))


@reversible
def _turn(angle: fixed, y: fixed, x: fixed) -> None:
    """angle += the angle of the line through 0 and (x, y), of (−π/2, π/2], 0 for the point 0. Inverse: −=."""
    if x > 0:
        angle += rg.atan2(y, x)
    elif x < 0:
        angle += rg.atan2(-y, -x)
    elif y != 0:
        angle += rg.atan2(abs(y), x)


@reversible
def diagonalise_both_sides(
    a: Array[fixed, "m", "m"], u: Array[fixed, "m", "m"], v: Array[fixed, "m", "m"], angles: Array[fixed, "k"]
) -> None:
    """A := J A K, nearly diagonal, U := J U, V := Kᵀ V, angles += those of the rotations J and K, in place.

    Inverse: A, U and V as before, bit for bit, angles zero. Kogbetliantz: in each of k/(m(m − 1)) sweeps, rows and
    columns i and j are turned by the angles −(a₂ + a₁)/2 and (a₂ − a₁)/2 that make A[i, j] and A[j, i] zero, where a₁
    is the angle of the line to (Aᵢᵢ − Aⱼⱼ, Aⱼᵢ + Aᵢⱼ), a₂ of the line to (Aᵢᵢ + Aⱼⱼ, Aⱼᵢ − Aᵢⱼ).
    """
    m = len(a)
    k = 0
    for _ in range(len(angles) // max(m * (m - 1), 1)):
        for i in range(m - 1):
            for j in range(i + 1, m):
                with rg.routine() as r:
                    first, second = fixed(0), fixed(0)
                    _turn(first, a[j, i] + a[i, j], a[i, i] - a[j, j])
                    _turn(second, a[j, i] - a[i, j], a[i, i] + a[j, j])
                angles[k] -= (second + first) / 2
                angles[k + 1] += (second - first) / 2
                ~r
                rg.rot(a[i], a[j], angles[k])
                rg.rot(u[i], u[j], angles[k])
                rg.rot(a[:, i], a[:, j], angles[k + 1])
                rg.rot(v[i], v[j], angles[k + 1])
                k += 2
    rg.free(k, len(angles))


@reversible
def svd(
    u: Array[fixed, "n", "m"],
    s: Array[fixed, "m"],
    v: Array[fixed, "m", "m"],
    a: Array[fixed, "n", "m"],
    sweeps: rg.static = 9,
) -> None:
    """U += the left and V += the right singular vectors, s += the singular values, descending: A = U diag(s) Vᵀ.

    Inverse: −=; U, s and V are zero before, n ≥ m. Vectors are columns: V is the transpose of NumPy's `vh`, U is that
    of `full_matrices=False`. Rotations of the rows make A a triangle, and rotations of both sides make this a diagonal,
    see `diagonalise_both_sides`. No square is taken, so small singular values keep their digits, and the vectors are
    orthonormal without full rank, too. Errors in Q32.32 for elements of size 1: n · 10⁻⁹ for singular values, and
    n · 4·10⁻⁹ in UᵀU − 1 and VᵀV − 1. 9 sweeps suffice for m ≤ 30. Traps (RG0804) where elements off the diagonal with
    a sum of sizes of 10⁻⁵ are left after them, or, in formats of few places, of 4 units for each element of A.
    Derivatives: Ā = U (diag s̄ + M) Vᵀ + (1 − UUᵀ) Ū diag(1/s) Vᵀ, 2 Mᵢⱼ = (P + Q)ᵢⱼ/(sⱼ − sᵢ) + (P − Q)ᵢⱼ/(sⱼ + sᵢ),
    P = UᵀŪ − ŪᵀU, Q = VᵀV̄ − V̄ᵀV. Values that differ by less than 2⁻²² count as equal, and those below it as zero. At
    equal values the gradient is that of a loss which is the same function of each of them and does not use their
    vectors; at zero that of a loss whose slope there is zero and which does not use their left vectors, such as Σ sᵢ².
    For any other loss it traps (RG0804). Trap: forward derivatives (`rg.jvp`) are those of the rotations, and wrong at
    equal singular values.
    Sources: Kogbetliantz, Quarterly of Applied Mathematics 13 (1955), 123; Townsend, Differentiating the singular
    value decomposition (2016).
    """
    n, m = a.shape
    assert n >= m
    with rg.routine() as r:
        d = rg.zeros_like(a)
        d += a
        down = rg.zeros(m * (n - 1) - m * (m - 1) // 2)
        triangularise(d, down)
        left, right = rg.zeros_like(v), rg.zeros_like(v)
        for i in range(m):
            left[i, i] += 1
            right[i, i] += 1
        angles = rg.zeros(sweeps * m * (m - 1))
        diagonalise_both_sides(d[:m], left, right, angles)
        found = rg.zeros(m)
        for i in range(m):
            found[i] -= abs(d[i, i])
        rest = rg.sum(abs(d)) + rg.sum(found)
        most = fixed(0)
        _leftover(most, n * m)
        order = rg.zeros(m, dtype=int)
        sort(found, order)
        wide = rg.zeros_like(a)
        for i in range(m):
            for j in range(m):
                wide[j, i] += left[order[i], j] if d[order[i], order[i]] >= 0 else -left[order[i], j]
        ~turn_to_triangle(wide, down, m)
    assert rest < most
    u += wide
    s -= found
    for i in range(m):
        v[:, i] += right[order[i]]
    ~r


@svd.adjoint
def _adjoint_of_svd(
    u: Array[fixed, "n", "m"],
    s: Array[fixed, "m"],
    v: Array[fixed, "m", "m"],
    a: Array[fixed, "n", "m"],
    sweeps: rg.static,
    d_u: Array[fixed, "n", "m"],
    d_s: Array[fixed, "m"],
    d_v: Array[fixed, "m", "m"],
    d_a: Array[fixed, "n", "m"],
) -> None:
    n, m = a.shape
    with rg.routine() as r:
        left, found, right = rg.zeros_like(a), rg.zeros(m), rg.zeros_like(v)
        svd(left, found, right, a, sweeps)
        turns, others = left.T @ d_u, right.T @ d_v
        alike = rg.sum(abs(d_s)) * 2.0**-12
        inner = rg.zeros_like(v)
        for i in range(m):
            inner[i, i] += d_s[i]
            if found[i] <= EQUAL:
                assert abs(d_s[i]) <= alike
                assert rg.sum(abs(d_u[:, i])) <= 0
            for j in range(i):
                if found[j] - found[i] > EQUAL:
                    p, q = turns[i, j] - turns[j, i], others[i, j] - others[j, i]
                    apart, together = (p + q) / 2 / (found[j] - found[i]), (p - q) / 2 / (found[j] + found[i])
                    inner[i, j] += apart + together
                    inner[j, i] += apart - together
                else:
                    assert abs(d_s[i] - d_s[j]) <= alike
                    assert rg.sum(abs(d_u[:, i])) + rg.sum(abs(d_u[:, j])) <= 0
                    assert rg.sum(abs(d_v[:, i])) + rg.sum(abs(d_v[:, j])) <= 0
        outer = left @ inner @ right.T
        beside = rg.zeros_like(a)
        if n > m:
            across = d_u - left @ turns
            for i in range(m):
                if found[i] > EQUAL:
                    beside[:, i] += across[:, i] / found[i]
        outside = beside @ right.T
    d_a += outer
    d_a += outside
    ~r
