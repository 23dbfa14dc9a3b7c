"""Pieces of syntax as text, for messages."""

from __future__ import annotations

import ast

from retrograd.compiler.language.values import Condition
from retrograd.isa.diagnostics import Span


def condition(node: ast.expr, span: Span) -> Condition:
    """A condition with the texts of its sides: `>` and `<=` exchange the operands of their test."""
    sides: tuple[ast.expr, ...] = ()
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        x, y = node.left, node.comparators[0]
        match node.ops[0]:
            case ast.Lt() | ast.GtE() | ast.Eq() | ast.NotEq():
                sides = x, y
            case ast.Gt() | ast.LtE():
                sides = y, x
            case _:
                pass
    texts = [None if isinstance(side, ast.Constant) else shortened(side) for side in sides]
    return Condition(shortened(node), span, (texts[0], texts[1]) if texts else (None, None))


def shortened(node: ast.AST) -> str:
    """A piece of syntax as text of at most 50 characters; of several lines, the first. A value in its place has the text `of` that syntax."""
    text, _, more = ast.unparse(getattr(node, "of", node)).partition("\n")
    text += " …" * bool(more)
    return text if len(text) <= 50 else text[:47] + "…"
