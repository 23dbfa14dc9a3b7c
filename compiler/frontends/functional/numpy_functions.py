"""Functions of NumPy on arrays, whose shapes are known when a function is compiled.

    np.roll(x, 1), x.reshape(2, 3), x[[0, 2]]    elements are moved: NumPy itself moves their numbers (`Moved`)
    x[n] of an array n of the run                elements by ints of the run (`Gathered`)
    np.einsum("ij,jk->ik", A, B)                 Σ of products (`Einsum`)
    np.cumsum(x), np.prod(x, axis=0)             y[0] = x[0], y[i] = y[i − 1] ∘ x[i] (`Accumulated`)
    np.std(x), np.argmax(x), np.linalg.norm(x)   an expression of these (`EXPRESSIONS`)

Each is a `Primitive`, or made of such. Moved elements are a view where strides reach them, and else copies.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any, Protocol

import numpy as np
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import (
    AreArrays,
    AreBools,
    Captured,
    Joined,
    Syntax,
    filled,
    known_sum,
    need_operations,
    numbers_in,
    stand_in,
)
from retrograd.compiler.frontends.functional.control_flow import Expressions, Scope, comprehended
from retrograd.compiler.frontends.functional.core import Place, fail, guarded, operated
from retrograd.compiler.frontends.functional.types import (
    INT,
    Array,
    Known,
    List,
    Nothing,
    Tuple,
    Type,
    Value,
    Word,
    named,
)
from retrograd.compiler.frontends.python.expressions import held
from retrograd.compiler.frontends.python.source import SourceFunction, shortened
from retrograd.compiler.ir.expressions import E, InRange, const, load, read, sub
from retrograd.compiler.ir.statements import Const, For, Kind, Var
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.foreign import OF_ARRAYS
from retrograd.compiler.language.types import ScalarType, note_range, row_major, sum_over
from retrograd.compiler.language.values import ArrayView, Constant, Lazy, Scalar
from retrograd.compiler.language.values import Value as Operand

#: functions that move the elements of their first argument → whether it is a list of arrays
MOVED: dict[Callable[..., Any], bool] = {
    **dict.fromkeys((
        np.reshape, np.ravel, np.transpose, np.flip, np.flipud, np.fliplr, np.roll, np.tile, np.repeat, np.squeeze,
        np.expand_dims, np.swapaxes, np.moveaxis, np.broadcast_to, np.atleast_1d, np.atleast_2d, np.diag, np.diagonal,
        np.tril, np.triu, np.rot90, np.take, np.copy, np.asarray,
    ), False),
    **dict.fromkeys((np.stack, np.concatenate, np.hstack, np.vstack, np.column_stack, np.dstack), True),
}  # fmt: skip
#: operators of `Accumulated`: function → (operator, whether the last element is the value)
ACCUMULATED: dict[Callable[..., Any], tuple[str, bool]] = {
    np.cumsum: ("+", False), np.cumprod: ("*", False), np.prod: ("*", True),
    np.minimum.accumulate: ("min", False), np.maximum.accumulate: ("max", False),
}  # fmt: skip
#: methods of arrays → the functions with their values
METHODS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (
        np.reshape, np.ravel, np.transpose, np.squeeze, np.swapaxes, np.repeat, np.take, np.diagonal, np.copy, np.clip,
        np.cumsum, np.cumprod, np.prod, np.argmin, np.argmax, np.std, np.var, np.trace, np.any, np.all, np.ptp,
    )},
    "flatten": np.ravel, "conj": np.copy, "conjugate": np.copy,
}  # fmt: skip


# -----------------------------------------------------------------------------
# Functions that are an expression of others, over the array x; y: the second array.


def _along(axis: int | None = None, keepdims: bool = False) -> str:
    return ("" if axis is None else f", axis={axis}") + (", keepdims=True" if keepdims else "")


def _variance(axis: int | None = None, ddof: int = 0, keepdims: bool = False) -> str:
    count = "x.size" if axis is None else f"x.shape[{axis}]"
    squares = f"(x - np.mean(x{_along(axis, axis is not None)})) ** 2"
    if ddof:
        return f"np.sum({squares}{_along(axis, keepdims)}) / ({count} - {ddof})"
    return f"np.mean({squares}{_along(axis, keepdims)})"


def _norm(ord: float | None = None, axis: int | None = None, keepdims: bool = False) -> str | None:
    if ord == 1 and isinstance(axis, int):
        return f"np.sum(abs(x){_along(axis, keepdims)})"
    if ord == inf and isinstance(axis, int):
        return f"np.max(abs(x){_along(axis, keepdims)})"
    if ord is None or (ord == 2 and isinstance(axis, int)):
        return f"np.sqrt(np.sum(x * x{_along(axis, keepdims)}))"
    return None


def _place_of(which: str) -> Callable[..., str]:
    """The first index of the least or largest element: that many prefixes have another least element."""
    ufunc = {"min": "minimum", "max": "maximum"}[which]

    def made(axis: int | None = None, keepdims: bool = False) -> str:
        whole, at = ("x.ravel()", 0) if axis is None else ("x", axis)
        extreme = f"np.{which}({whole}, axis={at}, keepdims=True)"
        return f"np.sum(np.{ufunc}.accumulate({whole}, axis={at}) != {extreme}{_along(at, keepdims)})"

    return made


#: function of NumPy → the text for its arguments by name besides the arrays; None where it has no value here
EXPRESSIONS: dict[Callable[..., Any], Callable[..., str | None]] = {
    np.var: _variance, np.std: lambda **given: f"np.sqrt({_variance(**given)})", np.linalg.norm: _norm,
    np.trace: lambda offset=0: f"np.sum(np.diagonal(x, {offset}), axis=-1)",
    np.argmin: _place_of("min"), np.argmax: _place_of("max"),
    np.any: lambda axis=None, keepdims=False: f"np.sum(x != 0{_along(axis, keepdims)}) > 0",
    np.all: lambda axis=None, keepdims=False: f"np.sum(x == 0{_along(axis, keepdims)}) == 0",
    np.count_nonzero: lambda axis=None, keepdims=False: f"np.sum(x != 0{_along(axis, keepdims)})",
    np.ptp: lambda **given: f"np.subtract(np.max(x{_along(**given)}), np.min(x{_along(**given)}))",
}  # fmt: skip


# -----------------------------------------------------------------------------
# From syntax.


class Reader(Expressions, Protocol):
    """The reader of expressions (expressions.py)."""

    function: SourceFunction

    def syntax(
        self, node: ast.expr, parts: Sequence[ast.expr], scope: Scope, is_view: bool = False, form: Any = ...
    ) -> Any: ...

    def known_value(self, e: core.Core) -> Constant | None: ...


def of_numpy(reader: Reader, found: Any, node: ast.Call, scope: Scope) -> core.Core | None:
    """A call of a function that is in one of the tables above; None for other calls. Raises CompileError."""
    try:
        if found in MOVED:
            return _moved(reader, found, node, scope)
        if (
            found is np.array
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in scope
        ):
            return _moved(reader, np.copy, node, scope)
        if found is np.einsum:
            return _einsum(reader, node, scope)
        if found not in ACCUMULATED and (
            found not in EXPRESSIONS or (found in OF_ARRAYS and not node.keywords and len(node.args) < 2)
        ):
            return None
    except TypeError:  # an object without a hash
        return None
    given = _arguments(reader, found, node)
    first, *others = given
    known = {name: _static(reader, name, given[name], scope, node) for name in others}
    x = core.Binding("x", reader.at(node))
    whole = reader.expression(given[first], scope)
    text: str | None
    if found in ACCUMULATED:
        op, last = ACCUMULATED[found]
        axis = known.pop("axis", 0 if isinstance(getattr(found, "__self__", None), np.ufunc) else None)
        kept = known.pop("keepdims", False) is True
        _refuse_others(reader, known, found, node)
        if axis is not None and not isinstance(axis, int):
            reader.fail("RG0703", f"`axis={axis}` of `{shortened(node.func)}`", node, "Write one axis, `axis=0`.")
        if axis is None and kept:
            reader.fail("RG0703", f"`{shortened(node.func)}` keeps no axes", node, "Leave `keepdims=` out.")
        rules = Accumulated(shortened(node.func), op, last, axis, kept)
        elements = whole if axis is not None else written(reader, "np.ravel(x)", {"x": x}, node)
        made = core.Primitive(rules, (elements,), reader.at(node))
        return made if axis is not None else core.Let(x, whole, made, reader.at(node))
    try:
        text = EXPRESSIONS[found](**known)
    except TypeError:
        _refuse_others(reader, known, found, node)
    if text is None:
        hint = "Write `axis=-1`, the norm of vectors, with `ord=` 1, 2 or np.inf; without `ord=` it is √Σx²."
        reader.fail("RG0703", f"`{shortened(node)}` is not in the language", node, hint)
    return core.Let(x, whole, written(reader, text, {"x": x}, node), reader.at(node))


def written(reader: Reader, text: str, scope: Scope, node: ast.expr) -> core.Core:
    """The core of an expression over the names of the scope and `np`, at a place of the source."""

    class Placed(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            return name if name.id in scope else held(Constant({"np": np, "abs": abs}[name.id]), node)

        def visit_Attribute(self, of: ast.Attribute) -> ast.AST:
            made: Any = self.generic_visit(of)
            value = getattr(made.value, "held", None)
            return made if value is None else held(Constant(getattr(value.value, of.attr)), node)

    body = Placed().visit(ast.parse(text, mode="eval").body)
    for part in ast.walk(body):
        ast.copy_location(part, node)
    return reader.expression(body, scope)


def _arguments(reader: Reader, found: Any, node: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by their names. Raises CompileError."""
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        reader.fail("RG0729", "arguments are given one by one", node, "Name each argument.")
    keywords = {str(k.arg): k.value for k in node.keywords}
    try:
        bound = dict(inspect.signature(found).bind(*node.args, **keywords).arguments)
    except TypeError as error:
        reader.fail("RG0715", f"`{shortened(node)}`: {error}", node)
    return bound


