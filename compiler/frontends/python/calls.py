"""Calls in expressions, and the arguments of all calls.

First the arguments: the parameter of each, their conversion to its type, and the parts that a procedure takes. A
procedure has one parameter for each scalar, array and stack among the arguments: the *leaves* of structs are passed
one by one. Then the values of calls: of reversible functions, of functions of the language and of Python. Calls that
stand alone are in `statements.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from types import BuiltinFunctionType, FunctionType
from typing import Any, NoReturn

import numpy as np
from retrograd.compiler.frontends.python.captures import static_key
from retrograd.compiler.frontends.python.context import Context, evaluates
from retrograd.compiler.frontends.python.expressions import (
    array_method,
    foreign_call,
    plain_method,
    reduced,
    reduced_array,
    select,
)
from retrograd.compiler.frontends.python.indexing import chosen_function, reshaped, word_of_stack
from retrograd.compiler.frontends.python.source import NOTHING, InnerFunction, Parameter, SourceFunction, shortened
from retrograd.compiler.frontends.specialisation import parameters_of
from retrograd.compiler.ir.effects import only_adds
from retrograd.compiler.ir.expressions import E, Invocation, Length, RunLength, apply, const, sub, view
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language import complex_numbers, intrinsics, purity
from retrograd.compiler.language.arithmetic import kind_of, number_kind, on_constants
from retrograd.compiler.language.foreign import ALTERNATIVES
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.purity import Impure, need_container
from retrograd.compiler.language.types import (
    LARGEST,
    ArrayAnnotation,
    ArrayShape,
    ClosureShape,
    ComplexNumber,
    PassedLength,
    ScalarShape,
    ScalarType,
    Shape,
    StackAnnotation,
    StackShape,
    StaticShape,
    StructShape,
    StructType,
    TooLarge,
    bound,
    element_of,
    element_of_stack,
    has_points,
    is_complex,
    is_struct,
    keys_of,
    leaf_shapes,
    mismatch,
    of_any_point,
    part_name,
    scalar_of,
    static,
    struct_of,
    takes,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    RoutineValue,
    Scalar,
    StackValue,
    StructValue,
    Value,
    count_of,
    describe,
    struct_type,
    tuple_value,
)
from retrograd.isa.diagnostics import CompileError, hint_of, nearest

#: parameter → argument and its place in the source
Bound = dict[str, tuple[Value, ast.AST]]


@dataclass(frozen=True)
class Leaf:
    """An argument for one parameter of a procedure. `name`: of the parameter. `length`: the length that it is, of an array."""

    value: Scalar | ArrayView | StackValue
    where: ast.AST
    name: str
    length: RunLength | None = None


def bind_arguments(cx: Context, f: FunctionValue, call: ast.Call, parameters: Sequence[Parameter]) -> Bound:
    """The arguments of a call of f for some of its parameters, in their order."""
    function: SourceFunction = f.function
    variadic = next((i for i, p in enumerate(parameters) if p.variadic), None)
    names = [p.name for i, p in enumerate(parameters) if i != variadic]
    ordered = names[:variadic]
    positional: list[tuple[Value, ast.AST]] = []
    if f.receiver is not None:
        positional.append((f.receiver, getattr(call.func, "value", call.func)))
    positional += cx.listed(call.args)
    of = f"It is declared as {function.signature}."
    called = f"`{function.__name__}`"
    found: Bound = dict(zip(ordered, positional, strict=False))
    further = positional[len(ordered) :]
    if variadic is not None:
        found[parameters[variadic].name] = _tuple_of(further, call)
    elif further:
        count = f"{len(names)} argument{'s' * (len(names) != 1)}"
        message = f"{called} takes {count}, and is given {len(positional)}"
        cx.fail("RG0715", message, further[0][1], of)
    for k in call.keywords:
        if k.arg not in names:
            if k.arg is None:
                cx.fail("RG0701", "`**` in a call is not in the language", k.value, "Name each argument.")
            cx.fail("RG0715", f"{called} has no parameter `{k.arg}`", k, nearest(k.arg, names) or of)
        if k.arg in found:
            cx.fail("RG0715", f"`{k.arg}` of {called} is given twice, by position and by name", k)
        found[k.arg] = (cx.value(k.value), k.value)
    for p in parameters:
        if p.name not in found:
            if p.default is NOTHING:
                cx.fail("RG0715", f"{called} is called without `{p.name}`", call, of)
            cx.captures.contents(p.default)
            found[p.name] = (cx.wrap(p.default), call)
    return {p.name: found[p.name] for p in parameters}


def fitted_argument(
    cx: Context, p: Parameter, value: Value, where: ast.AST, function: SourceFunction, sizes: dict[str, Length]
) -> Value:
    """The argument, converted to the type that the parameter is annotated with. `sizes`: lengths of named dimensions."""
    if p.variadic:
        if not isinstance(value, StructValue) or not value.type.is_tuple:
            message = f"`{p.name}` of `{function.__name__}` is a tuple, not {describe(value)}"
            cx.fail("RG0715", message, where, f"It is declared as {function.signature}.")
        at = items_of(where, len(value.fields))
        given = zip(value.fields.values(), at, strict=True)
        return tuple_value([fitted_argument(cx, p.item(i), v, x, function, sizes) for i, (v, x) in enumerate(given)])
    wanted = of_any_point(p.annotation) if p.gains else p.annotation
    shown = f"`{p.name}` of `{function.__name__}`"
    of = f"It is declared as {function.signature}."
    if wanted is static:
        if isinstance(value, Scalar) and isinstance(where, ast.expr):
            value = Constant(cx.static(where, shown))
        if not isinstance(value, Constant | FunctionValue | StructValue):
            message = f"{shown} must be known when the program is compiled; it is {describe(value)}"
            cx.fail("RG0717", message, where)
        return value
    scalar = scalar_of(wanted) if wanted is not NOTHING else None
    if scalar is not None:
        if isinstance(value, Scalar) and (
            value.kind is scalar.kind or _of_any_point(scalar.kind, value.kind, function)
        ):
            return value
        if isinstance(value, Scalar | Constant):
            e = cx.number(value, where, scalar.kind)
            why = f"it is {describe(value)}"
            if isinstance(value, Scalar):
                why += f", and converted to {'an' if scalar.kind is Kind.INT else 'a'} {scalar}"
                if value.kind.is_fixed and scalar.kind.is_fixed:
                    why += f"; declare it as {scalar}"
            return Scalar(e, None, why)
        cx.fail("RG0715", f"{shown} is one {scalar}, not {describe(value)}", where, of)
    if isinstance(wanted, ArrayAnnotation) or (isinstance(value, Constant) and isinstance(value.value, np.ndarray)):
        if isinstance(value, Constant) and isinstance(value.value, np.ndarray | list | tuple):
            value = cx.constant_array(value.value, where, passed=True, factors=False)
        if isinstance(wanted, ArrayAnnotation):
            if not isinstance(value, ArrayView):
                what, hint = describe(value), of
                if isinstance(value, Lazy):
                    what = "an array that is not stored anywhere"
                    hint = f"give it a name first, `t = {shortened(where)}`, which makes an array of it"
                cx.fail("RG0715", f"{shown} is {wanted}, not {what}", where, hint)
            problem = mismatch(wanted, value.element, value.shape, sizes)
            if problem is not None:
                code = "RG0712" if takes(element_of(wanted.element), value.element) else "RG0715"
                message = f"{shown} is {wanted}, and `{shortened(where)}` is not: {problem}"
                cx.fail(code, message, where, of if code == "RG0715" else None)
    elif isinstance(wanted, StackAnnotation):
        if not isinstance(value, StackValue):
            cx.fail("RG0715", f"{shown} is a stack, not {describe(value)}", where, of)
        elements = element_of_stack(wanted.element), value.type.element
        if elements[0] != elements[1] and any(isinstance(t, StructType) for t in elements):
            cx.fail("RG0715", f"{shown} is {wanted}, not {describe(value)}", where, of)
    elif wanted is not NOTHING and is_complex(t := struct_of(wanted)) and _is_number(value):
        assert t is not None
        value = cx.guarded(where, cx.arithmetic.complex.of_type, t, value)
    elif (
        wanted is not NOTHING
        and is_struct(wanted)
        and not (isinstance(value, StructValue) and issubclass(value.type.cls, wanted))
    ):
        cx.fail("RG0715", f"{shown} is a {wanted.__name__}, not {describe(value)}", where, of)
    if isinstance(value, Constant) and number_kind(value.value) is not None:
        e = cx.number(value, where)
        return Scalar(e, None, f"it is {describe(value)}")
    if function.first_result and isinstance(value, ArrayView) and has_points(value.element):
        own = f"`{function.__name__}` computes at the format's point"
        message = f"{own}, and `{shortened(where)}` has elements {value.element}"
        cx.fail("RG0703", message, where, f"pass a copy at this point, `t = fixed({shortened(where)})`")
    if function.first_result and isinstance(value, Scalar) and value.kind.is_fixed and value.kind is not Kind.FIXED:
        why = f"it is {describe(value)}, and converted to a fixed"
        return Scalar(cx.number(value, where, Kind.FIXED), None, why)
    return value


def _of_any_point(wanted: Kind, kind: Kind, function: SourceFunction) -> bool:
    """Whether a parameter declared `fixed` takes a number with a point of its own as it is: the function is compiled for that point.

    Elementary functions of the library are approximations for the format's own point, and functional functions have
    no other.
    """
    return wanted is Kind.FIXED and kind.is_fixed and function.host is None and not function.first_result


def shape_of_argument(cx: Context, name: str, value: Value, where: ast.AST, found: list[Leaf]) -> Shape:
    """The shape of an argument, whose leaves are added to `found`."""
    match value:
        case Scalar():
            found.append(Leaf(value, where, name))
            return ScalarShape(value.kind)
        case ArrayView(element, shape, strides):
            checks = tuple(c for n in shape if isinstance(n, RunLength) for c in n.checks)
            tested = value.address._replace(checks=tuple(dict.fromkeys((*value.address.checks, *checks))))
            found.append(Leaf(replace(value, address=tested), where, name))
            return ArrayShape(element, tuple(_passed_length(cx, n, name, where, found) for n in shape), strides)
        case StackValue(t):
            found.append(Leaf(value, where, name))
            return StackShape(t)
        case StructValue(t, fields):
            inner = []
            types, places = dict(t.fields), items_of(where, len(fields))
            for i, (field_name, given) in enumerate(fields.items()):
                wanted, v = types[field_name], given
                part, where = part_name(name, t, field_name), places[i]
                if isinstance(v, Constant) and isinstance(wanted, ScalarType):
                    e = cx.number(v, where, wanted.kind)
                    v = Scalar(e, None, f"it is {describe(v)}")
                inner.append((field_name, shape_of_argument(cx, part, v, where, found)))
            return StructShape(t, tuple(inner))
        case FunctionValue(f, backward, receiver, captured):
            if receiver is not None:
                message = "a method of an object is no argument; pass the object and the function"
                cx.fail("RG0703", message, where)
            if captured:
                return ClosureShape((id(f), backward), captured_shapes(cx, value, where, found), value)
            return StaticShape((id(f), backward), value)
        case Constant(v):
            return StaticShape(static_key(v), v)
        case Lazy():
            hint = "give it a name first, `t = …`, which makes an array of it"
            cx.fail("RG0715", f"`{name}` is {describe(value)}, which lies nowhere", where, hint)
        case _:
            cx.fail("RG0715", f"{describe(value)} is no argument", where)


def _passed_length(cx: Context, n: Length, name: str, where: ast.AST, found: list[Leaf]) -> int | PassedLength:
    """A length of an array; one of the run is passed, too, once for all arrays that have it."""
    if not isinstance(n, RunLength):
        return n
    lengths = [leaf.length for leaf in found if leaf.length is not None]
    first = n not in lengths
    if first:
        found.append(Leaf(Scalar(n.e, None, "it is the length of an array"), where, f"len({name})", n))
    number = len(lengths) if first else lengths.index(n)
    return PassedLength(number, min(LARGEST, cx.arithmetic.w.sign - 1), first)


def captured_shapes(cx: Context, f: FunctionValue, where: ast.AST, found: list[Leaf]) -> tuple[tuple[str, Shape], ...]:
    """The shapes of the variables around f that it uses, whose leaves are added to `found`."""
    at = {name: ast.copy_location(ast.Name(name, ast.Load()), where) for name, _ in f.captured}
    return tuple((name, shape_of_argument(cx, name, value, at[name], found)) for name, value in f.captured)


def _tuple_of(items: Sequence[tuple[Value, ast.AST]], call: ast.Call) -> tuple[Value, ast.AST]:
    """The tuple of further arguments of a call, and its place: from the first of them to the last."""
    places = [where for _, where in items if isinstance(where, ast.expr)]
    at = ast.copy_location(ast.Tuple(places, ast.Load()), places[0] if places else call)
    if places:
        at.end_lineno, at.end_col_offset = places[-1].end_lineno, places[-1].end_col_offset
    return tuple_value([value for value, _ in items]), at


def items_of(where: ast.AST, count: int) -> list[ast.AST]:
    """The places of the items of a tuple; that of the whole where it is not written item by item."""
    if isinstance(where, ast.Tuple | ast.List) and len(where.elts) == count:
        return list(where.elts)
    return [where] * count


def _is_number(value: Value) -> bool:
    """Whether a value is a number, real or complex."""
    match value:
        case StructValue(t):
            return is_complex(t)
        case Constant(v):
            return isinstance(v, complex) or number_kind(v) is not None
    return isinstance(value, Scalar)


def extent(view: ArrayView | StackValue) -> int:
    """The number of words from the first to the last of a view with positive strides."""
    if isinstance(view, StackValue):
        return view.type.size
    return sum((bound(n) - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + view.element.size


# -----------------------------------------------------------------------------
# Calls of functions in expressions: `y += f(x)`.
#
#     t = 0;  f(t, x);  y += t;  ~f(t, x)        f(y, x) where f only adds to its result
#
# The value of f(x) is the result that f makes from zero. f may be a functional function, or a reversible function
# that changes
# one parameter only, its result: the first one, or the last one of a functional function. A result that is a struct
# has a value for each
# field. Arrays in the place of numbers are taken element by element.

#: kind of a lambda's value → the update that makes it from zero
_MADE_BY: dict[Kind, type[ast.operator]] = {Kind.LOGNUM: ast.Mult, Kind.BOOL: ast.BitXor}


def value_of_call(cx: Context, f: FunctionValue, node: ast.Call) -> Value:
    """The value of `f(x)`. Raises CompileError RG0701 where f has none."""
    function: SourceFunction = f.function
    result = _result_of_call(cx, f, node)
    t: Any = ScalarType(Kind.FIXED)
    if result.annotation is not NOTHING:
        t = scalar_of(result.annotation) or struct_of(result.annotation)
    made = _shape_of(t)
    if made is None and function.lambda_body is None:
        message = f"`{result.name}` of `{function.__name__}` is no number, so its call has no value"
        _refuse_value(cx, message, function, node)
    others = [p for p in function.parameters if p is not result]
    bound = bind_arguments(cx, f, node, others)
    if function.host is not None and all(isinstance(v, Constant) for v, _ in bound.values()):
        known = [v for v, _ in bound.values() if isinstance(v, Constant)]
        return cx.guarded(node, on_constants, function.host, known)
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
            return _lambda_value(cx, f, inner, node)
        return _called_value(cx, f, result, t, inner, node)

    arithmetic = cx.arithmetic
    return cx.guarded(node, arithmetic.each, one, *(v for name in spread for v in items[name]))


def _lambda_value(cx: Context, f: FunctionValue, bound: Bound, node: ast.Call) -> Value:
    """The value of a call of a lambda. Its type is that of the expression for these arguments."""
    function: InnerFunction = f.function
    result, *others = function.parameters
    leaves: list[Leaf] = []
    shapes: list[Shape] = []
    for p in others:
        value, where = bound[p.name]
        shapes.append(shape_of_argument(cx, p.name, fitted_argument(cx, p, value, where, function, {}), where, leaves))
    shapes += [shape for _, shape in captured_shapes(cx, f, node, leaves)]
    found = _value_of_lambda(cx, function, shapes)
    match found:
        case Scalar() | Constant() if kind := found.kind if isinstance(found, Scalar) else number_kind(found.value):
            made = function.with_update(_MADE_BY.get(kind, ast.Add)())
            return _called_value(cx, replace(f, function=made), result, ScalarType(kind), bound, node)
        case StructValue(t) if not t.is_tuple and _shape_of(t) is not None:
            return _called_value(cx, f, result, t, bound, node)
    hint = "write a `def` with a parameter for the result, and call it on a line of its own"
    cx.fail("RG0703", f"the value of this lambda is {describe(found)}, and no number", node, hint)


def _value_of_lambda(cx: Context, f: InnerFunction, shapes: Sequence[Shape]) -> Value:
    """The value of a lambda's expression for arguments and variables of these shapes; no statement is emitted."""
    inner = Context(f, cx.builder.module, cx.captures, cx.specialise, False)
    names = [*(p.name for p in f.parameters[1:]), *f.captured]
    inner.scope.names.update(parameters_of(names, shapes).names)
    assert f.lambda_body is not None
    found = inner.value(f.lambda_body)
    inner.close()
    return found


