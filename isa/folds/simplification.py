"""Algebraic simplification of trees: an equal tree with fewer signs, zeros and choices.

    x + 0, x − 0, x << 0, −−x  →  x         x ± −y                       →  x ∓ y
    0 · x, 0 / x, 0 << x       →  0         (x if c else y) ± (z if c else u)  →  x ± z if c else y ± u
    x if c else x              →  x         −(x if c else y)             →  −x if c else −y
    (x + y) − y, (x − y) + y   →  x         (x if c else y) if c else z  →  x if c else z
    x − x                      →  0         y − (y − x)                  →  x

    the sign bits that show whether (x + y) − y = x fits     →  those of x + y, and of (x − y) + y = x those of x − y

Correct because words wrap: −x is 0 − x mod 2^W, and each rule holds mod 2^W. 0 / 0 is 0 by definition.
Trap: other code recognises trees by their form, such as instruction selection, so only trees that are built from parts are
simplified, and never the tree of an instruction's function.
"""

from __future__ import annotations

from collections.abc import Mapping

from retrograd.isa.expr import ZERO, Expr, Parameter, fold, nodes, select


def simplify(root: Expr) -> Expr:
    """The simplified tree."""
    return fold(root, lambda node, args: simplified(node.op, tuple(args), node.param))


def replaced(root: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """The tree with inputs replaced and then simplified. Subtrees that read none of these inputs stay unchanged, and so do the replacements."""
    done: dict[Expr, Expr] = {}
    for node in nodes(root):
        done[node] = node
        if node.op == "input":
            done[node] = replacements.get(str(node.param), node)
        elif not node.inputs.isdisjoint(replacements):
            done[node] = simplified(node.op, tuple(done[arg] for arg in node.args), node.param)
    return done[root]


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
        case "select", (c, x, y):
            return _choice(c, x, y)
        case "and", (x, y) if x.op == y.op == "xor":
            return _sign_test(x, y)
    return Expr(op, args, param)


def _sum(x: Expr, y: Expr) -> Expr:
    if x is ZERO or y is ZERO:
        return y if x is ZERO else x
    if _one_choice(x, y):
        return _choice(x.args[0], _sum(x.args[1], y.args[1]), _sum(x.args[2], y.args[2]))
    for some, other in ((x, y), (y, x)):
        if some.op == "sub" and some.args[1] is other:
            return some.args[0]
    minus = negated(y)
    return x + y if minus is None else _cancelled(x, minus)


def _difference(x: Expr, y: Expr) -> Expr:
    if y is ZERO:
        return x
    minus = negated(y)
    if x is ZERO and minus is not None:
        return minus
    if x is ZERO and y.op == "select":
        return _choice(y.args[0], _difference(ZERO, y.args[1]), _difference(ZERO, y.args[2]))
    if _one_choice(x, y):
        return _choice(x.args[0], _difference(x.args[1], y.args[1]), _difference(x.args[2], y.args[2]))
    return _cancelled(x, y) if minus is None else _sum(x, minus)


def _cancelled(x: Expr, y: Expr) -> Expr:
    """x − y, where x may be a sum with y, and y a difference from x."""
    if x is y:
        return ZERO
    if x.op == "add" and y in x.args:
        return x.args[x.args[0] is y]
    if y.op == "sub" and y.args[0] is x:
        return y.args[1]
    return x - y


def _choice(c: Expr, x: Expr, y: Expr) -> Expr:
    while x.op == "select" and x.args[0] is c:
        x = x.args[1]
    while y.op == "select" and y.args[0] is c:
        y = y.args[2]
    return x if x is y else select(c, x, y)


def _sign_test(x: Expr, y: Expr) -> Expr:
    """x & y of two exclusive ors: of a sum and its operands, or a difference and its operands, in the order of the tests that these fit."""
    for shared in x.args:
        if shared in y.args:
            one, other = x.args[x.args[0] is shared], y.args[y.args[0] is shared]
            for p, q in ((one, other), (other, one)):
                if shared is p + q:
                    return (p ^ shared) & (q ^ shared)
                if q is shared - p:
                    return (shared ^ p) & (shared ^ q)
    return x & y


def _one_choice(x: Expr, y: Expr) -> bool:
    """Both are choices by one condition."""
    return x.op == y.op == "select" and x.args[0] is y.args[0]
