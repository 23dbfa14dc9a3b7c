"""A symbolic format: W and F as unknowns, so that a tree is built once for all formats.

    s = SYMBOLIC.frac + SYMBOLIC.width        str(s) == "(F + W)",  s.at(Format(32, 16)) == 48

A number is a linear combination of 1, W, F and powers 2^(pW + qF) with rational coefficients. A comparison is evaluated at every
format with 8 ≤ F ≤ W − 2, in which transcendental functions use the whole of their tables. Where the answer differs, `FormatDependent` is
raised: the shape of the tree then depends on the format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from retrograd.isa.words import WIDTHS, Format

FORMATS = tuple(Format(width, frac) for width in WIDTHS for frac in range(8, width - 1))

#: (p, q): 2^(pW + qF), so that (0, 0) is 1; or the symbol F or W
Basis = tuple[Fraction, Fraction] | str
_ONE = Fraction(0), Fraction(0)


class FormatDependent(Exception):
    """The answer differs from format to format, or has no symbolic form."""


@dataclass(frozen=True, eq=False)
class SymbolicNumber:
    """A number that depends on W and F: the sum of coefficient · basis over `terms`."""

    terms: frozenset[tuple[Basis, Fraction]]

    def at(self, w: Format) -> int:
        """The number of a format."""
        known: dict[object, int] = {"W": w.width, "F": w.frac}
        value = Fraction(0)
        for basis, k in self.terms:
            value += k * (known[basis] if isinstance(basis, str) else _power(basis, w))
        return int(value)

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: SymbolicNumber | int) -> SymbolicNumber | int:
        out = dict(self.terms)
        for basis, k in (
            dict(other.terms).items() if isinstance(other, SymbolicNumber) else {_ONE: Fraction(other)}.items()
        ):
            out[basis] = out.get(basis, Fraction(0)) + k
        out = {basis: k for basis, k in out.items() if k}
        return int(out.get(_ONE, 0)) if out.keys() <= {_ONE} else SymbolicNumber(frozenset(out.items()))

    def __mul__(self, k: int | Fraction) -> SymbolicNumber:
        return SymbolicNumber(frozenset((basis, k * c) for basis, c in self.terms))

    def __neg__(self) -> SymbolicNumber:
        return self * -1

    def __sub__(self, other: SymbolicNumber | int) -> SymbolicNumber | int:
        return self + -other

    def __rsub__(self, other: int) -> SymbolicNumber | int:
        return -self + other

    def __floordiv__(self, k: int) -> SymbolicNumber:
        if self._everywhere(lambda n: n % k != 0):
            raise FormatDependent
        return self * Fraction(1, k)

    def __rshift__(self, by: int) -> SymbolicNumber:
        return self // (1 << by)

    def __lshift__(self, by: int) -> SymbolicNumber:
        return self * (1 << by)

    def __rlshift__(self, k: int) -> SymbolicNumber:
        """k · 2^self, for a self that is linear."""
        terms = dict(self.terms)
        p, q, c = terms.pop("W", Fraction(0)), terms.pop("F", Fraction(0)), terms.pop(_ONE, Fraction(0))
        if terms:
            raise FormatDependent
        return SymbolicNumber(frozenset({((p, q), k * Fraction(2) ** int(c))}))

    def __xor__(self, other: SymbolicNumber) -> SymbolicNumber | int:
        """2^m − 1 with the bit 2^n taken away, n < m."""
        ones = self + 1
        if not isinstance(ones, SymbolicNumber) or None in (ones._power(), other._power()) or not other < self:
            raise FormatDependent
        return self - other

    __radd__, __rmul__ = __add__, __mul__

    # ------------------------------------------------------------ comparison

    def _everywhere(self, holds: Callable[[int], bool]) -> bool:
        """Whether the predicate holds in every format, or in none. Raises FormatDependent."""
        answers = {holds(self.at(w)) for w in FORMATS}
        if len(answers) > 1:
            raise FormatDependent
        return answers.pop()

    def _compare(self, other: SymbolicNumber | int, holds: Callable[[int], bool]) -> bool:
        difference = self - other
        return difference._everywhere(holds) if isinstance(difference, SymbolicNumber) else holds(difference)

    def __bool__(self) -> bool:
        return self._everywhere(bool)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self._compare(other, lambda n: n == 0)
        return isinstance(other, SymbolicNumber) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n < 0)

    def __le__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n <= 0)

    def __gt__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n > 0)

    def __ge__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n >= 0)

    # ------------------------------------------------------------ text

    def _power(self) -> SymbolicNumber | int | None:
        """e where the number is 2^e."""
        if len(self.terms) == 1:
            ((basis, k),) = self.terms
            e = k.numerator.bit_length() - k.denominator.bit_length()
            if not isinstance(basis, str) and k == Fraction(2) ** e:
                return _W * basis[0] + _F * basis[1] + e
        return None

    def __str__(self) -> str:
        if self < 0:
            return f"−{-self}"
        power = self._power()
        if power is not None:
            return f"2^{power}"
        terms = sorted(self.terms, key=lambda term: (term[1] < 0, term[0] == _ONE, str(term[0])))
        parts = [f"{'−' if k < 0 else '+'} {_times(abs(k), basis)}" for basis, k in terms]
        text = " ".join(parts).removeprefix("+ ")
        return f"({text})" if " " in text or "/" in text else text


def _power(basis: tuple[Fraction, Fraction], w: Format) -> Fraction:
    return Fraction(2) ** int(basis[0] * w.width + basis[1] * w.frac)


def _times(k: Fraction, basis: Basis) -> str:
    if basis == _ONE:
        return str(k)
    if not isinstance(basis, str):
        twos = Fraction(k.numerator & -k.numerator, k.denominator & -k.denominator)
        odd, power = k / twos, SymbolicNumber(frozenset({(basis, twos)}))
        return str(power) if odd == 1 else f"{odd}·{power}"
    return basis if k == 1 else f"{basis}/{1 / k}" if k.numerator == 1 else f"{k}{basis}"


_W, _F = (SymbolicNumber(frozenset({(symbol, Fraction(1))})) for symbol in "WF")


class _SymbolicFormat(Format):
    """A format whose numbers are symbolic. It quacks as a Format: an entry of the table builds its trees from either."""

    def __init__(self) -> None:
        numbers = {"width": _W, "frac": _F, "mask": (1 << _W) - 1, "sign": 1 << _W - 1}
        for name, number in numbers.items():
            object.__setattr__(self, name, number)


SYMBOLIC: Format = _SymbolicFormat()