def _called_value(cx: Context, f: FunctionValue, result: Parameter, t: Any, bound: Bound, node: ast.Call) -> Value:
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
        value = fitted_argument(cx, p, value, where, function, sizes)
        before = len(leaves)
        shapes.append(shape_of_argument(cx, p.name, value, where, leaves))
        parameters += range(before, len(leaves))
    before = len(leaves)
    shapes += [shape for _, shape in captured_shapes(cx, f, node, leaves)]
    parameters += range(before, len(leaves))

    def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
        cx.fail(code, message, node, hint)

    callee = cx.specialise(function, tuple(shapes), refuse)
    changed = next((leaves[parameters[i]] for i in sorted(callee.written) if parameters[i] >= 0), None)
    if changed is not None:
        message = f"`{function.__name__}` changes `{changed.name}` besides `{result.name}`, so its call has no value"
        _refuse_value(cx, message, function, node)
    accumulates = len(kinds) == 1 and only_adds(cx.builder.module.procedures, callee.name, parameters.index(~0))
    cx.builder.module.calls_in_place += accumulates
    invocation = Invocation(callee.name, tuple(parameters), kinds, accumulates)
    values = iter(invocation.values(tuple(_expression(leaf) for leaf in leaves)))
    return _assembled(t, values)


def _result_of_call(cx: Context, f: FunctionValue, node: ast.Call) -> Parameter:
    """The parameter that the value of a call is made in."""
    function: SourceFunction = f.function
    parameters = function.parameters
    first = function.first_result + (f.receiver is not None)
    if f.backward:
        _refuse_value(cx, f"`~{function.__name__}` takes a result back, so its call has no value", function, node)
    if first >= len(parameters):
        _refuse_value(
            cx, f"`{function.__name__}` has no parameter for a result, so its call has no value", function, node
        )
    if function.first_result and len(parameters) > function.first_result + 1:
        count = len(parameters) - function.first_result
        _refuse_value(cx, f"`{function.__name__}` gives a tuple of {count} numbers, and not one", function, node)
    result = parameters[first]
    returns = next((n for n in ast.walk(function.tree) if isinstance(n, ast.Return) and n.value is not None), None)
    if returns is not None and isinstance(function, InnerFunction) and isinstance(function.tree, ast.FunctionDef):
        own, value = function.__name__, ast.unparse(returns.value or node)
        message = f"`{own}` returns a value, and a reversible function changes its first parameter"
        cx.fail(
            "RG0701",
            message,
            node,
            f"write `def {own}(result, …):` with `result += {value}` in place of `return {value}`",
        )
    given = len(node.args) + len(node.keywords)
    full = function.variadic is None and given >= len(parameters) - (f.receiver is not None)
    if full or any(k.arg == result.name for k in node.keywords):
        message = f"the call of `{function.__name__}` is given `{result.name}`, which it changes, so it has no value"
        _refuse_value(cx, message, function, node)
    return result


