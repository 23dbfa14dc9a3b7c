"""Fixed-point operations between numbers with binary points of their own.

A word x with p places behind its point stands for x / 2^p. The instruction's constant is the difference of the points:

    fmovp  d ⊕= ⌊a·2^imm⌉            imm = p_d − p_a,              −W < imm < W
    fmulp  d ⊕= ⌊a·b / 2^imm⌉        imm = p_a + p_b − p_d,        0 ≤ imm < 2W
    fdivp  d ⊕= ⌊a·2^imm / b⌉        imm = p_d − p_a + p_b,        0 ≤ imm ≤ W − 2
    fsqrtp d ⊕= ⌊√(a·2^(2·imm))⌉     imm = p_d − p_a / 2,          0 ≤ imm ≤ W/2 − 1

Each is rounded once, to nearest, ties up. The trees shift by the constant, so they are made of the operations that
the other
instructions have: every fold, the hardware among them, has these instructions without a part of its own. Where the
constant is known
beforehand, as in translated code, its shifts are those of `fmul`, `fdiv` and `fsqrt`.

With cotangents of words, x̄ = ∂L/∂x · 2^g for one g, the adjoint of each is made of the same four operations with the
same constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from retrograd.isa.expr import (
    ONE,
    ZERO,
    Expr,
    const,
    div_round,
    div_shift,
    evaluate,
    high_word,
    match,
    mul_round,
    mul_shift,
    nodes,
    place,
    select,
    sqrt_round,
)
from retrograd.isa.words import WIDTHS, Format

imm = place("imm")


class Shifted(NamedTuple):
    """The value of one of the operations, 1 where it fits a word, and its operands.

    The shift reads the instruction's constant. Where it is known and both trees are simpler then, `known` has them.
    """

    value: Expr
    fits: Expr
    operands: tuple[Expr, ...]
    shift: Expr
    again: Callable[..., Shifted]
    known: Callable[[tuple[Expr, ...], int], tuple[Expr, Expr] | None]

    def on(self, tree: Expr, operands: tuple[Expr, ...]) -> Expr:
        """The tree, value or test, for other operands: 0, which fits, where an operand is 0."""
        if operands == self.operands:
            return tree
        if ZERO in operands:
            return ONE if tree is self.fits else ZERO
        made = self.again(*operands)
        return made.fits if tree is self.fits else made.value


def whole(tree: Expr) -> Shifted | None:
    """The operation of which the tree is the value, or the test that it fits; None where the tree is neither.

    The parts of a value may wrap where the value does not, so a test that a tree fits must take the operation as one.
    The answer depends on the tree's form alone: a tree that was made by substitution is recognised, too.
    """
    return _whole(tree) if "imm" in tree.inputs and tree.op in _patterns() else None


@cache
def _whole(tree: Expr) -> Shifted | None:
    for pattern, operation in _patterns()[tree.op].items():
        found = match(pattern, tree)
        if found is not None:
            made = operation(found)
            # A name of the pattern stands for any tree, that of the constant for the constant alone.
            if tree is made.value or tree is made.fits:
                return made
    return None


#: what is found for the names of a pattern -> the operation on it
_Operation = Callable[[dict[str, Expr]], Shifted]


@cache
def _patterns() -> dict[str, dict[Expr, _Operation]]:
    """Operation at the root -> the patterns of values and tests with this root -> the operation on x, y and e."""
    names = {name: place(name) for name in "xye"}
    out: dict[str, dict[Expr, _Operation]] = {}
    for w in (Format(width, 0) for width in WIDTHS):
        for operation in _operations(w):
            made = operation(names)
            for tree in (made.value, made.fits):
                if tree.inputs:
                    out.setdefault(tree.op, {}).setdefault(tree, operation)
    return out


def _operations(w: Format) -> tuple[_Operation, ...]:
    return (
        lambda found: move(found["x"], w),
        lambda found: product(found["x"], found["y"], w),
        lambda found: quotient(found["x"], found["y"], w, found["e"]),
        lambda found: root(found["x"], w),
    )


def at(root: Expr, constant: int, w: Format) -> Expr:
    """The tree with the instruction's constant known: an equal tree, in which `fmul`, `fdiv` and `fsqrt` stand for the shifted operations."""
    done: dict[Expr, Expr] = {}
    for node in nodes(root):
        made = whole(node)
        if made is not None and done[made.shift].op == "const":
            shift = w.signed(evaluate(done[made.shift], w, {}))
            simpler = made.known(tuple(done[x] for x in made.operands), shift)
            if simpler is not None:
                done[node] = simpler[node is made.fits]
                continue
        args = tuple(done[arg] for arg in node.args)
        if node is imm:
            done[node] = const(constant)
        elif args and all(arg.op == "const" for arg in args):
            done[node] = const(w.signed(evaluate(Expr(node.op, args, node.param), w, {})))
        elif node.op == "select" and args[0].op == "const":
            done[node] = args[1] if evaluate(args[0], w, {}) else args[2]
        elif node.op == "or" and args[0].op == "const" and args[1].op in _RELATIONS:
            # A test of the constant, or of a word.
            done[node] = ONE if evaluate(args[0], w, {}) else args[1]
        else:
            done[node] = Expr(node.op, args, node.param) if args else node
    return done[root]


_RELATIONS = ("eq", "lt", "ltu")


def conditions(*roots: Expr) -> tuple[Expr, ...]:
    """The conditions of the trees that read the instruction's constant alone."""
    out: dict[Expr, None] = {}
    for node in nodes(*roots):
        condition = node.args[0] if node.op == "select" else node
        if condition.inputs == {"imm"} and (node.op == "select" or node.op in _RELATIONS):
            out[condition] = None
    return tuple(out)


