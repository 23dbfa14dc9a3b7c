"""Lowering of one function, for given shapes of its arguments: statements to reversible IR.

Each statement becomes IR whose inverse is known. A statement that cannot be undone is refused, with its place in the source. A
condition that the compiler cannot decide, such as whether two indices are equal, becomes a test in the program.

The two tables, `expressions.lowerings` and `statements`, have the lowering of each kind of syntax.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from retrograd.compiler.frontends.builder import IRBuilder, ModuleBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocals
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.arguments import Arguments
from retrograd.compiler.frontends.python.expressions.calls import CallValues
from retrograd.compiler.frontends.python.expressions.foreign import Foreign, Held
from retrograd.compiler.frontends.python.expressions.function_values import FunctionValues, Specialise
from retrograd.compiler.frontends.python.expressions.indexing import Indexing
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.expressions.names import Names
from retrograd.compiler.frontends.python.expressions.operators import Operators
from retrograd.compiler.frontends.python.expressions.views import Views
from retrograd.compiler.frontends.python.source import InnerFunction, SourceFunction, free_names
from retrograd.compiler.frontends.python.statements.allocation import Allocation
from retrograd.compiler.frontends.python.statements.assignments import Assignments, changed_names
from retrograd.compiler.frontends.python.statements.bijections import Bijections
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.branches import Branches
from retrograd.compiler.frontends.python.statements.calls import Calls
from retrograd.compiler.frontends.python.statements.expression_statements import ExpressionStatements
from retrograd.compiler.frontends.python.statements.host_blocks import HostBlocks
from retrograd.compiler.frontends.python.statements.iterables import Iterables
from retrograd.compiler.frontends.python.statements.locations import Locations
from retrograd.compiler.frontends.python.statements.loops import Loops
from retrograd.compiler.frontends.python.statements.refusals import refuse_statement
from retrograd.compiler.frontends.python.statements.routines import Routines
from retrograd.compiler.frontends.python.statements.updates import Updates
from retrograd.compiler.frontends.specialisation import parameters_of
from retrograd.compiler.ir.statements import Block
from retrograd.compiler.language.types import Shape
from retrograd.compiler.language.values import Constant, FunctionValue, RoutineValue, Value


class FunctionLowering:
    """Lowers the body of one function. `recursive`: more than one activation of it may be live."""

    def __init__(
        self,
        function: SourceFunction,
        module: ModuleBuilder,
        captures: Captures,
        specialise: Specialise,
        recursive: bool,
    ) -> None:
        self.function = function
        self.errors = errors = Errors(function.source, module.constants)
        self.builder = builder = IRBuilder(module, errors.span(function.tree))
        self.scope = scope = Scope()
        owned = OwnedLocals(builder, scope, errors.fail)

        self.expressions = expressions = ExpressionLowering(captures, builder, owned, errors)
        arguments = Arguments(errors, expressions)
        self._specialise = specialise
        values = FunctionValues(errors, arguments, builder, specialise, self._value_of_lambda)
        indexing = Indexing(errors, expressions, builder)
        foreign = Foreign(errors, expressions, scope)
        names, operators = Names(errors, expressions, scope, function), Operators(errors, expressions, foreign)
        expressions.lowerings = {
            ast.Constant: lambda node: Constant(node.value),
            ast.Name: names.name,
            ast.Attribute: names.attribute,
            ast.BinOp: operators.binary,
            ast.UnaryOp: operators.unary,
            ast.BoolOp: operators.boolean,
            ast.Compare: operators.comparison,
            ast.IfExp: operators.choice,
            ast.Tuple: operators.sequence,
            ast.List: operators.sequence,
            ast.Subscript: indexing.lower,
            ast.Lambda: self._closure,
            ast.Call: CallValues(
                errors, expressions, builder, values, indexing, operators, foreign, function.__name__, recursive
            ).lower,
            ast.ListComp: foreign.comprehension,
            ast.GeneratorExp: foreign.comprehension,
            Held: lambda node: node.held,
        }

        expressions.tests = {ast.BoolOp: operators.truths}

        blocks = Blocks(errors, builder, scope, owned)
        locations = Locations(errors, expressions, builder, scope)
        updates = Updates(errors, expressions, builder, owned, locations, blocks)
        bijections = Bijections(errors, expressions, builder, owned, locations, blocks)
        changed = changed_names(function)
        allocation = Allocation(errors, expressions, builder, owned, updates, changed, function.__name__, recursive)
        assignments = Assignments(
            errors, expressions, builder, scope, owned, locations, allocation, bijections, changed
        )
        iterables = Iterables(errors, expressions, builder)
        branches = Branches(errors, expressions, builder, blocks, self.lower)
        loops = Loops(
            errors, expressions, builder, scope, blocks, iterables, assignments, self.lower, branches.lower_repeat
        )
        host_blocks = HostBlocks(errors, function, builder, scope)
        views = Views(errors, expressions, builder)
        routines = Routines(
            errors, expressions, builder, scope, owned, blocks, host_blocks, views, locations, allocation, self.lower
        )
        calls = Calls(errors, arguments, builder, views, locations, blocks, specialise)
        standalone = ExpressionStatements(
            errors, expressions, scope, indexing, calls, bijections, assignments, routines
        )
        self.statements: dict[type[ast.stmt], Callable[[Any], None]] = {
            ast.Pass: lambda _: None,
            ast.Expr: standalone.lower,
            ast.AugAssign: lambda node: None if bijections.update(node) else updates.lower(node),
            ast.Assign: assignments.lower_assign,
            ast.AnnAssign: assignments.lower_annotated,
            ast.Delete: assignments.lower_delete,
            ast.If: branches.lower_if,
            ast.While: branches.lower_while,
            ast.Assert: branches.lower_assert,
            ast.For: loops.lower,
            ast.With: routines.lower_with,
            ast.FunctionDef: self._inner_function,
            ast.Nonlocal: self._nonlocal,
        }
        self._blocks = blocks

    def body(self) -> Block:
        """The IR of the whole function. The object cannot be used again."""
        with self._blocks.block() as inner:
            self.lower(self.function.tree.body)
        self._close()
        return tuple(inner)

    def _close(self) -> None:
        """Cut the circles of references: without them all parts are freed at once, and not by the garbage collector."""
        self.statements.clear()
        self.expressions.lowerings.clear()
        self.expressions.tests.clear()
        self.builder.on_write = None

    def lower(self, statements: Sequence[ast.stmt]) -> None:
        """Emit the IR of statements in a row."""
        outer = self._blocks.following
        for k, node in enumerate(statements, start=1):
            self._blocks.following = statements[k:]
            self.builder.span = self.errors.span(node)
            lower = self.statements.get(type(node))
            if lower is None:
                refuse_statement(self.errors, node)
            lower(node)
        self._blocks.following = outer

    def _inner_function(self, node: ast.FunctionDef) -> None:
        if node.name in self.scope.names:
            self.errors.fail("RG0706", f"`{node.name}` is a variable already", node)
        self.scope.names[node.name] = self._closure(node)

    def _closure(self, node: ast.FunctionDef | ast.Lambda) -> FunctionValue:
        """An inner function: constants around it are part of it, variables around it are passed with each call."""
        used = free_names(node)
        constants: dict[str, Any] = {}
        captured: dict[str, Value] = {}
        for name, value in self.scope.names.items():
            if isinstance(value, Constant):
                constants[name] = value.value
            elif isinstance(value, FunctionValue) and value == FunctionValue(value.function):
                constants[name] = value.function
            elif name in used and not isinstance(value, RoutineValue):
                captured[name] = value
        static = self.expressions.static
        if isinstance(node, ast.Lambda):
            inner = InnerFunction.from_lambda(node, self.function, constants, tuple(captured), static)
        else:
            inner = InnerFunction(node, self.function, constants, tuple(captured), static)
            if not captured:
                constants[node.name] = inner
        inner.around = frozenset(self.scope.names)
        return FunctionValue(inner, captured=tuple(captured.items()))

    def _value_of_lambda(self, f: InnerFunction, shapes: Sequence[Shape]) -> Value:
        """The value of a lambda's expression for arguments and variables of these shapes; no statement is emitted."""
        builder = self.builder
        inner = FunctionLowering(f, builder.module, self.expressions.captures, self._specialise, False)
        names = [*(p.name for p in f.parameters[1:]), *f.captured]
        inner.scope.names.update(parameters_of(names, shapes).names)
        assert f.lambda_body is not None
        found = inner.expressions.value(f.lambda_body)
        inner._close()
        return found

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        """`nonlocal x` in an inner function, which may then change x."""
        for name in node.names:
            if name not in self.function.captured:
                self.errors.fail("RG0702", f"no variable `{name}` is at hand where this function is defined", node)
