"""extend_live_ranges: what a routine computes on its way is kept until the routine is undone, not computed again.

    Within((a, Within(c, d), e), b)             →  Within((a, c, d, e), b)
    Within((a, If(t, (Within(c, d),), f, t)), b) →  Within((a, locals of c, If(t, (c, d), f, t)), b)

Undoing (a, c; d; c⁻¹, e) runs c forward and backward once more: c four times, and 2ⁿ times what is n deep in others. Kept, it
runs twice. That may be where c changes nothing but its own locals, and b nothing that c reads, nor anything
by which (a, d, e) undone would change it: then c computes the same again. What is not so of c stays where it is.

A branch keeps nothing if b changes what its condition reads: undone, the other branch may be taken.

Traps become rarer, as c runs less often. Cotangents of what is kept meet before they are rounded.
Trap to avoid: this takes registers for steps (C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput. 18, 1989);
`max_live` are kept by one Within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between
from retrograd.compiler.ir.statements import (
    Block,
    Delocal,
    If,
    Local,
    Module,
    Node,
    Var,
    Within,
    children,
    with_children,
)
from retrograd.compiler.ir.traversal import map_bodies, walk
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering


def extend_live_ranges(module: Module, *, max_live: int = 64) -> Module:
    """Keep temporaries of Withins that other Withins compute; at most `max_live` variables in each."""
    keeper = _Keeper(module, max_live)
    return map_bodies(module, keeper.body)


class _Keeper:
    def __init__(self, module: Module, max_live: int) -> None:
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.max_live = max_live
        #: how often each variable becomes live; only what does so once can live longer
        self.births: Counter[Var] = Counter()

    def body(self, body: Block) -> Block:
        self.births = Counter(node.var for node in walk(body) if isinstance(node, Local))
        return self.block(body)

    def block(self, block: Block) -> Block:
        """The block with every Within in it done, outer ones first: they save most."""
        out = [self.node(node) for node in block]
        return block if all(x is y for x, y in zip(out, block, strict=True)) else tuple(out)

    def node(self, node: Node) -> Node:
        if isinstance(node, Within) and any(isinstance(inner, Within | If) for inner in node.compute):
            keeping = _Keeping(self, clobbered_between(node, self.accesses))
            compute = keeping.block(node.compute)
            if keeping.room < self.max_live:
                node = node._replace(compute=compute)
        inside = children(node)
        new = [self.block(block) for block in inside]
        return node if all(x is y for x, y in zip(new, inside, strict=True)) else with_children(node, new)


class _Keeping:
    """One Within that keeps what is computed in it. `changed`: what is not the same any more when it is undone."""

    def __init__(self, keeper: _Keeper, changed: AccessSets) -> None:
        self.keeper = keeper
        self.changed = changed
        self.room = keeper.max_live

    def block(self, block: Iterable[Node]) -> Block:
        """What the Within computes, with what it keeps in place."""
        out: list[Node] = []
        for node in block:
            born: list[Node] = []
            found = self.node(node, born)
            out += [*born, *found]
        return tuple(out)

    def node(self, node: Node, born: list[Node]) -> Block:
        """What stands in the statement's place; the locals that are kept go to `born`, as a branch cannot leave them."""
        match node:
            case Within(compute, body):
                values = self.keeper.numbering.of(compute)
                taken = self.taken(values)
                if not any(value.weight for value in taken):
                    return (node,)
                statements = [s for value in taken for s in value.statements]
                born += [s for s in statements if isinstance(s, Local)]
                kept = self.nodes([s for s in statements if not isinstance(s, Local)], born)
                gone = {id(value) for value in taken}
                rest = tuple(s for value in values if id(value) not in gone for s in value.statements)
                # In what stays a Within, nothing can be kept beyond its end.
                return (*kept, node._replace(compute=rest)) if rest else (*kept, *self.nodes(body, born))
            case If(test, then, orelse, post):
                if not self.changed.writes.isdisjoint((test.a, test.b, post.a, post.b)):
                    # Undone, it may take the other branch, which does not free what this one keeps.
                    return (node,)
                return (node._replace(then=self.nodes(then, born), orelse=self.nodes(orelse, born)),)
        return (node,)

    def nodes(self, block: Iterable[Node], born: list[Node]) -> Block:
        return tuple([new for node in block for new in self.node(node, born)])

    def taken(self, values: Iterable[NumberedValue]) -> list[NumberedValue]:
        """The values that can be kept, and for which there is room."""
        out: list[NumberedValue] = []
        numbers: set[int] = set()
        for value in values:
            if value.opaque or value.access.stack or not value.needs <= numbers or len(value.locals) > self.room:
                continue
            whole = any(isinstance(statement, Delocal) for statement in value.statements)
            once = all(self.keeper.births[var] == 1 for var in value.locals)
            if once and not whole and not self.changed.clobbers(value.access):
                self.room -= len(value.locals)
                out.append(value)
                numbers.add(value.number)
        return out
