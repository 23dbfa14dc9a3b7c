"""Arrays in functional programs: expressions of whole arrays, by the front end of reversible functions.

    X @ w + b, rg.sum(x * x), x[1:], X[:, j], X.T       the value that the same syntax has in a reversible function

An operator, an index or a reduction whose operands are arrays is a `Primitive` with the rules `Syntax`. Its operands
become values of the reversible front end, and so do those of an `Operation` on arrays. That front end has shapes,
broadcasting, bounds and messages; the result is a view, a number, or an array expression, of which no element is
computed yet (`values.Lazy`).

Nested operations on arrays make one expression. Where it gets a name, is passed, or is an operand of which elements are
used several times, it becomes an array of ancillas: loops that add each element to zeros. They are computed once, kept
like every other value, and undone with the block that they stand in. So a derivative needs no rule of its own.
The results of branches, and of calls that are not inlined, lie in the heap (`procedures.Body.array`).

Trap: views have strides, which are a part of their type. So a view is taken of an array in memory, never of an
expression.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any, NoReturn

import numpy as np
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.frontends.functional.core import Place, fail, guarded
from retrograd.compiler.frontends.functional.types import (
    BOOL,
    FIXED,
    INT,
    NOTHING,
    UINT,
    Array,
    Known,
    List,
    Nothing,
    Tuple,
    Type,
    Value,
    Word,
    combined,
    has_names,
    named,
    names_of,
    record,
)
from retrograd.compiler.frontends.python.allocation import any_element, new_array
from retrograd.compiler.frontends.python.calls import REDUCTIONS
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.context import Context
from retrograd.compiler.frontends.python.expressions import held
from retrograd.compiler.frontends.python.indexing import made_by
from retrograd.compiler.frontends.python.source import Errors, Source, SourceFunction, shortened
from retrograd.compiler.frontends.python.updates import update_array
from retrograd.compiler.ir.expressions import Address, E, const, read, walk
from retrograd.compiler.ir.statements import Kind, Node, Region, Var
from retrograd.compiler.language.arithmetic import Arithmetic, ShapeMismatch, broadcast
from retrograd.compiler.language.types import (
    ArrayType,
    ScalarType,
    StructType,
    is_complex,
    is_empty,
    is_known,
    known,
    note_range,
    row_major,
    sum_over,
)
from retrograd.compiler.language.values import ArrayView, Constant, Lazy, Scalar, StructValue, describe
from retrograd.compiler.language.values import Value as Operand
from retrograd.isa.diagnostics import Span, nearest

#: the kinds of numbers that functional programs have
_KINDS = (Kind.INT, Kind.FIXED, Kind.BOOL)
#: operations that take an instruction or less for each element
_CHEAP = ("const", "read", "load", "add", "sub", "neg", "not")
#: the attributes of arrays
_ATTRIBUTES = ("T", "shape", "size", "ndim")
#: a hint
_NO_FORM = "Arrays have `.shape`, `.size`, `.ndim` and `.T`; `len(x)` is the length, and `rg.sum(x)` the sum."


def _located(at: Place, node: ast.expr | None = None) -> Any:
    """A piece of syntax that stands at a place of core, with the text that stands there."""
    made: Any = ast.expr() if node is None else node
    made.place = at
    try:
        text = (at.text or "")[at.span.column - 1 : at.span.end - 1]
        made.of = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        made.of = ast.Name("…", ast.Load())
    return made


class _Errors(Errors):
    """The errors of one source file, and those at places of core."""

    def __init__(self, source: Source, constants: Constants | None) -> None:
        super().__init__(source, constants)
        inside = self.span

        def span(node: ast.AST) -> Span:
            place: Place | None = getattr(node, "place", None)
            return inside(node) if place is None else place.span

        self.span = span

    def fail(self, code: str, message: str, where: ast.AST | Span, hint: str | None = None) -> NoReturn:
        place: Place | None = getattr(where, "place", None)
        if place is not None:
            fail(code, message, place, hint)
        super().fail(code, message, where, hint)


class Contexts:
    """The contexts in which array expressions of one program are evaluated, one for each function of its source."""

    def __init__(self, module: ModuleBuilder, captures: Captures, specialise: Any) -> None:
        self.module, self._captures, self._specialise = module, captures, specialise
        self._made: dict[tuple[int, bool], Context] = {}

    def of(self, function: SourceFunction, recursive: bool = False) -> Context:
        """The context of a function. `recursive`: more than one activation of the body may be live."""
        key = id(function), recursive
        found = self._made.get(key)
        if found is None:
            found = Context(function, self.module, self._captures, self._specialise, recursive)
            errors = _Errors(function.source, self.module.constants)
            found.fail, found.guarded, found.span = errors.fail, errors.guarded, errors.span
            self._made[key] = found
        return found


# -----------------------------------------------------------------------------
# Rules: the type of an array expression, and its value.


def type_in_memory(t: Any, at: Place) -> Type:
    """The type of a value that lies in memory: an argument's, or an element's. Raises CompileError."""
    match t:
        case ScalarType(kind):
            _need_kind(kind, at)
            return Word(kind)
        case ArrayType(ScalarType() | StructType() as element, shape):
            return Array(element, shape, row_major(shape, element.size))
        case StructType(cls, fields) if not is_complex(t):
            items = [(name, type_in_memory(inner, at)) for name, inner in fields]
            return Tuple(tuple(x for _, x in items)) if t.is_tuple else record(cls.__name__, items)
    fail("RG0703", f"a {t}, which functional functions do not have", at)


def in_memory(found: Operand, at: Place) -> Value:
    """A value that lies in memory."""
    match found:
        case Scalar(e):
            return Value(Word(e.kind), (e,))
        case ArrayView(ScalarType() | StructType() as element, shape, strides, address):
            return Value(Array(element, known(shape), strides), (), (address,))
        case StructValue(t, fields):
            return combined(type_in_memory(t, at), [in_memory(inner, at) for inner in fields.values()])
    raise AssertionError(found)


def stand_in(t: Type, is_view: bool = False) -> Operand:
    """A value of this type, in place of one that is not computed yet. `is_view`: elements may be of any type.

    Raises TypeError for a type without operations of arrays.
    """
    match t:
        case Array(element, shape, strides) if is_view or (isinstance(element, ScalarType) and element.kind in _KINDS):
            extent = sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) + element.size
            return ArrayView(element, shape, strides, Address(Region("array", extent), Var("array", Kind.ADDRESS)))
        case Word(kind):
            return Scalar(read(Var("x", kind)))
    raise TypeError(f"{named(t)} in an operation of arrays")


def numbers_in(t: Type) -> tuple[Kind, ...]:
    """The kind of the numbers of an array, or of a number."""
    match t:
        case Array(ScalarType(kind)) | Word(kind):
            return (kind,)
    return ()


def need_operations(types: Iterable[Type], what: str, at: Place) -> None:
    """Refuse numbers of a kind without operations here: a uint may be moved, and not be added. Raises CompileError."""
    for t in types:
        if not {*numbers_in(t)} <= {*_KINDS}:
            hint = "Numbers are int, bool and fixed here; write `@rg.reversible` for others."
            fail("RG0703", f"`{what}` of {named(t)}", at, hint)


def _type_of(found: Operand, arithmetic: Arithmetic, at: Place) -> Type:
    """The type of a value of the reversible front end."""
    match found:
        case ArrayView(ScalarType() | StructType() as element, shape, strides) if is_known(shape):
            return Array(element, known(shape), strides)
        case Lazy(shape, one) if is_known(shape):
            kind = arithmetic.expression(one(tuple(const(0, Kind.INT) for _ in shape))).kind
            _need_kind(kind, at)
            return Array(ScalarType(kind), known(shape), row_major(known(shape), 1))
        case ArrayView() | Lazy():
            hint = (
                "Give it a length that is known, `x[i:i + 3]`, or go over its elements: `sum(x[i] for i in range(n))`."
            )
            fail("RG0717", "a slice whose length is known only when the program runs", at, hint)
        case Scalar(e):
            _need_kind(e.kind, at)
            return Word(e.kind)
        case Constant(tuple() as items):
            return Tuple(tuple(_type_of(Constant(x), arithmetic, at) for x in items))
        case Constant(bool()):
            return BOOL
        case Constant(int()):
            return INT
        case Constant(float()):
            return FIXED
    fail("RG0703", f"{describe(found)}, which functional functions do not have", at)


def _need_kind(kind: Kind, at: Place) -> None:
    if kind not in _KINDS:
        hint = "Numbers are int, bool and fixed here; write `@rg.reversible` for others."
        fail("RG0703", f"{kind.value} numbers, which functional functions do not have", at, hint)


@dataclass(eq=False, frozen=True)
class Syntax:
    """A piece of Python's syntax, in which values stand in place of its parts.

    `places`: the identity of a part → the number of the operand, or the constant, that it is. `is_view`: it gives other
    words of its first operand.
    """

    function: SourceFunction
    node: ast.expr
    places: dict[int, int | Constant]
    is_view: bool = False

    @property
    def name(self) -> str:
        """The operation, for printers."""
        match self.node:
            case ast.BinOp():
                return "matmul"
            case ast.Call(func=func):
                return func.attr if isinstance(func, ast.Attribute) else ast.unparse(func)
        return "view"

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        if any(isinstance(t, Nothing) for t in types):
            return NOTHING
        if (part := self._slice()) is not None and isinstance(types[0], Tuple) and not types[0].form:
            return Tuple(types[0].items[part])
        found: Type = inference.arrays.syntax(self, types, at)
        return found

    def _slice(self) -> slice | None:
        """The slice of a tuple that the syntax is, `xs[:-1]`; None for other syntax."""
        match self.node:
            case ast.Subscript(slice=ast.Slice(lower, upper, step)) if len(self.places) == 1 or all(
                isinstance(x, Constant) for x in list(self.places.values())[1:]
            ):
                bounds = [None if e is None else known_sum(e, self.places) for e in (lower, upper, step)]
                if all(e is None or b is not None for e, b in zip((lower, upper, step), bounds, strict=True)):
                    return slice(*bounds)
        return None

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        t = values[0].type if values else NOTHING
        if isinstance(t, Tuple) and not t.form and (part := self._slice()) is not None:
            return combined(Tuple(t.items[part]), values[0].split(t.items)[part])
        operands = [lowering.arrays.operand(v) for v in values]
        return lowering.arrays.stored(lowering.arrays.syntax(self, operands, at), at)  # type: ignore[no-any-return]

    def evaluated(self, cx: Context, values: Sequence[Operand]) -> Operand:
        """The value of the syntax for these operands."""
        given = {part: values[of] if isinstance(of, int) else of for part, of in self.places.items()}
        if isinstance(self.node, ast.Call) and len(values) == 1 and isinstance(values[0], Scalar):
            # NumPy takes a number as an array with one element; Python's `max(x)` takes none.
            name, python = self.name.rpartition(".")[2], isinstance(self.node.func, ast.Name)
            if (
                not (python and name in ("min", "max"))
                and name in REDUCTIONS
                and len(self.node.args) < 2
                and not self.node.keywords
            ):
                if name in ("min", "max"):
                    return values[0]
                return cx.arithmetic.binary("/" if name == "mean" else "*", values[0], Constant(1))
        return cx.value(filled(self.node, given))


@dataclass(eq=False, frozen=True)
class Constructed(Syntax):
    """`np.zeros(len(x))`: an array of constants, which NumPy makes when the function is compiled."""

    def evaluated(self, cx: Context, values: Sequence[Operand]) -> Operand:
        if any(isinstance(v, Scalar) for v in values):
            message = f"`{shortened(self.node)}` has a number of the run in it, and NumPy makes arrays of constants"
            hint = "A tuple or a list holds such numbers. Lengths of arrays are constants: `np.zeros(len(x))`."
            cx.fail("RG0703", message, self.node, hint)
        found = super().evaluated(cx, values)
        if isinstance(found, Constant) and isinstance(found.value, np.ndarray) and found.value.ndim:
            return cx.constant_array(found.value, self.node, passed=True)
        return found


def known_sum(node: ast.expr, places: dict[int, int | Constant]) -> int | None:
    """The whole number that a bound of a slice is; None where it is not known."""
    match places.get(id(node)), node:
        case Constant(int() as value), _:
            return value
        case None, ast.BinOp(left=x, op=ast.Add() | ast.Sub() as op, right=y):
            a, b = known_sum(x, places), known_sum(y, places)
            return None if a is None or b is None else a + b if isinstance(op, ast.Add) else a - b
        case None, ast.UnaryOp(op=ast.USub(), operand=x):
            a = known_sum(x, places)
            return None if a is None else -a
    return None


@dataclass(eq=False, frozen=True)
class Joined:
    """`np.array([x, 2 * x])`, `np.stack([v, w])`: the items along a new first axis; one item is a tuple of these.

    `chained`: `np.concatenate([v, w])`, along the first axis of the items.
    """

    name: str
    chained: bool

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        if types == (List(NOTHING),):
            return NOTHING
        if len(types) == 1 and isinstance(types[0], Tuple) and not types[0].form:
            types = types[0].items
        shapes = [t.shape if isinstance(t, Array) else () for t in types]
        words = [t.element if isinstance(t, Array) else t for t in types if isinstance(t, Array | Word)]
        kinds = [x.kind for x in words if isinstance(x, ScalarType | Word)]
        own = [shape[1:] if self.chained else shape for shape in shapes]
        if (
            not types
            or len(kinds) < len(types)
            or not all(k in _KINDS for k in kinds)
            or (self.chained and () in shapes)
        ):
            hint = "Items are numbers, or arrays: `np.stack([v, w])`, `np.concatenate([v, w])`."
            if UINT in types:
                hint = "Arrays are of ints, fixed numbers and bools: write `int(u)` of a uint u."
            if any(isinstance(t, List) for t in types):
                hint = "A list has no length that is known: name the items, or write the operation for whole arrays."
            fail("RG0703", f"`{self.name}` of {', '.join(map(named, types)) or 'nothing'}", at, hint)
        if len(set(own)) > 1:
            fail("RG0712", f"`{self.name}` of shapes {', '.join(map(str, shapes))}, which do not fit together", at)
        kind = Kind.FIXED if Kind.FIXED in kinds else Kind.INT if Kind.INT in kinds else Kind.BOOL
        shape = (sum(s[0] for s in shapes) if self.chained else len(types), *own[0])
        return Array(ScalarType(kind), shape, row_major(shape, 1))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        t = self.type(lowering.inference, tuple(v.type for v in values), at)
        assert isinstance(t, Array)
        if len(values) == 1 and isinstance(values[0].type, Tuple):
            values = values[0].split(values[0].type.items)
        whole = lowering.body.array(t, self.name.rpartition(".")[2])
        begin = 0
        for value in values:
            rows = value.type.shape[0] if self.chained and isinstance(value.type, Array) else 1
            place = whole.address.shifted(const(begin, Kind.INT), t.strides[0])
            view = ArrayView(t.element, (rows, *t.shape[1:]), t.strides, place)
            lowering.arrays.add(view, lowering.arrays.operand(value), at)
            begin += rows
        return Value(t, (), (whole.address,))


@dataclass(eq=False, frozen=True)
class Replaced:
    """A dict or an object with other values for some names: `p._replace(w=w)`, `dataclasses.replace(p, w=w)`.

    `of_dict`: `{**p, "w": w}`, which may add names.
    """

    names: tuple[str, ...]
    of_dict: bool

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        own = types[0]
        if not isinstance(own, Tuple) or not has_names(own) or own.form.startswith("dict[") is not self.of_dict:
            hint = "`{**d, …}` is for dicts, `p._replace(…)` and `dataclasses.replace(p, …)` for objects with arrays."
            fail("RG0703", f"{named(own)} with other items", at, hint)
        items = dict(zip(names_of(own), own.items, strict=True))
        for name in () if self.of_dict else self.names:
            if name not in items:
                hint = nearest(name, list(items)) or f"Its fields are {', '.join(items)}."
                fail("RG0715", f"{named(own)} has no field `{name}`", at, hint)
        made = items | dict(zip(self.names, types[1:], strict=True))
        return record(own.form.partition("[")[0], list(made.items()))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        own = values[0].type
        assert isinstance(own, Tuple)
        items = dict(zip(names_of(own), values[0].split(own.items), strict=True))
        made = items | dict(zip(self.names, values[1:], strict=True))
        return combined(self.type(lowering.inference, tuple(v.type for v in values), at), list(made.values()))


def filled(node: ast.expr, given: dict[int, Operand]) -> ast.expr:
    """The syntax with values in place of some of its parts; in messages it has its own text."""

    def made(x: Any) -> Any:
        if isinstance(x, list):
            return [made(y) for y in x]
        if not isinstance(x, ast.AST):
            return x
        if id(x) in given:
            return held(given[id(x)], x)
        other = copy(x)
        for name, inner in ast.iter_fields(x):
            setattr(other, name, made(inner))
        other.of = x  # type: ignore[attr-defined]
        return other

    found = made(node)
    assert isinstance(found, ast.expr)
    return found


@dataclass(eq=False, frozen=True)
class Captured:
    """A NumPy array from around the function: constants in memory."""

    function: SourceFunction
    array: np.ndarray[Any, Any]
    node: ast.expr

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        return _type_of(self._view(inference.arrays.contexts.of(self.function)), inference.arithmetic, at)

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        found: Value = lowering.arrays.stored(self._view(lowering.arrays.contexts.of(self.function)), at)
        return found

    def _view(self, cx: Context) -> ArrayView:
        found = cx.constant_array(self.array, self.node, passed=True)
        if not isinstance(found.element, ScalarType) or found.element.kind not in _KINDS:
            cx.fail("RG0703", f"an array of {found.element}, which functional functions do not have", self.node)
        return found


@dataclass(eq=False, frozen=True)
class Zeros:
    """An array of zeros."""

    of: Array

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        return self.of

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        return Value(self.of, (), (lowering.body.array(self.of, "zeros").address,))


class ArrayTypes:
    """The types of array expressions in one program."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self._known: dict[tuple[Any, tuple[Type, ...]], Type] = {}

    @cached_property
    def contexts(self) -> Contexts:
        """Types are found by a module of their own, of which nothing is compiled."""
        return Contexts(ModuleBuilder(self._arithmetic.w), Captures(), None)

    def syntax(self, rules: Syntax, types: tuple[Type, ...], at: Place) -> Type:
        found = self._known.get((rules, types))
        if found is None:
            operands = [_given(partial(stand_in, is_view=rules.is_view), t, at) for t in types]
            value = rules.evaluated(self.contexts.of(rules.function), operands)
            found = self._known[rules, types] = _type_of(value, self._arithmetic, at)
        return found

    def operation(self, made: Callable[[Sequence[Operand]], Operand], types: Sequence[Type], at: Place) -> Type:
        """The type of an operation, element by element."""
        operands = [_given(stand_in, t, at) for t in types]
        return _type_of(_guarded(at, lambda: made(operands)), self._arithmetic, at)

    def hosted(self, types: Sequence[Type], at: Place) -> Type:
        """The type of a function of the library, element by element."""
        shapes = [t.shape if isinstance(t, Array) else () for t in types]
        shape = known(_guarded(at, lambda: broadcast(shapes)))
        return Array(ScalarType(Kind.FIXED), shape, row_major(shape, 1))