def _static(reader: Reader, name: str, node: ast.expr, scope: Scope, at: ast.expr) -> Any:
    """The value of an argument, which must be known."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    found = reader.known(node, scope)
    if found is not None:
        return found
    value = reader.known_value(reader.expression(node, scope))
    if value is None:
        message = f"`{name}` must be known when the program is compiled; `{shortened(node)}` is not"
        reader.fail("RG0717", message, at, "Write a number.")
    return value.value


def _refuse_others(reader: Reader, known: dict[str, Any], found: Any, node: ast.Call) -> None:
    for name in known:
        hint = "Leave it out, or write the expression with operators."
        reader.fail("RG0715", f"`{shortened(node.func)}` takes no `{name}=` here", node, hint)


def _moved(reader: Reader, found: Any, node: ast.Call, scope: Scope) -> core.Core:
    """Arguments besides the arrays are evaluated by Python, for known shapes."""
    if not node.args or any(isinstance(a, ast.Starred) for a in node.args):
        reader.fail("RG0715", f"`{shortened(node)}`: the array is the first argument, by position", node)
    refused = {"dtype", "out", "casting", "mode", "order", "subok", "like", "device"}
    for k in node.keywords:
        if k.arg is None or k.arg in refused:
            hint = "Leave it out: an array keeps the type of its elements."
            reader.fail("RG0715", f"`{shortened(node.func)}` takes no `{k.arg}=` here", node, hint)
    first = node.args[0]
    parts = list(first.elts) if isinstance(first, ast.List | ast.Tuple) else [first]
    rest = [*node.args[1:], *(k.value for k in node.keywords)]
    names = [n for e in rest for n in ast.walk(e) if isinstance(n, ast.Name) and n.id in scope]
    return reader.syntax(  # type: ignore[no-any-return]
        node,
        [*parts, *names],
        scope,
        form=lambda *given: Moved(*given, found, frozenset(map(id, parts))),  # type: ignore[call-arg]
    )


def _einsum(reader: Reader, node: ast.Call, scope: Scope) -> core.Core:
    text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    at = node.args[0] if node.args else node
    if not isinstance(text, str):
        reader.fail(
            "RG0703", "the subscripts of `np.einsum` are a text that is written", at, '`np.einsum("ij,jk->ik", A, B)`.'
        )
    if node.keywords:
        reader.fail("RG0715", "`np.einsum` takes no keywords here", node, "Leave them out.")
    given, arrow, made = text.replace(" ", "").partition("->")
    inputs = given.split(",")
    if "." in text or not all(c.isalpha() for c in "".join(inputs) + made):
        reader.fail("RG0703", f'`"{text}"` has more than letters, commas and `->`', at, "Name each axis by a letter.")
    if not arrow:
        letters = "".join(inputs)
        made = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(inputs) != len(node.args) - 1:
        reader.fail("RG0715", f'`"{text}"` names {len(inputs)} arrays, and {len(node.args) - 1} are given', node)
    if len(set(made)) < len(made) or not set(made) <= set("".join(inputs)):
        reader.fail("RG0703", f'`"{text}"`: each axis of the result is an axis of an array, and stands there once', at)
    args = tuple(reader.expression(a, scope) for a in node.args[1:])
    return core.Primitive(Einsum(reader.function, tuple(inputs), made), args, reader.at(node))


# -----------------------------------------------------------------------------
# Rules.


@dataclass(eq=False, frozen=True)
class Picked(Syntax):
    """`x[:, n]`: an index with slices, of which some may be arrays; without such it is the view that its syntax is."""

    def _keys(self, given: Sequence[Any], at: Place) -> list[Index] | None:
        """The indices, by what is given for the operands; None where none is an array."""
        assert isinstance(self.node, ast.Subscript)
        index = self.node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        found: list[Index] = []
        for part in parts:
            of = self.places.get(id(part))
            if isinstance(part, ast.Slice):
                bounds = [None if e is None else known_sum(e, self.places) for e in (part.lower, part.upper, part.step)]
                whole = all(
                    e is None or b is not None for e, b in zip((part.lower, part.upper, part.step), bounds, strict=True)
                )
                found.append(slice(*bounds) if whole else part)
            elif of is None:
                new_axis = isinstance(part, ast.Attribute) and part.attr == "newaxis"
                found.append(part.value if isinstance(part, ast.Constant) else None if new_axis else part)
            else:
                found.append(of.value if isinstance(of, Constant) else given[of])
        types = [key.type if isinstance(key, Value) else key for key in found]
        if not any(isinstance(key, Array | np.ndarray) for key in types):
            return None
        if any(isinstance(key, ast.AST) for key in found):
            hint = "Give the ints a name, `n = …`, and take the slice first: `x[i:i + 2][n]`."
            fail("RG0703", "an array of ints beside a slice or an index that the run computes", at, hint)
        return found

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        own = types[0]
        keys = self._keys(types, at) if isinstance(own, Array) else None
        if keys is None or not isinstance(own, Array):
            return super().type(inference, types, at)
        return indexed_type(own, keys, at)

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        keys = self._keys(values, at) if isinstance(values[0].type, Array) else None
        return super().value(lowering, values, at) if keys is None else indexed(lowering, values[0], keys, at)

    def is_picked(self, types: Sequence[Type], at: Place) -> bool:
        """Whether some index is an array."""
        return isinstance(types[0], Array) and self._keys(types, at) is not None


@dataclass(eq=False, frozen=True)
class Moved:
    """A call of a function that moves elements, by NumPy on their numbers; 0 is the number of an element that is zero.

    `places`: as those of `Syntax`. `arrays`: the identities of the parts that are arrays.
    """

    function: SourceFunction
    node: ast.expr
    places: dict[int, int | Constant]
    is_view: bool
    callee: Any
    arrays: frozenset[int]
    _known: dict[Any, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operation, for printers."""
        return str(self.callee.__name__)

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        if types not in self._known:
            self._known[types] = self._plan(inference.arrays.contexts.of(self.function), types, at)
        found: Type = self._known[types].type
        return found

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        types = tuple(v.type for v in values)
        self.type(lowering.inference, types, at)
        plan: _Plan = self._known[types]
        return plan.value(lowering, self.name, [list(_flat(values[k]))[i] for k, i in plan.sources], at)

    def _plan(self, cx: Any, types: tuple[Type, ...], at: Place) -> _Plan:
        sources: list[tuple[int, int]] = []
        found: list[Array | Word] = []

        def numbered(t: Type, of: int, index: Iterator[int]) -> Any:
            if isinstance(t, Tuple) and not t.form:
                return [numbered(item, of, index) for item in t.items]
            if not isinstance(t, Array | Word) or (isinstance(t, Array) and not isinstance(t.element, ScalarType)):
                hint = "Name the items: `np.stack([v, w])`." if isinstance(t, List) else None
                if isinstance(t, List):
                    hint = (
                        "A list has no length that is known: name the items, or write the operation for whole arrays."
                    )
                fail("RG0703", f"`{shortened(self.node)}` of {named(t)}", at, hint)
            shape = t.shape if isinstance(t, Array) else ()
            begin = 1 + sum(prod(x.shape) if isinstance(x, Array) else 1 for x in found)
            sources.append((of, next(index)))
            found.append(t)
            return np.arange(begin, begin + prod(shape)).reshape(shape)

        stands = [_stand_in(t) for t in types]

        def argument(e: ast.expr) -> Any:
            of = self.places.get(id(e))
            if id(e) in self.arrays:
                return numbered(types[of], of, iter(range(1 << 30))) if isinstance(of, int) else _constant(of)
            if isinstance(e, ast.List | ast.Tuple) and any(id(x) in self.arrays for x in e.elts):
                return [argument(x) for x in e.elts]
            given = {part: stands[k] if isinstance(k, int) else k for part, k in self.places.items()}
            return cx.static(filled(e, given), f"an argument of `{shortened(self.node)}`")

        def _constant(of: Constant | int | None) -> Any:
            fail("RG0703", f"`{shortened(self.node)}` of a constant", at, "Compute it outside, and use the result.")

        assert isinstance(self.node, ast.Call)
        args = [argument(a) for a in self.node.args]
        keywords = {str(k.arg): argument(k.value) for k in self.node.keywords}
        try:
            made = np.asarray(self.callee(*args, **keywords))
        except (ValueError, TypeError, IndexError) as error:
            fail("RG0712", f"`{shortened(self.node)}`: {error}", at)
        if not made.shape or len({k for t in found for k in numbers_in(t)}) > 1:
            need_operations(found, shortened(self.node), at)  # of numbers, or of several kinds
        return _Plan(made, tuple(found), tuple(sources))


