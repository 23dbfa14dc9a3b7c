"""Dense matrices, sparse matrices, vectors and quaternions, sums and orders of arrays, the Fourier transform.

A function adds its result to its first arguments, unless its docstring states that it works in place. The results of a factorisation
must be zero before. Temporaries are uncomputed.
"""

from __future__ import annotations

from math import log2, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible
from retrograd.library.complex import Complex

if TYPE_CHECKING:
    from numpy.typing import NDArray


# -----------------------------------------------------------------------------
# Dense matrices: products, factorisations, determinants, inverses, and products of plane rotations.


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


# -----------------------------------------------------------------------------
# Sparse matrices, in compressed columns: `starts`, `rows` and `values`, as in SciPy's csc_array.
#
# Column j holds values[starts[j]:starts[j + 1]] in the rows rows[starts[j]:starts[j + 1]], which ascend without
# repetition (SciPy: `sum_duplicates`, after which `has_canonical_format`).


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


# -----------------------------------------------------------------------------
# Vectors of three components and quaternions that rotate them.
#
# a·b,  a × b,  |a|,  q v q̄


@rg.struct
class Vector3:
    """(x, y, z), in fixed-point numbers."""

    x: fixed
    y: fixed
    z: fixed

    @reversible
    def add(self, a: Vector3) -> None:
        """v += a. Inverse: v −= a."""
        self.x += a.x
        self.y += a.y
        self.z += a.z

    @reversible
    def add_scaled(self, a: Vector3, factor: fixed) -> None:
        """v += factor·a. Inverse: v −= factor·a."""
        self.x += factor * a.x
        self.y += factor * a.y
        self.z += factor * a.z

    @reversible
    def add_cross(self, a: Vector3, b: Vector3) -> None:
        """v += a × b. Inverse: v −= a × b. Trap: v is neither a nor b."""
        self.x += a.y * b.z - a.z * b.y
        self.y += a.z * b.x - a.x * b.z
        self.z += a.x * b.y - a.y * b.x


@rg.struct
class Quaternion:
    """xi + yj + zk + w: the vector part first, the scalar last."""

    x: fixed
    y: fixed
    z: fixed
    w: fixed

    @reversible
    def add_product(self, p: Quaternion, q: Quaternion) -> None:
        """s += p·q (Hamilton's product, which does not commute). Inverse: s −= p·q."""
        self.x += p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y
        self.y += p.w * q.y + p.y * q.w + p.z * q.x - p.x * q.z
        self.z += p.w * q.z + p.z * q.w + p.x * q.y - p.y * q.x
        self.w += p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z


@reversible
def scalar_product(out: fixed, a: Vector3, b: Vector3) -> None:
    """out += a·b. Inverse: out −= a·b."""
    out += a.x * b.x
    out += a.y * b.y
    out += a.z * b.z


@reversible
def vector_norm(out: fixed, a: Vector3) -> None:
    """out += |a|. Inverse: out −= |a|. Traps where |a|² overflows."""
    out += rg.sqrt(a.x * a.x + a.y * a.y + a.z * a.z)


@reversible
def rotate(out: Vector3, v: Vector3, q: Quaternion) -> None:
    """out += q v q̄ = (w² − u·u) v + 2 (u·v) u + 2w u × v, where q = (u, w). Inverse: out −= q v q̄.

    Where |q| = 1 this turns v by the angle 2 arccos w about u; else it scales v by |q|², too.
    """
    with rg.routine() as r:
        u = Vector3(q.x, q.y, q.z)
        along = fixed(0)
        scalar_product(along, u, v)
        keep = q.w * q.w - q.x * q.x - q.y * q.y - q.z * q.z
        side = Vector3(0.0, 0.0, 0.0)
        side.add_cross(u, v)
    out.add_scaled(v, keep)
    out.add_scaled(u, 2 * along)
    out.add_scaled(side, 2 * q.w)
    ~r


# -----------------------------------------------------------------------------
# Sums, products and orders of arrays.


