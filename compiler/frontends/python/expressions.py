"""Values of expressions: dispatch by syntax; conversion to scalars, conditions, static values and constant arrays."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace
from math import prod
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from retrograd.compiler.frontends.python.context import Context, evaluates
from retrograd.compiler.frontends.python.source import InnerFunction, shortened
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.purity import attribute
from retrograd.compiler.language.types import ScalarType, bound, is_complex, is_known
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    StackValue,
    StructValue,
    Value,
    describe,
)
from retrograd.isa.diagnostics import nearest

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM


# -----------------------------------------------------------------------------
# Names and attributes inside expressions.
#
# A name is a local, a variable of the function around, a global or a built-in, in this order, as in Python.


@evaluates(ast.Constant)
def constant(cx: Context, node: ast.Constant) -> Value:
    return Constant(node.value)


@evaluates(ast.Name)
def name(cx: Context, node: ast.Name) -> Value:
    name = node.id
    if name in cx.scope.names:
        found = cx.scope.names[name]
        _require_live(cx, found, node)
        _note_use(cx, name, found, node)
        return found
    if name in cx.scope.lent:
        cx.fail("RG0705", f"`{name}` {cx.scope.lent[name]} in this block", node, f"Use `{name}` after the block.")
    if name in cx.scope.freed:
        hint = f"Free `{name}` later, or compute it again."
        cx.fail("RG0702", f"`{name}` was freed in line {cx.scope.freed[name].line}", node, hint)
    try:
        return cx.wrap(cx.function.lookup(name, cx.captures))
    except KeyError:
        pass
    made = next((n for n in ast.walk(cx.function.tree) if _makes(n, name)), None)
    if made is not None:
        line = cx.span(made).line
        if line >= cx.span(node).line:
            hint = f"Make `{name}` before this line."
            cx.fail("RG0702", f"`{name}` has no value yet: it is made in line {line}", node, hint)
        message = f"`{name}` is made in line {line}, and freed at the end of the block there"
        way = f"Make `{name}` before that block."
        if isinstance(made, ast.For):
            way = f"Use `{name}` within the loop; after it, write the last value as an expression, such as `n - 1`."
        cx.fail("RG0702", message, node, way)
    if isinstance(cx.function, InnerFunction) and name in cx.function.around:
        message = f"`{name}` is a variable of the function around `{cx.function.__name__}`"
        hint = f"write `nonlocal {name}` at the head of `{cx.function.__name__}` to change it"
        cx.fail("RG0702", message, node, hint)
    known = [n for n in (*cx.scope.names, *cx.function.names()) if n != name and n not in _UNLIKELY]
    cx.fail("RG0702", f"nothing is named `{name}` here", node, nearest(name, known))


def _require_live(cx: Context, f: Value, node: ast.Name) -> None:
    """Refuse an inner function, or a tuple with one, that uses a variable which was freed."""
    if isinstance(f, StructValue) and f.type.is_tuple:
        for item in f.fields.values():
            _require_live(cx, item, node)
    for name, value in f.captured if isinstance(f, FunctionValue) else ():
        _note_use(cx, name, value, node)
        where = next((at for lost, at in cx.scope.lost if lost is value), None)
        if where is not None:
            message = f"`{name}`, which `{node.id}` uses, was freed in line {where.line}"
            cx.fail("RG0702", message, node, f"Free `{name}` later, or define `{node.id}` again.")


def _note_use(cx: Context, name: str, value: Value, node: ast.Name) -> None:
    """Note the use of a borrowed name. Raises RG0731 where its number has changed."""
    held = cx.scope.borrowed.get(name)
    if held is not None and held.value is value:
        cx.require_unchanged(name, held, node)
        held.used = max(held.used, cx.scope.loops)


@evaluates(ast.Attribute)
def attribute_value(cx: Context, node: ast.Attribute) -> Value:
    x = cx.value(node.value)
    name = node.attr
    match x:
        case StructValue(t, fields) if not t.is_tuple:
            if name in fields:
                return fields[name]
            if is_complex(t) and name in ("real", "imag"):
                return fields["re" if name == "real" else "im"]
            if hasattr(type(t.cls), name) or any(name in vars(c) for c in t.cls.__mro__):
                wrapped = _read_attribute(cx, t.cls, name, node)
                if isinstance(wrapped, FunctionValue):
                    return FunctionValue(wrapped.function, wrapped.backward, x)
                if isinstance(wrapped, Constant) and isinstance(wrapped.value, FunctionType):
                    message = f"`{name}` of {t} is a method of Python, which cannot run on a machine"
                    hint = f"Decorate it with @reversible, and let it change a result: `def {name}(self, y): y += …`."
                    cx.fail("RG0701", message, node, hint)
                return wrapped
            known = [*fields, *(n for n in dir(t.cls) if not n.startswith("_"))]
            near = nearest(name, known) or f"its fields are {', '.join(fields)}"
            cx.fail("RG0702", f"a {t} has no field `{name}`", node, near)
        case StackValue():
            s = shortened(node.value)
            ways = {"append": f"rg.push({s}, x)", "push": f"rg.push({s}, x)", "pop": f"x = rg.pop({s})"}
            way = ways.get(name, f"rg.top({s})` for the last word, `{s}[i]` for another, `len({s})` for their number")
            cx.fail(
                "RG0702",
                f"a stack has no attribute `{name}`",
                node,
                f"write `{way}{'' if way.endswith('number') else '`'}",
            )
        case ArrayView() | Lazy():
            return _array_attribute(cx, x, name, node)
        case Constant(v) if isinstance(v, np.ndarray) and name in ("shape", "size", "ndim", "T"):
            return Constant(getattr(v, name))
        case Constant(v):
            try:
                return _read_attribute(cx, v, name, node)
            except AttributeError:
                close = nearest(name, dir(v))
                if isinstance(v, ModuleType) and v.__name__ == "retrograd":
                    close = intrinsics.NOT_HERE.get(name, close)
                cx.fail("RG0702", f"`{shortened(node.value)}` has no attribute `{name}`", node, close)
        case FunctionValue(backward=backward) if name == "inverse":
            return replace(x, backward=not backward)
    own = shortened(node.value)
    how = f"write `{own}(…)`, and `~{own}(…)` for the inverse" if isinstance(x, FunctionValue) else None
    cx.fail("RG0702", f"{describe(x)} has no attribute `{name}`", node, how)


def _read_attribute(cx: Context, owner: Any, name: str, node: ast.AST) -> Value:
    """The attribute of a Python object. Raises AttributeError."""
    found = cx.guarded(node, attribute, owner, name)
    cx.captures.attribute(owner, name, found)
    return cx.wrap(found)


def _array_attribute(cx: Context, x: ArrayView | Lazy, name: str, node: ast.Attribute) -> Value:
    match name:
        case "shape" | "size" if not is_known(x.shape):
            message = f"`{shortened(node)}` is known only when the program runs"
            cx.fail("RG0717", message, node, f"`len({shortened(node.value)})` is the first length, as an int.")
        case "shape":
            return Constant(x.shape)
        case "size":
            return Constant(prod(map(bound, x.shape)))
        case "ndim":
            return Constant(len(x.shape))
        case "T" if isinstance(x, ArrayView):
            return ArrayView(x.element, x.shape[::-1], x.strides[::-1], x.address, x.why_not)
        case "T":
            return Lazy(x.shape[::-1], lambda index: element(x, index[::-1]))
    if isinstance(x, ArrayView) and not isinstance(x.element, ScalarType):
        fields = dict(x.element.fields)
        if is_complex(x.element) and name in ("real", "imag"):
            name = "re" if name == "real" else "im"
        inner = fields.get(name)
        if isinstance(inner, ScalarType):
            # The same field of each element: the same strides, from another word on.
            return ArrayView(inner, x.shape, x.strides, x.address.moved(x.element.offset(name)), x.why_not)
    cx.fail(
        "RG0702",
        f"{describe(x)} has no attribute `{name}`",
        node,
        f"write `rg.{name}({shortened(node.value)})`, with `axis=` where there is one"
        if name in intrinsics.INTRINSICS
        else "arrays have .shape, .size, .ndim and .T; len(x) is the length",
    )


def _makes(node: ast.AST, name: str) -> bool:
    """Whether a statement makes a variable of this name."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.For(target=target):
            targets = [target]
        case _:
            return False
    return any(
        isinstance(n, ast.Name) and n.id == name
        for t in targets
        for n in ([t, *t.elts] if isinstance(t, ast.Tuple) else [t])
    )


#: built-in names that are not suggested for a misspelt name
_UNLIKELY = set(vars(builtins)) - {
    "abs", "bool", "enumerate", "float", "int", "len", "max", "min", "print", "range", "reversed", "sum", "zip",
}  # fmt: skip
