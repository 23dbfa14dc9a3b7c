"""Numbers of the language as Python integers: what its operators mean, said a second time.

    int    mod 2^W                      fixed  a·b / 2^F, a·2^F / b to nearest, ties up; sums exact
    bool   0, 1                         lognum by the instruction table, as are exp, log, sin, …

A number is a `Word` with a kind, or a Python number, whose kind is chosen where it meets a word. Nothing of the
compiler is used. Fixed numbers that grow beyond 1/64 of the range raise `Wild`: whether a partial sum overflows is the
compiler's affair.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from retrograd.isa.entries import Function
from retrograd.isa.expr import evaluate
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

INT, FIXED, BOOL, LOGNUM = "int", "fixed", "bool", "lognum"


def nearest(x: Fraction) -> int:
    """The integer at most ½ away; of two, the upper."""
    return math.floor(x + Fraction(1, 2))


class Trapped(Exception):
    """The program must not go on from here."""


class Wild(Exception):
    """Numbers too large, or a run too long, to say what a machine does."""


class Word(NamedTuple):
    """A word and its kind."""

    word: int
    kind: str


class Pair(NamedTuple):
    """A complex number: its real and its imaginary part. A number of the source stays one until it is used."""

    re: Any
    im: Any


Number = Word | Pair | int | float | bool | complex
COMPLEX = "complex"

_HOST: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_HOST_UNARY: dict[str, Callable[..., Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
_RELATIONS = ("<", "<=", ">", ">=", "==", "!=")
_TABLE = {"exp": "fexp", "log": "flog", "sin": "fsin", "cos": "fcos", "atan2": "fatan2", "sqrt": "fsqrt"}


def kind_of(x: Number) -> str:
    if isinstance(x, Word):
        return x.kind
    if isinstance(x, Pair | complex):
        return COMPLEX
    return BOOL if isinstance(x, bool) else INT if isinstance(x, int) else FIXED


@cache
def table_function(name: str, w: Format, a: int, b: int) -> int:
    """The word that a function of the instruction table gives; Trapped where a guard refuses its operands."""
    entry = next(e for e in TABLE.entries if e.name == name)
    assert isinstance(entry, Function)
    env = {"a": a, "b": b}
    for guard in entry.guards(w):
        if guard.mode == "always" and not evaluate(guard.predicate, w, env):
            raise Trapped(guard.code)
    return evaluate(entry.value(w), w, env)


@cache
def table_bijection(name: str, w: Format, d: int, a: int, b: int) -> dict[str, int]:
    """The words after an instruction of the table, by place; Trapped where a guard refuses."""
    opcode = TABLE[name]
    env = {"d": d, "a": a, "b": b, "br": 0, "imm": 0}
    for guard in opcode.guards(w):
        if guard.mode != "strict" and not evaluate(opcode.guard_predicate(guard, w), w, env):
            raise Trapped(guard.code)
    return {place: evaluate(tree, w, env) for place, tree in opcode.transition(w).items()}


class Arithmetic:
    """The operators in one format."""

    def __init__(self, w: Format) -> None:
        self.w = w
        self.limit = 1 << (w.width - 7)

    # ------------------------------------------------------------------ words

    def tame(self, value: int, kind: str) -> Word:
        """The word of a number computed exactly."""
        if kind == FIXED and not -self.limit <= value < self.limit:
            raise Wild("a fixed number is large")
        return Word(value & self.w.mask, kind)

    def signed(self, x: Word) -> int:
        return self.w.signed(x.word)

    def word(self, x: Number, kind: str | None = None) -> Word:
        """The number as a word, of another kind where that loses nothing."""
        if isinstance(x, Word):
            if kind in (None, x.kind) or (x.kind, kind) == (BOOL, INT):
                return Word(x.word, kind or x.kind)
            assert x.kind in (INT, BOOL) and kind == FIXED, f"a {x.kind} where a {kind} is needed"  # noqa: PT018
            return self.tame(self.signed(x) << self.w.frac, FIXED)
        kind = kind or kind_of(x)
        match kind:
            case "fixed":
                return self.tame(round(Fraction(x) * (1 << self.w.frac)), FIXED)
            case "lognum":
                magnitude = round(Fraction(math.log2(abs(x))) * (1 << self.w.frac)) & (self.w.sign - 1)
                return Word(magnitude | (self.w.sign if x < 0 else 0), LOGNUM)
            case "bool":
                return Word(int(bool(x)), BOOL)
        assert x == int(x), f"{x} is no integer"
        return Word(int(x) & self.w.mask, INT)

    def truth(self, x: Number) -> bool:
        return bool(x.word) if isinstance(x, Word) else bool(x)

    def common(self, numbers: Sequence[Number]) -> str:
        kinds = {kind_of(x) for x in numbers}
        return next((k for k in (COMPLEX, LOGNUM, FIXED) if k in kinds), BOOL if kinds == {BOOL} else INT)

    # ------------------------------------------------------------------ operators

    def binary(self, op: str, x: Number, y: Number) -> Number:
        if not isinstance(x, Word | Pair) and not isinstance(y, Word | Pair):
            host: Number = _HOST[op](x, y)
            return host
        kind = self.common((x, y))
        if kind == COMPLEX:
            return self._complex(op, x, y)
        if op in _RELATIONS:
            kind = INT if kind == BOOL else kind
            a, b = self.signed(self.word(x, kind)), self.signed(self.word(y, kind))
            return Word(int(bool(_HOST[op](a, b))), BOOL)
        if kind == LOGNUM:
            return self._logarithmic(op, x, y)
        if op == "**":
            return self._power(x, y)
        if op in ("&", "|", "^", "<<", ">>"):
            return self._bitwise(op, x, y, kind)
        kind = FIXED if op == "/" or kind == FIXED else INT
        if kind == FIXED and op in ("*", "/") and (found := self._by_a_number(op, x, y)) is not None:
            return found
        a, b = self.signed(self.word(x, kind)), self.signed(self.word(y, kind))
        if op in ("/", "//", "%") and b == 0:
            raise Trapped("division by zero")
        match op:
            case "+" | "-":
                return self.tame(a + b if op == "+" else a - b, kind)
            case "*":
                return self.tame(a * b if kind == INT else nearest(Fraction(a * b, 1 << self.w.frac)), kind)
            case "/":
                return self.tame(nearest(Fraction(a << self.w.frac, b)), FIXED)
            case "//":
                return self.tame(a // b, INT)
            case "%":
                return self.tame(a % b, kind)
        raise AssertionError(op)

    def _by_a_number(self, op: str, x: Number, y: Number) -> Word | None:
        """c·x, x·c or x/c for a number c whose word at F loses half of its bits or does not fit, else None.

        The factor, c or 1/c, has the word of W bits with the most places. Programs use |result| alone.
        """
        x, y = (y, x) if op == "*" and not isinstance(x, Word) else (x, y)
        if not isinstance(x, Word) or isinstance(y, Word):
            return None
        c, w = Fraction(y), self.w
        scaled = c * (1 << w.frac)
        fits = -w.sign <= round(scaled) < w.sign
        if not c or (fits and abs(round(scaled) - scaled) * 2 ** (w.width // 4) <= abs(scaled)):
            return None
        c = c if op == "*" else 1 / c
        places = next(
            p for p in range(3 * w.width, -3 * w.width, -1) if -w.sign <= round(c * Fraction(2) ** p) < w.sign
        )
        factor = round(c * Fraction(2) ** places) / Fraction(2) ** places
        return self.tame(nearest(self.signed(self.word(x, FIXED)) * factor), FIXED)

    def _bitwise(self, op: str, x: Number, y: Number, kind: str) -> Word:
        a, b = self.word(x), self.word(y)
        if op == "<<":
            return self.tame(self.signed(a) << (b.word % self.w.width), INT)
        if op == ">>":
            return self.tame(self.signed(a) >> (b.word % self.w.width), INT)
        return Word(int(_HOST[op](a.word, b.word)), kind)

    def _power(self, x: Number, y: Number) -> Number:
        x = self.word(x)
        if y == 0.5:
            return self.function("sqrt", [x])
        n = self.signed(self.word(y, INT))
        base = self.word(x, FIXED if x.kind == FIXED else INT)
        if n < 0 and base.kind == INT:
            raise Trapped("a negative power of an int")
        if n == 0:
            return self.word(1, base.kind)

        def power(n: int) -> Word:
            """By squaring: the roundings of fixed numbers depend on the order."""
            if n == 1:
                return base
            half = power(n // 2)
            square = self.binary("*", half, half)
            return self.binary("*", square, base) if n % 2 else square

        return power(n) if n > 0 else self.binary("/", 1.0, power(-n))

    def _logarithmic(self, op: str, x: Number, y: Number) -> Word:
        if op == "**":
            assert isinstance(x, Word)
            assert isinstance(y, int)
            out = Word(0, LOGNUM)
            for _ in range(abs(y)):
                out = self.product(out, x, y < 0)
            return out
        a, b = self.word(x, LOGNUM), self.word(y, LOGNUM)
        if op in "*/":
            return self.product(a, b, op == "/")
        return Word(table_function("ladd" if op == "+" else "lsub", self.w, a.word, b.word), LOGNUM)

    def product(self, x: Word, y: Word, divided: bool = False) -> Word:
        """x·y or x/y of lognums."""
        name = "lmov.div" if divided else "lmov.mul"
        return Word(table_bijection(name, self.w, x.word, y.word, 0)["d"], LOGNUM)

    def unary(self, op: str, x: Number) -> Number:
        if isinstance(x, Pair):
            return self.pair(Pair(*(self._real(op, part) for part in x)))
        if not isinstance(x, Word):
            host: Number = _HOST_UNARY[op](x)
            return host
        match op:
            case "not":
                return Word(int(not x.word), BOOL)
            case "+":
                return x
            case "-" if x.kind == LOGNUM:
                return Word(x.word ^ self.w.sign, LOGNUM)
            case "-":
                return self.tame(-self.signed(x), INT if x.kind == BOOL else x.kind)
            case "~":
                return self.tame(~self.signed(x), INT)
        raise AssertionError(op)

    # ------------------------------------------------------------------ functions

    def function(self, name: str, args: Sequence[Number]) -> Number:
        """rg.name(*args), without select and sum."""
        if any(isinstance(x, Pair) for x in args):
            return self._complex_function(name, self.parts(args[0]))
        if not any(isinstance(x, Word) for x in args):
            host = cmath if any(isinstance(x, complex) for x in args) else math
            known: Number = ({"abs": abs, "min": min, "max": max}.get(name) or getattr(host, name))(*args)
            return known
        match name:
            case "tan":
                return self.binary("/", self.function("sin", args), self.function("cos", args))
            case "atan":
                return self.function("atan2", [*args, 1.0])
            case "floor":
                x = self.word(args[0])
                return x if x.kind != FIXED else self.tame(self.signed(x) >> self.w.frac, INT)
            case "abs":
                x = self.word(args[0])
                return self.tame(abs(self.signed(x)), x.kind)
            case "min" | "max":
                kind = self.common(args)
                values = [self.signed(self.word(x, kind)) for x in args]
                return self.tame((min if name == "min" else max)(values), kind)
        words = [self.word(x, FIXED).word for x in args]
        return self.tame(self.w.signed(table_function(_TABLE[name], self.w, words[0], words[-1])), FIXED)

    def converted(self, kind: str, x: Number) -> Number:
        """fixed(x), lognum(x), int(x), bool(x), complex(x)."""
        own = kind_of(x)
        if isinstance(x, bool | int | float) and kind in (INT, BOOL, FIXED):
            known: Number = {INT: int, BOOL: bool, FIXED: float}[kind](x)
            return known
        if kind == COMPLEX:
            return self.pair(x)
        if kind == BOOL:
            return Word(int(self.truth(x)), BOOL)
        if isinstance(x, Word) and {own, kind} != {own} and LOGNUM in (own, kind):
            if kind == LOGNUM:
                return Word(table_function("ftol", self.w, self.word(x, FIXED).word, 0), LOGNUM)
            return self.tame(self.w.signed(table_function("ltof", self.w, x.word, 0)), FIXED)
        return self.word(int(x) if kind == INT and isinstance(x, float) else x, kind)

    def updated(self, update: str, x: Word, y: Word) -> Word:
        """x after `x update= y`."""
        match update:
            case "+" | "-":
                return self.tame(self.signed(x) + (self.signed(y) if update == "+" else -self.signed(y)), x.kind)
            case "^":
                return Word(x.word ^ y.word, x.kind)
        return self.product(x, y, update == "/")

    # ------------------------------------------------------------------ complex numbers

    def pair(self, x: Number) -> Pair:
        """A number as a complex one, of words."""
        return Pair(*(self.word(part, FIXED) for part in self.parts(x)))

    def parts(self, x: Number) -> Pair:
        """A number as a complex one, of words and numbers of the source."""
        return x if isinstance(x, Pair) else Pair(x.real, x.imag) if isinstance(x, complex) else Pair(x, 0)

    def complex(self, re: Number, im: Number) -> Number:
        """complex(re, im)."""
        if isinstance(re, Word) or isinstance(im, Word):
            return Pair(*(self.word(x, FIXED) if isinstance(x, Word) else x for x in (re, im)))
        return complex(re, im)  # type: ignore[arg-type]

    def conjugate(self, x: Number) -> Number:
        if isinstance(x, Word):
            return x
        return self.pair(Pair(x.re, self._real("-", x.im))) if isinstance(x, Pair) else x.conjugate()

    def _real(self, op: str, *operands: Number) -> Any:
        return self.binary(op, *operands) if len(operands) == 2 else self.unary(op, *operands)

    def _complex(self, op: str, x: Number, y: Number) -> Word | Pair:
        if op == "**":
            if isinstance(y, int) and abs(y) <= 1000:
                return self.pair(self._complex_power(self.parts(x), y))
            if y == 0.5:
                return self._complex_function("sqrt", self.pair(x))
            found = self._complex("*", y, self._complex_function("log", self.pair(x)))
            assert isinstance(found, Pair)
            return self._complex_function("exp", found)
        a, b = self.parts(x), self.parts(y)
        match op:
            case "+" | "-":
                return self.pair(Pair(self._real(op, a.re, b.re), self._real(op, a.im, b.im)))
            case "*":
                return self.pair(self._product(a, b))
            case "/":
                return self.pair(self._quotient(a, b))
            case "==" | "!=":
                return Word(int((self.pair(a) == self.pair(b)) == (op == "==")), BOOL)
        raise AssertionError(op)

    def _product(self, a: Pair, b: Pair) -> Pair:
        products = [self._real("*", p, q) for p in a for q in b]
        return Pair(self._real("-", products[0], products[3]), self._real("+", products[1], products[2]))

    def _quotient(self, a: Pair, b: Pair) -> Pair:
        """Smith's: the numerators are divided by the larger part of b, to which q times the smaller is added."""
        wide = self.truth(self._real(">=", *(self.function("abs", [part]) for part in b)))
        large, small = b if wide else b[::-1]
        q = self._real("/", small, large)
        scale = self._real("+", large, self._real("*", small, q))
        first, second = a if wide else a[::-1]
        re = self._real("+", first, self._real("*", second, q))
        im = self._real("-", second, self._real("*", first, q))
        re, im = self._real("/", re, scale), self._real("/", im, scale)
        return Pair(re, im if wide else self._real("-", im))

    def _complex_power(self, z: Pair, n: int) -> Pair:
        one = Pair(1.0, 0)
        if n <= 0:
            return one if n == 0 else self._quotient(one, self._complex_power(z, -n))
        if n == 1:
            return z
        half = self._complex_power(z, n // 2)
        square = self._product(half, half)
        return self._product(square, z) if n % 2 else square

    def _size(self, z: Pair) -> Word:
        """|z|, the larger part times √(1 + q²)."""
        small, large = sorted(self.pair(z), key=lambda part: abs(self.signed(part)))
        if not large.word:
            return large
        q = self._real("/", small, large)  # with its sign, as half a unit is rounded up
        root = self._function("sqrt", self._real("+", self.word(1, FIXED), self._real("*", q, q)))
        size: Word = self._real("*", self._function("abs", large), root)
        return size

    def _function(self, name: str, *args: Number) -> Any:
        return self.function(name, args)

    def _complex_function(self, name: str, z: Pair) -> Word | Pair:
        match name:
            case "abs":
                return self._size(z)
            case "exp":
                size = self._function("exp", z.re)
                return self.pair(Pair(*(self._real("*", size, self._function(f, z.im)) for f in ("cos", "sin"))))
            case "log":
                return Pair(self._function("log", self._size(z)), self._function("atan2", z.im, z.re))
            case "sqrt":
                z = self.pair(z)
                half = self._real("*", self._real("+", self._size(z), self._function("abs", z.re)), 0.5)
                t = self._function("sqrt", half)
                other = self.word(0, FIXED) if t.word == 0 else self._real("/", z.im, self._real("+", t, t))
                if self.signed(z.re) >= 0:
                    return Pair(t, other)
                return Pair(self._function("abs", other), self._real("-", t) if self.signed(z.im) < 0 else t)
            case "tan" | "tanh":
                names = ("sin", "cos") if name == "tan" else ("sinh", "cosh")
                return self.pair(self._quotient(*(self._circular(n, z) for n in names)))
            case "sin" | "cos" | "sinh" | "cosh":
                return self.pair(self._circular(name, z))
        raise AssertionError(name)

    def _circular(self, name: str, z: Pair) -> Pair:
        """sin z, cos z; sinh z and cosh z with the parts exchanged."""
        angle, size = z[::-1] if name.endswith("h") else z
        turns = [self._function(f, angle) for f in ("cos", "sin")]
        up, down = self._function("exp", size), self._function("exp", self._real("-", size))
        sizes = [self._real("*", self._real(s, up, down), 0.5) for s in "+-"]
        a, b = {"sin": ((1, 0), (0, 1)), "sinh": ((0, 1), (1, 0))}.get(name, ((0, 0), (1, 1)))
        re, im = (self._real("*", turns[i], sizes[j]) for i, j in (a, b))
        return Pair(re, self._real("-", im) if name == "cos" else im)
