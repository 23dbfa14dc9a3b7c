"""`with rg.external()`: statements for the host, which machines skip."""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from retrograd.compiler.frontends.builder import HostBlock, IRBuilder, Scope
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Address, RunLength
from retrograd.compiler.ir.statements import External, Operand
from retrograd.compiler.language.values import ArrayView, Constant, Scalar, StackValue, StructValue, Value


class PythonBlock:
    """Python statements of a function, to be executed with other values for some of their names."""

    def __init__(self, function: SourceFunction, body: list[ast.stmt]) -> None:
        self._function, self._body = function, body

    @cached_property
    def _code(self) -> CodeType:
        source = self._function.source
        # Line numbers are moved on a copy: the function's own tree keeps its own.
        module = ast.Module([ast.increment_lineno(s, source.line) for s in deepcopy(self._body)], [])
        return compile(module, source.file, "exec")

    def __call__(self, names: dict[str, Any]) -> None:
        """Execute the statements. Raises their exceptions."""
        exec(self._code, self._function.globals(), names)


@dataclass(eq=False)
class HostBlocks:
    """Lowers blocks for the host to marks in the program."""

    errors: Errors
    function: SourceFunction
    builder: IRBuilder
    scope: Scope

    def lower(self, node: ast.With) -> None:
        for statement in node.body:
            self._require_inside(statement, False)
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and n.id in self.scope.names:
                message = f"`{n.id}` cannot be changed by the host, which does not run backward"
                hint = f"The host sees a copy of `{n.id}`: choose another name, or move the statement out."
                self.errors.fail("RG0709", message, n, hint)
        t = self.builder.temporaries()
        operands: list[Operand] = []

        def watch(value: Value) -> None:
            """Add the operands from which the host computes the value."""
            match value:
                case ArrayView(shape=shape, address=at):
                    operands.append(t.location(at))
                    for n in shape:
                        if isinstance(n, RunLength):
                            t.require(n.checks)
                            operands.append(t.operand(n.e))
                case Scalar(_, Address() as at) | StackValue(address=at):
                    operands.append(t.location(at))
                case Scalar(e):
                    operands.append(t.operand(e))
                case StructValue(_, fields):
                    for inner in fields.values():
                        watch(inner)
                case _:
                    pass

        visible = Constant | Scalar | ArrayView | StructValue
        watched = {n: v for n, v in self.scope.names.items() if n in used and isinstance(v, visible)}
        for value in watched.values():
            watch(value)
        span = self.errors.span(node)
        number = self.builder.module.host_block(HostBlock(PythonBlock(self.function, node.body), watched, span.file))
        self.builder.emit(t.wrap((External(number, span, tuple(operands)),)))

    def _require_inside(self, node: ast.AST, loop: bool) -> None:
        """Refuse a statement that would leave the block. `loop`: a loop within the block is around the statement."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                return  # its `return` leaves the function, and not the block
            case (
                ast.Return()
                | ast.Yield()
                | ast.YieldFrom()
                | ast.Await()
                | ast.AsyncFor()
                | ast.AsyncWith()
                | ast.Nonlocal()
            ):
                leaves = True
            case ast.Break() | ast.Continue():
                leaves = not loop
            case _:
                leaves = False
        if leaves:
            hint = "The block is run from its beginning to its end, and the reversible function goes on behind it."
            self.errors.fail("RG0701", f"`{shortened(node)}` would leave a block for the host", node, hint)
        own = node.body if isinstance(node, ast.For | ast.While) else []
        for inner in ast.iter_child_nodes(node):
            self._require_inside(inner, loop or inner in own)
