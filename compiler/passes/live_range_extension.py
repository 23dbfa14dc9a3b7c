"""Live-range extension: a nested temporary stays live until the enclosing routine is undone, in place of being recomputed.

    Within((a, Within(c, d), e), b)              →  Within((a, c, d, e), b)
    Within((a, If(t, (Within(c, d),), f, t)), b) →  Within((a, locals of c, If(t, (c, d), f, t)), b)

Undoing (a, c; d; c⁻¹, e) runs c forward and backward once more: four times in all, and 2ⁿ times at nesting depth n. With
its locals kept live, c runs twice. This is the pebbling trade-off of registers against steps (C. H. Bennett, Time/space
trade-offs for reversible computation, SIAM J. Comput. 18, 1989).
Conditions: c changes nothing but its own locals; neither b, nor the part of (a, d, e) that b interferes with, changes an
operand of c. A branch keeps nothing if b changes an operand of its condition, as the other branch may be undone.
Other parts of c stay where they are.
Correct because c⁻¹ at the end then finds the words that c left.
Traps: c runs less often, so a trap may disappear. Cotangents of kept temporaries are summed before they are rounded.
Cost: registers; `max_live` bounds the variables that one `Within` keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between
from retrograd.compiler.ir.traversal import map_bodies, map_children, rebuilt, walk
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering


def extend_live_ranges(module: ir.Module, *, max_live: int = 64) -> ir.Module:
    """Keep temporaries of Withins that other Withins compute; at most `max_live` variables in each."""
    return map_bodies(module, _Extender(module, max_live).body)


class _Extender:
    def __init__(self, module: ir.Module, max_live: int) -> None:
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.max_live = max_live
        #: how often each variable becomes live; only a variable that does so once can live longer
        self.births: Counter[ir.Var] = Counter()

    def body(self, body: ir.Block) -> ir.Block:
        self.births = Counter(node.var for node in walk(body) if isinstance(node, ir.Local))
        return self.block(body)

    def block(self, block: ir.Block) -> ir.Block:
        """The block with every Within in it done, outer ones first: they save most."""
        return rebuilt(block, [self.node(node) for node in block])

    def node(self, node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Within) and any(isinstance(inner, ir.Within | ir.If) for inner in node.compute):
            keeping = _ExtendedWithin(self, clobbered_between(node, self.accesses))
            compute = keeping.block(node.compute)
            if keeping.room < self.max_live:
                node = node._replace(compute=compute)
        return map_children(node, self.block)


class _ExtendedWithin:
    """One Within that keeps temporaries of its compute block live. `changed`: variables and memory that differ when it is undone."""

    def __init__(self, extender: _Extender, changed: AccessSets) -> None:
        self.extender = extender
        self.changed = changed
        self.room = extender.max_live

    def block(self, block: Iterable[ir.Node]) -> ir.Block:
        """The compute block, with the kept temporaries in place."""
        out: list[ir.Node] = []
        for node in block:
            born: list[ir.Node] = []
            found = self.node(node, born)
            out += [*born, *found]
        return tuple(out)

    def node(self, node: ir.Node, born: list[ir.Node]) -> ir.Block:
        """The replacement of the statement; the locals that are kept go to `born`, as a branch cannot leave them live."""
        match node:
            case ir.Within(compute, body):
                values = self.extender.numbering.of(compute)
                taken = self.taken(values)
                if not any(value.weight for value in taken):
                    return (node,)
                statements = [s for value in taken for s in value.statements]
                born += [s for s in statements if isinstance(s, ir.Local)]
                kept = self.nodes([s for s in statements if not isinstance(s, ir.Local)], born)
                gone = {id(value) for value in taken}
                rest = tuple(s for value in values if id(value) not in gone for s in value.statements)
                # Nothing can be kept beyond the end of a Within that stays.
                return (*kept, node._replace(compute=rest)) if rest else (*kept, *self.nodes(body, born))
            case ir.If(test, then, orelse, post):
                if not self.changed.writes.isdisjoint((test.a, test.b, post.a, post.b)):
                    # Undone, it may take the other branch, which does not free the locals that this branch keeps.
                    return (node,)
                return (node._replace(then=self.nodes(then, born), orelse=self.nodes(orelse, born)),)
            case ir.Op() | ir.Local() | ir.Delocal() | ir.While() | ir.For() | ir.Call() | ir.Check() | ir.External():
                return (node,)

    def nodes(self, block: Iterable[ir.Node], born: list[ir.Node]) -> ir.Block:
        return tuple([new for node in block for new in self.node(node, born)])

    def taken(self, values: Iterable[NumberedValue]) -> list[NumberedValue]:
        """The values that can be kept, and for which there is room."""
        out: list[NumberedValue] = []
        numbers: set[int] = set()
        for value in values:
            if value.opaque or value.access.stack or not value.needs <= numbers or len(value.locals) > self.room:
                continue
            whole = any(isinstance(statement, ir.Delocal) for statement in value.statements)
            once = all(self.extender.births[var] == 1 for var in value.locals)
            if once and not whole and not self.changed.clobbers(value.access):
                self.room -= len(value.locals)
                out.append(value)
                numbers.add(value.number)
        return out
