"""Products in place, powers, factorials, a series, and Fibonacci numbers.

A product in place is undone by a division, so the division must be exact. There are three ways: an ancilla that keeps the
remainder (`imul`), integers, whose products divide without a remainder (`scale`), and lognums, whose products are sums of
logarithms (`power`). `fibonacci` shows recursion.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import fixed, lognum, reversible


@reversible
def imul(y: fixed, x: fixed, ancilla: fixed) -> None:
    """(y, ancilla) := (y·x + ancilla, y − (y·x + ancilla)/x).

    Inverse: (y, ancilla) := (ancilla + y/x, y − (ancilla + y/x)·x).

    Trap: the ancilla comes back dirty. It holds the remainder of rounding, some last places over x. The call may be
    repeated with this ancilla, and `~imul` in the opposite order restores both. x ≠ 0.
    Source: Liu and Zhao, arXiv 2003.04617 (NiLang).
    """
    ancilla += y * x
    y -= ancilla / x
    rg.swap(y, ancilla)


@reversible
def idiv(y: fixed, x: fixed, ancilla: fixed) -> None:
    """(y, ancilla) := (y/x + ancilla, y − (y/x + ancilla)·x).

    Inverse: (y, ancilla) := (ancilla + y·x, y − (ancilla + y·x)/x).

    The partner of `imul`: it divides forward. Trap: its ancilla comes back dirty, too. x ≠ 0.
    """
    ancilla += y / x
    y -= ancilla * x
    rg.swap(y, ancilla)


@reversible
def scale(y: int, x: int) -> None:
    """y := y·x. Inverse: y := y/x.

    The product of integers divides without remainder: no ancilla is left. Traps where the product overflows, x is zero,
    or, running backward, x does not divide y.
    """
    product = 0
    product += y * x
    y -= product // x
    rg.swap(y, product)


@reversible
def factorial(out: int, n: int) -> None:
    """out += n!, n ≥ 0. Inverse: out −= n!. Traps where n! overflows: n ≤ 20 in 64 bits."""
    with rg.routine() as r:
        f = 1
        for i in range(2, n + 1):
            scale(f, i)
    out += f
    ~r


@reversible
def log_factorial(f: lognum, n: int) -> None:
    """f *= n!, n ≥ 0. Inverse: f /= n!. Only log2 n! has to fit into a word, not n!."""
    for i in range(2, n + 1):
        f *= lognum(i)


@reversible
def power(out: fixed, x: fixed, n: int) -> None:
    """out += xⁿ, n of either sign. Inverse: out −= xⁿ. Traps where x = 0.

    n products of lognums, all exact. Only the two conversions round, to about n last places of log2 x.
    Source: Liu and Zhao, arXiv 2003.04617.
    """
    with rg.routine() as r:
        factor = lognum(x)
        p = lognum(1.0)
        for _ in range(abs(n)):
            p *= factor
    if n < 0:
        out += fixed(1 / p)
    else:
        out += fixed(p)
    ~r


@reversible
def iexp(out: fixed, x: fixed) -> None:
    """out += Σₖ xᵏ/k! = eˣ, until a term is below 2⁻²⁸. Inverse: out −= eˣ.

    `rg.exp` is more exact and faster; this function shows a loop that ends by a test. The term is a lognum that is multiplied
    by x/k in each pass; k = 1 marks the start of the loop for a run backward. The first two terms are outside of the branch, so that
    the gradient at x = 0 is right, too.
    """
    out += 1 + x
    if x != 0:
        with rg.routine() as r:
            total = fixed(0)
            k = 1
            factor = lognum(x)
            term = factor
            while (k == 1 or abs(fixed(term)) > 2.0**-28, k != 1):
                k += 1
                term *= factor / lognum(k)
                total += fixed(term)
        out += total
        ~r


@reversible
def fibonacci(out: int, n: int) -> None:
    """out += F(n), where F(1) = F(2) = 1 and F(n) = F(n − 1) + F(n − 2). Inverse: out −= F(n).

    Recursive: two calls for n > 2, about 2 F(n) in all. The result is 1 for every n below 3. Source: arXiv 2003.04617.
    """
    if n <= 2:
        out += 1
    else:
        fibonacci(out, n - 1)
        fibonacci(out, n - 2)


@reversible
def first_fibonacci(n: int, z: int) -> None:
    """n := the least n with F(n) ≥ z, from n = 0. Inverse: n := 0. Traps where n is not 0 before, or z ≤ 1.

    Each pass uncomputes F(n) and computes the next number. Source: arXiv 2003.04617.
    """
    f = 0
    fibonacci(f, n)
    while (f < z, n != 0):
        ~fibonacci(f, n)
        n += 1
        fibonacci(f, n)
    ~fibonacci(f, n)
