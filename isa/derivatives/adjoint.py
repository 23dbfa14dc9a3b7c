"""The adjoint of an instruction, derived from its tree.

With cotangents, `d += f(a, b)` run backward is `d −= f` and then, for each operand, `ā += ∂f/∂a · d̄`: an
update again, so differentiation mode is reversible too. Run forward it does the exact opposite, `ā −= …`.
Cotangents are words in the same format: a product with a derivative is rounded as `fmul` rounds.
"""

from __future__ import annotations

from collections.abc import Callable

from retrograd.isa.effects import (
    UPDATE_OPERATORS,
    Effect,
    Effects,
    Erase,
    Exchange,
    Permute,
    Unerase,
    Update,
    involution,
    transition,
)
from retrograd.isa.entries import Bijection, Function, Opcode, bar
from retrograd.isa.expr import (
    ZERO,
    Expr,
    div_round,
    div_shift,
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
    # ∂(a·2^s/b): 2^s/b and −(a·2^s/b)/b. The quotient itself serves in the second, which needs its digits:
    # with s < 0, which only guards use, the rounding has taken them.
    s, divisor = _shift(n), n.args[1]
    if s < 0:
        raise NoDerivative("a quotient rounded below its last place has no derivative")
    if n.op == "divround":
        return div_round(c, divisor, s), -div_round(mul_round(c, n, s), divisor, s)
    return div_shift(c, divisor, s), -div_shift(mul_shift(c, n, s), divisor, s)


def _root_partials(n: Expr, c: Expr) -> tuple[Expr]:
    # ∂√(a·2^s) is 2^s / 2n. Twice the root need not be a word; that of an integer, which has no half, is.
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

    The effects read the words of the places before the instruction, and write shadows only.
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
