"""Expressions of Python to core, by their syntax: types come later.

An expression of arrays keeps its syntax, which the reversible front end lowers (arrays.py). Loops in expressions are in
control_flow.py.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import AreBools, Captured, Constructed, Joined, Replaced, Syntax
from retrograd.compiler.frontends.functional.control_flow import (
    DictView,
    IsVector,
    SameText,
    Scope,
    Text,
    comprehended,
    plain_sum,
)
from retrograd.compiler.frontends.functional.core import computed, on_numbers
from retrograd.compiler.frontends.functional.linear_algebra import of_matrices
from retrograd.compiler.frontends.functional.numpy_functions import METHODS, Picked, of_numpy, table
from retrograd.compiler.frontends.functional.types import (
    AT_ONE_POINT,
    NO_DEFAULT,
    Type,
    fields_of,
    is_unsigned,
    record_fields,
    record_form,
    type_of,
)
from retrograd.compiler.frontends.python.calls import REDUCTIONS
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.expressions import Held, held
from retrograd.compiler.frontends.python.source import Errors, SourceFunction, shortened
from retrograd.compiler.language.foreign import ALTERNATIVES, NAMES_OF_WRITTEN, OF_ARRAYS, OF_BOOLS, WRITTEN, of_math
from retrograd.compiler.language.intrinsics import EXPRESSION, FOREIGN, Intrinsic, arity_of, library_function
from retrograd.compiler.language.types import scalar_of
from retrograd.compiler.language.values import Constant
from retrograd.isa.diagnostics import CompileError, nearest

#: operators of Python -> operations of core
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not", ast.Invert: "~"}
_VALUES = "Expressions are numbers, names, operations, calls, lambdas, tuples, lists, and `x if c else y`."
#: fixes for expressions of Python
_INSTEAD: dict[type[ast.AST], str] = {
    ast.GeneratorExp: "Write a list, `[… for x in xs]`, or a sum, `sum(… for x in xs)`.",
    ast.SetComp: "Write a list, `[… for x in xs]`.",
    ast.Dict: 'A dict has names as its keys, `{"w": w}`.',
    ast.NamedExpr: "Write `x = …` in front.",
}
#: functions of Python on scalars
_BUILTIN = {abs: "abs", min: "min", max: "max", int: "int", float: "fixed", bool: "bool", round: "round"}
#: functions of NumPy that make arrays of constants
CONSTRUCTORS = (
    np.zeros, np.ones, np.full, np.eye, np.identity, np.arange, np.linspace, np.array,
)  # fmt: skip
#: functions of NumPy that make an array with the shape of another one -> those that take the shape
_LIKE = ((np.zeros_like, np.zeros), (np.ones_like, np.ones))


class ExpressionReader:
    """Reads the expressions of one function.

    `operators`, `conversions`: (module, name) of `grad` and `fixed` and the like -> their names in core.
    """

    def __init__(
        self,
        function: SourceFunction,
        operators: Mapping[tuple[str, str], str],
        conversions: Mapping[tuple[str, str], str],
        captures: Captures,
    ) -> None:
        self.function = function
        self._captures = captures
        self._errors = Errors(function.source)
        self._operators, self._conversions = operators, conversions
        #: names that the function, or one around it, assigns: none of them is looked up around the function, as in Python
        self.assigned: frozenset[str] = frozenset()
        #: names of constants in the function that is read: a function inside captures them as values, by which it has
        #: derivatives
        self._constants: dict[core.Binding, core.Number] = {}
        #: functions inside, with the types that their parameters are declared to have
        self.declared: dict[core.Binding, tuple[Type | None, ...]] = {}

    def at(self, node: ast.AST) -> core.Place:
        """The place of a piece of syntax."""
        span = self._errors.span(node)
        source = self.function.source
        return core.Place(span, source.text(span.line), source.library)

    def fail(self, code: str, message: str, at: ast.AST, hint: str | None = None) -> NoReturn:
        self._errors.fail(code, message, at, hint)

    def parameters(
        self, name: str, args: ast.arguments, at: ast.AST, scope: Scope
    ) -> tuple[tuple[core.Binding, ...], Scope]:
        """(the parameters of a function, the names inside it)"""
        if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or (args.defaults and scope):
            hint = "Name each parameter. The outermost function may have defaults, for calls from Python."
            self.fail("RG0729", f"`{name}` has parameters that are not plain", at, hint)
        params = tuple(core.Binding(a.arg, self.at(a)) for a in args.args)
        return params, scope | {b.name: b for b in params}

    def declared_type(self, node: ast.expr | None, function: SourceFunction | None = None) -> Type | None:
        """The type that an annotation names; None without one, and where it names a type of another language."""
        if node is None:
            return None
        function = function or self.function
        try:
            # The name of a type needs no evaluation.
            named = function.lookup(node.id) if isinstance(node, ast.Name) else None
            return type_of(function.annotation_of("", ast.unparse(node)) if named is None else named)
        except KeyError:
            return None
        except CompileError:
            return None

    def declared_types(self, args: ast.arguments, function: SourceFunction | None = None) -> tuple[Type | None, ...]:
        """The types that the parameters of a function are declared to have."""
        return tuple(self.declared_type(a.annotation, function) for a in args.args)

    def expression(self, node: ast.expr, scope: Scope) -> core.Core:
        """The core of an expression. Raises CompileError."""
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return core.Number(value, self.at(node))
            case ast.Name():
                return self.name(node, scope)
            case ast.Attribute(value=value, attr=name):
                found = None if self._is_local(value, scope) else self.function.found(node)
                return self._global(found, node) if found is not None else self._field(value, name, scope, node)
            case ast.BinOp(left=x, op=op, right=y) if type(op) in BINARY:
                return self.operation(BINARY[type(op)], (self.expression(x, scope), self.expression(y, scope)), node)
            case ast.BinOp(left=x, op=ast.MatMult(), right=y):
                return self.syntax(node, (x, y), scope)
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return self.operation("not", (self.test(x, scope),), node)
            case ast.UnaryOp(op=op, operand=x):
                return self.operation(_UNARY[type(op)], (self.expression(x, scope),), node)
            case ast.BoolOp(op=op, values=values):
                return self._boolean(op, values, scope, node)
            case ast.Compare(left=x, ops=ops, comparators=others):
                return self._comparison([x, *others], ops, scope, node)
            case ast.IfExp(test=test, body=x, orelse=y):
                return self.chosen(
                    self.test(test, scope), lambda: self.expression(x, scope), lambda: self.expression(y, scope), node
                )
            case ast.Lambda(args=args, body=body):
                params, inner = self.parameters("lambda", args, node, scope)
                with self.inside():
                    return core.Lambda("lambda", params, self.expression(body, inner), self.at(node))
            case ast.Dict(keys=keys, values=values) if keys and all(map(_is_key, keys)):
                names = [str(k.value) for k in keys if isinstance(k, ast.Constant)]
                return core.Record(tuple(self._items(values, scope)), self.at(node), record_form("dict", names))
            case ast.Dict(keys=[None, *keys], values=[whole, *values]) if all(map(_is_key, keys)):
                names = [str(k.value) for k in keys if isinstance(k, ast.Constant)]
                return self._replaced(whole, dict(zip(names, values, strict=True)), True, scope, node)
            case ast.Tuple(elts=items):
                return core.Record(tuple(self._items(items, scope)), self.at(node))
            case ast.List(elts=items):
                return self._list(items, scope, node)
            case ast.ListComp() | ast.DictComp():
                return comprehended(self, node, scope)
            case ast.Constant(value=str(text)):
                return core.Primitive(Text(text), (), self.at(node))
            case ast.Subscript(value=value, slice=index):
                return self._subscript(value, index, scope, node)
            case ast.Call():
                return self._call(node, scope)
        instead = _INSTEAD.get(type(node.op) if isinstance(node, ast.BinOp) else type(node), _VALUES)
        self.fail("RG0729", f"`{shortened(node)}` is not in the functional language", node, instead)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In the block the body of a function inside is read."""
        outer, self._constants = self._constants, {}
        yield
        self._constants = outer

    def named(self, name: str, value: core.Core, at: ast.AST) -> core.Binding:
        """A binding for a value."""
        binding = core.Binding(name, self.at(at))
        if isinstance(value := self.constant(value), core.Number):
            self._constants[binding] = value
        return binding

    def constant(self, e: core.Core) -> core.Core:
        return self._constants.get(e.binding, e) if isinstance(e, core.Ref) else e

    def operation(self, op: str, args: tuple[core.Core, ...], at: ast.AST) -> core.Core:
        """The operation; on constants its value."""
        found = on_numbers(op, [self.constant(x) for x in args])
        return core.Operation(op, args, self.at(at)) if found is None else core.Number(found, self.at(at))

    def test(self, node: ast.expr, scope: Scope) -> core.Core:
        """The core of an expression of which the truth alone matters: a number that is not zero exactly if the expression is true."""
        if not isinstance(node, ast.BoolOp):
            return self.expression(node, scope)
        at, conjunction = self.at(node), isinstance(node.op, ast.And)
        *others, made = [self.test(v, scope) for v in node.values]
        for value in reversed(others):
            sides = (made, core.Number(False, at)) if conjunction else (core.Number(True, at), made)
            made = self.chosen(value, lambda x=sides[0]: x, lambda y=sides[1]: y, node)  # type: ignore[misc]
        return made

    def chosen(self, test: core.Core, x: Callable[[], core.Core], y: Callable[[], core.Core], at: ast.AST) -> core.Core:
        """x if the test holds, else y; of a test that is known only one of them is read."""
        known = self.constant(test)
        if isinstance(known, core.Number):
            return x() if known.value else y()
        return core.Conditional(test, x(), y(), self.at(at))

    def _boolean(self, op: ast.boolop, values: Sequence[ast.expr], scope: Scope, at: ast.AST) -> core.Core:
        """`x and y` is y if x is true, else x; `x or y` is x if x is true, else y."""
        first, *rest = values
        if not rest:
            return self.expression(first, scope)
        if all(map(_is_truth, values)):
            return self.test(ast.copy_location(ast.BoolOp(op, list(values)), at), scope)
        x, place = self.expression(first, scope), self.at(first)
        known = self.constant(x)
        if isinstance(known, core.Number):
            return x if bool(known.value) is isinstance(op, ast.Or) else self._boolean(op, rest, scope, at)
        held = core.Binding("operand", place)
        others = self._boolean(op, rest, scope, at)
        own = core.Ref(held, place)
        then, orelse = (others, own) if isinstance(op, ast.And) else (own, others)
        return core.Let(held, x, core.Conditional(own, then, orelse, self.at(at)), self.at(at))

    def _items(self, items: Sequence[ast.expr], scope: Scope) -> list[core.Core]:
        for item in items:
            if isinstance(item, ast.Starred):
                hint = "Name each item: `a, b = pair`, and then `f(a, b)`."
                self.fail("RG0729", "`*` stands in a list only, before its last item", item, hint)
        return [self.expression(item, scope) for item in items]

    def _list(self, items: Sequence[ast.expr], scope: Scope, at: ast.AST) -> core.Core:
        tail: core.Core = core.Build(None, (), self.at(at))
        if items and isinstance(items[-1], ast.Starred):
            tail = self.expression(items[-1].value, scope)
            items = items[:-1]
        if not items:
            return tail
        return core.Build(None, (*self._items(items, scope), tail), self.at(at))

    def name(self, node: ast.Name, scope: Scope) -> core.Core:
        if node.id in scope:
            known = self._constants.get(scope[node.id])
            if known is not None and type(known.value) is int:
                # A whole number is a word of the type of its place: of an int, or of a uint.
                return core.Number(known.value, self.at(node))
            return core.Ref(scope[node.id], self.at(node))
        if node.id in self.assigned:
            hint = f"Give `{node.id}` a value in front of the branch or the loop: a loop may run no time."
            self.fail("RG0702", f"`{node.id}` has no value on some path to here", node, hint)
        try:
            found = self.function.lookup(node.id, self._captures)
        except KeyError:
            names = [*scope, *self.function.names()]
            self.fail("RG0702", f"`{node.id}` is not defined", node, nearest(node.id, names))
        return self._global(found, node)

    def _global(self, found: Any, node: ast.expr) -> core.Core:
        """The core of a value from around the function."""
        found = library_function(of_math(found)) or found
        if isinstance(found, bool | int | float):
            return core.Number(found, self.at(node))
        if isinstance(found, np.generic) and isinstance(found.item(), bool | int | float):
            return core.Number(found.item(), self.at(node))
        if isinstance(found, np.ndarray) and found.ndim:
            return core.Primitive(Captured(self.function, found, node), (), self.at(node))
        if isinstance(found, dict) and found and all(isinstance(key, str) for key in found):
            return core.Record(
                tuple(self._global(x, node) for x in found.values()), self.at(node), record_form("dict", found)
            )
        if isinstance(found, tuple | list) and any(isinstance(x, np.ndarray | dict) for x in found):
            return core.Record(tuple(self._global(x, node) for x in found), self.at(node))
        if isinstance(found, tuple | list) and all(isinstance(x, bool | int | float) for x in found):
            items = tuple(core.Number(x, self.at(node)) for x in found)
            if isinstance(found, tuple):
                return core.Record(items, self.at(node))
            empty = core.Build(None, (), self.at(node))
            return core.Build(None, (*items, empty), self.at(node)) if items else empty
        if _identity(found) in self._operators:
            return core.Operator(self._operators[_identity(found)], self.at(node))
        if hasattr(found, "functional_core"):
            return core.Global(found, self.at(node))
        if (fields := record_fields(found)) is not None:
            form = record_form(found.__name__, fields)
            return self._as_function(
                found.__name__, len(fields), lambda args: core.Record(args, self.at(node), form, found), node
            )
        if isinstance(found, type) and fields_of(found) is not None:
            return self._as_function(
                found.__name__, len(fields_of(found) or ()), lambda args: core.Build(found, args, self.at(node)), node
            )
        name = self._function_name(found)
        if name is not None:
            return self._as_function(name, arity_of(name), lambda args: core.Operation(name, args, self.at(node)), node)
        written = self._written(found, node)
        if written is not None:
            return written
        hint = "Use numbers, tuples of numbers, data classes, `rg` functions, and functions with `@rg.functional`."
        self.fail("RG0703", f"`{shortened(node)}` has no meaning in a functional function", node, hint)

    def _as_function(self, name: str, count: int, made: Any, at: ast.AST) -> core.Lambda:
        params = tuple(core.Binding(f"x{i}", self.at(at)) for i in range(count))
        return core.Lambda(name, params, made(tuple(core.Ref(b, self.at(at)) for b in params)), self.at(at))

    def _function_name(self, found: Any) -> str | None:
        """The name of a function of scalars."""
        try:
            known = FOREIGN.get(found, found)
            if known in _BUILTIN:
                return _BUILTIN[known]
        except TypeError:
            return None
        if isinstance(known, Intrinsic) and known.role == EXPRESSION:
            return known.operation
        return self._conversions.get(_identity(found))

    def _written(self, found: Any, node: ast.expr, args: Sequence[ast.expr] = ()) -> core.Lambda | None:
        """The function that has the values of a function of Python or NumPy: see `WRITTEN`."""
        try:
            text = WRITTEN.get(found) or OF_ARRAYS.get(found)
        except TypeError:  # an object without a hash
            return None
        if text is None:
            return None
        names = sorted({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} & {"x", "y", "z"})
        params = tuple(core.Binding(name, self.at(node)) for name in names)
        scope = {b.name: b for b in params}

        class Resolved(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.AST:
                return name if name.id in names else held(Constant(NAMES_OF_WRITTEN[name.id]), node)

        def filled(text: str) -> core.Core:
            body = Resolved().visit(ast.parse(text, mode="eval").body)
            for part in ast.walk(body):
                ast.copy_location(part, node)
            return self.expression(body, scope)

        place, made = self.at(node), filled(text)
        if found in OF_BOOLS:
            of_bools: core.Core
            if (other := OF_BOOLS[found]) is None:
                message = f"`{shortened(node)}` of bools has no value in NumPy"
                shown = dict(zip("xyz", map(shortened, args), strict=False))
                instead = ALTERNATIVES[found.__name__].format(**{"x": "x", "y": "y"} | shown)
                hint = f"Write `{instead}`, in which a bool is 0 or 1."
                of_bools = core.Refusal("RG0703", message, hint, place)
            else:
                of_bools = filled(other)
            are = core.Primitive(AreBools(), tuple(core.Ref(b, place) for b in params), place)
            made = core.Conditional(are, of_bools, made, place)
        return core.Lambda(shortened(node), params, made, place)

    def _field(self, value: ast.expr, name: str, scope: Scope, at: ast.AST) -> core.Core:
        around = None if self._is_local(value, scope) else self.found(value)
        if around is not None and not isinstance(around, np.ndarray):
            hint = nearest(name, [n for n in dir(around) if not n.startswith("_")])
            self.fail("RG0702", f"`{shortened(value)}` has no `{name}`", at, hint)
        return core.Field(self.expression(value, scope), name, self.at(at))

    def _comparison(self, values: Sequence[ast.expr], ops: Sequence[ast.cmpop], scope: Scope, at: ast.AST) -> core.Core:
        for op in ops:
            if type(op) not in _COMPARE:
                self.fail("RG0729", "`in` and `is` are not in the functional language", at)
        if len(ops) == 1 and isinstance(ops[0], ast.Eq | ast.NotEq) and any(map(_is_text, values)):
            rules = SameText(isinstance(ops[0], ast.Eq))
            return core.Primitive(rules, tuple(self.expression(v, scope) for v in values), self.at(at))
        if len(ops) == 1:
            return self.operation(_COMPARE[type(ops[0])], tuple(self.expression(v, scope) for v in values), at)
        # Each operand is evaluated once, and only as long as the comparisons before it hold.
        middle = core.Binding("operand", self.at(values[1]))
        first = core.Operation(
            _COMPARE[type(ops[0])], (self.expression(values[0], scope), core.Ref(middle, self.at(at))), self.at(at)
        )
        inner = {**scope, " operand": middle}
        again = ast.copy_location(ast.Name(" operand", ast.Load()), values[1])
        others = self._comparison([again, *values[2:]], ops[1:], inner, at)
        made = core.Conditional(first, others, core.Number(False, self.at(at)), self.at(at))
        return core.Let(middle, self.expression(values[1], scope), made, self.at(at))

    def syntax(
        self,
        node: ast.expr,
        parts: Sequence[ast.expr],
        scope: Scope,
        is_view: bool = False,
        form: Callable[..., core.Rules] = Syntax,
        given: Mapping[int, Constant] | None = None,
    ) -> core.Core:
        """An expression of arrays.

        Constants among its parts are known now; a name is one operand wherever it stands.
        """
        places: dict[int, int | Constant] = dict(given or {})
        operands: list[core.Core] = []
        named: dict[core.Binding, int] = {}
        for part in parts:
            read = self.expression(part, scope)
            known = self.known_value(read)
            if known is None and isinstance(read, core.Ref):
                places[id(part)] = named.setdefault(read.binding, len(operands))
            else:
                places[id(part)] = len(operands) if known is None else known
            if places[id(part)] == len(operands):
                operands.append(read)
        return core.Primitive(form(self.function, node, places, is_view), tuple(operands), self.at(node))

    def _constructed(self, node: ast.Call, scope: Scope) -> core.Core:
        """An array that NumPy makes of constants, among them the lengths of arrays."""
        inside = [x for a in (*node.args, *(k.value for k in node.keywords)) for x in ast.walk(a)]
        return self.syntax(
            node, [x for x in inside if isinstance(x, ast.Name) and x.id in scope], scope, form=Constructed
        )

    def _joined(self, found: Any, node: ast.Call, scope: Scope) -> core.Core | None:
        """An array of parts that the run computes; None for an array of constants."""
        if len(node.args) != 1 or node.keywords:
            return None
        of = node.args[0]
        if isinstance(of, ast.ListComp) and found is not np.concatenate:
            rows = table(self, shortened(node.func), of, scope)
            return (
                rows
                if rows is not None
                else core.Primitive(Joined(shortened(node.func), False), (self.expression(of, scope),), self.at(node))
            )

        def part(e: ast.expr) -> core.Core:
            nested = found is np.array and isinstance(e, ast.List | ast.Tuple)
            return joined(e.elts, e) if nested else self.expression(e, scope)  # type: ignore[attr-defined]

        def joined(items: Sequence[ast.expr], at: ast.expr) -> core.Core:
            rules = Joined(shortened(node.func), found is np.concatenate)
            return core.Primitive(rules, tuple(map(part, items)), self.at(at))

        plain = isinstance(of, ast.List | ast.Tuple) and not any(isinstance(x, ast.Starred) for x in ast.walk(of))
        names = [x for x in ast.walk(of) if isinstance(x, ast.Name)]
        computed = any(x.id in scope and self.known_value(self.expression(x, scope)) is None for x in names)
        if found is np.array and (not plain or not computed):
            return None
        return joined(of.elts, node) if plain else joined([of], node)  # type: ignore[attr-defined]

    def known_value(self, e: core.Core) -> Constant | None:
        """The number, or the tuple of numbers, that an expression is."""
        e = self.constant(e)
        if isinstance(e, core.Number):
            return Constant(e.value)
        if isinstance(e, core.Record):
            items = [self.known_value(i) for i in e.items]
            return Constant(tuple(i.value for i in items if i is not None)) if None not in items else None
        return None

    def _reduction(self, found: Any, node: ast.Call, scope: Scope) -> core.Core | None:
        """`rg.sum(x)`, `rg.max(x, axis=0)`, `x.sum()`, `x.dot(y)`; None for other calls."""
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr in (*REDUCTIONS, "dot") and self._is_computed(of.value, scope):
            return self.syntax(node, (of.value, *node.args, *(k.value for k in node.keywords)), scope)
        if (found is min or found is max) and len(node.args) == 1 and not node.keywords:
            items = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []
            if len(items) > 1 and not any(isinstance(x, ast.Starred) for x in items):
                return self._operation(found.__name__, tuple(self._items(items, scope)), node)
            return self.syntax(node, node.args, scope)
        try:
            known = FOREIGN.get(found, found)
        except TypeError:
            return None
        if not isinstance(known, Intrinsic) or known.__name__ not in REDUCTIONS:
            return None
        if known.__name__ in ("min", "max") and len(node.args) > 1 and found in (min, max):
            return None
        if len(node.args) == 2 and getattr(found, "__module__", None) == "numpy":
            # `np.sum(x, 1)` is `np.sum(x, axis=1)`.
            axis = ast.copy_location(ast.keyword("axis", node.args[1]), node.args[1])
            node = ast.copy_location(ast.Call(node.func, node.args[:1], [axis, *node.keywords]), node)
        if node.args and isinstance(node.args[0], ast.List) and found is not sum:
            whole = ast.copy_location(ast.Call(held(Constant(np.array), node.func), [node.args[0]], []), node.args[0])
            whole.of = node.args[0]  # type: ignore[attr-defined]
            node = ast.copy_location(ast.Call(node.func, [whole], node.keywords), node)
        return self.syntax(node, (*node.args, *(k.value for k in node.keywords)), scope)

    def _method(self, func: ast.Attribute, node: ast.Call, scope: Scope) -> core.Core:
        """`x.reshape(2, 3)` is `np.reshape(x, (2, 3))`."""
        args = list(node.args)
        if func.attr in ("reshape", "transpose") and len(args) > 1:
            args = [ast.copy_location(ast.Tuple(args, ast.Load()), node)]
        function = held(Constant(METHODS[func.attr]), func)
        function.of = func
        call = ast.copy_location(ast.Call(function, [func.value, *args], node.keywords), node)
        call.of = node  # type: ignore[attr-defined]
        return self._call(call, scope)

    def _is_computed(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is no module, class or function from around the function."""
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name) or self._is_local(node, scope):
            return True
        return isinstance(self.found(node), np.ndarray)

    def _subscript(self, value: ast.expr, index: ast.expr, scope: Scope, at: ast.expr) -> core.Core:
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return core.Field(self.expression(value, scope), index.value, self.at(at))
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        if any(isinstance(i, ast.Slice) or _is_new_axis(i) for i in indices):
            keys = [i for i in indices if not isinstance(i, ast.Slice) and not _is_new_axis(i)]
            keys += [
                e for i in indices if isinstance(i, ast.Slice) for e in (i.lower, i.upper, i.step) if e is not None
            ]
            ints = {id(k): Constant(made) for k in keys if (made := self._constant_index(k, scope)) is not None}
            parts = (value, *(t for k in keys if id(k) not in ints for t in _terms(k)))
            return self.syntax(at, parts, scope, is_view=True, form=Picked, given=ints)
        named = None if isinstance(value, ast.Name) and value.id in scope else scalar_of(self.found(value))
        if named is not None:
            self.fail(
                "RG0703", f"`{shortened(at)}`: functional functions compute at the format's point", at, AT_ONE_POINT
            )
        read: list[core.Core] = []
        for i in indices:
            known = self._constant_index(i, scope)
            whole = None if known is None else core.Primitive(Captured(self.function, known, i), (), self.at(i))
            read.append(self.expression(i, scope) if whole is None else whole)
        return core.Element(self.expression(value, scope), tuple(read), self.at(at))

    def _constant_index(self, node: ast.expr, scope: Scope) -> np.ndarray[Any, Any] | None:
        """The array that an index is: `[0, 2]`, or one from around the function; None for other indices."""
        found = self.known(node, scope) if isinstance(node, ast.Name | ast.Attribute) else None
        if isinstance(node, ast.List):
            items = [self.known_value(self.expression(x, scope)) for x in node.elts]
            found = [x.value for x in items if x is not None] if None not in items else None
        return np.array(found) if isinstance(found, list | np.ndarray) and np.ndim(found) and np.size(found) else None

    def _call(self, node: ast.Call, scope: Scope) -> core.Core:
        found = None if isinstance(node.func, ast.Name) and node.func.id in scope else self.found(node.func)
        if found is sum and len(node.args) == 1 and not node.keywords:
            return self._sum(node.args[0], scope, node)
        reduction = self._reduction(found, node, scope)
        if reduction is not None:
            return reduction
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            and self._is_computed(node.func.value, scope)
        ):
            return self._method(node.func, node, scope)
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr in ("keys", "values", "items") and not node.args:
            return core.Primitive(DictView(of.attr), (self.expression(of.value, scope),), self.at(node))
        # By identity: a value that is called may be an array, or have no hash.
        by_shape = next((make for like, make in _LIKE if found is like), None)
        if by_shape is not None and len(node.args) == 1:
            shape = ast.Attribute(node.args[0], "shape", ast.Load())
            made = ast.Call(held(Constant(by_shape), node.func), [shape], node.keywords)
            made.of = node  # type: ignore[attr-defined]
            return self._constructed(ast.fix_missing_locations(ast.copy_location(made, node)), scope)
        if any(found is make for make in (np.array, np.stack, np.concatenate)) and (
            joined := self._joined(found, node, scope)
        ):
            return joined
        of_arrays = of_numpy(self, found, node, scope) or of_matrices(self, found, node, scope)
        if of_arrays is not None:
            return of_arrays
        if any(found is make for make in CONSTRUCTORS):
            return self._constructed(node, scope)
        if isinstance(found, type) and (fields := record_fields(found)) is not None:
            return self._object(found, fields, node, scope)
        changes = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if changes and len(changes) == len(node.keywords):
            if found is dataclasses.replace and len(node.args) == 1:
                return self._replaced(node.args[0], changes, False, scope, node)
            if isinstance(of := node.func, ast.Attribute) and of.attr == "_replace" and not node.args:
                return self._replaced(of.value, changes, False, scope, node)
        if node.keywords:
            self.fail(
                "RG0729",
                "arguments are given by position",
                node.keywords[0].value,
                "Write them in the order of the parameters.",
            )
        if found is len and len(node.args) == 1 and not node.keywords:
            return core.Length(self.expression(node.args[0], scope), self.at(node))
        args = tuple(self._items(node.args, scope))
        host = found.host if isinstance(found, SourceFunction) else None
        known = None if host is None else computed(host, [self.constant(x) for x in args])
        if known is not None:
            return core.Number(known, self.at(node))
        if found is not None:
            if isinstance(found, type) and (declared := fields_of(found)) is not None:
                if len(args) != len(declared):
                    message = f"`{found.__name__}` has {len(declared)} fields, and is given {len(args)}"
                    self.fail("RG0715", message, node)
                return core.Build(found, args, self.at(node))
            name = self._function_name(found)
            if name is not None:
                return self._operation(name, args, node)
            written = self._written(found, node.func, node.args)
            if written is not None and len(args) == len(written.params):
                return core.Apply(written, args, self.at(node))
            alternative = ALTERNATIVES.get(getattr(found, "__name__", ""))
            if (
                alternative is not None
                and not hasattr(found, "functional_core")
                and _identity(found) not in self._operators
            ):
                shown = alternative.format(
                    **{"x": "x", "y": "y", "z": "z"} | dict(zip("xyz", map(shortened, node.args), strict=False))
                )
                self.fail("RG0703", f"`{shortened(node.func)}` is not in the language", node.func, f"Write `{shown}`.")
        function = self.expression(node.func, scope)
        wanted: tuple[Type | None, ...] = ()
        if isinstance(function, core.Ref):
            wanted = self.declared.get(function.binding, ())
        elif isinstance(function, core.Global) and isinstance(found, SourceFunction):
            wanted = self.declared_types(found.tree.args, found)
        if len(wanted) == len(args):
            args = tuple(
                a if t is None or not is_unsigned(t) else core.Cast(a, t, a.at)
                for a, t in zip(args, wanted, strict=True)
            )
        return core.Apply(function, args, self.at(node))

    def _replaced(
        self, whole: ast.expr, changes: Mapping[str, ast.expr], of_dict: bool, scope: Scope, at: ast.AST
    ) -> core.Core:
        values = (self.expression(v, scope) for v in changes.values())
        rules = Replaced(tuple(changes), of_dict)
        return core.Primitive(rules, (self.expression(whole, scope), *values), self.at(at))

    def _object(self, cls: type, fields: Mapping[str, Any], node: ast.Call, scope: Scope) -> core.Core:
        """An object of a class with arrays, made by its constructor."""
        names = list(fields)
        positional = self._items(node.args, scope)
        given = dict(zip(names, positional, strict=False))
        if len(positional) > len(names):
            message = f"`{cls.__name__}` has {len(names)} fields, and is given {len(positional)}"
            self.fail("RG0715", message, node)
        for k in node.keywords:
            if k.arg is None or k.arg not in fields or k.arg in given:
                hint = f"Its fields are {', '.join(names)}."
                self.fail("RG0715", f"`{cls.__name__}` has no field `{k.arg}` left", k.value, hint)
            given[k.arg] = self.expression(k.value, scope)
        for name in names:
            if name not in given and fields[name] is NO_DEFAULT:
                self.fail("RG0715", f"the field `{name}` of `{cls.__name__}` has no value", node)
        items = tuple(given[n] if n in given else self._global(fields[n], node.func) for n in names)
        return core.Record(items, self.at(node), record_form(cls.__name__, names), cls)

    def known(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression from around the function; None for a name of the function."""
        return None if self._is_local(node, scope) else self.found(node)

    def _is_local(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression begins with a name of the function."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and (node.id in scope or node.id in self.assigned)

    def found(self, node: ast.expr) -> Any:
        if isinstance(node, Held):
            return getattr(node.held, "value", None)
        if self._is_local(node, {}):
            return None
        try:
            value = (
                self.function.lookup(node.id, self._captures)
                if isinstance(node, ast.Name)
                else self.function.found(node)
            )
        except KeyError:
            return None
        if value is None and isinstance(node, ast.Attribute) and isinstance(of := self.found(node.value), np.ufunc):
            return getattr(of, node.attr, None)
        return library_function(of_math(value)) or value

    def _operation(self, name: str, args: tuple[core.Core, ...], at: ast.AST) -> core.Core:
        if name in ("min", "max") and len(args) > 2:
            return self._operation(name, (self.operation(name, args[:2], at), *args[2:]), at)
        wanted = arity_of(name)
        if len(args) != wanted:
            self.fail("RG0715", f"`{name}` takes {wanted} argument{'s' * (wanted > 1)}, and is given {len(args)}", at)
        if name == "select":
            made = self.chosen(args[0], lambda: args[1], lambda: args[2], at)
            return replace(made, elementwise=True) if isinstance(made, core.Conditional) else made
        return self.operation(name, args, at)

    def _sum(self, node: ast.expr, scope: Scope, call: ast.Call) -> core.Core:
        """sum(e for i in range(a, b) for j in …), a sum over other sequences, or over the items of one."""
        if not isinstance(node, ast.GeneratorExp):
            place = self.at(node)
            array = self.syntax(call, (node,), scope)
            known = core.Primitive(IsVector(), (self.expression(node, scope),), place)
            item = ast.copy_location(ast.Name(" item", ast.Store()), node)
            over = ast.comprehension(item, node, [], 0)
            again = ast.copy_location(ast.Name(" item", ast.Load()), node)
            items = comprehended(self, ast.copy_location(ast.GeneratorExp(again, [over]), node), scope)
            return core.Conditional(known, array, items, place)
        if not plain_sum(node, self, scope):
            return comprehended(self, node, scope)
        loops: list[tuple[core.Binding, core.Core, core.Core]] = []
        scope = dict(scope)
        for g in node.generators:
            assert isinstance(g.target, ast.Name)
            assert isinstance(g.iter, ast.Call)
            bounds = [self.expression(a, scope) for a in g.iter.args]
            start = bounds[0] if len(bounds) == 2 else core.Number(0, self.at(g.target))
            binding = core.Binding(g.target.id, self.at(g.target))
            loops.append((binding, start, bounds[-1]))
            scope[g.target.id] = binding
        made = self.expression(node.elt, scope)
        for binding, start, stop in reversed(loops):
            made = core.Total(binding, start, stop, made, self.at(node))
        return made

    # ------------------------------------------------------------------ names of parts

    def bound(
        self, target: ast.expr, value: core.Core, body: Callable[[Scope], core.Core], scope: Scope, at: ast.AST
    ) -> core.Core:
        """let target = value in body(the names with those of the target)"""
        match target:
            case ast.Name(id=name):
                binding = self.named(name, value, target)
                return core.Let(binding, value, body(scope | {name: binding}), self.at(at))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = core.Binding("tuple", self.at(target))
                return core.Let(whole, value, self.unpacked(parts, whole, body, scope, at), self.at(at))
        hint = "A value never changes: give the new value a name."
        self.fail("RG0729", f"`{shortened(target)}` cannot be assigned", target, hint)

    def unpacked(
        self,
        parts: Sequence[ast.expr],
        whole: core.Binding,
        body: Callable[[Scope], core.Core],
        scope: Scope,
        at: ast.AST,
    ) -> core.Core:
        """let (parts) = whole in body"""
        made: list[tuple[core.Binding, core.Core]] = []
        scope = dict(scope)

        def take(parts: Sequence[ast.expr], whole: core.Binding) -> None:
            place = self.at(at)
            count = core.Operation("unpack", (core.Ref(whole, place), core.Number(len(parts), place)), place)
            made.append((core.Binding("count", place), count))
            for i, part in enumerate(parts):
                binding = core.Binding(part.id if isinstance(part, ast.Name) else "tuple", self.at(part))
                made.append((binding, core.Item(core.Ref(whole, self.at(part)), i, self.at(part))))
                match part:
                    case ast.Name(id=name):
                        scope[name] = binding
                    case ast.Tuple(elts=inner) | ast.List(elts=inner):
                        take(inner, binding)
                    case _:
                        hint = "Unpack into names: `a, (b, c) = value`."
                        self.fail("RG0729", f"`{shortened(part)}` cannot be assigned", part, hint)

        take(parts, whole)
        result = body(scope)
        for binding, value in reversed(made):
            result = core.Let(binding, value, result, self.at(at))
        return result


def _terms(node: ast.expr) -> list[ast.expr]:
    """The terms of a sum: so `x[i:i + 2]` is known to have two elements."""
    match node:
        case ast.BinOp(left=x, op=ast.Add() | ast.Sub(), right=y):
            return [*_terms(x), *_terms(y)]
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return _terms(x)
    return [node]


def _is_key(node: ast.expr | None) -> bool:
    """Whether a key of a dict is a name."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_new_axis(node: ast.expr) -> bool:
    """Whether an index is no number: None or `np.newaxis`, which makes an axis of length 1, or `...`."""
    if isinstance(node, ast.Constant):
        return node.value is None or node.value is ...
    return isinstance(node, ast.Attribute) and node.attr == "newaxis"


def _identity(found: Any) -> tuple[str, str]:
    """Module and name of a function or class; the public functions of a package may be wrapped ones."""
    found = getattr(found, "__wrapped__", found)
    return getattr(found, "__module__", ""), getattr(found, "__qualname__", "")


def _is_truth(node: ast.expr) -> bool:
    """Whether an expression is a bool, by its syntax."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.BoolOp(values=values):
            return all(map(_is_truth, values))
    return False
