"""Sums, products and orders of arrays.

A function adds its result to its first argument, unless its docstring states that it works in place.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible


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
def cumulative_sum(x: Array[fixed, "n"]) -> None:
    """xᵢ := x₀ + … + xᵢ, in place. Inverse: the differences of neighbours."""
    for i in range(1, len(x)):
        x[i] += x[i - 1]


@reversible
def reverse(x: Array[fixed, "n"]) -> None:
    """xᵢ := xₙ₋₁₋ᵢ, in place. Its own inverse."""
    for i in range(len(x) // 2):
        rg.swap(x[i], x[len(x) - 1 - i])
