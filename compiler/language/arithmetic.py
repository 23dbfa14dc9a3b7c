"""Operators of the language over values: which function of the instruction table each becomes, for which types.

    int   + - * // % & | ^ << >>  comparisons          wrapping; / makes fixed
    uint  + - * // % & | ^ << >>  comparisons          mod 2^W, unsigned; an int beside a uint is taken mod 2^W in + - * & | ^ only
    fixed + - * / // % **  comparisons                 checked; an int beside a fixed becomes one
    lognum * / **  + -  comparisons                    + and − are functions, not updates: see `lognums.py`

Raises TypeError with a message for the user where an operation has no meaning; the caller adds the place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from retrograd.compiler.ir.expressions import (
    E,
    Length,
    Role,
    Vanishing,
    add,
    apply,
    below_half,
    choose,
    const,
    constant,
    integer,
    is_constant,
    lazy,
    less,
    neg,
    negated,
    number_as,
    scales,
    sub,
)
from retrograd.compiler.ir.statements import (
    Kind,
    fixed_at,
)
from retrograd.compiler.language import complex_numbers, intrinsics
from retrograd.compiler.language.binary_points import PointArithmetic, pointed
from retrograd.compiler.language.complex_numbers import ComplexArithmetic
from retrograd.compiler.language.lognums import LognumArithmetic, is_exponential, is_lognum
from retrograd.compiler.language.purity import need_operators, need_plain
from retrograd.compiler.language.types import bound, check_operator, check_result, check_size, is_complex, merged
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    count_of,
    describe,
)
from retrograd.isa.diagnostics import advised
from retrograd.isa.words import Format, brief

INT, UINT, FIXED, LOGNUM, BOOL = Kind.INT, Kind.UINT, Kind.FIXED, Kind.LOGNUM, Kind.BOOL
#: kinds whose words are integers mod 2^W
WRAPPING = (INT, UINT)
#: operators whose words are the same for int and uint: a ring mod 2^W, and bits
_BOTH = ("+", "-", "*", "&", "|", "^")

_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_PYTHON_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_,
}  # fmt: skip
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class ShapeMismatch(Exception):
    """Shapes that do not broadcast."""


class NegativePower(ValueError):
    """An int to the power of a negative int, which is no int."""


_NUMBERS: dict[type, Kind] = {bool: BOOL, int: INT, float: FIXED, Fraction: FIXED}


def number_kind(value: Any) -> Kind | None:
    """The kind that a Python number has where nothing else decides: int, fixed, bool."""
    found = _NUMBERS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, (int, float, Fraction)):  # a union would be made anew each time
        need_operators(value)
        return INT if isinstance(value, int) else FIXED
    # NumPy's scalars are numbers too.
    return number_kind(value.item()) if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else None


def _whole(value: Any) -> bool:
    """Whether a number of any type is an integer that a word of 64 bits may hold."""
    return math.isfinite(value) and float(value).is_integer() and -(1 << 63) <= value < 1 << 64


def on_constants(host: intrinsics.Host, operands: Sequence[Constant]) -> Constant:
    """The value of a function for constants, element by element where there are arrays. Raises the exceptions of the host, ShapeMismatch."""
    values = [v.value for v in operands]
    for value in values:
        need_plain(value)
    if any(isinstance(v, np.ndarray | tuple | list) for v in values):
        arrays = [np.asarray(v) for v in values]
        shape = tuple(map(bound, broadcast([a.shape for a in arrays])))
        check_size(shape)
        rows = zip(*(np.broadcast_to(a, shape).ravel().tolist() for a in arrays), strict=True)
        return Constant(np.array([host(*row) for row in rows]).reshape(shape))
    found = host(*(v.item() if isinstance(v, np.generic) else v for v in values))
    check_result(found)
    return Constant(found)


def real_of(value: Any) -> Any:
    """The constant as a number that is no int: a float, or a fraction where no float holds an integer exactly."""
    found = float(value)
    return Fraction(value) if isinstance(value, int | Fraction) and found != value else found


#: the hosts of conversions to a type with words of its own
_CONVERTED: dict[Kind, intrinsics.Host] = {INT: int, BOOL: bool, FIXED: real_of}


def _exact(value: Value) -> Fraction | None:
    """The number that a constant is."""
    return Fraction(value.value) if isinstance(value, Constant) else None


class Arithmetic:
    """Operators in one format.

    `number`: (value, kind, role) -> the expression of a number of the source. `own_point`: as `scales`.
    `factor`: (e, role) -> an element of a constant array at a point of its own, of a divisor its inverse, or None.
    """

    #: the kind of the parts of a complex number
    fixed = FIXED

    def __init__(
        self,
        w: Format,
        number: Callable[[Any, Kind, Role], E] | None = None,
        own_point: Callable[[Any, Role], bool] | None = None,
        factor: Callable[[E, Role], E | None] = lambda e, role: None,
    ) -> None:
        self.w = w
        self.number = number or (lambda value, kind, role: number_as(value, kind, role, w))
        self._scales = own_point or (lambda value, role: scales(value, role, w))
        self._factor = factor
        self.complex = ComplexArithmetic(self)
        self.lognum = LognumArithmetic(self)
        self.points = PointArithmetic(self)

    def folded(self, op: str, left: Constant, right: Constant) -> Constant:
        """The operator on constants. Raises TooLarge before it takes all memory, and the exceptions of the operator."""
        x, y = left.value, right.value
        need_plain(x)
        need_plain(y, text=op == "%" and isinstance(x, str | bytes))
        check_operator(op, x, y)
        if op == "*" and any(isinstance(v, str | bytes | tuple | list) for v in (x, y)):
            raise TypeError(f"* is not defined for {describe(left)} and {describe(right)}")
        if op == "%" and isinstance(x, str | bytes):
            raise TypeError(f"% is not defined for {describe(left)}")
        found = _PYTHON[op](x, y)
        check_result(found)
        return Constant(found)

    # ------------------------------------------------------------------ from values to expressions

    def expression(self, value: Value, kind: Kind | None = None, role: Role = Role.VALUE) -> E:
        """The scalar's expression, converted to a kind where that loses nothing. Raises TypeError, OverflowError, Vanishing."""
        match value:
            case Constant(number):
                need_plain(number)
                own = number_kind(number)
                if own is None:
                    raise TypeError(f"{describe(value)} is no number")
                wanted = kind or own
                if wanted in WRAPPING and own is FIXED:
                    raise TypeError(f"{number} is no integer")
                if isinstance(number, np.generic | np.ndarray):
                    number = number.item()
                if isinstance(number, float) and math.isnan(number):
                    raise ValueError("NaN is not a number")
                if isinstance(number, float) and math.isinf(number):
                    raise OverflowError(f"{number} is outside the range of {self.w}, as of every format")
                if wanted is INT and not -self.w.sign <= number <= self.w.mask:
                    way = f"write `(x) % 2**{self.w.width}` for its lower {self.w.width} bits"
                    raise advised(OverflowError(f"{brief(number)} does not fit in {self.w.width} bits"), way)
                if wanted is UINT and not 0 <= number <= self.w.mask:
                    way = f"write `uint({brief(number)})` if its lower {self.w.width} bits are meant"
                    message = f"{brief(number)} is outside of 0 … 2^{self.w.width} − 1, the range of a uint"
                    raise advised(OverflowError(message), way)
                if wanted is BOOL and number not in (0, 1):
                    raise advised(TypeError(f"{brief(number)} is no bool"), "bool(x) makes a bool of a number")
                return self.number(number, wanted, role)
            case Scalar(e):
                return self.converted(e, kind or e.kind)
        real = "its parts are z.real and z.imag" if isinstance(value, StructValue) and is_complex(value.type) else None
        raise advised(TypeError(f"{describe(value)} where one number is needed"), real)

    def operand(self, value: Value, kind: Kind | None = None) -> E:
        """`expression` of a value that is used at the point of the kind: constants among the terms of a sum are rounded there."""
        e = self.expression(value, kind)
        return self.points.aimed(e, e.kind) if e.kind.is_fixed else e

    def converted(self, e: E, kind: Kind) -> E:
        """e as another kind, where every value of its own kind is one of that kind."""
        match e.kind, kind:
            case (a, b) if a is b:
                return e
            case (a, b) if a.is_fixed and b.is_fixed:
                return self.points.aligned(e, b)
            case (a, b) if a.is_fixed and a is not FIXED:
                return self.converted(self.points.aligned(e, FIXED), b)
            case (a, b) if b.is_fixed and b is not FIXED and a is not LOGNUM:
                return constant(e.param, b, self.w) if e.op == "const" else apply("fmov", b, self._whole(e))
            case (Kind.BOOL, Kind.INT | Kind.UINT):
                return const(e.param, kind) if e.op == "const" else apply("mov", kind, e)
            case (Kind.UINT, Kind.FIXED):
                if e.op == "const":
                    return constant(e.param, FIXED, self.w)
                return apply("itof", FIXED, below_half(e, f"the uint {{a}} does not fit {self.w}"))
            case (Kind.FIXED, Kind.LOGNUM) if is_exponential(Scalar(e)):
                return apply("lexp", LOGNUM, *e.args)
            case (Kind.INT | Kind.BOOL, Kind.FIXED):
                if e.op == "const":
                    return constant(e.param, FIXED, self.w)
                return apply("itof", FIXED, e)
        hints = {
            (FIXED, INT): "rg.floor(x) makes an int of it",
            (LOGNUM, FIXED): "fixed(x) makes a fixed of it",
            (FIXED, LOGNUM): "lognum(x) makes a lognum of it",
            (INT, BOOL): "bool(x) makes a bool of it",
            (UINT, BOOL): "bool(x) makes a bool of it",
            (INT, UINT): "uint(x) is the uint with the same word",
            (UINT, INT): "int(x) is the int with the same word",
            (FIXED, UINT): "uint(rg.floor(x)) makes a uint of it",
            (LOGNUM, UINT): "uint(rg.floor(fixed(x))) makes a uint of it",
            (UINT, LOGNUM): "lognum(x) makes a lognum of it",
            (FIXED, BOOL): "bool(x) makes a bool of it",
        }
        own, wanted = (f"{'an' if k is INT else 'a'} {k.value}" for k in (e.kind, kind))
        raise advised(TypeError(f"{own} where {wanted} is needed"), hints.get((e.kind, kind)))

    def _whole(self, e: E) -> E:
        """An int, a uint or a bool as a number of the point 0, whose word is its own.

        An int has no derivative, and a move would carry one.
        """
        if e.kind is UINT:
            e = below_half(e, f"the uint {{a}} does not fit {self.w}")
        return apply("and", fixed_at(0), e, e)

    def modulo(self, value: Value, kind: Kind = UINT) -> E:
        """A value as a uint or an int where its word alone matters: the number of the kind that is congruent to it mod 2^W."""
        if kind is INT:
            same = isinstance(value, Scalar) and value.kind is UINT
            return self._same_word(self.expression(value), INT) if same else self.expression(value, INT)
        if isinstance(value, Constant) and number_kind(value.value) in (INT, BOOL):
            number = int(value.value)
            if -self.w.sign <= number < 0:
                return integer(number, UINT, self.w)
        elif isinstance(value, Scalar) and value.kind is INT:
            return self._same_word(value.e, UINT)
        return self.expression(value, UINT)

    def _same_word(self, e: E, kind: Kind) -> E:
        """An int as a uint, or a uint as an int: the same word."""
        return integer(e.param, kind, self.w) if e.op == "const" else apply("mov", kind, e)

    # ------------------------------------------------------------------ element by element

    def each(self, function: Callable[..., Value], *values: Value) -> Value:
        """function(*values), element by element where there are arrays. Raises ShapeMismatch."""
        if not any(isinstance(v, ArrayView | Lazy) for v in values):
            return function(*values)
        shape = broadcast([v.shape for v in values if isinstance(v, ArrayView | Lazy)])
        lazy = Lazy(shape, lambda index: function(*(element(v, index) for v in values)))
        # An error of the elements is raised here, at the operator.
        lazy.element(tuple(const(0, INT) for _ in shape))
        return lazy

    # ------------------------------------------------------------------ operators

    def binary(self, op: str, x: Value, y: Value) -> Value:
        return self.each(lambda a, b: self._binary(op, a, b), x, y)

    def _binary(self, op: str, x: Value, y: Value) -> Value:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return self.folded(op, x, y)
        if complex_numbers.among((x, y)):
            return self.complex.binary(op, x, y)
        if isinstance(x, StructValue) or isinstance(y, StructValue):
            return self._of_structs(op, x, y)
        kinds = {v.kind for v in (x, y) if isinstance(v, Scalar)}
        for v in (x, y):
            if not isinstance(v, Scalar | Constant):
                way = "a stack is true if it is not empty, and len(s) is the number of its words"
                error = TypeError(f"{op} is not defined for {describe(v)}")
                raise advised(error, way if isinstance(v, StackValue) else None)
            if isinstance(v, Constant):
                own = number_kind(v.value)
                if own is None:
                    raise TypeError(f"{op} is not defined for {describe(v)}")
                kinds.add(own)
        if op in COMPARISONS:
            return self._compare(op, x, y, kinds)
        if UINT in kinds and op in ("//", "%", "/") and not kinds & {FIXED, LOGNUM}:
            self._refuse_mixed(op, (x, y))
        if LOGNUM in kinds:
            return Scalar(self.lognum.binary(op, x, y))
        if op == "**":
            return self._power(x, y)
        if op in ("&", "|", "^", "<<", ">>"):
            return self._bitwise(op, x, y, kinds)
        if pointed(kinds):
            return Scalar(self.points.binary(op, self._own(x), self._own(y)))
        kind = FIXED if FIXED in kinds or op == "/" else UINT if UINT in kinds else INT
        if kind is FIXED and op in ("*", "/"):
            return Scalar(self._scaled(op, x, y))
        if kind is UINT and op in _BOTH:
            a, b = self.modulo(x), self.modulo(y)
        else:
            operand = self._signed if op in ("//", "%") else self.expression
            a, b = operand(x, kind), operand(y, kind)
        match op:
            case "+":
                e = add(a, b, self.w)
            case "-":
                e = sub(a, b, self.w)
            case "*":
                e = self._product(a, b, kind)
            case "//" | "%" if kind is UINT:
                e = self._unsigned_division(op, a, b)
            case "//":
                e = apply("div", INT, a, b)  # of fixed numbers too: both words are in the same units
            case "%" if kind is INT:
                e = apply("mod", INT, a, b)
            case "%" if b.op == "const" and b.param == 0:
                raise ZeroDivisionError
            case "%":
                e = self.remainder(a, b)
            case _:
                raise TypeError(f"{op} is not defined for {kind.value}")
        return Scalar(e)

    def _scaled(self, op: str, x: Value, y: Value) -> E:
        """x · y or x / y at the point F, of operands at it.

        A number c that would lose half of its bits at F has a point of its own, and x / c is x · (1/c) then.
        """
        if op == "/" and isinstance(y, Constant):
            number = y.value.item() if isinstance(y.value, np.generic | np.ndarray) else y.value
            if self._scales(number, Role.DIVISOR):
                inverse = self.number(1 / Fraction(number), FIXED, Role.FACTOR)
                return self.points.scaled("fmul", self.expression(x, FIXED), inverse)
        roles = (Role.MULTIPLIER, Role.MULTIPLIER) if op == "*" else (Role.DIVIDEND, Role.DIVISOR)
        a, b = (self.expression(v, FIXED, role) for v, role in zip((x, y), roles, strict=True))
        for e, other, role in ((a, b, roles[0]), (b, a, roles[1])):
            # Of two numbers of the source the product may be too small for F, as each of them is.
            if not is_constant(other) and (own := self._factor(e, role)) is not None:
                pair = (own, other) if e is a else (other, own)
                return self.points.scaled("fdiv" if role is Role.DIVIDEND else "fmul", *pair)
        if op == "*" and not pointed((a.kind, b.kind)):
            return self._product(a, b, FIXED)
        return self.points.scaled("fmul" if op == "*" else "fdiv", a, b)

    def _own(self, value: Value) -> E:
        """A number at the point that it has; a constant of the source with all of its bits."""
        if isinstance(value, Constant):
            return self.expression(value, FIXED, Role.FACTOR)
        e = self.expression(value)
        return e if e.kind.is_fixed else self.converted(e, FIXED)

    def _compared(self, value: Value) -> E:
        """A number as it is compared: an int at the point 0, where each has a word."""
        whole = isinstance(value, Scalar) and not value.kind.is_fixed and value.e.op != "const"
        return self._whole(value.e) if whole and isinstance(value, Scalar) else self._own(value)

    def _unsigned_division(self, op: str, a: E, b: E) -> E:
        """⌊a/b⌋ or a − b·⌊a/b⌋ of uints. The instruction divides ints, so the dividend is halved:

            p = 2·⌊⌊a/2⌋ / b⌋,  ⌊a/b⌋ = p + [a − p·b ≥ b]  for b < 2^(W−1);  [a ≥ b] for the other b

        A divisor of zero traps in the first case, as 0 < 2^(W−1).
        """
        w = self.w
        if b.op == "const" and b.param and b.param & b.param - 1 == 0:
            shift = b.param.bit_length() - 1
            if op == "%":
                return apply("and", UINT, a, const(b.param - 1, UINT))
            return apply("shr", UINT, a, const(shift, INT)) if shift else a
        fits = negated(apply("sltu", BOOL, a, b))
        large = apply("mov", UINT, fits) if op == "//" else choose(fits, sub(a, b, w), a)
        if b.op == "const" and b.param >= w.sign:
            return large
        half = apply("div", UINT, apply("shr", UINT, a, const(1, INT)), b)
        pair = apply("shl", UINT, half, const(1, INT))
        rest = sub(a, apply("mul", UINT, pair, b), w)
        again = negated(apply("sltu", BOOL, rest, b))
        small = add(pair, apply("mov", UINT, again), w) if op == "//" else choose(again, sub(rest, b, w), rest)
        return small if b.op == "const" else choose(apply("slt", BOOL, b, const(0, INT)), large, small)

    def _refuse_mixed(self, op: str, values: Sequence[Value]) -> None:
        """Refuse an int beside a uint where their order matters: a word stands for two numbers.

        The range of a constant is tested where it becomes a word.
        """
        kinds = {v.kind for v in values if isinstance(v, Scalar)}
        if {INT, UINT} <= kinds:
            message = f"{op} is not defined for an int and a uint, of which one may be out of the other's range"
            way = "write uint(n), the word of an int n as a uint, where n is not below 0, or int(u)"
            raise advised(TypeError(message), way)

    def remainder(self, a: E, b: E) -> E:
        """a − q·b with q = ⌊a/b⌋, exact: the quotient is an integer, and so is its product with a word.

        The derivative by a variable b is −q, of a product of fixed numbers: q·b = (q + [q < 0])·b − [q < 0]·b, of which no part is
        larger than a or b. Where q is too large for a fixed number its product is one of integers, and has no derivative.
        """
        q, kind = apply("div", INT, a, b), a.kind
        whole = sub(a, apply("mul", kind, q, b), self.w)
        if b.op == "const":
            return whole
        negative = apply("slt", BOOL, q, const(0, INT))
        same = apply("mov", INT, q)  # the quotient itself, which a sum would compute again
        product = apply("fmul", kind, apply("itof", FIXED, add(same, apply("mov", INT, negative), self.w)), b)
        rest = add(sub(a, product, self.w), choose(negative, b, const(0, kind)), self.w)
        if self.w.frac == 0:
            return rest
        most = const(self.w.signed(1 << (self.w.width - self.w.frac)), INT)
        from_least = add(same, const(1 << (self.w.width - self.w.frac - 1), INT), self.w)
        return choose(apply("sltu", BOOL, from_least, most), rest, whole)

    def _of_structs(self, op: str, x: Value, y: Value) -> Value:
        """x + y and x − y of two structs of one type, s · x and x / s of a struct and a number: field by field."""
        match op, x, y:
            case (("+" | "-"), StructValue(t, fields), StructValue(other, more)) if t == other:
                return StructValue(t, {name: self.binary(op, inner, more[name]) for name, inner in fields.items()})
            case (("*" | "/"), StructValue(t, fields), Scalar() | Constant()):
                return StructValue(t, {name: self.binary(op, inner, y) for name, inner in fields.items()})
            case "*", Scalar() | Constant(), StructValue(t, fields):
                return StructValue(t, {name: self.binary(op, x, inner) for name, inner in fields.items()})
        how = "structs of one type have + and −, and * and / with a number"
        if op in COMPARISONS:
            how = "compare their fields"
        raise advised(TypeError(f"{op} is not defined for {describe(x)} and {describe(y)}"), how)

    def _product(self, a: E, b: E, kind: Kind) -> E:
        if kind is FIXED and pointed((a.kind, b.kind)):
            return self.points.product(a, b)
        if kind in WRAPPING or self.w.frac < self.w.width - 1:  # else 1 does not fit
            one = constant(1, kind, self.w)
            if one in (a, b):
                return b if a == one else a
        if kind in WRAPPING and a.op == "const" and b.op == "const":
            return integer(a.param * b.param, kind, self.w)
        return apply("mul", kind, a, b) if kind in WRAPPING else self.points.scaled("fmul", a, b)

    def _bitwise(self, op: str, x: Value, y: Value, kinds: set[Kind]) -> Value:
        if not kinds <= {INT, UINT, BOOL}:
            raise TypeError(f"{op} is not defined for {' and '.join(sorted(k.value for k in kinds))}")
        if op in ("<<", ">>") and isinstance(y, Constant):
            return self._shifted(op, x, int(y.value))
        if op in ("<<", ">>") and isinstance(x, Scalar) and x.kind is UINT:
            return Scalar(apply("shl" if op == "<<" else "shr", UINT, x.e, self.expression(y)))
        if UINT in kinds and op in _BOTH:
            a, b = self.modulo(x), self.modulo(y)
        else:
            a, b = (self._signed if op == ">>" else self.expression)(x), self.expression(y)
        whole = UINT if UINT in kinds and op in _BOTH else INT
        if op == "^":
            # x ⊕ y = (x ∨ y) − (x ∧ y): no borrow, since the and's bits are among the or's.
            if kinds == {BOOL}:
                return Scalar(negated(apply("seq", BOOL, a, b)))
            return Scalar(sub(apply("or", whole, a, b), apply("and", whole, a, b), self.w))
        name = {"&": "and", "|": "or", "<<": "shl", ">>": "sar"}[op]
        kind = BOOL if kinds == {BOOL} and op in "&|" else whole
        return Scalar(apply(name, kind, a, b))

    def _shifted(self, op: str, x: Value, count: int) -> Value:
        """x · 2^count or ⌊x / 2^count⌋ for a constant, also where no bit of the word is left."""
        if count < 0:
            raise advised(ValueError("the count of a shift is negative"), "shift in the other direction")
        last = self.w.width - 1
        if isinstance(x, Scalar) and x.kind is UINT:
            name = "shl" if op == "<<" else "shr"
            return Scalar(apply(name, UINT, x.e, const(count, INT)) if count <= last else const(0, UINT))
        if op == "<<":
            return Scalar(apply("shl", INT, self.expression(x), const(count, INT)) if count <= last else const(0, INT))
        return Scalar(apply("sar", INT, self._signed(x), const(min(count, last), INT)))

    def _signed(self, value: Value, kind: Kind | None = None, role: Role = Role.VALUE) -> E:
        """The expression of an operand whose order matters, not its bits alone. Raises OverflowError for a constant that is a pattern of bits."""
        if kind in (INT, None) and isinstance(value, Constant) and number_kind(value.value) is INT:
            number, sign = int(value.value), self.w.sign
            if sign <= number <= self.w.mask:
                way = f"write {self.w.signed(number)} if its {self.w.width} bits are meant"
                raise advised(OverflowError(f"{number} is no signed int of {self.w.width} bits"), way)
        return self.expression(value, kind, role)

    def _power(self, x: Value, y: Value) -> Value:
        base = self.expression(x)
        real = isinstance(y, Constant) and number_kind(y.value) is FIXED
        kind = FIXED if base.kind.is_fixed or real else UINT if base.kind is UINT else INT
        if isinstance(y, Constant) and _whole(y.value):
            n = int(y.value)
            if n < 0 and kind is not FIXED:
                raise NegativePower(f"the exponent of {'an int' if kind is INT else 'a uint'} is {n}")
            if n == 0:
                return Scalar(const(1, UINT)) if kind is UINT else Constant(1 if kind is INT else 1.0)
            e = self._repeated(base if base.kind.is_fixed else self.expression(x, kind), abs(n), kind)
            return Scalar(e if n > 0 else self.points.quotient(constant(1, FIXED, self.w), e))
        if isinstance(y, Constant) and y.value == 0.5:
            return Scalar(self.points.root(base if base.kind.is_fixed else self.expression(x, FIXED)))
        before = self.w.width - self.w.frac
        if real and isinstance(y, Constant) and 2 <= before <= 4 and math.isfinite(y.value):
            return Scalar(self._narrow_power(self.expression(x, FIXED), Fraction(y.value)))
        exponent = self.expression(y)
        if exponent.kind in (INT, UINT, BOOL):
            exponent = self.converted(exponent, INT) if exponent.kind is BOOL else exponent
            if kind is not FIXED:
                return Scalar(E("power", kind, (self.converted(base, kind), exponent)))
            base = self.converted(base, FIXED)
            if exponent.kind is UINT:
                return Scalar(E("power", FIXED, (base, exponent)))
            # x^n = 1 / x^(−n) where n < 0
            power, opposite = (E("power", FIXED, (base, n)) for n in (exponent, neg(exponent)))
            inverse = apply("fdiv", FIXED, constant(1, FIXED, self.w), opposite)
            return Scalar(choose(apply("slt", BOOL, exponent, const(0, INT)), inverse, power))
        # x^y = e^(y ln x)
        logarithm = apply("flog", FIXED, self.expression(x, FIXED))
        return Scalar(apply("fexp", FIXED, apply("fmul", FIXED, self.expression(y, FIXED), logarithm)))

    def _narrow_power(self, x: E, p: Fraction) -> E:
        """x^p in a format with few bits before the point, in which x^p fits, but p or p ln x may not.

        x^p = x^⌊p⌋ · x^r for p > 0, where x^½ is a root, and any other x^r = (x 2^k)^r · 2^(−kr) is e^(r ln(x 2^k)), of which ln x may not
        fit. For p < 0 it is (1/x)^−p, or 1/x^−p where x < 1.
        """
        if p < 0:
            one = constant(1, FIXED, self.w)
            small = apply("slt", BOOL, x, one)
            power = self._narrow_power(choose(small, x, apply("fdiv", FIXED, one, x)), -p)
            return choose(small, apply("fdiv", FIXED, one, power), power)
        n, r = int(p), p - int(p)
        two = self.w.width - self.w.frac == 2
        if r == Fraction(1, 2):
            root = apply("fsqrt", FIXED, x)
            if two:  # the derivative divides by twice the root, which has to fit
                below = apply("fsqrt", FIXED, self._product(x, constant(0.25, FIXED, self.w), FIXED))
                near = apply("slt", BOOL, x, constant(Fraction(15, 16), FIXED, self.w))
                root = choose(near, root, add(below, below, self.w))
        else:
            factor, scaled, one = None, x, constant(1, FIXED, self.w)
            for k in (32, 16, 8, 4, 2):
                if k > self.w.frac or k * r > self.w.frac:
                    continue
                least = constant(Fraction(1, 1 << k), FIXED, self.w)
                test = apply("slt", BOOL, scaled, least)
                step = constant(2.0 ** (-k * float(r)), FIXED, self.w)
                factor = choose(test, step if factor is None else self._product(factor, step, FIXED), factor or one)
                scaled = choose(test, apply("fdiv", FIXED, scaled, least), scaled)
            exponent = self._product(constant(r, FIXED, self.w), apply("flog", FIXED, scaled), FIXED)
            root = apply("fexp", FIXED, exponent)
            if factor is not None:
                root = self._product(root, factor, FIXED)
        return self._product(self._repeated(x, n, FIXED), root, FIXED) if n else root

    def _repeated(self, e: E, n: int, kind: Kind) -> E:
        """e^n by squaring."""
        if n == 1:
            return e
        half = self._repeated(e, n // 2, kind)
        square = self._product(half, half, kind)
        return self._product(square, e, kind) if n % 2 else square

    def _compare(self, op: str, x: Value, y: Value, kinds: set[Kind]) -> Value:
        if LOGNUM in kinds and (found := self.lognum.compared(op, x, y)) is not None:
            return Scalar(found)
        if pointed(kinds):
            return Scalar(self.points.compared(op, self._compared(x), self._compared(y), _exact(x), _exact(y)))
        kind = LOGNUM if LOGNUM in kinds else FIXED if FIXED in kinds else UINT if UINT in kinds else INT
        if kind is UINT:
            self._refuse_mixed(op, (x, y))
        try:
            a, b = self._signed(x, kind, Role.COMPARED), self._signed(y, kind, Role.COMPARED)
        except Vanishing as error:
            hint = f"No number of {self.w} lies between 0 and it, so compare with 0. {self.w.remedy(error.value, bits=False)}"
            raise Vanishing(f"{error}", error.value, hint) from None
        match op:
            case "<" | ">=":
                e = less(a, b, self.w)
            case ">" | "<=":
                e = less(b, a, self.w)
            case _:
                e = apply("seq", BOOL, a, b)
        return Scalar(negated(e) if op in (">=", "<=", "!=") else e)

    def unary(self, op: str, x: Value) -> Value:
        return self.each(lambda v: self._unary(op, v), x)

    def _unary(self, op: str, x: Value) -> Value:
        if isinstance(x, StructValue) and op in "+-":
            return StructValue(x.type, {name: self.unary(op, inner) for name, inner in x.fields.items()})
        if isinstance(x, Constant):
            need_plain(x.value)
            return Constant(_PYTHON_UNARY[op](x.value))
        if complex_numbers.among((x,)):
            return self.complex.unary(op, x)
        if op == "not":
            return Scalar(negated(self.truth(x)))
        e = self.expression(x)
        match op:
            case "+":
                return x
            case "-" if e.kind.is_fixed or e.kind in (INT, UINT, BOOL):
                return Scalar(neg(self.converted(e, INT) if e.kind is BOOL else e))
            case "-":
                return Scalar(self.lognum.opposite(e))
            case "~" if e.kind in WRAPPING:
                return Scalar(sub(neg(e), const(1, e.kind), self.w))
        raise TypeError(f"{op} is not defined for {e.kind.value}")

    def truth(self, x: Value) -> E:
        """The value as a condition: a bool, a number that is not zero, real or complex, or a stack that is not empty."""
        if isinstance(x, StackValue):
            x = Scalar(count_of(x))
        if isinstance(x, StructValue) and is_complex(x.type):
            return self.both([self.truth(part) for part in x.fields.values()], False)
        if isinstance(x, StructValue):
            way = f"compare one of its fields, `{next(iter(x.fields))}`"
            raise advised(TypeError(f"{describe(x)} is no condition"), way)
        e = self.expression(x)
        if e.kind is BOOL:
            return e
        if e.kind is LOGNUM:
            raise TypeError("a lognum is no condition: it is never zero")
        if e.op == "const":
            return const(int(e.param != 0), BOOL)
        return negated(apply("seq", BOOL, e, const(0, e.kind)))

    def both(self, conditions: Sequence[E], conjunction: bool) -> E:
        """and / or, the later ones computed only where they decide if that could matter."""
        result = conditions[-1]
        for c in reversed(conditions[:-1]):
            if c.op == "const":
                decided = bool(c.param) is not conjunction
                result = c if decided else result
            elif lazy(result):
                known = const(0 if conjunction else 1, BOOL)
                result = choose(c, result, known) if conjunction else choose(c, known, result)
            else:
                result = apply("and" if conjunction else "or", BOOL, c, result)
        return result

    # ------------------------------------------------------------------ functions

    def function(self, name: str, values: Sequence[Value]) -> Value:
        """One of the language's functions of numbers, element by element. Raises TypeError for any other name."""
        f = intrinsics.FUNCTIONS.get(name)
        if f is None:
            raise TypeError(name)
        if f.host is not None and all(isinstance(v, Constant) for v in values):
            return on_constants(f.host, [v for v in values if isinstance(v, Constant)])
        return self.each(lambda *v: self._function(f, v), *values)

    def conjugate(self, x: Value) -> Value:
        """The conjugate, element by element."""
        return self.each(self.complex.conjugate, x)

    def _function(self, f: intrinsics.Intrinsic, v: Sequence[Value]) -> Value:
        name = f.operation
        if name == "select" and isinstance(v[0], StructValue):
            v = [Scalar(self.truth(v[0])), *v[1:]]
        if f.host is not None and complex_numbers.among(v):
            return self.complex.function(name, v)
        if is_lognum(v[0]) and (found := self.lognum.function(name, v[0])) is not None:
            return Scalar(found)
        if f.instruction == "fsqrt" and isinstance(v[0], Scalar) and v[0].kind.is_fixed:
            return Scalar(self.points.root(v[0].e))
        if f.instruction is not None:
            return Scalar(apply(f.instruction, f.kind, *(self.expression(x, f.kind) for x in v)))
        assert f.value is not None
        return f.value(self, *v)

    def floor(self, value: Value) -> Value:
        """⌊x⌋ of a fixed, as an int."""
        x = self.expression(value)
        if x.kind in (INT, UINT, BOOL):
            return value
        x = x if x.kind.is_fixed else self.converted(x, FIXED)
        point = x.kind.point(self.w)
        if point < 0:
            return Scalar(apply("mov", INT, self.points.aligned(x, fixed_at(0))))
        # Not `ftoi`, which rounds to nearest.
        return Scalar(apply("sar", INT, x, const(min(point, self.w.width - 1), INT)))

    def size(self, value: Value) -> Value:
        """|x|."""
        x = self.expression(value)
        return value if x.kind is UINT else Scalar(apply("fabs" if x.kind.is_fixed else "abs", x.kind, x))

    def select(self, c: Value, x: Value, y: Value) -> Value:
        """x if c else y."""
        self._refuse_mixed("the choice", (x, y))
        kind = self.common((x, y))
        return Scalar(choose(self.truth(c), self.expression(x, kind), self.expression(y, kind)))

    def rounded(self, value: Value) -> Value:
        """The nearest integer, of two the even one: ⌊x⌋ + [x − ⌊x⌋ > ½ − ulp · (⌊x⌋ mod 2)], in words of F fractional bits."""
        x = self.expression(value)
        if x.kind in (INT, UINT, BOOL):
            return value
        x = x if x.kind.is_fixed else self.converted(x, FIXED)
        point = x.kind.point(self.w)
        if point <= 0:
            return Scalar(apply("mov", INT, self.points.aligned(x, fixed_at(0))))
        if point >= self.w.width:
            return Constant(0)  # |x| ≤ ½, of which the even neighbour is 0
        below = apply("sar", INT, x, const(point, INT))
        rest = apply("and", INT, x, const((1 << point) - 1, INT))
        half = sub(const(1 << (point - 1), INT), apply("and", INT, below, const(1, INT)), self.w)
        return Scalar(add(below, apply("mov", INT, apply("slt", BOOL, half, rest)), self.w))

    def extreme(self, name: str, v: Sequence[Value]) -> Value:
        """The smallest or the largest of numbers, by "min" or "max"."""
        kind = self.common(v)
        if kind is LOGNUM:
            return Scalar(self.lognum.extreme(name, [self.expression(x, LOGNUM) for x in v]))
        self._refuse_mixed(name, v)
        e = self._signed(v[0], kind)
        for x in v[1:]:
            other = self._signed(x, kind)
            if kind is INT:
                e = apply(name, INT, e, other)
            else:
                # A choice, and not the integer function: a choice carries the derivative of the chosen value.
                first = (e, other) if name == "min" else (other, e)
                e = choose(apply("sltu" if kind is UINT else "slt", BOOL, *first), e, other)
        return Scalar(e)

    def common(self, v: Sequence[Value]) -> Kind:
        """The kind that several values can have together."""
        kinds = {
            x.kind if isinstance(x, Scalar) else number_kind(x.value) for x in v if isinstance(x, Scalar | Constant)
        }
        if UINT in kinds and kinds <= {INT, UINT, BOOL}:
            return UINT
        if LOGNUM not in kinds and pointed(k for k in kinds if k is not None):
            return self.points.coarser(*(self._own(x) for x in v))
        return LOGNUM if LOGNUM in kinds else FIXED if FIXED in kinds else BOOL if kinds == {BOOL} else INT

    def conversion(self, kind: Kind, x: Value) -> Value:
        """fixed(x), lognum(x), int(x), uint(x), bool(x). uint and int keep the word: they are congruent mod 2^W."""
        if isinstance(x, Constant) and kind in _CONVERTED:
            return on_constants(_CONVERTED[kind], [x])
        return self.each(lambda v: self._conversion(kind, v), x)

    def _conversion(self, kind: Kind, x: Value) -> Value:
        if isinstance(x, Constant):
            if kind is UINT and number_kind(x.value) in (INT, BOOL):
                return Scalar(integer(int(x.value), UINT, self.w))
            return Scalar(self.expression(x, kind))
        if kind is BOOL:
            return Scalar(self.truth(x))
        e = self.expression(x)
        if kind.is_fixed and e.kind is not LOGNUM and pointed((e.kind, kind)):
            # A move of its own: the value is rounded here, also where it is a term of a sum.
            moved = self.converted(e, kind)
            return Scalar(apply("fmov", kind, moved) if e.kind.is_fixed else moved)
        if e.kind.is_fixed and not kind.is_fixed:
            e = self.points.aligned(e, FIXED)
        match e.kind, kind:
            case (Kind.LOGNUM, _) if kind.is_fixed:
                return Scalar(self.points.aligned(apply("ltof", FIXED, e), kind))
            case (Kind.FIXED, Kind.LOGNUM) if not is_exponential(Scalar(e)):
                return Scalar(apply("ftol", LOGNUM, e))
            case (Kind.INT, Kind.UINT) | (Kind.UINT, Kind.INT):
                return Scalar(self._same_word(e, kind))
            case (Kind.UINT, Kind.LOGNUM):
                return Scalar(apply("ftol", LOGNUM, self.converted(e, FIXED)))
            case (Kind.INT, Kind.LOGNUM):
                return Scalar(apply("ftol", LOGNUM, apply("itof", FIXED, e)))
            case (Kind.FIXED | Kind.LOGNUM, Kind.UINT):
                real = "…" if e.kind is FIXED else "fixed(…)"
                raise advised(TypeError(f"uint() of a {e.kind.value} would round"), f"write uint(rg.floor({real}))")
            case (Kind.FIXED, Kind.INT):
                raise advised(TypeError("int() of a fixed would round toward zero"), "rg.floor rounds down")
            case _:
                return Scalar(self.converted(e, kind))


def element(value: Value, index: tuple[E, ...]) -> Value:
    """The element of an array that a broadcast index picks; a scalar is every element."""
    match value:
        case ArrayView(_, shape, strides, address):
            own = index[len(index) - len(shape) :]
            for i, length, stride in zip(own, shape, strides, strict=True):
                if length != 1:
                    address = address.shifted(i, stride)
            return ArrayView(value.element, (), (), address, value.why_not).item()
        case Lazy(shape, compute):
            own = index[len(index) - len(shape) :]
            return compute(tuple(const(0, INT) if n == 1 else i for i, n in zip(own, shape, strict=True)))
        case _:
            return value


def first_of(value: Value) -> Value:
    """The element of an array with index 0 on each axis, from which the kind of all follows; a scalar is every element."""
    return element(value, tuple(const(0, INT) for _ in value.shape)) if isinstance(value, ArrayView | Lazy) else value


def kind_of(value: Value) -> Kind | None:
    """The kind of a number of the run, or of the elements of an array; None for any other value."""
    first = first_of(value)
    return first.kind if isinstance(first, Scalar) else None


def first_axis(v: Value, index: E) -> Value:
    """v[index], the index being in range; a value without axes is itself."""
    if isinstance(v, ArrayView) and v.shape:
        inner = v.without(0, v.at(index))
        return inner if inner.shape else inner.item()
    if isinstance(v, Lazy) and v.shape:
        rest = v.shape[1:]
        return Lazy(rest, lambda more: v.element((index, *more))) if rest else v.element((index,))
    return v


def broadcast(shapes: Sequence[tuple[Length, ...]]) -> tuple[Length, ...]:
    """The common shape: aligned at the last axis, equal or 1. Raises ShapeMismatch."""
    out: list[Length] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        lengths = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        if len(set(lengths)) > 1:
            raise ShapeMismatch(" and ".join(str(s) for s in shapes))
        out.insert(0, merged(lengths) if lengths else 1)
    return tuple(out)
