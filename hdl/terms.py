"""Words that are known, or terms of the solver: the operators of netlists on both.

What is known stays an int, and what an int decides is decided: a choice by a known bit is one of its branches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import z3

#: a word: known, or a term of bits
Word = Any


def term(word: Word, width: int) -> Any:
    """The word as a term."""
    return z3.BitVecVal(word, width) if isinstance(word, int) else word


def bit(truth: Any) -> Any:
    """A truth as a bit."""
    return z3.If(truth, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


def part(word: Any, low: int, width: int) -> Word:
    """Bits of a term; known, where they are."""
    if low == 0 and width == word.size():
        return word
    bits = z3.Extract(low + width - 1, low, word)
    if z3.is_app_of(word, z3.Z3_OP_CONCAT):
        bits = z3.simplify(bits)
        return bits.as_long() if z3.is_bv_value(bits) else bits
    return bits


def concatenated(pieces: Sequence[tuple[Word, int]]) -> Any:
    """Pieces, the lowest first, as one term."""
    terms = [term(word, width) for word, width in reversed(pieces)]
    return terms[0] if len(terms) == 1 else z3.Concat(*terms)


def joined(pieces: Sequence[tuple[Word, int]]) -> Word:
    """Pieces, the lowest first, as one word."""
    if all(isinstance(word, int) for word, _ in pieces):
        out, at = 0, 0
        for word, width in pieces:
            out |= word << at
            at += width
        return out
    return concatenated(pieces)


def piece_of(word: Word, low: int, width: int) -> Word:
    """Bits of a word."""
    if width == 0:
        return 0
    return word >> low & ((1 << width) - 1) if isinstance(word, int) else part(word, low, width)


def negation(bit: Word) -> Word:
    """¬x, of bits."""
    return 1 - bit if isinstance(bit, int) else ~bit


def conjunction(x: Word, y: Word) -> Word:
    """x ∧ y, of bits."""
    if isinstance(x, int):
        return y if x else 0
    if isinstance(y, int):
        return x if y else 0
    return x & y


def disjunction(x: Word, y: Word) -> Word:
    """x ∨ y, of bits."""
    if isinstance(x, int):
        return 1 if x else y
    if isinstance(y, int):
        return 1 if y else x
    return x | y


def choice(condition: Word, x: Word, y: Word, width: int) -> Word:
    """x if the condition holds, else y."""
    if isinstance(condition, int):
        return x if condition else y
    if (isinstance(x, int) and isinstance(y, int) and x == y) or x is y:
        return x
    return z3.If(condition == 1, term(x, width), term(y, width))


def _signed(word: int, width: int) -> int:
    return word - (word >> (width - 1) << width)


#: operator -> its meaning on terms of one width
_TERMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "==": lambda x, y: bit(x == y), "!=": lambda x, y: bit(x != y),
    "u<": lambda x, y: bit(z3.ULT(x, y)), "u<=": lambda x, y: bit(z3.ULE(x, y)),
    "u>": lambda x, y: bit(z3.UGT(x, y)), "u>=": lambda x, y: bit(z3.UGE(x, y)),
    "s<": lambda x, y: bit(x < y), "s<=": lambda x, y: bit(x <= y),
    "s>": lambda x, y: bit(x > y), "s>=": lambda x, y: bit(x >= y),
}  # fmt: skip
_INTS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "==": lambda x, y: int(x == y), "!=": lambda x, y: int(x != y),
    "<": lambda x, y: int(x < y), "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y), ">=": lambda x, y: int(x >= y),
    "<<": lambda x, y: x << y, ">>": lambda x, y: x >> y,
}  # fmt: skip


def apply(operator: str, width: int, widths: Sequence[int], words: Sequence[Word]) -> Word:
    """An operator of a netlist on words of these widths."""
    if operator == "m":
        return choice(words[0], words[1], words[2], width)
    mask = (1 << width) - 1
    if len(words) == 1:
        return _unary(operator, mask, widths[0], words[0])
    x, y = words
    if isinstance(x, int) and isinstance(y, int):
        if operator[0] == "s":
            x, y = _signed(x, widths[0]), y if operator == "s>>" else _signed(y, widths[1])
        return _INTS[operator.lstrip("su")](x, y) & mask
    for known, other in ((x, y), (y, x)):
        if operator == "&" and isinstance(known, int) and known in (0, mask):
            return other if known else 0
        if operator in "|^" and isinstance(known, int) and known == 0:
            return other
    if operator in ("<<", "u>>", "s>>"):
        size = max(widths)
        wide = (z3.SignExt if operator[0] == "s" else z3.ZeroExt)(size - widths[0], term(x, widths[0]))
        by = z3.ZeroExt(size - widths[1], term(y, widths[1]))
        moved = wide << by if operator == "<<" else z3.LShR(wide, by) if operator == "u>>" else wide >> by
        return z3.Extract(width - 1, 0, moved)
    return _TERMS[operator](term(x, widths[0]), term(y, widths[1]))


def _unary(operator: str, mask: int, width: int, x: Word) -> Word:
    known = isinstance(x, int)
    match operator:
        case "~":
            return ~x & mask if known else ~x
        case "-":
            return -x & mask if known else -x
        case "b" | "r|":
            return int(x != 0) if known else bit(x != 0)
        case "r&":
            return int(x == (1 << width) - 1) if known else bit(x == (1 << width) - 1)
        case "r^":
            if known:
                return x.bit_count() & 1
            out: Word = 0
            for i in range(width):
                out = z3.Extract(i, i, x) ^ out
            return out
    raise ValueError(operator)
