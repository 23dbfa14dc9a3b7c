"""Values and places of Janus while a procedure is lowered.

An integer of k bits, k < W, is kept as v · 2^(W−k): sums and exclusive ors of such words wrap at k bits by themselves. Expressions work
with the number v itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.text import SourceText
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
    read,
    sub,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, Kind, Local, Node, Region, Var
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, layouts
from retrograd.compiler.language.values import Condition, Constant, Scalar
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest
from retrograd.isa.program import ArrayLayout
from retrograd.isa.words import Format

INT, BOOL = Kind.INT, Kind.BOOL


class Integer(NamedTuple):
    """A type of integers. `width` 0: a literal, which has the type of the operand beside it."""

    width: int
    signed: bool = True


LITERAL = Integer(0)


class Value(NamedTuple):
    """A number or a truth value. `exact`: the number lies in the range of its type; else it is right only modulo 2^width."""

    e: E
    #: None for a truth value
    type: Integer | None
    exact: bool = True


@dataclass(frozen=True)
class ScalarPlace:
    """A variable or an element of an array."""

    name: str
    type: Integer | None
    where: Var | Address
    #: declared `constant`: no statement may change it
    constant: bool = False

    @property
    def kind(self) -> Kind:
        return BOOL if self.type is None else INT


@dataclass(frozen=True)
class ArrayPlace:
    """An array. A length is a number, or the variable that holds it. `capacities`: those of its stacks."""

    name: str
    type: Integer | None
    lengths: tuple[int | Var, ...]
    address: Address
    capacities: tuple[int, ...] = ()


@dataclass(frozen=True)
class StackPlace:
    """A stack in memory: a count, then the words, which are zero from the count on.

    `capacities`: how many values it may hold; of a stack of stacks those of the stacks in it, too.
    """

    name: str
    capacities: tuple[int, ...]
    address: Address

    @property
    def capacity(self) -> int:
        return self.capacities[0]

    @property
    def element(self) -> int:
        """Words of a value on the stack."""
        return words_of(self.capacities[1:])


Place = ScalarPlace | ArrayPlace | StackPlace


def depth_of(kind: str) -> int:
    """1 for the type `stack`, 2 for `stack stack`, …; 0 for another type."""
    return kind.split().count("stack")


#: the capacities of stacks inside of a stack, the innermost last: those of a stack on another stack have one size
_INNER = (16, 64, 64)


def capacities_of(depth: int, words: int) -> tuple[int, ...]:
    """The capacities of a stack, and of the stacks in it. `words`: of a stack of numbers."""
    return (words // (1, 64, 256, 1024)[depth - 1], *_INNER[len(_INNER) + 1 - depth :]) if depth else ()


def words_of(capacities: Sequence[int]) -> int:
    """Words of a stack; 1 for a number."""
    size = 1
    for capacity in reversed(capacities):
        size = 1 + capacity * size
    return size


def lengths_of(place: ArrayPlace | StackPlace) -> tuple[int | Var, ...]:
    """The lengths of an array; none of a stack."""
    return place.lengths if isinstance(place, ArrayPlace) else ()


def stack_type(capacities: Sequence[int]) -> StackType | ScalarType:
    """The type of a stack; that of an integer without capacities."""
    return StackType(stack_type(capacities[1:]), capacities[0]) if capacities else ScalarType(INT)


def array_layouts(
    name: str, t: Integer | None, lengths: Sequence[int | Var | None], w: Format, capacities: Sequence[int] = ()
) -> tuple[ArrayLayout, ...]:
    """The layout for debuggers; none where a length is unknown, or where a word is no number itself."""
    known = tuple(n for n in lengths if isinstance(n, int))
    if len(known) < len(lengths) or (t is not None and t.width != w.width):
        return ()
    element = ScalarType(BOOL) if t is None and not capacities else stack_type(capacities)
    return tuple(layouts(ArrayType(element, known) if known else element, name))


def region_of(place: ArrayPlace | StackPlace) -> Region:
    return place.address.region


def length_of(length: int | Var) -> E:
    """A length as an expression."""
    return read(length) if isinstance(length, Var) else const(length, INT)


def word_in(place: ScalarPlace) -> E:
    """The word that the place holds."""
    return read(place.where) if isinstance(place.where, Var) else load(place.where, place.kind)


def _amount(t: Integer, w: Format) -> int:
    return 0 if t.width == 0 else w.width - t.width


def from_stored(e: E, t: Integer | None, w: Format) -> E:
    """The number whose stored word is e."""
    if t is None or not _amount(t, w):
        return e
    return apply("sar" if t.signed else "shr", INT, e, const(_amount(t, w), INT))


def to_stored(value: Value, t: Integer | None, w: Format) -> E:
    """The stored word of a number, for a place of this type."""
    if t is None or not _amount(t, w):
        return value.e
    if value.e.op == "const":
        return const(w.signed(value.e.param << _amount(t, w)), INT)
    return apply("shl", INT, value.e, const(_amount(t, w), INT))


def exact(value: Value, w: Format) -> Value:
    """The same number, in the range of its type."""
    t = value.type
    if value.exact or t is None or not _amount(t, w):
        return value
    if value.e.op == "const":
        return Value(const(number_in(value.e.param, t, w), INT), t)
    return Value(from_stored(to_stored(value, t, w), t, w), t)


def number_in(number: int, t: Integer, w: Format) -> int:
    """The number of a type that is equal to a number modulo 2^width, as a signed word."""
    width = t.width or w.width
    rest = number & ((1 << width) - 1)
    if t.signed and rest >> (width - 1):
        rest -= 1 << width
    return w.signed(rest)


# -----------------------------------------------------------------------------
# Lowering of expressions of Janus to expressions of the IR.
#
#     x / y, x % y      floored                    x << n, x >> n     0, or the sign, from n = width on
#     x && y, x || y    y only where x decides nothing
#     x */ y            ⌊x · y / 2^(W−1)⌋
#     a[i]              within Σ strides · i, each index tested against its length
#
# Traps: an element of the array that the statement changes is tested to be another element than the changed one.

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

    def reads(self, node: syntax.Expression) -> Iterator[syntax.Reference]:
        """What an expression reads: the size of a stack, and not that of an array, which no statement changes."""
        return syntax.references(node, lambda size: isinstance(self.place(size.of), StackPlace))

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
            case syntax.Size(of=of):
                found = self.place(of)
                if isinstance(found, StackPlace):
                    return Value(load(found.address, INT), Integer(self.w.width))
                if isinstance(found, ScalarPlace):
                    self.fail("RG0703", f"`{self.text(of.span)}` is one number, which has no size", node.span)
                return Value(length_of(found.lengths[0]), Integer(self.w.width))
            case syntax.Empty(of=of):
                count = load(self.stack(of).address, INT)
                return Value(apply("seq", BOOL, count, const(0, INT)), None)
            case syntax.Top(of=of, span=span):
                return Value(self._top(self.stack(of), span), Integer(self.w.width))
        raise TypeError(node)

    def read(self, place: ScalarPlace) -> Value:
        """The value that a place holds."""
        return Value(from_stored(word_in(place), place.type, self.w), place.type)

    def stack(self, node: syntax.Reference) -> StackPlace:
        found = self.place(node)
        if not isinstance(found, StackPlace):
            self.fail("RG0703", f"`{self.text(node.span)}` is no stack", node.span)
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
        if len(stack.capacities) > 1:
            self.fail("RG0703", f"the top of `{stack.name}` is a stack, and no number", span, "Pop it into a stack.")
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
        address = found.address.shifted(at, words_of(found.capacities), *checks)
        if rest:
            return replace(found, lengths=rest, address=address)
        if found.capacities:
            return StackPlace(found.name, found.capacities, address)
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
        case ArrayPlace(lengths=lengths, capacities=(_, *_)):
            return f"an array of stacks with {counted(len(lengths), 'dimension')}"
        case ArrayPlace(type=t, lengths=lengths):
            element = "bools" if t is None else f"{described(t, w).split()[-1]}s"
            return f"an array of {element} with {counted(len(lengths), 'dimension')}"
        case StackPlace(capacities=capacities):
            return "a stack" + " of stacks" * (len(capacities) - 1)


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
    if name == "int" or depth_of(name):
        return Integer(w.width)
    return Integer(int(name[1:]), name[0] == "i")


# -----------------------------------------------------------------------------
# The IR of one body while it is made: the nodes so far, the places in scope, and the errors.

#: fixes of errors in the words of Janus, where those of the kinds of errors are in the words of Python
FIXES = {
    "RG0702": "Declare it: among the variables of `main`, by `local … delocal`, as a parameter; in 1982 above the procedures.",
    "RG0703": "docs/janus.md lists the types, and the operators of each.",
    "RG0704": "Copy the value into a local variable, and free that with an expression of the values after the statement.",
    "RG0706": "Choose another name: a name stands for one variable in a procedure.",
    "RG0709": "Update another variable, or declare it without `constant`.",
    "RG0712": "Make the lengths equal; missing values of an array are zeros.",
    "RG0715": "Give one argument for each parameter, of its type.",
}


class Code:
    """The code of one version of a procedure.

    `names`: the places in scope; `span`: the place of the current statement; `findings`: the errors of all versions so far.
    """

    def __init__(self, module: ModuleBuilder, source: SourceText, findings: list[Diagnostic]) -> None:
        self.module, self.w, self.source, self.findings = module, module.w, source, findings
        self.names: dict[str, Place] = {}
        self.out: list[Node] = []
        self.span = Span(source.name, 1, 1, 2)
        self.expressions = Expressions(self.w, self.names, self.text, self.fail)

    # ------------------------------------------------------------------ the source

    def text(self, span: Span) -> str:
        """The piece of the source at a place."""
        found = self.source.piece(span).strip()
        return found if len(found) <= 50 else found[:47] + "…"

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raise CompileError. Without a hint, the fix of the kind of error for Janus is shown."""
        raise CompileError(self.source.diagnostic(code, message, span, hint or FIXES.get(code)))

    # ------------------------------------------------------------------ emission

    def emit(self, *nodes: Node) -> None:
        self.out.extend(nodes)

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.span, self.module.powers)

    @contextmanager
    def collect(self) -> Iterator[list[Node]]:
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def update(self, place: ScalarPlace, update: str, value: Value) -> None:
        """place update= value."""
        e = to_stored(value, place.type, self.w)
        if place.kind is BOOL:
            update = "xor"
        t = self.temporaries()
        where = place.where
        body: list[Node] = []
        if isinstance(where, Var):
            t.into(body, where, update, e)
            self.emit(*t.wrap(tuple(body)))
            return
        if e.op in ("const", "read", "load"):
            body.append(t.memory(f"st.{update}", t.operand(e), where))
        else:
            d = Var(f"%{where.region.name}", place.kind, self.span)
            t.into(body, d, update, e)
            # The word is exchanged into d after the temporaries are computed, since they may read the array.
            t.compute += [Local(d, False, self.span), t.memory("exch", d, where)]
        self.emit(*t.wrap(tuple(body)))

    def toggle(self, bit: Var, condition: E) -> Block:
        """bit ^= condition."""
        t = self.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def require_variable(self, place: Place, span: Span) -> None:
        """Refuse to change a constant."""
        if isinstance(place, ScalarPlace) and place.constant:
            self.fail("RG0709", f"`{place.name}` is a constant, and cannot be changed", span)

    def words(self, place: ArrayPlace | StackPlace) -> E:
        """The number of words that an array or stack has."""
        out: E = const(words_of(place.capacities), INT)
        for length in lengths_of(place):
            out = self.expressions.product(out, length_of(length))
        return out

    # ------------------------------------------------------------------ conditions

    def pair(self, before: syntax.Expression, after: syntax.Expression, negated: bool = False) -> None:
        """Keep the texts of two conditions for the messages of traps."""
        self.module.conditions[before.span] = self._described(before, negated), self._described(after, negated)

    def _described(self, node: syntax.Expression, negated: bool) -> Condition:
        sides: tuple[str | None, str | None] = (None, None)
        if isinstance(node, syntax.Binary) and node.operator in ("<", ">=", "=", "!=", ">", "<="):
            pair = [node.left, node.right]
            if node.operator in (">", "<="):
                pair.reverse()
            texts = [None if isinstance(x, syntax.Number) else self.text(x.span) for x in pair]
            sides = texts[0], texts[1]
        return Condition(self.text(node.span), node.span, sides, negated)
