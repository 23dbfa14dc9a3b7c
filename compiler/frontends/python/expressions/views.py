"""Views that are bijections: expressions of a variable through which the variable can be changed.

    -x    2 * x    x / 4    3 * z (of a lognum)    ~n    not b    fixed(n)    int(x)    lognum(x)    fixed(z)    z.conjugate()

    x seen through v:   x := v(x);  use;  x := v⁻¹(x)

A view that keeps the type of the word and has an inverse for all words is one instruction on the word: −x, ~n, c · z, and of z̄ the
imaginary part. Any other view
moves the word to another variable, m = v(x), and the program tests that v⁻¹(m) is x, here and after the use:

    m += v(x);  x −= v⁻¹(m);  test x = 0;    use of m;    x += v⁻¹(m);  m −= v(x);  test m = 0

Trap: of the views that are tested, 2 · x, int(x) and fixed(n) have an inverse for each value that fits; lognum(x) for values whose
logarithm is not rounded to that of another number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Address, E, Length, const, constant, load, read
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    Kind,
    Local,
    Node,
    Op,
    Region,
    Test,
    Var,
)
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.complex_numbers import is_conjugation
from retrograd.compiler.language.types import ScalarType, is_complex, is_empty, note_range, scalar_of
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Scalar,
    StackValue,
    StructValue,
    Value,
    variable,
)
from retrograd.isa.table import TABLE

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM
MADE_BY = {FIXED: "add", INT: "add", UINT: "add", BOOL: "xor", LOGNUM: "mul"}
#: kinds between which there is a view, and back
_CONVERTED = (
    (INT, FIXED), (FIXED, INT), (FIXED, LOGNUM), (LOGNUM, FIXED), (INT, BOOL), (BOOL, INT), (INT, UINT), (UINT, INT), (UINT, BOOL),
    (BOOL, UINT),
)  # fmt: skip

#: a hint
VIEWS = "Views are -x, 2 * x and x / 4 (powers of two), c * z of a lognum, ~n, not b, fixed(n), int(x), uint(n), lognum(x), z.conjugate(), x.T, slices, and these of each other."


@dataclass(frozen=True)
class Step:
    """A bijection of words of one kind to words of another. `text`: of the whole view, for messages.

    `in_place`: the instruction on a variable, where one does it; else `forward` and `back` are expressions of the word.
    `part`: the field of a complex number that it turns; None for all words.
    """

    text: str
    kind: Kind
    in_place: Callable[[Var], Op] | None = None
    forward: Callable[[E], E] | None = None
    back: Callable[[E], E] | None = None
    part: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class View:
    """A variable, array or struct, and the steps from its words to those of the view."""

    place: Value
    steps: tuple[Step, ...] = ()

    @property
    def value(self) -> Value:
        """The view of an array or struct, whose words stay where they are."""
        return _of_kind(self.place, self.steps[-1].kind) if self.steps else self.place

    @property
    def kind(self) -> Kind | None:
        """The kind of all words of the view, or None where there are several."""
        return self.steps[-1].kind if self.steps else _kind_of(self.place)

    def of_field(self, name: str) -> View | None:
        """The view of one field of a struct, or None where it has no such field."""
        if not isinstance(self.place, StructValue) or name not in self.place.fields:
            return None
        return View(self.place.fields[name], tuple(s for s in self.steps if s.part in (None, name)))


@dataclass(eq=False)
class Views:
    """Views of the variables of one function."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder

    def of(self, node: ast.expr) -> View | None:
        """The view that an expression is, or None."""
        match node:
            case ast.UnaryOp(ast.USub() | ast.Invert() | ast.Not() as sign, operand):
                inner = self._operand(operand)
                return inner and self._extended(inner, node, lambda kind: self._turned(sign, kind, node))
            case ast.BinOp(left, ast.Mult() | ast.Div() | ast.FloorDiv() as op, right):
                factor, operand = self._factor(right), left
                if factor is None and isinstance(op, ast.Mult):
                    factor, operand = self._factor(left), right
                if not factor:
                    return None
                by = factor
                inner = self._operand(operand)
                return inner and self._extended(inner, node, lambda kind: self._scaled(op, by, kind, node))
            case ast.Call(ast.Attribute(operand, "conjugate" | "conj"), [], []):
                return self._conjugate(operand, node)
            case ast.Call(func, [operand], []) if isinstance(func, ast.Name | ast.Attribute):
                f = self.expressions.value(func)
                if isinstance(f, Constant) and is_conjugation(f.value):
                    return self._conjugate(operand, node)
                wanted = scalar_of(f.value) if isinstance(f, Constant) else None
                if wanted is None:
                    return None
                to, inner = wanted.kind, self._operand(operand)
                return inner and self._extended(inner, node, lambda kind: self._turned_into(to, kind, node))
        return None

    def _operand(self, node: ast.expr) -> View | None:
        """The view of an operand: a place by itself has no steps."""
        found = self.of(node)
        if found is not None:
            return found
        value = self.expressions.value(node)
        return View(value) if _writable(value) else None

    def _conjugate(self, operand: ast.expr, node: ast.expr) -> View | None:
        """z̄ of a complex number or an array of these; a real number is its own conjugate."""
        inner = self._operand(operand)
        if inner is None or not _is_complex(inner.place):
            return inner
        span = self.errors.span(node)
        negate: Callable[[Var], Op] = lambda d: Op(TABLE["neg"], d, None, None, 0, span)  # noqa: E731
        return View(inner.place, (*inner.steps, Step(shortened(node), FIXED, negate, part="im")))

    def _factor(self, node: ast.expr) -> Fraction | None:
        value = self.expressions.value(node)
        if not isinstance(value, Constant) or number_kind(value.value) not in (INT, FIXED):
            return None
        try:
            return Fraction(value.value)
        except (OverflowError, ValueError):
            return None

    def _extended(self, inner: View, node: ast.expr, made: Callable[[Kind], Step | None]) -> View | None:
        """The view with one more step, where there is such a step."""
        kind = inner.kind
        step = None if kind is None else made(kind)
        if step is None or (step.kind is not kind and not _of_scalars(inner.place)):
            return None
        return View(inner.place, (*inner.steps, step))

    # ------------------------------------------------------------------ steps

    def _turned(self, op: ast.unaryop, kind: Kind, node: ast.expr) -> Step | None:
        """−x, ~n, not b: their own inverses."""
        text, span = shortened(node), self.errors.span(node)
        match op, kind:
            case ast.USub(), (Kind.INT | Kind.UINT | Kind.FIXED):
                return Step(text, kind, lambda d: Op(TABLE["neg"], d, None, None, 0, span))
            case ast.USub(), Kind.LOGNUM:
                minus = Const(self.builder.w.sign)
                return Step(text, kind, lambda d: Op(TABLE["lmov.mul"], d, minus, None, 0, span))
            case ast.Invert(), (Kind.INT | Kind.UINT):
                return Step(text, kind, lambda d: Op(TABLE["not"], d, None, None, 0, span))
            case ast.Not(), Kind.BOOL:
                return Step(text, kind, lambda d: Op(TABLE["mov.xor"], d, Const(1), None, 0, span))
        return None

    def _scaled(self, op: ast.operator, factor: Fraction, kind: Kind, node: ast.expr) -> Step | None:
        """c · x: of a lognum for each c, of other numbers for powers of two."""
        text, span, w = shortened(node), self.errors.span(node), self.builder.w
        if kind is LOGNUM and not isinstance(op, ast.FloorDiv):
            by = self.errors.guarded(node, self.builder.module.constants.number, float(factor), LOGNUM)
            names = ("*", "/") if isinstance(op, ast.Mult) else ("/", "*")
            if by.op != "const":
                return Step(text, kind, None, *(self._by(name, by) for name in names))
            word = Const(w.wrap(by.param))
            opcode = TABLE["lmov.mul" if isinstance(op, ast.Mult) else "lmov.div"]
            return Step(text, kind, lambda d: Op(opcode, d, word, None, 0, span))
        shift = _exponent(factor)
        if shift is None or (isinstance(op, ast.FloorDiv) if kind is FIXED else isinstance(op, ast.Div)):
            return None
        up = shift if isinstance(op, ast.Mult) else -shift
        if kind is FIXED and -w.frac <= up <= w.frac and abs(up) < w.width - w.frac - 1:
            factors = constant(Fraction(2) ** up, FIXED, w), constant(Fraction(2) ** -up, FIXED, w)
            return Step(text, kind, None, *(self._by("*", by) for by in factors))
        if kind in (INT, UINT) and abs(up) < w.width:
            ways = [self._by(symbol, const(abs(up), INT)) for symbol in ("<<", ">>")]
            forward, back_ = ways if up >= 0 else ways[::-1]
            return Step(text, kind, None, forward, back_)
        return None

    def _by(self, symbol: str, operand: E) -> Callable[[E], E]:
        """e -> e ∘ operand."""
        arithmetic = self.expressions.arithmetic
        return lambda e: _scalar(arithmetic.binary(symbol, Scalar(e), Scalar(operand)))

    def _turned_into(self, wanted: Kind, kind: Kind, node: ast.expr) -> Step | None:
        """fixed(n), int(x), lognum(x) and their like."""
        if (kind, wanted) not in _CONVERTED:
            return None
        return Step(shortened(node), wanted, None, self._conversion(kind, wanted), self._conversion(wanted, kind))

    def _conversion(self, kind: Kind, wanted: Kind) -> Callable[[E], E]:
        arithmetic = self.expressions.arithmetic
        if (kind, wanted) == (FIXED, INT):
            return lambda e: _scalar(arithmetic.function("floor", [Scalar(e)]))
        return lambda e: _scalar(arithmetic.conversion(wanted, Scalar(e)))

    # ------------------------------------------------------------------ statements

    def lend(self, view: View, node: ast.expr, name: str = "") -> tuple[Block, Value]:
        """(statements that turn the variable into the view, the view as a place). Their inverse turns it back. `name`: that of the view."""
        return self._lent(view.place, view.steps, node, name)

    def _lent(self, place: Value, steps: Sequence[Step], node: ast.expr, name: str) -> tuple[Block, Value]:
        if not steps:
            return (), place
        match place:
            case Scalar(_, Var() as x):
                nodes: list[Node] = []
                for step in steps:
                    x = self._stepped(nodes, step, x, node, None, name)
                return tuple(nodes), variable(x)
            case Scalar(_, Address() as at):
                return self._in_memory(at, place.kind, steps, node), _of_kind(place, steps[-1].kind)
            case StructValue(t, fields):
                views = {f: View(place, tuple(steps)).of_field(f) for f in fields}
                parts = {
                    f: self._lent(v.place, v.steps, node, f"{name}.{f}" if name else "") for f, v in views.items() if v
                }
                return tuple(n for block, _ in parts.values() for n in block), StructValue(
                    t, {f: v for f, (_, v) in parts.items()}
                )
            case ArrayView(_, shape):
                return self._of_elements(place, shape, steps, node), _of_kind(place, steps[-1].kind)
        raise TypeError(place)

    def _of_elements(self, place: ArrayView, shape: Sequence[Length], steps: Sequence[Step], node: ast.expr) -> Block:
        if is_empty(shape):
            return ()
        span = self.errors.span(node)
        indices = [Var(f"i{n}", INT, span) for n in range(len(shape))]
        for var, length in zip(indices, shape, strict=True):
            note_range(self.builder.ranges, var, length, self.builder.w)
        block, _ = self._lent(element(place, tuple(read(i) for i in indices)), steps, node, "")
        t = self.builder.temporaries()
        return t.wrap(t.loops(indices, shape, block))

    def _in_memory(self, at: Address, kind: Kind, steps: Sequence[Step], node: ast.expr) -> Block:
        """The word is exchanged into a variable, and back when it is turned."""
        t, span = self.builder.temporaries(), self.errors.span(node)
        held = Var(at.region.name_of_word, kind, span)
        nodes: list[Node] = [Local(held, False, span), t.memory("exch", held, at)]
        left = held
        for step in steps:
            left = self._stepped(nodes, step, left, node, at.region)
        nodes += [t.memory("exch", left, at), Delocal(left, False, span)]
        return t.wrap(tuple(nodes))

    def _stepped(
        self, nodes: list[Node], step: Step, x: Var, node: ast.expr, region: Region | None, name: str = ""
    ) -> Var:
        """Append one step on a variable; the variable that has the word afterwards. Without a region x stays, and is zero."""
        if step.in_place is not None:
            nodes.append(step.in_place(x))
            return x
        assert step.forward is not None
        assert step.back is not None
        span, whole = self.errors.span(node), step.text
        m = Var(name or x.name, step.kind, span)
        made = MADE_BY[step.kind]
        nodes += [
            Local(m, False, span),
            Check(
                Test("eq", m, ZERO), "RG0814", f"`{whole}` was changed to a value without an inverse: {_rest(m)}", span
            ),
            *self._updated(m, made, step.forward(read(x)), True),
            *self._updated(x, OPPOSITE[MADE_BY[x.kind]], step.back(read(m)), False),
            Check(Test("eq", x, ZERO), "RG0814", f"`{whole}` has no inverse here: {_rest(x)}", span),
        ]
        if region is not None:
            nodes.append(Delocal(x, False, span))
        return m

    def _updated(self, d: Var, update: str, e: E, fresh: bool) -> Block:
        t = self.builder.temporaries()
        body: list[Node] = []
        t.into(body, d, update, e, fresh)
        return t.wrap(tuple(body))


