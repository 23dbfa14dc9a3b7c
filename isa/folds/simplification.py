"""Algebraic simplification of trees: an equal tree with fewer signs, zeros and choices.

    x + 0, x − 0, x << 0, −−x  →  x         x ± −y                       →  x ∓ y
    0 · x, 0 / x, 0 << x       →  0         (x if c else y) ± (z if c else u)  →  x ± z if c else y ± u
    x if c else x              →  x         −(x if c else y)             →  −x if c else −y

Correct because words wrap: −x is 0 − x mod 2^W, and each rule holds mod 2^W. 0 / 0 is 0 by definition.
Trap: other code recognises trees by their form, such as instruction selection, so only trees that are built from parts are
simplified, and never the tree of an instruction's function.
"""

from __future__ import annotations

from retrograd.isa.expr import ZERO, Expr, Parameter, fold, select


def simplify(root: Expr) -> Expr:
    """The simplified tree."""
    return fold(root, lambda node, args: simplified(node.op, tuple(args), node.param))


def negated(x: Expr) -> Expr | None:
    """−x where it can be written without a sign, else None."""
    if x is ZERO:
        return ZERO
    if x.op == "sub" and x.args[0] is ZERO:
        return x.args[1]
    if x.op == "select":
        then, otherwise = map(negated, x.args[1:])
        return None if then is None or otherwise is None else select(x.args[0], then, otherwise)
    return None


def simplified(op: str, args: tuple[Expr, ...], param: Parameter = None) -> Expr:
    """The node of this operation on simplified operands."""
    match op, args:
        case "add", (x, y):
            return _sum(x, y)
        case "sub", (x, y):
            return _difference(x, y)
        case (("shl" | "sar"), (x, y)) if ZERO in args:
            return x
        case (("divshift" | "divround"), (x, _)) if x is ZERO:
            return ZERO
        case (("mulshift" | "mulround"), _) if ZERO in args:
            return ZERO
        case "select", (_, x, y) if x is y:
            return x
    return Expr(op, args, param)


def _sum(x: Expr, y: Expr) -> Expr:
    if x is ZERO or y is ZERO:
        return y if x is ZERO else x
    if _one_choice(x, y):
        return select(x.args[0], _sum(x.args[1], y.args[1]), _sum(x.args[2], y.args[2]))
    minus = negated(y)
    return x + y if minus is None else x - minus


def _difference(x: Expr, y: Expr) -> Expr:
    if y is ZERO:
        return x
    minus = negated(y)
    if x is ZERO and minus is not None:
        return minus
    if x is ZERO and y.op == "select":
        return select(y.args[0], _difference(ZERO, y.args[1]), _difference(ZERO, y.args[2]))
    if _one_choice(x, y):
        return select(x.args[0], _difference(x.args[1], y.args[1]), _difference(x.args[2], y.args[2]))
    return x - y if minus is None else _sum(x, minus)


def _one_choice(x: Expr, y: Expr) -> bool:
    """Both are choices by one condition."""
    return x.op == y.op == "select" and x.args[0] is y.args[0]
