"""Complex numbers: structs of two fixed numbers `re` and `im`, with the operators of complex arithmetic.

    z + w, z − w, z · w, z / w, zʷ, −z, z̄, |z|, e^z, ln z, √z, sin z, cos z, tan z, sinh z, cosh z, tanh z, ==        of arrays element by element

`complex` as an annotation is such a struct, `ComplexNumber`; so is any class made by `struct` with these two fields. A real number beside a complex
one is complex. Values are pairs of expressions: nothing is rounded but the products and quotients of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from retrograd.compiler.ir.expressions import NOISE, E, Role
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import COMPLEX, StructType, is_complex
from retrograd.compiler.language.values import Constant, Scalar, StructValue, Value, describe
from retrograd.isa.diagnostics import advised
from retrograd.isa.words import Format

#: the real and the imaginary part
Parts = tuple[Value, Value]
_ZERO = Constant(0.0)


class RealArithmetic(Protocol):
    """The operators on real numbers."""

    fixed: Kind
    w: Format

    def folded(self, op: str, x: Constant, y: Constant) -> Constant: ...
    def expression(self, value: Value, kind: Kind | None = None, role: Role = Role.VALUE) -> E: ...
    def binary(self, op: str, x: Value, y: Value) -> Value: ...
    def unary(self, op: str, x: Value) -> Value: ...
    def function(self, name: str, values: Sequence[Value]) -> Value: ...
    def truth(self, x: Value) -> E: ...
    def both(self, conditions: Sequence[E], conjunction: bool) -> E: ...


def among(values: Sequence[Value]) -> bool:
    """Whether one of the values is a complex number."""
    return any(
        is_complex(v.type) if isinstance(v, StructValue) else isinstance(v, Constant) and isinstance(v.value, complex)
        for v in values
    )


#: functions that take complex numbers
FUNCTIONS = frozenset({"abs", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "select"})
_PARTS = "its parts are z.real and z.imag"
_ORDER = "they have no order: compare abs(z), or the parts z.real and z.imag"
#: function -> the way to write it for complex numbers
_INSTEAD = {"min": _ORDER, "max": _ORDER, "atan2": "the angle of z is rg.atan2(z.imag, z.real)"}


def instead_of(name: str) -> str:
    """The way to write a function of real numbers for complex ones."""
    return f"write `rg.{name}`, which takes complex numbers" if name in FUNCTIONS else _INSTEAD.get(name, _PARTS)


class ComplexArithmetic:
    """Operators on values of which one is complex. Raises TypeError where an operator has no meaning."""

    def __init__(self, real: RealArithmetic) -> None:
        self._real = real

    def binary(self, op: str, x: Value, y: Value) -> Value:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return self._real.folded(op, x, y)
        if op == "**":
            return self._power(x, y)
        a, b = self._parts(x, op), self._parts(y, op)
        match op:
            case "+" | "-":
                found = self._do(op, a[0], b[0]), self._do(op, a[1], b[1])
            case "*":
                found = self._product(a, b)
            case "/":
                found = self._quotient(a, b)
            case "==" | "!=":
                same = [self._real.truth(self._do("==", p, q)) for p, q in zip(a, b, strict=True)]
                equal = Scalar(self._real.both(same, True))
                return equal if op == "==" else self._real.unary("not", equal)
            case _:
                raise TypeError(f"{op} is not defined for complex numbers")
        return self._made(found, x, y)

    def unary(self, op: str, x: Value) -> Value:
        re, im = self._parts(x, op)
        match op:
            case "-":
                return self._made((self._real.unary("-", re), self._real.unary("-", im)), x)
            case "+":
                return x
        raise TypeError(f"{op} is not defined for complex numbers")

    def conjugate(self, x: Value) -> Value:
        """x̄; a real number is its own."""
        if not among([x]):
            return x
        re, im = self._parts(x, "conjugate")
        return self._made((re, self._real.unary("-", im)), x)

    def function(self, name: str, values: Sequence[Value]) -> Value:
        """The `FUNCTIONS`. Raises TypeError for the others."""
        if name not in FUNCTIONS:
            shown = name if name in ("min", "max", "round") else f"rg.{name}"
            raise advised(TypeError(f"{shown} is not defined for complex numbers"), instead_of(name))
        if name == "select":
            c, x, y = values
            parts = zip(self._parts(x, name), self._parts(y, name), strict=True)
            re, im = (self._real.function("select", [c, p, q]) for p, q in parts)
            return self._made((re, im), x, y)
        call: Callable[..., Value] = lambda f, *v: self._real.function(f, v)  # noqa: E731
        (x,) = values
        re, im = self._parts(x, name)
        match name:
            case "abs":
                return self._size(re, im)
            case "exp":
                size = call("exp", re)
                return self._made((self._do("*", size, call("cos", im)), self._do("*", size, call("sin", im))), x)
            case "log":
                return self._made((call("log", self._size(re, im)), call("atan2", im, re)), x)
            case "sqrt":
                return self._made(self._root(re, im), x)
            case "sin" | "cos" | "sinh" | "cosh":
                return self._made(self._circular(name, re, im), x)
            case "tan" | "tanh":
                names = ("sin", "cos") if name == "tan" else ("sinh", "cosh")
                return self._made(self._quotient(*(self._circular(n, re, im) for n in names)), x)
        raise AssertionError(name)

    def of_type(self, t: StructType, x: Value) -> StructValue:
        """A number, real or complex, as a complex number of another class; variables stay variables."""
        if isinstance(x, StructValue):
            return StructValue(t, x.fields)
        parts = [Scalar(self._real.expression(p, self._real.fixed)) for p in self._parts(x, "complex")]
        return StructValue(t, dict(zip(("re", "im"), parts, strict=True)))

    def _root(self, re: Value, im: Value) -> Parts:
        """√z: the larger part t = √((|z| + |re|)/2), the other im/2t, so that no part loses digits; re √z ≥ 0, 0 at 0."""
        real = self._real

        def select(c: Value, x: Value, y: Value) -> Value:
            return real.function("select", [c, x, y])

        right, below = real.binary(">=", re, _ZERO), real.binary("<", im, _ZERO)
        # |re| as a choice: √z has second derivatives where re = 0.
        t = real.function(
            "sqrt", [self._half(self._do("+", self._size(re, im), select(right, re, real.unary("-", re))))]
        )
        other = select(real.binary("==", t, _ZERO), _ZERO, real.binary("/", im, self._do("+", t, t)))
        signed = select(below, real.unary("-", t), t)
        return select(right, t, real.function("abs", [other])), select(right, other, signed)

    def _circular(self, name: str, re: Value, im: Value) -> Parts:
        """sin z = sin re cosh im + i cos re sinh im, cos z = cos re cosh im − i sin re sinh im; for sinh, cosh: −i sin iz, cos iz."""
        call: Callable[..., Value] = lambda f, v: self._real.function(f, [v])  # noqa: E731
        angle, size = (im, re) if name.endswith("h") else (re, im)
        cos, sin, up, down = (
            call("cos", angle),
            call("sin", angle),
            call("exp", size),
            call("exp", self._real.unary("-", size)),
        )
        cosh, sinh = (self._half(self._do(s, up, down)) for s in "+-")
        match name:
            case "sin":
                return self._do("*", sin, cosh), self._do("*", cos, sinh)
            case "cos":
                return self._do("*", cos, cosh), self._real.unary("-", self._do("*", sin, sinh))
            case "sinh":
                return self._do("*", cos, sinh), self._do("*", sin, cosh)
        return self._do("*", cos, cosh), self._do("*", sin, sinh)

    # ------------------------------------------------------------------ parts

    def _parts(self, x: Value, op: str) -> Parts:
        match x:
            case StructValue(t, fields) if is_complex(t):
                return fields["re"], fields["im"]
            case Constant(complex() as z):
                return self._part(z.real, z.imag), self._part(z.imag, z.real)
            case Constant(number) if op in ("*", "/") and isinstance(number, float) and number:
                return x, _ZERO  # a factor of its own binary point, if it needs one
            case Scalar() | Constant():
                return Scalar(self._real.expression(x, self._real.fixed)), _ZERO
        raise TypeError(f"{op} is not defined for {describe(x)} and a complex number")

    def _part(self, part: float, other: float) -> Value:
        """A part of a constant beside the other part."""
        constant = Constant(part)
        if abs(part) >= abs(other) * NOISE:
            return constant
        return Scalar(self._real.expression(constant, self._real.fixed, Role.NEGLIGIBLE)) if part else constant

    def _made(self, parts: Parts, *operands: Value) -> StructValue:
        """The number of these parts, of the class of the first operand that has one."""
        t: StructType = next((v.type for v in operands if isinstance(v, StructValue)), COMPLEX)
        made = [Scalar(self._real.expression(p, self._real.fixed)) for p in parts]
        return StructValue(t, dict(zip(("re", "im"), made, strict=True)))

    def _do(self, op: str, x: Value, y: Value) -> Value:
        """x op y, without the sums and products of a constant zero."""
        zeros = x == _ZERO, y == _ZERO
        if op == "*" and any(zeros):
            return _ZERO
        if op == "+" and any(zeros):
            return y if zeros[0] else x
        if op == "-" and any(zeros):
            return x if zeros[1] else self._real.unary("-", y)
        return self._real.binary(op, x, y)

    def _half(self, x: Value) -> Value:
        return self._real.binary("*", x, Constant(0.5))

    # ------------------------------------------------------------------ operators

    def _product(self, a: Parts, b: Parts) -> Parts:
        re = self._do("-", self._do("*", a[0], b[0]), self._do("*", a[1], b[1]))
        return re, self._do("+", self._do("*", a[0], b[1]), self._do("*", a[1], b[0]))

    def _quotient(self, a: Parts, b: Parts) -> Parts:
        """a/b by the quotient q of the smaller part of b over the larger, since |b|² overflows long before b does.

        With (c, d) and (p, r) the parts of b and of a, exchanged where |b.im| > |b.re|:
        a/b = (p + r·q ± i(r − p·q)) / (c + d·q), q = d/c, the sign − where they were exchanged.
        Source: Smith, Communications of the ACM 5 (1962), 435.
        """
        if b[1] == _ZERO:
            return self._real.binary("/", a[0], b[0]), self._real.binary("/", a[1], b[0])
        real = self._real
        wide = real.binary(">=", real.function("abs", [b[0]]), real.function("abs", [b[1]]))

        def chosen(x: Value, y: Value) -> Value:
            return real.function("select", [wide, x, y])

        c, d, p, r = chosen(*b), chosen(*b[::-1]), chosen(*a), chosen(*a[::-1])
        q = real.binary("/", d, c)
        scale = real.binary("+", c, real.binary("*", d, q))
        re, im = (real.binary(s, x, real.binary("*", y, q)) for s, x, y in (("+", p, r), ("-", r, p)))
        turned = real.binary("/", im, scale)
        return real.binary("/", re, scale), chosen(turned, real.unary("-", turned))

    def _power(self, x: Value, y: Value) -> Value:
        """zⁿ of a constant integer n by repeated squaring, √z, and any other zʷ = e^(w ln z)."""
        n = y.value if isinstance(y, Constant) else None
        if n == 0.5:
            return self.function("sqrt", [x])
        if not isinstance(n, int) or isinstance(n, bool) or abs(n) > 1000:
            return self.function("exp", [self.binary("*", y, self.function("log", [x]))])
        parts = self._repeated(self._parts(x, "**"), abs(n)) if n else (Constant(1.0), _ZERO)
        return self._made(self._quotient((Constant(1.0), _ZERO), parts) if n < 0 else parts, x)

    def _repeated(self, z: Parts, n: int) -> Parts:
        if n == 1:
            return z
        half = self._repeated(z, n // 2)
        square = self._product(half, half)
        return self._product(square, z) if n % 2 else square

    def _size(self, re: Value, im: Value) -> Value:
        """|z| = |m| √(1 + (n/m)²), m the part that is larger in size, since a square may overflow. 0 at 0, as the root of 0."""
        real = self._real
        wide = real.binary(">", real.function("abs", [re]), real.function("abs", [im]))
        m, n = (real.function("select", [wide, x, y]) for x, y in ((re, im), (im, re)))
        q = real.binary("/", n, m)
        if real.w.width - real.w.frac == 2:
            # 11/16 of the root, as 1 + 1 does not fit, nor twice a root above 1, by which its derivative divides.
            q = real.binary("*", q, Constant(0.6875))
            root = real.function("sqrt", [real.binary("+", real.binary("*", q, q), Constant(0.6875**2))])
            size = real.binary("/", real.binary("*", real.function("abs", [m]), root), Constant(0.6875))
        else:
            root = real.function("sqrt", [real.binary("+", Constant(1.0), real.binary("*", q, q))])
            size = real.binary("*", real.function("abs", [m]), root)
        return real.function("select", [real.binary("==", m, _ZERO), real.function("sqrt", [m]), size])


def extends(f: Any) -> str | None:
    """The name of a function of the library that has a meaning for complex numbers, too."""
    own = f.__name__ if getattr(f, "__module__", "") == "retrograd.library.elementary" else ""
    return own if own in ("sinh", "cosh", "tanh") else None


def is_conjugation(f: Any) -> bool:
    """Whether a function of NumPy's is the conjugate."""
    return getattr(f, "__name__", "") == "conjugate" and type(f).__module__ == "numpy"