def case(root: Expr, holds: Mapping[Expr, bool]) -> Expr:
    """The tree for all constants with which the conditions hold or not, as given: it makes no choice by them."""
    done: dict[Expr, Expr] = {}
    for node in nodes(root):
        args = tuple(done[arg] for arg in node.args)
        if node.op == "select" and node.args[0] in holds:
            done[node] = args[1] if holds[node.args[0]] else args[2]
        elif node.op in _RELATIONS and node in holds:
            done[node] = const(holds[node])
        elif node.op == "or" and args[0] is ZERO:
            done[node] = args[1]
        elif node.op == "or" and args[0] is ONE and args[1].op in _RELATIONS:
            done[node] = ONE
        else:
            done[node] = Expr(node.op, args, node.param) if args else node
    return done[root]


def _never(operands: tuple[Expr, ...], shift: int) -> None:
    return None


def move(x: Expr, w: Format) -> Shifted:
    """⌊x·2^imm⌉"""
    # −imm − 1 = ¬imm: the bit below the last place that is left.
    left = x << imm
    value = select(imm.lt(0), x.sar(-imm) + (x.sar(~imm) & 1), left)
    return Shifted(value, imm.lt(0) | left.sar(imm).eq(x), (x,), imm, lambda x: move(x, w), _never)


def product(x: Expr, y: Expr, w: Format) -> Shifted:
    """⌊x·y / 2^imm⌉, from the two words of the product."""
    low, high = mul_shift(x, y, 0), mul_shift(x, y, w.width)
    sign = w.width - 1
    beyond, by = imm & w.width, imm & sign
    # The words (upper, lower) are shifted by less than W.
    lower, upper = select(beyond, high, low), select(beyond, high.sar(sign), high)
    floor = select(by, (upper << -imm) | lower.shr(imm), lower)
    half = select(by, lower.shr(imm - 1) & 1, select(beyond, low.shr(sign), ZERO))
    value = floor + half

    def known(operands: tuple[Expr, ...], shift: int) -> tuple[Expr, Expr] | None:
        if not 0 <= shift < 2 * w.width:
            return None
        x, y = operands
        if shift > w.width:
            return mul_shift(x, y, shift) + (mul_shift(x, y, shift - 1) & 1), ONE
        near = mul_round(x, y, shift)
        return near, high_word(near, w).eq(near.sar(sign)) if shift < w.width else ONE

    fits = (upper.sar(imm) + value.ltu(half)).eq(value.sar(sign))
    return Shifted(value, fits, (x, y), imm, lambda x, y: product(x, y, w), known)


def quotient(x: Expr, y: Expr, w: Format, e: Expr = imm) -> Shifted:
    """⌊x·2^e / y⌉ = n·2^e + f: the digits n before the point, and those behind it, rounded, 0 ≤ f ≤ 2^e; 0 if y = 0."""
    n = div_shift(x, y, 0)
    rest = x - n * y
    # |rest| < |y|, so W − 1 digits of the rest's quotient are a word; one digit more than f has is kept for the
    # rounding.
    digits = div_shift(rest, y, w.width - 1).sar(const(w.width - 2) - e)
    f = (digits + 1).shr(1)
    whole = n + f.sar(e)
    # −2^(W−1) / −1 is no word.
    fits = (whole << e).sar(e).eq(whole) & (x.eq(w.sign) & y.eq(-1)).eq(0)

    def known(operands: tuple[Expr, ...], shift: int) -> tuple[Expr, Expr] | None:
        if not 0 <= shift <= w.width - 2:
            return None
        x, y = operands
        low, high = div_round(x, y, shift), div_round(x, y, shift - w.width)
        return low, high.eq(low.sar(w.width - 1))

    return Shifted((n << e) + f, fits, (x, y), e, lambda x, y: quotient(x, y, w, e), known)


def root(x: Expr, w: Format) -> Shifted:
    """⌊√(x·2^(2·imm))⌉, which always fits; 0 if x < 0"""
    # ⌊√(x·2^W)⌋ from the rounded root: that is one too large where its square is above the radicand, whose low word
    # is 0.
    r = sqrt_round(x, w.width)
    low, high = r * r, mul_shift(r, r, w.width) + select(r.lt(0), r + r, ZERO)
    floor = r - (x.ltu(high) | (high.eq(x) & low.ne(0)))

    def known(operands: tuple[Expr, ...], shift: int) -> tuple[Expr, Expr] | None:
        return (sqrt_round(operands[0], 2 * shift), ONE) if 0 <= shift < w.width // 2 else None

    value = (floor.shr(const(w.width // 2 - 1) - imm) + 1).shr(1)
    return Shifted(value, ONE, (x,), imm, lambda x: root(x, w), known)


def share_of_root(c: Expr, r: Expr, w: Format) -> Shifted:
    """⌊c·2^(2·imm) / 2r⌉: c times the derivative of the root r.

    Twice the root need not be a word, but that of an integer is.
    """
    return quotient(c, select(imm, r, r + r), w, select(imm, imm + imm - 1, ZERO))


# The constants for which the formulas hold; the verifier refuses others.


def shifts_of_moves(w: Format) -> range:
    return range(1 - w.width, w.width)


def shifts_of_products(w: Format) -> range:
    return range(2 * w.width)


def shifts_of_quotients(w: Format) -> range:
    return range(w.width - 1)


def shifts_of_roots(w: Format) -> range:
    return range(w.width // 2)
