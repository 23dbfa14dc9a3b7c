"""Complex numbers as pairs of fixed-point numbers, with updates in place.

    z += a,  z += a·b,  z += a/b,  z += eᵃ,  z += ln a,  z := z·e^{iθ}

Every method changes only the number on which it is called; `~z.add(a)` within reversible functions subtracts.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Complex:
    """x + iy, as two fixed-point numbers. Arguments may be Python's own complex numbers."""

    re: fixed
    im: fixed

    def __complex__(self) -> complex:
        return complex(float(self.re), float(self.im))

    @reversible
    def add(self, a: Complex) -> None:
        """z += a. Inverse: z −= a."""
        self.re += a.re
        self.im += a.im

    @reversible
    def add_scaled(self, a: Complex, factor: fixed) -> None:
        """z += factor·a, the factor being real. Inverse: z −= factor·a."""
        self.re += factor * a.re
        self.im += factor * a.im

    @reversible
    def add_product(self, a: Complex, b: Complex) -> None:
        """z += a·b. Inverse: z −= a·b. Trap: z is neither a nor b, since the product would overwrite a factor."""
        self.re += a.re * b.re
        self.re -= a.im * b.im
        self.im += a.re * b.im
        self.im += a.im * b.re

    @reversible
    def add_conjugate_product(self, a: Complex, b: Complex) -> None:
        """z += ā·b. Inverse: z −= ā·b."""
        self.re += a.re * b.re
        self.re += a.im * b.im
        self.im += a.re * b.im
        self.im -= a.im * b.re

    @reversible
    def add_quotient(self, a: Complex, b: Complex) -> None:
        """z += a/b. Inverse: z −= a/b. Traps where b = 0.

        By Smith's method, since |b|² overflows long before b does. With q the smaller part of b over the larger,
        a/b = (a.re + a.im·q + i(a.im − a.re·q)) / (b.re + b.im·q) where |b.re| ≥ |b.im|.
        Source: Smith, Communications of the ACM 5 (1962), 435.
        """
        with rg.routine() as r:
            wide = abs(b.re) >= abs(b.im)
            q = b.im / b.re if wide else b.re / b.im
            scale = b.re + b.im * q if wide else b.im + b.re * q
        if wide:
            self.re += (a.re + a.im * q) / scale
            self.im += (a.im - a.re * q) / scale
        else:
            self.re += (a.re * q + a.im) / scale
            self.im += (a.im * q - a.re) / scale
        ~r

    @reversible
    def add_exp(self, a: Complex) -> None:
        """z += eᵃ = e^{Re a}(cos Im a + i sin Im a). Inverse: z −= eᵃ. Traps where e^{Re a} overflows."""
        with rg.routine() as r:
            size = rg.exp(a.re)
        self.re += size * rg.cos(a.im)
        self.im += size * rg.sin(a.im)
        ~r

    @reversible
    def add_log(self, a: Complex) -> None:
        """z += ln a = ln |a| + i·arg a, −π < arg a ≤ π. Inverse: z −= ln a. Traps where a = 0."""
        with rg.routine() as r:
            size = fixed(0)
            complex_abs(size, a)
        self.re += rg.log(size)
        self.im += rg.atan2(a.im, a.re)
        ~r

    @reversible
    def rotate(self, angle: fixed) -> None:
        """z := z·e^{iθ}, in place. Inverse: z := z·e^{−iθ}, bit for bit in spite of rounding. θ in radians."""
        rg.rot(self.re, self.im, angle)

    @reversible
    def conjugate(self) -> None:
        """z := z̄. Its own inverse."""
        rg.neg(self.im)


@reversible
def complex_abs(out: fixed, a: Complex) -> None:
    """out += |a|. Inverse: out −= |a|.

    The vector is turned onto the real axis and turned back. It is not squared, so there is no overflow, and small numbers
    keep all their digits.
    """
    with rg.routine() as r:
        x = a.re
        y = a.im
        if a.re != 0 or a.im != 0:
            rg.irot(x, y, rg.atan2(a.im, a.re))
    out += x
    ~r


@reversible
def complex_arg(out: fixed, a: Complex) -> None:
    """out += arg a, from −π to π. Inverse: out −= arg a. In radians. Traps where a = 0."""
    out += rg.atan2(a.im, a.re)
