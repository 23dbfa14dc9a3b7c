"""Derivatives by dual numbers in mpmath, the reference for random functional programs. Nothing of the compiler is used.

Each derivative has dual numbers of a level of its own, and inner derivatives begin later than outer ones: a number of a higher level holds those
of the lower ones. So nested derivatives cannot be confused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 25


class Dual:
    """value + slope·ε of a level. Constants have level 0."""

    def __init__(self, value: Any, slope: Any = 0, level: int = 0) -> None:
        self.value, self.slope, self.level = value, slope, level

    def __add__(self, other: Any) -> Dual:
        x, y, level = both(self, other)
        return Dual(x.value + y.value, x.slope + y.slope, level)

    def __sub__(self, other: Any) -> Dual:
        return self + -1 * dual(other)

    def __mul__(self, other: Any) -> Dual:
        x, y, level = both(self, other)
        return Dual(x.value * y.value, x.value * y.slope + x.slope * y.value, level)

    def __neg__(self) -> Dual:
        return -1 * self

    def __radd__(self, other: Any) -> Dual:
        return dual(other) + self

    def __rsub__(self, other: Any) -> Dual:
        return dual(other) - self

    def __rmul__(self, other: Any) -> Dual:
        return dual(other) * self

    def __lt__(self, other: Any) -> bool:
        return number(self) < number(other)

    def __gt__(self, other: Any) -> bool:
        return number(self) > number(other)


def dual(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(mp.mpf(x))


def both(x: Any, y: Any) -> tuple[Dual, Dual, int]:
    """Both as numbers of the higher level of the two."""
    x, y = dual(x), dual(y)
    level = max(x.level, y.level)
    made = (z if z.level == level else Dual(z, 0, level) for z in (x, y))
    return next(made), next(made), level


def number(x: Any) -> Any:
    while isinstance(x, Dual):
        x = x.value
    return x


def sin(x: Any) -> Any:
    if not isinstance(x, Dual):
        return mp.sin(x)
    return Dual(sin(x.value), x.slope * cos(x.value), x.level)


def cos(x: Any) -> Any:
    if not isinstance(x, Dual):
        return mp.cos(x)
    return Dual(cos(x.value), -1 * (x.slope * sin(x.value)), x.level)


_LEVELS = itertools.count(1)


def slope(y: Any, level: int) -> Any:
    return y.slope if isinstance(y, Dual) and y.level == level else mp.mpf(0)


def fields(x: Any) -> tuple[Any, ...] | None:
    """The fields of an object of a data class."""
    return tuple(getattr(x, n) for n in type(x).__match_args__) if hasattr(type(x), "__retrograd_data__") else None


def by_each(x: Any, run: Callable[[Any], Any], level: int) -> Any:
    """run(x) with each number of x in turn as a dual number, in the form of x. Ints have no derivative."""
    if isinstance(x, tuple | list):
        made = []
        for i in range(len(x)):
            made.append(by_each(x[i], lambda v, i=i: run(type(x)([*x[:i], v, *x[i + 1 :]])), level))
        return type(x)(made)
    inside = fields(x)
    if inside is not None:
        return type(x)(*by_each(inside, lambda v: run(type(x)(*v)), level))
    return 0 if isinstance(x, int) else run(Dual(x, mp.mpf(1), level))


def grad(f: Any) -> Any:
    """The gradient: a run of f for each number among its arguments."""

    def gradient(*given: Any) -> Any:
        level = next(_LEVELS)
        found = by_each(given, lambda args: slope(f(*args), level), level)
        return found[0] if len(given) == 1 else found

    return gradient


def dot(y: Any, direction: Any, level: int) -> Any:
    """Σ of the slopes of y times the direction, which has the form of y."""
    if isinstance(y, tuple | list):
        total: Any = mp.mpf(0)
        for a, b in zip(y, direction, strict=False):
            total = total + dot(a, b, level)
        return total
    return slope(y, level) * direction


def vjp(f: Any) -> Any:
    def pulled(x: Any, direction: Any) -> Any:
        level = next(_LEVELS)
        return by_each(x, lambda v: dot(f(v), direction, level), level)

    return pulled


def moved(x: Any, direction: Any, level: int) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(moved(a, b, level) for a, b in zip(x, direction, strict=True))
    return Dual(x, direction, level)


def slopes(y: Any, level: int) -> Any:
    return type(y)(slopes(v, level) for v in y) if isinstance(y, tuple | list) else slope(y, level)


def jvp(f: Any) -> Any:
    def pushed(x: Any, direction: Any) -> Any:
        level = next(_LEVELS)
        return slopes(f(moved(x, direction, level)), level)

    return pushed


def hessian(f: Any) -> Any:
    return lambda x: grad(grad(f))(x)
