"""The scale of cotangents: L̄ begins as 2^k, and derivatives are divided by 2^k. `"auto"` is the greatest k that overflows nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from retrograd.differentiation.arguments import need_scale
from retrograd.functions.execution import ProgramTrap
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format

T = TypeVar("T")

Scale = int | Literal["auto"]


def at_scale(scale: Scale, w: Format, attempt: Callable[[int], T]) -> T:
    """attempt(k) for the scale k; for `"auto"` the greatest k for which it neither traps nor raises InputError, by bisection.

    A cotangent is linear in L̄, so it overflows at all scales above the first at which it does. Raises NotDifferentiable for a scale
    that w has not, and the error of attempt(0).
    """
    if scale != "auto":
        return attempt(need_scale(scale, w))
    fits, overflows = -1, highest_scale(w) + 1
    found: list[T] = []
    k = overflows - 1
    while overflows - fits > 1:
        try:
            found = [attempt(k)]
            fits = k
        except (ProgramTrap, InputError):
            # Cotangents that are too great overflow, or leave a derivative without a value; or they are given and do not fit.
            if k == 0:
                raise
            overflows = k
        k = (fits + overflows) // 2
    return found[0]


def highest_scale(w: Format) -> int:
    """The greatest k for which 2^k is a positive word."""
    return w.width - w.frac - 2
