"""`np.linalg.solve`, `inv`, `det`, `cholesky`: the library's reversible functions, which add to an array of zeros.

    L = np.linalg.cholesky(A)        L := zeros; cholesky(L, A)

The array is undone with the block that it stands in, by the inverse of the call. So a derivative needs no rule of its
own.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import need_operations
from retrograd.compiler.frontends.functional.core import Place, fail
from retrograd.compiler.frontends.functional.types import FIXED, Array, Type, Value, named
from retrograd.compiler.frontends.python.expressions import held
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.frontends.python.statements import call_function
from retrograd.compiler.ir.statements import Kind, Node
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.types import ScalarType, row_major

#: function of NumPy → that of the library, and the number of the argument whose shape the result has; None: a number
_LIBRARY: dict[Callable[..., Any], tuple[str, int | None]] = {
    np.linalg.solve: ("solve", 1), np.linalg.inv: ("inverse", 0), np.linalg.cholesky: ("cholesky", 0),
    np.linalg.det: ("determinant", None),
}  # fmt: skip


def of_matrices(reader: Any, found: Any, node: ast.Call, scope: Any) -> core.Core | None:
    """A call of one of these functions; None for other calls. Raises CompileError."""
    name, like = next((entry for f, entry in _LIBRARY.items() if found is f), ("", None))
    if not name:
        return None
    count = 2 if name == "solve" else 1
    if node.keywords or len(node.args) != count:
        reader.fail("RG0715", f"`{shortened(node.func)}` takes {count} argument{'s' * (count > 1)}, by position", node)
    args = tuple(reader.expression(a, scope) for a in node.args)
    return core.Primitive(OfMatrices(shortened(node.func), name, like), args, reader.at(node))


@dataclass(eq=False, frozen=True)
class OfMatrices:
    """The value that a function of the library adds to zeros."""

    name: str
    of: str
    like: int | None

    def type(self, inference: Any, types: tuple[Type, ...], at: Place) -> Type:
        matrix = types[0]
        need_operations(types, self.name, at)
        for t in types:
            if not isinstance(t, Array) or not isinstance(t.element, ScalarType):
                fail("RG0703", f"`{self.name}` of {named(t)}", at, "It takes arrays of numbers.")
        assert isinstance(matrix, Array)
        if len(matrix.shape) != 2 or len(set(matrix.shape)) != 1:
            hint = "Go over several matrices in a loop, `np.stack([np.linalg.inv(a) for a in A])`."
            fail("RG0712", f"`{self.name}` of {named(matrix)}, which is no square matrix", at, hint)
        if self.like is None:
            return FIXED
        own = types[self.like]
        assert isinstance(own, Array)
        if len(own.shape) > 2 or own.shape[0] != matrix.shape[0]:
            fail("RG0712", f"`{self.name}` of shapes {matrix.shape} and {own.shape}", at)
        return Array(ScalarType(Kind.FIXED), own.shape, row_major(own.shape, 1))

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        t = self.type(None, tuple(v.type for v in values), at)
        library = importlib.import_module(intrinsics.load_library().__package__)
        function = getattr(library, self.of)
        given = [_as_fixed(lowering, v, at) for v in values]
        if not isinstance(t, Array):
            return lowering.arrays.hosted_value(function, given, at)  # type: ignore[no-any-return]
        whole = lowering.body.array(t, self.of)
        cx = lowering.arrays.context()
        cx.builder.span = at.span
        place = ast.Constant(0)
        call = lowering.arrays.located(at, ast.Call(held(cx.wrap(function), place), [], []))
        call.args = [lowering.arrays.located(at, held(v, place)) for v in (whole, *map(lowering.arrays.operand, given))]
        nodes: list[Node]
        with cx.builder.collect() as nodes:
            call_function(cx, cx.wrap(function), False, call)
        lowering.body.emit(*nodes)
        return Value(t, (), (whole.address,))


def _as_fixed(lowering: Any, value: Value, at: Place) -> Value:
    """The array, of fixed numbers."""
    t = value.type
    assert isinstance(t, Array)
    if t.element == ScalarType(Kind.FIXED):
        return value
    whole = lowering.body.array(Array(ScalarType(Kind.FIXED), t.shape, row_major(t.shape, 1)), "fixed")
    lowering.arrays.add(whole, lowering.arrays.operand(value), at)
    return Value(Array(whole.element, t.shape, whole.strides), (), (whole.address,))
