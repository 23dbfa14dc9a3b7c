"""Functions of Python and NumPy that the language has under another name: one table for their values and for the advice of messages.

WRITTEN[math.ceil]     "-floor(-x)"
ALTERNATIVES["ceil"]   "-rg.floor(-{x})"
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import reduce
from typing import Any

import numpy as np
from retrograd.compiler.frontends.python.context import Context, evaluates
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.language import complex_numbers, intrinsics
from retrograd.compiler.language.lognums import is_lognum
from retrograd.compiler.language.types import check_size
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StructValue,
    Value,
    describe,
    tuple_value,
)

_REMAINDER = "(abs(fixed(x)) % abs(fixed(y)))"
_WHOLE = "(floor(x) if x >= 0 else -floor(-x))"
#: function → an expression of the same value over its arguments x, y, z; names are those of the language
WRITTEN: dict[Callable[..., Any], str] = {
    math.ceil: "-floor(-x)", math.trunc: _WHOLE, math.fabs: "abs(fixed(x))", math.pow: "fixed(x) ** y",
    math.copysign: "abs(fixed(x)) if y >= 0 else -abs(fixed(x))", math.fmod: f"{_REMAINDER} if x >= 0 else -{_REMAINDER}",
    math.degrees: f"fixed(x) * {180 / math.pi!r}", math.radians: f"fixed(x) * {math.pi / 180!r}", builtins.pow: "x ** y",
    np.abs: "abs(x)", np.fabs: "abs(fixed(x))", np.negative: "-x", np.square: "x * x", np.sign: "(x > 0) - (x < 0)",
    np.floor: "fixed(floor(x))", np.ceil: "fixed(-floor(-x))", np.trunc: f"fixed({_WHOLE})", np.rint: "fixed(round(x))",
    np.maximum: "max(x, y)", np.minimum: "min(x, y)", np.clip: "min(max(x, y), z)", np.where: "select(x, y, z)",
    np.add: "x + y", np.subtract: "x - y", np.multiply: "x * y", np.divide: "x / y", np.power: "x ** y", np.mod: "x % y", np.floor_divide: "x // y",
    np.dot: "x @ y", np.matmul: "x @ y", np.vdot: "x @ y",
    np.sqrt: "sqrt(x)", np.exp: "exp(x)", np.log: "log(x)", np.sin: "sin(x)", np.cos: "cos(x)", np.tan: "tan(x)", np.arctan: "atan(x)",
    np.arctan2: "atan2(x, y)", np.degrees: f"fixed(x) * {180 / math.pi!r}", np.radians: f"fixed(x) * {math.pi / 180!r}",
}  # fmt: skip
#: name of a function of NumPy → the function of `math` with its value
OF_NUMPY = {"arcsin": "asin", "arccos": "acos"}
#: functions of the library, by the number of their arguments
_OF_LIBRARY = {
    1: ("tanh", "sinh", "cosh", "asin", "acos", "exp2", "expm1", "log1p", "log2", "log10", "cbrt", "erf"),
    2: ("hypot",),
}


def _shown(expression: str) -> str:
    """An expression of `WRITTEN` as a user writes it: with `rg.`, and without conversions of its arguments, which are fixed; {x} is an argument."""

    class Shown(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            return node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "fixed" else node

        def visit_Name(self, node: ast.Name) -> ast.AST:
            own = node.id in (
                "select",
                "floor",
                *(f.__name__ for f in intrinsics.FOREIGN.values()),
            ) and node.id not in (
                "min",
                "max",
            )
            return ast.Name(f"{{{node.id}}}" if node.id in ("x", "y", "z") else f"rg.{node.id}" if own else node.id)

    return ast.unparse(Shown().visit(ast.parse(expression, mode="eval")))


#: name of a function of Python or NumPy → an expression to write in its place. `math.remainder` is no `np.remainder`.
ALTERNATIVES: dict[str, str] = {
    **{f.__name__: _shown(text) for f, text in WRITTEN.items() if f is not np.mod},
    **{name: f"rg.{name}({', '.join(['{x}', '{y}'][:n])})" for n, names in _OF_LIBRARY.items() for name in names},
    **{name: f"rg.{of}({{x}})" for name, of in OF_NUMPY.items()},
    "divmod": "{x} // {y}` and `{x} % {y}", "sorted": "retrograd.library.sort", "float": "fixed({x})",
}  # fmt: skip


# -----------------------------------------------------------------------------
# Functions of Python and NumPy on values of a run, where the language has the same function; comprehensions of known lengths.
#
#     math.ceil(x)            -rg.floor(-x)
#     np.clip(x, a, b)        min(max(x, a), b)
#     all((c, d))             c and d, as a bool
#     sum(v * v for v in a)   a[0] * a[0] + a[1] * a[1] + …
#
# A function of constants alone is called by Python itself.

COMPLEX_FUNCTIONS = "Operators and functions such as `rg.exp` take complex numbers."
#: the names of templates, besides their arguments x, y, z
_NAMES: dict[str, Any] = {
    "fixed": float, "abs": abs, "round": round, "min": min, "max": max,
    **{name: f for name, f in intrinsics.INTRINSICS.items() if f.role == intrinsics.EXPRESSION and name not in ("min", "max", "sum")},
}  # fmt: skip


class Held(ast.expr):
    """A value in place of the syntax that gave it."""

    held: Value
    #: the syntax
    of: ast.AST


@evaluates(Held)
def held_value(cx: Context, node: Held) -> Value:
    return node.held


def held(value: Value, of: ast.AST) -> Held:
    node = Held()
    node.held, node.of = value, of
    return ast.copy_location(node, of)


#: an item of an iteration: a value, or items of several iterations
_Item = Value | tuple[Any, ...]


def _value(item: _Item) -> Value:
    return tuple_value([*map(_value, item)]) if isinstance(item, tuple) else item


def foreign_call(cx: Context, callee: Any, args: Sequence[Value], node: ast.Call) -> Value | None:
    """The value of a call with values of the run; None where the language has no such function."""
    arithmetic = cx.arithmetic
    if getattr(callee, "__module__", None) == "math" and complex_numbers.among(args):
        cx.fail("RG0703", f"`{shortened(node.func)}` takes real numbers", node, COMPLEX_FUNCTIONS)
    if callee is all or callee is any:
        if len(args) != 1:
            return None
        truths = [cx.guarded(node, arithmetic.truth, v) for v in cx.items(args[0], node.args[0])]
        return Scalar(arithmetic.both(truths, callee is all)) if truths else Constant(callee is all)
    if callee is divmod and len(args) == 2:
        return tuple_value([cx.guarded(node, arithmetic.binary, op, *args) for op in ("//", "%")])
    template = _template(cx, callee, len(args))
    if template is None:
        return None
    names = sorted({n.id for n in ast.walk(template) if isinstance(n, ast.Name)} & {"x", "y", "z"})
    if len(names) != len(args):
        return None
    places = node.args if len(node.args) == len(args) else [node] * len(args)
    given = {name: held(v, at) for name, v, at in zip(names, args, places, strict=True)}
    return cx.value(_filled(template, given, node))


def _template(cx: Context, callee: Any, count: int) -> ast.expr | None:
    """The expression that has the value of a function, over the names x, y, z."""
    try:
        text = WRITTEN.get(callee)
    except TypeError:  # an object without a hash
        return None
    if text is not None:
        return ast.parse(text, mode="eval").body
    found = intrinsics.library_function(_of_math(callee))
    if found is None:
        return None
    parameters: list[ast.expr] = [ast.Name(name, ast.Load()) for name in "xyz"[:count]]
    return ast.Call(held(cx.wrap(found), ast.Constant(0)), parameters, [])


def array_method(cx: Context, x: ArrayView | Lazy, node: ast.Call) -> Value | None:
    """`a.sum(axis=0)`, `a.max()`, `a.dot(b)`; None for other methods."""
    assert isinstance(node.func, ast.Attribute)
    name, array = node.func.attr, held(x, node.func.value)
    if name == "dot" and len(node.args) == 1 and not node.keywords:
        return cx.value(ast.copy_location(ast.BinOp(array, ast.MatMult(), node.args[0]), node))
    if name not in ("sum", "mean", "min", "max"):
        return None
    # `a.sum(0)` is `a.sum(axis=0)`.
    axis = [ast.copy_location(ast.keyword("axis", a), a) for a in node.args]
    function = held(Constant(intrinsics.INTRINSICS[name]), node.func)
    return cx.value(ast.copy_location(ast.Call(function, [array], [*axis, *node.keywords]), node))


def reduced(cx: Context, name: str, items: Sequence[Value], node: ast.AST) -> Value:
    """The sum, mean, minimum or maximum of the items of a tuple."""
    arithmetic = cx.arithmetic
    if name in ("min", "max"):
        return items[0] if len(items) == 1 else cx.guarded(node, arithmetic.function, name, items)
    # No lognum is 0, so a sum of these begins with its first item.
    start: list[Value] = [] if any(is_lognum(v) for v in items) else [Constant(0)]
    total = reduce(lambda x, y: cx.guarded(node, arithmetic.binary, "+", x, y), items, *start)
    return total if name == "sum" else cx.guarded(node, arithmetic.binary, "/", total, Constant(len(items)))


def contained(cx: Context, x: Value, items: Value, op: ast.In | ast.NotIn, node: ast.Compare) -> Value | None:
    """`x in (1, 2)` for items of a known number; None where `items` has none."""
    if isinstance(items, Constant) and isinstance(items.value, range | set | frozenset):
        items = (
            Constant(tuple(items.value)) if not isinstance(items.value, range) or len(items.value) <= _MOST else items
        )
    known = isinstance(items, Constant) and isinstance(items.value, tuple | list | np.ndarray)
    if not known and not isinstance(items, StructValue | ArrayView | Lazy):
        return None
    arithmetic = cx.arithmetic
    found = [
        cx.guarded(node, lambda v=v: arithmetic.truth(arithmetic.binary("==", x, v)))
        for v in cx.items(items, node.comparators[0])
    ]
    truth: Value = Scalar(arithmetic.both(found, False)) if found else Constant(False)
    return truth if isinstance(op, ast.In) else cx.guarded(node, arithmetic.unary, "not", truth)


# ------------------------------------------------------------------ comprehensions


@evaluates(ast.ListComp, ast.GeneratorExp)
def comprehension(cx: Context, node: ast.ListComp | ast.GeneratorExp) -> Value:
    """The items of a comprehension, as a tuple."""
    outer = cx.scope.names
    cx.scope.names = dict(outer)
    try:
        values = list(_items_of(cx, node.generators, node))
    finally:
        cx.scope.names = outer
    if all(isinstance(v, Constant) for v in values):
        return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
    if any(isinstance(v, FunctionValue) for v in values):
        cx.fail("RG0701", f"`{shortened(node)}` makes functions", node, "Write the functions in a tuple.")
    return tuple_value(values)


def _items_of(
    cx: Context, generators: Sequence[ast.comprehension], node: ast.ListComp | ast.GeneratorExp
) -> Iterator[Value]:
    if not generators:
        yield cx.value(node.elt)
        return
    first, *inner = generators
    for item in _iterated_items(cx, first.iter):
        _bind_item(cx, first.target, item)
        if all(_holds_for_item(cx, test) for test in first.ifs):
            yield from _items_of(cx, inner, node)


def _iterated_items(cx: Context, node: ast.expr) -> list[_Item]:
    """The items that a comprehension goes through: of a tuple, a range, an array; `enumerate`, `zip` and `reversed` of these."""
    if isinstance(node, ast.Call) and not node.keywords:
        callee = cx.value(node.func)
        match callee.value if isinstance(callee, Constant) else None, node.args:
            case builtins.enumerate, [of]:
                return [(Constant(i), item) for i, item in enumerate(_iterated_items(cx, of))]
            case builtins.zip, [*several]:
                return list(zip(*(_iterated_items(cx, of) for of in several), strict=False))
            case builtins.reversed, [of]:
                return _iterated_items(cx, of)[::-1]
    value = cx.value(node)
    if isinstance(value, Constant) and isinstance(value.value, range | np.ndarray):
        cx.guarded(node, check_size, (len(value.value),))
        value = Constant(tuple(value.value))
    length = value.shape[0] if isinstance(value, ArrayView | Lazy) and value.shape else 0
    if not isinstance(length, int) or isinstance(value, Scalar):
        hint = "Make an array with `t = rg.zeros(n)` and fill it in a loop, or write an expression of whole arrays."
        message = f"a comprehension goes through a known number of items; `{shortened(node)}` is {describe(value)}"
        cx.fail("RG0717", message, node, hint)
    cx.guarded(node, check_size, (length,))
    return [*cx.items(value, node)]


def _bind_item(cx: Context, target: ast.expr, item: _Item) -> None:
    match target:
        case ast.Name(id=name):
            cx.scope.names[name] = _value(item)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            items = item if isinstance(item, tuple) else cx.items(item, target)
            if len(items) != len(parts):
                cx.fail("RG0703", f"{len(parts)} names for {len(items)} values", target)
            for part, inner in zip(parts, items, strict=True):
                _bind_item(cx, part, inner)
        case _:
            cx.fail("RG0701", f"`{shortened(target)}` is no name", target)


def _holds_for_item(cx: Context, test: ast.expr) -> bool:
    c = cx.tested(test)
    if not isinstance(c, Constant):
        hint = f"Write a choice for each item, `e if {shortened(test)} else 0`."
        cx.fail("RG0717", f"`{shortened(test)}` is known only when the program runs", test, hint)
    return cx.decided(c, test)


#: items of a range that are compared one by one
_MOST = 64


def _of_math(callee: Any) -> Any:
    """The function of `math` that has the value of a function of NumPy; any other object unchanged."""
    if isinstance(callee, np.ufunc):
        return getattr(math, OF_NUMPY.get(callee.__name__, callee.__name__), callee)
    return callee


def _filled(template: ast.expr, given: dict[str, Held], at: ast.AST) -> ast.expr:
    """The template with its arguments, at a place of the source."""

    def made(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name):
            return given[node.id] if node.id in given else held(Constant(_NAMES[node.id]), at)
        if isinstance(node, Held):
            return held(node.held, at)
        new = copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(new, name, [made(v) for v in value])
            elif isinstance(value, ast.expr):
                setattr(new, name, made(value))
        return ast.copy_location(new, at)

    found = made(template)
    assert isinstance(found, ast.expr)
    return found
