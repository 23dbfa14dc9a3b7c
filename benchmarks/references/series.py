"""Bessel functions of the first kind by mpmath, to thirty digits.

2 J′ν = Jν₋₁ − Jν₊₁,   4 J″ν = Jν₋₂ − 2 Jν + Jν₊₂
"""

from __future__ import annotations

import mpmath


def bessel(nu: int, z: float) -> tuple[float, float, float]:
    """(Jν(z), J′ν(z), J″ν(z))."""
    with mpmath.workdps(30):
        j = {n: mpmath.besselj(nu + n, mpmath.mpf(z)) for n in range(-2, 3)}
        return float(j[0]), float((j[-1] - j[1]) / 2), float((j[-2] - 2 * j[0] + j[2]) / 4)
