"""Operators and functions of lognums: x = ±2^l, kept as a sign and l, both exact in products.

    x · y, x / y, xⁿ (n an integer of the source)   exact        x + y, x − y, √x, x^y   l rounded once
    |x|, −x, x < y, min, max                        exact        ln x   a fixed number, rounded once        e^t   l rounded once

Zero is no lognum: it is less than each positive one and greater than each negative one. Derivatives are by ln|x|: ln x and e^t
have the derivative 1, so they hand on cotangents without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from retrograd.compiler.ir.expressions import E, Role, apply, choose, const, less, negated
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import Constant, Scalar, Value
from retrograd.isa.words import Format

INT, FIXED, LOGNUM, BOOL = Kind.INT, Kind.FIXED, Kind.LOGNUM, Kind.BOOL
#: factors that a power of a lognum is made of
_MOST_FACTORS = 1000
_ONE = const(0, LOGNUM)


class Numbers(Protocol):
    """The words of numbers in one format."""

    w: Format

    def expression(self, value: Value, kind: Kind | None = None, role: Role = Role.VALUE) -> E: ...
    def converted(self, e: E, kind: Kind) -> E: ...


def is_lognum(x: Value) -> bool:
    """Whether a value is a lognum; a constant is none by itself."""
    return isinstance(x, Scalar) and x.kind is LOGNUM


def is_exponential(x: Value) -> bool:
    """Whether a value is e^t for a fixed t, which is a lognum where one is needed: log2 e^t = t · log2 e fits for more t than e^t."""
    return isinstance(x, Scalar) and x.e.op == "apply" and x.e.param == "fexp"


class LognumArithmetic:
    """Operators on values of which one is a lognum. Raises TypeError where an operator has no meaning."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def binary(self, op: str, x: Value, y: Value) -> E:
        """x op y for an operator that is no comparison."""
        if op == "**":
            return self._power(x, y)
        a, b = (self._numbers.expression(v, LOGNUM) for v in (x, y))
        match op:
            case "*":
                return E("product", LOGNUM, (a, b))
            case "/":
                return E("quotient", LOGNUM, (a, b))
            case "+":
                return apply("ladd", LOGNUM, a, b)
            case "-":
                return apply("lsub", LOGNUM, a, b)
        raise TypeError(f"{op} is not defined for lognum")

    def opposite(self, x: E) -> E:
        """−x."""
        return E("product", LOGNUM, (x, const(self._numbers.w.sign, LOGNUM)))

    def size(self, x: E) -> E:
        """|x|."""
        return choose(_is_negative(x), self.opposite(x), x)

    def compared(self, op: str, x: Value, y: Value) -> E | None:
        """x op y for a comparison with the number 0, which no lognum is; None for all others."""
        if not any(isinstance(v, Constant) and v.value == 0 for v in (x, y)):
            return None
        if op in ("==", "!="):
            return const(int(op == "!="), BOOL)
        other, turned = (y, True) if isinstance(x, Constant) else (x, False)
        negative = _is_negative(self._numbers.expression(other, LOGNUM))
        return negative if (op in ("<", "<=")) is not turned else negated(negative)

    def function(self, name: str, x: Value) -> E | None:
        """√x, ln x and |x|; None for a function that has no values for lognums."""
        if name == "sqrt":
            return self._power(x, Constant(0.5))
        e = self._numbers.expression(x, LOGNUM)
        match name:
            case "log":
                return apply("llog", FIXED, e)
            case "abs":
                return self.size(e)
        return None

    def extreme(self, name: str, values: Sequence[E]) -> E:
        """The smallest or the largest; of two equal ones the later, as everywhere."""
        found, *others = values
        for other in others:
            first = (found, other) if name == "min" else (other, found)
            found = choose(less(*first, self._numbers.w), found, other)
        return found

    def _power(self, x: Value, y: Value) -> E:
        """x^y: products where y is an integer of the source, else 2^(y · log2 x) for x > 0, and with the sign of xⁿ for an int n."""
        base = self._numbers.expression(x, LOGNUM)
        exact = isinstance(y, Constant) and float(y.value).is_integer() and abs(y.value) <= _MOST_FACTORS
        if exact and isinstance(y, Constant):
            n = int(y.value)
            e = _ONE
            for _ in range(abs(n)):
                e = base if e is _ONE else E("product", LOGNUM, (e, base))
            return E("quotient", LOGNUM, (_ONE, e)) if n < 0 else e
        if isinstance(y, Constant):
            exponent = self._numbers.expression(y, FIXED)
            if not float(y.value).is_integer():
                return apply("lpow", LOGNUM, base, exponent)
            odd = const(int(y.value) & 1, INT)
        else:
            given = self._numbers.expression(y)
            exponent = self._numbers.converted(given, FIXED)
            if given.kind is FIXED:
                return apply("lpow", LOGNUM, base, exponent)
            odd = apply("and", INT, self._numbers.converted(given, INT), const(1, INT))
        e = apply("lpow", LOGNUM, self.size(base), exponent)
        if odd == const(0, INT):
            return e
        return choose(apply("and", BOOL, _is_negative(base), odd), self.opposite(e), e)


def _is_negative(x: E) -> E:
    """x < 0: the sign of a lognum is the sign of its word."""
    return apply("slt", BOOL, x, const(0, INT))
