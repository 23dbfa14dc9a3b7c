"""Shadow steps: the effect of an opcode on the cotangents or tangents of its words, as steps that instructions can execute.

    cotangents:  x̄ := J⁻ᵀ x̄          tangents:  ẋ := J ẋ          J the Jacobian of the opcode's effects

Both are linear in the shadows and bijections of them, one effect after the other; each is the inverse transpose of the
other, effect by effect. So only the lift to cotangents is derived, and tangents come from transposing it:

    x̄ −= s·ȳ   becomes   ẏ += s·ẋ         an exchange or a change of sign stays as it is
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from retrograd.isa.derivatives import NoDerivative, kinks, lift, on_shadows, vector_jacobian
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Exchange, Permute, Update, inverse
from retrograd.isa.entries import BAR, Bijection, Function, Opcode, bar
from retrograd.isa.expr import ZERO, Expr, inputs, nodes, place, substitute
from retrograd.isa.folds import replaced
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(frozen=True)
class LinearUpdate:
    """The shadow of `place` ⊕= value; `sources`: the places whose shadows the value reads, and is linear in."""

    place: str
    operator: str
    value: Expr
    sources: tuple[str, ...]


@dataclass(frozen=True)
class SelfUpdate:
    """The opcode's own exchange, rotation or change of sign, of the shadows in place of the words that it writes."""

    opcode: Opcode


@dataclass(frozen=True)
class Shadows:
    """The steps, in order. `after`: their values read the words as the opcode leaves them, not as it finds them."""

    steps: tuple[LinearUpdate | SelfUpdate, ...] = ()
    after: bool = False


@cache
def cotangents(opcode: Opcode, w: Format) -> Shadows:
    """x̄ := J⁻ᵀ x̄. Without steps where the opcode carries no derivative."""
    try:
        before = lift(opcode, w)
        behind = inverse(lift(TABLE.inverse(opcode), w))
    except NoDerivative:
        return Shadows()
    # Two ways to write the same: over the words before, or over those after. The short one has instructions.
    after = _size(behind) < _size(before)
    return Shadows(tuple(_steps(opcode, behind if after else before, w)), after)


@cache
def kinks_of(opcode: Opcode, w: Format) -> tuple[Expr, ...]:
    """The trees over the operands at whose zeros the opcode's function has no second derivative.

    A function whose tree goes by tables has partial derivatives of its own, and is smooth wherever it has a value.
    """
    if not isinstance(opcode.entry, Function):
        return ()
    value = opcode.entry.value(w)
    try:
        vector_jacobian(value, place(bar("d")))
    except NoDerivative:
        return ()
    return kinks(value)


@cache
def tangents(opcode: Opcode, w: Format) -> Shadows:
    """ẋ := J ẋ. Without steps where the opcode carries no derivative."""
    of = cotangents(opcode, w)
    steps: list[LinearUpdate | SelfUpdate] = []
    for step in of.steps:
        if isinstance(step, SelfUpdate):
            steps.append(step)
            continue
        operator = UPDATE_OPERATORS[step.operator].undone_by
        for source in step.sources:
            # The sum's other terms belong to the other sources.
            moved = {bar(s): ZERO for s in step.sources} | {bar(source): place(bar(step.place))}
            steps.append(LinearUpdate(source, operator, with_shadows(step.value, moved), (step.place,)))
    return Shadows(tuple(steps), of.after)


def with_shadows(root: Expr, moved: Mapping[str, Expr]) -> Expr:
    """The tree with shadows replaced and then simplified; subtrees that read no shadow stay unchanged."""
    shadows = {name: place(name) for name in inputs(root) if name.endswith(BAR)}
    return replaced(root, {**shadows, **moved})


def _size(effects: Effects) -> int:
    trees: list[Expr] = []
    for effect in effects:
        match effect:
            case Update(value=tree) | Permute(forward=tree):
                trees.append(tree)
            case Exchange(when=when) if when is not None:
                trees.append(when)
    return sum(1 for _ in nodes(*trees))


def _steps(opcode: Opcode, effects: Effects, w: Format) -> list[LinearUpdate | SelfUpdate]:
    own = on_shadows(opcode.effects(w)) if isinstance(opcode.entry, Bijection) else ()
    out: list[LinearUpdate | SelfUpdate] = []
    at = 0
    while at < len(effects):
        effect = effects[at]
        if own and effects[at : at + len(own)] == own:
            out.append(SelfUpdate(opcode))
            at += len(own)
            continue
        at += 1
        match effect:
            case Update(where, operator, value):
                sources = tuple(sorted(p.removesuffix(BAR) for p in inputs(value) if p.endswith(BAR)))
                out.append(LinearUpdate(where.removesuffix(BAR), operator, with_shadows(value, {}), sources))
            case _:
                out.append(SelfUpdate(_alike(on_places(effect), w)))
    return out


def on_places(effect: object) -> Effects:
    """The effect on the words of which it names the shadows."""
    match effect:
        case Permute(where, forward, backward, slope):
            name = where.removesuffix(BAR)
            words = {where: place(name)}
            return (Permute(name, substitute(forward, words), substitute(backward, words), slope),)
        case Exchange(left, right, when):
            return (Exchange(left.removesuffix(BAR), right.removesuffix(BAR), when),)
    raise NoDerivative(f"no instruction does {effect}")


def _alike(effects: Effects, w: Format) -> Opcode:
    """The opcode that has these effects."""
    for opcode in TABLE.by_name.values():
        if isinstance(opcode.entry, Bijection) and opcode.effects(w) == effects:
            return opcode
    raise NoDerivative(f"no instruction does {effects}")
