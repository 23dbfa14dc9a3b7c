"""Derivatives of the functions whose trees go by tables: cotangent · ∂value/∂operand, one line each.

The chain rule over such a tree would differentiate its table look-ups and roundings. Cotangents are fixed-point
words, that of a lognum is ∂L/∂ln|x|; products and quotients are rounded as `fmul` and `fdiv` round.
"""

from __future__ import annotations

from retrograd.isa import angles, functions
from retrograd.isa.effects import (
    UPDATE_OPERATORS,
    Effect,
    Effects,
    Erase,
    Exchange,
    Permute,
    Unerase,
    Update,
    inverse,
    transition,
    written,
)
from retrograd.isa.entries import a, b, bar, d
from retrograd.isa.expr import Expr, const, div_round, mul_round, place, select, substitute
from retrograd.isa.words import Format

Partials = dict[str, Expr]


def _half(w: Format) -> Expr:
    """½, or 0 in a format without fraction."""
    return const((1 << w.frac) >> 1)


def exp(w: Format, c: Expr) -> Partials:
    """e^a"""
    return {"a": mul_round(c, functions.exp(a, w)[0], w.frac)}


def log(w: Format, c: Expr) -> Partials:
    """1 / a"""
    return {"a": div_round(c, a, w.frac)}


def sin(w: Format, c: Expr) -> Partials:
    """cos a"""
    return {"a": mul_round(c, angles.cos(a, w), w.frac)}


def cos(w: Format, c: Expr) -> Partials:
    """-sin a"""
    return {"a": -mul_round(c, angles.sin(a, w), w.frac)}


def atan2(w: Format, c: Expr) -> Partials:
    """b / (a² + b²) and -a / (a² + b²)

    As 1 / (b + a·(a/b)) and its like, dividing by the larger operand, so that no square leaves the word. All products and
    quotients are those of instructions, so that a program can compute the same bits.
    """
    far = select(a.lt(0), -a, a).ltu(select(b.lt(0), -b, b))
    big, small = select(far, b, a), select(far, a, b)
    ratio = div_round(small, big, w.frac)
    # Halves: |big + small·ratio| can be twice |big|. Of the largest word the half is rounded down, as ⌊x/2⌋ = x − ⌊x/2⌉.
    down = big - mul_round(big, _half(w), w.frac)
    half = down + mul_round(mul_round(small, _half(w), w.frac), ratio, w.frac)
    by_big = mul_round(div_round(c, half, w.frac), _half(w), w.frac)
    by_small = mul_round(by_big, ratio, w.frac)
    return {"a": select(far, by_big, by_small), "b": -select(far, by_small, by_big)}


def lognum_to_fixed(w: Format, c: Expr) -> Partials:
    """∂x/∂ln|x| = x"""
    return {"a": mul_round(c, functions.lognum_to_fixed(a, w)[0], w.frac)}


def fixed_to_lognum(w: Format, c: Expr) -> Partials:
    """∂ln|x|/∂x = 1 / a"""
    return {"a": div_round(c, a, w.frac)}


def lognum_to_log(w: Format, c: Expr) -> Partials:
    """∂ln x/∂ln x = 1"""
    return {"a": c}


def log_to_lognum(w: Format, c: Expr) -> Partials:
    """∂ln e^a/∂a = 1"""
    return {"a": c}


def lognum_power(w: Format, c: Expr) -> Partials:
    """∂(b·ln a)/∂ln a = b, and ln a"""
    return {"a": mul_round(c, b, w.frac), "b": mul_round(c, functions.lognum_to_log(a, w), w.frac)}


def _shares(second: Expr, w: Format, c: Expr) -> Partials:
    total = functions.lognum_sum(a, second, w)[0]
    quotient = UPDATE_OPERATORS["div"].combine

    def share(x: Expr) -> Expr:
        return mul_round(c, functions.lognum_to_fixed(quotient(w, x, total), w)[0], w.frac)

    return {"a": share(a), "b": share(second)}


def lognum_sum(w: Format, c: Expr) -> Partials:
    """∂ln|a+b|/∂ln|a| = a / (a+b), and b / (a+b)"""
    return _shares(b, w, c)


def lognum_difference(w: Format, c: Expr) -> Partials:
    """∂ln|a−b|/∂ln|a| = a / (a−b), and −b / (a−b)"""
    return _shares(b ^ w.sign, w, c)


def rotation(effects: Effects, w: Format, backward: bool) -> Effects:
    """Both cotangents are rotated; the angle's loses d·ā − a·d̄, taken at the rotated point in either direction.

    A rotation leaves that number as it is, but not its rounding: taken at one point, it is undone bit for bit.
    """
    d_bar, a_bar = place(bar("d")), place(bar("a"))
    turned = mul_round(d, a_bar, w.frac) - mul_round(a, d_bar, w.frac)
    shadows = on_shadows(effects)
    if backward:
        return (Update(bar("b"), "add", turned), *inverse(shadows))
    at_rotated_point = substitute(turned, transition(effects, w))
    return (*shadows, Update(bar("b"), "sub", at_rotated_point))


def on_shadows(effects: Effects) -> Effects:
    """The effects on the shadows of the words that they change, the others read as they are. They erase nothing."""
    shadows = {name: place(bar(name)) for name in written(effects)}
    out: list[Effect] = []
    for effect in effects:
        match effect:
            case Exchange(left, right, when):
                out.append(Exchange(bar(left), bar(right), when))
            case Permute(where, forward, backward, slope):
                out.append(Permute(bar(where), substitute(forward, shadows), substitute(backward, shadows), slope))
            case Update(where, operator, value):
                out.append(Update(bar(where), operator, substitute(value, shadows)))
            case Erase() | Unerase():
                raise ValueError("what is erased has no shadow")
    return tuple(out)