def _stand_in(t: Type) -> Operand:
    try:
        return stand_in(t, is_view=True)
    except TypeError:
        return Constant(None)


def _flat(value: Value) -> Iterator[Value]:
    """The arrays and numbers of a value, in order."""
    if isinstance(value.type, Tuple):
        for part in value.split(value.type.items):
            yield from _flat(part)
    else:
        yield value


def _affine(numbers: np.ndarray[Any, Any]) -> tuple[int, tuple[int, ...]] | None:
    """The first number, and the step along each axis; None where the numbers are no such."""
    if not numbers.size:
        return None
    first = int(numbers.flat[0])
    steps = tuple(
        int(np.take(numbers, 1, axis).flat[0]) - first if n > 1 else 0 for axis, n in enumerate(numbers.shape)
    )
    made = first + sum((s * i for s, i in zip(steps, np.indices(numbers.shape), strict=True)), np.zeros_like(numbers))
    return (first, steps) if np.array_equal(made, numbers) else None


class _Plan:
    """The elements of a result, each by its number among all elements of the sources, from 1 on; 0: a zero."""

    def __init__(self, numbers: np.ndarray[Any, Any], types: tuple[Any, ...], sources: tuple[tuple[int, int], ...]):
        self.numbers, self.types, self.sources = numbers, types, sources
        kinds = {k for t in types for k in numbers_in(t)}
        order = (Kind.FIXED, Kind.INT, Kind.BOOL)
        kind = next(iter(kinds)) if len(kinds) == 1 else next(k for k in order if k in kinds)
        self.view: tuple[int, tuple[int, ...]] | None = None
        shape = numbers.shape
        if len(types) == 1 and isinstance(types[0], Array) and numbers.all():
            # The words of an element, from that of the first one on.
            own = types[0]
            words = sum(
                (s * i for s, i in zip(own.strides, np.indices(own.shape), strict=True)), np.zeros(own.shape, int)
            )
            self.words = np.ravel(words)[numbers - 1]
            found = _affine(self.words)
            if found is not None and all(s or n == 1 for s, n in zip(found[1], shape, strict=True)):
                self.view = found
        strides = row_major(shape, 1) if self.view is None else self.view[1]
        self.type: Array | Word = Array(ScalarType(kind), shape, strides) if shape else Word(kind)

    def value(self, lowering: Any, name: str, values: Sequence[Value], at: Place) -> Value:
        if self.view is not None:
            place = values[0].views[0].moved(self.view[0])
            if isinstance(self.type, Array):
                return Value(self.type, (), (place,))
            return Value(self.type, (load(place, self.type.kind),))
        shape = self.numbers.shape
        if not shape and len(values) == 1 and isinstance(values[0].type, Word):
            return values[0]
        t = self.type if isinstance(self.type, Array) else Array(ScalarType(self.type.kind), (1,), (1,))
        whole = lowering.body.array(t, name)
        operands = [lowering.arrays.operand(v) for v in values]
        places = self._places()
        if places is not None:
            for (first, steps), operand, own in zip(places, operands, self.types, strict=True):
                own_shape = own.shape if isinstance(own, Array) else ()
                view = ArrayView(t.element, own_shape or (1,), steps or (1,), whole.address.moved(first))
                lowering.arrays.add(view, operand, at)
        else:
            lowering.arrays.add(whole, self._gathered(lowering, operands, name, at), at)
        if shape:
            return Value(t, (), (whole.address,))
        assert isinstance(self.type, Word)
        return Value(self.type, (load(whole.address, self.type.kind),))

    def _places(self) -> list[tuple[int, tuple[int, ...]]] | None:
        """For each source the places of its elements, by strides; None where some element has no or several places."""
        flat, begin, out = np.ravel(self.numbers), 1, []
        for t in self.types:
            shape = t.shape if isinstance(t, Array) else ()
            count = prod(shape)
            at = np.flatnonzero((flat >= begin) & (flat < begin + count))
            if len(at) != count:
                return None
            order = np.empty(count, int)
            order[flat[at] - begin] = at
            if len(np.unique(flat[at])) != count or (found := _affine(order.reshape(shape))) is None:
                return None
            out.append(found)
            begin += count
        return out

    def _gathered(self, lowering: Any, operands: Sequence[Operand], name: str, at: Place) -> Lazy:
        """The elements by a table of their places."""
        cx = lowering.arrays.context()
        shape = self.numbers.shape or (1,)
        if len(operands) == 1 and isinstance(operands[0], ArrayView) and self.numbers.all():
            pool, table = operands[0], self.words - self.words.min()
            pool = ArrayView(pool.element, (), (), pool.address.moved(int(self.words.min())))
        else:
            kind = self.type.element if isinstance(self.type, Array) else ScalarType(self.type.kind)
            count = 1 + sum(prod(t.shape) if isinstance(t, Array) else 1 for t in self.types)
            pool, begin = lowering.body.array(Array(kind, (count,), (1,)), name), 1
            for operand, t in zip(operands, self.types, strict=True):
                own = t.shape if isinstance(t, Array) else (1,)
                view = ArrayView(kind, own, row_major(own, 1), pool.address.moved(begin))
                lowering.arrays.add(view, operand, at)
                begin += prod(own)
            table = self.numbers
        places = cx.constant_array(np.reshape(table, shape), ast.Constant(0), passed=True)

        def one(index: tuple[E, ...]) -> Operand:
            of = element(places, index)
            assert isinstance(of, Scalar)
            return ArrayView(pool.element, (), (), pool.address.shifted(of.e, 1)).item()

        return Lazy(shape, one)


