"""Statements → reversible IR: one function, for given types and shapes.

Every statement becomes IR whose inverse is known; what cannot be undone is refused here, with the place in the user's source.
What the compiler cannot decide (whether two indices are equal, whether an ancilla has come back to zero) becomes a test in the
program, which says the same when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NoReturn

from retrograd.compiler.frontends.python.evaluate import INSTEAD_OF_EXPRESSION, OPERATORS
from retrograd.compiler.frontends.python.routines import Routines
from retrograd.compiler.frontends.python.sources.source import NOTHING, InnerFunction
from retrograd.compiler.ir.expressions import E
from retrograd.compiler.ir.statements import Block
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.values import ArrayView, Constant, FunctionValue, Lazy, RoutineValue, Value, describe
from retrograd.isa.diagnostics import nearest

#: what to write in place of a statement that the language has not
_INSTEAD: dict[type[ast.AST], str] = {
    ast.Import: "Import at the top of the file.",
    ast.ImportFrom: "Import at the top of the file.",
    ast.Try: "Test with an `if` before; what goes wrong nevertheless stops the machine, which can run back from there.",
    ast.Raise: "write `assert condition`, which is checked in both directions",
    ast.Break: "A loop ends by its condition: `while (before, after):`.",
    ast.Continue: "Put the rest of the body into an `if`.",
    ast.Global: "Pass the variable as an argument.",
    ast.Nonlocal: "Pass the variable as an argument.",
    ast.Assign: "Make one variable in a statement.",
    ast.AnnAssign: "Give it a value: `name: fixed = 0.0`.",
    ast.ClassDef: "Define the class outside, with @rg.struct.",
    ast.Match: "write `if` and `elif`",
    ast.Yield: "Every argument comes back, changed or not: change an argument.",
    ast.YieldFrom: "Every argument comes back, changed or not: change an argument.",
    ast.Await: "A reversible function waits for nothing.",
}


class Elaborator(Routines):
    """Compiles the body of one function."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def body(self) -> Block:
        """The IR of the whole function."""
        tree = self.function.tree
        with self.block() as inner:
            self.statements(tree.body)
        return tuple(inner)

    def statement(self, node: ast.stmt) -> None:
        self.node = node
        match node:
            case ast.Pass():
                pass
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Expr(value=value):
                self._expression_statement(value)
            case ast.AugAssign(target=target, op=op, value=value):
                self._update(target, op, value, node)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value, None)
            case ast.AnnAssign(target=ast.Name() as target, annotation=annotation, value=value) if value is not None:
                self._assign(target, value, annotation)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._delete(target)
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.With():
                self._with(node)
            case ast.Assert(test=test):
                self._assert(test)
            case ast.FunctionDef():
                self._inner_function(node)
            case ast.Return():
                hint = "Remove it: every argument comes back, changed or not."
                self.fail("RG0701", "a reversible function returns its arguments, and nothing else", node, hint)
            case _:
                text = ast.unparse(node).partition("\n")[0]
                self.fail("RG0701", f"`{text[:50]}` is no statement of the language", node, _INSTEAD.get(type(node)))

    def _inner_function(self, node: ast.FunctionDef) -> None:
        if node.name in self.names:
            self.fail("RG0706", f"`{node.name}` is a variable already", node)
        constants: dict[str, Any] = {}
        for name, value in self.names.items():
            if isinstance(value, Constant):
                constants[name] = value.value
            elif isinstance(value, FunctionValue):
                constants[name] = value.function
        inner = InnerFunction(node, self.function, constants, self.static)
        constants[node.name] = inner
        self.names[node.name] = FunctionValue(inner)

    def _expression_statement(self, node: ast.expr) -> None:
        backward = False
        call = node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            if isinstance(node.operand, ast.Name):
                name = node.operand.id
                found = self.names.get(name)
                if isinstance(found, RoutineValue) or name in self.finished:
                    self._uncompute(name, node)
                    return
            call, backward = node.operand, True
        if not isinstance(call, ast.Call):
            self._useless(node)
        if isinstance(call.func, ast.Name) and call.func.id in self.finished and call.func.id not in self.names:
            self._recompute(call.func.id, node)
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr == "each":
            f = self.value(call.func.value)
            if isinstance(f, FunctionValue):
                self._each(f, backward, call)
                return
        f = self.value(call.func)
        if isinstance(f, FunctionValue):
            self.module.call(self, f.function, f.backward != backward, self._call_arguments(f, call), call)
            return
        if isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.STATEMENT:
            self._bijection(f.value.__name__, call, backward)
            return
        if isinstance(f, Constant) and f.value is print:
            hint = f"with rg.external():\n           {shortened(node)}"
            self.fail("RG0701", "`print` is for the host, and stands in a block that machines skip", node, hint)
        self.value(call)  # says what is wrong with it, if anything
        self.fail("RG0701", f"nothing takes the value of `{shortened(node)}`", node, f"write `y += {shortened(node)}`")

    def _useless(self, node: ast.expr) -> NoReturn:
        """Refuse an expression that stands alone."""
        hint: str | None
        match node:
            case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name) as operand):
                if name in self.freed:
                    line = self.freed[name].line
                    self.fail(
                        "RG0711", f"`{name}` was uncomputed in line {line} already", node, "Remove one of the two."
                    )
                found = self.value(operand)
                hint = "`~r` uncomputes the routine r, and `~f(x)` calls the inverse of f"
                self.fail("RG0701", f"`{name}` is {describe(found)}, and cannot be uncomputed", node, hint)
            case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]):
                hint = f"write `assert {shortened(node)}` to claim it, or `{shortened(left)} += {shortened(right)}` to change {shortened(left)}"
            case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
                hint = f"write `{shortened(left)} {OPERATORS[type(op)]}= {shortened(right)}`"
            case _:
                hint = _INSTEAD.get(type(node)) or INSTEAD_OF_EXPRESSION.get(type(node))
        self.fail("RG0701", f"nothing takes the value of `{shortened(node)}`", node, hint)

    def _call_arguments(self, f: FunctionValue, call: ast.Call) -> dict[str, tuple[Value, ast.AST]]:
        """Parameter name -> argument."""
        function = f.function
        names = [p.name for p in function.parameters]
        found: dict[str, tuple[Value, ast.AST]] = {}
        positional: list[tuple[Value, ast.AST]] = (
            [] if f.receiver is None else [(f.receiver, getattr(call.func, "value", call.func))]
        )
        for a in call.args:
            if isinstance(a, ast.Starred):
                self.fail(
                    "RG0701", "`*` in a call is not in the language", a, "Pass each argument, or the array as one."
                )
            positional.append((self.value(a), a))
        of = f"It is declared as {function.signature}."
        called = f"`{function.__name__}`"
        if len(positional) > len(names):
            count = f"{len(names)} argument{'s' * (len(names) != 1)}"
            self.fail(
                "RG0715", f"{called} takes {count}, and is given {len(positional)}", positional[len(names)][1], of
            )
        for name, given in zip(names, positional, strict=False):
            found[name] = given
        for k in call.keywords:
            if k.arg not in names:
                if k.arg is None:
                    self.fail("RG0701", "`**` in a call is not in the language", k.value, "Name each argument.")
                self.fail("RG0715", f"{called} has no parameter `{k.arg}`", k, nearest(k.arg, names) or of)
            if k.arg in found:
                self.fail("RG0715", f"`{k.arg}` of {called} is given twice, by position and by name", k)
            found[k.arg] = (self.value(k.value), k.value)
        for p in function.parameters:
            if p.name not in found:
                if p.default is NOTHING:
                    self.fail("RG0715", f"{called} is called without `{p.name}`", call, of)
                self.captures.contents(p.default)
                found[p.name] = (self.wrap(p.default), call)
        return {name: found[name] for name in names}

    def _each(self, f: FunctionValue, backward: bool, call: ast.Call) -> None:
        """`f.each(xs, ys, c)`: f on the elements of the first axis; scalars are passed to every call."""
        arguments = self._call_arguments(f, call)
        lengths = {v.shape[0] for v, _ in arguments.values() if isinstance(v, ArrayView | Lazy) and v.shape}
        if len(lengths) != 1:
            self.fail("RG0712", f"`{shortened(call)}` goes through arrays of the lengths {sorted(lengths)}", call)
        (length,) = lengths
        flip = f.backward != backward

        def one(index: tuple[E, ...]) -> None:
            inner = {
                name: (self.first_axis(v, index[0]) if isinstance(v, ArrayView | Lazy) and v.shape else v, where)
                for name, (v, where) in arguments.items()
            }
            self.module.call(self, f.function, flip, inner, call)

        self._over((length,), one)

    def _bijection(self, name: str, call: ast.Call, backward: bool) -> None:
        if call.keywords:
            self.fail("RG0715", f"rg.{name} takes no keywords", call)
        counts = {
            "rot": 3,
            "irot": 3,
            "neg": 1,
            "flip": 1,
            "swap": 2,
            "cswap": 3,
            "rol": 2,
            "ror": 2,
            "push": 2,
            "pop": 2,
            "free": 2,
            "erase": 1,
        }
        if len(call.args) != counts[name]:
            self.fail(
                "RG0715",
                f"rg.{name} takes {counts[name]} argument{'s' * (counts[name] != 1)}, not {len(call.args)}",
                call,
            )
        if backward:
            inverses = {"rot": "irot", "irot": "rot", "rol": "ror", "ror": "rol", "push": "pop", "pop": "push"}
            if name in ("free", "erase"):
                self.fail("RG0701", f"~rg.{name} is no statement", call)
            name = inverses.get(name, name)
        args = call.args
        match name:
            case "swap":
                self._swap(args[0], args[1])
            case "push" | "pop":
                self._push(name, args, call)
            case "free":
                self._free(args, call)
            case "neg" | "flip":
                self._elementwise(name, self.place(args[0]), call)
            case "erase":
                self._elementwise(name, self.place(args[0]), call)
            case "rot" | "irot":
                x, y = self.place(args[0]), self.place(args[1])
                angle = self.value(args[2])
                self._rotate(name, x, y, angle, call)
            case "cswap":
                self._cswap(args, call)
            case "rol" | "ror":
                self._roll(name, args, call)