def _refuse_value(cx: Context, message: str, function: SourceFunction, node: ast.Call) -> NoReturn:
    called = function.__name__
    hint = (
        f"call `{called}` on a line of its own, with a variable for each argument that it changes: {function.signature}"
    )
    cx.fail("RG0701", message, node, hint)


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


# -----------------------------------------------------------------------------
# Calls inside expressions: intrinsics, conversions, structs, and pure Python functions of constants.
#
# A Python function is called when the program is compiled, and only with constants; its result is part of the program.

INT, BOOL, LOGNUM = Kind.INT, Kind.BOOL, Kind.LOGNUM
#: functions of an array that give a number, or one for each of its other axes
REDUCTIONS = ("sum", "mean", "min", "max")
#: functions of NumPy that are written in Python
_OF_NUMPY = type(np.sum)


@evaluates(ast.Call)
def call(cx: Context, node: ast.Call) -> Value:
    chosen = chosen_function(cx, node.func)
    if chosen is not None:
        return _value_of_chosen(cx, *chosen, node)
    found = plain_method(cx, node) or _value_of_method(cx, node)
    if found is not None:
        return found
    f = cx.value(node.func)
    if isinstance(f, FunctionValue):
        return value_of_call(cx, f, node)
    if not isinstance(f, Constant):
        way = f"It is computed already; write `~{f.name}` first." if isinstance(f, RoutineValue) else None
        cx.fail("RG0703", f"{describe(f)} cannot be called", node, way)
    callee = given = f.value
    if isinstance(callee, BuiltinFunctionType | _OF_NUMPY):
        callee = intrinsics.FOREIGN.get(callee, callee)
    if node.keywords and callee is not range and not isinstance(callee, Intrinsic) and not is_struct(callee):
        own = getattr(callee, "__name__", "")
        hint = (
            f"write `rg.{own}`, which takes `axis=`"
            if own in REDUCTIONS
            else "Give arguments by position; write an update in place of `out=`."
        )
        if getattr(np, own, None) is not callee or [k.arg for k in node.keywords] != ["dtype"]:
            cx.fail("RG0715", f"`{shortened(node.func)}` takes no keywords here but `dtype=`", node, hint)
    if isinstance(callee, Intrinsic):
        return _value_of_intrinsic(cx, callee, node, getattr(given, "__module__", None) == "math")
    kind = scalar_of(callee)
    if kind is not None:
        args = _arguments_of(cx, node, 1)
        if isinstance(args[0], Constant) and isinstance(args[0].value, str):
            return _host_call(cx, callee, node)
        return cx.guarded(node, cx.arithmetic.conversion, kind.kind, args[0])
    if is_struct(callee):
        return _constructed_struct(cx, callee, node)
    if callee is complex and not all(isinstance(v, Constant) for v in _arguments_of(cx, node, None)):
        return _constructed_struct(cx, ComplexNumber, node)
    if complex_numbers.is_conjugation(callee):
        return cx.guarded(node, cx.arithmetic.conjugate, *_arguments_of(cx, node, 1))
    if callee is len:
        x = _arguments_of(cx, node, 1)[0]
        if isinstance(x, ArrayView | Lazy) and x.shape:
            length = x.shape[0]
            return Constant(length) if isinstance(length, int) else Scalar(length.e)
        if isinstance(x, StackValue):
            return Scalar(count_of(x))
        if isinstance(x, StructValue) and (x.type.is_tuple or keys_of(x.type.cls)):
            return Constant(len(x.fields))
        if isinstance(x, Constant) and hasattr(type(x.value), "__len__"):
            cx.guarded(node, need_container, x.value, "the length of", "__len__")
            if getattr(x.value, "ndim", True):
                return Constant(len(x.value))
        way = f"its fields are {', '.join(x.fields)}" if isinstance(x, StructValue) else None
        cx.fail("RG0703", f"{describe(x)} has no length", node, way)
    if callee is abs:
        (x,) = _arguments_of(cx, node, 1)
        return cx.guarded(node, cx.arithmetic.function, "abs", [x])
    if callee is round and not all(isinstance(v, Constant) for v in _arguments_of(cx, node, None)):
        if len(node.args) != 1:
            hint = f"write `fixed(round({shortened(node.args[0])} * 100)) / 100` for two places"
            cx.fail("RG0715", f"`{shortened(node)}`: round gives an int, and takes no places", node, hint)
        args = _arguments_of(cx, node, 1)
        _refuse_lognums(cx, "round", args, node.args)
        return cx.guarded(node, cx.arithmetic.function, "round", args)
    if callee is min or callee is max:
        args = _arguments_of(cx, node, None)
        if len(args) == 1 and isinstance(args[0], StructValue) and args[0].type.is_tuple:
            args = [*args[0].fields.values()]
        if args and all(isinstance(v, Constant) for v in args):
            values = [v.value for v in args if isinstance(v, Constant)]
            return cx.guarded(node, lambda: Constant(purity.call(callee, tuple(values), callee.__name__)))
        if len(args) == 1 and isinstance(args[0], ArrayView | Lazy):
            if len(args[0].shape) != 1:
                hint = f"write `rg.{callee.__name__}({shortened(node.args[0])})`, or give an axis to it, `axis=0`"
                message = f"`{shortened(node)}` compares the rows of {describe(args[0])}"
                cx.fail("RG0703", message, node, hint)
            return reduced_array(cx, callee.__name__, args[0], (0,), node)
        if len(args) < 2:
            cx.fail("RG0715", f"`{shortened(node)}`: {callee.__name__} takes two values or more", node)
        nodes = node.args if len(node.args) == len(args) else [node] * len(args)
        args = cx.together(args, nodes)
        return cx.guarded(node, cx.arithmetic.function, callee.__name__, args)
    return _host_call(cx, callee, node)