#: an index: a slice, a number or an array that is known; else the type of one that is not, or its value
Index = Any


def index_of(e: core.Core, t: Type) -> Index:
    """The index that an expression of a type is."""
    if isinstance(e, core.Number):
        return e.value
    return e.rules.array if isinstance(e, core.Primitive) and isinstance(e.rules, Captured) else t


def _is_known(key: Index) -> bool:
    return not isinstance(key, Array | Word | Value | Tuple | List)


def _sliced(t: Array, keys: Sequence[Index], at: Place) -> tuple[_Plan, list[Index]]:
    """The elements that the known indices pick, by NumPy, and the other ones with the slices.

    Indices that are no slices are known together, or they are all left.
    """
    numbers = np.arange(1, 1 + prod(t.shape)).reshape(t.shape)
    known = all(map(_is_known, keys))
    if not known and any(key is None or key is ... for key in keys):
        hint = "Write them one after the other: `x[n][None]`."
        fail("RG0703", "a new axis, or `...`, beside an array of ints", at, hint)
    if len(keys) > len(t.shape) + sum(key is None or key is ... for key in keys):
        fail("RG0703", f"{named(t)} has {len(t.shape)} axes, and {len(keys)} indices are given", at)
    try:
        picked = numbers[tuple(key if known or isinstance(key, slice) else slice(None) for key in keys)]
    except IndexError as error:
        fail("RG0713", f"{error}", at)
    return _Plan(np.asarray(picked), (t,), ((0, 0),)), [] if known else [*keys]


