"""Branches and loops on conditions with computed operands: the operands are kept, in place of a bit that holds the condition.

With P, Q the statements that compute the operands of p, q:

    if p, q: A else B     →   P;  if p, q: (P⁻¹; A; Q) else (P⁻¹; B; Q);  Q⁻¹
    while p, q: A         →   P; Q;  while p, q: (Q⁻¹; P⁻¹; A; P; Q);  Q⁻¹; P⁻¹
    if p and q: A         →   P;  if p: (Q;  if q: A;  Q⁻¹);  P⁻¹                  A changes no operand

A bit would be set, cleared and tested in addition. But Q⁻¹, and P⁻¹ in a loop, begin where ways meet, so a processor evaluates their operands
once more; after `b ^= p` it has them at hand. So a bit holds conditions with products, roots or other functions in them, and conditions
joined by `or`, or by `and` in other places.
Correct because only the branch lies between P and P⁻¹. Traps: a branch traps where a bit would not have been zero.
Cost: P⁻¹ and Q stand in both branches, and the operands of a loop keep their registers during its passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from retrograd.compiler.ir.expressions import E, negated, walk
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, If, Local, Test, invert
from retrograd.isa.diagnostics import Span


class Operands(NamedTuple):
    """The variables that hold the operands of conditions, and the statements that compute them from zeros."""

    born: Block
    compute: Block

    @staticmethod
    def of(t: Temporaries) -> Operands:
        born = tuple(node for node in t.compute if isinstance(node, Local))
        return Operands(born, tuple(node for node in t.compute if not isinstance(node, Local)))

    @property
    def clear(self) -> Block:
        return invert(self.compute)

    @property
    def freed(self) -> Block:
        return invert(self.born)


#: functions that cost about as much as a test of a bit
_CHEAP = frozenset({"abs", "fabs", "max", "min", "seq", "slt", "sltu"})


def has_cheap_operands(condition: E) -> bool:
    """Whether a condition is a test of variables, sums, sizes and the like.

    An element of an array is none: its address is shared between the tests and the branches of a statement only outside of branches.
    """
    return all(
        node.param in _CHEAP if node.op == "apply" else node.op in ("const", "read", "add", "sub", "neg", "not")
        for node in walk(condition)
    )


def joined_by_and(condition: E) -> tuple[E, ...]:
    """The conditions c₁, c₂, … of c₁ and c₂ and …, in their order; the condition itself if it is not such a one."""
    match condition.op:
        case "choose":
            first, then, orelse = condition.args
            if orelse.op == "const" and not orelse.param:
                return (*joined_by_and(first), *joined_by_and(then))
            if then.op == "const" and not then.param:
                return (*joined_by_and(negated(first)), *joined_by_and(orelse))
        case "apply" if condition.param == "and":
            return tuple(part for x in condition.args for part in joined_by_and(x))
        case "not":
            inner = condition.args[0]
            if inner.op == "apply" and inner.param == "or":
                return tuple(part for x in inner.args for part in joined_by_and(negated(x)))
            if inner.op == "choose" and inner.args[1].op == "const" and inner.args[1].param:
                return (*joined_by_and(negated(inner.args[0])), *joined_by_and(negated(inner.args[2])))
    return (condition,)


def branch_on_all(
    conditions: tuple[E, ...], then: Block, t: Temporaries, span: Span | None, checked: Callable[[E], bool]
) -> Block:
    """`if conditions[0] and conditions[1] and …: then`, where `then` changes no operand. `checked`: see `Temporaries.wrap`."""
    first, *others = conditions
    test = t.test(first)
    body = branch_on_all(tuple(others), then, t.inner(), span, checked) if others else then
    return t.wrap((If(test, body, (), test, span),), checked(first))


def branch_on(
    before: tuple[Temporaries, Test], then: Block, orelse: Block, after: tuple[Temporaries, Test], span: Span | None
) -> Block:
    """`if before, after: then else orelse`, for a test before the branch and a test after it, with their temporaries."""
    (t_before, test), (t_after, post) = before, after
    p, q = Operands.of(t_before), Operands.of(t_after)
    then, orelse = ((*p.clear, *block, *q.compute) for block in (then, orelse))
    return (*p.born, *q.born, *p.compute, If(test, then, orelse, post, span), *q.clear, *q.freed, *p.freed)
