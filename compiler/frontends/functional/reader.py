"""The bodies of functional functions, which are expressions, `=`, `if`, `match`, `for`, `while`, `def` and `return`.

Statements are read from the last to the first: each becomes an expression in which the following statements are the
body. A name that is assigned again is a new binding, so nothing is ever overwritten. Branches that do not return give
the values of the names that they assign, as a tuple.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.control_flow import (
    Loop,
    Scope,
    assigned,
    leaves,
    recursion,
    returns,
    source,
    stored,
    within,
)
from retrograd.compiler.frontends.functional.expressions import BINARY, ExpressionReader
from retrograd.compiler.frontends.functional.types import (
    fields_of,
    is_unsigned,
    record_fields,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import SourceFunction, shortened
from retrograd.compiler.language.intrinsics import forget
from retrograd.isa.diagnostics import nearest

_STATEMENTS = "A functional function consists of `=`, `if`, `match`, `for`, `while`, `def`, `return` and expressions."


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
        self._expressions = ExpressionReader(function, operators, conversions, captures)
        #: the loops around the statement that is read, the innermost last
        self._loops: list[Loop] = []
        self.at, self.fail, self._expression = (
            self._expressions.at,
            self._expressions.fail,
            self._expressions.expression,
        )

    def function_core(self) -> core.Lambda:
        """The function as an expression without free variables. Raises CompileError."""
        tree = self.function.tree
        return self._function(tree.name, tree.args, tree, {}, tree.body, tree.returns)

    # ------------------------------------------------------------------ functions

    def _function(
        self,
        name: str,
        args: ast.arguments,
        at: ast.AST,
        scope: Scope,
        body: Sequence[ast.stmt],
        returns: ast.expr | None,
    ) -> core.Lambda:
        params, inner = self._expressions.parameters(name, args, at, scope)
        declared = *self._expressions.declared_types(args), self._expressions.declared_type(returns)
        outer, self._loops = self._loops, []
        around = self._expressions.assigned
        self._expressions.assigned |= set(stored(body))
        with self._expressions.inside():
            made = self._block(body, inner, at)
        self._loops, self._expressions.assigned = outer, around
        if declared[-1] is not None and is_unsigned(declared[-1]):
            made = core.Cast(made, declared[-1], made.at)
        return core.Lambda(name, params, made, self.at(at), declared=declared if any(declared) else ())

    def _definitions(
        self, given: Sequence[ast.stmt], scope: Scope
    ) -> tuple[Scope, list[tuple[core.Binding, core.Lambda]]]:
        """Functions that are defined one after the other, and may call each other."""
        bindings = [core.Binding(_defined(node) or "", self.at(node)) for node in given]
        inner = scope | {b.name: b for b in bindings}
        for binding, node in zip(bindings, given, strict=True):
            if isinstance(node, ast.FunctionDef):
                self._expressions.declared[binding] = self._expressions.declared_types(node.args)
        made: list[tuple[core.Binding, core.Lambda]] = []
        for binding, node in zip(bindings, given, strict=True):
            if isinstance(node, ast.Assign):
                f = self._expression(node.value, inner)
                assert isinstance(f, core.Lambda)
                made.append((binding, f))
                continue
            assert isinstance(node, ast.FunctionDef)
            if node.decorator_list:
                self.fail(
                    "RG0729",
                    f"`{node.name}` is decorated",
                    node.decorator_list[0],
                    "Inner functions need no decorator.",
                )
            made.append((binding, self._function(node.name, node.args, node, inner, node.body, node.returns)))
        group = tuple(made)
        for _, f in made:
            f.group = group
        return inner, made

    # ------------------------------------------------------------------ statements

    def _block(self, body: Sequence[ast.stmt], scope: Scope, at: ast.AST) -> core.Core:
        """The value that statements return."""
        if not body:
            hint = "Every path ends with `return`, since a functional function is its value."
            return core.Refusal("RG0729", "the function ends here without a value", hint, self.at(at))
        node, rest = body[0], body[1:]
        match node:
            case ast.Return(value=None):
                self.fail("RG0729", "`return` without a value", node, "A functional function is its value.")
            case ast.Return(value=ast.expr() as value):
                return self._expression(value, scope)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return self._block(rest, scope, node)
            case ast.FunctionDef() | ast.Assign() if count := _group(body):
                inner, functions = self._definitions(body[:count], scope)
                made = self._block(body[count:], inner, body[count - 1])
                return core.LetRec(tuple(functions), made, self.at(node))
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self._expression(value, scope), rest, scope, node)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                return self._assign(target, self._expression(value, scope), rest, scope, node)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                old = self._expressions.name(ast.copy_location(ast.Name(target.id, ast.Load()), target), scope)
                made = self._expressions.operation(BINARY[type(op)], (old, self._expression(value, scope)), node)
                return self._assign(target, made, rest, scope, node)
            case ast.If():
                return self._if(node, rest, scope)
            case ast.Match():
                return self._match(node, rest, scope)
            case ast.With(
                items=[ast.withitem(context_expr=ast.Call(func=f, args=[], keywords=[]), optional_vars=None)]
            ) if self._expressions.found(f) is forget:
                return self._forget(node, rest, scope)
            case ast.With():
                hint = '`with rg.forget():` takes back the run of its block, and `@rg.functional(parts="loop")` runs loops in parts, with checkpoints between them.'
                self.fail("RG0729", "a `with` of another kind", node, hint)
            case ast.For() | ast.While():
                return self._loop(node, rest, scope)
            case ast.Continue():
                return self._loops[-1].again(scope)
            case ast.Break():
                return self._loops[-1].left(scope)
        hint = _STATEMENTS
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            match node.value:
                case ast.Call(func=ast.Attribute(value=items, attr="append"), args=[x]):
                    given = shortened(items)
                    hint = f"Lists grow at the front: `{given} = [{shortened(x)}, *{given}]`. "
                    hint += "`[… for x in xs]` makes one in order."
        self.fail("RG0729", f"`{shortened(node)}` is not in the functional language", node, hint)

    def _assign(
        self, target: ast.expr, value: core.Core, rest: Sequence[ast.stmt], scope: Scope, at: ast.AST
    ) -> core.Core:
        return self._expressions.bound(target, value, lambda inner: self._block(rest, inner, at), scope, at)

    def _loop(self, node: ast.For | ast.While, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        """A loop, and the statements behind it. See control_flow.py."""
        if node.orelse:
            self.fail("RG0729", "a loop with `else`", node.orelse[0], "Write the statements behind the loop.")
        at = self.at(node)
        names = [n for n in stored([node]) if n in scope]
        variables = {n: core.Binding(n, at) for n in names}
        gives_value = any(isinstance(n, ast.Return) for n in within(node.body))
        behind = core.Binding("after", at)

        def values(scope: Scope) -> tuple[core.Core, ...]:
            return tuple(core.Ref(scope[n], at) for n in names)

        def left(scope: Scope) -> core.Core:
            return (
                core.Apply(core.Ref(behind, at), values(scope), at) if gives_value else core.Record(values(scope), at)
            )

        def body(item: core.Core | None, again: Callable[..., core.Core]) -> core.Core:
            inner = scope | variables
            self._loops.append(Loop(lambda s: again(*values(s)), left))
            statements = [*node.body, ast.copy_location(ast.Continue(), node)]
            if isinstance(node, ast.For):
                assert item is not None
                made = self._assign(node.target, item, statements, inner, node)
            else:
                test = self._expressions.test(node.test, inner)
                made = self._expressions.chosen(
                    test, lambda: self._block(statements, inner, node), lambda: left(inner), node
                )
            self._loops.pop()
            return made

        over = source(self._expressions, node.iter, scope) if isinstance(node, ast.For) else None
        carried = [(variables[n], core.Ref(scope[n], at)) for n in names]
        made = recursion(over, carried, body, lambda: left(scope | variables), at)
        if gives_value:
            parameters = {n: core.Binding(n, at) for n in names}
            f = core.Lambda("after", tuple(parameters.values()), self._block(rest, scope | parameters, node), at)
            return core.Let(behind, f, made, at)
        whole = core.Binding("values", at)
        targets: list[ast.expr] = [ast.copy_location(ast.Name(n, ast.Store()), node) for n in names]
        return core.Let(
            whole,
            made,
            self._expressions.unpacked(targets, whole, lambda s: self._block(rest, s, node), scope, node),
            at,
        )

    def _forget(self, node: ast.With, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        """with forget(): …; the block gives the names that it assigns, or returns."""
        if returns(node.body):
            return core.Forget(self._block(node.body, scope, node), self.at(node))
        if leaves(node.body):
            self.fail(
                "RG0729", "a block that forgets returns on every path, or on none", node, "Return behind the block."
            )

        def made(body: core.Core) -> core.Core:
            return core.Forget(body, self.at(node))

        return self._values([(node.body, scope)], stored(node.body), made, rest, scope, node)

    def _if(self, node: ast.If, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        test = self._expressions.test(node.test, scope)

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
        if len(paths) < 2 or not rest or any(leaves(body) for body, _ in paths):
            return made(*(self._block(b if returns(b) else [*b, *rest], inner, at) for b, inner in paths))
        found = dict.fromkeys(name for body, _ in paths for name in stored(body))
        names = [n for n in found if n in scope or all(n in assigned(body) for body, _ in paths)]
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
        made_of = self._expressions.unpacked(targets, whole, lambda s: self._block(rest, s, at), scope, at)
        return core.Let(whole, joined, made_of, self.at(at))

    def _match(self, node: ast.Match, rest: Sequence[ast.stmt], scope: Scope) -> core.Core:
        subject = core.Binding("subject", self.at(node.subject))
        fields: Fields = {}
        rows: list[list[Test]] = []
        paths: list[tuple[Sequence[ast.stmt], Scope]] = []
        for case in node.cases:
            if rows and not rows[-1]:
                self.fail("RG0729", "no value reaches this case", case.pattern, "A case for all values is the last.")
            if case.guard is not None:
                self.fail("RG0729", "a case with a condition", case.guard, "Write an `if` inside the case.")
            tests: list[Test] = []
            inner = dict(scope)
            self._pattern(case.pattern, subject, tests, inner, fields)
            rows.append(tests)
            paths.append((case.body, inner))

        def made(*bodies: core.Core) -> core.Core:
            return decisions(list(zip(rows, bodies, strict=True)), fields, self.at(node.subject), self.at(node))

        return core.Let(
            subject, self._expression(node.subject, scope), self._paths(paths, made, rest, scope, node), self.at(node)
        )

    def _pattern(
        self, pattern: ast.pattern, value: core.Binding, tests: list[Test], scope: Scope, fields: Fields
    ) -> None:
        """Append the tests of a pattern on a value, from outside to inside, and bind its names in the scope."""
        hint = "Patterns are `C(x, y)` of a data class, `[]`, `[x, *rest]`, a name, and `_`."

        def parts(cls: type, inside: Sequence[ast.pattern | None]) -> tuple[core.Binding, ...]:
            tests.append((value, cls))
            if (value, cls) not in fields:
                fields[value, cls] = tuple(core.Binding(_named(p), self.at(p or pattern)) for p in inside)
            return fields[value, cls]

        match pattern:
            case ast.MatchAs(pattern=inside, name=name):
                if inside is not None:
                    self._pattern(inside, value, tests, scope, fields)
                if name is not None:
                    scope[name] = value
            case ast.MatchSequence(patterns=[]):
                parts(type(None), ())
            case ast.MatchSequence(patterns=[ast.MatchStar(name=name)]):
                if name is not None:
                    scope[name] = value
            case ast.MatchSequence(patterns=[first, *others]) if not isinstance(first, ast.MatchStar):
                star = others[0] if others and isinstance(others[0], ast.MatchStar) else None
                head, tail = parts(list, (first, star))
                self._pattern(first, head, tests, scope, fields)
                self._pattern(ast.copy_location(ast.MatchSequence(others), pattern), tail, tests, scope, fields)
            case ast.MatchClass(cls=cls, patterns=positional, kwd_attrs=names, kwd_patterns=named):
                found = self.function.found(cls)
                declared = record_fields(found) or (fields_of(found) if isinstance(found, type) else None)
                if declared is None:
                    self.fail("RG0703", f"`{shortened(cls)}` is no data class", cls, "Declare it with `@rg.data`.")
                if len(positional) > len(declared):
                    self.fail("RG0715", f"`{found.__name__}` has {len(declared)} fields", pattern)
                given: dict[str, ast.pattern] = dict(zip(declared, positional, strict=False)) | dict(
                    zip(names, named, strict=True)
                )
                for name in given.keys() - declared.keys():
                    self.fail(
                        "RG0715", f"`{found.__name__}` has no field `{name}`", pattern, nearest(name, list(declared))
                    )
                for name, binding in zip(declared, parts(found, [given.get(n) for n in declared]), strict=True):
                    if name in given:
                        self._pattern(given[name], binding, tests, scope, fields)
            case _:
                self.fail("RG0729", "a pattern that is not in the functional language", pattern, hint)


def _defined(node: ast.stmt) -> str | None:
    """The name of a function that a statement defines, by `def` or as a lambda."""
    match node:
        case ast.FunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
            return name
    return None


def _group(body: Sequence[ast.stmt]) -> int:
    """The number of statements at the beginning that define functions which may call each other; 0 for a lambda that no such group needs."""
    run: dict[str, int] = {}
    for node in body:
        name = _defined(node)
        if name is None or name in run:
            break
        run[name] = len(run)
    count = next((i for i, node in enumerate(body) if i == len(run) or not isinstance(node, ast.FunctionDef)), len(run))
    end, at = max(count, 1), 0
    grouped = count > 0
    while at < min(end, len(run)):
        names = {n.id for n in ast.walk(body[at]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        later = [run[name] for name in names & run.keys() if run[name] >= at]
        grouped = grouped or bool(later)
        end = max([end, *(k + 1 for k in later)])
        at += 1
    return end if grouped else 0


def _named(pattern: ast.pattern | None) -> str:
    """The name of a part of a value."""
    match pattern:
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return name
    return "_"


#: a value and the class that it must be of: `list` for a list that is not empty, NoneType for the empty list
Test = tuple[core.Binding, type]
#: the bindings of the fields of a value, as one of a class
Fields = dict[Test, tuple[core.Binding, ...]]


def decisions(
    rows: Sequence[tuple[Sequence[Test], core.Core]], fields: Fields, subject: core.Place, at: core.Place
) -> core.Core:
    """The expression of the first row whose tests hold, each value being tested once on each path.

    A row whose pattern takes any tested value stands in each branch of the test.
    """
    tests, body = rows[0]
    if not tests:
        return body
    value, _ = tests[0]

    def where(cls: type) -> list[tuple[Sequence[Test], core.Core]]:
        """The rows that a value of the class may reach, without their test of it."""
        kept = [(row, e) for row, e in rows if all(c is cls for v, c in row if v is value)]
        return [([test for test in row if test[0] is not value], e) for row, e in kept]

    classes = dict.fromkeys(c for row, _ in rows for v, c in row if v is value)
    cases = [core.Case(c, fields[value, c], decisions(where(c), fields, subject, at)) for c in classes]
    others = [(row, e) for row, e in rows if all(v is not value for v, _ in row)]
    orelse = decisions(others, fields, subject, at) if others else None
    return core.Match(core.Ref(value, subject), tuple(cases), orelse, at)