def _value_of_method(cx: Context, node: ast.Call) -> Value | None:
    """The value of a method of an array, such as `a.sum()` and `a.reshape(2, 3)`; None for other calls."""
    if not isinstance(node.func, ast.Attribute):
        return None
    name = node.func.attr
    shapes = name in ("reshape", "ravel", "flatten")
    if not shapes and name not in (*REDUCTIONS, "dot"):
        return None
    array = cx.value(node.func.value)
    if not isinstance(array, ArrayView | Lazy):
        return None
    return reshaped(cx, array, name, _arguments_of(cx, node, None), node) if shapes else array_method(cx, array, node)


def _value_of_chosen(cx: Context, functions: Sequence[FunctionValue], index: E, node: ast.Call) -> Value:
    """`fs[i](x)`: only the chosen function is called."""
    *others, found = (value_of_call(cx, f, node) for f in functions)
    arithmetic = cx.arithmetic
    for k, value in reversed(list(enumerate(others))):
        is_it = Scalar(apply("seq", BOOL, index, const(k, INT)))
        found = cx.guarded(node, arithmetic.function, "select", [is_it, value, found])
    return found


def _host_call(cx: Context, callee: Any, node: ast.Call) -> Value:
    """The result of a pure Python function of constants, called now."""
    if not callable(callee):
        hint = None
        if isinstance(callee, StackAnnotation):
            hint = f"Make a stack with `s = rg.stack({getattr(callee.element, '__name__', callee.element)}, {callee.capacity})`."
        elif isinstance(callee, ArrayAnnotation):
            hint = "Make an array with `t = rg.zeros(n)`, or `rg.zeros(n, dtype=int)`."
        cx.fail("RG0703", f"`{shortened(node.func)}` is no function", node, hint)
    args = _arguments_of(cx, node, None)
    if not all(isinstance(v, Constant) for v in args):
        if callee in (np.reshape, np.ravel) and isinstance(args[0], ArrayView | Lazy):
            return reshaped(cx, args[0], callee.__name__, args[1:], node)
        found = foreign_call(cx, callee, args, node)
        if found is not None:
            return found
    else:
        given = tuple(v.value for v in args if isinstance(v, Constant))
        dtypes = {str(k.arg): cx.static(k.value, "a type of numbers") for k in node.keywords}
        try:
            return cx.wrap(purity.call(callee, given, shortened(node.func), dtypes))
        except Impure as error:
            cx.fail("RG0721", str(error), node)
        except TooLarge as error:
            cx.fail("RG0723", f"{error}", node)
        except (Exception, SystemExit) as error:
            cx.fail("RG0703", f"`{shortened(node)}`: {type(error).__name__}: {error}", node, hint_of(error))
    message = f"`{shortened(node.func)}` is a Python function, which cannot run on a machine"
    hint = _instead_of(callee, node)
    cx.fail("RG0701", message, node, hint)


