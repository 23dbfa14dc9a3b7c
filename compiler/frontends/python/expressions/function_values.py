"""Calls of functions in expressions: `y += f(x)`.

    t = 0;  f(t, x);  y += t;  ~f(t, x)        f(y, x) where f only adds to its result

The value of f(x) is the result that f makes from zero. f may be a functional function, or a reversible function that changes
one parameter only, its result: the first one, or the last one of a functional function. A result that is a struct has a value for each
field. Arrays in the place of numbers are taken element by element.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.arguments import Arguments, Bound, Leaf, extent
from retrograd.compiler.frontends.python.source import NOTHING, InnerFunction, Parameter, SourceFunction
from retrograd.compiler.frontends.specialisation import Refuse, Specialisation
from retrograd.compiler.ir.effects import only_adds
from retrograd.compiler.ir.expressions import E, Invocation, Length, view
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language import complex_numbers
from retrograd.compiler.language.arithmetic import number_kind, on_constants
from retrograd.compiler.language.types import (
    ScalarShape,
    ScalarType,
    Shape,
    StructShape,
    StructType,
    leaf_shapes,
    scalar_of,
    struct_of,
)
from retrograd.compiler.language.values import (
    Constant,
    FunctionValue,
    Scalar,
    StructValue,
    Value,
    describe,
    tuple_value,
)

#: kind of a lambda's value → the update that makes it from zero
_MADE_BY: dict[Kind, type[ast.operator]] = {Kind.LOGNUM: ast.Mult, Kind.BOOL: ast.BitXor}

#: (function, shapes of its arguments, raises errors at the call) → the function for these shapes
Specialise = Callable[[SourceFunction, tuple[Shape, ...], Refuse | None], Specialisation]


@dataclass(eq=False)
class FunctionValues:
    """Values of calls of reversible and functional functions."""

    errors: Errors
    arguments: Arguments
    builder: IRBuilder
    specialise: Specialise
    #: (lambda, shapes of its arguments and of the variables that it uses) → the value of its expression
    value_of_lambda: Callable[[InnerFunction, Sequence[Shape]], Value]

    def lower(self, f: FunctionValue, node: ast.Call) -> Value:
        """The value of `f(x)`. Raises CompileError RG0701 where f has none."""
        function: SourceFunction = f.function
        result = self._result(f, node)
        t: Any = ScalarType(Kind.FIXED)
        if result.annotation is not NOTHING:
            t = scalar_of(result.annotation) or struct_of(result.annotation)
        made = _shape_of(t)
        if made is None and function.lambda_body is None:
            message = f"`{result.name}` of `{function.__name__}` is no number, so its call has no value"
            self._refuse(message, function, node)
        others = [p for p in function.parameters if p is not result]
        bound = self.arguments.bind(f, node, others)
        if function.host is not None and all(isinstance(v, Constant) for v, _ in bound.values()):
            known = [v for v, _ in bound.values() if isinstance(v, Constant)]
            return self.errors.guarded(node, on_constants, function.host, known)
        spread = [p.name for p in others if p.annotation is not NOTHING and scalar_of(p.annotation)]
        items = {name: _items(bound[name][0]) for name in spread}

        def one(*values: Value) -> Value:
            of_complex = complex_numbers.extends(function)
            if of_complex is not None and complex_numbers.among(values):
                return arithmetic.complex.function(of_complex, values)
            each = iter(values)
            inner = dict(bound)
            for name in spread:
                given, where = bound[name]
                picked = [next(each) for _ in items[name]]
                inner[name] = (tuple_value(picked) if _is_tuple(given) else picked[0], where)
            if isinstance(function, InnerFunction) and function.lambda_body is not None:
                return self._lambda_value(f, inner, node)
            return self._value(f, result, t, inner, node)

        arithmetic = self.arguments.expressions.arithmetic
        return self.errors.guarded(node, arithmetic.each, one, *(v for name in spread for v in items[name]))

    def _lambda_value(self, f: FunctionValue, bound: Bound, node: ast.Call) -> Value:
        """The value of a call of a lambda. Its type is that of the expression for these arguments."""
        function: InnerFunction = f.function
        result, *others = function.parameters
        leaves: list[Leaf] = []
        shapes: list[Shape] = []
        for p in others:
            value, where = bound[p.name]
            shapes.append(
                self.arguments.shape(p.name, self.arguments.fitted(p, value, where, function, {}), where, leaves)
            )
        shapes += [shape for _, shape in self.arguments.captured(f, node, leaves)]
        found = self.value_of_lambda(function, shapes)
        match found:
            case Scalar() | Constant() if kind := found.kind if isinstance(found, Scalar) else number_kind(found.value):
                made = function.with_update(_MADE_BY.get(kind, ast.Add)())
                return self._value(replace(f, function=made), result, ScalarType(kind), bound, node)
            case StructValue(t) if not t.is_tuple and _shape_of(t) is not None:
                return self._value(f, result, t, bound, node)
        hint = "write a `def` with a parameter for the result, and call it on a line of its own"
        self.errors.fail("RG0703", f"the value of this lambda is {describe(found)}, and no number", node, hint)

    def _value(self, f: FunctionValue, result: Parameter, t: Any, bound: Bound, node: ast.Call) -> Value:
        """The value of a call for numbers where its parameters are numbers."""
        function: SourceFunction = f.function
        made = _shape_of(t)
        assert made is not None
        kinds = tuple(leaf.kind for leaf in leaf_shapes(made) if isinstance(leaf, ScalarShape))
        shapes: list[Shape] = []
        parameters: list[int] = []
        leaves: list[Leaf] = []
        sizes: dict[str, Length] = {}
        for p in function.parameters:
            if p is result:
                shapes.append(made)
                parameters += [~r for r in range(len(kinds))]
                continue
            value, where = bound[p.name]
            value = self.arguments.fitted(p, value, where, function, sizes)
            before = len(leaves)
            shapes.append(self.arguments.shape(p.name, value, where, leaves))
            parameters += range(before, len(leaves))
        before = len(leaves)
        shapes += [shape for _, shape in self.arguments.captured(f, node, leaves)]
        parameters += range(before, len(leaves))

        def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
            self.errors.fail(code, message, node, hint)

        callee = self.specialise(function, tuple(shapes), refuse)
        changed = next((leaves[parameters[i]] for i in sorted(callee.written) if parameters[i] >= 0), None)
        if changed is not None:
            message = (
                f"`{function.__name__}` changes `{changed.name}` besides `{result.name}`, so its call has no value"
            )
            self._refuse(message, function, node)
        accumulates = len(kinds) == 1 and only_adds(self.builder.module.procedures, callee.name, parameters.index(~0))
        self.builder.module.calls_in_place += accumulates
        invocation = Invocation(callee.name, tuple(parameters), kinds, accumulates)
        values = iter(invocation.values(tuple(_expression(leaf) for leaf in leaves)))
        return _assembled(t, values)

    def _result(self, f: FunctionValue, node: ast.Call) -> Parameter:
        """The parameter that the value of a call is made in."""
        function: SourceFunction = f.function
        parameters = function.parameters
        first = function.first_result + (f.receiver is not None)
        if f.backward:
            self._refuse(f"`~{function.__name__}` takes a result back, so its call has no value", function, node)
        if first >= len(parameters):
            self._refuse(
                f"`{function.__name__}` has no parameter for a result, so its call has no value", function, node
            )
        if function.first_result and len(parameters) > function.first_result + 1:
            count = len(parameters) - function.first_result
            self._refuse(f"`{function.__name__}` gives a tuple of {count} numbers, and not one", function, node)
        result = parameters[first]
        returns = next((n for n in ast.walk(function.tree) if isinstance(n, ast.Return) and n.value is not None), None)
        if returns is not None and isinstance(function, InnerFunction) and isinstance(function.tree, ast.FunctionDef):
            own, value = function.__name__, ast.unparse(returns.value or node)
            message = f"`{own}` returns a value, and a reversible function changes its first parameter"
            self.errors.fail(
                "RG0701",
                message,
                node,
                f"write `def {own}(result, …):` with `result += {value}` in place of `return {value}`",
            )
        given = len(node.args) + len(node.keywords)
        full = function.variadic is None and given >= len(parameters) - (f.receiver is not None)
        if full or any(k.arg == result.name for k in node.keywords):
            message = (
                f"the call of `{function.__name__}` is given `{result.name}`, which it changes, so it has no value"
            )
            self._refuse(message, function, node)
        return result

    def _refuse(self, message: str, function: SourceFunction, node: ast.Call) -> NoReturn:
        called = function.__name__
        hint = f"call `{called}` on a line of its own, with a variable for each argument that it changes: {function.signature}"
        self.errors.fail("RG0701", message, node, hint)


def _items(value: Value) -> list[Value]:
    """The items of `*xs`; any other argument by itself."""
    return [*value.fields.values()] if isinstance(value, StructValue) and _is_tuple(value) else [value]


def _is_tuple(value: Value) -> bool:
    return isinstance(value, StructValue) and value.type.is_tuple


def _shape_of(t: Any) -> Shape | None:
    """The shape of a result: one number, or a struct of numbers."""
    match t:
        case ScalarType(kind):
            return ScalarShape(kind)
        case StructType(_, fields):
            found = [(name, shape) for name, inner in fields if (shape := _shape_of(inner)) is not None]
            return StructShape(t, tuple(found)) if len(found) == len(fields) else None
    return None


def _expression(leaf: Leaf) -> E:
    value = leaf.value
    return value.e if isinstance(value, Scalar) else view(value.address, extent(value))


def _assembled(t: Any, values: Iterator[E]) -> Value:
    """The value of a type whose numbers come from an iterator."""
    if isinstance(t, ScalarType):
        return Scalar(next(values))
    return StructValue(t, {name: _assembled(inner, values) for name, inner in t.fields})
