"""Binary points: operators of fixed numbers of which one has a point of its own, `fixed[p]`.

    a · 2^−p + b · 2^−q        at the coarser point, min(p, q)
    a · 2^−p × b · 2^−q        at p + q − F;   by a constant c of the source, at p − ⌈log2 |c|⌉: the product cannot overflow
    a · 2^−p ÷ b · 2^−q        at p − q + F
    √(a · 2^−p)                at ⌊(p + F)/2⌋

These are the points for which no shift is needed: those of the program in one format in which each variable is scaled
by 2^(F − p). What is assigned or added to a variable is computed at its point and rounded once: see `ir.flatten`.
Trap: a product of two numbers that fill their words does not fit there, and traps; `fixed[r](x * y)` states another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Protocol

from retrograd.compiler.ir.expressions import E, Role, add, apply, const, constant, less, neg, negated, number_of
from retrograd.compiler.ir.statements import Kind, fixed_at
from retrograd.isa.words import Format, brief, nearest_point

INT, FIXED, BOOL = Kind.INT, Kind.FIXED, Kind.BOOL


class Numbers(Protocol):
    """The expressions of numbers in one format."""

    w: Format

    def number(self, value: Fraction, kind: Kind, role: Role, /) -> E: ...
    def converted(self, e: E, kind: Kind) -> E: ...
    def remainder(self, a: E, b: E) -> E: ...


def pointed(kinds: Iterable[Kind]) -> bool:
    """Whether a kind is of fixed numbers with a point of their own."""
    return any(k.is_fixed and k is not FIXED for k in kinds)


def _size(number: Fraction) -> int:
    """The least n with |c| < 2^n for a number c other than 0."""
    number = abs(number)
    n = number.numerator.bit_length() - number.denominator.bit_length()
    return n + 1 if number >= Fraction(2) ** n else n


def _is_element(e: E) -> bool:
    """Whether e is an element of a constant array at a point of its own, or its negative."""
    while e.op == "neg":
        e = e.args[0]
    return e.op == "load" and e.kind is not FIXED and e.param.region.data is not None


class PointArithmetic:
    """Operators on the expressions of fixed numbers, each at the point of its kind."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.w = numbers.w

    def _kind_at(self, point: int) -> Kind:
        """`fixed[point]`, or that of the nearest point that a type can have."""
        return fixed_at(nearest_point(point, self.w.width))

    def aligned(self, e: E, kind: Kind) -> E:
        """A fixed number at the point of another kind, rounded once where that is coarser."""
        if e.kind.point(self.w) == kind.point(self.w):
            return e
        if e.op == "const":
            return constant(number_of(e, self.w), kind, self.w)
        if (number := self._known(e)) is not None:
            return self._numbers.number(number, kind, Role.VALUE)
        if e.op in ("add", "sub", "neg", "choose", "total") or (
            e.op == "apply" and e.param in ("fmul", "fdiv", "fsqrt")
        ):
            return E(e.op, kind, e.args, e.param)
        return apply("fmov", kind, e)

    def coarser(self, *operands: E) -> Kind:
        """The kind of the coarsest of numbers, at which constants among them fit, too."""
        w = self.w
        known = [abs(c) for e in operands if (c := self._known(e)) is not None]
        among = [e.kind for e in operands if self._known(e) is None] or [e.kind for e in operands]
        coarsest = min(among, key=lambda k: k.point(w))
        most = min((w.width - 2 - _size(c) for c in known if c), default=coarsest.point(w))
        return coarsest if coarsest.point(w) <= most else self._kind_at(most)

    def _known(self, e: E) -> Fraction | None:
        """The number of the source that an operand is, if it is one."""
        if e.op == "const":
            return number_of(e, self.w)
        if e.op == "load" and (exact := e.param.region.exact) is not None and len(exact.numbers) == 1:
            number: Fraction = exact.numbers[0]
            return number
        return None

    def aimed(self, e: E, kind: Kind) -> E:
        """The fixed number e with the constants among its terms at the point of the kind, at which it is used."""
        if e.kind is not kind and (number := self._known(e)) is not None:
            return self._numbers.number(number, kind, Role.VALUE)
        if e.op in ("add", "sub", "neg") or (e.op == "choose" and e.kind.is_fixed):
            first = 1 if e.op == "choose" else 0
            args = (*e.args[:first], *(self.aimed(x, kind) for x in e.args[first:]))
            return e if all(x is y for x, y in zip(args, e.args, strict=True)) else E(e.op, e.kind, args, e.param)
        return e

    def binary(self, op: str, a: E, b: E) -> E:
        """`a op b` of fixed numbers, one of which has a point of its own."""
        match op:
            case "+" | "-":
                if b.op == "const" and b.param == 0:
                    return a
                if a.op == "const" and a.param == 0:
                    return b if op == "+" else neg(b)
                return E("add" if op == "+" else "sub", self.coarser(a, b), (a, b))
            case "*":
                return self.product(a, b)
            case "/":
                return self.quotient(a, b)
            case "//" | "%":
                if b.op == "const" and b.param == 0:
                    raise ZeroDivisionError
                finer = max((e.kind for e in (a, b) if e.op != "const"), key=lambda k: k.point(self.w))
                a, b = self._numbers.converted(a, finer), self._numbers.converted(b, finer)
                return apply("div", INT, a, b) if op == "//" else self._numbers.remainder(a, b)
        raise TypeError(f"{op} is not defined for fixed")

    def quotient(self, a: E, b: E) -> E:
        w = self.w
        if a.kind is b.kind is FIXED:
            return apply("fdiv", FIXED, a, b)
        above, below = self._known(a), self._known(b)
        if below is not None:
            if below == 0:
                raise ZeroDivisionError
            point = a.kind.point(w) + _size(below) - 1
        elif above is not None:
            point = 2 * w.frac - b.kind.point(w) - (_size(above) - 1 if above else 0)
        else:
            point = a.kind.point(w) - b.kind.point(w) + w.frac
        return apply("fdiv", self._kind_at(point), a, b)

    def scaled(self, function: str, a: E, b: E) -> E:
        """`fmul` or `fdiv` at the point F, of operands at it or numbers of the source at points of their own.

        A product x·c with such a number keeps its bits as a factor: at the point of `product` it cannot overflow.
        """
        # A numerator is moved to the left by at most W − 2 places, where it may not fit.
        most = self.w.width - 2 if function == "fdiv" else None
        return apply(function, FIXED, self._factor(a), self._factor(b, most))

    def _factor(self, e: E, most: int | None = None) -> E:
        """A product at F with a number at a point of its own, at the point at which it cannot overflow, but `most`."""
        if e.op == "neg":
            inner = self._factor(e.args[0], most)
            return e if inner is e.args[0] else E("neg", inner.kind, (inner,))
        if e.kind is not FIXED or e.op != "apply" or e.param != "fmul":
            return e
        own = {x.kind for x in e.args if self._known(x) is not None}
        if FIXED in own or not (own or any(map(_is_element, e.args))):
            return e
        finest = self.product(*e.args).kind
        for x, c in (e.args, e.args[::-1]):
            if _is_element(c):  # |c| < 2^(W − 1 − p)
                size = self.w.width - 1 - c.kind.point(self.w)
                finest = self._kind_at(x.kind.point(self.w) - (min(size, 0) if x.kind is FIXED else size))
        return E(e.op, finest if most is None or finest.point(self.w) <= most else self._kind_at(most), e.args, e.param)

    def root(self, x: E) -> E:
        point = x.kind.point(self.w) + self.w.frac >> 1
        return apply("fsqrt", FIXED if x.kind is FIXED else self._kind_at(point), x)

    def product(self, a: E, b: E) -> E:
        w = self.w
        for x, c in ((a, b), (b, a)):
            number = self._known(c)
            if number is None:
                continue
            if number in (0, 1):
                return x if number else const(0, x.kind)
            # Of the kind FIXED, whose numbers are rarely near the ends of the range, a small factor alone moves it.
            size = _size(number)
            return apply("fmul", self._kind_at(x.kind.point(w) - (min(size, 0) if x.kind is FIXED else size)), a, b)
        return apply("fmul", self._kind_at(a.kind.point(w) + b.kind.point(w) - w.frac), a, b)

    def compared(self, op: str, a: E, b: E, left: Fraction | None, right: Fraction | None) -> E:
        """A comparison of the values, exactly. `left`, `right`: the numbers of the source that the operands are.

        The finer word is shifted to the right, n = ⌊a/2^k⌋, and leaves rest = [a mod 2^k ≠ 0]:

        a < b·2^k  ⇔  n < b        b·2^k < a  ⇔  b < n + rest        a = b·2^k  ⇔  n = b and not rest
        """
        w = self.w
        if op in (">", "<="):
            a, b, left, right, op = b, a, right, left, "<" if op == ">" else ">="
        opposite = op in (">=", "!=")
        equal = op in ("==", "!=")
        if left is not None or right is not None:
            # Of a constant the integer beside it on the grid of the other is enough.
            x, c = (a, right) if right is not None else (b, left)
            assert c is not None
            grid = w.times(c, x.kind.point(w))
            below, above = math.floor(grid), math.ceil(grid)
            for n in (below, above):
                if not -w.sign <= n < w.sign:
                    raise OverflowError(f"{brief(float(c))} is outside the range of {x.kind.value}")
            if equal:
                e = apply("seq", BOOL, x, const(w.wrap(below), x.kind)) if below == above else const(0, BOOL)
            elif x is a:
                e = apply("slt", BOOL, x, const(w.wrap(above), x.kind))
            else:
                e = apply("slt", BOOL, const(w.wrap(below), x.kind), x)
            return negated(e) if opposite else e
        k = a.kind.point(w) - b.kind.point(w)
        fine, coarse = (a, b) if k >= 0 else (b, a)
        if not k:
            e = apply("seq", BOOL, a, b) if equal else less(a, b, w)
            return negated(e) if opposite else e
        k = abs(k)
        floor = apply("sar", INT, fine, const(min(k, w.width - 1), INT))
        rest = apply("and", INT, fine, const(w.signed((1 << k) - 1), INT))
        whole = apply("seq", BOOL, rest, const(0, INT))
        if equal:
            e = apply("and", BOOL, apply("seq", BOOL, floor, coarse), whole)
        elif fine is a:
            e = apply("slt", BOOL, floor, coarse)
        else:
            e = apply("slt", BOOL, coarse, add(floor, apply("mov", INT, negated(whole)), w))
        return negated(e) if opposite else e
