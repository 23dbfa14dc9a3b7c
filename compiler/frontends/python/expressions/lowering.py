"""Values of expressions: dispatch by syntax; conversion to scalars, conditions, static values and constant arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.owned_locals import OwnedLocals
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Address, E, below_half, const
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import Arithmetic, first_axis, first_of, kind_of, number_kind
from retrograd.compiler.language.lognums import is_exponential
from retrograd.compiler.language.purity import Impure, need_iterable, need_operators, need_plain
from retrograd.compiler.language.types import COMPLEX, ScalarType, is_struct, row_major
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StructValue,
    Value,
    describe,
    struct_type,
)

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM
#: hints for expressions that the language does not have
INSTEAD_OF_EXPRESSION: dict[type[ast.AST], str] = {
    ast.NamedExpr: "make the variable in a statement of its own, `t = …`",
    ast.JoinedStr: "text is for the host: `with rg.external():`",
    ast.Yield: "every argument comes back, changed or not: change an argument",
    ast.Dict: "name the values, or make a class of them with @rg.struct",
    ast.Set: "name the values, or make an array of them",
}


class ExpressionLowering:
    """Values of the expressions of one function. `lowerings` has a function for each kind of syntax."""

    def __init__(self, captures: Captures, builder: IRBuilder, locals: OwnedLocals, errors: Errors) -> None:
        self.captures = captures
        self.builder, self.locals, self.errors = builder, locals, errors
        self.w = builder.w
        self.arithmetic = Arithmetic(builder.w, builder.module.constants.number)
        #: filled in by `FunctionLowering`: the functions themselves need the values of operands
        self.lowerings: dict[type[ast.AST], Callable[[Any], Value]] = {}
        #: those of syntax whose truth takes less to compute than its value
        self.tests: dict[type[ast.AST], Callable[[Any], Value]] = {}

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        lower = self.lowerings.get(type(node))
        if lower is None:
            text = f"`{shortened(node)}` is no expression of the language"
            self.errors.fail("RG0701", text, node, INSTEAD_OF_EXPRESSION.get(type(node)))
        return lower(node)

    def tested(self, node: ast.expr) -> Value:
        """The value of an expression, or a bool that is true exactly if the value is."""
        test = self.tests.get(type(node))
        return self.value(node) if test is None else test(node)

    def scalar(self, node: ast.expr, kind: Kind | None = None) -> E:
        """The expression of a scalar, converted to `kind` if one is given."""
        return self.number(self.value(node), node, kind)

    def integer(self, node: ast.expr) -> E:
        """The expression of an int or a uint whose word is an index or a count: both are tested or read as unsigned words."""
        value = self.value(node)
        return self.number(value, node, UINT if isinstance(value, Scalar) and value.kind is UINT else INT)

    def whole(self, value: Value, node: ast.AST) -> E:
        """The expression of an int; a uint is tested to be one, too, when the program runs."""
        if isinstance(value, Scalar) and value.kind is UINT:
            return below_half(value.e, f"`{shortened(node)}` is {{a}}, beyond the lengths of arrays", "RG0801")
        return self.number(value, node, INT)

    def number(self, value: Value, node: ast.AST, kind: Kind | None = None) -> E:
        """The expression of a value that must be one number, converted to `kind` if one is given."""
        return self.errors.guarded(node, self.arithmetic.expression, value, kind)

    def condition(self, node: ast.expr) -> E:
        """The expression of a condition."""
        return self.errors.guarded(node, self.arithmetic.truth, self.tested(node))

    def decided(self, c: Constant, node: ast.expr) -> bool:
        """The truth of a constant."""
        try:
            need_operators(c.value)
            return bool(c.value)
        except Impure as error:
            self.errors.fail("RG0721", str(error), node)
        except (TypeError, ValueError):
            self.errors.fail("RG0703", f"{describe(c)} is neither true nor false", node)

    def static(self, node: ast.expr, what: str) -> Any:
        """The Python value of an expression. Raises RG0717 if it is not known when the program is compiled."""
        value = self.value(node)
        known = self.locals.constant(value, self.errors.span(node))
        if known is not None:
            return known
        if not isinstance(value, Constant):
            message = f"{what} must be known when the program is compiled; `{shortened(node)}` is {describe(value)}"
            self.errors.fail("RG0717", message, node)
        self.errors.guarded(node, need_operators, value.value)
        return value.value

    def static_int(self, node: ast.expr, what: str) -> int:
        found = self.static(node, what)
        if number_kind(found) is not INT:
            self.errors.fail("RG0703", f"{what} is an integer, not {found!r}", node)
        return int(found)

    def wrap(self, found: Any) -> Value:
        """The value of a Python object that the function captures."""
        if isinstance(found, SourceFunction):
            return FunctionValue(found)
        if isinstance(found, FunctionValue):
            return found  # of a list of functions
        # The class has the attribute: reading it from an object of a user's class may run code.
        if getattr(type(found), "__retrograd_inverse__", False):
            return FunctionValue(found.__retrograd_inverse_of__, backward=True)
        if is_struct(type(found)):
            fields = {name: self.wrap(getattr(found, name)) for name in type(found).__retrograd_fields__}
            return StructValue(struct_type(type(found), fields), fields)
        return Constant(found)

    def items(self, value: Value, node: ast.AST) -> list[Value]:
        """The items of a tuple, or the elements of an array along its first axis. Raises RG0703 for any other value."""
        match value:
            case StructValue(t, fields) if t.is_tuple:
                return [*fields.values()]
            case Constant(tuple() | list() as found):
                self.errors.guarded(node, need_iterable, found)
                return [self.wrap(v) for v in found]
            case ArrayView(shape=(int() as length, *_)) | Lazy(shape=(int() as length, *_)):
                return [first_axis(value, const(i, INT)) for i in range(length)]
        shown = shortened(node)
        message = f"`*{shown}` takes a tuple or an array apart, and `{shown}` is {describe(value)}"
        self.errors.fail("RG0703", message, node, f"Pass it by itself: `{shown}`.")

    def listed(self, nodes: Sequence[ast.expr]) -> list[tuple[Value, ast.expr]]:
        """The values of arguments, each with its place; `*xs` stands for the items of xs."""
        out: list[tuple[Value, ast.expr]] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                out += [(v, node.value) for v in self.items(self.value(node.value), node.value)]
            else:
                out.append((self.value(node), node))
        return out

    def numbers(self, array: Any, node: ast.AST) -> np.ndarray[Any, Any]:
        """A constant as an array of numbers."""
        self.errors.guarded(node, need_plain, array)
        try:
            values = np.asarray(array)
            if values.dtype.kind in "fO" and all(type(v) is int for v in np.asarray(array, dtype=object).flat):
                # Integers of 64 bits beside smaller ones, of which NumPy makes floats.
                values = np.asarray(array, dtype=np.uint64)
        except OverflowError:
            message = f"{describe(Constant(array))} holds an integer that no word holds"
            self.errors.fail("RG0714", message, node, "Words are of 64 bits at most.")
        except ValueError:
            hint = "Make the rows equally long."
            self.errors.fail("RG0703", f"the rows of {describe(Constant(array))} have different lengths", node, hint)
        if values.dtype.kind not in "iufbc":
            message = f"a constant array holds numbers, and {describe(Constant(array))} does not"
            self.errors.fail("RG0703", message, node)
        return values

    def stored(self, value: Value, node: ast.AST) -> Value:
        """The value; a constant array lies in memory."""
        match value:
            case Constant(tuple() | list()):
                return self.constant_array(value.value, node)
            case Constant(np.ndarray(ndim=dimensions)) if dimensions:
                return self.constant_array(value.value, node)
        return value

    def together(self, values: Sequence[Value], nodes: Sequence[ast.AST], alike: bool = True) -> list[Value]:
        """The operands of one operation; beside a value of the run, constant arrays lie in memory. `alike`: of one kind."""
        if all(isinstance(v, Constant) for v in values):
            return [*values]
        found = [self.stored(v, n) for v, n in zip(values, nodes, strict=True)]
        kinds = [kind_of(v) for v in found]
        if alike and LOGNUM in kinds:
            for kind, v, n in zip(kinds, found, nodes, strict=True):
                if kind in (INT, FIXED) and not is_exponential(first_of(v)):
                    message = f"`{shortened(n)}` is {'an' if kind is INT else 'a'} {kind.value} beside a lognum"
                    self.errors.fail("RG0703", message, n, f"lognum({shortened(n)}) makes a lognum of it")
        return found

    def constant_array(self, array: Any, node: ast.AST) -> ArrayView:
        """A constant array as read-only memory."""
        values = self.numbers(array, node)
        if values.dtype.kind == "c":
            parts = np.stack([values.real, values.imag], axis=-1)
            region = self.errors.guarded(node, self.builder.module.constants.array, parts, FIXED)
            return ArrayView(
                COMPLEX, values.shape, row_major(values.shape, 2), Address(region, None), "it is a constant"
            )
        kind = {"i": INT, "u": INT, "f": FIXED, "b": BOOL}[values.dtype.kind]
        if values.dtype.kind == "u" and values.size and int(values.max()) >= self.builder.w.sign:
            kind = UINT  # as int, such a number would be a negative one
        region = self.errors.guarded(node, self.builder.module.constants.array, values, kind)
        shape = values.shape
        return ArrayView(ScalarType(kind), shape, row_major(shape, 1), Address(region, None), "it is a constant")