def _rest(x: Var) -> str:
    return "back and forth leave the factor {a}" if x.kind is LOGNUM else "back and forth leave {a}"


def _scalar(value: Value) -> E:
    assert isinstance(value, Scalar)
    return value.e


def _exponent(factor: Fraction) -> int | None:
    """k with factor = 2^k, or None."""
    top, bottom = factor.numerator, factor.denominator
    if top <= 0 or top & top - 1 or bottom & bottom - 1:
        return None
    return top.bit_length() - bottom.bit_length()


def _writable(value: Value) -> bool:
    """Whether a value is a place, all of which may be changed."""
    match value:
        case Scalar(_, place, why_not):
            return place is not None and why_not is None
        case ArrayView(why_not=why_not):
            return why_not is None
        case StructValue(_, fields):
            return bool(fields) and all(map(_writable, fields.values()))
    return False


def _kind_of(value: Value) -> Kind | None:
    """The kind of all words of a place, or None where there are several."""
    match value:
        case Scalar():
            return value.kind
        case ArrayView(ScalarType(kind)):
            return kind
        case ArrayView():
            return _kind_of(element(value, tuple(const(0, INT) for _ in value.shape)))
        case StructValue(_, fields):
            found = {_kind_of(v) for v in fields.values()}
            return found.pop() if len(found) == 1 else None
    return None


def _is_complex(value: Value) -> bool:
    """Whether a place is a complex number or an array of complex numbers."""
    t = value.element if isinstance(value, ArrayView) else value.type if isinstance(value, StructValue) else None
    return is_complex(t)


def _of_scalars(value: Value) -> bool:
    """Whether a place is a number or an array of numbers, whose type can be another."""
    return isinstance(value, Scalar) or (isinstance(value, ArrayView) and isinstance(value.element, ScalarType))


def _of_kind(value: Value, kind: Kind) -> Value:
    """The place in memory with words of another kind."""
    match value:
        case Scalar(_, Address() as at, why_not):
            return Scalar(load(at, kind), at, why_not)
        case ArrayView(ScalarType()):
            return replace(value, element=ScalarType(kind))
    return value


def roots(value: Value) -> set[Var | Region]:
    """The variables and stretches of memory that a value lies in."""
    match value:
        case Scalar(_, Var() as x):
            return {x}
        case Scalar(_, Address() as at) | ArrayView(address=at) | StackValue(address=at):
            return {at.region}
        case StructValue(_, fields):
            return {r for v in fields.values() for r in roots(v)}
        case FunctionValue(captured=captured):
            return {r for _, v in captured for r in roots(v)}
    return set()