def indexed_type(t: Array, keys: Sequence[Index], at: Place) -> Type:
    """The type of x[keys], where some key is an array."""
    plan, rest = _sliced(t, keys, at)
    if not rest:
        return plan.type
    assert isinstance(plan.type, Array)
    shape, axes = _gathered_axes(plan.type, rest, at)
    lengths = (*(plan.type.shape[k] for k in axes[0]), *shape, *(plan.type.shape[k] for k in axes[1]))
    return Array(t.element, lengths, row_major(lengths, 1))


def indexed(lowering: Any, array: Value, keys: Sequence[Index], at: Place) -> Value:
    """x[keys], where some key is an array. An int of the run below 0 or beyond its axis traps."""
    own: Type = array.type
    assert isinstance(own, Array)
    types = [key.type if isinstance(key, Value) else key for key in keys]
    plan, rest = _sliced(own, types, at)
    array = plan.value(lowering, "picked", [array], at)
    if not rest:
        return array
    t, own = indexed_type(own, types, at), plan.type
    assert isinstance(t, Array)
    assert isinstance(own, Array)
    shape, (front, _) = _gathered_axes(own, rest, at)
    source: Any = lowering.arrays.operand(array)
    picks = [_operand_of(lowering, key, at) for key in keys]

    def one(index: tuple[E, ...]) -> Operand:
        assert isinstance(own, Array)
        before, others = list(index[: len(front)]), index[len(front) :]
        inner, behind = others[: len(shape)], list(others[len(shape) :])
        address = source.address
        for axis, (length, stride) in enumerate(zip(own.shape, own.strides, strict=True)):
            pick = picks[axis] if axis < len(picks) else None
            if pick is None:
                address = address.shifted((before if axis < len(front) else behind).pop(0), stride)
                continue
            i = lowering.arithmetic.expression(element(pick, inner))
            message = f"the index is {{a}}, and axis {axis} of the array has length {length}"
            address = address.shifted(i, stride, InRange(i, length, message, at.span))
        return ArrayView(own.element, (), (), address).item()

    whole = lowering.body.array(t, "picked")
    lowering.arrays.add(whole, Lazy(t.shape, one), at)
    return Value(t, (), (whole.address,))


