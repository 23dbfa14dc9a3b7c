"""Expressions as statements: calls of reversible functions and of intrinsics, and their inverses `~f(x)`; `~r` and `r()` of routines."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from retrograd.compiler.frontends.builder import Scope
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.indexing import Indexing
from retrograd.compiler.frontends.python.expressions.lowering import INSTEAD_OF_EXPRESSION, ExpressionLowering
from retrograd.compiler.frontends.python.expressions.operators import OPERATORS
from retrograd.compiler.frontends.python.statements.assignments import Assignments
from retrograd.compiler.frontends.python.statements.bijections import Bijections
from retrograd.compiler.frontends.python.statements.calls import Calls
from retrograd.compiler.frontends.python.statements.refusals import INSTEAD_OF_STATEMENT
from retrograd.compiler.frontends.python.statements.routines import Routines
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.values import Constant, FunctionValue, RoutineValue, describe

#: intrinsic that is not its own inverse → its inverse, or None
_INVERSES = {"rot": "irot", "irot": "rot", "rol": "ror", "ror": "rol", "push": "pop", "pop": "push"} | dict.fromkeys(
    ("free", "erase")
)


@dataclass(eq=False)
class ExpressionStatements:
    """Lowers expressions that stand alone."""

    errors: Errors
    expressions: ExpressionLowering
    scope: Scope
    indexing: Indexing
    calls: Calls
    bijections: Bijections
    assignments: Assignments
    routines: Routines

    def __post_init__(self) -> None:
        bijections = self.bijections
        #: intrinsic → (number of arguments, lowering)
        self._intrinsics: dict[str, tuple[int, Callable[[str, ast.Call], None]]] = {
            "rot": (3, bijections.rotate),
            "irot": (3, bijections.rotate),
            "neg": (1, bijections.change),
            "flip": (1, bijections.change),
            "erase": (1, bijections.change),
            "swap": (2, bijections.swap),
            "cswap": (3, bijections.swap_if),
            "rol": (2, bijections.roll),
            "ror": (2, bijections.roll),
            "push": (2, bijections.push),
            "pop": (2, bijections.push),
            "free": (2, self.assignments.free),
        }

    def lower(self, statement: ast.Expr) -> None:
        node = statement.value
        if isinstance(node, ast.Constant):
            return  # a docstring
        backward = False
        call = node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            if isinstance(node.operand, ast.Name):
                name = node.operand.id
                if isinstance(self.scope.names.get(name), RoutineValue) or self.routines.is_finished(name):
                    self.routines.uncompute(name, node)
                    return
            call, backward = node.operand, True
        if not isinstance(call, ast.Call):
            self._refuse_useless(node)
        callee = call.func
        if isinstance(callee, ast.Name) and self.routines.is_finished(callee.id) and callee.id not in self.scope.names:
            if call.args or call.keywords:
                message = f"the routine `{callee.id}` takes no arguments"
                self.errors.fail(
                    "RG0715", message, call, f"write `{callee.id}()`; the routine reads the variables around it"
                )
            self.routines.recompute(callee.id, node)
            return
        if isinstance(callee, ast.Attribute) and callee.attr == "each":
            f = self.expressions.value(callee.value)
            if isinstance(f, FunctionValue):
                self.calls.each(f, backward, call)
                return
        chosen = self.indexing.chosen_function(callee)
        if chosen is not None:
            self.calls.chosen(*chosen, backward, call)
            return
        f = self.expressions.value(callee)
        if isinstance(f, FunctionValue):
            self.calls.lower(f, backward, call)
            return
        if isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.STATEMENT:
            self._intrinsic(f.value.__name__, call, backward)
            return
        if isinstance(f, Constant) and f.value is print:
            hint = f"with rg.external():\n           {shortened(node)}"
            self.errors.fail("RG0701", "`print` is for the host, and stands in a block that machines skip", node, hint)
        self.expressions.value(call)  # refuses a call that has no value either
        text = shortened(node)
        self.errors.fail("RG0701", f"nothing takes the value of `{text}`", node, f"write `y += {text}`")

    def _intrinsic(self, name: str, call: ast.Call, backward: bool) -> None:
        if call.keywords:
            self.errors.fail("RG0715", f"rg.{name} takes no keywords", call)
        count, _ = self._intrinsics[name]
        if len(call.args) != count:
            message = f"rg.{name} takes {count} argument{'s' * (count != 1)}, not {len(call.args)}"
            if name == "pop" and len(call.args) == 1:
                self.errors.fail(
                    "RG0715", message, call, f"write `x = rg.pop({shortened(call.args[0])})`, with a new name"
                )
            hint = None
            if name == "free" and len(call.args) == 1:
                x = ast.unparse(call.args[0])
                hint = f"Write `rg.free({x}, e)` with the value e that it holds, or `del {x}` where the compiler can compute it."
            self.errors.fail("RG0715", message, call, hint)
        done = _INVERSES.get(name, name) if backward else name
        if done is None:
            self.errors.fail("RG0701", f"~rg.{name} is no statement", call)
        self._intrinsics[done][1](done, call)

    def _refuse_useless(self, node: ast.expr) -> NoReturn:
        """Raise RG0701 for an expression whose value nothing takes."""
        hint: str | None
        match node:
            case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name) as operand):
                if name in self.scope.freed:
                    message = f"`{name}` was uncomputed in line {self.scope.freed[name].line} already"
                    self.errors.fail("RG0711", message, node, "Remove one of the two.")
                found = self.expressions.value(operand)
                hint = "`~r` uncomputes the routine r, and `~f(x)` calls the inverse of f"
                self.errors.fail("RG0701", f"`{name}` is {describe(found)}, and cannot be uncomputed", node, hint)
            case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]):
                hint = f"write `assert {shortened(node)}` to claim it, or `{shortened(left)} += {shortened(right)}` to change {shortened(left)}"
            case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
                hint = f"write `{shortened(left)} {OPERATORS[type(op)]}= {shortened(right)}`"
            case _:
                hint = INSTEAD_OF_STATEMENT.get(type(node)) or INSTEAD_OF_EXPRESSION.get(type(node))
        self.errors.fail("RG0701", f"nothing takes the value of `{shortened(node)}`", node, hint)
