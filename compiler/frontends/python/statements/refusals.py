"""Statements that the language has not, with the statement to write in their place."""

from __future__ import annotations

import ast
from typing import NoReturn

from retrograd.compiler.frontends.python.diagnostics import Errors

#: hints for statements that the language does not have
INSTEAD_OF_STATEMENT: dict[type[ast.AST], str] = {
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


def refuse_statement(errors: Errors, node: ast.stmt) -> NoReturn:
    """Raise RG0701 for a statement without a lowering."""
    if isinstance(node, ast.Return):
        hint = "Remove it: every argument comes back, changed or not."
        errors.fail("RG0701", "a reversible function returns its arguments, and nothing else", node, hint)
    text = ast.unparse(node).partition("\n")[0]
    errors.fail("RG0701", f"`{text[:50]}` is no statement of the language", node, INSTEAD_OF_STATEMENT.get(type(node)))
