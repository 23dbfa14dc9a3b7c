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

from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd.isa.entries import Guard, a, b, imm
from retrograd.isa.expr import (
    ONE,
    WHOLE,
    ZERO,
    Expr,
    const,
    div_round,
    div_shift,
    evaluate,
    high_word,
    mul_round,
    mul_shift,
    nodes,
    select,
    sqrt_round,
)
from retrograd.isa.words import Format


class Shifted(NamedTuple):
    """The value of one of the operations, its operands, and 1 where it fits a word; both again for a shift that is known, where that is simpler."""

    value: Expr
    operands: tuple[Expr, ...]
    fits: Expr
    shift: Expr
    known: Callable[[tuple[Expr, ...], int], tuple[Expr, Expr] | None]


#: by the value and by the test that it fits. The parts of a value may wrap where the value does not: whether a value
#: fits is looked up here first
KNOWN: dict[Expr, Shifted] = {}


def _shifted(again: Callable[..., Shifted], *parts: Any) -> Shifted:
    """`again`: the operation on other operands. It is 0 where one of these is."""
    made = Shifted(*parts)
    KNOWN[made.value] = made
    WHOLE[made.value] = made.operands, lambda *x: ZERO if ZERO in x else again(*x).value
    if made.fits is not ONE:
        KNOWN[made.fits] = made
        WHOLE[made.fits] = made.operands, lambda *x: ONE if ZERO in x else again(*x).fits
    return made


def at(root: Expr, constant: int, w: Format) -> Expr:
    """The tree with the instruction's constant known: an equal tree, in which `fmul`, `fdiv` and `fsqrt` stand for the shifted operations."""
    done: dict[Expr, Expr] = {}
    for node in nodes(root):
        made = KNOWN.get(node)
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
    return _shifted(lambda x: move(x, w), value, (x,), imm.lt(0) | left.sar(imm).eq(x), imm, _never)


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

    return _shifted(
        lambda x, y: product(x, y, w), value, (x, y), (upper.sar(imm) + value.ltu(half)).eq(value.sar(sign)), imm, known
    )


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

    return _shifted(lambda x, y: quotient(x, y, w, e), (n << e) + f, (x, y), fits, e, known)


def root(x: Expr, w: Format) -> Shifted:
    """⌊√(x·2^(2·imm))⌉, which always fits; 0 if x < 0"""
    # ⌊√(x·2^W)⌋ from the rounded root: that is one too large where its square is above the radicand, whose low word
    # is 0.
    r = sqrt_round(x, w.width)
    low, high = r * r, mul_shift(r, r, w.width) + select(r.lt(0), r + r, ZERO)
    floor = r - (x.ltu(high) | (high.eq(x) & low.ne(0)))

    def known(operands: tuple[Expr, ...], shift: int) -> tuple[Expr, Expr] | None:
        return (sqrt_round(operands[0], 2 * shift), ONE) if 0 <= shift < w.width // 2 else None

    return _shifted(lambda x: root(x, w), (floor.shr(const(w.width // 2 - 1) - imm) + 1).shr(1), (x,), ONE, imm, known)


def share_of_root(c: Expr, r: Expr, w: Format) -> Shifted:
    """⌊c·2^(2·imm) / 2r⌉: c times the derivative of the root r.

    Twice the root need not be a word, but that of an integer is.
    """
    return quotient(c, select(imm, r, r + r), w, select(imm, imm + imm - 1, ZERO))


def _overflow(fits: Expr) -> Guard:
    return Guard(fits, "RG0404", mode="overflow", culprit=a)


def move_guards(w: Format) -> tuple[Guard, ...]:
    return (_overflow(move(a, w).fits),)


def product_guards(w: Format) -> tuple[Guard, ...]:
    return (_overflow(product(a, b, w).fits),)


def quotient_guards(w: Format) -> tuple[Guard, ...]:
    return (Guard(b.ne(0), "RG0402", culprit=b), _overflow(quotient(a, b, w).fits))


# The constants for which the formulas hold; the verifier refuses others.


def shifts_of_moves(w: Format) -> range:
    return range(1 - w.width, w.width)


def shifts_of_products(w: Format) -> range:
    return range(2 * w.width)


def shifts_of_quotients(w: Format) -> range:
    return range(w.width - 1)


def shifts_of_roots(w: Format) -> range:
    return range(w.width // 2)