def _operand_of(lowering: Any, key: Index, at: Place) -> Operand | None:
    """The ints that an index is; None for a slice."""
    if isinstance(key, Value):
        found: Operand = lowering.arrays.operand(key)
        return found
    if isinstance(key, np.ndarray):
        view: Operand = lowering.arrays.context().constant_array(key, ast.Constant(0), passed=True)
        return view
    return None if isinstance(key, slice) else Constant(key)


def _gathered_axes(
    t: Array, keys: Sequence[Index], at: Place
) -> tuple[tuple[int, ...], tuple[Sequence[int], Sequence[int]]]:
    """The shape of the indices that are no slices together, and the axes before and behind them."""
    picked = [k for k, key in enumerate(keys) if not isinstance(key, slice)]
    shapes: list[tuple[int, ...]] = []
    for k in picked:
        key = keys[k]
        kinds = (
            numbers_in(key) if not _is_known(key) else (Kind.BOOL if np.asarray(key).dtype.kind == "b" else Kind.INT,)
        )
        if kinds != (Kind.INT,):
            hint = "Write an int, or an array of ints."
            if kinds == (Kind.BOOL,):
                hint = "Its length would be known only when the program runs: choose by `np.where(c, x, 0.0)`."
            fail("RG0703", f"{named(key)} is no index of {named(t)}", at, hint)
        shapes.append(np.shape(key) if _is_known(key) else key.shape if isinstance(key, Array) else ())
        if _is_known(key) and np.size(key) and not 0 <= np.min(key) <= np.max(key) < t.shape[k]:
            hint = "Beside ints of the run, write ints from 0 on."
            fail("RG0713", f"an index is {np.min(key)} … {np.max(key)}, and axis {k} has length {t.shape[k]}", at, hint)
    if picked != list(range(picked[0], picked[-1] + 1)):
        hint = "Take one index after the other, or move the axes by `np.moveaxis`."
        fail("RG0703", "arrays of ints as indices of axes that are apart", at, hint)
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        fail("RG0712", f"the shapes {' and '.join(map(str, shapes))} do not broadcast", at)
    return shape, (range(picked[0]), range(picked[-1] + 1, len(t.shape)))


