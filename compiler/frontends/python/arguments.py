"""Arguments of calls: which parameter each belongs to, their conversion to its type, and the parts that a procedure takes.

A procedure has one parameter for each scalar, array and stack among the arguments: the *leaves* of structs are passed one by one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from retrograd.compiler.frontends.python.captures import static_key
from retrograd.compiler.frontends.python.context import Context
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction, shortened
from retrograd.compiler.ir.expressions import Length, RunLength
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import number_kind
from retrograd.compiler.language.types import (
    LARGEST,
    ArrayAnnotation,
    ArrayShape,
    ClosureShape,
    PassedLength,
    ScalarShape,
    ScalarType,
    Shape,
    StackAnnotation,
    StackShape,
    StaticShape,
    StructShape,
    bound,
    element_of,
    is_complex,
    is_struct,
    mismatch,
    part_name,
    scalar_of,
    static,
    struct_of,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    tuple_value,
)
from retrograd.isa.diagnostics import nearest

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
    wanted = p.annotation
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
        if isinstance(value, Scalar) and value.kind is scalar.kind:
            return value
        if isinstance(value, Scalar | Constant):
            e = cx.number(value, where, scalar.kind)
            why = f"it is {describe(value)}"
            if isinstance(value, Scalar):
                why += f", and converted to {'an' if scalar.kind is Kind.INT else 'a'} {scalar}"
            return Scalar(e, None, why)
        cx.fail("RG0715", f"{shown} is one {scalar}, not {describe(value)}", where, of)
    if isinstance(wanted, ArrayAnnotation) or (isinstance(value, Constant) and isinstance(value.value, np.ndarray)):
        if isinstance(value, Constant) and isinstance(value.value, np.ndarray | list | tuple):
            value = cx.constant_array(value.value, where)
        if isinstance(wanted, ArrayAnnotation):
            if not isinstance(value, ArrayView):
                what, hint = describe(value), of
                if isinstance(value, Lazy):
                    what = "an array that is not stored anywhere"
                    hint = f"give it a name first, `t = {shortened(where)}`, which makes an array of it"
                cx.fail("RG0715", f"{shown} is {wanted}, not {what}", where, hint)
            problem = mismatch(wanted, value.element, value.shape, sizes)
            if problem is not None:
                code = "RG0715" if element_of(wanted.element) != value.element else "RG0712"
                message = f"{shown} is {wanted}, and `{shortened(where)}` is not: {problem}"
                cx.fail(code, message, where, of if code == "RG0715" else None)
    elif isinstance(wanted, StackAnnotation):
        if not isinstance(value, StackValue):
            cx.fail("RG0715", f"{shown} is a stack, not {describe(value)}", where, of)
    elif wanted is not NOTHING and is_complex(t := struct_of(wanted)) and _is_number(value):
        assert t is not None
        value = cx.guarded(where, cx.arithmetic.complex.of_type, t, value)
    elif (
        wanted is not NOTHING
        and is_struct(wanted)
        and not (isinstance(value, StructValue) and value.type.cls is wanted)
    ):
        cx.fail("RG0715", f"{shown} is a {wanted.__name__}, not {describe(value)}", where, of)
    if isinstance(value, Constant) and number_kind(value.value) is not None:
        e = cx.number(value, where)
        return Scalar(e, None, f"it is {describe(value)}")
    return value


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
