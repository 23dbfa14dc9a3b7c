"""Tree pattern matching: a tree against a pattern, which is a tree whose inputs stand for any trees.

    match(place("x") + place("y"), (a * b) + c)  =  {"x": a * b, "y": c}

Nodes are interned, so a name that occurs twice in the pattern must match one object twice.
"""

from __future__ import annotations

from functools import cache

from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.expr import Expr, const, high_word, place
from retrograd.isa.words import Format

#: operation -> the pattern of the test that the sum x + y, or the difference x − y, fits its word
FITTING = {
    name: operator.fits(Format(), place("x"), place("y"))
    for name, operator in UPDATE_OPERATORS.items()
    if operator.fits is not None
}


def match(pattern: Expr, tree: Expr) -> dict[str, Expr] | None:
    """name -> tree for every input of the pattern, or None where the tree has another form."""
    found: dict[str, Expr] = {}
    seen: set[tuple[Expr, Expr]] = set()
    waiting = [(pattern, tree)]
    while waiting:
        pair = p, t = waiting.pop()
        if p.op == "input":
            if found.setdefault(str(p.param), t) is not t:
                return None
        elif pair not in seen:
            if p.op != t.op or p.param != t.param:
                return None
            seen.add(pair)
            waiting.extend(zip(p.args, t.args, strict=True))
    return found


@cache
def is_truth(tree: Expr) -> bool:
    """Whether the operations of the tree show that its word is 0 or 1."""
    match tree.op:
        case "eq" | "lt" | "ltu":
            return True
        case "and" | "or":
            return all(map(is_truth, tree.args))
        case "select":
            return all(map(is_truth, tree.args[1:]))
    return False


@cache
def sum_tested_by(tree: Expr) -> Expr | None:
    """The sum or difference for which the tree tests that it fits; None where the tree is no such test."""
    for operation, pattern in FITTING.items():
        found = match(pattern, tree)
        if found is not None:
            return Expr(operation, (found["x"], found["y"]))
    return None


def product_tested_by(tree: Expr, w: Format) -> Expr | None:
    """The product for which the tree tests that it fits its word, high = low >> W − 1; None where the tree is no such test."""
    low = _tested_word(tree, w, ("mulshift", "mulround"))
    return low if low is not None and low.param and tree.args[0] is high_word(low, w) else None


def quotient_tested_by(tree: Expr, w: Format) -> Expr | None:
    """The rounded quotient for which the tree tests that it fits its word; None where the tree is no such test."""
    low = _tested_word(tree, w, ("divround",))
    if low is None or not isinstance(low.param, int):
        return None
    return low if tree.args[0] is Expr("divround", low.args, low.param - w.width) else None


def _tested_word(tree: Expr, w: Format, operations: tuple[str, ...]) -> Expr | None:
    """The word of an operation with whose sign, in all bits, the tree compares another."""
    if tree.op != "eq":
        return None
    sign = tree.args[1]
    if sign.op != "sar" or sign.args[1] is not const(w.width - 1):
        return None
    low = sign.args[0]
    return low if low.op in operations and isinstance(low.param, int) and 0 <= low.param < w.width else None