def table(reader: Reader, name: str, node: ast.ListComp, scope: Scope) -> core.Core | None:
    """`np.stack([f(x) for x in X])`, `np.array([… for i in range(3)])`: rows by the loop `Table`, where X is an array.

    None for other comprehensions: with a test, over several sequences, or over a range of a length of the run.
    """
    at = reader.at(node)
    g = node.generators[0]
    if len(node.generators) > 1 or g.ifs or g.is_async:
        return None
    held: list[tuple[core.Binding, core.Core]] = []
    lengths: list[core.Core] = []
    index = core.Binding("k", at)
    own = core.Ref(index, at)

    def item(e: ast.expr) -> core.Core | None:
        """The item of a sequence with this index."""
        called = reader.known(e.func, scope) if isinstance(e, ast.Call) and not e.keywords else None
        args = e.args if isinstance(e, ast.Call) else []
        if called is range and len(args) == 1:
            count = reader.constant(reader.expression(args[0], scope))
            if not isinstance(count, core.Number | core.Length):
                return None
            lengths.append(count)
            return own
        if called is enumerate or called is zip:
            found = [item(a) for a in args]
            parts = [x for x in found if x is not None]
            if len(parts) < len(found) or (called is enumerate and len(args) != 1):
                return None
            return core.Record((own, *parts) if called is enumerate else tuple(parts), at)
        if called in (range, reversed):
            return None
        held.append((core.Binding("rows", at), reader.expression(e, scope)))
        rows = core.Ref(held[-1][0], at)
        lengths.append(core.Length(rows, at))
        return core.Element(rows, (own,), at)

    value = item(g.iter)
    if value is None:
        return None
    row = reader.bound(g.target, value, lambda inner: reader.expression(node.elt, inner), scope, node)
    counts = tuple(x.value if isinstance(x, core.Number) else None for x in lengths)
    f = core.Lambda("row", (index,), row, at)
    sequences = tuple(core.Ref(b, at) for b, _ in held)
    known = [x.array if isinstance(x, core.Length) else x for x in lengths if not isinstance(x, core.Number)]
    made: core.Core = core.Primitive(Table(name, counts), (f, *known), at)
    items = core.Primitive(Joined(name, False), (comprehended(reader, node, scope),), at)
    made = core.Conditional(core.Primitive(AreArrays(), sequences, at), made, items, at) if sequences else made
    for binding, e in reversed(held):
        made = core.Let(binding, e, made, at)
    return made


@dataclass(eq=False, frozen=True)
class Table:
    """f(0), f(1) … as the rows of an array: as many as `counts` and the lengths of the other arguments all allow."""

    name: str
    counts: tuple[Any, ...]

    def _count(self, types: Sequence[Type]) -> int:
        lengths = [t.shape[0] if isinstance(t, Array) else len(t.items) for t in types if isinstance(t, Array | Tuple)]
        return int(min([*lengths, *(n for n in self.counts if n is not None)]))

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        row = inference.apply(types[0], (INT,), at)
        if isinstance(row, Nothing):
            return row
        kinds, count = numbers_in(row), self._count(types[1:])
        need_operations((row,), self.name, at)
        if not kinds or count < 1:
            what = f"with rows {named(row)}" if count > 0 else "without rows"
            fail("RG0703", f"`{self.name}` {what}", at, "Rows are numbers, or arrays of these.")
        shape = (count, *(row.shape if isinstance(row, Array) else ()))
        return Array(ScalarType(kinds[0]), shape, row_major(shape, 1))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        t = self.type(lowering.inference, tuple(v.type for v in values), at)
        assert isinstance(t, Array)
        whole = lowering.body.array(t, "rows")
        k = Var("k", Kind.INT, at.span)
        with lowering.body.nested() as inner:
            row = lowering.calls.apply(values[0], [Value(INT, (read(k),))], at)
            place = whole.without(0, whole.at(read(k)))
            place = place if place.shape else ArrayView(t.element, (1,), (1,), place.address)
            lowering.arrays.add(place, lowering.arrays.operand(row), at)
        lowering.body.emit(For(k, Const(0), Const(t.shape[0]), 1, tuple(inner), False, True, at.span))
        return Value(t, (), (whole.address,))


