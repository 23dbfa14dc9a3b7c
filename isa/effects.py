"""Effects: the changes of an instruction to its places, in forms whose inverse is computed.

A place is a word the instruction names: the registers `d`, `a`, `b`, the memory word `m` at
`R[ra] + imm`, the branch register `br`. The constant `imm` can be read but is no place.
An instruction's effect is a sequence of the forms below; each reads only places that it does not write,
or is a bijection by construction. `inverse` reverses the sequence and inverts each form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from retrograd.isa.expr import ZERO, Expr, const, inputs, place, select, substitute
from retrograd.isa.words import Format


@dataclass(frozen=True)
class UpdateOperator:
    """`x ⊕= v`: how an update combines the old word with the function's value, and the operator that undoes it."""

    name: str
    symbol: str
    combine: Callable[[Format, Expr, Expr], Expr]
    undone_by: str
    #: d(x ⊕ v)/dv where it is a constant: the sign with which cotangents are transported; None where it is not
    #: constant.
    slope: int | None
    #: 1 where x ⊕ v is representable as a signed number; None where wrapping is the meaning.
    fits: Callable[[Format, Expr, Expr], Expr] | None = None


def _sum_fits(w: Format, x: Expr, v: Expr) -> Expr:
    total = x + v
    return ((x ^ total) & (v ^ total)).ge(0)


def _difference_fits(w: Format, x: Expr, v: Expr) -> Expr:
    difference = x - v
    return ((x ^ v) & (x ^ difference)).ge(0)


def _log_sum(w: Format, x: Expr, v: Expr) -> Expr:
    # A lognum is a sign bit (top) over log2|x|: signs add mod 2, logarithms mod 2^(W-1),
    # and the carry of the logarithm must not reach the sign.
    return ((x + v) & const(w.mask ^ w.sign)) | ((x ^ v) & const(w.sign))


def _log_difference(w: Format, x: Expr, v: Expr) -> Expr:
    return ((x - v) & const(w.mask ^ w.sign)) | ((x ^ v) & const(w.sign))


UPDATE_OPERATORS: dict[str, UpdateOperator] = {
    op.name: op
    for op in (
        UpdateOperator("add", "+=", lambda w, x, v: x + v, "sub", +1, _sum_fits),
        UpdateOperator("sub", "−=", lambda w, x, v: x - v, "add", -1, _difference_fits),
        UpdateOperator("xor", "⊕=", lambda w, x, v: x ^ v, "xor", None),
        UpdateOperator("mul", "×=", _log_sum, "div", +1),
        UpdateOperator("div", "÷=", _log_difference, "mul", -1),
    )
}


@dataclass(frozen=True)
class Update:
    """`place ⊕= value`, where value does not read the place. Inverse: the operator that undoes ⊕."""

    place: str
    operator: str
    value: Expr


@dataclass(frozen=True)
class Exchange:
    """`left, right = right, left`, if `when` (which reads neither) is nonzero. Its own inverse."""

    left: str
    right: str
    when: Expr | None = None


@dataclass(frozen=True)
class Permute:
    """`place := forward(place)`, a named bijection of one word. Inverse: `place := backward(place)`.

    A law checks, over the whole table, that the two undo each other.
    `slope` is the derivative of `forward` if it is constant (−1 for negation), else None.
    """

    place: str
    forward: Expr
    backward: Expr
    slope: int | None = None


def involution(where: str, tree: Expr, slope: int | None = None) -> Permute:
    """`place := tree(place)`, which is its own inverse: the tree is written once."""
    return Permute(where, tree, tree, slope)


@dataclass(frozen=True)
class Erase:
    """`place := 0`. Not reversible: its inverse is the mark `Unerase`, which can only trap."""

    place: str


@dataclass(frozen=True)
class Unerase:
    """The inverse of an erase, which does not exist: it always traps."""

    place: str


Effect = Update | Exchange | Permute | Erase | Unerase
Effects = tuple[Effect, ...]


def inverse_effect(effect: Effect) -> Effect:
    """The effect that undoes this one."""
    match effect:
        case Update(where, operator, value):
            return Update(where, UPDATE_OPERATORS[operator].undone_by, value)
        case Exchange():
            return effect
        case Permute(where, forward, backward, slope):
            return Permute(where, backward, forward, slope)
        case Erase(where):
            return Unerase(where)
        case Unerase(where):
            return Erase(where)


def inverse(effects: Sequence[Effect]) -> Effects:
    """(e₁ e₂ … eₙ)⁻¹ = eₙ⁻¹ … e₂⁻¹ e₁⁻¹."""
    return tuple(inverse_effect(effect) for effect in reversed(effects))


def written(effects: Sequence[Effect]) -> tuple[str, ...]:
    """The places that the effects change, in order of first appearance."""
    names: dict[str, None] = {}
    for effect in effects:
        match effect:
            case Exchange(left, right, _):
                names[left] = names[right] = None
            case Update(where) | Permute(where) | Erase(where) | Unerase(where):
                names[where] = None
    return tuple(names)


def substitute_in(effects: Sequence[Effect], replacements: Mapping[str, Expr]) -> Effects:
    """The effects with inputs replaced in every tree. For constants such as `imm`, which are no places."""
    out: list[Effect] = []
    for effect in effects:
        match effect:
            case Update(where, operator, value):
                out.append(Update(where, operator, substitute(value, replacements)))
            case Exchange(left, right, when):
                out.append(Exchange(left, right, None if when is None else substitute(when, replacements)))
            case Permute(where, forward, backward, slope):
                out.append(Permute(where, substitute(forward, replacements), substitute(backward, replacements), slope))
            case Erase() | Unerase():
                out.append(effect)
    return tuple(out)


def transition(effects: Sequence[Effect], w: Format) -> dict[str, Expr]:
    """place -> its word after all the effects, as a tree over the words before them.

    Raises ValueError if an effect, outside a bijection, reads a place that it writes: that is not reversible.
    """
    now: dict[str, Expr] = {}

    def current(name: str) -> Expr:
        return now.get(name, place(name))

    for effect in effects:
        match effect:
            case Update(where, operator, value):
                if where in inputs(value):
                    raise ValueError(f"an update of {where!r} reads {where!r}")
                now[where] = UPDATE_OPERATORS[operator].combine(w, current(where), substitute(value, now))
            case Exchange(left, right, when):
                if when is not None and {left, right} & inputs(when):
                    raise ValueError(f"the condition of an exchange reads {left!r} or {right!r}")
                x, y = current(left), current(right)
                if when is None:
                    now[left], now[right] = y, x
                else:
                    c = substitute(when, now)
                    now[left], now[right] = select(c, y, x), select(c, x, y)
            case Permute(where, forward, _, _):
                now[where] = substitute(forward, now)
            case Erase(where) | Unerase(where):
                now[where] = ZERO
    return now


def sums_fit(effects: Sequence[Effect], w: Format) -> list[Expr]:
    """For each update that could overflow, the predicate on the words before all effects that it does not."""
    out: list[Expr] = []
    for index, effect in enumerate(effects):
        if isinstance(effect, Update):
            fits = UPDATE_OPERATORS[effect.operator].fits
            if fits is not None:
                now = transition(effects[:index], w)
                out.append(fits(w, now.get(effect.place, place(effect.place)), substitute(effect.value, now)))
    return out