def _arguments_of(cx: Context, node: ast.Call, count: int | None) -> list[Value]:
    found = [value for value, _ in cx.listed(node.args)]
    if count is not None and len(found) != count:
        message = f"`{shortened(node.func)}` takes {count} argument{'s' * (count != 1)}, not {len(found)}"
        cx.fail("RG0715", message, node)
    return found


def _value_of_intrinsic(cx: Context, f: Intrinsic, node: ast.Call, real: bool) -> Value:
    """The value of a function of the language. `real`: it is written as one of `math`, which takes no complex numbers."""
    name = f.__name__
    if f.role != intrinsics.EXPRESSION:
        shown = ", ".join(map(ast.unparse, node.args))
        if f is intrinsics.repeat:
            hint = "It is a loop: `for _ in rg.repeat(n == 0, until=x > limit):`."
            cx.fail("RG0701", "rg.repeat has no value in an expression", node, hint)
        if f is intrinsics.view:
            hint = f"It is a block: `with rg.view({shown}) as m:`."
            cx.fail("RG0701", "rg.view has no value in an expression", node, hint)
        makes = f.role == intrinsics.CONSTRUCTOR or (name == "pop" and len(node.args) == 1)
        line = f"t = rg.{name}({shown})" if makes else f"rg.{name}({shown})"
        hint = f"write `{line}` on a line of its own"
        cx.fail("RG0701", f"rg.{name} has no value in an expression", node, hint)
    if name in REDUCTIONS:
        return _reduction(cx, f, node)
    if node.keywords:
        cx.fail("RG0715", f"rg.{name} takes no keywords", node)
    if name == "top":
        return _top_of_stack(cx, node)
    count = f.arity
    if f is intrinsics.select and len(node.args) == 3 and not any(isinstance(a, ast.Starred) for a in node.args):
        return select(cx, node)
    given = _arguments_of(cx, node, count)
    if real and complex_numbers.among(given):
        message = f"`{shortened(node.func)}` takes a real number"
        cx.fail("RG0703", message, node, complex_numbers.instead_of(name))
    nodes = node.args if len(node.args) == count else [node] * count
    if f.host is None:
        args = [cx.stored(v, n) for v, n in zip(given, nodes, strict=True)]
    else:
        args = cx.together(given, nodes, f is not intrinsics.select)
    if not f.lognums:
        _refuse_lognums(cx, f"rg.{name}", args, nodes)
    try:
        return cx.guarded(node, cx.arithmetic.function, f.operation, args)
    except CompileError as error:
        known = all(isinstance(v, Constant) for v in args)
        if error.code != "RG0714" or name in ("floor", "select") or not known:
            raise
    shown = ", ".join(str(v.value) for v in args if isinstance(v, Constant))
    hint = "Choose an argument where the function has a value."
    cx.fail("RG0714", f"rg.{name} has no value that fits at {shown}", node, hint)


