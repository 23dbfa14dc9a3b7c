"""What a comparison compares, for messages of tests that fail when the program runs."""

from __future__ import annotations

import ast

from retrograd.compiler.ir.statements import Const, Operand


def sides(node: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """The operands a, b of the test that a comparison becomes, or None: `>` and `<=` exchange them."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    x, y = node.left, node.comparators[0]
    match node.ops[0]:
        case ast.Lt() | ast.GtE() | ast.Eq() | ast.NotEq():
            return x, y
        case ast.Gt() | ast.LtE():
            return y, x
    return None


def blanks(node: ast.AST | None, a: Operand, b: Operand) -> str:
    """`: x is {a}, y is {b}` for a comparison whose operands are a and b; nothing for constants, or anything else."""
    found = sides(node)
    if found is None:
        return ""
    known = [
        f"`{shortened(side)}` is {blank}"
        for side, operand, blank in ((found[0], a, "{a}"), (found[1], b, "{b}"))
        if not isinstance(operand, Const) and not isinstance(side, ast.Constant)
    ]
    return f": {', '.join(known)}" if known else ""


def shortened(node: ast.AST) -> str:
    """A piece of syntax as text, for messages."""
    text = ast.unparse(node)
    return text if len(text) <= 50 else text[:47] + "…"
