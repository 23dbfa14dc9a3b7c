"""Words of a program that is lowered to gates: lines and constants, and the conditions under which the constants hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from retrograd.hdl.reversible.builder import FALSE, TRUE, Bit, Bits, Builder, constant_bits


class Word(NamedTuple):
    """The bits of a variable or of a word in memory, lowest first.

    `owned`: its lines are its own, and may be changed; else they belong to other words, or to the computation that made them.
    `control`: a constant bit b stands for `b and control`, since the variable lives in a branch that is taken where `control` is 1.
    """

    bits: tuple[Bit, ...]
    owned: bool = True
    control: Bit = TRUE

    @property
    def constant(self) -> int | None:
        """The number, where no bit is a line."""
        if any(bit >= 0 for bit in self.bits):
            return None
        return sum(1 << i for i, bit in enumerate(self.bits) if bit == TRUE)

    @property
    def is_zero(self) -> bool:
        return all(bit == FALSE for bit in self.bits)

    def bounds(self, signed: bool) -> tuple[int, int]:
        """The least and the greatest number that the constant bits allow."""
        low = high = 0
        for place, bit in enumerate(self.bits):
            weight = -(1 << place) if signed and place == len(self.bits) - 1 else 1 << place
            low += weight if bit == TRUE or (bit >= 0 and weight < 0) else 0
            high += weight if bit == TRUE or (bit >= 0 and weight > 0) else 0
        return low, high

    def lowest(self, count: int) -> Word:
        """The lowest bits of the word."""
        return self._replace(bits=self.bits[:count])

    def on_lines(self, b: Builder, left: Collection[int] = ()) -> Word:
        """The same word with a line of its own for each bit; bits that are 0 may be `left`, by their places."""
        if self.owned and all(bit >= 0 for bit in self.bits):
            return self
        out = []
        for k, bit in enumerate(self.bits):
            if (bit >= 0 and self.owned) or k in left:
                out.append(bit)
            else:
                (line,) = b.keep()
                b.flip(line, bit, self.control)
                out.append(line)
        return Word(tuple(out), True, self.control)


def constant(number: int, width: int, control: Bit = TRUE) -> Word:
    """A word without lines."""
    return Word(tuple(constant_bits(number, width)), True, control)


class Cell:
    """A place that holds a word: a variable, or a word in memory."""

    __slots__ = ("word",)

    def __init__(self, word: Word) -> None:
        self.word = word


def one_hot(b: Builder, index: Bits, count: int) -> list[Bit]:
    """Bits of which number `index` is 1, if that is below `count`: AND gates in a tree. Index bits are lowest first."""
    chosen: list[tuple[Bit, int]] = [(TRUE, 0)]
    for place in reversed(range(len(index))):
        split: list[tuple[Bit, int]] = []
        for line, first in chosen:
            upper_first = first + (1 << place)
            bit = index[place]
            if bit == FALSE or upper_first >= count:
                split.append((line, first))
            elif bit == TRUE:
                split.append((line, upper_first))
            else:
                (upper,) = b.masked([bit], line) if line >= 0 else b.copy([bit])
                (lower,) = b.copy([line])
                b.flip(lower, upper)
                split += [(lower, first), (upper, upper_first)]
        chosen = split
    out: list[Bit] = [FALSE] * count
    for line, number in chosen:
        if number < count:
            out[number] = line
    return out
