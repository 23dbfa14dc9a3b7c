"""Python syntax to core: the bodies of functional functions, which are expressions, `=`, `if`, `match`, `def` and `return`.

Statements are read from the last to the first: each becomes an expression in which the following statements are the body. A name that
is assigned again is a new binding, so nothing is ever overwritten. Branches that do not return give the values of the names that they
assign, as a tuple.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.data_classes import fields_of
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.language.intrinsics import ALTERNATIVES, EXPRESSION, FOREIGN, Intrinsic, forget
from retrograd.isa.diagnostics import nearest

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not", ast.Invert: "~"}
#: functions of Python on scalars
_BUILTIN = {abs: "abs", min: "min", max: "max", int: "int", float: "fixed", bool: "bool"}

_STATEMENTS = "a functional function consists of `=`, `if`, `match`, `def`, `return` and expressions"

Scope = dict[str, core.Binding]


class Reader:
    """Reads one function. `operators`, `conversions`: (module, name) of `grad` and `fixed` and the like -> their names in core."""

    def __init__(
        self,
        function: SourceFunction,
        operators: Mapping[tuple[str, str], str],
        conversions: Mapping[tuple[str, str], str],
        captures: Captures,
    ) -> None:
        self.function = function
        self._captures = captures
        self.errors = Errors(function.source)
        self._operators, self._conversions = operators, conversions

    def function_core(self) -> core.Lambda:
        """The function as an expression without free variables. Raises CompileError."""
        tree = self.function.tree
        return self._lambda(tree.name, tree.args, tree, {}, body=tree.body)

    def at(self, node: ast.AST) -> core.Place:
        """The place of a piece of syntax."""
        span = self.errors.span(node)
        return core.Place(span, self.function.source.text(span.line))

    def fail(self, code: str, message: str, at: ast.AST, hint: str | None = None) -> NoReturn:
        self.errors.fail(code, message, at, hint)

    # ------------------------------------------------------------------ functions

    def _lambda(
        self,
        name: str,
        args: ast.arguments,
        at: ast.AST,
        scope: Scope,
        *,
        body: Sequence[ast.stmt] = (),
        value: ast.expr | None = None,
    ) -> core.Lambda:
        if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or args.defaults:
            self.fail(
                "RG0701", f"`{name}` has parameters that are not plain", at, "Name each parameter, without defaults."
            )
        params = tuple(core.Binding(a.arg, self.at(a)) for a in args.args)
        inner = scope | {b.name: b for b in params}
        made = self._block(body, inner, at) if value is None else self.expression(value, inner)
        return core.Lambda(name, params, made, self.at(at))

    def _definitions(
        self, given: Sequence[ast.FunctionDef], scope: Scope
    ) -> tuple[Scope, list[tuple[core.Binding, core.Lambda]]]:
        """Functions that are defined one after the other, and may call each other."""
        bindings = [core.Binding(node.name, self.at(node)) for node in given]
        inner = scope | {b.name: b for b in bindings}
        made: list[tuple[core.Binding, core.Lambda]] = []
        for binding, node in zip(bindings, given, strict=True):
            if node.decorator_list:
                self.fail(
                    "RG0701",
                    f"`{node.name}` is decorated",
                    node.decorator_list[0],
                    "Inner functions need no decorator.",
                )
            made.append((binding, self._lambda(node.name, node.args, node, inner, body=node.body)))
        group = tuple(made)
        for _, f in made:
            f.group = group
        return inner, made

    # ------------------------------------------------------------------ statements

    def _block(self, body: Sequence[ast.stmt], scope: Scope, at: ast.AST) -> core.Core:
        """The value that statements return."""
        if not body:
            hint = "Every path ends with `return`, since a functional function is its value."
            return core.Refusal("RG0701", "the function ends here without a value", hint, self.at(at))
        node, rest = body[0], body[1:]
        match node:
            case ast.Return(value=None):
                self.fail("RG0701", "`return` without a value", node, "A functional function is its value.")
            case ast.Return(value=ast.expr() as value):
                return self.expression(value, scope)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return self._block(rest, scope, node)
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self.expression(value, scope), rest, scope, node)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                return self._assign(target, self.expression(value, scope), rest, scope, node)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                old = self._name(ast.copy_location(ast.Name(target.id, ast.Load()), target), scope)
                made = core.Operation(_BINARY[type(op)], (old, self.expression(value, scope)), self.at(node))
                return self._assign(target, made, rest, scope, node)
            case ast.FunctionDef():
                count = next((i for i, n in enumerate(body) if not isinstance(n, ast.FunctionDef)), len(body))
                given = [n for n in body[:count] if isinstance(n, ast.FunctionDef)]
                inner, functions = self._definitions(given, scope)
                return core.LetRec(tuple(functions), self._block(body[count:], inner, given[-1]), self.at(node))
            case ast.If():
                return self._if(node, rest, scope)
            case ast.Match():
                return self._match(node, rest, scope)
            case ast.With(
                items=[ast.withitem(context_expr=ast.Call(func=f, args=[], keywords=[]), optional_vars=None)]
            ) if self._found(f) is forget:
                return self._forget(node, rest, scope)
            case ast.With():
                self.fail(
                    "RG0701", "a `with` of another kind", node, "`with rg.forget():` takes back the run of its block."
                )
            case ast.For() | ast.While():
                hint = "Write a function that calls itself, or `sum(… for i in range(n))`."
                self.fail("RG0701", "a loop has no value", node, hint)
        self.fail("RG0701", f"`{shortened(node)}` is not in the functional language", node, f"There, {_STATEMENTS}.")

    def _assign(
        self, target: ast.expr, value: core.Core, rest: Sequence[ast.stmt], scope: Scope, at: ast.AST
    ) -> core.Core:
        match target:
            case ast.Name(id=name):
                binding = core.Binding(name, self.at(target))
                return core.Let(binding, value, self._block(rest, scope | {name: binding}, at), self.at(at))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = core.Binding("tuple", self.at(target))
                return core.Let(whole, value, self._unpack(parts, whole, rest, scope, at), self.at(at))
        self.fail(
            "RG0701",
            f"`{shortened(target)}` cannot be assigned",
            target,
            "A value never changes: give the new value a name.",
        )

    def _unpack(
        self, parts: Sequence[ast.expr], whole: core.Binding, rest: Sequence[ast.stmt], scope: Scope, at: ast.AST
    ) -> core.Core:
        made: list[tuple[core.Binding, core.Core]] = [
            (
                core.Binding("count", self.at(at)),
                core.Operation(
                    "unpack", (core.Ref(whole, self.at(at)), core.Number(len(parts), self.at(at))), self.at(at)
                ),
            )
        ]
        scope = dict(scope)
        for i, part in enumerate(parts):
            if not isinstance(part, ast.Name):
                self.fail(
                    "RG0701", f"`{shortened(part)}` cannot be assigned", part, "Unpack one level at a time, into names."
                )
            binding = core.Binding(part.id, self.at(part))
            made.append((binding, core.Item(core.Ref(whole, self.at(part)), i, self.at(part))))
            scope[part.id] = binding
        body = self._block(rest, scope, at)
        for binding, value in reversed(made):
            body = core.Let(binding, value, body, self.at(at))
        return body

    def _forget(self, node: ast.With, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        """with forget(): …; the block gives the names that it assigns, or returns."""
        if _returns(node.body):
            return core.Forget(self._block(node.body, scope, node), self.at(node))
        if any(isinstance(n, ast.Return) for n in _within(node.body)):
            self.fail(
                "RG0701", "a block that forgets returns on every path, or on none", node, "Return behind the block."
            )

        def made(body: core.Core) -> core.Core:
            return core.Forget(body, self.at(node))

        return self._values([(node.body, scope)], _stored(node.body), made, rest, scope, node)

    def _if(self, node: ast.If, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        test = self.expression(node.test, scope)

        def made(then: core.Core, orelse: core.Core) -> core.Core:
            return core.Conditional(test, then, orelse, self.at(node))

        return self._paths([(node.body, scope), (node.orelse, scope)], made, rest, scope, node)

    def _paths(
        self,
        paths: Sequence[tuple[Sequence[ast.stmt], Scope]],
        made: Callable[..., core.Core],
        rest: Sequence[ast.stmt],
        scope: Scope,
        at: ast.AST,
    ) -> core.Core:
        """Branches, and the statements behind them: `made` gives the expression for the values of the branches.

        Where all branches go on, they give the values of the names that they assign. Otherwise each branch that goes on takes
        the statements behind it into itself.
        """
        if len(paths) < 2 or not rest or any(isinstance(n, ast.Return) for body, _ in paths for n in _within(body)):
            return made(*(self._block(b if _returns(b) else [*b, *rest], inner, at) for b, inner in paths))
        stored = dict.fromkeys(name for body, _ in paths for name in _stored(body))
        names = [n for n in stored if n in scope or all(n in _assigned(body) for body, _ in paths)]
        return self._values(paths, names, made, rest, scope, at)

    def _values(
        self,
        paths: Sequence[tuple[Sequence[ast.stmt], Scope]],
        names: Sequence[str],
        made: Callable[..., core.Core],
        rest: Sequence[ast.stmt],
        scope: Scope,
        at: ast.AST,
    ) -> core.Core:
        """Blocks that give the values of these names, and the statements behind them."""
        values: list[ast.expr] = [ast.copy_location(ast.Name(n, ast.Load()), at) for n in names]
        tail = ast.copy_location(ast.Return(ast.copy_location(ast.Tuple(values, ast.Load()), at)), at)
        joined = made(*(self._block([*b, tail], inner, at) for b, inner in paths))
        whole = core.Binding("values", self.at(at))
        targets: list[ast.expr] = [ast.copy_location(ast.Name(n, ast.Store()), at) for n in names]
        return core.Let(whole, joined, self._unpack(targets, whole, rest, scope, at), self.at(at))

    def _match(self, node: ast.Match, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        subject = core.Binding("subject", self.at(node.subject))
        heads: list[tuple[type | None, tuple[core.Binding, ...]]] = []
        paths: list[tuple[Sequence[ast.stmt], Scope]] = []
        for case in node.cases:
            if heads and heads[-1][0] is None:
                self.fail("RG0701", "no value reaches this case", case.pattern, "A case for all values is the last.")
            if case.guard is not None:
                self.fail("RG0701", "a case with a condition", case.guard, "Write an `if` inside the case.")
            found = self._pattern(case.pattern, subject, scope)
            heads.append(found[:2])
            paths.append((case.body, found[2]))

        def made(*bodies: core.Core) -> core.Core:
            cases = [core.Case(c, fields, e) for (c, fields), e in zip(heads, bodies, strict=True) if c is not None]
            orelse = bodies[-1] if heads[-1][0] is None else None
            return core.Match(core.Ref(subject, self.at(node.subject)), tuple(cases), orelse, self.at(node))

        return core.Let(
            subject, self.expression(node.subject, scope), self._paths(paths, made, rest, scope, node), self.at(node)
        )

    def _pattern(
        self, pattern: ast.pattern, subject: core.Binding, scope: Scope
    ) -> tuple[type | None, tuple[core.Binding, ...], Scope]:
        """(class, bindings of its fields, scope with them); the class of the empty list is NoneType, of all values None."""
        hint = "Patterns are `C(x, y)` of a data class, `[]`, `[x, *rest]`, a name, and `_`."
        match pattern:
            case ast.MatchAs(pattern=None, name=name):
                return None, (), scope if name is None else scope | {name: subject}
            case ast.MatchSequence(patterns=[]):
                return type(None), (), scope
            case ast.MatchSequence(patterns=[ast.MatchAs(pattern=None) as head, ast.MatchStar() as tail]):
                both = core.Binding(head.name or "_", self.at(head)), core.Binding(tail.name or "_", self.at(tail))
                return list, both, scope | {b.name: b for b in both}
            case ast.MatchClass(cls=cls, patterns=parts, kwd_attrs=names, kwd_patterns=named):
                found = self.function.found(cls)
                declared = fields_of(found) if isinstance(found, type) else None
                if declared is None:
                    self.fail("RG0703", f"`{shortened(cls)}` is no data class", cls, "Declare it with `@rg.data`.")
                if len(parts) > len(declared):
                    self.fail("RG0715", f"`{found.__name__}` has {len(declared)} fields", pattern)
                given: dict[str, ast.pattern] = dict(zip(declared, parts, strict=False)) | dict(
                    zip(names, named, strict=True)
                )
                for name in given.keys() - declared.keys():
                    self.fail(
                        "RG0715", f"`{found.__name__}` has no field `{name}`", pattern, nearest(name, list(declared))
                    )
                made = {name: core.Binding("_", self.at(pattern)) for name in declared}
                for name, part in given.items():
                    if not isinstance(part, ast.MatchAs) or part.pattern is not None:
                        self.fail(
                            "RG0701",
                            "a pattern inside a pattern",
                            part,
                            "Give the field a name, and match it in the case.",
                        )
                    made[name] = core.Binding(part.name or "_", self.at(part))
                fields = tuple(made.values())
                return found, fields, scope | {b.name: b for b in fields}
        self.fail("RG0701", "a pattern that is not in the functional language", pattern, hint)

    # ------------------------------------------------------------------ expressions

    def expression(self, node: ast.expr, scope: Scope) -> core.Core:
        """The core of an expression. Raises CompileError."""
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return core.Number(value, self.at(node))
            case ast.Name():
                return self._name(node, scope)
            case ast.Attribute():
                found = self.function.found(node)
                return self._global(found, node) if found is not None else self._field(node, scope)
            case ast.BinOp(left=x, op=op, right=y) if type(op) in _BINARY:
                return core.Operation(
                    _BINARY[type(op)], (self.expression(x, scope), self.expression(y, scope)), self.at(node)
                )
            case ast.UnaryOp(op=op, operand=x):
                return core.Operation(_UNARY[type(op)], (self.expression(x, scope),), self.at(node))
            case ast.BoolOp(op=op, values=values):
                made = self.expression(values[-1], scope)
                for value in reversed(values[:-1]):
                    test = self.expression(value, scope)
                    if isinstance(op, ast.And):
                        made = core.Conditional(test, made, core.Number(False, self.at(node)), self.at(node))
                    else:
                        made = core.Conditional(test, core.Number(True, self.at(node)), made, self.at(node))
                return made
            case ast.Compare(left=x, ops=ops, comparators=others):
                return self._comparison([x, *others], ops, scope, node)
            case ast.IfExp(test=test, body=x, orelse=y):
                parts = (self.expression(e, scope) for e in (test, x, y))
                return core.Conditional(next(parts), next(parts), next(parts), self.at(node))
            case ast.Lambda(args=args, body=body):
                return self._lambda("lambda", args, node, scope, value=body)
            case ast.Tuple(elts=items):
                return core.Record(tuple(self._items(items, scope)), self.at(node))
            case ast.List(elts=items):
                return self._list(items, scope, node)
            case ast.Subscript(value=value, slice=index):
                return self._subscript(value, index, scope, node)
            case ast.Call():
                return self._call(node, scope)
        self.fail("RG0701", f"`{shortened(node)}` is not in the functional language", node)

    def _items(self, items: Sequence[ast.expr], scope: Scope) -> list[core.Core]:
        for item in items:
            if isinstance(item, ast.Starred):
                self.fail("RG0701", "`*` stands in a list only, before its last item", item)
        return [self.expression(item, scope) for item in items]

    def _list(self, items: Sequence[ast.expr], scope: Scope, at: ast.AST) -> core.Core:
        tail: core.Core = core.Build(None, (), self.at(at))
        if items and isinstance(items[-1], ast.Starred):
            tail = self.expression(items[-1].value, scope)
            items = items[:-1]
        if not items:
            return tail
        return core.Build(None, (*self._items(items, scope), tail), self.at(at))

    def _name(self, node: ast.Name, scope: Scope) -> core.Core:
        if node.id in scope:
            return core.Ref(scope[node.id], self.at(node))
        try:
            found = self.function.lookup(node.id, self._captures)
        except KeyError:
            names = [*scope, *self.function.names()]
            self.fail("RG0702", f"`{node.id}` is not defined", node, nearest(node.id, names))
        return self._global(found, node)

    def _global(self, found: Any, node: ast.expr) -> core.Core:
        """The core of a value from around the function."""
        if isinstance(found, bool | int | float):
            return core.Number(found, self.at(node))
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
        if isinstance(found, type) and fields_of(found) is not None:
            return self._as_function(
                found.__name__, len(fields_of(found) or ()), lambda args: core.Build(found, args, self.at(node)), node
            )
        name = self._function_name(found)
        if name is not None:
            count = 2 if name in ("min", "max", "atan2") else 1
            return self._as_function(name, count, lambda args: core.Operation(name, args, self.at(node)), node)
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
            return known.__name__
        return self._conversions.get(_identity(found))

    def _field(self, node: ast.Attribute, scope: Scope) -> core.Core:
        hint = "`match` gives the fields of a value their names."
        self.fail("RG0701", f"`{shortened(node)}`: a field is read by `match`", node, hint)

    def _comparison(self, values: Sequence[ast.expr], ops: Sequence[ast.cmpop], scope: Scope, at: ast.AST) -> core.Core:
        for op in ops:
            if type(op) not in _COMPARE:
                self.fail("RG0701", "`in` and `is` are not in the functional language", at)
        if len(ops) == 1:
            return core.Operation(_COMPARE[type(ops[0])], tuple(self.expression(v, scope) for v in values), self.at(at))
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

    def _subscript(self, value: ast.expr, index: ast.expr, scope: Scope, at: ast.AST) -> core.Core:
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        for i in indices:
            if isinstance(i, ast.Slice):
                self.fail("RG0701", "a slice", i, "Pass the array, with the bounds.")
        return core.Element(
            self.expression(value, scope), tuple(self.expression(i, scope) for i in indices), self.at(at)
        )

    def _call(self, node: ast.Call, scope: Scope) -> core.Core:
        if node.keywords:
            self.fail(
                "RG0701",
                "arguments are given by position",
                node.keywords[0].value,
                "Write them in the order of the parameters.",
            )
        found = None if isinstance(node.func, ast.Name) and node.func.id in scope else self._found(node.func)
        if found is sum and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            return self._total(node.args[0], scope)
        if found is len and len(node.args) == 1:
            return core.Length(self.expression(node.args[0], scope), self.at(node))
        args = tuple(self._items(node.args, scope))
        if found is not None:
            if isinstance(found, type) and (declared := fields_of(found)) is not None:
                if len(args) != len(declared):
                    message = f"`{found.__name__}` has {len(declared)} fields, and is given {len(args)}"
                    self.fail("RG0715", message, node)
                return core.Build(found, args, self.at(node))
            name = self._function_name(found)
            if name is not None:
                return self._operation(name, args, node)
            alternative = ALTERNATIVES.get(getattr(found, "__name__", ""))
            if (
                alternative is not None
                and not hasattr(found, "functional_core")
                and _identity(found) not in self._operators
            ):
                shown = alternative.format(**dict(zip("xyz", map(shortened, node.args), strict=False), **{"x": "x"}))
                self.fail("RG0703", f"`{shortened(node.func)}` is not in the language", node.func, f"Write `{shown}`.")
        return core.Apply(self.expression(node.func, scope), args, self.at(node))

    def _found(self, node: ast.expr) -> Any:
        try:
            return (
                self.function.lookup(node.id, self._captures)
                if isinstance(node, ast.Name)
                else self.function.found(node)
            )
        except KeyError:
            return None

    def _operation(self, name: str, args: tuple[core.Core, ...], at: ast.AST) -> core.Core:
        if name in ("min", "max") and len(args) > 2:
            return self._operation(name, (core.Operation(name, args[:2], self.at(at)), *args[2:]), at)
        wanted = {"min": 2, "max": 2, "atan2": 2, "select": 3}.get(name, 1)
        if len(args) != wanted:
            self.fail("RG0715", f"`{name}` takes {wanted} argument{'s' * (wanted > 1)}, and is given {len(args)}", at)
        if name == "select":
            return core.Conditional(args[0], args[1], args[2], self.at(at))
        return core.Operation(name, args, self.at(at))

    def _total(self, node: ast.GeneratorExp, scope: Scope) -> core.Core:
        """sum(e for i in range(a, b) for j in …)"""
        loops: list[tuple[core.Binding, core.Core, core.Core]] = []
        scope = dict(scope)
        for g in node.generators:
            match g:
                case ast.comprehension(
                    target=ast.Name(id=name) as target, iter=ast.Call(func=f, args=args), ifs=[]
                ) if self._found(f) is range and 1 <= len(args) <= 2:
                    bounds = [self.expression(a, scope) for a in args]
                    start = bounds[0] if len(bounds) == 2 else core.Number(0, self.at(target))
                    binding = core.Binding(name, self.at(target))
                    loops.append((binding, start, bounds[-1]))
                    scope[name] = binding
                case _:
                    self.fail(
                        "RG0701", "a sum goes over `range(n)` or `range(a, b)`", node, "sum(f(i) for i in range(n))"
                    )
        made = self.expression(node.elt, scope)
        for binding, start, stop in reversed(loops):
            made = core.Total(binding, start, stop, made, self.at(node))
        return made


def _identity(found: Any) -> tuple[str, str]:
    """Module and name of a function or class; the public functions of a package may be wrapped ones."""
    found = getattr(found, "__wrapped__", found)
    return getattr(found, "__module__", ""), getattr(found, "__qualname__", "")


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through the statements returns."""
    for node in body:
        if isinstance(node, ast.Return):
            return True
        if isinstance(node, ast.If) and _returns(node.body) and _returns(node.orelse):
            return True
        if isinstance(node, ast.Match) and all(_returns(c.body) for c in node.cases) and _catches_all(node):
            return True
    return False


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The syntax inside statements, without that of inner functions."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def _stored(body: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign on some path, in alphabetical order."""
    found = {n.id for n in _within(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(found | {n.name for n in _within(body) if isinstance(n, ast.FunctionDef)})


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign on every path."""
    out: set[str] = set()
    for node in body:
        match node:
            case ast.If():
                out |= _assigned(node.body) & _assigned(node.orelse)
            case ast.Match():
                out |= set.intersection(*(_assigned(c.body) for c in node.cases)) if _catches_all(node) else set()
            case _:
                out |= set(_stored([node]))
    return out


def _catches_all(node: ast.Match) -> bool:
    return any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in node.cases)
