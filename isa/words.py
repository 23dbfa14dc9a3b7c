"""Words and number formats: W-bit words, and fixed-point values inside them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import SupportsFloat, SupportsIndex

from retrograd.isa.diagnostics import Diagnostic, InputError

#: Widths the definition is parameterised over. 4 and 8 are for exhaustive laws, 16 for SMT,
#: 32 for small hardware, 64 for real programs. Powers of two, so that a shift amount is a bit field.
WIDTHS = (4, 8, 16, 32, 64)


class FormatError(InputError, ValueError):
    """RG0604: a format that does not exist. It is also a ValueError."""

    @property
    def reason(self) -> str:
        """The message alone."""
        return self.diagnostics[0].message


@dataclass(frozen=True)
class Format:
    """value = word / 2^frac, word in two's complement with `width` bits.

    >>> q = Format(width=64, frac=32)
    >>> hex(q.from_real(1.5)), q.to_real(q.from_real(-0.25))
    ('0x180000000', Fraction(-1, 4))

    Raises FormatError for a width not in `WIDTHS`, or a `frac` outside 0 <= frac < width.
    """

    width: int = 64
    frac: int = 32
    #: 2^W - 1
    mask: int = field(init=False, repr=False, compare=False)
    #: 2^(W-1), the sign bit
    sign: int = field(init=False, repr=False, compare=False)
    #: 2^(W/4): a number whose word has a magnitude of this or more keeps half of its bits, see `keeps`
    few: int = field(init=False, repr=False, compare=False)

    @property
    def share(self) -> int:
        """The most words of a heap, stack or the like whose size is a limit: a sixteenth of all addresses."""
        return (self.mask + 1) // 16

    def __post_init__(self) -> None:
        if not isinstance(self.width, int) or self.width not in WIDTHS:
            raise _no_format(f"width must be one of {WIDTHS}, not {self.width!r:.40}")
        least, most = self._fractions()
        if not isinstance(self.frac, int) or not least <= self.frac <= most:
            raise _no_format(f"frac must be in {least}..{most}, not {self.frac!r:.40}")
        object.__setattr__(self, "mask", (1 << self.width) - 1)
        object.__setattr__(self, "sign", 1 << (self.width - 1))
        object.__setattr__(self, "few", 1 << self.width // 4)

    def _fractions(self) -> tuple[int, int]:
        """The least and the greatest `frac`."""
        return 0, self.width - 1

    def __str__(self) -> str:
        return f"Q{self.width - self.frac}.{self.frac}"

    def at(self, point: int) -> Format:
        """The format of numbers `fixed[point]` in words of this width: value = word / 2^point. Raises FormatError.

        >>> Format(64, 32).at(40) == Format(64, 40)
        True
        >>> str(Format(64, 32).at(-20)), float(Format(64, 32).at(-20).to_real(3))
        ('Q84.-20', 3145728.0)
        """
        return _at(self.width, point)

    @staticmethod
    def named(text: str) -> Format:
        """The format as written: Q16.16 (bits before and after the point), or 32,16 (width, fraction). Raises FormatError.

        >>> Format.named("Q16.16") == Format.named("32,16") == Format(32, 16)
        True
        """
        found = re.fullmatch(r"(Q?)([0-9]{1,4})[,.]([0-9]{1,4})", text)
        if found is None:
            raise _no_format("a format is written as in Q16.48, or WIDTH,FRACTION")
        first, fraction = int(found[2]), int(found[3])
        return Format(first + fraction if found[1] else first, fraction)

    @staticmethod
    def of_numbers(text: str) -> Format:
        """The format of numbers as `str` writes it, one with a binary point beside the word among them: Q84.-20.

        Raises FormatError.
        """
        found = re.fullmatch(r"Q(-?[0-9]{1,4})\.(-?[0-9]{1,4})", text)
        return Format.named(text) if found is None else _at(int(found[1]) + int(found[2]), int(found[2]))

    def wrap(self, value: int) -> int:
        """value mod 2^W, the word that holds it."""
        return value & self.mask

    def signed(self, word: int) -> int:
        """The integer in [-2^(W-1), 2^(W-1)) that `word` holds in two's complement."""
        return ((word & self.mask) ^ self.sign) - self.sign

    def to_real(self, word: int) -> Fraction:
        """word / 2^F, exactly."""
        return self.times(self.signed(word), -self.frac)

    @staticmethod
    def times(value: int | Fraction, exponent: int) -> Fraction:
        """value · 2^exponent, exactly."""
        numerator, denominator = value.numerator, value.denominator
        return Fraction(numerator << max(exponent, 0), denominator << max(-exponent, 0))

    def from_real(self, value: float | int | Fraction) -> int:
        """The word nearest to value * 2^F, ties to even.

        Raises OverflowError when the value does not fit, ValueError for a NaN.
        """
        scaled = round(self.times(Fraction(value), self.frac))
        if not -self.sign <= scaled < self.sign:
            raise OverflowError(f"{brief(value)} is outside the range of {self}")
        return scaled & self.mask

    def keeps(self, value: float | int | Fraction) -> bool:
        """|word/2^F − value| ≤ |value|·2^(−W/4): whether the word of a number keeps at least half of its significant bits.

        In a format with as many bits before the point as after it, such as Q32.32, a number near 1 has W/2 significant bits, and W/4 are
        half of them. Exact numbers, such as 0.5 or 2^-F, lose nothing. Trap: the range is not tested, see `from_real`.
        """
        number = Fraction(value)
        scaled = self.times(number, self.frac)
        return abs(round(scaled) - scaled) * (1 << self.width // 4) <= abs(scaled)

    def vanishes(self, value: float | int | Fraction) -> bool:
        """Whether a number other than 0 has the word 0: |value| ≤ 2^(−F−1)."""
        return value != 0 and self.times(abs(Fraction(value)), self.frac + 1) <= 1

    def keeping(self, value: float | int | Fraction, bits: bool = True) -> list[Format]:
        """The formats of the same width that hold a number and keep half of its bits, from some fraction on; the coarsest first.

        `bits`: whether half of the bits must be kept; else it must only not become 0.
        """
        found: list[Format] = []
        for frac in range(self.width - 1, -1, -1):
            w = Format(self.width, frac)
            try:
                w.from_real(value)
            except OverflowError:
                continue
            if w.vanishes(value) or (bits and not w.keeps(value)):
                break
            found.insert(0, w)
        return found

    def remedy(self, value: float | int | Fraction, bits: bool = True) -> str:
        """A sentence for messages: the formats that keep half of the bits of a number, of this width or else of a wider one. `bits`: as above."""
        for width in (self.width, *(n for n in WIDTHS if n > self.width)):
            found = Format(width, 0).keeping(value, bits)
            if found:
                which = " to ".join(dict.fromkeys((str(found[0]), str(found[-1]))))
                if width == self.width:
                    return f"{which} {'holds' if len(found) == 1 else 'hold'} it."
                return f"No format of {self.width} bits holds it, but {which} {'does' if len(found) == 1 else 'do'}."
        return "No format holds it, but a lognum does."


class _Pointed(Format):
    """A format of numbers whose binary point lies beside the word; no program is computed in it.

    `Format.at` makes it.
    """

    def _fractions(self) -> tuple[int, int]:
        return -_FARTHEST * self.width, _FARTHEST * self.width


#: binary points lie up to this many words before or behind the word: 2^±256 for words of 64 bits, SI units and their products among them
_FARTHEST = 4


def nearest_point(point: int, width: int) -> int:
    """The nearest binary point that a type of words of this width can have: −4W ≤ p ≤ 4W."""
    return min(max(point, -_FARTHEST * width), _FARTHEST * width)


def holding(value: SupportsFloat, w: Format) -> str | None:
    """A hint at the places p after the point with which a word holds the number: |value| < 2^(W − 1 − p)."""
    real = int(value) if isinstance(value, SupportsIndex) else float(value)
    if isinstance(real, float) and not math.isfinite(real):
        return None
    exact = Fraction(real)
    places = w.width - 1 - abs(int(exact)).bit_length()
    if not -w.sign <= round(exact * Fraction(2) ** places) < w.sign:
        places -= 1  # it is rounded to the next power of two
    if places != nearest_point(places, w.width):
        return None
    whole = f"{Format(w.width, places)} holds it" if 0 <= places < w.width else f"no format of {w.width} bits holds it"
    one = f"`fixed[{places}]` does for one variable"
    return f"{whole}; {one}; `rg.autoscale` chooses the points of all by an example of the arguments"


@lru_cache(maxsize=1024)
def _at(width: int, point: int) -> Format:
    if point != nearest_point(point, width):
        most = _FARTHEST * width
        message = f"`fixed[{point}]`: in words of {width} bits a binary point lies in {-most} … {most}"
        raise FormatError(
            Diagnostic("RG0604", message, hint="Scale the number by a power of two, or choose wider words.")
        )
    return Format(width, point) if 0 <= point < width else _Pointed(width, point)


def numbers_of(kind: str, w: Format) -> Format | None:
    """The format of the numbers of a kind of words: w for "fixed", that of its own point for "fixed[40]"; None for words that are no fixed numbers."""
    if kind == "fixed":
        return w
    return w.at(int(kind[6:-1])) if kind.startswith("fixed[") else None


def format_of(format: Format | str) -> Format:
    """The format of that name, see `Format.named`; a format stands for itself. Raises FormatError RG0604.

    >>> format_of("Q16.48") == format_of(Format(64, 48))
    True
    """
    if isinstance(format, Format):
        return format
    try:
        if not isinstance(format, str):
            raise _no_format("a format is a rg.Format, or its name")
        return Format.named(format)
    except FormatError as error:
        raise _no_format(f"{format!r:.40} is no format: {error.reason}") from None


def _no_format(message: str) -> FormatError:
    return FormatError(Diagnostic("RG0604", message))


def brief(value: object) -> str:
    """A number for a message: a long integer by its length, since its digits may be millions."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


#: Q32.32, the format of programs that name no other
Q32_32 = Format()
