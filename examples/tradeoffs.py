"""Results with two programs each, of different cost, which [the analysis of energy](../docs/energy-analysis.md) compares.

a product       of fixed numbers, whose partial products are kept and uncomputed; or of lognums, in place
a chain         that erases each state, beside Bennett's scheme (retrograd.library.bennett), which erases none
squared_error   of one measurement of bundle adjustment, with its gradient by the adjoint or by a tape

retrograd energy examples/tradeoffs.py:product_by_lognum 0.0 '[1.5, 2.0, 0.5]' --tech cmos45
"""

from __future__ import annotations

from retrograd.examples import bundle_adjustment

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible


@reversible
def forgetting_chain(y: fixed, x: fixed, steps: rg.static) -> None:
    """y += F^steps(x), F being `logistic`'s. Each state is erased when the next is computed."""
    a = fixed(0)
    b = fixed(0)
    a += x
    for _ in range(steps):
        b += 3.5 * a - 3.5 * a * a
        a, b = b, a
        rg.erase(b)
    y += a
    rg.erase(a)


@reversible
def product_by_fixed(y: fixed, x: Array[fixed, "n"]) -> None:
    """y += Π x, by the products of the first 1, 2, 3, … numbers, since a rounded product cannot be undone in place."""
    with rg.routine() as r:
        p = rg.zeros_like(x)
        p[0] += x[0]
        for i in range(1, len(x)):
            p[i] += p[i - 1] * x[i]
    y += p[len(x) - 1]
    ~r


@reversible
def product_by_lognum(y: fixed, x: Array[fixed, "n"]) -> None:
    """y += Π x, in place: a product of lognums adds logarithms, and a quotient subtracts them."""
    with rg.routine() as r:
        p = lognum(1)
        for i in range(len(x)):
            p *= lognum(x[i])
    y += fixed(p)
    ~r


@reversible
def squared_error(
    loss: fixed, camera: Array[fixed, 11], point: Array[fixed, 3], weight: fixed, feature: Array[fixed, 2]
) -> None:
    """loss += |the error of one measurement|²"""
    with rg.routine() as r:
        error = rg.zeros(2)
        bundle_adjustment.reprojection_error(error, camera, point, weight, feature)
    loss += rg.sum(error * error)
    ~r
