"""The scale of cotangents: L̄ begins as 2^k, and derivatives are divided by 2^k.

    "auto"  =  the greatest k of `automatic(w)` at which nothing overflows

A scale moves the last place of cotangents k places behind the last place of numbers. `"auto"` depends on the arguments alone: each
attempt begins anew, so the result is the same on every engine, and after any other call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, TypeVar

from retrograd.differentiation.arguments import highest_scale, need_scale
from retrograd.isa.diagnostics import InputError, RetrogradError
from retrograd.isa.words import Format
from retrograd.runtime._execution import ProgramTrap, Unexplained

T = TypeVar("T")

Scale = int | Literal["auto"]

#: the codes of a cotangent that outgrows its word, and of a given cotangent that has no word
OVERFLOW = ("RG0404", "RG0601")


@cache
def automatic(w: Format) -> tuple[int, ...]:
    """The scales of `"auto"`, from the greatest: 2s, s, 0, −s for s = (W − F)/4, and 0, −1, −2, −3 where s is 0. In Q32.32 16, 8, 0, −8.

    At 2s half of the bits before the point are left: cotangents are below 2^15 in Q32.32, and have 48 places. At 24 the
    gradients of the benchmarks are no better, except through 100 steps of planets, and quotients leave their lanes
    (`engines/llvm/trees.py`), which takes twice as long. The last scale leaves three quarters of the places, or more.
    """
    s = (w.width - w.frac) // 4
    scales = (2 * s, s, 0, -s) if s else (0, -1, -2, -3)
    return tuple(dict.fromkeys(min(max(k, -(w.frac // 4)), highest_scale(w)) for k in scales))


def scales_of(scale: Scale, w: Format) -> tuple[int, ...]:
    """The scales to try, in their order: one, or those of `"auto"`. Raises NotDifferentiable for a scale that w has not."""
    return automatic(w) if scale == "auto" else (need_scale(scale, w),)


def at_scale(scales: Sequence[int], attempt: Callable[[int, bool], T]) -> T:
    """attempt(k, k is the last) for the first of the scales at which nothing overflows.

    Raises the error of the last attempt, or the first trap that is no overflow. An attempt that is not the last may raise Unexplained.
    """
    for k in scales:
        last = k == scales[-1]
        try:
            return attempt(k, last)
        except (Unexplained, ProgramTrap, InputError) as error:
            if last or not overflows(error):
                raise
    raise AssertionError("there is no scale to try")


def overflows(error: Exception) -> bool:
    """Whether a smaller scale may be free of the error."""
    return isinstance(error, Unexplained) or (isinstance(error, RetrogradError) and error.code in OVERFLOW)
