"""Functions of Python and NumPy that the language has under another name: a table for values and for messages.

    WRITTEN[math.ceil]     "-floor(-x)"
    ALTERNATIVES["ceil"]   "-rg.floor(-{x})"

Both front ends of Python read it. A function of constants alone is called by Python itself.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.compiler.language import intrinsics

_REMAINDER = "(abs(fixed(x)) % abs(fixed(y)))"
_WHOLE = "(floor(x) if x >= 0 else -floor(-x))"
#: function → an expression of the same value over its arguments x, y, z; names are those of the language
WRITTEN: dict[Callable[..., Any], str] = {
    math.ceil: "-floor(-x)", math.trunc: _WHOLE, math.fabs: "abs(fixed(x))", math.pow: "fixed(x) ** y",
    math.copysign: "abs(fixed(x)) if y >= 0 else -abs(fixed(x))", math.fmod: f"{_REMAINDER} if x >= 0 else -{_REMAINDER}",
    math.degrees: f"fixed(x) * {180 / math.pi!r}", math.radians: f"fixed(x) * {math.pi / 180!r}", builtins.pow: "x ** y",
    np.abs: "abs(x)", np.fabs: "abs(fixed(x))", np.negative: "-x", np.square: "x * x", np.sign: "(x > 0) - (x < 0)",
    np.floor: "fixed(floor(x))", np.ceil: "fixed(-floor(-x))", np.trunc: "fixed(select(x >= 0, floor(x), -floor(-x)))", np.rint: "fixed(round(x))",
    np.maximum: "max(x, y)", np.minimum: "min(x, y)", np.clip: "min(max(x, y), z)", np.where: "select(x, y, z)",
    np.add: "x + y", np.subtract: "x - y", np.multiply: "x * y", np.divide: "x / y", np.power: "x ** y", np.mod: "x % y", np.floor_divide: "x // y",
    np.round: "fixed(round(x))", np.float64: "fixed(x)", np.heaviside: "select(x > 0, 1.0, select(x < 0, 0.0, y))",
    np.sqrt: "sqrt(x)", np.exp: "exp(x)", np.log: "log(x)", np.sin: "sin(x)", np.cos: "cos(x)", np.tan: "tan(x)", np.arctan: "atan(x)",
    np.arctan2: "atan2(x, y)", np.positive: "+x", np.logaddexp: "(x + y + abs(x - y)) / 2 + log(1 + exp(-abs(x - y)))",
    np.logical_and: "(x != 0) & (y != 0)", np.logical_or: "(x != 0) | (y != 0)",
    np.logical_xor: "(x != 0) ^ (y != 0)", np.logical_not: "x == 0",
    np.degrees: f"fixed(x) * {180 / math.pi!r}", np.radians: f"fixed(x) * {math.pi / 180!r}",
}  # fmt: skip
#: the same for functions of arrays; Python's `any` and `all` are not among them
OF_ARRAYS: dict[Callable[..., Any], str] = {
    np.dot: "x @ y", np.matmul: "x @ y", np.vdot: "x.conj().ravel() @ y.ravel()", np.inner: "x @ y.T",
    np.outer: "x.ravel()[:, None] * y.ravel()", np.transpose: "x.T", np.diff: "x[..., 1:] - x[..., :-1]",
    np.average: "mean(x)", np.var: "mean((x - mean(x)) ** 2)", np.ptp: "x.max() - x.min()",
    np.any: "sum(x != 0) > 0", np.all: "sum(x == 0) == 0", np.count_nonzero: "sum(x != 0)",
}  # fmt: skip
#: functions of bools, where NumPy has other values than of 0 and 1 → an expression of these; None: it has none
OF_BOOLS: dict[Callable[..., Any], str | None] = {
    np.add: "x | y", np.multiply: "x & y", np.floor: "x", np.ceil: "x", np.trunc: "x",
    np.dot: "(x @ y) > 0", np.matmul: "(x @ y) > 0", np.inner: "(x @ y.T) > 0", np.vdot: "(x.ravel() @ y.ravel()) > 0",
    np.outer: "x.ravel()[:, None] & y.ravel()", np.diff: "x[..., 1:] ^ x[..., :-1]",
    np.subtract: None, np.negative: None, np.sign: None, np.positive: None, np.ptp: None,
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
            ) and node.id not in ("min", "max")
            return ast.Name(f"{{{node.id}}}" if node.id in ("x", "y", "z") else f"rg.{node.id}" if own else node.id)

    return ast.unparse(Shown().visit(ast.parse(expression, mode="eval")))


#: name of a function of Python or NumPy → an expression to write in its place. `math.remainder` is no `np.remainder`.
ALTERNATIVES: dict[str, str] = {
    **{f.__name__: _shown(text) for f, text in (WRITTEN | OF_ARRAYS).items() if f is not np.mod},
    **{name: f"rg.{name}({', '.join(['{x}', '{y}'][:n])})" for n, names in _OF_LIBRARY.items() for name in names},
    **{name: f"rg.{of}({{x}})" for name, of in OF_NUMPY.items()},
    "divmod": "{x} // {y}` and `{x} % {y}", "sorted": "retrograd.library.sort", "float": "fixed({x})",
    "vdot": "rg.sum({x} * {y})", "full_like": "np.full({x}.shape, {y})", "reciprocal": "1 / {x}",
    "outer": "{x}[:, None] * {y}", "diff": "{x}[1:] - {x}[:-1]",
    "norm": "rg.sqrt(rg.sum({x} * {x}))",
    "std": "rg.sqrt(rg.mean(({x} - rg.mean({x})) ** 2))", "trace": "sum({x}[i, i] for i in range(len({x})))",
}  # fmt: skip

#: the names of `WRITTEN`, besides their arguments x, y, z
NAMES_OF_WRITTEN: dict[str, Any] = {
    "fixed": float, "abs": abs, "round": round, "min": min, "max": max, "sum": intrinsics.INTRINSICS["sum"],
    **{name: f for name, f in intrinsics.INTRINSICS.items() if f.role == intrinsics.EXPRESSION and name not in ("min", "max", "sum")},
}  # fmt: skip


def of_math(callee: Any) -> Any:
    """The function of `math` that has the value of a function of NumPy; any other object unchanged."""
    if isinstance(callee, np.ufunc):
        return getattr(math, OF_NUMPY.get(callee.__name__, callee.__name__), callee)
    return callee
