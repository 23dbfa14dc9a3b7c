"""Calls of reversible functions: `f(x)`, `~f(x)`, `f.each(xs)`.

A call passes variables, and never copies: a variable of the caller is the parameter of the callee while it runs. A word in memory is
exchanged into a variable for the time of the call. The value of an expression is passed as a temporary, which the callee may
not change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from retrograd.compiler.frontends.ir_builder import IRBuilder
from retrograd.compiler.frontends.python.captures import static_key
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.iterables import first_axis
from retrograd.compiler.frontends.python.statements.locations import Locations
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.frontends.specialisation import Refuse, Specialisation
from retrograd.compiler.ir.expressions import Address, E, loads
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Call, Kind, Operand, Region, Var
from retrograd.compiler.language.arithmetic import number_kind
from retrograd.compiler.language.shapes import ArrayShape, ScalarShape, Shape, StackShape, StaticShape, StructShape
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ScalarType,
    StackAnnotation,
    element_of,
    mismatch,
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
)
from retrograd.isa.diagnostics import nearest

#: (function, shapes of its arguments, raises errors at the call) → the function for these shapes
Specialise = Callable[[SourceFunction, tuple[Shape, ...], Refuse | None], Specialisation]


@dataclass(frozen=True)
class Leaf:
    """An argument for one parameter of a procedure. `name`: of the parameter."""

    value: Scalar | ArrayView | StackValue
    where: ast.AST
    name: str


@dataclass(eq=False)
class Calls:
    """Lowers calls of reversible functions."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    locations: Locations
    blocks: Blocks
    specialise: Specialise

    def lower(self, f: FunctionValue, backward: bool, call: ast.Call) -> None:
        """`f(x, y)`, or `~f(x, y)` where backward."""
        self._call(f.function, f.backward != backward, self._arguments(f, call), call)

    def _arguments(self, f: FunctionValue, call: ast.Call) -> dict[str, tuple[Value, ast.AST]]:
        """Parameter name → argument and its place."""
        function: SourceFunction = f.function
        names = [p.name for p in function.parameters]
        found: dict[str, tuple[Value, ast.AST]] = {}
        positional: list[tuple[Value, ast.AST]] = []
        if f.receiver is not None:
            positional.append((f.receiver, getattr(call.func, "value", call.func)))
        for a in call.args:
            if isinstance(a, ast.Starred):
                hint = "Pass each argument, or the array as one."
                self.errors.fail("RG0701", "`*` in a call is not in the language", a, hint)
            positional.append((self.expressions.value(a), a))
        of = f"It is declared as {function.signature}."
        called = f"`{function.__name__}`"
        if len(positional) > len(names):
            count = f"{len(names)} argument{'s' * (len(names) != 1)}"
            message = f"{called} takes {count}, and is given {len(positional)}"
            self.errors.fail("RG0715", message, positional[len(names)][1], of)
        found.update(zip(names, positional, strict=False))
        for k in call.keywords:
            if k.arg not in names:
                if k.arg is None:
                    self.errors.fail("RG0701", "`**` in a call is not in the language", k.value, "Name each argument.")
                self.errors.fail("RG0715", f"{called} has no parameter `{k.arg}`", k, nearest(k.arg, names) or of)
            if k.arg in found:
                self.errors.fail("RG0715", f"`{k.arg}` of {called} is given twice, by position and by name", k)
            found[k.arg] = (self.expressions.value(k.value), k.value)
        for p in function.parameters:
            if p.name not in found:
                if p.default is NOTHING:
                    self.errors.fail("RG0715", f"{called} is called without `{p.name}`", call, of)
                self.expressions.captures.contents(p.default)
                found[p.name] = (self.expressions.wrap(p.default), call)
        return {name: found[name] for name in names}

    def each(self, f: FunctionValue, backward: bool, call: ast.Call) -> None:
        """`f.each(xs, ys, c)`: f on the elements of the first axis; scalars are passed to every call."""
        arguments = self._arguments(f, call)
        lengths = {v.shape[0] for v, _ in arguments.values() if isinstance(v, ArrayView | Lazy) and v.shape}
        if len(lengths) != 1:
            message = f"`{shortened(call)}` goes through arrays of the lengths {sorted(lengths)}"
            self.errors.fail("RG0712", message, call)

        def one(index: tuple[E, ...]) -> None:
            inner = {name: (first_axis(v, index[0]), where) for name, (v, where) in arguments.items()}
            self._call(f.function, f.backward != backward, inner, call)

        self.blocks.over_elements(tuple(lengths), one)

    def _call(
        self, function: SourceFunction, backward: bool, arguments: dict[str, tuple[Value, ast.AST]], node: ast.Call
    ) -> None:
        """Emit the call of a function on the caller's values."""
        shapes: list[Shape] = []
        found: list[Leaf] = []
        sizes: dict[str, int] = {}
        for p in function.parameters:
            value, where = arguments[p.name]
            value = self._fitted(p, value, where, function, sizes)
            shapes.append(self._shape(p.name, value, where, found))

        def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
            self.errors.fail(code, message, node, hint)

        callee = self.specialise(function, tuple(shapes), refuse)
        t = self.builder.temporaries()
        self._refuse_aliases(t, callee, found, node)
        args: list[Operand] = []
        regions: list[Region] = []
        #: words that are exchanged into temporaries, after all addresses are computed
        late: list[tuple[int, Scalar]] = []
        for i, leaf in enumerate(found):
            value, changes = leaf.value, i in callee.written
            why_not = value.why_not
            if isinstance(value, Scalar) and value.place is None:
                why_not = why_not or "it is the value of an expression"
            if changes and why_not is not None:
                called = f"`{function.__name__}` changes `{leaf.name}`"
                message = f"{called}, and `{shortened(leaf.where)}` cannot be changed: {why_not}"
                self.errors.fail("RG0709", message, leaf.where)
            match value:
                case Scalar(_, Address()) if changes:
                    late.append((i, value))
                    args.append(Var("later"))
                case Scalar(e):
                    args.append(t.operand(e))
                case ArrayView() | StackValue():
                    args.append(t.location(value.address))
                    regions.append(value.address.region)
        for i, value in late:
            assert isinstance(value.place, Address)
            args[i] = self.locations.register(t, value.place, value.kind, found[i].name)
        call = Call(callee.name, tuple(args), tuple(regions), backward, self.errors.span(node))
        self.builder.emit(t.wrap((call,)))

    def _fitted(
        self, p: Parameter, value: Value, where: ast.AST, function: SourceFunction, sizes: dict[str, int]
    ) -> Value:
        """The argument, converted to the type that the parameter is annotated with. `sizes`: lengths of named dimensions."""
        wanted = p.annotation
        shown = f"`{p.name}` of `{function.__name__}`"
        of = f"It is declared as {function.signature}."
        if wanted is static:
            if isinstance(value, Scalar) and isinstance(where, ast.expr):
                value = Constant(self.expressions.static(where, shown))
            if not isinstance(value, Constant | FunctionValue | StructValue):
                message = f"{shown} must be known when the program is compiled; it is {describe(value)}"
                self.errors.fail("RG0717", message, where)
            return value
        scalar = scalar_of(wanted) if wanted is not NOTHING else None
        if scalar is not None:
            if isinstance(value, Scalar) and value.kind is scalar.kind:
                return value
            if isinstance(value, Scalar | Constant):
                e = self.expressions.number(value, where, scalar.kind)
                why = f"it is {describe(value)}"
                if isinstance(value, Scalar):
                    why += f", and converted to {'an' if scalar.kind is Kind.INT else 'a'} {scalar}"
                return Scalar(e, None, why)
            self.errors.fail("RG0715", f"{shown} is one {scalar}, not {describe(value)}", where, of)
        if isinstance(wanted, ArrayAnnotation) or (isinstance(value, Constant) and isinstance(value.value, np.ndarray)):
            if isinstance(value, Constant) and isinstance(value.value, np.ndarray | list | tuple):
                value = self.expressions.constant_array(value.value, where)
            if isinstance(wanted, ArrayAnnotation):
                if not isinstance(value, ArrayView):
                    what, hint = describe(value), of
                    if isinstance(value, Lazy):
                        what = "an array that is not stored anywhere"
                        hint = f"give it a name first, `t = {shortened(where)}`, which makes an array of it"
                    self.errors.fail("RG0715", f"{shown} is {wanted}, not {what}", where, hint)
                problem = mismatch(wanted, value.type, sizes)
                if problem is not None:
                    code = "RG0715" if element_of(wanted.element) != value.element else "RG0712"
                    message = f"{shown} is {wanted}, and `{shortened(where)}` is not: {problem}"
                    self.errors.fail(code, message, where, of if code == "RG0715" else None)
        elif isinstance(wanted, StackAnnotation):
            if not isinstance(value, StackValue):
                self.errors.fail("RG0715", f"{shown} is a stack, not {describe(value)}", where, of)
        elif (
            wanted is not NOTHING
            and struct_of(wanted) is not None
            and not (isinstance(value, StructValue) and value.type.cls is wanted)
        ):
            self.errors.fail("RG0715", f"{shown} is a {wanted.__name__}, not {describe(value)}", where, of)
        if isinstance(value, Constant) and number_kind(value.value) is not None:
            e = self.expressions.number(value, where)
            return Scalar(e, None, f"it is {describe(value)}")
        return value

    def _shape(self, name: str, value: Value, where: ast.AST, found: list[Leaf]) -> Shape:
        """The shape of an argument, whose leaves are added to `found`."""
        match value:
            case Scalar():
                found.append(Leaf(value, where, name))
                return ScalarShape(value.kind)
            case ArrayView(element, shape, strides):
                found.append(Leaf(value, where, name))
                return ArrayShape(element, shape, strides)
            case StackValue(t):
                found.append(Leaf(value, where, name))
                return StackShape(t)
            case StructValue(t, fields):
                inner = []
                for field_name, given in fields.items():
                    wanted, v = dict(t.fields)[field_name], given
                    if isinstance(v, Constant) and isinstance(wanted, ScalarType):
                        e = self.expressions.number(v, where, wanted.kind)
                        v = Scalar(e, None, f"it is {describe(v)}")
                    inner.append((field_name, self._shape(f"{name}.{field_name}", v, where, found)))
                return StructShape(t, tuple(inner))
            case FunctionValue(f, backward, receiver):
                if receiver is not None:
                    message = "a method of an object is no argument; pass the object and the function"
                    self.errors.fail("RG0703", message, where)
                return StaticShape((id(f), backward), value)
            case Constant(v):
                return StaticShape(static_key(v), v)
            case Lazy():
                hint = "give it a name first, `t = …`, which makes an array of it"
                self.errors.fail("RG0715", f"`{name}` is {describe(value)}, which lies nowhere", where, hint)
            case _:
                self.errors.fail("RG0715", f"{describe(value)} is no argument", where)

    def _refuse_aliases(self, t: Temporaries, callee: Specialisation, found: Sequence[Leaf], node: ast.Call) -> None:
        """Refuse or test that two arguments overlap, one of which is changed."""
        f = callee.function.__name__
        for j, y in enumerate(found):
            for i, x in enumerate(found[:j]):
                if i in callee.written or j in callee.written:
                    self._disjoint(t, f, x, y)
        # Addresses and values of arguments are computed again after the call, so they may not read a place that it changes.
        sources: list[E] = []
        for leaf in found:
            match leaf.value:
                case Scalar(e, None):
                    sources.append(e)
                case Scalar(_, Address() as a) | ArrayView(address=a) | StackValue(address=a):
                    sources += [e for e, _ in a.terms]
                case _:
                    pass
        for i in sorted(callee.written):
            leaf = found[i]
            if isinstance(leaf.value, Scalar):
                if leaf.value.place is not None:
                    for e in sources:
                        self.locations.refuse_overlap(t, e, leaf.value.place, node, leaf.where)
                continue
            view = leaf.value
            for e in sources:
                for at in loads(e):
                    if at.region is view.address.region:
                        message = f"`{f}` changes `{shortened(leaf.where)}`, and an argument is computed from it"
                        self.locations.differ(t, at, view.address, 1, _extent(view), "RG0705", message, node, e)

    def _disjoint(self, t: Temporaries, f: str, x: Leaf, y: Leaf) -> None:
        """Refuse or test that two arguments of f overlap."""
        a, b = x.value, y.value
        # An expression that loads from the other argument is tested by the caller: it has no place.
        at_x, at_y = (v.place if isinstance(v, Scalar) else v.address for v in (a, b))
        in_memory = isinstance(at_x, Address) and isinstance(at_y, Address) and at_x.region is at_y.region
        if at_x is None or not (at_x is at_y or in_memory):
            return
        given = (f"`{shortened(leaf.where)}` as `{leaf.name}`" for leaf in (x, y))
        message = f"`{f}` is given {' and '.join(given)}, which overlap"
        if not (isinstance(at_x, Address) and isinstance(at_y, Address)):
            self.errors.fail("RG0705", message, y.where)
        if isinstance(a, Scalar) and isinstance(b, Scalar):
            self.locations.differ(t, at_x, at_y, 1, 1, "RG0705", message, y.where)
            return
        if isinstance(a, Scalar) or isinstance(b, Scalar):
            word, view = (at_x, b) if isinstance(a, Scalar) else (at_y, a)
            assert not isinstance(view, Scalar)
            distance = word.minus(view.address)
            if distance is None or 0 <= distance < _extent(view):
                self.errors.fail("RG0705", message, y.where)
            return
        assert not isinstance(b, Scalar)
        if isinstance(a, ArrayView) and isinstance(b, ArrayView) and a.strides == b.strides and _interleave(a, b):
            # Two columns, for example, that are less than a stride apart: they overlap only if they are the same.
            self.locations.differ(t, a.address, b.address, 1, 1, "RG0705", message, y.where)
            return
        self.locations.differ(t, a.address, b.address, _extent(a), _extent(b), "RG0705", message, y.where)


def _extent(view: ArrayView | StackValue) -> int:
    """The number of words from the first to the last of a view with positive strides."""
    if isinstance(view, StackValue):
        return view.type.size
    return sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + view.element.size


def _interleave(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of the same strides overlap only if they have the same address.

    They do if their indices move them by less than the smallest stride.
    """
    least = min(a.strides, default=0)
    spans = {abs(k) for _, k in (*a.address.terms, *b.address.terms)}
    return least > a.element.size and bool(spans) and all(k < least for k in spans)