def total(cx: Context, x: Lazy) -> E:
    """Σ of the elements of an array expression."""
    indices = tuple(Var(f"i{axis}", Kind.INT, cx.builder.span) for axis in range(len(x.shape)))
    for var, length in zip(indices, x.shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.w)
    body = cx.arithmetic.expression(x.element(tuple(map(read, indices))))
    return const(0, body.kind) if is_empty(x.shape) else sum_over(body, indices, x.shape)


def attribute(t: Array, name: str, at: Place) -> Type:
    """The type of an attribute of an array. Raises CompileError."""
    match name:
        case "T":
            return Array(t.element, t.shape[::-1], t.strides[::-1])
        case "shape":
            return Tuple((INT,) * len(t.shape))
        case "size" | "ndim":
            return INT
    hint = nearest(name, _ATTRIBUTES) or _NO_FORM
    fail("RG0703", f"`{name}` of {named(t)}, which has no such attribute", at, hint)


def attribute_value(x: Value, name: str) -> Value:
    """An attribute of an array."""
    assert isinstance(x.type, Array)
    shape = x.type.shape
    match name:
        case "T":
            return Value(Array(x.type.element, shape[::-1], x.type.strides[::-1]), (), x.views)
        case "shape":
            return Value(Tuple((INT,) * len(shape)), tuple(const(n, Kind.INT) for n in shape))
    return Value(INT, (const(prod(shape) if name == "size" else len(shape), Kind.INT),))


