"""Syntax → value: names, operators and calls that stand inside expressions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from math import prod
from string import Formatter
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from retrograd.compiler.frontends.python.indexing import Indexing
from retrograd.compiler.frontends.python.operands import BOOL, INT
from retrograd.compiler.frontends.python.sources import pure
from retrograd.compiler.frontends.python.sources.pure import Impure, attribute, need_container, need_plain
from retrograd.compiler.ir.expressions import E, const
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import COMPARISONS, element
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.sizes import TooLarge
from retrograd.compiler.language.types import ScalarType, scalar_of, struct_of
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StructValue,
    Value,
    describe,
)
from retrograd.isa.diagnostics import CompileError, nearest

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
#: what to write in place of an expression that the language has not
INSTEAD_OF_EXPRESSION: dict[type[ast.AST], str] = {
    ast.ListComp: "make an array with `t = rg.zeros(n)` and fill it in a loop, or write an expression of whole arrays",
    ast.GeneratorExp: "write an expression of whole arrays, such as rg.sum(x * x)",
    ast.Lambda: "write a `def` inside the function, and call it as a statement",
    ast.NamedExpr: "make the variable in a statement of its own, `t = …`",
    ast.JoinedStr: "text is for the host: `with rg.external():`",
    ast.Yield: "every argument comes back, changed or not: change an argument",
    ast.Dict: "name the values, or make a class of them with @rg.struct",
    ast.Set: "name the values, or make an array of them",
}


class Evaluator(Indexing):
    """Values of expressions."""

    def value(self, node: ast.expr) -> Value:
        """What an expression stands for."""
        match node:
            case ast.Constant(value=v):
                if v is None or isinstance(v, str | bytes) or v is Ellipsis or isinstance(v, complex):
                    return Constant(v)
                return Constant(v)
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.BinOp(op=ast.MatMult()):
                hint = "rg.sum(a[i] * b) is one element of the product; or call a function of retrograd.library"
                self.fail("RG0701", f"`{shortened(node)}`: `@` is no operator of the language", node, hint)
            case ast.BinOp(left=x, op=op, right=y):
                return self._value(
                    node, self.arithmetic.binary, OPERATORS.get(type(op), "@"), self.value(x), self.value(y)
                )
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                inner = self.value(operand)
                if isinstance(inner, FunctionValue):
                    return FunctionValue(inner.function, not inner.backward, inner.receiver)
                return self._value(node, self.arithmetic.unary, "~", inner)
            case ast.UnaryOp(op=op, operand=operand):
                return self._value(node, self.arithmetic.unary, OPERATORS[type(op)], self.value(operand))
            case ast.BoolOp(op=op, values=values):
                return self._boolean(node, [self.value(v) for v in values], isinstance(op, ast.And))
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                c = self.value(test)
                if isinstance(c, Constant):
                    return self.value(body if self.decided(c, test) else orelse)
                return self._value(node, self.arithmetic.function, "select", [c, self.value(body), self.value(orelse)])
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return self._sequence(node, items)
        self.fail(
            "RG0701",
            f"`{shortened(node)}` is no expression of the language",
            node,
            INSTEAD_OF_EXPRESSION.get(type(node)),
        )

    def _name(self, name: str, node: ast.expr) -> Value:
        if name in self.names:
            return self.names[name]
        if name in self.freed:
            hint = f"Free `{name}` later, or compute it again."
            self.fail("RG0702", f"`{name}` was freed in line {self.freed[name].line}", node, hint)
        try:
            return self.wrap(self.function.lookup(name, self.captures))
        except KeyError:
            pass
        made = next((n for n in ast.walk(self.function.tree) if _makes(n, name)), None)
        if made is not None:
            line = self.source.span(made).line
            if line >= self.source.span(node).line:
                self.fail(
                    "RG0702",
                    f"`{name}` has no value yet: it is made in line {line}",
                    node,
                    f"Make `{name}` before this line.",
                )
            message = f"`{name}` is made in line {line}, and freed at the end of the block there"
            self.fail("RG0702", message, node, f"Make `{name}` before that block.")
        known = [n for n in (*self.names, *self.function.names()) if n != name and n not in _UNLIKELY]
        self.fail("RG0702", f"nothing is named `{name}` here", node, nearest(name, known))

    def _attribute(self, node: ast.Attribute) -> Value:
        x = self.value(node.value)
        name = node.attr
        match x:
            case StructValue(t, fields):
                if name in fields:
                    return fields[name]
                if hasattr(type(t.cls), name) or any(name in vars(c) for c in t.cls.__mro__):
                    wrapped = self._read(t.cls, name, node)
                    if isinstance(wrapped, FunctionValue):
                        return FunctionValue(wrapped.function, wrapped.backward, x)
                    return wrapped
                known = [*fields, *(n for n in dir(t.cls) if not n.startswith("_"))]
                near = nearest(name, known) or f"its fields are {', '.join(fields)}"
                self.fail("RG0702", f"a {t} has no field `{name}`", node, near)
            case ArrayView() | Lazy():
                return self._array_attribute(x, name, node)
            case Constant(v) if isinstance(v, np.ndarray) and name in ("shape", "size", "ndim", "T"):
                return Constant(getattr(v, name))
            case Constant(v):
                try:
                    return self._read(v, name, node)
                except AttributeError:
                    self.fail(
                        "RG0702", f"`{shortened(node.value)}` has no attribute `{name}`", node, nearest(name, dir(v))
                    )
            case FunctionValue(f, backward, receiver) if name == "inverse":
                return FunctionValue(f, not backward, receiver)
        self.fail("RG0702", f"{describe(x)} has no attribute `{name}`", node)

    def _read(self, owner: Any, name: str, node: ast.AST) -> Value:
        """The attribute of a Python object. Raises AttributeError."""
        found = self.guarded(node, attribute, owner, name)
        self.captures.attribute(owner, name, found)
        return self.wrap(found)

    def _array_attribute(self, x: ArrayView | Lazy, name: str, node: ast.Attribute) -> Value:
        match name:
            case "shape":
                return Constant(x.shape)
            case "size":
                return Constant(prod(x.shape))
            case "ndim":
                return Constant(len(x.shape))
            case "T" if isinstance(x, ArrayView):
                return ArrayView(x.element, x.shape[::-1], x.strides[::-1], x.address, x.why_not)
            case "T":
                return Lazy(x.shape[::-1], lambda index: element(x, index[::-1]))
        if isinstance(x, ArrayView) and not isinstance(x.element, ScalarType):
            fields = dict(x.element.fields)
            inner = fields.get(name)
            if isinstance(inner, ScalarType):
                # The field of every element: the same strides, from another word on.
                return ArrayView(inner, x.shape, x.strides, x.address.moved(x.element.offset(name)), x.why_not)
        self.fail(
            "RG0702",
            f"{describe(x)} has no attribute `{name}`",
            node,
            f"write `rg.{name}({shortened(node.value)})`"
            if name in intrinsics.INTRINSICS
            else "arrays have .shape, .size, .ndim and .T; len(x) is the length",
        )

    def _boolean(self, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
        if all(isinstance(v, Constant) for v in values):
            truths = [self.decided(v, node) for v in values if isinstance(v, Constant)]
            return Constant((all if conjunction else any)(truths))
        # What a constant decides needs nothing further, whatever its type.
        left: list[Value] = []
        for v in values:
            if isinstance(v, Constant):
                if self.decided(v, node) is not conjunction:
                    return Constant(not conjunction) if not left else self._conjoin(node, [*left, v], conjunction)
                continue
            left.append(v)
        return self._conjoin(node, left, conjunction)

    def _conjoin(self, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
        def combine() -> Value:
            truths = [self.arithmetic.truth(v) for v in values]
            return Scalar(self.arithmetic.both(truths, conjunction))

        return self._value(node, combine)

    def _comparison(self, node: ast.Compare) -> Value:
        operands = [self.value(v) for v in (node.left, *node.comparators)]
        parts: list[Value] = []
        for op, x, y in zip(node.ops, operands, operands[1:], strict=False):
            symbol = OPERATORS.get(type(op))
            if symbol not in COMPARISONS:
                if (
                    isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn)
                    and isinstance(x, Constant)
                    and isinstance(y, Constant)
                ):
                    one, other = x.value, y.value
                    if isinstance(op, ast.Is | ast.IsNot):
                        found = one is other
                    else:
                        self.guarded(node, need_plain, one)
                        self.guarded(node, need_plain, other)
                        found = self.guarded(node, lambda one=one, other=other: bool(one in other))
                    parts.append(Constant(found is isinstance(op, ast.Is | ast.In)))
                    continue
                hint = None
                if isinstance(op, ast.In | ast.NotIn) and isinstance(y, Constant) and isinstance(y.value, tuple | list):
                    sign, word = ("==", " or ") if isinstance(op, ast.In) else ("!=", " and ")
                    hint = f"write `{word.join(f'{ast.unparse(node.left)} {sign} {v}' for v in y.value[:4])}`"
                self.fail("RG0701", f"`{shortened(node)}` compares what the language cannot", node, hint)
            parts.append(self._value(node, self.arithmetic.binary, symbol, x, y))
        return parts[0] if len(parts) == 1 else self._boolean(node, parts, True)

    def _sequence(self, node: ast.expr, items: Sequence[ast.expr]) -> Value:
        values = [self.value(v) for v in items]
        if all(isinstance(v, Constant) for v in values):
            return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
        if all(isinstance(v, FunctionValue) for v in values):
            return Constant(tuple(v.function for v in values if isinstance(v, FunctionValue)))
        self.fail(
            "RG0701",
            "a tuple of variables is no value of the language",
            node,
            "Use each variable by its own name, or make a class of them with @rg.struct.",
        )

    def _call(self, node: ast.Call) -> Value:
        f = self.value(node.func)
        if isinstance(f, FunctionValue):
            name = f.function.__name__
            given = ", ".join(ast.unparse(a) for a in node.args)
            hint = f"call it on a line of its own, with a variable for what it changes: `t = 0.0`, then `{name}(t, {given})`"
            message = f"the call of `{name}` stands inside an expression, and has no value: it changes its arguments"
            self.fail("RG0701", message, node, hint)
        if not isinstance(f, Constant):
            self.fail("RG0703", f"{describe(f)} cannot be called", node)
        callee = f.value
        if isinstance(callee, BuiltinFunctionType):
            callee = intrinsics.FOREIGN.get(callee, callee)
        if node.keywords and callee is not range and not isinstance(callee, Intrinsic) and struct_of(callee) is None:
            self.fail("RG0715", f"`{shortened(node.func)}` takes no keywords here", node)
        if isinstance(callee, Intrinsic):
            return self._intrinsic(callee, node)
        kind = scalar_of(callee)
        if kind is not None:
            args = self._arguments(node, 1)
            return self._value(node, self.arithmetic.conversion, kind.kind, args[0])
        t = struct_of(callee)
        if t is not None:
            return self._construct(t, node)
        if callee is len:
            x = self._arguments(node, 1)[0]
            if isinstance(x, ArrayView | Lazy) and x.shape:
                return Constant(x.shape[0])
            if isinstance(x, Constant) and hasattr(type(x.value), "__len__"):
                self.guarded(node, need_container, x.value, "the length of", "__len__")
                if getattr(x.value, "ndim", True):
                    return Constant(len(x.value))
            self.fail("RG0703", f"{describe(x)} has no length", node)
        if callee is abs:
            return self._value(node, self.arithmetic.function, "abs", self._arguments(node, 1))
        if callee is min or callee is max:
            args = self._arguments(node, None)
            if args and all(isinstance(v, Constant) for v in args):
                values = [v.value for v in args if isinstance(v, Constant)]
                return self._value(node, lambda: Constant(pure.call(callee, tuple(values), callee.__name__)))
            if len(args) < 2:
                self.fail("RG0715", f"`{shortened(node)}`: {callee.__name__} takes two values or more", node)
            return self._value(node, self.arithmetic.function, callee.__name__, args)
        return self._host_call(callee, node)

    def _host_call(self, callee: Any, node: ast.Call) -> Value:
        """A Python function of constants only is called now, if it is known to be pure: it is a constant."""
        if not callable(callee):
            self.fail("RG0703", f"`{shortened(node.func)}` is no function", node)
        args = self._arguments(node, None)
        if all(isinstance(v, Constant) for v in args):
            try:
                return self.wrap(
                    pure.call(callee, tuple(v.value for v in args if isinstance(v, Constant)), shortened(node.func))
                )
            except Impure as error:
                self.refuse_impure(error, node)
            except TooLarge as error:
                self.fail("RG0723", f"{error}", node)
            except (Exception, SystemExit) as error:
                self.fail("RG0703", f"`{shortened(node)}`: {type(error).__name__}: {error}", node)
        self.fail(
            "RG0701",
            f"`{shortened(node.func)}` is a Python function, which cannot run on a machine",
            node,
            _instead_of(callee, node),
        )

    def _arguments(self, node: ast.Call, count: int | None) -> list[Value]:
        if any(isinstance(a, ast.Starred) for a in node.args):
            self.fail("RG0701", "`*` in a call is not in the language", node)
        if count is not None and len(node.args) != count:
            self.fail(
                "RG0715",
                f"`{shortened(node.func)}` takes {count} argument{'s' * (count != 1)}, not {len(node.args)}",
                node,
            )
        return [self.value(a) for a in node.args]

    def _intrinsic(self, f: Intrinsic, node: ast.Call) -> Value:
        name = f.__name__
        if f.role != intrinsics.EXPRESSION:
            shown = ", ".join(map(ast.unparse, node.args))
            line = f"t = rg.{name}({shown})" if f.role == intrinsics.CONSTRUCTOR else f"rg.{name}({shown})"
            self.fail(
                "RG0701", f"rg.{name} has no value in an expression", node, f"write `{line}` on a line of its own"
            )
        if node.keywords:
            self.fail("RG0715", f"rg.{name} takes no keywords", node)
        if name in ("sum", "mean"):
            return self._reduction(name, node)
        count = {"atan2": 2, "select": 3}.get(name, 1)
        args = self._arguments(node, count)
        if name != "select" and all(isinstance(v, Constant) for v in args):
            import math

            values = [v.value for v in args if isinstance(v, Constant)]
            for value in values:
                self.guarded(node, need_plain, value)
            try:
                return self._value(node, lambda: Constant(getattr(math, name)(*values)))
            except CompileError as error:
                if error.code != "RG0714" or name == "floor":
                    raise
            shown = ", ".join(map(str, values))
            self.fail(
                "RG0714",
                f"rg.{name} has no value that fits at {shown}",
                node,
                "Choose an argument where the function has a value.",
            )
        return self._value(node, self.arithmetic.function, name, args)

    def _reduction(self, name: str, node: ast.Call) -> Value:
        x = self._arguments(node, 1)[0]
        if isinstance(x, Constant) and isinstance(x.value, np.ndarray | tuple | list):
            values = self._numbers(x.value, node)
            summed = np.sum(values).item()
            return self._value(node, lambda: Constant(summed / values.size if name == "mean" else summed))
        if not isinstance(x, ArrayView | Lazy):
            self.fail("RG0703", f"rg.{name} of {describe(x)}, which is no array", node)
        shape = x.shape
        indices = tuple(Var(f"i{n}", INT, self.source.span(node)) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            self.ranges[var] = (0, length - 1)
        body: E = self.guarded(
            node, lambda: self.arithmetic.expression(element(x, tuple(E("read", INT, (), v) for v in indices)))
        )
        kind = INT if body.kind is BOOL else body.kind
        if kind is Kind.LOGNUM:
            self.fail("RG0703", "lognums are not summed: fixed(x) makes a fixed of one", node)
        total: E = const(0, kind) if prod(shape) == 0 else E("total", kind, (body,), (indices, shape))
        if name == "sum":
            return Scalar(total)
        return self._value(node, self.arithmetic.binary, "/", Scalar(total), Constant(float(prod(shape))))

    def _construct(self, t: Any, node: ast.Call) -> StructValue:
        """`Complex(1.0, y)` as a value: its fields are expressions."""
        fields: dict[str, Value] = {}
        names = [name for name, _ in t.fields]
        if len(node.args) > len(names):
            self.fail("RG0715", f"`{t}` has {len(names)} fields: {', '.join(names)}", node)
        for name, arg in zip(names, node.args, strict=False):
            fields[name] = self.value(arg)
        for k in node.keywords:
            if k.arg is None or k.arg not in names or k.arg in fields:
                self.fail("RG0715", f"`{t}` has the fields {', '.join(names)}", node)
            fields[k.arg] = self.value(k.value)
        defaults = getattr(t.cls, "__retrograd_defaults__", {})
        for name in names:
            if name not in fields:
                if name not in defaults:
                    self.fail("RG0715", f"`{t}` needs a value for `{name}`", node)
                self.captures.contents(defaults[name])
                fields[name] = self.wrap(defaults[name])
        return StructValue(t, {name: fields[name] for name in names})


def _instead_of(callee: Any, node: ast.Call) -> str:
    """What to write in place of a call of a Python function on what is known only when the program runs."""
    own = getattr(callee, "__name__", "")
    if own in intrinsics.INTRINSICS:
        return f"write `rg.{own}(…)`, which the machine has"
    if any(callee is f for f in (range, enumerate, zip, reversed)):
        return f"{own} is what a loop goes through: `for … in {shortened(node)}:`"
    foreign = not isinstance(callee, FunctionType) or (callee.__module__ or "").partition(".")[0] in ("math", "numpy")
    if foreign and own in intrinsics.ALTERNATIVES:
        template = intrinsics.ALTERNATIVES[own]
        given = dict(zip("xyz", (_factor(a) for a in node.args), strict=False))
        if {name for _, name, _, _ in Formatter().parse(template) if name} in ({*given}, set()):
            return f"write `{template.format(**given)}`"
    if foreign:
        return (
            "write it with the operators and functions of docs/language.md, or compute it outside and pass the result"
        )
    return "decorate it with @reversible and call it on a line of its own, or write it as an expression"


def _factor(node: ast.expr) -> str:
    """An argument as it stands within a larger expression."""
    text = shortened(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Subscript | ast.Attribute | ast.Call) else f"({text})"


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


#: names of Python's own that nobody means
_UNLIKELY = set(vars(builtins)) - {
    "abs", "bool", "enumerate", "float", "int", "len", "max", "min", "print", "range", "reversed", "sum", "zip",
}  # fmt: skip
