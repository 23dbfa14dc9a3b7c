"""The format in which an instruction that overflowed has a result, by the guards of the instruction table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from fractions import Fraction

from retrograd.isa.entries import Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.words import Format


def format_that_holds(opcode: Opcode, words: Mapping[str, int], kinds: Mapping[str, str], w: Format) -> Format | None:
    """The format of the width of w with the finest fraction in which the operands and the result fit, or else one of 64 bits, or none.

    `words`: the operands by place, in w. `kinds`: "fixed" or "lognum" for the places whose words depend on the fraction.
    Trap: the format holds this result; a later one may be greater.
    """
    coarser = [Format(w.width, frac) for frac in range(w.frac - 1, -1, -1)]
    wider = [Format(64, frac) for frac in range(w.frac, -1, -1)] if w.width < 64 else []

    def holds(v: Format) -> bool:
        moved = {}
        for place, word in words.items():
            there = _moved(word, kinds.get(place, ""), w, v)
            if there is None:
                return False
            moved[place] = there
        return all(evaluate(opcode.guard_predicate(guard, v), v, moved) for guard in opcode.guards(v))

    for formats in (coarser, wider):
        # Each format has more bits before the point than the one before it, so the last formats hold the result.
        first = bisect_left(formats, True, key=holds)
        if first < len(formats):
            return formats[first]
    return None


def _moved(word: int, kind: str, w: Format, v: Format) -> int | None:
    """The word in v of the number or integer that a word of w holds; None where it does not fit."""
    sign = word & w.sign if kind == "lognum" else 0
    # A lognum is a sign and a logarithm of one bit less than the word.
    bits = w.width - 1 if kind == "lognum" else w.width
    number = word & ((1 << bits) - 1)
    number -= (number >> (bits - 1)) << bits
    if kind:
        number = round(Fraction(number, 1 << w.frac) * (1 << v.frac))
    room = v.width - 1 if kind == "lognum" else v.width
    if not -(1 << (room - 1)) <= number < 1 << (room - 1):
        return None
    return number & ((1 << room) - 1) | (v.sign if sign else 0)
