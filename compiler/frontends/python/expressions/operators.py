"""Operators inside expressions: arithmetic, comparisons, `and`, `or`, `x if c else y`; tuples of constants."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import E, const, read
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.arithmetic import COMPARISONS, element
from retrograd.compiler.language.lengths import merged, note_range, sum_over
from retrograd.compiler.language.purity import need_plain
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


@dataclass(eq=False)
class Operators:
    """Values of operators and displays."""

    errors: Errors
    expressions: ExpressionLowering

    def binary(self, node: ast.BinOp) -> Value:
        x, y = self.expressions.value(node.left), self.expressions.value(node.right)
        if isinstance(node.op, ast.MatMult):
            return self._matrix_product(x, y, node)
        x, y = self.expressions.together((x, y), (node.left, node.right))
        return self.errors.guarded(node, self.expressions.arithmetic.binary, OPERATORS[type(node.op)], x, y)

    def _matrix_product(self, x: Value, y: Value, node: ast.BinOp) -> Value:
        """Σₖ xᵢₖ yₖⱼ, of matrices and vectors."""
        factors = [self.expressions.stored(x, node.left), self.expressions.stored(y, node.right)]
        for v, operand in zip(factors, (node.left, node.right), strict=True):
            if not isinstance(v, ArrayView | Lazy) or not 1 <= len(v.shape) <= 2:
                message = f"`{shortened(operand)}` is {describe(v)}; `@` multiplies matrices and vectors"
                self.errors.fail("RG0703", message, operand, "write `*` for the product of numbers")
        left, right = factors
        assert isinstance(left, ArrayView | Lazy)
        assert isinstance(right, ArrayView | Lazy)
        if left.shape[-1] != right.shape[0]:
            message = f"`{shortened(node)}`: rows of {left.shape[-1]} numbers, columns of {right.shape[0]}"
            self.errors.fail("RG0712", message, node)
        length = merged((left.shape[-1], right.shape[0]))
        k = Var("k", Kind.INT, self.errors.span(node))
        note_range(self.expressions.builder.ranges, k, length, self.expressions.builder.w)
        arithmetic = self.expressions.arithmetic

        def one(index: tuple[E, ...]) -> Value:
            i = len(left.shape) - 1
            term = arithmetic.binary("*", element(left, (*index[:i], read(k))), element(right, (read(k), *index[i:])))
            if isinstance(term, StructValue):
                return StructValue(term.type, {name: total(v) for name, v in term.fields.items()})
            return total(term)

        def total(term: Value) -> Value:
            body = arithmetic.expression(term)
            return Scalar(sum_over(body, (k,), (length,)))

        shape = (*left.shape[:-1], *right.shape[1:])
        if not shape:
            return self.errors.guarded(node, one, ())
        self.errors.guarded(node, one, tuple(const(0, Kind.INT) for _ in shape))
        return Lazy(shape, one)

    def unary(self, node: ast.UnaryOp) -> Value:
        x = self.expressions.value(node.operand)
        if isinstance(node.op, ast.Invert) and isinstance(x, FunctionValue):
            return replace(x, backward=not x.backward)
        return self.errors.guarded(node, self.expressions.arithmetic.unary, OPERATORS[type(node.op)], x)

    def choice(self, node: ast.IfExp) -> Value:
        c = self.expressions.value(node.test)
        if isinstance(c, Constant):
            return self.expressions.value(node.body if self.expressions.decided(c, node.test) else node.orelse)
        values = [c, self.expressions.value(node.body), self.expressions.value(node.orelse)]
        values = self.expressions.together(values, (node.test, node.body, node.orelse))
        return self.errors.guarded(node, self.expressions.arithmetic.function, "select", values)

    def boolean(self, node: ast.BoolOp) -> Value:
        return self._combined(node, [self.expressions.value(v) for v in node.values], isinstance(node.op, ast.And))

    def _combined(self, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
        if all(isinstance(v, Constant) for v in values):
            truths = [self.expressions.decided(v, node) for v in values if isinstance(v, Constant)]
            return Constant((all if conjunction else any)(truths))
        # Operands after a constant that decides are dropped; their types do not matter.
        left: list[Value] = []
        for v in values:
            if isinstance(v, Constant):
                if self.expressions.decided(v, node) is not conjunction:
                    return Constant(not conjunction) if not left else self._conjoin(node, [*left, v], conjunction)
                continue
            left.append(v)
        return self._conjoin(node, left, conjunction)

    def _conjoin(self, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
        def combine() -> Value:
            truths = [self.expressions.arithmetic.truth(v) for v in values]
            return Scalar(self.expressions.arithmetic.both(truths, conjunction))

        return self.errors.guarded(node, combine)

    def comparison(self, node: ast.Compare) -> Value:
        operands = [self.expressions.value(v) for v in (node.left, *node.comparators)]
        parts: list[Value] = []
        for op, x, y in zip(node.ops, operands, operands[1:], strict=False):
            symbol = OPERATORS.get(type(op))
            if symbol in COMPARISONS:
                sides = self.expressions.together((x, y), (node, node))
                parts.append(self.errors.guarded(node, self.expressions.arithmetic.binary, symbol, *sides))
            elif isinstance(x, Constant) and isinstance(y, Constant):
                parts.append(Constant(self._identity_or_membership(op, x.value, y.value, node)))
            else:
                hint = None
                if isinstance(op, ast.In | ast.NotIn) and isinstance(y, Constant) and isinstance(y.value, tuple | list):
                    sign, word = ("==", " or ") if isinstance(op, ast.In) else ("!=", " and ")
                    hint = f"write `{word.join(f'{ast.unparse(node.left)} {sign} {v}' for v in y.value[:4])}`"
                self.errors.fail("RG0701", f"`{shortened(node)}` compares what the language cannot", node, hint)
        return parts[0] if len(parts) == 1 else self._combined(node, parts, True)

    def _identity_or_membership(self, op: ast.cmpop, x: Any, y: Any, node: ast.AST) -> bool:
        """`is`, `is not`, `in`, `not in` of constants."""
        if isinstance(op, ast.Is | ast.IsNot):
            return (x is y) is isinstance(op, ast.Is)
        self.errors.guarded(node, need_plain, x)
        self.errors.guarded(node, need_plain, y)
        return self.errors.guarded(node, lambda: bool(x in y)) is isinstance(op, ast.In)

    def sequence(self, node: ast.Tuple | ast.List) -> Value:
        values = [value for value, _ in self.expressions.listed(node.elts)]
        if all(isinstance(v, Constant) for v in values):
            return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
        functions = [v for v in values if isinstance(v, FunctionValue) and not v.captured]
        if len(functions) == len(values):
            return Constant(tuple(v.function if v == FunctionValue(v.function) else v for v in functions))
        return tuple_value(values)
