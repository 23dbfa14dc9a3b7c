"""Updates: `y += e` and its like, of one word or of a whole array.

y ⊕= e is undone by the opposite operator, since e does not read y.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

from retrograd.compiler.frontends.python.evaluate import OPERATORS
from retrograd.compiler.frontends.python.operands import BOOL, FIXED, INT
from retrograd.compiler.frontends.python.places import Places
from retrograd.compiler.frontends.python.scope import Made
from retrograd.compiler.ir.expressions import Address, E, const, interval, loads, read, variables
from retrograd.compiler.ir.opcode_facts import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Call,
    Const,
    For,
    Kind,
    Node,
    Op,
    Operand,
    Region,
    Var,
    children,
    with_children,
)
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.types import StructType
from retrograd.compiler.language.values import ArrayView, Lazy, Scalar, StructValue, Value, describe

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.BitXor: "xor", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip
SIGNS = {"add": "+=", "sub": "-=", "xor": "^=", "mul": "*=", "div": "/="}
#: (update, kind) that exist
_DEFINED = {("add", INT), ("sub", INT), ("xor", INT), ("add", FIXED), ("sub", FIXED), ("xor", BOOL)} | {
    ("mul", Kind.LOGNUM),
    ("div", Kind.LOGNUM),
}


class Updates(Places):
    """Updates of places."""

    def _update(self, target: ast.expr, op: ast.operator, value: ast.expr, node: ast.AST) -> None:
        update = _UPDATES.get(type(op))
        if isinstance(op, ast.MatMult):
            self.fail(
                "RG0701",
                f"`{shortened(node)}` cannot be undone",
                node,
                "make a new array with rg.zeros, and add the product to it",
            )
        if update is None:
            sign = OPERATORS.get(type(op), "@")
            hint = f"make a new variable, `t = {ast.unparse(target)} {sign} {ast.unparse(value)}`"
            if isinstance(op, ast.LShift | ast.RShift):
                hint += f"; or turn the bits around with rg.{'rol' if isinstance(op, ast.LShift) else 'ror'}"
            self.fail(
                "RG0701",
                f"`{shortened(node)}` cannot be undone: it forgets a part of `{shortened(target)}`",
                node,
                hint,
            )
        place, e = self.place(target), self.value(value)
        if isinstance(place, ArrayView):
            self._update_array(place, update, e, node)
            return
        if not isinstance(place, Scalar):
            way: str | None = None
            if isinstance(place, StructValue):
                first = next(iter(place.fields))
                way = (
                    f"update its fields, `{shortened(target)}.{first} {SIGNS[update]} …`, or call a function that does"
                )
            self.fail("RG0703", f"`{shortened(target)}` is {describe(place)}, which has no {SIGNS[update]}", node, way)
        self.update(place, update, e, node, target)

    def _operand(self, place: Scalar, update: str, value: Value, node: ast.AST) -> E:
        kind = place.kind
        if (update, kind) not in _DEFINED:
            message = f"{SIGNS[update]} is not defined for {'an' if kind is INT else 'a'} {kind.value}"
            self.fail("RG0703", message, node, _instead(update, kind, node))
        at = node.value if isinstance(node, ast.AugAssign) else node
        if isinstance(value, ArrayView | Lazy):
            hint = f"rg.sum({shortened(at)}) is the sum of its elements" if at is not node else None
            self.fail("RG0712", f"{describe(value)} is added to one number", at, hint)
        if kind is BOOL:
            e: E = self.guarded(at, self.arithmetic.truth, value)
            return e
        e = self.guarded(at, self.arithmetic.expression, value, kind)
        return e

    def update(self, place: Scalar, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        """`place update= value`."""
        e = self._operand(place, update, value, node)
        t = self.temporaries()
        where = place.place
        assert where is not None
        self.independent(t, [(where, target)], [e], node)
        body: list[Node] = []
        if isinstance(where, Address) and place.kind in (INT, BOOL) and _plain(e):
            x = t.operand(e)
            body.append(t.memory(f"st.{update}", x, where))
        else:
            # Temporaries come first, so that they are read before the word is taken out of memory.
            probe: list[Node] = []
            stand_in = Var("probe", place.kind)
            t.into(probe, stand_in, update, e)
            d = self.register(t, where, place.kind)
            body = [_substituted(n, stand_in, d) for n in probe] if d is not stand_in else probe
        made = next((m for m in self.made if isinstance(where, Var) and where in m.parts), None)
        known = None
        known_so_far = made is not None and made.history is not None and made.depth == self.depth
        if made is not None and known_so_far and isinstance(where, Var) and isinstance(made.value, Scalar):
            self._remember(made, update, e)
            known = where
        before, snapshot = dict(self.versions), self.snapshot(e)
        self.emit(t.wrap(tuple(body)), known)
        self._settle(where, update, e, snapshot, before)

    def _settle(
        self,
        where: Var | Address,
        update: str,
        e: E,
        snapshot: dict[Var | Region, int],
        before: dict[Var | Region, int],
    ) -> None:
        """`x += e` and then `x -= e`, e being the same: x is what it was, and what was made from it is known again."""
        place = where if isinstance(where, Var) else where.region
        updates = self.undone.setdefault((id(self.out), where), [])
        now = self.versions[place]
        if updates:
            last, previous, versions, old, new = updates[-1]
            if last == OPPOSITE[update] and previous == e and versions == snapshot and before.get(place, 0) == new:
                updates.pop()
                self.versions[place] = old
                return
        updates.append((update, e, snapshot, before.get(place, 0), now))

    def _remember(self, made: Made, update: str, e: E) -> None:
        assert made.history is not None
        snapshot = self.snapshot(e)
        if made.history:
            last, previous, versions = made.history[-1]
            if last == OPPOSITE[update] and previous == e and versions == snapshot:
                made.history.pop()
                return
        elif made.initial == e and made.operands == snapshot:
            # The initial value is taken away, so that zero is left, or given back.
            way = ("add", "xor", "mul") if made.gone else ("sub", "xor", "div")
            if update in way:
                made.gone = not made.gone
                return
        made.history.append((update, e, snapshot))

    def _update_array(self, place: ArrayView, update: str, value: Value, node: ast.AST) -> None:
        """Element by element, the last index moving fastest."""
        if isinstance(value, ArrayView | Lazy):
            shape = self.broadcast(node, [place.shape, value.shape])
            if shape != place.shape:
                self.fail("RG0712", f"{describe(value)} does not broadcast to the shape {place.shape}", node)
        if isinstance(place.element, StructType):
            self.fail(
                "RG0703",
                f"{SIGNS[update]} is not defined for {place.element}; update its fields, x.{place.element.fields[0][0]}",
                node,
            )

        self._refuse_shifted(place, value, node)

        def one(index: tuple[E, ...]) -> None:
            target = element(place, index)
            assert isinstance(target, Scalar)
            self.update(target, update, element(value, index), node, getattr(node, "target", node))

        self._over(place.shape, one, value)

    def _refuse_shifted(self, place: ArrayView, value: Value, node: ast.AST) -> None:
        """`a[1:] += a[:-1]`: what an element reads another may have changed before, so that the order would matter."""
        if not isinstance(value, ArrayView | Lazy) or 0 in place.shape:
            return
        ones = [Var(f"i{n}", INT) for n in range(len(place.shape))]
        for var, length in zip(ones, place.shape, strict=True):
            self.ranges[var] = (0, length - 1)
        sample = element(value, tuple(read(v) for v in ones))
        if not isinstance(sample, Scalar):
            return
        extent = sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True) if s > 0) + place.element.size
        below = sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True) if s < 0)
        for at in loads(sample.e):
            if at.region is not place.address.region:
                continue
            difference = self._difference(at, place.address)
            bounds = interval(difference, self.ranges)
            if bounds is not None and (bounds[0] >= extent or bounds[1] < below):
                continue
            if variables(difference) - set(ones):
                # Indices of the program's own decide: each element is tested when the program runs.
                continue
            if bounds is not None and not _disjoint_by_stride(at, place):
                hint = "write a loop over the elements, in the order that you mean"
                self.fail("RG0704", f"`{shortened(node)}` reads elements of the array that it changes", node, hint)

    def _over(self, shape: Sequence[int], body: Callable[[tuple[E, ...]], None], value: Value | None = None) -> None:
        """body(indices) in loops over all indices of a shape. What is the same in all elements of `value` is computed once."""
        if prod(shape) == 0:
            return
        span = self.source.span(self.node)
        indices = tuple(Var(f"i{n}" if len(shape) > 1 else "i", INT, span) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            self.ranges[var] = (0, length - 1)
        index = tuple(const(0, INT) if length == 1 else read(v) for v, length in zip(indices, shape, strict=True))
        self.settled.update(indices)
        around, previous = self.temporaries(), self.enclosing
        if isinstance(value, Lazy):
            sample = element(value, index)
            if isinstance(sample, Scalar):
                around.hoist(sample.e, frozenset(indices))
        self.enclosing = around
        with self.block() as inner:
            body(index)
        self.enclosing = previous
        nodes: Block = tuple(inner)
        for var, length in zip(reversed(indices), reversed(shape), strict=True):
            if length != 1:
                nodes = (For(var, ZERO, Const(length), 1, nodes, False, True, span),)
        self.emit(around.wrap(nodes))


def _instead(update: str, kind: Kind, node: ast.AST) -> str | None:
    """What to write in place of an update that a kind has not."""
    if update in ("mul", "div") and kind in (FIXED, INT):
        new = (
            f", `t = {shortened(node.target)} {OPERATORS[type(node.op)]} {shortened(node.value)}`"
            if isinstance(node, ast.AugAssign)
            else ""
        )
        return f"Rounding and zero factors forget the old value: make a new variable{new}; or use a lognum, whose *= and /= are exact."
    if kind is Kind.LOGNUM:
        return "lognums have *= and /=; a sum of lognums is a factor, `z *= x + y`"
    if kind is BOOL:
        return "bools have ^="
    if kind is FIXED and update == "xor":
        return "fixed numbers have += and -="
    return None


def _plain(e: E) -> bool:
    """Whether an expression is a sum of one term: nothing is gained by taking the word out of memory."""
    return e.op in ("const", "read", "load")


def _substituted(node: Node, old: Var, new: Var) -> Node:
    """The statement with one variable for another."""

    def operand(x: Operand | None) -> Any:
        return new if x is old else x

    if isinstance(node, Op):
        return node._replace(d=operand(node.d), a=operand(node.a), b=operand(node.b))
    if isinstance(node, Call):
        return node._replace(args=tuple(operand(x) for x in node.args))
    blocks = children(node)
    return with_children(node, [tuple(_substituted(n, old, new) for n in b) for b in blocks]) if blocks else node


def _disjoint_by_stride(at: Address, place: ArrayView) -> bool:
    """Whether an address that moves in steps of the view's strides passes it by: another column, another field."""
    steps = [abs(k) for _, k in at.terms] + [abs(s) for s in place.strides]
    common = gcd(*steps) if steps else 0
    distance = at.offset - place.address.offset
    same_base = at.base is place.address.base
    return (
        same_base and common > 1 and not place.address.terms and place.element.size <= distance % common <= common - 1
    )
