"""The adjoint of an instruction, derived from its tree.

With cotangents, `d += f(a, b)` run backward is `d −= f` and then, for each operand, `ā += ∂f/∂a · d̄`: an
update again, so differentiation mode is reversible too. Run forward it does the exact opposite, `ā −= …`.
Cotangents are words in the same format: a product with a derivative is rounded as `fmul` rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from retrograd.isa import functions, points
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
    involution,
    transition,
    written,
)
from retrograd.isa.entries import BAR, Bijection, Function, Guard, Opcode, a, b, bar, d
from retrograd.isa.expr import (
    ONE,
    ZERO,
    Expr,
    const,
    div_round,
    div_shift,
    high_word,
    inputs,
    mul_round,
    mul_shift,
    nodes,
    place,
    select,
    substitute,
)
from retrograd.isa.words import Format


class NoDerivative(Exception):
    """The instruction carries no derivative; the message is the reason."""


def _shift(node: Expr) -> int:
    return 0 if node.param is None or isinstance(node.param, str | tuple) else node.param


def _scaled(c: Expr, node: Expr, left: bool) -> Expr:
    if node.args[1].op != "const":
        raise NoDerivative("a shift by a variable amount has no derivative")
    return c << node.args[1] if left else c.sar(node.args[1])


def _quotient_partials(n: Expr, c: Expr) -> tuple[Expr, Expr]:
    # ∂(a·2^s/b): 2^s/b and −(a·2^s/b)/b. The second reuses the quotient, and needs all its digits: with s < 0, which
    # only guards use, the rounding has taken them.
    s, divisor = _shift(n), n.args[1]
    if s < 0:
        raise NoDerivative("a quotient rounded below its last place has no derivative")
    if n.op == "divround":
        return div_round(c, divisor, s), -div_round(mul_round(c, n, s), divisor, s)
    return div_shift(c, divisor, s), -div_shift(mul_shift(c, n, s), divisor, s)


def _root_partials(n: Expr, c: Expr) -> tuple[Expr]:
    # ∂√(a·2^s) is 2^s / 2n, n the root. 2n may exceed a word, so it is computed as 2^(s−1) / n. For s = 0, 2n fits.
    s = _shift(n)
    return (select(n, div_round(c, n, s - 1) if s else div_round(c, n + n, 0), ZERO),)


#: One line an operation: (node, c) -> the contribution to each operand's cotangent, c being the node's cotangent.
#: None: the operation is flat or bitwise, and passes nothing on to that operand.
PARTIALS: dict[str, Callable[[Expr, Expr], tuple[Expr | None, ...]]] = {
    "add": lambda n, c: (c, c),
    "sub": lambda n, c: (c, -c),
    "shl": lambda n, c: (_scaled(c, n, True), None),
    "sar": lambda n, c: (_scaled(c, n, False), None),
    "eq": lambda n, c: (None, None),
    "lt": lambda n, c: (None, None),
    "ltu": lambda n, c: (None, None),
    "select": lambda n, c: (None, select(n.args[0], c, ZERO), select(n.args[0], ZERO, c)),
    "mulshift": lambda n, c: (mul_shift(c, n.args[1], _shift(n)), mul_shift(c, n.args[0], _shift(n))),
    "divshift": _quotient_partials,
    "mulround": lambda n, c: (mul_round(c, n.args[1], _shift(n)), mul_round(c, n.args[0], _shift(n))),
    "divround": _quotient_partials,
    "sqrtround": _root_partials,
}


def vector_jacobian(value: Expr, cotangent: Expr) -> dict[str, Expr]:
    """place -> cotangent · ∂value/∂place, by the chain rule from the root of the tree down.

    Raises NoDerivative where the tree holds an operation without one (bitwise operations, logical shifts).
    """
    gains: dict[Expr, Expr] = {value: cotangent}
    out: dict[str, Expr] = {}
    for node in reversed(list(nodes(value))):
        c = gains.get(node)
        if c is None or node.op == "const":
            continue
        if node.op == "input":
            out[str(node.param)] = c
            continue
        if node.op not in PARTIALS:
            raise NoDerivative(f"the operation {node.op!r} has no derivative")
        for arg, gain in zip(node.args, PARTIALS[node.op](node, c), strict=True):
            if gain is not None and inputs(arg):
                gains[arg] = gains[arg] + gain if arg in gains else gain
    return out


def kinks(value: Expr) -> tuple[Expr, ...]:
    """The subtrees at whose zeros the tree has no second derivative: arguments of roots and of magnitudes.

    At these points its first derivative is that of one side, or 0 where it is infinite.
    """
    out: dict[Expr, None] = {}
    for node in nodes(value):
        match node.op:
            case "sqrtround":
                # Of an argument other than 0, only a root that is rounded below its last place may be 0.
                out[node.args[0] if _shift(node) >= 0 else node] = None
            case "select":
                condition, negative, positive = node.args
                if condition is positive.lt(0) and negative is -positive:
                    out[positive] = None
    return tuple(x for x in out if inputs(x))


def lift(opcode: Opcode, w: Format) -> Effects:
    """The cotangent lift of the opcode: x̄ := J⁻ᵀ x̄, J the Jacobian of its effects.

    The effects read the words of the places from before the instruction, and write shadows only.
    Raises NoDerivative with the reason.
    """
    entry = opcode.entry
    if isinstance(entry, Function) and not entry.differentiable:
        raise NoDerivative("an integer or bitwise function carries no derivative")
    if isinstance(entry, Bijection) and entry.lift is not None:
        return entry.lift(w, opcode.name != entry.name)
    lifted: list[Update | Exchange | Permute] = []
    done: list[Effect] = []
    for effect in opcode.effects(w):
        # The trees of an effect read the words after the earlier effects.
        now = transition(done, w)
        done.append(effect)
        match effect:
            case Update(where, operator, value):
                slope = UPDATE_OPERATORS[operator].slope
                if slope is None:
                    raise NoDerivative("an exclusive or carries no derivative")
                # d' = d ± f has x̄' = J⁻ᵀ x̄, which takes ± ∂f/∂a · d̄ from ā.
                c = place(bar(where))
                named = entry.partials if isinstance(entry, Function) else None
                gains = vector_jacobian(value, c) if named is None else named(w, c)
                for name, gain in gains.items():
                    if name not in ("imm", "br") and gain is not ZERO:
                        lifted.append(Update(bar(name), "sub" if slope > 0 else "add", substitute(gain, now)))
            case Exchange(left, right, when):
                if "br" not in (left, right):
                    condition = None if when is None else substitute(when, now)
                    lifted.append(Exchange(bar(left), bar(right), condition))
            case Permute(where, _, _, slope):
                if where == "br":
                    continue
                if slope is None:
                    raise NoDerivative("a permutation of bits carries no derivative")
                if slope == -1:
                    c = place(bar(where))
                    lifted.append(involution(bar(where), -c, slope=-1))
            case Erase() | Unerase():
                raise NoDerivative("an erasure drops its cotangent")
    return tuple(lifted)


# -----------------------------------------------------------------------------
# Derivatives of the functions whose trees go by tables: cotangent · ∂value/∂operand, one line each.
#
# The chain rule over such a tree would differentiate its table look-ups and roundings. Cotangents are fixed-point
# words; the cotangent of a lognum x is ∂L/∂ln|x|. Products and quotients are rounded as `fmul` and `fdiv` round.

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
    return {"a": mul_round(c, functions.cos(a, w), w.frac)}


def cos(w: Format, c: Expr) -> Partials:
    """-sin a"""
    return {"a": -mul_round(c, functions.sin(a, w), w.frac)}


def atan2(w: Format, c: Expr) -> Partials:
    """b / (a² + b²) and -a / (a² + b²)

    They are computed as 1 / (b + a·(a/b)) and the like, dividing by the larger operand, so that no square leaves the word.
    Each product and quotient is the product or quotient of an instruction, so that a program can compute the same bits.
    """
    far = select(a.lt(0), -a, a).ltu(select(b.lt(0), -b, b))
    big, small = select(far, b, a), select(far, a, b)
    ratio = div_round(small, big, w.frac)
    # Halves: |big + small·ratio| can be twice |big|. Of the largest word the half is rounded down, as ⌊x/2⌋ = x −
    # ⌊x/2⌉.
    down = big - mul_round(big, _half(w), w.frac)
    half = down + mul_round(mul_round(small, _half(w), w.frac), ratio, w.frac)
    by_big = mul_round(div_round(c, half, w.frac), _half(w), w.frac)
    by_small = mul_round(by_big, ratio, w.frac)
    return {"a": select(far, by_big, by_small), "b": -select(far, by_small, by_big)}


def shifted_move(w: Format, c: Expr) -> Partials:
    """2^imm"""
    return {"a": points.move(c, w).value}


def shifted_product(w: Format, c: Expr) -> Partials:
    """b / 2^imm and a / 2^imm"""
    return {"a": points.product(c, b, w).value, "b": points.product(c, a, w).value}


def shifted_quotient(w: Format, c: Expr) -> Partials:
    """2^imm / b and −q / b, q being the quotient"""
    by_b = points.product(c, points.quotient(a, b, w).value, w).value
    return {"a": points.quotient(c, b, w).value, "b": -points.quotient(by_b, b, w).value}


def shifted_root(w: Format, c: Expr) -> Partials:
    """2^(2·imm) / 2r, r being the root; 0 where r = 0"""
    r = points.root(a, w).value
    return {"a": select(r, points.share_of_root(c, r, w).value, ZERO)}


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
    """Both cotangents are rotated, and b̄ −= d·ā − a·d̄, computed at the rotated point in either direction.

    In exact numbers a rotation does not change d·ā − a·d̄, but in words it changes its rounding. Both directions therefore
    compute it at the same point, so that the update is undone bit for bit.
    """
    d_bar, a_bar = place(bar("d")), place(bar("a"))
    turned = mul_round(d, a_bar, w.frac) - mul_round(a, d_bar, w.frac)
    shadows = on_shadows(effects)
    if backward:
        return (Update(bar("b"), "add", turned), *inverse(shadows))
    at_rotated_point = substitute(turned, transition(effects, w))
    return (*shadows, Update(bar("b"), "sub", at_rotated_point))


def on_shadows(effects: Effects) -> Effects:
    """The effects, applied to the shadows of the words that they change; other words are read unchanged. Nothing is erased."""
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


# -----------------------------------------------------------------------------
# Cotangent steps: the effect of an instruction on cotangents with D = 1, and the guards against overflow.
#
#     x̄ := J⁻ᵀ x̄ beside x := T(x),  J the Jacobian of T             (`adjoint.lift`)
#
# The lifted step is a bijection, as the step is, and is undone by the lifted inverse. There is one exception, the
# freeing
# of an ancilla: its word is zero and can be restored, but its cotangent need not be zero, and is dropped.


@dataclass(frozen=True)
class CotangentStep:
    """shadow -> its word after the instruction, as a tree over the words before."""

    after: dict[str, Expr]
    guards: tuple[Guard, ...] = ()
    #: shadows that the instruction drops
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
    """The sum of two contributions to one cotangent. Whether the sum fits does not depend on their order."""
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
    """RG0404 unless each sum, product and quotient of a cotangent fits its word, since a wrapped cotangent is a wrong number.

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
        shifted = points.whole(node) if "imm" in node.inputs else None
        if shifted is not None:
            # Its parts wrap where it does not; those that are no operands carry nothing.
            fits = shifted.fits
            for arg in shifted.operands:
                fits = _both(fits, known[arg])
            known[node] = fits
            moved.add(node)
            continue
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
    """1 where the partial derivatives themselves fit a word.

    For a sum of lognums they may not fit: a/(a+b) and b/(a+b) grow without bound as a + b cancels.
    """
    second = {"ladd": b, "lsub": b ^ w.sign}.get(opcode.entry.name)
    if second is None:
        return ONE
    total = functions.lognum_sum(a, second, w)[0]
    quotient = UPDATE_OPERATORS["div"].combine
    share_of_a, share_of_b = (functions.lognum_to_fixed(quotient(w, x, total), w)[1] for x in (a, second))
    return share_of_a & share_of_b
