"""Slopes by differences, with bounds on their errors.

    D(h) = (L(x+h) − L(x−h)) / 2h = L′ + c₂h² + c₄h⁴ + …          error of rounding: σ/h

for h = h₀, h₀/2, h₀/4, …, extrapolated to h = 0 (Richardson); of all extrapolations the one with the smallest bound is taken.
σ is measured: words close together give values of L that, were it not for rounding, would lie on a parabola.
Traps: at a kink D(h) converges to the mean of both sides, so each side has its own slope; an h that leaves the domain
gives no difference.
Sources: Ridders, Adv. Eng. Software 4 (1982) 75, the table; Moré and Wild, SIAM J. Sci. Comput. 33 (2011) 1292, the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: L at x + k words, as a word; None where it has no value
Line = Callable[[int], int | None]

#: columns of the table: more would only extrapolate rounding
_COLUMNS = 5
#: standard deviations of the rounding that a bound allows for
_SIGMAS = 4.0


@dataclass(frozen=True)
class Slope:
    """`value` ± `bound`; an infinite bound means that there is no slope."""

    value: float
    bound: float

    def scaled(self, factor: float) -> Slope:
        return Slope(self.value * factor, self.bound * abs(factor))


@dataclass(frozen=True)
class Slopes:
    """The slope of a line through x: from both sides together, and from each."""

    central: Slope
    left: Slope
    right: Slope

    def smooth(self, slack: float = 0.0) -> bool:
        """Whether the three may be one. A kink sets the sides apart; a structure smaller than some steps can deceive all but one of them."""
        pairs = ((self.left, self.right), (self.left, self.central), (self.right, self.central))
        return all(
            math.isinf(x.bound + y.bound) or abs(x.value - y.value) <= slack + 2 * (x.bound + y.bound) for x, y in pairs
        )

    def scaled(self, factor: float) -> Slopes:
        return Slopes(self.central.scaled(factor), self.left.scaled(factor), self.right.scaled(factor))


NO_SLOPE = Slope(math.nan, math.inf)


def slopes(line: Line, here: int, steps: Sequence[int], noise: float, enough: float) -> Slopes:
    """Slopes at 0, in words of L per word of x, from steps in words, each half the one before.

    `here` = L(x), `noise` = σ in words. No more steps are taken once all bounds are below `enough`.
    """
    central, left, right = _Table(4.0, noise, 1.0), _Table(2.0, noise, 2.0), _Table(2.0, noise, 2.0)
    for h in steps:
        up, down = line(h), line(-h)
        central.add(None if up is None or down is None else (up - down) / (2 * h), h)
        right.add(None if up is None else (up - here) / h, h)
        left.add(None if down is None else (here - down) / h, h)
        if max(central.best.bound, left.best.bound, right.best.bound) < enough:
            break
    return Slopes(central.best, left.best, right.best)


class _Table:
    """Richardson's table, a row for each step; `ratio`: halving a step divides the first term of the error by it."""

    def __init__(self, ratio: float, noise: float, ends: float) -> None:
        self.ratio = ratio
        self.second = 4.0 if ratio == 4.0 else 2.0
        self.noise = _SIGMAS * noise * ends
        self.best = NO_SLOPE
        self.row: list[float] = []

    def add(self, value: float | None, h: int) -> None:
        """The next row: the difference with step h, in words."""
        if value is None:
            self.row = []
            return
        above, self.row = self.row, [value]
        power, amplified = self.ratio, 1.0
        for j, old in enumerate(above[: _COLUMNS - 1]):
            new = self.row[j] + (self.row[j] - old) / (power - 1)
            amplified *= (power + 1) / (power - 1)
            self.row.append(new)
            bound = max(abs(new - self.row[j]), abs(new - old)) + amplified * self.noise / h
            if bound < self.best.bound:
                self.best = Slope(new, bound)
            power *= self.second


def noise_of(values: Sequence[int | None]) -> float:
    """σ of the rounding in values at equal distances, at least half a word: from differences of the third order up.

    σ_k² = (k!)²/(2k)! · mean((Δ^k L)²): Δ^k takes away every polynomial below the order k, and leaves the rounding.
    """
    row: list[float] = [v for v in values if v is not None]
    if len(row) < len(values):
        return math.inf
    found = 0.5
    for k in range(1, len(row)):
        row = [b - a for a, b in pairwise(row)]
        if k >= 3 and len(row) >= 2:
            weight = math.factorial(k) ** 2 / math.factorial(2 * k)
            found = max(found, math.sqrt(weight * sum(d * d for d in row) / len(row)))
    return found