def _refuse_lognums(cx: Context, name: str, values: Sequence[Value], nodes: Sequence[ast.expr]) -> None:
    for v, operand in zip(values, nodes, strict=True):
        if kind_of(v) is LOGNUM:
            message = f"{name} takes a fixed, and `{shortened(operand)}` is a lognum"
            cx.fail("RG0703", message, operand, f"fixed({shortened(operand)}) makes a fixed of it")


def _top_of_stack(cx: Context, node: ast.Call) -> Value:
    """The last word of a stack, which stays there."""
    x = _arguments_of(cx, node, 1)[0]
    shown = shortened(node.args[0])
    if not isinstance(x, StackValue):
        cx.fail("RG0703", f"rg.top of {describe(x)}, which is no stack", node)
    last = sub(count_of(x), const(1, INT), cx.w)
    return word_of_stack(cx, x, last, f"the stack `{shown}` is empty, and has no top", node)


def _reduction(cx: Context, f: Intrinsic, node: ast.Call) -> Value:
    """`rg.sum(x)`, `rg.max(x, axis=1)`: of all elements, or along one axis."""
    name = f.__name__
    if name in ("min", "max") and len(node.args) > 1 and not node.keywords:
        return reduced(cx, name, _arguments_of(cx, node, None), node)
    keyword = next((k for k in node.keywords if k.arg not in ("axis", "keepdims")), None)
    if keyword is not None or len(node.args) != 1:
        shown = shortened(node.args[0]) if node.args else "x"
        hint = f"write `rg.{name}({shown}, axis=0)`"
        cx.fail("RG0715", f"rg.{name} takes an array, axis= and keepdims=", keyword or node, hint)
    kept = any(k.arg == "keepdims" and bool(cx.static(k.value, "keepdims")) for k in node.keywords)
    node = ast.copy_location(ast.Call(node.func, node.args, [k for k in node.keywords if k.arg == "axis"]), node)
    x = _arguments_of(cx, node, 1)[0]
    if isinstance(x, Constant) and isinstance(x.value, np.ndarray | tuple | list):
        values = cx.numbers(x.value, node)
        axes = _axes_of(cx, values.ndim, x, node)
        if not kept and (name == "sum" or all(values.shape[axis] for axis in axes)):
            assert f.host is not None
            return Constant(cx.guarded(node, f.host, values, axes))
        x = cx.constant_array(x.value, node)
    if isinstance(x, StructValue) and x.type.is_tuple and x.fields and not node.keywords:
        return reduced(cx, name, [*x.fields.values()], node)
    if not isinstance(x, ArrayView | Lazy):
        way = f"{name}(x, y) compares two numbers" if name in ("min", "max") else None
        cx.fail("RG0703", f"rg.{name} of {describe(x)}, which is no array", node, way)
    return reduced_array(cx, name, x, _axes_of(cx, len(x.shape), x, node), node, kept)


