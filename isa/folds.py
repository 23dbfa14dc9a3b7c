"""Algebraic simplification of trees: an equal tree with fewer signs, zeros and choices.

    x + 0, x − 0, x << 0, −−x  →  x         x ± −y                       →  x ∓ y
    0 · x, 0 / x, 0 << x       →  0         (x if c else y) ± (z if c else u)  →  x ± z if c else y ± u
    x if c else x              →  x         −(x if c else y)             →  −x if c else −y
    (x + y) − y, (x − y) + y   →  x         (x if c else y) if c else z  →  x if c else z
    x − x                      →  0         y − (y − x)                  →  x

    the test that (x + y) − y fits  →  the test that x + y fits        the test that (x − y) + y fits  →  the test that x − y fits

Correct because words wrap: −x is 0 − x mod 2^W, and each rule holds mod 2^W. 0 / 0 is 0 by definition.
Trap: other code, such as instruction selection, recognises trees by their form. Only trees that are built from parts are therefore
simplified, never the tree of an instruction's function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.expr import ZERO, Expr, Parameter, const, fold, half, high_word, match, nodes, place, select
from retrograd.isa.points import whole
from retrograd.isa.words import Format


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
        elif "imm" in node.inputs and (shifted := whole(node)) is not None:
            # Simplified part by part it would have another form, of which no instruction is the pattern.
            done[node] = shifted.on(node, tuple(done[x] for x in shifted.operands))
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
    """x − y, simplified if x is a sum with y, or y is a difference from x."""
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
    """Whether both are choices by the same condition."""
    return x.op == y.op == "select" and x.args[0] is y.args[0]


# -----------------------------------------------------------------------------
# Forms of trees.

#: operation -> the pattern of the test that the sum x + y, or the difference x − y, fits its word
FITTING = {
    name: operator.fits(Format(), place("x"), place("y"))
    for name, operator in UPDATE_OPERATORS.items()
    if operator.fits is not None
}


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
    """The word of the operation whose sign, repeated in all bits, the tree compares with another word."""
    if tree.op != "eq":
        return None
    sign = tree.args[1]
    if sign.op != "sar" or sign.args[1] is not const(w.width - 1):
        return None
    low = sign.args[0]
    return low if low.op in operations and isinstance(low.param, int) and 0 <= low.param < w.width else None


# -----------------------------------------------------------------------------
# Fold: the expression tree as Python source, for the machines that run in plain Python ints.
#
# Words are held as ints in [0, 2^W); every emitted expression keeps them there.

#: nesting that Python's own parser takes without complaint, with room to spare
_MAX_DEPTH = 24


def emit(roots: Sequence[Expr], w: Format, names: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(statements, one expression per root): Python source that computes the trees.

    `names` gives the Python variable that holds each input's word; `isqrt` must be in scope. Nodes used more
    than once become assignments, so shared subexpressions cost once. All nodes are total: nothing raises.
    """
    uses = Counter(arg for node in nodes(*roots) for arg in node.args)
    statements: list[str] = []
    source: dict[Expr, str] = {}
    depth: dict[Expr, int] = {}
    for node in nodes(*roots):
        text = _operation(node, [source[arg] for arg in node.args], w, names)
        depth[node] = 1 + max((depth[arg] for arg in node.args), default=0)
        if (uses[node] > 1 or depth[node] > _MAX_DEPTH) and node.op not in ("const", "input"):
            depth[node] = 0
            name = f"t{len(statements)}"
            statements.append(f"{name} = {text}")
            text = name
        source[node] = text
    return statements, [source[root] for root in roots]


def _operation(node: Expr, v: list[str], w: Format, names: Mapping[str, str]) -> str:
    mask, sign = w.mask, w.sign
    s = node.param if isinstance(node.param, int) else 0

    def signed(text: str) -> str:
        return f"(({text} ^ {sign}) - {sign})"

    def amount(text: str) -> str:
        return str(int(text) % w.width) if text.isdecimal() else f"({text} & {w.width - 1})"

    match node.op:
        case "const":
            return str(s & mask)
        case "input":
            return names[str(node.param)]
        case "add":
            return f"(({v[0]} + {v[1]}) & {mask})"
        case "sub":
            return f"(({v[0]} - {v[1]}) & {mask})"
        case "and":
            return f"({v[0]} & {v[1]})"
        case "or":
            return f"({v[0]} | {v[1]})"
        case "xor":
            return f"({v[0]} ^ {v[1]})"
        case "shl":
            return f"(({v[0]} << {amount(v[1])}) & {mask})"
        case "shr":
            return f"({v[0]} >> {amount(v[1])})"
        case "sar":
            return f"(({signed(v[0])} >> {amount(v[1])}) & {mask})"
        case "eq":
            return f"(1 if {v[0]} == {v[1]} else 0)"
        case "lt":
            return f"(1 if ({v[0]} ^ {sign}) < ({v[1]} ^ {sign}) else 0)"
        case "ltu":
            return f"(1 if {v[0]} < {v[1]} else 0)"
        case "select":
            return f"({v[1]} if {v[0]} else {v[2]})"
        case "mulshift" if s == 0:
            return f"(({v[0]} * {v[1]}) & {mask})"
        case "mulshift":
            return f"(({signed(v[0])} * {signed(v[1])} >> {s}) & {mask})"
        case "divshift":
            top = f"({signed(v[0])} << {s})" if s > 0 else signed(v[0])
            bottom = f"({signed(v[1])} << {-s})" if s < 0 else signed(v[1])
            return f"(({top} // {bottom}) & {mask} if {v[1]} else 0)"
        case "mulround":
            return f"((({signed(v[0])} * {signed(v[1])} + {half(s, w)}) >> {s}) & {mask})"
        case "divround":
            places = s % w.width
            twice = f"({signed(v[0])} << {places + 1}) // {signed(v[1])}"
            return f"(({twice} + 1 >> {1 + places - s}) & {mask} if {v[1]} else 0)"
        case "sqrtround":
            return f"(0 if {v[0]} & {sign} else (isqrt({v[0]} << {s + 2}) + 1 >> 1) & {mask})"
        case "table" if isinstance(node.param, tuple):
            # A tuple of constants is a constant to Python's compiler: no table is built at run time.
            entries = "".join(f"{entry & mask}," for entry in node.param)
            return f"({entries})[{v[0]} & {len(node.param) - 1}]"
    raise ValueError(f"no Python source for operation {node.op!r}")
