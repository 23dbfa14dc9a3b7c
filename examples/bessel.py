"""A Bessel function by its power series: products in place, by two methods.

    Jν(z) = Σₖ sₖ,    s₀ = (z/2)^ν / ν!,    sₖ = −sₖ₋₁ · (z/2)² / (k (k + ν))

Each term is computed from the term before, which is then no longer needed. An ordinary program overwrites it. A reversible
program cannot, and an array of all terms would grow with the loop.

Both functions here keep one term only. A product in place would be undone by a quotient. But fixed-point products are
rounded, and the quotient of a rounded product differs slightly from the factor:

- `bessel` keeps the difference. `multiply` computes the product into an ancilla and subtracts the quotient from the factor,
  which leaves a small remainder. The remainder makes the ancilla *dirty*, but it can be used for the next product. It
  grows as the terms shrink, since it holds the digits that they lose. Each step is undone exactly, remainders
  included. Once the sum is copied out, `~series` runs all steps backward until every ancilla is zero.
- `bessel_log` has no remainders. A lognum is a logarithm, so its `*=` is an addition and its `/=` the exact inverse.

The divisor k(k + ν) is a sum of steps ν + 1, ν + 3, … Forward, the loop ends when the term is small; backward, when the divisor is zero.
"""

from __future__ import annotations

import math

import retrograd as rg
from retrograd import fixed, lognum, reversible


@reversible
def multiply(y: fixed, x: fixed, crumbs: fixed) -> None:
    """(y, crumbs) := (y·x, −crumbs/x), rounded: y *= x, where crumbs is a small remainder, at first zero.

    Inverse: uncall. Trap: x = 0. Error of the product: 2 last places, and of the crumbs: 1/|x| last places.
    """
    crumbs += y * x
    y -= crumbs / x
    y, crumbs = crumbs, y  # y = y·x + crumbs of before …
    y += crumbs * x  # … and without them


@reversible
def bessel(out: fixed, z: fixed, nu: rg.static = 2, atol: rg.static = 1e-8) -> None:
    """out += Jν(z), summed until a term is at most `atol`; ν = 0, 1, 2, …, known when the program is compiled.

    The terms have 16 places more than z and the result, so their roundings do not count. Inverse: out −= Jν(z).
    Error: 3·10⁻¹⁰ for |z| ≤ 2, 10⁻⁷ at 10. Trap: |z| of 20 and more, whose terms outgrow these points.
    Gradient: its error is 10⁻⁹ for |z| ≤ 2, and 3·10⁻⁷ at 10.
    """
    with rg.routine() as series:
        minus = -((z / 2) ** 2)
        term: fixed[48] = (z / 2) ** nu / math.factorial(nu)
        total: fixed[48] = fixed(0)
        crumbs: fixed[48] = fixed(0)
        step, divisor = nu - 1, 0
        total += term
        if minus < 0:  # which is rounded to 0 for |z| < 2^-15: then the first term is all
            while (abs(term) > atol, divisor != 0):
                step += 2
                divisor += step
                x = minus / divisor
                multiply(term, x, crumbs)
                total += term
    out += total
    ~series


@reversible
def bessel_log(out: fixed, z: fixed, nu: rg.static = 2, atol: rg.static = 1e-8) -> None:
    """out += Jν(z) for z ≠ 0, its terms held as logarithms; ν = 0, 1, 2, …, known when the program is compiled.

    Inverse: out −= Jν(z). Trap: z = 0, which has no logarithm. Error: 3·10⁻¹⁰ for |z| ≤ 2, 3·10⁻⁸ at 10. Gradient: 3·10⁻⁹
    and 4·10⁻⁸.
    """
    with rg.routine() as series:
        minus = -(lognum(z / 2) ** 2)
        term = lognum(z / 2) ** nu / lognum(math.factorial(nu))
        total = fixed(0)
        step, divisor = nu - 1, 0
        total += fixed(term)
        while (abs(fixed(term)) > atol, divisor != 0):
            step += 2
            divisor += step
            term *= minus / lognum(divisor)
            total += fixed(term)
    out += total
    ~series


def reference(z: float, nu: int = 2, atol: float = 1e-17) -> float:
    """Jν(z) by the same series in floating point."""
    term = (z / 2) ** nu / math.factorial(nu)
    total, k = term, 0
    while abs(term) > atol:
        k += 1
        term *= -((z / 2) ** 2) / (k * (k + nu))
        total += term
    return total


def main() -> None:
    """Print both functions at z = 1, forward and back."""
    exact = reference(1.0)
    print(f"J2(1) = {exact:.13f} in floating point")
    for f in (bessel, bessel_log):
        out = f(0.0, 1.0)
        back = (~f)(*out)
        print(
            f"{f.__name__:10} = {out.out:.13f}, error {out.out - exact:+.1e}; backward: out = {back.out}, z = {back.z}"
        )


if __name__ == "__main__":
    main()