def _axes_of(cx: Context, count: int, x: Value, call: ast.Call) -> tuple[int, ...]:
    """The axes that `axis=1` or `axis=(0, 1)` of the call names; all of them without it."""
    if not call.keywords:
        return tuple(range(count))
    node = call.keywords[0].value
    found = cx.static(node, "an axis")
    several = tuple(found) if isinstance(found, tuple | list) else (found,)
    for axis in several:
        if number_kind(axis) is not INT:
            hint = f"Axes go from 0 to {count - 1}; −1 is the last."
            cx.fail("RG0703", f"an axis is an integer, not {axis!r}", node, hint)
        if not -count <= axis < count:
            message = f"{describe(x)} has no axis {axis}"
            cx.fail("RG0712", message, node, f"Axes go from 0 to {count - 1}; −1 is the last.")
    axes = tuple(sorted({int(axis) % count for axis in several}))
    if len(axes) < len(several):
        cx.fail("RG0712", f"`{shortened(node)}` names an axis twice", node, "Name each axis once.")
    return axes


def _constructed_struct(cx: Context, cls: Any, node: ast.Call) -> StructValue:
    """`Complex(1.0, y)`: a struct whose fields are expressions."""
    fields: dict[str, Value] = {}
    names, t = [*cls.__retrograd_fields__], "complex" if cls is ComplexNumber else cls.__name__
    if len(node.args) > len(names):
        cx.fail("RG0715", f"`{t}` has {len(names)} fields: {', '.join(names)}", node)
    for name, arg in zip(names, node.args, strict=False):
        fields[name] = cx.value(arg)
    for k in node.keywords:
        if k.arg is None or k.arg not in names or k.arg in fields:
            cx.fail("RG0715", f"`{t}` has the fields {', '.join(names)}", node)
        fields[k.arg] = cx.value(k.value)
    defaults = getattr(cls, "__retrograd_defaults__", {})
    for name in names:
        if name not in fields:
            if name not in defaults:
                cx.fail("RG0715", f"`{t}` needs a value for `{name}`", node)
            cx.captures.contents(defaults[name])
            fields[name] = cx.wrap(defaults[name])
    fields = {name: fields[name] for name in names}
    return cx.guarded(node, lambda: StructValue(struct_type(cls, fields), fields))


