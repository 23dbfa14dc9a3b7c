"""Cotangent steps: the effect of an instruction on cotangents with D = 1, and the guards against overflow.

    x̄ := J⁻ᵀ x̄ beside x := T(x),  J the Jacobian of T             (`adjoint.lift`)

The lifted step is a bijection, as the step is, and is undone by the lifted inverse. One act is not: an ancilla that is
freed is zero, so its word comes back from nothing; its cotangent need not be zero, and is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from retrograd.isa import functions
from retrograd.isa.derivatives.adjoint import NoDerivative, lift
from retrograd.isa.effects import UPDATE_OPERATORS, Effect, Effects, Erase, Permute, Update, transition
from retrograd.isa.entries import BAR, Guard, Opcode, a, b, bar
from retrograd.isa.expr import ONE, Expr, high_word, inputs, nodes, place, select, substitute
from retrograd.isa.words import Format


@dataclass(frozen=True)
class CotangentStep:
    """shadow -> its word after the instruction, as a tree over the words before."""

    after: dict[str, Expr]
    guards: tuple[Guard, ...] = ()
    #: shadows that it drops
    drops: tuple[str, ...] = ()


#: An instruction with D = 0.
NOTHING = CotangentStep({})


@cache
def cotangent_step(opcode: Opcode, w: Format, same: bool) -> CotangentStep:
    """The cotangent step of an opcode; `same`: ra and rb are one register, whose cotangent gets both contributions.

    An instruction without a derivative leaves cotangents where they are.
    """
    drops = tuple(bar(p) for p in freed(opcode, w))
    try:
        effects = lift(opcode, w)
    except NoDerivative:
        return CotangentStep({}, drops=drops)
    factors = _factors_fit(opcode, w)
    if same:
        effects = _with_one_operand(effects)
        factors = substitute(factors, _ONE_OPERAND)
    return CotangentStep(transition(effects, w), overflow_guards(effects, w, factors), drops)


def freed(opcode: Opcode, w: Format) -> tuple[str, ...]:
    """The places whose word the instruction promises, or makes, zero."""
    promised = [p for guard in opcode.guards(w) for p in opcode.reads - {"br"} if guard.predicate is place(p).eq(0)]
    return (*promised, *(effect.place for effect in opcode.effects(w) if isinstance(effect, Erase)))


#: the names of the second operand, where both operands are one register
_ONE_OPERAND = {"b": a, bar("b"): place(bar("a"))}


def _with_one_operand(effects: Effects) -> Effects:
    """Of two contributions to one cotangent, their sum: whether that fits does not depend on which came first."""
    # Only updates have two operands that may be one register: the registers that a bijection writes differ from all others that it names.
    out: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, Update):
            out.append(effect)
            continue
        where = bar("a") if effect.place == bar("b") else effect.place
        gain, last = substitute(effect.value, _ONE_OPERAND), out[-1] if out else None
        if isinstance(last, Update) and last.place == where:
            gain = last.value + gain
            out.pop()
        out.append(Update(where, effect.operator, gain))
    return tuple(out)


# ---------------------------------------------------------------- overflow


def overflow_guards(effects: Effects, w: Format, factors: Expr = ONE) -> tuple[Guard, ...]:
    """RG0404 unless each sum, product and quotient of a cotangent fits its word: wrapped, it would be a wrong number.

    `factors`: 1 where the partial derivatives fit a word. Predicates are over the words before all effects.
    """
    guards: list[Guard] = []
    for index, effect in enumerate(effects):
        match effect:
            case Update(where, operator, value):
                shown = next(p for p in sorted(inputs(value)) if _is_shadow(p))
                predicate = _parts_fit(value, w) & _fits(operator, w, place(where), value)
                if factors is not ONE:
                    predicate = predicate & (place(shown).eq(0) | factors)
            case Permute(where, forward):
                predicate, shown = _parts_fit(forward, w), where
            case _:
                continue
        now = transition(effects[:index], w)
        culprit = substitute(place(shown), now)
        guards.append(Guard(substitute(predicate, now), "RG0404", mode="overflow", culprit=culprit))
    return tuple(guards)


def _is_shadow(name: str) -> bool:
    return name.endswith(BAR)


def _fits(operator: str, w: Format, x: Expr, v: Expr) -> Expr:
    fits = UPDATE_OPERATORS[operator].fits
    assert fits is not None, "cotangents are added and subtracted"
    return fits(w, x, v)


def _parts_fit(root: Expr, w: Format) -> Expr:
    """1 where no operation on cotangents, from the leaves up to the root, wraps.

    Of a selection, the selected word must fit. Operations that carry no derivative, such as the `and` that takes a
    product's last bit for rounding, may wrap below them. Zero always fits, divided by zero too.
    """
    moved: set[Expr] = set()
    known: dict[Expr, Expr] = {}
    for node in nodes(root):
        known[node] = ONE
        if not (node.op == "input" and _is_shadow(str(node.param))) and moved.isdisjoint(node.args):
            continue
        moved.add(node)
        fits = ONE
        for arg in node.args:
            fits = _both(fits, known[arg])
        shift = node.param if isinstance(node.param, int) else 0
        sign = node.sar(w.width - 1)
        match node.op:
            case "sar":
                known[node] = fits
            case "add" | "sub":
                known[node] = _both(fits, _fits(node.op, w, node.args[0], node.args[1]))
            case "shl":
                known[node] = _both(fits, node.sar(node.args[1]).eq(node.args[0]))
            case "mulshift" | "mulround":
                # Shifted by W or more, every product fits.
                known[node] = fits if shift >= w.width else _both(fits, high_word(node, w).eq(sign))
            case "divshift" | "divround":
                x, y = node.args
                high = Expr(node.op, node.args, shift - w.width)
                known[node] = _both(fits, high.eq(sign) & (x.eq(0) | y.ne(0)))
            case "select":
                c, x, y = node.args
                known[node] = select(c, known[x], known[y])
    return known[root]


def _both(x: Expr, y: Expr) -> Expr:
    return y if x is ONE else x if y is ONE else x & y


def _factors_fit(opcode: Opcode, w: Format) -> Expr:
    """1 where the partial derivatives themselves fit a word: the shares of a lognum sum need not.

    a/(a+b) and b/(a+b) are as large as the cancellation in a + b is deep.
    """
    second = {"ladd": b, "lsub": b ^ w.sign}.get(opcode.entry.name)
    if second is None:
        return ONE
    total = functions.lognum_sum(a, second, w)[0]
    quotient = UPDATE_OPERATORS["div"].combine
    share_of_a, share_of_b = (functions.lognum_to_fixed(quotient(w, x, total), w)[1] for x in (a, second))
    return share_of_a & share_of_b