@dataclass(eq=False, frozen=True)
class Einsum:
    """Σ over the axes that the result lacks. `inputs`: the axes of each array, by letters; `made`: of the result."""

    function: SourceFunction
    inputs: tuple[str, ...]
    made: str

    def _lengths(self, types: Sequence[Type], at: Place) -> dict[str, int]:
        found: dict[str, int] = {}
        for letters, t in zip(self.inputs, types, strict=True):
            shape = t.shape if isinstance(t, Array) else ()
            if not isinstance(t, Array | Word) or len(shape) != len(letters):
                fail("RG0712", f"`{letters}` names {len(letters)} axes of {named(t)}", at)
            for letter, n in zip(letters, shape, strict=True):
                if found.setdefault(letter, n) != n:
                    fail("RG0712", f"the axis `{letter}` has lengths {found[letter]} and {n}", at)
        need_operations(types, "np.einsum", at)
        if AreBools().type(None, tuple(types), at) == Known(True):
            hint = "Multiply one of them by 1, `1 * x`: then bools count as 0 and 1."
            fail("RG0703", "`np.einsum` of bools, in which NumPy has `or` for sums", at, hint)
        return found

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        lengths = self._lengths(types, at)
        kinds = [k for t in types for k in numbers_in(t)]
        kind = Kind.FIXED if Kind.FIXED in kinds else Kind.INT
        shape = tuple(lengths[c] for c in self.made)
        return Array(ScalarType(kind), shape, row_major(shape, 1)) if shape else Word(kind)

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        lengths = self._lengths([v.type for v in values], at)
        cx = lowering.arrays.context(self.function)
        operands = [lowering.arrays.operand(v) for v in values]
        inner = [c for c in lengths if c not in self.made]
        variables = {c: Var(c, Kind.INT, at.span) for c in inner}
        for c, var in variables.items():
            note_range(cx.builder.ranges, var, lengths[c], cx.w)

        def one(index: tuple[E, ...]) -> Operand:
            places = dict(zip(self.made, index, strict=True)) | {c: read(v) for c, v in variables.items()}
            product: Operand | None = None
            for letters, operand in zip(self.inputs, operands, strict=True):
                factor = element(operand, tuple(places[c] for c in letters))
                product = factor if product is None else cx.arithmetic.binary("*", product, factor)
            assert product is not None
            e = cx.arithmetic.expression(product)
            e = cx.arithmetic.converted(e, Kind.INT) if e.kind is Kind.BOOL else e
            sizes = [lengths[c] for c in inner]
            if 0 in sizes:
                return Scalar(const(0, e.kind))
            return Scalar(sum_over(e, list(variables.values()), sizes) if inner else e)

        shape = tuple(lengths[c] for c in self.made)
        found = guarded(at, lambda: Lazy(shape, one) if shape else one(()), lowering.inference.constants)
        return lowering.arrays.stored(found, at)  # type: ignore[no-any-return]


@dataclass(eq=False, frozen=True)
class Accumulated:
    """y[0] = x[0], y[i] = y[i − 1] ∘ x[i] along an axis, the first one for None; `last`: the last y."""

    name: str
    op: str
    last: bool
    axis: int | None
    kept: bool

    def _form(self, types: Sequence[Type], at: Place) -> tuple[Array, int, tuple[int, ...]]:
        """(the type of y, the axis, the shape of the value)"""
        [own] = types
        if not isinstance(own, Array) or not isinstance(own.element, ScalarType):
            hint = "Name the items: `np.array([x, y])`." if isinstance(own, List) else None
            fail("RG0703", f"`{self.name}` of {named(own)}, which is no array", at, hint)
        if not (self.axis is None or -len(own.shape) <= self.axis < len(own.shape)):
            fail("RG0712", f"`{self.name}`: {named(own)} has no axis {self.axis}", at)
        need_operations(types, self.name, at)
        shape = own.shape
        axis = (self.axis or 0) % len(shape)
        if not shape[axis]:
            fail("RG0703", f"`{self.name}` of an array without elements", at, "Give it an element at least.")
        kind = own.element.kind
        kind = Kind.INT if kind is Kind.BOOL and self.op in "+*" else kind
        rest = shape[:axis] + ((1,) if self.kept else ()) + shape[axis + 1 :]
        return Array(ScalarType(kind), shape, row_major(shape, 1)), axis, rest if self.last else shape

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        made, axis, shape = self._form(types, at)
        if not shape:
            return Word(made.element.kind)  # type: ignore[union-attr]
        strides = made.strides
        if self.last:
            strides = strides[:axis] + ((1,) if self.kept else ()) + strides[axis + 1 :]
        return Array(made.element, shape, strides)

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        made, axis, _ = self._form([values[0].type], at)
        t = self.type(None, (values[0].type,), at)
        x = lowering.arrays.operand(values[0])
        whole, arithmetic = lowering.body.array(made, self.name.rpartition(".")[2]), lowering.arithmetic

        length = made.shape[axis]

        def add(index: list[E]) -> None:
            """One element of y, by that before it."""
            place = whole.address
            for i, stride in zip(index, whole.strides, strict=True):
                place = place.shifted(i, stride)
            before = [*index]
            before[axis] = sub(index[axis], const(1, Kind.INT), arithmetic.w)
            terms = [element(whole, tuple(before)), element(x, tuple(index))]
            value = terms[1] if index[axis].op == "const" else operated(arithmetic, self.op, terms)
            lowering.arrays.add(ArrayView(whole.element, (1,), (1,), place), value, at)

        def loops(first: list[E], axes: Sequence[int]) -> None:
            if not axes:
                add(first)
                return
            i, start = Var("i", Kind.INT, at.span), int(axes[0] == axis)
            with lowering.body.nested() as inner:
                loops([read(i) if k == axes[0] else e for k, e in enumerate(first)], axes[1:])
            if start < made.shape[axes[0]]:
                count = Const(made.shape[axes[0]])
                lowering.body.emit(For(i, Const(start), count, 1, tuple(inner), False, True, at.span))

        others = [k for k in range(len(made.shape)) if k != axis]
        zeros = [const(0, Kind.INT) for _ in made.shape]
        loops(zeros, others)
        loops(zeros, [axis, *others])
        end = whole.at(const(length - 1, Kind.INT), axis) if self.last else whole.address
        if isinstance(t, Word):
            return Value(t, (load(end, t.kind),))
        return Value(t, (), (end,))