def _instead_of(callee: Any, node: ast.Call) -> str:
    """A hint for a call of a Python function with variables."""
    own = getattr(callee, "__name__", "")
    if getattr(intrinsics.INTRINSICS.get(own), "role", None) == intrinsics.EXPRESSION:
        return f"write `rg.{own}(…)`, which the machine has"
    if any(callee is f for f in (range, enumerate, zip, reversed)):
        return f"{own} is what a loop goes through: `for … in {shortened(node)}:`"
    foreign = not isinstance(callee, FunctionType) or (callee.__module__ or "").partition(".")[0] in ("math", "numpy")
    if foreign and own in ALTERNATIVES:
        template = ALTERNATIVES[own]
        given = dict(zip("xyz", (_factor(a) for a in node.args), strict=False))
        if {name for _, name, _, _ in Formatter().parse(template) if name} in ({*given}, set()):
            return f"write `{template.format(**given)}`"
    if foreign:
        return (
            "write it with the operators and functions of docs/language.md, or compute it outside and pass the result"
        )
    return "decorate it with @reversible and call it on a line of its own, or write it as an expression"


def _factor(node: ast.expr) -> str:
    """The text of an argument as a factor of a larger expression."""
    text = shortened(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Subscript | ast.Attribute | ast.Call) else f"({text})"
