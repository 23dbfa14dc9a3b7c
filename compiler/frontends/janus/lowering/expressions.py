"""Lowering of expressions of Janus to expressions of the IR.

    x / y, x % y      floored                    x << n, x >> n     0, or the sign, from n = width on
    x && y, x || y    y only where x decides nothing
    x */ y            ⌊x · y / 2^(W−1)⌋
    a[i]              within Σ strides · i, each index tested against its length

Traps: an element of the array that the statement changes is tested to be another element than the changed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    LITERAL,
    ArrayPlace,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    Value,
    exact,
    from_stored,
    length_of,
    word_in,
)
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    add,
    apply,
    choose,
    const,
    lazy,
    load,
    negated,
    sub,
)
from retrograd.compiler.ir.statements import Var
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.values import Constant, Scalar
from retrograd.isa.diagnostics import Span, nearest
from retrograd.isa.words import Format

#: the fix of a type that no word holds
WIDER = "Choose a wider format, such as --format 64,0."


@dataclass(eq=False)
class Expressions:
    """Lowers the expressions of one procedure. `names`: the places in scope; `text`: a piece of the source."""

    w: Format
    names: Mapping[str, Place]
    text: Callable[[Span], str]
    fail: Callable[..., NoReturn]
    #: names whose values are known
    constants: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arithmetic = Arithmetic(self.w)
        #: the element that the current statement changes
        self.changed: Address | None = None

    # ------------------------------------------------------------------ values

    def number(self, node: syntax.Expression) -> E:
        """An integer, in the range of its type."""
        return exact(self.integer_value(node), self.w).e

    def integer_value(self, node: syntax.Expression) -> Value:
        found = self.value(node)
        if found.type is None:
            self.fail("RG0703", f"`{self.text(node.span)}` is a condition where an integer is expected", node.span)
        return found

    def condition(self, node: syntax.Expression) -> E:
        """A truth value."""
        found = self.value(node)
        if found.type is not None:
            hint = "Compare it with a number."
            message = f"`{self.text(node.span)}` is an integer where a condition is expected"
            self.fail("RG0703", message, node.span, hint)
        return found.e

    def of_type(self, node: syntax.Expression, wanted: Integer | None) -> Value:
        """The value of an expression, which must have a type."""
        found = self.value(node)
        fits = (found.type is None) == (wanted is None)
        if fits and found.type is not None and found.type.width and found.type != wanted:
            fits = False
        if not fits:
            message = f"`{self.text(node.span)}` is {described(found.type, self.w)} where {described(wanted, self.w)} is expected"
            self.fail("RG0703", message, node.span)
        return found

    def named(self, name: str, span: Span) -> Place:
        """The place that a name stands for."""
        found = self.names.get(name)
        if found is None:
            self.fail("RG0702", f"`{name}` is not declared", span, nearest(name, self.names))
        return found

    def value(self, node: syntax.Expression) -> Value:
        match node:
            case syntax.Number(value=number):
                return Value(const(self.w.signed(number & self.w.mask), INT), LITERAL)
            case syntax.Truth(value=truth):
                return Value(const(int(truth), BOOL), None)
            case syntax.Reference(name=name, indices=()) if name in self.constants:
                return Value(const(self.constants[name], INT), Integer(self.w.width))
            case syntax.Reference():
                place = self.place(node)
                if not isinstance(place, ScalarPlace):
                    message = f"`{self.text(node.span)}` is {described_place(place, self.w)}, and no number"
                    self.fail("RG0703", message, node.span)
                return self.read(place)
            case syntax.Binary(operator=op, left=left, right=right):
                if op in ("&&", "||"):
                    conditions = [self.condition(left), self.condition(right)]
                    return Value(self.arithmetic.both(conditions, op == "&&"), None)
                x, y = self.value(left), self.value(right)
                self._require_alike(op, x, y, node)
                return self.binary(op, x, y)
            case syntax.Unary(operator="!", operand=operand):
                return Value(negated(self.condition(operand)), None)
            case syntax.Unary(operator="~", operand=operand):
                return self._sum("-", Value(const(-1, INT), LITERAL), self.integer_value(operand))
            case syntax.Cast(type=name, operand=operand):
                x, t = exact(self.integer_value(operand), self.w), word_type(name, self.w, self.fail, node.span)
                if t is None:
                    self.fail("RG0703", "a number is no condition: compare it", node.span)
                return Value(x.e, t, exact=False)
            case syntax.Indicator(condition=condition):
                return Value(apply("mov", INT, self.condition(condition)), Integer(self.w.width))
            case syntax.Size(name=name):
                found = self.named(name, node.span)
                if isinstance(found, StackPlace):
                    return Value(load(found.address, INT), Integer(self.w.width))
                if isinstance(found, ScalarPlace):
                    self.fail("RG0703", f"`{name}` is one number, which has no size", node.span)
                return Value(length_of(found.lengths[0]), Integer(self.w.width))
            case syntax.Empty(name=name):
                count = load(self.stack(name, node.span).address, INT)
                return Value(apply("seq", BOOL, count, const(0, INT)), None)
            case syntax.Top(name=name, span=span):
                return Value(self._top(self.stack(name, span), span), Integer(self.w.width))
        raise TypeError(node)

    def read(self, place: ScalarPlace) -> Value:
        """The value that a place holds."""
        return Value(from_stored(word_in(place), place.type, self.w), place.type)

    def stack(self, name: str, span: Span) -> StackPlace:
        found = self.named(name, span)
        if not isinstance(found, StackPlace):
            self.fail("RG0703", f"`{name}` is no stack", span)
        return found

    def _require_alike(self, op: str, x: Value, y: Value, node: syntax.Binary) -> None:
        """Refuse operands of two types, and conditions where the operator takes integers."""
        alike = (x.type is None) == (y.type is None)
        if x.type is not None and y.type is not None and x.type.width and y.type.width and op not in ("<<", ">>", "**"):
            alike = x.type == y.type
        if alike and x.type is None and op not in ("=", "!=", "&", "|", "^"):
            alike = False
        if not alike:
            kinds = f"{described(x.type, self.w)} and {described(y.type, self.w)}"
            self.fail("RG0703", f"`{self.text(node.span)}`: {op} is not defined for {kinds}", node.span)

    def _top(self, stack: StackPlace, span: Span) -> E:
        count = load(stack.address, INT)
        index = sub(count, const(1, INT), self.w)
        message = f"the stack `{stack.name}` is empty, and has no top"
        there = InRange(index, stack.capacity, message, span, "RG0806")
        return load(stack.address.moved(1).shifted(index, 1, there), INT)

    # ------------------------------------------------------------------ places

    def place(self, node: syntax.Reference) -> Place:
        """A variable, an element of an array, or a part of an array whose first indices are given."""
        found = self.named(node.name, node.span)
        if not node.indices:
            return found
        if not isinstance(found, ArrayPlace) or len(node.indices) > len(found.lengths):
            many = len(found.lengths) if isinstance(found, ArrayPlace) else 0
            indices = f"{len(node.indices)} {'index' if len(node.indices) == 1 else 'indices'}"
            message = f"`{self.text(node.span)}` has {indices}, and `{node.name}` {counted(many, 'dimension')}"
            self.fail("RG0703", message, node.span)
        given, rest = found.lengths[: len(node.indices)], found.lengths[len(node.indices) :]
        at: E = const(0, INT)
        checks: list[InRange] = []
        for index, length in zip(node.indices, given, strict=True):
            i = self.number(index)
            of = f"`{self.text(node.span)}`"
            message = f"{of}: the index {i.param if i.op == 'const' else '{a}'} is outside of an array of length "
            message += "{b}" if isinstance(length, Var) else f"{length}"
            checks.append(InRange(i, length, message, index.span))
            at = add(self.product(at, length_of(length)), i, self.w)
        for length in rest:
            at = self.product(at, length_of(length))
        address = found.address.shifted(at, 1, *checks)
        if rest:
            return ArrayPlace(found.name, found.type, rest, address)
        if self.changed is not None and self.changed.region is address.region and self.changed is not address:
            address = self.apart(address, self.changed, node.span)
        return ScalarPlace(node.name, found.type, address)

    def apart(self, address: Address, other: Address, span: Span) -> Address:
        """The address, tested to be another one of the same region."""
        distance = address.minus(other)
        if distance:
            return address
        # d ≠ 0 exactly if d − 1 is less than the greatest word.
        d = sub(sub(self.offset(address), self.offset(other), self.w), const(1, INT), self.w)
        message = f"`{self.text(span)}` is the element that the statement changes"
        return address._replace(checks=(*address.checks, InRange(d, self.w.mask, message, span, "RG0805")))

    def offset(self, address: Address) -> E:
        """The address, counted from the base of its region."""
        out: E = const(address.offset, INT)
        for term, factor in address.terms:
            out = add(out, self.product(term, const(factor, INT)), self.w)
        return out

    # ------------------------------------------------------------------ operators

    def product(self, x: E, y: E) -> E:
        if x.op == "const" and y.op == "const":
            return const(self.w.signed(x.param * y.param), INT)
        for a, b in ((x, y), (y, x)):
            if a.op == "const" and a.param == 1:
                return b
            # An operand that may trap is computed even where its value does not matter.
            if a.op == "const" and a.param == 0 and not lazy(b):
                return a
        return apply("mul", INT, x, y)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        """The value of an operator other than `&&` and `||`."""
        if op in ("+", "-", "*"):
            return self._sum(op, x, y)
        t = _common(x, y)
        if op not in ("<<", ">>"):
            # A literal is a number of the type of the operand beside it.
            x, y = (Value(v.e, t, exact=False) if v.type == LITERAL else v for v in (x, y))
        x, y = exact(x, self.w), exact(y, self.w)
        if op in ("=", "!=", "<", "<=", ">", ">="):
            return Value(self._comparison(op, x.e, y.e, t), None)
        if op in ("&", "|", "^"):
            return Value(self._bitwise(op, x.e, y.e, t), t)
        assert t is not None
        if op in ("/", "%") and x.e.op == y.e.op == "const" and y.e.param:
            a, b = (self.w.wrap(e.param) if self._unsigned(t) else e.param for e in (x.e, y.e))
            return Value(const(self.w.signed(a // b if op == "/" else a % b), INT), t, exact=op == "%")
        match op:
            case "/" | "%" if self._unsigned(t):
                return Value(self._unsigned_division(op, x.e, y.e), t)
            case "/":
                return Value(apply("div", INT, x.e, y.e), t, exact=False)
            case "%":
                return Value(apply("mod", INT, x.e, y.e), t)
            case "<<" | ">>":
                return self._shift(op, x.e, y.e, x.type or t)
            case "**":
                return Value(self._power(x.e, y.e, self._unsigned(t)), t, exact=False)
            case "*/":
                return Value(self._fractional_product(x.e, y.e), t)
        raise TypeError(op)

    def _unsigned(self, t: Integer) -> bool:
        return not t.signed and t.width == self.w.width

    def _sum(self, op: str, x: Value, y: Value) -> Value:
        t = _common(x, y)
        assert t is not None
        if op == "*":
            return Value(self.product(x.e, y.e), t, exact=False)
        return Value((add if op == "+" else sub)(x.e, y.e, self.w), t, exact=False)

    def _comparison(self, op: str, x: E, y: E, t: Integer | None) -> E:
        if op in (">", "<="):
            x, y = y, x
        if x.op == "const" and y.op == "const":
            a, b = (self.w.wrap(e.param) if t is not None and self._unsigned(t) else e.param for e in (x, y))
            return const(int({"=": a == b, "!=": a != b, "<": a < b, ">": a < b, "<=": a >= b, ">=": a >= b}[op]), BOOL)
        if op in ("=", "!="):
            e = apply("seq", BOOL, x, y)
            return negated(e) if op == "!=" else e
        e = apply("sltu" if t is not None and self._unsigned(t) else "slt", BOOL, x, y)
        return negated(e) if op in ("<=", ">=") else e

    def _bitwise(self, op: str, x: E, y: E, t: Integer | None) -> E:
        if t is None:
            if op == "^":
                return negated(apply("seq", BOOL, x, y))
            return apply("and" if op == "&" else "or", BOOL, x, y)
        if x.op == "const" and y.op == "const":
            return const({"&": x.param & y.param, "|": x.param | y.param, "^": x.param ^ y.param}[op], INT)
        if op == "^":
            return sub(apply("or", INT, x, y), apply("and", INT, x, y), self.w)
        return apply("and" if op == "&" else "or", INT, x, y)

    def _shift(self, op: str, x: E, n: E, t: Integer) -> Value:
        width = t.width or self.w.width
        left, last = op == "<<", const(width - 1, INT)
        name = "shl" if left else "sar" if t.signed else "shr"
        beyond = self.product(x, const(0, INT)) if left or not t.signed else apply("sar", INT, x, last)
        if n.op == "const":
            if not 0 <= n.param < width:
                return Value(beyond, t)
            if x.op == "const" and (t.signed or left):
                return (
                    Value(const(x.param >> n.param, INT), t)
                    if not left
                    else Value(const(self.w.signed(x.param << n.param), INT), t, exact=False)
                )
            return Value(apply(name, INT, x, n), t, exact=not left)
        near = apply("sltu", BOOL, n, const(width, INT))
        return Value(choose(near, apply(name, INT, x, n), beyond), t, exact=not left)

    def _power(self, x: E, n: E, unsigned: bool) -> E:
        """x^n. An unsigned n is halved first, x^n = x^(n mod 2) · (x^⌊n/2⌋)², since its upper half has the sign bit."""
        if n.op == "const" and n.param == 0:
            return add(self.product(x, n), const(1, INT), self.w)
        if n.op == "const" and n.param > 0:
            found = self.arithmetic.binary("**", Scalar(x), Constant(n.param))
            return self.arithmetic.expression(found)
        if unsigned:
            one = const(1, INT)
            half = E("power", INT, (x, apply("shr", INT, n, one)))
            odd = choose(apply("seq", BOOL, apply("and", INT, n, one), one), x, one)
            return self.product(odd, self.product(half, half))
        return E("power", INT, (x, n))

    def _fractional_product(self, x: E, y: E) -> E:
        """⌊x · y / 2^(W−1)⌋, from four products of halves of W / 2 bits, the upper ones with a sign (Warren, Hacker's Delight)."""
        half, mask = const(self.w.width // 2, INT), const((1 << self.w.width // 2) - 1, INT)
        low_x, low_y = apply("and", INT, x, mask), apply("and", INT, y, mask)
        high_x, high_y = apply("sar", INT, x, half), apply("sar", INT, y, half)
        first = apply("shr", INT, self.product(low_x, low_y), half)
        inner = add(self.product(high_x, low_y), first, self.w)
        cross = add(self.product(low_x, high_y), apply("and", INT, inner, mask), self.w)
        high = add(self.product(high_x, high_y), apply("sar", INT, inner, half), self.w)
        high = add(high, apply("sar", INT, cross, half), self.w)
        last = apply("shr", INT, self.product(x, y), const(self.w.width - 1, INT))
        return add(apply("shl", INT, high, const(1, INT)), last, self.w)

    def _unsigned_division(self, op: str, x: E, y: E) -> E:
        """⌊x / y⌋ or the remainder of unsigned words of the whole width.

        y ≥ 2^(W−1): the quotient is 0 or 1. Else q = 2 · ⌊⌊x / 2⌋ / y⌋ is the quotient or one less.
        """
        zero, one = const(0, INT), const(1, INT)
        half = apply("div", INT, apply("shr", INT, x, one), y)
        low = apply("shl", INT, half, one)
        rest = sub(x, apply("mul", INT, low, y), self.w)
        is_one_less = negated(apply("sltu", BOOL, rest, y))
        quotient = add(low, apply("mov", INT, is_one_less), self.w)
        is_one = negated(apply("sltu", BOOL, x, y))
        quotient = choose(apply("slt", BOOL, y, zero), apply("mov", INT, is_one), quotient)
        return quotient if op == "/" else sub(x, apply("mul", INT, quotient, y), self.w)


def described(t: Integer | None, w: Format) -> str:
    """A type in words."""
    if t is None:
        return "a condition"
    if t.width in (0, w.width) and t.signed:
        return "an int"
    return f"a {'i' if t.signed else 'u'}{t.width}"


def counted(n: int, noun: str) -> str:
    """`1 argument`, `2 arguments`."""
    return f"{n} {noun}{'s' * (n != 1)}"


def described_place(place: Place, w: Format) -> str:
    """The type of a variable, an array or a stack in words."""
    match place:
        case ScalarPlace(type=t):
            return "a bool" if t is None else described(t, w)
        case ArrayPlace(type=t, lengths=lengths):
            element = "bools" if t is None else f"{described(t, w).split()[-1]}s"
            return f"an array of {element} with {counted(len(lengths), 'dimension')}"
        case StackPlace():
            return "a stack"


def _common(x: Value, y: Value) -> Integer | None:
    """The type of both operands, of which one may be a literal."""
    if x.type is None or y.type is None:
        return None
    return y.type if x.type.width == 0 else x.type


def word_type(name: str, w: Format, fail: Callable[..., NoReturn], span: Span) -> Integer | None:
    """`integer`, of a type that a word can hold. Raises CompileError RG0714 by `fail`."""
    t = integer(name, w)
    if t is not None and t.width > w.width:
        fail("RG0714", f"`{name}` has {t.width} bits, and a word {w.width}", span, WIDER)
    return t


def integer(name: str, w: Format) -> Integer | None:
    """The type of a name: `int`, `bool`, `u8` …; None for `bool`."""
    if name == "bool":
        return None
    if name == "int":
        return Integer(w.width)
    return Integer(int(name[1:]), name[0] == "i")