@reversible
def total(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += Σᵢ xᵢ. Inverse: out −= Σᵢ xᵢ."""
    out += rg.sum(x)


@reversible
def dot(out: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"]) -> None:
    """out += Σᵢ xᵢyᵢ. Inverse: out −= Σᵢ xᵢyᵢ. Its gradient with regard to x is y."""
    out += rg.sum(x * y)


@reversible
def norm2(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += Σᵢ xᵢ², the square of the norm. Inverse: out −= Σᵢ xᵢ²."""
    out += rg.sum(x * x)


@reversible
def norm(out: fixed, x: Array[fixed, "n"]) -> None:
    """out += √(Σᵢ xᵢ²). Inverse: out −= √(Σᵢ xᵢ²). Traps where the sum of squares overflows."""
    with rg.routine() as r:
        square = fixed(0)
        norm2(square, x)
    out += rg.sqrt(square)
    ~r


@reversible
def axpy(y: Array[fixed, "n"], a: fixed, x: Array[fixed, "n"]) -> None:
    """y += a·x. Inverse: y −= a·x."""
    y += a * x


@reversible
def affine(y: Array[fixed, "n"], w: Array[fixed, "n", "m"], x: Array[fixed, "m"], b: Array[fixed, "n"]) -> None:
    """y += W x + b. Inverse: y −= W x + b."""
    for i in range(len(y)):
        y[i] += b[i]
        y[i] += rg.sum(w[i] * x)


@reversible
def mapfold(function: Reversible, fold: Reversible, out: fixed, xs: Array[fixed, "n"]) -> None:
    """out := fold(… fold(fold(out, f(x₀)), f(x₁)) …, f(xₙ₋₁)), f = `function`.

    Inverse: the same with ~fold, from the last element to the first.

    function(y, x) adds f(x) to y, which is zero; fold(out, y) changes out by y. Each f(x) is uncomputed after its use.
    Source: arXiv 2003.04617, i_mapfoldl of NiLang.
    """
    for x in xs:
        with rg.routine() as r:
            y = fixed(0)
            function(y, x)
        fold(out, y)
        ~r


@reversible
def filter_into(
    predicate: Reversible, kept: Array[fixed, "m"], position: Array[int, "m"], count: int, xs: Array[fixed, "n"]
) -> None:
    """kept[count…] += the x that satisfy the predicate, position[count…] += their indices, count += their number.

    Inverse: subtracts them, the last first. predicate(b, x) flips the bool b exactly if x is to be kept. xs does not change.
    Traps if more elements are kept than there is room for.
    """
    for i in range(len(xs)):
        with rg.routine() as r:
            wanted = False
            predicate(wanted, xs[i])
        if wanted:
            kept[count] += xs[i]
            position[count] += i
            count += 1
        ~r


@reversible
def argmax(i: int, x: Array[fixed, "n"]) -> None:
    """i += the index of the greatest element, the first of these. Inverse: i −= it. n ≥ 1."""
    with rg.routine() as r:
        best = rg.zeros(len(x), dtype=int)
        for k in range(1, len(x)):
            best[k] += k if x[k] > x[best[k - 1]] else best[k - 1]
    i += best[-1]
    ~r


@reversible
def sort(x: Array[fixed, "n"], permutation: Array[int, "n"]) -> None:
    """x := x in ascending order, in place, equal elements in their order; permutation[i] := the former index of x[i].

    Inverse: x as before, permutation := 0. Traps unless the permutation is zero before. Insertion sort, with n(n − 1)/2
    comparisons in each direction: element i moves down as long as its neighbour is larger. Running backward, the
    permutation determines the exchanges: there was an exchange at j exactly if i stands there.
    """
    for i in range(len(x)):
        permutation[i] += i
    for i in range(1, len(x)):
        for j in range(i, 0, -1):
            if (x[j - 1] > x[j], permutation[j - 1] == i):
                rg.swap(x[j - 1], x[j])
                rg.swap(permutation[j - 1], permutation[j])


@reversible
def permute(x: Any, permutation: Array[int, "n"]) -> None:
    """xᵢ := x[pᵢ], p = `permutation`, in place; x is an array of numbers or of rows. Inverse: x[pᵢ] := xᵢ.

    Traps where the permutation leaves out an element other than zero.
    """
    taken = rg.zeros_like(x)
    for i in range(len(x)):
        rg.swap(taken[i], x[permutation[i]])
    rg.swap(taken, x)


@reversible
def sort_pairs(x: Array[fixed, "n"], y: Any, permutation: Array[int, "n"]) -> None:
    """(xᵢ, yᵢ) := the pairs in ascending order of x, in place, pairs of equal x in their order.

    Inverse: as before, permutation := 0. y is an array of numbers or of rows. permutation[i] is the former index of
    pair i, and is zero before, as in `sort`.
    """
    sort(x, permutation)
    permute(y, permutation)


@reversible
def cumulative_sum(x: Array[fixed, "n"]) -> None:
    """xᵢ := x₀ + … + xᵢ, in place. Inverse: the differences of neighbours."""
    for i in range(1, len(x)):
        x[i] += x[i - 1]


@reversible
def reverse(x: Array[fixed, "n"]) -> None:
    """xᵢ := xₙ₋₁₋ᵢ, in place. Its own inverse."""
    for i in range(len(x) // 2):
        rg.swap(x[i], x[len(x) - 1 - i])


# -----------------------------------------------------------------------------
# The Hadamard transform of two numbers, H = [[1, 1], [1, −1]]/√2, the reflection at the line with the angle π/8.
#
#     H = S⁻¹ T⁻¹ Z T S      S: y −= tan(π/8)·x      T: x += (√2/4)·y      Z: y := −y
#
# S and T are updates, which their inverses undo in spite of rounding, and Z is its own inverse. So H H is the identity
# to
# the bit, which a rotation and a sign, irot(x, y, π/4) and neg(y), are only up to rounding.


@reversible
def hadamard(x: fixed, y: fixed) -> None:
    """(x, y) := ((x + y)/√2, (x − y)/√2), in place. Its own inverse, bit for bit.

    Off by 2 units of the last place and 3·10⁻¹⁰ of the size in Q32.32. Of arrays: `hadamard.each(xs, ys)`.
    Trap: where y − tan(π/8)·x overflows, RG0404.
    """
    y -= (sqrt(2) - 1) * x
    x += sqrt(2) / 4 * y
    rg.neg(y)
    x -= sqrt(2) / 4 * y
    y += (sqrt(2) - 1) * x


# -----------------------------------------------------------------------------
# The fast Fourier transform, in place and exactly reversible.
#
#     x̂ₖ = n^(−½) Σⱼ xⱼ e^(−2πijk/n)
#
# Scaled by n^(−½) the transform is unitary, and so a product of rotations. The inverse of a rotation by lifting (`rg.rot`) is
# exact although its sine is rounded. The inverse transform therefore restores every bit.


@rg.pure
def _bit_reversed(n: int) -> NDArray[Any]:
    """The numbers below n, a power of two, with their bits in opposite order."""
    bits = int(log2(n))
    return np.array([int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(n)])


@rg.pure
def _angles(half: int) -> NDArray[Any]:
    """−πj/half for all j < half: the turns of one stage."""
    return -pi * np.arange(half) / half


@rg.pure
def _stages(n: int) -> list[int]:
    """1, 2, 4, …, n/2. Raises ValueError where n is no power of two."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"a length of {n} is no power of two")
    return [1 << i for i in range(n.bit_length() - 1)]


@reversible
def fft(x: Array[Complex, "n"]) -> None:
    """x̂ₖ = n^(−½) Σⱼ xⱼ e^(−2πijk/n), in place, n a power of two. Inverse: the inverse transform, bit for bit.

    NumPy's fft(x, norm="ortho"), to some last places per stage; 3 rotations for each of the ½ n log₂ n butterflies.
    Trap: a butterfly x ± y without scaling would have an inverse that halves, and a half does not fit into a last
    place.
    Source: Cooley and Tukey, Mathematics of Computation 19 (1965), 297; lifting: Oraintara, Chen and Nguyen,
    IEEE Transactions on Signal Processing 50 (2002), 607.
    """
    n = len(x)
    stages = _stages(n)
    partner = _bit_reversed(n)
    for i in range(n):
        if i < partner[i]:
            rg.swap(x[i], x[partner[i]])
    for half in stages:
        angles = _angles(half)
        for start in range(0, n, 2 * half):
            for j in range(half):
                butterfly(x[start + j], x[start + half + j], angles[j])


@reversible
def butterfly(a: Complex, b: Complex, angle: fixed) -> None:
    """(a, b) := ((a + w b)/√2, (a − w b)/√2), w = e^{iθ}.

    Inverse: (a, b) := ((a + b)/√2, w̄(a − b)/√2), bit for bit.
    """
    b.rotate(angle)
    rg.irot(a.re, b.re, pi / 4)
    rg.irot(a.im, b.im, pi / 4)
    rg.neg(b.re)
    rg.neg(b.im)
