"""Common-subexpression elimination in lifted code: a value that a variable holds already is copied, not computed again.

    s += sin a;  …;  t ± sin a     →     s += sin a;  …;  t ± s        where s was zero, and nothing between writes s or a

The derivative of cos a needs sin a, and the derivative of √a needs √a. Facts "s holds f(a, b)" are gathered in
the order of execution. Facts at the end of one side of a branch hold at the start of that side of a later branch on the same test.
Correct for traps because f(a, b) had a value before, and the check of the sum sees the same numbers.
Cost: s is needed longer, so only functions that take longer than a sum are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.opcode_facts import facts, operand
from retrograd.compiler.ir.traversal import walk
from retrograd.isa.table import TABLE

#: functions whose values are reused
_SLOW = frozenset({"fdiv", "fsqrt", "fexp", "flog", "fsin", "fcos", "fatan2"})


class _Value(NamedTuple):
    """f(a, b)"""

    function: str
    a: ir.Operand | None
    b: ir.Operand | None

    def reads(self, x: ir.Var) -> bool:
        return self.a is x or self.b is x


class _Facts:
    """The variables that are zero, the holders of values, and the holders at the ends of both sides of earlier branches."""

    def __init__(self) -> None:
        self.zero: set[ir.Var] = set()
        self.holders: dict[_Value, ir.Var] = {}
        self.sides: dict[ir.Test, tuple[dict[_Value, ir.Var], dict[_Value, ir.Var]]] = {}

    def copy(self) -> _Facts:
        other = _Facts()
        other.zero, other.holders, other.sides = set(self.zero), dict(self.holders), dict(self.sides)
        return other

    def write(self, written: Iterable[ir.Var]) -> None:
        """Forget all facts on these variables."""
        for x in written:
            self.zero.discard(x)
            self.holders = _without(self.holders, x)
            self.sides = {
                test: (_without(then, x), _without(orelse, x))
                for test, (then, orelse) in self.sides.items()
                if test.a is not x and test.b is not x
            }


def _without(holders: dict[_Value, ir.Var], x: ir.Var) -> dict[_Value, ir.Var]:
    if not any(y is x or value.reads(x) for value, y in holders.items()):
        return holders
    return {value: y for value, y in holders.items() if y is not x and not value.reads(x)}


def reuse_values(block: ir.Block, same: Callable[[ir.Node, ir.Node], ir.Node]) -> ir.Block:
    """The block, which has no `Within`, with copies in place of values that are held already.

    `same(old, new)`: called for each statement that takes the place of another; gives the statement to use.
    """
    if not any(isinstance(node, ir.Op) and node.opcode.entry.name in _SLOW for node in walk(block)):
        return block
    return tuple(_Reuse(same).block(block, _Facts()))


class _Reuse:
    def __init__(self, same: Callable[[ir.Node, ir.Node], ir.Node]) -> None:
        self._same = same

    def block(self, block: Iterable[ir.Node], known: _Facts) -> list[ir.Node]:
        """`known`: the facts before the block and, changed, after it."""
        return [self._node(node, known) for node in block]

    def _node(self, node: ir.Node, known: _Facts) -> ir.Node:
        match node:
            case ir.Op():
                return self._op(node, known)
            case ir.Local(var):
                known.write((var,))
                known.zero.add(var)
                return node
            case ir.If():
                return self._if(node, known)
            case ir.While() | ir.For():
                written = _written((node,))
                known.write(written)
                return self._same(node, node._replace(body=tuple(self.block(node.body, known.copy()))))
            case ir.Check() | ir.External():
                return node
            case ir.Delocal() | ir.Within() | ir.Call():
                known.write(_written((node,)))
                return node

    def _if(self, node: ir.If, known: _Facts) -> ir.Node:
        then, orelse = known.copy(), known.copy()
        held = known.sides.get(node.test)
        if held is not None:
            then.holders = held[0] | then.holders
            orelse.holders = held[1] | orelse.holders
        blocks = tuple(self.block(node.then, then)), tuple(self.block(node.orelse, orelse))
        known.write(_written((node,)))
        if then.holders or orelse.holders:
            known.sides[node.post] = then.holders, orelse.holders
        return self._same(node, node._replace(then=blocks[0], orelse=blocks[1]))

    def _op(self, op: ir.Op, known: _Facts) -> ir.Node:
        f, d, update = facts(op.opcode), op.d, op.opcode.update
        written = [x for p in f.written if isinstance(x := operand(op, p), ir.Var)]
        if op.opcode.entry.name == "erase" and isinstance(d, ir.Var):
            known.write(written)
            known.zero.add(d)
            return op
        if op.opcode.entry.name not in _SLOW or update not in ("add", "sub") or not isinstance(d, ir.Var):
            if written:
                known.write(written)
            return op
        value = _Value(op.opcode.entry.name, op.a, op.b)
        holder, fresh = known.holders.get(value), d in known.zero
        known.write((d,))
        if holder is d and update == "sub":
            known.zero.add(d)
        elif holder is not None and holder is not d:
            return self._same(op, ir.Op(TABLE[f"fmov.{update}"], d, holder, None, 0, op.span))
        elif fresh and update == "add":
            known.holders[value] = d
        return op


def _written(nodes: Iterable[ir.Node]) -> set[ir.Var]:
    """The variables that statements at any depth write, or pass to procedures; variables that are born or die count as written."""
    out: set[ir.Var] = set()
    for node in walk(nodes):
        match node:
            case ir.Op(opcode):
                out.update(x for p in facts(opcode).written if isinstance(x := operand(node, p), ir.Var))
            case ir.Local(var) | ir.Delocal(var) | ir.For(var):
                out.add(var)
            case ir.Call(args=args):
                out.update(x for x in args if isinstance(x, ir.Var))
                out.add(ir.SP)
            case ir.Within() | ir.If() | ir.While() | ir.Check() | ir.External():
                pass
    return out
