"""Operators inside expressions: arithmetic, comparisons, `and`, `or`, `x if c else y`; tuples of constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from retrograd.compiler.frontends.python.context import Context, decides, evaluates
from retrograd.compiler.frontends.python.foreign import contained
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.ir.expressions import E, const, read
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.arithmetic import COMPARISONS, element, kind_of
from retrograd.compiler.language.purity import need_plain
from retrograd.compiler.language.types import check_operator, merged, note_range, sum_over
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

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


@evaluates(ast.BinOp)
def binary(cx: Context, node: ast.BinOp) -> Value:
    x, y = cx.value(node.left), cx.value(node.right)
    if isinstance(node.op, ast.MatMult):
        return _matrix_product(cx, x, y, node)
    if isinstance(node.op, ast.Mult) and (_is_sequence(x) or _is_sequence(y)):
        repeated = _repeated_items(cx, node, *((x, y, node.left) if _is_sequence(x) else (y, x, node.right)))
        if repeated is not None:
            return repeated
    alike = not isinstance(node.op, ast.Pow)
    if not alike and kind_of(y) is Kind.LOGNUM:
        shown = shortened(node.right)
        message = f"the exponent `{shown}` is a lognum"
        cx.fail("RG0703", message, node.right, f"fixed({shown}) makes a fixed of it")
    x, y = cx.together((x, y), (node.left, node.right), alike)
    return cx.guarded(node, cx.arithmetic.binary, OPERATORS[type(node.op)], x, y)


def _repeated_items(cx: Context, node: ast.BinOp, items: Value, count: Value, shown: ast.expr) -> Value | None:
    """A list or a tuple times an integer: its items again and again, as in Python. None beside any other number, which scales the items."""
    if isinstance(count, Constant) and isinstance(count.value, int | np.integer):
        each = cx.items(items, shown)
        cx.guarded(node, check_operator, "*", (0,) * len(each), int(count.value))
        found = each * int(count.value)
        if all(isinstance(v, Constant) for v in found):
            return Constant(tuple(v.value for v in found if isinstance(v, Constant)))
        return tuple_value(found)
    if isinstance(count, Scalar) and count.kind in (Kind.INT, Kind.UINT, Kind.BOOL):
        message = f"`{shortened(node)}` repeats a list as often as a number of the run says"
        number = shortened(node.right if shown is node.left else node.left)
        hint = (
            f"`{shortened(shown)} * fixed({number})` multiplies the items; `rg.zeros({number})` has a length of the run"
        )
        cx.fail("RG0703", message, node, hint)
    return None


def _matrix_product(cx: Context, x: Value, y: Value, node: ast.BinOp) -> Value:
    """Σₖ xᵢₖ yₖⱼ, of matrices and vectors."""
    factors = [cx.stored(x, node.left), cx.stored(y, node.right)]
    for v, operand in zip(factors, (node.left, node.right), strict=True):
        if not isinstance(v, ArrayView | Lazy) or not 1 <= len(v.shape) <= 2:
            message = f"`{shortened(operand)}` is {describe(v)}; `@` multiplies matrices and vectors"
            cx.fail("RG0703", message, operand, "write `*` for the product of numbers")
    left, right = factors
    assert isinstance(left, ArrayView | Lazy)
    assert isinstance(right, ArrayView | Lazy)
    if left.shape[-1] != right.shape[0]:
        message = f"`{shortened(node)}`: rows of {left.shape[-1]} numbers, columns of {right.shape[0]}"
        cx.fail("RG0712", message, node)
    length = merged((left.shape[-1], right.shape[0]))
    k = Var("k", Kind.INT, cx.span(node))
    note_range(cx.builder.ranges, k, length, cx.builder.w)
    arithmetic = cx.arithmetic

    def one(index: tuple[E, ...]) -> Value:
        i = len(left.shape) - 1
        term = arithmetic.binary("*", element(left, (*index[:i], read(k))), element(right, (read(k), *index[i:])))
        if isinstance(term, StructValue):
            return StructValue(term.type, {name: total(v) for name, v in term.fields.items()})
        return total(term)

    def total(term: Value) -> Value:
        body = arithmetic.expression(term)
        if body.kind is Kind.LOGNUM:
            shown = " * ".join(shortened(x) for x in (node.left, node.right))
            way = f"write `rg.sum({shown})`" if len(left.shape) == len(right.shape) == 1 else "write a loop over rows"
            raise TypeError(f"`@` adds fixed numbers and ints; of lognums {way}")
        return Scalar(sum_over(body, (k,), (length,)))

    shape = (*left.shape[:-1], *right.shape[1:])
    if not shape:
        return cx.guarded(node, one, ())
    cx.guarded(node, one, tuple(const(0, Kind.INT) for _ in shape))
    return Lazy(shape, one)


@evaluates(ast.UnaryOp)
def unary(cx: Context, node: ast.UnaryOp) -> Value:
    operand = cx.tested if isinstance(node.op, ast.Not) else cx.value
    x = operand(node.operand)
    if isinstance(node.op, ast.Invert) and isinstance(x, FunctionValue):
        return replace(x, backward=not x.backward)
    return cx.guarded(node, cx.arithmetic.unary, OPERATORS[type(node.op)], x)


@evaluates(ast.IfExp)
def choice(cx: Context, node: ast.IfExp) -> Value:
    return _chosen_side(cx, node.test, node.body, node.orelse, node)


def select(cx: Context, node: ast.Call) -> Value:
    """`rg.select(c, x, y)`: `x if c else y`."""
    c, x, y = node.args
    return _chosen_side(cx, c, x, y, node)


def _chosen_side(cx: Context, test: ast.expr, x: ast.expr, y: ast.expr, node: ast.expr) -> Value:
    """x if the test holds, else y. Of a test that is known only one side is lowered."""
    c = cx.tested(test)
    elementwise = isinstance(node, ast.Call)
    if isinstance(c, Constant) and not (elementwise and isinstance(c.value, np.ndarray | tuple | list)):
        return cx.value(x if cx.decided(c, test) else y)
    values = [c, cx.value(x), cx.value(y)]
    if elementwise and all(isinstance(v, Constant) for v in values):
        arrays = [cx.numbers(v.value, node) for v in values if isinstance(v, Constant)]
        return Constant(cx.guarded(node, np.where, *arrays))
    values = cx.together(values, (test, x, y), alike=False)
    values[1:] = cx.together(values[1:], (x, y))
    return cx.guarded(node, cx.arithmetic.function, "select", values)


@evaluates(ast.BoolOp)
def boolean(cx: Context, node: ast.BoolOp) -> Value:
    """`x and y` is y if x is true, else x; `x or y` is x if x is true, else y. So is a row of operands, from left to right."""
    conjunction = isinstance(node.op, ast.And)
    values = _until_decided(cx, node, cx.value)
    if all(map(_is_truth, values)):
        return _combined(cx, node, values, conjunction)
    *others, result = values
    for x, operand in reversed([*zip(others, node.values, strict=False)]):
        # A constant that decides stands last.
        if not isinstance(x, Constant):
            c = cx.guarded(operand, cx.arithmetic.truth, x)
            sides = (result, x) if conjunction else (x, result)
            if any(isinstance(v, ArrayView | Lazy) or np.ndim(getattr(v, "value", 0)) for v in sides):
                message = f"`{shortened(node)}` is an array or a number"
                cx.fail("RG0703", message, node, "Write an `if`, and an update in each branch.")
            result = cx.guarded(node, cx.arithmetic.function, "select", [Scalar(c), *sides])
    return result


@decides(ast.BoolOp)
def truths(cx: Context, node: ast.BoolOp) -> Value:
    """The truth of `x and y`, where nothing but the truth matters: a bool."""
    values = _until_decided(cx, node, cx.tested)
    return _combined(cx, node, values, isinstance(node.op, ast.And))


def _until_decided(cx: Context, node: ast.BoolOp, lower: Callable[[ast.expr], Value]) -> list[Value]:
    """The operands up to the first constant that decides; those behind it have no value, as in Python."""
    values: list[Value] = []
    for operand in node.values:
        values.append(lower(operand))
        c = values[-1]
        if isinstance(c, Constant) and cx.decided(c, operand) is isinstance(node.op, ast.Or):
            break
    return values


def _combined(cx: Context, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
    """The truths of several values together."""
    left: list[Value] = []
    for v in values:
        if isinstance(v, Constant):
            if cx.decided(v, node) is not conjunction:
                return Constant(not conjunction) if not left else _conjoin(cx, node, [*left, v], conjunction)
            continue
        left.append(v)
    return _conjoin(cx, node, left, conjunction) if left else Constant(conjunction)


def _conjoin(cx: Context, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
    def combine() -> Value:
        truths = [cx.arithmetic.truth(v) for v in values]
        return Scalar(cx.arithmetic.both(truths, conjunction))

    return cx.guarded(node, combine)


@evaluates(ast.Compare)
def comparison(cx: Context, node: ast.Compare) -> Value:
    # `n in {1, 2}` is `n in (1, 2)`.
    sides = [
        ast.copy_location(ast.Tuple(v.elts, ast.Load()), v) if isinstance(v, ast.Set) else v for v in node.comparators
    ]
    operands = [cx.value(v) for v in (node.left, *sides)]
    parts: list[Value] = []
    nodes = pairwise((node.left, *sides))
    for op, (x, y), places in zip(node.ops, pairwise(operands), nodes, strict=True):
        symbol = OPERATORS.get(type(op))
        if symbol in COMPARISONS:
            pair = cx.together((x, y), places)
            parts.append(cx.guarded(node, cx.arithmetic.binary, symbol, *pair))
        elif isinstance(x, Constant) and isinstance(y, Constant):
            parts.append(Constant(_identity_or_membership(cx, op, x.value, y.value, node)))
        elif isinstance(op, ast.In | ast.NotIn) and (found := contained(cx, x, y, op, node)) is not None:
            parts.append(found)
        else:
            hint = None
            if isinstance(op, ast.In | ast.NotIn):
                hint = "`in` compares with each item of a tuple, a range or an array of a known length."
            cx.fail("RG0701", f"`{shortened(node)}` compares what the language cannot", node, hint)
    return parts[0] if len(parts) == 1 else _combined(cx, node, parts, True)


def _identity_or_membership(cx: Context, op: ast.cmpop, x: Any, y: Any, node: ast.AST) -> bool:
    """`is`, `is not`, `in`, `not in` of constants."""
    if isinstance(op, ast.Is | ast.IsNot):
        return (x is y) is isinstance(op, ast.Is)
    cx.guarded(node, need_plain, x)
    cx.guarded(node, need_plain, y)
    return cx.guarded(node, lambda: bool(x in y)) is isinstance(op, ast.In)


@evaluates(ast.Tuple, ast.List)
def sequence(cx: Context, node: ast.Tuple | ast.List) -> Value:
    values = [value for value, _ in cx.listed(node.elts)]
    if all(isinstance(v, Constant) for v in values):
        return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
    functions = [v for v in values if isinstance(v, FunctionValue) and not v.captured]
    if len(functions) == len(values):
        return Constant(tuple(v.function if v == FunctionValue(v.function) else v for v in functions))
    return tuple_value(values)


def _is_sequence(x: Value) -> bool:
    """Whether a value is a list or a tuple, and no array."""
    if isinstance(x, Constant):
        return isinstance(x.value, list | tuple)
    return isinstance(x, StructValue) and x.type.is_tuple


def _is_truth(x: Value) -> bool:
    """Whether a value is a bool."""
    return x.kind is Kind.BOOL if isinstance(x, Scalar) else isinstance(x, Constant) and isinstance(x.value, bool)