def _given(made: Callable[[Type], Operand], t: Type, at: Place) -> Operand:
    """The operand of a type; another type is refused."""
    try:
        return made(t)
    except TypeError as error:
        hint = "They take ints, fixed numbers, bools, and arrays of these; `match` takes lists and data classes apart."
        fail("RG0703", f"{error}", at, hint)


def _guarded(at: Place, made: Callable[[], Any], constants: Constants | None = None) -> Any:
    """The result; an operation that shapes or operands make impossible is reported at the expression."""
    try:
        return guarded(at, made, constants)
    except ShapeMismatch as error:
        fail("RG0712", f"the shapes {error} do not broadcast", at)


# -----------------------------------------------------------------------------
# Values of array expressions in one body.


class ArrayLowering:
    """Evaluates the array expressions of one body. `body`: see procedures.Body; `function`: it names arrays."""

    def __init__(self, contexts: Contexts, body: Any, function: SourceFunction) -> None:
        self.contexts, self._body, self._function = contexts, body, function

    def operand(self, value: Value) -> Operand:
        """A value of the functional language as one of the reversible front end."""
        match value.type:
            case Array(element, shape, strides):
                return ArrayView(element, shape, strides, value.views[0], "arrays never change in functional functions")
            case Word():
                e = self._body.atom(value.words[0])
                return Constant(e.param) if e.op == "const" and e.kind is Kind.INT else Scalar(e)
            case Tuple(items):
                parts = [self.operand(p) for p in value.split(items)]
                if all(isinstance(p, Constant) for p in parts):
                    return Constant(tuple(p.value for p in parts if isinstance(p, Constant)))
        raise AssertionError(value.type)

    def syntax(self, rules: Syntax, operands: Sequence[Operand], at: Place) -> Operand:
        """The value of a piece of syntax."""
        cx = self.context(rules.function)
        cx.builder.span = self._body.span
        operands = [*operands]
        if rules.is_view:
            operands[0] = self._in_memory(operands[0], at)
            operands[1:] = [Scalar(self._body.atom(x.e, "i")) if isinstance(x, Scalar) else x for x in operands[1:]]
        elif isinstance(rules.node, ast.BinOp) and any(
            isinstance(x, ArrayView | Lazy) and len(x.shape) > 1 for x in operands
        ):
            # Each element of a factor is used once for each row or column of the other one.
            operands = [self._in_memory(x, at) for x in operands]
        return rules.evaluated(cx, operands)

    def elementwise(
        self, made: Callable[[Sequence[Operand]], Operand], operands: Sequence[Operand], at: Place
    ) -> Operand:
        """The value of an operation, element by element."""
        shapes = [x.shape for x in operands if isinstance(x, ArrayView | Lazy)]
        whole = _guarded(at, lambda: broadcast(shapes))
        # An element that stands beside several others is computed once.
        operands = [
            self._in_memory(x, at) if isinstance(x, Lazy) and x.shape != whole and self._is_costly(x) else x
            for x in operands
        ]
        found: Operand = _guarded(at, lambda: made(operands), self.contexts.module.constants)
        return found

    def hosted_value(self, function: Any, values: Sequence[Value], at: Place) -> Value:
        """A function of the library, element by element, that is the value of an expression."""
        return self.stored(self.hosted(function, [self.operand(v) for v in values], at), at)

    def hosted(self, function: Any, values: Sequence[Operand], at: Place) -> Operand:
        """A function of the library, element by element."""
        cx = self.context()
        cx.builder.span = at.span
        node = _located(at)
        called, *operands = (_located(at, held(v, node)) for v in (cx.wrap(function), *values))
        return cx.value(_located(at, ast.Call(called, operands, [])))

    def stored(self, found: Operand, at: Place, name: str = "t") -> Value:
        """The value of the reversible front end as one of the functional language; an expression becomes an array."""
        match found:
            case ArrayView(ScalarType() | StructType() as element, shape, strides, address):
                return Value(Array(element, known(shape), strides), (), (address,))
            case Lazy():
                return self.stored(self._array(found, name, at), at)
            case Scalar(e):
                return Value(Word(e.kind), (e,))
            case Constant(tuple() as items):
                parts = [self.stored(Constant(x), at) for x in items]
                return combined(Tuple(tuple(p.type for p in parts)), parts)
            case Constant():
                word = self.context().number(found, _located(at))
                return Value(Word(word.kind), (word,))
        fail("RG0703", f"{describe(found)}, which functional functions do not have", at)

    def inner_product(self, x: Value, d: Value, at: Place) -> E:
        """Σ x·d over the elements of two arrays of one shape."""
        cx = self.context()
        cx.builder.span = at.span
        product = cx.arithmetic.binary("*", self.operand(x), self.operand(d))
        assert isinstance(product, Lazy)
        return total(cx, product)

    def add(self, view: ArrayView, value: Operand, at: Place) -> None:
        """view += value, element by element; a number is added to each."""
        cx = self.context()
        cx.builder.span = at.span
        nodes: list[Node]
        with cx.builder.collect() as nodes:
            update_array(cx, view, made_by(view.element.kind), value, _located(at))  # type: ignore[union-attr]
        self._body.emit(*nodes)

    def context(self, function: SourceFunction | None = None) -> Context:
        return self.contexts.of(function or self._function, self._body.recursive)

    def located(self, at: Place, node: ast.expr) -> Any:
        """A piece of syntax that stands at a place of core."""
        return _located(at, node)

    def _is_costly(self, x: Lazy) -> bool:
        sample = any_element(self.context(), x)
        return isinstance(sample, Scalar) and any(e.op not in _CHEAP for e in walk(sample.e))

    def _in_memory(self, x: Operand, at: Place) -> Operand:
        return self._array(x, "t", at) if isinstance(x, Lazy) else x

    def _array(self, value: Lazy, name: str, at: Place) -> ArrayView:
        """An array with the values of an expression: new_array; array += value."""
        cx = self.context()
        node = _located(at)
        cx.builder.span = at.span
        kind = cx.number(any_element(cx, value), node).kind
        nodes: list[Node]
        with cx.builder.collect() as nodes:
            view, first = new_array(cx, name, ScalarType(kind), value.shape, node)
            assert isinstance(view, ArrayView)
            cx.builder.emit(first)
            update_array(cx, view, made_by(kind), value, node)
        self._body.ancillas(nodes)
        return view


class AreBools:
    """Whether all arguments are bools, or arrays of these, which is known by their types."""

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        return Known(all(t == BOOL or (isinstance(t, Array) and t.element == ScalarType(Kind.BOOL)) for t in types))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        return Value(self.type(None, tuple(v.type for v in values), at))


class AreArrays:
    """Whether all arguments are arrays, which is known by their types."""

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        return Known(all(isinstance(t, Array) for t in types))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        return Value(self.type(None, tuple(v.type for v in values), at))
